//! Accesses that are tried again. The core does not wait for a line or a translation with the instructions
//! behind an access: it drops them, and fetches from the access on anew. The branches among them have got
//! into the branch history by then, and nothing takes them out; so they get into it once more. Seen on Rocket's
//! RTL: its history register and the redirections of its front end around accesses that miss.

use crate::hart::Hart;
use crate::pmp::Access;
use crate::predict::is_second_half;
use crate::transfer::{kind, Kind};
use crate::world::World;
use nagori_isa::inst_len;

/// Bits of what an access was tried again for: a translation, or its line.
pub(crate) const WALK_AGAIN: u8 = 1;
pub(crate) const LINE_AGAIN: u8 = 2;
/// Packets behind that of an access that have been fetched when it is tried again.
const PACKETS: u64 = 3;
/// The window holds no more branches, which have at least 16 bits.
const BRANCHES: usize = 8;

/// Words of memory that the window touches.
const WORDS: usize = 3;
/// Accesses whose code is kept.
const KEPT: usize = 64;

/// An access and what is fetched close behind it.
#[derive(Clone, Copy, Debug, Default)]
struct Code {
    /// Bytes from the access to the last halves of branches.
    branches: [u8; BRANCHES],
    count: u8,
    /// The access is in two packets.
    splits: bool,
}

impl Code {
    /// Looks at the code from a pc on, up to a jump or the end of the page.
    fn of(pc: u64, words: &[u64; WORDS]) -> Code {
        let mut found = Code::default();
        let page_left = 0x1000 - (pc & 0xfff);
        let window = ((PACKETS + 1) * 4 - (pc & 3)).min(page_left);
        let half = |at: u64| {
            let from = (pc & 7) + at;
            (words[from as usize / 8] >> (8 * (from % 8))) as u16
        };
        let mut at = 0;
        while at < window {
            let low = half(at);
            let len = u64::from(inst_len(low));
            if at == 0 {
                found.splits = len == 4 && is_second_half(pc);
            }
            if at + len > window {
                break;
            }
            match kind(u32::from(low)) {
                _ if at == 0 => {}
                Kind::Jump(_) | Kind::Indirect(_) | Kind::Return => break,
                Kind::Branch => {
                    found.branches[usize::from(found.count)] = (at + len - 2) as u8;
                    found.count += 1;
                }
                Kind::Other => {}
            }
            at += len;
        }
        found
    }
}

/// What the code behind accesses was found to be. It follows from their addresses and the words, which are compared, so
/// nothing has to be forgotten, and no saved state has it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    kept: Vec<(u64, [u64; WORDS], Code)>,
}

impl Default for Seen {
    fn default() -> Self {
        // No instruction has an odd address.
        let kept = vec![(u64::MAX, [0; WORDS], Code::default()); KEPT];
        Seen { kept }
    }
}

impl Seen {
    fn code(&mut self, pc: u64, words: [u64; WORDS]) -> Code {
        let e = &mut self.kept[(pc >> 1) as usize % KEPT];
        if e.0 != pc || e.1 != words {
            *e = (pc, words, Code::of(pc, &words));
        }
        e.2
    }
}

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
        let offset = offset & !7;
        let word = |i: u64| w.ram().read_u64(offset.wrapping_add(8 * i)).unwrap_or(0);
        let code = self.seen.code(pc, [word(0), word(1), word(2)]);
        if again & LINE_AGAIN != 0 && code.splits {
            // Its two packets are fetched anew.
            self.cycle += 1;
        }
        for _ in 0..again.count_ones() {
            for last in &code.branches[..usize::from(code.count)] {
                // Behind one that is predicted to be taken, other packets follow.
                if self.predictor.repeats(pc.wrapping_add(u64::from(*last))) {
                    break;
                }
            }
        }
    }
}
