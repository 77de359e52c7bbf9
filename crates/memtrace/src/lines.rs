//! How accesses become requests of cache lines.

use std::fmt;
use std::str::FromStr;

use crate::record::{Record, LINE};

/// What becomes of an access that begins inside a line and reaches beyond its end.
///
/// Formats without lengths mean [`LINE`] bytes, so that in them every address inside a line is
/// such an access. Ramulator 2, DRAMsim3 and NVMain drop the low bits of the address, which is
/// [`Unaligned::Truncate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unaligned {
    /// One request for each line that it touches.
    #[default]
    Split,
    /// It is moved to the beginning of its first line, and keeps its length.
    Truncate,
    /// An error.
    Refuse,
}

impl Unaligned {
    /// All of them.
    pub const ALL: [Unaligned; 3] = [Unaligned::Split, Unaligned::Truncate, Unaligned::Refuse];

    /// Name on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Unaligned::Split => "split",
            Unaligned::Truncate => "truncate",
            Unaligned::Refuse => "refuse",
        }
    }
}

impl fmt::Display for Unaligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Unaligned {
    type Err = String;
    fn from_str(s: &str) -> Result<Unaligned, String> {
        let found = Unaligned::ALL.into_iter().find(|u| u.name() == s);
        found.ok_or_else(|| "expected split, truncate or refuse".into())
    }
}

/// Whether an access begins inside a line and reaches beyond its end.
#[inline]
pub fn is_unaligned(r: &Record) -> bool {
    let offset = r.addr % u64::from(LINE);
    offset != 0 && offset + u64::from(r.bytes) > u64::from(LINE)
}

/// Subtracts a base from the address of an access. The error says what is wrong with it.
pub fn rebase(r: Record, base: u64) -> Result<Record, String> {
    match r.addr.checked_sub(base) {
        Some(addr) => Ok(Record { addr, ..r }),
        None => Err(format!(
            "the address {:#x} is below the base {base:#x}",
            r.addr
        )),
    }
}

/// Applies the rule to an access, and counts those to which it applies. The error says what is
/// wrong with the access.
pub fn align(r: Record, rule: Unaligned, count: &mut u64) -> Result<Record, String> {
    if !is_unaligned(&r) {
        return Ok(r);
    }
    *count += 1;
    match rule {
        Unaligned::Split => Ok(r),
        Unaligned::Truncate => Ok(Record {
            addr: r.addr & !u64::from(LINE - 1),
            ..r
        }),
        Unaligned::Refuse => Err(format!(
            "the access of {} bytes at {:#x} crosses the end of a line of {LINE} bytes; \
             --unaligned split makes several requests of it, truncate drops the low bits of its address",
            r.bytes, r.addr
        )),
    }
}

/// The parts of an access, one in each line that it touches.
#[inline]
pub fn pieces(r: Record) -> impl Iterator<Item = Record> {
    let mut addr = r.addr;
    let mut left = r.bytes;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let bytes = left.min(LINE - (addr % u64::from(LINE)) as u32);
        let piece = Record { addr, bytes, ..r };
        left -= bytes;
        addr = addr.saturating_add(bytes.into());
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_memtime::request::Kind;
    use proptest::prelude::*;

    fn access(addr: u64, bytes: u32) -> Record {
        Record {
            addr,
            kind: Kind::Read,
            bytes,
            time: 7,
        }
    }

    #[test]
    fn only_accesses_across_an_end_from_inside_are_unaligned() {
        for (addr, bytes, unaligned) in [
            (0, 64, false),
            (0, 65, false),
            (1, 63, false),
            (1, 64, true),
            (63, 1, false),
            (63, 2, true),
            (64, 256, false),
        ] {
            assert_eq!(
                is_unaligned(&access(addr, bytes)),
                unaligned,
                "{addr} {bytes}"
            );
        }
    }

    #[test]
    fn rules_apply_to_unaligned_accesses_only() {
        let mut n = 0;
        for rule in Unaligned::ALL {
            assert_eq!(align(access(8, 8), rule, &mut n), Ok(access(8, 8)));
        }
        assert_eq!(n, 0);
        let crossing = access(0x1010, 64);
        assert_eq!(align(crossing, Unaligned::Split, &mut n), Ok(crossing));
        let moved = align(crossing, Unaligned::Truncate, &mut n);
        assert_eq!(moved, Ok(access(0x1000, 64)));
        let refused = align(crossing, Unaligned::Refuse, &mut n).unwrap_err();
        assert!(refused.contains("64 bytes at 0x1010"), "{refused}");
        assert_eq!(n, 3);
    }

    proptest! {
        #[test]
        fn pieces_are_the_access_and_each_is_in_one_line(addr in 0u64..1 << 40, bytes in 1u32..2000) {
            let all: Vec<_> = pieces(access(addr, bytes)).collect();
            prop_assert_eq!(all.iter().map(|p| p.bytes).sum::<u32>(), bytes);
            let mut at = addr;
            for p in all {
                prop_assert_eq!(p.addr, at);
                prop_assert_eq!(p.addr / 64, (p.addr + u64::from(p.bytes) - 1) / 64);
                at += u64::from(p.bytes);
            }
        }
    }
}
