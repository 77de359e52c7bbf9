//! Writes a tree as an ext4 image (the kernel's Documentation/filesystems/ext4), with what Debian's mke2fs would
//! choose: blocks of 4096 bytes, 64-bit group descriptors, extents, a journal, checksums of all metadata.
//!
//! The image follows from the tree and the format alone, so it is the same on every host. Nothing is preallocated but
//! the journal; directories are lists without an index, as the kernel makes small ones.

mod inode;
mod places;
mod superblock;

use super::tree::{Id, Kind, Tree};
use crate::error::IoContext;
use crate::Error;
use inode::{Inode, DIRECTORY, FILE};
use places::{Extent, Places};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use superblock::{Group, Superblock};

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// Bytes of an inode.
const INODE: u64 = 256;
/// Blocks of a group: as many as a bitmap of one block has bits.
const PER_GROUP: u64 = 8 * BLOCK;
/// MiB of the journal: the least that suits small file systems.
const JOURNAL_MIB: u64 = 16;
/// Numbers of inodes with a fixed meaning.
const ROOT: u32 = 2;
const JOURNAL: u32 = 8;
const LOST_AND_FOUND: u32 = 11;
/// Most names that one file may have.
const MAX_LINKS: u32 = 65_000;
/// Bytes of the longest target of a symbolic link that is in the inode itself.
const INLINE: usize = 59;

/// Properties of the image.
#[derive(Debug, Clone)]
pub(crate) struct Format<'a> {
    /// UUID of the file system, and of its hashed directories.
    pub uuid: &'a str,
    pub label: &'a str,
    /// Time, in seconds since 1970, of everything that has no time of its own.
    pub time: u64,
    /// Space for the guest's files, in bytes.
    pub free: u64,
}

/// Writes the image.
pub(crate) fn write(tree: &Tree, format: &Format<'_>, image: &Path) -> Result<(), Error> {
    let numbers = number(tree)?;
    let (blocks, inodes) = size(tree, format.free);
    let places = Places::new(blocks, inodes);
    let mut file = File::create(image).context("create", image)?;
    file.set_len(places.blocks * BLOCK)
        .context("enlarge", image)?;
    let superblock = Superblock::new(format, &places);
    let mut writer = Writer {
        tree,
        time: format.time,
        seed: superblock.seed(),
        file: &mut file,
        groups: vec![Group::default(); places.groups()],
        places,
        numbers,
    };
    writer.journal(&superblock).context("write", image)?;
    writer.lost_and_found().context("write", image)?;
    writer.nodes(image)?;
    writer.finish(superblock).context("write", image)
}

/// Number of blocks and inodes that the file system has at least.
fn size(tree: &Tree, free: u64) -> (u64, u64) {
    let (mut data, mut nodes) = (0, 0);
    for node in tree.live() {
        nodes += 1;
        data += match &node.kind {
            Kind::File { size } => size.div_ceil(BLOCK) + u64::from(*size > 1 << 27),
            // An entry takes less than 300 bytes.
            Kind::Directory(entries) => 1 + (entries.len() as u64 * 300).div_ceil(BLOCK),
            Kind::Symlink(t) => u64::from(t.len() > INLINE),
            Kind::Device { .. } | Kind::Fifo => 0,
        };
    }
    let inodes: u64 = (nodes + nodes / 4 + free / (16 << 10)).next_multiple_of(1024);
    let fixed = (JOURNAL_MIB + 8) << 20;
    // Bitmaps, descriptors and the tree of extents of large files: well below 2 %.
    let blocks = (data + (free + fixed + inodes * INODE) / BLOCK) * 102 / 100;
    (blocks, inodes)
}

/// Numbers of inodes, in the order in which nodes are found: directories before their contents, names in order.
fn number(tree: &Tree) -> Result<BTreeMap<Id, u32>, Error> {
    let mut numbers = BTreeMap::from([(Tree::ROOT, ROOT)]);
    let mut next = LOST_AND_FOUND + 1;
    let mut queue = vec![Tree::ROOT];
    while let Some(id) = queue.pop() {
        if let Kind::Directory(entries) = &tree.node(id).kind {
            for &child in entries.values() {
                numbers.entry(child).or_insert_with(|| {
                    next += 1;
                    next - 1
                });
            }
            let inner = entries.values().rev().copied();
            queue.extend(inner.filter(|c| matches!(tree.node(*c).kind, Kind::Directory(_))));
        }
        if tree.node(id).links > MAX_LINKS {
            return Err(Error::Rootfs(format!(
                "a file has more than {MAX_LINKS} names"
            )));
        }
    }
    Ok(numbers)
}

struct Writer<'a> {
    tree: &'a Tree,
    time: u64,
    /// The seed of all checksums of this file system.
    seed: u32,
    file: &'a mut File,
    places: Places,
    numbers: BTreeMap<Id, u32>,
    groups: Vec<Group>,
}

impl Writer<'_> {
    fn block(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at * BLOCK))?;
        self.file.write_all(bytes)
    }

    /// Writes an inode, and counts it.
    fn put(&mut self, number: u32, inode: &Inode) -> io::Result<()> {
        let (group, at) = self.places.inode(number);
        self.groups[group].used_inodes = self.groups[group]
            .used_inodes
            .max(self.places.slot(number) + 1);
        if inode.mode & 0o170_000 == DIRECTORY {
            self.groups[group].directories += 1;
        }
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(&inode.bytes(number, self.seed))
    }

    /// The map of a file's blocks in its inode; if there are many extents, a block with them.
    fn map(&mut self, number: u32, extents: &[Extent], inode: &mut Inode) -> io::Result<()> {
        let blocks: u64 = extents.iter().map(|e| e.blocks).sum();
        inode.sectors += blocks * (BLOCK / 512);
        if let Some(map) = inode::small_map(extents) {
            inode.map = map;
            return Ok(());
        }
        let leaf = self.places.take(1)?[0];
        let (map, bytes) = inode::large_map(extents, leaf.start, inode::seed(self.seed, number))?;
        inode.sectors += BLOCK / 512;
        inode.map = map;
        self.block(leaf.start, &bytes)
    }

    fn journal(&mut self, superblock: &Superblock) -> io::Result<()> {
        let extents = self.places.take((JOURNAL_MIB << 20) / BLOCK)?;
        let head = superblock.journal_head();
        self.block(extents[0].start, &head)?;
        let mut inode = Inode::new(FILE | 0o600, self.time);
        inode.size = JOURNAL_MIB << 20;
        inode.extents = true;
        self.map(JOURNAL, &extents, &mut inode)?;
        self.groups[0].journal = Some(inode.map);
        self.put(JOURNAL, &inode)
    }

    fn lost_and_found(&mut self) -> io::Result<()> {
        let entries = [(".", LOST_AND_FOUND, 2), ("..", ROOT, 2)];
        let mut inode = Inode::new(DIRECTORY | 0o700, self.time);
        inode.links = 2;
        self.directory(LOST_AND_FOUND, &entries, inode)
    }

    /// Writes a directory's blocks and its inode.
    fn directory(
        &mut self,
        number: u32,
        entries: &[(&str, u32, u8)],
        mut inode: Inode,
    ) -> io::Result<()> {
        let blocks = inode::directory(entries, inode::seed(self.seed, number));
        let extents = self.places.take(blocks.len() as u64)?;
        let places = extents.iter().flat_map(|e| e.start..e.start + e.blocks);
        for (at, bytes) in places.zip(&blocks) {
            self.block(at, bytes)?;
        }
        inode.size = blocks.len() as u64 * BLOCK;
        inode.extents = true;
        self.map(number, &extents, &mut inode)?;
        self.put(number, &inode)
    }

    fn nodes(&mut self, image: &Path) -> Result<(), Error> {
        let mut parents = BTreeMap::from([(Tree::ROOT, ROOT)]);
        let mut order: Vec<(u32, Id)> = self.numbers.iter().map(|(id, n)| (*n, *id)).collect();
        order.sort_unstable();
        for &(number, id) in &order {
            if let Kind::Directory(entries) = &self.tree.node(id).kind {
                parents.extend(entries.values().map(|&c| (c, number)));
            }
        }
        for (number, id) in order {
            self.node(number, id, parents[&id], image)?;
        }
        Ok(())
    }

    fn node(&mut self, number: u32, id: Id, parent: u32, image: &Path) -> Result<(), Error> {
        let tree = self.tree;
        let node = tree.node(id);
        let a = node.attributes;
        let mut inode = Inode::new(file_type(&node.kind).0 | a.mode as u16, self.time);
        (inode.uid, inode.gid) = (a.uid, a.gid);
        if a.mtime != 0 {
            inode.modified = a.mtime;
        }
        inode.links = node.links;
        match &node.kind {
            Kind::Directory(entries) => {
                let mut list = vec![(".", number, 2), ("..", parent, 2)];
                if id == Tree::ROOT {
                    list.push(("lost+found", LOST_AND_FOUND, 2));
                }
                let named = |(name, child): (&'_ String, &Id)| -> (String, u32, u8) {
                    let kind = file_type(&tree.node(*child).kind).1;
                    (name.clone(), self.numbers[child], kind)
                };
                let all: Vec<(String, u32, u8)> = { entries.iter() }
                    .filter(|(name, _)| id != Tree::ROOT || *name != "lost+found")
                    .map(named)
                    .collect();
                list.extend(all.iter().map(|(name, n, kind)| (name.as_str(), *n, *kind)));
                // `.` of itself and `..` of each directory in it.
                let inner = list.iter().skip(2).filter(|e| e.2 == 2).count();
                inode.links = match inner + 2 {
                    n if n < MAX_LINKS as usize => n as u32,
                    // It says that they are not counted.
                    _ => 1,
                };
                self.directory(number, &list, inode).context("write", image)
            }
            Kind::File { size } => {
                inode.size = *size;
                inode.extents = true;
                let extents = self
                    .places
                    .take(size.div_ceil(BLOCK))
                    .context("write", image)?;
                let staged = tree.staged(id);
                let mut from = File::open(&staged).context("open", &staged)?;
                let length = fs::metadata(&staged).context("read", &staged)?.len();
                if length != *size {
                    return Err(Error::Rootfs(format!("{} has changed", staged.display())));
                }
                for e in &extents {
                    self.file
                        .seek(SeekFrom::Start(e.start * BLOCK))
                        .context("write", image)?;
                    let mut part = Read::by_ref(&mut from).take(e.blocks * BLOCK);
                    io::copy(&mut part, self.file).context("write", image)?;
                }
                self.map(number, &extents, &mut inode)
                    .and_then(|()| self.put(number, &inode))
                    .context("write", image)
            }
            Kind::Symlink(target) => {
                inode.size = target.len() as u64;
                let done = if target.len() <= INLINE {
                    inode.map[..target.len()].copy_from_slice(target.as_bytes());
                    self.put(number, &inode)
                } else {
                    inode.extents = true;
                    self.places.take(1).and_then(|extents| {
                        self.block(extents[0].start, target.as_bytes())?;
                        self.map(number, &extents, &mut inode)?;
                        self.put(number, &inode)
                    })
                };
                done.context("write", image)
            }
            Kind::Device { major, minor, .. } => {
                inode.map[..8].copy_from_slice(&inode::device(*major, *minor));
                self.put(number, &inode).context("write", image)
            }
            Kind::Fifo => self.put(number, &inode).context("write", image),
        }
    }

    /// Writes bitmaps, descriptors and superblocks.
    fn finish(mut self, superblock: Superblock) -> io::Result<()> {
        // Reserved inodes are in use.
        let first = u64::from(LOST_AND_FOUND).min(self.places.inodes_per_group);
        self.groups[0].used_inodes = self.groups[0].used_inodes.max(first);
        let mut table = Vec::new();
        let journal = self.groups[0].journal;
        let mut all_free = 0;
        for n in 0..self.groups.len() {
            let (blocks, inodes) = (self.places.block_bitmap(n), self.inode_bitmap(n));
            let places = self.places.of_group(n);
            self.block(places.block_bitmap, &blocks)?;
            self.block(places.inode_bitmap, &inodes)?;
            let free: u64 = blocks.iter().map(|b| u64::from(b.count_zeros())).sum();
            all_free += free;
            let d = self.groups[n].descriptor(
                n,
                places,
                free,
                self.places.inodes_per_group,
                self.seed,
                [&blocks, &inodes],
            );
            table.extend(d);
        }
        table.resize(table.len().next_multiple_of(BLOCK as usize), 0);
        let used: u64 = self.groups.iter().map(|g| g.used_inodes).sum();
        for n in 0..self.groups.len() {
            if !places::has_superblock(n as u64) {
                continue;
            }
            let bytes = superblock.bytes(n, used, all_free, journal.as_ref());
            let start = n as u64 * PER_GROUP;
            let at = if n == 0 { 1024 } else { start * BLOCK };
            self.file.seek(SeekFrom::Start(at))?;
            self.file.write_all(&bytes)?;
            self.block(start + 1, &table)?;
        }
        self.file.sync_all()
    }

    fn inode_bitmap(&self, group: usize) -> Vec<u8> {
        let used = self.groups[group].used_inodes;
        let bit = |n: u64| n < used || n >= self.places.inodes_per_group;
        places::bits(bit)
    }
}

/// The bits of the mode, and the number of the kind in directories.
fn file_type(kind: &Kind) -> (u16, u8) {
    match kind {
        Kind::File { .. } => (FILE, 1),
        Kind::Directory(_) => (DIRECTORY, 2),
        Kind::Device { block: false, .. } => (0o020_000, 3),
        Kind::Device { block: true, .. } => (0o060_000, 4),
        Kind::Fifo => (0o010_000, 5),
        Kind::Symlink(_) => (0o120_000, 7),
    }
}

/// CRC-32C as ext4 uses it: it begins with `seed`, and nothing is inverted at the end.
fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut n = 0;
        while n < 256 {
            let mut c = n as u32;
            let mut bit = 0;
            while bit < 8 {
                c = (c >> 1) ^ if c & 1 == 1 { POLYNOMIAL } else { 0 };
                bit += 1;
            }
            table[n] = c;
            n += 1;
        }
        table
    };
    bytes
        .iter()
        .fold(seed, |c, b| (c >> 8) ^ TABLE[usize::from(c as u8 ^ b)])
}

#[cfg(test)]
mod tests;
