//! `nagori disasm`.

use crate::common::*;
use nagori_isa::Op;
use predicates::str::contains;
use serde_json::Value;
use std::path::Path;

/// A loop of loads, and a multiplication whose result is still under way at its end.
fn program() -> Program {
    Program::new()
        .li(T0, 0x1000)
        .label("sum")
        .op(Op::Ld, A1, T0, 0, 8)
        .op(Op::Add, A0, A0, A1, 0)
        .op(Op::Addi, T0, T0, 0, -8)
        .op(Op::Mul, T2, A0, A0, 0)
        .op(Op::Bne, 0, T0, ZERO, -16)
        .label("end")
        .op(Op::Addi, A0, A0, 0, 1)
        .op(Op::Jal, 0, 0, 0, 0)
}

fn disasm(path: &Path, args: &[&str]) -> String {
    let out = nagori().arg("disasm").arg(path).args(args).assert().code(0);
    String::from_utf8(out.get_output().stdout.clone()).unwrap()
}

#[test]
fn blocks_are_as_recorded() {
    let files = Files::new();
    let path = files.write("sum.elf", &program().elf());
    let timed = disasm(&path, &["--at", "sum", "--blocks", "2"]);
    golden("disasm-timed.txt", &timed);
    golden("disasm-functional.txt", &disasm(&path, &["--functional"]));
    let json = disasm(&path, &["--at", "sum", "--json"]);
    golden("disasm.json", &json);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn code_of_the_host_is_as_recorded() {
    let files = Files::new();
    let path = files.write("sum.elf", &program().elf());
    let args = ["--at", "end", "--functional", "--host"];
    golden("disasm-host.txt", &disasm(&path, &args));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn every_byte_of_the_host_belongs_to_somebody() {
    let files = Files::new();
    let path = files.write("sum.elf", &program().elf());
    for mode in ["--timed", "--functional"] {
        let text = disasm(&path, &["--at", "sum", "--host", "--json", mode]);
        let v: Value = serde_json::from_str(&text).unwrap();
        let block = &v[0];
        let host = &block["host"];
        let mut at = 0;
        let mut seen = [false; 5];
        for part in host["parts"].as_array().unwrap() {
            if let Some(i) = part["instruction"].as_u64() {
                seen[i as usize] = true;
            }
            for line in part["code"].as_array().unwrap() {
                assert_eq!(line["offset"], at, "{part}");
                at += line["bytes"].as_str().unwrap().len() / 2;
                assert_ne!(line["text"], "(bad)");
            }
        }
        assert_eq!(host["bytes"], at);
        assert_eq!(seen, [true; 5], "{host}");
        // The miss of the load is called, and the block ends by jumps that can be linked.
        assert!(text.contains("call miss") && text.contains("jmp leave_link"));
        assert_eq!(block["instructions"].as_array().unwrap().len(), 5);
    }
}

#[test]
fn words_from_stdin() {
    nagori()
        .args(["disasm", "-"])
        .write_stdin("00b50533\n4505 0000006f\n")
        .assert()
        .code(0)
        .stdout(contains("add a0,a0,a1"))
        .stdout(contains("timed, "))
        .stdout(contains("3 instructions, 10 bytes"));
    for (text, what) in [("", "no instructions"), ("nonsense", "is no instruction")] {
        nagori()
            .args(["disasm", "-"])
            .write_stdin(text)
            .assert()
            .code(1)
            .stderr(contains(what));
    }
}

#[test]
fn the_machine_says_what_decodes() {
    let run = |isa: &str| {
        let mut c = nagori();
        c.args(["disasm", "--functional", "--set", isa, "-"]);
        let out = c.write_stdin("02b50533\n0000006f\n").assert().code(0);
        String::from_utf8(out.get_output().stdout.clone()).unwrap()
    };
    assert!(run(r#"isa=["i","m","zicsr"]"#).contains("mul a0,a0,a1"));
    let without = run(r#"isa=["i","zicsr"]"#);
    assert!(
        without.contains("(illegal)") && !without.contains("mul"),
        "{without}"
    );
}

#[test]
fn what_is_wrong_is_told() {
    let files = Files::new();
    let path = files.write("sum.elf", &program().elf());
    for (at, what) in [
        ("nowhere", "there is no such symbol"),
        ("sum+x", "there is no such symbol"),
        ("0x80000001", "is odd"),
        (
            "0x90000000",
            "is not in the program, which has 0x80000000..",
        ),
    ] {
        nagori()
            .args(["disasm", "--at", at])
            .arg(&path)
            .assert()
            .code(1)
            .stderr(contains(what));
    }
}
