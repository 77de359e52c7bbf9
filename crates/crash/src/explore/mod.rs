//! The search for contents from which a subject does not recover.

use crate::cut::Cut;
use crate::report::Report;
use crate::subject::Subject;

/// What is to be explored.
pub struct Work<'a> {
    /// Cuts of one history, in its order. Cuts with equal hashes are tried once.
    pub cuts: &'a [Cut],
    /// With the oracle of prefixes: cuts at the start and at each marker of an operation, `references[n]` with
    /// `operation == n`. The output of recovery from all stores so far is what recovery from a cut with `operation == n`
    /// may put out, as is that of `references[n + 1]`. Empty: no such oracle.
    pub references: &'a [Cut],
    /// The places in the code.
    pub sites: &'a crate::step::Sites,
    /// Only cuts whose hash falls to part `.0` of `.1` (counted from 1).
    pub shard: Option<(u32, u32)>,
}

/// When to stop.
#[derive(Clone, Debug)]
pub struct Budget {
    /// At most so many recoveries.
    pub recoveries: Option<u64>,
    /// Cuts with at most so many undecided lines are searched exhaustively.
    pub exhaustive_lines: usize,
    /// Of the others so many random contents are tried in addition to those with up to two lines lost or kept.
    pub random: u32,
    /// Seed of the random contents.
    pub seed: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            recoveries: None,
            exhaustive_lines: 12,
            random: 64,
            seed: 1,
        }
    }
}

/// How far an exploration is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Cuts in all (of this shard, without duplicates).
    pub cuts: u64,
    /// Cuts of which nothing is left to do.
    pub done: u64,
    /// Recoveries so far.
    pub recoveries: u64,
    /// Failing contents so far.
    pub failures: u64,
    /// Contents that wait to be tried, as far as they are known.
    pub waiting: u64,
}

/// Tries what the cuts may leave. `progress` is called between rounds; where it returns `false`, the search ends, and the
/// report says what was not tried. A limit of host time goes there. Otherwise the report is the same for any number of `jobs` (threads, 1 or more).
///
/// # Errors
/// What a recovery reported that could not be carried out.
pub fn explore(
    work: &Work,
    subject: &dyn Subject,
    budget: &Budget,
    jobs: usize,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Report, String> {
    let _ = (work, subject, budget, jobs, progress);
    todo!()
}
