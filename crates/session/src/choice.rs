//! The choice of a machine.

use crate::error::Result;
use nagori_config::{Library, Machine as Description};

/// A machine's description by name or path, with changed values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineChoice {
    /// A name in the library, or a path.
    pub machine: String,
    /// Changes, each as `key=value`.
    pub set: Vec<String>,
}

impl MachineChoice {
    /// The description with its changes; `more` are applied after them.
    pub fn resolve(&self, more: &[String]) -> Result<Description> {
        let mut settings = self.set.clone();
        settings.extend_from_slice(more);
        let library = Library::installed();
        Ok(Description::load(&library, &self.machine, &settings)?)
    }
}
