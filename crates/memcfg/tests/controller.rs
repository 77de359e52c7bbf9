//! The whole controller on every preset: its command log passes the independent checker, and idle
//! latencies are the sums of the timings.

use nagori_memcfg::{Kind, Memory};
use nagori_memtime::checker::{Checker, Entry};
use nagori_memtime::dram::{Controller, DeviceSpec, Issued};
use nagori_memtime::{Completion, Kind as Dir, MemoryModel, Ps, Request, Submit};

const PRESETS: &[&str] = &[
    "ddr3-1866m",
    "ddr3-1600k",
    "ddr3-1333h",
    "ddr3-1066f",
    "ddr4-2400r",
    "ddr4-3200aa",
    "lpddr4-3200",
    "pcm",
    "reram",
    "stt-mram",
];

fn controller(name: &str, settings: &[&str]) -> (Controller, DeviceSpec) {
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    let m = Memory::load(name, &settings).unwrap();
    let Kind::Device { device, controller } = m.kind else {
        panic!("{name} is no device");
    };
    let d = (*device).clone();
    (Controller::new(*device, *controller).unwrap(), d)
}

/// A small generator, the same everywhere.
fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *state >> 24
}

fn run(c: &mut Controller, requests: u64, pause: u64) -> Ps {
    let mut state = 7;
    let mut at = Ps::ZERO;
    let mut done = Vec::new();
    let mut base = 0;
    for id in 0..requests {
        // Streams with jumps, a third of them writes.
        if next(&mut state).is_multiple_of(6) {
            base = next(&mut state) % c.capacity() / 64 * 64;
        }
        let addr = (base + id % 64 * 64) % c.capacity();
        let kind = match next(&mut state) % 3 {
            0 => Dir::Write,
            _ => Dir::Read,
        };
        let r = Request {
            id,
            addr,
            kind,
            bytes: 64,
        };
        loop {
            match c.submit(at, r).unwrap() {
                Submit::Accepted => break,
                Submit::Busy(t) => {
                    at = t.max(at + Ps(1));
                    c.advance_to(at).unwrap();
                }
            }
        }
        if pause > 0 && next(&mut state).is_multiple_of(16) {
            at += Ps(next(&mut state) % pause);
        }
    }
    while let Some(t) = c.next_event() {
        at = t.max(at + Ps(1));
        c.advance_to(at).unwrap();
    }
    c.drain(&mut done);
    assert_eq!(done.len() as u64, requests);
    at
}

fn check(name: &str, settings: &[&str], requests: u64, pause: u64) {
    let (mut c, d) = controller(name, settings);
    c.set_command_log(true).unwrap();
    let end = run(&mut c, requests, pause);
    let mut log: Vec<Issued> = Vec::new();
    c.take_commands(&mut log);
    assert!(log.len() as u64 > requests, "{name}");
    let refreshed = !settings.contains(&"controller.refresh=off") && !d.refresh.is_empty();
    for channel in 0..=log.iter().map(|i| i.channel).max().unwrap() {
        let mut checker = Checker::of(&d).unwrap();
        for i in log.iter().filter(|i| i.channel == channel) {
            checker.command(Entry::from(i));
        }
        let found = if refreshed {
            checker.finish(d.clock.edge_until(end))
        } else {
            checker.violations().to_vec()
        };
        let found: Vec<String> = found
            .iter()
            .filter(|v| refreshed || !v.rule.contains("tREFI"))
            .map(|v| v.to_string())
            .collect();
        assert!(found.is_empty(), "{name} {settings:?}: {}", found[0]);
    }
}

#[test]
fn command_logs_pass_the_checker() {
    for name in PRESETS {
        check(name, &[], 4000, 0);
        check(
            name,
            &["organisation.ranks=2", "controller.channels=2"],
            3000,
            400_000,
        );
        check(name, &["controller.page=closed_always"], 2000, 100_000);
        check(
            name,
            &["controller.page=closed", "controller.order=age_first"],
            2000,
            0,
        );
        check(
            name,
            &[
                "controller.page={ timeout = { clocks = 60 } }",
                "controller.keep_rows=false",
            ],
            2000,
            1_000_000,
        );
    }
    check(
        "lpddr4",
        &["controller.refresh=all_bank", "timings.tREFIpb=488 ns"],
        3000,
        300_000,
    );
    for page in ["open", "closed", "closed_always"] {
        let page = format!("controller.page={page}");
        let pausing = ["controller.write_pause=true", page.as_str()];
        check("pcm", &pausing, 4000, 0);
        check("pcm", &pausing, 4000, 300_000);
        check(
            "pcm",
            &[&pausing[..], &["controller.starvation=300"]].concat(),
            4000,
            0,
        );
    }
    check("ddr3", &["controller.refresh=off"], 2000, 0);
    check("ddr4", &["controller.refresh_postpone=8"], 4000, 0);
}

/// The log of PCM with write pausing under `engine`, checked against the device `truth`.
fn pausing(engine: &DeviceSpec, truth: &DeviceSpec, keep: fn(&Issued) -> bool) -> Vec<String> {
    let m = Memory::load("pcm", &["controller.write_pause=true".into()]).unwrap();
    let Kind::Device { mut controller, .. } = m.kind else {
        panic!("pcm is no device");
    };
    controller.page = nagori_memtime::dram::params::Page::Closed;
    let mut c = Controller::new(engine.clone(), *controller).unwrap();
    c.set_command_log(true).unwrap();
    run(&mut c, 4000, 300_000);
    assert!(c.report(Ps::ZERO).total().write_pauses > 100);
    let mut log = Vec::new();
    c.take_commands(&mut log);
    let mut checker = Checker::of(truth).unwrap();
    for i in log.iter().filter(|i| keep(i)) {
        checker.command(Entry::from(i));
    }
    checker.violations().iter().map(|v| v.to_string()).collect()
}

/// Mutations: each part of write pausing that a model gets wrong is noticed.
#[test]
fn wrong_pauses_are_noticed() {
    use nagori_memtime::dram::{Command, Expr};
    let m = Memory::load("pcm", &[]).unwrap();
    let d = m.device().unwrap().clone();
    assert_eq!(pausing(&d, &d, |_| true), [""; 0]);
    let wrong = |f: &dyn Fn(&mut nagori_memtime::dram::spec::WritePause), hint: &str| {
        let mut e = d.clone();
        f(e.write_pause.as_mut().unwrap());
        let found = pausing(&e, &d, |_| true);
        assert!(found.iter().any(|v| v.contains(hint)), "{hint}: {found:?}");
    };
    wrong(&|w| w.granularity = Expr::clocks(3), "end of the iteration");
    wrong(&|w| w.overhead = Expr::clocks(0), "resumed cell write");
    let mut short = d.clone();
    for t in short.timings.iter_mut().filter(|t| t.name == "tWP") {
        t.value = Expr::parse("max(tSET, tRESET) - 10").unwrap();
    }
    let found = pausing(&short, &d, |_| true);
    assert!(found.iter().any(|v| v.contains("resumed")), "{found:?}");
    // Commands that were never issued.
    let found = pausing(&d, &d, |i| i.op != Command::Pause);
    assert!(found.iter().any(|v| v.contains("tRP")), "{}", found.len());
    let found = pausing(&d, &d, |i| i.op != Command::Resume);
    assert!(
        found.iter().any(|v| v.contains("is paused")),
        "{}",
        found.len()
    );
    let mut never = d.clone();
    never.write_pause = None;
    let found = pausing(&d, &never, |_| true);
    assert!(found.iter().any(|v| v.contains("cannot pause")));
}

/// Time from the submission of a single read to its last data.
fn idle_read(c: &mut Controller, at: Ps, addr: u64) -> Ps {
    let r = Request {
        id: 0,
        addr,
        kind: Dir::Read,
        bytes: 64,
    };
    assert_eq!(c.submit(at, r).unwrap(), Submit::Accepted);
    let mut done: Vec<Completion> = Vec::new();
    while done.is_empty() {
        let t = c.next_event().unwrap();
        c.advance_to(t + Ps(1)).unwrap();
        c.drain(&mut done);
    }
    done[0].done_at - at
}

#[test]
fn idle_latencies_add_up() {
    for name in PRESETS {
        let (mut c, d) = controller(name, &["controller.refresh=off"]);
        let t = d.resolve_timings().unwrap();
        let get = |n: &str| t.iter().find(|t| t.0 == n).map(|t| u64::from(t.1));
        let clocks = |n: u64| d.clock.edge(n);
        let data = u64::from(d.clocks("read_data", &d.read_data, &t).unwrap());
        let (rcd, rp) = (get("tRCD").unwrap(), get("tRP").unwrap());
        // The time between two is long enough for tRAS and a multiple of the clock.
        let far = |n: u64| d.clock.edge(10_000 * n);
        let row = u64::from(d.organisation.row_bytes());
        let rows_away = c.capacity() / 2;
        assert_ne!(row, rows_away);
        assert_eq!(
            idle_read(&mut c, far(1), 0),
            clocks(rcd + data),
            "{name}: closed"
        );
        // The next burst of the same group.
        let next = u64::from(d.organisation.access_bytes() * d.organisation.bank_groups);
        let hit = idle_read(&mut c, far(2), next);
        assert_eq!(hit, clocks(data), "{name}: hit");
        assert_eq!(
            idle_read(&mut c, far(3), rows_away),
            clocks(rp + rcd + data),
            "{name}: conflict"
        );
    }
}

/// NVMM: closing a written row takes the write of its cells.
#[test]
fn a_dirty_row_costs_the_cell_write() {
    for name in ["pcm", "reram"] {
        let (mut c, d) = controller(name, &[]);
        let t = d.resolve_timings().unwrap();
        let get = |n: &str| t.iter().find(|t| t.0 == n).map_or(0, |t| u64::from(t.1));
        let far = |n: u64| d.clock.edge(10_000 * n);
        let w = Request {
            id: 1,
            addr: 0,
            kind: Dir::Write,
            bytes: 64,
        };
        assert_eq!(c.submit(far(1), w).unwrap(), Submit::Accepted);
        c.advance_to(far(2)).unwrap();
        let mut done = Vec::new();
        c.drain(&mut done);
        let data = u64::from(d.clocks("read_data", &d.read_data, &t).unwrap());
        let want = get("tRP") + get("tWP") + get("tRCD") + data;
        let rows_away = c.capacity() / 2;
        assert_eq!(
            idle_read(&mut c, far(2), rows_away),
            d.clock.edge(want),
            "{name}"
        );
    }
}
