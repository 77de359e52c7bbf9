//! The target description: what registers the harts have, made from the CSR table.

use nagori_isa::csr::CSRS;
use std::fmt::Write;

/// Numbers of registers in the protocol, as GDB has them: x0..x31, pc, f0..f31, CSRs, privilege.
const PC: u32 = 32;
const F0: u32 = 33;
const CSR0: u32 = 65;
const PRIVILEGE: u32 = 4161;

/// A register of a hart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// An integer register.
    X(usize),
    /// The address of the next instruction.
    Pc,
    /// A floating-point register.
    F(usize),
    /// A control and status register.
    Csr(u16),
    /// The privilege, as RISC-V encodes it.
    Privilege,
}

impl Register {
    /// The register with a number of the protocol.
    pub fn numbered(n: u32) -> Option<Register> {
        Some(match n {
            0..PC => Register::X(n as usize),
            PC => Register::Pc,
            F0..CSR0 => Register::F((n - F0) as usize),
            CSR0..PRIVILEGE => Register::Csr(u16::try_from(n - CSR0).ok()?),
            PRIVILEGE => Register::Privilege,
            _ => return None,
        })
    }

    /// Its bytes in the protocol.
    pub fn width(self) -> usize {
        match self {
            Register::Privilege => 1,
            _ => 8,
        }
    }
}
/// CSRs that belong to the floating-point unit: fflags, frm, fcsr.
const FP_CSRS: std::ops::RangeInclusive<u16> = 1..=3;

const X_NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6",
];
const F_NAMES: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2",
    "fa3", "fa4", "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9",
    "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
];

/// The description of harts that have the CSRs for which `exists` says so.
pub fn xml(mut exists: impl FnMut(u16) -> bool) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n\
         <target version=\"1.0\">\n<architecture>riscv:rv64</architecture>\n\
         <feature name=\"org.gnu.gdb.riscv.cpu\">\n",
    );
    // Writing to a string does not fail.
    for (i, name) in (0..).zip(X_NAMES) {
        let kind = match name {
            "ra" => "code_ptr",
            "sp" | "gp" | "tp" | "fp" => "data_ptr",
            _ => "int",
        };
        let _ = reg(&mut out, name, i, &format!("type=\"{kind}\""));
    }
    let _ = reg(&mut out, "pc", PC, "type=\"code_ptr\"");
    let all = CSRS.iter().flat_map(|r| r.first..r.first + r.count);
    let all: Vec<u16> = all.filter(|&n| exists(n)).collect();
    let csr = |out: &mut String, n: u16| {
        let name = nagori_isa::csr::name(n);
        let _ = reg(
            out,
            &name,
            CSR0 + u32::from(n),
            "type=\"int\" group=\"csr\"",
        );
    };
    let (fp, all): (Vec<u16>, Vec<u16>) = all.iter().partition(|n| FP_CSRS.contains(n));
    if !fp.is_empty() {
        out.push_str(
            "</feature>\n<feature name=\"org.gnu.gdb.riscv.fpu\">\n<union id=\"riscv_double\">\
             <field name=\"float\" type=\"ieee_single\"/><field name=\"double\" type=\"ieee_double\"/>\
             </union>\n",
        );
        for (i, name) in (0..).zip(F_NAMES) {
            let _ = reg(&mut out, name, F0 + i, "type=\"riscv_double\"");
        }
        for n in fp {
            csr(&mut out, n);
        }
    }
    out.push_str("</feature>\n<feature name=\"org.gnu.gdb.riscv.csr\">\n");
    for n in all {
        csr(&mut out, n);
    }
    let _ = write!(
        out,
        "</feature>\n<feature name=\"org.gnu.gdb.riscv.virtual\">\n\
         <reg name=\"priv\" bitsize=\"8\" regnum=\"{PRIVILEGE}\" type=\"int\" group=\"general\"/>\n\
         </feature>\n</target>\n"
    );
    out
}

fn reg(out: &mut String, name: &str, number: u32, more: &str) -> std::fmt::Result {
    writeln!(
        out,
        "<reg name=\"{name}\" bitsize=\"64\" regnum=\"{number}\" {more}/>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_is_there_once() {
        let text = xml(|_| true);
        let mut numbers: Vec<&str> = text
            .split("regnum=\"")
            .skip(1)
            .map(|s| s.split('"').next().unwrap())
            .collect();
        let n = numbers.len();
        assert!(n > 32 + 1 + 32 + 100, "{n}");
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), n);
        assert!(text.contains("<reg name=\"satp\" bitsize=\"64\" regnum=\"449\""));
        assert!(!xml(|n| n != 0x14d).contains("stimecmp"));
        assert!(text.contains("gdb.riscv.fpu") && text.contains("\"ft0\""));
        let integer = xml(|n| !FP_CSRS.contains(&n));
        assert!(!integer.contains("gdb.riscv.fpu") && !integer.contains("\"ft0\""));
    }
}
