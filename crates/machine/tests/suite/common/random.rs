//! Machines with random code, page tables, and addresses of devices in registers.

use super::{build, describe, put_words, Rng};
use nagori_config::map;
use nagori_isa::{encode, Inst, Op};
use nagori_machine::{Engine, Machine, TranslatorOptions};
use nagori_platform::control;

pub const BASE: u64 = map::MEMORY;
pub const MEMORY: u64 = 16 << 20;
/// Page tables: sixteen pages.
pub const TABLES: u64 = BASE + 0x10_0000;
pub const TABLE_PAGES: u64 = 16;
/// Handler of traps: skips an instruction.
pub const SKIP: u64 = BASE + 0x800;
/// Random code.
pub const CODE: u64 = BASE + 0x1000;
pub const CODE_WORDS: u64 = 2048;
pub fn op(op: Op, rd: u8, rs1: u8, rs2: u8, imm: i32) -> u32 {
    encode(&Inst {
        op,
        rd,
        rs1,
        rs2,
        rs3: 0,
        rm: 0,
        len: 4,
        imm,
        raw: 0,
    })
    .expect("operands that fit")
}

/// Every device's address range, and memory's ends.
pub fn places(m: &Machine) -> Vec<(u64, u64)> {
    let mut list: Vec<(u64, u64)> = m.bus().ranges().map(|r| (r.base, r.size)).collect();
    list.push((
        m.bus().control_base().expect("a control block"),
        control::SIZE,
    ));
    list
}

pub fn address(rng: &mut Rng, places: &[(u64, u64)]) -> u64 {
    match rng.below(12) {
        0 => rng.bits(),
        1 => BASE + MEMORY - rng.below(32),
        2 => BASE + rng.below(MEMORY),
        3 => 0u64.wrapping_sub(rng.below(0x2000)),
        4..=7 => {
            // Registers are at the beginning of most ranges.
            let (base, size) = rng.pick(places);
            base + (rng.below(size.min(0x400)) & !7)
        }
        _ => {
            let (base, size) = rng.pick(places);
            let end = if rng.one_in(8) { size + 16 } else { size };
            let at = base.wrapping_add(rng.below(end));
            at & !rng.pick(&[0, 1, 3, 7])
        }
    }
}

pub fn value(rng: &mut Rng) -> u64 {
    match rng.below(6) {
        0 => 0,
        1 => rng.below(16),
        2 => 1 << rng.below(64),
        3 => BASE + rng.below(MEMORY),
        4 => u64::MAX >> rng.below(64),
        _ => rng.bits(),
    }
}

/// A machine with a handler that skips and random words in memory; harts start at CODE.
pub fn machine(rng: &mut Rng, word: &mut dyn FnMut(&mut Rng) -> u32) -> Machine {
    let settings = [
        format!("harts={}", rng.pick(&[1, 1, 2, 3])),
        format!("pmp_entries={}", rng.pick(&[0, 16])),
        format!("asid_bits={}", rng.pick(&[0, 9, 16])),
        "memory.size=16777216".into(),
        "memory.nvmm_boundary=8388608".into(),
        "memory.controller.mapping.bank={ low = 21, bits = 3 }".into(),
        "memory.controller.mapping.row={ low = 13, bits = 8 }".into(),
        format!(
            "method={}",
            rng.pick(&["dram", "coarse", "fine", "extended"])
        ),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut m = build(&describe("small", &settings), rng.one_in(2));
    if rng.one_in(2) {
        let options = TranslatorOptions {
            threshold: rng.below(3) as u8,
            ..TranslatorOptions::default()
        };
        m.set_engine(Engine::Translator(options))
            .expect("memory for code");
    }
    let ram = m.ram().clone();
    for k in 0..CODE_WORDS {
        let w = word(rng);
        ram.write_u32(CODE - BASE + 4 * k, w).expect("in memory");
    }
    for k in 0..TABLE_PAGES * 512 {
        let pte = match rng.below(4) {
            0 => rng.bits(),
            1 => ((TABLES >> 12) + rng.below(TABLE_PAGES)) << 10 | 1,
            2 => ((BASE >> 12) + rng.below(MEMORY >> 12)) << 10 | rng.below(0x400),
            _ => (BASE >> 12 << 10) | 0xcf | rng.below(2) << 4,
        };
        ram.write_u64(TABLES - BASE + 8 * k, pte)
            .expect("in memory");
    }
    let skip = [
        op(Op::Csrrw, 31, 31, 0, 0x340),
        op(Op::Csrrs, 31, 0, 0, 0x341),
        op(Op::Addi, 31, 31, 0, 4),
        op(Op::Csrrw, 0, 31, 0, 0x341),
        op(Op::Csrrw, 31, 31, 0, 0x340),
        op(Op::Mret, 0, 0, 0, 0),
    ];
    put_words(&ram, SKIP - BASE, &skip);
    // mtvec from t0, then on to the random part.
    let start = [
        op(Op::Csrrw, 0, 5, 0, 0x305),
        op(Op::Csrrw, 0, 6, 0, 0x180),
        op(Op::Csrrw, 0, 7, 0, 0x300),
        op(Op::Csrrw, 0, 28, 0, 0x304),
        op(Op::Csrrw, 0, 29, 0, 0x3b0),
        op(Op::Csrrw, 0, 30, 0, 0x3a0),
        op(Op::Csrrw, 0, 8, 0, 0x341),
        op(Op::Mret, 0, 0, 0, 0),
    ];
    put_words(&ram, 0, &start);
    m.memory_written(BASE, MEMORY);
    m.start_at(BASE, 0, 0);
    let places = places(&m);
    for i in 0..m.config().harts as usize {
        // The mode after mret: mostly M, where devices are in reach without page tables.
        let mode = rng.pick(&[3u64, 3, 3, 1, 0]);
        let satp = rng.pick(&[0, 8 << 60]) | rng.below(8) << 44 | TABLES >> 12;
        let special = [
            (5, SKIP),
            (6, satp),
            (
                7,
                mode << 11 | 3 << 13 | rng.bits() & 0x1e_0088 | rng.below(2) << 17,
            ),
            (28, rng.bits() & 0xaaa),
            (29, u64::MAX),
            (30, 0x1f),
            (8, CODE + 4 * rng.below(CODE_WORDS / 2)),
        ];
        let others: Vec<u64> = (0..32)
            .map(|_| match rng.below(3) {
                0 => value(rng),
                _ => address(rng, &places),
            })
            .collect();
        let h = m.hart_mut(i).expect("a hart");
        for (r, v) in others.into_iter().enumerate() {
            h.set_reg(r, v);
        }
        for (r, v) in special {
            h.set_reg(r, v);
        }
    }
    m
}
