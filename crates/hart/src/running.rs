//! What counts while a hart runs. Nothing of it is saved but for `stores_before`, within a block.

use crate::events::Mix;

/// After a restore it is as for a new hart.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// Instructions of the block that runs, by kind, up to its last one.
    pub mix_here: Mix,
    /// Whether they are counted in the block that runs.
    pub mix_on: bool,
    /// Offset in memory, size and value of the last lr, where harts run in parallel. Whoever runs them so ends their
    /// reservations first.
    pub loaded: (u64, u8, u64),
    /// Cycles of a wrong prediction at the end of the block that runs; pending results get older during them.
    pub redirect: u64,
    /// Addresses of the last stores at the beginning of the block, if such stores may not be written yet.
    pub stores_before: [u64; 2],
    /// Core cycle from which the memory bus is not to be used: others are behind.
    pub yield_at: u64,
    /// Cycles of waiting for another hart's work on a line, for whoever attributes them.
    pub waited: u64,
    /// What has to wait is the fetch of an instruction's line.
    pub fetch_waits: bool,
    /// What has to wait is the fetch of the line where a block starts.
    pub start_waits: bool,
    /// The line of the next instruction is there: it was fetched before the instruction had to wait.
    pub line_fetched: bool,
    /// Leave the block after this instruction; at its end, come back to whoever runs the hart.
    pub leave: bool,
    /// Look at notices and interrupts before the next block.
    pub recheck: bool,
}

impl Default for Running {
    fn default() -> Self {
        Running {
            mix_here: Mix::default(),
            mix_on: false,
            loaded: (0, 0, 0),
            redirect: 0,
            stores_before: [0; 2],
            yield_at: u64::MAX,
            waited: 0,
            fetch_waits: false,
            start_waits: false,
            line_fetched: false,
            leave: false,
            recheck: true,
        }
    }
}
