//! Watchdog timer of Allwinner's D1 (`allwinner,sun20i-d1-wdt`): if software does not restart it in time, the machine
//! is reset. Registers as in the D1-H user manual (V1.0, section 3.7, "Watchdog").

use crate::clock::Ps;
use crate::device::{BusFault, Device, DeviceCx, DeviceState, Placement, PowerRequest, StateError};
use crate::fdt::{Node, PLIC_LABEL};
use serde::{Deserialize, Serialize};
use std::any::Any;

/// Length of the range in bytes.
pub const SIZE: u64 = 0x1000;
const KIND: &str = "watchdog";

const IRQ_ENABLE: u64 = 0x00;
const IRQ_STATUS: u64 = 0x04;
const SOFT_RESET: u64 = 0x08;
const CONTROL: u64 = 0x10;
const CONFIG: u64 = 0x14;
const MODE: u64 = 0x18;

/// The high half of a value that is written to a register with a key.
const KEY: u32 = 0x16aa;
/// Written to the control register, this restarts the timer.
const RESTART: u32 = 0x0a57 << 1 | 1;
/// Configuration: the end of the interval resets the machine.
const RESETS: u32 = 1;
/// Configuration: the end of the interval sets the interrupt.
const INTERRUPTS: u32 = 2;
/// Mode: the timer runs.
const ENABLED: u32 = 1;
/// Places of the interval in the mode register.
const INTERVAL: u32 = 0xf0;

/// Intervals in cycles of the 32 kHz clock, by the field's value; the others are reserved.
const CYCLES: [u64; 12] = [
    16_000, 32_000, 64_000, 96_000, 128_000, 160_000, 192_000, 256_000, 320_000, 384_000, 448_000,
    512_000,
];
const CYCLE_NS: u64 = 1_000_000_000 / 32_000;

/// The timer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Watchdog {
    irq_enabled: bool,
    irq_due: bool,
    /// What the end of the interval does: 1 or 2.
    config: u32,
    /// Whether it runs, and the interval's field.
    mode: u32,
    /// When the interval ends, in ns of machine time, while the timer runs.
    ends_ns: Option<u64>,
}

impl Default for Watchdog {
    fn default() -> Self {
        Watchdog {
            irq_enabled: false,
            irq_due: false,
            config: RESETS,
            mode: 0,
            ends_ns: None,
        }
    }
}

impl Watchdog {
    fn restart(&mut self, now: Ps) {
        let field = ((self.mode & INTERVAL) >> 4) as usize;
        // A reserved value counts as the longest interval.
        let cycles = CYCLES.get(field).unwrap_or(&CYCLES[CYCLES.len() - 1]);
        let running = self.mode & ENABLED != 0;
        self.ends_ns = running.then(|| now.whole_ns().saturating_add(cycles * CYCLE_NS));
    }

    fn update(&mut self, cx: &mut DeviceCx<'_>) {
        cx.set_irq(self.irq_due && self.irq_enabled);
    }
}

/// The low half of a value that has the key.
fn unlocked(value: u32) -> Option<u32> {
    (value >> 16 == KEY).then_some(value & 0xffff)
}

fn check(offset: u64, size: u8) -> Result<(), BusFault> {
    BusFault::unless_size(&[4], KIND, offset, size)
}

impl Device for Watchdog {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&mut self, _: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        check(offset, size)?;
        Ok(match offset {
            IRQ_ENABLE => u64::from(self.irq_enabled),
            IRQ_STATUS => u64::from(self.irq_due),
            CONFIG => u64::from(self.config),
            MODE => u64::from(self.mode),
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
        let value = value as u32;
        match offset {
            IRQ_ENABLE => self.irq_enabled = value & 1 != 0,
            IRQ_STATUS if value & 1 != 0 => self.irq_due = false,
            SOFT_RESET if unlocked(value).is_some_and(|v| v & 1 != 0) => {
                cx.request_power(PowerRequest::Reset)
            }
            CONTROL if value & 0x1fff == RESTART => self.restart(cx.now),
            CONFIG => {
                if let Some(v) = unlocked(value) {
                    self.config = v & 3;
                }
            }
            MODE => {
                if let Some(v) = unlocked(value) {
                    let before = self.mode;
                    self.mode = v & (INTERVAL | ENABLED);
                    // Of a timer that runs, a new interval counts from the next restart on.
                    if (before ^ self.mode) & ENABLED != 0 {
                        self.restart(cx.now);
                    }
                }
            }
            _ => {}
        }
        self.update(cx);
        Ok(())
    }

    fn next_event(&self) -> Option<Ps> {
        self.ends_ns.map(Ps::from_ns)
    }

    fn on_time(&mut self, cx: &mut DeviceCx<'_>) {
        if self.ends_ns.is_some_and(|end| end <= cx.now.whole_ns()) {
            match self.config {
                RESETS => {
                    self.ends_ns = None;
                    cx.request_power(PowerRequest::Reset);
                }
                INTERRUPTS => {
                    self.irq_due = true;
                    self.restart(cx.now);
                }
                _ => self.restart(cx.now),
            }
        }
        self.update(cx);
    }

    fn nodes(&self, at: &Placement) -> Vec<Node> {
        let node = Node::at("watchdog", at.base)
            .compatible(&["allwinner,sun20i-d1-wdt"])
            .reg(&[(at.base, at.size)]);
        vec![match at.irq {
            Some(irq) => node.interrupt(PLIC_LABEL, irq),
            None => node,
        }]
    }

    fn reset(&mut self, cx: &mut DeviceCx<'_>) {
        *self = Watchdog::default();
        self.update(cx);
    }

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 1, self)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        *self = state.unpack(KIND, 1)?;
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
