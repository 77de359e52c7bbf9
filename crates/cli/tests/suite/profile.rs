//! `--profile` on a program with frame pointers.

use crate::common::*;
use flate2::read::GzDecoder;
use nagori_profile::pprof::proto;
use predicates::prelude::PredicateBooleanExt;
use prost::Message;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

fn read(path: &Path) -> proto::Profile {
    let file = std::fs::File::open(path).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    proto::Profile::decode(&bytes[..]).unwrap()
}

fn run(program: &Path, more: &[&str]) -> Value {
    let mut c = nagori();
    c.args(["bare", "--set", "harts=2", "--stats", "json"])
        .args(["--max-instructions", "100000000"]);
    let out = c.args(more).arg(program).assert().success();
    let mut v: Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
    v.as_object_mut().unwrap().remove("host");
    v
}

#[test]
fn every_wait_is_attributed_and_costs_nothing() {
    if !tool("riscv64-linux-gnu-gcc") {
        return;
    }
    let files = Files::new();
    let program = debuggee(&files, 2);
    let path = files.path("out.pb.gz");
    let p = path.to_str().unwrap();
    let want = run(&program, &[]);
    let mut written = Vec::new();
    for engine in ["--engine=interpreter", "--engine=translator"] {
        assert_eq!(run(&program, &["--profile", p, engine]), want);
        written.push((std::fs::read(&path).unwrap(), read(&path)));
    }
    assert!(written[0].0 == written[1].0, "engines are equal");
    let got = &written[0].1;

    let sum = |i: usize| got.sample.iter().map(|s| s.value[i]).sum::<i64>();
    let field =
        |of: &Value, name: &str| of[name].as_i64().unwrap_or_else(|| panic!("{name}: {of}"));
    let harts = want["harts"].as_array().unwrap();
    let stalled = harts.iter().map(|h| field(h, "memory_stall_cycles"));
    let stalled: i64 = stalled.sum();
    // 50 MHz: twenty nanoseconds a cycle.
    assert_eq!(sum(0), 20 * stalled);
    let moved = |name: &str| {
        let of = |region: &str| field(&want["memory"][region]["counters"], name);
        of("dram") + of("nvmm")
    };
    assert_eq!((sum(1), sum(2)), (moved("reads"), moved("writes")));

    // The program was compiled with -g: its functions have a file, and places in them lines.
    let text = |n: i64| got.string_table[n as usize].as_str();
    let function = |name: &str| { got.function.iter() }.find(|f| text(f.name) == name);
    let fill = function("fill").expect("fill");
    assert!(text(fill.filename).ends_with("debuggee.c"));
    let source = include_str!("../guests/debuggee.c");
    let lines = got.location.iter().flat_map(|l| &l.line);
    let lines: Vec<usize> = { lines.filter(|l| l.function_id == fill.id) }
        .map(|l| l.line as usize)
        .collect();
    let begin = 1 + { source.lines() }
        .position(|l| l.contains("fill("))
        .expect("fill");
    assert!(!lines.is_empty() && lines.iter().all(|l| (begin..begin + 20).contains(l)));

    let folded = std::fs::read_to_string(files.path("out.pb.gz.folded")).unwrap();
    let line = |frames: &str| folded.lines().any(|l| l.contains(frames));
    assert!(
        line("physical;machine;_start;work;finish;fill;[dram] "),
        "{folded}"
    );
    assert!(line(";work;finish;fibonacci;"), "{folded}");

    // Only the text, and names that are given.
    let text = files.path("flat.folded");
    let symbols = files.write("list", b"0000000080000000 T everything\n");
    let args = [
        "--profile",
        text.to_str().unwrap(),
        "--symbols",
        symbols.to_str().unwrap(),
    ];
    assert_eq!(run(&program, &args), want);
    let folded = std::fs::read_to_string(&text).unwrap();
    assert!(
        folded.lines().all(|l| l.contains(";everything;")),
        "{folded}"
    );
}

#[test]
fn what_cannot_be_used_is_told_before_the_run() {
    let files = Files::new();
    let program = files.write("endless.elf", &endless().elf());
    let list = files.write("list", b"hello there friend\n");
    let out = files.path("out");
    let run = |args: &[&str]| {
        let mut c = nagori();
        c.args(["bare", "--machine", "small"])
            .args(args)
            .arg(&program)
            .assert()
            .code(1)
    };
    let symbols = list.to_str().unwrap();
    run(&["--profile", out.to_str().unwrap(), "--symbols", symbols])
        .stderr(predicates::str::contains("neither an ELF file nor a list"));
    run(&[
        "--profile",
        out.to_str().unwrap(),
        "--symbols",
        "nothing@xyz",
    ])
    .stderr(predicates::str::contains("no hexadecimal address"));
    run(&["--profile", "/nowhere/at/all"]).stderr(
        predicates::str::contains("--profile")
            .and(predicates::str::contains("cannot write /nowhere/at/all")),
    );
}
