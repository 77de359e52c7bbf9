//! A program in the detailed and in the light mode: how far the estimates are off, and why.

use crate::tables::{row, table, text};
use nagori_memtime::Method;
use nagori_platform::config::Machine as Description;
use nagori_platform::loader::{self, FileData, Plan, RamRange, Role};
use nagori_platform::machine::{
    hart_config, Engine, EpochLength, EpochRow, LightModel, LineCounts, Machine, Quiet, Report,
    Stop,
};
use rustix::time::{clock_gettime, ClockId};
use serde_json::{json, Value};
use std::path::Path;

/// A run in one mode.
pub struct Run {
    /// Its statistics.
    pub report: Report,
    /// Processor time of this host, in seconds.
    pub cpu: f64,
    /// Its epochs, of equal numbers of instructions.
    pub epochs: Vec<EpochRow>,
    /// What it has printed.
    pub printed: Vec<u8>,
}

/// An epoch of the detailed mode.
pub struct EpochError {
    /// What it took, in cycles of the hart that it did not sleep.
    cycles: u64,
    /// What the light mode takes beyond that.
    error: f64,
    lines: LineCounts,
    /// Cycles for which memory was waited for.
    waited: u64,
    /// Picoseconds that the lines take one after another, by the costs of the light mode.
    alone_ps: u64,
}

impl EpochError {
    fn relative(&self) -> f64 {
        self.error / self.cycles.max(1) as f64
    }
}

/// Epochs of one kind together, as JSON; none if there are none.
fn class<'a>(of: impl Iterator<Item = &'a EpochError>, mut head: Value) -> Option<Value> {
    let (mut n, mut cycles, mut more, mut worst) = (0, 0u64, 0.0, 0f64);
    for e in of {
        n += 1;
        cycles += e.cycles;
        more += e.error;
        worst = worst.max(e.relative().abs());
    }
    head["epochs"] = json!(n);
    head["detailed_cycles"] = json!(cycles);
    head["error"] = json!(more / cycles.max(1) as f64);
    head["worst_epoch"] = json!(worst);
    (n > 0).then_some(head)
}

/// When a hart had executed how many instructions, by its own time without sleep.
struct Course(Vec<(u64, f64)>);

impl Course {
    fn of(run: &Run, hart: usize) -> Course {
        let mut points = Vec::new();
        let mut slept = 0;
        for e in run.epochs.iter().filter(|e| e.hart == hart) {
            if points.is_empty() {
                points.push((e.from.1, e.from.0 as f64));
            }
            slept += e.idle;
            points.push((e.to.1, e.to.0 as f64 - slept as f64));
        }
        Course(points)
    }

    /// The time at a number of instructions, between ends of epochs in proportion.
    fn at(&self, instret: u64) -> Option<f64> {
        // Of several ends at one instruction the last one counts.
        let i = self.0.partition_point(|p| p.0 <= instret);
        let before = self.0.get(i.checked_sub(1)?)?;
        if before.0 == instret {
            return Some(before.1);
        }
        let after = self.0.get(i)?;
        let share = (instret - before.0) as f64 / (after.0 - before.0) as f64;
        Some(before.1 + share * (after.1 - before.1))
    }
}

/// Both runs.
pub struct Both {
    /// Every transfer simulated.
    pub detailed: Run,
    /// Estimated.
    pub light: Run,
    /// Picoseconds of a core cycle.
    period: f64,
    /// Core cycles of a miss before and behind memory.
    miss: f64,
}

/// Processor time of this process, in seconds.
pub fn process_cpu() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// A bare-metal program for a machine's memory.
pub fn plan(description: &Description, elf: &Path) -> anyhow::Result<Plan> {
    let memory = &description.config.memory;
    let range = RamRange {
        start: memory.base,
        end: memory.end(),
    };
    let file = FileData::read(Role::Program, elf)?;
    Ok(loader::load_elf(&file, range)?.plan)
}

/// Runs software to its end in one mode. `keep` records its epochs: in the detailed mode of so many instructions of a hart,
/// in the light mode those of the machine's description.
fn run(
    description: &Description,
    plan: &Plan,
    (method, model): (Method, &LightModel),
    (light, keep): (bool, Option<u64>),
) -> anyhow::Result<Run> {
    let mut m = Machine::new(description, Quiet)?;
    m.set_engine(Engine::best())?;
    m.set_method(method)?;
    nagori_session::guest::load(&mut m, plan, false)?;
    match (light, keep) {
        (true, _) => {
            let length = EpochLength::of(&description.config.epoch);
            m.set_light(model.clone(), length)?;
        }
        (false, Some(every)) => m.count_epochs(model.clone(), EpochLength::every(every))?,
        (false, None) => {}
    }
    if keep.is_some() {
        m.keep_epochs();
    }
    let begin = process_cpu();
    let stop = loop {
        match m.run(1 << 32, None) {
            Stop::Slice => {}
            other => break other,
        }
    };
    let cpu = process_cpu() - begin;
    anyhow::ensure!(stop == Stop::PowerOff(0), "the program ended with {stop:?}");
    Ok(Run {
        report: m.report(),
        cpu,
        epochs: m.take_epochs(),
        printed: m.console_output(),
    })
}

impl Both {
    /// Runs software in both modes; what it took is known for each `keep` instructions of a hart.
    pub fn run(
        description: &Description,
        plan: &Plan,
        how: (Method, &LightModel),
        keep: Option<u64>,
    ) -> anyhow::Result<Both> {
        let detailed = run(description, plan, how, (false, keep))?;
        let light = run(description, plan, how, (true, keep))?;
        Both::new(description, detailed, light)
    }

    /// Two runs on a machine.
    pub fn new(description: &Description, detailed: Run, light: Run) -> anyhow::Result<Both> {
        let (num, den) = description.config.core_period().fraction();
        let core = hart_config(description)?.timing;
        Ok(Both {
            detailed,
            light,
            period: num as f64 / den as f64,
            miss: f64::from(core.l1d_miss) + f64::from(core.hub),
        })
    }

    /// Error of the run time: 0.05 is five percent too long.
    pub fn error(&self) -> f64 {
        let (d, l) = (
            self.detailed.report.elapsed_ps,
            self.light.report.elapsed_ps,
        );
        l as f64 / d.max(1) as f64 - 1.0
    }

    /// How many times the processor time of the light mode the detailed one has taken.
    pub fn faster(&self) -> f64 {
        self.detailed.cpu / self.light.cpu.max(1e-9)
    }

    /// Run times, error, processor times, and where the difference comes from.
    pub fn json(&self) -> Value {
        json!({
            "detailed_ns": self.detailed.report.elapsed_ps as f64 / 1e3,
            "light_ns": self.light.report.elapsed_ps as f64 / 1e3,
            "error": self.error(),
            "detailed_cpu_s": self.detailed.cpu,
            "light_cpu_s": self.light.cpu,
            "explained": self.explained(),
            "lines": self.light.report.light,
        })
    }

    /// The epochs of the detailed mode, without those in which a hart did nothing but sleep, beside what the light mode takes
    /// for the same instructions.
    pub fn epochs(&self) -> Vec<EpochError> {
        let mut all = Vec::new();
        for hart in 0..self.detailed.report.harts.len() {
            let light = Course::of(&self.light, hart);
            let of_hart = self.detailed.epochs.iter().filter(|e| e.hart == hart);
            for e in of_hart {
                let cycles = (e.to.0 - e.from.0).saturating_sub(e.idle);
                let Some((from, to)) = light.at(e.from.1).zip(light.at(e.to.1)) else {
                    continue;
                };
                if cycles == 0 || e.to.1 == e.from.1 {
                    continue;
                }
                let mut lines = LineCounts::default();
                e.lines.iter().for_each(|n| lines.plus(n));
                all.push(EpochError {
                    cycles,
                    error: (to - from) - cycles as f64,
                    lines,
                    waited: e.waited,
                    alone_ps: e.alone_ps,
                });
            }
        }
        all
    }

    /// Where the difference comes from, as JSON: by share of writes, and the time in compute and memory.
    pub fn explained(&self) -> Value {
        let memory = |r: &Report| {
            r.harts
                .iter()
                .map(|h| h.events.memory_stall_cycles)
                .sum::<u64>()
        };
        let all = |r: &Report| {
            r.harts
                .iter()
                .map(|h| h.cycles - h.events.idle_cycles)
                .sum::<u64>()
        };
        let (d, l) = (&self.detailed.report, &self.light.report);
        let compute = |r: &Report| all(r).saturating_sub(memory(r));
        let epochs = self.epochs();
        let period = self.period;
        let mut by_writes = Vec::new();
        for (from, to) in [(0.0, 0.1), (0.1, 0.25), (0.25, 0.4), (0.4, 1.1)] {
            let of = epochs.iter().filter(|e| {
                let all = e.lines.reads() + e.lines.writes();
                let share = e.lines.writes() as f64 / all.max(1) as f64;
                (from..to).contains(&share)
            });
            by_writes.extend(class(of, json!({"writes_from": from, "writes_below": to})));
        }
        // One after another, lines would take as long as they were waited for: two that come at a time are waited for half as long.
        let mut by_parallelism = Vec::new();
        for (from, to) in [(0.0, 0.8), (0.8, 1.25), (1.25, 2.5), (2.5, f64::MAX)] {
            let of = epochs.iter().filter(|e| {
                let waited = e.waited as f64 * period;
                let core = e.lines.reads() as f64 * self.miss * period;
                let alone = e.alone_ps as f64 + core;
                e.waited > 0 && (from..to).contains(&(alone / waited))
            });
            let below = (to < f64::MAX).then_some(to);
            let head = json!({"parallelism_from": from, "parallelism_below": below});
            by_parallelism.extend(class(of, head));
        }
        let mut off: Vec<f64> = epochs
            .iter()
            .map(EpochError::relative)
            .map(f64::abs)
            .collect();
        off.sort_by(f64::total_cmp);
        let at = |share: f64| off.get((share * off.len() as f64) as usize).or(off.last());
        json!({
            "detailed_compute_cycles": compute(d),
            "light_compute_cycles": compute(l),
            "detailed_memory_cycles": memory(d),
            "light_memory_cycles": memory(l),
            "epochs": epochs.len(),
            "median_epoch": at(0.5),
            "p90_epoch": at(0.9),
            "by_share_of_writes": by_writes,
            "by_parallelism": by_parallelism,
        })
    }
}

/// What [`Both::explained`] has, for human readers.
pub fn explained_table(e: &Value) -> String {
    let mut t = table(["part", "detailed", "light", "error %"]);
    for what in ["compute", "memory"] {
        let cycles = |mode: &str| e[format!("{mode}_{what}_cycles")].as_u64().unwrap_or(0);
        let (d, l) = (cycles("detailed"), cycles("light"));
        let off = (l as f64 / d.max(1) as f64 - 1.0) * 100.0;
        let name = format!("{what}, cycles");
        row(
            &mut t,
            [name, d.to_string(), l.to_string(), format!("{off:+.2}")],
        );
    }
    let mut out = text(&t);
    let kinds = [
        ("share of writes", "by_share_of_writes", "writes", 100.0),
        ("lines at a time", "by_parallelism", "parallelism", 1.0),
    ];
    for (title, key, bound, scale) in kinds {
        let mut t = table([title, "epochs", "error %", "worst epoch %"]);
        for c in e[key].as_array().into_iter().flatten() {
            let percent = |key: &str| c[key].as_f64().unwrap_or(0.0) * 100.0;
            let from = c[format!("{bound}_from")].as_f64().unwrap_or(0.0) * scale;
            row(
                &mut t,
                [
                    format!("from {from}{}", if scale > 1.0 { " %" } else { "" }),
                    c["epochs"].to_string(),
                    format!("{:+.2}", percent("error")),
                    format!("{:.2}", percent("worst_epoch")),
                ],
            );
        }
        out += &format!("\n{}", text(&t));
    }
    out
}
