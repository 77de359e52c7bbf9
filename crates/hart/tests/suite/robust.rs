//! Random words as code, random registers, page tables, protection and CSR
//! writes in M, S and U mode: nothing panics, nothing hangs, and the filters
//! stay in step with caches and TLBs.
//!
//! `NAGORI_HART_ROBUST` sets the number of machines (default 600).

use crate::common::bare::{Bare, BASE as BARE, OPEN};
use crate::common::worlds::{prefetching, Watched};
use crate::common::{bytes, csrw, env, i, n, r, rocket, Rng};
use nagori_hart::trap::{cause, status};
use nagori_hart::world::{Bus, World};
use nagori_hart::{CodeCache, Exit, Hart};
use nagori_isa::{Op, OPS};

const BASE: u64 = 0x8000_0000;
const MEMORY: u64 = 1 << 20;
/// Where the start-up code lies.
const START: u64 = BASE;
/// A handler that skips four bytes, and stays in memory.
const SKIP: u64 = BASE + 0x400;
/// Page tables: eight pages.
const TABLES: u64 = BASE + 0x1000;
const TABLE_PAGES: u64 = 8;
/// Random code and data begin here.
const FREE: u64 = BASE + 0x1_0000;

fn random_word(rng: &mut Rng) -> u32 {
    match rng.below(8) {
        0 => rng.bits() as u32,
        1 => rng.bits() as u32 | 3,
        _ => {
            let row = rng.pick(OPS);
            let mut w = row.match_ | rng.bits() as u32 & !row.mask;
            // Small immediates and few registers, so that things happen more than once.
            if rng.one_in(2) {
                w &= 0xf1ff_ffff & !(0x18 << 15) | row.match_;
            }
            w
        }
    }
}

/// An address of a kind that is likely to cause errors.
fn address(rng: &mut Rng) -> u64 {
    match rng.below(10) {
        0..=3 => FREE + rng.below(MEMORY - 0x1_0000),
        4 => (rng.below(1 << 12)) << 12 | rng.below(4096),
        5 => 0u64.wrapping_sub(1 + rng.below(0x3000)),
        6 => BASE + MEMORY - rng.below(16),
        7 => {
            rng.below(1 << 39)
                | if rng.one_in(2) {
                    0xffff_ff80_0000_0000
                } else {
                    0
                }
        }
        8 => TABLES + rng.below(TABLE_PAGES * 4096),
        _ => rng.bits(),
    }
}

fn random_pte(rng: &mut Rng) -> u64 {
    let page = match rng.below(4) {
        0 => TABLES + 4096 * rng.below(TABLE_PAGES),
        1 => return rng.bits(),
        _ => BASE + 4096 * rng.below(MEMORY / 4096),
    };
    let flags = match rng.below(6) {
        0 => 1,
        1 => 0xdf,
        2 => 0xcf,
        3 => 0xd7,
        _ => rng.bits() & 0x3ff,
    };
    page >> 12 << 10 | flags
}

/// A machine whose harts are about to run something random.
fn machine(rng: &mut Rng, harts: usize, timed: bool) -> (Watched, Vec<Hart>) {
    let mut config = rocket();
    config.asid_bits = rng.pick(&[0, 4, 16]);
    config.pmp_entries = rng.pick(&[0, 16, 16, 64]);
    let mut w = Watched::new(BASE, MEMORY, harts, &config);
    prefetching(
        w.coherence(),
        config.asid_bits as u64 / 4 + config.pmp_entries as u64 / 16,
    );
    let ram = w.ram();
    for k in (FREE - BASE..MEMORY).step_by(4) {
        ram.write_u32(k, random_word(rng)).expect("in memory");
    }
    for k in 0..TABLE_PAGES * 512 {
        ram.write_u64(TABLES - BASE + 8 * k, random_pte(rng))
            .expect("in memory");
    }
    // A good path to the last and the first page of the address space, in half of the cases.
    if rng.one_in(2) {
        let table = |k: u64| (TABLES + 4096 * k) >> 12 << 10 | 1;
        let top = rng.pick(&[0, 511]);
        for (level, pte) in [
            (0, table(1)),
            (1, table(2)),
            (2, FREE >> 12 << 10 | rng.pick(&[0xdf, 0xcf])),
        ] {
            ram.write_u64(TABLES - BASE + 4096 * level + 8 * top, pte)
                .expect("in memory");
        }
    }
    // Memory at its own address, for S or for U.
    if rng.one_in(2) {
        let pte = BASE >> 12 << 10 | rng.pick(&[0xdf, 0xcf]);
        ram.write_u64(TABLES - BASE + 8 * 2, pte)
            .expect("in memory");
    }
    let skip = [
        i(Op::Csrrw, 5, 5, 0x340),
        i(Op::Csrrs, 5, 0, 0x341),
        i(Op::Addi, 5, 5, 4),
        i(Op::Csrrw, 6, 6, 0x140),
        i(Op::Slli, 5, 5, 44),
        i(Op::Srli, 5, 5, 44),
        i(Op::Addi, 6, 0, 1),
        i(Op::Slli, 6, 6, 31),
        r(Op::Or, 5, 5, 6),
        i(Op::Csrrw, 6, 6, 0x140),
        i(Op::Csrrw, 0, 5, 0x341),
        i(Op::Csrrw, 5, 5, 0x340),
        n(Op::Mret),
    ];
    ram.write_bytes(SKIP - BASE, &bytes(&skip))
        .expect("in memory");
    let numbers = [
        0x305, 0x105, 0x302, 0x303, 0x304, 0x30a, 0x10a, 0x306, 0x3b0, 0x3b1, 0x3a0, 0x180, 0x300,
        0x341,
    ];
    let mut words: Vec<u32> = numbers
        .iter()
        .enumerate()
        .map(|(k, c)| csrw(*c, 10 + k as u8))
        .collect();
    words.push(n(Op::Mret));
    ram.write_bytes(START - BASE, &bytes(&words))
        .expect("in memory");
    let list = (0..harts)
        .map(|id| {
            let mut h = Hart::new(id, config.clone()).expect("configuration");
            h.set_timed(timed);
            h.state.pc = START;
            let handler = |rng: &mut Rng| if rng.one_in(8) { address(rng) } else { SKIP };
            let pmp = |rng: &mut Rng| {
                if rng.one_in(2) {
                    u64::MAX
                } else {
                    address(rng) >> 2
                }
            };
            let values = [
                handler(rng),
                handler(rng),
                rng.bits() & rng.bits(),
                rng.bits(),
                rng.bits() & rng.bits(),
                rng.bits(),
                rng.bits(),
                rng.bits(),
                pmp(rng),
                pmp(rng),
                rng.pick(&[0x1f, 0x1f1f, 0x1f1b, 0x0f1f, 0x1f0f, 0x1f9f, 0x0f]),
                rng.pick(&[8 << 60, 8 << 60, 0]) | rng.below(16) << 44 | TABLES >> 12,
                rng.bits() & !(3 << 11) | rng.pick(&[0, 1, 3]) << 11 | 1 << 13,
                if rng.one_in(2) {
                    FREE + rng.below(MEMORY / 2)
                } else {
                    address(rng)
                },
            ];
            for (k, v) in values.into_iter().enumerate() {
                h.set_reg(10 + k, v);
            }
            (0..32).for_each(|k| h.set_freg(k, rng.freg()));
            h
        })
        .collect();
    (w, list)
}

/// Runs until the random part has begun, then gives every register a random value.
fn begin(rng: &mut Rng, w: &mut Watched, h: &mut Hart, code: &mut CodeCache) {
    while h.state.csr.mepc == 0
        && h.state.pc >= START
        && h.state.pc < START + 15 * 4
        && h.state.cycle < 1000
    {
        h.run(code, w, h.state.cycle + 1);
    }
    for r in 1..32 {
        let v = if rng.one_in(2) {
            address(rng) & !7
        } else {
            rng.int()
        };
        h.set_reg(r, v);
    }
}

fn run_some(rng: &mut Rng, timed: bool, harts: usize) -> (u64, usize) {
    let (mut w, mut list) = machine(rng, harts, timed);
    // More than can happen in the time given: a block has 64 instructions at most, and each takes a cycle.
    w.bound = 200_000 * harts as u64;
    let mut caches: Vec<CodeCache> = list.iter().map(|_| CodeCache::default()).collect();
    for (h, c) in list.iter_mut().zip(&mut caches) {
        begin(rng, &mut w, h, c);
    }
    let end = 20_000;
    while list.iter().any(|h| h.state.cycle < end) {
        let k = (0..harts)
            .min_by_key(|&k| list[k].state.cycle)
            .expect("harts");
        let h = &mut list[k];
        let limit = h.state.cycle + 1 + rng.below(3000);
        match h.run(&mut caches[k], &mut w, limit) {
            Exit::Limit | Exit::Bus => assert!(h.state.cycle >= limit),
            Exit::Wfi => {
                // As a platform does: on to the timer, or for a while.
                let wake = h.wake_cycle().unwrap_or(u64::MAX).min(h.state.cycle + 100);
                h.state.cycle = h.state.cycle.max(wake);
                h.state.waiting = rng.one_in(2);
            }
            Exit::Device => {}
            Exit::Stopped => unreachable!("nobody watches"),
        }
        assert!(
            h.state.cycle < end + 100_000_000,
            "a single call took {} cycles",
            h.state.cycle
        );
        assert_eq!(h.reg(0), 0);
        for h in &list {
            h.check_invariants(&mut w).unwrap_or_else(|e| panic!("{e}"));
        }
        if rng.one_in(50) {
            for h in &mut list {
                h.set_timed(!h.timed());
            }
            w.coherence().clear_caches();
        }
    }
    (w.steps, w.traps.len())
}

#[test]
fn random_machines_neither_panic_nor_hang() {
    let (mut steps, mut traps) = (0, 0);
    for k in 0..env("NAGORI_HART_ROBUST", 600) {
        let run = std::panic::catch_unwind(|| {
            let mut rng = Rng::new(k);
            let harts = 1 + rng.below(2) as usize;
            run_some(&mut rng, k % 2 == 0, harts)
        });
        let (s, t) = run.unwrap_or_else(|_| panic!("machine {k}"));
        steps += s;
        traps += t;
    }
    eprintln!("{steps} instructions, {traps} traps");
    assert!(
        steps > 100_000 && traps > 10_000,
        "{steps} instructions, {traps} traps: too dull"
    );
}

#[test]
fn every_csr_number_with_random_values() {
    use nagori_isa::csr;
    let mut rng = Rng::new(11);
    for timed in [false, true] {
        for (number, _) in (0..4096u16).flat_map(|c| [(c, 0), (c, 1), (c, 2)]) {
            let write = i(
                rng.pick(&[Op::Csrrw, Op::Csrrs, Op::Csrrc]),
                0,
                6,
                number as i32,
            );
            let words = [
                write,
                i(Op::Csrrs, 7, 0, number as i32),
                i(Op::Csrrs, 8, 0, number as i32),
                n(Op::Ecall),
            ];
            let mut b = Bare::new(rocket(), timed, &words);
            let value = rng.bits();
            b.h.set_reg(6, value);
            b.h.state.csr.mstatus |= status::FS;
            // A new vector or a lock on the code are what is asked for: the way to the trap is then another.
            let loses_way = matches!(number, 0x305 | 0x3a0..=0x3ef | 0x300);
            if loses_way {
                b.h.run(&mut b.code, &mut b.w, 2000);
                continue;
            }
            let (c, pc, tval) = b.run_to_trap();
            let exists = csr::lookup(number).is_some();
            if !exists || csr::read_only(number) {
                assert_eq!(
                    (c, pc, tval),
                    (cause::ILLEGAL, BARE, write as u64),
                    "{}",
                    csr::name(number)
                );
                continue;
            }
            assert_eq!(
                (c, pc),
                (cause::ECALL_U + 3, BARE + 12),
                "{}",
                csr::name(number)
            );
            let runs = matches!(number, 0xb00 | 0xb02..=0xb1f);
            assert!(
                runs || b.h.reg(7) == b.h.reg(8),
                "{}: reads differ",
                csr::name(number)
            );
            // Bits outside the mask do not change.
            let row = csr::lookup(number).expect("a row");
            if row.kind == csr::CsrKind::Plain {
                assert_eq!(
                    b.h.reg(7) & !row.mask,
                    row.reset & !row.mask,
                    "{}",
                    csr::name(number)
                );
            }
        }
    }
}

#[test]
fn privilege_of_every_csr_number() {
    use nagori_isa::csr;
    for mode in [0u64, 1] {
        for number in 0..4096u16 {
            let read = i(Op::Csrrs, 7, 0, number as i32);
            let mut b = Bare::new(rocket(), false, &[]);
            b.put(BARE + 0x1000, &[read, n(Op::Ecall)]);
            b.enter(mode, BARE + 0x1000, 0, status::FS, OPEN);
            b.h.state.csr.mcounteren = u64::MAX;
            b.h.state.csr.scounteren = u64::MAX;
            let allowed = csr::lookup(number).is_some() && csr::privilege(number) as u64 <= mode;
            // stimecmp is the machine's until menvcfg.STCE.
            let want = if allowed && number != 0x14d {
                (cause::ECALL_U + mode, BARE + 0x1004, 0)
            } else {
                (cause::ILLEGAL, BARE + 0x1000, read as u64)
            };
            assert_eq!(b.run_to_trap(), want, "mode {mode}, {}", csr::name(number));
        }
    }
}
