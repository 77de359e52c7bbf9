//! `nagori ctl`: asks a running machine.

use anyhow::{bail, Context};
use clap::{Args, Subcommand};
use nagori_remote::api::{self, Dumped, Parameters, Set, SetValue, Stands, State, Status, Written};
use nagori_remote::client::Client;
use nagori_terminal::numbers::{count, size};
use nagori_terminal::output::file;
use nagori_terminal::output::{self, Exit};
use nagori_terminal::tables::{grouped, row, table, text};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{json, Value};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  nagori boot --control /tmp/nagori.sock
  nagori ctl /tmp/nagori.sock status
  nagori ctl /tmp/nagori.sock set method=extended added_rcd='300 ns'
  nagori ctl /tmp/nagori.sock statistics --json | jq .report
  nagori ctl /tmp/nagori.sock pause
  nagori ctl /tmp/nagori.sock dump 0x80000000 256

The socket speaks JSON-RPC 2.0, one message a line: see `nagori ctl SOCKET schema`.";

/// Ask a running machine, or change it.
///
/// The machine was started with --control SOCKET.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CtlArgs {
    /// The machine's control socket.
    #[arg(value_name = "SOCKET")]
    pub socket: PathBuf,
    /// The answer as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to ask.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// What a machine can be asked.
#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Show the state of the machine.
    Status,
    /// Stop the machine between two instructions.
    Pause,
    /// Let it go on.
    Resume,
    /// The statistics so far.
    Statistics,
    /// Reset the statistics.
    ResetStatistics,
    /// Keep the statistics so far under a label, for the report at the end.
    DumpStatistics {
        /// A number.
        #[arg(value_name = "LABEL", default_value_t = 0, value_parser = count::<u64>(..))]
        label: u64,
    },
    /// All parameters that can be set, with units.
    Parameters,
    /// Set parameters: all of them, or none if one is refused.
    Set {
        /// A parameter and its value, such as method=fine or added_rcd='300 ns'.
        #[arg(value_name = "NAME=VALUE", required = true)]
        values: Vec<String>,
    },
    /// Write the whole machine to a file.
    Snapshot {
        /// The file; an old one is replaced.
        #[arg(value_name = "FILE")]
        path: PathBuf,
    },
    /// Show memory, or write it to a file; the guest does not notice.
    Dump {
        /// First address, in hexadecimal with 0x; a physical one.
        #[arg(value_name = "ADDRESS", value_parser = size)]
        address: u64,
        /// How many bytes.
        #[arg(value_name = "LENGTH", value_parser = size)]
        length: u64,
        /// File for the bytes; without one they are printed.
        #[arg(value_name = "FILE")]
        path: Option<PathBuf>,
        /// The address is a virtual one of this hart, as it runs now.
        #[arg(long, value_name = "N", value_parser = count::<u64>(..))]
        hart: Option<u64>,
    },
    /// Restart harts and devices; memory is kept.
    Reset,
    /// Cut the power, and start again: only what has reached NVMM is kept.
    PowerCut,
    /// Cut the power at a point that is still to come, and start again.
    PowerCutAt {
        /// The point, as `--power-cut-at` takes it.
        #[arg(value_name = "WHEN")]
        when: String,
    },
    /// End the run.
    Quit,
    /// Print the JSON schemas of all messages; needs no machine.
    Schema,
}

/// Runs the command.
pub fn command(a: &CtlArgs) -> anyhow::Result<Exit> {
    use CtlCommand::*;
    if matches!(a.command, Schema) {
        output::print_json(&api::schemas())?;
        return Ok(output::SUCCESS);
    }
    let none = json!({});
    let (method, params) = match &a.command {
        Status => ("status", none),
        Pause => ("pause", none),
        Resume => ("resume", none),
        Statistics => ("statistics", none),
        ResetStatistics => ("reset_statistics", none),
        DumpStatistics { label } => ("dump_statistics", pack(api::Label { label: *label })?),
        Parameters => ("parameters", none),
        Set { values } => ("set", pack(assignments(values)?)?),
        Snapshot { path } => {
            let path = place(path)?;
            ("snapshot", pack(api::Snapshot { path })?)
        }
        Dump {
            address,
            length,
            path,
            hart,
        } => {
            let path = path.as_deref().map(place).transpose()?;
            let (address, length, hart) = (*address, *length, *hart);
            (
                "dump",
                pack(api::Dump {
                    address,
                    length,
                    hart,
                    path,
                })?,
            )
        }
        Reset => ("reset", none),
        PowerCut => ("power_cut", none),
        PowerCutAt { when } => {
            let when = when.clone();
            ("power_cut_at", pack(api::PowerCutAt { when })?)
        }
        Quit => ("quit", none),
        Schema => ("schema", none),
    };
    let mut client = Client::connect(&a.socket)?;
    let answer = client.ask(method, params)?;
    if a.json {
        output::print_json(&answer)?;
        return Ok(output::SUCCESS);
    }
    let shown = match a.command {
        Status => status(&unpack(answer)?),
        Statistics => unpack::<api::Statistics>(answer)?.table,
        Parameters | Set { .. } => parameters(&unpack(answer)?),
        Snapshot { .. } => {
            let w: Written = unpack(answer)?;
            format!("{}: {} bytes\n", w.path, grouped(w.bytes))
        }
        Dump { .. } => dump(&unpack(answer)?)?,
        PowerCut => {
            let l: api::Lost = unpack(answer)?;
            format!(
                "cut at {} ns, behind {} instructions: {} lines of NVMM lost in caches, {} writes in the controller\n",
                grouped(l.time_ns),
                grouped(l.instructions),
                l.lost_lines,
                l.lost_writes
            )
        }
        _ => {
            let s: Stands = unpack(answer)?;
            format!("{} at {} ns\n", state(s.state), grouped(s.time_ns))
        }
    };
    output::print(&shown)?;
    Ok(output::SUCCESS)
}

fn pack(of: impl Serialize) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(of)?)
}

fn unpack<T: DeserializeOwned>(answer: Value) -> anyhow::Result<T> {
    serde_json::from_value(answer)
        .context("the machine's answer has another form: is it of another version of nagori?")
}

fn assignments(values: &[String]) -> anyhow::Result<Set> {
    let mut set = Set::default();
    for text in values {
        let Some((name, value)) = text.split_once('=') else {
            bail!("`{text}`: expected NAME=VALUE, such as method=fine");
        };
        let value = SetValue::Text(value.trim().to_string());
        if set.values.insert(name.trim().to_string(), value).is_some() {
            bail!("`{}` is given twice", name.trim());
        }
    }
    Ok(set)
}

/// The path of a file in a form that the machine's process can use.
fn place(path: &std::path::Path) -> anyhow::Result<String> {
    if file::is_stdout(path) {
        bail!("the file is written by the machine's process, so it cannot go to standard output; `./-` is a file of \
            that name");
    }
    let full = std::path::absolute(path).context("the file's path cannot be completed")?;
    match full.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(_) => bail!("{}: the path is no UTF-8", path.display()),
    }
}

/// Memory as lines of 16 bytes with their address, or where it was written.
fn dump(d: &Dumped) -> anyhow::Result<String> {
    let Some(data) = &d.data else {
        let path = d.path.as_deref().unwrap_or_default();
        return Ok(format!("{path}: {} bytes\n", grouped(d.length)));
    };
    let digits = data.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let bytes = bytes.context("the machine's answer holds no bytes")?;
    let mut out = String::new();
    for (i, line) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        let shown = |b: &u8| {
            if matches!(b, b' '..=b'~') {
                char::from(*b)
            } else {
                '.'
            }
        };
        let text: String = line.iter().map(shown).collect();
        let address = d.address.wrapping_add(16 * i as u64);
        out.push_str(&format!("{address:016x}  {:47}  |{text}|\n", hex.join(" ")));
    }
    Ok(out)
}

fn state(s: State) -> &'static str {
    match s {
        State::Running => "running",
        State::Paused => "paused",
        State::Held => "held by a debugger",
    }
}

fn status(s: &Status) -> String {
    let mode = if s.timed { "timed" } else { "functional" };
    let mut out = format!(
        "{}, {mode}, method {}, {} ns of guest time, {} instructions\n\n",
        state(s.state),
        s.method,
        grouped(s.time_ns),
        grouped(s.instructions)
    );
    let mut t = table(["hart", "pc", "privilege", "state", "cycles", "instructions"]);
    for h in &s.harts {
        let cells = [
            h.hart.to_string(),
            format!("{:#x}", h.pc),
            h.privilege.clone(),
            if h.waiting { "waits" } else { "runs" }.into(),
            grouped(h.cycles),
            grouped(h.instructions),
        ];
        row(&mut t, cells);
    }
    out.push_str(&text(&t));
    out
}

fn parameters(p: &Parameters) -> String {
    let mut t = table(["parameter", "value", "unit", "time"]);
    for (name, p) in &p.parameters {
        let value = match &p.name {
            Some(name) => name.clone(),
            None if p.unit == "address" => format!("{:#x}", p.value),
            None => p.value.to_string(),
        };
        let time =
            p.ps.map_or(String::new(), |ps| format!("{} ns", ps as f64 / 1e3));
        row(&mut t, [name.clone(), value, p.unit.clone(), time]);
    }
    text(&t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_taken_apart() {
        let given = ["method=fine".to_string(), "added_rcd = 300 ns".into()];
        let set = assignments(&given).unwrap();
        assert_eq!(set.values["added_rcd"], SetValue::Text("300 ns".into()));
        assert!(assignments(&["method".into()]).is_err());
        assert!(assignments(&["a=1".into(), "a=2".into()]).is_err());
    }

    #[test]
    fn memory_is_shown_in_lines() {
        let d = Dumped {
            address: 0x8000_0000,
            length: 18,
            path: None,
            data: Some("4142".repeat(8) + "00ff"),
        };
        let first =
            "0000000080000000  41 42 41 42 41 42 41 42 41 42 41 42 41 42 41 42  |ABABABABABABABAB|";
        let text = dump(&d).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], first);
        assert!(lines[1].starts_with("0000000080000010  00 ff  ") && lines[1].ends_with("|..|"));
        assert_eq!(size("0x8000_0000"), Ok(0x8000_0000));
        assert_eq!(size("16"), Ok(16));
        assert!(size("ten").is_err() && size("-1").is_err());
    }

    #[test]
    fn every_method_has_a_command() {
        use clap::Subcommand;
        let c = CtlCommand::augment_subcommands(clap::Command::new("ctl"));
        for m in api::METHODS {
            let name = m.name.replace('_', "-");
            assert!(c.find_subcommand(&name).is_some(), "{name}");
        }
    }
}
