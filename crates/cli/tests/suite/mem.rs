//! `nagori mem`: runs, traces, sweeps, plots, and errors.

use crate::common::mem::*;
use crate::common::*;
use predicates::str::contains;
use serde_json::Value;
use std::path::Path;

#[test]
fn help_is_as_recorded() {
    for (name, args) in [
        ("help-mem.txt", &["--help"][..]),
        ("help-mem-run.txt", &["run", "--help"]),
        ("help-mem-gen.txt", &["gen", "--help"]),
        ("help-mem-convert.txt", &["convert", "--help"]),
        ("help-mem-record.txt", &["record", "--help"]),
        ("help-mem-sweep.txt", &["sweep", "--help"]),
        ("help-mem-plot.txt", &["plot", "--help"]),
    ] {
        golden(name, &run(args));
    }
}

#[test]
fn traces_become_traces_of_other_formats() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let (plain, vectors, back) = (file("a.trc.gz"), file("b.vec"), file("c.txt"));
    run(&[
        "gen",
        "mixed",
        "--count",
        "5000",
        "--format",
        "dramsim3",
        "--gap",
        "3",
        "-o",
        path(&plain),
    ]);
    let memory = ["--memory", "ddr4"];
    let to = ["--to", "ramulator-vector", "-o", path(&vectors), "--json"];
    let done = json(&[&["convert", path(&plain)], &to[..], &memory].concat());
    assert_eq!(
        (&done["records"], &done["written"]),
        (&5000.into(), &5000.into())
    );
    assert_eq!(done["times_lost"], true);
    let to = ["--to", "gem5-text", "-o", path(&back)];
    run(&[&["convert", path(&vectors)], &to[..], &memory].concat());

    let cycles = |trace: &Path| {
        let play = ["run", "-q", "--memory", "ddr4", "--json", "--trace"];
        json(&[&play[..], &[path(trace)]].concat())["cycles"].clone()
    };
    let first = cycles(&plain);
    assert_eq!((cycles(&vectors), cycles(&back)), (first.clone(), first));

    fails(
        &[
            "convert",
            path(&plain),
            "--to",
            "gem5",
            "-o",
            path(&file("d")),
        ],
        "--cycle '1.25 ns'",
    );
    fails(
        &[
            "convert",
            path(&plain),
            "--to",
            "ramulator-vector",
            "-o",
            path(&file("d")),
        ],
        "address mapping",
    );
    assert!(!file("d").exists(), "a refused trace is not begun");
}

#[test]
fn accesses_across_lines_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("u.trc");
    std::fs::write(&trace, "LD 0x1010\nST 0x2000\nLD 0x3008\n").unwrap();
    let play = [
        "mem",
        "run",
        "--memory",
        "ddr3",
        "--trace",
        path(&trace),
        "--json",
    ];
    for (rule, requests) in [("split", 5), ("truncate", 3)] {
        let out = nagori()
            .args(play)
            .args(["--unaligned", rule])
            .assert()
            .code(0);
        let out = out.stderr(contains("2 of 3 accesses cross the end of a line"));
        let v: Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
        assert_eq!(
            (&v["unaligned"], &v["requests"]),
            (&2.into(), &requests.into())
        );
    }
    fails(
        &[&play[1..], &["--unaligned", "refuse"]].concat(),
        "u.trc, line 1: the access of 64 bytes at 0x1010",
    );
}

#[test]
fn results_have_their_keys_and_repeat() {
    let args = [
        "run",
        "-q",
        "--memory",
        "ddr3",
        "--trace",
        "gen:mixed,count=20000",
        "--json",
    ];
    let (mut a, mut b) = (json(&args), json(&args));
    assert_eq!(a["requests"], 20_000);
    for key in [
        "cycles",
        "cpu_seconds",
        "requests_per_cpu_second",
        "read_latency_avg_ns",
        "row_hit_rate",
        "simulated_seconds",
        "bandwidth_bytes_per_s",
    ] {
        assert!(
            a[key].as_f64().is_some_and(|v| v > 0.0),
            "{key}: {}",
            a[key]
        );
    }
    let energy = a["energy"].as_object().unwrap();
    assert!(
        energy
            .values()
            .all(|e| e["total_pj"].as_f64().unwrap() > 0.0),
        "{energy:?}"
    );
    // The driver and the model count the same requests.
    let counted: u64 = a["model"]["regions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            r["counters"]["reads"].as_u64().unwrap() + r["counters"]["writes"].as_u64().unwrap()
        })
        .sum();
    assert_eq!(counted, 20_000);
    for v in [&mut a, &mut b] {
        v["cpu_seconds"] = Value::Null;
        v["requests_per_cpu_second"] = Value::Null;
    }
    assert_eq!(a, b);
}

#[test]
fn one_request_after_the_other_shows_the_device() {
    // DDR3-1600K: tRCD + CL + 4 clocks of data = 13.75 + 13.75 + 5 ns, and
    // with another row open tRP = 13.75 ns more. Rows of 8 KiB.
    let v = json(&[
        "run",
        "-q",
        "--memory",
        "ddr3-1600k",
        "--trace",
        "gen:sequential,count=100",
        "--mode",
        "dependent",
        "--json",
        "--set",
        "controller.page=open",
    ]);
    let min = v["read_latency"]["min_ns"].as_f64().unwrap();
    let max = v["read_latency"]["max_ns"].as_f64().unwrap();
    assert!((13.75..=32.5).contains(&min), "{min}");
    assert!(max >= 27.5 && max > min, "{max}");
}

#[test]
fn all_formats_give_the_same_run() {
    let files = Files::new();
    let mut cycles = Vec::new();
    for (format, name) in [
        ("ramulator", "a.txt"),
        ("dramsim3", "a.trc.gz"),
        ("nvmain", "a.nvt.zst"),
        ("gem5", "a.pb.gz"),
        ("gem5-text", "a.csv"),
        ("nagori", "a.ngt.zst"),
    ] {
        let file = files.path(name);
        run(&[
            "gen",
            "-q",
            "mixed",
            "--count",
            "3000",
            "--format",
            format,
            "-o",
            path(&file),
        ]);
        let v = json(&[
            "run",
            "-q",
            "--memory",
            "ddr3",
            "--trace",
            path(&file),
            "--json",
        ]);
        assert_eq!(v["format"], format);
        assert_eq!(v["requests"], 3000);
        cycles.push(v["cycles"].as_u64().unwrap());
    }
    let direct = json(&[
        "run",
        "-q",
        "--memory",
        "ddr3",
        "--trace",
        "gen:mixed,count=3000",
        "--json",
    ]);
    assert!(cycles.iter().all(|&c| direct["cycles"] == c), "{cycles:?}");
}

#[test]
fn vectors_are_addresses_of_the_memory() {
    let files = Files::new();
    // Always one bank, with another row each time: no row hits.
    let lines: String = (0..50).map(|i| format!("R 0,0,3,{i},0\n")).collect();
    let file = files.write("v.txt", lines.as_bytes());
    let v = json(&[
        "run",
        "-q",
        "--memory",
        "ddr3",
        "--trace",
        path(&file),
        "--json",
    ]);
    assert_eq!(v["format"], "ramulator-vector");
    assert_eq!(v["row_hit_rate"], 0.0);
    let file = files.write("w.txt", b"R 0,0,3,0,0\nR 0,0,9,0,0\n");
    fails(
        &["run", "--memory", "ddr3", "--trace", path(&file)],
        "line 2: an address vector outside the memory",
    );
}

#[test]
fn commands_are_logged_in_both_forms() {
    let files = Files::new();
    let log = files.path("log");
    let common = [
        "run",
        "-q",
        "--memory",
        "ddr3",
        "--trace",
        "gen:random,count=50",
        "--commands",
    ];
    run(&[&common[..], &[path(&log)]].concat());
    let ours = std::fs::read_to_string(&log).unwrap();
    assert_eq!(
        ours.lines().filter(|l| l.contains(" RD ")).count(),
        50,
        "{ours}"
    );
    run(&[&common[..], &[path(&log), "--commands-format", "dramsim3"]].concat());
    let theirs = std::fs::read_to_string(&log).unwrap();
    assert_eq!(
        theirs.lines().filter(|l| l.contains(" read ")).count(),
        50,
        "{theirs}"
    );
    let first: Vec<_> = theirs.lines().next().unwrap().split_whitespace().collect();
    assert_eq!((first.len(), first[1]), (8, "activate"), "{theirs}");
}

/// Memories of several parts log all of them, in the order of time.
#[test]
fn logs_name_the_parts() {
    let files = Files::new();
    let log = files.path("log");
    for (memory, more, parts) in [
        ("hybrid", "span=12GiB", [("dram", 1250), ("nvmm", 2500)]),
        (
            "dram-cache",
            "span=8GiB",
            [("front.dram", 1250), ("back.nvmm", 2500)],
        ),
    ] {
        let trace = format!("gen:mixed,count=300,{more}");
        let args = [
            "run",
            "-q",
            "--memory",
            memory,
            "--trace",
            &trace,
            "--commands",
        ];
        run(&[&args[..], &[path(&log)]].concat());
        let text = std::fs::read_to_string(&log).unwrap();
        let (head, lines): (Vec<_>, Vec<_>) = text.lines().partition(|l| l.starts_with('#'));
        assert_eq!(
            head,
            [
                format!("# {}: channels 0 to 0, clocks of 1250 ps", parts[0].0),
                format!("# {}: channels 1 to 1, clocks of 2500 ps", parts[1].0),
            ]
        );
        let mut last = 0;
        let mut reads = [0, 0];
        for l in lines {
            let words: Vec<_> = l.split_whitespace().collect();
            let channel: usize = words[2].parse().unwrap();
            assert_eq!(words[8], parts[channel].0, "{l}");
            let t = words[0].parse::<u64>().unwrap() * parts[channel].1;
            assert!(t >= last, "{l}");
            last = t;
            reads[channel] += u32::from(words[1] == "RD");
        }
        assert!(reads[0] > 50 && reads[1] > 50, "{memory}: {reads:?}");
        run(&[&args[..], &[path(&log), "--commands-format", "dramsim3"]].concat());
        let theirs = std::fs::read_to_string(&log).unwrap();
        for channel in ["0", "1"] {
            let of = |l: &&str| l.split_whitespace().nth(2) == Some(channel);
            assert!(theirs.lines().filter(of).count() > 50, "{memory}");
        }
        assert!(!theirs.contains(parts[0].0));
    }
}

/// The energy of a cache is told apart by memory and command.
#[test]
fn both_memories_of_a_cache_have_their_energy() {
    let args = ["run", "-q", "--json", "--memory", "dram-cache", "--trace"];
    let a = json(&[&args[..], &["gen:mixed,count=3000"]].concat());
    let energy = a["energy"].as_object().unwrap();
    let names: Vec<_> = energy.keys().collect();
    assert_eq!(names, ["back.nvmm", "front.dram"]);
    let counters = a["model"]["counters"].as_object().unwrap();
    for (name, e) in energy {
        for command in ["activate", "read", "background"] {
            assert!(e[command].as_f64().unwrap() > 0.0, "{name} {command}: {e}");
        }
        let total = &counters[&format!("{name}.energy_pj")];
        assert_eq!(&e["total_pj"], total, "{name}");
    }
    assert!(energy["front.dram"]["refresh"].as_f64().unwrap() > 0.0);
    assert_eq!(energy["back.nvmm"]["refresh"].as_f64().unwrap(), 0.0);
}

#[test]
fn grids_are_tidy_and_in_order() {
    let files = Files::new();
    let table = files.path("t.csv");
    run(&[
        "sweep",
        "-q",
        "--memory",
        "ddr3",
        "--memory",
        "ddr4",
        "--trace",
        "gen:random,count=2000",
        "--vary",
        "controller.page=open,closed",
        "--jobs",
        "3",
        "-o",
        path(&table),
    ]);
    let text = std::fs::read_to_string(&table).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(
        lines[0].starts_with("memory,trace,mode,controller.page,requests,reads,"),
        "{text}"
    );
    for (line, (memory, page)) in lines[1..].iter().zip([
        ("ddr3", "open"),
        ("ddr3", "closed"),
        ("ddr4", "open"),
        ("ddr4", "closed"),
    ]) {
        let start = format!("{memory},\"gen:random,count=2000\",saturated,{page},2000,2000,0,");
        assert!(line.starts_with(&start), "{line}");
    }
    let other = files.path("u.csv");
    fails(
        &[
            "sweep",
            "-q",
            "--memory",
            "ddr3",
            "--trace",
            "gen:random,count=20",
            "--vary",
            "controller.page=open,nonsense",
            "-o",
            path(&other),
        ],
        "controller.page=nonsense",
    );
    assert!(!other.exists());
    let columns = files.path("t.parquet");
    let args = [
        "sweep",
        "-q",
        "--memory",
        "ddr3",
        "--trace",
        "gen:random,count=20",
    ];
    run(&[&args[..], &["-o", path(&columns)]].concat());
    let bytes = std::fs::read(&columns).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn pictures() {
    let files = Files::new();
    let (result, page) = (files.path("r.json"), files.path("r.html"));
    run(&[
        "run",
        "-q",
        "--memory",
        "ddr3",
        "--trace",
        "gen:mixed,count=5000",
        "--json",
        "-o",
        path(&result),
        "--html",
        path(&page),
    ]);
    let html = std::fs::read_to_string(&page).unwrap();
    for text in [
        "Latency as the requester sees it",
        "Bandwidth over time",
        "Row hit rate by bank",
        "Written bytes by address",
        "<code>memory ddr3",
    ] {
        assert!(html.contains(text), "{text}");
    }
    // Nothing is loaded; the data of the plots can be saved.
    let links = html.matches("href=").count();
    assert!(!html.contains("src=") && links == html.matches("href=\"data:").count());
    // The saved result gives the same page, and a picture alone.
    let again = files.path("again.html");
    run(&["plot", "-q", path(&result), "-o", path(&again)]);
    assert_eq!(std::fs::read_to_string(&again).unwrap(), html);
    let drawn = |name: &str| {
        let out = files.path(name);
        run(&["plot", "-q", path(&result), "-o", path(&out)]);
        std::fs::read(out).unwrap()
    };
    assert!(drawn("r.pdf").starts_with(b"%PDF-"));
    let vega: Value = serde_json::from_slice(&drawn("r.vl.json")).unwrap();
    assert_eq!(vega["concat"].as_array().map(Vec::len), Some(4));
    let png = files.path("r.png");
    run(&["plot", "-q", path(&result), "-o", path(&png)]);
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    fails(
        &["plot", path(&result), "-o", "x.gif"],
        ".html, .svg, .png, .pdf or .vl.json",
    );
    // Where wear is counted, it is what the map shows.
    let worn = files.path("worn.html");
    let trace = "gen:zipf,count=5000,writes=0.5";
    let args = ["run", "-q", "--memory", "xpoint", "--trace", trace];
    run(&[&args[..], &["--html", path(&worn)]].concat());
    let html = std::fs::read_to_string(&worn).unwrap();
    assert!(html.contains("Wear of xpoint: most writes of a unit"));
    let other = files.write("o.json", b"{}");
    fails(&["plot", path(&other), "-o", path(&png)], "is no result of");
}

#[test]
fn memories_are_shown_with_their_origins() {
    let text = run(&["show", "--memory", "ddr3", "--set", "timings.tRCD=15 ns"]);
    let line = text
        .lines()
        .find(|l| l.starts_with("timings.tRCD "))
        .unwrap();
    assert!(line.contains("15 ns") && line.contains("set"), "{line}");
    assert!(json(&["show", "--memory", "ddr3", "--json"])["values"].is_array());
}

#[test]
fn bad_input_is_told_and_nothing_is_written() {
    let files = Files::new();
    let bad = files.write("bad.txt", b"LD 0x0\nLD 0x40\nXX 0x80\n");
    let far = files.write("far.txt", b"LD 0x0\nLD 0xffffffffffffffc0\n");
    let back = files.write("back.txt", b"0x0 READ 10\n0x40 READ 5\n");
    let whole = files.path("w.txt.zst");
    run(&[
        "gen",
        "-q",
        "random",
        "--count",
        "20000",
        "--format",
        "ramulator",
        "-o",
        path(&whole),
    ]);
    let data = std::fs::read(&whole).unwrap();
    let cut = files.write("cut.txt.zst", &data[..data.len() / 2]);
    let html = files.path("out.html");
    let out = files.path("out.json");
    let log = files.path("out.log");
    for (more, what) in [
        (
            &["--trace", path(&bad)][..],
            "bad.txt, line 3: no known operation: 'XX'",
        ),
        (
            &["--trace", path(&far)],
            "far.txt, line 2: request of 64 bytes at offset 0xffffffffffffffc0",
        ),
        (&["--trace", path(&far)], "--wrap takes addresses modulo"),
        (
            &["--trace", path(&back), "--mode", "timestamped"],
            "line 2: the time goes back from 10 to 5",
        ),
        (&["--trace", path(&cut)], "the file is truncated"),
        (&["--trace", path(&files.path("none"))], "No such file"),
        (&["--trace", "gen:fast"], "no known pattern 'fast'"),
        (
            &["--trace", "gen:random", "--mode", "paced"],
            "needs --interval",
        ),
        (
            &["--trace", "gen:random", "--interval", "5 ns"],
            "--interval belongs to --mode paced",
        ),
        (
            &["--trace", "gen:random", "--set", "controller.colour=red"],
            "colour",
        ),
        (
            &["--trace", "gen:random,count=5", "--commands", "/dev/full"],
            "No space left",
        ),
        (
            &["--trace", "gen:random", "--set", "timings.tRC=20 ns"],
            "tRC = 16 clocks is less than tRAS + tRP",
        ),
    ] {
        let mut args = vec!["run", "-q", "--memory", "ddr3", "--json"];
        args.extend(["-o", path(&out), "--html", path(&html)]);
        if !more.contains(&"--commands") {
            args.extend(["--commands", path(&log)]);
        }
        args.extend(more);
        fails(&args, what);
    }
    fails(
        &["run", "--memory", "nope", "--trace", "gen:random"],
        "nope",
    );
    fails(
        &[
            "gen",
            "random",
            "--count",
            "5",
            "--gap",
            "3",
            "--format",
            "ramulator",
            "-o",
            path(&out),
        ],
        "has no times",
    );
    // If one of several files fails, none of them appears.
    let args = [
        "run",
        "-q",
        "--memory",
        "ddr3",
        "--trace",
        "gen:random,count=9",
    ];
    let outputs = ["--commands", path(&log), "--html", path(&html), "-o"];
    fails(
        &[&args[..], &outputs, &["/no/such/file"]].concat(),
        "/no/such/file",
    );
    fails(
        &[&args[..], &outputs, &["/dev/full"]].concat(),
        "No space left",
    );
    let args = ["run", "-q", "--memory", "xpoint", "--trace", "gen:random"];
    fails(
        &[&args[..], &["--commands", path(&log)]].concat(),
        "xpoint keeps no log of commands; devices (ddr3, pcm, ...) and the board do",
    );
    for p in [&out, &html, &log] {
        assert!(!p.exists(), "{}", p.display());
    }
    let left = std::fs::read_dir(out.parent().unwrap()).unwrap();
    let names = left.map(|f| f.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|n| !n.starts_with(".nagori-")));
    nagori()
        .args([
            "mem",
            "run",
            "--memory",
            "ddr3",
            "--trace",
            "gen:random,count=5",
            "-q",
        ])
        .args(["--json", "-o", "/dev/full"])
        .assert()
        .code(1)
        .stderr(contains("No space left"));
}

#[test]
fn interrupted_work_leaves_nothing() {
    use rustix::process::{kill_process, Pid, Signal};
    use std::process::{Command, Stdio};
    let files = Files::new();
    let out = files.path("out");
    let dir = out.parent().unwrap().to_owned();
    let endless = "gen:random,count=4000000000000";
    for args in [
        &["run", "--memory", "ddr3", "--trace", endless, "--commands"][..],
        &[
            "sweep", "--memory", "ddr3", "--memory", "pcm", "--trace", endless, "-o",
        ],
        &["gen", "random", "--count", "4000000000000", "-o"],
    ] {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("nagori"))
            .arg("mem")
            .args(args)
            .arg(&out)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It has begun when its file has; a sweep has none, and gets two seconds.
        let begun = || std::fs::read_dir(&dir).unwrap().count() > 0;
        for _ in 0..if args[0] == "sweep" { 100 } else { 500 } {
            if begun() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{args:?}");
        assert!(!begun(), "{args:?}");
    }
}

/// Speed bins in clocks, as Ramulator 2.1 and, where it has the bin, DRAMsim3 give them
/// (docs/devices.md says where the two differ).
#[test]
fn presets_have_the_clocks_of_other_simulators() {
    const NAMES: [&str; 10] = [
        "CL", "CWL", "tRCD", "tRP", "tRAS", "tRC", "tFAW", "tRTP", "tWR", "tRFC",
    ];
    for (memory, want) in [
        ("ddr3-1066f", [7, 6, 7, 7, 20, 27, 20, 4, 8, 139]),
        ("ddr3-1333h", [9, 7, 9, 9, 24, 33, 20, 5, 10, 174]),
        ("ddr3-1600k", [11, 8, 11, 11, 28, 39, 24, 6, 12, 208]),
        ("ddr3-1866m", [13, 9, 13, 13, 32, 45, 26, 7, 14, 243]),
        ("ddr4-2400r", [16, 12, 16, 16, 39, 55, 26, 9, 18, 421]),
        ("ddr4-3200aa", [22, 16, 22, 22, 52, 74, 34, 12, 24, 560]),
        ("lpddr4-3200", [28, 14, 29, 29, 68, 97, 64, 12, 29, 288]),
    ] {
        let all = json(&["show", "--memory", memory, "--json"]);
        let clocks = |name: &str| {
            let key = format!("timings.{name}");
            let mut rows = all["values"].as_array().unwrap().iter();
            rows.find(|v| v["key"] == key.as_str()).unwrap()["clocks"].as_u64()
        };
        for (name, want) in NAMES.iter().zip(want) {
            assert_eq!(clocks(name), Some(want), "{memory}: {name}");
        }
    }
}

#[test]
fn posted_writes_are_part_of_the_run() {
    let files = Files::new();
    let log = files.path("log.txt");
    for memory in ["ddr3", "ddr4", "pcm", "cxl", "board"] {
        let v = json(&[
            "run",
            "-q",
            "--memory",
            memory,
            "--trace",
            "gen:random,count=8,writes=1",
            "--json",
            "--commands",
            path(&log),
        ]);
        let text = std::fs::read_to_string(&log).unwrap();
        let writes = text.lines().filter(|l| {
            let op = l.split_whitespace().nth(1);
            matches!(op, Some("WR" | "WRA"))
        });
        assert_eq!(writes.count(), 8, "{memory}: {text}");
        let [answered, to] = ["answered", "to"].map(|k| v[k].as_u64().unwrap());
        // Answers come back over a link, which may take longer than the writes do.
        assert!(answered < to || memory == "cxl", "{memory}");
        // No channel here moves more than 25.6 GB/s.
        let rate = v["bandwidth_bytes_per_s"].as_f64().unwrap();
        assert!(rate < 25.6e9, "{memory}: {rate}");
        assert_eq!(v["model"]["to"].as_u64().unwrap(), to, "{memory}");
        if memory != "board" {
            let energy = v["energy"].as_object().unwrap().values();
            let write: f64 = energy.map(|e| e["write"].as_f64().unwrap()).sum();
            assert!(write > 0.0, "{memory}");
        }
    }
    let table = run(&[
        "run",
        "-q",
        "--memory",
        "ddr3",
        "--trace",
        "gen:random,count=8,writes=1",
    ]);
    assert!(table.contains("written after the answers"), "{table}");
    let sweep = run(&[
        "sweep",
        "-q",
        "--memory",
        "ddr3",
        "--trace",
        "gen:random,count=8,writes=1",
    ]);
    let seconds: f64 = sweep
        .lines()
        .nth(1)
        .unwrap()
        .rsplit('"')
        .next()
        .unwrap()
        .split(',')
        .nth(6)
        .unwrap()
        .parse()
        .unwrap();
    assert!(seconds > 40e-9, "{sweep}");
}

#[test]
fn sweeps_are_drawn() {
    let files = Files::new();
    let table = files.path("table.csv");
    run(&[
        "sweep",
        "-q",
        "--memory",
        "ddr3",
        "--memory",
        "pcm",
        "--trace",
        "gen:mixed,count=300",
        "--vary",
        "timings.tRCD=14 ns,20 ns,28 ns",
        "-o",
        path(&table),
    ]);
    let svg = files.path("sweep.svg");
    run(&["plot", "-q", path(&table), "-o", path(&svg)]);
    let text = std::fs::read_to_string(&svg).unwrap();
    for part in [
        "timings.tRCD [ns]",
        "bandwidth [GB/s]",
        "energy [uJ]",
        "ddr3",
        "pcm",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let page = files.path("sweep.html");
    let figure = ["--figure", "read_latency_p99_ns", "--x", "memory"];
    let plot = ["plot", "-q", path(&table), "-o", path(&page)];
    run(&[&plot[..], &figure].concat());
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("99th percentile of reads") && text.contains("timings.tRCD=28 ns"));
    let png = files.path("sweep.png");
    run(&["plot", "-q", path(&table), "-o", path(&png)]);
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    fails(
        &["plot", path(&table), "-o", path(&svg), "--x", "speed"],
        "no column speed",
    );
    let result = files.path("run.json");
    run(&[
        "run",
        "-q",
        "--memory",
        "ddr3",
        "--trace",
        "gen:random,count=50",
        "--json",
        "-o",
        path(&result),
    ]);
    fails(
        &["plot", path(&result), "-o", path(&svg), "--x", "memory"],
        "the result of one run",
    );
}
