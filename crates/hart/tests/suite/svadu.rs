//! A and D bits set by hardware (Svadu): every kind of access on every kind of entry, beside what the
//! specification says, in both modes.

use crate::common::bare::{Bare, BASE, OPEN};
use crate::common::guest::{Sv39, SUPER_ALL};
use crate::common::{csrw, i, n, r, rm, rocket, s};
use nagori_hart::trap::{cause, status};
use nagori_hart::world::Bus;
use nagori_hart::HartConfig;
use nagori_isa::csr::ADUE;
use nagori_isa::{Ext, Extensions, Op};

const MENVCFG: u16 = 0x30a;
const V: u64 = 1;
const R: u64 = 1 << 1;
const W: u64 = 1 << 2;
const X: u64 = 1 << 3;
const U: u64 = 1 << 4;
const A: u64 = 1 << 6;
const D: u64 = 1 << 7;
/// Cache-block operations in every mode.
const CBO: u64 = 0xf0;

const CODE: u64 = BASE + 0x1000;
const TABLES: u64 = BASE + 0x4000;
const PAGE: u64 = BASE + 0x10_0000;
/// Where the page is in virtual memory.
const VA: u64 = 0x4000_0000;

fn config(isa: Extensions) -> HartConfig {
    HartConfig { isa, ..rocket() }
}

/// What an access needs, what it marks, and the traps if it may not.
struct Kind {
    name: &'static str,
    word: Option<u32>,
    needs: u64,
    marks: u64,
    page: u64,
    access: u64,
}

fn kinds() -> Vec<Kind> {
    let kind = |name, word, needs, marks, page, access| Kind {
        name,
        word,
        needs,
        marks,
        page,
        access,
    };
    let load = |name, word| kind(name, Some(word), R, A, cause::LOAD_PAGE, cause::LOAD_ACCESS);
    let store = |name, word| {
        let (page, access) = (cause::STORE_PAGE, cause::STORE_ACCESS);
        kind(name, Some(word), W, A | D, page, access)
    };
    let others = |needs, marks, name, word| Kind {
        needs,
        marks,
        ..store(name, word)
    };
    vec![
        load("ld", i(Op::Ld, 5, 6, 0)),
        load("lr.d", rm(Op::LrD, 5, 6, 0, 0)),
        store("sd", s(Op::Sd, 5, 6, 0)),
        store("amoadd.d", rm(Op::AmoaddD, 5, 6, 7, 0)),
        store("cbo.zero", r(Op::CboZero, 0, 6, 0)),
        // Without a reservation nothing is stored, but the right to store is asked for.
        others(W, 0, "sc.d", rm(Op::ScD, 5, 6, 7, 0)),
        // The right to read is enough.
        others(R, A, "cbo.clean", r(Op::CboClean, 0, 6, 0)),
        kind("fetch", None, X, A, cause::FETCH_PAGE, cause::FETCH_ACCESS),
    ]
}

/// A hart in supervisor mode before an access to [`VA`] through an entry at `level`; the entry's address.
fn before(k: &Kind, timed: bool, adue: bool, level: u32, pte: u64) -> (Bare, u64) {
    before_with(k, timed, adue, (level, pte), |_| OPEN)
}

/// As [`before`], with protection that depends on the address of the entry.
fn before_with(
    k: &Kind,
    timed: bool,
    adue: bool,
    (level, pte): (u32, u64),
    protection: impl Fn(u64) -> (u64, u64, u64),
) -> (Bare, u64) {
    let mut b = Bare::new(config(Extensions::ALL), timed, &[]);
    let mut t = Sv39::new(b.w.ram(), BASE, TABLES);
    t.map(CODE, CODE, 0x1000, SUPER_ALL);
    let at = t.entry(VA, level);
    t.put(at, pte);
    let satp = t.satp();
    b.put(PAGE, &[n(Op::Ecall)]);
    b.put(
        CODE,
        &[k.word.unwrap_or(i(Op::Jalr, 0, 6, 0)), n(Op::Ecall)],
    );
    let envcfg = CBO | if adue { ADUE } else { 0 };
    assert!(b.h.put_csr(&mut b.w, MENVCFG, envcfg));
    b.enter(1, CODE, satp, status::SUM, protection(at));
    b.h.set_reg(6, VA);
    (b, at)
}

fn entry(b: &Bare, at: u64) -> u64 {
    b.w.ram().read_u64(at - BASE).expect("in memory")
}

#[test]
fn every_access_on_every_entry() {
    let mut set = 0;
    for (timed, adue) in [(false, false), (false, true), (true, false), (true, true)] {
        for k in kinds() {
            for flags in 0..256u64 {
                for level in [0, 1] {
                    let pte = PAGE >> 12 << 10 | flags;
                    let page = level == 1;
                    // A superpage has to begin at a multiple of its size.
                    let pte = if page { BASE >> 12 << 10 | flags } else { pte };
                    let (mut b, at) = before(&k, timed, adue, level, pte);
                    if page {
                        b.h.set_reg(6, VA + (PAGE - BASE));
                    }
                    let what = format!(
                        "{} on {flags:#x} at level {level}, timed {timed}, ADUE {adue}",
                        k.name
                    );
                    let leaf = flags & (R | X) != 0;
                    if page && flags & (V | R | W | X) == V {
                        // It leads to another table.
                        continue;
                    }
                    let sound = flags & V != 0 && leaf && flags & (R | W) != W;
                    let fetch = k.word.is_none();
                    // SUM lets a supervisor read and write a user's page, not run it.
                    let right = flags & k.needs != 0 && !(fetch && flags & U != 0);
                    let needed = if k.name == "sc.d" { A | D } else { k.marks };
                    let marked = flags & needed == needed;
                    let passes = sound && right && (marked || adue);
                    let (c, _, tval) = b.run_to_trap();
                    let after = if passes { pte | k.marks } else { pte };
                    assert_eq!(entry(&b, at), after, "{what}");
                    if passes {
                        assert_eq!(c, cause::ECALL_U + 1, "{what}");
                        set += u64::from(after != pte);
                    } else {
                        assert_eq!((c, tval), (k.page, b.h.reg(6)), "{what}");
                    }
                }
            }
        }
    }
    assert!(set > 200, "{set}");
}

/// With timing, translations are kept: a page that was read, or that another mode was refused, is still marked
/// when it is written. sfence.vma then makes cleared bits seen.
#[test]
fn a_page_is_marked_again_after_its_bits_were_cleared() {
    let load = i(Op::Ld, 5, 6, 0);
    let store = s(Op::Sd, 5, 6, 0);
    for timed in [false, true] {
        for level in [0, 1] {
            let base = if level == 1 { BASE } else { PAGE };
            let clean = base >> 12 << 10 | V | R | W;
            let k = &kinds()[0];
            let (mut b, at) = before(k, timed, true, level, clean);
            let fence = n(Op::SfenceVma);
            b.put(CODE, &[load, store, n(Op::Ecall)]);
            assert_eq!(b.run_to_trap().0, cause::ECALL_U + 1);
            assert_eq!(entry(&b, at), clean | A | D, "timed {timed}");
            for (place, words, seen) in [
                (0x100, &[fence, load][..], A),
                (0x200, &[fence, store], A | D),
                (0x300, &[fence, load, load, store], A | D),
            ] {
                b.w.ram().write_u64(at - BASE, clean).expect("in memory");
                b.put(CODE + place, words);
                b.put(CODE + place + 4 * words.len() as u64, &[n(Op::Ecall)]);
                let satp = b.h.state.csr.satp;
                b.enter(1, CODE + place, satp, status::SUM, OPEN);
                assert_eq!(b.run_to_trap().0, cause::ECALL_U + 1);
                assert_eq!(entry(&b, at), clean | seen, "timed {timed}");
            }
        }
    }
}

#[test]
fn marking_costs_time_once() {
    let store = s(Op::Sd, 5, 6, 0);
    let k = &kinds()[2];
    let cycles = |flags| {
        let (mut b, _) = before(k, true, true, 0, PAGE >> 12 << 10 | V | R | W | flags);
        b.put(CODE, &[store, store, store, n(Op::Ecall)]);
        b.run_to_trap();
        let walks = b.h.state.stats.dtlb_misses;
        (b.h.state.cycle, walks)
    };
    // The walk itself marks, and has to get the line for writing.
    let (unmarked, marked) = (cycles(0), cycles(A | D));
    assert_eq!(unmarked.1, marked.1);
    assert!(
        (1..30).contains(&(unmarked.0 - marked.0)),
        "{unmarked:?} {marked:?}"
    );
    // A load fills the TLB first, and the store has to walk once more.
    let again = |flags| {
        let (mut b, _) = before(k, true, true, 0, PAGE >> 12 << 10 | V | R | W | flags);
        b.put(CODE, &[i(Op::Ld, 5, 6, 0), store, store, n(Op::Ecall)]);
        b.run_to_trap();
        (b.h.state.cycle, b.h.state.stats.dtlb_misses)
    };
    let (marked, unmarked) = (again(A | D), again(A));
    assert_eq!(unmarked.1, marked.1 + 1);
    assert!(unmarked.0 > marked.0);
}

#[test]
fn tables_that_may_not_be_written_give_access_faults() {
    for timed in [false, true] {
        for k in kinds() {
            let pte = PAGE >> 12 << 10 | V | R | W | X;
            // The page with the entry is read-only, the rest open.
            let protection = |at: u64| ((at & !0xfff) >> 2 | 0x1ff, u64::MAX >> 10, 0x1f19);
            let (mut b, at) = before_with(&k, timed, true, (0, pte), protection);
            let (c, _, tval) = b.run_to_trap();
            let what = format!("{}, timed {timed}", k.name);
            assert_eq!((c, tval), (k.access, VA), "{what}");
            assert_eq!(entry(&b, at), pte, "{what}");
            // What is marked needs no write.
            let (mut b, _) = before_with(&k, timed, true, (0, pte | A | D), protection);
            assert_eq!(b.run_to_trap().0, cause::ECALL_U + 1, "{what}");
        }
    }
}

#[test]
fn the_bit_is_set_at_reset_and_only_where_there_is_svadu() {
    let with = Bare::new(config(Extensions::ALL), false, &[]);
    assert!(with.h.state.csr.adue());
    let isa = Extensions::ALL.without(Ext::Svadu);
    let mut b = Bare::new(config(isa), false, &[csrw(MENVCFG, 5), n(Op::Ecall)]);
    assert!(!b.h.state.csr.adue());
    b.h.set_reg(5, u64::MAX);
    b.run_to_trap();
    assert!(!b.h.state.csr.adue());
    let mut again = with.h.clone();
    again.state.csr.menvcfg = 0;
    again.reset(BASE);
    assert!(again.state.csr.adue());
}
