//! The saved state of the cache, with both its memories.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::tags::{SavedTags, Victim};
use super::*;
use crate::checks::{
    changes, completions, counters, counts, ensure, latency, now, same_fixed, same_members, times,
    version, Asked,
};
use crate::saved::SavedModel;
use crate::window::Window;

/// Version of the format written.
const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedSide {
    model: SavedModel,
    reads: Vec<(Ps, Asked)>,
    writes: Vec<(Ps, Asked)>,
}

/// A request in progress.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedTxn {
    index: u16,
    request: Asked,
    arrival: Ps,
    place: u64,
    hit: bool,
    dirtied: bool,
    /// Evicted block, and whether it was dirty.
    victim: Option<(u64, bool)>,
    answered: bool,
    next: Option<u16>,
    number: u64,
}

/// The complete state of a [`Cache`]; see there for the meaning of the fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    version: u32,
    params: CacheParams,
    front: SavedSide,
    back: SavedSide,
    tags: SavedTags,
    latest: Ps,
    now: Ps,
    txns: Vec<SavedTxn>,
    unused: Vec<u16>,
    ends: Vec<(Ps, u64)>,
    passing: Vec<Ps>,
    done: Vec<Completion>,
    counters: Counters,
    misses: u64,
    write_backs: u64,
    fetches: u64,
    read_latency: Latency,
    write_latency: Latency,
    from: Ps,
    changes: Vec<Change>,
    taken: u64,
    unwritten: Unwritten,
}

impl Saved {
    pub(crate) fn add_owed(&self, ids: &mut Vec<u64>) {
        let open = self.txns.iter().filter(|x| !x.answered);
        ids.extend(open.map(|x| x.request.id()));
        ids.extend(self.done.iter().map(|c| c.id));
    }
}

impl Side {
    fn save(&self) -> SavedSide {
        let queue = |w: &VecDeque<(Ps, Request)>| {
            w.iter()
                .map(|(t, r)| (*t, Asked::new(r)))
                .collect::<Vec<_>>()
        };
        SavedSide {
            model: self.model.save(),
            reads: queue(&self.waiting[0]),
            writes: queue(&self.waiting[1]),
        }
    }

    fn resume(&mut self, s: SavedSide) -> Result<(), Error> {
        let capacity = self.model.capacity();
        let kinds = [Kind::Read, Kind::Write];
        for ((w, saved), kind) in self.waiting.iter_mut().zip([s.reads, s.writes]).zip(kinds) {
            w.clear();
            for (t, asked) in saved {
                times([t], "waiting accesses")?;
                let r = asked.request(capacity)?;
                ensure(r.kind == kind, "waiting accesses")?;
                w.push_back((t, r));
            }
        }
        self.model.load(s.model)
    }
}

impl Cache {
    pub(super) fn saved(&self) -> Saved {
        let used = (0..).zip(&self.txns).filter(|(_, x)| x.used);
        let txn = |(index, x): (u16, &Txn)| SavedTxn {
            index,
            request: Asked::new(&x.request),
            arrival: x.arrival,
            place: x.found.place,
            hit: x.found.hit,
            dirtied: x.found.dirtied,
            victim: x.found.victim.map(|v| (v.block, v.dirty)),
            answered: x.answered,
            number: x.number,
            next: (x.next != NONE).then_some(x.next),
        };
        // No error: the time has been possible before.
        let back = self.sides[BACK].model.unfinished_writes(self.latest);
        let mut ends: Vec<_> = self.ends.iter().map(|e| e.0).collect();
        ends.sort_unstable();
        Saved {
            version: VERSION,
            params: self.params.clone(),
            front: self.sides[FRONT].save(),
            back: self.sides[BACK].save(),
            tags: self.tags.save(),
            latest: self.latest,
            now: self.now,
            txns: used.map(txn).collect(),
            unused: self.unused.clone(),
            ends,
            passing: self.passing.save(),
            done: self.done.clone(),
            counters: self.counters,
            misses: self.misses,
            write_backs: self.write_backs,
            fetches: self.fetches,
            read_latency: self.read_latency.clone(),
            write_latency: self.write_latency.clone(),
            from: self.from,
            changes: self.changes.clone(),
            taken: self.taken,
            unwritten: self.unwritten.save(&back.unwrap_or_default()),
        }
    }

    pub(super) fn resume(&mut self, s: Saved) -> Result<(), Error> {
        version(s.version, VERSION, "cache")?;
        same_fixed(&self.params, &s.params, &CHANGEABLE, "cache")?;
        s.params.validate(self.sides[FRONT].model.capacity())?;
        now(s.latest, s.from)?;
        ensure(s.now <= Ps::MAX_TIME, "time")?;
        times(s.ends.iter().map(|e| e.0), "ends of accesses")?;
        completions(&s.done)?;
        counters(&s.counters)?;
        counts([s.misses, s.write_backs, s.fetches])?;
        latency(&s.read_latency)?;
        latency(&s.write_latency)?;
        changes(&s.changes)?;
        let n = self.txns.len();
        let numbers: Vec<u64> = s.txns.iter().map(|x| u64::from(x.index)).collect();
        let unused = s.unused.iter().map(|i| u64::from(*i));
        let all: Vec<u64> = unused.chain(numbers).collect();
        ensure(
            same_members(all, (0..n as u64).collect()),
            "requests in progress",
        )?;
        let blocks = self.capacity() / self.params.block_bytes;
        self.tags = TagArray::new(self.sets, self.params.ways as usize);
        self.dirty = self.tags.load(s.tags, blocks)?;
        self.txns.iter_mut().for_each(|x| {
            (x.used, x.open, x.next, x.answered) = (false, 0, NONE, false);
        });
        let followers = self.load_txns(&s.txns)?;
        let sides = [&s.front, &s.back];
        let mut accesses = Vec::new();
        for (side, x) in sides.into_iter().enumerate() {
            let waiting = x.reads.iter().chain(&x.writes).map(|w| w.1.id());
            accesses.extend(waiting.chain(x.model.owed()).map(|id| (Some(side), id)));
        }
        accesses.extend(s.ends.iter().map(|e| (None, e.1)));
        self.count_accesses(&accesses, &followers)?;
        let [front, back] = &mut self.sides;
        front.resume(s.front)?;
        back.resume(s.back)?;
        self.passing = Window::load(n, s.passing)?;
        self.params = s.params;
        self.latest = s.latest;
        self.now = s.now;
        self.unused = s.unused;
        self.ends = s.ends.into_iter().map(Reverse).collect();
        self.done = s.done;
        self.counters = s.counters;
        self.misses = s.misses;
        self.write_backs = s.write_backs;
        self.fetches = s.fetches;
        self.read_latency = s.read_latency;
        self.write_latency = s.write_latency;
        self.from = s.from;
        self.changes = s.changes;
        ensure(s.taken <= 1 << 62, "number of requests")?;
        self.taken = s.taken;
        self.unwritten = s.unwritten;
        Ok(())
    }

    /// Requests in progress; those without accesses of their own wait for another one, at most one
    /// for each.
    fn load_txns(&mut self, saved: &[SavedTxn]) -> Result<BTreeSet<u16>, Error> {
        let (capacity, size) = (self.capacity(), self.params.block_bytes);
        let places = self.sides[FRONT].model.capacity() / size;
        let mut followers = BTreeSet::new();
        for x in saved {
            times([x.arrival], "arrival")?;
            let request = x.request.request(capacity)?;
            let block = request.addr / size;
            let victim = x.victim.map(|(block, dirty)| Victim { block, dirty });
            let ways = u64::from(self.params.ways);
            let fits = x.place < places
                && x.place / ways == block % self.sets
                && victim.is_none_or(|v| !x.hit && v.block < capacity / size);
            ensure(fits, "place of a request")?;
            let next = x.next.unwrap_or(NONE);
            if let Some(n) = x.next {
                let known = saved.iter().any(|y| y.index == n) && n != x.index;
                ensure(known && followers.insert(n), "order of requests")?;
            }
            self.txns[usize::from(x.index)] = Txn {
                used: true,
                request,
                arrival: x.arrival,
                block,
                found: Found {
                    place: x.place,
                    hit: x.hit,
                    dirtied: x.dirtied,
                    victim,
                },
                open: 0,
                next,
                answered: x.answered,
                number: x.number,
            };
        }
        // From those that wait for nobody every other one is reached.
        let mut reached = 0;
        for x in saved.iter().filter(|x| !followers.contains(&x.index)) {
            let mut at = x.index;
            while at != NONE {
                reached += 1;
                at = self.txns[usize::from(at)].next;
            }
        }
        ensure(reached == saved.len(), "order of requests")?;
        Ok(followers)
    }

    /// Checks the accesses under way and counts them for their requests.
    fn count_accesses(
        &mut self,
        all: &[(Option<usize>, u64)],
        followers: &BTreeSet<u16>,
    ) -> Result<(), Error> {
        let part = "accesses under way";
        let mut seen = BTreeSet::new();
        let mut due: BTreeMap<usize, u32> = BTreeMap::new();
        for &(side, id) in all {
            ensure(seen.insert(id & u64::from(u32::MAX)), part)?;
            let (i, step) = (id >> 16 & 0xffff, id >> 8 & 0xff);
            let (i, step) = (i as usize, step as usize);
            let (Some(x), Some(&step)) = (self.txns.get_mut(i), STEPS.get(step)) else {
                return ensure(false, part);
            };
            let piece = id & 0xff;
            let own = x.request.addr % self.params.block_bytes / PIECE == piece;
            let write = x.request.kind == Kind::Write;
            let whole = write && u64::from(x.request.bytes) == self.params.block_bytes;
            let tags_beside = self.params.tags == Tags::WithData;
            let dirty = x.found.victim.is_some_and(|v| v.dirty);
            // Which accesses a request can have, and at which memory.
            let (at, possible, ends) = match step {
                Step::Probe => (FRONT, tags_beside, true),
                Step::Demand => {
                    let hit = x.found.hit && (write || !tags_beside);
                    (FRONT, own && (hit || (!x.found.hit && whole)), true)
                }
                Step::Victim => (FRONT, !tags_beside && dirty, false),
                Step::WriteBack => (BACK, dirty, false),
                Step::Fetch => (BACK, !x.found.hit && !whole, own),
                Step::Fill => (FRONT, !x.found.hit && !whole, own && write),
            };
            // Ends are known by transaction.
            let number = if side.is_some() {
                x.number & NUMBERS
            } else {
                0
            };
            let fits = x.used
                && id >> 32 == number
                && possible
                && piece < self.params.block_bytes / PIECE
                && side.is_none_or(|s| s == at);
            ensure(fits, part)?;
            x.open += 1;
            *due.entry(i).or_default() += u32::from(ends);
        }
        for (i, x) in self.txns.iter().enumerate().filter(|(_, x)| x.used) {
            let waits = followers.contains(&(i as u16));
            ensure(waits == (x.open == 0), part)?;
            let owed = waits || due.get(&i) == Some(&1);
            let excess = due.get(&i).is_some_and(|n| *n > 1);
            ensure(owed != x.answered && !excess, part)?;
        }
        Ok(())
    }
}
