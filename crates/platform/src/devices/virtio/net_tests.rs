use super::super::bench::{Bench, BASE, DATA};
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

/// The frames that a link has received, and those that it delivers.
#[derive(Default)]
struct Seen {
    sent: Vec<Frame>,
    come: VecDeque<Frame>,
    guests: Vec<Guest>,
    resets: usize,
    full: bool,
    down: bool,
    broken: bool,
    next: Option<Duration>,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Seen>>);

impl Link for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn is_up(&self) -> bool {
        !self.0.lock().unwrap().down
    }
    fn is_ready(&self) -> bool {
        !self.0.lock().unwrap().full
    }
    fn send(&mut self, _: Duration, frame: Frame) {
        self.0.lock().unwrap().sent.push(frame);
    }
    fn run(&mut self, _: Duration) {}
    fn poll(&mut self, _: Duration) -> Result<(), Error> {
        if self.0.lock().unwrap().broken {
            Err(Error::Watch(std::io::ErrorKind::Other.into()))
        } else {
            Ok(())
        }
    }
    fn receive(&mut self) -> Option<Frame> {
        self.0.lock().unwrap().come.pop_front()
    }
    fn next_time(&mut self, _: Duration) -> Option<Duration> {
        self.0.lock().unwrap().next
    }
    fn wait_fd(&self) -> BorrowedFd<'_> {
        unimplemented!("not asked for here")
    }
    fn is_live(&self, _: Duration) -> bool {
        true
    }
    fn set_guest(&mut self, guest: Guest) {
        self.0.lock().unwrap().guests.push(guest);
    }
    fn reset(&mut self) {
        self.0.lock().unwrap().resets += 1;
    }
}

fn bench() -> (Bench<Net>, Fake) {
    let mut b = Bench::new(Net::new("net0".into(), 7));
    let link = Fake::default();
    let other = link.clone();
    b.host(|n, port| n.connect(port, Box::new(other)));
    (b, link)
}

fn frame(n: u8, len: usize) -> Frame {
    Frame::plain(vec![n; len])
}

/// Sends a header and a frame as the guest.
fn send(b: &mut Bench<Net>, header: [u8; HEADER], bytes: &[u8]) {
    b.put(DATA, &header);
    b.put(DATA + 0x100, bytes);
    let half = bytes.len() as u32 / 2;
    b.send(
        TRANSMIT,
        0,
        &[
            (DATA, HEADER as u32, false),
            (DATA + 0x100, half, false),
            (
                DATA + 0x100 + u64::from(half),
                bytes.len() as u32 - half,
                false,
            ),
        ],
    );
}

#[test]
fn addresses_follow_from_slot_and_seed() {
    let all = [("net0", 1), ("net0", 2), ("net1", 1)].map(|(n, s)| mac(n, s));
    assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
    // Locally administered, for one.
    assert!(all.iter().all(|m| m[0] & 3 == 2));
    let (mut b, _) = bench();
    let shown: Vec<u8> = (0..6).map(|i| b.config(i)).collect();
    assert_eq!(shown, mac("net0", 7));
    assert_eq!([b.config(6), b.config(7)], [1, 0]);
    assert_eq!(u16::from_le_bytes([b.config(10), b.config(11)]), 1500);
    assert_eq!(b.config(12), 0);
    assert_eq!(b.config(u64::MAX - 0x200), 0);
}

#[test]
fn the_guest_sends() {
    let (mut b, link) = bench();
    assert!(b.start(0));
    let mut header = [0; HEADER];
    send(&mut b, header, &[1; 60]);
    header[0] = NEEDS_CSUM;
    header[6] = 34;
    header[8] = 16;
    header[1] = GSO_TCPV4 | GSO_ECN;
    header[4..6].copy_from_slice(&1000u16.to_le_bytes());
    send(&mut b, header, &[2; 3000]);
    let sent = std::mem::take(&mut link.0.lock().unwrap().sent);
    assert_eq!(sent[0], frame(1, 60));
    assert_eq!(sent[1].bytes, [2; 3000]);
    let offload = Offload {
        checksum: Some(Partial {
            start: 34,
            offset: 16,
        }),
        segment: NonZeroU16::new(1000),
        valid: false,
    };
    assert_eq!(sent[1].offload, offload);
    assert_eq!(b.used(TRANSMIT), [(0, 0), (0, 0)]);
    // UDP segmentation was not offered, and nothing shorter than its header is a frame.
    header[1] = 3;
    send(&mut b, header, &[3; 100]);
    send(&mut b, [0; HEADER], &[4; 13]);
    assert_eq!(link.0.lock().unwrap().sent, []);
    assert!(!b.is_broken());
    let t = b.host(|n, _| n.traffic());
    assert_eq!(
        (t.sent_frames, t.sent_bytes, t.dropped_frames),
        (2, 3060, 2)
    );
    // Without a header it violates the protocol.
    b.send(TRANSMIT, 0, &[(DATA, 11, false)]);
    assert!(b.is_broken());
}

#[test]
fn the_guest_waits_for_a_link_that_is_full() {
    let (mut b, link) = bench();
    b.start(0);
    link.0.lock().unwrap().full = true;
    send(&mut b, [0; HEADER], &[1; 60]);
    assert_eq!(b.used(TRANSMIT), []);
    link.0.lock().unwrap().full = false;
    b.poll();
    assert_eq!(b.used(TRANSMIT), [(0, 0)]);
    assert_eq!(link.0.lock().unwrap().sent.len(), 1);
}

#[test]
fn the_guest_receives_into_several_buffers() {
    let (mut b, link) = bench();
    b.start(0);
    link.0.lock().unwrap().come.push_back(frame(5, 250));
    b.poll();
    for i in 0..2 {
        b.send(RECEIVE, i, &[(DATA + 0x1000 * u64::from(i), 100, true)]);
    }
    // Two hold 200 of the 262 bytes; they are kept, also in a snapshot.
    assert_eq!(b.used(RECEIVE), []);
    let saved = b.host(|n, _| n.save());
    b.host(|n, _| n.load(&saved)).unwrap();
    b.take_interrupt();
    link.0.lock().unwrap().come.push_back(frame(6, 250));
    b.send(
        RECEIVE,
        2,
        &[(DATA + 0x2000, 30, true), (DATA + 0x2800, 70, true)],
    );
    assert_eq!(b.used(RECEIVE), [(0, 100), (1, 100), (2, 62)]);
    assert_eq!(b.take_interrupt(), 1);
    let header = b.get(DATA, HEADER);
    assert_eq!(header, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0]);
    let all = [
        b.get(DATA + 12, 88),
        b.get(DATA + 0x1000, 100),
        b.get(DATA + 0x2000, 30),
        b.get(DATA + 0x2800, 32),
    ]
    .concat();
    assert_eq!(all, [6; 250]);
}

#[test]
fn what_is_left_to_the_guest_is_said() {
    let (mut b, link) = bench();
    b.start(0);
    let guest = *link.0.lock().unwrap().guests.last().unwrap();
    assert!(!guest.running);
    let mut large = frame(7, 200);
    large.offload = Offload {
        checksum: Some(Partial {
            start: 34,
            offset: 16,
        }),
        segment: NonZeroU16::new(1460),
        valid: true,
    };
    let mut valid = frame(8, 60);
    valid.offload.valid = true;
    link.0.lock().unwrap().come.extend([large, valid]);
    b.send(RECEIVE, 0, &[(DATA, 1000, true)]);
    b.send(RECEIVE, 1, &[(DATA + 0x1000, 1000, true)]);
    assert_eq!(
        b.get(DATA, HEADER),
        [1, 1, 0, 0, 0xb4, 5, 34, 0, 16, 0, 1, 0]
    );
    assert_eq!(
        b.get(DATA + 0x1000, HEADER),
        [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]
    );
    let guest = *link.0.lock().unwrap().guests.last().unwrap();
    assert!(guest.running && guest.segments);
    // A driver without these features gets no such frames.
    b.start(feature::GUEST_TSO4 | feature::GUEST_CSUM | feature::MRG_RXBUF);
    b.poll();
    let guest = *link.0.lock().unwrap().guests.last().unwrap();
    assert!(guest.running && !guest.segments);
    link.0
        .lock()
        .unwrap()
        .come
        .extend([frame(9, 60), frame(10, 60)]);
    // One buffer for one frame: a frame that does not fit is lost.
    b.send(RECEIVE, 0, &[(DATA, 40, true)]);
    assert_eq!(b.used(RECEIVE), []);
    b.host(|n, _| assert_eq!(n.traffic().dropped_frames, 2));
}

#[test]
fn the_cable() {
    let (mut b, link) = bench();
    b.start(0);
    b.take_interrupt();
    link.0.lock().unwrap().down = true;
    b.poll();
    assert_eq!((b.take_interrupt(), b.config(6)), (2, 0));
    link.0.lock().unwrap().down = false;
    b.poll();
    assert_eq!((b.take_interrupt(), b.config(6)), (2, 1));
    link.0.lock().unwrap().broken = true;
    b.poll();
    assert_eq!((b.take_interrupt(), b.config(6)), (2, 0));
    assert!(b.host(|n, _| n.take_fault()).is_some());
    // Frames go nowhere.
    send(&mut b, [0; HEADER], &[1; 60]);
    assert_eq!(b.used(TRANSMIT), [(0, 0)]);
    assert!(!b.is_broken());
}

#[test]
fn resets() {
    let (mut b, link) = bench();
    b.start(0);
    b.poll();
    link.0.lock().unwrap().come.push_back(frame(5, 250));
    b.send(RECEIVE, 0, &[(DATA, 100, true)]);
    // The driver restarts: its old buffers are not written any more.
    b.start(0);
    assert!(!link.0.lock().unwrap().guests.last().unwrap().running);
    assert_eq!(link.0.lock().unwrap().resets, 0);
    link.0.lock().unwrap().come.push_back(frame(6, 50));
    b.send(RECEIVE, 1, &[(DATA + 0x1000, 100, true)]);
    assert_eq!(b.used(RECEIVE), [(1, 62)]);
    assert_eq!(b.get(DATA, 100), [0; 100]);
    b.host(|n, _| n.reset());
    assert_eq!(link.0.lock().unwrap().resets, 1);
}

#[test]
fn time_is_the_link_s() {
    let (mut b, link) = bench();
    link.0.lock().unwrap().next = Some(Duration::from_micros(5));
    b.poll();
    assert_eq!(b.host(|n, _| n.next_event()), Some(Ps(5_000_000)));
    link.0.lock().unwrap().next = None;
    b.settle(3);
    assert_eq!(b.host(|n, _| n.next_event()), None);
}

#[test]
fn states_of_others_are_refused() {
    let (mut b, _) = bench();
    let mut state = b.host(|n, _| n.save());
    state.version = 1;
    assert!(b.host(|n, _| n.load(&state)).is_err());
}

proptest! {
    #[test]
    fn any_queue_does_not_panic(
        rings in prop::collection::vec(any::<u8>(), 0x200..0x400),
        steps in prop::collection::vec((0usize..2, any::<u16>(), 0u8..4, 0u16..8), 1..40),
    ) {
        let (mut b, link) = bench();
        b.start(0);
        b.put(DATA, &rings);
        for (queue, word, what, index) in steps {
            match what {
                0 => {
                    let addr = BASE + u64::from(word) * 17;
                    let d = (addr, u32::from(word) * 3, word & 7, index + 1);
                    b.descriptor(queue, index.into(), d);
                }
                1 => b.offer(queue, index),
                2 => b.notify(queue),
                _ => {
                    let f = frame(1, usize::from(word) % 2000);
                    link.0.lock().unwrap().come.push_back(f);
                    b.poll();
                }
            }
            if b.is_broken() {
                b.start(0);
            }
        }
    }
}
