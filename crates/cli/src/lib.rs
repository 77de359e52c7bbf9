//! The `nagori` command, as a library: the program calls [`command`], other programs also [`library`].
#![forbid(unsafe_code)]

mod args;
mod axes;
mod bare;
mod boot;
mod cache;
mod commands;
mod console;
mod crash;
mod disasm;
mod doctor;
mod figures;
mod guest;
mod hints;
mod host;
mod image;
mod iomap;
pub mod library;
mod machine;
mod mem;
mod native;
mod nvmm;
mod off2f;
mod perfmap;
mod profiling;
mod python;
mod remote;
mod report;
mod run;
mod run_times;
mod sampling;
mod snapshot;
mod suite;
mod sweep;
mod trace;
mod window;

use clap::{CommandFactory, Parser};
use commands::Cli;
use nagori_terminal::output::{self, Exit};
use nagori_terminal::signals::{self, Signals};
use std::ffi::OsString;

/// Exit code of what could not begin.
const FAILURE: u8 = 1;

/// Does what these arguments say, the first of which is the program's name; returns the exit code. If they are wrong,
/// or ask for help, the process ends here.
pub fn command(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = Cli::try_parse_from(&args).unwrap_or_else(|e| {
        let lossy = |a: &OsString| a.to_string_lossy().into_owned();
        let arguments: Vec<_> = args.iter().skip(1).map(lossy).collect();
        hints::hinted(e, &Cli::command(), &arguments).exit()
    });
    let signals = if cli.command.is_long() {
        Signals::catch()
    } else {
        Signals::uncaught()
    };
    let signals = match signals {
        Ok(signals) => signals,
        Err(e) => {
            eprintln!("error: {e:#}");
            return FAILURE;
        }
    };
    let out = output::Messages::new(cli.quiet, signals);
    match cli.command.run(&out) {
        Ok(Exit(code)) => code,
        // The reader of our output is gone: there is nobody to tell.
        Err(e) if output::is_broken_pipe(&e) => output::BROKEN_PIPE,
        Err(e) => match signals::interrupted(&e) {
            Some(n) => {
                out.note(&format!("ended by signal {n}"));
                output::SIGNAL.saturating_add(n)
            }
            None => {
                out.error(&e);
                output::code(&e)
            }
        },
    }
}
