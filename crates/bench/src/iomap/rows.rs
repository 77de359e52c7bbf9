//! Rows of `nagori bench iomap`.

use super::run::Counts;
use super::ways::{Kind, Replacement, Way};
use crate::spread::Spread;
use serde::Serialize;

/// Which way the data go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the machine that is measured to the other one.
    Up,
    /// To it.
    Down,
}

/// A result; the JSON form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub direction: Direction,
    pub buffer_kib: u32,
    pub way: Kind,
    /// Entries of a small table.
    pub entries: Option<u32>,
    pub replacement: Option<Replacement>,
    /// Mean of the transfers.
    pub mbps: f64,
    pub mbps_spread: Spread,
    /// Throughput, divided by that of the monitor for the same direction and buffer.
    pub ratio_to_monitor: Option<f64>,
    /// Instructions of one transfer, with the start of the program that does it.
    pub instructions: u64,
    /// Instructions of the monitor, in faults of I/O accesses.
    pub translation_instructions: u64,
    pub translation_share: f64,
    /// Accesses of the MAC.
    pub io_accesses: u64,
    pub io_accesses_per_frame: f64,
    /// Traps into the monitor by I/O accesses, in a second of the machine's time.
    pub traps_per_second: f64,
    /// Frames on the wire, both ways.
    pub frames: u64,
}

impl Row {
    /// From the throughputs of at least one transfer, and what was counted of another one.
    pub fn new(
        way: &Way,
        (direction, buffer_kib): (Direction, u32),
        rates: Vec<f64>,
        c: &Counts,
    ) -> Row {
        let mbps = rates.iter().sum::<f64>() / rates.len() as f64;
        Row {
            direction,
            buffer_kib,
            way: way.kind,
            entries: way.small.map(|s| s.0),
            replacement: way.small.map(|s| s.1),
            mbps,
            mbps_spread: Spread::of(rates),
            ratio_to_monitor: None,
            instructions: c.instructions,
            translation_instructions: c.translation,
            translation_share: c.translation as f64 / c.instructions.max(1) as f64,
            io_accesses: c.accesses,
            io_accesses_per_frame: c.accesses as f64 / c.frames.max(1) as f64,
            traps_per_second: c.traps as f64 / c.seconds.max(1e-9),
            frames: c.frames,
        }
    }
}

impl Row {
    /// The way, for people.
    pub fn way_name(&self) -> String {
        let small = self.entries.zip(self.replacement);
        Way {
            kind: self.way,
            small,
        }
        .name()
    }
}

/// Adds the ratios to the monitor's throughput, where that was measured.
pub fn compare(rows: &mut [Row]) {
    let monitor: Vec<(Direction, u32, f64)> = { rows.iter() }
        .filter(|r| r.way == Kind::Monitor)
        .map(|r| (r.direction, r.buffer_kib, r.mbps))
        .collect();
    for r in rows {
        let same = monitor
            .iter()
            .find(|m| (m.0, m.1) == (r.direction, r.buffer_kib));
        r.ratio_to_monitor = same.map(|m| r.mbps / m.2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_the_same_cell() {
        let row = |kind, kib, rates: &[f64]| {
            let way = Way { kind, small: None };
            Row::new(
                &way,
                (Direction::Up, kib),
                rates.to_vec(),
                &Counts::default(),
            )
        };
        let mut rows = [
            row(Kind::Monitor, 1, &[10.0, 20.0, 12.0]),
            row(Kind::Constant, 1, &[21.0]),
            row(Kind::Constant, 2, &[21.0]),
        ];
        compare(&mut rows);
        assert_eq!(
            rows[0].mbps_spread,
            Spread {
                min: 10.0,
                median: 12.0,
                max: 20.0
            }
        );
        assert_eq!(
            rows.map(|r| r.ratio_to_monitor),
            [Some(1.0), Some(1.5), None]
        );
    }
}
