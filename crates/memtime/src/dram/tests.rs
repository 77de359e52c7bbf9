//! The engine compared with the clock-by-clock reference, on random devices, policies and traces.

use proptest::prelude::*;

use super::mapping::Decoder;
use super::params::{Blocks, Order, Page, RefreshMode, WriteDone};
use super::preset::ddr3_1600k;
use super::reference::Reference;
use super::spec::{Refresh, RowState, Rule, Scope, Timing, WritePause};
use super::*;
use crate::model::MemoryModel;
use crate::request::{Completion, Kind, Request, Submit};
use crate::units::Ps;

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// ps after the step before.
    pub(super) gap: u64,
    addr: u64,
    bytes: u32,
    write: bool,
}

/// (name, table of prev, next, scope, timing, window, row state).
type Row = (Command, Command, Scope, &'static str, u32, RowState);

const ROWS: &[Row] = {
    use Command::{Act, Pre, PreAll, Rd, RefAll, RefBank, Wr};
    use RowState::{Any, Clean, Dirty};
    use Scope::{Bank, BankGroup, Channel, OtherBankGroup, OtherRank, Rank};
    &[
        (Act, Rd, Bank, "a", 1, Any),
        (Act, Wr, Bank, "b", 1, Any),
        (Act, Pre, Bank, "c", 1, Any),
        (Act, Act, Bank, "d", 1, Any),
        (Pre, Act, Bank, "e", 1, Clean),
        (Pre, Act, Bank, "f", 1, Dirty),
        (Rd, Pre, Bank, "g", 1, Any),
        (Wr, Pre, Bank, "h", 1, Any),
        (Rd, Rd, BankGroup, "i", 1, Any),
        (Rd, Rd, OtherBankGroup, "j", 1, Any),
        (Wr, Wr, Rank, "k", 1, Any),
        (Rd, Wr, Rank, "l", 1, Any),
        (Wr, Rd, BankGroup, "m", 1, Any),
        (Wr, Rd, Rank, "n", 1, Any),
        (Rd, Rd, OtherRank, "o", 1, Any),
        (Rd, Wr, OtherRank, "p", 1, Any),
        (Wr, Rd, OtherRank, "q", 1, Any),
        (Act, Act, Rank, "r", 1, Any),
        (Act, Act, BankGroup, "s", 1, Any),
        (Act, Act, Rank, "t", 4, Any),
        (Pre, Pre, Channel, "u", 1, Any),
        (Pre, RefAll, Bank, "v", 1, Any),
        (PreAll, RefAll, Rank, "w", 1, Any),
        (PreAll, Act, Rank, "x", 1, Any),
        (RefAll, Act, Rank, "y", 1, Any),
        (RefAll, RefAll, Rank, "z", 1, Any),
        (Pre, RefBank, Bank, "A", 1, Any),
        (RefBank, Act, Bank, "B", 1, Any),
        (RefBank, RefBank, Rank, "C", 1, Any),
        (RefBank, Act, Rank, "D", 1, Any),
        (Act, RefBank, Rank, "E", 1, Any),
        (Rd, Rd, Channel, "F", 3, Any),
    ]
};

pub(super) fn device() -> impl Strategy<Value = DeviceSpec> {
    let values = prop::collection::vec(0..24u32, ROWS.len());
    let sizes = (0..2u32, 0..3u32, 0..3u32, any::<bool>());
    let rest = (300..1500u32, 1..20u32, 1..20u32);
    // Length of the cell write, its iterations, overhead.
    let pause = prop::option::of((1..150u32, 1..30u32, 0..12u32));
    (values, sizes, rest, pause).prop_map(|(mut v, sizes, rest, pause)| {
        let mut d = ddr3_1600k().unwrap();
        let (ranks, groups, banks, half) = sizes;
        let row = |name| ROWS.iter().position(|r| r.3 == name).unwrap();
        if let Some((length, _, _)) = pause {
            v[row("f")] = v[row("e")] + length;
        }
        d.organisation.ranks = 1 << ranks;
        d.organisation.bank_groups = 1 << groups;
        d.organisation.banks_per_group = 1 << banks;
        d.organisation.rows = 4;
        d.organisation.columns = 64;
        if half {
            d.organisation.channel_width = 32;
        }
        let source = String::new;
        d.timings = ROWS
            .iter()
            .zip(v)
            .map(|(r, v)| Timing {
                name: r.3.to_owned(),
                value: Expr::clocks(v),
                source: source(),
            })
            .collect();
        d.rules = ROWS
            .iter()
            .map(|&(prev, next, scope, name, window, row)| Rule {
                prev,
                next,
                scope,
                latency: Expr::parse(name).unwrap(),
                window,
                row,
                source: source(),
            })
            .collect();
        d.refresh = [Command::RefAll, Command::RefBank]
            .map(|command| Refresh {
                command,
                interval: Expr::clocks(rest.0),
                source: source(),
            })
            .to_vec();
        if let Some((_, granularity, overhead)) = pause {
            d.refresh.clear();
            d.write_pause = Some(WritePause {
                granularity: Expr::clocks(granularity),
                overhead: Expr::clocks(overhead),
                source: source(),
            });
        }
        d.read_data = Expr::clocks(rest.1);
        d.write_data = Expr::clocks(rest.2);
        d.energy = None;
        d
    })
}

pub(super) fn params() -> impl Strategy<Value = ControllerParams> {
    let page = prop_oneof![
        3 => Just(Page::Open),
        1 => Just(Page::Closed),
        1 => Just(Page::ClosedAlways),
        1 => (1..60u32).prop_map(|clocks| Page::Timeout { clocks }),
        1 => (1..20u32, 1..5u32, 1..5u32).prop_map(|(min, a, b)| Page::Adaptive {
            initial: min * a,
            min,
            max: min * a * b,
        }),
    ];
    let refresh = prop::sample::select(vec![
        RefreshMode::Off,
        RefreshMode::AllBank,
        RefreshMode::PerBank,
    ]);
    let queues = (2..12u32, 4..12u32, 1..4u32, 0..3u32);
    let flags = prop::array::uniform9(any::<bool>());
    let limits = (
        prop_oneof![Just(0u32), 1..5u32],
        prop_oneof![Just(0u32), 1..150u32],
        0..3u32,
        0..4u32,
    );
    let delays = (prop_oneof![Just(0u32), 0..12u32], 0..4u32);
    (page, refresh, queues, flags, limits, delays).prop_map(|(page, refresh, q, f, l, d)| {
        let mut p = ControllerParams::frfcfs();
        p.mapping.order = "row bank bank_group rank channel column".to_owned();
        (p.read_queue, p.write_queue) = (q.0, q.1);
        (p.write_low, p.write_high) = (q.3, (q.3 + q.2).min(q.1 - 1));
        [p.forward, p.merge_writes, p.merge_reads, p.keep_rows] = [f[0], f[1], f[2], f[3]];
        if f[4] {
            p.order = Order::AgeFirst;
        }
        if f[5] {
            p.refresh_blocks = Blocks::Channel;
        }
        if f[6] {
            p.write_done = WriteDone::Data;
        }
        p.write_when_idle = f[6] || f[7];
        p.write_pause = f[8];
        (
            p.hit_cap,
            p.starvation,
            p.refresh_postpone,
            p.write_pause_limit,
        ) = l;
        (p.front_delay, p.back_delay) = d;
        p.page = page;
        p.refresh = refresh;
        p
    })
}

pub(super) fn trace() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![
        6 => Just(0u64),
        6 => (0..6u64).prop_map(|n| n * 1250),
        2 => 0..40_000u64,
        1 => 0..400_000u64,
    ];
    // Rows and banks are few, so that hits, conflicts and equal places meet.
    let addr = (any::<u64>(), 0..3u64, any::<bool>());
    let step = (
        gap,
        addr,
        prop::sample::select(vec![8u32, 32, 64]),
        any::<bool>(),
    );
    let step = step.prop_map(|(gap, (high, column, low), bytes, write)| Step {
        gap,
        // Columns stand lowest.
        addr: (high & !0x1ff) | column << 6 | if low && bytes < 64 { 32 } else { 0 },
        bytes,
        write,
    });
    prop::collection::vec(step, 1..150)
}

fn request(s: &Step, id: u64, capacity: u64) -> Request {
    Request {
        id,
        addr: s.addr % capacity,
        kind: if s.write { Kind::Write } else { Kind::Read },
        bytes: s.bytes,
    }
}

pub(super) struct Outcome {
    log: Vec<Issued>,
    pub(super) done: Vec<Completion>,
    times: Vec<Ps>,
    open_clocks: u64,
    paused_clocks: u64,
}

pub(super) fn with_engine(c: &mut Controller, steps: &[Step], end: u64) -> Outcome {
    c.set_command_log(true).unwrap();
    let mut at = Ps::ZERO;
    let mut times = Vec::new();
    for (id, s) in steps.iter().enumerate() {
        at += Ps(s.gap);
        let r = request(s, id as u64, c.capacity());
        while let Submit::Busy(t) = c.submit(at, r).unwrap() {
            assert!(t > at && t.0 < 1 << 40, "busy until {t} at {at}");
            at = t;
        }
        times.push(at);
    }
    let at = c.finish(at).unwrap().max(at);
    c.advance_to(at + c.clock().edge(end)).unwrap();
    let (mut log, mut done) = (Vec::new(), Vec::new());
    c.take_commands(&mut log);
    c.drain(&mut done);
    Outcome {
        log,
        done,
        times,
        open_clocks: c.open_clocks(),
        paused_clocks: 0,
    }
}

fn with_reference(d: &DeviceSpec, p: &ControllerParams, steps: &[Step], until: u64) -> Outcome {
    let mut r = Reference::new(d, p);
    let decoder = Decoder::new(p, d).unwrap();
    let access = u64::from(d.organisation.access_bytes());
    let mut at = Ps::ZERO;
    let mut times = Vec::new();
    for (id, s) in steps.iter().enumerate() {
        at += Ps(s.gap);
        let q = request(s, id as u64, decoder.capacity());
        let mut places: Vec<(Place, u64)> = Vec::new();
        for b in q.addr..q.addr + u64::from(q.bytes) {
            let (place, bit) = (decoder.decode(b), 1 << (b % access));
            match places.last_mut() {
                Some((p, mask)) if *p == place => *mask |= bit,
                _ => places.push((place, bit)),
            }
        }
        loop {
            while r.now < d.clock.edge_from(at) {
                r.step();
            }
            if r.submit(at, q.id, q.kind, &places) {
                break;
            }
            at = d.clock.edge(r.now + 1);
        }
        times.push(at);
    }
    while r.now < until {
        r.step();
    }
    Outcome {
        log: r.log,
        done: r.done,
        times,
        open_clocks: r.open_clocks,
        paused_clocks: r.paused_clocks,
    }
}

fn by_id(mut v: Vec<Completion>) -> Vec<Completion> {
    v.sort_by_key(|c| c.id);
    v
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn same_commands_as_the_reference(d in device(), p in params(), steps in trace()) {
        let mut p = p;
        p.channels = 1;
        p.write_pause &= d.write_pause.is_some();
        if d.write_pause.is_some() {
            p.refresh = RefreshMode::Off;
        }
        // Contradictory by chance: not what is tested here.
        let made = Controller::new(d.clone(), p.clone());
        prop_assume!(made.is_ok());
        same(&mut made.unwrap(), &d, &p, &steps)?;
    }
}

/// Ages and clocks beyond what the kept commands count in one go, and bursts that wait for longer.
#[test]
fn long_runs_are_as_the_reference() {
    const ROW: u64 = 1 << 16;
    let mut d = ddr3_1600k().unwrap();
    d.organisation.ranks = 2;
    d.organisation.bank_groups = 2;
    let mut p = ControllerParams::frfcfs();
    let step = |addr, write| Step {
        gap: 1000,
        addr,
        bytes: 64,
        write,
    };
    let mut x = 1u64;
    let mut random = |i: u64| {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        step(x >> 33 << 6, i.is_multiple_of(1000))
    };
    let steps: Vec<Step> = (0..20_000).map(&mut random).collect();
    let mut c = Controller::new(d.clone(), p.clone()).unwrap();
    same(&mut c, &d, &p, &steps).unwrap();

    // Hits without end, before which a read and writes of other rows of the bank wait.
    d.organisation.ranks = 1;
    d.organisation.bank_groups = 1;
    p.refresh = RefreshMode::Off;
    let hits = (0..18_000).map(|i| match i {
        100 => step(ROW, false),
        200 => step(2 * ROW, true),
        300 => step(2 * ROW + (1 << 13), true),
        17_000 => step(3 * ROW, true),
        _ => step(i * 64 % (1 << 13), false),
    });
    let steps: Vec<Step> = hits.collect();
    let mut c = Controller::new(d.clone(), p.clone()).unwrap();
    same(&mut c, &d, &p, &steps).unwrap();
    // The read has waited for all hits.
    let read = with_engine(&mut Controller::new(d, p).unwrap(), &steps, 0);
    let at = |id| read.done.iter().position(|c| c.id == id).unwrap();
    assert!(at(100) > at(17_999), "{} {}", at(100), at(17_999));
}

/// Engine and reference do the same.
pub(super) fn same(
    c: &mut Controller,
    d: &DeviceSpec,
    p: &ControllerParams,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let a = with_engine(c, steps, 2000);
    let until = d.clock.edge_from(c.report(Ps::ZERO).to);
    let b = with_reference(d, p, steps, until);
    prop_assert_eq!(a.times, b.times);
    for (i, (x, y)) in a.log.iter().zip(&b.log).enumerate() {
        prop_assert_eq!(x, y, "command {}", i);
    }
    prop_assert_eq!(a.log.len(), b.log.len());
    prop_assert_eq!(by_id(a.done), by_id(b.done));
    prop_assert_eq!(a.open_clocks, b.open_clocks);
    let paused = c.report(Ps::ZERO).total().write_paused;
    prop_assert_eq!(paused, d.clock.edge(b.paused_clocks));
    counts_agree(c, &a.log, steps)
}

/// The statistics agree with the log.
fn counts_agree(c: &Controller, log: &[Issued], steps: &[Step]) -> Result<(), TestCaseError> {
    let s = c.report(Ps::ZERO);
    let n = |op| log.iter().filter(|e| e.op == op).count() as u64;
    let t = s.total();
    prop_assert_eq!(t.activations, n(Command::Act));
    prop_assert_eq!(t.write_pauses, n(Command::Pause));
    prop_assert_eq!(t.refreshes, n(Command::RefAll) + n(Command::RefBank));
    let columns = n(Command::Rd) + n(Command::RdA) + n(Command::Wr) + n(Command::WrA);
    prop_assert_eq!(t.row_hits + t.row_misses + t.row_conflicts, columns);
    prop_assert_eq!(t.requests(), steps.len() as u64);
    prop_assert_eq!(s.read_latency().count, t.reads);
    prop_assert_eq!(s.write_latency().count, t.writes);
    let open = s.channels[0].banks.len() as u64;
    let closed = t.precharges_clean + t.precharges_dirty;
    prop_assert!(closed <= t.activations && t.activations <= closed + open);
    Ok(())
}

fn ddr3(f: impl Fn(&mut ControllerParams)) -> Controller {
    let mut p = ControllerParams::frfcfs();
    f(&mut p);
    Controller::new(ddr3_1600k().unwrap(), p).unwrap()
}

fn read(id: u64, addr: u64) -> Request {
    Request {
        id,
        addr,
        kind: Kind::Read,
        bytes: 64,
    }
}

/// Latency in clocks of one read into the idle controller.
fn latency(c: &mut Controller, at_ns: u64, addr: u64) -> u64 {
    let at = Ps::from_ns(at_ns);
    assert_eq!(c.submit(at, read(0, addr)).unwrap(), Submit::Accepted);
    c.finish(at).unwrap();
    let mut done = Vec::new();
    c.drain(&mut done);
    (done[0].done_at - at).0 / 1250
}

#[test]
fn idle_latencies_in_closed_form() {
    let mut c = ddr3(|p| p.refresh = RefreshMode::Off);
    let row = 8 << 13;
    assert_eq!(
        latency(&mut c, 0, 0),
        11 + 11 + 4,
        "closed: tRCD + CL + BL/2"
    );
    assert_eq!(latency(&mut c, 1000, 64), 11 + 4, "hit: CL + BL/2");
    assert_eq!(
        latency(&mut c, 2000, row),
        11 + 11 + 11 + 4,
        "conflict: tRP more"
    );
    let mut c = ddr3(|p| {
        p.refresh = RefreshMode::Off;
        p.page = Page::Closed;
        (p.front_delay, p.back_delay) = (3, 7);
    });
    assert_eq!(latency(&mut c, 0, 0), 26 + 10);
    assert_eq!(latency(&mut c, 1000, row), 26 + 10);
    let s = c.report(Ps::from_ns(2000));
    let n = s.total();
    assert_eq!((n.row_misses, n.row_hits, n.row_conflicts), (2, 0, 0));
    assert_eq!((n.activations, n.precharges_clean), (2, 2));
}

/// Number of clocks that `n` reads of these addresses take, submitted as fast as they are accepted.
fn saturated(c: &mut Controller, n: u64, addr: impl Fn(u64) -> u64) -> f64 {
    let mut at = Ps::ZERO;
    for id in 0..n {
        while let Submit::Busy(t) = c.submit(at, read(id, addr(id))).unwrap() {
            at = t;
        }
    }
    let end = c.finish(at).unwrap();
    c.report(end).cycles() as f64
}

#[test]
fn bandwidth_in_closed_form() {
    let n = 20_000;
    let mut c = ddr3(|p| p.refresh = RefreshMode::Off);
    let t = saturated(&mut c, n, |i| i * 64);
    assert!((t / n as f64 - 4.0).abs() < 0.01, "tCCD a burst: {t}");
    let mut c = ddr3(|_| ());
    let with = saturated(&mut c, n, |i| i * 64);
    // tRFC, closing and opening of every tREFI.
    let share = 1.0 - (208.0 + 11.0 + 11.0 + 8.0) / 6240.0;
    assert!((with * share / t - 1.0).abs() < 0.01, "{with} {t}");
    // One activation for every read: tFAW, four in 24 clocks.
    let mut c = ddr3(|p| p.refresh = RefreshMode::Off);
    let t = saturated(&mut c, n, |i| i * 8192);
    assert!((t / n as f64 - 6.0).abs() < 0.05, "tFAW/4 a read: {t}");
    // All in one bank: tRC.
    let mut c = ddr3(|p| p.refresh = RefreshMode::Off);
    let t = saturated(&mut c, 2000, |i| (i * 8) << 13);
    assert!((t / 2000.0 - 39.0).abs() < 0.1, "tRC a read: {t}");
    let mut c = ddr3(|p| (p.channels, p.refresh) = (2, RefreshMode::Off));
    let t = saturated(&mut c, n, |i| i * 64);
    assert!((t / n as f64 - 2.0).abs() < 0.01, "two channels: {t}");
    assert_eq!(c.report(Ps::ZERO).channels[1].name, "dram.1");
    assert_eq!(c.report(Ps::ZERO).channels[1].counters.reads, n / 2);
}

#[test]
fn energy_in_closed_form() {
    let mut c = ddr3(|p| p.refresh = RefreshMode::Off);
    latency(&mut c, 0, 0);
    let s = c.report(Ps::from_ns(1000));
    let e = s.regions[0].energy.clone().unwrap();
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
    // Eight devices at 1.5 V.
    near(
        e.activate,
        (55.0 * 48.75 - 38.0 * 35.0 - 32.0 * 13.75) * 12.0,
    );
    near(e.read, (157.0 - 38.0) * 5.0 * 12.0);
    near(e.background, 38.0 * 1000.0 * 12.0);
    assert_eq!((e.write, e.refresh), (0.0, 0.0));
    c.reset_stats(Ps::from_ns(1000)).unwrap();
    let s = c.report(Ps::from_ns(2000));
    near(
        s.regions[0].energy.clone().unwrap().total(),
        38.0 * 1000.0 * 12.0,
    );
    assert_eq!(s.total().reads, 0);
}

#[test]
fn changes_hold_from_their_edge_and_are_recorded() {
    let mut c = ddr3(|p| (p.refresh, p.page) = (RefreshMode::Off, Page::Closed));
    assert_eq!(latency(&mut c, 0, 0), 26);
    let at = Ps(1_000_001);
    c.set_parameter(at, "timing.tRCD", "20 nCK").unwrap();
    c.set_parameter(at, "back_delay", "5").unwrap();
    c.set_parameter(at, "page", "open").unwrap();
    assert_eq!(latency(&mut c, 2000, 0), 26 + 9 + 5);
    assert_eq!(latency(&mut c, 3000, 0), 15 + 5, "open now");
    let s = c.report(Ps::ZERO);
    let changes: Vec<_> = s.changes.iter().map(|c| (c.at, c.what.as_str())).collect();
    let edge = Ps(1_001_250);
    let expected = [(edge, "timings.tRCD"), (edge, "back_delay"), (edge, "page")];
    assert_eq!(changes, expected);
    for (key, value, hint) in [
        ("timing.tXX", "1", "tXX"),
        ("timing.tRC", "5 ns", "tRAS + tRP"),
        ("queue", "1", "is no parameter"),
        ("read_queue", "8", "cannot change"),
        ("read_queue", "8", "back_delay"),
        ("timing.tXX", "1", "tRCD"),
        ("queue", "1", "timings.NAME"),
        ("page", "shut", "unknown variant"),
        ("hit_cap", "-1", "invalid value"),
        ("write_pause", "true", "cannot pause"),
        ("refresh", "per_bank", "REFpb"),
    ] {
        let e = c.set_parameter(at, key, value).unwrap_err().to_string();
        assert!(e.contains(hint), "{key}: {e}");
    }
    assert_eq!(c.report(Ps::ZERO).changes.len(), 3);
}

#[test]
fn long_idle_times_are_skipped_exactly() {
    for refresh in [RefreshMode::AllBank, RefreshMode::PerBank] {
        let mut d = ddr3_1600k().unwrap();
        d.organisation.ranks = 2;
        let mut per_bank = d.refresh[0].clone();
        per_bank.command = Command::RefBank;
        per_bank.interval = Expr::parse("tREFI/8").unwrap();
        d.refresh.push(per_bank);
        for (prev, next) in [
            (Command::RefBank, Command::Act),
            (Command::RefBank, Command::RefBank),
            (Command::Pre, Command::RefBank),
        ] {
            d.rules.push(Rule {
                prev,
                next,
                latency: Expr::parse("90 ns").unwrap(),
                ..d.rules[0].clone()
            });
        }
        let mut p = ControllerParams::frfcfs();
        (p.refresh, p.page) = (refresh, Page::Closed);
        let run = |log: bool| {
            let mut c = Controller::new(d.clone(), p.clone()).unwrap();
            c.set_command_log(log).unwrap();
            let all = [0, 40_000_123, 80_000_456].map(|ns| latency(&mut c, ns, (ns % 1000) << 13));
            (all, c.report(Ps::from_ns(90_000_000)))
        };
        let (skipped, plain) = (run(false), run(true));
        assert_eq!(skipped, plain);
        assert!(plain.1.total().refreshes > 20_000);
    }
    // The whole time of the model.
    let mut c = ddr3(|_| ());
    c.advance_to(Ps::MAX_TIME).unwrap();
    let n = c.report(Ps::ZERO).total().refreshes;
    assert_eq!(n, Ps::MAX_TIME.0.div_ceil(1250) / 6240);
}

#[test]
fn bad_requests_and_presets() {
    let mut c = ddr3(|_| ());
    let at = Ps::ZERO;
    for (addr, bytes, hint) in [
        (4 << 30, 64, "0x100000000 bytes"),
        (32, 64, "64-byte line"),
        (0, 0, "1 to 64"),
    ] {
        let r = Request {
            bytes,
            ..read(0, addr)
        };
        let e = c.submit(at, r).unwrap_err().to_string();
        assert!(e.contains(hint), "{e}");
    }
    assert!(c.submit(Ps(u64::MAX), read(0, 0)).is_err());
    assert!(c.advance_to(Ps(u64::MAX)).is_err());
    for p in [ControllerParams::ramulator2(), ControllerParams::dramsim3()] {
        let mut c = Controller::new(ddr3_1600k().unwrap(), p).unwrap();
        let t = saturated(&mut c, 5000, |i| i * 64);
        assert!((t / 5000.0 - 4.15).abs() < 0.1, "{t}");
    }
}

/// With each scheduler: waiting for room is submitting again, and neither slices nor the
/// state saved in between change anything.
#[test]
fn waiting_and_slices_change_nothing() {
    for mut p in [
        ControllerParams::frfcfs(),
        ControllerParams::ramulator2(),
        ControllerParams::dramsim3(),
    ] {
        p.channels = 2;
        let mut d = ddr3_1600k().unwrap();
        d.organisation.ranks = 2;
        let new = || {
            let mut c = Controller::new(d.clone(), p.clone()).unwrap();
            c.set_command_log(true).unwrap();
            c
        };
        let mut models = [new(), new()];
        let mut logs = [Vec::new(), Vec::new()];
        let mut done = [Vec::new(), Vec::new()];
        let mut x = 1u64;
        let mut at = Ps::ZERO;
        for id in 0..6000 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            // Few rows, so that there are hits, merged and forwarded requests.
            let addr = (x >> 33) % (1 << 14) * 64 + (x >> 20 & 3) * (1 << 31);
            let r = Request {
                id,
                addr,
                kind: if x >> 60 < 6 { Kind::Write } else { Kind::Read },
                bytes: 64,
            };
            let wanted = at + Ps((x >> 50) % 9 * 1000);
            at = models[0].submit_waiting(wanted, r).unwrap();
            let mut again = wanted;
            let m = &mut models[1];
            if id % 7 == 0 {
                m.advance_to(again.max(Ps(1)) - Ps(1)).unwrap();
            }
            while let Submit::Busy(t) = m.submit(again, r).unwrap() {
                assert!(t > again);
                if id % 3 == 0 {
                    m.advance_to(Ps((again.0 + t.0) / 2)).unwrap();
                }
                again = t;
            }
            assert_eq!(at, again);
            if id % 500 == 0 {
                m.take_commands(&mut logs[1]);
                let saved = m.save();
                let mut other = new();
                other.load(saved).unwrap();
                models[1] = other;
            }
        }
        let mut reports = Vec::new();
        for ((m, log), done) in models.iter_mut().zip(&mut logs).zip(&mut done) {
            let end = m.flush(at).unwrap();
            m.take_commands(log);
            m.drain(done);
            done.sort_by_key(|c: &Completion| c.id);
            log.sort_by_key(|c: &Issued| (c.clock, c.channel));
            reports.push(m.report(end));
        }
        assert_eq!(done[0], done[1]);
        assert_eq!(done[0].len(), 6000);
        assert_eq!(logs[0], logs[1]);
        assert_eq!(reports[0], reports[1]);
    }
}
