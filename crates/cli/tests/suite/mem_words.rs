//! `nagori mem`: names, numbers, and what is told of a run.

use crate::common::mem::*;
use crate::common::*;
use predicates::str::contains;
use std::path::Path;

#[test]
fn a_memory_is_shown_by_its_name() {
    assert_eq!(run(&["show", "ddr3"]), run(&["show", "--memory", "ddr3"]));
    let pcm = run(&["show", "pcm", "--set", "timings.tSET=200 ns"]);
    assert!(pcm.contains("timings.tSET"), "{pcm}");
    let two = nagori().args(["mem", "show", "pcm", "-m", "ddr3"]).assert();
    two.code(2).stderr(contains("cannot be used with"));
    nagori().args(["mem", "show"]).assert().code(2);
    fails(&["show", "pmc"], "did you mean `pcm`?");
    let absurd = ["mem", "show", "pcm", "--set", "timings.tSET=300 ms"];
    let told =
        contains("`timings.tSET` is 300 ms, more than 100 times off the longest of the presets");
    nagori().args(absurd).assert().code(0).stderr(told);
}

#[test]
fn times_that_the_default_mode_ignores_are_told_of() {
    let files = Files::new();
    let (timed, plain) = (files.path("t.trc"), files.path("p.trc"));
    std::fs::write(&timed, "0x0 READ 0\n0x40 WRITE 100\n").unwrap();
    std::fs::write(&plain, "LD 0x0\nST 0x40\n").unwrap();
    for (trace, mode, told) in [
        (path(&timed), &[][..], true),
        (path(&timed), &["--mode", "saturated"], false),
        (path(&timed), &["--mode", "timestamped"], false),
        (path(&plain), &[], false),
        ("gen:random,count=10,gap=5", &[], true),
        ("gen:random,count=10", &[], false),
    ] {
        for command in ["run", "sweep"] {
            let args = ["mem", command, "-m", "ddr3", "--trace", trace];
            let out = nagori().args(args).args(mode).assert().code(0);
            let err = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
            let said = err.contains("has times, which --mode saturated ignores");
            assert_eq!(said, told, "{command} {trace} {mode:?}: {err}");
        }
        let args = ["run", "-q", "-m", "ddr3", "--json", "--trace", trace];
        let result = json(&[&args[..], mode].concat());
        assert_eq!(result["ignored_times"], told, "{trace} {mode:?}");
    }
}

#[test]
fn equal_sweeps_are_equal_and_processor_time_is_asked_for() {
    let args = [
        "sweep",
        "-q",
        "-m",
        "ddr3",
        "--trace",
        "gen:random,count=1e3",
    ];
    let table = run(&args);
    assert_eq!(table, run(&args));
    assert!(!table.contains("cpu"), "{table}");
    let with = run(&[&args[..], &["--cpu-time"]].concat());
    let first = with.lines().next().unwrap();
    assert!(
        first.ends_with(",energy_pj,cpu_seconds,requests_per_cpu_second"),
        "{first}"
    );
}

#[test]
fn accesses_beyond_the_last_address_are_told_with_their_line() {
    let files = Files::new();
    let trace = files.path("t.trc");
    std::fs::write(&trace, "LD 0x0\nLD 0xFFFFFFFFFFFFFFFF\n").unwrap();
    let what =
        "line 2: the access of 64 bytes at 0xffffffffffffffff reaches beyond the last address";
    let (trace, out) = (path(&trace), files.path("o"));
    fails(&["run", "-m", "ddr3", "--wrap", "--trace", trace], what);
    fails(
        &["convert", trace, "--to", "nagori", "-o", path(&out)],
        what,
    );
    let cut = ["--wrap", "--unaligned", "truncate", "--json"];
    let r = json(&[&["run", "-q", "-m", "ddr3", "--trace", trace][..], &cut].concat());
    assert_eq!(r["requests"], 2);
}

#[test]
fn times_that_a_conversion_drops_or_changes_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let (cycles, times, lost) = (file("a.trc"), file("b.g5"), file("c.ram"));
    // 3 of 4 times are no multiples of 4 cycles.
    std::fs::write(
        &cycles,
        "0x0 READ 0\n0x40 READ 1\n0x80 READ 2\n0xc0 READ 3\n",
    )
    .unwrap();
    let convert = |from: &Path, to: &str, out: &Path, options: &[&str]| {
        let mut c = nagori();
        c.args(["mem", "convert", path(from), "--to", to, "-o", path(out)]);
        let out = c.args(options).assert().code(0);
        String::from_utf8(out.get_output().stderr.clone()).unwrap()
    };
    let said = convert(&cycles, "ramulator", &lost, &[]);
    assert!(said.contains("the times are left out"), "{said}");
    let said = convert(&cycles, "gem5", &times, &["--cycle", "1 ns"]);
    assert!(!said.contains("times"), "{said}");
    let said = convert(&times, "dramsim3", &cycles, &["--cycle", "4 ns"]);
    let told = "3 of 4 times are no whole number of cycles";
    assert!(said.contains(told), "{said}");
}
