//! `nagori compare --epoch`: a program in the detailed and in the light mode.

use super::{check, seeds, variants, write_json, Machines, Variant};
use crate::args::{InspectArgs, PowerArgs};
use crate::epoch::compare::{explained_table, Both, Run};
use crate::output::{Exit, Messages};
use crate::run::args::CompareArgs;
use crate::run::report::Result as RunResult;
use crate::run::streams::{Output, Stdout};
use crate::run::{json_file, How, Interrupt};
use crate::tables::{duration, row, table, text};
use anyhow::ensure;
use nagori_platform::machine::{calibrate, EpochLength};
use nagori_session::guest::Light;
use serde_json::{json, Value};

/// One variant with one seed, in both modes.
struct Pair {
    variant: Variant,
    seed: Option<u64>,
    both: Both,
    exit: Exit,
}

/// Runs the command.
pub fn command(a: &CompareArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let json = json_file(a.common.json.as_deref())?;
    let mut stdout = Stdout::of(a.common.output.as_deref())?;
    check(a)?;
    let (variants, seeds) = (variants(a), seeds(a)?);
    let machines = Machines::prepare(a, &variants, messages)?;
    let mut pairs: Vec<Pair> = Vec::new();
    for variant in &variants {
        let description = a.common.machine.resolve(variant.setting().as_slice())?;
        messages.note(&format!(
            "{variant}: measuring what memory costs, for the light mode"
        ));
        let model = calibrate(&description)?;
        for &seed in &seeds {
            let mut run = |detailed: bool| -> anyhow::Result<RunResult> {
                let length = match detailed {
                    true => EpochLength::every(a.every),
                    false => EpochLength::of(&description.config.epoch),
                };
                let how = How {
                    method: variant.method(),
                    seed,
                    light: Some(Light {
                        detailed,
                        keep: true,
                        ..Light::new(model.clone(), length)
                    }),
                };
                let mode = if detailed { "detailed" } else { "light" };
                let result = machines.of(variant).run(
                    &PowerArgs::default(),
                    how,
                    (&InspectArgs::default(), None),
                    Interrupt::Ends,
                    Output::new((detailed && pairs.is_empty()).then_some(&mut stdout)),
                    messages,
                )?;
                messages.signals().check()?;
                ensure!(
                    result.is_whole(),
                    "{variant}, {mode} mode: the run did not come to its end ({}), so there is nothing to compare",
                    result.why.name()
                );
                messages.note(&format!(
                    "{variant}, {mode} mode: {}",
                    duration(result.report.elapsed_ps)
                ));
                Ok(result)
            };
            let (detailed, light) = (run(true)?, run(false)?);
            if detailed.differs(&light) {
                messages.warning(&format!("{variant}: the program did something else in the light mode: another output or exit code; what the runs cost is not comparable"));
            }
            detailed.warn(messages, |_| true);
            let exit = detailed.exit();
            let of = |r: RunResult| Run {
                report: r.report,
                cpu: r.cpu,
                epochs: r.epochs,
                printed: Vec::new(),
            };
            pairs.push(Pair {
                variant: variant.clone(),
                seed,
                both: Both::new(&description, of(detailed), of(light))?,
                exit,
            });
        }
    }
    stdout.finish()?;
    eprint!("\n{}", as_table(&pairs));
    if let Some(file) = json {
        write_json(file, &as_json(&a.common.program, &pairs))?;
    }
    Ok(pairs[0].exit)
}

fn as_table(pairs: &[Pair]) -> String {
    let mut t = table([
        "method or memory",
        "seed",
        "detailed",
        "light",
        "error %",
        "epochs",
        "median epoch %",
        "nine of ten below %",
        "faster",
    ]);
    let explained: Vec<Value> = pairs.iter().map(|p| p.both.explained()).collect();
    let percent = |v: &Value| {
        v.as_f64()
            .map_or("-".into(), |v| format!("{:.2}", v * 100.0))
    };
    for (p, e) in pairs.iter().zip(&explained) {
        row(
            &mut t,
            [
                p.variant.to_string(),
                p.seed.map_or("-".into(), |s| s.to_string()),
                duration(p.both.detailed.report.elapsed_ps),
                duration(p.both.light.report.elapsed_ps),
                format!("{:+.2}", p.both.error() * 100.0),
                e["epochs"].to_string(),
                percent(&e["median_epoch"]),
                percent(&e["p90_epoch"]),
                format!("{:.2}", p.both.faster()),
            ],
        );
    }
    let mut out = text(&t);
    for (p, e) in pairs.iter().zip(&explained) {
        out += &format!("\n{}\n{}", p.variant, explained_table(e));
    }
    out
}

fn as_json(program: &[String], pairs: &[Pair]) -> Value {
    let rows: Vec<Value> = pairs
        .iter()
        .map(|p| {
            let mut row = p.both.json();
            row["memory"] = json!(p.variant.to_string());
            row["seed"] = json!(p.seed);
            row
        })
        .collect();
    json!({"program": program, "estimated": true, "rows": rows})
}
