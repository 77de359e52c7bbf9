//! The order and length of the harts' turns.
//!
//! With the timing model on, machine time is cut into windows. The hart that is furthest behind has
//! the turn. It may run hits on uncontended lines up to the end of the window. Actions that others
//! can observe (misses, flushes, devices, hits on contended lines) it performs only as long as no
//! other hart is behind it. Its turn ends at an action that has to wait, or with the window; then
//! the hart that is furthest behind is next. So what others observe happens in the order of time,
//! and the pieces in which the host runs a turn change nothing.

use super::world::refused;
use super::{sleeps, Machine, Stop, Turn};
use nagori_hart::world::Observer;
use nagori_hart::{Hart, Privilege};
use serde::{Deserialize, Serialize};

/// Core cycles of a window while all harts run programs and none a kernel.
const PROGRAM_WINDOW: u64 = 256;
/// Core cycles of a window while some hart runs a kernel: an interrupt that one hart sends to
/// another arrives at the end of the window at the latest.
const KERNEL_WINDOW: u64 = 16;

/// Longest run of one hart before the scheduler looks again, in cycles. A grid
/// in guest time, so that it does not depend on how often the host looks.
const GRID: u64 = 1 << 20;

/// All harts that run are in user mode.
const USERS: u8 = 1;
/// All harts that run are in machine mode, without an operating system.
const BARE: u8 = 2;
/// Some hart runs a kernel or its firmware.
const KERNEL: u8 = 4;

/// The bit for what a hart runs.
#[inline(always)]
pub(super) fn mode(h: &Hart) -> u8 {
    match h.privilege {
        Privilege::User => USERS,
        Privilege::Machine if !h.csr.paging() => BARE,
        _ => KERNEL,
    }
}

/// Whether harts in these modes rarely send interrupts to one another.
#[inline(always)]
pub(super) fn is_apart(modes: u8) -> bool {
    modes == USERS || modes == BARE
}

/// The window that harts are in. It is part of the machine's state: a run that goes on from
/// a snapshot goes on within it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    /// Core cycle of its end.
    end: u64,
    /// Harts that do not sleep, a bit each.
    running: u64,
    /// The hart whose turn is not over.
    turn: Option<u32>,
}

impl Window {
    /// Whether it may be that of a machine with so many harts.
    pub fn fits(&self, harts: usize) -> bool {
        (harts >= 64 || self.running >> harts == 0)
            && self.turn.is_none_or(|i| (i as usize) < harts)
    }

    /// A hart has reached an action that has to wait, or a device, or it sleeps: its turn is over.
    /// its turn is over.
    pub fn end_turn(&mut self) {
        self.turn = None;
    }
}

/// A hart's turn: how far it may run.
#[derive(Clone, Copy)]
pub(super) struct HartTurn {
    pub hart: usize,
    /// Its cycle at the start.
    pub from: u64,
    pub limit: u64,
    /// From which on it does nothing that others can see.
    pub bus_limit: u64,
}

/// A hart's cycle and number. Of two at the same time the one with the lower number is first.
type Place = (u64, usize);
const NOBODY: Place = (u64::MAX, usize::MAX);

/// Who runs, and how far they are.
struct LineUp {
    /// The two that are furthest behind.
    first: Place,
    second: Place,
    /// Harts that do not sleep, a bit each; blocked ones are among them.
    running: u64,
    /// What they run, a bit for each kind.
    modes: u8,
    /// When the first of the others wakes.
    wake: u64,
}

/// What may still happen in a run.
#[derive(Clone, Copy)]
pub(super) struct Left {
    /// The next event of devices, as a core cycle.
    pub event: u64,
    pub spent: u64,
    pub cycles: u64,
    pub instructions: Option<u64>,
}

impl<O: Observer> Machine<O> {
    /// The next hart's turn, or what else is due.
    #[inline(always)]
    pub(super) fn next_turn(&mut self, left: Left) -> Result<HartTurn, Turn> {
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
        if left.spent >= left.cycles {
            return Err(Turn::Stop(Stop::Slice));
        }
        if self.counted_out() {
            return Err(Turn::Stop(self.reach()));
        }
        // Harts that have come to a point in time are given no more turns.
        let end = self.point_cycle();
        let event = left.event.min(end.unwrap_or(u64::MAX));
        let turn = match self.world.timed {
            true => self.timed_turn(event),
            false => self.functional_turn(event),
        };
        let mut turn = match turn {
            Err(Turn::Event { cycle, .. }) if end.is_some_and(|e| cycle >= e) => {
                return Err(Turn::Stop(self.reach()));
            }
            other => other?,
        };
        turn.limit = turn.limit.min(turn.from.saturating_add(steps));
        Ok(turn)
    }

    /// The harts that run, and when the others wake.
    #[inline(always)]
    fn line_up(&self) -> LineUp {
        let mut l = LineUp {
            first: NOBODY,
            second: NOBODY,
            running: 0,
            modes: 0,
            wake: u64::MAX,
        };
        for (i, h) in self.harts.iter().enumerate() {
            if sleeps(h) {
                l.wake = l.wake.min(h.wake_cycle().unwrap_or(u64::MAX).max(h.cycle));
                continue;
            }
            l.running |= 1 << i;
            l.modes |= mode(h);
            if h.is_blocked() {
                continue;
            }
            let at = (h.cycle, i);
            if at < l.first {
                (l.first, l.second) = (at, l.first);
            } else if at < l.second {
                l.second = at;
            }
        }
        l
    }

    /// Without the timing model the hart that is furthest behind is next.
    fn functional_turn(&self, event: u64) -> Result<HartTurn, Turn> {
        let l = self.line_up();
        let (now, hart) = l.first;
        let next = event.min(l.wake);
        if l.running == 0 || next <= now {
            return Err(Turn::Event {
                cycle: next,
                asleep: l.running == 0,
            });
        }
        let limit = l
            .second
            .0
            .saturating_add(self.config.functional_quantum_cycles.into())
            .min(next)
            .min((now / GRID + 1) * GRID);
        Ok(HartTurn {
            hart,
            from: now,
            limit,
            bus_limit: limit,
        })
    }

    /// With the timing model: see the description of this module.
    #[inline(always)]
    fn timed_turn(&mut self, event: u64) -> Result<HartTurn, Turn> {
        // No blocked hart goes on before this cycle.
        let blocked = match self.world.memory.is_quiet() {
            true => u64::MAX,
            false => self.serve_memory(event),
        };
        let LineUp {
            first,
            second,
            running,
            modes,
            wake,
        } = self.line_up();
        let next = event.min(wake);
        if running == 0 {
            return Err(Turn::Event {
                cycle: next,
                asleep: true,
            });
        }
        self.world.alone = running.is_power_of_two();
        if first == NOBODY {
            // All wait for memory, and something is due before it answers.
            return Err(Turn::Event {
                cycle: next,
                asleep: false,
            });
        }
        let window = &mut self.window;
        let now = first.0;
        let apart = is_apart(modes);
        // A hart that has nobody to wait for needs no windows.
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
            runs && self.harts[*i].cycle < limit
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
        let from = self.harts[hart].cycle;
        let other = if hart == first.1 { second } else { first };
        let before_others = other.0.saturating_add(u64::from(hart < other.1));
        let c = &self.config;
        let go = if apart {
            c.run_ahead_cycles
        } else {
            c.quantum_cycles
        };
        Ok(HartTurn {
            hart,
            from,
            limit: limit.min(from.saturating_add(go.into())),
            bus_limit: limit.min(before_others).min(blocked),
        })
    }

    /// Lets memory go on up to where harts that are not blocked, devices and sleepers can send it
    /// something; harts whose lines have come are blocked no longer. The first cycle at which one of
    /// the others can go on.
    fn serve_memory(&mut self, event: u64) -> u64 {
        loop {
            let mut first = event;
            for h in &self.harts {
                if sleeps(h) {
                    first = first.min(h.wake_cycle().unwrap_or(u64::MAX).max(h.cycle));
                } else if !h.is_blocked() {
                    first = first.min(h.cycle);
                }
            }
            let until = self.world.first_arrival(self.world.ps(first));
            if !self.answer(until) {
                return self.world.cycle_at(self.world.first_answer(until));
            }
        }
    }

    /// Lets memory go on to its next answer, but only up to a time; whether there was one.
    fn answer(&mut self, until: nagori_memtime::Ps) -> bool {
        let w = &mut *self.world;
        let answer = w.memory.advance(until).unwrap_or_else(|e| refused(e));
        if let Some(a) = answer {
            let cycle = w.cycle_at(w.answered(a.done, a.kind));
            self.harts[a.hart].arrive(w, cycle);
        }
        answer.is_some()
    }

    /// No hart is blocked any more, for harts that do not wait for one another.
    pub(super) fn end_waits(&mut self) {
        while self.answer(nagori_memtime::Ps::MAX_TIME) {}
        for h in self.harts.iter_mut().filter(|h| h.is_blocked()) {
            let cycle = h.cycle;
            h.arrive(&mut *self.world, cycle);
        }
        self.world.nobody_waits();
    }

    /// Harts that have waited for another one's work on a line go on.
    pub(super) fn release_waiting(&mut self) {
        while let Some((hart, cycle)) = self.world.fills.take_released() {
            self.harts[hart].arrive(&mut *self.world, cycle);
        }
    }
}
