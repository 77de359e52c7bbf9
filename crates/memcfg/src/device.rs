//! Builds a device from the tables of a description.

use std::collections::BTreeMap;

use nagori_memtime::dram::spec::{
    DeviceSpec, Energy, Organisation, Refresh, Rule, Timing, WritePause,
};
use nagori_memtime::dram::Expr;
use nagori_memtime::units::UnitError;
use nagori_memtime::Period;
use nagori_values::hint;

use crate::decode::{decode, plain, to_number};
use crate::error::Error;
use crate::quantity::{BITS, MILLIAMPERES, MILLIWATTS, PICOJOULES, VOLTS};
use crate::tree::{dotted, Node, Value};

/// Tables of a device description.
pub const TABLES: &[&str] = &["organisation", "timings", "commands", "energy", "sources"];

const COMMANDS: &[&str] = &["read_data", "write_data", "rules", "refresh", "write_pause"];

/// Values that every device needs, whatever its rules say.
const CLOCK: &str = "tCK";

fn child<'a>(root: &'a Node, name: &str) -> Result<&'a Node, Error> {
    let found = match &root.value {
        Value::Table(t) => t.get(name),
        _ => None,
    };
    found.ok_or_else(|| root.wrong(name, "is missing: it has no default"))
}

fn entries<'a>(key: &str, node: &'a Node) -> Result<&'a BTreeMap<String, Node>, Error> {
    match &node.value {
        Value::Table(t) => Ok(t),
        v => Err(node.wrong(key, format!("is {}: expected a table", v.kind()))),
    }
}

/// The source of a value: named in `[sources]`, or the place where it was given.
pub fn source_of(root: &Node, key: &str, node: &Node) -> Result<String, Error> {
    let Value::Table(t) = &node.value else {
        return Ok(format!("given in {}", node.place.file));
    };
    let Some(named) = t.get("source") else {
        return Ok(format!("given in {}", node.place.file));
    };
    let known = match &root.value {
        Value::Table(r) => r.get("sources").map(|s| entries("sources", s)),
        _ => None,
    }
    .transpose()?;
    let Value::Text(name) = &named.value else {
        return Err(named.wrong(&dotted(key, "source"), "expected the name of a source"));
    };
    match known.and_then(|k| k.get(name)).map(|n| &n.value) {
        Some(Value::Text(text)) => Ok(text.clone()),
        _ => Err(named.wrong(
            &dotted(key, "source"),
            format!("there is no source `{name}`: add it to [sources]"),
        )),
    }
}

fn text_expr(key: &str, node: &Node) -> Result<Expr, Error> {
    let value = plain(node);
    let text = match &value {
        serde_json::Value::String(s) => s.clone(),
        other => {
            return Err(node.wrong(
                key,
                format!("{other} has no unit: expected text such as \"13.75 ns\" or \"4 nCK\""),
            ))
        }
    };
    Expr::parse(&text).map_err(|e| node.wrong(key, e.to_string()))
}

/// Checks the shape of all `{ value, source }` of a table.
fn check_leaves(root: &Node, key: &str, node: &Node) -> Result<(), Error> {
    for (name, n) in entries(key, node)? {
        let full = dotted(key, name);
        if let Value::Table(t) = &n.value {
            if let Some((extra, e)) = t.iter().find(|(k, _)| *k != "value" && *k != "source") {
                return Err(e.wrong(
                    &dotted(&full, extra),
                    "unknown key: a value has `value` and `source`",
                ));
            }
            if !t.contains_key("value") {
                return Err(n.wrong(&dotted(&full, "value"), "is missing: it has no default"));
            }
        }
        source_of(root, &full, n)?;
    }
    Ok(())
}

/// The device of a whole description. `name` is its name in messages.
pub fn device(root: &Node, name: &str) -> Result<DeviceSpec, Error> {
    let organisation = organisation(root)?;
    let timings_node = child(root, "timings")?;
    check_leaves(root, "timings", timings_node)?;
    let clock_node = child(timings_node, CLOCK)
        .map_err(|_| timings_node.wrong("timings.tCK", "is missing: the period of the clock"))?;
    let clock: Period = match plain(clock_node) {
        serde_json::Value::String(s) => s
            .parse()
            .map_err(|e: UnitError| clock_node.wrong("timings.tCK", e.to_string()))?,
        other => {
            return Err(clock_node.wrong(
                "timings.tCK",
                format!("{other} is no period: expected text such as \"1.25 ns\""),
            ))
        }
    };
    if !(10.0..=1_000_000.0).contains(&clock.as_ps()) {
        return Err(clock_node.wrong(
            "timings.tCK",
            format!("a clock period of {clock}: 10 ps to 1000 ns are possible"),
        ));
    }
    let timings = timings(root, timings_node, &organisation)?;
    let commands = child(root, "commands")?;
    for (key, n) in entries("commands", commands)? {
        if !COMMANDS.contains(&key.as_str()) {
            return Err(n.wrong(
                &dotted("commands", key),
                format!(
                    "unknown key: expected one of {}{}",
                    COMMANDS.join(", "),
                    hint(key, COMMANDS.iter().copied())
                ),
            ));
        }
    }
    let rules_node = child(commands, "rules")
        .map_err(|_| commands.wrong("commands.rules", "is missing: it has no default"))?;
    let rules: Vec<Rule> = list(root, "commands.rules", rules_node)?;
    let refresh: Vec<Refresh> = match child(commands, "refresh") {
        Ok(n) => list(root, "commands.refresh", n)?,
        Err(_) => {
            return Err(commands.wrong(
                "commands.refresh",
                "is missing: give [] for a device that needs none",
            ))
        }
    };
    let data = |key: &str| {
        let full = dotted("commands", key);
        let n = child(commands, key)
            .map_err(|_| commands.wrong(&full, "is missing: it has no default"))?;
        source_of(root, &full, n)?;
        text_expr(&full, n)
    };
    let (read_data, write_data) = (data("read_data")?, data("write_data")?);
    let write_pause = match child(commands, "write_pause") {
        Ok(n) => Some(one::<WritePause>(root, "commands.write_pause", n)?),
        Err(_) => None,
    };
    let text = |key: &str| -> Result<String, Error> { decode(key, child(root, key)?) };
    let spec = DeviceSpec {
        name: name.to_owned(),
        technology: text("technology")?,
        source: text("description")?,
        clock,
        organisation,
        timings,
        rules,
        read_data,
        write_data,
        refresh,
        write_pause,
        energy: energy(root)?,
    };
    crate::relations::check(&spec, timings_node, commands)?;
    spec.validate().map_err(|problem| Error::Model {
        file: root.place.file.to_string(),
        problem,
    })?;
    Ok(spec)
}

fn organisation(root: &Node) -> Result<Organisation, Error> {
    let node = child(root, "organisation")?;
    check_leaves(root, "organisation", node)?;
    let mut node = node.clone();
    for key in ["device_width", "channel_width"] {
        to_number("organisation", &mut node, key, BITS, true)?;
    }
    let o: Organisation = decode("organisation", &node)?;
    for (key, n) in entries("organisation", &node)? {
        let whole = plain(n).as_u64().unwrap_or(0);
        if !whole.is_power_of_two() {
            return Err(n.wrong(
                &dotted("organisation", key),
                format!("{whole} is not possible: expected a power of two"),
            ));
        }
    }
    Ok(o)
}

/// The timings in an order in which each refers only to those before it.
fn timings(root: &Node, node: &Node, o: &Organisation) -> Result<Vec<Timing>, Error> {
    let mut waiting: Vec<(&str, &Node, Expr)> = Vec::new();
    for (name, n) in entries("timings", node)? {
        let key = dotted("timings", name);
        if name == CLOCK {
            continue;
        }
        if name == "BL" {
            return Err(n.wrong(&key, "is organisation.burst_length and not given here"));
        }
        waiting.push((name, n, text_expr(&key, n)?));
    }
    let mut done = vec![Timing {
        name: "BL".to_owned(),
        value: Expr::clocks(o.burst_length),
        source: "organisation.burst_length".to_owned(),
    }];
    while !waiting.is_empty() {
        let before = done.len();
        let mut still = Vec::new();
        for (name, n, value) in waiting {
            let ready = value
                .names()
                .iter()
                .all(|u| done.iter().any(|t: &Timing| t.name == *u));
            if ready {
                done.push(Timing {
                    name: name.to_owned(),
                    value,
                    source: source_of(root, &dotted("timings", name), n)?,
                });
            } else {
                still.push((name, n, value));
            }
        }
        waiting = still;
        if done.len() == before {
            let (name, n, value) = &waiting[0];
            return Err(n.wrong(
                &dotted("timings", name),
                format!("`{value}` refers to a timing that is not there, or in a circle"),
            ));
        }
    }
    Ok(done)
}

/// A table with a `source` key of its own, whose name is replaced by its text.
fn one<T: serde::de::DeserializeOwned>(root: &Node, key: &str, node: &Node) -> Result<T, Error> {
    let source = source_of(root, key, node)?;
    let mut node = node.clone();
    let place = node.place.clone();
    let origin = node.origin;
    if let Some(t) = node.table_mut() {
        t.insert(
            "source".to_owned(),
            Node {
                value: Value::Text(source),
                place,
                origin,
            },
        );
    }
    decode(key, &node)
}

fn list<T: serde::de::DeserializeOwned>(
    root: &Node,
    key: &str,
    node: &Node,
) -> Result<Vec<T>, Error> {
    let Value::List(items) = &node.value else {
        return Err(node.wrong(key, format!("is {}: expected a list", node.value.kind())));
    };
    items
        .iter()
        .enumerate()
        .map(|(i, n)| one(root, &format!("{key}.{i}"), n))
        .collect()
}

fn energy(root: &Node) -> Result<Option<Energy>, Error> {
    let Ok(node) = child(root, "energy") else {
        return Ok(None);
    };
    // `energy = false` switches it off, also as a setting.
    if matches!(node.value, Value::Bool(false)) {
        return Ok(None);
    }
    let forms = entries("energy", node)?;
    let (Some((form, table)), 1) = (forms.iter().next(), forms.len()) else {
        return Err(node.wrong(
            "energy",
            "give either [energy.idd] or [energy.per_operation]",
        ));
    };
    let key = dotted("energy", form);
    check_leaves(root, &key, table)?;
    let mut sources: Vec<String> = Vec::new();
    for (name, n) in entries(&key, table)? {
        let s = source_of(root, &dotted(&key, name), n)?;
        if !sources.contains(&s) {
            sources.push(s);
        }
    }
    let mut table = table.clone();
    let names: Vec<String> = entries(&key, &table)?.keys().cloned().collect();
    for name in names.iter().map(String::as_str) {
        let units = match (form.as_str(), name) {
            (_, "tras" | "trc" | "burst" | "trfc") => continue,
            ("idd", "vdd") => VOLTS,
            ("idd", _) => MILLIAMPERES,
            (_, "standby_active" | "standby_precharged") => MILLIWATTS,
            _ => PICOJOULES,
        };
        to_number(&key, &mut table, name, units, false)?;
    }
    let (place, origin) = (table.place.clone(), table.origin);
    if let Some(t) = table.table_mut() {
        t.insert(
            "source".to_owned(),
            Node {
                value: Value::Text(sources.join("; ")),
                place,
                origin,
            },
        );
    }
    Ok(Some(match form.as_str() {
        "idd" => Energy::Idd(decode(&key, &table)?),
        "per_operation" => Energy::PerOperation(decode(&key, &table)?),
        _ => {
            return Err(node.wrong(
                &key,
                "unknown key: give either [energy.idd] or [energy.per_operation]",
            ))
        }
    }))
}
