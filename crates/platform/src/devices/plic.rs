//! PLIC: routes 31 interrupt sources to an M and an S context of every hart.
//! Register layout of the RISC-V PLIC specification 1.0.0.

use crate::device::{line, BusFault, Device, DeviceCx, DeviceState, Placement, StateError};
use crate::fdt::{Cell, Node, PLIC_LABEL};
use nagori_hart::world::DevicePlace;
use serde::{Deserialize, Serialize};
use std::any::Any;

/// Length of the range in bytes; enough for 16 contexts.
pub const SIZE: u64 = 0x60_0000;
/// Number of interrupt sources; source 0 does not exist.
pub const SOURCES: u32 = 31;
/// Highest priority; priorities and thresholds are 3 bits wide.
pub const MAX_PRIORITY: u32 = 7;

const PENDING: u64 = 0x1000;
const ENABLE: u64 = 0x2000;
const ENABLE_STRIDE: u64 = 0x80;
const CONTEXT: u64 = 0x20_0000;
const CONTEXT_STRIDE: u64 = 0x1000;
const KIND: &str = "plic";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    priority: Vec<u32>,
    /// Wire levels.
    levels: u32,
    /// Requests that the gateways have passed on and that have not been claimed.
    pending: u32,
    /// Requests that were claimed and not completed; their gateways are closed.
    claimed: u32,
    enable: Vec<u32>,
    threshold: Vec<u32>,
}

/// The PLIC. Context 2h is M mode of hart h, context 2h+1 its S mode.
#[derive(Debug)]
pub struct Plic {
    state: State,
}

enum Reg {
    Priority(usize),
    Pending,
    Enable(usize),
    Threshold(usize),
    Claim(usize),
    Reserved,
}

impl State {
    fn power_on(contexts: usize) -> State {
        State {
            priority: vec![0; SOURCES as usize + 1],
            levels: 0,
            pending: 0,
            claimed: 0,
            enable: vec![0; contexts],
            threshold: vec![0; contexts],
        }
    }

    /// Level-triggered gateways: an asserted wire becomes one request, which stays even if the wire
    /// is deasserted; the next request is made only after completion.
    fn gateways(&mut self) {
        self.pending |= self.levels & !self.claimed;
    }

    /// Highest priority first, then lowest number.
    fn best(&self, context: usize, above: u32) -> Option<u32> {
        let mut candidates = self.pending & self.enable[context];
        let mut best = None;
        let mut bar = above;
        while candidates != 0 {
            let source = candidates.trailing_zeros();
            candidates &= candidates - 1;
            if self.priority[source as usize] > bar {
                bar = self.priority[source as usize];
                best = Some(source);
            }
        }
        best
    }
}

impl Plic {
    /// A PLIC for `harts` harts (at most 512 by the length of its range).
    pub fn new(harts: u32) -> Plic {
        Plic {
            state: State::power_on(2 * harts as usize),
        }
    }

    fn contexts(&self) -> usize {
        self.state.enable.len()
    }

    fn update(&mut self, cx: &mut DeviceCx<'_>) {
        self.state.gateways();
        for context in 0..self.contexts() {
            let bit = if context % 2 == 0 {
                line::MEIP
            } else {
                line::SEIP
            };
            let on = self
                .state
                .best(context, self.state.threshold[context])
                .is_some();
            cx.set_hart_lines(context / 2, bit, on);
        }
    }

    fn decode(&self, offset: u64, size: u8) -> Result<Reg, BusFault> {
        BusFault::unless_size(&[4], KIND, offset, size)?;
        let contexts = self.contexts() as u64;
        Ok(match offset {
            o if (4..4 * (SOURCES as u64 + 1)).contains(&o) => Reg::Priority((o / 4) as usize),
            PENDING => Reg::Pending,
            o if o >= CONTEXT && (o - CONTEXT) / CONTEXT_STRIDE < contexts => {
                let context = ((o - CONTEXT) / CONTEXT_STRIDE) as usize;
                match (o - CONTEXT) % CONTEXT_STRIDE {
                    0 => Reg::Threshold(context),
                    4 => Reg::Claim(context),
                    _ => Reg::Reserved,
                }
            }
            o if (ENABLE..CONTEXT).contains(&o)
                && (o - ENABLE) / ENABLE_STRIDE < contexts
                && (o - ENABLE).is_multiple_of(ENABLE_STRIDE) =>
            {
                Reg::Enable(((o - ENABLE) / ENABLE_STRIDE) as usize)
            }
            _ => Reg::Reserved,
        })
    }
}

impl Device for Plic {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn place(&self) -> DevicePlace {
        DevicePlace::Plic
    }

    fn read(&mut self, cx: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        Ok(match self.decode(offset, size)? {
            Reg::Priority(source) => self.state.priority[source] as u64,
            Reg::Pending => self.state.pending as u64,
            Reg::Enable(context) => self.state.enable[context] as u64,
            Reg::Threshold(context) => self.state.threshold[context] as u64,
            Reg::Claim(context) => {
                // The threshold masks the notification, not the claim.
                let claimed = self.state.best(context, 0);
                if let Some(source) = claimed {
                    self.state.pending &= !(1 << source);
                    self.state.claimed |= 1 << source;
                    self.update(cx);
                }
                claimed.unwrap_or(0) as u64
            }
            Reg::Reserved => 0,
        })
    }

    fn write(
        &mut self,
        cx: &mut DeviceCx<'_>,
        offset: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault> {
        let value = value as u32;
        match self.decode(offset, size)? {
            Reg::Priority(source) => self.state.priority[source] = value & MAX_PRIORITY,
            Reg::Enable(context) => self.state.enable[context] = value & !1,
            Reg::Threshold(context) => self.state.threshold[context] = value & MAX_PRIORITY,
            // A completion is accepted only from a context that has the source enabled.
            Reg::Claim(context) if value <= SOURCES => {
                self.state.claimed &= !(1u32 << value) | !self.state.enable[context];
            }
            Reg::Claim(_) | Reg::Pending | Reg::Reserved => {}
        }
        self.update(cx);
        Ok(())
    }

    fn irq_levels(&mut self, cx: &mut DeviceCx<'_>, levels: u32) {
        self.state.levels = levels & !1;
        self.update(cx);
    }

    fn nodes(&self, at: &Placement) -> Vec<Node> {
        let mut cells = Vec::new();
        for hart in 0..at.harts {
            for irq in [11, 9] {
                cells.extend([Cell::Ref(crate::fdt::hart_label(hart)), Cell::Int(irq)]);
            }
        }
        vec![Node::at("plic", at.base)
            .label(PLIC_LABEL)
            .compatible(&["sifive,plic-1.0.0", "riscv,plic0"])
            .reg(&[(at.base, at.size)])
            .flag("interrupt-controller")
            .u32("#interrupt-cells", 1)
            .u32("#address-cells", 0)
            .u32("riscv,ndev", SOURCES)
            .cells("interrupts-extended", cells)]
    }

    fn reset(&mut self, cx: &mut DeviceCx<'_>) {
        let levels = self.state.levels;
        self.state = State {
            levels,
            ..State::power_on(self.contexts())
        };
        self.update(cx);
    }

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 1, &self.state)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        let s: State = state.unpack(KIND, 1)?;
        if s.priority.len() != SOURCES as usize + 1
            || s.enable.len() != self.contexts()
            || s.threshold.len() != self.contexts()
        {
            let problem = format!("not for {} contexts", self.contexts());
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
