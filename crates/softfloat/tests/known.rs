//! Known answers where implementations tend to differ, derived by hand from
//! IEEE 754-2019 and the RISC-V Unprivileged ISA. They need no tools.

use nagori_softfloat::*;
use Round::*;

const NX: u8 = Flags::NX;
const UF: u8 = Flags::UF;
const OF: u8 = Flags::OF;
const DZ: u8 = Flags::DZ;
const NV: u8 = Flags::NV;

/// Result and flags of one operation from cleared flags.
fn run<T>(op: impl FnOnce(&mut Flags) -> T) -> (T, u8) {
    let mut f = Flags::default();
    let v = op(&mut f);
    (v, f.0)
}

fn d(x: f64) -> u64 {
    x.to_bits()
}

const MIN_NORMAL: u64 = 1 << 52;
const MAX: u64 = 0x7fef_ffff_ffff_ffff;
const INF: u64 = 0x7ff0_0000_0000_0000;
const NAN: u64 = 0x7ff8_0000_0000_0000;
const SNAN: u64 = INF + 1;
const SIGN: u64 = 1 << 63;

#[test]
fn rounding_modes_decode() {
    for r in Round::ALL {
        assert_eq!(Round::from_bits(r as u8), Some(r));
    }
    for bits in 5..=255 {
        assert_eq!(Round::from_bits(bits), None);
    }
}

#[test]
fn tininess_is_detected_after_rounding() {
    // (1 + 2^-52)(1 - 2^-53) 2^-1022 = 2^-1022 (1 + 2^-53 - 2^-105): above 2^-1022.
    let up = d(1.0 + f64::EPSILON);
    let down = d(1.0 - f64::EPSILON / 2.0);
    assert_eq!(
        run(|f| mul_f64(MIN_NORMAL + 1, down, Rne, f)),
        (MIN_NORMAL, NX)
    );
    // 2^-1022 (1 - 2^-53): a tie of the subnormal grid, but representable with an
    // unbounded exponent, hence tiny although it becomes the smallest normal.
    assert_eq!(
        run(|f| mul_f64(MIN_NORMAL, down, Rne, f)),
        (MIN_NORMAL, UF | NX)
    );
    assert_eq!(
        run(|f| mul_f64(MIN_NORMAL, down, Rtz, f)),
        (MIN_NORMAL - 1, UF | NX)
    );
    // (2^-1022 - 2^-1074)(1 + 2^-52) = 2^-1022 (1 - 2^-104): rounds to 2^-1022 with 53
    // bits, so not tiny; rounded down it is.
    assert_eq!(
        run(|f| mul_f64(MIN_NORMAL - 1, up, Rne, f)),
        (MIN_NORMAL, NX)
    );
    assert_eq!(
        run(|f| mul_f64(MIN_NORMAL - 1, up, Rup, f)),
        (MIN_NORMAL, NX)
    );
    assert_eq!(
        run(|f| mul_f64(MIN_NORMAL - 1, up, Rdn, f)),
        (MIN_NORMAL - 1, UF | NX)
    );
    // Exact subnormals do not underflow.
    assert_eq!(
        run(|f| mul_f64(MIN_NORMAL, d(0.5), Rne, f)),
        (MIN_NORMAL / 2, 0)
    );
    assert_eq!(run(|f| mul_f64(1, d(0.5), Rne, f)), (0, UF | NX));
    assert_eq!(run(|f| mul_f64(1, d(0.5), Rmm, f)), (1, UF | NX));
}

#[test]
fn overflow_saturates_by_mode() {
    let two = d(2.0);
    for (r, plus, minus) in [
        (Rne, INF, INF),
        (Rmm, INF, INF),
        (Rtz, MAX, MAX),
        (Rdn, MAX, INF),
        (Rup, INF, MAX),
    ] {
        assert_eq!(run(|f| mul_f64(MAX, two, r, f)), (plus, OF | NX));
        assert_eq!(
            run(|f| mul_f64(MAX | SIGN, two, r, f)),
            (minus | SIGN, OF | NX)
        );
    }
    // Half a unit above the largest number ties to infinity; the sum is exact in no mode.
    let half_ulp = d(2f64.powi(970));
    assert_eq!(run(|f| add_f64(MAX, half_ulp, Rne, f)), (INF, OF | NX));
    assert_eq!(run(|f| add_f64(MAX, half_ulp - 1, Rne, f)), (MAX, NX));
}

#[test]
fn sums_next_to_the_largest_number_are_inexact() {
    // -1.5 units + MAX is a tie; recovering MAX from the rounded sum overflows, so
    // an exactness test by host arithmetic sees a NaN.
    let x = -1.5 * 2f64.powi(971);
    assert_eq!(run(|f| add_f64(d(x), MAX, Rne, f)), (MAX - 1, NX));
    assert_eq!(
        run(|f| add_f64(d(-x), MAX | SIGN, Rne, f)),
        ((MAX - 1) | SIGN, NX)
    );
    let (x, max) = (-1.5 * 2f32.powi(104), f32::MAX.to_bits());
    assert_eq!(run(|f| add_f32(x.to_bits(), max, Rne, f)), (max - 1, NX));
}

#[test]
fn ties() {
    let half_ulp = d(f64::EPSILON / 2.0);
    let one = d(1.0);
    assert_eq!(run(|f| add_f64(one, half_ulp, Rne, f)), (one, NX));
    assert_eq!(run(|f| add_f64(one, half_ulp, Rmm, f)), (one + 1, NX));
    assert_eq!(run(|f| add_f64(one + 1, half_ulp, Rne, f)), (one + 2, NX));
    assert_eq!(run(|f| f64_to_i32(d(2.5), Rne, f)), (2, NX));
    assert_eq!(run(|f| f64_to_i32(d(2.5), Rmm, f)), (3, NX));
    assert_eq!(run(|f| f64_to_i32(d(-2.5), Rmm, f)), (-3, NX));
    assert_eq!(run(|f| f64_to_i32(d(-2.5), Rup, f)), (-2, NX));
}

#[test]
fn signs_of_zero() {
    let one = d(1.0);
    for r in Round::ALL {
        let zero = if r == Rdn { SIGN } else { 0 };
        assert_eq!(run(|f| sub_f64(one, one, r, f)), (zero, 0));
        assert_eq!(run(|f| add_f64(0, SIGN, r, f)), (zero, 0));
        assert_eq!(run(|f| add_f64(SIGN, SIGN, r, f)), (SIGN, 0));
        assert_eq!(run(|f| fma_f64(one, one, one | SIGN, r, f)), (zero, 0));
        assert_eq!(run(|f| sqrt_f64(SIGN, r, f)), (SIGN, 0));
    }
}

#[test]
fn invalid_and_divide_by_zero() {
    let one = d(1.0);
    assert_eq!(run(|f| div_f64(one | SIGN, 0, Rne, f)), (INF | SIGN, DZ));
    assert_eq!(run(|f| div_f64(0, 0, Rne, f)), (NAN, NV));
    assert_eq!(run(|f| sub_f64(INF, INF, Rne, f)), (NAN, NV));
    assert_eq!(run(|f| sqrt_f64(one | SIGN, Rne, f)), (NAN, NV));
    assert_eq!(run(|f| mul_f64(INF, 0, Rne, f)), (NAN, NV));
    assert_eq!(run(|f| fma_f64(INF, 0, NAN, Rne, f)), (NAN, NV));
    assert_eq!(run(|f| fma_f64(INF, one, NAN, Rne, f)), (NAN, 0));
    assert_eq!(run(|f| add_f64(SNAN | SIGN, one, Rne, f)), (NAN, NV));
    assert_eq!(run(|f| add_f64(NAN | SIGN | 5, one, Rne, f)), (NAN, 0));
    assert_eq!(run(|f| f64_to_f32(NAN | SIGN, Rne, f)), (0x7fc0_0000, 0));
    assert_eq!(run(|f| f32_to_f64(0x7f80_0001, f)), (NAN, NV));
}

#[test]
fn min_max_and_comparisons_treat_nans_and_zeros_as_riscv_does() {
    let one = d(1.0);
    assert_eq!(run(|f| min_f64(0, SIGN, f)), (SIGN, 0));
    assert_eq!(run(|f| max_f64(SIGN, 0, f)), (0, 0));
    assert_eq!(run(|f| min_f64(NAN | 7, one, f)), (one, 0));
    assert_eq!(run(|f| max_f64(one, SNAN, f)), (one, NV));
    assert_eq!(run(|f| max_f64(NAN | SIGN, NAN | 3, f)), (NAN, 0));
    assert_eq!(run(|f| min_f64(NAN, SNAN, f)), (NAN, NV));
    assert_eq!(run(|f| eq_f64(0, SIGN, f)), (true, 0));
    assert_eq!(run(|f| eq_f64(NAN, NAN, f)), (false, 0));
    assert_eq!(run(|f| eq_f64(SNAN, one, f)), (false, NV));
    assert_eq!(run(|f| lt_f64(NAN, one, f)), (false, NV));
    assert_eq!(run(|f| le_f64(one, one, f)), (true, 0));
    assert_eq!(run(|f| lt_f64(SIGN, 0, f)), (false, 0));
}

#[test]
fn integers_saturate_with_nv_alone() {
    for r in Round::ALL {
        assert_eq!(run(|f| f64_to_i32(NAN | SIGN, r, f)), (i32::MAX, NV));
        assert_eq!(run(|f| f64_to_u64(NAN, r, f)), (u64::MAX, NV));
        assert_eq!(run(|f| f64_to_u32(INF | SIGN, r, f)), (0, NV));
        assert_eq!(run(|f| f64_to_i64(d(2f64.powi(63)), r, f)), (i64::MAX, NV));
        assert_eq!(
            run(|f| f64_to_i64(d(-(2f64.powi(63))), r, f)),
            (i64::MIN, 0)
        );
        assert_eq!(run(|f| f64_to_u32(d(-1.0), r, f)), (0, NV));
        assert_eq!(
            run(|f| f32_to_u32(f32::MAX.to_bits(), r, f)),
            (u32::MAX, NV)
        );
    }
    assert_eq!(run(|f| f64_to_u32(d(-0.5), Rtz, f)), (0, NX));
    assert_eq!(run(|f| f64_to_u32(d(-0.5), Rne, f)), (0, NX));
    assert_eq!(run(|f| f64_to_u32(d(-0.5), Rmm, f)), (0, NV));
    assert_eq!(run(|f| f64_to_u32(d(-0.5), Rdn, f)), (0, NV));
    assert_eq!(run(|f| f64_to_i32(d(2147483647.5), Rtz, f)), (i32::MAX, NX));
    assert_eq!(run(|f| f64_to_i32(d(2147483647.5), Rne, f)), (i32::MAX, NV));
}

#[test]
fn classes() {
    let all = [
        INF | SIGN,
        d(-1.0),
        1 | SIGN,
        SIGN,
        0,
        1,
        d(1.0),
        INF,
        SNAN,
        NAN,
    ];
    for (bit, a) in all.into_iter().enumerate() {
        assert_eq!(classify_f64(a), 1 << bit);
    }
    let all = [
        0xff80_0000,
        0xff7f_ffff,
        0x807f_ffff,
        0x8000_0000,
        0,
        0x007f_ffff,
        0x0080_0000,
        0x7f80_0000,
        0xffbf_ffff,
        0xffc0_0000,
    ];
    for (bit, a) in all.into_iter().enumerate() {
        assert_eq!(classify_f32(a), 1 << bit);
    }
}
