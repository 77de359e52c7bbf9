//! The trace of a real program in `traces/`.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use nagori_memtime::request::Kind;
use nagori_memtrace::error::{Error, Place};
use nagori_memtrace::format::Format;
use nagori_memtrace::input::{self, Options, Reader};
use nagori_memtrace::{Record, Source, Times};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/bzip2.dramsim3.zst")
}

fn count(r: &mut Reader) -> (u64, Result<(), Error>) {
    let mut n = 0;
    loop {
        match r.next() {
            Ok(Some(_)) => n += 1,
            Ok(None) => return (n, Ok(())),
            Err(e) => return (n, Err(e)),
        }
    }
}

#[test]
fn it_is_read_whole() {
    let mut r = input::open(&path(), Options::default()).unwrap();
    assert_eq!((r.format(), r.times()), (Format::Dramsim3, Times::Cycles));
    let mut all = Vec::new();
    while let Some(record) = r.next().unwrap() {
        all.push(record);
    }
    assert_eq!(all.len(), 400_000);
    let record = |addr, kind, time| Record {
        addr,
        kind,
        bytes: 64,
        time,
    };
    assert_eq!(all[0], record(0xe00, Kind::Read, 1));
    assert_eq!(all[399_999], record(0x26_78c0, Kind::Write, 30_742_449));
    let writes = all.iter().filter(|r| r.kind == Kind::Write).count();
    assert_eq!(writes, 158_085);
    assert!(all.windows(2).all(|w| w[0].time <= w[1].time));
    assert!(all.iter().all(|r| r.addr % 64 == 0));
    // All of the file has been read, its end included.
    assert_eq!(r.position().bytes(), path().metadata().unwrap().len());
    assert_eq!(r.place(), Place::Line(400_000));
}

#[test]
fn cut_copies_are_truncated_wherever_they_end() {
    let mut whole = Vec::new();
    File::open(path()).unwrap().read_to_end(&mut whole).unwrap();
    for cut in [
        whole.len() - 1,
        whole.len() - 5,
        whole.len() * 3 / 4,
        whole.len() / 2,
        1000,
        20,
        5,
    ] {
        let data = Cursor::new(whole[..cut].to_vec());
        let (n, e) = match Reader::new("cut".into(), data, Options::default()) {
            Ok(mut r) => count(&mut r),
            Err(e) => (0, Err(e)),
        };
        let e = e.expect_err("a cut file ends as if it were whole");
        // Before the format is known, only the beginning has a place.
        let Error::Truncated { place, .. } = &e else {
            panic!("{cut}: {e}");
        };
        assert!(
            [Place::Line(n), Place::Record(n)].contains(place),
            "{cut}: {n} records, {e}"
        );
        assert!(n < 400_000 || cut > whole.len() - 10, "{cut}: {n}");
    }
}

#[test]
fn damaged_copies_are_told() {
    let mut whole = Vec::new();
    File::open(path()).unwrap().read_to_end(&mut whole).unwrap();
    // The middle, and the checksum at the end.
    for at in [whole.len() / 2, whole.len() - 2] {
        let mut bad = whole.clone();
        bad[at] ^= 0x55;
        let mut r = Reader::new("bad".into(), Cursor::new(bad), Options::default()).unwrap();
        let (_, e) = count(&mut r);
        let e = e.expect_err("damage that nobody tells");
        assert!(
            matches!(
                e,
                Error::Damaged { .. } | Error::Malformed { .. } | Error::Truncated { .. }
            ),
            "{at}: {e}"
        );
    }
}
