//! Machines that go on from one moment of another one, in memory of the host: as with a snapshot, but without a file,
//! and with pages that are shared until they are stored to.

use super::{Machine, MachineError, MachineState, Watching};
use nagori_config::{EpochConfig, Machine as Description};
use nagori_platform::loader::Software;
use nagori_ram::{GuestRam, Kept, PAGE};
use nagori_translator::Translator;
use std::collections::HashMap;
use std::sync::Arc;

/// A machine as it was at some moment, from which any number of machines go on, also in several threads at once.
///
/// As with snapshots, host resources are not part of it: engine, observers, disks, an image of NVMM.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    description: Description,
    /// The epochs of the description, with what was measured.
    epoch: EpochConfig,
    state: MachineState,
    memory: Kept,
    software: Option<Arc<Software>>,
}

impl Machine {
    /// Keeps the machine as it is now. May be called whenever [`Machine::run`] has returned; the run that goes on is
    /// not disturbed.
    pub fn checkpoint(&self) -> Result<Checkpoint, MachineError> {
        if self.within_block() {
            return Err(MachineError::WithinBlock);
        }
        if let Some(part) = self.brought() {
            return Err(MachineError::Brought(part.to_owned()));
        }
        Ok(Checkpoint {
            description: self.description.clone(),
            epoch: EpochConfig {
                variant: self.description.config.epoch.variant,
                ..self.config.epoch.clone()
            },
            state: self.save_state(),
            memory: self.ram().keep()?,
            software: self.software.clone(),
        })
    }
}

impl Checkpoint {
    /// A machine that goes on from here, with the interpreter.
    pub fn fork(&self) -> Result<Machine, MachineError> {
        let ram = GuestRam::from_kept(&self.memory)?;
        let mut description = self.description.clone();
        description.config.epoch = self.epoch.clone();
        let mut machine = Machine::with_ram(&description, ram)?;
        machine.description = self.description.clone();
        machine.load_state(self.state.clone())?;
        machine.set_software(self.software.clone());
        Ok(machine)
    }

    /// As [`Checkpoint::fork`], with the engine of a machine that is not needed any more. If that one has the same
    /// description, what it has decoded and translated is used again, as far as memory is the same there. Accesses are
    /// watched from the start.
    pub fn fork_after(
        &self,
        before: Machine,
        watching: Option<Watching>,
    ) -> Result<Machine, MachineError> {
        let mut machine = self.fork()?;
        machine.watch_accesses(watching);
        if before.description != self.description {
            machine.set_engine(before.engine)?;
            return Ok(machine);
        }
        let Machine {
            world,
            code,
            mut translators,
            engine,
            ..
        } = before;
        let w = &mut *machine.world;
        let (old, new, base) = (&world.ram, &w.ram, w.ram_base);
        let (mut a, mut b) = ([0; PAGE as usize], [0; PAGE as usize]);
        let mut known: HashMap<u64, bool> = HashMap::new();
        let mut same = |page: u64| {
            // Instructions there are reported when they are decoded.
            if w.observers.watches(page, PAGE) {
                return false;
            }
            *known.entry(page).or_insert_with(|| {
                let read = |ram: &GuestRam, to: &mut [u8]| {
                    let offset = page.checked_sub(base);
                    offset.is_some_and(|o| ram.read_bytes(o, to).is_ok())
                };
                read(old, &mut a) && read(new, &mut b) && a == b
            })
        };
        for (to, from) in machine.code.iter_mut().zip(code) {
            to.succeed(from, &mut w.coherence, &mut same);
        }
        for hart in &mut machine.harts {
            hart.ask_anew();
        }
        translators.iter_mut().for_each(Translator::succeed);
        machine.translators = translators;
        machine.engine = engine;
        Ok(machine)
    }

    /// The description of the machine.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The content of its memory.
    pub fn memory(&self) -> &Kept {
        &self.memory
    }

    /// Everything but the content of its memory.
    pub fn state(&self) -> &MachineState {
        &self.state
    }
}
