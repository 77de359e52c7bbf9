//! What misses are waited for: measured on the machine itself, by a chase over lines in random order, as the authors of
//! the methods calibrate theirs.
//!
//! A wait is what the stall counter counts for a miss, so that the time of a hit is in none of them.

use super::{Counters, EpochError, Events};
use crate::{Engine, Machine, MachineError, Stop};
use nagori_config::Time;
use nagori_epoch::Weight;
use nagori_memtime::Ps;
use std::borrow::Cow;

/// Bytes of a line.
const LINE: u64 = 64;
/// Lines that are measured: enough for all banks and many rows.
const MEASURED: u64 = 1 << 14;
/// Offset of the code in memory, and of the lines in the memory that they are in.
const CODE: u64 = 0x1000;
const LINES: u64 = 0x10_0000;

/// `ld a0, 0(a0)`, and back.
const CHASE: &[u32] = &[0x0005_3503, 0xffdf_f06f];
/// `ld a2, 0(a0)`, `sd a1, 8(a0)`, `mv a0, a2`, and back.
const WRITES: &[u32] = &[0x0005_3603, 0x00b5_3423, 0x0006_0513, 0xff5f_f06f];
/// `wfi`, and again, for the other harts.
const SLEEP: &[u32] = &[0x1050_0073, 0xffdf_f06f];

/// A description with all values of its epochs, if it has epochs.
pub(crate) fn completed(
    described: &nagori_config::Machine,
) -> Result<Cow<'_, nagori_config::Machine>, MachineError> {
    if described.config.epoch.variant.is_none() {
        return Ok(Cow::Borrowed(described));
    }
    let mut all = described.clone();
    let e = &mut all.config.epoch;
    let slow = Bench::new(described, false);
    let fast = Bench::new(described, true);
    let time = |ps: u64| Time(Ps(ps.max(1)));
    if e.read.is_none() {
        e.read = Some(time(slow.misses(true, CHASE)?));
    }
    if e.write.is_none() {
        e.write = Some(time(slow.misses(true, WRITES)?));
    }
    if e.dram.is_none() {
        e.dram = Some(time(fast.misses(false, CHASE)?));
    }
    if let (None, Some(dram)) = (e.weight, e.dram) {
        e.weight = Some(match fast.hits()? {
            0 => Weight::ONE,
            hit => Weight::ratio(dram.0, Ps(hit)).unwrap_or(Weight::ONE),
        });
    }
    Ok(Cow::Owned(all))
}

/// A machine on which loops are measured.
struct Bench {
    description: nagori_config::Machine,
    /// Lines of all caches that a hart's lines are in, and of all but the last.
    cached: u64,
    inner: u64,
}

impl Bench {
    fn new(described: &nagori_config::Machine, as_dram: bool) -> Bench {
        let mut description = described.clone();
        let c = &mut description.config;
        *c = if as_dram {
            c.with_nvmm_as_dram()
        } else {
            nagori_config::MachineConfig {
                method: c.epoch.of,
                ..c.clone()
            }
        };
        c.epoch.variant = None;
        let outer: Vec<u64> = c.levels().iter().map(|(_, l)| l.size.0 / LINE).collect();
        let l1d = c.l1d.size.0 / LINE;
        Bench {
            cached: l1d + outer.iter().sum::<u64>(),
            inner: l1d + outer.iter().rev().skip(1).sum::<u64>(),
            description,
        }
    }

    /// What a miss is waited for, in picoseconds, in a loop over lines of NVMM or DRAM, once caches are full.
    fn misses(&self, nvmm: bool, work: &[u32]) -> Result<u64, MachineError> {
        let lines = 2 * (self.cached + MEASURED);
        let warm = if work == WRITES { 2 * self.cached } else { 256 };
        let (stalled, of) = self.run(nvmm, work, lines, (warm, MEASURED))?;
        Ok(stalled / of.misses().max(1))
    }

    /// What a hit in the last-level cache is waited for; 0 if there is none.
    fn hits(&self) -> Result<u64, MachineError> {
        let levels = self.description.config.levels();
        let Some((_, last)) = levels.last() else {
            return Ok(0);
        };
        // More than the inner caches hold, and less than all of them.
        let lines = (2 * self.inner).min(last.size.0 / LINE / 2).max(64);
        let (stalled, of) = self.run(false, CHASE, lines, (2 * lines, lines))?;
        Ok(stalled / of.hits().max(1))
    }

    /// Runs a loop over so many lines, of which the first ones warm caches. Picoseconds that the hart has waited for
    /// the others, and what its counters have counted.
    fn run(
        &self,
        nvmm: bool,
        work: &[u32],
        lines: u64,
        (warm, measured): (u64, u64),
    ) -> Result<(u64, Counters), MachineError> {
        let m = &self.description.config.memory;
        let (from, size) = if nvmm {
            (m.nvmm_boundary.0, m.size.0 - m.nvmm_boundary.0)
        } else {
            (0, m.nvmm_boundary.0)
        };
        if size < LINES + lines * LINE {
            let needs = (LINES + lines * LINE) >> 20;
            return Err(EpochError::Memory { nvmm, needs }.into());
        }
        let mut machine = Machine::new(&self.description)?;
        machine.set_engine(Engine::best())?;
        let (ram, base) = (machine.ram().clone(), machine.config().memory.base);
        let code = SLEEP.iter().chain(work);
        let code: Vec<u8> = code.flat_map(|w| w.to_le_bytes()).collect();
        ram.write_bytes(CODE, &code)?;
        let first = from + LINES;
        for (line, next) in chain(lines) {
            let address = base + first + next * LINE;
            ram.write_bytes(first + line * LINE, &address.to_le_bytes())?;
        }
        machine.start_at(base + CODE, 0, 0);
        if let Some(h) = machine.hart_mut(0) {
            h.state.pc = base + CODE + 4 * SLEEP.len() as u64;
            h.set_reg(10, base + first);
        }
        let step = work.len() as u64;
        go(&mut machine, warm * step)?;
        let events = Events::new(&self.description.config);
        let show = |m: &Machine| events.of(&m.harts[0], &m.world.coherence);
        let before = show(&machine);
        go(&mut machine, measured * step)?;
        let counted = show(&machine).since(&before);
        let period = machine.config().core_period();
        Ok((period.edge(counted.stalled()).0, counted))
    }
}

/// Runs so many instructions.
fn go(m: &mut Machine, steps: u64) -> Result<(), MachineError> {
    let until = m.steps() + steps;
    loop {
        match m.run(u64::MAX, Some(until)) {
            Stop::Instructions => return Ok(()),
            Stop::Slice => {}
            other => return Err(EpochError::Loop(other).into()),
        }
    }
}

/// Lines in random order, each with the next one: a permutation that is one cycle.
fn chain(lines: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut order: Vec<u64> = (0..lines).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for i in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(i, (state % i as u64) as usize);
    }
    (0..).zip(order)
}
