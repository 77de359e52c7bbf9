//! The light mode in snapshots.

use super::{Awake, EpochLength, HartEpochs, Light, LightModel, Meeting, Queues, CLASSES, GAPS};
use crate::config::MachineConfig;
use nagori_memtime::BoardParams;
use serde::{Deserialize, Serialize};

/// The light mode as saved in a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::machine) struct SavedLight {
    model: LightModel,
    length: EpochLength,
    counts_only: bool,
    harts: Vec<HartEpochs>,
    meeting: Option<Meeting>,
    queues: Queues,
    awake: Awake,
    sampled: u64,
}

impl SavedLight {
    /// The light mode goes on. `None` if it is not that of such a machine at these cycles.
    pub fn restore(
        self,
        machine: (usize, u64),
        (config, params): (&MachineConfig, &BoardParams),
        counts: impl Iterator<Item = (u64, u64)>,
    ) -> Option<Light> {
        let mut light = Light::new(self.model, self.length, machine, config, params).ok()?;
        light.sample(config, self.counts_only);
        let n = light.model.areas.len();
        let fits = |h: &HartEpochs| {
            let lens = [h.now.len(), h.all.len(), h.behind.len()];
            let some = h.some.iter().all(|i| (*i as usize) < n * CLASSES);
            let lines = h.lines.len() == n * CLASSES && some;
            let board = h.on_board.is_possible();
            lines
                && board
                && lens == [n; 3]
                && h.victim.is_none_or(|c| (c as usize) < GAPS)
                && (h.before as usize) < GAPS
                && h.order.came < 1 << 62
                && h.order.reads.is_possible()
                && h.order.writes.is_possible()
        };
        let mut each = self.harts.iter().zip(counts);
        let begun = each.all(|(h, (cycle, instret))| h.from.0 <= cycle && h.from.1 <= instret);
        let all = self.harts.len() == machine.0 && self.harts.iter().all(fits);
        let queues = self.queues.fits(&light.queues);
        let awake = light.awake.restore(self.awake);
        let met = match (&self.meeting, &light.meeting) {
            (Some(m), Some(_)) => m.is_possible(machine.0, n),
            (a, b) => a.is_none() && b.is_none(),
        };
        light.harts = self.harts;
        light.meeting = self.meeting;
        light.queues = self.queues;
        light.sampled = self.sampled;
        (all && begun && queues && awake && met).then_some(light)
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
            meeting: self.meeting.clone(),
            queues: self.queues.clone(),
            awake: self.awake.clone(),
            sampled: self.sampled,
        }
    }
}
