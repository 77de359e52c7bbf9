//! Line fill buffers: lines that loads have asked for while their hart goes on.
//!
//! A buffer is a miss status holding register of L1D ([`super::mshr`]), shared with prefetches. The place
//! in the caches is taken when the line is asked for, as for a miss that the hart waits for; what takes
//! time is only the line itself ([`crate::loads`]). So no event is needed at its arrival, and other
//! accesses of the hart are not disturbed. Other harts wait until it has come.

use super::{From, Met};
use crate::hart::Hart;
use crate::loads::Asked;
use crate::place::RunPoint;
use crate::trap::NotNow;
use crate::world::{Transfer, World};
use nagori_cache::LineKind;

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
        let asked = self.state.cycle + later;
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
        self.state.cycle += found.waited;
        self.state.stats.memory_stall_cycles += found.waited;
        if load.token.is_some() {
            w.load_begins(self.id, line);
            // The answer may come before the next action that depends on it.
            self.run.yield_at = self.run.yield_at.min(want.now + 1);
        }
        self.asked(load, at);
        self.prefetch(w, (want.now, asked), at);
        self.settle_levels(w, asked, at);
        Ok(found.modified)
    }
}
