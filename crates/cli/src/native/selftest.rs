//! `nagori native --self-test`: what is injected beside what is asked for, on this host, now.

use anyhow::Context;
use nagori_epoch::{Attribution, Model, Params, Variant, Weight};
use nagori_memtime::{Period, Ps};
use nagori_native::monitor::{Epochs, Monitor};
use nagori_native::own;
use nagori_native::source::synthetic::Synthetic;
use nagori_terminal::again;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::tables::{row, table, text};
use rustix::time::{clock_gettime, ClockId};
use serde_json::{json, Value};
use std::ffi::OsString;
use std::hint::black_box;

/// Arithmetic of the program that is delayed; about half a second.
const ROUNDS: u64 = 500_000_000;
/// How many times as slow the memory is, in addition, and the length of epochs in milliseconds.
const RUNS: [(u64, u64); 7] = [(0, 10), (1, 10), (2, 10), (5, 10), (2, 2), (2, 20), (2, 50)];

/// The program: so many rounds of arithmetic.
pub fn burn(rounds: u64) -> anyhow::Result<Exit> {
    let mut x = 1u64;
    for i in 0..rounds {
        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i);
    }
    Ok(SUCCESS)
}

fn children_cpu_ns() -> u64 {
    // Processor time of programs that have ended is that of the process's children.
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN);
    usage.map_or(0, |u| {
        let ns = |t: nix::sys::time::TimeVal| {
            t.tv_sec() as u64 * 1_000_000_000 + t.tv_usec() as u64 * 1000
        };
        ns(u.user_time()) + ns(u.system_time())
    })
}

/// Runs the test.
pub fn command(as_json: bool, messages: &Messages) -> anyhow::Result<Exit> {
    let this = again::command()?;
    let burn = ["native", "--burn", &ROUNDS.to_string()].map(OsString::from);
    let (program, given) = (this.get_program(), this.get_args());
    let arguments: Vec<OsString> = given.map(OsString::from).chain(burn).collect();
    let mut runs = Vec::new();
    // The program runs alone, too, before and after, as the host's speed changes.
    let alone = |runs: &mut Vec<u64>| -> anyhow::Result<()> {
        let before = children_cpu_ns();
        let status = std::process::Command::new(program)
            .args(&arguments)
            .status();
        status.context("the program of the test")?;
        runs.push(children_cpu_ns() - before);
        Ok(())
    };
    let mut plain = Vec::new();
    alone(&mut plain)?;
    for (times, epoch) in RUNS {
        let latency = Ps::from_ns(100 + 100 * times);
        let params = Params {
            variant: Variant::Koshiba,
            attribution: Attribution::OwnVictims,
            clock: Period::of_ps(1000).context("a clock")?,
            dram: Ps::from_ns(100),
            read: latency,
            write: latency,
            weight: Weight::ONE,
            l2_weight: Weight::ZERO,
            flush: None,
            nt_store: None,
        };
        let source = Synthetic::new("stall_cycles=1000000000,llc_misses=10000000")
            .map_err(nagori_native::Error::from)?;
        let monitor = Monitor::new(
            Model::new(params)?,
            Epochs::of(epoch * 1_000_000),
            Box::new(source),
        );
        let (before, wall) = (children_cpu_ns(), clock_gettime(ClockId::Monotonic));
        let ended = || messages.signals().caught().is_some();
        let outcome = own::run(program, &arguments, monitor, &ended)?;
        let cpu = children_cpu_ns() - before;
        let wall = clock_gettime(ClockId::Monotonic) - wall;
        let report = outcome.report;
        let (asked, waited) = (report.asked_ns(), report.waited_ns());
        let own_work = cpu as f64 - waited;
        let epochs: u64 = report.threads.iter().flat_map(|t| t.epochs.values()).sum();
        runs.push(json!({
            "times": times,
            "epoch_ms": epoch,
            "epochs": epochs,
            "asked_ms": asked / 1e6,
            "waited_ms": waited / 1e6,
            "error_percent": if asked > 0.0 { Some((waited / asked - 1.0) * 100.0) } else { None },
            "program_cpu_ms": cpu as f64 / 1e6,
            "program_cpu_without_delays_ms": own_work / 1e6,
            "monitor_cpu_ms": report.monitor_cpu_ns as f64 / 1e6,
            "monitor_cpu_percent": report.monitor_cpu_ns as f64 / report.run_ns.max(1) as f64 * 100.0,
            "run_ms": (wall.tv_sec as f64) * 1e3 + wall.tv_nsec as f64 / 1e6,
        }));
    }
    alone(&mut plain)?;
    let plain_ms: Vec<f64> = plain.iter().map(|&ns| ns as f64 / 1e6).collect();
    if as_json {
        output::print_json(&json!({ "alone_cpu_ms": plain_ms, "runs": Value::Array(runs) }))?;
        return Ok(SUCCESS);
    }
    let columns = [
        "added",
        "epoch",
        "epochs",
        "asked",
        "waited",
        "error",
        "program without",
        "monitor",
    ];
    let mut t = table(columns);
    for r in &runs {
        let ms = |key: &str| format!("{:.2} ms", r[key].as_f64().unwrap_or(0.0));
        let error = r["error_percent"].as_f64();
        let cells = [
            format!("{} x", r["times"]),
            format!("{} ms", r["epoch_ms"]),
            r["epochs"].to_string(),
            ms("asked_ms"),
            ms("waited_ms"),
            error.map_or_else(|| "-".into(), |e| format!("{e:+.3} %")),
            ms("program_cpu_without_delays_ms"),
            format!("{:.3} %", r["monitor_cpu_percent"].as_f64().unwrap_or(0.0)),
        ];
        row(&mut t, cells);
    }
    let alone = format!(
        "The program alone: {:.2} ms before, {:.2} ms after.",
        plain_ms[0], plain_ms[1]
    );
    output::print(&format!("{}\n{alone}\n", text(&t)))?;
    Ok(SUCCESS)
}
