//! `nagori mem`: memory models on their own.

pub mod args;
mod commands;
mod draw;
mod file;
mod gen;
mod memory;
mod page;
mod report;
mod run;
mod sweep;

use crate::output::{self, Exit, Messages, SUCCESS};
use anyhow::Context;
use args::{MemCommand, PlotArgs, ShowArgs};

/// Runs the command.
pub fn command(command: &MemCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match command {
        MemCommand::Run(a) => run::command(a, messages),
        MemCommand::Show(a) => show(a),
        MemCommand::Gen(a) => gen::command(a, messages),
        MemCommand::Sweep(a) => sweep::command(a, messages),
        MemCommand::Plot(a) => plot(a, messages),
    }
}

fn show(a: &ShowArgs) -> anyhow::Result<Exit> {
    let memory = memory::load(&a.memory.memory, &a.memory.set)?;
    match a.json {
        true => output::print_json(&memory.to_json())?,
        false => output::print(&memory.show())?,
    }
    Ok(SUCCESS)
}

fn plot(a: &PlotArgs, messages: &Messages) -> anyhow::Result<Exit> {
    draw::check_name(&a.output)?;
    let name = a.result.display();
    let text = std::fs::read_to_string(&a.result).with_context(|| format!("cannot read {name}"))?;
    let report: report::Report = serde_json::from_str(&text)
        .with_context(|| format!("{name} is no result of `nagori mem run --json`"))?;
    file::write(&a.output, &draw::bytes(&a.output, &report)?)?;
    messages.note(&format!("the plot is in {}", a.output.display()));
    Ok(SUCCESS)
}
