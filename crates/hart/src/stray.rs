//! Where the front end of a hart goes behind a wrong prediction, and what that leaves behind.

use crate::ahead::{Ahead, Spared};
use crate::hart::Hart;
use crate::pmp::Access;
use crate::predict::{is_second_half, Astray, Led, Site, BUSY};
use crate::tlb::TlbHit;
use crate::transfer::Kind;
use crate::world::World;
use crate::wrong_path::{least_waiting, meets, FETCH};

impl Hart {
    /// Whether the front end meets a call or return behind a wrong prediction that leads to an address, with a history.
    #[inline(always)]
    pub(crate) fn meets_call(&self, s: &Site, to: u64, a: Ahead, history: u32) -> bool {
        let waiting = s.now.wrapping_sub(s.front) as i64;
        if a.needs == 0 || waiting < least_waiting(&self.config.timing, a.needs) {
            return false;
        }
        let p = &self.state.predictor;
        let spared = |b: Spared| {
            if to == s.behind && is_second_half(to) && b.last == 0 {
                // It is in the packet of the wrong prediction, which has one bit.
                return !b.taken;
            }
            let last = to.wrapping_add(b.last.into());
            let i = p.hash().of_pc(last) ^ p.hash().of_history(history);
            p.bht[i as usize] == b.taken
        };
        !a.spared.is_some_and(spared)
    }

    /// An indirect jump was predicted wrong. `known` may know what [`Block::meets`](crate::Block::meets) is at an
    /// address.
    pub(crate) fn stray_from_jump<W: World>(
        &mut self,
        w: &mut W,
        s: &Site,
        led: Led,
        known: impl FnOnce(u64) -> Option<u8>,
    ) {
        let (Led::To(to) | Led::Late(to)) = led else {
            return;
        };
        let needs = known(to).unwrap_or_else(|| self.meets_at(w, to));
        let spared = None;
        let history = self.state.predictor.history;
        if self.meets_call(s, to, Ahead { needs, spared }, history) {
            self.stray(w, s, led, history);
        }
    }

    #[cold]
    fn meets_at<W: World>(&mut self, w: &mut W, to: u64) -> u8 {
        let Some(offset) = self.fetched(w, to) else {
            // Not fetched in time, whatever it is.
            return 0;
        };
        let page = offset.wrapping_sub(to & 0xfff);
        let ram = w.ram();
        let half = &mut |at| ram.read_u16(page.wrapping_add(at));
        meets(to & 0xfff, &self.config.timing, half)
    }

    /// The front end has followed a wrong prediction. Its history is what the first packet there is looked up with.
    #[cold]
    pub(crate) fn stray<W: World>(&mut self, w: &mut W, s: &Site, led: Led, mut history: u32) {
        let (mut pc, bubble) = match led {
            Led::Nowhere => return,
            Led::To(pc) => (pc, false),
            Led::Late(pc) => (pc, true),
        };
        let t = &self.config.timing;
        let (redirect, return_delay) = (u64::from(t.btb_miss_jump), t.return_after_call);
        // The first packet there comes when the queue has room; the last one, when fetches go elsewhere.
        let queue = s.now.saturating_sub(t.fetch_queue.into());
        let mut at = s.front.max(queue) + if bubble { redirect } else { 0 };
        // The other half of the branch's own packet has come with it.
        let mut straight = pc == s.behind && is_second_half(pc);
        at -= u64::from(straight && at > 0);
        // The last packet with a branch, and its bit of the history table.
        let mut packet = straight.then_some((s.last >> 2, false));
        let until = (s.now + u64::from(t.mispredict)).saturating_sub(FETCH);
        let hash = self.state.predictor.hash();
        while at <= until {
            let Some(offset) = self.fetched(w, pc) else {
                return;
            };
            let slot = self.seen.look(pc, w.ram(), offset);
            let code = self.seen.at(slot);
            if code.bytes == 0 {
                // Of an instruction across the end of the page nothing is known.
                return;
            }
            let packets = |to: u64| ((to & !3).wrapping_sub(pc & !3)) >> 2;
            // A second half that was jumped to finds no entry.
            let blind = is_second_half(pc) && !std::mem::take(&mut straight);
            let behind = pc.wrapping_add(code.bytes.into());
            let mut next = Led::To(behind);
            let mut then = at + packets(behind);
            for c in code.transfers() {
                let last = pc.wrapping_add(c.last.into());
                let now = at + packets(last);
                if now > until || (last ^ pc) & !63 != 0 && self.fetched(w, last).is_none() {
                    return;
                }
                let p = &mut self.state.predictor;
                // Packets without branches and jumps are not looked up: an entry there would be of other code.
                let entry = if blind && packets(last) == 0 {
                    None
                } else {
                    p.btb.find(last)
                };
                let hit = entry.filter(|&i| p.btb.entries[i].last == last);
                let target = hit.map(|i| p.btb.entries[i].target);
                let found = match target {
                    Some(target) => Led::To(target),
                    None => Led::Late(last.wrapping_add(c.distance as u64)),
                };
                let goes = match c.kind {
                    Kind::Other => continue,
                    Kind::Branch => {
                        let number = last >> 2;
                        let bit = match packet.filter(|p| p.0 == number) {
                            Some((_, bit)) => bit,
                            None => {
                                let i = hash.of_pc(last) ^ hash.of_history(history);
                                let bit = p.bht[i as usize];
                                history = hash.advance(history, bit);
                                packet = Some((number, bit));
                                bit
                            }
                        };
                        if !bit || entry != hit {
                            continue;
                        }
                        found
                    }
                    Kind::Jump(_) => found,
                    Kind::Indirect(_) => target.map_or(Led::Nowhere, Led::To),
                    Kind::Return => p.returns(target, now, return_delay),
                };
                if let Kind::Jump(true) | Kind::Indirect(true) = c.kind {
                    p.push(last.wrapping_add(2), now);
                }
                if let (Led::Late(target), None, true) = (goes, entry, s.waiting < BUSY) {
                    p.btb.enter(None, last, target);
                }
                if let Some(i) = hit {
                    p.btb.touch(i);
                }
                next = goes;
                then = now + 1;
                break;
            }
            match next {
                Led::Nowhere => return,
                Led::To(to) => pc = to,
                Led::Late(to) => {
                    pc = to;
                    then += redirect;
                }
            }
            at = then;
        }
    }

    /// A wrong prediction has led elsewhere than to the address where the program goes on. If either line is missing in
    /// L1I, the one that is needed comes behind the other, whose fetch has begun. Where the needed one is there, the
    /// other one is left out.
    #[inline(always)]
    pub(crate) fn asks_astray<W: World>(&mut self, w: &mut W, s: &Site, led: Led, needed: u64) {
        if self.fetch.at((needed >> 6) as usize).read != needed & !63 | self.fetch_tag() {
            self.state.predictor.astray = self.asked_astray(w, s, led, needed);
        }
    }

    #[cold]
    fn asked_astray<W: World>(
        &mut self,
        w: &mut W,
        s: &Site,
        led: Led,
        needed: u64,
    ) -> Option<Astray> {
        if self.fetched(w, needed).is_some() {
            return None;
        }
        let t = &self.config.timing;
        let (from, bubble) = match led {
            // It goes on fetching, though it uses nothing of that.
            Led::Nowhere => (s.behind, 0),
            Led::To(pc) => (pc, 0),
            Led::Late(pc) => (pc, t.btb_miss_jump),
        };
        let queue = s.now.saturating_sub(t.fetch_queue.into());
        let at = s.front.max(queue) + u64::from(bubble);
        let until = (s.now + u64::from(t.mispredict)).saturating_sub(FETCH);
        let packets = (until + 1).saturating_sub(at);
        let (line, _) = self.missing_ahead(w, from, packets)?;
        Some(Astray { line, void: false })
    }

    /// What is on its way when a `fence.i` empties L1I: the packets behind it have been asked for. The last one comes
    /// too late to be given up.
    pub(crate) fn fetched_ahead<W: World>(&mut self, w: &mut W, pc: u64) -> Option<Astray> {
        let packets = u64::from(self.config.timing.mispredict);
        let (line, n) = self.missing_ahead(w, (pc & !3).wrapping_add(4), packets)?;
        let void = n + 1 < packets;
        Some(Astray { line, void })
    }

    /// The first line that has to come from memory for so many packets from an address on, where jumps and branches
    /// with an entry in the branch target buffer lead elsewhere; and for which of the packets.
    fn missing_ahead<W: World>(
        &mut self,
        w: &mut W,
        mut at: u64,
        packets: u64,
    ) -> Option<(u64, u64)> {
        for n in 0..packets {
            if self.fetched(w, at).is_none() {
                let line = self.fetch_hit(at)? & !63;
                return w.coherence().inside(line).then_some((line, n));
            }
            let btb = &mut self.state.predictor.btb;
            at = match btb.find(at) {
                Some(i) => btb.entries[i].target,
                None => (at & !3).wrapping_add(4),
            };
        }
        None
    }

    /// Offset in RAM of the code at an address, if it is there without a miss.
    #[inline(always)]
    fn fetched<W: World>(&self, w: &mut W, va: u64) -> Option<u64> {
        let line = self.fetch.at((va >> 6) as usize);
        if line.read == va & !63 | self.fetch_tag() {
            return Some(va.wrapping_add(line.delta));
        }
        let pa = self.fetch_hit(va)?;
        w.coherence().l1i[self.id].find(pa & !63)?;
        Some(pa.wrapping_sub(w.ram_base()))
    }

    /// The physical address to fetch from, if the TLB has it.
    fn fetch_hit(&self, va: u64) -> Option<u64> {
        if !self.translates(self.state.privilege) {
            return Some(va);
        }
        let canonical = (va as i64) << 25 >> 25 == va as i64;
        let found = self
            .state
            .itlb
            .lookup(va << 25 >> 37, self.state.csr.asid());
        let TlbHit { level, pte, .. } = found.filter(|_| canonical)?;
        let may = self.permits(pte, Access::Fetch, self.state.privilege);
        may.then(|| Self::page_address(level, pte, va))
    }
}
