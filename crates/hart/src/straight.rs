//! Straight code as the front end's decoder sees it: from an address on, the instructions that may lead elsewhere.

use crate::predict::is_second_half;
use crate::transfer::{distance, kind, Kind};
use nagori_isa::inst_len;
use nagori_ram::GuestRam;

/// Aligned words of memory that are looked at.
pub(crate) const WORDS: usize = 4;
/// Transfers of control that are kept; behind them the code counts as unknown.
const MOST: usize = 6;
/// Addresses whose code is kept.
const KEPT: usize = 512;

/// A transfer of control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// Bytes from the beginning of the code to its last half.
    pub last: u8,
    pub kind: Kind,
    /// From its last half to where it leads, if it is direct.
    pub distance: i32,
}

/// The code from an address on, up to the first jump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Straight {
    transfers: [Transfer; MOST],
    count: u8,
    /// Bytes that it is known for.
    pub bytes: u8,
    /// Its first instruction is in two packets.
    pub splits: bool,
}

impl Straight {
    const NOTHING: Straight = Straight {
        transfers: [Transfer {
            last: 0,
            kind: Kind::Other,
            distance: 0,
        }; MOST],
        count: 0,
        bytes: 0,
        splits: false,
    };

    /// Looks at the code from a pc on, up to the end of the page.
    fn of(pc: u64, words: &[u64; WORDS]) -> Straight {
        let mut found = Straight::NOTHING;
        let page_left = 0x1000 - (pc & 0xfff);
        let window = (8 * WORDS as u64 - (pc & 7)).min(page_left);
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
            let high = if len == 4 { half(at + 2) } else { 0 };
            let word = u32::from(high) << 16 | u32::from(low);
            let kind = kind(word);
            if kind != Kind::Other {
                if usize::from(found.count) == MOST {
                    break;
                }
                let last = at + len - 2;
                let distance = match kind {
                    Kind::Branch | Kind::Jump(_) => {
                        at.wrapping_add(distance(word)).wrapping_sub(last)
                    }
                    _ => 0,
                };
                found.transfers[usize::from(found.count)] = Transfer {
                    last: last as u8,
                    kind,
                    distance: distance as i32,
                };
                found.count += 1;
            }
            at += len;
            if !matches!(kind, Kind::Branch | Kind::Other) {
                break;
            }
        }
        found.bytes = at as u8;
        found
    }

    #[inline(always)]
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers[..usize::from(self.count).min(MOST)]
    }
}

/// An aligned word of memory: the one with the byte at an offset in RAM is word 0. What is not there reads as 0.
fn word_at(ram: &GuestRam, offset: u64, i: usize) -> u64 {
    let at = (offset & !7).wrapping_add(8 * i as u64);
    ram.read_u64(at).unwrap_or(0)
}

/// What the code at addresses was found to be. It follows from the addresses and the words, which are compared, so
/// nothing has to be forgotten, and no saved state has it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    kept: Vec<(u64, [u64; WORDS], Straight)>,
}

/// Where what was found is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot(usize);

impl Default for Seen {
    fn default() -> Self {
        // No instruction has an odd address.
        let kept = vec![(u64::MAX, [0; WORDS], Straight::NOTHING); KEPT];
        Seen { kept }
    }
}

impl Seen {
    /// Looks at the code at a pc, whose first byte is at an offset in RAM.
    #[inline(always)]
    pub fn look(&mut self, pc: u64, ram: &GuestRam, offset: u64) -> Slot {
        let slot = (pc >> 1) as usize % KEPT;
        let e = &self.kept[slot];
        if e.0 != pc || !ram.has_words(offset & !7, &e.1) {
            let words = std::array::from_fn(|i| word_at(ram, offset, i));
            self.look_anew(slot, pc, words);
        }
        Slot(slot)
    }

    #[cold]
    #[inline(never)]
    fn look_anew(&mut self, slot: usize, pc: u64, words: [u64; WORDS]) {
        self.kept[slot] = (pc, words, Straight::of(pc, &words));
    }

    /// What was looked at last there.
    #[inline(always)]
    pub fn at(&self, slot: Slot) -> &Straight {
        &self.kept[slot.0].2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn straight(pc: u64, halves: &[u16]) -> Straight {
        let mut words = [0x0001_0001_0001_0001; WORDS];
        let from = (pc & 7) as usize / 2;
        for (i, h) in (from..).zip(halves) {
            let shift = 16 * (i % 4);
            words[i / 4] = words[i / 4] & !(0xffff << shift) | u64::from(*h) << shift;
        }
        Straight::of(pc, &words)
    }

    #[test]
    fn code_is_known_up_to_a_jump() {
        // c.nop, beq x0, x0, 8, ret.
        let s = straight(0x1002, &[1, 0x0463, 0, 0x8082]);
        let found: Vec<_> = s.transfers().iter().map(|t| (t.last, t.kind)).collect();
        assert_eq!(found, [(4, Kind::Branch), (6, Kind::Return)]);
        assert_eq!(s.transfers()[0].distance, 6, "from its second half");
        assert_eq!((s.bytes, s.splits), (8, false));
        assert!(straight(0x1002, &[0x0463, 0]).splits);
    }

    #[test]
    fn code_is_known_up_to_the_end_of_words_and_page() {
        assert_eq!(straight(0x1000, &[]).bytes, 32);
        assert_eq!(straight(0x1006, &[]).bytes, 26);
        assert_eq!(straight(0x1ffe, &[]).bytes, 2);
        assert_eq!(
            straight(0x1ffe, &[0x0463, 0]).bytes,
            0,
            "its other half is unknown"
        );
        let branches = straight(0x1000, &[0xc091; 16]);
        assert_eq!(
            (branches.transfers().len(), branches.bytes),
            (MOST, 2 * MOST as u8)
        );
    }

    #[test]
    fn other_words_are_looked_at_anew() {
        let ram = GuestRam::new(4096).unwrap();
        let mut seen = Seen::default();
        let mut bytes = |pc, word| {
            // The last words of memory, of which the code is more.
            ram.write_u64(4080, word).unwrap();
            ram.write_u64(4088, word).unwrap();
            let slot = seen.look(pc, &ram, 4080 + (pc & 7));
            seen.at(slot).bytes
        };
        assert_eq!(bytes(0x1000, 0x0001_0001_0001_8082), 2);
        assert_eq!(bytes(0x1000, 0x0001_0001_8082_0001), 4);
        assert_eq!(bytes(0x1002, 0x0001_0001_8082_0001), 2);
    }
}
