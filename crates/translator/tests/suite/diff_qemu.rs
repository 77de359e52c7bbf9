//! Random user programs, translated, against the user emulation of QEMU: as the test of
//! this name of the interpreter, with fewer programs (`NAGORI_TRANSLATOR_QEMU`, default 200).

use crate::common::gen::{block_address, Image, Program, STATE_BYTES};
use crate::common::qemu::{difference, missing, ours, theirs, WAYS};
use crate::common::{env, Rng};
use nagori_translator::{Options, Translator};

#[test]
fn translated_programs_agree_with_qemu() {
    if missing() {
        return;
    }
    let programs = env("NAGORI_TRANSLATOR_QEMU", 200) as usize;
    let seed = env("NAGORI_HART_SEED", 77);
    let batch = 100;
    for first in (0..programs).step_by(batch) {
        let mut rng = Rng::new(seed << 32 | first as u64);
        let count = batch.min(programs - first);
        let list: Vec<Program> = (0..count)
            .map(|k| Program::random(&mut rng, 200, block_address(k)))
            .collect();
        let image = Image::new(&list);
        let theirs = theirs(&image, &format!("translated{first}")).expect("QEMU runs");
        for way in WAYS {
            for code_bytes in [16 << 20, Options::LEAST_BYTES] {
                let mut t = Translator::new(Options {
                    code_bytes,
                    threshold: 0,
                })
                .expect("memory for code");
                let ours = ours(&image, way, &mut t).unwrap_or_else(|e| panic!("{way:?}: {e}"));
                let size = STATE_BYTES as usize;
                for k in 0..count {
                    let part = k * size..(k + 1) * size;
                    let (a, b) = (&ours[part.clone()], &theirs[part]);
                    assert!(
                        a == b,
                        "program {}, {way:?}:\n{}",
                        first + k,
                        difference(a, b)
                    );
                }
                assert!(t.stats().entries > 0, "{way:?}: nothing was translated");
                // Whatever does not fit was emptied.
                let small = code_bytes == Options::LEAST_BYTES;
                assert!(!small || t.stats().emptied > 0, "{way:?}: {:?}", t.stats());
            }
        }
    }
}
