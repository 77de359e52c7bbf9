//! Test finisher (`sifive,test1`): power-off with an exit code, and reset.

use crate::device::{BusFault, Device, DeviceCx, DeviceState, Placement, PowerRequest, StateError};
use crate::fdt::{Cell, Node};
use std::any::Any;

/// Length of the range in bytes.
pub const SIZE: u64 = 0x1000;
/// Writing this switches off with exit code 0.
pub const PASS: u32 = 0x5555;
/// Writing this in the low half switches off with the high half as exit code.
pub const FAIL: u32 = 0x3333;
/// Writing this resets the machine.
pub const RESET: u32 = 0x7777;

const KIND: &str = "syscon";
const LABEL: &str = "syscon";

/// The test finisher. It has no state.
#[derive(Debug, Default)]
pub struct Syscon;

fn check(offset: u64, size: u8) -> Result<(), BusFault> {
    // Some versions of OpenSBI store half-words here.
    BusFault::unless_size(&[2, 4], KIND, offset, size)
}

impl Device for Syscon {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&mut self, _: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        check(offset, size)?;
        Ok(0)
    }

    fn write(
        &mut self,
        cx: &mut DeviceCx<'_>,
        offset: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault> {
        check(offset, size)?;
        if offset == 0 {
            let code = (value >> 16) as u32;
            match value as u32 & 0xffff {
                PASS => cx.request_power(PowerRequest::Off { code: 0 }),
                FAIL => cx.request_power(PowerRequest::Off { code }),
                RESET => cx.request_power(PowerRequest::Reset),
                _ => {}
            }
        }
        Ok(())
    }

    fn nodes(&self, at: &Placement) -> Vec<Node> {
        let action = |name: &str, value: u32| {
            Node::new(name)
                .compatible(&[&format!("syscon-{name}")])
                .cells("regmap", vec![Cell::Ref(LABEL.into())])
                .u32("offset", 0)
                .u32("value", value)
        };
        vec![
            Node::at("test", at.base)
                .label(LABEL)
                .compatible(&["sifive,test1", "sifive,test0", "syscon"])
                .reg(&[(at.base, at.size)]),
            action("poweroff", PASS),
            action("reboot", RESET),
        ]
    }

    fn reset(&mut self, _: &mut DeviceCx<'_>) {}

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 1, &())
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        state.unpack::<()>(KIND, 1)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
