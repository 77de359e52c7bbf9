//! Regions of memory: their files, and where they are.

use crate::library::Source;
use crate::problem::Problem;
use crate::region::{RegionFile, DRAM, NVMM};
use crate::types::MachineConfig;

/// Reads the files that regions name.
pub(crate) fn read_files(source: &Source, config: &mut MachineConfig) -> Result<(), Problem> {
    for (name, r) in &mut config.memory.regions {
        if r.file.is_some() || !(r.model.contains('/') || r.model.ends_with(".toml")) {
            continue;
        }
        let found = nagori_memcfg::find(&r.model, source.dir.as_deref());
        let found = found.map_err(|e| wrong(name, "model", e.to_string()))?;
        r.file = Some(RegionFile {
            dir: found.dir.unwrap_or_default(),
            text: found.text,
        });
    }
    Ok(())
}

fn wrong(name: &str, key: &str, problem: String) -> Problem {
    Problem::new(format!("memory.regions.{name}.{key}"), problem)
}

/// Checks that regions are inside memory, do not overlap, and are not larger than their memories.
pub(super) fn check(config: &MachineConfig) -> Result<(), Problem> {
    let regions = config.regions();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut end = 0;
    let mut before = "";
    for r in regions {
        let fail = |key: &str, problem: String| Err(wrong(r.name, key, problem));
        if r.name.is_empty() || !r.name.chars().all(plain) {
            let problem = format!("`{}` is no name: expected letters, digits, - and _", r.name);
            return fail("model", problem);
        }
        if r.size == 0 || !r.size.is_multiple_of(4096) || !r.base.is_multiple_of(4096) {
            let problem = match (r.config.size, r.name) {
                (None, DRAM | NVMM) => {
                    "the machine has no such memory: memory.nvmm_boundary leaves nothing for it"
                        .into()
                }
                (None, _) => {
                    "is missing: only the regions dram and nvmm have a size of their own".into()
                }
                _ => format!(
                    "{} from {} is not possible: expected multiples of 4 KiB",
                    r.size, r.base
                ),
            };
            return fail("size", problem);
        }
        if r.base
            .checked_add(r.size)
            .is_none_or(|e| e > config.memory.size.0)
        {
            let problem = format!(
                "{} bytes from {} go beyond the memory's {} bytes",
                r.size, r.base, config.memory.size.0
            );
            return fail("size", problem);
        }
        if r.base < end {
            return fail("base", format!("the region overlaps {before}"));
        }
        if !(1..=16).contains(&r.config.controllers) {
            let problem = format!("{} is outside 1 to 16", r.config.controllers);
            return fail("controllers", problem);
        }
        let i = r.config.interleave.0;
        if !i.is_power_of_two() || !(64..=1 << 30).contains(&i) {
            let problem =
                format!("{i} is not possible: expected a power of two from 64 B to 1 GiB");
            return fail("interleave", problem);
        }
        let model = r.config.load().and_then(|m| m.build());
        let capacity = match model {
            Ok(m) => m.capacity(),
            Err(e) => return fail("model", e.to_string()),
        };
        if capacity < r.size {
            let problem = format!(
                "{} has {capacity} bytes, the region {}: choose a larger variant or more controllers",
                r.config.model, r.size
            );
            return fail("model", problem);
        }
        (end, before) = (r.base + r.size, r.name);
    }
    Ok(())
}
