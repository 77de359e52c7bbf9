//! The light mode of a machine is chosen and left.

use super::{EpochLength, EpochRow, Light, LightError, LightModel, Log};
use crate::machine::Machine;
use nagori_hart::world::{Observer, Sample};

impl<O: Observer> Machine<O> {
    /// What the light mode needs of the machine.
    fn light_of(
        &self,
        model: LightModel,
        length: EpochLength,
        counts_only: bool,
    ) -> Result<Light, LightError> {
        let machine = (self.harts.len(), self.world.ram.len());
        let params = self.world.memory.board.params();
        let mut light = Light::new(model, length, machine, &self.config, params)?;
        light.sample(&self.config, counts_only);
        Ok(light)
    }

    /// Chooses the light mode for when the timing model is on, with the costs of the memories, from now on.
    ///
    /// # Errors
    /// If the costs are not those of such a machine, or the length is out of range.
    pub fn set_light(&mut self, model: LightModel, length: EpochLength) -> Result<(), LightError> {
        let light = self.light_of(model, length, false)?;
        self.begin_epochs(light);
        Ok(())
    }

    /// Divides the detailed mode into epochs, to be compared with those of the light mode.
    ///
    /// # Errors
    /// As [`Machine::set_light`].
    pub fn count_epochs(
        &mut self,
        model: LightModel,
        length: EpochLength,
    ) -> Result<(), LightError> {
        let light = self.light_of(model, length, true)?;
        self.begin_epochs(light);
        Ok(())
    }

    fn begin_epochs(&mut self, light: Light) {
        self.settle();
        if self.world.timed {
            self.end_waits();
            self.write_stored();
        }
        self.world.light = Some(Box::new(light));
        self.restart_epochs();
    }

    /// Leaves the light mode; the timing model is the detailed one from now on.
    pub fn leave_light(&mut self) {
        self.settle();
        if self.is_light() && self.world.timed {
            self.write_stored();
        }
        self.world.light = None;
        self.restart_epochs();
    }

    /// The harts learn whether there are epochs, and new ones begin.
    pub(in crate::machine) fn restart_epochs(&mut self) {
        for (i, h) in self.harts.iter_mut().enumerate() {
            match &mut self.world.light {
                Some(l) => {
                    let next = l.begin(i, h.cycle, h.instret);
                    h.set_light(!l.counts_only, next);
                    h.sample_time(l.sampled_time);
                    h.sample(l.sample_of(i));
                }
                None => {
                    h.set_light(false, u64::MAX);
                    h.sample(Sample::ALL);
                    h.sample_time(1);
                }
            }
        }
        // Code differs where epochs end within blocks.
        self.translators.iter_mut().for_each(|t| t.forget());
        self.together.iter_mut().for_each(|t| t.forget());
    }

    /// Harts of a snapshot go on with their epochs.
    pub(in crate::machine) fn resume_epochs(&mut self) {
        let light = self.world.light.as_deref();
        for (i, h) in self.harts.iter_mut().enumerate() {
            match light {
                Some(l) => {
                    h.set_light(!l.counts_only, l.harts[i].ends_at());
                    h.keep_sample(l.sample_of(i));
                    h.keep_sample_of_time(l.sampled_time);
                }
                None => {
                    h.set_light(false, u64::MAX);
                    h.sample_time(1);
                }
            }
        }
    }

    /// Whether times are estimated by epochs while the timing model is on.
    pub fn is_light(&self) -> bool {
        self.world.light.as_ref().is_some_and(|l| !l.counts_only)
    }

    /// Keeps every epoch that ends from now on, for [`Machine::take_epochs`].
    pub fn keep_epochs(&mut self) {
        if let Some(l) = &mut self.world.light {
            let seen = self
                .harts
                .iter()
                .map(|h| (h.stats.memory_stall_cycles, h.stats.idle_cycles));
            l.log = Some(Log {
                rows: Vec::new(),
                seen: seen.collect(),
            });
        }
    }

    /// The epochs that have ended since they were kept or taken.
    pub fn take_epochs(&mut self) -> Vec<EpochRow> {
        let log = self.world.light.as_mut().and_then(|l| l.log.as_mut());
        log.map(|l| std::mem::take(&mut l.rows)).unwrap_or_default()
    }
}
