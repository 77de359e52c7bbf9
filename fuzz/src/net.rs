//! Frames into the networks.

use nagori_usernet::{finish, Config, Frame, Guest, Link, Nat, Offload, Partial};
use std::num::NonZeroU16;
use std::time::Duration;

/// Bytes in front of each frame: how it is wrapped, milliseconds that pass, its length.
const HEAD: usize = 3;
/// Ethernet and IPv4 header of the guest to the gateway.
const HEADERS: [u8; 34] = [
    0x52, 0x55, 10, 0, 2, 2, 2, 0, 0, 0, 0, 1, 8, 0, // to the network, IPv4
    0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 2, 15, 10, 0, 2, 2,
];

/// Puts IPv4 around bytes, so that they get beyond the first checks.
fn wrap(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut frame = HEADERS.to_vec();
    frame.extend_from_slice(bytes);
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    // ICMP, TCP, UDP; fragments; the name server; everybody.
    frame[23] = [1, 6, 17, 17][usize::from(kind & 3)];
    frame[20] = if kind & 0x10 != 0 { 0x20 } else { 0 };
    frame[21] = if kind & 0x20 != 0 { 1 } else { 0 };
    frame[33] = if kind & 4 != 0 { 3 } else { 2 };
    if kind & 8 != 0 {
        frame[30..34].fill(255);
    }
    let sum = frame[14..34]
        .chunks(2)
        .fold(0u32, |s, w| s + u32::from(w[0]) * 256 + u32::from(w[1]));
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Frames of a guest into the NAT, which lets none of them out.
pub fn nat_frames(data: &[u8]) {
    let config = Config {
        restrict: true,
        ..Config::default()
    };
    let mut nat = Nat::new(config).expect("a network without forwards");
    nat.set_guest(Guest {
        mac: [2, 0, 0, 0, 0, 1],
        running: true,
        segments: data.first().is_some_and(|b| b & 1 != 0),
    });
    let mut now = Duration::ZERO;
    let mut rest = data;
    while let Some((head, body)) = rest.split_first_chunk::<HEAD>() {
        let [kind, pause, length] = *head;
        let (bytes, after) = body.split_at(body.len().min(length.into()));
        rest = after;
        now += Duration::from_millis(pause.into());
        let bytes = match kind & 0x80 {
            0 => wrap(kind, bytes),
            _ => bytes.to_vec(),
        };
        let frame = Frame {
            offload: Offload {
                checksum: (kind & 0x40 != 0).then_some(Partial {
                    start: pause.into(),
                    offset: length.into(),
                }),
                segment: NonZeroU16::new(u16::from(pause) * 4).filter(|_| kind & 0x20 != 0),
                valid: false,
            },
            bytes,
        };
        for part in finish(frame.clone()).unwrap_or_default() {
            assert!(part.offload.segment.is_none() && part.offload.checksum.is_none());
        }
        nat.send(now, frame);
        nat.poll(now).expect("the host's sockets can be watched");
        while nat.receive().is_some() {}
        assert!(nat.next_time(now).is_none_or(|t| t > now));
        assert_eq!(nat.connections(), 0, "nothing gets out");
    }
}

/// A name query, a ping, the beginning of a connection, DHCP's first message.
pub fn seeds() -> Vec<Vec<u8>> {
    let record = |kind: u8, bytes: &[u8]| [&[kind, 1, bytes.len() as u8], bytes].concat();
    let query =
        b"\x10\0\0\x35\0\x22\0\0\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x09localhost\0\0\x01\0\x01";
    let syn = b"\x10\0\0\x50\0\0\0\x01\0\0\0\0\x50\x02\x10\0\0\0\0\0";
    let ping = b"\x08\0\xf7\xff\0\0\0\0";
    let mut discover = b"\0\x44\0\x43\0\xff\0\0\x01\x01\x06\0\x12\x34\x56\x78".to_vec();
    discover.resize(8 + 44, 0);
    discover.resize(8 + 236, 0);
    discover.extend(b"\x63\x82\x53\x63\x35\x01\x01\xff");
    let mut all = vec![
        record(6, query),
        record(1, syn),
        record(0, ping),
        record(10, &discover),
        record(0x12, &query[..24]),
    ];
    all.push(all.concat());
    all
}
