//! The table of processors, `data/processors.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::counter::UncoreEvent;
use crate::host::Processor as Host;

/// Which events give the counts, for one or several processors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Its name.
    pub name: String,
    /// As in /proc/cpuinfo; "ARM" for Arm's implementer.
    pub vendor: String,
    /// Family; for Arm the architecture.
    pub family: u32,
    /// Models (Arm: parts). Empty: all of the family.
    pub models: Vec<u32>,
    /// Bits of its counters.
    pub bits: u8,
    /// Where the stall counter begins.
    pub stalls_from: StallsFrom,
    /// Where the events are documented.
    pub source: String,
    /// Whether somebody has run the self-test on the silicon.
    pub verified: bool,
    /// What it cannot count, and what follows.
    pub missing: Vec<String>,
    /// What else to know.
    pub notes: Vec<String>,
    /// Events of a core, by the name of the count.
    pub events: BTreeMap<String, Event>,
    /// Counters of memory controllers.
    #[serde(default)]
    pub uncore: Uncore,
}

/// Where a stall counter begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StallsFrom {
    /// Behind L1: hits in L2 count, too.
    L1,
    /// Behind L2.
    L2,
    /// There is none.
    None,
}

/// An event of a core.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Its name in the documentation.
    pub name: String,
    /// Event, unit mask, counter mask.
    pub code: [u64; 3],
    /// Another event to subtract.
    #[serde(default)]
    pub less: Option<[u64; 3]>,
}

/// Counters of memory controllers, for all cores together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uncore {
    /// Lines read from memory.
    pub reads: Option<UncoreEvent>,
    /// Lines written to memory.
    pub writes: Option<UncoreEvent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    processor: Vec<Processor>,
}

/// Every processor of the table.
///
/// # Panics
/// Never: the table is part of the program, and a test reads it.
pub fn all() -> Vec<Processor> {
    let table: Table = toml::from_str(include_str!("../data/processors.toml"))
        .expect("the table of processors is read by a test");
    table.processor
}

/// The row for a host's processor.
pub fn find(host: &Host) -> Option<Processor> {
    all().into_iter().find(|p| p.matches(host))
}

impl Processor {
    fn matches(&self, host: &Host) -> bool {
        self.vendor == host.vendor
            && self.family == host.family
            && (self.models.is_empty() || self.models.contains(&host.model))
    }

    /// The value of `perf_event_attr.config` for an event of its core.
    pub fn config(&self, [event, umask, cmask]: [u64; 3]) -> u64 {
        match self.vendor.as_str() {
            "ARM" => event,
            // AMD's events have 12 bits, of which the upper four are above the masks.
            "AuthenticAMD" => (event & 0xff) | umask << 8 | cmask << 24 | (event >> 8) << 32,
            _ => event | umask << 8 | cmask << 24,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(vendor: &str, family: u32, model: u32) -> Host {
        Host {
            vendor: vendor.into(),
            family,
            model,
            ..Host::default()
        }
    }

    #[test]
    fn the_table_is_complete() {
        let all = all();
        for p in &all {
            assert!(p.events.contains_key("llc_misses"), "{}", p.name);
            assert_eq!(
                p.events.contains_key("stall_cycles"),
                p.stalls_from != StallsFrom::None,
                "{}",
                p.name
            );
            assert_eq!(
                p.events.contains_key("l2_hits"),
                p.stalls_from == StallsFrom::L1,
                "{}",
                p.name
            );
            // What is not there is said.
            assert_eq!(
                p.uncore.writes.is_none(),
                p.missing.iter().any(|m| m.starts_with("write-backs")),
                "{}",
                p.name
            );
            assert!(nagori_epoch::Width::new(p.bits).is_some());
            assert!(!p.source.is_empty());
            assert!(
                !p.verified,
                "{}: say in docs/native.md who verified it, and how",
                p.name
            );
            let mut counts = nagori_epoch::Counts::default();
            for name in p.events.keys() {
                assert!(counts.field(name).is_some(), "{}: {name}", p.name);
            }
            for model in p
                .models
                .iter()
                .copied()
                .chain(p.models.is_empty().then_some(1))
            {
                let same = all
                    .iter()
                    .filter(|q| q.matches(&host(&p.vendor, p.family, model)));
                assert_eq!(same.count(), 1, "{} model {model}", p.name);
            }
        }
    }

    #[test]
    fn the_papers_machines_are_found() {
        for (model, name) in [
            (45, "Sandy Bridge-EP"),
            (62, "Ivy Bridge-EP"),
            (79, "Haswell-EP, Broadwell-EP"),
            (85, "Skylake-SP, Cascade Lake-SP"),
        ] {
            let p = find(&host("GenuineIntel", 6, model)).unwrap();
            assert_eq!(p.name, name);
            // The value that MESMERIC and Quartz give to the hardware for stalls behind L2.
            assert_eq!(p.config(p.events["stall_cycles"].code), 0x0500_05a3);
        }
        assert_eq!(find(&host("AuthenticAMD", 25, 17)).unwrap().name, "Zen 4");
        assert!(find(&host("GenuineIntel", 6, 1)).is_none());
    }

    #[test]
    fn amds_events_of_twelve_bits() {
        let zen = find(&host("AuthenticAMD", 25, 17)).unwrap();
        assert_eq!(zen.config([0x1a0, 0x1e, 0]), 0x1_0000_1ea0);
    }
}
