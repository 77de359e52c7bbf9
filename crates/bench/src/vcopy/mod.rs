//! `nagori bench vcopy`: copies of virtual I/O with temporal and with non-temporal stores.

mod cells;
mod native;
mod plot;
mod rows;
mod source;
mod text;

use super::parallel::{each, progress};
use anyhow::bail;
use cells::{Axes, Cell, Consumer, Loops, Place, Reader, Ring, Size, Stores};
use clap::Args;
use nagori_config::Machine as Description;
use nagori_session::{guest, Capture, End, Job};
use nagori_terminal::args::MachineArgs;
use nagori_terminal::numbers::count;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::plot::{LookArgs, Picture};
use rows::Row;
use serde_json::json;
use source::Work;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  nagori bench vcopy
  nagori bench vcopy --bytes 64,1024 --batch 32 --memory dram --plot vcopy.svg
  nagori bench vcopy --memory-model xpoint,pcm --json > vcopy.json
  nagori bench vcopy --native

A producer (a vhost-user switch) copies packets from its pool into the buffers of a virtqueue; a
consumer (the driver of a guest) on another hart takes them. The question is whether non-temporal
stores, which keep the copy out of the caches, pay. The published figures are those of Takeya et al.
(2021), on an Intel Core i7-6900K; the machine `server` has its caches. docs/vcopy.md has the
method, and what the numbers say.

Counts are of both sides together. Each cell runs on a machine of its own, from reset, so neither
the other cells nor --jobs change it.

Time:
  The default, 352 cells, about 6 minutes on two cores; a cell 1 to 5 s of processor time.";

/// Measure copies of virtual I/O, with temporal and with non-temporal stores.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct VcopyArgs {
    /// The machine, by name or as a path: at least two harts.
    #[arg(long, value_name = "NAME|PATH", default_value = "server")]
    pub machine: String,
    /// Change a value of the machine's description: KEY=VALUE. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Bytes of a packet, 8 to 2040, or imix; separated by commas [default: all sizes of the table].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = cells::size)]
    pub bytes: Vec<Size>,
    /// Layouts of the virtqueue.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub ring: Vec<Ring>,
    /// Stores of the copy.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub copy: Vec<Stores>,
    /// Stores of the queue's entries.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub queue: Vec<Stores>,
    /// Copy and entry of the queue in one loop over the batch, or in two.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub loops: Vec<Loops>,
    /// What the consumer reads.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub reader: Vec<Reader>,
    /// When the consumer works.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub consumer: Vec<Consumer>,
    /// Packets that are handed over together: 1 to 256.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count::<u16>(1..=256))]
    pub batch: Vec<u16>,
    /// Where the buffers are.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub memory: Vec<Place>,
    /// What NVMM is made of: memory models (as for `nagori mem show`), separated by commas [default: the machine's
    /// own].
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "native"
    )]
    pub memory_model: Vec<String>,
    /// Counted packets of a repetition [default: 2048; with --native 1000000].
    #[arg(long, value_name = "N", value_parser = count::<u32>(256..=1_000_000_000))]
    pub packets: Option<u32>,
    /// Repetitions of a cell, of which the one with the median throughput is reported; 1 to 9.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = count::<u32>(1..=9))]
    pub repeat: u32,
    /// Cells that run at the same time on this host [default: its processors].
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..=256))]
    pub jobs: Option<u32>,
    /// Run the same source on this host, with its own non-temporal stores, and its counters if there are any.
    #[arg(long)]
    pub native: bool,
    /// The host's processors of producer and consumer [default: 0,1].
    #[arg(
        long,
        value_name = "P,C",
        value_delimiter = ',',
        num_args = 1,
        requires = "native",
        value_parser = count::<u32>(..)
    )]
    pub processors: Vec<u32>,
    /// A list of {packet_bytes, ring, copy, loops, reader, batch, memory, packets, l1_misses, ..., throughput_mpps}.
    #[arg(long)]
    pub json: bool,
    /// Draw misses and throughput by size into a file; the name ends in .svg, .png, .pdf or .vl.json (Vega-Lite).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub look: LookArgs,
}

impl VcopyArgs {
    fn axes(&self) -> Axes {
        Axes {
            bytes: self.bytes.clone(),
            rings: self.ring.clone(),
            copies: self.copy.clone(),
            queues: self.queue.clone(),
            loops: self.loops.clone(),
            readers: self.reader.clone(),
            consumers: self.consumer.clone(),
            batches: self.batch.clone(),
            memories: self.memory.clone(),
        }
    }
}

/// Runs the command.
pub fn command(a: &VcopyArgs, messages: &Messages) -> anyhow::Result<Exit> {
    // Possible errors are found before the minutes of measurement.
    let picture = Picture::wanted(a.plot.as_deref(), &a.look)?;
    let cells = cells::cells(&a.axes());
    let (rows, machine) = if a.native {
        native::measure(a, &cells, messages)?
    } else {
        emulated(a, &cells, messages)?
    };
    if a.json {
        output::print_json(&json!(rows))?
    } else {
        output::print(&text::text(&machine, &rows))?
    }
    if let Some(picture) = picture {
        picture.draw(&plot::chart(&machine, &rows)?, messages)?;
    }
    Ok(SUCCESS)
}

/// A cell on a machine.
struct Point<'a> {
    cell: Cell,
    description: &'a Description,
    model: Option<&'a String>,
}

fn resolve(a: &VcopyArgs, model: Option<&String>) -> anyhow::Result<Description> {
    let machine = MachineArgs {
        machine: a.machine.clone(),
        set: a.set.clone(),
        disk_latency: None,
    };
    let region = model.map(|m| format!("memory.regions.nvmm.model={m}"));
    let description = machine.resolve(region.as_slice())?;
    if description.config.harts < 2 {
        bail!(
            "producer and consumer need two harts, but {} has one: give --set harts=2",
            description.config.name
        );
    }
    Ok(description)
}

fn emulated(
    a: &VcopyArgs,
    cells: &[Cell],
    messages: &Messages,
) -> anyhow::Result<(Vec<Row>, String)> {
    let own = resolve(a, None)?;
    let models: Result<Vec<_>, _> = { a.memory_model.iter() }
        .map(|m| Ok::<_, anyhow::Error>((m, resolve(a, Some(m))?)))
        .collect();
    let models = models?;
    let mut points = Vec::new();
    for &cell in cells {
        let mut point = |description, model| {
            points.push(Point {
                cell,
                description,
                model,
            })
        };
        match cell.memory {
            Place::Nvmm if !models.is_empty() => {
                models.iter().for_each(|(m, d)| point(d, Some(*m)));
            }
            _ => point(&own, None),
        }
    }
    let packets = a.packets.unwrap_or(2048);
    let work = Work::new()?;
    let elf = work.compile(cells, (packets, a.repeat), &own)?;
    let bar = progress(points.len(), "cells", messages);
    let results = each(&points, a.jobs, messages, &bar, |p| {
        let mut plan = source::plan(&p.description.config.memory, &elf)?;
        plan.entry.a1 = p.cell.code();
        let job = Job {
            timed: true,
            ..Job::unattended(plan)
        };
        let mut console = Capture::new(|_| ());
        let (end, _) = guest::measure(p.description, &job, &mut console, messages.signals())?;
        let lines = console.lines();
        if end != End::Off(0) {
            let last = lines.last().map_or("nothing", |l| l.as_str());
            bail!(
                "the guest failed: {}; what it printed last: {last}",
                end.describe()
            );
        }
        let all = rows::parse(&lines, 1, a.repeat as usize, &source::names())?;
        let rate = p.description.config.clock_hz.nearest_hz() as f64;
        let mut row = Row::new(p.cell, packets, &all[0], rate);
        row.memory_model = p.model.cloned();
        Ok(row)
    });
    bar.finish_and_clear();
    Ok((results?, own.config.name.clone()))
}
