//! SPI controller of SiFive's FU540-C000 (`sifive,spi0`) with one chip select, and a NOR flash behind it. Registers as
//! in its manual (v1p0, chapter 16), of an instance without memory-mapped flash.
//!
//! Frames take the time that they take on the wire, in cycles of the machine's clock: a period of SCK is
//! 2 · (`sckdiv` + 1) of them, and the delays between chip select and frames are counted. What a frame carries changes
//! hands at its end. The flash has one data line in each direction (DQ0 to it, DQ1 from it); in the dual and quad
//! formats the others are pulled up.

mod flash;

use crate::clock::{Clock, Ps};
use crate::device::{BusFault, Device, DeviceCx, DeviceState, Placement, StateError};
use crate::fdt::{Cell, Node, PLIC_LABEL};
use flash::{Flash, Saved};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::VecDeque;

const KIND: &str = "spi";
const VERSION: u32 = 1;
/// Entries of each FIFO.
const FIFO: usize = 8;
/// In the registers of the FIFOs: the one for data to send is full, the other empty.
const NO_DATA: u32 = 1 << 31;
/// Longest frame in bits.
const LONGEST: u32 = 8;
/// Longest period of SCK in cycles.
const MAX_PERIOD: u64 = 2 << 12;

/// Registers by their numbers: the n-th one is at offset 4 · n.
mod reg {
    pub const SCKDIV: usize = 0;
    pub const SCKMODE: usize = 1;
    pub const CSID: usize = 4;
    pub const CSDEF: usize = 5;
    pub const CSMODE: usize = 6;
    pub const DELAY0: usize = 10;
    pub const DELAY1: usize = 11;
    pub const FMT: usize = 16;
    pub const TXDATA: usize = 18;
    pub const RXDATA: usize = 19;
    pub const TXMARK: usize = 20;
    pub const RXMARK: usize = 21;
    pub const IE: usize = 28;
    pub const IP: usize = 29;
    pub const COUNT: usize = 30;
}

/// Registers that keep what is written: their values after reset, and the bits that software can set.
const REGISTERS: [(usize, u32, u32); 11] = [
    (reg::SCKDIV, 3, 0xfff),
    (reg::SCKMODE, 0, 0x3),
    (reg::CSID, 0, 0x1),
    (reg::CSDEF, 1, 0x1),
    (reg::CSMODE, 0, 0x3),
    (reg::DELAY0, 0x0001_0001, 0x00ff_00ff),
    (reg::DELAY1, 0x0000_0001, 0x00ff_00ff),
    (reg::FMT, 0x0008_0000, 0x000f_000f),
    (reg::TXMARK, 0, 0x7),
    (reg::RXMARK, 0, 0x7),
    (reg::IE, 0, 0x3),
];

/// Values of `csmode`. (1 is reserved, and taken like 0.)
mod chip_select {
    /// Asserted as long as the mode is not changed.
    pub const HOLD: u32 = 2;
    /// Never asserted: the pin follows `csdef`.
    pub const OFF: u32 = 3;
}

mod format {
    pub const LINES: u32 = 3;
    /// The lowest bit comes first.
    pub const LITTLE: u32 = 1 << 2;
    /// Nothing is received; without it, nothing is sent in the dual and quad formats.
    pub const SENDS: u32 = 1 << 3;
    pub const LENGTH_SHIFT: u32 = 16;
}

/// Data lines, by the format's field; the last value is reserved.
const LINES: [u32; 4] = [1, 2, 4, 1];

mod interrupt {
    pub const SEND: u32 = 1;
    pub const RECEIVE: u32 = 2;
}

/// A frame on the wire. Times are ticks of the controller's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    data: u8,
    /// When its first bit begins, and its last one ends.
    starts: u64,
    ends: u64,
    /// `fmt` when it began.
    format: u32,
    /// Cycles of a period of SCK when it began.
    period: u64,
    /// The chip is deselected behind it.
    releases: bool,
}

/// The controller with its flash.
#[derive(Debug)]
pub struct Spi {
    clock: Clock,
    clock_hz: u32,
    regs: [u32; reg::COUNT],
    send: VecDeque<u8>,
    received: VecDeque<u8>,
    frame: Option<Frame>,
    /// Whether the controller asserts its chip select.
    asserted: bool,
    /// No frame begins before this tick.
    ready: u64,
    flash: Flash,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    regs: Vec<u32>,
    send: VecDeque<u8>,
    received: VecDeque<u8>,
    frame: Option<Frame>,
    asserted: bool,
    ready: u64,
    flash: Saved,
}

fn power_on() -> [u32; reg::COUNT] {
    let mut regs = [0; reg::COUNT];
    for (n, value, _) in REGISTERS {
        regs[n] = value;
    }
    regs
}

impl Spi {
    /// A controller at a clock, whose frequency in Hz the device tree gives, with a blank flash.
    pub fn new(clock: Clock, clock_hz: u32) -> Spi {
        Spi {
            clock,
            clock_hz,
            regs: power_on(),
            send: VecDeque::new(),
            received: VecDeque::new(),
            frame: None,
            asserted: false,
            ready: 0,
            flash: Flash::default(),
        }
    }

    /// Cycles of a period of SCK.
    fn period(&self) -> u64 {
        2 * (u64::from(self.regs[reg::SCKDIV]) + 1)
    }

    /// One of the two delays of a register, in periods of SCK.
    fn delay(&self, register: usize, second: bool) -> u64 {
        let shift = if second { 16 } else { 0 };
        (self.regs[register] >> shift & 0xff).into()
    }

    fn pending(&self) -> u32 {
        let mut bits = 0;
        if self.send.len() < self.regs[reg::TXMARK] as usize {
            bits |= interrupt::SEND;
        }
        if self.received.len() > self.regs[reg::RXMARK] as usize {
            bits |= interrupt::RECEIVE;
        }
        bits
    }

    /// Does everything that was due until now, each at its time, and what can be done now.
    fn work(&mut self, cx: &mut DeviceCx<'_>) {
        let now = self.clock.ticks_at(cx.now);
        while let Some(at) = self.event().filter(|at| *at <= now) {
            self.step(at);
        }
        cx.set_irq(self.pending() & self.regs[reg::IE] != 0);
    }

    /// The tick at which a frame ends or begins.
    fn event(&self) -> Option<u64> {
        match &self.frame {
            Some(f) => Some(f.ends),
            None => (!self.send.is_empty()).then_some(self.ready),
        }
    }

    fn step(&mut self, at: u64) {
        if let Some(frame) = self.frame.take_if(|f| f.ends <= at) {
            self.exchange(&frame);
            if frame.releases && self.asserted {
                self.release(frame.ends, frame.period);
            } else {
                let delay = self.delay(reg::DELAY1, true) * frame.period;
                self.ready = frame.ends.saturating_add(delay);
            }
        }
        if self.frame.is_none() && at >= self.ready {
            self.begin(at);
        }
    }

    /// Begins a frame, if there is one.
    fn begin(&mut self, at: u64) {
        let Some(data) = self.send.pop_front() else {
            return;
        };
        let mode = self.regs[reg::CSMODE];
        let format = self.regs[reg::FMT];
        let period = self.period();
        let mut starts = at;
        if mode != chip_select::OFF && !self.asserted {
            self.asserted = true;
            self.follow(at);
            starts = starts.saturating_add(self.delay(reg::DELAY0, false) * period);
        }
        let periods = (format >> format::LENGTH_SHIFT).div_ceil(lines(format));
        self.frame = Some(Frame {
            data,
            starts,
            ends: starts.saturating_add(u64::from(periods) * period),
            format,
            period,
            releases: !matches!(mode, chip_select::HOLD | chip_select::OFF),
        });
    }

    /// What a frame has carried in both directions. Fewer than 8 bits come to lie at the end where the last one was
    /// shifted in, as in SiFive's RTL; the manual says at the other one.
    fn exchange(&mut self, frame: &Frame) {
        let now = self.clock.time_of(frame.starts);
        let little = frame.format & format::LITTLE != 0;
        let turn = |byte: u8| if little { byte.reverse_bits() } else { byte };
        let sends = frame.format & format::SENDS != 0;
        let lines = lines(frame.format);
        let length = frame.format >> format::LENGTH_SHIFT;
        let mut byte = turn(frame.data);
        for _ in 0..length.div_ceil(lines) {
            // The highest bits are on the lines, DQ0 with the lowest of them.
            let dq0 = byte >> (8 - lines) & 1 != 0;
            let driven = lines == 1 || sends;
            let back = self.flash.bit(dq0 || !driven, now);
            let input = match lines {
                1 => u8::from(back),
                // All that nobody drives is high, and so is what only the controller would drive.
                n => ((1u8 << n) - 1) & !(u8::from(!back) << 1),
            };
            byte = byte << lines | input;
        }
        // What finds no room is lost.
        if !sends && self.received.len() < FIFO {
            self.received.push_back(turn(byte));
        }
    }

    /// Ends the assertion of the chip select behind a frame that ended, or at a command of software.
    fn release(&mut self, from: u64, period: u64) {
        let at = from.saturating_add(self.delay(reg::DELAY0, true) * period);
        self.asserted = false;
        self.follow(at);
        let inactive = self.delay(reg::DELAY1, false) * period;
        self.ready = self.ready.max(at.saturating_add(inactive));
    }

    /// A change of a register ends the assertion of the chip select, behind the frame that is on the wire if there is
    /// one.
    fn change(&mut self, now: Ps) {
        match &mut self.frame {
            Some(frame) => frame.releases = true,
            None if self.asserted => self.release(self.clock.tick_from(now), self.period()),
            None => {}
        }
    }

    /// The flash follows its pin, which selects it when it is low.
    fn follow(&mut self, at: u64) {
        let toggled = self.asserted && self.regs[reg::CSID] == 0;
        let selected = (self.regs[reg::CSDEF] != 0) == toggled;
        match (self.flash.selected(), selected) {
            (false, true) => self.flash.select(),
            (true, false) if self.frame.is_some() => self.flash.cut(),
            (true, false) => self.flash.deselect(self.clock.time_of(at)),
            _ => {}
        }
    }

    fn set(&mut self, now: Ps, n: usize, value: u32) {
        let Some((_, _, allowed)) = REGISTERS.iter().find(|r| r.0 == n) else {
            return;
        };
        let before = self.regs[n];
        let value = value & allowed;
        // Longer frames do not exist; such a format is not taken.
        if value == before || n == reg::FMT && value >> format::LENGTH_SHIFT > LONGEST {
            return;
        }
        self.regs[n] = value;
        match n {
            reg::CSMODE => self.change(now),
            reg::CSID | reg::CSDEF => {
                self.follow(self.clock.tick_from(now));
                self.change(now);
            }
            _ => {}
        }
    }
}

fn lines(format: u32) -> u32 {
    LINES[(format & format::LINES) as usize]
}

fn check(offset: u64, size: u8) -> Result<(), BusFault> {
    BusFault::unless_size(&[4], KIND, offset, size)
}

impl Device for Spi {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&mut self, cx: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        check(offset, size)?;
        // What is due before this access is seen by it.
        self.work(cx);
        let value = match offset as usize / 4 {
            reg::TXDATA if self.send.len() < FIFO => 0,
            reg::TXDATA => NO_DATA,
            reg::RXDATA => self.received.pop_front().map_or(NO_DATA, u32::from),
            reg::IP => self.pending(),
            n => self.regs.get(n).copied().unwrap_or(0),
        };
        self.work(cx);
        Ok(value.into())
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
        match offset as usize / 4 {
            // What finds no room is lost.
            reg::TXDATA if self.send.len() < FIFO => {
                self.send.push_back(value as u8);
                if self.frame.is_none() {
                    self.ready = self.ready.max(self.clock.tick_from(cx.now));
                }
            }
            n => self.set(cx.now, n, value as u32),
        }
        self.work(cx);
        Ok(())
    }

    fn next_event(&self) -> Option<Ps> {
        self.event().map(|tick| self.clock.time_of(tick))
    }

    fn on_time(&mut self, cx: &mut DeviceCx<'_>) {
        self.work(cx);
    }

    fn nodes(&self, at: &Placement) -> Vec<Node> {
        let label = format!("clock-spi-{:x}", at.base);
        let clock = Node::new(&label)
            .label(&label)
            .compatible(&["fixed-clock"])
            .u32("clock-frequency", self.clock_hz)
            .u32("#clock-cells", 0);
        let flash = Node::at("flash", 0)
            .compatible(&["winbond,w25q128", "jedec,spi-nor"])
            .u32("reg", 0)
            .u32("spi-max-frequency", flash::MAX_HZ);
        let mut spi = Node::at("spi", at.base)
            .compatible(&["sifive,fu540-c000-spi", "sifive,spi0"])
            .reg(&[(at.base, at.size)]);
        if let Some(irq) = at.irq {
            spi = spi.interrupt(PLIC_LABEL, irq);
        }
        let spi = spi
            .cells("clocks", vec![Cell::Ref(label)])
            .u32("#address-cells", 1)
            .u32("#size-cells", 0)
            .child(flash);
        vec![clock, spi]
    }

    fn reset(&mut self, cx: &mut DeviceCx<'_>) {
        self.regs = power_on();
        self.send.clear();
        self.received.clear();
        self.frame = None;
        self.asserted = false;
        self.ready = 0;
        self.flash.power_on();
        self.work(cx);
    }

    fn save(&self) -> DeviceState {
        let state = State {
            regs: self.regs.to_vec(),
            send: self.send.clone(),
            received: self.received.clone(),
            frame: self.frame.clone(),
            asserted: self.asserted,
            ready: self.ready,
            flash: self.flash.save(),
        };
        DeviceState::pack(KIND, VERSION, &state)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        let s: State = state.unpack(KIND, VERSION)?;
        let wrong = |problem: String| StateError::Content {
            kind: KIND,
            problem,
        };
        let regs = <[u32; reg::COUNT]>::try_from(s.regs);
        let regs = regs.map_err(|_| wrong(format!("not {} registers", reg::COUNT)))?;
        let allowed = |n: usize| REGISTERS.iter().find(|r| r.0 == n).map_or(0, |r| r.2);
        let formats = [Some(regs[reg::FMT]), s.frame.as_ref().map(|f| f.format)];
        let long = |f: &u32| f >> format::LENGTH_SHIFT > LONGEST;
        let slow = |f: &Frame| f.period > MAX_PERIOD;
        if (0..reg::COUNT).any(|n| regs[n] & !allowed(n) != 0)
            || formats.iter().flatten().any(long)
            || s.frame.as_ref().is_some_and(slow)
            || s.send.len() > FIFO
            || s.received.len() > FIFO
        {
            return Err(wrong("values that the registers cannot have".into()));
        }
        self.flash = s.flash.load().map_err(wrong)?;
        self.regs = regs;
        self.send = s.send;
        self.received = s.received;
        self.frame = s.frame;
        self.asserted = s.asserted;
        self.ready = s.ready;
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
mod tests;
