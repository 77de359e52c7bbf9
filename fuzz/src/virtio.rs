//! Virtio devices under drivers that keep no rule, and files that claim to be overlays.

use nagori_config::{BlockConfig, ShareConfig};
use nagori_disk::{Disk, Writes};
use nagori_platform::clock::Ps;
use nagori_platform::devices::virtio::bench::{entry, Bench, BASE, DATA};
use nagori_platform::devices::virtio::{Block, Entropy, Net, PortConsole, Share, VirtioBackend};
use std::io::Write;

/// Bytes of a step: what, where, and two numbers.
const STEP: usize = 12;
const DISK: u64 = 256 << 10;

/// A driver's life: the first byte names the device and the features it does without, then
/// each step writes to a ring, a descriptor, memory, a register, or lets time pass.
pub fn virtqueue(data: &[u8]) {
    let Some((&head, script)) = data.split_first() else {
        return;
    };
    let time = BlockConfig::default();
    match head % 7 {
        0 => live(Entropy::new(1), head, script),
        1 => live(Block::new("block0".into(), time), head, script),
        2 => live(Net::new("net0".into(), 1), head, script),
        3 => live(
            Share::new("share0".into(), ShareConfig::default()),
            head,
            script,
        ),
        4 => live(PortConsole::new("console0".into()), head, script),
        _ => {
            let mut b = Bench::new(Block::new("block0".into(), time));
            let disk = Disk::blank(DISK).expect("a temporary file");
            b.host(|d, port| d.connect(disk, port))
                .expect("nothing else was expected");
            run(&mut b, head, script);
        }
    }
}

fn live<B: VirtioBackend>(backend: B, head: u8, script: &[u8]) {
    run(&mut Bench::new(backend), head, script);
}

fn run<B: VirtioBackend>(b: &mut Bench<B>, head: u8, script: &[u8]) {
    let without = if head & 0x80 != 0 { 1 << 28 } else { 0 };
    b.queue_size = 8;
    assert!(b.start(without), "the device offers what it does not take");
    let queues = b.host(|d, _| d.queues());
    for s in script.chunks_exact(STEP).take(64) {
        let queue = usize::from(s[1]) % queues;
        let n = u64::from_le_bytes([s[2], s[3], s[4], s[5], 0, 0, 0, 0]);
        let m = u32::from_le_bytes([s[6], s[7], s[8], s[9]]);
        let (x, y) = (s[10], s[11]);
        // Mostly in memory, now and then anywhere.
        let addr = if x & 0x80 != 0 {
            n
        } else {
            BASE + n % (1 << 18)
        };
        match s[0] % 10 {
            0 => b.descriptor(
                queue,
                u64::from(y % 16),
                (addr, m, u16::from(x & 7), u16::from(x >> 3 & 15)),
            ),
            1 => b.descriptor(
                queue,
                u64::from(y % 16),
                (addr, m % 3000, u16::from(x & 3), u16::from(x >> 3 & 7)),
            ),
            2 => b.put(
                addr,
                &entry((
                    DATA + u64::from(m % 5000),
                    u32::from(y),
                    u16::from(x & 7),
                    u16::from(s[1]),
                )),
            ),
            3 => b.put(addr, &s[2..]),
            4 => {
                b.offer(queue, u16::from(y % 10));
                b.notify(queue);
            }
            5 => {
                // A request of a disk: header, data, status.
                let mut h = u32::from(y % 16).to_le_bytes().to_vec();
                h.extend([0; 4]);
                h.extend(u64::from(m % 1024).to_le_bytes());
                b.put(DATA, &h);
                let len = 512 * u32::from(x % 8);
                b.send(
                    queue,
                    0,
                    &[
                        (DATA, 16, false),
                        (addr, len, y & 1 == 0),
                        (DATA + 64, 1, true),
                    ],
                );
            }
            6 => b.settle(usize::from(y)),
            7 => b.w(u64::from(s[1]) * 4 % 0x200, m),
            8 => {
                b.now = Ps(b.now.0.saturating_add(n));
                b.poll();
            }
            _ => {
                let state = b.host(|d, _| d.save());
                b.host(|d, _| d.load(&state)).expect("its own state");
                if y & 1 == 0 {
                    b.start(without);
                }
            }
        }
    }
    b.settle(64);
    assert!(b.start(without), "a reset makes the device whole");
}

/// What drivers do: a chain for each device, then disk requests.
pub(crate) fn virtqueue_seeds() -> Vec<Vec<u8>> {
    let step = |what: u8, queue: u8, n: u32, m: u32, x: u8, y: u8| {
        let mut s = vec![what, queue];
        s.extend(n.to_le_bytes());
        s.extend(m.to_le_bytes());
        s.extend([x, y]);
        s
    };
    (0u8..7)
        .map(|device| {
            let mut s = vec![device];
            for queue in 0..2 {
                s.extend(step(1, queue, 0x1_0000, 64, 1 | 1 << 3, 0));
                s.extend(step(1, queue, 0x1_1000, 512, 2, 1));
                s.extend(step(4, queue, 0, 0, 0, 0));
                // An indirect table of one buffer.
                s.extend(step(2, queue, 0x1_2000, 0, 2, 16));
                s.extend(step(0, queue, 0x1_2000, 16, 4, 2));
                s.extend(step(4, queue, 0, 0, 0, 2));
            }
            for kind in [0, 1, 4, 8, 11, 13] {
                s.extend(step(5, 0, 0x1_1000, 3, 1, kind));
                s.extend(step(6, 0, 0, 0, 0, 4));
            }
            s.extend(step(9, 0, 0, 0, 0, 1));
            s
        })
        .collect()
}

const BASE_BYTES: usize = 100 << 10;

/// A base file with a fixed time, so that an overlay fits it in every run.
fn base() -> tempfile::NamedTempFile {
    let mut base = tempfile::NamedTempFile::new().expect("a temporary file");
    base.write_all(&[7; BASE_BYTES]).expect("room");
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    base.as_file().set_modified(time).expect("a file of ours");
    base
}

/// An overlay file: it is refused, or the disk works.
pub fn disk_overlay(data: &[u8]) {
    let base = base();
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(data).expect("room");
    let writes = Writes::Overlay(file.path().into());
    let Ok(mut disk) = Disk::open(base.path(), &writes) else {
        return;
    };
    let mut before = vec![0; BASE_BYTES];
    disk.read(0, &mut before).expect("it was opened");
    disk.write(20_000, &[9; 3000]).expect("it was opened");
    disk.zero(40_000, 20_000).expect("it was opened");
    drop(disk);
    before[20_000..23_000].fill(9);
    before[40_000..60_000].fill(0);
    let disk = Disk::open(base.path(), &writes).expect("what was just written");
    let mut after = vec![0; BASE_BYTES];
    disk.read(0, &mut after).expect("it was opened");
    assert!(before == after, "the overlay lost something");
}

/// An overlay with clusters of every kind.
pub(crate) fn overlay_seed() -> Vec<u8> {
    let base = base();
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let writes = Writes::Overlay(file.path().into());
    let mut disk = Disk::open(base.path(), &writes).expect("an empty file");
    disk.write(100, &[1; 20_000]).expect("room");
    disk.zero(50_000, 30_000).expect("room");
    drop(disk);
    std::fs::read(file.path()).expect("a file of ours")
}
