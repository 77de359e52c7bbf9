//! From readings of hardware counters to counts.

use std::collections::BTreeMap;

use nagori_memtime::Ps;
use serde::{Deserialize, Serialize};
use thiserror::Error as ThisError;

use crate::Amount;

/// Bits of a counter, 1 to 64. Intel's core counters have 40 or 48, its uncore and AMD's have 48; perf_event adds
/// them up to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Width(u8);

impl Width {
    /// Counters that do not wrap within any run.
    pub const FULL: Width = Width(64);

    /// A counter of `bits` bits; `None` unless there are 1 to 64.
    pub const fn new(bits: u8) -> Option<Width> {
        match bits {
            1..=64 => Some(Width(bits)),
            _ => None,
        }
    }

    /// The largest value.
    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.0)
    }
}

impl TryFrom<u8> for Width {
    type Error = String;
    fn try_from(bits: u8) -> Result<Width, String> {
        Width::new(bits).ok_or_else(|| format!("{bits} bits: a counter has 1 to 64"))
    }
}
impl From<Width> for u8 {
    fn from(w: Width) -> u8 {
        w.0
    }
}

/// What a counter said at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
pub struct Reading {
    /// Its value.
    pub value: u64,
    /// Nanoseconds for which it should have counted so far.
    pub enabled: u64,
    /// Nanoseconds for which it did count: fewer, if more counters were asked for than the processor has.
    pub running: u64,
}

impl From<(u64, u64, u64)> for Reading {
    fn from((value, enabled, running): (u64, u64, u64)) -> Reading {
        Reading {
            value,
            enabled,
            running,
        }
    }
}
impl From<Reading> for (u64, u64, u64) {
    fn from(r: Reading) -> (u64, u64, u64) {
        (r.value, r.enabled, r.running)
    }
}

/// Why a counter cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum Defect {
    /// The value has more bits than the counter.
    #[error("it says {value:#x}, which a counter of {bits} bits cannot")]
    TooWide {
        /// The value.
        value: u64,
        /// Bits of the counter.
        bits: u8,
    },
    /// A counter that does not wrap went back, or its times did.
    #[error("its {0} went back")]
    Back(&'static str),
    /// It claims to have counted for longer than it was asked to.
    #[error("it counted for {running} ns of {enabled} ns")]
    Times {
        /// Nanoseconds asked for.
        enabled: u64,
        /// Nanoseconds counted.
        running: u64,
    },
    /// It shares the hardware with so many others that its count says nothing.
    #[error("it counted for {running} ns of {enabled} ns only, because more counters are in use than the processor \
        has")]
    Starved {
        /// Nanoseconds asked for.
        enabled: u64,
        /// Nanoseconds counted.
        running: u64,
    },
    /// The scaled count does not fit.
    #[error("its scaled count does not fit")]
    Overflow,
    /// A reading of a CPU on which the thread is not.
    #[error("it was read on CPU {read}, but the thread is on {}", Place(*.on))]
    Elsewhere {
        /// Where it was read.
        read: u32,
        /// Where the thread is.
        on: Option<u32>,
    },
}

struct Place(Option<u32>);
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(cpu) => write!(f, "CPU {cpu}"),
            None => f.write_str("none"),
        }
    }
}

/// How much sharing of the hardware a counter bears. A count is scaled by enabled over running time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Least part of the time for which it has to count, in thousandths.
    pub least_permille: u32,
    /// Nanoseconds that it may wait for its turn; until then the next count covers the time.
    pub patience_ns: u64,
}

impl Default for Sharing {
    /// A fifth of the time, and a turn within 100 ms (the kernel rotates counters with every tick, 1 to 10 ms).
    fn default() -> Sharing {
        Sharing {
            least_permille: 200,
            patience_ns: 100_000_000,
        }
    }
}

/// What a reading says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many since the last count.
    Count(u64),
    /// It has not had its turn since: the next count covers this time, too.
    Later,
}

/// Turns the readings of one counter into counts.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    width: Width,
    sharing: Sharing,
    last: Reading,
    /// What scaling has left over: less than one.
    rest: Amount,
}

impl Meter {
    /// A counter that says `first` now.
    ///
    /// # Errors
    /// If the value has more bits than the counter.
    pub fn new(width: Width, sharing: Sharing, first: Reading) -> Result<Meter, Defect> {
        fits(width, first)?;
        Ok(Meter {
            width,
            sharing,
            last: first,
            rest: Amount::ZERO,
        })
    }

    /// What was counted since the last reading. A counter that has wrapped once is understood; one that wraps twice
    /// between two readings cannot be (40 bits at 4 GHz: after 4.5 minutes).
    ///
    /// # Errors
    /// If the reading contradicts the last one, or the counter shares its hardware with too many.
    pub fn read(&mut self, now: Reading) -> Result<Step, Defect> {
        fits(self.width, now)?;
        if self.width == Width::FULL && now.value < self.last.value {
            return Err(Defect::Back("value"));
        }
        let value = now.value.wrapping_sub(self.last.value) & self.width.mask();
        let since = |now: u64, last: u64, what| now.checked_sub(last).ok_or(Defect::Back(what));
        let enabled = since(now.enabled, self.last.enabled, "enabled time")?;
        let running = since(now.running, self.last.running, "running time")?;
        if running > enabled {
            return Err(Defect::Times { enabled, running });
        }
        let starved = Err(Defect::Starved { enabled, running });
        if running == 0 && enabled > 0 {
            return if enabled > self.sharing.patience_ns {
                starved
            } else {
                Ok(Step::Later)
            };
        }
        if u128::from(running) * 1000
            < u128::from(enabled) * u128::from(self.sharing.least_permille)
        {
            return starved;
        }
        let mut count = Amount::of_count(value);
        if running < enabled {
            count = count
                .scaled(enabled.into(), running.into())
                .ok_or(Defect::Overflow)?;
        }
        count += self.rest;
        let whole = count.whole().0;
        if whole == u64::MAX {
            return Err(Defect::Overflow);
        }
        self.rest = count - Amount::of(Ps(whole));
        self.last = now;
        Ok(Step::Count(whole))
    }
}

fn fits(width: Width, r: Reading) -> Result<(), Defect> {
    if r.value > width.mask() {
        Err(Defect::TooWide {
            value: r.value,
            bits: width.0,
        })
    } else {
        Ok(())
    }
}

/// The counters of a thread that moves between CPUs, where each CPU has counters of its own: a count is the sum of what
/// each CPU counted while the thread was there. (Counters of perf_event that belong to a thread move with it.)
#[derive(Clone, Debug)]
pub struct Moving {
    width: Width,
    sharing: Sharing,
    here: Option<(u32, BTreeMap<String, Meter>)>,
    /// Counted on CPUs that the thread has left, and not yet asked for.
    before: BTreeMap<String, u64>,
}

impl Moving {
    /// A thread that is nowhere yet.
    pub fn new(width: Width, sharing: Sharing) -> Moving {
        Moving {
            width,
            sharing,
            here: None,
            before: BTreeMap::new(),
        }
    }

    /// The CPU where the thread is.
    pub fn cpu(&self) -> Option<u32> {
        self.here.as_ref().map(|h| h.0)
    }

    /// The thread comes to a CPU, whose counters say `now`.
    ///
    /// # Errors
    /// If it has not left another CPU, or if a reading is impossible.
    pub fn arrive(
        &mut self,
        cpu: u32,
        now: &BTreeMap<String, Reading>,
    ) -> Result<(), (String, Defect)> {
        if let Some((on, _)) = self.here {
            return Err((
                String::new(),
                Defect::Elsewhere {
                    read: cpu,
                    on: Some(on),
                },
            ));
        }
        let mut meters = BTreeMap::new();
        for (name, &first) in now {
            let meter = Meter::new(self.width, self.sharing, first);
            meters.insert(name.clone(), meter.map_err(|d| (name.clone(), d))?);
        }
        self.here = Some((cpu, meters));
        Ok(())
    }

    /// The thread leaves its CPU, whose counters say `now`.
    ///
    /// # Errors
    /// If it is on another one, or if a reading contradicts an earlier one. A counter that has not had its turn by then
    /// is starved.
    pub fn leave(
        &mut self,
        cpu: u32,
        now: &BTreeMap<String, Reading>,
    ) -> Result<(), (String, Defect)> {
        let counts = self.step(cpu, now)?;
        for (name, step) in counts {
            match step {
                Step::Count(n) => {
                    *self.before.entry(name).or_insert(0) += n;
                }
                Step::Later => {
                    let r = now[&name];
                    let (enabled, running) = (r.enabled, r.running);
                    return Err((name, Defect::Starved { enabled, running }));
                }
            }
        }
        self.here = None;
        Ok(())
    }

    /// What was counted since the last reading, on all CPUs.
    ///
    /// # Errors
    /// As for [`Moving::leave`].
    pub fn read(
        &mut self,
        cpu: u32,
        now: &BTreeMap<String, Reading>,
    ) -> Result<BTreeMap<String, Step>, (String, Defect)> {
        let mut counts = self.step(cpu, now)?;
        for (name, step) in &mut counts {
            if let Step::Count(n) = step {
                *n += self.before.remove(name).unwrap_or(0);
            }
        }
        Ok(counts)
    }

    fn step(
        &mut self,
        cpu: u32,
        now: &BTreeMap<String, Reading>,
    ) -> Result<BTreeMap<String, Step>, (String, Defect)> {
        let on = self.cpu();
        let Some((_, meters)) = self.here.as_mut().filter(|h| h.0 == cpu) else {
            return Err((String::new(), Defect::Elsewhere { read: cpu, on }));
        };
        let mut counts = BTreeMap::new();
        for (name, &reading) in now {
            let step = match meters.get_mut(name) {
                Some(meter) => meter.read(reading).map_err(|d| (name.clone(), d))?,
                None => {
                    let meter = Meter::new(self.width, self.sharing, reading);
                    meters.insert(name.clone(), meter.map_err(|d| (name.clone(), d))?);
                    Step::Count(0)
                }
            };
            counts.insert(name.clone(), step);
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(value: u64, enabled: u64, running: u64) -> Reading {
        Reading {
            value,
            enabled,
            running,
        }
    }

    fn meter(bits: u8, first: u64) -> Meter {
        Meter::new(
            Width::new(bits).unwrap(),
            Sharing::default(),
            at(first, 0, 0),
        )
        .unwrap()
    }

    fn all(value: u64) -> BTreeMap<String, Reading> {
        BTreeMap::from([("llc_misses".to_owned(), at(value, 0, 0))])
    }

    #[test]
    fn counters_wrap() {
        for bits in [40, 48] {
            let most = (1 << bits) - 1;
            let mut m = meter(bits, most - 9);
            assert_eq!(m.read(at(90, 0, 0)), Ok(Step::Count(100)));
            assert_eq!(m.read(at(most, 0, 0)), Ok(Step::Count(most - 90)));
            assert_eq!(m.read(at(0, 0, 0)), Ok(Step::Count(1)));
            let e = m.read(at(most + 1, 0, 0)).unwrap_err();
            assert_eq!(
                e,
                Defect::TooWide {
                    value: most + 1,
                    bits
                }
            );
        }
        assert_eq!(meter(64, 5).read(at(4, 0, 0)), Err(Defect::Back("value")));
        assert_eq!(Width::new(0), None);
        assert_eq!(Width::new(65), None);
    }

    #[test]
    fn a_counter_that_shares_its_hardware_is_scaled_without_loss() {
        let mut m = meter(64, 0);
        // A third of the time: each step of 1 stands for 3; of 7 ns in 10, for 10/7, and the sevenths add up.
        assert_eq!(m.read(at(1, 30, 10)), Ok(Step::Count(3)));
        let mut sum = 0;
        for i in 1..=70 {
            match m.read(at(1 + i, 30 + 10 * i, 10 + 7 * i)).unwrap() {
                Step::Count(n) => sum += n,
                Step::Later => panic!(),
            }
        }
        assert!(
            sum == 100 || sum == 99,
            "{sum}: rounding down may keep the last one"
        );
    }

    #[test]
    fn a_counter_that_waits_for_its_turn_counts_later() {
        let mut m = meter(64, 0);
        assert_eq!(m.read(at(0, 1000, 0)), Ok(Step::Later));
        assert_eq!(m.read(at(10, 2000, 1000)), Ok(Step::Count(20)));
        assert_eq!(m.read(at(10, 3000, 1000)), Ok(Step::Later));
        let long = 2000 + 100_000_001;
        assert!(matches!(
            m.read(at(10, long, 1000)),
            Err(Defect::Starved { .. })
        ));
    }

    #[test]
    fn a_counter_beyond_repair_is_a_defect() {
        let mut m = meter(64, 0);
        assert!(matches!(
            m.read(at(5, 1000, 199)),
            Err(Defect::Starved { .. })
        ));
        assert_eq!(m.read(at(5, 1000, 200)), Ok(Step::Count(25)));
        assert_eq!(
            m.read(at(6, 1000, 201)),
            Err(Defect::Times {
                enabled: 0,
                running: 1
            })
        );
        assert_eq!(m.read(at(6, 999, 200)), Err(Defect::Back("enabled time")));
        assert_eq!(m.read(at(6, 1001, 199)), Err(Defect::Back("running time")));
        assert_eq!(m.read(at(u64::MAX, 2000, 401)), Err(Defect::Overflow));
    }

    #[test]
    fn a_thread_that_moves_takes_its_counts_with_it() {
        let mut t = Moving::new(Width::new(48).unwrap(), Sharing::default());
        let misses = |t: &mut Moving, cpu, value| t.read(cpu, &all(value)).map(|c| c["llc_misses"]);
        t.arrive(0, &all(1_000_000)).unwrap();
        assert_eq!(misses(&mut t, 0, 1_000_010), Ok(Step::Count(10)));
        t.leave(0, &all(1_000_030)).unwrap();
        // The other CPU's counter is far behind, and this CPU's goes on without the thread.
        t.arrive(1, &all(5)).unwrap();
        assert_eq!(misses(&mut t, 1, 6), Ok(Step::Count(21)));
        t.leave(1, &all(6)).unwrap();
        t.arrive(0, &all(9_000_000)).unwrap();
        assert_eq!(misses(&mut t, 0, 9_000_002), Ok(Step::Count(2)));
        let e = misses(&mut t, 1, 6).unwrap_err().1;
        assert_eq!(
            e,
            Defect::Elsewhere {
                read: 1,
                on: Some(0)
            }
        );
        assert!(t.arrive(1, &all(6)).is_err());
    }

    proptest! {
        #[test]
        fn counts_add_up_across_wraps(
            bits in 8u8..=63,
            first: u64,
            steps in proptest::collection::vec(any::<u64>(), 1..50),
        ) {
            let mask = (1u64 << bits) - 1;
            let mut m = meter(bits, first & mask);
            let mut value = first & mask;
            for s in steps {
                let s = s & mask;
                value = (value + s) & mask;
                prop_assert_eq!(m.read(at(value, 0, 0)), Ok(Step::Count(s)));
            }
        }

        #[test]
        fn scaling_keeps_the_sum(steps in proptest::collection::vec((0u64..1000, 1u64..1000, 0u64..1000), 1..100)) {
            let (mut now, mut exact, mut sum) = (at(0, 0, 0), 0.0, 0);
            let mut m = meter(64, 0);
            for (count, running, waiting) in steps {
                let enabled = running + waiting.min(running * 3);
                now = at(now.value + count, now.enabled + enabled, now.running + running);
                exact += count as f64 * enabled as f64 / running as f64;
                if let Step::Count(n) = m.read(now).unwrap() {
                    sum += n;
                }
                prop_assert!(sum as f64 <= exact + 1e-6 && sum as f64 > exact - 1.0 - 1e-6);
            }
        }
    }
}
