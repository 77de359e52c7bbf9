use super::super::bench::{Bench, BASE};
use super::*;
use proptest::prelude::*;

/// Address after the rings of all queues.
const DATA: u64 = BASE + 0x4_0000;

/// Offers room for `n` control messages of 64 bytes, from descriptor 0 on.
fn offer_control(b: &mut Bench<PortConsole>, n: u16) {
    for i in 0..n {
        let at = DATA + 0x8000 + 64 * u64::from(i);
        b.send(CONTROL_RECEIVE, i, &[(at, 64, true)]);
    }
}

fn tell(b: &mut Bench<PortConsole>, id: u32, what: u16, value: u16) {
    let mut m = id.to_le_bytes().to_vec();
    m.extend(what.to_le_bytes());
    m.extend(value.to_le_bytes());
    b.put(DATA + 0x9000, &m);
    b.send(CONTROL_TRANSMIT, 0, &[(DATA + 0x9000, 8, false)]);
}

/// Control messages that the device has sent so far: (port, event, value, rest).
fn heard(b: &Bench<PortConsole>) -> Vec<(u8, u8, u8, String)> {
    let message = |(head, len): &(u32, u32)| {
        let m = b.get(DATA + 0x8000 + 64 * u64::from(*head), *len as usize);
        let rest = String::from_utf8_lossy(&m[8..]).into_owned();
        (m[0], m[4], m[6], rest)
    };
    b.used(CONTROL_RECEIVE).iter().map(message).collect()
}

/// A device whose driver has found all ports and opened them.
fn ready() -> Bench<PortConsole> {
    let mut b = Bench::new(PortConsole::new("console0".into()));
    b.queue_size = 16;
    assert!(b.start(0));
    offer_control(&mut b, 14);
    tell(&mut b, 0, event::DEVICE_READY, 1);
    for id in 0..4 {
        tell(&mut b, id, event::PORT_READY, 1);
        tell(&mut b, id, event::PORT_OPEN, 1);
    }
    b
}

fn push(b: &mut Bench<PortConsole>, port: usize, bytes: &[u8]) -> usize {
    b.host(|c, at| c.push(at, port, bytes)).unwrap()
}

fn take(b: &mut Bench<PortConsole>, port: usize) -> Vec<u8> {
    b.host(|c, at| c.take(at, port)).unwrap()
}

#[test]
fn the_driver_is_told_of_every_port() {
    let b = ready();
    let mut expected = Vec::new();
    for id in 0..4u8 {
        expected.push((id, 1, 1, String::new()));
    }
    for (id, name) in PORTS.iter().enumerate() {
        expected.push((id as u8, 7, 1, name.to_string()));
        expected.push((id as u8, 6, 1, String::new()));
    }
    assert_eq!(heard(&b), expected);
    assert!((0..4).all(|p| b.device.backend().is_open(p)));
    let mut b = b;
    let config: Vec<u8> = (4..8).map(|i| b.config(i)).collect();
    assert_eq!(config, [4, 0, 0, 0]);
}

#[test]
fn bytes_go_both_ways_and_end() {
    let mut b = ready();
    let out = transmit(2);
    b.put(DATA, b"hello world");
    b.send(out, 0, &[(DATA, 6, false), (DATA + 6, 5, false)]);
    assert_eq!(b.used(out), [(0, 0)]);
    assert_eq!(take(&mut b, 2), b"hello world");
    assert_eq!(take(&mut b, 2), b"");
    // Input waits for room, then fills it piece by piece.
    let input = receive(1);
    assert_eq!(push(&mut b, 1, b"abcdefghij"), 10);
    b.send(input, 0, &[(DATA, 4, true)]);
    b.send(input, 1, &[(DATA + 16, 2, true), (DATA + 32, 2, true)]);
    assert_eq!(b.used(input), [(0, 4), (1, 4)]);
    assert_eq!(b.get(DATA, 4), b"abcd");
    assert_eq!([b.get(DATA + 16, 2), b.get(DATA + 32, 2)], [b"ef", b"gh"]);
    // The end is reported after the last byte.
    let before = heard(&b).len();
    b.host(|c, at| c.close(at, 1)).unwrap();
    assert_eq!(push(&mut b, 1, b"more"), 0);
    assert_eq!(heard(&b).len(), before);
    b.send(input, 2, &[(DATA, 8, true)]);
    assert_eq!(b.used(input)[2], (2, 2));
    assert_eq!(heard(&b)[before..], [(1, 6, 0, String::new())]);
}

#[test]
fn a_full_queue_holds_the_guest_back() {
    let mut b = ready();
    let out = transmit(3);
    // Chains of one page many times over: 2 MiB each.
    let pages: Vec<(u64, u32, bool)> = (0..8).map(|_| (DATA, 0x4_0000, false)).collect();
    b.put(DATA, &[7; 0x4_0000]);
    for _ in 0..3 {
        b.send(out, 0, &pages);
    }
    assert_eq!(b.used(out).len(), 2);
    let first = take(&mut b, 3);
    assert_eq!(b.used(out).len(), 3);
    let rest = take(&mut b, 3);
    assert_eq!(first.len() + rest.len(), 6 << 20);
    assert!(first.iter().chain(&rest).all(|x| *x == 7));
    // And the host.
    let much = vec![1; ROOM + 5];
    assert_eq!(push(&mut b, 1, &much), ROOM);
    assert_eq!(b.device.backend().room(1), 0);
}

#[test]
fn a_loaded_device_goes_on() {
    use crate::device::Device;
    let mut a = ready();
    let out = transmit(2);
    let pages: Vec<(u64, u32, bool)> = (0..8).map(|_| (DATA, 0xb_0000, false)).collect();
    a.put(DATA, &[9; 0x1000]);
    a.send(out, 0, &pages);
    push(&mut a, 1, b"input");
    let state = a.device.save();
    let mut b = ready();
    b.put(DATA, &[9; 0x1000]);
    b.send(out, 0, &[]);
    b.device.load(&state).unwrap();
    let of = |b: &mut Bench<PortConsole>| {
        let text = take(b, 2);
        b.send(receive(1), 0, &[(DATA, 64, true)]);
        (text, b.get(DATA, 5), b.used(receive(1)))
    };
    let [a, b] = [of(&mut a), of(&mut b)];
    assert_eq!(a, b);
    assert_eq!(a.1, b"input");
    // Other ports, or more bytes than fit, are refused.
    let mut bad = state;
    let text = bad.data.to_string().replacen("696e707574", "6", 1);
    bad.data = serde_json::from_str(&text).unwrap();
    assert!(ready().device.load(&bad).is_err());
}

#[test]
fn a_reset_of_the_driver_starts_the_ports_anew() {
    let mut b = ready();
    push(&mut b, 0, b"kept");
    assert!(b.start(0));
    assert!(!b.device.backend().is_open(0));
    offer_control(&mut b, 14);
    tell(&mut b, 0, event::DEVICE_READY, 1);
    assert_eq!(heard(&b).len(), 4);
    b.send(0, 0, &[(DATA, 8, true)]);
    assert_eq!(b.get(DATA, 4), b"kept");
}

proptest! {
    /// A driver that sends anything to any port.
    #[test]
    fn hostile_drivers_never_panic(
        steps in prop::collection::vec(
            (0usize..10, 0u16..8, prop::collection::vec((0u64..0x2000, any::<u32>(), any::<bool>()), 1..4)),
            0..40,
        ),
        memory in prop::collection::vec(any::<u8>(), 0x100),
        host in prop::collection::vec((0usize..5, 0usize..4), 0..20),
    ) {
        let mut b = Bench::new(PortConsole::new("c".into()));
        prop_assert!(b.start(0));
        let mut host = host.into_iter();
        for (queue, first, buffers) in steps {
            b.put(DATA, &memory);
            let buffers: Vec<_> = buffers
                .into_iter()
                .map(|(at, len, writable)| {
                    let at = if len % 7 == 0 { BASE + at } else { DATA + at % 0x100 };
                    (at, if len % 3 == 0 { len } else { len % 64 }, writable)
                })
                .collect();
            b.send(queue, first, &buffers);
            let _ = match host.next() {
                Some((port, 0)) => b.host(|c, at| c.push(at, port, &memory).map(drop)),
                Some((port, 1)) => b.host(|c, at| c.take(at, port).map(drop)),
                Some((port, 2)) => b.host(|c, at| c.close(at, port)),
                _ => { b.poll(); Ok(()) }
            };
        }
    }
}
