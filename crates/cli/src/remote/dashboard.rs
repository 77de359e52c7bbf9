//! A page that shows a machine while it runs: the Python package asks the control socket, and serves the page.

use super::control::Control;
use crate::python;
use anyhow::Context;
use nagori_machine::{Machine, Stop};
use nagori_session::drive::{Service, Wishes};
use nagori_session::{Caller, Result};
use rustix::event::PollFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A control socket of its own, with the process that asks it.
pub struct Dashboard<'a> {
    control: Control<'a>,
    page: Child,
    directory: PathBuf,
}

impl<'a> Dashboard<'a> {
    /// Begins to serve the page at a port of this host; 0 is any that is free. Its address goes to stderr.
    pub fn start(port: u16, resets: bool, caller: &'a dyn Caller) -> anyhow::Result<Dashboard<'a>> {
        let directory = std::env::temp_dir().join(format!("nagori-{}", std::process::id()));
        std::fs::create_dir(&directory)
            .with_context(|| format!("--dashboard: cannot make {}", directory.display()))?;
        Self::within(&directory, port, resets, caller).inspect_err(|_| remove(&directory))
    }

    fn within(
        directory: &Path,
        port: u16,
        resets: bool,
        caller: &'a dyn Caller,
    ) -> anyhow::Result<Dashboard<'a>> {
        let socket = directory.join("control");
        let control = Control::bind(&socket, resets, caller)?;
        let mut command = python::module("nagori.dashboard");
        command.arg(&socket).arg("--port").arg(port.to_string());
        // The guest has standard output for itself, and the terminal's input.
        command.stdin(Stdio::null()).stdout(std::io::stderr());
        let page = command.spawn().map_err(|e| python::missing(&command, e))?;
        Ok(Dashboard {
            control,
            page,
            directory: directory.to_owned(),
        })
    }
}

fn remove(directory: &Path) {
    // What is left in the directory for temporary files does no harm.
    let _ = std::fs::remove_dir_all(directory);
}

impl Drop for Dashboard<'_> {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.page.kill();
        let _ = self.page.wait();
        remove(&self.directory);
    }
}

impl Service for Dashboard<'_> {
    fn sources<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        self.control.sources(to);
    }

    fn before(&mut self, machine: &mut Machine, wishes: &mut Wishes) -> Result<()> {
        self.control.before(machine, wishes)
    }

    fn after(&mut self, machine: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        self.control.after(machine, stop, wishes)
    }
}
