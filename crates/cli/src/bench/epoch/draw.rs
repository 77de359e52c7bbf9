//! The plots of `nagori bench epoch`.

use super::Row;
use crate::plot::{png, register_fonts, Format, FONT, INK};
use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1200, 560);
/// Colours that colour-blind people can distinguish (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(153, 153, 153),
];

fn bytes(format: Format, rows: &[Row], figures: bool) -> anyhow::Result<Vec<u8>> {
    register_fonts();
    let drawn = match format {
        Format::Svg => {
            let mut text = String::new();
            let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let drawn = draw(&root, rows, figures);
            drop(root);
            drawn.map(|()| text.into_bytes())
        }
        Format::Png => png(SIZE, |root| draw(root, rows, figures)),
    };
    drawn.context("cannot draw the plot")
}

/// Run time and write throughput over the latency of writes.
pub fn figures(format: Format, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    bytes(format, rows, true)
}

/// Errors of all rows, by memory.
pub fn errors(format: Format, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    bytes(format, rows, false)
}

/// The different values of a column, in the order of rows.
fn names(rows: &[Row], of: impl Fn(&Row) -> String) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for r in rows {
        let name = of(r);
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// A named line of a chart: detailed ones are solid, light ones have points only.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
    colour: RGBColor,
    solid: bool,
}

fn chart<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    (title, x, y): (&str, &str, &str),
    lines: &[Line],
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    let points = || lines.iter().flat_map(|l| l.points.iter().copied());
    let (mut low, mut high, mut end) = (0f64, 0f64, 1f64);
    for (a, b) in points() {
        low = low.min(b);
        high = high.max(b);
        end = end.max(a);
    }
    let font = (FONT, 16).into_font().color(&INK);
    let room = (high - low).max(1e-9) * 0.08;
    let mut c = ChartBuilder::on(area)
        .caption(title, (FONT, 20).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end * 1.05, low - room..high + room)?;
    c.configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .label_style(font.clone())
        .axis_desc_style(font.clone())
        .draw()?;
    for l in lines {
        let colour = l.colour;
        let drawn = match l.solid {
            true => c.draw_series([PathElement::new(l.points.clone(), colour.stroke_width(2))])?,
            false => c.draw_series(l.points.iter().map(|p| Circle::new(*p, 5, colour.filled())))?,
        };
        if !l.name.is_empty() {
            drawn.label(l.name.clone()).legend(move |(x, y)| {
                Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled())
            });
        }
    }
    c.configure_series_labels()
        .label_font(font)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

fn draw<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    rows: &[Row],
    figures: bool,
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    root.fill(&WHITE)?;
    if figures {
        let areas = root.split_evenly((1, 2));
        let (mut times, mut writes) = (Vec::new(), Vec::new());
        for (i, program) in names(rows, |r| r.program.clone()).into_iter().enumerate() {
            let of: Vec<&Row> = rows.iter().filter(|r| r.program == program).collect();
            let Some(one) = of.first() else { continue };
            let colour = COLOURS[i % COLOURS.len()];
            let x = |r: &Row| r.memory.trim_start_matches("w-").parse().unwrap_or(0.0);
            for solid in [true, false] {
                let ns = |r: &Row| if solid { r.detailed_ns } else { r.light_ns };
                let name = if solid {
                    program.clone()
                } else {
                    String::new()
                };
                times.push(Line {
                    name: name.clone(),
                    points: of.iter().map(|r| (x(r), ns(r) / ns(one))).collect(),
                    colour,
                    solid,
                });
                writes.push(Line {
                    name,
                    points: of.iter().map(|r| (x(r), r.throughput(ns(r)))).collect(),
                    colour,
                    solid,
                });
            }
        }
        chart(
            &areas[0],
            (
                "Run time (lines: detailed, points: light)",
                "W / DRAM",
                "of W = DRAM",
            ),
            &times,
        )?;
        chart(&areas[1], ("Write throughput", "W / DRAM", "MB/s"), &writes)?;
    } else {
        let lines: Vec<Line> = names(rows, |r| format!("{} {}", r.machine, r.memory))
            .into_iter()
            .enumerate()
            .map(|(i, name)| {
                let of = rows
                    .iter()
                    .filter(|r| format!("{} {}", r.machine, r.memory) == name);
                Line {
                    points: of.map(|r| (r.waiting * 100.0, r.error * 100.0)).collect(),
                    name,
                    colour: COLOURS[i % COLOURS.len()],
                    solid: false,
                }
            })
            .collect();
        chart(
            root,
            (
                "Error of the light mode",
                "share of time waiting for memory, %",
                "error of run time, %",
            ),
            &lines,
        )?;
    }
    root.present()?;
    Ok(())
}
