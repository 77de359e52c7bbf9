//! Programs for the tests, and models with known answers.
#![allow(dead_code)]

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;

use nagori_epoch::{Attribution, Model, Params, PerLine, Variant, Weight};
use nagori_memtime::{Period, Ps};
use nagori_native::monitor::{Epochs, Monitor, Report};
use nagori_native::own;
use nagori_native::source::synthetic::Synthetic;

/// What every program has: work for some milliseconds of processor time, which the helper's waiting does not count as
/// (it is measured in iterations), and clocks.
const PRELUDE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
static inline double clock_ns(clockid_t c) {
    struct timespec t;
    clock_gettime(c, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
static inline double now(void) { return clock_ns(CLOCK_MONOTONIC); }
static inline double spent(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
/* Processor time of another thread. */
static inline double spent_by(pthread_t t) { clockid_t c; pthread_getcpuclockid(t, &c); return clock_ns(c); }
static inline void work(int ms) {
    static volatile uint64_t sink;
    const char *per = getenv("ITERATIONS_PER_MS");
    uint64_t n = (per ? strtoull(per, 0, 10) : 900000ull) * (uint64_t)ms, x = 1;
    for (uint64_t i = 0; i < n; i++) x = x * 0x9e3779b97f4a7c15ull + (x >> 31);
    sink = x;
}
"#;

/// A compiled program.
#[derive(Debug)]
pub struct Built {
    pub path: PathBuf,
    _folder: tempfile::TempDir,
}

/// Compiles a program.
pub fn build(name: &str, source: &str) -> Built {
    build_with(name, source, &["-pthread"])
}

/// Compiles a program with more arguments.
pub fn build_with(name: &str, source: &str, arguments: &[&str]) -> Built {
    let folder = tempfile::tempdir().unwrap();
    let (file, path) = (folder.path().join("source.c"), folder.path().join(name));
    std::fs::write(&file, format!("{PRELUDE}{source}")).unwrap();
    let output = Command::new("cc")
        .arg("-O1")
        .arg("-w")
        .arg(&file)
        .args(arguments)
        .arg("-o")
        .arg(&path)
        .output();
    let output = output.expect("cc");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Built {
        path,
        _folder: folder,
    }
}

/// 1 ns a cycle; each wait takes `times` times as long in addition.
pub fn model(times: u64) -> Model {
    Model::new(params(times)).unwrap()
}

pub fn params(times: u64) -> Params {
    Params {
        variant: Variant::Quartz,
        attribution: Attribution::OwnVictims,
        clock: Period::of_ps(1000).unwrap(),
        dram: Ps::from_ns(100),
        read: Ps::from_ns(100 + 100 * times),
        write: Ps::from_ns(100 + 100 * times),
        weight: Weight::ONE,
        l2_weight: Weight::ZERO,
        flush: None,
        nt_store: None,
    }
}

/// Lines that are written wait for 10 us; those of non-temporal stores four at a time.
pub fn lines() -> Model {
    let params = Params {
        write: Ps::from_ns(10_100),
        flush: Some(PerLine {
            base: Ps::from_ns(100),
            overlap: Weight::ONE,
        }),
        nt_store: Some(PerLine {
            base: Ps::from_ns(100),
            overlap: Weight(4000),
        }),
        ..params(0)
    };
    Model::new(params).unwrap()
}

pub fn monitor(model: Model, epochs: Epochs, rates: &str) -> Monitor {
    Monitor::new(model, epochs, Box::new(Synthetic::new(rates).unwrap()))
}

/// How a run ended, with what the program wrote.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub report: Report,
    pub output: String,
}

/// One run at a time: they measure.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a program through a shell that sends its output to a file: the monitor itself leaves it alone.
pub fn run(built: &Built, arguments: &[&str], monitor: Monitor) -> Ran {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("output");
    File::create(&file).unwrap();
    let script = format!("exec \"$@\" > {}", file.display());
    let mut all = vec![
        "-c".into(),
        script.into(),
        "sh".into(),
        built.path.clone().into_os_string(),
    ];
    all.extend(arguments.iter().map(Into::into));
    let outcome = own::run("sh".as_ref(), &all, monitor, &|| false).unwrap();
    let output = std::fs::read_to_string(&file).unwrap();
    Ran {
        status: outcome.status,
        report: outcome.report,
        output,
    }
}
