//! `nagori bench epoch`: how far emulation by counters is from the detailed model of the memory that it emulates, and
//! why.

mod debian;
mod draw;
mod list;
mod memory;
mod rows;

use super::speed::engine;
use super::speed::programs::{plan, Work};
use anyhow::{ensure, Context};
use clap::Args;
use debian::{Debian, GUESTS};
use list::{programs, Load, SOURCE};
use memory::Memory;
use nagori_config::{Library, Machine as Description};
use nagori_epoch::{Variant, Weight};
use nagori_machine::{EpochReport, Report};
use nagori_memtime::{units::UnitError, Ps};
use nagori_platform::loader::Plan;
use nagori_terminal::numbers::count;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::plot::{LookArgs, Picture};
use rows::Row;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  nagori bench epoch --quick
  nagori bench epoch --json > rows.json
  nagori bench epoch --only chase1,stream --memories coarse,extended --epochs 10us,1ms,10ms
  nagori bench epoch --machines server --memories xpoint,pcm --methods koshiba,quartz
  nagori bench epoch --figures --plot figures.svg
      A program in caches and two that wait for memory, while writes get slower: run time and write throughput

Memories: coarse, fine and extended, the board's delay methods; pcm-N: reads of 300 ns beyond DRAM's, and writes N
times that; others are memories of `nagori mem list`, which NVMM then has for its own. Programs are bare-metal ones
with their data in NVMM, and Debian's xz, sqlite3, python3, cc1 (GCC) and jq on a booted machine, with all of their
memory there.

Columns:
  slower        run time with the memory itself, where that with NVMM as fast as DRAM is 1
  error %       run time by epochs beyond that with the memory itself
  writes %      share of writes in the lines of NVMM that are read and written
  at a time     lines that are waited for at a time: lines read, times the wait for a line, by all waiting
  ACT/REQ       activations of rows for each request, of the memory itself
  not waited %  share of the writes that exceed the reads, for which no miss can have waited

Time:
  On one core of two, optimised: four minutes with --quick, half an hour without; of that, two thirds for
  Debian's programs.";

/// Measure the error of emulation by epochs (docs/epoch.md).
///
/// Runs programs with known demands on memory on the detailed model of a memory, and on a machine that emulates it
/// by counters, and prints the difference of their run times.
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
        default_value = "vc707"
    )]
    pub machines: Vec<String>,
    /// Memories, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = Memory::parse,
          default_value = "coarse,fine,extended,pcm-2,pcm-10")]
    pub memories: Vec<Memory>,
    /// Formulas, separated by commas.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "koshiba,quartz,misses"
    )]
    pub methods: Vec<Variant>,
    /// Lengths of epochs, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = epoch,
          default_value = "1ms")]
    pub epochs: Vec<Ps>,
    /// Length of the programs, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = count::<u32>(1..=1000))]
    pub length: u32,
    /// Programs of a tenth of that length, and none of Debian's.
    #[arg(long)]
    pub quick: bool,
    /// The published comparison instead: run time while writes take 1 to 5 times what they take on DRAM.
    #[arg(long, conflicts_with_all = ["only", "memories", "methods", "epochs"])]
    pub figures: bool,
    /// A list of rows on stdout, instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Draw the results into a file; the name ends in .svg, .png, .pdf or .vl.json (Vega-Lite).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub look: LookArgs,
}

fn epoch(text: &str) -> Result<Ps, String> {
    text.parse().map_err(|e: UnitError| e.to_string())
}

/// How NVMM is emulated.
#[derive(Debug, Clone)]
pub struct Emulation {
    variant: Variant,
    length: Ps,
    /// Latencies, once they are known, as settings.
    known: Vec<String>,
}

impl Emulation {
    fn settings(&self) -> Vec<String> {
        let mut all = vec![
            format!("epoch.variant={}", self.variant.name()),
            format!("epoch.length=\"{}\"", self.length),
        ];
        all.extend(self.known.iter().cloned());
        all
    }
}

/// Settings of what a miss is waited for: one that reads, one that also writes back, and one on DRAM, in picoseconds;
/// and of how many times longer the last is than a hit in the last-level cache.
fn latencies([read, write, dram]: [u64; 3], weight: Weight) -> Vec<String> {
    let times = [("read", read), ("write", write), ("dram", dram)];
    let times = times.map(|(name, ps)| format!("epoch.{name}=\"{}\"", Ps(ps)));
    let weight = format!("epoch.weight=\"{weight}\"");
    times.into_iter().chain([weight]).collect()
}

/// The epochs of a machine that has them.
fn epochs(r: &Report) -> anyhow::Result<&EpochReport> {
    r.epochs.as_ref().context("no epochs")
}

/// What was run, and how it came out.
pub struct Done {
    report: Report,
    printed: Vec<u8>,
}

/// Runs a bare-metal program to its end.
fn run(description: &Description, plan: &Plan, messages: &Messages) -> anyhow::Result<Done> {
    // The reference is the first one.
    let mut fastest_first = engine::Engine::ALL.into_iter().rev();
    let engine = fastest_first.find(|e| e.is_built());
    let engine = engine.context("no engine")?;
    let run = engine::run(engine, description, plan.clone(), true, messages.signals())?;
    Ok(Done {
        report: run.report,
        printed: run.lines.join("\n").into_bytes(),
    })
}

/// A machine on which compiled programs reach data in NVMM from code at the beginning of memory: that is at most 2 GiB
/// away.
fn near(description: Description) -> anyhow::Result<Description> {
    const MOST: u64 = 1 << 30;
    if description.config.memory.nvmm_boundary.0 <= MOST {
        return Ok(description);
    }
    Ok(description.with(&["memory.nvmm_boundary=\"1 GiB\"".into()])?)
}

/// A program on a machine with a memory: itself, with NVMM as fast as DRAM, and by each kind of epochs.
struct Subject<'a> {
    machine: &'a str,
    memory: &'a Memory,
    program: &'a str,
    /// Whether harts that wait for one another may come to another result.
    races: bool,
}

/// Runs a subject in all ways. `run` takes the settings of the machine.
fn rows(
    s: &Subject<'_>,
    emulations: &mut [Emulation],
    mut run: impl FnMut(&[String]) -> anyhow::Result<Done>,
) -> anyhow::Result<Vec<Row>> {
    let detailed = run(&s.memory.itself())?;
    let mut all = Vec::new();
    let mut dram = None;
    for n in 0..emulations.len() {
        let set = [s.memory.emulated(), emulations[n].settings()].concat();
        let done = run(&set)?;
        ensure!(
            s.races || done.printed == detailed.printed,
            "{}: another result by epochs",
            s.program
        );
        let found = epochs(&done.report)?;
        let known = latencies([found.read_ps, found.write_ps, found.dram_ps], found.weight);
        emulations
            .iter_mut()
            .for_each(|e| e.known.clone_from(&known));
        if dram.is_none() {
            dram = Some(run(&as_fast(s.memory, found.dram_ps))?);
        }
        let dram = dram.as_ref().context("a run on DRAM")?;
        let e = &emulations[n];
        all.push(Row::new(
            s,
            (e.variant, e.length),
            (&detailed, dram, &done),
        )?);
    }
    Ok(all)
}

/// The settings of a machine whose NVMM costs what DRAM costs.
fn as_fast(memory: &Memory, dram_ps: u64) -> Vec<String> {
    let mut set = memory.emulated();
    set.push("epoch.variant=quartz".into());
    set.extend(latencies([dram_ps; 3], Weight::ONE));
    set
}

/// Runs the command.
pub fn command(a: &EpochArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let picture = Picture::wanted(a.plot.as_deref(), &a.look)?;
    let chosen = |name: &str| a.only.is_empty() || a.only.iter().any(|n| n == name);
    let loads: Vec<Load> = programs()
        .into_iter()
        .filter(|l| {
            if a.figures {
                l.in_figures
            } else {
                chosen(l.program.name)
            }
        })
        .collect();
    let guests = GUESTS.iter().filter(|g| chosen(g.name));
    let guests: Vec<_> = guests
        .filter(|_| !a.figures && (!a.quick || !a.only.is_empty()))
        .collect();
    for n in &a.only {
        ensure!(
            loads.iter().any(|l| l.program.name == n) || guests.iter().any(|g| g.name == n),
            "--only: there is no program `{n}`"
        );
    }
    let scale = if a.quick {
        a.length.div_ceil(10)
    } else {
        a.length
    };
    let work = Work::new()?;
    work.add("epoch.c", SOURCE)?;
    if a.figures {
        let rows = figures(a, &loads, (&work, scale), messages)?;
        if a.json {
            output::print_json(&serde_json::to_value(&rows)?)?
        } else {
            output::print(&rows::figures(&rows))?
        }
        if let Some(picture) = picture {
            picture.draw(&draw::figures(&rows), messages)?;
        }
        return Ok(SUCCESS);
    }
    let debian = if guests.is_empty() {
        None
    } else {
        Some(Debian::new(messages)?)
    };
    let mut all: Vec<Row> = Vec::new();
    let mut tell = |rows: Vec<Row>| {
        for r in &rows {
            messages.note(&r.in_words());
        }
        all.extend(rows);
    };
    for machine in &a.machines {
        for memory in &a.memories {
            let load = |set: &[String]| Description::load(&Library::installed(), machine, set);
            memory.check(&load(&[])?)?;
            let mut emulations: Vec<Emulation> = { a.methods.iter() }
                .flat_map(|variant| a.epochs.iter().map(|length| (*variant, *length)))
                .map(|(variant, length)| Emulation {
                    variant,
                    length,
                    known: Vec::new(),
                })
                .collect();
            let subject = |program, races| Subject {
                machine,
                memory,
                program,
                races,
            };
            let small = near(load(&memory.itself())?)?;
            let data = Some(small.config.memory.nvmm_base());
            // Latencies that were measured with other line fill buffers are others.
            let mut others = emulations.clone();
            for l in &loads {
                messages.signals().check()?;
                if l.program.harts > small.config.harts {
                    continue;
                }
                let elf = work.compile(&l.program, scale, data)?;
                let plan = plan(&small.config.memory, &elf)?;
                let emulations = if l.settings.is_empty() {
                    &mut emulations
                } else {
                    &mut others
                };
                let one = |set: &[String]| {
                    let own = l.settings.iter().map(|s| s.to_string());
                    let set: Vec<String> = set.iter().cloned().chain(own).collect();
                    run(&near(load(&set)?)?, &plan, messages)
                };
                let name = l.program.name;
                let found = rows(&subject(name, l.program.harts > 1), emulations, one);
                tell(found.with_context(|| format!("{name} on {machine} with {memory}"))?);
            }
            if let Some(debian) = &debian {
                for found in debian.rows(&subject, &guests, scale, &mut emulations)? {
                    tell(found);
                }
            }
        }
    }
    if a.json {
        output::print_json(&serde_json::to_value(&all)?)?
    } else {
        output::print(&rows::shown(&all))?
    }
    if let Some(picture) = picture {
        picture.draw(&draw::errors(&all), messages)?;
    }
    Ok(SUCCESS)
}

/// Run times while a write-back takes 1 to 5 times as long as a miss on DRAM, and a read what it takes there.
fn figures(
    a: &EpochArgs,
    loads: &[Load],
    (work, scale): (&Work, u32),
    messages: &Messages,
) -> anyhow::Result<Vec<rows::Figure>> {
    let machine = a.machines.first().context("--machines: one is needed")?;
    let mut all = Vec::new();
    for l in loads {
        let mut dram = None;
        for n in 1..=5 {
            messages.signals().check()?;
            let memory = Memory::parse(&format!("w-{n}")).map_err(anyhow::Error::msg)?;
            let load = |set: &[String]| -> anyhow::Result<Description> {
                near(Description::load(&Library::installed(), machine, set)?)
            };
            let description = load(&memory.itself())?;
            memory.check(&description)?;
            let data = Some(description.config.memory.nvmm_base());
            let elf = work.compile(&l.program, scale, data)?;
            let plan = plan(&description.config.memory, &elf)?;
            let detailed = run(&description, &plan, messages)?;
            let mut set = memory.emulated();
            set.push("epoch.variant=koshiba".into());
            if let Some(dram) = dram {
                set.extend(latencies([dram, dram * n, dram], Weight::ONE));
            }
            let mut emulated = run(&load(&set)?, &plan, messages)?;
            if dram.is_none() {
                let found = epochs(&emulated.report)?.dram_ps;
                dram = Some(found);
                emulated = run(&load(&as_fast(&memory, found))?, &plan, messages)?;
            }
            all.push(rows::Figure::new(
                (l.program.name, n),
                &detailed.report,
                &emulated.report,
            ));
        }
    }
    Ok(all)
}
