//! Conversions between formats and to and from integers.

use crate::format::{exp_field, is_inf, is_nan, is_neg, is_zero, Format};
use crate::round::propagate;
use crate::round::{round_pack, rounds_up, unpack, Flags, Round, Unpacked};

/// Converts `a` from format `S` to format `D`.
#[inline(never)]
pub fn convert<S: Format, D: Format>(a: u64, r: Round, f: &mut Flags) -> u64 {
    if is_nan::<S>(a) {
        propagate::<S>(&[a], f);
        return D::NAN;
    }
    let sign = if is_neg::<S>(a) { D::SIGN } else { 0 };
    if is_inf::<S>(a) {
        return sign | D::INF;
    }
    if is_zero::<S>(a) {
        return sign;
    }
    round_pack::<D>(unpack::<S>(a), r, f)
}

/// Converts an integer given as sign and magnitude.
#[inline(never)]
pub fn from_magnitude<F: Format>(sign: bool, magnitude: u64, r: Round, f: &mut Flags) -> u64 {
    if magnitude == 0 {
        return 0;
    }
    let lz = magnitude.leading_zeros();
    let u = Unpacked {
        sign,
        exp: 63 - lz as i32,
        sig: magnitude << lz,
    };
    round_pack::<F>(u, r, f)
}

/// Target range of a conversion to integer: magnitudes allowed on either side of zero.
struct Range {
    max_neg: u64,
    max_pos: u64,
}

/// Rounds to an integer in `range`: sign and magnitude. Out of range saturates
/// with NV alone; a NaN counts as too large (RISC-V Unprivileged ISA, domains of
/// the float-to-integer conversions).
#[inline]
fn to_integer<F: Format>(a: u64, r: Round, range: &Range, f: &mut Flags) -> (bool, u64) {
    let sign = is_neg::<F>(a);
    let field = exp_field::<F>(a);
    let exp = field as i32 - F::BIAS;
    let saturated = |f: &mut Flags, sign: bool| {
        f.raise(Flags::NV);
        (sign, if sign { range.max_neg } else { range.max_pos })
    };
    if exp > 63 {
        return saturated(f, sign && !is_nan::<F>(a));
    }
    let frac = F::FRAC as i32;
    let sig = if field == 0 {
        a & F::FRAC_MASK
    } else {
        (a & F::FRAC_MASK) | F::HIDDEN
    };
    let (magnitude, inexact) = if exp >= frac {
        (sig << (exp - frac), false)
    } else {
        // Below a quarter only zero or non-zero matters: any shift beyond the significand keeps the
        // rest below one half.
        let drop = (frac - exp).min(frac + 2) as u32;
        let rem = sig & ((1 << drop) - 1);
        let kept = sig >> drop;
        let up = rounds_up(r, sign, kept & 1 != 0, rem, 1 << (drop - 1));
        (kept + u64::from(up), rem != 0)
    };
    if magnitude > if sign { range.max_neg } else { range.max_pos } {
        return saturated(f, sign);
    }
    if inexact {
        f.raise(Flags::NX);
    }
    (sign, magnitude)
}

macro_rules! to_int {
    ($name:ident, $int:ty) => {
        /// Rounds to an integer; saturates with NV (and without NX) outside the
        /// type's range, NaN gives the type's maximum.
        #[inline]
        pub fn $name<F: Format>(a: u64, r: Round, f: &mut Flags) -> $int {
            let range = Range {
                max_neg: (<$int>::MIN as u64).wrapping_neg(),
                max_pos: <$int>::MAX as u64,
            };
            let (sign, magnitude) = to_integer::<F>(a, r, &range, f);
            let v = magnitude as $int;
            if sign {
                v.wrapping_neg()
            } else {
                v
            }
        }
    };
}
to_int!(to_i32, i32);
to_int!(to_u32, u32);
to_int!(to_i64, i64);
to_int!(to_u64, u64);
