//! `nagori bench mem`: speed of the memory models on the host.

use crate::channels;
use crate::scale::Scale;
use anyhow::Context;
use clap::Args;
use nagori_memcfg::{Kind as Described, Memory};
use nagori_memtime::dram::Controller;
use nagori_memtime::wear::Endurance;
use nagori_memtime::worn::{Worn, WornParams};
use nagori_memtime::xpoint::Xpoint;
use nagori_memtime::MemoryModel;
use nagori_memtrace::drive::{self, Mode, Options, Outcome};
use nagori_memtrace::format::{Compression, Format};
use nagori_memtrace::gen::{Generator, Pattern, Spec};
use nagori_memtrace::output::Writer;
use nagori_memtrace::record::Slice;
use nagori_memtrace::{input, Record, Source, Times};
use nagori_terminal::numbers::count;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::sample::Sample;
use nagori_terminal::signals::Signals;
use nagori_terminal::tables;
use rustix::time::{clock_gettime, ClockId};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};

const MEM_EXAMPLES: &str = "\
Examples:
  nagori bench mem
  nagori bench mem --json --trace app.trc.zst

The memory is DDR3-1600K, one channel, one rank, 8 banks, unless another is named (ddr4 has two
ranks of 16 banks); statistics are complete, and the driver and the making or reading of the trace
count, too. Every row is run several times and the best is shown, with the 95 % confidence interval
of the mean (Student's t) in percent of it. What the models compute is the same in every run; only
host time is not. The result depends on the host and on what else it does; `steps` does so less:
what a request costs in steps of a fixed loop (a binary heap of 64 numbers, one taken, one put) that
is run beside it.

Time:
  About a minute on one core; --quick some seconds.";

/// Measure how fast the memory models are, on the host's clock.
///
/// Prints requests per second of processor time on streams of known patterns and on the trace of
/// a real program, what energy and wear cost, the peak memory for traces of different length, and what threads gain
/// on four channels.
#[derive(Debug, Args)]
#[command(after_long_help = MEM_EXAMPLES)]
pub struct MemArgs {
    /// Trace of a real program, in any format of `nagori mem run`.
    #[arg(long, value_name = "FILE", default_value = "traces/bzip2.dramsim3.zst")]
    pub trace: PathBuf,
    /// A tenth of the requests, each row once.
    #[arg(long)]
    pub quick: bool,
    /// Runs of each row [default: 3, and 5 of each pair that is compared].
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = count::<u32>(1..=1000))]
    pub repeats: Option<u32>,
    /// An object of calibration, speed, options, memory and threads on stdout, instead of tables.
    #[arg(long)]
    pub json: bool,
}

const MEMORY: &str = "ddr3-1600k";
/// Number of runs of a row, and of a pair of rows that are compared.
const REPEATS: u32 = 3;
const PAIR_REPEATS: u32 = 5;
/// Steps of the fixed loop before each run.
const STEPS: u64 = 2_000_000;
/// Goal of requests per second of processor time on a core of the 2.5 GHz Skylake class.
const BAR: f64 = 1e6;
const BAR_MIXED: f64 = 0.7e6;
/// Ten times what Ramulator 2.1 does on one rank of DDR3, and on two of DDR4.
const BAR_DDR3: f64 = 2.6e6;
const BAR_DDR4: f64 = 3e6;
/// Goal of the costs of energy and wear.
const BAR_COST: f64 = 0.2;

/// Wear counted for any memory; DDR3 has none, but the cost does not depend on that.
const WEAR: WornParams = WornParams {
    line_bytes: 64,
    row_bytes: 8192,
    endurance: Endurance::Normal {
        mean: 100_000_000,
        deviation_percent: 10,
        seed: 1,
    },
    start_gap: None,
};

/// A stream of requests.
enum Stream<'a> {
    /// Share of writes, and number of bytes accessed (`None`: the whole memory).
    Pattern(Pattern, f64, Option<u64>),
    File(&'a Path),
    /// A trace that was read before.
    Read(&'a [Record], Times),
}

/// A result; the form of `--json`.
#[derive(Debug, Clone, Serialize)]
struct Row {
    workload: String,
    memory: String,
    requests: u64,
    /// Processor time of the best run.
    cpu_seconds: f64,
    /// Processor time of all runs.
    cpu_seconds_sample: Sample,
    requests_per_cpu_second: f64,
    /// Median over the runs.
    steps_per_request: f64,
    /// Wanted on a 2.5 GHz core of the Skylake class.
    bar_requests_per_cpu_second: f64,
    cycles: u64,
    read_latency_avg_ns: Option<f64>,
    row_hit_rate: Option<f64>,
}

/// The cost of an option that can be switched off.
#[derive(Debug, Clone, Serialize)]
struct Cost {
    what: &'static str,
    workload: &'static str,
    memory: String,
    requests: u64,
    off_requests_per_cpu_second: f64,
    on_requests_per_cpu_second: f64,
    /// Median over pairs of runs: 0.05 is 5 % more time.
    more: f64,
    /// How much more time all pairs of runs have taken.
    more_sample: Sample,
    bar_more: f64,
}

/// Peak memory of the process.
#[derive(Debug, Clone, Serialize)]
struct Peak {
    requests: u64,
    peak_kib: Option<u64>,
}

/// Processor time of this thread in seconds.
fn cpu_seconds() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Seconds for a step of the fixed loop.
fn calibrate() -> f64 {
    let mut heap = std::collections::BinaryHeap::with_capacity(65);
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    (0..64).for_each(|_| heap.push(draw()));
    let before = cpu_seconds();
    for _ in 0..STEPS {
        heap.push(draw());
        std::hint::black_box(heap.pop());
    }
    (cpu_seconds() - before) / STEPS as f64
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn least(v: &[f64]) -> f64 {
    v.iter().copied().fold(f64::INFINITY, f64::min)
}

fn spec(pattern: Pattern, writes: f64, count: u64, span: u64) -> Spec {
    Spec {
        pattern,
        count,
        base: 0,
        span,
        bytes: 64,
        writes,
        gap: 0,
        seed: 1,
    }
}

/// One run: seconds, the result, and the row hit rate.
fn play(
    model: &mut dyn MemoryModel,
    stream: &Stream,
    count: u64,
    signals: &Signals,
) -> anyhow::Result<(f64, Outcome, Option<f64>)> {
    let before = cpu_seconds();
    let mut source: Box<dyn Source> = match stream {
        Stream::Pattern(p, writes, span) => {
            let span = span.unwrap_or(model.capacity());
            Box::new(Generator::new(spec(*p, *writes, count, span))?)
        }
        Stream::File(path) => Box::new(input::open(path, input::Options::default())?),
        Stream::Read(records, times) => Box::new(Slice::new(records, *times)),
    };
    let options = Options {
        limit: Some(count),
        ..Options::new(Mode::Saturated { per_clock: 1 })
    };
    let goes_on = &mut |_: &mut dyn MemoryModel, _| Ok(signals.caught().is_none());
    let outcome = drive::run(model, source.as_mut(), options, goes_on)?;
    let hits = model.report(outcome.to).total().row_hit_rate();
    Ok((cpu_seconds() - before, outcome, hits))
}

fn measure(
    memory: &Memory,
    workload: &str,
    stream: &Stream,
    count: u64,
    bar: f64,
    scale: &Scale,
    calibration: &mut Vec<f64>,
) -> anyhow::Result<Row> {
    let (mut seconds, mut steps) = (Vec::new(), Vec::new());
    let mut last = None;
    for _ in 0..scale.repeats(REPEATS) {
        let step = calibrate();
        let mut model = memory.build()?;
        let (s, outcome, hits) = play(model.as_mut(), stream, count, scale.signals)?;
        seconds.push(s);
        steps.push(s / outcome.requests.max(1) as f64 / step);
        calibration.push(step);
        last = Some((outcome, hits));
    }
    let (outcome, hits) = last.context("no run")?;
    let best = least(&seconds);
    Ok(Row {
        workload: workload.into(),
        memory: memory.name.clone(),
        requests: outcome.requests,
        cpu_seconds: best,
        cpu_seconds_sample: Sample::of(&seconds).context("no run")?,
        requests_per_cpu_second: outcome.requests as f64 / best,
        steps_per_request: median(steps),
        bar_requests_per_cpu_second: bar,
        cycles: outcome.cycles,
        read_latency_avg_ns: outcome.read_latency.mean_ns,
        row_hit_rate: hits,
    })
}

type Make<'a> = &'a dyn Fn(bool) -> anyhow::Result<Box<dyn MemoryModel + Send>>;

/// Runs alternately without and with an option, so that other work on the host affects both.
fn cost(
    what: &'static str,
    (workload, span): (&'static str, Option<u64>),
    memory: &Memory,
    make: Make,
    count: u64,
    scale: &Scale,
) -> anyhow::Result<Cost> {
    let stream = Stream::Pattern(Pattern::Random, 0.3, span);
    let (mut off, mut on, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.repeats(PAIR_REPEATS) {
        let (a, ..) = play(make(false)?.as_mut(), &stream, count, scale.signals)?;
        let (b, ..) = play(make(true)?.as_mut(), &stream, count, scale.signals)?;
        more.push(b / a - 1.0);
        off.push(a);
        on.push(b);
    }
    Ok(Cost {
        what,
        workload,
        memory: memory.name.clone(),
        requests: count,
        off_requests_per_cpu_second: count as f64 / least(&off),
        on_requests_per_cpu_second: count as f64 / least(&on),
        more_sample: Sample::of(&more).context("no run")?,
        more: median(more),
        bar_more: BAR_COST,
    })
}

/// A model with or without some of what it can report.
fn without(
    memory: &Memory,
    energy: bool,
    wear: bool,
) -> anyhow::Result<Box<dyn MemoryModel + Send>> {
    Ok(match &memory.kind {
        Described::Device { device, controller } => {
            let mut device = (**device).clone();
            if !energy {
                device.energy = None;
            }
            let model = Controller::new(device, (**controller).clone())?;
            if wear {
                Box::new(Worn::new(WEAR, Box::new(model))?)
            } else {
                Box::new(model)
            }
        }
        Described::Xpoint(p) => {
            let mut p = (**p).clone();
            if !energy {
                p.energy = None;
            }
            if !wear {
                p.wear = None;
            }
            Box::new(Xpoint::new(p)?)
        }
        _ => memory.build()?,
    })
}

/// The peak memory of this process, in KiB; `None` if the system does not tell.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// Plays a tenth of a trace, then the whole trace. The peak only grows: its growth between the two
/// is what the longer trace needed in addition.
fn peaks(memory: &Memory, scale: &Scale) -> anyhow::Result<Vec<Peak>> {
    let long = scale.requests(4_000_000);
    let mut file = tempfile::Builder::new()
        .prefix("nagori-bench-")
        .suffix(".zst")
        .tempfile()
        .context("cannot create a file for a trace")?;
    let name = file.path().display().to_string();
    let mut w = Writer::new(
        name,
        file.as_file_mut(),
        Format::Dramsim3,
        Compression::Zstd,
        Times::Cycles,
    )?;
    let mut source = Generator::new(spec(Pattern::Random, 0.3, long, 64 << 20))?;
    let mut n = 0u64;
    while let Some(r) = source.next()? {
        w.push(&r)?;
        n += 1;
        if n.is_multiple_of(1 << 16) {
            scale.signals.check()?;
        }
    }
    w.finish()?;
    let mut peaks = Vec::new();
    for requests in [long / 10, long] {
        let mut model = memory.build()?;
        play(
            model.as_mut(),
            &Stream::File(file.path()),
            requests,
            scale.signals,
        )?;
        peaks.push(Peak {
            requests,
            peak_kib: peak_kib(),
        });
    }
    Ok(peaks)
}

fn read(path: &Path) -> anyhow::Result<(Vec<Record>, Times)> {
    let mut reader = input::open(path, input::Options::default()).context(
        "the trace of a real program (`make real-trace` makes it again; --trace names another)",
    )?;
    let mut records = Vec::new();
    while let Some(r) = reader.next()? {
        records.push(r);
    }
    Ok((records, reader.times()))
}

/// Runs the command.
pub fn command(a: &MemArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let scale = Scale {
        quick: a.quick,
        signals: messages.signals(),
        repeats: a.repeats,
    };
    let memory = Memory::load(MEMORY, &[])?;
    // First, while the process is small, and before the trace is read into memory.
    messages.note("measuring memory");
    let peaks = peaks(&memory, &scale)?;
    let (records, times) = read(&a.trace)?;
    let name = a.trace.file_name().unwrap_or(a.trace.as_os_str());
    let name = name.to_string_lossy();
    let n = scale.requests(1_000_000);
    let all = scale.requests(records.len() as u64);
    let pattern = |p| Stream::Pattern(p, 0.0, None);
    let mixed = || Stream::Pattern(Pattern::Random, 0.3, None);
    let mut calibration = Vec::new();
    let mut speed = Vec::new();
    for (workload, stream, count, bar) in [
        ("sequential", pattern(Pattern::Sequential), n, BAR),
        ("random", pattern(Pattern::Random), n, BAR_DDR3),
        ("70/30", mixed(), n, BAR_DDR3),
        ("stride 4096", pattern(Pattern::Strided(4096)), n, BAR),
        ("stride 8192", pattern(Pattern::Strided(8192)), n, BAR),
        (&*name, Stream::File(&a.trace), all, BAR),
        (
            &format!("{name}, read before"),
            Stream::Read(&records, times),
            all,
            BAR,
        ),
    ] {
        messages.note(&format!("measuring {workload}"));
        speed.push(measure(
            &memory,
            workload,
            &stream,
            count,
            bar,
            &scale,
            &mut calibration,
        )?);
    }
    let xpoint = Memory::load("xpoint", &[])?;
    let (ddr4, pcm) = (Memory::load("ddr4", &[])?, Memory::load("pcm", &[])?);
    for (memory, workload, stream, bar) in [
        (&ddr4, "random", pattern(Pattern::Random), BAR_DDR4),
        (&ddr4, "70/30", mixed(), BAR_DDR4),
        (&pcm, "70/30", mixed(), BAR_MIXED),
        (&xpoint, "70/30", mixed(), BAR_MIXED),
    ] {
        messages.note(&format!("measuring {workload} on {}", memory.name));
        speed.push(measure(
            memory,
            workload,
            &stream,
            n,
            bar,
            &scale,
            &mut calibration,
        )?);
    }
    messages.note("measuring energy and wear");
    let all = ("70/30", None);
    let part = ("70/30 in 256 MiB", Some(256 << 20));
    let (e, w, ew) = ("energy", "wear", "energy and wear");
    let costs = vec![
        cost(
            e,
            all,
            &memory,
            &|on| without(&memory, on, false),
            n,
            &scale,
        )?,
        cost(
            w,
            part,
            &memory,
            &|on| without(&memory, false, on),
            n,
            &scale,
        )?,
        cost(ew, part, &memory, &|on| without(&memory, on, on), n, &scale)?,
        cost(ew, all, &memory, &|on| without(&memory, on, on), n, &scale)?,
        cost(ew, part, &xpoint, &|on| without(&xpoint, on, on), n, &scale)?,
        cost(ew, all, &xpoint, &|on| without(&xpoint, on, on), n, &scale)?,
    ];
    messages.note("measuring threads");
    let gains = channels::gains(&scale)?;
    let step_ns = median(calibration) * 1e9;
    if a.json {
        output::print_json(&json!({
            "calibration": { "step_ns": step_ns },
            "speed": speed,
            "options": costs,
            "memory": peaks,
            "threads": gains,
        }))?
    } else {
        let tables = text(step_ns, &speed, &costs, &peaks);
        output::print(&format!("{tables}\n{}", channels::text(&gains)))?;
    }
    Ok(SUCCESS)
}

fn percent(v: Option<f64>) -> String {
    v.map_or("-".into(), |v| format!("{:.1} %", 100.0 * v))
}

/// The tables.
fn text(step_ns: f64, speed: &[Row], costs: &[Cost], peaks: &[Peak]) -> String {
    let thousands = |v: f64| format!("{:.0}", v / 1e3);
    let optional = |v: Option<f64>, digits| v.map_or("-".into(), |v| format!("{v:.digits$}"));
    let mut t = tables::table([
        "saturated",
        "memory",
        "requests",
        "k req/CPU s",
        "bar",
        "of bar",
        "± 95 %",
        "steps",
        "read ns",
        "hits",
    ]);
    for r in speed {
        let cells = vec![
            r.workload.clone(),
            r.memory.clone(),
            tables::grouped(r.requests),
            thousands(r.requests_per_cpu_second),
            thousands(r.bar_requests_per_cpu_second),
            format!(
                "{:.2}",
                r.requests_per_cpu_second / r.bar_requests_per_cpu_second
            ),
            percent(
                r.cpu_seconds_sample
                    .half()
                    .map(|h| h / r.cpu_seconds_sample.mean),
            ),
            format!("{:.1}", r.steps_per_request),
            optional(r.read_latency_avg_ns, 1),
            optional(r.row_hit_rate, 3),
        ];
        tables::row(&mut t, cells);
    }
    let mut out = format!(
        "one channel; a step of the fixed loop takes {step_ns:.1} ns\n\n{}",
        tables::text(&t)
    );
    let mut t = tables::table([
        "switched on",
        "memory",
        "workload",
        "off, k req/CPU s",
        "on",
        "more",
        "± 95 %",
        "bar",
    ]);
    for c in costs {
        let cells = vec![
            c.what.into(),
            c.memory.clone(),
            c.workload.into(),
            thousands(c.off_requests_per_cpu_second),
            thousands(c.on_requests_per_cpu_second),
            format!("{:+.1} %", 100.0 * c.more),
            percent(c.more_sample.half()),
            format!("{:.0} %", 100.0 * c.bar_more),
        ];
        tables::row(&mut t, cells);
    }
    out += &format!("\n{}", tables::text(&t));
    let mut t = tables::table(["length of the trace", "peak memory [KiB]"]);
    for p in peaks {
        let peak = p.peak_kib.map_or("-".into(), tables::grouped);
        tables::row(&mut t, vec![tables::grouped(p.requests), peak]);
    }
    out += &format!("\n{}", tables::text(&t));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(least(&[3.0, 1.0, 2.0]), 1.0);
        assert!(calibrate() > 0.0);
        let before = peak_kib();
        let much = std::hint::black_box(vec![1u8; 64 << 20]);
        assert_eq!(much.iter().map(|&b| u64::from(b)).sum::<u64>(), 64 << 20);
        drop(much);
        if let (Some(a), Some(b)) = (before, peak_kib()) {
            assert!(b >= a && b >= 64 << 10, "{a} KiB, {b} KiB");
        }
    }

    #[test]
    fn what_is_switched_off_is_not_reported() {
        let signals = Signals::uncaught().unwrap();
        let play = |m: &mut (dyn MemoryModel + Send)| {
            let stream = Stream::Pattern(Pattern::Random, 0.3, None);
            let (_, o, _) = play(m, &stream, 2000, &signals).unwrap();
            let r = m.report(o.to).regions.remove(0);
            (o, r.energy.is_some(), r.wear.is_some())
        };
        for name in [MEMORY, "xpoint"] {
            let memory = Memory::load(name, &[]).unwrap();
            let (a, e, w) = play(without(&memory, true, true).unwrap().as_mut());
            assert_eq!((e, w), (true, true), "{name}");
            let (b, e, w) = play(without(&memory, false, false).unwrap().as_mut());
            assert_eq!((e, w), (false, false), "{name}");
            // Counting changes nothing else.
            assert_eq!(a, b, "{name}");
        }
    }
}
