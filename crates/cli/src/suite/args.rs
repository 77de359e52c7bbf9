//! Arguments of `nagori suite`.

use clap::{Args, Subcommand, ValueEnum};
use nagori_memtime::Method;
use nagori_suite::{Malloc, Size, Timing};
use nagori_terminal::args::{CacheArgs, MachineArgs};
use nagori_terminal::numbers::{count, seed};
use nagori_terminal::plot::LookArgs;
use std::path::PathBuf;

/// Run the application study: real programs of Debian under every delay method and memory.
#[derive(Debug, Subcommand)]
pub enum SuiteCommand {
    List(ListArgs),
    Run(RunArgs),
    Report(ReportArgs),
}

/// Where programs are described.
#[derive(Debug, Clone, Args)]
pub struct LibraryArgs {
    /// A directory whose programs are added to the built-in ones [default: that of NAGORI_SUITE].
    #[arg(long, value_name = "DIR")]
    pub suite: Option<PathBuf>,
}

/// Where results are.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    /// The directory of the results, one file each.
    #[arg(long, value_name = "DIR", default_value = "suite-results")]
    pub store: PathBuf,
}

/// List the programs of the study.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub library: LibraryArgs,
    /// A JSON array instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// A part of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Subset {
    /// All but variants.
    All,
    /// Eight of different kinds, for minutes.
    Quick,
    /// Variants with four threads.
    Threads,
}

const RUN_EXAMPLES: &str = "\
Examples:
  nagori suite run
      All programs on vc707 under dram, coarse, fine, extended and with pcm, the heap on NVMM; what is done
      already is not run again
  nagori suite run --subset quick --size small
  nagori suite run xz sqlite --methods dram,extended --malloc jemalloc
  nagori suite run --machine server --memory-model ddr4,pcm,xpoint
  nagori suite run --size long --timing sampled
      Ten times the work, estimated from windows
  nagori suite run --failed
      What has failed, once more

Results are kept in --store, one file each, under a hash of everything on which they depend: machine, memory,
placement, allocator, image, the program with its inputs, and the emulator's model. A run that is ended, also
by kill -9, loses the runs in progress and nothing else. A program that fails has a result that says why; it
is run again with --failed only.

Exit codes:
  0    all results are there
  1    an error, or at least one program has failed
  2    wrong arguments
  130  ended by Ctrl-C; the results so far are kept

Time:
  A core takes some ten seconds for each run of the size `default`: half an hour to an hour for all programs
  under four methods and a memory, ten minutes for --subset quick. The first run builds the image (a gigabyte).";

/// Run programs under methods and memories, and keep their results.
#[derive(Debug, Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// The programs [default: those of --subset].
    #[arg(value_name = "PROGRAM")]
    pub programs: Vec<String>,
    /// Which programs, if none is named.
    #[arg(
        long,
        value_name = "SUBSET",
        default_value = "all",
        conflicts_with = "programs"
    )]
    pub subset: Subset,
    /// How much work: small, default or long.
    #[arg(long, value_name = "SIZE", default_value = "default")]
    pub size: Size,
    /// Delay methods of NVMM [default: dram, coarse, fine, extended, and the memory pcm; none, if there is
    /// --memory-model].
    #[arg(long, value_name = "METHODS", value_delimiter = ',', value_parser = method)]
    pub methods: Vec<Method>,
    /// Memories to use for NVMM.
    #[arg(long = "memory-model", value_name = "MEMORIES", value_delimiter = ',')]
    pub memory_models: Vec<String>,
    /// Where the programs' memory is: dram, nvmm, heap, or size>N (docs/run.md).
    #[arg(long, value_name = "WHERE", default_value = "heap")]
    pub placement: String,
    /// Whose allocator puts the heap on NVMM: nagori, or Debian's jemalloc.
    #[arg(long, value_name = "MALLOC", default_value = "nagori")]
    pub malloc: Malloc,
    /// What is timed: the region of interest, the same estimated from windows (sampled, docs/sampling.md), the whole
    /// script, or nothing (functional).
    #[arg(long, value_name = "WHAT", default_value = "region")]
    pub timing: Timing,
    /// Run with each of these seeds (docs/run.md) [default: nothing is random].
    #[arg(long, value_name = "SEEDS", value_delimiter = ',', value_parser = seed)]
    pub seeds: Vec<u64>,
    /// Run again what has failed, and nothing else.
    #[arg(long)]
    pub failed: bool,
    /// How many machines run at a time [default: one for each core of the host].
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..))]
    pub jobs: Option<u32>,
    /// Say what there is to do, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub library: LibraryArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
}

fn method(text: &str) -> Result<Method, String> {
    let found = Method::ALL.into_iter().find(|m| m.to_string() == text);
    found.ok_or_else(|| {
        format!("there is no method `{text}`: expected dram, coarse, fine or extended")
    })
}

const REPORT_EXAMPLES: &str = "\
Examples:
  nagori suite report
      What the results in suite-results say, as Markdown
  nagori suite report --results suite/results/study.jsonl.zst --document docs/suite.md
      The tables of a page, written anew from packed results
  nagori suite report --save results.jsonl.zst
      Packs the results into one file, too";

/// Say what results mean: run times, why, ranks, regressions, beside what the board's authors published.
#[derive(Debug, Args)]
#[command(after_long_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Packed results to read instead of those in --store.
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    pub results: Option<PathBuf>,
    /// The page whose parts between `<!-- suite:NAME -->` and `<!-- suite:end -->` are written anew.
    #[arg(long, value_name = "FILE")]
    pub document: Option<PathBuf>,
    /// Pack all results that were read into a file.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Machine whose results are shown.
    #[arg(short, long, value_name = "NAME", default_value = nagori_config::DEFAULT_MACHINE)]
    pub machine: String,
    /// Changes of its description with which the results were made.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Size of the programs.
    #[arg(long, value_name = "SIZE", default_value = "default")]
    pub size: Size,
    /// Placement with which the results were made.
    #[arg(long, value_name = "WHERE", default_value = "heap")]
    pub placement: String,
    /// Allocator with which they were made.
    #[arg(long, value_name = "MALLOC", default_value = "nagori")]
    pub malloc: Malloc,
    /// What was timed.
    #[arg(long, value_name = "WHAT", default_value = "region")]
    pub timing: Timing,
    #[command(flatten)]
    pub library: LibraryArgs,
    /// All records as a JSON array instead of Markdown.
    #[arg(long, conflicts_with = "document")]
    pub json: bool,
    /// Draw the run times into a file; the name ends in .svg, .png, .pdf or .vl.json (Vega-Lite).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub look: LookArgs,
}
