//! GDB's remote protocol, from the side of the debugged machine.
//!
//! [`frame`] has the packets, [`request`] what they ask for, [`Stub`] the session: it takes bytes, has a
//! [`Target`] do what they ask for, and makes bytes. Nothing here waits or knows sockets, and nothing that
//! a debugger sends ends a session but a request to end it.

pub mod frame;
pub mod request;
mod stub;
#[cfg(test)]
mod tests;
#[doc(hidden)]
pub mod toy;

pub use stub::Stub;

use std::ops::Range;

/// Greatest number of bytes of a packet's content, in both directions.
pub const PACKET: usize = 16 << 10;
/// Number of registers of a `g` packet: x0 to x31 and pc.
pub const GENERAL: u32 = 33;

/// A place to stop at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// Before an instruction.
    Break {
        /// Its virtual address.
        pc: u64,
    },
    /// After an access to a range of virtual addresses.
    Watch {
        /// Which accesses.
        kind: WatchKind,
        /// First byte.
        addr: u64,
        /// Bytes, at least one.
        len: u64,
    },
}

/// What a watchpoint watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKind {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// Both.
    Access,
}

/// Why a machine that ran for a debugger does not run any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// A hart is at a breakpoint.
    Break {
        /// The hart.
        hart: usize,
        /// The address.
        pc: u64,
    },
    /// A hart has made a watched access.
    Watch {
        /// The hart.
        hart: usize,
        /// The watchpoint's kind.
        kind: WatchKind,
        /// The watchpoint's first byte.
        addr: u64,
    },
    /// A hart's step is done.
    Step {
        /// The hart.
        hart: usize,
    },
    /// The guest has ended the run.
    Off(u32),
    /// The host has.
    Over,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The debugger has detached.
    Detached,
    /// It wants the run to end.
    Killed,
}

/// What a session does with a machine.
pub trait Target {
    /// Number of harts, at least one.
    fn harts(&self) -> usize;
    /// The description of the registers, in GDB's XML.
    fn description(&mut self) -> String;
    /// Bytes of a register in the protocol, at most 8; `None` if the number has no register.
    fn width(&self, register: u32) -> Option<usize>;
    /// A register's value.
    fn register(&mut self, hart: usize, register: u32) -> Option<u64>;
    /// Sets a register; whether that is possible.
    fn set_register(&mut self, hart: usize, register: u32, value: u64) -> bool;
    /// Reads memory as a hart sees it; how many bytes of the beginning could be read.
    fn peek(&self, hart: usize, addr: u64, to: &mut [u8]) -> usize;
    /// Writes memory as a hart sees it; how many bytes of the beginning could be written.
    fn poke(&mut self, hart: usize, addr: u64, from: &[u8]) -> usize;
    /// Adds a place that is not there yet, or removes one that is; whether that is possible.
    fn point(&mut self, at: Point, add: bool) -> bool;
    /// The machine is to run until it halts; these harts step, through a range each.
    fn resume(&mut self, steps: &[(usize, Range<u64>)]);
    /// A short description of a hart.
    fn describe(&self, hart: usize) -> String;
    /// Executes a `monitor` command, and returns its output.
    fn monitor(&mut self, hart: usize, command: &str) -> String;
}
