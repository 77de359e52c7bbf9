//! The table from program counter to code.

/// Entries of the table from program counter to code.
pub(crate) const JUMP_ENTRIES: usize = 4096;

/// An entry of that table.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Jump {
    pub pc: u64,
    pub context: u64,
    pub code: u64,
    /// What [`Block::meets`](nagori_hart::Block::meets) says of the code there.
    pub meets: u64,
}

/// Which entry is that of a pc.
pub(crate) fn jump_slot(pc: u64) -> usize {
    (pc >> 1) as usize & (JUMP_ENTRIES - 1)
}

/// A pc is never odd.
pub(crate) const NO_JUMP: Jump = Jump {
    pc: 1,
    context: 0,
    code: 0,
    meets: 0,
};
