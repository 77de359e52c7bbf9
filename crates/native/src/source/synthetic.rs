//! Counts that follow from a thread's processor time: every nanosecond of work is as full of misses as the
//! specification says. They make injection and propagation testable on hosts without counters.

use std::collections::BTreeMap;

use nagori_epoch::Counts;
use nagori_values::count;

use super::{Clocks, Source, Tid, Unusable};

/// Counts per second of a thread's own processor time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synthetic {
    rates: Counts,
    has_victims: bool,
    threads: BTreeMap<Tid, Thread>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Thread {
    busy: u64,
    /// What is left of each count's division, in counts times nanoseconds.
    rests: [u64; 10],
}

const SECOND: u64 = 1_000_000_000;

impl Synthetic {
    /// Reads "stall_cycles=1000000000,llc_misses=5000000": counts per second of work.
    ///
    /// # Errors
    /// If a count is not known, twice there, or no number up to 2^40.
    pub fn new(text: &str) -> Result<Synthetic, Unusable> {
        let wrong = |why: String| Unusable::Specification {
            text: text.to_owned(),
            why,
        };
        let mut source = Synthetic::default();
        let mut seen = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{part}`: expected NAME=COUNTS_PER_SECOND")))?;
            let rate = count(value, ..=1 << 40).map_err(&wrong)?;
            let known = Counts::default().named().map(|c| c.0).join(", ");
            let field = source.rates.field(name);
            *field
                .ok_or_else(|| wrong(format!("there is no count `{name}`; there are {known}")))? =
                rate;
            if seen.contains(&name) {
                return Err(wrong(format!("`{name}` is there twice")));
            }
            seen.push(name);
        }
        if seen.is_empty() {
            return Err(wrong("it counts nothing".into()));
        }
        source.has_victims = seen.contains(&"own_victims");
        Ok(source)
    }
}

impl Source for Synthetic {
    fn describe(&self) -> String {
        let rates = self.rates.named();
        let rates = rates
            .iter()
            .filter(|r| r.1 > 0)
            .map(|(n, v)| format!("{n} {v}/s"));
        format!("synthetic counts: {}", rates.collect::<Vec<_>>().join(", "))
    }

    fn attach(&mut self, thread: Tid, clocks: Clocks) -> Result<(), Unusable> {
        let fresh = Thread {
            busy: clocks.busy,
            ..Thread::default()
        };
        self.threads.insert(thread, fresh);
        Ok(())
    }

    fn read(&mut self, thread: Tid, clocks: Clocks) -> Result<Option<Counts>, Unusable> {
        let Some(state) = self.threads.get_mut(&thread) else {
            return Ok(Some(Counts::default()));
        };
        let busy = clocks.busy.saturating_sub(state.busy);
        state.busy = state.busy.max(clocks.busy);
        let mut counts = Counts::default();
        for ((name, rate), rest) in self.rates.named().into_iter().zip(&mut state.rests) {
            if name == "own_victims" && !self.has_victims {
                continue;
            }
            let all = u128::from(rate) * u128::from(busy) + u128::from(*rest);
            *rest = (all % u128::from(SECOND)) as u64;
            if let Some(field) = counts.field(name) {
                *field = u64::try_from(all / u128::from(SECOND)).unwrap_or(u64::MAX);
            }
        }
        Ok(Some(counts))
    }

    fn detach(&mut self, thread: Tid) {
        self.threads.remove(&thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_add_up_whatever_the_steps() {
        let mut s = Synthetic::new("llc_misses=1_000_003, own_victims=7e0").unwrap();
        let t = Tid(1);
        s.attach(t, Clocks { now: 0, busy: 500 }).unwrap();
        let (mut busy, mut sum) = (500, Counts::default());
        while busy < 500 + SECOND {
            busy = (busy + 12_345_679).min(500 + SECOND);
            let c = s.read(t, Clocks { now: 0, busy }).unwrap().unwrap();
            sum.llc_misses += c.llc_misses;
            *sum.own_victims.get_or_insert(0) += c.own_victims.unwrap();
        }
        assert_eq!((sum.llc_misses, sum.own_victims), (1_000_003, Some(7)));
    }

    #[test]
    fn bad_specifications() {
        for (text, why) in [
            ("", "nothing"),
            ("x=1", "no count `x`"),
            ("llc_hits", "expected NAME"),
            ("llc_hits=-1", "whole number"),
            ("llc_hits=1,llc_hits=2", "twice"),
        ] {
            let e = Synthetic::new(text).unwrap_err().to_string();
            assert!(e.contains(why), "{e}");
        }
        let victims = Synthetic::new("llc_misses=1").unwrap();
        assert!(!victims.has_victims);
    }
}
