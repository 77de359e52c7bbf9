//! The stores to one line that may not be durable yet, and the contents that follow from them.

use crate::cut::{Candidate, StoreRef, Undecided};
use crate::lines::hash_bytes;
use crate::step::{Bytes, StoreOrder};
use std::collections::{BTreeMap, BTreeSet};

/// So many stores of a line are kept apart, one bit each.
const STORES: usize = 64;
/// So many sets of stores are looked at for each content that is allowed.
const SETS_PER_CONTENT: usize = 8;

/// A store, or several that the history no longer keeps apart.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// A bit for each byte that it stores.
    pub mask: u64,
    pub bytes: Bytes,
    pub first: StoreRef,
    pub last: StoreRef,
    pub order: StoreOrder,
    /// A bit for each store of the line that takes effect before this one.
    before: u64,
}

impl Pending {
    pub fn new(mask: u64, bytes: Bytes, store: StoreRef, order: StoreOrder) -> Pending {
        Pending {
            mask,
            bytes,
            first: store,
            last: store,
            order,
            before: 0,
        }
    }

    fn apply(&self, to: &mut Bytes) {
        for (i, byte) in to.iter_mut().enumerate() {
            if self.mask >> i & 1 == 1 {
                *byte = self.bytes[i];
            }
        }
    }
}

/// A line with stores that may not be durable.
#[derive(Clone, Debug)]
pub(crate) struct LineState {
    /// What is durable.
    pub base: Bytes,
    pub stores: Vec<Pending>,
    /// By hart: stores that a flush of the hart has sent on its way.
    pub sent: BTreeMap<u16, u64>,
    /// By hart: stores that take effect before its later ones, because it has cleaned the line in between.
    pub cleaned: BTreeMap<u16, u64>,
    /// Stores were merged because there were too many.
    pub merged: bool,
}

/// Contents that a line may have.
pub(crate) struct Contents {
    pub candidates: Vec<Candidate>,
    pub newest: usize,
    pub capped: bool,
}

fn all(count: usize) -> u64 {
    if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    }
}

/// `mask` without the bits of `gone`; the bits above them move down.
fn squeeze(mask: u64, gone: u64) -> u64 {
    let mut result = 0;
    let mut to = 0;
    for from in 0..64 {
        if gone >> from & 1 == 0 {
            result |= (mask >> from & 1) << to;
            to += 1;
        }
    }
    result
}

impl LineState {
    pub fn new(base: Bytes) -> LineState {
        LineState {
            base,
            stores: Vec::new(),
            sent: BTreeMap::new(),
            cleaned: BTreeMap::new(),
            merged: false,
        }
    }

    /// A bit for each store.
    pub fn all(&self) -> u64 {
        all(self.stores.len())
    }

    /// The stores for which `which` is true, with all that take effect before them.
    pub fn closure(&self, which: impl Fn(&Pending) -> bool) -> u64 {
        let mut set = 0;
        for (i, store) in self.stores.iter().enumerate() {
            if which(store) {
                set |= 1 << i | store.before;
            }
        }
        set
    }

    /// The next store; `after` says of which earlier ones that do not overlap with it the order is certain.
    pub fn push(&mut self, mut store: Pending, after: impl Fn(&Pending) -> bool) {
        if self.stores.len() == STORES {
            self.merge();
        }
        let overlap = store.mask;
        let cleaned = self.cleaned.get(&store.last.at.hart).copied().unwrap_or(0);
        store.before = cleaned | self.closure(|s| s.mask & overlap != 0 || after(s));
        self.stores.push(store);
    }

    /// Merges neighbours, so that there is room: contents between them are forgotten.
    fn merge(&mut self) {
        self.merged = true;
        let (mut gone, mut skip) = (0u64, false);
        for i in 0..self.stores.len() - 1 {
            // A flush has sent both or neither; otherwise one would share the other's fate.
            let alike = self.sent.values().all(|s| (s >> i ^ s >> (i + 1)) & 1 == 0);
            if skip {
                skip = false;
            } else if alike {
                gone |= 1 << i;
                skip = true;
            }
        }
        if gone == 0 {
            // As many flushes as stores, without a fence: forget that the oldest was sent.
            gone = 1;
            self.sent.values_mut().for_each(|s| *s &= !2);
        }
        for i in (0..self.stores.len()).rev() {
            if gone >> i & 1 == 0 {
                continue;
            }
            let older = self.stores[i].clone();
            let newer = &mut self.stores[i + 1];
            let mut bytes = older.bytes;
            newer.apply(&mut bytes);
            newer.bytes = bytes;
            newer.mask |= older.mask;
            newer.first = older.first;
            newer.before = (newer.before | older.before) & !(1 << i);
            newer.order.acquire |= older.order.acquire;
            newer.order.release |= older.order.release;
            newer.order.atomic &= older.order.atomic;
            for later in &mut self.stores[i + 2..] {
                if later.before >> i & 3 != 0 {
                    later.before |= 3 << i;
                }
            }
        }
        for set in self.cleaned.values_mut() {
            *set |= (*set & gone) << 1;
        }
        // What now comes before a merged store comes before everything behind it, too.
        for i in 0..self.stores.len() {
            let before = self.stores[i].before;
            let closed = (0..i)
                .filter(|j| before >> j & 1 == 1)
                .fold(before, |set, j| set | self.stores[j].before);
            self.stores[i].before = closed;
        }
        for set in self.sent.values_mut() {
            let sent = *set;
            for (i, store) in self.stores.iter().enumerate() {
                // `gone` bits are still there, and were sent with their neighbour or not at all.
                if sent >> i & 1 == 1 && store.before & !sent != 0 {
                    *set &= !(1 << i);
                }
            }
        }
        self.remove(gone);
    }

    fn remove(&mut self, gone: u64) {
        let mut index = 0;
        self.stores.retain(|_| {
            index += 1;
            gone >> (index - 1) & 1 == 0
        });
        for store in &mut self.stores {
            store.before = squeeze(store.before, gone);
        }
        for sets in [&mut self.sent, &mut self.cleaned] {
            sets.values_mut().for_each(|set| *set = squeeze(*set, gone));
            sets.retain(|_, set| *set != 0);
        }
    }

    /// These stores are durable. `set` has with each store all that take effect before it.
    pub fn settle(&mut self, set: u64) {
        for (i, store) in self.stores.iter().enumerate() {
            if set >> i & 1 == 1 {
                store.apply(&mut self.base);
            }
        }
        self.remove(set);
    }

    /// A device has written these bytes: they are durable, and newer than all stores.
    pub fn overwrite(&mut self, mask: u64, bytes: &Bytes) {
        for i in (0..64).filter(|i| mask >> i & 1 == 1) {
            self.base[i] = bytes[i];
        }
        let mut gone = 0;
        for (i, store) in self.stores.iter_mut().enumerate() {
            store.mask &= !mask;
            if store.mask == 0 {
                gone |= 1 << i;
            }
        }
        self.remove(gone);
    }

    /// The newest content.
    pub fn newest(&self) -> Bytes {
        self.content(self.all())
    }

    fn content(&self, set: u64) -> Bytes {
        let mut bytes = self.base;
        for (i, store) in self.stores.iter().enumerate() {
            if set >> i & 1 == 1 {
                store.apply(&mut bytes);
            }
        }
        bytes
    }

    /// All contents, at most `cap`: those that lack only the newest stores or have only the oldest first.
    pub fn contents(&self, cap: usize) -> Contents {
        let cap = cap.clamp(2, usize::from(u16::MAX));
        let full = self.all();
        let mut found = Found {
            line: self,
            index: BTreeMap::new(),
            list: Vec::new(),
            sets: BTreeSet::new(),
            capped: self.merged,
            cap,
        };
        found.add(0);
        found.add(full);
        // Prefixes in the order of commit; if there are too many, some at equal distances.
        let n = self.stores.len();
        let step = n.div_ceil(cap).max(1);
        found.capped |= step > 1;
        for i in (1..n).step_by(step) {
            found.add(all(i));
        }
        let (mut down, mut up) = (vec![full], vec![0u64]);
        let mut looked = 0;
        let (mut seen_down, mut seen_up) = (BTreeSet::from([full]), BTreeSet::from([0u64]));
        while !(down.is_empty() || up.is_empty() || found.full()) {
            let mut next = Vec::new();
            for set in down.drain(..) {
                for i in (0..n).filter(|i| set >> i & 1 == 1) {
                    let last =
                        !(0..n).any(|j| set >> j & 1 == 1 && self.stores[j].before >> i & 1 == 1);
                    if last && seen_down.insert(set & !(1 << i)) {
                        next.push(set & !(1 << i));
                    }
                }
            }
            down = next;
            let mut next = Vec::new();
            for set in up.drain(..) {
                for i in (0..n).filter(|i| set >> i & 1 == 0) {
                    if self.stores[i].before & !set == 0 && seen_up.insert(set | 1 << i) {
                        next.push(set | 1 << i);
                    }
                }
            }
            up = next;
            for &set in down.iter().chain(&up) {
                found.add(set);
            }
            looked += down.len() + up.len();
            if looked > cap * SETS_PER_CONTENT {
                // Every set is reached from either end, so only if both ends have met is nothing missing.
                found.capped = true;
                break;
            }
        }
        let newest = found.index[&self.newest()];
        Contents {
            candidates: found.list.into_iter().map(|(_, c)| c).collect(),
            newest,
            capped: found.capped,
        }
    }

    /// What a cut leaves of the line if more than one content is possible.
    pub fn undecided(&self, line: u64, cap: usize) -> Option<Undecided> {
        let contents = self.contents(cap);
        (contents.candidates.len() > 1).then_some(Undecided {
            line,
            candidates: contents.candidates,
            newest: contents.newest,
            capped: contents.capped,
            commit: false,
        })
    }
}

struct Found<'a> {
    line: &'a LineState,
    index: BTreeMap<Bytes, usize>,
    list: Vec<(u32, Candidate)>,
    sets: BTreeSet<u64>,
    capped: bool,
    cap: usize,
}

impl Found<'_> {
    fn full(&self) -> bool {
        self.capped && self.list.len() >= self.cap
    }

    fn add(&mut self, set: u64) {
        if !self.sets.insert(set) {
            return;
        }
        let bytes = self.line.content(set);
        let stores = &self.line.stores;
        let candidate = Candidate {
            bytes,
            hash: hash_bytes(&bytes),
            last: (0..stores.len())
                .rev()
                .find(|i| set >> i & 1 == 1)
                .map(|i| stores[i].last),
            lacks: (0..stores.len())
                .find(|i| set >> i & 1 == 0)
                .map(|i| stores[i].first),
        };
        match self.index.get(&bytes) {
            // Of equal contents, the one with the most stores stands for both.
            Some(&i) => {
                if set.count_ones() > self.list[i].0 {
                    self.list[i] = (set.count_ones(), candidate);
                }
            }
            None if self.list.len() < self.cap => {
                self.index.insert(bytes, self.list.len());
                self.list.push((set.count_ones(), candidate));
            }
            None => self.capped = true,
        }
    }
}
