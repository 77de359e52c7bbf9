//! Branch prediction: a branch target buffer, a history table of one bit a
//! counter indexed with global history, and a return address stack.

use crate::config::PredictorGeometry;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[repr(C)]
pub(crate) struct BtbEntry {
    pub pc: u64,
    pub target: u64,
}

/// For one hash of a pc: how many BTB entries share it, and the last one (an index).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[repr(C)]
pub(crate) struct Bucket {
    pub count: u8,
    pub last: u8,
}

/// What the front end would have done with a control transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Right, without a bubble.
    Right,
    /// Right, but found only by the decoder.
    Late,
    /// Wrong.
    Wrong,
}

/// Predictor state of one hart.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Predictor {
    pub(crate) btb: Vec<BtbEntry>,
    next: usize,
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) bht: Vec<bool>,
    pub(crate) history: u32,
    pub(crate) history_mask: u32,
    /// Return addresses: a ring, of which the last `ras_len` before `ras_top` count.
    pub(crate) ras: Vec<Return>,
    pub(crate) ras_top: u32,
    pub(crate) ras_len: u32,
    pub(crate) ras_limit: u32,
}

/// A return address, and the cycle of its call.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[repr(C)]
pub(crate) struct Return {
    pub address: u64,
    pub cycle: u64,
}

/// Room of the ring of return addresses.
pub(crate) const RETURNS: usize = 64;

const BUCKETS: usize = 256;

/// Hash of a pc: its bits 1 to 8 against bits 9 to 16.
pub fn bucket(pc: u64) -> usize {
    ((pc >> 1) ^ (pc >> 9)) as usize & (BUCKETS - 1)
}

impl Predictor {
    /// An empty predictor.
    pub fn new(g: PredictorGeometry) -> Self {
        Self {
            // A pc is never odd: no entry matches before it is filled.
            btb: vec![BtbEntry { pc: 1, target: 0 }; g.btb_entries as usize],
            next: 0,
            buckets: vec![Bucket::default(); BUCKETS],
            bht: vec![false; g.bht_entries as usize],
            history: 0,
            history_mask: (1 << g.history_bits) - 1,
            ras: vec![Return::default(); RETURNS],
            ras_top: 0,
            ras_len: 0,
            ras_limit: g.ras_entries,
        }
    }

    /// Whether this is a possible state of a predictor like `other`.
    pub(crate) fn fits(&self, other: &Predictor) -> bool {
        let lengths = |p: &Predictor| [p.btb.len(), p.buckets.len(), p.bht.len(), p.ras.len()];
        if lengths(self) != lengths(other) || self.next >= self.btb.len() {
            return false;
        }
        let mut counts = [0u8; BUCKETS];
        for e in self.btb.iter().filter(|e| e.pc & 1 == 0) {
            counts[bucket(e.pc)] += 1;
        }
        let counted = |(b, n): (&Bucket, &u8)| b.count == *n && (b.last as usize) < self.btb.len();
        self.buckets.iter().zip(&counts).all(counted)
            && self.history_mask == other.history_mask
            && self.history <= self.history_mask
            && self.ras_limit == other.ras_limit
            && self.ras_len <= self.ras_limit
    }

    fn find(&self, pc: u64) -> Option<usize> {
        let Bucket { count, last } = self.buckets[bucket(pc)];
        if count == 0 {
            return None;
        }
        if self.btb[last as usize].pc == pc {
            return Some(last as usize);
        }
        self.btb.iter().position(|e| e.pc == pc)
    }

    fn insert(&mut self, pc: u64, target: u64) {
        let i = self.next;
        self.next = (self.next + 1) % self.btb.len();
        if self.btb[i].pc & 1 == 0 {
            self.buckets[bucket(self.btb[i].pc)].count -= 1;
        }
        self.btb[i] = BtbEntry { pc, target };
        let b = &mut self.buckets[bucket(pc)];
        b.count += 1;
        b.last = i as u8;
    }

    fn bht_index(&self, pc: u64) -> usize {
        ((pc >> 2) as usize ^ ((self.history as usize) << 1)) & (self.bht.len() - 1)
    }

    /// A conditional branch with its real direction.
    pub fn branch(&mut self, pc: u64, target: u64, taken: bool) -> Outcome {
        let hit = self.find(pc);
        let i = self.bht_index(pc);
        let predicted = self.bht[i];
        self.bht[i] = taken;
        self.history = (self.history << 1 | taken as u32) & self.history_mask;
        if predicted != taken {
            if taken && hit.is_none() {
                self.insert(pc, target);
            }
            return Outcome::Wrong;
        }
        match (taken, hit) {
            (true, None) => {
                self.insert(pc, target);
                Outcome::Late
            }
            _ => Outcome::Right,
        }
    }

    /// A direct jump at cycle `now`; `link` is the return address if it is a call.
    pub fn jump(&mut self, pc: u64, target: u64, link: Option<u64>, now: u64) -> Outcome {
        if let Some(l) = link {
            self.push(l, now);
        }
        if self.find(pc).is_some() {
            Outcome::Right
        } else {
            self.insert(pc, target);
            Outcome::Late
        }
    }

    /// An indirect jump or call at cycle `now`.
    pub fn indirect(&mut self, pc: u64, target: u64, link: Option<u64>, now: u64) -> Outcome {
        if let Some(l) = link {
            self.push(l, now);
        }
        match self.find(pc) {
            Some(i) if self.btb[i].target == target => Outcome::Right,
            Some(i) => {
                self.btb[i].target = target;
                Outcome::Wrong
            }
            None => {
                self.insert(pc, target);
                Outcome::Wrong
            }
        }
    }

    /// A return at cycle `now`. Up to `delay` cycles after its call it comes too early:
    /// the front end looks at the stack before the call has got there.
    pub fn ret(&mut self, target: u64, now: u64, delay: u32) -> Outcome {
        if self.ras_len == 0 {
            return Outcome::Wrong;
        }
        self.ras_len -= 1;
        self.ras_top = self.ras_top.wrapping_sub(1);
        let r = self.ras[self.ras_top as usize & (RETURNS - 1)];
        if r.address == target && now.saturating_sub(r.cycle) > delay as u64 {
            Outcome::Right
        } else {
            Outcome::Wrong
        }
    }

    fn push(&mut self, link: u64, now: u64) {
        self.ras[self.ras_top as usize & (RETURNS - 1)] = Return {
            address: link,
            cycle: now,
        };
        self.ras_top = self.ras_top.wrapping_add(1);
        self.ras_len = (self.ras_len + 1).min(self.ras_limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HartConfig;

    fn predictor() -> Predictor {
        Predictor::new(HartConfig::rocket().predictor)
    }

    #[test]
    fn a_loop_is_learnt_and_its_end_missed() {
        let mut p = predictor();
        for _ in 0..20 {
            p.branch(0x100, 0x80, true);
        }
        assert_eq!(p.branch(0x100, 0x80, true), Outcome::Right);
        assert_eq!(p.branch(0x100, 0x80, false), Outcome::Wrong);
    }

    #[test]
    fn btb_holds_28_jumps() {
        let mut p = predictor();
        for round in 0..2 {
            for i in 0..28 {
                let o = p.jump(0x1000 + i * 4, 0x40, None, 0);
                assert_eq!(
                    o,
                    if round == 0 {
                        Outcome::Late
                    } else {
                        Outcome::Right
                    }
                );
            }
        }
        p.jump(0x9000, 0, None, 0);
        assert_eq!(p.jump(0x1000, 0x40, None, 0), Outcome::Late);
    }

    #[test]
    fn returns_nest_six_deep() {
        let mut p = predictor();
        for i in 0..7 {
            p.jump(0x2000 + i * 8, 0x40, Some(0x2004 + i * 8), i);
        }
        for i in (1..7).rev() {
            assert_eq!(p.ret(0x2004 + i * 8, 100, 2), Outcome::Right);
        }
        assert_eq!(p.ret(0x2004, 100, 2), Outcome::Wrong);
    }

    #[test]
    fn a_return_right_behind_its_call_comes_too_early() {
        for (later, outcome) in [
            (1, Outcome::Wrong),
            (2, Outcome::Wrong),
            (3, Outcome::Right),
        ] {
            let mut p = predictor();
            p.jump(0x2000, 0x40, Some(0x2004), 50);
            assert_eq!(p.ret(0x2004, 50 + later, 2), outcome);
        }
    }
}
