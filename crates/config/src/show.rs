//! A resolved machine as text and as JSON, with units and origins.

use super::{Machine, Origin, Size};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Text, a truth value, or a plain count.
    None,
    Hz,
    Ps,
    /// Cycles of the core clock.
    CoreCycles,
    /// Clocks of the memory controller.
    Clocks,
    Bytes,
    Address,
    Bits,
    Lines,
    /// Seconds of Unix time.
    UnixSeconds,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Hz => "Hz",
            Unit::Ps => "ps",
            Unit::CoreCycles => "core cycles",
            Unit::Clocks => "clocks",
            Unit::Bytes => "bytes",
            Unit::Address => "address",
            Unit::Bits => "bits",
            Unit::Lines => "lines",
            Unit::UnixSeconds => "s since 1970",
        }
    }
}

/// Units of all keys; a key not here is matched by the end of its name.
const UNITS: &[(&str, Unit)] = &[
    ("asid_bits", Unit::Bits),
    ("hub_cycles", Unit::CoreCycles),
    ("quantum_cycles", Unit::CoreCycles),
    ("functional_quantum_cycles", Unit::CoreCycles),
    ("run_ahead_cycles", Unit::CoreCycles),
    ("functional_cpi", Unit::CoreCycles),
    ("rtc_epoch", Unit::UnixSeconds),
    ("l1d.size", Unit::Bytes),
    ("l1d.line", Unit::Bytes),
    ("l1i.size", Unit::Bytes),
    ("l1i.line", Unit::Bytes),
    ("iomap.hit_cycles", Unit::CoreCycles),
    ("memory.base", Unit::Address),
    ("memory.size", Unit::Bytes),
    ("memory.nvmm_boundary", Unit::Bytes),
    ("memory.firmware_reserve", Unit::Bytes),
    ("memory.text_store", Unit::Bytes),
    ("memory.gpf_lines", Unit::Lines),
    ("memory.controller.mapping.bank.low", Unit::Bits),
    ("memory.controller.mapping.bank.bits", Unit::Bits),
    ("memory.controller.mapping.row.low", Unit::Bits),
    ("memory.controller.mapping.row.bits", Unit::Bits),
    ("memory.controller.mapping.column.low", Unit::Bits),
    ("memory.controller.mapping.column.bits", Unit::Bits),
    ("memory.controller.refresh.enabled", Unit::None),
];

fn unit(key: &str) -> Unit {
    if let Some((_, unit)) = UNITS.iter().find(|(k, _)| *k == key) {
        return *unit;
    }
    let ends = [("_hz", Unit::Hz), ("_ps", Unit::Ps)];
    match ends.iter().find(|(end, _)| key.ends_with(end)) {
        Some((_, unit)) => *unit,
        None if key.starts_with("cache.") && key.ends_with("latency") => Unit::CoreCycles,
        None if key.starts_with("cache.") && key.ends_with("_cycles") => Unit::CoreCycles,
        None if key.starts_with("cache.") && key.ends_with(".size") => Unit::Bytes,
        None if key.starts_with("store_buffer.") && key.ends_with("_cycles") => Unit::CoreCycles,
        None if key.starts_with("core.timing.") => Unit::CoreCycles,
        None if key.starts_with("memory.controller.timing.") => Unit::Clocks,
        None if key.starts_with("memory.controller.refresh.") => Unit::Clocks,
        None => Unit::None,
    }
}

/// One value of a resolved machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Dotted key.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Its unit; empty for texts and plain counts.
    pub unit: &'static str,
    /// Its origin.
    pub origin: Origin,
}

/// A value derived from others of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Derived {
    /// Dotted key; it cannot be set.
    pub key: String,
    /// The value.
    pub value: u64,
    /// Its unit.
    pub unit: &'static str,
    /// Its meaning, and the values from which it is derived.
    pub what: String,
}

/// Bytes of a page, and of the smaller superpage.
const PAGE: u64 = 4 << 10;
const SUPERPAGE: u64 = 2 << 20;

fn walk(prefix: &str, value: &Value, visit: &mut dyn FnMut(String, &Value)) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let key = if prefix.is_empty() {
                    name.clone()
                } else {
                    format!("{prefix}.{name}")
                };
                walk(&key, value, visit);
            }
        }
        _ => visit(prefix.into(), value),
    }
}

impl Machine {
    /// Every value, scalars of a table before its sub-tables, otherwise by key.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut add = |key: String, value: &Value| {
            let row = Row {
                unit: unit(&key).name(),
                origin: self.origin(&key),
                value: value.clone(),
                key,
            };
            rows.push(row);
        };
        let config = serde_json::to_value(&self.config).expect("plain structs have a JSON form");
        walk("", &config, &mut add);
        let text = |s: &str| Value::String(s.into());
        add("core.name".into(), &text(&self.core.name));
        add("core.description".into(), &text(&self.core.description));
        add("core.source".into(), &text(&self.core.source));
        walk("core.timing", &self.core.timing_values(), &mut add);
        walk("core.pipes", &self.core.pipe_values(), &mut add);
        walk("core.predictor", &self.core.predictor_values(), &mut add);
        rows.sort_by_key(|r| (r.key.contains('.'), r.key.clone()));
        rows
    }

    /// Derived values that are useful to know.
    pub fn derived(&self) -> Vec<Derived> {
        let c = &self.config;
        let mut all = Vec::new();
        for (name, t) in [("dtlb", &c.dtlb), ("itlb", &c.itlb)] {
            let (sectors, pages) = (t.sectors, t.pages_per_sector);
            let entries = t.superpage_entries;
            let mut add = |key: &str, value: u64, what: String| {
                all.push(Derived {
                    key: format!("{name}.{key}"),
                    value,
                    unit: Unit::Bytes.name(),
                    what,
                });
            };
            add(
                "reach",
                u64::from(sectors) * u64::from(pages) * PAGE,
                format!("{sectors} sectors of {pages} pages of 4 KiB; accesses that go through more than that take \
                    page walks, too"),
            );
            add(
                "superpage_reach",
                u64::from(entries) * SUPERPAGE,
                format!("{entries} entries, with pages of 2 MiB"),
            );
        }
        all
    }

    /// All values as `{"source": ..., "values": [{key, value, unit, origin}], "derived": [{key, value,
    /// unit, what}]}`.
    pub fn to_json(&self) -> Value {
        serde_json::json!({
            "source": self.source,
            "values": self.rows(),
            "derived": self.derived(),
        })
    }

    /// A table for human readers: value with unit and its length in time, origin.
    pub fn show(&self) -> String {
        let rows: Vec<(String, String, Origin)> = self
            .rows()
            .into_iter()
            .map(|r| (r.key.clone(), self.human(&r), r.origin))
            .collect();
        let keys = rows.iter().map(|r| r.0.len()).max().unwrap_or(0);
        let values = rows
            .iter()
            .map(|r| r.1.len())
            .filter(|&n| n <= 40)
            .max()
            .unwrap_or(0);
        let mut out = format!("# {}\n", self.source);
        for (key, value, origin) in rows {
            let origin = match origin {
                Origin::Override => "set for this run",
                Origin::Given => "given",
                Origin::Preset => "controller preset",
                Origin::Core => "core description",
                Origin::Default => "default",
            };
            // Writing to a string does not fail.
            let _ = writeln!(out, "{key:keys$}  {value:values$}  [{origin}]");
        }
        for d in self.derived() {
            let _ = writeln!(out, "# {}: {} ({})", d.key, Size(d.value), d.what);
        }
        out
    }

    fn human(&self, row: &Row) -> String {
        let number = row.value.as_u64().unwrap_or(0);
        let c = &self.config;
        match unit(&row.key) {
            Unit::Bytes => Size(number).to_string(),
            Unit::Address => format!("{number:#x}"),
            Unit::Ps => format!("{number} ps"),
            Unit::Clocks => {
                let ps = c.memory.controller.clock.edge(number).0;
                format!("{number} clocks ({} ns)", ns(ps))
            }
            Unit::CoreCycles => {
                let ps = c.core_period().edge(number).0;
                format!("{number} core cycles ({} ns)", ns(ps))
            }
            Unit::None => match &row.value {
                Value::String(s) => s.clone(),
                Value::Array(list) if list.is_empty() => "none".into(),
                Value::Array(list) => list
                    .iter()
                    .map(|v| v.as_str().unwrap_or("?"))
                    .collect::<Vec<_>>()
                    .join(" "),
                other => other.to_string(),
            },
            other => match &row.value {
                // A fraction, with its unit.
                Value::String(s) => s.clone(),
                _ => format!("{number} {}", other.name()),
            },
        }
    }
}

fn ns(ps: u64) -> String {
    if ps.is_multiple_of(1000) {
        (ps / 1000).to_string()
    } else {
        format!("{}.{:03}", ps / 1000, ps % 1000)
    }
}
