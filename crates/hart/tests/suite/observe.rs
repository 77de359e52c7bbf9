//! What an observer is told: each instruction once, and each access that has happened.

use crate::common::bare::{BASE, MEMORY, TRAP};
use crate::common::worlds::Watched;
use crate::common::{bytes, csrr, csrw, i, n, r, rm, rocket, s};
use nagori_hart::trap::status;
use nagori_hart::world::AccessKind::{self, Clean, Flush, FlushAll, Read, Write};
use nagori_hart::world::{Bus, Commit, Event, LineKind, MemAccess, Reg, TrapEvent};
use nagori_hart::{CodeCache, Hart};
use nagori_isa::Op;
use std::cell::RefCell;
use std::rc::Rc;

const DATA: u64 = BASE + 0x2000;
/// More cycles than any program here takes.
const WHOLE: u64 = 50_000;

/// What an observer has written down.
#[derive(Default)]
struct Witness {
    commits: Vec<Commit>,
    /// Traps of no instruction.
    traps: Vec<TrapEvent>,
    /// Instructions before, line, reason.
    write_backs: Vec<(usize, u64, LineKind)>,
    /// Rounds of the loop at the end, which are not written down.
    loops: u64,
}

impl Witness {
    fn told(&mut self, event: &Event<'_>) {
        match event {
            Event::Commit(c) if c.pc == TRAP => self.loops += 1,
            Event::Commit(c) => self.commits.push(**c),
            Event::Trap(t) => self.traps.push(**t),
            Event::WriteBack(r) => self.write_backs.push((self.commits.len(), r.line, r.kind)),
            Event::Device(_) | Event::Reached(_) => {}
        }
    }
}

/// Runs words to the first trap, `slice` cycles at a time, of which only the first `bus` may use the
/// memory bus.
fn run(words: &[u32], timed: bool, slice: u64, bus: u64) -> (Hart, Witness) {
    let config = rocket();
    let mut w = Watched::new(BASE, MEMORY, 1, &config);
    let witness = Rc::new(RefCell::new(Witness::default()));
    let told = witness.clone();
    w.sink = Some(Box::new(move |e| told.borrow_mut().told(e)));
    let mut h = Hart::new(0, config).expect("configuration");
    h.set_timed(timed);
    h.state.csr.mtvec = TRAP;
    h.state.csr.mstatus |= status::FS;
    h.state.pc = BASE;
    h.set_reg(6, DATA);
    h.set_reg(7, 3);
    let put = |at: u64, words: &[u32]| {
        let at = at - BASE;
        w.flat.ram().write_bytes(at, &bytes(words)).expect("room");
    };
    put(BASE, words);
    put(TRAP, &[i(Op::Jal, 0, 0, 0)]);
    let mut code = CodeCache::default();
    while h.state.pc != TRAP {
        let now = h.state.cycle;
        h.run_ahead(
            &mut code,
            &mut w,
            now + slice,
            now + bus,
            &mut nagori_hart::engine::NoEngine,
        );
    }
    drop(w);
    let witness = Rc::into_inner(witness).expect("nobody else is told");
    (h, witness.into_inner())
}

fn accesses(words: &[u32], timed: bool) -> Vec<(u64, u8, AccessKind)> {
    let (_, w) = run(words, timed, WHOLE, WHOLE);
    let all = w.commits.iter().flat_map(Commit::accesses);
    all.map(|a| {
        assert_eq!(a.vaddr, a.paddr, "nothing is translated");
        (a.vaddr, a.size, a.kind)
    })
    .collect()
}

#[test]
fn every_kind_of_access_is_told() {
    for timed in [false, true] {
        let one = |word: u32| accesses(&[word, n(Op::Ecall)], timed);
        assert_eq!(one(i(Op::Lhu, 5, 6, 2)), [(DATA + 2, 2, Read)]);
        assert_eq!(one(i(Op::Fld, 5, 6, 8)), [(DATA + 8, 8, Read)]);
        assert_eq!(one(s(Op::Sb, 5, 6, 1)), [(DATA + 1, 1, Write)]);
        let amo = rm(Op::AmoaddW, 5, 6, 7, 0);
        assert_eq!(one(amo), [(DATA, 4, Read), (DATA, 4, Write)]);
        assert_eq!(one(rm(Op::LrD, 5, 6, 0, 0)), [(DATA, 8, Read)]);
        let fails = rm(Op::ScW, 5, 6, 7, 0);
        assert_eq!(one(fails), [], "no reservation, no store");
        let pair = [rm(Op::LrW, 5, 6, 0, 0), fails, n(Op::Ecall)];
        assert_eq!(accesses(&pair, timed), [(DATA, 4, Read), (DATA, 4, Write)]);
        let zero = [i(Op::Addi, 6, 6, 70), r(Op::CboZero, 0, 6, 0), n(Op::Ecall)];
        assert_eq!(accesses(&zero, timed), [(DATA + 64, 64, Write)]);
        assert_eq!(one(r(Op::CboClean, 0, 6, 0)), [(DATA, 64, Clean)]);
        for op in [Op::CboFlush, Op::CboInval, Op::CflushDL1] {
            assert_eq!(one(r(op, 0, 6, 0)), [(DATA, 64, Flush)], "{op:?}");
        }
        assert_eq!(one(r(Op::CflushDL1, 0, 0, 0)), [(0, 64, FlushAll)]);
        // What faults has not happened: no memory, and misaligned.
        for word in [
            i(Op::Ld, 5, 0, 0),
            s(Op::Sd, 5, 0, 0),
            i(Op::Lw, 5, 6, 1),
            rm(Op::LrD, 5, 0, 0, 0),
            rm(Op::AmoaddD, 5, 7, 7, 0),
            r(Op::CboZero, 0, 0, 0),
            r(Op::CboFlush, 0, 7, 0),
        ] {
            assert_eq!(one(word), [], "{word:#x}");
        }
    }
}

#[test]
fn what_is_tried_again_is_told_once() {
    // Loads, stores and atomics over many lines, in a loop; an illegal instruction at the end.
    let words = [
        i(Op::Addi, 7, 0, 60),
        i(Op::Ld, 5, 6, 0),
        s(Op::Sd, 7, 6, 1024),
        rm(Op::AmoaddD, 5, 6, 7, 0),
        rm(Op::LrW, 5, 6, 0, 0),
        rm(Op::ScW, 5, 6, 7, 0),
        r(Op::CboFlush, 0, 6, 0),
        i(Op::Addi, 6, 6, 320),
        i(Op::Addi, 7, 7, -1),
        s(Op::Bne, 0, 7, -32),
        0,
    ];
    let whole = run(&words, true, WHOLE, WHOLE);
    let told = |w: &Witness| -> Vec<Commit> {
        let timeless = |c: &Commit| Commit { cycle: 0, ..*c };
        w.commits.iter().map(timeless).map(without_time).collect()
    };
    assert_eq!(whole.1.commits.len(), 1 + 60 * 9 + 1);
    let accesses = whole.1.commits.iter().flat_map(Commit::accesses);
    assert_eq!(accesses.count(), 60 * 7);
    assert!(whole.1.traps.is_empty(), "the trap is the instruction's");
    let stats = whole.0.state.stats;
    let written = stats.l1d_writebacks + stats.l1d_flushes + stats.probes;
    assert_eq!(whole.1.write_backs.len() as u64, written);
    for (slice, bus) in [(3, 1), (40, 2), (7, 7), (200, 10)] {
        let (h, w) = run(&words, true, slice, bus);
        // The last one, illegal, does not retire.
        assert_eq!(w.commits.len() as u64 + w.loops, h.state.instret + 1);
        assert!(told(&w) == told(&whole.1));
        assert_eq!(w.write_backs, whole.1.write_backs);
        assert!(
            w.commits.is_sorted_by_key(|c| c.cycle),
            "in the order of time"
        );
    }
}

/// What a trap's record says beside its time.
fn without_time(mut c: Commit) -> Commit {
    if let Some(t) = &mut c.trap {
        t.cycle = 0;
    }
    c
}

#[test]
fn values_are_told() {
    use Reg::{Csr, F, X};
    for timed in [false, true] {
        let one = |words: &[u32]| {
            let (_, w) = run(words, timed, WHOLE, WHOLE);
            w.commits[words.len() - 1]
        };
        let access = |kind, at, size, value| {
            Some(MemAccess {
                kind,
                vaddr: at,
                paddr: at,
                size,
                value,
            })
        };
        let minus = i(Op::Addi, 5, 0, -2);
        assert_eq!(one(&[minus]).writes, [Some((X(5), -2i64 as u64)), None]);
        assert_eq!(one(&[i(Op::Addi, 0, 0, 3)]).writes, [None; 2]);
        let store = s(Op::Sw, 5, 6, 4);
        let c = one(&[minus, store]);
        assert_eq!(c.writes, [None; 2]);
        assert_eq!(c.accesses[0], access(Write, DATA + 4, 4, 0xffff_fffe));
        // Twice, so that the second passes the filter.
        for loads in [1, 2] {
            let load = i(Op::Lh, 9, 6, 4);
            let mut words = vec![minus, store];
            words.extend(vec![load; loads]);
            let c = one(&words);
            assert_eq!(c.writes[0], Some((X(9), -2i64 as u64)));
            assert_eq!(c.accesses, [access(Read, DATA + 4, 2, 0xfffe), None]);
        }
        let c = one(&[minus, store, i(Op::Flw, 3, 6, 4)]);
        assert_eq!(c.writes[0], Some((F(3), 0xffff_ffff_ffff_fffe)));
        // x7 is 3.
        let c = one(&[minus, store, rm(Op::AmoaddW, 8, 10, 7, 0)]);
        assert!(c.trap.is_some(), "x10 is 0: no memory");
        assert_eq!((c.writes, c.accesses), ([None; 2], [None; 2]));
        let c = one(&[minus, s(Op::Sw, 5, 6, 0), rm(Op::AmoaddW, 8, 6, 7, 0)]);
        assert_eq!(c.writes[0], Some((X(8), -2i64 as u64)));
        assert_eq!(c.accesses[0], access(Read, DATA, 4, 0xffff_fffe));
        assert_eq!(c.accesses[1], access(Write, DATA, 4, 1));
        let lr = rm(Op::LrW, 5, 6, 0, 0);
        let sc = rm(Op::ScW, 0, 6, 7, 0);
        assert_eq!(one(&[sc]).stored, Some(false));
        let c = one(&[lr, sc]);
        assert_eq!((c.stored, c.writes), (Some(true), [None; 2]));
        assert_eq!(c.accesses[0], access(Write, DATA, 4, 3));
        let c = one(&[csrw(0x340, 7)]);
        assert_eq!(c.writes, [None, Some((Csr(0x340), 3))]);
        let c = one(&[csrw(0x340, 7), csrr(9, 0x340)]);
        assert_eq!(c.writes, [Some((X(9), 3)), None], "read only");
        // 3 / 0: by zero.
        let c = one(&[
            r(Op::FcvtDL, 1, 7, 0) | 7 << 12,
            r(Op::FdivD, 2, 1, 4) | 7 << 12,
        ]);
        assert_eq!(c.writes[0], Some((F(2), f64::INFINITY.to_bits())));
        assert_eq!(c.writes[1], Some((Csr(1), 8)));
        let c = one(&[n(Op::Ecall)]);
        let t = c.trap.expect("a trap");
        assert_eq!((t.cause, t.pc, t.to, c.retired()), (11, BASE, 3, false));
        let c = one(&[0]);
        assert_eq!((c.op, c.word), (None, 0));
    }
}

#[test]
fn lines_are_told_before_what_writes_them_back() {
    let words = [s(Op::Sd, 7, 6, 0), r(Op::CboFlush, 0, 6, 0), n(Op::Ecall)];
    let (_, w) = run(&words, true, WHOLE, WHOLE);
    assert_eq!(w.write_backs, [(1, DATA, LineKind::Flush)]);
    let (_, w) = run(&words, false, WHOLE, WHOLE);
    assert!(w.write_backs.is_empty(), "no caches, no lines");
}
