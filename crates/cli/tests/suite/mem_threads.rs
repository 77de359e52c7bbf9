//! `nagori mem run --threads`: results and commands as with one thread.

use crate::common::*;
use predicates::str::contains;
use serde_json::Value;

fn run(threads: &str, more: &[&str], log: &std::path::Path) -> (Value, String) {
    let out = nagori()
        .args(["-q", "mem", "run", "--memory", "ddr4", "--json"])
        .args(["--set", "controller.channels=4", "--threads", threads])
        .arg("--commands")
        .arg(log)
        .args(more)
        .assert()
        .code(0);
    let mut v: Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
    for key in ["cpu_seconds", "requests_per_cpu_second"] {
        assert!(v[key].as_f64() > Some(0.0));
        v[key] = Value::Null;
    }
    (v, std::fs::read_to_string(log).unwrap())
}

#[test]
fn all_results_are_those_of_one_thread() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("commands.txt");
    for more in [
        &["--trace", "gen:mixed,count=40000"][..],
        &[
            "--trace",
            "gen:zipf,count=20000,writes=0.5",
            "--mode",
            "paced",
            "--interval",
            "2 ns",
        ],
        &[
            "--trace",
            "gen:random,count=20000,gap=9",
            "--mode",
            "timestamped",
        ],
    ] {
        let one = run("1", more, &log);
        for threads in ["2", "3", "8"] {
            assert!(
                run(threads, more, &log) == one,
                "{more:?}, {threads} threads"
            );
        }
    }
}

#[test]
fn what_takes_one_thread_is_told() {
    for (args, what) in [
        (
            &["--memory", "ddr4", "--mode", "dependent"][..],
            "dependent mode takes one",
        ),
        (&["--memory", "ddr4", "--outstanding", "3"], "takes one"),
        (&["--memory", "xpoint"], "this memory takes one"),
        (&["--memory", "board"], "this memory takes one"),
    ] {
        nagori()
            .args([
                "mem",
                "run",
                "--trace",
                "gen:random,count=10",
                "--threads",
                "2",
            ])
            .args(args)
            .assert()
            .code(1)
            .stdout("")
            .stderr(contains(what));
    }
}
