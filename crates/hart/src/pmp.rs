//! Physical memory protection: entries, matching, locks.

use serde::{Deserialize, Serialize};

/// Kind of access, for permission checks and fault causes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Load.
    Read,
    /// Store or atomic.
    Write,
    /// Instruction fetch.
    Fetch,
}

const R: u8 = 1;
const W: u8 = 2;
const X: u8 = 4;
const LOCK: u8 = 0x80;
const MASK: u8 = 0x9f;

/// How one aligned block relates to the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hit {
    None,
    Full,
    Partial,
}

/// A piece of the address space over which protection is the same.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    from: u64,
    /// In bytes; the last byte of the address space may be missing.
    size: u64,
    /// R, W and X for U and S, and those for M (shifted by [`MACHINE`]).
    rights: u8,
}

const MACHINE: u32 = 4;

impl Piece {
    #[inline(always)]
    fn holds(&self, paddr: u64, len: u64) -> bool {
        let off = paddr.wrapping_sub(self.from);
        off < self.size && self.size - off >= len
    }
}

/// The PMP unit of a hart.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pmp {
    cfg: Vec<u8>,
    addr: Vec<u64>,
    /// Start and end (exclusive) of each active entry, in bytes.
    ranges: Vec<Option<(u64, u64)>>,
    /// Whether any entry is active.
    active: bool,
    /// The piece looked at last; none after a change.
    #[serde(skip)]
    last: Piece,
}

impl Pmp {
    /// `n` entries (0, 16 or 64), all off.
    pub fn new(n: u32) -> Self {
        let n = n as usize;
        Self {
            cfg: vec![0; n],
            addr: vec![0; n],
            ranges: vec![None; n],
            active: false,
            last: Piece::default(),
        }
    }

    /// Whether this is a possible state of a unit like `other`.
    pub(crate) fn fits(&self, other: &Pmp) -> bool {
        let lengths = |p: &Pmp| [p.cfg.len(), p.addr.len(), p.ranges.len()];
        lengths(self) == lengths(other)
    }

    /// Reads pmpcfg register `i` (even on RV64; eight entries each).
    pub fn read_cfg(&self, i: usize) -> u64 {
        (0..8).fold(0, |v, k| {
            v | (*self.cfg.get(i / 2 * 8 + k).unwrap_or(&0) as u64) << (8 * k)
        })
    }

    /// Writes pmpcfg register `i`; locked entries and reserved encodings (W without R) keep their value.
    pub fn write_cfg(&mut self, i: usize, value: u64) {
        for k in 0..8 {
            let Some(c) = self.cfg.get_mut(i / 2 * 8 + k) else {
                break;
            };
            let v = (value >> (8 * k)) as u8 & MASK;
            if *c & LOCK == 0 && v & (R | W) != W {
                *c = v;
            }
        }
        self.rebuild();
    }

    /// Reads pmpaddr register `i`.
    pub fn read_addr(&self, i: usize) -> u64 {
        *self.addr.get(i).unwrap_or(&0)
    }

    /// Writes pmpaddr register `i` unless it is locked, itself or as the base of a locked TOR entry.
    pub fn write_addr(&mut self, i: usize, value: u64) {
        if i >= self.addr.len() {
            return;
        }
        let next_locks = self
            .cfg
            .get(i + 1)
            .is_some_and(|c| c & LOCK != 0 && c >> 3 & 3 == 1);
        if self.cfg[i] & LOCK == 0 && !next_locks {
            self.addr[i] = value & ((1 << 54) - 1);
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        self.active = false;
        self.last = Piece::default();
        for i in 0..self.cfg.len() {
            let a = self.addr[i];
            self.ranges[i] = match self.cfg[i] >> 3 & 3 {
                0 => None,
                1 => {
                    let lo = if i == 0 { 0 } else { self.addr[i - 1] << 2 };
                    Some((lo, a << 2))
                }
                2 => Some((a << 2, (a << 2) + 4)),
                _ => {
                    let ones = (!a).trailing_zeros().min(54);
                    let base = a & !((1u64 << ones) - 1);
                    let size = 8u64 << ones;
                    let lo = base << 2;
                    Some((lo, lo.saturating_add(size)))
                }
            };
            self.active |= self.ranges[i].is_some();
        }
    }

    fn hit(&self, i: usize, lo: u64, len: u64) -> Hit {
        match self.ranges[i] {
            Some((s, e)) if s < e => {
                let hi = lo.saturating_add(len);
                if lo >= s && hi <= e {
                    Hit::Full
                } else if hi <= s || lo >= e {
                    Hit::None
                } else {
                    Hit::Partial
                }
            }
            _ => Hit::None,
        }
    }

    /// Whether an access of `len` bytes is allowed at a privilege (0 U, 1 S, 3 M).
    #[inline]
    pub fn allows(&self, paddr: u64, len: u64, access: Access, privilege: u8) -> bool {
        if !self.active {
            return privilege == 3 || self.cfg.is_empty();
        }
        let need = match access {
            Access::Read => R,
            Access::Write => W,
            Access::Fetch => X,
        };
        for i in 0..self.cfg.len() {
            match self.hit(i, paddr, len) {
                Hit::None => continue,
                Hit::Partial => return false,
                Hit::Full => {
                    let c = self.cfg[i];
                    return (privilege == 3 && c & LOCK == 0) || c & need != 0;
                }
            }
        }
        privilege == 3
    }

    /// As [`allows`](Self::allows), but fast if the last query was in the same piece.
    #[inline(always)]
    pub fn permits(&mut self, paddr: u64, len: u64, access: Access, privilege: u8) -> bool {
        if !self.last.holds(paddr, len) {
            self.last = self.piece(paddr);
            if !self.last.holds(paddr, len) {
                return self.allows(paddr, len, access, privilege);
            }
        }
        let right = match access {
            Access::Read => R,
            Access::Write => W,
            Access::Fetch => X,
        };
        let shift = if privilege == 3 { MACHINE } else { 0 };
        self.last.rights >> shift & right != 0
    }

    /// The piece around an address.
    #[cold]
    #[inline(never)]
    fn piece(&self, paddr: u64) -> Piece {
        let (mut from, mut to) = (0, u64::MAX);
        for (s, e) in self.ranges.iter().flatten().filter(|(s, e)| s < e) {
            for &b in [s, e] {
                if b <= paddr {
                    from = from.max(b);
                } else {
                    to = to.min(b);
                }
            }
        }
        let mut rights = 0;
        for (access, right) in [(Access::Read, R), (Access::Write, W), (Access::Fetch, X)] {
            for (privilege, shift) in [(1, 0), (3, MACHINE)] {
                if self.allows(paddr, 1, access, privilege) {
                    rights |= right << shift;
                }
            }
        }
        Piece {
            from,
            size: to - from,
            rights,
        }
    }

    /// As [`uniform`](Self::uniform), but fast in the piece of the last query.
    #[inline(always)]
    pub fn is_uniform(&self, paddr: u64, len: u64) -> bool {
        self.last.holds(paddr, len) || self.uniform(paddr, len)
    }

    /// Whether one answer holds for every byte of an aligned block.
    pub fn uniform(&self, paddr: u64, len: u64) -> bool {
        !self.active || (0..self.cfg.len()).all(|i| self.hit(i, paddr, len) != Hit::Partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn napot_covers_its_power_of_two() {
        let mut p = Pmp::new(16);
        p.write_addr(0, 0x8000_0000 >> 2 | ((1 << 9) - 1)); // 4 KiB
        p.write_cfg(0, (3 << 3 | R) as u64);
        assert!(p.allows(0x8000_0000, 8, Access::Read, 1));
        assert!(p.allows(0x8000_0ff8, 8, Access::Read, 1));
        assert!(!p.allows(0x8000_1000, 8, Access::Read, 1));
        assert!(!p.allows(0x8000_0ffc, 8, Access::Read, 1));
        assert!(!p.allows(0x8000_0000, 8, Access::Write, 1));
        assert!(p.allows(0x8000_0000, 8, Access::Write, 3));
        assert!(!p.uniform(0x8000_0000, 8192));
        assert!(p.uniform(0x8000_0000, 4096));
    }

    #[test]
    fn all_ones_is_everything() {
        let mut p = Pmp::new(16);
        p.write_addr(0, !0);
        p.write_cfg(0, 0x1f);
        assert!(p.allows(0, 8, Access::Fetch, 0));
        assert!(p.allows(0xffff_ffff_f000, 8, Access::Write, 0));
    }

    #[test]
    fn lowest_entry_wins_and_locks_hold() {
        let mut p = Pmp::new(16);
        p.write_addr(0, 0x1000 >> 2);
        p.write_addr(1, 0x2000 >> 2);
        p.write_cfg(0, (1 << 3 | R) as u64 | ((1 << 3 | LOCK | R) as u64) << 8);
        assert!(p.allows(0x0, 4, Access::Read, 0));
        assert!(!p.allows(0x1000, 4, Access::Write, 3));
        p.write_addr(0, 0);
        assert_eq!(p.read_addr(0), 0x1000 >> 2);
        p.write_cfg(0, 0);
        assert_eq!(p.read_cfg(0) >> 8, (1 << 3 | LOCK | R) as u64);
    }

    proptest! {
        #[test]
        fn pieces_answer_as_the_entries_do(
            entries in prop::collection::vec((0..64u64, any::<u8>()), 1..8),
            asked in prop::collection::vec((0..600u64, 0..4u32, 0..3usize, 0..4u8), 1..40),
        ) {
            let mut p = Pmp::new(8);
            for (i, (a, _)) in entries.iter().enumerate() {
                p.write_addr(i, *a);
            }
            let cfg = entries.iter().rev().fold(0, |v, e| v << 8 | e.1 as u64);
            p.write_cfg(0, cfg & 0x7f7f_7f7f_7f7f_7f7f);
            for (at, log, access, privilege) in asked {
                let len = 1 << log;
                let at = at & !(len - 1);
                let access = [Access::Read, Access::Write, Access::Fetch][access];
                let want = p.allows(at, len, access, privilege);
                prop_assert_eq!(p.permits(at, len, access, privilege), want);
                prop_assert_eq!(p.is_uniform(at, len), p.uniform(at, len));
            }
        }
    }

    #[test]
    fn without_active_entries_only_m_passes() {
        let p = Pmp::new(16);
        assert!(p.allows(0, 4, Access::Read, 3));
        assert!(!p.allows(0, 4, Access::Read, 1));
        assert!(Pmp::new(0).allows(0, 4, Access::Read, 0));
    }
}
