//! The translator against the interpreter, in lock step: the same random programs, in
//! slices of the same random lengths, with every register, counter, statistic and byte
//! of memory compared on the way.
//!
//! `NAGORI_TRANSLATOR_PROGRAMS` sets the number of programs (default 120),
//! `NAGORI_TRANSLATOR_SEED` the first seed.

use crate::common::gen::{block_address, Image, Program};
use crate::common::privileged::{Privileged, DONE};
use crate::common::qemu::{set_up_with, Way};
use crate::common::worlds::{core, prefetching, Taken};
use crate::common::{env, Rng};
use crate::sides::{lock_step, translator, Quiet, Runner, Side, CODE_BYTES};
use nagori_hart::flat::Flat;
use nagori_hart::world::World;
use nagori_hart::{CodeCache, Exit};
use nagori_translator::Options;

fn privileged(seed: u64, timed: bool, slice: u64, runner: Runner<Quiet>) -> bool {
    let name = format!("program {seed}, timed {timed}, slice {slice}");
    let side = |runner| {
        let Privileged { mut w, h } = Privileged::random(seed, 160, timed);
        prefetching(w.coherence(), seed);
        Side {
            w: Quiet(w),
            h,
            code: CodeCache::default(),
            runner,
        }
    };
    let mut sides = [side(Runner::Interpreter), side(runner)];
    let mut rng = Rng::new(seed ^ slice);
    let done = |s: &mut Side<Quiet>, exit| {
        if exit == Exit::Wfi {
            if s.h.state.pc == DONE {
                return true;
            }
            s.h.state.waiting = false;
        }
        false
    };
    let came = lock_step(&name, &mut sides, &mut rng, slice, done, |s| {
        s.w.0.traps.len()
    });
    let traps: [&Vec<Taken>; 2] = [&sides[0].w.0.traps, &sides[1].w.0.traps];
    assert_eq!(traps[0], traps[1], "{name}");
    assert_eq!(
        sides[0].w.0.flat.traffic, sides[1].w.0.flat.traffic,
        "{name}"
    );
    came
}

#[test]
fn privileged_programs() {
    let first = env("NAGORI_TRANSLATOR_SEED", 0);
    let count = env("NAGORI_TRANSLATOR_PROGRAMS", 120);
    let mut ended = 0;
    for seed in first..first + count {
        for timed in [false, true] {
            for slice in [7, 400, 20_000] {
                ended += privileged(
                    seed,
                    timed,
                    slice,
                    Runner::Translator(translator((seed % 3) as u8, CODE_BYTES)),
                ) as u64;
            }
        }
    }
    assert!(ended > count * 3, "only {ended} runs came to their end");
}

#[test]
fn switching_at_any_moment() {
    let first = env("NAGORI_TRANSLATOR_SEED", 0);
    for seed in first..first + env("NAGORI_TRANSLATOR_PROGRAMS", 120) / 4 {
        for timed in [false, true] {
            let t = translator(0, CODE_BYTES);
            privileged(seed, timed, 30, Runner::Both(t, Rng::new(seed)));
        }
    }
}

#[test]
fn a_small_arena_is_emptied_and_filled_again() {
    for seed in 0..env("NAGORI_TRANSLATOR_PROGRAMS", 120) / 8 {
        for timed in [false, true] {
            let t = translator(0, Options::LEAST_BYTES);
            privileged(seed, timed, 1000, Runner::Translator(t));
        }
    }
}

#[test]
fn user_programs() {
    let first = env("NAGORI_TRANSLATOR_SEED", 0);
    for seed in first..first + env("NAGORI_TRANSLATOR_PROGRAMS", 120) {
        let p = Program::random(&mut Rng::new(seed), 200, block_address(0));
        let image = Image::new(&[p]);
        for (timed, paged, slice) in [
            (false, false, 10_000),
            (false, true, 50),
            (true, false, 10_000),
            (true, true, 300),
            (true, true, 9),
        ] {
            let t = Runner::Translator(translator(0, CODE_BYTES));
            let way = Way {
                timed,
                paged,
                slice,
            };
            let mut end = 0;
            let mut sides = [Runner::Interpreter, t].map(|runner| {
                let (mut w, h, trap) = set_up_with(&image, way, core(seed));
                w.latency = 10 + seed % 3 * 40;
                prefetching(w.coherence(), seed);
                end = trap;
                let code = CodeCache::default();
                Side { w, h, code, runner }
            });
            let name = format!("user program {seed}, timed {timed}, paged {paged}");
            let mut rng = Rng::new(seed);
            let done = |s: &mut Side<Flat>, _| s.h.state.pc == end;
            let came = lock_step(&name, &mut sides, &mut rng, slice, done, |_| 0);
            assert!(came, "{name}: does not come to its end");
            let Runner::Translator(t) = &sides[1].runner else {
                unreachable!("set above")
            };
            assert!(t.stats().entries > 0, "{name}: nothing was translated");
        }
    }
}
