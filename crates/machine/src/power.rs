//! Power cuts: what is lost, and what NVMM keeps.
//!
//! Caches hold tags only; data is in memory as soon as it is stored. So that a cut can undo stores
//! that were only in a cache, the machine keeps for each dirty line the content that memory behind
//! the caches has: that of the line when it became dirty. A write-back counts as persistent from
//! the instruction that causes it, when the controller has accepted it. If the persistence domain
//! does not include the controller, the previous content is kept until the write's column command,
//! with which it reaches the memory.

use super::world::Surroundings;
use super::{Machine, MachineError};
use nagori_platform::clock::Ps;
use nagori_platform::config::PersistenceDomain;
use nagori_ram::GuestRam;
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::BTreeMap;

/// Words of a line.
const WORDS: u64 = 8;
const LINE: u64 = 8 * WORDS;

/// Content of DRAM after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dram {
    /// Zeros.
    #[default]
    Zero,
    /// Pseudo-random words from this seed, which reveals software that relies on zeros.
    Random(u64),
}

/// A power cut and its losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerCut {
    /// Machine time in picoseconds.
    pub time_ps: u64,
    /// Instructions retired by all harts.
    pub instructions: u64,
    /// Dirty lines of NVMM whose stores are lost with the caches.
    pub lost_lines: u64,
    /// Writes of lines to NVMM that are lost in the memory controller.
    pub lost_writes: u64,
    /// Bytes of DRAM.
    pub dram_bytes: u64,
}

/// Number of power cuts that are recorded; a run may have any number.
const KEPT: usize = 1 << 14;
/// Number of outstanding writes above which the list is searched for finished ones: the controller
/// holds fewer.
const MOST_WRITES: usize = 64;

type Words = [u64; WORDS as usize];

/// A write-back on its way through the controller.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Write {
    /// As the controller numbers requests.
    number: u64,
    line: u64,
    /// The content of memory without it.
    before: Words,
}

/// The content of memory behind the caches where a cache has newer data, by physical line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Behind {
    lines: BTreeMap<u64, Words>,
    /// Writes that may be in the controller still, in order; none if it is in the persistence domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    writes: Vec<Write>,
    /// Older states of lines that outer cache levels still hold, by line and number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    older: BTreeMap<u64, Vec<(u64, Words)>>,
}

impl Behind {
    fn read(ram: &GuestRam, offset: u64) -> Words {
        std::array::from_fn(|i| ram.read_u64(offset + 8 * i as u64).unwrap_or(0))
    }

    /// A line turns dirty, before anything is stored to it. Whether that is new: an outer cache level
    /// may hold it modified already.
    pub fn dirtied(&mut self, ram: &GuestRam, ram_base: u64, line: u64) -> bool {
        let entry = self.lines.entry(line);
        let is_new = matches!(entry, Entry::Vacant(_));
        entry.or_insert_with(|| Self::read(ram, line.wrapping_sub(ram_base)));
        is_new
    }

    /// What a power cut would leave of a line; `None`: what is in memory.
    pub fn durable(&self, line: u64) -> Option<&Words> {
        // Of several writes of a line the first one lost says what memory holds.
        let lost = self.writes.iter().find(|w| w.line == line);
        lost.map(|w| &w.before).or_else(|| self.lines.get(&line))
    }

    /// Lines within a range of which a power cut would leave something else than what is in memory.
    pub fn changed(&self, addr: u64, len: u64) -> Vec<u64> {
        let last = addr.saturating_add(len.max(1) - 1);
        let range = addr & !(LINE - 1)..=last;
        let lost = self.writes.iter().map(|w| w.line);
        let mut all: Vec<u64> = { self.lines.range(range.clone()).map(|l| *l.0) }
            .chain(lost.filter(|l| range.contains(l)))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The present content of a line becomes an older state with a number. Earlier states of the
    /// line are kept if some cache still has them.
    pub fn aged(
        &mut self,
        ram: &GuestRam,
        ram_base: u64,
        (line, name): (u64, u64),
        is_kept: impl Fn(u64) -> bool,
    ) {
        let all = self.older.entry(line).or_default();
        all.retain(|o| is_kept(o.0));
        all.push((name, Self::read(ram, line.wrapping_sub(ram_base))));
    }

    /// A line is written back, in its newest state or in an older one. `number` is that of the
    /// controller's request, if the write may be lost there.
    pub fn written(&mut self, line: u64, older: Option<u64>, number: Option<u64>) {
        let before = match older {
            None => {
                self.older.remove(&line);
                self.lines.remove(&line)
            }
            Some(name) => {
                let all = self.older.get(&line);
                let state = all.and_then(|all| all.iter().find(|o| o.0 == name));
                // Each older state was recorded before.
                state.and_then(|s| self.lines.insert(line, s.1))
            }
        };
        if let (Some(number), Some(before)) = (number, before) {
            self.writes.push(Write {
                number,
                line,
                before,
            });
        }
    }

    /// Whether it is time to ask the controller which writes it has done.
    pub fn is_long(&self) -> bool {
        self.writes.len() > MOST_WRITES
    }

    /// Only these writes, in ascending order, are in the controller still. Returns the lines of the others.
    pub fn keep(&mut self, unfinished: &[u64]) -> Vec<u64> {
        let mut done = Vec::new();
        self.writes.retain(|w| {
            let stays = unfinished.binary_search(&w.number).is_ok();
            if !stays {
                done.push(w.line);
            }
            stays
        });
        done.sort_unstable();
        done.dedup();
        done
    }

    /// A device or the host writes memory itself, through to memory behind the caches.
    pub fn wrote(&mut self, ram: &GuestRam, ram_base: u64, addr: u64, len: u64) {
        if len == 0 {
            return;
        }
        let last = addr.saturating_add(len - 1);
        for (line, held) in self.lines.range_mut(addr & !(LINE - 1)..=last) {
            *held = Self::read(ram, line.wrapping_sub(ram_base));
        }
        for (line, all) in self.older.range_mut(addr & !(LINE - 1)..=last) {
            let now = Self::read(ram, line.wrapping_sub(ram_base));
            all.iter_mut().for_each(|o| o.1 = now);
        }
        let touched = |w: &&mut Write| (addr & !(LINE - 1)..=last).contains(&w.line);
        for w in self.writes.iter_mut().filter(touched) {
            w.before = Self::read(ram, w.line.wrapping_sub(ram_base));
        }
    }

    /// All caches are written back or dropped with memory as it is.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.writes.clear();
        self.older.clear();
    }

    /// Whether an older state of a line is kept.
    pub fn has_older(&self, line: u64, name: u64) -> bool {
        let all = self.older.get(&line);
        all.is_some_and(|all| all.iter().any(|o| o.0 == name))
    }

    /// Whether all lines lie in memory.
    pub fn inside(&self, ram_base: u64, ram_bytes: u64) -> bool {
        let ok = |l: &u64| l.is_multiple_of(LINE) && l.wrapping_sub(ram_base) < ram_bytes;
        let keys = self.lines.keys().chain(self.older.keys());
        { keys }.all(ok) && self.writes.iter().all(|w| ok(&w.line))
    }
}

/// The next of a sequence of pseudo-random words (SplitMix64).
fn word(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Machine {
    /// Power fails and comes back: registers, caches, TLBs, devices and DRAM lose what they
    /// hold, settings of the memory controller are the description's again; NVMM keeps what
    /// has reached the controller. Time and statistics go on. The caller loads again.
    ///
    /// In timed mode the description must have `memory.track_persistence`, unless caches are in
    /// the persistence domain; without the timing model there are no caches, and every store has
    /// reached memory at once.
    pub fn power_cut(&mut self, dram: Dram) -> Result<PowerCut, MachineError> {
        let domain = self.config.memory.persistence_domain;
        let kept = domain == PersistenceDomain::Eadr || !self.world.timed;
        if !kept && self.world.behind.is_none() {
            return Err(MachineError::NotTracked);
        }
        self.world.apply_dma_writes();
        self.settle_stores();
        self.world.coherence.lose_stored();
        let (now, instructions) = (self.now(), self.instructions());
        let w = &mut *self.world;
        // NVMM is where the controller has it now; the guest may have moved the boundary.
        let boundary = w.memory.board.params().nvmm_base;
        let (mut lost_lines, mut lost_writes) = (0, 0);
        if !kept {
            w.look_at_writes(now)?;
            let ram_base = w.ram_base;
            let put = |line: u64, held: &Words, lost: &mut u64| {
                let offset = line - ram_base;
                if offset < boundary {
                    return;
                }
                *lost += 1;
                for (i, v) in held.iter().enumerate() {
                    // Lines are in memory.
                    let _ = w.ram.write_u64(offset + 8 * i as u64, *v);
                }
            };
            let behind = w.behind.as_mut().map(std::mem::take).unwrap_or_default();
            // With stored energy, the first lines of NVMM are written back.
            let energy = match domain {
                PersistenceDomain::Gpf => self.config.memory.gpf_lines,
                _ => 0,
            };
            let in_nvmm = { behind.lines.iter() }.filter(|(l, _)| **l - ram_base >= boundary);
            for (line, held) in in_nvmm.skip(usize::try_from(energy).unwrap_or(usize::MAX)) {
                put(*line, held, &mut lost_lines);
            }
            // Of several writes of a line the first one lost says what memory holds.
            for write in behind.writes.iter().rev() {
                put(write.line, &write.before, &mut lost_writes);
            }
        }
        w.all_durable();
        match dram {
            Dram::Zero => w.ram.discard(0, boundary)?,
            Dram::Random(seed) => {
                let mut state = seed;
                for at in (0..boundary).step_by(8) {
                    let _ = w.ram.write_u64(at, word(&mut state));
                }
            }
        }
        let params = self.config.controller_params();
        self.change_memory(|p| *p = params)?;
        let at = now;
        self.world.memory.restore_parameters(at, &self.config)?;
        for h in &mut self.harts {
            h.forget_predictions();
        }
        self.reset();
        let cut = PowerCut {
            time_ps: now.0,
            instructions,
            lost_lines,
            lost_writes,
            dram_bytes: boundary,
        };
        if self.power_cuts.len() < KEPT {
            self.power_cuts.push(cut);
        }
        Ok(cut)
    }

    /// Reports to a receiver of events that asks for it what has reached memory by now.
    pub fn report_reached(&mut self) {
        let now = self.now();
        self.world.report_reached(now);
    }

    /// The power cuts so far, in order, at most 16384.
    pub fn power_cuts(&self) -> &[PowerCut] {
        &self.power_cuts
    }
}

impl Surroundings {
    /// Forgets writes that the controller has done by now.
    pub(super) fn look_at_writes(&mut self, now: Ps) -> Result<(), MachineError> {
        if let Some(b) = &mut self.behind {
            if !b.writes.is_empty() {
                let done = b.keep(&self.memory.unfinished_writes(now)?);
                self.note_durable(&done);
                if let Some(reached) = &mut self.reached {
                    reached.extend(done);
                }
            }
        }
        Ok(())
    }
}
