//! Clocks whose period need not be a whole number of picoseconds.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use nagori_values::{scan, TIME};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::divide::Divider;
use crate::units::{Ps, UnitError};

/// Picoseconds in a second.
const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// The period of a clock: an exact fraction of picoseconds, from 1 ps to 2^63 ps.
///
/// Edge 0 is at time 0, and edge *n* at the first whole picosecond that is not before *n*
/// periods. So an edge is late by less than 1 ps, and no error adds up. Every conversion
/// between counts of a clock and time is one of the functions here.
///
/// Written and read as a time ("5 ns", "937.5 ps", "1/3 ns") or as a frequency ("800 MHz",
/// "200/3 MHz"); both may be decimals or fractions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Picoseconds of `den` periods; numerator and denominator have no common divisor.
    num: Divider,
    den: Divider,
}

impl Period {
    /// A period of whole picoseconds, at least 1.
    pub const fn of_ps(ps: u64) -> Option<Period> {
        Period::of_fraction(ps as u128, 1)
    }

    /// `num / den` picoseconds. `None` below 1 ps, and for terms that do not fit in 63 bits.
    pub const fn of_fraction(num: u128, den: u128) -> Option<Period> {
        if den == 0 || num < den {
            return None;
        }
        let g = gcd(num, den);
        let (num, den) = (num / g, den / g);
        if num > 1 << 63 {
            return None;
        }
        Some(Period {
            num: Divider::new(num as u64),
            den: Divider::new(den as u64),
        })
    }

    /// The period of a clock of `num / den` Hz: at most 1 THz.
    pub const fn of_hz(num: u64, den: u64) -> Option<Period> {
        Period::of_fraction(PS_PER_SECOND as u128 * den as u128, num as u128)
    }

    /// Picoseconds, as numerator and denominator without a common divisor.
    pub const fn fraction(self) -> (u64, u64) {
        (self.num.divisor(), self.den.divisor())
    }

    /// The period, if it is a whole number of picoseconds.
    pub const fn whole(self) -> Option<Ps> {
        match self.fraction() {
            (ps, 1) => Some(Ps(ps)),
            _ => None,
        }
    }

    /// The nearest whole number of picoseconds, for printing and for interfaces that only take
    /// whole numbers.
    pub const fn nearest(self) -> Ps {
        let (num, den) = self.fraction();
        Ps(((num as u128 + den as u128 / 2) / den as u128) as u64)
    }

    /// In picoseconds, for printing and for rates.
    pub fn as_ps(self) -> f64 {
        let (num, den) = self.fraction();
        num as f64 / den as f64
    }

    /// In nanoseconds, for printing and for rates.
    pub fn as_ns(self) -> f64 {
        self.as_ps() / 1000.0
    }

    /// The time of edge `n`, or the end of time if the edge is later.
    #[inline(always)]
    pub const fn edge(&self, n: u64) -> Ps {
        if self.den.divisor() == 1 {
            return Ps(n.saturating_mul(self.num.divisor()));
        }
        self.edge_of_fraction(n)
    }

    #[inline]
    const fn edge_of_fraction(&self, n: u64) -> Ps {
        // n = q * den + r, so only r periods, less than `num`, are a fraction.
        let (q, r) = self.den.div_rem(n);
        let part = match r.checked_mul(self.num.divisor()) {
            Some(p) => self.den.div_ceil(p),
            None => {
                (r as u128 * self.num.divisor() as u128).div_ceil(self.den.divisor() as u128) as u64
            }
        };
        Ps(q.saturating_mul(self.num.divisor()).saturating_add(part))
    }

    /// The number of the first edge at or after `t`. Durations are converted to counts by the same
    /// rule: the fewest clocks that last at least as long.
    #[inline(always)]
    pub const fn edge_from(&self, t: Ps) -> u64 {
        if self.den.divisor() == 1 {
            return self.num.div_ceil(t.0);
        }
        match t.0 {
            0 => 0,
            // Edges before `t` are those up to the picosecond before it.
            t => self.edges_of_fraction(t - 1) + 1,
        }
    }

    /// The number of the last edge at or before `t`: the number of ticks completed then.
    #[inline(always)]
    pub const fn edge_until(&self, t: Ps) -> u64 {
        if self.den.divisor() == 1 {
            return self.num.div_rem(t.0).0;
        }
        self.edges_of_fraction(t.0)
    }

    /// t / period, rounded down.
    #[inline]
    const fn edges_of_fraction(&self, t: u64) -> u64 {
        // t = q * num + r, and a period is at least 1 ps, so nothing here exceeds `t`.
        let (q, r) = self.num.div_rem(t);
        let part = match r.checked_mul(self.den.divisor()) {
            Some(p) => self.num.div_rem(p).0,
            None => (r as u128 * self.den.divisor() as u128 / self.num.divisor() as u128) as u64,
        };
        q * self.den.divisor() + part
    }

    /// The number of clocks that is exactly a length of time; otherwise the error names the nearest
    /// lengths that are whole clocks.
    pub fn whole_clocks(self, length: Ps) -> Result<u64, PartOfClock> {
        let n = self.edge_from(length);
        let above = self.edge(n);
        if above == length {
            return Ok(n);
        }
        Err(PartOfClock {
            length,
            clock: self,
            below: self.edge(n - 1),
            above,
        })
    }

    /// The nearest whole number of Hz, for interfaces that only take whole numbers.
    pub const fn nearest_hz(self) -> u64 {
        let (num, den) = self.fraction();
        let (ticks, ps) = (PS_PER_SECOND as u128 * den as u128, num as u128);
        ((ticks + ps / 2) / ps) as u64
    }
}

/// A length of time that must be a whole number of clocks, but is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{length} is no whole number of clocks of {clock}: the nearest that are one are {below} and {above}")]
pub struct PartOfClock {
    /// The length.
    pub length: Ps,
    /// The clock.
    pub clock: Period,
    /// The longest shorter length of whole clocks.
    pub below: Ps,
    /// The shortest longer length of whole clocks.
    pub above: Ps,
}

const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// As fine as time.
impl Default for Period {
    fn default() -> Period {
        Period {
            num: Divider::new(1),
            den: Divider::new(1),
        }
    }
}

impl Ord for Period {
    fn cmp(&self, o: &Period) -> Ordering {
        let ((a, b), (c, d)) = (self.fraction(), o.fraction());
        (u128::from(a) * u128::from(d)).cmp(&(u128::from(c) * u128::from(b)))
    }
}

impl PartialOrd for Period {
    fn partial_cmp(&self, o: &Period) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

/// As a whole number of ns or ps, else as decimals of ps, else as a fraction.
impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DECIMALS: u64 = 1_000_000;
        let (num, den) = self.fraction();
        if let Some(ps) = self.whole() {
            return ps.fmt(f);
        }
        if DECIMALS.is_multiple_of(den) {
            let part = num % den * (DECIMALS / den);
            let digits = format!("{part:06}");
            return write!(f, "{}.{} ps", num / den, digits.trim_end_matches('0'));
        }
        if num.is_multiple_of(1000) {
            write!(f, "{}/{den} ns", num / 1000)
        } else {
            write!(f, "{num}/{den} ps")
        }
    }
}

/// Units of frequencies, in Hz.
const FREQUENCIES: [(&str, u64); 5] = [
    ("Hz", 1),
    ("kHz", 1000),
    ("MHz", 1_000_000),
    ("GHz", 1_000_000_000),
    ("THz", PS_PER_SECOND),
];

/// "12.5", "200/3" and a unit as a fraction, without a common divisor, and the unit.
fn quantity(text: &str) -> Option<(u128, u128, &str)> {
    let (above, rest) = scan(text.trim_end())?;
    let (a, b) = above.fraction()?;
    let ((c, d), unit) = match rest.strip_prefix('/') {
        Some(rest) => {
            let (below, unit) = scan(rest)?;
            (below.fraction()?, unit)
        }
        None => ((1, 1), rest),
    };
    let (num, den) = (a.checked_mul(d)?, b.checked_mul(c)?);
    if num == 0 || den == 0 {
        return None;
    }
    let g = gcd(num, den);
    Some((num / g, den / g, unit))
}

/// A frequency such as "200/3 MHz" in Hz, as numerator and denominator; `None` for anything else.
pub fn frequency(text: &str) -> Option<(u64, u64)> {
    let (num, den, unit) = quantity(text)?;
    let scale = FREQUENCIES.iter().find(|f| f.0 == unit)?.1;
    let num = num.checked_mul(scale.into())?;
    let g = gcd(num, den);
    Some((u64::try_from(num / g).ok()?, u64::try_from(den / g).ok()?))
}

impl FromStr for Period {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Period, UnitError> {
        let time = || {
            let (num, den, unit) = quantity(text)?;
            let scale = TIME.unit(unit)?;
            Period::of_fraction(num.checked_mul(scale.into())?, den)
        };
        let period = match frequency(text) {
            Some((num, den)) => Period::of_hz(num, den),
            None => time(),
        };
        period.ok_or_else(|| UnitError::Period(text.to_owned()))
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'d> Deserialize<'d> for Period {
    fn deserialize<D: Deserializer<'d>>(d: D) -> Result<Period, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Period;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(
                    "a period or a frequency with its unit, such as \"5 ns\" or \"200/3 MHz\"",
                )
            }
            fn visit_str<E: serde::de::Error>(self, s: &str) -> Result<Period, E> {
                s.parse().map_err(E::custom)
            }
        }
        d.deserialize_any(Text)
    }
}

/// For `#[serde(with = "period::number")]`: reports have the number of picoseconds, as an integer
/// if it is one.
pub mod number {
    use super::Period;
    use serde::{de::Error, Deserialize, Deserializer, Serializer};

    /// Writes 5000 or 937.5.
    pub fn serialize<S: Serializer>(p: &Period, s: S) -> Result<S::Ok, S::Error> {
        match p.whole() {
            Some(ps) => s.serialize_u64(ps.0),
            None => s.serialize_f64(p.as_ps()),
        }
    }

    /// Reads them; a fraction that is not a multiple of 10^-6 is rounded to the nearest one that
    /// is.
    pub fn deserialize<'d, D: Deserializer<'d>>(d: D) -> Result<Period, D::Error> {
        let ps = f64::deserialize(d)?;
        let millionths = (ps * 1e6).round();
        let right = (1e6..1e18).contains(&millionths);
        let period = right.then(|| Period::of_fraction(millionths as u128, 1_000_000));
        period
            .flatten()
            .ok_or_else(|| D::Error::custom("no period in ps"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn period(text: &str) -> Period {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn text() {
        for (text, fraction, shown) in [
            ("5 ns", (5000, 1), "5 ns"),
            ("1250ps", (1250, 1), "1250 ps"),
            ("0.9375 ns", (1875, 2), "937.5 ps"),
            ("3 GHz", (1000, 3), "1/3 ns"),
            ("3.2 GHz", (625, 2), "312.5 ps"),
            ("1.333 GHz", (1_000_000, 1333), "1000/1333 ns"),
            (
                "66.666666 MHz",
                (500_000_000_000, 33_333_333),
                "500000000/33333333 ns",
            ),
            ("200/3 MHz", (15_000, 1), "15 ns"),
            ("42MHz", (500_000, 21), "500/21 ns"),
            ("800 MHz", (1250, 1), "1250 ps"),
            ("1/3 ns", (1000, 3), "1/3 ns"),
            ("7 GHz", (1000, 7), "1/7 ns"),
            (
                "999999937 Hz",
                (PS_PER_SECOND, 999_999_937),
                "1000000000/999999937 ns",
            ),
            ("1 THz", (1, 1), "1 ps"),
        ] {
            let p = period(text);
            assert_eq!(
                (p.fraction(), p.to_string().as_str()),
                (fraction, shown),
                "{text}"
            );
            assert_eq!(period(shown), p);
        }
        for bad in [
            "",
            "5",
            "ns",
            "0 ns",
            "5/0 ns",
            "1/2/3 ns",
            "2 THz",
            "0.5 ps",
            "-1 ns",
            "1. ns",
            ".5 ns",
            "5 parsec",
            "99999999999999999999 s",
            "3 mhz",
            "1..2 ns",
        ] {
            assert!(bad.parse::<Period>().is_err(), "{bad}");
        }
    }

    #[test]
    fn clocks_round_up() {
        let p = Period::of_ps(5000).unwrap();
        assert_eq!(p.edge_from(Ps::from_ns(1000)), 200);
        assert_eq!(p.edge_from(Ps(5001)), 2);
        assert_eq!(p.edge_from(Ps::ZERO), 0);
        assert_eq!(p.edge(1480), Ps::from_ns(7400));
    }

    #[test]
    fn an_edge_is_at_the_first_picosecond_not_before_it() {
        // 312.5 ps
        let p = period("3.2 GHz");
        let edges: Vec<u64> = (0..5).map(|n| p.edge(n).0).collect();
        assert_eq!(edges, [0, 313, 625, 938, 1250]);
        for (t, from, until) in [
            (0, 0, 0),
            (1, 1, 0),
            (312, 1, 0),
            (313, 1, 1),
            (314, 2, 1),
            (625, 2, 2),
            (626, 3, 2),
        ] {
            assert_eq!(
                (p.edge_from(Ps(t)), p.edge_until(Ps(t))),
                (from, until),
                "{t}"
            );
        }
        assert_eq!(p.whole_clocks(Ps(938)).unwrap(), 3);
        let e = p.whole_clocks(Ps(937)).unwrap_err().to_string();
        assert_eq!(e, "937 ps is no whole number of clocks of 312.5 ps: the nearest that are one are 625 ps and 938 \
            ps");
        assert_eq!(p.nearest_hz(), 3_200_000_000);
        assert_eq!(period("200/3 Hz").nearest_hz(), 67);
        // Three cycles of 3 GHz are exactly 1 ns, however far from the start.
        let p = period("3 GHz");
        assert_eq!(p.edge(3 << 53), Ps(1000 << 53));
        assert_eq!(p.edge((3 << 53) + 1), Ps((1000 << 53) + 334));
        assert_eq!(p.edge(u64::MAX), Ps(u64::MAX));
    }

    #[test]
    fn reports_have_numbers() {
        #[derive(Serialize, Deserialize)]
        struct T(#[serde(with = "number")] Period);
        for (text, json) in [("5 ns", "5000"), ("937.5 ps", "937.5")] {
            let t = T(period(text));
            assert_eq!(serde_json::to_string(&t).unwrap(), json);
            assert_eq!(serde_json::from_str::<T>(json).unwrap().0, t.0);
        }
        assert!(serde_json::from_str::<T>("0").is_err());
    }

    proptest! {
        /// Against exact arithmetic, over the whole range of time, with products that fit in 64
        /// bits and products that do not.
        #[test]
        fn conversions_are_exact(
            hz in prop_oneof![
                1..=PS_PER_SECOND,
                Just(3_000_000_000), Just(3_200_000_000), Just(42_000_000),
                Just(1_333_000_000), Just(66_666_666), Just(50_000_000), Just(999_999_937),
            ],
            den in 1..100u64,
            n in any::<u64>(),
            t in any::<u64>(),
            shift in 0..63u32,
        ) {
            let (n, t) = (n >> shift, t >> shift);
            let p = Period::of_hz(hz, den).unwrap();
            let (num, den) = p.fraction();
            let wide = |x: u64| u128::from(x);
            let edge = (wide(n) * wide(num)).div_ceil(wide(den));
            let edge = u64::try_from(edge).unwrap_or(u64::MAX);
            prop_assert_eq!(p.edge(n), Ps(edge));
            let until = (wide(t) * wide(den) / wide(num)) as u64;
            prop_assert_eq!(p.edge_until(Ps(t)), until);
            let from = match t {
                0 => 0,
                t => (wide(t - 1) * wide(den) / wide(num)) as u64 + 1,
            };
            prop_assert_eq!(p.edge_from(Ps(t)), from);
            // An edge's own time leads back to it, and no other edge lies between.
            if edge < u64::MAX {
                prop_assert_eq!((p.edge_from(Ps(edge)), p.edge_until(Ps(edge))), (n, n));
            }
            if t > 0 {
                prop_assert!(p.edge(from - 1).0 < t);
            }
            prop_assert!(p.edge(from).0 >= t);
        }

        #[test]
        fn text_round_trip(num in 1..u64::from(u32::MAX), den in 1..5_000_000u64) {
            if let Some(p) = Period::of_fraction(num.into(), den.into()) {
                prop_assert_eq!(p.to_string().parse::<Period>().unwrap(), p);
            }
        }

        #[test]
        fn any_text_is_refused_or_written_back(text in "[0-9./ nspMHGz]{0,12}") {
            if let Ok(p) = text.parse::<Period>() {
                prop_assert_eq!(p.to_string().parse::<Period>().unwrap(), p);
            }
        }
    }
}
