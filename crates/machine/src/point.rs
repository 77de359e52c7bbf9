//! Stopping a machine at an exact point of its run.
//!
//! The scheduler checks counts and time only between turns and blocks. The interpreter runs the
//! turn that may pass the point, and checks before each instruction, as for a debugger; so the run
//! up to the point is the same as without it.

use super::turns::HartTurn;
use super::{sleeps, Machine, Stop, Turn};
use nagori_hart::world::{AccessKind, Commit, MemAccess};
use nagori_platform::clock::Ps;

/// More than the greatest number of instructions in a block.
const BLOCK: u64 = 256;
/// More than the core cycles that a block may take beyond a turn's limit: each instruction may wait
/// for several transfers.
const BLOCK_CYCLES: u64 = 1 << 20;

/// What a program does for its data on NVMM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A line of NVMM is written back to memory; without the timing model, where stores are in memory at once, a
    /// store to NVMM.
    NvmmWrite,
    /// A `fence` instruction of any kind, but not `fence.i`.
    Fence,
    /// An instruction that cleans, flushes or invalidates a line, or a whole cache.
    Flush,
}

/// A point of a run, the same with every engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// So many instructions of all harts have retired since the machine was built.
    Instructions(u64),
    /// A machine time: every hart has executed what it began before, and nothing else.
    Time(Ps),
    /// Behind the marker by which a program sets this label for the `nth` time from now, counted
    /// from 1.
    Label {
        /// The program's value.
        value: u64,
        /// Which of them; 0 is taken for 1.
        nth: u64,
    },
    /// Behind the instruction of any hart that does a step for the `nth` time from now, counted from 1. From now on to
    /// there the interpreter runs all code.
    Step {
        /// Which step.
        step: Step,
        /// Which of them; 0 is taken for 1.
        nth: u64,
    },
}

/// The steps that are still to come before the machine stops.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    step: Step,
    left: u64,
    /// Lines of NVMM that were written when counting began.
    written: u64,
    /// First physical address of NVMM.
    base: u64,
    timed: bool,
}

impl Awaited {
    /// An instruction has been executed.
    pub fn committed(&mut self, c: &Commit) {
        let flushes = |a: &MemAccess| {
            matches!(
                a.kind,
                AccessKind::Clean | AccessKind::Flush | AccessKind::FlushAll
            )
        };
        let stores = |a: &MemAccess| a.kind == AccessKind::Write && a.paddr >= self.base;
        let steps = match self.step {
            Step::Fence => c.is_fence(),
            Step::Flush => c.accesses().any(|a| flushes(&a)),
            Step::NvmmWrite => !self.timed && c.accesses().any(|a| stores(&a)),
        };
        self.left -= u64::from(steps).min(self.left);
    }

    /// Whether the last of them has been done, when so many lines of NVMM were written.
    pub fn is_over(&self, written: u64) -> bool {
        if self.step == Step::NvmmWrite && self.timed {
            written - self.written >= self.left
        } else {
            self.left == 0
        }
    }
}

impl Machine {
    /// Makes [`Machine::run`] return once with [`Stop::Reached`] at a point. A point in the past is
    /// reached at once. After the stop the machine may only be reset or have its power cut if it is
    /// within a block of instructions: otherwise its time would differ from that of a run without
    /// the stop.
    ///
    /// Harts do not run at the same time while there is a point.
    pub fn set_point(&mut self, point: Option<Point>) {
        self.point = point;
        self.set_passes(None);
        let written = self.world.nvmm_lines_written;
        let base = self.config.memory.nvmm_base();
        let timed = self.world.timed;
        self.set_awaited(match point {
            Some(Point::Step { step, nth }) => Some(Awaited {
                step,
                left: nth.max(1),
                written,
                base,
                timed,
            }),
            _ => None,
        });
    }

    /// The point at which the machine is going to stop.
    pub fn point(&self) -> Option<Point> {
        self.point
    }

    /// A program has set a label.
    pub(super) fn label_set(&mut self, label: u64) {
        if let Some(Point::Label { value, nth }) = &mut self.point {
            if *value == label {
                *nth = nth.saturating_sub(1);
                if *nth == 0 {
                    self.markers.stop = Some(Stop::Reached);
                }
            }
        }
    }

    /// Whether all instructions up to the point have retired; no hart is in its turn.
    pub(super) fn counted_out(&self) -> bool {
        matches!(self.point, Some(Point::Instructions(n)) if self.instructions() >= n)
    }

    /// The core cycle of a point in time: no hart begins anything from there on.
    pub(super) fn point_cycle(&self) -> Option<u64> {
        match self.point {
            Some(Point::Time(t)) => Some(self.world.cycle_at(t)),
            _ => None,
        }
    }

    /// The point is reached. Harts that sleep have slept up to it.
    pub(super) fn reach(&mut self) -> Stop {
        if let Some(Point::Time(t)) = self.point {
            let cycle = self.world.cycle_at(t);
            for h in self.harts.iter_mut().filter(|h| sleeps(h)) {
                let slept = cycle.saturating_sub(h.state.cycle);
                h.state.stats.idle_cycles += slept;
                h.state.cycle += slept;
            }
        }
        self.set_point(None);
        Stop::Reached
    }

    /// Has a new turn stop after as many instructions as are sure not to pass the point.
    pub(super) fn guard(&mut self, turn: &HartTurn) {
        let most = turn.limit - turn.from;
        let passes = match self.point {
            Some(Point::Instructions(n)) => {
                let left = n.saturating_sub(self.instructions());
                (left <= most + BLOCK).then_some(left)
            }
            Some(Point::Time(t)) => {
                let end = self.world.cycle_at(t);
                (turn.limit.saturating_add(BLOCK_CYCLES) >= end)
                    .then(|| self.passes_until(turn.from, end))
            }
            // It is counted by instructions.
            Some(Point::Step { .. }) => return,
            _ => None,
        };
        self.set_passes(passes);
    }

    /// Instructions that a hart can begin from a cycle on before another one, at least.
    fn passes_until(&self, from: u64, end: u64) -> u64 {
        if self.world.timed {
            1
        } else {
            let left = end.saturating_sub(from).max(1);
            left.div_ceil(u64::from(self.config.functional_cpi))
        }
    }

    /// A turn has stopped since its instructions are used up: whether the run is over, or goes on.
    pub(super) fn guarded(&mut self) -> Option<Turn> {
        let turn = self.held?;
        let (cycle, retired) = self.harts[turn.hart].stands_at(&self.code[turn.hart]);
        match self.point {
            Some(Point::Instructions(n)) => {
                let others = self.instructions() - self.harts[turn.hart].state.instret;
                match n.saturating_sub(others + retired) {
                    0 => {
                        self.settle();
                        return Some(Turn::Stop(self.reach()));
                    }
                    left => self.set_passes(Some(left)),
                }
            }
            Some(Point::Time(t)) => {
                let end = self.world.cycle_at(t);
                if cycle >= end {
                    // Others may be behind still.
                    self.settle();
                    self.set_passes(None);
                } else {
                    self.set_passes(Some(self.passes_until(cycle, end)));
                }
            }
            Some(Point::Step { .. }) => {
                self.settle();
                return Some(Turn::Stop(self.reach()));
            }
            _ => self.set_passes(None),
        }
        None
    }
}
