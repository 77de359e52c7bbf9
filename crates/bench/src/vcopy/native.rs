//! Compiles the benchmark's source for this host, and runs it here.

use super::cells::{Cell, Place};
use super::rows::{self, Row};
use super::source::Work;
use super::VcopyArgs;
use anyhow::{bail, Context};
use nagori_terminal::output::Messages;
use std::process::Command;

/// Rows, and what they were measured on. Cells on NVMM are left out: this host has none that it is told of.
pub fn measure(
    a: &VcopyArgs,
    cells: &[Cell],
    messages: &Messages,
) -> anyhow::Result<(Vec<Row>, String)> {
    let dram = cells.iter().filter(|c| c.memory == Place::Dram);
    let cells: Vec<Cell> = dram.copied().collect();
    if cells.is_empty() {
        bail!("--native measures DRAM alone: leave --memory nvmm");
    }
    let packets = a.packets.unwrap_or(1_000_000);
    let processors = match a.processors[..] {
        [] => [0, 1],
        [p, c] => [p, c],
        _ => bail!("--processors: expected two numbers, such as 0,1"),
    };
    let work = Work::new()?;
    let program = work.compile_native(&cells, packets, a.repeat)?;
    messages.note("running on this host");
    let run = Command::new(&program)
        .args(processors.map(|p| p.to_string()))
        .output()
        .context("cannot run the compiled program")?;
    if !run.status.success() {
        bail!("{}", String::from_utf8_lossy(&run.stderr).trim_end());
    }
    let text = String::from_utf8(run.stdout).context("the program's output")?;
    let lines: Vec<String> = text.lines().map(String::from).collect();
    let rate = lines.iter().find_map(|l| l.strip_prefix("rate "));
    let rate: f64 = rate
        .and_then(|r| r.parse().ok())
        .context("the program printed no rate")?;
    let missing: Vec<&str> = lines
        .iter()
        .filter_map(|l| l.strip_prefix("missing "))
        .collect();
    if !missing.is_empty() {
        messages.warning(&format!(
            "this host does not count everything: {}",
            missing.join("; ")
        ));
    }
    let all = rows::parse(&lines, cells.len(), a.repeat as usize, &[])?;
    let rows = cells
        .iter()
        .zip(&all)
        .map(|(c, r)| Row::new(*c, packets, r, rate));
    Ok((rows.collect(), "this host".into()))
}
