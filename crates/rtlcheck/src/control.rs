//! The registers of the controller in hardware: those of the machine's control block, with the
//! model's controller behind them and without a machine around it.

use nagori_memtime::{BoardParams, Clocks, Controller, Ps};
use nagori_platform::control::{
    in_hardware, method_from_number, method_number, Access, ControlAccess, ControlBlock,
    ControlError, ControlPort, Fixed, InHardware, MemStat, Reg, StatsAction,
};

/// First physical address of the memory in the testbench.
pub const MEMORY_BASE: u64 = 0x8000_0000;

/// The control block of a controller in hardware.
pub struct Registers {
    block: ControlBlock,
}

struct Port<'a> {
    memory: &'a mut Controller,
    now: Ps,
}

impl Registers {
    /// After reset.
    pub fn new() -> Registers {
        Registers {
            block: ControlBlock::new(),
        }
    }

    /// A write that takes effect at `now`; `strobes` are 0xff, 0x0f or 0xf0.
    pub fn write(
        &mut self,
        memory: &mut Controller,
        now: Ps,
        offset: u64,
        value: u64,
        strobes: u8,
    ) {
        let (access, value) = match strobes {
            0x0f => (ControlAccess { offset, size: 4 }, value & 0xffff_ffff),
            0xf0 => {
                let offset = offset + 4;
                (ControlAccess { offset, size: 4 }, value >> 32)
            }
            _ => (ControlAccess { offset, size: 8 }, value),
        };
        if refused(access.offset, value) {
            self.block.reject(access, value, ControlError::State);
        } else {
            self.block.write(access, value, &mut Port { memory, now });
        }
    }

    /// A read of 8 bytes that shows the clock at `now`.
    pub fn read(&self, memory: &mut Controller, now: Ps, offset: u64) -> u64 {
        let access = ControlAccess { offset, size: 8 };
        self.block.read(access, &mut Port { memory, now })
    }
}

impl Default for Registers {
    fn default() -> Self {
        Registers::new()
    }
}

/// Writes that only the emulator can obey.
fn refused(offset: u64, value: u64) -> bool {
    let Some(Reg::Fixed(reg)) = Reg::at(offset & !7) else {
        return false;
    };
    if Reg::Fixed(reg).access() == Access::Read || offset & 7 != 0 {
        return false;
    }
    match reg {
        Fixed::TimingMode => value == 0,
        Fixed::StatsControl => value == StatsAction::DUMP,
        reg => in_hardware(reg) == InHardware::No,
    }
}

impl Port<'_> {
    fn change(&mut self, f: impl FnOnce(&mut BoardParams)) -> Result<(), ControlError> {
        let mut p = self.memory.params().clone();
        f(&mut p);
        let changed = self.memory.set_params(self.now, p);
        changed.map_err(|_| ControlError::Value)
    }

    fn clocks(&self, t: Ps) -> u64 {
        self.memory.params().clock.edge_from(t)
    }
}

impl ControlPort for Port<'_> {
    fn get(&mut self, reg: Reg) -> u64 {
        let p = self.memory.params().clone();
        let (t, d, r) = (p.timing, p.delays, p.refresh);
        let stats = |m: &Controller, now| m.stats(now);
        match reg {
            Reg::Fixed(f) => match f {
                Fixed::Banks => p.mapping.banks() as u64,
                Fixed::MemoryBase => MEMORY_BASE,
                Fixed::MemorySize => p.capacity,
                Fixed::ClockPs => p.clock.nearest().0,
                Fixed::Method => method_number(p.method),
                Fixed::TimingMode => 1,
                Fixed::NvmmBoundary => MEMORY_BASE + p.nvmm_base,
                Fixed::CoarseRead => self.clocks(d.coarse_read),
                Fixed::CoarseWrite => self.clocks(d.coarse_write),
                Fixed::AddedRcd => self.clocks(d.trcd),
                Fixed::AddedRp => self.clocks(d.trp),
                Fixed::AddedRas => self.clocks(d.tras),
                Fixed::BaseWait => t.wait.0.into(),
                Fixed::BaseRcd => t.rcd.0.into(),
                Fixed::BaseRas => t.ras.0.into(),
                Fixed::BaseRtp => t.rtp.0.into(),
                Fixed::BaseWtp => t.wtp.0.into(),
                Fixed::BaseRp => t.rp.0.into(),
                Fixed::RefreshInterval => r.interval.0.into(),
                Fixed::RefreshDuration => r.duration.0.into(),
                Fixed::TimeNs => self.now.0 / 1000,
                Fixed::StatsFromNs => stats(self.memory, self.now).from.0 / 1000,
                Fixed::Clocks => p.clock.edge_until(self.now),
                Fixed::Refreshes => stats(self.memory, self.now).refreshes,
                Fixed::RefreshTicksLost => stats(self.memory, self.now).refresh_ticks_lost,
                // Harts and their clock are the surroundings', 0 in the testbench; the others are
                // the block's own or the emulator's.
                _ => 0,
            },
            Reg::Region(n, s) => {
                let all = stats(self.memory, self.now);
                let region = all.regions.get(usize::from(n));
                region.map_or(0, |r| counter(&r.counters, s))
            }
            Reg::Bank(n, s) => {
                let all = stats(self.memory, self.now);
                let bank = all.banks.get(usize::from(n));
                bank.map_or(0, |c| counter(c, s))
            }
            // Hardware counts neither harts' events nor latencies.
            _ => 0,
        }
    }

    fn set(&mut self, reg: Reg, value: u64) -> Result<(), ControlError> {
        let Reg::Fixed(f) = reg else {
            return Err(ControlError::ReadOnly);
        };
        let clock = self.memory.params().clock;
        let delay = clock.edge(value);
        let n = u32::try_from(value).map(Clocks);
        let n = n.map_err(|_| ControlError::Value);
        match f {
            Fixed::Method => {
                let m = method_from_number(value).ok_or(ControlError::Value)?;
                self.change(|p| p.method = m)
            }
            Fixed::TimingMode if value == 1 => Ok(()),
            Fixed::TimingMode => Err(ControlError::Value),
            Fixed::NvmmBoundary => {
                let p = self.memory.params();
                let offset = value.checked_sub(MEMORY_BASE);
                let offset = offset.filter(|o| *o <= p.capacity);
                let offset = offset.ok_or(ControlError::Value)?;
                if offset % p.bank_bytes() != 0 {
                    return Err(ControlError::Alignment);
                }
                self.change(|p| p.nvmm_base = offset)
            }
            Fixed::CoarseRead => self.change(|p| p.delays.coarse_read = delay),
            Fixed::CoarseWrite => self.change(|p| p.delays.coarse_write = delay),
            Fixed::AddedRcd => self.change(|p| p.delays.trcd = delay),
            Fixed::AddedRp => self.change(|p| p.delays.trp = delay),
            Fixed::AddedRas => self.change(|p| p.delays.tras = delay),
            Fixed::BaseWait => n.and_then(|n| self.change(|p| p.timing.wait = n)),
            Fixed::BaseRcd => n.and_then(|n| self.change(|p| p.timing.rcd = n)),
            Fixed::BaseRas => n.and_then(|n| self.change(|p| p.timing.ras = n)),
            Fixed::BaseRtp => n.and_then(|n| self.change(|p| p.timing.rtp = n)),
            Fixed::BaseWtp => n.and_then(|n| self.change(|p| p.timing.wtp = n)),
            Fixed::BaseRp => n.and_then(|n| self.change(|p| p.timing.rp = n)),
            Fixed::RefreshInterval => n.and_then(|n| self.change(|p| p.refresh.interval = n)),
            Fixed::RefreshDuration => n.and_then(|n| self.change(|p| p.refresh.duration = n)),
            _ => Err(ControlError::ReadOnly),
        }
    }

    fn stats(&mut self, action: StatsAction) {
        if action == StatsAction::Reset {
            // Only a time that is too late is refused, and clocks are far from it.
            let done = self.memory.reset_stats(self.now);
            debug_assert!(done.is_ok());
        }
    }
}

fn counter(c: &nagori_memtime::stats::Counters, s: MemStat) -> u64 {
    match s {
        MemStat::Reads => c.reads,
        MemStat::Writes => c.writes,
        MemStat::ReadBytes => c.read_bytes,
        MemStat::WriteBytes => c.write_bytes,
        MemStat::RowHits => c.row_hits,
        MemStat::BankSwitches => c.bank_switches,
        MemStat::Activations => c.activations,
        MemStat::PrechargesClean => c.precharges_clean,
        MemStat::PrechargesDirty => c.precharges_dirty,
        MemStat::Refreshes => c.refreshes,
    }
}
