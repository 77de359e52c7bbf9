//! The operation of each request.

use crate::fid::open_flags;
use crate::folder::{check_name, child, identity, stat_child, Kind, Node};
use crate::listing::Listing;
use crate::message::number::{self, open};
use crate::message::{finish, Reply, Request, DATA_HEADER};
use crate::server::{qid, Held, Open, Server, MIN_MSIZE};
use crate::wire::{Bytes, Names, Qid, Qids, Text};
use rustix::fs::{self, AtFlags, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::fs::{UTIME_NOW, UTIME_OMIT};
use rustix::io::{self, Errno};
use std::sync::Arc;

const DIALECT: &[u8] = b"9P2000.L";
/// Bits of a mode that the guest can set.
const PERMISSIONS: u32 = 0o1777;
/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;
/// Read and write sizes that are reported to programs as preferred.
const BLOCK: u32 = 64 << 10;
/// Reads and writes are bounded by the messages' size only.
const IOUNIT: u32 = 0;

/// A file position that the host's calls accept.
fn position(offset: u64) -> Result<u64, Errno> {
    match i64::try_from(offset) {
        Ok(_) => Ok(offset),
        Err(_) => Err(Errno::INVAL),
    }
}

/// The arguments of a `Setattr`.
struct Attributes {
    valid: u32,
    mode: u32,
    uid: u32,
    gid: u32,
    size: u64,
    atime: (u64, u64),
    mtime: (u64, u64),
}

impl Server {
    /// Carries out a request and encodes the reply, or returns the error.
    pub(crate) fn answer(
        &mut self,
        tag: u16,
        request: Request<'_>,
        to: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        use Request as T;
        if self.msize == 0 && !matches!(request, T::Version { .. }) {
            return Err(Errno::PROTO);
        }
        let reply = match request {
            T::Version { msize, version } => self.version(msize, version)?,
            // There is no authentication; and no request waits, so none can be cancelled.
            T::Auth { .. } => return Err(Errno::OPNOTSUPP),
            T::Flush { .. } => Reply::Flush {},
            T::Attach { fid, aname, .. } => self.attach(fid, aname)?,
            T::Walk { fid, newfid, names } => self.walk(fid, newfid, &names)?,
            T::Clunk { fid } => match self.fids.remove(&fid) {
                Some(_) => Reply::Clunk {},
                None => return Err(Errno::BADF),
            },
            T::Lopen { fid, flags } => self.lopen(fid, flags)?,
            T::Lcreate {
                fid,
                name,
                flags,
                mode,
                ..
            } => self.lcreate(fid, name, flags, mode)?,
            // These write their data directly into the reply.
            T::Read { fid, offset, count } => return self.read(tag, fid, offset, count, to),
            T::Readdir { fid, offset, count } => return self.readdir(tag, fid, offset, count, to),
            T::Write { fid, offset, data } => {
                let (node, open) = self.opened(fid)?;
                self.for_writing()?;
                match node.kind {
                    Kind::File => {}
                    _ => return Err(Errno::ISDIR),
                }
                let count = io::pwrite(&open.file, data.0, position(offset)?)? as u32;
                Reply::Write { count }
            }
            T::Fsync { fid, datasync } => {
                let (_, open) = self.opened(fid)?;
                match datasync {
                    0 => fs::fsync(&open.file)?,
                    _ => fs::fdatasync(&open.file)?,
                }
                Reply::Fsync {}
            }
            T::Getattr { fid, .. } => self.getattr(fid)?,
            T::Setattr {
                fid,
                valid,
                mode,
                uid,
                gid,
                size,
                atime_sec,
                atime_nsec,
                mtime_sec,
                mtime_nsec,
            } => {
                let set = Attributes {
                    valid,
                    mode,
                    uid,
                    gid,
                    size,
                    atime: (atime_sec, atime_nsec),
                    mtime: (mtime_sec, mtime_nsec),
                };
                self.setattr(fid, &set)?
            }
            T::Statfs { fid } => self.statfs(fid)?,
            T::Readlink { fid } => {
                let node = self.node(fid)?;
                if node.kind != Kind::Link {
                    return Err(Errno::INVAL);
                }
                let target = fs::readlinkat(node.fd(), "", Vec::with_capacity(256))?;
                let target = Text(target.as_bytes());
                Reply::Readlink { target }.encode(tag, to);
                return Ok(());
            }
            T::Symlink {
                fid, name, target, ..
            } => {
                let dir = self.change(fid)?;
                if target.0.is_empty() || target.0.contains(&0) {
                    return Err(Errno::INVAL);
                }
                fs::symlinkat(target.0, dir.fd(), check_name(name.0)?)?;
                let qid = self.qid_of(&dir, name)?;
                Reply::Symlink { qid }
            }
            T::Mkdir {
                dfid, name, mode, ..
            } => {
                let dir = self.change(dfid)?;
                // The host passes on the group's bit by itself.
                let mode = Mode::from_raw_mode(mode & PERMISSIONS);
                fs::mkdirat(dir.fd(), check_name(name.0)?, mode)?;
                let qid = self.qid_of(&dir, name)?;
                Reply::Mkdir { qid }
            }
            T::Mknod { dfid, .. } => {
                self.change(dfid)?;
                return Err(Errno::PERM);
            }
            T::Link { dfid, fid, name } => {
                let dir = self.change(dfid)?;
                let node = self.node(fid)?;
                let folder = self.folder()?;
                folder.within(&node)?;
                // A link gets another name itself: following the entry leads to it, and no further.
                if !matches!(node.kind, Kind::File | Kind::Link) {
                    return Err(Errno::PERM);
                }
                let (at, number) = folder.entry(&node);
                let name = check_name(name.0)?;
                fs::linkat(at, number, dir.fd(), name, AtFlags::SYMLINK_FOLLOW)?;
                Reply::Link {}
            }
            T::Rename { fid, dfid, name } => {
                let to = self.change(dfid)?;
                let node = self.node(fid)?;
                let (from, old) = self.folder()?.place(&node)?;
                self.rename(&from, &old, &to, name.0)?;
                Reply::Rename {}
            }
            T::Renameat {
                olddirfid,
                oldname,
                newdirfid,
                newname,
            } => {
                let (from, to) = (self.change(olddirfid)?, self.change(newdirfid)?);
                self.rename(&from, oldname.0, &to, newname.0)?;
                Reply::Renameat {}
            }
            T::Unlinkat {
                dirfid,
                name,
                flags,
            } => {
                let dir = self.change(dirfid)?;
                let directory = match flags {
                    0 => false,
                    number::REMOVE_DIR => true,
                    _ => return Err(Errno::INVAL),
                };
                self.unlink(&dir, name.0, directory)?;
                Reply::Unlinkat {}
            }
            T::Remove { fid } => {
                let node = self.node(fid);
                // The fid is released, even if removing the file fails.
                self.fids.remove(&fid);
                let node = node?;
                let (dir, name) = self.for_writing()?.place(&node)?;
                self.unlink(&dir, &name, node.kind == Kind::Directory)?;
                Reply::Remove {}
            }
            T::Xattrwalk { fid, .. } => {
                self.node(fid)?;
                return Err(Errno::OPNOTSUPP);
            }
            T::Xattrcreate { fid, .. } => {
                self.node(fid)?;
                self.for_writing()?;
                return Err(Errno::OPNOTSUPP);
            }
            T::Lock { fid, .. } => {
                self.node(fid)?;
                let status = number::LOCK_SUCCESS;
                Reply::Lock { status }
            }
            T::Getlock {
                fid,
                start,
                length,
                process,
                client,
                ..
            } => {
                self.node(fid)?;
                let kind = number::LOCK_UNLOCKED;
                Reply::Getlock {
                    kind,
                    start,
                    length,
                    process,
                    client,
                }
                .encode(tag, to);
                return Ok(());
            }
        };
        reply.encode(tag, to);
        Ok(())
    }

    fn version(&mut self, msize: u32, version: Text<'_>) -> Result<Reply<'static>, Errno> {
        if msize < MIN_MSIZE {
            return Err(Errno::INVAL);
        }
        self.reset();
        let msize = msize.min(self.limits.msize);
        if version.0 != DIALECT {
            let version = Text(b"unknown");
            return Ok(Reply::Version { msize, version });
        }
        self.msize = msize;
        let version = Text(DIALECT);
        Ok(Reply::Version { msize, version })
    }

    fn attach(&mut self, fid: u32, aname: Text<'_>) -> Result<Reply<'static>, Errno> {
        let root = self.folder()?.root.clone();
        if !matches!(aname.0, b"" | b"/") {
            return Err(Errno::NOENT);
        }
        let stat = root.stat()?;
        self.check_free(fid, None)?;
        let number = self.numbers.of(root.identity);
        self.set_fid(fid, None, root, number)?;
        let qid = qid(&stat, number);
        Ok(Reply::Attach { qid })
    }

    fn walk(&mut self, fid: u32, newfid: u32, names: &Names<'_>) -> Result<Reply<'static>, Errno> {
        let (node, open, number) = self.fid(fid)?;
        let (mut at, mut last) = (node.clone(), number);
        // An open fid cannot be walked from; others may be cloned from it.
        if fid == newfid && open.is_some() {
            return Err(Errno::INVAL);
        }
        self.check_free(newfid, Some(fid))?;
        if !names.0.is_empty() {
            self.folder()?.within(&at)?;
        }
        let mut qids = Vec::with_capacity(names.0.len());
        for name in &names.0 {
            let step = match name.0 {
                b".." if at.kind == Kind::Directory => {
                    let parent = self.folder()?.parent(&at);
                    parent.and_then(|p| p.stat().map(|stat| (p, stat)))
                }
                name => child(&at, name).map(|(node, stat)| (Arc::new(node), stat)),
            };
            match step {
                Ok((node, stat)) => {
                    at = node;
                    last = self.numbers.of(at.identity);
                    qids.push(qid(&stat, last));
                }
                Err(e) if qids.is_empty() => return Err(e),
                // A partial walk: the new fid is not made.
                Err(_) => {
                    let qids = Qids(qids);
                    return Ok(Reply::Walk { qids });
                }
            }
        }
        self.set_fid(newfid, Some(fid), at, last)?;
        let qids = Qids(qids);
        Ok(Reply::Walk { qids })
    }

    /// A directory in which the guest wants to change something.
    fn change(&self, fid: u32) -> Result<Arc<Node>, Errno> {
        self.for_writing()?;
        self.directory(fid)
    }

    fn qid_of(&mut self, dir: &Node, name: Text<'_>) -> Result<Qid, Errno> {
        let stat = stat_child(dir, name.0)?;
        Ok(qid(&stat, self.numbers.of(identity(&stat))))
    }

    /// A name is about to be removed, or has been: with the last name, the file's number is
    /// released.
    fn gone(&mut self, stat: Option<Stat>) {
        if let Some(stat) = stat {
            if stat.st_nlink <= 1 || Kind::of(&stat) == Kind::Directory {
                self.numbers.forget(identity(&stat));
            }
        }
    }

    fn rename(&mut self, from: &Node, old: &[u8], to: &Node, new: &[u8]) -> Result<(), Errno> {
        let (old, new) = (check_name(old)?, check_name(new)?);
        let source = stat_child(from, old)?;
        let replaced = stat_child(to, new).ok();
        fs::renameat(from.fd(), old, to.fd(), new)?;
        // Renaming one name of a file to another one of the same file does nothing.
        self.gone(replaced.filter(|r| identity(r) != identity(&source)));
        Ok(())
    }

    fn unlink(&mut self, dir: &Node, name: &[u8], directory: bool) -> Result<(), Errno> {
        let stat = stat_child(dir, name)?;
        let flags = if directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        fs::unlinkat(dir.fd(), check_name(name)?, flags)?;
        self.gone(Some(stat));
        Ok(())
    }

    fn lopen(&mut self, fid: u32, flags: u32) -> Result<Reply<'static>, Errno> {
        let (node, already, number) = self.fid(fid)?;
        let node = node.clone();
        if already.is_some() {
            return Err(Errno::INVAL);
        }
        let host = open_flags(flags)?;
        let writes = flags & open::ACCESS != 0 || flags & open::TRUNCATE != 0;
        match node.kind {
            Kind::Directory if writes => return Err(Errno::ISDIR),
            _ if writes => drop(self.for_writing()?),
            _ => {}
        }
        let folder = self.folder()?;
        folder.within(&node)?;
        let file = folder.open_node(&node, host)?;
        let qid = qid(&node.stat()?, number);
        self.hold(fid, node, file, flags);
        let iounit = IOUNIT;
        Ok(Reply::Lopen { qid, iounit })
    }

    /// A fid becomes an open file.
    fn hold(&mut self, fid: u32, node: Arc<Node>, file: std::os::fd::OwnedFd, flags: u32) {
        if let Some(entry) = self.fids.get_mut(&fid) {
            let listing = None;
            let open = Some(Open {
                file,
                flags,
                listing,
            });
            entry.held = Held::Here { node, open };
        }
    }

    fn lcreate(
        &mut self,
        fid: u32,
        name: Text<'_>,
        flags: u32,
        mode: u32,
    ) -> Result<Reply<'static>, Errno> {
        if self.fid(fid)?.1.is_some() {
            return Err(Errno::INVAL);
        }
        let dir = self.change(fid)?;
        let name = check_name(name.0)?;
        let host = open_flags(flags)?;
        if mode & SET_ID != 0 {
            return Err(Errno::PERM);
        }
        let create = (host - OFlags::DIRECTORY - OFlags::TRUNC)
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let permissions = Mode::from_raw_mode(mode & PERMISSIONS);
        let (node, file) = match fs::openat(dir.fd(), name, create, permissions) {
            Ok(file) => (self.folder()?.node_of(&file)?, file),
            // Someone on the host was faster. Whatever is there may be of any kind: check it before
            // opening.
            Err(Errno::EXIST) if flags & open::EXCLUSIVE == 0 => {
                let (node, _) = child(&dir, name)?;
                if node.kind == Kind::Directory {
                    return Err(Errno::ISDIR);
                }
                let file = self.folder()?.open_node(&node, host)?;
                (node, file)
            }
            Err(e) => return Err(e),
        };
        let stat = node.stat()?;
        let number = self.numbers.of(node.identity);
        if let Some(entry) = self.fids.get_mut(&fid) {
            entry.number = number;
        }
        self.hold(fid, Arc::new(node), file, flags);
        let (qid, iounit) = (qid(&stat, number), IOUNIT);
        Ok(Reply::Lcreate { qid, iounit })
    }

    fn read(
        &mut self,
        tag: u16,
        fid: u32,
        offset: u64,
        count: u32,
        to: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let (node, open) = self.opened(fid)?;
        if node.kind != Kind::File {
            return Err(Errno::ISDIR);
        }
        let offset = position(offset)?;
        let room = (self.msize as usize).saturating_sub(DATA_HEADER);
        let count = room.min(count as usize);
        Reply::Read { data: Bytes(&[]) }.encode(tag, to);
        to.resize(DATA_HEADER + count, 0);
        let read = io::pread(&open.file, &mut to[DATA_HEADER..], offset)?;
        end_data(to, read);
        Ok(())
    }

    fn readdir(
        &mut self,
        tag: u16,
        fid: u32,
        offset: u64,
        count: u32,
        to: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let (node, open) = self.opened(fid)?;
        if node.kind != Kind::Directory {
            return Err(Errno::NOTDIR);
        }
        // From the start, it is read afresh.
        let listing = if offset == 0 || open.listing.is_none() {
            let folder = self.folder()?;
            folder.within(node)?;
            Some(Listing::read(folder, node, self.listing_room())?)
        } else {
            None
        };
        let room = (self.msize as usize).saturating_sub(DATA_HEADER);
        let count = room.min(count as usize);
        let Some(Held::Here { open, .. }) = self.fids.get_mut(&fid).map(|f| &mut f.held) else {
            return Err(Errno::BADF);
        };
        let open = open.as_mut().ok_or(Errno::BADF)?;
        open.listing = listing.or(open.listing.take());
        Reply::Readdir { data: Bytes(&[]) }.encode(tag, to);
        if let Some(listing) = &open.listing {
            listing.put(&mut self.numbers, offset, count, to)?;
        }
        let bytes = to.len() - DATA_HEADER;
        end_data(to, bytes);
        Ok(())
    }

    fn getattr(&mut self, fid: u32) -> Result<Reply<'static>, Errno> {
        let (node, _, number) = self.fid(fid)?;
        let stat = node.stat()?;
        let directory = node.kind == Kind::Directory;
        #[allow(clippy::unnecessary_cast)] // 32 bits on some hosts.
        let links = stat.st_nlink as u64;
        let size = if directory { 4096 } else { stat.st_size as u64 };
        // Fewer than the size has, if there are holes; not more, since that depends on the host's file system.
        let blocks = match node.kind {
            Kind::File => size.div_ceil(512).min(stat.st_blocks as u64),
            _ => size.div_ceil(512),
        };
        let (sec, nsec) = (stat.st_mtime as u64, stat.st_mtime_nsec);
        Ok(Reply::Getattr {
            valid: number::ATTR_BASIC,
            qid: qid(&stat, number),
            mode: stat.st_mode,
            uid: 0,
            gid: 0,
            nlink: if directory { 1 } else { links },
            // Device numbers of the host are hidden, so that they do not reach a driver of the
            // guest.
            rdev: 0,
            size,
            blksize: BLOCK.min(self.msize).into(),
            blocks,
            atime_sec: sec,
            atime_nsec: nsec,
            mtime_sec: sec,
            mtime_nsec: nsec,
            ctime_sec: sec,
            ctime_nsec: nsec,
            btime_sec: 0,
            btime_nsec: 0,
            generation: 0,
            data_version: 0,
        })
    }

    fn setattr(&mut self, fid: u32, set: &Attributes) -> Result<Reply<'static>, Errno> {
        let folder = self.for_writing()?;
        let (node, opened, _) = self.fid(fid)?;
        folder.within(node)?;
        let has = |bit| set.valid & bit != 0;
        // Everything is checked before anything is changed.
        if has(number::SET_UID) && set.uid != 0 || has(number::SET_GID) && set.gid != 0 {
            return Err(Errno::PERM);
        }
        if has(number::SET_MODE) {
            match node.kind {
                Kind::Link => return Err(Errno::OPNOTSUPP),
                Kind::Special => return Err(Errno::PERM),
                _ if set.mode & SET_ID != 0 => return Err(Errno::PERM),
                _ => {}
            }
        }
        if has(number::SET_SIZE) {
            match node.kind {
                Kind::Directory => return Err(Errno::ISDIR),
                Kind::File => drop(position(set.size)?),
                _ => return Err(Errno::INVAL),
            }
        }
        let time = |bit, given, (sec, nsec): (u64, u64)| {
            let (tv_sec, tv_nsec) = match (has(bit), has(given)) {
                (false, _) => (0, UTIME_OMIT),
                (true, false) => (0, UTIME_NOW),
                // Larger numbers have other meanings for the host.
                (true, true) if nsec >= 1_000_000_000 => return Err(Errno::INVAL),
                (true, true) => (sec as i64, nsec as i64),
            };
            Ok(Timespec { tv_sec, tv_nsec })
        };
        let times = Timestamps {
            last_access: time(number::SET_ATIME, number::SET_ATIME_SET, set.atime)?,
            last_modification: time(number::SET_MTIME, number::SET_MTIME_SET, set.mtime)?,
        };
        if has(number::SET_SIZE) {
            match opened {
                Some(o) if o.flags & open::ACCESS != 0 => fs::ftruncate(&o.file, set.size)?,
                _ => fs::ftruncate(folder.open_node(node, OFlags::WRONLY)?, set.size)?,
            }
        }
        let (at, entry) = folder.entry(node);
        if has(number::SET_MODE) {
            let mode = Mode::from_raw_mode(set.mode & PERMISSIONS);
            fs::chmodat(at, entry.as_c_str(), mode, AtFlags::empty())?;
        }
        if has(number::SET_ATIME) || has(number::SET_MTIME) {
            fs::utimensat(at, entry.as_c_str(), &times, AtFlags::empty())?;
        }
        Ok(Reply::Setattr {})
    }

    fn statfs(&mut self, fid: u32) -> Result<Reply<'static>, Errno> {
        let stat = fs::fstatfs(self.node(fid)?.fd())?;
        Ok(Reply::Statfs {
            kind: number::MAGIC,
            bsize: stat.f_bsize as u32,
            blocks: stat.f_blocks,
            bfree: stat.f_bfree,
            bavail: stat.f_bavail,
            files: stat.f_files,
            ffree: stat.f_ffree,
            fsid: 0,
            namelen: 255,
        })
    }
}

/// Sets the count of a reply with `bytes` of data, and cuts it there.
fn end_data(to: &mut Vec<u8>, bytes: usize) {
    to.truncate(DATA_HEADER + bytes);
    to[DATA_HEADER - 4..DATA_HEADER].copy_from_slice(&(bytes as u32).to_le_bytes());
    finish(to);
}
