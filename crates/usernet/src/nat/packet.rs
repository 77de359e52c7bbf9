//! Packets that the network itself sends to the guest, and parsing of the guest's packets.

use crate::link::Frame;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4DstUnreachable,
    Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket,
    TcpRepr, UdpPacket, UdpRepr, UDP_HEADER_LEN,
};
use std::net::SocketAddrV4;

/// Largest IPv4 packet on the network in bytes, except for packets that are fragmented later.
pub(super) const MTU: usize = 1500;
/// Length of an Ethernet header in bytes.
pub(super) const ETHERNET: usize = 14;
/// Length of an IPv4 header without options in bytes.
const IPV4: usize = 20;
const HOPS: u8 = 64;

/// Puts an Ethernet header into the first bytes of a frame for the guest.
pub(super) fn address(frame: &mut [u8], from: EthernetAddress, to: EthernetAddress, ip: bool) {
    let repr = EthernetRepr {
        src_addr: from,
        dst_addr: to,
        ethertype: if ip {
            EthernetProtocol::Ipv4
        } else {
            EthernetProtocol::Arp
        },
    };
    repr.emit(&mut EthernetFrame::new_unchecked(frame));
}

/// Builds frames with the network's and the guest's addresses.
#[derive(Debug)]
pub(super) struct Builder {
    /// The network's address.
    pub own: EthernetAddress,
    /// The guest's address, or broadcast.
    pub guest: EthernetAddress,
    /// Identification of the next packet that is fragmented.
    ident: u16,
}

impl Builder {
    pub fn new(own: EthernetAddress, guest: EthernetAddress) -> Builder {
        Builder {
            own,
            guest,
            ident: 0,
        }
    }

    fn ipv4(&self, repr: Ipv4Repr, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut bytes = vec![0; ETHERNET + IPV4 + repr.payload_len];
        address(&mut bytes, self.own, self.guest, true);
        let mut packet = Ipv4Packet::new_unchecked(&mut bytes[ETHERNET..]);
        repr.emit(&mut packet, &ChecksumCapabilities::default());
        fill(packet.payload_mut());
        bytes
    }

    /// A datagram, as several frames if it is too long for one.
    pub fn udp(&mut self, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<Frame> {
        let repr = UdpRepr {
            src_port: from.port(),
            dst_port: to.port(),
        };
        let ip = Ipv4Repr {
            src_addr: *from.ip(),
            dst_addr: *to.ip(),
            next_header: IpProtocol::Udp,
            payload_len: UDP_HEADER_LEN + payload.len(),
            hop_limit: HOPS,
        };
        let whole = self.ipv4(ip, |place| {
            repr.emit(
                &mut UdpPacket::new_unchecked(place),
                &ip.src_addr.into(),
                &ip.dst_addr.into(),
                payload.len(),
                |p| p.copy_from_slice(payload),
                &ChecksumCapabilities::default(),
            );
        });
        if whole.len() <= ETHERNET + MTU {
            return vec![valid(whole)];
        }
        self.ident = self.ident.wrapping_add(1);
        fragments(&whole, self.ident)
    }

    /// A reset of a connection that was never opened: the answer to the SYN in `packet`.
    pub fn refuse(&self, packet: &Ipv4Packet<&[u8]>, syn: &TcpPacket<&[u8]>) -> Frame {
        let tcp = TcpRepr {
            src_port: syn.dst_port(),
            dst_port: syn.src_port(),
            control: TcpControl::Rst,
            seq_number: Default::default(),
            ack_number: Some(syn.seq_number() + syn.segment_len()),
            window_len: 0,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        };
        let ip = Ipv4Repr {
            src_addr: packet.dst_addr(),
            dst_addr: packet.src_addr(),
            next_header: IpProtocol::Tcp,
            payload_len: tcp.buffer_len(),
            hop_limit: HOPS,
        };
        valid(self.ipv4(ip, |place| {
            tcp.emit(
                &mut TcpPacket::new_unchecked(place),
                &ip.src_addr.into(),
                &ip.dst_addr.into(),
                &ChecksumCapabilities::default(),
            );
        }))
    }

    /// An ICMP message that `packet` cannot reach its destination.
    pub fn unreachable(
        &self,
        from: Ipv4Address,
        reason: Icmpv4DstUnreachable,
        packet: &Ipv4Packet<&[u8]>,
    ) -> Frame {
        // RFC 1812, 4.3.2.3: as much of it as fits into 576 bytes.
        const QUOTED: usize = 576 - 2 * IPV4 - 8;
        let payload = packet.payload();
        let icmp = Icmpv4Repr::DstUnreachable {
            reason,
            header: Ipv4Repr {
                src_addr: packet.src_addr(),
                dst_addr: packet.dst_addr(),
                next_header: packet.next_header(),
                payload_len: payload.len(),
                hop_limit: packet.hop_limit(),
            },
            data: &payload[..payload.len().min(QUOTED)],
        };
        self.icmp(from, packet.src_addr(), &icmp)
    }

    /// An ICMP message of the network to the guest.
    pub fn icmp(&self, from: Ipv4Address, to: Ipv4Address, icmp: &Icmpv4Repr<'_>) -> Frame {
        let ip = Ipv4Repr {
            src_addr: from,
            dst_addr: to,
            next_header: IpProtocol::Icmp,
            payload_len: icmp.buffer_len(),
            hop_limit: HOPS,
        };
        valid(self.ipv4(ip, |place| {
            icmp.emit(
                &mut Icmpv4Packet::new_unchecked(place),
                &ChecksumCapabilities::default(),
            );
        }))
    }
}

/// A frame whose checksums this code computed.
pub(super) fn valid(bytes: Vec<u8>) -> Frame {
    let mut frame = Frame::plain(bytes);
    frame.offload.valid = true;
    frame
}

/// Fragments a packet that is too long for the network.
fn fragments(whole: &[u8], ident: u16) -> Vec<Frame> {
    const PIECE: usize = (MTU - IPV4) / 8 * 8;
    let (head, payload) = whole.split_at(ETHERNET + IPV4);
    let last = payload.len().div_ceil(PIECE) - 1;
    let piece = |(i, data): (usize, &[u8])| {
        let mut bytes = [head, data].concat();
        let mut packet = Ipv4Packet::new_unchecked(&mut bytes[ETHERNET..]);
        packet.set_total_len((IPV4 + data.len()) as u16);
        packet.set_ident(ident);
        packet.set_dont_frag(false);
        packet.set_more_frags(i < last);
        packet.set_frag_offset((i * PIECE) as u16);
        packet.fill_checksum();
        // The receiver checks the checksum of the whole packet.
        Frame::plain(bytes)
    };
    payload.chunks(PIECE).enumerate().map(piece).collect()
}
