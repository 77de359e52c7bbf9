//! `nagori native`: programs, processes and virtual machines of this host, as if its memory were slower.

mod selftest;

use anyhow::{anyhow, bail, Context};
use clap::{Args, ValueEnum};
use nagori_epoch::{Attribution, PerLine, Variant, Weight};
use nagori_memtime::{Period, Ps};
use nagori_native::check::{check, check_uncore};
use nagori_native::foreign::{self, Stop, Targets};
use nagori_native::host::System;
use nagori_native::method::Method;
use nagori_native::monitor::{Epochs, Monitor, Report};
use nagori_native::processors::StallsFrom;
use nagori_native::source::perf::{Kernel, Perf};
use nagori_native::source::recorded::{End, Recorded};
use nagori_native::source::synthetic::Synthetic;
use nagori_native::source::{Source, Tid};
use nagori_native::{calibrate, own, qmp, Error};
use nagori_terminal::numbers::count;
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// This host cannot emulate what is asked; nothing was run.
const UNUSABLE: Exit = Exit(3);

const EXAMPLES: &str = "\
Examples:
  nagori native --check
  nagori native --calibrate > host.toml
  nagori native --method host.toml --read 300ns --write 1us -- ./server
  nagori native --method host.toml --read 300ns --variant quartz --pid 4711
  nagori native --method host.toml --read 300ns --write 1us --qmp /run/vm.qmp

A method is a TOML file with any of: variant, attribution, clock, dram, read, write, weight,
l2_weight, [flush] and [nt_store] with base and overlap. docs/epoch.md describes them.

Exit codes: those of the program; 3 if this host cannot emulate what is asked (then nothing was run).

Time:
  As long as the program takes with the slower memory; --check at once, --calibrate a few seconds,
  --self-test a quarter of a minute.";

/// Run programs of this host as if its memory were slower, by the epoch method.
///
/// Every epoch, counters of the processor say how long each thread has waited for memory; the thread
/// is then delayed by what the slower memory would have added. If a counter is missing, or the host
/// has none, nothing is run, and the reason is told.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct NativeArgs {
    /// Say what this host can do, and run nothing.
    #[arg(long, group = "what")]
    check: bool,
    /// Measure the latencies of this host's memory and caches; the answer is a method.
    #[arg(long, group = "what")]
    calibrate: bool,
    /// Compare the delays that are injected with those that are asked for, with synthetic counts.
    #[arg(long, group = "what")]
    self_test: bool,
    /// Delay all threads of a process, also those that it will start.
    #[arg(long, value_name = "PID", group = "what", value_parser = count::<i32>(1..))]
    pid: Option<i32>,
    /// Delay a thread; can be repeated.
    #[arg(long, value_name = "TID", group = "what", value_parser = count::<i32>(1..))]
    tid: Vec<i32>,
    /// Delay the virtual CPUs of the QEMU whose monitor (QMP) is at this socket.
    #[arg(long, value_name = "SOCKET", group = "what")]
    qmp: Option<PathBuf>,
    /// The program, and its arguments.
    #[arg(last = true, group = "what", value_name = "PROGRAM")]
    program: Vec<OsString>,

    /// Latency of reads, such as 300ns.
    #[arg(long, value_name = "TIME", help_heading = "Memory")]
    read: Option<Ps>,
    /// Latency of misses with a write-back, and of lines that are flushed, such as 1us.
    #[arg(long, value_name = "TIME", help_heading = "Memory")]
    write: Option<Ps>,
    /// A file with latencies and formulas; options go before it.
    #[arg(long, value_name = "FILE", help_heading = "Memory")]
    method: Option<PathBuf>,
    /// The formulas: koshiba, mesmeric, quartz, misses, misses-writebacks.
    #[arg(long, value_name = "NAME", help_heading = "Memory")]
    variant: Option<Variant>,
    /// Spread write-backs evenly over misses, even if the source knows whose they are.
    #[arg(long, help_heading = "Memory")]
    uniform: bool,
    /// Latency of a miss on this host.
    #[arg(long, value_name = "TIME", help_heading = "Memory")]
    dram: Option<Ps>,
    /// Latency of a miss over that of a hit in the last-level cache, such as 4.2.
    #[arg(long, value_name = "W", help_heading = "Memory")]
    weight: Option<Weight>,
    /// Latency of a hit in L2 over that of a hit in the last-level cache.
    #[arg(long, value_name = "W", help_heading = "Memory")]
    l2_weight: Option<Weight>,
    /// Clock of the cores, such as 2.6GHz, which must not change meanwhile.
    #[arg(long, value_name = "FREQUENCY", help_heading = "Memory")]
    clock: Option<Period>,
    /// Delay lines that libpmem flushes; this is how long one takes on this host.
    #[arg(long, value_name = "TIME", help_heading = "Memory")]
    flush_base: Option<Ps>,
    /// Delay lines that libpmem stores past the caches; this is how long one takes on this host.
    #[arg(long, value_name = "TIME", help_heading = "Memory")]
    nt_base: Option<Ps>,

    /// Length of an epoch, in processor time.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    epoch: Ps,
    /// At synchronisation, epochs shorter than this go on; a hundredth of --epoch by default.
    #[arg(long, value_name = "TIME")]
    min_epoch: Option<Ps>,
    /// Where counts come from: perf, recorded:FILE, emulated:FILE, synthetic:COUNT=PER_SECOND,...
    #[arg(long, value_name = "SOURCE", default_value = "perf")]
    source: String,
    /// A recorded source begins anew at its end. Otherwise its end is an error.
    #[arg(long)]
    repeat: bool,
    /// How threads that were not started here are stopped.
    #[arg(long, value_enum, default_value_t = StopArg::Thread)]
    stop: StopArg,
    /// Write what became of each thread, as JSON.
    #[arg(long, value_name = "FILE|-")]
    report: Option<PathBuf>,
    /// JSON instead of a table or a method (--check, --calibrate, --self-test).
    #[arg(long)]
    json: bool,
    /// What --self-test runs.
    #[arg(long, hide = true, value_name = "ROUNDS", value_parser = count::<u64>(..))]
    burn: Option<u64>,
}

impl NativeArgs {
    /// Whether it may run for long, and has to let threads go when it ends.
    pub fn is_long(&self) -> bool {
        self.burn.is_none() && !self.check && !self.calibrate
    }
}

/// How threads are stopped.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum StopArg {
    /// Each one alone, by ptrace.
    Thread,
    /// The whole process, by SIGSTOP; for processes of one thread.
    Process,
}

/// Runs the command.
pub fn command(a: &NativeArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let result = if let Some(rounds) = a.burn {
        return selftest::burn(rounds);
    } else if a.check {
        return show_check(a);
    } else if a.calibrate {
        return show_calibration(a);
    } else if a.self_test {
        return selftest::command(a.json, messages);
    } else {
        emulate(a, messages)
    };
    result.or_else(|e| {
        messages.signals().check()?;
        match e.downcast_ref::<Error>() {
            Some(Error::Unusable(_)) => {
                messages.error(&e.context("nothing is emulated"));
                Ok(UNUSABLE)
            }
            _ => Err(e),
        }
    })
}

fn method(a: &NativeArgs) -> anyhow::Result<Method> {
    let line = |base: Option<Ps>| {
        base.map(|base| PerLine {
            base,
            overlap: Weight::ONE,
        })
    };
    let given = Method {
        variant: a.variant,
        attribution: a.uniform.then_some(Attribution::Uniform),
        clock: a.clock,
        dram: a.dram,
        read: a.read,
        write: a.write,
        weight: a.weight,
        l2_weight: a.l2_weight,
        flush: line(a.flush_base),
        nt_store: line(a.nt_base),
    };
    let Some(path) = &a.method else {
        return Ok(given);
    };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file = Method::parse(&text).map_err(|e| anyhow!("{}: {e}", path.display()))?;
    Ok(given.or(file))
}

fn epochs(a: &NativeArgs) -> anyhow::Result<Epochs> {
    let length = a.epoch.0 / 1000;
    if !(100_000..=10_000_000_000).contains(&length) {
        bail!(
            "an epoch of {} is not possible: expected 100us to 10s",
            a.epoch
        );
    }
    let mut epochs = Epochs::of(length);
    if let Some(least) = a.min_epoch {
        epochs.least = least.0 / 1000;
    }
    if epochs.least > epochs.length {
        bail!("--min-epoch is longer than --epoch");
    }
    Ok(epochs)
}

/// Opens the source. The second value: whether its stall cycles begin at L1.
fn source(
    a: &NativeArgs,
    method: &mut Method,
    kvm: bool,
) -> anyhow::Result<(Box<dyn Source>, bool)> {
    let (kind, rest) = a.source.split_once(':').unwrap_or((&a.source, ""));
    let clock = |hz| Period::of_hz(hz, 1);
    match kind {
        "perf" => {
            let system = System::default();
            let variant = method.variant.unwrap_or_default();
            let processor = check(&system, &mut Kernel, variant)
                .into_result()
                .map_err(Error::from)?;
            let from_l1 = processor.stalls_from == StallsFrom::L1;
            method.clock = method.clock.or_else(|| system.clock_hz().and_then(clock));
            let perf =
                Perf::new(Box::new(Kernel), &system, processor, variant).map_err(Error::from)?;
            let perf = if kvm { perf.guests() } else { perf };
            Ok((Box::new(perf), from_l1))
        }
        "recorded" | "emulated" => {
            let file = File::open(rest).with_context(|| format!("cannot read {rest}"))?;
            let end = if a.repeat { End::Repeat } else { End::Error };
            let recorded = Recorded::new(rest, BufReader::new(file), end).map_err(Error::from)?;
            method.clock = method.clock.or(Some(recorded.clock()));
            Ok((Box::new(recorded), method.l2_weight.is_some()))
        }
        "synthetic" => {
            let synthetic = Synthetic::new(rest).map_err(Error::from)?;
            method.clock = method.clock.or(clock(1_000_000_000));
            Ok((Box::new(synthetic), method.l2_weight.is_some()))
        }
        _ => bail!(
            "source `{}`: expected perf, recorded:FILE, emulated:FILE or synthetic:COUNTS",
            a.source
        ),
    }
}

fn emulate(a: &NativeArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let system = System::default();
    let epochs = epochs(a)?;
    let mut method = method(a)?;
    let targets = targets(a, &system)?;
    if targets.is_none() && a.program.is_empty() {
        bail!("what shall run? `-- PROGRAM`, --pid, --tid, --qmp; or --check, --calibrate, --self-test");
    }
    let file = a.report.as_deref().map(Staged::create).transpose()?;
    let kvm = targets.as_ref().is_some_and(|t| t.1);
    let (source, from_l1) = source(a, &mut method, kvm)?;
    let model = method.model(from_l1).map_err(|e| anyhow!(e))?;
    messages.note(&format!("counts: {}", source.describe()));
    let monitor = Monitor::new(model, epochs, source);
    let ended = || messages.signals().caught().is_some();
    let (exit, report) = match targets {
        Some((targets, _)) => {
            let report = foreign::run(&targets, monitor, &system, &ended)?;
            (SUCCESS, report)
        }
        None => {
            let (program, arguments) = a.program.split_first().context("no program")?;
            let outcome = own::run(program, arguments, monitor, &ended)?;
            let status = outcome.status;
            let code = status
                .code()
                .or(status.signal().map(|s| 128 + s))
                .unwrap_or(1);
            (
                Exit(u8::try_from(code).unwrap_or(output::TOO_LARGE)),
                outcome.report,
            )
        }
    };
    summary(&report, messages);
    if let Some(file) = file {
        file.put(format!("{:#}\n", json!(report)).as_bytes())?;
    }
    Ok(exit)
}

/// Threads that were not started here, and whether they are virtual CPUs under KVM.
fn targets(a: &NativeArgs, system: &System) -> anyhow::Result<Option<(Targets, bool)>> {
    let mut kvm = false;
    let stop = match a.stop {
        StopArg::Thread => Stop::Thread,
        StopArg::Process => Stop::Process,
    };
    let (threads, follow) = if let Some(pid) = a.pid {
        (foreign::threads_of(system, pid)?, true)
    } else if !a.tid.is_empty() {
        let tids = a.tid.iter().map(|&tid| Tid(tid));
        (with_processes(tids, system)?, false)
    } else if let Some(socket) = &a.qmp {
        let machine = qmp::machine(socket)?;
        kvm = machine.kvm;
        let threads = machine.vcpus.iter().map(|v| v.thread);
        (with_processes(threads, system)?, false)
    } else {
        return Ok(None);
    };
    let targets = Targets {
        threads,
        follow,
        stop,
    };
    Ok(Some((targets, kvm)))
}

/// Threads with their processes.
fn with_processes(
    threads: impl Iterator<Item = Tid>,
    system: &System,
) -> Result<Vec<(Tid, i32)>, Error> {
    let mut found = Vec::new();
    for thread in threads {
        found.push((thread, foreign::process_of(system, thread.0)?));
    }
    Ok(found)
}

fn summary(report: &Report, messages: &Messages) {
    let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
    let left: f64 = report.threads.iter().map(|t| t.left_ns).sum();
    messages.note(&format!(
        "{} threads; delays asked for {}, waited {}, left {}; run {}, monitor {} of processor time",
        report.threads.len(),
        ms(report.asked_ns()),
        ms(report.waited_ns()),
        ms(left),
        ms(report.run_ns as f64),
        ms(report.monitor_cpu_ns as f64)
    ));
    let contradictions: u64 = report.threads.iter().map(|t| t.contradictions).sum();
    if contradictions > 0 {
        messages.warning(&format!(
            "in {contradictions} epochs the counters contradicted each other"
        ));
    }
}

fn show_check(a: &NativeArgs) -> anyhow::Result<Exit> {
    let system = System::default();
    let variant = method(a)?.variant.unwrap_or_default();
    let mut report = check(&system, &mut Kernel, variant);
    let mut usable = report.usable();
    let mut uncore = None;
    if let Some(processor) = report
        .processor
        .take()
        .filter(|_| usable && variant.needs_writebacks())
    {
        let found = check_uncore(&system, Box::new(Kernel), processor, variant);
        usable &= found.is_ok();
        uncore = Some(found.map_or_else(|e| Some(e.to_string()), |()| None));
    }
    let mut rows = Vec::new();
    for f in &report.findings {
        let why = f.obstacle.as_ref().map(ToString::to_string);
        rows.push((
            f.what.clone(),
            why.is_none(),
            why.unwrap_or_else(|| f.found.clone()),
        ));
    }
    if let Some(why) = uncore {
        let found = why.clone().unwrap_or_else(|| "they count".into());
        rows.push((
            "counters of the memory controllers".into(),
            why.is_none(),
            found,
        ));
    }
    if a.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(w, ok, f)| json!({ "what": w, "ok": ok, "found": f }))
            .collect();
        output::print_json(
            &json!({ "usable": usable, "variant": variant.name(), "findings": rows }),
        )?;
    } else {
        let mut t = String::new();
        for (what, ok, found) in rows {
            let mark = if ok { "ok" } else { "NO" };
            t += &format!("{mark}  {what}: {found}\n");
        }
        let can = if usable { "can" } else { "cannot" };
        let end = format!(
            "This host {can} emulate slower memory with its counters (variant `{}`).",
            variant.name()
        );
        output::print(&format!("{t}{end}\n"))?;
    }
    Ok(if usable { SUCCESS } else { UNUSABLE })
}

fn show_calibration(a: &NativeArgs) -> anyhow::Result<Exit> {
    let m = calibrate::measure(&System::default()).map_err(|e| anyhow!(e))?;
    if a.json {
        output::print_json(&json!(m))?;
        return Ok(SUCCESS);
    }
    let [memory, llc, l2] = m.bytes.map(|b| b >> 10);
    output::print(&format!(
        "# Measured by chains of pointers through {memory} KiB (memory), {llc} KiB (last level: {} ps) \
         and {l2} KiB (L2: {} ps).\n\
         # Rounds through memory lay {}.{} % apart.\n\
         dram = \"{} ps\"\nweight = \"{}\"\nl2_weight = \"{}\"\n",
        m.llc.0, m.l2.0, m.spread_permille / 10, m.spread_permille % 10, m.dram.0, m.weight, m.l2_weight
    ))?;
    Ok(SUCCESS)
}
