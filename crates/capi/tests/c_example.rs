//! The example in C, compiled by the system's compiler against both kinds of
//! library, and run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The newest library with that ending beside this test.
fn library(ending: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let age = |p: &Path| {
        let m = p.metadata().and_then(|m| m.modified());
        m.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    [deps, deps.parent().unwrap()]
        .iter()
        .flat_map(|d| std::fs::read_dir(d).unwrap())
        .map(|e| e.unwrap().path())
        .filter(|p| {
            let name = p.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("libnagori_capi") && name.ends_with(ending)
        })
        .max_by_key(|p| age(p))
        .unwrap_or_else(|| panic!("no libnagori_capi*{ending} in {}", deps.display()))
}

fn build_and_run(ending: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("stream");
    let library = library(ending);
    let cc = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"])
        .arg(root.join("examples/stream.c"))
        .arg("-I")
        .arg(root.join("include"))
        .arg(&library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .expect("a C compiler is needed for this test: cc");
    let errors = String::from_utf8_lossy(&cc.stderr);
    assert!(cc.status.success(), "{errors}");
    let run = |args: &[&str]| {
        Command::new(&program)
            .args(args)
            .env("LD_LIBRARY_PATH", library.parent().unwrap())
            .output()
            .unwrap()
    };
    let bad = run(&["no-such-memory"]);
    assert_eq!(bad.status.code(), Some(1));
    let text = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(text.contains("no-such-memory"), "{text}");
    let good = run(&["xpoint", "20000"]);
    let errors = String::from_utf8_lossy(&good.stderr);
    assert!(good.status.success(), "{errors}");
    String::from_utf8(good.stdout).unwrap()
}

#[test]
fn the_example_runs_with_both_libraries() {
    let still = build_and_run(".a");
    assert_eq!(still, build_and_run(".so"));
    let lines: Vec<&str> = still.lines().collect();
    assert_eq!(lines[0], "requests 20000");
    let json: serde_json::Value = serde_json::from_str(lines[3]).unwrap();
    assert_eq!(json["regions"][0]["counters"]["reads"], 15000);
    assert_eq!(json["regions"][0]["counters"]["writes"], 5000);
}
