//! Bookkeeping that the layers share: the number of outstanding requests, and completions that have
//! not been put in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{de::DeserializeOwned, Serialize};
use serde_json::Value;

use crate::command::Issued;
use crate::error::Error;
use crate::model::{Counters, MemoryModel, ModelStats, RegionStats};
use crate::request::{Kind, Request};
use crate::units::Ps;

/// Ends of the outstanding requests, at most a fixed number.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    ends: BinaryHeap<Reverse<Ps>>,
    depth: usize,
}

impl Window {
    pub fn new(depth: usize) -> Window {
        Window {
            ends: BinaryHeap::with_capacity(depth + 1),
            depth,
        }
    }

    /// The ends, in order.
    pub fn save(&self) -> Vec<Ps> {
        let mut ends: Vec<Ps> = self.ends.iter().map(|e| e.0).collect();
        ends.sort_unstable();
        ends
    }

    /// A window of `depth` requests with these ends.
    pub fn load(depth: usize, ends: Vec<Ps>) -> Result<Window, Error> {
        crate::checks::times(ends.iter().copied(), "requests under way")?;
        let mut w = Window::new(depth);
        w.ends.extend(ends.into_iter().map(Reverse));
        Ok(w)
    }

    /// Removes those that have ended at `t`.
    #[inline]
    pub fn pass(&mut self, t: Ps) {
        while self.ends.peek().is_some_and(|e| e.0 <= t) {
            self.ends.pop();
        }
    }

    /// Earliest end.
    #[inline]
    pub fn first(&self) -> Option<Ps> {
        self.ends.peek().map(|e| e.0)
    }

    #[inline]
    pub fn set_depth(&mut self, depth: usize) {
        self.depth = depth;
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.ends.len() >= self.depth
    }

    #[inline]
    pub fn push(&mut self, end: Ps) {
        self.ends.push(Reverse(end));
    }
}

/// The report of `m`, which has been advanced to `latest`, for the later time `at`, if `m` can be
/// copied.
pub(crate) fn ahead(m: &dyn MemoryModel, latest: Ps, at: Ps) -> Option<ModelStats> {
    let at = at.min(Ps::MAX_TIME);
    if at <= latest {
        return None;
    }
    let mut copy = m.lookahead()?;
    copy.advance_to(at).ok()?;
    Some(copy.report(at))
}

/// A copy of `m`, which has been advanced to `latest`, at the later time `at`; `None` if `at` is
/// not later.
pub(crate) fn later(m: &dyn MemoryModel, latest: Ps, at: Ps) -> Result<Option<Boxed>, Error> {
    if at <= latest {
        return Ok(None);
    }
    let Some(mut copy) = m.lookahead() else {
        return Err(Error::Unsupported {
            model: "this model".to_owned(),
            what: "writes to name for a time to come".to_owned(),
        });
    };
    copy.advance_to(at)?;
    Ok(Some(copy))
}

/// Sorted, without duplicates.
pub(crate) fn distinct(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Counts an accepted request.
#[inline]
pub(crate) fn count(c: &mut Counters, r: &Request) {
    let (n, b) = match r.kind {
        Kind::Read => (&mut c.reads, &mut c.read_bytes),
        Kind::Write => (&mut c.writes, &mut c.write_bytes),
    };
    *n += 1;
    *b += u64::from(r.bytes);
}

type Boxed = Box<dyn MemoryModel + Send>;

/// Turns on the logs of several memories, or of none of them: a memory without commands is an
/// error with its name.
pub(crate) fn set_logs<'a>(
    parts: impl Iterator<Item = (&'a str, &'a mut Boxed)>,
    on: bool,
) -> Result<(), Error> {
    let parts: Vec<_> = parts.collect();
    let channels = parts.iter().flat_map(|p| p.1.command_parts());
    let channels: u64 = channels.map(|p| u64::from(p.channels)).sum();
    let fail = |model: String, what: &str| {
        Err(Error::Unsupported {
            model,
            what: what.to_owned(),
        })
    };
    if let Some(p) = parts.iter().find(|p| p.1.command_parts().is_empty()) {
        return fail(format!("the part {}", p.0), "device commands to log");
    }
    if channels > u64::from(u16::MAX) {
        return fail(
            format!("a memory of {channels} channels"),
            "log: 65535 can be told apart",
        );
    }
    for (_, model) in parts {
        model.set_command_log(on)?;
    }
    Ok(())
}

/// The logs of several memories as one, in the order of time and channel; channels are numbered
/// across the memories.
pub(crate) fn take_logs<'a>(parts: impl Iterator<Item = &'a mut Boxed>, into: &mut Vec<Issued>) {
    let start = into.len();
    let mut clocks = Vec::new();
    for p in parts {
        let (from, first) = (into.len(), clocks.len() as u16);
        p.take_commands(into);
        into[from..].iter_mut().for_each(|c| c.channel += first);
        for q in p.command_parts() {
            clocks.resize(clocks.len() + usize::from(q.channels), q.clock);
        }
    }
    into[start..].sort_by_key(|c| {
        let clock = clocks[usize::from(c.channel)];
        (clock.edge(c.clock), c.channel)
    });
}

/// Adds the report of a memory below a layer: channels, changes, its counters and those of its
/// regions by name ("front.dram.row_hits"). Energy and wear are added to the layer's first region,
/// or, with `apart`, to regions of their own without requests ("front.dram").
pub(crate) fn take_inner(s: &mut ModelStats, prefix: &str, inner: ModelStats, apart: bool) {
    for r in inner.regions {
        let c = &r.counters;
        for (k, v) in [
            ("reads", c.reads),
            ("writes", c.writes),
            ("read_bytes", c.read_bytes),
            ("write_bytes", c.write_bytes),
            ("row_hits", c.row_hits),
            ("row_misses", c.row_misses),
            ("row_conflicts", c.row_conflicts),
        ] {
            s.counters
                .insert(format!("{prefix}.{}.{k}", r.name), v as f64);
        }
        for (k, v) in [
            ("read_latency_avg_ns", r.read_latency.mean_ns()),
            ("write_latency_avg_ns", r.write_latency.mean_ns()),
            ("energy_pj", r.energy.as_ref().map(|e| e.total())),
        ] {
            if let Some(v) = v {
                s.counters.insert(format!("{prefix}.{}.{k}", r.name), v);
            }
        }
        if apart {
            if r.energy.is_some() || r.wear.is_some() {
                s.regions.push(RegionStats {
                    name: format!("{prefix}.{}", r.name),
                    energy: r.energy,
                    wear: r.wear,
                    ..RegionStats::default()
                });
            }
        } else if let Some(first) = s.regions.first_mut() {
            if let Some(e) = &r.energy {
                first.energy.get_or_insert_with(Default::default).add(e);
            }
            if first.wear.is_none() {
                first.wear = r.wear;
            }
        }
    }
    s.counters.extend(
        inner
            .counters
            .into_iter()
            .map(|(k, v)| (format!("{prefix}.{k}"), v)),
    );
    s.channels.extend(inner.channels.into_iter().map(|mut c| {
        c.name = format!("{prefix}.{}", c.name);
        c
    }));
    s.changes.extend(inner.changes.into_iter().map(|mut c| {
        c.what = format!("{prefix}.{}", c.what);
        c
    }));
    s.changes.sort_by_key(|c| c.at);
}

/// The fields among the dotted keys `changeable` that exist, with their values, as [`changed`] takes them; each key is
/// prefixed with `prefix`.
pub(crate) fn listed<T: Serialize>(
    params: &T,
    prefix: &str,
    changeable: &[&str],
) -> Vec<(String, String)> {
    let all = serde_json::to_value(params).unwrap_or_default();
    let text = |key: &&str| {
        let v = all.pointer(&format!("/{}", key.replace('.', "/")))?;
        Some((format!("{prefix}{key}"), plain(v)))
    };
    changeable.iter().filter_map(text).collect()
}

/// A value as `set_parameter` takes it.
pub(crate) fn plain(v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        v => v.to_string(),
    }
}

/// The parameters of a part, each key prefixed with the part's name.
pub(crate) fn of_part(name: &str, all: Vec<(String, String)>) -> Vec<(String, String)> {
    let named = all.into_iter().map(|(k, v)| (format!("{name}.{k}"), v));
    named.collect()
}

/// `params` with the field at the dotted `key` replaced, and its previous value. Only `changeable`
/// keys are possible.
pub(crate) fn changed<T: Serialize + DeserializeOwned>(
    params: &T,
    model: &str,
    key: &str,
    value: &str,
    changeable: &[&str],
) -> Result<(T, String), Error> {
    let fail = |problem: String| Error::Spec {
        place: format!("{model}: {key}"),
        problem,
    };
    let can = changeable.join(", ");
    let mut all = serde_json::to_value(params).map_err(|e| fail(e.to_string()))?;
    let slot = all.pointer_mut(&format!("/{}", key.replace('.', "/")));
    if !changeable.contains(&key) {
        return Err(fail(match slot {
            Some(_) => format!("cannot change while it runs: {can} can"),
            None => format!("is no parameter: {can} can change while it runs"),
        }));
    }
    let Some(slot) = slot else {
        return Err(fail(format!(
            "is not in use here: of {can}, choose one that is"
        )));
    };
    let new = match serde_json::from_str::<Value>(value) {
        Ok(v) => v,
        Err(_) => Value::String(value.to_owned()),
    };
    let old = match std::mem::replace(slot, new) {
        Value::String(s) => s,
        v => v.to_string(),
    };
    let params = serde_json::from_value(all).map_err(|e| fail(format!("'{value}': {e}")))?;
    Ok((params, old))
}
