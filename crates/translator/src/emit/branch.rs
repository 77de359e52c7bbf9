//! Branches and jumps, and the updates of the predictor.

use super::history::Seen;
use super::*;
use crate::jumps::JUMP_ENTRIES;
use nagori_hart::engine::{bucket, is_link, least_waiting, pending_after, Ahead};
use nagori_hart::engine::{BIT, BRANCHED, BUSY, SEEN_SHIFT};

/// A prediction whose rarer outcomes are out of the way. Its branch or jump ends the block.
#[derive(Clone, Copy)]
pub(super) struct Predicted {
    /// Where to go if a branch is wrong, or a jump leads elsewhere than its entry.
    wrong: Option<DynamicLabel>,
    /// Where to go if the target buffer's first guess is another branch.
    late: Option<DynamicLabel>,
    /// Where to go, and to come back to, if a branch is in a packet that the program was in before.
    within: Option<(DynamicLabel, DynamicLabel)>,
    /// The call that does everything, as long as nothing has been done.
    call: DynamicLabel,
    /// Where the code goes on.
    back: DynamicLabel,
    /// Offset of the last half in the page.
    last: i32,
    /// What its packet was looked up with.
    seen: Seen,
    /// What it leads to if it is wrong may change the predictor, too: the call does that.
    ahead: Ahead,
    what: What,
}

/// Offsets count from the page's start.
#[derive(Clone, Copy)]
pub(super) enum What {
    /// A conditional branch, and where it leads to.
    Branch { taken: bool, leads: i64 },
    /// A direct jump; the return address of a call.
    Jump { leads: i64, push: Option<i32> },
    /// An indirect jump to `rax`; the return address of a call.
    Indirect { push: Option<i32> },
    /// A return to `rax`.
    Return,
}

impl Emitter<'_> {
    pub(super) fn branch(&mut self, i: usize, p: &PreOp) {
        use Op::*;
        let at = self.b.offset as i64 + p.off as i64;
        let (target, behind) = (at + p.imm as i64, at + p.len as i64);
        let taken = self.label();
        if p.rs2 == 0 && matches!(p.op, Beq | Bne) && p.rs1 != 0 {
            match host(p.rs1) {
                Some(a) => dynasm!(self.a; .arch x64; test Rq(a), Rq(a)),
                None => dynasm!(self.a; .arch x64; cmp QWORD [rbp + x(p.rs1)], 0),
            }
        } else {
            let a = self.read(p.rs1, RAX);
            match (host(p.rs2), p.rs2) {
                (Some(b), _) => dynasm!(self.a; .arch x64; cmp Rq(a), Rq(b)),
                (None, 0) => dynasm!(self.a; .arch x64; cmp Rq(a), 0),
                (None, r) => dynasm!(self.a; .arch x64; cmp Rq(a), [rbp + x(r)]),
            }
        }
        match p.op {
            Beq => dynasm!(self.a; .arch x64; je =>taken),
            Bne => dynasm!(self.a; .arch x64; jne =>taken),
            Blt => dynasm!(self.a; .arch x64; jl =>taken),
            Bge => dynasm!(self.a; .arch x64; jge =>taken),
            Bltu => dynasm!(self.a; .arch x64; jb =>taken),
            _ => dynasm!(self.a; .arch x64; jae =>taken),
        }
        if self.timed {
            self.predict(i, p, at, false);
        }
        self.tail_to(Way::Passes, behind);
        dynasm!(self.a; .arch x64; =>taken);
        if self.timed {
            self.predict(i, p, at, true);
        }
        self.tail_to(Way::Jumps, target);
    }

    /// Offset of the last half of an instruction that begins at an offset: the packet of that half
    /// predicts it.
    fn last_half(p: &PreOp, at: i64) -> i32 {
        (at + i64::from(p.len)) as i32 - 2
    }

    /// Whether the packet of a branch may be looked up with the address of its second half, which finds
    /// nothing: that half begins the block, and was jumped to.
    fn may_be_blind(&self, last: i32) -> bool {
        last == self.b.offset as i32 && is_second_half(last as u64)
    }

    /// The effect of a branch on the predictor if it is predicted correctly and nothing is replaced;
    /// other cases are out of the way, the rare ones of them calls.
    fn predict(&mut self, i: usize, p: &PreOp, at: i64, taken: bool) {
        let (call, back) = (self.label(), self.label());
        let last = Self::last_half(p, at);
        let info = info(self.id, i);
        let what = What::Branch {
            taken,
            leads: at + i64::from(if taken { p.imm } else { p.len.into() }),
        };
        self.cold.push(Cold::Branch {
            from: call,
            back,
            info,
            taken,
            what,
        });
        if last >= 0x1000 {
            // The packet is in the next page.
            dynasm!(self.a; .arch x64; jmp =>call; =>back);
            return;
        }
        let (wrong, late) = (self.label(), self.label());
        let seen = self.seen(last);
        let within = (seen == Seen::Own).then(|| (self.label(), self.label()));
        let passes = !taken && is_second_half(at as u64 + u64::from(p.len));
        let site = Predicted {
            wrong: Some(wrong),
            late: taken.then_some(late),
            within,
            call,
            back,
            last,
            seen,
            ahead: p.ahead(taken),
            what,
        };
        self.cold.push(Cold::Predicted(site));
        dynasm!(self.a; .arch x64; mov eax, [rbp + HISTORY]);
        match (seen, within) {
            (Seen::All, _) => dynasm!(self.a; .arch x64; mov edx, eax),
            (_, Some((within, inline))) => dynasm!(self.a; .arch x64
                ; cmp DWORD [rbp + LANDED], 0
                ; je =>within
                ; mov edx, [rbp + NEAR_HISTORY]
                ; =>inline
            ),
            _ => self.load_seen(seen, RDX),
        }
        self.direction_in_two(RDX, RCX, last);
        dynasm!(self.a; .arch x64
            ; cmp BYTE [rdx + rcx], taken as i8
            ; jne =>wrong
        );
        if taken {
            self.find_entry(last, late);
        }
        if passes {
            let from = if seen == Seen::All { RAX } else { RCX };
            if from == RCX {
                self.load_seen(seen, RCX);
            }
            self.passes(from, false);
        }
        dynasm!(self.a; .arch x64; mov [rbp + NEAR_HISTORY], eax);
        self.advance(RAX, taken);
        dynasm!(self.a; .arch x64; mov [rbp + HISTORY], eax);
        dynasm!(self.a; .arch x64; =>back);
    }

    /// As [`Self::btb`], for a branch or jump in this page.
    fn find_entry(&mut self, last: i32, miss: DynamicLabel) {
        if self.may_be_blind(last) {
            dynasm!(self.a; .arch x64; cmp DWORD [rbp + LANDED], 0; jne =>miss);
        }
        self.btb(last, miss);
    }

    /// The out-of-line code of a prediction.
    pub(super) fn predicted(&mut self, s: Predicted) {
        if let (Some(wrong), What::Branch { taken, leads }) = (s.wrong, s.what) {
            let known = self.label();
            if let Some(labels) = s.within {
                self.within(&s, labels, taken, known);
            }
            dynasm!(self.a; .arch x64; =>wrong; add rdx, rcx; =>known);
            self.wrong(&s, taken, leads);
        }
        if let (Some(wrong), What::Indirect { .. }) = (s.wrong, s.what) {
            dynasm!(self.a; .arch x64; =>wrong);
            self.wrong_target(&s);
        }
        if let Some(late) = s.late {
            dynasm!(self.a; .arch x64; =>late);
            match s.what {
                What::Indirect { .. } => self.wrong_without_entry(&s),
                _ => self.late(&s),
            }
        }
    }

    /// A branch in a packet that the program was in before. Behind another branch in the packet it has the packet's
    /// bit, and the history has moved.
    fn within(
        &mut self,
        s: &Predicted,
        (within, inline): (DynamicLabel, DynamicLabel),
        taken: bool,
        wrong: DynamicLabel,
    ) {
        dynasm!(self.a; .arch x64
            ; =>within
            ; mov ecx, [rbp + PASSED]
            ; mov edx, ecx
            ; shr edx, SEEN_SHIFT as i8
            ; test cl, BRANCHED as i8
            ; jz =>inline
        );
        self.direction(RDX, s.last);
        dynasm!(self.a; .arch x64; test cl, BIT as i8);
        if taken {
            dynasm!(self.a; .arch x64; jz =>wrong; mov BYTE [rdx], 1)
        } else {
            dynasm!(self.a; .arch x64; jnz =>wrong; mov BYTE [rdx], 0)
        }
        if taken {
            self.btb(s.last, s.call);
        }
        dynasm!(self.a; .arch x64; jmp =>s.back);
    }

    /// Goes on as predicted if the entry of the packet is that of its second half, behind a branch that is not taken.
    fn unless_bit_is_others(&mut self, s: &Predicted) {
        let own = self.label();
        dynasm!(self.a; .arch x64; mov [rsp - 8], rdx);
        self.btb(s.last + 2, own);
        self.load_seen(s.seen, RCX);
        self.passes(RCX, true);
        dynasm!(self.a; .arch x64
            ; mov rdx, [rsp - 8]
            ; mov BYTE [rdx], 0
            ; mov [rbp + NEAR_HISTORY], eax
        );
        self.advance(RAX, true);
        dynasm!(self.a; .arch x64; mov [rbp + HISTORY], eax);
        dynasm!(self.a; .arch x64; jmp =>s.back; =>own; mov rdx, [rsp - 8]);
    }

    /// A branch predicted wrong, with the history in `eax` and its entry of the history table at `rdx`.
    fn wrong(&mut self, s: &Predicted, taken: bool, leads: i64) {
        if !taken && is_second_half(leads as u64) {
            self.unless_bit_is_others(s);
        }
        self.unless_missing(s, leads);
        if s.ahead.needs != 0 {
            self.unless_it_meets(s, taken);
        }
        // Without an entry, or if it leads elsewhere, it is a call. Otherwise the entry is used, also by a branch that
        // was predicted to be taken.
        dynasm!(self.a; .arch x64; mov [rsp - 8], rdx);
        self.find_entry(s.last, s.call);
        if taken {
            dynasm!(self.a; .arch x64
                ; mov rcx, [rbp + PAGE]
                ; add rcx, leads as i32
                ; cmp rcx, [rdx + layout::BTB_TARGET as i32]
                ; jne =>s.call
            );
        }
        dynasm!(self.a; .arch x64; mov rdx, [rsp - 8]);
        dynasm!(self.a; .arch x64; mov BYTE [rdx], taken as i8);
        if s.seen != Seen::All {
            self.load_seen(s.seen, RAX);
        }
        self.advance(RAX, taken);
        dynasm!(self.a; .arch x64; mov [rbp + HISTORY], eax; mov [rbp + NEAR_HISTORY], eax);
        let half = !taken && is_second_half(leads as u64);
        if half {
            dynasm!(self.a; .arch x64; mov DWORD [rbp + LANDED], jump_to_half(2) as i32);
        }
        self.mispredicted(half);
        self.wrong_ends(s);
    }

    /// Goes to the call unless the line where the program goes on, at an offset from the page, is certain to be there.
    /// Keeps `rax` and `rdx`.
    fn unless_missing(&mut self, s: &Predicted, leads: i64) {
        if !(0..0x1000).contains(&leads) {
            dynasm!(self.a; .arch x64; jmp =>s.call);
            return;
        }
        let line = leads as i32 >> 6;
        let entry = FETCH + layout::ENTRY_READ as i32 + line * layout::ENTRY as i32;
        dynasm!(self.a; .arch x64
            ; mov rcx, [rbp + FETCH_SLOTS]
            ; mov rcx, [rbp + rcx + entry]
            ; sub rcx, line * 64
            ; cmp rcx, [rbp + PAGE_KEY]
            ; jne =>s.call
        );
    }

    /// As [`Self::unless_missing`], for the line of the address `rax`. Keeps only `rax`.
    fn unless_target_missing(&mut self, s: &Predicted) {
        dynasm!(self.a; .arch x64
            ; mov rcx, rax
            ; shr rcx, 6
            ; and ecx, (layout::ENTRIES - 1) as i32
            ; imul rcx, rcx, layout::ENTRY as i32
            ; mov rcx, [rbp + rcx + FETCH + layout::ENTRY_READ as i32]
            // The tag of the key.
            ; xor rcx, [rbp + PAGE_KEY]
            ; xor rcx, [rbp + PAGE]
            ; mov rdx, rax
            ; and rdx, -64
            ; cmp rcx, rdx
            ; jne =>s.call
        );
    }

    /// Goes to the call if the front end meets a call or return behind a wrong prediction: as
    /// [`Hart::meets_call`](nagori_hart::Hart). Keeps `rax` and `rdx`.
    fn unless_it_meets(&mut self, s: &Predicted, taken: bool) {
        let least = least_waiting(&self.s.config.timing, s.ahead.needs);
        let before = i64::from(self.b.cost) - i64::from(self.b.packets);
        dynasm!(self.a; .arch x64
            ; mov rcx, r15
            ; add rcx, [rbp + STOP]
            ; sub rcx, [rbp + FRONT]
            ; cmp rcx, (least - before) as i32
        );
        let Some(b) = s.ahead.spared else {
            dynasm!(self.a; .arch x64; jge =>s.call);
            return;
        };
        let p = self.ops[self.ops.len() - 1];
        let at = self.b.offset as i32 + i32::from(p.off);
        let behind = at + i32::from(p.len);
        let leads = if taken { behind } else { at + p.imm };
        if leads == behind && is_second_half(behind as u64) && b.last == 0 {
            // It is in the packet of the wrong prediction, which has one bit.
            if b.taken {
                dynasm!(self.a; .arch x64; jge =>s.call);
            }
            return;
        }
        let not_yet = self.label();
        dynasm!(self.a; .arch x64; jl =>not_yet);
        match s.seen {
            Seen::All => dynasm!(self.a; .arch x64; mov ecx, eax),
            seen => self.load_seen(seen, RCX),
        }
        self.advance(RCX, !taken);
        self.direction(RCX, leads + i32::from(b.last));
        dynasm!(self.a; .arch x64; cmp BYTE [rcx], b.taken as i8; jne =>s.call; =>not_yet);
    }

    /// Behind a wrong prediction.
    fn wrong_ends(&mut self, s: &Predicted) {
        if !self.has_late_results() {
            dynasm!(self.a; .arch x64; jmp =>s.back);
            return;
        }
        let cycles = self.s.config.timing.mispredict;
        if self.b.leaves_open() {
            dynasm!(self.a; .arch x64; mov QWORD [rbp + REDIRECT], cycles as i32);
        }
        self.redirected(s.what, Some(cycles));
    }

    /// Ends a block with pending results behind a wrong prediction: they are older by its cycles, which are also in
    /// [`REDIRECT`] unless they are known and no result is open. The links of the block know only the other case.
    pub(super) fn redirected(&mut self, what: What, known: Option<u32>) {
        let pending = match known {
            Some(cycles) if !self.b.leaves_open() => pending_after(self.b.pending, cycles.into()),
            _ => self.b.pending,
        };
        let p = self.ops[self.ops.len() - 1];
        let at = self.b.offset as i64 + p.off as i64;
        let (way, leads) = match what {
            What::Branch {
                taken: false,
                leads,
            } => (Way::Passes, Some(leads)),
            What::Branch { leads, .. } => (Way::Jumps, Some(leads)),
            What::Jump { leads, .. } => (Way::Jumps, Some(leads)),
            What::Indirect { .. } | What::Return => (Way::Jumps, None),
        };
        if !matches!(what, What::Branch { .. }) {
            self.link(&p, at);
        }
        self.count_with(pending);
        if self.b.leaves_open() {
            dynasm!(self.a; .arch x64
                ; cmp QWORD [rbp + PENDING], 0
                ; jne >open
                ; mov QWORD [rbp + REDIRECT], 0
                ; open:
            );
        }
        match leads {
            Some(leads) => {
                self.count_packets(way, leads);
                dynasm!(self.a; .arch x64; mov rax, [rbp + PAGE]; add rax, leads as i32);
            }
            None => self.count_packets_to_rax(),
        }
        self.tail_far();
    }

    /// An indirect jump to `rax` without an entry.
    fn wrong_without_entry(&mut self, s: &Predicted) {
        self.unless_target_missing(s);
        self.no_entry(s);
        dynasm!(self.a; .arch x64; mov rdx, rax);
        self.enter(s, self.s.stubs.learn);
        self.unseen(s);
        self.mispredicted(false);
        self.wrong_ends(s);
    }

    /// An indirect jump to `rax` with an entry at `rdx` that leads elsewhere. If the new target is in the same page of
    /// the target buffer, and nothing is met where the entry leads, the entry gets the target.
    fn wrong_target(&mut self, s: &Predicted) {
        dynasm!(self.a; .arch x64; mov [rsp - 8], rdx);
        self.unless_target_missing(s);
        dynasm!(self.a; .arch x64
            ; mov rdx, [rsp - 8]
            ; mov rdx, [rdx + layout::BTB_TARGET as i32]
            ; mov rcx, rdx
            ; xor rcx, rax
            ; shr rcx, layout::BTB_PAGE_BITS as i8
            ; jne =>s.call
            ; mov ecx, edx
            ; and ecx, ((JUMP_ENTRIES - 1) * 2) as i32
            ; shl ecx, 4
            ; add rcx, [rbp + JUMPS]
            ; cmp rdx, [rcx]
            ; jne =>s.call
            ; mov rdx, [rbp + CONTEXT]
            ; cmp rdx, [rcx + 8]
            ; jne =>s.call
            ; cmp BYTE [rcx + 24], 0
            ; jne =>s.call
            ; mov rdx, [rsp - 8]
            ; mov [rdx + layout::BTB_TARGET as i32], rax
        );
        self.unseen(s);
        self.mispredicted(false);
        self.wrong_ends(s);
    }

    /// A wrong prediction of a jump takes back what its packet has not seen; a call is put on the
    /// stack. Keeps `rax`.
    fn unseen(&mut self, s: &Predicted) {
        match s.seen {
            Seen::All => self.jumped(),
            seen => {
                self.load_seen(seen, RCX);
                dynasm!(self.a; .arch x64; mov [rbp + HISTORY], ecx; mov [rbp + NEAR_HISTORY], ecx)
            }
        }
        if let What::Indirect { push: Some(behind) } = s.what {
            self.push_return(behind);
        }
    }

    /// Cycles of a wrong prediction; `half`: the second half of a packet is fetched then. Keeps
    /// `rax`.
    fn mispredicted(&mut self, half: bool) {
        let cycles = self.s.config.timing.mispredict as i32;
        let front = self.b.cost as i32 - i32::from(self.b.packets) + cycles + i32::from(half);
        dynasm!(self.a; .arch x64
            ; inc QWORD [rbp + MISPREDICTS]
            ; lea rcx, [r15 + front]
            ; add rcx, [rbp + STOP]
            ; mov [rbp + FRONT], rcx
            ; add r15, cycles
        );
    }

    /// Goes to the call unless it is certain that the packet of a branch has no entry. Keeps `rax`.
    fn no_entry(&mut self, s: &Predicted) {
        let bucket = (bucket(s.last as u64) * layout::BUCKET) as i32;
        let blind = self.label();
        if self.may_be_blind(s.last) {
            dynasm!(self.a; .arch x64; cmp DWORD [rbp + LANDED], 0; jne =>blind);
        }
        dynasm!(self.a; .arch x64
            ; mov rdx, [rbp + BUCKETS]
            ; cmp BYTE [rdx + bucket + layout::BUCKET_COUNT as i32], 0
            ; jne =>s.call
            ; =>blind
        );
    }

    /// Makes an entry that leads to `rdx`, by one of two stubs. Keeps `rax`.
    fn enter(&mut self, s: &Predicted, stub: usize) {
        dynasm!(self.a; .arch x64
            ; mov rcx, [rbp + PAGE]
            ; add rcx, s.last
            ; call extern self.stub(stub)
        );
    }

    /// `rdx`: packets that wait behind that of the branch or jump at the block's end.
    fn waiting(&mut self) {
        dynasm!(self.a; .arch x64
            ; mov rdx, r15
            ; add rdx, [rbp + STOP]
            ; sub rdx, [rbp + FRONT]
            ; add rdx, self.b.cost as i32 - i32::from(self.b.packets)
        );
    }

    /// The history behind a jump or branch that only the decoder finds.
    fn late_history(&mut self, what: What) {
        match what {
            What::Branch { taken, .. } => {
                self.advance(RAX, taken);
                dynasm!(self.a; .arch x64; mov [rbp + HISTORY], eax; mov [rbp + NEAR_HISTORY], eax);
            }
            _ => self.jumped(),
        }
    }

    /// A jump or taken branch that only the decoder finds. A branch has its history in `eax`, a return
    /// its target in `rax`.
    fn late(&mut self, s: &Predicted) {
        let t = &self.s.config.timing;
        let (queue, bubble) = (t.fetch_queue as i32, t.btb_miss_jump as i32);
        if t.btb_miss_jump > BUSY as u32 || t.fetch_queue < BUSY as u32 {
            dynasm!(self.a; .arch x64; jmp =>s.call);
            return;
        }
        let (enter, done) = (self.label(), self.label());
        self.no_entry(s);
        match s.what {
            What::Return => self.pop_return(s.call, None),
            What::Jump {
                push: Some(behind), ..
            } => self.push_return(behind),
            _ => {}
        }
        self.waiting();
        dynasm!(self.a; .arch x64
            ; cmp rdx, BUSY as i32
            ; jl =>enter
            // They hide the bubble, and no entry is made.
            ; sub rdx, queue
            ; mov ecx, 0
            ; cmovs rdx, rcx
            ; add rdx, bubble
            ; add [rbp + FRONT], rdx
            ; =>done
        );
        self.late_history(s.what);
        dynasm!(self.a; .arch x64; jmp =>s.back; =>enter);
        match s.what {
            What::Return => dynasm!(self.a; .arch x64; mov rdx, rax),
            What::Branch { leads, .. } | What::Jump { leads, .. } => {
                dynasm!(self.a; .arch x64; mov rdx, [rbp + PAGE]; add rdx, leads as i32)
            }
            What::Indirect { .. } => {}
        }
        self.enter(s, self.s.stubs.insert);
        self.waiting();
        dynasm!(self.a; .arch x64
            ; add QWORD [rbp + FRONT], bubble
            ; mov ecx, bubble
            ; sub rcx, rdx
            ; jle =>done
            ; add r15, rcx
        );
        let late = self.has_late_results();
        if late {
            dynasm!(self.a; .arch x64; mov [rbp + REDIRECT], rcx);
        }
        dynasm!(self.a; .arch x64
            ; lea rcx, [r15 + self.b.cost as i32]
            ; add rcx, [rbp + STOP]
            ; mov [rbp + BUBBLE], rcx
        );
        if !late {
            dynasm!(self.a; .arch x64; jmp =>done);
            return;
        }
        // As at `done`.
        self.late_history(s.what);
        self.redirected(s.what, None);
    }

    /// Goes to `miss` unless the branch target buffer's first guess for the packet is the branch whose
    /// last half is at an offset; else `rdx` = the entry's address, and the entry is used. Keeps `rax`.
    fn btb(&mut self, last: i32, miss: DynamicLabel) {
        let bucket = (bucket(last as u64) * layout::BUCKET) as i32;
        debug_assert!(layout::BTB_ENTRY.is_power_of_two());
        dynasm!(self.a; .arch x64
            ; mov rdx, [rbp + BUCKETS]
            ; movzx edx, BYTE [rdx + bucket + layout::BUCKET_LAST as i32]
            ; shl edx, layout::BTB_ENTRY.trailing_zeros() as i8
            ; add rdx, [rbp + BTB]
            ; mov rcx, [rbp + PAGE]
            ; add rcx, last
            ; cmp rcx, [rdx + layout::BTB_PC as i32]
            ; jne =>miss
            ; mov rcx, [rbp + BTB_AGE]
            ; and rcx, [rdx + layout::BTB_KEEP as i32]
            ; or rcx, [rdx + layout::BTB_SET as i32]
            ; mov [rbp + BTB_AGE], rcx
        );
    }

    pub(super) fn jal(&mut self, i: usize, p: &PreOp) {
        let at = self.b.offset as i64 + p.off as i64;
        if self.timed {
            let (call, back, late) = (self.label(), self.label(), self.label());
            let last = Self::last_half(p, at);
            let push = is_link(p.rd).then_some((at + i64::from(p.len)) as i32);
            let info = info(self.id, i);
            let leads = at + i64::from(p.imm);
            let what = What::Jump { leads, push };
            self.cold.push(Cold::Branch {
                from: call,
                back,
                info,
                taken: true,
                what,
            });
            if last >= 0x1000 {
                dynasm!(self.a; .arch x64; jmp =>call);
            } else {
                self.cold.push(Cold::Predicted(Predicted {
                    wrong: None,
                    late: Some(late),
                    within: None,
                    call,
                    back,
                    last,
                    seen: self.seen(last),
                    ahead: Ahead::default(),
                    what,
                }));
                self.find_entry(last, late);
                self.followed(last);
                if let Some(behind) = push {
                    self.push_return(behind);
                }
            }
            dynasm!(self.a; .arch x64; =>back);
        }
        self.link(p, at);
        self.tail_to(Way::Jumps, at + p.imm as i64);
    }

    /// Puts the return address on the predictor's stack. Keeps `rax`.
    fn push_return(&mut self, behind: i32) {
        let limit = self.s.config.predictor.ras_entries as i32;
        dynasm!(self.a; .arch x64
            ; mov ecx, [rbp + RAS_TOP]
            ; inc DWORD [rbp + RAS_TOP]
            ; and ecx, layout::RETURNS as i32 - 1
            ; shl ecx, RETURN_SHIFT
            ; add rcx, [rbp + RAS]
            ; mov rdx, [rbp + PAGE]
            ; add rdx, behind
            ; mov [rcx + layout::RETURN_ADDRESS as i32], rdx
            ; mov rdx, [rbp + FRONT]
            ; add rdx, i32::from(self.b.packets) - 1
            ; mov [rcx + layout::RETURN_FRONT as i32], rdx
            ; mov ecx, [rbp + RAS_LEN]
            ; cmp ecx, limit
            ; adc ecx, 0
            ; mov [rbp + RAS_LEN], ecx
        );
    }

    /// Takes the return address `rax` from the predictor's stack, or goes to `miss` if
    /// another one is there, or it is used before the call has got there: within so many packets. Keeps
    /// `rax`.
    fn pop_return(&mut self, miss: DynamicLabel, delay: Option<u32>) {
        dynasm!(self.a; .arch x64
            ; cmp DWORD [rbp + RAS_LEN], 0
            ; je =>miss
            ; mov edx, [rbp + RAS_TOP]
            ; dec edx
            ; mov ecx, edx
            ; and ecx, layout::RETURNS as i32 - 1
            ; shl ecx, RETURN_SHIFT
            ; add rcx, [rbp + RAS]
            ; cmp rax, [rcx + layout::RETURN_ADDRESS as i32]
            ; jne =>miss
        );
        if let Some(delay) = delay {
            dynasm!(self.a; .arch x64
                ; mov rcx, [rcx + layout::RETURN_FRONT as i32]
                ; sub rcx, [rbp + FRONT]
                ; cmp rcx, i32::from(self.b.packets) - 1 - delay as i32
                ; jge =>miss
            );
        }
        dynasm!(self.a; .arch x64
            ; mov [rbp + RAS_TOP], edx
            ; dec DWORD [rbp + RAS_LEN]
        );
    }

    /// Return address into the destination.
    fn link(&mut self, p: &PreOp, at: i64) {
        if p.rd != SINK {
            let d = self.target(p.rd, RCX);
            dynasm!(self.a; .arch x64
                ; mov Rq(d), [rbp + PAGE]
                ; add Rq(d), (at + p.len as i64) as i32
            );
            self.write(p.rd, d);
        }
    }

    pub(super) fn jalr(&mut self, i: usize, p: &PreOp) {
        let at = self.b.offset as i64 + p.off as i64;
        self.load(p.rs1, RAX);
        if p.imm != 0 {
            dynasm!(self.a; .arch x64; add rax, p.imm);
        }
        dynasm!(self.a; .arch x64; and rax, -2);
        if p.flags & TARGET != 0 {
            // The interpreter raises the trap.
            let (from, info) = (self.label(), info(self.id, i));
            dynasm!(self.a; .arch x64; test al, 2; jnz =>from);
            self.cold.push(Cold::Rest { from, info });
        }
        if self.timed {
            let info = info(self.id, i);
            let (call, back) = (self.label(), self.label());
            let last = Self::last_half(p, at);
            self.cold.push(Cold::Jump {
                from: call,
                back,
                info,
                what: What::Return,
            });
            if last >= 0x1000 {
                dynasm!(self.a; .arch x64; jmp =>call);
            } else {
                self.predict_indirect(p, at, last, (call, back));
            }
            dynasm!(self.a; .arch x64; =>back);
        }
        self.link(p, at);
        self.tail_indirect();
    }

    /// The effect of an indirect jump to `rax` on the predictor.
    fn predict_indirect(
        &mut self,
        p: &PreOp,
        at: i64,
        last: i32,
        (call, back): (DynamicLabel, DynamicLabel),
    ) {
        let (late, wrong) = (self.label(), self.label());
        let returns = is_link(p.rs1) && !is_link(p.rd);
        let push = is_link(p.rd).then_some((at + i64::from(p.len)) as i32);
        self.cold.push(Cold::Predicted(Predicted {
            wrong: Some(wrong),
            late: Some(late),
            within: None,
            call,
            back,
            last,
            ahead: Ahead::default(),
            seen: self.seen(last),
            what: if returns {
                What::Return
            } else {
                What::Indirect { push }
            },
        }));
        self.find_entry(last, late);
        if returns {
            self.pop_return(call, Some(self.s.config.timing.return_after_call));
            self.followed(last);
            return;
        }
        dynasm!(self.a; .arch x64
            ; cmp rax, [rdx + layout::BTB_TARGET as i32]
            ; jne =>wrong
        );
        self.followed(last);
        if let Some(behind) = push {
            self.push_return(behind);
        }
    }
}

/// A return address is 16 bytes.
const RETURN_SHIFT: i8 = 4;
const _: () = assert!(layout::RETURN == 1 << RETURN_SHIFT);
