//! What the front end does behind a wrong prediction until the pipeline finds out. Calls and returns that it
//! fetches there are put on the return stack and taken from it, jumps that its decoder finds get entries in the branch
//! target buffer, and nothing takes that back. Seen on Rocket's RTL: `Frontend`, which updates both with every
//! packet that enters its queue, and has no copy of either.
//!
//! Only what hits in L1I and the TLB is followed: a miss there is not over before the pipeline has found out.

use crate::hart::Hart;
use crate::pmp::Access;
use crate::predict::{is_second_half, Led, Site, BUSY};
use crate::preop::{PreOp, STRAYS_AHEAD, STRAYS_BEHIND};
use crate::tlb::TlbHit;
use crate::transfer::{distance, kind, Kind};
use crate::world::World;
use nagori_isa::inst_len;

/// Cycles from the request of a packet to its arrival.
const FETCH: u64 = 2;
/// Packets behind a branch in which calls and returns are looked for when it is decoded: as many as the queue holds,
/// and those that are requested when it is full.
const REACH: u64 = 5;

/// The flags of a branch in a block that begins at an offset in its page, by what [`Hart::stray`] would meet there;
/// `half` reads the page.
pub(crate) fn strays(begin: u64, p: &PreOp, mut half: impl FnMut(u64) -> Option<u16>) -> u8 {
    let at = begin + u64::from(p.off);
    let behind = at + u64::from(p.len);
    let ahead = at.wrapping_add(p.imm as i64 as u64);
    let mut flag = |to, flag| match reaches_call(to, &mut half) {
        true => flag,
        false => 0,
    };
    flag(behind, STRAYS_BEHIND) | flag(ahead, STRAYS_AHEAD)
}

/// Whether a call or return is found within the reach of a wrong prediction that leads to an offset in a page, by
/// straight code and direct jumps.
fn reaches_call(mut at: u64, half: &mut impl FnMut(u64) -> Option<u16>) -> bool {
    let mut packets = REACH;
    let mut packet = at & !3;
    while at < 0x1000 {
        let Some(low) = half(at) else {
            return false;
        };
        let len = u64::from(inst_len(low));
        let high = match (len, at + 2 < 0x1000) {
            (4, true) => half(at + 2),
            (4, false) => None,
            _ => Some(0),
        };
        let Some(high) = high else {
            return false;
        };
        // The packet that decides what the instruction is.
        let last = (at + len - 2) & !3;
        packets -= (last != packet) as u64;
        packet = last;
        if packets == 0 {
            return false;
        }
        let word = u32::from(high) << 16 | u32::from(low);
        let next = match kind(word) {
            Kind::Return | Kind::Jump(true) | Kind::Indirect(true) => return true,
            Kind::Indirect(false) => return false,
            Kind::Jump(false) => at.wrapping_add(distance(word)),
            Kind::Branch | Kind::Other => at + len,
        };
        if next != at + len {
            packets -= 1;
            packet = next & !3;
            if packets == 0 {
                return false;
            }
        }
        at = next;
    }
    false
}

impl Hart {
    /// The front end has followed a wrong prediction. Its history is what the first packet there is looked up with.
    #[cold]
    pub(crate) fn stray<W: World>(&mut self, w: &mut W, s: &Site, led: Led, mut history: u32) {
        let (mut pc, bubble) = match led {
            Led::Nowhere => return,
            Led::To(pc) => (pc, false),
            Led::Late(pc) => (pc, true),
        };
        let t = self.config.timing;
        // The first packet there comes when the queue has room; the last one, when fetches go elsewhere.
        let queue = s.now.saturating_sub(t.fetch_queue.into());
        let mut at = s.front.max(queue) + u64::from(bubble) * u64::from(t.btb_miss_jump);
        // The other half of the branch's own packet has come with it.
        let mut straight = pc == s.behind && is_second_half(pc);
        at -= u64::from(straight && at > 0);
        let until = (s.now + u64::from(t.mispredict)).saturating_sub(FETCH);
        let hash = self.predictor.hash();
        // The first half of an instruction in the packet before.
        let mut first = None;
        while at <= until {
            let packet = pc & !3;
            let Some(word) = self.fetched(w, packet) else {
                return;
            };
            let p = &mut self.predictor;
            // A second half that was jumped to finds no entry.
            let blind = is_second_half(pc) && !std::mem::take(&mut straight);
            let entry = match blind {
                true => None,
                false => p.btb.find(packet),
            };
            let mut next = Led::To(packet.wrapping_add(4));
            for half in [packet, packet | 2] {
                if half < pc {
                    continue;
                }
                let low = (word >> (8 * (half & 2))) as u16;
                let hit = entry.filter(|&i| p.btb.entries[i].last == half);
                let hit = hit.map(|i| (i, p.btb.entries[i].target));
                let (from, inst) = match first.take() {
                    Some((from, begun)) => (from, u32::from(low) << 16 | begun),
                    None if inst_len(low) == 4 => {
                        if hit.is_some() {
                            // The entry is not of a branch: the front end empties the buffer.
                            p.btb.clear();
                            return;
                        }
                        first = Some((half, u32::from(low)));
                        continue;
                    }
                    None => (half, u32::from(low)),
                };
                let found = || match hit {
                    Some((_, target)) => Led::To(target),
                    None => Led::Late(from.wrapping_add(distance(inst))),
                };
                let kind = kind(inst);
                let goes = match kind {
                    Kind::Other => continue,
                    Kind::Branch => {
                        let i = hash.of_pc(half) ^ hash.of_history(history);
                        let taken = p.bht[i as usize];
                        history = hash.advance(history, taken);
                        if !taken {
                            continue;
                        }
                        found()
                    }
                    Kind::Jump(_) => found(),
                    Kind::Indirect(_) => hit.map_or(Led::Nowhere, |(_, target)| Led::To(target)),
                    Kind::Return => p.returns(hit.map(|h| h.1), at, t.return_after_call),
                };
                if let Kind::Jump(true) | Kind::Indirect(true) = kind {
                    p.push(half.wrapping_add(2), at);
                }
                if let (Led::Late(target), None, true) = (goes, entry, s.waiting < BUSY) {
                    p.btb.enter(None, half, target);
                }
                if let Some((i, _)) = hit {
                    p.btb.touch(i);
                }
                next = goes;
                break;
            }
            match next {
                Led::Nowhere => return,
                Led::To(to) => pc = to,
                Led::Late(to) => {
                    pc = to;
                    at += u64::from(t.btb_miss_jump);
                }
            }
            if pc != packet.wrapping_add(4) {
                first = None;
            }
            at += 1;
        }
    }

    /// The packet at an address, if it is there without a miss.
    fn fetched<W: World>(&mut self, w: &mut W, va: u64) -> Option<u32> {
        let line = self.fetch.at((va >> 6) as usize);
        let offset = if line.read == va & !63 | self.fetch_tag() {
            va.wrapping_add(line.delta)
        } else {
            let pa = self.fetch_hit(va)?;
            w.coherence().l1i[self.id].find(pa & !63)?;
            pa.wrapping_sub(w.ram_base())
        };
        w.ram().read_u32(offset)
    }

    /// The physical address to fetch from, if the TLB has it.
    fn fetch_hit(&self, va: u64) -> Option<u64> {
        if !self.translates(self.privilege) {
            return Some(va);
        }
        let canonical = (va as i64) << 25 >> 25 == va as i64;
        let found = self.itlb.lookup(va << 25 >> 37, self.csr.asid());
        let TlbHit { level, pte, .. } = found.filter(|_| canonical)?;
        let may = self.permits(pte, Access::Fetch, self.privilege);
        may.then(|| Self::page_address(level, pte, va))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOP: u16 = 0x0001;
    const RET: u16 = 0x8082;

    fn reaches(code: &[u16]) -> bool {
        reaches_call(0, &mut |at| {
            Some(*code.get(at as usize / 2).unwrap_or(&NOP))
        })
    }

    #[test]
    fn calls_are_looked_for_as_far_as_the_front_end_comes() {
        let nops = |n: usize, then: u16| [vec![NOP; n], vec![then]].concat();
        assert!(reaches(&nops(9, RET)), "in the fifth packet");
        assert!(!reaches(&nops(10, RET)), "in the sixth");
        assert!(reaches(&nops(0, 0x9082)), "c.jalr ra");
        assert!(!reaches(&nops(0, 0x8782)), "c.jr a5 leads nowhere");
        // c.j over four halves, then a return.
        assert!(reaches(&[0xa029, NOP, NOP, NOP, NOP, RET]));
        assert!(reaches(&[0x00ef, 0x0000]), "jal ra");
        assert!(!reaches(&[0x006f, 0x0000]), "a loop of one jump");
    }
}
