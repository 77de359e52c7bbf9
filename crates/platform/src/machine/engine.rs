//! What runs the harts' code.

use super::{Machine, MachineError};
use nagori_hart::world::Observer;
use nagori_translator::{Options, Piece, Stats, Translator};

/// What runs the harts' code. Results are the same, only host time differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// The interpreter.
    #[default]
    Interpreter,
    /// Translation to code of the host.
    Translator(Options),
}

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

impl<O: Observer> Machine<O> {
    /// Chooses what runs the harts' code, at any time.
    pub fn set_engine(&mut self, engine: Engine) -> Result<(), MachineError> {
        self.translators = match engine {
            Engine::Interpreter => Vec::new(),
            Engine::Translator(o) => (0..self.harts.len())
                .map(|_| Translator::new(o))
                .collect::<Result<_, _>>()?,
        };
        Ok(())
    }

    /// What the translators have done, by hart; empty with the interpreter.
    pub fn translator_stats(&self) -> Vec<Stats> {
        self.translators.iter().map(Translator::stats).collect()
    }

    /// Measures from now on what the translators do on the host; see `Stats::measured`.
    /// [`Machine::set_engine`] ends that.
    pub fn measure_translators(&mut self) {
        self.translators.iter_mut().for_each(Translator::measure);
    }

    /// Keeps a list of all translated code from now on.
    /// [`Machine::set_engine`] ends that.
    pub fn keep_translated(&mut self) {
        self.translators
            .iter_mut()
            .for_each(Translator::keep_pieces);
    }

    /// The list that [`Machine::keep_translated`] asked for, hart by hart; code that has been
    /// dropped is not in it.
    pub fn translated(&self) -> impl Iterator<Item = (usize, &Piece)> {
        let all = self.translators.iter().enumerate();
        all.flat_map(|(hart, t)| t.pieces().iter().map(move |p| (hart, p)))
    }
}
