//! `nagori native`.

use crate::common::*;
use predicates::str::contains;
use serde_json::Value;
use std::path::Path;

/// A method with a known answer: 1 ns a cycle, each wait takes three times as long.
const METHOD: &str = "variant = \"quartz\"\nclock = \"1 GHz\"\ndram = \"100 ns\"\nweight = \"1\"\nread = \"300 ns\"\n";

/// Whether this host's kernel has a device for the counters of the cores.
fn has_counters() -> bool {
    let device = |name: &str| {
        Path::new("/sys/bus/event_source/devices")
            .join(name)
            .exists()
    };
    device("cpu") || device("cpu_core") || device("armv8_pmuv3_0")
}

#[test]
fn the_check_tells_the_truth_and_nothing_runs_without_counters() {
    let out = nagori()
        .args(["native", "--check", "--json"])
        .assert()
        .get_output()
        .clone();
    let v: Value = serde_json::from_slice(&out.stdout).unwrap();
    let usable = v["usable"].as_bool().unwrap();
    assert_eq!(out.status.code(), Some(if usable { 0 } else { 3 }));
    let missing = |f: &&Value| !f["ok"].as_bool().unwrap();
    assert_eq!(
        v["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(missing)
            .is_none(),
        usable
    );
    if has_counters() {
        return;
    }
    assert!(!usable, "a host without a device for its counters");
    let text = nagori()
        .args(["native", "--check"])
        .assert()
        .code(3)
        .get_output()
        .stdout
        .clone();
    assert!(String::from_utf8(text)
        .unwrap()
        .contains("This host cannot emulate slower memory"));
    let files = Files::new();
    let method = files.write("m.toml", METHOD.as_bytes());
    let witness = method.with_file_name("witness");
    let mut c = nagori();
    c.args(["native", "--method"])
        .arg(&method)
        .arg("--")
        .arg("touch")
        .arg(&witness);
    c.assert()
        .code(3)
        .stdout("")
        .stderr(contains("nothing is emulated"));
    assert!(!witness.exists(), "it ran without emulation");
}

#[test]
fn a_program_runs_with_delays_and_keeps_its_exit_code() {
    let files = Files::new();
    let method = files.write("m.toml", METHOD.as_bytes());
    let report = method.with_file_name("report.json");
    let mut c = nagori();
    c.args([
        "native",
        "--source",
        "synthetic:stall_cycles=1000000000,llc_misses=1000000",
        "--method",
    ])
    .arg(&method);
    c.arg("--report").arg(&report);
    c.args([
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo out; exit 7",
    ]);
    c.assert()
        .code(7)
        .stdout("out\n")
        .stderr(contains("delays asked for"));
    let v: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let thread = &v["threads"][0];
    let (asked, waited) = (
        thread["asked_ns"].as_f64().unwrap(),
        thread["waited_ns"].as_f64().unwrap(),
    );
    // Half of a millisecond is what the last question may take.
    assert!(
        asked > 1e6 && (asked - waited).abs() < 0.02 * asked + 5e5,
        "{v:#}"
    );
}

#[test]
fn counters_of_the_machine_delay_a_real_program() {
    let files = Files::new();
    let method = files.write("m.toml", METHOD.as_bytes());
    let text = concat!(
        r#"{"format":"nagori-epoch-counters","version":1,"source":"machine small, chase","clock":"1 GHz"}"#,
        "\n",
        r#"{"kind":"epoch","thread":0,"start_ps":0,"end_ps":1,"cause":"time","#,
        r#""counts":{"stall_cycles":50000000,"llc_misses":1000}}"#,
        "\n",
    );
    let stream = files.write("run.jsonl", text.as_bytes());
    let run = |source: String, more: &[&str]| {
        let mut c = nagori();
        c.args(["native", "--source", &source, "--method"])
            .arg(&method)
            .args(more);
        c.args(["--report", "-", "--", "true"]);
        c.assert().get_output().clone()
    };
    // The program has one epoch, which ends with it: 50 ms of stall take 100 ms longer.
    let out = run(format!("emulated:{}", stream.display()), &["--epoch", "1s"]);
    assert!(out.status.success(), "{out:?}");
    let v: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(v["threads"][0]["asked_ns"], 100e6);
    let waited = v["threads"][0]["waited_ns"].as_f64().unwrap();
    assert!((100e6..110e6).contains(&waited), "{v:#}");
}

#[test]
fn what_is_wrong_is_told() {
    let files = Files::new();
    let method = files.write("m.toml", METHOD.as_bytes());
    let broken = files.write("broken.toml", b"read = 300");
    let synthetic = ["--source", "synthetic:llc_misses=1"];
    for (args, code, what) in [
        (&["--", "true"][..], 3, "nothing is emulated"),
        (
            &["--epoch", "1ns", "--", "true"],
            1,
            "expected 100us to 10s",
        ),
        (
            &["--epoch", "1ms", "--min-epoch", "2ms", "--", "true"],
            1,
            "longer than",
        ),
        (
            &["--variant", "x", "--", "true"],
            2,
            "expected one of koshiba, mesmeric",
        ),
        (&["--source", "moon", "--", "true"], 1, "expected perf"),
        (
            &["--source", "synthetic:x=1", "--", "true"],
            3,
            "no count `x`",
        ),
        (
            &["--source", "recorded:/nonexistent", "--", "true"],
            1,
            "cannot read /nonexistent",
        ),
        (&["--check", "--calibrate"], 2, "cannot be used with"),
        (&[], 1, "what shall run?"),
        (&["--pid", "0"], 2, "--pid"),
        (
            &["--qmp", "/nonexistent", "--variant", "quartz"],
            1,
            "QMP socket /nonexistent",
        ),
    ] {
        if has_counters() && code == 3 && args.len() == 2 {
            continue;
        }
        let mut c = nagori();
        c.args(["native"]).args(args);
        c.assert().code(code).stdout("").stderr(contains(what));
    }
    for (path, more, what) in [
        (
            &method,
            &["--", "no-such-program"][..],
            "no such program in PATH",
        ),
        (&method, &["--variant", "koshiba", "--", "true"], "--write"),
        (&broken, &["--", "true"], "has no unit"),
    ] {
        let mut c = nagori();
        c.args(["native"])
            .args(synthetic)
            .arg("--method")
            .arg(path)
            .args(more);
        c.assert().code(1).stdout("").stderr(contains(what));
    }
}

#[test]
fn help_is_as_recorded() {
    let out = nagori()
        .args(["native", "--help"])
        .assert()
        .code(0)
        .get_output()
        .stdout
        .clone();
    golden("help-native.txt", &String::from_utf8(out).unwrap());
}
