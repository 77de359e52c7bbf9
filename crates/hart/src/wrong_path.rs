//! What the front end does behind a wrong prediction until the pipeline finds out. Calls and returns that it
//! fetches there are put on the return stack and taken from it, jumps that its decoder finds get entries in the branch
//! target buffer, and nothing takes that back. Seen on Rocket's RTL: `Frontend`, which updates both with every
//! packet that enters its queue, and has no copy of either.
//!
//! Only what hits in L1I and the TLB is followed: a miss there is not over before the pipeline has found out.

use crate::ahead::{Ahead, Spared};
use crate::config::CoreTiming;
use crate::predict::is_second_half;
use crate::preop::PreOp;
use crate::transfer::{distance, kind, Kind};
use nagori_isa::inst_len;

/// Cycles from the request of a packet to its arrival.
pub(crate) const FETCH: u64 = 2;

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

/// What is met from an offset in a page. Its packet may be there already.
fn ahead_from(
    at: u64,
    is_there: bool,
    t: &CoreTiming,
    half: &mut impl FnMut(u64) -> Option<u16>,
) -> Ahead {
    let mut way = Way {
        at,
        packet: at & !3,
        packets: u64::from(!is_there),
        most: reach(t),
    };
    let short = |n: u64| n.clamp(1, Ahead::MOST) as u8;
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
    let taken = ahead_from(behind, is_second_half(behind), t, &mut half);
    (taken, ahead_from(ahead, false, t, &mut half))
}

/// Packets that have to come from an offset in a page on until a call or return is met; 0 if none is within reach.
pub(crate) fn meets(at: u64, t: &CoreTiming, half: &mut impl FnMut(u64) -> Option<u16>) -> u8 {
    ahead_from(at, false, t, half).needs
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocket;

    const NOP: u16 = 0x0001;
    const RET: u16 = 0x8082;

    fn ahead(at: u64, is_there: bool, code: &[u16]) -> Ahead {
        ahead_from(at, is_there, &rocket::timing(), &mut |at| {
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
        let t = rocket::timing();
        assert_eq!(reach(&t), 5);
        // With none in the queue, two come: the last two cycles' are under way when fetches go elsewhere.
        assert_eq!((least_waiting(&t, 2), least_waiting(&t, 5)), (0, 3));
    }
}
