//! What the network itself answers, and datagrams.

mod common;

use common::{datagram, instant, noise, read_datagram, World, MAC};
use nagori_usernet::{Config, Frame, Hosts, Link, Nat, DNS, GATEWAY, GUEST};
use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::{dhcpv4, dns, udp};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DnsQueryType, EthernetAddress, EthernetFrame,
    EthernetProtocol, EthernetRepr, Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr, IpAddress,
    IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr,
};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::thread;
use std::time::Duration;

fn nat(config: Config) -> Nat {
    Nat::new(config).unwrap()
}

fn at(address: Ipv4Address, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(address, port)
}

/// Waits for a frame of the network.
fn answer<T>(w: &mut World, f: impl Fn(&[u8]) -> Option<T>) -> T {
    w.cable.keep = true;
    w.until("an answer", |w| {
        w.cable.seen.iter().find_map(|frame| f(&frame.bytes))
    })
}

#[test]
fn dhcp_gives_the_address() {
    let mut w = World::without_address(nat(Config::default()));
    let h = w.sockets.add(dhcpv4::Socket::new());
    let c = w.until("a lease", |w| {
        match w.sockets.get_mut::<dhcpv4::Socket>(h).poll() {
            Some(dhcpv4::Event::Configured(c)) => {
                Some((c.address, c.router, c.dns_servers.to_vec(), c.server))
            }
            _ => None,
        }
    });
    assert_eq!(c.0.to_string(), "10.0.2.15/24");
    assert_eq!(c.1, Some(GATEWAY));
    assert_eq!(c.2, [DNS]);
    assert_eq!(c.3.address, GATEWAY);
}

fn resolve(w: &mut World, name: &str) -> Result<Vec<IpAddress>, dns::GetQueryResultError> {
    let mut socket = dns::Socket::new(&[IpAddress::Ipv4(DNS)], vec![]);
    let query = socket
        .start_query(w.interface.context(), name, DnsQueryType::A)
        .unwrap();
    let h = w.sockets.add(socket);
    let found = w.until("a name", |w| {
        let s: &mut dns::Socket = w.sockets.get_mut(h);
        match s.get_query_result(query) {
            Err(dns::GetQueryResultError::Pending) => None,
            r => Some(r.map(|a| a.to_vec())),
        }
    });
    // It would take the answers to the next one.
    w.sockets.remove(h);
    found
}

#[test]
fn names_of_the_host() {
    let mut w = World::new(nat(Config {
        hosts: Hosts::parse("127.0.1.1 build build.lan\n10.9.8.7 far.lan"),
        ..Config::default()
    }));
    assert_eq!(
        resolve(&mut w, "build.lan"),
        Ok(vec![IpAddress::Ipv4(GATEWAY)])
    );
    assert_eq!(
        resolve(&mut w, "far.lan"),
        Ok(vec![IpAddress::v4(10, 9, 8, 7)])
    );
    assert_eq!(
        resolve(&mut w, "localhost"),
        Ok(vec![IpAddress::v4(127, 0, 0, 1)])
    );
    // There is nobody to ask.
    assert_eq!(
        resolve(&mut w, "elsewhere.lan"),
        Err(dns::GetQueryResultError::Failed)
    );
}

const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04else\0\0\x01\0\x01";

/// The network's answer to a query, from the header's flags on.
fn ask(w: &mut World, query: &[u8], port: u16) -> Vec<u8> {
    let frame = datagram(at(GUEST, port), at(DNS, 53), query);
    w.nat.send(w.now, Frame::plain(frame));
    let (from, to, bytes) = answer(w, |f| {
        read_datagram(f).filter(|(_, to, _)| to.port() == port)
    });
    assert_eq!((from, to), (at(DNS, 53), at(GUEST, port)));
    bytes
}

#[test]
fn other_names_are_asked_for() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dead = UdpSocket::bind("127.0.0.1:0").unwrap();
    let servers = vec![dead.local_addr().unwrap(), server.local_addr().unwrap()];
    let config = Config {
        servers,
        ..Config::default()
    };
    let mut w = World::new(nat(config));
    let t = thread::spawn(move || {
        let mut buffer = [0; 512];
        let (n, from) = server.recv_from(&mut buffer).unwrap();
        let mut reply = buffer[..n].to_vec();
        reply[2] |= 0x80;
        reply.extend_from_slice(b"answer");
        server.send_to(&reply, from).unwrap();
        n
    });
    // The first server says nothing; the guest asks again, and the second is asked.
    let frame = datagram(at(GUEST, 999), at(DNS, 53), QUERY);
    w.nat.send(w.now, Frame::plain(frame));
    w.steps(10);
    assert!(w.nat.is_live(w.now), "an answer is expected");
    let a = ask(&mut w, QUERY, 1000);
    assert!(a.ends_with(b"answer"));
    assert_eq!(t.join().unwrap(), QUERY.len());
    // The first server is not there any more.
    drop(dead);
    let mut other = QUERY.to_vec();
    other[0] = 9;
    let a = ask(&mut w, &other, 1001);
    assert_eq!((a[0], a[3] & 0xf), (9, 2), "a failure of the server");
}

#[test]
fn expectations_end() {
    let quiet = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut w = World::new(nat(Config::default()));
    assert!(!w.nat.is_live(w.now));
    let to = at(GATEWAY, quiet.local_addr().unwrap().port());
    w.nat
        .send(w.now, Frame::plain(datagram(at(GUEST, 7), to, b"?")));
    assert!(w.nat.is_live(w.now + Duration::from_secs(9)));
    assert!(!w.nat.is_live(w.now + Duration::from_secs(11)));
    let mut buffer = [0; 10];
    let (n, from) = quiet.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], b"?");
    // Long after that, the port is closed.
    w.now += Duration::from_secs(1000);
    w.step();
    quiet.send_to(b"late", from).unwrap();
    thread::sleep(Duration::from_millis(5));
    w.steps(5);
    assert_eq!(w.nat.receive(), None);
}

#[test]
fn datagrams_to_the_host_and_back() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let t = thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        for _ in 0..3 {
            let (n, from) = server.recv_from(&mut buffer).unwrap();
            buffer[..n].reverse();
            server.send_to(&buffer[..n], from).unwrap();
        }
    });
    let mut w = World::new(nat(Config::default()));
    let meta = || vec![udp::PacketMetadata::EMPTY; 8];
    let buffer = || udp::PacketBuffer::new(meta(), vec![0; 65_536]);
    let h = w.sockets.add(udp::Socket::new(buffer(), buffer()));
    w.sockets.get_mut::<udp::Socket>(h).bind(5555).unwrap();
    for len in [0, 5, 1472] {
        let data = noise(7, len);
        let s: &mut udp::Socket = w.sockets.get_mut(h);
        s.send_slice(&data, (GATEWAY, port)).unwrap();
        let back = w.until("the datagram", |w| {
            let s: &mut udp::Socket = w.sockets.get_mut(h);
            let (d, m) = s.recv().ok()?;
            assert_eq!(m.endpoint, (GATEWAY, port).into());
            Some(d.to_vec())
        });
        assert!(back.iter().rev().eq(data.iter()));
    }
    t.join().unwrap();
}

/// Cuts a frame with an IPv4 packet into fragments.
fn cut(frame: &[u8], size: usize) -> Vec<Vec<u8>> {
    let (head, payload) = frame.split_at(34);
    let last = payload.len().div_ceil(size) - 1;
    payload
        .chunks(size)
        .enumerate()
        .map(|(i, data)| {
            let mut bytes = [head, data].concat();
            let mut ip = Ipv4Packet::new_unchecked(&mut bytes[14..]);
            ip.set_total_len(20 + data.len() as u16);
            ip.set_ident(77);
            ip.clear_flags();
            ip.set_more_frags(i < last);
            ip.set_frag_offset((i * size) as u16);
            ip.fill_checksum();
            bytes
        })
        .collect()
}

#[test]
fn datagrams_in_fragments() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = at(GATEWAY, server.local_addr().unwrap().port());
    let data = noise(8, 9000);
    let mut w = World::new(nat(Config::default()));
    let mut pieces = cut(&datagram(at(GUEST, 6000), to, &data), 1480);
    pieces.reverse();
    for p in pieces {
        w.nat.send(w.now, Frame::plain(p));
    }
    let mut buffer = vec![0; 65_536];
    let (n, from) = server.recv_from(&mut buffer).unwrap();
    assert!(buffer[..n] == data);
    // And back.
    server.send_to(&data, from).unwrap();
    w.cable.keep = true;
    let mut whole = vec![0; 9008];
    let mut seen = 0;
    w.until("all fragments", |w| {
        for f in w.cable.seen.drain(..) {
            let ip = Ipv4Packet::new_checked(&f.bytes[14..]).unwrap();
            assert!(ip.verify_checksum() && f.bytes.len() <= 1514);
            let at = usize::from(ip.frag_offset());
            whole[at..at + ip.payload().len()].copy_from_slice(ip.payload());
            seen += ip.payload().len();
        }
        (seen == whole.len()).then_some(())
    });
    let udp = smoltcp::wire::UdpPacket::new_checked(&whole[..]).unwrap();
    assert!(udp.verify_checksum(&GATEWAY.into(), &GUEST.into()));
    assert!(udp.payload() == data);
}

#[test]
fn fragments_that_overlap_or_lack_something_come_to_nothing() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let to = at(GATEWAY, server.local_addr().unwrap().port());
    let mut w = World::new(nat(Config::default()));
    let pieces = cut(&datagram(at(GUEST, 6000), to, &noise(9, 4000)), 1480);
    let mut overlap = pieces.clone();
    let mut ip = Ipv4Packet::new_unchecked(&mut overlap[1][14..]);
    ip.set_frag_offset(1472);
    for p in overlap.into_iter().chain(pieces.into_iter().skip(1)) {
        w.nat.send(w.now, Frame::plain(p));
    }
    w.steps(10);
    thread::sleep(Duration::from_millis(5));
    assert!(server.recv_from(&mut [0; 10]).is_err());
}

#[test]
fn a_client_of_the_host_and_a_server_in_the_guest() {
    let config = Config {
        forwards: vec!["udp::0-:69".parse().unwrap()],
        ..Config::default()
    };
    let mut w = World::new(nat(config));
    let SocketAddr::V4(host) = w.nat.forwards()[0].host else {
        panic!("not IPv4");
    };
    let clients = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    for (i, c) in clients.iter().enumerate() {
        c.send_to(&[i as u8], host).unwrap();
    }
    w.cable.keep = true;
    let asked: Vec<_> = w.until("both", |w| {
        let all: Vec<_> = w
            .cable
            .seen
            .iter()
            .filter_map(|f| read_datagram(&f.bytes))
            .collect();
        (all.len() == 2).then_some(all)
    });
    for (from, to, data) in asked {
        assert_eq!((*from.ip(), to), (GATEWAY, at(GUEST, 69)));
        let c = &clients[usize::from(data[0])];
        assert_eq!(c.local_addr().unwrap().port(), from.port());
        let reply = datagram(to, from, &[data[0] + 10]);
        w.nat.send(w.now, Frame::plain(reply));
    }
    for (i, c) in clients.iter().enumerate() {
        let mut buffer = [0; 4];
        assert_eq!(c.recv_from(&mut buffer).unwrap(), (1, host.into()));
        assert_eq!(buffer[0], i as u8 + 10);
    }
}

#[test]
fn datagrams_of_strangers_stay_outside() {
    let known = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut w = World::new(nat(Config::default()));
    let to = at(GATEWAY, known.local_addr().unwrap().port());
    w.nat
        .send(w.now, Frame::plain(datagram(at(GUEST, 7), to, b"?")));
    let (_, from) = known.recv_from(&mut [0; 4]).unwrap();
    // Another port of the same address may answer, as a TFTP server does; 127.0.0.2 may not.
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    stranger.send_to(b"no", from).unwrap();
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.send_to(b"yes", from).unwrap();
    let (source, _, data) = answer(&mut w, read_datagram);
    assert_eq!(data, b"yes");
    assert_eq!(source, at(GATEWAY, other.local_addr().unwrap().port()));
}

fn ping(to: Ipv4Address) -> Vec<u8> {
    let icmp = Icmpv4Repr::EchoRequest {
        ident: 3,
        seq_no: 4,
        data: b"hello?",
    };
    let mut frame = datagram(at(GUEST, 1), at(to, 1), &vec![0; icmp.buffer_len() - 8]);
    let mut ip = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.set_next_header(IpProtocol::Icmp);
    ip.fill_checksum();
    let caps = ChecksumCapabilities::default();
    icmp.emit(&mut Icmpv4Packet::new_unchecked(ip.payload_mut()), &caps);
    frame
}

/// An ICMP message of the network.
fn icmp(frame: &[u8]) -> Option<(Ipv4Address, String)> {
    let ip = Ipv4Packet::new_checked(&frame[14..]).ok()?;
    if ip.next_header() != IpProtocol::Icmp {
        return None;
    }
    let packet = Icmpv4Packet::new_checked(ip.payload()).ok()?;
    let repr = Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default()).unwrap();
    let text = match repr {
        Icmpv4Repr::EchoReply {
            ident,
            seq_no,
            data,
        } => format!("{ident} {seq_no} {}", String::from_utf8_lossy(data)),
        Icmpv4Repr::DstUnreachable { reason, header, .. } => {
            format!("{reason} {}", header.dst_addr)
        }
        other => format!("{other:?}"),
    };
    Some((ip.src_addr(), text))
}

#[test]
fn the_gateway_answers_a_ping() {
    let mut w = World::new(nat(Config::default()));
    for to in [GATEWAY, DNS] {
        w.cable.seen.clear();
        w.nat.send(w.now, Frame::plain(ping(to)));
        assert_eq!(answer(&mut w, icmp), (to, "3 4 hello?".into()));
    }
    w.nat
        .send(w.now, Frame::plain(ping(Ipv4Address::new(10, 0, 2, 9))));
    assert_eq!(w.nat.receive(), None);
}

#[test]
fn a_network_that_is_shut_says_so() {
    let mut w = World::new(nat(Config {
        restrict: true,
        servers: vec!["127.0.0.1:1".parse().unwrap()],
        ..Config::default()
    }));
    let to = at(GATEWAY, 9);
    w.nat
        .send(w.now, Frame::plain(datagram(at(GUEST, 7), to, b"?")));
    let (from, text) = answer(&mut w, icmp);
    assert_eq!(from, GATEWAY);
    let reason = Icmpv4DstUnreachable::CommProhibited;
    assert_eq!(text, format!("{reason} {GATEWAY}"));
    let a = ask(&mut w, QUERY, 1000);
    assert_eq!(a[3] & 0xf, 2);
}

#[test]
fn who_is_there() {
    let mut w = World::new(nat(Config::default()));
    for (target, there) in [(GATEWAY, true), (DNS, true), (GUEST, false)] {
        let ask = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: EthernetAddress(MAC),
            source_protocol_addr: GUEST,
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: target,
        };
        let mut bytes = vec![0; 14 + ask.buffer_len()];
        let ethernet = EthernetRepr {
            src_addr: EthernetAddress(MAC),
            dst_addr: EthernetAddress::BROADCAST,
            ethertype: EthernetProtocol::Arp,
        };
        ethernet.emit(&mut EthernetFrame::new_unchecked(&mut bytes[..]));
        ask.emit(&mut ArpPacket::new_unchecked(&mut bytes[14..]));
        w.nat.send(w.now, Frame::plain(bytes));
        let reply = w.nat.receive();
        assert_eq!(reply.is_some(), there, "{target}");
        let Some(reply) = reply else { continue };
        let ethernet = EthernetFrame::new_checked(&reply.bytes[..]).unwrap();
        assert_eq!(ethernet.dst_addr(), EthernetAddress(MAC));
        let arp = ArpPacket::new_checked(ethernet.payload()).unwrap();
        let ArpRepr::EthernetIpv4 {
            operation,
            source_protocol_addr,
            ..
        } = ArpRepr::parse(&arp).unwrap()
        else {
            panic!("not about IPv4");
        };
        assert_eq!(operation, ArpOperation::Reply);
        assert_eq!(source_protocol_addr, target);
    }
}

#[test]
fn others_addresses_are_not_the_guest_s_to_use() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let to = at(GATEWAY, server.local_addr().unwrap().port());
    let mut w = World::new(nat(Config::default()));
    for from in [GATEWAY, DNS, Ipv4Address::new(1, 2, 3, 4)] {
        w.nat
            .send(w.now, Frame::plain(datagram(at(from, 7), to, b"?")));
    }
    w.steps(10);
    thread::sleep(Duration::from_millis(5));
    assert!(server.recv_from(&mut [0; 10]).is_err());
    let _ = instant(w.now);
}

fn packet(kind: u8, bytes: &[u8], to: u8) -> Vec<u8> {
    let ip = Ipv4Repr {
        src_addr: GUEST,
        // Never an address outside: a test has no business there.
        dst_addr: Ipv4Address::new(10, 0, 2, to),
        next_header: IpProtocol::from(kind),
        payload_len: bytes.len(),
        hop_limit: 64,
    };
    let mut frame = datagram(at(GUEST, 1), at(GATEWAY, 1), &[]);
    frame.truncate(34);
    frame.extend_from_slice(bytes);
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.emit(&mut packet, &ChecksumCapabilities::default());
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_frames_neither_panic_nor_stop_time(
        frames in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..120), prop_oneof![Just(1u8), Just(6), Just(17), any::<u8>()],
             prop_oneof![Just(2u8), Just(3), Just(255), any::<u8>()], any::<u16>(), 0u8..4),
            1..40,
        ),
    ) {
        // Restricted, so that no port of the host is knocked at.
        let mut n = nat(Config { restrict: true, ..Config::default() });
        let mut now = Duration::ZERO;
        for (bytes, kind, to, jump, shape) in frames {
            let frame = match shape {
                0 => bytes,
                1 => {
                    let port = if jump & 1 == 0 { 53 } else { 67 };
                    datagram(at(GUEST, jump), at(Ipv4Address::new(10, 0, 2, to), port), &bytes)
                }
                _ => packet(kind, &bytes, to),
            };
            n.send(now, Frame::plain(frame));
            n.poll(now).unwrap();
            while n.receive().is_some() {}
            now += Duration::from_millis(jump.into());
            prop_assert!(n.next_time(now).is_none_or(|t| t > now));
        }
    }
}
