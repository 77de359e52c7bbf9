//! `nagori run` and `nagori compare` on real Debian, as a user runs them.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

mod common;

use common::debian::*;
use common::*;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A directory with the probe, compiled.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Option<Place> {
        let dir = TempDir::new().unwrap();
        let probe = dir.path().join("probe");
        let root = env!("CARGO_MANIFEST_DIR");
        let compiled = Command::new("riscv64-linux-gnu-gcc")
            .args(["-O2", "-static", "-Wall", "-Werror", "-o"])
            .arg(&probe)
            .arg(format!("-I{root}/../../guest/include"))
            .arg(format!("{root}/tests/programs/probe.c"))
            .status();
        match compiled {
            Ok(s) => assert!(s.success(), "the probe does not compile"),
            Err(_) if !tools_required() => {
                eprintln!("skipped: riscv64-linux-gnu-gcc is not installed");
                return None;
            }
            Err(e) => panic!("riscv64-linux-gnu-gcc: {e}"),
        }
        Some(Place { dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `nagori run` with options, then the probe with arguments.
    fn run(&self, options: &[&str], args: &[&str]) -> assert_cmd::Command {
        let mut c = nagori();
        c.timeout(PATIENCE).current_dir(self.dir.path());
        c.arg("run")
            .args(options)
            .args(["--", "./probe"])
            .args(args);
        c
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn number(v: &Value, path: &str) -> u64 {
    let found = v.pointer(path).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no {path} in {v:#}"))
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
    run(&[], &["./script", "a b"])
        .code(3)
        .stdout("/run/nagori/bin/script a b\n");
    // With libraries, and the heap on NVMM.
    run(
        &["--memory", "size>1000"],
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
                "--memory",
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
    try_it("./text", 1, "neither a riscv64 ELF program nor a script");
    try_it("./dynamic", 1, "needs a root file system");
    try_it("no-such-program", 127, "there is no no-such-program");
    try_it("./missing", 1, "cannot run ./missing");
    try_it("/bin", 1, "is a directory");
    let here = std::env::current_exe().unwrap();
    try_it(here.to_str().unwrap(), 1, "not for riscv64");
    nagori().args(["run"]).assert().code(2);
    nagori()
        .args(["run", "--memory", "heap", "--", "./probe"])
        .current_dir(p.dir.path())
        .assert()
        .code(1)
        .stderr(contains("it is static"));
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
        let mut c = match from_pipe {
            true => {
                let mut c = p.run(&["-q", "--functional"], &["cat"]);
                c.write_stdin(data.clone());
                c
            }
            false => p.run(&["-q", "--functional", "--stdin", "in"], &["cat"]),
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
    let ns: u64 = lines().map(|(_, n)| n.parse::<u64>().unwrap()).sum();
    assert_eq!(ns, 20 * number(&a, "/summary/memory_stall_cycles"));
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
            "--json",
            "c",
            "--plot",
            "c.svg",
        ])
        .args(["--stdin", "none", "--", "./probe", "touch", "1"])
        .assert()
        .code(0)
        .stdout("16384\n");
    let c = json(&p.path("c"));
    assert_eq!(c.pointer("/runs/0/run_time").unwrap(), 1.0);
    assert_eq!(c.pointer("/runs/1/method").unwrap(), "extended");
    let svg = std::fs::read_to_string(p.path("c.svg")).unwrap();
    assert!(svg.contains("extended") && svg.contains("./probe touch 1"));
}
