//! From one format to another.
//!
//! What the other format cannot hold is left out and counted, or refused; nothing is invented. A
//! format without lengths holds whole lines: an access becomes one of each line that it touches.

use std::io::Write;

use nagori_memtime::Ps;

use crate::error::Error;
use crate::format::Format;
use crate::lines::{self, Unaligned};
use crate::output::Writer;
use crate::record::{Record, Source, Times, LINE};

/// How to convert.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Length of a cycle: needed from cycles to ticks and from ticks to cycles.
    pub cycle: Option<Ps>,
    /// Cycles from one access to the next, for traces without times; with ticks, of `cycle`.
    pub gap: u64,
    /// What becomes of accesses that cross the end of a line.
    pub unaligned: Unaligned,
    /// Subtracted from all addresses.
    pub base: u64,
    /// Greatest number of accesses to convert.
    pub limit: Option<u64>,
}

/// What was converted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Accesses read.
    pub records: u64,
    /// Accesses written.
    pub written: u64,
    /// Accesses left out as neither reads nor writes, or of another region.
    pub skipped: u64,
    /// Accesses that began inside a line and reached beyond its end.
    pub unaligned: u64,
    /// Accesses that became whole lines, because the format has no lengths or no low bits.
    pub widened: u64,
    /// Whether the format has no times, but the trace has.
    pub times_lost: bool,
    /// Accesses whose time was none of the format's, and became the last one before it.
    pub times_rounded: u64,
}

/// Arithmetic that takes times from one unit to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clocking {
    /// No times, or the same unit.
    Same,
    /// The number of the record times this.
    Every(u64),
    /// Times this many, divided by that many, rounded down.
    Scale(u64, u64),
}

impl Clocking {
    /// The time of an access, and whether it was rounded. `None` if it is too late.
    fn time(self, r: &Record, number: u64) -> Option<(u64, bool)> {
        match self {
            Clocking::Same => Some((r.time, false)),
            Clocking::Every(gap) => Some((number.checked_mul(gap)?, false)),
            Clocking::Scale(by, over) => {
                let (t, over) = (u128::from(r.time) * u128::from(by), u128::from(over));
                Some((u64::try_from(t / over).ok()?, t % over != 0))
            }
        }
    }
}

/// Unit of the times of a trace in `format` that is made from one with times of the unit `from`.
/// An error if a length of the cycle is needed and not given, or given and not needed.
pub fn times(format: Format, from: Times, o: &Options) -> Result<Times, Error> {
    Ok(plan(format, from, o)?.0)
}

fn plan(format: Format, from: Times, o: &Options) -> Result<(Times, Clocking), Error> {
    let wrong = |what: String| Err(Error::Option(what));
    let needs = |what: &str| {
        let what = format!("{what}: give the length of a cycle (--cycle '1.25 ns')");
        o.cycle.filter(|c| c.0 > 0).ok_or(Error::Option(what))
    };
    let unneeded = |plan| match o.cycle {
        Some(_) => wrong("--cycle: neither trace has both cycles and a unit of time".into()),
        None => Ok(plan),
    };
    if o.gap > 0 && from != Times::None {
        return wrong("--gap: the trace has times".into());
    }
    if o.gap > 0 && !format.has_times() {
        return wrong(format!("--gap: the format {format} has no times"));
    }
    let ticks = match format {
        _ if !format.has_times() => return unneeded((Times::None, Clocking::Same)),
        Format::Dramsim3 | Format::Nvmain => None,
        // These hold a trace's own unit.
        Format::Nagori if from == Times::None && o.gap == 0 => {
            return unneeded((Times::None, Clocking::Same))
        }
        Format::Nagori if o.cycle.is_none() => Some(from),
        Format::Gem5 if matches!(from, Times::Ticks(_)) => Some(from),
        _ => Some(Times::Ticks(Ps(1))),
    };
    Ok(match (from, ticks) {
        (Times::None, Some(Times::Ticks(t))) if o.gap > 0 => {
            let c = needs("a gap in cycles has no length in ticks")?;
            (Times::Ticks(t), Clocking::Every(o.gap.saturating_mul(c.0)))
        }
        (Times::None, Some(Times::Ticks(t))) => unneeded((Times::Ticks(t), Clocking::Same))?,
        (Times::None, _) => unneeded((Times::Cycles, Clocking::Every(o.gap)))?,
        (Times::Cycles, None | Some(Times::Cycles)) => unneeded((Times::Cycles, Clocking::Same))?,
        (Times::Cycles, Some(to)) => {
            let c = needs("the trace has cycles, the format a unit of time")?;
            (to, Clocking::Scale(c.0, 1))
        }
        (Times::Ticks(t), None) => {
            let c = needs("the trace has times, the format cycles")?;
            (Times::Cycles, Clocking::Scale(t.0, c.0))
        }
        (Times::Ticks(t), Some(to)) => {
            let unit = match to {
                Times::Ticks(u) => u.0.max(1),
                _ => 1,
            };
            unneeded((to, Clocking::Scale(t.0, unit)))?
        }
    })
}

/// Number of accesses between two calls of the progress function.
const PROGRESS_EVERY: u64 = 1 << 14;

/// Writes all accesses of a trace. The writer's format is `format`, its times have the unit of
/// [`times`]. If `watch` returns false, the work ends with [`Error::Interrupted`].
pub fn convert<W: Write>(
    source: &mut dyn Source,
    to: &mut Writer<W>,
    format: Format,
    o: &Options,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, Error> {
    let (_, clocking) = plan(format, source.times(), o)?;
    let mut done = Outcome {
        times_lost: source.times() != Times::None && !format.has_times(),
        ..Outcome::default()
    };
    while o.limit.is_none_or(|l| done.records < l) {
        let Some(r) = source.next()? else { break };
        let malformed = |what: String| Error::Malformed {
            name: source.name().to_owned(),
            place: source.place(),
            what,
        };
        let (time, rounded) = clocking
            .time(&r, done.records)
            .ok_or_else(|| malformed("the time is too late for the format".into()))?;
        let placed = lines::place(r, o.base, o.unaligned, &mut done.unaligned);
        let access = Record {
            time,
            ..placed.map_err(malformed)?
        };
        done.records += 1;
        done.times_rounded += u64::from(rounded);
        if format.has_lengths() {
            done.written += 1;
            to.push(&access)?;
        } else {
            let before = done.written;
            let mut narrow = false;
            for piece in lines::pieces(access) {
                narrow |= piece.bytes != LINE;
                done.written += 1;
                to.push(&Record {
                    addr: piece.addr & !u64::from(LINE - 1),
                    bytes: LINE,
                    ..piece
                })?;
            }
            done.widened += u64::from(narrow || done.written - before > 1);
        }
        if done.records.is_multiple_of(PROGRESS_EVERY) && !watch(done.records) {
            return Err(Error::Interrupted);
        }
    }
    done.skipped = source.skipped();
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_time() {
        use Format::*;
        let ns = |n: u64| Times::Ticks(Ps(1000 * n));
        let with = |cycle: Option<u64>, gap| Options {
            cycle: cycle.map(Ps),
            gap,
            ..Options::default()
        };
        let none = with(None, 0);
        let cycle = with(Some(1250), 0);
        for (format, from, o, expected) in [
            (Ramulator, ns(1), none, (Times::None, Clocking::Same)),
            (
                Dramsim3,
                Times::Cycles,
                none,
                (Times::Cycles, Clocking::Same),
            ),
            (
                Dramsim3,
                Times::None,
                none,
                (Times::Cycles, Clocking::Every(0)),
            ),
            (
                Dramsim3,
                Times::None,
                with(None, 7),
                (Times::Cycles, Clocking::Every(7)),
            ),
            (
                Dramsim3,
                ns(1),
                cycle,
                (Times::Cycles, Clocking::Scale(1000, 1250)),
            ),
            (Nagori, Times::None, none, (Times::None, Clocking::Same)),
            (Nagori, ns(2), none, (ns(2), Clocking::Scale(2000, 2000))),
            (Nagori, Times::Cycles, none, (Times::Cycles, Clocking::Same)),
            (
                Nagori,
                Times::Cycles,
                cycle,
                (Times::Ticks(Ps(1)), Clocking::Scale(1250, 1)),
            ),
            (Gem5, ns(2), none, (ns(2), Clocking::Scale(2000, 2000))),
            (
                Gem5Text,
                ns(2),
                none,
                (Times::Ticks(Ps(1)), Clocking::Scale(2000, 1)),
            ),
            (
                Gem5Text,
                Times::Cycles,
                cycle,
                (Times::Ticks(Ps(1)), Clocking::Scale(1250, 1)),
            ),
            (
                Gem5Text,
                Times::None,
                none,
                (Times::Ticks(Ps(1)), Clocking::Same),
            ),
            (
                Bus,
                Times::None,
                with(Some(10), 3),
                (Times::Ticks(Ps(1)), Clocking::Every(30)),
            ),
        ] {
            assert_eq!(
                plan(format, from, &o).unwrap(),
                expected,
                "{format} {from:?}"
            );
        }
        for (format, from, o, what) in [
            (Gem5, Times::Cycles, none, "--cycle"),
            (Nvmain, ns(1), none, "--cycle"),
            (Nvmain, ns(1), with(Some(0), 0), "--cycle"),
            (Nvmain, Times::Cycles, cycle, "neither trace"),
            (Ramulator, ns(1), cycle, "neither trace"),
            (Ramulator, Times::None, with(None, 3), "has no times"),
            (Nvmain, Times::Cycles, with(None, 3), "the trace has times"),
            (Gem5, Times::None, with(None, 3), "has no length in ticks"),
        ] {
            let e = plan(format, from, &o).unwrap_err().to_string();
            assert!(e.contains(what), "{format} {from:?}: {e}");
        }
    }
}
