//! The `nagori` command.
#![forbid(unsafe_code)]

mod args;
mod bare;
mod bench;
mod boot;
mod commands;
mod console;
mod crash;
mod disasm;
mod guest;
mod hints;
mod host;
mod image;
mod iomap;
mod machine;
mod mem;
mod native;
mod numbers;
mod nvmm;
mod off2f;
mod output;
mod perfmap;
mod plot;
mod profiling;
mod remote;
mod run;
mod sample;
mod signals;
mod snapshot;
mod tables;
mod trace;

use clap::{CommandFactory, Parser};
use commands::Cli;
use output::Exit;
use signals::Signals;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|e| {
        let lossy = |a: OsString| a.to_string_lossy().into_owned();
        let arguments: Vec<_> = std::env::args_os().skip(1).map(lossy).collect();
        hints::hinted(e, &Cli::command(), &arguments).exit()
    });
    let signals = match cli.command.is_long() {
        true => Signals::catch(),
        false => Signals::uncaught(),
    };
    let signals = match signals {
        Ok(signals) => signals,
        Err(e) => {
            eprintln!("error: {e:#}");
            return ExitCode::FAILURE;
        }
    };
    let out = output::Messages::new(cli.quiet, signals);
    match cli.command.run(&out) {
        Ok(Exit(code)) => ExitCode::from(code),
        // The reader of our output is gone: there is nobody to tell.
        Err(e) if output::is_broken_pipe(&e) => ExitCode::from(output::BROKEN_PIPE),
        Err(e) => match signals::interrupted(&e) {
            Some(n) => {
                out.note(&format!("ended by signal {n}"));
                ExitCode::from(output::SIGNAL.saturating_add(n))
            }
            None => {
                out.error(&e);
                ExitCode::from(output::code(&e))
            }
        },
    }
}
