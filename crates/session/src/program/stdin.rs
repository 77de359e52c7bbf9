//! Sources of a program's input.

use crate::error::{Context, Result};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Cursor, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// A program's input, before it is opened; a program that is started again reads it from its
/// beginning.
#[derive(Debug, Clone, Default)]
pub enum Stdin {
    /// No input.
    #[default]
    None,
    /// A file of the host.
    File(PathBuf),
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// An open file of the host, from its present position: its content is available whenever the
    /// program reads.
    Open(Arc<OwnedFd>),
    /// A pipe, terminal or socket of the host, whose input arrives at any time: runs may then
    /// differ.
    Live(Arc<OwnedFd>),
}

/// An open input.
#[derive(Debug)]
pub(crate) enum Input {
    /// No input, or no more.
    None,
    /// Its content is available whenever the program reads.
    File(File),
    /// Bytes that are available whenever the program reads.
    Bytes(Cursor<Arc<[u8]>>),
    /// Input that arrives at any time.
    Live(Arc<OwnedFd>),
}

impl Stdin {
    /// Whether there is an input.
    pub fn is_some(&self) -> bool {
        !matches!(self, Stdin::None)
    }

    pub(crate) fn open(&self) -> Result<Input> {
        Ok(match self {
            Stdin::None => Input::None,
            Stdin::Bytes(b) => Input::Bytes(Cursor::new(b.clone())),
            Stdin::Live(fd) => Input::Live(fd.clone()),
            Stdin::File(p) => {
                Input::File(File::open(p).with_context(|| format!("--stdin {}", p.display()))?)
            }
            Stdin::Open(fd) => {
                let fd = fd.try_clone().context("cannot read standard input")?;
                Input::File(File::from(fd))
            }
        })
    }

    /// From the beginning, even if it has been read before.
    pub(crate) fn open_again(&self) -> Result<Input> {
        let mut input = self.open()?;
        if let Input::File(f) = &mut input {
            f.rewind().context("cannot read the input again")?;
        }
        Ok(input)
    }
}

/// The input available at this moment; `None`: nothing now, but it may arrive.
pub(super) fn read_now(fd: BorrowedFd<'_>, to: &mut [u8]) -> Result<Option<usize>> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(0) | Err(Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(e) => return Err(std::io::Error::from(e)).context("cannot wait for input"),
    }
    match rustix::io::read(fd.as_fd(), to) {
        Ok(n) => Ok(Some(n)),
        Err(Errno::INTR | Errno::AGAIN) => Ok(None),
        // A terminal that was closed.
        Err(Errno::IO) => Ok(Some(0)),
        Err(e) => Err(std::io::Error::from(e)).context("cannot read input"),
    }
}
