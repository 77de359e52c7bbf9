//! Integer-only arithmetic: every mode, every operand, exact flags.
//!
//! The functions at the crate root use the host's floating point where it is provably the same, and
//! this module otherwise. It is public as the reference for tests and for callers that want no host
//! arithmetic.
//! Raw values are `u64`; binary32 operands have their upper 32 bits zero.

pub use crate::convert::{convert, from_magnitude};
use crate::format::{is_inf, is_nan, is_neg, is_zero, Format};
use crate::round::propagate;
use crate::round::{
    round_pack, round_pack128, shr_jam, shr_jam128, unpack, Flags, Round, Unpacked,
};

#[inline]
fn invalid<F: Format>(f: &mut Flags) -> u64 {
    f.raise(Flags::NV);
    F::NAN
}

/// Sign of an exact zero sum of two operands of opposite signs.
#[inline]
fn cancelled<F: Format>(r: Round) -> u64 {
    if r == Round::Rdn {
        F::SIGN
    } else {
        0
    }
}

/// a + b.
#[inline(never)]
pub fn add<F: Format>(a: u64, b: u64, r: Round, f: &mut Flags) -> u64 {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        return propagate::<F>(&[a, b], f);
    }
    let opposite = (a ^ b) & F::SIGN != 0;
    match (is_inf::<F>(a), is_inf::<F>(b)) {
        (true, true) if opposite => return invalid::<F>(f),
        (true, _) => return a,
        (_, true) => return b,
        _ => {}
    }
    match (is_zero::<F>(a), is_zero::<F>(b)) {
        (true, true) if opposite => return cancelled::<F>(r),
        (_, true) => return a,
        (true, _) => return b,
        _ => {}
    }
    let (mut x, mut y) = (unpack::<F>(a), unpack::<F>(b));
    if (x.exp, x.sig) < (y.exp, y.sig) {
        (x, y) = (y, x);
    }
    // One bit of headroom for the carry; at least 10 bits below the last kept
    // one, so a jammed subtrahend cannot reach the rounding decision wrongly.
    let big = x.sig >> 1;
    let small = shr_jam(y.sig >> 1, (x.exp - y.exp) as u32);
    let sum = if opposite { big - small } else { big + small };
    if sum == 0 {
        return cancelled::<F>(r);
    }
    let lz = sum.leading_zeros();
    let u = Unpacked {
        sign: x.sign,
        exp: x.exp + 1 - lz as i32,
        sig: sum << lz,
    };
    round_pack::<F>(u, r, f)
}

/// a - b.
#[inline]
pub fn sub<F: Format>(a: u64, b: u64, r: Round, f: &mut Flags) -> u64 {
    add::<F>(a, b ^ F::SIGN, r, f)
}

/// a * b.
#[inline(never)]
pub fn mul<F: Format>(a: u64, b: u64, r: Round, f: &mut Flags) -> u64 {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        return propagate::<F>(&[a, b], f);
    }
    let sign = (a ^ b) & F::SIGN;
    let zero = is_zero::<F>(a) || is_zero::<F>(b);
    if is_inf::<F>(a) || is_inf::<F>(b) {
        return if zero { invalid::<F>(f) } else { sign | F::INF };
    }
    if zero {
        return sign;
    }
    let (x, y) = (unpack::<F>(a), unpack::<F>(b));
    let product = u128::from(x.sig) * u128::from(y.sig);
    round_pack128::<F>(sign != 0, x.exp + y.exp + 1, product, r, f)
}

/// a / b.
#[inline(never)]
pub fn div<F: Format>(a: u64, b: u64, r: Round, f: &mut Flags) -> u64 {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        return propagate::<F>(&[a, b], f);
    }
    let sign = (a ^ b) & F::SIGN;
    match (is_inf::<F>(a), is_inf::<F>(b)) {
        (true, true) => return invalid::<F>(f),
        (true, false) => return sign | F::INF,
        (false, true) => return sign,
        _ => {}
    }
    match (is_zero::<F>(a), is_zero::<F>(b)) {
        (true, true) => return invalid::<F>(f),
        (true, false) => return sign,
        (false, true) => {
            f.raise(Flags::DZ);
            return sign | F::INF;
        }
        _ => {}
    }
    let (x, y) = (unpack::<F>(a), unpack::<F>(b));
    // The ratio of two numbers in [1, 2) is in (1/2, 2): 63 or 64 bits.
    let (num, den) = (u128::from(x.sig) << 63, u128::from(y.sig));
    let q = (num / den) as u64;
    let inexact = u128::from(q) * den != num;
    let lz = q.leading_zeros();
    let u = Unpacked {
        sign: sign != 0,
        exp: x.exp - y.exp - lz as i32,
        sig: (q << lz) | u64::from(inexact),
    };
    round_pack::<F>(u, r, f)
}

/// Square root of a.
#[inline(never)]
pub fn sqrt<F: Format>(a: u64, r: Round, f: &mut Flags) -> u64 {
    if is_nan::<F>(a) {
        return propagate::<F>(&[a], f);
    }
    if is_zero::<F>(a) {
        return a;
    }
    if is_neg::<F>(a) {
        return invalid::<F>(f);
    }
    if is_inf::<F>(a) {
        return a;
    }
    let x = unpack::<F>(a);
    // Radicand with an even exponent and 127 or 128 bits: a root of 64 bits.
    let radicand = u128::from(x.sig) << (63 + (x.exp & 1));
    let root = radicand.isqrt();
    let u = Unpacked {
        sign: false,
        exp: x.exp >> 1,
        sig: root as u64 | u64::from(root * root != radicand),
    };
    round_pack::<F>(u, r, f)
}

/// a * b + c with one rounding. Infinity times zero raises NV even when `c` is
/// a quiet NaN (RISC-V requires it, IEEE 754 leaves it open).
#[inline(never)]
pub fn fma<F: Format>(a: u64, b: u64, c: u64, r: Round, f: &mut Flags) -> u64 {
    let zero_product = is_zero::<F>(a) || is_zero::<F>(b);
    let inf_product = is_inf::<F>(a) || is_inf::<F>(b);
    if is_nan::<F>(a) || is_nan::<F>(b) || is_nan::<F>(c) {
        if zero_product && inf_product {
            f.raise(Flags::NV);
        }
        return propagate::<F>(&[a, b, c], f);
    }
    let sign = (a ^ b) & F::SIGN;
    let opposite = (sign ^ c) & F::SIGN != 0;
    if inf_product {
        return if zero_product || (is_inf::<F>(c) && opposite) {
            invalid::<F>(f)
        } else {
            sign | F::INF
        };
    }
    if is_inf::<F>(c) {
        return c;
    }
    if zero_product {
        return match is_zero::<F>(c) {
            true if opposite => cancelled::<F>(r),
            _ => c,
        };
    }
    let (x, y) = (unpack::<F>(a), unpack::<F>(b));
    let product = u128::from(x.sig) * u128::from(y.sig);
    let exp = x.exp + y.exp + 1;
    if is_zero::<F>(c) {
        return round_pack128::<F>(sign != 0, exp, product, r, f);
    }
    let z = unpack::<F>(c);
    // Leading bits at 126: one bit of headroom. A product has at most 106
    // significant bits, so its normalising shift by one loses nothing.
    let lz = product.leading_zeros();
    let (mut big, mut big_exp, mut big_sign) = ((product << lz) >> 1, exp - lz as i32, sign != 0);
    let (mut small, mut small_exp) = (u128::from(z.sig) << 63, z.exp);
    if (big_exp, big) < (small_exp, small) {
        (big, small) = (small, big);
        (big_exp, small_exp) = (small_exp, big_exp);
        big_sign = z.sign;
    }
    let small = shr_jam128(small, (big_exp - small_exp) as u32);
    let sum = if opposite { big - small } else { big + small };
    if sum == 0 {
        return cancelled::<F>(r);
    }
    round_pack128::<F>(big_sign, big_exp + 1, sum, r, f)
}
