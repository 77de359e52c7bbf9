//! The plot of a comparison.

use super::compare::{in_vain, normalised, Row};
use crate::figures::Figures;
use crate::run_times::{drawn, Shown};
use nagori_plot::Chart;
use nagori_terminal::sample::Sample;

/// The run times relative to the first.
pub fn chart(program: &str, rows: &[Row]) -> Chart {
    let shown: Vec<Shown> = rows
        .iter()
        .map(|r| {
            let sample = normalised(rows, r).and_then(|v| Sample::of(&v));
            let stalled = r.mean(|r| Figures::of(&r.report).stalled());
            let why = || r.flaw().map(|f| format!("unfinished: {f}"));
            let vain = || in_vain(rows, r).map(str::to_string);
            Shown {
                variant: r.case.variant.to_string(),
                at: r.case.at.clone(),
                time: match &sample {
                    Some(s) => Ok(s.mean),
                    None => Err(why()
                        .or_else(vain)
                        .unwrap_or("nothing to compare with".into())),
                },
                interval: sample.and_then(|s| s.ci95),
                waiting: stalled.unwrap_or(0.0),
            }
        })
        .collect();
    drawn(program, &shown)
}
