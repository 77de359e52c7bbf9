//! Threads that measure windows, each in a copy of the machine that follows it from moment to moment.

use crate::pages::Pages;
use crate::window::{measure, Failure, Length, Window};
use nagori_machine::{
    Attribution, Engine, First, Machine, MachineError, MachineState, PageContent, Replica,
};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Connects a copy to what of the host it may use.
pub type Connect = Arc<dyn Fn(&mut Machine) -> Result<(), Failure> + Send + Sync>;

/// How a copy is made ready.
#[derive(Clone)]
pub struct Copies {
    /// The engine that runs its code.
    pub engine: Engine,
    /// Connects what of the host it may use; what has to be there is only read.
    pub connect: Connect,
    /// Where each window is written as a snapshot.
    pub keep: Option<PathBuf>,
}

struct Job {
    moment: u64,
    state: MachineState,
    length: Length,
}

/// What came of a window: `None` if the program ended before.
type Found = Option<Window>;

#[derive(Default)]
struct Inner {
    pages: Option<Pages>,
    queue: VecDeque<Job>,
    /// By thread: the moment of its copy, and the one that it works on.
    copies: Vec<(u64, Option<u64>)>,
    found: BTreeMap<u64, Found>,
    failed: Option<Failure>,
    over: bool,
}

struct Shared {
    /// A profiler for each copy is made from it.
    profile: Option<Mutex<Box<dyn Attribution>>>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads, and the windows that they have measured.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Whether the run waits for each window.
    alone: bool,
}

impl Pool {
    /// With so many threads together with the one that runs the machine.
    pub fn new(first: First, threads: usize, copies: &Copies) -> Pool {
        let workers = threads.saturating_sub(1).max(1);
        let inner = Inner {
            pages: Some(Pages::new(first.checkpoint)),
            copies: vec![(0, None); workers],
            ..Inner::default()
        };
        let shared = Arc::new(Shared {
            profile: first.profile.map(Mutex::new),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        });
        let one = |n: usize| {
            let (shared, copies) = (shared.clone(), copies.clone());
            std::thread::spawn(move || work(n, &shared, &copies))
        };
        Pool {
            threads: (0..workers).map(one).collect(),
            alone: threads <= 1,
            shared,
        }
    }

    /// Has a window measured at a moment; the first has number 0, and those after it the pages that have changed.
    pub fn submit(
        &self,
        moment: u64,
        (state, pages): (MachineState, Vec<(u64, PageContent)>),
        length: Length,
    ) {
        let mut inner = self.shared.lock();
        if let (Some(all), true) = (&mut inner.pages, moment > 0) {
            all.add(pages);
        }
        inner.queue.push_back(Job {
            moment,
            state,
            length,
        });
        drop(inner);
        self.shared.changed.notify_all();
        if self.alone {
            self.wait(moment + 1);
        }
    }

    /// Waits until all windows before a moment are measured, or one has failed.
    pub fn wait(&self, before: u64) {
        let mut inner = self.shared.lock();
        let missing = |i: &mut Inner| {
            let queued = i.queue.front().is_some_and(|j| j.moment < before);
            let works = i.copies.iter().any(|c| c.1.is_some_and(|m| m < before));
            i.failed.is_none() && (queued || works)
        };
        while missing(&mut inner) {
            let waited = self.shared.changed.wait(inner);
            inner = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What came of the window of a moment, once; all windows before the next moment have to be waited for.
    pub fn take(&self, moment: u64) -> Found {
        self.shared.lock().found.remove(&moment).flatten()
    }

    /// Why windows could not be measured.
    pub fn failure(&self) -> Option<Failure> {
        self.shared.lock().failed.clone()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.over = true;
        inner.queue.clear();
        drop(inner);
        self.shared.changed.notify_all();
        for t in self.threads.drain(..) {
            // A thread that has panicked has said so.
            let _ = t.join();
        }
    }
}

fn work(n: usize, shared: &Shared, copies: &Copies) {
    let mut replica = None;
    loop {
        let mut inner = shared.lock();
        let job = loop {
            if inner.over || inner.failed.is_some() {
                return;
            }
            match inner.queue.pop_front() {
                Some(job) => break job,
                None => {
                    let waited = shared.changed.wait(inner);
                    inner = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        inner.copies[n].1 = Some(job.moment);
        drop(inner);
        let moment = job.moment;
        let found = one(n, shared, copies, &mut replica, job);
        let mut inner = shared.lock();
        inner.copies[n] = (moment, None);
        match found {
            Ok(found) => drop(inner.found.insert(moment, found)),
            Err(e) => drop(inner.failed.get_or_insert(e)),
        }
        let wanted = { inner.copies.iter().filter_map(|c| c.1) }
            .chain(inner.queue.front().map(|j| j.moment))
            .min();
        let kept = inner.copies.iter().map(|c| c.0).min().unwrap_or(0);
        if let Some(pages) = &mut inner.pages {
            pages.forget(wanted, kept);
        }
        drop(inner);
        shared.changed.notify_all();
    }
}

fn one(
    n: usize,
    shared: &Shared,
    copies: &Copies,
    replica: &mut Option<Replica>,
    job: Job,
) -> Result<Found, Failure> {
    let words = |e: MachineError| e.to_string();
    if replica.is_none() {
        let first = shared.lock().pages.as_ref().map(|p| p.first().clone());
        let first = first.ok_or("there is no first moment")?;
        let mut made = Replica::new(&first, copies.engine).map_err(words)?;
        let profile = shared.profile.as_ref();
        let profile = profile.map(|p| p.lock().unwrap_or_else(PoisonError::into_inner).another());
        made.machine.set_attribution(profile);
        *replica = Some(made);
    }
    let r = replica.as_mut().ok_or("there is no copy")?;
    let put = |r: &mut Replica, from: u64, as_hits: bool| -> Result<(), Failure> {
        let own = r.own_pages();
        let pages = match &shared.lock().pages {
            Some(p) => p.renewed((from, job.moment), own).map_err(words)?,
            None => Vec::new(),
        };
        r.go_to(job.state.clone(), &pages).map_err(words)?;
        (copies.connect)(&mut r.machine)?;
        r.machine.watch_cold(as_hits);
        Ok(())
    };
    let from = shared.lock().copies[n].0;
    put(r, from, false)?;
    if let Some(dir) = &copies.keep {
        crate::kept::write(&mut r.machine, dir, job.moment, job.length)?;
    }
    let Some(mut window) = measure(&mut r.machine, job.length) else {
        return Ok(None);
    };
    if window.is_in_doubt() {
        put(r, job.moment, true)?;
        window.bound(measure(&mut r.machine, job.length).as_ref());
    }
    Ok(Some(window))
}
