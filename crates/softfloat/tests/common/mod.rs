//! Operand generators that favour what breaks floating-point code: special
//! values, boundary exponents, ties, cancellation, tiny and overflowing results.

use nagori_softfloat::Format;
use proptest::prelude::*;

/// Fraction fields: random, sparse, runs of ones, next to either end.
fn fraction<F: Format>() -> BoxedStrategy<u64> {
    let n = F::FRAC;
    prop_oneof![
        3 => any::<u64>(),
        2 => (0..n, 0..n).prop_map(|(i, j)| 1 << i | 1 << j),
        2 => (0..n).prop_map(|i| (1u64 << i) - 1),
        2 => (0..n).prop_map(|i| !0u64 << i),
        1 => 0u64..4,
        1 => (0u64..4).prop_map(|i| !i),
        1 => (any::<u64>(), n / 2..n).prop_map(|(x, i)| x << i),
    ]
    .prop_map(|x| x & F::FRAC_MASK)
    .boxed()
}

fn pack<F: Format>(negative: bool, exp: i64, frac: u64) -> u64 {
    let exp = exp.clamp(0, F::EXP_MAX as i64) as u64;
    (if negative { F::SIGN } else { 0 }) | exp << F::FRAC | frac
}

fn field<F: Format>(a: u64) -> i64 {
    ((a >> F::FRAC) & F::EXP_MAX) as i64
}

/// One operand.
pub fn operand<F: Format>() -> BoxedStrategy<u64> {
    let (bias, top) = (i64::from(F::BIAS), F::EXP_MAX as i64);
    let exp = prop_oneof![
        3 => 0..=top,
        5 => bias - 70..bias + 70,
        1 => Just(0),
        1 => 0..3i64,
        1 => top - 3..=top - 1,
    ];
    let special = prop::sample::select(vec![
        0,
        1,
        F::FRAC_MASK,
        F::HIDDEN,
        F::HIDDEN + 1,
        (F::BIAS as u64) << F::FRAC,
        F::INF - 1,
        F::INF - 2,
        F::INF,
        F::INF + 1,
        F::NAN,
        F::NAN - 1,
        F::NAN + 1,
    ]);
    prop_oneof![
        1 => (special, any::<bool>()).prop_map(|(x, s)| x | if s { F::SIGN } else { 0 }),
        4 => (any::<bool>(), exp, fraction::<F>()).prop_map(|(s, e, x)| pack::<F>(s, e, x)),
    ]
    .boxed()
}

/// Approximate product, to choose an addend close to it.
fn product<F: Format>(a: u64, b: u64) -> u64 {
    F::bits(F::host(a) * F::host(b))
}

/// Three operands; the second is often related to the first, and the third to the product of the
/// others.
pub fn operands<F: Format>() -> BoxedStrategy<[u64; 3]> {
    let (bias, top) = (i64::from(F::BIAS), F::EXP_MAX as i64);
    // Exponent fields, possibly out of range, where results get interesting.
    let edge = prop_oneof![
        3 => -i64::from(F::FRAC) - 3..4,
        2 => -2..3i64,
        2 => top - 3..top + 2,
    ];
    let draw = (operand::<F>(), operand::<F>(), operand::<F>());
    let aim = (0..6u8, 0..5u8, edge, -120..120i64, -3..4i64);
    (draw, aim, fraction::<F>(), any::<[bool; 2]>())
        .prop_map(
            move |((a, b, c), (kb, kc, edge, off, ulps), frac, [sb, sc])| {
                let (ea, sign) = (field::<F>(a), a & F::SIGN != 0);
                let b = match kb {
                    0 => (a ^ F::SIGN).wrapping_add(ulps as u64),
                    1 => pack::<F>(sb, ea + off / 2, frac),
                    2 => pack::<F>(sb, edge + bias - ea, frac),
                    3 => pack::<F>(sb, ea + bias - edge, frac),
                    _ => b,
                };
                let p = product::<F>(a, b);
                let c = match kc {
                    0 => (p ^ F::SIGN).wrapping_add(ulps as u64),
                    1 => pack::<F>(sc ^ sign, field::<F>(p) + off, frac),
                    _ => c,
                };
                let mask = F::SIGN | (F::SIGN - 1);
                [a & mask, b & mask, c & mask]
            },
        )
        .boxed()
}

/// Integers of every magnitude, favouring neighbours of powers of two and ties.
pub fn integer() -> BoxedStrategy<u64> {
    prop_oneof![
        2 => (any::<u64>(), 0..64u32).prop_map(|(x, s)| x >> s),
        2 => (0..64u32, -3..4i64).prop_map(|(s, d)| (1u64 << s).wrapping_add(d as u64)),
        2 => (any::<u64>(), 0..64u32, 0..64u32).prop_map(|(x, s, t)| (x >> s | 1) << t),
        1 => (0..64u32, 0..64u32, 0..64u32).prop_map(|(i, j, k)| 1 << i | 1 << j | 1 << k),
    ]
    .prop_flat_map(|x| prop_oneof![Just(x), Just(x.wrapping_neg())])
    .boxed()
}
