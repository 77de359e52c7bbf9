//! Arguments of `nagori bench`.

use super::{epoch, fork, io, iomap, mem, off2f, speed, start, vcopy};
use clap::{Args, Subcommand};
use nagori_memtime::Method;
use nagori_terminal::args::{method, CacheArgs, MachineArgs};
use nagori_terminal::numbers::count;
use nagori_terminal::plot::LookArgs;
use std::path::PathBuf;

const BENCH_EXAMPLES: &str = "\
Examples:
  nagori bench board
  nagori bench board --plot board.svg --json > board.json
  nagori bench board --quick --methods fine,extended --set memory.controller.machines=4
  nagori bench board --quick --repeats 5
      Five boots whose kernels get other random numbers: means with 95 % intervals

One run is repeatable to the last digit, on any host. What differs from boot to boot on a real machine
differs here by the seed of the entropy device; --repeats shows how much that is.

The published figures are those of the reference board (Omori and Kimura, Waseda University,
2021): average latency of an access of two micro-benchmarks in Linux user space. The model's
constants were fitted on the cells shown, and on no others.

Time:
  About half a minute on one core (70 s without link-time optimisation); --quick a few seconds.";

/// Run benchmarks in the guest and print their results.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    Board(BoardArgs),
    Speed(speed::args::SpeedArgs),
    Start(start::StartArgs),
    Io(io::IoArgs),
    Fork(fork::ForkArgs),
    Mem(mem::MemArgs),
    Off2f(off2f::Off2fArgs),
    Epoch(epoch::EpochArgs),
    Vcopy(vcopy::VcopyArgs),
    Iomap(iomap::IomapArgs),
}

/// Measure the latency of NVMM under every delay method, beside the published figures.
///
/// Boots Linux, reads and writes NVMM from user space with strides (locality) and in several
/// banks in turn (bank parallelism), and prints the average latency of an access in ns.
#[derive(Debug, Args)]
#[command(after_long_help = BENCH_EXAMPLES)]
pub struct BoardArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Accesses measured in each cell.
    #[arg(long, value_name = "N", default_value_t = 12288,
          value_parser = count::<u32>(1..=49152), conflicts_with = "quick")]
    pub accesses: u32,
    /// Fewer accesses: 512 in each cell.
    #[arg(long)]
    pub quick: bool,
    /// Delay methods, separated by commas [default: all four].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = method)]
    pub methods: Vec<Method>,
    /// Boots, each with the next seed of the machine's entropy, from its own (`seed`) on.
    ///
    /// Latencies are then means, with 95 % confidence intervals (Student's t).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u32>(1..=1000))]
    pub repeats: u32,
    /// A list of {op, benchmark, value, method, latency_ns} on stdout, instead of tables; with --repeats also
    /// `latency_ns_sample`.
    #[arg(long)]
    pub json: bool,
    /// Draw the results into a file; the name ends in .svg, .png, .pdf or .vl.json (Vega-Lite).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub look: LookArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
}
