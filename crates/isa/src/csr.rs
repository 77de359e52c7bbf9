//! The CSR table: number, name, write mask, reset value, whether the hart needs a
//! handler, and the extension it belongs to. Privilege and read-only status follow
//! from the number (privileged specification, 20211203, section 2.1).
//!
//! A row may stand for a run of registers (`count` > 1), such as `pmpaddr0..15`.

use crate::ext::Ext;

/// What reading and writing a CSR does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CsrKind {
    /// Storage only: `new = old & !mask | value & mask`.
    Plain,
    /// Reads as its reset value; writes are ignored (WARL fixed).
    Fixed,
    /// The hart has a handler (a view, a counter, a side effect).
    Handler,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct CsrRow {
    /// First CSR number of the run.
    pub first: u16,
    /// Length of the run; names of a run get the index, from `index0`, appended.
    pub count: u16,
    /// Index of the first register in its name (`mhpmcounter3`).
    pub index0: u16,
    /// Name, without the index for a run.
    pub name: &'static str,
    /// Writable bits.
    pub mask: u64,
    /// Value at reset.
    pub reset: u64,
    /// Storage or behaviour.
    pub kind: CsrKind,
    /// Extension without which the register does not exist.
    pub ext: Ext,
}

use CsrKind::{Fixed, Handler, Plain};

const fn one(first: u16, name: &'static str, mask: u64, reset: u64, kind: CsrKind) -> CsrRow {
    CsrRow {
        first,
        count: 1,
        index0: 0,
        name,
        mask,
        reset,
        kind,
        ext: Ext::Priv,
    }
}
const fn run(
    first: u16,
    count: u16,
    index0: u16,
    name: &'static str,
    mask: u64,
    kind: CsrKind,
) -> CsrRow {
    CsrRow {
        first,
        count,
        index0,
        name,
        mask,
        reset: 0,
        kind,
        ext: Ext::Priv,
    }
}

impl CsrRow {
    const fn of(mut self, ext: Ext) -> CsrRow {
        self.ext = ext;
        self
    }
}

/// Bits of `mstatus` that software can write: SIE MIE SPIE MPIE SPP MPP FS MPRV SUM MXR TVM TW TSR.
pub const MSTATUS_MASK: u64 = 0x007e_79aa;
/// Bits of `mstatus` that `sstatus` shows for writing: SIE SPIE SPP FS SUM MXR.
pub const SSTATUS_MASK: u64 = 0x000c_6122;
/// The interrupt of overflown counters, where there is Sscofpmf.
pub const LCOFI: u64 = 1 << 13;
/// Interrupts that exist: SSIP MSIP STIP MTIP SEIP MEIP LCOFIP.
pub const MIE_MASK: u64 = 0xaaa | LCOFI;
/// Interrupts that can be delegated to S.
pub const MIDELEG_MASK: u64 = 0x222 | LCOFI;
/// Bits of `mhpmevent` that Sscofpmf defines, as far as there are such modes: OF MINH SINH UINH.
pub const MHPMEVENT_MASK: u64 = 15 << 60;
/// Bits of `mhpmevent` that select an event.
const EVENT_CODE: u64 = 0xffff;
/// Exceptions that can be delegated: all but ecall from M (11), and reserved ones.
pub const MEDELEG_MASK: u64 = 0xb3ff;
/// `menvcfg`.ADUE: hardware sets A and D bits, where there is Svadu.
pub const ADUE: u64 = 1 << 61;
/// `menvcfg`: FIOM, CBIE, CBCFE, CBZE, ADUE, STCE.
pub const MENVCFG_MASK: u64 = (1 << 63) | ADUE | 0xf1;
/// `senvcfg`: FIOM, CBIE, CBCFE, CBZE.
pub const SENVCFG_MASK: u64 = 0xf1;

/// Every CSR of the machine, in order of number.
pub static CSRS: &[CsrRow] = &[
    one(0x001, "fflags", 0x1f, 0, Handler).of(Ext::F),
    one(0x002, "frm", 0x7, 0, Handler).of(Ext::F),
    one(0x003, "fcsr", 0xff, 0, Handler).of(Ext::F),
    one(0x100, "sstatus", SSTATUS_MASK, 0, Handler),
    one(0x104, "sie", MIE_MASK, 0, Handler),
    one(0x105, "stvec", !2, 0, Handler),
    one(0x106, "scounteren", 0xffff_ffff, 0, Plain),
    one(0x10a, "senvcfg", SENVCFG_MASK, 0, Handler),
    one(0x140, "sscratch", !0, 0, Plain),
    one(0x141, "sepc", !1, 0, Plain),
    one(0x142, "scause", !0, 0, Plain),
    one(0x143, "stval", !0, 0, Plain),
    one(0x144, "sip", 0x2 | LCOFI, 0, Handler),
    one(0x14d, "stimecmp", !0, !0, Handler).of(Ext::Sstc),
    one(0x180, "satp", !0, 0, Handler),
    one(0x300, "mstatus", MSTATUS_MASK, 0, Handler),
    one(0x301, "misa", 0, 0, Handler),
    one(0x302, "medeleg", MEDELEG_MASK, 0, Plain),
    one(0x303, "mideleg", MIDELEG_MASK, 0, Plain),
    one(0x304, "mie", MIE_MASK, 0, Plain),
    one(0x305, "mtvec", !2, 0, Handler),
    one(0x306, "mcounteren", 0xffff_ffff, 0, Plain),
    one(0x30a, "menvcfg", MENVCFG_MASK, 0, Handler),
    one(0x320, "mcountinhibit", 0xffff_fffd, 0, Handler),
    run(
        0x323,
        29,
        3,
        "mhpmevent",
        MHPMEVENT_MASK | EVENT_CODE,
        Handler,
    ),
    one(0x340, "mscratch", !0, 0, Plain),
    one(0x341, "mepc", !1, 0, Plain),
    one(0x342, "mcause", !0, 0, Plain),
    one(0x343, "mtval", !0, 0, Plain),
    one(0x344, "mip", 0x222 | LCOFI, 0, Handler),
    run(0x3a0, 16, 0, "pmpcfg", !0, Handler),
    run(0x3b0, 64, 0, "pmpaddr", (1 << 54) - 1, Handler),
    one(0x7a0, "tselect", !0, 0, Handler),
    one(0x7a1, "tdata1", !0, 15 << 60, Handler),
    one(0x7a2, "tdata2", !0, 0, Handler),
    one(0x7a3, "tdata3", 0, 0, Handler),
    one(0x7a4, "tinfo", 0, 0, Handler),
    one(0xb00, "mcycle", !0, 0, Handler),
    one(0xb02, "minstret", !0, 0, Handler),
    run(0xb03, 29, 3, "mhpmcounter", !0, Handler),
    one(0xc00, "cycle", 0, 0, Handler).of(Ext::Zicntr),
    one(0xc01, "time", 0, 0, Handler).of(Ext::Zicntr),
    one(0xc02, "instret", 0, 0, Handler).of(Ext::Zicntr),
    run(0xc03, 29, 3, "hpmcounter", 0, Handler).of(Ext::Zihpm),
    one(0xda0, "scountovf", 0, 0, Handler).of(Ext::Sscofpmf),
    one(0xf11, "mvendorid", 0, 0, Fixed),
    one(0xf12, "marchid", 0, 0, Fixed),
    one(0xf13, "mimpid", 0, 0, Fixed),
    one(0xf14, "mhartid", 0, 0, Handler),
    one(0xf15, "mconfigptr", 0, 0, Fixed),
];

/// The row of a CSR number, if the register exists.
pub fn lookup(number: u16) -> Option<&'static CsrRow> {
    let i = CSRS.partition_point(|r| r.first + r.count <= number);
    CSRS.get(i).filter(|r| r.first <= number)
}

/// Lowest privilege (0 U, 1 S, 3 M) that may touch the register.
pub fn privilege(number: u16) -> u8 {
    ((number >> 8) & 3) as u8
}

/// Whether the number lies in a read-only range.
pub fn read_only(number: u16) -> bool {
    number >> 10 == 3
}

/// Name of a CSR, with its index in a run (`pmpaddr3`), or its number in hex.
pub fn name(number: u16) -> String {
    match lookup(number) {
        Some(r) if r.count > 1 => format!("{}{}", r.name, r.index0 + number - r.first),
        Some(r) => r.name.to_string(),
        None => format!("{number:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_disjoint() {
        for w in CSRS.windows(2) {
            assert!(
                w[0].first + w[0].count <= w[1].first,
                "{} {}",
                w[0].name,
                w[1].name
            );
        }
    }

    #[test]
    fn names_of_runs_carry_their_index() {
        assert_eq!(name(0x3b3), "pmpaddr3");
        assert_eq!(name(0xb03), "mhpmcounter3");
        assert_eq!(name(0xc1f), "hpmcounter31");
        assert_eq!(name(0x180), "satp");
        assert_eq!(name(0x7c0), "0x7c0");
        assert!(lookup(0xb01).is_none());
        assert!(lookup(0x3ef).is_some() && lookup(0x3f0).is_none());
    }

    #[test]
    fn read_only_registers_have_no_writable_bits() {
        for r in CSRS {
            if read_only(r.first) {
                assert_eq!(r.mask, 0, "{}", r.name);
            }
        }
    }
}
