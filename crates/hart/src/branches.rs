//! What predictions cost a hart.

use crate::hart::Hart;
use crate::issue::front_packets;
use crate::predict::{is_second_half, Outcome, Site, BIT, BRANCHED};
use crate::preop::{packets, PreOp};

impl Hart {
    /// Where the last instruction of a block stands in the stream of packets.
    #[inline(always)]
    pub(crate) fn site(&self, pc: u64, p: &PreOp) -> Site {
        let begin = pc.wrapping_sub(p.off.into());
        let behind = pc.wrapping_add(p.len.into());
        let last = behind.wrapping_sub(2);
        let before = packets(begin, behind.wrapping_sub(begin));
        let cycles = u32::from(p.cost) + 1;
        let before = u64::from(front_packets(&self.config.timing, before, cycles));
        let front = self.state.predictor.front + before;
        let now = self.state.cycle + u64::from(p.cost) + 1;
        let half = last == begin && is_second_half(last);
        let within = half && self.state.predictor.landed == 0;
        let passed = self.state.predictor.passed;
        Site {
            last,
            behind,
            seen: self.state.predictor.sees(begin, last),
            within,
            bit: (within && passed & BRANCHED != 0).then_some(passed & BIT != 0),
            blind: half && !within,
            front,
            before,
            now,
            waiting: now.saturating_sub(front),
        }
    }

    /// Charges what a prediction costs.
    #[inline(always)]
    pub(crate) fn predicted(&mut self, o: Outcome, s: &Site, taken: bool) {
        match o {
            Outcome::Right => {}
            Outcome::Late => self.mispredicted(true, s, taken),
            Outcome::Wrong(_) => self.mispredicted(false, s, taken),
        }
    }

    #[cold]
    fn mispredicted(&mut self, late: bool, s: &Site, taken: bool) {
        let t = &self.config.timing;
        let (queue, bubble) = (u64::from(t.fetch_queue), u64::from(t.btb_miss_jump));
        let cycles = u64::from(t.mispredict);
        let front = if late {
            let front = s.front.max(s.now.saturating_sub(queue)) + bubble;
            let wait = front.saturating_sub(s.now);
            if wait > 0 {
                self.state.cycle += wait;
                self.run.redirect = wait;
                self.state.predictor.bubble = s.now + wait;
            }
            front
        } else {
            self.state.stats.mispredicts += 1;
            self.state.cycle += cycles;
            self.run.redirect = cycles;
            s.now + cycles
        };
        // The end of the block adds its packets.
        let p = &mut self.state.predictor;
        p.front = front.saturating_sub(s.before);
        if !late && !taken {
            p.lands(s.behind, 2);
        }
    }

    /// The first instruction of a block is in two packets. The first holds nothing else if it was jumped
    /// to, and takes a cycle by itself, unless it could be taken before.
    #[inline(always)]
    pub(crate) fn await_packet(&mut self) {
        self.state.cycle += u64::from(self.state.predictor.landed >> 1);
        self.state.cycle += u64::from(self.state.cycle < self.state.predictor.front);
    }

    /// The block at `begin` ends in front of the instruction at `to`, which begins another one. What
    /// the front end knows then is what it would have known within the block.
    pub(crate) fn cut(&mut self, begin: u64, to: u64) {
        if self.state.timed && begin != to {
            self.state.predictor.front += u64::from(packets(begin, to.wrapping_sub(begin)));
            if self.config.timing.pipes.any() {
                self.state.predictor.front = self.state.predictor.front.min(self.state.cycle);
            }
            self.state.predictor.falls_through(begin, to);
        }
    }

    /// The instruction at the hart's pc is fetched anew.
    pub(crate) fn refetch(&mut self) {
        self.state
            .predictor
            .restart(self.state.pc, self.state.cycle);
    }
}
