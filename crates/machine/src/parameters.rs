//! What can change in the memories of a machine while it runs.

use super::{Machine, MachineError};
use nagori_config::Method;

impl Machine {
    /// Selects a delay method from now on.
    pub fn set_method(&mut self, m: Method) -> Result<(), MachineError> {
        let at = self.now();
        self.world.memory.board.set_method(at, m)?;
        Ok(())
    }

    /// Changes parameters of the memory controller from now on, as far as it permits.
    pub fn change_memory(
        &mut self,
        f: impl FnOnce(&mut nagori_memtime::BoardParams),
    ) -> Result<(), MachineError> {
        let mut p = self.world.memory.board.params().clone();
        f(&mut p);
        if p == *self.world.memory.board.params() {
            return Ok(());
        }
        let at = self.now();
        Ok(self.world.memory.board.set_params(at, p)?)
    }

    /// Changes a value of the memory of a region from now on, by its key in the memory's description.
    pub fn set_region_parameter(
        &mut self,
        region: &str,
        key: &str,
        value: &str,
    ) -> Result<(), MachineError> {
        let at = self.now();
        Ok(self.world.memory.set_parameter(at, region, key, value)?)
    }

    /// Values of regions' memories that can change while the machine runs: region, key, value.
    pub fn region_parameters(&self) -> Vec<(String, String, String)> {
        self.world.memory.parameters()
    }
}
