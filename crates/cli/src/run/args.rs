//! Arguments of `nagori run` and `nagori compare`.

use crate::args::{DeviceArgs, EngineKind, InspectArgs, NvmmArgs, PowerArgs, TimingMethod};
use crate::sampling::SampleArgs;
use clap::Args;
use nagori_session::rtc::Rtc;
use nagori_session::Placement;
use nagori_terminal::args::{CacheArgs, MachineArgs, ModulesArgs};
use nagori_terminal::numbers::{count, seconds, seed};
use nagori_terminal::plot::LookArgs;
use std::path::PathBuf;
use std::str::FromStr;

const RUN_EXAMPLES: &str = "\
Examples:
  nagori run -- ./hello
      A riscv64 program of this host, with its input, output and exit code; then what it has cost
  nagori run --method extended --placement nvmm -- ./sort 1000000
      Its memory in NVMM, whose delays are those of `extended`
  nagori run --share .,rw -- xz -k data.txt
      Debian's xz, on files of this directory
  nagori run --region-of-interest --json stats.json -- ./solver input
      Only what lies between nagori_roi_begin() and nagori_roi_end() is timed
  nagori run --placement nvmm --profile out.pb.gz -- ./solver input && go tool pprof -top out.pb.gz
      Which functions wait for memory

Exit codes:
  that of the program; 128 + the signal's number if one ended it
  1    error, or no figures of what was asked for (--region-of-interest, --warm-up, --strict)
  2    wrong arguments
  124  a time limit was reached (--timeout, --host-timeout, --max-instructions)
  125  the machine was stuck
  126  the program could not be executed     127  there is no such program
  130  ended by the second Ctrl-C; the first one goes to the program, if it runs and there is no --gdb

Time:
  The program begins about 2 s after the command, once its boot is cached; before that, the
  first command builds the image (`nagori image build`) and boots. A second of the host then has
  30 to 1000 million timed instructions (few where most of them miss), 50 to 3800 million with
  --functional (docs/speed.md).";

/// Run a program on the machine, and show what its memory has cost.
///
/// Starts from a cached boot of Debian, so that the program begins at once. PROGRAM is a riscv64 file of this
/// host if it has a `/` (static, or linked against libraries of the root file system, or a script), otherwise
/// a program of the root file system. The timing model is on from its exec to its end; statistics cover that
/// time, and go to stderr.
#[derive(Debug, Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub struct RunProgramArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Write every line transferred over the bus while the program runs to a file that `nagori mem run --mode
    /// timestamped` plays.
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub trace_bus: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Run")]
    pub inspect: InspectArgs,
    #[command(flatten)]
    pub power: PowerArgs,
    #[command(flatten)]
    pub nvmm: NvmmArgs,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  nagori compare --placement nvmm -- ./sort 1000000
  nagori compare --methods dram,extended --plot cost.svg --share . -- sqlite3 db.sqlite '.read query.sql'

  nagori compare --repeats 10 --placement nvmm --plot cost.svg -- ./sort 1000000
      Ten runs of each method, with addresses, entropy and starting times of their own
  nagori compare --placement nvmm --methods dram,fine --vary dtlb.sectors=2,8 --plot tlb.svg -- ./sort 1000000
      Each method with each value, as lines
  nagori compare --placement nvmm --report cost.html -- ./sort 1000000
      Everything in one file, which a browser shows

The run time of the first method is 1. The program's output is that of the first run; it has to be the same
under all methods.

One run of a method is repeatable to the cycle, so it has no spread of its own. --repeats makes runs that
differ as runs on a real machine do, by seeds: the interval says how well their mean is known.

A run that did not come to its end (a time limit, a signal to this command), or that has no figures of what
was asked for (--region-of-interest, --warm-up), is marked and not compared; the exit code is then not 0.
Where no method or memory could make a difference, since nothing was read from NVMM or written to it, or since
methods are not those of its memory, this is said instead of a run time; with --strict the exit code is 1.

Columns:
  waiting         share of the busy time in which harts waited for lines
  read ns         mean time from a read's arrival at the memory to its first data
  write ns        mean time from a write's arrival to its answer, which a memory with posted writes gives
                  at once
  to medium ns    mean time from a write's arrival to the command that hands its data to the row buffer of the
                  medium; - where a memory does not count it

Time:
  That of `nagori run` for each row and repeat, on two cores two at a time: four rows take twice
  as long as a run.";

/// Run a program under several delay methods, and compare.
///
/// Runs the same program from the same starting point under each method, as many at a time as this host has
/// cores.
#[derive(Debug, Args)]
#[command(after_long_help = COMPARE_EXAMPLES)]
pub struct CompareArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Runs of each method, each with the next seed (--seed, from 1 on if it is not given).
    ///
    /// The table then has means with 95 % confidence intervals (Student's t), medians, least and greatest;
    /// run times are compared between runs with the same seed.
    #[arg(long, help_heading = "Run", value_name = "N", default_value_t = 1,
          value_parser = count::<u32>(1..=10_000))]
    pub repeats: u32,
    /// How many machines run at a time [default: one for each core of the host].
    #[arg(long, help_heading = "Run", value_name = "N", value_parser = count::<u32>(1..))]
    pub jobs: Option<u32>,
    /// Values of a key of the machine or its memory to try, as `--set` takes them; can be given again for other keys.
    ///
    /// Every method or memory runs with every combination. The run time of the very first row is 1, and --plot draws
    /// lines over the first key whose values are numbers. Each combination is a machine of its own, which boots once.
    #[arg(long, help_heading = "Run", value_name = "KEY=VALUE,VALUE...")]
    pub vary: Vec<String>,
    /// Also find out which functions wait for memory, in the first run of each row; see --report and --json.
    #[arg(long, help_heading = "Run")]
    pub profile: bool,
    /// Write a table to FILE as CSV, a line for each run.
    #[arg(long, help_heading = "Results", value_name = "FILE|-")]
    pub csv: Option<PathBuf>,
    /// Write this table to FILE as Apache Parquet.
    #[arg(long, help_heading = "Results", value_name = "FILE")]
    pub parquet: Option<PathBuf>,
    /// Write everything as one HTML file: table, plots, profile, machine (docs/report.md). Implies --profile.
    #[arg(long, help_heading = "Results", value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Draw the run times: a file that ends in .svg, .png, .pdf or .vl.json (Vega-Lite).
    #[arg(long, help_heading = "Plot", value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub look: LookArgs,
}

/// What `run` and `compare` share.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Delay methods of NVMM: dram, coarse, fine, extended; or epoch, epoch:quartz, ..., which emulate NVMM by
    /// counters (docs/epoch.md). `run` takes one [default: the machine's]; `compare` several, separated by commas,
    /// and compares the others with the first [default: all delay methods, unless there is --memory-model].
    #[arg(long = "method", visible_alias = "methods", value_name = "METHODS", value_delimiter = ',',
          value_parser = TimingMethod::parse)]
    pub methods: Vec<TimingMethod>,
    /// Memories to use for NVMM: names or files as for `nagori mem` (ddr4, pcm, xpoint). `run` takes one;
    /// `compare` several, each of which is a row, after those of --methods.
    #[arg(long = "memory-model", value_name = "MEMORIES", value_delimiter = ',')]
    pub memory_models: Vec<String>,
    /// Write the results to FILE as JSON, too, or with `-` to stdout, after the program's output (see --output).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Show all counters, by hart and bank, instead of the table of `run`, or after that of `compare`.
    #[arg(long)]
    pub full: bool,
    /// Where the program's standard output goes: a file, or nowhere [default: this command's].
    #[arg(long, value_name = "FILE|none")]
    pub output: Option<PathBuf>,
    /// What makes figures say less than was asked for (`problems` in JSON, docs/run.md) is an error: the exit
    /// code is 1 where the program's is 0.
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub devices: DeviceArgs,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
    /// Where the program's memory is: dram; nvmm (all of it: NVMM is a NUMA node, to which the
    /// program is bound); heap (its heap on NVMM, by libnagori-malloc); size>N (of the heap, requests
    /// of N bytes and more). The last two need a program with libraries.
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "dram",
        help_heading = "Program"
    )]
    pub placement: Placement,
    /// Put a file of this host into the guest: FILE:PATH, where PATH is absolute.
    #[arg(long, value_name = "FILE:PATH", help_heading = "Program")]
    pub file: Vec<FileArg>,
    /// Read standard input from a file [default: this command's standard input].
    ///
    /// The content of a file is available whenever the program reads, so that runs are the same; input from a
    /// pipe or a terminal arrives at any time. `none`: no input.
    #[arg(long, value_name = "FILE|none", help_heading = "Program")]
    pub stdin: Option<PathBuf>,
    /// An environment variable of the program.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, help_heading = "Program")]
    pub env: Vec<String>,
    /// Working directory of the program in the guest [default: the first --share, or /root].
    #[arg(long, value_name = "PATH", help_heading = "Program")]
    pub cwd: Option<String>,
    /// Root file system: a name or file as `nagori boot --rootfs` takes it, or `none` for the smallest, with
    /// busybox [default: `run` if the program needs libraries, an interpreter, or is of the image; else none].
    #[arg(long, value_name = "NAME|FILE|none", help_heading = "Software")]
    pub rootfs: Option<String>,
    #[command(flatten)]
    pub modules: ModulesArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// Boot, and do not cache the boot.
    #[arg(long, help_heading = "Software")]
    pub no_boot_cache: bool,
    /// The timing model is on only between markers (see docs/markers.md); statistics cover only that time.
    ///
    /// If no region begins, there is nothing to report: that is an error, and the exit code is 1 where the
    /// program's is 0. A region that never ends is counted up to the end, with a warning.
    #[arg(long, help_heading = "Run", conflicts_with_all = ["functional", "no_markers"])]
    pub region_of_interest: bool,
    /// Without the timing model: fast, and counts only instructions.
    #[arg(long, help_heading = "Run")]
    pub functional: bool,
    /// Seed of everything random in the run [default: nothing is random].
    ///
    /// Without it programs begin at the same machine time, at the same addresses, and get the same random
    /// numbers. With it the guest's kernel is given other entropy, addresses are randomised (ASLR), and the
    /// program begins up to 4 ms later, a tick of the kernel. A seed always gives the same run, to the cycle.
    #[arg(long, value_name = "N", help_heading = "Run", value_parser = seed)]
    pub seed: Option<u64>,
    /// Instructions that warm caches, TLBs and predictors before statistics start; with --timing sampled before
    /// each window [default there: as many as are needed].
    ///
    /// If what is timed ends before them, there are no statistics: that is an error, and the exit code is 1
    /// where the program's is 0.
    #[arg(long, value_name = "N", help_heading = "Run", conflicts_with = "functional",
          value_parser = count::<u64>(1..))]
    pub warm_up: Option<u64>,
    #[command(flatten)]
    pub sampling: SampleArgs,
    /// Time of the guest's clock when the program starts: a date (in UTC), such as 2026-10-01 or
    /// 2026-10-01T12:30:00, or `host`: this host's time, with which runs differ [default: the machine's
    /// rtc_epoch, else the day after the guest image's package index was signed].
    #[arg(long, value_name = "DATE|host", help_heading = "Machine")]
    pub rtc: Option<Rtc>,
    /// End the program after this many seconds of guest time.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Run")]
    pub timeout: Option<f64>,
    /// End the program after this many seconds of this host's time; then statistics differ from run to run.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Run")]
    pub host_timeout: Option<f64>,
    /// End the program after this many instructions of all harts together.
    #[arg(long, value_name = "N", value_parser = count::<u64>(1..), help_heading = "Run")]
    pub max_instructions: Option<u64>,
    /// Make markers of the program no-ops.
    #[arg(long, help_heading = "Run")]
    pub no_markers: bool,
    /// Engine that runs the guest's code; results are the same [default: the translator, if the host has
    /// one].
    #[arg(long, value_name = "ENGINE", help_heading = "Run")]
    pub engine: Option<EngineKind>,
}

/// A file for the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileArg {
    /// On the host.
    pub file: PathBuf,
    /// In the guest.
    pub path: String,
}

impl FromStr for FileArg {
    type Err = String;

    fn from_str(text: &str) -> Result<FileArg, String> {
        match text.rsplit_once(':') {
            Some((file, path)) if !file.is_empty() && path.starts_with('/') => Ok(FileArg {
                file: file.into(),
                path: path.into(),
            }),
            _ => Err("expected FILE:/PATH".into()),
        }
    }
}

fn variable(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.into()),
        _ => Err("expected NAME=VALUE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_refused() {
        let f = "in.txt:/root/in".parse::<FileArg>().unwrap();
        assert_eq!((f.file, f.path.as_str()), ("in.txt".into(), "/root/in"));
        assert!("in.txt".parse::<FileArg>().is_err() && "in:x".parse::<FileArg>().is_err());
        assert!(seconds("0").is_err() && seconds("x").is_err() && seconds("0.5").is_ok());
        assert!(variable("=x").is_err() && variable("x=").is_ok());
    }
}
