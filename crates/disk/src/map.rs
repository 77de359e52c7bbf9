//! The header of an overlay file, and its map of clusters.
//!
//! ```text
//! 0       header: one page
//! 0x1000  map page 0, copies A and B; map page 1, copies A and B; ...
//! data    cluster n at data + n * 16 KiB, a hole until it is written
//! ```
//! Numbers are little-endian. Unused bytes at the end of a page are zero.
//!
//! | header | bytes | |
//! |---|---|---|
//! | 0 | 8 | `NGROVL01`: magic with the version |
//! | 8 | 4 | CRC-32 of the page, this field taken as zero |
//! | 12 | 4 | bytes of a cluster: 16384 |
//! | 16 | 8 | bytes of the disk |
//! | 24 | 8 | offset of the data |
//! | 32 | 8 | bytes of the base |
//! | 40 | 16 | time of the base's last change, ns since 1970, signed |
//!
//! | map page | bytes | |
//! |---|---|---|
//! | 0 | 8 | sequence number of the write: of two valid copies the one with the larger number
//! counts |
//! | 8 | 4 | CRC-32 of the page, this field taken as zero |
//! | 12 | 4 | number of the page |
//! | 16 | 4080 | two bits for each cluster: 0 as in the base, 1 in the data, 2 zeros |
//!
//! A page of zeros is a copy that was never written. A page is always written over its older copy,
//! so a write that is cut off leaves the other copy intact.

use crate::FileIdentity;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Bytes of a cluster.
pub(crate) const CLUSTER: u64 = 16 << 10;
/// Largest disk in bytes; bounds the map to 64 MiB of memory.
pub(crate) const MAX_SIZE: u64 = 1 << 40;
const MAGIC: &[u8; 8] = b"NGROVL01";
const MAP_HEAD: usize = 16;
/// Clusters of a map page.
pub(crate) const PER_PAGE: usize = (PAGE - MAP_HEAD) * 4;

/// Where a cluster's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Place {
    Base = 0,
    Data = 1,
    Zero = 2,
}

pub(crate) type Page = [u8; PAGE];

/// The header of an overlay file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub size: u64,
    pub base: FileIdentity,
}

fn le<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    let mut b = [0; N];
    b.copy_from_slice(&page[at..at + N]);
    b
}

fn checksum(page: &Page) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&page[..8]);
    crc.update(&[0; 4]);
    crc.update(&page[12..]);
    crc.finalize()
}

fn seal(page: &mut Page) {
    let crc = checksum(page);
    page[8..12].copy_from_slice(&crc.to_le_bytes());
}

fn sound(page: &Page) -> bool {
    u32::from_le_bytes(le(page, 8)) == checksum(page)
}

impl Header {
    pub fn clusters(&self) -> u64 {
        self.size.div_ceil(CLUSTER)
    }

    pub fn map_pages(&self) -> usize {
        self.clusters().div_ceil(PER_PAGE as u64) as usize
    }

    /// Offset of a copy of a map page.
    pub fn map_offset(page: usize, copy: usize) -> u64 {
        (PAGE + (2 * page + copy) * PAGE) as u64
    }

    /// Offset of cluster 0.
    pub fn data_offset(&self) -> u64 {
        Header::map_offset(self.map_pages(), 0).next_multiple_of(CLUSTER)
    }

    pub fn to_page(self) -> Page {
        let mut p = [0; PAGE];
        p[..8].copy_from_slice(MAGIC);
        p[12..16].copy_from_slice(&(CLUSTER as u32).to_le_bytes());
        p[16..24].copy_from_slice(&self.size.to_le_bytes());
        p[24..32].copy_from_slice(&self.data_offset().to_le_bytes());
        p[32..40].copy_from_slice(&self.base.len.to_le_bytes());
        p[40..56].copy_from_slice(&self.base.changed_ns.to_le_bytes());
        seal(&mut p);
        p
    }

    pub fn of_page(p: &Page) -> Result<Header, String> {
        if p[..6] != MAGIC[..6] {
            return Err("it is no overlay of a disk".into());
        }
        if p[..8] != MAGIC[..] {
            let version = String::from_utf8_lossy(&p[6..8]).into_owned();
            return Err(format!(
                "overlays of version {version} are not known, 01 is"
            ));
        }
        if !sound(p) {
            return Err("the header's checksum is wrong".into());
        }
        let header = Header {
            size: u64::from_le_bytes(le(p, 16)),
            base: FileIdentity {
                len: u64::from_le_bytes(le(p, 32)),
                changed_ns: i128::from_le_bytes(le(p, 40)),
            },
        };
        let cluster = u32::from_le_bytes(le(p, 12));
        if u64::from(cluster) != CLUSTER || header.size == 0 || header.size > MAX_SIZE {
            return Err(format!(
                "a disk of {} bytes in clusters of {cluster} is not possible",
                header.size
            ));
        }
        if u64::from_le_bytes(le(p, 24)) != header.data_offset() {
            return Err("the header's parts contradict one another".into());
        }
        Ok(header)
    }
}

/// Where every cluster is, and which pages differ from the file.
#[derive(Debug)]
pub(crate) struct Map {
    places: Vec<u8>,
    /// Sequence number of the last write of each page; its lowest bit selects the copy.
    writes: Vec<u64>,
    dirty: Vec<bool>,
}

impl Map {
    pub fn new(header: &Header) -> Map {
        Map {
            places: vec![0; header.clusters() as usize],
            writes: vec![0; header.map_pages()],
            dirty: vec![false; header.map_pages()],
        }
    }

    pub fn place(&self, cluster: u64) -> Place {
        match self.places[cluster as usize] {
            1 => Place::Data,
            2 => Place::Zero,
            _ => Place::Base,
        }
    }

    pub fn set(&mut self, cluster: u64, place: Place) {
        let at = cluster as usize;
        if self.places[at] != place as u8 {
            self.places[at] = place as u8;
            self.dirty[at / PER_PAGE] = true;
        }
    }

    /// Clusters that differ from the base.
    pub fn changed(&self) -> impl Iterator<Item = u64> + '_ {
        let places = self.places.iter().enumerate();
        places.filter(|(_, p)| **p != 0).map(|(n, _)| n as u64)
    }

    pub fn clean(&self) -> bool {
        !self.dirty.contains(&true)
    }

    /// The pages that differ from the file, with the offsets they go to.
    pub fn dirty_pages(&self) -> Vec<(usize, u64, Box<Page>)> {
        let dirty = self.dirty.iter().enumerate().filter(|(_, d)| **d);
        dirty
            .map(|(n, _)| {
                let number = self.writes[n] + 1;
                let mut p = Box::new([0; PAGE]);
                p[..8].copy_from_slice(&number.to_le_bytes());
                p[12..16].copy_from_slice(&(n as u32).to_le_bytes());
                let first = n * PER_PAGE;
                let last = (first + PER_PAGE).min(self.places.len());
                for (i, place) in self.places[first..last].iter().enumerate() {
                    p[MAP_HEAD + i / 4] |= place << (2 * (i % 4));
                }
                seal(&mut p);
                (n, Header::map_offset(n, (number & 1) as usize), p)
            })
            .collect()
    }

    /// Marks the page as written to the file.
    pub fn written(&mut self, page: usize) {
        self.writes[page] += 1;
        self.dirty[page] = false;
    }

    /// Loads a page from its two copies.
    pub fn load(&mut self, n: usize, copies: [&Page; 2]) -> Result<(), String> {
        let blank = |p: &Page| p.iter().all(|b| *b == 0);
        let number = |p: &Page| u64::from_le_bytes(le(p, 0));
        let good = |copy: usize| {
            let p = copies[copy];
            let own = u32::from_le_bytes(le(p, 12)) as usize == n;
            !blank(p) && own && (number(p) & 1) as usize == copy && sound(p)
        };
        let best = (0..2)
            .filter(|c| good(*c))
            .max_by_key(|c| number(copies[*c]));
        let Some(best) = best else {
            // A first write that was cut off counts as never written.
            if blank(copies[0]) {
                return Ok(());
            }
            return Err(format!("neither copy of map page {n} is sound"));
        };
        let first = n * PER_PAGE;
        let last = (first + PER_PAGE).min(self.places.len());
        for (i, byte) in copies[best][MAP_HEAD..].iter().enumerate() {
            for slot in 0..4 {
                let place = byte >> (2 * slot) & 3;
                let cluster = first + 4 * i + slot;
                if place == 3 || place != 0 && cluster >= last {
                    return Err(format!("map page {n} names a place that does not exist"));
                }
                if cluster < last {
                    self.places[cluster] = place;
                }
            }
        }
        self.writes[n] = number(copies[best]);
        if self.writes[n] == u64::MAX {
            return Err(format!("map page {n} was written too often"));
        }
        Ok(())
    }
}
