//! Snapshots: files as they are, and states in files that are otherwise sound.

use nagori_config::{Library, Machine as Description};
use nagori_machine::{Engine, Machine};
use nagori_snapshot::{forge, Bytes, Meta, Snapshot};
use std::sync::OnceLock;

/// A small machine that has run a little.
pub fn sample() -> &'static [u8] {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let d = Description::load(&Library::default(), "small", &[]).expect("a description");
        let mut m = Machine::new(&d).expect("a machine");
        let base = m.config().memory.base;
        // A loop that stores: addi x1, x1, 64; sd x1, 0(x1); j -8.
        for (i, w) in [0x0400_8093u32, 0x0010_b023, 0xff9f_f06f]
            .iter()
            .enumerate()
        {
            m.ram().write_u32(4 * i as u64, *w).expect("room");
        }
        m.start_at(base, 0, 0);
        m.hart_mut(0).expect("a hart").set_reg(1, base + 0x2_0000);
        m.run(10_000, Some(3000));
        let mut file = Vec::new();
        nagori_snapshot::save(&m, &mut file, &Meta::new()).expect("a snapshot");
        file
    })
}

/// The state of the sample.
pub fn sample_state() -> Vec<u8> {
    forge::state(sample()).expect("a state")
}

fn run(file: Vec<u8>) {
    let Ok(s) = Snapshot::new(Bytes(file)) else {
        return;
    };
    let sound = s.verify().is_ok();
    let Ok(mut m) = s.machine() else {
        return;
    };
    assert!(sound, "what is restored is sound");
    for engine in [Engine::Interpreter, Engine::best()] {
        m.set_engine(engine).expect("an engine of this host");
        for _ in 0..10 {
            m.run(2000, Some(m.steps().saturating_add(2000)));
        }
    }
    m.report();
    let mut out = Vec::new();
    // A state that cannot be saved again is none that can be restored.
    nagori_snapshot::save(&m, &mut out, &Meta::new()).expect("a snapshot");
}

/// A file: it is refused, or a machine goes on from it.
pub fn snapshot_file(data: &[u8]) {
    run(data.to_vec());
}

/// A state, as CBOR, in a file without damage.
pub fn snapshot_state(data: &[u8]) {
    if let Ok(file) = forge::with_state(sample(), data) {
        run(file);
    }
}
