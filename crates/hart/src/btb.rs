//! Branch target buffer, after Rocket's RTL (`BTB`): entries by the low bits of a packet's address, a small table of
//! pages that the entries share, and pseudo-LRU replacement.
//!
//! The upper bits of branches and targets are in the table of pages. If one of its pages is replaced, all entries that
//! use it mean addresses in the new page: they are found there, or lead there.

use crate::plru::Plru;
use serde::{Deserialize, Serialize};

/// Pages in the table (`BTBParams`: `nPages`).
const PAGES: usize = 6;
/// Address bits within a page; entries are found by them (`BTBParams`: `nMatchBits`).
pub(crate) const PAGE_BITS: u32 = 14;
/// No page has this number.
const NO_PAGE: u64 = u64::MAX;
/// Most entries.
pub(crate) const MOST: u32 = 64;
/// For each packet of a page of 4 KiB there is a bucket: branches of such a page never share one, and packets that are
/// told apart only by the table of pages always do.
pub(crate) const BUCKETS: usize = 1 << 10;

/// The bucket of the packet of an address, which may be one within its page of 4 KiB.
pub fn bucket(pc: u64) -> usize {
    (pc >> 2) as usize & (BUCKETS - 1)
}

/// An entry as it is meant now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(C)]
pub(crate) struct BtbEntry {
    /// Address of the last half of the branch: a packet has one entry. An entry of nothing has an odd one.
    pub last: u64,
    pub target: u64,
    /// Which bits of [`Btb::age`] stay, and which are set, when it is used.
    pub keep: u64,
    pub set: u64,
}

impl BtbEntry {
    fn is_valid(&self) -> bool {
        self.last & 1 == 0
    }
}

/// For packets at one place of a page: how many entries they have, and the one to look at first. That is an entry of
/// nothing if several entries may be found by one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[repr(C)]
pub(crate) struct Bucket {
    pub count: u8,
    pub last: u8,
}

/// State of a branch target buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Btb {
    /// The entries, and one of nothing that stays so.
    pub entries: Vec<BtbEntry>,
    pub buckets: Vec<Bucket>,
    /// Bits of the pseudo-LRU tree.
    pub age: u64,
    /// Places in `pages` of an entry's branch and target.
    places: Vec<(u8, u8)>,
    pages: [u64; PAGES],
    /// The page that is replaced next.
    next_page: usize,
}

fn page(address: u64) -> u64 {
    address >> PAGE_BITS
}

/// An address with the same low bits in another page.
fn moved(address: u64, to: u64) -> u64 {
    to << PAGE_BITS | address & ((1 << PAGE_BITS) - 1)
}

/// Whether the packets of two addresses are told apart only by their pages.
fn alike(a: u64, b: u64) -> bool {
    (a ^ b) & ((1 << PAGE_BITS) - 4) == 0
}

impl Btb {
    /// An empty buffer of 1 to [`MOST`] entries.
    pub fn new(entries: u32) -> Self {
        let entry = |way| BtbEntry {
            last: 1,
            target: 0,
            keep: Plru::after_touch(entries, u64::MAX, way),
            set: Plru::after_touch(entries, 0, way),
        };
        let nothing = BtbEntry {
            last: 1,
            target: 0,
            keep: u64::MAX,
            set: 0,
        };
        Self {
            entries: (0..entries).map(entry).chain([nothing]).collect(),
            buckets: vec![Bucket::default(); BUCKETS],
            age: 0,
            places: vec![(0, 0); entries as usize],
            pages: [NO_PAGE; PAGES],
            next_page: 0,
        }
    }

    /// Whether this is a possible state of a buffer like `other`.
    pub fn fits(&self, other: &Btb) -> bool {
        let lengths = |b: &Btb| (b.entries.len(), b.buckets.len(), b.places.len());
        if lengths(self) != lengths(other) || self.next_page >= PAGES {
            return false;
        }
        let mut counts = [0u8; BUCKETS];
        for e in self.valid() {
            counts[bucket(e.last)] += 1;
        }
        let at = |place: u8| self.pages.get(usize::from(place)).copied();
        let stands = |(e, p): (&BtbEntry, &(u8, u8))| {
            !e.is_valid() || (at(p.0), at(p.1)) == (Some(page(e.last)), Some(page(e.target)))
        };
        let nothing = self.nothing();
        let counted =
            |(b, n): (&Bucket, &u8)| b.count == *n && usize::from(b.last) < self.entries.len();
        let masks = |e: &BtbEntry| (e.keep, e.set);
        self.entries
            .iter()
            .map(masks)
            .eq(other.entries.iter().map(masks))
            && !self.entries[nothing].is_valid()
            && self.places.iter().all(|p| at(p.0.max(p.1)).is_some())
            && self.entries.iter().zip(&self.places).all(stands)
            && self.buckets.iter().zip(&counts).all(counted)
    }

    fn nothing(&self) -> usize {
        self.entries.len() - 1
    }

    fn valid(&self) -> impl Iterator<Item = &BtbEntry> {
        self.entries.iter().filter(|e| e.is_valid())
    }

    /// The entry of the packet of an address, for a look-up with the packet's own address. Entries that are found by
    /// the same bits are lost then.
    #[inline(always)]
    pub fn find(&mut self, last: u64) -> Option<usize> {
        let Bucket { count, last: guess } = self.buckets[bucket(last)];
        if count == 0 {
            return None;
        }
        let first = &self.entries[usize::from(guess)];
        if first.is_valid() && first.last >> 2 == last >> 2 {
            return Some(guess.into());
        }
        if count == 1 && first.is_valid() && bucket(first.last) == bucket(last) {
            // The only one of the bucket.
            return None;
        }
        self.search(last)
    }

    /// The entry that is found by the low bits of an address, though it may be for the packet of another page.
    pub fn find_alike(&mut self, last: u64) -> Option<usize> {
        let found = self.find(last);
        match self.buckets[bucket(last)].count {
            0 => None,
            _ => found.or_else(|| {
                let alike = |e: &BtbEntry| e.is_valid() && alike(e.last, last);
                self.entries.iter().position(alike)
            }),
        }
    }

    #[cold]
    #[inline(never)]
    fn search(&mut self, last: u64) -> Option<usize> {
        let same = |e: &BtbEntry| e.is_valid() && e.last >> 2 == last >> 2;
        let alike = |e: &BtbEntry| e.is_valid() && alike(e.last, last);
        let first = self.entries.iter().position(alike)?;
        if self.entries[first + 1..].iter().any(alike) {
            for i in first..self.entries.len() {
                if alike(&self.entries[i]) {
                    self.remove(i);
                }
            }
            return None;
        }
        let found = same(&self.entries[first]).then_some(first)?;
        self.buckets[bucket(last)].last = found as u8;
        Some(found)
    }

    /// An entry has predicted a branch as taken.
    pub fn touch(&mut self, i: usize) {
        let BtbEntry { keep, set, .. } = self.entries[i];
        self.age = self.age & keep | set;
    }

    /// The branch with its last half at an address gets an entry: the one that its packet had when it was fetched, or
    /// the one that was not used for longest.
    pub fn enter(&mut self, hit: Option<usize>, last: u64, target: u64) {
        let places = self.place(last, target);
        let i = hit.unwrap_or_else(|| self.victim());
        self.remove(i);
        self.places[i] = places;
        let e = &mut self.entries[i];
        (e.last, e.target) = (last, target);
        self.add(i);
        self.touch(i);
    }

    fn victim(&self) -> usize {
        Plru::victim_of(self.nothing() as u32, self.age) as usize
    }

    /// The places of the pages of a branch and its target, which may replace others.
    fn place(&mut self, last: u64, target: u64) -> (u8, u8) {
        let (from, to) = (page(last), page(target));
        let find = |p| self.pages.iter().position(|q| *q == p);
        let (known_from, known_to) = (find(from), find(to));
        // A new page goes behind that of the other side, if that is known.
        let new_from = known_to.map_or(self.next_page, |t| (t + 1) % PAGES);
        let at_from = known_from.unwrap_or(new_from);
        let at_to = match known_to {
            Some(t) => t,
            None if from == to => at_from,
            None => (at_from + 1) % PAGES,
        };
        let (new_from, new_to) = (known_from.is_none(), known_to.is_none() && from != to);
        if new_from || new_to {
            let next = self.next_page + 1 + usize::from(new_from && new_to);
            self.next_page = match next {
                n if n >= PAGES => n & 1,
                n => n,
            };
        }
        if new_from {
            self.replace(at_from, from);
        }
        if new_to {
            self.replace(at_to, to);
        }
        (at_from as u8, at_to as u8)
    }

    fn replace(&mut self, place: usize, to: u64) {
        self.pages[place] = to;
        for i in 0..self.places.len() {
            let (from, target) = self.places[i];
            let concerned = usize::from(from) == place || usize::from(target) == place;
            if !concerned || !self.entries[i].is_valid() {
                continue;
            }
            if usize::from(target) == place {
                self.entries[i].target = moved(self.entries[i].target, to);
            }
            if usize::from(from) == place {
                let last = self.entries[i].last;
                self.remove(i);
                self.entries[i].last = moved(last, to);
                self.add(i);
            }
        }
    }

    /// An entry is one of nothing from now on.
    pub fn remove(&mut self, i: usize) {
        let e = &mut self.entries[i];
        if e.is_valid() {
            self.buckets[bucket(e.last)].count -= 1;
            e.last = 1;
        }
    }

    /// An entry that had nothing has something now.
    fn add(&mut self, i: usize) {
        let last = self.entries[i].last;
        let twin = |(k, e): (usize, &BtbEntry)| k != i && e.is_valid() && alike(e.last, last);
        let shared = self.buckets[bucket(last)].count != 0;
        // Whoever looks for either of two has to see that there are two.
        let first = if shared && self.entries.iter().enumerate().any(twin) {
            self.nothing()
        } else {
            i
        };
        let b = &mut self.buckets[bucket(last)];
        b.count += 1;
        b.last = first as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(b: &mut Btb, last: u64) -> Option<u64> {
        b.find(last).map(|i| b.entries[i].target)
    }

    #[test]
    fn the_entry_not_used_for_longest_is_replaced() {
        let mut b = Btb::new(28);
        // The halves of the tree in turn: the lower 16 and the upper 12, of which the lower 8 and the upper 4.
        for (i, way) in (0..).zip([0, 16, 8, 24, 4, 20]) {
            assert_eq!(b.victim(), way);
            b.enter(None, 0x1000 + i * 4, 0x1000);
            assert_eq!(b.find(0x1000 + i * 4), Some(way));
        }
        b.touch(0);
        b.touch(16);
        assert_eq!(b.victim(), 12, "not 2");
        for i in 0..200u64 {
            let way = b.victim();
            assert!(way < 28, "{way}");
            b.enter(None, 0x2000 + i * 4, 0x1000);
            assert_eq!(target(&mut b, 0x2000 + i * 4), Some(0x1000));
            assert_ne!(b.victim(), way);
        }
    }

    #[test]
    fn entries_lose_their_pages() {
        let mut b = Btb::new(28);
        let branch = |n: u64| (n << PAGE_BITS) | (n * 4);
        for n in 1..=6 {
            b.enter(None, branch(n), branch(n) + 0x40);
        }
        assert!((1..=6).all(|n| target(&mut b, branch(n)) == Some(branch(n) + 0x40)));
        // The seventh takes the place of the first, whose entry is found there from now on.
        b.enter(None, branch(7), branch(7) + 0x40);
        assert_eq!(target(&mut b, branch(1)), None);
        assert_eq!(
            target(&mut b, moved(branch(1), 7)),
            Some(moved(branch(1) + 0x40, 7))
        );
        assert!((2..=7).all(|n| target(&mut b, branch(n)) == Some(branch(n) + 0x40)));
    }

    #[test]
    fn a_target_in_a_page_that_is_replaced_leads_elsewhere() {
        let mut b = Btb::new(28);
        let (from, to) = (1 << PAGE_BITS, 2 << PAGE_BITS | 0x40);
        b.enter(None, from, to);
        assert_eq!((b.next_page, b.places[0]), (2, (0, 1)));
        for n in 3..=7 {
            b.enter(None, n << PAGE_BITS | 0x100, from);
        }
        // Each new page went behind that of its target, page 1.
        assert_eq!(target(&mut b, from), Some(moved(to, 7)));
        assert!(b.fits(&Btb::new(28)));
    }

    #[test]
    fn two_entries_of_one_packet_are_lost_when_they_are_looked_up() {
        for other in [0x1000, 0x1002, 0x1000 + (1 << PAGE_BITS)] {
            let mut b = Btb::new(28);
            b.enter(None, 0x1000, 0x40);
            b.enter(None, other, 0x80);
            assert_eq!(b.valid().count(), 2);
            assert!(b.fits(&Btb::new(28)));
            assert_eq!(b.find(other), None);
            assert_eq!(b.valid().count(), 0, "{other:#x}");
            b.enter(None, 0x1000, 0xc0);
            assert_eq!(target(&mut b, 0x1000), Some(0xc0));
        }
        let mut b = Btb::new(28);
        b.enter(None, 0x1000, 0x40);
        b.enter(Some(0), 0x1002, 0x80);
        assert_eq!(target(&mut b, 0x1000), Some(0x80), "taken over");
    }

    #[test]
    fn saved_states_are_checked() {
        let mut b = Btb::new(28);
        b.enter(None, 0x1000, 0x9000);
        let new = Btb::new(28);
        assert!(b.fits(&new) && !b.fits(&Btb::new(27)));
        let changed = |f: fn(&mut Btb)| {
            let mut c = b.clone();
            f(&mut c);
            c.fits(&new)
        };
        assert!(changed(|c| c.age = 5));
        assert!(!changed(|c| c.entries[0].last = 0x1004));
        assert!(!changed(|c| c.entries[0].target = 0x2000));
        assert!(!changed(|c| c.entries[28].last = 0x1000));
        assert!(!changed(|c| c.entries[3].keep = 0));
        assert!(!changed(|c| c.places[5] = (0, 6)));
        assert!(!changed(|c| c.pages[0] = 77));
        assert!(!changed(|c| c.next_page = 6));
        assert!(!changed(|c| c.buckets[1].count = 1));
        assert!(!changed(|c| c.buckets[0].last = 29));
    }
}
