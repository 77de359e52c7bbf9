//! `nagori machine`: descriptions of machines.

use clap::{Args, Subcommand};
use nagori_config::{Library, Machine};
use nagori_terminal::output::{self, Exit, SUCCESS};
use serde_json::json;

/// Show and list machine descriptions.
#[derive(Debug, Subcommand)]
pub enum MachineCommand {
    Show(ShowArgs),
    /// Print the JSON schema of machine descriptions.
    ///
    /// Editors with a TOML language server check descriptions against it. Example:
    /// nagori machine schema > machine.schema.json
    Schema,
    /// List the machines that can be named.
    ///
    /// They are part of the program, or lie in a directory of NAGORI_MACHINES.
    /// Example: nagori machine list
    List {
        /// A list of objects with name, description, source.
        #[arg(long)]
        json: bool,
    },
}

const SHOW_EXAMPLES: &str = "\
Examples:
  nagori machine show
  nagori machine show ./my-board.toml --set memory.controller.delays.tras='\"3000 ns\"'
  nagori machine show vc707 --json | jq '.values[] | select(.unit == \"ps\")'";

/// Show a machine description, every value resolved.
///
/// Every value has its unit and where it comes from: given in the file, the controller preset, the core
/// description, the default, or set with --set. Derived values (the reach of the TLBs) follow them.
#[derive(Debug, Args)]
#[command(after_long_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// A name (see `nagori machine list`) or a path.
    #[arg(value_name = "NAME|PATH", default_value = nagori_config::DEFAULT_MACHINE)]
    pub machine: String,
    /// Change a value.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// One JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn command(command: &MachineCommand) -> anyhow::Result<Exit> {
    match command {
        MachineCommand::Show(a) => show(a)?,
        MachineCommand::Schema => output::print_json(&nagori_config::schema())?,
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
        let mark = if name == nagori_config::DEFAULT_MACHINE {
            " (default)"
        } else {
            ""
        };
        format!("{name:width$}  {description}{mark}\n")
    });
    output::print(&lines.collect::<String>())
}
