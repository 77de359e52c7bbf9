//! The branch history in translated code: which of it a packet was looked up with, and how it moves.

use super::*;
use nagori_hart::engine::{Hash, BIT, BRANCHED, SEEN_SHIFT};

/// Which history a packet was looked up with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The whole history.
    All,
    /// The history that the first packet of a block is looked up with.
    Near,
    /// For the first packet of a block that begins with the packet's second half: as `Near` if the block was jumped to,
    /// else the history that is handed on.
    Own,
    /// For the packet behind that one: as `All` if the block was jumped to, else as `Near`.
    Behind,
}

impl Emitter<'_> {
    /// What the packet of an offset was looked up with: `Predictor::sees`.
    pub(super) fn seen(&self, at: i32) -> Seen {
        let begin = i32::from(self.b.offset);
        match (is_second_half(begin as u64), (at >> 2) - (begin >> 2)) {
            (false, 0) => Seen::Near,
            (true, 0) => Seen::Own,
            (true, 1) => Seen::Behind,
            _ => Seen::All,
        }
    }

    /// A register = what a packet was looked up with.
    pub(super) fn load_seen(&mut self, seen: Seen, r: u8) {
        match seen {
            Seen::All => dynasm!(self.a; .arch x64; mov Rd(r), [rbp + HISTORY]),
            Seen::Near => dynasm!(self.a; .arch x64; mov Rd(r), [rbp + NEAR_HISTORY]),
            Seen::Own => dynasm!(self.a; .arch x64
                ; mov Rd(r), [rbp + PASSED]
                ; shr Rd(r), SEEN_SHIFT as i8
                ; cmp DWORD [rbp + LANDED], 0
                ; cmovne Rd(r), [rbp + NEAR_HISTORY]
            ),
            Seen::Behind => dynasm!(self.a; .arch x64
                ; mov Rd(r), [rbp + NEAR_HISTORY]
                ; cmp DWORD [rbp + LANDED], 0
                ; cmovne Rd(r), [rbp + HISTORY]
            ),
        }
    }

    /// As `Predictor::falls_through`: the program goes on at an offset, where another block begins. Keeps `rax`.
    pub(super) fn falls_through(&mut self, to: u64) {
        let sees = self.seen(to as i32);
        if is_second_half(to) {
            self.load_seen(sees, RCX);
            dynasm!(self.a; .arch x64
                ; shl ecx, SEEN_SHIFT as i8
                ; mov [rbp + PASSED], ecx
                ; mov DWORD [rbp + LANDED], 0
                ; mov ecx, [rbp + HISTORY]
                ; mov [rbp + NEAR_HISTORY], ecx
            );
        } else if sees != Seen::Near {
            self.load_seen(sees, RCX);
            dynasm!(self.a; .arch x64; mov [rbp + NEAR_HISTORY], ecx);
        }
    }

    /// A branch with a bit of the history table is rightly not taken, and the program goes on in its packet, which was
    /// looked up with a history in a register. Uses `ecx`.
    pub(super) fn passes(&mut self, seen: u8, bit: bool) {
        let found = BRANCHED | if bit { BIT } else { 0 };
        dynasm!(self.a; .arch x64
            ; lea ecx, [Rq(seen) * 4 + found as i32]
            ; mov [rbp + PASSED], ecx
            ; mov DWORD [rbp + LANDED], 0
        );
    }

    /// Turns a history in a register into the address of the predicted direction of the branch with its last half at an
    /// offset.
    pub(super) fn direction(&mut self, r: u8, last: i32) {
        let hash = self.hash_history(r);
        dynasm!(self.a; .arch x64
            ; xor Rd(r), [rbp + PAGE_INDEX]
            ; xor Rd(r), hash.of_pc(last as u64) as i32
            ; add Rq(r), [rbp + BHT]
        );
    }

    /// As [`Self::direction`], in two registers, whose sum is the address: most branches wait for this one, so what
    /// does not depend on the history is done beside it. The history is in the first one, and is not in the second.
    pub(super) fn direction_in_two(&mut self, r: u8, other: u8, last: i32) {
        let of_pc = Hash::new(self.s.config.predictor).of_pc(last as u64);
        dynasm!(self.a; .arch x64
            ; mov Rd(other), [rbp + PAGE_INDEX]
            ; xor Rd(other), of_pc as i32
        );
        self.hash_history(r);
        dynasm!(self.a; .arch x64
            ; xor Rd(r), Rd(other)
            ; mov Rq(other), [rbp + BHT]
        );
    }

    /// Turns a history in a register into its share of an index of the history table.
    fn hash_history(&mut self, r: u8) -> Hash {
        let hash = Hash::new(self.s.config.predictor);
        let (factor, right, mask, left) = hash.steps();
        // Shifted to the left by the multiplication.
        let (shift, after) = match left.checked_sub(right) {
            Some(n) => (n, 0),
            None => (0, right - left),
        };
        dynasm!(self.a; .arch x64
            ; imul Rd(r), Rd(r), (factor << shift) as i32
            ; and Rd(r), (mask << right << shift) as i32
        );
        if after != 0 {
            dynasm!(self.a; .arch x64; shr Rd(r), after as i8);
        }
        hash
    }

    /// A history in a register behind another branch.
    pub(super) fn advance(&mut self, r: u8, taken: bool) {
        let newest = Hash::new(self.s.config.predictor).advance(0, true) as i32;
        match (newest, taken) {
            (0, _) => dynasm!(self.a; .arch x64; xor Rd(r), Rd(r)),
            (_, false) => dynasm!(self.a; .arch x64; shr Rd(r), 1),
            (_, true) => dynasm!(self.a; .arch x64; shr Rd(r), 1; or Rd(r), newest),
        }
    }

    /// A jump has been found in its packet: the one behind it is requested at once. It does not see a branch in the
    /// same packet.
    pub(super) fn followed(&mut self, last: i32) {
        // With an entry, a second half was not jumped to.
        if self.seen(last) != Seen::Own {
            self.jumped();
        }
    }

    /// A jump has been looked up with the history: the packet behind it sees all of it. Keeps `rax`.
    pub(super) fn jumped(&mut self) {
        dynasm!(self.a; .arch x64; mov ecx, [rbp + HISTORY]; mov [rbp + NEAR_HISTORY], ecx);
    }
}

/// What a packet was looked up with is above two bits.
const _: () = assert!(SEEN_SHIFT == 2);
