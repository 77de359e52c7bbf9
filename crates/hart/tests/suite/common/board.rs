//! Flat memory with a write latency of its own and a device.

use nagori_hart::flat::Flat;
use nagori_hart::lines::Coherence;
use nagori_hart::world::{Bus, BusFault, LineRequest, MemPort, Observer, Requester, World};
use nagori_ram::GuestRam;

/// Address of the device: one register that reads as 7.
pub const DEVICE: u64 = 0x200_0000;

/// Flat memory; reads cost its latency, write-backs `write`.
pub struct Board {
    pub flat: Flat,
    /// Core cycles from a release to its acknowledgement.
    pub write: u64,
}

impl Bus for Board {
    fn ram(&self) -> &GuestRam {
        self.flat.ram()
    }
    fn ram_base(&self) -> u64 {
        self.flat.ram_base()
    }
    fn mmio_read(&mut self, _: &Requester<'_>, paddr: u64, _: u8) -> Result<u64, BusFault> {
        if paddr == DEVICE {
            Ok(7)
        } else {
            Err(BusFault)
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

impl MemPort for Board {
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        self.flat.read_line(req)
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        self.flat.write_line(req);
        req.cycle + self.write
    }
}

impl Observer for Board {}

impl World for Board {
    fn coherence(&mut self) -> &mut Coherence {
        self.flat.coherence()
    }
}
