//! The messages, from two tables: one table provides decoding, encoding and names for each
//! direction.
//!
//! Layouts are those of Linux's `net/9p` and of diod's description of 9P2000.L.

use crate::wire::{Bytes, Field, Names, Qid, Qids, Reader, Text, WireError};

/// Bytes of `size[4] type[1] tag[2]`.
pub const HEADER: usize = 7;
/// Bytes that a reply with data needs besides the data: header and count.
pub const DATA_HEADER: usize = HEADER + 4;
/// The tag of a request without a tag.
pub const NO_TAG: u16 = !0;
/// The fid that means "none".
pub const NO_FID: u32 = !0;

/// `size[4] type[1] tag[2]` of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the message, these included.
    pub size: u32,
    /// Its type.
    pub kind: u8,
    /// The tag, which links request and reply.
    pub tag: u16,
}

impl Header {
    /// The header at the front of a message of any length.
    pub fn of(message: &[u8]) -> Result<Header, WireError> {
        let mut from = Reader::new(message);
        Ok(Header {
            size: u32::get(&mut from)?,
            kind: u8::get(&mut from)?,
            tag: u16::get(&mut from)?,
        })
    }
}

/// Starts a message in an empty buffer; [`finish`] sets its size.
fn start(to: &mut Vec<u8>, kind: u8, tag: u16) {
    to.clear();
    0u32.put(to);
    kind.put(to);
    tag.put(to);
}

/// Sets the size of the message that is in `to`.
pub(crate) fn finish(to: &mut [u8]) {
    let size = to.len() as u32;
    if let Some(front) = to.first_chunk_mut() {
        *front = size.to_le_bytes();
    }
}

macro_rules! messages {
    ($(#[$doc:meta])* $name:ident<$a:lifetime> {
        $($kind:literal $message:ident { $($field:ident: $type:ty),* }: $about:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(missing_docs)] // The fields are those of the protocol.
        pub enum $name<$a> {
            $(#[doc = $about] $message { $($field: $type),* },)*
        }

        impl<$a> $name<$a> {
            /// Type numbers and names, in order.
            pub const TABLE: &'static [(u8, &'static str)] =
                &[$(($kind, stringify!($message)),)*];

            /// Type number.
            pub fn kind(&self) -> u8 {
                match self {
                    $($name::$message { .. } => $kind,)*
                }
            }

            /// Decodes a whole message, and nothing after it.
            pub fn decode(message: &$a [u8]) -> Result<(u16, Self), WireError> {
                let header = Header::of(message)?;
                if header.size as usize != message.len() {
                    return Err(WireError::Size { said: header.size, there: message.len() });
                }
                let mut from = Reader::new(&message[HEADER..]);
                let decoded = match header.kind {
                    $($kind => {
                        $(let $field = <$type>::get(&mut from)?;)*
                        $name::$message { $($field),* }
                    })*
                    other => return Err(WireError::Type(other)),
                };
                match from.left() {
                    0 => Ok((header.tag, decoded)),
                    n => Err(WireError::Trailing(n)),
                }
            }

            /// Encodes the message into `to`, whose content is replaced.
            pub fn encode(&self, tag: u16, to: &mut Vec<u8>) {
                start(to, self.kind(), tag);
                match self {
                    $($name::$message { $($field),* } => {
                        $($field.put(to);)*
                    })*
                }
                finish(to);
            }
        }
    };
}

messages! {
    /// Requests of the client (T messages).
    Request<'a> {
        8 Statfs { fid: u32 }: "Figures of the file system.",
        12 Lopen { fid: u32, flags: u32 }: "Opens a fid.",
        14 Lcreate { fid: u32, name: Text<'a>, flags: u32, mode: u32, gid: u32 }:
            "Creates and opens a file; the directory's fid becomes the file's.",
        16 Symlink { fid: u32, name: Text<'a>, target: Text<'a>, gid: u32 }: "Makes a symbolic link.",
        18 Mknod { dfid: u32, name: Text<'a>, mode: u32, major: u32, minor: u32, gid: u32 }:
            "Makes a special file.",
        20 Rename { fid: u32, dfid: u32, name: Text<'a> }: "Moves what a fid stands for.",
        22 Readlink { fid: u32 }: "The target of a symbolic link.",
        24 Getattr { fid: u32, mask: u64 }: "Attributes.",
        26 Setattr { fid: u32, valid: u32, mode: u32, uid: u32, gid: u32, size: u64,
            atime_sec: u64, atime_nsec: u64, mtime_sec: u64, mtime_nsec: u64 }: "Sets attributes.",
        30 Xattrwalk { fid: u32, newfid: u32, name: Text<'a> }: "Extended attributes, to be read.",
        32 Xattrcreate { fid: u32, name: Text<'a>, size: u64, flags: u32 }:
            "An extended attribute, to be written.",
        40 Readdir { fid: u32, offset: u64, count: u32 }: "Entries of a directory.",
        50 Fsync { fid: u32, datasync: u32 }: "Waits until what was written is on the medium.",
        52 Lock { fid: u32, kind: u8, flags: u32, start: u64, length: u64, process: u32,
            client: Text<'a> }: "Locks or unlocks a range.",
        54 Getlock { fid: u32, kind: u8, start: u64, length: u64, process: u32,
            client: Text<'a> }: "Asks who holds a lock.",
        70 Link { dfid: u32, fid: u32, name: Text<'a> }: "Makes a hard link.",
        72 Mkdir { dfid: u32, name: Text<'a>, mode: u32, gid: u32 }: "Makes a directory.",
        74 Renameat { olddirfid: u32, oldname: Text<'a>, newdirfid: u32, newname: Text<'a> }:
            "Moves a name.",
        76 Unlinkat { dirfid: u32, name: Text<'a>, flags: u32 }: "Removes a name.",
        100 Version { msize: u32, version: Text<'a> }: "Begins a session.",
        102 Auth { afid: u32, uname: Text<'a>, aname: Text<'a>, n_uname: u32 }: "Authentication.",
        104 Attach { fid: u32, afid: u32, uname: Text<'a>, aname: Text<'a>, n_uname: u32 }:
            "Gives the root a fid.",
        108 Flush { oldtag: u16 }: "Gives up a request.",
        110 Walk { fid: u32, newfid: u32, names: Names<'a> }: "Descends by names.",
        116 Read { fid: u32, offset: u64, count: u32 }: "Reads from a file.",
        118 Write { fid: u32, offset: u64, data: Bytes<'a> }: "Writes to a file.",
        120 Clunk { fid: u32 }: "Forgets a fid.",
        122 Remove { fid: u32 }: "Removes what a fid stands for, and forgets the fid.",
    }
}

impl Request<'_> {
    /// Whether it may change something in the folder.
    pub fn changes(&self) -> bool {
        use Request::*;
        match self {
            Lopen { flags, .. } => flags & number::open::TRUNCATE != 0,
            Lcreate { .. }
            | Symlink { .. }
            | Mknod { .. }
            | Rename { .. }
            | Setattr { .. }
            | Xattrcreate { .. }
            | Link { .. }
            | Mkdir { .. }
            | Renameat { .. }
            | Unlinkat { .. }
            | Write { .. }
            | Remove { .. } => true,
            _ => false,
        }
    }
}

messages! {
    /// Replies of the server (R messages).
    Reply<'a> {
        7 Error { code: u32 }: "It failed; an error number of Linux.",
        9 Statfs { kind: u32, bsize: u32, blocks: u64, bfree: u64, bavail: u64, files: u64,
            ffree: u64, fsid: u64, namelen: u32 }: "Figures of the file system.",
        13 Lopen { qid: Qid, iounit: u32 }: "Opened.",
        15 Lcreate { qid: Qid, iounit: u32 }: "Created and opened.",
        17 Symlink { qid: Qid }: "Made.",
        19 Mknod { qid: Qid }: "Made.",
        21 Rename {}: "Moved.",
        23 Readlink { target: Text<'a> }: "The target.",
        25 Getattr { valid: u64, qid: Qid, mode: u32, uid: u32, gid: u32, nlink: u64, rdev: u64,
            size: u64, blksize: u64, blocks: u64, atime_sec: u64, atime_nsec: u64,
            mtime_sec: u64, mtime_nsec: u64, ctime_sec: u64, ctime_nsec: u64, btime_sec: u64,
            btime_nsec: u64, generation: u64, data_version: u64 }: "Attributes.",
        27 Setattr {}: "Set.",
        31 Xattrwalk { size: u64 }: "The size of an attribute.",
        33 Xattrcreate {}: "Ready to be written.",
        41 Readdir { data: Bytes<'a> }: "Entries, one [`Entry`] behind another.",
        51 Fsync {}: "Done.",
        53 Lock { status: u8 }: "Zero: the lock is held.",
        55 Getlock { kind: u8, start: u64, length: u64, process: u32, client: Text<'a> }:
            "Who holds it.",
        71 Link {}: "Made.",
        73 Mkdir { qid: Qid }: "Made.",
        75 Renameat {}: "Moved.",
        77 Unlinkat {}: "Removed.",
        101 Version { msize: u32, version: Text<'a> }: "The session's message size and dialect.",
        103 Auth { aqid: Qid }: "Never sent by this server.",
        105 Attach { qid: Qid }: "The root.",
        109 Flush {}: "Given up.",
        111 Walk { qids: Qids }: "As far as it went.",
        117 Read { data: Bytes<'a> }: "The bytes.",
        119 Write { count: u32 }: "Bytes written.",
        121 Clunk {}: "Forgotten.",
        123 Remove {}: "Removed.",
    }
}

/// An entry in the data of [`Reply::Readdir`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it is.
    pub qid: Qid,
    /// Offset at which the next read of the directory continues.
    pub offset: u64,
    /// Linux's `DT_` number.
    pub kind: u8,
    /// Its name.
    pub name: Text<'a>,
}

impl Entry<'_> {
    /// Bytes that an entry takes besides its name.
    pub const FIXED: usize = 13 + 8 + 1 + 2;
}

impl<'a> Field<'a> for Entry<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Entry<'a>, WireError> {
        Ok(Entry {
            qid: Qid::get(from)?,
            offset: u64::get(from)?,
            kind: u8::get(from)?,
            name: Text::get(from)?,
        })
    }

    fn put(&self, to: &mut Vec<u8>) {
        self.qid.put(to);
        self.offset.put(to);
        self.kind.put(to);
        self.name.put(to);
    }
}

/// Numbers of the protocol that are arguments.
pub mod number {
    /// Kinds in a [`Qid`](crate::wire::Qid): a directory.
    pub const QID_DIR: u8 = 0x80;
    /// A symbolic link.
    pub const QID_LINK: u8 = 0x02;
    /// Fields of `Getattr` that are always given (P9_STATS_BASIC).
    pub const ATTR_BASIC: u64 = 0x7ff;
    /// `Setattr`: the mode.
    pub const SET_MODE: u32 = 0x1;
    /// The owner.
    pub const SET_UID: u32 = 0x2;
    /// The group.
    pub const SET_GID: u32 = 0x4;
    /// The length.
    pub const SET_SIZE: u32 = 0x8;
    /// The time of access: the present time, without `SET_ATIME_SET`.
    pub const SET_ATIME: u32 = 0x10;
    /// The time of modification: the present time, without `SET_MTIME_SET`.
    pub const SET_MTIME: u32 = 0x20;
    /// The time of change.
    pub const SET_CTIME: u32 = 0x40;
    /// The time of access is the one given.
    pub const SET_ATIME_SET: u32 = 0x80;
    /// The time of modification is the one given.
    pub const SET_MTIME_SET: u32 = 0x100;
    /// `Unlinkat`: a directory is to be removed.
    pub const REMOVE_DIR: u32 = 0x200;
    /// `Lock`: success.
    pub const LOCK_SUCCESS: u8 = 0;
    /// `Getlock`: nobody holds it.
    pub const LOCK_UNLOCKED: u8 = 2;
    /// Type of the file system that is reported to the guest (V9FS_MAGIC).
    pub const MAGIC: u32 = 0x0102_1997;

    /// Flags of `Lopen` and `Lcreate`, as Linux has them on every architecture.
    pub mod open {
        /// Reading, writing, or both.
        pub const ACCESS: u32 = 0o3;
        /// Writing.
        pub const WRITE: u32 = 0o1;
        /// Reading and writing.
        pub const READ_WRITE: u32 = 0o2;
        /// Fails if the file is there.
        pub const EXCLUSIVE: u32 = 0o200;
        /// Empties the file.
        pub const TRUNCATE: u32 = 0o1000;
        /// Writes go to the end.
        pub const APPEND: u32 = 0o2000;
        /// Writes are on the medium when they return.
        pub const DSYNC: u32 = 0o10000;
        /// Only a directory.
        pub const DIRECTORY: u32 = 0o200000;
        /// Like `DSYNC`, with all attributes.
        pub const SYNC: u32 = 0o4000000;
    }
}
