//! The `nagori` command.
#![forbid(unsafe_code)]

mod args;
mod bare;
mod bench;
mod boot;
mod console;
mod devices;
mod disasm;
mod drive;
mod guest;
mod host;
mod image;
mod machine;
mod mem;
mod output;
mod perfmap;
mod plot;
mod power;
mod problems;
mod profiling;
mod remote;
mod rtc;
mod run;
mod sample;
mod signals;
mod snapshot;
mod tables;
mod trace;

use args::{Cli, Command};
use clap::Parser;
use output::Exit;
use signals::Signals;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
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
    let result = match &cli.command {
        Command::Run(a) => run::command(a, &out),
        Command::Compare(a) => run::compare(a, &out),
        Command::Boot(a) => boot::command(a, &out),
        Command::Bare(a) => bare::command(a, &out),
        Command::Disasm(a) => disasm::command(a),
        Command::Machine(a) => machine::command(a),
        Command::Image(a) => image::command(a, &out),
        Command::Bench(a) => bench::command(a, &out),
        Command::Resume(a) => snapshot::resume(a, &out),
        Command::Snapshot(a) => snapshot::command(a, &out),
        Command::Ctl(a) => remote::ctl::command(a),
        Command::Mem(a) => mem::command(a, &out),
    };
    match result {
        Ok(Exit(code)) => ExitCode::from(code),
        // The reader of our output has gone: nobody is left to tell.
        Err(e) if output::is_broken_pipe(&e) => ExitCode::from(output::BROKEN_PIPE),
        Err(e) => match signals::interrupted(&e) {
            Some(n) => {
                out.note(&format!("ended by signal {n}"));
                ExitCode::from(output::SIGNAL.saturating_add(n))
            }
            None => {
                out.error(&e);
                ExitCode::FAILURE
            }
        },
    }
}
