//! `nagori bench mem`, briefly. How fast it is is not a matter of tests.

use crate::common::*;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::path::Path;

fn bench(more: &[&str]) -> String {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/bzip2.dramsim3.zst");
    let out = nagori()
        .args(["-q", "bench", "mem", "--quick", "--trace"])
        .arg(trace)
        .args(more)
        .assert()
        .code(0);
    String::from_utf8(out.get_output().stdout.clone()).unwrap()
}

#[test]
fn rows_of_a_quick_run() {
    let v: serde_json::Value = serde_json::from_str(&bench(&["--json"])).unwrap();
    assert!(v["calibration"]["step_ns"].as_f64() > Some(0.0));
    let speed = v["speed"].as_array().unwrap();
    let names: Vec<&str> = speed
        .iter()
        .map(|r| r["workload"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "sequential",
            "random",
            "70/30",
            "stride 4096",
            "stride 8192",
            "bzip2.dramsim3.zst",
            "bzip2.dramsim3.zst, read before",
            "random",
            "70/30",
            "70/30",
            "70/30",
        ]
    );
    let memories: Vec<_> = speed
        .iter()
        .map(|r| r["memory"].as_str().unwrap())
        .collect();
    assert!(memories[..7].iter().all(|m| *m == "ddr3-1600k"));
    assert!(memories[7].starts_with("ddr4") && memories[8] == memories[7]);
    assert!(memories[9].starts_with("pcm") && memories[10].starts_with("xpoint"));
    for r in speed {
        let n = if names[5..7].contains(&r["workload"].as_str().unwrap()) {
            40_000
        } else {
            100_000
        };
        assert_eq!(r["requests"], n, "{r}");
        for key in ["requests_per_cpu_second", "steps_per_request", "cycles"] {
            assert!(r[key].as_f64() > Some(0.0), "{key}: {r}");
        }
    }
    // A trace gives the same result however it is read.
    assert_eq!(speed[5]["cycles"], speed[6]["cycles"]);
    assert!(speed[0]["row_hit_rate"].as_f64() > Some(0.9));
    assert_eq!(speed[4]["row_hit_rate"], 0.0);
    let options = v["options"].as_array().unwrap();
    for what in ["energy", "wear", "energy and wear"] {
        assert!(options.iter().any(|o| o["what"] == what), "{what}");
    }
    let threads = v["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    for t in threads {
        assert_eq!(
            (&t["channels"], &t["requests"]),
            (&4.into(), &100_000.into())
        );
        assert!(t["threads"].as_u64() >= Some(2) && t["gain"].as_f64() > Some(0.0));
    }
    let memory = v["memory"].as_array().unwrap();
    assert_eq!(memory.len(), 2);
    assert_eq!(memory[1]["requests"], 400_000);
}

#[test]
fn tables_and_a_trace_that_is_missing() {
    let text = bench(&[]);
    for word in [
        "k req/CPU s",
        "switched on",
        "peak memory [KiB]",
        "stride 8192",
        "one in 5 ns",
    ] {
        assert!(text.contains(word), "{text}");
    }
    nagori()
        .args(["-q", "bench", "mem", "--quick", "--trace", "no-such-trace"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(contains("make real-trace").and(contains("no-such-trace")));
}
