//! Rounding modes, exception flags, and the one place where results are rounded.

use crate::format::{exp_field, is_neg, is_snan, Format};

/// Rounding mode, numbered as in the `rm` field of an instruction and in `frm`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Round {
    /// To nearest, ties to even.
    Rne = 0,
    /// Towards zero.
    Rtz = 1,
    /// Down, towards negative infinity.
    Rdn = 2,
    /// Up, towards positive infinity.
    Rup = 3,
    /// To nearest, ties to the larger magnitude.
    Rmm = 4,
}

impl Round {
    /// All modes in the order of their encoding.
    pub const ALL: [Round; 5] = [Round::Rne, Round::Rtz, Round::Rdn, Round::Rup, Round::Rmm];

    /// Decodes `rm`/`frm`. `None` for 5, 6 (reserved) and 7: DYN names no mode,
    /// it makes the caller look into `frm`.
    #[inline]
    pub fn from_bits(bits: u8) -> Option<Round> {
        Self::ALL.get(usize::from(bits)).copied()
    }
}

/// Accrued exception flags, laid out as `fflags`. Operations only ever set bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// Inexact.
    pub const NX: u8 = 1;
    /// Underflow: tiny after rounding, and inexact.
    pub const UF: u8 = 2;
    /// Overflow.
    pub const OF: u8 = 4;
    /// Divide by zero.
    pub const DZ: u8 = 8;
    /// Invalid operation.
    pub const NV: u8 = 16;

    /// Sets the given bits.
    #[inline(always)]
    pub fn raise(&mut self, bits: u8) {
        self.0 |= bits;
    }

    #[inline(always)]
    pub(crate) fn inexact_already(self) -> bool {
        self.0 & Self::NX != 0
    }
}

/// A finite nonzero number: (-1)^sign * sig * 2^(exp - 63), bit 63 of `sig` set.
#[derive(Clone, Copy)]
pub(crate) struct Unpacked {
    pub sign: bool,
    pub exp: i32,
    pub sig: u64,
}

/// Unpacks a finite nonzero number; subnormals are normalised.
#[inline]
pub(crate) fn unpack<F: Format>(a: u64) -> Unpacked {
    let sign = is_neg::<F>(a);
    let frac = a & F::FRAC_MASK;
    match exp_field::<F>(a) {
        0 => {
            let lz = frac.leading_zeros();
            Unpacked {
                sign,
                exp: F::EMIN - F::FRAC as i32 + 63 - lz as i32,
                sig: frac << lz,
            }
        }
        e => Unpacked {
            sign,
            exp: e as i32 - F::BIAS,
            sig: (frac | F::HIDDEN) << (63 - F::FRAC),
        },
    }
}

/// `x >> n` with the lost bits ORed into bit 0, so that "exact", "below half",
/// "half" and "above half" stay distinguishable.
#[inline]
pub(crate) fn shr_jam(x: u64, n: u32) -> u64 {
    match n {
        0 => x,
        1..=63 => (x >> n) | u64::from(x << (64 - n) != 0),
        _ => u64::from(x != 0),
    }
}

/// [`shr_jam`] for 128 bits.
#[inline]
pub(crate) fn shr_jam128(x: u128, n: u32) -> u128 {
    match n {
        0 => x,
        1..=127 => (x >> n) | u128::from(x << (128 - n) != 0),
        _ => u128::from(x != 0),
    }
}

/// Whether a magnitude whose last kept bit is `odd` grows by one unit, given the
/// discarded part `rem` of a unit worth `2 * half`.
#[inline(always)]
pub(crate) fn rounds_up(r: Round, sign: bool, odd: bool, rem: u64, half: u64) -> bool {
    match r {
        Round::Rne => rem > half || (rem == half && odd),
        Round::Rtz => false,
        Round::Rdn => sign && rem != 0,
        Round::Rup => !sign && rem != 0,
        Round::Rmm => rem >= half,
    }
}

/// Rounds `sig` to a multiple of `2^drop` (1 <= drop <= 63): quotient and inexactness.
#[inline(always)]
fn round_at(r: Round, sign: bool, sig: u64, drop: u32) -> (u64, bool) {
    let rem = sig & ((1 << drop) - 1);
    let kept = sig >> drop;
    let up = rounds_up(r, sign, kept & 1 != 0, rem, 1 << (drop - 1));
    (kept + u64::from(up), rem != 0)
}

/// Rounds to the format and packs, raising NX, UF and OF. Bit 0 of `sig` may
/// stand for lost lower bits.
#[inline]
pub(crate) fn round_pack<F: Format>(u: Unpacked, r: Round, f: &mut Flags) -> u64 {
    let drop = 63 - F::FRAC;
    let sign = if u.sign { F::SIGN } else { 0 };
    let (kept, inexact) = round_at(r, u.sign, u.sig, drop);
    if u.exp < F::EMIN {
        // Tiny after rounding: not if rounding to the full precision, as if the
        // exponent were unbounded, carries up to the smallest normal number.
        let tiny = u.exp < F::EMIN - 1 || kept < F::HIDDEN << 1;
        let sig = shr_jam(u.sig, (F::EMIN - u.exp) as u32);
        let (kept, inexact) = round_at(r, u.sign, sig, drop);
        if inexact {
            f.raise(if tiny {
                Flags::UF | Flags::NX
            } else {
                Flags::NX
            });
        }
        // A carry into the hidden bit makes the exponent field 1, as it should.
        return sign | kept;
    }
    // The hidden bit adds 1 to the exponent field, and a carry out of the
    // significand one more while leaving a zero fraction.
    let biased = (u.exp + F::BIAS - 1) as u64;
    let magnitude = (biased << F::FRAC) + kept;
    if u.exp > F::BIAS || magnitude >= F::INF {
        f.raise(Flags::OF | Flags::NX);
        let to_inf = match r {
            Round::Rne | Round::Rmm => true,
            Round::Rtz => false,
            Round::Rdn => u.sign,
            Round::Rup => !u.sign,
        };
        return sign | (F::INF - u64::from(!to_inf));
    }
    if inexact {
        f.raise(Flags::NX);
    }
    sign | magnitude
}

/// Normalises `sig`, whose bit 127 weighs 2^exp, then rounds and packs. `sig` is not zero.
#[inline]
pub(crate) fn round_pack128<F: Format>(
    sign: bool,
    exp: i32,
    sig: u128,
    r: Round,
    f: &mut Flags,
) -> u64 {
    let lz = sig.leading_zeros();
    let sig = sig << lz;
    let u = Unpacked {
        sign,
        exp: exp - lz as i32,
        sig: (sig >> 64) as u64 | u64::from(sig as u64 != 0),
    };
    round_pack::<F>(u, r, f)
}

/// Canonical NaN for an operation with a NaN among its operands.
#[inline]
pub(crate) fn propagate<F: Format>(ops: &[u64], f: &mut Flags) -> u64 {
    if ops.iter().any(|&x| is_snan::<F>(x)) {
        f.raise(Flags::NV);
    }
    F::NAN
}
