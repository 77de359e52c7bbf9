//! Comparisons, minimum and maximum, classification. Exact, so without a rounding mode.

use crate::format::{exp_field, is_nan, is_neg, is_snan, Format};
use crate::round::Flags;

/// a == b, quiet: only a signaling NaN raises NV.
#[inline]
pub fn eq<F: Format>(a: u64, b: u64, f: &mut Flags) -> bool {
    if is_snan::<F>(a) || is_snan::<F>(b) {
        f.raise(Flags::NV);
    }
    F::host(a) == F::host(b)
}

#[inline(always)]
fn signal_nan<F: Format>(a: u64, b: u64, f: &mut Flags) {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        f.raise(Flags::NV);
    }
}

/// a < b, signaling: any NaN raises NV.
#[inline]
pub fn lt<F: Format>(a: u64, b: u64, f: &mut Flags) -> bool {
    signal_nan::<F>(a, b, f);
    F::host(a) < F::host(b)
}

/// a <= b, signaling: any NaN raises NV.
#[inline]
pub fn le<F: Format>(a: u64, b: u64, f: &mut Flags) -> bool {
    signal_nan::<F>(a, b, f);
    F::host(a) <= F::host(b)
}

/// Position of a non-NaN in the total order in which -0 is below +0.
#[inline(always)]
fn order<F: Format>(a: u64) -> i64 {
    let magnitude = (a & !F::SIGN) as i64;
    if is_neg::<F>(a) {
        !magnitude
    } else {
        magnitude
    }
}

#[inline(always)]
fn select<F: Format>(a: u64, b: u64, f: &mut Flags, smaller: bool) -> u64 {
    if is_snan::<F>(a) || is_snan::<F>(b) {
        f.raise(Flags::NV);
    }
    match (is_nan::<F>(a), is_nan::<F>(b)) {
        (true, true) => F::NAN,
        (true, false) => b,
        (false, true) => a,
        _ if (order::<F>(a) < order::<F>(b)) == smaller => a,
        _ => b,
    }
}

/// minimumNumber of IEEE 754-2019: if one operand is a NaN, the other is the result; -0 < +0.
#[inline]
pub fn min<F: Format>(a: u64, b: u64, f: &mut Flags) -> u64 {
    select::<F>(a, b, f, true)
}

/// maximumNumber of IEEE 754-2019: if one operand is a NaN, the other is the result; -0 < +0.
#[inline]
pub fn max<F: Format>(a: u64, b: u64, f: &mut Flags) -> u64 {
    select::<F>(a, b, f, false)
}

/// The ten-bit mask of FCLASS, exactly one bit set.
#[inline]
pub fn classify<F: Format>(a: u64) -> u64 {
    if is_nan::<F>(a) {
        return if is_snan::<F>(a) { 1 << 8 } else { 1 << 9 };
    }
    // Distance from zero: 0 zero, 1 subnormal, 2 normal, 3 infinity.
    let rank = match exp_field::<F>(a) {
        0 => u32::from(a & F::FRAC_MASK != 0),
        e if e == F::EXP_MAX => 3,
        _ => 2,
    };
    1 << if is_neg::<F>(a) { 3 - rank } else { 4 + rank }
}
