//! How long `nagori bench mem` measures.

use nagori_terminal::signals::Signals;

/// Numbers that differ between a quick run and a full one.
pub struct Scale<'a> {
    /// A tenth of the requests, once.
    pub quick: bool,
    /// What may end it.
    pub signals: &'a Signals,
    /// Runs of each, if they were asked for.
    pub repeats: Option<u32>,
}

impl Scale<'_> {
    pub fn requests(&self, n: u64) -> u64 {
        if self.quick {
            n / 10
        } else {
            n
        }
    }

    pub fn repeats(&self, n: u32) -> u32 {
        if self.quick {
            1
        } else {
            self.repeats.unwrap_or(n)
        }
    }
}
