//! The instruction table: one row per instruction, grouped by extension.
//!
//! Encodings are those of "The RISC-V Instruction Set Manual", volumes I (unprivileged) and II
//! (privileged), for RV64. A row is `Variant "mnemonic" match mask Format;`. A word `w` belongs to
//! a row when `w & mask == match`; if several rows match, the one with more mask bits applies.

use crate::ext::Ext;
use crate::format::Format;

/// The table's entry for one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpInfo {
    /// The instruction.
    pub op: Op,
    /// Mnemonic as an assembler writes it, such as `fcvt.w.s`.
    pub name: &'static str,
    /// Values of the fixed bits; zero outside `mask`.
    pub match_: u32,
    /// Which bits are fixed.
    pub mask: u32,
    /// Operands and where they are encoded.
    pub format: Format,
    /// Extension that defines the instruction.
    pub ext: Ext,
}

macro_rules! ops {
    ($(
        $(#[$section:meta])*
        $ext:ident { $($op:ident $name:literal $match_:literal $mask:literal $format:ident;)* }
    )*) => {
        /// An instruction: the mnemonic in camel case without the dots (`fcvt.w.s` is `FcvtWS`).
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op {
            $($(#[doc = concat!("`", $name, "`")] $op,)*)*
        }

        /// Every instruction as a constant, for checks when a program is compiled.
        pub const ALL: &[Op] = &[$($(Op::$op,)*)*];

        /// Every instruction, in the order of [`Op`].
        pub static OPS: &[OpInfo] = TABLE;

        /// [`OPS`] as a constant, for tables computed from it at compile time.
        pub(crate) const TABLE: &[OpInfo] = &[
            $($(OpInfo {
                op: Op::$op,
                name: $name,
                match_: $match_,
                mask: $mask,
                format: Format::$format,
                ext: Ext::$ext,
            },)*)*
        ];
    };
}

ops! {
    I {
        Lui     "lui"     0x0000_0037 0x0000_007f U;
        Auipc   "auipc"   0x0000_0017 0x0000_007f U;
        Jal     "jal"     0x0000_006f 0x0000_007f J;
        Jalr    "jalr"    0x0000_0067 0x0000_707f Jalr;
        Beq     "beq"     0x0000_0063 0x0000_707f B;
        Bne     "bne"     0x0000_1063 0x0000_707f B;
        Blt     "blt"     0x0000_4063 0x0000_707f B;
        Bge     "bge"     0x0000_5063 0x0000_707f B;
        Bltu    "bltu"    0x0000_6063 0x0000_707f B;
        Bgeu    "bgeu"    0x0000_7063 0x0000_707f B;
        Lb      "lb"      0x0000_0003 0x0000_707f Load;
        Lh      "lh"      0x0000_1003 0x0000_707f Load;
        Lw      "lw"      0x0000_2003 0x0000_707f Load;
        Ld      "ld"      0x0000_3003 0x0000_707f Load;
        Lbu     "lbu"     0x0000_4003 0x0000_707f Load;
        Lhu     "lhu"     0x0000_5003 0x0000_707f Load;
        Lwu     "lwu"     0x0000_6003 0x0000_707f Load;
        Sb      "sb"      0x0000_0023 0x0000_707f Store;
        Sh      "sh"      0x0000_1023 0x0000_707f Store;
        Sw      "sw"      0x0000_2023 0x0000_707f Store;
        Sd      "sd"      0x0000_3023 0x0000_707f Store;
        Addi    "addi"    0x0000_0013 0x0000_707f I;
        Slti    "slti"    0x0000_2013 0x0000_707f I;
        Sltiu   "sltiu"   0x0000_3013 0x0000_707f I;
        Xori    "xori"    0x0000_4013 0x0000_707f I;
        Ori     "ori"     0x0000_6013 0x0000_707f I;
        Andi    "andi"    0x0000_7013 0x0000_707f I;
        Slli    "slli"    0x0000_1013 0xfc00_707f Shift6;
        Srli    "srli"    0x0000_5013 0xfc00_707f Shift6;
        Srai    "srai"    0x4000_5013 0xfc00_707f Shift6;
        Add     "add"     0x0000_0033 0xfe00_707f R;
        Sub     "sub"     0x4000_0033 0xfe00_707f R;
        Sll     "sll"     0x0000_1033 0xfe00_707f R;
        Slt     "slt"     0x0000_2033 0xfe00_707f R;
        Sltu    "sltu"    0x0000_3033 0xfe00_707f R;
        Xor     "xor"     0x0000_4033 0xfe00_707f R;
        Srl     "srl"     0x0000_5033 0xfe00_707f R;
        Sra     "sra"     0x4000_5033 0xfe00_707f R;
        Or      "or"      0x0000_6033 0xfe00_707f R;
        And     "and"     0x0000_7033 0xfe00_707f R;
        Addiw   "addiw"   0x0000_001b 0x0000_707f I;
        Slliw   "slliw"   0x0000_101b 0xfe00_707f Shift5;
        Srliw   "srliw"   0x0000_501b 0xfe00_707f Shift5;
        Sraiw   "sraiw"   0x4000_501b 0xfe00_707f Shift5;
        Addw    "addw"    0x0000_003b 0xfe00_707f R;
        Subw    "subw"    0x4000_003b 0xfe00_707f R;
        Sllw    "sllw"    0x0000_103b 0xfe00_707f R;
        Srlw    "srlw"    0x0000_503b 0xfe00_707f R;
        Sraw    "sraw"    0x4000_503b 0xfe00_707f R;
        Fence   "fence"   0x0000_000f 0x0000_707f Fence;
        Ecall   "ecall"   0x0000_0073 0xffff_ffff None;
        Ebreak  "ebreak"  0x0010_0073 0xffff_ffff None;
    }
    Zifencei {
        // The other fields are reserved for finer fences; implementations must ignore them.
        FenceI  "fence.i" 0x0000_100f 0x0000_707f FenceI;
    }
    Zicsr {
        Csrrw   "csrrw"   0x0000_1073 0x0000_707f Csr;
        Csrrs   "csrrs"   0x0000_2073 0x0000_707f Csr;
        Csrrc   "csrrc"   0x0000_3073 0x0000_707f Csr;
        Csrrwi  "csrrwi"  0x0000_5073 0x0000_707f CsrImm;
        Csrrsi  "csrrsi"  0x0000_6073 0x0000_707f CsrImm;
        Csrrci  "csrrci"  0x0000_7073 0x0000_707f CsrImm;
    }
    M {
        Mul     "mul"     0x0200_0033 0xfe00_707f R;
        Mulh    "mulh"    0x0200_1033 0xfe00_707f R;
        Mulhsu  "mulhsu"  0x0200_2033 0xfe00_707f R;
        Mulhu   "mulhu"   0x0200_3033 0xfe00_707f R;
        Div     "div"     0x0200_4033 0xfe00_707f R;
        Divu    "divu"    0x0200_5033 0xfe00_707f R;
        Rem     "rem"     0x0200_6033 0xfe00_707f R;
        Remu    "remu"    0x0200_7033 0xfe00_707f R;
        Mulw    "mulw"    0x0200_003b 0xfe00_707f R;
        Divw    "divw"    0x0200_403b 0xfe00_707f R;
        Divuw   "divuw"   0x0200_503b 0xfe00_707f R;
        Remw    "remw"    0x0200_603b 0xfe00_707f R;
        Remuw   "remuw"   0x0200_703b 0xfe00_707f R;
    }
    A {
        LrW      "lr.w"      0x1000_202f 0xf9f0_707f LoadReserved;
        ScW      "sc.w"      0x1800_202f 0xf800_707f Amo;
        AmoswapW "amoswap.w" 0x0800_202f 0xf800_707f Amo;
        AmoaddW  "amoadd.w"  0x0000_202f 0xf800_707f Amo;
        AmoxorW  "amoxor.w"  0x2000_202f 0xf800_707f Amo;
        AmoandW  "amoand.w"  0x6000_202f 0xf800_707f Amo;
        AmoorW   "amoor.w"   0x4000_202f 0xf800_707f Amo;
        AmominW  "amomin.w"  0x8000_202f 0xf800_707f Amo;
        AmomaxW  "amomax.w"  0xa000_202f 0xf800_707f Amo;
        AmominuW "amominu.w" 0xc000_202f 0xf800_707f Amo;
        AmomaxuW "amomaxu.w" 0xe000_202f 0xf800_707f Amo;
        LrD      "lr.d"      0x1000_302f 0xf9f0_707f LoadReserved;
        ScD      "sc.d"      0x1800_302f 0xf800_707f Amo;
        AmoswapD "amoswap.d" 0x0800_302f 0xf800_707f Amo;
        AmoaddD  "amoadd.d"  0x0000_302f 0xf800_707f Amo;
        AmoxorD  "amoxor.d"  0x2000_302f 0xf800_707f Amo;
        AmoandD  "amoand.d"  0x6000_302f 0xf800_707f Amo;
        AmoorD   "amoor.d"   0x4000_302f 0xf800_707f Amo;
        AmominD  "amomin.d"  0x8000_302f 0xf800_707f Amo;
        AmomaxD  "amomax.d"  0xa000_302f 0xf800_707f Amo;
        AmominuD "amominu.d" 0xc000_302f 0xf800_707f Amo;
        AmomaxuD "amomaxu.d" 0xe000_302f 0xf800_707f Amo;
    }
    F {
        Flw     "flw"       0x0000_2007 0x0000_707f FpLoad;
        Fsw     "fsw"       0x0000_2027 0x0000_707f FpStore;
        FmaddS  "fmadd.s"   0x0000_0043 0x0600_007f FpFma;
        FmsubS  "fmsub.s"   0x0000_0047 0x0600_007f FpFma;
        FnmsubS "fnmsub.s"  0x0000_004b 0x0600_007f FpFma;
        FnmaddS "fnmadd.s"  0x0000_004f 0x0600_007f FpFma;
        FaddS   "fadd.s"    0x0000_0053 0xfe00_007f FpArith;
        FsubS   "fsub.s"    0x0800_0053 0xfe00_007f FpArith;
        FmulS   "fmul.s"    0x1000_0053 0xfe00_007f FpArith;
        FdivS   "fdiv.s"    0x1800_0053 0xfe00_007f FpArith;
        FsqrtS  "fsqrt.s"   0x5800_0053 0xfff0_007f FpUnary;
        FsgnjS  "fsgnj.s"   0x2000_0053 0xfe00_707f FpPair;
        FsgnjnS "fsgnjn.s"  0x2000_1053 0xfe00_707f FpPair;
        FsgnjxS "fsgnjx.s"  0x2000_2053 0xfe00_707f FpPair;
        FminS   "fmin.s"    0x2800_0053 0xfe00_707f FpPair;
        FmaxS   "fmax.s"    0x2800_1053 0xfe00_707f FpPair;
        FcvtWS  "fcvt.w.s"  0xc000_0053 0xfff0_007f FpToInt;
        FcvtWuS "fcvt.wu.s" 0xc010_0053 0xfff0_007f FpToInt;
        FcvtLS  "fcvt.l.s"  0xc020_0053 0xfff0_007f FpToInt;
        FcvtLuS "fcvt.lu.s" 0xc030_0053 0xfff0_007f FpToInt;
        FmvXW   "fmv.x.w"   0xe000_0053 0xfff0_707f FpMoveToInt;
        FeqS    "feq.s"     0xa000_2053 0xfe00_707f FpCompare;
        FltS    "flt.s"     0xa000_1053 0xfe00_707f FpCompare;
        FleS    "fle.s"     0xa000_0053 0xfe00_707f FpCompare;
        FclassS "fclass.s"  0xe000_1053 0xfff0_707f FpMoveToInt;
        FcvtSW  "fcvt.s.w"  0xd000_0053 0xfff0_007f FpFromInt;
        FcvtSWu "fcvt.s.wu" 0xd010_0053 0xfff0_007f FpFromInt;
        FcvtSL  "fcvt.s.l"  0xd020_0053 0xfff0_007f FpFromInt;
        FcvtSLu "fcvt.s.lu" 0xd030_0053 0xfff0_007f FpFromInt;
        FmvWX   "fmv.w.x"   0xf000_0053 0xfff0_707f FpMoveFromInt;
    }
    D {
        Fld     "fld"       0x0000_3007 0x0000_707f FpLoad;
        Fsd     "fsd"       0x0000_3027 0x0000_707f FpStore;
        FmaddD  "fmadd.d"   0x0200_0043 0x0600_007f FpFma;
        FmsubD  "fmsub.d"   0x0200_0047 0x0600_007f FpFma;
        FnmsubD "fnmsub.d"  0x0200_004b 0x0600_007f FpFma;
        FnmaddD "fnmadd.d"  0x0200_004f 0x0600_007f FpFma;
        FaddD   "fadd.d"    0x0200_0053 0xfe00_007f FpArith;
        FsubD   "fsub.d"    0x0a00_0053 0xfe00_007f FpArith;
        FmulD   "fmul.d"    0x1200_0053 0xfe00_007f FpArith;
        FdivD   "fdiv.d"    0x1a00_0053 0xfe00_007f FpArith;
        FsqrtD  "fsqrt.d"   0x5a00_0053 0xfff0_007f FpUnary;
        FsgnjD  "fsgnj.d"   0x2200_0053 0xfe00_707f FpPair;
        FsgnjnD "fsgnjn.d"  0x2200_1053 0xfe00_707f FpPair;
        FsgnjxD "fsgnjx.d"  0x2200_2053 0xfe00_707f FpPair;
        FminD   "fmin.d"    0x2a00_0053 0xfe00_707f FpPair;
        FmaxD   "fmax.d"    0x2a00_1053 0xfe00_707f FpPair;
        FcvtSD  "fcvt.s.d"  0x4010_0053 0xfff0_007f FpUnary;
        FcvtDS  "fcvt.d.s"  0x4200_0053 0xfff0_007f FpUnary;
        FcvtWD  "fcvt.w.d"  0xc200_0053 0xfff0_007f FpToInt;
        FcvtWuD "fcvt.wu.d" 0xc210_0053 0xfff0_007f FpToInt;
        FcvtLD  "fcvt.l.d"  0xc220_0053 0xfff0_007f FpToInt;
        FcvtLuD "fcvt.lu.d" 0xc230_0053 0xfff0_007f FpToInt;
        FmvXD   "fmv.x.d"   0xe200_0053 0xfff0_707f FpMoveToInt;
        FeqD    "feq.d"     0xa200_2053 0xfe00_707f FpCompare;
        FltD    "flt.d"     0xa200_1053 0xfe00_707f FpCompare;
        FleD    "fle.d"     0xa200_0053 0xfe00_707f FpCompare;
        FclassD "fclass.d"  0xe200_1053 0xfff0_707f FpMoveToInt;
        FcvtDW  "fcvt.d.w"  0xd200_0053 0xfff0_007f FpFromInt;
        FcvtDWu "fcvt.d.wu" 0xd210_0053 0xfff0_007f FpFromInt;
        FcvtDL  "fcvt.d.l"  0xd220_0053 0xfff0_007f FpFromInt;
        FcvtDLu "fcvt.d.lu" 0xd230_0053 0xfff0_007f FpFromInt;
        FmvDX   "fmv.d.x"   0xf200_0053 0xfff0_707f FpMoveFromInt;
    }
    Priv {
        Mret      "mret"       0x3020_0073 0xffff_ffff None;
        Sret      "sret"       0x1020_0073 0xffff_ffff None;
        Wfi       "wfi"        0x1050_0073 0xffff_ffff None;
        SfenceVma "sfence.vma" 0x1200_0073 0xfe00_7fff Sfence;
    }
    Zicbom {
        CboInval "cbo.inval" 0x0000_200f 0xfff0_7fff Cbo;
        CboClean "cbo.clean" 0x0010_200f 0xfff0_7fff Cbo;
        CboFlush "cbo.flush" 0x0020_200f 0xfff0_7fff Cbo;
    }
    Zicboz {
        CboZero  "cbo.zero"  0x0040_200f 0xfff0_7fff Cbo;
    }
    // Hints in the space of `ori x0, ...`; a hart without the extension runs them as that.
    Zicbop {
        PrefetchI "prefetch.i" 0x0000_6013 0x01f0_7fff Prefetch;
        PrefetchR "prefetch.r" 0x0010_6013 0x01f0_7fff Prefetch;
        PrefetchW "prefetch.w" 0x0030_6013 0x01f0_7fff Prefetch;
    }
    // A `fence` with predecessor set W and an empty successor set.
    Zihintpause {
        Pause    "pause"     0x0100_000f 0xffff_ffff None;
    }
    // `add x0, x0, x2` to `add x0, x0, x5`.
    Zihintntl {
        NtlP1    "ntl.p1"    0x0020_0033 0xffff_ffff None;
        NtlPall  "ntl.pall"  0x0030_0033 0xffff_ffff None;
        NtlS1    "ntl.s1"    0x0040_0033 0xffff_ffff None;
        NtlAll   "ntl.all"   0x0050_0033 0xffff_ffff None;
    }
    Zicond {
        CzeroEqz "czero.eqz" 0x0e00_5033 0xfe00_707f R;
        CzeroNez "czero.nez" 0x0e00_7033 0xfe00_707f R;
    }
    // `rd` is compared and replaced; the pair of `amocas.q` begins at an even register each.
    Zacas {
        AmocasW "amocas.w" 0x2800_202f 0xf800_707f Cas;
        AmocasD "amocas.d" 0x2800_302f 0xf800_707f Cas;
        AmocasQ "amocas.q" 0x2800_402f 0xf810_70ff CasPair;
    }
    Zba {
        AddUw    "add.uw"    0x0800_003b 0xfe00_707f R;
        Sh1add   "sh1add"    0x2000_2033 0xfe00_707f R;
        Sh1addUw "sh1add.uw" 0x2000_203b 0xfe00_707f R;
        Sh2add   "sh2add"    0x2000_4033 0xfe00_707f R;
        Sh2addUw "sh2add.uw" 0x2000_403b 0xfe00_707f R;
        Sh3add   "sh3add"    0x2000_6033 0xfe00_707f R;
        Sh3addUw "sh3add.uw" 0x2000_603b 0xfe00_707f R;
        SlliUw   "slli.uw"   0x0800_101b 0xfc00_707f Shift6;
    }
    Zbb {
        Andn  "andn"   0x4000_7033 0xfe00_707f R;
        Orn   "orn"    0x4000_6033 0xfe00_707f R;
        Xnor  "xnor"   0x4000_4033 0xfe00_707f R;
        Clz   "clz"    0x6000_1013 0xfff0_707f Unary;
        Clzw  "clzw"   0x6000_101b 0xfff0_707f Unary;
        Ctz   "ctz"    0x6010_1013 0xfff0_707f Unary;
        Ctzw  "ctzw"   0x6010_101b 0xfff0_707f Unary;
        Cpop  "cpop"   0x6020_1013 0xfff0_707f Unary;
        Cpopw "cpopw"  0x6020_101b 0xfff0_707f Unary;
        Max   "max"    0x0a00_6033 0xfe00_707f R;
        Maxu  "maxu"   0x0a00_7033 0xfe00_707f R;
        Min   "min"    0x0a00_4033 0xfe00_707f R;
        Minu  "minu"   0x0a00_5033 0xfe00_707f R;
        SextB "sext.b" 0x6040_1013 0xfff0_707f Unary;
        SextH "sext.h" 0x6050_1013 0xfff0_707f Unary;
        ZextH "zext.h" 0x0800_403b 0xfff0_707f Unary;
        Rol   "rol"    0x6000_1033 0xfe00_707f R;
        Rolw  "rolw"   0x6000_103b 0xfe00_707f R;
        Ror   "ror"    0x6000_5033 0xfe00_707f R;
        Rori  "rori"   0x6000_5013 0xfc00_707f Shift6;
        Roriw "roriw"  0x6000_501b 0xfe00_707f Shift5;
        Rorw  "rorw"   0x6000_503b 0xfe00_707f R;
        OrcB  "orc.b"  0x2870_5013 0xfff0_707f Unary;
        Rev8  "rev8"   0x6b80_5013 0xfff0_707f Unary;
    }
    Zbs {
        Bclr  "bclr"  0x4800_1033 0xfe00_707f R;
        Bclri "bclri" 0x4800_1013 0xfc00_707f Shift6;
        Bext  "bext"  0x4800_5033 0xfe00_707f R;
        Bexti "bexti" 0x4800_5013 0xfc00_707f Shift6;
        Binv  "binv"  0x6800_1033 0xfe00_707f R;
        Binvi "binvi" 0x6800_1013 0xfc00_707f Shift6;
        Bset  "bset"  0x2800_1033 0xfe00_707f R;
        Bseti "bseti" 0x2800_1013 0xfc00_707f Shift6;
    }
    // rs1 = x0: the whole cache; otherwise the line holding the virtual address in rs1.
    // The first form is for machine mode only, the second for every mode.
    Xcflush {
        CflushDL1  "cflush.d.l1"   0xfc00_0073 0xfff0_7fff Cflush;
        CflushDL1U "cflush.d.l1.u" 0xcc00_0073 0xfff0_7fff Cflush;
    }
    // `slti x0, rs1, 0x4e0 + n`, in the hint space that the unprivileged manual designates for
    // custom use ("no standard HINTs will ever be defined"): a no-op on every other hart.
    Xmark {
        MarkRoiBegin   "mark.roi.begin"   0x4e00_2013 0xfff0_7fff Mark;
        MarkRoiEnd     "mark.roi.end"     0x4e10_2013 0xfff0_7fff Mark;
        MarkStatsReset "mark.stats.reset" 0x4e20_2013 0xfff0_7fff Mark;
        MarkStatsDump  "mark.stats.dump"  0x4e30_2013 0xfff0_7fff Mark;
        MarkMethod     "mark.method"      0x4e40_2013 0xfff0_7fff Mark;
        MarkLabel      "mark.label"       0x4e50_2013 0xfff0_7fff Mark;
        MarkSnapshot   "mark.snapshot"    0x4e60_2013 0xfff0_7fff Mark;
        MarkStop       "mark.stop"        0x4e70_2013 0xfff0_7fff Mark;
    }
}

impl Op {
    /// The row of the table.
    pub const fn info(self) -> &'static OpInfo {
        &OPS[self as usize]
    }

    /// The mnemonic, such as `fcvt.w.s`.
    pub fn name(self) -> &'static str {
        self.info().name
    }
}
