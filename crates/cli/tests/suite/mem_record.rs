//! `nagori mem record`: traces of the host's programs.
//!
//! Needs gcc and Valgrind; skipped where one is missing, unless NAGORI_REQUIRE_TOOLS=1.

use crate::common::*;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Writes one word in each of LINES lines, once or twice, and ends with 3.
const WRITER: &str = "
static volatile long words[LINES * 8];
int main(int argc, char **argv)
{
    (void)argv;
    for (int round = 0; round < argc; round++)
        for (long i = 0; i < LINES; i++)
            words[i * 8] = i;
    return 3;
}";
const LINES: u64 = 1 << 16;

fn compiled(dir: &Path, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    if !tool("gcc") || !tool("valgrind") {
        return None;
    }
    let file = dir.join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let program = dir.join(name);
    let compiled = std::process::Command::new("gcc")
        .args(options)
        .arg("-o")
        .args([&program, &file])
        .status();
    assert!(compiled.unwrap().success());
    Some(program)
}

fn program(dir: &Path) -> Option<PathBuf> {
    let lines = format!("-DLINES={LINES}");
    compiled(dir, "writer", WRITER, &["-O1", "-static", &lines])
}

fn record(options: &[&str], program: &[&str], report: &Path) -> Value {
    record_to(3, options, program, report)
}

fn record_to(code: i32, options: &[&str], program: &[&str], report: &Path) -> Value {
    nagori()
        .args(["-q", "mem", "record", "--report"])
        .arg(report)
        .args(options)
        .arg("--")
        .args(program)
        .assert()
        .code(code);
    serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap()
}

fn within(value: &Value, low: u64, high: u64, what: &str) {
    let n = value.as_u64().unwrap();
    assert!(
        (low..=high).contains(&n),
        "{what}: {n}, not {low} to {high}"
    );
}

#[test]
fn lines_of_a_program_reach_memory_through_the_caches() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = program(dir.path()) else {
        return;
    };
    let program = program.to_str().unwrap();
    let file = |name: &str| dir.path().join(name);
    let (trace, report) = (file("t.trc"), file("r.json"));
    let to = trace.to_str().unwrap();

    // L1 of 16 KiB alone: each line is read, and written back but for the last 256.
    let r = record(&["--machine", "vc707", "-o", to], &[program], &report);
    let played = nagori()
        .args([
            "-q", "mem", "run", "--memory", "ddr4", "--json", "--trace", to,
        ])
        .output()
        .unwrap();
    let played: Value = serde_json::from_slice(&played.stdout).unwrap();
    // The program's beginning and end touch some lines, too.
    let (few, l1) = (6000, 256);
    within(&played["reads"], LINES, LINES + few, "reads");
    within(&played["writes"], LINES - l1, LINES + few / 2, "writes");
    within(
        &r["instructions"],
        3 * LINES,
        8 * LINES + 500_000,
        "instructions",
    );
    within(
        &r["touched_bytes"],
        LINES * 64,
        LINES * 64 + (2 << 20),
        "memory",
    );
    assert_eq!(r["records"], played["records"]);

    // 4 MiB stay in a level of 20 MiB.
    let r = record(&["-o", to, "--to", "ramulator"], &[program, "x"], &report);
    within(&r["records"], LINES, LINES + few, "records");
    within(
        &r["levels"][1]["hits"],
        LINES,
        LINES + few,
        "hits of the second round",
    );
    let text = std::fs::read_to_string(&trace).unwrap();
    assert_eq!(text.lines().count() as u64, r["records"].as_u64().unwrap());

    // An equal run gives an equal trace.
    let again = file("again.trc");
    record(
        &["-o", again.to_str().unwrap(), "--to", "ramulator"],
        &[program, "x"],
        &report,
    );
    assert!(std::fs::read_to_string(&again).unwrap() == text);

    // Whatever the first instructions touch is left out.
    let r = record(&["-o", to, "--skip", "100000000"], &[program], &report);
    assert_eq!(r["records"], 0);
    nagori()
        .args(["mem", "record", "--limit", "500", "-o", to, program])
        .assert()
        .code(0)
        .stderr(contains("ended after --limit").and(contains("500 accesses of")));
}

/// Without a C library, so that each instruction and each line is known.
const EXACT: &str = r#"
asm(".globl _start\n"
    ".text\n"
    ".p2align 6\n"
    "_start:\n"
    /* 2 + 3 * 1000 instructions; a line for each word. */
    "  lea data(%rip), %rdi\n"
    "  mov $1000, %ecx\n"
    "1:\n"
    "  add $64, %rdi\n"
    "  addq $1, -64(%rdi)\n"
    "  loop 1b\n"
    /* Two lines by one load, none by a store that does not happen, one by an atomic operation. */
    "  movdqu 56(%rdi), %xmm0\n"
    "  lock cmpxchg %rax, 256(%rdi)\n"
    /* Each repetition is an instruction, and so is the end: 3 + 25, three lines read, three written. */
    "  lea 4096(%rdi), %rsi\n"
    "  mov $24, %ecx\n"
    "  add $8192, %rdi\n"
    "  rep movsq\n"
    "  mov $3, %edi\n"
    "  mov $60, %eax\n"
    "  syscall\n"
    ".bss\n"
    ".p2align 12\n"
    "data: .zero 131072\n");
"#;

#[test]
fn every_instruction_and_every_line_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["-static", "-nostdlib", "-Wl,--build-id=none"];
    let Some(program) = compiled(dir.path(), "exact", EXACT, &options) else {
        return;
    };
    let trace = dir.path().join("t.txt");
    let to = [
        "--machine",
        "server-caches",
        "--to",
        "ramulator",
        "-o",
        trace.to_str().unwrap(),
    ];
    let r = record(
        &to,
        &[program.to_str().unwrap()],
        &dir.path().join("r.json"),
    );
    assert_eq!(r["instructions"], 2 + 3000 + 2 + 3 + 25 + 3);
    let text = std::fs::read_to_string(&trace).unwrap();
    let code = 2;
    assert_eq!(text.lines().count(), 1000 + 2 + 1 + 6 + code, "{text}");
    assert!(text.lines().all(|l| l.starts_with("LD")));
}

/// Does what its first argument says, and touches LINES lines of `words`.
const ACTS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long words[LINES * 8];
static void *touch(void *from)
{
    for (long i = from ? LINES / 2 : 0; i < (from ? LINES : LINES / 2); i++)
        words[i * 8] = i;
    return 0;
}
static void on_signal(int number)
{
    touch(0);
    touch((void *)words);
    _exit(3);
}
int main(int argc, char **argv)
{
    pthread_t other;
    int status;
    switch (argv[1][0]) {
    case 't': /* threads */
        pthread_create(&other, 0, touch, (void *)words);
        touch(0);
        pthread_join(other, 0);
        return 3;
    case 'f': /* fork */
        if (fork() == 0) {
            touch(0);
            touch((void *)words);
            _exit(0);
        }
        wait(&status);
        return 3;
    case 'e': /* exec */
        touch(0);
        touch((void *)words);
        execl(argv[0], argv[0], "fork", (char *)0);
        return 1;
    case 'c': /* close */
        for (int i = 3; i < 1024; i++)
            close(i);
        touch(0);
        touch((void *)words);
        return 3;
    case 'h': /* handler */
        signal(SIGSEGV, on_signal);
        *(volatile int *)8 = 0;
        return 1;
    default: /* signal */
        touch(0);
        touch((void *)words);
        *(volatile int *)8 = 0;
        return 1;
    }
}"#;

#[test]
fn threads_children_and_signals_are_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let lines = format!("-DLINES={LINES}");
    let options = ["-O1", "-pthread", &lines];
    let Some(program) = compiled(dir.path(), "acts", ACTS, &options) else {
        return;
    };
    let (program, few) = (program.to_str().unwrap(), 12_000);
    let trace = dir.path().join("t.trc");
    let to = ["-o", trace.to_str().unwrap()];
    for (act, code, seen) in [
        ("threads", 3, LINES),
        ("fork", 3, 0),
        ("exec", 3, LINES),
        ("close", 3, LINES),
        ("handler", 3, LINES),
        ("signal", 128 + 11, LINES),
    ] {
        let report = dir.path().join(format!("{act}.json"));
        let r = record_to(code, &to, &[program, act], &report);
        within(&r["records"], seen, seen + few, act);
    }
}

/// A header of an ELF file for another machine.
fn foreign(machine: u16) -> Vec<u8> {
    let mut head = vec![0; 64];
    head[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    head[18..20].copy_from_slice(&machine.to_le_bytes());
    head
}

#[test]
fn what_cannot_be_recorded_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();
    let script = script.to_str().unwrap();
    let (arm, riscv) = (dir.path().join("arm"), dir.path().join("riscv"));
    std::fs::write(&arm, foreign(183)).unwrap();
    std::fs::write(&riscv, foreign(243)).unwrap();
    for file in [script, arm.to_str().unwrap(), riscv.to_str().unwrap()] {
        std::fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
    }
    let trace = dir.path().join("t.trc");
    for (args, what, code) in [
        (&["no-such-program"][..], "no such program in PATH", 127),
        (
            &[script],
            "no ELF program; of a script, name the interpreter",
            126,
        ),
        (&[arm.to_str().unwrap()], "not for x86-64", 126),
        (&[riscv.to_str().unwrap()], "nagori run --trace-bus", 126),
        (&["/proc"], "/proc is a directory", 126),
        (&["--to", "gem5", "sh"], "--cycle", 1),
        (&["--to", "ramulator-vector", "sh"], "address mapping", 1),
        (&["--machine", "none", "sh"], "none", 1),
    ] {
        nagori()
            .args(["mem", "record", "-o"])
            .arg(&trace)
            .args(args)
            .assert()
            .code(code)
            .stderr(contains(what));
        assert!(!trace.exists());
    }
}
