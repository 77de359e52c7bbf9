//! Power cuts at chosen points of a run.

use crate::caller::Caller;
use crate::drive::{Restart, Service, Wishes};
use crate::end::End;
use crate::error::{Context, Error, Result};
use crate::words::{duration, grouped};
use nagori_machine::{Dram, Machine, Point, PowerCut, Step, Stop};
use nagori_platform::clock::Ps;
use std::str::FromStr;

/// Greatest number of characters of a text label.
const LABEL: usize = 8;

/// When to cut the power, and what to do then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PowerCuts {
    /// The points, one after the other; markers and steps are counted from the previous cut.
    pub points: Vec<Point>,
    /// Whether the run ends at the last of them instead of restarting.
    pub exit: bool,
    /// Content of DRAM afterwards.
    pub dram: Dram,
}

/// A point of a run, written as `N` or `insn:N`, `time:T` or `T`, `marker:LABEL[:N]`,
/// `nvmm-write:N`, `fence:N`, `flush:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct When(pub Point);

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        let wrong = || {
            "expected insn:N, time:DURATION (such as time:12.5ms), marker:LABEL[:N], nvmm-write:N, fence:N or flush:N, \
                with N from 1".to_string()
        };
        let count = |t: &str| nagori_values::count::<u64>(t, 1..).ok();
        let step = |step, n: &str| count(n).map(|nth| Point::Step { step, nth });
        let time = |t: &str| t.parse::<nagori_memtime::Ps>().ok().map(|t| Ps(t.0));
        let point = match text.split_once(':') {
            Some(("insn", n)) => count(n).map(Point::Instructions),
            Some(("time", t)) => time(t).map(Point::Time),
            Some(("nvmm-write", n)) => step(Step::NvmmWrite, n),
            Some(("fence", n)) => step(Step::Fence, n),
            Some(("flush", n)) => step(Step::Flush, n),
            Some(("marker", rest)) => {
                let (label, nth) = match rest.rsplit_once(':') {
                    Some((label, n)) => (label, count(n)),
                    None => (rest, Some(1)),
                };
                label_value(label)
                    .zip(nth)
                    .map(|(value, nth)| Point::Label { value, nth })
            }
            Some(_) => None,
            None => count(text)
                .map(Point::Instructions)
                .or_else(|| time(text).map(Point::Time)),
        };
        let point = point.filter(|p| *p != Point::Time(Ps::ZERO));
        point.map(When).ok_or_else(wrong)
    }
}

/// The value of a label: a number, or characters, the first in the lowest byte.
fn label_value(text: &str) -> Option<u64> {
    if let Ok(n) = nagori_values::count(text, ..) {
        return Some(n);
    }
    let plain = |b: u8| b.is_ascii_graphic() || b == b' ';
    if text.is_empty() || text.len() > LABEL || !text.bytes().all(plain) {
        return None;
    }
    let mut bytes = [0; LABEL];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    Some(u64::from_le_bytes(bytes))
}

/// Cuts the power of a run at its points.
pub struct Cutter<'a> {
    points: Vec<Point>,
    next: usize,
    exit: bool,
    /// Whether the caller restarts the machine: the run then ends at each cut.
    apart: bool,
    dram: Dram,
    caller: &'a dyn Caller,
}

impl<'a> Cutter<'a> {
    /// Cuts as requested; `None` if there are none.
    pub fn new(a: &PowerCuts, caller: &'a dyn Caller) -> Option<Self> {
        (!a.points.is_empty()).then(|| Cutter {
            points: a.points.clone(),
            next: 0,
            exit: a.exit,
            apart: false,
            dram: a.dram,
            caller,
        })
    }

    /// Counts instructions and time from the machine's present state, and leaves it to the caller
    /// to restart the machine, for which the run ends at each cut.
    pub fn starting_at(mut self, machine: &Machine) -> Self {
        for p in &mut self.points {
            match p {
                Point::Instructions(n) => *n = n.saturating_add(machine.instructions()),
                Point::Time(t) => *t = Ps(t.0.saturating_add(machine.now().0)),
                Point::Label { .. } | Point::Step { .. } => {}
            }
        }
        self.apart = true;
        self
    }

    /// Whether the run is to end.
    pub fn is_over(&self) -> bool {
        self.exit && self.next == self.points.len()
    }
}

/// Cuts the power, and reports the losses.
pub fn cut(machine: &mut Machine, dram: Dram, caller: &dyn Caller) -> Result<PowerCut> {
    let cut = machine.power_cut(dram).context("the power cut")?;
    caller.note(&format!(
        "power cut at {} of machine time, behind {} instructions: {} lines of NVMM lost in caches, {} writes in the \
            controller",
        duration(cut.time_ps),
        grouped(cut.instructions),
        cut.lost_lines,
        cut.lost_writes
    ));
    Ok(cut)
}

impl Service for Cutter<'_> {
    fn before(&mut self, machine: &mut Machine, _: &mut Wishes) -> Result<()> {
        if machine.point().is_some() {
            return Ok(());
        }
        let point = self.points.get(self.next).copied();
        match point {
            Some(Point::Instructions(n)) if n <= machine.instructions() => Err(Error::Request(format!(
                "--power-cut-at: the machine has executed {} instructions already, so {n} is behind it",
                machine.instructions()
            ))),
            Some(Point::Time(t)) if t <= machine.now() => Err(Error::Request(format!(
                "--power-cut-at: machine time is {} already, so {} is behind it",
                duration(machine.now().0),
                duration(t.0)
            ))),
            _ => {
                machine.set_point(point);
                Ok(())
            }
        }
    }

    fn after(&mut self, machine: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        // Another service may have set a point behind the last one of these.
        if stop != Stop::Reached || self.next == self.points.len() {
            return Ok(());
        }
        if !self.exit && !self.apart && machine.software().is_none() {
            return Err(Error::Request(
                "--power-cut-at: this snapshot does not say what the machine starts with: take \
                --power-cut-exit"
                    .into(),
            ));
        }
        self.next += 1;
        cut(machine, self.dram, self.caller)?;
        if self.apart || self.is_over() {
            wishes.end(End::PowerCut);
        } else {
            wishes.restart = Some(Restart::PowerCut);
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Machine) -> Result<()> {
        let left = self.points.len() - self.next;
        if left > 0 {
            let text = format!(
                "--power-cut-at: the run ended before {left} of {} points",
                self.points.len()
            );
            self.caller.warning(&text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read_or_refused() {
        let point = |t: &str| t.parse::<When>().ok().map(|w| w.0);
        let label = |value, nth| Some(Point::Label { value, nth });
        assert_eq!(point("1500000"), Some(Point::Instructions(1_500_000)));
        assert_eq!(point("insn:7"), Some(Point::Instructions(7)));
        assert_eq!(point("12.5ms"), Some(Point::Time(Ps(12_500_000_000))));
        assert_eq!(point("time:3 us"), Some(Point::Time(Ps(3_000_000))));
        assert_eq!(point("marker:7"), label(7, 1));
        assert_eq!(point("marker:0x10:3"), label(16, 3));
        assert_eq!(point("marker:ab"), label(0x6261, 1));
        assert_eq!(
            point("marker:phase 2:4"),
            label(u64::from_le_bytes(*b"phase 2\0"), 4)
        );
        for (text, step) in [
            ("nvmm-write:9", Step::NvmmWrite),
            ("fence:9", Step::Fence),
            ("flush:9", Step::Flush),
        ] {
            assert_eq!(point(text), Some(Point::Step { step, nth: 9 }));
        }
        for bad in [
            "",
            "fence:0",
            "flush:",
            "0",
            "insn:0",
            "insn:x",
            "time:5",
            "0ms",
            "5 weeks",
            "marker:",
            "marker:7:0",
            "marker:seven:x",
            "marker:ninechars",
            "cycle:5",
            "-1",
        ] {
            assert_eq!(point(bad), None, "{bad}");
        }
    }
}
