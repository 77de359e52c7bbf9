//! Copies of a machine that follow it from moment to moment, to be measured.

use super::sampled::PageContent;
use super::{Checkpoint, Engine, Machine, MachineError, MachineState};
use nagori_translator::Translator;
use std::collections::HashSet;

/// A machine that is put to moments of another one, again and again. It keeps what it has decoded and translated, as
/// far as memory stays the same there.
pub struct Replica {
    /// The machine.
    pub machine: Machine,
}

impl Replica {
    /// At the first moment.
    pub fn new(first: &Checkpoint, engine: Engine) -> Result<Replica, MachineError> {
        let mut machine = first.fork()?;
        machine.set_engine(engine)?;
        machine.ram().note_stores();
        Ok(Replica { machine })
    }

    /// The pages that it has stored to itself since it was put to a moment.
    pub fn own_pages(&self) -> Vec<u64> {
        self.machine.ram().take_noted()
    }

    /// Puts it to a moment: `pages` are all pages that differ there from what it has.
    pub fn go_to(
        &mut self,
        state: MachineState,
        pages: &[(u64, PageContent)],
    ) -> Result<(), MachineError> {
        let m = &mut self.machine;
        m.ram().take_noted();
        let base = m.world.ram_base;
        for (at, content) in pages {
            m.ram().write_bytes(*at, content)?;
        }
        let changed: HashSet<u64> = pages.iter().map(|(at, _)| base + at).collect();
        let code: Vec<_> = m.code.iter_mut().map(std::mem::take).collect();
        let mut translators = std::mem::take(&mut m.translators);
        m.load_state(state)?;
        m.samples.forget_sleep();
        for (to, from) in m.code.iter_mut().zip(code) {
            to.succeed(from, &mut m.world.coherence, |page| {
                !changed.contains(&page)
            });
        }
        m.harts.iter_mut().for_each(|h| h.ask_anew());
        translators.iter_mut().for_each(Translator::succeed);
        m.translators = translators;
        Ok(())
    }
}
