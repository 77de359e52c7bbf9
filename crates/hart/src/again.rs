//! Accesses that are tried again. The core does not wait for a line or a translation with the instructions
//! behind an access: it drops them, and fetches from the access on anew. The branches among them have got
//! into the branch history by then, and nothing takes them out; so they get into it once more. Seen on Rocket's
//! RTL: its history register and the redirections of its front end around accesses that miss.

use crate::hart::Hart;
use crate::place::RunPoint;
use crate::pmp::Access;
use crate::preop::{is_branch, PreOp, ILLEGAL_LEN, QUIET, SPLIT};
use crate::transfer::Kind;
use crate::world::World;
use nagori_isa::Op;

/// Bits of what an access was tried again for: a translation, or its line.
pub(crate) const WALK_AGAIN: u8 = 1;
pub(crate) const LINE_AGAIN: u8 = 2;
/// Packets behind that of an access that have been fetched when it is tried again.
const PACKETS: u64 = 3;

/// Bytes from the instruction at a pc on that are fetched again.
fn window(pc: u64) -> u64 {
    (PACKETS + 1) * 4 - (pc & 3)
}

/// Notes which instructions of a block, which begins at a pc, are [`QUIET`], and where others have their first branch.
pub(crate) fn note_quiet(ops: &mut [PreOp], pc: u64) {
    let Some((last, others)) = ops.split_last_mut() else {
        return;
    };
    // Where a branch has its last half, or the last instruction begins: behind it other branches may follow.
    let end = if is_branch(last) {
        u64::from(last.off) + u64::from(last.len) - 2
    } else {
        last.off.into()
    };
    let jumps = last.len != ILLEGAL_LEN && matches!(last.op, Op::Jal | Op::Jalr);
    let branches = is_branch(last);
    for p in others {
        let (at, behind) = (pc.wrapping_add(p.off.into()), end - u64::from(p.off));
        let in_reach = !jumps && behind < window(at);
        if !in_reach && p.flags & SPLIT == 0 {
            p.flags |= QUIET;
        }
        if in_reach && branches && (at & 0xfff) + behind + 2 <= 0x1000 {
            p.branch = behind as u8;
        }
    }
}

impl Hart {
    /// An access is done; for each time that it was tried again, the front end has fetched what is
    /// behind it once more.
    #[inline(always)]
    pub(crate) fn fetched_again<W: World>(&mut self, w: &mut W, at: RunPoint) {
        if at.quiet() {
            self.state.halfway.replays = 0;
        } else if self.state.halfway.replays != 0 {
            self.repeat_branches(w, at);
        }
    }

    #[cold]
    fn repeat_branches<W: World>(&mut self, w: &mut W, at: RunPoint) {
        let again = std::mem::take(&mut self.state.halfway.replays);
        if again & LINE_AGAIN != 0 && at.splits() {
            // Its two packets are fetched anew.
            self.state.cycle += 1;
        }
        for _ in 0..u32::from(again & WALK_AGAIN != 0) + u32::from(again & LINE_AGAIN != 0) {
            let mut packet = None;
            // Behind one that is predicted to be taken, other packets follow.
            if at.branch() == 0
                || !self
                    .state
                    .predictor
                    .repeats(at.pc, at.branch(), &mut packet)
            {
                self.repeat_others(w, at, packet);
            }
        }
    }

    /// The branches behind that of the block.
    #[inline(never)]
    fn repeat_others<W: World>(
        &mut self,
        w: &mut W,
        at: RunPoint,
        mut packet: Option<(u64, bool)>,
    ) {
        let pc = at.pc;
        let line = self.fetch.at((pc >> 6) as usize);
        let offset = if line.read == pc & !63 | self.fetch_tag() {
            pc.wrapping_add(line.delta)
        } else {
            let privilege = self.state.privilege;
            match self.look_up(w, pc, Access::Fetch, privilege) {
                Ok(pa) => pa.wrapping_sub(w.ram_base()),
                Err(_) => return,
            }
        };
        let slot = self.seen.look(pc, w.ram(), offset);
        for i in 0..self.seen.at(slot).transfers().len() {
            let t = self.seen.at(slot).transfers()[i];
            if t.kind != Kind::Branch || u64::from(t.last) >= window(pc) {
                break;
            }
            let known = at.branch() != 0 && t.last <= at.branch();
            if !known && self.state.predictor.repeats(pc, t.last, &mut packet) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::is_second_half;
    use crate::preop::pre;
    use nagori_isa::Inst;

    /// Instructions by operation and length, from a pc on: which are quiet.
    fn quiet(pc: u64, code: &[(Op, u8)]) -> Vec<bool> {
        let quiet = |p: &PreOp| p.flags & QUIET != 0;
        noted(pc, code).iter().map(quiet).collect()
    }

    /// Instructions as a block has them.
    fn noted(pc: u64, code: &[(Op, u8)]) -> Vec<PreOp> {
        let mut off = 0;
        let mut ops: Vec<PreOp> = Vec::new();
        for (op, len) in code {
            let inst = Inst {
                op: *op,
                len: *len,
                rd: 0,
                rs1: 0,
                rs2: 0,
                rs3: 0,
                rm: 0,
                imm: 0,
                raw: 0,
            };
            let split = *len == 4 && is_second_half(pc + u64::from(off));
            ops.push(pre(&inst, off, 0, if split { SPLIT } else { 0 }));
            off += u16::from(*len);
        }
        note_quiet(&mut ops, pc);
        ops
    }

    #[test]
    fn accesses_are_quiet_if_no_branch_is_fetched_again() {
        use Op::{Addi, Beq, Csrrw, Jal, Ld};
        let nops = |n: usize| vec![(Addi, 4); n];
        let with = |n: usize, last: Op| [vec![(Ld, 4)], nops(n), vec![(last, 4)]].concat();
        // The last half of the branch is 14 bytes behind the load, or 18.
        assert!(!quiet(0x1000, &with(2, Beq))[0]);
        assert!(quiet(0x1000, &with(3, Beq))[0]);
        assert!(quiet(0x1000, &with(0, Jal))[0]);
        assert!(!quiet(0x1000, &with(2, Csrrw))[0]);
        assert!(quiet(0x1000, &with(3, Csrrw))[0]);
        // In two packets.
        assert!(!quiet(0x1002, &with(9, Jal))[0]);
        let short = [vec![(Ld, 2)], nops(2), vec![(Beq, 4)]].concat();
        assert!(!quiet(0x1000, &short)[0], "its last half at 12");
        assert!(!quiet(0x1002, &short)[0], "at 12 of 14");
        let short = [vec![(Ld, 2)], nops(3), vec![(Beq, 4)]].concat();
        assert!(quiet(0x1002, &short)[0], "at 16 of 14");
    }

    #[test]
    fn accesses_know_the_branch_behind_them() {
        use Op::{Addi, Beq, Jal, Ld};
        let code = |last: Op| [(Ld, 4), (Addi, 4), (last, 4)];
        let branch = |pc, code: &[(Op, u8)]| noted(pc, code)[0].branch;
        assert_eq!(branch(0x1000, &code(Beq)), 10);
        assert_eq!(branch(0x1000, &code(Jal)), 0);
        assert_eq!(branch(0x1ff4, &code(Beq)), 10);
        assert_eq!(
            branch(0x1ff6, &code(Beq)),
            0,
            "its last half in the next page"
        );
        assert_eq!(noted(0x1000, &code(Beq))[2].branch, 0, "the branch itself");
    }
}
