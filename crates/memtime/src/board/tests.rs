//! The engine against the naive reference, on random traces.

use proptest::prelude::*;

use super::reference::Reference;
use super::*;
use crate::described;
use crate::params::RpTest;
use crate::units::Clocks;

/// A request `gap` ps after the one before.
#[derive(Clone, Copy, Debug)]
struct Step {
    gap: u64,
    bank: u8,
    row: u8,
    write: bool,
    bytes: u32,
    /// A change of the method just before.
    method: Option<Method>,
}

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(Method::ALL.to_vec())
}

fn step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![
        4 => Just(0u64),
        8 => (0..30u64).prop_map(|clocks| clocks * 5000),
        2 => 0..60_000u64,
        4 => 0..2_000_000u64,
        2 => 0..9_000_000u64,
        1 => 0..80_000_000u64,
    ];
    let method = prop_oneof![30 => Just(None), 1 => method().prop_map(Some)];
    // Few banks and rows: exact meetings of requests are what tells rules apart.
    let bank = prop_oneof![3 => 1..4u8, 1 => 0..8u8];
    (gap, bank, 0..2u8, any::<bool>(), 1..=64u32, method).prop_map(
        |(gap, bank, row, write, bytes, method)| Step {
            gap,
            bank,
            row,
            write,
            bytes,
            method,
        },
    )
}

fn params() -> impl Strategy<Value = BoardParams> {
    let timing = (1..8u32, 1..12u32, 1..40u32, 1..8u32, 1..8u32, 1..8u32);
    let delays = prop::array::uniform5(prop_oneof![0..150u64, 0..2_000u64, 0..12_000u64]);
    let refresh = (
        60..2000u32,
        0..2000u32,
        0..6u32,
        1..6u32,
        1..9u32,
        1..9u32,
        1..40u32,
    );
    let board = prop::bool::weighted(0.4);
    let rest = (method(), any::<bool>(), 0..=8u64, 1..=8u32, 0..8u32);
    (timing, delays, refresh, board, rest).prop_map(|(t, d, r, board, rest)| {
        let mut p = described::board::<BoardParams>();
        let (method, own, boundary, machines, off) = rest;
        p.method = method;
        p.refresh.first_tick = Clocks(r.1);
        if board {
            return p;
        }
        p.rp_test = if own {
            RpTest::OwnBank
        } else {
            RpTest::NewestRequest
        };
        p.nvmm_base = boundary << 29;
        p.machines = machines;
        let c = Clocks;
        (p.timing.wait, p.timing.rcd, p.timing.ras) = (c(t.0), c(t.1), c(t.2));
        (p.timing.rtp, p.timing.wtp, p.timing.rp) = (c(t.3), c(t.4), c(t.5));
        let [cr, cw, trcd, trp, tras] = d.map(Ps::from_ns);
        p.delays = crate::params::Delays {
            coarse_read: cr,
            coarse_write: cw,
            trcd,
            trp,
            tras,
        };
        p.refresh = crate::params::Refresh {
            enabled: off != 0,
            interval: c(r.0),
            first_tick: c(r.1),
            pulse_delay: c(r.2),
            pulse: c(r.3),
            ras_limit: c(r.4),
            rtp_limit: c(r.5),
            duration: c(r.6),
        };
        p
    })
}

fn addr(s: &Step) -> u64 {
    (u64::from(s.bank) << 29) | (u64::from(s.row) << 13) | 0x40
}

fn request(s: &Step, id: u64) -> Request {
    Request {
        id,
        addr: addr(s),
        kind: if s.write { Kind::Write } else { Kind::Read },
        bytes: s.bytes,
    }
}

/// Commands, completions, end clock, lost ticks.
type Outcome = (Vec<Command>, Vec<Completion>, u64, u64);

/// A full channel delays the submitter, as a handshake does.
fn run_reference(p: &BoardParams, steps: &[Step]) -> Outcome {
    let mut m = Reference::new(p.clone());
    let mut at = Ps::ZERO;
    for (i, s) in steps.iter().enumerate() {
        at += Ps(s.gap);
        while m.clock < p.clock.edge_from(at) {
            m.tick();
        }
        if let Some(method) = s.method {
            m.p.method = method;
        }
        let r = request(s, 1000 + i as u64);
        while m.channel_len(r.kind) == engine::PORT_DEPTH {
            m.tick();
        }
        at = at.max(p.clock.edge(m.clock));
        m.submit(r);
    }
    let mut more = 0;
    while !m.is_idle() || more < 5000 {
        more += u32::from(m.is_idle());
        m.tick();
        assert!(m.clock < 1 << 32, "stuck");
    }
    m.log.retain(|c| c.clock < m.clock);
    let end = m.clock;
    (m.log, m.done, end, m.lost)
}

fn run_submit(p: &BoardParams, steps: &[Step], end: u64) -> (Outcome, Controller) {
    let mut c = Controller::new(p.clone()).unwrap();
    c.set_logging(true);
    let mut at = Ps::ZERO;
    for (i, s) in steps.iter().enumerate() {
        at += Ps(s.gap);
        if let Some(method) = s.method {
            c.set_method(at, method).unwrap();
        }
        while let Submit::Busy(t) = c.submit(at, request(s, 1000 + i as u64)).unwrap() {
            assert!(t > at);
            at = t;
        }
        at = at.max(p.clock.edge(p.clock.edge_from(at)));
    }
    c.advance_to(p.clock.edge(end)).unwrap();
    let mut done = Vec::new();
    c.drain(&mut done);
    let lost = c.stats(Ps::ZERO).refresh_ticks_lost;
    ((c.take_log(), done, end, lost), c)
}

proptest! {
    #[test]
    fn engine_equals_reference(
        p in params(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        p.validate().unwrap();
        let reference = run_reference(&p, &steps);
        let (engine, _) = run_submit(&p, &steps, reference.2);
        for (i, (a, b)) in engine.0.iter().zip(&reference.0).enumerate() {
            prop_assert_eq!(a, b, "command {}", i);
        }
        prop_assert_eq!(engine.0.len(), reference.0.len());
        prop_assert_eq!(engine.1, reference.1);
        prop_assert_eq!(engine.3, reference.3);
    }

    /// The synchronous and the asynchronous interface give the same commands and statistics; a
    /// completion time is exact unless another request arrived before it.
    #[test]
    fn access_equals_submit(
        p in params(),
        steps in prop::collection::vec(step(), 1..60),
        peek in any::<bool>(),
    ) {
        let reference = run_reference(&p, &steps);
        let ((log, done, end, _), other) = run_submit(&p, &steps, reference.2);
        let mut c = Controller::new(p.clone()).unwrap();
        c.set_logging(true);
        let mut at = Ps::ZERO;
        let mut told = Vec::new();
        for s in &steps {
            at += Ps(s.gap);
            if let Some(method) = s.method {
                c.set_method(at, method).unwrap();
            }
            let r = request(s, 0);
            let t = c.access(at, r.addr, r.kind, r.bytes).unwrap();
            told.push((at, t));
            at = at.max(p.clock.edge(c.committed().0.now));
            if peek {
                let now = c.stats(at);
                prop_assert_eq!(now.total().requests() <= told.len() as u64, true);
            }
        }
        let end = p.clock.edge(end);
        let early = c.stats(end);
        c.advance_to(end).unwrap();
        prop_assert_eq!(&early, &c.stats(end));
        prop_assert_eq!(c.take_log(), log);
        let mut mine = c.stats(end);
        let theirs = other.stats(end);
        // A full channel puts off the asynchronous arrival, so the waiting
        // time in front of it is in the synchronous latency only.
        for (a, b) in mine.regions.iter_mut().zip(&theirs.regions) {
            prop_assert_eq!(a.read_latency.count, b.read_latency.count);
            a.read_latency = b.read_latency;
            a.write_latency = b.write_latency;
            prop_assert_eq!(a.write_to_medium.count, b.write_to_medium.count);
            a.write_to_medium = b.write_to_medium;
        }
        prop_assert_eq!(mine, theirs);
        for (i, (_, t)) in told.iter().enumerate() {
            let d = done.iter().find(|d| d.id == 1000 + i as u64).unwrap();
            let next = told.get(i + 1).map_or(Ps::MAX_TIME, |n| n.0);
            if next >= *t {
                prop_assert_eq!(*t, d.done_at);
            }
        }
    }

    /// Shortcuts that avoid simulation give the same results as simulation (a command log
    /// disables them), whether or not cores wait for their requests.
    #[test]
    fn knowing_equals_simulating(
        p in params(),
        steps in prop::collection::vec(step(), 1..80),
        cores in 1..5usize,
        peek in prop::option::of(0..3_000_000u64),
    ) {
        let mut a = Controller::new(p.clone()).unwrap();
        a.set_logging(true);
        let mut b = Controller::new(p.clone()).unwrap();
        let mut at = vec![Ps::ZERO; cores];
        for s in &steps {
            let i = (0..cores).min_by_key(|&i| at[i]).unwrap();
            let now = at[i] + Ps(s.gap % 1_000_000);
            if let Some(method) = s.method {
                prop_assert_eq!(a.set_method(now, method), b.set_method(now, method));
            }
            let r = request(s, 0);
            if s.gap % 7 == 6 {
                prop_assert_eq!(a.submit(now, r), b.submit(now, r));
                continue;
            }
            let t = a.access(now, r.addr, r.kind, r.bytes).unwrap();
            prop_assert_eq!(t, b.access(now, r.addr, r.kind, r.bytes).unwrap());
            at[i] = t;
            if let Some(more) = peek {
                let then = now + Ps(more);
                prop_assert_eq!(a.stats(then), b.stats(then));
                prop_assert_eq!(a.next_event(), b.next_event());
            }
            if s.gap % 11 == 10 {
                prop_assert_eq!(a.advance_to(t), b.advance_to(t));
            }
        }
        let (mut x, mut y) = (Vec::new(), Vec::new());
        prop_assert_eq!(a.finish(Ps::ZERO), b.finish(Ps::ZERO));
        a.drain(&mut x);
        b.drain(&mut y);
        prop_assert_eq!(x, y);
        prop_assert_eq!(a.stats(Ps::ZERO), b.stats(Ps::ZERO));
        prop_assert_eq!(
            serde_json::to_string(&a.save()).unwrap(),
            serde_json::to_string(&b.save()).unwrap()
        );
    }

    /// An answer given on arrival is the request's time of completion, whatever arrives later.
    #[test]
    fn certain_answers_hold(
        p in params(),
        steps in prop::collection::vec(step(), 1..80),
        most in prop::sample::select(vec![20_000u64, 100_000, 400_000, 9_000_000]),
        save in prop::option::of(0..80usize),
        peek in any::<bool>(),
    ) {
        let mut a = Controller::new(p.clone()).unwrap();
        a.set_logging(true);
        let mut b = Controller::new(p.clone()).unwrap();
        let mut at = Ps::ZERO;
        let mut certain = Vec::new();
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for (i, s) in steps.iter().enumerate() {
            at += Ps(s.gap % most);
            let r = request(s, i as u64);
            loop {
                let told = a.submit(at, r).unwrap();
                match b.submit_foreseen(at, r).unwrap() {
                    Arrived::Done(t) => {
                        prop_assert_eq!(told, Submit::Accepted);
                        certain.push((i as u64, t));
                    }
                    Arrived::Submitted(other) => prop_assert_eq!(told, other),
                }
                match told {
                    Submit::Busy(t) => at = t,
                    Submit::Accepted => break,
                }
            }
            if save == Some(i) {
                let text = serde_json::to_string(&b.save()).unwrap();
                b = Controller::restore(serde_json::from_str(&text).unwrap()).unwrap();
            }
            if peek {
                let then = at + Ps(s.gap);
                prop_assert_eq!(a.stats(then), b.stats(then));
            }
            if s.gap % 11 == 10 {
                prop_assert_eq!(a.advance_to(at), b.advance_to(at));
            }
            if s.gap % 5 == 4 {
                b.advance_to_completion(at).unwrap();
            }
        }
        prop_assert_eq!(a.finish(at), b.finish(at));
        a.drain(&mut x);
        b.drain(&mut y);
        for (id, t) in certain {
            let done = x.iter().position(|c| c.id == id).unwrap();
            prop_assert_eq!(x.remove(done).done_at, t, "request {}", id);
        }
        let key = |c: &Completion| (c.done_at, c.id);
        x.sort_by_key(key);
        y.sort_by_key(key);
        prop_assert_eq!(x, y);
        prop_assert_eq!(a.stats(Ps::ZERO), b.stats(Ps::ZERO));
    }

    /// Saved as text and restored between any two requests: nothing changes.
    #[test]
    fn a_restored_controller_continues_unchanged(
        p in params(),
        steps in prop::collection::vec(step(), 1..30),
        every in 1..6usize,
    ) {
        let mut a = Controller::new(p.clone()).unwrap();
        let mut b = Controller::new(p).unwrap();
        let mut at = Ps::ZERO;
        for (i, s) in steps.iter().enumerate() {
            at += Ps(s.gap);
            if let Some(method) = s.method {
                a.set_method(at, method).unwrap();
                b.set_method(at, method).unwrap();
            }
            let r = request(s, 0);
            if i % 2 == 0 {
                let x = a.access(at, r.addr, r.kind, r.bytes);
                prop_assert_eq!(x, b.access(at, r.addr, r.kind, r.bytes));
            } else {
                prop_assert_eq!(a.submit(at, r), b.submit(at, r));
            }
            if i % every == 0 {
                let text = serde_json::to_string(&b.save()).unwrap();
                b = Controller::restore(serde_json::from_str(&text).unwrap()).unwrap();
            }
        }
        prop_assert_eq!(a.finish(at), b.finish(at));
        let (mut x, mut y) = (Vec::new(), Vec::new());
        a.drain(&mut x);
        b.drain(&mut y);
        prop_assert_eq!(x, y);
        prop_assert_eq!(a.stats(at), b.stats(at));
    }

    /// A saved state with one damaged number is refused, or runs to its end.
    #[test]
    fn damaged_states_are_refused_or_run_to_their_end(
        p in params(),
        steps in prop::collection::vec(step(), 1..20),
        place in any::<prop::sample::Index>(),
        value in prop_oneof![0..20u64, any::<u64>()],
    ) {
        let mut c = Controller::new(p).unwrap();
        for s in &steps {
            let _ = c.submit(c.latest + Ps(s.gap / 8), request(s, 0)).unwrap();
        }
        let mut v = serde_json::to_value(c.save()).unwrap();
        fn numbers(v: &mut serde_json::Value) -> Vec<&mut serde_json::Value> {
            match v {
                serde_json::Value::Array(a) => a.iter_mut().flat_map(numbers).collect(),
                serde_json::Value::Object(m) => m.values_mut().flat_map(numbers).collect(),
                serde_json::Value::Number(_) => vec![v],
                _ => vec![],
            }
        }
        let mut all = numbers(&mut v);
        let i = place.index(all.len());
        *all[i] = value.into();
        if let Ok(s) = serde_json::from_value::<SavedController>(v) {
            if let Ok(mut c) = Controller::restore(s) {
                let end = c.finish(Ps::ZERO).unwrap();
                let _ = c.access(end, 0, Kind::Read, 64);
            }
        }
    }

    /// Advancing in steps of any size, with saving and restoring in between, changes nothing.
    #[test]
    fn portions_do_not_matter(
        p in params(),
        steps in prop::collection::vec(step(), 1..30),
        portion in 3_000..3_000_000u64,
    ) {
        let reference = run_reference(&p, &steps);
        let ((log, done, end, _), one) = run_submit(&p, &steps, reference.2);
        let mut c = Controller::new(p.clone()).unwrap();
        c.set_logging(true);
        let (mut at, mut t) = (Ps::ZERO, Ps::ZERO);
        for (i, s) in steps.iter().enumerate() {
            at += Ps(s.gap);
            while t + Ps(portion) < at {
                t += Ps(portion);
                c.advance_to(t).unwrap();
            }
            if let Some(method) = s.method {
                c.set_method(at, method).unwrap();
            }
            while let Submit::Busy(t) = c.submit(at, request(s, 1000 + i as u64)).unwrap() {
                at = t;
            }
            at = at.max(p.clock.edge(p.clock.edge_from(at)));
        }
        let end = p.clock.edge(end);
        while let Some(t) = c.next_event().filter(|t| *t < end) {
            c.advance_to(t).unwrap();
        }
        c.advance_to(end).unwrap();
        let mut got = Vec::new();
        c.drain(&mut got);
        prop_assert_eq!(c.take_log(), log);
        prop_assert_eq!(got, done);
        prop_assert_eq!(c.stats(end), one.stats(end));
    }
}

/// Answered when they are accepted, writes reach the medium by their column command; with the shortcuts as without.
#[test]
fn writes_reach_the_medium_by_their_column_command() {
    let p = BoardParams {
        method: Method::Extended,
        ..described::board()
    };
    // To another row of a bank that is kept open, to a free bank, and to DRAM.
    let rows = [p.nvmm_base, p.nvmm_base + 0x20_0000, p.nvmm_base + 8192, 0];
    let of = |logged: bool| {
        let mut c = Controller::new(p.clone()).unwrap();
        c.set_logging(logged);
        for (addr, at) in rows.iter().zip((0..).step_by(50_000)) {
            c.access(Ps(at), *addr, Kind::Write, 64).unwrap();
        }
        c.finish(Ps::ZERO).unwrap();
        (c.stats(Ps::ZERO), c.take_log())
    };
    let (stats, log) = of(true);
    assert_eq!(of(false).0, stats);
    let writes = log.iter().filter(|c| c.op == Op::Write);
    let all = writes.map(|c| 5000 * c.clock - 50_000 * c.seq);
    let nvmm = stats.region(Region::Nvmm);
    let dram = stats.region(Region::Dram);
    let counted = nvmm.write_to_medium.sum.0 + dram.write_to_medium.sum.0;
    assert_eq!(counted, all.sum::<u64>());
    assert_eq!(
        (nvmm.write_to_medium.count, dram.write_to_medium.count),
        (3, 1)
    );
    // Writes to NVMM have waited for activations; the answer came before.
    let mean = |h: &crate::stats::Histogram| h.mean_ns().unwrap();
    assert!(mean(&nvmm.write_to_medium) > 1000.0 + mean(&nvmm.write_latency));
}

#[test]
fn long_idle_time_is_one_step() {
    let mut c = Controller::new(described::board::<BoardParams>()).unwrap();
    // An hour: 486 million refreshes would take seconds one by one.
    let hour = Ps(3_600_000_000_000_000);
    c.advance_to(hour).unwrap();
    let expected = (hour.0 / 5000 - 1480 - 3 - 1) / 1480 + 1;
    let s = c.stats(hour);
    assert!(s.refreshes.abs_diff(expected) <= 1, "{}", s.refreshes);
    assert_eq!(s.banks[7].refreshes, s.refreshes);
    assert_eq!(s.regions[0].counters.refreshes, s.refreshes);
}

#[test]
fn every_arrival_around_an_idle_refresh() {
    for method in [Method::Dram, Method::Extended] {
        for clock in 2900..3100 {
            let step = Step {
                gap: clock * 5000,
                bank: 2,
                row: 0,
                write: false,
                bytes: 64,
                method: None,
            };
            let p = BoardParams {
                method,
                ..described::board()
            };
            let reference = run_reference(&p, &[step]);
            let (engine, _) = run_submit(&p, &[step], reference.2);
            assert_eq!(engine, reference, "arrival in clock {clock}");
        }
    }
}
