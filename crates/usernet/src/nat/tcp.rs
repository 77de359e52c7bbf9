//! TCP connections: one end in smoltcp's stack, towards the guest, the other a socket of the host.

use super::device::Out;
use super::packet::ETHERNET;
use super::{token, Cx, Kind, GATEWAY, NETWORK_BITS};
use crate::Forward;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{self, State};
use smoltcp::time::Instant;
use smoltcp::wire::{
    HardwareAddress, Icmpv4DstUnreachable, IpCidr, IpListenEndpoint, Ipv4Cidr, Ipv4Packet,
    TcpPacket,
};
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// Greatest number of connections.
pub(super) const FLOWS: usize = 512;
/// Bytes buffered between the guest and the host, for each direction of a connection.
const BUFFER: usize = 128 << 10;
/// How long the guest may leave data unacknowledged, in guest time.
const TIMEOUT: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(300);
/// Greatest number of rounds of sending and moving in one call, so that a call ends.
const ROUNDS: usize = 64;
/// Packets of each connection in one round.
const BURST: usize = 256;
/// First port that represents a client of the host whose own port is in use.
const FIRST_PORT: u16 = 49_152;
/// Shortest time to the next call, so that the guest is not stopped all the time.
const TICK: Duration = Duration::from_millis(1);

/// The guest's end, and the other end as the guest sees it.
type Key = (SocketAddrV4, SocketAddrV4);

enum Stage {
    /// The host's connection is being opened; the guest's SYN waits.
    Connecting(Vec<u8>),
    /// Both ends are there.
    Open(SocketHandle),
}

struct Flow {
    key: Key,
    host: TcpStream,
    stage: Stage,
    /// Readiness as last reported by the host, until a call would block.
    readable: bool,
    writable: bool,
    /// The host's side has sent all its data.
    host_ended: bool,
    /// The guest has sent all its data, and the host has been told.
    guest_ended: bool,
}

struct Listener {
    socket: TcpListener,
    guest: SocketAddrV4,
    ready: bool,
}

pub(super) struct Tcp {
    interface: Interface,
    sockets: SocketSet<'static>,
    flows: BTreeMap<usize, Flow>,
    by_key: BTreeMap<Key, usize>,
    listeners: BTreeMap<usize, Listener>,
    next: usize,
}

fn instant(now: Duration) -> Instant {
    Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

fn interface(out: &mut Out) -> Interface {
    let mut interface = Interface::new(Config::new(HardwareAddress::Ip), out, Instant::ZERO);
    interface.update_ip_addrs(|a| {
        a.push(IpCidr::Ipv4(Ipv4Cidr::new(GATEWAY, NETWORK_BITS)))
            .expect("there is room for one address");
    });
    // The NAT answers every address that the guest connects to.
    interface.set_any_ip(true);
    interface
        .routes_mut()
        .add_default_ipv4_route(GATEWAY)
        .expect("there is room for one route");
    interface
}

fn would_block(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
    let mut s = tcp::Socket::new(buffer(), buffer());
    s.set_nagle_enabled(false);
    s.set_ack_delay(None);
    s.set_timeout(Some(TIMEOUT));
    s
}

impl Tcp {
    pub fn new(out: &mut Out) -> Tcp {
        Tcp {
            interface: interface(out),
            sockets: SocketSet::new(Vec::new()),
            flows: BTreeMap::new(),
            by_key: BTreeMap::new(),
            listeners: BTreeMap::new(),
            next: 0,
        }
    }

    /// The capabilities of the guest's interface have changed.
    pub fn device_changed(&mut self, out: &mut Out) {
        self.interface = interface(out);
    }

    /// Number of connections that are open or being opened.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Ends all connections, as when a guest is switched off.
    pub fn clear(&mut self, out: &mut Out) {
        for flow in self.flows.values() {
            reset_host(&flow.host);
        }
        self.flows.clear();
        self.by_key.clear();
        self.sockets = SocketSet::new(Vec::new());
        self.device_changed(out);
    }

    pub fn listen(&mut self, registry: &Registry, f: Forward) -> io::Result<SocketAddr> {
        let mut socket = TcpListener::bind(f.host)?;
        let host = socket.local_addr()?;
        let id = self.listeners.len();
        registry.register(&mut socket, token(Kind::Listener, id), Interest::READABLE)?;
        let listener = Listener {
            socket,
            guest: f.guest,
            ready: false,
        };
        self.listeners.insert(id, listener);
        Ok(host)
    }

    /// A client wants to connect to a forwarded port.
    pub fn ready(&mut self, id: usize) {
        if let Some(l) = self.listeners.get_mut(&id) {
            l.ready = true;
        }
    }

    /// Handles an event at the host's end of a connection.
    pub fn event(&mut self, id: usize, event: &Event) {
        if let Some(f) = self.flows.get_mut(&id) {
            f.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
            f.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
        }
    }

    /// Takes a frame with a TCP packet of the guest.
    pub fn input(&mut self, cx: &mut Cx<'_>, frame: Vec<u8>) -> Option<()> {
        let packet = Ipv4Packet::new_checked(&frame[ETHERNET..]).ok()?;
        let segment = TcpPacket::new_checked(packet.payload()).ok()?;
        if segment.dst_port() == 0 || segment.src_port() == 0 {
            return None;
        }
        let key = (
            SocketAddrV4::new(packet.src_addr(), segment.src_port()),
            SocketAddrV4::new(packet.dst_addr(), segment.dst_port()),
        );
        let connecting = match self.by_key.get(&key) {
            Some(id) => matches!(self.flows[id].stage, Stage::Connecting(_)).then_some(*id),
            None if segment.syn() && !segment.ack() && !segment.rst() => {
                let target = cx.config.target(*key.1.ip(), key.1.port());
                let target = target.filter(|_| self.flows.len() < FLOWS);
                let Some(target) = target else {
                    let refusal = cx.out.builder.refuse(&packet, &segment);
                    cx.out.push(refusal);
                    return Some(());
                };
                match TcpStream::connect(target) {
                    Ok(host) => self.add(cx, key, host, Stage::Connecting(frame)),
                    Err(e) => refuse(cx, &frame, &e),
                }
                return Some(());
            }
            None => None,
        };
        match connecting {
            Some(id) if segment.rst() => self.remove(cx, id),
            // The guest has repeated its SYN.
            Some(_) => {}
            None => self.give(cx, frame),
        }
        Some(())
    }

    /// Passes a frame to the stack.
    fn give(&mut self, cx: &mut Cx<'_>, frame: Vec<u8>) {
        cx.out.given = Some(frame);
        self.interface
            .poll_ingress_single(instant(cx.now), cx.out, &mut self.sockets);
        cx.out.given = None;
    }

    fn add(&mut self, cx: &mut Cx<'_>, key: Key, mut host: TcpStream, stage: Stage) {
        let id = self.next;
        self.next += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        if cx
            .registry
            .register(&mut host, token(Kind::Flow, id), interest)
            .is_err()
        {
            // The guest will repeat its SYN.
            return;
        }
        let open = matches!(stage, Stage::Open(_));
        let flow = Flow {
            key,
            host,
            stage,
            readable: open,
            writable: open,
            host_ended: false,
            guest_ended: false,
        };
        self.flows.insert(id, flow);
        self.by_key.insert(key, id);
    }

    fn remove(&mut self, cx: &mut Cx<'_>, id: usize) {
        let Some(mut f) = self.flows.remove(&id) else {
            return;
        };
        self.by_key.remove(&f.key);
        // The socket is removed, and with it this.
        let _ = cx.registry.deregister(&mut f.host);
        if let Stage::Open(handle) = f.stage {
            self.sockets.remove(handle);
        }
        if !(f.host_ended && f.guest_ended) {
            reset_host(&f.host);
        }
    }

    pub fn run(&mut self, cx: &mut Cx<'_>) {
        self.accept(cx);
        self.connect(cx);
        for _ in 0..ROUNDS {
            for _ in 0..BURST {
                let now = instant(cx.now);
                let sent = self.interface.poll_egress(now, cx.out, &mut self.sockets);
                if sent == PollResult::None {
                    break;
                }
            }
            let mut moved = false;
            for f in self.flows.values_mut() {
                if let Stage::Open(handle) = f.stage {
                    moved |= f.pump(self.sockets.get_mut(handle));
                }
            }
            if !moved || cx.out.is_full() {
                break;
            }
        }
        let sockets = &self.sockets;
        let over = |f: &Flow| match f.stage {
            Stage::Open(handle) => {
                let s: &tcp::Socket = sockets.get(handle);
                match s.state() {
                    // Nothing is lost on this link, so nothing has to be retransmitted.
                    State::TimeWait => !cx.out.is_full(),
                    // A connection that was aborted must tell the guest first.
                    State::Closed => s.remote_endpoint().is_none(),
                    _ => false,
                }
            }
            Stage::Connecting(_) => false,
        };
        let ended: Vec<usize> = self
            .flows
            .iter()
            .filter_map(|(id, f)| over(f).then_some(*id))
            .collect();
        for id in ended {
            self.remove(cx, id);
        }
    }

    /// Accepts connections to forwarded ports. They wait on the host until a guest is there.
    fn accept(&mut self, cx: &mut Cx<'_>) {
        if !cx.guest.running || self.listeners.values().all(|l| !l.ready) {
            return;
        }
        let mut taken = Vec::new();
        for l in self.listeners.values_mut() {
            while l.ready && self.flows.len() + taken.len() < FLOWS {
                match l.socket.accept() {
                    Ok((host, client)) => taken.push((host, client, l.guest)),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => l.ready = false,
                    Err(e)
                        if matches!(
                            e.kind(),
                            ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                        ) => {}
                    // For instance too many open files; tried again at the next call.
                    Err(_) => break,
                }
            }
        }
        for (host, client, guest) in taken {
            self.lead_in(cx, host, client, guest);
        }
    }

    /// Connects to the guest on behalf of a client of the host.
    fn lead_in(
        &mut self,
        cx: &mut Cx<'_>,
        host: TcpStream,
        client: SocketAddr,
        guest: SocketAddrV4,
    ) {
        let free = |port: &u16| {
            let key = (guest, SocketAddrV4::new(GATEWAY, *port));
            !self.by_key.contains_key(&key)
        };
        let ports = std::iter::once(client.port()).chain(FIRST_PORT..=u16::MAX);
        let Some(port) = ports.into_iter().find(free) else {
            return;
        };
        let mut s = socket();
        let local = IpListenEndpoint {
            addr: Some(GATEWAY.into()),
            port,
        };
        let remote = (*guest.ip(), guest.port());
        if s.connect(self.interface.context(), remote, local).is_err() {
            return;
        }
        // Only affects delay.
        let _ = host.set_nodelay(true);
        let handle = self.sockets.add(s);
        let key = (guest, SocketAddrV4::new(GATEWAY, port));
        self.add(cx, key, host, Stage::Open(handle));
        if !self.by_key.contains_key(&key) {
            self.sockets.remove(handle);
        }
    }

    /// Answers the guest's SYN once the host knows whether the connection succeeds.
    fn connect(&mut self, cx: &mut Cx<'_>) {
        let waiting: Vec<usize> = self
            .flows
            .iter()
            .filter(|(_, f)| matches!(f.stage, Stage::Connecting(_)) && (f.writable || f.readable))
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let f = self.flows.get_mut(&id).expect("it was just seen");
            let Stage::Connecting(syn) = &mut f.stage else {
                continue;
            };
            let outcome = match f.host.take_error() {
                Ok(None) => f.host.peer_addr().map(|_| ()),
                Ok(Some(e)) | Err(e) => Err(e),
            };
            match outcome {
                Ok(()) => {
                    let syn = std::mem::take(syn);
                    self.lead_out(cx, id, syn);
                }
                Err(e) if e.kind() == ErrorKind::NotConnected => {
                    (f.readable, f.writable) = (false, false);
                }
                Err(e) => {
                    let syn = std::mem::take(syn);
                    f.host_ended = true;
                    f.guest_ended = true;
                    self.remove(cx, id);
                    refuse(cx, &syn, &e);
                }
            }
        }
    }

    /// The host is connected: the guest's SYN is passed on to the stack.
    fn lead_out(&mut self, cx: &mut Cx<'_>, id: usize, syn: Vec<u8>) {
        let f = self.flows.get_mut(&id).expect("the caller has seen it");
        let _ = f.host.set_nodelay(true);
        (f.readable, f.writable) = (true, true);
        let (guest, remote) = f.key;
        let mut s = socket();
        let here = IpListenEndpoint {
            addr: Some((*remote.ip()).into()),
            port: remote.port(),
        };
        let listening = s.listen(here).is_ok();
        let handle = self.sockets.add(s);
        f.stage = Stage::Open(handle);
        self.give(cx, syn);
        let s: &tcp::Socket = self.sockets.get(handle);
        let from = s.remote_endpoint();
        let met = from.is_some_and(|e| e.addr == (*guest.ip()).into() && e.port == guest.port());
        if !listening || !met {
            // The stack did not accept the SYN.
            self.remove(cx, id);
        }
    }

    pub fn next_time(&mut self, now: Duration) -> Option<Duration> {
        if self.flows.is_empty() {
            return None;
        }
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        let at = Duration::from_micros(u64::try_from(at.total_micros()).unwrap_or(0));
        Some(at.max(now + TICK))
    }
}

impl Flow {
    /// Moves data between both ends; returns whether any was moved.
    fn pump(&mut self, s: &mut tcp::Socket<'static>) -> bool {
        let mut moved = false;
        while self.writable && s.can_recv() {
            let host = &mut self.host;
            // Data that the host does not accept stays in the stack's buffer, and narrows the
            // guest's window.
            let result = s.recv(|data| match host.write(data) {
                Ok(n) => (n, Ok(n)),
                Err(e) => (0, Err(e)),
            });
            match result {
                Ok(Ok(0)) | Err(_) => break,
                Ok(Ok(_)) => moved = true,
                Ok(Err(e)) if would_block(&e) => self.writable = false,
                Ok(Err(_)) => return self.break_off(s),
            }
        }
        let begun = !matches!(
            s.state(),
            State::Listen | State::SynSent | State::SynReceived | State::Closed
        );
        if begun && !self.guest_ended && !s.may_recv() {
            self.guest_ended = true;
            moved = true;
            // Fails if the host's side is already gone; reading will show that.
            let _ = self.host.shutdown(Shutdown::Write);
        }
        while self.readable && !self.host_ended && s.can_send() {
            let host = &mut self.host;
            let result = s.send(|space| match host.read(space) {
                Ok(n) => (n, Ok(n)),
                Err(e) => (0, Err(e)),
            });
            match result {
                Ok(Ok(0)) => {
                    self.host_ended = true;
                    moved = true;
                    s.close();
                }
                Ok(Ok(_)) => moved = true,
                Ok(Err(e)) if would_block(&e) => self.readable = false,
                Ok(Err(_)) => return self.break_off(s),
                Err(_) => break,
            }
        }
        moved
    }

    fn break_off(&mut self, s: &mut tcp::Socket<'static>) -> bool {
        (self.readable, self.writable) = (false, false);
        s.abort();
        true
    }
}

/// Makes the host's peer see that the connection was aborted, not closed.
fn reset_host(host: &TcpStream) {
    // If it fails, the peer sees an ordinary close.
    let _ = SockRef::from(host).set_linger(Some(Duration::ZERO));
}

/// Answers the guest's SYN with the result.
fn refuse(cx: &mut Cx<'_>, syn: &[u8], why: &io::Error) {
    let Ok(packet) = Ipv4Packet::new_checked(&syn[ETHERNET..]) else {
        return;
    };
    let Ok(segment) = TcpPacket::new_checked(packet.payload()) else {
        return;
    };
    let unreachable = match why.kind() {
        ErrorKind::NetworkUnreachable => Some(Icmpv4DstUnreachable::NetUnreachable),
        ErrorKind::HostUnreachable | ErrorKind::TimedOut => {
            Some(Icmpv4DstUnreachable::HostUnreachable)
        }
        _ => None,
    };
    let frame = match unreachable {
        Some(reason) => cx.out.builder.unreachable(GATEWAY, reason, &packet),
        None => cx.out.builder.refuse(&packet, &segment),
    };
    cx.out.push(frame);
}
