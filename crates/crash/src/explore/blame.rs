//! Why a content fails: the fewest lines that have to be lost (or kept) for it.

use super::runs::{Choice, Runs, Stop};
use super::trie::Leaf;
use super::{failed, Oracle, References, Work};
use crate::cut::{Cut, StoreRef};
use crate::report::{
    frames_of, key, line_content, Change, Finding, FindingStore, Frame, Recut, Rest,
};
use crate::step::SiteId;
use crate::subject::{Outcome, Recovery};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// Lines of which it is tried whether their presence matters, too.
const KEPT_TRIED: usize = 16;

/// A content that fails.
pub(crate) struct Failure {
    pub cut: usize,
    pub choice: Choice,
    pub reads: Vec<usize>,
    pub leaf: Leaf,
    pub oracle: Oracle,
}

/// Failures by cause.
pub(crate) struct Blame<'a> {
    work: &'a Work<'a>,
    cuts: &'a [&'a Cut],
    references: &'a References,
    findings: Vec<Cause>,
    keys: BTreeMap<SiteId, String>,
    /// The recovery that is cut.
    of: Option<&'a Recut>,
}

struct Cause {
    finding: Finding,
    /// Keys of the stores that have to be lost, or have to be there.
    lost: BTreeSet<String>,
    kept: BTreeSet<String>,
}

/// The names of a place and of its callers.
pub(crate) fn frames(work: &Work, site: SiteId) -> Vec<Frame> {
    let site = work.sites.get(site);
    site.map_or_else(Vec::new, |site| frames_of(work.resolve, site))
}

impl<'a> Blame<'a> {
    pub fn new(
        work: &'a Work<'a>,
        cuts: &'a [&'a Cut],
        references: &'a References,
        of: Option<&'a Recut>,
    ) -> Blame<'a> {
        Blame {
            of,
            work,
            cuts,
            references,
            findings: Vec::new(),
            keys: BTreeMap::new(),
        }
    }

    pub fn finish(self) -> Vec<Finding> {
        self.findings.into_iter().map(|c| c.finding).collect()
    }

    fn key(&mut self, store: Option<StoreRef>) -> Option<String> {
        let site = store?.at.site;
        let work = self.work;
        Some(
            self.keys
                .entry(site)
                .or_insert_with(|| key(&frames(work, site)))
                .clone(),
        )
    }

    /// Attributes a failure to a cause that is known, or finds its cause.
    pub fn add(&mut self, failure: &Failure, runs: &mut Runs) -> Result<(), Stop> {
        let cut = self.cuts[failure.cut];
        let (mut lost, mut kept) = (BTreeSet::new(), BTreeSet::new());
        for &place in &failure.reads {
            let candidate = &cut.undecided[place].candidates[usize::from(failure.choice[place])];
            lost.extend(self.key(candidate.lacks));
            kept.extend(self.key(candidate.last));
        }
        let known = self.findings.iter_mut().find(|c| {
            c.lost.is_subset(&lost)
                && (!c.lost.is_empty() || c.kept.is_subset(&kept) && !c.kept.is_empty())
        });
        if let Some(cause) = known {
            cause.finding.count += 1;
            return Ok(());
        }
        let mut minimal = Minimal {
            cut,
            references: self.references,
            choice: failure.choice.clone(),
            exact: true,
        };
        minimal.forget_unread(&failure.reads);
        let newest = cut
            .undecided
            .iter()
            .map(|u| u.newest as u16)
            .collect::<Choice>();
        let durable = vec![0; newest.len()];
        let (rest, lost, kept) = if !minimal.fails(runs, &newest)? {
            let mut lost = minimal.reduce(runs, &newest)?;
            minimal.lose_all(runs, &lost)?;
            lost.sort_unstable();
            let kept = minimal.also(runs, &durable)?;
            (Rest::Newest, lost, kept)
        } else if cut.max_old.is_none() && !minimal.fails(runs, &durable)? {
            let kept = minimal.reduce(runs, &durable)?;
            (Rest::Durable, Vec::new(), kept)
        } else {
            (Rest::Newest, Vec::new(), Vec::new())
        };
        let Minimal { choice, exact, .. } = minimal;
        let leaf = runs.known(cut, &choice).map_or(failure.leaf, |r| r.leaf);
        let recovery = runs.recovery(leaf);
        let oracle = failed(recovery, cut.operation, self.references).unwrap_or(failure.oracle);
        self.enter(
            failure,
            (oracle, recovery),
            rest,
            &choice,
            (&lost, &kept),
            exact,
        );
        Ok(())
    }

    fn enter(
        &mut self,
        failure: &Failure,
        (oracle, recovery): (Oracle, &Recovery),
        rest: Rest,
        choice: &[u16],
        (lost, kept): (&[usize], &[usize]),
        exact: bool,
    ) {
        let cut = self.cuts[failure.cut];
        let mut stores = Vec::new();
        for (change, places) in [(Change::Lost, lost), (Change::Kept, kept)] {
            let mut list: Vec<StoreRef> = places
                .iter()
                .filter_map(|&p| {
                    let candidate = &cut.undecided[p].candidates[usize::from(choice[p])];
                    if change == Change::Lost {
                        candidate.lacks
                    } else {
                        candidate.last
                    }
                })
                .collect();
            list.sort_by_key(|s| (s.step, s.paddr));
            stores.extend(list.into_iter().map(|s| (change, s)));
        }
        let keys = |b: &mut Self, which: Change| -> BTreeSet<String> {
            let list = stores.iter().filter(|(c, _)| *c == which);
            list.filter_map(|(_, s)| b.key(Some(*s))).collect()
        };
        let (lost_keys, kept_keys) = (keys(self, Change::Lost), keys(self, Change::Kept));
        let main = if lost_keys.is_empty() {
            &kept_keys
        } else {
            &lost_keys
        };
        let mut cause = format!(
            "{} {main:?}",
            if lost_keys.is_empty() { "kept" } else { "lost" }
        );
        if main.is_empty() {
            // Without a store the symptom is all there is.
            cause = format!("{oracle:?} {:?}", recovery.outcome);
        }
        if self.of.is_some() {
            cause.insert_str(0, "again ");
        }
        let id = format!("{:012x}", xxh3_64(cause.as_bytes()) >> 16);
        if let Some(known) = self.findings.iter_mut().find(|c| c.finding.id == id) {
            known.finding.count += 1;
            return;
        }
        let stores: Vec<FindingStore> = stores
            .iter()
            .map(|(change, s)| FindingStore {
                change: *change,
                paddr: s.paddr,
                step: s.step,
                hart: s.at.hart,
                time_ps: s.at.time,
                site: self.work.sites.get(s.at.site).cloned().unwrap_or_default(),
                frames: frames(self.work, s.at.site),
            })
            .collect();
        let content = cut.undecided.iter().zip(choice).filter_map(|(u, &c)| {
            let rest = if rest == Rest::Newest { u.newest } else { 0 };
            let bytes = &u.candidates[usize::from(c)].bytes;
            (rest != usize::from(c)).then(|| line_content(u.line, bytes))
        });
        let cut_frames = cut
            .at
            .map(|a| frames(self.work, a.site))
            .unwrap_or_default();
        let mut message = message(&recovery.outcome, oracle, &stores, exact);
        if self.of.is_some() {
            message.insert_str(0, "after a second cut, during recovery: ");
        }
        let finding = Finding {
            id,
            outcome: recovery.outcome.clone(),
            prefix: oracle == Oracle::Prefix,
            message,
            stores,
            minimal: exact,
            step: cut.step,
            kind: cut.kind,
            operation: cut.operation,
            cut_site: cut.at.map(|a| a.site.0),
            cut_time_ps: cut.at.map(|a| a.time),
            cut_frames,
            count: 1,
            rest,
            content: content.collect(),
            text: recovery.text.clone(),
            recut: self.of.cloned(),
        };
        self.findings.push(Cause {
            finding,
            lost: lost_keys,
            kept: kept_keys,
        });
    }
}

fn message(outcome: &Outcome, oracle: Oracle, stores: &[FindingStore], exact: bool) -> String {
    let what = match (oracle, outcome) {
        (Oracle::Prefix, _) => {
            "the output is neither that of before the operation nor that of after it".into()
        }
        (_, Outcome::Ok) => String::from("recovery succeeded"),
        (_, Outcome::RecoverExit { code }) => format!("recovery ended with exit code {code}"),
        (_, Outcome::CheckExit { code }) => format!("the check ended with exit code {code}"),
        (_, Outcome::Panic) => "the kernel panicked".into(),
        (_, Outcome::Hang) => "recovery did not end".into(),
        (_, Outcome::Fsck) => "the file system is damaged".into(),
        (_, Outcome::Checker) => "the checker rejected it".into(),
    };
    let names = |change: Change| {
        let list = stores.iter().filter(|s| s.change == change);
        let names: BTreeSet<String> = list
            .map(|s| key(&s.frames[..1.min(s.frames.len())]))
            .collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let (lost, kept) = (names(Change::Lost), names(Change::Kept));
    let why = match (lost.is_empty(), kept.is_empty()) {
        (true, true) => return format!("{what}, whatever of the undecided stores is lost"),
        (false, true) => format!("the store at {lost} is lost"),
        (false, false) => format!("the store at {lost} is lost while that at {kept} is not"),
        (true, false) => format!("the store at {kept} is there while others are lost"),
    };
    let more = if exact {
        ""
    } else {
        " (the search ended before it was known which of them matter)"
    };
    format!("{what}: {why}{more}")
}

/// A failing content that comes closer to one that does not fail.
struct Minimal<'a> {
    cut: &'a Cut,
    references: &'a References,
    choice: Choice,
    exact: bool,
}

impl Minimal<'_> {
    /// Lines that were not read are as in the newest content.
    fn forget_unread(&mut self, reads: &[usize]) {
        for (place, choice) in self.choice.iter_mut().enumerate() {
            if !reads.contains(&place) {
                *choice = self.cut.undecided[place].newest as u16;
            }
        }
    }

    /// Whether this content fails, too; without a budget to find out, it does not.
    fn fails(&mut self, runs: &mut Runs, choice: &[u16]) -> Result<bool, Stop> {
        match runs.results(&[(self.cut, choice)]) {
            Ok(results) => {
                let recovery = runs.recovery(results[0].leaf);
                Ok(failed(recovery, self.cut.operation, self.references).is_some())
            }
            Err(Stop::Budget) => {
                self.exact = false;
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// Makes one line after the other as in `to`, as long as the content fails; the lines that remain.
    fn reduce(&mut self, runs: &mut Runs, to: &[u16]) -> Result<Vec<usize>, Stop> {
        let differ =
            |c: &Choice| -> Vec<usize> { (0..c.len()).filter(|&i| c[i] != to[i]).collect() };
        let mut size = differ(&self.choice).len().div_ceil(2);
        // Halves first, then quarters: most of many lines do not matter.
        while size > 0 {
            for group in differ(&self.choice).chunks(size) {
                let mut fewer = self.choice.clone();
                group.iter().for_each(|&i| fewer[i] = to[i]);
                if fewer != to && self.fails(runs, &fewer)? {
                    self.choice = fewer;
                }
            }
            size /= 2;
        }
        Ok(differ(&self.choice))
    }

    /// Takes everything of each of these lines for lost, if the content fails then, too: so that one cause does not
    /// look like several.
    fn lose_all(&mut self, runs: &mut Runs, lost: &[usize]) -> Result<(), Stop> {
        for &place in lost {
            let mut other = self.choice.clone();
            other[place] = 0;
            if other != self.choice && self.fails(runs, &other)? {
                self.choice = other;
            }
        }
        Ok(())
    }

    /// Lines with the newest content that have to have it.
    fn also(&mut self, runs: &mut Runs, durable: &[u16]) -> Result<Vec<usize>, Stop> {
        let cut = self.cut;
        let Some(result) = runs.known(cut, &self.choice) else {
            return Ok(Vec::new());
        };
        let mut list = Vec::new();
        let newest = |p: &usize| {
            usize::from(self.choice[*p]) == cut.undecided[*p].newest
                && self.choice[*p] != durable[*p]
        };
        let places: Vec<usize> = result
            .reads
            .iter()
            .copied()
            .filter(newest)
            .take(KEPT_TRIED)
            .collect();
        for place in places {
            let mut other = self.choice.clone();
            other[place] = durable[place];
            if super::allowed(cut, &other) && !self.fails(runs, &other)? && self.exact {
                list.push(place);
            }
        }
        Ok(list)
    }
}
