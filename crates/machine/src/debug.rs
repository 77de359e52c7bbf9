//! Support for debuggers: breakpoints, watchpoints, steps, memory as programs see it.
//!
//! While there is anything to stop at, the interpreter runs all code and checks before each
//! instruction ([`Debug`]); otherwise the machine runs as without a debugger. A hart that stops
//! within a block resumes within it, and the scheduler resumes the hart's turn, so stops cost the
//! guest no time.

use super::point::Awaited;
use super::Machine;
use nagori_hart::debug::lookup;
use nagori_hart::world::{AccessKind, Commit, MemAccess};
use nagori_hart::{Hart, Privilege};
use nagori_ram::GuestRam;
use std::ops::Range;

/// Greatest number of places to stop at.
pub const MAX_POINTS: usize = 4096;

/// What a watchpoint watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchKind {
    /// Loads; those of `lr` and of atomics, too.
    Read,
    /// Stores, atomics, `sc` if it stores, and `cbo.zero`.
    Write,
    /// Both loads and stores.
    Access,
}

/// A range of virtual addresses that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// What for.
    pub kind: WatchKind,
}

impl Watch {
    fn sees(&self, access: &MemAccess) -> bool {
        let kind = match access.kind {
            AccessKind::Read => self.kind != WatchKind::Write,
            AccessKind::Write => self.kind != WatchKind::Read,
            AccessKind::Clean | AccessKind::Flush | AccessKind::FlushAll => false,
        };
        // Distances, so that ranges at the end of the address space work.
        let after = access.vaddr.wrapping_sub(self.addr) < self.len;
        let before = self.addr.wrapping_sub(access.vaddr) < access.size as u64;
        kind && (after || before)
    }
}

/// Why a machine has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Before an instruction with a breakpoint.
    Breakpoint,
    /// After an instruction that accessed a watched range.
    Watch {
        /// Address of the access.
        addr: u64,
        /// Which watchpoint.
        watch: Watch,
    },
    /// A step is done.
    Step,
}

/// Where and why a machine has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DebugStop {
    /// The hart.
    pub hart: usize,
    /// Its next instruction.
    pub pc: u64,
    /// Why.
    pub why: Why,
}

/// What a hart is to do.
#[derive(Debug, Clone, Default)]
struct Orders {
    /// To stop after one instruction, and as many more as lie in a range.
    step: Option<Range<u64>>,
    /// An instruction has been let pass since the machine went on.
    begun: bool,
    /// The instruction before which the hart has stopped: the next one at that address passes.
    standing: Option<u64>,
    /// The last one that was let pass.
    passed: Option<u64>,
    /// An access that was watched.
    touched: Option<(u64, Watch)>,
}

/// Places to stop at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Debug {
    breakpoints: Vec<u64>,
    /// A bit for each of 64 classes of addresses with a breakpoint.
    classes: u64,
    watches: Vec<Watch>,
    harts: Vec<Orders>,
    stop: Option<DebugStop>,
    /// Instructions that may pass before harts stop for another reason: see `machine::point`.
    passes: Option<u64>,
    /// What programs do before harts stop, as for `passes`.
    awaited: Option<Awaited>,
}

fn class(pc: u64) -> u64 {
    1 << (pc >> 1 & 63)
}

impl Debug {
    /// Whether anything can stop a hart.
    pub(super) fn active(&self) -> bool {
        !self.breakpoints.is_empty()
            || !self.watches.is_empty()
            || self.passes.is_some()
            || self.awaited.is_some()
            || self
                .harts
                .iter()
                .any(|h| h.step.is_some() || h.touched.is_some())
    }

    fn stop(&mut self, hart: usize, pc: u64, why: Why) -> bool {
        self.harts[hart].standing = Some(pc);
        self.stop = Some(DebugStop { hart, pc, why });
        true
    }

    /// An instruction has been executed.
    pub(super) fn committed(&mut self, c: &Commit) {
        if let Some(awaited) = &mut self.awaited {
            awaited.committed(c);
        }
        for a in c.accesses() {
            let hit = self.watches.iter().find(|w| w.sees(&a));
            if let Some(watch) = hit {
                self.harts[c.hart].touched = Some((a.vaddr, *watch));
            }
        }
    }

    /// Whether a hart is to stop before the instruction at `pc`, when so many lines of NVMM were written.
    pub(super) fn stops(&mut self, hart: usize, pc: u64, written: u64) -> bool {
        if self.awaited.is_some_and(|a| a.is_over(written)) {
            self.passes = Some(0);
        }
        // This instruction will be checked again, and then the debugger's conditions apply.
        if self.passes == Some(0) {
            return true;
        }
        let stops = self.asked(hart, pc);
        if let Some(left) = self.passes.as_mut().filter(|_| !stops) {
            *left -= 1;
        }
        stops
    }

    /// An instruction for which `stops` returned false was abandoned.
    pub(super) fn tried_again(&mut self, hart: usize, pc: u64) {
        let h = &mut self.harts[hart];
        // A block whose line has to be fetched is given up before its first instruction was asked
        // about.
        if h.passed == Some(pc) {
            h.standing = Some(pc);
        }
    }

    fn asked(&mut self, hart: usize, pc: u64) -> bool {
        let h = &mut self.harts[hart];
        if let Some((addr, watch)) = h.touched.take() {
            return self.stop(hart, pc, Why::Watch { addr, watch });
        }
        if h.standing.take() == Some(pc) {
            h.begun = true;
            h.passed = Some(pc);
            return false;
        }
        match &h.step {
            Some(range) if h.begun && !range.contains(&pc) => {
                return self.stop(hart, pc, Why::Step)
            }
            _ => {}
        }
        if self.classes & class(pc) != 0 && self.breakpoints.binary_search(&pc).is_ok() {
            return self.stop(hart, pc, Why::Breakpoint);
        }
        let h = &mut self.harts[hart];
        h.begun = true;
        h.passed = Some(pc);
        false
    }
}

impl Machine {
    /// Whether the debugger's interpreter has to run the harts.
    #[inline(always)]
    pub(super) fn debugged(&self) -> bool {
        self.debug.as_ref().is_some_and(|d| d.active())
    }

    fn debug_mut(&mut self) -> &mut Debug {
        let n = self.harts.len();
        self.debug.get_or_insert_with(|| {
            Box::new(Debug {
                harts: vec![Orders::default(); n],
                ..Debug::default()
            })
        })
    }

    /// Has every hart stop in front of a virtual address. Whether there was room.
    pub fn add_breakpoint(&mut self, pc: u64) -> bool {
        let d = self.debug_mut();
        let Err(i) = d.breakpoints.binary_search(&pc) else {
            return true;
        };
        if d.breakpoints.len() >= MAX_POINTS {
            return false;
        }
        d.breakpoints.insert(i, pc);
        d.classes |= class(pc);
        true
    }

    /// Takes a breakpoint away. Whether there was one.
    pub fn remove_breakpoint(&mut self, pc: u64) -> bool {
        let d = self.debug_mut();
        let Ok(i) = d.breakpoints.binary_search(&pc) else {
            return false;
        };
        d.breakpoints.remove(i);
        d.classes = d.breakpoints.iter().fold(0, |c, &pc| c | class(pc));
        true
    }

    /// Makes every hart stop after instructions that access a range. Returns whether there was
    /// room.
    pub fn add_watch(&mut self, watch: Watch) -> bool {
        let d = self.debug_mut();
        let room = d.watches.len() < MAX_POINTS;
        if room {
            d.watches.push(watch);
        }
        room
    }

    /// Takes a watchpoint away. Whether there was one.
    pub fn remove_watch(&mut self, watch: Watch) -> bool {
        let d = self.debug_mut();
        let found = d.watches.iter().position(|w| *w == watch);
        found.map(|i| d.watches.remove(i)).is_some()
    }

    /// Has a hart stop after its next instruction, and as many more as lie in a range.
    pub fn step_hart(&mut self, hart: usize, range: Range<u64>) {
        if let Some(h) = self.debug_mut().harts.get_mut(hart) {
            (h.step, h.begun) = (Some(range), false);
        }
    }

    /// Ends all single steps, and clears the reason for the last stop.
    pub fn clear_steps(&mut self) {
        if let Some(d) = &mut self.debug {
            d.stop = None;
            for h in &mut d.harts {
                (h.step, h.begun) = (None, false);
            }
        }
    }

    /// Forgets all places to stop at.
    pub fn clear_debug(&mut self) {
        let kept = self.debug.take().map(|d| (d.passes, d.awaited));
        let (passes, awaited) = kept.unwrap_or_default();
        self.set_passes(passes);
        self.set_awaited(awaited);
    }

    /// Makes the harts stop after a number of instructions in total; `None` removes the limit.
    pub(super) fn set_passes(&mut self, passes: Option<u64>) {
        if passes.is_some() {
            self.debug_mut().passes = passes;
        } else if let Some(d) = &mut self.debug {
            d.passes = None;
        }
    }

    /// Makes the harts stop when programs have done something so often; `None` removes that.
    pub(super) fn set_awaited(&mut self, awaited: Option<Awaited>) {
        if awaited.is_some() {
            self.debug_mut().awaited = awaited;
        } else if let Some(d) = &mut self.debug {
            d.awaited = None;
        }
    }

    /// Whether harts have stopped after the instructions that might pass.
    pub(super) fn passes_used_up(&self) -> bool {
        self.debug.as_ref().is_some_and(|d| d.passes == Some(0))
    }

    /// The reason for the stop, if the machine was stopped for a debugger.
    pub fn debug_stop(&self) -> Option<DebugStop> {
        self.debug.as_ref()?.stop
    }

    /// Whether a hart has stopped in the middle of a block. Changing the machine then, other than
    /// by resuming it, may change the guest's time.
    pub fn within_block(&self) -> bool {
        self.held.is_some()
    }

    /// Gives up a hart's place within a block: see [`Hart::leave_stop`].
    pub(super) fn settle(&mut self) {
        if let Some(t) = self.held.take() {
            self.harts[t.hart].leave_stop(&self.code[t.hart]);
        }
    }

    /// A hart's control and status register by number.
    pub fn csr(&mut self, hart: usize, number: u16) -> Option<u64> {
        self.harts.get_mut(hart)?.csr(&mut *self.world, number)
    }

    /// Writes a control and status register; whether that is possible.
    pub fn set_csr(&mut self, hart: usize, number: u16, value: u64) -> bool {
        self.settle();
        let h = self.harts.get_mut(hart);
        h.is_some_and(|h| h.put_csr(&mut *self.world, number, value))
    }

    /// Makes a hart continue at another address.
    pub fn set_pc(&mut self, hart: usize, pc: u64) {
        if self.harts.get(hart).is_some_and(|h| h.state.pc != pc) {
            self.settle();
            self.harts[hart].state.pc = pc;
        }
    }

    /// Changes a hart's privilege.
    pub fn set_privilege(&mut self, hart: usize, p: Privilege) {
        if self.harts.get(hart).is_some_and(|h| h.state.privilege != p) {
            self.settle();
            self.harts[hart].put_privilege(p);
        }
    }

    /// Physical address of a virtual one as a hart sees it now.
    pub fn physical(&self, hart: &Hart, va: u64) -> Option<u64> {
        let w = &self.world;
        lookup(&w.ram, w.ram_base, hart.effective_satp(), va).map(|m| m.physical)
    }

    /// Splits a range of addresses at pages; calls `f` with the offset of each piece in guest memory
    /// and its place in the range, until one is in no memory. How many bytes there were.
    fn pieces(
        &self,
        addr: u64,
        len: usize,
        hart: Option<usize>,
        mut f: impl FnMut(&GuestRam, u64, Range<usize>) -> bool,
    ) -> usize {
        const PAGE: u64 = 4096;
        let mut done = 0;
        while done < len {
            let va = addr.wrapping_add(done as u64);
            let piece = ((PAGE - va % PAGE) as usize).min(len - done);
            let pa = match hart.and_then(|i| self.harts.get(i)) {
                Some(h) => self.physical(h, va),
                None => Some(va),
            };
            let offset = pa.and_then(|pa| pa.checked_sub(self.world.ram_base));
            let ok = offset.is_some_and(|o| f(&self.world.ram, o, done..done + piece));
            if !ok {
                break;
            }
            done += piece;
        }
        done
    }

    /// Reads memory as a hart sees it, or by physical addresses, without any effect on the guest. What the hart has
    /// stored and nobody else sees yet is there, and for physical addresses what any hart has stored.
    /// How many bytes of the beginning could be read; devices cannot.
    pub fn peek(&self, hart: Option<usize>, addr: u64, to: &mut [u8]) -> usize {
        self.pieces(addr, to.len(), hart, |ram, offset, at| {
            let read = ram.read_bytes(offset, &mut to[at.clone()]).is_ok();
            let caches = &self.world.coherence;
            caches.overlay(hart, self.world.ram_base + offset, &mut to[at]);
            read
        })
    }

    /// Writes memory as a hart sees it, or by physical addresses, whatever the permissions. How many
    /// bytes of the beginning could be written.
    pub fn poke(&mut self, hart: Option<usize>, addr: u64, from: &[u8]) -> usize {
        self.settle();
        let mut written = Vec::new();
        let done = self.pieces(addr, from.len(), hart, |ram, offset, at| {
            written.push((offset, at.len() as u64));
            ram.write_bytes(offset, &from[at]).is_ok()
        });
        for (offset, len) in written {
            self.memory_written(self.world.ram_base + offset, len);
        }
        done
    }
}
