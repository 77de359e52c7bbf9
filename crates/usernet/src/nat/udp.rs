//! Datagrams: one socket of the host for each port that the guest sends from.

use super::{dns, seen, token, Cx, Kind, DNS, DNS_PORT, GATEWAY};
use crate::Forward;
use mio::net::UdpSocket;
use mio::{Interest, Registry};
use smoltcp::wire::{Icmpv4DstUnreachable, Ipv4Packet, UdpPacket};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// Greatest number of guest ports that have a socket on the host; the longest idle one is closed
/// for a new one.
const FLOWS: usize = 256;
/// Greatest number of clients of all forwarded ports; the longest idle one is dropped for a new
/// one.
const CLIENTS: usize = 256;
/// Greatest number of addresses that may answer to one port.
const PEERS: usize = 64;
/// Number of queries that are remembered, so that a repetition goes to the next server.
const QUERIES: usize = 64;
/// How long an idle port keeps its socket, in guest time (RFC 4787 asks for 2 minutes).
const IDLE: Duration = Duration::from_secs(120);
/// How long an answer is awaited.
const WAIT: Duration = Duration::from_secs(10);
/// How long further datagrams are expected after one.
const LULL: Duration = Duration::from_secs(1);
/// Longest datagram.
const LONGEST: usize = 65_535;
const FIRST_PORT: u16 = 49_152;

/// Where datagrams from a guest's port go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    /// To any address.
    Any,
    /// To a name server of the host, by its index.
    Server(usize),
}

struct Flow {
    guest: SocketAddrV4,
    to: To,
    socket: UdpSocket,
    readable: bool,
    /// Addresses that the guest has sent to.
    peers: VecDeque<Ipv4Addr>,
    last: Duration,
    /// Whether an answer is expected.
    waiting: bool,
    /// The last query, to be answered if there is no server.
    query: Vec<u8>,
}

struct Inward {
    socket: UdpSocket,
    guest: SocketAddrV4,
    readable: bool,
}

/// A client of a forwarded port.
struct Client {
    forward: usize,
    address: SocketAddr,
    last: Duration,
}

#[derive(Default)]
pub(super) struct Udp {
    flows: BTreeMap<usize, Flow>,
    by_key: BTreeMap<(SocketAddrV4, To), usize>,
    forwards: BTreeMap<usize, Inward>,
    /// By the guest's address and port, and the gateway's port that represents the client.
    clients: BTreeMap<(SocketAddrV4, u16), Client>,
    /// Queries and how often they were seen, oldest first.
    queries: VecDeque<(SocketAddrV4, u16, usize)>,
    next: usize,
    swept: Duration,
}

impl Udp {
    pub fn listen(&mut self, registry: &Registry, f: Forward) -> io::Result<SocketAddr> {
        let mut socket = UdpSocket::bind(f.host)?;
        let host = socket.local_addr()?;
        let id = self.forwards.len();
        let token = token(Kind::DatagramForward, id);
        registry.register(&mut socket, token, Interest::READABLE)?;
        let inward = Inward {
            socket,
            guest: f.guest,
            readable: false,
        };
        self.forwards.insert(id, inward);
        Ok(host)
    }

    /// Forgets the guest's sockets and queries; forwarded ports stay.
    pub fn clear(&mut self) {
        self.flows.clear();
        self.by_key.clear();
        self.clients.clear();
        self.queries.clear();
        self.swept = Duration::ZERO;
    }

    /// Something has arrived at a guest's port.
    pub fn ready(&mut self, id: usize) {
        if let Some(f) = self.flows.get_mut(&id) {
            f.readable = true;
        }
    }

    /// Something has arrived at a forwarded port.
    pub fn forward_ready(&mut self, id: usize) {
        if let Some(f) = self.forwards.get_mut(&id) {
            f.readable = true;
        }
    }

    /// Whether a datagram from outside is expected.
    pub fn is_live(&self, now: Duration) -> bool {
        let since = |t: Duration| now.saturating_sub(t);
        let flow = |f: &Flow| since(f.last) < if f.waiting { WAIT } else { LULL };
        self.flows.values().any(flow)
    }

    /// Takes a datagram of the guest.
    pub fn input(&mut self, cx: &mut Cx<'_>, packet: &Ipv4Packet<&[u8]>) -> Option<()> {
        let udp = UdpPacket::new_checked(packet.payload()).ok()?;
        let guest = SocketAddrV4::new(packet.src_addr(), udp.src_port());
        let remote = SocketAddrV4::new(packet.dst_addr(), udp.dst_port());
        if guest.port() == 0 {
            return None;
        }
        if *remote.ip() == GATEWAY {
            if let Some(c) = self.clients.get_mut(&(guest, remote.port())) {
                c.last = cx.now;
                // A datagram that cannot be sent is lost, as UDP allows.
                let _ = self.forwards[&c.forward]
                    .socket
                    .send_to(udp.payload(), c.address);
                return Some(());
            }
        }
        if *remote.ip() == DNS && remote.port() == DNS_PORT {
            self.query(cx, guest, udp.payload());
            return Some(());
        }
        let target = match cx.config.target(*remote.ip(), remote.port()) {
            Some(SocketAddr::V4(t)) => t,
            _ => {
                if is_reachable(*remote.ip()) {
                    let reason = Icmpv4DstUnreachable::CommProhibited;
                    let frame = cx.out.builder.unreachable(GATEWAY, reason, packet);
                    cx.out.push(frame);
                }
                return None;
            }
        };
        let f = self.flow(cx, guest, To::Any)?;
        f.expect(*target.ip());
        f.waiting = true;
        if let Err(e) = f.socket.send_to(udp.payload(), target.into()) {
            let reason = match e.kind() {
                ErrorKind::NetworkUnreachable => Icmpv4DstUnreachable::NetUnreachable,
                ErrorKind::HostUnreachable => Icmpv4DstUnreachable::HostUnreachable,
                ErrorKind::ConnectionRefused => Icmpv4DstUnreachable::PortUnreachable,
                _ => return None,
            };
            let frame = cx.out.builder.unreachable(GATEWAY, reason, packet);
            cx.out.push(frame);
        }
        Some(())
    }

    /// Answers a query, or passes it on.
    fn query(&mut self, cx: &mut Cx<'_>, guest: SocketAddrV4, query: &[u8]) {
        match dns::look(query, &cx.config.hosts) {
            dns::Verdict::Drop => return,
            dns::Verdict::Answer(a) => return answer(cx, guest, &a),
            dns::Verdict::Ask => {}
        }
        let count = cx.config.servers.len();
        let first = self.repetitions(guest, u16::from_be_bytes([query[0], query[1]]));
        let asked = !cx.config.restrict
            && (0..count).any(|i| {
                let server = (first + i) % count;
                self.flow(cx, guest, To::Server(server)).is_some_and(|f| {
                    f.waiting = true;
                    f.query = query.to_vec();
                    f.socket.send(query).is_ok()
                })
            });
        if !asked {
            if let Some(a) = dns::failure(query) {
                answer(cx, guest, &a);
            }
        }
    }

    /// How often a query was seen before.
    fn repetitions(&mut self, guest: SocketAddrV4, id: u16) -> usize {
        let known = |q: &&mut (SocketAddrV4, u16, usize)| q.0.ip() == guest.ip() && q.1 == id;
        if let Some(q) = self.queries.iter_mut().find(known) {
            q.2 += 1;
            return q.2;
        }
        if self.queries.len() == QUERIES {
            self.queries.pop_front();
        }
        self.queries.push_back((guest, id, 0));
        0
    }

    /// The socket for a port of the guest.
    fn flow(&mut self, cx: &mut Cx<'_>, guest: SocketAddrV4, to: To) -> Option<&mut Flow> {
        let key = (guest, to);
        if !self.by_key.contains_key(&key) {
            let mut socket = open(cx, to).ok()?;
            let id = self.next;
            self.next += 1;
            let token = token(Kind::Datagrams, id);
            cx.registry
                .register(&mut socket, token, Interest::READABLE)
                .ok()?;
            if self.flows.len() >= FLOWS {
                let oldest = self.flows.iter().min_by_key(|(_, f)| f.last);
                let oldest = oldest.map(|(id, _)| *id)?;
                self.remove(cx, oldest);
            }
            let flow = Flow {
                guest,
                to,
                socket,
                readable: false,
                peers: VecDeque::new(),
                last: cx.now,
                waiting: false,
                query: Vec::new(),
            };
            self.flows.insert(id, flow);
            self.by_key.insert(key, id);
        }
        let f = self.flows.get_mut(self.by_key.get(&key)?)?;
        f.last = cx.now;
        Some(f)
    }

    fn remove(&mut self, cx: &mut Cx<'_>, id: usize) {
        if let Some(mut f) = self.flows.remove(&id) {
            self.by_key.remove(&(f.guest, f.to));
            let _ = cx.registry.deregister(&mut f.socket);
        }
    }

    pub fn run(&mut self, cx: &mut Cx<'_>) {
        self.sweep(cx);
        let mut buffer = Vec::new();
        for f in self.flows.values_mut().filter(|f| f.readable) {
            buffer.resize(LONGEST, 0);
            f.receive(cx, &mut buffer);
        }
        if !cx.guest.running {
            return;
        }
        let ready: Vec<usize> = self
            .forwards
            .iter()
            .filter_map(|(id, f)| f.readable.then_some(*id))
            .collect();
        for id in ready {
            buffer.resize(LONGEST, 0);
            self.lead_in(cx, id, &mut buffer);
        }
    }

    /// Closes idle ports.
    fn sweep(&mut self, cx: &mut Cx<'_>) {
        if cx.now.saturating_sub(self.swept) < LULL {
            return;
        }
        self.swept = cx.now;
        let idle = |t: Duration| cx.now.saturating_sub(t) >= IDLE;
        self.clients.retain(|_, c| !idle(c.last));
        let old: Vec<usize> = self
            .flows
            .iter()
            .filter_map(|(id, f)| idle(f.last).then_some(*id))
            .collect();
        for id in old {
            self.remove(cx, id);
        }
    }

    /// Delivers datagrams of a forwarded port to the guest.
    fn lead_in(&mut self, cx: &mut Cx<'_>, id: usize, buffer: &mut [u8]) {
        while !cx.out.is_full() {
            let Some(f) = self.forwards.get_mut(&id) else {
                return;
            };
            let (n, from) = match f.socket.recv_from(buffer) {
                Ok(r) => r,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    f.readable = false;
                    return;
                }
                // An error from a client does not concern the guest.
                Err(_) => continue,
            };
            let guest = f.guest;
            let Some(port) = self.client(cx.now, id, guest, from) else {
                continue;
            };
            let source = SocketAddrV4::new(GATEWAY, port);
            for frame in cx.out.builder.udp(source, guest, &buffer[..n]) {
                cx.out.push(frame);
            }
        }
    }

    /// The gateway's port that represents a client.
    fn client(
        &mut self,
        now: Duration,
        forward: usize,
        guest: SocketAddrV4,
        address: SocketAddr,
    ) -> Option<u16> {
        let same = |c: &Client| c.forward == forward && c.address == address;
        if let Some(((_, port), c)) = self.clients.iter_mut().find(|(_, c)| same(c)) {
            c.last = now;
            return Some(*port);
        }
        if self.clients.len() >= CLIENTS {
            let oldest = self.clients.iter().min_by_key(|(_, c)| c.last);
            let oldest = oldest.map(|(key, _)| *key)?;
            self.clients.remove(&oldest);
        }
        let free = |port: &u16| !self.clients.contains_key(&(guest, *port));
        let port = std::iter::once(address.port())
            .chain(FIRST_PORT..=u16::MAX)
            .find(free)?;
        let client = Client {
            forward,
            address,
            last: now,
        };
        self.clients.insert((guest, port), client);
        Some(port)
    }
}

fn open(cx: &Cx<'_>, to: To) -> io::Result<UdpSocket> {
    let any4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    match to {
        To::Any => UdpSocket::bind(any4),
        To::Server(n) => {
            let server = cx.config.servers[n];
            let any = match server {
                SocketAddr::V4(_) => any4,
                SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            };
            let socket = UdpSocket::bind(any)?;
            // So that an ICMP error of a missing server is received.
            socket.connect(server)?;
            Ok(socket)
        }
    }
}

/// Whether an address could be that of a host, so that the guest is told if it cannot be reached.
fn is_reachable(address: Ipv4Addr) -> bool {
    !address.is_multicast() && !address.is_broadcast() && address.octets()[3] != 255
}

fn answer(cx: &mut Cx<'_>, guest: SocketAddrV4, message: &[u8]) {
    let from = SocketAddrV4::new(DNS, DNS_PORT);
    for frame in cx.out.builder.udp(from, guest, message) {
        cx.out.push(frame);
    }
}

impl Flow {
    /// Allows an address to answer.
    fn expect(&mut self, peer: Ipv4Addr) {
        if !self.peers.contains(&peer) {
            if self.peers.len() == PEERS {
                self.peers.pop_front();
            }
            self.peers.push_back(peer);
        }
    }

    /// Delivers datagrams that have arrived to the guest.
    fn receive(&mut self, cx: &mut Cx<'_>, buffer: &mut [u8]) {
        while !cx.out.is_full() {
            let (n, from) = match self.socket.recv_from(buffer) {
                Ok(r) => r,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => {
                    // No program listens at the server's port.
                    let query = std::mem::take(&mut self.query);
                    if let Some(a) = dns::failure(&query) {
                        answer(cx, self.guest, &a);
                        self.waiting = false;
                    }
                    continue;
                }
            };
            let data = &buffer[..n];
            match (self.to, from) {
                (To::Server(_), _) => answer(cx, self.guest, data),
                (To::Any, SocketAddr::V4(from)) if self.peers.contains(from.ip()) => {
                    let source = SocketAddrV4::new(seen(*from.ip()), from.port());
                    for frame in cx.out.builder.udp(source, self.guest, data) {
                        cx.out.push(frame);
                    }
                }
                // No query was sent to that server.
                _ => continue,
            }
            self.waiting = false;
            self.last = cx.now;
        }
    }
}
