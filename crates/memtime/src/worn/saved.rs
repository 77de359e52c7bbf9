//! The saved state of a memory with its wear.

use super::*;
use crate::checks::{
    changes, completions, counts, ensure, same_fixed, same_members, times, version, Asked,
};
use crate::saved::{bad, SavedModel};
use crate::startgap::SavedGap;
use crate::wear::SavedWear;

/// Version of the format written.
const VERSION: u32 = 1;

/// Moves in progress and their counted accesses.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedLevelling {
    gap: SavedGap,
    /// From and to.
    moves: Vec<(u64, u64)>,
    waiting: Vec<(Ps, Asked)>,
    ends: Vec<(Ps, u64)>,
    done: Vec<Completion>,
    reads: u64,
    writes: u64,
    lines_moved: u64,
}

/// The complete state of a [`Worn`]; see there for the meaning of the fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    version: u32,
    params: WornParams,
    /// The interval of gap moves in use, which can change.
    gap_interval: Option<u32>,
    inner: SavedModel,
    latest: Ps,
    wear: SavedWear,
    levelling: Option<SavedLevelling>,
    changes: Vec<Change>,
}

impl Saved {
    pub(crate) fn add_owed(&self, ids: &mut Vec<u64>) {
        let mut inner = Vec::new();
        self.inner.add_owed(&mut inner);
        if let Some(l) = &self.levelling {
            inner.retain(|id| id & OWN == 0);
            inner.extend(l.done.iter().map(|c| c.id));
        }
        ids.append(&mut inner);
    }
}

impl Worn {
    pub(super) fn saved(&self) -> Saved {
        let levelling = self.levelling.as_ref().map(|l| {
            let mut ends: Vec<_> = l.ends.iter().map(|e| e.0).collect();
            ends.sort_unstable();
            SavedLevelling {
                gap: l.gap.save(),
                moves: l.moves.iter().map(|m| (m.from, m.to)).collect(),
                waiting: l.waiting.iter().map(|w| (w.0, Asked::new(&w.1))).collect(),
                ends,
                done: l.done.clone(),
                reads: l.reads,
                writes: l.writes,
                lines_moved: l.lines_moved,
            }
        });
        Saved {
            version: VERSION,
            params: self.params,
            gap_interval: self.levelling.as_ref().map(|l| l.gap.params().gap_interval),
            inner: self.inner.save(),
            latest: self.latest,
            wear: self.wear.save(),
            levelling,
            changes: self.changes.clone(),
        }
    }

    pub(super) fn resume(&mut self, s: Saved) -> Result<(), Error> {
        version(s.version, VERSION, "memory with wear")?;
        same_fixed(&self.params, &s.params, &[], "memory with wear")?;
        ensure(s.latest <= Ps::MAX_TIME, "time")?;
        changes(&s.changes)?;
        self.wear.reset(Ps::ZERO);
        self.wear.load(s.wear)?;
        match (
            &mut self.levelling,
            s.levelling,
            s.gap_interval,
            s.params.start_gap,
        ) {
            (None, None, None, None) => {}
            (Some(l), Some(saved), Some(interval), Some(p)) => {
                let owed = s.inner.owed();
                let size = self.params.line_bytes;
                let capacity = self.inner.capacity();
                *l = l.loaded(saved, &owed, size, capacity, p)?;
                l.gap.set_interval(interval)?;
            }
            _ => return Err(bad("wear levelling is there or missing")),
        }
        self.inner.load(s.inner)?;
        self.latest = s.latest;
        self.changes = s.changes;
        Ok(())
    }
}

impl Levelling {
    /// Loads saved moves, for lines of `size` bytes in a memory of `capacity` bytes that owes the
    /// completions `owed`.
    fn loaded(
        &self,
        s: SavedLevelling,
        owed: &[u64],
        size: u64,
        capacity: u64,
        p: StartGapParams,
    ) -> Result<Levelling, Error> {
        let part = "moves of lines";
        let mut gap = StartGap::new(self.gap.lines(), p)?;
        gap.load(s.gap)?;
        let places = gap.places();
        let inside = |m: &(u64, u64)| m.0 < places && m.1 < places;
        ensure(s.moves.len() <= MOVES && s.moves.iter().all(inside), part)?;
        counts([s.reads, s.writes, s.lines_moved])?;
        completions(&s.done)?;
        times(s.waiting.iter().map(|w| w.0), part)?;
        times(s.ends.iter().map(|e| e.0), part)?;
        ensure(s.done.iter().all(|c| c.id & OWN == 0), part)?;
        // Each piece of the first move is read or written at most once at a time.
        let waiting = s.waiting.iter().map(|w| w.1.id());
        let ended = s.ends.iter().map(|e| e.1);
        let own = owed.iter().copied().filter(|id| id & OWN != 0);
        let pieces: Vec<u64> = waiting.chain(ended).chain(own).collect();
        let numbers: Vec<u64> = pieces.iter().map(|id| id & !(OWN | WRITE)).collect();
        let mut distinct = numbers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let left = pieces.len() as u64;
        ensure(
            same_members(numbers, distinct.clone())
                && distinct.iter().all(|n| *n < size / PIECE)
                && pieces.iter().all(|id| id & OWN != 0)
                && (left == 0) == s.moves.is_empty(),
            part,
        )?;
        let mut waiting = VecDeque::with_capacity((size / PIECE) as usize);
        for (at, asked) in &s.waiting {
            let r = asked.request(capacity)?;
            let (from, to) = s.moves[0];
            let write = r.id & WRITE != 0;
            let place = if write { to } else { from };
            let addr = place * size + (r.id & !(OWN | WRITE)) * PIECE;
            ensure(
                r.addr == addr && u64::from(r.bytes) == PIECE && (r.kind == Kind::Write) == write,
                part,
            )?;
            waiting.push_back((*at, r));
        }
        Ok(Levelling {
            gap,
            known: (u64::MAX, 0),
            moves: s
                .moves
                .iter()
                .map(|&(from, to)| Move { from, to })
                .collect(),
            left,
            waiting,
            ends: s.ends.into_iter().map(Reverse).collect(),
            scratch: Vec::new(),
            done: s.done,
            reads: s.reads,
            writes: s.writes,
            lines_moved: s.lines_moved,
        })
    }
}
