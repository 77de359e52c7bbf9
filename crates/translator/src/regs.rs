//! Which guest register is kept in which host register, and the places of all other state.
//!
//! `rax`, `rcx` and `rdx` are free for each instruction; `rbp` points into the
//! hart, `r14` to guest memory; `r15` is the hart's cycle minus the cycle at which
//! to leave, so that one addition and its sign are the whole budget check.

use nagori_hart::engine::{layout, Area};
use std::mem::offset_of;

/// `rbp` points so far behind the start of the hart that the 32 integer registers are
/// within a byte's distance.
pub(crate) const BIAS: usize = layout::X + 128;

const fn at(offset: usize) -> i32 {
    offset as i32 - BIAS as i32
}

/// Distance of integer register `r` from `rbp`.
pub(crate) const fn x(r: u8) -> i32 {
    at(layout::X) + 8 * r as i32
}
/// Distance of floating-point register `r` from `rbp`.
pub(crate) const fn f(r: u8) -> i32 {
    at(layout::F) + 8 * r as i32
}

macro_rules! places {
    ($($name:ident = $offset:expr;)*) => {
        $(pub(crate) const $name: i32 = at($offset);)*
        /// Names of these places, for listings.
        const PLACES: &[(&str, i32)] = &[$((stringify!($name), $name)),*];
    };
}
places! {
    PC = layout::PC;
    CYCLE = layout::CYCLE;
    INSTRET = layout::INSTRET;
    DATA = layout::DATA;
    FETCH = layout::FETCH;
    DCTX = layout::DCTX;
    LAST_WAY = layout::LAST_WAY;
    LAST_STORE = layout::LAST_STORE;
    OLDER_STORE = layout::OLDER_STORE;
    LONG = layout::LONG;
    LATE_LONG = layout::LATE_LONG;
    LATE_DIVISION = layout::LATE_DIVISION;
    LATE = layout::LATE;
    PENDING = layout::PENDING;
    PENDING_FROM = layout::PENDING_FROM;
    HISTORY = layout::HISTORY;
    NEAR_HISTORY = layout::NEAR_HISTORY;
    FRONT = layout::FRONT;
    LANDED = layout::LANDED;
    PASSED = layout::PASSED;
    BUBBLE = layout::BUBBLE;
    BTB_AGE = layout::BTB_AGE;
    MISPREDICTS = layout::MISPREDICTS;
    RAS_TOP = layout::RAS_TOP;
    RAS_LEN = layout::RAS_LEN;
    DTLB_PLRU = layout::DTLB_PLRU;
    DTLB_SUPER_PLRU = layout::DTLB_SUPER_PLRU;
    STOP = layout::AREA + offset_of!(Area, stop);
    PAGE = layout::AREA + offset_of!(Area, page);
    PAGE_KEY = layout::AREA + offset_of!(Area, page_key);
    FETCH_SLOTS = layout::AREA + offset_of!(Area, fetch_slots);
    PAGE_INDEX = layout::AREA + offset_of!(Area, page_index);
    CONTEXT = layout::AREA + offset_of!(Area, context);
    JUMPS = layout::AREA + offset_of!(Area, jumps);
    BHT = layout::AREA + offset_of!(Area, bht);
    BTB = layout::AREA + offset_of!(Area, btb);
    RAS = layout::AREA + offset_of!(Area, ras);
    BUCKETS = layout::AREA + offset_of!(Area, buckets);
    EXIT = layout::AREA + offset_of!(Area, exit);
    LINK = layout::AREA + offset_of!(Area, link);
    INFO = layout::AREA + offset_of!(Area, info);
    FP_READY = layout::AREA + offset_of!(Area, fp_ready);
    FP_LIVE = layout::AREA + offset_of!(Area, fp_live);
    MXCSR = layout::AREA + offset_of!(Area, mxcsr);
    REDIRECT = layout::AREA + offset_of!(Area, redirect);
}

/// Name of what stands at a distance from `rbp`, for listings.
pub(crate) fn place_name(distance: i32) -> Option<String> {
    use nagori_isa::reg::{f_name, x_name};
    let register = |from: i32| u8::try_from(distance.checked_sub(from)? / 8).ok();
    let exact = distance.rem_euclid(8) == x(0).rem_euclid(8);
    if (x(0)..x(32)).contains(&distance) && exact {
        return x_name(register(x(0))?).map(String::from);
    }
    if (f(0)..f(32)).contains(&distance) && exact {
        return f_name(register(f(0))?).map(String::from);
    }
    let filter = |from: i32| (from..from + layout::FILTER as i32).contains(&distance);
    let (name, from) = PLACES.iter().find(|p| p.1 == distance).or_else(|| {
        PLACES
            .iter()
            .find(|p| [DATA, FETCH].contains(&p.1) && filter(p.1))
    })?;
    let name = name.to_lowercase();
    Some(match distance - from {
        0 => name,
        more => format!("{name}+{more:#x}"),
    })
}

/// Guest registers kept in host registers: the stack pointer and those that compressed instructions
/// can name. The numbers are the host's; the first six are lost in calls.
pub(crate) const PINNED: [(u8, u8); 9] = [
    (10, 6),
    (11, 7),
    (12, 8),
    (13, 9),
    (14, 10),
    (15, 11),
    (8, 3),
    (9, 12),
    (2, 13),
];

/// Host register of a guest register.
#[inline]
pub(crate) fn host(r: u8) -> Option<u8> {
    PINNED.iter().find(|p| p.0 == r).map(|p| p.1)
}

pub(crate) const RAX: u8 = 0;
pub(crate) const RCX: u8 = 1;
pub(crate) const RDX: u8 = 2;
