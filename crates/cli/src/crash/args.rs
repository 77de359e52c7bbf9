//! Arguments of `nagori crash`.

use crate::args::{DeviceArgs, EngineKind};
use crate::boot::Expose;
use crate::run::FileArg;
use clap::{Args, Subcommand, ValueEnum};
use nagori_crash::{Domain, GpfChoice, Mode, Model, Order};
use nagori_session::crash::Points;
use nagori_terminal::args::{CacheArgs, MachineArgs, ModulesArgs};
use nagori_terminal::numbers::{count, seconds, seed};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  nagori crash --file ringlog:/bin/ringlog --setup 'ringlog setup' --workload 'ringlog workload' \\
      --recover 'ringlog recover' --check 'ringlog check'
      Cuts the power at every fence, flush and marker of the workload, and recovers from all that may be left
  nagori crash ... --oracle prefix --jobs 2 --findings found --json report.json --junit report.xml
  nagori crash replay found/0123456789ab.json --gdb 1234
      The machine immediately before the store whose loss recovery does not survive
  nagori crash ... --shard 2/8
      The second of eight parts, for eight hosts
  nagori crash merge report*.json --junit report.xml
      One report of those of all parts
  nagori crash ... --recuts 100
      The power fails again while software recovers

Exit codes:
  0    no finding (what was not covered is in the report)
  1    findings
  2    wrong arguments, or an error
  129, 130, 143  ended by a signal

Time:
  After the boot, some 60 recoveries of two million instructions a second on two cores: the
  tutorial of docs/crash.md takes about half a minute, 10,000 recoveries three minutes, and
  larger recoveries in proportion. --budget-time ends the search; so does Ctrl-C, and results
  are written.";

/// Find contents of NVMM after a power cut from which software does not recover.
///
/// Boots once. --setup makes the content of NVMM at the beginning; --workload runs from there, and what it stores,
/// flushes and orders is recorded; --recover and --check run in forks of the machine for each content that a power cut
/// at some point could have left. All commands are those of a shell in the guest; each begins with DRAM as it was after
/// the boot, so a file system is mounted in each of them. docs/crash.md has a tutorial.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct CrashArgs {
    #[command(subcommand)]
    pub command: Option<CrashCommand>,
    #[command(flatten)]
    pub explore: ExploreArgs,
}

/// Other things to do.
#[derive(Debug, Subcommand)]
pub enum CrashCommand {
    Replay(ReplayArgs),
    Merge(MergeArgs),
}

/// Go to the guilty store of a finding.
///
/// Runs the workload of the finding again, which is the same to the instruction, and stops before the store.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A file of --findings, or a report of --json.
    pub finding: PathBuf,
    /// Which finding of a report, by its id [default: the first].
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Which of the finding's stores, counted from 1.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<usize>(..))]
    pub store: usize,
    /// Wait for a debugger at [HOST:]PORT or unix:PATH there [default port: 1234].
    #[arg(long, value_name = "WHERE", num_args = 0..=1, default_missing_value = "1234")]
    pub gdb: Option<String>,
}

/// Make one report of those of all shards.
///
/// The reports are those that --json has written, of the same command with each --shard. What the result says is what a
/// run without --shard would have said, if no budget was used up, but for the number of recoveries: a shard does not
/// know the results of the others. Exit codes are those of an exploration.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The reports of all shards, in any order.
    #[arg(required = true, value_name = "REPORT")]
    pub reports: Vec<PathBuf>,
    #[command(flatten)]
    pub results: ResultArgs,
}

/// Where results go.
#[derive(Debug, Args)]
pub struct ResultArgs {
    /// The report as JSON, `-` for standard output.
    #[arg(long, value_name = "FILE|-", num_args = 0..=1, default_missing_value = "-", help_heading = "Results")]
    pub json: Option<PathBuf>,
    /// The report as JUnit XML.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub junit: Option<PathBuf>,
    /// The report as SARIF 2.1.0.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub sarif: Option<PathBuf>,
    /// In --sarif, give the paths of source files below DIR relative to it, as code scanning needs them: the top of the
    /// repository, where the programs were compiled.
    #[arg(long, value_name = "DIR", requires = "sarif", help_heading = "Results")]
    pub source_root: Option<PathBuf>,
    /// A directory for a file of each finding, for `nagori crash replay`.
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub findings: Option<PathBuf>,
}

/// What is explored.
#[derive(Debug, Args)]
pub struct ExploreArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// How the guest's kernel sees NVMM [default: as the machine's description says].
    #[arg(long, value_name = "HOW", help_heading = "Machine")]
    pub nvmm: Option<Expose>,
    /// Command that makes the content of NVMM before the workload; all of it counts as durable.
    #[arg(long, value_name = "CMD", help_heading = "Commands")]
    pub setup: Option<String>,
    /// Command during which the power is cut.
    #[arg(long, value_name = "CMD", required = true, help_heading = "Commands")]
    pub workload: Option<String>,
    /// Command that recovers.
    #[arg(long, value_name = "CMD", required = true, help_heading = "Commands")]
    pub recover: Option<String>,
    /// Command that checks what was recovered: an exit code other than 0 is a finding. Its output, and that of
    /// --recover, is what --oracle compares.
    #[arg(long, value_name = "CMD", help_heading = "Commands")]
    pub check: Option<String>,
    /// Put a file of this host into the guest: FILE:PATH, where PATH is absolute.
    #[arg(long, value_name = "FILE:PATH", help_heading = "Commands")]
    pub file: Vec<FileArg>,
    /// `prefix`: what recovery and check put out has to be the same as without a crash, before or after the operation
    /// during which the power was cut. Operations end at markers that set a label.
    #[arg(long, value_name = "WHICH", help_heading = "Findings")]
    pub oracle: Option<OracleKind>,
    /// No error if the workload stores nothing to NVMM, so that no power cut can leave anything.
    #[arg(long, help_heading = "Findings")]
    pub allow_empty: bool,
    /// A program for python3 on this host: it gets a JSON object with `output` and `labels` on its standard input after
    /// each recovery that succeeded; an exit code other than 0 is a finding.
    #[arg(long, value_name = "FILE", help_heading = "Findings")]
    pub checker: Option<PathBuf>,
    /// Names of functions, and source lines: an ELF file, loaded ADDR (hexadecimal) above its own addresses, or a list
    /// like /proc/kallsyms. Static programs of --file need none.
    #[arg(
        long = "symbols",
        value_name = "FILE[@ADDR]",
        help_heading = "Findings"
    )]
    pub symbols: Vec<String>,
    /// Where source lines of stripped programs are, as Debian's -dbgsym packages have them: DIR/.build-id/12/345.debug.
    #[arg(
        long,
        value_name = "DIR",
        default_value = crate::profiling::DEBUG,
        help_heading = "Findings"
    )]
    pub debug_dir: PathBuf,
    /// From where on nothing is lost: none, adr, gpf:LINES, eadr [default: the machine's].
    #[arg(long, value_name = "DOMAIN", value_parser = domain, help_heading = "Model")]
    pub domain: Option<Domain>,
    /// `could-have`: every content that the domain and the architecture allow; `as-built`: the one that this machine's
    /// caches would have left, with the timing model.
    #[arg(
        long,
        value_name = "MODE",
        default_value = "could-have",
        help_heading = "Model"
    )]
    pub mode: ModeKind,
    /// Order in which stores of a hart take effect: as RVWMO promises, or as they were committed.
    #[arg(
        long,
        value_name = "ORDER",
        default_value = "rvwmo",
        help_heading = "Model"
    )]
    pub order: OrderKind,
    /// A flush has ended with its instruction, as on this machine, and needs no fence.
    #[arg(long, help_heading = "Model")]
    pub flush_waits: bool,
    /// Where the power is cut: before fences, flushes, markers.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "fences,flushes,markers",
        help_heading = "Search"
    )]
    pub point: Vec<PointArg>,
    /// Each recovery boots the machine from reset, instead of running in a machine that has booted with the content of
    /// NVMM after --setup.
    #[arg(long, help_heading = "Search")]
    pub from_reset: bool,
    /// Recoveries at a time [default: one for each core of the host]. The report does not depend on it.
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..=1024), help_heading = "Search")]
    pub jobs: Option<u32>,
    /// Only the Ith of N parts of the cuts.
    #[arg(long, value_name = "I/N", value_parser = shard, help_heading = "Search")]
    pub shard: Option<(u32, u32)>,
    /// At most so many recoveries. The report says what was not covered.
    #[arg(long, value_name = "N", value_parser = count::<u64>(1..), help_heading = "Search")]
    pub budget_states: Option<u64>,
    /// End the search as soon as some content fails, and its cause is known: for whoever wants to know only whether
    /// there is one. The report says what was not covered.
    #[arg(long, help_heading = "Search")]
    pub fail_fast: bool,
    /// End the search after so many seconds of this host's time. The report says what was not covered, and differs from
    /// run to run.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Search")]
    pub budget_time: Option<f64>,
    /// Cuts with at most so many undecided lines are searched exhaustively.
    #[arg(long, value_name = "LINES", default_value_t = 12, value_parser = count::<u32>(..=30),
          help_heading = "Search")]
    pub exhaustive: u32,
    /// Go on from contents that fail: what else may be lost in addition. It mostly fails for the same cause.
    #[arg(long, help_heading = "Search")]
    pub beyond_failures: bool,
    /// So many random contents are tried of cuts with more undecided lines, besides those with up to two lines lost or
    /// kept.
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Search", value_parser = count::<u32>(..))]
    pub random: u32,
    /// Seed of the random contents.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Search", value_parser = seed)]
    pub seed: u64,
    /// Cut the power a second time, during --recover, and recover again: of so many recoveries that store to NVMM, one
    /// of all that read the same. The report says of how many there are.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        conflicts_with = "from_reset",
        help_heading = "Search",
        value_parser = count::<u32>(..)
    )]
    pub recuts: u32,
    /// Guest time of --setup and --workload, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds, help_heading = "Search")]
    pub timeout: f64,
    /// Guest time of a recovery with its check, in seconds; more is a hang, and a finding.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds, help_heading = "Search")]
    pub hang: f64,
    #[command(flatten)]
    pub results: ResultArgs,
    /// Engine that runs setup and recoveries; results are the same [default: the translator, if the host has one].
    #[arg(long, value_name = "ENGINE", help_heading = "Search")]
    pub engine: Option<EngineKind>,
    #[command(flatten)]
    pub devices: DeviceArgs,
    /// Root file system: a name or file as `nagori boot --rootfs` takes it, or `none` for the smallest, with busybox.
    #[arg(
        long,
        value_name = "NAME|FILE|none",
        default_value = "none",
        help_heading = "Software"
    )]
    pub rootfs: String,
    #[command(flatten)]
    pub modules: ModulesArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
}

/// What the output of a recovery has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OracleKind {
    /// As after one of two prefixes of the workload.
    Prefix,
}

/// Which contents are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeKind {
    /// All that are allowed.
    CouldHave,
    /// The content that this machine leaves.
    AsBuilt,
}

/// Order of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OrderKind {
    /// As RVWMO promises.
    Rvwmo,
    /// As committed.
    Commit,
}

/// Where the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PointArg {
    /// Before fences.
    Fences,
    /// Before flushes.
    Flushes,
    /// At markers.
    Markers,
}

impl ExploreArgs {
    /// Where the power is cut.
    pub fn points(&self) -> Points {
        let has = |p| self.point.contains(&p);
        Points {
            fences: has(PointArg::Fences),
            flushes: has(PointArg::Flushes),
            markers: has(PointArg::Markers),
        }
    }

    /// The rules, on a machine of a domain.
    pub fn model(&self, own: Domain) -> Model {
        let mut model = Model::new(self.domain.unwrap_or(own));
        model.order = match self.order {
            OrderKind::Rvwmo => Order::Rvwmo,
            OrderKind::Commit => Order::Commit,
        };
        model.mode = match self.mode {
            ModeKind::CouldHave => Mode::CouldHave,
            ModeKind::AsBuilt => Mode::AsBuilt,
        };
        model.flush_waits = self.flush_waits;
        model
    }
}

fn domain(text: &str) -> Result<Domain, String> {
    let lines = text.strip_prefix("gpf:");
    let lines = lines.and_then(|n| nagori_values::count(n, ..).ok());
    match (text, lines) {
        ("none", _) => Ok(Domain::None),
        ("adr", _) => Ok(Domain::Adr),
        ("eadr", _) => Ok(Domain::Eadr),
        (_, Some(lines)) => Ok(Domain::Gpf {
            lines,
            choice: GpfChoice::Any,
        }),
        _ => Err("expected none, adr, eadr, or gpf:LINES".into()),
    }
}

fn shard(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('/');
    let parts = parts.and_then(|(i, n)| Some((count(..)(i).ok()?, count(..)(n).ok()?)));
    match parts {
        Some((i, n)) if 1 <= i && i <= n => Ok((i, n)),
        _ => Err("expected I/N, with I from 1 to N".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_refused() {
        assert_eq!(shard("2/8"), Ok((2, 8)));
        for bad in ["0/8", "9/8", "1", "1/", "a/b", "1/0"] {
            assert!(shard(bad).is_err(), "{bad}");
        }
        assert_eq!(domain("adr"), Ok(Domain::Adr));
        assert!(matches!(domain("gpf:7"), Ok(Domain::Gpf { lines: 7, .. })));
        assert!(domain("gpf").is_err() && domain("gpf:x").is_err() && domain("dram").is_err());
    }
}
