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

use serde::{Deserialize, Serialize};

/// A line that is coming to L1D for loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Coming {
    pub(crate) line: u64,
    /// Its request's number among those of the caches that memory has not answered at once.
    pub(crate) token: Option<u64>,
    /// The pc of the load that asked for it, and the cycle.
    pub(crate) pc: u64,
    pub(crate) asked: u64,
    /// The first cycle at which the hart can use it, if it comes before.
    pub(crate) from: u64,
    /// Cycles from its first beat to the cycle in which a load finds it.
    pub(crate) penalty: u32,
    /// The cycle in which a load finds it as if it had been there, if that is known.
    pub(crate) comes: Option<u64>,
}

/// A register that waits for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    /// As the scoreboard numbers it.
    pub(crate) reg: u8,
    /// Cycles from a load that hits to the first instruction that can use its result.
    pub(crate) latency: u32,
    /// The cycle of the load.
    pub(crate) issued: u64,
    pub(crate) line: u64,
    pub(crate) pc: u64,
    pub(crate) token: Option<u64>,
    pub(crate) comes: Option<u64>,
}

impl Wait {
    /// The first cycle in which the register can be used, if it is known.
    pub(crate) fn ready(&self) -> Option<u64> {
        self.comes
            .map(|c| c.max(self.issued) + u64::from(self.latency))
    }
}

/// A line that has been found on its way by the load that is being executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    pub(crate) line: u64,
    pub(crate) pc: u64,
    pub(crate) token: Option<u64>,
    pub(crate) comes: Option<u64>,
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
    pub(crate) late: Option<Late>,
    /// In the order of their requests.
    pub(crate) lines: Vec<Coming>,
    pub(crate) waits: Vec<Wait>,
    /// Cycle up to which cycles with a load under way have been counted.
    counted: u64,
    /// The request whose answer the hart is blocked for.
    pub(crate) blocked: Option<u64>,
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
    pub(crate) fn find(&self, line: u64, now: u64) -> Option<&Coming> {
        let coming = |l: &&Coming| l.line == line && l.comes.is_none_or(|c| c > now);
        self.lines.iter().rev().find(coming)
    }

    /// Whether a line has been asked for and has not come by a cycle.
    #[inline(always)]
    pub fn is_coming(&self, line: u64, now: u64) -> bool {
        !self.lines.is_empty() && self.find(line, now).is_some()
    }

    /// The load that is being executed finds its line on its way, or not.
    pub(crate) fn note_late(&mut self, line: u64, now: u64) {
        self.late = self.find(line, now).map(|l| Late {
            line,
            pc: l.pc,
            token: l.token,
            comes: l.comes,
        });
    }

    /// Forgets the oldest lines that have come by a cycle. Returns the cycles that have passed with a
    /// load under way and have not been counted.
    pub(crate) fn forget_lines(&mut self, now: u64) -> u64 {
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
    pub(crate) fn forget_registers(&mut self, now: u64) {
        self.waits.retain(|w| w.ready().is_none_or(|t| t > now));
        self.note_registers();
    }

    /// The answer to a request is there: the first beat of its line arrives at a cycle. Returns the line and the
    /// cycle in which a load finds it, if the hart knows the request.
    pub(crate) fn answered(&mut self, token: u64, first: u64) -> Option<(u64, u64)> {
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
