//! Loads for whose lines the hart does not wait: registers whose values are on their way.
//!
//! On a core with line fill buffers ([`CoreTiming::lfb`](crate::config::CoreTiming::lfb)) a load that
//! misses L1D takes a buffer and the hart goes on, until an instruction reads or writes the register
//! (stall on use). The value is read when the load is performed, which is when the line is asked for; so
//! loads are performed in program order, and only their use waits for time to pass. The line's place in
//! L1D is taken at that moment, too; until the line has come, no filter covers it, loads from it wait
//! for the same arrival, and everything else that touches it waits.
//!
//! The cycle of the arrival is known at once if an outer level has the line, otherwise when memory has
//! answered. A hart that needs it before is blocked ([`Hart::is_blocked`]).

use crate::hart::Hart;
use crate::issue::{registers, waits_for_loads};
use crate::lines::Awaited;
use crate::mode::{Detailed, Mode};
use crate::preop::PreOp;
use crate::run::RunPoint;
use crate::trap::NotNow;
use crate::world::{LineKind, World};
use nagori_isa::Op;
use serde::{Deserialize, Serialize};

/// A line that is coming to L1D for loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Coming {
    line: u64,
    /// Its request's number among those of the caches that memory has not answered at once.
    token: Option<u64>,
    /// The pc of the load that asked for it, and the cycle.
    pc: u64,
    asked: u64,
    /// The first cycle at which the hart can use it, if it comes before.
    from: u64,
    /// Cycles from its first beat to the cycle in which a load finds it.
    penalty: u32,
    /// The cycle in which a load finds it as if it had been there, if that is known.
    comes: Option<u64>,
}

/// A register that waits for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    /// As the scoreboard numbers it.
    reg: u8,
    /// Cycles from a load that hits to the first instruction that can use its result.
    latency: u32,
    /// The cycle of the load.
    issued: u64,
    line: u64,
    pc: u64,
    token: Option<u64>,
    comes: Option<u64>,
}

impl Wait {
    /// The first cycle in which the register can be used, if it is known.
    fn ready(&self) -> Option<u64> {
        self.comes
            .map(|c| c.max(self.issued) + u64::from(self.latency))
    }
}

/// A line that has been found on its way by the load that is being executed.
#[derive(Clone, Copy, Debug)]
struct Late {
    line: u64,
    pc: u64,
    token: Option<u64>,
    comes: Option<u64>,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    /// A bit for each register that may still wait, as the scoreboard numbers them.
    pub regs: u64,
    /// The instruction that is being executed is a load for which the hart does not wait.
    pub may: bool,
    /// The fill that had to wait is one of such a load.
    pub filling: bool,
    late: Option<Late>,
    /// In the order of their requests.
    lines: Vec<Coming>,
    waits: Vec<Wait>,
    /// Cycle up to which cycles with a load under way have been counted.
    counted: u64,
    /// The request whose answer the hart is blocked for.
    blocked: Option<u64>,
}

/// [`Loads`] in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedLoads {
    filling: bool,
    lines: Vec<Coming>,
    waits: Vec<Wait>,
    counted: u64,
    blocked: Option<u64>,
}

impl SavedLoads {
    pub fn is_new(&self) -> bool {
        *self == SavedLoads::default()
    }

    /// Whether a hart at a cycle may be in this state; `line` checks a line.
    pub fn fits(&self, far: u64, line: impl Fn(u64) -> bool) -> bool {
        let time = |t: &Option<u64>| t.is_none_or(|t| t < far);
        self.lines.iter().all(|l| {
            line(l.line) && l.asked < far && l.from < far && time(&l.comes) && l.penalty < 1 << 24
        }) && self.waits.iter().all(|w| {
            (1..64).contains(&w.reg)
                && line(w.line)
                && w.issued < far
                && w.latency < 1 << 24
                && time(&w.comes)
                && (w.comes.is_some() || w.token.is_some())
        }) && self.counted < far
            && self.lines.len() < 1 << 16
    }
}

impl Loads {
    /// The state at a cycle, without registers that can be used by then: which of these have been
    /// forgotten already depends on the engine.
    pub fn save(&self, cycle: u64) -> SavedLoads {
        let waits = self.waits.iter().copied();
        SavedLoads {
            filling: self.filling,
            lines: self.lines.clone(),
            waits: waits
                .filter(|w| w.ready().is_none_or(|t| t > cycle))
                .collect(),
            counted: self.counted,
            blocked: self.blocked,
        }
    }

    pub fn load(s: &SavedLoads) -> Self {
        let mut l = Loads {
            filling: s.filling,
            lines: s.lines.clone(),
            waits: s.waits.clone(),
            counted: s.counted,
            blocked: s.blocked,
            ..Loads::default()
        };
        l.note_registers();
        l
    }

    fn note_registers(&mut self) {
        self.regs = self.waits.iter().fold(0, |all, w| all | 1 << w.reg);
    }

    /// The line that is coming and has not come by a cycle.
    fn find(&self, line: u64, now: u64) -> Option<&Coming> {
        let coming = |l: &&Coming| l.line == line && l.comes.is_none_or(|c| c > now);
        self.lines.iter().rev().find(coming)
    }

    /// Whether a line has been asked for and has not come by a cycle.
    #[inline(always)]
    pub fn is_coming(&self, line: u64, now: u64) -> bool {
        !self.lines.is_empty() && self.find(line, now).is_some()
    }

    /// The load that is being executed finds its line on its way, or not.
    fn note_late(&mut self, line: u64, now: u64) {
        self.late = self.find(line, now).map(|l| Late {
            line,
            pc: l.pc,
            token: l.token,
            comes: l.comes,
        });
    }

    /// Forgets the oldest lines that have come by a cycle. Returns the cycles that have passed with a
    /// load under way and have not been counted.
    fn forget_lines(&mut self, now: u64) -> u64 {
        let come = |l: &Coming| l.comes.is_some_and(|c| c <= now);
        let n = self.lines.iter().take_while(|l| come(l)).count();
        let mut cycles = 0;
        for l in self.lines.drain(..n) {
            let from = self.counted.max(l.asked);
            let end = l.comes.unwrap_or(from).max(from);
            cycles += end - from;
            self.counted = end;
        }
        cycles
    }

    /// Forgets the registers that can be used at a cycle.
    fn forget_registers(&mut self, now: u64) {
        self.waits.retain(|w| w.ready().is_none_or(|t| t > now));
        self.note_registers();
    }

    /// The answer to a request is there: the first beat of its line arrives at a cycle. Returns the line and the
    /// cycle in which a load finds it, if the hart knows the request.
    fn answered(&mut self, token: u64, first: u64) -> Option<(u64, u64)> {
        let l = self.lines.iter_mut().find(|l| l.token == Some(token))?;
        let comes = first.max(l.from) + u64::from(l.penalty);
        l.comes = Some(comes);
        let line = l.line;
        for w in self.waits.iter_mut().filter(|w| w.token == Some(token)) {
            w.comes = Some(comes);
        }
        Some((line, comes))
    }
}

/// What a load has asked for: see [`Hart::asked`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub line: u64,
    pub token: Option<u64>,
    pub from: u64,
    pub penalty: u32,
    /// The cycle in which a load finds the line, if it is known.
    pub comes: Option<u64>,
}

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
            asked: self.cycle + at.offset(),
            from: a.from,
            penalty: a.penalty,
            comes: a.comes,
        });
    }

    /// Forgets lines that have come, while no other hart is behind.
    pub(crate) fn forget_loads<W: World>(&mut self, w: &mut W, at: RunPoint) {
        if !self.loads.lines.is_empty() {
            let cycles = self.loads.forget_lines(self.cycle + at.offset());
            w.coherence().loads_passed(cycles);
            self.stats.load_stall_cycles += cycles;
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
        if self.loads.is_coming(line, self.cycle + at.offset()) {
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
        let now = self.cycle + at.offset();
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
        self.loads.note_late(line, self.cycle + at.offset());
    }

    /// Time moves on to a cycle, for a line that a load asked for.
    fn stall<W: World>(&mut self, w: &mut W, until: u64, (line, pc): (u64, u64), at: RunPoint) {
        let start = self.cycle;
        self.cycle = until.saturating_sub(at.offset()).max(start);
        self.stats.memory_stall_cycles += self.cycle - start;
        if w.attributes() && self.cycle > start {
            let by = RunPoint::new(at.offset(), pc);
            let req = self.line_request(by, 0, line, LineKind::Load);
            self.attribute(w, &req, start, false);
        }
    }

    /// Blocks the hart until a request is answered.
    #[cold]
    fn block_for<T>(&mut self, line: u64, token: Option<u64>) -> Result<T, NotNow> {
        self.loads.blocked = token;
        self.awaited = Some(Awaited::load(line));
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
            issued: self.cycle + u64::from(p.cost),
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
        let now = self.cycle + at.offset();
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
            self.loads.forget_registers(self.cycle);
        }
        self.loads.regs
    }

    /// Waits for what an instruction of the block at `pc` needs of registers that are on their way.
    pub fn await_op<W: World>(&mut self, w: &mut W, p: &PreOp, pc: u64) -> Result<(), NotNow> {
        let at = RunPoint::of(p, pc);
        Detailed::uses(self, w, p, at)
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
