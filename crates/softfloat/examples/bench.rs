//! Nanoseconds per operation of the public functions (from cleared flags and
//! with NX already set) and of the integer path.
//!
//! `cargo run --release -p nagori-softfloat --example bench`

use std::hint::black_box;
use std::time::Instant;

use nagori_softfloat::{self as sf, soft, Flags, Round, F32, F64};

const OPERANDS: usize = 1024;
const PASSES: usize = 2000;

/// Fixed operands: magnitudes around one with full significands (Weyl sequence).
fn operands() -> Vec<u64> {
    let mut x = 0u64;
    (0..OPERANDS)
        .map(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            (x >> 12) | ((1013 + (x >> 59)) << 52)
        })
        .collect()
}

/// Best of five, in nanoseconds per call.
fn time(data: &[u64], before: u8, mut op: impl FnMut(u64, u64, &mut Flags) -> u64) -> f64 {
    (0..5)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..PASSES {
                for w in data.windows(2) {
                    let mut f = Flags(black_box(before));
                    black_box(op(w[0], w[1], &mut f));
                    black_box(f);
                }
            }
            start.elapsed().as_secs_f64() * 1e9 / (PASSES * (data.len() - 1)) as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    let double = operands();
    let single: Vec<u64> = double
        .iter()
        .map(|&x| u64::from((f64::from_bits(x) as f32).to_bits()))
        .collect();
    println!(
        "{:12} {:>10} {:>10} {:>10}",
        "ns/op", "NX clear", "NX set", "integer"
    );
    let r = black_box(Round::Rne);
    macro_rules! row {
        ($name:literal, $data:expr, $public:expr, $soft:expr) => {
            println!(
                "{:12} {:10.2} {:10.2} {:10.2}",
                $name,
                time($data, 0, $public),
                time($data, Flags::NX, $public),
                time($data, 0, $soft)
            );
        };
    }
    macro_rules! single {
        ($op:ident, $f:ident) => {
            |a, b, $f: &mut Flags| u64::from(sf::$op(a as u32, b as u32, r, $f))
        };
    }
    let (d, s) = (&double[..], &single[..]);
    row!(
        "add_f64",
        d,
        |a, b, f| sf::add_f64(a, b, r, f),
        |a, b, f| soft::add::<F64>(a, b, r, f)
    );
    row!(
        "mul_f64",
        d,
        |a, b, f| sf::mul_f64(a, b, r, f),
        |a, b, f| soft::mul::<F64>(a, b, r, f)
    );
    row!(
        "div_f64",
        d,
        |a, b, f| sf::div_f64(a, b, r, f),
        |a, b, f| soft::div::<F64>(a, b, r, f)
    );
    row!("sqrt_f64", d, |a, _, f| sf::sqrt_f64(a, r, f), |a, _, f| {
        soft::sqrt::<F64>(a, r, f)
    });
    row!(
        "fma_f64",
        d,
        |a, b, f| sf::fma_f64(a, b, a, r, f),
        |a, b, f| soft::fma::<F64>(a, b, a, r, f)
    );
    row!(
        "add_f32",
        s,
        single!(add_f32, f),
        |a, b, f| soft::add::<F32>(a, b, r, f)
    );
    row!(
        "mul_f32",
        s,
        single!(mul_f32, f),
        |a, b, f| soft::mul::<F32>(a, b, r, f)
    );
    row!(
        "div_f32",
        s,
        single!(div_f32, f),
        |a, b, f| soft::div::<F32>(a, b, r, f)
    );
    row!(
        "sqrt_f32",
        s,
        |a, _, f| sf::sqrt_f32(a as u32, r, f).into(),
        |a, _, f| soft::sqrt::<F32>(a, r, f)
    );
    row!(
        "fma_f32",
        s,
        |a, b, f| sf::fma_f32(a as u32, b as u32, a as u32, r, f).into(),
        |a, b, f| soft::fma::<F32>(a, b, a, r, f)
    );
    row!(
        "f64_to_f32",
        d,
        |a, _, f| sf::f64_to_f32(a, r, f).into(),
        |a, _, f| soft::convert::<F64, F32>(a, r, f)
    );
    row!(
        "i64_to_f64",
        d,
        |a, _, f| sf::i64_to_f64(a as i64, r, f),
        |a, _, f| soft::from_magnitude::<F64>(false, a, r, f)
    );
    let rtz = black_box(Round::Rtz);
    let i = time(d, 0, |a, _, f| sf::f64_to_i64(a, rtz, f) as u64);
    println!("{:12} {:>10} {:>10} {i:10.2}", "f64_to_i64", "", "");
    let i = time(d, 0, |a, b, f| sf::lt_f64(a, b, f).into());
    println!("{:12} {:>10} {:>10} {i:10.2}", "lt_f64", "", "");
    let i = time(d, 0, sf::min_f64);
    println!("{:12} {:>10} {:>10} {i:10.2}", "min_f64", "", "");
}
