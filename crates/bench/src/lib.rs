//! `nagori bench`: benchmarks in the guest.
#![forbid(unsafe_code)]

mod args;
mod channels;
mod child;
mod draw;
mod epoch;
mod fork;
mod io;
mod iomap;
mod mem;
mod off2f;
mod parallel;
mod rows;
mod scale;
mod speed;
mod spread;
mod start;
mod vcopy;

use anyhow::{bail, Context};
pub use args::BenchArgs;
use args::{BenchCommand, BoardArgs};
use indicatif::{ProgressBar, ProgressStyle};
use nagori_config::Machine as Description;
use nagori_image::GuestImage;
use nagori_machine::Report;
use nagori_memtime::Method;
use nagori_session::guest;
use nagori_session::software::{self, Software};
use nagori_session::{image, Capture, End, Job};
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::plot::Picture;
use nagori_terminal::sample::Sample;
use nagori_terminal::tables;
pub use rows::{find, Benchmark, Cell, Op, Row, BENCHMARKS, OPS};
use serde_json::json;
use std::fmt::Write;
use std::time::Duration;

/// The machine whose figures were published.
const PUBLISHED_MACHINE: &str = "vc707";
/// How often a run measures each cell; its row is the median.
const ROUNDS: u32 = 5;

/// Accesses of a cell with --quick.
const QUICK: u32 = 512;

/// Runs the command.
pub fn command(args: &BenchArgs, messages: &Messages) -> anyhow::Result<Exit> {
    // Most of them also run other programs.
    messages.signals().outside(|| match &args.command {
        BenchCommand::Board(a) => board(a, messages),
        BenchCommand::Start(a) => start::command(a, messages),
        BenchCommand::Io(a) => io::command(a, messages),
        BenchCommand::Fork(a) => fork::command(a, messages),
        BenchCommand::Speed(a) => speed::command(a, messages),
        BenchCommand::Mem(a) => mem::command(a, messages),
        BenchCommand::Off2f(a) => off2f::command(a, messages),
        BenchCommand::Iomap(a) => iomap::command(a, messages),
        BenchCommand::Epoch(a) => epoch::command(a, messages),
        BenchCommand::Vcopy(a) => vcopy::command(a, messages),
    })
}

fn board(a: &BoardArgs, messages: &Messages) -> anyhow::Result<Exit> {
    // Possible errors are found before the minutes of measurement.
    let picture = Picture::wanted(a.plot.as_deref(), &a.look)?;
    let description = a.machine.resolve(&[])?;
    // In the order of tables, without duplicates.
    let methods: Vec<Method> = Method::ALL
        .into_iter()
        .filter(|m| a.methods.is_empty() || a.methods.contains(m))
        .collect();
    let accesses = if a.quick { QUICK } else { a.accesses };
    let warmup = (accesses / 3).max(1);
    let rounds = if a.quick { 1 } else { ROUNDS };
    let names: Vec<_> = methods.iter().map(|m| m.name()).collect();
    let harts = description.config.harts;
    let software = Software {
        // The last hart belongs to the benchmark; a tick there still costs what the kernel's tick
        // costs.
        append: Some(match software::isolation(harts) {
            Some(arguments) => format!("quiet {arguments}"),
            None => "quiet".into(),
        }),
        run: Some(format!(
            "bench-board --accesses {accesses} --warmup {warmup} --rounds {rounds} --methods {}",
            names.join(",")
        )),
        ..Software::default()
    };
    let image = image::build(&a.cache.options()?, messages)?;
    let cells = rows::cells(&methods);
    let bar = progress(cells.len() * a.repeats as usize, messages);
    let first = description.config.seed;
    let (mut runs, mut first_report) = (Vec::new(), None);
    for n in 0..u64::from(a.repeats) {
        let seed = first.checked_add(n).context("--repeats: no more seeds")?;
        let description = match n {
            0 => description.clone(),
            _ => a.machine.resolve(&[format!("seed={seed}")])?,
        };
        let run = once(&description, &software, &image, &cells, &bar, messages);
        match run {
            Ok((rows, report)) => {
                runs.push(rows);
                first_report.get_or_insert(report);
            }
            Err(e) => {
                bar.finish_and_clear();
                return Err(e);
            }
        }
    }
    bar.finish_and_clear();
    let report = first_report.context("no run")?;
    let (measured, samples) = means(&runs)?;
    let published = if description.config.name == PUBLISHED_MACHINE {
        rows::published()?
    } else {
        Vec::new()
    };
    if !published.is_empty() && !a.machine.set.is_empty() {
        messages.warning("the published figures are those of the machine without --set");
    }
    match a.json {
        true if runs.len() == 1 => output::print_json(&json!(measured))?,
        true => output::print_json(&json_of_samples(&measured, &samples, first))?,
        false => output::print(&text(&methods, &measured, &published, &report))?,
    }
    if let Some(picture) = picture {
        let chart = draw::board(&description.config.name, &measured, &published)?;
        picture.draw(&chart, messages)?;
    }
    Ok(SUCCESS)
}

/// Mean rows of several runs of the same cells, and the values of each cell's runs.
fn means(runs: &[Vec<Row>]) -> anyhow::Result<(Vec<Row>, Vec<Vec<f64>>)> {
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    let cells = runs.first().map_or(&[][..], Vec::as_slice);
    for (i, first) in cells.iter().enumerate() {
        let values: Vec<f64> = runs.iter().map(|r| r[i].latency_ns).collect();
        let sample = Sample::of(&values).context("a cell without a result")?;
        rows.push(Row {
            latency_ns: sample.mean,
            interval: sample.ci95,
            ..*first
        });
        samples.push(values);
    }
    Ok((rows, samples))
}

/// The rows with the statistics of their runs.
fn json_of_samples(rows: &[Row], samples: &[Vec<f64>], first: u64) -> serde_json::Value {
    let row = |(row, values): (&Row, &Vec<f64>)| {
        let mut v = json!(row);
        v["first_seed"] = json!(first);
        v["latency_ns_sample"] = json!(Sample::of(values).map(|s| s.json(values)));
        v
    };
    rows.iter().zip(samples).map(row).collect()
}

/// Boots and measures: rows of all cells, and statistics.
fn once(
    description: &Description,
    software: &Software,
    image: &GuestImage,
    cells: &[Cell],
    bar: &ProgressBar,
    messages: &Messages,
) -> anyhow::Result<(Vec<Row>, Report)> {
    let job = Job::unattended(software::plan(description, software, Some(image))?);
    let mut capture = Capture::new(|line| progress_line(bar, line));
    let (end, report) = guest::measure(description, &job, &mut capture, messages.signals())?;
    let lines = capture.lines();
    match end {
        End::Off(0) => {}
        _ => bail!(
            "the guest failed ({}); the end of what it printed:\n{}",
            end.describe(),
            tail(&lines)
        ),
    }
    Ok((collect(&lines, cells)?, report))
}

fn progress(cells: usize, messages: &Messages) -> ProgressBar {
    if messages.quiet() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(cells as u64);
    let template = "{spinner} {msg:28} {bar:32} {pos}/{len} cells  {elapsed}";
    bar.set_style(ProgressStyle::with_template(template).expect("a template"));
    if bar.is_hidden() {
        messages.note("booting Linux and measuring");
    } else {
        bar.set_message("booting Linux");
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}

fn progress_line(bar: &ProgressBar, line: &str) {
    if let Some(Ok(row)) = Row::parse(line) {
        bar.inc(1);
        let (op, benchmark) = (row.op.name(), row.benchmark.name());
        bar.set_message(format!("{} {op} {benchmark} {}", row.method, row.value));
    }
}

/// The last lines of a console.
fn tail(lines: &[String]) -> String {
    const LINES: usize = 20;
    let from = lines.len().saturating_sub(LINES);
    lines[from..]
        .iter()
        .map(|l| format!("  | {l}\n"))
        .collect::<String>()
        .trim_end()
        .to_string()
}

/// The rows of all cells, each of them once.
fn collect(lines: &[String], cells: &[Cell]) -> anyhow::Result<Vec<Row>> {
    let mut found = Vec::new();
    for line in lines {
        if let Some(row) = Row::parse(line) {
            found.push(row?);
        }
    }
    cells
        .iter()
        .map(|&cell| {
            let mut of_cell = found.iter().filter(|r| r.cell() == cell);
            let row = of_cell.next();
            let name = || {
                let (op, b) = (cell.op.name(), cell.benchmark.name());
                format!("{op} {b} {} {}", cell.value, cell.method)
            };
            if of_cell.next().is_some() {
                bail!("the guest printed two results for {}", name());
            }
            row.copied().with_context(|| {
                format!(
                    "the guest printed no result for {}; the end of what it printed:\n{}",
                    name(),
                    tail(lines)
                )
            })
        })
        .collect()
}

/// Tables of all results.
fn text(methods: &[Method], measured: &[Row], published: &[Row], report: &Report) -> String {
    let mut out = String::new();
    for op in OPS {
        for (benchmark, values) in BENCHMARKS {
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "{} {}: average latency of an access in ns",
                benchmark.name(),
                op.name()
            );
            out.push_str(&table(op, benchmark, values, methods, measured, published));
            out.push('\n');
        }
    }
    if let Some(line) = summary(measured, published) {
        out.push_str(&line);
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "The whole run, boot included: {} of guest time, {} instructions; what was timed:",
        tables::duration(report.elapsed_ps),
        tables::grouped(report.instructions)
    );
    out.push_str(&tables::memory(report));
    out
}

/// One line on the distance of the results from the published ones.
fn summary(measured: &[Row], published: &[Row]) -> Option<String> {
    let fit = rows::fit(measured, published)?;
    let w = fit.worst;
    Some(format!(
        "{} published cells: mean absolute error {:.1} %, largest {:+.1} % ({} {} {} {})\n",
        fit.cells,
        fit.mean_absolute,
        fit.largest,
        w.benchmark.name(),
        w.op.name(),
        w.value,
        w.method
    ))
}

fn table(
    op: Op,
    benchmark: Benchmark,
    values: &[u64],
    methods: &[Method],
    measured: &[Row],
    published: &[Row],
) -> String {
    let cell = |value, method| Cell {
        op,
        benchmark,
        value,
        method,
    };
    let compared = |m: Method| {
        values
            .iter()
            .any(|&v| find(published, cell(v, m)).is_some())
    };
    let mut head = vec![benchmark.axis().to_string()];
    for &m in methods {
        head.push(m.name().into());
        if compared(m) {
            head.extend(["published".into(), "error".into()]);
        }
    }
    let mut t = tables::table(head);
    for &value in values {
        let mut cells = vec![value.to_string()];
        for &m in methods {
            let row = find(measured, cell(value, m));
            let ours = row.map(|r| r.latency_ns);
            let half = row
                .and_then(|r| r.interval)
                .map(|[low, high]| (high - low) / 2.0);
            let theirs = find(published, cell(value, m)).map(|r| r.latency_ns);
            let shown = |v: Option<f64>, digits| {
                v.map_or("-".to_string(), |v: f64| format!("{v:.digits$}"))
            };
            cells.push(match half {
                Some(h) => format!("{} ± {h:.1}", shown(ours, 1)),
                None => shown(ours, 1),
            });
            if compared(m) {
                cells.push(shown(theirs, 0));
                cells.push(match (ours, theirs) {
                    (Some(a), Some(b)) => format!("{:+.1} %", rows::error_percent(a, b)),
                    _ => String::new(),
                });
            }
        }
        tables::row(&mut t, cells);
    }
    tables::text(&t)
}

/// Invented results, 10 % above the published ones where there are some.
#[cfg(test)]
pub fn sample(methods: &[Method]) -> (Vec<Row>, Vec<Row>) {
    let mut published = rows::published().unwrap();
    published.retain(|r| methods.contains(&r.method));
    let row = |(i, c): (usize, Cell)| Row {
        op: c.op,
        benchmark: c.benchmark,
        value: c.value,
        method: c.method,
        latency_ns: find(&published, c).map_or(1500.0 + i as f64, |r| r.latency_ns * 1.1),
        interval: None,
    };
    let cells = rows::cells(methods).into_iter().enumerate();
    (cells.map(row).collect(), published)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rows: &[Row]) -> Vec<String> {
        let line = |r: &Row| {
            let (op, b) = (r.op.name(), r.benchmark.name());
            let (value, method, ns) = (r.value, r.method, r.latency_ns);
            format!("row op={op} benchmark={b} value={value} method={method} latency_ns={ns}")
        };
        rows.iter().map(line).collect()
    }

    #[test]
    fn results_are_put_in_order_and_checked() {
        let (rows, _) = sample(&Method::ALL);
        let cells = rows::cells(&Method::ALL);
        let mut printed = lines(&rows);
        printed.reverse();
        printed.push("something else".into());
        assert_eq!(collect(&printed, &cells).unwrap(), rows);

        let lost = printed.remove(0);
        let e = collect(&printed, &cells).unwrap_err().to_string();
        assert!(
            e.starts_with("the guest printed no result for write nbank 6 extended"),
            "{e}"
        );
        assert!(e.contains("  | something else"), "{e}");
        printed.extend([lost.clone(), lost]);
        let e = collect(&printed, &cells).unwrap_err().to_string();
        assert!(e.contains("two results for write nbank 6 extended"), "{e}");
    }

    #[test]
    fn tables_are_as_recorded() {
        let (rows, published) = sample(&Method::ALL);
        let mut text = String::new();
        for (benchmark, values) in BENCHMARKS {
            text += &table(
                Op::Write,
                benchmark,
                values,
                &Method::ALL,
                &rows,
                &published,
            );
        }
        text += &summary(&rows, &published).unwrap();
        nagori_golden::golden(
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/bench.txt"),
            &text,
        );
    }

    #[test]
    fn several_runs_have_means_and_intervals() {
        let (rows, published) = sample(&[Method::Coarse]);
        let higher: Vec<Row> = rows
            .iter()
            .map(|r| Row {
                latency_ns: r.latency_ns + 2.0,
                ..*r
            })
            .collect();
        let (mean, samples) = means(&[rows.clone(), higher]).unwrap();
        assert_eq!(mean[0].latency_ns, rows[0].latency_ns + 1.0);
        let [low, high] = mean[0].interval.unwrap();
        assert!((high - low - 2.0 * 12.7062).abs() < 1e-3);
        let json = json_of_samples(&mean, &samples, 3);
        assert_eq!(json[0]["first_seed"], 3);
        assert_eq!(json[0]["latency_ns_sample"]["count"], 2);
        let (b, values) = BENCHMARKS[0];
        let text = table(Op::Read, b, values, &[Method::Coarse], &mean, &published);
        assert!(text.contains("± 12.7"), "{text}");
        // A single run is shown as before.
        let (one, _) = means(std::slice::from_ref(&rows)).unwrap();
        assert_eq!(one, rows);
    }

    #[test]
    fn the_end_of_a_console() {
        let all: Vec<String> = (0..30).map(|i| i.to_string()).collect();
        let text = tail(&all);
        assert!(
            text.starts_with("  | 10\n") && text.ends_with("  | 29"),
            "{text}"
        );
        assert_eq!(tail(&[]), "");
    }
}
