//! Debian's `perf` in the guest: named and raw events agree, and it finds a hot function. That counters are the
//! statistics is tested on bare machines (`machine/tests/suite/counters`).
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::{made, options, PATIENCE};
use crate::common::*;
use nagori_image::{rootfs, Base, RootfsSpec};
use serde_json::Value;
use std::collections::BTreeMap;
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
    let page = include_str!("../../../../docs/counters.md");
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

/// Counts by name of the event, from `perf stat -x,`, which leaves the mode of some events out.
fn counts(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().map(|l| l.split(',').collect::<Vec<_>>());
    let name = |f: &[&str]| Some(f.get(2)?.trim_end_matches(":u").to_owned());
    lines
        .filter_map(|f| Some((name(&f)?, f[0].parse().ok()?)))
        .collect()
}

/// On a machine: which event equals a sum of others, all in user mode.
type Sums = &'static [(&'static str, &'static [&'static str])];

const BOARD: Sums = &[
    ("L1-dcache-load-misses", &["r0204"]),
    ("LLC-load-misses", &["r0204"]),
    ("r0207", &["r0204", "r0205", "r0206"]),
    ("r0110", &["r0114"]),
];
const SERVER: Sums = &[
    ("L1-dcache-load-misses", &["r0204"]),
    ("LLC-load-misses", &["r0704"]),
    ("r0600", &["r0601", "r0602"]),
    ("r0602", &["r0604", "r0606", "r0608", "r060a"]),
    ("r0110", &["r0112", "r0113", "r0114"]),
];

#[test]
fn perf_counts_the_events_of_the_table_and_finds_the_hot_function() {
    perf_counts("vc707", BOARD);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn perf_counts_the_events_of_a_server() {
    perf_counts("server-caches", SERVER);
}

fn perf_counts(machine: &str, sums: Sums) {
    if !tool("riscv64-linux-gnu-gcc") {
        return;
    }
    let Some(rootfs) = with_perf() else {
        return;
    };
    let files = Files::new();
    let shared = tutorial(&files);
    let mut names = vec!["cycles", "instructions", "branch-misses"];
    names.extend(
        sums.iter()
            .flat_map(|(all, parts)| parts.iter().chain([all])),
    );
    names.sort_unstable();
    names.dedup();
    let user: Vec<_> = names.iter().map(|e| format!("{e}:u")).collect();
    let script = format!(
        "cd /tmp; printf '#!/bin/sh\nnagori-ctl timing on; /mnt/shared/hot; nagori-ctl timing off\n' >timed; \
         chmod +x timed; perf stat -x, -o stat -e {} ./timed; cat stat; \
         perf record -q -e cycles:u -c 20000 ./timed; \
         perf report --stdio --sort symbol",
        user.join(",")
    );
    let stats = files.path(machine);
    let out = nagori()
        .timeout(PATIENCE)
        .args(["--quiet", "boot", "--machine", machine, "--append", "quiet"])
        .args(["--set", "count_by_privilege=true", "--rootfs"])
        .arg(&rootfs)
        .arg("--share")
        .arg(format!("{}:shared", shared.display()))
        .args(["--stats", "json", "--stats-file"])
        .arg(&stats)
        .args(["--run", &script])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    let counted = counts(&text);
    let of = |name: &str| {
        let n = counted.get(name);
        *n.unwrap_or_else(|| panic!("{machine}: no {name} in\n{text}"))
    };
    assert!(of("cycles") > of("instructions") && of("instructions") > 2_000_000);
    for (all, parts) in sums {
        let sum: u64 = parts.iter().map(|p| of(p)).sum();
        assert_eq!(of(all), sum, "{machine}: {all}\n{text}");
        // The last level of the server holds all data of the program.
        let few = machine != "vc707" && *all == "LLC-load-misses";
        assert!(few || sum > 1000, "{machine}: {all}\n{text}");
    }
    // The statistics have what other programs have done in user mode, too.
    let report: Value =
        serde_json::from_slice(&std::fs::read(&stats).expect("statistics")).expect("JSON");
    let harts = report["harts"].as_array().expect("harts");
    let user = |name: &str| -> u64 {
        let of = harts.iter().map(|h| &h["by_privilege"]["user"][name]);
        of.map(|n| n.as_u64().unwrap_or_else(|| panic!("{name}: {report}")))
            .sum()
    };
    assert!(of("L1-dcache-load-misses") <= user("l1d-load-misses"));
    assert!(of("instructions") <= user("instructions"));
    // In colour, with escapes behind the share.
    let mut top = text
        .lines()
        .filter(|l| l.contains("% ") || l.contains("%\u{1b}"));
    let top = top
        .next()
        .unwrap_or_else(|| panic!("{machine}: no samples\n{text}"));
    assert!(top.contains(" chase"), "{machine}: {top}\n{text}");
}
