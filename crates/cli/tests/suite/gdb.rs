//! `--gdb` with the debugger itself.

use crate::common::*;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far longer than anything here takes on an idle host.
const PATIENCE: Duration = Duration::from_secs(300);

fn tools() -> bool {
    ["gdb-multiarch", "riscv64-linux-gnu-gcc"]
        .iter()
        .all(|t| tool(t))
}

fn machine(program: &Path, harts: u32) -> Command {
    let mut c = nagori_command();
    c.arg("bare")
        .arg(program)
        .args(["--set", &format!("harts={harts}"), "--stats", "json"])
        // Nothing here takes minutes; a hang must become a failure.
        .args(["--max-instructions", "20000000000"]);
    c
}

fn nagori_command() -> Command {
    let mut c = Command::new(assert_cmd::cargo::cargo_bin("nagori"));
    c.env_remove("NAGORI_MACHINES").env_remove("COLUMNS");
    c
}

/// Runs the program under a script of the debugger; returns GDB's output, and the statistics at the
/// end.
fn debug(program: &Path, harts: u32, more: &[&str], script: &str) -> (String, Value) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("gdb");
    let mut run = machine(program, harts)
        .arg(format!("--gdb=unix:{}", socket.display()))
        .args(more)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while !socket.exists() {
        assert!(run.try_wait().unwrap().is_none(), "no machine waits");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let commands = dir.path().join("script");
    let head = format!(
        "set pagination off\nset confirm off\nset width 0\ntarget remote {}\n",
        socket.display()
    );
    std::fs::write(&commands, head + script).unwrap();
    let gdb = Command::new("timeout")
        .args(["300", "gdb-multiarch", "-nx", "-batch", "-x"])
        .arg(&commands)
        .arg(program)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&gdb.stdout).into_owned();
    let errors = String::from_utf8_lossy(&gdb.stderr).into_owned();
    let out = run.wait_with_output().unwrap();
    assert!(
        out.status.success(),
        "{text}\n{errors}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(!socket.exists(), "the socket goes with the machine");
    let mut stats: Value = serde_json::from_slice(&out.stdout).expect("statistics");
    stats.as_object_mut().unwrap().remove("host");
    (format!("{text}\n--- errors\n{errors}"), stats)
}

/// The statistics of a run without a debugger.
fn alone(program: &Path, harts: u32, more: &[&str]) -> Value {
    let out = machine(program, harts).args(more).output().unwrap();
    assert!(out.status.success());
    let mut stats: Value = serde_json::from_slice(&out.stdout).unwrap();
    stats.as_object_mut().unwrap().remove("host");
    stats
}

fn has(text: &str, want: &[&str]) {
    let mut rest = text;
    for w in want {
        match rest.find(w) {
            Some(i) => rest = &rest[i + w.len()..],
            None => panic!("no `{w}` (in order) in\n{text}"),
        }
    }
}

#[test]
fn breakpoints_watchpoints_steps_registers_and_backtraces() {
    if !tools() {
        return;
    }
    let files = Files::new();
    let program = debuggee(&files, 1);
    let (text, stats) = debug(
        &program,
        1,
        &[],
        "break fibonacci if n == 1
         continue
         backtrace
         delete
         hbreak finish
         info registers pc
         watch watched
         continue
         print watched
         x/2i $pc
         stepi
         next
         info threads
         print $priv
         print/x $mstatus & 0x6000
         print $fa0
         print/x $misa
         print half
         set var half = 2.5
         print half
         print sums[0]
         monitor method fine
         monitor translate 0x80000000
         monitor physical on
         x/1xw 0x80000000
         monitor nonsense
         info registers mhartid
         delete
         continue
        ",
    );
    has(
        &text,
        &[
            "Breakpoint 1, fibonacci (n=n@entry=1)",
            "#0  fibonacci (n=n@entry=1)",
            "#7  ",
            "fibonacci (n=n@entry=8)",
            "#8  ",
            "finish (hart=hart@entry=0)",
            "#9  ",
            "work (hart=0)",
            "_start ()",
            "Hardware assisted breakpoint 2",
            "<fibonacci>",
            "Hardware watchpoint 3: watched",
            "Old value = 0",
            "New value = 1",
            "finish (hart=",
            "$1 = 1",
            "=> 0x8000",
            "work (hart=0)",
            "Thread 1.1 (hart 0, machine)",
            "$2 = 3",
            "$3 = 0x6000",
            "float = ",
            "$5 = 0x800000000014112d",
            "$6 = 0.5",
            "$7 = 2.5",
            "$8 = 1046549",
            "<fibonacci>:",
            "mhartid        0x0",
            "exited normally",
            // What `monitor` says goes to standard error.
            "--- errors",
            "fine",
            "0x80000000",
            "on",
            "no such command",
        ],
    );
    assert_eq!(stats["end"]["why"], "off");
}

#[test]
fn a_debugger_does_not_change_the_guests_time() {
    if !tools() {
        return;
    }
    let files = Files::new();
    for harts in [1, 4] {
        let program = debuggee(&files, harts);
        for more in [
            &["--timed"][..],
            &["--functional"],
            &["--timed", "--engine=interpreter"],
        ] {
            let want = alone(&program, harts, more);
            let (text, got) = debug(&program, harts, more, "continue\n");
            assert!(text.contains("exited normally"), "{text}");
            assert_eq!(got, want, "only continued, {harts} harts, {more:?}");
            let (text, got) = debug(
                &program,
                harts,
                more,
                "break fibonacci
                 ignore 1 20
                 watch watched
                 rwatch arrived
                 continue
                 stepi
                 stepi
                 stepi
                 step
                 next
                 info threads
                 continue
                 info registers
                 x/8i $pc
                 continue
                 stepi 25
                 delete
                 break finish
                 continue
                 delete
                 continue
                ",
            );
            assert!(text.contains("exited normally"), "{text}");
            assert_eq!(got, want, "stopped often, {harts} harts, {more:?}:\n{text}");
        }
    }
}

#[test]
fn harts_are_threads_and_stop_by_themselves() {
    if !tools() {
        return;
    }
    let files = Files::new();
    let program = debuggee(&files, 4);
    for more in [&[][..], &["--parallel"]] {
        let (text, _) = debug(
            &program,
            4,
            more,
            "info threads
         break finish
         continue
         print hart == $mhartid
         print $_thread == $mhartid + 1
         stepi
         thread 1
         print/x $mhartid
         thread 4
         print $mhartid
         delete
         detach
        ",
        );
        has(
            &text,
            &[
                "hart 0",
                "hart 1",
                "hart 2",
                "hart 3",
                "hit Breakpoint 1, finish (hart=hart@entry=",
                "$1 = 1",
                "$2 = 1",
                "$3 = 0x0",
                "$4 = 3",
                "detached",
            ],
        );
    }
}

/// GDB watches a register by steps of one instruction, thousands one after the other.
#[test]
fn registers_are_watched() {
    if !tools() {
        return;
    }
    let files = Files::new();
    let program = debuggee(&files, 1);
    let want = alone(&program, 1, &[]);
    let (text, got) = debug(
        &program,
        1,
        &[],
        "break fill
         continue
         delete
         stepi 4
         watch $a5 if $a5 == 0xdead
         watch sum if sum > 20000
         continue
         delete
         continue
        ",
    );
    has(
        &text,
        &[
            "Watchpoint 2: $a5",
            "atchpoint 3: sum",
            "Watchpoint 3: sum",
            "New value = ",
            "exited normally",
        ],
    );
    assert_eq!(got, want);
}

/// A machine that waits for a debugger, and never ends by itself.
struct Debugged {
    child: Child,
    files: Files,
    program: PathBuf,
}

impl Debugged {
    fn start() -> Debugged {
        let files = Files::new();
        // Its only hart waits for others for ever.
        let program = debuggee(&files, 99);
        let child = nagori_command()
            .arg("bare")
            .arg(&program)
            .args(["--set", "harts=1"])
            .arg(format!("--gdb=unix:{}", files.path("gdb").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let d = Debugged {
            child,
            files,
            program,
        };
        d.until("gdb");
        d
    }

    /// Waits until a file is there.
    fn until(&self, name: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.files.path(name).exists() {
            assert!(Instant::now() < end, "no {name}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// GDB with a script, which makes the file `there` where it is told to.
    fn gdb(&self, script: &str) -> Child {
        let there = format!("shell touch {}", self.files.path("there").display());
        let script = format!(
            "set pagination off\nset confirm off\ntarget remote {}\n{}\n",
            self.files.path("gdb").display(),
            script.replace("THERE", &there)
        );
        let child = Command::new("gdb-multiarch")
            .args(["-nx", "-batch", "-x"])
            .arg(self.files.write("script", script.as_bytes()))
            .arg(&self.program)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.until("there");
        child
    }

    fn connect(&self) -> UnixStream {
        connect(&self.files.path("gdb"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its exit code and output.
    fn end(mut self) -> (Option<i32>, String) {
        let end = Instant::now() + PATIENCE;
        let code = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if Instant::now() > end => {
                    self.child.kill().unwrap();
                    panic!("the machine does not end");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let mut said = String::new();
        let mut errors = self.child.stderr.take().unwrap();
        errors.read_to_string(&mut said).unwrap();
        assert!(!self.files.path("gdb").exists());
        (code, said)
    }
}

#[test]
fn signals_end_a_run_whatever_its_debugger_does() {
    if !tools() {
        return;
    }
    // Without a debugger; with one that holds the machine, runs it, or steps it all the time.
    let scripts = [
        None,
        Some("THERE\nshell sleep 600"),
        Some("THERE\ncontinue"),
        Some("stepi 20\nwatch $a5 if $a5 == 0xdead\nTHERE\ncontinue"),
    ];
    for (n, script) in scripts.into_iter().enumerate() {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let machine = Debugged::start();
            let debugger = script.map(|s| machine.gdb(s));
            if n > 1 {
                // Into the middle of it.
                std::thread::sleep(Duration::from_secs(1));
            }
            machine.signal(signal);
            let (got, said) = machine.end();
            assert_eq!(got, Some(code), "{script:?}: {said}");
            assert!(said.contains("ended by signal"), "{script:?}: {said}");
            if let Some(mut d) = debugger {
                let _ = d.kill();
                d.wait().unwrap();
            }
        }
    }
}

#[test]
fn a_debugger_that_does_not_read_keeps_nobody() {
    if !tools() {
        return;
    }
    let machine = Debugged::start();
    let mut to = machine.connect();
    // Far more answers than any buffer takes; the write ends with the connection.
    let asks = std::thread::spawn(move || while to.write_all(b"+$g#67").is_ok() {});
    std::thread::sleep(Duration::from_secs(1));
    machine.signal(Signal::INT);
    let (code, said) = machine.end();
    assert_eq!(code, Some(130), "{said}");
    asks.join().unwrap();
}

#[test]
fn a_debugger_that_dies_leaves_the_machine_waiting() {
    if !tools() {
        return;
    }
    // While it is stopped, and while the program is stepped; another debugger may connect then.
    for (n, script) in ["shell sleep 600", "watch $a5 if $a5 == 0xdead\ncontinue"]
        .into_iter()
        .enumerate()
    {
        let machine = Debugged::start();
        let mut debugger = machine.gdb(&format!("THERE\n{script}"));
        if n > 0 {
            std::thread::sleep(Duration::from_secs(1));
        }
        debugger.kill().unwrap();
        debugger.wait().unwrap();
        std::fs::remove_file(machine.files.path("there")).unwrap();
        let mut second = machine.gdb("stepi 5\nTHERE\nkill");
        second.wait().unwrap();
        let (code, said) = machine.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("waits for another"), "{said}");
    }
    // No debugger connects again: it waits, or runs to its end.
    let files = Files::new();
    let program = debuggee(&files, 1);
    let socket = files.path("gdb");
    for (more, ends) in [(None, false), (Some("--gdb-run-on"), true)] {
        let mut run = machine(&program, 1)
            .arg(format!("--gdb=unix:{}", socket.display()))
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        drop(connect(&socket));
        if ends {
            assert!(run.wait().unwrap().success());
        } else {
            // Far longer than the program takes.
            std::thread::sleep(Duration::from_secs(4));
            assert!(run.try_wait().unwrap().is_none(), "it waits");
            run.kill().unwrap();
            run.wait().unwrap();
            std::fs::remove_file(&socket).unwrap();
        }
    }
}

/// Each hart in a loop of its own.
fn loops(files: &Files) -> PathBuf {
    let source = files.write(
        "loops.S",
        b".globl _start, one, two, three\n_start: csrr t0, mhartid\n li t1, 1\n beq t0, t1, two\n bgtu t0, t1, three\n\
          one: addi s1, s1, 1\n j one\ntwo: addi s2, s2, 1\n j two\nthree: addi s3, s3, 1\n j three\n",
    );
    let program = files.path("loops.elf");
    let status = Command::new("riscv64-linux-gnu-gcc")
        .args(["-nostdlib", "-static", "-march=rv64gc", "-mabi=lp64d"])
        .arg("-Wl,-Ttext=0x80000000,--build-id=none,-N")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(status.success());
    program
}

#[test]
fn ctrl_c_shows_and_changes_the_hart_that_it_names() {
    if !tools() {
        return;
    }
    let files = Files::new();
    let program = loops(&files);
    // What GDB looked at before matters to nobody, nor does how it went on.
    let break_at = |name: &str| format!("hbreak {name}\ncontinue\ndelete\n");
    for (before, go) in [
        (break_at("two"), "continue"),
        (break_at("three"), "continue 2"),
        (break_at("two") + "thread 1\n", "continue"),
        (
            break_at("three") + "thread 2\nstepi\nthread 3\n",
            "signal 0",
        ),
        ("info threads\n".to_string(), "continue"),
    ] {
        let script = format!(
            "{before}shell (sleep 1; kill -INT $PPID) &
             {go}
             print $_thread == $mhartid + 1
             set var $s5 = 0x1000 + $mhartid
             print/x $s5 - $mhartid
             thread 1
             print $s5 != 0
             thread 2
             print $s5 != 0
             thread 3
             print $s5 != 0
             kill
            "
        );
        let (text, _) = debug(&program, 3, &[], &script);
        has(&text, &["SIGINT", "$1 = 1", "$2 = 0x1000"]);
        let own = (3..6).filter(|n| text.contains(&format!("${n} = 1\n")));
        assert_eq!(own.count(), 1, "one hart has it: {text}");
    }
}

/// Sends a packet and returns the content of the answer.
fn ask(stream: &mut UnixStream, content: &str) -> String {
    stream
        .write_all(&nagori_remote::gdb::frame::packet(content.as_bytes()))
        .unwrap();
    answer(stream)
}

fn answer(stream: &mut UnixStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut framer = nagori_remote::gdb::frame::Framer::default();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).expect("an answer");
        if let Some(nagori_remote::gdb::frame::Event::Packet(p)) = framer.take(byte[0]) {
            return String::from_utf8(p).unwrap();
        }
    }
}

#[test]
fn odd_packets_do_not_end_a_session() {
    if !tools() {
        return;
    }
    let machine = Debugged::start();
    let mut s = machine.connect();
    let start = ask(&mut s, "p20");
    for odd in [
        "Hg-1",
        "Hgp-1.-1",
        "T0",
        "vCont;s:0",
        "vCont;t",
        "vCont;",
        "vCont;s:",
        "vCont;s:9",
        "mzz,4",
        "m80000000",
        "G00",
        "Z0,zz,2",
        "Z2,80000100",
        "qRcmd,zz",
        "M80000100,4:0102",
        "m10000000,4",
    ] {
        let a = ask(&mut s, odd);
        assert!(a.len() == 3 && a.starts_with('E'), "{odd}: {a}");
    }
    assert_eq!(
        ask(&mut s, "m80000000,ffffffff").len(),
        nagori_remote::gdb::PACKET
    );
    assert_eq!(ask(&mut s, "?"), "T05thread:1;");
    // It still stands where it was, and runs only now.
    assert_eq!(ask(&mut s, "p20"), start);
    s.write_all(b"$vCont;c#a8").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(ask(&mut s, "g"), "E04");
    s.write_all(b"\x03").unwrap();
    assert_eq!(answer(&mut s), "T02thread:1;");
    s.write_all(b"$k#6b").unwrap();
    let (code, said) = machine.end();
    assert_eq!(code, Some(0), "{said}");
}

/// Packets that were changed at random, to a machine that stands or runs: it answers what comes behind them.
#[test]
fn mutated_packets_do_not_end_a_session() {
    if !tools() {
        return;
    }
    let machine = Debugged::start();
    let mut s = machine.connect();
    let known = [
        "g",
        "p20",
        "P101=0000000000000000",
        "m80000000,10",
        "M80010000,2:0102",
        "X80010000,2:ab",
        "Z0,80000000,2",
        "z0,80000000,2",
        "Z2,80010000,8",
        "z2,80010000,8",
        "vCont;c",
        "vCont;s:1;c:-1",
        "vCont;r80000000,80000010:1",
        "s80000000",
        "Hg1",
        "T1",
        "qThreadExtraInfo,1",
        "qRcmd,7472616e736c61746520383030",
        "qSupported:swbreak+",
    ];
    let mut x = 1u64;
    let mut random = |below: usize| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 16) as usize % below
    };
    for _ in 0..3000 {
        let mut packet = known[random(known.len())].as_bytes().to_vec();
        for _ in 0..random(3) {
            let at = random(packet.len() + 1);
            let with = b"0123456789abcdef,;:-.=pzgG?"[random(27)];
            match random(3) {
                0 => packet.insert(at, with),
                1 if at < packet.len() => packet[at] = with,
                _ => packet.truncate(at),
            }
        }
        let mut bytes = nagori_remote::gdb::frame::packet(&packet);
        // If it runs, it is to stop.
        bytes.push(3);
        s.write_all(&bytes).unwrap();
        let what = "qXfer:features:read:target.xml:0,5";
        let mut got = ask(&mut s, what);
        while got != "m<?xml" {
            got = answer(&mut s);
        }
    }
    s.write_all(b"$k#6b").unwrap();
    let (code, said) = machine.end();
    assert_eq!(code, Some(0), "{said}");
}

fn connect(socket: &Path) -> UnixStream {
    // The socket has its name a moment before anybody listens.
    let end = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(e) => assert!(Instant::now() < end, "{e}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
