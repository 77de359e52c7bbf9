//! Hardware counters on whole machines: they are the statistics, sample at the same places whatever runs the guest, and
//! count by privilege.

use crate::common::*;
use nagori_hart::events::{self, EventRow};
use nagori_hart::COUNTERS;
use nagori_machine::{Engine, Machine, Stop, TranslatorOptions};
use std::path::PathBuf;
use std::process::Command;

const EAGER: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: 4 << 20,
    threshold: 0,
});
const HARTS: u32 = 3;
/// Bits of mhpmevent: nothing is counted in machine, supervisor, user mode.
const MINH: u64 = 1 << 62;
const SINH: u64 = 1 << 61;
const UINH: u64 = 1 << 60;
const MHPMCOUNTER3: u16 = 0xb03;
const MHPMEVENT3: u16 = 0x323;

/// Two outer levels with MSHRs and prefetchers, small enough to be used up.
const CACHES: [&str; 4] = [
    "l1d.mshrs=2",
    "cache.l2={ level = 2, shared_by = 1, size = \"16 KiB\", ways = 4, latency = 12, mshrs = 4, prefetcher = \
        \"next-line\" }",
    "cache.llc={ level = 3, shared_by = \"all\", size = \"32 KiB\", ways = 8, latency = 40, mshrs = 8, inclusion = \
        \"inclusive\" }",
    "l1d.prefetcher=stride",
];

fn program(of: &str, event: u64, period: u64, rounds: u32) -> Option<Vec<u8>> {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("counters-{of}.elf"));
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/suite/counters/sampling.S"
    );
    let mut gcc = Command::new("riscv64-linux-gnu-gcc");
    gcc.args(["-nostdlib", "-static", "-Wl,-Ttext=0x80000000", "-Wl,-n"])
        .args(["-march=rv64imafdc_zicsr", "-Wl,--build-id=none"])
        .arg(format!("-DEVENT={event:#x}"))
        .arg(format!("-DPERIOD={period}"))
        .arg(format!("-DROUNDS={rounds}"))
        .arg(format!("-DHARTS={HARTS}"))
        .args([source, "-o"])
        .arg(&out);
    let made = match gcc.output() {
        Ok(made) => made,
        Err(_) if std::env::var_os("NAGORI_REQUIRE_TOOLS").is_none_or(|v| v != "1") => {
            eprintln!("skipped: riscv64-linux-gnu-gcc is not installed");
            return None;
        }
        Err(e) => panic!("riscv64-linux-gnu-gcc: {e}"),
    };
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    Some(std::fs::read(out).expect("a program"))
}

fn machine(elf: &[u8], timed: bool, engine: Engine, more: &[&str]) -> Machine {
    let harts = format!("harts={HARTS}");
    let mut settings = vec![harts.as_str()];
    settings.extend(more);
    let mut m = build(&describe("vc707", &settings), timed);
    m.set_engine(engine).expect("an engine of this host");
    load(&mut m, elf);
    m
}

/// What a hart has sampled: program counter, cycle, and what was counted beyond the overflow.
fn samples(m: &Machine, elf: &[u8], hart: usize) -> Vec<[u64; 3]> {
    // The data follow the text; `samples` is at the first page behind `shared`.
    let file = elf_symbol(elf, "samples");
    let at = file - m.config().memory.base + ((hart as u64) << 15);
    let word = |k: u64| m.ram().read_u64(at + 8 * k).expect("in memory");
    (0..1365)
        .map(|k| [word(3 * k), word(3 * k + 1), word(3 * k + 2)])
        .take_while(|s| s[0] != 0)
        .collect()
}

/// The value of a symbol of an ELF file of 64 bits.
fn elf_symbol(elf: &[u8], name: &str) -> u64 {
    let u = |at: usize, n: usize| {
        let mut b = [0; 8];
        b[..n].copy_from_slice(&elf[at..at + n]);
        u64::from_le_bytes(b) as usize
    };
    let (table, size, count) = (u(0x28, 8), u(0x3a, 2), u(0x3c, 2));
    let section = |i: usize| table + i * size;
    let symbols = (0..count).map(section).find(|s| u(s + 4, 4) == 2);
    let s = symbols.expect("a symbol table");
    let names = u(section(u(s + 40, 4)) + 24, 8);
    let (at, bytes) = (u(s + 24, 8), u(s + 32, 8));
    let found = (at..at + bytes).step_by(24).find(|e| {
        let from = names + u(*e, 4);
        elf[from..].starts_with(name.as_bytes()) && elf[from + name.len()] == 0
    });
    u(found.expect("the symbol") + 8, 8) as u64
}

/// Everything that must be equal where runs are to be equal.
fn seen(m: &mut Machine, elf: &[u8], slice: u64) -> (Outcome, Vec<Vec<[u64; 3]>>, Vec<u64>) {
    let outcome = run(m, slice);
    assert_eq!(outcome.stop, Stop::PowerOff(0));
    let all = (0..HARTS as usize).map(|h| samples(m, elf, h)).collect();
    let csrs = (0..HARTS as usize)
        .flat_map(|h| [MHPMCOUNTER3, MHPMEVENT3, 0x344].map(|n| (h, n)))
        .map(|(h, n)| m.csr(h, n).expect("it exists"))
        .collect();
    (outcome, all, csrs)
}

fn code(name: &str) -> u64 {
    let row = events::rows().find(|r| r.name == name);
    row.unwrap_or_else(|| panic!("no event {name}")).code.into()
}

#[test]
fn samples_are_taken_at_the_same_places_whatever_runs_the_guest() {
    // Event, period, and by how much a block can pass the overflow.
    let cases = [
        ("active-cycles", 1009, 3000, &[][..]),
        ("instructions", 499, 64, &[]),
        ("l1d-load-misses", 61, 6, &[]),
        ("mispredicts", 37, 2, &[]),
        ("loads", 101, 64, &[]),
        ("memory-stall-cycles", 997, 3000, &CACHES),
        ("l2-misses", 31, 12, &CACHES),
        ("dram-reads", 29, 12, &CACHES),
    ];
    for (name, period, beyond, caches) in cases {
        let Some(elf) = program(name, code(name) | MINH, period, 12) else {
            return;
        };
        let mut reference = machine(&elf, true, Engine::Interpreter, caches);
        let want = seen(&mut reference, &elf, 1 << 20);
        for (hart, taken) in want.1.iter().enumerate() {
            assert!(taken.len() >= 5, "{name}, hart {hart}: {}", taken.len());
            for s in taken {
                // The handler's own part is not counted.
                assert!(s[2] <= beyond, "{name}, hart {hart}: {s:x?}");
            }
            assert!(taken.windows(2).all(|w| w[0][1] < w[1][1]), "{name}");
        }
        for (engine, slice) in [(EAGER, 1 << 20), (EAGER, 1777), (Engine::Interpreter, 911)] {
            let mut m = machine(&elf, true, engine, caches);
            let got = seen(&mut m, &elf, slice);
            assert_eq!(got, want, "{name} with {engine:?} in slices of {slice}");
        }
        // From a snapshot in between, with the other engine.
        let mut m = machine(&elf, true, EAGER, caches);
        let half = want.0.cycles[0] / 2;
        while m.hart(0).expect("a hart").state.cycle < half {
            m.run(5000, None);
        }
        let kept = m.checkpoint().expect("between blocks");
        let mut other = kept.fork().expect("a machine");
        other.set_engine(Engine::Interpreter).expect("an engine");
        assert_eq!(
            seen(&mut other, &elf, 1 << 20),
            want,
            "{name} from a snapshot"
        );
    }
}

#[test]
fn functional_mode_samples_too() {
    for (name, period, beyond) in [("active-cycles", 1009, 64), ("instructions", 499, 64)] {
        let Some(elf) = program(name, code(name) | MINH, period, 12) else {
            return;
        };
        let want = seen(
            &mut machine(&elf, false, Engine::Interpreter, &[]),
            &elf,
            1 << 20,
        );
        assert!(want.1.iter().flatten().all(|s| s[2] <= beyond), "{want:x?}");
        assert!(want.1.iter().all(|s| s.len() > 20));
        let got = seen(&mut machine(&elf, false, EAGER, &[]), &elf, 1777);
        assert_eq!(got, want, "{name}");
    }
}

/// Every event on a counter of every hart, in as many runs as it takes; `f` gets row, hart, value of the counter that
/// counts everywhere, and those of counters that count in one mode only (user, supervisor, machine).
fn count_all(
    elf: &[u8],
    more: &[&str],
    mut f: impl FnMut(&EventRow, usize, u64, [u64; 3], &Machine),
) {
    let rows: Vec<_> = events::rows().collect();
    // Counter 3 is the program's.
    for some in rows.chunks((COUNTERS - 1) / 4) {
        let mut m = machine(elf, true, Engine::Interpreter, more);
        let filters = [0, MINH | SINH, MINH | UINH, SINH | UINH];
        for hart in 0..HARTS as usize {
            for (k, row) in some.iter().enumerate() {
                for (j, filter) in filters.iter().enumerate() {
                    let number = MHPMEVENT3 + 1 + (4 * k + j) as u16;
                    assert!(m.set_csr(hart, number, u64::from(row.code) | filter));
                }
            }
        }
        let end = run(&mut m, 1 << 20);
        assert_eq!(end.stop, Stop::PowerOff(0));
        for hart in 0..HARTS as usize {
            for (k, row) in some.iter().enumerate() {
                let value = |j: usize| {
                    let number = MHPMCOUNTER3 + 1 + (4 * k + j) as u16;
                    m.csr(hart, number).expect("it exists")
                };
                let values = [0, 1, 2, 3].map(value);
                let [all, user, supervisor, machine] = values;
                f(row, hart, all, [user, supervisor, machine], &m);
            }
        }
    }
}

#[test]
fn counters_are_the_statistics() {
    let Some(elf) = program("statistics", code("active-cycles"), 10_000, 10) else {
        return;
    };
    let mut more = CACHES.to_vec();
    more.push("count_by_privilege=true");
    let mut counted = 0;
    count_all(&elf, &more, |row, hart, all, modes, m| {
        let r = m.report();
        let h = &r.harts[hart];
        let by = h.by_privilege.as_ref().expect("counted");
        let of = [&by.user, &by.supervisor, &by.machine].map(|b| b[row.name]);
        assert_eq!(modes, of, "{}, hart {hart}", row.name);
        assert_eq!(all, of.iter().sum::<u64>(), "{}, hart {hart}", row.name);
        let e = &h.events;
        let statistic = match row.name {
            "cycles" => h.cycles,
            "instructions" => h.instructions,
            "active-cycles" => h.cycles - e.idle_cycles,
            "mispredicts" => e.mispredicts,
            "interrupts" => e.interrupts,
            "stall-cycles" => e.memory_stall_cycles,
            "l1d-load-misses" => e.l1d_load_misses,
            "l1d-store-misses" => e.l1d_store_misses,
            "l1d-writebacks-demand" => e.l1d_writebacks,
            "l1i-misses" => e.l1i_misses,
            "dram-reads" => h.memory.dram_reads,
            "dram-writes" => h.memory.dram_writes,
            _ => return,
        };
        assert_eq!(all, statistic, "{}, hart {hart}", row.name);
        counted += u64::from(statistic > 0);
    });
    assert!(counted > 20, "{counted}");
}

#[test]
fn what_levels_and_memory_count_by_hart_is_what_they_count_together() {
    let Some(elf) = program("levels", code("active-cycles"), 10_000, 10) else {
        return;
    };
    let mut m = machine(&elf, true, EAGER, &CACHES);
    assert_eq!(run(&mut m, 1 << 20).stop, Stop::PowerOff(0));
    m.settle_memory();
    let r = m.report();
    for l in &r.caches {
        assert_eq!(l.kinds.hits(), l.events.hits, "{}", l.name);
        assert_eq!(l.kinds.misses(), l.events.misses, "{}", l.name);
        assert_eq!(l.kinds.victims, l.events.evictions, "{}", l.name);
        let written = l.kinds.writebacks_demand + l.kinds.writebacks_other;
        assert_eq!(written, l.events.writebacks, "{}", l.name);
        assert_eq!(l.kinds.mshr_full, l.events.mshr_waits, "{}", l.name);
        assert_eq!(l.kinds.mshr_full_cycles, l.events.mshr_wait_cycles);
        assert!(l.kinds.load_misses > 0 && l.kinds.mshr_allocations > 0);
    }
    let first = &r.first_level[0];
    assert_eq!(first.kinds.prefetch_misses, first.events.prefetches);
    assert!(first.kinds.mshr_allocations > 0);
    let sum = |f: fn(&nagori_hart::lines::MemoryCounts) -> u64| -> u64 {
        r.harts.iter().map(|h| f(&h.memory)).sum()
    };
    let regions = &r.memory.regions;
    assert_eq!(sum(|m| m.dram_reads), regions[0].counters.reads);
    assert_eq!(sum(|m| m.dram_writes), regions[0].counters.writes);
    assert_eq!(sum(|m| m.nvmm_reads + m.nvmm_writes), 0);
}

#[test]
fn without_the_extension_there_are_no_overflow_interrupts() {
    let Some(elf) = program("plain", code("active-cycles") | MINH, 1009, 3) else {
        return;
    };
    let isa = r#"isa=["i","m","a","f","d","c","zicsr","zifencei","zicntr","zihpm"]"#;
    let mut m = machine(&elf, true, Engine::Interpreter, &[isa]);
    let (_, taken, csrs) = seen(&mut m, &elf, 1 << 20);
    assert!(taken.iter().all(Vec::is_empty));
    assert_eq!(csrs[1], code("active-cycles"), "no other bits");
    assert_eq!(m.csr(0, 0xda0), None);
}
