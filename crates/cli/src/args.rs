//! Options of several commands that run a guest. What belongs to one command stands beside it.

use crate::sampling::SampleArgs;
use anyhow::{bail, Context};
use clap::{Args, ValueEnum};
use nagori_epoch::Variant as Formulas;
use nagori_machine::{Dram, Engine, TranslatorOptions};
use nagori_memtime::Method;
use nagori_session::devices::{Devices, DiskSpec, NetSpec, ShareSpec};
use nagori_session::nvmm::NvmmSpec;
use nagori_session::power::{PowerCuts, When};
use nagori_session::rtc::Rtc;
use nagori_session::snapshot::Saving;
use nagori_terminal::args::method;
use nagori_terminal::numbers::{count, seed};
use nagori_terminal::output::file::{self, Staged};
use std::path::{Path, PathBuf};

/// Exit codes of commands that run a guest.
pub const EXIT_CODES: &str = "\
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
    /// Show the machine as a page of this host while it runs; its address is printed, and the Python package serves it
    /// [default port: any that is free].
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0",
          value_parser = count::<u16>(..))]
    pub dashboard: Option<u16>,
    /// Listen for a debugger at [HOST:]PORT or unix:PATH, and wait for it before the first instruction
    /// [default port: 1234].
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "1234")]
    pub gdb: Option<String>,
    /// Do not wait for the debugger: it may attach at any time.
    #[arg(long, requires = "gdb")]
    pub gdb_no_wait: bool,
    /// Run on when a debugger is gone without `detach`, instead of waiting for another.
    #[arg(long, requires = "gdb")]
    pub gdb_run_on: bool,
}

/// How to run, and what to report.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Delay method of NVMM at the start: dram, coarse, fine or extended, between which the guest can switch; or
    /// epoch, epoch:quartz, ... (docs/epoch.md).
    #[arg(long, value_name = "METHOD", value_parser = TimingMethod::parse)]
    pub method: Option<TimingMethod>,
    /// Without the timing model: every instruction takes the same time. The guest can switch.
    #[arg(long, conflicts_with = "timed")]
    pub functional: bool,
    /// With the timing model from the first instruction on. The guest can switch.
    #[arg(long)]
    pub timed: bool,
    /// Whenever the timing model is turned on, this many instructions of all harts warm caches, TLBs,
    /// predictors and row buffers; then statistics are reset. With --timing sampled: before each window [default there:
    /// as many as are needed].
    ///
    /// If the run ends before that, there are no statistics of what was to be measured: a warning says so,
    /// and the exit code is 1 where the guest's is 0.
    #[arg(long, value_name = "N", value_parser = count::<u64>(1..))]
    pub warm_up: Option<u64>,
    /// Make markers of programs in the guest (docs/markers.md) no-ops: for guests that are not trusted with
    /// statistics, method and the end of the run.
    #[arg(long)]
    pub no_markers: bool,
    /// Time of the machine's clock at the start: a date (in UTC), such as 2026-10-01 or 2026-10-01T12:30:00,
    /// or `host`: this host's time, with which runs differ [default: the machine's rtc_epoch, else, with an
    /// image of ours, the day after its package index was signed].
    #[arg(long, value_name = "DATE|host", help_heading = "Machine")]
    pub rtc: Option<Rtc>,
    /// Engine that runs the guest's code; results are the same [default: the translator, if the host has
    /// one].
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineKind>,
    /// Run harts at the same time while the timing model is off, in threads of this host. Not deterministic: results
    /// differ from run to run. With the timing model harts take turns all the same.
    #[arg(long, conflicts_with_all = ["trace", "power_cut_at"])]
    pub parallel: bool,
    /// How far harts may be apart with --parallel, in core cycles [default: 50000].
    #[arg(long, value_name = "CYCLES", requires = "parallel",
          value_parser = count::<u64>(1..=1_000_000_000))]
    pub skew: Option<u64>,
    /// End the run after this many instructions of all harts together.
    #[arg(long, value_name = "N", value_parser = count::<u64>(1..))]
    pub max_instructions: Option<u64>,
    /// Print statistics at the end, to stdout unless --stats-file is given.
    #[arg(long, value_name = "FORMAT")]
    pub stats: Option<StatsFormat>,
    /// Write the statistics to a file [default format: by its name, JSON if it ends in .json].
    #[arg(long, value_name = "FILE")]
    pub stats_file: Option<PathBuf>,
    /// Trace what the harts do; separate several kinds with commas, or repeat the option.
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
    #[command(flatten)]
    pub sampling: SampleArgs,
    /// At the end, write where translated code is to /tmp/perf-PID.map, for Linux perf.
    #[arg(long)]
    pub perf_map: bool,
    #[command(flatten)]
    pub take: TakeArgs,
    #[command(flatten)]
    pub power: PowerArgs,
    #[command(flatten)]
    pub nvmm: NvmmArgs,
}

impl RunArgs {
    /// What the options change in the machine's description.
    pub fn settings(&self) -> Vec<String> {
        let method = self.method.map(TimingMethod::setting);
        let deaf = self.no_markers.then(|| "markers=false".to_string());
        method.into_iter().chain(deaf).collect()
    }

    /// The setting of a machine that starts with the clock that is asked for.
    pub fn clock(&self) -> Option<String> {
        self.rtc.map(|r| format!("rtc_epoch={}", r.seconds()))
    }

    /// Whether the bus is traced.
    pub fn traces_bus(&self) -> bool {
        self.trace.contains(&TraceKind::Bus)
    }

    /// Whether statistics are to be shown at the end.
    pub fn wants_stats(&self) -> bool {
        self.stats.is_some() || self.stats_file.is_some()
    }

    /// Opens the file of the statistics, if there is to be one.
    pub fn open_stats(&self) -> anyhow::Result<Option<Staged>> {
        let open = |path: &PathBuf| Staged::create(path).context("--stats-file");
        self.stats_file.as_ref().map(open).transpose()
    }

    /// Looks whether all files that a run is to leave can be there, for commands that do something
    /// long before it.
    pub fn check_outputs(&self) -> anyhow::Result<()> {
        self.open_stats()?;
        if let Some(path) = &self.inspect.profile {
            file::check(path).context("--profile")?;
        }
        self.take.check()
    }

    /// What runs the guest's code.
    pub fn engine(&self) -> Engine {
        engine(self.engine)
    }
}

/// What runs the guest's code, where nothing may be said.
pub fn engine(given: Option<EngineKind>) -> Engine {
    match given {
        Some(EngineKind::Interpreter) => Engine::Interpreter,
        Some(EngineKind::Translator) => Engine::Translator(TranslatorOptions::default()),
        None => Engine::best(),
    }
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
    /// Every instruction, disassembled, with the values that it writes.
    Exec,
    /// Every load and store, with its value.
    Mem,
    /// Every exception and interrupt.
    Irq,
    /// Every line written back to memory.
    Lines,
    /// Every instruction that retires, in the form of Spike's commit log.
    Commit,
    /// Every line transferred over the bus, in a format that `nagori mem run` plays. Cannot be combined with
    /// the others.
    Bus,
}

/// What of the host is behind the machine's devices.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Devices")]
pub struct DeviceArgs {
    /// Add a disk: a raw file, such as an image of a file system.
    ///
    /// The guest sees /dev/vda, then /dev/vdb, ... Writes go into the file, unless `ro` is given (they are
    /// errors), or an overlay: a file that takes the writes and is created if it does not exist, or `temp`,
    /// which is thrown away at the end. A file that is written belongs to one machine at a time.
    #[arg(long, value_name = "FILE[,ro][,overlay=FILE|temp]", value_parser = DiskSpec::parse)]
    pub disk: Vec<DiskSpec>,

    /// Share a folder: the guest may read it, with `rw` write it, too.
    ///
    /// The guest sees it as a 9p file system of this tag (share0, share1, ... where none is
    /// given); our init mounts it at /mnt/TAG. Nothing outside the folder can be reached by it: symbolic links are
    /// followed by the guest, in its own tree. All files belong to the guest's root.
    #[arg(long, value_name = "DIR[:TAG][,rw]", value_parser = ShareSpec::parse)]
    pub share: Vec<ShareSpec>,

    /// Network interface, and what it is connected to.
    ///
    /// user[,hostfwd=PROTOCOL:HOST:PORT-GUEST:PORT][,restrict]: a private network behind address translation;
    /// no root needed. tap=NAME: an interface of the host. listen=PATH and connect=PATH: a wire to another
    /// machine. peer[,machine=NAME][,delay=MICROSECONDS][,console=FILE][,run=COMMAND]: a second machine in this
    /// process, in machine time, so that runs are reproducible. Each may be followed by ,mac=ADDRESS (before ,run=).
    #[arg(long, value_name = "LINK")]
    pub net: Vec<NetSpec>,
}

impl DeviceArgs {
    /// As the library has them.
    pub fn devices(&self) -> Devices {
        Devices {
            disks: self.disk.clone(),
            shares: self.share.clone(),
            nets: self.net.clone(),
        }
    }
}

/// When to save the machine.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Snapshots")]
pub struct TakeArgs {
    /// Save the whole machine to this file whenever the guest asks for it, or at --snapshot-at; `nagori
    /// resume` continues from there. The file is replaced as a whole.
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// Save once, as soon as this many instructions of all harts have been executed. The run is
    /// the same as without.
    #[arg(long, value_name = "N", requires = "snapshot", value_parser = count::<u64>(..))]
    pub snapshot_at: Option<u64>,
    /// End the run after the first snapshot.
    #[arg(long, requires = "snapshot")]
    pub snapshot_exit: bool,
}

impl TakeArgs {
    /// Looks whether the snapshots can be written that are asked for.
    pub fn check(&self) -> anyhow::Result<()> {
        self.snapshot.as_deref().map_or(Ok(()), can_be_saved)
    }

    /// As the library has it.
    pub fn saving(&self) -> Option<Saving> {
        Some(Saving {
            path: self.snapshot.clone()?,
            at: self.snapshot_at,
            exit: self.snapshot_exit,
        })
    }
}

/// Looks whether snapshots can be written to `path`.
fn can_be_saved(path: &Path) -> anyhow::Result<()> {
    if file::is_stdout(path) {
        bail!("--snapshot -: a snapshot is replaced as a whole, so it cannot go to standard output; `./-` is a file of \
            that name");
    }
    if path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        bail!(
            "--snapshot {}: it is no file, and a snapshot is replaced as a whole",
            path.display()
        );
    }
    file::check(path).context("--snapshot")
}

/// What of NVMM outlives the run.
#[derive(Debug, Clone, Default, Args)]
pub struct NvmmArgs {
    /// Keep the content of NVMM in this file, an image of `nagori nvmm create`.
    ///
    /// It holds exactly what was durable when the run ended, however it ended: by the guest's power-off, a
    /// power cut, Ctrl-C or `kill -9`. With `ro` stores to NVMM are access faults; changes go to another file
    /// with `overlay=FILE`, which is made if it does not exist, or are thrown away with `overlay=temp`. An image
    /// that changes belongs to one machine at a time, and sets memory.track_persistence.
    #[arg(long, value_name = "FILE[,ro][,overlay=FILE|temp]", value_parser = NvmmSpec::parse, help_heading = "Machine")]
    pub nvmm_image: Option<NvmmSpec>,
}

impl NvmmArgs {
    /// What it changes in the machine's description, which has these settings.
    pub fn settings(&self, given: &[String]) -> Vec<String> {
        let spec = self.nvmm_image.as_ref();
        spec.map_or(Vec::new(), |s| s.settings(given))
    }
}

/// When to cut the power.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Power cuts")]
#[command(group(clap::ArgGroup::new("power_cuts").args(["power_cut_at", "reboot"]).multiple(true)))]
pub struct PowerArgs {
    /// Cut the power at this point; then the machine restarts, with the content of NVMM.
    ///
    /// The point is exact, and the same with every engine: `N` or `insn:N`, after N instructions of all harts
    /// together; `time:12.5ms` or `12.5ms` (s, ms, us, ns, ps), a machine time; `marker:LABEL`, after the
    /// marker by which a program sets that label (a number, or up to 8 characters), or `marker:LABEL:N`,
    /// after the Nth; `nvmm-write:N`, `fence:N` or `flush:N`, after the Nth line that is written back to NVMM
    /// (without the timing model: the Nth store there), the Nth fence, the Nth instruction that cleans or flushes.
    /// Given several times: one after the other, all but instructions and times counted from the cut before.
    /// memory.persistence_domain decides what is lost; with the timing model on this needs --set
    /// memory.track_persistence=true, unless the domain is eadr. `nagori run` counts from its cached boot on;
    /// the machine boots again, and starts the program a second time.
    #[arg(long, value_name = "WHEN")]
    pub power_cut_at: Vec<When>,
    /// As --power-cut-at WHEN.
    #[arg(long, value_name = "power-cut@WHEN", value_parser = reboot, conflicts_with = "power_cut_at")]
    pub reboot: Vec<When>,
    /// End the run at the last of these power cuts instead of restarting.
    #[arg(long, requires = "power_cuts")]
    pub power_cut_exit: bool,
    /// Content of DRAM afterwards: `zero`, or pseudo-random words from a seed.
    #[arg(
        long,
        value_name = "zero|SEED",
        default_value = "zero",
        value_parser = dram,
        requires = "power_cuts"
    )]
    pub power_cut_dram: DramArg,
}

/// What DRAM holds after a power cut; zeros by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DramArg(Option<u64>);

fn reboot(text: &str) -> Result<When, String> {
    let when = text.strip_prefix("power-cut@");
    when.ok_or("expected power-cut@WHEN, with WHEN as of --power-cut-at")?
        .parse()
}

fn dram(text: &str) -> Result<DramArg, String> {
    match (text, seed(text)) {
        ("zero", _) => Ok(DramArg(None)),
        (_, Ok(seed)) => Ok(DramArg(Some(seed))),
        (_, Err(_)) => {
            Err("expected zero, or a whole number as the seed of pseudo-random words".into())
        }
    }
}

impl PowerArgs {
    /// As the library has it.
    pub fn cuts(&self) -> PowerCuts {
        PowerCuts {
            points: { self.power_cut_at.iter().chain(&self.reboot) }
                .map(|w| w.0)
                .collect(),
            exit: self.power_cut_exit,
            dram: self.power_cut_dram.0.map_or(Dram::Zero, Dram::Random),
        }
    }
}

/// How NVMM comes to be slow: its requests are delayed by a method, or counters are read and harts are delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimingMethod {
    /// A delay method.
    Delay(Method),
    /// Epochs with these formulas.
    Epoch(Formulas),
}

impl TimingMethod {
    /// Reads a name.
    pub fn parse(text: &str) -> Result<TimingMethod, String> {
        match text.split_once(':') {
            Some(("epoch", name)) => match name.parse() {
                Ok(formulas) => Ok(TimingMethod::Epoch(formulas)),
                Err(e) => Err(format!("epoch: {e}")),
            },
            None if text == "epoch" => Ok(TimingMethod::Epoch(Formulas::default())),
            _ => match method(text) {
                Ok(m) => Ok(TimingMethod::Delay(m)),
                Err(e) => Err(format!("{e}, epoch, or epoch:FORMULAS")),
            },
        }
    }

    /// The delay method, if it is one.
    pub fn delay(self) -> Option<Method> {
        match self {
            TimingMethod::Delay(m) => Some(m),
            TimingMethod::Epoch(_) => None,
        }
    }

    /// The setting of a machine that starts with it.
    pub fn setting(self) -> String {
        match self {
            TimingMethod::Delay(m) => format!("method={}", m.name()),
            TimingMethod::Epoch(f) => format!("epoch.variant={}", f.name()),
        }
    }
}

impl std::fmt::Display for TimingMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TimingMethod::Delay(m) => f.pad(m.name()),
            TimingMethod::Epoch(v) => f.pad(&format!("epoch:{}", v.name())),
        }
    }
}

/// Examples, and the exit codes behind them.
pub fn concat_examples(examples: &str) -> String {
    format!("{examples}\n\n{EXIT_CODES}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_delays_or_epochs() {
        let parse = TimingMethod::parse;
        assert_eq!(parse("fine"), Ok(TimingMethod::Delay(Method::Fine)));
        assert_eq!(parse("epoch").unwrap().to_string(), "epoch:koshiba");
        assert_eq!(
            parse("epoch:quartz").unwrap().setting(),
            "epoch.variant=quartz"
        );
        for wrong in ["epoch:", "epochs", "epoch:qartz", "finer"] {
            assert!(parse(wrong).unwrap_err().contains("epoch"), "{wrong}");
        }
    }

    #[test]
    fn contents_of_dram_are_read_or_refused() {
        assert_eq!(dram("zero"), Ok(DramArg(None)));
        assert_eq!(dram("7"), Ok(DramArg(Some(7))));
        assert!(dram("ones").is_err());
    }
}
