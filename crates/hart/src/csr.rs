//! Behaviour of control and status registers; their numbers, masks and reset
//! values are rows of `nagori_isa::csr`.

use crate::hpm::{Counter, Hpm};
use nagori_isa::{csr as table, Ext, Extensions};
use serde::{Deserialize, Serialize};

/// Storage of the registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Csrs {
    pub mstatus: u64,
    pub mie: u64,
    pub mip_soft: u64,
    pub medeleg: u64,
    pub mideleg: u64,
    pub mtvec: u64,
    pub stvec: u64,
    pub mepc: u64,
    pub sepc: u64,
    pub mcause: u64,
    pub scause: u64,
    pub mtval: u64,
    pub stval: u64,
    pub mscratch: u64,
    pub sscratch: u64,
    pub mcounteren: u64,
    pub scounteren: u64,
    pub mcountinhibit: u64,
    pub menvcfg: u64,
    pub senvcfg: u64,
    pub satp: u64,
    pub stimecmp: u64,
    pub frm: u8,
    pub fflags: u8,
    pub(crate) cycle: Counter,
    pub(crate) instret: Counter,
    pub(crate) hpm: Hpm,
}

impl Default for Csrs {
    fn default() -> Self {
        Self {
            mstatus: 0,
            mie: 0,
            mip_soft: 0,
            medeleg: 0,
            mideleg: 0,
            mtvec: 0,
            stvec: 0,
            mepc: 0,
            sepc: 0,
            mcause: 0,
            scause: 0,
            mtval: 0,
            stval: 0,
            mscratch: 0,
            sscratch: 0,
            mcounteren: 0,
            scounteren: 0,
            mcountinhibit: 0,
            menvcfg: 0,
            senvcfg: 0,
            satp: 0,
            stimecmp: u64::MAX,
            frm: 0,
            fflags: 0,
            cycle: Counter::default(),
            instret: Counter::default(),
            hpm: Hpm::default(),
        }
    }
}

impl Csrs {
    /// The state after reset of a hart with these extensions.
    pub(crate) fn reset(isa: Extensions) -> Csrs {
        Csrs {
            // Software that does not know the bit finds hardware that sets A and D, as it does in QEMU, and as a device
            // tree with svadu and without svade says.
            menvcfg: if isa.has(Ext::Svadu) { table::ADUE } else { 0 },
            ..Csrs::default()
        }
    }

    /// menvcfg.STCE: stimecmp belongs to S and drives STIP.
    pub fn stce(&self) -> bool {
        self.menvcfg >> 63 != 0
    }

    /// menvcfg.ADUE: hardware sets the A and D bits of page-table entries.
    #[inline]
    pub fn adue(&self) -> bool {
        self.menvcfg & table::ADUE != 0
    }

    /// Whether satp selects a page table.
    pub fn paging(&self) -> bool {
        self.satp >> 60 == 8
    }

    /// Address space in force (satp.ASID).
    pub fn asid(&self) -> u16 {
        (self.satp >> 44) as u16
    }

    /// Whether this is a possible state.
    pub(crate) fn sane(&self) -> bool {
        self.hpm.sane() && self.frm < 8 && self.fflags < 32
    }

    pub(crate) fn plain(&mut self, number: u16) -> Option<&mut u64> {
        Some(match number {
            0x106 => &mut self.scounteren,
            0x140 => &mut self.sscratch,
            0x141 => &mut self.sepc,
            0x142 => &mut self.scause,
            0x143 => &mut self.stval,
            0x302 => &mut self.medeleg,
            0x303 => &mut self.mideleg,
            0x304 => &mut self.mie,
            0x306 => &mut self.mcounteren,
            0x340 => &mut self.mscratch,
            0x341 => &mut self.mepc,
            0x342 => &mut self.mcause,
            0x343 => &mut self.mtval,
            _ => return None,
        })
    }
}

/// UXL and SXL are fixed at 64 bits.
pub(crate) const XL: u64 = 2 << 32 | 2 << 34;
pub(crate) const UXL: u64 = 2 << 32;

/// Position in time of the instruction that touches a CSR.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub cycle: u64,
    pub instret: u64,
}

impl Moment {
    /// The position behind the instruction, which then counts as retired itself.
    pub fn behind(self) -> Moment {
        Moment {
            instret: self.instret.wrapping_add(1),
            ..self
        }
    }
}

/// CBIE has a reserved encoding, 2: a write of it keeps the field.
pub(crate) fn legal_cbie(new: u64, old: u64) -> u64 {
    if new >> 4 & 3 == 2 {
        new & !0x30 | old & 0x30
    } else {
        new
    }
}

/// What a CSR instruction writes.
#[derive(Clone, Copy)]
pub(crate) enum CsrWrite {
    Put(u64),
    Set(u64),
    Clear(u64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_isa::csr::CsrKind;

    #[test]
    fn every_plain_row_has_storage() {
        let mut c = Csrs::default();
        for r in table::CSRS.iter().filter(|r| r.kind == CsrKind::Plain) {
            for n in r.first..r.first + r.count {
                assert!(c.plain(n).is_some(), "{}", table::name(n));
            }
        }
    }
}
