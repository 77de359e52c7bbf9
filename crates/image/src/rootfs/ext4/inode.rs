//! Inodes, maps of blocks, and directories.

use super::places::Extent;
use super::{crc32c, BLOCK, INODE};
use std::io;

/// Kinds of files in modes.
pub(super) const FILE: u16 = 0o100_000;
pub(super) const DIRECTORY: u16 = 0o040_000;
/// A file's blocks are mapped by extents.
const EXTENTS: u32 = 0x8_0000;
/// Bytes of an inode that are in use beyond the first 128.
const EXTRA: u16 = 32;
const MAGIC: u16 = 0xf30a;
/// Extents in an inode, and in a block of their own.
const SMALL: usize = 4;
const LARGE: usize = 340;
/// Bytes of a map in an inode, or of a short symbolic link.
pub(super) const MAP: usize = 60;
/// Bytes of a directory's block before its checksum.
const ENTRIES: usize = BLOCK as usize - 12;

/// What an inode says.
#[derive(Debug, Clone)]
pub(super) struct Inode {
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub links: u32,
    /// Number of sectors of 512 bytes.
    pub sectors: u64,
    pub modified: u64,
    time: u64,
    pub extents: bool,
    pub map: [u8; MAP],
}

/// With what checksums of what belongs to an inode begin.
pub(super) fn seed(file_system: u32, number: u32) -> u32 {
    // Its generation is 0.
    crc32c(crc32c(file_system, &number.to_le_bytes()), &[0; 4])
}

/// Puts bytes into a record.
pub(super) fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    record[at..at + bytes.len()].copy_from_slice(bytes);
}

impl Inode {
    /// An inode of root, with one name, made at `time`.
    pub fn new(mode: u16, time: u64) -> Inode {
        Inode {
            mode,
            uid: 0,
            gid: 0,
            size: 0,
            links: 1,
            sectors: 0,
            modified: time,
            time,
            extents: false,
            map: [0; MAP],
        }
    }

    /// As it is in the table.
    pub fn bytes(&self, number: u32, file_system: u32) -> Vec<u8> {
        let mut r = vec![0; INODE as usize];
        let mut map = self.map;
        if self.extents && self.size == 0 {
            map = small_map(&[]).expect("no extent is few");
        }
        put(&mut r, 0x00, &self.mode.to_le_bytes());
        let high = |n: u32| ((n >> 16) as u16).to_le_bytes();
        for (low, upper, id) in [(0x02, 0x78, self.uid), (0x18, 0x7a, self.gid)] {
            put(&mut r, low, &(id as u16).to_le_bytes());
            put(&mut r, upper, &high(id));
        }
        put(&mut r, 0x04, &(self.size as u32).to_le_bytes());
        put(&mut r, 0x6c, &((self.size >> 32) as u32).to_le_bytes());
        for (at, extra, time) in [
            (0x08, 0x8c, self.time),
            (0x0c, 0x84, self.time),
            (0x10, 0x88, self.modified),
            (0x90, 0x94, self.time),
        ] {
            put(&mut r, at, &(time as u32).to_le_bytes());
            put(&mut r, extra, &epoch(time).to_le_bytes());
        }
        put(&mut r, 0x1a, &(self.links as u16).to_le_bytes());
        put(&mut r, 0x1c, &(self.sectors as u32).to_le_bytes());
        put(&mut r, 0x74, &((self.sectors >> 32) as u16).to_le_bytes());
        let flags = if self.extents { EXTENTS } else { 0 };
        put(&mut r, 0x20, &flags.to_le_bytes());
        put(&mut r, 0x28, &map);
        put(&mut r, 0x80, &EXTRA.to_le_bytes());
        let sum = crc32c(seed(file_system, number), &r);
        put(&mut r, 0x7c, &(sum as u16).to_le_bytes());
        put(&mut r, 0x82, &high(sum));
        r
    }
}

/// Bits of a time beyond the signed 32 of old.
fn epoch(time: u64) -> u32 {
    let old = i64::from(time as u32 as i32);
    (((time as i64 - old) >> 32) & 3) as u32
}

fn head(entries: usize, most: usize, depth: u16) -> [u8; 12] {
    let mut r = [0; 12];
    for (at, n) in [
        (0, MAGIC),
        (2, entries as u16),
        (4, most as u16),
        (6, depth),
    ] {
        put(&mut r, at, &n.to_le_bytes());
    }
    r
}

fn list(extents: &[Extent]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = 0u32;
    for e in extents {
        bytes.extend(at.to_le_bytes());
        bytes.extend((e.blocks as u16).to_le_bytes());
        bytes.extend(((e.start >> 32) as u16).to_le_bytes());
        bytes.extend((e.start as u32).to_le_bytes());
        at += e.blocks as u32;
    }
    bytes
}

/// A map that fits into the inode.
pub(super) fn small_map(extents: &[Extent]) -> Option<[u8; MAP]> {
    (extents.len() <= SMALL).then(|| {
        let mut map = [0; MAP];
        put(&mut map, 0, &head(extents.len(), SMALL, 0));
        put(&mut map, 12, &list(extents));
        map
    })
}

/// A map that names a block, `leaf`, with the extents, and that block.
pub(super) fn large_map(
    extents: &[Extent],
    leaf: u64,
    seed: u32,
) -> io::Result<([u8; MAP], Vec<u8>)> {
    if extents.len() > LARGE {
        return Err(io::Error::other("a file is too large"));
    }
    let mut map = [0; MAP];
    put(&mut map, 0, &head(1, SMALL, 1));
    put(&mut map, 16, &(leaf as u32).to_le_bytes());
    put(&mut map, 20, &((leaf >> 32) as u16).to_le_bytes());
    let mut block = vec![0; BLOCK as usize];
    put(&mut block, 0, &head(extents.len(), LARGE, 0));
    put(&mut block, 12, &list(extents));
    let end = block.len() - 4;
    let sum = crc32c(seed, &block[..end]);
    put(&mut block, end, &sum.to_le_bytes());
    Ok((map, block))
}

/// The first bytes of the map of a device.
pub(super) fn device(major: u32, minor: u32) -> [u8; 8] {
    let mut r = [0; 8];
    if major < 256 && minor < 256 {
        put(&mut r, 0, &(major << 8 | minor).to_le_bytes())
    } else {
        let n = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
        put(&mut r, 4, &n.to_le_bytes());
    }
    r
}

/// The blocks of a directory: names, inodes, and kinds.
pub(super) fn directory(entries: &[(&str, u32, u8)], seed: u32) -> Vec<Vec<u8>> {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    // The last entry of a block takes what is left of it.
    let mut last = 0;
    for (name, inode, kind) in entries {
        let length = (8 + name.len()).next_multiple_of(4);
        let full = blocks.last().is_none_or(|b| b.len() + length > ENTRIES);
        if full {
            if let Some(b) = blocks.last_mut() {
                fill(b, last, seed);
            }
            blocks.push(Vec::new());
        }
        let b = blocks.last_mut().expect("pushed");
        last = b.len();
        b.extend(inode.to_le_bytes());
        b.extend((length as u16).to_le_bytes());
        b.extend([name.len() as u8, *kind]);
        b.extend(name.as_bytes());
        b.resize(last + length, 0);
    }
    if let Some(b) = blocks.last_mut() {
        fill(b, last, seed);
    }
    blocks
}

fn fill(block: &mut Vec<u8>, last: usize, seed: u32) {
    put(block, last + 4, &((ENTRIES - last) as u16).to_le_bytes());
    block.resize(ENTRIES, 0);
    let sum = crc32c(seed, block);
    block.extend([0, 0, 0, 0, 12, 0, 0, 0xde]);
    block.extend(sum.to_le_bytes());
}
