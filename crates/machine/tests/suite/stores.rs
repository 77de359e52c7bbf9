//! Store buffers, and stores that hints of Zihintntl have combined: what they cost, what others see when, what a
//! power cut takes. Memory order between harts is in `litmus`.

use crate::ahead::{EAGER, FAR};
use crate::common::random::op;
use crate::common::*;
use crate::litmus::{ANY, COMBINING, IN_ORDER, LOADS};
use crate::power::{start, NVMM};
use nagori_hart::lines::StoreStats;
use nagori_hart::world::LineKind;
use nagori_isa::Op;
use nagori_machine::{BusTransfer, BusWatch, Dram, Engine, Machine, Stop, StoreReport};
use std::sync::{Arc, Mutex};

const QUIET: &str = "memory.controller.refresh.enabled=false";
/// Memory is 50 cycles away.
const SLOW: &str = "board.read_request_ps=1000000";
pub(crate) const NT: &str = "nontemporal.all.store=\"write-combining\"";
const LEVEL: &str =
    "cache.l2={ level = 2, shared_by = 1, size = \"16 KiB\", ways = 8, latency = 20, inclusion = \
    \"non-inclusive\" }";

fn sd(reg: u8, offset: i32) -> u32 {
    op(Op::Sd, 0, 10, reg, offset)
}

fn ld(reg: u8, offset: i32) -> u32 {
    op(Op::Ld, reg, 10, 0, offset)
}

/// Two words: a store under `ntl.all`.
pub(crate) fn nt(reg: u8, offset: i32) -> [u32; 2] {
    [op(Op::NtlAll, 0, 0, 0, 0), sd(reg, offset)]
}

const FENCE_RW: i32 = 0x33;
pub(crate) const FENCE_W: i32 = 0x11;
pub(crate) const FENCE_R: i32 = 0x22;

pub(crate) fn fence(bits: i32) -> u32 {
    op(Op::Fence, 0, 0, 0, bits)
}

/// A machine whose hart has `FAR` in x10 and x11 = 1, x12 = 2, and runs such words twice, the second time on other
/// lines: code is there then. x16 and x17 have the cycles before and behind the words.
fn measured(words: &[u32], settings: &[&str]) -> Machine {
    let mut all = vec![
        op(Op::Addi, 8, 0, 0, 2),
        op(Op::Addi, 11, 0, 0, 1),
        op(Op::Addi, 12, 0, 0, 2),
        op(Op::Addi, 9, 0, 0, 1),
        op(Op::Slli, 9, 9, 0, 20),
        // The line that the loop jumps back to.
        op(Op::Addi, 0, 0, 0, 0),
    ];
    let begin = all.len() as i32;
    all.push(op(Op::Ld, 5, 10, 0, -64));
    all.push(fence(FENCE_RW));
    all.push(op(Op::Csrrs, 16, 0, 0, 0xb00));
    all.extend(words);
    all.push(op(Op::Csrrs, 17, 0, 0, 0xb00));
    all.push(op(Op::Add, 10, 10, 9, 0));
    all.push(op(Op::Addi, 8, 8, 0, -1));
    let here = all.len() as i32;
    all.push(op(Op::Bne, 0, 8, 0, 4 * (begin - here)));
    all.push(fence(FENCE_RW));
    all.push(op(Op::Wfi, 0, 0, 0, 0));
    all.push(op(Op::Jal, 0, 0, 0, -4));
    let mut keys = settings.to_vec();
    keys.extend([QUIET, SLOW]);
    let mut m = build(&describe("small", &keys), true);
    load_words(&mut m, &all);
    let base = m.config().memory.base;
    m.hart_mut(0).expect("a hart").set_reg(10, base + FAR);
    run_idle(&mut m);
    m
}

pub(crate) fn run_idle(m: &mut Machine) {
    for _ in 0..1_000_000 {
        match m.run(100_000, None) {
            Stop::Slice => {}
            Stop::Idle(_) => return,
            other => panic!("{other:?}"),
        }
    }
    panic!("it does not end");
}

fn cycles(m: &Machine) -> u64 {
    let h = m.hart(0).expect("a hart");
    h.reg(17) - h.reg(16)
}

fn events(m: &Machine) -> StoreStats {
    m.report()
        .stores
        .first()
        .map_or(StoreStats::default(), |s| s.events)
}

fn with(more: &[&'static str], settings: &[&'static str]) -> Vec<&'static str> {
    settings.iter().chain(more).copied().collect()
}

/// Stores to so many lines, each in a set of its own.
fn lines(n: i32) -> Vec<u32> {
    (0..n).map(|k| sd(11, 64 * k)).collect()
}

#[test]
fn stores_go_on_without_their_lines() {
    let without = cycles(&measured(&lines(4), &["l1d.mshrs=6"]));
    for settings in [
        IN_ORDER,
        &[
            "l1d.mshrs=6",
            "store_buffer.entries=8",
            "store_buffer.drain=any",
        ],
    ] {
        let m = measured(&lines(4), settings);
        let e = events(&m);
        assert_eq!(
            (e.buffered, e.drained, e.requested),
            (8, 8, 8),
            "{settings:?}"
        );
        assert_eq!((e.room_waits, e.drain_waits > 0), (0, true));
        // An issue slot for each, and the lines come later.
        assert!(cycles(&m) < 40 && without > 150, "{} {without}", cycles(&m));
        for k in 0..4 {
            let at = FAR + (1 << 20) + 64 * k;
            assert_eq!(m.ram().read_u64(at).expect("in memory"), 1);
        }
    }
}

#[test]
fn a_full_buffer_has_stores_wait() {
    for drain in [
        "store_buffer.drain=\"in-order\"",
        "store_buffer.drain=\"any\"",
    ] {
        let settings = ["l1d.mshrs=16", "store_buffer.entries=4", drain];
        let fits = measured(&lines(4), &settings);
        let full = measured(&lines(5), &settings);
        assert_eq!(events(&fits).room_waits, 0);
        assert_eq!(events(&full).room_waits, 2, "{:?}", events(&full));
        assert!(cycles(&full) > cycles(&fits) + 20);
        assert_eq!(events(&full).buffered, 10);
    }
}

#[test]
fn requests_wait_for_line_fill_buffers() {
    // With a fence, so that the drain counts.
    let mut words = lines(6);
    words.push(fence(FENCE_RW));
    let time = |mshrs: &'static str| cycles(&measured(&words, &[mshrs, "store_buffer.entries=8"]));
    let (one, two, six) = (
        time("l1d.mshrs=1"),
        time("l1d.mshrs=2"),
        time("l1d.mshrs=6"),
    );
    assert!(one > two && two > six, "{one} {two} {six}");
    assert!(one > 2 * six, "{one} {six}");
}

#[test]
fn stores_to_a_line_join_an_entry() {
    let near: Vec<u32> = (0..8).map(|k| sd(11, 8 * k)).collect();
    let turns: Vec<u32> = (0..8).map(|k| sd(11, 64 * (k % 2) + 8 * k)).collect();
    let off: &[&str] = &["store_buffer.coalesce=false"];
    for (words, settings, joined) in [
        (&near, IN_ORDER.to_vec(), 7),
        // In order only the newest entry.
        (&turns, IN_ORDER.to_vec(), 0),
        (&turns, ANY.to_vec(), 6),
        (&near, [IN_ORDER, off].concat(), 0),
        (&near, [ANY, off].concat(), 0),
    ] {
        let m = measured(words, &settings);
        let e = events(&m);
        // In the first round, code that comes late may let an entry drain.
        let most: u64 = 2 * joined;
        let found = (most.saturating_sub(2)..=most).contains(&e.coalesced);
        assert!(found, "{settings:?}: {e:?}");
        assert_eq!(e.drained, e.buffered - e.coalesced);
        for k in 0..8 {
            let line = if words == &near { 0 } else { 64 * (k % 2) };
            let at = FAR + (1 << 20) + line + 8 * k;
            assert_eq!(m.ram().read_u64(at).expect("in memory"), 1, "{k}");
        }
    }
}

#[test]
fn a_hart_reads_what_it_has_stored() {
    for settings in [IN_ORDER, ANY] {
        let words = [
            sd(11, 0),
            sd(12, 8),
            ld(5, 0),
            ld(6, 8),
            op(Op::Lb, 7, 10, 0, 8),
        ];
        let m = measured(&words, settings);
        let e = events(&m);
        assert_eq!((e.forwarded, e.forward_waits), (6, 0));
        let h = m.hart(0).expect("a hart");
        assert_eq!([5, 6, 7].map(|r| h.reg(r)), [1, 2, 2]);
        let dear = with(&["store_buffer.forward_cycles=9"], settings);
        assert_eq!(cycles(&measured(&words, &dear)), cycles(&m) + 3 * 9);

        // A load of more than was stored waits until the store is in the cache.
        let words = [op(Op::Sw, 0, 10, 11, 4), ld(5, 0)];
        let m = measured(&words, settings);
        let e = events(&m);
        assert_eq!((e.forwarded, e.forward_waits), (0, 2));
        assert_eq!(m.hart(0).expect("a hart").reg(5), 1 << 32);
        assert!(cycles(&m) > 50, "{}", cycles(&m));

        // Other bytes of the line come with it.
        let words = [sd(11, 8), ld(5, 0), op(Op::Add, 6, 5, 0, 0)];
        let m = measured(&words, settings);
        let e = events(&m);
        assert_eq!((e.forwarded, e.forward_waits, e.drained), (0, 0, 2));
        assert_eq!(m.hart(0).expect("a hart").reg(5), 0);
    }
}

#[test]
fn who_must_waits_for_what_was_stored() {
    let amo = op(Op::AmoaddD, 5, 10, 0, 0);
    let lr = op(Op::LrD, 5, 10, 0, 0);
    let clean = op(Op::CboClean, 0, 13, 0, 0);
    let near = [op(Op::Addi, 13, 10, 0, 64), clean];
    let elsewhere = [op(Op::Addi, 13, 10, 0, -64), clean];
    let zero = [op(Op::Addi, 13, 10, 0, -64), op(Op::CboZero, 0, 13, 0, 0)];
    let amo = [
        op(Op::Addi, 10, 10, 0, -64),
        amo,
        op(Op::Addi, 10, 10, 0, 64),
    ];
    let lr = [
        op(Op::Addi, 10, 10, 0, -64),
        lr,
        op(Op::Addi, 10, 10, 0, 64),
    ];
    let all: [(&[u32], bool, bool); 12] = [
        (&[fence(FENCE_RW)], true, true),
        // A store buffer in order orders stores by itself.
        (&[fence(FENCE_W)], false, true),
        (&[fence(0x833)], false, true),
        (&[fence(FENCE_R)], false, false),
        (&[fence(0x23)], false, false),
        (&[fence(0x12)], true, true),
        (&amo, true, true),
        (&lr, true, true),
        (&near, true, true),
        (&elsewhere, false, false),
        (&zero, true, true),
        (&[op(Op::Addi, 0, 0, 0, 0)], false, false),
    ];
    for (k, (what, in_order, any)) in all.into_iter().enumerate() {
        for (settings, waits) in [(IN_ORDER, in_order), (ANY, any)] {
            let mut words = vec![sd(11, 64)];
            words.extend(what);
            let m = measured(&words, settings);
            // The fence in front of each round waits in the second one.
            let own = events(&m).drain_waits;
            let found = if waits { own >= 2 } else { own <= 2 };
            let long = cycles(&m) > 30;
            assert!(
                found && long == waits,
                "{k}: {settings:?}: {own} {}",
                cycles(&m)
            );
        }
    }
}

/// Which transfers there were.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(LineKind, bool, u64)>>>);

impl BusWatch for Log {
    fn moved(&mut self, t: &BusTransfer<'_>) {
        let write = t.kind == nagori_memtime::Kind::Write;
        let mut all = self.0.lock().expect("no panic");
        all.push((t.by.kind, write, t.offset));
    }
}

/// Runs words with x10 = the first byte of NVMM or of `FAR`, until the hart waits; its transfers behind the code.
fn transfers(words: &[u32], settings: &[&str], at: u64) -> (Machine, Vec<(LineKind, bool, u64)>) {
    let mut words = words.to_vec();
    words.extend([op(Op::Wfi, 0, 0, 0, 0), op(Op::Jal, 0, 0, 0, -4)]);
    let mut m = start(&words, settings, true, Engine::Interpreter);
    let base = m.config().memory.base;
    let h = m.hart_mut(0).expect("a hart");
    h.set_reg(10, base + at);
    h.set_reg(11, 1);
    h.set_reg(12, 2);
    let log = Log::default();
    m.watch_bus(Some(Box::new(log.clone()))).expect("a watch");
    run_idle(&mut m);
    m.watch_bus(None).expect("no failure");
    let mut all = log.0.lock().expect("no panic").clone();
    all.retain(|t| t.2 >= FAR);
    (m, all)
}

pub(crate) fn full(line: i32) -> Vec<u32> {
    (0..8).flat_map(|k| nt(11, 64 * line + 8 * k)).collect()
}

#[test]
fn a_whole_line_is_written_without_being_read() {
    let settings = ["l1d.mshrs=4", NT];
    for levels in [&[][..], &[LEVEL]] {
        let settings: Vec<&str> = settings.iter().chain(levels).copied().collect();
        let (m, all) = transfers(&full(0), &settings, FAR);
        assert_eq!(all, [(LineKind::Combine, true, FAR)], "{levels:?}");
        let e = events(&m);
        assert_eq!((e.nt_stores, e.combined, e.evicted_full), (8, 1, 1));
        assert_eq!((e.left_full, e.evicted_partial, e.nt_copies), (1, 0, 0));
        let hart = m.report().harts[0].clone();
        assert_eq!(hart.events.l1d_store_misses, 0);
        assert_eq!(hart.memory.dram_writes + hart.memory.nvmm_writes, 1);
        for k in 0..8 {
            assert_eq!(m.ram().read_u64(FAR + 8 * k).expect("in memory"), 1);
        }
        // All but one byte: it stays.
        let mut words = full(0);
        words.truncate(14);
        words.extend([op(Op::NtlAll, 0, 0, 0, 0), op(Op::Sw, 0, 10, 11, 56)]);
        let (m, all) = transfers(&words, &settings, FAR);
        assert_eq!(all, []);
        assert_eq!(m.ram().read_u64(FAR).expect("in memory"), 0, "not visible");
        let mut seen = [0; 8];
        let base = m.config().memory.base;
        assert_eq!(m.peek(Some(0), base + FAR, &mut seen), 8);
        assert_eq!(u64::from_le_bytes(seen), 1, "the hart's own view");
    }
}

#[test]
fn part_of_a_line_is_written_as_memory_needs_it() {
    let dram = "nontemporal.partial_dram=\"read-modify-write\"";
    let nvmm = "nontemporal.partial_nvmm=\"read-modify-write\"";
    for (more, at, reads) in [
        (&[][..], FAR, false),
        (&[dram], FAR, true),
        (&[dram], NVMM, false),
        (&[nvmm], NVMM, true),
        (&[nvmm], FAR, false),
    ] {
        let mut settings = vec!["l1d.mshrs=4", NT];
        settings.extend(more);
        let mut words = nt(11, 8).to_vec();
        words.push(fence(FENCE_W));
        let (m, all) = transfers(&words, &settings, at);
        let mut expected = vec![(LineKind::Combine, true, at)];
        if reads {
            expected.insert(0, (LineKind::Combine, false, at));
        }
        assert_eq!(all, expected, "{more:?}");
        let e = events(&m);
        assert_eq!((e.evicted_partial, e.evicted_reads), (1, u64::from(reads)));
        assert_eq!((e.left_fence, e.drain_waits), (1, 1));
        assert_eq!(m.ram().read_u64(at + 8).expect("in memory"), 1);
    }
}

#[test]
fn each_reason_has_a_line_leave() {
    let atomic = [op(Op::Addi, 13, 10, 0, 640), op(Op::AmoaddD, 5, 13, 0, 0)];
    let flush = [op(Op::CboFlush, 0, 10, 0, 0)];
    let other = [op(Op::Addi, 13, 10, 0, 640), op(Op::CboFlush, 0, 13, 0, 0)];
    type Count = fn(&StoreStats) -> u64;
    let all: [(&[u32], Count, u64); 8] = [
        (&[fence(FENCE_W)], |e| e.left_fence, 1),
        (&[fence(FENCE_R)], |e| e.evicted_partial, 0),
        (&atomic, |e| e.left_atomic, 1),
        (&[ld(5, 0)], |e| e.left_load, 1),
        (&[ld(5, 640)], |e| e.evicted_partial, 0),
        (&[sd(12, 0)], |e| e.left_store, 1),
        (&flush, |e| e.left_flush, 1),
        (&other, |e| e.evicted_partial, 0),
    ];
    for buffer in [&[][..], &["store_buffer.entries=4"]] {
        for (k, (what, count, n)) in all.into_iter().enumerate() {
            let mut words = nt(11, 8).to_vec();
            words.extend(what);
            words.push(op(Op::Addi, 0, 0, 0, 0));
            let mut settings = vec!["l1d.mshrs=4", NT];
            settings.extend(buffer);
            let (m, _) = transfers(&words, &settings, FAR);
            let e = events(&m);
            assert_eq!(count(&e), n, "{k}: {e:?}");
            let visible = m.ram().read_u64(FAR + 8).expect("in memory");
            assert_eq!(visible, n, "{k}");
            if k == 5 {
                assert_eq!(m.ram().read_u64(FAR).expect("in memory"), 2);
            }
        }
    }
}

#[test]
fn the_oldest_line_leaves_when_buffers_run_out() {
    for (order, full_third) in [("any", false), ("in-order", true)] {
        let order = format!("nontemporal.evict=\"{order}\"");
        let settings = ["l1d.mshrs=4", NT, &order];
        let begun: Vec<u32> = (0..4).flat_map(|k| nt(11, 64 * k)).collect();
        let (m, all) = transfers(&begun, &settings, FAR);
        assert_eq!(
            (events(&m).combined, all.len()),
            (4, 0),
            "as many as there are"
        );
        let mut more = begun.clone();
        more.extend(nt(11, 64 * 4));
        let (m, all) = transfers(&more, &settings, FAR);
        let e = events(&m);
        assert_eq!((e.left_register, e.lfb_waits), (1, 1));
        assert!(e.lfb_wait_cycles > 0);
        assert_eq!(all, [(LineKind::Combine, true, FAR)], "the first one");

        // The third one is full first.
        let mut words = nt(11, 0).to_vec();
        words.extend(nt(11, 64));
        words.extend(full(2));
        let (m, all) = transfers(&words, &settings, FAR);
        let lines: Vec<u64> = all.iter().map(|t| (t.2 - FAR) / 64).collect();
        if full_third {
            assert_eq!((lines, events(&m).left_order), (vec![0, 1, 2], 2))
        } else {
            assert_eq!((lines, events(&m).left_order), (vec![2], 0))
        }
    }
}

#[test]
fn cached_copies_go_first_or_are_updated() {
    let update = "nontemporal.cached_copy=\"update\"";
    for levels in [&[][..], &[LEVEL]] {
        for (dirty, more) in [(false, &[][..]), (true, &[]), (true, &[update])] {
            let mut settings = vec!["l1d.mshrs=4", NT];
            settings.extend(levels);
            settings.extend(more);
            let mut words = vec![if dirty { sd(12, 0) } else { ld(5, 0) }];
            words.extend(nt(11, 8));
            words.push(fence(FENCE_RW));
            let (m, all) = transfers(&words, &settings, FAR);
            let e = events(&m);
            let kinds: Vec<LineKind> = all.iter().map(|t| t.0).collect();
            assert_eq!(e.nt_copies, 1);
            if more.is_empty() {
                let first = if dirty {
                    LineKind::Store
                } else {
                    LineKind::Load
                };
                let flushed = dirty.then_some(LineKind::Flush);
                let expected = [Some(first), flushed, Some(LineKind::Combine)];
                let expected: Vec<LineKind> = expected.into_iter().flatten().collect();
                assert_eq!(kinds, expected, "{levels:?}");
                assert_eq!(e.combined, 1);
            } else {
                assert_eq!(kinds, [LineKind::Store]);
                assert_eq!(e.combined, 0);
            }
            let word = |at| m.ram().read_u64(FAR + at).expect("in memory");
            assert_eq!((word(0), word(8)), (if dirty { 2 } else { 0 }, 1));
        }
    }
}

#[test]
fn a_hint_is_for_the_next_access_only() {
    let hint = op(Op::NtlAll, 0, 0, 0, 0);
    let nop = op(Op::Addi, 0, 0, 0, 0);
    let settings = ["l1d.mshrs=4", NT];
    let count = |words: &[u32]| events(&transfers(words, &settings, FAR).0).nt_stores;
    assert_eq!(count(&[hint, sd(11, 0)]), 1);
    assert_eq!(count(&[hint, nop, sd(11, 0)]), 0, "something in between");
    assert_eq!(count(&[hint, sd(11, 0), sd(11, 8)]), 1, "and then no more");
    assert_eq!(count(&[hint, hint, sd(11, 0)]), 1);
    // A jump to the store itself.
    let jump = op(Op::Jal, 0, 0, 0, 8);
    assert_eq!(count(&[jump, hint, sd(11, 0)]), 0);
    // Hints without a row do nothing.
    for other in [Op::NtlP1, Op::NtlPall, Op::NtlS1] {
        assert_eq!(count(&[op(other, 0, 0, 0, 0), sd(11, 0)]), 0);
    }
    // Without the extension, it is an addition to x0.
    let without = "isa=[\"i\", \"m\", \"a\", \"zicsr\"]";
    let (m, _) = transfers(&nt(11, 0), &["l1d.mshrs=4", NT, without], FAR);
    assert!(m.report().stores.is_empty());
}

#[test]
fn loads_under_a_hint_displace_nothing() {
    // Sets of four ways: three lines that are used again and again, and a stream through the same set.
    let mut words = Vec::new();
    let line = |k: i32| {
        [
            op(Op::Addi, 13, 0, 0, k),
            op(Op::Slli, 13, 13, 0, 12),
            op(Op::Add, 13, 13, 10, 0),
        ]
    };
    for round in 0..12 {
        for k in 0..3 {
            words.extend(line(k));
            words.push(op(Op::Ld, 5, 13, 0, 0));
        }
        words.extend(line(3 + 2 * round));
        words.extend([op(Op::NtlP1, 0, 0, 0, 0), op(Op::Ld, 5, 13, 0, 0)]);
        words.extend(line(4 + 2 * round));
        words.extend([op(Op::NtlP1, 0, 0, 0, 0), op(Op::Ld, 5, 13, 0, 0)]);
    }
    for policy in ["lru", "tree-plru", "srrip"] {
        let policy = format!("l1d.replacement={policy}");
        let misses = |more: &[&str]| {
            let mut settings = vec![&policy[..]];
            settings.extend(more);
            let (m, _) = transfers(&words, &settings, FAR);
            (m.report().harts[0].events.l1d_load_misses, events(&m))
        };
        let (plain, none) = misses(&[]);
        let (last, e) = misses(&["nontemporal.p1.last=[\"l1d\"]"]);
        assert_eq!(none, StoreStats::default());
        assert_eq!((e.nt_loads, e.nt_load_misses), (24, 24), "{policy}");
        if policy.ends_with("=lru") {
            assert_eq!(last, 24 + 3, "only the stream misses");
        }
        // One that is put in for long by itself needs no hint.
        assert!(
            plain > last + 6 || policy.ends_with("srrip"),
            "{policy}: {plain}"
        );
    }
    // Levels: passed by, or put last.
    for (more, kept) in [
        (&[][..], true),
        (&["nontemporal.p1.bypass=[\"l2\"]"], false),
        (&["nontemporal.p1.last=[\"l1d\", \"l2\"]"], true),
    ] {
        let mut settings = vec![LEVEL];
        settings.extend(more);
        let words = [
            op(Op::NtlP1, 0, 0, 0, 0),
            ld(5, 0),
            op(Op::CflushDL1, 0, 10, 0, 0),
            ld(5, 0),
        ];
        let (m, all) = transfers(&words, &settings, FAR);
        assert_eq!(all.len(), if kept { 1 } else { 2 }, "{more:?}");
        let e = m.report().caches[0].events;
        assert_eq!(e.nt_misses, u64::from(!more.is_empty()));
    }
}

#[test]
fn a_power_cut_takes_what_is_in_buffers() {
    let keys = ["l1d.mshrs=4", NT, "memory.track_persistence=true"];
    for domain in ["adr", "eadr"] {
        let domain = format!("memory.persistence_domain={domain}");
        for entries in ["store_buffer.entries=0", "store_buffer.entries=4"] {
            let settings = [&keys[..], &[&domain, entries]].concat();
            let kept = |words: &[u32]| {
                let (mut m, _) = transfers(words, &settings, NVMM);
                m.power_cut(Dram::Zero).expect("a cut");
                m.ram().read_u64(NVMM + 8).expect("in memory")
            };
            let mut words = nt(11, 8).to_vec();
            assert_eq!(kept(&words), 0, "{settings:?}: in a line fill buffer");
            words.push(fence(FENCE_R));
            assert_eq!(kept(&words), 0, "no such fence");
            words.push(fence(FENCE_W));
            assert_eq!(kept(&words), 1, "{settings:?}: drained");
            assert_eq!(kept(&full(0)), 1, "it has left by itself");
        }
    }
}

#[test]
fn a_power_cut_takes_the_store_buffer() {
    // At each cycle from the store on: it is lost, until the line has come and the cache has it, which `eadr` keeps.
    let mut before = 0;
    let settings = [
        "l1d.mshrs=4",
        "store_buffer.entries=4",
        "memory.persistence_domain=eadr",
    ];
    for cycles in (1..4000).step_by(97) {
        let words = [sd(11, 8), op(Op::Jal, 0, 0, 0, 0)];
        let mut m = start(&words, &settings, true, Engine::Interpreter);
        m.hart_mut(0).expect("a hart").set_reg(11, 1);
        while m.hart(0).expect("a hart").state.cycle < cycles {
            m.run(1, None);
        }
        m.power_cut(Dram::Zero).expect("a cut");
        let now = m.ram().read_u64(NVMM + 8).expect("in memory");
        assert!(now >= before, "what is there stays there");
        before = now;
    }
    assert_eq!(before, 1);
}

/// A random program of two harts on a few lines of their own and shared ones; what each hart reads goes into x9.
fn random(rng: &mut Rng, shared: bool) -> Vec<u32> {
    let mut words = vec![
        op(Op::Csrrs, 6, 0, 0, 0xf14),
        op(Op::Slli, 6, 6, 0, if shared { 3 } else { 16 }),
        op(Op::Add, 10, 10, 6, 0),
    ];
    for k in 0..rng.below(300) + 100 {
        let offset = (rng.below(12) * 64 + rng.below(4) * 16) as i32;
        let small = (rng.below(8)) as i32;
        words.push(op(Op::Addi, 11, 11, 0, k as i32));
        match rng.below(14) {
            0..=2 => words.push(sd(11, offset)),
            3 => words.push(op(
                Op::Sb,
                0,
                10,
                11,
                offset + if shared { 0 } else { small },
            )),
            4 => words.push(op(Op::Sw, 0, 10, 11, offset + (small & 4))),
            5..=6 => words.extend(nt(11, offset)),
            7 if !shared => words.extend(full(offset / 64)),
            8 => words.push(fence(rng.pick(&[FENCE_RW, FENCE_W, FENCE_R, 0x31, 0x833]))),
            9 => words.extend([
                op(Op::Addi, 13, 10, 0, offset),
                op(Op::AmoaddD, 5, 13, 11, 0),
            ]),
            10 => words.extend([
                op(Op::Addi, 13, 10, 0, offset),
                op(
                    rng.pick(&[Op::CboFlush, Op::CboClean, Op::CflushDL1, Op::CboZero]),
                    0,
                    13,
                    0,
                    0,
                ),
            ]),
            _ => words.extend([
                op(rng.pick(&[Op::Ld, Op::Lwu]), 5, 10, 0, offset),
                op(Op::Add, 9, 9, 5, 0),
                op(Op::Slli, 7, 9, 0, 1),
                op(Op::Add, 9, 9, 7, 0),
            ]),
        }
    }
    words.extend([
        fence(FENCE_RW),
        op(Op::Wfi, 0, 0, 0, 0),
        op(Op::Jal, 0, 0, 0, -4),
    ]);
    words
}

fn ready(words: &[u32], settings: &[&str], engine: Engine) -> Machine {
    let mut m = start(words, settings, true, engine);
    let base = m.config().memory.base;
    for i in 0..m.config().harts as usize {
        m.hart_mut(i).expect("a hart").set_reg(10, base + FAR);
    }
    m
}

fn contents(m: &Machine) -> Vec<u64> {
    let harts = 0..m.config().harts as usize;
    let mut all: Vec<u64> = harts.map(|i| m.hart(i).expect("a hart").reg(9)).collect();
    for part in [0, 1 << 16] {
        all.extend((0..128).map(|k| m.ram().read_u64(FAR + part + 8 * k).expect("in memory")));
    }
    all
}

const ORDER: &str = "nontemporal.evict=\"in-order\"";
const SHARED: &str =
    "cache.llc={ level = 3, shared_by = \"all\", size = \"32 KiB\", ways = 8, latency = 40, \
    probe_latency = 20, mshrs = 6 }";

fn machines() -> Vec<Vec<&'static str>> {
    vec![
        with(&["harts=2", NT], IN_ORDER),
        with(
            &[
                "harts=2",
                NT,
                ORDER,
                "l1d.size=\"1 KiB\"",
                "l1d.replacement=lru",
            ],
            ANY,
        ),
        with(
            &[
                "harts=2",
                LEVEL,
                SHARED,
                "l1d.prefetcher=stream",
                "l1d.degree=2",
            ],
            COMBINING,
        ),
        with(&["harts=2", NT, LOADS], ANY),
        with(&["harts=2", NT, LOADS, LEVEL, SHARED], IN_ORDER),
        vec![
            "harts=2",
            NT,
            "l1d.mshrs=2",
            "store_buffer.entries=2",
            "store_buffer.coalesce=false",
        ],
    ]
}

/// What a machine of some settings is made of before it runs.
pub(crate) type Prepare = fn(&mut Machine, &[&str]);

/// Random programs come to the same results with buffers and hints; `counted` is true of what each hart has counted.
pub(crate) fn compare_results(prepare: Prepare, counted: fn(&StoreReport) -> bool) {
    for seed in 0..env("NAGORI_STORES_SEEDS", 10) {
        let words = random(&mut Rng::new(seed), false);
        let mut plain = ready(&words, &["harts=2"], EAGER);
        run_idle(&mut plain);
        let expected = contents(&plain);
        for settings in machines() {
            let mut m = ready(&words, &settings, EAGER);
            prepare(&mut m, &settings);
            run_idle(&mut m);
            assert_eq!(contents(&m), expected, "seed {seed}: {settings:?}");
            assert!(m.report().stores.iter().all(counted));
        }
    }
}

#[test]
fn results_are_those_without_buffers() {
    compare_results(
        |_, _| (),
        |s| s.events.buffered > 0 && s.events.nt_stores > 0,
    );
}

/// Random programs take the same cycles and come to the same contents with any engine, look-ahead and slices, and in
/// copies.
pub(crate) fn compare_runs(prepare: Prepare) {
    let mut copies = 0;
    for seed in 0..env("NAGORI_STORES_SEEDS", 10) {
        let words = random(&mut Rng::new(seed), seed % 2 == 0);
        for settings in machines() {
            let name = format!("seed {seed}: {settings:?}");
            let ready = |settings: &[&str], engine| {
                let mut m = ready(&words, settings, engine);
                prepare(&mut m, settings);
                m
            };
            let idle = |m: &mut Machine| {
                run_idle(m);
                (outcome(m, Stop::Slice, Vec::new()), contents(m))
            };
            let first = idle(&mut ready(&settings, Engine::Interpreter));
            for (ahead, engine) in [("1", EAGER), ("77", Engine::Interpreter), ("100000", EAGER)] {
                let ahead = ["run_ahead_cycles", "quantum_cycles"].map(|k| format!("{k}={ahead}"));
                let all: Vec<&str> = { settings.iter().copied() }
                    .chain(ahead.iter().map(|s| &s[..]))
                    .collect();
                assert_eq!(idle(&mut ready(&all, engine)), first, "{name}, {ahead:?}");
            }
            // In small slices, now and then with a copy that goes on.
            let mut rng = Rng::new(seed);
            let mut m = ready(&settings, EAGER);
            while m.run(rng.below(60) + 1, None) == Stop::Slice {
                if rng.one_in(60) {
                    let copy = m.checkpoint().expect("a checkpoint");
                    m = copy.fork().expect("a fork");
                    m.set_engine(EAGER).expect("an engine");
                    copies += 1;
                }
            }
            assert_eq!(idle(&mut m), first, "{name}, with copies");
        }
    }
    assert!(copies > 10, "{copies}");
}

#[test]
fn no_setting_of_the_host_and_no_snapshot_changes_a_cycle() {
    compare_runs(|_, _| ());
}

#[test]
fn programs_do_not_notice_buffers() {
    let Some(programs) = programs("stores") else {
        return;
    };
    let (mut buffered, mut combined) = (0, 0);
    for (name, elf) in &programs {
        let loads = with(&[LOADS], IN_ORDER);
        for settings in [IN_ORDER, ANY, &loads] {
            let settings = with(&["triggers=4", NT, LEVEL, SHARED], settings);
            let run = |engine, slice| {
                let mut m = build(&describe("vc707", &settings), true);
                m.set_engine(engine).expect("an engine");
                load(&mut m, elf);
                run(&mut m, slice)
            };
            let first = run(EAGER, u64::MAX);
            let last = first.console.lines().last().unwrap_or("");
            assert!(
                first.stop == Stop::PowerOff(0) && last.ends_with(" passed, 0 failed"),
                "{name}: {settings:?}: {:?}\n{}",
                first.stop,
                first.console
            );
            let e = first.report.stores.iter().map(|s| s.events);
            let e = e.fold(StoreStats::default(), |a, b| a.zip(&b, |a, b| a + b));
            buffered += e.drained;
            combined += e.evicted_full;
            if name == "smp" || name == "nt" {
                assert_eq!(
                    run(Engine::Interpreter, 7777),
                    first,
                    "{name}: {settings:?}"
                );
            }
        }
    }
    assert!(buffered > 10_000 && combined > 100, "{buffered} {combined}");
}
