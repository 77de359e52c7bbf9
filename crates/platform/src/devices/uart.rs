//! UART 16550A (`ns16550a`) with 16-byte FIFOs.
//!
//! The transmitter takes no time: a byte written to THR is at the host at once, and the holding
//! register is empty again. A baud-rate model would make every boot message cost milliseconds of
//! guest time and measure nothing. Input waits in an unbounded backlog and enters the FIFO as it
//! drains, so an overrun cannot happen; data below the trigger level are reported as a character
//! timeout at once.
//!
//! On a patient line ([`Uart::set_patient`]) all input is there from the start and waits for a
//! reader: firmware and drivers clear the FIFO when they start, and would lose it. Input enters the
//! FIFO while the guest has enabled the receive interrupt, or, one byte at a time, when it polls:
//! when it reads the line status repeatedly and does nothing else with the UART. A guest that sends
//! reads the line status, too, but only once for each byte.

use crate::device::{BusFault, Device, DeviceCx, DeviceState, Placement, StateError};
use crate::fdt::{Node, PLIC_LABEL};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::VecDeque;

/// Length of the range in bytes; the registers are its first 8.
pub const SIZE: u64 = 0x100;
/// Input clock in the device tree, in Hz.
pub const CLOCK_HZ: u32 = 3_686_400;
const FIFO: usize = 16;
const KIND: &str = "uart16550a";
/// Number of consecutive reads of the line status after which a guest counts as polling for input.
const POLLS: u8 = 8;
/// Number of such reads after which a guest that has polled before gets its next byte.
const POLLS_AGAIN: u8 = 2;

mod ier {
    pub const RX: u8 = 1;
    pub const THRE: u8 = 2;
    pub const LINE: u8 = 4;
    pub const MASK: u8 = 0x0f;
}
mod iir {
    pub const NONE: u8 = 1;
    pub const THRE: u8 = 2;
    pub const RX: u8 = 4;
    pub const LINE: u8 = 6;
    pub const TIMEOUT: u8 = 0x0c;
    pub const FIFO_ON: u8 = 0xc0;
}
mod fcr {
    pub const ENABLE: u8 = 1;
    pub const CLEAR_RX: u8 = 2;
    pub const TRIGGER_SHIFT: u8 = 6;
}
mod lcr {
    pub const DLAB: u8 = 0x80;
}
mod mcr {
    pub const DTR: u8 = 1;
    pub const RTS: u8 = 2;
    pub const OUT1: u8 = 4;
    pub const OUT2: u8 = 8;
    pub const LOOP: u8 = 0x10;
    pub const MASK: u8 = 0x1f;
}
mod lsr {
    pub const DATA: u8 = 1;
    pub const OVERRUN: u8 = 2;
    pub const THRE: u8 = 0x20;
    pub const IDLE: u8 = 0x40;
}
mod msr {
    pub const CTS: u8 = 0x10;
    pub const DSR: u8 = 0x20;
    pub const RI: u8 = 0x40;
    pub const DCD: u8 = 0x80;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    ier: u8,
    fifo_on: bool,
    trigger: u8,
    lcr: u8,
    mcr: u8,
    scr: u8,
    divisor: u16,
    overrun: bool,
    /// The transmitter-empty interrupt is due (not yet shown by IIR).
    thre_due: bool,
    /// Number of consecutive reads of the line status that found no data.
    polls: u8,
    /// Whether the guest polls for input.
    polling: bool,
    /// Whether the FIFO has bytes of the transmitter, by loopback.
    looped: bool,
    rx: VecDeque<u8>,
    backlog: VecDeque<u8>,
    out: Vec<u8>,
}

/// The UART.
#[derive(Debug, Default)]
pub struct Uart {
    state: State,
    /// A setting of the host: see [`Uart::set_patient`].
    patient: bool,
}

impl Uart {
    /// A UART after reset.
    pub fn new() -> Uart {
        Uart::default()
    }

    /// Adds bytes from the host's side of the line. Reach it by [`crate::bus::Bus::with`].
    pub fn push_input(&mut self, cx: &mut DeviceCx<'_>, bytes: &[u8]) {
        self.state.backlog.extend(bytes);
        self.update(cx);
    }

    /// Whether the sender waits for a reader, as for input that was there before the machine
    /// started; otherwise it sends at once, like a person who types.
    pub fn set_patient(&mut self, patient: bool) {
        self.patient = patient;
    }

    /// Takes up to `most` bytes of input that have not reached the FIFO, for another input path of
    /// the guest.
    pub fn take_input(&mut self, most: usize) -> Vec<u8> {
        let n = most.min(self.state.backlog.len());
        self.state.backlog.drain(..n).collect()
    }

    /// Input that the guest has not read yet, in bytes.
    pub fn input_pending(&self) -> usize {
        self.state.backlog.len() + self.state.rx.len()
    }

    /// Everything sent since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.state.out)
    }

    /// Whether [`Uart::take_output`] would return anything.
    pub fn has_output(&self) -> bool {
        !self.state.out.is_empty()
    }

    /// Whether the guest has enabled the interrupt for received data.
    pub fn interrupts_on_input(&self) -> bool {
        self.state.ier & ier::RX != 0
    }

    fn depth(&self) -> usize {
        if self.state.fifo_on {
            FIFO
        } else {
            1
        }
    }

    fn threshold(&self) -> usize {
        match (self.state.fifo_on, self.state.trigger) {
            (false, _) | (true, 0) => 1,
            (true, 1) => 4,
            (true, 2) => 8,
            (true, _) => 14,
        }
    }

    fn cause(&self) -> u8 {
        let s = &self.state;
        if s.ier & ier::LINE != 0 && s.overrun {
            iir::LINE
        } else if s.ier & ier::RX != 0 && s.rx.len() >= self.threshold() {
            iir::RX
        } else if s.ier & ier::RX != 0 && !s.rx.is_empty() {
            iir::TIMEOUT
        } else if s.ier & ier::THRE != 0 && s.thre_due {
            iir::THRE
        } else {
            iir::NONE
        }
    }

    fn modem_status(&self) -> u8 {
        let m = self.state.mcr;
        if m & mcr::LOOP == 0 {
            return msr::CTS | msr::DSR | msr::DCD;
        }
        let wired = [
            (mcr::RTS, msr::CTS),
            (mcr::DTR, msr::DSR),
            (mcr::OUT1, msr::RI),
            (mcr::OUT2, msr::DCD),
        ];
        wired
            .iter()
            .filter(|(out, _)| m & out != 0)
            .map(|(_, input)| input)
            .sum()
    }

    fn update(&mut self, cx: &mut DeviceCx<'_>) {
        if !self.patient || self.interrupts_on_input() {
            self.receive(self.depth());
        }
        cx.set_irq(self.cause() != iir::NONE);
    }

    /// Moves input into the FIFO until that holds `most` bytes.
    fn receive(&mut self, most: usize) {
        // In loopback the receiver is disconnected from the line.
        while self.state.mcr & mcr::LOOP == 0 && self.state.rx.len() < most {
            let Some(byte) = self.state.backlog.pop_front() else {
                break;
            };
            self.state.rx.push_back(byte);
        }
    }

    /// The guest reads the line status.
    fn poll(&mut self) {
        let s = &mut self.state;
        if !s.rx.is_empty() {
            return;
        }
        s.polls = s.polls.saturating_add(1);
        s.polling |= s.polls >= POLLS;
        if self.patient && s.polling && s.polls >= POLLS_AGAIN {
            self.receive(1);
        }
    }

    /// Clears the receiver's FIFO. On a patient line its bytes have not been sent yet.
    fn clear_input(&mut self) {
        let s = &mut self.state;
        s.polling = false;
        let thrown = std::mem::take(&mut s.rx);
        if self.patient && !std::mem::take(&mut s.looped) {
            thrown.iter().rev().for_each(|b| s.backlog.push_front(*b));
        }
    }

    fn transmit(&mut self, cx: &DeviceCx<'_>, byte: u8) {
        if self.state.mcr & mcr::LOOP == 0 {
            cx.sends(0);
            self.state.out.push(byte);
        } else if self.state.rx.len() < self.depth() {
            self.state.rx.push_back(byte);
            self.state.looped = true;
        } else {
            self.state.overrun = true;
        }
        self.state.thre_due = true;
    }
}

fn check(offset: u64, size: u8) -> Result<(), BusFault> {
    // Some drivers use wider accesses, which touch one register as well.
    BusFault::unless_size(&[1, 2, 4], KIND, offset, size)
}

impl Device for Uart {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&mut self, cx: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        check(offset, size)?;
        let dlab = self.state.lcr & lcr::DLAB != 0;
        if offset == 5 {
            self.poll();
        } else {
            self.state.polls = 0;
        }
        let value = match offset {
            0 if dlab => self.state.divisor as u8,
            0 => {
                let byte = self.state.rx.pop_front().unwrap_or(0);
                self.state.looped &= !self.state.rx.is_empty();
                byte
            }
            1 if dlab => (self.state.divisor >> 8) as u8,
            1 => self.state.ier,
            2 => {
                let cause = self.cause();
                if cause == iir::THRE {
                    self.state.thre_due = false;
                }
                cause | if self.state.fifo_on { iir::FIFO_ON } else { 0 }
            }
            3 => self.state.lcr,
            4 => self.state.mcr,
            5 => {
                let mut value = lsr::THRE | lsr::IDLE;
                if !self.state.rx.is_empty() {
                    value |= lsr::DATA;
                }
                if std::mem::take(&mut self.state.overrun) {
                    value |= lsr::OVERRUN;
                }
                value
            }
            6 => self.modem_status(),
            7 => self.state.scr,
            _ => 0,
        };
        self.update(cx);
        Ok(value as u64)
    }

    fn write(
        &mut self,
        cx: &mut DeviceCx<'_>,
        offset: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault> {
        check(offset, size)?;
        let value = value as u8;
        let s = &mut self.state;
        s.polls = 0;
        let dlab = s.lcr & lcr::DLAB != 0;
        match offset {
            0 if dlab => s.divisor = s.divisor & 0xff00 | value as u16,
            0 => self.transmit(cx, value),
            1 if dlab => s.divisor = s.divisor & 0xff | (value as u16) << 8,
            1 => {
                // Enabling the interrupt while the register is empty raises it.
                if value & ier::THRE == 0 {
                    s.thre_due = false;
                } else if s.ier & ier::THRE == 0 {
                    s.thre_due = true;
                }
                s.ier = value & ier::MASK;
            }
            2 => {
                let on = value & fcr::ENABLE != 0;
                // A change of the enable bit clears the FIFOs.
                if value & fcr::CLEAR_RX != 0 && on || on != s.fifo_on {
                    self.clear_input();
                }
                let s = &mut self.state;
                s.fifo_on = on;
                s.trigger = if on { value >> fcr::TRIGGER_SHIFT } else { 0 };
            }
            3 => s.lcr = value,
            4 => s.mcr = value & mcr::MASK,
            7 => s.scr = value,
            _ => {}
        }
        self.update(cx);
        Ok(())
    }

    fn nodes(&self, at: &Placement) -> Vec<Node> {
        let node = Node::at("serial", at.base)
            .compatible(&["ns16550a"])
            .reg(&[(at.base, at.size)])
            .u32("clock-frequency", CLOCK_HZ);
        vec![match at.irq {
            Some(irq) => node.interrupt(PLIC_LABEL, irq),
            None => node,
        }]
    }

    fn reset(&mut self, cx: &mut DeviceCx<'_>) {
        // Data on its way to or from the host survives a reset of the chip.
        self.clear_input();
        let State { backlog, out, .. } = std::mem::take(&mut self.state);
        self.state = State {
            backlog,
            out,
            ..State::default()
        };
        self.update(cx);
    }

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 2, &self.state)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        let s: State = state.unpack(KIND, 2)?;
        if s.rx.len() > FIFO || s.trigger > 3 {
            let problem = "more than 16 bytes in the FIFO, or a trigger level above 3".into();
            return Err(StateError::Content {
                kind: KIND,
                problem,
            });
        }
        self.state = s;
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
#[path = "uart_tests.rs"]
mod tests;
