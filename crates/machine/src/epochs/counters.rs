//! The counters that epochs are computed from, as a processor with these caches has them, with their faults.

use nagori_config::{EpochFaults, EpochMemory, MachineConfig};
use nagori_epoch::{Counts, Variant};
use nagori_hart::lines::{CacheCounts, Coherence};
use nagori_hart::Hart;
use serde::{Deserialize, Serialize};

/// Cycles that the hart waited for lines that its private caches did not have.
const STALL: usize = 0;
/// What the last-level cache answered, and what it did not.
const HITS: usize = 1;
const MISSES: usize = 2;
/// Lines read from DRAM and from NVMM for the hart.
const OWN_DRAM: usize = 3;
const OWN_NVMM: usize = 4;
/// Modified lines that had to leave for its misses.
const VICTIMS: usize = 5;
/// Lines that all harts read and wrote.
const DRAM_READS: usize = 6;
const NVMM_READS: usize = 7;
const DRAM_WRITES: usize = 8;
const NVMM_WRITES: usize = 9;
const ALL: usize = 10;

/// Counters that share their hardware take turns: those of the core's cycles, of its misses, of the memory controller.
const GROUPS: [std::ops::Range<usize>; 3] = [STALL..HITS, HITS..DRAM_READS, DRAM_READS..ALL];

/// What counters show, or have counted in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Counters([u64; ALL]);

impl Counters {
    pub fn since(&self, before: &Counters) -> Counters {
        Counters(std::array::from_fn(|k| {
            self.0[k].saturating_sub(before.0[k])
        }))
    }

    pub fn up_to(&self, later: &Counters) -> bool {
        self.0.iter().zip(&later.0).all(|(a, b)| a <= b)
    }

    /// Stall cycles.
    pub fn stalled(&self) -> u64 {
        self.0[STALL]
    }

    /// What the last-level cache answered.
    pub fn hits(&self) -> u64 {
        self.0[HITS]
    }

    /// What it did not.
    pub fn misses(&self) -> u64 {
        self.0[MISSES]
    }

    pub fn is_zero(&self) -> bool {
        self.0 == [0; ALL]
    }
}

/// Which events of the machine the counters count, and what is wrong with them.
#[derive(Clone, Debug)]
pub(super) struct Events {
    /// Stores wait in a buffer, and no hart waits for their lines.
    buffered: bool,
    harts: usize,
    /// Outer cache levels.
    levels: usize,
    memory: EpochMemory,
    faults: EpochFaults,
    variant: Option<Variant>,
}

impl Events {
    pub fn new(c: &MachineConfig) -> Events {
        Events {
            buffered: c.store_buffer.entries > 0,
            harts: c.harts as usize,
            levels: c.cache.len(),
            memory: c.epoch.memory,
            faults: c.epoch.faults.clone(),
            variant: c.epoch.variant,
        }
    }

    /// What the counters show for a hart.
    pub fn of(&self, h: &Hart, caches: &Coherence) -> Counters {
        let (s, own) = (&h.state.stats, caches.counts(h.id));
        let kinds = |c: &CacheCounts| {
            let store = |n: u64| if self.buffered { 0 } else { n };
            [
                c.load_hits + c.fetch_hits + c.walk_hits + store(c.store_hits),
                c.load_misses + c.fetch_misses + c.walk_misses + store(c.store_misses),
            ]
        };
        let mut all = [0; ALL];
        // Behind the second level, if there is a third: where the stall counters of processors begin.
        let before = if self.levels > 1 {
            s.l2_stall_cycles
        } else {
            0
        };
        all[STALL] = s.memory_stall_cycles.saturating_sub(before);
        let prefetches = match own.levels.last() {
            Some(last) => {
                [all[HITS], all[MISSES]] = kinds(last);
                all[VICTIMS] = last.writebacks_demand;
                last.prefetch_misses
            }
            None => {
                let stores = if self.buffered { 0 } else { s.l1d_store_misses };
                all[MISSES] = s.l1d_load_misses + s.l1d_walk_misses + s.l1i_misses + stores;
                all[VICTIMS] = s.l1d_writebacks;
                own.first.iter().map(|c| c.prefetch_misses).sum()
            }
        };
        if self.faults.prefetches {
            all[MISSES] += prefetches;
        }
        (all[OWN_DRAM], all[OWN_NVMM]) = (own.memory.dram_reads, own.memory.nvmm_reads);
        for hart in 0..self.harts {
            let m = &caches.counts(hart).memory;
            all[DRAM_READS] += m.dram_reads;
            all[NVMM_READS] += m.nvmm_reads;
            all[DRAM_WRITES] += m.dram_writes;
            all[NVMM_WRITES] += m.nvmm_writes;
        }
        Counters(all)
    }

    /// What was counted, for the formulas.
    pub fn counts(&self, c: &Counters) -> Counts {
        let n = |k: usize| c.0[k];
        let (own, all) = (n(OWN_NVMM), n(OWN_DRAM) + n(OWN_NVMM));
        // The part of the emulated node, by the counters of reads by node: both nodes are as fast.
        let part = |of: u64| match self.memory {
            EpochMemory::All => of,
            EpochMemory::Nvmm if all == 0 => 0,
            EpochMemory::Nvmm => nearest(of, own, all),
        };
        let node = |dram: usize, nvmm: usize| match self.memory {
            EpochMemory::All => n(dram) + n(nvmm),
            EpochMemory::Nvmm => n(nvmm),
        };
        let wrong = nearest(n(MISSES), self.faults.speculation.into(), 1000);
        let needs_hits = self.variant.is_some_and(Variant::needs_stalls);
        Counts {
            stall_cycles: part(n(STALL)),
            llc_hits: if needs_hits { part(n(HITS)) } else { 0 },
            llc_misses: part(n(MISSES) + wrong),
            writebacks: node(DRAM_WRITES, NVMM_WRITES),
            all_misses: node(DRAM_READS, NVMM_READS),
            own_victims: Some(part(n(VICTIMS))),
            ..Counts::default()
        }
    }
}

/// `of * by / over`, to the nearest whole number.
fn nearest(of: u64, by: u64, over: u64) -> u64 {
    let (product, over) = (u128::from(of) * u128::from(by), u128::from(over));
    ((product + over / 2) / over) as u64
}

/// Turns that counters take where there are more of them than the processor has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Turns {
    /// The epoch's number.
    number: u64,
    /// What each group has counted in its last epoch, and how many cycles that had.
    last: Counters,
    cycles: [u64; 3],
}

impl Turns {
    /// What is known of an epoch of so many cycles in which so much has happened.
    pub fn seen(&mut self, events: &Events, happened: Counters, cycles: u64) -> Counters {
        let turns = u64::from(events.faults.turns);
        if turns == 1 {
            return happened;
        }
        let mut known = happened;
        for (group, range) in (0u64..).zip(GROUPS) {
            let cycles_then = &mut self.cycles[group as usize];
            if self.number % turns == group % turns {
                self.last.0[range.clone()].copy_from_slice(&happened.0[range]);
                *cycles_then = cycles;
                continue;
            }
            for k in range {
                known.0[k] = match *cycles_then {
                    0 => 0,
                    then => nearest(self.last.0[k], cycles, then),
                };
            }
        }
        self.number += 1;
        known
    }

    pub fn fits(&self) -> bool {
        const MOST: u64 = 1 << 62;
        self.number < MOST && self.last.0.iter().all(|c| *c < MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_config::{Library, Machine};

    fn events(set: &[&str]) -> Events {
        let set: Vec<String> = ["epoch.variant=koshiba"]
            .iter()
            .chain(set)
            .map(|s| s.to_string())
            .collect();
        Events::new(
            &Machine::load(&Library::default(), "vc707", &set)
                .unwrap()
                .config,
        )
    }

    fn counters(set: &[(usize, u64)]) -> Counters {
        let mut c = Counters::default();
        set.iter().for_each(|(k, n)| c.0[*k] = *n);
        c
    }

    #[test]
    fn nodes_are_told_apart_by_reads() {
        let c = counters(&[
            (STALL, 900),
            (MISSES, 30),
            (OWN_DRAM, 20),
            (OWN_NVMM, 10),
            (NVMM_READS, 11),
            (DRAM_READS, 40),
            (NVMM_WRITES, 5),
        ]);
        let counts = events(&[]).counts(&c);
        assert_eq!((counts.stall_cycles, counts.llc_misses), (300, 10));
        assert_eq!((counts.all_misses, counts.writebacks), (11, 5));
        let counts = events(&["epoch.memory=all"]).counts(&c);
        assert_eq!(
            (counts.stall_cycles, counts.llc_misses, counts.all_misses),
            (900, 30, 51)
        );
        // Without a line of either, nothing is the emulated node's.
        assert_eq!(events(&[]).counts(&counters(&[(STALL, 5)])).stall_cycles, 0);
    }

    #[test]
    fn wrong_paths_add_misses() {
        let c = counters(&[(MISSES, 1000), (OWN_NVMM, 1000)]);
        assert_eq!(
            events(&["epoch.faults.speculation=50"])
                .counts(&c)
                .llc_misses,
            1050
        );
    }

    #[test]
    fn counters_that_take_turns_stand_for_the_epochs_between() {
        let e = events(&["epoch.faults.turns=3"]);
        let mut t = Turns::default();
        let happened = |n: u64| counters(&[(STALL, n), (MISSES, n), (NVMM_READS, n)]);
        let seen = |t: &mut Turns, n: u64, cycles: u64| {
            let c = t.seen(&e, happened(n), cycles);
            [c.0[STALL], c.0[MISSES], c.0[NVMM_READS]]
        };
        assert_eq!(seen(&mut t, 10, 100), [10, 0, 0]);
        assert_eq!(seen(&mut t, 30, 200), [20, 30, 0]);
        assert_eq!(seen(&mut t, 50, 100), [10, 15, 50]);
        assert_eq!(seen(&mut t, 70, 100), [70, 15, 50]);
    }
}
