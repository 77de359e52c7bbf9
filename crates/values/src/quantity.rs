//! Sizes, times, counts, and numbers with other units.

use std::ops::{Bound, RangeBounds};

use crate::number::{scan, NotWhole};

/// A quantity that is a whole number of a base unit.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// What it is, for messages: "size".
    name: &'static str,
    /// Its units, each with its value in base units.
    units: &'static [(&'static str, u64)],
    /// The base unit in words: "bytes".
    base: &'static str,
    /// How one is written.
    example: &'static str,
}

/// Sizes and addresses, in bytes.
pub const SIZE: Kind = Kind {
    name: "size",
    units: &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ],
    base: "bytes",
    example: "64 KiB",
};

/// Times, in picoseconds.
pub const TIME: Kind = Kind {
    name: "time",
    units: &[
        ("s", 1_000_000_000_000),
        ("ms", 1_000_000_000),
        ("us", 1_000_000),
        ("ns", 1000),
        ("ps", 1),
    ],
    base: "picoseconds",
    example: "12.5 us",
};

/// Why a text is no quantity of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It does not begin with a number.
    Number,
    /// The number has no unit, and needs one.
    Unit,
    /// The unit is none of the kind.
    UnknownUnit(String),
    /// It is no whole number of base units.
    Fraction,
    /// It does not fit into 64 bits.
    Large,
}

impl Kind {
    /// The value of a unit in base units.
    pub fn unit(&self, name: &str) -> Option<u64> {
        self.units.iter().find(|u| u.0 == name).map(|u| u.1)
    }

    /// Reads a number with a unit, in base units; `plain` is the value of a number without unit.
    pub fn value(&self, text: &str, plain: Option<u64>) -> Result<u64, Wrong> {
        let (number, unit) = scan(text.trim_end()).ok_or(Wrong::Number)?;
        let scale = match unit {
            "" => plain.ok_or(Wrong::Unit)?,
            _ => self
                .unit(unit)
                .ok_or_else(|| Wrong::UnknownUnit(unit.to_owned()))?,
        };
        number.times(scale).map_err(|e| match e {
            NotWhole::Fraction => Wrong::Fraction,
            NotWhole::Large => Wrong::Large,
        })
    }

    /// As [`Kind::value`], with an error in words, which says what was wrong and what would be right.
    pub fn read(&self, text: &str, plain: Option<u64>) -> Result<u64, String> {
        self.value(text, plain).map_err(|wrong| {
            let names: Vec<_> = self.units.iter().map(|u| u.0).collect();
            let why = match wrong {
                Wrong::Number => String::new(),
                Wrong::Unit => ", it has no unit".to_owned(),
                Wrong::UnknownUnit(unit) => format!(", `{unit}` is none of its units"),
                Wrong::Fraction => format!(", it is no whole number of {}", self.base),
                Wrong::Large => format!(", it is more than 2^64 {}", self.base),
            };
            let plain = match plain.map(|p| self.units.iter().find(|u| u.1 == p)) {
                None => String::new(),
                Some(Some((unit, _))) => format!(" (without unit: {unit})"),
                Some(None) => " (or none)".to_owned(),
            };
            format!(
                "`{text}` is no {}{why}: expected a number and one of {}{plain}, such as \"{}\"",
                self.name,
                names.join(", "),
                self.example
            )
        })
    }
}

/// The ends of a range of counts, both inclusive.
fn ends(range: &impl RangeBounds<u64>, most: u64) -> (u64, u64) {
    let low = match range.start_bound() {
        Bound::Included(&n) => n,
        Bound::Excluded(&n) => n.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let high = match range.end_bound() {
        Bound::Included(&n) => n,
        Bound::Excluded(&n) => n.saturating_sub(1),
        Bound::Unbounded => most,
    };
    (low, high.min(most))
}

/// Reads a count: a whole number in `range`, as `1000000`, `1e6`, `1_000_000` or `0xf4240`.
pub fn count<T>(text: &str, range: impl RangeBounds<u64>) -> Result<T, String>
where
    T: TryFrom<u64> + Limit,
{
    let (low, high) = ends(&range, T::MOST);
    let expected = format!("expected a whole number from {low} to {high}");
    let number = match scan(text.trim_end()) {
        Some((n, "")) => n.times(1),
        Some((_, unit)) => {
            return Err(format!(
                "`{text}` is no number, `{unit}` is too much: {expected}"
            ))
        }
        None => return Err(format!("`{text}` is no number: {expected}")),
    };
    match number {
        Ok(n) if (low..=high).contains(&n) => {
            T::try_from(n).map_err(|_| format!("{text} is not possible: {expected}"))
        }
        Err(NotWhole::Fraction) => Err(format!("{text} is no whole number: {expected}")),
        _ => Err(format!("{text} is not possible: {expected}")),
    }
}

/// Integers that counts can be.
pub trait Limit {
    /// The largest count.
    const MOST: u64;
}

macro_rules! limits {
    ($($t:ty),*) => { $(impl Limit for $t { const MOST: u64 = <$t>::MAX as u64; })* };
}
limits!(u8, u16, u32, u64, usize, i32, i64);

/// Reads a number that may have a fraction, in `range`.
pub fn real(text: &str, range: impl RangeBounds<f64>) -> Result<f64, String> {
    let (low, high) = (range.start_bound(), range.end_bound());
    let expected = || {
        let low = match low {
            Bound::Included(n) => format!(" from {n}"),
            Bound::Excluded(n) => format!(" above {n}"),
            Bound::Unbounded => String::new(),
        };
        let high = match high {
            Bound::Included(n) => format!(" to {n}"),
            Bound::Excluded(n) => format!(" below {n}"),
            Bound::Unbounded => String::new(),
        };
        format!("expected a number{low}{high}")
    };
    match scan(text.trim_end()) {
        Some((n, "")) if range.contains(&n.real()) => Ok(n.real()),
        Some((_, "")) => Err(format!("{text} is not possible: {}", expected())),
        _ => Err(format!("`{text}` is no number: {}", expected())),
    }
}

/// A unit of a physical quantity and its value in base units.
pub type Unit = (&'static str, f64);

/// Reads a number followed by one of `units`, in the base unit (the first).
pub fn measure(text: &str, units: &[Unit]) -> Result<f64, String> {
    let wrong = || {
        let names: Vec<_> = units.iter().map(|u| u.0).collect();
        format!(
            "`{text}` is not possible: expected a number and one of {}",
            names.join(", ")
        )
    };
    let (number, unit) = scan(text.trim_end()).ok_or_else(wrong)?;
    let &(_, scale) = units.iter().find(|u| u.0 == unit).ok_or_else(wrong)?;
    let value = number.real() * scale;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(wrong())
    }
}

/// A message of serde with the names of integer types in words: "expected u32" says nothing to
/// somebody who wrote a description.
pub fn types_in_words(message: &str) -> String {
    const TYPES: [(&str, i128, i128); 9] = [
        ("u8", 0, u8::MAX as i128),
        ("u16", 0, u16::MAX as i128),
        ("u32", 0, u32::MAX as i128),
        ("u64", 0, u64::MAX as i128),
        ("usize", 0, usize::MAX as i128),
        ("i8", i8::MIN as i128, i8::MAX as i128),
        ("i32", i32::MIN as i128, i32::MAX as i128),
        ("i64", i64::MIN as i128, i64::MAX as i128),
        ("f64", 0, 0),
    ];
    let Some((before, after)) = message.split_once("expected ") else {
        return message.to_owned();
    };
    let end = after
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(after.len());
    let (name, rest) = after.split_at(end);
    match TYPES.iter().find(|t| t.0 == name) {
        Some(("f64", ..)) => format!("{before}expected a number{rest}"),
        Some((_, low, high)) => {
            format!("{before}expected a whole number from {low} to {high}{rest}")
        }
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_and_times() {
        for (text, bytes) in [
            ("4096", 4096),
            ("0x1000", 4096),
            ("64KiB", 65_536),
            ("64 KiB", 65_536),
            ("1.5 GiB", 3 << 29),
            ("1e3 B", 1000),
            ("16777215 TiB", 16_777_215 << 40),
        ] {
            assert_eq!(SIZE.read(text, Some(1)), Ok(bytes), "{text}");
        }
        assert_eq!(SIZE.read("300", Some(1 << 20)), Ok(300 << 20));
        assert_eq!(SIZE.read("300 KiB", Some(1 << 20)), Ok(300 << 10));
        assert_eq!(TIME.read("7.5 us", None), Ok(7_500_000));
        for (text, what) in [
            ("", "`` is no size: expected a number and one of B, KiB"),
            ("much", "`much` is no size: expected"),
            ("1 GB", "`GB` is none of its units"),
            ("0.1 KiB", "no whole number of bytes"),
            ("16777216 TiB", "more than 2^64 bytes"),
            ("-1", "`-1` is no size"),
        ] {
            let e = SIZE.read(text, Some(1)).unwrap_err();
            assert!(e.contains(what), "{text}: {e}");
        }
        let e = TIME.read("5", None).unwrap_err();
        assert!(
            e.contains("it has no unit: expected a number and one of s, ms"),
            "{e}"
        );
        let e = SIZE.read("x", Some(1 << 20)).unwrap_err();
        assert!(e.contains("(without unit: MiB)"), "{e}");
    }

    #[test]
    fn counts_and_their_ranges() {
        assert_eq!(count("1e6", ..), Ok(1_000_000u64));
        assert_eq!(count("0x10", 1..=16), Ok(16u32));
        assert_eq!(count("18446744073709551615", ..), Ok(u64::MAX));
        let wrong = |text: &str| count::<u32>(text, 1..=64).unwrap_err();
        for (text, what) in [
            (
                "two",
                "`two` is no number: expected a whole number from 1 to 64",
            ),
            (
                "0",
                "0 is not possible: expected a whole number from 1 to 64",
            ),
            ("65", "65 is not possible"),
            ("1.5", "1.5 is no whole number: expected"),
            ("4 KiB", "`KiB` is too much: expected"),
            ("-3", "`-3` is no number"),
            ("1e99", "1e99 is not possible"),
        ] {
            assert!(wrong(text).contains(what), "{text}: {}", wrong(text));
        }
        let e = count::<u8>("256", ..).unwrap_err();
        assert!(e.contains("from 0 to 255"), "{e}");
    }

    #[test]
    fn numbers_with_fractions() {
        assert_eq!(real("0.3", 0.0..=1.0), Ok(0.3));
        assert_eq!(real("1e-1", 0.0..=1.0), Ok(0.1));
        let e = real("2", 0.0..=1.0).unwrap_err();
        assert_eq!(e, "2 is not possible: expected a number from 0 to 1");
        assert!(real("half", ..)
            .unwrap_err()
            .contains("`half` is no number"));
        assert!(real("NaN", ..).is_err() && real("inf", ..).is_err());
    }

    #[test]
    fn measures() {
        const VOLTS: &[Unit] = &[("V", 1.0), ("mV", 1e-3)];
        assert_eq!(measure("1.35 V", VOLTS), Ok(1.35));
        assert_eq!(measure("55mV", VOLTS), Ok(0.055));
        assert_eq!(measure("1e3 V", VOLTS), Ok(1000.0));
        for bad in ["", "1.35", "1 kV", "V", "1.2.3 V", "-1 V", "1e999 V"] {
            let e = measure(bad, VOLTS).unwrap_err();
            assert!(e.contains("V, mV"), "{bad}: {e}");
        }
    }

    #[test]
    fn types_are_numbers() {
        for (message, words) in [
            (
                "invalid type: string \"two\", expected u8",
                "invalid type: string \"two\", expected a whole number from 0 to 255",
            ),
            (
                "invalid value: integer `-1`, expected u32 at line 3",
                "invalid value: integer `-1`, expected a whole number from 0 to 4294967295 at line 3",
            ),
            ("expected f64", "expected a number"),
            ("expected a map", "expected a map"),
            ("nothing of the kind", "nothing of the kind"),
        ] {
            assert_eq!(types_in_words(message), words);
        }
    }

    proptest! {
        #[test]
        fn any_text_does_not_panic(text in ".*", plain: Option<u64>) {
            let _ = SIZE.read(&text, plain);
            let _ = TIME.read(&text, plain);
            let _ = count::<u16>(&text, ..);
            let _ = real(&text, ..);
            let _ = measure(&text, &[("A", 1e3)]);
            let _ = types_in_words(&text);
        }

        #[test]
        fn every_size_is_read_in_every_unit_that_it_has(n: u64, shift in 0u32..5) {
            let unit = ["B", "KiB", "MiB", "GiB", "TiB"][shift as usize];
            let bytes = (n >> 10) >> (10 * shift) << (10 * shift);
            let text = format!("{} {unit}", bytes >> (10 * shift));
            prop_assert_eq!(SIZE.read(&text, None), Ok(bytes));
        }
    }
}
