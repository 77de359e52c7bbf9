//! Line fill buffers that combine non-temporal stores, and write them to memory past the caches.
//!
//! A combined line occupies a register of the data cache from its first store until memory has accepted it. Its
//! bytes are visible to all, and belong to memory, from the moment when it leaves.

use super::coherence::Coherence;
use super::stores::{Bytes, Combined, Deed, Leaving, Sent, Why};
use crate::config::{Drain, Partial};

impl Coherence {
    /// Whether some hart combines stores to a line.
    pub fn is_combined(&self, line: u64) -> bool {
        let mut all = self.levels.stores.parts.iter().flat_map(|b| &b.combining);
        all.any(|c| c.line == line)
    }

    /// A line that is combined although some cache has it; for checks.
    pub(crate) fn combined_and_cached(&self) -> Option<u64> {
        let all = self.levels.stores.parts.iter().flat_map(|b| &b.combining);
        let mut lines = all.map(|c| c.line);
        lines.find(|l| self.is_cached(*l))
    }

    /// Whether a hart combines stores to a line.
    pub fn combines(&self, hart: usize, line: u64) -> bool {
        self.buffers(hart).combining.iter().any(|c| c.line == line)
    }

    /// Whether some cache for data has a line.
    pub fn is_cached(&self, line: u64) -> bool {
        let levels = self.levels.levels.iter().map(|l| &l.caches);
        let mut all = [&self.l1d].into_iter().chain(levels);
        all.any(|c| {
            let mut mask = c.mask(line, None);
            c.next(line, &mut mask).is_some()
        })
    }

    /// A line fill buffer begins to combine stores to a line. False if none is free; the oldest line leaves then.
    pub fn begin_combining(&mut self, hart: usize, line: u64, now: u64, pc: u64) -> bool {
        self.levels.stores.clock = self.levels.stores.clock.max(now);
        if !self.take_registers(hart, 0) {
            self.leave(hart, 0, Why::Register, now);
            return false;
        }
        self.void_prefetches(line, super::ahead::NOBODY);
        let b = self.buffers_mut(hart);
        b.stats.combined += 1;
        b.combining.push(Combined {
            line,
            bytes: Bytes::default(),
            pc,
        });
        true
    }

    /// A hart needs a line fill buffer, and none is free: if none is about to be, the oldest combined line leaves.
    pub fn spare_register(&mut self, hart: usize, now: u64) {
        if self.buffers(hart).leaving.is_empty() {
            self.leave(hart, 0, Why::Register, now);
        }
    }

    /// A store joins a combined line, which leaves if it is full.
    pub fn combine(&mut self, hart: usize, (addr, size, value): (u64, u8, u64), now: u64) {
        let b = self.buffers_mut(hart);
        b.stats.nt_stores += 1;
        let mut all = b.combining.iter_mut().enumerate();
        let Some((i, c)) = all.find(|(_, c)| c.line == addr & !63) else {
            return;
        };
        c.bytes.set(addr, size, value);
        if c.bytes.is_full() {
            self.leave(hart, i, Why::Full, now);
        }
    }

    /// A combined line of a hart leaves, by its place among them; in order, the older ones leave before.
    pub(super) fn leave(&mut self, hart: usize, i: usize, why: Why, now: u64) {
        if i >= self.buffers(hart).combining.len() {
            return;
        }
        if self.levels.stores.config.order == Drain::InOrder {
            for _ in 0..i {
                self.send(hart, 0, Why::Order, now);
            }
            self.send(hart, 0, why, now);
        } else {
            self.send(hart, i, why, now);
        }
    }

    fn send(&mut self, hart: usize, i: usize, why: Why, now: u64) {
        let token = self.levels.ahead.number();
        let config = self.levels.stores.config;
        let b = self.buffers_mut(hart);
        let c = b.combining.remove(i);
        let Combined { line, bytes, pc } = c;
        b.leaving.push(Leaving {
            token,
            line,
            comes: None,
        });
        let partial = config.partial[usize::from(line >= config.nvmm_base)];
        let reads = !bytes.is_full() && partial == Partial::ReadModifyWrite;
        b.stats.leaves(why);
        b.stats.evicted_full += u64::from(bytes.is_full());
        b.stats.evicted_partial += u64::from(!bytes.is_full());
        b.stats.evicted_reads += u64::from(reads);
        self.levels.stores.deeds.push_back(Deed::Write {
            hart,
            line,
            bytes,
            dirties: true,
        });
        let sent = Sent {
            hart,
            pc,
            line,
            cycle: now,
            token,
        };
        self.levels
            .stores
            .deeds
            .push_back(Deed::Send { sent, reads });
    }

    /// All combined lines of a hart leave.
    pub fn leave_all(&mut self, hart: usize, why: Why, now: u64) {
        while !self.buffers(hart).combining.is_empty() {
            self.leave(hart, 0, why, now);
        }
    }

    /// A cache is going to get a line, or stores to it are to be ordered: it leaves all buffers in which it is
    /// combined. For the hart `of` the reason is `own`, for others a probe.
    pub fn leave_buffers(&mut self, line: u64, of: Option<usize>, own: Why, now: u64) {
        for hart in 0..self.levels.stores.parts.len() {
            let mut all = self.buffers(hart).combining.iter();
            if let Some(i) = all.position(|c| c.line == line) {
                let why = if of == Some(hart) { own } else { Why::Probe };
                self.leave(hart, i, why, now);
            }
        }
    }

    /// Memory answers a write at a cycle: the line fill buffer is free from then on. False if it is none of these.
    pub(crate) fn combined_came(&mut self, token: u64, cycle: u64) -> bool {
        let mut all = self.levels.stores.parts.iter_mut().enumerate();
        let found = all.find_map(|(hart, b)| {
            let l = b.leaving.iter_mut().find(|l| l.token == token)?;
            l.comes = Some(cycle);
            Some(hart)
        });
        if let Some(hart) = found {
            self.give_register(hart, cycle);
            self.find_due();
        }
        found.is_some()
    }
}
