//! Reassembles packets that the guest has fragmented.

use super::packet::ETHERNET;
use smoltcp::wire::{IpProtocol, Ipv4Address, Ipv4Packet};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Greatest number of incomplete packets; the oldest is dropped for a new one.
const PACKETS: usize = 16;
/// Greatest number of fragments of a packet; no sane packet has more.
const PIECES: usize = 128;
/// How long the remaining fragments may take (RFC 1122 asks for 60 to 120 s; on this link nothing
/// is delayed).
const PATIENCE: Duration = Duration::from_secs(30);

type Key = (Ipv4Address, Ipv4Address, IpProtocol, u16);

#[derive(Debug)]
struct Partial {
    key: Key,
    since: Duration,
    /// Ethernet and IPv4 header of the first fragment.
    head: Vec<u8>,
    /// By offset in bytes.
    pieces: BTreeMap<u16, Vec<u8>>,
    /// Length of the payload, once the last fragment has arrived.
    length: Option<usize>,
}

/// Incomplete packets.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    waiting: VecDeque<Partial>,
}

impl Fragments {
    /// Takes a frame with a fragment; returns the whole packet as one frame when it is complete.
    pub fn add(&mut self, now: Duration, frame: &[u8]) -> Option<Vec<u8>> {
        self.waiting
            .retain(|p| now.saturating_sub(p.since) < PATIENCE);
        let packet = Ipv4Packet::new_checked(frame.get(ETHERNET..)?).ok()?;
        let payload = packet.payload();
        let offset = packet.frag_offset();
        let key = (
            packet.src_addr(),
            packet.dst_addr(),
            packet.next_header(),
            packet.ident(),
        );
        let end = usize::from(offset) + payload.len();
        let odd = packet.more_frags() && payload.len() % 8 != 0;
        if payload.is_empty() || odd || end + 60 > usize::from(u16::MAX) {
            return None;
        }
        let at = match self.waiting.iter().position(|p| p.key == key) {
            Some(at) => at,
            None => {
                if self.waiting.len() == PACKETS {
                    self.waiting.pop_front();
                }
                self.waiting.push_back(Partial {
                    key,
                    since: now,
                    head: Vec::new(),
                    pieces: BTreeMap::new(),
                    length: None,
                });
                self.waiting.len() - 1
            }
        };
        let p = &mut self.waiting[at];
        if p.pieces.len() >= PIECES {
            self.waiting.remove(at);
            return None;
        }
        if !packet.more_frags() {
            p.length = Some(end);
        }
        if offset == 0 {
            let header = ETHERNET + usize::from(packet.header_len());
            p.head = frame[..header].to_vec();
        }
        p.pieces.insert(offset, payload.to_vec());
        if !p.complete() {
            return None;
        }
        self.waiting.remove(at).map(Partial::whole)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl Partial {
    /// Whether the fragments follow one another without gaps. Overlapping fragments are an attack
    /// (RFC 5722); a packet with them is never complete.
    fn complete(&self) -> bool {
        let mut end = 0;
        for (&offset, piece) in &self.pieces {
            if usize::from(offset) != end {
                return false;
            }
            end += piece.len();
        }
        self.length == Some(end) && !self.head.is_empty()
    }

    fn whole(self) -> Vec<u8> {
        let mut bytes = self.head;
        let header = bytes.len() - ETHERNET;
        for piece in self.pieces.into_values() {
            bytes.extend(piece);
        }
        let total = (bytes.len() - ETHERNET) as u16;
        let mut packet = Ipv4Packet::new_unchecked(&mut bytes[ETHERNET..]);
        packet.set_header_len(header as u8);
        packet.set_total_len(total);
        packet.set_more_frags(false);
        packet.set_frag_offset(0);
        packet.fill_checksum();
        bytes
    }
}
