//! A program in the detailed and in the light mode: how far the estimates are off, and why.

use nagori_memtime::Method;
use nagori_platform::config::Machine as Description;
use nagori_platform::loader::{self, FileData, Plan, RamRange, Role};
use nagori_platform::machine::{
    Engine, EpochLength, EpochRow, LightModel, LineCounts, Machine, Quiet, Report, Stop,
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

/// Both runs.
pub struct Both {
    /// Every transfer simulated.
    pub detailed: Run,
    /// Estimated.
    pub light: Run,
}

/// Processor time of this process.
fn cpu() -> f64 {
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

/// Runs software to its end in one mode. `keep` records its epochs.
pub fn run(
    description: &Description,
    plan: &Plan,
    (method, model, length): (Method, &LightModel, EpochLength),
    (light, keep): (bool, bool),
) -> anyhow::Result<Run> {
    let mut m = Machine::new(description, Quiet)?;
    m.set_engine(Engine::best())?;
    m.set_method(method)?;
    nagori_session::guest::load(&mut m, plan, false)?;
    match (light, keep) {
        (true, _) => m.set_light(model.clone(), length)?,
        (false, true) => m.count_epochs(model.clone(), length)?,
        (false, false) => {}
    }
    if keep {
        m.keep_epochs();
    }
    let begin = cpu();
    let stop = loop {
        match m.run(1 << 32, None) {
            Stop::Slice => {}
            other => break other,
        }
    };
    let cpu = cpu() - begin;
    anyhow::ensure!(stop == Stop::PowerOff(0), "the program ended with {stop:?}");
    Ok(Run {
        report: m.report(),
        cpu,
        epochs: m.take_epochs(),
        printed: m.console_output(),
    })
}

impl Both {
    /// Runs software in both modes.
    pub fn run(
        description: &Description,
        plan: &Plan,
        how: (Method, &LightModel, EpochLength),
        keep: bool,
    ) -> anyhow::Result<Both> {
        let detailed = run(description, plan, how, (false, keep))?;
        let light = run(description, plan, how, (true, keep))?;
        Ok(Both { detailed, light })
    }

    /// Error of the run time: 0.05 is five percent too long.
    pub fn error(&self) -> f64 {
        let (d, l) = (
            self.detailed.report.elapsed_ps,
            self.light.report.elapsed_ps,
        );
        l as f64 / d.max(1) as f64 - 1.0
    }

    /// Error of each epoch that both have, by hart and number: what it was in the detailed mode, in cycles, and the
    /// difference, with the lines that it moved.
    pub fn epochs(&self) -> Vec<(u64, f64, LineCounts)> {
        let harts = self.detailed.report.harts.len();
        let of = |r: &'_ Run, hart: usize| -> Vec<EpochRow> {
            r.epochs
                .iter()
                .filter(|e| e.hart == hart)
                .cloned()
                .collect()
        };
        let mut all = Vec::new();
        for hart in 0..harts {
            let (d, l) = (of(&self.detailed, hart), of(&self.light, hart));
            // Epochs that end at synchronisation are put together with those that follow: what is compared ends at
            // the same instruction.
            let ends: Vec<(u64, u64)> = l.iter().map(|e| (e.to.1, e.to.0)).collect();
            let mut before = (0, 0);
            for e in d {
                let same = ends.binary_search_by_key(&e.to.1, |x| x.0);
                let Ok(i) = same else { continue };
                let (time, light) = (e.to.0 - before.0, ends[i].1 - before.1);
                before = (e.to.0, ends[i].1);
                let mut lines = LineCounts::default();
                e.lines.iter().for_each(|n| lines.plus(n));
                all.push((time, light as f64 - time as f64, lines));
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
        let mut classes = Vec::new();
        for (from, to) in [(0.0, 0.1), (0.1, 0.25), (0.25, 0.4), (0.4, 1.1)] {
            let (mut n, mut time, mut more, mut most) = (0, 0u64, 0.0, 0f64);
            for (t, e, lines) in &epochs {
                let all = lines.reads() + lines.writes();
                let share = lines.writes() as f64 / all.max(1) as f64;
                if (from..to).contains(&share) {
                    n += 1;
                    time += t;
                    more += e;
                    most = most.max((e / (*t).max(1) as f64).abs());
                }
            }
            if n > 0 {
                classes.push(json!({
                    "writes_from": from, "writes_below": to, "epochs": n, "detailed_cycles": time,
                    "error": more / time.max(1) as f64, "worst_epoch": most,
                }));
            }
        }
        json!({
            "detailed_compute_cycles": compute(d),
            "light_compute_cycles": compute(l),
            "detailed_memory_cycles": memory(d),
            "light_memory_cycles": memory(l),
            "by_share_of_writes": classes,
        })
    }
}
