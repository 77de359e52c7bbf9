//! What a run is asked for, as a list of arguments.

use crate::error::Error;
use std::path::PathBuf;

/// The arguments that are understood.
pub const USAGE: &str = "\
usage: PROGRAM --machine NAME|FILE [--set KEY=VALUE]... [options] ELF
  --max-cycles N   stop after so many clocks (100000000)
  --ordered        accept no read while a write has no response, as a hub does that waits for it
  --report FILE    cycles, instructions and labels as JSON
  --trace FILE     a line for each instruction
  --bus FILE       a line for each line transferred";

/// What a run is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Name or file of the machine's description.
    pub machine: String,
    /// Values of the description, as `key=value`.
    pub settings: Vec<String>,
    /// The program.
    pub program: PathBuf,
    /// Clocks after which the run is stopped.
    pub max_cycles: u64,
    /// Whether no read is accepted while a write has no response.
    pub ordered: bool,
    /// File for the report.
    pub report: Option<PathBuf>,
    /// File for the trace of instructions.
    pub trace: Option<PathBuf>,
    /// File for the trace of the memory port.
    pub bus: Option<PathBuf>,
}

impl Options {
    /// Understands a list of arguments, without the program's name.
    pub fn parse(arguments: &[String]) -> Result<Options, Error> {
        let usage = |problem: String| Error::Usage(format!("{problem}\n{USAGE}"));
        let mut o = Options {
            max_cycles: 100_000_000,
            ..Options::default()
        };
        let mut rest = arguments.iter();
        while let Some(a) = rest.next() {
            let mut value = || {
                let missing = || usage(format!("{a}: its value is missing"));
                rest.next().cloned().ok_or_else(missing)
            };
            match a.as_str() {
                "--machine" => o.machine = value()?,
                "--set" => o.settings.push(value()?),
                "--ordered" => o.ordered = true,
                "--report" => o.report = Some(value()?.into()),
                "--trace" => o.trace = Some(value()?.into()),
                "--bus" => o.bus = Some(value()?.into()),
                "--max-cycles" => {
                    let v = value()?;
                    o.max_cycles = v
                        .parse()
                        .map_err(|_| usage(format!("{a} {v}: a number is expected")))?;
                }
                _ if a.starts_with('-') => return Err(usage(format!("{a}: no such option"))),
                _ if o.program.as_os_str().is_empty() => o.program = a.into(),
                _ => return Err(usage(format!("{a}: there is a program already"))),
            }
        }
        if o.machine.is_empty() || o.program.as_os_str().is_empty() {
            return Err(usage("a machine and a program are needed".into()));
        }
        Ok(o)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, Error> {
        let words: Vec<String> = text.split_whitespace().map(String::from).collect();
        Options::parse(&words)
    }

    #[test]
    fn options_are_understood() {
        let o = parse(
            "--machine rocket --set a=1 --set b=2 --ordered --bus b.txt --max-cycles 9 p.elf",
        );
        let o = o.expect("the arguments are right");
        assert_eq!(
            (o.machine.as_str(), o.max_cycles, o.ordered),
            ("rocket", 9, true)
        );
        assert_eq!(o.settings, ["a=1", "b=2"]);
        assert_eq!(o.program, PathBuf::from("p.elf"));
        assert_eq!((o.report, o.trace), (None, None));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, problem) in [
            ("p.elf", "a machine and a program"),
            ("--machine rocket", "a machine and a program"),
            ("--machine", "--machine: its value is missing"),
            ("--machine m --max-cycles many p.elf", "--max-cycles many"),
            ("--machine m --fast p.elf", "--fast: no such option"),
            (
                "--machine m a.elf b.elf",
                "b.elf: there is a program already",
            ),
        ] {
            let e = parse(text).expect_err(text).to_string();
            assert!(e.contains(problem) && e.contains("usage:"), "{text}: {e}");
        }
    }
}
