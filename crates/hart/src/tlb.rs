//! Timed TLBs: sectored entries, superpage entries, the page-walk cache.
//!
//! They hold copies of page-table entries, so a stale translation stays in use
//! until `sfence.vma`, as on hardware.

use crate::config::TlbGeometry;
pub use crate::plru::Plru;
use serde::{Deserialize, Serialize};

/// PTE global bit.
const G: u64 = 1 << 5;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Sector {
    tag: u64,
    asid: u16,
    pte: [u64; 4],
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Super {
    vpn: u64,
    level: u8,
    asid: u16,
    pte: u64,
}

impl Super {
    fn covers(&self, vpn: u64) -> bool {
        self.pte != 0 && (self.vpn ^ vpn) >> (9 * self.level as u32) == 0
    }
}

/// Entries of each kind, at most.
const WAYS: usize = SUPER_WAY as usize;
/// Tag of no page: page numbers have 27 bits.
const NO_TAG: u32 = u32::MAX;

/// What entries cover, side by side: which one it is cannot be predicted, so that
/// all of them are compared at once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct TagRow {
    sectors: [u32; WAYS],
    supers: [u32; WAYS],
    masks: [u32; WAYS],
}

impl TagRow {
    const NONE: TagRow = TagRow {
        sectors: [NO_TAG; WAYS],
        supers: [NO_TAG; WAYS],
        masks: [NO_TAG; WAYS],
    };

    /// Sectors that may cover a page, as a bit mask.
    #[inline(always)]
    fn sectors(&self, vpn: u64) -> u32 {
        let tag = (vpn >> 2) as u32;
        let mut same = [0; WAYS];
        for (s, t) in same.iter_mut().zip(&self.sectors) {
            *s = (*t == tag) as u8;
        }
        gather(same)
    }

    /// Superpages that cover a page, as a bit mask.
    #[inline(always)]
    fn supers(&self, vpn: u64) -> u32 {
        let mut same = [0; WAYS];
        for (i, s) in same.iter_mut().enumerate() {
            *s = ((vpn as u32 ^ self.supers[i]) & self.masks[i] == 0) as u8;
        }
        gather(same)
    }
}

/// Numbers of the set bits.
struct Bits(u32);

impl Iterator for Bits {
    type Item = usize;
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let i = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (i < 32).then_some(i as usize)
    }
}

/// The low bits of eight bytes that are 0 or 1.
#[inline(always)]
fn gather(bytes: [u8; WAYS]) -> u32 {
    // Byte i goes to bit 56 + i; no two of the products meet.
    (u64::from_le_bytes(bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

/// A translation found in a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbHit {
    /// Entry: sectors first, superpages from 8.
    pub way: u8,
    /// 0: 4 KiB, 1: 2 MiB, 2: 1 GiB.
    pub level: u8,
    /// The page-table entry.
    pub pte: u64,
}

/// First way number of superpage entries.
pub const SUPER_WAY: u8 = 8;
/// Way number of an access without translation.
pub const NO_WAY: u8 = 0xff;

/// One TLB.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tlb {
    sectors: Vec<Sector>,
    plru: Plru,
    supers: Vec<Super>,
    super_plru: Plru,
    tags: TagRow,
}

impl Tlb {
    /// Distance of the sectors' pseudo-LRU bits from the start of the structure.
    pub(crate) const PLRU: usize =
        std::mem::offset_of!(Tlb, plru) + std::mem::offset_of!(Plru, bits);
    /// Distance of the superpages' pseudo-LRU bits from the start of the structure.
    pub(crate) const SUPER_PLRU: usize =
        std::mem::offset_of!(Tlb, super_plru) + std::mem::offset_of!(Plru, bits);

    /// An empty TLB.
    pub fn new(g: TlbGeometry) -> Self {
        Self {
            sectors: vec![Sector::default(); g.sectors as usize],
            plru: Plru::new(g.sectors),
            supers: vec![Super::default(); g.superpages as usize],
            super_plru: Plru::new(g.superpages),
            tags: TagRow::NONE,
        }
    }

    /// Whether this is a possible state of a TLB like `other`.
    pub(crate) fn fits(&self, other: &Tlb) -> bool {
        let (n, m) = (self.sectors.len(), self.supers.len());
        let none = |t: &[u32]| t.iter().all(|t| *t == NO_TAG);
        let t = &self.tags;
        (n, m) == (other.sectors.len(), other.supers.len())
            && (self.plru.ways, self.super_plru.ways) == (other.plru.ways, other.super_plru.ways)
            && self.supers.iter().all(|s| s.level < 3)
            && none(&t.sectors[n..])
            && none(&t.supers[m..])
            && none(&t.masks[m..])
    }

    /// Looks up a virtual page number.
    #[inline]
    pub fn lookup(&self, vpn: u64, asid: u16) -> Option<TlbHit> {
        for i in Bits(self.tags.sectors(vpn)) {
            let s = &self.sectors[i];
            let pte = s.pte[(vpn & 3) as usize];
            if pte != 0 && (s.asid == asid || pte & G != 0) {
                return Some(TlbHit {
                    way: i as u8,
                    level: 0,
                    pte,
                });
            }
        }
        for i in Bits(self.tags.supers(vpn)) {
            let s = &self.supers[i];
            if s.covers(vpn) && (s.asid == asid || s.pte & G != 0) {
                return Some(TlbHit {
                    way: SUPER_WAY + i as u8,
                    level: s.level,
                    pte: s.pte,
                });
            }
        }
        None
    }

    /// Notes a use of an entry.
    #[inline]
    pub fn touch(&mut self, way: u8) {
        if way < SUPER_WAY {
            self.plru.touch(way as u32);
        } else if way != NO_WAY {
            self.super_plru.touch((way - SUPER_WAY) as u32);
        }
    }

    /// Puts a translation in; the way it took, and whether older pages were lost from it.
    pub fn insert(&mut self, vpn: u64, level: u8, asid: u16, pte: u64) -> (u8, bool) {
        if level == 0 {
            let tag = vpn >> 2;
            let same = |s: &Sector| s.tag == tag && s.asid == asid && s.pte != [0; 4];
            let held = Bits(self.tags.sectors(vpn)).find(|&w| same(&self.sectors[w]));
            let (way, lost) = match held {
                Some(w) => (w, false),
                None => {
                    let w = self
                        .sectors
                        .iter()
                        .position(|s| s.pte == [0; 4])
                        .unwrap_or(self.plru.victim() as usize);
                    let lost = self.sectors[w].pte != [0; 4];
                    self.sectors[w] = Sector {
                        tag,
                        asid,
                        pte: [0; 4],
                    };
                    self.tags.sectors[w] = tag as u32;
                    (w, lost)
                }
            };
            self.sectors[way].pte[(vpn & 3) as usize] = pte;
            self.touch(way as u8);
            (way as u8, lost)
        } else {
            let free = self.supers.iter().position(|s| s.pte == 0);
            let w = free.unwrap_or(self.super_plru.victim() as usize);
            let lost = self.supers[w].pte != 0;
            self.supers[w] = Super {
                vpn,
                level,
                asid,
                pte,
            };
            let mask = NO_TAG << (9 * level as u32);
            (self.tags.supers[w], self.tags.masks[w]) = (vpn as u32, mask);
            let way = SUPER_WAY + w as u8;
            self.touch(way);
            (way, lost)
        }
    }

    /// `sfence.vma`: by page, by address space, or everything.
    pub fn flush(&mut self, vpn: Option<u64>, asid: Option<u16>) {
        for s in &mut self.sectors {
            for (k, p) in s.pte.iter_mut().enumerate() {
                let page = s.tag << 2 | k as u64;
                if vpn.is_none_or(|v| v == page) && asid.is_none_or(|a| a == s.asid && *p & G == 0)
                {
                    *p = 0;
                }
            }
        }
        for s in &mut self.supers {
            if vpn.is_none_or(|v| s.covers(v)) && asid.is_none_or(|a| a == s.asid && s.pte & G == 0)
            {
                s.pte = 0;
            }
        }
    }
}

/// The page-walk cache: physical addresses of non-leaf entries read lately.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WalkCache {
    entries: Vec<(u64, u64)>,
    plru: Plru,
    /// Where an address was found last, for even and odd levels.
    last: [u8; 2],
}

impl WalkCache {
    /// An empty cache of `n` entries, rounded up to a power of two for its pseudo-LRU.
    pub fn new(n: u32) -> Self {
        let n = n.next_power_of_two();
        Self {
            entries: vec![(u64::MAX, 0); n as usize],
            plru: Plru::new(n),
            last: [0; 2],
        }
    }

    /// Whether this is a possible state of a cache like `other`.
    pub(crate) fn fits(&self, other: &WalkCache) -> bool {
        (self.entries.len(), self.plru.ways) == (other.entries.len(), other.plru.ways)
    }

    /// The entry read from a physical address at a level of the table (2 is the root), if
    /// it is held.
    #[inline]
    pub fn lookup(&mut self, pte_addr: u64, level: u8) -> Option<u64> {
        let last = &mut self.last[level as usize & 1];
        let mut i = *last as usize;
        if self.entries.get(i).is_none_or(|e| e.0 != pte_addr) {
            i = self.entries.iter().position(|e| e.0 == pte_addr)?;
            *last = i as u8;
        }
        self.plru.touch(i as u32);
        Some(self.entries[i].1)
    }

    /// Notes an entry: in the first place that is free.
    pub fn insert(&mut self, pte_addr: u64, pte: u64) {
        let free = self.entries.iter().position(|e| e.0 == u64::MAX);
        let i = free.unwrap_or(self.plru.victim() as usize);
        self.entries[i] = (pte_addr, pte);
        self.plru.touch(i as u32);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.fill((u64::MAX, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlb() -> Tlb {
        Tlb::new(TlbGeometry {
            sectors: 8,
            pages_per_sector: 4,
            superpages: 4,
        })
    }

    #[test]
    fn reach_is_eight_sectors_of_four_pages() {
        let mut t = tlb();
        for v in 0..32 {
            t.insert(v, 0, 0, v << 10 | 1);
        }
        assert!((0..32).all(|v| t.lookup(v, 0).is_some()));
        let (_, lost) = t.insert(32, 0, 0, 1);
        assert!(lost);
        assert_eq!((0..32).filter(|&v| t.lookup(v, 0).is_some()).count(), 28);
    }

    #[test]
    fn plru_spares_the_last_used() {
        let mut p = Plru::new(8);
        for w in 0..8 {
            p.touch(w);
            assert_ne!(p.victim(), w);
        }
        assert_eq!(p.victim(), 0);
    }

    #[test]
    fn the_root_does_not_keep_the_walk_cache_from_filling() {
        // A use of the root's entry before each other one keeps the pseudo-LRU away from one half.
        let mut c = WalkCache::new(8);
        for turn in 0..3 {
            for at in 1..8 {
                for (address, level) in [(0, 2), (0x1000 * at, 1)] {
                    let found = c.lookup(address, level).is_some();
                    assert_eq!(found, turn > 0 || address == 0 && at > 1, "{address:#x}");
                    if !found {
                        c.insert(address, 1);
                    }
                }
            }
        }
        c.clear();
        assert!(c.lookup(0, 2).is_none());
    }

    #[test]
    fn superpages_fill_free_places_first() {
        let mut t = tlb();
        for n in 0..4 {
            assert!(!t.insert(512 * n, 1, 0, 1).1);
            assert!(t.lookup(0, 0).is_some());
        }
        assert!((0..4).all(|n| t.lookup(512 * n, 0).is_some()));
        assert!(t.insert(512 * 4, 1, 0, 1).1);
    }

    #[test]
    fn flush_honours_page_asid_and_global() {
        let mut t = tlb();
        t.insert(5, 0, 1, 1);
        t.insert(9, 0, 2, 1);
        t.insert(13, 0, 1, 1 | G);
        t.insert(512, 1, 1, 1);
        t.flush(None, Some(1));
        assert!(t.lookup(5, 1).is_none());
        assert!(t.lookup(9, 2).is_some());
        assert!(t.lookup(13, 7).is_some());
        assert!(t.lookup(600, 1).is_none());
        t.flush(Some(9), None);
        assert!(t.lookup(9, 2).is_none());
        t.flush(None, None);
        assert!(t.lookup(13, 1).is_none());
    }
}
