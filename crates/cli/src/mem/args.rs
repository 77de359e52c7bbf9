//! Arguments of `nagori mem`.

use clap::{Args, Subcommand, ValueEnum};
use nagori_memtime::Ps;
use nagori_memtrace::{Format, Unaligned};
use nagori_terminal::numbers::{count, in_units, real, seed, size};
use nagori_terminal::plot::LookArgs;
use std::path::PathBuf;

/// Memory models on their own: play traces, make traces, compare, draw.
///
/// A memory is a preset or a description of your own; a trace is a file in one of the usual
/// formats, or a pattern made on the fly. Nothing else of the machine takes part.
#[derive(Debug, Subcommand)]
pub enum MemCommand {
    Run(Box<RunArgs>),
    Show(ShowArgs),
    Gen(GenArgs),
    Convert(Box<ConvertArgs>),
    Record(Box<RecordArgs>),
    Sweep(Box<SweepArgs>),
    Plot(PlotArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  nagori mem run --memory ddr3 --trace app.trace.zst
  nagori mem run --memory ddr4 --trace gen:random,count=1000000,writes=0.3 --json
  nagori mem run --memory board --set board.method=extended --trace walk.gz --mode dependent
  nagori mem run --memory ddr3 --trace app.trc --mode timestamped --cycle '1.25 ns' \\
      --commands commands.txt --html result.html

Formats, told from the first bytes unless --format is given:
  ramulator         LD addr / ST addr
  ramulator-vector  R v,v,... / W v,v,... (channel, rank, bank group if any, bank, row, column)
  dramsim3          addr READ|WRITE cycle
  nvmain            cycle R|W addr [data [old data] [thread]]
  gem5, gem5-text   packet traces, as gem5 writes them and as its decoder prints them
  bus               what a machine's bus has carried (nagori run --trace bus)
  nagori            our binary format
All may be compressed with gzip or zstd. See docs/memory.md for details.

Time:
  A second of one core plays 2.3 to 3.3 million saturated requests, 0.6 to 1.1 million with the
  policies `ramulator2` and `dramsim3` (docs/testing.md).";

/// Play a trace into a memory and report what it took.
#[derive(Debug, Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub struct RunArgs {
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// The trace: a file, `-` for standard input, or gen:PATTERN[,key=value...] as in `nagori mem gen`.
    #[arg(long, value_name = "FILE|gen:...")]
    pub trace: String,
    #[command(flatten)]
    pub play: PlayArgs,
    /// Threads that compute the memory's channels, each of them some; those beyond the number of channels have nothing
    /// to do.
    ///
    /// The result is the same, bit for bit. Not for --mode dependent, --outstanding, and memories that are not
    /// channels of one controller (board, xpoint, caches, links, wear).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u32>(1..=1024))]
    pub threads: u32,
    /// One JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Write the result to a file, in the same form, instead of stdout.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Write every device command to a file.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub commands: Option<PathBuf>,
    /// Form of the commands.
    #[arg(
        long,
        value_name = "FORM",
        default_value = "nagori",
        requires = "commands",
        help_heading = "Output"
    )]
    pub commands_format: CommandsFormat,
    /// Draw the result: a self-contained HTML page.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
}

/// Form of a log of device commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CommandsFormat {
    /// clock, command, channel, rank, bank group, bank, row, column.
    Nagori,
    /// As DRAMsim3 writes it when built with CMD_TRACE.
    Dramsim3,
}

/// Which memory.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Memory")]
pub struct MemoryArgs {
    /// Memory: the name of a preset, or a path.
    #[arg(short, long, value_name = "NAME|PATH")]
    pub memory: String,
    /// Change a value of the description for this run; see `nagori mem show` for the keys.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// How requests are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// As fast as the memory accepts them.
    Saturated,
    /// Each one after the completion of the one before.
    Dependent,
    /// One every --interval.
    Paced,
    /// When the trace says.
    Timestamped,
}

/// How to play a trace.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Trace")]
pub struct PlayArgs {
    /// Format of the trace [default: recognised by its first bytes].
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// How requests are submitted [default: saturated].
    #[arg(long, value_name = "MODE")]
    pub mode: Option<ModeName>,
    /// saturated: requests submitted in a clock of the memory, at most.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u32>(..))]
    pub per_clock: u32,
    /// dependent: time from a completion to the next request.
    #[arg(long, value_name = "TIME", default_value = "0 ns")]
    pub think: Ps,
    /// paced: time from one request to the next ("10 ns").
    #[arg(long, value_name = "TIME")]
    pub interval: Option<Ps>,
    /// timestamped: length of a cycle of the trace [default: a clock of the memory].
    #[arg(long, value_name = "TIME")]
    pub cycle: Option<Ps>,
    /// Greatest number of outstanding requests.
    #[arg(long, value_name = "N", value_parser = count::<u32>(..))]
    pub outstanding: Option<u32>,
    /// Greatest number of accesses of the trace to play.
    #[arg(long, value_name = "N", value_parser = count::<u64>(..))]
    pub limit: Option<u64>,
    /// Subtract this from all addresses.
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = size)]
    pub base: u64,
    /// Take addresses modulo the capacity; otherwise those beyond it are errors.
    #[arg(long)]
    pub wrap: bool,
    /// Accesses that begin inside a line of 64 bytes and reach beyond its end: split (a request for each line),
    /// truncate (drop the low bits of the address, as Ramulator, DRAMsim3 and NVMain do), refuse.
    #[arg(long, value_name = "RULE", default_value_t)]
    pub unaligned: Unaligned,
    /// Leave out packets of gem5 that are neither reads nor writes; they are counted.
    #[arg(long)]
    pub skip_other: bool,
    /// Of a bus trace (`nagori run --trace-bus`), play only the transfers of this region; `board`: those to
    /// the board's controller.
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
}

impl PlayArgs {
    /// How requests are submitted.
    pub fn mode(&self) -> ModeName {
        self.mode.unwrap_or(ModeName::Saturated)
    }
}

const SHOW_EXAMPLES: &str = "\
Examples:
  nagori mem show ddr3
  nagori mem show ddr3 --set controller.page=closed --json";

/// Show a memory, every value resolved, with unit, source and origin.
#[derive(Debug, Args)]
#[command(after_long_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// Memory: the name of a preset, or a path.
    #[arg(value_name = "NAME|PATH", required_unless_present = "memory")]
    pub name: Option<String>,
    /// Memory as an option, as other commands have it: the name of a preset, or a path.
    #[arg(short, long, value_name = "NAME|PATH", conflicts_with = "name")]
    pub memory: Option<String>,
    /// Change a value of the description; the keys are those shown.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// One JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

const GEN_EXAMPLES: &str = "\
Examples:
  nagori mem gen random --count 1000000 --writes 0.3 -o mixed.trc.zst
  nagori mem gen pointer-chase --span '64 MiB' --count 1000000 --format ramulator -o chase.txt
  nagori mem gen zipf --exponent 0.99 --count 100000 --format dramsim3 --gap 10 -o zipf.trc.gz

Equal arguments give equal traces. Compression follows the name: .zst, .gz.";

/// Make a trace of a known pattern.
#[derive(Debug, Args)]
#[command(after_long_help = GEN_EXAMPLES)]
pub struct GenArgs {
    /// Order of the addresses.
    #[arg(value_name = "PATTERN")]
    pub pattern: PatternName,
    /// Number of accesses.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = count::<u64>(..))]
    pub count: u64,
    /// First address.
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = size)]
    pub base: u64,
    /// Bytes from the base on that are accessed.
    #[arg(long, value_name = "BYTES", default_value = "256 MiB", value_parser = size)]
    pub span: u64,
    /// strided: bytes from one access to the next.
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = size)]
    pub stride: u64,
    /// zipf: exponent of the law.
    #[arg(long, value_name = "S", default_value_t = 0.99, value_parser = real(..))]
    pub exponent: f64,
    /// Share of writes, 0 to 1 [default: 0; mixed: 0.3].
    #[arg(long, value_name = "SHARE", value_parser = real(0.0..=1.0))]
    pub writes: Option<f64>,
    /// Length of an access: 1 to 64, a power of two.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = in_units::<u32>("B", ..))]
    pub bytes: u32,
    /// Time from one access to the next, in cycles, in formats with times.
    #[arg(long, value_name = "CYCLES", default_value_t = 0, value_parser = count::<u64>(..))]
    pub gap: u64,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// Format to write.
    #[arg(long, value_name = "FORMAT", default_value = "nagori")]
    pub format: Format,
    /// File to write; .zst and .gz are compressed.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Patterns of `nagori mem gen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PatternName {
    /// One line after the other.
    Sequential,
    /// Anywhere in the span.
    Random,
    /// --stride bytes further each time.
    Strided,
    /// Anywhere in the span, 30 % writes.
    Mixed,
    /// Few lines often, most lines seldom.
    Zipf,
    /// All lines of the span in one random order, again and again.
    PointerChase,
}

const CONVERT_EXAMPLES: &str = "\
Examples:
  nagori mem convert app.trc.gz --to ramulator -o app.ram.zst
  nagori mem convert gem5.ptrc.gz --to dramsim3 --cycle '833 ps' -o app.trc
  nagori mem convert app.trc --to gem5-text --cycle '1.25 ns' -o app.txt
  nagori mem convert app.trc --to ramulator-vector --memory ddr4 -o app.vec
  nagori mem convert bus.txt --region nvmm --to nagori -o nvmm.trc.zst

Whatever the other format cannot hold is told: times, lengths, program counters. From cycles to a
unit of time and back, --cycle is the length of a cycle. A format without lengths holds whole
lines of 64 bytes.";

/// Write a trace in another format.
#[derive(Debug, Args)]
#[command(after_long_help = CONVERT_EXAMPLES)]
pub struct ConvertArgs {
    /// The trace: a file, `-` for standard input, or gen:PATTERN[,key=value...].
    #[arg(value_name = "TRACE")]
    pub trace: String,
    /// Format to write.
    #[arg(long, value_name = "FORMAT")]
    pub to: Format,
    /// Format of the trace [default: recognised by its first bytes].
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<Format>,
    /// File to write; .zst and .gz are compressed.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// ramulator-vector: the memory whose address mapping applies, the name of a preset, or a path.
    #[arg(short, long, value_name = "NAME|PATH")]
    pub memory: Option<String>,
    /// Change a value of the memory's description.
    #[arg(long, value_name = "KEY=VALUE", requires = "memory")]
    pub set: Vec<String>,
    /// Length of a cycle, from cycles to a unit of time or back ("1.25 ns").
    #[arg(long, value_name = "TIME")]
    pub cycle: Option<Ps>,
    /// Cycles from one access to the next, for a trace without times.
    #[arg(long, value_name = "CYCLES", default_value_t = 0, value_parser = count::<u64>(..))]
    pub gap: u64,
    /// Accesses that begin inside a line of 64 bytes and reach beyond its end: split, truncate or refuse, as in
    /// `nagori mem run`.
    #[arg(long, value_name = "RULE", default_value_t)]
    pub unaligned: Unaligned,
    /// Subtract this from all addresses.
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = size)]
    pub base: u64,
    /// Greatest number of accesses to convert.
    #[arg(long, value_name = "N", value_parser = count::<u64>(..))]
    pub limit: Option<u64>,
    /// Leave out packets of gem5 that are neither reads nor writes; they are counted.
    #[arg(long)]
    pub skip_other: bool,
    /// From a bus trace, only the transfers of this region. To a bus trace, the name of the region.
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// What was converted, as one JSON object.
    #[arg(long)]
    pub json: bool,
}

const RECORD_EXAMPLES: &str = "\
Examples:
  nagori mem record -o gcc.trc.zst -- gcc -O2 -c app.c
  nagori mem record --skip 100000000 --limit 1000000 -o db.trc.zst -- sqlite3 app.db '.read query.sql'
  nagori mem record --machine server-caches --set 'cache.llc.size=2560 KiB' -o sort.trc.zst -- sort big.txt
  nagori mem run --memory ddr4 --trace gcc.trc.zst --mode timestamped --cycle '0.3 ns'

Programs for x86-64 run under Valgrind (Debian: valgrind, gcc). The trace has what the caches of the
machine do not have: lines read, lines written back. Its time is the number of instructions. Pages
have the order of their first use. Threads run one at a time. What the kernel does in system calls
is not seen, nor are other programs and processes that this one starts.

Time:
  A few hundred times as long as the program by itself: a second of one core has some 20 million of
  its instructions, 5 million where most accesses miss. --limit ends the program early.";

/// Record the memory traffic of a program of this computer.
#[derive(Debug, Args)]
#[command(after_long_help = RECORD_EXAMPLES)]
pub struct RecordArgs {
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
    /// File to write; .zst and .gz are compressed.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Format to write.
    #[arg(long, value_name = "FORMAT", default_value = "nagori")]
    pub to: Format,
    /// The machine whose caches are in front of memory: a name (see `nagori machine list`) or a path. Threads
    /// run on its harts in turn.
    #[arg(short, long, value_name = "NAME|PATH", default_value = "server-caches")]
    pub machine: String,
    /// Change a value of the machine's description, for instance of `l1d` or `cache.llc`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Instructions for which the caches are filled and nothing is recorded.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count::<u64>(..))]
    pub skip: u64,
    /// Greatest number of accesses; then the program is ended.
    #[arg(long, value_name = "N", value_parser = count::<u64>(..))]
    pub limit: Option<u64>,
    /// Time of an instruction, for formats with a unit of time ("0.3 ns").
    #[arg(long, value_name = "TIME")]
    pub cycle: Option<Ps>,
    /// ramulator-vector: the memory whose address mapping applies, the name of a preset, or a path.
    #[arg(long, value_name = "NAME|PATH")]
    pub memory: Option<String>,
    /// Write what the program did, instructions and misses of each level, as JSON.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

const SWEEP_EXAMPLES: &str = "\
Examples:
  nagori mem sweep --memory ddr3 --memory ddr4 --trace gen:random --trace app.trc.zst -o table.csv
  nagori mem sweep --memory ddr3 --trace gen:mixed,count=300000 \\
      --vary controller.page=open,closed --vary controller.write_high=16,24 -o table.csv

One row for every combination, in the order of the arguments, whatever the number of jobs.

Time:
  That of `nagori mem run` for each combination, as many at a time as the host has cores.";

/// Play traces into memories, all combinations, and write one table.
#[derive(Debug, Args)]
#[command(after_long_help = SWEEP_EXAMPLES)]
pub struct SweepArgs {
    /// Memory: the name of a preset, or a path; can be given again.
    #[arg(short, long, value_name = "NAME|PATH", required = true)]
    pub memory: Vec<String>,
    /// A value of all descriptions for this run.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Values to try, separated by commas; can be given again for other keys.
    #[arg(long, value_name = "KEY=VALUE,VALUE...")]
    pub vary: Vec<String>,
    /// A trace, as in `nagori mem run`; can be given again.
    #[arg(long, value_name = "FILE|gen:...", required = true)]
    pub trace: Vec<String>,
    #[command(flatten)]
    pub play: PlayArgs,
    /// Runs at the same time [default: one for each processor].
    #[arg(short, long, value_name = "N", value_parser = count::<u32>(1..=1024))]
    pub jobs: Option<u32>,
    /// Add the columns cpu_seconds and requests_per_cpu_second, which differ from run to run.
    #[arg(long)]
    pub cpu_time: bool,
    /// Table to write: CSV, or Parquet if the name ends in .parquet; without it, CSV goes to stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

const PLOT_EXAMPLES: &str = "\
Examples:
  nagori mem run --memory ddr3 --trace app.trc --json -o result.json
  nagori mem plot result.json -o result.html
  nagori mem sweep --memory ddr3 --memory pcm --trace gen:random,count=20000 \
      --vary 'timings.tRCD=10 ns,20 ns,28 ns' -o table.csv
  nagori mem plot table.csv -o table.svg
      tRCD along the x axis, a line for each memory
  nagori mem plot table.csv --x memory --figure read_latency_p99_ns -o memories.png
      A group of bars for each memory";

/// Draw a result of `nagori mem run --json`, or the table of a `nagori mem sweep`.
///
/// Of a run: latency histogram, bandwidth over time, row hits by bank, map of writes.
///
/// Of a sweep: up to four figures over a varied key. Numbers of one unit along the x axis give lines, other
/// values bars; each combination of memory, trace and the other varied keys is a series.
#[derive(Debug, Args)]
#[command(after_long_help = PLOT_EXAMPLES)]
pub struct PlotArgs {
    /// The result of a run, a JSON file; or the table of a sweep, a CSV file.
    #[arg(value_name = "RESULT")]
    pub result: PathBuf,
    /// Column of a sweep along the x axis [default: the first varied key; without one, memory or trace].
    #[arg(long, value_name = "COLUMN")]
    pub x: Option<String>,
    /// Column of a sweep to draw; up to four [default: bandwidth, mean latencies, energy].
    #[arg(long, value_name = "COLUMN")]
    pub figure: Vec<String>,
    /// File to write: .html (self-contained, with tables), .svg, .png, .pdf, or .vl.json (Vega-Lite).
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub look: LookArgs,
}
