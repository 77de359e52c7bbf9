//! Completion times that are known without simulation, for the common cases of cores that
//! wait for each of their misses.

use super::engine::{bit, Bits, State, MAX_MACHINES, NONE};
use super::event::Tag;
use super::timing::Timing;
use crate::mapping::MAX_BANKS;
use crate::request::Kind;

impl State {
    /// Clock of the column command of a read that is accepted in a clock and needs another row than
    /// that of machine `o`, if `o` is the only busy machine and has issued its column command.
    #[inline]
    fn behind(&self, o: usize, accept: u64, t: &Timing) -> Option<u64> {
        if self.busy != bit(o) || (self.rtp | self.rp) & bit(o) == 0 {
            return None;
        }
        let bank = self.bank[o];
        let closed = if self.rp & bit(o) != 0 {
            self.ready[o].max(self.now)
        } else {
            let precharge = self.ready[o].max(self.ras_end[o]).max(self.now);
            // If the read is accepted before the precharge, it is the newest request; otherwise it
            // comes too late.
            let tested = if t.own_bank || accept < precharge {
                bank
            } else {
                self.newest_bank
            };
            let slow = t.is_nvmm(tested) && self.dirty >> tested & 1 != 0;
            precharge + t.rp + if slow { t.add_rp } else { 0 }
        };
        let column = closed.max(accept + t.wait) + t.activation(bank).0;
        (column < self.calm_until(t)).then_some(column)
    }

    /// When the only request at the port is accepted (write) or has its column command (read), if
    /// that follows without simulation. With `certain`, only if no later request can change it.
    #[inline]
    pub fn foresee(&self, tag: &Tag, t: &Timing, certain: bool) -> Option<u64> {
        let mine = &self.channels[tag.kind as usize];
        let alone = self.channels[0].len + self.channels[1].len == 1;
        if !alone || self.busy & t.machines == t.machines {
            return None;
        }
        let accept = mine.ready.max(self.now);
        if tag.kind == Kind::Write {
            return Some(accept);
        }
        let undisturbed = !self.maintenance && self.now >= self.pulse_end;
        if !undisturbed || accept >= self.calm_until(t) {
            return None;
        }
        // Machines that wait for others' progress, in unknown clocks.
        if self.wait & (self.queued | self.hit) != 0
            || self.writing & self.writing.wrapping_sub(1) != 0
        {
            return None;
        }
        let older = self.newest[tag.bank as usize % MAX_BANKS];
        let column = if older == NONE {
            let activate = accept + t.wait;
            // Requests that were accepted earlier are ready in other clocks.
            if u64::from(self.wait.count_ones()) > activate - self.now {
                return None;
            }
            activate + t.activation(tag.bank).0
        } else {
            let o = older as usize % MAX_MACHINES;
            let open = self.rtp & bit(o) != 0 && self.ready[o] > accept;
            if !open || self.row[o] != tag.row || self.marked & bit(o) != 0 {
                // A later request would be the one that the precharge tests.
                let open = certain && t.add_rp != 0 && !t.own_bank;
                return self.behind(o, accept, t).filter(|_| !open);
            }
            accept + 1
        };
        // Others' columns within the few clocks by which machines can delay one another.
        const NEAR: u64 = 2 * MAX_MACHINES as u64;
        let near = |c: u64| c <= column && column < c + NEAR;
        for i in Bits(self.column | self.wait) {
            let mut c = self.ready[i].max(self.now);
            if self.wait & bit(i) != 0 {
                c += t.activation(self.bank[i]).0;
            }
            if near(c) {
                return None;
            }
        }
        Some(column)
    }
}
