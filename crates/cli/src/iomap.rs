//! `nagori iomap`: tables that translate I/O addresses.

use anyhow::{bail, Context};
use clap::{Args, Subcommand};
use nagori_iomap::merge::{merge, Merged};
use nagori_iomap::ports::{parse, Ports};
use nagori_iomap::{verilog, MAX_ENTRIES};
use nagori_terminal::numbers::size;
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::tables::{grouped, row, table, text};
use serde_json::{json, Value};
use std::io::Read;
use std::path::PathBuf;

/// Longest list that is read.
const MAX_LIST_BYTES: u64 = 64 << 20;
/// Largest number of unlisted bytes an entry that the summary tries.
const MOST_SLACK: u64 = 1 << 16;

/// Work with tables that translate the I/O addresses of virtual machines.
#[derive(Debug, Subcommand)]
pub enum IomapCommand {
    Merge(MergeArgs),
}

const MERGE_EXAMPLES: &str = "\
Examples:
  nagori iomap merge ports.txt
  nagori iomap merge ports.txt --slack 64 --verilog soc_io_map.sv
  echo '0x92000000 0x40001000 4 x256' | nagori iomap merge - --json

A list has one port a line; # begins a comment:
  FROM [TO SIZE] [xCOUNT] [vm=N] [r|w|rw]
  keep TO SIZE
FROM is the address that the virtual machine uses, TO that on the bus, SIZE in bytes; without these
two, 4 bytes at the same address. xCOUNT stands for so many ports one behind the other. `keep` names ports of the
bus that no virtual machine may reach.";

/// Find the fewest table entries for a list of I/O ports.
///
/// An entry maps an aligned range of a power of two of bytes, at least 4. The entries give away no
/// port that is not listed. By default every address that is not listed counts as such a port; with
/// --slack an entry may hold some that are not, except those that are kept, or listed for another
/// virtual machine or with fewer rights. No smaller number of entries does the same, and of all
/// choices of so few entries it is the one that gives away least.
#[derive(Debug, Args)]
#[command(after_long_help = MERGE_EXAMPLES)]
pub struct MergeArgs {
    /// The list, or `-` for stdin.
    #[arg(value_name = "FILE|-")]
    pub ports: PathBuf,
    /// Bytes that are not listed and that an entry of more than 4 bytes may hold at most.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = size)]
    pub slack: u64,
    /// Write the table with these entries, constant, as a SystemVerilog module.
    ///
    /// It has the file's name and instantiates rtl/io_map.sv.
    #[arg(long, value_name = "FILE.sv|-")]
    pub verilog: Option<PathBuf>,
    /// A JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn command(command: &IomapCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match command {
        IomapCommand::Merge(a) => merge_ports(a, messages),
    }
}

/// The list's name in messages.
fn name(a: &MergeArgs) -> String {
    match a.ports.to_str() {
        Some("-") => "standard input".into(),
        _ => a.ports.display().to_string(),
    }
}

fn read(a: &MergeArgs) -> anyhow::Result<String> {
    let name = name(a);
    let file: Box<dyn Read> = match a.ports.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => {
            Box::new(std::fs::File::open(&a.ports).with_context(|| format!("cannot read {name}"))?)
        }
    };
    let mut bytes = Vec::new();
    let read = file.take(MAX_LIST_BYTES + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > MAX_LIST_BYTES {
        bail!("{name}: more than {} MiB", MAX_LIST_BYTES >> 20);
    }
    String::from_utf8(bytes).with_context(|| format!("{name}: not a text file"))
}

/// The name of the module in a file.
fn module(a: &MergeArgs) -> anyhow::Result<Option<String>> {
    let Some(path) = &a.verilog else {
        return Ok(None);
    };
    if path.to_str() == Some("-") {
        if a.json {
            bail!("--json: the module itself goes to stdout");
        }
        return Ok(Some("soc_io_map".into()));
    }
    let name = path
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or_default();
    let good =
        |(i, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || i > 0 && c.is_ascii_digit();
    if name.is_empty() || name == "io_map" || !name.char_indices().all(good) {
        bail!("--verilog {}: the file's name is that of the module: expected letters, digits and _, other than \
            io_map", path.display());
    }
    Ok(Some(name.into()))
}

fn merge_ports(a: &MergeArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let module = module(a)?;
    let name = name(a);
    let list = parse(&read(a)?).with_context(|| name.clone())?;
    if list.ports.is_empty() {
        bail!("{name}: no port is listed");
    }
    let merged = merge(&list, a.slack).with_context(|| name.clone())?;
    let verilog = match (&a.verilog, module) {
        (Some(path), Some(module)) => {
            if merged.len() > MAX_ENTRIES {
                bail!(
                    "--verilog: {} entries: a table has {MAX_ENTRIES} at most",
                    merged.len()
                );
            }
            let entries: Vec<_> = merged.iter().map(|m| m.entry).collect();
            let text = verilog::constant(&module, &entries)?;
            let file = Staged::create(path).context("--verilog")?;
            let shown = file.is_stdout();
            file.put(text.as_bytes())?;
            shown
        }
        _ => false,
    };
    if verilog {
        return Ok(SUCCESS);
    }
    let choices = choices(&list);
    if a.json {
        output::print_json(&to_json(&list, &merged, &choices))?;
    } else {
        output::print(&to_text(&list, &merged))?;
        if merged.len() > MAX_ENTRIES {
            messages.note(&format!("a table has {MAX_ENTRIES} entries at most"));
        }
        for (slack, entries) in &choices {
            if *slack > a.slack && *entries < merged.len() {
                messages.note(&format!(
                    "{} if an entry may give away {slack} bytes that are not listed (--slack)",
                    count(*entries, "entry", "entries")
                ));
            }
        }
    }
    Ok(SUCCESS)
}

/// How many entries there are with more and more slack: each number of entries once, with the least
/// power of two of bytes, or 0, that leads to it.
fn choices(list: &Ports) -> Vec<(u64, usize)> {
    let mut found: Vec<(u64, usize)> = Vec::new();
    let powers = (2..).map(|k| 1 << k).take_while(|s| *s <= MOST_SLACK);
    for slack in std::iter::once(0).chain(powers) {
        let Ok(merged) = merge(list, slack) else {
            continue;
        };
        if found.last().is_none_or(|f| merged.len() < f.1) {
            found.push((slack, merged.len()));
        }
    }
    found
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n as u64), if n == 1 { one } else { many })
}

fn rights(m: &Merged) -> &'static str {
    match (m.entry.rights.read, m.entry.rights.write) {
        (true, true) => "rw",
        (true, false) => "r",
        (false, true) => "w",
        (false, false) => "-",
    }
}

fn to_text(list: &Ports, merged: &[Merged]) -> String {
    let mut t = table(["VM", "from", "to", "bytes", "rights", "slack"]);
    for m in merged {
        let e = &m.entry;
        row(
            &mut t,
            [
                e.vm.to_string(),
                format!("{:#x}", e.from),
                format!("{:#x}", e.to),
                grouped(1 << e.size_log2),
                rights(m).into(),
                grouped(m.slack),
            ],
        );
    }
    let slack: u64 = merged.iter().map(|m| m.slack).sum();
    format!(
        "{}\n{} for {}, {} bytes of slack\n",
        text(&t),
        count(merged.len(), "entry", "entries"),
        count(list.ports.len(), "port", "ports"),
        grouped(slack),
    )
}

fn to_json(list: &Ports, merged: &[Merged], choices: &[(u64, usize)]) -> Value {
    let entries = merged.iter().map(|m| {
        let e = &m.entry;
        json!({
            "vm": e.vm,
            "from": e.from,
            "to": e.to,
            "bytes": 1u64 << e.size_log2,
            "rights": rights(m),
            "slack_bytes": m.slack,
        })
    });
    let choices = choices
        .iter()
        .map(|(slack, entries)| json!({ "slack": slack, "entries": entries }));
    json!({
        "ports": list.ports.len(),
        "entries": entries.collect::<Vec<_>>(),
        "slack_bytes": merged.iter().map(|m| m.slack).sum::<u64>(),
        "choices": choices.collect::<Vec<_>>(),
    })
}
