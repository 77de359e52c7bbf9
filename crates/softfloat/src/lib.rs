//! IEEE 754 binary32 and binary64 arithmetic with the results and exception
//! flags that the RISC-V F and D extensions (version 2.2) define.
//!
//! Values are raw bits; NaN boxing is the caller's business, and so is negating
//! operands for FMSUB, FNMSUB and FNMADD (flip the sign bits of `a` and/or `c`).
//! Every NaN result is the canonical one. Tininess is detected after rounding,
//! with an unbounded exponent. All five rounding modes work everywhere.
//!
//! Results do not depend on the host: its floating point is used only where it must give the same
//! bits and flags, in the default floating-point environment that Rust assumes. The module [`soft`]
//! does not use it.
//!
//! Why not a library: `rustc_apfloat` has no square root, `simple-soft-float`
//! computes with big integers and is LGPL, the others bind C or lack modes or flags.
//!
//! ```
//! use nagori_softfloat::{div_f64, Flags, Round};
//! let mut f = Flags::default();
//! let third = div_f64(1f64.to_bits(), 3f64.to_bits(), Round::Rup, &mut f);
//! assert_eq!(third, (1f64 / 3.0).to_bits() + 1);
//! assert_eq!(f.0, Flags::NX);
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod compare;
mod convert;
mod fast;
mod format;
mod round;
pub mod soft;

pub use format::{Format, F32, F64};
pub use round::{Flags, Round};

macro_rules! arithmetic {
    ($($doc:literal $op:ident ($($x:ident),*) => $single:ident, $double:ident;)*) => {$(
        #[doc = concat!($doc, ", binary32.")]
        #[inline]
        pub fn $single($($x: u32,)* r: Round, f: &mut Flags) -> u32 {
            fast::$op::<F32>($(u64::from($x),)* r, f) as u32
        }

        #[doc = concat!($doc, ", binary64.")]
        #[inline]
        pub fn $double($($x: u64,)* r: Round, f: &mut Flags) -> u64 {
            fast::$op::<F64>($($x,)* r, f)
        }
    )*};
}

arithmetic! {
    "a + b" add(a, b) => add_f32, add_f64;
    "a - b" sub(a, b) => sub_f32, sub_f64;
    "a * b" mul(a, b) => mul_f32, mul_f64;
    "a / b" div(a, b) => div_f32, div_f64;
    "Square root of a" sqrt(a) => sqrt_f32, sqrt_f64;
    "a * b + c, rounded once; infinity times zero raises NV even if c is a quiet NaN"
        fma(a, b, c) => fma_f32, fma_f64;
}

macro_rules! selection {
    ($($doc:literal $op:ident => $single:ident, $double:ident;)*) => {$(
        #[doc = concat!($doc, ", binary32.")]
        #[inline]
        pub fn $single(a: u32, b: u32, f: &mut Flags) -> u32 {
            compare::$op::<F32>(u64::from(a), u64::from(b), f) as u32
        }

        #[doc = concat!($doc, ", binary64.")]
        #[inline]
        pub fn $double(a: u64, b: u64, f: &mut Flags) -> u64 {
            compare::$op::<F64>(a, b, f)
        }
    )*};
}

selection! {
    "Smaller operand (minimumNumber: a number beats a NaN, a signaling NaN raises NV, -0 < +0)"
        min => min_f32, min_f64;
    "Larger operand (maximumNumber: a number beats a NaN, a signaling NaN raises NV, -0 < +0)"
        max => max_f32, max_f64;
}

macro_rules! comparison {
    ($($doc:literal $op:ident => $single:ident, $double:ident;)*) => {$(
        #[doc = concat!($doc, ", binary32.")]
        #[inline]
        pub fn $single(a: u32, b: u32, f: &mut Flags) -> bool {
            compare::$op::<F32>(u64::from(a), u64::from(b), f)
        }

        #[doc = concat!($doc, ", binary64.")]
        #[inline]
        pub fn $double(a: u64, b: u64, f: &mut Flags) -> bool {
            compare::$op::<F64>(a, b, f)
        }
    )*};
}

comparison! {
    "a == b, quiet (only a signaling NaN raises NV)" eq => eq_f32, eq_f64;
    "a < b, signaling (any NaN raises NV)" lt => lt_f32, lt_f64;
    "a <= b, signaling (any NaN raises NV)" le => le_f32, le_f64;
}

/// FCLASS.S: ten-bit mask with exactly one bit set, from bit 0 (-infinity) to
/// bit 7 (+infinity), bit 8 signaling NaN, bit 9 quiet NaN.
#[inline]
pub fn classify_f32(a: u32) -> u64 {
    compare::classify::<F32>(u64::from(a))
}

/// FCLASS.D: as [`classify_f32`].
#[inline]
pub fn classify_f64(a: u64) -> u64 {
    compare::classify::<F64>(a)
}

macro_rules! to_integer {
    ($($op:ident, $int:ty => $single:ident, $double:ident;)*) => {$(
        #[doc = concat!("binary32 to `", stringify!($int), "`; out of range saturates ",
            "with NV and without NX, NaN gives the maximum.")]
        #[inline]
        pub fn $single(a: u32, r: Round, f: &mut Flags) -> $int {
            convert::$op::<F32>(u64::from(a), r, f)
        }

        #[doc = concat!("binary64 to `", stringify!($int), "`; out of range saturates ",
            "with NV and without NX, NaN gives the maximum.")]
        #[inline]
        pub fn $double(a: u64, r: Round, f: &mut Flags) -> $int {
            convert::$op::<F64>(a, r, f)
        }
    )*};
}

to_integer! {
    to_i32, i32 => f32_to_i32, f64_to_i32;
    to_u32, u32 => f32_to_u32, f64_to_u32;
    to_i64, i64 => f32_to_i64, f64_to_i64;
    to_u64, u64 => f32_to_u64, f64_to_u64;
}

macro_rules! from_integer {
    ($($int:ty, $op:ident => $single:ident, $double:ident;)*) => {$(
        #[doc = concat!("`", stringify!($int), "` to binary32.")]
        #[inline]
        pub fn $single(v: $int, r: Round, f: &mut Flags) -> u32 {
            fast::$op::<F32>(v.into(), r, f) as u32
        }

        #[doc = concat!("`", stringify!($int), "` to binary64.")]
        #[inline]
        pub fn $double(v: $int, r: Round, f: &mut Flags) -> u64 {
            fast::$op::<F64>(v.into(), r, f)
        }
    )*};
}

from_integer! {
    i32, from_i64 => i32_to_f32, i32_to_f64;
    u32, from_u64 => u32_to_f32, u32_to_f64;
    i64, from_i64 => i64_to_f32, i64_to_f64;
    u64, from_u64 => u64_to_f32, u64_to_f64;
}

/// binary32 to binary64; always exact, so without a rounding mode.
#[inline]
pub fn f32_to_f64(a: u32, f: &mut Flags) -> u64 {
    fast::f32_to_f64(u64::from(a), f)
}

/// binary64 to binary32.
#[inline]
pub fn f64_to_f32(a: u64, r: Round, f: &mut Flags) -> u32 {
    fast::f64_to_f32(a, r, f) as u32
}
