//! The light timed mode: transfers are answered at once and counted, and the end of an epoch says how much longer
//! memory would have taken. What harts do in this mode is in `hart/src/epochs.rs`.
//!
//! A [`LightModel`] has the costs of the machine's memories, which `calibrate.rs` measures on the detailed model.
//! Every read costs at once what the fastest of them costs, rounded down to cycles; the rest of it, by the memory in
//! which the line lies, follows at the end of the epoch. What is less than a cycle then is carried to the next one.

use super::Machine;
use nagori_hart::world::Observer;
use nagori_hart::world::{Epoch, EpochEnd, LineKind, LineRequest};
use nagori_memtime::units::ps_text;
use nagori_memtime::{Method, Period, Ps};
use serde::{Deserialize, Serialize};

/// Most memories that a model distinguishes.
pub(super) const MOST_AREAS: usize = 16;
/// Picoseconds of a time that no epoch's delay exceeds.
const LONGEST: i128 = 1 << 62;

/// Classes of gaps. A gap is the time since the hart's last transfer ended: the longer it is, the more of what that
/// transfer has left behind in the memory (banks that are busy, rows to be closed) is over.
pub const GAPS: usize = 12;

/// What lines of one memory cost a hart, in picoseconds, by the class of the gap. Each is what the detailed model adds
/// to a hart's time on average, beyond caches and core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineCosts {
    /// A line that is read, lines being read in random order; by the gap before it.
    pub read_ps: [u64; GAPS],
    /// A modified line that is written back because another one takes its place: what it adds to the read. By the
    /// gap before it if the hart waits for it, and otherwise by the gap before the next read.
    pub write_back_ps: [u64; GAPS],
    /// A modified line that an instruction writes back: what it adds, also to the next transfer. By the gap before that.
    pub flush_ps: [u64; GAPS],
}

impl LineCosts {
    fn each(&self) -> impl Iterator<Item = u64> + '_ {
        let all = [&self.read_ps, &self.write_back_ps, &self.flush_ps];
        all.into_iter().flatten().copied()
    }
}

/// A memory, or the part of the board's memory that the delay methods slow down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Area {
    /// Its name: a region's, or `dram` or `nvmm` for the board's controller.
    pub name: String,
    /// Offset in memory of its first byte.
    pub base: u64,
    /// Offset in memory of the first byte after it.
    pub end: u64,
    /// Its costs, by delay method where these affect it; otherwise one entry.
    pub costs: Vec<LineCosts>,
}

impl Area {
    /// Its costs under a method.
    pub fn under(&self, m: Method) -> LineCosts {
        let i = Method::ALL.iter().position(|k| *k == m).unwrap_or(0);
        let known = self.costs.get(i).or(self.costs.first());
        known.copied().unwrap_or_default()
    }
}

/// What the light mode knows of a machine's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LightModel {
    /// Name of the machine's description.
    pub machine: String,
    /// Identifies what was measured: the values of the description that matter for these costs.
    pub key: String,
    /// Latency of a hit in the last cache level before memory; zero where L1 is the last.
    #[serde(with = "ps_text")]
    pub last_hit: Ps,
    /// The first class of gaps is those below 2 to the power of this, in core cycles; each further class goes twice as far.
    pub gap_bits: u32,
    /// The memories, by address, without gaps.
    #[serde(rename = "memory")]
    pub areas: Vec<Area>,
}

impl LightModel {
    /// Reads what [`LightModel::to_toml`] has written.
    ///
    /// # Errors
    /// If it is not such a text; what is wrong and where.
    pub fn from_toml(text: &str) -> Result<LightModel, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    /// The model as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }
}

/// How long epochs last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochLength {
    /// Guest time of a full epoch.
    #[serde(with = "ps_text")]
    pub time: Ps,
    /// Instructions of a hart in a full epoch; none: as many as fit into the time.
    pub instructions: Option<u64>,
}

impl Default for EpochLength {
    /// 100 us: a tenth of the time that Linux gives a thread at least.
    fn default() -> Self {
        EpochLength {
            time: Ps(100_000_000),
            instructions: None,
        }
    }
}

/// A light model or a length of epochs that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LightError {
    /// Memories.
    #[error("the costs of the light mode are for other memories than the machine has: calibrate them for this machine")]
    Areas,
    /// An impossible cost.
    #[error("memory {0}: a cost is more than a second")]
    Cost(String),
    /// The length of epochs.
    #[error("an epoch lasts {0}: expected 1 us to 1 s, and at least 1000 instructions")]
    Length(Ps),
}

/// Lines that a hart has moved from or to one memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineCounts {
    /// Lines read for loads, walks and fetches.
    pub loads: u64,
    /// Lines read for stores.
    pub stores: u64,
    /// Lines read by prefetchers.
    pub prefetches: u64,
    /// Modified victims (and lines that another hart wanted) that were waited for.
    pub write_backs: u64,
    /// Modified lines that were written back without waiting.
    pub posted: u64,
    /// Modified lines written back by instructions.
    pub flushes: u64,
}

impl LineCounts {
    /// What was counted since `o` was.
    pub(super) fn minus(&self, o: &LineCounts) -> LineCounts {
        LineCounts {
            loads: self.loads.saturating_sub(o.loads),
            stores: self.stores.saturating_sub(o.stores),
            prefetches: self.prefetches.saturating_sub(o.prefetches),
            write_backs: self.write_backs.saturating_sub(o.write_backs),
            posted: self.posted.saturating_sub(o.posted),
            flushes: self.flushes.saturating_sub(o.flushes),
        }
    }

    /// Adds other counts.
    pub fn plus(&mut self, o: &LineCounts) {
        self.loads += o.loads;
        self.stores += o.stores;
        self.prefetches += o.prefetches;
        self.write_backs += o.write_backs;
        self.posted += o.posted;
        self.flushes += o.flushes;
    }

    /// Lines for which a hart waited.
    pub fn reads(&self) -> u64 {
        self.loads + self.stores
    }

    /// Modified lines written.
    pub fn writes(&self) -> u64 {
        self.write_backs + self.posted + self.flushes
    }
}

/// Lines by class of gap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Classes {
    read: [u32; GAPS],
    write_back: [u32; GAPS],
    flush: [u32; GAPS],
}

/// Written lines of one memory whose class is that of the gap before the next transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Behind {
    posted: u32,
    flushed: u32,
}

/// The epoch of a hart, and what its epochs were together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HartEpochs {
    /// Core cycle and instructions at the start of the epoch.
    from: (u64, u64),
    /// Core cycle at which the epoch is looked at again.
    next: u64,
    /// Core cycle at which the last transfer ended.
    last: u64,
    /// Class of a write-back that is waited for, and which the read follows for which it makes room.
    victim: Option<u8>,
    /// By memory; whether there are any.
    behind: Vec<Behind>,
    is_behind: bool,
    classes: Vec<Classes>,
    now: Vec<LineCounts>,
    all: Vec<LineCounts>,
    ended: [u64; EpochEnd::ALL.len()],
    /// Picoseconds that are not in the hart's time yet.
    carry: i64,
    /// Picoseconds that epochs have added, and those charged at once.
    delayed: u64,
    charged: u64,
}

/// An epoch that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochRow {
    /// Hart.
    pub hart: usize,
    /// Its core cycles and instructions at the beginning.
    pub from: (u64, u64),
    /// Its core cycles and instructions at the end, with the delay.
    pub to: (u64, u64),
    /// Why it ended.
    pub why: EpochEnd,
    /// Its delay, in core cycles.
    pub delay: u64,
    /// Lines by memory.
    pub lines: Vec<LineCounts>,
}

/// What the light mode has counted and estimated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LightReport {
    /// Times of the report are estimates.
    pub estimated: bool,
    /// Epochs by the reason of their end.
    pub epochs: Vec<(String, u64)>,
    /// Waiting for memory that was charged at once, all harts together.
    pub charged_ps: u64,
    /// What epochs have added.
    pub delayed_ps: u64,
    /// By memory: its name, and its lines.
    pub memories: Vec<(String, LineCounts)>,
}

impl HartEpochs {
    /// The gap behind written lines is known now.
    fn settle_behind(&mut self, class: u8) {
        for (b, c) in self.behind.iter_mut().zip(&mut self.classes) {
            c.write_back[class as usize] += b.posted;
            c.flush[class as usize] += b.flushed;
            *b = Behind::default();
        }
        self.is_behind = false;
    }
}

impl LightReport {
    /// What has happened since an earlier report.
    pub(super) fn since(mut self, o: &LightReport) -> LightReport {
        for (a, b) in self.epochs.iter_mut().zip(&o.epochs) {
            a.1 = a.1.saturating_sub(b.1);
        }
        self.charged_ps = self.charged_ps.saturating_sub(o.charged_ps);
        self.delayed_ps = self.delayed_ps.saturating_sub(o.delayed_ps);
        for (a, b) in self.memories.iter_mut().zip(&o.memories) {
            a.1 = a.1.minus(&b.1);
        }
        self
    }

    /// Two stretches of time together.
    pub(super) fn plus(mut self, o: &LightReport) -> LightReport {
        self.estimated |= o.estimated;
        for (a, b) in self.epochs.iter_mut().zip(&o.epochs) {
            a.1 += b.1;
        }
        self.charged_ps += o.charged_ps;
        self.delayed_ps += o.delayed_ps;
        for (a, b) in self.memories.iter_mut().zip(&o.memories) {
            a.1.plus(&b.1);
        }
        self
    }
}

/// The light mode of a machine.
#[derive(Debug, Clone)]
pub(super) struct Light {
    pub model: LightModel,
    pub length: EpochLength,
    /// Core cycles of an epoch.
    cycles: u64,
    /// Picoseconds of a core cycle, as a fraction.
    period: (u64, u64),
    /// What is charged at once: core cycles of a read, and of a write-back.
    at_once: (u64, u64),
    /// What is charged later, by memory, in picoseconds.
    rest: Vec<Rest>,
    harts: Vec<HartEpochs>,
    /// Epochs only divide and count a run of the detailed mode.
    pub counts_only: bool,
    pub log: Option<Vec<EpochRow>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Rest {
    read: [i64; GAPS],
    write_back: [i64; GAPS],
    flush: [i64; GAPS],
    /// What has been charged at once for a written line that was waited for.
    charged: i64,
}

impl Light {
    pub fn new(
        model: LightModel,
        length: EpochLength,
        (harts, memory): (usize, u64),
        period: Period,
        method: Method,
    ) -> Result<Light, LightError> {
        let period = period.fraction();
        let mut at = 0;
        for a in &model.areas {
            if a.base != at || a.end <= at || a.costs.is_empty() {
                return Err(LightError::Areas);
            }
            at = a.end;
            const SECOND: u64 = 1_000_000_000_000;
            if a.costs.iter().flat_map(LineCosts::each).any(|c| c > SECOND) {
                return Err(LightError::Cost(a.name.clone()));
            }
        }
        if at != memory || model.areas.len() > MOST_AREAS || model.gap_bits > 32 {
            return Err(LightError::Areas);
        }
        let possible = Ps(1_000_000)..=Ps(1_000_000_000_000);
        if !possible.contains(&length.time) || length.instructions.is_some_and(|n| n < 1000) {
            return Err(LightError::Length(length.time));
        }
        let n = model.areas.len();
        let none = HartEpochs {
            behind: vec![Behind::default(); n],
            classes: vec![Classes::default(); n],
            now: vec![LineCounts::default(); n],
            all: vec![LineCounts::default(); n],
            ..HartEpochs::default()
        };
        let mut light = Light {
            cycles: (length.time.0 * period.1 / period.0).max(1),
            model,
            length,
            period,
            at_once: (0, 0),
            rest: Vec::new(),
            harts: vec![none; harts],
            counts_only: false,
            log: None,
        };
        light.use_method(method);
        Ok(light)
    }

    /// The costs are those under a method from now on. Open epochs count as under it.
    pub fn use_method(&mut self, method: Method) {
        let costs: Vec<LineCosts> = self.model.areas.iter().map(|a| a.under(method)).collect();
        let (num, den) = self.period;
        let least = |f: fn(&LineCosts) -> &[u64; GAPS]| costs.iter().flat_map(f).copied().min();
        let cycles = |ps: Option<u64>| ps.unwrap_or(0) * den / num;
        let read = cycles(least(|c| &c.read_ps));
        let write = cycles(least(|c| &c.write_back_ps).min(least(|c| &c.flush_ps)));
        self.at_once = (read, write);
        let rest = |costs: &[u64; GAPS], cycles: u64| {
            costs.map(|c| c as i64 - (cycles * num / den) as i64)
        };
        self.rest = costs
            .iter()
            .map(|c| Rest {
                read: rest(&c.read_ps, read),
                write_back: rest(&c.write_back_ps, 0),
                flush: rest(&c.flush_ps, 0),
                charged: (write * num / den) as i64,
            })
            .collect();
    }

    #[inline]
    fn area(&self, offset: u64) -> usize {
        let areas = &self.model.areas;
        areas.iter().position(|a| offset < a.end).unwrap_or(0)
    }

    /// The class of a gap in core cycles.
    #[inline]
    fn class(&self, gap: u64) -> u8 {
        let class = u64::BITS - (gap >> self.model.gap_bits).leading_zeros();
        class.min(GAPS as u32 - 1) as u8
    }

    /// A hart reads a line or writes one back. Returns when it goes on.
    #[inline]
    pub fn transfer(&mut self, req: &LineRequest, offset: u64, write: bool) -> u64 {
        let area = self.area(offset);
        let h = &self.harts[req.hart];
        let class = self.class(req.cycle.saturating_sub(h.last));
        let h = &mut self.harts[req.hart];
        if h.is_behind {
            h.settle_behind(class);
        }
        let cost = if write {
            self.at_once.1
        } else {
            self.at_once.0
        };
        h.last = req.cycle + cost;
        let (n, classes) = (&mut h.now[area], &mut h.classes[area]);
        match (write, req.kind) {
            (true, LineKind::Flush) => {
                n.flushes += 1;
                h.behind[area].flushed += 1;
                h.is_behind = true;
            }
            (true, _) => {
                n.write_backs += 1;
                classes.write_back[class as usize] += 1;
                h.victim = Some(class);
            }
            (false, kind) => {
                match kind {
                    LineKind::Store => n.stores += 1,
                    _ => n.loads += 1,
                }
                let class = h.victim.take().unwrap_or(class);
                classes.read[class as usize] += 1;
            }
        }
        h.last
    }

    /// A line is written back, and nobody waits.
    #[inline]
    pub fn post(&mut self, req: &LineRequest, offset: u64) {
        let area = self.area(offset);
        let h = &mut self.harts[req.hart];
        h.now[area].posted += 1;
        h.behind[area].posted += 1;
        h.is_behind = true;
    }

    /// A prefetcher reads a line. Returns when it comes.
    pub fn prefetch(&mut self, req: &LineRequest, offset: u64) -> u64 {
        let area = self.area(offset);
        self.harts[req.hart].now[area].prefetches += 1;
        let more = self.rest[area].read[GAPS - 1].max(0) as u64;
        req.cycle + self.at_once.0 + more * self.period.1 / self.period.0
    }

    /// An epoch ends: see [`nagori_hart::world::MemPort::epoch_ends`].
    pub fn epoch_ends(&mut self, end: &Epoch) -> (u64, u64) {
        let h = &mut self.harts[end.hart];
        if let (Some(n), EpochEnd::Full) = (self.length.instructions, end.why) {
            // A cycle is at least an instruction's, so this comes closer to the number, and not beyond it.
            let left = n.saturating_sub(end.instret - h.from.1);
            if left > 0 {
                h.next = end.cycle + left;
                return (0, h.next);
            }
        }
        let gap = self.class(end.cycle.saturating_sub(self.harts[end.hart].last));
        let h = &mut self.harts[end.hart];
        if h.is_behind {
            h.settle_behind(gap);
        }
        let mut more = i128::from(h.carry);
        for ((n, c), rest) in h.now.iter().zip(&mut h.classes).zip(&self.rest) {
            if !self.counts_only && *n != LineCounts::default() {
                let sum = |n: &[u32; GAPS], ps: &[i64; GAPS]| -> i128 {
                    let each = n.iter().zip(ps);
                    each.map(|(n, ps)| i128::from(*n) * i128::from(*ps)).sum()
                };
                more += sum(&c.read, &rest.read)
                    + sum(&c.write_back, &rest.write_back)
                    + sum(&c.flush, &rest.flush)
                    - i128::from(n.write_backs + n.flushes) * i128::from(rest.charged);
            }
            *c = Classes::default();
        }
        let (num, den) = (i128::from(self.period.0), i128::from(self.period.1));
        let more = more.clamp(-LONGEST, LONGEST);
        let cycles = (more * den / num).max(0);
        let added = cycles * num / den;
        h.carry = (more - added) as i64;
        h.delayed += added as u64;
        h.ended[end.why as usize] += 1;
        let cycles = cycles as u64;
        let to = end.cycle + cycles;
        if let Some(log) = &mut self.log {
            log.push(EpochRow {
                hart: end.hart,
                from: h.from,
                to: (to, end.instret),
                why: end.why,
                delay: cycles,
                lines: h.now.clone(),
            });
        }
        for (all, n) in h.all.iter_mut().zip(&mut h.now) {
            let reads = n.reads() * self.at_once.0;
            let writes = (n.write_backs + n.flushes) * self.at_once.1;
            h.charged += (reads + writes) * self.period.0 / self.period.1;
            all.plus(n);
            *n = LineCounts::default();
        }
        h.from = (to, end.instret);
        let next = self.next_end(to);
        self.harts[end.hart].next = next;
        (cycles, next)
    }

    /// The cycle at which an epoch is looked at again that begins at one.
    pub fn next_end(&self, from: u64) -> u64 {
        from.saturating_add(self.length.instructions.unwrap_or(self.cycles))
    }

    /// An epoch of a hart begins, and what an open one has counted is forgotten.
    fn begin(&mut self, hart: usize, cycle: u64, instret: u64) -> u64 {
        let next = self.next_end(cycle);
        let h = &mut self.harts[hart];
        h.from = (cycle, instret);
        h.next = next;
        h.last = cycle;
        h.victim = None;
        h.is_behind = false;
        h.behind.fill(Behind::default());
        h.classes.fill(Classes::default());
        h.now.fill(LineCounts::default());
        next
    }

    /// Statistics start anew. Open epochs go on, and count as a whole.
    pub fn reset_stats(&mut self) {
        for h in &mut self.harts {
            h.all.fill(LineCounts::default());
            h.ended = Default::default();
            (h.delayed, h.charged) = (0, 0);
        }
    }

    /// The epochs as saved in a snapshot.
    pub fn save(&self) -> SavedLight {
        SavedLight {
            model: self.model.clone(),
            length: self.length,
            counts_only: self.counts_only,
            harts: self.harts.clone(),
        }
    }

    pub fn report(&self) -> LightReport {
        let ended = |why: &EpochEnd| self.harts.iter().map(|h| h.ended[*why as usize]).sum();
        let lines = |i: usize| {
            let mut sum = LineCounts::default();
            for h in &self.harts {
                sum.plus(&h.all[i]);
                sum.plus(&h.now[i]);
            }
            sum
        };
        let names = self.model.areas.iter().enumerate();
        LightReport {
            estimated: !self.counts_only,
            epochs: EpochEnd::ALL
                .iter()
                .map(|w| (w.name().to_owned(), ended(w)))
                .collect(),
            charged_ps: self.harts.iter().map(|h| h.charged).sum(),
            delayed_ps: self.harts.iter().map(|h| h.delayed).sum(),
            memories: names.map(|(i, a)| (a.name.clone(), lines(i))).collect(),
        }
    }
}

/// The light mode as saved in a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedLight {
    model: LightModel,
    length: EpochLength,
    counts_only: bool,
    harts: Vec<HartEpochs>,
}

impl SavedLight {
    /// The light mode goes on. `None` if it is not that of such a machine at these cycles.
    pub fn restore(
        self,
        machine: (usize, u64),
        period: Period,
        method: Method,
        counts: impl Iterator<Item = (u64, u64)>,
    ) -> Option<Light> {
        let mut light = Light::new(self.model, self.length, machine, period, method).ok()?;
        let n = light.model.areas.len();
        let fits = |h: &HartEpochs| {
            let lens = [h.now.len(), h.all.len(), h.behind.len(), h.classes.len()];
            lens == [n; 4] && h.victim.is_none_or(|c| (c as usize) < GAPS)
        };
        let mut each = self.harts.iter().zip(counts);
        let begun = each.all(|(h, (cycle, instret))| h.from.0 <= cycle && h.from.1 <= instret);
        let all = self.harts.len() == machine.0 && self.harts.iter().all(fits);
        light.harts = self.harts;
        light.counts_only = self.counts_only;
        (all && begun).then_some(light)
    }
}

impl<O: Observer> Machine<O> {
    /// What the light mode needs of the machine.
    fn light_of(&self, model: LightModel, length: EpochLength) -> Result<Light, LightError> {
        let machine = (self.harts.len(), self.world.ram.len());
        let method = self.world.memory.board.params().method;
        Light::new(model, length, machine, self.config.core_period(), method)
    }

    /// Chooses the light mode for when the timing model is on, with the costs of the memories, from now on.
    ///
    /// # Errors
    /// If the costs are not those of such a machine, or the length is out of range.
    pub fn set_light(&mut self, model: LightModel, length: EpochLength) -> Result<(), LightError> {
        let light = self.light_of(model, length)?;
        self.begin_epochs(light);
        Ok(())
    }

    /// Divides the detailed mode into epochs, to be compared with those of the light mode.
    ///
    /// # Errors
    /// As [`Machine::set_light`].
    pub fn count_epochs(
        &mut self,
        model: LightModel,
        length: EpochLength,
    ) -> Result<(), LightError> {
        let mut light = self.light_of(model, length)?;
        light.counts_only = true;
        self.begin_epochs(light);
        Ok(())
    }

    fn begin_epochs(&mut self, light: Light) {
        self.settle();
        if self.world.timed {
            self.end_waits();
        }
        self.world.light = Some(Box::new(light));
        self.restart_epochs();
    }

    /// Leaves the light mode; the timing model is the detailed one from now on.
    pub fn leave_light(&mut self) {
        self.settle();
        self.world.light = None;
        self.restart_epochs();
    }

    /// The harts learn whether there are epochs, and new ones begin.
    pub(super) fn restart_epochs(&mut self) {
        for (i, h) in self.harts.iter_mut().enumerate() {
            match &mut self.world.light {
                Some(l) => {
                    let next = l.begin(i, h.cycle, h.instret);
                    h.set_light(!l.counts_only, next);
                }
                None => h.set_light(false, u64::MAX),
            }
        }
        // Code differs where epochs end within blocks.
        self.translators.iter_mut().for_each(|t| t.forget());
        self.together.iter_mut().for_each(|t| t.forget());
    }

    /// Harts of a snapshot go on with their epochs.
    pub(super) fn resume_epochs(&mut self) {
        let light = self.world.light.as_deref();
        for (i, h) in self.harts.iter_mut().enumerate() {
            match light {
                Some(l) => h.set_light(!l.counts_only, l.harts[i].next),
                None => h.set_light(false, u64::MAX),
            }
        }
    }

    /// Whether times are estimated by epochs while the timing model is on.
    pub fn is_light(&self) -> bool {
        self.world.light.as_ref().is_some_and(|l| !l.counts_only)
    }

    /// Keeps every epoch that ends from now on, for [`Machine::take_epochs`].
    pub fn keep_epochs(&mut self) {
        if let Some(l) = &mut self.world.light {
            l.log = Some(Vec::new());
        }
    }

    /// The epochs that have ended since they were kept or taken.
    pub fn take_epochs(&mut self) -> Vec<EpochRow> {
        let log = self.world.light.as_mut().and_then(|l| l.log.as_mut());
        log.map(std::mem::take).unwrap_or_default()
    }
}
