//! Names of functions in a report of `nagori crash`.

use super::args::ExploreArgs;
use crate::profiling;
use anyhow::Context;
use nagori_crash::{Frame, Report, Resolve};
use nagori_profile::Symbols;
use nagori_session::crash::Recorded;
use nagori_session::program::Executable;
use serde_json::{json, Value};

/// Frames of a stack that are named.
const SHOWN: usize = 12;

/// Symbols of the programs in the guest.
pub struct Names(Symbols);

/// A frame in words.
pub fn frame(f: &Frame) -> String {
    let mut text = format!("{:#x}", f.pc);
    if let Some((name, offset)) = &f.symbol {
        text = format!("{name}+{offset:#x} ({text})");
    }
    if let Some((file, line)) = &f.source {
        text.push_str(&format!(" {file}:{line}"));
    }
    text
}

impl Names {
    /// Those of `--file` and `--symbols`.
    pub fn new(a: &ExploreArgs) -> anyhow::Result<Names> {
        let mut symbols = Symbols::default();
        for given in &a.symbols {
            profiling::add(&mut symbols, given).context("--symbols")?;
        }
        for f in &a.file {
            let name = f.file.to_string_lossy();
            let name = match name.contains('/') {
                true => name.into_owned(),
                false => format!("./{name}"),
            };
            // Data files are no programs.
            let found = Executable::find(&name).ok().and_then(|e| e.symbols());
            if let Some(given) = found {
                // A stripped program has no names.
                let _ = profiling::add(&mut symbols, &given);
            }
        }
        Ok(Names(symbols))
    }

    /// Names the stores of a report and their callers.
    pub fn put(&self, report: &mut Report) {
        for s in report.findings.iter_mut().flat_map(|f| &mut f.stores) {
            let own = std::iter::once(s.site.pc);
            // The call is before the address to which it returns.
            let callers = s.site.stack.iter().map(|a| a.wrapping_sub(1));
            let all = own.chain(callers).take(SHOWN);
            s.frames = all.map(|pc| self.resolve(s.site.process, pc)).collect();
        }
    }

    /// The warnings of a workload, as JSON.
    pub fn warnings(&self, recorded: &Recorded) -> Vec<Value> {
        let place = |id| {
            let site = recorded.sites.get(id)?;
            Some(frame(&self.resolve(site.process, site.pc)))
        };
        { recorded.warnings.iter() }
            .map(|w| {
                json!({
                    "kind": w.kind,
                    "count": w.count,
                    "place": place(w.site),
                    "seen_at": w.seen_at.and_then(place),
                    "line": w.line,
                })
            })
            .collect()
    }
}

impl Resolve for Names {
    fn resolve(&self, _process: u64, pc: u64) -> Frame {
        let symbol = self.0.lookup(pc);
        Frame {
            pc,
            symbol: symbol.map(|s| (s.name.clone(), pc - s.start)),
            source: None,
        }
    }
}
