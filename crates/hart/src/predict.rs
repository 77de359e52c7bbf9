//! Branch prediction, and the clock of the front end: a branch target buffer, a history table of one
//! bit a counter indexed with global history, a return address stack, and how far fetches are ahead.
//!
//! The front end fetches packets of four bytes, one a cycle, ahead of the pipeline. `front` is the
//! cycle at which the next packet is there for the instruction that needs it; each block adds the
//! packets that it consists of. How far that is behind the hart's time is the number of packets that
//! wait: they hide a bubble, and part of a miss. Time that passes for other reasons fills the queue
//! without anything to be done here. The queue's length limits the distance wherever it is used.

use crate::btb::Btb;
use crate::config::{CoreTiming, PredictorGeometry};
use serde::{Deserialize, Serialize};

/// Bit of `Predictor::landed`: a jump has led there. The bits above count cycles until the packet's other half is
/// there.
pub(crate) const JUMPED: u32 = 1;

/// Most cycles that a result can be on its way, and so a half wait for it.
pub(crate) const LONGEST: u32 = 256;

/// What `Predictor::landed` is if the other half comes after some cycles.
pub const fn waits_for_half(cycles: u32) -> u32 {
    JUMPED | cycles << 1
}

/// What the front end would have done with a control transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Right, without a bubble.
    Right,
    /// Right, but found only by the decoder.
    Late,
    /// Wrong, and where fetches have gone instead.
    Wrong(Led),
}

/// Where a wrong prediction has led the front end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Led {
    /// Straight on behind an indirect jump without a prediction: the front end knows that nothing there is
    /// used, and takes nothing from it.
    Nowhere,
    /// To an address that the branch target buffer or the return stack has named, or straight on behind a branch.
    To(u64),
    /// To an address that the decoder has found, a bubble later.
    Late(u64),
}

/// Predictor state of one hart.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predictor {
    pub(crate) btb: Btb,
    pub(crate) bht: Vec<bool>,
    /// The newest outcome is in the highest bit.
    pub(crate) history: u32,
    /// What the packet behind that of the last branch is looked up with: the history moves too late
    /// for it.
    pub(crate) near: u32,
    /// Of the packet in whose second half a block begins that nothing has jumped to: what it was looked up with,
    /// and what a branch in its first half has found ([`passed`]).
    pub(crate) passed: u32,
    hash: Hash,
    /// Return addresses: a ring, of which the last `ras_len` before `ras_top` count.
    pub(crate) ras: Vec<Return>,
    pub(crate) ras_top: u32,
    pub(crate) ras_len: u32,
    pub(crate) ras_limit: u32,
    /// Cycle at which the next packet is there; while a block runs, of its start.
    pub(crate) front: u64,
    /// How the second half of a packet was jumped to ([`jump_to_half`]); 0 if it was not. Counts where a
    /// block begins with one.
    pub(crate) landed: u32,
    /// Cycle behind the last bubble that was waited for.
    pub(crate) bubble: u64,
    /// Cycles of a miss of L1I that the queue hides; the miss is not over.
    hidden: Option<u32>,
    /// What the decoder has found last and entered, until L1I misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    found: Option<Found>,
    /// A line on its way to L1I that nothing needs; the line that is needed comes behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) astray: Option<Astray>,
}

/// A branch or jump that the decoder has found.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Found {
    last: u64,
    target: u64,
}

/// A line that has been asked for and is not needed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Astray {
    pub line: u64,
    /// L1I has been emptied meanwhile and does not take it.
    pub void: bool,
}

/// A return address, and when the packet of its call was there.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[repr(C)]
pub(crate) struct Return {
    pub address: u64,
    pub front: u64,
}

/// How the history table is indexed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hash {
    /// Binary logarithm of the number of entries.
    bits: u32,
    /// Bits of history.
    length: u32,
    /// Bits that they are hashed to.
    hashed: u32,
}

impl Hash {
    /// The hash of a predictor.
    pub fn new(g: PredictorGeometry) -> Self {
        Self {
            bits: g.bht_entries.trailing_zeros(),
            length: g.history_bits,
            hashed: g.history_hash_bits,
        }
    }

    /// Factor, shift to the right, mask and shift to the left that turn a history into a part of
    /// the index.
    #[inline(always)]
    pub fn steps(self) -> (u32, u32, u32, u32) {
        // The root of 3/4, as a fraction of 32 bits.
        const FRACTION: u64 = 0xddb3_d742;
        let factor = if self.hashed == self.length {
            1
        } else {
            (FRACTION >> (32 - self.length)) as u32
        };
        let mask = (1 << self.hashed) - 1;
        (
            factor,
            self.length - self.hashed,
            mask,
            self.bits - self.hashed,
        )
    }

    /// Part of the index that a pc contributes: the exclusive or of what its page's address and its offset in the page
    /// contribute.
    #[inline(always)]
    pub fn of_pc(self, pc: u64) -> u32 {
        let packet = pc >> 2;
        (packet as u32 & ((1 << self.bits) - 1)) ^ (packet >> self.bits) as u32 & 3
    }

    /// Part of the index that a history contributes.
    #[inline(always)]
    pub fn of_history(self, history: u32) -> u32 {
        let (factor, right, mask, left) = self.steps();
        (history.wrapping_mul(factor) >> right & mask) << left
    }

    /// The history behind another branch.
    #[inline(always)]
    pub fn advance(self, history: u32, taken: bool) -> u32 {
        match self.length {
            0 => 0,
            n => history >> 1 | u32::from(taken) << (n - 1),
        }
    }
}

/// Room of the ring of return addresses.
pub(crate) const RETURNS: usize = 64;

/// Whether an address is that of the second half of a packet.
#[inline(always)]
pub fn is_second_half(pc: u64) -> bool {
    pc & 2 != 0
}

/// What [`Predictor::landed`] is behind a jump of a length. A jump of 16 bits is taken from the buffer
/// behind the queue, so that a packet with a single half that waits in the queue moves there in the same
/// cycle; one of 32 bits uses the end of the queue itself.
#[inline(always)]
pub fn jump_to_half(len: u8) -> u32 {
    match len {
        4 => waits_for_half(1),
        _ => JUMPED,
    }
}

/// Bit of [`Predictor::passed`]: a branch has moved the history for its packet.
pub const BRANCHED: u32 = 1;
/// Bit of [`Predictor::passed`]: the packet's bit of the history table.
pub const BIT: u32 = 2;
/// Where the history begins in [`Predictor::passed`].
pub const SEEN_SHIFT: u32 = 2;

/// [`Predictor::passed`] behind a branch whose packet has a bit of the history table.
pub(crate) fn passed(seen: u32, bit: bool) -> u32 {
    seen << SEEN_SHIFT | BRANCHED | if bit { BIT } else { 0 }
}

/// A branch or jump in the stream of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// Address of its last half: the packet of that half is the one that predicts it.
    pub last: u64,
    /// Address of the instruction behind it.
    pub behind: u64,
    /// The history that its packet was looked up with.
    pub seen: u32,
    /// It begins a block, in a packet that the program was in before.
    pub within: bool,
    /// The bit of the history table that its packet has, if a branch in the packet has come before.
    pub bit: Option<bool>,
    /// Its packet is looked up with the address of the second half, which finds nothing.
    pub blind: bool,
    /// When the packet behind its own is there.
    pub front: u64,
    /// Packets from the beginning of the block to there.
    pub before: u64,
    /// Cycle behind it.
    pub now: u64,
    /// Packets that wait behind its own.
    pub waiting: u64,
}

/// Packets that wait when the decoder finds a branch for which no entry is made any more.
pub const BUSY: u64 = 2;

impl Predictor {
    /// An empty predictor.
    pub fn new(g: PredictorGeometry) -> Self {
        Self {
            btb: Btb::new(g.btb_entries),
            bht: vec![false; g.bht_entries as usize],
            history: 0,
            near: 0,
            passed: 0,
            hash: Hash::new(g),
            ras: vec![Return::default(); RETURNS],
            ras_top: 0,
            ras_len: 0,
            ras_limit: g.ras_entries,
            front: 0,
            landed: 0,
            bubble: 0,
            hidden: None,
            found: None,
            astray: None,
        }
    }

    /// Whether this is a possible state, at a cycle, of a predictor like `other`.
    pub(crate) fn fits(&self, other: &Predictor, cycle: u64) -> bool {
        let lengths = |p: &Predictor| (p.bht.len(), p.ras.len());
        if lengths(self) != lengths(other) {
            return false;
        }
        let limit = 1 << other.hash.length;
        self.btb.fits(&other.btb)
            && self.hash == other.hash
            && self.history < limit
            && self.near < limit
            && self.passed >> SEEN_SHIFT < limit
            && self.ras_limit == other.ras_limit
            && self.ras_len <= self.ras_limit
            // A block that is begun has not added its packets, nor waited for the second half that it may begin with.
            && self.front <= cycle + 2 + u64::from(self.landed >> 1)
            && (self.landed == 0 || self.landed & JUMPED != 0 && self.landed >> 1 <= LONGEST)
            && self.hidden.is_none_or(|h| h < 1 << 16)
    }

    /// How the history table is indexed.
    pub(crate) fn hash(&self) -> Hash {
        self.hash
    }

    /// The entry of a branch, if the front end finds it.
    fn find(&mut self, s: &Site) -> Option<usize> {
        let i = self.find_packet(s)?;
        (self.btb.entries[i].last == s.last).then_some(i)
    }

    /// The entry of its packet, if the front end finds it.
    fn find_packet(&mut self, s: &Site) -> Option<usize> {
        if s.blind {
            None
        } else {
            self.btb.find(s.last)
        }
    }

    /// The entry that predicts a jump, or a branch as taken: its target.
    fn uses(&mut self, s: &Site) -> Option<u64> {
        let i = self.find(s)?;
        self.btb.touch(i);
        Some(self.btb.entries[i].target)
    }

    /// The pipeline has found where a branch leads that was predicted not to be taken. The front end says with each
    /// packet which entry it has found, and where it has found none, the first one: that gets the branch. (RTL: `BTB`,
    /// whose `resp.bits.entry` is 0 without a hit, which `updateHit` takes for one.)
    fn learn_taken(&mut self, s: &Site, target: u64) {
        let found = if s.blind {
            None
        } else {
            self.btb.find_alike(s.last)
        };
        self.btb.enter(Some(found.unwrap_or(0)), s.last, target);
    }

    /// The pipeline has found where an indirect jump leads that was not predicted so.
    fn learn(&mut self, s: &Site, target: u64) {
        let hit = self.find_packet(s);
        self.btb.enter(hit, s.last, target);
    }

    /// The decoder has found a branch. It gets an entry unless its packet has one already, or packets
    /// wait, so that there is no bubble to avoid.
    fn found(&mut self, s: &Site, target: u64) -> Outcome {
        if self.find_packet(s).is_none() && s.waiting < BUSY {
            self.enter_found(s.last, target);
        }
        Outcome::Late
    }

    /// A branch or jump that the decoder has found gets an entry.
    pub(crate) fn enter_found(&mut self, last: u64, target: u64) {
        self.btb.enter(None, last, target);
        self.found = Some(Found { last, target });
    }

    /// Whether a block that begins at an address goes on in a packet that the program was in before.
    fn goes_on(&self, begin: u64) -> bool {
        is_second_half(begin) && self.landed == 0
    }

    /// The history that the packet of an address was looked up with; a block that begins at another one has come there
    /// straight.
    pub(crate) fn sees(&self, begin: u64, at: u64) -> u32 {
        let packets = (at >> 2).wrapping_sub(begin >> 2);
        match (self.goes_on(begin), packets) {
            (true, 0) => self.passed >> SEEN_SHIFT,
            (false, 0) | (true, 1) => self.near,
            _ => self.history,
        }
    }

    /// The place of a branch in the history table.
    fn place(&self, last: u64, seen: u32) -> usize {
        (self.hash.of_pc(last) ^ self.hash.of_history(seen)) as usize
    }

    /// The bit of the history table that the packet of a branch has: it is read once, with the packet.
    #[inline(always)]
    pub(crate) fn bit(&self, s: &Site) -> bool {
        s.bit
            .unwrap_or_else(|| self.bht[self.place(s.last, s.seen)])
    }

    /// The entry of its packet, if it is another branch's or jump's: the bit is that one's.
    fn finds_other(&mut self, s: &Site) -> Option<usize> {
        let i = self.find_packet(s)?;
        (self.btb.entries[i].last != s.last).then_some(i)
    }

    /// A conditional branch with its real direction.
    pub(crate) fn branch(&mut self, s: &Site, target: u64, taken: bool) -> Outcome {
        let bit = self.bit(s);
        let place = self.place(s.last, s.seen);
        self.bht[place] = taken;
        let other = if bit { self.finds_other(s) } else { None };
        if let Some(i) = other {
            self.btb.touch(i);
        }
        let predicted = bit && other.is_none();
        if predicted != taken {
            // What the packet has not seen is lost.
            self.history = self.hash.advance(s.seen, taken);
            self.near = self.history;
            let led = match (taken, other) {
                (true, Some(i)) => Led::To(self.btb.entries[i].target),
                (true, None) => Led::To(s.behind),
                (false, _) => self.uses(s).map_or(Led::Late(target), Led::To),
            };
            if taken {
                self.learn_taken(s, target);
            }
            return Outcome::Wrong(led);
        }
        // Once for a packet, whichever of its branches the bit was for.
        if s.bit.is_none() {
            self.near = self.history;
            self.history = self.hash.advance(self.history, bit);
        }
        if !taken {
            if is_second_half(s.behind) {
                self.landed = 0;
                self.passed = passed(s.seen, bit);
            }
            return Outcome::Right;
        }
        if self.uses(s).is_some() {
            return Outcome::Right;
        }
        // The packet that follows is requested a cycle later, and sees it.
        self.near = self.history;
        self.found(s, target)
    }

    /// The history that the packet of a branch was looked up with, and its bit behind it.
    #[inline(always)]
    pub(crate) fn history_with(&self, s: &Site) -> u32 {
        self.hash.advance(s.seen, self.bit(s))
    }

    /// The packet of a branch behind an access at `pc`, with its last half some bytes away, is fetched once more,
    /// without one that comes later: its bit gets into the history, unless it has done so for `packet`, the number and
    /// bit of the one before. Whether the branch is predicted to be taken.
    #[inline(always)]
    pub(crate) fn repeats(&mut self, pc: u64, bytes: u8, packet: &mut Option<(u64, bool)>) -> bool {
        let last = pc.wrapping_add(bytes.into());
        let number = last >> 2;
        // A second half that fetching begins at finds no entry.
        let blind = is_second_half(pc) && number == pc >> 2;
        let bit = match packet.filter(|p| p.0 == number) {
            Some((_, bit)) => bit,
            None => {
                let bit = self.bht[self.place(last, self.history)];
                self.history = self.hash.advance(self.history, bit);
                self.near = self.history;
                *packet = Some((number, bit));
                bit
            }
        };
        let entry = if bit && !blind {
            self.btb.find(last)
        } else {
            None
        };
        bit && entry.is_none_or(|i| self.btb.entries[i].last == last)
    }

    /// The packet behind a jump is requested as soon as that of the jump is there: it does not see a branch in the same
    /// packet.
    fn follows(&mut self, s: &Site) {
        if !s.within {
            self.near = self.history;
        }
    }

    /// A direct jump or call.
    pub(crate) fn jump(&mut self, s: &Site, target: u64, call: bool) -> Outcome {
        let o = match self.uses(s) {
            Some(_) => {
                self.follows(s);
                Outcome::Right
            }
            None => {
                self.near = self.history;
                self.found(s, target)
            }
        };
        if call {
            self.push(s.behind, s.front.saturating_sub(1));
        }
        o
    }

    /// An indirect jump or call.
    pub(crate) fn indirect(&mut self, s: &Site, target: u64, call: bool) -> Outcome {
        let led = self.uses(s).map_or(Led::Nowhere, Led::To);
        let o = self.jumped(s, target, led);
        if call {
            self.push(s.behind, s.front.saturating_sub(1));
        }
        o
    }

    fn jumped(&mut self, s: &Site, target: u64, led: Led) -> Outcome {
        if led == Led::To(target) {
            self.follows(s);
            return Outcome::Right;
        }
        self.history = s.seen;
        self.near = self.history;
        self.learn(s, target);
        Outcome::Wrong(led)
    }

    /// A return. A packet fetched up to `delay` packets behind that of the call comes too early: the
    /// front end looks at the stack before the call has got there. The decoder does not.
    pub(crate) fn ret(&mut self, s: &Site, target: u64, delay: u32) -> Outcome {
        let entry = self.uses(s);
        match self.returns(entry, s.front.saturating_sub(1), delay) {
            Led::Late(r) if r == target => {
                self.near = self.history;
                self.found(s, target)
            }
            led => self.jumped(s, target, led),
        }
    }

    /// Where the front end goes behind a return whose packet came at a cycle, and whose entry, if it has one,
    /// names a target. Takes the address from the stack.
    pub(crate) fn returns(&mut self, entry: Option<u64>, at: u64, delay: u32) -> Led {
        let top = self.pop();
        let early = |r: Return| at.saturating_sub(r.front) <= u64::from(delay);
        match (entry, top) {
            (None, Some(r)) => Led::Late(r.address),
            (None, None) => Led::Nowhere,
            // What was on the stack before, or the entry's target where it is empty.
            (Some(_), Some(r)) if !early(r) => Led::To(r.address),
            (Some(_), Some(_)) if self.ras_len > 0 => Led::To(self.ras[self.ras_place(1)].address),
            (Some(target), _) => Led::To(target),
        }
    }

    fn ras_place(&self, back: u32) -> usize {
        self.ras_top.wrapping_sub(back) as usize & (RETURNS - 1)
    }

    fn pop(&mut self) -> Option<Return> {
        if self.ras_len == 0 {
            return None;
        }
        let top = self.ras[self.ras_place(1)];
        self.ras_len -= 1;
        self.ras_top = self.ras_top.wrapping_sub(1);
        Some(top)
    }

    /// Puts a return address on the stack; its call's packet came at `front`.
    pub(crate) fn push(&mut self, address: u64, front: u64) {
        let place = self.ras_place(0);
        self.ras[place] = Return { address, front };
        self.ras_top = self.ras_top.wrapping_add(1);
        self.ras_len = (self.ras_len + 1).min(self.ras_limit);
    }

    /// The program goes on at the target of a jump or a taken branch of a length. The packet of a second
    /// half is a packet of its own.
    #[inline(always)]
    pub(crate) fn lands(&mut self, target: u64, len: u8) {
        if is_second_half(target) {
            self.front += 1;
            self.landed = jump_to_half(len);
        }
    }

    /// The front end is told to fetch from a pc; its packet is there now.
    pub(crate) fn restart(&mut self, pc: u64, now: u64) {
        self.front = now;
        self.near = self.history;
        self.lands(pc, 2);
    }

    /// The program goes on at an address behind the beginning of a block, where another block begins
    /// though nothing has jumped there.
    #[inline(always)]
    pub(crate) fn falls_through(&mut self, begin: u64, to: u64) {
        let sees = self.sees(begin, to);
        if is_second_half(to) {
            self.landed = 0;
            self.passed = sees << SEEN_SHIFT;
            // No branch is in its first half.
            self.near = self.history;
        } else {
            self.near = sees;
        }
    }

    /// Where the front end has nothing behind an instruction, the pipeline takes that for a wrong prediction. The
    /// instruction with its last half at an address is no branch, so that the entry which its packet has found is given
    /// up; the first one if it has found none. (RTL: `mem_wrong_npc`.)
    pub(crate) fn nothing_behind(&mut self, last: u64) {
        let i = self.btb.find_alike(last).unwrap_or(0);
        self.btb.remove(i);
        self.btb.touch(i);
    }

    /// As [`Self::nothing_behind`], behind what has jumped to `target`. What the decoder has found says that no entry
    /// was found for it, and gets a second one. (An entry that was found is entered as it is.)
    pub(crate) fn nothing_at(&mut self, target: u64) {
        if let Some(f) = self.found.filter(|f| f.target == target) {
            self.btb.enter(None, f.last, f.target);
        }
    }

    /// Whether a packet has missed L1I, and its line is not there yet. It may have been looked for ahead of time: what
    /// follows from a miss for good is done when the line is there.
    pub(crate) fn has_missed(&self) -> bool {
        self.hidden.is_some()
    }

    /// A packet misses L1I, `before` packets behind the beginning of its block. What the queue holds
    /// hides part of it, and a bubble in front of it is not waited for.
    pub(crate) fn misses(&mut self, now: u64, before: i64, t: &CoreTiming) {
        let ahead = now.saturating_sub(self.front.wrapping_add_signed(before));
        let bubble = u64::from(before <= 0 && self.bubble == now);
        let hidden = ahead.min(t.fetch_ahead.into()) + bubble;
        self.hidden.get_or_insert(hidden as u32);
    }

    /// What the queue hides of the miss that is under way. What nothing needs has been asked for before the pipeline
    /// has found that out.
    pub(crate) fn hidden(&self, t: &CoreTiming) -> u32 {
        match self.astray {
            Some(_) => t.mispredict + 1,
            None => self.hidden.unwrap_or(0),
        }
    }

    /// The line of a packet is there: if it was missing, fetches go on from now.
    pub(crate) fn arrives(&mut self, now: u64, before: i64) {
        if self.hidden.take().is_some() {
            self.front = now.wrapping_sub(before as u64);
            self.found = None;
        }
    }

    /// A miss under way is given up.
    pub(crate) fn gives_up(&mut self) {
        self.hidden = None;
        self.astray = None;
    }
}

#[cfg(test)]
#[path = "predict_tests.rs"]
mod tests;
