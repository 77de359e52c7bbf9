//! The description in a snapshot, and which machines may continue from it.

use nagori_config::Machine as Description;
use serde_json::{Map, Value};
use std::fmt;

/// Notes of the host beside the state: what ran, disks, a label.
pub type Meta = Map<String, Value>;

/// Keys of a description that may have other values when a machine is resumed: they can be changed
/// while it runs, and nothing that it has done depends on them. A key stands for all keys below it.
pub const RUNTIME_KEYS: &[&str] = &[
    "name",
    "description",
    "source",
    "method",
    "memory.persistence_domain",
    "memory.gpf_lines",
    "memory.controller.preset",
    "memory.controller.rp_test",
    "memory.controller.timing",
    "memory.controller.delays",
    "memory.controller.refresh",
    "board",
];

/// A value that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its key in the description; keys of the core begin with `core.`.
    pub key: String,
    /// The value in the snapshot; `None` if there is none.
    pub saved: Option<Value>,
    /// The value in the machine that was to continue.
    pub given: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |v: &Option<Value>| match v {
            None => "absent".to_string(),
            Some(v) => v.to_string(),
        };
        let (saved, given) = (text(&self.saved), text(&self.given));
        write!(f, "{} is {saved} in the snapshot, {given} here", self.key)
    }
}

/// Values of a description that a machine depends on, by dotted key.
pub(crate) fn bound(d: &Description) -> Map<String, Value> {
    let mut all = Map::new();
    let config = serde_json::to_value(&d.config).unwrap_or_default();
    leaves("", &config, &mut all);
    // The costs of a core are part of its identity; the sources of the numbers are not.
    leaves("core.timing", &d.core.timing_values(), &mut all);
    leaves("core.predictor", &d.core.predictor_values(), &mut all);
    let below = |key: &str, top: &str| {
        let rest = key.strip_prefix(top);
        rest.is_some_and(|r| r.is_empty() || r.starts_with('.'))
    };
    all.into_iter()
        .filter(|(key, _)| key != "core" && !RUNTIME_KEYS.iter().any(|top| below(key, top)))
        .collect()
}

fn leaves(prefix: &str, value: &Value, to: &mut Map<String, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                let key = match prefix {
                    "" => name.clone(),
                    _ => format!("{prefix}.{name}"),
                };
                leaves(&key, value, to);
            }
        }
        _ => {
            to.insert(prefix.into(), value.clone());
        }
    }
}

/// The differences that keep a machine from continuing where another one was.
pub(crate) fn differences(saved: &Description, given: &Description) -> Vec<Difference> {
    let (saved, given) = (bound(saved), bound(given));
    let mut keys: Vec<&String> = saved.keys().chain(given.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter(|k| saved.get(*k) != given.get(*k))
        .map(|k| Difference {
            key: k.clone(),
            saved: saved.get(k).cloned(),
            given: given.get(k).cloned(),
        })
        .collect()
}
