//! Files of a comparison: tables and reports.

use super::args::CompareArgs;
use super::compare::{normalised, Row, Variant};
use crate::axes::Axis;
use crate::figures::Figures;
use crate::report;
use anyhow::Context;
use nagori_memtime::stats::Region;
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::table::{Form, Kind, Table};
use nagori_terminal::output::Messages;
use nagori_terminal::tables::part;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Those that are asked for, before there is anything to write.
pub struct Files {
    csv: Option<Staged>,
    parquet: Option<Staged>,
    report: Option<(PathBuf, Staged)>,
}

impl Files {
    /// Checks that they can be written.
    pub fn create(a: &CompareArgs) -> anyhow::Result<Files> {
        let of = |path: &Option<PathBuf>, option: &'static str| {
            let file = path.as_deref().map(Staged::create);
            file.transpose().context(option)
        };
        Ok(Files {
            csv: of(&a.csv, "--csv")?,
            parquet: of(&a.parquet, "--parquet")?,
            report: a.report.clone().zip(of(&a.report, "--report")?),
        })
    }

    /// Writes them.
    pub fn write(self, result: &Value, table: &Table, messages: &Messages) -> anyhow::Result<()> {
        if let Some(file) = self.csv {
            file.put(&table.file(Form::Csv)?).context("--csv")?;
        }
        if let Some(file) = self.parquet {
            file.put(&table.file(Form::Parquet)?).context("--parquet")?;
        }
        if let Some((path, file)) = self.report {
            let page = report::of_comparison(result).context("--report")?;
            file.put(page.as_bytes()).context("--report")?;
            told(&path, messages);
        }
        Ok(())
    }
}

fn told(path: &Path, messages: &Messages) {
    if path != Path::new("-") {
        messages.note(&format!("the report is {}", path.display()));
    }
}

/// A row for each run.
pub fn table(rows: &[Row], axes: &[Axis<'_>]) -> Table {
    let first = ["method", "memory_model"].map(|n| (n.to_string(), Kind::Text));
    let mut head: Vec<(String, Kind)> = first.into();
    head.extend(axes.iter().map(|a| (a.key.to_string(), Kind::Text)));
    let figures = [
        ("seed", Kind::Count),
        ("complete", Kind::Text),
        ("end", Kind::Text),
        ("guest_time_ps", Kind::Count),
        ("run_time", Kind::Real),
        ("instructions", Kind::Count),
        ("busy_cycles", Kind::Count),
        ("cpi", Kind::Real),
        ("waiting_share", Kind::Real),
        ("nvmm_reads", Kind::Count),
        ("nvmm_writes", Kind::Count),
        ("nvmm_read_ns", Kind::Real),
        ("nvmm_write_ns", Kind::Real),
        ("dram_reads", Kind::Count),
        ("dram_writes", Kind::Count),
    ];
    head.extend(figures.map(|(n, k)| (n.to_string(), k)));
    let mut out = Table::new(head);
    let real = |v: Option<f64>| v.map(|v| v.to_string()).unwrap_or_default();
    for r in rows {
        let ratios = normalised(rows, r);
        for (i, run) in r.runs.iter().enumerate() {
            let (method, model) = match &r.case.variant {
                Variant::Method(m) => (m.to_string(), String::new()),
                Variant::Model(m) => (String::new(), m.clone()),
            };
            let result = &run.result;
            let f = Figures::of(&result.report);
            let [nvmm, dram] = [Region::Nvmm, Region::Dram].map(|r| part(&result.report, r));
            let mut cells = vec![method, model];
            cells.extend(r.case.at.iter().map(|(_, v)| v.clone()));
            cells.extend([
                run.seed.map(|s| s.to_string()).unwrap_or_default(),
                result.is_whole().to_string(),
                result.why.name().to_string(),
                f.time_ps.to_string(),
                real(ratios.as_ref().map(|v| v[i])),
                f.instructions.to_string(),
                f.busy.to_string(),
                real(f.cpi()),
                real(f.stalled()),
                nvmm.reads.to_string(),
                nvmm.writes.to_string(),
                real(nvmm.read_ns),
                real(nvmm.write_ns),
                dram.reads.to_string(),
                dram.writes.to_string(),
            ]);
            out.push(cells);
        }
    }
    // Keys whose values are numbers; the first columns stay words.
    out.with_numbers()
}
