//! Access to a running machine from outside: the control socket and its client, debuggers.

mod control;
pub mod ctl;
mod dashboard;
mod gdb;
mod parameters;

use crate::args::InspectArgs;
use control::Control;
use dashboard::Dashboard;
use gdb::Gdb;
use nagori_machine::Machine;
use nagori_session::drive::BoxedService;
use nagori_terminal::output::Messages;
use serde_json::Value;

/// The services that may hold a machine, according to the arguments. `resets`: whether the
/// machine's software can be loaded again.
pub fn services<'a>(
    a: &InspectArgs,
    resets: bool,
    messages: &'a Messages,
) -> anyhow::Result<Vec<BoxedService<'a>>> {
    let mut all: Vec<BoxedService<'a>> = Vec::new();
    if let Some(at) = &a.gdb {
        all.push(Box::new(
            Gdb::bind(at, !a.gdb_no_wait, messages)?.run_on(a.gdb_run_on),
        ));
    }
    if let Some(path) = &a.control {
        all.push(Box::new(Control::bind(path, resets, messages)?));
    }
    if let Some(port) = a.dashboard {
        all.push(Box::new(Dashboard::start(port, resets, messages)?));
    }
    Ok(all)
}

/// Asks a machine that nobody else holds; the answer to a method that changes how it runs would be of no use.
pub fn ask(machine: &mut Machine, method: &str, parameters: Value) -> Result<Value, String> {
    control::ask(machine, method, parameters)
}

/// A debugger's door; the machine waits for it, and it looks at this hart first.
pub fn debugger<'a>(
    at: &str,
    hart: usize,
    messages: &'a Messages,
) -> anyhow::Result<BoxedService<'a>> {
    Ok(Box::new(Gdb::bind(at, true, messages)?.at_hart(hart)))
}
