//! What the front end does behind a wrong prediction until the pipeline finds out. Calls and returns that it
//! fetches there are put on the return stack and taken from it, jumps that its decoder finds get entries in the branch
//! target buffer, and nothing takes that back. Seen on Rocket's RTL: `Frontend`, which updates both with every
//! packet that enters its queue, and has no copy of either.
//!
//! Only what hits in L1I and the TLB is followed: a miss there is not over before the pipeline has found out.

use crate::config::CoreTiming;
use crate::hart::Hart;
use crate::pmp::Access;
use crate::predict::{is_second_half, Astray, Led, Site, BUSY};
use crate::preop::PreOp;
use crate::tlb::TlbHit;
use crate::transfer::{distance, kind, Kind};
use crate::world::World;
use nagori_isa::inst_len;

/// Cycles from the request of a packet to its arrival.
const FETCH: u64 = 2;

/// The most packets behind a branch that come until it is found to be predicted wrong: as many as the queue holds,
/// and those that are requested when it is full.
fn reach(t: &CoreTiming) -> u64 {
    (u64::from(t.fetch_queue) + u64::from(t.mispredict) + 1).saturating_sub(FETCH)
}

/// Whether a wrong prediction may meet a call or a return that needs so many packets, while others wait. Negative: that
/// many cycles until the one behind the branch is there.
pub fn least_waiting(t: &CoreTiming, needs: u8) -> i64 {
    i64::from(needs) + FETCH as i64 - 1 - i64::from(t.mispredict)
}

/// What the front end may meet behind a wrong prediction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ahead {
    /// Packets that have to come until a call or return is met, 1 to 7; 0 if none is within reach.
    pub needs: u8,
    /// The first branch on the way, if nothing is met in one of its directions.
    pub spared: Option<Spared>,
}

/// A branch behind a wrong prediction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spared {
    /// Bytes from where the wrong prediction leads to its last half.
    pub last: u8,
    /// Its direction in which nothing is met.
    pub taken: bool,
}

impl Ahead {
    const MOST: u64 = 7;

    /// In a byte, for instructions in blocks.
    pub(crate) fn pack(self) -> u8 {
        let spared = self
            .spared
            .map_or(0, |s| (s.last / 2 + 1) << 4 | u8::from(s.taken) << 3);
        self.needs | spared
    }

    pub(crate) fn of(byte: u8) -> Self {
        let spared = (byte >> 4).checked_sub(1).map(|half| Spared {
            last: half * 2,
            taken: byte >> 3 & 1 != 0,
        });
        Ahead {
            needs: byte & 7,
            spared,
        }
    }

    /// What is met from an offset in a page. Its packet may be there already.
    fn from(
        at: u64,
        is_there: bool,
        t: &CoreTiming,
        half: &mut impl FnMut(u64) -> Option<u16>,
    ) -> Self {
        let mut way = Way {
            at,
            packet: at & !3,
            packets: u64::from(!is_there),
            most: reach(t),
        };
        let short = |n: u64| n.clamp(1, Self::MOST) as u8;
        let (last, mut taken) = match way.follow(half) {
            Met::Nothing => return Ahead::default(),
            Met::Call => {
                return Ahead {
                    needs: short(way.packets),
                    spared: None,
                }
            }
            Met::Branch { last, taken } => (last, taken),
        };
        let straight = last.checked_sub(at).filter(|n| *n < 30);
        match (taken.until_call(half), way.until_call(half)) {
            (None, None) => Ahead::default(),
            (Some(n), Some(m)) => Ahead {
                needs: short(n.min(m)),
                spared: None,
            },
            (n, m) => Ahead {
                needs: short(n.or(m).unwrap_or(1)),
                spared: straight.map(|last| Spared {
                    last: last as u8,
                    taken: n.is_none(),
                }),
            },
        }
    }
}

/// What is met behind a wrong prediction of a branch if it was taken, and if it was not. Its block begins at an offset
/// in its page, which `half` reads.
pub(crate) fn strays(
    begin: u64,
    p: &PreOp,
    t: &CoreTiming,
    mut half: impl FnMut(u64) -> Option<u16>,
) -> (Ahead, Ahead) {
    let at = begin + u64::from(p.off);
    let behind = at + u64::from(p.len);
    let ahead = at.wrapping_add(p.imm as i64 as u64);
    // The other half of the branch's own packet has come with it.
    let taken = Ahead::from(behind, is_second_half(behind), t, &mut half);
    (taken, Ahead::from(ahead, false, t, &mut half))
}

/// Packets that have to come from an offset in a page on until a call or return is met; 0 if none is within reach.
pub(crate) fn meets(at: u64, t: &CoreTiming, half: &mut impl FnMut(u64) -> Option<u16>) -> u8 {
    Ahead::from(at, false, t, half).needs
}

/// A way through a page that the front end may take.
#[derive(Clone, Copy)]
struct Way {
    at: u64,
    packet: u64,
    packets: u64,
    most: u64,
}

/// What is at the end of straight code.
enum Met {
    Nothing,
    /// A call or return.
    Call,
    /// A branch with its last half at an offset, and the way behind it if it is taken.
    Branch {
        last: u64,
        taken: Way,
    },
}

impl Way {
    /// Goes to an address in another packet.
    fn jump(&mut self, to: u64) {
        self.packets += 1;
        (self.at, self.packet) = (to, to & !3);
    }

    /// Goes on behind the next call, return or branch.
    fn follow(&mut self, half: &mut impl FnMut(u64) -> Option<u16>) -> Met {
        while self.at < 0x1000 && self.packets <= self.most {
            let Some(low) = half(self.at) else {
                return Met::Nothing;
            };
            let len = u64::from(inst_len(low));
            let last = self.at + len - 2;
            let high = match len {
                4 if last < 0x1000 => half(last),
                4 => None,
                _ => Some(0),
            };
            let Some(high) = high else {
                return Met::Nothing;
            };
            // The packet of its last half decides what it is.
            self.packets += u64::from(last & !3 != self.packet);
            self.packet = last & !3;
            if self.packets > self.most {
                return Met::Nothing;
            }
            let word = u32::from(high) << 16 | u32::from(low);
            let to = || self.at.wrapping_add(distance(word));
            match kind(word) {
                Kind::Return | Kind::Jump(true) | Kind::Indirect(true) => return Met::Call,
                Kind::Indirect(false) => return Met::Nothing,
                Kind::Jump(false) => self.jump(to()),
                Kind::Branch => {
                    let mut taken = *self;
                    taken.jump(to());
                    self.at += len;
                    return Met::Branch { last, taken };
                }
                Kind::Other => self.at += len,
            }
        }
        Met::Nothing
    }

    /// The fewest packets to a call or return, whatever the branches on the way do.
    fn until_call(&mut self, half: &mut impl FnMut(u64) -> Option<u16>) -> Option<u64> {
        match self.follow(half) {
            Met::Nothing => None,
            Met::Call => Some(self.packets),
            Met::Branch { mut taken, .. } => {
                let (a, b) = (taken.until_call(half), self.until_call(half));
                a.into_iter().chain(b).min()
            }
        }
    }
}

impl Hart {
    /// Whether the front end meets a call or return behind a wrong prediction that leads to an address, with a history.
    #[inline(always)]
    pub(crate) fn meets_call(&self, s: &Site, to: u64, a: Ahead, history: u32) -> bool {
        let waiting = s.now.wrapping_sub(s.front) as i64;
        if a.needs == 0 || waiting < least_waiting(&self.config.timing, a.needs) {
            return false;
        }
        let p = &self.predictor;
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
        let history = self.predictor.history;
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
        let hash = self.predictor.hash();
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
                let p = &mut self.predictor;
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
            self.predictor.astray = self.asked_astray(w, s, led, needed);
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
            let btb = &mut self.predictor.btb;
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

    fn ahead(at: u64, is_there: bool, code: &[u16]) -> Ahead {
        Ahead::from(at, is_there, &CoreTiming::rocket(), &mut |at| {
            Some(*code.get(at as usize / 2).unwrap_or(&NOP))
        })
    }

    fn needs(code: &[u16]) -> u8 {
        ahead(0, false, code).needs
    }

    #[test]
    fn calls_are_looked_for_as_far_as_the_front_end_comes() {
        let nops = |n: usize, then: u16| [vec![NOP; n], vec![then]].concat();
        assert_eq!(needs(&nops(9, RET)), 5);
        assert_eq!(needs(&nops(10, RET)), 0, "in the sixth packet");
        assert_eq!(needs(&nops(0, 0x9082)), 1, "c.jalr ra");
        assert_eq!(needs(&nops(0, 0x8782)), 0, "c.jr a5 leads nowhere");
        // c.j over four halves, then a return.
        assert_eq!(needs(&[0xa029, NOP, NOP, NOP, NOP, RET]), 2);
        assert_eq!(needs(&[0x00ef, 0x0000]), 1, "jal ra");
        assert_eq!(needs(&[0x006f, 0x0000]), 0, "a loop of one jump");
        let own = |n: usize| ahead(2, true, &nops(1 + n, RET)).needs;
        assert_eq!([0, 1, 10, 11].map(own), [1, 1, 5, 0]);
    }

    #[test]
    fn branches_on_the_way_may_spare_a_call() {
        // c.beqz a5 to itself, or over two halves.
        let (back, over) = (0xc381, 0xc399);
        let spared = |last, taken| Some(Spared { last, taken });
        let found = |needs, spared| Ahead { needs, spared };
        assert_eq!(
            ahead(0, false, &[NOP, over, RET, NOP, NOP]),
            found(2, spared(2, true))
        );
        assert_eq!(
            ahead(0, false, &[over, NOP, NOP, RET, 0x8782]),
            found(2, None),
            "a return in either direction"
        );
        assert_eq!(
            ahead(0, false, &[over, 0x8782, NOP, RET]),
            found(2, spared(0, false))
        );
        assert_eq!(ahead(0, false, &[back]), Ahead::default());
        for byte in 0..=255 {
            let a = Ahead::of(byte);
            assert_eq!(Ahead::of(a.pack()), a);
        }
    }

    #[test]
    fn packets_come_while_others_wait_and_until_the_pipeline_has_found_out() {
        let t = CoreTiming::rocket();
        assert_eq!(reach(&t), 5);
        // With none in the queue, two come: the last two cycles' are under way when fetches go elsewhere.
        assert_eq!((least_waiting(&t, 2), least_waiting(&t, 5)), (0, 3));
    }
}
