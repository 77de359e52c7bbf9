//! The light mode in snapshots.

use super::{EpochLength, HartEpochs, Light, LightModel, Queues, CLASSES, GAPS};
use crate::config::epoch::EpochConfig;
use nagori_memtime::{Method, Period};
use serde::{Deserialize, Serialize};

/// The light mode as saved in a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::machine) struct SavedLight {
    model: LightModel,
    length: EpochLength,
    counts_only: bool,
    harts: Vec<HartEpochs>,
    queues: Queues,
}

impl SavedLight {
    /// The light mode goes on. `None` if it is not that of such a machine at these cycles.
    pub fn restore(
        self,
        machine: (usize, u64),
        (period, method, sample): (Period, Method, &EpochConfig),
        counts: impl Iterator<Item = (u64, u64)>,
    ) -> Option<Light> {
        let mut light = Light::new(self.model, self.length, machine, period, method).ok()?;
        let n = light.model.areas.len();
        let fits = |h: &HartEpochs| {
            let lens = [h.now.len(), h.all.len(), h.behind.len()];
            let some = h.some.iter().all(|i| (*i as usize) < n * CLASSES);
            let lines = h.lines.len() == n * CLASSES && some;
            let banks = h.banks.fits(&light.harts[0].banks);
            lines
                && banks
                && lens == [n; 3]
                && h.victim.is_none_or(|c| (c as usize) < GAPS)
                && (h.before as usize) < GAPS
        };
        let mut each = self.harts.iter().zip(counts);
        let begun = each.all(|(h, (cycle, instret))| h.from.0 <= cycle && h.from.1 <= instret);
        let all = self.harts.len() == machine.0 && self.harts.iter().all(fits);
        let queues = self.queues.fits(&light.queues);
        light.harts = self.harts;
        light.queues = self.queues;
        light.sample(sample, self.counts_only);
        (all && begun && queues).then_some(light)
    }
}

impl Light {
    /// The epochs as saved in a snapshot.
    pub fn save(&self) -> SavedLight {
        SavedLight {
            model: self.model.clone(),
            length: self.length,
            counts_only: self.counts_only,
            harts: self.harts.clone(),
            queues: self.queues.clone(),
        }
    }
}
