//! Fids as saved, and the flags with which their files are open.

use crate::folder::Kind;
use crate::message::number::open;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// A fid as saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedFid {
    pub fid: u32,
    /// Names from the root; `None` if it no longer had a name.
    pub names: Option<Vec<Vec<u8>>>,
    pub kind: Kind,
    pub number: u64,
    /// Flags, if it was open.
    pub open: Option<u32>,
}

impl SavedFid {
    pub fn name(&self) -> String {
        match &self.names {
            Some(names) => String::from_utf8_lossy(&names.join(&b'/')).into_owned(),
            None => "(a removed file)".into(),
        }
    }
}

/// The host's flags for those of a guest; `EINVAL` for neither reading nor writing.
pub(crate) fn open_flags(flags: u32) -> Result<OFlags, Errno> {
    let mut host = match flags & open::ACCESS {
        0 => OFlags::RDONLY,
        open::WRITE => OFlags::WRONLY,
        open::READ_WRITE => OFlags::RDWR,
        _ => return Err(Errno::INVAL),
    };
    for (bit, flag) in [
        (open::TRUNCATE, OFlags::TRUNC),
        (open::APPEND, OFlags::APPEND),
        (open::DSYNC, OFlags::DSYNC),
        (open::DIRECTORY, OFlags::DIRECTORY),
    ] {
        if flags & bit != 0 {
            host |= flag;
        }
    }
    if flags & open::SYNC != 0 {
        host |= OFlags::SYNC;
    }
    Ok(host)
}
