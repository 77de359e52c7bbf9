//! Ranges and relations that the types do not express.

use super::types::*;
use super::{ConfigError, Place, Source};
use crate::clock::Clock;

/// A value that cannot be.
pub(super) struct Problem {
    key: String,
    problem: String,
}

impl Problem {
    pub(super) fn at(self, source: &Source) -> ConfigError {
        let place = Place::of_key(source, &self.key);
        ConfigError::Invalid {
            place,
            key: self.key,
            problem: self.problem,
        }
    }
}

/// Extensions that a hart always has.
const MANDATORY_ISA: [&str; 9] = ["i", "m", "a", "f", "d", "c", "zicsr", "zifencei", "zicntr"];
/// Extensions that can be left out.
const OPTIONAL_ISA: [&str; 7] = [
    "zihpm",
    "zicbom",
    "zicboz",
    "zicbop",
    "zihintpause",
    "zihintntl",
    "sstc",
];
/// A limit that keeps sums of delays far from overflow.
const MAX_CLOCKS: u32 = 10_000_000;
const MAX_BOARD_PS: u64 = 1_000_000_000;

fn ensure(ok: bool, key: &str, problem: impl FnOnce() -> String) -> Result<(), Problem> {
    if ok {
        return Ok(());
    }
    Err(Problem {
        key: key.into(),
        problem: problem(),
    })
}

fn within(key: &str, value: u64, low: u64, high: u64) -> Result<(), Problem> {
    ensure((low..=high).contains(&value), key, || {
        format!("{value} is outside {low} to {high}")
    })
}

fn power_of_two(key: &str, value: u32, high: u32) -> Result<(), Problem> {
    ensure(value.is_power_of_two() && value <= high, key, || {
        format!("{value} is not possible: expected a power of two from 1 to {high}")
    })
}

fn clock(key: &str, hz: u64) -> Result<(), Problem> {
    let exact = Clock::new(hz).ok().and_then(Clock::exact_period).is_some();
    ensure(exact, key, || {
        format!("{hz} Hz has no period in whole picoseconds: expected a divisor of 10^12, such as 50000000")
    })
}

pub(super) fn machine(c: &MachineConfig) -> Result<(), Problem> {
    let plain = |ch: char| ch.is_ascii_alphanumeric() || ch == '-' || ch == '_';
    ensure(
        !c.name.is_empty() && c.name.chars().all(plain),
        "name",
        || format!("`{}` is no name: expected letters, digits, - and _", c.name),
    )?;
    within("harts", c.harts.into(), 1, 8)?;
    clock("clock_hz", c.clock_hz)?;
    clock("timebase_hz", c.timebase_hz)?;
    ensure(c.timebase_hz <= c.clock_hz, "timebase_hz", || {
        format!(
            "{} Hz is faster than the core clock of {} Hz",
            c.timebase_hz, c.clock_hz
        )
    })?;
    isa(c)?;
    within("asid_bits", c.asid_bits.into(), 0, 16)?;
    ensure(matches!(c.pmp_entries, 0 | 16), "pmp_entries", || {
        format!("{} is not possible: expected 0 or 16", c.pmp_entries)
    })?;
    within("hub_cycles", c.hub_cycles.into(), 0, 1000)?;
    within("quantum_cycles", c.quantum_cycles.into(), 1, 1_000_000)?;
    within("functional_cpi", c.functional_cpi.into(), 1, 1000)?;
    within("rtc_epoch", c.rtc_epoch, 0, 18_000_000_000)?;
    cache("l1d", &c.l1d)?;
    cache("l1i", &c.l1i)?;
    tlb("dtlb", &c.dtlb)?;
    tlb("itlb", &c.itlb)?;
    memory(&c.memory)?;
    controller(&c.memory)?;
    let b = &c.board;
    within("board.read_request_ps", b.read_request_ps, 0, MAX_BOARD_PS)?;
    within(
        "board.read_response_ps",
        b.read_response_ps,
        0,
        MAX_BOARD_PS,
    )?;
    within(
        "board.write_request_ps",
        b.write_request_ps,
        0,
        MAX_BOARD_PS,
    )?;
    within("board.write_ack_ps", b.write_ack_ps, 0, MAX_BOARD_PS)
}

fn isa(c: &MachineConfig) -> Result<(), Problem> {
    let known = MANDATORY_ISA.iter().chain(&OPTIONAL_ISA);
    let list = || known.clone().copied().collect::<Vec<_>>().join(", ");
    for (i, name) in c.isa.iter().enumerate() {
        let key = format!("isa[{i}]");
        ensure(known.clone().any(|k| k == name), &key, || {
            format!("unknown extension `{name}`: known are {}", list())
        })?;
        ensure(!c.isa[..i].contains(name), &key, || {
            format!("`{name}` is listed twice")
        })?;
    }
    for name in MANDATORY_ISA {
        ensure(c.isa.iter().any(|n| n == name), "isa", || {
            format!(
                "`{name}` is missing: a hart always has {}",
                MANDATORY_ISA.join(", ")
            )
        })?;
    }
    ensure(
        !c.advertise_zicbom || c.has("zicbom"),
        "advertise_zicbom",
        || "the list `isa` has no zicbom: add it there, or set this to false".into(),
    )
}

fn cache(key: &str, c: &CacheConfig) -> Result<(), Problem> {
    let k = |name: &str| format!("{key}.{name}");
    power_of_two(&k("ways"), c.ways, 16)?;
    ensure(c.line == 64, &k("line"), || {
        format!("{} bytes: only lines of 64 bytes exist", c.line)
    })?;
    // Virtually indexed without aliases: a way is not larger than a page.
    let way = c.size.0 / u64::from(c.ways);
    let fits =
        c.size.0 % u64::from(c.ways) == 0 && way.is_power_of_two() && (64..=4096).contains(&way);
    ensure(fits, &k("size"), || {
        let (low, high) = (64 * u64::from(c.ways), 4096 * u64::from(c.ways));
        format!(
            "{} in {} ways: expected {} times a power of two, from {low} to {high} bytes",
            c.size, c.ways, c.ways
        )
    })
}

fn tlb(key: &str, t: &TlbConfig) -> Result<(), Problem> {
    power_of_two(&format!("{key}.sectors"), t.sectors, 8)?;
    ensure(
        t.pages_per_sector == 4,
        &format!("{key}.pages_per_sector"),
        || format!("{}: only sectors of 4 pages exist", t.pages_per_sector),
    )?;
    power_of_two(&format!("{key}.superpage_entries"), t.superpage_entries, 8)
}

fn memory(m: &MemoryConfig) -> Result<(), Problem> {
    const ALIGN: u64 = 2 << 20;
    const END: u64 = 1 << 56;
    ensure(m.base % ALIGN == 0, "memory.base", || {
        format!("{:#x} is not a multiple of 2 MiB", m.base)
    })?;
    ensure(m.banks == 8, "memory.banks", || {
        format!("{}: the controller has 8 banks", m.banks)
    })?;
    let bank_ok = m.size.0 != 0 && m.size.0 % (u64::from(m.banks) * ALIGN) == 0;
    ensure(bank_ok, "memory.size", || {
        format!(
            "{} is not a positive multiple of {} banks of 2 MiB",
            m.size, m.banks
        )
    })?;
    ensure(
        m.base < END && m.size.0 <= END - m.base,
        "memory.size",
        || {
            format!(
                "{} from {:#x} passes the end of the 56-bit address space",
                m.size, m.base
            )
        },
    )?;
    let (boundary, bank) = (m.nvmm_boundary.0, m.bank_size());
    ensure(
        boundary % bank == 0 && (bank..=m.size.0).contains(&boundary),
        "memory.nvmm_boundary",
        || {
            let bank = super::Size(bank);
            format!(
                "{} is not possible: expected a multiple of the bank size {bank} from {bank} to {}",
                m.nvmm_boundary, m.size
            )
        },
    )
}

fn controller(m: &MemoryConfig) -> Result<(), Problem> {
    let c = &m.controller;
    let key = |name: &str| format!("memory.controller.{name}");
    within(&key("clock_ps"), c.clock_ps, 1, 1_000_000)?;
    within(&key("bank_machines"), c.bank_machines.into(), 1, 64)?;
    within(&key("row_shift"), c.row_shift.into(), 6, 30)?;
    within(
        &key("bank_shift"),
        c.bank_shift.into(),
        u64::from(c.row_shift) + 1,
        48,
    )?;
    ensure(
        m.bank_size() == 1 << c.bank_shift,
        &key("bank_shift"),
        || {
            format!(
                "{} makes banks of {}, but memory.size is {} in {} banks of {}",
                c.bank_shift,
                super::Size(1 << c.bank_shift),
                m.size,
                m.banks,
                super::Size(m.bank_size())
            )
        },
    )?;
    for (name, value) in [
        ("wait_clocks", c.wait_clocks),
        ("rcd_clocks", c.rcd_clocks),
        ("ras_clocks", c.ras_clocks),
        ("rtp_clocks", c.rtp_clocks),
        ("rp_clocks", c.rp_clocks),
        ("refresh_interval_clocks", c.refresh_interval_clocks),
        ("pulse_length_clocks", c.pulse_length_clocks),
        ("refresh_clocks", c.refresh_clocks),
    ] {
        within(&key(name), value.into(), 1, MAX_CLOCKS.into())?;
    }
    for (name, value) in [
        ("pulse_start_clocks", c.pulse_start_clocks),
        ("pulse_ras_limit_clocks", c.pulse_ras_limit_clocks),
        ("pulse_rtp_limit_clocks", c.pulse_rtp_limit_clocks),
        ("added_rcd_clocks", c.added_rcd_clocks),
        ("added_rp_clocks", c.added_rp_clocks),
        ("added_ras_clocks", c.added_ras_clocks),
        ("coarse_read_clocks", c.coarse_read_clocks),
        ("coarse_write_clocks", c.coarse_write_clocks),
    ] {
        within(&key(name), value.into(), 0, MAX_CLOCKS.into())?;
    }
    let busy = c.pulse_start_clocks + c.pulse_length_clocks + c.refresh_clocks;
    ensure(
        busy < c.refresh_interval_clocks,
        &key("refresh_interval_clocks"),
        || {
            format!(
                "{} clocks leave no time between refreshes: pulse and refresh take {busy}",
                c.refresh_interval_clocks
            )
        },
    )
}

pub(super) fn core(c: &CoreConfig) -> Result<(), Problem> {
    ensure(!c.timing.is_empty(), "timing", || {
        "there is no value".into()
    })?;
    for (name, v) in &c.timing {
        within(&format!("timing.{name}"), v.value.into(), 0, 100_000)?;
    }
    Ok(())
}

impl MachineConfig {
    /// Whether the harts have an extension.
    pub fn has(&self, extension: &str) -> bool {
        self.isa.iter().any(|n| n == extension)
    }
}
