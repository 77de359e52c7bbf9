//! Where everything is: groups, their tables, and the blocks of files.

use super::{BLOCK, INODE, PER_GROUP};
use std::io;

/// Bytes of a group's descriptor.
pub(super) const DESCRIPTOR: u64 = 64;
/// Longest extent, in blocks.
const LONGEST: u64 = 32_768;
/// Fewest blocks of the last group: below, it would have no room for anything.
const LEAST: u64 = 1024;

/// A run of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub start: u64,
    pub blocks: u64,
}

/// Where the tables of a group are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tables {
    pub block_bitmap: u64,
    pub inode_bitmap: u64,
    pub inodes: u64,
}

/// The division of the image. Blocks are given out in their order, so those in use are the first ones and the backups,
/// without those that were passed over.
pub(super) struct Places {
    pub blocks: u64,
    pub inodes_per_group: u64,
    tables: Vec<Tables>,
    /// Blocks of the table of groups.
    descriptors: u64,
    /// The first block that was not given out.
    next: u64,
    /// Before it, those that a table did not fit into.
    passed: Vec<Extent>,
}

/// Whether a group has a copy of the superblock: 0, 1, and the powers of 3, 5 and 7.
pub(super) fn has_superblock(group: u64) -> bool {
    let power = |base: u64| {
        let mut n = group;
        while n > 1 && n.is_multiple_of(base) {
            n /= base;
        }
        n == 1
    };
    group == 0 || [3, 5, 7].into_iter().any(power)
}

/// A bitmap of one block.
pub(super) fn bits(set: impl Fn(u64) -> bool) -> Vec<u8> {
    let byte = |n: u64| (0..8).map(|b| u8::from(set(n * 8 + b)) << b).sum();
    (0..BLOCK).map(byte).collect()
}

impl Places {
    /// With room for at least so many blocks and inodes.
    pub fn new(blocks: u64, inodes: u64) -> Places {
        let most = PER_GROUP;
        let blocks = blocks.max(inodes.div_ceil(most) * PER_GROUP);
        let groups = blocks.div_ceil(PER_GROUP);
        let rest = blocks - (groups - 1) * PER_GROUP;
        let blocks = if rest < LEAST {
            (groups - 1) * PER_GROUP + LEAST
        } else {
            blocks
        };
        // Whole blocks of the table of inodes.
        let inodes_per_group = inodes.div_ceil(groups).next_multiple_of(BLOCK / INODE);
        let mut places = Places {
            blocks,
            inodes_per_group,
            tables: Vec::new(),
            descriptors: (groups * DESCRIPTOR).div_ceil(BLOCK),
            next: 0,
            passed: Vec::new(),
        };
        let bitmaps: Vec<(u64, u64)> = (0..groups)
            .map(|_| (places.table(1), places.table(1)))
            .collect();
        for (block_bitmap, inode_bitmap) in bitmaps {
            let inodes = places.table(inodes_per_group * INODE / BLOCK);
            places.tables.push(Tables {
                block_bitmap,
                inode_bitmap,
                inodes,
            });
        }
        places
    }

    pub fn groups(&self) -> usize {
        self.tables.len()
    }

    pub fn of_group(&self, n: usize) -> Tables {
        self.tables[n]
    }

    /// Whether a block is one of a superblock or of the descriptors behind it.
    fn is_backup(&self, block: u64) -> bool {
        block % PER_GROUP <= self.descriptors && has_superblock(block / PER_GROUP)
    }

    /// Blocks that follow one another, for a table.
    fn table(&mut self, blocks: u64) -> u64 {
        loop {
            let range = self.next..self.next + blocks;
            let Some(backup) = range.clone().find(|b| self.is_backup(*b)) else {
                self.next = range.end;
                return range.start;
            };
            if backup > range.start {
                self.passed.push(Extent {
                    start: range.start,
                    blocks: backup - range.start,
                });
            }
            self.next = backup + 1;
        }
    }

    /// Blocks for a file, in few extents.
    pub fn take(&mut self, blocks: u64) -> io::Result<Vec<Extent>> {
        let mut found: Vec<Extent> = Vec::new();
        let mut missing = blocks;
        while missing > 0 {
            while self.is_backup(self.next) {
                self.next += 1;
            }
            // No backup begins within a group.
            let end = (self.next / PER_GROUP + 1) * PER_GROUP;
            let n = missing.min(end - self.next).min(LONGEST);
            if self.next + n > self.blocks {
                return Err(io::Error::other(
                    "the file system is too small for its files",
                ));
            }
            found.push(Extent {
                start: self.next,
                blocks: n,
            });
            self.next += n;
            missing -= n;
        }
        Ok(found)
    }

    /// The place of an inode in the table of its group.
    pub fn slot(&self, number: u32) -> u64 {
        (u64::from(number) - 1) % self.inodes_per_group
    }

    /// The group of an inode, and where it is, in bytes.
    pub fn inode(&self, number: u32) -> (usize, u64) {
        let group = ((u64::from(number) - 1) / self.inodes_per_group) as usize;
        let at = self.tables[group].inodes * BLOCK + self.slot(number) * INODE;
        (group, at)
    }

    fn is_used(&self, block: u64) -> bool {
        let inside = |e: &Extent| (e.start..e.start + e.blocks).contains(&block);
        let given = block < self.next && !self.passed.iter().any(inside);
        given || block >= self.blocks || self.is_backup(block)
    }

    /// What of a group is in use; what is behind the end counts as used.
    pub fn block_bitmap(&self, group: usize) -> Vec<u8> {
        let start = group as u64 * PER_GROUP;
        bits(|n| self.is_used(start + n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_the_superblock() {
        let with: Vec<u64> = (0..130).filter(|g| has_superblock(*g)).collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }

    #[test]
    fn extents_leave_out_copies() {
        let mut p = Places::new(5 * PER_GROUP, 1000);
        let all: Vec<Extent> = p.take(3 * PER_GROUP).unwrap();
        let sum: u64 = all.iter().map(|e| e.blocks).sum();
        assert_eq!(sum, 3 * PER_GROUP);
        for e in &all {
            assert!(
                (e.start..e.start + e.blocks).all(|b| !p.is_backup(b)),
                "{e:?}"
            );
        }
        let bits: u32 = (0..p.groups())
            .flat_map(|n| p.block_bitmap(n))
            .map(u8::count_zeros)
            .sum();
        let given: u64 = (0..p.blocks).filter(|b| p.is_used(*b)).count() as u64;
        assert_eq!(u64::from(bits) + given, p.blocks);
        assert!(given > 3 * PER_GROUP && bits > 0);
        assert!(p.take(2 * PER_GROUP).is_err());
    }

    #[test]
    fn a_last_group_has_room() {
        assert_eq!(
            Places::new(2 * PER_GROUP + 3, 100).blocks,
            2 * PER_GROUP + LEAST
        );
        let p = Places::new(10, 3 * PER_GROUP + 1);
        assert!(
            p.groups() as u64 * p.inodes_per_group > 3 * PER_GROUP
                && p.inodes_per_group <= PER_GROUP
        );
    }
}
