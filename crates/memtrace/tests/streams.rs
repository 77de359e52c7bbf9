//! A single stream of lines in order reaches, in every preset, what the timing of its device allows.

use nagori_memcfg::{Kind, Memory, EMBEDDED};
use nagori_memtime::dram::spec::{Command, DeviceSpec, RowState, Scope};
use nagori_memtrace::drive::{run, Mode, Options};
use nagori_memtrace::gen::{Generator, Pattern, Spec};

/// Bytes per second of a stream of lines in order.
fn stream(memory: &Memory, writes: f64) -> f64 {
    let mut model = memory.build().unwrap();
    let span = model.capacity();
    let mut source = Generator::new(Spec {
        pattern: Pattern::Sequential,
        count: 100_000,
        base: 0,
        span,
        bytes: 64,
        writes,
        gap: 0,
        seed: 1,
    })
    .unwrap();
    let saturated = Options::new(Mode::Saturated { per_clock: 1 });
    let o = run(model.as_mut(), &mut source, saturated, &mut |_, _| Ok(true)).unwrap();
    (o.read_bytes + o.write_bytes) as f64 / (o.to - o.from).as_s()
}

/// Bytes per second of a device whose stream changes between all of its bank groups, as they follow
/// from its timing: one burst in the least time between two commands for data, four rows in tFAW,
/// and each bank as often as its rows can be opened, read or written, and closed. The first number is
/// without the time of refreshes: a stream that goes through the banks may meet each of them. The
/// second is without refresh, which banks and ranks where the stream is not can have meanwhile.
fn allowed(d: &DeviceSpec, column: Command, channels: u32) -> [f64; 2] {
    let timings = d.resolve_timings().unwrap();
    let clocks = |e| f64::from(d.clocks("test", e, &timings).unwrap());
    let o = &d.organisation;
    let other = match column {
        Command::Wr => RowState::Clean,
        _ => RowState::Dirty,
    };
    // The longest that any rule asks for between two commands.
    let between = |prev: Command, next: Command, scope: Scope, window: u32| {
        let of = d.rules.iter().filter(|r| {
            (r.prev, r.next, r.scope, r.window) == (prev, next, scope, window) && r.row != other
        });
        of.map(|r| clocks(&r.latency)).fold(0.0, f64::max)
    };
    let (act, pre) = (Command::Act, Command::Pre);
    let bursts = f64::from(o.columns / o.burst_length);
    let banks = f64::from(o.ranks * o.bank_groups * o.banks_per_group);
    let data = [
        f64::from(o.burst_length) / 2.0,
        between(column, column, Scope::Rank, 1),
        // A group has a burst again after one of each other group.
        between(column, column, Scope::BankGroup, 1) / f64::from(o.bank_groups),
        between(act, act, Scope::Rank, 1) / bursts,
        between(act, act, Scope::Rank, 4) / 4.0 / bursts,
    ];
    let data = data.into_iter().fold(0.0, f64::max);
    let row = between(act, column, Scope::Bank, 1)
        + (bursts - 1.0) * between(column, column, Scope::Rank, 1)
        + between(column, pre, Scope::Bank, 1)
        + between(pre, act, Scope::Bank, 1);
    let burst = data.max(row / banks / bursts);
    let refresh = d.refresh.iter().map(|r| {
        let busy = d
            .rules
            .iter()
            .filter(|x| (x.prev, x.next) == (r.command, act));
        busy.map(|x| clocks(&x.latency)).fold(0.0, f64::max) / clocks(&r.interval)
    });
    // A controller uses one of the commands of a device.
    let refresh = refresh.fold(0.0, f64::max);
    let seconds = burst * d.clock.as_ps() * 1e-12;
    let most = f64::from(o.access_bytes()) * f64::from(channels) / seconds;
    [most * (1.0 - refresh), most]
}

/// The names of all presets with all variants.
fn presets() -> Vec<String> {
    let mut all = Vec::new();
    for (name, text) in EMBEDDED {
        let variants = text.lines().find_map(|l| l.strip_prefix("variants = ["));
        match variants.and_then(|v| v.strip_suffix(']')) {
            None => all.push(name.to_string()),
            Some(list) => all.extend(
                list.split(',')
                    .map(|v| format!("{name}-{}", v.trim().trim_matches('"'))),
            ),
        }
    }
    all
}

#[test]
fn a_stream_reaches_what_the_timing_of_its_device_allows() {
    let (mut devices, mut wrong) = (0, Vec::new());
    for name in presets() {
        let memory = Memory::load(&name, &[]).unwrap();
        let Kind::Device { device, controller } = &memory.kind else {
            continue;
        };
        // Lines that Start-Gap has scattered are no stream for the device.
        if memory.wear.is_some() {
            continue;
        }
        devices += 1;
        for (writes, column) in [(0.0, Command::Rd), (1.0, Command::Wr)] {
            let [least, most] = allowed(device, column, controller.channels);
            let reached = stream(&memory, writes);
            // Row and rank change a few times.
            if !(0.98 * least..=1.001 * most).contains(&reached) {
                let [reached, least, most] = [reached, least, most].map(|b| b * 1e-9);
                let text = format!("{name}, {column}: {reached:.2}, {least:.2} to {most:.2} GB/s");
                wrong.push(text);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(devices >= 10, "{devices}");
}

#[test]
fn a_stream_through_a_link_or_a_part_reaches_what_the_memory_behind_it_does() {
    for (name, behind) in [("cxl", "ddr4-3200aa"), ("hybrid", "ddr3-1600k")] {
        let memory = Memory::load(name, &[]).unwrap();
        let link = match &memory.kind {
            Kind::Cxl { link, .. } => {
                let bytes = 64 + u64::from(link.header_bytes);
                64e12 / (bytes * u64::from(link.ps_per_byte)) as f64
            }
            _ => f64::INFINITY,
        };
        let behind = stream(&Memory::load(behind, &[]).unwrap(), 0.0);
        let share = stream(&memory, 0.0) / behind.min(link);
        assert!((0.98..=1.001).contains(&share), "{name}: {share:.3}");
    }
}
