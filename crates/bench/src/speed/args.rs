//! Arguments of `nagori bench speed`.

use super::engine::Engine;
use clap::{Args, ValueEnum};
use nagori_memtime::Method;
use nagori_terminal::args::{method, CacheArgs, MachineArgs};
use nagori_terminal::numbers::count;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  nagori bench speed
  nagori bench speed --qemu --only integer,matrix
  nagori bench speed --qemu --report speed.json
  nagori bench speed --only linux-boot --json
  nagori bench speed --also server-caches --methods dram
      Timed rows for two machines
  nagori bench speed --set l1d.replacement=lru --set l1i.replacement=lru

Workloads: integer, mix (lists, matrices of integers, a state machine, CRC), sort, chase32k,
chase64m, random (64 MiB under Sv39 with pages of 4 KiB), stream (64 MiB), matrix (doubles),
bytecode, compress, linux-boot; and smp4, which four harts run, with smp1, the same on one.

Times are processor time of this host, of whatever it does besides the least of --repeats runs; beside it stands
the mean of all with its 95 % confidence interval (Student's t). What the guest computes, and its guest time, is
the same in every run.

Time:
  The default about 6 minutes, on one core; --quick about half a minute.";

/// Measure how fast this program emulates, on the host's clock.
///
/// Runs bare-metal programs, and boots Debian to its shell's first command, without the timing
/// model (functional) and with it (timed, by delay method; with `extended` and the other methods
/// that slow NVMM down, the programs' data is in NVMM). Prints instructions, processor time,
/// million instructions per second of it, and where it is timed, guest seconds per second of it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct SpeedArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Workloads, separated by commas [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<String>,
    /// What runs the guest.
    #[arg(long, value_name = "ENGINE", default_value = "all")]
    pub engine: EngineArg,
    /// Do the timed runs on this machine, too: a name or a path, like --machine, and with the same --set.
    /// May be given several times.
    #[arg(long, value_name = "NAME|PATH")]
    pub also: Vec<String>,
    /// Delay methods of timed runs, separated by commas [default: dram,extended].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = method)]
    pub methods: Vec<Method>,
    /// Programs of a tenth of the length, and no boot unless it is named.
    #[arg(long)]
    pub quick: bool,
    /// Length of the programs, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, conflicts_with = "quick",
          value_parser = count::<u32>(1..=10_000))]
    pub length: u32,
    /// Runs of each, of which the least processor time counts; timed boots are run once.
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = count::<u32>(1..=100))]
    pub repeats: u32,
    /// Run all of it also in qemu-system-riscv64, and print ratios and which goals are met.
    #[arg(long)]
    pub qemu: bool,
    /// A list of {workload, mode, engine, instructions, cpu_seconds, mips, ...} on stdout.
    #[arg(long)]
    pub json: bool,
    /// Write rows, ratios and goals to a file, as one JSON object.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub cache: CacheArgs,
}

impl SpeedArgs {
    /// The methods of timed runs.
    pub fn timed(&self) -> Vec<Method> {
        if self.methods.is_empty() {
            vec![Method::Dram, Method::Extended]
        } else {
            self.methods.clone()
        }
    }

    /// The machines of timed runs, starting with the one of all other runs.
    pub fn machines(&self) -> Vec<MachineArgs> {
        let also = self.also.iter().map(|name| MachineArgs {
            machine: name.clone(),
            set: self.machine.set.clone(),
            disk_latency: self.machine.disk_latency.clone(),
        });
        [self.machine.clone()].into_iter().chain(also).collect()
    }

    /// Length of the programs, in percent.
    pub fn scale(&self) -> u32 {
        if self.quick {
            10
        } else {
            self.length
        }
    }
}

/// Choice of engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// The interpreter.
    Interpreter,
    /// The translator to host code.
    Translator,
    /// Every engine of this build.
    All,
}

impl EngineArg {
    /// The chosen engines.
    pub fn engines(self) -> Vec<Engine> {
        match self {
            EngineArg::Interpreter => vec![Engine::Interpreter],
            EngineArg::Translator => vec![Engine::Translator],
            EngineArg::All => Engine::ALL.into_iter().filter(|e| e.is_built()).collect(),
        }
    }
}
