//! Names of functions in a report of `nagori crash`.

use super::args::ExploreArgs;
use crate::profiling::{self, Named};
use anyhow::Context;
use nagori_crash::{Frame, Resolve, Symbol};
use nagori_profile::{Lines, Symbols};
use nagori_ram::GuestRam;
use nagori_session::program::Executable;

/// Symbols of the programs in the guest.
pub struct Names(Symbols, Lines);

/// A frame in words.
pub fn frame(f: &Frame) -> String {
    let mut text = format!("{:#x}", f.pc);
    if let Some(s) = &f.symbol {
        text = format!("{}+{:#x} ({text})", s.name, s.offset);
    }
    if let Some((file, line)) = &f.source {
        text.push_str(&format!(" {file}:{line}"));
    }
    text
}

impl Names {
    /// Symbols and lines of the files that `--file` and `--symbols` name.
    pub fn new(a: &ExploreArgs) -> anyhow::Result<Names> {
        let (mut symbols, mut lines) = (Symbols::default(), Lines::default());
        for given in &a.symbols {
            let file = Named::read(given).context("--symbols")?;
            file.symbols(&mut symbols).context("--symbols")?;
            file.lines(&mut lines, &a.debug_dir).context("--symbols")?;
        }
        for f in &a.file {
            let name = f.file.to_string_lossy();
            let name = if name.contains('/') {
                name.into_owned()
            } else {
                format!("./{name}")
            };
            // Data files are no programs.
            let found = Executable::find(&name).ok().and_then(|e| e.symbols());
            if let Some(Ok(file)) = found.as_deref().map(Named::read) {
                // A stripped program has no names.
                let _ = file.symbols(&mut symbols);
                let _ = file.lines(&mut lines, &a.debug_dir);
            }
        }
        Ok(Names(symbols, lines))
    }

    /// Adds the functions of the kernel in a machine's memory.
    pub fn add_kernel(&mut self, memory: &GuestRam) {
        profiling::add_kernel(&mut self.0, memory);
    }
}

impl Resolve for Names {
    fn resolve(&self, _process: u64, pc: u64) -> Frame {
        let symbol = self.0.lookup(pc);
        Frame {
            pc,
            symbol: symbol.map(|s| Symbol {
                name: s.name.clone(),
                offset: pc - s.start,
            }),
            source: self
                .1
                .lookup(pc)
                .map(|(file, line)| (file.to_string(), line)),
        }
    }
}
