//! One hart on flat memory, for tests of a few instructions.

use super::{bytes, csrw, i, n};
use nagori_hart::flat::Flat;
use nagori_hart::world::Bus;
use nagori_hart::{CodeCache, Hart, HartConfig};
use nagori_isa::Op;

/// First address of memory, and of the code.
pub const BASE: u64 = 0x8000_0000;
/// Bytes of memory.
pub const MEMORY: u64 = 4 << 20;
/// The trap vector: a loop that does nothing.
pub const TRAP: u64 = BASE + 0x800;
/// Code that changes mode.
const SWITCH: u64 = BASE + 0xc00;

/// A hart in machine mode at [`BASE`], with mtvec at [`TRAP`].
pub struct Bare {
    pub w: Flat,
    pub h: Hart,
    pub code: CodeCache,
}

impl Bare {
    /// With the words at [`BASE`].
    pub fn new(config: HartConfig, timed: bool, words: &[u32]) -> Self {
        let w = Flat::new(BASE, MEMORY, 1, &config).expect("memory");
        let mut h = Hart::new(0, config).expect("configuration");
        h.set_timed(timed);
        h.state.csr.mtvec = TRAP;
        h.state.pc = BASE;
        let b = Self {
            w,
            h,
            code: CodeCache::default(),
        };
        b.put(BASE, words);
        b.put(TRAP, &[i(Op::Jal, 0, 0, 0)]);
        b
    }

    /// Writes words at an address.
    pub fn put(&self, at: u64, words: &[u32]) {
        self.w
            .ram()
            .write_bytes(at - BASE, &bytes(words))
            .expect("in memory");
    }

    /// Enters a mode (0 U, 1 S, 3 M) at `pc`, with a value of satp, further bits of
    /// mstatus, and two PMP entries: the address and configuration registers.
    pub fn enter(&mut self, mode: u64, pc: u64, satp: u64, mstatus: u64, pmp: (u64, u64, u64)) {
        let numbers = [0x180, 0x300, 0x3b0, 0x3b1, 0x3a0, 0x341];
        let values = [satp, mstatus | mode << 11, pmp.0, pmp.1, pmp.2, pc];
        let mut words = Vec::new();
        for (k, (c, v)) in numbers.into_iter().zip(values).enumerate() {
            self.h.set_reg(10 + k, v);
            words.push(csrw(c, 10 + k as u8));
        }
        words.extend([n(Op::FenceI), n(Op::Mret)]);
        self.put(SWITCH, &words);
        self.h.state.pc = SWITCH;
        while self.h.state.pc >= SWITCH && self.h.state.pc < SWITCH + 64 {
            self.h
                .run(&mut self.code, &mut self.w, self.h.state.cycle + 1);
        }
    }

    /// Runs until the trap vector is reached; mcause, mepc, mtval.
    #[allow(clippy::wrong_self_convention)] // it runs the guest up to the trap
    pub fn run_to_trap(&mut self) -> (u64, u64, u64) {
        for _ in 0..100_000 {
            if self.h.state.pc == TRAP {
                return (
                    self.h.state.csr.mcause,
                    self.h.state.csr.mepc,
                    self.h.state.csr.mtval,
                );
            }
            self.h
                .run(&mut self.code, &mut self.w, self.h.state.cycle + 1);
        }
        panic!("no trap; pc {:#x}", self.h.state.pc);
    }
}

/// PMP that lets everything pass.
pub const OPEN: (u64, u64, u64) = (u64::MAX >> 10, 0, 0x1f);
