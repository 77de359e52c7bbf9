//! `nagori crash` with a log of records on NVMM (`guest/crash/ringlog.c`): its missing flush is found, the correct
//! version has no finding, and a finding leads back to its store.
//!
//! Needs what `nagori image build` needs, and the cross compiler; skipped where one is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::{debian, nagori, tool};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest");

/// The log's program, compiled; nothing, with a message, where a tool is missing.
fn ringlog(dir: &Path) -> Option<PathBuf> {
    compiled(dir, "ringlog")
}

/// A program of guest/crash.
fn compiled(dir: &Path, name: &str) -> Option<PathBuf> {
    debian::image()?;
    if !tool("riscv64-linux-gnu-gcc") {
        return None;
    }
    let program = dir.join(name);
    let status = std::process::Command::new("riscv64-linux-gnu-gcc")
        .args(["-static", "-O2", "-g", "-march=rv64gc", "-o"])
        .arg(&program)
        .arg(format!("-I{GUEST}/include"))
        .arg(format!("{GUEST}/crash/{name}.c"))
        .status()
        .expect("the compiler runs");
    assert!(status.success());
    Some(program)
}

/// Explores a workload of the log; the report.
fn explore(program: &Path, workload: &str, more: &[&str], code: i32) -> Value {
    let file = format!("{}:/bin/ringlog", program.display());
    let out = nagori()
        .timeout(debian::PATIENCE)
        .args(["--quiet", "crash", "--machine", "small", "--file", &file])
        .args(["--setup", "ringlog setup", "--workload", workload])
        .args(["--recover", "ringlog recover", "--check", "ringlog check"])
        .args(["--json", "-"])
        .args(more)
        .assert()
        .code(code);
    serde_json::from_slice(&out.get_output().stdout).expect("a report")
}

/// Explores these commands with a program of guest/crash in /bin.
fn run(program: &Path, commands: &[&str], more: &[&str], code: i32) -> Value {
    let name = program.file_name().and_then(|n| n.to_str()).expect("UTF-8");
    let file = format!("{}:/bin/{name}", program.display());
    let out = nagori()
        .timeout(debian::PATIENCE)
        .args(["--quiet", "crash", "--machine", "small", "--file", &file])
        .args(["--order", "commit", "--json", "-"])
        .args(commands)
        .args(more)
        .assert()
        .code(code);
    serde_json::from_slice(&out.get_output().stdout).expect("a report")
}

/// Sinks of output that came before the program's store was durable.
fn early(report: &Value) -> Vec<&str> {
    let all = report["warnings"].as_array().expect("warnings");
    let ours = |w: &&Value| {
        let at = w["frames"][0]["symbol"]["name"].as_str();
        w["kind"] == "output-too-early" && at.is_some_and(|n| n.starts_with("tell"))
    };
    let sinks = all.iter().filter(ours).map(|w| w["sink"].as_str());
    sinks.map(|s| s.expect("a sink")).collect()
}

#[test]
fn output_before_its_data_are_durable_is_seen() {
    let dir = TempDir::new().unwrap();
    let Some(program) = compiled(dir.path(), "output") else {
        return;
    };
    let disk = dir.path().join("disk");
    std::fs::write(&disk, vec![0; 20 << 20]).expect("a disk");
    let disk = format!("{},overlay=temp", disk.display());
    let network = "ifconfig eth0 10.0.2.15 up && ";
    for (sink, before, more) in [
        ("console", "", &[][..]),
        ("network", network, &["--net", "user"][..]),
        ("disk", "", &["--disk", &disk][..]),
    ] {
        for when in ["early", "durable"] {
            let workload = format!("{before}output workload {sink} {when}");
            let commands = ["--setup", "output setup", "--recover", "true", "--workload"];
            let report = run(&program, &[&commands[..], &[&workload]].concat(), more, 0);
            let expected = if when == "early" { vec![sink] } else { vec![] };
            assert_eq!(early(&report), expected, "{sink} {when}");
        }
    }
}

/// A device reads NVMM, and writes it: a disk, past the page cache, of a mapped file on a file system with DAX.
#[test]
fn devices_read_and_write_nvmm() {
    let dir = TempDir::new().unwrap();
    let Some(program) = compiled(dir.path(), "output") else {
        return;
    };
    // The file system is at the beginning of the disk; where the program writes and reads are sevens.
    let disk = dir.path().join("disk");
    std::fs::write(&disk, vec![0; 8 << 20]).expect("a disk");
    let mut mkfs = std::process::Command::new("mkfs.ext4");
    let path = std::env::var("PATH").unwrap_or_default();
    mkfs.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    mkfs.args(["-q", "-F", "-b", "4096"]).arg(&disk);
    match mkfs.status() {
        Ok(status) => assert!(status.success()),
        Err(e) => {
            assert!(!debian::tools_required(), "mkfs.ext4: {e}");
            return eprintln!("skipped: mkfs.ext4: {e}");
        }
    }
    let mut bytes = std::fs::read(&disk).expect("a disk");
    bytes.resize(16 << 20, 0);
    bytes.resize((16 << 20) + 4096, 7);
    std::fs::write(&disk, bytes).expect("a disk");
    let disk = format!("{},overlay=temp", disk.display());
    let mount = "mkdir -p /mnt && mount -t ext4 -o dax=always /dev/pmem0 /mnt || exit 9\n\
                 export NAGORI_NVMM=/mnt/f\n";
    let setup = format!(
        "dd if=/dev/vda of=/dev/pmem0 bs=1M count=8 2>/dev/null\n{mount}\
         dd if=/dev/zero of=/mnt/f bs=1M count=2 2>/dev/null; umount /mnt"
    );
    // Whether the disk's sevens are in the file is all that it looks at, not whether the file system is sound.
    let recover = "mkdir -p /mnt && mount -t ext4 -o dax=always /dev/pmem0 /mnt || exit 0\n\
                   [ \"$(od -An -tx1 -N1 /mnt/f)\"";
    for (what, expected, code) in [
        ("dma early", vec!["disk"], 0),
        ("dma durable", vec![], 0),
        ("in durable", vec![], 1),
    ] {
        // Without a cut recovery succeeds.
        let sevens = if code == 1 { "=" } else { "!=" };
        let recover = format!("{recover} {sevens} ' 07' ] || exit 7");
        let workload = format!("{mount}output workload {what}; r=$?; umount /mnt; exit $r");
        let commands = [
            "--setup",
            &setup,
            "--workload",
            &workload,
            "--recover",
            &recover,
        ];
        let more = [
            "--nvmm",
            "pmem-region",
            "--set",
            "advertise_zicbom=true",
            "--domain",
            "adr",
            "--budget-states",
            "40",
            "--disk",
            &disk,
        ];
        let report = run(&program, &commands, &more, code);
        assert_eq!(early(&report), expected, "{what}");
        let all = report["findings"].as_array().expect("findings");
        assert_eq!(all.is_empty(), code == 0, "{what}");
        assert!(all.iter().all(|f| f["outcome"]["code"] == 7), "{what}");
    }
}

#[test]
fn a_second_cut_finds_a_recovery_that_cannot_be_interrupted() {
    let dir = TempDir::new().unwrap();
    let Some(program) = compiled(dir.path(), "undo") else {
        return;
    };
    let commands = |recover| {
        let first = ["--setup", "undo setup", "--workload", "undo workload 2"];
        [&first[..], &["--recover", recover, "--check", "undo check"]].concat()
    };
    let right = run(&program, &commands("undo recover"), &["--recuts", "50"], 0);
    let r = &right["recuts"];
    assert!(r["recorded"].as_u64() > Some(0), "{r}");
    assert_eq!(r["recorded"], r["storing"]);
    assert_eq!(r["cuts"], r["complete"]);
    assert!(r["recoveries"].as_u64() > Some(0), "{r}");

    // No cut during the workload shows that this one empties its log too early.
    let bad = commands("undo recover clear-first");
    let once = run(&program, &bad, &[], 0);
    assert_eq!(once["recuts"], Value::Null);
    let found = dir.path().join("found");
    let found = found.to_str().expect("UTF-8");
    let jobs = ["1", "2"].map(|jobs| {
        let more = ["--recuts", "50", "--jobs", jobs, "--findings", found];
        same(run(&program, &bad, &more, 1))
    });
    assert_eq!(jobs[0], jobs[1], "the number of jobs matters");
    let finding = &jobs[0]["findings"][0];
    assert!(finding["recut"].is_object(), "{finding}");
    let places: BTreeSet<&str> = { finding["stores"].as_array().into_iter().flatten() }
        .filter_map(|s| s["frames"][0]["symbol"]["name"].as_str())
        .collect();
    assert!(!places.is_empty(), "{finding}");
    let store = &finding["stores"][0];
    let id = finding["id"].as_str().expect("an id");
    let out = nagori()
        .timeout(debian::PATIENCE)
        .args(["--quiet", "crash", "replay", &format!("{found}/{id}.json")])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    let pc = store["site"]["pc"].as_u64().expect("a pc");
    assert!(text.contains(&format!("pc {pc:#x}")), "{text}");
}

/// What this machine would have lost: nothing that was flushed, but without a domain what was in the controller's
/// queue.
#[test]
fn as_built_depends_on_the_domain() {
    let dir = TempDir::new().unwrap();
    let Some(program) = ringlog(dir.path()) else {
        return;
    };
    let report = |domain: &str, workload: &str, code| {
        let more = ["--mode", "as-built", "--domain", domain];
        let report = explore(&program, workload, &more, code);
        let c = &report["coverage"];
        assert_eq!(c["cuts"], c["complete"], "{domain}: {c}");
        c["cuts"].as_u64().expect("a number")
    };
    for domain in ["adr", "none", "gpf:2"] {
        assert!(report(domain, "ringlog workload 4", 0) > 4, "{domain}");
    }
    // With caches in the domain nothing is lost, whatever is not flushed.
    let bad = "ringlog workload 4 without-flush";
    report("eadr", bad, 0);
    // At some points less has reached memory than the controller.
    let [adr, none] = ["adr", "none"].map(|domain| report(domain, bad, 1));
    assert!(none < adr, "{none} {adr}");
}

/// Harts with store buffers that combine stores under a hint: such stores need a fence, but no flush, and a cut takes
/// what is in a buffer.
#[test]
fn what_harts_hold_back_is_lost() {
    let dir = TempDir::new().unwrap();
    let Some(program) = ringlog(dir.path()) else {
        return;
    };
    let combined = "ringlog workload 3 combined";
    let order = ["--order", "commit", "--oracle", "prefix"];
    // Other machines have to flush them, too.
    let few = [&order[..], &["--budget-states", "100"]].concat();
    let report = explore(&program, combined, &few, 1);
    let kinds = |r: &Value| -> BTreeSet<String> {
        let all = r["warnings"].as_array().into_iter().flatten();
        all.filter_map(|w| Some(w["kind"].as_str()?.to_string()))
            .collect()
    };
    assert!(kinds(&report).contains("never-flushed"), "{report}");
    let machine = [
        "--set=l1d.mshrs=4",
        "--set=store_buffer.entries=8",
        "--set=store_buffer.drain=\"any\"",
        "--set=nontemporal.all.store=\"write-combining\"",
    ];
    let complete = |more: &[&str], workload: &str, code: i32| {
        let report = explore(&program, workload, &[&machine[..], more].concat(), code);
        let c = &report["coverage"];
        assert!(code != 0 || c["cuts"] == c["complete"], "{more:?}: {c}");
        assert!(c["cuts"].as_u64() > Some(3), "{more:?}: {c}");
        report
    };
    let report = complete(&order, combined, 0);
    assert_eq!(kinds(&report), BTreeSet::new(), "{report}");
    // What the machine itself would have left is one of these contents, in each domain.
    for domain in ["none", "adr", "gpf:3", "eadr"] {
        let as_built = ["--mode", "as-built", "--domain", domain];
        complete(&as_built, combined, 0);
    }
    let bad = "ringlog workload 3 without-flush";
    complete(&["--mode", "as-built", "--domain", "adr"], bad, 1);
    complete(&["--mode", "as-built", "--domain", "eadr"], bad, 0);
}

/// A report without what differs between commands.
fn same(mut report: Value) -> Value {
    report["args"] = Value::Null;
    report
}

#[test]
fn a_correct_log_has_no_finding() {
    let dir = TempDir::new().unwrap();
    let Some(program) = ringlog(dir.path()) else {
        return;
    };
    let report = explore(&program, "ringlog workload 6", &["--oracle", "prefix"], 0);
    assert_eq!(report["findings"], Value::Array(vec![]));
    let c = &report["coverage"];
    assert_eq!(c["cuts"], c["complete"], "{c}");
    assert!(c["cuts"].as_u64() > Some(12), "{c}");
    assert_eq!(c["unstable"], 0);
    assert_eq!(
        report["workload"]["labels"].as_array().map(Vec::len),
        Some(6)
    );
}

#[test]
fn a_missing_flush_is_found_and_replayed() {
    let dir = TempDir::new().unwrap();
    let Some(program) = ringlog(dir.path()) else {
        return;
    };
    let found = dir.path().join("found");
    let found = found.to_str().expect("UTF-8");
    let workload = "ringlog workload 2 without-flush";
    // In another order the words of a line alone have hundreds of contents.
    let few = ["--order", "commit", "--budget-states", "150"];
    let report = explore(
        &program,
        workload,
        &[&few[..], &["--jobs", "1", "--findings", found]].concat(),
        1,
    );
    let again = explore(
        &program,
        workload,
        &[&few[..], &["--jobs", "2", "--engine", "interpreter"]].concat(),
        1,
    );
    assert_eq!(
        same(report.clone()),
        same(again),
        "the number of jobs or the engine matters"
    );
    // Each shard tries its own cuts; together they have all, and find the same.
    let parts = ["1/2", "2/2"].map(|shard| {
        let more = [&few[..], &["--shard", shard]].concat();
        explore(&program, workload, &more, 1)
    });
    let cuts = |r: &Value| r["coverage"]["cuts"].as_u64().expect("a number");
    assert_eq!(cuts(&parts[0]) + cuts(&parts[1]), cuts(&report));
    assert!(parts.iter().all(|p| cuts(p) > 0), "a shard without a cut");
    let ids = |r: &Value| -> BTreeSet<String> {
        let all = r["findings"].as_array().expect("findings");
        all.iter().map(|f| f["id"].to_string()).collect()
    };
    let both: BTreeSet<String> = parts.iter().flat_map(ids).collect();
    assert_eq!(both, ids(&report));
    merged(dir.path(), &parts, &report);

    let finding = &report["findings"][0];
    assert_eq!(finding["outcome"]["kind"], "recover-exit", "{finding}");
    let store = &finding["stores"][0];
    assert_eq!(store["change"], "lost");
    assert_eq!(store["frames"][0]["symbol"]["name"], "append");
    assert_eq!(store["frames"][1]["symbol"]["name"], "main");
    let source = |n: usize| {
        let place = &store["frames"][n]["source"];
        let file = place[0].as_str().expect("a source file");
        let line = place[1].as_u64().expect("a line") as usize;
        let text = std::fs::read_to_string(file).expect("the source");
        text.lines().nth(line - 1).unwrap_or_default().to_string()
    };
    assert!(source(0).contains("r->words)[i] ="), "{}", source(0));
    assert!(source(1).contains("append("), "{}", source(1));
    let id = finding["id"].as_str().expect("an id");
    let out = nagori()
        .timeout(debian::PATIENCE)
        .args(["--quiet", "crash", "replay", &format!("{found}/{id}.json")])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    let pc = store["site"]["pc"].as_u64().expect("a pc");
    assert!(text.contains(&format!("pc {pc:#x}")), "{text}");
    debugger(&format!("{found}/{id}.json"), dir.path(), &program, pc);
}

/// The reports of shards become that of the whole. With `--budget-states` they need not, so findings are compared only.
fn merged(dir: &Path, parts: &[Value], whole: &Value) {
    let path = |n: usize| dir.join(format!("part{n}")).display().to_string();
    for (n, part) in parts.iter().enumerate() {
        std::fs::write(path(n), part.to_string()).expect("a report can be written");
    }
    let junit = dir.join("merged.xml").display().to_string();
    let out = nagori()
        .args(["--quiet", "crash", "merge", &path(1), &path(0)])
        .args(["--json", "-", "--junit", &junit])
        .assert()
        .code(1);
    let merged: Value = serde_json::from_slice(&out.get_output().stdout).expect("a report");
    assert_eq!(merged["workload"], whole["workload"]);
    assert_eq!(merged["warnings"], whole["warnings"]);
    assert_eq!(merged["coverage"]["cuts"], whole["coverage"]["cuts"]);
    let ids = |r: &Value| -> BTreeSet<String> {
        let all = r["findings"].as_array().expect("findings");
        all.iter().map(|f| f["id"].to_string()).collect()
    };
    assert_eq!(ids(&merged), ids(whole));
    let args = merged["args"].as_array().expect("arguments");
    assert!(
        !args.iter().any(|a| a == "--shard" || a == "1/2"),
        "{args:?}"
    );
    let text = std::fs::read_to_string(junit).expect("the report");
    assert_eq!(text.matches("<failure ").count(), ids(whole).len());
    // One part alone is no whole.
    nagori()
        .args(["--quiet", "crash", "merge", &path(0)])
        .assert()
        .code(2);
}

/// A debugger finds the machine immediately before the store, with its callers.
fn debugger(finding: &str, dir: &Path, program: &Path, pc: u64) {
    if !tool("gdb-multiarch") {
        return;
    }
    let socket = dir.join("gdb");
    let mut replay = std::process::Command::new(assert_cmd::cargo::cargo_bin("nagori"))
        .args(["--quiet", "crash", "replay", finding])
        .arg(format!("--gdb=unix:{}", socket.display()))
        .spawn()
        .expect("the program starts");
    let begin = std::time::Instant::now();
    while !socket.exists() {
        assert!(begin.elapsed() < debian::PATIENCE, "nobody listens");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let gdb = std::process::Command::new("timeout")
        .args(["100", "gdb-multiarch", "-nx", "-batch"])
        .arg(program)
        .args(["-ex", &format!("target remote {}", socket.display())])
        .args(["-ex", "x/i $pc", "-ex", "bt", "-ex", "kill"])
        .output()
        .expect("the debugger runs");
    let text = String::from_utf8_lossy(&gdb.stdout).into_owned();
    let _ = replay.kill();
    let _ = replay.wait();
    let there = format!("=> {pc:#x} <append+");
    let line = text.lines().find(|l| l.starts_with(&there));
    assert!(line.is_some_and(|l| l.contains("\tsd\t")), "{text}");
    assert!(text.contains("in main ("), "{text}");
}

#[test]
fn a_checker_decides_and_a_recovery_may_boot() {
    let dir = TempDir::new().unwrap();
    let Some(program) = ringlog(dir.path()) else {
        return;
    };
    // A log of which one record is there has done nothing wrong: only the program says so.
    let checker = dir.path().join("checker.py");
    let text = "import json, sys\n\
                q = json.load(sys.stdin)\n\
                n = int(q['output'].split()[1])\n\
                assert n <= len(q['labels']) == 2, q\n\
                sys.exit('one is one too few' if n == 1 else 0)\n";
    std::fs::write(&checker, text).expect("the checker can be written");
    let (junit, sarif) = (dir.path().join("a.xml"), dir.path().join("a.sarif"));
    let path = |p: &Path| p.to_str().expect("UTF-8").to_string();
    let more = [
        "--checker",
        &path(&checker),
        "--junit",
        &path(&junit),
        "--sarif",
        &path(&sarif),
        "--order",
        "commit",
    ];
    let report = explore(&program, "ringlog workload 2", &more, 1);
    let all = report["findings"].as_array().expect("findings");
    assert!(!all.is_empty());
    for f in all {
        assert_eq!(f["outcome"]["kind"], "checker", "{f}");
        let text = f["text"].as_str().unwrap_or_default();
        assert!(
            text.contains("records 1") && text.contains("one too few"),
            "{f}"
        );
    }
    let failures = std::fs::read_to_string(&junit).expect("the report");
    assert_eq!(failures.matches("<failure ").count(), all.len());
    let sarif = std::fs::read(&sarif).expect("the report");
    let sarif: Value = serde_json::from_slice(&sarif).expect("JSON");
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    let uri = place["artifactLocation"]["uri"].as_str();
    assert!(uri.is_some_and(|u| u.ends_with("/ringlog.c")), "{place}");

    let report = explore(
        &program,
        "ringlog workload 1",
        &["--from-reset", "--order", "commit"],
        0,
    );
    let c = &report["coverage"];
    assert_eq!(c["cuts"], c["complete"], "{c}");
    assert!(report["recoveries"].as_u64() > Some(1), "{report}");
}

#[test]
fn what_cannot_be_explored_is_an_error() {
    nagori()
        .args(["crash", "--workload", "true"])
        .assert()
        .code(2);
    nagori()
        .args(["crash", "replay", "/nonexistent/finding.json"])
        .assert()
        .code(2);
    nagori()
        .args([
            "crash",
            "--workload",
            "true",
            "--recover",
            "true",
            "--shard",
            "3/2",
        ])
        .assert()
        .code(2);
}

/// Explores the log with these commands in place of the right ones; the error.
fn refused(program: &Path, changed: &[&str], more: &[&str]) -> String {
    let file = format!("{}:/bin/ringlog", program.display());
    let report = program.with_file_name("report");
    let mut commands = vec![
        ("--setup", "ringlog setup"),
        ("--workload", "ringlog workload 2"),
        ("--recover", "ringlog recover"),
        ("--check", "ringlog check"),
    ];
    for pair in changed.chunks(2) {
        let known = commands.iter_mut().find(|c| c.0 == pair[0]);
        known.expect("an option").1 = pair[1];
    }
    let mut c = nagori();
    c.timeout(debian::PATIENCE)
        .current_dir(program.parent().expect("a directory"))
        .args(["crash", "--machine", "small", "--file", &file])
        .args(["--order", "commit", "--json"])
        .arg(&report)
        .args(more);
    for (option, command) in commands {
        c.args([option, command]);
    }
    let out = c.assert().code(2);
    assert!(!report.exists(), "an error is no result");
    String::from_utf8_lossy(&out.get_output().stderr).into_owned()
}

#[test]
fn what_can_find_nothing_or_finds_everything_is_refused() {
    let dir = TempDir::new().unwrap();
    let Some(program) = ringlog(dir.path()) else {
        return;
    };
    let says = |changed: &[&str], more: &[&str], what: &str| {
        let e = refused(&program, changed, more);
        assert!(e.contains(what), "{changed:?}: {e}");
        e
    };
    let e = says(&["--workload", "true"], &[], "stores nothing to NVMM");
    assert!(e.contains("--allow-empty"), "{e}");
    says(
        &["--recover", "ringlog recovr"],
        &[],
        "--recover ends with exit code",
    );
    says(
        &["--recover", "ringlogg recover"],
        &[],
        "ringlogg: not found",
    );
    // The guest has it in /bin only.
    let here = ["--recover", "./ringlog recover"];
    let hint = "./ringlog is a file of this host, which the guest does not have: --file ./ringlog:/root/ringlog";
    says(&here, &[], hint);
    says(
        &["--check", "echo wrong; exit 3"],
        &[],
        "--check ends with exit code 3",
    );
    // What the workload leaves is wrong without any cut, although what it has begun with is right.
    let empty = ["--check", "ringlog check | grep -q 'records 0'"];
    says(&empty, &[], "--check ends with exit code 1");
    let hang = ["--recover", "ringlog recover; sleep 100"];
    says(&hang, &["--hang", "2"], "does not end within --hang");
    let checker = dir.path().join("checker.py");
    std::fs::write(&checker, "import sys\nsys.exit('never')\n").expect("a file");
    let checker = checker.to_str().expect("UTF-8");
    let e = says(&[], &["--checker", checker], "--checker rejects");
    assert!(e.contains("never"), "{e}");

    let commands = ["--workload", "true", "--recover", "true"];
    let report = run(&program, &commands, &["--allow-empty"], 0);
    assert_eq!(report["workload"]["stores"]["programs"], 0, "{report}");
    // Recovery that looks at nothing cannot fail, and the report says so.
    let commands = ["--workload", "ringlog setup", "--recover", "true"];
    let report = run(&program, &commands, &[], 0);
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("read nothing of what the workload stores"),
        "{notes}"
    );
    assert!(report["workload"]["stores"]["programs"].as_u64() > Some(0));
}

/// A mapping of the block device is one of the page cache.
#[test]
fn stores_to_the_page_cache_are_told() {
    let dir = TempDir::new().unwrap();
    let Some(program) = ringlog(dir.path()) else {
        return;
    };
    // The kernel writes the pages back when the device is closed.
    let cached = "export NAGORI_NVMM=/dev/pmem0; ringlog setup; ringlog workload 2; sync";
    let commands = [
        "--workload",
        cached,
        "--recover",
        "head -c 4096 /dev/pmem0 | od",
    ];
    let more = ["--nvmm", "pmem-region", "--budget-states", "5"];
    let report = run(&program, &commands, &more, 0);
    let notes = report["notes"].to_string();
    assert!(notes.contains("page cache"), "{notes}");
    assert_eq!(report["workload"]["stores"]["programs"], 0);
    assert!(report["workload"]["stores"]["kernel"].as_u64() > Some(100));
    // It is the kernel's code, and its functions have names.
    let warnings = report["warnings"].as_array().expect("warnings");
    let innermost = warnings.iter().map(|w| &w["frames"][0]);
    let kernel = innermost.filter(|f| f["pc"].as_u64() >= Some(0xffff_ffff_8000_0000));
    let names: BTreeSet<&str> = kernel
        .filter_map(|f| f["symbol"]["name"].as_str())
        .collect();
    assert!(!names.is_empty(), "{warnings:?}");
}

/// A signal during the search ends it, and what it has found by then is written in every form.
#[test]
fn a_signal_loses_no_finding() {
    use rustix::process::{kill_process, Pid, Signal};
    use std::io::Read;
    let dir = TempDir::new().unwrap();
    let Some(program) = ringlog(dir.path()) else {
        return;
    };
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let path = |name: &str| dir.path().join(format!("{name}{code}"));
        // The checker decides, so that this test knows when the search has found something.
        let failed = path("failed");
        let text = format!(
            "import json, sys\n\
             if 'damaged' in json.load(sys.stdin)['output']:\n\
             \x20   print('damaged', file=open('{}', 'a'))\n\
             \x20   sys.exit('a record is damaged')\n",
            failed.display()
        );
        std::fs::write(path("checker.py"), text).expect("the checker can be written");
        let mut c = std::process::Command::new(assert_cmd::cargo::cargo_bin("nagori"));
        c.args(["crash", "--machine", "small", "--jobs", "2", "--file"])
            .arg(format!("{}:/bin/ringlog", program.display()))
            .args(["--setup", "ringlog setup"])
            .args(["--workload", "ringlog workload 40 without-flush"])
            .args([
                "--recover",
                "true",
                "--check",
                "ringlog recover 2>&1 || true",
            ])
            .arg("--checker")
            .arg(path("checker.py"))
            .arg("--source-root")
            .arg(format!("{GUEST}/crash"));
        for option in ["json", "junit", "sarif", "findings"] {
            c.arg(format!("--{option}")).arg(path(option));
        }
        let mut child = c
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the program starts");
        // Each of two jobs may be at work on one of them still.
        let found = || std::fs::read_to_string(&failed).map_or(0, |s| s.lines().count());
        while found() < 3 {
            assert!(child.try_wait().expect("a child").is_none(), "it ends");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let mut text = String::new();
        child
            .stdout
            .take()
            .expect("stdout")
            .read_to_string(&mut text)
            .expect("text");
        let mut errors = String::new();
        let mut stderr = child.stderr.take().expect("stderr");
        stderr.read_to_string(&mut errors).expect("text");
        let ended = child.wait().expect("it ends");
        assert_eq!(ended.code(), Some(code), "{errors}");
        let said = format!("ended by signal {}", code - 128);
        assert!(
            text.contains(&said) && text.contains("store in append: "),
            "{text}"
        );

        let read = |name: &str| std::fs::read_to_string(path(name)).expect(name);
        let report: Value = serde_json::from_str(&read("json")).expect("JSON");
        assert_eq!(report["signal"], code - 128);
        assert_eq!(report["coverage"]["stopped"], true);
        let findings = report["findings"].as_array().expect("findings");
        assert!(!findings.is_empty());
        for f in findings {
            let id = f["id"].as_str().expect("an id");
            assert!(path("findings").join(format!("{id}.json")).exists());
        }
        let junit = read("junit");
        assert_eq!(junit.matches("<failure ").count(), findings.len());
        assert!(junit.contains("errors=\"1\"") && junit.contains(&said));
        let sarif: Value = serde_json::from_str(&read("sarif")).expect("JSON");
        let of = &sarif["runs"][0];
        assert_eq!(of["invocations"][0]["executionSuccessful"], false);
        let place = &of["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
        assert_eq!(place["uri"], "ringlog.c");
        assert_eq!(place["uriBaseId"], "%SRCROOT%");
    }
}
