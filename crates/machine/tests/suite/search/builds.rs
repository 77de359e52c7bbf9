//! The bare-metal programs, built in random ways: what a compiler of another release makes of them may meet what that
//! of this host does not.

use super::compare::{Ran, Subject, Way, REFERENCE, WAYS};
use super::{machine, shrink, SHRINKING};
use crate::common::{env, load, programs_built, Build, Rng};
use nagori_machine::Machine;
use std::time::{Duration, Instant};

/// Core cycles after which a program is taken for one that does not end on a machine.
const MOST: u64 = 40_000_000;

const OPTIMISATIONS: [&str; 6] = ["-O1", "-O2", "-O2", "-Os", "-O3", "-Og"];
const FLAGS: [&str; 15] = [
    "-falign-functions=64",
    "-falign-functions=32",
    "-falign-loops=16",
    "-falign-jumps=8",
    "-funroll-loops",
    "-fno-inline",
    "-fno-schedule-insns2",
    "-fno-reorder-blocks",
    "-freorder-blocks-algorithm=simple",
    "-fno-jump-tables",
    "-fno-if-conversion",
    "-fno-tree-vrp",
    "-fno-ivopts",
    "-fno-gcse",
    "-mtune=sifive-7-series",
];

/// A way to build the programs.
pub fn random(rng: &mut Rng) -> Build {
    let mut flags = vec![rng.pick(&OPTIMISATIONS)];
    for f in FLAGS {
        if rng.one_in(4) {
            flags.push(f);
        }
    }
    Build {
        flags: flags.join(" "),
        arch: rng
            .pick(&["", "", "rv64imac_zicsr_zifencei_zba_zbb_zbs"])
            .into(),
        script: Some(script(rng)),
    }
}

/// A linker script that puts functions in random order, by the first letters of their names, with gaps.
fn script(rng: &mut Rng) -> String {
    let mut letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain(['_']).collect();
    for k in (1..letters.len()).rev() {
        letters.swap(k, rng.below(k as u64 + 1) as usize);
    }
    let groups = letters.into_iter().map(|c| {
        let gap = 2 * rng.below(48);
        format!(" *(.text.{c}*) . = . + {gap};")
    });
    let groups: String = groups.collect();
    format!(" *(.text.init){groups} *(.text .text.*)")
}

/// A program of a build on a machine.
struct Case<'a> {
    seed: u64,
    settings: Vec<String>,
    elf: &'a [u8],
}

impl Case<'_> {
    fn with<R>(&self, f: impl FnOnce(&Subject<'_>) -> R) -> Option<R> {
        let d = machine::describe(&self.settings)?;
        let nvmm = d.config.memory.nvmm_base() - d.config.memory.base;
        let describe = |more: &[String]| {
            let all: Vec<String> = self.settings.iter().chain(more).cloned().collect();
            machine::describe(&all)
        };
        Some(f(&Subject {
            describe: &describe,
            load: &|m: &mut Machine| load(m, self.elf),
            timed: true,
            memory: &[(0, 2 << 20), (nvmm, 1 << 16)],
            most: MOST,
            seed: self.seed,
        }))
    }

    /// The smallest machine on which the program still differs.
    fn shrink(&mut self, way: &Way) -> Vec<String> {
        let begin = Instant::now();
        let mut what = Vec::new();
        'again: while begin.elapsed() < SHRINKING {
            for settings in shrink::settings(&self.settings) {
                let simpler = Case { settings, ..*self };
                let found = simpler.with(|s| s.compare(&s.run(&REFERENCE), way));
                if let Some(Some(found)) = found {
                    (self.settings, what) = (simpler.settings, found);
                    continue 'again;
                }
            }
            break;
        }
        what
    }
}

/// Builds the programs as a seed says, and runs so many of them, each on a machine of its own. What differs; how many
/// came to their end.
fn try_build(seed: u64, count: usize, ways: &[Way]) -> Option<(Vec<String>, u32)> {
    let mut rng = Rng::new(seed);
    let build = random(&mut rng);
    let mut all = programs_built("search", &build)?;
    let (mut found, mut ended) = (Vec::new(), 0);
    for _ in 0..count.min(all.len()) {
        let (name, elf) = all.swap_remove(rng.below(all.len() as u64) as usize);
        let mut settings = machine::random(&mut rng);
        settings.retain(|s| !s.starts_with("triggers="));
        settings.push("triggers=4".into());
        if !build.arch.is_empty() {
            settings.push(ISA.into());
        }
        let mut case = Case {
            seed,
            settings,
            elf: &elf,
        };
        let tried = case.with(|s| {
            let first = s.run(&REFERENCE);
            let found = ways.iter().find_map(|w| Some((*w, s.compare(&first, w)?)));
            (matches!(first, Ran::Ended(_)), found)
        });
        let Some((ends, differs)) = tried else {
            continue;
        };
        ended += u32::from(ends);
        if let Some((way, what)) = differs {
            let less = case.shrink(&way);
            let what = if less.is_empty() { what } else { less };
            found.push(format!(
                "build {seed}, {name}: interpreter and {}\n  {}\n  make -C guest/bare EXTRA='{}' ARCH={}\n  {}",
                way.name,
                what.join("\n  "),
                build.flags,
                build.arch,
                case.settings.join(" ")
            ));
        }
    }
    Some((found, ended))
}

/// What the description has, with the bit manipulation that some builds use.
const ISA: &str = "isa=[\"i\", \"m\", \"a\", \"f\", \"d\", \"c\", \"zicsr\", \"zifencei\", \"zicntr\", \"zihpm\", \
    \"zicbom\", \"zicboz\", \"zicbop\", \"zihintpause\", \"zihintntl\", \"zba\", \"zbb\", \"zbs\", \"sscofpmf\", \
    \"sstc\", \"xcflush\"]";

#[test]
fn random_builds_of_programs_are_the_same_in_every_way() {
    let mut ended = 0;
    for seed in 0..env("NAGORI_SEARCH_BUILDS", 2) {
        let Some((found, n)) = try_build(seed, 4, &[WAYS[0], WAYS[1]]) else {
            return;
        };
        assert!(found.is_empty(), "{}", found.join("\n"));
        ended += n;
    }
    assert!(ended > 2, "{ended}");
}

/// For `make search-builds`.
#[test]
#[ignore = "takes as long as it is told to"]
fn search() {
    let begin = Instant::now();
    let time = Duration::from_secs(60 * env("NAGORI_SEARCH_MINUTES", 60));
    let first = env("NAGORI_SEARCH_SEED", 1);
    let mut seed = first;
    let (mut all, mut ended) = (0, 0);
    while begin.elapsed() < time {
        let (found, n) = try_build(seed, usize::MAX, &WAYS).expect("the cross compiler");
        found.iter().for_each(|text| println!("{text}"));
        all += found.len();
        ended += n;
        seed += 1;
    }
    println!(
        "builds {first} to {}: {ended} runs came to their end, {all} differ",
        seed - 1
    );
    assert_eq!(all, 0);
}
