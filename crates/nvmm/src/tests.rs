use super::*;
use nagori_ram::{GuestRam, Sharing};
use proptest::prelude::*;

fn geometry(len: u64) -> Geometry {
    Geometry {
        base: 0xc000_0000,
        len,
        machine: "test".into(),
    }
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn line(v: u64) -> Words {
    [v; 8]
}

#[test]
fn a_new_image_is_sparse_and_fits_its_machine_only() {
    let d = dir();
    let path = d.path().join("a.nvmm");
    let g = geometry(3 << 30);
    let image = Image::create(&path, &g).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert!(path.metadata().unwrap().blocks() * 512 < 1 << 20);
    assert!(path.metadata().unwrap().len() >= 3 << 30);
    image.check(&g).unwrap();
    for other in [
        geometry(2 << 30),
        Geometry {
            base: 0x8000_0000,
            ..g.clone()
        },
    ] {
        let e = image.check(&other).unwrap_err().to_string();
        assert!(e.contains("3072 MiB at 0xc0000000"), "{e}");
    }
    drop(image);
    assert!(Image::create(&path, &g).is_err(), "it exists");
    let image = Image::open(&path, Access::Read).unwrap();
    assert_eq!(image.header().geometry, g);
    assert_eq!((image.generation(), image.domain()), (0, None));
}

#[test]
fn one_machine_writes() {
    let d = dir();
    let path = d.path().join("a.nvmm");
    let image = Image::create(&path, &geometry(1 << 20)).unwrap();
    for access in [Access::Read, Access::Write] {
        let e = Image::open(&path, access);
        assert!(matches!(e, Err(Error::Locked { .. })), "{e:?}");
    }
    image.close().unwrap();
    let _one = Image::open(&path, Access::Read).unwrap();
    let _two = Image::open(&path, Access::Read).unwrap();
    assert!(matches!(
        Image::open(&path, Access::Write),
        Err(Error::Locked { .. })
    ));
}

/// As a child process does between fork and exec.
#[test]
fn a_descriptor_elsewhere_does_not_keep_the_lock() {
    let d = dir();
    let path = d.path().join("a.nvmm");
    let image = Image::create(&path, &geometry(1 << 20)).unwrap();
    let _elsewhere = image.file.try_clone().unwrap();
    // A second look at the same file does not give the lock up.
    drop(image.look().unwrap());
    assert!(matches!(
        Image::open(&path, Access::Read),
        Err(Error::Locked { .. })
    ));
    drop(image);
    Image::open(&path, Access::Write).unwrap();
}

#[test]
fn what_was_not_durable_is_undone() {
    let d = dir();
    let path = d.path().join("a.nvmm");
    let mut image = Image::create(&path, &geometry(1 << 20)).unwrap();
    let mut undo = image.begin(Domain::Adr).unwrap();
    let ram = GuestRam::new(2 << 20).unwrap();
    let (file, at) = image.content();
    ram.back(1 << 20, 1 << 20, (file, at), Sharing::Shared)
        .unwrap();
    let store =
        |l: u64, v: u64| (0..8).for_each(|i| ram.write_u64((1 << 20) + l + 8 * i, v).unwrap());
    store(0, 1);
    // A line is newer than what is durable, becomes durable, and is newer again.
    undo.set(0, Some(&line(1))).unwrap();
    store(0, 2);
    undo.set(0, None).unwrap();
    undo.set(0, Some(&line(2))).unwrap();
    store(0, 3);
    undo.set(128, Some(&line(0))).unwrap();
    store(128, 4);
    store(192, 5);
    assert_eq!(undo.lines(), 2);
    // The process ends: nothing is closed.
    drop((undo, image, ram));
    let image = Image::open(&path, Access::Read).unwrap();
    assert!(image.was_left_open());
    assert_eq!(image.patches().count(), 2);
    let mut bytes = [0; 256];
    image.read(0, &mut bytes).unwrap();
    let at = |b: &[u8], i: usize| u64::from_le_bytes(b[i..i + 8].try_into().unwrap());
    let values = |b: &[u8]| [0, 64, 128, 192].map(|i| (at(b, i), at(b, i + 56)));
    let right = [(2, 2), (0, 0), (0, 0), (5, 5)];
    assert_eq!(values(&bytes), right);
    // From the middle of a line to that of the next.
    let mut part = [0; 64];
    image.read(40, &mut part).unwrap();
    assert_eq!((at(&part, 0), at(&part, 24)), (2, 0));
    drop(image);
    let image = Image::open(&path, Access::Write).unwrap();
    assert_eq!(image.patches().count(), 0);
    image.read(0, &mut bytes).unwrap();
    assert_eq!(values(&bytes), right);
    assert_eq!(path.metadata().unwrap().len(), image.header().undo_at());
    image.close().unwrap();
    let image = Image::open(&path, Access::Read).unwrap();
    assert!(!image.was_left_open());
    let found = image.verify().unwrap();
    assert!(found.summed && found.wrong.is_empty(), "{found:?}");
}

#[test]
fn energy_suffices_for_the_first_lines() {
    let d = dir();
    let path = d.path().join("a.nvmm");
    let mut image = Image::create(&path, &geometry(1 << 20)).unwrap();
    let mut undo = image.begin(Domain::Gpf { lines: 2 }).unwrap();
    for (i, l) in [640u64, 64, 128, 0].into_iter().enumerate() {
        undo.set(l, Some(&line(i as u64))).unwrap();
    }
    drop((undo, image));
    let image = Image::open(&path, Access::Read).unwrap();
    let lines: Vec<u64> = image.patches().map(|p| p.0).collect();
    assert_eq!(lines, [128, 640]);
    assert_eq!(image.domain(), Some(Domain::Gpf { lines: 2 }));
}

#[test]
fn damage_is_found() {
    let d = dir();
    let path = d.path().join("a.nvmm");
    let mut image = Image::create(&path, &geometry(4 << 20)).unwrap();
    let mut undo = image.begin(Domain::Adr).unwrap();
    let (file, at) = image.content();
    file.write_all_at(&[3; 100], at + (2 << 20) + 5).unwrap();
    undo.set(64, Some(&line(7))).unwrap();
    let (h, slot) = (image.header().clone(), image.header().undo_at());
    drop(undo);
    drop(image);
    let whole = std::fs::read(&path).unwrap();
    let change = |at: u64, to: u8| {
        let mut bytes = whole.clone();
        bytes[at as usize] = to;
        std::fs::write(&path, bytes).unwrap();
        Image::open(&path, Access::Read)
    };
    assert!(matches!(change(0, 0), Err(Error::NoImage { .. })));
    assert!(matches!(change(8, 9), Err(Error::NoImage { .. })));
    for at in [40, 130, 4090] {
        assert!(
            matches!(change(at, 0xee), Err(Error::Damaged { .. })),
            "{at}"
        );
    }
    assert!(matches!(
        change(slot + 70, 0xee),
        Err(Error::Damaged { .. })
    ));
    std::fs::write(&path, &whole[..h.undo_at() as usize - 1]).unwrap();
    assert!(matches!(
        Image::open(&path, Access::Read),
        Err(Error::Damaged { .. })
    ));
    std::fs::write(&path, &whole).unwrap();
    Image::open(&path, Access::Write).unwrap().close().unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[4], h.data_at() + (2 << 20) + 5)
        .unwrap();
    let found = Image::open(&path, Access::Read).unwrap().verify().unwrap();
    // No machine had it since, so there are sums.
    assert!(found.summed);
    assert_eq!(found.wrong, [2 << 20]);
}

#[test]
fn bytes_come_back_from_an_export_and_a_clone() {
    let d = dir();
    let at = |name: &str| d.path().join(name);
    let raw: Vec<u8> = (0..3_000_000u32)
        .map(|i| if i / 100_000 % 3 == 0 { 0 } else { i as u8 })
        .collect();
    std::fs::write(at("raw"), &raw).unwrap();
    let g = geometry(4 << 20);
    Image::import(&at("a"), &g, &at("raw")).unwrap();
    let a = Image::open(&at("a"), Access::Read).unwrap();
    a.export(&at("back")).unwrap();
    let mut back = std::fs::read(at("back")).unwrap();
    assert_eq!(back.len(), 4 << 20);
    assert!(back.split_off(raw.len()).iter().all(|b| *b == 0));
    assert_eq!(back, raw);
    assert!(a.export(&at("back")).is_err(), "it exists");
    let mut out = Vec::new();
    a.write_to(&mut out).unwrap();
    assert_eq!(out[..raw.len()], raw);
    let copy = a.duplicate(&at("b")).unwrap();
    assert_ne!(copy.header().id, a.header().id);
    assert_eq!(a.compare(&copy).unwrap(), []);
    let (file, data) = copy.content();
    file.write_all_at(&[1, 2, 3], data + 63).unwrap();
    file.write_all_at(&[1], data + (3 << 20)).unwrap();
    let found = a.compare(&copy).unwrap();
    let two = [(0, 128), (3 << 20, 64)].map(|(at, len)| Difference { at, len });
    assert_eq!(found, two);
    let small = geometry(1 << 20);
    assert!(Image::import(&at("c"), &small, &at("raw")).is_err());
    assert!(!at("c").exists());
}

#[test]
fn an_overlay_belongs_to_a_state_of_its_base() {
    let d = dir();
    let (base, over) = (d.path().join("base"), d.path().join("over"));
    Image::create(&base, &geometry(1 << 20)).unwrap();
    drop(Image::overlay(&base, &over).unwrap());
    drop(Image::overlay(&base, &over).unwrap());
    let mut image = Image::open(&base, Access::Write).unwrap();
    image.begin(Domain::Adr).unwrap();
    drop(image);
    let e = Image::overlay(&base, &over).unwrap_err().to_string();
    assert!(e.contains("has written to that image since"), "{e}");
}

/// What a sequence of changes leaves, if the process ends behind any of them.
#[derive(Debug, Clone)]
enum Change {
    Set(u64, Option<u64>),
    All(Vec<(u64, Option<u64>)>),
    Clear,
}

fn change() -> impl Strategy<Value = Change> {
    let one = (0..6u64, proptest::option::of(any::<u64>()));
    prop_oneof![
        4 => one.clone().prop_map(|(l, v)| Change::Set(l * 64, v)),
        2 => proptest::collection::btree_map(0..6u64, proptest::option::of(any::<u64>()), 0..4)
            .prop_map(|m| Change::All(m.into_iter().map(|(l, v)| (l * 64, v)).collect())),
        1 => Just(Change::Clear),
    ]
}

proptest! {
    #[test]
    fn the_undo_area_holds_what_was_set_last(changes in proptest::collection::vec(change(), 1..40)) {
        let d = dir();
        let path = d.path().join("a");
        let mut image = Image::create(&path, &geometry(1 << 20)).unwrap();
        let mut undo = image.begin(Domain::Adr).unwrap();
        let mut model: BTreeMap<u64, Words> = BTreeMap::new();
        let mut last = 0;
        for c in changes {
            let mut apply = |l: u64, v: Option<u64>| {
                match v {
                    Some(v) => model.insert(l, line(v)),
                    None => model.remove(&l),
                };
            };
            match c {
                Change::Set(l, v) => {
                    undo.set(l, v.map(line).as_ref()).unwrap();
                    apply(l, v);
                    if let Some(n) = undo.number_of(l) {
                        prop_assert!(v.is_none() || n > last);
                        last = last.max(n);
                    }
                }
                Change::All(all) => {
                    let words: Vec<_> = all.iter().map(|(l, v)| (*l, v.map(line))).collect();
                    undo.set_all(&words).unwrap();
                    all.into_iter().for_each(|(l, v)| apply(l, v));
                }
                Change::Clear => {
                    undo.clear();
                    model.clear();
                }
            }
            let words = image.words().unwrap();
            let found = undo::read(&image.file, &image.header, words.get(state::EPOCH)).unwrap().unwrap();
            prop_assert_eq!(&found, &model);
        }
    }

    #[test]
    fn no_header_panics(at in 0..8192usize, to in any::<u8>(), len in 0..9000usize) {
        let d = dir();
        let path = d.path().join("a");
        drop(Image::create(&path, &geometry(1 << 20)).unwrap());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at] ^= to;
        if len < 8500 {
            bytes.truncate(len);
        }
        std::fs::write(&path, bytes).unwrap();
        if let Ok(image) = Image::open(&path, Access::Read) {
            let _ = image.verify();
        }
    }
}
