//! The undo area: what is durable of lines that a cache or the controller has newer in memory.
//!
//! Content holds what the machine's memory holds, the newest bytes. Of a line whose newest bytes are not
//! durable yet, a slot holds the durable ones; it is written before the line is stored to, and
//! freed when the line has become durable. Whoever opens the image puts the slots' bytes back.
//!
//! A slot has 16 words: its number (0: free; of several slots for a line the highest counts),
//! the line's distance from the start of NVMM, the epoch from which on it counts, the epoch from
//! which on it does not (0: none), a checksum, and from word 8 on the line's bytes. A change of several
//! lines that has to happen at once is prepared by epochs, and happens with the epoch of the image's
//! second page. The process may end between any two stores, and each order of stores here is safe for that.

use crate::header::{state, Header, LINE, PAGE, SLOT};
use nagori_ram::FileWords;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use xxhash_rust::xxh3::xxh3_64;

/// The bytes of a line.
pub type Words = [u64; 8];

/// Words of a slot.
const PER_SLOT: usize = SLOT as usize / 8;
const NUMBER: usize = 0;
const PLACE: usize = 1;
const FROM: usize = 2;
const UNTIL: usize = 3;
const SUM: usize = 4;
const BYTES: usize = 8;
/// Slots by which the area grows.
const GROWTH: u64 = 8192;
/// Most slots: more lines than any caches hold.
const MOST: u64 = 1 << 23;

fn sum(number: u64, place: u64, from: u64, w: &Words) -> u64 {
    let mut bytes = [0; 88];
    let all = [number, place, from].into_iter().chain(*w);
    for (to, word) in bytes.chunks_exact_mut(8).zip(all) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    xxh3_64(&bytes)
}

/// The undo area of an image that a machine writes to.
#[derive(Debug)]
pub struct Undo {
    file: File,
    at: u64,
    len: u64,
    state: FileWords,
    area: FileWords,
    /// Slots for which the file has room.
    room: u64,
    /// Slots that were ever used.
    used: u64,
    free: Vec<u32>,
    /// The slot of each line that has one.
    slots: BTreeMap<u64, u32>,
    number: u64,
}

impl Undo {
    /// The area of an image without slots.
    pub(crate) fn new(file: &File, h: &Header) -> io::Result<Undo> {
        Ok(Undo {
            file: file.try_clone()?,
            at: h.undo_at(),
            len: h.geometry.len,
            state: FileWords::map(file, PAGE, PAGE as usize)?,
            area: FileWords::map(file, h.undo_at(), (MOST * SLOT) as usize)?,
            room: 0,
            used: 0,
            free: Vec::new(),
            slots: BTreeMap::new(),
            number: 0,
        })
    }

    /// Lines that have a slot.
    pub fn lines(&self) -> usize {
        self.slots.len()
    }

    fn put(&self, slot: u32, i: usize, value: u64) {
        self.area.set(slot as usize * PER_SLOT + i, value);
    }

    fn take(&mut self) -> io::Result<u32> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        if self.used == self.room {
            if self.room == MOST {
                return Err(io::Error::other(format!(
                    "more than {MOST} lines are not durable at once"
                )));
            }
            let first = self.room as usize * PER_SLOT;
            self.area
                .reserve(&self.file, self.at, first, GROWTH as usize * PER_SLOT)?;
            self.room += GROWTH;
        }
        self.used += 1;
        Ok((self.used - 1) as u32)
    }

    fn fill(&mut self, line: u64, w: &Words, from: u64) -> io::Result<u32> {
        let slot = self.take()?;
        self.number += 1;
        self.put(slot, PLACE, line);
        self.put(slot, FROM, from);
        self.put(slot, UNTIL, 0);
        self.put(slot, SUM, sum(self.number, line, from, w));
        for (i, v) in w.iter().enumerate() {
            self.put(slot, BYTES + i, *v);
        }
        self.put(slot, NUMBER, self.number);
        Ok(slot)
    }

    fn release(&mut self, slot: u32) {
        self.put(slot, NUMBER, 0);
        self.free.push(slot);
    }

    /// The durable bytes of a line, by its distance from the start of NVMM; `None`: those in memory are
    /// durable. Lines outside NVMM are ignored. If it fails, for want of space, nothing has changed.
    pub fn set(&mut self, line: u64, durable: Option<&Words>) -> io::Result<()> {
        if line >= self.len {
            return Ok(());
        }
        let new = match durable {
            Some(w) => Some(self.fill(line, w, 0)?),
            None => None,
        };
        let old = match new {
            Some(slot) => self.slots.insert(line, slot),
            None => self.slots.remove(&line),
        };
        if let Some(old) = old {
            self.release(old);
        }
        Ok(())
    }

    /// Changes of several lines, all at once.
    pub fn set_all(&mut self, changes: &[(u64, Option<Words>)]) -> io::Result<()> {
        if let [(line, durable)] = changes {
            return self.set(*line, durable.as_ref());
        }
        let next = self.state.get(state::EPOCH) + 1;
        let mut new = Vec::with_capacity(changes.len());
        let len = self.len;
        for (line, durable) in changes.iter().filter(|c| c.0 < len) {
            let slot = match durable.as_ref().map(|w| self.fill(*line, w, next)) {
                None => None,
                Some(Ok(slot)) => Some(slot),
                Some(Err(e)) => {
                    // Slots that were prepared would count with the next epoch.
                    let prepared = new.into_iter().filter_map(|n: (u64, Option<u32>)| n.1);
                    prepared.for_each(|slot| self.release(slot));
                    return Err(e);
                }
            };
            new.push((*line, slot));
        }
        for (line, _) in &new {
            if let Some(old) = self.slots.get(line) {
                self.put(*old, UNTIL, next);
            }
        }
        self.state.set(state::EPOCH, next);
        for (line, slot) in new {
            let old = match slot {
                Some(slot) => self.slots.insert(line, slot),
                None => self.slots.remove(&line),
            };
            if let Some(old) = old {
                self.release(old);
            }
        }
        Ok(())
    }

    /// The bytes of all lines in memory are durable, all at once.
    pub fn clear(&mut self) {
        let next = self.state.get(state::EPOCH) + 1;
        for slot in self.slots.values() {
            self.put(*slot, UNTIL, next);
        }
        self.state.set(state::EPOCH, next);
        for slot in std::mem::take(&mut self.slots).into_values() {
            self.release(slot);
        }
    }

    /// The slot's number of a line.
    #[cfg(test)]
    pub(crate) fn number_of(&self, line: u64) -> Option<u64> {
        let slot = *self.slots.get(&line)? as usize;
        Some(self.area.get(slot * PER_SLOT + NUMBER))
    }
}

/// A slot that counts does not hold what was written there.
#[derive(Debug)]
pub struct BadSlot(pub u64);

/// The lines of an image that are not durable as they are, with their durable bytes, by ascending address.
/// `epoch` is that of the image.
pub(crate) fn read(
    file: &File,
    h: &Header,
    epoch: u64,
) -> io::Result<Result<BTreeMap<u64, Words>, BadSlot>> {
    let end = file.metadata()?.len();
    let slots = (end.saturating_sub(h.undo_at()) / SLOT).min(MOST);
    let mut found: BTreeMap<u64, (u64, Words)> = BTreeMap::new();
    let mut buffer = vec![0; (GROWTH * SLOT) as usize];
    let mut first = 0;
    while first < slots {
        let count = GROWTH.min(slots - first);
        let part = &mut buffer[..(count * SLOT) as usize];
        file.read_exact_at(part, h.undo_at() + first * SLOT)?;
        for (i, slot) in part.chunks_exact(SLOT as usize).enumerate() {
            let word = |i: usize| {
                u64::from_le_bytes(slot[8 * i..8 * i + 8].try_into().expect("eight bytes"))
            };
            let counts = word(FROM) <= epoch && (word(UNTIL) == 0 || word(UNTIL) > epoch);
            if word(NUMBER) == 0 || !counts {
                continue;
            }
            let w: Words = std::array::from_fn(|i| word(BYTES + i));
            let fits = word(PLACE) < h.geometry.len && word(PLACE).is_multiple_of(LINE);
            if !fits || sum(word(NUMBER), word(PLACE), word(FROM), &w) != word(SUM) {
                return Ok(Err(BadSlot(first + i as u64)));
            }
            let known = found.get(&word(PLACE)).map_or(0, |k| k.0);
            if word(NUMBER) > known {
                found.insert(word(PLACE), (word(NUMBER), w));
            }
        }
        first += count;
    }
    Ok(Ok(found.into_iter().map(|(l, (_, w))| (l, w)).collect()))
}
