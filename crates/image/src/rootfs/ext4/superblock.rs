//! The superblock, descriptors of groups, and the head of the journal.

use super::inode::{put, MAP};
use super::places::{Places, Tables, DESCRIPTOR};
use super::{crc32c, Format, BLOCK, INODE, JOURNAL, JOURNAL_MIB, LOST_AND_FOUND, PER_GROUP};

/// has_journal, ext_attr, dir_index
const COMPATIBLE: u32 = 0x4 | 0x8 | 0x20;
/// filetype, extents, 64bit, flex_bg
const INCOMPATIBLE: u32 = 0x2 | 0x40 | 0x80 | 0x200;
/// sparse_super, large_file, huge_file, dir_nlink, extra_isize, metadata_csum
const READ_ONLY: u32 = 0x1 | 0x2 | 0x8 | 0x20 | 0x40 | 0x400;
/// A table of inodes that is all zeros where no inode is.
const TABLE_ZEROED: u16 = 4;
/// user_xattr, acl
const MOUNT_OPTIONS: u32 = 0xc;

/// What is counted of a group.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// Inodes from the first one on.
    pub used_inodes: u64,
    pub directories: u64,
    /// The map of the journal, of which the superblock has a copy.
    pub journal: Option<[u8; MAP]>,
}

impl Group {
    /// Its descriptor.
    pub fn descriptor(
        &self,
        n: usize,
        tables: Tables,
        free: u64,
        inodes: u64,
        seed: u32,
        bitmaps: [&[u8]; 2],
    ) -> Vec<u8> {
        let mut r = vec![0; DESCRIPTOR as usize];
        let unused = inodes - self.used_inodes;
        for (at, block) in [
            (0, tables.block_bitmap),
            (4, tables.inode_bitmap),
            (8, tables.inodes),
        ] {
            put(&mut r, at, &(block as u32).to_le_bytes());
            put(&mut r, at + 0x20, &((block >> 32) as u32).to_le_bytes());
        }
        let sums = [
            crc32c(seed, bitmaps[0]),
            crc32c(seed, &bitmaps[1][..(inodes / 8) as usize]),
        ];
        for (low, high, value) in [
            (0x0c, 0x2c, free as u32),
            (0x0e, 0x2e, unused as u32),
            (0x10, 0x30, self.directories as u32),
            (0x1c, 0x32, unused as u32),
            (0x18, 0x38, sums[0]),
            (0x1a, 0x3a, sums[1]),
        ] {
            put(&mut r, low, &(value as u16).to_le_bytes());
            put(&mut r, high, &((value >> 16) as u16).to_le_bytes());
        }
        put(&mut r, 0x12, &TABLE_ZEROED.to_le_bytes());
        let sum = crc32c(crc32c(seed, &(n as u32).to_le_bytes()), &r);
        put(&mut r, 0x1e, &(sum as u16).to_le_bytes());
        r
    }
}

/// What all copies of the superblock say.
pub(super) struct Superblock {
    bytes: Vec<u8>,
    uuid: [u8; 16],
}

impl Superblock {
    pub fn new(format: &Format<'_>, places: &Places) -> Superblock {
        let digits: Vec<u8> = format.uuid.bytes().filter(u8::is_ascii_hexdigit).collect();
        let mut uuid = [0; 16];
        for (byte, pair) in uuid.iter_mut().zip(digits.chunks(2)) {
            let text = std::str::from_utf8(pair).expect("digits");
            *byte = u8::from_str_radix(text, 16).expect("digits");
        }
        let mut r = vec![0; 1024];
        let time = format.time as u32;
        let inodes = places.groups() as u64 * places.inodes_per_group;
        for (at, value) in [
            (0x00, inodes as u32),
            (0x04, places.blocks as u32),
            (0x18, 2),
            (0x1c, 2),
            (0x20, PER_GROUP as u32),
            (0x24, PER_GROUP as u32),
            (0x28, places.inodes_per_group as u32),
            (0x30, time),
            (0x40, time),
            (0x4c, 1),
            (0x54, LOST_AND_FOUND),
            (0x5c, COMPATIBLE),
            (0x60, INCOMPATIBLE),
            (0x64, READ_ONLY),
            (0xe0, JOURNAL),
            (0x100, MOUNT_OPTIONS),
            (0x108, time),
            (0x150, (places.blocks >> 32) as u32),
            // Names are hashed as by a processor with signed characters.
            (0x160, 1),
        ] {
            put(&mut r, at, &value.to_le_bytes());
        }
        for (at, value) in [
            // Never checked for its age.
            (0x36, 0xffff),
            (0x38, 0xef53),
            // Clean; on errors go on.
            (0x3a, 1),
            (0x3c, 1),
            (0x58, INODE as u16),
            (0xfe, DESCRIPTOR as u16),
            (0x15c, 32),
            (0x15e, 32),
        ] {
            put(&mut r, at, &value.to_le_bytes());
        }
        put(&mut r, 0x68, &uuid);
        put(&mut r, 0xec, &uuid);
        let label = &format.label.as_bytes()[..format.label.len().min(16)];
        put(&mut r, 0x78, label);
        // Half MD4; a copy of the journal's map; groups in sixteens; CRC-32C.
        for (at, value) in [(0xfc, 1), (0xfd, 1), (0x174, 4), (0x175, 1)] {
            r[at] = value;
        }
        Superblock { bytes: r, uuid }
    }

    /// With what all checksums begin.
    pub fn seed(&self) -> u32 {
        crc32c(!0, &self.uuid)
    }

    /// The copy of a group, with what is counted at the end.
    pub fn bytes(
        &self,
        group: usize,
        used_inodes: u64,
        free_blocks: u64,
        journal: Option<&[u8; MAP]>,
    ) -> Vec<u8> {
        let mut r = self.bytes.clone();
        let inodes = u32::from_le_bytes([r[0], r[1], r[2], r[3]]);
        put(&mut r, 0x0c, &(free_blocks as u32).to_le_bytes());
        put(&mut r, 0x158, &((free_blocks >> 32) as u32).to_le_bytes());
        put(&mut r, 0x10, &(inodes - used_inodes as u32).to_le_bytes());
        put(&mut r, 0x5a, &(group as u16).to_le_bytes());
        if let Some(map) = journal {
            put(&mut r, 0x10c, map);
            put(
                &mut r,
                0x10c + 64,
                &((JOURNAL_MIB << 20) as u32).to_le_bytes(),
            );
        }
        let sum = crc32c(!0, &r[..0x3fc]);
        put(&mut r, 0x3fc, &sum.to_le_bytes());
        r
    }

    /// The first block of the journal, which is empty.
    pub fn journal_head(&self) -> Vec<u8> {
        let mut r = vec![0; BLOCK as usize];
        let blocks = ((JOURNAL_MIB << 20) / BLOCK) as u32;
        for (at, value) in [
            (0x00, 0xc03b_3998),
            (0x04, 4),
            (0x0c, BLOCK as u32),
            (0x10, blocks),
            (0x14, 1),
            (0x18, 1),
            // One file system uses it.
            (0x40, 1),
        ] {
            put(&mut r, at, &u32::to_be_bytes(value));
        }
        put(&mut r, 0x30, &self.uuid);
        r
    }
}
