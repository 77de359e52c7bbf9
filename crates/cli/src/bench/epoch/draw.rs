//! The plots of `nagori bench epoch`.

use super::rows::{relative, Figure, Row};
use crate::plot::{png, register_fonts, Format, COLOURS, FONT, INK};
use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1280, 560);
/// Errors that are greater are drawn there, in percent.
const BEYOND: f64 = 120.0;

/// Where a row's point is, if it has one; the shift is that of its formulas.
type Place<'a> = &'a dyn Fn(&Row, f64) -> Option<(f64, f64)>;

/// Points or a line of one name.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    colour: RGBColor,
    solid: bool,
}

/// A chart: its title, its axes, and where the horizontal one has names instead of numbers, those.
struct Chart<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
    names: Vec<String>,
    series: Vec<Series>,
}

fn drawn(format: Format, charts: &[Chart<'_>]) -> anyhow::Result<Vec<u8>> {
    register_fonts();
    let drawn = match format {
        Format::Svg => {
            let mut text = String::new();
            let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let drawn = side_by_side(&root, charts);
            drop(root);
            drawn.map(|()| text.into_bytes())
        }
        Format::Png => png(SIZE, |root| side_by_side(root, charts)),
    };
    drawn.context("cannot draw the plot")
}

fn side_by_side<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    charts: &[Chart<'_>],
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    root.fill(&WHITE)?;
    for (area, chart) in root.split_evenly((1, charts.len())).iter().zip(charts) {
        paint(area, chart)?;
    }
    root.present()?;
    Ok(())
}

fn paint<B: DrawingBackend>(area: &DrawingArea<B, Shift>, c: &Chart<'_>) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let points = || c.series.iter().flat_map(|l| l.points.iter().copied());
    let (mut low, mut high, mut end) = (0f64, 0f64, 1f64);
    for (x, y) in points() {
        low = low.min(y);
        high = high.max(y);
        end = end.max(x);
    }
    let end = match c.names.len() {
        0 => end * 1.05,
        n => n as f64,
    };
    // The legend is above all points.
    let room = (high - low).max(1e-9);
    let font = || (FONT, 15).into_font().color(&INK);
    let mut chart = ChartBuilder::on(area)
        .caption(c.title, (FONT, 20, FontStyle::Bold).into_font().color(&INK))
        .margin(16)
        .x_label_area_size(56)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..end, low - 0.05 * room..high + 0.3 * room)?;
    let place = |x: &f64| {
        let at = x.floor() as usize;
        let middle = (x - x.floor() - 0.5).abs() < 1e-6;
        match c.names.get(at) {
            Some(name) if middle => name.clone(),
            Some(_) => String::new(),
            None if c.names.is_empty() => ((x * 100.0).round() / 100.0).to_string(),
            None => String::new(),
        }
    };
    let mut mesh = chart.configure_mesh();
    mesh.max_light_lines(1);
    mesh.x_desc(c.x)
        .y_desc(c.y)
        .x_label_formatter(&place)
        .label_style(font())
        .axis_desc_style(font());
    if !c.names.is_empty() {
        mesh.disable_x_mesh().x_labels(2 * c.names.len() + 1);
    }
    mesh.draw()?;
    chart.draw_series([PathElement::new([(0.0, 0.0), (end, 0.0)], INK)])?;
    for l in &c.series {
        let colour = l.colour;
        let drawn = if l.solid {
            chart.draw_series([PathElement::new(l.points.clone(), colour.stroke_width(2))])?
        } else {
            let dot = |p: &(f64, f64)| Circle::new(*p, 4, colour.mix(0.8).filled());
            chart.draw_series(l.points.iter().map(dot))?
        };
        if !l.name.is_empty() {
            drawn.label(l.name.clone()).legend(move |(x, y)| {
                Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled())
            });
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(font())
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

/// The different values of a column, in the order of rows.
fn names<T>(rows: &[T], of: impl Fn(&T) -> String) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for r in rows {
        let name = of(r);
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// Run time and write throughput over the latency of writes: lines are of the memory itself, points by epochs.
pub fn figures(format: Format, rows: &[Figure]) -> anyhow::Result<Vec<u8>> {
    let (mut times, mut written) = (Vec::new(), Vec::new());
    for (i, program) in names(rows, |r| r.program.clone()).into_iter().enumerate() {
        let of: Vec<&Figure> = rows.iter().filter(|r| r.program == program).collect();
        for solid in [true, false] {
            let k = usize::from(!solid);
            let series = |points: Vec<(f64, f64)>| Series {
                name: if solid {
                    program.clone()
                } else {
                    String::new()
                },
                points,
                colour: COLOURS[i % COLOURS.len()],
                solid,
            };
            let time = |r: &&Figure| {
                let (detailed, emulated) = relative(rows, r);
                (r.write as f64, [detailed, emulated][k])
            };
            times.push(series(of.iter().map(time).collect()));
            let line = |r: &&Figure| (r.write as f64, r.written[k]);
            written.push(series(of.iter().map(line).collect()));
        }
    }
    let chart = |title, y, series| Chart {
        title,
        x: "write latency / DRAM latency",
        y,
        names: Vec::new(),
        series,
    };
    drawn(
        format,
        &[
            chart(
                "Run time (points: by epochs)",
                "run time, 1 at W = DRAM",
                times,
            ),
            chart("Write throughput (points: by epochs)", "MB/s", written),
        ],
    )
}

/// Errors of all rows: by memory, and over the share of writes.
pub fn errors(format: Format, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    let place = |r: &Row| format!("{}\n{}", r.machine, r.memory);
    let machines = names(rows, |r| r.machine.clone()).len();
    let places = names(rows, place);
    let methods = names(rows, |r| r.method.name().to_owned());
    let series = |of: Place<'_>| -> Vec<Series> {
        let one = |(i, method): (usize, &String)| {
            // Side by side within the place of a memory.
            let shift = (i as f64 + 0.5) / methods.len() as f64 - 0.5;
            let rows = rows.iter().filter(|r| r.method.name() == method);
            Series {
                name: method.clone(),
                points: rows.filter_map(|r| of(r, shift)).collect(),
                colour: COLOURS[i % COLOURS.len()],
                solid: false,
            }
        };
        methods.iter().enumerate().map(one).collect()
    };
    // A few programs that are ten times too slow would leave no room for the others.
    let error = |r: &Row| (r.error * 100.0).min(BEYOND);
    let y = if rows.iter().any(|r| r.error * 100.0 > BEYOND) {
        "error of the run time, % (120: that or more)"
    } else {
        "error of the run time, %"
    };
    let by_memory = series(&|r, shift| {
        let at = places.iter().position(|p| *p == place(r))?;
        Some((at as f64 + 0.5 + 0.6 * shift, error(r)))
    });
    let by_writes = series(&|r, _| Some((r.write_share? * 100.0, error(r))));
    let short = |p: &String| match machines {
        1 => p.rsplit('\n').next().unwrap_or(p).to_owned(),
        _ => p.replace('\n', " "),
    };
    let chart = |title, x, names, series| Chart {
        title,
        x,
        y,
        names,
        series,
    };
    drawn(
        format,
        &[
            chart(
                "Error by memory, a point a program",
                "memory",
                places.iter().map(short).collect(),
                by_memory,
            ),
            chart(
                "Error and share of writes",
                "share of writes in the lines of NVMM, %",
                Vec::new(),
                by_writes,
            ),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_epoch::Variant;

    #[test]
    fn pictures_have_all_points() {
        let row = |method, error| Row {
            machine: "vc707".into(),
            memory: "coarse".into(),
            program: "chase".into(),
            method,
            epoch_ps: 1,
            detailed_ns: 2.0,
            dram_ns: 1.0,
            emulated_ns: 2.0,
            error,
            write_share: Some(0.5),
            lines_at_a_time: Some(1.0),
            act_per_req: None,
            not_waited: None,
            handed_over: 0.0,
            injected_cycles: 1,
        };
        let rows = [row(Variant::Koshiba, 0.1), row(Variant::Quartz, -0.2)];
        let svg = String::from_utf8(errors(Format::Svg, &rows).unwrap()).unwrap();
        let dots = svg.matches("<circle").count();
        assert!(
            dots >= 4 && svg.contains("koshiba") && svg.contains("coarse"),
            "{dots}"
        );
        let figure = |write| Figure {
            program: "profile".into(),
            write,
            detailed_ns: 1.0,
            emulated_ns: 1.0,
            written: [1.0, 2.0],
        };
        let rows = [figure(1), figure(2)];
        let svg = String::from_utf8(figures(Format::Svg, &rows).unwrap()).unwrap();
        assert!(svg.contains("profile") && svg.contains("MB/s"));
    }
}
