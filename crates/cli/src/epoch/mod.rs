//! `nagori epoch`: costs of memory for the light timed mode, and how far off its estimates are.

pub mod compare;

use crate::args::{method, MachineArgs};
use crate::output::file::Staged;
use crate::output::{self, Exit, Messages, SUCCESS};
use crate::tables::{row, table, text};
use clap::{Args, Subcommand};
use nagori_memtime::{Method, Ps};
use nagori_platform::config::EpochConfig;
use nagori_platform::machine::{calibrate, LightModel, Report, GAPS};
use serde_json::json;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  nagori epoch calibrate --machine vc707
  nagori epoch calibrate --machine server-caches --output server.toml
  nagori epoch compare --method coarse program.elf
  nagori bare --timing light --epoch-costs server.toml --machine server-caches program.elf";

/// The light timed mode: estimates by epochs (docs/epoch.md).
#[derive(Debug, Subcommand)]
#[command(after_long_help = EXAMPLES)]
pub enum EpochCommand {
    Calibrate(CalibrateArgs),
    Compare(CompareArgs),
}

/// Measure what lines of a machine's memories cost, on the detailed model, for the light timed mode.
///
/// A pointer chase, the same with stores, and the same with flushes run in every memory, under every delay
/// method, with gaps of different length between two misses.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CalibrateArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Write the costs to a TOML file, for --epoch-costs.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Run a bare-metal program in the detailed and in the light mode, and say where the estimates are off.
///
/// Epochs have equal numbers of instructions, so that each can be compared with the same one of the other mode.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CompareArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// The program: a static riscv64 ELF, as for `nagori bare`.
    #[arg(value_name = "ELF")]
    pub program: PathBuf,
    /// Delay method of NVMM.
    #[arg(long, value_name = "METHOD", value_parser = method, default_value = "dram")]
    pub method: Method,
    /// Instructions of an epoch.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(EpochConfig::LEAST_INSTRUCTIONS..))]
    pub instructions: u64,
    /// An object, instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn command(c: &EpochCommand, messages: &Messages) -> anyhow::Result<Exit> {
    let a = match c {
        EpochCommand::Calibrate(a) => a,
        EpochCommand::Compare(a) => return compared(a),
    };
    let file = a.output.as_deref().map(Staged::create).transpose()?;
    let description = a.machine.resolve(&[])?;
    let model = calibrate(&description)?;
    if let Some(file) = file {
        let toml = model.to_toml();
        let head = "# What lines cost a hart in the light timed mode, measured by `nagori epoch calibrate`.\n";
        file.put(format!("{head}{toml}").as_bytes())?;
        messages.note(&format!(
            "{}: {} memories",
            a.output.as_deref().unwrap_or(Path::new("")).display(),
            model.areas.len()
        ));
        return Ok(SUCCESS);
    }
    output::print(&shown(&model))?;
    Ok(SUCCESS)
}

/// Runs `nagori epoch compare`.
fn compared(a: &CompareArgs) -> anyhow::Result<Exit> {
    let description = a.machine.resolve(&[])?;
    let model = calibrate(&description)?;
    let plan = compare::plan(&description, &a.program)?;
    let how = (a.method, &model);
    let both = compare::Both::run(&description, &plan, how, Some(a.instructions))?;
    let mut value = both.json();
    value["machine"] = json!(description.config.name);
    value["program"] = json!(a.program.display().to_string());
    value["memory"] = json!(a.method.name());
    if a.json {
        output::print_json(&value)?;
        return Ok(SUCCESS);
    }
    let ns = |r: &Report| r.elapsed_ps / 1000;
    output::print(&format!(
        "run time: {} ns detailed, {} ns light, error {:+.2} %\n\n{}\n",
        ns(&both.detailed.report),
        ns(&both.light.report),
        both.error() * 100.0,
        compare::explained_table(&value["explained"])
    ))?;
    Ok(SUCCESS)
}

/// The costs as a table: those of a dense and of a sparse stream of misses.
fn shown(model: &LightModel) -> String {
    let mut t = table([
        "memory", "method", "R ns", "W ns", "flush ns", "R sparse", "W sparse",
    ]);
    for area in &model.areas {
        for (i, c) in area.costs.iter().enumerate() {
            let method = match area.costs.len() {
                1 => "",
                _ => Method::ALL.get(i).map_or("", |m| m.name()),
            };
            let ns = |ps: u64| format!("{:.0}", ps as f64 / 1e3);
            let last = GAPS - 1;
            row(
                &mut t,
                [
                    area.name.clone(),
                    method.into(),
                    ns(c.read_ps[0]),
                    ns(c.read_ps[0] + c.write_back_ps[0]),
                    ns(c.flush_ps[0]),
                    ns(c.read_ps[last]),
                    ns(c.read_ps[last] + c.write_back_ps[last]),
                ],
            );
        }
    }
    let fastest = model
        .areas
        .iter()
        .flat_map(|a| &a.costs)
        .flat_map(|c| c.read_ps)
        .min();
    let d0 = fastest.unwrap_or(0) as f64 / 1e3;
    let w = match model.last_hit {
        Ps::ZERO => "w: no cache level behind L1".to_owned(),
        hit => format!(
            "w = {:.2} (hit in the last level: {:.0} ns)",
            d0 * 1e3 / hit.0 as f64,
            hit.0 as f64 / 1e3
        ),
    };
    format!("{}\nD0 = {d0:.0} ns, charged at once; {w}\n", text(&t))
}
