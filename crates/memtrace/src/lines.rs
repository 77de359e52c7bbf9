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
fn rebase(r: Record, base: u64) -> Result<Record, String> {
    match r.addr.checked_sub(base) {
        Some(addr) => Ok(Record { addr, ..r }),
        None => Err(format!(
            "the address {:#x} is below the base {base:#x}",
            r.addr
        )),
    }
}

/// An access of a trace as its requests are to be made: `base` is subtracted from its address, and
/// the rule applied if it crosses the end of a line, which `count` counts. The error says what is
/// wrong with the access.
#[inline]
pub fn place(r: Record, base: u64, rule: Unaligned, count: &mut u64) -> Result<Record, String> {
    let moved = match base {
        0 => r,
        _ => rebase(r, base)?,
    };
    let placed = if is_unaligned(&moved) {
        align(moved, rule, count)?
    } else {
        moved
    };
    // Whether the access ends within 64-bit addresses is a matter of its address in the trace.
    match (placed.addr + base).checked_add(u64::from(placed.bytes.saturating_sub(1))) {
        Some(_) => Ok(placed),
        None => Err(beyond_the_end(r)),
    }
}

#[cold]
fn beyond_the_end(r: Record) -> String {
    let remedy = if is_unaligned(&r) && r.bytes <= LINE {
        "; --unaligned truncate drops the low bits of its address"
    } else {
        ""
    };
    format!(
        "the access of {} bytes at {:#x} reaches beyond the last address, {:#x}{remedy}",
        r.bytes,
        r.addr,
        u64::MAX
    )
}

/// Applies the rule to an access, and counts those to which it applies. The error says what is
/// wrong with the access.
fn align(r: Record, rule: Unaligned, count: &mut u64) -> Result<Record, String> {
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

/// The parts of an access, one in each line that it touches. Addresses are modulo 2^64; [`place`]
/// refuses accesses for which that matters.
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
        addr = addr.wrapping_add(bytes.into());
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

    #[test]
    fn accesses_beyond_the_last_address_are_refused() {
        let mut n = 0;
        let last = u64::MAX;
        for (addr, bytes, base, rule, fits) in [
            (last, 1, 0, Unaligned::Split, true),
            (last - 63, 64, 0, Unaligned::Split, true),
            (last - 127, 128, 0, Unaligned::Refuse, true),
            (last, 64, 0, Unaligned::Truncate, true),
            (last, 64, 0, Unaligned::Split, false),
            (last - 1, 1 << 20, 0, Unaligned::Split, false),
            (last - 1, 1 << 20, 0, Unaligned::Truncate, false),
            (last - 63, 65, 0, Unaligned::Refuse, false),
            // A base moves no access into the 64-bit addresses.
            (last - 9, 11, 0x1000, Unaligned::Split, false),
            (last - 9, 10, 0x1000, Unaligned::Split, true),
        ] {
            let placed = place(access(addr, bytes), base, rule, &mut n);
            assert_eq!(placed.is_ok(), fits, "{addr:#x} {bytes} {rule}: {placed:?}");
        }
        let told = place(access(last, 64), 0, Unaligned::Split, &mut n).unwrap_err();
        let right = "64 bytes at 0xffffffffffffffff reaches beyond the last address";
        assert!(
            told.contains(right) && told.contains("--unaligned truncate"),
            "{told}"
        );
        let told = place(access(last - 1, 4096), 0, Unaligned::Split, &mut n).unwrap_err();
        assert!(!told.contains("truncate"), "{told}");
    }

    /// Addresses anywhere, and often near an end of the range.
    fn anywhere() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            0..5000u64,
            (0..5000u64).prop_map(|back| u64::MAX - back)
        ]
    }

    fn any_rule() -> impl Strategy<Value = Unaligned> {
        prop::sample::select(Unaligned::ALL.to_vec())
    }

    proptest! {
        #[test]
        fn pieces_are_the_access_and_each_is_in_one_line(addr in anywhere(), bytes in 1u32..2000) {
            let all: Vec<_> = pieces(access(addr, bytes)).collect();
            prop_assert_eq!(all.iter().map(|p| p.bytes).sum::<u32>(), bytes);
            prop_assert!(all.len() as u32 <= bytes.div_ceil(LINE) + 1);
            let mut at = addr;
            for p in all {
                prop_assert_eq!(p.addr, at);
                prop_assert!(p.bytes >= 1 && p.addr % 64 + u64::from(p.bytes) <= 64);
                at = at.wrapping_add(u64::from(p.bytes));
            }
        }

        #[test]
        fn placed_accesses_are_those_of_the_trace(
            addr in anywhere(),
            bytes in 1u32..5000,
            base in prop_oneof![Just(0), anywhere()],
            rule in any_rule(),
        ) {
            let mut count = 0;
            let placed = place(access(addr, bytes), base, rule, &mut count);
            // The expected place in 128 bits, where nothing overflows.
            let wide = i128::from(addr) - i128::from(base);
            let crosses = wide.rem_euclid(64) != 0 && wide.rem_euclid(64) + i128::from(bytes) > 64;
            let first = match rule {
                Unaligned::Truncate if crosses => wide - wide.rem_euclid(64),
                _ => wide,
            };
            let fits = wide >= 0
                && first + i128::from(base) + i128::from(bytes) <= 1 << 64
                && !(crosses && rule == Unaligned::Refuse);
            prop_assert_eq!(placed.is_ok(), fits, "{:?}", placed);
            if let Ok(p) = placed {
                prop_assert_eq!((i128::from(p.addr), p.bytes), (first, bytes));
                prop_assert_eq!(count, u64::from(crosses));
                let pieces: Vec<_> = pieces(p).collect();
                let last = pieces.last().unwrap();
                prop_assert!(last.addr >= p.addr, "it goes round: {:?}", pieces);
            }
        }
    }
}
