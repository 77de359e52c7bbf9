//! Logs of device commands.

use crate::mem::args::CommandsFormat;
use anyhow::Context;
use nagori_memtime::dram::{Command, Issued};
use nagori_memtime::model::CommandPart;
use nagori_terminal::output::file::Staged;
use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Channel, rank, bank group, bank.
type Bank = (u16, u8, u8, u8);

/// A log being written.
pub struct Log {
    path: PathBuf,
    format: CommandsFormat,
    out: BufWriter<Staged>,
    /// Banks with an open row, for commands that close all of a rank.
    open: BTreeSet<Bank>,
    /// Part of each channel; empty if there is only one part.
    parts: Vec<String>,
}

impl Log {
    /// Begins a log. With several parts, our own format begins with a line for each, and has the
    /// part at the end of each line.
    pub fn create(
        path: &Path,
        format: CommandsFormat,
        parts: &[CommandPart],
    ) -> anyhow::Result<Log> {
        let mut log = Log {
            path: path.to_owned(),
            format,
            out: BufWriter::new(Staged::create(path).context("--commands")?),
            open: BTreeSet::new(),
            parts: Vec::new(),
        };
        if parts.len() > 1 && matches!(format, CommandsFormat::Nagori) {
            for p in parts {
                let first = log.parts.len();
                log.parts
                    .resize(first + usize::from(p.channels), p.name.clone());
                let last = log.parts.len() - 1;
                writeln!(
                    log.out,
                    "# {}: channels {first} to {last}, clocks of {}",
                    p.name, p.clock
                )
                .with_context(|| format!("cannot write {}", log.path.display()))?;
            }
        }
        Ok(log)
    }

    /// Writes commands.
    pub fn add(&mut self, commands: &[Issued]) -> anyhow::Result<()> {
        for c in commands {
            match self.format {
                CommandsFormat::Nagori => match self.parts.get(usize::from(c.channel)) {
                    Some(part) => writeln!(self.out, "{c} {part}"),
                    None => writeln!(self.out, "{c}"),
                },
                CommandsFormat::Dramsim3 => self.dramsim3(c),
            }
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        }
        Ok(())
    }

    /// DRAMsim3 has no command for all banks of a rank except refresh: a precharge of all banks
    /// becomes one for each open bank.
    fn dramsim3(&mut self, c: &Issued) -> std::io::Result<()> {
        let bank = (c.channel, c.rank, c.bank_group, c.bank);
        let name = match c.op {
            Command::Act => {
                self.open.insert(bank);
                "activate"
            }
            Command::Pre => {
                self.open.remove(&bank);
                "precharge"
            }
            Command::PreAll => {
                let of_rank = |b: &Bank| (b.0, b.1) == (c.channel, c.rank);
                let closed: Vec<Bank> = self.open.iter().copied().filter(of_rank).collect();
                for b in closed {
                    self.open.remove(&b);
                    dramsim3_line(&mut self.out, c, "precharge", b)?;
                }
                return Ok(());
            }
            Command::Rd => "read",
            Command::RdA => {
                self.open.remove(&bank);
                "read_p"
            }
            Command::Wr => "write",
            Command::WrA => {
                self.open.remove(&bank);
                "write_p"
            }
            Command::RefAll => "refresh",
            Command::RefBank => "refresh_bank",
            // DRAMsim3 has no pauses of cell writes.
            Command::Pause | Command::Resume => return Ok(()),
        };
        dramsim3_line(&mut self.out, c, name, bank)
    }

    /// Ends the log.
    pub fn finish(self) -> anyhow::Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        let file = self.out.into_inner().map_err(|e| e.into_error());
        file.with_context(failed)?.finish()
    }
}

fn dramsim3_line(out: &mut impl Write, c: &Issued, name: &str, b: Bank) -> std::io::Result<()> {
    writeln!(
        out,
        "{:<18} {name:<20} {:>3} {:>3} {:>3} {:>3} {:>#8x} {:>#8x}",
        c.clock, b.0, b.1, b.2, b.3, c.row, c.column
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_dramsim3() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = Log::create(&path, CommandsFormat::Dramsim3, &[]).unwrap();
        let c = |clock, op, bank| Issued {
            clock,
            op,
            channel: 0,
            rank: 1,
            bank_group: 2,
            bank,
            row: 0x1f,
            column: 3,
        };
        let all = [
            c(10, Command::Act, 0),
            c(12, Command::Act, 3),
            c(21, Command::RdA, 0),
            c(30, Command::PreAll, 0),
        ];
        log.add(&all).unwrap();
        log.finish().unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "10                 activate               0   1   2   0     0x1f      0x3"
        );
        assert_eq!(lines.len(), 4);
        assert!(lines[2].contains(" read_p "));
        // Bank 3 only: bank 0 was closed by auto-precharge.
        assert!(
            lines[3].starts_with("30 ")
                && lines[3].contains("precharge              0   1   2   3")
        );
    }
}
