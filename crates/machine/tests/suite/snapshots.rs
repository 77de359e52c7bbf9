//! A run that goes on from a snapshot is the run that was never interrupted: every register,
//! counter, cycle, byte of memory and of the console, with either engine, wherever the
//! snapshot was taken. And taking one disturbs nothing. A fork of the machine is one that was restored, without a file.
//!
//! `NAGORI_SNAPSHOTS` sets the number of random machines (default 60).

use crate::common::random::*;
use crate::common::*;
use nagori_isa::OPS;
use nagori_machine::{Engine, Machine, Stop, TranslatorOptions};
use nagori_snapshot::{Bytes, Meta, Snapshot};
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

const EAGER: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: 4 << 20,
    threshold: 0,
});

fn save(m: &Machine) -> Vec<u8> {
    let mut bytes = Vec::new();
    nagori_snapshot::save(m, &mut bytes, &Meta::new()).expect("a snapshot");
    bytes
}

fn restore(bytes: &[u8]) -> Machine {
    let s = Snapshot::new(Bytes(bytes.to_vec())).expect("a snapshot");
    s.machine().expect("a machine")
}

/// All there is in a machine. What block caches know of addresses is compared where the
/// interpreter ran only: the translator looks for fewer blocks.
fn digest(m: &Machine, code: bool) -> (String, u64) {
    let state = m.save_state();
    let state = if code { state } else { state.without_code() };
    let mut hash = Xxh3::new();
    let mut page = vec![0; 4096];
    for range in m.ram().touched() {
        for at in range.step_by(4096) {
            m.ram().read_bytes(at, &mut page).expect("in memory");
            if page.iter().any(|b| *b != 0) {
                hash.update(&at.to_le_bytes());
                hash.update(&page);
            }
        }
    }
    let text = serde_json::to_string(&state).expect("a state");
    (text, hash.digest())
}

/// A digest without what makes accesses faster: a machine that has taken over code stores to the pages that it is in by
/// the long way.
fn without_rights(digest: (String, u64)) -> (String, u64) {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(all) => {
                if let Some(Value::Object(filter)) = all.get_mut("data") {
                    filter.remove("entries");
                }
                all.remove("code");
                all.values_mut().for_each(strip);
            }
            Value::Array(all) => all.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut state: Value = serde_json::from_str(&digest.0).expect("a state");
    strip(&mut state);
    (state.to_string(), digest.1)
}

/// The first place where two states differ.
fn assert_same(a: &(String, u64), b: &(String, u64), name: &str) {
    if a.0 != b.0 {
        let bytes = a.0.bytes().zip(b.0.bytes());
        let at = bytes.take_while(|(x, y)| x == y).count();
        let from = at.saturating_sub(300);
        let part = |s: &str| s[from..(at + 100).min(s.len())].to_string();
        panic!("{name}:\n{}\n{}", part(&a.0), part(&b.0));
    }
    assert_eq!(a.1, b.1, "{name}: memory");
}

/// What a host does to a machine, the same again from any step on.
#[derive(Clone)]
struct Script {
    rng: Rng,
    console: Vec<u8>,
    over: bool,
}

impl Script {
    fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            console: Vec::new(),
            over: false,
        }
    }

    /// A slice of the machine's life.
    fn step(&mut self, m: &mut Machine, most: u64) {
        let limit = m.steps() + 1 + self.rng.below(most);
        match m.run(1 + self.rng.below(most), Some(limit)) {
            Stop::PowerOff(_) => self.over = true,
            Stop::Reset => {
                m.reset();
                m.start_at(CODE, 1, 2);
            }
            Stop::Idle(t) if t.0 > m.now().0.saturating_add(1 << 40) => self.over = true,
            _ => {}
        }
        if self.rng.one_in(8) {
            m.console_input(&self.rng.bits().to_le_bytes());
        }
        if self.rng.one_in(4) {
            self.console.extend(m.console_output());
        }
        if self.rng.one_in(40) {
            m.set_timed(self.rng.one_in(2));
        }
        if self.rng.one_in(64) {
            m.reset_stats();
        }
    }
}

/// Runs a machine by its script to its end, taking snapshots on the way; then goes on from
/// each of them, with either engine, and compares the ends. How many there were. `after`: some go on with the code of
/// another fork.
fn compare(
    m: &mut Machine,
    seed: u64,
    (steps, most): (u64, u64),
    after: bool,
    name: &str,
) -> usize {
    let engine_known = m.translator_stats().is_empty();
    let mut taken = Vec::new();
    let mut script = Script::new(seed);
    let mut choice = Rng::new(!seed);
    for step in 0..steps {
        if script.over {
            break;
        }
        if choice.one_in(steps / 4) {
            let before = digest(m, true);
            let forked = m.checkpoint().expect("a checkpoint");
            taken.push((step, script.clone(), save(m), forked));
            assert_same(&before, &digest(m, true), "a snapshot disturbs");
        }
        script.step(m, most);
    }
    m.settle_memory();
    let ways = 2 + usize::from(after);
    for (n, (step, mut again, bytes, checkpoint)) in taken.iter().cloned().enumerate() {
        let n = n % ways;
        let both = [Engine::Interpreter, EAGER];
        let engine = choice.pick(&both);
        let restored = restore(&bytes);
        assert_eq!(save(&restored), bytes, "{name}: restored at step {step}");
        let fork = checkpoint.fork().expect("a fork");
        assert_eq!(save(&fork), bytes, "{name}: forked at step {step}");
        // What another fork does is not seen by this one.
        again
            .clone()
            .step(&mut checkpoint.fork().expect("a fork"), most);
        let mut copy = match n {
            0 => fork,
            1 => restored,
            // What another fork has decoded and translated is used, but for what has changed meanwhile.
            _ => {
                // It may have begun somewhere else.
                let (script, from) = match step % 2 {
                    0 => (&taken[0].1, &taken[0].3),
                    _ => (&again, &checkpoint),
                };
                let mut before = from.fork().expect("a fork");
                before.set_engine(engine).expect("an engine of this host");
                let mut script = script.clone();
                for _ in step..(step + 20).min(steps) {
                    if !script.over {
                        script.step(&mut before, most);
                    }
                }
                checkpoint.fork_after(before, None).expect("a fork")
            }
        };
        if n != 2 {
            copy.set_engine(engine).expect("an engine of this host");
        }
        for k in step..steps {
            if again.over {
                break;
            }
            // Engines may change on the way, too.
            if k % 50 == 49 && engine != Engine::Interpreter {
                copy.set_engine(choice.pick(&both)).expect("an engine");
            }
            again.step(&mut copy, most);
        }
        copy.settle_memory();
        let code = engine_known && engine == Engine::Interpreter && n != 2;
        let name = format!("{name}, from step {step}, {engine:?}");
        assert_eq!(script.console, again.console, "{name}");
        let (mut a, mut b) = (digest(m, code), digest(&copy, code));
        if n == 2 {
            (a, b) = (without_rights(a), without_rights(b));
        }
        assert_same(&a, &b, &name);
    }
    taken.len()
}

#[test]
fn every_bare_metal_program_goes_on_from_anywhere() {
    let Some(programs) = programs("snapshots") else {
        return;
    };
    let (mut taken, mut seed) = (0, 0);
    for (name, elf) in &programs {
        for (harts, timed) in [(1, true), (4, true), (4, false)] {
            for engine in [Engine::Interpreter, EAGER] {
                let settings = [format!("harts={harts}"), "triggers=4".to_string()];
                let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
                let mut m = build(&describe("small", &settings), timed);
                m.set_engine(engine).expect("an engine of this host");
                load(&mut m, elf);
                // So that most are taken before the program's end.
                let mut first = build(&describe("small", &settings), timed);
                load(&mut first, elf);
                while matches!(first.run(100_000, Some(3_000_000)), Stop::Slice) {}
                let most = (first.steps() / 20).max(50);
                let name = format!("{name}, {harts} harts, timed {timed}, {engine:?}");
                taken += compare(&mut m, seed, (60, most), false, &name);
                seed += 1;
            }
        }
    }
    assert!(taken > 100, "{taken}");
}

#[test]
fn random_machines_go_on_from_anywhere() {
    let mut taken = 0;
    for seed in 0..env("NAGORI_SNAPSHOTS", 60) {
        let mut rng = Rng::new(seed ^ 0x0051_a950);
        let mut word = |rng: &mut Rng| match rng.below(8) {
            0 => rng.bits() as u32,
            _ => {
                let row = &OPS[rng.below(OPS.len() as u64) as usize];
                row.match_ | rng.bits() as u32 & !row.mask
            }
        };
        let mut m = machine(&mut rng, &mut word);
        taken += compare(&mut m, seed, (100, 600), true, &format!("machine {seed}"));
    }
    assert!(taken > 60, "{taken}");
}
