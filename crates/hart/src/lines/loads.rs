//! What a hart does about loads for whose lines it does not wait.

use crate::halfway::Awaited;
use crate::hart::Hart;
use crate::issue::{registers, waits_for_loads};
use crate::loads::{Asked, Coming, Loads, Wait};
use crate::place::RunPoint;
use crate::preop::PreOp;
use crate::trap::NotNow;
use crate::world::World;
use nagori_cache::LineKind;
use nagori_isa::Op;

impl Hart {
    /// Whether loads that miss go on.
    #[inline(always)]
    pub(crate) fn has_buffers(&self) -> bool {
        self.config.timing.lfb != 0
    }

    /// A load has asked for a line.
    pub(crate) fn asked(&mut self, a: Asked, at: RunPoint) {
        self.loads.lines.push(Coming {
            line: a.line,
            token: a.token,
            pc: at.pc,
            asked: self.state.cycle + at.offset(),
            from: a.from,
            penalty: a.penalty,
            comes: a.comes,
        });
    }

    /// Forgets lines that have come, while no other hart is behind.
    pub(crate) fn forget_loads<W: World>(&mut self, w: &mut W, at: RunPoint) {
        if !self.loads.lines.is_empty() {
            let cycles = self.loads.forget_lines(self.state.cycle + at.offset());
            w.coherence().loads_passed(cycles);
            self.state.stats.load_stall_cycles += cycles;
        }
    }

    /// A line is in L1D, or its place: if it has not come yet, a load goes on with it, and whatever else
    /// wants it waits.
    #[inline(always)]
    pub(crate) fn meet_line<W: World>(
        &mut self,
        w: &mut W,
        (line, kind): (u64, LineKind),
        at: RunPoint,
    ) -> Result<(), NotNow> {
        if self.loads.is_coming(line, self.state.cycle + at.offset()) {
            self.meet_coming(w, (line, kind), at)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn meet_coming<W: World>(
        &mut self,
        w: &mut W,
        (line, kind): (u64, LineKind),
        at: RunPoint,
    ) -> Result<(), NotNow> {
        let now = self.state.cycle + at.offset();
        let Some(l) = self.loads.find(line, now).copied() else {
            return Ok(());
        };
        if l.comes.is_none() {
            // Whether it has come by now is known only while no other hart and no answer is behind.
            self.bus_free(at)?;
        }
        // Not the walk for the load.
        if self.loads.may && kind == LineKind::Load {
            w.coherence().load_merged();
            self.loads.note_late(line, now);
            return Ok(());
        }
        match l.comes {
            Some(comes) => {
                self.stall(w, comes, (line, l.pc), at);
                Ok(())
            }
            None => self.block_for(line, l.token),
        }
    }

    /// The load that is being executed has its line, or goes on without: see [`Hart::bind`].
    pub(crate) fn note_late(&mut self, line: u64, at: RunPoint) {
        self.loads.note_late(line, self.state.cycle + at.offset());
    }

    /// Time moves on to a cycle, for a line that a load asked for.
    fn stall<W: World>(&mut self, w: &mut W, until: u64, (line, pc): (u64, u64), at: RunPoint) {
        let start = self.state.cycle;
        self.state.cycle = until.saturating_sub(at.offset()).max(start);
        self.state.stats.memory_stall_cycles += self.state.cycle - start;
        if w.attributes() && self.state.cycle > start {
            let by = at.as_of(pc);
            let req = self.line_request(by, 0, line, LineKind::Load);
            self.attribute(w, &req, start, false);
        }
    }

    /// Blocks the hart until a request is answered.
    #[cold]
    fn block_for<T>(&mut self, line: u64, token: Option<u64>) -> Result<T, NotNow> {
        self.loads.blocked = token;
        self.state.halfway.awaited = Some(Awaited::load(line));
        Err(NotNow)
    }

    /// A load has been executed: if its line is on its way, so is its register.
    #[inline(always)]
    pub(crate) fn bind(&mut self, p: &PreOp) {
        if self.loads.late.is_some() {
            self.bind_late(p);
        }
    }

    #[cold]
    fn bind_late(&mut self, p: &PreOp) {
        use Op::{Fld, Flw, Lb, Lbu, Lh, Lhu};
        let Some(late) = self.loads.late.take() else {
            return;
        };
        let t = &self.config.timing;
        let (reg, latency) = match p.op {
            Fld | Flw => (32 + (p.rd & 31), t.fp_load_latency),
            Lb | Lbu | Lh | Lhu => (p.rd & 31, t.load_sub_word_latency),
            _ => (p.rd & 31, t.load_latency),
        };
        if reg == 0 {
            return;
        }
        self.loads.regs |= 1 << reg;
        self.loads.waits.push(Wait {
            reg,
            latency,
            issued: self.state.cycle + u64::from(p.cost),
            line: late.line,
            pc: late.pc,
            token: late.token,
            comes: late.comes,
        });
    }

    /// Waits for what the next instruction needs of registers that are on their way.
    #[cold]
    pub(crate) fn await_loads<W: World>(
        &mut self,
        w: &mut W,
        p: &PreOp,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        let need = if waits_for_loads(p) {
            u64::MAX
        } else {
            registers(p)
        };
        if need & self.loads.regs == 0 {
            return Ok(());
        }
        let now = self.state.cycle + at.offset();
        let (mut until, mut by) = (now, None);
        for wait in self.loads.waits.iter().filter(|w| need >> w.reg & 1 != 0) {
            match wait.ready() {
                None => {
                    let (line, token) = (wait.line, wait.token);
                    return self.block_for(line, token);
                }
                Some(ready) if ready > until => (until, by) = (ready, Some((wait.line, wait.pc))),
                Some(_) => {}
            }
        }
        if let Some(place) = by {
            self.stall(w, until, place, at);
        }
        self.loads.forget_registers(until);
        Ok(())
    }

    /// Memory has answered the request of a load, by its token; the line's first beat arrives at a
    /// core cycle. A hart that is blocked for it goes on. Returns the line, if the hart knows the request.
    pub fn load_came<W: World>(&mut self, w: &mut W, token: u64, first: u64) -> Option<u64> {
        let (line, comes) = self.loads.answered(token, first)?;
        if self.loads.blocked == Some(token) {
            self.loads.blocked = None;
            self.arrive(w, comes);
        }
        Some(line)
    }

    /// Registers that wait for lines, a bit each: 1 to 31 integer, 32 to 63 floating point. Those that
    /// can be used at the hart's cycle are left out.
    pub fn late_registers(&mut self) -> u64 {
        if self.loads.regs != 0 {
            self.loads.forget_registers(self.state.cycle);
        }
        self.loads.regs
    }

    /// Waits for what an instruction of the block at `pc` needs of registers that are on their way.
    pub fn await_op<W: World>(&mut self, w: &mut W, p: &PreOp, pc: u64) -> Result<(), NotNow> {
        let at = RunPoint::of(p, pc);
        match self.loads.regs {
            0 => Ok(()),
            _ => self.await_loads(w, p, at),
        }
    }

    /// The number of the request for whose answer the hart is blocked, if it is one of a load that it has gone on from.
    pub fn awaits_load(&self) -> Option<u64> {
        self.loads.blocked
    }

    /// Numbers of the requests that the hart's loads wait for.
    pub fn open_loads(&self) -> impl Iterator<Item = u64> + '_ {
        let lines = self.loads.lines.iter();
        let lines = lines.filter(|l| l.comes.is_none()).filter_map(|l| l.token);
        let waits = self.loads.waits.iter();
        let waits = waits.filter(|w| w.comes.is_none()).filter_map(|w| w.token);
        lines.chain(waits)
    }

    /// Forgets everything that is on its way; what the answers of memory are for is forgotten, too.
    pub(crate) fn give_up_loads(&mut self) {
        self.loads = Loads::default();
    }
}
