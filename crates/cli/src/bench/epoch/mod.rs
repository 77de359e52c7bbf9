//! `nagori bench epoch`: the error of the light timed mode, over programs, machines and memories.

mod debian;
mod draw;
mod list;

use super::speed::programs::{plan, Work};
use crate::args::method;
use crate::epoch::compare::Both;
use crate::output::{self, Exit, Messages, SUCCESS};
use crate::plot::Picture;
use crate::tables::{row, table, text};
use anyhow::{ensure, Context};
use clap::Args;
use debian::{Debian, GUESTS};
use list::{programs, Load, EXTRA, SOURCE};
use nagori_memtime::Method;
use nagori_platform::config::{Library, Machine as Description};
use nagori_platform::machine::{calibrate, light_key, LightModel};
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  nagori bench epoch --quick
  nagori bench epoch --json > rows.json
  nagori bench epoch --only chase1,stream --machines vc707 --memories dram,extended
  nagori bench epoch --sampled-sets 8 --memories coarse
  nagori bench epoch --figures --plot figures.svg
      A program in caches and two that wait for memory, while writes get slower: run time and write throughput

Memories: dram; coarse, fine and extended, the board's delay methods; pcm-N: reads of 300 ns beyond DRAM's, and
writes N times that; w-N: reads as DRAM, and writes N times as long. Programs are bare-metal ones, with their
data in NVMM unless the memory is dram, and Debian's xz, sqlite3, python3, cc1 (GCC) and jq on a booted machine, with all of
their memory there.";

/// Measure the error of the light timed mode (docs/epoch.md).
///
/// Runs programs with known demands on memory in the detailed and in the light mode, and prints run times,
/// error and processor time of this host.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct EpochArgs {
    /// Programs, separated by commas [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Machines, separated by commas.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "vc707,server-caches"
    )]
    pub machines: Vec<String>,
    /// Memories, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = Memory::parse,
          default_value = "dram,coarse,extended,pcm-2,pcm-10")]
    pub memories: Vec<Memory>,
    /// Length of the programs, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub length: u32,
    /// What is simulated in the light mode.
    #[command(flatten)]
    pub sample: Sample,
    /// Programs of a tenth of that length.
    #[arg(long)]
    pub quick: bool,
    /// The published comparison instead: programs under w-1 to w-5.
    #[arg(long, conflicts_with_all = ["only", "memories"])]
    pub figures: bool,
    /// A list of rows on stdout, instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Draw the results into a file; the name ends in .svg or .png.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// What is simulated in the light mode.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Sample {
    /// Simulate one set of L1D in this many in the light mode [default: epoch.sampled_sets of each machine].
    #[arg(long, value_name = "N")]
    pub sampled_sets: Option<u32>,
    /// Simulate pipeline and branch prediction in one stretch of time in this many in the light mode [default:
    /// epoch.sampled_time of each machine].
    #[arg(long, value_name = "N")]
    pub sampled_time: Option<u32>,
}

/// What NVMM is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    name: String,
    method: Method,
    /// Delays of reads and writes in ns, instead of the method's own.
    delays: Option<(u64, u64)>,
}

/// Time of a read of the board's DRAM behind the core, in ns, in whole clocks: the unit of `w-N`.
const DRAM_NS: u64 = 265;

impl Memory {
    fn parse(name: &str) -> Result<Memory, String> {
        let numbered = |prefix: &str| {
            let n = name.strip_prefix(prefix)?.parse::<u64>().ok()?;
            (1..=20).contains(&n).then_some(n)
        };
        let (method, delays) =
            match (numbered("pcm-"), numbered("w-")) {
                (Some(n), _) => (Method::Coarse, Some((300, 300 * n))),
                (_, Some(n)) => (Method::Coarse, Some((0, DRAM_NS * (n - 1)))),
                _ => match method(name) {
                    Ok(m) => (m, None),
                    Err(_) => return Err(
                        "expected dram, coarse, fine, extended, pcm-N or w-N, with N from 1 to 20"
                            .into(),
                    ),
                },
            };
        let name = name.to_owned();
        Ok(Memory {
            name,
            method,
            delays,
        })
    }

    /// The settings of a machine's description.
    fn settings(&self, sample: Sample) -> Vec<String> {
        let set =
            |what: &str, ns: u64| format!("memory.controller.delays.coarse_{what}=\"{ns} ns\"");
        let each = self.delays.map(|(r, w)| [set("read", r), set("write", w)]);
        let part = |what: &str, n: Option<u32>| n.map(|n| format!("epoch.sampled_{what}={n}"));
        let sets = part("sets", sample.sampled_sets);
        let time = part("time", sample.sampled_time);
        let all = each.into_iter().flatten().chain(sets).chain(time);
        all.collect()
    }
}

/// A machine on which compiled programs reach data in NVMM from code at the beginning of memory: that is at most 2 GiB away.
fn near(description: Description) -> anyhow::Result<Description> {
    const MOST: u64 = 1 << 30;
    if description.config.memory.nvmm_boundary.0 <= MOST {
        return Ok(description);
    }
    Ok(description.with(&["memory.nvmm_boundary=\"1 GiB\"".into()])?)
}

/// Costs that were measured: they are those of all methods, so memories that differ in the method only have the same.
#[derive(Default)]
struct Measured(Vec<LightModel>);

impl Measured {
    fn costs(&mut self, machine: &Description) -> anyhow::Result<LightModel> {
        let key = light_key(machine);
        if let Some(known) = self.0.iter().find(|m| m.key == key) {
            return Ok(known.clone());
        }
        let model = calibrate(machine)?;
        self.0.push(model.clone());
        Ok(model)
    }
}

/// One program on one machine with one memory.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the machine.
    pub machine: String,
    /// One set of L1D in so many is simulated in the light mode.
    pub sampled_sets: u32,
    /// Pipeline and branch prediction are simulated there in one stretch of time in so many.
    pub sampled_time: u32,
    /// Name of the program.
    pub program: String,
    /// Name of the memory.
    pub memory: String,
    /// Run time in the detailed mode.
    pub detailed_ns: f64,
    /// And in the light mode.
    pub light_ns: f64,
    /// The difference, as a share of the detailed run time.
    pub error: f64,
    /// Processor time of this host for the detailed mode.
    pub detailed_cpu_s: f64,
    /// And for the light mode.
    pub light_cpu_s: f64,
    /// Share of the detailed run time for which harts wait for memory.
    pub waiting: f64,
    /// Lines written to memory, by the light mode's count.
    pub writes: u64,
    /// Lines read.
    pub reads: u64,
}

impl Row {
    /// Lines written in a second, in MB/s, in a run time in ns.
    fn throughput(&self, ns: f64) -> f64 {
        self.writes as f64 * 64.0 / ns * 1e3
    }
}

/// Runs the command.
pub fn command(a: &EpochArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let picture = a.plot.as_deref().map(Picture::create).transpose()?;
    let loads: Vec<Load> = programs()
        .into_iter()
        .filter(|l| match a.figures {
            true => l.in_figures,
            false => a.only.is_empty() || a.only.iter().any(|n| n == l.program.name),
        })
        .collect();
    let guests: Vec<_> = GUESTS
        .iter()
        .filter(|g| !a.figures && (a.only.is_empty() || a.only.iter().any(|n| n == g.name)))
        .collect();
    for n in &a.only {
        ensure!(
            loads.iter().any(|l| l.program.name == n) || guests.iter().any(|g| g.name == n),
            "--only: there is no program `{n}`"
        );
    }
    let memories = match a.figures {
        true => (1..=5)
            .map(|n| Memory::parse(&format!("w-{n}")))
            .collect::<Result<_, _>>()
            .map_err(anyhow::Error::msg)?,
        false => a.memories.clone(),
    };
    let scale = if a.quick {
        a.length.div_ceil(10)
    } else {
        a.length
    };
    let work = Work::new()?;
    work.add("epoch.c", SOURCE)?;
    for (name, text) in EXTRA {
        work.add(name, text)?;
    }
    let debian = match guests.is_empty() {
        true => None,
        false => Some(Debian::new(messages)?),
    };
    let tell = |rows: &[Row]| {
        if let Some(r) = rows.last() {
            messages.note(&format!(
                "{} {} {}: {:+.1} %",
                r.machine,
                r.memory,
                r.program,
                r.error * 100.0
            ));
        }
    };
    let mut rows = Vec::new();
    let machines: &[String] = if a.figures {
        &a.machines[..1]
    } else {
        &a.machines
    };
    for machine in machines {
        let mut measured = Measured::default();
        for memory in &memories {
            let description =
                Description::load(&Library::installed(), machine, &memory.settings(a.sample))?;
            let guests_description = description.clone();
            let description = near(description)?;
            let model = measured.costs(&description)?;
            let nvmm = description.config.memory.nvmm_base();
            let data = (memory.method != Method::Dram).then_some(nvmm);
            // Machines of programs that need settings of their own, by these.
            let mut others: Vec<(&[&str], (Description, LightModel))> = Vec::new();
            for l in &loads {
                messages.signals().check()?;
                if l.program.harts > description.config.harts {
                    continue;
                }
                let elf = work.compile(&l.program, scale, data)?;
                let plan = plan(&description.config.memory, &elf)?;
                let is_known = others.iter().any(|o| o.0 == l.settings);
                if !l.settings.is_empty() && !is_known {
                    // What these need sees every line.
                    let all = l.settings.iter().chain(&["epoch.sampled_sets=1"]);
                    let set: Vec<String> = all.map(|s| s.to_string()).collect();
                    let other = description.with(&set)?;
                    let model = measured.costs(&other)?;
                    others.push((l.settings, (other, model)));
                }
                let other = others.iter().find(|o| o.0 == l.settings);
                let (description, model) = match other {
                    Some((_, (description, model))) => (description, model),
                    None => (&description, &model),
                };
                let how = (memory.method, model);
                let both = Both::run(description, &plan, how, None).with_context(|| {
                    format!("{} on {machine} with {}", l.program.name, memory.name)
                })?;
                let name = (l.program.name, l.program.harts > 1);
                rows.push(as_row(description, name, memory, &both)?);
                tell(&rows);
            }
            let Some(debian) = &debian else { continue };
            let description = guests_description;
            let model = measured.costs(&description)?;
            let session = debian.boot(machine, memory, a.sample)?;
            for g in &guests {
                let how = (memory.method, &model);
                let both = debian.run(&session, &description, (g, scale), how)?;
                rows.push(as_row(&description, (g.name, false), memory, &both)?);
                tell(&rows);
            }
        }
    }
    match a.json {
        true => output::print_json(&serde_json::to_value(&rows)?)?,
        false => output::print(&if a.figures {
            figures(&rows)
        } else {
            shown(&rows)
        })?,
    }
    if let Some(picture) = picture {
        let bytes = match a.figures {
            true => draw::figures(picture.format(), &rows)?,
            false => draw::errors(picture.format(), &rows)?,
        };
        picture.finish(&bytes, messages)?;
    }
    Ok(SUCCESS)
}

/// `races`: whether harts that wait for one another may come to another result.
fn as_row(
    machine: &Description,
    (program, races): (&str, bool),
    memory: &Memory,
    both: &Both,
) -> anyhow::Result<Row> {
    let (d, light) = (&both.detailed.report, &both.light.report);
    ensure!(
        races || both.detailed.printed == both.light.printed,
        "{program}: another result in the light mode"
    );
    let counted = light
        .light
        .as_ref()
        .context("no statistics of the light mode")?;
    let busy: u64 = d
        .harts
        .iter()
        .map(|h| h.cycles - h.events.idle_cycles)
        .sum();
    let waits: u64 = d.harts.iter().map(|h| h.events.memory_stall_cycles).sum();
    Ok(Row {
        machine: machine.config.name.clone(),
        sampled_sets: machine.config.sampled_sets(memory.method),
        sampled_time: machine.config.epoch.sampled_time,
        program: program.to_owned(),
        memory: memory.name.clone(),
        detailed_ns: d.elapsed_ps as f64 / 1e3,
        light_ns: light.elapsed_ps as f64 / 1e3,
        error: both.error(),
        detailed_cpu_s: both.detailed.cpu,
        light_cpu_s: both.light.cpu,
        waiting: waits as f64 / busy.max(1) as f64,
        writes: counted.memories.iter().map(|m| m.1.writes()).sum(),
        reads: counted
            .memories
            .iter()
            .map(|m| m.1.reads() + m.1.prefetches)
            .sum(),
    })
}

fn shown(rows: &[Row]) -> String {
    let mut t = table([
        "machine",
        "memory",
        "program",
        "detailed ms",
        "light ms",
        "error %",
        "waits %",
        "faster",
    ]);
    for r in rows {
        row(
            &mut t,
            [
                r.machine.clone(),
                r.memory.clone(),
                r.program.clone(),
                format!("{:.3}", r.detailed_ns / 1e6),
                format!("{:.3}", r.light_ns / 1e6),
                format!("{:+.1}", r.error * 100.0),
                format!("{:.0}", r.waiting * 100.0),
                format!("{:.2}", r.detailed_cpu_s / r.light_cpu_s.max(1e-9)),
            ],
        );
    }
    let n = rows.len().max(1) as f64;
    let mean = rows.iter().map(|r| r.error.abs()).sum::<f64>() / n;
    let large = rows.iter().filter(|r| r.error.abs() > 0.15).count();
    let speed = |waits: bool| {
        let of = rows.iter().filter(|r| (r.waiting > 0.5) == waits);
        let (d, l) = of.fold((0.0, 0.0), |s, r| {
            (s.0 + r.detailed_cpu_s, s.1 + r.light_cpu_s)
        });
        if l > 0.0 {
            format!("{:.2}", d / l)
        } else {
            "-".into()
        }
    };
    format!(
        "{}\nmean error {:.1} %, {large} of {} above 15 %; faster than detailed: {} times where memory is waited for most of the time, {} times elsewhere\n",
        text(&t),
        mean * 100.0,
        rows.len(),
        speed(true),
        speed(false)
    )
}

/// Run time, relative to w-1, and write throughput, of both modes.
fn figures(rows: &[Row]) -> String {
    let mut t = table([
        "program",
        "W / DRAM",
        "time",
        "light",
        "MB/s written",
        "light",
    ]);
    for r in rows {
        let one = rows.iter().find(|o| o.program == r.program).unwrap_or(r);
        row(
            &mut t,
            [
                r.program.clone(),
                r.memory.trim_start_matches("w-").into(),
                format!("{:.3}", r.detailed_ns / one.detailed_ns),
                format!("{:.3}", r.light_ns / one.light_ns),
                format!("{:.2}", r.throughput(r.detailed_ns)),
                format!("{:.2}", r.throughput(r.light_ns)),
            ],
        );
    }
    text(&t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_have_their_delays() {
        let m = Memory::parse("pcm-10").unwrap();
        assert_eq!(m.delays, Some((300, 3000)));
        let w = Memory::parse("w-3").unwrap();
        assert_eq!(
            w.settings(Sample::default())[1],
            "memory.controller.delays.coarse_write=\"530 ns\""
        );
        let extended = Memory::parse("extended").unwrap();
        assert!(extended.settings(Sample::default()).is_empty());
        let sample = Sample {
            sampled_sets: Some(4),
            sampled_time: Some(8),
        };
        let settings = ["epoch.sampled_sets=4", "epoch.sampled_time=8"];
        assert_eq!(extended.settings(sample), settings);
        assert!(Memory::parse("pcm-0").is_err() && Memory::parse("sram").is_err());
    }

    #[test]
    fn there_are_at_least_twenty_programs_with_names_of_their_own() {
        let bare = programs();
        let bare = bare.iter().map(|l| l.program.name);
        let mut names: Vec<_> = bare.chain(GUESTS.iter().map(|g| g.name)).collect();
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert!(n >= 20 && names.len() == n);
    }
}
