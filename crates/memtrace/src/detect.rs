//! How the formats of traces are recognised.

use crate::format::Format;
use crate::{binary, gem5, text};

impl Format {
    /// The format of a (decompressed) file that begins with `head`. Each is recognised by a magic
    /// number or by the form of the first line that is not blank.
    pub fn detect(head: &[u8]) -> Option<Format> {
        if head.starts_with(&binary::MAGIC) {
            return Some(Format::Nagori);
        }
        if head.starts_with(&gem5::MAGIC) {
            return Some(Format::Gem5);
        }
        let line = first_line(head);
        if line.is_empty() {
            return None;
        }
        if text::is_nvmain_version(line) {
            return Some(Format::Nvmain);
        }
        Format::ALL
            .into_iter()
            .filter(|f| f.is_text())
            .find(|&f| text::fits(f, line))
    }
}

/// The first line of a text that is not blank, trimmed; empty if there is none.
pub(crate) fn first_line(text: &[u8]) -> &[u8] {
    let mut lines = text.split(|&b| b == b'\n').map(|l| l.trim_ascii());
    lines.find(|l| !l.is_empty()).unwrap_or_default()
}
