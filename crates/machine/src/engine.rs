//! The engine that runs the harts' code.

use super::{Machine, MachineError};
use nagori_hart::world::World;
use nagori_translator::{Options, Piece, Stats, Translator};

/// An engine. Results are the same, only host time differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// The interpreter.
    #[default]
    Interpreter,
    /// The translator to host code.
    Translator(Options),
}

/// Core cycles that harts in threads may be apart unless something else is wanted.
pub const DEFAULT_SKEW: u64 = 50_000;

impl Engine {
    /// The fastest that this host has.
    pub fn best() -> Self {
        if Translator::<()>::SUPPORTED {
            Self::Translator(Options::default())
        } else {
            Self::Interpreter
        }
    }
}

fn translators<W: World>(engine: Engine, n: usize) -> Result<Vec<Translator<W>>, MachineError> {
    match engine {
        Engine::Interpreter => Ok(Vec::new()),
        Engine::Translator(o) => Ok((0..n)
            .map(|_| Translator::new(o))
            .collect::<Result<_, _>>()?),
    }
}

impl Machine {
    /// Chooses the engine, at any time.
    pub fn set_engine(&mut self, engine: Engine) -> Result<(), MachineError> {
        let n = self.harts.len();
        let together = if self.parallel.is_some() { n } else { 0 };
        self.translators = translators(engine, n)?;
        self.together = translators(engine, together)?;
        self.engine = engine;
        Ok(())
    }

    /// Whether harts run at the same time while the timing model is off, in threads of the host, and if so, how many
    /// core cycles they may be apart (at least 1); [`DEFAULT_SKEW`] is a good choice. It can be
    /// changed at any time. Parallel runs are **not deterministic**: guests see another order of
    /// one another's accesses in each run, and times are right to the skew only. With the timing model, and while
    /// a debugger has places to stop at or instructions are reported, harts run one after the other all the same.
    ///
    /// An error if the description has `memory.track_persistence`: what is lost in a power cut is only
    /// known where stores have an order.
    pub fn set_parallel(&mut self, skew: Option<u64>) -> Result<(), MachineError> {
        if skew.is_some() && self.world.behind.is_some() {
            return Err(MachineError::ParallelTracked);
        }
        self.parallel = skew.map(|s| s.max(1));
        self.host_threads = std::thread::available_parallelism().map_or(1, usize::from);
        if skew.is_some() && self.together.is_empty() {
            self.together = translators(self.engine, self.harts.len())?;
        }
        Ok(())
    }

    /// Whether harts run at the same time; see [`Machine::set_parallel`].
    pub fn is_parallel(&self) -> bool {
        self.parallel.is_some()
    }

    /// What the translators have done, by hart; empty with the interpreter.
    pub fn translator_stats(&self) -> Vec<Stats> {
        let used = self.translators.iter().map(Translator::stats);
        let together = self.together.iter().map(Translator::stats);
        match self.parallel {
            None => used.collect(),
            Some(_) => together.collect(),
        }
    }

    /// Measures from now on what the translators do on the host; see `Stats::measured`.
    /// [`Machine::set_engine`] ends that.
    pub fn measure_translators(&mut self) {
        self.translators.iter_mut().for_each(Translator::measure);
        self.together.iter_mut().for_each(Translator::measure);
    }

    /// Keeps a list of all translated code from now on.
    /// [`Machine::set_engine`] ends that.
    pub fn keep_translated(&mut self) {
        self.translators
            .iter_mut()
            .for_each(Translator::keep_pieces);
        self.together.iter_mut().for_each(Translator::keep_pieces);
    }

    /// The list that [`Machine::keep_translated`] asked for, hart by hart; code that has been
    /// dropped is not in it.
    pub fn translated(&self) -> impl Iterator<Item = (usize, &Piece)> {
        let alone = self.translators.iter().map(Translator::pieces).enumerate();
        let together = self.together.iter().map(Translator::pieces).enumerate();
        let all = alone.chain(together);
        all.flat_map(|(hart, pieces)| pieces.into_iter().map(move |p| (hart, p)))
    }
}
