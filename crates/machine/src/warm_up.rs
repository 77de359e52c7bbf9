//! Warm-ups: instructions that run with the timing model before statistics begin.

use super::Machine;
use serde::{Deserialize, Serialize};

/// How warm-ups went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmUps {
    /// Warm-ups that ended; then statistics were reset.
    pub ended: u64,
    /// Warm-ups that had not ended when the timing model was turned off: statistics of that time
    /// cover the warm-up itself.
    pub cut: u64,
    /// Whether one is on now.
    #[serde(skip)]
    pub open: bool,
}

impl WarmUps {
    /// There was none.
    pub(super) fn is_none(&self) -> bool {
        *self == WarmUps::default()
    }
}

impl Machine {
    /// Number of instructions (of all harts) that warm up caches, TLBs, predictors and row buffers
    /// when the timing model is turned on; 0: none. They run with the timing model, and after them
    /// statistics are reset. Begins at once if the timing model is on.
    pub fn set_warm_up(&mut self, instructions: u64) {
        self.world.control.warm_up = instructions;
        self.begin_warm_up();
    }

    /// How the warm-ups so far went.
    pub fn warm_ups(&self) -> WarmUps {
        WarmUps {
            open: self.warm_at.is_some(),
            ..self.warm_ups
        }
    }

    pub(super) fn begin_warm_up(&mut self) {
        let n = self.world.control.warm_up;
        let on = self.world.timed && n > 0;
        self.warm_at = on.then(|| self.instructions().saturating_add(n));
    }

    /// Instructions until everything is warm; at that point statistics are reset.
    pub(super) fn warm_left(&mut self) -> u64 {
        let Some(at) = self.warm_at else {
            return u64::MAX;
        };
        match at.saturating_sub(self.instructions()) {
            0 => {
                self.warm_at = None;
                self.warm_ups.ended += 1;
                self.reset_stats();
                u64::MAX
            }
            left => left,
        }
    }
}
