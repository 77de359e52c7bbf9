//! Ways into a running machine from outside: the control socket and its client, debuggers.

mod control;
pub mod ctl;
mod gdb;
mod parameters;

pub use control::Control;
pub use gdb::Gdb;
