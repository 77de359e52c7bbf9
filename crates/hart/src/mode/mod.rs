//! Timing modes: what a hart does besides executing instructions. Each mode is a type without data,
//! in a file of its own; interpreter and engines are compiled once for each mode.
//!
//! The default methods of [`Mode`] do nothing and cost nothing.

mod detailed;
mod functional;

use crate::access::{Place, Wanted};
use crate::block::Block;
use crate::filter::block_shift;
use crate::hart::Hart;
use crate::place::RunPoint;
use crate::pmp::Access;
use crate::preop::PreOp;
use crate::privilege::Privilege;
use crate::trap::{NotNow, Undone};
use crate::world::World;
pub use detailed::{Blocking, Detailed};
pub use functional::Functional;

/// What a hart does besides executing instructions.
pub trait Mode: Copy + 'static {
    /// Whether first-level caches, TLBs and the pipeline are simulated: a block of the data filter
    /// is then a line in L1D, and otherwise a page. Equal to [`Hart::timed`].
    const LINES: bool;
    /// Number of address bits within a block of the data filter.
    const BLOCK_SHIFT: u32 = block_shift(Self::LINES);

    /// The cycle up to which blocks may begin before this is called again.
    #[inline(always)]
    fn stop<W: World>(_h: &mut Hart, _w: &mut W, limit: u64) -> u64 {
        limit
    }

    /// A block begins at `pc`.
    #[inline(always)]
    fn block_begins<W: World>(
        _h: &mut Hart,
        _w: &mut W,
        _ops: &[PreOp],
        _pc: u64,
    ) -> Result<(), NotNow> {
        Ok(())
    }
    /// A block has ended; the hart's time is brought up to date.
    #[inline(always)]
    fn block_ends(_h: &mut Hart, _b: &Block) {}
    /// An instruction is going to be executed.
    #[inline(always)]
    fn fetch<W: World>(_h: &mut Hart, _w: &mut W, _p: &PreOp, _at: RunPoint) -> Result<(), NotNow> {
        Ok(())
    }
    /// An instruction is going to be executed whose line is there: it waits for registers that are on their way.
    #[inline(always)]
    fn uses<W: World>(_h: &mut Hart, _w: &mut W, _p: &PreOp, _at: RunPoint) -> Result<(), NotNow> {
        Ok(())
    }
    /// Whether the hart goes on if a load misses.
    #[inline(always)]
    fn goes_on(_h: &Hart) -> bool {
        false
    }
    /// A load that has missed the filter has been executed.
    #[inline(always)]
    fn load_done(_h: &mut Hart, _p: &PreOp) {}
    /// `fence.i`.
    #[inline(always)]
    fn fetch_anew<W: World>(_h: &mut Hart, _w: &mut W, _at: RunPoint) -> Result<(), NotNow> {
        Ok(())
    }

    /// A load has hit the filter, by an entry of the DTLB.
    #[inline(always)]
    fn load_passed(_h: &mut Hart, _va: u64, _way: u8, _p: &PreOp) {}
    /// A load has missed the filter.
    #[inline(always)]
    fn load_missed(_h: &mut Hart, _va: u64, _p: &PreOp) {}
    /// A store is going to be executed.
    #[inline(always)]
    fn store_begins(_h: &mut Hart, _va: u64) {}
    /// An atomic or a store conditional is going to be executed.
    #[inline(always)]
    fn atomic_begins(_h: &mut Hart, _va: u64, _p: &PreOp) {}
    /// A store has hit the filter, by an entry of the DTLB.
    #[inline(always)]
    fn store_passed(_h: &mut Hart, _va: u64, _way: u8, _p: &PreOp) {}
    /// An atomic has hit the filter, with a line of L1D.
    #[inline(always)]
    fn atomic_passed<W: World>(_h: &mut Hart, _w: &mut W, _index: usize) {}

    /// A conditional branch is resolved.
    #[inline(always)]
    fn branch<W: World>(
        _h: &mut Hart,
        _w: &mut W,
        _pc: u64,
        _target: u64,
        _taken: bool,
        _p: &PreOp,
    ) {
    }
    /// A direct jump is resolved.
    #[inline(always)]
    fn jump(_h: &mut Hart, _pc: u64, _p: &PreOp) {}
    /// An indirect jump is resolved.
    #[inline(always)]
    fn indirect<W: World>(_h: &mut Hart, _w: &mut W, _pc: u64, _target: u64, _p: &PreOp) {}
    /// A multiplication.
    #[inline(always)]
    fn multiply(_h: &mut Hart, _p: &PreOp, _rs1: u64) {}
    /// A division.
    #[inline(always)]
    fn divide(_h: &mut Hart, _p: &PreOp, _a: u64, _b: u64) {}
    /// A computation of floating point, with its first two operands.
    #[inline(always)]
    fn floated(_h: &mut Hart, _p: &PreOp, _operands: [u64; 2]) {}

    /// An action that other harts can observe is going to happen.
    #[inline(always)]
    fn visible<W: World>(_h: &mut Hart, _w: &mut W, _at: RunPoint) -> Result<(), NotNow> {
        Ok(())
    }
    /// A device is going to be accessed.
    #[inline(always)]
    fn device<W: World>(_h: &mut Hart, _w: &mut W, _pa: u64, _at: RunPoint) -> Result<(), NotNow> {
        Ok(())
    }

    /// Something is going to be executed by which others learn of the hart's progress.
    #[inline(always)]
    fn hands_over<W: World>(_h: &mut Hart, _w: &mut W, _at: RunPoint) -> Result<(), NotNow> {
        Ok(())
    }

    /// An atomic is going to be executed.
    #[inline(always)]
    fn synchronizes<W: World>(_h: &mut Hart, _w: &mut W, _at: RunPoint) -> Result<(), NotNow> {
        Ok(())
    }
    /// A `fence` with such an immediate is going to be executed.
    #[inline(always)]
    fn fence<W: World>(_h: &mut Hart, _w: &mut W, _imm: i32, _at: RunPoint) -> Result<(), NotNow> {
        Ok(())
    }
    /// All that the hart has stored has to be visible.
    #[inline(always)]
    fn drains<W: World>(_h: &mut Hart, _w: &mut W, _at: RunPoint) -> Result<(), NotNow> {
        Ok(())
    }
    /// A hint of Zihintntl at a pc, in front of a load or store.
    #[inline(always)]
    fn hint<W: World>(_h: &mut Hart, _w: &mut W, _p: &PreOp, _pc: u64) {}
    /// A store that has missed the filter, where stores are buffered. The offset in memory; `None` if nothing was done.
    #[inline(always)]
    fn buffer_store<W: World>(
        _h: &mut Hart,
        _w: &mut W,
        _want: Wanted,
        _value: u64,
        _at: RunPoint,
    ) -> Result<Option<u64>, Undone> {
        Ok(None)
    }
    /// A load that has missed the filter: offset in memory and value, if it is of a store that is buffered.
    #[inline(always)]
    fn forward<W: World>(
        _h: &mut Hart,
        _w: &mut W,
        _want: Wanted,
        _at: RunPoint,
    ) -> Result<Option<(u64, u64)>, Undone> {
        Ok(None)
    }
    /// The location of an aligned data access. The access may happen after this.
    fn resolve<W: World>(
        h: &mut Hart,
        w: &mut W,
        want: Wanted,
        at: RunPoint,
    ) -> Result<Place, Undone>;
    /// Physical address of a virtual one.
    fn translate<W: World>(
        h: &mut Hart,
        w: &mut W,
        va: u64,
        access: Access,
        p: Privilege,
        at: RunPoint,
    ) -> Result<u64, Undone>;
    /// Whether a block of the filter holds decoded code; `lines` are the lines of its page marked
    /// as code.
    fn marked(lines: u64, pa: u64) -> bool;
    /// A filter slot is about to be used for a line of L1D and a way of the DTLB. Returns false if
    /// it must not be.
    #[inline(always)]
    fn claim<W: World>(
        _h: &mut Hart,
        _w: &mut W,
        _pa: u64,
        _block: (usize, usize, u8),
        _at: RunPoint,
    ) -> bool {
        true
    }

    /// A whole line is stored to.
    #[inline(always)]
    fn own_line<W: World>(
        _h: &mut Hart,
        _w: &mut W,
        _pa: u64,
        _at: RunPoint,
    ) -> Result<(), NotNow> {
        Ok(())
    }
    /// A line leaves L1D.
    #[inline(always)]
    fn flush_line<W: World>(
        _h: &mut Hart,
        _w: &mut W,
        _line: u64,
        _at: RunPoint,
    ) -> Result<(), NotNow> {
        Ok(())
    }
    /// All lines leave L1D.
    #[inline(always)]
    fn flush_all<W: World>(_h: &mut Hart, _w: &mut W, _at: RunPoint) -> Result<(), NotNow> {
        Ok(())
    }
    /// A line is written back if any cache has it modified and, unless `keep`, leaves all caches.
    #[inline(always)]
    fn clean_line<W: World>(
        _h: &mut Hart,
        _w: &mut W,
        _line: u64,
        _keep: bool,
        _at: RunPoint,
    ) -> Result<(), NotNow> {
        Ok(())
    }
}
