use super::super::bench::{Bench, DATA};
use super::*;
use crate::device::Device;
use nagori_disk::Writes;
use proptest::prelude::*;
use std::path::Path;

const SIZE: u64 = 1 << 20;
/// Addresses of the requests' headers and status bytes.
const HEAD: u64 = DATA;
const STATUS: u64 = DATA + 0x100;
const BUFFER: u64 = DATA + 0x1000;

fn bench(disk: Option<Disk>) -> Bench<Block> {
    let mut b = Bench::new(Block::new("root".into(), BlockConfig::default()));
    b.queue_size = 16;
    if let Some(disk) = disk {
        b.host(|d, port| d.connect(disk, port)).unwrap();
    }
    b
}

fn blank() -> Disk {
    Disk::blank(SIZE).unwrap()
}

fn put_header(b: &Bench<Block>, at: u64, kind: u32, sector: u64) {
    let mut h = kind.to_le_bytes().to_vec();
    h.extend([0; 4]);
    h.extend(sector.to_le_bytes());
    b.put(at, &h);
}

/// Sends a request with one buffer and waits for it; returns its status.
fn request(b: &mut Bench<Block>, kind: u32, sector: u64, len: u32) -> u8 {
    put_header(b, HEAD, kind, sector);
    b.put(STATUS, &[0xff]);
    let writable = matches!(kind, kind::IN | kind::GET_ID);
    let mut chain = vec![(HEAD, 16, false)];
    if len > 0 {
        chain.push((BUFFER, len, writable));
    }
    chain.push((STATUS, 1, true));
    b.send(0, 0, &chain);
    b.settle(1);
    b.get(STATUS, 1)[0]
}

fn ranges(b: &Bench<Block>, ranges: &[(u64, u32, u32)]) -> u32 {
    let mut bytes = Vec::new();
    for (sector, sectors, flags) in ranges {
        bytes.extend(sector.to_le_bytes());
        bytes.extend(sectors.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
    }
    b.put(BUFFER, &bytes);
    bytes.len() as u32
}

#[test]
fn data_goes_there_and_back() {
    let mut b = bench(Some(blank()));
    assert!(b.start(0));
    let capacity: Vec<u8> = (0..8).map(|i| b.config(i)).collect();
    assert_eq!(capacity, (SIZE / 512).to_le_bytes());
    b.put(BUFFER, &[7; 1024]);
    assert_eq!(request(&mut b, kind::OUT, 3, 1024), OK);
    assert_eq!((b.used(0), b.take_interrupt()), (vec![(0, 1)], 1));
    b.put(BUFFER, &[0; 1024]);
    assert_eq!(request(&mut b, kind::IN, 2, 1024), OK);
    assert_eq!(b.used(0)[1], (0, 1025));
    assert_eq!(b.get(BUFFER, 1024), [[0; 512], [7; 512]].concat());
    assert_eq!(request(&mut b, kind::FLUSH, 0, 0), OK);
    assert_eq!(request(&mut b, kind::GET_ID, 0, 20), OK);
    assert_eq!(b.get(BUFFER, 5), b"root\0");
    let len = ranges(&b, &[(0, 1, 0), (3, 1, 0)]);
    assert_eq!(request(&mut b, kind::DISCARD, 0, len), OK);
    let len = ranges(&b, &[(4, 1, UNMAP)]);
    assert_eq!(request(&mut b, kind::WRITE_ZEROES, 0, len), OK);
    b.put(BUFFER, &[9; 1024]);
    assert_eq!(request(&mut b, kind::IN, 3, 1024), OK);
    assert_eq!(b.get(BUFFER, 1024), [0; 1024]);
    assert!(b.host(|d, _| d.take_host_error()).is_none());
}

#[test]
fn requests_that_cannot_be_fail_and_harm_nothing() {
    let mut b = bench(Some(blank()));
    assert!(b.start(0));
    let end = SIZE / 512;
    for (kind, sector, len, status) in [
        (kind::IN, end, 512, IO_ERROR),
        (kind::IN, u64::MAX, 512, IO_ERROR),
        (kind::IN, u64::MAX / 512, 512, IO_ERROR),
        (kind::OUT, end - 1, 1024, IO_ERROR),
        (kind::OUT, 0, 100, IO_ERROR),
        (kind::DISCARD, 0, 0, IO_ERROR),
        (kind::DISCARD, 0, 15, IO_ERROR),
        (kind::DISCARD, 0, 17 * 16, IO_ERROR),
        (99, 0, 0, UNSUPPORTED),
    ] {
        assert_eq!(
            request(&mut b, kind, sector, len),
            status,
            "{kind} {sector} {len}"
        );
    }
    for (range, kind, status) in [
        ((end, 1, 0), kind::DISCARD, IO_ERROR),
        ((u64::MAX, 1, 0), kind::DISCARD, IO_ERROR),
        ((0, 1, UNMAP), kind::DISCARD, UNSUPPORTED),
        ((0, 1, 2), kind::WRITE_ZEROES, UNSUPPORTED),
    ] {
        let len = ranges(&b, &[range]);
        assert_eq!(request(&mut b, kind, 0, len), status, "{range:?}");
    }
    assert!(b.host(|d, _| d.take_host_error()).is_none());
    // A missing status byte and a short header are protocol violations.
    for chain in [
        &[(HEAD, 16, false)][..],
        &[(HEAD, 15, false), (STATUS, 1, true)],
    ] {
        assert!(b.start(0));
        b.send(0, 0, chain);
        assert!(b.is_broken());
        b.settle(10);
    }
    // A buffer outside memory breaks it, too, and is noticed when data is moved.
    assert!(b.start(0));
    put_header(&b, HEAD, kind::IN, 0);
    b.send(
        0,
        0,
        &[(HEAD, 16, false), (0x1000, 512, true), (STATUS, 1, true)],
    );
    b.send(
        0,
        4,
        &[(HEAD, 16, false), (BUFFER, 512, true), (STATUS, 1, true)],
    );
    b.settle(1);
    assert!(b.is_broken());
    b.settle(10);
    assert_eq!((b.used(0), b.host(|d, _| d.next_event())), (vec![], None));
}

#[test]
fn time_is_that_of_the_description_one_request_after_the_other() {
    let mut b = bench(Some(blank()));
    assert!(b.start(0));
    let t = BlockConfig::default();
    put_header(&b, HEAD, kind::IN, 0);
    b.send(
        0,
        0,
        &[(HEAD, 16, false), (BUFFER, 512, true), (STATUS, 1, true)],
    );
    b.send(
        0,
        3,
        &[(HEAD, 16, false), (BUFFER, 1024, true), (STATUS, 1, true)],
    );
    assert!(b.used(0).is_empty());
    let first = t.request_ps + 512 * t.byte_ps;
    b.settle(1);
    assert_eq!((b.now, b.used(0).len()), (Ps(first), 1));
    b.settle(1);
    let second = first + t.request_ps + 1024 * t.byte_ps;
    assert_eq!((b.now, b.used(0).len()), (Ps(second), 2));
    let before = b.now;
    request(&mut b, kind::FLUSH, 0, 0);
    assert_eq!(b.now, before + Ps(t.request_ps + t.flush_ps));
}

/// A disk that seeks, with three requests: behind one another, and one at the first sector again.
#[test]
fn a_seek_costs_where_the_head_is_not_and_is_saved() {
    let t = nagori_config::DISK_LATENCIES[1].1.clone();
    assert!(t.seek_ps > 0);
    let start = |load: Option<(&DeviceState, &[u8], Ps)>| {
        let mut b = Bench::new(Block::new("root".into(), t.clone()));
        b.queue_size = 16;
        if let Some((state, memory, now)) = load {
            b.put(super::super::bench::BASE, memory);
            b.now = now;
            b.device.load(state).unwrap();
        } else {
            b.host(|d, port| d.connect(blank(), port)).unwrap();
            assert!(b.start(0));
        }
        b
    };
    let one = t.request_ps + 512 * t.byte_ps;
    let mut b = start(None);
    let mut expected = 0;
    // The head starts at sector 0.
    for (sector, seeks) in [(0, 0), (1, 0), (0, 1), (1, 0), (7, 1)] {
        assert_eq!(request(&mut b, kind::IN, sector, 512), OK);
        expected += one + seeks * t.seek_ps;
        assert_eq!(b.now, Ps(expected), "sector {sector}");
    }
    // A request is under way when the state is saved; the next one goes on where that one ends.
    put_header(&b, HEAD, kind::IN, 100);
    let chain = [(HEAD, 16, false), (BUFFER, 512, true), (STATUS, 1, true)];
    b.send(0, 0, &chain);
    let (state, memory) = (b.device.save(), b.get(super::super::bench::BASE, 1 << 20));
    let now = b.now;
    drop(b);
    let b = start(Some((&state, &memory, now)));
    assert_eq!(b.device.next_event(), Some(Ps(expected + one + t.seek_ps)));
    assert!(b.device.save() == state);
    assert_eq!(state.data["backend"]["data"]["head"], 101);
}

#[test]
fn a_driver_that_resets_is_not_answered_late() {
    let mut b = bench(Some(blank()));
    assert!(b.start(0));
    put_header(&b, HEAD, kind::IN, 0);
    b.send(
        0,
        0,
        &[(HEAD, 16, false), (BUFFER, 512, true), (STATUS, 1, true)],
    );
    assert!(b.start(0));
    b.settle(10);
    assert!(b.used(0).is_empty() && !b.interrupted());
}

#[test]
fn no_more_is_under_way_than_the_queue_holds() {
    let mut b = bench(Some(blank()));
    b.queue_size = 4;
    assert!(b.start(0));
    put_header(&b, HEAD, kind::FLUSH, 0);
    for _ in 0..50 {
        b.send(0, 0, &[(HEAD, 16, false), (STATUS, 1, true)]);
        assert!(b.host(|d, _| d.under_way.len()) <= 4);
    }
    // The driver has made more available than exists, which is noticed when there is room.
    b.settle(1);
    assert!(b.is_broken());
}

#[test]
fn without_a_medium_there_are_errors() {
    let mut b = bench(None);
    assert!(b.start(0));
    assert_eq!((0..8).map(|i| b.config(i)).max(), Some(0));
    assert_eq!(request(&mut b, kind::IN, 0, 512), IO_ERROR);
    assert_eq!(request(&mut b, kind::FLUSH, 0, 0), IO_ERROR);
    b.take_interrupt();
    b.host(|d, port| d.connect(blank(), port)).unwrap();
    assert_eq!(b.take_interrupt(), 2, "the driver is told");
    assert_eq!(request(&mut b, kind::IN, 0, 512), OK);
}

fn file(dir: &Path, name: &str) -> std::path::PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, vec![5; SIZE as usize]).unwrap();
    path
}

#[test]
fn a_disk_that_is_only_read_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "disk");
    let mut b = bench(Some(Disk::open(&path, &Writes::Refused).unwrap()));
    assert!(b.start(0));
    assert_eq!(
        b.host(|d, _| d.features()) & (feature::RO | feature::DISCARD),
        feature::RO
    );
    assert_eq!(request(&mut b, kind::OUT, 0, 512), IO_ERROR);
    assert_eq!(request(&mut b, kind::IN, 0, 512), OK);
    assert_eq!(b.get(BUFFER, 512), [5; 512]);
}

#[test]
fn the_hosts_errors_are_the_guests_and_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "disk");
    let mut b = bench(Some(Disk::open(&path, &Writes::Refused).unwrap()));
    assert!(b.start(0));
    // The file is truncated by somebody else.
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(0)
        .unwrap();
    for _ in 0..3 {
        assert_eq!(request(&mut b, kind::IN, 0, 512), IO_ERROR);
    }
    let (text, count) = b.host(|d, _| d.take_host_error()).unwrap();
    assert!(text.starts_with("disk `root`: "), "{text}");
    assert!(text.contains("cannot read"), "{text}");
    assert_eq!(count, 3);
    assert!(b.host(|d, _| d.take_host_error()).is_none());
}

#[test]
fn a_loaded_device_goes_on_with_what_was_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "disk");
    for temporary in [true, false] {
        let writes = if temporary {
            Writes::Temporary
        } else {
            Writes::Overlay(dir.path().join("overlay"))
        };
        let open = || Disk::open(&path, &writes).unwrap();
        let mut a = bench(Some(open()));
        assert!(a.start(0));
        a.put(BUFFER, &[8; 512]);
        assert_eq!(request(&mut a, kind::OUT, 0, 512), OK);
        let len = ranges(&a, &[(32, 32, 0)]);
        assert_eq!(request(&mut a, kind::DISCARD, 0, len), OK);
        // Two are in progress.
        a.put(BUFFER, &[9; 512]);
        put_header(&a, HEAD, kind::OUT, 1);
        put_header(&a, HEAD + 32, kind::IN, 0);
        a.send(
            0,
            0,
            &[(HEAD, 16, false), (BUFFER, 512, false), (STATUS, 1, true)],
        );
        a.send(
            0,
            3,
            &[
                (HEAD + 32, 16, false),
                (BUFFER + 512, 1024, true),
                (STATUS, 1, true),
            ],
        );
        let state = a.device.save();
        assert!(a.device.save() == state, "saving changes nothing");
        let memory = a.get(super::super::bench::BASE, 1 << 20);
        let now = a.now;
        drop(a);

        let mut b = bench(None);
        b.put(super::super::bench::BASE, &memory);
        b.now = now;
        b.device.load(&state).unwrap();
        assert!(b.host(|d, _| d.expected().is_some()));
        assert!(b.device.save() == state, "nothing is connected yet");
        // A different disk is refused.
        let e = b.host(|d, port| d.connect(blank(), port)).unwrap_err();
        assert!(matches!(e, MediumError::Changed(_)), "{e}");
        b.host(|d, port| d.connect(open(), port)).unwrap();
        assert!(b.device.save() == state);
        b.settle(10);
        assert_eq!(b.used(0).len(), 4);
        assert_eq!(b.get(BUFFER + 512, 1024), [[8; 512], [9; 512]].concat());
        let mut discarded = [1; 512];
        let read = b.host(|d, _| d.disk().unwrap().read(32 * 512, &mut discarded));
        assert!(read.is_ok() && discarded == [0; 512]);
    }
}

#[test]
fn broken_states_are_refused() {
    let b = bench(None);
    let good = b.host_state();
    let bad = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut state = good.clone();
        change(&mut state.data);
        bench(None).device_load(&state).unwrap_err().to_string()
    };
    let request = |due: u64, len: u32| {
        serde_json::json!({"due": due, "chain": {"head": 0, "buffers": [
            {"addr": 0, "len": len, "writable": false}, {"addr": 0, "len": 1, "writable": true}]}})
    };
    for requests in [
        vec![request(5, 15)],
        vec![request(0, 16)],
        vec![request(5, 16), request(5, 16)],
        (1..400).map(|n| request(n, 16)).collect(),
    ] {
        let e = bad(&|d| d["under_way"] = requests.clone().into());
        assert!(e.contains("under way"), "{e}");
    }
}

impl Bench<Block> {
    fn host_state(&self) -> DeviceState {
        self.device.backend().save()
    }

    fn device_load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        self.host(|d, _| d.load(state))
    }
}

proptest! {
    /// Drivers that know the form of requests, and sometimes violate it.
    #[test]
    fn hostile_requests_never_panic(
        chains in prop::collection::vec((
            prop::sample::select(vec![0u32, 1, 4, 8, 11, 13, 77]),
            prop_oneof![0..SIZE / 512 + 2, any::<u64>()],
            prop::collection::vec((0u64..SIZE + 0x1000, prop_oneof![0u32..2000, any::<u32>()], any::<bool>()), 0..4),
            any::<bool>(),
        ), 1..12),
    ) {
        let mut b = bench(Some(blank()));
        prop_assert!(b.start(0));
        for (kind, sector, buffers, settle) in chains {
            put_header(&b, HEAD, kind, sector);
            let mut chain = vec![(HEAD, 16, false)];
            let mut buffers: Vec<_> = buffers
                .into_iter()
                .map(|(at, len, writable)| (super::super::bench::BASE + at, len, writable))
                .collect();
            buffers.sort_by_key(|b| b.2);
            chain.extend(buffers);
            chain.push((STATUS, 1, true));
            b.send(0, 0, &chain);
            if settle {
                b.settle(20);
            }
            if b.is_broken() {
                prop_assert!(b.start(0));
            }
        }
        b.settle(20);
        prop_assert!(b.host(|d, _| d.next_event()).is_none());
    }
}
