//! Debian's `perf` in the guest: what it counts is what the machine's statistics say, and it finds a hot function.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless NAGORI_REQUIRE_TOOLS=1.

mod common;

use common::debian::{made, options, PATIENCE};
use common::*;
use nagori_image::{rootfs, Base, RootfsSpec};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The root file system of docs/counters.md.
fn with_perf() -> Option<PathBuf> {
    let mut spec = RootfsSpec::new(Base::Run);
    spec.packages = vec!["linux-perf".into()];
    let made = made(rootfs(&options(), &spec, None, &mut |p| eprintln!("{p}")))?;
    Some(made.path)
}

/// The program of docs/counters.md, in a directory of its own.
fn tutorial(files: &Files) -> PathBuf {
    let page = include_str!("../../../docs/counters.md");
    let code = page.split("```c\n").nth(1).expect("the program");
    let code = code.split("```").next().expect("its end");
    let code: String = code
        .lines()
        .map(|l| format!("{}\n", l.strip_prefix("   ").unwrap_or(l)))
        .collect();
    let source = files.write("hot.c", code.as_bytes());
    let shared = files.path("shared");
    std::fs::create_dir(&shared).expect("a directory");
    let gcc = Command::new("riscv64-linux-gnu-gcc")
        .args(["-O2", "-g", "-static", "-o"])
        .arg(shared.join("hot"))
        .arg(source)
        .status();
    assert!(gcc.expect("gcc").success());
    shared
}

/// The name of each event, as `perf` has it, and the event in the statistics.
const EVENTS: [(&str, &str); 10] = [
    ("cycles", "active-cycles"),
    ("instructions", "instructions"),
    ("L1-dcache-load-misses", "l1d-load-misses"),
    ("L1-dcache-store-misses", "l1d-store-misses"),
    ("LLC-load-misses", "llc-load-misses"),
    ("dTLB-load-misses", "dtlb-load-misses"),
    ("branch-misses", "mispredicts"),
    ("r0604", "l2-load-misses"),
    ("r0800", "dram-reads"),
    ("r0110", "stall-cycles"),
];

#[test]
fn perf_counts_what_the_statistics_say_and_finds_the_hot_function() {
    if !tool("riscv64-linux-gnu-gcc") {
        return;
    }
    let Some(rootfs) = with_perf() else {
        return;
    };
    let files = Files::new();
    let shared = tutorial(&files);
    for machine in ["vc707", "server-caches"] {
        let counted = |e: &&(&str, &str)| machine != "vc707" || e.0 != "r0604";
        let events: Vec<_> = EVENTS.iter().filter(counted).collect();
        let user: Vec<_> = events.iter().map(|e| format!("{}:u", e.0)).collect();
        // Nothing else runs on CPU 3 in user mode.
        let script = format!(
            "nagori-ctl timing on; cd /tmp; \
             taskset -c 0 perf stat -x, -o stat -C 3 -e {} taskset -c 3 /mnt/shared/hot; cat stat; \
             perf record -q -e cycles:u -c 20000 /mnt/shared/hot; \
             perf report --stdio --sort symbol",
            user.join(",")
        );
        let stats = files.path(machine);
        let out = nagori()
            .timeout(PATIENCE)
            .args(["--quiet", "boot", "--machine", machine])
            .args([
                "--set",
                "count_by_privilege=true",
                "--append",
                "quiet isolcpus=3",
            ])
            .arg("--rootfs")
            .arg(&rootfs)
            .arg("--share")
            .arg(&shared)
            .args(["--stats", "json", "--stats-file"])
            .arg(&stats)
            .args(["--run", &script])
            .assert()
            .success();
        let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        let report: Value =
            serde_json::from_slice(&std::fs::read(&stats).expect("statistics")).expect("JSON");
        let of = &report["harts"][3]["by_privilege"]["user"];
        let mut any = 0;
        for (perf, ours) in events {
            let line = text.lines().find(|l| l.contains(&format!(",{perf}:u,")));
            let line = line.unwrap_or_else(|| panic!("{machine}: no {perf} in\n{text}"));
            let count: u64 = line
                .split(',')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or_else(|| panic!("{machine}: {line}\n{text}"));
            let ours = match machine {
                // Without an outer level, L1D is the last one.
                "vc707" if perf.starts_with("LLC") => "l1d-load-misses",
                _ => *ours,
            };
            let statistic = of[ours].as_u64().unwrap_or_else(|| panic!("{ours}: {of}"));
            assert_eq!(count, statistic, "{machine}: {perf}\n{text}");
            any += u64::from(count > 0);
        }
        assert!(any >= 8, "{machine}:\n{text}");
        // The first function in the report is the one that misses.
        let top = text.lines().map(str::trim);
        let top = top
            .filter(|l| l.contains('%') && !l.starts_with('#'))
            .next();
        let top = top.unwrap_or_else(|| panic!("{machine}: no samples\n{text}"));
        assert!(top.ends_with("chase"), "{machine}: {top}\n{text}");
    }
}
