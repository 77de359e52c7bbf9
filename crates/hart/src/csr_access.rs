//! Control and status registers as instructions of a hart see them.

use crate::csr::{legal_cbie, CsrWrite, Moment, UXL, XL};
use crate::hart::Hart;
use crate::privilege::Privilege;
use crate::trap::{irq, status, Trap};
use crate::world::World;
use nagori_isa::csr::{self as table, CsrKind, CsrRow};
use nagori_isa::Ext;

impl Hart {
    fn counter_allowed(&self, index: u64) -> bool {
        let bit = 1 << index;
        match self.state.privilege {
            Privilege::Machine => true,
            Privilege::Supervisor => self.state.csr.mcounteren & bit != 0,
            Privilege::User => self.state.csr.mcounteren & self.state.csr.scounteren & bit != 0,
        }
    }

    pub(crate) fn csr_exists(&self, number: u16) -> bool {
        let Some(row) = table::lookup(number) else {
            return false;
        };
        if !self.config.isa.has(row.ext) {
            return false;
        }
        let n = self.config.pmp_entries as u16;
        match number {
            0x3a0..=0x3af => n > 0 && number & 1 == 0,
            0x3b0..=0x3ef => n > 0,
            0x7a0..=0x7a4 => self.config.triggers > 0,
            _ => true,
        }
    }

    /// Whether the current mode may touch the register; the trap it gets otherwise.
    fn check_csr(&self, number: u16, write: bool, raw: u32) -> Result<(), Trap> {
        let illegal = Err(Trap::illegal(raw));
        if !self.csr_exists(number)
            || (self.state.privilege as u8) < table::privilege(number)
            || (write && table::read_only(number))
        {
            return illegal;
        }
        match number {
            0x001..=0x003 if self.state.csr.mstatus & status::FS == 0 => illegal,
            0xc00..=0xc1f if !self.counter_allowed(number as u64 - 0xc00) => illegal,
            0x180
                if self.state.privilege == Privilege::Supervisor
                    && self.state.csr.mstatus & status::TVM != 0 =>
            {
                illegal
            }
            0x14d
                if self.state.privilege == Privilege::Supervisor
                    && (!self.state.csr.stce() || self.state.csr.mcounteren & 2 == 0) =>
            {
                illegal
            }
            _ => Ok(()),
        }
    }

    fn mstatus(&self) -> u64 {
        let st = self.state.csr.mstatus;
        let sd = if st & status::FS == status::FS {
            1 << 63
        } else {
            0
        };
        st | XL | sd
    }

    /// Value of a register that exists, without a privilege check.
    pub(crate) fn csr_value<W: World>(&mut self, w: &mut W, number: u16, at: Moment) -> u64 {
        let Some(row) = table::lookup(number) else {
            return 0;
        };
        match row.kind {
            CsrKind::Fixed => return row.reset,
            CsrKind::Plain => return self.state.csr.plain(number).map_or(row.reset, |p| *p),
            CsrKind::Handler => {}
        }
        match number {
            0x001 => self.state.csr.fflags as u64,
            0x002 => self.state.csr.frm as u64,
            0x003 => (self.state.csr.frm as u64) << 5 | self.state.csr.fflags as u64,
            0x100 => self.mstatus() & (table::SSTATUS_MASK | UXL | 1 << 63),
            0x104 => self.state.csr.mie & self.state.csr.mideleg,
            0x105 => self.state.csr.stvec,
            0x10a => self.state.csr.senvcfg,
            0x144 => {
                self.look_for_overflows(w, at);
                self.mip() & self.state.csr.mideleg
            }
            0x14d => self.state.csr.stimecmp,
            0x180 => self.state.csr.satp,
            0x300 => self.mstatus(),
            0x301 => self.config.isa.misa(),
            0x305 => self.state.csr.mtvec,
            0x30a => self.state.csr.menvcfg,
            0x320 => self.state.csr.mcountinhibit,
            0x323..=0x33f => {
                self.look_for_overflows(w, at);
                self.state.csr.hpm.select(number as usize - 0x323)
            }
            0x344 => {
                self.look_for_overflows(w, at);
                self.mip()
            }
            0x3a0..=0x3af => self.state.pmp.read_cfg(number as usize - 0x3a0),
            0x3b0..=0x3ef => self.state.pmp.read_addr(number as usize - 0x3b0),
            0x7a0..=0x7a4 => self.state.triggers.read(number),
            0xb00 | 0xc00 => self.state.csr.cycle.read(at.cycle),
            0xb02 | 0xc02 => self.state.csr.instret.read(at.instret),
            0xb03..=0xb1f => self.hpm_value(w, number as usize - 0xb03, at),
            0xc03..=0xc1f => self.hpm_value(w, number as usize - 0xc03, at),
            0xc01 => w.time(at.cycle),
            0xda0 => {
                self.look_for_overflows(w, at);
                self.overflown()
            }
            0xf14 => self.id as u64,
            _ => row.reset,
        }
    }

    /// Bits of a register that can be written: fields of extensions that the hart lacks are 0.
    fn writable(&self, row: &CsrRow, number: u16) -> u64 {
        const CBIE_CBCFE: u64 = 7 << 4;
        const CBZE: u64 = 1 << 7;
        const STCE: u64 = 1 << 63;
        const TM: u64 = 1 << 1;
        const CY_TM_IR: u64 = 7;
        let isa = self.config.isa;
        let lacks = |ext: Ext, bits: u64| if isa.has(ext) { 0 } else { bits };
        let none = match number {
            0x100 | 0x300 => lacks(Ext::F, status::FS),
            // TM is also the right to use stimecmp.
            0x106 | 0x306 => {
                lacks(Ext::Zicntr, CY_TM_IR & !TM)
                    | lacks(Ext::Zicntr, lacks(Ext::Sstc, TM))
                    | lacks(Ext::Zihpm, !CY_TM_IR)
            }
            0x10a | 0x30a => {
                lacks(Ext::Zicbom, CBIE_CBCFE)
                    | lacks(Ext::Zicboz, CBZE)
                    | lacks(Ext::Sstc, STCE)
                    | lacks(Ext::Svadu, table::ADUE)
            }
            0x141 | 0x341 => isa.pc_low(),
            0x144 | 0x303 | 0x304 | 0x344 => lacks(Ext::Sscofpmf, table::LCOFI),
            0x323..=0x33f => lacks(Ext::Sscofpmf, table::MHPMEVENT_MASK),
            _ => 0,
        };
        row.mask & !none
    }

    /// Writes a register that exists, without a privilege check.
    pub(crate) fn set_csr<W: World>(&mut self, w: &mut W, number: u16, value: u64, at: Moment) {
        let Some(row) = table::lookup(number) else {
            return;
        };
        let mask = self.writable(row, number);
        let masked = |old: u64| old & !mask | value & mask;
        match row.kind {
            CsrKind::Fixed => return,
            CsrKind::Plain => {
                if let Some(p) = self.state.csr.plain(number) {
                    *p = masked(*p);
                }
                self.run.recheck = true;
                return;
            }
            CsrKind::Handler => {}
        }
        match number {
            0x001 => {
                self.state.csr.fflags = value as u8 & 0x1f;
                self.fp_dirty();
            }
            0x002 => {
                self.state.csr.frm = value as u8 & 7;
                self.fp_dirty();
            }
            0x003 => {
                self.state.csr.fflags = value as u8 & 0x1f;
                self.state.csr.frm = (value >> 5) as u8 & 7;
                self.fp_dirty();
            }
            0x100 => self.set_mstatus(masked(self.state.csr.mstatus)),
            0x104 => {
                let m = self.state.csr.mideleg;
                self.state.csr.mie = self.state.csr.mie & !m | value & m;
                self.run.recheck = true;
            }
            0x105 => self.state.csr.stvec = masked(self.state.csr.stvec),
            0x10a => {
                self.state.csr.senvcfg =
                    legal_cbie(masked(self.state.csr.senvcfg), self.state.csr.senvcfg)
            }
            0x144 => {
                let m = self.state.csr.mideleg & mask;
                self.state.csr.mip_soft = self.state.csr.mip_soft & !m | value & m;
                self.run.recheck = true;
            }
            0x14d => {
                self.state.csr.stimecmp = value;
                self.update_timer(w);
            }
            0x180 => self.set_satp(value),
            0x300 => {
                let mut v = masked(self.state.csr.mstatus);
                if v >> 11 & 3 == 2 {
                    v = v & !status::MPP | self.state.csr.mstatus & status::MPP;
                }
                self.set_mstatus(v);
            }
            0x305 => self.state.csr.mtvec = masked(self.state.csr.mtvec),
            0x30a => {
                self.state.csr.menvcfg =
                    legal_cbie(masked(self.state.csr.menvcfg), self.state.csr.menvcfg);
                self.update_timer(w);
            }
            0x320 => {
                let v = value & row.mask;
                self.state.csr.mcountinhibit = v;
                self.state.csr.cycle.inhibit(at.cycle, v & 1 != 0);
                self.state
                    .csr
                    .instret
                    .inhibit(at.behind().instret, v & 4 != 0);
                self.inhibit_events(w, at);
            }
            0x323..=0x33f => self.select_event(w, number as usize - 0x323, value & mask, at),
            0x344 => {
                let mut m = mask;
                if self.state.csr.stce() {
                    m &= !irq::STIP;
                }
                self.state.csr.mip_soft = self.state.csr.mip_soft & !m | value & m;
                self.run.recheck = true;
            }
            0x3a0..=0x3af => {
                self.state.pmp.write_cfg(number as usize - 0x3a0, value);
                self.state.pmp_writes += 1;
                self.flush_filters();
            }
            0x3b0..=0x3ef => {
                self.state
                    .pmp
                    .write_addr(number as usize - 0x3b0, value & row.mask);
                self.state.pmp_writes += 1;
                self.flush_filters();
            }
            0x7a0..=0x7a4 => self.set_trigger(number, value),
            // The write takes the place of this instruction's own increment.
            0xb00 => self.state.csr.cycle.write(at.cycle, value),
            0xb02 => self.state.csr.instret.write(at.behind().instret, value),
            0xb03..=0xb1f => self.set_hpm(w, number as usize - 0xb03, value, at),
            _ => {}
        }
    }

    fn set_mstatus(&mut self, v: u64) {
        self.state.csr.mstatus = v;
        self.context_changed();
    }

    pub(crate) fn fp_dirty(&mut self) {
        self.state.csr.mstatus |= status::FS;
    }

    fn set_satp(&mut self, value: u64) {
        let mode = value >> 60;
        // WARL: a write with an unsupported mode has no effect.
        if mode != 0 && mode != 8 {
            return;
        }
        let asid = value >> 44 & ((1 << self.config.asid_bits) - 1);
        let new = mode << 60 | asid << 44 | value & ((1 << 44) - 1);
        if new != self.state.csr.satp {
            self.state.csr.satp = new;
            self.flush_filters();
        }
    }

    pub(crate) fn update_timer<W: World>(&mut self, w: &W) {
        self.state.timer_cycle = if self.state.csr.stce() {
            w.cycle_of_time(self.state.csr.stimecmp)
        } else {
            u64::MAX
        };
        self.run.recheck = true;
    }

    /// One CSR instruction: reads the old value, writes a new one if asked to.
    pub(crate) fn csr_access<W: World>(
        &mut self,
        w: &mut W,
        number: u16,
        raw: u32,
        at: Moment,
        write: Option<CsrWrite>,
    ) -> Result<u64, Trap> {
        self.check_csr(number, write.is_some(), raw)?;
        let old = self.csr_value(w, number, at);
        if let Some(op) = write {
            // A read-modify-write of mip must not latch the external line into the software bit.
            let base = if number == 0x344 {
                old & !irq::SEIP | self.state.csr.mip_soft & irq::SEIP
            } else {
                old
            };
            let new = match op {
                CsrWrite::Put(v) => v,
                CsrWrite::Set(v) => base | v,
                CsrWrite::Clear(v) => base & !v,
            };
            self.set_csr(w, number, new, at);
        }
        Ok(old)
    }
}
