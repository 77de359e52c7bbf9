//! Problems that make a run's figures incomplete or misleading.
use crate::sampling::Sampled;
use nagori_machine::{Machine, Report};
use nagori_memtime::params::Delays;
use nagori_memtime::{Method, Ps};
use serde::Serialize;
use std::fmt;

/// A region of interest is still open.
pub const NEVER_ENDED: &str = "region-never-ended";
/// NVMM, which was asked about, was not used.
const NO_NVMM: &str = "no-nvmm-accesses";
/// Memory was not used.
const NO_MEMORY: &str = "no-memory-accesses";
/// The delay method concerns nothing that has happened.
const NO_EFFECT: &str = "method-without-effect";

/// A problem that the figures themselves do not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// For programs: region-never-began, region-never-ended, warm-up-never-began,
    /// warm-up-never-ended, no-nvmm-accesses, no-memory-accesses, method-without-effect,
    /// implausible-time.
    pub what: &'static str,
    /// For human readers.
    pub message: String,
    /// Whether the requested figures do not exist.
    pub meaningless: bool,
}

impl Problem {
    /// Whether it is that neither a method nor a memory has made a difference.
    pub fn is_of_nvmm(&self) -> bool {
        [NO_NVMM, NO_EFFECT].contains(&self.what)
    }

    fn new(what: &'static str, meaningless: bool, message: String) -> Problem {
        Problem {
            what,
            message,
            meaningless,
        }
    }
}

/// The figures that were requested of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    /// Only figures of regions of interest.
    pub regions: bool,
    /// Instructions of a warm-up.
    pub warm_up: Option<u64>,
}

/// The problems of a machine whose run is over.
pub fn of(m: &Machine, asked: Asked) -> Vec<Problem> {
    let mut all = implausible(m);
    let regions = m.regions();
    match &regions {
        None if asked.regions => all.push(Problem::new(
            "region-never-began",
            true,
            "no region of interest began: the program never called nagori_roi_begin(), so nothing was timed \
                (docs/markers.md)".into(),
        )),
        Some(r) if r.open => all.push(Problem::new(
            NEVER_ENDED,
            false,
            "a region of interest began and never ended: it is counted up to the end of the run".into(),
        )),
        _ => {}
    }
    // Without a region the timing model was never on; that has been reported already.
    if let (Some(n), true) = (asked.warm_up, all.iter().all(|p| !p.meaningless)) {
        all.extend(warm_up(m, n));
    }
    all
}

/// What windows of a sampled run do not say.
pub fn of_samples(s: &Sampled) -> Vec<Problem> {
    let mut all = Vec::new();
    if s.says_too_little() {
        all.push(Problem::new(
            "too-few-windows",
            true,
            format!("only {} windows were measured ({} ended with the program): too few for an estimate; ask for \
                shorter ones (--window-length, --warm-up), or for all details (--timing detailed)",
                s.windows.len(), s.cut),
        ));
    } else if s.has_no_interval() {
        all.push(Problem::new(
            "no-interval",
            false,
            format!("behind the first {} instructions, which were measured as a whole, there are {} windows: too few \
                for an interval; --timing detailed takes hardly longer", s.head_instructions(), s.windows.len()),
        ));
    }
    let busy = s.busy_harts();
    if busy > 1 {
        all.push(Problem::new(
            "several-busy-harts",
            false,
            format!("{busy} harts were busy: harts that wait for one another do so at other places between windows, an \
                error that the intervals do not hold (docs/sampling.md); --timing detailed has none"),
        ));
    }
    if s.cold > 0 {
        let least = s.least_time_ps().zip(s.time_ps());
        let least = least.map_or(0.0, |(low, time)| 100.0 * (1.0 - low.value / time.value));
        all.push(Problem::new(
            "windows-not-warm",
            false,
            format!("{} of {} windows began with caches that were not warm: the run time may be {least:.1} % shorter \
                than the estimate; a longer --warm-up shows it", s.cold, s.windows.len()),
        ));
    }
    all
}

/// Times of the memories that no device has.
fn implausible(m: &Machine) -> Vec<Problem> {
    let memories = m.config().regions().into_iter();
    let warnings = memories.filter_map(|r| {
        let warnings = r.config.load().ok()?.warnings;
        Some(warnings.into_iter().map(move |w| (r.name.to_string(), w)))
    });
    let told = |(region, w)| {
        Problem::new(
            "implausible-time",
            false,
            format!("memory of region {region}: {w}"),
        )
    };
    warnings.flatten().map(told).collect()
}

fn warm_up(m: &Machine, instructions: u64) -> Option<Problem> {
    let w = m.warm_ups();
    let unfinished = w.cut + u64::from(w.open);
    match (w.ended, unfinished) {
        (0, 0) => Some(Problem::new(
            "warm-up-never-began",
            true,
            "--warm-up: the timing model was never turned on, so nothing was warmed up and nothing was timed".into(),
        )),
        (0, _) => Some(Problem::new(
            "warm-up-never-ended",
            true,
            format!("--warm-up: what was timed ended before its {instructions} instructions; there are no statistics \
                behind the warm-up"),
        )),
        (_, 0) => None,
        (ended, _) => Some(Problem::new(
            "warm-up-never-ended",
            false,
            format!("--warm-up: {unfinished} of {} times the timing model was turned off before {instructions} \
                instructions; the statistics hold these warm-ups, too", ended + unfinished),
        )),
    }
}

/// What NVMM was to a run. If it was the same to two runs, neither a method nor a memory makes them differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nvmm {
    /// Nothing: no line of it was read or written while figures were counted.
    Unused,
    /// Memory behind the machine's own controller, with the delays of a method; those of `dram` if the method
    /// delays nothing that has happened.
    Delayed(Method),
    /// A memory of its own, by its name.
    Memory(String),
    /// What epochs with these formulas emulated.
    Emulated(&'static str),
}

impl fmt::Display for Nvmm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nvmm::Unused => f.write_str("NVMM was not used"),
            Nvmm::Delayed(Method::Dram) => f.write_str("NVMM was as fast as DRAM"),
            Nvmm::Delayed(method) => write!(f, "NVMM had the delays of {method}"),
            Nvmm::Memory(name) => write!(f, "NVMM was {name}"),
            Nvmm::Emulated(formulas) => write!(f, "NVMM was emulated by epochs ({formulas})"),
        }
    }
}

/// The memory of its own that NVMM has.
fn own_memory(r: &Report) -> Option<&str> {
    let own = r.memories.iter().find(|m| m.name == "nvmm")?;
    Some(&own.model)
}

/// Lines of DRAM and NVMM that were read and written: of each, first the reads.
fn lines(r: &Report) -> [[u64; 2]; 2] {
    let mut all = [[0; 2]; 2];
    for m in r.harts.iter().map(|h| &h.memory) {
        let of_hart = [[m.dram_reads, m.dram_writes], [m.nvmm_reads, m.nvmm_writes]];
        for (sum, n) in all.iter_mut().flatten().zip(of_hart.iter().flatten()) {
            *sum += n;
        }
    }
    all
}

/// Whether a method delays something of so many reads and writes.
fn delays(method: Method, d: &Delays, [reads, writes]: [u64; 2]) -> bool {
    let some = |delay: Ps| delay > Ps::ZERO;
    let row = some(d.trcd) || (some(d.trp) && writes > 0);
    match method {
        Method::Dram => false,
        Method::Coarse => {
            (some(d.coarse_read) && reads > 0) || (some(d.coarse_write) && writes > 0)
        }
        Method::Fine => row,
        Method::Extended => row || some(d.tras),
    }
}

/// What NVMM was to the part of a run that a report covers.
pub fn nvmm(m: &Machine, r: &Report) -> Nvmm {
    let [_, lines] = lines(r);
    let method = r.memory.method;
    // A guest that has changed something has its reasons.
    let unchanged = r.memory.changes.is_empty();
    match own_memory(r) {
        _ if lines == [0, 0] => Nvmm::Unused,
        _ if r.epochs.is_some() => {
            Nvmm::Emulated(r.epochs.as_ref().map_or("", |e| e.variant.name()))
        }
        Some(name) => Nvmm::Memory(name.into()),
        None if unchanged && !delays(method, &m.config().memory.controller.delays, lines) => {
            Nvmm::Delayed(Method::Dram)
        }
        None => Nvmm::Delayed(method),
    }
}

/// What was asked about NVMM, by the options of a run.
#[derive(Debug, Clone, Copy)]
pub struct AskedOfNvmm {
    /// Whether the timing model was to be on.
    pub timed: bool,
    /// The delay method.
    pub method: Option<Method>,
    /// Whether something of the program was to be on NVMM.
    pub placed: bool,
}

/// What figures do not say of NVMM, or of memory, although it was asked for.
pub fn of_nvmm(m: &Machine, r: &Report, asked: AskedOfNvmm) -> Vec<Problem> {
    let new = |what, message| Problem::new(what, false, message);
    let (used, own) = (nvmm(m, r), own_memory(r));
    let method = asked.method.unwrap_or(r.memory.method);
    if !asked.timed {
        let without =
            format!("method {method} has no effect without the timing model (--functional)");
        let delayed = asked.method.is_some_and(|m| m != Method::Dram);
        return Vec::from_iter(delayed.then(|| new(NO_EFFECT, without)));
    }
    let mut all = Vec::new();
    if lines(r) == [[0; 2]; 2] {
        all.push(new(
            NO_MEMORY,
            "nothing was read from memory or written to it in the time that is counted: the \
            figures say nothing of memory"
                .into(),
        ));
    }
    let subject = match (own, method) {
        _ if r.epochs.is_some() => Some("emulation by epochs".into()),
        (Some(name), _) => Some(format!("the memory {name}")),
        (None, Method::Dram) => None,
        (None, method) => Some(format!("method {method}")),
    };
    let hint = if asked.placed {
        ""
    } else {
        ": the program is in DRAM; --placement puts it on NVMM"
    };
    match (used, subject) {
        (Nvmm::Unused, Some(subject)) => all.push(new(
            NO_NVMM,
            format!("nothing was read from NVMM or written to it, so {subject} made no difference{hint}"),
        )),
        (Nvmm::Unused, None) if asked.placed => all.push(new(
            NO_NVMM,
            "nothing was read from NVMM or written to it, in spite of --placement".into(),
        )),
        (Nvmm::Delayed(Method::Dram), Some(subject)) => all.push(new(
            NO_EFFECT,
            format!("{subject} made no difference: its delays concern nothing that was read from NVMM or written to \
                it"),
        )),
        _ => {}
    }
    if let (Some(name), Some(method)) = (own, asked.method.filter(|m| *m != Method::Dram)) {
        all.push(new(
            NO_EFFECT,
            format!("method {method} made no difference: NVMM has a memory of its own, {name}"),
        ));
    }
    all
}
