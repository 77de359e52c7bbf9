//! Threads of other processes, stopped from outside; and virtual CPUs that a fake QEMU names.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{build, model, monitor};
use nagori_native::foreign::{self, busy_ns, threads_of, Stop, Targets};
use nagori_native::host::System;
use nagori_native::monitor::{Epochs, Report};
use nagori_native::qmp;
use nagori_native::source::Tid;

const MS: u64 = 1_000_000;

/// Ends a program when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that works in some threads until it is ended; it says so when they are there.
fn start(threads: u32) -> (common::Built, Running) {
    let built = build(
        "busy",
        r#"
        static void *other(void *n) { for (;;) work(1); return n; }
        int main(int argc, char **argv) {
            pthread_t t;
            for (int i = 1; i < atoi(argv[1]); i++) pthread_create(&t, 0, other, 0);
            puts("ready"); fflush(stdout);
            other(0);
        }"#,
    );
    let mut command = Command::new(&built.path);
    let mut child = command
        .arg(threads.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    (built, Running(child))
}

/// Emulates for a while. Returns the report and what the threads have worked meanwhile.
fn emulate(targets: &Targets, times: u64, epoch_ms: u64, length: Duration) -> (Report, u64) {
    let system = System::default();
    let busy = || {
        targets
            .threads
            .iter()
            .map(|&(t, p)| busy_ns(&system, p, t).unwrap())
            .sum::<u64>()
    };
    let (before, started) = (busy(), Instant::now());
    let monitor = monitor(
        model(times),
        Epochs::of(epoch_ms * MS),
        "stall_cycles=1000000000,llc_misses=1000000",
    );
    let report = foreign::run(targets, monitor, &system, &|| started.elapsed() > length).unwrap();
    (report, busy() - before)
}

/// What is asked follows from the work, and is waited, but for the epochs that the end has cut.
fn check(report: &Report, worked: u64, times: u64, epoch_ms: u64) {
    for t in &report.threads {
        let last = (epoch_ms * MS * (times + 1)) as f64 * 3.0;
        assert!(t.asked_ns > 0.0, "{report:?}");
        assert!(
            (t.asked_ns - t.waited_ns).abs() < 0.02 * t.asked_ns + last,
            "{report:?}"
        );
    }
    let asked = report.asked_ns() / times as f64;
    assert!(
        asked <= worked as f64 * 1.01,
        "{asked} of {worked}: {report:?}"
    );
    assert!(
        asked > worked as f64 * 0.5,
        "{asked} of {worked}: {report:?}"
    );
}

#[test]
fn each_thread_of_a_process_is_stopped_alone() {
    let (_built, running) = start(2);
    let threads = threads_of(&System::default(), running.0.id() as i32).unwrap();
    assert_eq!(threads.len(), 2);
    let targets = Targets {
        threads,
        follow: true,
        stop: Stop::Thread,
    };
    for (times, epoch) in [(2, 5), (4, 10)] {
        let (report, worked) = emulate(&targets, times, epoch, Duration::from_millis(600));
        assert_eq!(report.threads.len(), 2);
        check(&report, worked, times, epoch);
    }
}

#[test]
fn a_process_is_stopped_by_signals() {
    let (_built, running) = start(1);
    let threads = threads_of(&System::default(), running.0.id() as i32).unwrap();
    let targets = Targets {
        threads,
        follow: false,
        stop: Stop::Process,
    };
    let (report, worked) = emulate(&targets, 3, 10, Duration::from_millis(600));
    check(&report, worked, 3, 10);
    // It runs on.
    let status = std::fs::read_to_string(format!("/proc/{}/stat", running.0.id())).unwrap();
    assert!(!status.contains(") T "), "{status}");
}

#[test]
fn several_threads_cannot_be_stopped_by_signals() {
    let (_built, running) = start(2);
    let threads = threads_of(&System::default(), running.0.id() as i32).unwrap();
    let targets = Targets {
        threads,
        follow: false,
        stop: Stop::Process,
    };
    let monitor = monitor(model(1), Epochs::of(MS), "stall_cycles=1");
    let e = foreign::run(&targets, monitor, &System::default(), &|| false).unwrap_err();
    assert!(e.to_string().contains("only be stopped one by one"), "{e}");
}

#[test]
fn the_end_of_a_process_is_the_end_of_the_run() {
    let (_built, mut running) = start(1);
    let system = System::default();
    let threads = threads_of(&system, running.0.id() as i32).unwrap();
    let targets = Targets {
        threads,
        follow: true,
        stop: Stop::Thread,
    };
    let id = running.0.id();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        running.0.kill().unwrap();
        // The run waits for its threads; here it is of the same process, and may be told of the end first.
        let _ = running.0.wait();
    });
    let monitor = monitor(
        model(1),
        Epochs::of(5 * MS),
        "stall_cycles=1000000000,llc_misses=1000000",
    );
    let report = foreign::run(&targets, monitor, &system, &|| false).unwrap();
    killer.join().unwrap();
    assert_eq!(report.threads.len(), 1);
    assert!(threads_of(&system, id as i32).is_err());
}

/// A QEMU that greets, lets its capabilities be negotiated, and answers with a line.
fn fake_qemu(greeting: &'static str, answer: String) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("qmp");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            return;
        };
        let _ = writeln!(stream, "{greeting}");
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            let text = if line.contains("qmp_capabilities") {
                "{\"event\":\"RESUME\",\"data\":{}}\n{\"return\":{}}".to_owned()
            } else if line.contains("query-kvm") {
                r#"{"return":{"enabled":true,"present":true}}"#.to_owned()
            } else {
                answer.clone()
            };
            let _ = writeln!(stream, "{text}");
        }
    });
    (folder, socket)
}

const GREETING: &str =
    r#"{"QMP":{"version":{"qemu":{"micro":0,"minor":2,"major":8}},"capabilities":["oob"]}}"#;

#[test]
fn virtual_cpus_are_found_and_delayed() {
    let (_built, running) = start(2);
    let system = System::default();
    let pid = running.0.id() as i32;
    let threads = threads_of(&system, pid).unwrap();
    let cpus: Vec<String> = threads
        .iter()
        .enumerate()
        .map(|(i, t)| {
            format!(
                r#"{{"cpu-index":{},"thread-id":{},"qom-path":"/machine","target":"x86_64"}}"#,
                1 - i,
                t.0 .0
            )
        })
        .collect();
    let (_folder, socket) = fake_qemu(GREETING, format!(r#"{{"return":[{}]}}"#, cpus.join(",")));
    let machine = qmp::machine(&socket).unwrap();
    assert!(machine.kvm);
    let vcpus = machine.vcpus;
    assert_eq!(vcpus.iter().map(|v| v.index).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(vcpus[1].thread, threads[0].0);
    let threads = vcpus
        .iter()
        .map(|v| (v.thread, foreign::process_of(&system, v.thread.0).unwrap()))
        .collect();
    let targets = Targets {
        threads,
        follow: false,
        stop: Stop::Thread,
    };
    assert!(targets.threads.iter().all(|t| t.1 == pid));
    let (report, worked) = emulate(&targets, 2, 10, Duration::from_millis(500));
    assert_eq!(report.threads.len(), 2);
    check(&report, worked, 2, 10);
}

#[test]
fn what_is_no_qemu_is_told() {
    let cpu = |index: i32, thread: i64| format!(r#"{{"cpu-index":{index},"thread-id":{thread}}}"#);
    for (greeting, answer, why) in [
        (r#"{"hello":1}"#, String::new(), "not QMP"),
        ("220 ready", String::new(), "220 ready"),
        (
            GREETING,
            r#"{"error":{"class":"CommandNotFound","desc":"x"}}"#.into(),
            "CommandNotFound",
        ),
        (GREETING, r#"{"return":[]}"#.into(), "no virtual CPUs"),
        (GREETING, r#"{"return":{}}"#.into(), "answers {}"),
        (
            GREETING,
            format!(r#"{{"return":[{},{}]}}"#, cpu(0, 5), cpu(1, 5)),
            "share a thread",
        ),
        (
            GREETING,
            format!(r#"{{"return":[{}]}}"#, cpu(0, -1)),
            "cannot be",
        ),
        (
            GREETING,
            r#"{"return":[{"cpu-index":0}]}"#.into(),
            "without",
        ),
    ] {
        let (_folder, socket) = fake_qemu(greeting, answer);
        let e = qmp::machine(&socket).unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
    }
    let e = qmp::machine("/nonexistent/qmp".as_ref())
        .unwrap_err()
        .to_string();
    assert!(e.contains("QMP socket /nonexistent/qmp"), "{e}");
}

#[test]
fn a_process_that_is_not_there_is_told() {
    let system = System::default();
    assert!(threads_of(&system, i32::MAX)
        .unwrap_err()
        .to_string()
        .contains("no such process"));
    assert!(foreign::process_of(&system, i32::MAX)
        .unwrap_err()
        .to_string()
        .contains("no such thread"));
    let gone = Targets {
        threads: vec![(Tid(i32::MAX), i32::MAX)],
        follow: false,
        stop: Stop::Thread,
    };
    let monitor = monitor(model(1), Epochs::of(MS), "stall_cycles=1");
    let report = foreign::run(&gone, monitor, &system, &|| false).unwrap();
    assert!(report.threads.is_empty());
}
