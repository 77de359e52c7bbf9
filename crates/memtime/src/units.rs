//! Units of time. All times are integers; [`Period`](crate::Period) converts them to counts of clocks and is the
//! only place that rounds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use nagori_values::TIME;
use serde::{Deserialize, Serialize};

/// Text that is no time, or no clock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Text that is not a time.
    #[error("'{0}' is not a time: write a number and one of s, ms, us, ns, ps (\"1000 ns\"), a whole number of \
        picoseconds")]
    Time(String),
    /// Text that is not the period of a clock.
    #[error("'{0}' is not a clock: write its period or its frequency with a unit, as a decimal or a fraction (\"5 \
        ns\", \"937.5 ps\", \"200/3 MHz\"), 1 THz at most")]
    Period(String),
}

/// A time or a duration in picoseconds. Serialises as the plain number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Ps(pub u64);

/// A number of clocks of a stated clock. Serialises as the plain number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Clocks(pub u32);

impl Ps {
    /// Zero.
    pub const ZERO: Ps = Ps(0);
    /// Latest time that a model accepts: 210 days. The 3 days from there to 2^64 ps leave room to
    /// add any delay without overflow.
    pub const MAX_TIME: Ps = Ps(u64::MAX - (1 << 58));
    /// The end of a machine's time, 210 days after its start: nothing runs from here on. Operations that are in
    /// progress then still end before [`Ps::MAX_TIME`].
    pub const END: Ps = Ps(Ps::MAX_TIME.0 - (1 << 50));
    /// Later than every event.
    pub const NEVER: Ps = Ps(u64::MAX);

    /// `n` nanoseconds; [`Ps::NEVER`] where they are more than that.
    pub const fn from_ns(n: u64) -> Ps {
        Ps(n.saturating_mul(1000))
    }

    /// Whole nanoseconds, rounded down.
    pub const fn whole_ns(self) -> u64 {
        self.0 / 1000
    }

    /// In nanoseconds, for printing.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// In seconds, for printing and rates.
    pub fn as_s(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// `self + other`, or [`Ps::NEVER`].
    pub const fn saturating_add(self, other: Ps) -> Ps {
        Ps(self.0.saturating_add(other.0))
    }

    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Ps) -> Ps {
        Ps(self.0.saturating_sub(other.0))
    }
}

impl Add for Ps {
    type Output = Ps;
    fn add(self, o: Ps) -> Ps {
        Ps(self.0 + o.0)
    }
}
impl AddAssign for Ps {
    fn add_assign(&mut self, o: Ps) {
        self.0 += o.0;
    }
}
impl Sub for Ps {
    type Output = Ps;
    fn sub(self, o: Ps) -> Ps {
        Ps(self.0 - o.0)
    }
}

/// Writes the value in the largest unit in which it is a whole number, but in ns rather than in
/// longer units ("1000 ns" stays "1000 ns"), because device times are read in ns.
impl fmt::Display for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, scale) = if self.0.is_multiple_of(1000) {
            ("ns", 1000)
        } else {
            ("ps", 1)
        };
        write!(f, "{} {name}", self.0 / scale)
    }
}

/// Reads "1000 ns", "7.4us", "13.75 ns". The unit is required, and the value
/// must be a whole number of picoseconds.
impl FromStr for Ps {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Ps, UnitError> {
        let ps = TIME
            .value(s, None)
            .map_err(|_| UnitError::Time(s.to_owned()))?;
        Ok(Ps(ps))
    }
}

/// For `#[serde(with = "ps_text")]`: times in configurations carry their unit.
pub mod ps_text {
    use super::Ps;
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};
    use std::fmt;

    struct Text;

    impl Visitor<'_> for Text {
        type Value = Ps;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a time with its unit, such as \"300 ns\"")
        }

        fn visit_str<E: Error>(self, s: &str) -> Result<Ps, E> {
            s.parse().map_err(E::custom)
        }

        fn visit_u64<E: Error>(self, n: u64) -> Result<Ps, E> {
            Err(bare(n))
        }

        fn visit_i64<E: Error>(self, n: i64) -> Result<Ps, E> {
            Err(bare(n))
        }

        fn visit_f64<E: Error>(self, n: f64) -> Result<Ps, E> {
            Err(bare(n))
        }
    }

    fn bare<E: Error>(n: impl fmt::Display) -> E {
        E::custom(format_args!(
            "{n} has no unit: expected text with one of s, ms, us, ns, ps, such as \"{n} ns\""
        ))
    }

    /// Writes "1000 ns".
    pub fn serialize<S: Serializer>(t: &Ps, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(t)
    }

    /// Reads "1000 ns"; a bare number is an error.
    pub fn deserialize<'d, D: Deserializer<'d>>(d: D) -> Result<Ps, D::Error> {
        d.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trip_and_errors() {
        for (text, ps) in [
            ("1000 ns", 1_000_000),
            ("7.4us", 7_400_000),
            ("13.75 ns", 13_750),
            ("5 ps", 5),
            ("1 s", 1_000_000_000_000),
            ("1e3 ns", 1_000_000),
        ] {
            assert_eq!(text.parse::<Ps>().unwrap(), Ps(ps), "{text}");
        }
        for bad in [
            "",
            "5",
            "ns",
            "5 parsec",
            "0.5 ps",
            "-1 ns",
            "1..2 ns",
            "99999999999 s",
        ] {
            assert!(bad.parse::<Ps>().is_err(), "{bad}");
        }
        assert_eq!(Ps(1_000_000).to_string(), "1000 ns");
        assert_eq!(Ps(1250).to_string(), "1250 ps");
    }

    #[test]
    fn bare_numbers_are_told_what_they_lack() {
        #[derive(serde::Deserialize)]
        struct T(#[serde(with = "ps_text")] Ps);
        let read = |text: &str| serde_json::from_str::<T>(text);
        assert_eq!(read("\"300 ns\"").unwrap().0, Ps::from_ns(300));
        for bare in ["300", "-1", "2.5"] {
            let e = read(bare).err().unwrap().to_string();
            let right = format!("{bare} has no unit: expected text with one of s, ms, us, ns, ps");
            assert!(e.starts_with(&right), "{e}");
        }
        let e = read("true").err().unwrap().to_string();
        assert!(e.contains("expected a time with its unit"), "{e}");
    }
}
