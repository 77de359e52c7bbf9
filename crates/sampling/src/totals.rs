//! A report of the whole from those of windows: each counter is what it was in the part that was measured as a whole,
//! and what the windows stand for.

use nagori_machine::Report;
use serde_json::{Number, Value};

/// Keys that count nothing.
const FIXED: &[&str] = &[
    "hart",
    "bank",
    "bank_group",
    "rank",
    "channel",
    "base",
    "size",
    "clock",
    "last_bank",
    "capacity",
    "line_bytes",
];
/// Extremes.
const LEAST: &[&str] = &["min"];
const MOST: &[&str] = &["max"];
/// What happens as time passes, also while harts sleep.
const OF_TIME: &[&str] = &["background", "refresh", "refreshes"];
/// What is real.
const ENERGY: &str = "energy";
/// When statistics began and ended.
const BEGIN: &str = "from";
const END: &str = "to";

/// What of a report is not in its windows: how harts slept.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asleep {
    /// Picoseconds in which all harts slept in the run, beyond the part that was measured as a whole.
    pub ps: f64,
    /// Core cycles in which all harts slept, likewise.
    pub cycles: f64,
}

/// The estimate: `head` was measured as a whole, each window counts `factor` times, with the picoseconds and cycles in
/// which all harts slept in it. `None` without any, or if reports differ in their form.
pub fn whole(
    head: Option<&Report>,
    windows: &[(f64, &Report, Asleep)],
    asleep: Asleep,
) -> Option<Report> {
    let mut sum: Option<Value> = None;
    let all = head.map(|h| (1.0, h, Asleep::default()));
    let time = |r: &Report| r.elapsed_ps as f64;
    let in_windows: f64 = windows.iter().map(|(f, r, _)| f * time(r)).sum();
    let awake: f64 = windows.iter().map(|(f, r, a)| f * (time(r) - a.ps)).sum();
    // What happens with time has happened in all of it.
    let stretched = if in_windows > 0.0 {
        (awake + asleep.ps) / in_windows
    } else {
        1.0
    };
    let windows = windows.iter().map(|w| (w.0, w.1, w.2));
    for (n, (factor, report, slept)) in all.into_iter().chain(windows).enumerate() {
        let mut value = serde_json::to_value(report).ok()?;
        let of_time = if head.is_some() && n == 0 {
            1.0
        } else {
            factor * stretched
        };
        scale(&mut value, "", (factor, of_time));
        add_sleep(&mut value, (-slept.ps * factor, -slept.cycles * factor));
        match &mut sum {
            None => sum = Some(value),
            Some(s) => merge(s, value, ""),
        }
    }
    let mut sum = sum?;
    add_sleep(&mut sum, (asleep.ps, asleep.cycles));
    let elapsed = sum["elapsed_ps"].as_f64()?;
    finish(&mut sum, "", elapsed);
    serde_json::from_value(sum).ok()
}

fn real(v: f64) -> Value {
    Number::from_f64(v).map_or(Value::Null, Value::Number)
}

fn add_sleep(v: &mut Value, (ps, cycles): (f64, f64)) {
    let add = |at: Option<&mut Value>, n: f64| {
        if let Some(v) = at {
            *v = real(v.as_f64().unwrap_or(0.0) + n);
        }
    };
    add(v.get_mut("elapsed_ps"), ps);
    add(v.get_mut("cycles"), cycles);
    for h in v
        .get_mut("harts")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        // A hart that has not woken in a window has not counted its sleep there.
        let idle = h.get("idle_cycles").and_then(Value::as_f64).unwrap_or(0.0);
        let cycles = cycles.max(-idle);
        add(h.get_mut("cycles"), cycles);
        add(h.get_mut("idle_cycles"), cycles);
    }
}

/// Numbers as parts of sums. Whole ones become real until the end.
fn scale(v: &mut Value, key: &str, by: (f64, f64)) {
    match v {
        Value::Object(m) => m.iter_mut().for_each(|(k, v)| scale(v, k, by)),
        Value::Array(a) => a.iter_mut().for_each(|v| scale(v, key, by)),
        Value::Number(n) if counts(key) => {
            let factor = if OF_TIME.contains(&key) { by.1 } else { by.0 };
            *v = real(n.as_f64().unwrap_or(0.0) * factor);
        }
        _ => {}
    }
}

fn counts(key: &str) -> bool {
    ![FIXED, LEAST, MOST, &[BEGIN, END]]
        .iter()
        .any(|keys| keys.contains(&key))
}

fn merge(a: &mut Value, b: Value, key: &str) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for (k, v) in b {
                match a.get_mut(&k) {
                    Some(old) => merge(old, v, &k),
                    None => drop(a.insert(k, v)),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let (n, mut rest) = (a.len(), b);
            let more = rest.split_off(n.min(rest.len()));
            a.iter_mut().zip(rest).for_each(|(a, b)| merge(a, b, key));
            a.extend(more);
        }
        (a @ Value::Null, b) => *a = b,
        (Value::Number(a), Value::Number(b)) => {
            let (x, y) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            let least = |x: f64, y: f64| {
                if x == 0.0 || y == 0.0 {
                    x.max(y)
                } else {
                    x.min(y)
                }
            };
            let v = match key {
                k if LEAST.contains(&k) => least(x, y),
                k if MOST.contains(&k) => x.max(y),
                k if counts(k) => x + y,
                _ => return,
            };
            if let Some(n) = Number::from_f64(v) {
                *a = n;
            }
        }
        _ => {}
    }
}

/// Counters are whole again: whatever is real in a report is energy or belongs to one.
fn finish(v: &mut Value, key: &str, elapsed: f64) {
    match v {
        Value::Object(m) => {
            let energy = key == ENERGY;
            for (k, v) in m.iter_mut() {
                match (k.as_str(), &*v) {
                    (BEGIN, Value::Number(_)) => *v = Value::from(0u64),
                    (END, Value::Number(_)) => *v = Value::from(elapsed.round() as u64),
                    (_, Value::Number(_)) if energy => {}
                    _ => finish(v, k, elapsed),
                }
            }
        }
        Value::Array(a) => a.iter_mut().for_each(|v| finish(v, key, elapsed)),
        Value::Number(n) => {
            let whole = n
                .as_u64()
                .unwrap_or_else(|| n.as_f64().unwrap_or(0.0).max(0.0).round() as u64);
            *v = Value::from(whole);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sleep_that_a_hart_has_not_counted_is_not_taken_from_it() {
        let mut v = json!({"elapsed_ps": 9.0, "cycles": 9.0, "harts": [
            {"cycles": 9.0, "idle_cycles": 5.0}, {"cycles": 3.0, "idle_cycles": 1.0}]});
        add_sleep(&mut v, (-4.0, -4.0));
        assert_eq!(
            v["harts"],
            json!([{"cycles": 5.0, "idle_cycles": 1.0}, {"cycles": 2.0, "idle_cycles": 0.0}])
        );
    }

    #[test]
    fn counters_are_sums_extremes_extremes_and_names_stay() {
        let mut a = json!({"name": "x", "bank": 3, "reads": 10, "max": 7, "min": 2, "wear": null});
        let mut b =
            json!({"name": "x", "bank": 3, "reads": 1, "max": 9, "min": 1, "wear": {"writes": 4}});
        scale(&mut a, "", (1.0, 1.0));
        scale(&mut b, "", (2.5, 1.0));
        merge(&mut a, b, "");
        finish(&mut a, "", 0.0);
        assert_eq!(
            a,
            json!({"name": "x", "bank": 3, "reads": 13, "max": 9, "min": 1, "wear": {"writes": 10}})
        );
    }
}
