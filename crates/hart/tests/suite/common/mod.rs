//! Shared by the tests of the hart: random numbers, an assembler of single
//! instructions, worlds that watch.
#![allow(dead_code)]

pub mod bare;
pub mod gen;
pub mod guest;
pub mod privileged;
pub mod qemu;
pub mod smp;
pub mod worlds;

use nagori_config::{Library, Machine, DEFAULT_MACHINE};
use nagori_hart::config::{Ext, Extensions, HartConfig};
use nagori_isa::{encode, Inst, Op};
use std::sync::LazyLock;

static ROCKET: LazyLock<HartConfig> = LazyLock::new(|| {
    let board = Machine::load(&Library::default(), DEFAULT_MACHINE, &[]).expect("a description");
    HartConfig {
        // Its walker sets no bits.
        isa: Extensions::ALL.without(Ext::Svadu),
        triggers: 4,
        ..board.hart().expect("a core")
    }
});

/// The core of the reference board with all extensions but Svadu, and with triggers.
pub fn rocket() -> HartConfig {
    ROCKET.clone()
}

/// SplitMix64: the same numbers on every host.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Numbers that depend on the seed alone.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// An element of a slice that is not empty.
    pub fn pick<T: Copy>(&mut self, v: &[T]) -> T {
        v[self.below(v.len() as u64) as usize]
    }

    /// An integer as programs have them: small, at a boundary, or any.
    pub fn int(&mut self) -> u64 {
        const EDGES: [u64; 12] = [
            0,
            1,
            u64::MAX,
            1 << 63,
            (1 << 63) - 1,
            1 << 31,
            (1 << 31) - 1,
            0xffff_ffff,
            0xffff_ffff_8000_0000,
            1 << 32,
            63,
            64,
        ];
        match self.below(4) {
            0 => self.pick(&EDGES),
            1 => (self.below(200) as i64 - 100) as u64,
            2 => self.bits() >> self.below(64),
            _ => self.bits(),
        }
    }

    /// A binary64 pattern, special values often.
    pub fn f64(&mut self) -> u64 {
        const S: [u64; 14] = [
            0,
            1,
            0x000f_ffff_ffff_ffff,
            0x0010_0000_0000_0000,
            0x3ff0_0000_0000_0000,
            0x3fe0_0000_0000_0000,
            0x7fef_ffff_ffff_ffff,
            0x7ff0_0000_0000_0000,
            0x7ff0_0000_0000_0001,
            0x7ff8_0000_0000_0000,
            0x7fff_ffff_ffff_ffff,
            0x41df_ffff_ffff_ffff,
            0x43e0_0000_0000_0000,
            0x3690_0000_0000_0000,
        ];
        let sign = self.bits() & 1 << 63;
        sign ^ match self.below(4) {
            0 => self.pick(&S),
            // Exponents next to one another, so that sums do not vanish.
            1 => (1010 + self.below(30)) << 52 | self.bits() >> 12,
            2 => ((self.below(2000) as f64) / 16.0).to_bits(),
            _ => self.bits() & !(1 << 63),
        }
    }

    /// A binary32 pattern, special values often.
    pub fn f32(&mut self) -> u32 {
        const S: [u32; 12] = [
            0,
            1,
            0x007f_ffff,
            0x0080_0000,
            0x3f80_0000,
            0x7f7f_ffff,
            0x7f80_0000,
            0x7f80_0001,
            0x7fc0_0000,
            0x4f00_0000,
            0x5f00_0000,
            0x7fff_ffff,
        ];
        let sign = (self.bits() as u32) & 1 << 31;
        sign ^ match self.below(4) {
            0 => self.pick(&S),
            1 => (120 + self.below(16) as u32) << 23 | (self.bits() as u32) >> 9,
            2 => ((self.below(2000) as f32) / 16.0).to_bits(),
            _ => self.bits() as u32 & !(1 << 31),
        }
    }

    /// Contents of a floating-point register: a double, a boxed single, rarely a badly boxed one.
    pub fn freg(&mut self) -> u64 {
        match self.below(8) {
            0..=3 => self.f64(),
            4..=6 => 0xffff_ffff_0000_0000 | self.f32() as u64,
            _ => self.f32() as u64 | (self.bits() & 0x7fff_ffff) << 32,
        }
    }
}

/// An instruction's fields, all zero, to be filled in.
pub fn inst(op: Op) -> Inst {
    Inst {
        op,
        rd: 0,
        rs1: 0,
        rs2: 0,
        rs3: 0,
        rm: 0,
        len: 4,
        imm: 0,
        raw: 0,
    }
}

fn word(i: Inst) -> u32 {
    encode(&i).unwrap_or_else(|| panic!("no encoding of {i:?}"))
}

/// `op rd, rs1, rs2`.
pub fn r(op: Op, rd: u8, rs1: u8, rs2: u8) -> u32 {
    word(Inst {
        rd,
        rs1,
        rs2,
        ..inst(op)
    })
}

/// `op rd, rs1, imm`: also loads, jalr, and CSR instructions with the number as `imm`.
pub fn i(op: Op, rd: u8, rs1: u8, imm: i32) -> u32 {
    word(Inst {
        rd,
        rs1,
        imm,
        ..inst(op)
    })
}

/// `op rs2, imm(rs1)` and `op rs1, rs2, offset`.
pub fn s(op: Op, rs2: u8, rs1: u8, imm: i32) -> u32 {
    word(Inst {
        rs1,
        rs2,
        imm,
        ..inst(op)
    })
}

/// `op rd, imm` of formats U and J.
pub fn u(op: Op, rd: u8, imm: i32) -> u32 {
    word(Inst {
        rd,
        imm,
        ..inst(op)
    })
}

/// An instruction without operands.
pub fn n(op: Op) -> u32 {
    word(inst(op))
}

/// `op rd, rs1, rs2, rm` of floating point and (with aq and rl) of atomics.
pub fn rm(op: Op, rd: u8, rs1: u8, rs2: u8, rm: u8) -> u32 {
    word(Inst {
        rd,
        rs1,
        rs2,
        rm,
        ..inst(op)
    })
}

/// `csrrw x0, number, rs1`.
pub fn csrw(number: u16, rs1: u8) -> u32 {
    i(Op::Csrrw, 0, rs1, number as i32)
}

/// `csrrs rd, number, x0`.
pub fn csrr(rd: u8, number: u16) -> u32 {
    i(Op::Csrrs, rd, 0, number as i32)
}

/// `lui` and `addiw`: a value that fits 32 bits, signed. Eight bytes.
pub fn li(rd: u8, value: i32) -> [u32; 2] {
    let low = value << 20 >> 20;
    [
        u(Op::Lui, rd, value.wrapping_sub(low)),
        i(Op::Addiw, rd, rd, low),
    ]
}

/// Little-endian bytes of words.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A number from the environment, or the default.
pub fn env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(v) => v
            .parse()
            .unwrap_or_else(|_| panic!("{name}={v}: a number is expected")),
        Err(_) => default,
    }
}
