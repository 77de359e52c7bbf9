use super::*;
use crate::device::Device;
use crate::devices::virtio::bench::{Bench, DATA};
use nagori_ninep::message::number::open;
use nagori_ninep::wire::{Bytes, Names, Text};
use nagori_ninep::{Reply, Request};
use std::fs;
use std::path::Path;
use tempfile::tempdir;

const COST: ShareConfig = ShareConfig {
    request_ps: 1000,
    byte_ps: 3,
};
const REPLY: u64 = DATA + 0x8000;

fn bench() -> Bench<Share> {
    let mut b = Bench::new(Share::new("data".into(), COST));
    assert!(b.start(0));
    b
}

fn connect(b: &mut Bench<Share>, path: &Path, writable: bool) -> Vec<String> {
    let folder = Folder::open(path, writable).unwrap();
    b.host(|share, _| share.connect(folder)).unwrap()
}

fn put(b: &Bench<Share>, at: u64, request: &Request<'_>) -> u32 {
    let mut bytes = Vec::new();
    request.encode(3, &mut bytes);
    b.put(at, &bytes);
    bytes.len() as u32
}

/// Length of the reply to a request, returned at its time.
fn call(b: &mut Bench<Share>, request: Request<'_>) -> Vec<u8> {
    let len = put(b, DATA, &request);
    let before = (b.now, b.used(0).len());
    b.send(
        0,
        0,
        &[
            (DATA, 5, false),
            (DATA + 5, len - 5, false),
            (REPLY, 9, true),
            (REPLY + 9, 8000, true),
        ],
    );
    assert_eq!(b.used(0).len(), before.1, "not at once");
    b.settle(1);
    let written = b.used(0).last().unwrap().1;
    let time = 1000 + 3 * u64::from(len + written);
    assert_eq!(b.now.0 - before.0 .0, time);
    b.get(REPLY, written as usize)
}

fn reply(bytes: &[u8]) -> Reply<'_> {
    let (tag, reply) = Reply::decode(bytes).unwrap();
    assert_eq!(tag, 3);
    reply
}

fn mount(b: &mut Bench<Share>) -> Vec<u8> {
    let (msize, version) = (8192, Text(b"9P2000.L"));
    call(b, Request::Version { msize, version });
    let (fid, afid, n_uname, uname, aname) = (0, !0, 0, Text(b""), Text(b""));
    let attach = Request::Attach {
        fid,
        afid,
        uname,
        aname,
        n_uname,
    };
    call(b, attach)
}

fn error(bytes: &[u8]) -> u32 {
    match reply(bytes) {
        Reply::Error { code } => code,
        other => panic!("{other:?}"),
    }
}

fn walk_open(b: &mut Bench<Share>, fid: u32, name: &str, flags: u32) {
    let names = Names(vec![Text(name.as_bytes())]);
    call(
        b,
        Request::Walk {
            fid: 0,
            newfid: fid,
            names,
        },
    );
    let opened = call(b, Request::Lopen { fid, flags });
    assert!(matches!(reply(&opened), Reply::Lopen { .. }));
}

fn read(b: &mut Bench<Share>, fid: u32) -> Vec<u8> {
    let bytes = call(
        b,
        Request::Read {
            fid,
            offset: 0,
            count: 100,
        },
    );
    match reply(&bytes) {
        Reply::Read { data } => data.0.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_slots_name_is_the_tag() {
    let mut b = bench();
    let tag: Vec<u8> = (0..8).map(|i| b.config(i)).collect();
    assert_eq!(tag, b"\x04\0data\0\0");
}

#[test]
fn files_go_both_ways() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("f"), b"from the host").unwrap();
    let mut b = bench();
    assert_eq!(error(&mount(&mut b)), 19, "no folder yet");
    assert!(!b.host(|s, _| s.connected()));
    connect(&mut b, dir.path(), true);
    assert!(matches!(reply(&mount(&mut b)), Reply::Attach { .. }));
    walk_open(&mut b, 1, "f", open::READ_WRITE);
    assert_eq!(read(&mut b, 1), b"from the host");
    let data = Bytes(b"guest");
    call(
        &mut b,
        Request::Write {
            fid: 1,
            offset: 0,
            data,
        },
    );
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"guestthe host");
    assert!(b.take_interrupt() == 1 && !b.interrupted());
}

#[test]
fn requests_wait_for_those_before_them() {
    let dir = tempdir().unwrap();
    let mut b = bench();
    connect(&mut b, dir.path(), false);
    mount(&mut b);
    let done = b.used(0).len();
    let start = b.now;
    let len = put(&b, DATA, &Request::Statfs { fid: 0 });
    for first in [0, 2, 4] {
        let at = REPLY + 0x1000 * u64::from(first);
        b.send(0, first, &[(DATA, len, false), (at, 100, true)]);
    }
    let times: Vec<u64> = (0..3)
        .map(|i| {
            b.settle(1);
            assert_eq!(b.used(0).len(), done + i + 1);
            b.now.0 - start.0
        })
        .collect();
    let each = 1000 + 3 * (u64::from(len) + 67);
    assert_eq!(times, [each, 2 * each, 3 * each]);
    assert_eq!(b.device.next_event(), None);
}

#[test]
fn what_was_open_is_open_after_a_restore_or_stale() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("f"), b"kept").unwrap();
    fs::write(dir.path().join("g"), b"lost").unwrap();
    let mut b = bench();
    connect(&mut b, dir.path(), false);
    mount(&mut b);
    walk_open(&mut b, 1, "f", 0);
    walk_open(&mut b, 2, "g", 0);
    // Saved while a request is in progress.
    let len = put(&b, DATA, &Request::Getattr { fid: 1, mask: 1 });
    b.send(0, 0, &[(DATA, len, false), (REPLY, 200, true)]);
    let state = b.device.save();
    fs::remove_file(dir.path().join("g")).unwrap();

    // The memory stays, but the device is another one.
    b.device = super::super::VirtioMmio::new(Share::new("data".into(), COST));
    b.device.load(&state).unwrap();
    assert_eq!(b.device.save(), state);
    let before = b.used(0).len();
    b.settle(1);
    assert_eq!(b.used(0).len(), before + 1, "the reply comes");
    let stale = call(
        &mut b,
        Request::Read {
            fid: 1,
            offset: 0,
            count: 9,
        },
    );
    assert_eq!(error(&stale), 116, "not connected");
    assert_eq!(connect(&mut b, dir.path(), false), ["g"]);
    assert_eq!(read(&mut b, 1), b"kept");
    let stale = call(
        &mut b,
        Request::Read {
            fid: 2,
            offset: 0,
            count: 9,
        },
    );
    assert_eq!(error(&stale), 116);

    // A reset ends the session, but the folder stays.
    assert!(b.start(0));
    let stale = call(&mut b, Request::Clunk { fid: 1 });
    assert_eq!(error(&stale), 71, "no session");
    assert!(matches!(reply(&mount(&mut b)), Reply::Attach { .. }));

    let mut bad = state.clone();
    bad.data["backend"]["data"]["server"]["msize"] = 1.into();
    assert!(matches!(
        b.device.load(&bad),
        Err(StateError::Content { .. })
    ));
}

#[test]
fn chains_that_are_no_requests_break_the_device_not_the_host() {
    let dir = tempdir().unwrap();
    let ok: &[(u64, u32, bool)] = &[(DATA, 11, false), (REPLY, 11, true)];
    for chain in [
        &[(DATA, 6, false), (REPLY, 100, true)][..],
        &[(DATA, 100, false)],
        &[(REPLY, 100, true)],
        &[(DATA, 11, false), (REPLY, 10, true)],
        &[(1, 11, false), (REPLY, 11, true)],
        &[(DATA, 11, false), (1, 11, true)],
        // A reply for which there is less room than for an error.
        &[(DATA, 300, false), (REPLY, 20, true)],
        ok,
    ] {
        let mut b = bench();
        connect(&mut b, dir.path(), false);
        let len = put(&b, DATA, &Request::Clunk { fid: 9 });
        assert_eq!(len, 11);
        if chain[0].1 == 300 {
            let (msize, version) = (8192, Text(b"9P2000.L"));
            put(&b, DATA, &Request::Version { msize, version });
        }
        b.send(0, 0, chain);
        b.settle(3);
        assert_eq!(b.is_broken(), chain != ok, "{chain:?}");
        assert!(b.start(0), "a reset helps");
    }
    // Wrong sizes are answered with errors.
    let mut b = bench();
    connect(&mut b, dir.path(), false);
    mount(&mut b);
    for (said, errno) in [
        (0u32, 71),
        (6, 71),
        (12, 71),
        (8000, 71),
        (9000, 90),
        (u32::MAX, 90),
    ] {
        put(&b, DATA, &Request::Clunk { fid: 9 });
        b.put(DATA, &said.to_le_bytes());
        b.send(0, 0, &[(DATA, 30_000, false), (REPLY, 11, true)]);
        b.settle(1);
        let bytes = b.get(REPLY, 11);
        assert_eq!(error(&bytes), errno, "{said}");
    }
}
