//! Ranges and relations that the types do not express.

mod epoch;
pub(crate) mod region;
mod stores;

use super::cache::{SharedBy, MAX_HARTS};
use super::devices::{slot_names, SlotConfig, SlotKind, MAX_SLOTS};
use super::frequency::Frequency;
use super::iomap;
use super::problem::{ensure, within, Problem};
use super::types::*;
use nagori_cache::config::{PrefetchConfig, Prefetcher, Replacement};
use nagori_hart::config::{Ext, Extensions};

/// Extensions that every hart has, because its privileged modes need them.
const MANDATORY_ISA: [Ext; 2] = [Ext::I, Ext::Zicsr];

/// Extensions that a description may list. The privileged modes are always there, and markers have
/// a separate key.
fn listable() -> impl Iterator<Item = Ext> {
    let own = |e: &Ext| !matches!(e, Ext::Priv | Ext::Xmark);
    Ext::ALL.iter().copied().filter(own)
}

const MAX_BOARD_PS: u64 = 1_000_000_000;
const MAX_BLOCK_PS: u64 = 1_000_000_000_000;
const MAX_BLOCK_BYTE_PS: u64 = 1_000_000_000;

fn power_of_two(key: &str, value: u32, high: u32) -> Result<(), Problem> {
    ensure(value.is_power_of_two() && value <= high, key, || {
        format!("{value} is not possible: expected a power of two from 1 to {high}")
    })
}

fn clock(key: &str, f: Frequency) -> Result<(), Problem> {
    ensure(f.period().is_some(), key, || {
        format!("{f} is not possible: expected 1 Hz to 1 THz")
    })
}

pub(super) fn machine(c: &MachineConfig) -> Result<(), Problem> {
    let plain = |ch: char| ch.is_ascii_alphanumeric() || ch == '-' || ch == '_';
    ensure(
        !c.name.is_empty() && c.name.chars().all(plain),
        "name",
        || format!("`{}` is no name: expected letters, digits, - and _", c.name),
    )?;
    within("harts", c.harts.into(), 1, MAX_HARTS.into())?;
    clock("clock_hz", c.clock_hz)?;
    clock("timebase_hz", c.timebase_hz)?;
    ensure(c.timebase_hz <= c.clock_hz, "timebase_hz", || {
        format!(
            "{} is faster than the core clock of {}",
            c.timebase_hz, c.clock_hz
        )
    })?;
    isa(c)?;
    within("asid_bits", c.asid_bits.into(), 0, 16)?;
    ensure(matches!(c.pmp_entries, 0 | 16), "pmp_entries", || {
        format!("{} is not possible: expected 0 or 16", c.pmp_entries)
    })?;
    within("triggers", c.triggers.into(), 0, 16)?;
    within("hub_cycles", c.hub_cycles.into(), 0, 1000)?;
    within("quantum_cycles", c.quantum_cycles.into(), 1, 1_000_000)?;
    within("run_ahead_cycles", c.run_ahead_cycles.into(), 1, 1_000_000)?;
    within(
        "functional_quantum_cycles",
        c.functional_quantum_cycles.into(),
        1,
        1_000_000,
    )?;
    within("functional_cpi", c.functional_cpi.into(), 1, 1000)?;
    within("rtc_epoch", c.rtc_epoch, 0, 18_000_000_000)?;
    cache("l1d", &c.l1d)?;
    let stride = c.l1i.prefetcher == Prefetcher::Stride;
    ensure(!stride, "l1i.prefetcher", || {
        "`stride` goes by the program counter of loads and stores: expected none, next-line or stream"
            .into()
    })?;
    cache("l1i", &c.l1i)?;
    levels(c)?;
    stores::check(c)?;
    tlb("dtlb", &c.dtlb)?;
    tlb("itlb", &c.itlb)?;
    memory(&c.memory)?;
    controller(c)?;
    region::check(c)?;
    iomap::check(&c.iomap)?;
    epoch::check(c)?;
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
    within("board.write_ack_ps", b.write_ack_ps, 0, MAX_BOARD_PS)?;
    slots(c)
}

fn slots(c: &MachineConfig) -> Result<(), Problem> {
    ensure(c.devices.len() <= MAX_SLOTS, "devices", || {
        format!("{} devices: there are {MAX_SLOTS} slots", c.devices.len())
    })?;
    let of_entropy = |d: &&SlotConfig| d.kind == SlotKind::Entropy;
    let sources = c.devices.iter().filter(of_entropy).count();
    ensure(sources <= 1, "devices", || {
        format!("{sources} entropy sources: a machine has one")
    })?;
    let of_pins = |d: &&SlotConfig| d.kind == SlotKind::Gpio;
    let controllers = c.devices.iter().filter(of_pins).count();
    ensure(controllers <= 1, "devices", || {
        format!("{controllers} GPIO controllers: there are interrupt sources for the pins of one")
    })?;
    let names = slot_names(&c.devices);
    for (i, name) in names.iter().enumerate() {
        ensure(!names[..i].contains(name), &format!("devices[{i}]"), || {
            format!(
                "there is another device `{name}`: give it another name, such as {}:NAME",
                c.devices[i].kind.name()
            )
        })?;
    }
    let b = &c.block;
    within("block.request_ps", b.request_ps, 0, MAX_BLOCK_PS)?;
    within("block.seek_ps", b.seek_ps, 0, MAX_BLOCK_PS)?;
    within("block.byte_ps", b.byte_ps, 0, MAX_BLOCK_BYTE_PS)?;
    within("block.flush_ps", b.flush_ps, 0, MAX_BLOCK_PS)?;
    let s = &c.share;
    within("share.request_ps", s.request_ps, 0, MAX_BLOCK_PS)?;
    within("share.byte_ps", s.byte_ps, 0, MAX_BLOCK_BYTE_PS)
}

fn isa(c: &MachineConfig) -> Result<(), Problem> {
    let names = |list: &mut dyn Iterator<Item = Ext>| {
        let names: Vec<&str> = list.map(Ext::name).collect();
        names.join(", ")
    };
    for (i, name) in c.isa.iter().enumerate() {
        let key = format!("isa[{i}]");
        ensure(listable().any(|e| e.name() == name), &key, || {
            let known = names(&mut listable());
            format!("unknown extension `{name}`: known are {known}")
        })?;
        ensure(!c.isa[..i].contains(name), &key, || {
            format!("`{name}` is listed twice")
        })?;
    }
    for e in MANDATORY_ISA {
        ensure(c.has(e), "isa", || {
            let always = names(&mut MANDATORY_ISA.into_iter());
            format!("`{}` is missing: a hart always has {always}", e.name())
        })?;
    }
    if let Some((e, needs)) = c.extensions().unmet() {
        let (name, needs) = (e.name(), needs.name());
        let at = c.isa.iter().position(|n| n == name).unwrap_or(0);
        ensure(false, &format!("isa[{at}]"), || {
            format!("`{name}` cannot be without `{needs}`: add that, or take `{name}` out")
        })?;
    }
    ensure(
        !c.advertise_zicbom || c.has(Ext::Zicbom),
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
    let fits = c.size.0.is_multiple_of(u64::from(c.ways))
        && way.is_power_of_two()
        && (64..=4096).contains(&way);
    ensure(fits, &k("size"), || {
        let (low, high) = (64 * u64::from(c.ways), 4096 * u64::from(c.ways));
        format!(
            "{} in {} ways: expected {} times a power of two, from {low} to {high} bytes",
            c.size, c.ways, c.ways
        )
    })?;
    outstanding(c.mshrs, &c.prefetch(), k)
}

/// Checks the outer cache levels.
fn levels(c: &MachineConfig) -> Result<(), Problem> {
    const MAX_LEVEL_BYTES: u64 = 1 << 30;
    const MAX_LATENCY: u64 = 10_000;
    // The number of the previous level, its sharers, its latency.
    let (mut level, mut sharers, mut latency) = (1, 1, 0);
    for (name, l) in c.levels() {
        let k = |field: &str| format!("cache.{name}.{field}");
        ensure(l.level != 1, &k("level"), || {
            "first-level caches are `l1d` and `l1i`, which have these keys, too".into()
        })?;
        ensure(l.level == level + 1, &k("level"), || {
            format!(
                "{} does not follow {level}: each level from 2 on stands once",
                l.level
            )
        })?;
        let n = l.shared_by.harts();
        if let SharedBy::Harts(n) = l.shared_by {
            within(&k("shared_by"), n.into(), 1, MAX_HARTS.into())?;
        }
        let all = matches!(l.shared_by, SharedBy::All(_));
        ensure(all || n % sharers == 0, &k("shared_by"), || {
            format!(
                "{n} is no multiple of {sharers}, the harts that share a cache of the level before"
            )
        })?;
        within(&k("ways"), l.ways.into(), 1, 64)?;
        let tree = matches!(l.replacement, Replacement::Lfsr | Replacement::TreePlru);
        ensure(!tree || l.ways.is_power_of_two(), &k("ways"), || {
            format!(
                "{} is not possible with this replacement: expected a power of two",
                l.ways
            )
        })?;
        let way = l.size.0 / u64::from(l.ways);
        let fits = l.size.0.is_multiple_of(u64::from(l.ways))
            && way.is_power_of_two()
            && way >= 64
            && l.size.0 <= MAX_LEVEL_BYTES;
        ensure(fits, &k("size"), || {
            let low = 64 * u64::from(l.ways);
            format!(
                "{} in {} ways: expected {} times a power of two, from {low} bytes to 1 GiB",
                l.size, l.ways, l.ways
            )
        })?;
        within(&k("latency"), l.latency.into(), latency.max(1), MAX_LATENCY)?;
        within(&k("probe_latency"), l.probe_latency.into(), 0, MAX_LATENCY)?;
        power_of_two(&k("banks"), l.banks, 64)?;
        within(&k("bank_cycles"), l.bank_cycles.into(), 0, 1000)?;
        ensure(l.banks == 1 || l.bank_cycles > 0, &k("banks"), || {
            format!(
                "{} banks make no difference while bank_cycles is 0: say how long an access keeps one busy",
                l.banks
            )
        })?;
        outstanding(l.mshrs, &l.prefetch(), k)?;
        (level, sharers, latency) = (l.level, n, l.latency.into());
    }
    Ok(())
}

/// MSHRs and prefetcher of a cache.
fn outstanding(
    mshrs: Option<u32>,
    t: &PrefetchConfig,
    key: impl Fn(&str) -> String,
) -> Result<(), Problem> {
    if let Some(mshrs) = mshrs {
        within(&key("mshrs"), mshrs.into(), 1, 64)?;
    }
    within(&key("degree"), t.degree.into(), 1, 16)?;
    within(&key("distance"), t.distance.into(), t.degree.into(), 63)?;
    within(&key("prefetch_entries"), t.entries.into(), 1, 1024)?;
    let table = t.prefetcher == Prefetcher::Stride;
    let indexed = !table || t.entries.is_power_of_two();
    ensure(indexed, &key("prefetch_entries"), || {
        format!(
            "{} is not possible with this prefetcher: expected a power of two",
            t.entries
        )
    })?;
    within(&key("prefetch_confidence"), t.confidence.into(), 1, 15)
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
    ensure(m.base.is_multiple_of(ALIGN), "memory.base", || {
        format!("{:#x} is not a multiple of 2 MiB", m.base)
    })?;
    ensure(m.banks == 8, "memory.banks", || {
        format!("{}: the controller has 8 banks", m.banks)
    })?;
    let bank_ok = m.size.0 != 0 && m.size.0.is_multiple_of(u64::from(m.banks) * ALIGN);
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
    )?;
    let gpf = m.persistence_domain == PersistenceDomain::Gpf;
    ensure(gpf == (m.gpf_lines > 0), "memory.gpf_lines", || {
        if gpf {
            "is missing: expected the number of lines that the stored energy suffices for, at least 1".into()
        } else {
            "has a meaning only with memory.persistence_domain = gpf".into()
        }
    })?;
    let nvmm = m.size.0 - boundary;
    ensure(
        m.text_store.0.is_multiple_of(2 << 20) && m.text_store.0 <= nvmm,
        "memory.text_store",
        || {
            format!(
                "{} is not possible: expected a multiple of 2 MiB, not more than the {} of NVMM",
                m.text_store,
                super::Size(nvmm)
            )
        },
    )?;
    let reserve = m.firmware_reserve.0;
    ensure(
        reserve.is_multiple_of(4096) && reserve < boundary,
        "memory.firmware_reserve",
        || {
            format!(
                "{} is not possible: expected whole pages of 4 KiB, less than the {} of DRAM",
                m.firmware_reserve, m.nvmm_boundary
            )
        },
    )
}

fn controller(c: &MachineConfig) -> Result<(), Problem> {
    let m = &c.memory;
    let bank = m.controller.mapping.bank;
    let key = |name: &str| format!("memory.controller.{name}");
    within(&key("mapping.bank.low"), bank.low.into(), 1, 48)?;
    within(&key("mapping.bank.bits"), bank.bits.into(), 1, 4)?;
    let fits = m.bank_size() == 1 << bank.low && m.banks == 1 << bank.bits;
    ensure(fits, &key("mapping.bank"), || {
        format!(
            "bits {} to {} make {} banks of {}, but memory.size is {} in {} banks of {}",
            bank.low,
            bank.low + bank.bits - 1,
            1 << bank.bits,
            super::Size(1 << bank.low),
            m.size,
            m.banks,
            super::Size(m.bank_size())
        )
    })?;
    c.controller_params().validate().map_err(|e| match e {
        nagori_memtime::Error::Param {
            field,
            value,
            expected,
        } => Problem::new(
            match field {
                "capacity" => "memory.size".into(),
                "nvmm_base" => "memory.nvmm_boundary".into(),
                _ => key(field),
            },
            format!("{value} is not possible: expected {expected}"),
        ),
        other => Problem::new("memory.controller".into(), other.to_string()),
    })?;
    // The rule of the control block, which counts clocks.
    let d = &m.controller.delays;
    for (name, delay) in [
        ("coarse_read", d.coarse_read),
        ("coarse_write", d.coarse_write),
        ("trcd", d.trcd),
        ("trp", d.trp),
        ("tras", d.tras),
    ] {
        let whole = m.controller.clock.whole_clocks(delay);
        let key = key(&format!("delays.{name}"));
        whole.map_err(|e| Problem::new(key, e.to_string()))?;
    }
    Ok(())
}

pub(super) fn core(c: &CoreConfig) -> Result<(), Problem> {
    ensure(!c.timing.is_empty(), "timing", || {
        "there is no value".into()
    })?;
    for (name, v) in &c.timing {
        within(&format!("timing.{name}"), v.value.into(), 0, 100_000)?;
    }
    for (name, v) in &c.pipes {
        within(&format!("pipes.{name}"), v.value.into(), 0, 3)?;
    }
    Ok(())
}

impl MachineConfig {
    /// The extensions that the harts decode, and the registers that they have.
    pub fn extensions(&self) -> Extensions {
        let listed = self.isa.iter().filter_map(|n| Ext::from_name(n));
        let markers = self.markers.then_some(Ext::Xmark);
        listed.chain(markers).collect()
    }

    /// Whether the harts have an extension.
    pub fn has(&self, ext: Ext) -> bool {
        self.extensions().has(ext)
    }
}
