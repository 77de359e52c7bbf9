//! Time finer than a picosecond.

use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use nagori_memtime::Ps;
use serde::{Deserialize, Serialize};

/// Bits below a picosecond.
const FRACTION: u32 = 32;

/// A time that may be negative, in units of 2^-32 ps.
///
/// Every division of the method rounds down to such a unit ([`Amount::scaled`] is the only one), so a million epochs
/// together lose less than a femtosecond per step of the formula. Whole picoseconds are made in one place,
/// [`Amount::whole`], whose remainder stays with the one who asks.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(from = "(i64, u64)", into = "(i64, u64)")]
pub struct Amount(i128);

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount(0);

    /// Exactly `t`.
    pub const fn of(t: Ps) -> Amount {
        Amount((t.0 as i128) << FRACTION)
    }

    /// Exactly `n` units of 1: for counts that are not whole.
    pub(crate) const fn of_count(n: u64) -> Amount {
        Amount((n as i128) << FRACTION)
    }

    /// `self * by / over`, rounded towards zero. `None` if it does not fit, or if `over` is zero.
    pub fn scaled(self, by: u128, over: u128) -> Option<Amount> {
        let size = mul_div(self.0.unsigned_abs(), by, over)?;
        let size = i128::try_from(size).ok()?;
        Some(Amount(if self.0 < 0 { -size } else { size }))
    }

    /// The whole picoseconds in it, none if it is negative, or the most that [`Ps`] can say: what is beyond stays in
    /// the amount of the one who asks.
    pub fn whole(self) -> Ps {
        Ps(u64::try_from((self.0 >> FRACTION).max(0)).unwrap_or(u64::MAX))
    }

    /// In nanoseconds, for printing.
    pub fn as_ns(self) -> f64 {
        self.as_units() / 1000.0
    }

    /// In picoseconds, or as a count, for printing.
    pub fn as_units(self) -> f64 {
        self.0 as f64 / (1u64 << FRACTION) as f64
    }

    /// Whether it is below zero.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
}

impl Add for Amount {
    type Output = Amount;
    fn add(self, o: Amount) -> Amount {
        Amount(self.0 + o.0)
    }
}
impl Sub for Amount {
    type Output = Amount;
    fn sub(self, o: Amount) -> Amount {
        Amount(self.0 - o.0)
    }
}
impl Neg for Amount {
    type Output = Amount;
    fn neg(self) -> Amount {
        Amount(-self.0)
    }
}
impl AddAssign for Amount {
    fn add_assign(&mut self, o: Amount) {
        self.0 += o.0;
    }
}
impl SubAssign for Amount {
    fn sub_assign(&mut self, o: Amount) {
        self.0 -= o.0;
    }
}

/// In nanoseconds, with a sign.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ns", self.as_ns())
    }
}

/// Upper and lower half: not every format has integers of 128 bits.
impl From<Amount> for (i64, u64) {
    fn from(a: Amount) -> (i64, u64) {
        ((a.0 >> 64) as i64, a.0 as u64)
    }
}
impl From<(i64, u64)> for Amount {
    fn from((high, low): (i64, u64)) -> Amount {
        Amount((i128::from(high) << 64) | i128::from(low))
    }
}

/// `a * b / c` rounded down, with a product of 256 bits. `None` if the quotient does not fit, or `c` is zero.
fn mul_div(a: u128, b: u128, c: u128) -> Option<u128> {
    if c == 0 {
        return None;
    }
    if let Some(product) = a.checked_mul(b) {
        return Some(product / c);
    }
    const HALF: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & HALF, b >> 64, b & HALF);
    let low = a0 * b0;
    let middle = a1 * b0 + (low >> 64);
    let (middle, carry) = middle.overflowing_add(a0 * b1);
    let mut high = a1 * b1 + (middle >> 64) + (u128::from(carry) << 64);
    let mut low = (middle << 64) | (low & HALF);
    if high >= c {
        return None;
    }
    // Long division, a bit at a time: `high` is the remainder, and the quotient takes the place of `low`.
    for _ in 0..128 {
        let out = high >> 127;
        high = (high << 1) | (low >> 127);
        low <<= 1;
        if out == 1 || high >= c {
            high = high.wrapping_sub(c);
            low |= 1;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // a*b + r = q*c holds in the ring of 2^128, whatever overflowed; with r < c it says that q is right.
        #[test]
        fn mul_div_is_division(a: u128, b: u128, c in 1u128..) {
            if let Some(q) = mul_div(a, b, c) {
                let r = a.wrapping_mul(b).wrapping_sub(q.wrapping_mul(c));
                prop_assert!(r < c);
                let estimate = a as f64 * b as f64 / c as f64;
                prop_assert!((q as f64 - estimate).abs() <= 1.0 + estimate * 1e-9);
            } else {
                prop_assert!(a as f64 * b as f64 / c as f64 > 3.4e38);
            }
        }

        #[test]
        fn mul_div_of_small_numbers(a: u64, b: u64, c in 1u64..) {
            prop_assert_eq!(mul_div(a.into(), b.into(), c.into()),
                Some(u128::from(a) * u128::from(b) / u128::from(c)));
        }

        #[test]
        fn saved_and_read(high: i64, low: u64) {
            let a = Amount::from((high, low));
            let text = serde_json::to_string(&a).unwrap();
            prop_assert_eq!(serde_json::from_str::<Amount>(&text).unwrap(), a);
        }
    }

    #[test]
    fn whole_picoseconds_round_down_and_never_wrap() {
        let third = Amount::of(Ps(1)).scaled(1, 3).unwrap();
        assert_eq!(third.whole(), Ps(0));
        assert_eq!((third + third + third + third).whole(), Ps(1));
        assert_eq!((-third).whole(), Ps(0));
        assert_eq!(Amount::of(Ps(7)).scaled(u128::MAX, 1), None);
        assert_eq!(Amount::of(Ps(7)).scaled(1, 0), None);
        let huge = Amount::of(Ps(u64::MAX));
        assert_eq!((huge + huge).whole(), Ps(u64::MAX));
    }
}
