//! `nagori bare` with tiny programs.

use crate::common::*;
use nagori_isa::Op;
use predicates::prelude::*;
use predicates::str::{contains, is_match};
use std::path::Path;

fn bare(program: &Path) -> assert_cmd::Command {
    let mut c = nagori();
    c.args(["bare", "--machine", "small"]).arg(program);
    c
}

#[test]
fn output_and_exit_code_are_the_guests() {
    let files = Files::new();
    for (code, modes) in [(0, "--functional"), (7, "--timed"), (255, "--functional")] {
        let program = Program::new().print("hello, board\n").exit(code);
        let path = files.write("hello.elf", &program.elf());
        bare(&path)
            .arg(modes)
            .assert()
            .code(code)
            .stdout("hello, board\n")
            .stderr("");
    }
}

#[test]
fn exit_codes_that_do_not_fit_are_told() {
    let files = Files::new();
    let path = files.write("big.elf", &Program::new().exit(300).elf());
    bare(&path)
        .assert()
        .code(255)
        .stderr(contains("the guest's exit code is 300"));
    bare(&path).arg("--quiet").assert().code(255).stderr("");
}

#[test]
fn every_hart_has_its_number_and_the_device_tree() {
    // The last hart prints the first byte of the tree at a1 (0xd0) as a character of its own.
    let program = Program::new()
        .op(Op::Addi, T1, ZERO, 0, 3)
        .op(Op::Bne, 0, A0, T1, 0)
        .op(Op::Lbu, T2, A1, 0, 0)
        .op(Op::Addi, T2, T2, 0, i32::from(b'!') - 0xd0)
        .li(T0, UART)
        .op(Op::Sb, 0, T0, T2, 0)
        .exit(0);
    let files = Files::new();
    let path = files.write("harts.elf", &program.elf());
    nagori()
        .arg("bare")
        .arg(&path)
        .assert()
        .code(0)
        .stdout("!\n");
}

#[test]
fn parallel_runs_say_that_they_are_not_deterministic() {
    let files = Files::new();
    let path = files.write("hello.elf", &Program::new().print("hello\n").exit(4).elf());
    let run = |extra: &[&str]| {
        let mut c = bare(&path);
        c.args(["--set", "harts=4", "--parallel"]).args(extra);
        c.assert()
    };
    run(&["--quiet"]).code(4).stderr("");
    run(&["--functional", "--skew", "500", "--stats", "json"])
        .code(4)
        .stderr(contains("not deterministic"))
        .stdout(contains("\"parallel\": true"));
    run(&["--timed", "--stats", "json"])
        .code(4)
        .stdout(contains("\"parallel\": true").not());
    run(&["--functional", "--stats", "table"])
        .code(4)
        .stdout(contains("not deterministic"));
    run(&["--trace", "exec", "--trace-file", "t"]).code(2);
    bare(&path).args(["--skew", "5"]).assert().code(2);
    run(&["--set", "memory.track_persistence=true"])
        .code(1)
        .stdout("")
        .stderr(contains("track_persistence=false"));
    // A snapshot on the way, of which the time is not exact.
    let path = files.write("endless.elf", &endless().elf());
    let snapshot = files.path("s.snap");
    bare(&path)
        .args(["--functional", "--parallel"])
        .args(["--snapshot-at", "100000", "--snapshot-exit"])
        .arg("--snapshot")
        .arg(&snapshot)
        .assert()
        .code(0);
    nagori()
        .arg("resume")
        .arg(&snapshot)
        .args(["--parallel", "--max-instructions", "200000"])
        .args(["--stats", "json"])
        .assert()
        .code(124)
        .stdout(contains("\"parallel\": true"));
}

#[test]
fn a_limit_ends_an_endless_loop() {
    let files = Files::new();
    let path = files.write("endless.elf", &endless().elf());
    for mode in ["--functional", "--timed"] {
        bare(&path)
            .args([mode, "--max-instructions", "100000", "--stats", "json"])
            .assert()
            .code(124)
            .stderr(contains("the instruction limit was reached"))
            .stdout(contains("\"instructions\": 100000"))
            .stdout(contains("\"why\": \"instruction-limit\""));
    }
}

#[test]
fn waiting_for_ever_is_noticed() {
    let files = Files::new();
    let program = Program::new()
        .op(Op::Wfi, 0, 0, 0, 0)
        .op(Op::Jal, 0, 0, 0, -4);
    let path = files.write("wait.elf", &program.elf());
    bare(&path)
        .assert()
        .code(125)
        .stderr(contains("every hart waits"));
}

#[test]
fn a_machine_runs_what_its_description_lists() {
    // A trap handler that exits with mcause, a multiplication, an atomic.
    let program = Program::new()
        .op(Op::Auipc, T0, 0, 0, 0)
        .op(Op::Addi, T0, T0, 0, 32)
        .op(Op::Csrrw, 0, T0, 0, 0x305)
        .op(Op::Auipc, T2, 0, 0, 0x1000)
        .op(Op::Mul, T1, T0, T0, 0)
        .op(Op::AmoaddW, T1, T2, T0, 0)
        .op(Op::Addi, T1, ZERO, 0, 0)
        .op(Op::Beq, 0, ZERO, ZERO, 8)
        .op(Op::Csrrs, T1, ZERO, 0, 0x342)
        .op(Op::Slli, T1, T1, 0, 16)
        .li(T2, 0x3333)
        .op(Op::Or, T1, T1, T2, 0)
        .li(T0, SYSCON)
        .op(Op::Sw, 0, T0, T1, 0)
        .op(Op::Jal, 0, 0, 0, 0);
    let files = Files::new();
    let path = files.write("small.elf", &program.elf());
    const ILLEGAL: i32 = 2;
    for (isa, code) in [
        (r#"isa=["i","m","a","zicsr"]"#, 0),
        (r#"isa=["i","a","zicsr"]"#, ILLEGAL),
        (r#"isa=["i","m","zicsr"]"#, ILLEGAL),
    ] {
        for mode in ["--timed", "--functional"] {
            bare(&path).args(["--set", isa, mode]).assert().code(code);
        }
    }
    // The trace reads instructions as the machine does.
    let trace = files.path("trace.txt");
    bare(&path)
        .args(["--set", r#"isa=["i","zicsr"]"#, "--trace", "exec"])
        .arg("--trace-file")
        .arg(&trace)
        .assert()
        .code(ILLEGAL);
    let text = std::fs::read_to_string(trace).unwrap();
    assert_eq!(text.matches("(illegal)").count(), 1, "{text}");
    assert!(!text.contains("mul"), "{text}");
    bare(&path)
        .args(["--set", r#"isa=["i","zicsr","d"]"#])
        .assert()
        .code(1)
        .stderr(contains("`d` cannot be without `f`"));
}

/// Stores `word` to a zeroed doubleword behind the program that is called tohost.
fn to_host(first: u64, second: Option<u64>) -> Vec<u8> {
    let store = |p: Program, word: u64| {
        p.li(T1, (word >> 32) as i32)
            .op(Op::Slli, T1, T1, 0, 32)
            .li(T2, word as u32 as i32)
            .op(Op::Or, T1, T1, T2, 0)
            .op(Op::Auipc, T0, 0, 0, 0)
            .op(Op::Sd, 0, T0, T1, 1024)
    };
    let mut p = store(Program::new(), first);
    if let Some(word) = second {
        p = p
            .op(Op::Ld, T2, T0, 0, 1024)
            .op(Op::Bne, 0, T2, ZERO, -4)
            .li(T1, word as i32)
            .op(Op::Sd, 0, T0, T1, 1024);
    }
    p.op(Op::Jal, 0, 0, 0, 0).tohost(BASE + 4 * 6 + 1024).elf()
}

#[test]
fn htif_ends_and_prints() {
    let files = Files::new();
    for (word, code) in [(1, 0), (5 << 1 | 1, 5)] {
        let path = files.write("htif.elf", &to_host(word, None));
        bare(&path).assert().code(code);
    }
    let put = 0x0101 << 48 | u64::from(b'X');
    let path = files.write("htif.elf", &to_host(put, Some(1)));
    bare(&path).assert().code(0).stdout("X\n");
    for (word, problem) in [
        (0x0203 << 48, "there is no command 3 of device 2"),
        (0x1000, "arguments at 0x1000, where there is no memory"),
    ] {
        let path = files.write("htif.elf", &to_host(word, None));
        bare(&path).assert().code(1).stderr(contains(problem));
    }
}

#[test]
fn a_restart_loads_the_program_again() {
    // Counts in memory that no file fills, and in memory that a restart clears.
    let program = Program::new()
        .op(Op::Auipc, T0, 0, 0, 0)
        .op(Op::Lw, T1, T0, 0, 1024)
        .op(Op::Bne, 0, T1, ZERO, 84)
        .op(Op::Addi, T1, ZERO, 0, 1)
        .op(Op::Sw, 0, T0, T1, 1024)
        .op(Op::Lui, T2, 0, 0, 0x10_0000)
        .op(Op::Add, T0, T0, T2, 0)
        .op(Op::Lw, T1, T0, 0, 0)
        .op(Op::Addi, T2, T1, 0, 1)
        .op(Op::Sw, 0, T0, T2, 0)
        .op(Op::Bne, 0, T1, ZERO, 28)
        .syscon(0x7777)
        .exit(9)
        .exit(3);
    let files = Files::new();
    let path = files.write("again.elf", &program.elf());
    bare(&path).assert().code(9);
}

#[test]
fn input_reaches_the_program() {
    let files = Files::new();
    let path = files.write("echo.elf", &echo().elf());
    bare(&path)
        .write_stdin("abcq")
        .assert()
        .code(5)
        .stdout("ready\nabcq\n");
}

#[test]
fn a_trace_is_as_recorded() {
    let program = Program::new()
        .li(T0, UART)
        .op(Op::Addi, T1, ZERO, 0, 0x41)
        .label("put")
        .op(Op::Sb, 0, T0, T1, 0)
        .op(Op::Auipc, T2, 0, 0, 0)
        .op(Op::Addi, T2, T2, 0, 16)
        .op(Op::Csrrw, 0, T2, 0, 0x305)
        .op(Op::Ecall, 0, 0, 0, 0)
        .label("handler")
        .exit(0);
    let files = Files::new();
    let path = files.write("trace.elf", &program.elf());
    let trace = files.path("trace.txt");
    bare(&path)
        .args(["--functional", "--trace", "exec,mem", "--trace", "irq"])
        .arg("--trace-file")
        .arg(&trace)
        .assert()
        .code(0);
    golden("trace.txt", &std::fs::read_to_string(&trace).unwrap());
    bare(&path)
        .args(["--functional", "--trace", "commit", "--trace-file"])
        .arg(&trace)
        .assert()
        .code(0);
    golden("commits.txt", &std::fs::read_to_string(trace).unwrap());
}

#[test]
fn lines_that_are_written_back_are_traced_in_front_of_their_reason() {
    let program = Program::new()
        .li(T0, 0x4080_0000)
        .op(Op::Slli, T0, T0, 0, 1)
        .op(Op::Sd, 0, T0, T0, 8)
        .op(Op::CboFlush, 0, T0, 0, 0)
        .exit(0);
    let files = Files::new();
    let path = files.write("flush.elf", &program.elf());
    let trace = files.path("trace.txt");
    bare(&path)
        .args(["--timed", "--trace", "lines,mem", "--trace-file"])
        .arg(&trace)
        .assert()
        .code(0);
    let text = std::fs::read_to_string(trace).unwrap();
    let said: Vec<&str> = text
        .lines()
        .filter_map(|l| l.split_once("> "))
        .map(|(_, what)| what)
        .filter(|what| what.contains("0x81000"))
        .collect();
    assert_eq!(
        said,
        [
            "write 8 0x0000000081000008 mem[0x81000008]=0x81000000",
            "write-back 0x81000000 flush",
            "flush 64 0x0000000081000000 mem[0x81000000]",
        ]
    );
}

#[test]
fn statistics_as_recorded() {
    // One load from each of 64 lines of NVMM.
    let program = Program::new()
        .li(T0, 0x4400_0000)
        .op(Op::Slli, T0, T0, 0, 1)
        .op(Op::Addi, T2, ZERO, 0, 64)
        .op(Op::Ld, T1, T0, 0, 0)
        .op(Op::Addi, T0, T0, 0, 64)
        .op(Op::Addi, T2, T2, 0, -1)
        .op(Op::Bne, 0, T2, ZERO, -12)
        .exit(0);
    let files = Files::new();
    let path = files.write("load.elf", &program.elf());
    let run = |extra: &[&str]| {
        let out = bare(&path)
            .args(["--method", "extended"])
            .args(extra)
            .assert()
            .code(0);
        let text = String::from_utf8(out.get_output().stdout.clone()).unwrap();
        // What the host needed differs from run to run.
        text.split("\nhost (").next().unwrap().to_string()
    };
    let table = run(&["--stats", "table"]);
    assert!(
        predicate::str::is_match("reads +[0-9]+ +64 ")
            .unwrap()
            .eval(&table),
        "{table}"
    );
    assert_eq!(table, run(&["--stats", "table"]), "two runs differ");
    let functional = run(&["--stats", "table", "--functional"]);
    golden("stats-functional.txt", &functional);

    let json = files.path("stats.json");
    run(&["--stats-file", json.to_str().unwrap()]);
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(value["memory"]["nvmm"]["counters"]["reads"], 64);
    assert_eq!(value["memory"]["method"], "extended");
    assert_eq!(value["end"]["exit_code"], 0);
    assert_eq!(value["harts"].as_array().unwrap().len(), 1);
}

/// A loop of `n` rounds, and the end.
fn rounds(n: i32) -> Program {
    Program::new()
        .li(T0, n)
        .label("again")
        .op(Op::Addi, T0, T0, 0, -1)
        .op(Op::Bne, 0, T0, ZERO, -4)
        .exit(0)
}

#[test]
fn what_the_host_needed_is_told_apart() {
    let files = Files::new();
    let path = files.write("loop.elf", &rounds(100_000).elf());
    let run = |engine: &str| -> serde_json::Value {
        let mut c = bare(&path);
        c.args(["--functional", "--stats", "json", "--engine", engine]);
        let out = c.assert().code(0).get_output().stdout.clone();
        serde_json::from_slice(&out).unwrap()
    };
    let (mut t, mut i) = (run("translator"), run("interpreter"));
    let host = t["host"].take();
    assert_eq!(i["host"].take()["engine"], "interpreter");
    assert_eq!(t, i, "what the guest did depends on the engine");

    assert_eq!(host["engine"], "translator");
    let h = &host["harts"][0];
    let number = |v: &serde_json::Value| v.as_u64().unwrap();
    assert!(number(&h["blocks"]) >= 1);
    assert!(number(&h["code_memory_used"]) <= number(&h["code_memory"]));
    let retired = &h["retired"];
    let all = number(&retired["translated_code"]) + number(&retired["interpreter"]);
    assert_eq!(all, number(&t["instructions"]));
    assert!(number(&retired["translated_code"]) > 199_000, "{retired}");
    assert!(number(&h["time_ns"]["translated_code"]) > 0);
    let exits = h["exits"].as_object().unwrap();
    let left: u64 = exits
        .iter()
        .filter(|e| e.0 != "cold")
        .map(|e| number(e.1))
        .sum();
    assert_eq!(left, number(&h["entries"]));
    assert!(number(&exits["device"]) <= 1 && number(&exits["cold"]) > 0);

    let mut c = bare(&path);
    c.args(["--stats", "table", "--engine", "translator"]);
    c.assert()
        .code(0)
        .stdout(is_match("host \\(differs from run to run\\): translator").unwrap())
        .stdout(is_match("blocks translated +[0-9]+\n").unwrap())
        .stdout(is_match("exits: budget +[0-9]+\n").unwrap());
}

#[test]
fn a_map_for_perf_names_blocks() {
    let files = Files::new();
    let path = files.write("loop.elf", &rounds(100_000).elf());
    let out = bare(&path).arg("--perf-map").assert().code(0);
    let text = String::from_utf8(out.get_output().stderr.clone()).unwrap();
    let name = text
        .split_whitespace()
        .find(|w| w.starts_with("/tmp/perf-"));
    let map = Path::new(name.unwrap().trim_end_matches(':'));
    let lines = std::fs::read_to_string(map).unwrap();
    std::fs::remove_file(map).unwrap();
    let line = lines.lines().find(|l| l.ends_with(":again"));
    let fields: Vec<&str> = line
        .unwrap_or_else(|| panic!("{lines}"))
        .split(' ')
        .collect();
    assert_eq!(fields[2], "hart0:timed:0x80000008:again");
    for number in &fields[..2] {
        assert!(u64::from_str_radix(number, 16).unwrap() > 0, "{lines}");
    }

    bare(&path)
        .args(["--perf-map", "--engine", "interpreter"])
        .assert()
        .code(1)
        .stderr(contains("the interpreter has no translated code"));
}

#[test]
fn what_is_wrong_with_a_file_is_told() {
    let files = Files::new();
    let elf = endless().elf();
    let cases: [(&[u8], &str); 4] = [
        (b"hello", "it is no ELF file"),
        (&elf[..100], "ELF structure is damaged"),
        (&elf[..121], "past the end of the file"),
        (&endless().elf_for(62), "another processor (ELF machine 62)"),
    ];
    for (bytes, what) in cases {
        let path = files.write("bad.elf", bytes);
        bare(&path)
            .assert()
            .code(1)
            .stdout("")
            .stderr(contains(what).and(contains("bad.elf")))
            .stderr(is_match("^error: ").unwrap());
    }
    bare(&files.path("none.elf"))
        .assert()
        .code(1)
        .stderr(contains("cannot read").and(contains("none.elf")));
    let path = files.write("good.elf", &elf);
    bare(&path)
        .args(["--trace", "exec", "--trace-file", "/no/such/trace"])
        .assert()
        .code(1)
        .stderr(contains("--trace-file").and(contains("cannot write /no/such/trace")));
}

#[test]
fn programs_for_linux_are_recognised() {
    let files = Files::new();
    let mut elf = Program::new().exit(0).elf();
    // Entry, virtual and physical address.
    for at in [24, 64 + 16, 64 + 24] {
        elf[at..at + 8].copy_from_slice(&0x10000u64.to_le_bytes());
    }
    let path = files.write("linux", &elf);
    bare(&path)
        .assert()
        .code(1)
        .stderr(contains("nagori run").and(contains("0x10000")))
        .stderr(contains("more DRAM").not());
    // With a dynamic linker: program headers of types INTERP and LOAD.
    let mut dynamic = elf.clone();
    let (len, name) = (dynamic.len() as u64, b"/lib/ld.so\0");
    dynamic[64..68].copy_from_slice(&3u32.to_le_bytes());
    dynamic[72..80].copy_from_slice(&len.to_le_bytes());
    dynamic[96..104].copy_from_slice(&(name.len() as u64).to_le_bytes());
    dynamic.extend(name);
    bare(&files.write("dynamic", &dynamic))
        .assert()
        .code(1)
        .stderr(contains("nagori run"));
}

#[test]
fn warm_ups_and_regions_that_were_not_are_told() {
    let files = Files::new();
    let program = Program::new().print("some instructions\n");
    let path = files.write("short.elf", &program.exit(0).elf());
    let stats = files.path("stats.json");
    let run = |path: &Path, more: &[&str]| {
        bare(path)
            .args(more)
            .arg("--stats-file")
            .arg(&stats)
            .assert()
    };
    let problems = || {
        let v: serde_json::Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
        (v["problems"].clone(), v["end"]["exit_code"].clone())
    };
    run(&path, &["--warm-up", "100000"])
        .code(1)
        .stderr(contains("no statistics behind the warm-up"));
    assert_eq!(problems().0[0]["what"], "warm-up-never-ended");
    assert_eq!(problems().1, 1);
    run(&path, &["--functional", "--warm-up", "5"])
        .code(1)
        .stderr(contains("never turned on"));
    run(&path, &["--warm-up", "5"]).code(0).stderr("");
    assert_eq!(problems().0, serde_json::json!([]));
    // The guest's own code goes first.
    let path = files.write("seven.elf", &Program::new().exit(7).elf());
    run(&path, &["--warm-up", "100000"]).code(7);
    // A region of interest begins.
    let program = Program::new().op(Op::MarkRoiBegin, 0, 0, 0, 0);
    let path = files.write("open.elf", &program.exit(0).elf());
    run(&path, &[])
        .code(0)
        .stderr(contains("a region of interest began and never ended"));
    assert_eq!(problems().0[0]["what"], "region-never-ended");
}
