//! `nagori machine`: descriptions of machines.

use crate::args::{MachineCommand, ShowArgs};
use crate::output::{self, Exit, SUCCESS};
use nagori_platform::config::{self, Library, Machine};
use serde_json::json;

/// Runs the command.
pub fn command(command: &MachineCommand) -> anyhow::Result<Exit> {
    match command {
        MachineCommand::Show(a) => show(a)?,
        MachineCommand::Schema => output::print_json(&config::schema())?,
        MachineCommand::List { json } => list(*json)?,
    }
    Ok(SUCCESS)
}

fn show(a: &ShowArgs) -> anyhow::Result<()> {
    let machine = Machine::load(&Library::installed(), &a.machine, &a.set)?;
    if a.json {
        output::print_json(&machine.to_json())
    } else {
        output::print(&machine.show())
    }
}

fn list(as_json: bool) -> anyhow::Result<()> {
    let library = Library::installed();
    let mut rows = Vec::new();
    for name in library.machines() {
        // A broken description in a directory of the user must not hide the others.
        let (description, source) = match Machine::load(&library, &name, &[]) {
            Ok(m) => (m.config.description, m.source),
            Err(e) => (format!("(unusable: {e})"), String::new()),
        };
        rows.push((name, description, source));
    }
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(n, d, s)| json!({"name": n, "description": d, "source": s}))
            .collect();
        return output::print_json(&json!(rows));
    }
    let width = rows.iter().map(|r| r.0.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(name, description, _)| {
        let mark = match name == config::DEFAULT_MACHINE {
            true => " (default)",
            false => "",
        };
        format!("{name:width$}  {description}{mark}\n")
    });
    output::print(&lines.collect::<String>())
}
