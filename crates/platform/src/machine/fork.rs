//! Machines that go on from one moment of another one, in memory of the host: as with a snapshot, but without a file,
//! and with pages that are shared until they are stored to.

use super::{Machine, MachineError, MachineState};
use crate::config::Machine as Description;
use crate::loader::Software;
use nagori_hart::world::Observer;
use nagori_ram::{GuestRam, Kept};
use std::sync::Arc;

/// A machine as it was at some moment, from which any number of machines go on, also in several threads at once.
///
/// As with snapshots, host resources are not part of it: engine, observers, disks, an image of NVMM.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    description: Description,
    state: MachineState,
    memory: Kept,
    software: Option<Arc<Software>>,
}

impl<O: Observer> Machine<O> {
    /// Keeps the machine as it is now. May be called whenever [`Machine::run`] has returned; the run that goes on is
    /// not disturbed.
    pub fn checkpoint(&self) -> Result<Checkpoint, MachineError> {
        if self.within_block() {
            return Err(MachineError::WithinBlock);
        }
        Ok(Checkpoint {
            description: self.description.clone(),
            state: self.save_state(),
            memory: self.ram().keep()?,
            software: self.software.clone(),
        })
    }
}

impl Checkpoint {
    /// A machine that goes on from here, with the interpreter.
    pub fn fork<O: Observer>(&self, observer: O) -> Result<Machine<O>, MachineError> {
        let ram = GuestRam::from_kept(&self.memory)?;
        let mut machine = Machine::with_ram(&self.description, ram, observer)?;
        machine.load_state(self.state.clone())?;
        machine.set_software(self.software.clone());
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
