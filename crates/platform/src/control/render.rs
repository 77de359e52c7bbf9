//! The guest's C header and the documentation, from the table.

use super::table::*;
use super::{method_number, ControlError, StatsAction, MAGIC, SIZE, VERSION};
use nagori_config::map;
use nagori_memtime::Method;
use std::fmt::Write;

fn define(out: &mut String, name: &str, value: &str, doc: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "#define NAGORI_{name:<26} {value:<12} /* {doc} */");
}

fn with_unit(doc: &str, unit: &str) -> String {
    if unit.is_empty() {
        doc.into()
    } else {
        format!("{doc} [{unit}]")
    }
}

fn error_name(e: ControlError) -> String {
    let mut name = String::from("ERROR_IS_");
    for (i, c) in format!("{e:?}").char_indices() {
        if i > 0 && c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

/// Values with names: (name, number, meaning).
pub(super) fn values() -> Vec<(String, u64, String)> {
    let mut all = Vec::new();
    for m in Method::ALL {
        let name = format!("METHOD_{}", m.name().to_uppercase());
        all.push((name, method_number(m), format!("METHOD: {}", m.name())));
    }
    all.push(("FUNCTIONAL".into(), 0, "TIMED: no timing model".into()));
    all.push(("TIMED".into(), 1, "TIMED: the timing model".into()));
    all.push((
        "STATS_RESET".into(),
        StatsAction::RESET,
        "STATS_CONTROL: start again at zero".into(),
    ));
    all.push((
        "STATS_DUMP".into(),
        StatsAction::DUMP,
        "STATS_CONTROL: dump the statistics".into(),
    ));
    all.push((
        "HOST_SNAPSHOT".into(),
        StatsAction::SNAPSHOT,
        "HOST_REQUEST: a snapshot of the machine".into(),
    ));
    for (name, number, doc) in [
        (
            "WRITE",
            iomap_command::WRITE,
            "put the entry at IOMAP_PLACE",
        ),
        (
            "FILL",
            iomap_command::FILL,
            "put it where the table chooses",
        ),
        ("EMPTY", iomap_command::EMPTY, "empty IOMAP_PLACE"),
        ("SHOW", iomap_command::SHOW, "show what is at IOMAP_PLACE"),
    ] {
        all.push((
            format!("IOMAP_{name}"),
            number,
            format!("IOMAP_COMMAND: {doc}"),
        ));
    }
    for e in ControlError::ALL {
        all.push((error_name(e), e as u64, format!("ERROR: {e}")));
    }
    all
}

/// Arrays of blocks: (name, base, stride, count, meaning).
pub(super) fn arrays() -> [(&'static str, u64, u64, u64, &'static str); 4] {
    [
        (
            "REGION",
            REGION_BASE,
            STRIDE,
            2,
            "Statistics of a region: 0 DRAM, 1 NVMM",
        ),
        ("BANK", BANK_BASE, STRIDE, MAX_BANKS, "Statistics of a bank"),
        ("HART", HART_BASE, STRIDE, HARTS, "Statistics of a hart"),
        (
            "LATENCY",
            LATENCY_BASE,
            LATENCY_STRIDE,
            4,
            "Latency histograms: DRAM reads, DRAM writes, NVMM reads, NVMM writes",
        ),
    ]
}

/// Registers of a histogram: (name, offset, unit, meaning).
fn latency() -> [(&'static str, u64, &'static str, String); 3] {
    [
        ("COUNT", LATENCY_COUNT, "", "Number of latencies".into()),
        ("SUM", LATENCY_SUM, "ns", "Their sum".into()),
        (
            "BUCKETS",
            LATENCY_FIRST_BUCKET,
            "",
            format!("First of {LATENCY_BUCKETS} counts: 0 to 2 ns, 2 to 4 ns, 4 to 8 ns and so on; the last has no \
                end"),
        ),
    ]
}

/// `guest/include/nagori_regs.h`.
pub fn c_header() -> String {
    let mut out = String::from(
        "/* Registers of the Nagori control block.\n\
         \x20* Generated from the register table of crates/platform; do not edit.\n\
         \x20* All registers are 64 bits wide; offsets are from the block's first address. */\n\
         #ifndef NAGORI_REGS_H\n#define NAGORI_REGS_H\n\n",
    );
    let o = &mut out;
    define(
        o,
        "CTL_BASE",
        &format!("{:#x}UL", map::CONTROL),
        "Physical address",
    );
    define(o, "CTL_SIZE", &format!("{SIZE:#x}UL"), "Length in bytes");
    define(o, "ID", &format!("{MAGIC:#x}UL"), "What CTL_ID reads as");
    define(
        o,
        "VERSION",
        &VERSION.to_string(),
        "What CTL_VERSION reads as",
    );
    o.push_str("\n/* Registers */\n");
    for r in FIXED {
        let access = if r.access == Access::Read {
            "read-only: "
        } else {
            ""
        };
        let doc = format!("{access}{}", with_unit(r.doc, r.unit));
        define(
            o,
            &format!("CTL_{}", r.name),
            &format!("{:#05x}", r.offset),
            &doc,
        );
    }
    o.push_str("\n/* Values */\n");
    for (name, number, doc) in values() {
        define(o, &name, &number.to_string(), &doc);
    }
    o.push_str("\n/* Arrays of read-only registers */\n");
    for (name, base, stride, count, doc) in arrays() {
        let value = format!("({base:#x} + (n) * {stride:#x})");
        define(
            o,
            &format!("CTL_{name}(n)"),
            &value,
            &format!("{doc}; n from 0 to {}", count - 1),
        );
    }
    o.push_str("\n/* In REGION(n) and BANK(n) */\n");
    for r in MEM_STATS {
        define(
            o,
            &format!("MEM_{}", r.name),
            &format!("{:#04x}", r.offset),
            &with_unit(r.doc, r.unit),
        );
    }
    o.push_str("\n/* In HART(n) */\n");
    for r in HART_STATS {
        define(
            o,
            &format!("HART_{}", r.name),
            &format!("{:#04x}", r.offset),
            &with_unit(r.doc, r.unit),
        );
    }
    o.push_str("\n/* In LATENCY(n) */\n");
    for (name, offset, unit, doc) in latency() {
        define(
            o,
            &format!("LATENCY_{name}"),
            &format!("{offset:#05x}"),
            &with_unit(&doc, unit),
        );
    }
    o.push_str("\n#endif\n");
    out
}

/// `docs/registers.md`.
pub fn markdown() -> String {
    let mut out = format!(
        "# Control registers\n\n\
         <!-- Generated from the register table of crates/platform; do not edit. -->\n\n\
         The control block lies at {:#x} and is {SIZE:#x} bytes long. All registers are 64 bits\n\
         wide and can be accessed with 8 or 4 bytes; a 4-byte write to the lower half sets the\n\
         whole register to the zero-extended value, one to the upper half is rejected. Rejected\n\
         writes change nothing but the ERROR registers. Offsets without a register read as zero.\n\
         The guest's header `guest/include/nagori_regs.h` has the names with the prefix NAGORI_CTL_.\n\n\
         Clocks are those of the memory controller (CLOCK_PS each). A new setting holds from the\n\
         next clock on; timers that are already running keep their values.\n\n\
         ## Registers\n\n| Offset | Name | Access | Unit | Meaning |\n|---|---|---|---|---|\n",
        map::CONTROL
    );
    let o = &mut out;
    for r in FIXED {
        let access = if r.access == Access::Read { "r" } else { "rw" };
        let _ = writeln!(
            o,
            "| {:#05x} | {} | {access} | {} | {} |",
            r.offset, r.name, r.unit, r.doc
        );
    }
    o.push_str("\n## Values\n\n| Name | Value | Meaning |\n|---|---|---|\n");
    for (name, number, doc) in values() {
        let _ = writeln!(o, "| {name} | {number} | {doc} |");
    }
    o.push_str("\n## Statistics\n\nRead-only blocks; offsets in the tables after are from the start of a block.\n\n| \
        Block | First | Distance | Number | Content |\n|---|---|---|---|---|\n");
    for (name, base, stride, count, doc) in arrays() {
        let _ = writeln!(o, "| {name} | {base:#x} | {stride:#x} | {count} | {doc} |");
    }
    let mut table = |title: &str, rows: Vec<(u64, &str, &str, &str)>| {
        let _ = write!(
            o,
            "\n### {title}\n\n| Offset | Name | Unit | Meaning |\n|---|---|---|---|\n"
        );
        for (offset, name, unit, doc) in rows {
            let _ = writeln!(o, "| {offset:#05x} | {name} | {unit} | {doc} |");
        }
    };
    table(
        "REGION and BANK",
        MEM_STATS
            .iter()
            .map(|r| (r.offset, r.name, r.unit, r.doc))
            .collect(),
    );
    table(
        "HART",
        HART_STATS
            .iter()
            .map(|r| (r.offset, r.name, r.unit, r.doc))
            .collect(),
    );
    let rows = latency();
    table(
        "LATENCY",
        rows.iter()
            .map(|(name, at, unit, doc)| (*at, *name, *unit, doc.as_str()))
            .collect(),
    );
    out
}
