//! Power cuts at chosen points of a run.

use crate::drive::{Restart, Service, Wishes};
use crate::guest::End;
use crate::output::Messages;
use crate::tables::{duration, grouped};
use anyhow::{bail, Context};
use clap::Args;
use nagori_hart::world::Observer;
use nagori_platform::clock::Ps;
use nagori_platform::machine::{Dram, Machine, Point, PowerCut, Stop};
use std::str::FromStr;

/// Characters of a label that is text.
const LABEL: usize = 8;

/// When to cut the power.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Power cuts")]
pub struct PowerArgs {
    /// Cut the power at this point; then the machine starts anew, with what NVMM holds.
    ///
    /// The point is exact, and the same with every engine: `N` or `insn:N`, behind N instructions of all harts
    /// together; `time:12.5ms` or `12.5ms` (s, ms, us, ns, ps), a machine time; `marker:LABEL`, behind the
    /// marker by which a program sets that label (a number, or up to 8 characters), or `marker:LABEL:N`, behind
    /// the Nth. Given several times: one after the other, markers counted from the cut before. What is lost
    /// follows memory.persistence_domain; with the timing model on this needs --set
    /// memory.track_persistence=true, unless the domain is eadr. `nagori run` counts from its kept boot on; it
    /// boots again, and starts the program a second time.
    #[arg(long, value_name = "WHEN")]
    pub power_cut_at: Vec<When>,
    /// End the run at the last of these power cuts instead of starting anew.
    #[arg(long, requires = "power_cut_at")]
    pub power_cut_exit: bool,
    /// What DRAM holds afterwards: `zero`, or pseudo-random words from a seed.
    #[arg(
        long,
        value_name = "zero|SEED",
        default_value = "zero",
        value_parser = dram,
        requires = "power_cut_at"
    )]
    pub power_cut_dram: DramArg,
}

/// What DRAM holds after a power cut; zeros by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DramArg(Option<u64>);

fn dram(text: &str) -> Result<DramArg, String> {
    match (text, text.parse()) {
        ("zero", _) => Ok(DramArg(None)),
        (_, Ok(seed)) => Ok(DramArg(Some(seed))),
        _ => Err("expected zero, or a number as the seed of pseudo-random words".into()),
    }
}

/// A point of a run, as the command line has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct When(pub Point);

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        let wrong = || {
            "expected insn:N, time:DURATION (such as time:12.5ms), or marker:LABEL[:N] with N from 1".to_string()
        };
        let count = |t: &str| t.parse::<u64>().ok().filter(|n| *n > 0);
        let time = |t: &str| t.parse::<nagori_memtime::Ps>().ok().map(|t| Ps(t.0));
        let point = match text.split_once(':') {
            Some(("insn", n)) => count(n).map(Point::Instructions),
            Some(("time", t)) => time(t).map(Point::Time),
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
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    if let Ok(n) = number {
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

impl PowerArgs {
    /// What DRAM holds afterwards.
    pub fn dram(&self) -> Dram {
        self.power_cut_dram.0.map_or(Dram::Zero, Dram::Random)
    }
}

/// Cuts the power of a run at its points.
pub struct Cutter<'a> {
    points: Vec<Point>,
    next: usize,
    exit: bool,
    /// Whether somebody else starts the machine anew: the run then ends at each cut.
    apart: bool,
    dram: Dram,
    messages: &'a Messages,
}

impl<'a> Cutter<'a> {
    /// As the arguments want it; `None` if they want none.
    pub fn new(a: &PowerArgs, messages: &'a Messages) -> Option<Self> {
        (!a.power_cut_at.is_empty()).then(|| Cutter {
            points: a.power_cut_at.iter().map(|w| w.0).collect(),
            next: 0,
            exit: a.power_cut_exit,
            apart: false,
            dram: a.dram(),
            messages,
        })
    }

    /// Counts instructions and time from where the machine is now; and leaves it to the caller to
    /// start the machine anew, for which the run ends at each cut.
    pub fn starting_at<O: Observer>(mut self, machine: &Machine<O>) -> Self {
        for p in &mut self.points {
            match p {
                Point::Instructions(n) => *n = n.saturating_add(machine.instructions()),
                Point::Time(t) => *t = Ps(t.0.saturating_add(machine.now().0)),
                Point::Label { .. } => {}
            }
        }
        self.apart = true;
        self
    }

    /// Whether the run is to be over.
    pub fn is_over(&self) -> bool {
        self.exit && self.next == self.points.len()
    }
}

/// Cuts the power, and says what that has done.
pub fn cut<O: Observer>(
    machine: &mut Machine<O>,
    dram: Dram,
    messages: &Messages,
) -> anyhow::Result<PowerCut> {
    let cut = machine.power_cut(dram).context("the power cut")?;
    messages.note(&format!(
        "power cut at {} of machine time, behind {} instructions: {} lines of NVMM lost in caches, {} writes in the controller",
        duration(cut.time_ps),
        grouped(cut.instructions),
        cut.lost_lines,
        cut.lost_writes
    ));
    Ok(cut)
}

impl<O: Observer> Service<O> for Cutter<'_> {
    fn before(&mut self, machine: &mut Machine<O>, _: &mut Wishes) -> anyhow::Result<()> {
        if machine.point().is_some() {
            return Ok(());
        }
        let point = self.points.get(self.next).copied();
        match point {
            Some(Point::Instructions(n)) if n <= machine.instructions() => bail!(
                "--power-cut-at: the machine has executed {} instructions already, so {n} is behind it",
                machine.instructions()
            ),
            Some(Point::Time(t)) if t <= machine.now() => bail!(
                "--power-cut-at: machine time is {} already, so {} is behind it",
                duration(machine.now().0),
                duration(t.0)
            ),
            _ => machine.set_point(point),
        }
        Ok(())
    }

    fn after(
        &mut self,
        machine: &mut Machine<O>,
        stop: Stop,
        wishes: &mut Wishes,
    ) -> anyhow::Result<()> {
        if stop != Stop::Reached {
            return Ok(());
        }
        if !self.exit && !self.apart && machine.software().is_none() {
            bail!("--power-cut-at: this snapshot does not say what the machine starts with: take --power-cut-exit");
        }
        self.next += 1;
        cut(machine, self.dram, self.messages)?;
        if self.apart || self.is_over() {
            wishes.end(End::PowerCut);
        } else {
            wishes.restart = Some(Restart::PowerCut);
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Machine<O>) -> anyhow::Result<()> {
        let left = self.points.len() - self.next;
        if left > 0 {
            let text = format!(
                "--power-cut-at: the run ended before {left} of {} points",
                self.points.len()
            );
            self.messages.warning(&text);
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
        for bad in [
            "",
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
        assert_eq!(dram("zero"), Ok(DramArg(None)));
        assert_eq!(dram("7"), Ok(DramArg(Some(7))));
        assert!(dram("ones").is_err());
    }
}
