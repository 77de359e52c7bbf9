//! Cell writes and their pauses, clock by clock.

use super::*;

impl Reference {
    /// Clocks of the write after which it stops if it is paused now.
    pub(super) fn next_stop(&self, b: usize) -> Option<u64> {
        let (cell, [_, _, step, _]) = (&self.cells[b], self.pausing?);
        let mut stop = step;
        while stop < cell.done {
            stop += step;
        }
        (stop < cell.done + cell.left).then_some(stop)
    }

    pub(super) fn may_pause(&self, b: usize) -> bool {
        let cell = &self.cells[b];
        let limit = self.p.write_pause_limit;
        self.p.write_pause
            && self.now >= cell.from
            && !cell.stands
            && cell.stop.is_none()
            && (limit == 0 || cell.pauses < limit)
            && self.next_stop(b).is_some()
    }

    /// The write is paused, and the row has been closed.
    pub(super) fn may_resume(&self, b: usize) -> bool {
        let cell = &self.cells[b];
        cell.stands && self.closed_for(b)
    }

    pub(super) fn closed_for(&self, b: usize) -> bool {
        let [close, ..] = self.pausing.unwrap();
        let (rank, group, number) = self.place(b);
        let mine =
            |e: &&Past| e.op == Command::Pre && (e.rank, e.group, e.bank) == (rank, group, number);
        let mut last = self.past.iter().filter(mine).map(|e| e.clock + close);
        last.all(|until| until <= self.now)
    }

    /// Advances cell writes by one clock.
    pub(super) fn write_cells(&mut self) {
        let now = self.now;
        for cell in &mut self.cells {
            if cell.stands || cell.left == 0 || now < cell.from {
                continue;
            }
            if cell.lead > 0 {
                cell.lead -= 1;
            } else {
                cell.left -= 1;
                cell.done += 1;
            }
            if cell.lead == 0 && cell.stop == Some(cell.done) {
                cell.stands = true;
            }
        }
    }
}
