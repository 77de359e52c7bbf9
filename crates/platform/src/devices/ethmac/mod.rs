//! OpenCores Ethernet MAC ("ethmac", 10/100 Mbit/s): registers and behaviour after its specification, revision 1.7.
//!
//! Frames take the time that they take on the wire: 8 bytes of preamble, the frame with its check sequence,
//! the gap. Both directions are independent (full duplex); there are no collisions. A frame to be sent is
//! read from memory when it begins, a received one is written when it has ended; with the detailed timing model its
//! lines pass the bus and memory while it is on the wire. Links of the host carry
//! frames without check sequences, so one that the driver computed itself is compared, and dropped if it is wrong.

mod descriptors;
mod dma;
mod filter;
mod phy;

use super::virtio::Traffic;
use crate::clock::Ps;
use crate::device::{BusFault, Device, DeviceCx, DeviceState, Placement, StateError};
use crate::fdt::{Node, PLIC_LABEL};
use descriptors::{bit, Descriptors};
use dma::Dma;
use filter::Accepted;
use nagori_usernet::{finish, Error, Frame, Guest, Link};
use phy::Phy;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::VecDeque;
use std::time::Duration;

/// Length of the range in bytes: registers, then descriptors.
pub const SIZE: u64 = 0x1000;
const KIND: &str = "ethmac";
const VERSION: u32 = 1;
/// Where the descriptors are.
const DESCRIPTORS: u64 = 0x400;
const DESCRIPTORS_END: u64 = 0x800;

/// Registers, in the order of their addresses, 4 bytes each.
mod reg {
    pub const MODE: usize = 0;
    pub const INT_SOURCE: usize = 1;
    pub const INT_MASK: usize = 2;
    pub const IPGT: usize = 3;
    pub const PACKET_LENGTH: usize = 6;
    pub const TX_BD_NUM: usize = 8;
    pub const CONTROL_MODE: usize = 9;
    pub const MII_MODE: usize = 10;
    pub const MII_COMMAND: usize = 11;
    pub const MII_ADDRESS: usize = 12;
    pub const MII_TX: usize = 13;
    pub const MII_RX: usize = 14;
    pub const MII_STATUS: usize = 15;
    pub const MAC_0: usize = 16;
    pub const MAC_1: usize = 17;
    pub const HASH_0: usize = 18;
    pub const HASH_1: usize = 19;
    pub const TX_CONTROL: usize = 20;
    pub const COUNT: usize = 21;
}

/// Values after reset, and the bits that software can set.
const REGISTERS: [(u32, u32); reg::COUNT] = [
    (0x0000_a000, 0x0001_f7ff), // MODER
    (0, 0),                     // INT_SOURCE: by events alone
    (0, 0x7f),                  // INT_MASK
    (0x12, 0x7f),               // IPGT
    (0x0c, 0x7f),               // IPGR1
    (0x12, 0x7f),               // IPGR2
    (0x0040_0600, u32::MAX),    // PACKETLEN
    (0x000f_003f, 0x000f_003f), // COLLCONF
    (0x40, 0xff),               // TX_BD_NUM
    (0, 0x7),                   // CTRLMODER
    (0x64, 0x1ff),              // MIIMODER
    (0, 0x7),                   // MIICOMMAND
    (0, 0x1f1f),                // MIIADDRESS
    (0, 0xffff),                // MIITX_DATA
    (0, 0),                     // MIIRX_DATA
    (0, 0),                     // MIISTATUS
    (0, u32::MAX),              // MAC_ADDR0
    (0, 0xffff),                // MAC_ADDR1
    (0, u32::MAX),              // ETH_HASH0_ADR
    (0, u32::MAX),              // ETH_HASH1_ADR
    (0, 0x1_ffff),              // ETH_TXCTRL
];

mod mode {
    pub const RECEIVE: u32 = 1 << 0;
    pub const SEND: u32 = 1 << 1;
    pub const NO_PREAMBLE: u32 = 1 << 2;
    pub const LOOPBACK: u32 = 1 << 7;
    pub const FULL_DUPLEX: u32 = 1 << 10;
    pub const CRC: u32 = 1 << 13;
    pub const HUGE: u32 = 1 << 14;
    pub const PAD: u32 = 1 << 15;
    pub const SMALL: u32 = 1 << 16;
}

mod interrupt {
    pub const SENT: u32 = 1 << 0;
    pub const SEND_ERROR: u32 = 1 << 1;
    pub const RECEIVED: u32 = 1 << 2;
    pub const RECEIVE_ERROR: u32 = 1 << 3;
    pub const BUSY: u32 = 1 << 4;
    pub const CONTROL_SENT: u32 = 1 << 5;
    pub const CONTROL_RECEIVED: u32 = 1 << 6;
}

mod control_mode {
    pub const PASS_ALL: u32 = 1 << 0;
    pub const RECEIVE_FLOW: u32 = 1 << 1;
    pub const SEND_FLOW: u32 = 1 << 2;
}

mod mii {
    pub const SCAN: u32 = 1 << 0;
    pub const READ: u32 = 1 << 1;
    pub const WRITE: u32 = 1 << 2;
    pub const LINK_FAIL: u32 = 1 << 0;
    pub const BUSY: u32 = 1 << 1;
    pub const NOT_VALID: u32 = 1 << 2;
    /// Bits of an operation on the serial interface, with and without its preamble.
    pub const BITS: [u64; 2] = [64, 32];
}

const PAUSE_REQUEST: u32 = 1 << 16;
/// Bit times of one unit of a pause.
const PAUSE_UNIT_BYTES: u64 = 512 / 8;
/// Bytes of a frame check sequence.
const FCS: usize = 4;
const PREAMBLE: u64 = 8;
/// Shortest frame on a wire, without its check sequence: other senders pad to it.
const SHORTEST: usize = 60;
/// Gap behind a frame of another sender, in bytes.
const GAP: u64 = 12;
/// Header of a frame.
const HEADER: usize = 14;
/// Frames that wait in front of the wire: what a switch's port holds.
const WAITING: usize = 64;

/// A frame on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Flight {
    /// When its last bit has passed, in picoseconds of machine time.
    ends: u64,
    /// From the destination address on, without check sequence.
    bytes: Vec<u8>,
    /// Sending: bits for the descriptor, and whether the frame is dropped. Not for control frames.
    bits: u32,
    dropped: bool,
    /// A control frame of the MAC's own.
    control: bool,
    /// What is still to be transferred between memory and the MAC's buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dma: Option<Dma>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    regs: Vec<u32>,
    descriptors: Descriptors,
    phy: Phy,
    sending: Option<Flight>,
    receiving: Option<Flight>,
    /// Frames in front of the receiver, first come first.
    waiting: VecDeque<Vec<u8>>,
    /// When the wire is free again, in picoseconds: for sending, for receiving.
    free: [u64; 2],
    /// Nothing is sent before, since the partner asked for a pause.
    paused: u64,
    /// When the operation on the serial interface ends, and what it is.
    serial: Option<(u64, u32)>,
    traffic: Traffic,
}

impl State {
    /// After power-on; firmware has set the address.
    fn power_on(mac: &[u8; 6]) -> State {
        let mut regs: Vec<u32> = REGISTERS.iter().map(|r| r.0).collect();
        regs[reg::MAC_0] = u32::from_be_bytes([mac[2], mac[3], mac[4], mac[5]]);
        regs[reg::MAC_1] = u32::from_be_bytes([0, 0, mac[0], mac[1]]);
        State {
            regs,
            descriptors: Descriptors::default(),
            phy: Phy::default(),
            sending: None,
            receiving: None,
            waiting: VecDeque::new(),
            free: [0; 2],
            paused: 0,
            serial: None,
            traffic: Traffic::default(),
        }
    }

    fn mode(&self, bit: u32) -> bool {
        self.regs[reg::MODE] & bit != 0
    }

    fn longest(&self) -> usize {
        if self.mode(mode::HUGE) {
            0xffff
        } else {
            (self.regs[reg::PACKET_LENGTH] & 0xffff) as usize
        }
    }

    fn shortest(&self) -> usize {
        (self.regs[reg::PACKET_LENGTH] >> 16) as usize
    }

    /// The gap behind an own frame, in picoseconds. The register counts nibbles, less what the MAC needs anyway.
    fn gap_ps(&self) -> u64 {
        let more = if self.mode(mode::FULL_DUPLEX) { 3 } else { 6 };
        (u64::from(self.regs[reg::IPGT]) + more) * self.phy.byte_ps() / 2
    }

    fn mac(&self) -> [u8; 6] {
        let (low, high) = (self.regs[reg::MAC_0], self.regs[reg::MAC_1]);
        let mut mac = [0; 6];
        mac[..2].copy_from_slice(&(high as u16).to_be_bytes());
        mac[2..].copy_from_slice(&low.to_be_bytes());
        mac
    }

    /// Where a frame that begins is written to, if it is received.
    fn place(&self, bytes: &[u8]) -> Option<u32> {
        let hash = [self.regs[reg::HASH_0], self.regs[reg::HASH_1]];
        let wanted = match filter::paused(bytes) {
            Some(_) => self.regs[reg::CONTROL_MODE] & control_mode::PASS_ALL != 0,
            None => filter::accepts(bytes, self.regs[reg::MODE], &self.mac(), hash) != Accepted::No,
        };
        let [_, address] = self.descriptors.to_receive()?;
        (wanted && self.mode(mode::RECEIVE)).then_some(address)
    }

    fn raise(&mut self, bits: u32) {
        self.regs[reg::INT_SOURCE] |= bits;
    }
}

/// The device; its link is down until it is connected.
pub struct Ethmac {
    name: String,
    /// The address that firmware sets.
    mac: [u8; 6],
    /// Picoseconds of a cycle of the bus clock, from which that of the serial interface is divided.
    cycle_ps: u64,
    state: State,
    link: Option<Box<dyn Link>>,
    guest: Guest,
    next: Option<Ps>,
    live: bool,
    /// Latest time that the link was given: harts are at different times.
    time: Duration,
    fault: Option<Error>,
}

impl Ethmac {
    /// A device that is not connected. `mac`: the address that firmware sets; `cycle_ps`: of the bus clock.
    pub fn new(name: String, mac: [u8; 6], cycle_ps: u64) -> Ethmac {
        Ethmac {
            name,
            state: State::power_on(&mac),
            mac,
            cycle_ps: cycle_ps.max(1),
            link: None,
            guest: Guest::default(),
            next: None,
            live: false,
            time: Duration::ZERO,
            fault: None,
        }
    }

    /// Name of its slot.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address that firmware sets.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Gives it another address, as firmware does.
    pub fn set_mac(&mut self, mac: [u8; 6]) {
        self.mac = mac;
        let set = State::power_on(&mac).regs;
        self.state.regs[reg::MAC_0] = set[reg::MAC_0];
        self.state.regs[reg::MAC_1] = set[reg::MAC_1];
    }

    /// Frames and bytes so far. Dropped are also those for which there was no descriptor.
    pub fn traffic(&self) -> Traffic {
        self.state.traffic
    }

    /// Why the cable was unplugged, if the host failed.
    pub fn take_fault(&mut self) -> Option<Error> {
        self.fault.take()
    }

    /// Plugs the cable in.
    pub fn connect(&mut self, cx: &mut DeviceCx<'_>, link: Box<dyn Link>) {
        self.link = Some(link);
        self.guest = Guest::default();
        self.work(cx);
    }

    fn link_time(&mut self, now: Ps) -> Duration {
        self.time = self.time.max(Duration::from_nanos(now.0 / 1000));
        self.time
    }

    /// Does everything that was due until now, each at its time, and what can be done now.
    fn work(&mut self, cx: &mut DeviceCx<'_>) {
        while let Some(at) = self.next.filter(|t| *t < cx.now) {
            let mut then = cx.reborrow();
            then.now = at;
            self.step(&mut then);
            if self.next == Some(at) {
                break;
            }
        }
        self.step(cx);
    }

    /// What ends at this time, and what can begin.
    fn step(&mut self, cx: &mut DeviceCx<'_>) {
        let now = self.link_time(cx.now);
        let guest = Guest {
            mac: self.state.mac(),
            running: self.state.mode(mode::RECEIVE | mode::SEND),
            segments: false,
        };
        if let Some(link) = self.link.as_mut().filter(|_| guest != self.guest) {
            self.guest = guest;
            link.set_guest(guest);
        }
        let up = self.link.as_ref().is_some_and(|l| l.is_up());
        if up != self.state.phy.up {
            self.state.phy.set_up(up);
        }
        loop {
            self.transfer(cx);
            let mut any = self.serial(cx);
            any |= self.finish_sending(cx, now) | self.finish_receiving(cx);
            if let Some(link) = &mut self.link {
                link.run(now);
            }
            any |= self.fetch();
            any |= self.begin_sending(cx) | self.begin_receiving(cx);
            if !any {
                break;
            }
        }
        let own = self.events().filter(|t| *t > cx.now.0).min();
        self.live = false;
        let mut of_link = None;
        if let Some(link) = &mut self.link {
            self.live = link.is_live(now);
            let next = link.next_time(now);
            of_link = next.and_then(|t| u64::try_from(t.as_nanos()).ok()?.checked_mul(1000));
        }
        self.next = own.into_iter().chain(of_link).min().map(Ps);
        let regs = &self.state.regs;
        cx.set_irq(regs[reg::INT_SOURCE] & regs[reg::INT_MASK] != 0);
    }

    /// When something of its own ends or can begin, in picoseconds.
    fn events(&self) -> impl Iterator<Item = u64> {
        let s = &self.state;
        let all = [
            s.sending.as_ref().map(|f| f.ends),
            s.receiving.as_ref().map(|f| f.ends),
            s.sending.as_ref().and_then(|f| Some(f.dma?.next())),
            s.receiving.as_ref().and_then(|f| Some(f.dma?.next())),
            s.serial.map(|o| o.0),
            // What waits for the wire or for the end of a pause.
            (s.sending.is_none() && self.wants_to_send()).then(|| s.free[0].max(s.paused)),
            (s.receiving.is_none() && !s.waiting.is_empty()).then_some(s.free[1]),
        ];
        all.into_iter().flatten()
    }

    /// Transfers the lines that are due.
    fn transfer(&mut self, cx: &mut DeviceCx<'_>) {
        let s = &mut self.state;
        let byte = s.phy.byte_ps();
        for flight in [&mut s.sending, &mut s.receiving].into_iter().flatten() {
            flight.dma = flight.dma.and_then(|d| d.run(cx, byte));
        }
    }

    fn wants_to_send(&self) -> bool {
        let s = &self.state;
        s.regs[reg::TX_CONTROL] & PAUSE_REQUEST != 0
            || s.mode(mode::SEND) && s.descriptors.to_send().is_some()
    }

    /// Ends an operation on the serial interface that is due.
    fn serial(&mut self, cx: &DeviceCx<'_>) -> bool {
        let s = &mut self.state;
        let Some((_, command)) = s.serial.filter(|o| o.0 <= cx.now.0) else {
            return false;
        };
        s.serial = None;
        let at = s.regs[reg::MII_ADDRESS] as u16;
        let (address, register) = (at & 0x1f, at >> 8);
        match command {
            mii::WRITE => {
                let value = s.regs[reg::MII_TX] as u16;
                s.phy.write(address, register, value);
            }
            _ => s.regs[reg::MII_RX] = s.phy.read(address, register).into(),
        }
        let fails = u32::from(s.phy.link_fails()) * mii::LINK_FAIL;
        s.regs[reg::MII_STATUS] = fails;
        if s.regs[reg::MII_COMMAND] & mii::SCAN != 0 {
            self.begin_serial(cx.now, mii::SCAN);
        }
        true
    }

    fn begin_serial(&mut self, now: Ps, command: u32) {
        let s = &mut self.state;
        let divider = u64::from(s.regs[reg::MII_MODE] & 0xff).max(2);
        let bits = mii::BITS[(s.regs[reg::MII_MODE] >> 8 & 1) as usize];
        let takes = bits * divider * self.cycle_ps;
        s.serial = Some((now.0 + takes, command));
        if command != mii::SCAN {
            s.regs[reg::MII_STATUS] |= mii::BUSY;
        }
    }

    /// Takes frames from the link, as many as may wait.
    fn fetch(&mut self) -> bool {
        let mut any = false;
        while self.state.waiting.len() < WAITING {
            let Some(frame) = self.link.as_mut().and_then(|l| l.receive()) else {
                break;
            };
            any = true;
            // Checksums and segments that a sender has left to its hardware are made here.
            match finish(frame) {
                Ok(frames) => {
                    for mut f in frames {
                        if f.bytes.len() < SHORTEST {
                            f.bytes.resize(SHORTEST, 0);
                        }
                        self.state.waiting.push_back(f.bytes);
                    }
                }
                Err(_) => self.state.traffic.dropped_frames += 1,
            }
        }
        any
    }

    fn begin_sending(&mut self, cx: &mut DeviceCx<'_>) -> bool {
        let s = &mut self.state;
        if s.sending.is_some() || cx.now.0 < s.free[0] {
            return false;
        }
        let flight = if s.regs[reg::TX_CONTROL] & PAUSE_REQUEST != 0 {
            s.regs[reg::TX_CONTROL] &= !PAUSE_REQUEST;
            if s.regs[reg::CONTROL_MODE] & control_mode::SEND_FLOW == 0 {
                return true;
            }
            let bytes = filter::pause(&s.mac(), s.regs[reg::TX_CONTROL] as u16);
            Flight {
                bytes,
                control: true,
                ..Flight::default()
            }
        } else {
            let ready = s.descriptors.to_send().filter(|_| s.mode(mode::SEND));
            let Some([status, address]) = ready.filter(|_| cx.now.0 >= s.paused) else {
                return false;
            };
            read_frame(s, cx, status, address)
        };
        let preamble = if s.mode(mode::NO_PREAMBLE) {
            1
        } else {
            PREAMBLE
        };
        let bytes = preamble + (flight.bytes.len() + FCS) as u64;
        let ends = cx.now.0 + bytes * s.phy.byte_ps();
        s.free[0] = ends + s.gap_ps();
        s.sending = Some(Flight { ends, ..flight });
        self.transfer(cx);
        true
    }

    fn finish_sending(&mut self, cx: &mut DeviceCx<'_>, now: Duration) -> bool {
        let s = &mut self.state;
        let Some(mut flight) = s.sending.take_if(|f| f.ends <= cx.now.0) else {
            return false;
        };
        let loops = s.mode(mode::LOOPBACK);
        if flight.control {
            s.raise(interrupt::CONTROL_SENT);
        } else {
            if !loops && !s.phy.up {
                flight.bits |= bit::NO_CARRIER;
            }
            let irq = s
                .descriptors
                .to_send()
                .is_some_and(|d| d[0] & bit::IRQ != 0);
            s.descriptors.sent(flight.bits);
            if irq {
                let failed = flight.bits & bit::UNDERRUN != 0;
                s.raise(if failed {
                    interrupt::SEND_ERROR
                } else {
                    interrupt::SENT
                });
            }
        }
        if flight.dropped {
            s.traffic.dropped_frames += 1;
            return true;
        }
        s.traffic.sent_frames += 1;
        s.traffic.sent_bytes += flight.bytes.len() as u64;
        if loops {
            s.waiting.push_back(flight.bytes);
        } else {
            cx.sends(0);
            match self.link.as_mut().filter(|l| l.is_up()) {
                Some(link) => link.send(now, Frame::plain(flight.bytes)),
                None => s.traffic.dropped_frames += 1,
            }
        }
        true
    }

    fn begin_receiving(&mut self, cx: &mut DeviceCx<'_>) -> bool {
        let s = &mut self.state;
        if s.receiving.is_some() || cx.now.0 < s.free[1] {
            return false;
        }
        let Some(bytes) = s.waiting.pop_front() else {
            return false;
        };
        let byte = s.phy.byte_ps();
        let ends = cx.now.0 + (PREAMBLE + (bytes.len() + FCS) as u64) * byte;
        s.free[1] = ends + GAP * byte;
        let dma = s.place(&bytes).filter(|_| cx.transfers_cost());
        let dma = dma.and_then(|address| {
            let length = (bytes.len() + FCS).min(s.longest());
            let begins = cx.now.0 + PREAMBLE * byte;
            Dma::receiving(begins, address, length, byte)
        });
        s.receiving = Some(Flight {
            ends,
            bytes,
            dma,
            ..Flight::default()
        });
        true
    }

    fn finish_receiving(&mut self, cx: &mut DeviceCx<'_>) -> bool {
        let s = &mut self.state;
        let Some(flight) = s.receiving.take_if(|f| f.ends <= cx.now.0) else {
            return false;
        };
        if !s.mode(mode::RECEIVE) {
            s.traffic.dropped_frames += 1;
            return true;
        }
        let mut bits = 0;
        if let Some(units) = filter::paused(&flight.bytes) {
            s.raise(interrupt::CONTROL_RECEIVED);
            let flow = s.regs[reg::CONTROL_MODE];
            if flow & control_mode::RECEIVE_FLOW != 0 {
                s.paused = cx.now.0 + u64::from(units) * PAUSE_UNIT_BYTES * s.phy.byte_ps();
            }
            if flow & control_mode::PASS_ALL == 0 {
                return true;
            }
            bits |= bit::CONTROL;
        } else {
            let hash = [s.regs[reg::HASH_0], s.regs[reg::HASH_1]];
            match filter::accepts(&flight.bytes, s.regs[reg::MODE], &s.mac(), hash) {
                Accepted::No => return true,
                Accepted::ForAll => bits |= bit::MISS,
                Accepted::Yes => {}
            }
        }
        let length = flight.bytes.len() + FCS;
        if length < s.shortest() {
            if !s.mode(mode::SMALL) {
                s.traffic.dropped_frames += 1;
                return true;
            }
            bits |= bit::SHORT;
        }
        let mut data = flight.bytes;
        let fcs = crc32fast::hash(&data).to_le_bytes();
        data.extend(fcs);
        if length > s.longest() {
            bits |= bit::TOO_LONG;
            data.truncate(s.longest());
        }
        let Some([status, address]) = s.descriptors.to_receive() else {
            s.raise(interrupt::BUSY);
            s.traffic.dropped_frames += 1;
            return true;
        };
        if cx.dma_write(address.into(), &data).is_err() {
            bits |= bit::OVERRUN;
        }
        s.traffic.received_frames += 1;
        s.traffic.received_bytes += (length - FCS) as u64;
        s.descriptors.received(length.min(0xffff), bits);
        if status & bit::IRQ != 0 {
            let failed = bits & (bit::OVERRUN | bit::TOO_LONG | bit::SHORT) != 0;
            s.raise(if failed {
                interrupt::RECEIVE_ERROR
            } else {
                interrupt::RECEIVED
            });
        }
        true
    }

    fn set(&mut self, cx: &DeviceCx<'_>, n: usize, value: u32) {
        let s = &mut self.state;
        let allowed = REGISTERS[n].1;
        let before = s.regs[n];
        match n {
            // Ones clear.
            reg::INT_SOURCE => s.regs[n] &= !value,
            reg::TX_BD_NUM => {
                // Larger numbers are not taken.
                let count = value & allowed;
                if count as usize <= descriptors::COUNT {
                    s.regs[n] = count;
                    s.descriptors.divide(count as usize);
                }
            }
            reg::MII_COMMAND => {
                s.regs[n] = value & allowed;
                if let Some(command) = [mii::WRITE, mii::READ].into_iter().find(|c| value & c != 0)
                {
                    self.begin_serial(cx.now, command);
                    // Reads and writes happen once.
                    self.state.regs[n] &= mii::SCAN;
                } else if value & mii::SCAN != 0 && before & mii::SCAN == 0 {
                    s.regs[reg::MII_STATUS] |= mii::NOT_VALID;
                    self.begin_serial(cx.now, mii::SCAN);
                }
            }
            _ => s.regs[n] = before & !allowed | value & allowed,
        }
        if n == reg::MODE {
            let s = &mut self.state;
            let begun = s.regs[n] & !before;
            if begun & mode::SEND != 0 {
                s.descriptors.rewind_send();
            }
            if begun & mode::RECEIVE != 0 {
                s.descriptors.rewind_receive();
            }
        }
    }
}

/// The frame of a descriptor, as it goes over the wire.
fn read_frame(s: &State, cx: &DeviceCx<'_>, status: u32, address: u32) -> Flight {
    let mut bytes = vec![0; ((status >> 16) as usize).min(s.longest())];
    let mut flight = Flight::default();
    if cx.dma_read(address.into(), &mut bytes).is_err() {
        flight.bits = bit::UNDERRUN;
        flight.dropped = true;
        return flight;
    }
    if cx.transfers_cost() {
        flight.dma = Dma::sending(cx.now.0, address, bytes.len());
    }
    let crc = s.mode(mode::CRC) || status & bit::CRC != 0;
    let shortest = s.shortest().saturating_sub(FCS);
    if (s.mode(mode::PAD) || status & bit::PAD != 0) && bytes.len() < shortest {
        bytes.resize(shortest, 0);
    }
    if !crc {
        // The driver has computed it: it is the end of what was given.
        let end = bytes.len().saturating_sub(FCS);
        let own = bytes.split_off(end);
        flight.dropped = own != crc32fast::hash(&bytes).to_le_bytes();
    }
    flight.dropped |= bytes.len() < HEADER;
    flight.bytes = bytes;
    flight
}

fn check(offset: u64, size: u8) -> Result<(), BusFault> {
    BusFault::unless_size(&[4], KIND, offset, size)
}

impl Device for Ethmac {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&mut self, cx: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        check(offset, size)?;
        // What is due before this access is seen by it.
        self.work(cx);
        let n = offset as usize / 4;
        Ok(match offset {
            DESCRIPTORS..DESCRIPTORS_END => {
                let word = self
                    .state
                    .descriptors
                    .word((offset - DESCRIPTORS) as usize / 4);
                (*word).into()
            }
            _ => self.state.regs.get(n).copied().unwrap_or(0).into(),
        })
    }

    fn write(
        &mut self,
        cx: &mut DeviceCx<'_>,
        offset: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault> {
        check(offset, size)?;
        self.work(cx);
        match offset {
            DESCRIPTORS..DESCRIPTORS_END => {
                *self
                    .state
                    .descriptors
                    .word((offset - DESCRIPTORS) as usize / 4) = value as u32;
            }
            _ if (offset as usize / 4) < reg::COUNT => {
                self.set(cx, offset as usize / 4, value as u32)
            }
            _ => {}
        }
        self.work(cx);
        Ok(())
    }

    fn next_event(&self) -> Option<Ps> {
        self.next
    }

    fn on_time(&mut self, cx: &mut DeviceCx<'_>) {
        self.work(cx);
    }

    fn poll(&mut self, cx: &mut DeviceCx<'_>) {
        let now = self.link_time(cx.now);
        if let Some(Err(e)) = self.link.as_mut().map(|l| l.poll(now)) {
            // The host's failure, not the driver's.
            self.fault = Some(e);
            self.link = None;
        }
        self.work(cx);
    }

    fn expects_host(&self) -> bool {
        self.live
    }

    fn nodes(&self, at: &Placement) -> Vec<Node> {
        let node = Node::at("ethernet", at.base)
            .compatible(&["opencores,ethoc"])
            .reg(&[(at.base, at.size)]);
        vec![match at.irq {
            Some(irq) => node.interrupt(PLIC_LABEL, irq),
            None => node,
        }]
    }

    fn reset(&mut self, cx: &mut DeviceCx<'_>) {
        let up = self.state.phy.up;
        self.state = State::power_on(&self.mac);
        self.state.phy.set_up(up);
        self.next = None;
        if let Some(link) = &mut self.link {
            link.reset();
        }
        cx.set_irq(false);
    }

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, VERSION, &self.state)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        let new: State = state.unpack(KIND, VERSION)?;
        let flights = [&new.sending, &new.receiving].into_iter().flatten();
        let transfers = flights.filter_map(|f| f.dma).all(|d| d.is_possible());
        if new.regs.len() != reg::COUNT || !new.descriptors.is_possible() || !transfers {
            return Err(StateError::Content {
                kind: KIND,
                problem: "registers, descriptors or transfers that it does not have".into(),
            });
        }
        self.state = new;
        self.guest = Guest::default();
        self.next = self.events().min().map(Ps);
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
