//! Cell writes that can be paused for reads, see [`WritePause`](crate::dram::spec::WritePause).

use super::super::timing::CellWrite;
use super::*;

/// The last cell write of a bank.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cell {
    /// Clock of its beginning or resumption, overhead included.
    pub begin: u64,
    /// Clock of its end, if it is not paused.
    pub end: u64,
    /// Clocks that remain of a paused one; 0: not paused.
    pub rest: u64,
    /// Clock from which on it is paused.
    pub since: u64,
    /// Clock of the last precharge.
    pub closed: u64,
    /// Number of pauses so far.
    pub pauses: u32,
}

impl Cell {
    pub fn is_paused(&self) -> bool {
        self.rest > 0
    }

    /// First clock at which the bank can be activated.
    pub fn free(&self) -> u64 {
        if self.is_paused() {
            self.since
        } else {
            self.end
        }
    }

    /// Clock at which a `PAUSE` at `clock` would stop it, if that is before its end.
    fn stop(&self, clock: u64, w: &CellWrite) -> Option<u64> {
        let n = clock.saturating_sub(self.begin).div_ceil(w.step).max(1);
        Some(self.begin + n * w.step).filter(|p| *p < self.end)
    }

    /// When a paused one can be resumed.
    pub fn resumable(&self, w: &CellWrite) -> u64 {
        self.since.max(self.closed + w.close)
    }

    /// First clock from `now` on at which it can be paused for a read.
    pub fn pausable(&self, now: u64, r: &Rules) -> Option<u64> {
        let w = r.table.cell.as_ref().filter(|_| r.params.write_pause)?;
        let limit = r.params.write_pause_limit;
        if self.is_paused() || (limit > 0 && self.pauses >= limit) {
            return None;
        }
        let clock = now.max(self.closed);
        self.stop(clock, w).map(|_| clock)
    }
}

impl Channel {
    /// Resumes paused writes whose bank no request wants; if the row is open, it is closed first.
    /// first if it is open.
    pub(super) fn offer_resume(&self, plan: &mut Plan, q: usize, w: &CellWrite) {
        self.paused.for_each(|i| {
            if self.queues.lists[q][i].head != NONE {
                return;
            }
            let b = &self.banks[i];
            if self.promised(i, b, q).is_some() {
                return;
            }
            if b.row == NONE {
                let clock = self.cells[i].resumable(w).max(self.now);
                plan.offer(clock, 4, i as u64, What::Resume(i as u32));
            } else {
                let known = self
                    .times
                    .known(i, b.group as usize, b.rank as usize, PRE)
                    .max(self.now);
                plan.offer(known, 4, i as u64, What::PreBank(i as u32));
            }
        });
    }

    /// Handles a precharge at `clock`: the cell write of a dirty row begins.
    pub(super) fn cell_closed(&mut self, bank: u32, clock: u64, dirty: bool, t: &Table) {
        if dirty {
            self.written = self.written.max(clock + t.close_written);
        }
        let Some(w) = &t.cell else { return };
        let c = &mut self.cells[bank as usize];
        c.closed = clock;
        if dirty {
            let begin = clock + w.close;
            c.begin = begin;
            c.end = begin + w.length;
            c.pauses = 0;
        }
    }

    pub(super) fn pause(&mut self, bank: u32, clock: u64, t: &Table) {
        let Some(w) = &t.cell else { return };
        let c = &mut self.cells[bank as usize];
        let Some(stop) = c.stop(clock, w) else { return };
        c.rest = c.end - stop;
        c.since = stop;
        c.pauses += 1;
        self.paused.insert(bank);
        self.count.banks[bank as usize].write_pauses += 1;
        self.log_bank(Command::Pause, bank, 0, 0, clock, t);
    }

    pub(super) fn resume(&mut self, bank: u32, clock: u64, t: &Table) {
        let Some(w) = &t.cell else { return };
        let from = self.count_from;
        let c = &mut self.cells[bank as usize];
        c.begin = clock + w.overhead;
        c.end = c.begin + c.rest;
        c.rest = 0;
        self.written = self.written.max(c.end);
        let stood = clock.saturating_sub(c.since.max(from));
        self.paused.remove(bank);
        self.count.paused_clocks[bank as usize] += stood;
        self.log_bank(Command::Resume, bank, 0, 0, clock, t);
    }

    /// Number of clocks in which the cell write of a bank was paused.
    pub fn paused_clocks(&self, bank: usize) -> u64 {
        let running = match self.cells.get(bank) {
            Some(c) if c.is_paused() => self.now.saturating_sub(c.since.max(self.count_from)),
            _ => 0,
        };
        let counted = self.count.paused_clocks.get(bank);
        running + counted.copied().unwrap_or(0)
    }
}
