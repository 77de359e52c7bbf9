//! The interface to whoever has started a run: messages, progress, and the wish to end.

use crate::error::{Interrupted, Result};
use nagori_image::Progress;
use nagori_machine::Machine;
use std::os::fd::BorrowedFd;

/// A long piece of work on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// A boot that will be cached begins; with what is booted.
    Boot(&'a str),
    /// An image is being built; reported for each part of it.
    Image(&'a Progress),
    /// The work is finished.
    Done,
}

/// The user of this crate who has started a run: receives messages, and may end the run. This crate
/// prints nothing itself, and catches no signals.
///
/// Every method has a default that ignores messages and never ends a run; `()` uses these defaults.
pub trait Caller: Sync {
    /// An event that went as expected.
    fn note(&self, _text: &str) {}

    /// A warning for the user.
    fn warning(&self, _text: &str) {}

    /// Progress of long work.
    fn progress(&self, _step: Step<'_>) {}

    /// Whether the work is to end, and by which signal. It is called between slices of guest time.
    fn interrupted(&self) -> Option<u8> {
        None
    }

    /// Continues as if no signal had arrived: it was passed on to the program in the guest.
    fn forget(&self) {}

    /// The descriptor that becomes readable when [`Caller::interrupted`] changes, so that a waiting
    /// run is woken. Without one, a waiting run wakes regularly and asks.
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// A machine is there whose run is what was asked for, and has not begun: the place for what the caller brings
    /// along ([`Machine::bring_memory`]).
    fn machine(&self, _machine: &mut Machine) -> Result<()> {
        Ok(())
    }

    /// Does work in other programs of the host; a signal should end these, too.
    fn outside(&self, work: &mut dyn FnMut()) {
        work();
    }
}

impl Caller for () {}

/// An error if the caller wants the work to end.
pub fn check(caller: &dyn Caller) -> Result<()> {
    match caller.interrupted() {
        Some(n) => Err(Interrupted(n).into()),
        None => Ok(()),
    }
}

/// Does work in other programs. If the caller wants an end, that is the error, whatever the work
/// returns.
pub(crate) fn outside<T>(caller: &dyn Caller, work: impl FnOnce() -> Result<T>) -> Result<T> {
    check(caller)?;
    let (mut work, mut done) = (Some(work), None);
    caller.outside(&mut || {
        if let Some(work) = work.take() {
            done = Some(work());
        }
    });
    check(caller)?;
    done.unwrap_or_else(|| {
        Err(crate::Error::Request(
            "the caller did not do the work".into(),
        ))
    })
}
