//! What is durable, and what may be, as steps go by.

use crate::cut::{Cut, PointKind, StoreRef, Undecided};
use crate::line::{LineState, Pending};
use crate::lines::{hash_line, Lines};
use crate::model::{Domain, GpfChoice, Mode, Model, Order, StoreBuffer};
use crate::step::{line_of, At, Bytes, FenceSet, Site, SiteId, Sites, Step, StoreOrder, LINE};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Gives the bytes that a line had when the history began. Called at most once for each line.
pub type Reader = Box<dyn FnMut(u64) -> Bytes + Send>;

/// The number that stands for devices.
const DEVICE: u16 = u16::MAX;

/// What a hart's fences say about its stores. All are numbers of steps.
#[derive(Clone, Copy, Debug, Default)]
struct HartOrder {
    /// Stores before it have left the hart: it waited for them.
    performed: u64,
    /// Stores before it take effect before the hart's later stores.
    ordered: u64,
    /// The last fence that orders stores before loads, and whether a load has followed.
    store_load: u64,
    loaded: u64,
}

/// The stores to NVMM so far, as far as they matter for what a power cut leaves.
pub struct History {
    model: Model,
    sites: Sites,
    reader: Reader,
    durable: Lines,
    initial: Lines,
    pending: BTreeMap<u64, Entry>,
    harts: BTreeMap<u16, HartOrder>,
    /// Lines with something that a flush of the hart has sent.
    sent: BTreeMap<u16, BTreeSet<u64>>,
    /// With durable caches: lines with stores that may be in the hart still.
    inside: BTreeMap<u16, BTreeSet<u64>>,
    steps: u64,
    stores: u64,
    operation: u32,
    last: Option<At>,
    /// The last fence, and the last one before the last store.
    last_fence: u64,
    fence_before_store: u64,
}

struct Entry {
    state: LineState,
    /// What a cut leaves of it, while that has not changed.
    cached: Option<Option<Arc<Undecided>>>,
}

impl History {
    /// A history without steps. `reader` gives what NVMM contained before the first one; all of that is durable.
    pub fn new(model: Model, reader: Reader) -> History {
        History {
            model,
            sites: Sites::default(),
            reader,
            durable: Lines::default(),
            initial: Lines::default(),
            pending: BTreeMap::new(),
            harts: BTreeMap::new(),
            sent: BTreeMap::new(),
            inside: BTreeMap::new(),
            steps: 0,
            stores: 0,
            operation: 0,
            last: None,
            last_fence: 0,
            fence_before_store: 0,
        }
    }

    /// The rules.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The number of a place in the code, for [`At`].
    pub fn site(&mut self, site: &Site) -> SiteId {
        self.sites.intern(site)
    }

    /// All places so far.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// How many steps there were.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How many writes to NVMM there were, by harts and devices. A point at which it is as at the last one needs no
    /// cut.
    pub fn stores(&self) -> u64 {
        self.stores
    }

    /// Takes the next step.
    pub fn step(&mut self, step: &Step) {
        self.steps += 1;
        match *step {
            Step::Store {
                at,
                paddr,
                bytes,
                order,
            } => {
                self.last = Some(at);
                self.store(at, paddr, bytes, order);
            }
            Step::Load { at, .. } => {
                let hart = self.harts.entry(at.hart).or_default();
                hart.loaded = hart.store_load;
            }
            Step::DeviceWrite { paddr, bytes } => self.device_write(paddr, bytes),
            Step::DeviceRead { .. } => {}
            Step::Flush {
                at,
                paddr,
                to_memory,
                ..
            } => {
                self.last = Some(at);
                if to_memory {
                    self.flush(at.hart, line_of(paddr));
                }
            }
            Step::FlushAll { at, to_memory } => {
                self.last = Some(at);
                if to_memory {
                    self.flush_all(at.hart);
                }
            }
            Step::Fence { at, pred, succ } => {
                self.last = Some(at);
                self.last_fence = self.steps;
                self.fence(at.hart, pred, succ);
            }
            Step::WriteBack { paddr } => {
                if self.model.mode == Mode::AsBuilt && self.model.domain != Domain::None {
                    self.settle(line_of(paddr), u64::MAX);
                }
            }
            Step::Reached { line, bytes } => {
                // Its stores stay pending, since memory may have any of its older contents.
                if self.model.mode == Mode::AsBuilt && self.pending.contains_key(&line) {
                    self.durable.insert(line, *bytes);
                }
            }
            Step::Marker { at, operation, .. } => {
                self.last = Some(at);
                self.operation += u32::from(operation);
            }
            Step::Output { at, .. } => self.last = Some(at),
        }
    }

    /// Flushes make something durable: not without a domain, needless with durable caches, and as-built the machine
    /// tells.
    fn flushes_count(&self) -> bool {
        self.model.mode == Mode::CouldHave
            && matches!(self.model.domain, Domain::Adr | Domain::Gpf { .. })
    }

    fn store(&mut self, at: At, paddr: u64, bytes: &[u8], order: StoreOrder) {
        self.stores += 1;
        self.fence_before_store = self.last_fence;
        let step = self.steps;
        if order.release {
            // The hart has waited for everything before it, as at a fence.
            self.complete(at.hart);
        }
        let hart = *self.harts.entry(at.hart).or_default();
        // What leaves a hart in order leaves what a cut before it would have left.
        let held = order.combined || self.model.store_buffer == StoreBuffer::Any;
        let sends = order.combined && self.flushes_count();
        pieces(paddr, bytes, |line, mask, content| {
            let store = StoreRef {
                step,
                paddr: line + u64::from(mask.trailing_zeros()),
                len: mask.count_ones() as u8,
                at,
            };
            if order.atomic {
                // It comes after the hart's flushes of the line, and has been performed.
                self.complete_line(at.hart, line);
            }
            self.push(line, Pending::new(mask, content, store, order), &hart);
            if sends {
                // It is on its way already, with what goes before it.
                if let Some(entry) = self.pending.get_mut(&line) {
                    let set = entry.state.closure(|s| s.last.step == step);
                    *entry.state.sent.entry(at.hart).or_default() |= set;
                    self.sent.entry(at.hart).or_default().insert(line);
                }
            }
            if self.model.domain == Domain::Eadr {
                let direct = self.model.order == Order::Commit && !held;
                if direct || self.model.mode == Mode::AsBuilt {
                    self.settle(line, u64::MAX);
                } else if order.atomic {
                    // The hart has read the line and written it: the store is in a cache.
                    let set = self.pending[&line].state.closure(|s| s.last.step == step);
                    self.settle(line, set);
                } else {
                    self.inside.entry(at.hart).or_default().insert(line);
                }
            }
        });
        let hart = self.harts.entry(at.hart).or_default();
        if order.atomic {
            hart.loaded = hart.store_load;
        }
    }

    /// Whether the order in which stores were committed says in which one they take effect: those of a hart, those of
    /// all.
    fn committed(&self) -> (bool, bool) {
        let commit = self.model.order == Order::Commit;
        (
            commit,
            commit && self.model.store_buffer == StoreBuffer::None,
        )
    }

    fn push(&mut self, line: u64, store: Pending, hart: &HartOrder) {
        let (commit, all) = self.committed();
        let entry = self.pending.entry(line).or_insert_with(|| {
            let base = durable_content(&self.durable, &mut self.initial, &mut self.reader, line);
            Entry {
                state: LineState::new(base),
                cached: None,
            }
        });
        entry.cached = None;
        let who = store.last.at.hart;
        let harts = &self.harts;
        entry.state.push(store, |earlier| {
            let by = earlier.last.at.hart;
            all || commit && by == who
                || earlier.order.atomic
                || by == DEVICE
                || by == who && earlier.last.step < hart.ordered
                || harts
                    .get(&by)
                    .is_some_and(|h| earlier.last.step < h.performed)
        });
    }

    fn device_write(&mut self, paddr: u64, bytes: &[u8]) {
        self.stores += 1;
        let step = self.steps;
        let nothing = self.model.domain == Domain::None && self.model.mode == Mode::CouldHave;
        pieces(paddr, bytes, |line, mask, content| {
            if nothing {
                let at = At {
                    hart: DEVICE,
                    site: SiteId(u32::MAX),
                    time: 0,
                };
                let store = StoreRef {
                    step,
                    paddr: line + u64::from(mask.trailing_zeros()),
                    len: mask.count_ones() as u8,
                    at,
                };
                let order = StoreOrder::default();
                self.push(
                    line,
                    Pending::new(mask, content, store, order),
                    &HartOrder::default(),
                );
                return;
            }
            if let Some(entry) = self.pending.get_mut(&line) {
                entry.cached = None;
                entry.state.overwrite(mask, &content);
                match self.model.mode {
                    Mode::CouldHave => self.keep(line),
                    // This machine's devices write what caches have of the line, too.
                    Mode::AsBuilt if self.model.domain == Domain::None => {
                        let newest = entry.state.newest();
                        self.durable.insert(line, newest);
                    }
                    Mode::AsBuilt => self.settle(line, u64::MAX),
                }
            } else {
                let base =
                    durable_content(&self.durable, &mut self.initial, &mut self.reader, line);
                let mut state = LineState::new(base);
                state.overwrite(mask, &content);
                self.durable.insert(line, state.base);
            }
        });
    }

    /// A flush of one line covers what its hart has stored there, and what others have that has left them.
    fn flush(&mut self, hart: u16, line: u64) {
        let counts = self.flushes_count();
        let (_, all) = self.committed();
        let Some(entry) = self.pending.get_mut(&line) else {
            return;
        };
        let harts = &self.harts;
        let set = entry.state.closure(|s| {
            let by = s.last.at.hart;
            all || by == hart
                || s.order.atomic
                || harts.get(&by).is_some_and(|h| s.last.step < h.performed)
        });
        if set == 0 {
            return;
        }
        *entry.state.cleaned.entry(hart).or_default() |= set;
        if !counts {
            return;
        }
        if self.model.flush_waits {
            self.settle(line, set);
        } else {
            *entry.state.sent.entry(hart).or_default() |= set;
            self.sent.entry(hart).or_default().insert(line);
        }
    }

    /// The whole cache of a hart: modified lines are with the hart that has stored last.
    fn flush_all(&mut self, hart: u16) {
        let lines: Vec<u64> = self
            .pending
            .iter()
            .filter(|(_, e)| {
                e.state
                    .stores
                    .last()
                    .is_some_and(|s| s.last.at.hart == hart)
            })
            .map(|(&line, _)| line)
            .collect();
        for line in lines {
            self.flush(hart, line);
        }
    }

    fn fence(&mut self, hart: u16, pred: FenceSet, succ: FenceSet) {
        let step = self.steps;
        let state = self.harts.entry(hart).or_default();
        if pred.has(FenceSet::W) && succ.has(FenceSet::R) {
            state.store_load = step;
        }
        if pred.has(FenceSet::R) && succ.has(FenceSet::W) {
            state.ordered = state.ordered.max(state.loaded);
        }
        if pred.has(FenceSet::W) && succ.has(FenceSet::W) {
            self.complete(hart);
        }
    }

    /// The hart has waited for its stores and flushes.
    fn complete(&mut self, hart: u16) {
        let state = self.harts.entry(hart).or_default();
        (state.performed, state.ordered) = (self.steps, self.steps);
        for line in self.sent.remove(&hart).unwrap_or_default() {
            self.complete_line(hart, line);
        }
        for line in self.inside.remove(&hart).unwrap_or_default() {
            let set = self
                .pending
                .get(&line)
                .map_or(0, |e| e.state.closure(|s| s.last.at.hart == hart));
            self.settle(line, set);
        }
    }

    /// The hart's flushes of the line have ended.
    fn complete_line(&mut self, hart: u16, line: u64) {
        let entry = self.pending.get(&line);
        let set = entry.and_then(|e| e.state.sent.get(&hart).copied());
        self.settle(line, set.unwrap_or(0));
    }

    /// These stores of the line are durable.
    fn settle(&mut self, line: u64, set: u64) {
        if let Some(entry) = self.pending.get_mut(&line) {
            let set = set & entry.state.all();
            if set != 0 {
                entry.cached = None;
                entry.state.settle(set);
                self.keep(line);
            }
        }
    }

    /// Enters the durable content of a line that has changed.
    fn keep(&mut self, line: u64) {
        if let Some(entry) = self.pending.get(&line) {
            self.durable.insert(line, entry.state.base);
            if entry.state.stores.is_empty() {
                self.pending.remove(&line);
            }
        }
    }

    /// What a power cut before the next step would leave. `kind` says what that step is.
    pub fn cut(&mut self, kind: PointKind) -> Cut {
        let mut cut = self.at_point(kind);
        if self.model.mode == Mode::AsBuilt {
            let saved = match self.model.domain {
                Domain::Gpf { lines, .. } => usize::try_from(lines).unwrap_or(usize::MAX),
                _ => 0,
            };
            for (&line, entry) in self.pending.iter().take(saved) {
                cut.durable.insert(line, entry.state.newest());
            }
            cut.hash = cut.durable.hash();
            return cut;
        }
        let saved = match self.model.domain {
            Domain::Gpf { lines, choice } => {
                let lines = usize::try_from(lines).unwrap_or(usize::MAX);
                match choice {
                    GpfChoice::Address => lines,
                    GpfChoice::Any if self.pending.len() <= lines => usize::MAX,
                    GpfChoice::Any => {
                        cut.max_old = Some(self.pending.len() - lines);
                        0
                    }
                }
            }
            _ => 0,
        };
        let cap = self.model.max_candidates;
        let mut sum = 0u64;
        let fence = self.fence_before_store;
        for (i, (&line, entry)) in self.pending.iter_mut().enumerate() {
            if i < saved {
                cut.durable.insert(line, entry.state.newest());
                continue;
            }
            let undecided = entry
                .cached
                .get_or_insert_with(|| entry.state.undecided(line, cap).map(Arc::new));
            if let Some(undecided) = undecided {
                let commit = entry.state.stores.iter().all(|s| s.first.step > fence)
                    && entry
                        .state
                        .stores
                        .iter()
                        .fold(0, |m, s| m | s.mask)
                        .count_ones()
                        <= 8;
                if undecided.commit != commit {
                    Arc::make_mut(undecided).commit = commit;
                }
                let contents = undecided
                    .candidates
                    .iter()
                    .fold(0, |h, c| hash_line(h, c.hash));
                sum = sum.wrapping_add(hash_line(line ^ 1, contents));
                cut.undecided.push(Arc::clone(undecided));
            }
        }
        if cut.max_old.is_some_and(|most| most >= cut.undecided.len()) {
            cut.max_old = None;
        }
        let rest = hash_line(sum, cut.max_old.map_or(u64::MAX, |m| m as u64));
        cut.hash = cut.durable.hash().wrapping_add(rest);
        cut
    }

    /// All stores so far, as if nothing had been cut. For [`crate::Work::references`].
    pub fn uncut(&mut self) -> Cut {
        let mut cut = self.at_point(PointKind::Marker);
        for (&line, entry) in &self.pending {
            cut.durable.insert(line, entry.state.newest());
        }
        cut.hash = cut.durable.hash();
        cut
    }

    fn at_point(&self, kind: PointKind) -> Cut {
        Cut {
            step: self.steps,
            at: self.last,
            kind,
            operation: self.operation,
            durable: self.durable.clone(),
            initial: self.initial.clone(),
            undecided: Vec::new(),
            hash: 0,
            max_old: None,
        }
    }
}

/// The durable content of a line without pending stores.
fn durable_content(durable: &Lines, initial: &mut Lines, reader: &mut Reader, line: u64) -> Bytes {
    durable.get(line).copied().unwrap_or_else(|| {
        let bytes = reader(line);
        initial.insert(line, bytes);
        bytes
    })
}

/// Cuts a write at the borders of lines: line, bits of the bytes that are written, the bytes in their places.
fn pieces(paddr: u64, bytes: &[u8], mut each: impl FnMut(u64, u64, Bytes)) {
    let mut at = paddr;
    let mut rest = bytes;
    while !rest.is_empty() {
        let line = line_of(at);
        let offset = (at - line) as usize;
        let count = rest.len().min(LINE as usize - offset);
        let mut content = [0; LINE as usize];
        content[offset..offset + count].copy_from_slice(&rest[..count]);
        let mask = (u64::MAX >> (64 - count)) << offset;
        each(line, mask, content);
        rest = &rest[count..];
        at = line.wrapping_add(LINE);
    }
}
