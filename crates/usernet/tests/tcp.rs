//! Connections through the NAT, both ways.

mod common;

use common::{is_reset, noise, World};
use nagori_usernet::{Config, Frame, Guest, Link, Nat, GATEWAY, GUEST};
use smoltcp::socket::tcp::State;
use smoltcp::wire::Ipv4Address;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const LARGE: usize = 12 << 20;

/// A server on the host that is used once.
fn serve<T: Send + 'static>(
    f: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (u16, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || f(listener.accept().unwrap().0));
    (port, thread)
}

fn world(forwards: &[&str]) -> World {
    let forwards = forwards.iter().map(|f| f.parse().unwrap()).collect();
    World::new(
        Nat::new(Config {
            forwards,
            ..Config::default()
        })
        .unwrap(),
    )
}

fn forwarded(w: &World) -> SocketAddr {
    w.nat.forwards()[0].host
}

/// A client on the host, in a thread.
fn client<T: Send + 'static>(
    w: &World,
    f: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> JoinHandle<T> {
    let at = forwarded(w);
    thread::spawn(move || f(TcpStream::connect(at).unwrap()))
}

#[test]
fn the_guest_reads_from_the_host() {
    let data = noise(1, LARGE);
    let sent = data.clone();
    let (port, server) = serve(move |mut s| s.write_all(&sent).unwrap());
    let mut w = world(&[]);
    let h = w.connect(GATEWAY, port);
    assert!(w.read_all(h) == data);
    w.tcp(h).close();
    server.join().unwrap();
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
}

#[test]
fn the_guest_writes_to_the_host() {
    let data = noise(2, LARGE);
    let (port, server) = serve(|mut s| {
        let mut all = Vec::new();
        s.read_to_end(&mut all).unwrap();
        all
    });
    let mut w = world(&[]);
    let h = w.connect(GATEWAY, port);
    w.write_all(h, &data);
    w.tcp(h).close();
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
    assert!(server.join().unwrap() == data);
}

#[test]
fn large_packets_both_ways() {
    let data = noise(3, LARGE / 4);
    let sent = data.clone();
    let (port, server) = serve(move |mut s| s.write_all(&sent).unwrap());
    let mut w = world(&[]);
    w.nat.set_guest(Guest {
        mac: common::MAC,
        running: true,
        segments: true,
    });
    w.cable.keep = true;
    let h = w.connect(GATEWAY, port);
    assert!(w.read_all(h) == data);
    server.join().unwrap();
    let large: Vec<&Frame> = w
        .cable
        .seen
        .iter()
        .filter(|f| f.bytes.len() > 1514)
        .collect();
    assert!(!large.is_empty());
    for f in large {
        assert_eq!(f.offload.segment.map(|s| s.get()), Some(1460));
        assert!(f.offload.checksum.is_some());
        for part in nagori_usernet::finish(f.clone()).unwrap() {
            assert!(part.bytes.len() <= 1514);
        }
    }
}

#[test]
fn the_host_s_half_is_closed_first() {
    let (port, server) = serve(|mut s| {
        s.write_all(b"question").unwrap();
        s.shutdown(Shutdown::Write).unwrap();
        let mut all = String::new();
        s.read_to_string(&mut all).unwrap();
        all
    });
    let mut w = world(&[]);
    let h = w.connect(GATEWAY, port);
    assert_eq!(w.read_all(h), b"question");
    assert_eq!(w.tcp(h).state(), State::CloseWait);
    w.write_all(h, b"answer");
    w.tcp(h).close();
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
    assert_eq!(server.join().unwrap(), "answer");
}

#[test]
fn the_guest_s_half_is_closed_first() {
    let (port, server) = serve(|mut s| {
        let mut all = String::new();
        s.read_to_string(&mut all).unwrap();
        s.write_all(all.to_uppercase().as_bytes()).unwrap();
    });
    let mut w = world(&[]);
    let h = w.connect(GATEWAY, port);
    w.write_all(h, b"shout");
    w.tcp(h).close();
    assert_eq!(w.read_all(h), b"SHOUT");
    server.join().unwrap();
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
}

#[test]
fn refused_at_the_host() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut w = world(&[]);
    w.cable.keep = true;
    let h = w.connect(GATEWAY, port);
    w.until_state(h, State::Closed);
    assert!(w.cable.seen.iter().any(|f| is_reset(&f.bytes)));
    assert_eq!(w.nat.connections(), 0);
}

#[test]
fn nowhere_to_go() {
    let mut w = world(&[]);
    for to in [
        Ipv4Address::new(10, 0, 2, 77),
        Ipv4Address::new(127, 0, 0, 1),
        Ipv4Address::new(224, 0, 0, 5),
        nagori_usernet::DNS,
    ] {
        // The neighbour does not exist, as the guest finds out itself; the NAT is asked anyway.
        let syn = syn_to(to, 53);
        w.nat.send(w.now, Frame::plain(syn));
        w.nat.poll(w.now).unwrap();
        assert!(is_reset(&w.nat.receive().unwrap().bytes), "{to}");
        assert_eq!(w.nat.receive(), None);
    }
    assert_eq!(w.nat.connections(), 0);
}

fn syn_to(to: Ipv4Address, port: u16) -> Vec<u8> {
    use smoltcp::wire::{Ipv4Packet, TcpPacket};
    let from = std::net::SocketAddrV4::new(GUEST, 1234);
    let mut frame = common::datagram(from, std::net::SocketAddrV4::new(to, port), &[0; 12]);
    let mut ip = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.set_next_header(smoltcp::wire::IpProtocol::Tcp);
    ip.fill_checksum();
    let mut tcp = TcpPacket::new_unchecked(ip.payload_mut());
    tcp.set_header_len(20);
    tcp.clear_flags();
    tcp.set_syn(true);
    tcp.set_window_len(1000);
    tcp.fill_checksum(&GUEST.into(), &to.into());
    frame
}

#[test]
fn a_network_that_is_shut() {
    let (port, _server) = serve(|_| ());
    let config = Config {
        restrict: true,
        ..Config::default()
    };
    let mut w = World::new(Nat::new(config).unwrap());
    let h = w.connect(GATEWAY, port);
    w.until_state(h, State::Closed);
    assert_eq!(w.nat.connections(), 0);
}

#[test]
fn broken_off_by_the_host() {
    let (port, server) = serve(|s| {
        let s = socket2::Socket::from(s);
        s.set_linger(Some(Duration::ZERO)).unwrap();
    });
    let mut w = world(&[]);
    w.cable.keep = true;
    let h = w.connect(GATEWAY, port);
    w.until_state(h, State::Closed);
    server.join().unwrap();
    assert!(w.cable.seen.iter().any(|f| is_reset(&f.bytes)));
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
}

#[test]
fn broken_off_by_the_guest() {
    let (port, server) = serve(|mut s| s.read(&mut [0; 10]).map_err(|e| e.kind()));
    let mut w = world(&[]);
    let h = w.connect(GATEWAY, port);
    w.until_state(h, State::Established);
    w.tcp(h).abort();
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
    assert_eq!(server.join().unwrap(), Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_guest_that_is_switched_off() {
    let (port, server) = serve(|mut s| s.read(&mut [0; 10]).map_err(|e| e.kind()));
    let mut w = world(&[]);
    let h = w.connect(GATEWAY, port);
    w.until_state(h, State::Established);
    w.nat.reset();
    assert_eq!(w.nat.connections(), 0);
    assert_eq!(server.join().unwrap(), Err(ErrorKind::ConnectionReset));
}

#[test]
fn segments_of_connections_from_before_are_refused() {
    // As after a snapshot is restored: the guest continues its connections, but the network does
    // not know them.
    let (port, server) = serve(|s| s);
    let mut w = world(&[]);
    let h = w.connect(GATEWAY, port);
    w.until_state(h, State::Established);
    w.nat = Nat::new(Config::default()).unwrap();
    w.write_all(h, b"still there?");
    w.until_state(h, State::Closed);
    drop(server.join());
}

#[test]
fn the_guest_waits_when_the_host_does_not_read() {
    let data = noise(4, LARGE);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (port, server) = serve(move |mut s| {
        wait.recv().unwrap();
        let mut all = Vec::new();
        s.read_to_end(&mut all).unwrap();
        all
    });
    let mut w = world(&[]);
    let h = w.connect(GATEWAY, port);
    w.until_state(h, State::Established);
    let mut sent = 0;
    for _ in 0..20_000 {
        if w.tcp(h).can_send() {
            sent += w.tcp(h).send_slice(&data[sent..]).unwrap();
        }
        if !w.step() && w.tcp(h).send_queue() == 64 << 10 {
            break;
        }
    }
    assert!(sent < LARGE, "nothing stopped the guest");
    go.send(()).unwrap();
    w.write_all(h, &data[sent..]);
    w.tcp(h).close();
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
    assert!(server.join().unwrap() == data);
}

#[test]
fn many_connections() {
    const MANY: usize = 300;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let all: Vec<_> = (0..MANY).map(|_| listener.accept().unwrap().0).collect();
        for mut s in all {
            let mut asked = [0; 8];
            s.read_exact(&mut asked).unwrap();
            s.write_all(&noise(u64::from_le_bytes(asked), 20_000))
                .unwrap();
        }
    });
    let mut w = world(&[]);
    let mut handles = Vec::new();
    for _ in 0..MANY {
        handles.push(w.connect(GATEWAY, port));
        w.step();
    }
    for (i, h) in handles.iter().enumerate() {
        w.write_all(*h, &(i as u64).to_le_bytes());
    }
    assert_eq!(w.nat.connections(), MANY);
    for (i, h) in handles.iter().enumerate() {
        assert!(w.read_all(*h) == noise(i as u64, 20_000));
        w.tcp(*h).close();
    }
    server.join().unwrap();
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
}

#[test]
fn more_connections_than_there_may_be_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut w = world(&[]);
    let server = thread::spawn(move || {
        let mut all = Vec::new();
        while let Ok((s, _)) = listener.accept() {
            if all.len() == 511 {
                break;
            }
            all.push(s);
        }
        all
    });
    let handles: Vec<_> = (0..520)
        .map(|_| {
            let h = w.connect(GATEWAY, port);
            w.step();
            h
        })
        .collect();
    let mut refused = 0;
    for h in handles {
        refused += w.until("an answer", |w| match w.tcp(h).state() {
            State::SynSent => None,
            State::Closed => Some(1),
            _ => Some(0),
        });
    }
    assert_eq!(refused, 8);
    drop(server.join());
}

#[test]
fn the_host_writes_to_the_guest() {
    let mut w = world(&["tcp::0-:80"]);
    let h = w.listen(80);
    let data = noise(5, LARGE);
    let sent = data.clone();
    let c = client(&w, move |mut s| s.write_all(&sent).unwrap());
    w.until_state(h, State::Established);
    assert_eq!(w.tcp(h).remote_endpoint().unwrap().addr, GATEWAY.into());
    assert!(w.read_all(h) == data);
    w.tcp(h).close();
    c.join().unwrap();
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
}

#[test]
fn the_host_reads_from_the_guest() {
    let mut w = world(&["tcp::0-:80"]);
    let h = w.listen(80);
    let data = noise(6, LARGE);
    let c = client(&w, |mut s| {
        let mut all = Vec::new();
        s.read_to_end(&mut all).unwrap();
        all
    });
    w.until_state(h, State::Established);
    w.write_all(h, &data);
    w.tcp(h).close();
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
    assert!(c.join().unwrap() == data);
}

#[test]
fn nobody_listens_in_the_guest() {
    let mut w = world(&["tcp::0-:80"]);
    let c = client(&w, |mut s| s.read(&mut [0; 10]).map_err(|e| e.kind()));
    w.until("the refusal", |w| {
        (c.is_finished() && w.nat.connections() == 0).then_some(())
    });
    assert_eq!(c.join().unwrap(), Err(ErrorKind::ConnectionReset));
}

#[test]
fn clients_wait_for_a_guest() {
    let mut w = world(&["tcp::0-:80"]);
    let guest = |running| Guest {
        mac: common::MAC,
        running,
        segments: false,
    };
    w.nat.set_guest(guest(false));
    let c = client(&w, |mut s| {
        let mut all = String::new();
        s.read_to_string(&mut all).unwrap();
        all
    });
    thread::sleep(Duration::from_millis(20));
    w.steps(100);
    assert_eq!(w.nat.connections(), 0);
    let h = w.listen(80);
    w.nat.set_guest(guest(true));
    w.until_state(h, State::Established);
    w.write_all(h, b"late");
    w.tcp(h).close();
    w.until("the end", |w| (w.nat.connections() == 0).then_some(()));
    assert_eq!(c.join().unwrap(), "late");
}

#[test]
fn a_taken_port_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!("tcp:{}-:80", taken.local_addr().unwrap());
    let config = Config {
        forwards: vec![text.parse().unwrap()],
        ..Config::default()
    };
    let Err(e) = Nat::new(config) else {
        panic!("the port was taken");
    };
    assert!(e.to_string().contains("cannot be forwarded"), "{e}");
}
