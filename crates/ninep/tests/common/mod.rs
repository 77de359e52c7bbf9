//! A client, as small as tests need it.
#![allow(dead_code)] // Not every test file uses everything.

use nagori_ninep::message::{number, Entry};
use nagori_ninep::wire::{Bytes, Field, Names, Qid, Reader, Text};
use nagori_ninep::{Folder, Limits, Reply, Request, Server};
use std::path::Path;

pub const EPERM: u32 = 1;
pub const ENOENT: u32 = 2;
pub const EBADF: u32 = 9;
pub const EACCES: u32 = 13;
pub const EBUSY: u32 = 16;
pub const EEXIST: u32 = 17;
pub const ENODEV: u32 = 19;
pub const ENOTDIR: u32 = 20;
pub const EISDIR: u32 = 21;
pub const EINVAL: u32 = 22;
pub const ENFILE: u32 = 23;
pub const EROFS: u32 = 30;
pub const ENOTEMPTY: u32 = 39;
pub const ELOOP: u32 = 40;
pub const EPROTO: u32 = 71;
pub const EMSGSIZE: u32 = 90;
pub const EOPNOTSUPP: u32 = 95;
pub const ESTALE: u32 = 116;

/// The fid of the root.
pub const ROOT: u32 = 0;

pub struct Client {
    pub server: Server,
    pub msize: u32,
    request: Vec<u8>,
    reply: Vec<u8>,
    next: u32,
}

impl Client {
    /// Mounted, with the root as fid 0.
    pub fn of(path: &Path, writable: bool) -> Client {
        let mut server = Server::new(Limits::default());
        server
            .connect(Folder::open(path, writable).unwrap())
            .unwrap();
        let mut client = Client::bare(server);
        client.mount(64 << 10);
        client
    }

    pub fn bare(server: Server) -> Client {
        Client {
            server,
            msize: 0,
            request: Vec::new(),
            reply: Vec::new(),
            next: 1,
        }
    }

    pub fn mount(&mut self, msize: u32) {
        let version = Text(b"9P2000.L");
        let Ok(Reply::Version { msize, version }) = self.call(Request::Version { msize, version })
        else {
            panic!("no session");
        };
        assert_eq!(version.0, b"9P2000.L");
        self.msize = msize;
        self.attach(ROOT).unwrap();
    }

    pub fn attach(&mut self, fid: u32) -> Result<Qid, u32> {
        let (uname, aname) = (Text(b"root"), Text(b""));
        let (afid, n_uname) = (!0, 0);
        match self.call(Request::Attach {
            fid,
            afid,
            uname,
            aname,
            n_uname,
        })? {
            Reply::Attach { qid } => Ok(qid),
            other => panic!("{other:?}"),
        }
    }

    /// A request and its reply, or the error's number.
    pub fn call(&mut self, request: Request<'_>) -> Result<Reply<'_>, u32> {
        request.encode(7, &mut self.request);
        self.server.handle(&self.request, &mut self.reply).unwrap();
        let (tag, reply) = Reply::decode(&self.reply).unwrap();
        assert_eq!(tag, 7);
        match reply {
            Reply::Error { code } => Err(code),
            reply => {
                assert_eq!(reply.kind(), request.kind() + 1);
                Ok(reply)
            }
        }
    }

    pub fn walk_to(&mut self, fid: u32, newfid: u32, names: &[&[u8]]) -> Result<Vec<Qid>, u32> {
        let names = Names(names.iter().map(|n| Text(n)).collect());
        match self.call(Request::Walk { fid, newfid, names })? {
            Reply::Walk { qids } => Ok(qids.0),
            other => panic!("{other:?}"),
        }
    }

    /// A new fid for a path from the root; `ENOENT` if not all of it is there.
    pub fn walk(&mut self, path: &str) -> Result<u32, u32> {
        let names: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
        let names = if path.is_empty() { &[][..] } else { &names };
        let fid = self.next;
        self.next += 1;
        match self.walk_to(ROOT, fid, names)? {
            qids if qids.len() == names.len() => Ok(fid),
            _ => Err(ENOENT),
        }
    }

    pub fn open(&mut self, fid: u32, flags: u32) -> Result<Qid, u32> {
        match self.call(Request::Lopen { fid, flags })? {
            Reply::Lopen { qid, .. } => Ok(qid),
            other => panic!("{other:?}"),
        }
    }

    pub fn create(&mut self, dir: &str, name: &str, mode: u32) -> Result<u32, u32> {
        let fid = self.walk(dir)?;
        let flags = number::open::READ_WRITE;
        let name = Text(name.as_bytes());
        self.call(Request::Lcreate {
            fid,
            name,
            flags,
            mode,
            gid: 0,
        })?;
        Ok(fid)
    }

    pub fn read(&mut self, fid: u32, offset: u64, count: u32) -> Result<Vec<u8>, u32> {
        match self.call(Request::Read { fid, offset, count })? {
            Reply::Read { data } => Ok(data.0.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    pub fn write(&mut self, fid: u32, offset: u64, data: &[u8]) -> Result<u32, u32> {
        let data = Bytes(data);
        match self.call(Request::Write { fid, offset, data })? {
            Reply::Write { count } => Ok(count),
            other => panic!("{other:?}"),
        }
    }

    /// The whole content of a path.
    pub fn content(&mut self, path: &str) -> Result<Vec<u8>, u32> {
        let fid = self.walk(path)?;
        self.open(fid, 0)?;
        let mut all = Vec::new();
        loop {
            let part = self.read(fid, all.len() as u64, self.msize)?;
            if part.is_empty() {
                self.clunk(fid)?;
                return Ok(all);
            }
            all.extend(part);
        }
    }

    pub fn clunk(&mut self, fid: u32) -> Result<(), u32> {
        self.call(Request::Clunk { fid }).map(drop)
    }

    /// Names and qids of a directory, read in pieces of `count` bytes.
    pub fn list(&mut self, fid: u32, count: u32) -> Result<Vec<(String, u8, Qid)>, u32> {
        let mut all = Vec::new();
        let mut offset = 0;
        loop {
            let Reply::Readdir { data } = self.call(Request::Readdir { fid, offset, count })?
            else {
                panic!("not a listing");
            };
            if data.0.is_empty() {
                return Ok(all);
            }
            let mut from = Reader::new(data.0);
            while from.left() > 0 {
                let e = Entry::get(&mut from).unwrap();
                offset = e.offset;
                let name = String::from_utf8_lossy(e.name.0).into_owned();
                all.push((name, e.kind, e.qid));
            }
        }
    }

    pub fn names(&mut self, path: &str) -> Result<Vec<String>, u32> {
        let fid = self.walk(path)?;
        self.open(fid, number::open::DIRECTORY)?;
        let list = self.list(fid, 8000)?;
        self.clunk(fid)?;
        Ok(list.into_iter().map(|e| e.0).collect())
    }

    pub fn readlink(&mut self, fid: u32) -> Result<Vec<u8>, u32> {
        match self.call(Request::Readlink { fid })? {
            Reply::Readlink { target } => Ok(target.0.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    /// Mode, size and number of links.
    pub fn attributes(&mut self, fid: u32) -> Result<(u32, u64, u64), u32> {
        match self.call(Request::Getattr { fid, mask: !0 })? {
            Reply::Getattr {
                mode, size, nlink, ..
            } => Ok((mode, size, nlink)),
            other => panic!("{other:?}"),
        }
    }

    /// Sets attributes; fields that `valid` does not name are zero.
    pub fn set(&mut self, fid: u32, valid: u32, mode: u32, size: u64) -> Result<(), u32> {
        self.call(Request::Setattr {
            fid,
            valid,
            mode,
            uid: 0,
            gid: 0,
            size,
            atime_sec: 0,
            atime_nsec: 0,
            mtime_sec: size,
            mtime_nsec: 0,
        })
        .map(drop)
    }
}
