//! The saved state of the link, with the memory behind it.

use super::*;
use crate::checks::{
    changes, completions, counters, ensure, latency, now, same_fixed, same_members, times, version,
    Asked,
};
use crate::saved::SavedModel;
use crate::window::Window;

/// Version of the format written.
const VERSION: u32 = 1;

/// A request between its submission and its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedOpen {
    index: u32,
    request: Asked,
    arrival: Ps,
    accepted: Ps,
    hit: bool,
    inner_id: u64,
}

/// The complete state of a [`Cxl`]; see there for the meaning of the fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    version: u32,
    params: CxlParams,
    inner: SavedModel,
    latest: Ps,
    down_free: Ps,
    up_free: Ps,
    open: Vec<SavedOpen>,
    unused: Vec<u32>,
    down: Vec<(u32, Ps)>,
    ready: Vec<(Ps, u32)>,
    ends: Vec<Ps>,
    done: Vec<Completion>,
    counters: Counters,
    read_latency: Latency,
    write_latency: Latency,
    from: Ps,
    changes: Vec<Change>,
    taken: u64,
    /// Ids of the posted writes that are not finished.
    posted: Vec<(u64, u64)>,
}

impl Saved {
    pub(crate) fn add_owed(&self, ids: &mut Vec<u64>) {
        ids.extend(self.open.iter().map(|o| o.request.id()));
        ids.extend(self.done.iter().map(|c| c.id));
    }
}

impl Cxl {
    pub(super) fn saved(&self) -> Saved {
        let mut used = vec![true; self.open.len()];
        for i in &self.unused {
            used[*i as usize] = false;
        }
        let used = (0..).zip(&self.open).zip(used).filter(|o| o.1);
        let open = |(index, o): (u32, &Open)| SavedOpen {
            index,
            request: Asked::new(&o.request),
            arrival: o.arrival,
            accepted: o.accepted,
            // Not known before the answer.
            inner_id: o.inner_id,
            hit: o.hit && self.ready.iter().any(|r| r.0 .1 == index),
        };
        // No error: the time has been possible before.
        let left = self
            .inner
            .unfinished_writes(self.latest)
            .unwrap_or_default();
        let posted = left
            .iter()
            .filter_map(|id| Some((*id, *self.posted.get(id)?)));
        let mut ready: Vec<_> = self.ready.iter().map(|r| r.0).collect();
        ready.sort_unstable();
        Saved {
            version: VERSION,
            params: self.params.clone(),
            inner: self.inner.save(),
            latest: self.latest,
            down_free: self.down_free,
            up_free: self.up_free,
            open: used.map(|(o, _)| open(o)).collect(),
            unused: self.unused.clone(),
            down: self.down.iter().copied().collect(),
            ready,
            ends: self.ends.save(),
            done: self.done.clone(),
            counters: self.counters,
            read_latency: self.read_latency.clone(),
            write_latency: self.write_latency.clone(),
            from: self.from,
            changes: self.changes.clone(),
            taken: self.taken,
            posted: posted.collect(),
        }
    }

    pub(super) fn resume(&mut self, s: Saved) -> Result<(), Error> {
        version(s.version, VERSION, "cxl link")?;
        same_fixed(&self.params, &s.params, &CHANGEABLE, "cxl link")?;
        s.params.validate()?;
        now(s.latest, s.from)?;
        times([s.down_free, s.up_free], "link")?;
        times(s.down.iter().map(|d| d.1), "requests on the link")?;
        times(s.ready.iter().map(|r| r.0), "answers")?;
        completions(&s.done)?;
        counters(&s.counters)?;
        latency(&s.read_latency)?;
        latency(&s.write_latency)?;
        changes(&s.changes)?;
        // Each number is free, on its way down, in the memory, or an answer.
        let inside = s.inner.owed();
        let waiting: Vec<u64> = s.down.iter().map(|d| u64::from(d.0)).collect();
        let answered: Vec<u64> = s.ready.iter().map(|r| u64::from(r.1)).collect();
        let open: Vec<u64> = s.open.iter().map(|o| u64::from(o.index)).collect();
        let indices: Vec<u64> = inside.iter().map(|id| id & u64::from(u32::MAX)).collect();
        let under_way = [indices, waiting, answered].concat();
        ensure(same_members(under_way, open.clone()), "requests under way")?;
        let own = |o: &SavedOpen| o.inner_id as u32 == o.index && o.inner_id >> 63 == 0;
        let known = |id: &u64| s.open.iter().any(|o| o.inner_id == *id);
        ensure(
            s.open.iter().all(own) && inside.iter().all(known) && s.taken <= 1 << 62,
            "ids of requests under way",
        )?;
        let unused: Vec<u64> = s.unused.iter().map(|i| u64::from(*i)).collect();
        let all = [open, unused].concat();
        let numbers = (0..u64::from(s.params.credits)).collect();
        ensure(same_members(all, numbers), "credits")?;
        let capacity = self.capacity();
        for o in &s.open {
            times([o.arrival, o.accepted], "request under way")?;
            self.open[o.index as usize] = Open {
                request: o.request.request(capacity)?,
                arrival: o.arrival,
                accepted: o.accepted,
                hit: o.hit,
                inner_id: o.inner_id,
            };
        }
        self.inner.load(s.inner)?;
        self.ends = Window::load(s.params.credits as usize, s.ends)?;
        self.params = s.params;
        self.latest = s.latest;
        self.down_free = s.down_free;
        self.up_free = s.up_free;
        self.unused = s.unused;
        self.down = s.down.into();
        self.ready = s.ready.into_iter().map(Reverse).collect();
        self.done = s.done;
        self.counters = s.counters;
        self.read_latency = s.read_latency;
        self.write_latency = s.write_latency;
        self.from = s.from;
        self.changes = s.changes;
        self.taken = s.taken;
        self.posted = s.posted.into_iter().collect();
        self.most_posted = FEW.max(2 * self.posted.len());
        Ok(())
    }
}
