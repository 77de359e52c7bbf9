//! `nagori mem`: memory models on their own.

pub mod args;
mod commands;
mod convert;
mod draw;
mod gen;
mod memory;
mod record;
pub mod report;
mod run;
mod sweep;
mod sweep_plot;

use anyhow::{bail, Context};
use args::{MemCommand, PlotArgs, ShowArgs};
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
pub use run::report_of;

/// Runs the command.
pub fn command(command: &MemCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match command {
        MemCommand::Run(a) => run::command(a, messages),
        MemCommand::Show(a) => show(a, messages),
        MemCommand::Gen(a) => gen::command(a, messages),
        MemCommand::Convert(a) => convert::command(a, messages),
        MemCommand::Record(a) => record::command(a, messages),
        MemCommand::Sweep(a) => sweep::command(a, messages),
        MemCommand::Plot(a) => plot(a, messages),
    }
}

fn show(a: &ShowArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let name = a.name.as_ref().or(a.memory.as_ref());
    let memory = memory::load_and_warn(name.context("a memory is needed")?, &a.set, messages)?;
    if a.json {
        output::print_json(&memory.to_json())?
    } else {
        output::print(&memory.show())?
    }
    Ok(SUCCESS)
}

fn plot(a: &PlotArgs, messages: &Messages) -> anyhow::Result<Exit> {
    draw::check_name(&a.output)?;
    let name = a.result.display();
    let text = std::fs::read_to_string(&a.result).with_context(|| format!("cannot read {name}"))?;
    let file = Staged::create(&a.output).context("--output")?;
    let shown = file.is_stdout();
    // A table never begins with this.
    let picture = if text.trim_start().starts_with('{') {
        if a.x.is_some() || !a.figure.is_empty() {
            bail!("--x and --figure are for tables of `nagori mem sweep`; {name} is the result of one run");
        }
        let report: report::Report = serde_json::from_str(&text)
            .with_context(|| format!("{name} is no result of `nagori mem run --json`"))?;
        draw::report(&a.output, &report, &a.look)?
    } else {
        let sweep = sweep_plot::Sweep::read(&text, a.x.as_deref(), &a.figure).with_context(|| {
                format!("{name} is neither a result of `nagori mem run --json` nor a table of `nagori mem sweep`")
            })?;
        sweep.file(&a.output, &a.look)?
    };
    file.put(&picture).context("--output")?;
    if !shown {
        messages.note(&format!("the plot is in {}", a.output.display()));
    }
    Ok(SUCCESS)
}
