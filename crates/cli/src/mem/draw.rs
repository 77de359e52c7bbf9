//! Plots of a result.

use crate::mem::report::Report;
use crate::report::document::{Block, Document};
use crate::report::page;
use anyhow::{bail, Context};
use nagori_memtrace::measure::{LatencySummary, Point as Bytes};
use nagori_plot::{Axis, Chart, Format, Mark, Panel, Point, Series};
use nagori_terminal::output::file;
use nagori_terminal::plot::{self, LookArgs};
use std::path::Path;

/// Checks that a plot can have this name; standard output gets a page.
pub fn check_name(path: &Path) -> anyhow::Result<()> {
    if is_page(path) || Format::of(path).is_some() {
        return Ok(());
    }
    bail!(
        "{}: the name of a picture must end in .html, {}",
        path.display(),
        Format::ENDINGS
    )
}

fn is_page(path: &Path) -> bool {
    file::is_stdout(path) || path.extension().is_some_and(|e| e == "html")
}

/// A chart as a file, in the form given by its name: with headings and text around it, if that is a page.
pub fn bytes(
    path: &Path,
    chart: &Chart,
    look: &LookArgs,
    around: impl FnOnce(Block) -> Document,
) -> anyhow::Result<Vec<u8>> {
    check_name(path)?;
    let failed = || format!("cannot draw {}", path.display());
    if is_page(path) {
        // The page has the title already.
        let chart = Chart {
            title: String::new(),
            ..chart.clone()
        };
        let document = around(Block::Chart(Box::new(chart)));
        Ok(page::html(&document).with_context(failed)?.into_bytes())
    } else {
        plot::bytes(chart, plot::format(path)?, &look.look()?).with_context(failed)
    }
}

/// The plot of a run as a file.
pub fn report(path: &Path, r: &Report, look: &LookArgs) -> anyhow::Result<Vec<u8>> {
    bytes(path, &chart(r), look, |chart| {
        let mut blocks = vec![chart, Block::Code(r.tables())];
        if !r.settings.is_empty() {
            let text = format!("Set for this run: {}", r.settings.join(", "));
            blocks.insert(0, Block::Text(text));
        }
        Document::new(format!("{} with {}", r.memory, r.trace), r.mode.clone())
            .with("", false, blocks)
    })
}

/// Latencies, bandwidth, banks, and what is written where.
pub fn chart(r: &Report) -> Chart {
    Chart {
        title: format!("{} with {}", r.memory, r.trace),
        panels: vec![latencies(r), bandwidth(r), banks(r), writes(r)],
        ..Chart::default()
    }
}

fn empty(title: &str, why: &str) -> Panel {
    Panel {
        empty: why.into(),
        ..Panel::new(title, Default::default(), Vec::new())
    }
}

fn latencies(r: &Report) -> Panel {
    let title = "Latency as the requester sees it";
    let kinds = [
        ("reads", &r.outcome.read_latency),
        ("writes", &r.outcome.write_latency),
    ];
    // Writes that are answered when they are accepted would be one bar in an otherwise empty panel.
    let at_once = |l: &LatencySummary| l.count > 0 && l.max_ns == Some(0.0);
    let mut series = Vec::new();
    let mut answered = Vec::new();
    for (name, l) in kinds.into_iter().filter(|k| k.1.count > 0) {
        if at_once(l) {
            answered.push(name);
            continue;
        }
        let mut points: Vec<Point> = Vec::new();
        let mut end = f64::NAN;
        let least = l.histogram.iter().map(|b| b.from_ns).filter(|f| *f > 0.0);
        let least = least.fold(f64::MAX, f64::min).clamp(0.01, 1e3);
        for b in &l.histogram {
            let from = b.from_ns.max(least / 2.0);
            if end.is_nan() || from > end * (1.0 + 1e-9) {
                points.extend((!end.is_nan()).then(|| Point::new(end, 0.0)));
                points.push(Point::new(from, 0.0));
            }
            points.push(Point::new(from, 100.0 * b.count as f64 / l.count as f64));
            end = b.to_ns.max(from);
        }
        if !end.is_nan() {
            points.push(Point::new(end, 0.0));
        }
        series.push(Series {
            colour: Some(usize::from(name == "writes")),
            ..Series::new(name, Mark::Steps).with(points)
        });
    }
    let title = match &answered[..] {
        [] => title.to_string(),
        all => format!("{title} ({}: answered at once)", all.join(", ")),
    };
    let axes = (
        Axis::new("latency", "ns").log(),
        Axis::new("share of the requests", "%"),
    );
    let why = if answered.is_empty() {
        "there are no requests"
    } else {
        "all requests are answered when they are \
        accepted, after 0 ns"
    };
    if series.is_empty() {
        empty(&title, why)
    } else {
        Panel::new(title, axes, series)
    }
}

/// The points, with the last one, which the end of the run cut short, joined to the one before: in
/// a very short interval a single burst would look like a peak.
fn whole_points(points: &[Bytes]) -> Vec<Bytes> {
    let mut points = points.to_vec();
    if let [.., before, last] = &mut points[..] {
        if last.length_ns < before.length_ns {
            before.length_ns += last.length_ns;
            before.read_bytes += last.read_bytes;
            before.write_bytes += last.write_bytes;
            points.pop();
        }
    }
    points
}

fn bandwidth(r: &Report) -> Panel {
    let title = "Bandwidth over time";
    let points = &whole_points(&r.outcome.bandwidth);
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return empty(title, "there are no requests");
    };
    let begin = first.from_ns;
    let length = last.from_ns + last.length_ns - begin;
    let (unit, scale) = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)]
        .into_iter()
        .rev()
        .find(|u| length >= 2.0 * u.1)
        .unwrap_or(("ns", 1.0));
    // Bytes per nanosecond are GB per second.
    let rate = |n: u64, l: f64| if l > 0.0 { n as f64 / l } else { 0.0 };
    type Of = fn(&Bytes) -> u64;
    let kinds: [(&str, Of); 2] = [("reads", |p| p.read_bytes), ("writes", |p| p.write_bytes)];
    let mut series = Vec::new();
    for (i, (name, bytes)) in kinds.into_iter().enumerate() {
        if points.iter().all(|p| bytes(p) == 0) {
            continue;
        }
        // A point is a mean over its length.
        let mut steps: Vec<Point> = { points.iter() }
            .map(|p| Point::new((p.from_ns - begin) / scale, rate(bytes(p), p.length_ns)))
            .collect();
        steps.push(Point::new(
            length / scale,
            rate(bytes(last), last.length_ns),
        ));
        series.push(Series {
            colour: Some(i),
            ..Series::new(name, Mark::Steps).with(steps)
        });
    }
    let axes = (
        Axis::new("time since the first request", unit),
        Axis::new("bandwidth", "GB/s"),
    );
    Panel::new(title, axes, series)
}

fn banks(r: &Report) -> Panel {
    let title = "Row hit rate by bank";
    let banks = r.banks();
    if banks.is_empty() {
        return empty(title, "this memory counts no banks");
    }
    let rate = |(i, (_, c)): (usize, &(String, _))| {
        let c: &&nagori_memtime::model::Counters = c;
        Some(Point::new(i.to_string(), 100.0 * c.row_hit_rate()?))
    };
    let points = banks.iter().enumerate().filter_map(rate);
    let series = Series {
        colour: Some(0),
        ..Series::new("", Mark::Bars).with(points)
    };
    let x = Axis {
        names: (0..banks.len()).map(|i| i.to_string()).collect(),
        ..Axis::names("bank, by channel, rank, bank group, bank")
    };
    let y = Axis {
        to: Some(100.0),
        ..Axis::new("row hits", "%")
    };
    Panel::new(title, (x, y), vec![series])
}

/// A number for each range of addresses, in their order.
fn writes(r: &Report) -> Panel {
    // Wear if it is counted: of the region that has most of it.
    let worn = r.model.regions.iter().filter_map(|r| {
        let wear = r.wear.as_ref().filter(|w| !w.map.max.is_empty());
        Some((&r.name, wear?))
    });
    let (title, part_bytes, values, x, y) = match worn.max_by_key(|(_, w)| w.max_writes) {
        Some((region, w)) => (
            format!("Wear of {region}: most writes of a unit"),
            w.map.bucket_bytes,
            &w.map.max,
            "address in the medium",
            Axis::new("writes", ""),
        ),
        None => (
            "Written bytes by address".to_string(),
            r.outcome.write_map.part_bytes,
            &r.outcome.write_map.written,
            "address",
            Axis::new("written", "B"),
        ),
    };
    let used = values.iter().rposition(|&v| v > 0).map_or(0, |i| i + 1);
    if used == 0 {
        return empty(&title, "there are no writes");
    }
    let end = used as f64 * part_bytes as f64;
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
    let fits = |u: &&(&str, u32)| end >= (2u64 << u.1) as f64 || u.1 == 0;
    let (unit, shift) = units.iter().find(fits).copied().unwrap_or(("B", 0));
    let scale = part_bytes as f64 / (1u64 << shift) as f64;
    let mut points: Vec<Point> = Vec::new();
    let mut before = None;
    for (i, v) in values[..used].iter().enumerate() {
        if before != Some(v) {
            points.push(Point::new(i as f64 * scale, *v as f64));
        }
        before = Some(v);
    }
    points.push(Point::new(used as f64 * scale, 0.0));
    let series = Series {
        colour: Some(1),
        ..Series::new("", Mark::Steps).with(points)
    };
    let title = format!("{title} (ranges of {})", bytes_text(part_bytes));
    Panel::new(title, (Axis::new(x, unit), y), vec![series])
}

/// A number of bytes with a binary unit, if it is a whole number of them.
fn bytes_text(n: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units
        .iter()
        .find(|u| n >> u.1 > 0 && n.is_multiple_of(1 << u.1))
    {
        Some((unit, shift)) => format!("{} {unit}", n >> shift),
        None => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_point_that_was_cut_off_is_no_peak() {
        let p = |from_ns, length_ns, read_bytes| Bytes {
            from_ns,
            length_ns,
            read_bytes,
            write_bytes: 0,
        };
        let points = [p(0.0, 100.0, 640), p(100.0, 100.0, 640), p(200.0, 1.0, 64)];
        let whole = whole_points(&points);
        assert_eq!(whole, [points[0], p(100.0, 101.0, 704)]);
        assert_eq!(whole_points(&points[..2]), &points[..2]);
        assert_eq!(whole_points(&points[2..]), &points[2..]);
    }

    #[test]
    fn names_and_units() {
        assert!(check_name(Path::new("a.html")).is_ok());
        let e = check_name(Path::new("a.gif")).unwrap_err().to_string();
        assert!(e.contains(".html, .svg, .png, .pdf or .vl.json"), "{e}");
        assert_eq!(bytes_text(4 << 20), "4 MiB");
        assert_eq!(bytes_text(1 << 30), "1 GiB");
        assert_eq!(bytes_text(100), "100 B");
    }
}
