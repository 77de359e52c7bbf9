//! Entries of a directory, in the order of their names, so that the order of the host's file system
//! is not visible.

use crate::folder::{identity, Folder, Identity, Kind, Node};
use crate::message::{number, Entry};
use crate::numbers::Numbers;
use crate::wire::{Field, Qid, Text};
use rustix::fs::{Dir, FileType, OFlags};
use rustix::io::Errno;

#[derive(Debug)]
struct Listed {
    name: Vec<u8>,
    kind: FileType,
    file: Identity,
}

/// The content of a directory when it was read from the start.
#[derive(Debug)]
pub(crate) struct Listing {
    entries: Vec<Listed>,
    bytes: usize,
}

/// Linux's `DT_` number.
fn dirent_kind(kind: FileType) -> u8 {
    match kind {
        FileType::Fifo => 1,
        FileType::CharacterDevice => 2,
        FileType::Directory => 4,
        FileType::BlockDevice => 6,
        FileType::RegularFile => 8,
        FileType::Symlink => 10,
        FileType::Socket => 12,
        _ => 0,
    }
}

/// The kind in a qid.
pub(crate) fn qid_kind(kind: Kind) -> u8 {
    match kind {
        Kind::Directory => number::QID_DIR,
        Kind::Link => number::QID_LINK,
        Kind::File | Kind::Special => 0,
    }
}

impl Listing {
    /// Reads a directory; `ENOMEM` if that takes more than `room` bytes.
    pub fn read(folder: &Folder, dir: &Node, room: usize) -> Result<Listing, Errno> {
        let fd = folder.open_node(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        let mut bytes = 0;
        for entry in Dir::new(fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let mut listed = Listed {
                name: name.to_vec(),
                kind: entry.file_type(),
                file: (dir.identity.0, entry.ino()),
            };
            if listed.kind == FileType::Unknown {
                // Removed in the meantime: not listed.
                let Ok(stat) = crate::folder::stat_child(dir, name) else {
                    continue;
                };
                listed.kind = FileType::from_raw_mode(stat.st_mode);
                listed.file = identity(&stat);
            }
            bytes += name.len() + size_of::<Listed>();
            if bytes > room {
                return Err(Errno::NOMEM);
            }
            entries.push(listed);
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for name in [b"..".as_slice(), b"."] {
            let file = match name {
                b"." => dir.identity,
                _ => folder.parent(dir).map_or(dir.identity, |p| p.identity),
            };
            let kind = FileType::Directory;
            let name = name.to_vec();
            entries.insert(0, Listed { name, kind, file });
        }
        Ok(Listing { entries, bytes })
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends the entries from `offset` on, as many as fit into `count` bytes. `EINVAL` if there
    /// is no room for the next one.
    pub fn put(
        &self,
        numbers: &mut Numbers,
        offset: u64,
        count: usize,
        to: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let begin = to.len();
        for (i, listed) in self.entries.iter().enumerate().skip(start) {
            if to.len() - begin + Entry::FIXED + listed.name.len() > count {
                return match to.len() - begin {
                    0 => Err(Errno::INVAL),
                    _ => Ok(()),
                };
            }
            let entry = Entry {
                qid: Qid {
                    kind: qid_kind(listed.kind.into()),
                    version: 0,
                    path: numbers.of(listed.file),
                },
                offset: i as u64 + 1,
                kind: dirent_kind(listed.kind),
                name: Text(&listed.name),
            };
            entry.put(to);
        }
        Ok(())
    }
}
