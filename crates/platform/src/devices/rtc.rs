//! Real-time clock (`google,goldfish-rtc`): the configured epoch plus machine time.

use crate::clock::Ps;
use crate::device::{BusFault, Device, DeviceCx, DeviceState, Placement, StateError};
use crate::fdt::{Node, PLIC_LABEL};
use serde::{Deserialize, Serialize};
use std::any::Any;

/// Length of the range in bytes.
pub const SIZE: u64 = 0x1000;
const KIND: &str = "goldfish-rtc";

const TIME_LOW: u64 = 0x00;
const TIME_HIGH: u64 = 0x04;
const ALARM_LOW: u64 = 0x08;
const ALARM_HIGH: u64 = 0x0c;
const IRQ_ENABLED: u64 = 0x10;
const CLEAR_ALARM: u64 = 0x14;
const ALARM_STATUS: u64 = 0x18;
const CLEAR_INTERRUPT: u64 = 0x1c;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    /// Unix time in ns at machine time 0, modulo 2^64.
    epoch_ns: u64,
    /// High half of the time, latched by a read of the low half.
    time_high: u32,
    /// High halves that wait for the write of their low half.
    time_high_new: u32,
    alarm_high_new: u32,
    /// Unix time in ns of the alarm, if one is set.
    alarm_ns: Option<u64>,
    irq_enabled: bool,
    irq_due: bool,
}

/// The clock.
#[derive(Debug)]
pub struct Rtc {
    state: State,
}

impl Rtc {
    /// A clock that shows `epoch_s` seconds of Unix time at machine time 0.
    pub fn new(epoch_s: u64) -> Rtc {
        let epoch_ns = epoch_s.wrapping_mul(1_000_000_000);
        Rtc {
            state: State::power_on(epoch_ns),
        }
    }

    /// Sets the clock to `unix_s` seconds of Unix time.
    pub fn set(&mut self, cx: &mut DeviceCx<'_>, unix_s: u64) {
        let ns = unix_s.wrapping_mul(1_000_000_000);
        self.state.epoch_ns = ns.wrapping_sub(cx.now.whole_ns());
        self.update(cx);
    }

    fn unix_ns(&self, now: Ps) -> u64 {
        self.state.epoch_ns.wrapping_add(now.whole_ns())
    }

    fn update(&mut self, cx: &mut DeviceCx<'_>) {
        if self
            .state
            .alarm_ns
            .is_some_and(|alarm| alarm <= self.unix_ns(cx.now))
        {
            self.state.alarm_ns = None;
            self.state.irq_due = true;
        }
        cx.set_irq(self.state.irq_due && self.state.irq_enabled);
    }
}

impl State {
    fn power_on(epoch_ns: u64) -> State {
        State {
            epoch_ns,
            time_high: 0,
            time_high_new: 0,
            alarm_high_new: 0,
            alarm_ns: None,
            irq_enabled: false,
            irq_due: false,
        }
    }
}

fn check(offset: u64, size: u8) -> Result<(), BusFault> {
    BusFault::unless_size(&[4], KIND, offset, size)
}

impl Device for Rtc {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&mut self, cx: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        check(offset, size)?;
        let alarm = self.state.alarm_ns.unwrap_or(0);
        Ok(match offset {
            TIME_LOW => {
                let ns = self.unix_ns(cx.now);
                self.state.time_high = (ns >> 32) as u32;
                ns & 0xffff_ffff
            }
            TIME_HIGH => self.state.time_high as u64,
            ALARM_LOW => alarm & 0xffff_ffff,
            ALARM_HIGH => alarm >> 32,
            IRQ_ENABLED => self.state.irq_enabled as u64,
            ALARM_STATUS => self.state.alarm_ns.is_some() as u64,
            _ => 0,
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
        let s = &mut self.state;
        match offset {
            TIME_HIGH => s.time_high_new = value as u32,
            TIME_LOW => {
                let ns = (s.time_high_new as u64) << 32 | value;
                s.epoch_ns = ns.wrapping_sub(cx.now.whole_ns());
            }
            ALARM_HIGH => s.alarm_high_new = value as u32,
            ALARM_LOW => s.alarm_ns = Some((s.alarm_high_new as u64) << 32 | value),
            IRQ_ENABLED => s.irq_enabled = value & 1 != 0,
            CLEAR_ALARM => s.alarm_ns = None,
            CLEAR_INTERRUPT => s.irq_due = false,
            _ => {}
        }
        self.update(cx);
        Ok(())
    }

    fn next_event(&self) -> Option<Ps> {
        let ns = self.state.alarm_ns?.wrapping_sub(self.state.epoch_ns);
        Some(Ps::from_ns(ns)).filter(|&t| t != Ps::NEVER)
    }

    fn on_time(&mut self, cx: &mut DeviceCx<'_>) {
        self.update(cx);
    }

    fn nodes(&self, at: &Placement) -> Vec<Node> {
        let node = Node::at("rtc", at.base)
            .compatible(&["google,goldfish-rtc"])
            .reg(&[(at.base, at.size)]);
        vec![match at.irq {
            Some(irq) => node.interrupt(PLIC_LABEL, irq),
            None => node,
        }]
    }

    fn reset(&mut self, cx: &mut DeviceCx<'_>) {
        // The clock is battery-backed: the time that the guest set stays.
        let epoch_ns = self.state.epoch_ns;
        self.state = State::power_on(epoch_ns);
        self.update(cx);
    }

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 1, &self.state)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        self.state = state.unpack(KIND, 1)?;
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
