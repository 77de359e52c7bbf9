//! Running a machine, and in which crate the code for that is compiled.

use super::{Machine, Stop};
use crate::clock::Ps;
use nagori_hart::world::Observer;

/// An observer that observes nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Quiet;
impl Observer for Quiet {}

/// An observer whose machines run. The code that runs a machine is large, and there is one of it for each type of observer.
/// It is reached through this trait: the crates that run a machine with [`Quiet`] use that of this crate, and do not
/// compile it again. Other observers need no more than `impl Compiled for Mine {}`.
pub trait Compiled: Observer + Send + Sized {
    /// As [`Machine::run`], which calls it.
    fn run(m: &mut Machine<Self>, cycles: u64, instructions: Option<u64>) -> Stop {
        m.run_here(cycles, instructions)
    }
}

impl Compiled for Quiet {
    // Not the trait's: that one would be compiled where it is used.
    fn run(m: &mut Machine<Self>, cycles: u64, instructions: Option<u64>) -> Stop {
        m.run_here(cycles, instructions)
    }
}

impl<O: Compiled> Machine<O> {
    /// Runs for about `cycles` core cycles of machine time, or until something
    /// else must happen. What happens in the guest does not depend on `cycles`: the scheduler
    /// is left only at points that it reaches anyhow, at most 2^20 cycles apart.
    ///
    /// `instructions` bounds [`Machine::steps`]; the last block may pass it by its length.
    pub fn run(&mut self, cycles: u64, instructions: Option<u64>) -> Stop {
        O::run(self, cycles, instructions)
    }

    /// The same up to a machine time at most: harts touch no device and no memory of others from there on, and no device
    /// does anything. A hart's own instructions may go on to the end of a block. What happens in the guest does not
    /// depend on `until`, either.
    ///
    /// [`Stop::Slice`] if the time is reached; [`Stop::Idle`] with the machine's own next event if all harts wait.
    pub fn run_until(&mut self, until: Ps, cycles: u64, instructions: Option<u64>) -> Stop {
        self.horizon = match until {
            Ps::NEVER => u64::MAX,
            t => self.world.cycle_at(t),
        };
        let stop = O::run(self, cycles, instructions);
        self.horizon = u64::MAX;
        stop
    }
}
