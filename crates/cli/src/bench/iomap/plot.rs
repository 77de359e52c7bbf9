//! The plot of `nagori bench iomap`: throughput by size of the buffer.

use super::rows::{Direction, Row};
use super::ways::Kind;
use crate::bench::line_chart::{self, add, Line, Panel};
use crate::plot::Format;
use anyhow::bail;
use plotters::prelude::*;

/// Distinguishable by colour-blind people (Okabe and Ito).
const COLOURS: [RGBColor; 4] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
];

/// Draws throughput by buffer, a panel for each direction.
pub fn draw(format: Format, machine: &str, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    let panels: Vec<Panel> = [(Direction::Up, "up"), (Direction::Down, "down")]
        .into_iter()
        .map(|(d, name)| Panel {
            title: format!("{machine}: {name}"),
            y: "Mbit/s",
            lines: lines(rows, d),
        })
        .filter(|p| !p.lines.is_empty())
        .collect();
    if panels.is_empty() {
        bail!("there is nothing to draw");
    }
    line_chart::draw(
        format,
        "KiB of a buffer",
        SeriesLabelPosition::LowerRight,
        &panels,
    )
}

fn lines(rows: &[Row], direction: Direction) -> Vec<Line> {
    let mut all: Vec<Line> = Vec::new();
    for r in rows.iter().filter(|r| r.direction == direction) {
        let small = r.way == Kind::Small;
        add(
            &mut all,
            Line {
                name: r.way_name(),
                colour: COLOURS[r.way as usize],
                width: if small { 1 } else { 3 },
                named: !small,
                points: vec![(f64::from(r.buffer_kib), r.mbps)],
            },
        );
    }
    // The small tables are many: one of them stands for all in the legend.
    if let Some(last) = all.last_mut().filter(|l| !l.named) {
        last.named = true;
        last.name = "small tables".into();
    }
    all
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
