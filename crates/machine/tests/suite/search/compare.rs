//! One machine and one program, run in several ways that make no difference.

use crate::common::whole::{differences, whole, Whole};
use crate::common::{build, Rng};
use nagori_config::Machine as Description;
use nagori_machine::{Engine, Machine, Stop, TranslatorOptions};
use nagori_platform::clock::Ps;
use nagori_snapshot::{Bytes, Meta, Snapshot};
use std::panic::{catch_unwind, AssertUnwindSafe};

const EAGER: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: 4 << 20,
    threshold: 0,
});
/// The smallest memory for code, so that it is emptied over and over.
const TINY: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: TranslatorOptions::LEAST_BYTES,
    threshold: 1,
});

/// Core cycles from one check to the next at least, and more the longer it runs: with short slices, checks would take
/// most of the time.
fn between_checks(passed: u64) -> u64 {
    1000 + passed / 64
}

/// What is run.
pub struct Subject<'a> {
    /// The description with more settings; `None` if there is no such machine.
    pub describe: &'a dyn Fn(&[String]) -> Option<Description>,
    pub load: &'a dyn Fn(&mut Machine),
    pub timed: bool,
    /// Parts of memory that are compared: offsets and bytes.
    pub memory: &'a [(u64, u64)],
    /// Core cycles after which it is to have ended.
    pub most: u64,
    /// The seed of what is done to it on the way.
    pub seed: u64,
}

/// A way to run it.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub name: &'static str,
    engine: Engine,
    /// The longest slice in cycles; `None`: all at once.
    slice: Option<u64>,
    /// How far harts run before the scheduler looks again.
    ahead: u64,
    /// The engine changes on the way.
    switches: bool,
    /// Copies go on in place of the machine.
    copies: bool,
}

/// What others are compared with.
pub const REFERENCE: Way = Way {
    name: "interpreter",
    engine: Engine::Interpreter,
    slice: None,
    ahead: 10_000,
    switches: false,
    copies: false,
};

pub const WAYS: [Way; 6] = [
    Way {
        name: "translator",
        engine: EAGER,
        ..REFERENCE
    },
    Way {
        name: "translator, emptied, in slices",
        engine: TINY,
        slice: Some(3000),
        ahead: 77,
        ..REFERENCE
    },
    Way {
        name: "interpreter, in short slices",
        slice: Some(60),
        ahead: 1,
        ..REFERENCE
    },
    Way {
        name: "interpreter, with copies",
        slice: Some(700),
        ahead: 1_000_000,
        copies: true,
        ..REFERENCE
    },
    Way {
        name: "translator, with copies",
        engine: EAGER,
        slice: Some(700),
        ahead: 333,
        copies: true,
        ..REFERENCE
    },
    Way {
        name: "both engines in turn, with copies",
        slice: Some(400),
        switches: true,
        copies: true,
        ..REFERENCE
    },
];

/// How a run came to its end: with what is left, or not at all.
pub enum Ran {
    Ended(Box<Whole>),
    /// It did not come to its end in time.
    Open,
    /// The machine found something wrong with itself.
    Broken(String),
}

impl Subject<'_> {
    /// Whether both ways lead to the same; what differs, if not. `None` if there is nothing to compare.
    pub fn compare(&self, first: &Ran, way: &Way) -> Option<Vec<String>> {
        let again = match first {
            Ran::Broken(why) => return Some(vec![why.clone()]),
            Ran::Open => return None,
            Ran::Ended(_) => self.run(way),
        };
        match (first, again) {
            (Ran::Ended(a), Ran::Ended(b)) if *a == b => None,
            (Ran::Ended(a), Ran::Ended(b)) => Some(differences(a, &b, 12)),
            (_, Ran::Open) => Some(vec!["only one of them comes to an end".into()]),
            (_, Ran::Broken(why)) => Some(vec![why]),
            _ => None,
        }
    }

    /// Runs it in a way.
    pub fn run(&self, way: &Way) -> Ran {
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_on(way)));
        ran.unwrap_or_else(|e| {
            let text = e.downcast_ref::<String>().map(String::as_str);
            let text = text.or(e.downcast_ref::<&str>().copied());
            Ran::Broken(format!("panic: {}", text.unwrap_or("without a text")))
        })
    }

    fn run_on(&self, way: &Way) -> Ran {
        let more = ["run_ahead_cycles", "quantum_cycles"].map(|k| format!("{k}={}", way.ahead));
        let description = (self.describe)(&more).expect("a description");
        let mut m = build(&description, self.timed);
        let mut engine = way.engine;
        m.set_engine(engine).expect("an engine");
        (self.load)(&mut m);
        let mut rng = Rng::new(self.seed);
        let mut console = Vec::new();
        let (mut passed, mut checked, mut idle) = (0u64, 0, 0);
        loop {
            let slice = way.slice.map_or(u64::MAX, |n| 1 + rng.below(n));
            let stop = m.run(slice.min(self.most), None);
            console.extend(m.console_output());
            let harts = 0..m.config().harts as usize;
            let cycles = harts.filter_map(|i| m.hart(i)).map(|h| h.state.cycle).max();
            passed = passed.max(cycles.unwrap_or(0));
            idle += u32::from(matches!(stop, Stop::Idle(_)));
            let goes_on = match stop {
                Stop::Slice => true,
                // Not for ever, where nothing can end the wait.
                Stop::Idle(t) => idle < 100_000 && t < Ps::END,
                _ => false,
            };
            // Also of a run that came to its end behind this cycle at once: slices are looked at before that.
            if passed > self.most {
                return Ran::Open;
            }
            if !goes_on {
                return Ran::Ended(Box::new(whole(&mut m, stop, console, self.memory)));
            }
            if way.slice.is_none() {
                continue;
            }
            if rng.one_in(8) && passed >= checked + between_checks(passed) {
                checked = passed;
                if let Err(e) = m.check_invariants() {
                    return Ran::Broken(format!("at cycle {passed}: {e}"));
                }
            }
            if way.switches && rng.one_in(4) {
                engine = rng.pick(&[Engine::Interpreter, EAGER, TINY]);
                m.set_engine(engine).expect("an engine");
            }
            if way.copies && rng.one_in(24) {
                m = if rng.one_in(12) {
                    copy_by_file(&m)
                } else {
                    m.checkpoint().and_then(|c| c.fork()).expect("a fork")
                };
                m.set_engine(engine).expect("an engine");
            }
        }
    }
}

fn copy_by_file(m: &Machine) -> Machine {
    let mut bytes = Vec::new();
    nagori_snapshot::save(m, &mut bytes, &Meta::new()).expect("a snapshot");
    let s = Snapshot::new(Bytes(bytes)).expect("a snapshot");
    s.machine().expect("a machine")
}
