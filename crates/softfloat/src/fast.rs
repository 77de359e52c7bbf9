//! Host arithmetic where it is provably the same as [`crate::soft`].
//!
//! Rust guarantees that host `+ - * /`, `sqrt` and `mul_add` on `f32` and `f64` round once to
//! nearest even, so results agree whenever the mode is RNE and no NaN appears. The flags remain to
//! be determined:
//!
//! - a result with a biased exponent of at least 2 is not tiny, a finite one did
//!   not overflow, and neither can come from an invalid operation or division by
//!   zero. (Exponent 1 can: a tiny value may round up to the smallest normal.)
//! - NX is sticky, so it needs no work once set. Otherwise the rounding error is
//!   tested for zero exactly: by TwoSum for sums, by integer multiplication
//!   modulo 2^64 for products, quotients and roots. There the two sides differ
//!   by at most about 2^53, so equality modulo 2^64 is equality.

use crate::convert;
use crate::format::{exp_field, normal_sig, Format, F32, F64};
use crate::round::{Flags, Round};
use crate::soft;

/// A result that is certainly neither tiny nor overflowed.
#[inline(always)]
fn well_inside<F: Format>(x: u64) -> bool {
    exp_field::<F>(x).wrapping_sub(2) < F::EXP_MAX - 2
}

#[inline(always)]
fn is_normal<F: Format>(x: u64) -> bool {
    exp_field::<F>(x).wrapping_sub(1) < F::EXP_MAX - 1
}

/// Sum. A subnormal sum is always exact, so any finite one will do.
#[inline]
pub(crate) fn add<F: Format>(a: u64, b: u64, r: Round, f: &mut Flags) -> u64 {
    if r == Round::Rne {
        let (x, y) = (F::host(a), F::host(b));
        let s = x + y;
        let bits = F::bits(s);
        if exp_field::<F>(bits) != F::EXP_MAX {
            if f.inexact_already() {
                return bits;
            }
            let y_part = s - x;
            let x_part = s - y_part;
            let error = F::bits((x - x_part) + (y - y_part));
            // An intermediate can overflow next to the largest number, leaving a
            // NaN here; never if s is exact, as then y_part = y and x_part = x.
            if error & !F::SIGN != 0 {
                f.raise(Flags::NX);
            }
            return bits;
        }
    }
    soft::add::<F>(a, b, r, f)
}

#[inline]
pub(crate) fn sub<F: Format>(a: u64, b: u64, r: Round, f: &mut Flags) -> u64 {
    add::<F>(a, b ^ F::SIGN, r, f)
}

#[inline]
pub(crate) fn mul<F: Format>(a: u64, b: u64, r: Round, f: &mut Flags) -> u64 {
    if r == Round::Rne {
        let p = F::bits(F::host(a) * F::host(b));
        if well_inside::<F>(p) {
            if f.inexact_already() {
                return p;
            }
            if is_normal::<F>(a) && is_normal::<F>(b) {
                let carry =
                    exp_field::<F>(p) + F::BIAS as u64 - (exp_field::<F>(a) + exp_field::<F>(b));
                let exact = normal_sig::<F>(a).wrapping_mul(normal_sig::<F>(b));
                if exact != normal_sig::<F>(p) << (u64::from(F::FRAC) + carry) {
                    f.raise(Flags::NX);
                }
                return p;
            }
        }
    }
    soft::mul::<F>(a, b, r, f)
}

#[inline]
pub(crate) fn div<F: Format>(a: u64, b: u64, r: Round, f: &mut Flags) -> u64 {
    if r == Round::Rne {
        let q = F::bits(F::host(a) / F::host(b));
        if well_inside::<F>(q) {
            if f.inexact_already() {
                return q;
            }
            if is_normal::<F>(a) && is_normal::<F>(b) {
                let borrow =
                    exp_field::<F>(a) + F::BIAS as u64 - (exp_field::<F>(b) + exp_field::<F>(q));
                let back = normal_sig::<F>(q).wrapping_mul(normal_sig::<F>(b));
                if back != normal_sig::<F>(a) << (u64::from(F::FRAC) + borrow) {
                    f.raise(Flags::NX);
                }
                return q;
            }
        }
    }
    soft::div::<F>(a, b, r, f)
}

/// Square root. Positive normal operands have roots well inside the range.
#[inline]
pub(crate) fn sqrt<F: Format>(a: u64, r: Round, f: &mut Flags) -> u64 {
    if r == Round::Rne && is_normal::<F>(a) && a & F::SIGN == 0 {
        let s = F::bits(F::host_sqrt(F::host(a)));
        if !f.inexact_already() {
            // The bias is odd: an even field is an odd exponent.
            let odd = !exp_field::<F>(a) & 1;
            let sig = normal_sig::<F>(s);
            if sig.wrapping_mul(sig) != normal_sig::<F>(a) << (u64::from(F::FRAC) + odd) {
                f.raise(Flags::NX);
            }
        }
        return s;
    }
    soft::sqrt::<F>(a, r, f)
}

/// Fused multiply-add. Its error needs two numbers to hold, so exactness is
/// left to the integer path.
#[inline]
pub(crate) fn fma<F: Format>(a: u64, b: u64, c: u64, r: Round, f: &mut Flags) -> u64 {
    if r == Round::Rne && f.inexact_already() {
        let s = F::bits(F::host_fma(F::host(a), F::host(b), F::host(c)));
        if well_inside::<F>(s) {
            return s;
        }
    }
    soft::fma::<F>(a, b, c, r, f)
}

/// Narrowing conversion.
#[inline]
pub(crate) fn f64_to_f32(a: u64, r: Round, f: &mut Flags) -> u64 {
    if r == Round::Rne {
        let narrow = F64::host(a) as f32;
        let bits = F32::bits(narrow);
        if well_inside::<F32>(bits) {
            if F64::bits(f64::from(narrow)) != a {
                f.raise(Flags::NX);
            }
            return bits;
        }
    }
    convert::convert::<F64, F32>(a, r, f)
}

/// Widening conversion: exact, so only NaNs need care.
#[inline]
pub(crate) fn f32_to_f64(a: u64, f: &mut Flags) -> u64 {
    if exp_field::<F32>(a) != F32::EXP_MAX {
        return F64::bits(f64::from(F32::host(a)));
    }
    convert::convert::<F32, F64>(a, Round::Rne, f)
}

/// Magnitudes up to this convert exactly whatever the mode.
#[inline(always)]
fn fits<F: Format>(magnitude: u64) -> bool {
    magnitude <= F::HIDDEN << 1
}

#[inline]
pub(crate) fn from_i64<F: Format>(v: i64, r: Round, f: &mut Flags) -> u64 {
    if fits::<F>(v.unsigned_abs()) || (r == Round::Rne && f.inexact_already()) {
        return F::bits(F::host_from_i64(v));
    }
    convert::from_magnitude::<F>(v < 0, v.unsigned_abs(), r, f)
}

#[inline]
pub(crate) fn from_u64<F: Format>(v: u64, r: Round, f: &mut Flags) -> u64 {
    if fits::<F>(v) || (r == Round::Rne && f.inexact_already()) {
        return F::bits(F::host_from_u64(v));
    }
    convert::from_magnitude::<F>(false, v, r, f)
}
