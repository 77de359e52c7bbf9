//! Arguments of the snapshot commands.

use crate::args::{DeviceArgs, RunArgs};
use clap::{Args, Subcommand};
use nagori_terminal::args::{CacheArgs, MachineArgs, ModulesArgs};
use nagori_terminal::numbers::count;
use std::path::PathBuf;

const RESUME_EXAMPLES: &str = "\
Examples:
  nagori boot --snapshot booted.snap --snapshot-exit     (in the guest: nagori-ctl snapshot)
  nagori resume booted.snap
  nagori resume booted.snap --timed --method fine --stats table
  nagori resume booted.snap --set memory.controller.delays.tras='\"3000 ns\"'

A machine goes on exactly where it was. The engine is free; of the machine's description only
what can be changed while a machine runs: the delay method, and timing and delays of the memory
controller and the board. Media of disks, shared folders and networks belong to the host and are
given again. Firmware and kernel are in the snapshot, so a guest may restart, and its power be cut.

Time:
  The machine goes on about a second after the command; then as for `nagori run` (docs/speed.md).";

/// Continue from a snapshot, with a console in this terminal.
#[derive(Debug, Args)]
#[command(after_long_help = RESUME_EXAMPLES)]
pub struct ResumeArgs {
    /// The snapshot.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Change a value of the description from now on.
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Machine")]
    pub set: Vec<String>,
    /// What the snapshot's devices are connected to, given as they were.
    #[command(flatten)]
    pub devices: DeviceArgs,
    #[command(flatten)]
    pub run_args: RunArgs,
}

const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  nagori resume $(nagori snapshot boot)
  nagori snapshot show booted.snap
  nagori snapshot verify *.snap
  nagori snapshot list
  nagori snapshot prune --keep 4";

const BOOT_TIME: &str = "\
Time:
  A boot takes seconds, as with `nagori boot`; what is cached takes none.";

/// Show and check snapshots; list and remove cached boots.
#[derive(Debug, Subcommand)]
#[command(after_help = SNAPSHOT_EXAMPLES)]
pub enum SnapshotCommand {
    /// Print the path of a snapshot at the first shell; boots if there is none in the cache.
    ///
    /// The boot is Debian's kernel with our initial root file system, as `nagori boot` does it.
    /// The file is found by everything that the boot depends on, so it is never stale.
    #[command(after_long_help = BOOT_TIME)]
    Boot {
        #[command(flatten)]
        machine: MachineArgs,
        /// Added to the kernel's command line.
        #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
        append: Option<String>,
        #[command(flatten)]
        modules: ModulesArgs,
        #[command(flatten)]
        cache: CacheArgs,
    },
    /// Show the header of a snapshot.
    Show {
        /// The snapshot.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// One JSON object: the header.
        #[arg(long)]
        json: bool,
    },
    /// Read snapshots to their ends and check everything in them.
    ///
    /// One line for each; the exit code is 1 if one of them is damaged.
    Verify {
        /// The snapshots.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// List the cached boots, the last used first.
    List {
        #[command(flatten)]
        cache: CacheArgs,
        /// A list of objects.
        #[arg(long)]
        json: bool,
    },
    /// Remove cached boots; they are made again on demand.
    ///
    /// Runs that have started from one continue.
    Prune {
        #[command(flatten)]
        cache: CacheArgs,
        /// Keep this many, those used last.
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = count::<usize>(..))]
        keep: usize,
        /// Remove only those that were not used for this many days.
        #[arg(long, value_name = "DAYS", value_parser = count::<u64>(..))]
        older_than: Option<u64>,
        /// Print what would be removed, and remove nothing.
        #[arg(long)]
        dry_run: bool,
    },
}
