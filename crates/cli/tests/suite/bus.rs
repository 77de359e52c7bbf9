//! Traces of the bus: what a machine has done to its memory is what the memory alone does with them.

use crate::common::*;
use nagori_isa::Op;
use predicates::str::contains;
use serde_json::Value;
use std::path::Path;

const BOUNDARY: i32 = 0x4000_0000;

/// Each hart walks through lines of its own, half of them in NVMM, and stores to each; hart 0 ends the run.
fn walk() -> Vec<u8> {
    Program::new()
        .op(Op::Auipc, T0, 0, 0, 0)
        .op(Op::Slli, T1, A0, 0, 20)
        .op(Op::Add, T0, T0, T1, 0)
        .li(T2, BOUNDARY)
        .op(Op::Add, T1, T0, T2, 0)
        .op(Op::Addi, T2, ZERO, 0, 900)
        .op(Op::Sd, 0, T0, T2, 1024)
        .op(Op::Sd, 0, T1, T2, 1024)
        .op(Op::Addi, T0, T0, 0, 192)
        .op(Op::Addi, T1, T1, 0, 320)
        .op(Op::Addi, T2, T2, 0, -1)
        .op(Op::Bne, 0, T2, ZERO, -20)
        .op(Op::Bne, 0, A0, ZERO, 0)
        .exit(0)
        .elf()
}

/// Runs the program with its bus traced; its statistics.
fn traced(files: &Files, elf: &Path, settings: &[&str]) -> (String, Value) {
    let trace = files.path("bus.txt");
    let mut c = nagori();
    c.args([
        "bare",
        "--machine",
        "vc707",
        "--trace",
        "bus",
        "--trace-file",
    ]);
    c.arg(&trace).args(["--stats", "json"]).arg(elf);
    for s in settings {
        c.args(["--set", s]);
    }
    let out = c.assert().code(0).get_output().stdout.clone();
    let stats = serde_json::from_slice(&out).expect("JSON");
    (trace.display().to_string(), stats)
}

fn played(trace: &str, args: &[&str]) -> Value {
    let mut c = nagori();
    c.args(["mem", "run", "--mode", "timestamped", "--json"]);
    c.args(["--trace", trace]).args(args);
    let out = c.assert().code(0).get_output().stdout.clone();
    serde_json::from_slice(&out).expect("JSON")
}

#[test]
fn a_trace_of_the_bus_does_what_the_machine_did() {
    let files = Files::new();
    let elf = files.write("walk.elf", &walk());
    for harts in ["harts=1", "harts=4"] {
        for model in ["ddr4", "pcm", "xpoint"] {
            let set = format!("memory.regions.nvmm.model={model}");
            let (trace, machine) = traced(&files, &elf, &[harts, &set]);
            let own = &machine["memories"][0]["stats"]["regions"];
            let alone = played(&trace, &["--memory", model, "--region", "nvmm"]);
            let alone = &alone["model"]["regions"];
            for (a, b) in own
                .as_array()
                .unwrap()
                .iter()
                .zip(alone.as_array().unwrap())
            {
                assert!(a["counters"]["reads"].as_u64() > Some(800), "{model}: {a}");
                for count in [
                    "reads",
                    "writes",
                    "activations",
                    "row_hits",
                    "row_conflicts",
                ] {
                    let (a, b) = (&a["counters"][count], &b["counters"][count]);
                    assert_eq!(a, b, "{model}, {harts}: {count}");
                }
                for latency in ["read_latency", "write_latency"] {
                    for part in ["count", "sum", "max"] {
                        let (a, b) = (&a[latency][part], &b[latency][part]);
                        assert_eq!(a, b, "{model}, {harts}: {latency} {part}");
                    }
                }
            }
        }
    }
}

#[test]
fn so_it_is_with_the_boards_controller() {
    let files = Files::new();
    let elf = files.write("walk.elf", &walk());
    for harts in ["harts=1", "harts=4"] {
        let (trace, machine) = traced(&files, &elf, &[harts, "method=extended"]);
        let alone = played(
            &trace,
            &["--memory", "board", "--set", "board.method=extended"],
        );
        for (n, region) in ["dram", "nvmm"].iter().enumerate() {
            let own = &machine["memory"][region];
            let alone = &alone["model"]["regions"][n]["counters"];
            for count in ["reads", "writes", "row_hits"] {
                assert!(own["counters"][count].is_u64(), "{own}");
                assert_eq!(
                    own["counters"][count], alone[count],
                    "{harts}, {region}: {count}"
                );
            }
        }
    }
}

#[test]
fn what_cannot_be_played_is_told() {
    let files = Files::new();
    let elf = files.write("walk.elf", &walk());
    let (trace, _) = traced(&files, &elf, &["harts=1"]);
    nagori()
        .args(["mem", "run", "--memory", "ddr4", "--region", "nvmm"])
        .args(["--trace", "gen:random,count=10"])
        .assert()
        .code(1)
        .stderr(contains("--region"));
    let text = std::fs::read_to_string(&trace).unwrap();
    let bad = text.replacen(" h0 ", " hart0 ", 1);
    let bad = files.write("bad.txt", bad.as_bytes());
    nagori()
        .args([
            "mem", "run", "--memory", "board", "--format", "bus", "--trace",
        ])
        .arg(&bad)
        .assert()
        .code(1)
        .stderr(contains("no hart"));
    nagori()
        .args(["bare", "--trace", "bus,exec", "--trace-file"])
        .arg(files.path("both.txt"))
        .arg(&elf)
        .assert()
        .code(1)
        .stderr(contains("a file of its own"));
}
