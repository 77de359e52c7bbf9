//! The order and length of the harts' turns.
//!
//! With the timing model on, machine time is cut into windows. The hart that is furthest behind has
//! the turn. It may run hits on uncontended lines up to the end of the window. Actions that others
//! can observe (misses, flushes, devices, hits on contended lines) it performs only as long as no
//! other hart is behind it. Its turn ends at an action that has to wait, or with the window; then
//! the hart that is furthest behind is next. So what others observe happens in the order of time,
//! and the pieces in which the host runs a turn change nothing.

use super::memory::Asker;
use super::refusal::refused;
use super::roster::is_apart;
use super::roster::{Place, Roster, NOBODY};
use super::{sleeps, Machine, Stop, Turn};
use nagori_platform::clock::Ps;
use serde::{Deserialize, Serialize};

/// Core cycles of a window while all harts run programs and none a kernel.
const PROGRAM_WINDOW: u64 = 256;
/// Core cycles of a window while some hart runs a kernel: an interrupt that one hart sends to
/// another arrives at the end of the window at the latest.
const KERNEL_WINDOW: u64 = 16;

/// Longest run of one hart before the scheduler chooses again, in cycles. A grid in guest time, so
/// that it does not depend on how often the host checks.
const GRID: u64 = 1 << 20;

/// The present window. It is part of the machine's state: a run that continues from a snapshot
/// continues within it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    /// Core cycle of its end.
    end: u64,
    /// Harts that do not sleep, a bit each.
    running: u64,
    /// The hart whose turn is not over.
    turn: Option<u32>,
    /// The cycle from which on that hart performs no action that others can observe, in the rest of its turn.
    bus_limit: u64,
}

impl Window {
    /// Whether it is a possible window of a machine with a number of harts.
    pub fn fits(&self, harts: usize) -> bool {
        (harts >= 64 || self.running >> harts == 0)
            && self.turn.is_none_or(|i| (i as usize) < harts)
    }

    /// The hart whose turn is not over, and the end of the window.
    pub fn turn(&self) -> Option<(usize, u64)> {
        self.turn.map(|i| (i as usize, self.end))
    }

    /// The host interrupts the turn, or (0) it is over anyhow.
    pub fn interrupt_turn(&mut self, bus_limit: u64) {
        self.bus_limit = bus_limit;
    }

    /// A hart has reached an action that has to wait, or a device, or it sleeps: its turn is over.
    pub fn end_turn(&mut self) {
        (self.turn, self.bus_limit) = (None, 0);
    }
}

/// A hart's turn: how far it may run.
#[derive(Clone, Copy)]
pub(super) struct HartTurn {
    pub hart: usize,
    /// Its cycle at the start.
    pub from: u64,
    pub limit: u64,
    /// Where its turn is over, in however many pieces the host runs it.
    pub end: u64,
    /// The cycle from which on it performs no action that others can observe.
    pub bus_limit: u64,
}

/// The limits of a run that are left.
#[derive(Clone, Copy)]
pub(super) struct Left {
    /// The next event of devices, as a core cycle.
    pub event: u64,
    pub spent: u64,
    pub cycles: u64,
    pub instructions: Option<u64>,
}

impl Machine {
    /// The next hart's turn, or the reason why there is none.
    #[inline(always)]
    pub(super) fn next_turn(&mut self, left: Left, roster: &mut Roster) -> Result<HartTurn, Turn> {
        if let Some(t) = self.held.take() {
            return Ok(t);
        }
        let steps = match left.instructions {
            Some(n) => match n.saturating_sub(self.steps()) {
                0 => return Err(Turn::Stop(Stop::Instructions)),
                left => left,
            },
            None => u64::MAX,
        };
        let steps = steps.min(self.warm_left());
        let steps = match self.sample_left() {
            0 => {
                if let Err(e) = self.sample() {
                    self.samples.fail(e);
                }
                return Err(Turn::Device);
            }
            left => steps.min(left),
        };
        if left.spent >= left.cycles {
            return Err(Turn::Stop(Stop::Slice));
        }
        if self.counted_out() {
            return Err(Turn::Stop(self.reach()));
        }
        // Harts that have reached a stopping point in time get no more turns.
        let end = self.point_cycle();
        let event = left.event.min(end.unwrap_or(u64::MAX)).min(self.horizon);
        let resumed = self.window.turn.is_some();
        let turn = if self.world.timed {
            self.turn_in_epoch(event, roster)
        } else {
            self.functional_turn(event, roster)
        };
        let mut turn = match turn {
            Err(Turn::Event { cycle, .. }) if end.is_some_and(|e| cycle >= e) => {
                return Err(Turn::Stop(self.reach()));
            }
            Err(Turn::Event { cycle, asleep }) if cycle >= self.horizon => {
                self.reached = self.horizon;
                return Err(Turn::Stop(if asleep {
                    Stop::Idle(self.next_time())
                } else {
                    Stop::Slice
                }));
            }
            other => other?,
        };
        self.begin_turn(&mut turn, resumed);
        turn.limit = turn.limit.min(turn.from.saturating_add(steps));
        Ok(turn)
    }

    /// Without the timing model the hart that is furthest behind is next.
    fn functional_turn(&self, event: u64, roster: &Roster) -> Result<HartTurn, Turn> {
        let (first, second) = roster.first_two();
        let (now, hart) = first;
        let next = event.min(roster.wake);
        if roster.running == 0 || next <= now {
            return Err(Turn::Event {
                cycle: next,
                asleep: roster.running == 0,
            });
        }
        let limit = second
            .0
            .saturating_add(self.functional_turn_cycles())
            .min(next)
            .min((now / GRID + 1) * GRID);
        Ok(HartTurn {
            hart,
            from: now,
            limit,
            end: limit,
            bus_limit: limit,
        })
    }

    /// As [`Machine::timed_turn`], but no turn goes beyond the end of its hart's epoch.
    #[inline(always)]
    fn turn_in_epoch(&mut self, event: u64, roster: &mut Roster) -> Result<HartTurn, Turn> {
        let turn = self.timed_turn(event, roster);
        match self.world.epochs {
            None => turn,
            Some(_) => self.before_end(turn, event, roster),
        }
    }

    /// Ends the epochs that are over, and limits the turn that is given then.
    fn before_end(
        &mut self,
        mut turn: Result<HartTurn, Turn>,
        event: u64,
        roster: &mut Roster,
    ) -> Result<HartTurn, Turn> {
        let mut ending = None;
        loop {
            let t = turn?;
            if !self.end_epoch(t.hart, &mut ending) {
                let end = match &self.world.epochs {
                    Some(e) => e.end_of(t.hart).max(t.from + 1),
                    None => t.end,
                };
                return Ok(HartTurn {
                    limit: t.limit.min(end),
                    end: t.end.min(end),
                    ..t
                });
            }
            roster.look_at(t.hart, &self.harts[t.hart]);
            turn = self.timed_turn(event, roster);
        }
    }

    /// With the timing model: see the description of this module.
    #[inline(always)]
    fn timed_turn(&mut self, event: u64, roster: &mut Roster) -> Result<HartTurn, Turn> {
        // Blocked harts run, too, so no answer of memory changes this. It has to be known before
        // memory is served: events in the caches send requests.
        self.world.alone = roster.running.is_power_of_two() && !self.world.coherence.keeps_order();
        if self.window.bus_limit > 0 {
            if let Some(rest) = self.rest_of_turn(event.min(roster.wake), roster) {
                return Ok(rest);
            }
        }
        // No blocked hart resumes before this cycle, and no event in the caches takes effect.
        let mut blocked;
        let (mut first, mut second);
        loop {
            blocked = if self.world.memory.is_quiet() {
                u64::MAX
            } else {
                self.serve_memory(event, roster)
            };
            (first, second) = roster.first_two();
            let due = self.world.coherence.next_due();
            if due == u64::MAX {
                break;
            }
            blocked = blocked.min(due);
            let next = event.min(roster.wake);
            if due > first.0.min(next) || self.has_turn(next) {
                break;
            }
            self.settle_due(due, roster);
        }
        let (running, modes, wake) = (roster.running, roster.modes, roster.wake);
        let next = event.min(wake);
        if running == 0 {
            return Err(Turn::Event {
                cycle: next,
                asleep: true,
            });
        }
        if first == NOBODY {
            // All harts wait for memory, and another event comes before its answer.
            return Err(Turn::Event {
                cycle: next,
                asleep: false,
            });
        }
        let window = &mut self.window;
        let now = first.0;
        let apart = is_apart(modes);
        // A hart that runs alone needs no windows.
        let span = match running.is_power_of_two() {
            true => GRID,
            false if apart => PROGRAM_WINDOW,
            false => KERNEL_WINDOW,
        };
        let end = now.saturating_add(span).min((now / GRID + 1) * GRID);
        if now >= window.end {
            window.end = end;
        } else if running & !window.running != 0 {
            window.end = window.end.min(end);
        }
        window.running = running;
        let limit = window.end.min(next);

        let unfinished = window.turn.map(|i| i as usize).filter(|i| {
            let runs = running >> i & 1 != 0;
            runs && roster.cycle(*i) < limit
        });
        let hart = match unfinished {
            Some(i) => i,
            None if now < limit => first.1,
            None => {
                return Err(Turn::Event {
                    cycle: next,
                    asleep: false,
                })
            }
        };
        window.turn = Some(hart as u32);
        Ok(self.turn_of((hart, limit, blocked), roster, (first, second)))
    }

    /// The turn of a hart that ends at `limit`; from `bus_limit` on, it performs no action that others can observe.
    #[inline(always)]
    fn turn_of(
        &self,
        (hart, limit, bus_limit): (usize, u64, u64),
        roster: &Roster,
        (first, second): (Place, Place),
    ) -> HartTurn {
        let from = roster.cycle(hart);
        let other = if hart == first.1 { second } else { first };
        let before_others = other.0.saturating_add(u64::from(hart < other.1));
        let c = &self.config;
        let go = if is_apart(roster.modes) {
            c.run_ahead_cycles
        } else {
            c.quantum_cycles
        };
        HartTurn {
            hart,
            from,
            limit: limit.min(from.saturating_add(go.into())),
            end: limit,
            bus_limit: limit.min(before_others).min(bus_limit),
        }
    }

    /// The rest of a turn that the host has interrupted; `next` is the time of the next event.
    ///
    /// Memory answers nobody before the turn is over. A hart that goes on from its loads waits for those that memory
    /// has not answered, which ends its turn: so answers have to become known where turns begin, and not where the host
    /// looks.
    #[cold]
    fn rest_of_turn(&self, next: u64, roster: &Roster) -> Option<HartTurn> {
        let (hart, end) = self.window.turn()?;
        let goes_on = self.has_turn(next) && roster.running == self.window.running;
        let rest = (hart, end.min(next), self.window.bus_limit);
        goes_on.then(|| self.turn_of(rest, roster, roster.first_two()))
    }

    /// Advances memory up to the earliest time at which a running hart, a device or a sleeping hart
    /// can send a request, and unblocks harts whose lines have arrived. Returns the first cycle at
    /// which another blocked hart can resume.
    fn serve_memory(&mut self, event: u64, roster: &mut Roster) -> u64 {
        let due = self.world.coherence.next_due();
        let mut first = event.min(roster.wake).min(roster.first_two().0 .0).min(due);
        let mut until = self.world.first_arrival(self.world.ps(first));
        loop {
            match self.answer(until) {
                Some(to) => {
                    if let Asker::Hart(hart) = to {
                        roster.look_at(hart, &self.harts[hart]);
                        // A hart that has gone on from the load that is answered may be blocked for
                        // something else, and sends nothing.
                        first = first.min(roster.cycle(hart));
                        first = first.min(self.release_waiting(roster));
                    }
                    // It may be followed by another request.
                    first = first.min(self.world.coherence.next_due());
                    until = self.world.first_arrival(self.world.ps(first));
                }
                None if self.world.memory.is_quiet() => return u64::MAX,
                None => return self.world.cycle_at(self.world.first_answer(until)),
            }
        }
    }

    /// Lets memory go on to where the next request can come. How far a controller has gone for
    /// which nobody waits depends on how it was asked; for whoever compares states of machines.
    pub fn settle_memory(&mut self) {
        let mut until;
        loop {
            let mut first = self.world.next_event().min(self.world.coherence.next_due());
            for h in self.harts.iter().filter(|h| !h.is_blocked()) {
                first = first.min(if sleeps(h) {
                    h.wake_cycle().unwrap_or(u64::MAX).max(h.state.cycle)
                } else {
                    h.state.cycle
                });
            }
            until = self.world.first_arrival(self.world.ps(first));
            // An answer may be followed by another request.
            if self.answer(until).is_none() {
                break;
            }
            self.resume_released();
        }
        let settled = self.world.memory.settle(until);
        settled.unwrap_or_else(|e| refused(e));
    }

    /// Checks what holds of caches and filters whenever [`Machine::run`] has returned. The first violation is the
    /// error.
    pub fn check_invariants(&mut self) -> Result<(), String> {
        let w = &mut *self.world;
        self.harts[0].check_invariants(w)?;
        self.harts.iter().try_for_each(|h| h.check_filters(w))
    }

    /// Advances memory to its next answer, but only up to a time. Returns who is answered.
    fn answer(&mut self, until: Ps) -> Option<Asker> {
        let w = &mut *self.world;
        let a = w.memory.advance(until).unwrap_or_else(|e| refused(e))?;
        let cycle = w.cycle_at(w.answered(a.done, a.kind));
        match a.to {
            Asker::Hart(hart) => self.harts[hart].arrive(w, cycle),
            Asker::Prefetch(token) => {
                if let Some(hart) = w.coherence.line_came(token, cycle) {
                    let line = self.harts[hart].load_came(w, token, cycle);
                    if let Some(line) = line {
                        w.fills.end_load(hart, line, cycle);
                    }
                    return Some(Asker::Hart(hart));
                }
            }
        }
        Some(a.to)
    }

    /// Resumes the harts that have waited for another hart's load, where no turns are given.
    fn resume_released(&mut self) {
        while let Some((hart, cycle)) = self.world.fills.take_released() {
            self.harts[hart].arrive(&mut *self.world, cycle);
        }
    }

    /// Ends all waits, before harts run without waiting for one another.
    pub(super) fn end_waits(&mut self) {
        while self.answer(Ps::MAX_TIME).is_some() {
            self.resume_released();
        }
        for h in self.harts.iter_mut().filter(|h| h.is_blocked()) {
            let cycle = h.state.cycle;
            h.arrive(&mut *self.world, cycle);
        }
        self.world.nobody_waits();
    }

    /// Resumes the harts that have waited for another hart's fill. Returns the cycle of the one that is furthest
    /// behind.
    pub(super) fn release_waiting(&mut self, roster: &mut Roster) -> u64 {
        let mut first = u64::MAX;
        while let Some((hart, cycle)) = self.world.fills.take_released() {
            self.harts[hart].arrive(&mut *self.world, cycle);
            roster.look_at(hart, &self.harts[hart]);
            first = first.min(self.harts[hart].state.cycle);
        }
        first
    }
}
