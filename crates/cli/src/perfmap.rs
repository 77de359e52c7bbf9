//! `--perf-map`: addresses of translated code, in the format of Linux perf.

use crate::args::RunArgs;
use anyhow::{bail, Context};
use nagori_machine::{Engine, Machine, Piece};
use nagori_platform::loader::Symbols;
use nagori_terminal::output::Messages;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Has the machine keep the data for the map.
pub fn prepare(machine: &mut Machine, args: &RunArgs) -> anyhow::Result<()> {
    if matches!(args.engine(), Engine::Interpreter) {
        bail!("--perf-map: the interpreter has no translated code (use --engine translator)");
    }
    if args.trace_file.is_some() {
        bail!("--perf-map: with a trace every instruction is interpreted (leave --trace away)");
    }
    machine.keep_translated();
    Ok(())
}

/// Writes the map of this process.
pub fn write(machine: &Machine, symbols: &Symbols, messages: &Messages) -> anyhow::Result<()> {
    let path = PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
    let mut map = String::new();
    let mut n = 0u64;
    for (hart, piece) in machine.translated() {
        map.push_str(&line(hart, piece, symbols));
        n += 1;
    }
    create(&path, &map).with_context(|| format!("cannot write {}", path.display()))?;
    messages.note(&format!("{}: {n} blocks", path.display()));
    let stats = machine.translator_stats();
    let emptied: u64 = stats.iter().map(|s| s.emptied).sum();
    if emptied > 0 {
        messages.warning(&format!(
            "the code memory was emptied {emptied} times: blocks dropped then are not in the map"
        ));
    }
    Ok(())
}

/// A new file: an existing one might belong to somebody else.
fn create(path: &Path, text: &str) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut f = OpenOptions::new().write(true).create_new(true).open(path)?;
    f.write_all(text.as_bytes())
}

/// Start, size, name.
fn line(hart: usize, p: &Piece, symbols: &Symbols) -> String {
    let mode = if p.timed { "timed" } else { "functional" };
    let mut out = format!(
        "{:x} {:x} hart{hart}:{mode}:{:#x}",
        p.address, p.bytes, p.pc
    );
    // Writing to a string does not fail.
    let _ = match symbols.lookup(p.pc) {
        Some((name, 0)) => write!(out, ":{name}"),
        Some((name, more)) => write!(out, ":{name}+{more:#x}"),
        None => Ok(()),
    };
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_perf_wants_it() {
        let p = Piece {
            address: 0x7f00_1230,
            bytes: 0x4c,
            pc: 0x8000_0010,
            timed: true,
        };
        let text = line(2, &p, &Symbols::default());
        assert_eq!(text, "7f001230 4c hart2:timed:0x80000010\n");
    }

    #[test]
    fn a_link_that_somebody_left_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("map"));
        std::fs::write(&target, "mine").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        create(&link, "1 2 x\n").unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "1 2 x\n");
    }
}
