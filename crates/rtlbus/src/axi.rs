//! One AXI4 slave port with 64 or 128 bits of data: bursts in, beats out. It knows neither memory nor time;
//! whoever owns it says which burst is answered, and when.

use std::collections::VecDeque;

/// Bytes of a beat of the widest port.
pub(crate) const WIDEST: usize = 16;

/// What a master drives in one clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NagoriAxiMaster {
    /// Address of the first byte of a read burst.
    pub ar_addr: u64,
    /// Address of the first byte of a write burst.
    pub aw_addr: u64,
    /// A beat to be written, lowest bytes first.
    pub w_data: [u64; 2],
    /// A read burst is asked for.
    pub ar_valid: u8,
    /// Its id.
    pub ar_id: u8,
    /// Its beats less one.
    pub ar_len: u8,
    /// Base-two logarithm of the bytes of its beats.
    pub ar_size: u8,
    /// A write burst is announced.
    pub aw_valid: u8,
    /// Its id.
    pub aw_id: u8,
    /// Its beats less one.
    pub aw_len: u8,
    /// Base-two logarithm of the bytes of its beats.
    pub aw_size: u8,
    /// A beat to be written is there.
    pub w_valid: u8,
    /// Which of its bytes are written.
    pub w_strb: u16,
    /// It is the last of its burst.
    pub w_last: u8,
    /// A beat that was read would be taken.
    pub r_ready: u8,
    /// A response to a write would be taken.
    pub b_ready: u8,
}

/// What a slave drives in one clock. All responses are OKAY.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NagoriAxiSlave {
    /// A beat that was read, lowest bytes first.
    pub r_data: [u64; 2],
    /// A read burst would be accepted.
    pub ar_ready: u8,
    /// A write burst would be accepted.
    pub aw_ready: u8,
    /// A beat to be written would be accepted.
    pub w_ready: u8,
    /// A beat that was read is there.
    pub r_valid: u8,
    /// Its burst's id.
    pub r_id: u8,
    /// It is the last of its burst.
    pub r_last: u8,
    /// A response to a write is there.
    pub b_valid: u8,
    /// Its burst's id.
    pub b_id: u8,
}

/// A burst that has been asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Its number on this port, counted from 0 for both directions together.
    pub number: u64,
    /// Address of its first byte.
    pub addr: u64,
    /// Beats.
    pub beats: u64,
    /// Bytes of a beat.
    pub bytes: u64,
}

/// Some bytes of a beat to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Address of the beat, a multiple of the port's width.
    pub addr: u64,
    /// Its data.
    pub data: [u8; WIDEST],
    /// Which of its bytes are written.
    pub strobe: u16,
}

/// What has happened in one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    /// A read burst was accepted.
    pub read: Option<Burst>,
    /// A write burst was accepted; its beats follow.
    pub write: Option<Burst>,
    /// A beat was written.
    pub beat: Option<Beat>,
    /// The last beat of this write burst was written.
    pub written: Option<u64>,
    /// The response to this write burst was taken.
    pub acknowledged: Option<u64>,
}

struct Reading {
    burst: Burst,
    id: u8,
    due: Option<u64>,
    sent: u64,
}

struct Writing {
    burst: Burst,
    id: u8,
    due: Option<u64>,
    taken: u64,
    complete: bool,
}

/// A port. Bursts are answered in the order in which they are due; a burst that has begun is sent to its end.
pub struct Port {
    /// Bytes of its beats.
    width: u64,
    next: u64,
    reads: VecDeque<Reading>,
    writes: VecDeque<Writing>,
}

/// The bytes of a beat.
fn bytes_of(data: [u64; 2]) -> [u8; WIDEST] {
    let mut bytes = [0; WIDEST];
    for (to, word) in bytes.chunks_exact_mut(8).zip(data) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

impl Port {
    /// A port whose beats have 8 or 16 bytes.
    pub fn new(width: u64) -> Port {
        Port {
            width,
            next: 0,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
        }
    }

    /// The first beat of a read burst is due at `cycle`; the others follow in a clock each.
    pub fn read_due(&mut self, number: u64, cycle: u64) {
        if let Some(r) = self.reads.iter_mut().find(|r| r.burst.number == number) {
            r.due = Some(cycle);
        }
    }

    /// The response to a write burst is due at `cycle`, and not before its last beat was taken.
    pub fn write_due(&mut self, number: u64, cycle: u64) {
        if let Some(w) = self.writes.iter_mut().find(|w| w.burst.number == number) {
            w.due = Some(cycle);
        }
    }

    /// Whether a write burst has no response yet, and none is offered in this clock.
    pub fn owes_responses(&self, cycle: u64) -> bool {
        self.writes.len() > usize::from(self.responding(cycle).is_some())
    }

    /// The read burst whose beat is sent in this clock, and that beat's address.
    pub fn reading(&self, cycle: u64) -> Option<(Burst, u64)> {
        let r = &self.reads[self.sending(cycle)?];
        let addr = (r.burst.addr & !(self.width - 1)) + r.sent * self.width;
        Some((r.burst, addr))
    }

    /// What this port drives; `data` is the beat of [`Port::reading`]. `reads` says whether it accepts
    /// read bursts.
    pub fn drive(&self, cycle: u64, data: [u64; 2], reads: bool) -> NagoriAxiSlave {
        let mut s = NagoriAxiSlave {
            ar_ready: reads.into(),
            aw_ready: 1,
            // Beats belong to the oldest burst that is not complete.
            w_ready: self.writes.iter().any(|w| !w.complete).into(),
            ..NagoriAxiSlave::default()
        };
        if let Some(r) = self.sending(cycle).map(|i| &self.reads[i]) {
            s.r_valid = 1;
            s.r_id = r.id;
            s.r_data = data;
            s.r_last = (r.sent + 1 == r.burst.beats).into();
        }
        if let Some(w) = self.responding(cycle).map(|i| &self.writes[i]) {
            s.b_valid = 1;
            s.b_id = w.id;
        }
        s
    }

    /// The clock edge at the end of `cycle`: `s` is what this port drove, `m` what the master did.
    pub fn clock(&mut self, cycle: u64, s: &NagoriAxiSlave, m: &NagoriAxiMaster) -> Happened {
        let mut h = Happened::default();
        if s.r_valid != 0 && m.r_ready != 0 {
            if let Some(i) = self.sending(cycle) {
                self.reads[i].sent += 1;
                if self.reads[i].sent == self.reads[i].burst.beats {
                    self.reads.remove(i);
                }
            }
        }
        if s.b_valid != 0 && m.b_ready != 0 {
            if let Some(i) = self.responding(cycle) {
                h.acknowledged = self.writes.remove(i).map(|w| w.burst.number);
            }
        }
        if s.w_ready != 0 && m.w_valid != 0 {
            if let Some(w) = self.writes.iter_mut().find(|w| !w.complete) {
                h.beat = Some(Beat {
                    addr: (w.burst.addr & !(self.width - 1)) + w.taken * self.width,
                    data: bytes_of(m.w_data),
                    strobe: m.w_strb,
                });
                w.taken += 1;
                if m.w_last != 0 || w.taken == w.burst.beats {
                    w.complete = true;
                    h.written = Some(w.burst.number);
                }
            }
        }
        if s.ar_ready != 0 && m.ar_valid != 0 {
            let burst = self.number(m.ar_addr, m.ar_len, m.ar_size);
            self.reads.push_back(Reading {
                burst,
                id: m.ar_id,
                due: None,
                sent: 0,
            });
            h.read = Some(burst);
        }
        if s.aw_ready != 0 && m.aw_valid != 0 {
            let burst = self.number(m.aw_addr, m.aw_len, m.aw_size);
            self.writes.push_back(Writing {
                burst,
                id: m.aw_id,
                due: None,
                taken: 0,
                complete: false,
            });
            h.write = Some(burst);
        }
        h
    }

    fn number(&mut self, addr: u64, len: u8, size: u8) -> Burst {
        let number = self.next;
        self.next += 1;
        Burst {
            number,
            addr,
            beats: u64::from(len) + 1,
            bytes: 1 << size.min(4),
        }
    }

    /// Which read burst has the data channel: one that has begun, else the one that was due first.
    fn sending(&self, cycle: u64) -> Option<usize> {
        let begun = self.reads.iter().position(|r| r.sent > 0);
        begun.or_else(|| {
            let due = |r: &Reading| r.due.filter(|d| *d <= cycle);
            let all = self.reads.iter().enumerate();
            let ready = all.filter_map(|(i, r)| due(r).map(|d| (d, r.burst.number, i)));
            ready.min().map(|(_, _, i)| i)
        })
    }

    fn responding(&self, cycle: u64) -> Option<usize> {
        let ready = |w: &Writing| w.complete && w.due.is_some_and(|d| d <= cycle);
        self.writes.iter().position(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: u8, addr: u64, len: u8) -> NagoriAxiMaster {
        NagoriAxiMaster {
            ar_valid: 1,
            ar_id: id,
            ar_addr: addr,
            ar_len: len,
            ar_size: 3,
            r_ready: 1,
            b_ready: 1,
            ..NagoriAxiMaster::default()
        }
    }

    const IDLE: NagoriAxiMaster = NagoriAxiMaster {
        ar_addr: 0,
        aw_addr: 0,
        w_data: [0; 2],
        ar_valid: 0,
        ar_id: 0,
        ar_len: 0,
        ar_size: 0,
        aw_valid: 0,
        aw_id: 0,
        aw_len: 0,
        aw_size: 0,
        w_valid: 0,
        w_strb: 0,
        w_last: 0,
        r_ready: 1,
        b_ready: 1,
    };

    #[test]
    fn a_read_burst_begins_when_it_is_due_and_has_all_its_beats() {
        let mut p = Port::new(8);
        let h = p.clock(0, &p.drive(0, [0; 2], true), &read(5, 0x40, 7));
        assert_eq!(
            h.read.map(|b| (b.number, b.addr, b.beats)),
            Some((0, 0x40, 8))
        );
        p.read_due(0, 3);
        for cycle in 1..20 {
            let at = p.reading(cycle).map(|(_, addr)| addr);
            let s = p.drive(cycle, [0; 2], true);
            let beat = cycle.checked_sub(3).filter(|b| *b < 8);
            assert_eq!(at, beat.map(|b| 0x40 + 8 * b), "cycle {cycle}");
            assert_eq!(
                (s.r_valid != 0, s.r_last != 0),
                (beat.is_some(), beat == Some(7))
            );
            p.clock(cycle, &s, &IDLE);
        }
    }

    #[test]
    fn a_burst_that_has_begun_is_not_interrupted_and_a_beat_that_is_not_taken_stays() {
        let mut p = Port::new(8);
        p.clock(0, &p.drive(0, [0; 2], true), &read(1, 0x0, 1));
        p.clock(1, &p.drive(1, [0; 2], true), &read(2, 0x80, 1));
        p.read_due(0, 3);
        p.read_due(1, 2);
        let mut ids = Vec::new();
        for cycle in 2..9 {
            let s = p.drive(cycle, [0; 2], true);
            let r_ready = (cycle != 3).into();
            if s.r_valid != 0 {
                ids.push(s.r_id);
            }
            p.clock(cycle, &s, &NagoriAxiMaster { r_ready, ..IDLE });
        }
        assert_eq!(ids, [2, 2, 2, 1, 1]);
    }

    #[test]
    fn a_write_is_acknowledged_after_its_last_beat_and_no_earlier_than_it_is_due() {
        for (due, expected) in [(0, 4), (9, 9)] {
            let mut p = Port::new(8);
            let aw = NagoriAxiMaster {
                aw_valid: 1,
                aw_addr: 0x100,
                aw_len: 1,
                aw_size: 3,
                ..IDLE
            };
            assert_eq!(
                p.drive(0, [0; 2], true).w_ready,
                0,
                "no beat without its address"
            );
            p.clock(0, &p.drive(0, [0; 2], true), &aw);
            p.write_due(0, due);
            let mut beats = Vec::new();
            let mut acknowledged = None;
            for cycle in 1..12 {
                let w = NagoriAxiMaster {
                    w_valid: (cycle == 1 || cycle == 3).into(),
                    w_strb: 0xf0,
                    w_data: [cycle, 0],
                    w_last: (cycle == 3).into(),
                    ..IDLE
                };
                let h = p.clock(cycle, &p.drive(cycle, [0; 2], true), &w);
                beats.extend(h.beat.map(|b| (b.addr, b.data[0], b.strobe)));
                if h.acknowledged.is_some() {
                    acknowledged = Some(cycle);
                }
            }
            assert_eq!(beats, [(0x100, 1, 0xf0), (0x108, 3, 0xf0)]);
            assert_eq!(acknowledged, Some(expected));
            assert!(!p.owes_responses(12));
        }
    }

    #[test]
    fn a_wide_port_has_half_the_beats() {
        let mut p = Port::new(16);
        let m = NagoriAxiMaster {
            ar_size: 4,
            ..read(0, 0x40, 3)
        };
        p.clock(0, &p.drive(0, [0; 2], true), &m);
        p.read_due(0, 1);
        let addresses: Vec<_> = (1..5)
            .map(|cycle| {
                let at = p.reading(cycle).map(|(_, addr)| addr);
                p.clock(cycle, &p.drive(cycle, [0; 2], true), &IDLE);
                at
            })
            .collect();
        assert_eq!(addresses, [0x40, 0x50, 0x60, 0x70].map(Some));
        assert_eq!(p.reading(5), None);
    }
}
