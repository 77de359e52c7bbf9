//! Disassembly.

use crate::csr;
use crate::format::Format;
use crate::inst::Inst;
use crate::reg::{f_name, x_name};

/// Last operand of rounding instructions; 5 and 6 are reserved, 7 (dynamic) is not shown.
const ROUNDING: [&str; 8] = [",rne", ",rtz", ",rdn", ",rup", ",rmm", ",rm5", ",rm6", ""];

/// Immediate of `fence.tso`: fm = 8, both sets rw.
const FENCE_TSO: i32 = 0x833;

/// Name of an integer register, or `x?` where the number is out of range.
fn x(n: u8) -> &'static str {
    x_name(n).unwrap_or("x?")
}

/// Name of a floating-point register, or `f?` where the number is out of range.
fn f(n: u8) -> &'static str {
    f_name(n).unwrap_or("f?")
}

/// Text of an instruction at address `pc`: the mnemonic, a space, operands separated by commas.
///
/// Registers have their names of the calling convention, branch and jump targets are absolute
/// addresses. No aliases are used (`addi a0,zero,1`, never `li a0,1`), and compressed instructions
/// are shown as the base instruction they stand for.
pub fn disassemble(inst: &Inst, pc: u64) -> String {
    let info = inst.op.info();
    let mut name = info.name.to_string();
    if matches!(
        info.format,
        Format::Amo | Format::Cas | Format::CasPair | Format::LoadReserved
    ) {
        name.push_str(["", ".rl", ".aq", ".aqrl"][usize::from(inst.rm & 3)]);
    }
    if info.format == Format::Fence && inst.imm == FENCE_TSO {
        return "fence.tso".to_string();
    }
    let operands = operands(inst, info.format, pc);
    if operands.is_empty() {
        name
    } else {
        format!("{name} {operands}")
    }
}

fn operands(inst: &Inst, format: Format, pc: u64) -> String {
    let &Inst {
        rd,
        rs1,
        rs2,
        rs3,
        imm,
        ..
    } = inst;
    let rm = ROUNDING[usize::from(inst.rm & 7)];
    let target = || pc.wrapping_add(i64::from(imm) as u64);
    match format {
        Format::None | Format::FenceI => String::new(),
        Format::R => format!("{},{},{}", x(rd), x(rs1), x(rs2)),
        Format::I => format!("{},{},{imm}", x(rd), x(rs1)),
        Format::Jalr | Format::Load => format!("{},{imm}({})", x(rd), x(rs1)),
        Format::Store => format!("{},{imm}({})", x(rs2), x(rs1)),
        Format::B => format!("{},{},{:#x}", x(rs1), x(rs2), target()),
        Format::U => format!("{},{:#x}", x(rd), imm as u32 >> 12),
        Format::J => format!("{},{:#x}", x(rd), target()),
        Format::Shift6 | Format::Shift5 => format!("{},{},{imm:#x}", x(rd), x(rs1)),
        Format::Fence => fence(imm),
        Format::Csr => format!("{},{},{}", x(rd), csr::name(imm as u16), x(rs1)),
        Format::CsrImm => format!("{},{},{rs1}", x(rd), csr::name(imm as u16)),
        Format::Unary => format!("{},{}", x(rd), x(rs1)),
        Format::Amo | Format::Cas | Format::CasPair => {
            format!("{},{},({})", x(rd), x(rs2), x(rs1))
        }
        Format::LoadReserved => format!("{},({})", x(rd), x(rs1)),
        Format::FpLoad => format!("{},{imm}({})", f(rd), x(rs1)),
        Format::FpStore => format!("{},{imm}({})", f(rs2), x(rs1)),
        Format::FpFma => format!("{},{},{},{}{rm}", f(rd), f(rs1), f(rs2), f(rs3)),
        Format::FpArith => format!("{},{},{}{rm}", f(rd), f(rs1), f(rs2)),
        Format::FpUnary => format!("{},{}{rm}", f(rd), f(rs1)),
        Format::FpPair => format!("{},{},{}", f(rd), f(rs1), f(rs2)),
        Format::FpCompare => format!("{},{},{}", x(rd), f(rs1), f(rs2)),
        Format::FpToInt => format!("{},{}{rm}", x(rd), f(rs1)),
        Format::FpFromInt => format!("{},{}{rm}", f(rd), x(rs1)),
        Format::FpMoveToInt => format!("{},{}", x(rd), f(rs1)),
        Format::FpMoveFromInt => format!("{},{}", f(rd), x(rs1)),
        Format::Sfence => format!("{},{}", x(rs1), x(rs2)),
        Format::Cbo => format!("({})", x(rs1)),
        Format::Prefetch => format!("{imm}({})", x(rs1)),
        Format::Cflush | Format::Mark => x(rs1).to_string(),
    }
}

/// Operands of a `fence`: predecessor and successor set, after a reserved mode if there is one.
fn fence(imm: i32) -> String {
    let set = |bits: i32| {
        let letters: String = "iorw"
            .chars()
            .zip([8, 4, 2, 1])
            .filter(|&(_, bit)| bits & bit != 0)
            .map(|(letter, _)| letter)
            .collect();
        if letters.is_empty() {
            "0".to_string()
        } else {
            letters
        }
    };
    let sets = format!("{},{}", set(imm >> 4), set(imm));
    match imm >> 8 & 15 {
        0 => sets,
        mode => format!("fm{mode},{sets}"),
    }
}
