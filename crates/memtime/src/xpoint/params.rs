//! Parameters of the 3D-XPoint-like DIMM, with sources.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::period::Period;
use crate::startgap::StartGapParams;
use crate::units::{ps_text, Ps};
use crate::wear::Endurance;

/// Parameters of a DIMM. Times are written with their unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XpointParams {
    /// Bytes that can be addressed; whole lines, and whole start-gap regions.
    pub capacity: u64,
    /// Period in which cycles are reported.
    pub clock: Period,
    /// Bytes of an internal line: 64, 128, 256 or 512.
    pub line_bytes: u64,
    /// Lines of the write-combining buffer, 1 to 256.
    pub combine_lines: u32,
    /// Lines of the read buffer, 1 to 256.
    pub read_lines: u32,
    /// Sectors of 64 bytes at the start of a line that are read in ascending order before the next
    /// line is read ahead (if the line before was read as well), at most those of a line; 0: lines
    /// are not read ahead.
    pub read_ahead: u32,
    /// Outstanding reads, 1 to 256.
    pub read_queue: u32,
    /// Entries of the queue of writes to the combining buffer, 1 to 256.
    pub write_queue: u32,
    /// From the requester's miss to the DIMM's controller and back.
    #[serde(with = "ps_text")]
    pub path: Ps,
    /// Channel time of one request.
    #[serde(with = "ps_text")]
    pub beat: Ps,
    /// Time to read a sector that is in one of the buffers.
    #[serde(with = "ps_text")]
    pub buffer_read: Ps,
    /// Latency of a line from the medium into the buffer.
    #[serde(with = "ps_text")]
    pub media_read: Ps,
    /// Time that a line keeps the medium's path busy, in either direction.
    #[serde(with = "ps_text")]
    pub media_slot: Ps,
    /// Shortest time between the beginnings of two line writes, at least twice `media_slot`: an incomplete
    /// line is read and written.
    #[serde(with = "ps_text")]
    pub media_write_interval: Ps,
    /// Arrival of a write to its response (the write has reached the persistence domain).
    #[serde(with = "ps_text")]
    pub write_response: Ps,
    /// Entries of the translation cache, a multiple of 8 up to 2^20.
    pub translation_entries: u32,
    /// Bytes that one entry translates, a power of two and at least a line.
    pub translation_bytes: u64,
    /// Added to a line access whose translation is not cached.
    #[serde(with = "ps_text")]
    pub translation_miss: Ps,
    /// Wear levelling by moving lines; `None`: lines stay where they are.
    pub start_gap: Option<StartGapParams>,
    /// Wear levelling by moving hot blocks; `None`: blocks stay where they are.
    pub migration: Option<XpointMigration>,
    /// Wear counters; `None`: not counted.
    pub wear: Option<XpointWear>,
    /// Energy of the medium; `None`: not reported.
    pub energy: Option<XpointEnergy>,
    /// Seed of the random choice of lines to write back.
    pub seed: u64,
}

/// How blocks that are written again and again are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XpointMigration {
    /// Bytes of a block, a power of two, at least a line. What the capacity has beyond whole blocks does
    /// not move.
    pub block_bytes: u64,
    /// Line writes by which a block must be ahead of all others before it moves, at least 1.
    pub threshold: u32,
    /// Time to copy a line; the block takes no writes until all of its lines have had that time.
    #[serde(with = "ps_text")]
    pub line_time: Ps,
    /// Places that are free for blocks that move, 1 to 65536.
    pub spare_blocks: u32,
}

/// How the medium's wear is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XpointWear {
    /// Bytes of a row of the wear map, a power of two.
    pub row_bytes: u64,
    /// How many writes a line endures.
    pub endurance: Endurance,
}

/// Energy by operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XpointEnergy {
    /// Line read in pJ.
    pub read_pj: u64,
    /// Line write in pJ.
    pub write_pj: u64,
    /// Standby power, in mW.
    pub background_mw: u64,
}

impl XpointMigration {
    fn validate(&self, p: &XpointParams) -> Result<(), Error> {
        let fail = |field, value: String, expected: &str| {
            Err(Error::Param {
                field,
                value,
                expected: expected.to_owned(),
            })
        };
        let b = self.block_bytes;
        if !b.is_power_of_two() || b < p.line_bytes {
            return fail(
                "migration.block_bytes",
                b.to_string(),
                "a power of two, at least a line",
            );
        }
        if self.threshold == 0 {
            return fail("migration.threshold", "0".to_owned(), "at least 1");
        }
        if self.line_time == Ps::ZERO || self.line_time > Ps::from_ns(1_000_000) {
            return fail(
                "migration.line_time",
                self.line_time.to_string(),
                "more than 0, at most 1 ms",
            );
        }
        if !(1..=65536).contains(&self.spare_blocks) {
            return fail(
                "migration.spare_blocks",
                self.spare_blocks.to_string(),
                "1 to 65536",
            );
        }
        Ok(())
    }
}

impl XpointParams {
    /// Checks all values.
    pub fn validate(&self) -> Result<(), Error> {
        let fail = |field, value: String, expected: &str| {
            Err(Error::Param {
                field,
                value,
                expected: expected.to_owned(),
            })
        };
        if !matches!(self.line_bytes, 64 | 128 | 256 | 512) {
            return fail(
                "line_bytes",
                self.line_bytes.to_string(),
                "64, 128, 256 or 512",
            );
        }
        if self.capacity == 0
            || !self.capacity.is_multiple_of(self.line_bytes)
            || self.capacity > 1 << 46
        {
            return fail(
                "capacity",
                self.capacity.to_string(),
                "whole lines, more than none and at most 64 TiB",
            );
        }
        for (field, n) in [
            ("combine_lines", self.combine_lines),
            ("read_lines", self.read_lines),
            ("read_queue", self.read_queue),
            ("write_queue", self.write_queue),
        ] {
            if !(1..=256).contains(&n) {
                return fail(field, n.to_string(), "1 to 256");
            }
        }
        if u64::from(self.read_ahead) > self.line_bytes / 64 {
            return fail(
                "read_ahead",
                self.read_ahead.to_string(),
                "at most the sectors of a line",
            );
        }
        if let Some(m) = &self.migration {
            m.validate(self)?;
        }
        let n = self.translation_entries;
        if n == 0 || !n.is_multiple_of(8) || n > 1 << 20 {
            return fail(
                "translation_entries",
                n.to_string(),
                "a multiple of 8, 8 to 1048576",
            );
        }
        let b = self.translation_bytes;
        if !b.is_power_of_two() || b < self.line_bytes {
            return fail(
                "translation_bytes",
                b.to_string(),
                "a power of two, at least a line",
            );
        }
        for (field, t) in [
            ("beat", self.beat),
            ("media_slot", self.media_slot),
            ("write_response", self.write_response),
        ] {
            if t == Ps::ZERO {
                return fail(field, t.to_string(), "more than 0");
            }
        }
        for (field, t) in [
            ("clock", self.clock.nearest()),
            ("path", self.path),
            ("beat", self.beat),
            ("buffer_read", self.buffer_read),
            ("media_read", self.media_read),
            ("media_slot", self.media_slot),
            ("media_write_interval", self.media_write_interval),
            ("write_response", self.write_response),
            ("translation_miss", self.translation_miss),
        ] {
            if t > Ps::from_ns(1_000_000_000) {
                return fail(field, t.to_string(), "at most 1 s");
            }
        }
        if self.media_write_interval.0 < 2 * self.media_slot.0 {
            return fail(
                "media_write_interval",
                self.media_write_interval.to_string(),
                "at least twice media_slot: an incomplete line is read and written",
            );
        }
        Ok(())
    }
}
