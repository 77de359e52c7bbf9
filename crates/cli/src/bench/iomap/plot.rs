//! The plot of `nagori bench iomap`: throughput by size of the buffer.

use super::rows::{Direction, Row};
use super::ways::Kind;
use crate::plot::{png, register_fonts, Format, FONT, INK};
use anyhow::{bail, Context};
use plotters::coord::Shift;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1280, 560);
/// Distinguishable by colour-blind people (Okabe and Ito).
const COLOURS: [RGBColor; 4] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
];

/// A line: its name, colour, width, and points.
struct Line {
    name: String,
    colour: RGBColor,
    width: u32,
    points: Vec<(f64, f64)>,
}

/// Draws throughput by buffer, a panel for each direction.
pub fn draw(format: Format, machine: &str, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    let panels: Vec<_> = [(Direction::Up, "up"), (Direction::Down, "down")]
        .into_iter()
        .map(|(d, name)| (name, lines(rows, d)))
        .filter(|(_, lines)| !lines.is_empty())
        .collect();
    if panels.is_empty() {
        bail!("there is nothing to draw");
    }
    register_fonts();
    let drawn = match format {
        Format::Svg => {
            let mut text = String::new();
            let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let drawn = all(&root, machine, &panels);
            drop(root);
            drawn.map(|()| text.into_bytes())
        }
        Format::Png => png(SIZE, |root| all(root, machine, &panels)),
    };
    drawn.context("cannot draw the plot")
}

fn lines(rows: &[Row], direction: Direction) -> Vec<Line> {
    let mut all: Vec<Line> = Vec::new();
    for r in rows.iter().filter(|r| r.direction == direction) {
        let name = r.way_name();
        let point = (f64::from(r.buffer_kib), r.mbps);
        match all.iter_mut().find(|l| l.name == name) {
            Some(line) => line.points.push(point),
            None => all.push(Line {
                name,
                colour: COLOURS[r.way as usize],
                width: if r.way == Kind::Small { 1 } else { 3 },
                points: vec![point],
            }),
        }
    }
    all
}

fn all<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    machine: &str,
    panels: &[(&str, Vec<Line>)],
) -> anyhow::Result<()>
where
    B::ErrorType: Send + Sync + 'static,
{
    root.fill(&WHITE)?;
    for (area, (title, lines)) in root.split_evenly((1, panels.len())).iter().zip(panels) {
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
            .x_desc("KiB of a buffer")
            .y_desc("Mbit/s")
            .draw()?;
        for line in lines {
            let style = line.colour.stroke_width(line.width);
            let path = PathElement::new(line.points.clone(), style);
            let series = chart.draw_series(std::iter::once(path))?;
            // The small tables are many: the last of them stands for all.
            if line.width > 1 || std::ptr::eq(line, &lines[lines.len() - 1]) {
                series
                    .label(&line.name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .label_font((FONT, 14).into_font().color(&INK))
            .background_style(WHITE.mix(0.8))
            .draw()?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::run::Counts;
    use super::super::ways::Way;
    use super::*;

    #[test]
    fn directions_are_panels_and_nothing_is_an_error() {
        let row = |direction, kib| {
            let way = Way {
                kind: Kind::Monitor,
                small: None,
            };
            Row::new(
                &way,
                (direction, kib),
                vec![f64::from(kib)],
                &Counts::default(),
            )
        };
        let rows = [
            row(Direction::Up, 1),
            row(Direction::Up, 64),
            row(Direction::Down, 1),
        ];
        let svg = String::from_utf8(draw(Format::Svg, "m", &rows).unwrap()).unwrap();
        for word in ["m: up", "m: down", "monitor", "KiB of a buffer"] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(draw(Format::Svg, "m", &[]).is_err());
    }
}
