//! Several harts over one memory, run in turns by their local time.

use crate::common::smp::{each, locked, repeat, traffic, Machine, BASE, DATA, SLICES};
use crate::common::{bytes, env, i, n, r, rm, s, u, Rng};
use nagori_hart::engine::NoEngine;
use nagori_hart::lines::LineState;
use nagori_hart::world::{Bus, World};
use nagori_hart::Exit;
use nagori_isa::Op::*;

#[test]
fn atomic_additions_all_count() {
    each(|timed, slice, harts| {
        let p = repeat(500, &[i(Addi, 5, 0, 3), rm(AmoaddD, 0, 10, 5, 0)]);
        let mut m = Machine::new(&vec![p; harts], timed);
        m.run(slice);
        assert_eq!(
            m.word(DATA),
            1500 * harts as u64,
            "timed {timed}, slice {slice}"
        );
    });
}

#[test]
fn reserved_additions_all_count() {
    each(|timed, slice, harts| {
        // lr, add, sc, again if it failed.
        let p = repeat(
            500,
            &[
                rm(LrD, 5, 10, 0, 0),
                i(Addi, 5, 5, 1),
                rm(ScD, 6, 10, 5, 0),
                s(Bne, 0, 6, -12),
            ],
        );
        let mut m = Machine::new(&vec![p; harts], timed);
        m.run(slice);
        assert_eq!(
            m.word(DATA),
            500 * harts as u64,
            "timed {timed}, slice {slice}"
        );
    });
}

#[test]
fn a_spinlock_protects_plain_accesses() {
    each(|timed, slice, harts| {
        let inside = [i(Ld, 7, 10, 0), i(Addi, 7, 7, 1), n(NtlP1), s(Sd, 7, 10, 0)];
        let p = repeat(200, &locked(&inside));
        let mut m = Machine::new(&vec![p; harts], timed);
        m.run(slice);
        assert_eq!(
            m.word(DATA),
            200 * harts as u64,
            "timed {timed}, slice {slice}"
        );
    });
}

#[test]
fn plain_additions_may_get_lost() {
    // Shows that the harts do interleave: without the lock the sum is too small.
    let inside = [
        i(Ld, 7, 10, 0),
        u(Jal, 0, 4),
        i(Addi, 7, 7, 1),
        u(Jal, 0, 4),
        s(Sd, 7, 10, 0),
    ];
    let mut m = Machine::new(&vec![repeat(200, &inside); 4], false);
    m.run(1);
    assert!(m.word(DATA) < 800);
}

#[test]
fn messages_arrive_in_order() {
    // Hart 0 writes data, fence, flag; hart 1 waits for the flag and reads the data; the answer
    // goes back the same way. x5 counts rounds from 1.
    let send = [
        i(Addi, 5, 5, 1),
        s(Sd, 5, 10, 0),
        i(Fence, 0, 0, 0xff),
        s(Sd, 5, 10, 128),
        i(Ld, 6, 10, 256),
        s(Bne, 5, 6, -4),
    ];
    let receive = [
        i(Addi, 5, 5, 1),
        i(Ld, 6, 10, 128),
        s(Bne, 5, 6, -4),
        i(Fence, 0, 0, 0xff),
        i(Ld, 7, 10, 0),
        // A wrong value is added up at 512.
        r(Sub, 8, 7, 5),
        i(Ld, 9, 10, 512),
        r(Or, 9, 9, 8),
        s(Sd, 9, 10, 512),
        s(Sd, 5, 10, 256),
    ];
    for timed in [false, true] {
        for slice in SLICES {
            let mut m = Machine::new(&[repeat(300, &send), repeat(300, &receive)], timed);
            m.run(slice);
            assert_eq!(
                (m.word(DATA), m.word(DATA + 256), m.word(DATA + 512)),
                (300, 300, 0)
            );
        }
    }
}

/// Hart 0: lr, then a long pause, then sc; its success in x6. Hart 1: stores at an offset.
fn broken(store: &[u32], timed: bool) -> u64 {
    let mut a = vec![i(Ld, 7, 10, 0), rm(LrD, 5, 10, 0, 0), i(Addi, 31, 0, 500)];
    a.extend([
        i(Addi, 31, 31, -1),
        s(Bne, 0, 31, -4),
        rm(ScD, 6, 10, 31, 0),
        n(Wfi),
    ]);
    // The store is in the filter before, too; then the wait.
    let mut b = store.to_vec();
    b.extend([i(Addi, 31, 0, 200), i(Addi, 31, 31, -1), s(Bne, 0, 31, -4)]);
    b.extend(store);
    b.push(n(Wfi));
    let mut m = Machine::new(&[a, b], timed);
    m.run(20);
    m.harts[0].reg(6)
}

#[test]
fn a_store_to_the_reserved_line_breaks_the_reservation() {
    for timed in [false, true] {
        for off in [0, 8, 56] {
            assert_eq!(
                broken(&[s(Sd, 11, 10, off)], timed),
                1,
                "timed {timed}, offset {off}"
            );
            assert_eq!(broken(&[s(Sb, 11, 10, off)], timed), 1);
            assert_eq!(
                broken(&[i(Addi, 12, 10, off), rm(AmoaddW, 0, 12, 11, 0)], timed),
                1
            );
        }
        assert_eq!(broken(&[i(CboZero, 0, 10, 0)], timed), 1);
        // Other lines, and loads of the same.
        assert_eq!(broken(&[s(Sd, 11, 10, 64)], timed), 0, "timed {timed}");
        assert_eq!(broken(&[s(Sd, 11, 10, -8)], timed), 0, "timed {timed}");
        assert_eq!(broken(&[i(Ld, 5, 10, 0)], timed), 0, "timed {timed}");
        assert_eq!(broken(&[n(NtlP1)], timed), 0);
    }
}

#[test]
fn an_sc_of_another_hart_breaks_the_reservation() {
    for timed in [false, true] {
        assert_eq!(
            broken(&[rm(LrD, 5, 10, 0, 0), rm(ScD, 6, 10, 11, 0)], timed),
            1,
            "timed {timed}"
        );
        // One that fails does not store.
        assert_eq!(broken(&[rm(ScD, 6, 10, 11, 0)], timed), 0, "timed {timed}");
    }
}

#[test]
fn lines_move_between_caches_and_are_counted() {
    // Two harts write the same line in turn, two hundred times each: after a while every
    // access of one finds the line dirty in the other's cache.
    let turn = |own: i32, other: i32| {
        repeat(
            200,
            &[
                i(Addi, 5, 5, 1),
                s(Sd, 5, 10, own),
                i(Ld, 6, 10, other),
                s(Blt, 5, 6, -4),
            ],
        )
    };
    let mut m = Machine::new(&[turn(0, 8), turn(8, 0)], true);
    m.run(10);
    for h in &m.harts {
        let st = h.state.stats;
        let misses = st.l1d_load_misses + st.l1d_store_misses + st.l1d_upgrades;
        assert!(
            st.probes > 20 && misses >= st.probes,
            "hart {}: {st:?}",
            h.id
        );
        assert_eq!(st.l1d_writebacks, 0);
    }
    // Alone, the same program probes nothing and misses its line once.
    let mut m = Machine::new(
        &[repeat(
            200,
            &[i(Addi, 5, 5, 1), s(Sd, 5, 10, 0), i(Ld, 6, 10, 8)],
        )],
        true,
    );
    m.run(10);
    let st = m.harts[0].state.stats;
    assert_eq!(
        (
            st.probes,
            st.l1d_upgrades,
            st.l1d_load_misses + st.l1d_store_misses
        ),
        (0, 0, 1)
    );
}

#[test]
fn a_line_that_both_read_is_upgraded_by_the_writer() {
    // Both read; then hart 1 waits while hart 0 writes; then hart 1 reads again.
    let pause = |n: i32| [i(Addi, 31, 0, n), i(Addi, 31, 31, -1), s(Bne, 0, 31, -4)];
    let mut a = vec![i(Ld, 5, 10, 0)];
    a.extend(pause(200));
    a.extend([s(Sd, 10, 10, 0), n(Wfi)]);
    let mut b = vec![i(Ld, 5, 10, 0)];
    b.extend(pause(600));
    b.extend([i(Ld, 6, 10, 0), n(Wfi)]);
    let mut m = Machine::new(&[a, b], true);
    m.run(20);
    let (s0, s1) = (m.harts[0].state.stats, m.harts[1].state.stats);
    assert_eq!(
        (s0.l1d_load_misses, s0.l1d_upgrades, s0.l1d_store_misses),
        (1, 1, 0)
    );
    assert_eq!((s1.l1d_load_misses, s1.l1d_upgrades, s1.probes), (2, 0, 1));
    assert_eq!(m.harts[1].reg(6), DATA);
    let line = m.w.coherence().l1d[1].find(DATA).expect("present");
    assert_eq!(m.w.coherence().l1d[1].entry(line).1, LineState::Shared);
}

#[test]
fn code_stored_by_one_hart_runs_on_another() {
    for timed in [false, true] {
        for slice in SLICES {
            // Hart 1 calls a function at x10 until hart 0 has rewritten it; x12: the new word.
            let mut a = vec![i(Addi, 31, 0, 300), i(Addi, 31, 31, -1), s(Bne, 0, 31, -4)];
            a.extend([
                s(Sw, 12, 10, 0),
                i(Fence, 0, 0, 0xff),
                s(Sd, 12, 10, 512),
                n(Wfi),
            ]);
            let b = vec![
                i(Jalr, 1, 10, 0),
                i(Ld, 5, 10, 512),
                s(Beq, 0, 5, -8),
                n(FenceI),
                i(Jalr, 1, 10, 0),
                i(Addi, 7, 6, 0),
                n(Wfi),
            ];
            let mut m = Machine::new(&[a, b], timed);
            m.w.ram()
                .write_bytes(DATA - BASE, &bytes(&[i(Addi, 6, 0, 1), i(Jalr, 0, 1, 0)]))
                .expect("in memory");
            m.harts[0].set_reg(12, i(Addi, 6, 0, 2) as u64);
            m.run(slice);
            assert_eq!(m.harts[1].reg(7), 2, "timed {timed}, slice {slice}");
        }
    }
}

#[test]
fn runs_repeat_exactly() {
    for seed in 0..env("NAGORI_HART_TRAFFIC", 12) {
        for timed in [false, true] {
            let run = |slice: u64| {
                let mut rng = Rng::new(seed);
                let programs: Vec<_> = (0..4).map(|_| traffic(&mut rng)).collect();
                let mut m = Machine::new(&programs, timed);
                m.run(slice);
                let mut memory = vec![0; 0x1000];
                m.w.ram()
                    .read_bytes(DATA - BASE, &mut memory)
                    .expect("in memory");
                (m.times(), m.w.traffic, memory)
            };
            for slice in [1, 100] {
                assert_eq!(
                    run(slice),
                    run(slice),
                    "seed {seed}, timed {timed}, slice {slice}"
                );
            }
        }
    }
}

#[test]
fn an_sc_elsewhere_fails_and_ends_the_reservation() {
    for timed in [false, true] {
        let p = vec![
            rm(LrD, 5, 10, 0, 0),
            i(Addi, 12, 10, 64),
            rm(ScD, 6, 12, 10, 0),
            rm(ScD, 7, 10, 10, 0),
            n(Wfi),
        ];
        let mut m = Machine::new(&[p], timed);
        m.run(10);
        assert_eq!((m.harts[0].reg(6), m.harts[0].reg(7)), (1, 1));
        assert_eq!((m.word(DATA), m.word(DATA + 64)), (0, 0));
    }
}

/// Stores to `lines` lines, a pause of some hundred cycles, a flush, the end.
fn flushing(lines: i32, flush: u32) -> Vec<u32> {
    let mut v: Vec<u32> = (0..lines).map(|k| s(Sd, 11, 10, 64 * k)).collect();
    v.extend([i(Addi, 31, 0, 300), i(Addi, 31, 31, -1), s(Bne, 0, 31, -4)]);
    v.extend([flush, n(Wfi)]);
    v
}

#[test]
fn flushes_wait_for_their_turn_on_the_bus() {
    let flushes = [
        i(CboFlush, 0, 10, 0),
        i(CboClean, 0, 10, 0),
        i(CflushDL1U, 0, 10, 0),
        i(CflushDL1, 0, 0, 0),
    ];
    for flush in flushes {
        let mut m = Machine::new(&[flushing(1, flush), vec![n(Wfi)]], true);
        let (h, code) = (&mut m.harts[0], &mut m.codes[0]);
        // The store is done before cycle 300, the flush begins behind it.
        let exit = h.run_ahead(code, &mut m.w, 100_000, 300, &mut NoEngine);
        assert_eq!((exit, m.w.traffic.1), (Exit::Bus, 0), "{flush:#x}");
        let exit = h.run_ahead(code, &mut m.w, 100_000, 100_000, &mut NoEngine);
        assert_eq!((exit, m.w.traffic.1), (Exit::Wfi, 1), "{flush:#x}");
    }
}

#[test]
fn a_flush_of_the_whole_cache_goes_on_where_it_had_to_wait() {
    let whole = i(CflushDL1, 0, 0, 0);
    let run = |step: u64| {
        let mut m = Machine::new(&[flushing(7, whole), vec![n(Wfi)]], true);
        let (h, code) = (&mut m.harts[0], &mut m.codes[0]);
        let (mut bus, mut waits) = (step, 0);
        while h.run_ahead(code, &mut m.w, 100_000, bus, &mut NoEngine) != Exit::Wfi {
            waits += 1;
            bus += step;
        }
        (waits, h.state.cycle, h.state.stats, m.w.traffic)
    };
    let (waits, cycle, stats, traffic) = run(100_000);
    assert_eq!((waits, stats.l1d_flushes, traffic.1), (0, 7, 7));
    let (waits, again, same, bytes) = run(1);
    assert!(waits > 7);
    assert_eq!((cycle, stats, traffic), (again, same, bytes));
}

#[test]
fn hits_on_contended_lines_wait_for_their_turn() {
    // Each hart adds to the line in turns; then hart 0 goes on alone with a plain load of it.
    let add = [rm(AmoaddD, 0, 10, 11, 0), i(Addi, 11, 0, 1)];
    let mut after = repeat(20, &add);
    after.pop();
    after.extend([i(Ld, 6, 10, 0), i(Ld, 7, 10, 0), n(Wfi)]);
    let mut m = Machine::new(&[after, repeat(20, &add)], true);
    let mut blocked = false;
    while !m.done[0] {
        let k = usize::from(m.harts[1].state.cycle < m.harts[0].state.cycle && !m.done[1]);
        let (h, code) = (&mut m.harts[k], &mut m.codes[k]);
        // Nobody gets ahead of the other with what both can see.
        let before = h.state.cycle;
        let exit = h.run_ahead(code, &mut m.w, before + 20, before + 1, &mut NoEngine);
        blocked |= exit == Exit::Bus && m.w.traffic.0 > 4;
        m.done[k] = exit == Exit::Wfi;
    }
    assert!(blocked);
    let c = m.w.coherence();
    let held: Vec<bool> = c.l1d.iter().map(|l1| l1.find(DATA).is_some()).collect();
    assert!(held[0]);
    let i = c.l1d[0].find(DATA).expect("held");
    assert_eq!(
        c.l1d[0].slot(i),
        nagori_hart::lines::NO_SLOT,
        "off the filter"
    );
}
