//! A private network for the guest behind address translation (NAT).
//!
//! | address | what is there |
//! | --- | --- |
//! | 10.0.2.2 | the gateway; connections and datagrams to it go to the host's loopback |
//! | 10.0.2.3 | the name server |
//! | 10.0.2.15 | the guest, by DHCP |
//!
//! Only IPv4. A connection of the guest is first opened on the host; its SYN waits, and is answered
//! with the result.

mod device;
mod dhcp;
mod dns;
mod fragments;
mod packet;
mod tcp;
mod udp;

use crate::addresses::is_guest;
pub use crate::addresses::{DNS, GATEWAY, GUEST, NETWORK_BITS};
use crate::hosts::{self, Hosts};
use crate::link::{look, Frame, Guest, Link, MAX_FRAME};
use crate::{Error, Forward, Protocol};
use device::Out;
use fragments::Fragments;
use mio::{Events, Poll, Registry, Token};
use packet::{Builder, ETHERNET};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, UdpPacket,
    DHCP_CLIENT_PORT, DHCP_SERVER_PORT,
};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The network's own Ethernet address, locally administered.
const OWN: EthernetAddress = EthernetAddress([0x52, 0x55, 10, 0, 2, 2]);
const DNS_PORT: u16 = 53;
/// Greatest number of events of the host that are handled together.
const EVENTS: usize = 256;

/// Configuration of a network, and the host's names.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Ports of the host that are forwarded to the guest.
    pub forwards: Vec<Forward>,
    /// Whether the guest cannot open connections or send datagrams to the outside; forwarded ports
    /// work.
    pub restrict: bool,
    /// Name servers to ask, in this order.
    pub servers: Vec<SocketAddr>,
    /// Names that are answered without a server.
    pub hosts: Hosts,
}

impl Config {
    /// The host's names and name servers, and no forwarded ports.
    pub fn of_host() -> Config {
        Config {
            forwards: Vec::new(),
            restrict: false,
            servers: hosts::servers_of_host(),
            hosts: Hosts::of_host(),
        }
    }

    /// The address on the host for an address that the guest uses.
    fn target(&self, address: Ipv4Addr, port: u16) -> Option<SocketAddr> {
        if self.restrict || port == 0 {
            return None;
        }
        if address == DNS {
            return self.servers.first().copied().filter(|_| port == DNS_PORT);
        }
        let address = match address {
            GATEWAY => Ipv4Addr::LOCALHOST,
            a if a.octets()[..3] == GATEWAY.octets()[..3] => return None,
            a if a.is_loopback() || a.is_unspecified() => return None,
            // Multicast, reserved, broadcast.
            a if a.octets()[0] >= 224 => return None,
            a => a,
        };
        Some(SocketAddr::from((address, port)))
    }
}

/// An address of the host as the guest sees it.
fn seen(address: Ipv4Addr) -> Ipv4Addr {
    if address.is_loopback() {
        GATEWAY
    } else {
        address
    }
}

/// Shared context of the network's parts during one call.
struct Cx<'a> {
    now: Duration,
    out: &'a mut Out,
    registry: &'a Registry,
    config: &'a Config,
    guest: Guest,
}

/// Which part of the network a socket of the host belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Flow = 0,
    Listener = 1,
    Datagrams = 2,
    DatagramForward = 3,
}

fn token(kind: Kind, id: usize) -> Token {
    Token(id << 2 | kind as usize)
}

/// A private network for a guest behind address translation.
pub struct Nat {
    poll: Poll,
    events: Events,
    config: Config,
    out: Out,
    tcp: tcp::Tcp,
    udp: udp::Udp,
    fragments: Fragments,
    guest: Guest,
    /// Where forwarded ports listen; port 0 is replaced by the port that the host chose.
    forwards: Vec<Forward>,
}

impl Nat {
    /// Opens the host's side of the forwarded ports.
    pub fn new(config: Config) -> Result<Nat, Error> {
        let poll = Poll::new().map_err(Error::Watch)?;
        let mut out = Out::new(Builder::new(OWN, EthernetAddress::BROADCAST));
        let mut nat = Nat {
            tcp: tcp::Tcp::new(&mut out),
            udp: udp::Udp::default(),
            events: Events::with_capacity(EVENTS),
            fragments: Fragments::default(),
            guest: Guest::default(),
            forwards: Vec::new(),
            poll,
            config,
            out,
        };
        for f in nat.config.forwards.clone() {
            let registry = nat.poll.registry();
            let bound = match f.protocol {
                Protocol::Tcp => nat.tcp.listen(registry, f),
                Protocol::Udp => nat.udp.listen(registry, f),
            };
            let host = bound.map_err(|source| Error::Bind {
                address: f.host,
                source,
            })?;
            nat.forwards.push(Forward { host, ..f });
        }
        Ok(nat)
    }

    /// The forwarded ports, with the ports that the host chose.
    pub fn forwards(&self) -> &[Forward] {
        &self.forwards
    }

    /// Connections that are open or being opened.
    pub fn connections(&self) -> usize {
        self.tcp.len()
    }

    fn split(&mut self, now: Duration) -> (Cx<'_>, &mut tcp::Tcp, &mut udp::Udp) {
        let cx = Cx {
            now,
            out: &mut self.out,
            registry: self.poll.registry(),
            config: &self.config,
            guest: self.guest,
        };
        (cx, &mut self.tcp, &mut self.udp)
    }

    fn arp(&mut self, payload: &[u8]) -> Option<()> {
        let packet = ArpPacket::new_checked(payload).ok()?;
        let ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr,
            source_protocol_addr,
            target_protocol_addr,
            ..
        } = ArpRepr::parse(&packet).ok()?
        else {
            return None;
        };
        if ![GATEWAY, DNS].contains(&target_protocol_addr) {
            return None;
        }
        let reply = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply,
            source_hardware_addr: OWN,
            source_protocol_addr: target_protocol_addr,
            target_hardware_addr: source_hardware_addr,
            target_protocol_addr: source_protocol_addr,
        };
        let mut bytes = vec![0; ETHERNET + reply.buffer_len()];
        packet::address(&mut bytes, OWN, source_hardware_addr, false);
        reply.emit(&mut ArpPacket::new_unchecked(&mut bytes[ETHERNET..]));
        self.out.push(Frame::plain(bytes));
        Some(())
    }

    /// Takes a frame with an IPv4 packet.
    fn ipv4(&mut self, now: Duration, bytes: Vec<u8>) -> Option<()> {
        let packet = Ipv4Packet::new_checked(bytes.get(ETHERNET..)?).ok()?;
        if packet.version() != 4 {
            return None;
        }
        let (from, to) = (packet.src_addr(), packet.dst_addr());
        if packet.more_frags() || packet.frag_offset() != 0 {
            let whole = self.fragments.add(now, &bytes)?;
            return self.ipv4(now, whole);
        }
        if packet.next_header() == IpProtocol::Udp {
            let udp = UdpPacket::new_checked(packet.payload()).ok()?;
            if udp.dst_port() == DHCP_SERVER_PORT && (to.is_broadcast() || to == GATEWAY) {
                return self.dhcp(&udp);
            }
        }
        if !is_guest(from) {
            return None;
        }
        match packet.next_header() {
            IpProtocol::Tcp => {
                let (mut cx, tcp, _) = self.split(now);
                tcp.input(&mut cx, bytes)
            }
            IpProtocol::Udp => {
                let (mut cx, _, udp) = self.split(now);
                udp.input(&mut cx, &packet)
            }
            IpProtocol::Icmp => self.icmp(&packet),
            _ => {
                let reason = Icmpv4DstUnreachable::ProtoUnreachable;
                if to == GATEWAY {
                    let reply = self.out.builder.unreachable(to, reason, &packet);
                    self.out.push(reply);
                }
                Some(())
            }
        }
    }

    fn dhcp(&mut self, udp: &UdpPacket<&[u8]>) -> Option<()> {
        let answer = dhcp::answer(udp.payload())?;
        let from = SocketAddrV4::new(GATEWAY, DHCP_SERVER_PORT);
        let to = SocketAddrV4::new(answer.to, DHCP_CLIENT_PORT);
        for frame in self.out.builder.udp(from, to, &answer.bytes) {
            self.out.push(frame);
        }
        Some(())
    }

    fn icmp(&mut self, packet: &Ipv4Packet<&[u8]>) -> Option<()> {
        let to = packet.dst_addr();
        if ![GATEWAY, DNS].contains(&to) {
            return None;
        }
        let icmp = Icmpv4Packet::new_checked(packet.payload()).ok()?;
        let Icmpv4Repr::EchoRequest {
            ident,
            seq_no,
            data,
        } = Icmpv4Repr::parse(&icmp, &Default::default()).ok()?
        else {
            return None;
        };
        let reply = Icmpv4Repr::EchoReply {
            ident,
            seq_no,
            data,
        };
        let reply = self.out.builder.icmp(to, packet.src_addr(), &reply);
        if reply.bytes.len() <= ETHERNET + packet::MTU {
            self.out.push(reply);
        }
        Some(())
    }
}

impl Link for Nat {
    fn name(&self) -> &'static str {
        "user"
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_ready(&self) -> bool {
        !self.out.is_full()
    }

    fn send(&mut self, now: Duration, frame: Frame) {
        let bytes = frame.bytes;
        if bytes.len() > MAX_FRAME {
            return;
        }
        let Ok(ethernet) = EthernetFrame::new_checked(&bytes[..]) else {
            return;
        };
        let (from, to) = (ethernet.src_addr(), ethernet.dst_addr());
        if !from.is_unicast() || (to != OWN && to.is_unicast()) {
            return;
        }
        self.out.builder.guest = from;
        // `None` means that no answer was needed.
        let _ = match ethernet.ethertype() {
            EthernetProtocol::Arp => {
                let payload = ethernet.payload().to_vec();
                self.arp(&payload)
            }
            EthernetProtocol::Ipv4 => self.ipv4(now, bytes),
            _ => None,
        };
    }

    fn run(&mut self, now: Duration) {
        let (mut cx, tcp, udp) = self.split(now);
        udp.run(&mut cx);
        tcp.run(&mut cx);
    }

    fn poll(&mut self, now: Duration) -> Result<(), Error> {
        look(&mut self.poll, &mut self.events)?;
        for event in &self.events {
            let Token(t) = event.token();
            let id = t >> 2;
            match t & 3 {
                t if t == Kind::Flow as usize => self.tcp.event(id, event),
                t if t == Kind::Listener as usize => self.tcp.ready(id),
                t if t == Kind::Datagrams as usize => self.udp.ready(id),
                _ => self.udp.forward_ready(id),
            }
        }
        self.run(now);
        Ok(())
    }

    fn receive(&mut self) -> Option<Frame> {
        self.out.pop()
    }

    fn next_time(&mut self, now: Duration) -> Option<Duration> {
        // Work that waits until the guest accepts frames is done then.
        if self.out.is_full() {
            None
        } else {
            self.tcp.next_time(now)
        }
    }

    fn wait_fd(&self) -> BorrowedFd<'_> {
        self.poll.registry().as_fd()
    }

    fn is_live(&self, now: Duration) -> bool {
        let open = self.guest.running && !self.forwards.is_empty();
        open || self.tcp.len() > 0 || self.udp.is_live(now)
    }

    fn set_guest(&mut self, guest: Guest) {
        // A guest that was resumed from a snapshot may wait for others to begin.
        if self.out.builder.guest == EthernetAddress::BROADCAST {
            self.out.builder.guest = EthernetAddress(guest.mac);
        }
        self.guest = guest;
        self.out.segments = guest.segments;
        self.tcp.device_changed(&mut self.out);
    }

    fn reset(&mut self) {
        self.tcp.clear(&mut self.out);
        self.udp.clear();
        self.fragments.clear();
        self.out.clear();
        self.guest.running = false;
    }
}
