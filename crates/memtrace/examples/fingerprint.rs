//! What the memory models do, as hashes: to compare two builds command for command, and their
//! speed.
//!
//! `cargo run --release -p nagori-memtrace --example fingerprint [REQUESTS]` prints a line for each
//! memory, policy, trace and way to play it: a hash of all commands (or of all completions, for a
//! memory without commands), one of the statistics and one of the driver's results. Equal
//! output of two builds means that they do the same. With `speed MEMORY PATTERN REQUESTS [KEY=VALUE...]`
//! it prints the processor time per request of one saturated run instead.

use std::error::Error;

use nagori_memcfg::Memory;
use nagori_memtime::MemoryModel;
use nagori_memtrace::drive::{self, Mode, Options};
use nagori_memtrace::gen::{Generator, Pattern, Spec};

/// FNV-1a with 64 bits, eight bytes at a time.
struct Hash(u64);

impl Hash {
    fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
    fn add(&mut self, v: u64) {
        self.0 = (self.0 ^ v)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(29);
    }
    fn text(&mut self, s: &str) {
        s.bytes().for_each(|b| self.add(b.into()));
    }
}

/// CPU time of this thread in seconds, from the Linux scheduler; 0 elsewhere.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|s| s.parse().ok());
    ns.unwrap_or(0.0) * 1e-9
}

/// The patterns by name, with their share of writes and the part of the memory that they access.
const PATTERNS: [(&str, Pattern, f64, u64); 7] = [
    ("mixed", Pattern::Random, 0.3, u64::MAX),
    ("random", Pattern::Random, 0.0, u64::MAX),
    ("rare", Pattern::Random, 0.0003, u64::MAX),
    ("zipf", Pattern::Zipf(0.99), 0.3, 64 << 20),
    ("sequential", Pattern::Sequential, 0.0, u64::MAX),
    ("seqmixed", Pattern::Sequential, 0.3, u64::MAX),
    ("writes", Pattern::Random, 1.0, 1 << 20),
];

fn trace(name: &str, m: &dyn MemoryModel, count: u64) -> Result<Generator, Box<dyn Error>> {
    let found = PATTERNS.iter().find(|p| p.0 == name);
    let &(_, pattern, writes, span) = found.ok_or_else(|| format!("no pattern {name}"))?;
    Ok(Generator::new(Spec {
        pattern,
        count,
        base: 0,
        span: span.min(m.capacity()),
        bytes: 64,
        writes,
        gap: 0,
        seed: 1,
    })?)
}

/// Settings for memories with a controller of their own; empty: as described.
const POLICIES: &[&[&str]] = &[
    &[],
    &["controller.policy=ramulator2"],
    &["controller.policy=dramsim3"],
    &["controller.order=age_first", "controller.keep_rows=false"],
    &["controller.order=age_first"],
    &["controller.hit_cap=4"],
    &["controller.starvation=200"],
    &["controller.page=closed"],
    &["controller.page=closed_always"],
    &["controller.page={ timeout = { clocks = 40 } }"],
    &["controller.page={ adaptive = { initial = 50, min = 10, max = 400 } }"],
    &["controller.front_delay=3", "controller.back_delay=2"],
    &[
        "controller.merge_reads=true",
        "controller.write_done=data",
        "controller.read_queue=8",
        "controller.write_queue=64",
        "controller.write_high=60",
        "controller.write_low=0",
    ],
    &["controller.channels=2"],
    &["controller.refresh=off"],
    &["controller.refresh=per_bank"],
    &[
        "controller.refresh=per_bank",
        "controller.refresh_postpone=8",
    ],
    &["controller.refresh=all_bank"],
    &[
        "controller.refresh=all_bank",
        "controller.refresh_postpone=8",
    ],
    &[
        "controller.refresh=all_bank",
        "controller.refresh_blocks=channel",
    ],
    &["controller.write_pause=true"],
    &[
        "controller.write_pause=true",
        "controller.write_pause_limit=1",
    ],
];

const MEMORIES: &[(&str, &[&str])] = &[
    ("ddr3-1600k", &[]),
    ("ddr3-1600k", &["organisation.ranks=2"]),
    ("ddr4", &["organisation.ranks=1"]),
    ("ddr4", &[]),
    ("lpddr4", &[]),
    ("pcm", &[]),
    ("reram", &[]),
    ("stt-mram", &[]),
];

/// Memories made of others, and those with a controller of another kind: as described.
const OTHERS: &[&str] = &[
    "board",
    "xpoint",
    "cxl",
    "hybrid",
    "dram-cache",
    "pcm-levelled",
];

fn play(
    memory: &Memory,
    pattern: &str,
    way: &str,
    requests: u64,
) -> Result<String, Box<dyn Error>> {
    let mut model = memory.build()?;
    let clock = model.clock();
    let mode = match way {
        "saturated" | "16 at once" => Mode::Saturated { per_clock: 1 },
        "4 a clock" => Mode::Saturated { per_clock: 4 },
        "paced 8" => Mode::Paced {
            interval: clock.edge(8),
        },
        "paced 40" => Mode::Paced {
            interval: clock.edge(40),
        },
        _ => Mode::Dependent {
            think: clock.edge(5),
        },
    };
    let mut source = trace(pattern, model.as_ref(), requests)?;
    let options = Options {
        outstanding: (way == "16 at once").then_some(16),
        ..Options::new(mode)
    };
    let logs = model.set_command_log(true).is_ok();
    let (mut commands, mut count) = (Hash::new(), 0);
    let mut taken = Vec::new();
    let outcome = drive::run(model.as_mut(), &mut source, options, &mut |m, _| {
        m.take_commands(&mut taken);
        for c in taken.drain(..) {
            count += 1;
            commands.add(c.clock);
            commands.add(c.op as u64 | u64::from(c.channel) << 8 | u64::from(c.rank) << 24);
            commands.add(u64::from(c.bank_group) | u64::from(c.bank) << 8);
            commands.add(u64::from(c.row) | u64::from(c.column) << 32);
        }
        Ok(true)
    })?;
    let (mut stats, mut results) = (Hash::new(), Hash::new());
    stats.text(&serde_json::to_string(&model.report(outcome.to))?);
    results.text(&serde_json::to_string(&outcome)?);
    let logged = if logs { "" } else { " (no log)" };
    Ok(format!(
        "{} clocks, {count} commands{logged} {:016x}, statistics {:016x}, results {:016x}",
        outcome.cycles, commands.0, stats.0, results.0
    ))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|a| a == "speed") {
        let [_, memory, pattern, requests, settings @ ..] = arguments.as_slice() else {
            return Err("speed MEMORY PATTERN REQUESTS [KEY=VALUE...]".into());
        };
        let mut model = Memory::load(memory, settings)?.build()?;
        let mut source = trace(pattern, model.as_ref(), requests.parse()?)?;
        let options = Options::new(Mode::Saturated { per_clock: 1 });
        let before = cpu_seconds();
        let outcome = drive::run(model.as_mut(), &mut source, options, &mut |_, _| Ok(true))?;
        let seconds = cpu_seconds() - before;
        println!(
            "{:.3} M requests per CPU second",
            outcome.requests as f64 / seconds / 1e6
        );
        return Ok(());
    }
    let requests = match arguments.first() {
        Some(a) => a.parse()?,
        None => 3000,
    };
    let others = OTHERS.iter().map(|name| (*name, &[][..], &POLICIES[..1]));
    let devices = MEMORIES.iter().map(|m| (m.0, m.1, POLICIES));
    for (name, device, policies) in devices.chain(others) {
        for policy in policies {
            let settings: Vec<String> = device
                .iter()
                .chain(*policy)
                .map(|s| s.to_string())
                .collect();
            let memory = match Memory::load(name, &settings) {
                Ok(m) => m,
                Err(e) => {
                    let text = e.to_string();
                    println!(
                        "{name} {}: {}",
                        settings.join(" "),
                        text.lines().next().unwrap_or("")
                    );
                    continue;
                }
            };
            for (pattern, ..) in PATTERNS {
                for way in [
                    "saturated",
                    "4 a clock",
                    "16 at once",
                    "paced 8",
                    "paced 40",
                    "dependent",
                ] {
                    let line = play(&memory, pattern, way, requests)
                        .unwrap_or_else(|e| format!("error: {e}"));
                    println!("{name} {} {pattern} {way}: {line}", settings.join(" "));
                }
            }
        }
    }
    Ok(())
}
