//! NVMM that is emulated by epochs (docs/epoch.md): it costs what DRAM costs, and at the end of an epoch a hart's time
//! moves on by what the slower memory would have added, by the formulas of [`nagori_epoch`].
//!
//! An epoch ends after so many core cycles, when its hart is furthest behind ([`Machine::next_turn`]), or before an
//! instruction by which others learn of the hart's progress
//! ([`World::hands_over`](nagori_hart::world::World::hands_over)). At both moments no other hart is behind, and all
//! requests for lines so far are earlier; so what counters show follows from machine time.

mod counters;
mod measure;

pub(super) use measure::completed;

use super::{Machine, Stop};
use counters::{Counters, Events, Turns};
use nagori_config::MachineConfig;
use nagori_counters::counters;
use nagori_epoch::{Amount, Ledger, Model, Params, Variant, Weight};
use nagori_hart::lines::Coherence;
use nagori_hart::Hart;
use nagori_platform::clock::Clock;
use serde::{Deserialize, Serialize};

/// Core cycles that a hart's time moves on in a run, at most: beyond the end of machine time.
const MOST_CYCLES: u64 = 1 << 62;

/// Why there can be no epochs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EpochError {
    /// Memory that is too small to measure what its misses are waited for.
    #[error("the {} is too small to measure what its lines are waited for behind these caches: {needs} MiB are needed; \
        give epoch.read, epoch.write, epoch.dram and epoch.weight instead", if *.nvmm { "NVMM" } else { "DRAM" })]
    Memory {
        /// Whether it is NVMM.
        nvmm: bool,
        /// MiB that are needed.
        needs: u64,
    },
    /// A loop that measures has ended.
    #[error("the loop that measures what misses are waited for has ended: {0:?}")]
    Loop(Stop),
    /// A latency or weight out of range.
    #[error(transparent)]
    Value(#[from] nagori_epoch::Error),
}

/// Why an epoch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is as long as epochs are.
    Time,
    /// The hart's work is about to be seen by others.
    HandOver,
}

counters! {
    /// What has become of a hart's epochs.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct EpochCounts {
        /// Epochs that were as long as epochs are.
        pub by_time: u64,
        /// Epochs that ended before others could see what the hart had done.
        pub by_hand_over: u64,
        /// Epochs in which counters contradicted each other: more misses of a hart than reads of all.
        pub contradictions: u64,
        /// Write-backs beyond one for each read, which the formulas cannot charge.
        pub excess_writebacks: u64,
        /// Core cycles by which the hart's time was moved on.
        pub injected_cycles: u64,
        /// Core cycles that the reading of counters has taken, which are taken off what is injected.
        pub reading_cycles: u64,
    }
}

impl EpochCounts {
    /// Whether no count is greater than in a later set.
    fn up_to(&self, later: &EpochCounts) -> bool {
        self.zip(later, u64::min) == *self
    }
}

/// Counts, and what the formulas have asked for. Since the machine's start, or since the start of statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sums {
    counts: EpochCounts,
    asked: Amount,
}

/// A hart's epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HartEpochs {
    /// Core cycle at which the present one began.
    begin: u64,
    /// What counters showed then.
    seen: Counters,
    turns: Turns,
    /// What is to be waited; nothing is ever taken out of it, since the sum of all cycles follows from the sum of all
    /// delays.
    ledger: Ledger,
    counts: EpochCounts,
}

impl HartEpochs {
    fn sums(&self) -> Sums {
        Sums {
            counts: self.counts,
            asked: self.ledger.delays(),
        }
    }
}

/// Epochs in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// The formulas.
    pub variant: Variant,
    /// What is emulated: a delay method, or the name of NVMM's memory.
    pub of: String,
    /// What a miss that only reads is waited for on the emulated memory, in picoseconds.
    pub read_ps: u64,
    /// What a miss that also writes back a line is waited for on the emulated memory, in picoseconds.
    pub write_ps: u64,
    /// What a miss is waited for on DRAM, in picoseconds.
    pub dram_ps: u64,
    /// How many times longer that is than a hit in the last-level cache.
    pub weight: Weight,
    /// By hart.
    pub harts: Vec<HartEpochReport>,
}

/// The epochs of a hart in a report.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HartEpochReport {
    /// What has become of them.
    #[serde(flatten)]
    pub counts: EpochCounts,
    /// What the formulas asked for, in picoseconds; negative if the emulated memory is faster.
    pub asked_ps: i64,
}

impl EpochReport {
    /// Adds a later stretch of time.
    pub(super) fn add(&mut self, later: &EpochReport) {
        for (a, b) in self.harts.iter_mut().zip(&later.harts) {
            a.counts = a.counts.zip(&b.counts, |a, b| a + b);
            a.asked_ps += b.asked_ps;
        }
    }
}

/// The epochs of a machine's harts.
pub(crate) struct Epochs {
    model: Model,
    of: String,
    events: Events,
    clock: Clock,
    /// Core cycles of an epoch, of the shortest that ends before work is seen, and of the reading of counters.
    length: u64,
    shortest: u64,
    reading: u64,
    hand_over: bool,
    harts: Vec<HartEpochs>,
}

impl Epochs {
    /// The epochs of a description whose values are all there; `None` if it has no variant.
    pub(super) fn new(c: &MachineConfig) -> Result<Option<Epochs>, EpochError> {
        let e = &c.epoch;
        let (Some(variant), Some(read), Some(write), Some(dram), Some(weight)) =
            (e.variant, e.read, e.write, e.dram, e.weight)
        else {
            return Ok(None);
        };
        let clock = Clock::new(c.core_period());
        let model = Model::new(Params {
            variant,
            attribution: e.attribution,
            clock: c.core_period(),
            dram: dram.0,
            read: read.0,
            write: write.0,
            weight,
            l2_weight: Weight::ZERO,
            flush: None,
            nt_store: None,
        })?;
        let own = c.regions().into_iter().find(|r| r.name == "nvmm");
        let cycles = |t: nagori_config::Time| clock.tick_from(t.0);
        Ok(Some(Epochs {
            model,
            of: own.map_or(e.of.name().into(), |r| r.config.model.clone()),
            events: Events::new(c),
            clock,
            length: cycles(e.length).max(1),
            shortest: cycles(e.shortest),
            reading: cycles(e.faults.reading),
            hand_over: e.hand_over,
            harts: vec![HartEpochs::default(); c.harts as usize],
        }))
    }

    /// The cycle in which a hart's epoch is over.
    #[inline]
    pub(super) fn end_of(&self, hart: usize) -> u64 {
        self.harts[hart].begin.saturating_add(self.length)
    }

    /// New epochs begin where harts are, and what has been counted before is not delayed.
    pub(super) fn begin(&mut self, harts: &[Hart], caches: &Coherence) {
        for (e, h) in self.harts.iter_mut().zip(harts) {
            e.begin = h.state.cycle;
            e.seen = self.events.of(h, caches);
        }
    }

    /// A hart, so many cycles after its `cycle`, is about to do something that others see. By how many cycles its time
    /// moves on.
    pub(super) fn hands_over(&mut self, h: &Hart, later: u64, caches: &Coherence) -> u64 {
        let now = h.state.cycle + later;
        if self.hand_over && now - self.harts[h.id].begin >= self.shortest {
            self.end(h, now, caches, End::HandOver)
        } else {
            0
        }
    }

    /// Ends a hart's epoch. Returns the cycles by which its time moves on.
    fn end(&mut self, h: &Hart, now: u64, caches: &Coherence, why: End) -> u64 {
        let shown = self.events.of(h, caches);
        let e = &mut self.harts[h.id];
        let counted = shown.since(&e.seen);
        let moves = match counted.is_zero() {
            // Where nothing was counted, nothing is to be done but to begin anew.
            true if why == End::HandOver => 0,
            _ => {
                let counted = e.turns.seen(&self.events, counted, now - e.begin);
                let counts = self.events.counts(&counted);
                // Counts of an epoch are within range, and so are their delays.
                let delay = self.model.delay(&counts).unwrap_or_default();
                e.ledger.add(&delay, self.clock.time_of(self.reading));
                let n = &mut e.counts;
                match why {
                    End::Time => n.by_time += 1,
                    End::HandOver => n.by_hand_over += 1,
                }
                n.contradictions += u64::from(delay.contradiction);
                n.excess_writebacks += delay.excess_writebacks;
                n.reading_cycles += self.reading;
                let due = self.clock.ticks_at(e.ledger.balance().whole());
                let more = due.saturating_sub(n.injected_cycles);
                n.injected_cycles += more;
                self.reading + more
            }
        };
        e.begin = now.saturating_add(moves);
        e.seen = shown;
        moves
    }

    /// Sums of all harts, for statistics that start now.
    pub(super) fn sums(&self) -> Vec<Sums> {
        self.harts.iter().map(HartEpochs::sums).collect()
    }

    /// What has been since statistics started with such sums.
    pub(super) fn report(&self, from: &[Sums]) -> EpochReport {
        let p = self.model.params();
        let none = Sums::default();
        let before = from.iter().chain(std::iter::repeat(&none));
        let harts = self.harts.iter().zip(before).map(|(e, before)| {
            let asked = e.ledger.delays() - before.asked;
            HartEpochReport {
                counts: e.counts.zip(&before.counts, |now, before| now - before),
                asked_ps: asked.as_units().round() as i64,
            }
        });
        EpochReport {
            variant: p.variant,
            of: self.of.clone(),
            read_ps: p.read.0,
            write_ps: p.write.0,
            dram_ps: p.dram.0,
            weight: p.weight,
            harts: harts.collect(),
        }
    }

    pub(super) fn save(&self) -> Vec<HartEpochs> {
        self.harts.clone()
    }

    /// Goes on with saved epochs. Returns false if they are not those of such harts, or are later than these.
    pub(super) fn load(
        &mut self,
        saved: Vec<HartEpochs>,
        harts: &[Hart],
        caches: &Coherence,
    ) -> bool {
        let fits = |(e, h): (&HartEpochs, &Hart)| {
            // More than any run can have, and less than what sums can hold.
            const MOST: f64 = 1e21;
            e.seen.up_to(&self.events.of(h, caches))
                && e.begin <= MOST_CYCLES
                && e.counts.injected_cycles < MOST_CYCLES
                && e.counts.reading_cycles < MOST_CYCLES
                && e.turns.fits()
                && [e.ledger.delays(), e.ledger.balance()]
                    .iter()
                    .all(|a| a.as_units().abs() < MOST)
        };
        let all = saved.len() == harts.len() && saved.iter().zip(harts).all(fits);
        if all {
            self.harts = saved;
        }
        all
    }
}

/// Whether sums at the start of statistics can be those of saved epochs.
pub(super) fn began(from: &[Sums], saved: &[HartEpochs]) -> bool {
    from.is_empty()
        || from.len() == saved.len() && {
            from.iter()
                .zip(saved)
                .all(|(a, b)| a.counts.up_to(&b.counts))
        }
}

impl Machine {
    /// Whether a turn cannot begin since its hart's epoch is over. Then the hart is the one that is furthest behind
    /// when it is given the turn again, and its time moves on.
    pub(super) fn end_epoch(&mut self, hart: usize, ending: &mut Option<usize>) -> bool {
        let w = &mut *self.world;
        let Some(e) = &mut w.epochs else { return false };
        let h = &mut self.harts[hart];
        if h.state.cycle < e.end_of(hart) || h.fills() {
            return false;
        }
        self.window.end_turn();
        if ending.replace(hart) == Some(hart) {
            let more = e.end(h, h.state.cycle, &w.coherence, End::Time);
            h.state.cycle += more;
            *ending = None;
        }
        true
    }

    /// Epochs begin anew, where time or counters have not gone on as usual.
    pub(super) fn begin_epochs(&mut self) {
        let w = &mut *self.world;
        if let Some(e) = &mut w.epochs {
            e.begin(&self.harts, &w.coherence);
        }
    }
}
