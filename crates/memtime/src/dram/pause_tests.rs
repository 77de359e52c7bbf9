//! Write pausing and deadlines: the engine against the reference on devices
//! that can pause, closed forms, and bounds.

use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::spec::{Energy, PerOperation, RowState, Rule, Timing, WritePause};
use super::tests::{device, params as policies, same, trace, with_engine};
use super::*;
use crate::model::MemoryModel;
use crate::request::{Kind, Request, Submit};
use crate::units::Ps;
use proptest::prelude::*;

/// DDR3 whose dirty rows take 60 clocks longer to close, in iterations of 10.
fn paused_device() -> DeviceSpec {
    let mut d = preset::ddr3_1600k().unwrap();
    d.refresh.clear();
    d.timings.push(Timing {
        name: "tWP".to_owned(),
        value: Expr::clocks(60),
        source: String::new(),
    });
    d.rules.push(Rule {
        latency: Expr::parse("tRP + tWP").unwrap(),
        row: RowState::Dirty,
        ..d.rules[4].clone()
    });
    d.write_pause = Some(WritePause {
        granularity: Expr::clocks(10),
        overhead: Expr::clocks(3),
        source: String::new(),
    });
    d.energy = Some(Energy::PerOperation(PerOperation {
        activate: 0.0,
        read: 0.0,
        write: 0.0,
        precharge_clean: 0.0,
        precharge_dirty: 6000.0,
        refresh: 0.0,
        standby_active: 0.0,
        standby_precharged: 0.0,
        source: String::new(),
    }));
    d
}

fn controller(f: impl Fn(&mut ControllerParams)) -> Controller {
    let mut p = ControllerParams::frfcfs();
    p.refresh = params::RefreshMode::Off;
    p.write_pause = true;
    f(&mut p);
    Controller::new(paused_device(), p).unwrap()
}

fn request(id: u64, kind: Kind, addr: u64) -> Request {
    Request {
        id,
        addr,
        kind,
        bytes: 64,
    }
}

const ROW: u64 = 8 << 13;

/// One write, then a read of another row of the bank, submitted so that the
/// cell write has begun. Returns the log and the read's completion.
fn read_into_a_cell_write(c: &mut Controller, read_clock: u64) -> (Vec<Issued>, u64) {
    c.set_command_log(true).unwrap();
    let clock = c.clock().nearest().0;
    assert_eq!(
        c.submit(Ps::ZERO, request(0, Kind::Write, 0)).unwrap(),
        Submit::Accepted
    );
    let at = Ps(read_clock * clock);
    assert_eq!(
        c.submit(at, request(1, Kind::Read, ROW)).unwrap(),
        Submit::Accepted
    );
    let end = c.finish(at).unwrap();
    c.advance_to(Ps(end.0 + 1000 * clock)).unwrap();
    let (mut log, mut done) = (Vec::new(), Vec::new());
    c.take_commands(&mut log);
    c.drain(&mut done);
    let read = done.iter().find(|d| d.id == 1).unwrap();
    (log, read.done_at.0 / clock)
}

#[test]
fn a_read_waits_for_the_iteration_and_the_write_goes_on_after_it() {
    let closed = params::Page::ClosedAlways;
    // ACT 0, WRA 11, cells closed at 11 + 8 + 4 + 12 = 35; tRP 11; iterations
    // from 46 to 106.
    let (log, done) = read_into_a_cell_write(&mut controller(|p| p.page = closed), 50);
    let of = |op| log.iter().find(|i| i.op == op).map(|i| i.clock);
    assert_eq!(of(Command::Pause), Some(50));
    let act = log.iter().filter(|i| i.op == Command::Act).nth(1).unwrap();
    assert_eq!(act.clock, 56, "end of the first iteration");
    assert_eq!(done, 56 + 11 + 15, "tRCD, CL, BL/2");
    // RDA at 67; tRAS ends at 84, tRP later the write goes on.
    assert_eq!(of(Command::Resume), Some(84 + 11));
    // Without pausing the read waits for the end.
    let mut plain = controller(|p| (p.page, p.write_pause) = (closed, false));
    let (log, done) = read_into_a_cell_write(&mut plain, 50);
    assert_eq!(done, 106 + 11 + 15);
    assert!(log.iter().all(|i| i.op != Command::Pause));
    // In the last iteration there is nothing to pause.
    let (log, done) = read_into_a_cell_write(&mut controller(|p| p.page = closed), 97);
    assert_eq!(done, 106 + 11 + 15);
    assert!(log.iter().all(|i| i.op != Command::Pause));
}

#[test]
fn what_pausing_costs() {
    let mut c = controller(|p| p.page = params::Page::ClosedAlways);
    read_into_a_cell_write(&mut c, 50);
    let s = c.report(Ps::ZERO);
    let t = s.total();
    assert_eq!(t.write_pauses, 1);
    assert_eq!(t.write_paused, Ps((95 - 56) * 1250), "from 56 to 95");
    // One cell write, and 3 of its 60 clocks again: no wear, but energy.
    let e = s.regions[0].energy.clone().unwrap();
    assert!((e.precharge - (6000.0 + 300.0)).abs() < 1e-9, "{e:?}");
    assert_eq!(t.precharges_dirty, 1);
    // A write to the bank waits for the rest: 50 clocks and 3 after 95.
    let mut c = controller(|p| p.page = params::Page::ClosedAlways);
    c.set_command_log(true).unwrap();
    for (id, clock, kind, row) in [
        (0, 0, Kind::Write, 0),
        (1, 50, Kind::Read, 1),
        (2, 60, Kind::Write, 2),
    ] {
        let r = request(id, kind, row * ROW);
        assert_eq!(c.submit(Ps(clock * 1250), r).unwrap(), Submit::Accepted);
    }
    c.finish(Ps(60 * 1250)).unwrap();
    let mut log = Vec::new();
    c.take_commands(&mut log);
    let act = log.iter().filter(|i| i.op == Command::Act).nth(2).unwrap();
    assert_eq!(act.clock, 95 + 3 + 50);
}

#[test]
fn the_limit_of_pauses_and_running_changes() {
    let run = |limit: u32| {
        let mut c = controller(|p| {
            (p.page, p.write_pause_limit) = (params::Page::ClosedAlways, limit);
        });
        assert_eq!(
            c.submit(Ps::ZERO, request(0, Kind::Write, 0)).unwrap(),
            Submit::Accepted
        );
        for n in 1..5 {
            let r = request(n, Kind::Read, n * ROW);
            assert_eq!(c.submit(Ps(n * 50 * 1250), r).unwrap(), Submit::Accepted);
        }
        c.finish(Ps::ZERO).unwrap();
        c.report(Ps::ZERO).total().write_pauses
    };
    assert_eq!((run(1), run(2)), (1, 2));
    assert!(run(0) > 2);
    let mut c = controller(|p| p.page = params::Page::ClosedAlways);
    c.set_parameter(Ps::ZERO, "write_pause", "false").unwrap();
    let (log, _) = read_into_a_cell_write(&mut c, 50);
    assert!(log.iter().all(|i| i.op != Command::Pause));
    let e = paused_device();
    let both = DeviceSpec {
        refresh: preset::ddr3_1600k().unwrap().refresh,
        ..e.clone()
    };
    assert!(both.validate().unwrap_err().to_string().contains("refresh"));
    let mut none = e;
    none.rules.pop();
    let mut p = ControllerParams::frfcfs();
    (p.refresh, p.write_pause) = (params::RefreshMode::Off, true);
    let text = Controller::new(none, p).unwrap_err().to_string();
    assert!(text.contains("no cell write to pause"), "{text}");
}

/// The comparison of `same_commands_as_the_reference` on devices that pause, with enough pauses to
/// be meaningful.
#[test]
fn pausing_is_the_same_in_engine_and_reference() {
    let mut runner = TestRunner::deterministic();
    let all = (device(), policies(), trace());
    let (mut pauses, mut cases, mut limited) = (0, 0, 0);
    while cases < 400 {
        let (mut d, mut p, mut steps) = all.new_tree(&mut runner).unwrap().current();
        if d.write_pause.is_none() {
            continue;
        }
        // Few banks and enough time between: cell writes meet reads.
        (d.organisation.ranks, d.organisation.bank_groups) = (1, 1);
        d.organisation.banks_per_group = 1 + cases % 2;
        for s in &mut steps {
            s.gap *= 1 + u64::from(cases % 3) * 2;
        }
        p.refresh = params::RefreshMode::Off;
        p.write_pause = true;
        cases += 1;
        let Ok(mut c) = Controller::new(d.clone(), p.clone()) else {
            continue;
        };
        same(&mut c, &d, &p, &steps).unwrap();
        let n = c.report(Ps::ZERO).total().write_pauses;
        pauses += n;
        limited += u64::from(p.starvation > 0) * n;
    }
    assert!(pauses > 2000 && limited > 500, "{pauses} {limited}");
}

/// Longest wait, in clocks, of the odd requests in a stream of the others.
fn longest_wait(starvation: u32, stream: Kind) -> u64 {
    let mut p = ControllerParams::frfcfs();
    p.refresh = params::RefreshMode::Off;
    p.write_done = params::WriteDone::Data;
    (p.starvation, p.forward, p.merge_writes) = (starvation, false, false);
    if stream == Kind::Write {
        (p.write_high, p.write_low) = (2, 0);
    }
    let mut c = Controller::new(preset::ddr3_1600k().unwrap(), p).unwrap();
    let other = match stream {
        Kind::Read => Kind::Write,
        Kind::Write => Kind::Read,
    };
    let (mut at, mut done) = (Ps::ZERO, Vec::new());
    for id in 0..4000 {
        let odd = id % 1000 == 500;
        let kind = if odd { other } else { stream };
        // The stream hits its row; the odd one wants another row of the bank.
        let addr = if odd { 5 * ROW } else { id % 128 * 64 };
        while let Submit::Busy(t) = c.submit(at, request(id, kind, addr)).unwrap() {
            at = t;
        }
    }
    c.finish(at).unwrap();
    c.drain(&mut done);
    let odd = done.iter().filter(|d| d.kind == other);
    odd.map(|d| (d.done_at - d.accepted_at).0 / 1250)
        .max()
        .unwrap()
}

#[test]
fn a_deadline_holds_for_reads_and_writes_alike() {
    // Older overdue requests go first: at most all that were queued with it,
    // one column each 4 clocks, and the turn of bus and row.
    let slack = 32 * 4 + 100;
    for stream in [Kind::Read, Kind::Write] {
        let without = longest_wait(0, stream);
        let with = longest_wait(400, stream);
        assert!(without > 1500, "{stream:?} starves: {without}");
        assert!(with <= 400 + slack, "{stream:?}: {with}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// On any device: no request waits longer than the limit plus a row cycle and a bus turnaround
    /// for each older one.
    #[test]
    fn no_request_outlives_its_deadline(
        d in device(),
        p in policies(),
        steps in trace(),
        limit in 1u32..200,
    ) {
        let mut p = p;
        (p.refresh, p.write_pause) = (params::RefreshMode::Off, d.write_pause.is_some());
        (p.write_done, p.write_when_idle) = (params::WriteDone::Data, true);
        (p.starvation, p.channels) = (limit, 1);
        let made = Controller::new(d.clone(), p.clone());
        prop_assume!(made.is_ok());
        let mut c = made.unwrap();
        let end = with_engine(&mut c, &steps, 0);
        let t = d.resolve_timings().unwrap();
        let longest = d.rules.iter().map(|r| u64::from(d.clocks("", &r.latency, &t).unwrap()));
        // Close, open, move data; each may wait for the rules of what others did.
        let cycle = 3 * (longest.max().unwrap() + 1) + 2 * 24;
        let ahead = u64::from(p.read_queue + p.write_queue);
        let tail = 20 + u64::from(p.back_delay) + 12;
        for x in &end.done {
            let wait = (x.done_at - x.accepted_at).0 / 1250;
            prop_assert!(wait <= u64::from(limit) + ahead * cycle + tail, "{} {:?}", wait, x);
        }
    }
}
