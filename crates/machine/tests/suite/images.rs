//! Images of NVMM: the file has, at every instant, what a power cut would leave.

use super::power::{program, start, NVMM, UNTOLD};
use crate::common::random::op;
use crate::common::*;
use nagori_isa::Op;
use nagori_machine::{geometry, Dram, Engine, ImageContent, ImageUse, Machine, MachineError, Stop};
use nagori_nvmm::{Access, Image};
use nagori_snapshot::{Bytes, Meta, Snapshot};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Bytes from the start of NVMM that programs use.
const USED: usize = 64 * 32;

fn create(dir: &TempDir, m: &Machine) -> PathBuf {
    let path = dir.path().join("nvmm");
    Image::create(&path, &geometry(m.config()).expect("NVMM")).expect("an image");
    path
}

fn attach(m: &mut Machine, path: &Path, how: ImageUse) -> Result<(), MachineError> {
    let access = match how {
        ImageUse::Write => Access::Write,
        _ => Access::Read,
    };
    m.attach_nvmm(Image::open(path, access)?, how, ImageContent::OfImage)
}

fn bytes(m: &Machine) -> Vec<u8> {
    let mut out = vec![0; USED];
    m.ram().read_bytes(NVMM, &mut out).expect("in memory");
    out
}

fn durable(image: &Image) -> Vec<u8> {
    let mut out = vec![0; USED];
    image.read(0, &mut out).expect("an image");
    out
}

/// A comparison that shows the first difference only.
fn same(a: &[u8], b: &[u8], what: impl Fn() -> String) {
    let at = a.iter().zip(b).position(|(a, b)| a != b);
    assert_eq!(at.map(|i| (i, a[i], b[i])), None, "{}", what());
    assert_eq!(a.len(), b.len());
}

fn copy_of(m: &Machine) -> Machine {
    let mut file = Vec::new();
    nagori_snapshot::save(m, &mut file, &Meta::new()).expect("a snapshot");
    let copy = Snapshot::new(Bytes(file)).expect("a snapshot");
    copy.machine().expect("a machine")
}

#[test]
fn the_file_has_what_a_power_cut_would_leave() {
    let domains: [&[&str]; 4] = [
        &["memory.persistence_domain=none", "method=extended"],
        &["memory.persistence_domain=adr"],
        &["memory.persistence_domain=eadr"],
        &["memory.persistence_domain=gpf", "memory.gpf_lines=3"],
    ];
    let (mut lost, mut compared) = (0, 0);
    for seed in 0..12 {
        let mut rng = Rng::new(seed ^ 0x17a6e);
        let (words, _) = program(&mut rng, 150);
        for domain in domains {
            for level in [None].into_iter().chain(UNTOLD.map(Some)) {
                let small = ["l1d.size=\"1 KiB\"", "memory.track_persistence=true"];
                let settings = [domain, &small, level.as_slice()].concat();
                let timed = !rng.one_in(6);
                let mut m = start(&words, &settings, timed, Engine::best());
                let dir = tempfile::tempdir().expect("a directory");
                let path = create(&dir, &m);
                attach(&mut m, &path, ImageUse::Write).expect("an image that fits");
                loop {
                    let stop = m.run(1 + rng.below(150), None);
                    let image = m.nvmm_image().expect("attached").look().expect("sound");
                    let mut twin = copy_of(&m);
                    let cut = twin.power_cut(Dram::Zero).expect("a cut");
                    same(&durable(&image), &bytes(&twin), || {
                        format!(
                            "seed {seed}, {settings:?}, timed {timed}, at {}",
                            m.instructions()
                        )
                    });
                    lost += cut.lost_lines + cut.lost_writes;
                    compared += 1;
                    if matches!(stop, Stop::Snapshot(_)) {
                        break;
                    }
                }
                let mut twin = copy_of(&m);
                twin.power_cut(Dram::Zero).expect("a cut");
                if rng.one_in(2) {
                    m.close_nvmm().expect("closed");
                } else if rng.one_in(2) {
                    m.power_cut(Dram::Zero).expect("a cut");
                    assert_eq!(
                        m.nvmm_image()
                            .expect("attached")
                            .look()
                            .expect("sound")
                            .patches()
                            .count(),
                        0
                    );
                }
                drop(m);
                let image = Image::open(&path, Access::Write).expect("an image");
                same(&durable(&image), &bytes(&twin), || {
                    format!("seed {seed}, {settings:?}")
                });
            }
        }
    }
    assert!(
        lost > 1000 && compared > 600,
        "{lost} lines, {compared} times"
    );
}

/// Stores to NVMM on a machine whose harts hold stores back: plain ones, combined ones, of whole lines, too, and what
/// orders and flushes them.
fn held(rng: &mut Rng) -> Vec<u32> {
    let mut words = Vec::new();
    let all = op(Op::NtlAll, 0, 0, 0, 0);
    for _ in 0..80 {
        let line = 64 * rng.below(24) as i32;
        words.push(op(Op::Addi, 12, 12, 0, 1 + rng.below(500) as i32));
        words.push(op(Op::Addi, 11, 10, 0, line));
        let at = 8 * rng.below(8) as i32;
        match rng.below(10) {
            0..=2 => words.push(op(Op::Sd, 0, 11, 12, at)),
            3..=4 => words.extend([all, op(Op::Sd, 0, 11, 12, at)]),
            5 => words.extend((0..8).flat_map(|i| [all, op(Op::Sd, 0, 11, 12, 8 * i)])),
            6 => words.push(op(Op::Fence, 0, 0, 0, rng.pick(&[0x33, 0x11, 0x22]))),
            7 => words.push(op(
                rng.pick(&[Op::CboFlush, Op::CboClean, Op::CflushDL1, Op::CboZero]),
                0,
                11,
                0,
                0,
            )),
            8 => words.push(op(Op::AmoaddD, 13, 11, 12, 0)),
            _ => words.push(op(Op::Ld, 13, 11, 0, at)),
        }
    }
    words.extend([
        op(Op::Addi, 12, 0, 0, 1),
        op(Op::Sd, 0, 20, 12, 0x240),
        op(Op::Jal, 0, 0, 0, 0),
    ]);
    words
}

#[test]
fn the_file_lacks_what_harts_hold_back() {
    let domains: [&[&str]; 4] = [
        &["memory.persistence_domain=none", "method=extended"],
        &["memory.persistence_domain=adr"],
        &["memory.persistence_domain=eadr"],
        &["memory.persistence_domain=gpf", "memory.gpf_lines=3"],
    ];
    let combine = "nontemporal.all.store=\"write-combining\"";
    let buffers: [&[&str]; 4] = [
        &["l1d.mshrs=4", "store_buffer.entries=4"],
        &[
            "l1d.mshrs=4",
            "store_buffer.entries=6",
            "store_buffer.drain=\"any\"",
            combine,
        ],
        &["l1d.mshrs=2", combine, "nontemporal.cached_copy=\"update\""],
        &[
            "l1d.mshrs=2",
            "store_buffer.entries=3",
            combine,
            "nontemporal.evict=\"in-order\"",
            "nontemporal.partial_nvmm=\"read-modify-write\"",
        ],
    ];
    let (mut held_back, mut compared, mut due) = (0, 0, 0);
    for seed in 0..12 {
        let mut rng = Rng::new(seed ^ 0x6e1d);
        let words = held(&mut rng);
        for domain in domains {
            for buffer in buffers {
                let level = if rng.one_in(2) {
                    Some(rng.pick(&UNTOLD))
                } else {
                    None
                };
                let small = ["l1d.size=\"1 KiB\"", "memory.track_persistence=true"];
                let settings = [domain, buffer, &small, level.as_slice()].concat();
                let engine = rng.pick(&[Engine::Interpreter, Engine::best()]);
                let mut m = start(&words, &settings, true, engine);
                let dir = tempfile::tempdir().expect("a directory");
                let path = create(&dir, &m);
                attach(&mut m, &path, ImageUse::Write).expect("an image that fits");
                let what =
                    |m: &Machine| format!("seed {seed}, {settings:?}, at {}", m.instructions());
                loop {
                    let stop = m.run(1 + rng.below(200), None);
                    // A power cut takes what memory has done by then.
                    m.settle_memory();
                    m.run(0, None);
                    let image = m.nvmm_image().expect("attached").look().expect("sound");
                    let mut twin = copy_of(&m);
                    let held = { twin.report().stores.iter() }.any(|s| {
                        let e = &s.events;
                        e.buffered - e.coalesced > e.drained
                            || e.combined > e.evicted_full + e.evicted_partial
                    });
                    twin.power_cut(Dram::Zero).expect("a cut");
                    if m.stores_due() {
                        due += 1;
                    } else {
                        same(&durable(&image), &bytes(&twin), || what(&m));
                        held_back += u64::from(held);
                        compared += 1;
                    }
                    if matches!(stop, Stop::Snapshot(_)) {
                        break;
                    }
                }
                while m.stores_due() {
                    m.run(100, None);
                    m.settle_memory();
                }
                m.run(0, None);
                let mut twin = copy_of(&m);
                twin.power_cut(Dram::Zero).expect("a cut");
                if rng.one_in(2) {
                    m.close_nvmm().expect("closed");
                }
                drop(m);
                let image = Image::open(&path, Access::Write).expect("an image");
                same(&durable(&image), &bytes(&twin), || {
                    format!("seed {seed}, {settings:?}")
                });
            }
        }
    }
    assert!(
        held_back > 250 && compared > 600 && due < compared / 2,
        "{held_back} of {compared} times, {due} times something was due"
    );
}

#[test]
fn the_next_machine_finds_what_the_last_one_left() {
    let words = [
        op(Op::Ld, 12, 10, 0, 0),
        op(Op::Addi, 12, 12, 0, 5),
        op(Op::Sd, 0, 10, 12, 0),
        op(Op::CboFlush, 0, 10, 0, 0),
        op(Op::Sd, 0, 10, 12, 64),
        op(Op::Addi, 12, 0, 0, 1),
        op(Op::Sd, 0, 20, 12, 0x240),
        op(Op::Jal, 0, 0, 0, 0),
    ];
    let tracked = ["memory.track_persistence=true"];
    let dir = tempfile::tempdir().expect("a directory");
    let path = create(&dir, &start(&words, &tracked, true, Engine::best()));
    for round in 1..4u64 {
        for engine in [Engine::Interpreter, Engine::best()] {
            let temporary = engine == Engine::Interpreter;
            let how = if temporary {
                ImageUse::Temporary
            } else {
                ImageUse::Write
            };
            let mut m = start(&words, &tracked, true, engine);
            attach(&mut m, &path, how).expect("an image that fits");
            while m.run(1000, None) == Stop::Slice {}
            let word = |at| m.ram().read_u64(NVMM + at).expect("in memory");
            assert_eq!((word(0), word(64)), (5 * round, 5 * round));
        }
        let image = Image::open(&path, Access::Read).expect("an image");
        let left = durable(&image);
        let word = |at: usize| u64::from_le_bytes(left[at..at + 8].try_into().expect("a word"));
        assert_eq!(
            (word(0), word(64)),
            (5 * round, 0),
            "the second one was in a cache"
        );
    }
}

#[test]
fn a_read_only_image_refuses_stores_of_harts() {
    // The handler notes the cause, the address, and goes on behind the store.
    let words = [
        op(Op::Auipc, 5, 0, 0, 0),
        op(Op::Addi, 5, 5, 0, 64),
        op(Op::Csrrw, 0, 5, 0, 0x305),
        op(Op::Ld, 7, 10, 0, 0),
        op(Op::Sd, 0, 10, 12, 8),
        op(Op::Addi, 8, 9, 0, 0),
        op(Op::AmoaddD, 13, 10, 12, 0),
        op(Op::Add, 8, 8, 9, 0),
        op(Op::CboZero, 0, 10, 0, 0),
        op(Op::Add, 8, 8, 9, 0),
        op(Op::Ld, 14, 10, 0, 8),
        op(Op::Addi, 12, 0, 0, 1),
        op(Op::Sd, 0, 20, 12, 0x240),
        op(Op::Jal, 0, 0, 0, 0),
        op(Op::Addi, 0, 0, 0, 0),
        op(Op::Addi, 0, 0, 0, 0),
        op(Op::Csrrs, 9, 0, 0, 0x342),
        op(Op::Csrrs, 6, 0, 0, 0x341),
        op(Op::Addi, 6, 6, 0, 4),
        op(Op::Csrrw, 0, 6, 0, 0x341),
        op(Op::Mret, 0, 0, 0, 0),
    ];
    for timed in [false, true] {
        for engine in [Engine::Interpreter, Engine::best()] {
            let mut m = start(&words, &[], timed, engine);
            let dir = tempfile::tempdir().expect("a directory");
            let path = create(&dir, &m);
            attach(&mut m, &path, ImageUse::ReadOnly).expect("an image that fits");
            while m.run(1000, None) == Stop::Slice {}
            let h = m.hart(0).expect("a hart");
            assert_eq!((h.reg(7), h.reg(14), h.reg(8)), (0, 0, 3 * 7));
            // Any number of machines may look.
            Image::open(&path, Access::Read).expect("shared");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let tracked = ["memory.track_persistence=true"];
    let dir = tempfile::tempdir().expect("a directory");
    let m = start(&[0x6f], &tracked, true, Engine::best());
    let path = create(&dir, &m);
    let mut untracked = start(&[0x6f], &[], true, Engine::best());
    let e = attach(&mut untracked, &path, ImageUse::Write);
    assert!(matches!(e, Err(MachineError::ImageNotTracked)), "{e:?}");
    let other = ["memory.nvmm_boundary=\"192 MiB\"", tracked[0]];
    let mut larger = start(&[0x6f], &other, true, Engine::best());
    let e = attach(&mut larger, &path, ImageUse::Write);
    assert!(matches!(e, Err(MachineError::Nvmm(_))), "{e:?}");
    // A machine that is not new has to have the content of the image.
    let mut used = start(&[0x6f], &tracked, true, Engine::best());
    used.ram().write_u8(NVMM + 77, 1).expect("in memory");
    let e = attach(&mut used, &path, ImageUse::Write);
    let at = used.config().memory.base + NVMM + 77;
    assert!(
        matches!(e, Err(MachineError::ImageDiffers(a)) if a == at),
        "{e:?}"
    );
}

#[test]
fn a_restored_machine_goes_on_with_its_image() {
    for seed in 0..8 {
        let mut rng = Rng::new(seed ^ 0x4e57);
        let (words, _) = program(&mut rng, 300);
        let tracked = ["memory.track_persistence=true"];
        let mut m = start(&words, &tracked, true, Engine::best());
        let dir = tempfile::tempdir().expect("a directory");
        let path = create(&dir, &m);
        attach(&mut m, &path, ImageUse::Write).expect("an image that fits");
        if m.run(600 + rng.below(1000), None) != Stop::Slice {
            continue;
        }
        let mut next = copy_of(&m);
        let mut alone = copy_of(&m);
        drop(m);
        attach(&mut next, &path, ImageUse::Write).expect("the same content");
        for m in [&mut next, &mut alone] {
            while m.run(1000, None) == Stop::Slice {}
        }
        same(&bytes(&next), &bytes(&alone), || format!("seed {seed}"));
        assert_eq!(next.now(), alone.now());
        alone.power_cut(Dram::Zero).expect("a cut");
        drop(next);
        let image = Image::open(&path, Access::Write).expect("an image");
        same(&durable(&image), &bytes(&alone), || format!("seed {seed}"));
    }
}
