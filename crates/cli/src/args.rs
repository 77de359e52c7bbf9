//! What can be said on the command line.

use crate::boot::{KernelArg, Part};
use crate::devices::DeviceArgs;
use crate::rtc::Rtc;
use clap::{Args, Parser, Subcommand, ValueEnum};
use nagori_memtime::Method;
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes:
  of the guest, where it ends by itself; 255 with a message if its code is larger than that
  0    done
  1    error
  2    wrong arguments
  124  the instruction limit was reached
  125  every hart waits for something that cannot come
  129, 130, 143  ended by SIGHUP, SIGINT (Ctrl-C), SIGTERM; the third signal ends any command at once

Files that are written are opened before the work begins, and are there whole or not at all; `-` is
standard output.";

/// A RISC-V computer with DRAM and non-volatile main memory, emulated.
///
/// Nagori boots unmodified Linux, or runs bare-metal programs, on a machine whose memory is part
/// DRAM, part NVMM, and measures what each access costs.
#[derive(Debug, Parser)]
#[command(name = "nagori", version, propagate_version = true, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// Show only errors, no messages and no progress.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Run(crate::run::RunProgramArgs),
    Compare(crate::run::CompareArgs),
    Boot(BootArgs),
    Resume(crate::snapshot::ResumeArgs),
    Bare(BareArgs),
    Disasm(DisasmArgs),
    #[command(subcommand)]
    Machine(MachineCommand),
    #[command(subcommand)]
    Image(crate::image::args::ImageCommand),
    #[command(subcommand)]
    Snapshot(crate::snapshot::SnapshotCommand),
    #[command(subcommand)]
    Bench(BenchCommand),
    Ctl(crate::remote::ctl::CtlArgs),
    #[command(subcommand)]
    Mem(crate::mem::args::MemCommand),
}

impl Command {
    /// Whether it works for long, and has something to put right when a signal ends it.
    pub fn is_long(&self) -> bool {
        use crate::image::args::ImageCommand;
        use crate::snapshot::SnapshotCommand;
        match self {
            Command::Run(_) | Command::Compare(_) | Command::Boot(_) | Command::Resume(_) => true,
            Command::Bare(_) | Command::Bench(_) | Command::Mem(_) => true,
            Command::Image(c) => {
                !matches!(c, ImageCommand::List { .. } | ImageCommand::Verify { .. })
            }
            Command::Snapshot(c) => matches!(c, SnapshotCommand::Boot { .. }),
            Command::Disasm(_) | Command::Machine(_) | Command::Ctl(_) => false,
        }
    }
}

const BOOT_EXAMPLES: &str = "\
Examples:
  nagori boot
      Debian's kernel and a shell; end it with `exit` or Ctrl-A x
  nagori boot --run 'bench-locality --op read --method fine' --stats table
      Run one command in the guest, print what it did to the memory, exit with its code
  nagori boot --isolate --run 'bench-board --methods coarse'
      The figures of `nagori bench board`: the last hart belongs to the benchmark alone
  nagori boot --rootfs
      Debian with systemd, from packages: log in as root
  nagori boot --rootfs run --run 'seq 100000 | xz -9 | wc -c'
      One command in a smaller one, without systemd
  nagori boot --nvmm pmem-region --set memory.nvmm_boundary='\"2 GiB\"'
      2 GiB of DRAM; the rest is /dev/pmem0 in the guest
  nagori boot --disk data.img --disk tools.img,ro --disk root.img,overlay=temp
      Three disks: written, only read, and written without a trace
  nagori boot --share results:out,rw --share src --run 'cp /mnt/share0/* /mnt/out'
      Two folders of the host, one of them writable
  nagori boot --kernel Image --initrd root.cpio.gz --append 'loglevel=8'
      A kernel of your own, with Debian's firmware
  nagori boot --kernel u-boot.bin@0x80200000 --initrd none --disk disk.img
      U-Boot, or another system that firmware starts at an address; see docs/guests.md
  nagori boot --firmware none --kernel kernel.elf --initrd none --append-only
      A system that starts in machine mode, such as xv6

Keys in the console:
  Ctrl-A x  end the machine        Ctrl-A s  show statistics
  Ctrl-A h  show these keys        Ctrl-A a  send Ctrl-A to the guest
Everything else, Ctrl-C included, goes to the guest; with --run, Ctrl-C ends the machine, and
Ctrl-A c sends it to the guest. Where input or output is not a terminal, input is passed on when
the guest listens or polls, its end to who listens as Ctrl-D, and Ctrl-C ends the run.";

/// Boot Linux, with a console in this terminal.
///
/// Boots Debian's kernel with a small root file system (built on first use, see `nagori image`),
/// or your own files, under OpenSBI. The boot is functional, that is without the timing model;
/// programs in the guest switch it on for what they measure, or --timed does for the whole run.
#[derive(Debug, Args)]
#[command(after_long_help = concat_examples(BOOT_EXAMPLES))]
pub struct BootArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Kernel, or what else the firmware is to start [default: Debian's]
    ///
    /// A riscv64 Image, also compressed with gzip or as an EFI zboot image; a static ELF; U-Boot's
    /// uImage or FIT image; or any file with the address where it goes and starts.
    #[arg(long, value_name = "FILE[@ADDRESS]", value_parser = KernelArg::parse, help_heading = "Software")]
    pub kernel: Option<KernelArg>,
    /// Initial root file system: a cpio archive, or `none` [default: ours, with busybox and benchmarks]
    #[arg(long, value_name = "FILE|none", value_parser = Part::parse, help_heading = "Software")]
    pub initrd: Option<Part>,
    /// OpenSBI's fw_dynamic.bin, or an ELF; with `none` the kernel starts in machine mode [default: Debian's]
    #[arg(long, value_name = "FILE|none", value_parser = Part::parse, help_heading = "Software")]
    pub firmware: Option<Part>,
    /// Added to the kernel's command line.
    #[arg(
        long,
        value_name = "STRING",
        help_heading = "Software",
        allow_hyphen_values = true
    )]
    pub append: Option<String>,
    /// Nothing else is on the kernel's command line, neither the console nor what makes Debian's
    /// kernel boot fast.
    #[arg(long, help_heading = "Software")]
    pub append_only: bool,
    /// Shell command to run in the guest instead of a shell.
    ///
    /// It is put into the initial root file system as /etc/nagori/run; the machine is switched
    /// off when it ends, and its exit status is that of `nagori boot`.
    #[arg(long, value_name = "COMMAND", help_heading = "Software")]
    pub run: Option<String>,
    /// Keep the last hart for the command of --run, as `nagori bench board` does.
    ///
    /// The kernel is told to keep its load balancing and RCU callbacks off that hart (isolcpus, rcu_nocbs), and
    /// the command runs there. Without it the benchmarks share their hart with the kernel's upkeep and are some
    /// percent slower. Without --run, programs get there by `taskset`.
    #[arg(long, help_heading = "Software")]
    pub isolate: bool,
    /// Debian as the root file system, on a disk whose changes are thrown away at the end.
    ///
    /// Which one: `run` or `system` (see `nagori image build --help`), the start of a key of
    /// `nagori image list`, or the file of an ext4 image. `system` boots systemd to a login (root,
    /// no password); with --run the command is run in the root file system, without systemd. It is
    /// /dev/vda; the disks of --disk follow.
    #[arg(long, value_name = "NAME|FILE", num_args = 0..=1, default_missing_value = "system", help_heading = "Software")]
    pub rootfs: Option<String>,
    /// How the guest's kernel sees NVMM [default: as the machine's description says].
    #[arg(long, value_name = "HOW", help_heading = "Machine")]
    pub nvmm: Option<Expose>,
    #[command(flatten)]
    pub devices: DeviceArgs,
    #[command(flatten)]
    pub modules: ModulesArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub run_args: RunArgs,
}

const BARE_EXAMPLES: &str = "\
Examples:
  nagori bare hello.elf
  nagori bare --method extended --stats table pointer-chase.elf
  nagori bare --functional --max-instructions 10000000 selftest.elf
  nagori bare --trace exec --trace irq --trace-file trace.txt broken.elf
  nagori bare --functional --disk fs.img kernel.elf
  nagori bare --signature add.sig --signature-granularity 4 add.elf

The program is a static riscv64 ELF linked to addresses in memory (0x80000000 on). Every hart
starts at its entry in M mode with its number in a0 and the address of a device tree in a1. It
ends the machine by writing to the test device at 0x100000 (0x5555: code 0; code << 16 | 0x3333),
or, if it has a symbol `tohost`, by writing 1 (code 0) or code << 1 | 1 there. Through `tohost`
and `fromhost` (HTIF) it may also read and write the console, by characters or by system calls.";

/// Run a bare-metal program.
///
/// Loads a static ELF, runs it without firmware, prints its console output, and exits with its
/// code. The timing model is on unless --functional is given.
#[derive(Debug, Args)]
#[command(after_long_help = concat_examples(BARE_EXAMPLES))]
pub struct BareArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// The program: a static riscv64 ELF.
    #[arg(value_name = "ELF")]
    pub program: PathBuf,
    /// When the program has ended, write the memory from its symbol `begin_signature` to
    /// `end_signature`: a line of hexadecimal digits for every 16 bytes, as Spike does.
    #[arg(long, value_name = "FILE")]
    pub signature: Option<PathBuf>,
    /// Bytes in a line of the signature.
    #[arg(long, value_name = "BYTES", default_value_t = 16, requires = "signature",
          value_parser = granularity)]
    pub signature_granularity: u32,
    #[command(flatten)]
    pub devices: DeviceArgs,
    #[command(flatten)]
    pub run_args: RunArgs,
}

const DISASM_EXAMPLES: &str = "\
Examples:
  nagori disasm program.elf
  nagori disasm --at main --blocks 8 program.elf
  nagori disasm --at 0x80000040 --functional --host program.elf
      What the translator makes of the block, beside it
  echo 00b50533 0000006f | nagori disasm --host -";

/// Show blocks of a program: instructions, their cycles, and the host's code for them.
///
/// A block is a run of instructions up to the next jump: what the translator translates at once.
/// With timing every instruction has the cycle in which it is issued, counted from the block's
/// start, if all its loads and fetches hit. Nothing is executed.
#[derive(Debug, Args)]
#[command(after_long_help = DISASM_EXAMPLES)]
pub struct DisasmArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// The program: a static riscv64 ELF; or `-`: instructions as hexadecimal words from stdin,
    /// of 4 digits (compressed) or 8, for the start of memory.
    #[arg(value_name = "ELF|-")]
    pub program: PathBuf,
    /// Where the block starts: a symbol, symbol+offset, or an address [default: the entry].
    #[arg(long, value_name = "SYMBOL|ADDRESS")]
    pub at: Option<String>,
    /// How many blocks, one behind the other in memory.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub blocks: u32,
    /// With cycles, as in timed mode; this is the default.
    #[arg(long, conflicts_with = "functional")]
    pub timed: bool,
    /// As in functional mode: without cycles.
    #[arg(long)]
    pub functional: bool,
    /// Show the translator's code for this host beside the instructions.
    #[arg(long)]
    pub host: bool,
    /// A list of blocks as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Machine")]
pub struct MachineArgs {
    /// Machine description: a name (see `nagori machine list`) or a path.
    #[arg(short, long, value_name = "NAME|PATH", default_value = nagori_platform::config::DEFAULT_MACHINE)]
    pub machine: String,
    /// Change a value of the description for this run; see `nagori machine show` for the keys.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Looking into a guest while it runs.
#[derive(Debug, Clone, Default, Args)]
pub struct InspectArgs {
    /// Write which code waited for memory, in pprof's format, and as folded stacks to FILE.folded; only
    /// these if FILE itself ends in .folded.
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Names of functions for the profile: an ELF file, loaded ADDR (hexadecimal) above its own
    /// addresses, or a list like /proc/kallsyms. May be given several times.
    #[arg(long = "symbols", value_name = "FILE[@ADDR]", requires = "profile")]
    pub profile_symbols: Vec<String>,
    /// Listen for `nagori ctl` and other clients on a Unix socket at this path.
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Listen for a debugger at [HOST:]PORT or unix:PATH, and wait for it before the first instruction
    /// [default port: 1234].
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "1234")]
    pub gdb: Option<String>,
    /// Do not wait for the debugger: it may come at any time.
    #[arg(long, requires = "gdb")]
    pub gdb_no_wait: bool,
}

/// How to run, and what to report.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Delay method of NVMM at the start: dram, coarse, fine or extended. The guest can switch.
    #[arg(long, value_name = "METHOD", value_parser = method)]
    pub method: Option<Method>,
    /// Without the timing model: every instruction takes the same time. The guest can switch.
    #[arg(long, conflicts_with = "timed")]
    pub functional: bool,
    /// With the timing model from the first instruction on. The guest can switch.
    #[arg(long)]
    pub timed: bool,
    /// Whenever the timing model is turned on, this many instructions of all harts warm caches,
    /// TLBs, predictors and row buffers; then statistics start anew.
    ///
    /// If the run ends before that, there are no statistics of what was to be measured: a warning says so,
    /// and the exit code is 1 where the guest's is 0.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub warm_up: Option<u64>,
    /// Markers of programs in the guest (docs/markers.md) do nothing: for guests that are not
    /// trusted with statistics, method and the end of the run.
    #[arg(long)]
    pub no_markers: bool,
    /// What the machine's clock shows at the start: a date (in UTC), such as 2026-10-01 or
    /// 2026-10-01T12:30:00, or `host`: this host's time, with which runs differ [default: the machine's
    /// rtc_epoch, else, with an image of ours, the day after its package index was signed].
    #[arg(long, value_name = "DATE|host", help_heading = "Machine")]
    pub rtc: Option<Rtc>,
    /// What runs the guest's code; results are the same [default: the translator, if the host has one].
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineKind>,
    /// Run harts at the same time, in threads of this host. Not deterministic: results differ from
    /// run to run, and times are approximate.
    #[arg(long, conflicts_with_all = ["trace", "power_cut_at"])]
    pub parallel: bool,
    /// How far harts may be apart with --parallel, in core cycles [default: 50000].
    #[arg(long, value_name = "CYCLES", requires = "parallel",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub skew: Option<u64>,
    /// End the run after this many instructions of all harts together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_instructions: Option<u64>,
    /// Print statistics at the end, to stdout unless --stats-file is given.
    #[arg(long, value_name = "FORMAT")]
    pub stats: Option<StatsFormat>,
    /// Write the statistics to a file [default format: by its name, JSON if it ends in .json].
    #[arg(long, value_name = "FILE")]
    pub stats_file: Option<PathBuf>,
    /// Record what the harts do; several with commas or by giving it again.
    #[arg(
        long,
        value_name = "WHAT",
        value_delimiter = ',',
        requires = "trace_file"
    )]
    pub trace: Vec<TraceKind>,
    /// File for the trace.
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub trace_file: Option<PathBuf>,
    #[command(flatten)]
    pub inspect: InspectArgs,
    /// At the end, write where translated code is to /tmp/perf-PID.map, for Linux perf.
    #[arg(long)]
    pub perf_map: bool,
    #[command(flatten)]
    pub take: crate::snapshot::TakeArgs,
    #[command(flatten)]
    pub power: crate::power::PowerArgs,
}

/// What runs the guest's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineKind {
    /// One instruction after the other.
    Interpreter,
    /// Blocks translated to code of the host.
    Translator,
}

/// Form of statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    /// For people.
    Table,
    /// Everything, as one JSON object.
    Json,
}

/// What to trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceKind {
    /// Every instruction, disassembled.
    Exec,
    /// Every load and store.
    Mem,
    /// Every exception and interrupt.
    Irq,
}

/// How the guest's kernel sees NVMM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Expose {
    /// In no node of the device tree; programs map it through /dev/mem.
    Hidden,
    /// As a `pmem-region` node, which makes it /dev/pmem0.
    PmemRegion,
    /// As memory of a NUMA node without processors, which the kernel uses like any other.
    NumaNode,
}

/// Where guest images are.
#[derive(Debug, Clone, Default, Args)]
pub struct CacheArgs {
    /// Directory of guest images [default: NAGORI_CACHE, else ~/.cache/nagori].
    #[arg(long = "cache", value_name = "DIR", help_heading = "Software")]
    pub cache: Option<PathBuf>,
}

/// What the guest's kernel has beside what every image has.
#[derive(Debug, Clone, Default, Args)]
pub struct ModulesArgs {
    /// More modules of Debian's kernel for the guest, separated by commas, with what they depend on: they
    /// are loaded at its start, and modprobe finds them. Such as xfs; its tools are a package (xfsprogs).
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Software"
    )]
    pub modules: Vec<String>,
}

/// Show and list machine descriptions.
#[derive(Debug, Subcommand)]
pub enum MachineCommand {
    Show(ShowArgs),
    /// Print the JSON schema of machine descriptions.
    ///
    /// Editors with a TOML language server check descriptions against it. Example:
    /// nagori machine schema > machine.schema.json
    Schema,
    /// List the machines that can be named.
    ///
    /// They are part of the program, or lie in a directory of NAGORI_MACHINES.
    /// Example: nagori machine list
    List {
        /// A list of objects with name, description, source.
        #[arg(long)]
        json: bool,
    },
}

const SHOW_EXAMPLES: &str = "\
Examples:
  nagori machine show
  nagori machine show ./my-board.toml --set memory.controller.delays.tras='\"3000 ns\"'
  nagori machine show vc707 --json | jq '.values[] | select(.unit == \"ps\")'";

/// Show a machine description, every value resolved.
///
/// Every value has its unit and where it comes from: given in the file, the controller preset,
/// the core description, the default, or set with --set. What follows from others (the reach of
/// the TLBs) stands behind them.
#[derive(Debug, Args)]
#[command(after_long_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// A name (see `nagori machine list`) or a path.
    #[arg(value_name = "NAME|PATH", default_value = nagori_platform::config::DEFAULT_MACHINE)]
    pub machine: String,
    /// Change a value.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// One JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

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
constants were fitted on the cells shown, and on no others.";

/// Run benchmarks in the guest and print their results.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    Board(BoardArgs),
    Speed(crate::bench::SpeedArgs),
    Start(crate::bench::start::StartArgs),
    Io(crate::bench::io::IoArgs),
    Mem(crate::bench::mem::MemArgs),
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
          value_parser = clap::value_parser!(u32).range(1..=49152), conflicts_with = "quick")]
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
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// A list of {op, benchmark, value, method, latency_ns} on stdout, instead of tables; with --repeats also
    /// `latency_ns_sample`.
    #[arg(long)]
    pub json: bool,
    /// Draw the results into a file; the name ends in .svg or .png.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub cache: CacheArgs,
}

/// Parses the bytes of a signature's line.
fn granularity(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok();
    let fine = bytes.filter(|b: &u32| b.is_power_of_two() && *b <= 64);
    fine.ok_or_else(|| "expected 1, 2, 4, 8, 16, 32 or 64".into())
}

/// Parses a delay method.
pub fn method(text: &str) -> Result<Method, String> {
    let known = || Method::ALL.map(Method::name).join(", ");
    Method::ALL
        .into_iter()
        .find(|m| m.name() == text)
        .ok_or_else(|| format!("expected one of {}", known()))
}

fn concat_examples(examples: &str) -> String {
    format!("{examples}\n\n{EXIT_CODES}")
}
