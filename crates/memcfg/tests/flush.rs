//! The end of a run: after a flush every write that a memory accepted is in its device, with its
//! command in the log, and counts in time and energy.

use nagori_memcfg::{Kind, Memory, EMBEDDED};
use nagori_memtime::dram::{Command, Issued};
use nagori_memtime::{Kind as Dir, MemoryModel, ModelStats, Ps, Request, Submit};
use proptest::prelude::*;

type Model = Box<dyn MemoryModel + Send>;

/// Every built-in description, with all variants.
fn presets() -> Vec<String> {
    let mut all = Vec::new();
    for (name, text) in EMBEDDED {
        let doc: toml_edit::DocumentMut = text.parse().unwrap();
        let variants = doc.get("variants").and_then(|v| v.as_array());
        all.push((*name).to_owned());
        for v in variants.into_iter().flatten() {
            all.push(format!("{name}-{}", v.as_str().unwrap()));
        }
    }
    all
}

fn build(name: &str, settings: &[&str]) -> Model {
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    let memory = Memory::load(name, &settings).unwrap();
    memory.build().unwrap()
}

/// An access: line, whether it writes, and the time since the one before.
type Step = (u64, bool, u64);

/// Submits all; returns the time of the last and the number of writes.
fn submit(m: &mut Model, steps: &[Step]) -> (Ps, u64) {
    let (mut at, mut writes) = (Ps::ZERO, 0);
    for (id, &(line, write, gap)) in steps.iter().enumerate() {
        at += Ps(gap);
        let r = Request {
            id: id as u64,
            addr: line * 64 % m.capacity(),
            kind: if write { Dir::Write } else { Dir::Read },
            bytes: 64,
        };
        writes += u64::from(write);
        while let Submit::Busy(t) = m.submit(at, r).unwrap() {
            at = t;
        }
    }
    (at, writes)
}

/// Writes that the controllers below all layers accepted, less those merged into a queued one.
fn expected(s: &ModelStats) -> u64 {
    let below = |k: &str| k.ends_with(".writes");
    let inner: f64 = s.counters.iter().filter(|c| below(c.0)).map(|c| c.1).sum();
    let own: u64 = s.regions.iter().map(|r| r.counters.writes).sum();
    let taken = if inner > 0.0 { inner as u64 } else { own };
    let merged: u64 = s.channels.iter().map(|c| c.counters.merged_writes).sum();
    taken - merged
}

fn is_write(c: &Issued) -> bool {
    matches!(c.op, Command::Wr | Command::WrA)
}

fn every_write_has_its_command(
    name: &str,
    settings: &[&str],
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut m = build(name, settings);
    let logs = m.set_command_log(true).is_ok();
    let (at, writes) = submit(&mut m, steps);
    let end = m.flush(at).unwrap();
    // All writes may have been over by then, and the model need not know since when.
    let over = end.max(at);
    let mut done = Vec::new();
    m.drain(&mut done);
    while let Some(t) = m.next_event() {
        m.advance_to(t).unwrap();
        m.drain(&mut done);
    }
    prop_assert_eq!(done.len(), steps.len(), "{}: all are answered", name);
    let s = m.report(end);
    // A cache also writes what it fetches for reads.
    if writes == 0 && name != "dram-cache" {
        prop_assert_eq!(end, Ps::ZERO, "{}", name);
        return Ok(());
    }
    prop_assert!(over > Ps::ZERO, "{}", name);
    if !logs {
        prop_assert!(name.starts_with("xpoint"), "{}", name);
        let media = |k: &&String| k.ends_with("media_writes");
        let lines = |s: &ModelStats| {
            let all = s.counters.keys().filter(media);
            all.map(|k| s.counters[k]).sum::<f64>()
        };
        prop_assert!(lines(&s) > 0.0);
        m.flush(end).unwrap();
        prop_assert_eq!(lines(&m.report(Ps::ZERO)), lines(&s));
        return Ok(());
    }
    let mut log = Vec::new();
    m.take_commands(&mut log);
    let sent = log.iter().filter(|c| is_write(c)).count() as u64;
    // A cache writes for its reads as well: it keeps what it fetches for them.
    let causes = if name == "dram-cache" {
        steps.len() as u64
    } else {
        writes
    };
    prop_assert!(expected(&s) <= causes * 8, "{}", name);
    prop_assert_eq!(
        sent,
        expected(&s),
        "{} {:?}: writes in the log",
        name,
        settings
    );
    // All of them are before the end.
    let clocks: Vec<_> = m
        .command_parts()
        .iter()
        .flat_map(|p| vec![p.clock; usize::from(p.channels)])
        .collect();
    for c in log.iter().filter(|c| is_write(c)) {
        let t = clocks[usize::from(c.channel)].edge(c.clock);
        prop_assert!(
            t < over,
            "{}: a write at {} and the end at {}",
            name,
            t,
            over
        );
    }
    // A second flush has nothing to do.
    m.flush(end).unwrap();
    log.clear();
    m.take_commands(&mut log);
    prop_assert!(!log.iter().any(is_write), "{}", name);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn of_every_preset(
        steps in prop::collection::vec(
            (prop_oneof![0u64..200, 0u64..1 << 26], any::<bool>(), prop_oneof![Just(0), 0u64..90_000]),
            1..120,
        ),
    ) {
        for name in presets() {
            // A small one: handling its tags would dominate the test.
            let small = ["front.organisation.rows=512"];
            let settings = if name == "dram-cache" { &small[..] } else { &[] };
            every_write_has_its_command(&name, settings, &steps)?;
        }
    }

    #[test]
    fn of_controllers_that_hold_writes_back(
        steps in prop::collection::vec((0u64..1 << 24, any::<bool>(), 0u64..5000), 1..80),
        page in prop::sample::select(vec!["open", "closed", "closed_always", "{ timeout = { clocks = 60 } }"]),
    ) {
        let page = format!("controller.page={page}");
        for name in ["ddr3", "ddr4", "lpddr4", "pcm", "pcm-levelled", "reram", "stt-mram"] {
            let settings = ["controller.write_when_idle=false", &page, "controller.channels=2"];
            every_write_has_its_command(name, &settings, &steps)?;
        }
    }
}

#[test]
fn writes_may_be_over_before_a_flush() {
    for name in presets() {
        let small = ["front.organisation.rows=512"];
        let settings = if name == "dram-cache" {
            &small[..]
        } else {
            &[]
        };
        // The only write is over long before the read behind it.
        let steps = [(0, true, 0), (1 << 20, false, 50_000_000)];
        every_write_has_its_command(&name, settings, &steps).unwrap();
    }
}

#[test]
fn eight_writes_take_their_time() {
    // Into one row of DDR3-1600K: tRCD, a burst every tCCD, CWL and BL/2.
    let open = ["controller.refresh=off", "controller.page=open"];
    let idle = "controller.write_when_idle=false";
    let clock = 1250;
    for (settings, begins) in [(open.to_vec(), 0), ([&open[..], &[idle]].concat(), 100)] {
        let mut m = build("ddr3-1600k", &settings);
        let steps: Vec<Step> = (0..8).map(|i| (i, true, 0)).collect();
        submit(&mut m, &steps);
        let end = m.flush(Ps(begins * clock)).unwrap();
        assert_eq!(end.0 / clock, begins + 11 + 7 * 4 + 8 + 4, "{settings:?}");
        let s = m.report(end);
        assert_eq!(s.to, end);
        let e = s.regions[0].energy.clone().unwrap();
        assert!(e.write > 0.0 && e.activate > 0.0, "{e:?}");
        assert_eq!(s.channels[0].data_busy, Ps(8 * 4 * clock));
    }
}

#[test]
fn cells_are_written_where_closing_a_row_does_it() {
    for name in ["pcm", "reram"] {
        for pause in ["true", "false"] {
            let setting = format!("controller.write_pause={pause}");
            let settings = ["controller.page=open", &setting];
            if name == "reram" && pause == "true" {
                continue; // It has no writes to pause.
            }
            let memory = Memory::load(name, &settings.map(str::to_owned)).unwrap();
            let Kind::Device { device, .. } = &memory.kind else {
                panic!("{name}");
            };
            let t = device.resolve_timings().unwrap();
            let of = |n: &str| u64::from(t.iter().find(|t| t.0 == n).unwrap().1);
            let mut m = memory.build().unwrap();
            m.set_command_log(true).unwrap();
            // Four rows of several banks.
            let row = u64::from(device.organisation.row_bytes()) / 64;
            let steps: Vec<Step> = (0..4).map(|i| (i * row * 3, true, 0)).collect();
            submit(&mut m, &steps);
            let end = m.flush(Ps::ZERO).unwrap();
            let n = m.report(end).total();
            assert_eq!((n.activations, n.precharges_dirty), (4, 4), "{name}");
            let mut log = Vec::new();
            m.take_commands(&mut log);
            let last = log.iter().rfind(|c| c.op == Command::Pre).unwrap();
            let clock = last.clock + of("tRP") + of("tWP");
            assert_eq!(end, device.clock.edge(clock), "{name}");
        }
    }
}

#[test]
fn buffers_of_the_dimm_reach_its_medium() {
    let mut m = build("xpoint", &[]);
    // Eight lines of 256 bytes, a quarter of each.
    let steps: Vec<Step> = (0..8).map(|i| (i * 1000, true, 0)).collect();
    let (at, _) = submit(&mut m, &steps);
    m.advance_to(Ps(at.0 + 1_000_000)).unwrap();
    assert_eq!(m.report(Ps::ZERO).counters["media_writes"], 0.0);
    let end = m.flush(at).unwrap();
    let s = m.report(end);
    assert_eq!(s.counters["media_writes"], 8.0);
    assert!(s.regions[0].energy.clone().unwrap().write > 0.0);
    assert!(end > at + Ps(1_000_000));
}

#[test]
fn a_cache_keeps_what_it_holds_and_says_how_much() {
    let mut m = build("dram-cache", &[]);
    let steps: Vec<Step> = (0..8).map(|i| (i * 5, true, 0)).collect();
    let (at, _) = submit(&mut m, &steps);
    let end = m.flush(at).unwrap();
    let s = m.report(end);
    assert_eq!(s.counters["dirty_bytes"], 8.0 * 64.0);
    assert_eq!(s.counters["written_back_bytes"], 0.0);
    // Writes to the same sets: all lines of the first round are evicted.
    let front = build("ddr3-1600k", &[]).capacity();
    let again: Vec<Step> = steps.iter().map(|s| (s.0 + front / 64, true, 0)).collect();
    let (at, _) = submit(&mut m, &again);
    let s = m.report(m.lookahead().unwrap().flush(at).unwrap());
    assert_eq!(s.counters["dirty_bytes"], 8.0 * 64.0);
    let end = m.flush(at).unwrap();
    assert_eq!(m.report(end).counters["written_back_bytes"], 8.0 * 64.0);
}
