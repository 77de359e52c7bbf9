//! The integer path against the host's own arithmetic, and the public functions
//! (which take host arithmetic where they can) against the integer path.

mod common;

use common::{integer, operand, operands};
use nagori_softfloat::{self as sf, soft, Flags, Format, Round, F32, F64};
use proptest::prelude::*;

fn canonical<F: Format>(a: u64) -> u64 {
    if a & !F::SIGN > F::INF {
        F::NAN
    } else {
        a
    }
}

fn soft_matches_host<F: Format>([a, b, c]: [u64; 3]) -> Result<(), TestCaseError> {
    let (x, y, z) = (F::host(a), F::host(b), F::host(c));
    let f = &mut Flags::default();
    let same = |name: &str, got: u64, host: F::Host| {
        let want = canonical::<F>(F::bits(host));
        prop_assert_eq!(got, want, "{} {:#x} {:#x} {:#x}", name, a, b, c);
        Ok(())
    };
    let r = Round::Rne;
    same("add", soft::add::<F>(a, b, r, f), x + y)?;
    same("sub", soft::sub::<F>(a, b, r, f), x - y)?;
    same("mul", soft::mul::<F>(a, b, r, f), x * y)?;
    same("div", soft::div::<F>(a, b, r, f), x / y)?;
    same("sqrt", soft::sqrt::<F>(a, r, f), F::host_sqrt(x))?;
    same("fma", soft::fma::<F>(a, b, c, r, f), F::host_fma(x, y, z))
}

/// Runs an operation through both paths and compares results and flags.
macro_rules! agree {
    ($before:expr, $fast:expr, $soft:expr, $ctx:expr) => {{
        let (mut f, mut g) = (Flags($before), Flags($before));
        let got = u64::from($fast(&mut f));
        let want = u64::from($soft(&mut g));
        prop_assert_eq!((got, f), (want, g), "{} {:x?}", stringify!($fast), $ctx);
    }};
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40_000))]

    #[test]
    fn soft_is_host_for_rne_f64(v in operands::<F64>()) {
        soft_matches_host::<F64>(v)?;
    }

    #[test]
    fn soft_is_host_for_rne_f32(v in operands::<F32>()) {
        soft_matches_host::<F32>(v)?;
    }

    #[test]
    fn conversions_are_host_for_rne(a in operand::<F64>(), b in operand::<F32>(), v in integer()) {
        let f = &mut Flags::default();
        let r = Round::Rne;
        let narrow = u64::from((f64::from_bits(a) as f32).to_bits());
        prop_assert_eq!(soft::convert::<F64, F32>(a, r, f), canonical::<F32>(narrow));
        let wide = f64::from(f32::from_bits(b as u32)).to_bits();
        prop_assert_eq!(soft::convert::<F32, F64>(b, r, f), canonical::<F64>(wide));
        let (neg, mag) = ((v as i64) < 0, (v as i64).unsigned_abs());
        prop_assert_eq!(soft::from_magnitude::<F64>(neg, mag, r, f), (v as i64 as f64).to_bits());
        prop_assert_eq!(soft::from_magnitude::<F32>(neg, mag, r, f), u64::from((v as i64 as f32).to_bits()));
        prop_assert_eq!(soft::from_magnitude::<F64>(false, v, r, f), (v as f64).to_bits());
        prop_assert_eq!(soft::from_magnitude::<F32>(false, v, r, f), u64::from((v as f32).to_bits()));
        // Host casts truncate and saturate alike, but for NaN.
        let (x, y, r) = (f64::from_bits(a), f32::from_bits(b as u32), Round::Rtz);
        if !x.is_nan() {
            prop_assert_eq!(sf::f64_to_i32(a, r, f), x as i32);
            prop_assert_eq!(sf::f64_to_u32(a, r, f), x as u32);
            prop_assert_eq!(sf::f64_to_i64(a, r, f), x as i64);
            prop_assert_eq!(sf::f64_to_u64(a, r, f), x as u64);
        }
        if !y.is_nan() {
            prop_assert_eq!(sf::f32_to_i32(b as u32, r, f), y as i32);
            prop_assert_eq!(sf::f32_to_u64(b as u32, r, f), y as u64);
        }
    }

    #[test]
    fn fast_is_soft_f64([a, b, c] in operands::<F64>(), before in 0..32u8) {
        for r in Round::ALL {
            for flags in [0, Flags::NX, before] {
                agree!(flags, |f| sf::add_f64(a, b, r, f), |f| soft::add::<F64>(a, b, r, f), (a, b, r));
                agree!(flags, |f| sf::sub_f64(a, b, r, f), |f| soft::sub::<F64>(a, b, r, f), (a, b, r));
                agree!(flags, |f| sf::mul_f64(a, b, r, f), |f| soft::mul::<F64>(a, b, r, f), (a, b, r));
                agree!(flags, |f| sf::div_f64(a, b, r, f), |f| soft::div::<F64>(a, b, r, f), (a, b, r));
                agree!(flags, |f| sf::sqrt_f64(a, r, f), |f| soft::sqrt::<F64>(a, r, f), (a, r));
                agree!(flags, |f| sf::fma_f64(a, b, c, r, f), |f| soft::fma::<F64>(a, b, c, r, f), (a, b, c, r));
                agree!(flags, |f| sf::f64_to_f32(a, r, f), |f| soft::convert::<F64, F32>(a, r, f), (a, r));
            }
        }
    }

    #[test]
    fn fast_is_soft_f32([a, b, c] in operands::<F32>(), before in 0..32u8) {
        let (x, y, z) = (a as u32, b as u32, c as u32);
        for r in Round::ALL {
            for flags in [0, Flags::NX, before] {
                agree!(flags, |f| sf::add_f32(x, y, r, f), |f| soft::add::<F32>(a, b, r, f), (a, b, r));
                agree!(flags, |f| sf::sub_f32(x, y, r, f), |f| soft::sub::<F32>(a, b, r, f), (a, b, r));
                agree!(flags, |f| sf::mul_f32(x, y, r, f), |f| soft::mul::<F32>(a, b, r, f), (a, b, r));
                agree!(flags, |f| sf::div_f32(x, y, r, f), |f| soft::div::<F32>(a, b, r, f), (a, b, r));
                agree!(flags, |f| sf::sqrt_f32(x, r, f), |f| soft::sqrt::<F32>(a, r, f), (a, r));
                agree!(flags, |f| sf::fma_f32(x, y, z, r, f), |f| soft::fma::<F32>(a, b, c, r, f), (a, b, c, r));
                agree!(flags, |f| sf::f32_to_f64(x, f), |f| soft::convert::<F32, F64>(a, r, f), (a, r));
            }
        }
    }

    #[test]
    fn fast_integers_are_soft(v in integer(), before in 0..32u8) {
        let int = v as i64;
        let (neg, mag) = (int < 0, int.unsigned_abs());
        for r in Round::ALL {
            for flags in [0, Flags::NX, before] {
                agree!(flags, |f| sf::i64_to_f64(int, r, f), |f| soft::from_magnitude::<F64>(neg, mag, r, f), (v, r));
                agree!(flags, |f| sf::i64_to_f32(int, r, f), |f| soft::from_magnitude::<F32>(neg, mag, r, f), (v, r));
                agree!(flags, |f| sf::u64_to_f64(v, r, f), |f| soft::from_magnitude::<F64>(false, v, r, f), (v, r));
                agree!(flags, |f| sf::u64_to_f32(v, r, f), |f| soft::from_magnitude::<F32>(false, v, r, f), (v, r));
            }
        }
    }
}
