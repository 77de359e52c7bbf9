//! Cell writes that are paused for reads.

use super::{Bank, Judge, Limits};

/// The cell write that the last precharge of a written row began.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellWrite {
    /// Clock of its first iteration, or of the first one after a resumption.
    begin: u64,
    /// Clocks of iterations completed since then.
    rest: u64,
    /// Clock at which it was or will be stopped.
    pub stop: Option<u64>,
    /// It has been paused: the precharge alone no longer determines when it ends.
    pub touched: bool,
}

impl CellWrite {
    pub fn new(begin: u64, rest: u64) -> CellWrite {
        CellWrite {
            begin,
            rest,
            stop: None,
            touched: false,
        }
    }

    fn end(&self) -> u64 {
        self.begin + self.rest
    }
}

/// Checks an activation while a cell write has been paused or resumed.
pub(super) fn activate(l: &Limits, b: &Bank, w: &CellWrite, j: &mut Judge) {
    if let Some((start, _)) = b.precharged {
        j.time("tRP", start + l.rp);
    }
    match w.stop {
        Some(stop) => j.time("end of the iteration of a paused cell write", stop),
        None => j.time("resumed cell write", w.end()),
    }
}

pub(super) fn pause(l: &Limits, b: &mut Bank, j: &mut Judge) {
    let at = j.entry.at;
    let Some((iteration, _)) = l.pause else {
        return j.state("PAUSE of a device that cannot pause cell writes");
    };
    let started = b.precharged.is_some_and(|(start, _)| start <= at);
    let Some(w) = b.write.as_mut().filter(|_| !b.open && started) else {
        return j.state("PAUSE without a cell write");
    };
    if w.stop.is_some() {
        return j.state("PAUSE of a paused cell write");
    }
    // At least one iteration after each begin.
    let mut stop = w.begin + iteration;
    if at > stop {
        stop += (at - stop).div_ceil(iteration) * iteration;
    }
    if stop >= w.end() {
        return j.state("PAUSE of a cell write that is over");
    }
    w.stop = Some(stop);
    w.touched = true;
}

pub(super) fn resume(l: &Limits, b: &mut Bank, j: &mut Judge) {
    let at = j.entry.at;
    if b.open {
        j.state("RESUM with an open row");
    }
    if let Some((start, _)) = b.precharged {
        j.time("tRP", start + l.rp);
    }
    let overhead = l.pause.map_or(0, |p| p.1);
    let Some((w, stop)) = b.write.as_mut().and_then(|w| w.stop.map(|s| (w, s))) else {
        return j.state("RESUM without a paused cell write");
    };
    j.time("end of the iteration of a paused cell write", stop);
    *w = CellWrite {
        begin: at + overhead,
        rest: w.end() - stop,
        stop: None,
        touched: true,
    };
}
