//! `nagori bench iomap`: I/O at other addresses than a driver expects, by a monitor that emulates and by a table in
//! hardware.

mod latency;
mod loops;
mod plot;
mod rows;
mod run;
mod text;
mod ways;

use super::parallel::{each, progress};
use anyhow::Context;
use clap::Args;
use nagori_terminal::args::MachineArgs;
use nagori_terminal::numbers::{count, in_units};
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::plot::{LookArgs, Picture};
use rows::{Direction, Row};
use run::{Guest, Ready, Spent, Transfer};
use serde_json::json;
use std::path::PathBuf;
use ways::{Kind, Monitors, Replacement, Way};

const EXAMPLES: &str = "\
Examples:
  nagori bench iomap
  nagori bench iomap --ways none,monitor,constant --buffer-kib 1,16 --plot iomap.svg
  nagori bench iomap --ways monitor,small --entries 16,32 --replacement lru --json > iomap.json
  nagori bench iomap --loops
  nagori bench iomap --latency 100000

Two machines on a wire, in one process and in machine time: Debian's nuttcp transfers data over TCP
between the machine that is measured and a faster one. The Ethernet MAC of the first is at another
address than its kernel's driver expects. docs/virtualization.md has the method, and what the
numbers say; the published finding is that of Ukezono and Araki (2013): the table beats the monitor
by 6 to 14 %.

Each cell runs on copies of the machines of its own, so neither the other cells nor --jobs change it.

Time:
  The default, 138 cells, about 9 minutes on two cores.";

/// Measure I/O through a monitor that emulates beside a table in hardware.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct IomapArgs {
    /// The machine that is measured, by name or as a path: one hart and the OpenCores Ethernet MAC.
    #[arg(long, value_name = "NAME|PATH", default_value = "soc")]
    pub machine: String,
    /// Change a value of its description: KEY=VALUE. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// More arguments of its kernel, such as those that come nearer to an older kernel.
    #[arg(long, value_name = "ARGUMENTS", default_value = "")]
    pub append: String,
    /// A shell command that it runs once, before the first transfer, such as `ethtool -G eth0 rx 4 tx 4`.
    #[arg(long, value_name = "COMMAND")]
    pub prepare: Option<String>,
    /// Ways to reach the device, separated by commas [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub ways: Vec<Kind>,
    /// Entries of small tables: powers of two from 4 to 64.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [4, 8, 16, 32, 64],
          value_parser = entries)]
    pub entries: Vec<u32>,
    /// Replacement in small tables [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub replacement: Vec<Replacement>,
    /// Directions [default: up and down].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub direction: Vec<Direction>,
    /// Bytes that the program reads or writes at once, in KiB: 1 to 64.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 8, 64],
          value_parser = count::<u32>(1..=64))]
    pub buffer_kib: Vec<u32>,
    /// Transfers of a cell.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count::<u32>(1..=1000))]
    pub transfers: u32,
    /// KiB of a transfer.
    #[arg(long, value_name = "KIB", default_value_t = 256, value_parser = in_units::<u32>("KiB", 64..=1_048_576))]
    pub kib: u32,
    /// Cells that run at the same time on this host [default: its processors].
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..=256))]
    pub jobs: Option<u32>,
    /// Use other devices in a loop instead (UART, GPIO, SPI flash), at several rates.
    #[arg(long, conflicts_with_all = TRANSFERS, conflicts_with = "append")]
    pub loops: bool,
    /// Measure instead how late so many interrupts of a second VM are while Linux transfers data [default: 1000000].
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000000", conflicts_with_all = TRANSFERS,
          conflicts_with = "loops", value_parser = count::<u32>(1..=100_000_000))]
    pub latency: Option<u32>,
    /// A list of {direction, buffer_kib, way, entries, replacement, mbps, ratio_to_monitor, ...}.
    #[arg(long)]
    pub json: bool,
    /// Draw throughput by buffer into a file; the name ends in .svg, .png, .pdf or .vl.json (Vega-Lite).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub look: LookArgs,
}

/// Options of transfers alone.
const TRANSFERS: [&str; 9] = [
    "prepare",
    "ways",
    "entries",
    "replacement",
    "direction",
    "buffer_kib",
    "transfers",
    "kib",
    "plot",
];

fn entries(text: &str) -> Result<u32, String> {
    let n = count::<u32>(4..=64)(text).ok();
    n.filter(|n| n.is_power_of_two())
        .ok_or_else(|| format!("`{text}` is no size of a small table: expected 4, 8, 16, 32 or 64"))
}

/// What was asked for, or everything.
fn or_all<T: clap::ValueEnum + Copy>(list: &[T]) -> Vec<T> {
    match list {
        [] => T::value_variants().to_vec(),
        list => list.to_vec(),
    }
}

/// Runs the command.
pub fn command(a: &IomapArgs, messages: &Messages) -> anyhow::Result<Exit> {
    // Possible errors are found before the minutes of measurement.
    let picture = Picture::wanted(a.plot.as_deref(), &a.look)?;
    let choice = MachineArgs {
        machine: a.machine.clone(),
        set: a.set.clone(),
        disk_latency: None,
    };
    let name = choice.resolve(&[])?.config.name;
    if a.loops {
        let rows = loops::measure(&a.machine, &a.set, a.jobs, messages)?;
        return show(a, &rows, loops::text(&name, &rows));
    }
    if let Some(n) = a.latency {
        let machine = (&*a.machine, &*a.set, &*a.append);
        let rows = latency::measure(machine, n, a.jobs, messages)?;
        return show(a, &rows, latency::text(&name, &rows));
    }
    let mut rows = measure(a, messages)?;
    rows::compare(&mut rows);
    show(a, &rows, text::text(&name, &rows))?;
    if let Some(picture) = picture {
        picture.draw(&plot::chart(&name, &rows)?, messages)?;
    }
    Ok(SUCCESS)
}

/// Prints rows for machines, or the text.
fn show<R: serde::Serialize>(a: &IomapArgs, rows: &[R], text: String) -> anyhow::Result<Exit> {
    if a.json {
        output::print_json(&json!(rows))?
    } else {
        output::print(&text)?
    }
    Ok(SUCCESS)
}

fn measure(a: &IomapArgs, messages: &Messages) -> anyhow::Result<Vec<Row>> {
    let ways = Way::all(&or_all(&a.ways), &a.entries, &or_all(&a.replacement));
    let directions = or_all(&a.direction);
    let cells: Vec<(Direction, u32)> = { directions.iter() }
        .flat_map(|&d| a.buffer_kib.iter().map(move |&b| (d, b)))
        .collect();
    let monitors = Monitors::build()?;
    let guest = Guest::build(messages)?;
    let peer = run::peer(&guest, messages)?;
    let bytes = u64::from(a.kib) << 10;
    let bar = progress(ways.len() * (cells.len() + 1), "boots and cells", messages);
    let ready = each(&ways, a.jobs, messages, &bar, |way| {
        let machine = (&*a.machine, &*a.set, &*a.append, a.prepare.as_deref());
        Ready::boot(way, machine, (&guest, &monitors), &peer, messages.signals())
            .and_then(|r| r.warmed(bytes, messages.signals()))
            .with_context(|| format!("way {}", way.name()))
    })?;
    let points: Vec<_> = { ways.iter().zip(&ready) }
        .flat_map(|(way, ready)| cells.iter().map(move |&cell| (way, ready, cell)))
        .collect();
    let spent = Spent::default();
    let rows = each(&points, a.jobs, messages, &bar, |&(way, ready, cell)| {
        let t = Transfer {
            up: cell.0 == Direction::Up,
            buffer_kib: cell.1,
            bytes,
        };
        let one = || {
            let (rates, counts) =
                ready.transfers(&t, a.transfers as usize, &spent, messages.signals())?;
            Ok::<_, anyhow::Error>(Row::new(way, cell, rates, &counts))
        };
        one().with_context(|| {
            format!(
                "way {}, {:?}, buffers of {} KiB",
                way.name(),
                cell.0,
                cell.1
            )
        })
    });
    bar.finish_and_clear();
    rows
}
