//! A power cut: what is lost with it, and what NVMM keeps.
//!
//! Caches hold tags only; data is in memory as soon as it is stored. So that a cut can take
//! back what was still in a cache, the machine keeps for each dirty line what memory behind
//! the caches holds: what the line held when it turned dirty. A write-back counts as
//! persistent from the instruction on that causes it: the controller has accepted it then.

use super::{Machine, MachineError};
use nagori_hart::world::Observer;
use nagori_ram::GuestRam;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Words of a line.
const WORDS: u64 = 8;
const LINE: u64 = 8 * WORDS;

/// What DRAM holds after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dram {
    /// Zeros.
    Zero,
    /// Pseudo-random words from this seed, so that software which relies on zeros shows.
    Random(u64),
}

/// What a power cut has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PowerCut {
    /// Dirty lines of NVMM whose stores are lost with the caches.
    pub lost_lines: u64,
    /// Bytes of DRAM.
    pub dram_bytes: u64,
}

/// What memory behind the caches holds where a cache has newer data, by physical line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Behind {
    lines: BTreeMap<u64, [u64; WORDS as usize]>,
}

impl Behind {
    fn read(ram: &GuestRam, offset: u64) -> [u64; WORDS as usize] {
        std::array::from_fn(|i| ram.read_u64(offset + 8 * i as u64).unwrap_or(0))
    }

    /// A line turns dirty, before anything is stored to it.
    pub fn dirtied(&mut self, ram: &GuestRam, ram_base: u64, line: u64) {
        let now = Self::read(ram, line.wrapping_sub(ram_base));
        self.lines.insert(line, now);
    }

    /// A line is written back.
    pub fn written(&mut self, line: u64) {
        self.lines.remove(&line);
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
    }

    /// All caches are written back or dropped with memory as it is.
    pub fn clear(&mut self) {
        self.lines.clear();
    }

    /// Whether all lines lie in memory.
    pub fn inside(&self, ram_base: u64, ram_bytes: u64) -> bool {
        let ok = |l: &u64| l.is_multiple_of(LINE) && l.wrapping_sub(ram_base) < ram_bytes;
        self.lines.keys().all(ok)
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

impl<O: Observer> Machine<O> {
    /// Power fails and comes back: registers, caches, TLBs, devices and DRAM lose what they
    /// hold, settings of the memory controller are the description's again; NVMM keeps what
    /// has reached the controller. Time and statistics go on. The caller loads again.
    ///
    /// In timed mode the description must have `memory.track_persistence`; without the
    /// timing model there are no caches, and every store has reached memory at once.
    pub fn power_cut(&mut self, dram: Dram) -> Result<PowerCut, MachineError> {
        if self.world.timed && self.world.behind.is_none() {
            return Err(MachineError::NotTracked);
        }
        self.world.apply_dma_writes();
        let w = &mut self.world;
        // NVMM is where the controller has it now; the guest may have moved the boundary.
        let boundary = w.memory.params().nvmm_base;
        let mut lost_lines = 0;
        if let Some(behind) = &mut w.behind {
            for (line, held) in std::mem::take(&mut behind.lines) {
                let offset = line - w.ram_base;
                if offset < boundary {
                    continue;
                }
                lost_lines += 1;
                for (i, v) in held.iter().enumerate() {
                    // Lines are in memory.
                    let _ = w.ram.write_u64(offset + 8 * i as u64, *v);
                }
            }
        }
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
        for h in &mut self.harts {
            h.forget_predictions();
        }
        self.reset();
        Ok(PowerCut {
            lost_lines,
            dram_bytes: boundary,
        })
    }
}
