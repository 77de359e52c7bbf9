//! The plot of `nagori bench vcopy`: misses and throughput by size.

use super::cells::{Consumer, Loops, Place, Reader, Ring, Size, Stores};
use super::rows::{Row, MISSES};
use crate::bench::line_chart::{self, add, Line, Panel};
use crate::plot::Format;
use anyhow::bail;
use plotters::prelude::*;

/// Distinguishable by colour-blind people (Okabe and Ito).
const COLOURS: [RGBColor; 2] = [RGBColor(213, 94, 0), RGBColor(0, 114, 178)];

/// Draws the split ring's cells with one loop and a reader of the queue, by size.
pub fn draw(format: Format, machine: &str, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    let panel = |y, lines| Panel {
        title: format!("{machine}: {y}"),
        y,
        lines,
    };
    let panels = [
        panel("L1 misses a packet", lines(rows, |r| r.per_packet(MISSES))),
        panel(
            "million packets a second",
            lines(rows, |r| Some(r.throughput_mpps)),
        ),
    ];
    if panels.iter().all(|p| p.lines.is_empty()) {
        bail!("there is nothing to draw: the plot has sizes of packets in bytes, with the split ring and one loop");
    }
    line_chart::draw(
        format,
        "bytes of a packet",
        SeriesLabelPosition::UpperMiddle,
        &panels,
    )
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
        add(
            &mut all,
            Line {
                name,
                colour: COLOURS[c.copy as usize],
                width: if c.memory == Place::Dram { 3 } else { 1 },
                named: true,
                points: vec![(f64::from(n), y)],
            },
        );
    }
    all
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
