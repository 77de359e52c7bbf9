//! A DIMM of 3D-XPoint class behind a buffering controller.
//!
//! ```text
//!            read queue                 lines read (16 KB)
//! port ──┬──────────────► lookup ──────────────┬──► medium: reads of a line
//!        │                   ▲                  │      one every media_slot
//!        └─► write queue ──► combining buffer ──┴──► medium: writes of a line
//!            (response here)  (16 KB)                one every media_write_interval
//! ```
//!
//! # Rules
//! - A **read** takes the channel for `beat`, then looks into the write queue, the combining buffer
//!   and the read buffer. On a hit it has its data after `buffer_read`; otherwise the line is read
//!   from the medium (available `media_read` after its slot there), put into the read buffer, and read from
//!   there. `path` is added once. When the first `read_ahead` sectors of
//!   a line have been read in order, and the line before it was read as well, the next line is read ahead.
//! - A **write** is complete `write_response` after its arrival (the queue is in the persistence
//!   domain). Writes move in order from the queue into the combining buffer, one every `beat`.
//! - **Lines leave the combining buffer** one every `media_write_interval` (write current), never sooner. While
//!   there is room, only complete lines leave, the first one first. While a write waits for room, one
//!   of the older half leaves, complete or not. An incomplete line is read from the medium first. A complete
//!   one accepts no more writes.
//! - **Room** in both buffers is made by one of the older half of their lines, chosen at random. So a line is
//!   written, or read, whole if its parts come before half of the buffer is filled by others, however many
//!   streams these belong to.
//! - **Medium**: one path for both directions, busy for `media_slot` with a line. Writes take their slots (two
//!   for an incomplete line) when their turn comes, and reads what is left.
//! - **Translation**: each line access needs the translation of its page; one that is not cached
//!   costs `translation_miss` before the access begins. It does not delay the turns of other lines.
//! - **Wear levelling** by [`StartGap`]: each move is one more line read and write. Besides, a block
//!   that gets most writes for `threshold` line writes moves to a spare place ([`migrate`]): a line
//!   is copied every `line_time`, and until the end the block's writes stay in the queue, in front
//!   of all later ones, and are answered `write_response` after it.
//!
//! At equal times, arriving reads go before internal events.

mod buffers;
#[cfg(test)]
mod host;
mod lines;
mod migrate;
mod params;
#[cfg(test)]
mod published;
mod saved;
#[cfg(test)]
mod tests;

pub use params::{XpointEnergy, XpointMigration, XpointParams, XpointWear};
pub use saved::Saved;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{Change, Counters, EnergyStats, Latency, MemoryModel, ModelStats, RegionStats};
use crate::period::Period;
use crate::request::{Completion, Kind, Request, Submit};
use crate::saved::SavedModel;
use crate::startgap::StartGap;
use crate::units::Ps;
use crate::wear::{Wear, WearParams};
use crate::window::Window;
use buffers::{Combine, Translations};
use lines::ReadLines;
use migrate::Migrate;

/// Counts of a DIMM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XpointCounters {
    /// Reads accepted.
    pub reads: u64,
    /// Writes accepted.
    pub writes: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
    /// Reads served from a buffer or the queue.
    pub buffer_hits: u64,
    /// Writes merged into a line of the combining buffer.
    pub writes_merged: u64,
    /// Lines read from the medium for reads.
    pub media_reads: u64,
    /// Lines read because an incomplete line was written back.
    pub media_fills: u64,
    /// Lines written back.
    pub media_writes: u64,
    /// Lines moved by wear levelling (one read and one write each).
    pub moves: u64,
    /// Hot blocks that began to move; their lines are among `moves`.
    pub migrations: u64,
    /// Lines read ahead; they are among `media_reads`.
    pub read_aheads: u64,
    /// Translations that were cached.
    pub translation_hits: u64,
    /// Translations that were not cached.
    pub translation_misses: u64,
}

impl XpointCounters {
    /// Bytes written to the medium per byte of accepted writes.
    pub fn write_amplification(&self, line_bytes: u64) -> Option<f64> {
        let lines = self.media_writes + self.moves;
        (self.write_bytes > 0).then(|| (lines * line_bytes) as f64 / self.write_bytes as f64)
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Queued {
    id: u64,
    line: u64,
    mask: u64,
    ready: Ps,
}

/// The DIMM. See the [module](self) for the rules.
#[derive(Clone, Debug)]
pub struct Xpoint {
    params: XpointParams,
    latest: Ps,
    /// When the channel is free again.
    channel: Ps,
    /// When the medium's path is free again.
    media: Ps,
    /// Earliest beginning of the next line write.
    next_write: Ps,
    /// End of the last line write.
    written: Ps,
    /// Line moves that wait for the medium.
    moves_due: u32,
    /// When the combining buffer takes the next write.
    combine_free: Ps,
    queue: VecDeque<Queued>,
    combine: Combine,
    /// All lines are to be written back.
    flushing: bool,
    lines: ReadLines,
    /// A line's number without so many bits is its page's.
    page_shift: u32,
    translations: Translations,
    reads: Window,
    start_gap: Option<StartGap>,
    migrate: Option<Migrate>,
    wear: Option<Wear>,
    counters: XpointCounters,
    read_latency: Latency,
    write_latency: Latency,
    from: Ps,
    done: Vec<Completion>,
    changes: Vec<Change>,
}

/// Keys that can change while it runs.
const CHANGEABLE: [&str; 16] = [
    "read_queue",
    "write_queue",
    "path",
    "beat",
    "buffer_read",
    "media_read",
    "media_slot",
    "media_write_interval",
    "write_response",
    "translation_miss",
    "start_gap.gap_interval",
    "migration.threshold",
    "migration.line_time",
    "energy.read_pj",
    "energy.write_pj",
    "energy.background_mw",
];

impl Xpoint {
    /// A DIMM at time 0 with empty buffers.
    pub fn new(params: XpointParams) -> Result<Xpoint, Error> {
        params.validate()?;
        let lines = params.capacity / params.line_bytes;
        let start_gap = match params.start_gap {
            Some(p) => Some(StartGap::new(lines, p)?),
            None => None,
        };
        let wear = match params.wear {
            Some(w) => {
                let spares = params.migration.map_or(0, |m| {
                    u64::from(m.spare_blocks) * (m.block_bytes / params.line_bytes)
                });
                let places = start_gap.as_ref().map_or(lines, StartGap::places) + spares;
                if !w.row_bytes.is_power_of_two() {
                    return Err(Error::Param {
                        field: "wear.row_bytes",
                        value: w.row_bytes.to_string(),
                        expected: "a power of two, at least a line".to_owned(),
                    });
                }
                // Places beyond the last whole row belong to a row of their own.
                let bytes = (places * params.line_bytes).next_multiple_of(w.row_bytes);
                Some(Wear::new(
                    bytes,
                    WearParams {
                        line_bytes: params.line_bytes,
                        row_bytes: w.row_bytes,
                        endurance: w.endurance,
                    },
                )?)
            }
            None => None,
        };
        Ok(Xpoint {
            latest: Ps::ZERO,
            channel: Ps::ZERO,
            media: Ps::ZERO,
            next_write: Ps::ZERO,
            written: Ps::ZERO,
            moves_due: 0,
            combine_free: Ps::ZERO,
            queue: VecDeque::with_capacity(params.write_queue as usize),
            combine: Combine::new(
                params.combine_lines as usize,
                params.line_bytes,
                params.seed,
            ),
            flushing: false,
            lines: ReadLines::new(params.read_lines as usize, params.line_bytes, params.seed),
            page_shift: (params.translation_bytes / params.line_bytes).trailing_zeros(),
            translations: Translations::new(params.translation_entries as usize),
            reads: Window::new(params.read_queue as usize),
            start_gap,
            migrate: params
                .migration
                .as_ref()
                .map(|m| Migrate::new(m, lines, params.line_bytes)),
            wear,
            counters: XpointCounters::default(),
            read_latency: Latency::default(),
            write_latency: Latency::default(),
            from: Ps::ZERO,
            done: Vec::new(),
            changes: Vec::new(),
            params,
        })
    }

    /// The parameters.
    pub fn params(&self) -> &XpointParams {
        &self.params
    }

    /// Wear counters, if wear is counted. Addresses are those of the medium, after levelling.
    pub fn wear(&self) -> Option<&Wear> {
        self.wear.as_ref()
    }

    /// Counters so far.
    pub fn counters(&self) -> &XpointCounters {
        &self.counters
    }

    /// Goes on until nothing happens inside any more.
    fn play_out(&mut self) -> Result<(), Error> {
        while let Some(t) = self.next_inner() {
            self.advance_to(t + Ps(1))?;
        }
        Ok(())
    }

    /// Processes all internal events before the latest time.
    fn settle(&mut self) {
        while let Some(e) = self.next_inner().filter(|e| *e < self.latest) {
            self.step(e);
        }
        self.reads.pass(self.latest);
    }

    fn complete(&mut self, r: &Request, at: Ps, accepted_at: Ps, done_at: Ps, row_hit: bool) {
        let latency = done_at.saturating_sub(at);
        match r.kind {
            Kind::Read => self.read_latency.add(latency),
            Kind::Write => self.write_latency.add(latency),
        }
        self.done.push(Completion {
            id: r.id,
            kind: r.kind,
            accepted_at,
            done_at,
            row_hit,
        });
    }

    /// Serves a read that reaches the buffers at `t`; returns when its data is available, and
    /// whether a buffer had it.
    fn read(&mut self, t: Ps, line: u64, mask: u64) -> (Ps, bool) {
        let b = self.params.buffer_read;
        let queued = self
            .queue
            .iter()
            .any(|q| q.line == line && q.mask & mask == mask);
        if queued || self.combine.has(line, mask) {
            self.counters.buffer_hits += 1;
            return (t + b, true);
        }
        let found = self.lines.find(line);
        let hit = found.is_some();
        let (slot, ready) = match found {
            Some(i) => (i, t.max(self.lines.ready(i)) + b),
            None => {
                let (i, ready) = self.fetch(t, line, false);
                (i, ready + b)
            }
        };
        self.counters.buffer_hits += u64::from(hit);
        // Eight units of eight bytes are a sector.
        let sectors = self.lines.mark(slot, mask.trailing_zeros() / 8);
        let next = line + 1;
        let ahead = sectors == Some(self.params.read_ahead)
            && next < self.params.capacity / self.params.line_bytes
            && self.lines.follows(slot);
        if ahead && self.lines.find(next).is_none() {
            self.counters.read_aheads += 1;
            self.fetch(t, next, true);
        }
        (ready, hit)
    }

    /// Reads a line from the medium into the read buffer. Returns its slot and when it is there.
    fn fetch(&mut self, t: Ps, line: u64, ahead: bool) -> (usize, Ps) {
        let start = (t + self.translate(line)).max(self.media);
        self.media = start + self.params.media_slot;
        self.counters.media_reads += 1;
        let ready = start + self.params.media_read;
        (self.lines.insert(line, ready, ahead), ready)
    }

    fn translate(&mut self, line: u64) -> Ps {
        if self.translations.touch(line >> self.page_shift) {
            self.counters.translation_hits += 1;
            Ps::ZERO
        } else {
            self.counters.translation_misses += 1;
            self.params.translation_miss
        }
    }

    /// When the first queued write can enter the combining buffer, and whether there is a place for it.
    fn entering(&self) -> Option<(Ps, bool)> {
        let q = self.queue.front()?;
        let place = self.combine.has_room() || self.combine.open(q.line).is_some();
        Some((q.ready.max(self.combine_free), place))
    }

    /// Time of the next internal event: a write enters the combining buffer, or a line write
    /// begins.
    fn next_inner(&self) -> Option<Ps> {
        let entering = self.entering();
        let enter = entering.and_then(|(t, place)| place.then_some(t));
        let since = if self.moves_due > 0 || self.flushing && !self.combine.is_empty() {
            Some(Ps::ZERO)
        } else {
            let waits = entering.and_then(|(t, place)| (!place).then_some(t));
            [waits, self.combine.complete_since()]
                .into_iter()
                .flatten()
                .min()
        };
        let copy = self.migrate.as_ref().and_then(Migrate::next);
        let begin = [since, copy].into_iter().flatten().min();
        let begin = begin.map(|t| t.max(self.next_write));
        [enter, begin].into_iter().flatten().min()
    }

    fn step(&mut self, t: Ps) {
        let entering = self.entering().filter(|(at, _)| *at <= t);
        if let Some((_, true)) = entering {
            if let Some(q) = self.queue.pop_front() {
                let place = self.combine.open(q.line);
                self.counters.writes_merged += u64::from(place.is_some());
                self.combine.write(place, q.line, q.mask, t);
                self.combine_free = t + self.params.beat;
            }
            return;
        }
        if self.moves_due > 0 {
            self.moves_due -= 1;
            self.counters.moves += 1;
            self.write_medium(t, t, true);
            return;
        }
        if let (Some(m), Some(p)) = (&mut self.migrate, &self.params.migration) {
            if m.next().is_some_and(|n| n <= t) {
                if let Some(place) = m.copy(p, t) {
                    self.counters.moves += 1;
                    self.wear_out(place);
                    self.write_medium(t, t, true);
                }
                return;
            }
        }
        let leaves = if entering.is_some() {
            self.combine_free = self.combine_free.max(t);
            self.combine.make_room()
        } else if self.flushing {
            self.combine.take_first()
        } else {
            self.combine.take_complete()
        };
        let Some((line, complete)) = leaves else {
            return;
        };
        self.counters.media_writes += 1;
        self.counters.media_fills += u64::from(!complete);
        let begin = t + self.translate(line);
        self.write_medium(t, begin, !complete);
        let place = self.migrate.as_ref().map_or(line, |m| m.place(line));
        self.wear_out(place);
        if let (Some(m), Some(p)) = (&mut self.migrate, &self.params.migration) {
            self.counters.migrations += u64::from(m.wrote(p, t, line));
        }
    }

    /// A place of the medium is written. Places beyond the DIMM's lines are spare ones, which only
    /// whole blocks use.
    fn wear_out(&mut self, place: u64) {
        let lines = self.params.capacity / self.params.line_bytes;
        let mut written = [Some(place), None];
        if let Some(s) = &mut self.start_gap {
            if place < lines {
                let permuted = s.permute(place);
                let at = s.place_permuted(permuted);
                let moved = s.write_permuted(permuted);
                self.moves_due += u32::from(moved.is_some());
                written = [Some(at), moved.map(|m| m.to)];
            } else {
                written = [Some(place - lines + s.places()), None];
            }
        }
        if let Some(w) = &mut self.wear {
            let bytes = self.params.line_bytes;
            for p in written.into_iter().flatten() {
                w.write(p * bytes).expect("places are inside the medium");
            }
        }
    }

    /// One line write whose turn is at `t`, and which begins at `begin`, preceded by a line read if
    /// requested.
    fn write_medium(&mut self, t: Ps, begin: Ps, fill: bool) {
        let slots = if fill { 2 } else { 1 };
        let busy = Ps(slots * self.params.media_slot.0);
        self.media = self.media.max(t) + busy;
        self.written = self.written.max(begin + busy);
        self.next_write = t + self.params.media_write_interval;
    }
}

/// `Busy` gives the next time at which an internal event happens; the queue may still be full then.
impl MemoryModel for Xpoint {
    fn capacity(&self) -> u64 {
        self.params.capacity
    }

    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        r.check(self.params.capacity)?;
        self.advance_to(at)?;
        let at = self.latest;
        let line = r.addr / self.params.line_bytes;
        let mask = units(r.addr % self.params.line_bytes, r.bytes, r.kind);
        match r.kind {
            Kind::Read => {
                if let (true, Some(end)) = (self.reads.is_full(), self.reads.first()) {
                    return Ok(Submit::Busy(end));
                }
                let start = at.max(self.channel);
                self.channel = start + self.params.beat;
                let (ready, hit) = self.read(self.channel, line, mask);
                let end = ready + self.params.path;
                self.reads.push(end);
                self.counters.reads += 1;
                self.counters.read_bytes += u64::from(r.bytes);
                self.complete(&r, at, start, end, hit);
            }
            Kind::Write => {
                if self.queue.len() >= self.params.write_queue as usize {
                    // The next thing that happens inside may make room.
                    let next = self.next_inner().map_or(at, |t| t.max(at));
                    return Ok(Submit::Busy(next + Ps(1)));
                }
                let start = at.max(self.channel);
                self.channel = start + self.params.beat;
                let moving = self.migrate.as_ref().and_then(|m| m.until(line));
                let held = moving.map_or(start, |until| until.max(start));
                self.queue.push_back(Queued {
                    id: r.id,
                    line,
                    mask,
                    ready: held.max(self.channel),
                });
                self.counters.writes += 1;
                self.counters.write_bytes += u64::from(r.bytes);
                let end = held + self.params.write_response;
                self.complete(&r, at, start, end, false);
            }
        }
        Ok(Submit::Accepted)
    }

    fn next_event(&self) -> Option<Ps> {
        let inner = self.next_inner().map(|t| t + Ps(1));
        match (inner, self.reads.first()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
        .map(|t| t.max(self.latest))
    }

    fn advance_to(&mut self, t: Ps) -> Result<(), Error> {
        if t > Ps::MAX_TIME {
            return Err(Error::TooLate(t));
        }
        self.latest = self.latest.max(t);
        self.settle();
        Ok(())
    }

    /// Writes all lines back to the medium, as at power-down.
    fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        self.advance_to(at)?;
        while !self.queue.is_empty() {
            match self.next_inner() {
                Some(t) => self.advance_to(t + Ps(1))?,
                None => break,
            }
        }
        self.flushing = true;
        // Lines are written back from now on, whenever their last write came.
        self.next_write = self.next_write.max(self.latest);
        let done = self.play_out();
        self.flushing = false;
        done?;
        self.advance_to(self.written)?;
        Ok(self.written)
    }

    /// The DIMM's queue and buffers are in the persistence domain (ADR supplies the power to reach
    /// the medium): a write is unfinished only while it is on the channel to the DIMM.
    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error> {
        if at > Ps::MAX_TIME {
            return Err(Error::TooLate(at));
        }
        // The channel goes on by itself: nothing inside has to be played.
        let at = at.max(self.latest);
        let outside = self.queue.iter().filter(|q| q.ready > at);
        Ok(crate::window::distinct(outside.map(|q| q.id).collect()))
    }

    fn drain(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.done);
    }

    fn report(&self, at: Ps) -> ModelStats {
        let mut d = self.clone();
        let to = self.latest.max(at).min(Ps::MAX_TIME);
        d.latest = to;
        d.settle();
        let (p, c) = (&d.params, d.counters);
        let energy = p.energy.map(|e| EnergyStats {
            read: pj(c.media_reads + c.media_fills + c.moves, e.read_pj),
            write: pj(c.media_writes + c.moves, e.write_pj),
            // mW times ps are 10^-3 pJ.
            background: e.background_mw as f64 * to.saturating_sub(d.from).0 as f64 / 1000.0,
            ..EnergyStats::default()
        });
        let region = RegionStats {
            name: "xpoint".to_owned(),
            counters: Counters {
                reads: c.reads,
                writes: c.writes,
                read_bytes: c.read_bytes,
                write_bytes: c.write_bytes,
                row_hits: c.buffer_hits,
                row_misses: c.media_reads,
                merged_writes: c.writes_merged,
                ..Counters::default()
            },
            read_latency: d.read_latency.clone(),
            write_latency: d.write_latency.clone(),
            energy,
            wear: d
                .wear
                .as_ref()
                .map(|w| w.report(to).summary(w.capacity(), c.moves)),
        };
        let mut counters: std::collections::BTreeMap<String, f64> = [
            ("buffer_hits", c.buffer_hits),
            ("media_reads", c.media_reads),
            ("media_fills", c.media_fills),
            ("media_writes", c.media_writes),
            ("levelling_moves", c.moves),
            ("migrations", c.migrations),
            ("read_aheads", c.read_aheads),
            ("translation_hits", c.translation_hits),
            ("translation_misses", c.translation_misses),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v as f64))
        .collect();
        if let Some(a) = c.write_amplification(p.line_bytes) {
            counters.insert("write_amplification".to_owned(), a);
        }
        ModelStats {
            name: "xpoint".to_owned(),
            from: d.from,
            to,
            clock: p.clock,
            regions: vec![region],
            changes: d.changes.clone(),
            counters,
            ..ModelStats::default()
        }
    }

    fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        self.advance_to(at)?;
        self.counters = XpointCounters::default();
        self.read_latency = Latency::default();
        self.write_latency = Latency::default();
        self.from = self.latest;
        self.changes.clear();
        if let Some(w) = &mut self.wear {
            w.reset(self.latest);
        }
        Ok(())
    }

    fn clock(&self) -> Period {
        self.params.clock
    }

    /// Keys are those of [`XpointParams`] that are times, energies (applied to the whole interval
    /// of the statistics), queue lengths or the interval of gap moves. A change applies to what
    /// begins at `at` or later; a queue that holds more than its new length accepts nothing until
    /// it has drained below it.
    fn set_parameter(&mut self, at: Ps, key: &str, value: &str) -> Result<(), Error> {
        let (params, from) =
            crate::window::changed(&self.params, "xpoint", key, value, &CHANGEABLE)?;
        XpointParams::validate(&params)?;
        self.advance_to(at)?;
        if let (Some(g), Some(p)) = (&mut self.start_gap, &params.start_gap) {
            g.set_interval(p.gap_interval)?;
        }
        self.reads.set_depth(params.read_queue as usize);
        self.params = params;
        self.changes.push(Change {
            at: self.latest,
            what: key.to_owned(),
            from,
            to: value.to_owned(),
        });
        Ok(())
    }

    fn save(&self) -> SavedModel {
        SavedModel::new(self.saved())
    }

    fn load(&mut self, s: SavedModel) -> Result<(), Error> {
        self.resume(s.of()?)
    }

    fn parameters(&self) -> Vec<(String, String)> {
        crate::window::listed(&self.params, "", &CHANGEABLE)
    }

    fn lookahead(&self) -> Option<Box<dyn MemoryModel + Send>> {
        Some(Box::new(self.clone()))
    }
}

/// Energy of `n` operations.
fn pj(n: u64, each: u64) -> f64 {
    (u128::from(n) * u128::from(each)) as f64
}

/// The units of eight bytes that a request covers: for a read those that it touches, for a write
/// those that it covers completely.
fn units(offset: u64, bytes: u32, kind: Kind) -> u64 {
    let end = offset + u64::from(bytes);
    let (first, last) = match kind {
        Kind::Read => (offset / 8, end.div_ceil(8)),
        Kind::Write => (offset.div_ceil(8), end / 8),
    };
    if first >= last {
        return 0;
    }
    (u64::MAX >> (64 - (last - first))) << first
}
