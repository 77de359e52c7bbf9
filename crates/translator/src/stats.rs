//! What the translator has done. Costs of the host, not of the guest: they differ from run to run.

/// Counters of one translator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks translated.
    pub blocks: u64,
    /// Guest instructions in them.
    pub instructions: u64,
    /// Bytes of code made for them.
    pub bytes: u64,
    /// Host time of translation, in nanoseconds.
    pub translate_ns: u64,
    /// Jumps between blocks that were linked.
    pub links: u64,
    /// How often all code was dropped.
    pub emptied: u64,
    /// Bytes of memory for code in use.
    pub code_bytes: u64,
    /// Bytes of memory for code.
    pub code_limit: u64,
    /// Times that code was entered.
    pub entries: u64,
    /// Blocks that were interpreted, being too cold.
    pub interpreted: u64,
    /// Exits because of traps.
    pub traps: u64,
    /// Exits because of devices.
    pub devices: u64,
    /// Blocks that the interpreter finished.
    pub rests: u64,
}
