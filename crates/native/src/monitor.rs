//! Threads, their epochs and their accounts.

use std::collections::BTreeMap;

use nagori_epoch::record::Cause;
use nagori_epoch::{Amount, Counts, Ledger, Model};
use nagori_memtime::Ps;
use serde::Serialize;

use crate::source::{Clocks, Source, Tid};
use crate::Error;

/// Lengths of epochs, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// An epoch ends at the latest after so much processor time of its thread.
    pub length: u64,
    /// At synchronisation, an epoch that is shorter goes on.
    pub least: u64,
}

impl Epochs {
    /// Epochs of a length; at synchronisation they last at least a hundredth of it.
    pub fn of(length_ns: u64) -> Epochs {
        Epochs {
            length: length_ns,
            least: length_ns / 100,
        }
    }
}

/// What became of one thread. Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThreadReport {
    /// Its process.
    pub pid: i32,
    /// Its number.
    pub tid: i32,
    /// Epochs, by what ended them.
    pub epochs: BTreeMap<String, u64>,
    /// What the formulas asked for.
    pub asked_ns: f64,
    /// Parts of it: misses that only read.
    pub read_ns: f64,
    /// Misses with a write-back.
    pub write_ns: f64,
    /// For how long the thread was kept from its work, the monitor's own work included.
    pub waited_ns: f64,
    /// What it still owes (or, negative, has waited too long).
    pub left_ns: f64,
    /// Lines flushed and waited for by the helper.
    pub flushed_lines: u64,
    /// Lines of non-temporal stores, likewise.
    pub nt_lines: u64,
    /// Epochs in which counters contradicted each other.
    pub contradictions: u64,
    /// Write-backs for which no miss waits.
    pub excess_writebacks: u64,
}

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Where the counts came from.
    pub source: String,
    /// Every thread, in the order in which they ended.
    pub threads: Vec<ThreadReport>,
    /// Processor time of the monitor itself.
    pub monitor_cpu_ns: u64,
    /// How long the run took.
    pub run_ns: u64,
}

impl Report {
    /// Sum over all threads of what the formulas asked for.
    pub fn asked_ns(&self) -> f64 {
        self.threads.iter().map(|t| t.asked_ns).sum()
    }

    /// Sum over all threads of what was waited.
    pub fn waited_ns(&self) -> f64 {
        self.threads.iter().map(|t| t.waited_ns).sum()
    }
}

#[derive(Debug, Default)]
struct Account {
    pid: i32,
    ledger: Ledger,
    report: ThreadReport,
    read: Amount,
    write: Amount,
}

/// All threads.
pub struct Monitor {
    model: Model,
    epochs: Epochs,
    source: Box<dyn Source>,
    accounts: BTreeMap<Tid, Account>,
    ended: Vec<ThreadReport>,
}

impl Monitor {
    /// A monitor without threads.
    pub fn new(model: Model, epochs: Epochs, source: Box<dyn Source>) -> Monitor {
        Monitor {
            model,
            epochs,
            source,
            accounts: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// The lengths of epochs.
    pub fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// The formulas.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Begins to count for a thread. One that is known already (another program has taken over its process) keeps its
    /// account.
    ///
    /// # Errors
    /// If the source cannot count for it.
    pub fn attach(&mut self, tid: Tid, pid: i32, clocks: Clocks) -> Result<(), Error> {
        if self.accounts.contains_key(&tid) {
            self.source.detach(tid);
        }
        self.source.attach(tid, clocks)?;
        self.accounts.entry(tid).or_default().pid = pid;
        Ok(())
    }

    /// Records for how long a thread was kept from its work.
    pub fn waited(&mut self, tid: Tid, ns: u64) {
        if let Some(account) = self.accounts.get_mut(&tid) {
            account.ledger.waited(Ps(ns.saturating_mul(1000)));
        }
    }

    /// Records lines for which the helper has waited by itself.
    pub fn lines(&mut self, tid: Tid, flushed: u64, nt: u64) {
        if let Some(account) = self.accounts.get_mut(&tid) {
            account.report.flushed_lines += flushed;
            account.report.nt_lines += nt;
        }
    }

    /// Ends a thread's epoch. Returns for how many nanoseconds it has to wait from now on.
    ///
    /// # Errors
    /// If the source fails, or the formulas refuse its counts.
    pub fn close(&mut self, tid: Tid, clocks: Clocks, cause: Cause) -> Result<u64, Error> {
        let counts = self.source.read(tid, clocks)?;
        let Some(account) = self.accounts.get_mut(&tid) else {
            return Ok(0);
        };
        if let Some(Counts { overhead, .. }) = counts {
            account.ledger.add_overhead(overhead);
        }
        if let Some(counts) = counts {
            let delay = self.model.delay(&counts)?;
            account.ledger.add(&delay, Ps::ZERO);
            account.read += delay.read;
            account.write += delay.write;
            account.report.contradictions += u64::from(delay.contradiction);
            account.report.excess_writebacks += delay.excess_writebacks;
        }
        *account.report.epochs.entry(name_of(cause)).or_insert(0) += 1;
        Ok(account.ledger.due().0 / 1000)
    }

    /// A thread has ended.
    pub fn detach(&mut self, tid: Tid) {
        self.source.detach(tid);
        if let Some(account) = self.accounts.remove(&tid) {
            self.ended.push(account.into_report(tid));
        }
    }

    /// Whether a thread is there.
    pub fn knows(&self, tid: Tid) -> bool {
        self.accounts.contains_key(&tid)
    }

    /// What became of all threads.
    pub fn finish(mut self) -> Report {
        for tid in self.accounts.keys().copied().collect::<Vec<_>>() {
            self.detach(tid);
        }
        Report {
            source: self.source.describe(),
            threads: self.ended,
            ..Report::default()
        }
    }
}

impl Account {
    fn into_report(self, tid: Tid) -> ThreadReport {
        ThreadReport {
            pid: self.pid,
            tid: tid.0,
            asked_ns: self.ledger.delays().as_ns(),
            read_ns: self.read.as_ns(),
            write_ns: self.write.as_ns(),
            waited_ns: self.ledger.total_waited().as_ns(),
            left_ns: self.ledger.balance().as_ns(),
            ..self.report
        }
    }
}

/// A cause's name, as in recorded streams.
fn name_of(cause: Cause) -> String {
    match serde_json::to_value(cause) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{cause:?}"),
    }
}
