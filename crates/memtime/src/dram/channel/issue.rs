//! Issuing a command: what it changes in banks, times, counts and the log.

use super::*;

impl Channel {
    /// Issues a command at clock `c`.
    pub(super) fn issue(&mut self, what: What, c: u64, r: &Rules) {
        let t = &r.table;
        match what {
            What::Nothing => {}
            What::Column(i) => self.issue_column(i, c, r),
            What::Activate(i) => {
                let s = &mut self.queues.slots[i as usize];
                s.activated = true;
                let (bank, row) = (s.bank, s.row);
                let b = &mut self.banks[bank as usize];
                if let Page::Adaptive { max, .. } = r.params.page {
                    if b.closed_row == row {
                        b.timeout = (2 * b.timeout).min(max.into());
                    }
                    b.closed_row = NONE;
                }
                b.row = row;
                b.dirty = false;
                b.columns = 0;
                b.last = c;
                let rank = b.rank as usize;
                if self.open_banks[rank] == 0 {
                    self.open_since[rank] = c;
                }
                self.open_banks[rank] += 1;
                self.open.insert(bank);
                self.queues.opened(bank, row);
                self.count.banks[bank as usize].activations += 1;
                self.commanded(ACT, bank as usize, c, false, r);
                self.candidates.touch(bank);
                match r.params.scheduler {
                    Scheduler::General => {}
                    Scheduler::Ramulator2 => self.make_active(i),
                    Scheduler::Dramsim3 => self.peer.round = bank,
                }
                self.log_bank(Command::Act, bank, row, 0, c, t);
                self.next_candidate(bank, r);
            }
            What::Precharge(i) => {
                let s = &mut self.queues.slots[i as usize];
                s.precharged = true;
                let bank = s.bank;
                if let Page::Adaptive { min, .. } = r.params.page {
                    let b = &mut self.banks[bank as usize];
                    b.timeout = (b.timeout / 2).max(min.into());
                }
                self.peer.round = bank;
                self.precharge(bank, c, r);
            }
            What::Close(bank) => {
                let b = &mut self.banks[bank as usize];
                b.closed_row = b.row;
                self.precharge(bank, c, r);
            }
            What::PreBank(bank) => self.precharge(bank, c, r),
            What::PreAll(rank) => {
                let per_rank = t.per_rank;
                let first = rank as usize * per_rank;
                for b in first..first + per_rank {
                    if self.banks[b].row != NONE {
                        let dirty = self.banks[b].dirty;
                        self.commanded(PRE, b, c, dirty, r);
                        self.cell_closed(b as u32, c, dirty, t);
                        self.close(b as u32, c);
                    }
                }
                self.commanded(PREA, first, c, false, r);
                self.log_rank(Command::PreAll, rank, c);
            }
            What::RefAll(rank) => {
                let per_rank = t.per_rank;
                let first = rank as usize * per_rank;
                self.owed[rank as usize] -= 1;
                for b in &mut self.count.banks[first..first + per_rank] {
                    b.refreshes += 1;
                }
                self.count.refresh_all += 1;
                self.commanded(REFA, first, c, false, r);
                self.log_rank(Command::RefAll, rank, c);
            }
            What::RefBank(bank) => {
                let rank = self.banks[bank as usize].rank as usize;
                self.owed[rank] -= 1;
                self.turn[rank] = (self.turn[rank] + 1) % t.per_rank as u32;
                self.count.banks[bank as usize].refreshes += 1;
                self.candidates.touch(bank);
                self.commanded(REFB, bank as usize, c, false, r);
                self.log_bank(Command::RefBank, bank, 0, 0, c, t);
            }
            What::Pause(bank) => self.pause(bank, c, t),
            What::Resume(bank) => self.resume(bank, c, t),
        }
    }

    fn issue_column(&mut self, i: u32, c: u64, r: &Rules) {
        let t = &r.table;
        let s = self.queues.slots[i as usize];
        let q = usize::from(s.write);
        let bank = s.bank as usize;
        let auto = match r.params.page {
            Page::ClosedAlways => true,
            Page::Closed => self.queues.lists[q][bank].hits == 1,
            _ => false,
        };
        let b = &mut self.banks[bank];
        b.dirty |= s.write;
        b.columns += 1;
        b.last = c;
        let (dirty, rank) = (b.dirty, b.rank);
        self.commanded(RD + q, bank, c, dirty, r);
        self.leave(i, rank, r);
        self.peer.round = s.bank;
        self.written(s.writer);
        let n = &mut self.count.banks[bank];
        let bytes = u64::from(s.mask.count_ones());
        if s.write {
            n.writes += 1;
            n.write_bytes += bytes;
        } else {
            n.reads += 1;
            n.read_bytes += bytes;
        }
        match (s.activated, s.precharged) {
            (_, true) => n.row_conflicts += 1,
            (true, false) => n.row_misses += 1,
            (false, false) => n.row_hits += 1,
        }
        self.count.columns += 1;
        let op = match (s.write, auto) {
            (false, false) => Command::Rd,
            (false, true) => Command::RdA,
            (true, false) => Command::Wr,
            (true, true) => Command::WrA,
        };
        self.log_bank(op, s.bank, s.row, s.column, c, t);
        if auto {
            let start = self.times.auto_precharge(bank, c);
            self.commanded(PRE, bank, start, dirty, r);
            self.cell_closed(s.bank, start, dirty, t);
            self.close(s.bank, c);
        }
        self.next_candidate(s.bank, r);
        let data = if s.write { t.write_data } else { t.read_data };
        if s.write {
            self.written = self.written.max(c + data);
        }
        let hit = !s.activated && !s.precharged;
        let mut l = s.waiter;
        while l != NONE {
            let Link { waiter, next } = self.links[l as usize];
            self.free_links.push(l);
            self.burst_done(waiter, c + data, hit, r.params.back_delay);
            l = next;
        }
    }

    fn precharge(&mut self, bank: u32, c: u64, r: &Rules) {
        let t = &r.table;
        let Bank { row, dirty, .. } = self.banks[bank as usize];
        self.commanded(PRE, bank as usize, c, dirty, r);
        self.cell_closed(bank, c, dirty, t);
        self.log_bank(Command::Pre, bank, row, 0, c, t);
        self.close(bank, c);
        self.next_candidate(bank, r);
    }

    fn close(&mut self, bank: u32, c: u64) {
        let b = &mut self.banks[bank as usize];
        b.row = NONE;
        let rank = b.rank as usize;
        let n = &mut self.count.banks[bank as usize];
        n.activations_unused += u64::from(b.columns == 0);
        if b.dirty {
            n.precharges_dirty += 1;
        } else {
            n.precharges_clean += 1;
        }
        self.candidates.touch(bank);
        self.open.remove(bank);
        self.open_banks[rank] -= 1;
        if self.open_banks[rank] == 0 {
            self.count.open_clocks[rank] += c - self.open_since[rank];
        }
        self.queues.closed(bank);
    }

    #[inline]
    pub(super) fn log_bank(
        &mut self,
        op: Command,
        bank: u32,
        row: u32,
        column: u32,
        clock: u64,
        t: &Table,
    ) {
        let Some(log) = &mut self.log else { return };
        let b = &self.banks[bank as usize];
        let groups = t.groups / t.ranks;
        log.push(Issued {
            clock,
            op,
            channel: self.number,
            rank: b.rank as u8,
            bank_group: (b.group as usize % groups) as u8,
            bank: (bank as usize % t.per_group) as u8,
            row,
            column,
        });
    }

    fn log_rank(&mut self, op: Command, rank: u32, clock: u64) {
        if let Some(log) = &mut self.log {
            log.push(Issued {
                clock,
                op,
                channel: self.number,
                rank: rank as u8,
                bank_group: 0,
                bank: 0,
                row: 0,
                column: 0,
            });
        }
    }
}
