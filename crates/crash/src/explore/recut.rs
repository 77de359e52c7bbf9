//! Cuts during recovery: a recovery that stores to NVMM is recorded as a workload is, cut, and recovered from again.

use super::runs::content_lines;
use super::{search, Again, Budget, Found, Progress, Work, ROUND};
use crate::cut::Cut;
use crate::report::{line_content, Recut, RecutReport};
use crate::step::Bytes;
use crate::subject::{Record, Recovery, State, Subject};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Lines that differ from the content at the beginning.
type Content = Vec<(u64, Bytes)>;
type Recorded = Result<Option<Record>, String>;

/// A subject whose contents lie above another content.
struct Above<'a> {
    subject: &'a dyn Subject,
    below: &'a Content,
}

impl Subject for Above<'_> {
    fn recover(&self, state: &State) -> Result<Recovery, String> {
        let mut lines: BTreeMap<u64, Bytes> = self.below.iter().copied().collect();
        lines.extend(state.lines.iter().copied());
        let lines: Content = lines.into_iter().collect();
        self.subject.recover(&State {
            lines: &lines,
            watched: state.watched,
        })
    }
}

/// Cuts recoveries of a search that has ended, and enters the results in its report.
pub(super) fn explore(
    work: &Work,
    subject: &dyn Subject,
    budget: &Budget,
    jobs: usize,
    found: &mut Found,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<(), String> {
    let mut all = RecutReport {
        storing: found.storing.len() as u64,
        ..RecutReport::default()
    };
    let storing: Vec<(&Cut, Content)> = { found.storing.iter() }
        .take(budget.recuts as usize)
        .map(|(cut, choice)| {
            let cut = &work.cuts[found.cuts[*cut]];
            (cut, content_lines(cut, choice))
        })
        .collect();
    let report = &mut found.report;
    let mut goes_on = !report.coverage.stopped;
    for round in storing.chunks(ROUND) {
        if !goes_on {
            break;
        }
        for ((cut, content), record) in round.iter().zip(record(subject, round, jobs)) {
            let now = Progress {
                recoveries: report.recoveries,
                failures: report.failures,
                ..Progress::default()
            };
            let record = match record {
                Ok(record) => record,
                Err(e) if progress(&now) => return Err(e),
                Err(_) => {
                    goes_on = false;
                    break;
                }
            };
            let Some(record) = record else { continue };
            let left = budget
                .recoveries
                .map(|n| n.saturating_sub(report.recoveries));
            if !goes_on || left == Some(0) {
                goes_on = false;
                break;
            }
            all.recorded += 1;
            let of = Recut {
                step: cut.step,
                kind: cut.kind,
                operation: cut.operation,
                frames: cut
                    .at
                    .map(|a| super::blame::frames(work, a.site))
                    .unwrap_or_default(),
                content: content.iter().map(|(l, b)| line_content(*l, b)).collect(),
            };
            let from = cut.operation as usize;
            let references = { found.references.iter() }.skip(from).take(2);
            let again = Again {
                references: references.copied().collect(),
                of: &of,
            };
            let inner = Work {
                cuts: &record.cuts,
                references: &[],
                sites: &record.sites,
                resolve: work.resolve,
                shard: None,
            };
            let above = Above {
                subject,
                below: content,
            };
            let budget = Budget {
                recoveries: left,
                recuts: 0,
                seed: budget.seed ^ cut.hash,
                ..budget.clone()
            };
            let (before, failures) = (report.recoveries, report.failures);
            let mut sum = |p: &Progress| {
                progress(&Progress {
                    recoveries: before + p.recoveries,
                    failures: failures + p.failures,
                    ..*p
                })
            };
            let one = search(&inner, &above, &budget, jobs, Some(again), &mut sum)?.report;
            goes_on &= !one.coverage.stopped;
            all.add(&one);
            report.recoveries += one.recoveries;
            report.failures += one.failures;
            report.coverage.unstable += one.coverage.unstable;
            for finding in one.findings {
                match report.findings.iter_mut().find(|f| f.id == finding.id) {
                    Some(known) => known.count += finding.count,
                    None => report.findings.push(finding),
                }
            }
        }
    }
    report.coverage.stopped |= !goes_on;
    report.recuts = Some(all);
    Ok(())
}

/// Records these recoveries in threads.
fn record(subject: &dyn Subject, round: &[(&Cut, Content)], jobs: usize) -> Vec<Recorded> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Recorded>>> = round.iter().map(|_| Mutex::new(None)).collect();
    let work = || loop {
        let i = next.fetch_add(1, Ordering::Relaxed);
        let Some((_, content)) = round.get(i) else {
            return;
        };
        let state = State {
            lines: content,
            watched: &[],
        };
        let record = subject.record(&state);
        *done[i].lock().expect("no recording panics with the lock") = Some(record);
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, round.len().max(1)) {
            scope.spawn(work);
        }
    });
    done.into_iter()
        .map(|m| {
            let record = m.into_inner().expect("no recording panics with the lock");
            record.expect("all were done")
        })
        .collect()
}
