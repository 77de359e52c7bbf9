//! The results: rows, their tables, and what the errors go with.

use super::{epochs, Done, Subject};
use nagori_epoch::Variant;
use nagori_machine::Report;
use nagori_memtime::stats::Region;
use nagori_memtime::Ps;
use nagori_terminal::tables::{part, row, table, text};
use serde::Serialize;

/// One program on one machine with one memory, emulated in one way.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the machine.
    pub machine: String,
    /// Name of the memory.
    pub memory: String,
    /// Name of the program.
    pub program: String,
    /// The formulas.
    pub method: Variant,
    /// Length of an epoch.
    pub epoch_ps: u64,
    /// Run time with the memory itself.
    pub detailed_ns: f64,
    /// With NVMM as fast as DRAM.
    pub dram_ns: f64,
    /// By epochs.
    pub emulated_ns: f64,
    /// The difference, as a share of the run time with the memory itself.
    pub error: f64,
    /// Share of writes in the lines of NVMM.
    pub write_share: Option<f64>,
    /// Lines that are waited for at a time, where NVMM is as fast as DRAM.
    pub lines_at_a_time: Option<f64>,
    /// Activations for each request of the memory itself.
    pub act_per_req: Option<f64>,
    /// Share of the writes that exceed the reads.
    pub not_waited: Option<f64>,
    /// Epochs that ended before others saw a hart's work, as a share of all.
    pub handed_over: f64,
    /// Core cycles that were injected, of all harts.
    pub injected_cycles: u64,
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

impl Row {
    /// The row of the runs with the memory itself, with DRAM, and by epochs.
    pub fn new(
        s: &Subject<'_>,
        (method, length): (Variant, Ps),
        (detailed, dram, emulated): (&Done, &Done, &Done),
    ) -> anyhow::Result<Row> {
        let ns = |d: &Done| d.report.elapsed_ps as f64 / 1e3;
        let nvmm = part(&detailed.report, Region::Nvmm);
        let (reads, writes) = (nvmm.reads as f64, nvmm.writes as f64);
        let e = epochs(&emulated.report)?;
        let sum =
            |f: fn(&nagori_machine::HartEpochReport) -> u64| -> u64 { e.harts.iter().map(f).sum() };
        let handed = sum(|h| h.counts.by_hand_over);
        Ok(Row {
            machine: s.machine.to_owned(),
            memory: s.memory.name().to_owned(),
            program: s.program.to_owned(),
            method,
            epoch_ps: length.0,
            detailed_ns: ns(detailed),
            dram_ns: ns(dram),
            emulated_ns: ns(emulated),
            error: ns(emulated) / ns(detailed) - 1.0,
            write_share: share(writes, reads + writes),
            lines_at_a_time: at_a_time(&dram.report, e.dram_ps),
            act_per_req: nvmm.act_per_req,
            not_waited: share((writes - reads).max(0.0), writes),
            handed_over: share(handed as f64, (handed + sum(|h| h.counts.by_time)) as f64)
                .unwrap_or(0.0),
            injected_cycles: sum(|h| h.counts.injected_cycles),
        })
    }

    /// How many times as slow the memory itself is as DRAM.
    pub fn slower(&self) -> f64 {
        self.detailed_ns / self.dram_ns
    }

    /// For whoever waits.
    pub fn in_words(&self) -> String {
        format!(
            "{} {} {} {}: {:+.1} %",
            self.machine,
            self.memory,
            self.program,
            self.method.name(),
            self.error * 100.0
        )
    }
}

/// Lines that are waited for at a time, if each is waited for so long alone.
fn at_a_time(dram: &Report, wait_ps: u64) -> Option<f64> {
    let reads = |h: &nagori_machine::HartReport| h.memory.dram_reads + h.memory.nvmm_reads;
    let lines: u64 = dram.harts.iter().map(reads).sum();
    let stalled: u64 = dram
        .harts
        .iter()
        .map(|h| h.events.memory_stall_cycles)
        .sum();
    let cycle_ps = dram.elapsed_ps as f64 / dram.cycles.max(1) as f64;
    share(lines as f64 * wait_ps as f64, stalled as f64 * cycle_ps)
}

fn percent(v: Option<f64>) -> String {
    v.map_or("-".into(), |v| format!("{:.0}", v * 100.0))
}

fn real(v: Option<f64>) -> String {
    v.map_or("-".into(), |v| format!("{v:.2}"))
}

/// All rows, and what their errors go with.
pub fn shown(rows: &[Row]) -> String {
    let mut t = table([
        "machine",
        "memory",
        "program",
        "method",
        "epoch",
        "slower",
        "error %",
        "writes %",
        "at a time",
        "ACT/REQ",
        "not waited %",
    ]);
    for r in rows {
        row(
            &mut t,
            [
                r.machine.clone(),
                r.memory.clone(),
                r.program.clone(),
                r.method.name().into(),
                length(r.epoch_ps),
                format!("{:.2}", r.slower()),
                format!("{:+.1}", r.error * 100.0),
                percent(r.write_share),
                real(r.lines_at_a_time),
                real(r.act_per_req),
                percent(r.not_waited),
            ],
        );
    }
    format!("{}\n{}\n{}", text(&t), summary(rows), causes(rows))
}

/// A length of epochs.
fn length(ps: u64) -> String {
    match ps {
        ps if ps % 1_000_000_000 == 0 => format!("{} ms", ps / 1_000_000_000),
        ps => format!("{} us", ps / 1_000_000),
    }
}

/// A kind of rows: machine, memory, formulas, length.
type Class = (String, String, Variant, u64);

fn class(r: &Row) -> Class {
    (r.machine.clone(), r.memory.clone(), r.method, r.epoch_ps)
}

/// The kinds of rows, in their order.
pub fn classes(rows: &[Row]) -> Vec<(Class, Vec<&Row>)> {
    let mut all: Vec<(Class, Vec<&Row>)> = Vec::new();
    for r in rows {
        let c = class(r);
        match all.iter_mut().find(|k| k.0 == c) {
            Some((_, of)) => of.push(r),
            None => all.push((c, vec![r])),
        }
    }
    all
}

/// Errors by kind of rows.
fn summary(rows: &[Row]) -> String {
    let mut t = table([
        "machine",
        "memory",
        "method",
        "epoch",
        "programs",
        "mean of |error| %",
        "least %",
        "greatest %",
    ]);
    for ((machine, memory, method, epoch), of) in classes(rows) {
        let n = of.len() as f64;
        let mean = of.iter().map(|r| r.error.abs()).sum::<f64>() / n;
        let of = || of.iter().map(|r| r.error);
        row(
            &mut t,
            [
                machine,
                memory,
                method.name().into(),
                length(epoch),
                format!("{n:.0}"),
                format!("{:.1}", mean * 100.0),
                format!("{:+.1}", of().fold(f64::INFINITY, f64::min) * 100.0),
                format!("{:+.1}", of().fold(f64::NEG_INFINITY, f64::max) * 100.0),
            ],
        );
    }
    text(&t)
}

/// With what errors go, by kind of rows: Spearman's rank correlation.
fn causes(rows: &[Row]) -> String {
    let mut t = table([
        "rank correlation of the error with",
        "method",
        "epoch",
        "writes",
        "lines at a time",
        "ACT/REQ",
        "writes not waited for",
        "slower",
    ]);
    for ((machine, memory, method, epoch), of) in classes(rows) {
        let with = |f: &dyn Fn(&Row) -> Option<f64>| {
            let pairs: Vec<(f64, f64)> = of.iter().filter_map(|r| Some((f(r)?, r.error))).collect();
            spearman(&pairs).map_or("-".into(), |v| format!("{v:+.2}"))
        };
        row(
            &mut t,
            [
                format!("{machine} {memory}"),
                method.name().into(),
                length(epoch),
                with(&|r| r.write_share),
                with(&|r| r.lines_at_a_time),
                with(&|r| r.act_per_req),
                with(&|r| r.not_waited),
                with(&|r| Some(r.slower())),
            ],
        );
    }
    text(&t)
}

/// Spearman's rank correlation; `None` for fewer than four pairs, or where all values are equal.
fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    nagori_suite::analysis::spearman(&a, &b).filter(|_| pairs.len() >= 4)
}

/// A program while writes get slower.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Name of the program.
    pub program: String,
    /// How many times as long as a miss on DRAM one with a write-back takes.
    pub write: u64,
    /// Run time with a memory whose writes are so slow.
    pub detailed_ns: f64,
    /// By epochs.
    pub emulated_ns: f64,
    /// Lines written in a second, in MB/s, with the memory, and by epochs.
    pub written: [f64; 2],
}

impl Figure {
    /// The figure of the runs with the memory itself and by epochs.
    pub fn new((program, write): (&str, u64), detailed: &Report, emulated: &Report) -> Figure {
        let ns = |r: &Report| r.elapsed_ps as f64 / 1e3;
        let written = |r: &Report| part(r, Region::Nvmm).writes as f64 * 64e3 / ns(r);
        Figure {
            program: program.into(),
            write,
            detailed_ns: ns(detailed),
            emulated_ns: ns(emulated),
            written: [written(detailed), written(emulated)],
        }
    }
}

/// Run times relative to the first of a program, with the memory and by epochs.
pub fn relative<'a>(rows: &'a [Figure], f: &'a Figure) -> (f64, f64) {
    let one = rows.iter().find(|o| o.program == f.program).unwrap_or(f);
    (
        f.detailed_ns / one.detailed_ns,
        f.emulated_ns / one.emulated_ns,
    )
}

/// The table of figures.
pub fn figures(rows: &[Figure]) -> String {
    let mut t = table([
        "program",
        "W / DRAM",
        "time, memory itself",
        "by epochs",
        "MB/s written, memory itself",
        "by epochs",
    ]);
    for r in rows {
        let (detailed, emulated) = relative(rows, r);
        row(
            &mut t,
            [
                r.program.clone(),
                r.write.to_string(),
                format!("{detailed:.3}"),
                format!("{emulated:.3}"),
                format!("{:.2}", r.written[0]),
                format!("{:.2}", r.written[1]),
            ],
        );
    }
    text(&t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_correlate() {
        let rising: Vec<(f64, f64)> = (0..9).map(|n| (f64::from(n), f64::from(n * n))).collect();
        assert_eq!(spearman(&rising), Some(1.0));
        let falling: Vec<(f64, f64)> = (0..9).map(|n| (f64::from(n), -f64::from(n))).collect();
        assert_eq!(spearman(&falling), Some(-1.0));
        assert_eq!(spearman(&[(1.0, 1.0); 9]), None);
        assert_eq!(spearman(&rising[..3]), None);
    }

    #[test]
    fn lengths_are_read_by_people() {
        assert_eq!(length(1_000_000_000), "1 ms");
        assert_eq!(length(10_000_000), "10 us");
    }
}
