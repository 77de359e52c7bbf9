//! Package files (deb(5)): an ar archive of a version, a compressed tar archive with descriptions and scripts, and one
//! with what is installed.

use crate::error::Error;
use lzma_rust2::XzReaderMt;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

const MAGIC: &[u8] = b"!<arch>\n";
/// Bytes of the head of a member.
const HEAD: usize = 60;
/// Threads that unpack a large archive.
const THREADS: usize = 4;
/// Most bytes of an archive in a package, uncompressed: no package of Debian has a tenth of it.
const LARGEST: u64 = 64 << 30;

/// One of the two archives in a package file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What is installed.
    Files,
    /// Description and maintainer scripts.
    Control,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Files => "data.tar",
            Part::Control => "control.tar",
        }
    }
}

/// The regular files of package file `deb` whose paths (without a leading `./`) `wanted` selects.
pub fn files(
    deb: &Path,
    part: Part,
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    read(deb, part, |tar| {
        pick(tar, wanted).map_err(|e| odd(deb, &format!("{}: {e}", part.name())))
    })
}

/// Passes an archive of package file `deb`, uncompressed, to `reader`.
pub fn read<T, E: From<Error>>(
    deb: &Path,
    part: Part,
    reader: impl FnOnce(&mut dyn Read) -> Result<T, E>,
) -> Result<T, E> {
    let wrong = |e: io::Error| odd(deb, &format!("{}: {e}", part.name()));
    let mut tar = open(deb, part)?.take(LARGEST);
    let result = reader(&mut tar)?;
    // The checksums of what was read are at the end.
    io::copy(&mut tar, &mut io::sink()).map_err(wrong)?;
    if tar.limit() == 0 {
        return Err(odd(
            deb,
            &format!("{} is larger than {LARGEST} bytes", part.name()),
        )
        .into());
    }
    Ok(result)
}

/// Writes package file `deb` to `to` with uncompressed archives.
pub fn uncompressed(deb: &Path, to: &mut File) -> Result<(), Error> {
    let wrong = |e: io::Error| odd(deb, &format!("cannot be written uncompressed: {e}"));
    to.write_all(MAGIC).map_err(wrong)?;
    member(to, "debian-binary", &mut &b"2.0\n"[..]).map_err(wrong)?;
    for part in [Part::Control, Part::Files] {
        read(deb, part, |tar| member(to, part.name(), tar).map_err(wrong))?;
    }
    Ok(())
}

/// Appends a member to an ar archive.
fn member(out: &mut File, name: &str, content: &mut dyn Read) -> io::Result<()> {
    let head = |size: u64| {
        format!(
            "{name:<16}{0:<12}{0:<6}{0:<6}{1:<8}{size:<10}`\n",
            0, 100_644
        )
    };
    let at = out.stream_position()?;
    out.write_all(head(0).as_bytes())?;
    let size = io::copy(content, out)?;
    if size % 2 == 1 {
        out.write_all(b"\n")?;
    }
    out.seek(SeekFrom::Start(at))?;
    out.write_all(head(size).as_bytes())?;
    out.seek(SeekFrom::End(0)).map(drop)
}

fn odd(deb: &Path, why: &str) -> Error {
    Error::Deb {
        file: deb.to_path_buf(),
        why: why.to_string(),
    }
}

/// An archive of a package file, uncompressed.
fn open(deb: &Path, part: Part) -> Result<Box<dyn Read>, Error> {
    let wrong = |e: io::Error| odd(deb, &e.to_string());
    let mut file = File::open(deb).map_err(wrong)?;
    let (name, start, size) = find(&mut file, part).map_err(|why| odd(deb, &why))?;
    let section = Section::new(file, start, size).map_err(wrong)?;
    Ok(match &name[part.name().len()..] {
        "" => Box::new(section),
        ".gz" => Box::new(flate2::read::GzDecoder::new(section)),
        ".zst" => Box::new(zstd::Decoder::new(section).map_err(wrong)?),
        ".xz" => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let threads = threads.min(THREADS) as u32;
            Box::new(XzReaderMt::new(section, false, threads).map_err(wrong)?)
        }
        other => {
            return Err(odd(
                deb,
                &format!("{name}: archives with the ending {other} are not known"),
            ))
        }
    })
}

/// Name, start and size of the member with an archive.
fn find(file: &mut File, part: Part) -> Result<(String, u64, u64), String> {
    let io = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => "it is cut off".to_string(),
        _ => e.to_string(),
    };
    let length = file.metadata().map_err(io)?.len();
    let mut magic = [0; 8];
    file.read_exact(&mut magic).map_err(io)?;
    if magic != MAGIC {
        return Err("it is no package file: it does not begin as an ar archive".into());
    }
    let mut at = 8;
    let mut first = true;
    while at < length {
        let mut head = [0; HEAD];
        file.seek(SeekFrom::Start(at)).map_err(io)?;
        file.read_exact(&mut head).map_err(io)?;
        let text = std::str::from_utf8(&head).map_err(|_| "the head of a member is no text")?;
        if !text.is_ascii() || &text[58..] != "`\n" {
            return Err(format!("no member begins at byte {at}"));
        }
        let name = text[..16].trim_end().trim_end_matches('/');
        let size: u64 = text[48..58]
            .trim_end()
            .parse()
            .map_err(|_| format!("the size of its member {name} is no number"))?;
        let start = at + HEAD as u64;
        if size > length - start {
            return Err(format!("it is cut off within {name}"));
        }
        if first {
            let mut version = Vec::new();
            file.take(size.min(16))
                .read_to_end(&mut version)
                .map_err(io)?;
            if name != "debian-binary" || !version.starts_with(b"2.") {
                return Err("it is no package file of version 2".into());
            }
            first = false;
        } else if name == part.name()
            || name
                .strip_prefix(part.name())
                .is_some_and(|r| r.starts_with('.'))
        {
            return Ok((name.to_string(), start, size));
        }
        at = start + size + size % 2;
    }
    Err(format!("it has no {}", part.name()))
}

/// A part of a file, as a file.
struct Section {
    file: File,
    start: u64,
    size: u64,
    at: u64,
}

impl Section {
    fn new(mut file: File, start: u64, size: u64) -> io::Result<Section> {
        file.seek(SeekFrom::Start(start))?;
        Ok(Section {
            file,
            start,
            size,
            at: 0,
        })
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.at);
        let length = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = self.file.read(&mut buffer[..length])?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Section {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(n) => Some(n),
            SeekFrom::End(n) => self.size.checked_add_signed(n),
            SeekFrom::Current(n) => self.at.checked_add_signed(n),
        };
        let inside = at.and_then(|at| Some((at, self.start.checked_add(at)?)));
        let (at, whole) = inside.ok_or(io::ErrorKind::InvalidInput)?;
        self.file.seek(SeekFrom::Start(whole))?;
        self.at = at;
        Ok(at)
    }
}

fn pick(tar: impl Read, wanted: impl Fn(&str) -> bool) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let path = path.strip_prefix("./").unwrap_or(&path);
        if wanted(path) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            found.insert(path.to_string(), bytes);
        }
    }
    Ok(found)
}

#[cfg(test)]
#[path = "deb_tests.rs"]
mod tests;
