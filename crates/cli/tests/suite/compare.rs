//! What `nagori run` and `nagori compare` say of NVMM, on real Debian: costs, and what costs do not show.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::*;
use crate::common::probe::*;
use crate::common::*;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

/// Guest time of a program under method dram, and lines of NVMM that were read.
fn cost(p: &Place, placement: &str, program: &[&str]) -> (u64, u64) {
    let mut c = nagori();
    c.timeout(PATIENCE).current_dir(p.dir.path());
    c.args(["-q", "run", "--stdin", "none", "--placement", placement]);
    // With several harts a program takes a sixth longer if it moves to another one, by itself.
    c.args(["--set", "harts=1"]);
    c.args(["--json", "cost", "--"]).args(program);
    c.assert().code(0);
    let cost = json(&p.path("cost"));
    let of = |path: &str| number(&cost, path);
    (of("/summary/guest_time_ps"), of("/summary/nvmm/reads"))
}

/// The library that puts it there is no cost of NVMM.
#[test]
fn a_heap_on_nvmm_costs_what_a_heap_costs() {
    a_heap_costs(&[
        &["sqlite3", ":memory:", "select 1"],
        &["./probe", "touch", "4"],
    ]);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn a_large_heap_on_nvmm_costs_what_a_heap_costs() {
    let python = "d = {i: str(i) * 5 for i in range(20000)}; print(sum(map(len, d.values())))";
    a_heap_costs(&[
        &["./probe", "lists", "30000"],
        &["python3", "-S", "-c", python],
    ]);
}

fn a_heap_costs(programs: &[&[&str]]) {
    let Some(p) = Place::linked("-rdynamic") else {
        return;
    };
    for program in programs {
        let (without, _) = cost(&p, "dram", program);
        let (with, reads) = cost(&p, "heap", program);
        let ratio = with as f64 / without as f64;
        assert!((0.9..1.1).contains(&ratio), "{program:?}: {ratio}");
        assert!(reads > 100, "{program:?}: {reads}");
    }
}

#[test]
fn what_has_made_no_difference_is_not_compared() {
    let Some(p) = Place::new() else { return };
    let touch = ["touch", "1"];
    let memories = ["--memory-model", "ddr4,pcm", "--json", "c"];
    let told = contains("pcm (NVMM not used)")
        .and(contains("warning: pcm: not compared with ddr4"))
        .and(contains("--placement"));
    p.compare(&memories, &touch).assert().code(0).stderr(told);
    let c = json(&p.path("c"));
    for i in 0..2 {
        assert!(c["runs"][i]["run_time"].is_null());
        assert_eq!(c["memory_models"][i]["not_compared"], "NVMM not used");
    }
    assert_eq!(c["problems"][0]["what"], "not-compared");
    let strict = [&memories[..2], &["--strict"]].concat();
    p.compare(&strict, &touch).assert().code(1);
    // Methods that delay nothing: those of a memory that has none, and those without delays.
    let none = "memory.controller.delays.coarse_write=\"0 ns\"";
    for (set, methods) in [
        ("memory.regions.nvmm.model=pcm", "dram,fine"),
        (none, "dram,coarse"),
    ] {
        let zero = "memory.controller.delays.coarse_read=\"0 ns\"";
        let options = ["--set", set, "--set", zero, "--placement", "nvmm"];
        let options = [&options[..], &["--methods", methods, "--strict"]].concat();
        let told = contains("the same NVMM").and(contains("not compared with dram"));
        p.compare(&options, &touch).assert().code(1).stderr(told);
    }
}

/// Each kind of epochs is a machine of its own, on which NVMM costs what DRAM costs.
#[test]
fn epochs_are_rows_beside_the_memory_that_they_emulate() {
    let Some(p) = Place::new() else { return };
    let methods = ["--methods", "dram,extended,epoch,epoch:quartz"];
    let options = [&methods[..], &["--placement", "nvmm", "--json", "c"]].concat();
    let told = contains("epoch:koshiba").and(contains("epoch:quartz"));
    p.compare(&options, &["touch", "4"])
        .assert()
        .code(0)
        .stderr(told);
    let c = json(&p.path("c"));
    let times: Vec<f64> = { c["methods"].as_array().unwrap().iter() }
        .map(|r| r["run_time"]["mean"].as_f64().unwrap())
        .collect();
    assert!(times[1..].iter().all(|t| *t > 1.2), "{times:?}");
    let e = &c["runs"][2]["statistics"]["epochs"];
    assert_eq!(e["of"], "extended");
    let cycles = |h: &Value| h["injected_cycles"].as_u64().unwrap();
    let injected: u64 = e["harts"].as_array().unwrap().iter().map(cycles).sum();
    assert!(injected > 100_000, "{e}");
    // What is emulated is said where a run is alone, too.
    let options = [
        "run",
        "--stdin",
        "none",
        "--method",
        "epoch:quartz",
        "--placement",
        "nvmm",
    ];
    p.nagori(&options, &["touch", "1"])
        .assert()
        .code(0)
        .stderr(contains("NVMM extended by epochs (quartz)").and(contains("cycles injected")));
}

#[test]
fn runs_say_what_has_made_no_difference() {
    let Some(p) = Place::new() else { return };
    for (options, args, what, says) in [
        (
            &["--method", "extended"][..],
            ["touch", "1"],
            "no-nvmm-accesses",
            "method extended made no difference: the program is in DRAM; --placement",
        ),
        (
            &["--memory-model", "pcm"],
            ["touch", "1"],
            "no-nvmm-accesses",
            "the memory pcm made no difference",
        ),
        (
            &[
                "--memory-model",
                "pcm",
                "--method",
                "fine",
                "--placement",
                "nvmm",
            ],
            ["touch", "1"],
            "method-without-effect",
            "NVMM has a memory of its own, pcm",
        ),
        (
            &[
                "--set",
                "harts=1",
                "--region-of-interest",
                "--warm-up",
                "30000",
            ],
            ["calm", "20000"],
            "no-memory-accesses",
            "the figures say nothing of memory",
        ),
        (
            &["--functional", "--method", "fine"],
            ["exit", "0"],
            "method-without-effect",
            "without the timing model",
        ),
    ] {
        let all = [&["--stdin", "none", "--json", "s"], options].concat();
        let told = contains("warning: ").and(contains(says));
        p.run(&all, &args).assert().code(0).stderr(told);
        let found = json(&p.path("s"));
        assert_eq!(found["problems"][0]["what"], what, "{found:#}");
        let strict = [&all[..], &["-q", "--strict"]].concat();
        p.run(&strict, &args).assert().code(1);
    }
    // Where nothing was asked, nothing is said, and the program's own exit code comes first.
    let plain = ["--stdin", "none", "--strict"];
    let silent = contains("warning").not();
    p.run(&plain, &["touch", "1"])
        .assert()
        .code(0)
        .stderr(silent);
    p.run(
        &[&plain[..], &["--method", "fine"]].concat(),
        &["exit", "3"],
    )
    .assert()
    .code(3);
}

#[test]
fn run_and_compare_take_the_same_options() {
    let Some(p) = Place::new() else { return };
    let options = [
        "--stdin",
        "none",
        "--memory-model",
        "pcm",
        "--placement",
        "nvmm",
    ];
    let all = [&options[..], &["--json", "s", "--full"]].concat();
    // All counters, and the JSON; the memory of NVMM is named, not the method of the controller.
    let named = || contains("NVMM pcm").and(contains("method dram").not());
    p.run(&all, &["touch", "1"])
        .assert()
        .code(0)
        .stderr(named().and(contains("mispredicts")));
    assert_eq!(json(&p.path("s"))["memory_model"], "pcm");
    p.run(&options, &["touch", "1"])
        .assert()
        .code(0)
        .stderr(named());
    p.compare(
        &[&all[2..], &["--method", "dram"]].concat(),
        &["touch", "1"],
    )
    .assert()
    .code(0)
    .stderr(
        contains("run time")
            .and(contains("== pcm =="))
            .and(contains("mispredicts")),
    );
    for (given, says) in [
        (["--method", "dram,fine"], "`nagori compare` takes several"),
        (
            ["--memory-model", "pcm,ddr4"],
            "`nagori compare` takes several",
        ),
    ] {
        p.run(&given, &["exit", "0"])
            .assert()
            .code(1)
            .stderr(contains(says));
    }
    for command in ["run", "compare"] {
        p.nagori(&[command, "--memory", "ddr4"], &["exit", "0"])
            .assert()
            .code(2)
            .stderr(contains("'--memory'").and(contains("'--memory-model'")));
        p.nagori(&[command, "--place", "nvmm"], &["exit", "0"])
            .assert()
            .code(2);
    }
}

#[test]
fn output_goes_where_it_is_sent() {
    let Some(p) = Place::new() else { return };
    let quick = ["--stdin", "none", "--functional", "-q"];
    let to = |place: &'static str| [&quick[..], &["--output", place, "--json", "-"]].concat();
    for (place, wrote) in [("none", false), ("o", true)] {
        let out = p.run(&to(place), &["touch", "1"]).assert().code(0);
        let value: Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
        assert_eq!(value["end"]["why"], "exit");
        assert_eq!(p.path("o").exists(), wrote);
    }
    assert_eq!(std::fs::read_to_string(p.path("o")).unwrap(), "16384\n");
    let compared = ["--methods", "dram,fine", "--json", "-", "--output", "c"];
    let out = p.compare(&compared, &["touch", "1"]).assert().code(0);
    let value: Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
    assert_eq!(value["runs"].as_array().unwrap().len(), 2);
    assert_eq!(std::fs::read_to_string(p.path("c")).unwrap(), "16384\n");
    p.run(
        &[&quick[..], &["--output", "none/o"]].concat(),
        &["exit", "0"],
    )
    .assert()
    .code(1)
    .stderr(contains("--output").and(contains("there is no directory")));
}

#[test]
fn machines_are_varied_and_the_result_is_a_table_and_a_page() {
    let Some(p) = Place::new() else { return };
    let vary = [
        "--methods",
        "dram,extended",
        "--placement",
        "nvmm",
        "--vary",
        "dtlb.sectors=4,8",
    ];
    let files = [
        "--csv",
        "t.csv",
        "--parquet",
        "t.parquet",
        "--json",
        "r.json",
        "--report",
        "r.html",
        "--plot",
        "p.vl.json",
    ];
    let options = [&vary[..], &files].concat();
    p.compare(&options, &["touch", "1"])
        .assert()
        .code(0)
        .stderr(contains("extended, dtlb.sectors=8"));
    let table = std::fs::read_to_string(p.path("t.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0]
        .starts_with("method,memory_model,dtlb.sectors,seed,complete,end,guest_time_ps,run_time,"));
    assert_eq!(lines.len(), 5);
    assert!(lines[1].starts_with("dram,,4,,true,exit,") && lines[4].starts_with("extended,,8,"));
    let bytes = std::fs::read(p.path("t.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let result: Value = serde_json::from_slice(&std::fs::read(p.path("r.json")).unwrap()).unwrap();
    assert_eq!(result["methods"][3]["vary"]["dtlb.sectors"], "8");
    assert_eq!(result["runs"][0]["run_time"], 1.0);
    assert!(result["about"]["image"].as_str().unwrap().len() >= 16);
    let values = result["about"]["machine"]["values"].as_array().unwrap();
    let sectors = values.iter().find(|v| v["key"] == "dtlb.sectors").unwrap();
    assert_eq!(
        (&sectors["value"], &sectors["origin"]),
        (&Value::from(4), &Value::from("override"))
    );
    // The program and the guest's kernel are known by their names.
    let waiting = result["methods"][1]["waiting"].as_array().unwrap();
    let named = |w: &&Value| !w["function"].as_str().unwrap().starts_with('(');
    assert!(
        waiting.iter().filter(named).count() * 2 > waiting.len(),
        "{waiting:#?}"
    );
    let vega: Value = serde_json::from_slice(&std::fs::read(p.path("p.vl.json")).unwrap()).unwrap();
    assert_eq!(vega["layer"][0]["encoding"]["x"]["title"], "dtlb.sectors");
    // The page is the same when it is made of the JSON.
    let page = std::fs::read_to_string(p.path("r.html")).unwrap();
    for part in [
        "What memory costs ./probe touch 1",
        "extended, dtlb.sectors=8",
        "set for this run",
        "controller preset",
    ] {
        assert!(page.contains(part), "{part}");
    }
    nagori()
        .current_dir(p.dir.path())
        .args(["-q", "report", "r.json", "--output", "again.html"])
        .assert()
        .code(0);
    assert_eq!(std::fs::read_to_string(p.path("again.html")).unwrap(), page);
    // What is wrong with the last machine is said before the first one boots.
    let wrong = ["--methods", "dram", "--vary", "dtlb.sectors=2,three"];
    p.compare(&wrong, &["touch", "1"])
        .assert()
        .code(1)
        .stderr(contains("dtlb.sectors=three"));
}
