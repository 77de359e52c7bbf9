//! Cells of a table that are measured at the same time on this host; none of them depends on another one.

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use nagori_terminal::output::Messages;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The results for all items, in their order; the first error ends the others.
pub fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: Option<u32>,
    messages: &Messages,
    bar: &ProgressBar,
    one: impl Fn(&T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let jobs = jobs.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        |n| n as usize,
    );
    let results: Vec<Mutex<Option<anyhow::Result<R>>>> =
        items.iter().map(|_| Mutex::new(None)).collect();
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|s| {
        for _ in 0..jobs.min(items.len()) {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { break };
                    let result = one(item);
                    if result.is_err() || messages.signals().caught().is_some() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    *results[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                    bar.inc(1);
                }
            });
        }
    });
    let mut all = Vec::new();
    let mut missing = false;
    for r in results {
        match r.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(r) => all.push(r?),
            None => missing = true,
        }
    }
    if missing {
        Err(anyhow!("the table was not finished"))
    } else {
        Ok(all)
    }
}

/// A progress bar over so many steps; `what` they are.
pub fn progress(steps: usize, what: &str, messages: &Messages) -> ProgressBar {
    if messages.quiet() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64);
    let template = format!("{{spinner}} {{bar:32}} {{pos}}/{{len}} {what}  {{elapsed}}");
    bar.set_style(ProgressStyle::with_template(&template).expect("a template"));
    bar
}
