//! Snapshot files: every kind of damage is an error, and nothing is lost in saving and restoring.

use nagori_config::{Library, Machine as Description};
use nagori_machine::Machine;
use nagori_snapshot::forge::{self, Chunk, CHUNK, PREFIX};
use nagori_snapshot::*;
use proptest::prelude::*;
use std::sync::OnceLock;

fn describe(settings: &[&str]) -> Description {
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    Description::load(&Library::default(), "small", &settings).expect("a description")
}

/// A machine that has run for a while, with data in four places of memory.
fn machine() -> Machine {
    let mut m = Machine::new(&describe(&[])).expect("a machine");
    let end = m.ram().len();
    for at in [0, 4096 + 17, CHUNK * 3 + 5, end - 1] {
        m.ram().write_u8(at, 0xab).expect("in memory");
    }
    // A loop that stores: addi x1, x1, 64; sd x1, 0(x1); j -8.
    for (i, w) in [0x0400_8093u32, 0x0010_b023, 0xff9f_f06f]
        .iter()
        .enumerate()
    {
        m.ram().write_u32(8192 + 4 * i as u64, *w).expect("room");
    }
    let base = m.config().memory.base;
    m.start_at(base + 8192, 0, 0);
    m.hart_mut(0).expect("a hart").set_reg(1, base + 0x2_0000);
    m.run(10_000, Some(3000));
    m
}

fn bytes(m: &Machine) -> Vec<u8> {
    let mut out = Vec::new();
    nagori_snapshot::save(m, &mut out, &Meta::new()).expect("a snapshot");
    out
}

/// The file of [`machine`]; written once.
fn sample() -> &'static [u8] {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    SAMPLE.get_or_init(|| bytes(&machine()))
}

/// Opens and restores; any failure is an error.
fn whole(file: Vec<u8>) -> Result<Machine, SnapshotError> {
    Snapshot::new(Bytes(file))?.machine()
}

fn error(file: Vec<u8>) -> SnapshotError {
    match whole(file) {
        Ok(_) => panic!("was read"),
        Err(e) => e,
    }
}

#[test]
fn a_file_comes_back_as_it_was() {
    let mut m = machine();
    let file = bytes(&m);
    assert_eq!(file, bytes(&m), "the same state, the same bytes");
    let mut meta = Meta::new();
    meta.insert("label".into(), "x".into());
    let mut noted = Vec::new();
    let written = nagori_snapshot::save(&m, &mut noted, &meta).expect("a snapshot");
    assert_eq!(written.file_bytes, noted.len() as u64);
    let s = Snapshot::new(Bytes(noted)).expect("a snapshot");
    assert_eq!(s.header().meta, meta);
    assert_eq!(s.header().instructions, m.instructions());
    assert_eq!(&s.header().description, m.description());
    assert_eq!(s.memory_bytes(), written.memory_bytes);
    s.verify().expect("sound");
    let mut copy = whole(file.clone()).expect("a machine");
    assert_eq!(bytes(&copy), file);
    let end = m.ram().len();
    for at in [0, 4096 + 17, CHUNK * 3 + 5, end - 1] {
        assert_eq!(copy.ram().read_u8(at), Some(0xab));
    }
    m.run(10_000, None);
    copy.run(10_000, None);
    assert_eq!(bytes(&m), bytes(&copy));
}

#[test]
fn what_a_restart_loads_comes_along() {
    use nagori_platform::loader::{EntryState, Plan, Role, Segment, Software};
    let mut m = machine();
    assert_eq!(
        Snapshot::new(Bytes(bytes(&m))).unwrap().software().unwrap(),
        None
    );
    let base = m.config().memory.base;
    let segment = |role, at: u64, bytes: &[u8]| Segment {
        role,
        addr: base + at,
        bytes: bytes.to_vec(),
        memory_size: bytes.len() as u64 + 100,
    };
    let software = Software {
        plan: Plan {
            warnings: Vec::new(),
            segments: vec![
                segment(Role::Firmware, 0, &[1; 5000]),
                segment(Role::Kernel, 1 << 20, b"kernel"),
            ],
            entry: EntryState {
                pc: base,
                a1: 7,
                a2: 9,
            },
        },
        timed: true,
        tohost: Some(base + 64),
    };
    m.set_software(Some(std::sync::Arc::new(software.clone())));
    let file = bytes(&m);
    let s = Snapshot::new(Bytes(file.clone())).unwrap();
    s.verify().unwrap();
    assert_eq!(s.software().unwrap(), Some(software.clone()));
    // Every byte of it is covered.
    let place = forge::software(&file).unwrap();
    for at in [place.start, place.end - 1] {
        let mut f = file.clone();
        f[at] ^= 1;
        let e = Snapshot::new(Bytes(f)).unwrap().software().unwrap_err();
        assert!(matches!(e, SnapshotError::Damaged(_)), "{e}");
    }
    // The end of memory is checked, too.
    let mut outside = software;
    outside.plan.segments[1].addr = base + m.ram().len() - 3;
    m.set_software(Some(std::sync::Arc::new(outside)));
    let e = Snapshot::new(Bytes(bytes(&m)))
        .unwrap()
        .verify()
        .unwrap_err();
    assert!(e.to_string().contains("the software"), "{e}");
}

#[test]
fn what_was_zero_again_is_left_out_and_stays_untouched() {
    let m = machine();
    let before = bytes(&m).len();
    m.ram().fill(16 << 20, 4 << 20, 1).expect("in memory");
    m.ram().fill(16 << 20, 4 << 20, 0).expect("in memory");
    assert_eq!(bytes(&m).len(), before);
    let held = |m: &Machine| {
        m.ram()
            .touched()
            .iter()
            .map(|r| r.end - r.start)
            .sum::<u64>()
    };
    let copy = whole(bytes(&m)).expect("a machine");
    assert!(held(&copy) < held(&m));
}

#[test]
fn files_are_complete_or_not_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.snap");
    let m = machine();
    nagori_snapshot::save_file(&m, &path, &Meta::new()).expect("a file");
    nagori_snapshot::save_file(&m, &path, &Meta::new()).expect("a file again");
    let s = Snapshot::open(&path).expect("a snapshot");
    s.verify().expect("sound");
    // Several restores at once from one file, whose name may have been removed meanwhile.
    std::fs::remove_file(&path).expect("removed");
    for _ in 0..3 {
        assert_eq!(bytes(&s.machine().expect("a machine")), bytes(&m));
    }
    let nowhere = dir.path().join("no/a.snap");
    assert!(nagori_snapshot::save_file(&m, &nowhere, &Meta::new()).is_err());
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("a list").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn other_files_and_formats_are_told_apart() {
    assert!(matches!(error(Vec::new()), SnapshotError::NotASnapshot));
    assert!(matches!(
        error(b"hello".to_vec()),
        SnapshotError::NotASnapshot
    ));
    assert!(matches!(error(vec![0; 5000]), SnapshotError::NotASnapshot));
    let mut f = sample().to_vec();
    f[8] = 77;
    let e = error(f);
    let SnapshotError::Format { found, known } = e else {
        panic!("{e}");
    };
    assert_eq!((found, known), (77, FORMAT));
    assert!(e.to_string().contains("format 77"), "{e}");
}

#[test]
fn parts_of_other_versions_are_named() {
    let older = forge::header(sample(), |h| {
        h["program"] = "0.0.7".into();
        h["parts"]["caches"] = 77.into();
        h["parts"].as_object_mut().expect("parts").remove("harts");
        // Of whatever form the rest is.
        h["description"] = "another".into();
    });
    let e = error(older.expect("a header")).to_string();
    for text in [
        "nagori 0.0.7",
        "harts (none;",
        "caches (version 77; this program reads 1)",
    ] {
        assert!(e.contains(text), "{e}");
    }
    assert!(!e.contains("statistics"), "{e}");
}

#[test]
fn every_shorter_file_is_an_error() {
    let f = sample();
    for n in (0..f.len()).step_by(1 + f.len() / 600) {
        let e = error(f[..n].to_vec());
        let told = matches!(e, SnapshotError::Truncated(_) | SnapshotError::NotASnapshot);
        assert!(told || n < PREFIX as usize, "{n}: {e}");
    }
    let mut longer = f.to_vec();
    longer.push(0);
    error(longer);
}

#[test]
fn every_changed_byte_is_an_error() {
    let f = sample();
    let mut copy = f.to_vec();
    for at in (0..f.len()).step_by(1 + f.len() / 4000) {
        copy[at] ^= 1 << (at % 8);
        let s = Snapshot::new(Bytes(copy.clone())).and_then(|s| s.verify());
        assert!(s.is_err(), "byte {at} of {}", f.len());
        copy[at] = f[at];
    }
}

#[test]
fn another_machine_is_told_by_its_keys() {
    let s = Snapshot::new(Bytes(sample().to_vec())).expect("a snapshot");
    let e = s.machine_as(&describe(&["seed=9", "l1d.ways=2", "l1d.size=8192"]));
    let text = e.err().expect("another machine").to_string();
    for part in ["seed is 1 in the snapshot, 9 here", "l1d.ways is 4"] {
        assert!(text.contains(part), "{text}");
    }
    // Values that can be changed while a machine runs may differ.
    let other = describe(&[
        "method=fine",
        "memory.controller.timing.rcd=9",
        "name=other",
    ]);
    let m = s.machine_as(&other).expect("a machine");
    let now = m.report().memory;
    assert_eq!(now.method, nagori_config::Method::Fine);
    assert!(
        now.changes.iter().any(|c| c.what == "timing.rcd"),
        "{now:?}"
    );
    let same = s.machine_as(&describe(&[])).expect("a machine");
    assert!(same.report().memory.changes.is_empty());
    assert_eq!(Header::hash(&other), Header::hash(&describe(&[])));
    assert_ne!(Header::hash(&describe(&["seed=9"])), Header::hash(&other));
}

fn forged(index: Option<Vec<u8>>, state: Option<Vec<u8>>, state_bytes: u64) -> Vec<u8> {
    forge::parts(sample(), index, state, state_bytes).expect("a snapshot")
}

#[test]
fn forged_parts_are_errors() {
    let (chunks, state_bytes) = forge::taken_apart(sample()).expect("a snapshot");
    assert_eq!(forged(None, None, state_bytes), sample());
    // Chunks out of order, outside memory, of the wrong length.
    let mut wrong: Vec<Vec<Chunk>> = vec![chunks.clone(); 4];
    wrong[0].swap(0, 1);
    wrong[1].last_mut().expect("a chunk").number = u32::MAX;
    wrong[2][0].pages[3] ^= 1;
    wrong[3][0].len = u32::MAX;
    for list in wrong {
        let mut index = Vec::new();
        list.iter().for_each(|c| c.encode(&mut index));
        let e = error(forged(Some(index), None, state_bytes));
        assert!(matches!(e, SnapshotError::Damaged(_)), "{e}");
    }
    // Invalid state: not a state, longer than stated, or not compressed.
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 1).expect("compressed");
    for (state, len) in [(vec![1, 2, 3], 3), (bomb.clone(), 1000), (bomb, 64 << 20)] {
        let e = error(forged(None, Some(state), len));
        assert!(matches!(e, SnapshotError::Damaged(_)), "{e}");
    }
}

/// Every number of a state, in order, changed by `f`.
fn mutate(v: &mut ciborium::Value, f: &mut dyn FnMut(&mut ciborium::Value)) {
    use ciborium::Value;
    match v {
        Value::Array(a) => a.iter_mut().for_each(|v| mutate(v, f)),
        Value::Map(m) => m.iter_mut().for_each(|(_, v)| mutate(v, f)),
        _ => f(v),
    }
}

/// A deliberately changed state, in an undamaged file.
fn with_changed_state(seed: u64, changes: u32) -> Vec<u8> {
    let plain = forge::state(sample()).expect("a state");
    let mut value: ciborium::Value = ciborium::from_reader(plain.as_slice()).expect("a value");
    let mut count = 0u64;
    mutate(&mut value, &mut |_| count += 1);
    let mut random = seed;
    let mut next = || {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        random >> 16
    };
    let chosen: Vec<u64> = (0..changes).map(|_| next() % count).collect();
    let mut at = 0;
    mutate(&mut value, &mut |v| {
        if chosen.contains(&at) {
            let n = next();
            *v = match n % 8 {
                0 => ciborium::Value::Integer(u64::MAX.into()),
                1 => ciborium::Value::Integer((n >> 40).into()),
                2 => ciborium::Value::Integer((n % 300).into()),
                3 => ciborium::Value::Null,
                4 => ciborium::Value::Bool(n & 16 != 0),
                5 => ciborium::Value::Integer((n << 17).into()),
                6 => ciborium::Value::Array(Vec::new()),
                _ => ciborium::Value::Text("x".into()),
            };
        }
        at += 1;
    });
    let mut plain = Vec::new();
    ciborium::into_writer(&value, &mut plain).expect("encoded");
    forge::with_state(sample(), &plain).expect("a snapshot")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Damage of any kind: an error, or (if it hit nothing important) the same machine.
    #[test]
    fn any_damage_is_an_error(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut f = sample().to_vec();
        for (i, b) in places {
            let at = i.index(f.len());
            f[at] = b;
        }
        if let Some(i) = cut {
            f.truncate(i.index(f.len()));
        }
        if f != sample() {
            prop_assert!(Snapshot::new(Bytes(f)).and_then(|s| s.verify()).is_err());
        }
    }

    /// Impossible states: an error, or a machine that runs.
    #[test]
    fn impossible_states_never_panic(seed: u64, changes in 1u32..4) {
        if let Ok(mut m) = whole(with_changed_state(seed, changes)) {
            for _ in 0..20 {
                m.run(2000, Some(m.steps() + 2000));
            }
            m.report();
            let mut out = Vec::new();
            let _ = nagori_snapshot::save(&m, &mut out, &Meta::new());
        }
    }
}
