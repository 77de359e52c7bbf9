//! Does in software what a guest has left to its hardware: checksums and segmentation.

use crate::link::{Frame, Offload, Partial};
use smoltcp::wire::{checksum, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket};

/// A frame whose offload request cannot be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotFinished {
    /// The place of the checksum is outside the frame.
    #[error("the checksum's place is outside the frame")]
    Place,
    /// Only TCP over IPv4 can be segmented.
    #[error("it is not TCP over IPv4, which alone is cut into segments")]
    Segments,
}

/// Makes frames that a real network accepts: checksums are filled in, and segments are cut.
pub fn finish(frame: Frame) -> Result<Vec<Frame>, NotFinished> {
    let Offload {
        checksum,
        segment,
        valid,
    } = frame.offload;
    let done = |bytes| Frame {
        bytes,
        offload: Offload {
            valid,
            ..Offload::default()
        },
    };
    if let Some(size) = segment {
        let parts = cut(&frame.bytes, size.get().into()).ok_or(NotFinished::Segments)?;
        return Ok(parts.into_iter().map(done).collect());
    }
    let mut bytes = frame.bytes;
    if let Some(p) = checksum {
        fill(&mut bytes, p).ok_or(NotFinished::Place)?;
    }
    Ok(vec![done(bytes)])
}

fn fill(bytes: &mut [u8], p: Partial) -> Option<()> {
    let summed = bytes.get_mut(usize::from(p.start)..)?;
    let sum = !checksum::data(summed);
    let place = usize::from(p.offset);
    // In UDP, zero would mean "no checksum"; this is the same number in ones' complement.
    let sum = if sum == 0 { 0xffff } else { sum };
    summed
        .get_mut(place..place + 2)?
        .copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Cuts the payload of a TCP packet into pieces of at most `size` bytes.
fn cut(frame: &[u8], size: usize) -> Option<Vec<Vec<u8>>> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    if ip.next_header() != IpProtocol::Tcp || ip.more_frags() || ip.frag_offset() != 0 {
        return None;
    }
    let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
    let link = EthernetFrame::<&[u8]>::header_len();
    let network = link + usize::from(ip.header_len());
    let headers = network + usize::from(tcp.header_len());
    let (source, destination) = (ip.src_addr().into(), ip.dst_addr().into());
    let payload = tcp.payload();
    let count = payload.len().div_ceil(size).max(1);
    let part = |i: usize| {
        let data = &payload[i * size..payload.len().min((i + 1) * size)];
        let mut bytes = [&frame[..headers], data].concat();
        let total = (bytes.len() - link) as u16;
        let mut packet = Ipv4Packet::new_unchecked(&mut bytes[link..]);
        packet.set_total_len(total);
        packet.set_ident(ip.ident().wrapping_add(i as u16));
        packet.fill_checksum();
        let mut segment = TcpPacket::new_unchecked(packet.payload_mut());
        segment.set_seq_number(tcp.seq_number() + i * size);
        segment.set_fin(tcp.fin() && i + 1 == count);
        segment.set_psh(tcp.psh() && i + 1 == count);
        segment.set_cwr(tcp.cwr() && i == 0);
        segment.fill_checksum(&source, &destination);
        bytes
    };
    Some((0..count).map(part).collect())
}

/// The sum of the pseudo header of TCP or UDP over IPv4, as it is stored in the place of the
/// checksum.
pub(crate) fn pseudo_header(packet: &Ipv4Packet<&[u8]>) -> u16 {
    let length = packet.payload().len() as u32;
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    checksum::pseudo_header_v4(&from, &to, packet.next_header(), length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{
        EthernetAddress, EthernetRepr, Ipv4Address, Ipv4Repr, TcpControl, TcpRepr, TcpSeqNumber,
    };
    use std::num::NonZeroU16;

    const FROM: Ipv4Address = Ipv4Address::new(10, 0, 2, 15);
    const TO: Ipv4Address = Ipv4Address::new(10, 0, 2, 2);

    fn segment(payload: &[u8], control: TcpControl) -> Vec<u8> {
        let tcp = TcpRepr {
            src_port: 4000,
            dst_port: 80,
            control,
            seq_number: TcpSeqNumber(-3),
            ack_number: Some(TcpSeqNumber(7)),
            window_len: 1000,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload,
        };
        let ip = Ipv4Repr {
            src_addr: FROM,
            dst_addr: TO,
            next_header: IpProtocol::Tcp,
            payload_len: tcp.buffer_len(),
            hop_limit: 64,
        };
        let ethernet = EthernetRepr {
            src_addr: EthernetAddress([2, 0, 0, 0, 0, 1]),
            dst_addr: EthernetAddress([2, 0, 0, 0, 0, 2]),
            ethertype: EthernetProtocol::Ipv4,
        };
        let mut bytes = vec![0; 14 + ip.buffer_len() + tcp.buffer_len()];
        ethernet.emit(&mut EthernetFrame::new_unchecked(&mut bytes[..]));
        let caps = ChecksumCapabilities::default();
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[14..]), &caps);
        let mut packet = TcpPacket::new_unchecked(&mut bytes[34..]);
        tcp.emit(&mut packet, &FROM.into(), &TO.into(), &caps);
        bytes
    }

    fn with(bytes: Vec<u8>, offload: Offload) -> Frame {
        Frame { bytes, offload }
    }

    #[test]
    fn a_missing_checksum_is_filled_in() {
        let whole = segment(b"hello", TcpControl::Psh);
        let mut bytes = whole.clone();
        let sum = pseudo_header(&Ipv4Packet::new_unchecked(&whole[14..]));
        bytes[50..52].copy_from_slice(&sum.to_be_bytes());
        let checksum = Some(Partial {
            start: 34,
            offset: 16,
        });
        let offload = Offload {
            checksum,
            ..Offload::default()
        };
        let done = finish(with(bytes, offload)).unwrap();
        assert_eq!(done, [Frame::plain(whole)]);
    }

    #[test]
    fn places_outside_are_refused() {
        for (start, offset) in [(60_000, 0), (34, 60_000), (34, 24), (65_535, 65_535)] {
            let offload = Offload {
                checksum: Some(Partial { start, offset }),
                ..Offload::default()
            };
            let bytes = segment(b"hello", TcpControl::None);
            assert_eq!(finish(with(bytes, offload)), Err(NotFinished::Place));
        }
        let offload = Offload {
            segment: NonZeroU16::new(100),
            ..Offload::default()
        };
        let bytes = vec![0x12; 80];
        assert_eq!(finish(with(bytes, offload)), Err(NotFinished::Segments));
    }

    proptest! {
        #[test]
        fn segments_carry_the_payload(
            payload in prop::collection::vec(any::<u8>(), 0..5000),
            size in 1u16..1600,
        ) {
            let offload = Offload { segment: NonZeroU16::new(size), ..Offload::default() };
            let bytes = segment(&payload, TcpControl::Fin);
            let parts = finish(with(bytes, offload)).unwrap();
            let mut seen = Vec::new();
            for (i, p) in parts.iter().enumerate() {
                let ip = Ipv4Packet::new_checked(&p.bytes[14..]).unwrap();
                prop_assert!(ip.verify_checksum());
                let tcp = TcpPacket::new_checked(ip.payload()).unwrap();
                prop_assert!(tcp.verify_checksum(&FROM.into(), &TO.into()));
                prop_assert!(tcp.payload().len() <= usize::from(size));
                prop_assert_eq!(tcp.seq_number(), TcpSeqNumber(-3) + seen.len());
                prop_assert_eq!(tcp.fin(), i + 1 == parts.len());
                seen.extend_from_slice(tcp.payload());
            }
            prop_assert_eq!(seen, payload);
        }

        #[test]
        fn any_bytes_do_not_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            start in any::<u16>(), offset in any::<u16>(), size in any::<u16>(), both in any::<bool>(),
        ) {
            let offload = Offload {
                checksum: Some(Partial { start, offset }),
                segment: NonZeroU16::new(size).filter(|_| both),
                valid: false,
            };
            let _ = finish(with(bytes, offload));
        }
    }
}
