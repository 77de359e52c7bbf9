//! Accesses that are tried again. The core does not wait for a line or a translation with the instructions
//! behind an access: it drops them, and fetches from the access on anew. The branches among them have got
//! into the branch history by then, and nothing takes them out; so they get into it once more. Seen on Rocket's
//! RTL: its history register and the redirections of its front end around accesses that miss.

use crate::hart::Hart;
use crate::pmp::Access;
use crate::predict::is_second_half;
use crate::straight::word_at;
use crate::transfer::Kind;
use crate::world::World;

/// Bits of what an access was tried again for: a translation, or its line.
pub(crate) const WALK_AGAIN: u8 = 1;
pub(crate) const LINE_AGAIN: u8 = 2;
/// Packets behind that of an access that have been fetched when it is tried again.
const PACKETS: u64 = 3;

impl Hart {
    /// The access at a pc is done; for each time that it was tried again, the front end has fetched what is
    /// behind it once more.
    #[inline(always)]
    pub(crate) fn fetched_again<W: World>(&mut self, w: &mut W, pc: u64) {
        if self.light {
            // Which packets are fetched again changes little, and costs the host a tenth of a miss.
            self.replays = 0;
        } else if self.replays != 0 {
            self.repeat_branches(w, pc);
        }
    }

    #[cold]
    fn repeat_branches<W: World>(&mut self, w: &mut W, pc: u64) {
        let again = std::mem::take(&mut self.replays);
        let line = self.fetch.at((pc >> 6) as usize);
        let offset = if line.read == pc & !63 | self.fetch_tag() {
            pc.wrapping_add(line.delta)
        } else {
            let privilege = self.privilege;
            match self.translate(w, pc, Access::Fetch, privilege) {
                Ok(pa) => pa.wrapping_sub(w.ram_base()),
                Err(_) => return,
            }
        };
        let slot = self.seen.look(pc, |i| word_at(w.ram(), offset, i));
        let code = self.seen.at(slot);
        if again & LINE_AGAIN != 0 && code.splits {
            // Its two packets are fetched anew.
            self.cycle += 1;
        }
        let window = (PACKETS + 1) * 4 - (pc & 3);
        for _ in 0..again.count_ones() {
            let mut packet = None;
            for t in code.transfers() {
                if t.kind != Kind::Branch || u64::from(t.last) >= window {
                    break;
                }
                let last = pc.wrapping_add(t.last.into());
                let blind = is_second_half(pc) && last >> 2 == pc >> 2;
                // Behind one that is predicted to be taken, other packets follow.
                if self.predictor.repeats(last, blind, &mut packet) {
                    break;
                }
            }
        }
    }
}
