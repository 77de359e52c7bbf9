//! A 9P2000.L server over a folder of the host, as Linux's `v9fs` mounts it.
//!
//! The server takes a request and returns a reply at once; it does not know how they are
//! transported.
//!
//! ```no_run
//! use nagori_ninep::{Folder, Limits, Server};
//! # let request = vec![0u8];
//! let mut server = Server::new(Limits::default());
//! server.connect(Folder::open("results".as_ref(), false)?)?;
//! let mut reply = Vec::new();
//! server.handle(&request, &mut reply)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **What the guest sees.** Names, contents, modes and times of modification are the host's.
//! Everything belongs to user and group 0, whoever owns it on the host; files that the guest
//! creates belong to the user who runs the server. Times of access and of change are shown as those
//! of modification. Files are numbered in the order in which the guest first sees them; directories
//! are listed in the order of names, and have one link and 4096 bytes: a copy of a folder looks the
//! same as the folder. Symbolic links are shown as such: the guest follows them in its own tree.
//!
//! **What it may do.** Only read, unless the folder is writable (`EROFS`). Devices, pipes and
//! sockets can neither be opened (`EACCES`) nor created (`EPERM`); owners cannot be changed, and
//! set-user-ID and set-group-ID bits cannot be set (`EPERM`); there are no extended attributes
//! (`EOPNOTSUPP`). Modes of new files are subject to the host's umask. Locks are granted, and are
//! effective among the guest's programs only.
//!
//! **No path leads out**: see [`folder`].
//!
//! **Memory** is bounded by [`Limits`], whatever the guest does.
#![deny(unsafe_code)]

mod fid;
pub mod folder;
mod listing;
pub mod message;
mod numbers;
mod operations;
mod saved;
mod server;
pub mod wire;

pub use folder::{Folder, FolderError};
pub use message::{Reply, Request};
pub use saved::Saved;
pub use server::{Limits, Server};
pub use wire::WireError;

/// Errors of the host; errors of the guest are answered in replies.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder cannot be shared.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The server already has a folder.
    #[error("the share has a folder already")]
    Connected,
    /// Saved state that no server can have written.
    #[error("state of the share: {0}")]
    State(&'static str),
}
