//! Sessions and fids: the state that requests refer to, and what all requests have in common.

use crate::fid::SavedFid;
use crate::folder::{Folder, Kind, Node};
use crate::listing::{qid_kind, Listing};
use crate::message::{Header, Reply, Request};
use crate::numbers::Numbers;
use crate::wire::{Qid, WireError};
use crate::Error;
use rustix::fs::Stat;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Limits of what a client can make the server hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message, at least 4096.
    pub msize: u32,
    /// Fids; each takes one or two of the process's open files.
    pub fids: usize,
    /// Bytes of all directory listings together.
    pub listings: usize,
    /// Files whose numbers are remembered, about 50 bytes each.
    pub numbers: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            msize: 512 << 10,
            fids: 4096,
            listings: 64 << 20,
            numbers: 1 << 18,
        }
    }
}

/// Smaller messages cannot hold a name and a path.
pub(crate) const MIN_MSIZE: u32 = 4096;

/// A fid that was opened.
#[derive(Debug)]
pub(crate) struct Open {
    pub file: OwnedFd,
    /// Flags as given by the guest.
    pub flags: u32,
    /// The listing of a directory, once it has been read from.
    pub listing: Option<Listing>,
}

/// What a fid refers to.
#[derive(Debug)]
pub(crate) enum Held {
    Here {
        node: Arc<Node>,
        open: Option<Open>,
    },
    /// Restored, and not found (yet): `ESTALE`.
    Away(SavedFid),
}

#[derive(Debug)]
pub(crate) struct Fid {
    /// The number of the file, for its qid.
    pub number: u64,
    pub held: Held,
}

/// A 9P2000.L server for one client.
#[derive(Debug)]
pub struct Server {
    pub(crate) limits: Limits,
    pub(crate) folder: Option<Folder>,
    /// Message size of the session; 0 before there is one.
    pub(crate) msize: u32,
    pub(crate) fids: BTreeMap<u32, Fid>,
    pub(crate) numbers: Numbers,
}

impl Server {
    /// A server without a folder: a session can begin, but there is nothing to attach to
    /// (`ENODEV`).
    pub fn new(limits: Limits) -> Server {
        Server {
            limits: Limits {
                msize: limits.msize.max(MIN_MSIZE),
                ..limits
            },
            folder: None,
            msize: 0,
            fids: BTreeMap::new(),
            numbers: Numbers::new(limits.numbers),
        }
    }

    /// Gives the server its folder. Fids of a restored state are looked up by their names; returned
    /// are the names of those that do not exist, or are of another kind, and for which the guest
    /// gets `ESTALE`.
    pub fn connect(&mut self, folder: Folder) -> Result<Vec<String>, Error> {
        if self.folder.is_some() {
            return Err(Error::Connected);
        }
        self.folder = Some(folder);
        Ok(self.find_again())
    }

    /// Whether there is a folder.
    pub fn connected(&self) -> bool {
        self.folder.is_some()
    }

    /// Whether the folder may be written; false without one.
    pub fn writable(&self) -> bool {
        self.folder.as_ref().is_some_and(|f| f.writable)
    }

    /// Number of fids in use.
    pub fn fids(&self) -> usize {
        self.fids.len()
    }

    /// Largest request that is accepted, and largest reply.
    pub fn msize(&self) -> u32 {
        match self.msize {
            0 => self.limits.msize,
            n => n,
        }
    }

    /// Ends the session, as when the client's machine is reset. Only the folder remains.
    pub fn reset(&mut self) {
        self.msize = 0;
        self.fids.clear();
        self.numbers = Numbers::new(self.limits.numbers);
    }

    /// Answers a request; the content of `reply` is replaced. The only error is a request so short
    /// that it has no tag, which cannot be answered.
    pub fn handle(&mut self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), WireError> {
        let tag = Header::of(request)?.tag;
        let result = match Request::decode(request) {
            _ if request.len() > self.msize() as usize => Err(Errno::MSGSIZE),
            Ok((tag, request)) => self.answer(tag, request, reply),
            Err(WireError::Type(_)) => Err(Errno::OPNOTSUPP),
            Err(_) => Err(Errno::PROTO),
        };
        let result = match result {
            Ok(()) if reply.len() > self.msize() as usize => Err(Errno::MSGSIZE),
            other => other,
        };
        if let Err(errno) = result {
            let code = errno.raw_os_error() as u32;
            Reply::Error { code }.encode(tag, reply);
        }
        Ok(())
    }

    pub(crate) fn folder(&self) -> Result<&Folder, Errno> {
        self.folder.as_ref().ok_or(Errno::NODEV)
    }

    /// The folder, if the guest may write to it.
    pub(crate) fn for_writing(&self) -> Result<&Folder, Errno> {
        match self.folder()? {
            f if f.writable => Ok(f),
            _ => Err(Errno::ROFS),
        }
    }

    pub(crate) fn fid(&self, fid: u32) -> Result<(&Arc<Node>, Option<&Open>, u64), Errno> {
        let entry = self.fids.get(&fid).ok_or(Errno::BADF)?;
        match &entry.held {
            Held::Here { node, open } => Ok((node, open.as_ref(), entry.number)),
            Held::Away(_) => Err(Errno::STALE),
        }
    }

    pub(crate) fn node(&self, fid: u32) -> Result<Arc<Node>, Errno> {
        self.fid(fid).map(|(node, ..)| node.clone())
    }

    /// A directory, which must still be in the folder.
    pub(crate) fn directory(&self, fid: u32) -> Result<Arc<Node>, Errno> {
        let node = self.node(fid)?;
        if node.kind != Kind::Directory {
            return Err(Errno::NOTDIR);
        }
        self.folder()?.within(&node)?;
        Ok(node)
    }

    /// The file as which a fid was opened.
    pub(crate) fn opened(&self, fid: u32) -> Result<(&Arc<Node>, &Open), Errno> {
        let (node, open, _) = self.fid(fid)?;
        Ok((node, open.ok_or(Errno::BADF)?))
    }

    /// Makes a fid refer to a node; the fid must be free, or `replacing` itself.
    pub(crate) fn set_fid(
        &mut self,
        fid: u32,
        replacing: Option<u32>,
        node: Arc<Node>,
        number: u64,
    ) -> Result<(), Errno> {
        self.check_free(fid, replacing)?;
        let held = Held::Here { node, open: None };
        self.fids.insert(fid, Fid { number, held });
        Ok(())
    }

    pub(crate) fn check_free(&self, fid: u32, replacing: Option<u32>) -> Result<(), Errno> {
        match self.fids.contains_key(&fid) {
            true if replacing == Some(fid) => Ok(()),
            true => Err(Errno::BADF),
            false if fid == crate::message::NO_FID => Err(Errno::BADF),
            false if self.fids.len() >= self.limits.fids => Err(Errno::NFILE),
            false => Ok(()),
        }
    }

    /// Bytes that remain for listings.
    pub(crate) fn listing_room(&self) -> usize {
        let used = self.fids.values().filter_map(|f| match &f.held {
            Held::Here { open: Some(o), .. } => o.listing.as_ref().map(Listing::bytes),
            _ => None,
        });
        self.limits.listings.saturating_sub(used.sum())
    }
}

/// The qid of a file with these attributes.
pub(crate) fn qid(stat: &Stat, number: u64) -> Qid {
    let time = stat.st_mtime as u64 ^ stat.st_mtime_nsec << 20 ^ (stat.st_size as u64) << 8;
    Qid {
        kind: qid_kind(Kind::of(stat)),
        version: (time ^ time >> 32) as u32,
        path: number,
    }
}
