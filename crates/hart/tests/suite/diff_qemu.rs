//! Random user-level programs on the hart, in every mode, against the user
//! emulation of QEMU: registers, floating-point flags and memory.
//!
//! Needs `qemu-riscv64`. Without it the test says so and passes, unless
//! `NAGORI_REQUIRE_TOOLS=1`. `NAGORI_HART_PROGRAMS` sets the number of programs
//! (default 400), `NAGORI_HART_UNITS` their length in units of one to eight
//! instructions (default 200), `NAGORI_HART_SEED` the seed.

use crate::common::gen::{block_address, Image, Program, STATE_BYTES};
use crate::common::qemu::{difference, missing, theirs, Way, WAYS};
use crate::common::{env, i, Rng};
use nagori_hart::engine::NoEngine;
use nagori_isa::Op;

fn ours(image: &Image, way: Way) -> Result<Vec<u8>, String> {
    crate::common::qemu::ours(image, way, &mut NoEngine)
}

fn compare(p: &Program, way: Way, name: &str) -> Option<String> {
    let image = Image::new(std::slice::from_ref(p));
    match (ours(&image, way), theirs(&image, name)) {
        (Ok(a), Ok(b)) if a == b => None,
        (Ok(a), Ok(b)) => Some(difference(&a, &b)),
        (a, b) => Some(format!("  hart: {:?}\n  qemu: {:?}\n", a.err(), b.err())),
    }
}

/// The shortest beginning of a program that still differs, with the unit that makes the difference.
fn report(p: &Program, way: Way, name: &str) -> String {
    let (mut good, mut bad) = (0, p.units.len());
    while bad - good > 1 {
        let mid = (good + bad) / 2;
        if compare(&p.first(mid), way, name).is_some() {
            bad = mid;
        } else {
            good = mid;
        }
    }
    let q = p.first(bad);
    let from = bad.saturating_sub(6);
    let shown: Vec<String> = (from..bad).map(|k| format!("  {}", q.show(k))).collect();
    format!(
        "{}\n{}",
        shown.join("\n"),
        compare(&q, way, name).unwrap_or_default()
    )
}

/// The comparison sees a single changed instruction, and the programs do something at all.
#[test]
fn a_wrong_result_would_be_seen() {
    let p = Program::random(&mut Rng::new(1), 200, block_address(0));
    let mut q = p.clone();
    q.push(&[i(Op::Addi, 5, 5, 1)]);
    let [a, b] = [p.clone(), q].map(|p| ours(&Image::new(&[p]), WAYS[0]).expect("runs"));
    let d = difference(&a, &b);
    assert!(d.starts_with("  x5:") && d.lines().count() == 1, "{d}");
    let changed = p
        .state
        .chunks(8)
        .zip(a.chunks(8))
        .take(65)
        .filter(|(x, y)| x != y)
        .count();
    assert!(changed > 40, "only {changed} registers changed");
}

#[test]
fn random_programs_agree_with_qemu() {
    if missing() {
        return;
    }
    let programs = env("NAGORI_HART_PROGRAMS", 400) as usize;
    let units = env("NAGORI_HART_UNITS", 200) as usize;
    let seed = env("NAGORI_HART_SEED", 1);
    let batch = 100;
    for first in (0..programs).step_by(batch) {
        let mut rng = Rng::new(seed << 32 | first as u64);
        let count = batch.min(programs - first);
        let list: Vec<Program> = (0..count)
            .map(|k| Program::random(&mut rng, units, block_address(k)))
            .collect();
        // A program alone has another place; its pointers must be right there, too.
        let alone = |k: usize| {
            let mut rng = Rng::new(seed << 32 | first as u64);
            (0..=k)
                .map(|_| Program::random(&mut rng, units, block_address(0)))
                .last()
                .expect("one")
        };
        let image = Image::new(&list);
        let name = format!("diff{first}");
        let b = match theirs(&image, &name) {
            Ok(b) => b,
            Err(e) => {
                let k = (0..count).find(|&k| theirs(&Image::new(&[alone(k)]), &name).is_err());
                let k = k.unwrap_or_else(|| panic!("batch {first}: qemu: {e}"));
                panic!(
                    "program {}: qemu: {e}\n{}",
                    first + k,
                    report(&alone(k), WAYS[0], &name)
                );
            }
        };
        for way in WAYS {
            let a = match ours(&image, way) {
                Ok(a) => a,
                Err(e) => {
                    let k = (0..count).find(|&k| ours(&Image::new(&[alone(k)]), way).is_err());
                    let k = k.unwrap_or_else(|| panic!("batch {first}, {way:?}: hart: {e}"));
                    panic!(
                        "program {}, {way:?}: {e}\n{}",
                        first + k,
                        report(&alone(k), way, &name)
                    );
                }
            };
            let size = STATE_BYTES as usize;
            for k in 0..count {
                let part = k * size..(k + 1) * size;
                if a[part.clone()] != b[part.clone()] {
                    let d = difference(&a[part.clone()], &b[part]);
                    panic!(
                        "program {}, {way:?}:\n{d}{}",
                        first + k,
                        report(&alone(k), way, &name)
                    );
                }
            }
        }
    }
}
