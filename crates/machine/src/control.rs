//! The control block's registers, answered by the machine.

use super::action::Action;
use super::view::HartView;
use super::world::Surroundings;
use super::Machine;
use nagori_hart::world::{Marker, Requester};
use nagori_hart::HartStats;
use nagori_memtime::stats::{Counters, Histogram};
use nagori_memtime::{BoardParams, Clocks, Ps, Stats};
use nagori_platform::control::{
    method_from_number, method_number, ControlAccess, ControlBlock, ControlError, ControlPort,
    Fixed, HartStat, MemStat, Reg, StatsAction,
};
use nagori_platform::iomap::MACHINE;

/// The machine during one access.
struct Port<'a, 'b> {
    world: &'a mut Surroundings,
    by: &'a Requester<'b>,
    now: Ps,
    cached: Option<Box<(Ps, Stats)>>,
}

impl Surroundings {
    fn with_control<R>(
        &mut self,
        by: &Requester<'_>,
        f: impl FnOnce(&mut ControlBlock, &mut dyn ControlPort) -> R,
    ) -> R {
        let mut block = std::mem::take(&mut self.control.block);
        let now = Ps(self.ps(by.cycle).0);
        let cached = self.control.cached.take();
        let mut port = Port {
            world: self,
            by,
            now,
            cached,
        };
        let r = f(&mut block, &mut port);
        let cached = port.cached.take();
        self.control.cached = cached;
        self.control.block = block;
        r
    }

    pub(super) fn control_read(&mut self, by: &Requester<'_>, access: ControlAccess) -> u64 {
        self.with_control(by, |block, port| block.read(access, port))
    }

    pub(super) fn control_write(&mut self, by: &Requester<'_>, access: ControlAccess, value: u64) {
        self.with_control(by, |block, port| block.write(access, value, port));
    }
}

/// A number that no hart has, for the host's accesses.
const HOST: usize = usize::MAX;

impl Machine {
    fn as_guest<R>(&mut self, f: impl FnOnce(&mut dyn ControlPort) -> R) -> R {
        let stats = HartStats::default();
        let by = Requester {
            hart: HOST,
            cycle: self.harts.iter().map(|h| h.state.cycle).max().unwrap_or(0),
            instret: 0,
            satp: 0,
            privilege: MACHINE,
            stats: &stats,
        };
        let r = self.world.with_control(&by, |_, port| f(port));
        self.apply_actions();
        r
    }

    /// Value of a register of the control block, as a guest reads it now.
    pub fn parameter(&mut self, reg: Fixed) -> u64 {
        self.as_guest(|port| port.get(Reg::Fixed(reg)))
    }

    /// Sets a register of the control block as a guest does, from now on.
    pub fn set_parameter(&mut self, reg: Fixed, value: u64) -> Result<(), ControlError> {
        self.as_guest(|port| port.set(Reg::Fixed(reg), value))
    }
}

fn counter(c: &Counters, s: MemStat) -> u64 {
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

fn hart_counter(v: &HartView, s: HartStat) -> u64 {
    let e = &v.stats;
    match s {
        HartStat::Instructions => v.instret,
        HartStat::Cycles => v.cycle,
        HartStat::L1dLoadMisses => e.l1d_load_misses,
        HartStat::L1dStoreMisses => e.l1d_store_misses,
        HartStat::L1dWalkMisses => e.l1d_walk_misses,
        HartStat::L1dUpgrades => e.l1d_upgrades,
        HartStat::L1dWritebacks => e.l1d_writebacks,
        HartStat::L1dFlushes => e.l1d_flushes,
        HartStat::Probes => e.probes,
        HartStat::L1iMisses => e.l1i_misses,
        HartStat::DtlbMisses => e.dtlb_misses,
        HartStat::ItlbMisses => e.itlb_misses,
        HartStat::Mispredicts => e.mispredicts,
        HartStat::MemoryStallCycles => e.memory_stall_cycles,
        HartStat::Exceptions => e.exceptions,
        HartStat::Interrupts => e.interrupts,
        HartStat::IdleCycles => e.idle_cycles,
    }
}

impl Port<'_, '_> {
    fn params(&self) -> &BoardParams {
        self.world.memory.board.params()
    }

    fn memory(&mut self) -> &Stats {
        let now = self.now;
        let world = &self.world;
        let fresh = || Box::new((now, world.memory.board.stats(now)));
        let cached = match self.cached.take() {
            Some(c) if c.0 == now => c,
            _ => fresh(),
        };
        &self.cached.insert(cached).1
    }

    fn hart(&self, n: usize, s: HartStat) -> u64 {
        let view = if n == self.by.hart {
            HartView {
                cycle: self.by.cycle,
                instret: self.by.instret,
                stats: *self.by.stats,
            }
        } else {
            match self.world.views.get(n) {
                Some(v) => *v,
                None => return 0,
            }
        };
        let from = self
            .world
            .control
            .baselines
            .get(n)
            .copied()
            .unwrap_or_default();
        hart_counter(&view, s) - hart_counter(&from, s)
    }

    fn histogram(&mut self, region: u8, write: bool) -> Option<&Histogram> {
        let r = self.memory().regions.get(region as usize)?;
        Some(if write {
            &r.write_latency
        } else {
            &r.read_latency
        })
    }

    fn clocks(&self, delay: Ps) -> u64 {
        self.params().clock.edge_from(delay)
    }

    fn change(&mut self, f: impl FnOnce(&mut BoardParams)) -> Result<(), ControlError> {
        let mut p = self.params().clone();
        f(&mut p);
        self.cached = None;
        let now = self.now;
        let set = self.world.memory.board.set_params(now, p);
        set.map_err(|_| ControlError::Value)
    }
}

impl ControlPort for Port<'_, '_> {
    fn get(&mut self, reg: Reg) -> u64 {
        let p = self.params();
        let (t, d, r) = (p.timing, p.delays, p.refresh);
        let base = self.world.ram_base;
        match reg {
            Reg::Fixed(f) => match f {
                Fixed::Harts => self.world.views.len() as u64,
                Fixed::Banks => p.mapping.banks() as u64,
                Fixed::MemoryBase => base,
                Fixed::MemorySize => p.capacity,
                Fixed::ClockPs => p.clock.nearest().0,
                Fixed::CoreHz => self.world.core_clock.period().nearest_hz(),
                Fixed::Method => method_number(p.method),
                Fixed::TimingMode => self.world.timed as u64,
                Fixed::NvmmBoundary => base + p.nvmm_base,
                Fixed::NvmmSize => p.capacity - p.nvmm_base,
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
                Fixed::StatsFromNs => self.memory().from.0 / 1000,
                Fixed::Clocks => p.clock.edge_until(self.now),
                Fixed::Refreshes => self.memory().refreshes,
                Fixed::RefreshTicksLost => self.memory().refresh_ticks_lost,
                Fixed::WarmUp => self.world.control.warm_up,
                // Kept by the block itself.
                Fixed::SpaceName
                | Fixed::Magic
                | Fixed::Version
                | Fixed::Error
                | Fixed::ErrorOffset
                | Fixed::ErrorValue
                | Fixed::ErrorCount
                | Fixed::StatsControl
                | Fixed::HostRequest
                | Fixed::Label
                | Fixed::LabelText
                | Fixed::MemorySet => 0,
                // Registers of the I/O table.
                reg => self.world.bus.iomap().map_or(0, |t| t.get(reg)),
            },
            Reg::Region(n, s) => self
                .memory()
                .regions
                .get(n as usize)
                .map_or(0, |r| counter(&r.counters, s)),
            Reg::Bank(n, s) => self
                .memory()
                .banks
                .get(n as usize)
                .map_or(0, |c| counter(c, s)),
            Reg::Hart(n, s) => self.hart(n as usize, s),
            Reg::LatencyCount { region, write } => {
                self.histogram(region, write).map_or(0, |h| h.count)
            }
            Reg::LatencySum { region, write } => {
                self.histogram(region, write).map_or(0, |h| h.sum.0 / 1000)
            }
            Reg::LatencyBucket {
                region,
                write,
                bucket,
            } => self
                .histogram(region, write)
                .and_then(|h| h.buckets.get(bucket as usize))
                .map_or(0, |b| *b),
        }
    }

    fn set(&mut self, reg: Reg, value: u64) -> Result<(), ControlError> {
        let Reg::Fixed(f) = reg else {
            return Err(ControlError::ReadOnly);
        };
        let clock = self.params().clock;
        // One that is too long is refused as such.
        let delay = || Ok::<_, ControlError>(clock.edge(value));
        let narrow = || {
            u32::try_from(value)
                .map(Clocks)
                .map_err(|_| ControlError::Value)
        };
        match f {
            Fixed::Method => {
                let m = method_from_number(value).ok_or(ControlError::Value)?;
                self.change(|p| p.method = m)
            }
            Fixed::TimingMode => {
                if value > 1 {
                    return Err(ControlError::Value);
                }
                self.world.actions.push(Action::Timed(value == 1));
                Ok(())
            }
            Fixed::WarmUp => {
                self.world.control.warm_up = value;
                Ok(())
            }
            Fixed::SpaceName => {
                let bytes = value.to_le_bytes();
                let name: String = bytes.iter().map(|&b| char::from(b)).collect();
                let name = name.trim_end_matches('\0');
                if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic()) {
                    return Err(ControlError::Value);
                }
                if let Some(p) = &mut self.world.profile {
                    p.name_space(self.by.satp, name);
                }
                Ok(())
            }
            Fixed::NvmmBoundary => {
                let p = self.params();
                let offset = value
                    .checked_sub(self.world.ram_base)
                    .filter(|o| *o <= p.capacity)
                    .ok_or(ControlError::Value)?;
                if offset % p.bank_bytes() != 0 {
                    return Err(ControlError::Alignment);
                }
                self.change(|p| p.nvmm_base = offset)
            }
            Fixed::CoarseRead => {
                let d = delay()?;
                self.change(|p| p.delays.coarse_read = d)
            }
            Fixed::CoarseWrite => {
                let d = delay()?;
                self.change(|p| p.delays.coarse_write = d)
            }
            Fixed::AddedRcd => {
                let d = delay()?;
                self.change(|p| p.delays.trcd = d)
            }
            Fixed::AddedRp => {
                let d = delay()?;
                self.change(|p| p.delays.trp = d)
            }
            Fixed::AddedRas => {
                let d = delay()?;
                self.change(|p| p.delays.tras = d)
            }
            Fixed::BaseWait => {
                let n = narrow()?;
                self.change(|p| p.timing.wait = n)
            }
            Fixed::BaseRcd => {
                let n = narrow()?;
                self.change(|p| p.timing.rcd = n)
            }
            Fixed::BaseRas => {
                let n = narrow()?;
                self.change(|p| p.timing.ras = n)
            }
            Fixed::BaseRtp => {
                let n = narrow()?;
                self.change(|p| p.timing.rtp = n)
            }
            Fixed::BaseWtp => {
                let n = narrow()?;
                self.change(|p| p.timing.wtp = n)
            }
            Fixed::BaseRp => {
                let n = narrow()?;
                self.change(|p| p.timing.rp = n)
            }
            Fixed::RefreshInterval => {
                let n = narrow()?;
                self.change(|p| p.refresh.interval = n)
            }
            Fixed::RefreshDuration => {
                let n = narrow()?;
                self.change(|p| p.refresh.duration = n)
            }
            reg if reg.is_iomap() => {
                if self.by.privilege != MACHINE {
                    return Err(ControlError::Privilege);
                }
                match self.world.bus.iomap() {
                    Some(table) => table.set(reg, value),
                    None => Err(ControlError::State),
                }
            }
            _ => Err(ControlError::ReadOnly),
        }
    }

    fn set_memory(&mut self, setting: &str) -> Result<(), ControlError> {
        let parts = setting.split_once('=');
        let found = parts.and_then(|(path, value)| Some((path.split_once('.')?, value)));
        let ((region, key), value) = found.ok_or(ControlError::Value)?;
        self.cached = None;
        self.world
            .memory
            .set_parameter(self.now, region, key, value)
            .map_err(|_| ControlError::Value)
    }

    fn stats(&mut self, action: StatsAction) {
        self.cached = None;
        self.world.actions.push(match action {
            StatsAction::Reset => Action::ResetStats,
            StatsAction::Dump { label } => Action::Mark(label),
            StatsAction::Snapshot { label } => {
                Action::Marker(self.by.hart, Marker::Snapshot, label)
            }
        });
    }
}
