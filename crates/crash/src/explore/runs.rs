//! Recoveries: those that are known, and the others in threads.

use super::trie::{Leaf, Trie};
use super::{Progress, Work};
use crate::cut::Cut;
use crate::lines::{hash_bytes, hash_line};
use crate::step::Bytes;
use crate::subject::{Recovery, State, Subject};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Which content each undecided line of a cut has, by its place in [`Cut::undecided`].
pub(crate) type Choice = Vec<u16>;

/// A result: the recovery, and which undecided lines (by their places) it read in which order.
#[derive(Clone, Debug)]
pub(crate) struct Result1 {
    pub leaf: Leaf,
    pub reads: Vec<usize>,
}

pub(crate) struct Runs<'a> {
    subject: &'a dyn Subject,
    jobs: usize,
    limit: Option<u64>,
    watched: Vec<u64>,
    initial: BTreeMap<u64, u64>,
    pub trie: Trie,
    pub progress: Progress,
    /// Recoveries that contradict earlier ones.
    pub unstable: u64,
}

/// A recovery, or why it could not be carried out.
type Recovered = std::result::Result<Recovery, String>;

/// The budget does not suffice.
#[derive(Debug)]
pub(crate) enum Stop {
    Budget,
    Failed(String),
}

impl<'a> Runs<'a> {
    pub fn new(work: &Work, subject: &'a dyn Subject, limit: Option<u64>, jobs: usize) -> Runs<'a> {
        let all = work
            .cuts
            .iter()
            .chain(work.references)
            .max_by_key(|c| c.initial.len());
        let initial: Vec<(u64, Bytes)> = all.map(|c| c.initial.to_vec()).unwrap_or_default();
        Runs {
            subject,
            jobs: jobs.max(1),
            limit,
            watched: initial.iter().map(|(l, _)| *l).collect(),
            initial: initial.iter().map(|(l, b)| (*l, hash_bytes(b))).collect(),
            trie: Trie::default(),
            progress: Progress::default(),
            unstable: 0,
        }
    }

    /// Lets no further recovery begin.
    pub fn end(&mut self) {
        self.limit = Some(self.progress.recoveries);
    }

    pub fn recovery(&self, leaf: Leaf) -> &Recovery {
        &self.trie.leaves[leaf]
    }

    pub fn content(&self, cut: &Cut, choice: &[u16], line: u64) -> u64 {
        if let Ok(i) = cut.undecided.binary_search_by_key(&line, |u| u.line) {
            return cut.undecided[i].candidates[usize::from(choice[i])].hash;
        }
        match cut.durable.get(line) {
            Some(bytes) => hash_bytes(bytes),
            None => self.initial.get(&line).copied().unwrap_or(0),
        }
    }

    /// What is known of this content.
    pub fn known(&self, cut: &Cut, choice: &[u16]) -> Option<Result1> {
        let (leaf, lines) = self.trie.find(&|line| self.content(cut, choice, line))?;
        Some(Result1 {
            leaf,
            reads: places(cut, &lines),
        })
    }

    /// The results of all these contents. Which of them cost a recovery depends on their order only. If one fails, what
    /// the others have given by then is known.
    pub fn results(
        &mut self,
        wanted: &[(&Cut, &[u16])],
    ) -> std::result::Result<Vec<Result1>, Stop> {
        let mut results: Vec<Option<Result1>> = Vec::with_capacity(wanted.len());
        let mut todo: Vec<(u64, usize)> = Vec::new();
        for (i, (cut, choice)) in wanted.iter().enumerate() {
            let known = self.known(cut, choice);
            if known.is_none() {
                todo.push((self.full_hash(cut, choice), i));
            }
            results.push(known);
        }
        // Equal contents of different cuts are recovered from once.
        let mut seen = BTreeMap::new();
        todo.retain(|&(hash, i)| *seen.entry(hash).or_insert(i) == i);
        if self
            .limit
            .is_some_and(|l| self.progress.recoveries + todo.len() as u64 > l)
        {
            return Err(Stop::Budget);
        }
        let states: Vec<_> = todo.iter().map(|&(_, i)| wanted[i]).collect();
        let recoveries = self.recover(&states);
        let mut failed = None;
        for (&(_, i), recovery) in todo.iter().zip(recoveries) {
            let (cut, choice) = wanted[i];
            let mut recovery = match recovery {
                Some(Ok(recovery)) => recovery,
                Some(Err(e)) => {
                    failed.get_or_insert(e);
                    continue;
                }
                None => continue,
            };
            self.progress.recoveries += 1;
            let mut new = std::collections::BTreeSet::new();
            recovery
                .reads
                .retain(|l| self.watched.binary_search(l).is_ok() && new.insert(*l));
            let reads = places(cut, &recovery.reads);
            let mut trie = std::mem::take(&mut self.trie);
            let leaf = trie.insert(recovery.clone(), &|line| self.content(cut, choice, line));
            self.trie = trie;
            let leaf = leaf.unwrap_or_else(|_| {
                self.unstable += 1;
                self.trie.leaves.push(recovery);
                self.trie.leaves.len() - 1
            });
            results[i] = Some(Result1 { leaf, reads });
        }
        if let Some(e) = failed {
            return Err(Stop::Failed(e));
        }
        for (i, (cut, choice)) in wanted.iter().enumerate() {
            if results[i].is_none() {
                results[i] = self.known(cut, choice).or_else(|| {
                    // Only if the recovery from an equal content was a contradiction.
                    let twin = seen[&self.full_hash(cut, choice)];
                    let leaf = results[twin].as_ref()?.leaf;
                    Some(Result1 {
                        leaf,
                        reads: places(cut, &self.trie.leaves[leaf].reads),
                    })
                });
            }
        }
        Ok(results
            .into_iter()
            .map(|r| r.expect("every content has a result"))
            .collect())
    }

    fn full_hash(&self, cut: &Cut, choice: &[u16]) -> u64 {
        self.watched.iter().fold(0, |sum, &line| {
            sum.wrapping_add(hash_line(line, self.content(cut, choice, line)))
        })
    }

    /// Recovers from these contents; `None` for those that were not begun, since another one had failed.
    fn recover(&self, states: &[(&Cut, &[u16])]) -> Vec<Option<Recovered>> {
        let next = AtomicUsize::new(0);
        let done: Vec<Mutex<Option<Recovered>>> = states.iter().map(|_| Mutex::new(None)).collect();
        let work = || loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(cut, choice)) = states.get(i) else {
                return;
            };
            let lines = content_lines(cut, choice);
            let state = State {
                lines: &lines,
                watched: &self.watched,
            };
            let recovery = self.subject.recover(&state);
            if recovery.is_err() {
                next.store(states.len(), Ordering::Relaxed);
            }
            *done[i].lock().expect("no recovery panics with the lock") = Some(recovery);
        };
        if self.jobs == 1 || states.len() < 2 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..self.jobs.min(states.len()) {
                    scope.spawn(work);
                }
            });
        }
        done.into_iter()
            .map(|m| m.into_inner().expect("no recovery panics with the lock"))
            .collect()
    }
}

/// The lines of a content, as far as they differ from the beginning.
pub(crate) fn content_lines(cut: &Cut, choice: &[u16]) -> Vec<(u64, Bytes)> {
    let mut lines: BTreeMap<u64, Bytes> = cut.durable.to_vec().into_iter().collect();
    for (undecided, &i) in cut.undecided.iter().zip(choice) {
        lines.insert(undecided.line, undecided.candidates[usize::from(i)].bytes);
    }
    lines
        .into_iter()
        .filter(|(l, b)| cut.initial.get(*l) != Some(b))
        .collect()
}

fn places(cut: &Cut, lines: &[u64]) -> Vec<usize> {
    lines
        .iter()
        .filter_map(|line| cut.undecided.binary_search_by_key(line, |u| u.line).ok())
        .collect()
}
