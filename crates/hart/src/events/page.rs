//! `docs/events.md`, which is generated from the tables.

use super::*;
use std::fmt::Write;

const HEAD: &str = "\
# Events of hardware counters

Generated from `crates/hart/src/events`; `NAGORI_BLESS=1 cargo test -p nagori-hart --lib events` writes it anew. How to
count them: [counters.md](counters.md).

A code is what `mhpmevent` selects in its lower 16 bits and what `perf` takes as `rCODE`. Other codes count nothing. All
counts are of one hart, since reset; what happens in shared caches and in memory is counted for the hart for which it is
done, so that the sum over all harts is what the cache or the memory has done.
";

const TEXTS: &[(&str, &str)] = &[
    ("core", "Events marked with * need instructions to be counted by kind: while one of them is selected, the hart is \
        interpreted."),
    ("l1d", "First-level data cache. Hits are accesses to memory that have not missed; a store to a line without the \
        right to be written is a hit and an upgrade."),
    ("l1i", "First-level instruction cache."),
    ("lfb", "Line fill buffers, which are the MSHRs of L1D. Without `l1d.mshrs` in the description nothing is \
        counted."),
    ("tlb", "Page walks; none in functional mode."),
    ("l2", "The first outer level. Without one nothing is counted."),
    ("llc", "The last level, where there are two outer levels or more."),
    ("memory", "Lines that the memory controllers read and write, by region: NVMM begins at `memory.nvmm_boundary`."),
];

fn page() -> String {
    let mut s = String::from(HEAD);
    for g in GROUPS {
        let text = TEXTS.iter().find(|t| t.0 == g.name).expect("a text").1;
        let _ = write!(
            s,
            "\n## {}\n\n{text}\n\n| code | event | counts |\n|---|---|---|\n",
            g.name
        );
        for r in g.rows {
            let mark = if r.needs_mix() { "*" } else { "" };
            let _ = writeln!(s, "| {:04x} | `{}`{mark} | {} |", r.code, r.name, r.doc);
        }
    }
    s.push_str(
        "\n## What `perf` calls them\n\n\
         The device tree gives the firmware these events (SBI, PMU extension). \
         \"Last level\" is L1D where there is no outer level, \
         the only outer level where there is one, and otherwise the last one.\n\n\
         | `perf` | SBI event | no outer level | one | more |\n|---|---|---|---|---|\n",
    );
    let all = [0, 1, 2].map(sbi_events);
    // The longest list has the events of the last level that others lack.
    for e in &all[2] {
        let names = all.each_ref().map(|of| {
            let ours = of.iter().find(|o| o.index == e.index);
            ours.and_then(|o| lookup(o.code))
                .map_or(String::new(), |r| format!("`{}`", r.name))
        });
        let _ = writeln!(
            s,
            "| `{}` | {:#x} | {} |",
            e.name,
            e.index,
            names.join(" | ")
        );
    }
    s
}

#[test]
fn the_page_of_events_is_current() {
    nagori_golden::golden(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md"),
        &page(),
    );
}
