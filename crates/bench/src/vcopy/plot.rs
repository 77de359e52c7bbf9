//! The plot of `nagori bench vcopy`: misses and throughput by size.

use super::cells::{Consumer, Loops, Place, Reader, Ring, Size, Stores};
use super::rows::{Row, MISSES};
use anyhow::bail;
use nagori_plot::{Axis, Chart, Mark, Panel, Point, Series};

/// The split ring's cells with one loop and a reader of the queue, by size.
pub fn chart(machine: &str, rows: &[Row]) -> anyhow::Result<Chart> {
    let panels = [
        panel(Axis::new("L1 misses a packet", ""), rows, |r| {
            r.per_packet(MISSES)
        }),
        panel(Axis::new("throughput", "million packets/s"), rows, |r| {
            Some(r.throughput_mpps)
        }),
    ];
    if panels.iter().all(|p| p.series.is_empty()) {
        bail!("there is nothing to draw: the plot has sizes of packets in bytes, with the split ring and one loop");
    }
    Ok(Chart {
        title: format!("Copies of packets, machine {machine}"),
        panels: panels.into(),
        ..Chart::default()
    })
}

fn panel(y: Axis, rows: &[Row], value: impl Fn(&Row) -> Option<f64>) -> Panel {
    let mut panel = Panel::new("", (Axis::new("packet", "B").log(), y), Vec::new());
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
        panel.add(Series {
            // A colour is a kind of copy, and a dashed line a slow memory.
            colour: Some(c.copy as usize),
            dashed: c.memory != Place::Dram,
            ..Series::new(
                format!("{}, {}{model}", c.copy.name(), c.memory.name()),
                Mark::Line,
            )
            .with([Point::new(f64::from(n), y)])
        });
    }
    panel
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
        let svg = nagori_plot::svg(
            &chart("m", &[row(64), row(1024)]).unwrap(),
            &nagori_plot::Look::default(),
        )
        .unwrap();
        for word in ["temporal, dram", "packet [B]", "L1 misses a packet"] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(chart("m", &[]).is_err());
    }
}
