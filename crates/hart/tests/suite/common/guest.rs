//! Images of bare guests: page tables.

use nagori_ram::GuestRam;

/// Rights of a user page that may do everything: D A U X W R V.
pub const USER_ALL: u64 = 0xdf;
/// Rights of a supervisor page that may do everything: D A X W R V.
pub const SUPER_ALL: u64 = 0xcf;

/// Builds an Sv39 table in guest memory.
pub struct Sv39<'a> {
    ram: &'a GuestRam,
    base: u64,
    root: u64,
    next: u64,
}

impl<'a> Sv39<'a> {
    /// Tables are taken from physical address `at` upwards; memory begins at `base`.
    pub fn new(ram: &'a GuestRam, base: u64, at: u64) -> Self {
        ram.fill(at - base, 4096, 0).expect("table in memory");
        Self {
            ram,
            base,
            root: at,
            next: at + 4096,
        }
    }

    /// Value of satp that selects the table.
    pub fn satp(&self) -> u64 {
        8 << 60 | self.root >> 12
    }

    /// Address of the entry of `va` at `level`, with the tables above it.
    pub fn entry(&mut self, va: u64, level: u32) -> u64 {
        let mut table = self.root;
        for l in (level..3).rev() {
            let at = table + (va >> (12 + 9 * l) & 0x1ff) * 8;
            if l == level {
                return at;
            }
            let pte = self.ram.read_u64(at - self.base).expect("table in memory");
            table = if pte & 1 == 0 {
                let t = self.next;
                self.next += 4096;
                self.ram
                    .fill(t - self.base, 4096, 0)
                    .expect("table in memory");
                self.put(at, t >> 12 << 10 | 1);
                t
            } else {
                pte >> 10 << 12
            };
        }
        unreachable!("level is below 3")
    }

    /// Writes an entry.
    pub fn put(&self, at: u64, pte: u64) {
        self.ram
            .write_u64(at - self.base, pte)
            .expect("table in memory");
    }

    /// Maps 4 KiB pages.
    pub fn map(&mut self, va: u64, pa: u64, bytes: u64, flags: u64) {
        for k in (0..bytes).step_by(4096) {
            let at = self.entry(va + k, 0);
            self.put(at, (pa + k) >> 12 << 10 | flags);
        }
    }
}
