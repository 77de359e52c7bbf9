//! The saved state of the DIMM.

use serde::{Deserialize, Serialize};

use super::*;
use crate::checks::{
    changes, completions, counts, ensure, latency, now, same_fixed, times, version,
};
use crate::saved::bad;
use crate::startgap::SavedGap;
use crate::wear::SavedWear;

/// Longest queue of writes; the length in use may have been reduced.
const MOST_QUEUED: usize = 256;

/// Version of the format written.
const VERSION: u32 = 3;

/// The complete state of an [`Xpoint`]; see there for the meaning of the fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    version: u32,
    params: XpointParams,
    latest: Ps,
    channel: Ps,
    media: Ps,
    next_write: Ps,
    written: Ps,
    moves_due: u32,
    combine_free: Ps,
    queue: Vec<Queued>,
    combine: buffers::SavedCombine,
    lines: lines::SavedLines,
    translations: Vec<(u64, Vec<u64>)>,
    reads: Vec<Ps>,
    start_gap: Option<SavedGap>,
    migrate: Option<migrate::SavedMigrate>,
    wear: Option<SavedWear>,
    counters: XpointCounters,
    read_latency: Latency,
    write_latency: Latency,
    from: Ps,
    done: Vec<Completion>,
    changes: Vec<Change>,
}

impl Saved {
    pub(crate) fn add_owed(&self, ids: &mut Vec<u64>) {
        ids.extend(self.done.iter().map(|c| c.id));
    }
}

impl Xpoint {
    pub(super) fn saved(&self) -> Saved {
        Saved {
            version: VERSION,
            params: self.params.clone(),
            latest: self.latest,
            channel: self.channel,
            media: self.media,
            next_write: self.next_write,
            written: self.written,
            moves_due: self.moves_due,
            combine_free: self.combine_free,
            queue: self.queue.iter().copied().collect(),
            combine: self.combine.save(),
            lines: self.lines.save(),
            translations: self.translations.save(),
            reads: self.reads.save(),
            start_gap: self.start_gap.as_ref().map(StartGap::save),
            migrate: self.migrate.as_ref().map(Migrate::save),
            wear: self.wear.as_ref().map(Wear::save),
            counters: self.counters,
            read_latency: self.read_latency.clone(),
            write_latency: self.write_latency.clone(),
            from: self.from,
            done: self.done.clone(),
            changes: self.changes.clone(),
        }
    }

    pub(super) fn resume(&mut self, s: Saved) -> Result<(), Error> {
        version(s.version, VERSION, "xpoint DIMM")?;
        same_fixed(&self.params, &s.params, &CHANGEABLE, "xpoint DIMM")?;
        let mut new = Xpoint::new(s.params)?;
        now(s.latest, s.from)?;
        times(
            [s.channel, s.media, s.next_write, s.written, s.combine_free],
            "timers of the DIMM",
        )?;
        let p = &new.params;
        let lines = p.capacity / p.line_bytes;
        let full = u64::MAX >> (64 - p.line_bytes / 8);
        let queued = |q: &Queued| q.line < lines && q.mask & !full == 0;
        ensure(
            s.queue.len() <= MOST_QUEUED && s.queue.iter().all(queued),
            "queued writes",
        )?;
        times(s.queue.iter().map(|q| q.ready), "queued writes")?;
        new.combine.load(s.combine, lines)?;
        new.lines.load(s.lines, lines)?;
        let pages = p.capacity.div_ceil(p.translation_bytes);
        new.translations.load(s.translations, pages)?;
        new.reads = Window::load(p.read_queue as usize, s.reads)?;
        match (&mut new.start_gap, s.start_gap) {
            (None, None) => {}
            (Some(g), Some(s)) => g.load(s)?,
            _ => return Err(bad("wear levelling is there or missing")),
        }
        match (&mut new.migrate, s.migrate) {
            (None, None) => {}
            (Some(m), Some(s)) => m.load(s)?,
            _ => return Err(bad("migration of blocks is there or missing")),
        }
        match (&mut new.wear, s.wear) {
            (None, None) => {}
            (Some(w), Some(s)) => w.load(s)?,
            _ => return Err(bad("wear is there or missing")),
        }
        let XpointCounters {
            reads,
            writes,
            read_bytes,
            write_bytes,
            buffer_hits,
            writes_merged,
            media_reads,
            media_fills,
            media_writes,
            moves,
            migrations,
            read_aheads,
            translation_hits,
            translation_misses,
        } = s.counters;
        counts([
            reads,
            writes,
            read_bytes,
            write_bytes,
            buffer_hits,
            writes_merged,
            media_reads,
            media_fills,
            media_writes,
            moves,
            migrations,
            read_aheads,
            translation_hits,
            translation_misses,
        ])?;
        latency(&s.read_latency)?;
        latency(&s.write_latency)?;
        completions(&s.done)?;
        changes(&s.changes)?;
        new.latest = s.latest;
        new.channel = s.channel;
        new.media = s.media;
        new.next_write = s.next_write;
        new.written = s.written;
        new.moves_due = s.moves_due;
        new.combine_free = s.combine_free;
        new.queue.extend(s.queue);
        new.counters = s.counters;
        new.read_latency = s.read_latency;
        new.write_latency = s.write_latency;
        new.from = s.from;
        new.done = s.done;
        new.changes = s.changes;
        *self = new;
        Ok(())
    }
}
