//! The plot of a board benchmark.

use super::{find, Cell, Op, Row, BENCHMARKS, OPS};
use crate::plot::{colour, png, register_fonts, Format, FONT, INK};
use anyhow::{anyhow, bail, Context};
use nagori_memtime::Method;
use plotters::coord::ranged1d::{KeyPointHint, Ranged};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (1500, 720);
/// Width of a group of bars, where 1 is the distance between groups.
const GROUP: f64 = 0.84;
/// Distance between the benchmarks on the x axis, in groups.
const GAP: f64 = 0.5;
const GRID: RGBColor = RGBColor(221, 221, 221);

/// Draws read and write latency by benchmark, grouped by method.
pub fn board(
    format: Format,
    machine: &str,
    measured: &[Row],
    published: &[Row],
) -> anyhow::Result<Vec<u8>> {
    register_fonts();
    let drawn = match format {
        Format::Svg => {
            let mut text = String::new();
            let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let drawn = draw(&root, machine, measured, published);
            drop(root);
            drawn.map(|()| text.into_bytes())
        }
        Format::Png => png(SIZE, |root| draw(root, machine, measured, published)),
    };
    drawn.context("cannot draw the plot")
}

/// A decimal logarithmic axis with ticks at 1, 2 and 5.
#[derive(Clone)]
struct Log(f64, f64);

impl Ranged for Log {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;
    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value / self.0).ln() / (self.1 / self.0).ln();
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }
    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        ticks(self.0, self.1)
    }
    fn range(&self) -> std::ops::Range<f64> {
        self.0..self.1
    }
}

impl plotters::coord::ranged1d::ValueFormatter<f64> for Log {
    fn format_ext(&self, value: &f64) -> String {
        crate::tables::grouped(value.round() as u64)
    }
}

/// 1, 2 and 5 times powers of ten between two positive numbers.
fn ticks(from: f64, to: f64) -> Vec<f64> {
    let first = from.log10().floor() as i32;
    let last = to.log10().ceil() as i32;
    (first..=last)
        .flat_map(|e| [1.0, 2.0, 5.0].map(|f| f * 10f64.powi(e)))
        .filter(|&t| t >= from && t <= to)
        .collect()
}

/// The next tick below and above the values to be shown.
fn bounds(rows: &[Row]) -> anyhow::Result<(f64, f64)> {
    let values = || rows.iter().map(|r| r.latency_ns);
    let (low, high) = values().fold((f64::MAX, 0.0), |(l, h), v| (v.min(l), v.max(h)));
    if !(low > 0.0 && high >= low && high.is_finite()) {
        bail!("there are no latencies to draw");
    }
    let around = ticks(low / 100.0, high * 100.0);
    let below = around.iter().rev().find(|&&t| t <= low / 1.2);
    let above = around.iter().find(|&&t| t >= high * 1.05);
    match (below, above) {
        (Some(&a), Some(&b)) => Ok((a, b)),
        _ => Err(anyhow!("the latencies {low} to {high} ns cannot be drawn")),
    }
}

/// Positions of the groups of bars: benchmark, value, middle of the group.
fn groups() -> Vec<(usize, u64, f64)> {
    let mut at = 0.5;
    let mut groups = Vec::new();
    for (i, (_, values)) in BENCHMARKS.iter().enumerate() {
        for &value in *values {
            groups.push((i, value, at));
            at += 1.0;
        }
        at += GAP;
    }
    groups
}

fn font(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

fn draw<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    machine: &str,
    measured: &[Row],
    published: &[Row],
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let mut methods: Vec<Method> = Vec::new();
    for m in Method::ALL {
        if measured.iter().any(|r| r.method == m) {
            methods.push(m);
        }
    }
    let all: Vec<Row> = measured.iter().chain(published).copied().collect();
    let (low, high) = bounds(&all)?;
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(96);
    heading(&head, machine, &methods, !published.is_empty())?;
    for (area, op) in body.split_evenly((1, OPS.len())).iter().zip(OPS) {
        panel(area, op, &methods, (low, high), measured, published)?;
    }
    root.present()?;
    Ok(())
}

fn heading<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    machine: &str,
    methods: &[Method],
    published: bool,
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    const X: i32 = 84;
    let title =
        format!("Average latency of one access to NVMM from Linux user space, machine {machine}");
    let style = (FONT, 24, FontStyle::Bold).into_font().color(&INK);
    area.draw(&Text::new(title, (X, 18), style))?;
    let y = 68;
    let centred = font(18).pos(Pos::new(HPos::Left, VPos::Center));
    let mut x = X;
    for &m in methods {
        let swatch = [(x, y - 8), (x + 22, y + 8)];
        area.draw(&Rectangle::new(swatch, colour(m).filled()))?;
        area.draw(&Text::new(m.name(), (x + 30, y), centred.clone()))?;
        x += 130;
    }
    if published {
        marker(area, (x + 10, y))?;
        area.draw(&Text::new(
            "published, reference board",
            (x + 26, y),
            centred,
        ))?;
    }
    Ok(())
}

/// A diamond that is visible on any bar.
fn marker<B: DrawingBackend>(area: &DrawingArea<B, Shift>, at: (i32, i32)) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    for (size, fill) in [(8, WHITE), (6, RGBColor(200, 0, 60))] {
        let corners = [(0, -size), (size, 0), (0, size), (-size, 0)];
        let points: Vec<_> = corners.iter().map(|c| (at.0 + c.0, at.1 + c.1)).collect();
        area.draw(&Polygon::new(points, fill.filled()))?;
    }
    Ok(())
}

fn panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    op: Op,
    methods: &[Method],
    (low, high): (f64, f64),
    measured: &[Row],
    published: &[Row],
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let groups = groups();
    let end = groups.last().map_or(1.0, |g| g.2 + 0.5);
    let mut chart = ChartBuilder::on(area)
        .margin_right(24)
        .margin_left(16)
        .y_label_area_size(68)
        .x_label_area_size(76)
        .caption(
            op.name(),
            (FONT, 22, FontStyle::Bold).into_font().color(&INK),
        )
        .build_cartesian_2d(0.0..end, Log(low, high))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .y_label_style(font(16))
        .y_desc("latency [ns], logarithmic")
        .axis_desc_style(font(17))
        .draw()?;
    let width = GROUP / methods.len() as f64;
    for &(i, value, middle) in &groups {
        for (k, &method) in methods.iter().enumerate() {
            let cell = Cell {
                op,
                benchmark: BENCHMARKS[i].0,
                value,
                method,
            };
            let left = middle - GROUP / 2.0 + width * k as f64;
            if let Some(r) = find(measured, cell) {
                let bar = [
                    (left + 0.06 * width, low),
                    (left + 0.94 * width, r.latency_ns),
                ];
                chart.draw_series([Rectangle::new(bar, colour(method).filled())])?;
                if let Some([from, to]) = r.interval {
                    let x = left + width / 2.0;
                    let ends = [(x, from.max(low)), (x, to.min(high))];
                    chart.draw_series([PathElement::new(ends, INK)])?;
                }
            }
            if let Some(p) = find(published, cell) {
                let at = chart.backend_coord(&(left + width / 2.0, p.latency_ns));
                marker(&area.strip_coord_spec(), relative(area, at))?;
            }
        }
        let at = relative(area, chart.backend_coord(&(middle, low)));
        let style = font(17).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(value.to_string(), (at.0, at.1 + 10), style))?;
    }
    for (i, (benchmark, _)) in BENCHMARKS.iter().enumerate() {
        let of: Vec<f64> = groups.iter().filter(|g| g.0 == i).map(|g| g.2).collect();
        let middle = of.iter().sum::<f64>() / of.len() as f64;
        let at = relative(area, chart.backend_coord(&(middle, low)));
        let style = font(17).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(benchmark.axis(), (at.0, at.1 + 38), style))?;
    }
    Ok(())
}

/// Converts a position in the whole plot to a position in an area of it.
fn relative<B: DrawingBackend>(area: &DrawingArea<B, Shift>, at: (i32, i32)) -> (i32, i32) {
    let (left, top) = area.get_base_pixel();
    (at.0 - left, at.1 - top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sample;

    fn draw(format: Format, methods: &[Method]) -> Vec<u8> {
        let (measured, published) = sample(methods);
        board(format, "vc707", &measured, &published).unwrap()
    }

    #[test]
    fn every_cell_has_its_bar_and_every_published_one_its_marker() {
        let svg = String::from_utf8(draw(Format::Svg, &Method::ALL)).unwrap();
        for m in Method::ALL {
            let RGBColor(r, g, b) = colour(m);
            let fill = format!("fill=\"#{r:02X}{g:02X}{b:02X}\"");
            // Sixteen bars and one in the legend.
            assert_eq!(svg.matches(&fill).count(), 17, "{m}");
        }
        // A diamond in a larger white one, twenty and one in the legend.
        assert_eq!(svg.matches("<polygon").count(), 42);
        for text in [
            "published, reference board",
            "banks in turn",
            "8192",
            "20 000",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(
            svg.as_bytes(),
            draw(Format::Svg, &Method::ALL),
            "not the same twice"
        );
    }

    #[test]
    fn a_picture_of_some_methods() {
        let svg = String::from_utf8(draw(Format::Svg, &[Method::Fine])).unwrap();
        assert!(svg.contains("fine") && !svg.contains("coarse"));
    }

    #[test]
    fn png_files_are_png_files() {
        let png = draw(Format::Png, &Method::ALL);
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
        let word = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert_eq!((word(16), word(20)), SIZE);
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        let e = board(Format::Svg, "vc707", &[], &[]).unwrap_err();
        assert!(format!("{e:#}").contains("no latencies to draw"), "{e:#}");
    }

    #[test]
    fn ticks_of_a_logarithmic_axis() {
        assert_eq!(ticks(10.0, 210.0), [10.0, 20.0, 50.0, 100.0, 200.0]);
    }
}
