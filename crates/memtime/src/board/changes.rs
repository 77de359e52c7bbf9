//! Changes of parameters, as the statistics list them.

use crate::params::BoardParams;
use crate::stats::{Change, Stats};
use crate::units::Ps;

/// Compares the serialised forms, so that no field can be forgotten.
pub(super) fn record_changes(stats: &mut Stats, at: Ps, from: &BoardParams, to: &BoardParams) {
    use serde_json::Value;
    fn walk(path: &str, a: &Value, b: &Value, f: &mut impl FnMut(&str, &Value, &Value)) {
        match (a, b) {
            (Value::Object(a), Value::Object(b)) => {
                for (k, v) in a {
                    let path = if path.is_empty() {
                        k.clone()
                    } else {
                        format!("{path}.{k}")
                    };
                    walk(&path, v, &b[k], f);
                }
            }
            _ if a != b => f(path, a, b),
            _ => {}
        }
    }
    let text = |v: &Value| match v {
        Value::String(s) => s.clone(),
        v => v.to_string(),
    };
    if let (Ok(a), Ok(b)) = (serde_json::to_value(from), serde_json::to_value(to)) {
        walk("", &a, &b, &mut |path, a, b| {
            stats.changes.push(Change {
                at,
                what: path.to_owned(),
                from: text(a),
                to: text(b),
            });
        });
    }
}
