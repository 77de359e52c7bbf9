//! The choice of a machine.

use crate::error::Result;
use nagori_config::{Library, Machine as Description, SlotConfig, SlotKind};

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

    /// As [`MachineChoice::resolve`], with the slots for devices that `add` adds.
    pub(crate) fn resolve_with(
        &self,
        more: &[String],
        add: impl FnOnce(&mut Vec<SlotConfig>) -> Result<()>,
    ) -> Result<Description> {
        let description = self.resolve(more)?;
        let mut slots = description.config.devices.clone();
        add(&mut slots)?;
        if slots == description.config.devices {
            return Ok(description);
        }
        let list: Vec<String> = slots.iter().map(|s| format!("\"{s}\"")).collect();
        let mut settings = more.to_vec();
        settings.push(format!("devices=[{}]", list.join(", ")));
        self.resolve(&settings)
    }
}

/// Adds slots of a kind until so many hold devices that count as such.
pub(crate) fn fill(
    slots: &mut Vec<SlotConfig>,
    kind: SlotKind,
    wanted: usize,
    counts: impl Fn(SlotKind) -> bool,
) {
    let there = slots.iter().filter(|s| counts(s.kind)).count();
    slots.extend((there..wanted).map(|_| SlotConfig::new(kind)));
}
