//! One report from those of all shards of an exploration.

use super::{key, Change, Finding, Report, UndecidedRead};
use std::collections::{BTreeMap, BTreeSet};

/// Puts the reports of all shards (`--shard`) of one exploration together, in any order. What they have tried, found
/// and not covered is then what one run without shards has tried, found and not covered, if no budget was used up;
/// recoveries, which a shard cannot share with the others, are their sum.
///
/// # Errors
/// The reports are not those of all shards of one exploration.
pub fn merge(parts: &[Report]) -> Result<Report, String> {
    let first = parts.first().ok_or("there is no report")?;
    let mut seen = BTreeSet::new();
    let all = match (first.shard, parts.len()) {
        (None, 1) => return Ok(first.clone()),
        (None, _) => return Err("a report is not that of a shard".into()),
        (Some((_, all)), _) => all,
    };
    for part in parts {
        match part.shard {
            Some((number, of)) if of == all => {
                if !seen.insert(number) {
                    return Err(format!("shard {number}/{all} is there twice"));
                }
            }
            Some((number, of)) => {
                return Err(format!("shard {number}/{of} is not one of {all} shards"))
            }
            None => return Err("a report is not that of a shard".into()),
        }
        if part.version != first.version {
            return Err("the reports are of different versions".into());
        }
        if part.warnings != first.warnings {
            return Err("the reports are of different workloads: their warnings differ".into());
        }
    }
    if let Some(missing) = (1..=all).find(|n| !seen.contains(n)) {
        return Err(format!("shard {missing}/{all} is missing"));
    }
    let mut merged = Report {
        shard: None,
        ..first.clone()
    };
    let mut reads: BTreeMap<_, UndecidedRead> = BTreeMap::new();
    let mut findings: Vec<Finding> = Vec::new();
    let mut capped = BTreeSet::new();
    merged.cuts.clear();
    merged.coverage = Default::default();
    (merged.recoveries, merged.failures, merged.recuts) = (0, 0, None);
    merged.signal = parts.iter().find_map(|p| p.signal);
    for part in parts {
        merged.recoveries += part.recoveries;
        merged.failures += part.failures;
        merged.cuts.extend(part.cuts.iter().cloned());
        findings.extend(part.findings.iter().cloned());
        for read in &part.undecided_reads {
            let known = reads.entry(read.site.clone());
            known
                .and_modify(|r| r.cuts += read.cuts)
                .or_insert_with(|| read.clone());
        }
        if let Some(r) = &part.recuts {
            merged.recuts.get_or_insert_default().add_part(r);
        }
        let (to, from) = (&mut merged.coverage, &part.coverage);
        to.duplicates += from.duplicates;
        to.contents_tried += from.contents_tried;
        to.unstable += from.unstable;
        to.stopped |= from.stopped;
        for (class, n) in &from.tried {
            *to.tried.entry(class.clone()).or_default() += n;
        }
        capped.extend(from.capped_lines.iter().copied());
    }
    merged.cuts.sort_by_key(|c| (c.step, c.operation));
    let c = &mut merged.coverage;
    c.cuts = merged.cuts.len() as u64;
    c.complete = merged.cuts.iter().filter(|c| c.complete).count() as u64;
    c.states = merged.cuts.iter().map(|c| c.states).sum();
    c.states_covered = merged.cuts.iter().map(|c| c.states_covered).sum();
    c.capped_lines = capped.into_iter().collect();
    merged.undecided_reads = reads.into_values().collect();
    merged.findings = causes(findings);
    Ok(merged)
}

/// Findings by cause, as one search attributes them: those that need the fewest stores first, which explain others.
pub(crate) fn causes(mut all: Vec<Finding>) -> Vec<Finding> {
    all.sort_by_cached_key(|f| (f.content.len(), f.step, f.id.clone()));
    let mut causes: Vec<(Finding, [BTreeSet<String>; 2])> = Vec::new();
    for finding in all {
        let [lost, kept] = [Change::Lost, Change::Kept].map(|change| -> BTreeSet<String> {
            let list = finding.stores.iter().filter(|s| s.change == change);
            list.map(|s| key(&s.frames)).collect()
        });
        let known = causes.iter_mut().find(|(f, [l, k])| {
            let explains = if l.is_empty() {
                !k.is_empty() && lost.is_empty() && k.is_subset(&kept)
            } else {
                l.is_subset(&lost)
            };
            f.id == finding.id || explains && f.recut.is_some() == finding.recut.is_some()
        });
        match known {
            Some((known, _)) => known.count += finding.count,
            None => causes.push((finding, [lost, kept])),
        }
    }
    causes.into_iter().map(|(f, _)| f).collect()
}
