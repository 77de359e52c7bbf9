//! CLINT: software interrupts and the machine timer of every hart.
//! Layout of the SiFive CLINT (`sifive,clint0`).

use crate::clock::{Clock, Ps};
use crate::device::{
    line, merge, part, BusFault, Device, DeviceCx, DeviceState, Placement, StateError,
};
use crate::fdt::{Cell, Node};
use nagori_hart::world::DevicePlace;
use serde::{Deserialize, Serialize};
use std::any::Any;

/// Length of the range in bytes.
pub const SIZE: u64 = 0x1_0000;
const MSIP: u64 = 0;
const MTIMECMP: u64 = 0x4000;
const MTIME: u64 = 0xbff8;
const KIND: &str = "clint";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    /// mtime was `base` at tick `base_tick` of the timebase (the guest may set it).
    base: u64,
    base_tick: u64,
    msip: Vec<bool>,
    mtimecmp: Vec<u64>,
    /// Levels of the timer inputs; kept to know which changes are still to come.
    mtip: Vec<bool>,
}

/// The CLINT.
#[derive(Debug)]
pub struct Clint {
    timebase: Clock,
    state: State,
}

impl Clint {
    /// A CLINT for `harts` harts whose mtime counts `timebase`.
    pub fn new(harts: u32, timebase: Clock) -> Clint {
        Clint {
            timebase,
            state: State::power_on(harts as usize),
        }
    }

    /// mtime at a machine time; also the value of the `time` CSR.
    pub fn mtime(&self, now: Ps) -> u64 {
        let ticks = self.timebase.ticks_at(now);
        match ticks.checked_sub(self.state.base_tick) {
            Some(since) => self.state.base.wrapping_add(since),
            // Seen by a hart whose local time is before the setting.
            None => self.state.base.saturating_sub(self.state.base_tick - ticks),
        }
    }

    /// The first instant at which mtime is at least `value` (also used for `stimecmp`); it may be
    /// in the past.
    pub fn time_of(&self, value: u64) -> Ps {
        let State {
            base, base_tick, ..
        } = self.state;
        let tick = match value.checked_sub(base) {
            Some(after) => base_tick.checked_add(after),
            None => Some(base_tick.saturating_sub(base - value)),
        };
        tick.map_or(Ps::NEVER, |t| self.timebase.time_of(t))
    }

    /// One hart only: another hart's local time may be ahead of this access.
    fn update(&mut self, cx: &mut DeviceCx<'_>, hart: usize) {
        self.state.mtip[hart] = self.mtime(cx.now) >= self.state.mtimecmp[hart];
        cx.set_hart_lines(hart, line::MTIP, self.state.mtip[hart]);
        cx.set_hart_lines(hart, line::MSIP, self.state.msip[hart]);
    }

    fn update_all(&mut self, cx: &mut DeviceCx<'_>) {
        (0..self.state.msip.len()).for_each(|hart| self.update(cx, hart));
    }

    /// Register at an offset: which array, index, byte within.
    fn decode(&self, offset: u64, size: u8) -> Result<Option<(Reg, u64)>, BusFault> {
        if size < 4 {
            return Err(BusFault::Width {
                device: KIND,
                offset,
                size,
            });
        }
        let harts = self.state.msip.len() as u64;
        Ok(match offset {
            o if o < MSIP + 4 * harts && size == 4 => Some((Reg::Msip((o / 4) as usize), 0)),
            o if o < MSIP + 4 * harts => {
                return Err(BusFault::Width {
                    device: KIND,
                    offset,
                    size,
                })
            }
            o if (MTIMECMP..MTIMECMP + 8 * harts).contains(&o) => {
                Some((Reg::Mtimecmp(((o - MTIMECMP) / 8) as usize), o % 8))
            }
            o if (MTIME..MTIME + 8).contains(&o) => Some((Reg::Mtime, o % 8)),
            _ => None,
        })
    }
}

enum Reg {
    Msip(usize),
    Mtimecmp(usize),
    Mtime,
}

impl State {
    fn power_on(harts: usize) -> State {
        State {
            base: 0,
            base_tick: 0,
            msip: vec![false; harts],
            mtimecmp: vec![u64::MAX; harts],
            mtip: vec![false; harts],
        }
    }
}

impl Device for Clint {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn place(&self) -> DevicePlace {
        DevicePlace::Clint
    }

    fn read(&mut self, cx: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        Ok(match self.decode(offset, size)? {
            Some((Reg::Msip(hart), _)) => self.state.msip[hart] as u64,
            Some((Reg::Mtimecmp(hart), byte)) => part(self.state.mtimecmp[hart], byte, size),
            Some((Reg::Mtime, byte)) => part(self.mtime(cx.now), byte, size),
            None => 0,
        })
    }

    fn write(
        &mut self,
        cx: &mut DeviceCx<'_>,
        offset: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault> {
        match self.decode(offset, size)? {
            Some((Reg::Msip(hart), _)) => {
                self.state.msip[hart] = value & 1 != 0;
                cx.set_hart_lines(hart, line::MSIP, self.state.msip[hart]);
            }
            Some((Reg::Mtimecmp(hart), byte)) => {
                let cmp = &mut self.state.mtimecmp[hart];
                *cmp = merge(*cmp, byte, size, value);
                self.update(cx, hart);
            }
            Some((Reg::Mtime, byte)) => {
                let new = merge(self.mtime(cx.now), byte, size, value);
                self.state.base = new;
                self.state.base_tick = self.timebase.ticks_at(cx.now);
                self.update_all(cx);
            }
            None => {}
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Ps> {
        let waiting = self
            .state
            .mtimecmp
            .iter()
            .zip(&self.state.mtip)
            .filter(|(_, &on)| !on);
        waiting
            .map(|(&cmp, _)| self.time_of(cmp))
            .filter(|&t| t != Ps::NEVER)
            .min()
    }

    fn on_time(&mut self, cx: &mut DeviceCx<'_>) {
        // The passing of time only raises interrupts; they are cleared by the guest's writes.
        for hart in 0..self.state.mtip.len() {
            if !self.state.mtip[hart] {
                self.update(cx, hart);
            }
        }
    }

    fn nodes(&self, at: &Placement) -> Vec<Node> {
        let mut cells = Vec::new();
        for hart in 0..at.harts {
            for irq in [3, 7] {
                cells.extend([Cell::Ref(crate::fdt::hart_label(hart)), Cell::Int(irq)]);
            }
        }
        vec![Node::at("clint", at.base)
            .compatible(&["sifive,clint0", "riscv,clint0"])
            .reg(&[(at.base, at.size)])
            .cells("interrupts-extended", cells)]
    }

    fn reset(&mut self, cx: &mut DeviceCx<'_>) {
        self.state = State::power_on(self.state.msip.len());
        self.update_all(cx);
    }

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 1, &self.state)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        let s: State = state.unpack(KIND, 1)?;
        let harts = self.state.msip.len();
        if [s.msip.len(), s.mtimecmp.len(), s.mtip.len()] != [harts; 3] {
            let problem = format!("not for {harts} harts");
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
