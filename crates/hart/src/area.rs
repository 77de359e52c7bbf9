//! Room in a hart for what an engine keeps.

/// Data inside the hart that translated code reaches by a fixed displacement. It is valid only
/// while an engine runs, and is not part of the hart's state.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Area {
    /// Cycle at which to leave; 0 to leave at the next end of a block.
    pub stop: u64,
    /// First address of the page that the program counter is in.
    pub page: u64,
    /// `page` with the tag of the fetch context: the common part of the page's fetch keys.
    pub page_key: u64,
    /// Distance of the page's first entry in the fetch filter.
    pub fetch_slots: u64,
    /// What the page contributes to the index of a branch in the history table.
    pub page_index: u64,
    /// Identity of the fetch context.
    pub context: u64,
    /// Host address of the table from program counter to code.
    pub jumps: u64,
    /// Host address of the branch history.
    pub bht: u64,
    /// Host address of the branch target buffer.
    pub btb: u64,
    /// Host address of its hash table.
    pub buckets: u64,
    /// Host address of the return addresses.
    pub ras: u64,
    /// Host address of the world.
    pub world: u64,
    /// Host address of the code cache.
    pub code: u64,
    /// Why code was left: see the engine.
    pub exit: u64,
    /// Which link it was left by.
    pub link: u64,
    /// Instruction and block of an exit.
    pub info: u64,
    /// Trap of an exit.
    pub cause: u64,
    /// Trap value of an exit.
    pub tval: u64,
    /// Hart cycle and instructions retired at the entry (functional mode).
    pub entry_cycle: u64,
    /// See `entry_cycle`.
    pub entry_instret: u64,
    /// Whether floating point is on, dirty already, and rounds to nearest even.
    pub fp_ready: u64,
    /// Whether the host's exception flags are the guest's.
    pub fp_live: u64,
    /// The host's control and status register of floating point, on its way.
    pub mxcsr: u64,
    /// Cycles of a wrong prediction at the end of a block, by which its pending results are older. 0 where the code
    /// does not run.
    pub redirect: u64,
}
