//! `nagori suite`: the application study.

mod args;
mod report;
mod run;

pub use args::SuiteCommand;

use args::{LibraryArgs, ListArgs};
use nagori_suite::{Library, ENV};
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::tables::{row, table, text};
use serde_json::{json, Value};
use std::path::PathBuf;

/// Runs the command.
pub fn command(command: &SuiteCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match command {
        SuiteCommand::List(a) => list(a),
        SuiteCommand::Run(a) => run::command(a, messages),
        SuiteCommand::Report(a) => report::command(a, messages),
    }
}

/// The programs that the arguments name.
fn library(a: &LibraryArgs) -> Library {
    let named = a.suite.clone();
    let from_environment = || {
        std::env::var_os(ENV)
            .filter(|d| !d.is_empty())
            .map(PathBuf::from)
    };
    Library::new(named.or_else(from_environment))
}

fn list(a: &ListArgs) -> anyhow::Result<Exit> {
    let programs = library(&a.library).programs()?;
    if a.json {
        let all: Vec<Value> = programs
            .iter()
            .map(|p| {
                let mut value = json!(p);
                value["name"] = json!(p.name);
                value
            })
            .collect();
        output::print_json(&json!(all))?;
        return Ok(SUCCESS);
    }
    let mut t = table(["program", "kind", "threads", "stands for", "from", "quick"]);
    for p in &programs {
        let from = if p.sources.is_empty() {
            p.packages.first().cloned().unwrap_or_default()
        } else {
            "ours".into()
        };
        let cells = [
            p.name.clone(),
            p.kind.clone(),
            p.threads.to_string(),
            p.stands_for.clone().unwrap_or("-".into()),
            from,
            if p.quick { "yes" } else { "" }.into(),
        ];
        row(&mut t, cells);
    }
    output::print(&text(&t))?;
    Ok(SUCCESS)
}
