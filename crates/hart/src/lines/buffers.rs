//! Line fill buffers: lines that loads have asked for while their hart goes on.
//!
//! A buffer is a miss status holding register of L1D ([`super::mshr`]), shared with prefetches. The place
//! in the caches is taken when the line is asked for, as for a miss that the hart waits for; what takes
//! time is only the line itself ([`crate::loads`]). So no event is needed at its arrival, and other
//! accesses of the hart are not disturbed. Other harts wait until it has come.

use super::ahead::{ForLoad, UnderWay};
use super::coherence::Coherence;
use super::levels::From;
use super::Side;
use crate::hart::Hart;
use crate::loads::Asked;
use crate::run::RunPoint;
use crate::trap::NotNow;
use crate::world::{LineKind, Transfer, World};

/// A prefetch that a load has met.
enum Met {
    /// Its line arrives at a cycle; the load has taken it over.
    Comes(u64),
    /// The load has taken over the request of a number.
    Asked(u64),
}

impl Coherence {
    /// A load of a hart has missed all levels; its registers are occupied until memory has answered.
    /// Returns the number of its request.
    fn load_asks(&mut self, (hart, pc): (usize, u64), line: u64) -> u64 {
        let n = self.levels.levels.len();
        self.each_passed((Some(Side::Data), 0..n, hart), |_, m| m.goes_on(hart));
        let token = self.levels.ahead.number();
        self.levels.ahead.under_way.push(UnderWay::for_load(
            token,
            n as u32,
            (hart as u32, pc),
            line,
        ));
        token
    }

    /// A load of a hart has met a prefetch, for which it would wait; it can use the line at a cycle at the
    /// earliest. It takes the prefetch over: the place of the line is taken already.
    fn load_meets(&mut self, hart: usize, line: u64, from: u64) -> Option<Met> {
        let mut all = self.levels.ahead.under_way.iter();
        let i = all.position(|p| p.line == line && p.waits(hart))?;
        let p = self.levels.ahead.under_way[i];
        let met = match p.known() {
            Some(comes) => {
                self.levels.ahead.under_way.remove(i);
                self.miss_ends(hart, comes.max(from));
                Met::Comes(comes)
            }
            None => {
                let own = p.first == Some(Side::Data) && p.hart as usize == hart;
                // The levels in front of the one to which it comes have given a register, too.
                let levels = match p.first {
                    Some(_) => 0,
                    None => p.level(),
                };
                let first = (!own).then_some(Side::Data);
                self.each_passed((first, 0..levels, hart), |_, m| m.goes_on(hart));
                let taken = ForLoad {
                    hart: hart as u32,
                    levels: levels as u32,
                    first: !own,
                };
                self.levels.ahead.under_way[i].taken_over(taken);
                Met::Asked(p.token())
            }
        };
        self.find_due();
        Some(met)
    }

    /// A load has met a line that is on its way.
    pub(crate) fn load_merged(&mut self) {
        self.levels.first[Side::Data as usize].stats.load_merges += 1;
    }

    /// Cycles have passed with a load under way.
    pub(crate) fn loads_passed(&mut self, cycles: u64) {
        self.levels.first[Side::Data as usize].stats.pending_cycles += cycles;
    }
}

impl Hart {
    /// As `bring`, for a load for which the hart does not wait.
    pub(super) fn bring_ahead<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        (penalty, scheduled): (u32, u32),
        at: RunPoint,
    ) -> Result<bool, NotNow> {
        let kind = LineKind::Load;
        if self.take_arrived(line) {
            self.include(w, line, at);
            return Ok(false);
        }
        self.forget_loads(w, at);
        let want = self.want(w, line, kind, at);
        if !want.blocks {
            self.catch_up(w, at);
        }
        let Ok(found) = w.coherence().fetch(&want) else {
            w.claim_line(self.id, line);
            self.need_register(w, at);
            self.leave_for_due(w);
            return self.await_other(line, kind);
        };
        let later = found.latency.saturating_sub(scheduled.into());
        let asked = self.cycle + later;
        let req = self.line_request(at, later, line, kind);
        let mut load = Asked {
            line,
            token: None,
            from: want.now,
            penalty,
            comes: None,
        };
        match found.from {
            From::Level => load.comes = Some(want.now + later),
            From::Memory => {
                let token = w.coherence().load_asks((self.id, at.pc), line);
                match w.prefetch_line(&req, token) {
                    Transfer::Done(first) => {
                        let _ = w.coherence().line_came(token, first);
                        load.comes = Some(first + u64::from(penalty));
                    }
                    Transfer::UnderWay => load.token = Some(token),
                }
            }
            From::Prefetch(_) => {
                load.from = want.now + found.latency;
                match w.coherence().load_meets(self.id, line, load.from) {
                    Some(Met::Comes(comes)) => {
                        load.comes = Some(comes.max(load.from) + u64::from(penalty));
                    }
                    Some(Met::Asked(token)) => load.token = Some(token),
                    None => load.comes = Some(load.from),
                }
            }
        }
        // The hart waits for a buffer, and not for the line.
        self.cycle += found.waited;
        self.stats.memory_stall_cycles += found.waited;
        if load.token.is_some() {
            w.load_begins(self.id, line);
            // The answer may come before the next action that depends on it.
            self.yield_at = self.yield_at.min(want.now + 1);
        }
        self.asked(load, at);
        self.prefetch(w, (want.now, asked), at);
        self.settle_levels(w, asked, at);
        Ok(found.modified)
    }
}
