//! `nagori window`: windows of sampled runs that were written as snapshots.

use crate::args::{engine, DeviceArgs, EngineKind};
use crate::figures::Figures;
use crate::run;
use anyhow::{anyhow, Context};
use clap::{Args, Subcommand};
use nagori_session::sampling::{copies, kept, Window};
use nagori_session::{check, Caller};
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::tables::{duration, grouped, row, table, text};
use serde_json::{json, Value};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  nagori run --timing sampled --windows-to windows -- ./solver input
  nagori window run windows/window-*.snap
  nagori window run windows/window-00001*.snap --json part1.json     on another host

Each window is measured as in the run that has written it: its figures are the same wherever that happens.

Time:
  Some tenths of a second for each window, most of it to read its file.";

/// Measure windows of sampled runs that were written with --windows-to.
#[derive(Debug, Subcommand)]
pub enum WindowCommand {
    /// Measure windows.
    Run(WindowArgs),
}

/// Windows to measure.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct WindowArgs {
    /// Files that --windows-to has written.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What of the host the run had, given again.
    #[command(flatten)]
    pub devices: DeviceArgs,
    /// Engine that runs the guest's code; results are the same [default: the translator, if the host has one].
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineKind>,
    /// Write the windows, with all their counters, to a file as JSON, or with `-` to stdout.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// Measures the windows, each of which `seen` is told of (`None`: the program ended in it). All of them as JSON.
pub fn measure(
    a: &WindowArgs,
    mut seen: impl FnMut(u64, Option<&Window>),
    caller: &dyn Caller,
) -> anyhow::Result<Value> {
    let engine = engine(a.engine);
    let copies = copies(&a.devices.devices(), engine, None)?;
    let mut all: Vec<Value> = Vec::new();
    for file in &a.files {
        check(caller)?;
        let found = kept::run(file, engine, |m| (copies.connect)(m));
        let (number, length, window) = found.map_err(|e| anyhow!(e))?;
        seen(number, window.as_ref());
        let summary = window.as_ref().map(|w| run::summary(&w.report));
        all.push(json!({
            "window": number,
            "length": length,
            "measured": window,
            "summary": summary,
        }));
    }
    Ok(json!(all))
}

/// Runs the command.
pub fn command(c: &WindowCommand, messages: &Messages) -> anyhow::Result<Exit> {
    let WindowCommand::Run(a) = c;
    let json = a.json.as_deref().map(Staged::create).transpose();
    let json = json.context("--json")?;
    let mut t = table(["window", "instructions", "time", "CPI", "warm"]);
    let seen = |number: u64, window: Option<&Window>| {
        let mut cells = vec![number.to_string()];
        cells.extend(match window {
            None => ["-", "the program ended in it", "-", "-"].map(String::from),
            Some(w) => shown(w),
        });
        row(&mut t, cells);
    };
    let all = measure(a, seen, messages)?;
    let table = text(&t);
    match json {
        None => output::print(&table)?,
        Some(file) => {
            if !file.is_stdout() {
                output::print(&table)?;
            }
            file.put(format!("{all:#}\n").as_bytes())
                .context("--json")?;
        }
    }
    Ok(SUCCESS)
}

fn shown(w: &Window) -> [String; 4] {
    let cpi = Figures::of(&w.report).cpi();
    [
        grouped(w.instructions),
        duration(w.awake_ps),
        cpi.map_or("-".into(), |c| format!("{c:.4}")),
        match w.doubt() {
            d if d > 0.0 => format!("may be {:.2} % shorter", 100.0 * d),
            _ => "yes".into(),
        },
    ]
}
