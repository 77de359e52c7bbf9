//! The monitor for virtual machines of `guest/vmm`: a VM with another I/O map, by emulation and by the table, a second
//! VM beside it that tries to leave, hostile VMs, and what interrupts and I/O take.

use crate::common::{make, nagori};
use std::path::{Path, PathBuf};

/// The monitor with the partitions of its tests, and the test's program; `None` without a cross compiler.
fn build(place: &Path) -> Option<PathBuf> {
    let made = place.join("vmm");
    make("vmm", &made, &[]).then_some(made)
}

/// Boots a test of the monitor, and returns what was printed.
fn boot(made: &Path, monitor: &str, settings: &[&str], mode: &str) -> String {
    let mut c = nagori();
    c.args(["boot", "--machine", "soc", "--set", "harts=2", mode]);
    for s in settings {
        c.args(["--set", s]);
    }
    c.arg("--firmware").arg(made.join(monitor));
    c.arg("--kernel").arg(made.join("test-vm"));
    let out = c.args(["--initrd", "none"]).assert().success();
    String::from_utf8_lossy(&out.get_output().stdout).replace('\r', "")
}

fn assert_all(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|l| l.contains(line)), "{line}:\n{text}");
    }
}

const PASSED: [&str; 3] = [
    "test: 38 of 38 checks passed",
    "second: 37 of 37 attempts to leave were refused",
    "second: 100 timer interrupts",
];

#[test]
fn a_vm_has_the_same_map_in_either_way_and_none_leaves_its_place() {
    let place = tempfile::tempdir().unwrap();
    let Some(made) = build(place.path()) else {
        return;
    };
    for mode in ["--functional", "--timed"] {
        let text = boot(&made, "test.elf", &[], mode);
        assert_all(&text, &PASSED);
        assert_all(
            &text,
            &["VM test ends: 317 I/O accesses emulated (223 reads, 94 writes), 15 misses, 2 refused"],
        );
        assert_eq!(text, boot(&made, "test.elf", &[], mode), "two runs differ");
        let dma = "iomap.dma=translated";
        let full = ["iomap.kind=full", "iomap.entries=32", dma];
        let text = boot(&made, "test-table.elf", &full, mode);
        assert_all(&text, &PASSED);
        assert_all(&text, &["VM test ends: 0 I/O accesses emulated"]);
        // The monitor translates, and the table is there for what devices access.
        let text = boot(&made, "test.elf", &full, mode);
        assert_all(&text, &PASSED);
        for replacement in ["lru", "fifo", "random", "software"] {
            let chosen = format!("iomap.replacement={replacement}");
            let small = ["iomap.kind=small", "iomap.entries=4", &chosen];
            let text = boot(&made, "test-table.elf", &small, mode);
            assert_all(&text, &PASSED);
            // Each of the three ranges is filled once.
            assert_all(&text, &["2 refused, 3 refills"]);
        }
    }
}

#[test]
fn a_wrong_partition_file_is_refused_with_the_line() {
    let place = tempfile::tempdir().unwrap();
    if build(place.path()).is_none() {
        return;
    }
    let cases = [
        ("vm a\n hart 0\n memory 0x80200000 0x1000\n hrat 1\n", "line 4: this word has no meaning"),
        ("vm a\n map 0 0 12\n", "line 2: a range needs a size"),
        ("vm a\n map 0 0 16\n map 8 32 4\n", "line 3: the range overlaps"),
        ("vm a\n map 0x80000000 0 4\n", "line 2: the range is not below"),
        ("vm a\n hart 5\n memory 0x80200000 0x1000\n next\n", "a VM needs harts of its own"),
        (
            "vm a\n hart 0\n next\n memory 0x80200000 0x2000\nvm b\n hart 1\n next\n memory 0x80201000 0x1000\n",
            "two VMs share memory",
        ),
        ("vm a\n hart 0\n next\n memory 0x80001000 0x1000\n", "memory behind the monitor's"),
        ("vm a\n map 0x1g 0 4\n", "line 2: this is no number"),
        ("vm a\n map 0x60000000 0x10001000\n", "line 2: a number is missing"),
    ];
    for (i, (text, what)) in cases.iter().enumerate() {
        let file = place.path().join(format!("p{i}.txt"));
        std::fs::write(&file, text).unwrap();
        let made = place.path().join("vmm");
        assert!(make(
            "vmm",
            &made,
            &[format!("PARTITIONS={}", file.display())]
        ));
        let mut c = nagori();
        c.args([
            "boot",
            "--machine",
            "soc",
            "--set",
            "harts=2",
            "--functional",
        ]);
        c.arg("--firmware").arg(made.join(format!("p{i}.elf")));
        c.arg("--kernel").arg(made.join("test-vm"));
        let out = c.args(["--initrd", "none"]).assert().failure();
        let printed = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        assert!(printed.contains(what), "{what}:\n{printed}");
    }
}

/// Boots a VM's program with settings (and options) and numbers for it, and returns what was printed. A run that does
/// not end by itself is ended after some seconds.
fn run(made: &Path, monitor: &str, program: &str, settings: &[&str], numbers: &str) -> String {
    let mut c = nagori();
    c.args(["boot", "--machine", "soc", "--initrd", "none"]);
    c.args(["--append", numbers]);
    if !settings.iter().any(|s| s.starts_with("--max-instructions")) {
        c.args(["--max-instructions", "200000000"]);
    }
    for s in settings {
        if s.starts_with("--") {
            c.arg(s)
        } else {
            c.args(["--set", s])
        };
    }
    c.arg("--firmware").arg(made.join(monitor));
    c.arg("--kernel").arg(made.join(program));
    let out = c.output().expect("nagori runs");
    String::from_utf8_lossy(&out.stdout).replace('\r', "")
}

/// Every way in which `hostile.txt` is set up: the monitor and settings.
const WAYS: [(&str, &[&str]); 7] = [
    (
        "hostile.elf",
        &["iomap.kind=full", "iomap.entries=32", TRANSLATED],
    ),
    (
        "hostile-table.elf",
        &["iomap.kind=full", "iomap.entries=32", TRANSLATED],
    ),
    (
        "hostile-table.elf",
        &["iomap.kind=small", "iomap.entries=16", LRU, TRANSLATED],
    ),
    (
        "hostile-table.elf",
        &["iomap.kind=small", "iomap.entries=16", FIFO, TRANSLATED],
    ),
    (
        "hostile-table.elf",
        &["iomap.kind=small", "iomap.entries=16", RANDOM, TRANSLATED],
    ),
    (
        "hostile-table.elf",
        &["iomap.kind=small", "iomap.entries=16", SOFTWARE, TRANSLATED],
    ),
    (
        "hostile-table.elf",
        &["iomap.kind=small", "iomap.entries=4", SOFTWARE],
    ),
];
const TRANSLATED: &str = "iomap.dma=translated";
const LRU: &str = "iomap.replacement=lru";
const FIFO: &str = "iomap.replacement=fifo";
const RANDOM: &str = "iomap.replacement=random";
const SOFTWARE: &str = "iomap.replacement=software";

/// Attacks in a way, and asserts that none has reached anything and that nothing was changed.
fn attack(made: &Path, way: usize, program: &str, mode: &[&str], numbers: &str) -> String {
    let (monitor, settings) = WAYS[way];
    let dma = settings.contains(&TRANSLATED);
    let numbers = format!("{numbers} vm.dma={}", u8::from(dma));
    let settings = [settings, mode, &["harts=3"]].concat();
    let text = run(made, monitor, program, &settings, &numbers);
    let what = format!("{monitor} {settings:?} {numbers}:\n{text}");
    assert!(!text.contains("REACHED"), "{what}");
    for line in [
        " refused, 0 reached what is not ours",
        " words, 0 of them changed",
        "VM victim ends:",
    ] {
        assert!(text.contains(line), "{line}: {what}");
    }
    text
}

/// The number behind a word.
fn number(text: &str, before: &str) -> u64 {
    let from = text
        .find(before)
        .unwrap_or_else(|| panic!("{before}:\n{text}"))
        + before.len();
    let digits: String = text[from..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("{before}:\n{text}"))
}

#[test]
fn a_hostile_vm_reaches_nothing_that_is_not_its_own() {
    let place = tempfile::tempdir().unwrap();
    let Some(made) = build(place.path()) else {
        return;
    };
    for way in 0..WAYS.len() {
        let numbers = format!("vm.attempts=400 vm.seed={}", 1 + way);
        let text = attack(&made, way, "hostile-vm", &["--functional"], &numbers);
        assert!(number(&text, "\nhostile: ") > 1000, "{text}");
    }
    let text = attack(&made, 0, "hostile-vm", &["--timed"], "vm.attempts=200");
    assert!(number(&text, "\nhostile: ") > 500, "{text}");
    // What is open is found: without a table, the MAC of a VM reaches all of memory. What is left of the victim may not
    // end.
    let open = ["harts=3", "--functional", "--max-instructions=30000000"];
    let text = run(&made, "hostile.elf", "hostile-vm", &open, "vm.attempts=400");
    assert!(text.contains("hostile: REACHED: DMA"), "{text}");
}

#[test]
fn a_hart_that_rewrites_what_another_one_executes_reaches_nothing() {
    let place = tempfile::tempdir().unwrap();
    let Some(made) = build(place.path()) else {
        return;
    };
    let fine = ["--functional", "functional_quantum_cycles=3"];
    for way in 0..WAYS.len() {
        let numbers = format!("vm.rounds=1000 vm.seed={}", 1 + way);
        let text = attack(&made, way, "race-vm", &fine, &numbers);
        // The monitor has met instructions that were not those that had trapped.
        assert!(number(&text, " refills, ") > 100, "{text}");
    }
    let text = attack(&made, 0, "race-vm", &["--timed"], "vm.rounds=500");
    assert!(number(&text, " refills, ") > 100, "{text}");
}

/// Once an access has been emulated, it takes the monitor few instructions: those of the same VM with and without it
/// are counted.
#[test]
fn an_access_takes_the_monitor_fewer_than_eighty_instructions() {
    let place = tempfile::tempdir().unwrap();
    let Some(made) = build(place.path()) else {
        return;
    };
    let stats = place.path().join("stats.json");
    let run = |monitor: &str, kind: &str, accesses: u64| {
        let mut c = nagori();
        c.args([
            "boot",
            "--machine",
            "soc",
            "--functional",
            "--initrd",
            "none",
        ]);
        c.args(["--set", &format!("iomap.kind={kind}")]);
        c.arg("--firmware").arg(made.join(monitor));
        c.arg("--kernel").arg(made.join("ioloop-vm"));
        c.arg("--stats-file").arg(&stats);
        c.args(["--append", &format!("vm.accesses={accesses}")]);
        let out = c.assert().success();
        let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        let stats = std::fs::read(&stats).unwrap();
        let stats: serde_json::Value = serde_json::from_slice(&stats).unwrap();
        let emulated = number(&text, "VM ioloop ends: ");
        (stats["instructions"].as_u64().unwrap(), emulated)
    };
    let more = |monitor: &str, kind: &str| {
        let [few, many] = [1000, 3000].map(|n| run(monitor, kind, n));
        (many.0 - few.0, many.1 - few.1)
    };
    let (with, emulated) = more("ioloop.elf", "none");
    let (without, none) = more("ioloop-table.elf", "full");
    assert!(emulated >= 2000 && none == 0, "{emulated} {none}");
    let each = (with - without) as f64 / emulated as f64;
    assert!((40.0..80.0).contains(&each), "{each}");
}

/// As the two tests above, longer.
#[test]
#[ignore = "takes minutes; for changes of guest/vmm and the table"]
fn hostile_vms_of_many_seeds_reach_nothing() {
    let place = tempfile::tempdir().unwrap();
    let Some(made) = build(place.path()) else {
        return;
    };
    for seed in 1..=20 {
        for way in 0..WAYS.len() {
            let numbers = format!("vm.attempts=4000 vm.rounds=4000 vm.seed={seed}");
            let fine = format!("functional_quantum_cycles={}", 1 + seed % 7);
            attack(&made, way, "hostile-vm", &["--functional"], &numbers);
            attack(&made, way, "race-vm", &["--functional", &fine], &numbers);
        }
    }
}

#[test]
fn the_second_vm_says_how_late_its_interrupts_are_and_the_first_one_what_its_io_takes() {
    let place = tempfile::tempdir().unwrap();
    let Some(made) = build(place.path()) else {
        return;
    };
    // The first VM writes to the MAC's hash filter, which is at another place for it.
    let numbers = "vm.io=0x5200004c vm.width=4 vm.accesses=20000 vm.interrupts=500";
    let mut costs = Vec::new();
    for (monitor, kind) in [("latency.elf", "none"), ("latency-table.elf", "full")] {
        let kind = format!("iomap.kind={kind}");
        let settings = ["--timed", "harts=2", &kind];
        let text = run(&made, monitor, "ioloop-vm", &settings, numbers);
        assert_all(
            &text,
            &["latency: 42 cycles a tick, known to 2 cycles, from the same start"],
        );
        let line = text
            .lines()
            .find(|l| l.contains(" interrupts, min "))
            .expect("a line");
        assert!(line.starts_with("latency: 500 interrupts, min "), "{line}");
        let late: Vec<u64> = ["min ", "median ", "p99.99 ", "max "]
            .map(|w| number(line, w))
            .into();
        assert!(late.is_sorted(), "{line}");
        // From the entry of a trap to the longest thing that it may wait for: a division, and a line of memory.
        assert!(late[0] >= 5 && late[3] < 1000, "{line}");
        assert_eq!(
            text,
            run(&made, monitor, "ioloop-vm", &settings, numbers),
            "two runs differ"
        );
        costs.push(number(&text, "ioloop: 20000 accesses of "));
    }
    // By emulation an access takes several times longer.
    assert!(costs[0] > 5 * costs[1], "{costs:?}");
    let settings = ["--timed", "iomap.kind=full"];
    let numbers = "vm.rate=100 vm.accesses=1000";
    let text = run(&made, "ioloop-table.elf", "ioloop-vm", &settings, numbers);
    assert_all(&text, &["wanted 100 and done 100 in 100000 cycles"]);
    let text = run(&made, "ioloop.elf", "ioloop-vm", &["--timed"], numbers);
    assert_all(&text, &["wanted 100 and done 100 in 100000 cycles"]);
}
