//! Each rule of the board's controller at its exact clock, through the public API.

#[path = "../src/described.rs"]
#[allow(dead_code)]
mod described;

use nagori_memtime::board::{Command, Op};
use nagori_memtime::params::RpTest;
use nagori_memtime::{
    BoardParams, Clocks, Controller, Error, Kind, Method, Ps, Region, Request, Submit,
};

const BANK: u64 = 1 << 29;
const ROW: u64 = 1 << 13;
use Kind::{Read, Write};

fn clock(n: u64) -> Ps {
    Ps::from_ns(5 * n)
}

fn board(method: Method) -> BoardParams {
    BoardParams {
        method,
        ..described::board()
    }
}

/// The board without refresh, for rules that refresh would only disturb.
fn calm(method: Method) -> BoardParams {
    let mut p = board(method);
    p.refresh.enabled = false;
    p
}

/// Requests (clock, kind, bank, row) → all commands up to 20000 clocks.
fn run(p: &BoardParams, requests: &[(u64, Kind, u64, u64)]) -> Vec<Command> {
    let mut c = Controller::new(p.clone()).unwrap();
    c.set_logging(true);
    for (i, &(at, kind, bank, row)) in requests.iter().enumerate() {
        let r = Request {
            id: i as u64,
            addr: bank * BANK + row * ROW,
            kind,
            bytes: 64,
        };
        assert_eq!(c.submit(clock(at), r).unwrap(), Submit::Accepted);
    }
    c.advance_to(clock(20_000)).unwrap();
    c.take_log()
}

/// Clock of the step `op` of request `seq`.
fn at(log: &[Command], op: Op, seq: u64) -> u64 {
    let mut found = log.iter().filter(|c| c.op == op && c.seq == seq);
    let c = found
        .next()
        .unwrap_or_else(|| panic!("no {op:?} of {seq} in {log:?}"));
    assert!(op == Op::Refresh || found.next().is_none());
    c.clock
}

fn has(log: &[Command], op: Op, seq: u64) -> bool {
    log.iter().any(|c| c.op == op && c.seq == seq)
}

fn refreshes(log: &[Command]) -> Vec<u64> {
    let refs = log.iter().filter(|c| c.op == Op::Refresh);
    refs.map(|c| c.clock).collect()
}

#[test]
fn steps_of_an_isolated_read() {
    let log = run(&calm(Method::Dram), &[(10, Read, 2, 1)]);
    let steps: Vec<(Op, u64)> = log.iter().map(|c| (c.op, c.clock)).collect();
    // Wait 5, RCD 8; tRAS 7 is over before the column, so RTP 3 decides.
    let expected = [
        (Op::Accept, 10),
        (Op::Activate, 15),
        (Op::Read, 23),
        (Op::Precharge, 26),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn idle_latencies() {
    // Wait 5 + RCD 8 + CL 3 = 16 clocks = 80 ns; a write: one clock.
    for (method, nvmm_read, nvmm_write) in [
        (Method::Dram, 80, 5),
        (Method::Coarse, 1080, 1005),
        (Method::Fine, 1080, 5),
        (Method::Extended, 1080, 5),
    ] {
        for (kind, bank, ns) in [
            (Read, 0, 80),
            (Read, 2, nvmm_read),
            (Write, 1, 5),
            (Write, 7, nvmm_write),
        ] {
            let mut c = Controller::new(board(method)).unwrap();
            let done = c.access(Ps::from_ns(100), bank * BANK, kind, 64).unwrap();
            assert_eq!(done, Ps::from_ns(100 + ns), "{method} {kind:?} {bank}");
        }
    }
}

#[test]
fn every_timer_is_exact() {
    // One more clock in a timer moves what it guards by one clock.
    type Set = fn(&mut BoardParams, u32);
    let cases: [(Set, u32, Op, u64, u64); 4] = [
        (|p, n| p.timing.wait = Clocks(n), 5, Op::Activate, 0, 15),
        (|p, n| p.timing.rcd = Clocks(n), 8, Op::Read, 0, 23),
        (|p, n| p.timing.rtp = Clocks(n), 3, Op::Precharge, 0, 26),
        (|p, n| p.timing.rp = Clocks(n), 4, Op::Activate, 1, 30),
    ];
    for (set, n, op, seq, expected) in cases {
        for more in [0, 1, 7] {
            let mut p = calm(Method::Dram);
            set(&mut p, n + more);
            let log = run(&p, &[(10, Read, 0, 1), (11, Read, 0, 2)]);
            assert_eq!(at(&log, op, seq), expected + u64::from(more), "{op:?}");
        }
    }
    // tRAS where it decides, and tWTP of a write.
    let mut p = calm(Method::Dram);
    p.timing.ras = Clocks(20);
    let log = run(&p, &[(10, Read, 0, 1)]);
    assert_eq!(at(&log, Op::Precharge, 0), 15 + 20);
    p.timing.ras = Clocks(7);
    p.timing.wtp = Clocks(6);
    let log = run(&p, &[(10, Write, 0, 1)]);
    assert_eq!(at(&log, Op::Precharge, 0), 23 + 6);
}

#[test]
fn added_delays_only_in_nvmm_and_by_method() {
    for (method, rcd, ras) in [
        (Method::Dram, 8, 7),
        (Method::Coarse, 8, 7),
        (Method::Fine, 208, 7),
        (Method::Extended, 208, 1407),
    ] {
        for bank in [0, 1, 2, 7] {
            let (rcd, ras) = if bank < 2 { (8, 7) } else { (rcd, ras) };
            let log = run(&calm(method), &[(10, Read, bank, 1)]);
            let act = at(&log, Op::Activate, 0);
            assert_eq!(at(&log, Op::Read, 0), act + rcd, "{method} {bank}");
            let pre = (act + rcd + 3).max(act + ras);
            assert_eq!(at(&log, Op::Precharge, 0), pre, "{method} {bank}");
        }
    }
}

#[test]
fn precharge_after_a_dirty_row() {
    // The second request waits for the bank; its activation shows tRP.
    let rp = |p: &BoardParams, first: Kind, bank: u64| {
        let log = run(p, &[(10, first, bank, 1), (11, Read, bank, 2)]);
        at(&log, Op::Activate, 1) - at(&log, Op::Precharge, 0)
    };
    for test in [RpTest::NewestRequest, RpTest::OwnBank] {
        for (method, dirty) in [
            (Method::Dram, 4),
            (Method::Coarse, 4),
            (Method::Fine, 204),
            (Method::Extended, 204),
        ] {
            let mut p = calm(method);
            // Both requests shall meet in the bank.
            p.delays.coarse_read = Ps::ZERO;
            p.delays.coarse_write = Ps::ZERO;
            p.rp_test = test;
            assert_eq!(rp(&p, Write, 3), dirty, "{method} {test:?}");
            assert_eq!(rp(&p, Read, 3), 4, "{method} {test:?}");
            assert_eq!(rp(&p, Write, 1), 4, "{method} {test:?}");
        }
    }
}

#[test]
fn newest_request_and_own_bank_differ() {
    // Bank 3 is dirty and precharged while the newest request is in bank 0.
    let requests = [
        (10, Write, 3, 1),
        (11, Read, 3, 2),
        (12, Read, 0, 1),
        (600, Read, 3, 9),
    ];
    let mut p = calm(Method::Fine);
    let rp = |p: &BoardParams| {
        let log = run(p, &requests);
        at(&log, Op::Activate, 1) - at(&log, Op::Precharge, 0)
    };
    assert_eq!(rp(&p), 4);
    p.rp_test = RpTest::OwnBank;
    assert_eq!(rp(&p), 204);
    // The other way round: bank 4 is clean, the newest one (bank 3) dirty.
    let requests = [
        (10, Write, 3, 1),
        (12, Read, 4, 1),
        (13, Read, 4, 2),
        (14, Read, 3, 1),
    ];
    let rp = |p: &BoardParams| {
        let log = run(p, &requests);
        at(&log, Op::Activate, 2) - at(&log, Op::Precharge, 1)
    };
    assert_eq!(rp(&p), 4);
    p.rp_test = RpTest::NewestRequest;
    assert_eq!(rp(&p), 204);
}

#[test]
fn row_hit_window() {
    // The first read has its column at 23 and RTP until 26.
    for (arrival, hit) in [(11, true), (23, true), (25, true), (26, false)] {
        let log = run(
            &calm(Method::Dram),
            &[(10, Read, 0, 1), (arrival, Read, 0, 1)],
        );
        assert_eq!(!has(&log, Op::Activate, 1), hit, "{arrival}");
        if hit {
            // Handed over with the column, or in the clock after acceptance.
            assert_eq!(at(&log, Op::Read, 1), 24.max(arrival + 1));
            assert!(!has(&log, Op::Precharge, 0));
            assert_eq!(at(&log, Op::Precharge, 1), 24.max(arrival + 1) + 3);
        } else {
            assert_eq!(at(&log, Op::Activate, 1), 31);
        }
    }
    // Another row, another bank, or a machine in between: no hit.
    let log = run(&calm(Method::Dram), &[(10, Read, 0, 1), (12, Read, 0, 2)]);
    assert!(has(&log, Op::Activate, 1));
    let log = run(&calm(Method::Dram), &[(10, Read, 0, 1), (12, Read, 1, 1)]);
    assert!(has(&log, Op::Activate, 1));
    let requests = [(10, Read, 0, 1), (12, Read, 0, 2), (13, Read, 0, 1)];
    let log = run(&calm(Method::Dram), &requests);
    assert!(has(&log, Op::Activate, 2));
}

#[test]
fn a_passed_row_keeps_its_remaining_tras() {
    // Activated at 15: tRAS ends at 1422, RTP one clock before.
    for (arrival, hit) in [(1000, true), (1420, true), (1421, false)] {
        let requests = [(10, Read, 2, 1), (arrival, Write, 2, 1)];
        let log = run(&calm(Method::Extended), &requests);
        assert_eq!(!has(&log, Op::Activate, 1), hit, "{arrival}");
        if hit {
            assert_eq!(at(&log, Op::Write, 1), arrival + 1);
            assert_eq!(at(&log, Op::Precharge, 1), 1422.max(arrival + 1 + 3));
        } else {
            assert_eq!(at(&log, Op::Precharge, 0), 1422);
        }
    }
}

#[test]
fn refresh_takes_52_clocks_and_holds_newcomers() {
    // Tick 1480, pulse and, in an idle controller, refresh at 1483, release at 1535.
    let idle = run(&board(Method::Dram), &[]);
    assert_eq!(refreshes(&idle)[..3], [1483, 2963, 4443]);
    let case = |arrival| run(&board(Method::Dram), &[(arrival, Read, 0, 1)]);
    // Accepted in the clock of the pulse: held. One before: marked, goes first.
    let log = case(1483);
    assert_eq!(refreshes(&log)[0], 1483);
    assert_eq!(at(&log, Op::Accept, 0), 1483);
    assert_eq!(at(&log, Op::Activate, 0), 1535);
    let log = case(1482);
    assert_eq!(at(&log, Op::Activate, 0), 1487);
    let pre = at(&log, Op::Precharge, 0);
    assert_eq!(refreshes(&log)[0], pre + 4);
    // The wait of 5 clocks counts from acceptance.
    assert_eq!(at(&case(1530), Op::Activate, 0), 1535);
    assert_eq!(at(&case(1531), Op::Activate, 0), 1536);
    assert_eq!(at(&case(1534), Op::Activate, 0), 1539);
    assert_eq!(at(&case(1535), Op::Activate, 0), 1540);
    for n in [51, 53] {
        let mut p = board(Method::Dram);
        p.refresh.duration = Clocks(n);
        let log = run(&p, &[(1483, Read, 0, 1)]);
        assert_eq!(at(&log, Op::Activate, 0), 1483 + u64::from(n));
    }
}

#[test]
fn a_pulse_limits_tras() {
    // A row activated at 1005 would stay until 2412.
    let p = board(Method::Extended);
    let log = run(&p, &[(1000, Read, 2, 1)]);
    assert_eq!(at(&log, Op::Precharge, 0), 1483 + 5);
    assert_eq!(refreshes(&log)[0], 1488 + 4);
    // 5 left stays 5, 6 left becomes 5.
    for (rest, pre) in [(4, 1487), (5, 1488), (6, 1488), (7, 1488)] {
        let arrival = 1483 + rest - 1407 - 5;
        let log = run(&p, &[(arrival, Read, 2, 1)]);
        assert_eq!(at(&log, Op::Precharge, 0), pre, "{rest}");
    }
    // The last clock of the pulse (1486) limits rows activated before it; a
    // row activated in it is not limited.
    for (arrival, act, cut) in [(1480, 1485, true), (1481, 1486, false)] {
        let log = run(&p, &[(arrival, Read, 2, 1)]);
        assert_eq!(at(&log, Op::Activate, 0), act);
        // A cut row is precharged after its column and tRTP.
        let pre = if cut { act + 208 + 3 } else { act + 1407 };
        assert_eq!(at(&log, Op::Precharge, 0), pre, "{arrival}");
    }
}

#[test]
fn a_pulse_limits_rtp() {
    let mut p = board(Method::Dram);
    p.timing.rtp = Clocks(100);
    // Column at 1463 and 1468: RTP would end at 1563 and 1568.
    for arrival in [1450, 1455] {
        let log = run(&p, &[(arrival, Read, 0, 1)]);
        assert_eq!(at(&log, Op::Precharge, 0), 1485);
    }
    // One clock of rest stays one clock.
    let log = run(&p, &[(1484 - 113, Read, 0, 1)]);
    assert_eq!(at(&log, Op::Precharge, 0), 1484);
    // A column in the last clock of the pulse keeps its RTP, one before it not.
    let log = run(&p, &[(1486 - 13, Read, 0, 1)]);
    assert_eq!(at(&log, Op::Precharge, 0), 1586);
    let log = run(&p, &[(1485 - 13, Read, 0, 1)]);
    assert_eq!(at(&log, Op::Precharge, 0), 1488);
}

#[test]
fn marked_and_queued_keeps_its_full_tras_and_refresh_waits_for_it() {
    let p = board(Method::Extended);
    let requests = [(1250, Read, 2, 1), (1400, Read, 2, 2), (1900, Read, 3, 1)];
    let log = run(&p, &requests);
    assert_eq!(at(&log, Op::Precharge, 0), 1488);
    assert_eq!(at(&log, Op::Activate, 1), 1492);
    // The row of 1 is left alone until the end of its tRAS, 2899.
    assert_eq!(at(&log, Op::Precharge, 1), 1492 + 1407);
    assert_eq!(refreshes(&log)[0], 2899 + 4);
    // Held since 1900, released 52 clocks after the refresh began.
    assert_eq!(at(&log, Op::Accept, 2), 1900);
    assert_eq!(at(&log, Op::Activate, 2), 2903 + 52);
}

#[test]
fn no_row_is_passed_by_a_marked_machine() {
    let p = board(Method::Extended);
    // Row open and in RTP at the pulse (1483), precharged at 1488.
    for (arrival, hit) in [(1482, true), (1483, false), (1484, false)] {
        let log = run(&p, &[(1000, Read, 2, 1), (arrival, Read, 2, 1)]);
        assert_eq!(!has(&log, Op::Activate, 1), hit, "{arrival}");
    }
}

#[test]
fn a_tick_before_the_issue_is_absorbed_and_has_no_pulse() {
    let p = board(Method::Extended);
    // 1 activates at 1492 (see above), 2 is marked as well and queued behind
    // it; 3 comes late and is held.
    let requests = [
        (1250, Read, 2, 1),
        (1400, Read, 2, 2),
        (1401, Read, 2, 3),
        (2000, Read, 2, 4),
    ];
    let log = run(&p, &requests);
    assert_eq!(at(&log, Op::Activate, 1), 1492);
    assert_eq!(at(&log, Op::Activate, 2), 2903);
    // Maintenance waits for 2: the tick at 2960 neither cuts its row nor
    // makes another refresh pending.
    assert_eq!(at(&log, Op::Precharge, 2), 2903 + 1407);
    let first = 4310 + 4;
    // The maintenance of the tick at 4440 has a pulse, which cuts the row of
    // 3: tRP follows the column.
    assert_eq!(at(&log, Op::Activate, 3), first + 52);
    assert_eq!(at(&log, Op::Precharge, 3), first + 52 + 208 + 3);
    assert_eq!(refreshes(&log)[..3], [first, 4577 + 4, 5923]);
}

#[test]
fn only_a_tick_behind_the_issue_makes_a_refresh_pending() {
    let mut p = board(Method::Extended);
    // 0 has its column at 1513 and is precharged at 1516, so 1 activates at
    // 1520 and is precharged at 2927: the refresh is issued at 2931.
    let requests = [(1300, Read, 2, 1), (1301, Read, 2, 2)];
    let issued = 2931;
    for (tick, next) in [
        // Absorbed: the next one comes an interval later.
        (issued - 1, issued - 1 + 1450 + 3),
        (issued, issued + 1451 + 3),
        // Pending until 3 clocks after the end of the first.
        (issued + 1, issued + 52 + 3),
        (issued + 51, issued + 52 + 3),
        // Seen in the clock of the end, and behind it.
        (issued + 52, issued + 52 + 3),
        (issued + 53, issued + 53 + 3),
    ] {
        p.refresh.interval = Clocks((tick - 1480) as u32);
        let log = run(&p, &requests);
        assert_eq!(refreshes(&log)[..2], [issued, next], "tick at {tick}");
        let mut c = Controller::new(p.clone()).unwrap();
        for &(at, kind, bank, row) in &requests {
            let addr = bank * BANK + row * ROW;
            c.access(clock(at), addr, kind, 64).unwrap();
        }
        let lost = u64::from(tick <= issued);
        // Known as soon as the clock of the tick is over, and not before.
        assert_eq!(c.stats(clock(tick)).refresh_ticks_lost, 0, "tick at {tick}");
        let s = c.stats(clock(tick + 1));
        assert_eq!(s.refresh_ticks_lost, lost, "tick at {tick}");
    }
}

#[test]
fn a_pending_refresh_marks_and_cuts_three_clocks_after_the_end() {
    let p = board(Method::Extended);
    // As above; the tick at 2960 is pending, the end at 2983, the beginning
    // of the pending one at 2986.
    let requests = [
        (1300, Read, 2, 1),
        (1301, Read, 2, 2),
        (1900, Read, 3, 1),
        (2985, Read, 4, 1),
        (2986, Read, 5, 1),
    ];
    let log = run(&p, &requests);
    // Held since 1900: activated with the end of the first, marked at 2986,
    // and cut by the pulse to its column and tRTP.
    assert_eq!(at(&log, Op::Activate, 2), 2983);
    assert_eq!(at(&log, Op::Precharge, 2), 2983 + 208 + 3);
    // Accepted at 2985: marked, so it goes first; activated behind the pulse
    // (2986 to 2989), it keeps its tRAS. The refresh waits for it.
    assert_eq!(at(&log, Op::Activate, 3), 2990);
    assert_eq!(at(&log, Op::Precharge, 3), 2990 + 1407);
    let second = 4397 + 4;
    // Accepted at 2986: held until the end of the second, which makes the
    // tick at 4440, behind its issue, the third.
    assert_eq!(at(&log, Op::Activate, 4), second + 52);
    assert_eq!(at(&log, Op::Precharge, 4), second + 52 + 208 + 3);
    assert_eq!(refreshes(&log)[..3], [2931, second, 4664 + 4]);
    // The last clock of the pulse limits rows activated before it.
    let log = run(&p, &[requests[0], requests[1], (2983, Read, 4, 1)]);
    assert_eq!(at(&log, Op::Activate, 2), 2988);
    assert_eq!(at(&log, Op::Precharge, 2), 2988 + 208 + 3);
}

#[test]
fn ticks_of_a_long_wait_are_absorbed() {
    let mut p = board(Method::Extended);
    p.refresh.interval = Clocks(100);
    p.refresh.first_tick = Clocks(100);
    p.refresh.ras_limit = Clocks(100_000);
    p.refresh.rtp_limit = Clocks(100_000);
    let mut c = Controller::new(p).unwrap();
    c.access(Ps::ZERO, 2 * BANK, Read, 64).unwrap();
    // Busy until 5 + 1407 + 4: tick 100 asks for the refresh, 200 to 1400 are absorbed.
    assert_eq!(c.stats(clock(1416)).refreshes, 0);
    let s = c.stats(clock(1417));
    assert_eq!((s.refreshes, s.refresh_ticks_lost), (1, 13));
}

#[test]
fn columns_reads_pass_writes_writes_keep_order() {
    let p = calm(Method::Fine);
    // The write to NVMM (0) waits for its long RCD. The read (1) passes it,
    // the write to DRAM (2) waits for it.
    let requests = [(10, Write, 2, 1), (11, Read, 0, 1), (12, Write, 1, 1)];
    let log = run(&p, &requests);
    assert_eq!(at(&log, Op::Write, 0), 10 + 5 + 208);
    assert_eq!(at(&log, Op::Read, 1), 11 + 5 + 8);
    assert_eq!(at(&log, Op::Write, 2), at(&log, Op::Write, 0) + 1);
    // One column a clock, the oldest first: both are ready at 10 + 5 + 8.
    let mut p = calm(Method::Dram);
    p.timing.rcd = Clocks(8);
    let requests = [(10, Write, 2, 1), (10, Read, 0, 1), (10, Read, 0, 1)];
    let log = run(&p, &requests);
    assert_eq!(at(&log, Op::Accept, 1), 11);
    assert_eq!(at(&log, Op::Accept, 2), 12);
    assert_eq!(at(&log, Op::Write, 0), 23);
    assert_eq!(at(&log, Op::Read, 1), 24);
    assert_eq!(at(&log, Op::Read, 2), 25);
}

#[test]
fn all_machines_busy_is_backpressure() {
    let p = calm(Method::Fine);
    let mut requests: Vec<_> = (0..8).map(|row| (10, Read, 2, row)).collect();
    requests.push((30, Write, 0, 1));
    let log = run(&p, &requests);
    // The first machine is idle 4 clocks after its precharge.
    let free = at(&log, Op::Precharge, 0) + 4;
    assert_eq!(at(&log, Op::Accept, 7), 17);
    assert_eq!(at(&log, Op::Accept, 8), free);
    let mut p = p;
    p.machines = 7;
    let log = run(&p, &requests);
    assert_eq!(at(&log, Op::Accept, 7), free);
}

#[test]
fn coarse_knows_no_rows_and_banks() {
    let mut slow = board(Method::Coarse);
    slow.delays.coarse_write = Ps::from_ns(1503);
    // Isolated requests of all kinds of row and bank relations: the addition
    // is always the same. Phases against refresh are kept by holding it off.
    slow.refresh.enabled = false;
    let fast = BoardParams {
        method: Method::Dram,
        ..slow.clone()
    };
    let mut a = Controller::new(slow).unwrap();
    let mut b = Controller::new(fast).unwrap();
    let mut at = Ps::from_ns(100);
    for (bank, row, kind) in [
        (2, 1, Read),
        (2, 1, Read),
        (2, 2, Read),
        (3, 2, Write),
        (3, 2, Write),
        (7, 2, Read),
        (0, 0, Read),
        (1, 0, Write),
    ] {
        let x = a.access(at, bank * BANK + row * ROW, kind, 64).unwrap();
        let y = b.access(at, bank * BANK + row * ROW, kind, 64).unwrap();
        // 1503 ns round up to 301 clocks.
        let added = match (bank < 2, kind) {
            (true, _) => 0,
            (_, Read) => 1000,
            (_, Write) => 1505,
        };
        assert_eq!(x, y + Ps::from_ns(added));
        at += Ps::from_ns(5000);
    }
}

#[test]
fn coarse_holds_one_request_per_channel() {
    let p = calm(Method::Coarse);
    let requests = [
        (10, Read, 2, 1),
        (10, Read, 3, 1),
        (10, Read, 0, 1),
        (10, Write, 4, 1),
        (20, Write, 1, 1),
    ];
    let log = run(&p, &requests);
    assert_eq!(at(&log, Op::Accept, 0), 210);
    assert_eq!(at(&log, Op::Accept, 1), 210 + 1 + 200);
    // DRAM behind NVMM in the same channel waits, but is not held itself.
    assert_eq!(at(&log, Op::Accept, 2), 412);
    // The write channel holds on its own; both are due at 210, the older first.
    assert_eq!(at(&log, Op::Accept, 3), 211);
    assert_eq!(at(&log, Op::Accept, 4), 212);
}

#[test]
fn changes_take_effect_and_are_recorded() {
    let mut c = Controller::new(calm(Method::Dram)).unwrap();
    c.access(Ps::ZERO, 2 * BANK, Read, 64).unwrap();
    c.set_method(Ps(50_000_001), Method::Fine).unwrap();
    let done = c.access(Ps::from_ns(60_000), 2 * BANK, Read, 64).unwrap();
    assert_eq!(done, Ps::from_ns(61_080));
    let mut p = c.params().clone();
    p.delays.trcd = Ps::from_ns(500);
    p.nvmm_base = 3 * BANK;
    c.set_params(Ps::from_ns(70_000), p.clone()).unwrap();
    assert_eq!(c.region(2 * BANK), Region::Dram);
    let done = c.access(Ps::from_ns(80_000), 3 * BANK, Read, 64).unwrap();
    assert_eq!(done, Ps::from_ns(80_580));
    let s = c.stats(Ps::from_ns(90_000));
    let changes: Vec<_> = s
        .changes
        .iter()
        .map(|c| (c.at, &*c.what, &*c.from, &*c.to))
        .collect();
    let ns = Ps::from_ns;
    let expected = [
        (ns(50_005), "method", "dram", "fine"),
        (ns(70_000), "delays.trcd", "1000 ns", "500 ns"),
        (ns(70_000), "nvmm_base", "1073741824", "1610612736"),
    ];
    let sorted = |mut v: Vec<_>| {
        v.sort();
        v
    };
    assert_eq!(sorted(changes), sorted(expected.to_vec()));
    assert_eq!(s.method, Method::Fine);
    p.machines = 4;
    let e = c.set_params(Ps::from_ns(100_000), p).unwrap_err();
    assert!(
        matches!(
            e,
            Error::Fixed {
                field: "machines",
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn a_change_leaves_running_timers_alone() {
    let mut c = Controller::new(calm(Method::Fine)).unwrap();
    c.set_logging(true);
    let r = Request {
        id: 1,
        addr: 2 * BANK,
        kind: Read,
        bytes: 64,
    };
    let _ = c.submit(clock(0), r).unwrap();
    // Activated in clock 5 with the long RCD; from clock 6 on without delays.
    c.set_method(clock(6), Method::Dram).unwrap();
    let end = c.finish(clock(6)).unwrap();
    assert_eq!(at(&c.take_log(), Op::Read, 0), 213);
    assert!(end >= clock(220));
    let mut c = Controller::new(calm(Method::Fine)).unwrap();
    c.set_logging(true);
    let _ = c.submit(clock(0), r).unwrap();
    c.set_method(clock(5), Method::Dram).unwrap();
    c.finish(clock(5)).unwrap();
    assert_eq!(at(&c.take_log(), Op::Read, 0), 13);
}

#[test]
fn bad_requests_are_errors() {
    let mut c = Controller::new(board(Method::Dram)).unwrap();
    let text = |r: Result<Ps, Error>| r.unwrap_err().to_string();
    assert!(text(c.access(Ps::ZERO, 4 << 30, Read, 64)).contains("0x100000000"));
    assert!(text(c.access(Ps::ZERO, 32, Read, 64)).contains("one 64-byte line"));
    assert!(text(c.access(Ps::ZERO, 0, Read, 0)).contains("1 to 64"));
    assert!(text(c.access(Ps(u64::MAX), 0, Read, 8)).contains("latest time"));
    assert!(c.access(Ps::ZERO, (4 << 30) - 8, Write, 8).is_ok());
    assert!(c.advance_to(Ps(u64::MAX)).is_err());
}

#[test]
fn busy_says_when_there_is_room() {
    let mut c = Controller::new(calm(Method::Coarse)).unwrap();
    let r = |id| Request {
        id,
        addr: 2 * BANK,
        kind: Read,
        bytes: 64,
    };
    for id in 0..8 {
        assert_eq!(c.submit(clock(10), r(id)).unwrap(), Submit::Accepted);
    }
    // The head is accepted in clock 210.
    let Submit::Busy(t) = c.submit(clock(10), r(8)).unwrap() else {
        panic!("a ninth request found room");
    };
    assert_eq!(t, clock(211));
    assert!(matches!(c.submit(clock(210), r(8)).unwrap(), Submit::Busy(u) if u == t));
    assert_eq!(c.submit(t, r(8)).unwrap(), Submit::Accepted);
    c.finish(t).unwrap();
    let mut done = Vec::new();
    c.drain(&mut done);
    let ids: Vec<u64> = done.iter().map(|d| d.id).collect();
    assert_eq!(ids, (0..9).collect::<Vec<_>>());
    assert_eq!(done[0].accepted_at, clock(210));
    assert_eq!(c.next_event(), None);
}

#[test]
fn statistics_of_a_known_run() {
    let mut c = Controller::new(calm(Method::Fine)).unwrap();
    let mut done = Ps::ZERO;
    for (bank, row, kind, bytes) in [
        (0, 0, Read, 64),
        (2, 1, Write, 64),
        (2, 1, Read, 32),
        (2, 2, Read, 64),
    ] {
        done = c
            .access(done, bank * BANK + row * ROW, kind, bytes)
            .unwrap();
    }
    let s = c.stats(done + Ps::from_ns(10_000));
    let d = &s.region(Region::Dram).counters;
    let n = &s.region(Region::Nvmm).counters;
    assert_eq!((d.reads, d.activations, d.precharges_clean), (1, 1, 1));
    assert_eq!(
        (n.reads, n.writes, n.read_bytes, n.write_bytes),
        (2, 1, 96, 64)
    );
    // The read of row 1 takes over the row that the write has opened.
    assert_eq!((n.row_hits, n.activations, n.bank_switches), (1, 2, 1));
    assert_eq!((n.precharges_dirty, n.precharges_clean), (1, 1));
    assert_eq!(s.banks[2], *n);
    let w = &s.region(Region::Nvmm).write_latency;
    assert_eq!((w.count, w.sum), (1, Ps::from_ns(5)));
    c.reset_stats(done + Ps::from_ns(10_000)).unwrap();
    let s = c.stats(done + Ps::from_ns(20_000));
    assert_eq!(s.total().requests(), 0);
    assert_eq!(s.elapsed(), Ps::from_ns(10_000));
}
