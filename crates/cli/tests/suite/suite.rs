//! `nagori suite`: its list, its report from recorded results, and what it refuses.

use crate::common::nagori;
use predicates::str::contains;
use serde_json::Value;

const RESULTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../suite/results/study.jsonl.zst"
);

fn suite(args: &[&str]) -> assert_cmd::Command {
    let mut c = nagori();
    c.arg("suite").args(args).env_remove("NAGORI_SUITE");
    c
}

fn stdout(args: &[&str]) -> String {
    let out = suite(args).assert().success();
    String::from_utf8(out.get_output().stdout.clone()).unwrap()
}

#[test]
fn the_list_has_every_kind_that_the_authors_had() {
    let all: Vec<Value> = serde_json::from_str(&stdout(&["list", "--json"])).unwrap();
    assert!(all.len() >= 24, "{}", all.len());
    let mut kinds: Vec<&str> = all
        .iter()
        .filter_map(|p| p["stands_for"].as_str())
        .collect();
    kinds.sort();
    kinds.dedup();
    // Their Table 7 has 14 programs.
    assert_eq!(kinds.len(), 14, "{kinds:?}");
    assert!(stdout(&["list"]).contains("557.xz_r"));
}

#[test]
fn a_report_follows_from_recorded_results() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.md");
    std::fs::write(&page, "a\n<!-- suite:times -->\n<!-- suite:end -->\nb\n").unwrap();
    let packed = dir.path().join("packed.zst");
    suite(&[
        "report",
        "--results",
        RESULTS,
        "--document",
        page.to_str().unwrap(),
        "--save",
        packed.to_str().unwrap(),
    ])
    .assert()
    .success();
    let text = std::fs::read_to_string(&page).unwrap();
    let section = |name: &str| {
        let all = stdout(&["report", "--results", packed.to_str().unwrap()]);
        let from = all.find(&format!("## {name}\n")).unwrap() + name.len() + 4;
        let rest = &all[from..];
        rest[..rest.find("\n## ").unwrap_or(rest.len())]
            .trim()
            .to_string()
    };
    assert_eq!(
        text,
        format!(
            "a\n<!-- suite:times -->\n\n{}\n\n<!-- suite:end -->\nb\n",
            section("times")
        )
    );
    assert_eq!(
        std::fs::read(&packed).unwrap(),
        std::fs::read(RESULTS).unwrap()
    );
}

#[test]
fn what_is_impossible_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("results");
    let store = store.to_str().unwrap();
    for (args, said) in [
        (&["run", "nosuch"][..], "there is no program `nosuch`"),
        (
            &["run", "xz", "--methods", "slow"],
            "there is no method `slow`",
        ),
        (
            &["run", "xz", "--malloc", "tcmalloc"],
            "expected nagori or jemalloc",
        ),
        (
            &["run", "xz", "--malloc", "jemalloc", "--placement", "nvmm"],
            "jemalloc",
        ),
        (
            &["run", "xz", "--size", "tiny"],
            "expected small, default or long",
        ),
        (&["report"], "of 0 results none was made"),
    ] {
        let args = [args, &["--store", store]].concat();
        suite(&args).assert().failure().stderr(contains(said));
    }
    suite(&["report", "--results", RESULTS, "--machine", "nosuch"])
        .assert()
        .failure()
        .stderr(contains("none was made under such conditions"));
}
