//! A guest made of smoltcp's stack, connected to the network under test.
#![allow(dead_code)]

use nagori_usernet::{Frame, Guest, Link, Nat, GATEWAY, GUEST, NETWORK_BITS};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpCidr, IpProtocol,
    Ipv4Address, Ipv4Cidr, Ipv4Packet, Ipv4Repr, TcpPacket, UdpPacket, UdpRepr,
};
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::time::{Duration, Instant as HostInstant};

pub const MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x15];
/// Real time after which a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Frames between guest and network.
#[derive(Default)]
pub struct Cable {
    pub to_guest: VecDeque<Vec<u8>>,
    pub from_guest: VecDeque<Vec<u8>>,
    /// Frames for the guest that were seen, for tests that look at them.
    pub seen: Vec<Frame>,
    pub keep: bool,
}

pub struct Rx(Vec<u8>);
pub struct Tx<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Rx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut bytes = vec![0; len];
        let result = f(&mut bytes);
        self.0.push_back(bytes);
        result
    }
}

impl Device for Cable {
    type RxToken<'a> = Rx;
    type TxToken<'a> = Tx<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Rx, Tx<'_>)> {
        let frame = self.to_guest.pop_front()?;
        Some((Rx(frame), Tx(&mut self.from_guest)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Tx<'_>> {
        Some(Tx(&mut self.from_guest))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut c = DeviceCapabilities::default();
        c.medium = Medium::Ethernet;
        c.max_transmission_unit = 1514;
        c
    }
}

pub struct World {
    pub nat: Nat,
    pub cable: Cable,
    pub interface: Interface,
    pub sockets: SocketSet<'static>,
    pub now: Duration,
    began: HostInstant,
    next_port: u16,
}

pub fn instant(now: Duration) -> Instant {
    Instant::from_micros(now.as_micros() as i64)
}

impl World {
    /// A guest with the address that DHCP would give it.
    pub fn new(nat: Nat) -> World {
        let mut w = World::without_address(nat);
        w.set_address(GUEST);
        w
    }

    pub fn without_address(mut nat: Nat) -> World {
        nat.set_guest(Guest {
            mac: MAC,
            running: true,
            segments: false,
        });
        let mut cable = Cable::default();
        let config = Config::new(EthernetAddress(MAC).into());
        let interface = Interface::new(config, &mut cable, Instant::ZERO);
        World {
            nat,
            cable,
            interface,
            sockets: SocketSet::new(Vec::new()),
            now: Duration::from_secs(1),
            began: HostInstant::now(),
            next_port: 40_000,
        }
    }

    pub fn set_address(&mut self, address: Ipv4Address) {
        self.interface.update_ip_addrs(|a| {
            a.clear();
            let cidr = Ipv4Cidr::new(address, NETWORK_BITS);
            a.push(IpCidr::Ipv4(cidr)).unwrap();
        });
        let routes = self.interface.routes_mut();
        routes.add_default_ipv4_route(GATEWAY).unwrap();
    }

    /// Advances time and moves frames in both directions. Returns whether there were any.
    pub fn step(&mut self) -> bool {
        self.now += Duration::from_micros(200);
        let now = instant(self.now);
        self.interface.poll(now, &mut self.cable, &mut self.sockets);
        let mut moved = false;
        while self.nat.is_ready() {
            let Some(frame) = self.cable.from_guest.pop_front() else {
                break;
            };
            moved = true;
            self.nat.send(self.now, Frame::plain(frame));
        }
        self.nat.poll(self.now).unwrap();
        while let Some(frame) = self.nat.receive() {
            moved = true;
            if self.cable.keep {
                self.cable.seen.push(frame.clone());
            }
            // As hardware would do it.
            for part in nagori_usernet::finish(frame).unwrap() {
                self.cable.to_guest.push_back(part.bytes);
            }
        }
        if !moved {
            std::thread::sleep(Duration::from_micros(100));
        }
        moved
    }

    /// Steps until a condition holds.
    pub fn until<T>(&mut self, what: &str, mut f: impl FnMut(&mut World) -> Option<T>) -> T {
        loop {
            if let Some(t) = f(self) {
                return t;
            }
            assert!(self.began.elapsed() < PATIENCE, "waited too long: {what}");
            self.step();
        }
    }

    pub fn steps(&mut self, n: usize) {
        for _ in 0..n {
            self.step();
        }
    }

    pub fn tcp(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    pub fn new_tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 64 << 10]);
        self.sockets.add(tcp::Socket::new(buffer(), buffer()))
    }

    /// Begins a connection.
    pub fn connect(&mut self, to: Ipv4Address, port: u16) -> SocketHandle {
        let handle = self.new_tcp();
        self.next_port += 1;
        let socket: &mut tcp::Socket = self.sockets.get_mut(handle);
        socket
            .connect(self.interface.context(), (to, port), self.next_port)
            .unwrap();
        handle
    }

    pub fn listen(&mut self, port: u16) -> SocketHandle {
        let handle = self.new_tcp();
        self.tcp(handle).listen(port).unwrap();
        handle
    }

    pub fn until_state(&mut self, handle: SocketHandle, state: tcp::State) {
        self.until(&format!("{state}"), |w| {
            (w.tcp(handle).state() == state).then_some(())
        });
    }

    /// All that comes until the other side ends.
    pub fn read_all(&mut self, handle: SocketHandle) -> Vec<u8> {
        let mut all = Vec::new();
        self.until("the end of data", |w| {
            let s = w.tcp(handle);
            while s.can_recv() {
                s.recv(|d| {
                    all.extend_from_slice(d);
                    (d.len(), ())
                })
                .unwrap();
            }
            (!s.may_recv() && s.state() != tcp::State::SynSent).then_some(())
        });
        all
    }

    pub fn write_all(&mut self, handle: SocketHandle, mut data: &[u8]) {
        self.until("room for data", |w| {
            let s = w.tcp(handle);
            if s.can_send() {
                let n = s.send_slice(data).unwrap();
                data = &data[n..];
            }
            data.is_empty().then_some(())
        });
    }
}

/// Bytes that depend on a seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed | 1;
    let step = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    std::iter::repeat_with(step).take(len).collect()
}

/// A datagram of the guest.
pub fn datagram(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let udp = UdpRepr {
        src_port: from.port(),
        dst_port: to.port(),
    };
    let ip = Ipv4Repr {
        src_addr: *from.ip(),
        dst_addr: *to.ip(),
        next_header: IpProtocol::Udp,
        payload_len: 8 + payload.len(),
        hop_limit: 64,
    };
    let mut bytes = vec![0; 14 + 20 + 8 + payload.len()];
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(MAC),
        dst_addr: EthernetAddress::BROADCAST,
        ethertype: EthernetProtocol::Ipv4,
    };
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut bytes[..]));
    let caps = ChecksumCapabilities::default();
    let mut packet = Ipv4Packet::new_unchecked(&mut bytes[14..]);
    ip.emit(&mut packet, &caps);
    udp.emit(
        &mut UdpPacket::new_unchecked(packet.payload_mut()),
        &ip.src_addr.into(),
        &ip.dst_addr.into(),
        payload.len(),
        |p| p.copy_from_slice(payload),
        &caps,
    );
    bytes
}

/// Source, destination and payload of a frame with a datagram whose checksums are right.
pub fn read_datagram(frame: &[u8]) -> Option<(SocketAddrV4, SocketAddrV4, Vec<u8>)> {
    let ip = Ipv4Packet::new_checked(frame.get(14..)?).ok()?;
    let udp = UdpPacket::new_checked(ip.payload()).ok()?;
    let (from, to) = (ip.src_addr(), ip.dst_addr());
    if ip.next_header() != IpProtocol::Udp || !ip.verify_checksum() {
        return None;
    }
    assert!(udp.verify_checksum(&from.into(), &to.into()));
    Some((
        SocketAddrV4::new(from, udp.src_port()),
        SocketAddrV4::new(to, udp.dst_port()),
        udp.payload().to_vec(),
    ))
}

/// Whether a frame breaks a connection off.
pub fn is_reset(frame: &[u8]) -> bool {
    let reset = |f: &[u8]| {
        let ip = Ipv4Packet::new_checked(f.get(14..)?).ok()?;
        let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
        Some(ip.next_header() == IpProtocol::Tcp && tcp.rst())
    };
    reset(frame).unwrap_or(false)
}
