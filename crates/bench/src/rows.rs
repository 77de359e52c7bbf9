//! Results of the board benchmark: rows, published figures, errors.

use anyhow::{bail, Context};
use nagori_memtime::Method;
use serde::{Deserialize, Serialize};

/// Published figures of the reference board.
const PUBLISHED: &str = include_str!("../data/board_latency_calibration.csv");

/// Read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Loads.
    Read,
    /// Stores.
    Write,
}

/// Which micro-benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Benchmark {
    /// Locality; the value is the stride in bytes.
    Stride,
    /// Bank parallelism; the value is the number of banks.
    Nbank,
}

/// Both operations, in the order of tables.
pub const OPS: [Op; 2] = [Op::Read, Op::Write];

/// The benchmarks with their values, in the order of tables.
pub const BENCHMARKS: [(Benchmark, &[u64]); 2] = [
    (Benchmark::Stride, &[4096, 8192]),
    (Benchmark::Nbank, &[1, 2, 3, 4, 5, 6]),
];

impl Op {
    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
        }
    }
}

impl Benchmark {
    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Stride => "stride",
            Benchmark::Nbank => "nbank",
        }
    }

    /// The meaning of its value.
    pub fn axis(self) -> &'static str {
        match self {
            Benchmark::Stride => "stride [bytes]",
            Benchmark::Nbank => "banks in turn",
        }
    }
}

/// A measured cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Read or write.
    pub op: Op,
    /// Which micro-benchmark.
    pub benchmark: Benchmark,
    /// Its parameter.
    pub value: u64,
    /// Delay method.
    pub method: Method,
}

/// One result; the form of `--json`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Row {
    /// Read or write.
    pub op: Op,
    /// Which micro-benchmark.
    pub benchmark: Benchmark,
    /// Its parameter.
    pub value: u64,
    /// Delay method.
    pub method: Method,
    /// Average latency of an access, in nanoseconds.
    pub latency_ns: f64,
    /// Ends of its 95 % interval, if it is the mean of several runs.
    #[serde(skip)]
    pub interval: Option<[f64; 2]>,
}

impl Row {
    /// What was measured.
    pub fn cell(&self) -> Cell {
        Cell {
            op: self.op,
            benchmark: self.benchmark,
            value: self.value,
            method: self.method,
        }
    }

    /// Parses a line that the guest printed; `None` if it is not a result.
    pub fn parse(line: &str) -> Option<anyhow::Result<Row>> {
        let fields = line.trim().strip_prefix("row ")?;
        Some(Row::fields(fields).with_context(|| format!("the guest's result `{}`", line.trim())))
    }

    fn fields(text: &str) -> anyhow::Result<Row> {
        let field = |name: &str| {
            text.split_whitespace()
                .filter_map(|f| f.split_once('='))
                .find(|(n, _)| *n == name)
                .map(|(_, v)| v)
                .with_context(|| format!("lacks `{name}`"))
        };
        Row::of(
            field("op")?,
            field("benchmark")?,
            field("value")?,
            field("method")?,
            field("latency_ns")?,
        )
    }

    fn of(op: &str, benchmark: &str, value: &str, method: &str, ns: &str) -> anyhow::Result<Row> {
        let op = OPS.into_iter().find(|o| o.name() == op);
        let benchmark = BENCHMARKS.iter().find(|b| b.0.name() == benchmark);
        let method = Method::ALL.into_iter().find(|m| m.name() == method);
        let latency_ns: f64 = ns.parse().context("latency_ns is no number")?;
        if !(latency_ns.is_finite() && latency_ns > 0.0) {
            bail!("latency_ns is not positive");
        }
        Ok(Row {
            op: op.context("op is neither read nor write")?,
            benchmark: benchmark
                .context("benchmark is neither stride nor nbank")?
                .0,
            value: value.parse().context("value is no whole number")?,
            method: method.context("method is none of dram, coarse, fine, extended")?,
            latency_ns,
            interval: None,
        })
    }
}

/// All cells of a run, in the order of the guest.
pub fn cells(methods: &[Method]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &method in methods {
        for op in OPS {
            for (benchmark, values) in BENCHMARKS {
                cells.extend(values.iter().map(|&value| Cell {
                    op,
                    benchmark,
                    value,
                    method,
                }));
            }
        }
    }
    cells
}

/// The published figures.
pub fn published() -> anyhow::Result<Vec<Row>> {
    let lines = PUBLISHED.lines().filter(|l| !l.starts_with('#'));
    // The first line that is no comment has the names of the columns.
    lines
        .skip(1)
        .filter(|l| !l.is_empty())
        .map(|line| match line.split(',').collect::<Vec<_>>()[..] {
            [op, benchmark, value, method, ns] => Row::of(op, benchmark, value, method, ns),
            _ => bail!("{line}: not five fields"),
        })
        .collect()
}

/// The row of a cell.
pub fn find(rows: &[Row], cell: Cell) -> Option<&Row> {
    rows.iter().find(|r| r.cell() == cell)
}

/// Distance of a latency from the published one, in percent of that.
pub fn error_percent(measured: f64, published: f64) -> f64 {
    100.0 * (measured - published) / published
}

/// Distance of a run from the published figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Published cells that were measured.
    pub cells: usize,
    /// Mean of the errors' absolute values, in percent.
    pub mean_absolute: f64,
    /// The largest error by absolute value, in percent.
    pub largest: f64,
    /// The cell that has it.
    pub worst: Cell,
}

/// Compares a run with published figures; `None` if no cell is in both.
pub fn fit(rows: &[Row], published: &[Row]) -> Option<Fit> {
    let errors: Vec<(f64, Cell)> = published
        .iter()
        .filter_map(|p| {
            let r = find(rows, p.cell())?;
            Some((error_percent(r.latency_ns, p.latency_ns), p.cell()))
        })
        .collect();
    let worst = errors
        .iter()
        .max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
    let sum: f64 = errors.iter().map(|e| e.0.abs()).sum();
    Some(Fit {
        cells: errors.len(),
        mean_absolute: sum / errors.len() as f64,
        largest: worst.0,
        worst: worst.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "row op=read benchmark=nbank value=3 method=fine latency_ns=2637.5 accesses=4096 \
        cycles=131.85\r";

    #[test]
    fn a_line_of_the_guest() {
        let row = Row::parse(LINE).unwrap().unwrap();
        assert_eq!(row.latency_ns, 2637.5);
        let cell = Cell {
            op: Op::Read,
            benchmark: Benchmark::Nbank,
            value: 3,
            method: Method::Fine,
        };
        assert_eq!(row.cell(), cell);
        assert!(Row::parse("rows of chairs").is_none());
    }

    #[test]
    fn wrong_lines_are_named() {
        for (from, to, what) in [
            ("op=read", "op=look", "op is neither"),
            ("benchmark=nbank", "benchmark=x", "benchmark is neither"),
            ("value=3", "value=-3", "no whole number"),
            ("method=fine", "method=none", "method is none of"),
            ("latency_ns=2637.5", "latency_ns=nan", "not positive"),
            ("latency_ns=2637.5", "", "lacks `latency_ns`"),
        ] {
            let e = Row::parse(&LINE.replace(from, to)).unwrap().unwrap_err();
            let text = format!("{e:#}");
            assert!(text.contains(what), "{text}");
        }
    }

    #[test]
    fn published_cells_are_among_those_measured() {
        let rows = published().unwrap();
        let cells = cells(&Method::ALL);
        assert_eq!((rows.len(), cells.len()), (20, 64));
        assert!(rows.iter().all(|r| cells.contains(&r.cell())));
    }

    #[test]
    fn json_has_exactly_the_columns_of_the_figures() {
        let row = Row::parse(LINE).unwrap().unwrap();
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"op":"read","benchmark":"nbank","value":3,"method":"fine","latency_ns":2637.5}"#
        );
    }

    #[test]
    fn fit_of_known_errors() {
        let published = published().unwrap();
        let mut rows = published.clone();
        rows[0].latency_ns *= 1.02;
        rows[5].latency_ns *= 0.9;
        let fit = fit(&rows, &published).unwrap();
        assert_eq!((fit.cells, fit.worst), (20, published[5].cell()));
        assert!((fit.mean_absolute - 0.6).abs() < 1e-9, "{fit:?}");
        assert!((fit.largest + 10.0).abs() < 1e-9, "{fit:?}");
        assert_eq!(super::fit(&[], &published), None);
    }
}
