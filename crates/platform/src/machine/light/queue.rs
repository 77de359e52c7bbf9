//! How much of their time harts wait for memory in the light mode: what the lines of one hart wait for those of others.
//!
//! A hart's line finds another hart's line in front of it as often as that hart waits for one (mean value analysis of
//! closed queues: a request meets the others as they are on average). Harts publish at the end of their epochs; since
//! harts run in windows, only what is older than a window is known whatever the order was in which they ran.

use serde::{Deserialize, Serialize};

/// Core cycles of the longest window within which harts are not ordered.
const WINDOW: u64 = 256;
/// What was published is kept so often: in `WINDOW / 2` cycles that is one average at most, and one beginning of sleep.
const KEPT: usize = 6;

/// Shares of time for which a hart waits for lines that it reads, and that it writes.
type Share = (u32, u32);

/// Shares of one hart, the newest first: since which cycle, and the shares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shares {
    published: [(u64, Share); KEPT],
    /// The average, which goes on when the hart wakes.
    mean: Share,
    /// Cycles at which an average and a beginning of sleep were published last.
    last: (u64, u64),
    /// Cycles since the last publication: all, and those waited for reads and for writes.
    open: (u64, u64, u64),
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queues {
    harts: Vec<Shares>,
    /// Core cycles over which shares are averaged.
    over: u64,
}

impl Queues {
    /// The share of a hart that does nothing else.
    pub const ALWAYS: u32 = 1 << 16;

    /// For harts whose epochs have so many core cycles.
    pub fn new(harts: usize, over: u64) -> Queues {
        Queues {
            harts: vec![Shares::default(); harts],
            over: over.max(WINDOW),
        }
    }

    /// Whether this is a possible state where `other` is one.
    pub fn fits(&self, other: &Queues) -> bool {
        let most = |p: &(u64, Share)| p.1 .0.max(p.1 .1) <= Self::ALWAYS;
        let share = |s: &Shares| s.published.iter().chain([&(0, s.mean)]).all(most);
        self.harts.len() == other.harts.len()
            && self.over == other.over
            && self.harts.iter().all(share)
    }

    /// Nothing is known of a hart.
    pub fn begin(&mut self, hart: usize) {
        self.harts[hart] = Shares::default();
    }

    /// How many other harts wait for reads and for writes at a cycle, on average; see [`Queues::ALWAYS`].
    pub fn waiting(&self, hart: usize, cycle: u64) -> Share {
        let known = |s: &Shares| {
            let old = s.published.iter().find(|p| p.0 + WINDOW <= cycle);
            old.map_or((0, 0), |p| p.1)
        };
        let others = self.harts.iter().enumerate().filter(|(h, _)| *h != hart);
        let add = |a: Share, b: Share| (a.0 + b.0, a.1 + b.1);
        others.map(|(_, s)| known(s)).fold((0, 0), add)
    }

    /// An epoch of a hart has ended that began at a cycle, ended at another and is delayed to a third; it has waited so
    /// many cycles for reads and for writes.
    pub fn ends(&mut self, hart: usize, (from, end, to): (u64, u64, u64), waited: (u64, u64)) {
        let s = &mut self.harts[hart];
        s.open.0 += to.saturating_sub(from);
        s.open.1 += waited.0;
        s.open.2 += waited.1;
        if end < s.last.0.saturating_add(WINDOW / 2) {
            return;
        }
        let (all, reads, writes) = std::mem::take(&mut s.open);
        if all == 0 {
            return;
        }
        let weight = all.min(self.over);
        let mean = |share: u32, waited: u64| {
            let now = u128::from(waited.min(all)) * u128::from(Self::ALWAYS) / u128::from(all);
            let sum = u128::from(share) * u128::from(self.over - weight) + now * u128::from(weight);
            (sum / u128::from(self.over)) as u32
        };
        s.mean = (mean(s.mean.0, reads), mean(s.mean.1, writes));
        s.last.0 = end;
        s.publish(end, s.mean);
    }

    /// A hart sleeps from a cycle on: until it wakes, and an epoch of it ends, it waits for nothing.
    pub fn sleeps(&mut self, hart: usize, cycle: u64) {
        let s = &mut self.harts[hart];
        if cycle >= s.last.1.saturating_add(WINDOW / 2) {
            s.last.1 = cycle;
            s.publish(cycle, (0, 0));
        }
    }
}

impl Shares {
    fn publish(&mut self, from: u64, shares: Share) {
        self.published.copy_within(..KEPT - 1, 1);
        self.published[0] = (from, shares);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_older_than_a_window_is_known() {
        let mut q = Queues::new(3, 1000);
        q.ends(0, (0, 2000, 4000), (4000, 0));
        assert_eq!(q.waiting(1, 2000 + WINDOW - 1), (0, 0));
        assert_eq!(q.waiting(1, 2000 + WINDOW), (Queues::ALWAYS, 0));
        assert_eq!(q.waiting(0, 9000), (0, 0), "not itself");
        q.ends(2, (0, 2000, 2000), (500, 1000));
        let (reads, writes) = (Queues::ALWAYS / 4 * 5, Queues::ALWAYS / 2);
        assert_eq!(q.waiting(1, 9000), (reads, writes));
    }

    #[test]
    fn a_hart_that_sleeps_waits_for_nothing() {
        let mut q = Queues::new(2, 1000);
        q.ends(0, (0, 1000, 1000), (1000, 0));
        q.sleeps(0, 1010);
        assert_eq!(q.waiting(1, 1009 + WINDOW), (Queues::ALWAYS, 0));
        assert_eq!(q.waiting(1, 1010 + WINDOW), (0, 0));
        assert_eq!(q.waiting(1, 900_000), (0, 0));
        // It has slept for half of an average's time, and waits again.
        q.ends(0, (1010, 1500, 1510), (0, 0));
        assert_eq!(q.waiting(1, 1500 + WINDOW), (Queues::ALWAYS / 2, 0));
    }

    #[test]
    fn short_epochs_count_by_their_length() {
        let mut q = Queues::new(2, 1000);
        let always = (Queues::ALWAYS, 0);
        q.ends(0, (0, 1000, 1000), (1000, 0));
        q.ends(0, (1000, 1010, 1010), (0, 0));
        assert_eq!(q.waiting(1, 1010 + WINDOW), always, "too soon");
        q.ends(0, (1010, 1500, 1500), (0, 0));
        assert_eq!(q.waiting(1, 1500 + WINDOW), (Queues::ALWAYS / 2, 0));
        assert_eq!(q.waiting(1, 1499 + WINDOW), always, "as of before");
    }
}
