//! Power cuts: what is lost, and what NVMM keeps.
//!
//! Caches hold tags only; data is in memory as soon as it is stored. So that a cut can undo stores
//! that were only in a cache, the machine keeps for each dirty line the content that memory behind
//! the caches has: that of the line when it became dirty. A write-back counts as persistent from
//! the instruction that causes it, when the controller has accepted it. If the persistence domain
//! does not include the controller, the previous content is kept until the write's column command,
//! with which it reaches the memory.

use super::behind::Words;
use super::world::Surroundings;
use super::{Machine, MachineError};
use nagori_config::PersistenceDomain;
use nagori_platform::clock::Ps;
use serde::{Deserialize, Serialize};

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
