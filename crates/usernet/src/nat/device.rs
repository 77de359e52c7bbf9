//! The network device of smoltcp's stack: one packet in, a bounded queue out.

use super::packet::{self, Builder, ETHERNET, MTU};
use crate::link::{Frame, Partial};
use crate::offload::pseudo_header;
use smoltcp::phy::{
    Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, PacketMeta, RxToken,
    TxToken,
};
use smoltcp::time::Instant;
use smoltcp::wire::{Ipv4Packet, TcpPacket};
use std::collections::VecDeque;
use std::num::NonZeroUsize;

/// Number of queued bytes for the guest from which on no more packets are made.
const QUEUE_BYTES: usize = 1 << 20;
/// Number of queued frames for the guest from which on no more packets are made.
const QUEUE_FRAMES: usize = 1024;
/// Offset of the checksum in a TCP header.
const TCP_CHECKSUM: u16 = 16;

/// Frames queued for the guest, and the guest's packet that is being processed.
#[derive(Debug)]
pub(super) struct Out {
    queue: VecDeque<Frame>,
    bytes: usize,
    /// A frame of the guest for the stack.
    pub given: Option<Vec<u8>>,
    /// Makes frames.
    pub builder: Builder,
    /// Whether the guest accepts TCP packets larger than a frame.
    pub segments: bool,
}

impl Out {
    pub fn new(builder: Builder) -> Out {
        Out {
            queue: VecDeque::new(),
            bytes: 0,
            given: None,
            builder,
            segments: false,
        }
    }

    /// Whether the guest should take frames before more are made.
    pub fn is_full(&self) -> bool {
        self.bytes >= QUEUE_BYTES || self.queue.len() >= QUEUE_FRAMES
    }

    pub fn push(&mut self, frame: Frame) {
        // Answers to the guest's own packets may exceed the limit, but not by much, since it cannot
        // send more either.
        if self.queue.len() < 2 * QUEUE_FRAMES {
            self.bytes += frame.bytes.len();
            self.queue.push_back(frame);
        }
    }

    pub fn pop(&mut self) -> Option<Frame> {
        let frame = self.queue.pop_front()?;
        self.bytes -= frame.bytes.len();
        Some(frame)
    }

    pub fn clear(&mut self) {
        self.queue.clear();
        self.bytes = 0;
        self.given = None;
    }
}

pub(super) struct Rx(Vec<u8>);

impl RxToken for Rx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0.get(ETHERNET..).unwrap_or_default())
    }
}

pub(super) struct Tx<'a> {
    out: &'a mut Out,
    meta: PacketMeta,
}

impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut bytes = vec![0; ETHERNET + len];
        let builder = &self.out.builder;
        packet::address(&mut bytes, builder.own, builder.guest, true);
        let result = f(&mut bytes[ETHERNET..]);
        let mut frame = packet::valid(bytes);
        let size = self.meta.segmentation_offload_size;
        frame.offload.segment = size;
        frame.offload.checksum = fill(&mut frame.bytes[ETHERNET..], size.is_some());
        self.out.push(frame);
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.meta = meta;
    }
}

/// The checksum of a TCP packet of the stack, or its partial sum if the packet is to be segmented.
fn fill(packet: &mut [u8], partly: bool) -> Option<Partial> {
    let seen = Ipv4Packet::new_checked(&*packet).ok()?;
    let (from, to) = (seen.src_addr().into(), seen.dst_addr().into());
    let start = usize::from(seen.header_len());
    let sum = pseudo_header(&seen);
    if !partly {
        let mut packet = Ipv4Packet::new_unchecked(packet);
        TcpPacket::new_unchecked(packet.payload_mut()).fill_checksum(&from, &to);
        return None;
    }
    let place = start + usize::from(TCP_CHECKSUM);
    packet
        .get_mut(place..place + 2)?
        .copy_from_slice(&sum.to_be_bytes());
    Some(Partial {
        start: (ETHERNET + start) as u16,
        offset: TCP_CHECKSUM,
    })
}

impl Device for Out {
    type RxToken<'a> = Rx;
    type TxToken<'a> = Tx<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Rx, Tx<'_>)> {
        let given = Rx(self.given.take()?);
        let tx = Tx {
            out: self,
            meta: PacketMeta::default(),
        };
        Some((given, tx))
    }

    fn transmit(&mut self, _: Instant) -> Option<Tx<'_>> {
        if self.is_full() {
            None
        } else {
            Some(Tx {
                out: self,
                meta: PacketMeta::default(),
            })
        }
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut c = DeviceCapabilities::default();
        c.medium = Medium::Ip;
        c.max_transmission_unit = MTU;
        // Nothing is lost between guest and network, and packets whose checksum the guest left to
        // its hardware have none. Our checksums are computed when the size is known.
        let mut checksum = ChecksumCapabilities::default();
        checksum.ipv4 = Checksum::Tx;
        checksum.tcp = Checksum::None;
        c.checksum = checksum;
        if self.segments {
            c.segmentation.tcpv4 = NonZeroUsize::new(usize::from(u16::MAX));
        }
        c
    }
}
