//! Debug triggers (RISC-V Debug Specification 1.0, Sdtrig): breakpoints on addresses of
//! instructions, loads and stores, for software that runs on the hart.
//!
//! Every trigger is of type mcontrol6 or disabled, fires before the instruction, and raises a
//! breakpoint exception. To prevent exceptions in handlers, the first of the methods that the
//! specification permits is used: in machine mode nothing fires while MIE is 0, nor in supervisor
//! mode while SIE is 0 if breakpoints are delegated to it. So there is no `tcontrol`.
//!
//! While no trigger can fire, nothing is checked. Blocks (a page in functional mode, a line in
//! timed mode) that a data trigger may match are not installed in the filter, so accesses to them
//! reach [`Hart::data_trigger`]; [`Hart::fetch_trigger`] checks blocks of instructions before they
//! run, and translated code has no links while there are execute triggers.

use crate::preop::{PreOp, ILLEGAL_LEN};
use nagori_isa::inst_len;
use serde::{Deserialize, Serialize};

const TYPE: u32 = 60;
const MCONTROL6: u64 = 6;
const DISABLED: u64 = 15;

pub(crate) const LOAD: u64 = 1;
pub(crate) const STORE: u64 = 1 << 1;
pub(crate) const EXECUTE: u64 = 1 << 2;
pub(crate) const U: u64 = 1 << 3;
pub(crate) const S: u64 = 1 << 4;
pub(crate) const M: u64 = 1 << 6;
const MATCH: u32 = 7;
const SIZE: u32 = 16;
/// It fired before the instruction.
pub(crate) const HIT0: u64 = 1 << 22;

/// Values of the field `match`.
mod compare {
    pub const EQUAL: u64 = 0;
    pub const NAPOT: u64 = 1;
    pub const AT_LEAST: u64 = 2;
    pub const BELOW: u64 = 3;
    pub const MASK_LOW: u64 = 4;
    pub const MASK_HIGH: u64 = 5;
    /// Added to the first two and the last two: they do not match.
    pub const NOT: u64 = 8;
}

/// Version 1.0; types mcontrol6 and disabled.
const TINFO: u64 = 1 << 24 | 1 << MCONTROL6 | 1 << DISABLED;

/// One trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trigger {
    pub(crate) data1: u64,
    data2: u64,
}

/// What `tdata1` becomes when it is written: everything that cannot be is 0.
fn legal(value: u64) -> u64 {
    if value >> TYPE != MCONTROL6 {
        return DISABLED << TYPE;
    }
    let mut v = MCONTROL6 << TYPE | value & (HIT0 | M | S | U | EXECUTE | STORE | LOAD);
    let kind = value >> MATCH & 15;
    if kind <= compare::MASK_HIGH || matches!(kind, 8 | 9 | 12 | 13) {
        v |= kind << MATCH;
    }
    let size = value >> SIZE & 7;
    if matches!(size, 1..=3 | 5) {
        v |= size << SIZE;
    }
    v
}

impl Trigger {
    fn new() -> Trigger {
        Trigger {
            data1: DISABLED << TYPE,
            data2: 0,
        }
    }

    /// For which of loads, stores and instructions it may fire at all.
    fn kinds(&self) -> u64 {
        let on = self.data1 >> TYPE == MCONTROL6 && self.data1 & (M | S | U) != 0;
        if on {
            self.data1 & (LOAD | STORE | EXECUTE)
        } else {
            0
        }
    }

    fn compare(&self) -> u64 {
        self.data1 >> MATCH & 15
    }

    /// Whether it may fire for an access, or for an instruction of that length at its address.
    pub(crate) fn wants(&self, kinds: u64, first: u64, bytes: u64) -> bool {
        let compared = if kinds == EXECUTE { 1 } else { bytes };
        self.kinds() & kinds != 0 && self.sized(bytes) && self.matches(first, compared)
    }

    /// Whether an access of some bytes matches: any of its addresses.
    fn matches(&self, first: u64, bytes: u64) -> bool {
        let want = self.data2;
        let last = first.wrapping_add(bytes - 1);
        let kind = self.compare() & !compare::NOT;
        let (mask, low) = (want >> 32, want & 0xffff_ffff);
        let mut all = (0..bytes).map(|k| first.wrapping_add(k));
        let found = match kind {
            compare::EQUAL => want.wrapping_sub(first) < bytes,
            compare::NAPOT => {
                // From the lowest 0 of tdata2 on down, everything matches.
                let mask = want ^ want.wrapping_add(1);
                (want & !mask).wrapping_sub(first) < bytes || (first ^ want) & !mask == 0
            }
            compare::AT_LEAST => first.max(last) >= want,
            compare::BELOW => first.min(last) < want,
            compare::MASK_LOW => all.any(|a| a & mask == low),
            compare::MASK_HIGH => all.any(|a| a >> 32 & mask == low),
            _ => false,
        };
        found != (self.compare() & compare::NOT != 0)
    }

    /// Whether an access anywhere in an aligned block may match; rather yes than no.
    fn may_match(&self, base: u64, bytes: u64) -> bool {
        match self.compare() {
            compare::EQUAL | compare::NAPOT | compare::AT_LEAST | compare::BELOW => {
                self.matches(base, bytes)
            }
            _ => true,
        }
    }

    /// Whether it is for accesses or instructions of that many bytes.
    fn sized(&self, bytes: u64) -> bool {
        match self.data1 >> SIZE & 7 {
            0 => true,
            5 => bytes == 8,
            n => bytes == 1 << (n - 1),
        }
    }
}

/// The triggers of a hart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Triggers {
    pub(crate) list: Vec<Trigger>,
    /// Register `tselect`.
    selected: usize,
    /// For what any trigger may fire: LOAD, STORE, EXECUTE.
    #[serde(skip)]
    pub(crate) kinds: u64,
}

impl Triggers {
    /// As after reset: all of them disabled.
    pub fn new(count: u32) -> Triggers {
        Triggers {
            list: vec![Trigger::new(); count as usize],
            selected: 0,
            kinds: 0,
        }
    }

    /// Whether this can be the state of triggers like others.
    pub fn fits(&self, new: &Triggers) -> bool {
        let sane = |t: &Trigger| legal(t.data1) == t.data1;
        let fits = self.list.len() == new.list.len() && self.list.iter().all(sane);
        fits && self.selected < self.list.len().max(1)
    }

    /// To be done when triggers have changed.
    pub fn count_kinds(&mut self) {
        self.kinds = self.list.iter().fold(0, |k, t| k | t.kinds());
    }

    /// Whether any trigger may fire for an instruction.
    #[inline(always)]
    pub fn executes(&self) -> bool {
        self.kinds & EXECUTE != 0
    }

    /// Whether any trigger may fire for an access to an aligned block.
    #[inline(always)]
    pub fn watches(&self, base: u64, bytes: u64) -> bool {
        self.kinds & (LOAD | STORE) != 0 && self.watches_block(base, bytes)
    }

    #[cold]
    fn watches_block(&self, base: u64, bytes: u64) -> bool {
        let mut data = self.list.iter().filter(|t| t.kinds() & (LOAD | STORE) != 0);
        data.any(|t| t.may_match(base, bytes))
    }

    /// A register from `tselect` (0x7a0) to `tinfo` (0x7a4).
    pub fn read(&self, number: u16) -> u64 {
        let Some(t) = self.list.get(self.selected) else {
            return 0;
        };
        match number {
            0x7a0 => self.selected as u64,
            0x7a1 => t.data1,
            0x7a2 => t.data2,
            0x7a4 => TINFO,
            // tdata3 could name contexts, of which there are none.
            _ => 0,
        }
    }

    /// Writes a register. Whether triggers for data, and whether such for instructions changed.
    pub(crate) fn write(&mut self, number: u16, value: u64) -> (bool, bool) {
        if number == 0x7a0 {
            if value < self.list.len() as u64 {
                self.selected = value as usize;
            }
            return (false, false);
        }
        let Some(t) = self.list.get_mut(self.selected) else {
            return (false, false);
        };
        let before = *t;
        match number {
            0x7a1 => t.data1 = legal(value),
            0x7a2 => t.data2 = value,
            _ => {}
        }
        let kinds = before.kinds() | t.kinds();
        // Who has fired is nobody's business here.
        let same = (before.data1 ^ t.data1) & !HIT0 == 0 && before.data2 == t.data2;
        self.count_kinds();
        let changed = |k: u64| !same && kinds & k != 0;
        (changed(LOAD | STORE), changed(EXECUTE))
    }
}

/// Address and length of an instruction of the block at `pc`.
pub(crate) fn place(p: &PreOp, pc: u64) -> (u64, u64) {
    let len = match p.len {
        ILLEGAL_LEN => inst_len(p.imm as u16),
        len => len,
    };
    (pc.wrapping_add(p.off as u64), len as u64)
}
