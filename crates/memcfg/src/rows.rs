//! The resolved values as a table.

use std::fmt::Write;

use nagori_memtime::dram::DeviceSpec;
use nagori_memtime::Ps;

use crate::decode::plain;
use crate::device::source_of;
use crate::error::Error;
use crate::kinds::{Kind, Memory, Row};
use crate::library::POLICIES;
use crate::tree::{dotted, Node, Value};
use crate::units::UNITS;

/// All values of a description, in the order of their keys.
pub(crate) fn rows(root: &Node, kind: &Kind) -> Result<Vec<Row>, Error> {
    let mut out = Vec::new();
    let device = match kind {
        Kind::Device { device, .. } => Some(device.as_ref()),
        _ => None,
    };
    walk(root, "", root, device, &mut out)?;
    let mut inner = |prefix: &str, m: &Memory| {
        out.extend(m.rows.iter().map(|r| Row {
            key: dotted(prefix, &r.key),
            ..r.clone()
        }));
    };
    match kind {
        Kind::Cxl { memory, .. } | Kind::Interleaved { memory, .. } => inner("memory", memory),
        Kind::Cache { front, back, .. } => {
            inner("front", front);
            inner("back", back);
        }
        Kind::Flat(parts) => parts.iter().for_each(|p| inner(&p.name, &p.memory)),
        _ => {}
    }
    Ok(out)
}

fn walk(
    root: &Node,
    key: &str,
    node: &Node,
    device: Option<&DeviceSpec>,
    out: &mut Vec<Row>,
) -> Result<(), Error> {
    match &node.value {
        Value::Table(t) if !t.contains_key("value") && !t.contains_key("source") => {
            for (name, n) in t {
                if key.is_empty() && name == "sources" {
                    continue;
                }
                walk(root, &dotted(key, name), n, device, out)?;
            }
            return Ok(());
        }
        Value::List(items) if items.iter().any(|n| matches!(n.value, Value::Table(_))) => {
            for (i, n) in items.iter().enumerate() {
                walk(root, &dotted(key, &i.to_string()), n, device, out)?;
            }
            return Ok(());
        }
        _ => {}
    }
    let json = plain(node);
    let text = |k: &str| json.get(k).and_then(|v| v.as_str()).unwrap_or("");
    let value = match &json {
        serde_json::Value::String(s) => s.clone(),
        serde_json::Value::Object(m) if m.contains_key("prev") => {
            let mut s = format!(
                "{} to {}, {}: {}",
                text("prev"),
                text("next"),
                text("scope"),
                text("latency")
            );
            if let Some(w) = m.get("window") {
                // Writing to a string does not fail.
                let _ = write!(s, ", window {w}");
            }
            if let Some(r) = m.get("row") {
                let _ = write!(s, ", row {}", r.as_str().unwrap_or(""));
            }
            s
        }
        serde_json::Value::Object(m) if m.contains_key("interval") => {
            format!("{} every {}", text("command"), text("interval"))
        }
        other => other.to_string(),
    };
    let source = match policy(root).filter(|_| *node.place.file == *POLICIES) {
        Some(name) if key.starts_with("controller.") => format!("policy {name}"),
        _ => source_of(root, key, node)?,
    };
    out.push(Row {
        unit: unit(key, &value),
        clocks: device.and_then(|d| clocks(d, key, &value)),
        key: key.to_owned(),
        value,
        source,
        origin: node.origin,
    });
    Ok(())
}

/// Name of the policy that completed the controller.
fn policy(root: &Node) -> Option<&str> {
    let mut at = root;
    for key in ["controller", "policy"] {
        match &at.value {
            Value::Table(t) => at = t.get(key)?,
            _ => return None,
        }
    }
    match &at.value {
        Value::Text(name) => Some(name),
        _ => None,
    }
}

fn unit(key: &str, value: &str) -> String {
    let last = key.rsplit('.').next().unwrap_or(key);
    let plain = UNITS.iter().find(|(k, _)| *k == last);
    // "13.75 ns": a number and a word.
    let mut words = value.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some(n), Some(u), None) if n.parse::<f64>().is_ok() => u.to_owned(),
        _ if plain.is_some() => plain.map_or(String::new(), |u| u.1.to_owned()),
        _ if key.starts_with("timings.") || key.starts_with("commands.") => "nCK".to_owned(),
        _ => String::new(),
    }
}

fn clocks(d: &DeviceSpec, key: &str, value: &str) -> Option<u64> {
    let timings = d.resolve_timings().ok()?;
    if key == "timings.tCK" {
        return Some(1);
    }
    if let Some(name) = key.strip_prefix("timings.") {
        return timings.iter().find(|t| t.0 == name).map(|t| u64::from(t.1));
    }
    let of = |e| d.clocks(key, e, &timings).ok().map(u64::from);
    if let Some(i) = key.strip_prefix("commands.rules.") {
        return of(&d.rules.get(i.parse::<usize>().ok()?)?.latency);
    }
    if let Some(i) = key.strip_prefix("commands.refresh.") {
        return of(&d.refresh.get(i.parse::<usize>().ok()?)?.interval);
    }
    match key {
        "commands.read_data" => of(&d.read_data),
        "commands.write_data" => of(&d.write_data),
        _ => value.parse::<Ps>().ok().map(|p| d.clock.edge_from(p)),
    }
    .filter(|_| key.starts_with("commands."))
}

impl Memory {
    /// All values as `{"memory": ..., "values": [...]}`.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "memory": self.name,
            "description": self.description,
            "warnings": self.warnings,
            "values": self.rows,
        })
    }

    /// A table for human readers: key, value, length in clocks, origin, source.
    pub fn show(&self) -> String {
        let width = |f: &dyn Fn(&Row) -> usize, most: usize| {
            self.rows
                .iter()
                .map(f)
                .filter(|w| *w <= most)
                .max()
                .unwrap_or(0)
        };
        let length = |r: &Row| r.clocks.map_or(String::new(), |c| format!("{c} clocks"));
        let (k, v, c) = (
            width(&|r| r.key.len(), 40),
            width(&|r| r.value.len(), 60),
            width(&|r| length(r).len(), 20),
        );
        let mut out = format!("# {}: {}\n", self.name, self.description);
        for r in &self.rows {
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "{:k$}  {:v$}  {:>c$}  [{}] {}",
                r.key,
                r.value,
                length(r),
                r.origin,
                r.source
            );
        }
        out
    }
}
