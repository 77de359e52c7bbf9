//! `nagori report`: one HTML file of a comparison or a study.

pub mod comparison;
pub mod document;
pub mod page;

use anyhow::{bail, Context};
use clap::Args;
use document::Document;
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{Exit, Messages, SUCCESS};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  nagori compare --placement nvmm --report cost.html -- ./sort 1000000
      A comparison and its report at once
  nagori report cost.json --output cost.html
      The report of a comparison that was written with --json
  nagori report study.json --output study.html
      A document of a program (docs/report.md)";

/// Make one self-contained HTML file out of results.
///
/// It has tables, plots, profile, the machine with the origins of its values, image key, command line and versions;
/// it needs no network, is readable on a phone, and is light or dark as the reader's system is.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct ReportArgs {
    /// A result of `nagori compare --json`, or a document (docs/report.md); `-`: standard input.
    #[arg(value_name = "RESULT|-")]
    pub result: PathBuf,
    /// File to write, or with `-` stdout.
    #[arg(short, long, value_name = "FILE|-")]
    pub output: PathBuf,
}

/// Runs the command.
pub fn command(a: &ReportArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let name = a.result.display();
    let mut text = String::new();
    if a.result == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(&a.result).map(|t| text = t)
    }
    .with_context(|| format!("cannot read {name}"))?;
    let value: Value = serde_json::from_str(&text).with_context(|| format!("{name} is no JSON"))?;
    let file = Staged::create(&a.output).context("--output")?;
    let shown = file.is_stdout();
    let document = document(value).with_context(|| name.to_string())?;
    file.put(page::html(&document)?.as_bytes())
        .context("--output")?;
    if !shown {
        messages.note(&format!("the report is {}", a.output.display()));
    }
    Ok(SUCCESS)
}

/// The document that a result is or becomes.
fn document(value: Value) -> anyhow::Result<Document> {
    if value["format"].is_string() {
        return Document::read(value);
    }
    if value["runs"].is_array() && value["methods"].is_array() {
        return comparison::document(&value);
    }
    bail!(
        "it is neither a result of `nagori compare --json` nor a document (format: {:?})",
        document::FORMAT
    )
}

/// The page of a comparison.
pub fn of_comparison(result: &Value) -> anyhow::Result<String> {
    // As a file has it: the last digit of a number may change on the way.
    let read: Value = serde_json::from_str(&result.to_string())?;
    page::html(&comparison::document(&read)?)
}
