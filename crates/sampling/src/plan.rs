//! How a run is sampled.

use crate::estimate::student;
use serde::{Deserialize, Serialize};

/// What is asked of a sampled run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Half of the run time's 95 % interval that is aimed at, as a part of it.
    pub error: f64,
    /// Windows of equal weight, instead of as many as the error asks for.
    pub windows: Option<u64>,
    /// Instructions of all harts that a window measures.
    pub window_length: u64,
    /// Instructions of all harts in detail before them; `None`: as many as are found to be needed.
    pub warm_up: Option<u64>,
    /// Threads of the host; results do not depend on them.
    pub threads: usize,
    /// Only these windows, instead of some anywhere.
    pub given: Option<Given>,
}

/// Windows that are given, such as SimPoint's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// Number of the interval from the start of what is timed, and its weight; the numbers ascend.
    pub intervals: Vec<(u64, f64)>,
}

/// Instructions of a window, if nothing else is asked for.
pub const WINDOW_LENGTH: u64 = 100_000;
/// Instructions of the first warm-ups, by whether there are outer cache levels.
pub const WARM_UP: [u64; 2] = [100_000, 400_000];
/// The longest warm-up that is tried, as a part of an interval.
pub const LONGEST_WARM_UP: u64 = 4;
/// The error that is aimed at.
pub const ERROR: f64 = 0.02;
/// Windows in the part of a run that is behind, at least and at most.
const FEWEST: f64 = 20.0;
const MOST: f64 = 20_000.0;
/// What is measured in detail before windows begin, in windows with their warm-ups.
const HEAD: u64 = 20;
/// The least distance of windows, in windows with their warm-ups.
const CLOSEST: u64 = 6;
/// The first windows lie closer, so that there are as many soon: how many, and their distance.
pub const EARLY: u64 = 10;
const EARLY_DISTANCE: u64 = 2;

/// The distance of the first windows, each with its warm-up so long.
pub fn early(cost: u64) -> u64 {
    EARLY_DISTANCE * cost
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            error: ERROR,
            windows: None,
            window_length: WINDOW_LENGTH,
            warm_up: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            given: None,
        }
    }
}

impl Plan {
    /// Instructions that are measured as a whole, before there are windows: a program that ends within them is too
    /// short to be sampled.
    pub fn head(&self, warm_up: u64) -> u64 {
        match &self.given {
            Some(_) => 0,
            None => HEAD * self.cost(warm_up),
        }
    }

    fn cost(&self, warm_up: u64) -> u64 {
        self.window_length.saturating_add(warm_up).max(1)
    }

    /// The length of the interval after so many instructions and windows, which vary so much.
    ///
    /// Intervals grow with the run, of whose length nothing is known: the part that is behind always has some number
    /// `n` of intervals of the present length. Windows then tell as much as `2 n` of equal weight would.
    pub fn interval(
        &self,
        (behind, windows): (u64, u64),
        variation: Option<f64>,
        warm_up: u64,
    ) -> u64 {
        let cost = self.cost(warm_up);
        if windows < EARLY {
            return early(cost);
        }
        let equal = match (self.windows, variation) {
            (Some(n), _) => n as f64,
            (None, None) => 2.0 * FEWEST,
            (None, Some(v)) => (student(60.0) * v / self.error).powi(2),
        };
        let n = (equal / 2.0).clamp(FEWEST.min(equal.max(1.0)), MOST);
        ((behind as f64 / n) as u64).max(CLOSEST * cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_grow_with_the_run_and_shrink_with_the_variation() {
        let p = Plan::default();
        let at = |behind, v| p.interval((behind, 10), v, 100_000);
        assert_eq!(p.interval((0, 0), None, 100_000), 400_000);
        assert_eq!(at(0, None), CLOSEST * 200_000);
        assert!(at(1_000_000_000, None) == 50_000_000);
        assert!(at(1_000_000_000, Some(0.5)) < at(1_000_000_000, Some(0.2)));
        // Not even a program that is always the same does without windows.
        assert_eq!(at(1_000_000_000, Some(0.0)), 1_000_000_000);
        let by_hand = Plan {
            windows: Some(400),
            ..p
        };
        assert_eq!(
            by_hand.interval((2_000_000_000, 10), Some(0.01), 1),
            10_000_000
        );
    }
}
