//! What the light timed mode knows of a machine's memories, and what it reports.

use crate::config::EpochConfig;
use nagori_hart::world::EpochEnd;
use nagori_memtime::units::ps_text;
use nagori_memtime::{Method, Ps};
use serde::{Deserialize, Serialize};

/// Most memories that a model distinguishes.
pub(in crate::machine) const MOST_AREAS: usize = 16;

/// Classes of gaps. A gap is the time since the hart's last transfer ended: the longer it is, the more of what was left
/// behind in the memory (banks that are busy, rows to be closed) is over.
pub const GAPS: usize = 24;

/// The class of a gap in its unit ([`LightModel::gap_bits`]): two classes for each time twice as long.
#[inline]
pub(in crate::machine) fn gap_class(gap: u64) -> u8 {
    if gap < 2 {
        return gap as u8;
    }
    let log = gap.ilog2();
    let class = 2 * log + (gap >> (log - 1) & 1) as u32;
    class.min(GAPS as u32 - 1) as u8
}

/// The gap with which a class begins, in the same unit.
pub(in crate::machine) fn begin_of(class: usize) -> f64 {
    if class < 2 {
        return class as f64;
    }
    let log = class as i32 / 2;
    2f64.powi(log) + 2f64.powi(log - 1) * (class % 2) as f64
}

/// The gap in the middle of a class, in the same unit.
pub(in crate::machine) fn middle_of(class: usize) -> f64 {
    if class < 2 {
        return class as f64 + 0.5;
    }
    let log = class as i32 / 2;
    let width = 2f64.powi(log - 1);
    2f64.powi(log) + width * ((class % 2) as f64 + 0.5)
}

/// What lines in order cost, as [`LineCosts`] has those in random order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InOrder {
    /// A line that is read behind the one before it.
    pub read_ps: [u64; GAPS],
    /// What a line takes without a gap that the hart does not wait for where it asks: several are under way at a time, and so
    /// that a loop over lines in order takes as long as in the detailed mode.
    pub ahead_ps: u64,
    /// A modified line that is written back.
    pub write_back_ps: [u64; GAPS],
    /// A modified line that an instruction writes back.
    pub flush_ps: [u64; GAPS],
    /// From a line that non-temporal stores fill to the next transfer at the earliest.
    #[serde(default)]
    pub past_ps: [u64; GAPS],
    /// The same of a line for which a store waits in a store buffer.
    #[serde(default)]
    pub stores_ps: [u64; GAPS],
}

impl InOrder {
    pub(in crate::machine) fn set_ahead(&mut self, ps: u64) {
        self.ahead_ps = ps;
    }

    /// Lines that are written back take so much whatever the gap.
    pub(in crate::machine) fn set_write_back(&mut self, ps: u64) {
        self.write_back_ps = [ps; GAPS];
    }

    /// What such a line takes, by the class of the gap.
    pub(in crate::machine) fn ahead(&self, gap: u8) -> u64 {
        let longer = self.read_ps[gap as usize].saturating_sub(self.read_ps[0]);
        self.ahead_ps + longer
    }
}

/// What lines of one memory cost a hart, in picoseconds, by the class of the gap. Each is what the detailed model adds
/// to a hart's time on average, beyond caches and core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineCosts {
    /// A line that is read, lines being read in random order; by the gap before it.
    pub read_ps: [u64; GAPS],
    /// A modified line that is written back because another one takes its place: what it adds to the read. By the
    /// gap before it if the hart waits for it, and otherwise by the gap before the next read.
    pub write_back_ps: [u64; GAPS],
    /// A modified line that an instruction writes back: what it adds, also to the next transfer. By the gap before that.
    pub flush_ps: [u64; GAPS],
    /// The time from a line that non-temporal stores fill to the next transfer at the earliest, in random order; by the gap
    /// before that. Zero where no hint has stores go past the caches.
    #[serde(default)]
    pub past_ps: [u64; GAPS],
    /// The time from such a line to when it is written, for which a fence waits; by the gap before the line.
    #[serde(default)]
    pub fenced_ps: [u64; GAPS],
    /// The time from a line for which a store waits in a store buffer to the next transfer, without what its victim takes.
    #[serde(default)]
    pub stores_ps: [u64; GAPS],
    /// What a read waits for each other hart that waits for reads of the same memory all the time.
    #[serde(default)]
    pub queue_read_ps: u64,
    /// The same of a line that is written back, for lines that others write back.
    #[serde(default)]
    pub queue_write_ps: u64,
    /// Lines in order. Not of the board, whose rows are by its controller's rules; none: they cost the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_order: Option<InOrder>,
}

impl LineCosts {
    /// Costs of lines in random order, and of those in order.
    pub(in crate::machine) fn by_order(&self) -> [LineCosts; 2] {
        let Some(o) = self.in_order else {
            return [*self; 2];
        };
        let in_order = LineCosts {
            read_ps: o.read_ps,
            write_back_ps: o.write_back_ps,
            flush_ps: o.flush_ps,
            past_ps: o.past_ps,
            stores_ps: o.stores_ps,
            ..*self
        };
        [*self, in_order]
    }

    pub(in crate::machine) fn each(&self) -> impl Iterator<Item = u64> {
        let by_gap = self.by_order().into_iter().flat_map(|c| {
            [
                c.read_ps,
                c.write_back_ps,
                c.flush_ps,
                c.past_ps,
                c.fenced_ps,
                c.stores_ps,
            ]
        });
        let ahead = self.in_order.map(|o| o.ahead_ps);
        let queues = [self.queue_read_ps, self.queue_write_ps];
        by_gap.flatten().chain(ahead).chain(queues)
    }
}

/// A memory, or the part of the board's memory that the delay methods slow down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Area {
    /// Its name: a region's, or `dram` or `nvmm` for the board's controller.
    pub name: String,
    /// Offset in memory of its first byte.
    pub base: u64,
    /// Offset in memory of the first byte after it.
    pub end: u64,
    /// It is the board's: what its lines wait for holds, rows and refreshes is by the controller's rules, whatever costs say
    /// of the method.
    #[serde(default)]
    pub board: bool,
    /// Its costs, by delay method where these affect it; otherwise one entry.
    pub costs: Vec<LineCosts>,
}

impl Area {
    /// Its costs under a method.
    pub fn under(&self, m: Method) -> LineCosts {
        let i = Method::ALL.iter().position(|k| *k == m).unwrap_or(0);
        let known = self.costs.get(i).or(self.costs.first());
        known.copied().unwrap_or_default()
    }
}

/// What the light mode knows of a machine's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LightModel {
    /// Name of the machine's description.
    pub machine: String,
    /// Identifies what was measured: the values of the description that matter for these costs.
    pub key: String,
    /// Latency of a hit in the last cache level before memory; zero where L1 is the last.
    #[serde(with = "ps_text")]
    pub last_hit: Ps,
    /// The unit of gaps is 2 to the power of this core cycles. Classes begin at 0, 1, 2, 3, 4, 6, 8, 12, 16 units and so on.
    pub gap_bits: u32,
    /// The memories, by address, without gaps.
    #[serde(rename = "memory")]
    pub areas: Vec<Area>,
}

impl LightModel {
    /// Reads what [`LightModel::to_toml`] has written.
    ///
    /// # Errors
    /// If it is not such a text; what is wrong and where.
    pub fn from_toml(text: &str) -> Result<LightModel, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    /// The model as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }
}

/// How long epochs last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochLength {
    /// Guest time of a full epoch.
    #[serde(with = "ps_text")]
    pub time: Ps,
    /// Instructions of a hart in a full epoch; none: as many as fit into the time.
    pub instructions: Option<u64>,
}

impl EpochLength {
    /// What a machine's description says.
    pub fn of(epoch: &EpochConfig) -> EpochLength {
        EpochLength {
            time: epoch.length,
            instructions: epoch.instructions,
        }
    }

    /// So many instructions of a hart.
    pub fn every(instructions: u64) -> EpochLength {
        EpochLength {
            instructions: Some(instructions),
            ..EpochLength::default()
        }
    }
}

impl Default for EpochLength {
    fn default() -> Self {
        EpochLength::of(&EpochConfig::default())
    }
}

/// A light model or a length of epochs that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LightError {
    /// Memories.
    #[error("the costs of the light mode are for other memories than the machine has: calibrate them for this machine")]
    Areas,
    /// An impossible cost.
    #[error("memory {0}: a cost is more than a second")]
    Cost(String),
    /// The length of epochs.
    #[error("an epoch lasts {0}: expected 1 us to 1 s, and at least 1000 instructions")]
    Length(Ps),
}

/// Lines that a hart has moved from or to one memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineCounts {
    /// Lines read for loads, walks and fetches.
    pub loads: u64,
    /// Lines read for stores.
    pub stores: u64,
    /// Lines read for loads that hold a line fill buffer, while the hart goes on.
    #[serde(default)]
    pub ahead: u64,
    /// Lines read by prefetchers.
    pub prefetches: u64,
    /// Modified victims (and lines that another hart wanted) that were waited for.
    pub write_backs: u64,
    /// Modified lines that were written back without waiting.
    pub posted: u64,
    /// Modified lines written back by instructions.
    pub flushes: u64,
    /// Lines that non-temporal stores have written past the caches.
    #[serde(default)]
    pub nt_stores: u64,
}

impl LineCounts {
    /// What was counted since `o` was.
    pub(in crate::machine) fn minus(&self, o: &LineCounts) -> LineCounts {
        LineCounts {
            loads: self.loads.saturating_sub(o.loads),
            stores: self.stores.saturating_sub(o.stores),
            ahead: self.ahead.saturating_sub(o.ahead),
            prefetches: self.prefetches.saturating_sub(o.prefetches),
            write_backs: self.write_backs.saturating_sub(o.write_backs),
            posted: self.posted.saturating_sub(o.posted),
            flushes: self.flushes.saturating_sub(o.flushes),
            nt_stores: self.nt_stores.saturating_sub(o.nt_stores),
        }
    }

    /// Adds other counts.
    pub fn plus(&mut self, o: &LineCounts) {
        self.loads += o.loads;
        self.stores += o.stores;
        self.ahead += o.ahead;
        self.prefetches += o.prefetches;
        self.write_backs += o.write_backs;
        self.posted += o.posted;
        self.flushes += o.flushes;
        self.nt_stores += o.nt_stores;
    }

    /// Lines read for loads and stores.
    pub fn reads(&self) -> u64 {
        self.waited_for() + self.ahead
    }

    /// Those of them that a hart waited for where it asked for them.
    pub fn waited_for(&self) -> u64 {
        self.loads + self.stores
    }

    /// Modified lines written.
    pub fn writes(&self) -> u64 {
        self.write_backs + self.posted + self.flushes + self.nt_stores
    }
}

/// An epoch that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochRow {
    /// Hart.
    pub hart: usize,
    /// Its core cycles and instructions at the beginning.
    pub from: (u64, u64),
    /// Its core cycles and instructions at the end, with the delay.
    pub to: (u64, u64),
    /// Why it ended.
    pub why: EpochEnd,
    /// Its delay, in core cycles.
    pub delay: u64,
    /// Core cycles for which the hart waited for memory, the delay among them.
    pub waited: u64,
    /// Core cycles for which it slept.
    pub idle: u64,
    /// Picoseconds that its lines take one after another, by the costs of the light mode.
    pub alone_ps: u64,
    /// Lines by memory.
    pub lines: Vec<LineCounts>,
}

/// What the light mode has counted and estimated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LightReport {
    /// Times of the report are estimates.
    pub estimated: bool,
    /// Epochs by the reason of their end.
    pub epochs: Vec<(String, u64)>,
    /// Waiting for memory that was charged at once, all harts together.
    pub charged_ps: u64,
    /// What epochs have added.
    pub delayed_ps: u64,
    /// Epochs in which one set of L1D stood for several.
    pub sampled_epochs: u64,
    /// By memory: its name, and its lines.
    pub memories: Vec<(String, LineCounts)>,
}

impl LightReport {
    /// What has happened since an earlier report.
    pub(in crate::machine) fn since(mut self, o: &LightReport) -> LightReport {
        for (a, b) in self.epochs.iter_mut().zip(&o.epochs) {
            a.1 = a.1.saturating_sub(b.1);
        }
        self.charged_ps = self.charged_ps.saturating_sub(o.charged_ps);
        self.delayed_ps = self.delayed_ps.saturating_sub(o.delayed_ps);
        self.sampled_epochs = self.sampled_epochs.saturating_sub(o.sampled_epochs);
        for (a, b) in self.memories.iter_mut().zip(&o.memories) {
            a.1 = a.1.minus(&b.1);
        }
        self
    }

    /// Two stretches of time together.
    pub(in crate::machine) fn plus(mut self, o: &LightReport) -> LightReport {
        self.estimated |= o.estimated;
        for (a, b) in self.epochs.iter_mut().zip(&o.epochs) {
            a.1 += b.1;
        }
        self.charged_ps += o.charged_ps;
        self.delayed_ps += o.delayed_ps;
        self.sampled_epochs += o.sampled_epochs;
        for (a, b) in self.memories.iter_mut().zip(&o.memories) {
            a.1.plus(&b.1);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_gaps_are_in_order_and_have_their_middle() {
        let begin = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24];
        for (class, from) in begin.iter().enumerate() {
            assert_eq!(gap_class(*from), class as u8);
            assert!(*from == 0 || gap_class(from - 1) < class as u8);
            assert_eq!(gap_class(middle_of(class) as u64), class as u8);
            assert_eq!(begin_of(class), *from as f64);
        }
        assert_eq!(gap_class(u64::MAX), GAPS as u8 - 1);
        assert_eq!(middle_of(6), 10.0);
    }
}
