//! The smallest world: flat memory, at most a register, fixed line latency.

use crate::commit::LineRequest;
use crate::config::HartConfig;
use crate::world::{Bus, BusFault, MemPort, Observer, Requester, World};
use nagori_cache::Coherence;
use nagori_ram::{GuestRam, RamError};

/// Memory at a base address and nothing else; `time` counts cycles.
pub struct Flat {
    ram: GuestRam,
    base: u64,
    coherence: Coherence,
    /// Core cycles from a line request to its first beat.
    pub latency: u64,
    /// Core cycles from a release to its acknowledgement, if they are others.
    pub write_latency: Option<u64>,
    /// A device: the address of its one register, and what it reads as.
    pub register: Option<(u64, u64)>,
    /// Lines read and written back.
    pub traffic: (u64, u64),
}

impl Flat {
    /// `bytes` of memory at `base` for `harts` harts of one kind.
    pub fn new(base: u64, bytes: u64, harts: usize, config: &HartConfig) -> Result<Self, RamError> {
        Ok(Self {
            ram: GuestRam::new(bytes)?,
            base,
            coherence: Coherence::new(harts, config.l1d, config.l1i, base, bytes),
            latency: 10,
            write_latency: None,
            register: None,
            traffic: (0, 0),
        })
    }
}

impl Bus for Flat {
    #[inline(always)]
    fn ram(&self) -> &GuestRam {
        &self.ram
    }
    #[inline(always)]
    fn ram_base(&self) -> u64 {
        self.base
    }
    fn mmio_read(&mut self, _: &Requester<'_>, paddr: u64, _: u8) -> Result<u64, BusFault> {
        match self.register {
            Some((at, value)) if at == paddr => Ok(value),
            _ => Err(BusFault),
        }
    }
    fn mmio_write(&mut self, _: &Requester<'_>, _: u64, _: u8, _: u64) -> Result<(), BusFault> {
        Err(BusFault)
    }
    fn time(&self, cycle: u64) -> u64 {
        cycle
    }
    fn cycle_of_time(&self, time: u64) -> u64 {
        time
    }
}

impl MemPort for Flat {
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        self.traffic.0 += 1;
        req.cycle + self.latency
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        self.traffic.1 += 1;
        req.cycle + self.write_latency.unwrap_or(self.latency)
    }
}

impl Observer for Flat {}

impl World for Flat {
    fn coherence(&mut self) -> &mut Coherence {
        &mut self.coherence
    }
}
