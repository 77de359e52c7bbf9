//! Runs of a machine: build it, connect disks, folders, networks and consoles, boot or restore it,
//! run it with services of the host around it, run programs in it, and collect their costs.
//!
//! The `nagori` command is one user of this crate; docs/library.md explains it to others. A program
//! under a delay method:
//!
//! ```no_run
//! use nagori_session::program::Program;
//! use nagori_session::{Method, Session};
//!
//! let session = Session::builder("vc707").boot()?;
//! let run = session.run(Program::new("./sort").arg("1000000").method(Method::Extended))?;
//! println!("{}, exit code {:?}", run.guest_time(), run.exit_code());
//! # Ok::<(), nagori_session::Error>(())
//! ```
//!
//! | level | what it is |
//! |---|---|
//! | [`Session`] | Debian, booted once; every program runs on a machine of its own from there |
//! | [`Job`] and [`guest`] | any software on a machine, with a console |
//! | [`crash`] | contents of NVMM after power cuts from which software does not recover |
//! | [`sampling`] | windows of a run, measured in copies of its machine |
//! | [`record`] | memory traces of the host's own programs |
//! | [`drive`] | the loop around a machine's slices, and the services that take part in it |
//!
//! Nothing here prints, and no signal is caught: the user of the crate receives messages through a
//! [`Caller`], and ends a run through it. What happens in the guest does not depend on any of this.
#![forbid(unsafe_code)]

mod caller;
mod choice;
pub mod crash;
pub mod devices;
mod disks;
pub mod drive;
mod end;
mod error;
pub mod guest;
pub mod image;
pub mod nvmm;
mod port;
pub mod power;
pub mod problems;
pub mod program;
pub mod record;
pub mod rtc;
mod running;
pub mod sampling;
mod session;
pub mod snapshot;
pub mod software;
pub mod words;

pub use caller::{check, Caller, Step};
pub use choice::MachineChoice;
pub use end::{End, END_OF_TIME};
pub use error::{Error, Foreign, Interrupted, Result};
pub use guest::Job;
pub use nagori_machine::{Engine, Machine, Report};
pub use nagori_memtime::{Method, Ps};
pub use port::{Capture, Event, Port};
pub use running::Running;
pub use session::{Builder, Options, Placement, Rootfs, Session};
