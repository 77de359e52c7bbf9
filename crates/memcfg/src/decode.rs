//! From the tree to typed values: an error of the type gets the place of the value that it
//! concerns.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::error::Error;
use crate::tree::{dotted, Node, Value};
use crate::units::is_bytes;
use nagori_values::{hint, measure, types_in_words, Unit, SIZE};

/// The value without places, origins and sources.
pub fn plain(node: &Node) -> Json {
    match &node.value {
        Value::Text(s) => s.as_str().into(),
        Value::Int(n) => (*n).into(),
        Value::Float(n) => (*n).into(),
        Value::Bool(b) => (*b).into(),
        Value::List(list) => list.iter().map(plain).collect(),
        Value::Table(t) => match t.get("value") {
            Some(v) => plain(v),
            None => t
                .iter()
                .map(|(k, v)| (k.clone(), plain(v)))
                .collect::<Map<_, _>>()
                .into(),
        },
    }
}

/// The value for types that have whole numbers: `1e6` is one, and so is `"4 GiB"` where bytes are
/// asked.
fn numbers(key: &str, node: &Node) -> Json {
    match &node.value {
        Value::Float(n) if n.fract() == 0.0 && n.abs() < WHOLE => (*n as i64).into(),
        Value::Text(s) if is_bytes(key) => match SIZE.value(s, None) {
            Ok(bytes) => bytes.into(),
            Err(_) => s.as_str().into(),
        },
        Value::List(list) => list.iter().map(|n| numbers("", n)).collect(),
        Value::Table(t) => match t.get("value") {
            Some(v) => numbers(key, v),
            None => t
                .iter()
                .map(|(k, v)| (k.clone(), numbers(k, v)))
                .collect::<Map<_, _>>()
                .into(),
        },
        _ => plain(node),
    }
}

/// Whole numbers below are exact in a double.
const WHOLE: f64 = 9e15;

/// What is wrong with a value, in words for the person who wrote it.
fn in_words(key: &str, problem: &str, node: &Node) -> String {
    let last = key.rsplit('.').next().unwrap_or(key);
    let value = match &node.value {
        Value::Table(t) => t.get("value").unwrap_or(node),
        _ => node,
    };
    let text = match &value.value {
        Value::Text(text) => Some(text),
        _ => None,
    };
    if let (true, Some(text)) = (is_bytes(last), text) {
        if let Err(wrong) = SIZE.read(text, Some(1)) {
            return wrong;
        }
    }
    let words = types_in_words(problem);
    let mut names = problem.split('`').skip(1).step_by(2);
    match names.next() {
        Some(name) if problem.starts_with("unknown ") => words + &hint(name, names),
        _ => words,
    }
}

/// The typed value of `node`, which is at `key`.
pub fn decode<T: DeserializeOwned>(key: &str, node: &Node) -> Result<T, Error> {
    let last = key.rsplit('.').next().unwrap_or(key);
    serde_path_to_error::deserialize(numbers(last, node)).map_err(|e| {
        let mut at = e.path().to_string().replace("[", ".").replace(']', "");
        if at == "." || at == "?" {
            at = String::new();
        }
        let at = at.trim_end_matches(".?").trim_end_matches('?');
        let problem = e.inner().to_string();
        // The path of an unknown key ends at its table, or at the key itself.
        let named = |lead: &str| {
            problem
                .strip_prefix(lead)
                .and_then(|p| p.split('`').next())
                .map(str::to_owned)
        };
        let mut full = if at.is_empty() {
            key.to_owned()
        } else {
            dotted(key, at)
        };
        if let Some(name) = named("unknown field `") {
            if full.rsplit('.').next() != Some(name.as_str()) {
                full = dotted(&full, &name);
            }
        }
        let relative = full.strip_prefix(key).unwrap_or("").trim_start_matches('.');
        let at = innermost(node, relative);
        let place = at.place.clone();
        let problem = in_words(&full, &problem, at);
        if let Some(name) = named("missing field `") {
            return Error::Invalid {
                place,
                key: dotted(&full, &name),
                problem: "is missing: it has no default".to_owned(),
            };
        }
        Error::Invalid {
            place,
            key: full,
            problem,
        }
    })
}

/// The innermost existing node on the path.
fn innermost<'n>(node: &'n Node, path: &str) -> &'n Node {
    let mut at = node;
    for part in path.split('.').filter(|p| !p.is_empty()) {
        let next = match &at.value {
            Value::Table(t) => t.get(part),
            Value::List(l) => part.parse::<usize>().ok().and_then(|i| l.get(i)),
            _ => None,
        };
        match next {
            Some(n) => at = n,
            None => break,
        }
    }
    at
}

/// Replaces the text `"1.35 V"` at `key` of `table` by its number; anything but text stays
/// unchanged.
pub fn to_number(
    prefix: &str,
    table: &mut Node,
    key: &str,
    units: &[Unit],
    whole: bool,
) -> Result<(), Error> {
    let Some(node) = table.table_mut().and_then(|t| t.get_mut(key)) else {
        return Ok(());
    };
    let full = dotted(prefix, key);
    // `{ value = ..., source = ... }`, or the value itself.
    let inner = matches!(&node.value, Value::Table(t) if t.contains_key("value"));
    let node = if inner {
        node.table_mut().and_then(|t| t.get_mut("value"))
    } else {
        Some(node)
    };
    let Some(node) = node else {
        return Ok(());
    };
    let value = match &node.value {
        Value::Text(text) => measure(text, units).map_err(|p| node.wrong(&full, p))?,
        _ => {
            let problem = format!(
                "{} has no unit: expected a string with one of {}",
                node.value,
                units.iter().map(|u| u.0).collect::<Vec<_>>().join(", ")
            );
            return Err(node.wrong(&full, problem));
        }
    };
    node.value = match whole {
        false => Value::Float(value),
        true if value.fract() == 0.0 && value < 9e15 => Value::Int(value as i64),
        true => return Err(node.wrong(&full, "is no whole number")),
    };
    Ok(())
}
