//! The toy core: fixed costs, and an L1 cache of tags.

use nagori_memtime::{BoardParams, Controller, Error, Kind, Ps};

/// Constants of the toy. Times in ns.
#[derive(Clone, Copy)]
pub struct Toy {
    /// Cost of one access besides the controller.
    pub fixed_stride: f64,
    pub fixed_nbank: f64,
    /// Cost of a leaf PTE's line miss besides the controller (665 with it).
    pub pte: f64,
    /// Release of a dirty victim to its acknowledgement.
    pub ack: f64,
    /// Lead of the write-back over the fetch at the controller.
    pub lead: f64,
    /// Benchmark time per model time.
    pub stretch: f64,
    /// Address of the page tables.
    pub pte_base: u64,
}

pub const TOY: Toy = Toy {
    fixed_stride: 1390.0,
    fixed_nbank: 1170.0,
    pte: 582.0,
    ack: 471.0,
    lead: 455.0,
    stretch: 1.08,
    pte_base: 0x0400_0000,
};

/// 16 KiB, 4 ways, 64 sets, random replacement; line address and dirty bit.
struct L1 {
    sets: [[Option<(u64, bool)>; 4]; 64],
    lfsr: u32,
}

impl L1 {
    /// `None` on a hit; on a miss the dirty victim, if any.
    fn access(&mut self, line: u64, write: bool) -> Option<Option<u64>> {
        let set = &mut self.sets[(line % 64) as usize];
        if let Some((_, dirty)) = set.iter_mut().flatten().find(|l| l.0 == line) {
            *dirty |= write;
            return None;
        }
        let way = set.iter().position(Option::is_none).unwrap_or_else(|| {
            for _ in 0..3 {
                let x = self.lfsr;
                let b = (x ^ (x >> 2) ^ (x >> 3) ^ (x >> 5)) & 1;
                self.lfsr = (x >> 1) | (b << 15);
            }
            (self.lfsr & 3) as usize
        });
        let victim = set[way].replace((line, write));
        Some(victim.filter(|v| v.1).map(|v| v.0))
    }
}

struct Core {
    controller: Controller,
    l1: L1,
    toy: Toy,
    /// ns
    now: f64,
}

impl Core {
    fn touch(&mut self, addr: u64, write: bool, cost: f64) -> Result<(), Error> {
        let Some(victim) = self.l1.access(addr / 64, write) else {
            return Ok(());
        };
        self.now += cost;
        if let Some(line) = victim {
            self.now += self.toy.ack - self.toy.lead;
            self.memory(line * 64, Kind::Write)?;
            self.now += self.toy.lead;
        }
        self.memory(addr / 64 * 64, Kind::Read)
    }

    fn memory(&mut self, addr: u64, kind: Kind) -> Result<(), Error> {
        let at = Ps((self.now * 1000.0) as u64);
        self.now = self.controller.access(at, addr, kind, 64)?.as_ns();
        Ok(())
    }
}

/// Average time of an access in ns.
pub fn run(
    params: &BoardParams,
    toy: Toy,
    kind: Kind,
    benchmark: &str,
    value: u64,
) -> Result<f64, Error> {
    const N: u64 = 4000;
    const WARM: u64 = 400;
    let mut core = Core {
        controller: Controller::new(params.clone())?,
        l1: L1 {
            sets: [[None; 4]; 64],
            lfsr: 0xace1,
        },
        toy,
        now: 10_000.0,
    };
    let base = params.nvmm_base;
    let (banks, step, fixed) = match benchmark {
        "stride" => (1, value, toy.fixed_stride),
        _ => (value, 8192, toy.fixed_nbank),
    };
    let mut start = 0.0;
    for i in 0..WARM + N {
        if i == WARM {
            start = core.now;
        }
        let addr = base + (i % banks) * params.bank_bytes() + i / banks * step;
        core.now += fixed;
        core.touch(toy.pte_base + (addr - base) / 4096 * 8, false, toy.pte)?;
        core.touch(addr, kind == Kind::Write, 0.0)?;
    }
    Ok((core.now - start) / N as f64 * toy.stretch)
}
