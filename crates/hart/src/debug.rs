//! Access for debuggers and profilers without side effects on the guest: registers by number, and
//! memory through a page table.

use crate::csr::Moment;
use crate::hart::Hart;
use crate::mmu::PADDR_BITS;
use crate::privilege::Privilege;
use crate::world::World;
use nagori_isa::csr as table;
use nagori_ram::GuestRam;

/// satp.MODE of Sv39.
const SV39: u64 = 8;
const V: u64 = 1;
const R: u64 = 1 << 1;
const X: u64 = 1 << 3;

/// Where a virtual address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// Physical address.
    pub physical: u64,
    /// Whether the table lets it be executed.
    pub executable: bool,
}

/// The translation of a virtual address under a value of `satp`, by whatever the table contains,
/// regardless of permissions. `None` if there is no translation.
pub fn lookup(ram: &GuestRam, ram_base: u64, satp: u64, va: u64) -> Option<Mapping> {
    if satp >> 60 != SV39 {
        return Some(Mapping {
            physical: va,
            executable: true,
        });
    }
    if (va as i64) << 25 >> 25 != va as i64 {
        return None;
    }
    let mut table = (satp & ((1 << 44) - 1)) << 12;
    for level in (0..3u32).rev() {
        let shift = 12 + 9 * level;
        let at = table + (va >> shift & 0x1ff) * 8;
        let pte = ram.read_u64(at.checked_sub(ram_base)?)?;
        let address = pte >> 10 << 12 & ((1 << PADDR_BITS) - 1);
        if pte & V == 0 {
            return None;
        }
        if pte & (R | X) != 0 {
            let within = (1u64 << shift) - 1;
            return Some(Mapping {
                physical: address & !within | va & within,
                executable: pte & X != 0,
            });
        }
        table = address;
    }
    None
}

impl Hart {
    /// The value of `satp` that translates what the hart does now; 0 where nothing is translated.
    pub fn effective_satp(&self) -> u64 {
        match self.state.privilege {
            Privilege::Machine => 0,
            _ => self.state.csr.satp,
        }
    }

    /// A control and status register by its number, read without side effects and whatever the
    /// privilege; `None` if this hart lacks it.
    pub fn csr<W: World>(&mut self, w: &mut W, number: u16) -> Option<u64> {
        let at = self.moment();
        self.csr_exists(number)
            .then(|| self.csr_value(w, number, at))
    }

    /// Writes a register as a CSR instruction in machine mode would. Whether it exists and can be
    /// written.
    pub fn put_csr<W: World>(&mut self, w: &mut W, number: u16, value: u64) -> bool {
        let can = self.csr_exists(number) && !table::read_only(number);
        if can {
            // No instruction writes it that would be counted.
            let at = Moment {
                instret: self.state.instret.wrapping_sub(1),
                ..self.moment()
            };
            self.set_csr(w, number, value, at);
        }
        can
    }

    /// Changes the privilege as a debugger may.
    pub fn put_privilege(&mut self, p: Privilege) {
        self.state.privilege = p;
        self.context_changed();
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment {
            cycle: self.state.cycle,
            instret: self.state.instret,
        }
    }
}
