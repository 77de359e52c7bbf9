//! Disks compared with a plain vector, and overlays after the end of their process.

use nagori_disk::{Disk, Error, Writes, SECTOR};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Not a whole number of clusters.
const SIZE: usize = 5 * (16 << 10) + 3 * 512;
const CLUSTER: usize = 16 << 10;

fn pattern(n: usize) -> u8 {
    (n / 512 * 31 + n % 251) as u8
}

fn base(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("base.img");
    let bytes: Vec<u8> = (0..SIZE).map(pattern).collect();
    fs::write(&path, bytes).unwrap();
    path
}

fn content(disk: &Disk) -> Vec<u8> {
    let mut bytes = vec![0xee; disk.size() as usize];
    disk.read(0, &mut bytes).unwrap();
    bytes
}

#[derive(Debug, Clone)]
enum Step {
    Write(usize, usize, u8),
    Zero(usize, usize),
    Flush,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..SIZE, 0..3 * CLUSTER).prop_map(|(at, len)| (at, len.min(SIZE - at)));
    prop_oneof![
        4 => (range(), 1u8..).prop_map(|((at, len), b)| Step::Write(at, len, b)),
        2 => range().prop_map(|(at, len)| Step::Zero(at, len)),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

fn apply(disk: &mut Disk, model: &mut [u8], step: &Step) {
    match *step {
        Step::Write(at, len, b) => {
            disk.write(at as u64, &vec![b; len]).unwrap();
            model[at..at + len].fill(b);
        }
        Step::Zero(at, len) => {
            disk.zero(at as u64, len as u64).unwrap();
            model[at..at + len].fill(0);
        }
        Step::Flush | Step::Reopen => disk.flush().unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_kind_of_disk_is_a_row_of_bytes(steps in prop::collection::vec(step(), 1..24)) {
        let dir = TempDir::new().unwrap();
        let overlay = dir.path().join("overlay");
        for writes in [Writes::Through, Writes::Temporary, Writes::Overlay(overlay)] {
            let path = base(&dir);
            let before = fs::read(&path).unwrap();
            let mut model = before.clone();
            let mut disk = Disk::open(&path, &writes).unwrap();
            for s in &steps {
                apply(&mut disk, &mut model, s);
                if matches!(s, Step::Reopen) && writes != Writes::Temporary {
                    drop(disk);
                    disk = Disk::open(&path, &writes).unwrap();
                }
                prop_assert!(content(&disk) == model, "{s:?}");
            }
            if writes == Writes::Temporary {
                let changes: Vec<_> = disk.changes().collect::<Result<_, _>>().unwrap();
                let mut other = Disk::open(&path, &Writes::Temporary).unwrap();
                other.write(0, &[7; 600]).unwrap();
                other.restore(changes).unwrap();
                prop_assert!(content(&other) == model);
            }
            drop(disk);
            if writes != Writes::Through {
                prop_assert!(fs::read(&path).unwrap() == before);
            }
        }
    }

    /// The process may end at any point: what was flushed is there, and every cluster has either
    /// its content of the last flush or content written since.
    #[test]
    fn what_was_flushed_survives_a_kill(
        steps in prop::collection::vec(step(), 1..24),
        torn in prop::option::of(0usize..4096),
    ) {
        let dir = TempDir::new().unwrap();
        let path = base(&dir);
        let overlay = dir.path().join("overlay");
        let mut disk = Disk::open(&path, &Writes::Overlay(overlay.clone())).unwrap();
        let mut model = content(&disk);
        let mut flushed = model.clone();
        let mut touched = vec![false; SIZE.div_ceil(CLUSTER)];
        for s in &steps {
            apply(&mut disk, &mut model, s);
            match *s {
                Step::Write(at, len, _) | Step::Zero(at, len) if len > 0 => {
                    touched[at / CLUSTER..=(at + len - 1) / CLUSTER].fill(true);
                }
                Step::Flush | Step::Reopen => {
                    flushed.clone_from(&model);
                    touched.fill(false);
                }
                _ => {}
            }
        }
        // What a killed process leaves.
        let left = dir.path().join("left");
        fs::copy(&overlay, &left).unwrap();
        // A write of the next map page that was cut off: it goes over the older copy.
        if let Some(cut) = torn {
            let file = fs::OpenOptions::new().read(true).write(true).open(&left).unwrap();
            let number = |copy: u64| {
                let mut b = [0; 8];
                file.read_exact_at(&mut b, 0x1000 + 0x1000 * copy).unwrap();
                u64::from_le_bytes(b)
            };
            let next = number(0).max(number(1)) + 1;
            let mut page = next.to_le_bytes().to_vec();
            page.resize(4096, 0x5a);
            file.write_all_at(&page[..cut], 0x1000 + 0x1000 * (next & 1)).unwrap();
        }
        let again = Disk::open(&path, &Writes::Overlay(left)).unwrap();
        let found = content(&again);
        for (n, touched) in touched.iter().enumerate() {
            let range = n * CLUSTER..((n + 1) * CLUSTER).min(SIZE);
            if !touched {
                prop_assert!(found[range.clone()] == flushed[range.clone()], "cluster {n}");
            }
        }
    }

    #[test]
    fn no_file_makes_it_panic(
        header in prop::collection::vec(any::<u8>(), 0..5000),
        places in prop::collection::vec((0usize..0x8000, any::<u8>()), 0..8),
    ) {
        let dir = TempDir::new().unwrap();
        let path = base(&dir);
        let odd = dir.path().join("odd");
        fs::write(&odd, header).unwrap();
        let _ = Disk::open(&path, &Writes::Overlay(odd.clone()));
        fs::remove_file(&odd).unwrap();
        let mut disk = Disk::open(&path, &Writes::Overlay(odd.clone())).unwrap();
        disk.write(100, &[1; 40000]).unwrap();
        drop(disk);
        let mut bytes = fs::read(&odd).unwrap();
        for (at, b) in places {
            bytes[at] = b;
        }
        fs::write(&odd, bytes).unwrap();
        if let Ok(disk) = Disk::open(&path, &Writes::Overlay(odd)) {
            content(&disk);
        }
    }
}

fn refused(base: &Path, overlay: &Path) -> String {
    match Disk::open(base, &Writes::Overlay(overlay.into())) {
        Ok(_) => panic!("it was accepted"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn overlays_know_their_base_and_their_own_damage() {
    let dir = TempDir::new().unwrap();
    let path = base(&dir);
    let overlay = dir.path().join("overlay");
    let mut disk = Disk::open(&path, &Writes::Overlay(overlay.clone())).unwrap();
    disk.write(0, &[9; 512]).unwrap();
    disk.flush().unwrap();
    drop(disk);
    let good = fs::read(&overlay).unwrap();

    // The first write of the map went to copy B, at 0x2000.
    for (at, expected) in [
        (0usize, "it is no overlay of a disk"),
        (7, "overlays of version"),
        (17, "the header's checksum is wrong"),
        (0x2000 + 16, "neither copy of map page 0 is sound"),
    ] {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        if at >= 0x2000 {
            // As after a second write, so that both copies were there.
            bad[0x1000] = 1;
        }
        fs::write(&overlay, &bad).unwrap();
        let e = refused(&path, &overlay);
        assert!(e.contains(expected), "{at:#x}: {e}");
    }
    fs::write(&overlay, &good[..good.len() - 1]).unwrap();
    assert!(refused(&path, &overlay).contains("it was cut off at"));
    fs::write(&overlay, &good[..100]).unwrap();
    assert!(refused(&path, &overlay).contains("too short"));
    fs::write(&overlay, &good).unwrap();
    drop(Disk::open(&path, &Writes::Overlay(overlay.clone())).unwrap());

    // A base that was written to, or another one.
    fs::write(&path, vec![1; SIZE]).unwrap();
    let e = refused(&path, &overlay);
    assert!(e.contains("made for another state of its base"), "{e}");
    assert!(e.contains("use the old base, or another overlay"), "{e}");
}

#[test]
fn a_file_belongs_to_one_writer_or_to_readers() {
    let dir = TempDir::new().unwrap();
    let path = base(&dir);
    let open = |writes: &Writes| Disk::open(&path, writes);
    let overlay = Writes::Overlay(dir.path().join("overlay"));
    {
        let _reader = open(&Writes::Refused).unwrap();
        let _other = open(&Writes::Temporary).unwrap();
        let _third = open(&overlay).unwrap();
        for second in [&Writes::Through, &overlay] {
            let e = open(second).unwrap_err();
            assert!(matches!(e, Error::Locked { .. }), "{e}");
        }
    }
    let _writer = open(&Writes::Through).unwrap();
    for second in [&Writes::Through, &Writes::Refused, &Writes::Temporary] {
        assert!(matches!(open(second).unwrap_err(), Error::Locked { .. }));
    }
}

#[test]
fn bad_files_and_requests_are_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("disk");
    let open = |writes: &Writes| match Disk::open(&path, writes) {
        Ok(_) => panic!("it was accepted"),
        Err(e) => e.to_string(),
    };
    assert!(open(&Writes::Refused).contains("cannot read"));
    fs::write(&path, []).unwrap();
    assert!(open(&Writes::Refused).contains("expected 512 bytes to 1 TiB"));
    fs::write(&path, [0; 1000]).unwrap();
    assert!(open(&Writes::Through).contains("add 24"));
    let e = Disk::open(dir.path(), &Writes::Refused).unwrap_err();
    assert!(e.to_string().contains("expected a file"), "{e}");

    fs::write(&path, [3; 1024]).unwrap();
    let mut disk = Disk::open(&path, &Writes::Refused).unwrap();
    assert_eq!((disk.size(), disk.is_read_only()), (1024, true));
    assert!(matches!(disk.write(0, &[1]), Err(Error::ReadOnly)));
    assert!(matches!(disk.zero(0, 1), Err(Error::ReadOnly)));
    let mut sector = [0; 512];
    for offset in [513, 1024, u64::MAX - 4] {
        let e = disk.read(offset, &mut sector).unwrap_err();
        assert!(matches!(e, Error::Range { .. }), "{e}");
    }
    disk.read(512, &mut sector).unwrap();
    assert_eq!(sector, [3; 512]);
    disk.flush().unwrap();
}

/// Space on the host in bytes.
fn space(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn zeros_take_no_space() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("disk");
    let size = 8 << 20;
    fs::File::create(&path).unwrap().set_len(size).unwrap();
    assert_eq!(space(&path), 0);
    let overlay = dir.path().join("overlay");
    for (file, writes) in [
        (&path, Writes::Through),
        (&overlay, Writes::Overlay(overlay.clone())),
    ] {
        let mut disk = Disk::open(&path, &writes).unwrap();
        disk.write(0, &vec![1; size as usize]).unwrap();
        disk.flush().unwrap();
        assert!(space(file) >= size);
        disk.zero(0, size - SECTOR).unwrap();
        disk.flush().unwrap();
        assert!(space(file) < 256 << 10, "{}", space(file));
        let mut end = [0; 1024];
        disk.read(size - 1024, &mut end).unwrap();
        assert_eq!((end[0], end[1023]), (0, 1));
        disk.zero(0, size).unwrap();
    }
}

#[test]
fn the_identity_changes_with_the_content() {
    let dir = TempDir::new().unwrap();
    let path = base(&dir);
    let overlay = Writes::Overlay(dir.path().join("overlay"));
    let mut disk = Disk::open(&path, &overlay).unwrap();
    let before = disk.identity().unwrap();
    assert_eq!(disk.identity().unwrap(), before);
    // Files' times have a granularity of some milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(20));
    disk.write(0, &[1; 512]).unwrap();
    disk.flush().unwrap();
    let after = disk.identity().unwrap();
    assert_eq!(after.base, before.base);
    assert_ne!(after.overlay, before.overlay);
    drop(disk);
    let again = Disk::open(&path, &overlay).unwrap();
    assert_eq!(again.identity().unwrap(), after);
}
