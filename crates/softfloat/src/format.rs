//! The two interchange formats, as parameters of the generic arithmetic.
//!
//! Raw values travel as `u64` in every generic function; binary32 uses the
//! low 32 bits and leaves the upper ones zero.

use std::ops::{Add, Div, Mul, Sub};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::F32 {}
    impl Sealed for super::F64 {}
}

/// An IEEE 754-2019 binary interchange format (sealed: [`F32`] and [`F64`]).
pub trait Format: sealed::Sealed {
    /// Width of the trailing significand field in bits.
    const FRAC: u32;
    /// Width of the biased exponent field in bits.
    const EXP: u32;

    /// All-ones value of the exponent field (infinities and NaNs).
    const EXP_MAX: u64 = (1 << Self::EXP) - 1;
    /// Exponent bias, which is also the largest unbiased exponent.
    const BIAS: i32 = (1 << (Self::EXP - 1)) - 1;
    /// Smallest unbiased exponent of a normal number.
    const EMIN: i32 = 1 - Self::BIAS;
    /// Implicit leading bit of the significand.
    const HIDDEN: u64 = 1 << Self::FRAC;
    /// Mask of the trailing significand field.
    const FRAC_MASK: u64 = Self::HIDDEN - 1;
    /// Sign bit.
    const SIGN: u64 = 1 << (Self::FRAC + Self::EXP);
    /// Positive infinity.
    const INF: u64 = Self::EXP_MAX << Self::FRAC;
    /// Quiet bit of a NaN.
    const QUIET: u64 = Self::HIDDEN >> 1;
    /// Canonical NaN of RISC-V (Unprivileged ISA, "NaN Generation and Propagation").
    const NAN: u64 = Self::INF | Self::QUIET;

    /// The host's type of this format.
    type Host: Copy
        + PartialOrd
        + Add<Output = Self::Host>
        + Sub<Output = Self::Host>
        + Mul<Output = Self::Host>
        + Div<Output = Self::Host>;

    /// Reinterprets raw bits as the host's type.
    fn host(bits: u64) -> Self::Host;
    /// Reinterprets the host's value as raw bits.
    fn bits(v: Self::Host) -> u64;
    /// Host square root, rounded to nearest even.
    fn host_sqrt(v: Self::Host) -> Self::Host;
    /// Host fused multiply-add, rounded once to nearest even.
    fn host_fma(a: Self::Host, b: Self::Host, c: Self::Host) -> Self::Host;
    /// Host conversion of a signed integer, rounded to nearest even.
    fn host_from_i64(v: i64) -> Self::Host;
    /// Host conversion of an unsigned integer, rounded to nearest even.
    fn host_from_u64(v: u64) -> Self::Host;
}

macro_rules! format {
    ($(#[$m:meta])* $name:ident, $host:ty, $bits:ty, $frac:expr, $exp:expr) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl Format for $name {
            const FRAC: u32 = $frac;
            const EXP: u32 = $exp;
            type Host = $host;

            #[inline(always)]
            fn host(bits: u64) -> $host {
                <$host>::from_bits(bits as $bits)
            }
            #[inline(always)]
            fn bits(v: $host) -> u64 {
                u64::from(v.to_bits())
            }
            #[inline(always)]
            fn host_sqrt(v: $host) -> $host {
                v.sqrt()
            }
            #[inline(always)]
            fn host_fma(a: $host, b: $host, c: $host) -> $host {
                a.mul_add(b, c)
            }
            #[inline(always)]
            fn host_from_i64(v: i64) -> $host {
                v as $host
            }
            #[inline(always)]
            fn host_from_u64(v: u64) -> $host {
                v as $host
            }
        }
    };
}

format!(
    /// binary32 (RISC-V "F").
    F32, f32, u32, 23, 8
);
format!(
    /// binary64 (RISC-V "D").
    F64, f64, u64, 52, 11
);

/// Biased exponent field.
#[inline(always)]
pub(crate) fn exp_field<F: Format>(a: u64) -> u64 {
    (a >> F::FRAC) & F::EXP_MAX
}

/// Significand of a normal number, hidden bit included.
#[inline(always)]
pub(crate) fn normal_sig<F: Format>(a: u64) -> u64 {
    (a & F::FRAC_MASK) | F::HIDDEN
}

#[inline(always)]
pub(crate) fn is_neg<F: Format>(a: u64) -> bool {
    a & F::SIGN != 0
}

#[inline(always)]
pub(crate) fn is_zero<F: Format>(a: u64) -> bool {
    a & !F::SIGN == 0
}

#[inline(always)]
pub(crate) fn is_inf<F: Format>(a: u64) -> bool {
    a & !F::SIGN == F::INF
}

#[inline(always)]
pub(crate) fn is_nan<F: Format>(a: u64) -> bool {
    a & !F::SIGN > F::INF
}

#[inline(always)]
pub(crate) fn is_snan<F: Format>(a: u64) -> bool {
    is_nan::<F>(a) && a & F::QUIET == 0
}
