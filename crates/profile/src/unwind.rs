//! Call stacks by frame pointers.
//!
//! By the psABI's convention (RISC-V ELF psABI, "Frame Pointer Convention") s0 holds the stack pointer
//! at the function's entry; the return address is 8 bytes below it, the caller's s0 16 bytes below.
//! Memory is only interpreted as such a record if it looks like one.

use crate::symbols::Symbols;
use nagori_hart::debug::{lookup, Mapping};
use nagori_ram::GuestRam;

/// Most frames of a stack, the instruction itself included.
pub(crate) const MAX_FRAMES: usize = 64;
/// Most bytes between the frames of a function and its caller.
const MAX_FRAME: u64 = 1 << 20;

/// Memory as the code that waits sees it.
pub(crate) struct View<'a> {
    pub ram: &'a GuestRam,
    pub base: u64,
    /// 0 without address translation.
    pub satp: u64,
}

impl View<'_> {
    fn find(&self, va: u64) -> Option<Mapping> {
        lookup(self.ram, self.base, self.satp, va)
    }

    fn word(&self, va: u64) -> Option<u64> {
        let pa = self.find(va)?.physical;
        self.ram.read_u64(pa.checked_sub(self.base)?)
    }

    /// Whether code can be at this address.
    fn is_code(&self, va: u64) -> bool {
        let inside = |m: Mapping| {
            m.physical
                .checked_sub(self.base)
                .is_some_and(|o| o < self.ram.len())
        };
        va.is_multiple_of(2) && va != 0 && self.find(va).is_some_and(|m| m.executable && inside(m))
    }
}

/// Registers from which a stack is found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    pub pc: u64,
    pub ra: u64,
    pub fp: u64,
}

/// The stack, innermost first; return addresses as stored. Only the instruction itself if there are
/// no frame pointers.
pub(crate) fn stack(r: Registers, view: &View<'_>, symbols: &Symbols, out: &mut Vec<u64>) {
    out.clear();
    out.push(r.pc);
    let Some((mut next, mut fp)) = leaf_record(r, view).or_else(|| record(r.fp, view)) else {
        return;
    };
    // A leaf function may have no frame: then s0 is its caller's, and ra leads to that caller. In
    // other functions ra points into the function itself, or is in the frame.
    let here = symbols.lookup(r.pc);
    let leaf = here.is_some_and(|f| !(f.start..f.end).contains(&r.ra)) && r.ra != next;
    if leaf && view.is_code(r.ra) {
        let caller = symbols.lookup(r.ra.wrapping_sub(1));
        if caller.is_some() && caller != here {
            out.push(r.ra);
        }
    }
    while out.len() < MAX_FRAMES {
        out.push(next);
        let below = fp;
        match record(fp, view) {
            // Stacks grow down, so callers are above.
            Some((ra, up)) if up > below && up - below <= MAX_FRAME || up == 0 => {
                (next, fp) = (ra, up);
            }
            Some((ra, _)) if out.len() < MAX_FRAMES => {
                // The record of the outermost function has no caller's frame.
                out.push(ra);
                return;
            }
            _ => return,
        }
    }
}

/// Return address and caller's frame pointer of a leaf function that saves no return address: the caller's frame
/// pointer is in its place.
fn leaf_record(r: Registers, view: &View<'_>) -> Option<(u64, u64)> {
    if !r.fp.is_multiple_of(8) || r.fp < 16 {
        return None;
    }
    let up = view.word(r.fp - 8)?;
    let above = up > r.fp && up - r.fp <= MAX_FRAME && up % 8 == 0;
    (above && view.is_code(r.ra)).then_some((r.ra, up))
}

/// Return address and caller's frame pointer below a frame pointer.
fn record(fp: u64, view: &View<'_>) -> Option<(u64, u64)> {
    if !fp.is_multiple_of(8) || fp < 16 {
        return None;
    }
    let ra = view.word(fp - 8)?;
    let up = view.word(fp - 16)?;
    (view.is_code(ra) && up % 8 == 0).then_some((ra, up))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x8000_0000;

    fn symbols() -> Symbols {
        let mut s = Symbols::default();
        let f = |a: u64, n: &str| (BASE + a, 0x100, n.to_string());
        s.add_table(
            "t",
            vec![f(0x100, "leaf"), f(0x200, "inner"), f(0x300, "outer")],
            0,
        );
        s
    }

    fn view(ram: &GuestRam) -> View<'_> {
        View {
            ram,
            base: BASE,
            satp: 0,
        }
    }

    fn unwind(ram: &GuestRam, pc: u64, ra: u64, fp: u64) -> Vec<u64> {
        let mut out = Vec::new();
        let r = Registers {
            pc: BASE + pc,
            ra: BASE + ra,
            fp,
        };
        stack(r, &view(ram), &symbols(), &mut out);
        out.iter().map(|a| a.wrapping_sub(BASE)).collect()
    }

    /// inner, called by outer at 0x310, which was called at 0x10 by the start, whose s0 was 0.
    fn two_frames() -> GuestRam {
        let ram = GuestRam::new(1 << 16).unwrap();
        let write = |at: u64, v: u64| ram.write_u64(at, v).unwrap();
        write(0x7ff8, BASE + 0x310);
        write(0x7ff0, BASE + 0x8100);
        write(0x80f8, BASE + 0x10);
        write(0x80f0, 0);
        ram
    }

    #[test]
    fn frames_lead_to_callers() {
        let ram = two_frames();
        let got = unwind(&ram, 0x220, 0x310, BASE + 0x8000);
        assert_eq!(got, [0x220, 0x310, 0x10]);
        // After its own call, ra points into the function.
        let got = unwind(&ram, 0x220, 0x21c, BASE + 0x8000);
        assert_eq!(got, [0x220, 0x310, 0x10]);
    }

    #[test]
    fn a_function_without_a_frame_is_found_by_ra() {
        let ram = two_frames();
        let got = unwind(&ram, 0x104, 0x230, BASE + 0x8000);
        assert_eq!(got, [0x104, 0x230, 0x310, 0x10]);
    }

    #[test]
    fn a_function_that_saves_no_return_address_is_found_by_ra() {
        let ram = two_frames();
        // The leaf's frame is below inner's, and holds only that one's frame pointer.
        ram.write_u64(0x7fd8, BASE + 0x8000).unwrap();
        let got = unwind(&ram, 0x104, 0x230, BASE + 0x7fe0);
        assert_eq!(got, [0x104, 0x230, 0x310, 0x10]);
    }

    #[test]
    fn what_is_no_frame_gives_a_flat_stack() {
        let ram = two_frames();
        for fp in [
            0,
            8,
            1,
            BASE + 0x8001,
            BASE - 8,
            u64::MAX - 7,
            BASE + 0x4000,
            0x1234_5678,
        ] {
            assert_eq!(unwind(&ram, 0x220, 0x310, fp), [0x220], "{fp:#x}");
        }
    }

    #[test]
    fn loops_end() {
        let ram = two_frames();
        // A frame that is its own caller.
        ram.write_u64(0x80f0, BASE + 0x8100).unwrap();
        let got = unwind(&ram, 0x220, 0x310, BASE + 0x8000);
        assert!(got.len() <= 4, "{got:x?}");
        // An endless chain of frames.
        for i in 0..200 {
            let at = 0x1000 + 16 * i;
            ram.write_u64(at + 8, BASE + 0x300).unwrap();
            ram.write_u64(at, BASE + at + 32).unwrap();
        }
        let got = unwind(&ram, 0x220, 0x310, BASE + 0x1010);
        assert_eq!(got.len(), MAX_FRAMES);
    }
}
