//! `nagori run` and `nagori compare` on real Debian, as a user runs them.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::*;
use crate::common::probe::*;
use crate::common::*;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// All waiting of a profile, in nanoseconds.
fn waited_ns(folded: &str) -> u64 {
    let number = |l: &str| {
        let (_, n) = l.rsplit_once(' ').expect("a number");
        n.parse::<u64>().unwrap()
    };
    folded.lines().map(number).sum()
}

#[test]
fn arguments_streams_and_statistics() {
    let Some(p) = Place::new() else { return };
    p.run(
        &["--env", "PROBE=set", "--stdin", "none"],
        &["one", "two words"],
    )
    .assert()
    .code(0)
    .stdout("args 3 one\nenv set\ncwd /root\ninput ends\n")
    .stderr(
        contains("to stderr\n")
            .and(contains("guest time"))
            .and(contains("BANK_PARA")),
    );
}

#[test]
fn ends_of_programs() {
    let Some(p) = Place::new() else { return };
    let quick = ["--quiet", "--functional", "--stdin", "none"];
    p.run(&quick, &["exit", "42"]).assert().code(42);
    p.run(&["--functional"], &["kill", "6"])
        .assert()
        .code(134)
        .stderr(contains("ended by signal 6"));
    p.run(&quick, &["stop", "7"]).assert().code(7);
    // Without markers the program goes on.
    p.run(&["-q", "--functional", "--no-markers"], &["stop", "7"])
        .assert()
        .code(0)
        .stdout(contains("args 3 stop"));
    p.run(&["--timeout", "0.3"], &["loop"])
        .assert()
        .code(124)
        .stderr(contains("--timeout").and(contains("guest time")));
    p.run(&["--host-timeout", "1"], &["loop"])
        .assert()
        .code(124);
}

/// The start of a program with an interpreter.
fn dynamic_elf() -> Vec<u8> {
    let mut b = vec![0u8; 64 + 56];
    b[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (b[16], b[18], b[32], b[54], b[56]) = (3, 243, 64, 56, 1);
    (b[64], b[72], b[96]) = (3, 120, 2);
    b.extend(b"i\0");
    b
}

#[test]
fn debian_programs_on_files_of_the_host() {
    let Some(p) = Place::new() else { return };
    let data: String = (0..5000).map(|i| format!("{}\n", i * i)).collect();
    std::fs::write(p.path("data"), &data).unwrap();
    let run = |options: &[&str], program: &[&str]| {
        let mut c = nagori();
        c.timeout(PATIENCE).current_dir(p.dir.path());
        c.args(["-q", "run", "--functional", "--stdin", "none"]);
        c.args(options).arg("--").args(program);
        c.assert()
    };
    run(&["--share", ".:here,rw"], &["xz", "-k", "data"]).code(0);
    let unpacked = run(
        &["--share", ".:here"],
        &["sh", "-c", "pwd >&2; xz -dc data.xz"],
    )
    .code(0)
    .stderr("/mnt/here\n");
    assert!(unpacked.get_output().stdout == data.as_bytes());
    std::fs::write(p.path("script"), "#!/bin/sh\necho \"$0 $1\"\nexit 3\n").unwrap();
    executable(&p.path("script"));
    run(&[], &["./script", "a b"])
        .code(3)
        .stdout("/run/nagori/bin/script a b\n");
    // With libraries, and the heap on NVMM.
    run(
        &["--placement", "size>1000"],
        &["sh", "-c", "echo $NAGORI_MALLOC"],
    )
    .code(0)
    .stdout("size:1000\n");
}

#[test]
fn memory_on_nvmm_is_seen() {
    let Some(p) = Place::new() else { return };
    for (memory, name) in [("dram", "d"), ("nvmm", "n")] {
        p.run(
            &[
                "-q",
                "--stdin",
                "none",
                "--region-of-interest",
                "--placement",
                memory,
                "--json",
                name,
            ],
            &["touch", "1"],
        )
        .assert()
        .code(0);
    }
    let [dram, nvmm] = ["d", "n"].map(|n| json(&p.path(n)));
    assert_eq!(number(&dram, "/summary/nvmm/reads"), 0);
    let reads = number(&nvmm, "/summary/nvmm/reads");
    assert!((16_384..24_000).contains(&reads), "{reads}");
}

fn executable(file: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(file, mode).unwrap();
}

#[test]
fn what_cannot_be_run() {
    let Some(p) = Place::new() else { return };
    let script = p.path("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let text = p.path("text");
    std::fs::write(&text, "hello").unwrap();
    std::fs::write(p.path("dynamic"), dynamic_elf()).unwrap();
    let try_it = |name: &str, code: i32, what: &str| {
        nagori()
            .timeout(PATIENCE)
            .current_dir(p.dir.path())
            .args(["run", "--functional", "--rootfs", "none", "--", name])
            .assert()
            .code(code)
            .stdout("")
            .stderr(contains(what));
    };
    let probe = std::fs::read(p.path("probe")).unwrap();
    std::fs::write(p.path("half"), &probe[..probe.len() / 2]).unwrap();
    try_it("./half", 126, "it is cut off");
    try_it("./text", 126, "neither a riscv64 ELF program nor a script");
    try_it("./script", 126, "is not executable: chmod +x ./script");
    try_it("./dynamic", 126, "is not executable");
    executable(&p.path("dynamic"));
    try_it("./dynamic", 1, "needs a root file system");
    try_it("no-such-program", 127, "there is no no-such-program");
    try_it("./missing", 127, "cannot run ./missing");
    try_it("./text/below", 127, "cannot run ./text/below");
    try_it("/bin", 126, "is a directory");
    let here = std::env::current_exe().unwrap();
    try_it(here.to_str().unwrap(), 126, "not for riscv64");
    for (name, code) in [("./missing", 127), ("./text", 126), ("/bin", 126)] {
        for command in [
            &["compare", "--methods", "dram"][..],
            &["mem", "record", "-o", "t"],
        ] {
            nagori()
                .current_dir(p.dir.path())
                .args(command)
                .args(["--", name])
                .assert()
                .code(code);
        }
    }
    // A program's own failure, with a file of the host that the guest does not have.
    let try_cat = |more: &[&str]| {
        nagori()
            .timeout(PATIENCE)
            .current_dir(p.dir.path())
            .args(["run", "--functional", "--rootfs", "none"])
            .args(more)
            .args(["--", "busybox", "cat", "./text"])
            .assert()
    };
    let hint =
        "./text is a file of this host, which the guest does not have: --file ./text:/root/text";
    try_cat(&[]).code(1).stderr(contains(hint));
    let there = try_cat(&["--file", "./text:/root/text"]);
    there
        .code(0)
        .stdout("hello")
        .stderr(contains("of this host").not());
    // What is executable stays so, and nothing else becomes it.
    std::fs::write(p.path("script"), "#!/bin/busybox sh\necho ran\n").unwrap();
    let placed = |code: i32, out: &'static str| {
        nagori()
            .timeout(PATIENCE)
            .current_dir(p.dir.path())
            .args(["run", "--functional", "--rootfs", "none"])
            .args(["--file", "script:/root/script", "--"])
            .args(["busybox", "sh", "-c", "/root/script"])
            .assert()
            .code(code)
            .stdout(out);
    };
    placed(126, "");
    executable(&p.path("script"));
    placed(0, "ran\n");
    nagori().args(["run"]).assert().code(2);
    nagori()
        .args(["run", "--placement", "heap", "--", "./probe"])
        .current_dir(p.dir.path())
        .assert()
        .code(1)
        .stderr(contains("the program is static"));
}

#[test]
fn binary_data_goes_through_unchanged() {
    let Some(p) = Place::new() else { return };
    // Longer than any buffer on the way, with every byte in it.
    let mut x = 1u32;
    let data: Vec<u8> = (0..5_000_001)
        .map(|_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 24) as u8
        })
        .collect();
    std::fs::write(p.path("in"), &data).unwrap();
    for from_pipe in [false, true] {
        let mut c = if from_pipe {
            let mut c = p.run(&["-q", "--functional"], &["cat"]);
            c.write_stdin(data.clone());
            c
        } else {
            p.run(&["-q", "--functional", "--stdin", "in"], &["cat"])
        };
        let out = c.assert().code(0).stderr("");
        assert!(out.get_output().stdout == data, "pipe: {from_pipe}");
    }
}

#[test]
fn runs_are_the_same_and_regions_are_timed_alone() {
    let Some(p) = Place::new() else { return };
    for name in ["a", "b"] {
        p.run(&["-q", "--stdin", "none", "--json", name], &["touch", "1"])
            .assert()
            .code(0)
            .stdout("16384\n");
    }
    let [a, mut b] = ["a", "b"].map(|n| json(&p.path(n)));
    b["host"] = a["host"].clone();
    assert_eq!(a, b);
    assert_eq!(a["end"]["why"], "exit");
    assert!(number(&a, "/summary/guest_time_ps") > 0);
    assert_eq!(
        a.pointer("/machine_statistics/labels/0/text").unwrap(),
        "touch"
    );
    p.run(
        &["-q", "--region-of-interest", "--json", "c"],
        &["touch", "1"],
    )
    .assert()
    .code(0);
    let c = json(&p.path("c"));
    assert_eq!(number(&c, "/regions_of_interest"), 1);
    // The memory's lines, read once, and what the kernel needs for its page faults.
    let [reads, all] = [&c, &a].map(|v| number(v, "/summary/dram/reads"));
    assert!((16_384..2 * 16_384).contains(&reads), "{reads}");
    assert!(all > reads);
    let [part, whole] = [&c, &a].map(|v| number(v, "/summary/guest_time_ps"));
    assert!(part < whole / 2, "{part} {whole}");
}

#[test]
fn profiles_name_the_functions_of_the_program() {
    let Some(p) = Place::new() else { return };
    let args = ["-q", "--stdin", "none", "--json", "a"];
    p.run(&args, &["touch", "1"]).assert().code(0);
    let with = [&args[..4], &["b", "--profile", "p.folded"]].concat();
    p.run(&with, &["touch", "1"]).assert().code(0);
    let [a, mut b] = ["a", "b"].map(|n| json(&p.path(n)));
    b["host"] = a["host"].clone();
    assert_eq!(a, b, "the profile disturbs");
    let folded = std::fs::read_to_string(p.path("p.folded")).unwrap();
    let lines = || {
        folded
            .lines()
            .map(|l| l.rsplit_once(' ').expect("a number"))
    };
    assert!(lines().any(|(stack, _)| stack.contains(";user;") && stack.contains("main;[dram]")));
    // The kernel's functions have names, but for modules.
    let kernel = || lines().filter(|(stack, _)| stack.contains(";supervisor;"));
    let nameless = |stack: &str| stack.split(';').any(|f| f.starts_with("0xffffffff8"));
    let with_names = kernel().filter(|(stack, _)| !nameless(stack)).count();
    assert!(with_names > 10, "{folded}");
    assert_eq!(with_names, kernel().count(), "{folded}");
    assert!(
        kernel().any(|(stack, _)| stack.contains("handle_mm_fault")),
        "{folded}"
    );
    assert_eq!(
        waited_ns(&folded),
        20 * number(&a, "/summary/memory_stall_cycles")
    );
}

#[test]
fn the_first_interrupt_goes_to_the_program() {
    let Some(p) = Place::new() else { return };
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("nagori"))
        .current_dir(p.dir.path())
        .args([
            "run",
            "--functional",
            "--stdin",
            "none",
            "--json",
            "s",
            "--",
            "./probe",
            "wait",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "waiting\n");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "interrupted\n");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_eq!(json(&p.path("s"))["end"]["why"], "exit");
}

#[test]
fn methods_are_compared() {
    let Some(p) = Place::new() else { return };
    nagori()
        .timeout(PATIENCE)
        .current_dir(p.dir.path())
        .args([
            "compare",
            "--methods",
            "dram,extended",
            "--placement",
            "nvmm",
            "--json",
            "c",
            "--plot",
            "c.svg",
        ])
        .args(["--stdin", "none", "--", "./probe", "touch", "1"])
        .assert()
        .code(0)
        .stdout("16384\n")
        .stderr(contains("to medium ns"));
    let c = json(&p.path("c"));
    assert_eq!(c.pointer("/runs/0/run_time").unwrap(), 1.0);
    assert_eq!(c.pointer("/runs/1/method").unwrap(), "extended");
    assert!(c.pointer("/methods/1/run_time/mean").unwrap().as_f64() > Some(1.1));
    // Writes are posted: the medium is reached long after the answer.
    let nvmm = c.pointer("/runs/1/summary/nvmm").unwrap();
    let mean = |name: &str| nvmm[name].as_f64().unwrap();
    let answered = mean("write_latency_avg_ns");
    let medium = mean("write_to_medium_avg_ns");
    assert!(answered < 100.0 && medium > answered + 1000.0, "{nvmm:#}");
    let svg = std::fs::read_to_string(p.path("c.svg")).unwrap();
    assert!(svg.contains("extended") && svg.contains("./probe touch 1"));
}

#[test]
fn regions_and_warm_ups_that_were_not_are_told() {
    let Some(p) = Place::new() else { return };
    let roi = ["--stdin", "none", "--region-of-interest", "--json", "s"];
    let endless = [
        "--stdin",
        "none",
        "--warm-up",
        "1000000000000",
        "--json",
        "s",
    ];
    for (options, args, code, what, says) in [
        (
            &roi[..],
            ["exit", "0"],
            1,
            "region-never-began",
            "no region of interest began",
        ),
        (
            &roi,
            ["exit", "5"],
            5,
            "region-never-began",
            "no region of interest began",
        ),
        (
            &roi,
            ["open", "0"],
            0,
            "region-never-ended",
            "began and never ended",
        ),
        (
            &endless,
            ["exit", "0"],
            1,
            "warm-up-never-ended",
            "no statistics behind the warm-up",
        ),
    ] {
        p.run(options, &args)
            .assert()
            .code(code)
            .stderr(contains(says));
        let v = json(&p.path("s"));
        assert_eq!(v["problems"][0]["what"], what);
        assert_eq!(v["summary"].is_null(), what != "region-never-ended");
        assert_eq!(v["end"]["exit_code"], code);
    }
    // For human readers: no table of other figures.
    p.run(&roi[..3], &["exit", "0"])
        .assert()
        .code(1)
        .stderr(contains("CPI").not());
    p.run(&["--region-of-interest", "--no-markers"], &["exit", "0"])
        .assert()
        .code(2);
    p.run(&["--functional", "--warm-up", "9"], &["exit", "0"])
        .assert()
        .code(2);
}

#[test]
fn runs_that_did_not_end_are_not_compared() {
    let Some(p) = Place::new() else { return };
    nagori()
        .timeout(PATIENCE)
        .current_dir(p.dir.path())
        .args(["compare", "--methods", "dram,extended", "--timeout", "0.02"])
        .args([
            "--stdin", "none", "--json", "c", "--plot", "c.svg", "--", "./probe", "loop",
        ])
        .assert()
        .code(124)
        .stderr(contains("not every run was whole (timeout)"));
    let c = json(&p.path("c"));
    for run in c["runs"].as_array().unwrap() {
        assert_eq!(run["complete"], false);
        assert!(run["run_time"].is_null());
    }
    let svg = std::fs::read_to_string(p.path("c.svg")).unwrap();
    assert!(svg.contains("unfinished: timeout"));
}

#[test]
fn seeds_are_chance_that_can_be_repeated() {
    let Some(p) = Place::new() else { return };
    for (name, seed) in [("a", "1"), ("b", "1"), ("c", "2")] {
        let options = ["-q", "--stdin", "none", "--seed", seed, "--json", name];
        p.run(&options, &["touch", "1"]).assert().code(0);
    }
    let [a, mut b, c] = ["a", "b", "c"].map(|n| json(&p.path(n)));
    b["host"] = a["host"].clone();
    assert_eq!(a, b, "the same seed is the same run");
    let time = |v: &Value| number(v, "/summary/guest_time_ps");
    assert_ne!(time(&a), time(&c));
    nagori()
        .timeout(PATIENCE)
        .current_dir(p.dir.path())
        .args(["compare", "--methods", "dram,fine"])
        .args(["--repeats", "2", "--json", "d"])
        .args(["--stdin", "none", "--", "./probe", "touch", "1"])
        .assert()
        .code(0)
        .stdout("16384\n");
    let d = json(&p.path("d"));
    assert_eq!(d["seeds"], serde_json::json!([1, 2]));
    let dram = &d["methods"][0]["guest_time_ps"];
    let values = [time(&a), time(&c)].map(|t| t as f64);
    assert_eq!(dram["values"], serde_json::json!(values));
    let ends = [0, 1].map(|i| dram["ci95"][i].as_f64().unwrap());
    assert!(ends[0] < values[0].min(values[1]) && ends[1] > values[0].max(values[1]));
}

#[test]
fn the_clock_is_what_is_asked_for() {
    let Some(_) = image() else { return };
    let date = |rtc: &[&str]| -> u64 {
        let mut c = nagori();
        c.timeout(PATIENCE)
            .args(["-q", "run", "--functional", "--rootfs", "none"]);
        c.args(rtc).args(["--", "date", "+%s"]);
        let out = c.assert().code(0);
        let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        text.trim()
            .parse()
            .unwrap_or_else(|e| panic!("{e}: {text}"))
    };
    // 2030-01-01, and the little that a program takes to start.
    let start = 1_893_456_000;
    let first = date(&["--rtc", "2030-01-01"]);
    assert!((start..start + 60).contains(&first), "{first}");
    assert_eq!(date(&["--rtc", "2030-01-01"]), first, "runs are the same");
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let before = now();
    let host = date(&["--rtc", "host"]);
    assert!((before..=now() + 60).contains(&host), "{before} {host}");
    nagori()
        .args(["run", "--rtc", "yesterday", "--", "date"])
        .assert()
        .code(2)
        .stderr(contains("expected a date in UTC"));
}
