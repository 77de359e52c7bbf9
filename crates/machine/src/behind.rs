//! What memory holds behind the caches.

use nagori_ram::GuestRam;
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::BTreeMap;

/// Words of a line.
pub(super) const WORDS: u64 = 8;

pub(super) const LINE: u64 = 8 * WORDS;

/// Number of outstanding writes above which the list is searched for finished ones: the controller
/// holds fewer.
const MOST_WRITES: usize = 64;

pub(super) type Words = [u64; WORDS as usize];

/// A write-back on its way through the controller.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Write {
    /// As the controller numbers requests.
    pub(super) number: u64,
    pub(super) line: u64,
    /// The content of memory without it.
    pub(super) before: Words,
}

/// The content of memory behind the caches where a cache has newer data, by physical line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Behind {
    pub(super) lines: BTreeMap<u64, Words>,
    /// Writes that may be in the controller still, in order; none if it is in the persistence domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) writes: Vec<Write>,
    /// Older states of lines that outer cache levels still hold, by line and number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) older: BTreeMap<u64, Vec<(u64, Words)>>,
}

impl Behind {
    pub(super) fn read(ram: &GuestRam, offset: u64) -> Words {
        std::array::from_fn(|i| ram.read_u64(offset + 8 * i as u64).unwrap_or(0))
    }

    /// A line turns dirty, before anything is stored to it. Whether that is new: an outer cache level
    /// may hold it modified already.
    pub fn dirtied(&mut self, ram: &GuestRam, ram_base: u64, line: u64) -> bool {
        let entry = self.lines.entry(line);
        let is_new = matches!(entry, Entry::Vacant(_));
        entry.or_insert_with(|| Self::read(ram, line.wrapping_sub(ram_base)));
        is_new
    }

    /// What a power cut would leave of a line; `None`: what is in memory.
    pub fn durable(&self, line: u64) -> Option<&Words> {
        // Of several writes of a line the first one lost says what memory holds.
        let lost = self.writes.iter().find(|w| w.line == line);
        lost.map(|w| &w.before).or_else(|| self.lines.get(&line))
    }

    /// Lines within a range of which a power cut would leave something else than what is in memory.
    pub fn changed(&self, addr: u64, len: u64) -> Vec<u64> {
        let last = addr.saturating_add(len.max(1) - 1);
        let range = addr & !(LINE - 1)..=last;
        let lost = self.writes.iter().map(|w| w.line);
        let mut all: Vec<u64> = { self.lines.range(range.clone()).map(|l| *l.0) }
            .chain(lost.filter(|l| range.contains(l)))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The present content of a line becomes an older state with a number. Earlier states of the
    /// line are kept if some cache still has them.
    pub fn aged(
        &mut self,
        ram: &GuestRam,
        ram_base: u64,
        (line, name): (u64, u64),
        is_kept: impl Fn(u64) -> bool,
    ) {
        let all = self.older.entry(line).or_default();
        all.retain(|o| is_kept(o.0));
        all.push((name, Self::read(ram, line.wrapping_sub(ram_base))));
    }

    /// A line is written back, in its newest state or in an older one. `number` is that of the
    /// controller's request, if the write may be lost there.
    pub fn written(&mut self, line: u64, older: Option<u64>, number: Option<u64>) {
        let before = match older {
            None => {
                self.older.remove(&line);
                self.lines.remove(&line)
            }
            Some(name) => {
                let all = self.older.get(&line);
                let state = all.and_then(|all| all.iter().find(|o| o.0 == name));
                // Each older state was recorded before.
                state.and_then(|s| self.lines.insert(line, s.1))
            }
        };
        if let (Some(number), Some(before)) = (number, before) {
            self.writes.push(Write {
                number,
                line,
                before,
            });
        }
    }

    /// Whether it is time to ask the controller which writes it has done.
    pub fn is_long(&self) -> bool {
        self.writes.len() > MOST_WRITES
    }

    /// Only these writes, in ascending order, are in the controller still. Returns the lines of the others.
    pub fn keep(&mut self, unfinished: &[u64]) -> Vec<u64> {
        let mut done = Vec::new();
        self.writes.retain(|w| {
            let stays = unfinished.binary_search(&w.number).is_ok();
            if !stays {
                done.push(w.line);
            }
            stays
        });
        done.sort_unstable();
        done.dedup();
        done
    }

    /// A device or the host writes memory itself, through to memory behind the caches.
    pub fn wrote(&mut self, ram: &GuestRam, ram_base: u64, addr: u64, len: u64) {
        if len == 0 {
            return;
        }
        let last = addr.saturating_add(len - 1);
        for (line, held) in self.lines.range_mut(addr & !(LINE - 1)..=last) {
            *held = Self::read(ram, line.wrapping_sub(ram_base));
        }
        for (line, all) in self.older.range_mut(addr & !(LINE - 1)..=last) {
            let now = Self::read(ram, line.wrapping_sub(ram_base));
            all.iter_mut().for_each(|o| o.1 = now);
        }
        let touched = |w: &&mut Write| (addr & !(LINE - 1)..=last).contains(&w.line);
        for w in self.writes.iter_mut().filter(touched) {
            w.before = Self::read(ram, w.line.wrapping_sub(ram_base));
        }
    }

    /// All caches are written back or dropped with memory as it is.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.writes.clear();
        self.older.clear();
    }

    /// Whether an older state of a line is kept.
    pub fn has_older(&self, line: u64, name: u64) -> bool {
        let all = self.older.get(&line);
        all.is_some_and(|all| all.iter().any(|o| o.0 == name))
    }

    /// Whether all lines lie in memory.
    pub fn inside(&self, ram_base: u64, ram_bytes: u64) -> bool {
        let ok = |l: &u64| l.is_multiple_of(LINE) && l.wrapping_sub(ram_base) < ram_bytes;
        let keys = self.lines.keys().chain(self.older.keys());
        { keys }.all(ok) && self.writes.iter().all(|w| ok(&w.line))
    }
}
