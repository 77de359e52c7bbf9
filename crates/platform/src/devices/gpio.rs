//! GPIO controller of SiFive's FU540-C000 (`sifive,gpio0`) with 16 pins. Registers as in its manual (v1p0, chapter 17).
//!
//! Nothing is connected to the pins: each one has the level that it drives itself, else that of its pull-up, else 0. So
//! an output is seen as an input, at once. (In SiFive's RTL a synchroniser takes three cycles, and the register behind
//! it one, less than an access.) Every pin has an interrupt source of its own, as on the FU540: Linux' driver has as
//! many pins as it finds interrupts.

use crate::device::{BusFault, Device, DeviceCx, DeviceState, Placement, StateError};
use crate::fdt::{Cell, Node, PLIC_LABEL};
use serde::{Deserialize, Serialize};
use std::any::Any;

/// Number of pins.
pub const PINS: u32 = 16;
const KIND: &str = "gpio";
const VERSION: u32 = 1;
const ALL: u32 = (1 << PINS) - 1;

/// Registers, 4 bytes each, in the order of their addresses; the two that are left out choose other functions of
/// the pins on other chips.
mod reg {
    pub const INPUT_VAL: usize = 0;
    pub const INPUT_EN: usize = 1;
    pub const OUTPUT_EN: usize = 2;
    pub const OUTPUT_VAL: usize = 3;
    pub const PULL_UP: usize = 4;
    pub const RISE_IE: usize = 6;
    pub const RISE_IP: usize = 7;
    pub const FALL_IE: usize = 8;
    pub const FALL_IP: usize = 9;
    pub const HIGH_IE: usize = 10;
    pub const HIGH_IP: usize = 11;
    pub const LOW_IE: usize = 12;
    pub const LOW_IP: usize = 13;
    pub const OUT_XOR: usize = 16;
    pub const COUNT: usize = 17;
}

/// What a write does to a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    /// Nothing.
    Nothing,
    /// Sets it.
    Sets,
    /// Ones clear bits.
    Clears,
}

const WRITES: [Write; reg::COUNT] = [
    Write::Nothing, // input_val
    Write::Sets,    // input_en
    Write::Sets,    // output_en
    Write::Sets,    // output_val
    Write::Sets,    // pue
    Write::Sets,    // ds: kept, without an effect
    Write::Sets,    // rise_ie
    Write::Clears,  // rise_ip
    Write::Sets,    // fall_ie
    Write::Clears,  // fall_ip
    Write::Sets,    // high_ie
    Write::Clears,  // high_ip
    Write::Sets,    // low_ie
    Write::Clears,  // low_ip
    Write::Nothing,
    Write::Nothing,
    Write::Sets, // out_xor
];

/// Causes of interrupts: enable and pending bits.
const INTERRUPTS: [(usize, usize); 4] = [
    (reg::RISE_IE, reg::RISE_IP),
    (reg::FALL_IE, reg::FALL_IP),
    (reg::HIGH_IE, reg::HIGH_IP),
    (reg::LOW_IE, reg::LOW_IP),
];

/// The controller.
#[derive(Debug)]
pub struct Gpio {
    /// Interrupt source of pin 0; those of the others follow.
    first_source: u32,
    regs: [u32; reg::COUNT],
}

impl Gpio {
    /// A controller whose pins have the sources from `first_source` on.
    pub fn new(first_source: u32) -> Gpio {
        Gpio {
            first_source,
            regs: [0; reg::COUNT],
        }
    }

    /// Levels of all pins.
    fn pins(&self) -> u32 {
        let r = &self.regs;
        let driven = r[reg::OUTPUT_EN];
        driven & (r[reg::OUTPUT_VAL] ^ r[reg::OUT_XOR]) | !driven & r[reg::PULL_UP]
    }

    fn update(&mut self, cx: &mut DeviceCx<'_>) {
        let before = self.regs[reg::INPUT_VAL];
        let now = self.pins() & self.regs[reg::INPUT_EN];
        let r = &mut self.regs;
        r[reg::INPUT_VAL] = now;
        r[reg::RISE_IP] |= now & !before;
        r[reg::FALL_IP] |= before & !now;
        // A level that lasts is pending again as soon as it has been cleared.
        r[reg::HIGH_IP] |= now;
        r[reg::LOW_IP] |= !now & ALL;
        let due = INTERRUPTS
            .iter()
            .fold(0, |due, &(ie, ip)| due | r[ie] & r[ip]);
        cx.set_sources(self.sources(), due << self.first_source);
    }
}

fn check(offset: u64, size: u8) -> Result<(), BusFault> {
    BusFault::unless_size(&[4], KIND, offset, size)
}

impl Device for Gpio {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn sources(&self) -> u32 {
        ALL << self.first_source
    }

    fn read(&mut self, _: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        check(offset, size)?;
        let register = self.regs.get(offset as usize / 4);
        Ok(register.copied().unwrap_or(0).into())
    }

    fn write(
        &mut self,
        cx: &mut DeviceCx<'_>,
        offset: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault> {
        check(offset, size)?;
        let n = offset as usize / 4;
        let value = value as u32 & ALL;
        match WRITES.get(n) {
            Some(Write::Sets) => self.regs[n] = value,
            Some(Write::Clears) => self.regs[n] &= !value,
            Some(Write::Nothing) | None => {}
        }
        self.update(cx);
        Ok(())
    }

    fn nodes(&self, at: &Placement) -> Vec<Node> {
        let sources = self.first_source..self.first_source + PINS;
        vec![Node::at("gpio", at.base)
            .compatible(&["sifive,fu540-c000-gpio", "sifive,gpio0"])
            .reg(&[(at.base, at.size)])
            .cells("interrupt-parent", vec![Cell::Ref(PLIC_LABEL.into())])
            .cells("interrupts", sources.map(Cell::Int).collect())
            .u32("ngpios", PINS)
            .flag("gpio-controller")
            .u32("#gpio-cells", 2)
            .flag("interrupt-controller")
            .u32("#interrupt-cells", 2)
            .u32("#address-cells", 0)]
    }

    fn reset(&mut self, cx: &mut DeviceCx<'_>) {
        self.regs = [0; reg::COUNT];
        self.update(cx);
    }

    fn save(&self) -> DeviceState {
        DeviceState::pack(
            KIND,
            VERSION,
            &State {
                regs: self.regs.to_vec(),
            },
        )
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        let State { regs } = state.unpack(KIND, VERSION)?;
        let fits = |r: &[u32; reg::COUNT]| r.iter().all(|v| v & !ALL == 0);
        let regs = <[u32; reg::COUNT]>::try_from(regs).ok().filter(fits);
        self.regs = regs.ok_or_else(|| StateError::Content {
            kind: KIND,
            problem: format!("not {} registers of {PINS} bits", reg::COUNT),
        })?;
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    regs: Vec<u32>,
}

#[cfg(test)]
#[path = "gpio_tests.rs"]
mod tests;
