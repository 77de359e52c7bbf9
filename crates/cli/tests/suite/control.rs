//! `--control` and `nagori ctl` against a running machine.

use crate::common::*;
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A machine that runs until it is told to end.
struct Running {
    child: Child,
    socket: PathBuf,
    _files: Files,
}

impl Running {
    fn start(more: &[&str]) -> Running {
        let files = Files::new();
        let program = files.write("endless.elf", &endless().elf());
        let socket = files.path("control");
        let child = Command::new(assert_cmd::cargo::cargo_bin("nagori"))
            .env_remove("NAGORI_MACHINES")
            .args(["bare", "--machine", "small", "--control"])
            .arg(&socket)
            .args(more)
            .arg(&program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // There is a moment between its name and the first client that it takes.
        while UnixStream::connect(&socket).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Running {
            child,
            socket,
            _files: files,
        }
    }

    fn ctl(&self, args: &[&str]) -> assert_cmd::Command {
        let mut c = nagori();
        c.arg("ctl").arg(&self.socket).args(args);
        c
    }

    fn json(&self, args: &[&str]) -> Value {
        let out = self.ctl(args).arg("--json").assert().success();
        serde_json::from_slice(&out.get_output().stdout).unwrap()
    }

    /// Its output and exit code.
    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let mut out = String::new();
        let stdout = self.child.stdout.take().unwrap();
        std::io::Read::read_to_string(&mut { stdout }, &mut out).unwrap();
        assert!(!self.socket.exists(), "the socket goes with the machine");
        (code, out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn a_machine_is_looked_at_changed_and_ended() {
    let m = Running::start(&["--stats", "json"]);
    assert_eq!(m.json(&["status"])["state"], "running");
    assert_eq!(m.json(&["pause"])["state"], "paused");
    let first = m.json(&["status"]);
    assert_eq!(first["state"], "paused");
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(m.json(&["status"]), first, "time stands still");
    m.ctl(&["status"])
        .assert()
        .success()
        .stdout(predicates::str::contains("paused, timed, method"));

    let set = m.json(&["set", "method=fine", "added_rcd=0", "timed=1"]);
    assert_eq!(set["parameters"]["method"]["name"], "fine");
    assert_eq!(m.json(&["status"])["method"], "fine");
    m.ctl(&["set", "method=slow"])
        .assert()
        .code(1)
        .stderr(predicates::str::contains(
            "there are dram, coarse, fine, extended",
        ));
    let all = m.json(&["parameters"]);
    assert_eq!(all["parameters"]["added_rcd"]["value"], 0);
    m.ctl(&["parameters"])
        .assert()
        .success()
        .stdout(predicates::str::contains("base_rcd"));

    // The endless loop's one instruction, in hexadecimal and in a file.
    m.ctl(&["dump", "0x80000000", "20"])
        .assert()
        .success()
        .stdout(predicates::str::starts_with(
            "0000000080000000  6f 00 00 00 00 00",
        ));
    assert_eq!(
        m.json(&["dump", "0x80000000", "4", "--hart", "0"])["data"],
        "6f000000"
    );
    let file = m.socket.with_file_name("memory");
    m.ctl(&["dump", "0x80000000", "0x80000", file.to_str().unwrap()])
        .assert()
        .success();
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!((bytes.len(), &bytes[..4]), (0x8_0000, &[0x6f, 0, 0, 0][..]));
    for (args, problem) in [
        (
            ["0x7ffffff0", "32"],
            "no memory at 0x7ffffff0: memory is 0x80000000..0x90000000",
        ),
        (["0x8ffffff0", "32"], "no memory at 0x90000000"),
        (["0x80000000", "0"], "expected 1 to 262144"),
        (["0x80000000", "262145"], "only with a file"),
    ] {
        m.ctl(&["dump"])
            .args(args)
            .assert()
            .code(1)
            .stderr(predicates::str::contains(problem));
    }

    m.json(&["dump-statistics", "7"]);
    let stats = m.json(&["statistics"]);
    assert_eq!(stats["report"]["marks"][0]["label"], 7);
    assert!(stats["report"]["instructions"].as_u64() > Some(0));
    m.json(&["reset-statistics"]);
    assert_eq!(m.json(&["statistics"])["report"]["instructions"], 0);
    m.ctl(&["statistics"])
        .assert()
        .success()
        .stdout(predicates::str::contains("of guest time"));

    assert_eq!(m.json(&["resume"])["state"], "running");
    let now = |m: &Running| m.json(&["status"])["time_ns"].as_u64().unwrap();
    let before = now(&m);
    while now(&m) <= before {}
    m.json(&["reset"]);
    m.json(&["quit"]);
    let (code, out) = m.end();
    assert_eq!(code, Some(0));
    let stats: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(stats["end"]["why"], "quit");
    assert_eq!(stats["marks"][0]["label"], 7);
}

#[test]
fn harts_at_the_same_time_are_controlled() {
    let m = Running::start(&[
        "--functional",
        "--set",
        "harts=4",
        "--parallel",
        "--stats",
        "json",
    ]);
    m.ctl(&["pause"]).assert().success();
    let count = || m.json(&["status"])["instructions"].as_u64().unwrap();
    assert_eq!(count(), count());
    m.ctl(&["resume"]).assert().success();
    let before = count();
    while count() == before {}
    m.ctl(&["quit"]).assert().success();
    let (code, out) = m.end();
    assert_eq!(code, Some(0));
    assert!(out.contains("\"parallel\": true"), "{out}");
}

fn line(reader: &mut impl BufRead) -> Value {
    let mut text = String::new();
    reader.read_line(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn any_client_can_speak_the_protocol() {
    let m = Running::start(&["--functional"]);
    let connect = || {
        let s = UnixStream::connect(&m.socket).unwrap();
        (s.try_clone().unwrap(), BufReader::new(s))
    };
    let (mut to, mut from) = connect();
    let (_idle, _) = connect();
    writeln!(to, "nonsense").unwrap();
    assert_eq!(line(&mut from)["error"]["code"], -32700);
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "pause"},
        {"jsonrpc": "2.0", "method": "resume"},
        {"jsonrpc": "2.0", "id": "x", "method": "status", "params": {"no": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "fly"},
        {"jsonrpc": "2.0", "id": 3, "method": "schema"},
    ]);
    writeln!(to, "{batch}").unwrap();
    let answers = line(&mut from);
    assert_eq!(answers.as_array().unwrap().len(), 4);
    assert_eq!(answers[0]["result"]["state"], "paused");
    assert_eq!(answers[1]["error"]["code"], -32602);
    assert_eq!(answers[2]["error"]["code"], -32601);
    assert!(answers[3]["result"]["methods"]["set"]["params"].is_object());
    drop((to, from));
    let file = m._files.path("saved");
    let saved = m.json(&["snapshot", file.to_str().unwrap()]);
    let size = std::fs::metadata(&file).unwrap().len();
    assert_eq!(saved["bytes"], size);
    m.ctl(&["snapshot", "/nowhere/at/all"])
        .assert()
        .code(1)
        .stderr(predicates::str::contains("cannot save to /nowhere/at/all"));
    // Without the timing model there are no caches to lose.
    m.json(&["power-cut"]);
    m.json(&["set", "timed=1"]);
    m.ctl(&["power-cut"])
        .assert()
        .code(1)
        .stderr(predicates::str::contains("track_persistence"));
    m.json(&["quit"]);
    assert_eq!(m.end().0, Some(0));
}

#[test]
fn a_place_that_is_taken_is_an_error_and_a_killed_machines_socket_is_not() {
    let mut m = Running::start(&[]);
    let program = m._files.path("endless.elf");
    let again = |socket: &Path, code: i32| {
        let mut c = nagori();
        c.args([
            "bare",
            "--machine",
            "small",
            "--max-instructions",
            "1000",
            "--control",
        ]);
        c.arg(socket).arg(&program).assert().code(code)
    };
    again(&m.socket, 1).stderr(predicates::str::contains("another machine listens"));
    m.child.kill().unwrap();
    m.child.wait().unwrap();
    assert!(m.socket.exists());
    again(&m.socket, 124);
    assert!(!m.socket.exists());
    let file = m._files.write("file", b"kept");
    again(&file, 1).stderr(predicates::str::contains("is no socket"));
    m.ctl(&["status"])
        .assert()
        .code(1)
        .stderr(predicates::str::contains("cannot connect to"));
}

#[test]
fn a_client_that_looks_changes_nothing() {
    let files = Files::new();
    let program = files.write("hello.elf", &endless().elf());
    let run = |control: Option<&Path>| {
        let mut c = Command::new(assert_cmd::cargo::cargo_bin("nagori"));
        c.args(["bare", "--machine", "small", "--stats", "json"])
            .args(["--max-instructions", "30000000"])
            .stdout(Stdio::piped());
        if let Some(path) = control {
            c.arg("--control").arg(path);
        }
        let mut child = c.arg(&program).spawn().unwrap();
        let mut looks = 0;
        if let Some(path) = control {
            while child.try_wait().unwrap().is_none() {
                let Ok(s) = UnixStream::connect(path) else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                let mut from = BufReader::new(s.try_clone().unwrap());
                let mut to = s;
                for method in ["pause", "status", "statistics", "parameters", "resume"] {
                    let m = json!({"jsonrpc": "2.0", "id": 1, "method": method});
                    let mut text = String::new();
                    let sent = writeln!(to, "{m}").is_ok();
                    if !sent || !matches!(from.read_line(&mut text), Ok(n) if n > 0) {
                        break;
                    }
                    looks += 1;
                }
            }
        }
        let out = child.wait_with_output().unwrap();
        let mut v: Value = serde_json::from_slice(&out.stdout).unwrap();
        v.as_object_mut().unwrap().remove("host");
        (v, looks)
    };
    let (want, _) = run(None);
    let path = files.path("control");
    // The first look may come before the socket is there; some look must have been in time.
    let mut looks = 0;
    for _ in 0..10 {
        let (got, n) = run(Some(&path));
        assert_eq!(got, want);
        looks += n;
        if looks > 0 {
            break;
        }
    }
    assert!(looks > 0);
}

#[test]
fn the_power_is_cut_at_a_point_to_come() {
    let m = Running::start(&["--functional"]);
    let now = m.json(&["status"]);
    let executed: u64 = now["instructions"].as_u64().unwrap();
    let at = format!("insn:{}", executed + 1_000_000_000_000);
    m.ctl(&["power-cut-at", &at]).assert().success();
    m.ctl(&["power-cut-at", &at])
        .assert()
        .code(1)
        .stderr(predicates::str::contains("to come already"));
    m.ctl(&["power-cut-at", "insn:1"])
        .assert()
        .code(1)
        .stderr(predicates::str::contains("behind the machine already"));
    m.ctl(&["power-cut-at", "later"])
        .assert()
        .code(1)
        .stderr(predicates::str::contains("expected insn:N"));
    m.ctl(&["quit"]).assert().success();
    m.end();
    let m = Running::start(&["--functional"]);
    m.ctl(&["pause"]).assert().success();
    let now = m.json(&["status"])["instructions"].as_u64().unwrap();
    let at = now + 3_000_000;
    m.ctl(&["power-cut-at", &format!("insn:{at}")])
        .assert()
        .success();
    m.ctl(&["resume"]).assert().success();
    let cuts = loop {
        let report = m.json(&["statistics"]);
        let cuts = report["report"]["power_cuts"].clone();
        if cuts.as_array().is_some_and(|c| !c.is_empty()) {
            break cuts;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(cuts[0]["instructions"], at);
    let text = m.ctl(&["power-cut"]).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(text.contains("lines of NVMM lost in caches"), "{text}");
    m.ctl(&["quit"]).assert().success();
    m.end();
}
