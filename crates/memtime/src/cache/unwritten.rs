//! Which writes have not reached the back memory.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Ids of the first and the last write to a piece since it was written back.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ends {
    first: u64,
    last: u64,
}

/// A piece that is being written to the back memory.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Leaving {
    writes: Ends,
    /// The back memory has accepted its write.
    sent: bool,
}

/// Writes in the cache, by number of the piece of 64 bytes, and pieces that are being written
/// back, by id of the write at the back memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unwritten {
    pieces: BTreeMap<u64, Ends>,
    leaving: BTreeMap<u64, Leaving>,
    #[serde(skip)]
    most: usize,
}

/// Least number of pieces being written back for which the list is searched.
const FEW: usize = 1024;

impl Unwritten {
    /// Records a write to a piece.
    pub fn absorbed(&mut self, piece: u64, id: u64) {
        let new = Ends {
            first: id,
            last: id,
        };
        self.pieces.entry(piece).or_insert(new).last = id;
    }

    /// A block is evicted; `id` is that of the back write of one of its pieces.
    pub fn evicted(&mut self, pieces: Range<u64>, id: impl Fn(u64) -> u64) {
        let first = pieces.start;
        while let Some((&piece, &writes)) = self.pieces.range(pieces.clone()).next() {
            self.pieces.remove(&piece);
            let sent = false;
            self.leaving
                .insert(id(piece - first), Leaving { writes, sent });
        }
    }

    /// The back memory has accepted a write.
    pub fn sent(&mut self, id: u64) {
        if let Some(l) = self.leaving.get_mut(&id) {
            l.sent = true;
        }
    }

    /// Whether it is time to ask the back memory which writes it has finished.
    pub fn is_long(&self) -> bool {
        self.leaving.len() > self.most.max(FEW)
    }

    /// Forgets the writes that the back memory has accepted, except these (in ascending order), which are unfinished.
    pub fn keep(&mut self, unfinished: &[u64]) {
        self.leaving
            .retain(|id, l| !l.sent || unfinished.binary_search(id).is_ok());
        self.most = 2 * self.leaving.len();
    }

    /// Writes to pieces that are being written back, if these are unfinished in the back memory.
    pub fn on_their_way(&self, unfinished: &[u64]) -> Vec<u64> {
        let mut copy = self.leaving_only();
        copy.keep(unfinished);
        let ends = copy.leaving.values().map(|l| l.writes);
        ends.flat_map(|e| [e.first, e.last]).collect()
    }

    /// Ids of the writes that are only in the cache.
    pub fn in_cache(&self) -> impl Iterator<Item = u64> + '_ {
        self.pieces.values().flat_map(|e| [e.first, e.last])
    }

    /// A copy without the writes that are only in the cache.
    pub fn leaving_only(&self) -> Unwritten {
        Unwritten {
            pieces: BTreeMap::new(),
            leaving: self.leaving.clone(),
            most: self.most,
        }
    }

    /// The saved form: without what the back memory has finished.
    pub fn save(&self, unfinished: &[u64]) -> Unwritten {
        let mut copy = self.clone();
        copy.keep(unfinished);
        copy.most = 0;
        copy
    }
}
