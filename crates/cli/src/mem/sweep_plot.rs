//! Plots of a sweep: results over varied values.

use crate::mem::draw;
use crate::mem::sweep::{COLUMNS, NAMES};
use crate::report::document::{Block, Document, Table};
use anyhow::{bail, Context};
use nagori_plot::{Chart, Mark, Panel, Place, Point, PALETTE};
use nagori_terminal::numbers::with_unit as number;
use nagori_terminal::plot::LookArgs;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// Greatest number of series in a plot: all colours, with two kinds of lines and symbols.
const SERIES: usize = 2 * PALETTE.len();
/// Columns that are drawn by default.
const FIGURES: [&str; 4] = [
    "bandwidth_bytes_per_s",
    "read_latency_avg_ns",
    "write_latency_avg_ns",
    "energy_pj",
];
/// Greatest number of panels.
const PANELS: usize = 4;

/// Label of a column, its unit, and the divisor of its values.
const UNITS: &[(&str, &str, &str, f64)] = &[
    ("bandwidth_bytes_per_s", "bandwidth", "GB/s", 1e9),
    ("read_latency_avg_ns", "mean latency of reads", "ns", 1.0),
    ("read_latency_p50_ns", "median latency of reads", "ns", 1.0),
    ("read_latency_p99_ns", "99th percentile of reads", "ns", 1.0),
    (
        "read_latency_max_ns",
        "greatest latency of a read",
        "ns",
        1.0,
    ),
    ("write_latency_avg_ns", "mean latency of writes", "ns", 1.0),
    (
        "write_latency_p99_ns",
        "99th percentile of writes",
        "ns",
        1.0,
    ),
    ("energy_pj", "energy", "uJ", 1e6),
    ("simulated_seconds", "simulated time", "ms", 1e-3),
    ("row_hit_rate", "row hits", "%", 1e-2),
];

/// The table that `nagori mem sweep` has written.
#[derive(Debug)]
pub struct Sweep {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Number of columns that identify a run; the others are results.
    keys: usize,
    /// Index of the column along the x axis.
    x: usize,
    /// Indices of the columns that are drawn.
    figures: Vec<usize>,
}

/// Points of one combination of the values that are not on the x axis.
struct Series {
    name: String,
    /// Index of the row for each value of x.
    rows: BTreeMap<usize, usize>,
}

impl Sweep {
    /// Reads a table; `x` is the column along the x axis, `figures` those that are drawn.
    pub fn read(text: &str, x: Option<&str>, figures: &[String]) -> anyhow::Result<Sweep> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let head: Vec<String> = reader.headers()?.iter().map(str::to_string).collect();
        if !NAMES.iter().eq(head.iter().take(NAMES.len())) {
            bail!(
                "its first columns are not {}, as those of a sweep are",
                NAMES.join(", ")
            );
        }
        let first = COLUMNS[0].0;
        let at = head.iter().position(|h| h == first);
        let keys = at.with_context(|| format!("it has no column {first}"))?;
        let mut rows = Vec::new();
        for r in reader.records() {
            rows.push(r?.iter().map(str::to_string).collect());
        }
        if rows.is_empty() {
            bail!("it has no rows");
        }
        let mut s = Sweep {
            head,
            rows,
            keys,
            x: 0,
            figures: Vec::new(),
        };
        s.x = match x {
            Some(name) => s.column(name, 0..keys)?,
            None => s.default_x(),
        };
        s.figures = match figures {
            [] => FIGURES
                .iter()
                .map(|f| s.column(f, keys..s.head.len()))
                .collect::<anyhow::Result<_>>()?,
            given if given.len() > PANELS => bail!("--figure: {PANELS} at most have room"),
            given => given
                .iter()
                .map(|f| s.column(f, keys..s.head.len()))
                .collect::<anyhow::Result<_>>()?,
        };
        let n = s.series().len();
        if n > SERIES {
            bail!("it has {n} series beside the values of {}; {SERIES} at most can be told apart: choose another --x, \
                or sweep less", s.head[s.x]);
        }
        Ok(s)
    }

    fn column(&self, name: &str, range: std::ops::Range<usize>) -> anyhow::Result<usize> {
        let known = &self.head[range.clone()];
        let at = known.iter().position(|h| h == name);
        at.map(|i| i + range.start)
            .with_context(|| format!("it has no column {name} there: {}", known.join(", ")))
    }

    /// The values of a column, in the order of the rows.
    fn values(&self, column: usize) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for r in &self.rows {
            if !all.contains(&r[column].as_str()) {
                all.push(&r[column]);
            }
        }
        all
    }

    fn varies(&self, column: usize) -> bool {
        self.values(column).len() > 1
    }

    /// The first varied key, else the memories, else the traces.
    fn default_x(&self) -> usize {
        let varied = (NAMES.len()..self.keys).chain(0..NAMES.len());
        varied.into_iter().find(|c| self.varies(*c)).unwrap_or(0)
    }

    /// The values along the x axis: as numbers if all are numbers of one unit.
    fn axis(&self) -> Axis {
        let names = self.values(self.x);
        let numbers: Option<Vec<(f64, &str)>> = names.iter().map(|v| number(v)).collect();
        match numbers {
            Some(n) if n.len() > 1 && n.iter().all(|v| v.1 == n[0].1) => Axis::Numbers {
                at: n.iter().map(|v| v.0).collect(),
                unit: n[0].1.to_string(),
            },
            _ => Axis::Names(names.iter().map(|n| n.to_string()).collect()),
        }
    }

    fn series(&self) -> Vec<Series> {
        let others: Vec<usize> = (0..self.keys)
            .filter(|c| *c != self.x && self.varies(*c))
            .collect();
        let xs = self.values(self.x);
        let mut all: Vec<Series> = Vec::new();
        for (n, r) in self.rows.iter().enumerate() {
            let part = |c: &usize| {
                if NAMES.contains(&self.head[*c].as_str()) {
                    r[*c].clone()
                } else {
                    format!("{}={}", self.head[*c], r[*c])
                }
            };
            let parts: Vec<String> = others.iter().map(part).collect();
            let name = if parts.is_empty() {
                r[0].clone()
            } else {
                parts.join(", ")
            };
            let Some(x) = xs.iter().position(|x| *x == r[self.x]) else {
                continue;
            };
            match all.iter_mut().find(|s| s.name == name) {
                Some(s) => {
                    s.rows.insert(x, n);
                }
                None => all.push(Series {
                    name,
                    rows: [(x, n)].into(),
                }),
            }
        }
        all
    }

    fn value(&self, row: usize, column: usize, unit: f64) -> Option<f64> {
        let v: f64 = self.rows[row][column].parse().ok()?;
        v.is_finite().then_some(v / unit)
    }
}

/// The values along the x axis.
enum Axis {
    Names(Vec<String>),
    Numbers { at: Vec<f64>, unit: String },
}

impl Sweep {
    /// A panel for each figure: lines over numbers, or bars beside one another over names.
    pub fn chart(&self) -> Chart {
        let series = self.series();
        Chart {
            title: format!("Sweep over {}", self.head[self.x]),
            panels: self
                .figures
                .iter()
                .map(|f| self.panel(*f, &series))
                .collect(),
            ..Chart::default()
        }
    }

    /// The plot as a file; a page has the table as well.
    pub fn file(&self, path: &Path, look: &LookArgs) -> anyhow::Result<Vec<u8>> {
        draw::bytes(path, &self.chart(), look, |chart| {
            let cell = |c: &String| match c.parse::<f64>() {
                Ok(_) => serde_json::from_str(c).unwrap_or_else(|_| json!(c)),
                Err(_) => json!(c),
            };
            let table = Table {
                columns: self.head.clone(),
                rows: { self.rows.iter() }
                    .map(|r| r.iter().map(cell).collect())
                    .collect(),
                note: String::new(),
            };
            let title = format!("Sweep over {}", self.head[self.x]);
            Document::new(title, "").with("", false, vec![chart, Block::Table(table)])
        })
    }

    fn panel(&self, column: usize, series: &[Series]) -> Panel {
        let name = &self.head[column];
        let known = UNITS.iter().find(|u| u.0 == name);
        let (label, unit, divisor) = known.map_or((name.as_str(), "", 1.0), |u| (u.1, u.2, u.3));
        let axis = self.axis();
        let (x, mark) = match &axis {
            Axis::Names(n) => (
                nagori_plot::Axis {
                    names: n.clone(),
                    ..nagori_plot::Axis::names(&self.head[self.x])
                },
                Mark::Bars,
            ),
            Axis::Numbers { unit, .. } => {
                (nagori_plot::Axis::new(&self.head[self.x], unit), Mark::Line)
            }
        };
        let place = |x: usize| match &axis {
            Axis::Names(n) => Place::Name(n[x].clone()),
            Axis::Numbers { at, .. } => Place::Number(at[x]),
        };
        let y = nagori_plot::Axis::new(label, unit);
        let drawn = series.iter().map(|s| {
            let point = |(x, row): (&usize, &usize)| {
                Some(Point::new(place(*x), self.value(*row, column, divisor)?))
            };
            nagori_plot::Series::new(&s.name, mark).with(s.rows.iter().filter_map(point))
        });
        let drawn: Vec<nagori_plot::Series> = drawn.collect();
        // What the vertical axis says is its title, unless there is none.
        let title = if drawn.iter().all(|s| s.points.is_empty()) {
            y.label()
        } else {
            String::new()
        };
        Panel {
            empty: "no run of the sweep has it".into(),
            ..Panel::new(title, (x, y), drawn)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of a sweep with these keys, and their values by row.
    fn table(keys: &[&str], rows: &[&[&str]]) -> String {
        let head: Vec<&str> = NAMES.iter().chain(keys).copied().collect();
        let columns = COLUMNS.iter().map(|c| c.0);
        let mut out = head
            .into_iter()
            .chain(columns)
            .collect::<Vec<_>>()
            .join(",")
            + "\n";
        for (n, r) in rows.iter().enumerate() {
            let figures = COLUMNS.iter().map(|c| match c.0 {
                "energy_pj" => String::new(),
                _ => format!("{}", (n + 1) as f64 * 1e9),
            });
            let quoted = r.iter().map(|v| format!("\"{v}\""));
            out += &(quoted.chain(figures).collect::<Vec<_>>().join(",") + "\n");
        }
        out
    }

    fn svg(s: &Sweep) -> String {
        nagori_plot::svg(&s.chart(), &nagori_plot::Look::default()).unwrap()
    }

    #[test]
    fn numbers_are_an_axis_and_memories_are_series() {
        let t = table(
            &["timings.tRCD"],
            &[
                &["ddr3", "gen:random,count=9", "saturated", "10 ns"],
                &["ddr3", "gen:random,count=9", "saturated", "30 ns"],
                &["pcm", "gen:random,count=9", "saturated", "10 ns"],
                &["pcm", "gen:random,count=9", "saturated", "30 ns"],
            ],
        );
        let s = Sweep::read(&t, None, &[]).unwrap();
        assert_eq!(s.head[s.x], "timings.tRCD");
        let names: Vec<String> = s.series().into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["ddr3", "pcm"]);
        let text = svg(&s);
        for part in [
            "timings.tRCD [ns]",
            "bandwidth [GB/s]",
            "ddr3",
            "pcm",
            "no run of the sweep has it",
        ] {
            assert!(text.contains(part), "{part}");
        }
        let page = s.file(Path::new("a.html"), &LookArgs::default()).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("Sweep over timings.tRCD") && page.contains("10 ns"));
        let png = s.file(Path::new("a.png"), &LookArgs::default()).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
    }

    #[test]
    fn names_are_groups_of_bars() {
        let t = table(
            &["controller.page", "controller.order"],
            &[
                &["ddr3", "a", "saturated", "open", "hit_first"],
                &["ddr3", "a", "saturated", "closed", "hit_first"],
                &["ddr3", "b", "saturated", "open", "age_first"],
            ],
        );
        let s = Sweep::read(&t, None, &["row_hit_rate".into()]).unwrap();
        let names: Vec<String> = s.series().into_iter().map(|s| s.name).collect();
        assert_eq!(
            names,
            [
                "a, controller.order=hit_first",
                "b, controller.order=age_first"
            ]
        );
        let text = svg(&s);
        assert!(text.contains("open") && text.contains("closed") && text.contains("row hits [%]"));
        let s = Sweep::read(&t, Some("trace"), &[]).unwrap();
        assert_eq!(s.head[s.x], "trace");
        assert_eq!(s.series().len(), 3);
    }

    #[test]
    fn what_is_no_sweep_is_told() {
        let e = |t: &str| Sweep::read(t, None, &[]).unwrap_err().to_string();
        assert!(e("a,b\n1,2\n").contains("memory, trace, mode"));
        assert!(e("memory,trace,mode\n").contains("no column requests"));
        assert!(e(&table(&[], &[])).contains("no rows"));
        let t = table(&[], &[&["ddr3", "a", "saturated"]]);
        let e = Sweep::read(&t, Some("speed"), &[]).unwrap_err().to_string();
        assert!(e.contains("no column speed") && e.contains("memory, trace, mode"));
        let e = Sweep::read(&t, None, &["speed".into()]).unwrap_err();
        assert!(e.to_string().contains("bandwidth_bytes_per_s"));
        // A single value is treated as a name, not as an axis of numbers.
        assert!(svg(&Sweep::read(&t, None, &[]).unwrap()).contains("ddr3"));
        let many: Vec<Vec<String>> = (0..40)
            .map(|i| vec![format!("m{i}"), "a".into(), "saturated".into(), "1".into()])
            .collect();
        let rows: Vec<Vec<&str>> = many
            .iter()
            .flat_map(|r| {
                let one: Vec<&str> = r.iter().map(String::as_str).collect();
                let mut two = one.clone();
                two[3] = "2";
                [one, two]
            })
            .collect();
        let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
        assert!(e_of(&table(&["k"], &rows)).contains("40 series"));
    }

    fn e_of(t: &str) -> String {
        Sweep::read(t, None, &[]).unwrap_err().to_string()
    }

    #[test]
    fn values_with_units() {
        assert_eq!(number("15 ns"), Some((15.0, "ns")));
        assert_eq!(number("1.5"), Some((1.5, "")));
        assert_eq!(number("64KiB"), Some((64.0, "KiB")));
        assert_eq!(number("open"), None);
    }
}
