//! The search for contents from which a subject does not recover.
//!
//! A content is decided line by line, in the order in which recovery reads them. Two walks through the tree of
//! decisions begin with "nothing is lost" and "everything is lost", and deviate in one line, then in two, and so on.
//! Every result is shared by all contents that agree in the lines read, of this cut and of others.

mod blame;
mod recut;
mod runs;
mod trie;

use crate::cut::{Cut, Undecided};
use crate::report::{causes, Coverage, CutReport, Left, Recut, Report, Resolve, UndecidedRead};
use crate::step::Sites;
use crate::subject::{Outcome, Subject};
use blame::{Blame, Failure};
use runs::{Choice, Result1, Runs, Stop};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// So many contents are tried between two looks at what is best to try next. It does not depend on the number of jobs,
/// so that results do not, either.
const ROUND: usize = 64;
/// Deviations of cuts with many lines.
const MAX_RANK: u32 = 2;
/// So many contents of a line are combined with those of another one in cuts that are not searched exhaustively.
const PAIRED: usize = 6;
/// So many contents of a line are tried alone in such cuts.
const ALONE: usize = 16;
/// A cut of which so many contents fail is left.
const FAILURES: u32 = 8;

/// What is to be explored.
pub struct Work<'a> {
    /// Cuts of one history, in its order. Cuts with equal hashes are tried once.
    pub cuts: &'a [Cut],
    /// With the oracle of prefixes: [`crate::History::uncut`] at the start and at each marker of an operation,
    /// `references[n]` with `operation == n`. What recovery from it puts out is what recovery from a cut with
    /// `operation == n` may put out, as is that of `references[n + 1]`. Empty: no such oracle.
    pub references: &'a [Cut],
    /// The places in the code.
    pub sites: &'a Sites,
    /// Their names.
    pub resolve: &'a dyn Resolve,
    /// Part `.0` of `.1` (counted from 1): only cuts whose hash falls to it.
    pub shard: Option<(u32, u32)>,
}

/// When to stop.
#[derive(Clone, Debug)]
pub struct Budget {
    /// At most so many recoveries, including those that find the cause of a failure.
    pub recoveries: Option<u64>,
    /// Cuts with at most so many undecided lines are searched exhaustively,
    pub exhaustive_lines: usize,
    /// if they may leave at most so many contents.
    pub exhaustive_states: u32,
    /// Goes on from contents that fail: what else may be lost in addition, which mostly fails for the same cause; and
    /// with cuts of which eight contents fail.
    pub beyond_failures: bool,
    /// So many random contents of the other cuts are tried, in addition to those with up to two lines lost or kept.
    pub random: u32,
    /// Seed of the random contents.
    pub seed: u64,
    /// So many recoveries that store to NVMM are cut, too, and recovered from again ([`Subject::record`]).
    pub recuts: u32,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            recoveries: None,
            exhaustive_lines: 12,
            exhaustive_states: 1 << 16,
            beyond_failures: false,
            random: 64,
            seed: 1,
            recuts: 0,
        }
    }
}

/// How far an exploration is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Cuts in all (of this shard, without duplicates).
    pub cuts: u64,
    /// Recoveries so far.
    pub recoveries: u64,
    /// Contents tried so far; many need no recovery of their own.
    pub contents: u64,
    /// Failing contents so far.
    pub failures: u64,
    /// Contents that wait to be tried, as far as they are known.
    pub waiting: u64,
}

/// In which order contents are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    NoneLost,
    AllLost,
    One,
    Two,
    Commit,
    Random,
    Rest,
}

/// What lines have that are not decided yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    Newest,
    Durable,
    /// All are decided, and nothing is derived from the result.
    Given,
}

struct Item {
    cut: usize,
    choice: Choice,
    /// So many of the lines that recovery reads are decided: the first ones.
    decided: usize,
    rank: u32,
    fill: Fill,
}

/// What is known of one cut.
#[derive(Default)]
struct Known {
    /// Contents of which the result is known; a product of numbers of contents.
    states: f64,
    /// Items of the walk from "nothing is lost" that are still to be done.
    open: u64,
    /// Some were not even put in line, because there are too many lines,
    skipped: bool,
    /// or because they lose more than a content that fails.
    beyond: bool,
    failures: u32,
    /// Contents of the walk from "everything is lost" whose deviations are in line already.
    walked: BTreeSet<Vec<(usize, u16)>>,
}

/// Tries what the cuts may leave. `progress` is called between rounds; where it returns `false`, the search ends, and
/// the report says what was not tried. A limit of host time goes there. Otherwise the report is the same for any number
/// of `jobs` (threads). A recovery that fails while `progress` returns `false` was ended from outside: the report then
/// has what is known by then.
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
    let mut found = search(work, subject, budget, jobs, None, progress)?;
    if budget.recuts > 0 {
        recut::explore(work, subject, budget, jobs, &mut found, progress)?;
    }
    Ok(found.report)
}

/// A search during a recovery.
struct Again<'a> {
    /// What the output may be.
    references: References,
    /// The recovery that is cut.
    of: &'a Recut,
}

/// What came of a search.
struct Found {
    report: Report,
    references: References,
    /// Contents from which recovery succeeds and stores to NVMM, one of all in which what it reads or overwrites is the
    /// same: the cut, and its content.
    storing: Vec<(usize, Choice)>,
    /// Which of the caller's cuts were searched.
    cuts: Vec<usize>,
}

fn search(
    work: &Work,
    subject: &dyn Subject,
    budget: &Budget,
    jobs: usize,
    again: Option<Again>,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Found, String> {
    let mut seen = BTreeSet::new();
    let mut duplicates = 0;
    let mut others = 0;
    let (mut cuts, mut numbers) = (Vec::new(), Vec::new());
    for (number, cut) in work.cuts.iter().enumerate() {
        // An equal cut of another operation may have to put out something else.
        let operation = if work.references.is_empty() {
            0
        } else {
            cut.operation
        };
        if work
            .shard
            .is_some_and(|(i, n)| cut.hash % u64::from(n.max(1)) + 1 != u64::from(i))
        {
            others += 1;
        } else if seen.insert((cut.hash, operation)) {
            cuts.push(cut);
            numbers.push(number);
        } else {
            duplicates += 1;
        }
    }
    let mut search = Search {
        budget,
        known: cuts.iter().map(|_| Known::default()).collect(),
        cuts,
        references: Vec::new(),
        runs: Runs::new(work, subject, budget.recoveries, jobs),
        queue: BTreeMap::new(),
        number: 0,
        failures: Vec::new(),
        reads: BTreeMap::new(),
        tried: BTreeMap::new(),
        storing: Vec::new(),
        seen: BTreeSet::new(),
    };
    let of = again.as_ref().map(|a| a.of);
    if let Some(again) = &again {
        search.references.clone_from(&again.references);
    }
    search.runs.progress.cuts = search.cuts.len() as u64;
    let mut ended = search.refer(work.references);
    if ended.is_ok() {
        search.begin();
        ended = search.go(progress);
    }
    let mut stopped = match ended {
        Ok(done) => !done,
        Err(Stop::Budget) => true,
        Err(Stop::Failed(e)) if progress(&search.runs.progress) => return Err(e),
        Err(Stop::Failed(_)) => {
            search.runs.end();
            true
        }
    };
    let mut failures = std::mem::take(&mut search.failures);
    // The failures that lose the least come first: they tell the cause best, and explain others.
    failures.sort_by_cached_key(|f| {
        let undecided = &search.cuts[f.cut].undecided;
        f.reads
            .iter()
            .filter(|&&i| usize::from(f.choice[i]) != undecided[i].newest)
            .count()
    });
    let references = std::mem::take(&mut search.references);
    let count = failures.len() as u64;
    let mut blame = Blame::new(work, &search.cuts, &references, of);
    for failure in &failures {
        let Err(Stop::Failed(e)) = blame.add(failure, &mut search.runs) else {
            continue;
        };
        if progress(&search.runs.progress) {
            return Err(e);
        }
        stopped = true;
        search.runs.end();
        // Without another recovery it fails no more.
        let _ = blame.add(failure, &mut search.runs);
    }
    // One that was found later may explain an earlier one.
    let findings = causes(blame.finish());
    let reports: Vec<CutReport> = search.report();
    let coverage = Coverage {
        cuts: reports.len() as u64,
        duplicates,
        other_shards: others,
        complete: reports.iter().filter(|c| c.complete).count() as u64,
        states: reports.iter().map(|c| c.states).sum(),
        states_covered: reports.iter().map(|c| c.states_covered).sum(),
        contents_tried: search.runs.progress.contents,
        tried: search
            .tried
            .iter()
            .map(|(c, n)| (format!("{c:?}"), *n))
            .collect(),
        capped_lines: search
            .cuts
            .iter()
            .flat_map(|c| c.undecided.iter().filter(|u| u.capped).map(|u| u.line))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        unstable: search.runs.unstable,
        stopped,
    };
    let mut undecided_reads: Vec<UndecidedRead> = search
        .reads
        .iter()
        .map(|(site, cuts)| UndecidedRead {
            site: work.sites.get(*site).cloned().unwrap_or_default(),
            frames: blame::frames(work, *site),
            cuts: *cuts,
        })
        .collect();
    undecided_reads.sort_by(|a, b| a.site.cmp(&b.site));
    let report = Report {
        version: crate::report::VERSION,
        coverage,
        recoveries: search.runs.progress.recoveries,
        failures: count,
        findings,
        warnings: Vec::new(),
        undecided_reads,
        cuts: reports,
        shard: work.shard,
        recuts: None,
        signal: None,
        notes: Vec::new(),
    };
    Ok(Found {
        report,
        references,
        storing: search.storing,
        cuts: numbers,
    })
}

/// What recovery may put out, by number of operations.
pub(crate) type References = Vec<Option<u64>>;

/// Why this recovery is a failure: `None` if it is none.
pub(crate) fn failed(
    recovery: &crate::subject::Recovery,
    operation: u32,
    references: &References,
) -> Option<Oracle> {
    if recovery.outcome != Outcome::Ok {
        return Some(Oracle::Outcome);
    }
    if references.is_empty() {
        return None;
    }
    let allowed = (operation as usize..).take(2);
    let ok = allowed
        .filter_map(|n| references.get(n))
        .any(|r| *r == recovery.output);
    (!ok).then_some(Oracle::Prefix)
}

/// Who said that a recovery failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Oracle {
    Outcome,
    Prefix,
}

struct Search<'a> {
    budget: &'a Budget,
    cuts: Vec<&'a Cut>,
    known: Vec<Known>,
    references: References,
    runs: Runs<'a>,
    queue: BTreeMap<(Class, u32, usize, u64), Item>,
    number: u64,
    failures: Vec<Failure>,
    reads: BTreeMap<crate::step::SiteId, u64>,
    tried: BTreeMap<Class, u64>,
    storing: Vec<(usize, Choice)>,
    seen: BTreeSet<Vec<u64>>,
}

impl Search<'_> {
    fn refer(&mut self, references: &[Cut]) -> Result<bool, Stop> {
        let none: &[u16] = &[];
        for group in references.chunks(ROUND) {
            let wanted: Vec<_> = group.iter().map(|c| (c, none)).collect();
            for result in self.runs.results(&wanted)? {
                let recovery = self.runs.recovery(result.leaf);
                self.references.push(recovery.output);
            }
        }
        Ok(true)
    }

    /// Puts the first contents of each cut in line.
    fn begin(&mut self) {
        for index in 0..self.cuts.len() {
            let cut = self.cuts[index];
            let newest = fill(cut, |u| u.newest);
            let durable = fill(cut, |_| 0);
            self.put(Class::NoneLost, index, newest.clone(), 0, 0, Fill::Newest);
            if cut.undecided.is_empty() {
                continue;
            }
            // With a limit, "everything is lost" is not among the contents.
            if cut.max_old.is_none() {
                self.put(Class::AllLost, index, durable.clone(), 0, 0, Fill::Durable);
            }
            if self.exhaustive(index) {
                continue;
            }
            let mixed = |commit_newest: bool| {
                fill(cut, |u| {
                    if u.commit == commit_newest {
                        u.newest
                    } else {
                        0
                    }
                })
            };
            for choice in [mixed(true), mixed(false)] {
                if allowed(cut, &choice) {
                    self.put(Class::Commit, index, choice, 0, 0, Fill::Given);
                }
            }
            let mut random = Random(self.budget.seed ^ cut.hash);
            for _ in 0..self.budget.random {
                let mut choice: Choice = fill(cut, |u| random.below(u.candidates.len()));
                // Too many old ones: make some new again.
                while !allowed(cut, &choice) {
                    let i = random.below(choice.len());
                    choice[i] = cut.undecided[i].newest as u16;
                }
                self.put(Class::Random, index, choice, 0, 0, Fill::Given);
            }
        }
    }

    fn exhaustive(&self, cut: usize) -> bool {
        let cut = self.cuts[cut];
        cut.undecided.len() <= self.budget.exhaustive_lines
            && states(&cut.undecided, cut.max_old) <= f64::from(self.budget.exhaustive_states)
    }

    fn put(
        &mut self,
        class: Class,
        cut: usize,
        choice: Choice,
        decided: usize,
        rank: u32,
        fill: Fill,
    ) {
        if fill == Fill::Newest {
            self.known[cut].open += 1;
        }
        self.number += 1;
        let item = Item {
            cut,
            choice,
            decided,
            rank,
            fill,
        };
        self.queue.insert((class, rank, cut, self.number), item);
    }

    /// Rounds until nothing is left; `false` if it was told to stop.
    fn go(&mut self, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<bool, Stop> {
        while !self.queue.is_empty() {
            let mut round = Vec::new();
            let mut level = None;
            // What follows from a content is of a later class or rank. So the order in which those of one cut are tried
            // does not depend on which other cuts there are.
            while round.len() < ROUND {
                let Some(entry) = self.queue.first_entry() else {
                    break;
                };
                let (class, rank, ..) = *entry.key();
                if *level.get_or_insert((class, rank)) != (class, rank) {
                    break;
                }
                let item = entry.remove();
                if !self.leaves(&item) {
                    round.push((class, item));
                }
            }
            let wanted: Vec<_> = round
                .iter()
                .map(|(_, i)| (self.cuts[i.cut], &i.choice[..]))
                .collect();
            match self.runs.results(&wanted) {
                Ok(results) => {
                    for ((class, item), result) in round.into_iter().zip(results) {
                        self.take(class, item, &result);
                    }
                }
                Err(Stop::Budget) => {
                    // As far as the budget goes.
                    for (class, item) in round {
                        let result = self.runs.results(&[(self.cuts[item.cut], &item.choice)])?;
                        self.take(class, item, &result[0]);
                    }
                }
                Err(e) => {
                    for (class, item) in round {
                        if let Some(result) = self.runs.known(self.cuts[item.cut], &item.choice) {
                            self.take(class, item, &result);
                        }
                    }
                    return Err(e);
                }
            }
            self.runs.progress.waiting = self.queue.len() as u64;
            if !progress(&self.runs.progress) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the search has left the cut of this content, since too many of its contents fail.
    fn leaves(&mut self, item: &Item) -> bool {
        let known = &mut self.known[item.cut];
        let left = known.failures >= FAILURES && !self.budget.beyond_failures;
        if left {
            known.beyond = true;
            known.open -= u64::from(item.fill == Fill::Newest);
        }
        left
    }

    /// Keeps a content whose recovery stores to NVMM, for cuts during it. What recovery overwrites without having read
    /// it is not decided by the search, but a second cut may leave it: each such line is lost alone, and is there
    /// alone, too.
    fn stores(&mut self, item: &Item, result: &Result1) {
        let recovery = self.runs.recovery(result.leaf);
        if self.budget.recuts == 0 || !recovery.stores {
            return;
        }
        let cut = self.cuts[item.cut];
        let place = |line: &u64| cut.undecided.binary_search_by_key(line, |u| u.line).ok();
        let free: Vec<usize> = { recovery.stored.iter().filter_map(place) }
            .filter(|p| !result.reads.contains(p))
            .collect();
        let newest = |choice: &mut Choice, p: usize| choice[p] = cut.undecided[p].newest as u16;
        let (mut all_new, mut all_old) = (item.choice.clone(), item.choice.clone());
        for &p in &free {
            newest(&mut all_new, p);
            all_old[p] = 0;
        }
        let mut choices = Vec::new();
        for &p in &free {
            let (mut one_old, mut one_new) = (all_new.clone(), all_old.clone());
            one_old[p] = 0;
            newest(&mut one_new, p);
            choices.extend([one_old, one_new]);
        }
        choices.splice(0..0, [all_new, all_old]);
        for choice in choices.into_iter().filter(|c| allowed(cut, c)) {
            let mut key = vec![result.leaf as u64];
            key.extend(
                recovery
                    .stored
                    .iter()
                    .map(|line| self.runs.content(cut, &choice, *line)),
            );
            if self.seen.insert(key) {
                self.storing.push((item.cut, choice));
            }
        }
    }

    fn take(&mut self, class: Class, item: Item, result: &Result1) {
        if self.leaves(&item) {
            return;
        }
        let cut = self.cuts[item.cut];
        self.runs.progress.contents += 1;
        *self.tried.entry(class).or_default() += 1;
        let recovery = self.runs.recovery(result.leaf);
        let oracle = failed(recovery, cut.operation, &self.references);
        let deviate = oracle.is_none() || self.budget.beyond_failures;
        if oracle.is_none() {
            self.stores(&item, result);
        }
        if let Some(oracle) = oracle {
            self.runs.progress.failures += 1;
            self.known[item.cut].failures += 1;
            self.failures.push(Failure {
                cut: item.cut,
                choice: item.choice.clone(),
                reads: result.reads.clone(),
                leaf: result.leaf,
                oracle,
            });
        }
        if class == Class::NoneLost {
            let sites: BTreeSet<_> = result
                .reads
                .iter()
                .filter_map(|&i| cut.undecided[i].candidates[0].lacks.map(|s| s.at.site))
                .collect();
            for site in sites {
                *self.reads.entry(site).or_default() += 1;
            }
        }
        match item.fill {
            Fill::Given => {}
            Fill::Newest => {
                let known = &mut self.known[item.cut];
                known.open -= 1;
                let read: BTreeSet<_> = result.reads.iter().collect();
                let unread: Vec<_> = (0..cut.undecided.len())
                    .filter(|i| !read.contains(i))
                    .map(|i| Arc::clone(&cut.undecided[i]))
                    .collect();
                let left = cut.max_old.map(|m| m - item.rank as usize);
                known.states += states(&unread, left);
                if deviate {
                    self.deviate(&item, result);
                } else {
                    known.beyond |= item.decided < result.reads.len();
                }
            }
            Fill::Durable => {
                let path = result.reads.iter().map(|&i| (i, item.choice[i])).collect();
                if deviate && self.known[item.cut].walked.insert(path) {
                    self.deviate(&item, result);
                }
            }
        }
    }

    /// Puts the contents in line that differ from this one in one more line that recovery reads.
    fn deviate(&mut self, item: &Item, result: &Result1) {
        let cut = self.cuts[item.cut];
        let rank = item.rank + 1;
        let deep = self.exhaustive(item.cut) && item.fill == Fill::Newest;
        if item.fill == Fill::Newest && cut.max_old.is_some_and(|m| rank as usize > m) {
            return;
        }
        if rank > MAX_RANK && !deep {
            self.known[item.cut].skipped |=
                item.fill == Fill::Newest && item.decided < result.reads.len();
            return;
        }
        let class = match rank {
            1 => Class::One,
            2 => Class::Two,
            _ => Class::Rest,
        };
        for (n, &place) in result.reads.iter().enumerate().skip(item.decided) {
            let count = cut.undecided[place].candidates.len();
            let most = if rank > 1 { PAIRED } else { ALONE };
            let few = count > most && !self.exhaustive(item.cut);
            self.known[item.cut].skipped |= few && item.fill == Fill::Newest;
            // The durable content, the newest one, and some in between.
            let step = if few {
                (count - 1).div_ceil(most - 1)
            } else {
                1
            };
            let newest = cut.undecided[place].newest;
            let others = (0..count)
                .step_by(step)
                .chain((!newest.is_multiple_of(step)).then_some(newest));
            for other in others.map(|c| c as u16) {
                if other == item.choice[place] {
                    continue;
                }
                let mut choice = item.choice.clone();
                choice[place] = other;
                self.put(class, item.cut, choice, n + 1, rank, item.fill);
            }
        }
    }

    fn report(&self) -> Vec<CutReport> {
        let each = self.cuts.iter().zip(&self.known);
        each.map(|(cut, known)| {
            let capped = cut.undecided.iter().any(|u| u.capped);
            let whole = known.open == 0 && !known.skipped && !known.beyond && known.states > 0.0;
            let mut left = Vec::new();
            if known.open > 0 || known.states == 0.0 {
                left.push(Left::Budget);
            }
            if known.skipped {
                left.push(Left::Lines);
            }
            if known.beyond {
                left.push(Left::Failing);
            }
            if capped {
                left.push(Left::Contents);
            }
            CutReport {
                step: cut.step,
                kind: cut.kind,
                operation: cut.operation,
                site: cut.at.map(|a| a.site.0),
                undecided: cut.undecided.len() as u64,
                states: states(&cut.undecided, cut.max_old),
                states_covered: known.states,
                complete: whole && !capped,
                left,
            }
        })
        .collect()
    }
}

fn fill(cut: &Cut, mut which: impl FnMut(&Undecided) -> usize) -> Choice {
    cut.undecided.iter().map(|u| which(u) as u16).collect()
}

/// Whether a cut may leave this content.
pub(crate) fn allowed(cut: &Cut, choice: &[u16]) -> bool {
    cut.max_old.is_none_or(|most| {
        let old = cut
            .undecided
            .iter()
            .zip(choice)
            .filter(|(u, &c)| u.newest != usize::from(c));
        old.count() <= most
    })
}

/// How many contents there are, at most `max_old` lines of which are not the newest.
fn states(undecided: &[Arc<Undecided>], max_old: Option<usize>) -> f64 {
    let Some(most) = max_old else {
        return undecided
            .iter()
            .map(|u| u.candidates.len() as f64)
            .product();
    };
    // by_old[n]: contents of the lines so far of which n are old.
    let mut by_old = vec![0.0; most + 1];
    by_old[0] = 1.0;
    for u in undecided {
        for n in (1..=most).rev() {
            by_old[n] += by_old[n - 1] * (u.candidates.len() - 1) as f64;
        }
    }
    by_old.iter().sum()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * limit as u128) >> 64) as usize
    }
}
