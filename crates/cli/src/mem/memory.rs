//! Memories by name or file.

use nagori_memcfg::Kind;
use nagori_memtime::{dram, MemoryModel};
use nagori_memtrace::output::{Decompose, Details};
use nagori_memtrace::text::Compose;
use nagori_session::Caller;

/// A checked description of a memory, from which models are made.
pub struct Memory {
    described: nagori_memcfg::Memory,
    settings: Vec<String>,
}

/// Finds and checks a memory.
pub fn load(name: &str, settings: &[String]) -> anyhow::Result<Memory> {
    Ok(Memory {
        described: nagori_memcfg::Memory::load(name, settings)?,
        settings: settings.to_vec(),
    })
}

/// As [`load`], with warnings about what is unlikely to be meant.
pub fn load_and_warn(
    name: &str,
    settings: &[String],
    caller: &dyn Caller,
) -> anyhow::Result<Memory> {
    let memory = load(name, settings)?;
    for w in &memory.described.warnings {
        caller.warning(w);
    }
    Ok(memory)
}

/// Region of a bus trace that is made from a trace without regions.
const REGION: &str = "memory";

/// What formats of traces need besides the accesses: the address mapping of a memory, the name of a
/// region.
pub fn details(memory: Option<&Memory>, region: Option<String>) -> Details {
    Details {
        decompose: memory.and_then(Memory::decompose),
        region: Some(region.unwrap_or(REGION.into())),
    }
}

impl Memory {
    /// Its name, with the variant.
    pub fn name(&self) -> &str {
        &self.described.name
    }

    /// Settings of this run.
    pub fn settings(&self) -> &[String] {
        &self.settings
    }

    /// All values with their origin, as a table.
    pub fn show(&self) -> String {
        self.described.show()
    }

    /// All values with their origin, as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        self.described.to_json()
    }

    /// A model at time 0.
    pub fn model(&self) -> anyhow::Result<Box<dyn MemoryModel + Send>> {
        Ok(self.described.build()?)
    }

    /// Turns addresses into DRAM address vectors, the inverse of [`Memory::compose`].
    pub fn decompose(&self) -> Option<Decompose> {
        match &self.described.kind {
            Kind::Device { device, controller } => {
                let c = dram::Controller::new((**device).clone(), (**controller).clone()).ok()?;
                let groups = device.organisation.bank_groups > 1;
                Some(Box::new(move |a| {
                    inside(a, c.capacity())?;
                    let p = c.place(a);
                    let [ch, r, g, b, row, col] =
                        [p.channel, p.rank, p.bank_group, p.bank, p.row, p.column].map(u64::from);
                    Ok(if groups {
                        vec![ch, r, g, b, row, col]
                    } else {
                        vec![ch, r, b, row, col]
                    })
                }))
            }
            Kind::Board(p) => {
                let (m, capacity) = (p.mapping, p.capacity);
                Some(Box::new(move |a| {
                    inside(a, capacity)?;
                    Ok(vec![0, 0, m.bank.of(a), m.row.of(a), m.column.of(a) >> 6])
                }))
            }
            _ => None,
        }
    }

    /// Turns DRAM address vectors into addresses, if there is one mapping for the whole memory.
    pub fn compose(&self) -> Option<Compose> {
        match &self.described.kind {
            Kind::Device { device, controller } => {
                let c = dram::Controller::new((**device).clone(), (**controller).clone()).ok()?;
                let groups = device.organisation.bank_groups > 1;
                let low = device.organisation.access_bytes().ilog2();
                let inverse = Inverse::new(c.capacity(), low, |a| {
                    let p = c.place(a);
                    [p.channel, p.rank, p.bank_group, p.bank, p.row, p.column].map(u64::from)
                });
                Some(Box::new(move |v| {
                    let place = match (v, groups) {
                        (&[c, r, g, b, row, col], _) => [c, r, g, b, row, col],
                        (&[c, r, b, row, col], false) => [c, r, 0, b, row, col],
                        _ => {
                            let names = if groups {
                                "channel, rank, bank group, bank, row, column"
                            } else {
                                "channel, rank, bank, row, column"
                            };
                            return Err(format!("{} levels; this memory has {names}", v.len()));
                        }
                    };
                    inverse.address(place)
                }))
            }
            Kind::Board(p) => {
                let (m, capacity) = (p.mapping, p.capacity);
                let inverse = Inverse::new(capacity, 6, move |a| {
                    [0, 0, 0, m.bank.of(a), m.row.of(a), m.column.of(a) >> 6]
                });
                Some(Box::new(move |v| match *v {
                    [c, r, b, row, col] => inverse.address([c, r, 0, b, row, col]),
                    _ => Err(format!(
                        "{} levels; this memory has channel, rank, bank, row, column",
                        v.len()
                    )),
                }))
            }
            _ => None,
        }
    }
}

fn inside(addr: u64, capacity: u64) -> Result<(), String> {
    if addr < capacity {
        Ok(())
    } else {
        Err(format!(
            "the address {addr:#x} is beyond the memory's {capacity:#x} bytes; --base subtracts a base address"
        ))
    }
}

/// The inverse of an address mapping. A mapping moves and XORs bits, so it is linear over single
/// bits: the images of the address bits determine it.
struct Inverse {
    /// Images and the address bits that produce them, with distinct highest bits.
    basis: Vec<(u128, u64)>,
    capacity: u64,
}

/// Bits of each level in a packed vector: channel to bank, row, column.
const LEVEL_BITS: [u32; 6] = [16, 16, 16, 16, 32, 32];

fn pack(place: [u64; 6]) -> Option<u128> {
    place
        .iter()
        .zip(LEVEL_BITS)
        .try_fold(0u128, |all, (&v, bits)| {
            (v >> bits == 0).then_some(all << bits | u128::from(v))
        })
}

impl Inverse {
    fn new(capacity: u64, low: u32, of: impl Fn(u64) -> [u64; 6]) -> Inverse {
        let mut basis: Vec<(u128, u64)> = Vec::new();
        for bit in low..capacity.next_power_of_two().ilog2() {
            let Some(mut place) = pack(of(1 << bit)) else {
                continue;
            };
            let mut addr = 1u64 << bit;
            for &(p, a) in &basis {
                if place ^ p < place {
                    (place, addr) = (place ^ p, addr ^ a);
                }
            }
            if place != 0 {
                basis.push((place, addr));
                basis.sort_unstable_by(|a, b| b.cmp(a));
            }
        }
        Inverse { basis, capacity }
    }

    fn address(&self, place: [u64; 6]) -> Result<u64, String> {
        let mut rest = pack(place).unwrap_or(u128::MAX);
        let mut addr = 0;
        for &(p, a) in &self.basis {
            if rest ^ p < rest {
                (rest, addr) = (rest ^ p, addr ^ a);
            }
        }
        if rest == 0 && addr < self.capacity {
            Ok(addr)
        } else {
            Err("an address vector outside the memory".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverses_undo_mappings_with_xor() {
        // Column in bits 6 to 12, bank at bit 13 XORed with the row, row from bit 16.
        let of = |a: u64| {
            let row = a >> 16 & 0xff;
            [0, 0, 0, (a >> 13 ^ row) & 7, row, a >> 6 & 0x7f]
        };
        let inverse = Inverse::new(1 << 24, 6, of);
        for addr in (0..1 << 24).step_by(64 * 37) {
            assert_eq!(inverse.address(of(addr)), Ok(addr));
        }
        for outside in [
            [0, 0, 0, 8, 0, 0],
            [1, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 256, 0],
            [0, 0, 0, 0, 0, 1 << 30],
        ] {
            assert!(inverse.address(outside).is_err(), "{outside:?}");
        }
    }

    #[test]
    fn vectors_of_the_presets() {
        for name in ["ddr3", "board"] {
            let compose = load(name, &[]).unwrap().compose().unwrap();
            let a = compose(&[0, 0, 3, 17, 5]).unwrap();
            let b = compose(&[0, 0, 3, 17, 6]).unwrap();
            assert_eq!(b - a, 64, "{name}");
            assert!(compose(&[0, 0, 8, 0, 0]).unwrap_err().contains("outside"));
            let decompose = load(name, &[]).unwrap().decompose().unwrap();
            assert_eq!(decompose(a).unwrap(), [0, 0, 3, 17, 5], "{name}");
            assert!(decompose(1 << 40).unwrap_err().contains("beyond"));
            assert!(compose(&[0, 0]).unwrap_err().contains("2 levels"));
        }
    }
}
