//! The command line: the list of commands. Their options are defined beside them.

use crate::args::EXIT_CODES;
use crate::bare::BareArgs;
use crate::boot::BootArgs;
use crate::cache::CacheCommand;
use crate::crash::args::CrashArgs;
use crate::disasm::DisasmArgs;
use crate::doctor::DoctorArgs;
use crate::image::args::ImageCommand;
use crate::iomap::IomapCommand;
use crate::machine::MachineCommand;
use crate::mem::args::MemCommand;
use crate::native::NativeArgs;
use crate::nvmm::NvmmCommand;
use crate::off2f::Off2fCommand;
use crate::remote::ctl::CtlArgs;
use crate::report::ReportArgs;
use crate::run::{CompareArgs, RunProgramArgs};
use crate::snapshot::{ResumeArgs, SnapshotCommand};
use crate::suite::SuiteCommand;
use crate::sweep::SweepArgs;
use crate::window::WindowCommand;
use crate::{
    bare, boot, cache, crash, disasm, doctor, image, iomap, machine, mem, native, nvmm, off2f,
    remote, report, run, snapshot, suite, sweep, window,
};
use clap::{Parser, Subcommand};
use nagori_bench::BenchArgs;
use nagori_terminal::output::{Exit, Messages};

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
    Run(RunProgramArgs),
    Compare(Box<CompareArgs>),
    Report(ReportArgs),
    Boot(BootArgs),
    Resume(ResumeArgs),
    Bare(BareArgs),
    Disasm(DisasmArgs),
    #[command(subcommand)]
    Machine(MachineCommand),
    #[command(subcommand)]
    Image(ImageCommand),
    #[command(subcommand)]
    Cache(CacheCommand),
    Doctor(DoctorArgs),
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    Bench(BenchArgs),
    Ctl(CtlArgs),
    #[command(subcommand)]
    Mem(MemCommand),
    Nvmm(NvmmCommand),
    Crash(Box<CrashArgs>),
    Off2f(Off2fCommand),
    #[command(subcommand)]
    Iomap(IomapCommand),
    Native(Box<NativeArgs>),
    #[command(subcommand)]
    Suite(Box<SuiteCommand>),
    Sweep(SweepArgs),
    #[command(subcommand)]
    Window(WindowCommand),
}

impl Command {
    /// Whether it runs for long, and has to clean up when a signal ends it.
    pub fn is_long(&self) -> bool {
        match self {
            Command::Run(_) | Command::Compare(_) | Command::Boot(_) | Command::Resume(_) => true,
            Command::Bare(_) | Command::Bench(_) | Command::Mem(_) => true,
            Command::Window(_) => true,
            // It reads or writes whole images.
            Command::Nvmm(_) => true,
            Command::Crash(_) => true,
            Command::Native(a) => a.is_long(),
            Command::Suite(c) => matches!(**c, SuiteCommand::Run(_)),
            Command::Image(c) => {
                !matches!(c, ImageCommand::List { .. } | ImageCommand::Verify { .. })
            }
            Command::Snapshot(c) => matches!(c, SnapshotCommand::Boot { .. }),
            Command::Disasm(_) | Command::Machine(_) | Command::Ctl(_) | Command::Iomap(_) => false,
            Command::Off2f(_) | Command::Cache(_) | Command::Doctor(_) | Command::Report(_) => {
                false
            }
            // Another program takes its place.
            Command::Sweep(_) => false,
        }
    }

    /// Runs the command.
    pub fn run(&self, out: &Messages) -> anyhow::Result<Exit> {
        match self {
            Command::Run(a) => run::command(a, out),
            Command::Compare(a) => run::compare(a, out),
            Command::Report(a) => report::command(a, out),
            Command::Boot(a) => boot::command(a, out),
            Command::Bare(a) => bare::command(a, out),
            Command::Disasm(a) => disasm::command(a),
            Command::Machine(a) => machine::command(a),
            Command::Image(a) => image::command(a, out),
            Command::Cache(a) => cache::command(a, out),
            Command::Doctor(a) => doctor::command(a),
            Command::Bench(a) => nagori_bench::command(a, out),
            Command::Resume(a) => snapshot::resume(a, out),
            Command::Snapshot(a) => snapshot::command(a, out),
            Command::Ctl(a) => remote::ctl::command(a),
            Command::Mem(a) => mem::command(a, out),
            Command::Nvmm(a) => nvmm::command(a, out),
            Command::Crash(a) => crash::command(a, out),
            Command::Off2f(a) => off2f::command(a, out),
            Command::Iomap(a) => iomap::command(a, out),
            Command::Native(a) => native::command(a, out),
            Command::Suite(c) => suite::command(c, out),
            Command::Sweep(a) => sweep::command(a),
            Command::Window(c) => window::command(c, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Every command below one.
    fn all(command: &clap::Command) -> Vec<&clap::Command> {
        let below = command.get_subcommands().flat_map(all);
        std::iter::once(command).chain(below).collect()
    }

    #[test]
    fn options_have_no_names_that_help_does_not_show() {
        let cli = Cli::command();
        for command in all(&cli) {
            for arg in command.get_arguments() {
                let names = arg.get_all_aliases();
                assert_eq!(names, arg.get_visible_aliases(), "{}", command.get_name());
            }
        }
    }

    /// Calls `f` with the words of each command and the command.
    fn commands(words: &[String], c: &clap::Command, f: &mut dyn FnMut(&[String], &clap::Command)) {
        f(words, c);
        for sub in c.get_subcommands() {
            let words = [words, &[sub.get_name().to_string()]].concat();
            commands(&words, sub, f);
        }
    }

    /// Whatever option asks for a number reads it with the parsers of `terminal`: what is none is told in words, and
    /// `1e1` is ten.
    #[test]
    fn every_option_reads_numbers_alike() {
        let cli = Cli::command();
        let mut seen = 0;
        commands(&["nagori".into()], &cli, &mut |words, c| {
            for a in c.get_arguments().filter(|a| a.get_action().takes_values()) {
                let Some(long) = a.get_long() else { continue };
                let told = |value: &str| {
                    let option = format!("--{long}={value}");
                    let all = words.iter().cloned().chain([option.clone()]);
                    let e = Cli::try_parse_from(all).err().map(|e| e.to_string());
                    (option, e.unwrap_or_default())
                };
                let (option, e) = told("abc");
                for jargon in ["invalid digit", "invalid float", "is not in "] {
                    assert!(!e.contains(jargon), "{words:?} {option}: {e}");
                }
                if !e.contains("is no number") {
                    continue;
                }
                seen += 1;
                let (option, e) = told("1e1");
                assert!(!e.contains("is no number"), "{words:?} {option}: {e}");
            }
        });
        assert!(seen > 40, "{seen}");
    }
}
