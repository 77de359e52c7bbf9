//! Problems that make a run's figures incomplete or misleading.

use nagori_hart::world::Observer;
use nagori_platform::machine::Machine;
use serde::Serialize;

/// A region of interest is still open.
pub const NEVER_ENDED: &str = "region-never-ended";

/// A problem that the figures themselves do not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// For programs: region-never-began, region-never-ended, warm-up-never-began,
    /// warm-up-never-ended.
    pub what: &'static str,
    /// For human readers.
    pub message: String,
    /// Whether the requested figures do not exist.
    pub meaningless: bool,
}

impl Problem {
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
pub fn of<O: Observer>(m: &Machine<O>, asked: Asked) -> Vec<Problem> {
    let mut all = Vec::new();
    let regions = m.regions();
    match &regions {
        None if asked.regions => all.push(Problem::new(
            "region-never-began",
            true,
            "no region of interest began: the program never called nagori_roi_begin(), so nothing was timed (docs/markers.md)".into(),
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

fn warm_up<O: Observer>(m: &Machine<O>, instructions: u64) -> Option<Problem> {
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
            format!("--warm-up: what was timed ended before its {instructions} instructions; there are no statistics behind the warm-up"),
        )),
        (_, 0) => None,
        (ended, _) => Some(Problem::new(
            "warm-up-never-ended",
            false,
            format!("--warm-up: {unfinished} of {} times the timing model was turned off before {instructions} instructions; the statistics hold these warm-ups, too", ended + unfinished),
        )),
    }
}
