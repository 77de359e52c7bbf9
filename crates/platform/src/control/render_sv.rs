//! The register map as SystemVerilog, from the same table: a package of constants, and the decoder
//! of the controller that is described in `docs/rtl.md`.

use super::render::{arrays, values};
use super::table::*;
use super::{MAGIC, VERSION};
use std::fmt::Write;

/// What the hardware makes of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InHardware {
    /// It works as in the machine.
    Yes,
    /// It belongs to the emulator: it reads as zero, and writes are rejected with
    /// [`ControlError::State`](super::ControlError::State).
    No,
}

/// Whether the controller in hardware has a register.
pub fn in_hardware(reg: Fixed) -> InHardware {
    match reg {
        Fixed::WarmUp
        | Fixed::HostRequest
        | Fixed::SpaceName
        | Fixed::LabelText
        | Fixed::MemorySet => InHardware::No,
        reg if reg.is_iomap() => InHardware::No,
        _ => InHardware::Yes,
    }
}

const NOTE: &str =
    "// Generated from the register table of crates/platform; do not edit (NAGORI_BLESS=1 writes it).\n";

/// `rtl/nvmm_regs_pkg.sv`.
pub fn sv_package() -> String {
    let mut out = format!(
        "{NOTE}// Offsets and values of the control block; docs/registers.md has their meanings.\n\
         // No design uses all of them.\n\
         /* verilator lint_off UNUSEDPARAM */\n\
         package nvmm_regs_pkg;\n"
    );
    let o = &mut out;
    let mut put = |width: u32, name: &str, value: u64| {
        // Writing to a string does not fail.
        let _ = writeln!(
            o,
            "  localparam logic [{}:0] {name} = {width}'h{value:x};",
            width - 1
        );
    };
    put(64, "ID", MAGIC);
    put(64, "VERSION", VERSION);
    for r in FIXED {
        put(16, &format!("CTL_{}", r.name), r.offset);
    }
    for (name, base, stride, count, _) in arrays() {
        put(16, &format!("CTL_{name}_BASE"), base);
        put(16, &format!("CTL_{name}_STRIDE"), stride);
        put(16, &format!("CTL_{name}_COUNT"), count);
    }
    for r in MEM_STATS {
        put(8, &format!("MEM_{}", r.name), r.offset);
    }
    for (name, number, _) in values() {
        put(64, &name, number);
    }
    out.push_str("endpackage\n");
    out
}

/// `rtl/nvmm_regs_decode.sv`.
pub fn sv_decoder() -> String {
    let mut out = format!(
        "{NOTE}// What an offset in the control block is.\n\
         module nvmm_regs_decode (\n\
         \x20   input logic [15:0] offset,      // A multiple of 8.\n\
         \x20   output logic known,             // There is a register.\n\
         \x20   output logic writable,\n\
         \x20   output logic in_hardware,       // Not one of those that belong to the emulator.\n\
         \x20   output logic is_region,         // Statistics of region `number`.\n\
         \x20   output logic is_bank,           // Statistics of bank `number`.\n\
         \x20   output logic [3:0] number\n\
         );\n\
         \x20 logic is_stat;\n\
         \x20 assign number = offset[11:8];\n\
         \x20 always_comb begin\n\
         \x20   is_stat = 1'b0;\n\
         \x20   case (offset[7:0])\n"
    );
    let o = &mut out;
    let names = |prefix: &str, rows: &[(&str, u64)]| -> String {
        let all: Vec<String> = rows
            .iter()
            .map(|(name, at)| format!("      8'h{at:02x} /* {prefix}{name} */"))
            .collect();
        all.join(",\n")
    };
    let mem: Vec<_> = MEM_STATS.iter().map(|r| (r.name, r.offset)).collect();
    let _ = writeln!(o, "{}: is_stat = 1'b1;", names("MEM_", &mem));
    o.push_str("      default: is_stat = 1'b0;\n    endcase\n  end\n");
    let hart: Vec<_> = HART_STATS.iter().map(|r| (r.name, r.offset)).collect();
    o.push_str("  logic is_hart_stat;\n  always_comb begin\n    case (offset[7:0])\n");
    let _ = writeln!(o, "{}: is_hart_stat = 1'b1;", names("HART_", &hart));
    o.push_str("      default: is_hart_stat = 1'b0;\n    endcase\n  end\n");
    let inside = |base: u64, stride: u64, count: u64| {
        let end = base + stride * count;
        format!("offset >= 16'h{base:x} && offset < 16'h{end:x}")
    };
    let _ = writeln!(
        o,
        "  assign is_region = is_stat && {};",
        inside(REGION_BASE, STRIDE, 2)
    );
    let _ = writeln!(
        o,
        "  assign is_bank = is_stat && {};",
        inside(BANK_BASE, STRIDE, MAX_BANKS)
    );
    let _ = writeln!(
        o,
        "  logic is_hart, is_latency;\n  assign is_hart = is_hart_stat && {};",
        inside(HART_BASE, STRIDE, HARTS)
    );
    let first = LATENCY_FIRST_BUCKET;
    let end = first + 8 * LATENCY_BUCKETS;
    let _ = writeln!(
        o,
        "  assign is_latency = {}\n      && (offset[8:0] == 9'h{LATENCY_COUNT:x} || offset[8:0] == \
            9'h{LATENCY_SUM:x}\n          || ({{1'b0, offset[8:0]}} >= 10'h{first:x} && \
            {{1'b0, offset[8:0]}} < 10'h{end:x}));",
        inside(LATENCY_BASE, LATENCY_STRIDE, 4)
    );
    o.push_str(
        "  always_comb begin\n    known = is_region || is_bank || is_hart || is_latency;\n    writable = 1'b0;\n    \
            in_hardware = 1'b1;\n    case (offset)\n",
    );
    for (access, hardware) in [
        (Access::Read, InHardware::Yes),
        (Access::Read, InHardware::No),
        (Access::ReadWrite, InHardware::Yes),
        (Access::ReadWrite, InHardware::No),
    ] {
        let rows: Vec<String> = FIXED
            .iter()
            .filter(|r| r.access == access && in_hardware(r.reg) == hardware)
            .map(|r| format!("      nvmm_regs_pkg::CTL_{}", r.name))
            .collect();
        let mut set = String::from("known = 1'b1;");
        if access == Access::ReadWrite {
            set.push_str(" writable = 1'b1;");
        }
        if hardware == InHardware::No {
            set.push_str(" in_hardware = 1'b0;");
        }
        let _ = writeln!(o, "{}: begin\n        {set}\n      end", rows.join(",\n"));
    }
    o.push_str("      default: ;\n    endcase\n  end\nendmodule\n");
    out
}
