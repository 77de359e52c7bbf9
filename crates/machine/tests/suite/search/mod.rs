//! A search for machines and programs whose run depends on what it must not depend on: on the engine, the host's
//! slices, snapshots on the way.
//!
//! `make search SEED=7 MINUTES=60` draws machines and programs from that seed on, and goes on behind what it finds;
//! each difference is shown with its seed and the smallest case that was found to have it.

mod builds;
pub mod compare;
mod layout;
mod machine;
mod program;
mod shrink;

use crate::common::{env, Rng};
use compare::{Ran, Subject, Way, REFERENCE, WAYS};
use nagori_config::map;
use nagori_isa::{decode, disassemble, inst_len};
use program::{Item, Program};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Core cycles after which a program is taken for one that does not end.
const MOST: u64 = 20_000_000;
/// How long a case is made smaller.
const SHRINKING: Duration = Duration::from_secs(120);

/// A machine with a program.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    settings: Vec<String>,
    program: Program,
    timed: bool,
}

impl Case {
    fn random(seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let settings = machine::random(&mut rng);
        let program = Program::random(&mut rng, machine::harts(&settings));
        Case {
            seed,
            settings,
            program,
            timed: !rng.one_in(12),
        }
    }

    /// Has something done with what is to be run; `None` if there is no such machine.
    fn with<R>(&self, f: impl FnOnce(&Subject<'_>) -> R) -> Option<R> {
        machine::describe(&self.settings)?;
        let harts = machine::harts(&self.settings);
        let image = self.program.image(harts);
        let describe = |more: &[String]| {
            let all: Vec<String> = self.settings.iter().chain(more).cloned().collect();
            machine::describe(&all)
        };
        let load = |m: &mut nagori_machine::Machine| {
            for (offset, bytes) in &image {
                m.ram().write_bytes(*offset, bytes).expect("in memory");
                m.memory_written(map::MEMORY + offset, bytes.len() as u64);
            }
            m.start_at(map::MEMORY, 0, 0);
        };
        Some(f(&Subject {
            describe: &describe,
            load: &load,
            timed: self.timed,
            memory: &layout::CHANGED,
            most: MOST,
            seed: self.seed,
        }))
    }

    /// The first way that differs, and what does.
    fn find(&self) -> Option<(Way, Vec<String>)> {
        let found = self.with(|s| {
            let first = s.run(&REFERENCE);
            let mut all = WAYS.iter();
            all.find_map(|way| Some((*way, s.compare(&first, way)?)))
        });
        found?
    }

    fn differs(&self, way: &Way) -> Option<Vec<String>> {
        let found = self.with(|s| s.compare(&s.run(&REFERENCE), way));
        found?
    }

    /// The smallest case that still differs.
    fn shrink(&self, way: &Way) -> (Case, Vec<String>) {
        let begin = Instant::now();
        let (mut least, mut what) = (self.clone(), Vec::new());
        'again: loop {
            for simpler in shrink::simpler(&least) {
                if begin.elapsed() > SHRINKING {
                    break 'again;
                }
                if let Some(found) = simpler.differs(way) {
                    (least, what) = (simpler, found);
                    continue 'again;
                }
            }
            break;
        }
        (least, what)
    }

    /// The case for whoever looks for its cause.
    fn show(&self) -> String {
        let harts = machine::harts(&self.settings);
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("search-{}.elf", self.seed));
        std::fs::write(&path, self.program.elf(harts)).expect("a file");
        let sets: Vec<String> = { self.settings.iter() }
            .map(|s| format!("--set '{s}'"))
            .collect();
        let mode = if self.timed { "" } else { " --functional" };
        let mut text = format!(
            "nagori bare --machine small{mode} {} {}\n",
            sets.join(" "),
            path.display()
        );
        for (offset, bytes) in self.program.image(harts) {
            if offset == layout::SECTIONS {
                listing(map::MEMORY + offset, &bytes, &mut text);
            }
        }
        text
    }
}

fn listing(base: u64, bytes: &[u8], text: &mut String) {
    let mut at = 0;
    while at < bytes.len() {
        let half = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let len = inst_len(half).max(2) as usize;
        let mut word = [0; 4];
        word[..len].copy_from_slice(&bytes[at..at + len]);
        let word = u32::from_le_bytes(word);
        let pc = base + at as u64;
        let inst = decode(word).map_or("?".into(), |i| disassemble(&i, pc));
        text.push_str(&format!("  {pc:x}: {inst}\n"));
        at += len;
    }
}

/// Tries a seed; what differs, if something does.
fn try_seed(seed: u64) -> Option<String> {
    let case = Case::random(seed);
    let (way, what) = case.find()?;
    let (least, less) = case.shrink(&way);
    let what = if less.is_empty() { what } else { less };
    Some(format!(
        "seed {seed}: interpreter and {}\n  {}\n{}",
        way.name,
        what.join("\n  "),
        least.show()
    ))
}

#[test]
fn programs_of_a_seed_come_to_their_end() {
    let mut ended = 0;
    for seed in 0..20 {
        let ran = Case::random(seed).with(|s| s.run(&REFERENCE));
        ended += u32::from(matches!(ran, Some(Ran::Ended(_))));
    }
    assert!(ended >= 19, "{ended} of 20");
}

#[test]
fn random_machines_and_programs_are_the_same_in_every_way() {
    let (first, count) = (env("NAGORI_SEARCH_SEED", 1), env("NAGORI_SEARCH_CASES", 60));
    let all: Vec<String> = (first..first + count).filter_map(try_seed).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// A jump by a register is none that the decoder finds, though its target misses the instruction cache: each function
/// begins in the line in which the one before has ended, and goes on in one that nobody was in.
#[test]
fn jumps_by_registers_are_predicted_alike() {
    let add = || Item::Words(vec![layout::addi(layout::SUM, layout::SUM, 1); 3]);
    let calls = (1..12).map(Item::CallFar);
    let case = Case {
        seed: 0,
        settings: vec!["harts=1".into()],
        program: Program {
            sections: vec![vec![Item::Loop(
                4,
                [Item::Call(0)].into_iter().chain(calls).collect(),
            )]],
            functions: (0..12).map(|_| vec![add()]).collect(),
            level: program::Level::Machine,
            pages: false,
            aliases: 0,
            timer: 0,
            events: Vec::new(),
            edges: true,
            gaps: vec![0; 8],
        },
        timed: true,
    };
    assert_eq!(case.find().map(|f| f.1), None);
}

/// A case that a search has found, whose functions begin anywhere.
fn assert_found_no_more(seed: u64) {
    let mut case = Case::random(seed);
    (case.program.edges, case.timed) = (false, true);
    assert_eq!(case.find().map(|f| f.1), None);
}

#[test]
fn stores_are_due_when_their_lines_have_come() {
    assert_found_no_more(10_103);
}

#[test]
fn a_store_takes_back_a_line_that_another_hart_has_read() {
    assert_found_no_more(100);
}

/// For `make search`.
#[test]
#[ignore = "takes as long as it is told to"]
fn search() {
    let begin = Instant::now();
    let time = Duration::from_secs(60 * env("NAGORI_SEARCH_MINUTES", 60));
    let mut seed = env("NAGORI_SEARCH_SEED", 1);
    let first = seed;
    let mut found = Vec::new();
    while begin.elapsed() < time {
        if let Some(text) = try_seed(seed) {
            println!("{text}");
            found.push(seed);
        }
        seed += 1;
    }
    println!(
        "{} cases from seed {first} on, {} differ: {found:?}",
        seed - first,
        found.len()
    );
    assert!(found.is_empty(), "seeds {found:?}");
}
