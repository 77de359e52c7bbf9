//! Virtio network interface (virtio 1.2, section 5.1).
//!
//! The other end of its cable is a [`Link`], a host resource. Frames are taken from the guest when
//! it notifies the device. Frames for the guest are delivered then and whenever the host is polled,
//! as far as the guest has offered buffers; the rest waits.

use super::port::{Port, VirtioBackend};
use super::queue::{Chain, QueueError, INDIRECT_DESC};
use crate::clock::Ps;
use crate::device::{DeviceState, StateError};
use nagori_usernet::{Error, Frame, Guest, Link, Offload, Partial, MAX_FRAME};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU16;
use std::time::Duration;

const KIND: &str = "virtio-net";
const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

/// Features.
mod feature {
    /// VIRTIO_NET_F_CSUM: the guest may leave checksums to the device.
    pub const CSUM: u64 = 1 << 0;
    /// VIRTIO_NET_F_GUEST_CSUM: the device may leave checksums to the guest.
    pub const GUEST_CSUM: u64 = 1 << 1;
    /// VIRTIO_NET_F_MTU
    pub const MTU: u64 = 1 << 3;
    /// VIRTIO_NET_F_MAC
    pub const MAC: u64 = 1 << 5;
    /// VIRTIO_NET_F_GUEST_TSO4: the guest takes TCP over IPv4 larger than a frame.
    pub const GUEST_TSO4: u64 = 1 << 7;
    /// VIRTIO_NET_F_HOST_TSO4: the device takes it.
    pub const HOST_TSO4: u64 = 1 << 11;
    /// VIRTIO_NET_F_MRG_RXBUF: a frame may fill several buffers.
    pub const MRG_RXBUF: u64 = 1 << 15;
    /// VIRTIO_NET_F_STATUS
    pub const STATUS: u64 = 1 << 16;
}

/// Offsets in the configuration space.
mod config {
    pub const STATUS: usize = 6;
    pub const LENGTH: usize = 12;
}

/// Largest packet without segmentation, in bytes.
const MTU: u16 = 1500;
/// Length of the header of every frame in bytes.
const HEADER: usize = 12;
/// Shortest frame: two addresses and a type.
const SHORTEST: usize = 14;
const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
/// With explicit congestion notification, which is in the segments' headers anyway.
const GSO_ECN: u8 = 0x80;
const LINK_UP: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    mac: [u8; 6],
    /// The link state that the guest was told.
    up: bool,
    /// Whether the guest's buffers are too small for the waiting frame.
    chains: Vec<Chain>,
}

/// Frames and bytes since the device was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// From the guest.
    pub sent_frames: u64,
    /// From the guest, in bytes.
    pub sent_bytes: u64,
    /// To the guest.
    pub received_frames: u64,
    /// To the guest, in bytes.
    pub received_bytes: u64,
    /// Lost in either direction.
    pub dropped_frames: u64,
}

/// virtio network device (type 1); its link is down until it is connected.
pub struct Net {
    name: String,
    state: State,
    link: Option<Box<dyn Link>>,
    guest: Guest,
    /// A frame for which the guest has offered too few buffers.
    waiting: Option<Frame>,
    /// When the link wants to run again, at the last call.
    next: Option<Ps>,
    live: bool,
    /// Latest time that the link was given: harts are at different times.
    time: Duration,
    traffic: Traffic,
    fault: Option<Error>,
}

/// A locally administered address derived from a slot's name and the machine's seed.
pub fn mac(name: &str, seed: u64) -> [u8; 6] {
    // FNV-1a
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    let b = hash.to_le_bytes();
    [0x52, 0x54, 0x00, b[0], b[1], b[2]]
}

impl Net {
    /// A device that is not connected; its address is derived from the name of its slot and the
    /// machine's seed.
    pub fn new(name: String, seed: u64) -> Net {
        Net {
            state: State {
                mac: mac(&name, seed),
                up: false,
                chains: Vec::new(),
            },
            name,
            link: None,
            guest: Guest::default(),
            waiting: None,
            next: None,
            live: false,
            time: Duration::ZERO,
            traffic: Traffic::default(),
            fault: None,
        }
    }

    /// Name of its slot.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The guest's Ethernet address.
    pub fn mac(&self) -> [u8; 6] {
        self.state.mac
    }

    /// Gives the guest another Ethernet address; drivers ask for it when they start.
    pub fn set_mac(&mut self, mac: [u8; 6]) {
        self.state.mac = mac;
    }

    /// The other end of the cable.
    pub fn link(&self) -> Option<&dyn Link> {
        self.link.as_deref()
    }

    /// Frames and bytes so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Why the cable was unplugged, if the host failed.
    pub fn take_fault(&mut self) -> Option<Error> {
        self.fault.take()
    }

    /// Plugs the cable in.
    pub fn connect(&mut self, port: &mut Port<'_>, link: Box<dyn Link>) {
        self.link = Some(link);
        self.guest = Guest::default();
        self.introduce(port);
        self.look_at_link(port);
    }

    /// Tells the link about the guest if something has changed.
    fn introduce(&mut self, port: &Port<'_>) {
        let large = feature::GUEST_TSO4 | feature::GUEST_CSUM | feature::MRG_RXBUF;
        let running = port.is_live();
        let guest = Guest {
            mac: self.state.mac,
            running,
            segments: running && port.negotiated(large),
        };
        if let Some(link) = self.link.as_mut().filter(|_| guest != self.guest) {
            self.guest = guest;
            link.set_guest(guest);
        }
    }

    /// Tells the guest whether the link is up, if that has changed.
    fn look_at_link(&mut self, port: &mut Port<'_>) {
        let up = self.link.as_ref().is_some_and(|l| l.is_up());
        if up != self.state.up {
            self.state.up = up;
            port.config_changed();
        }
    }

    fn now(&mut self, port: &Port<'_>) -> Duration {
        self.time = self.time.max(Duration::from_nanos(port.now().0 / 1000));
        self.time
    }

    /// Moves frames in both directions until none can be moved.
    fn work(&mut self, port: &mut Port<'_>) -> Result<(), QueueError> {
        let now = self.now(port);
        self.introduce(port);
        loop {
            let sent = self.transmit(port, now)?;
            if let Some(link) = &mut self.link {
                link.run(now);
            }
            let received = self.deliver(port)?;
            if !sent && !received {
                break;
            }
        }
        self.look_at_link(port);
        self.next = None;
        self.live = false;
        if let Some(link) = &mut self.link {
            self.live = link.is_live(now);
            let next = link.next_time(now);
            self.next = next.and_then(|t| Some(Ps(u64::try_from(t.as_nanos()).ok()? * 1000)));
        }
        Ok(())
    }

    /// Takes frames from the guest, as far as the link has room. Returns whether there were any.
    fn transmit(&mut self, port: &mut Port<'_>, now: Duration) -> Result<bool, QueueError> {
        let mut any = false;
        for _ in 0..port.queue_size(TRANSMIT) {
            if self.link.as_ref().is_some_and(|l| !l.is_ready()) {
                break;
            }
            let Some(chain) = port.pop(TRANSMIT)? else {
                break;
            };
            any = true;
            port.sends(TRANSMIT);
            match outgoing(port, &chain)? {
                Some(frame) => {
                    self.traffic.sent_frames += 1;
                    self.traffic.sent_bytes += frame.bytes.len() as u64;
                    match &mut self.link {
                        Some(link) => link.send(now, frame),
                        None => self.traffic.dropped_frames += 1,
                    }
                }
                None => self.traffic.dropped_frames += 1,
            }
            port.complete(TRANSMIT, chain.head, 0)?;
        }
        Ok(any)
    }

    /// Delivers frames to the guest, as far as it has buffers. Returns whether there were any.
    fn deliver(&mut self, port: &mut Port<'_>) -> Result<bool, QueueError> {
        let mut any = false;
        loop {
            let came = || self.link.as_mut().and_then(|l| l.receive());
            let Some(frame) = self.waiting.take().or_else(came) else {
                return Ok(any);
            };
            if !port.is_live() {
                self.traffic.dropped_frames += 1;
                continue;
            }
            match self.place(port, &frame)? {
                Placed::Done => {
                    self.traffic.received_frames += 1;
                    self.traffic.received_bytes += frame.bytes.len() as u64;
                    any = true;
                }
                Placed::TooLarge => self.traffic.dropped_frames += 1,
                Placed::NoRoom => {
                    self.waiting = Some(frame);
                    return Ok(any);
                }
            }
        }
    }

    /// Copies a frame to the guest's buffers.
    fn place(&mut self, port: &mut Port<'_>, frame: &Frame) -> Result<Placed, QueueError> {
        let needed = (HEADER + frame.bytes.len()) as u64;
        let merge = port.negotiated(feature::MRG_RXBUF);
        let chains = &mut self.state.chains;
        while chains.iter().map(Chain::writable).sum::<u64>() < needed {
            if !merge && !chains.is_empty() || chains.len() >= port.queue_size(RECEIVE) {
                return Ok(Placed::TooLarge);
            }
            let Some(chain) = port.pop(RECEIVE)? else {
                return Ok(Placed::NoRoom);
            };
            if chain.writable() < HEADER as u64 {
                return Err(QueueError::Length {
                    head: chain.head,
                    len: chain.writable(),
                    expected: "at least a header of 12",
                });
            }
            chains.push(chain);
        }
        let mut used = 0;
        let mut room = 0;
        while room < needed {
            room += chains[used].writable();
            used += 1;
        }
        let used: Vec<Chain> = chains.drain(..used).collect();
        let header = header(port, &frame.offload, used.len() as u16);
        let mut rest = &frame.bytes[..];
        for (i, chain) in used.iter().enumerate() {
            let mut at = 0;
            if i == 0 {
                at = port.write(chain, 0, &header)?;
            }
            let n = port.write(chain, at as u64, rest)?;
            rest = &rest[n..];
            port.complete(RECEIVE, chain.head, (at + n) as u32)?;
        }
        Ok(Placed::Done)
    }
}

enum Placed {
    Done,
    /// No buffers of the guest could hold it.
    TooLarge,
    /// The guest has to offer more buffers.
    NoRoom,
}

/// The header of a frame for the guest.
fn header(port: &Port<'_>, offload: &Offload, buffers: u16) -> [u8; HEADER] {
    let mut h = [0; HEADER];
    let mut set = |at: usize, v: u16| h[at..at + 2].copy_from_slice(&v.to_le_bytes());
    set(10, buffers);
    let mut flags = 0;
    if port.negotiated(feature::GUEST_CSUM) {
        if let Some(p) = offload.checksum {
            flags = NEEDS_CSUM;
            set(6, p.start);
            set(8, p.offset);
        } else if offload.valid {
            flags = DATA_VALID;
        }
    }
    if let Some(size) = offload.segment {
        set(4, size.get());
        h[1] = GSO_TCPV4;
    }
    h[0] = flags;
    h
}

/// The frame in a chain of the guest; `None` if it uses features that were not negotiated.
fn outgoing(port: &Port<'_>, chain: &Chain) -> Result<Option<Frame>, QueueError> {
    let mut h = [0; HEADER];
    let n = port.read(chain, 0, &mut h)?;
    if n < HEADER {
        return Err(QueueError::Length {
            head: chain.head,
            len: n as u64,
            expected: "at least a header of 12",
        });
    }
    let length = chain.readable() - HEADER as u64;
    if !(SHORTEST as u64..=MAX_FRAME as u64).contains(&length) {
        return Ok(None);
    }
    let word = |at: usize| u16::from_le_bytes([h[at], h[at + 1]]);
    let mut offload = Offload::default();
    if h[0] & NEEDS_CSUM != 0 {
        if !port.negotiated(feature::CSUM) {
            return Ok(None);
        }
        offload.checksum = Some(Partial {
            start: word(6),
            offset: word(8),
        });
    }
    match h[1] & !GSO_ECN {
        GSO_NONE => {}
        GSO_TCPV4 if port.negotiated(feature::HOST_TSO4) => {
            offload.segment = NonZeroU16::new(word(4));
        }
        _ => return Ok(None),
    }
    let mut bytes = vec![0; length as usize];
    port.read(chain, HEADER as u64, &mut bytes)?;
    Ok(Some(Frame { bytes, offload }))
}

impl VirtioBackend for Net {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn device_id(&self) -> u32 {
        1
    }

    fn features(&self) -> u64 {
        use feature::*;
        CSUM | GUEST_CSUM | MTU | MAC | GUEST_TSO4 | HOST_TSO4 | MRG_RXBUF | STATUS | INDIRECT_DESC
    }

    fn queues(&self) -> usize {
        2
    }

    fn config(&self, offset: u64) -> u8 {
        let mut c = [0; config::LENGTH];
        c[..config::STATUS].copy_from_slice(&self.state.mac);
        c[config::STATUS] = if self.state.up { LINK_UP } else { 0 };
        // One pair of queues, then the MTU.
        c[8..10].copy_from_slice(&1u16.to_le_bytes());
        c[10..].copy_from_slice(&MTU.to_le_bytes());
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        c.get(at).copied().unwrap_or(0)
    }

    fn notify(&mut self, port: &mut Port<'_>, _: usize) -> Result<(), QueueError> {
        self.work(port)
    }

    fn next_event(&self) -> Option<Ps> {
        self.next
    }

    fn on_time(&mut self, port: &mut Port<'_>) -> Result<(), QueueError> {
        self.work(port)
    }

    fn poll(&mut self, port: &mut Port<'_>) -> Result<(), QueueError> {
        let now = self.now(port);
        if let Some(Err(e)) = self.link.as_mut().map(|l| l.poll(now)) {
            // The host's failure, not the driver's.
            self.fault = Some(e);
            self.link = None;
        }
        self.work(port)
    }

    fn expects_host(&self) -> bool {
        self.live
    }

    fn driver_reset(&mut self) {
        self.state.chains.clear();
        self.waiting = None;
        self.guest.running = false;
        self.guest.segments = false;
        if let Some(link) = &mut self.link {
            link.set_guest(self.guest);
        }
    }

    fn reset(&mut self) {
        self.driver_reset();
        self.next = None;
        if let Some(link) = &mut self.link {
            link.reset();
        }
    }

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 2, &self.state)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        self.state = state.unpack(KIND, 2)?;
        // Frames in flight belong to the previous connection.
        self.waiting = None;
        self.next = None;
        self.guest = Guest::default();
        Ok(())
    }
}

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;
