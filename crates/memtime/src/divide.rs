//! Division by an invariant divisor.

/// Divides by one number without a division instruction; exact for every dividend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divider {
    divisor: u64,
    /// 2^64 / divisor, rounded down (one less for a divisor of 1).
    factor: u64,
}

impl Divider {
    /// Divides by `divisor`; zero counts as one.
    pub const fn new(divisor: u64) -> Divider {
        let divisor = if divisor == 0 { 1 } else { divisor };
        // The factor of a power of two would be exact; one less is, too, after the correction.
        Divider {
            divisor,
            factor: u64::MAX / divisor,
        }
    }

    /// The divisor.
    pub const fn divisor(self) -> u64 {
        self.divisor
    }

    /// Quotient and remainder.
    #[inline(always)]
    pub const fn div_rem(self, x: u64) -> (u64, u64) {
        // The estimate is low by one at most: what the factor lacks is below 1,
        // so x / 2^64 of it is, too.
        let q = ((x as u128 * self.factor as u128) >> 64) as u64;
        let r = x.wrapping_sub(q.wrapping_mul(self.divisor));
        if r >= self.divisor {
            (q + 1, r - self.divisor)
        } else {
            (q, r)
        }
    }

    /// Quotient, rounded up.
    #[inline(always)]
    pub const fn div_ceil(self, x: u64) -> u64 {
        let (q, r) = self.div_rem(x);
        q + (r != 0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_the_division(x in any::<u64>(), d in 1..=1_000_000u64, e in any::<u64>()) {
            for d in [d, e.max(1), 1, 2, 1 << 20, u64::MAX] {
                let m = Divider::new(d);
                for x in [x, x >> 20, x / d * d, (x / d * d).wrapping_sub(1), 0, u64::MAX] {
                    prop_assert_eq!(m.div_rem(x), (x / d, x % d));
                    prop_assert_eq!(m.div_ceil(x), x.div_ceil(d));
                }
            }
        }
    }
}
