//! A program of the study from its description to its figures, on a booted machine.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless NAGORI_REQUIRE_TOOLS=1.

use nagori_suite::{Conditions, Event, Lab, Library, Malloc, Memory, Record, Size, Store, Timing};
use std::fs;
use std::path::Path;

const IMAGES: &str = "[plain]\npackages = []\n";
/// Reads more of its heap than the caches hold.
const SOURCE: &str = r#"
#include "nagori_mark.h"
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    enum { N = 1 << 16 };
    unsigned *p = malloc(N * sizeof *p), sum = 0;
    for (unsigned i = 0; i < N; i++)
        p[i] = i * 2654435761u;
    nagori_roi_begin();
    for (unsigned i = 0; i < 4000; i++)
        sum += p[i * 7919 % N];
    nagori_roi_end();
    printf("%u\n", sum);
}
"#;
/// Two forms of the same program: between markers, and from a number of instructions on.
const MARKED: &str = r#"
title = "t"
kind = "k"
image = "plain"
sources = ["tiny.c"]
run = "tiny"
[sizes.small]
"#;
const COUNTED: &str = r#"
title = "t"
kind = "k"
image = "plain"
sources = ["tiny.c"]
run = "counted; nagori-mark stats-dump 1"
[sizes.small]
begin = 1000000
"#;
const WRONG: &str = r#"
title = "t"
kind = "k"
image = "plain"
sources = ["tiny.c"]
run = "wrong; exit 3"
[sizes.small]
"#;

fn tools_required() -> bool {
    std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1")
}

fn conditions(method: &str) -> Conditions {
    Conditions {
        machine: "vc707".into(),
        set: Vec::new(),
        memory: Memory::Method(method.into()),
        placement: "heap".into(),
        malloc: Malloc::Nagori,
        timing: Timing::Region,
        size: Size::Small,
        seed: None,
    }
}

fn suite(dir: &Path) -> Library {
    for sub in ["programs", "src"] {
        fs::create_dir(dir.join(sub)).unwrap();
    }
    fs::write(dir.join("images.toml"), IMAGES).unwrap();
    fs::write(dir.join("src/tiny.c"), SOURCE).unwrap();
    for (name, text) in [("tiny", MARKED), ("counted", COUNTED), ("wrong", WRONG)] {
        fs::write(dir.join(format!("programs/{name}.toml")), text).unwrap();
    }
    Library::new(Some(dir.into()))
}

#[test]
fn programs_are_run_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let library = suite(dir.path());
    let store = Store::open(&dir.path().join("results")).unwrap();
    let mut lab = Lab::new(library.clone(), Default::default(), &()).unwrap();
    let mut tasks = Vec::new();
    for (name, method) in [
        ("tiny", "dram"),
        ("tiny", "extended"),
        ("counted", "extended"),
        ("wrong", "dram"),
    ] {
        match lab.task(&library.program(name).unwrap(), &conditions(method)) {
            Ok(task) => tasks.push(task),
            Err(e) => {
                let text = format!("{e} {e:?}");
                assert!(
                    text.contains("not installed") && !tools_required(),
                    "{text}"
                );
                eprintln!("skipped: {e}");
                return;
            }
        }
    }
    let mut done = Vec::new();
    lab.run(&tasks, 2, &mut |event| {
        if let Event::Done(_, record) = event {
            store.put(&record)?;
            done.push(*record);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(done.len(), tasks.len());
    let of = |n: usize| -> Record {
        store
            .get(&tasks[n].program, &tasks[n].key)
            .unwrap()
            .unwrap()
    };
    let (dram, extended, counted, wrong) = (of(0), of(1), of(2), of(3));
    let figures = |r: &Record| {
        r.figures
            .clone()
            .unwrap_or_else(|| panic!("{:?}", r.failure))
    };
    let (fast, slow) = (figures(&dram), figures(&extended));
    assert_eq!(dram.output, extended.output);
    // The kernel's ticks come at other places, and it has some of its own data on NVMM.
    assert!(fast.nvmm.reads.abs_diff(slow.nvmm.reads) < fast.nvmm.reads / 20);
    assert!(fast.nvmm.reads > 3000, "{fast:?}");
    assert!(
        slow.time_ps > fast.time_ps * 11 / 10,
        "{} {}",
        slow.time_ps,
        fast.time_ps
    );
    // From its start on, the same program reads and writes more.
    assert!(figures(&counted).nvmm.requests() > slow.nvmm.requests());
    assert_eq!(counted.output, extended.output);
    assert!(wrong.figures.is_none());
    assert!(wrong.failure.unwrap().why.contains("exit code 3"));
}
