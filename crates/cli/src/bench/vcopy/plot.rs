//! The plot of `nagori bench vcopy`: misses and throughput by size.

use super::cells::{Consumer, Loops, Place, Reader, Ring, Size, Stores};
use super::rows::{Row, MISSES};
use crate::plot::{png, register_fonts, Format, FONT, INK};
use anyhow::{bail, Context};
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1280, 560);
/// Distinguishable by colour-blind people (Okabe and Ito).
const COLOURS: [RGBColor; 2] = [RGBColor(213, 94, 0), RGBColor(0, 114, 178)];

/// A line: its name, colour, whether it is drawn thin, points.
struct Line {
    name: String,
    colour: RGBColor,
    width: u32,
    points: Vec<(f64, f64)>,
}

/// Draws the split ring's cells with one loop and a reader of the queue, by size.
pub fn draw(format: Format, machine: &str, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    let panels = [
        ("L1 misses a packet", lines(rows, |r| r.per_packet(MISSES))),
        (
            "million packets a second",
            lines(rows, |r| Some(r.throughput_mpps)),
        ),
    ];
    if panels.iter().all(|p| p.1.is_empty()) {
        bail!("there is nothing to draw: the plot has sizes of packets in bytes, with the split ring and one loop");
    }
    register_fonts();
    let drawn = match format {
        Format::Svg => {
            let mut text = String::new();
            let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let drawn = both(&root, machine, &panels);
            drop(root);
            drawn.map(|()| text.into_bytes())
        }
        Format::Png => png(SIZE, |root| both(root, machine, &panels)),
    };
    drawn.context("cannot draw the plot")
}

fn lines(rows: &[Row], value: impl Fn(&Row) -> Option<f64>) -> Vec<Line> {
    let mut all: Vec<Line> = Vec::new();
    for r in rows {
        let c = &r.cell;
        let plain = c.ring == Ring::Split
            && c.loops == Loops::One
            && c.reader == Reader::Queue
            && c.queue == Stores::Temporal
            && c.consumer == Consumer::Concurrent
            && c.batch == 32
            && !c.phases;
        let (true, Size::Bytes(n), Some(y)) = (plain, c.packet_bytes, value(r)) else {
            continue;
        };
        let model = r
            .memory_model
            .as_ref()
            .map_or(String::new(), |m| format!(" ({m})"));
        let name = format!("{}, {}{model}", c.copy.name(), c.memory.name());
        let point = (f64::from(n), y);
        match all.iter_mut().find(|l| l.name == name) {
            Some(line) => line.points.push(point),
            None => all.push(Line {
                name,
                colour: COLOURS[c.copy as usize],
                width: if c.memory == Place::Dram { 3 } else { 1 },
                points: vec![point],
            }),
        }
    }
    all
}

fn both<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    machine: &str,
    panels: &[(&str, Vec<Line>)],
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    root.fill(&WHITE)?;
    for (area, (title, lines)) in root.split_evenly((1, 2)).iter().zip(panels) {
        if lines.is_empty() {
            continue;
        }
        let points = || lines.iter().flat_map(|l| &l.points);
        let most = |pick: fn(&(f64, f64)) -> f64| points().map(pick).fold(0.0, f64::max);
        let least = points().map(|p| p.0).fold(f64::MAX, f64::min);
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .caption(
                format!("{machine}: {title}"),
                (FONT, 20, FontStyle::Bold).into_font().color(&INK),
            )
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(
                (least / 1.1..most(|p| p.0) * 1.1).log_scale(),
                0.0..most(|p| p.1) * 1.15 + 1e-9,
            )?;
        chart
            .configure_mesh()
            .label_style((FONT, 14).into_font().color(&INK))
            .x_desc("bytes of a packet")
            .y_desc(*title)
            .draw()?;
        for line in lines {
            let style = line.colour.stroke_width(line.width);
            let path = PathElement::new(line.points.clone(), style);
            chart
                .draw_series(std::iter::once(path))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperMiddle)
            .label_font((FONT, 14).into_font().color(&INK))
            .background_style(WHITE.mix(0.8))
            .draw()?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::cells::Cell;
    use super::super::rows::Side;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn sizes_are_drawn_and_nothing_is_an_error() {
        let side = |cycles| Side {
            cycles,
            told: 0,
            phases: [0; 5],
            counts: BTreeMap::from([(MISSES.to_string(), cycles)]),
        };
        let row = |n| {
            let cell = Cell {
                packet_bytes: Size::Bytes(n),
                ..Cell::BASE
            };
            Row::new(cell, 320, &[[side(u64::from(n)), side(1)]], 1e9)
        };
        let svg = draw(Format::Svg, "m", &[row(64), row(1024)]).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        for word in ["temporal, dram", "bytes of a packet", "L1 misses a packet"] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(draw(Format::Svg, "m", &[]).is_err());
    }
}
