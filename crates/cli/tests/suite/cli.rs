//! Arguments, help, machine descriptions.

use crate::common::*;
use predicates::prelude::*;
use predicates::str::contains;

fn stdout(args: &[&str]) -> String {
    let out = nagori().args(args).assert().code(0).stderr("");
    String::from_utf8(out.get_output().stdout.clone()).unwrap()
}

#[test]
fn help_is_as_recorded() {
    for (name, args) in [
        ("help.txt", &["--help"][..]),
        ("help-boot.txt", &["boot", "--help"]),
        ("help-run.txt", &["run", "--help"]),
        ("help-compare.txt", &["compare", "--help"]),
        ("help-bare.txt", &["bare", "--help"]),
        ("help-machine-show.txt", &["machine", "show", "--help"]),
        ("help-image-build.txt", &["image", "build", "--help"]),
        ("help-bench-board.txt", &["bench", "board", "--help"]),
    ] {
        golden(name, &stdout(args));
    }
}

/// Whoever starts a long command knows when to come back.
#[test]
fn long_commands_say_how_long_they_take() {
    let benches = stdout(&["bench", "--help"]);
    let list = benches.split("Commands:\n").nth(1).expect("a list");
    let names = list.lines().take_while(|l| !l.is_empty());
    let names = names.filter_map(|l| l.strip_prefix("  ")?.split(' ').next());
    let names: Vec<&str> = names.filter(|n| !n.is_empty() && *n != "help").collect();
    assert!(names.len() > 7, "{benches}");
    let benches = names.iter().map(|n| vec!["bench", *n]);
    let others = [
        &["run"][..],
        &["compare"],
        &["boot"],
        &["resume"],
        &["bare"],
        &["crash"],
        &["image", "build"],
        &["snapshot", "boot"],
        &["mem", "run"],
        &["mem", "sweep"],
        &["mem", "record"],
        &["native"],
        &["nvmm"],
    ];
    for command in benches.chain(others.map(<[&str]>::to_vec)) {
        let text = stdout(&[&command[..], &["--help"]].concat());
        assert!(text.contains("\nTime:\n"), "{command:?}: {text}");
    }
}

#[test]
fn version() {
    let text = format!("nagori {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(stdout(&["--version"]), text);
}

#[test]
fn wrong_arguments_are_told() {
    for (args, what) in [
        (
            &["boot", "--method", "slow"][..],
            "expected one of dram, coarse, fine, extended",
        ),
        (&["boot", "--timed", "--functional"], "cannot be used with"),
        (&["bare", "x.elf", "--trace", "exec"], "--trace-file <FILE>"),
        (&["bare", "x.elf", "--trace-file", "t"], "--trace <WHAT>"),
        (
            &["bare", "x.elf", "--max-instructions", "0"],
            "--max-instructions",
        ),
        (&["bare"], "<ELF>"),
        (
            &["bench", "board", "--accesses", "99999"],
            "from 1 to 49152",
        ),
        (
            &["bench", "board", "--quick", "--accesses", "9"],
            "cannot be used with",
        ),
        (&["fly"], "unrecognized subcommand"),
    ] {
        nagori()
            .args(args)
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(what));
    }
}

#[test]
fn wrong_values_are_told_before_anything_is_done() {
    for (args, what) in [
        (
            &["bench", "board", "--plot", "x.jpg"][..],
            "must end in .svg, .png, .pdf or .vl.json",
        ),
        (
            &["bench", "board", "--machine", "nope"],
            "known are: peer, server, server-caches, server-prefetch, small, soc, vc707",
        ),
        (&["boot", "--set", "memory.size=12"], "memory"),
        (&["boot", "--set", "colour=red"], "unknown field `colour`"),
        (&["boot", "--set", "colour"], "expected key=value"),
        (
            &["bare", "--machine", "./none.toml", "x.elf"],
            "cannot read ./none.toml",
        ),
    ] {
        nagori()
            .args(args)
            .assert()
            .code(1)
            .stdout("")
            .stderr(contains(what));
    }
}

#[test]
fn machines_are_shown() {
    let text = stdout(&["machine", "show", "--set", "harts=2"]);
    let line = text.lines().find(|l| l.starts_with("harts ")).unwrap();
    assert!(
        line.contains(" 2 ") && line.ends_with("[set for this run]"),
        "{line}"
    );
    let value: serde_json::Value =
        serde_json::from_str(&stdout(&["machine", "show", "small", "--json"])).unwrap();
    assert_eq!(value["source"], "builtin:small.toml");
    assert!(value["values"].as_array().unwrap().len() > 50);
}

#[test]
fn machines_are_listed_with_broken_ones() {
    assert!(stdout(&["machine", "list"]).contains("(default)"));
    let files = Files::new();
    files.write("broken.toml", b"harts = \"many\"\n");
    let out = nagori()
        .args(["machine", "list", "--json"])
        .env("NAGORI_MACHINES", files.path("."))
        .assert()
        .code(0);
    let value: serde_json::Value = serde_json::from_slice(&out.get_output().stdout).unwrap();
    let of = |name: &str| {
        let found = value.as_array().unwrap().iter().find(|m| m["name"] == name);
        found.unwrap()["description"].as_str().unwrap().to_string()
    };
    assert!(of("broken").contains("unusable"), "{value}");
    assert!(of("vc707").contains("Rocket"), "{value}");
}

#[test]
fn the_schema_knows_the_keys() {
    let value: serde_json::Value = serde_json::from_str(&stdout(&["machine", "schema"])).unwrap();
    assert!(value["properties"]["harts"].is_object());
}

#[test]
fn colour_only_where_it_is_wanted() {
    let run = |force: bool| {
        let mut c = nagori();
        c.args(["machine", "show", "nope"]);
        if force {
            c.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR")
        } else {
            c.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1")
        };
        c.assert().code(1)
    };
    run(true).stderr(contains("\u{1b}["));
    run(false).stderr(contains("\u{1b}[").not());
}

#[test]
fn reports_of_documents_and_what_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let report = |from: &str| {
        let mut c = nagori();
        c.current_dir(dir.path())
            .args(["report", from, "-o", "out.html"]);
        c
    };
    write(
        "study.json",
        r#"{"format": "nagori-document", "title": "A <b> study", "sections": [{"title": "One", "blocks": [
            {"text": "words"}, {"chart": {"panels": [{"x": {"scale": "names"}, "y": {"title": "time", "unit": "s"},
            "series": [{"mark": "bars", "points": [["ddr4", 1], ["pcm", 2]]}]}]}}]}]}"#,
    );
    report("study.json").assert().code(0);
    let page = std::fs::read_to_string(dir.path().join("out.html")).unwrap();
    assert!(page.contains("<h1>A &lt;b&gt; study</h1>") && page.contains(">time [s]</text>"));
    for (text, told) in [
        ("{", "is no JSON"),
        ("{\"a\": 1}", "nagori compare --json"),
        (
            r#"{"format": "nagori-document", "title": "", "sections": [{"blocks": [{"cod": ""}]}]}"#,
            "sections[0].blocks[0]",
        ),
    ] {
        write("wrong.json", text);
        report("wrong.json").assert().code(1).stderr(contains(told));
    }
    report("none.json")
        .assert()
        .code(1)
        .stderr(contains("cannot read none.json"));
}
