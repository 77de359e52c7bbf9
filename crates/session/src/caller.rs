//! What a run tells whoever has started it, and what it asks.

use crate::error::{Interrupted, Result};
use nagori_image::Progress;
use std::os::fd::BorrowedFd;

/// A piece of work that takes its time on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// A boot that is made once and kept begins; it is of this.
    Boot(&'a str),
    /// An image is being built; told for each part of it.
    Image(&'a Progress),
    /// The work is over.
    Done,
}

/// Whoever has started a run: takes messages for people, and may end it. This crate prints nothing itself, and
/// catches no signals.
///
/// Every method has a default: silence and patience, which is what `()` offers.
pub trait Caller: Sync {
    /// Something that has happened as it should.
    fn note(&self, _text: &str) {}

    /// Something that the user should know.
    fn warning(&self, _text: &str) {}

    /// How far long work is.
    fn progress(&self, _step: Step<'_>) {}

    /// Whether the work is to end, and by which signal. It is asked between slices of guest time.
    fn interrupted(&self) -> Option<u8> {
        None
    }

    /// Goes on as if no signal had come: it was passed on to the program in the guest.
    fn forget(&self) {}

    /// What becomes readable when [`Caller::interrupted`] changes, so that a run that waits is woken. Without it
    /// such a run wakes by itself now and then, and asks.
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Does work in other programs of the host; a signal should end these, too.
    fn outside(&self, work: &mut dyn FnMut()) {
        work();
    }
}

impl Caller for () {}

/// An error if the caller wants the work to end.
pub(crate) fn check(caller: &dyn Caller) -> Result<()> {
    match caller.interrupted() {
        Some(n) => Err(Interrupted(n).into()),
        None => Ok(()),
    }
}

/// Does work in other programs. It is an error that the caller wants an end, whatever the work says.
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
