//! Options and results of sampled runs.

use crate::figures::Figures;
use anyhow::{bail, Context};
use clap::{Args, ValueEnum};
use nagori_machine::{Machine, Report};
use nagori_memtime::stats::Region;
use nagori_session::sampling::{bbv, plan, Asked, Interval, Plan, Sampled};
use nagori_terminal::numbers::count;
use nagori_terminal::tables::{duration, grouped, part, row, table, text};
use serde_json::{json, Map, Value};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// How time is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TimingKind {
    /// Everything in detail.
    #[default]
    Detailed,
    /// Windows in detail, and estimates from them.
    Sampled,
}

/// Sampled timing.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Sampling (docs/sampling.md)")]
pub struct SampleArgs {
    /// `sampled`: what would be timed runs functionally, and windows of it are measured in detail, in copies of the
    /// machine; run time and counters are estimates with 95 % confidence intervals [default: detailed].
    #[arg(long, value_name = "HOW", value_enum)]
    pub timing: Option<TimingKind>,
    /// Half of the run time's interval that is aimed at: as many windows as its variation asks for [default: 2%].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub error: Option<f64>,
    /// As many windows as so many of equal weight are worth, whatever the variation.
    #[arg(long, value_name = "N", value_parser = count::<u64>(2..=100_000), conflicts_with = "error")]
    pub windows: Option<u64>,
    /// Instructions of all harts that a window measures [default: 100000].
    #[arg(long, value_name = "N", value_parser = count::<u64>(1000..=1_000_000_000))]
    pub window_length: Option<u64>,
    /// Threads of this host that a sampled run uses; results do not depend on them [default: one for each core].
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..=256))]
    pub sample_threads: Option<u32>,
    /// Write each window as a snapshot to this directory, for `nagori window run`.
    #[arg(long, value_name = "DIR")]
    pub windows_to: Option<PathBuf>,
    /// Measure these windows only: lines `INTERVAL WEIGHT`, where interval N begins N window lengths behind the start
    /// of what is timed, as SimPoint chooses them. There are no confidence intervals then.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["error", "windows"])]
    pub intervals: Option<PathBuf>,
    /// Write basic-block vectors of what would be timed to this file, for SimPoint, one for each window length. The run
    /// is functional, and takes as long as one that is traced.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["timing", "intervals", "windows_to"])]
    pub bbv: Option<PathBuf>,
}

/// Reads a part, in percent.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let value = number
        .parse::<f64>()
        .ok()
        .filter(|v| *v >= 0.1 && *v <= 50.0);
    let value = value.ok_or("expected a part in percent from 0.1% to 50%, such as 2%")?;
    Ok(value / 100.0)
}

impl SampleArgs {
    /// What is asked for, with `--warm-up`; `None`: nothing is sampled.
    pub fn asked(&self, warm_up: Option<u64>) -> anyhow::Result<Option<Asked>> {
        if !self.is_sampled() {
            let given = [
                ("--error", self.error.is_some()),
                ("--windows", self.windows.is_some()),
                (
                    "--window-length",
                    self.window_length.is_some() && self.bbv.is_none(),
                ),
                ("--sample-threads", self.sample_threads.is_some()),
                ("--windows-to", self.windows_to.is_some()),
                ("--intervals", self.intervals.is_some()),
            ];
            if let Some((option, _)) = given.iter().find(|g| g.1) {
                bail!("{option}: it says how a run is sampled: --timing sampled is needed, too");
            }
            return Ok(None);
        }
        let fresh = Plan::default();
        let given = self.intervals.as_deref().map(intervals).transpose()?;
        if let Some(dir) = &self.windows_to {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("--windows-to {}", dir.display()))?;
        }
        Ok(Some(Asked {
            plan: Plan {
                error: self.error.unwrap_or(fresh.error),
                windows: self.windows,
                window_length: self.window_length.unwrap_or(fresh.window_length),
                warm_up,
                threads: self.sample_threads.map_or(fresh.threads, |n| n as usize),
                given,
            },
            windows_to: self.windows_to.clone(),
        }))
    }

    /// Whether runs are sampled, so that `--warm-up` is that of windows.
    pub fn is_sampled(&self) -> bool {
        self.timing == Some(TimingKind::Sampled)
    }

    /// Instructions of an interval of basic-block vectors.
    pub fn vector_length(&self) -> u64 {
        self.window_length.unwrap_or(plan::WINDOW_LENGTH)
    }
}

/// Refuses the first of these options that is given beside `option`, with which a run is functional for the most part.
pub fn refuse(option: &str, others: &[(&str, bool)]) -> anyhow::Result<()> {
    match others.iter().find(|o| o.1) {
        Some((other, _)) => bail!("{other}: not with {option}: most of the run is functional"),
        None => Ok(()),
    }
}

/// Reads the intervals of a file: a number and a weight in each line.
fn intervals(file: &Path) -> anyhow::Result<plan::Given> {
    let at = || format!("--intervals {}", file.display());
    let lines = std::fs::read_to_string(file).with_context(at)?;
    let mut all: Vec<(u64, f64)> = Vec::new();
    for (n, line) in lines.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pair = match words[..] {
            [] => continue,
            [number, weight] => number.parse().ok().zip(weight.parse::<f64>().ok()),
            _ => None,
        };
        match pair.filter(|(_, w)| *w > 0.0 && w.is_finite()) {
            Some(pair) => all.push(pair),
            None => bail!(
                "{}, line {}: expected the number of an interval and its weight, more than 0",
                at(),
                n + 1
            ),
        }
    }
    all.sort_by_key(|a| a.0);
    if all.is_empty() || all.windows(2).any(|w| w[0].0 == w[1].0) {
        bail!("{}: expected at least one interval, and each once", at());
    }
    Ok(plan::Given { intervals: all })
}

/// A figure: its key in JSON, its name, and its value in a report.
type Figure = (&'static str, &'static str, fn(&Report) -> f64);

const FIGURES: &[Figure] = &[
    ("busy_cycles", "cycles of harts that were not idle", |r| {
        Figures::of(r).busy as f64
    }),
    ("memory_stall_cycles", "cycles of waiting for memory", |r| {
        Figures::of(r).stall as f64
    }),
    ("l1d_misses", "L1D misses", |r| {
        Figures::of(r).misses[0] as f64
    }),
    ("l1i_misses", "L1I misses", |r| {
        Figures::of(r).misses[1] as f64
    }),
    ("dtlb_misses", "DTLB misses", |r| {
        Figures::of(r).misses[2] as f64
    }),
    ("itlb_misses", "ITLB misses", |r| {
        Figures::of(r).misses[3] as f64
    }),
    ("dram_reads", "DRAM reads", |r| {
        part(r, Region::Dram).reads as f64
    }),
    ("dram_writes", "DRAM writes", |r| {
        part(r, Region::Dram).writes as f64
    }),
    ("dram_energy_pj", "DRAM energy, pJ", |r| {
        part(r, Region::Dram).energy_pj.unwrap_or(0.0)
    }),
    ("nvmm_reads", "NVMM reads", |r| {
        part(r, Region::Nvmm).reads as f64
    }),
    ("nvmm_writes", "NVMM writes", |r| {
        part(r, Region::Nvmm).writes as f64
    }),
    ("nvmm_energy_pj", "NVMM energy, pJ", |r| {
        part(r, Region::Nvmm).energy_pj.unwrap_or(0.0)
    }),
];

fn cpi(s: &Sampled) -> Option<Interval> {
    s.ratio(|r| Figures::of(r).busy as f64, |r| r.instructions as f64)
}

fn read_ns(s: &Sampled, of: Region) -> Option<Interval> {
    let reads = |r: &Report| part(r, of).reads as f64;
    s.ratio(|r| part(r, of).read_ns.unwrap_or(0.0) * reads(r), reads)
}

/// An interval in JSON.
pub fn interval_json(i: Interval) -> Value {
    json!({"value": i.value, "ci95": i.ends()})
}

/// Instructions that windows have measured.
fn measured(s: &Sampled) -> u64 {
    s.windows.iter().map(|w| w.1.instructions).sum()
}

/// How a run was sampled, and its estimates, as JSON.
pub fn as_json(s: &Sampled) -> Value {
    let mut all = Map::new();
    let mut put = |key: &str, i: Option<Interval>| {
        if let Some(i) = i {
            all.insert(key.into(), interval_json(i));
        }
    };
    put("guest_time_ps", s.time_ps());
    put("cpi", cpi(s));
    put("dram_read_latency_avg_ns", read_ns(s, Region::Dram));
    put("nvmm_read_latency_avg_ns", read_ns(s, Region::Nvmm));
    for (key, _, f) in FIGURES {
        put(key, s.total(f));
    }
    json!({
        "whole": s.is_whole(),
        "windows": s.windows.len(),
        "cut": s.cut,
        "not_warm": s.cold,
        "window_length": s.window_length,
        "warm_up": s.warm_up,
        "error": s.error,
        "instructions": s.total.instructions,
        "instructions_measured": measured(s),
        "instructions_at_the_start": s.head.as_ref().map(|h| h.instructions),
        "least_guest_time_ps": s.least_time_ps().map(interval_json),
        "estimates": all,
    })
}

/// How a run was sampled, in a line, and its estimates.
pub fn as_table(s: &Sampled) -> String {
    if s.is_whole() {
        return "sampled: it was too short for windows, and has been measured as a whole\n".into();
    }
    let mut out = format!(
        "sampled: {} windows of {} instructions, {:.2} % of all, after {} to warm up; {} not warm, {} ended with the \
            program\n\n",
        s.windows.len(),
        grouped(s.window_length),
        100.0 * measured(s) as f64 / s.total.instructions as f64,
        grouped(s.warm_up),
        s.cold,
        s.cut
    );
    let mut t = table(["estimates, 95 % intervals", "", "+-", "%"]);
    let mut add = |name: &str, i: Option<Interval>, shown: &dyn Fn(f64) -> String| {
        let Some(i) = i.filter(|i| i.value != 0.0) else {
            return;
        };
        let half = i.half.map_or("-".into(), shown);
        let part = i
            .relative()
            .map_or("-".into(), |p| format!("{:.2}", 100.0 * p));
        row(&mut t, [name.to_string(), shown(i.value), half, part]);
    };
    let whole = |v: f64| grouped(v.round().max(0.0) as u64);
    add("guest time", s.time_ps(), &|v| {
        duration(v.round().max(0.0) as u64)
    });
    add("CPI", cpi(s), &|v| format!("{v:.4}"));
    for (_, name, f) in FIGURES {
        add(name, s.total(f), &whole);
    }
    add("DRAM read, ns", read_ns(s, Region::Dram), &|v| {
        format!("{v:.1}")
    });
    add("NVMM read, ns", read_ns(s, Region::Nvmm), &|v| {
        format!("{v:.1}")
    });
    out.push_str(&text(&t));
    out
}

/// Basic-block vectors that are being written.
pub struct Vectors {
    counting: bbv::Vectors,
    file: tempfile::NamedTempFile,
    to: PathBuf,
}

impl Vectors {
    /// Begins, if they are asked for.
    pub fn begin(a: &SampleArgs, m: &mut Machine) -> anyhow::Result<Option<Vectors>> {
        let Some(to) = &a.bbv else { return Ok(None) };
        let at = || format!("--bbv {}", to.display());
        let folder = to.parent().filter(|p| !p.as_os_str().is_empty());
        let file =
            tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(at)?;
        let out: File = file.reopen().with_context(at)?;
        let out = Box::new(BufWriter::new(out));
        Ok(Some(Vectors {
            counting: bbv::Vectors::begin(m, out, a.vector_length()),
            file,
            to: to.clone(),
        }))
    }

    /// The run is over.
    pub fn end(self, m: &mut Machine) -> anyhow::Result<()> {
        let at = || format!("--bbv {}", self.to.display());
        self.counting.end(m).with_context(at)?;
        self.file.persist(&self.to).with_context(at)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn parts_are_percent() {
        assert_eq!(percent("2%"), Ok(0.02));
        assert_eq!(percent("0.5"), Ok(0.005));
        assert!(percent("0").is_err() && percent("x%").is_err() && percent("99%").is_err());
    }

    #[test]
    fn intervals_are_read_or_refused() {
        let read = |text: &str| {
            let mut f = tempfile::NamedTempFile::new().unwrap();
            f.write_all(text.as_bytes()).unwrap();
            intervals(f.path())
                .map(|g| g.intervals)
                .map_err(|e| e.to_string())
        };
        assert_eq!(read("7 0.25\n\n2 0.75\n"), Ok(vec![(2, 0.75), (7, 0.25)]));
        for wrong in ["", "1 0", "1 x", "1", "1 1 1", "1 1\n1 1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("1 1\n2 y").unwrap_err().contains("line 2"));
    }
}
