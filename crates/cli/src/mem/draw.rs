//! Plots of a result.

use crate::mem::page;
use crate::mem::report::Report;
use crate::output::file;
use crate::plot::{png, register_fonts, FONT};
use anyhow::{anyhow, bail, Context};
use nagori_memtrace::measure::{LatencySummary, Point};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

/// Size of the picture with its four panels.
pub const SIZE: (u32, u32) = (1400, 940);
const READS: RGBColor = RGBColor(0, 114, 178);
const WRITES: RGBColor = RGBColor(213, 94, 0);
pub const INK: RGBColor = RGBColor(34, 34, 34);
pub const GRID: RGBColor = RGBColor(221, 221, 221);

/// Checks that a plot can have this name; standard output gets a page.
pub fn check_name(path: &Path) -> anyhow::Result<()> {
    if file::is_stdout(path) {
        return Ok(());
    }
    match path.extension().and_then(|e| e.to_str()) {
        Some("html" | "svg" | "png") => Ok(()),
        _ => bail!(
            "{}: the name of a picture must end in .html, .svg or .png",
            path.display()
        ),
    }
}

/// Something that can be drawn.
pub trait Picture {
    /// Size in pixels.
    fn size(&self) -> (u32, u32);

    /// Draws it on a white ground.
    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>) -> anyhow::Result<()>
    where
        B::ErrorType: Send + Sync + 'static;

    /// The page around the picture.
    fn page(&self, svg: &str) -> String;
}

/// The plot as a file, in the format given by its name.
pub fn bytes(path: &Path, p: &impl Picture) -> anyhow::Result<Vec<u8>> {
    check_name(path)?;
    let failed = || format!("cannot draw {}", path.display());
    match path.extension().and_then(|e| e.to_str()) {
        Some("png") => png(p.size(), |root| draw(root, p)).with_context(failed),
        Some("svg") => Ok(svg(p).with_context(failed)?.into_bytes()),
        _ => Ok(p.page(&svg(p).with_context(failed)?).into_bytes()),
    }
}

fn svg(p: &impl Picture) -> anyhow::Result<String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, p.size()).into_drawing_area();
    draw(&root, p)?;
    drop(root);
    Ok(text)
}

fn draw<B: DrawingBackend>(root: &DrawingArea<B, Shift>, p: &impl Picture) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    register_fonts();
    root.fill(&WHITE)?;
    p.draw(root)?;
    root.present()?;
    Ok(())
}

impl Picture for Report {
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>) -> anyhow::Result<()>
    where
        B::ErrorType: Send + Sync + 'static,
    {
        let panels = root.split_evenly((2, 2));
        let [a, b, c, d] = panels.as_slice() else {
            return Err(anyhow!("four panels were asked for"));
        };
        latencies(a, self)?;
        bandwidth(b, self)?;
        banks(c, self)?;
        write_map(d, self)
    }

    fn page(&self, svg: &str) -> String {
        page::html(self, svg)
    }
}

pub fn font(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

pub fn title(text: &str) -> (String, TextStyle<'static>) {
    let style = (FONT, 20, FontStyle::Bold).into_font().color(&INK);
    (text.to_string(), style)
}

/// Says why a panel is empty.
pub fn nothing<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    heading: &str,
    why: &str,
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let (text, style) = title(heading);
    area.draw(&Text::new(text, (60, 24), style))?;
    area.draw(&Text::new(why.to_string(), (60, 70), font(16)))?;
    Ok(())
}

fn latencies<B: DrawingBackend>(area: &DrawingArea<B, Shift>, r: &Report) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let heading = "Latency as the requester sees it";
    let kinds: [(&str, &LatencySummary, RGBColor); 2] = [
        ("reads", &r.outcome.read_latency, READS),
        ("writes", &r.outcome.write_latency, WRITES),
    ];
    // Writes that are answered when they are accepted would be one bar in an otherwise empty panel.
    let at_once = |l: &LatencySummary| l.count > 0 && l.max_ns == Some(0.0);
    let drawn = || kinds.iter().filter(|k| !at_once(k.1));
    let buckets = || drawn().flat_map(|k| &k.1.histogram);
    let low = buckets()
        .map(|b| b.from_ns)
        .fold(f64::MAX, f64::min)
        .max(0.01);
    let high = buckets().map(|b| b.to_ns).fold(0.0, f64::max);
    if high <= 0.0 {
        let why = if kinds.iter().any(|k| at_once(k.1)) {
            "all requests are answered when they are accepted, after 0 ns"
        } else {
            "there are no requests"
        };
        return nothing(area, heading, why);
    }
    let share = |l: &LatencySummary, n: u64| 100.0 * n as f64 / l.count.max(1) as f64;
    let shares = drawn().flat_map(|k| k.1.histogram.iter().map(|b| share(k.1, b.count)));
    let top = shares.fold(0.0, f64::max) * 1.08;
    let (text, style) = title(heading);
    let mut chart = ChartBuilder::on(area)
        .margin(18)
        .caption(text, style)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d((low * 0.9..high * 1.1).log_scale(), 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(font(14))
        .axis_desc_style(font(15))
        .x_labels(6)
        .x_desc("latency [ns], logarithmic, buckets of 1/16 octave")
        .y_desc("share of the requests [%]")
        .x_label_formatter(&|v| short(*v))
        .draw()?;
    for (name, l, colour) in kinds {
        if l.count == 0 {
            continue;
        }
        let bar = |b: &nagori_memtrace::measure::Bucket| {
            let corners = [(b.from_ns.max(low), 0.0), (b.to_ns, share(l, b.count))];
            Rectangle::new(corners, colour.mix(0.65).filled())
        };
        let (bars, label) = if at_once(l) {
            (&[][..], format!("{name}: answered at once, 0 ns"))
        } else {
            let mean = l.mean_ns.unwrap_or(0.0);
            (&l.histogram[..], format!("{name}: mean {mean:.1} ns"))
        };
        chart
            .draw_series(bars.iter().map(bar))?
            .label(label)
            .legend(move |(x, y)| {
                Rectangle::new([(x, y - 6), (x + 18, y + 6)], colour.mix(0.65).filled())
            });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(font(15))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

/// A number with three digits at most.
fn short(v: f64) -> String {
    match v {
        v if v >= 100.0 => crate::tables::grouped(v.round() as u64),
        v if v >= 10.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// The points, with the last one, which the end of the run cut short, joined to the one before: in
/// a very short interval a single burst would look like a peak.
fn whole_points(points: &[Point]) -> Vec<Point> {
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

fn bandwidth<B: DrawingBackend>(area: &DrawingArea<B, Shift>, r: &Report) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let heading = "Bandwidth over time";
    let points = &whole_points(&r.outcome.bandwidth);
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return nothing(area, heading, "there are no requests");
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
    let rates = points.iter().flat_map(|p| {
        [
            rate(p.read_bytes, p.length_ns),
            rate(p.write_bytes, p.length_ns),
        ]
    });
    let top = rates.fold(0.0, f64::max).max(1e-9) * 1.15;
    let (text, style) = title(heading);
    let mut chart = ChartBuilder::on(area)
        .margin(18)
        .caption(text, style)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..(length / scale).max(1e-9), 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(font(14))
        .axis_desc_style(font(15))
        .x_desc(format!("time since the first request [{unit}]"))
        .y_desc("bandwidth [GB/s]")
        .draw()?;
    type Bytes = fn(&Point) -> u64;
    let kinds: [(&str, Bytes, RGBColor); 2] = [
        ("reads", |p| p.read_bytes, READS),
        ("writes", |p| p.write_bytes, WRITES),
    ];
    for (name, bytes, colour) in kinds {
        if points.iter().all(|p| bytes(p) == 0) {
            continue;
        }
        // Drawn as steps: a point is a mean over its length.
        let steps = points.iter().flat_map(|p| {
            let y = rate(bytes(p), p.length_ns);
            let x = (p.from_ns - begin) / scale;
            [(x, y), (x + p.length_ns / scale, y)]
        });
        chart
            .draw_series([PathElement::new(
                steps.collect::<Vec<_>>(),
                colour.stroke_width(2),
            )])?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 2), (x + 18, y + 2)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font(font(15))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

fn banks<B: DrawingBackend>(area: &DrawingArea<B, Shift>, r: &Report) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let heading = "Row hit rate by bank";
    let banks = r.banks();
    if banks.is_empty() {
        return nothing(area, heading, "this memory counts no banks");
    }
    let (text, style) = title(heading);
    let n = banks.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(18)
        .caption(text, style)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..n, 0.0..100.0)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(font(14))
        .axis_desc_style(font(15))
        .x_labels(banks.len().min(16))
        .x_desc("bank, by channel, rank, bank group, bank")
        .y_desc("row hits [%]")
        .x_label_formatter(&|v| format!("{v:.0}"))
        .draw()?;
    for (i, (_, c)) in banks.iter().enumerate() {
        let x = i as f64;
        if let Some(rate) = c.row_hit_rate() {
            let bar = [(x + 0.1, 0.0), (x + 0.9, 100.0 * rate)];
            chart.draw_series([Rectangle::new(bar, READS.filled())])?;
        }
    }
    Ok(())
}

/// A number for each range of addresses.
struct Map<'a> {
    heading: String,
    /// Bytes of a range.
    part_bytes: u64,
    values: &'a [u64],
    /// What the values count.
    unit: &'a str,
    /// Address of the first range.
    first: &'a str,
}

fn write_map<B: DrawingBackend>(area: &DrawingArea<B, Shift>, r: &Report) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    // Wear if it is counted: of the region that has most of it.
    let worn = r.model.regions.iter().filter_map(|r| {
        let wear = r.wear.as_ref().filter(|w| !w.map.max.is_empty());
        Some((&r.name, wear?))
    });
    if let Some((region, w)) = worn.max_by_key(|(_, w)| w.max_writes) {
        let map = Map {
            heading: format!("Wear of {region}: most writes of a unit"),
            part_bytes: w.map.bucket_bytes,
            values: &w.map.max,
            unit: "writes",
            first: "address in the medium",
        };
        return squares(area, &map);
    }
    let map = &r.outcome.write_map;
    let map = Map {
        heading: "Written bytes by address".into(),
        part_bytes: map.part_bytes,
        values: &map.written,
        unit: "B",
        first: "address",
    };
    squares(area, &map)
}

/// Squares for the ranges up to the last non-empty one, arranged about as high as wide.
fn squares<B: DrawingBackend>(area: &DrawingArea<B, Shift>, map: &Map) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let used = map.values.iter().rposition(|&v| v > 0).map_or(0, |i| i + 1);
    if used == 0 {
        return nothing(area, &map.heading, "there are no writes");
    }
    let values = &map.values[..used];
    let most = values.iter().copied().max().unwrap_or(0);
    let columns = (used as f64).sqrt().ceil() as usize;
    let columns = columns.next_power_of_two().clamp(4, 32);
    let rows = used.div_ceil(columns);
    let (text, style) = title(&map.heading);
    let mut chart = ChartBuilder::on(area)
        .margin(18)
        .caption(text, style)
        .x_label_area_size(46)
        .y_label_area_size(96)
        // The first range is at the top left.
        .build_cartesian_2d(0.0..columns as f64, (rows as f64)..0.0)?;
    let row_bytes = map.part_bytes.saturating_mul(columns as u64);
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(INK)
        .label_style(font(14))
        .axis_desc_style(font(15))
        .x_labels(8)
        .y_labels(rows.min(8))
        .x_desc(format!(
            "a square is {}, the darkest {} {}",
            bytes_text(map.part_bytes),
            crate::tables::grouped(most),
            map.unit
        ))
        .y_desc(format!("{} of the row", map.first))
        .x_label_formatter(&|v| format!("{v:.0}"))
        .y_label_formatter(&|v| bytes_text(row_bytes.saturating_mul(v.round() as u64)))
        .draw()?;
    let scale = (most as f64).ln_1p();
    for (i, &w) in values.iter().enumerate() {
        let share = (w as f64).ln_1p() / scale;
        let mix =
            |from: u8, to: u8| (f64::from(from) + share * (f64::from(to) - f64::from(from))) as u8;
        let colour = match w {
            0 => RGBColor(240, 240, 240),
            _ => RGBColor(mix(253, WRITES.0 / 2), mix(224, WRITES.1 / 4), mix(190, 0)),
        };
        let (x, y) = ((i % columns) as f64, (i / columns) as f64);
        chart.draw_series([Rectangle::new(
            [(x + 0.04, y + 0.04), (x + 0.96, y + 0.96)],
            colour.filled(),
        )])?;
    }
    Ok(())
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
        let p = |from_ns, length_ns, read_bytes| Point {
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
        let e = check_name(Path::new("a.pdf")).unwrap_err().to_string();
        assert!(e.contains(".html, .svg or .png"), "{e}");
        assert_eq!(bytes_text(4 << 20), "4 MiB");
        assert_eq!(bytes_text(1 << 30), "1 GiB");
        assert_eq!(bytes_text(100), "100 B");
        assert_eq!(short(1234.4), "1 234");
    }
}
