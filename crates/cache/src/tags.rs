//! Tags of a cache; data stays in guest memory.

use super::replacement::Victims;
use crate::config::CacheGeometry;
use serde::{Deserialize, Serialize};

/// State of a line in a cache, as the coherence protocol sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LineState {
    /// Not present.
    Invalid = 0,
    /// Readable; others may hold it, too.
    Shared = 1,
    /// The only copy, unmodified.
    Exclusive = 2,
    /// The only copy, modified.
    Dirty = 3,
}

const STATE: u64 = 3;
const LINE: u64 = !63;

/// No filter slot.
pub const NO_SLOT: u16 = u16::MAX;
/// Slots of the filter in front of a first-level cache.
pub const SLOTS: usize = 512;

/// Tags of one cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tags {
    sets: u32,
    ways: u32,
    /// Line address with the state in the low bits; 0 is invalid.
    tags: Vec<u64>,
    /// Slot of the owner's filter that covers the line.
    slots: Vec<u16>,
    victims: Victims,
}

impl Tags {
    /// An empty cache.
    pub fn new(g: CacheGeometry) -> Self {
        let n = (g.sets * g.ways) as usize;
        Self {
            sets: g.sets,
            ways: g.ways,
            tags: vec![0; n],
            slots: vec![NO_SLOT; n],
            victims: Victims::new(g.replacement, g.sets, g.ways),
        }
    }

    /// Notes that an entry was hit.
    #[inline]
    pub fn touch(&mut self, i: usize) {
        self.victims.hit(i, self.ways);
    }

    /// Notes that a line was put into an entry.
    #[inline]
    pub fn filled(&mut self, i: usize) {
        self.victims.filled(i, self.ways);
    }

    /// Notes that a line was put into an entry that is to be replaced next.
    pub fn filled_last(&mut self, i: usize) {
        self.victims.filled_last(i, self.ways);
    }

    /// Number of sets.
    pub(crate) fn sets(&self) -> usize {
        self.sets as usize
    }

    /// The set that a line belongs to.
    #[inline(always)]
    pub(crate) fn set_of(&self, line: u64) -> usize {
        ((line >> 6) as u32 & (self.sets - 1)) as usize
    }

    /// First entry of the set that a line belongs to.
    #[inline]
    pub fn set_start(&self, line: u64) -> usize {
        self.set_of(line) * self.ways as usize
    }

    /// Index of a line that is present.
    #[inline(always)]
    pub fn find(&self, line: u64) -> Option<usize> {
        let s = self.set_start(line);
        let set = &self.tags[s..s + self.ways as usize];
        // Same line and a state other than invalid: the difference is 1 to 63.
        let is = |t: &u64| (t ^ line).wrapping_sub(1) < 63;
        // Four ways at once: which one it is cannot be predicted.
        if let [a, b, c, d] = set {
            let found = u32::from(is(a))
                | u32::from(is(b)) << 1
                | u32::from(is(c)) << 2
                | u32::from(is(d)) << 3;
            (found != 0).then(|| s + found.trailing_zeros() as usize)
        } else {
            set.iter().position(is).map(|i| s + i)
        }
    }

    /// Index of the entry to replace for a fill of `line`.
    #[inline(always)]
    pub fn victim(&mut self, line: u64) -> usize {
        let s = self.set_start(line);
        let set = &self.tags[s..s + self.ways as usize];
        let empty = |i: usize| set[i] & STATE == 0;
        s + self.victims.choose(s, self.ways, empty)
    }

    /// As [`Tags::victim`], where an entry is reserved for another line that has not arrived yet, and counts as just
    /// filled; `None` if there is no other.
    pub(crate) fn victim_but(&mut self, line: u64, reserved: Option<usize>) -> Option<usize> {
        let s = self.set_start(line);
        let n = self.ways as usize;
        let Some(r) = reserved.filter(|r| (s..s + n).contains(r)) else {
            return Some(self.victim(line));
        };
        if n == 1 {
            return None;
        }
        self.filled(r);
        let set = &self.tags[s..s + n];
        let empty = |i: usize| set[i] & STATE == 0 && s + i != r;
        let way = self.victims.choose(s, self.ways, empty);
        Some(s + if s + way == r { (way + 1) % n } else { way })
    }

    /// Address and state of an entry.
    #[inline(always)]
    pub fn entry(&self, i: usize) -> (u64, LineState) {
        let t = self.tags[i];
        let s = match t & STATE {
            0 => LineState::Invalid,
            1 => LineState::Shared,
            2 => LineState::Exclusive,
            _ => LineState::Dirty,
        };
        (t & LINE, s)
    }

    /// Changes the state of a line in its entry; which line that is, [`Caches`](super::Caches) changes.
    #[inline]
    pub fn set(&mut self, i: usize, line: u64, state: LineState) {
        self.tags[i] = line | state as u64;
    }

    /// Filter slot of an entry.
    #[inline]
    pub fn slot(&self, i: usize) -> u16 {
        self.slots[i]
    }

    /// Notes the filter slot of an entry.
    #[inline]
    pub fn set_slot(&mut self, i: usize, slot: u16) {
        self.slots[i] = slot;
    }

    /// All lines that are present.
    pub(crate) fn lines(&self) -> impl Iterator<Item = u64> + '_ {
        let valid = self.tags.iter().filter(|t| **t & STATE != 0);
        valid.map(|t| t & LINE)
    }

    /// Associativity.
    pub fn ways(&self) -> usize {
        self.ways as usize
    }

    /// The state of the replacement policy, to be compared.
    pub fn policy(&self) -> &(impl PartialEq + std::fmt::Debug) {
        &self.victims
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.tags.len()
    }

    /// Whether the cache has no entries at all (never).
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Whether this is a possible state of a cache like `other` of lines for which `inside` holds.
    pub fn fits(&self, other: &Tags, inside: impl Fn(u64) -> bool) -> bool {
        let placed = |(i, t): (usize, &u64)| {
            let (line, valid) = (t & LINE, t & STATE != 0);
            !valid || inside(line) && self.set_start(line) == i - i % self.ways as usize
        };
        let slot = |s: &u16| *s == NO_SLOT || (*s as usize) < SLOTS;
        let same = (self.sets, self.ways) == (other.sets, other.ways);
        let lengths = |c: &Tags| [c.tags.len(), c.slots.len()];
        same && lengths(self) == lengths(other)
            && self.victims.fits(&other.victims, self.ways)
            && self.slots.iter().all(slot)
            && self.tags.iter().enumerate().all(placed)
    }

    /// Drops every line without writing back.
    pub fn clear(&mut self) {
        self.tags.fill(0);
        self.slots.fill(NO_SLOT);
        self.victims.clear(self.ways);
    }
}
