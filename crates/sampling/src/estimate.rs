//! Totals and ratios of a population, from windows that are measured.
//!
//! The population, the instructions of a run, is cut into intervals, and in each a window begins at a place that is
//! random there (a hash decides, so that runs repeat). A window of `size` instructions stands for the `weight`
//! instructions of its interval. With rates `r = x / size`, the total is `sum(weight * r)`. An interval has one window,
//! so what rates differ by within it is taken from its neighbours: each pair of windows that follow one another tells
//! `(r1 - r2)^2 / 2`, for the intervals of both. That is too large rather than too small, by what their means differ.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence level of the intervals.
pub const CONFIDENCE: f64 = 0.95;

/// A window's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighted {
    /// Instructions that it stands for.
    pub weight: f64,
    /// Instructions that were measured, more than 0.
    pub size: f64,
    /// What was counted in them.
    pub value: f64,
}

/// An estimate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Half the length of the 95 % interval; `None`: too few windows.
    pub half: Option<f64>,
}

impl Interval {
    /// A value that is known.
    pub fn exact(value: f64) -> Interval {
        Interval {
            value,
            half: Some(0.0),
        }
    }

    /// The ends of the interval.
    pub fn ends(&self) -> Option<[f64; 2]> {
        self.half.map(|h| [self.value - h, self.value + h])
    }

    /// Half of the interval as a part of the value.
    pub fn relative(&self) -> Option<f64> {
        self.half
            .filter(|_| self.value != 0.0)
            .map(|h| h / self.value.abs())
    }

    /// Whether a value lies within.
    pub fn holds(&self, truth: f64) -> bool {
        self.ends()
            .is_some_and(|[low, high]| (low..=high).contains(&truth))
    }

    /// The sum with something that is known: the error stays.
    pub fn plus(self, known: f64) -> Interval {
        Interval {
            value: self.value + known,
            ..self
        }
    }

    /// The product with something that is known: the relative error stays.
    pub fn times(self, factor: f64) -> Interval {
        Interval {
            value: self.value * factor,
            half: self.half.map(|h| h * factor.abs()),
        }
    }

    /// The quotient of two estimates of different runs, whose errors are independent.
    pub fn over(self, other: Interval) -> Interval {
        let value = self.value / other.value;
        let half = match (self.relative(), other.relative()) {
            (Some(a), Some(b)) => Some(a.hypot(b) * value.abs()),
            _ => None,
        };
        Interval { value, half }
    }
}

/// Windows of the same weight that would tell as much.
fn effective(all: &[Weighted]) -> f64 {
    let sum: f64 = all.iter().map(|w| w.weight).sum();
    let squares: f64 = all.iter().map(|w| w.weight * w.weight).sum();
    if squares > 0.0 {
        sum * sum / squares
    } else {
        0.0
    }
}

/// The total of a population. `None` without windows.
pub fn total(all: &[Weighted]) -> Option<Interval> {
    let weights: f64 = all.iter().map(|w| w.weight).sum();
    if all.is_empty() || weights <= 0.0 {
        return None;
    }
    let value: f64 = all.iter().map(|w| w.weight * w.value / w.size).sum();
    Some(Interval {
        value,
        half: half(all),
    })
}

/// Of all pairs of windows that follow one another: the squares of their weights, and what the pairs tell of the square
/// of the total's error.
fn squares(all: &[Weighted]) -> (f64, f64) {
    let pair = |w: &[Weighted]| {
        let step = w[0].value / w[0].size - w[1].value / w[1].size;
        let weight = (w[0].weight.powi(2) + w[1].weight.powi(2)) / 2.0;
        (weight, weight * step * step / 2.0)
    };
    let pairs = all.windows(2).map(pair);
    pairs.fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1))
}

/// Half the interval of a total.
fn half(all: &[Weighted]) -> Option<f64> {
    let n = all.len() as f64;
    // Pairs overlap: they have two thirds of the freedom that as many values would have.
    let freedom = (effective(all) - 1.0) * 2.0 / 3.0;
    if n < 2.0 || freedom <= 0.0 {
        return None;
    }
    let (_, squares) = squares(all);
    let (sizes, weights) = all
        .iter()
        .fold((0.0, 0.0), |(s, w), x| (s + x.size, w + x.weight));
    // What was measured is known.
    let left = (1.0 - sizes / weights).clamp(0.0, 1.0);
    Some(student(freedom) * (squares * n / (n - 1.0) * left).sqrt())
}

/// The ratio of two totals of the same windows; `known` is what is added to both beside the windows. `None` if there is
/// nothing to divide by.
pub fn ratio(all: &[(Weighted, f64)], known: (f64, f64)) -> Option<Interval> {
    let sum = |f: &dyn Fn(&(Weighted, f64)) -> f64| -> f64 {
        all.iter().map(|w| w.0.weight / w.0.size * f(w)).sum()
    };
    let (y, x) = (sum(&|w| w.0.value) + known.0, sum(&|w| w.1) + known.1);
    if x <= 0.0 {
        return None;
    }
    let value = y / x;
    // The quotient's error is that of what the windows differ from it.
    let rest: Vec<Weighted> = all
        .iter()
        .map(|(w, by)| Weighted {
            value: w.value - value * by,
            ..*w
        })
        .collect();
    let half = if rest.is_empty() {
        Some(0.0)
    } else {
        half(&rest).map(|h| h / x)
    };
    Some(Interval { value, half })
}

/// How much rates differ from those that follow, as a part of their mean: their coefficient of variation within
/// intervals. Long intervals count as in the error of a [total].
pub fn variation(all: &[Weighted]) -> Option<f64> {
    let rate = |w: &Weighted| w.value / w.size;
    let weights: f64 = all.iter().map(|w| w.weight).sum();
    let mean = all.iter().map(|w| w.weight * rate(w)).sum::<f64>() / weights;
    let (weights, squares) = squares(all);
    if weights <= 0.0 || mean.is_nan() || mean <= 0.0 {
        return None;
    }
    Some((squares / weights).sqrt() / mean)
}

/// How many standard errors the half interval is long. Degrees of freedom need not be whole.
pub fn student(freedom: f64) -> f64 {
    let upper = 1.0 - (1.0 - CONFIDENCE) / 2.0;
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(upper))
}

/// A number that follows from another one and looks random (SplitMix64).
pub fn scattered(n: u64) -> u64 {
    let mut z = n
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(weight: f64, size: f64, value: f64) -> Weighted {
        Weighted {
            weight,
            size,
            value,
        }
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, t) in [
            (1.0, 12.7062),
            (4.0, 2.77645),
            (29.0, 2.04523),
            (1000.0, 1.96234),
        ] {
            assert!((student(freedom) - t).abs() < 1e-3, "{freedom}");
        }
    }

    #[test]
    fn a_known_population() {
        // Rates 1, 2, 3 of equal weight: steps of 1.
        let all = [1.0, 2.0, 3.0].map(|r| one(1000.0, 10.0, 10.0 * r));
        let t = total(&all).unwrap();
        assert_eq!(t.value, 6000.0);
        // Two pairs tell 1/2 each, for three intervals; 4/3 degrees of freedom.
        let expected = student(4.0 / 3.0) * (1.5f64).sqrt() * 1000.0 * (1.0f64 - 0.01).sqrt();
        assert!((t.half.unwrap() - expected).abs() < 0.5, "{t:?} {expected}");
        assert!((variation(&all).unwrap() - (0.5f64).sqrt() / 2.0).abs() < 1e-12);
        // Of the same steps, that of a long interval counts more.
        let steps = [(1.0, 1.0), (1.0, 3.0), (9.0, 3.0), (9.0, 3.0)];
        let early = steps.map(|(w, r)| one(w, 1.0, r));
        let late = steps.map(|(w, r)| one(10.0 - w, 1.0, r));
        assert!(variation(&early).unwrap() < variation(&late).unwrap());
        // Twice the value for each unit of another figure: no error at all.
        let pairs = all.map(|w| (w, w.value / 2.0));
        let r = ratio(&pairs, (0.0, 0.0)).unwrap();
        assert!((r.value - 2.0).abs() < 1e-12 && r.half.unwrap() < 1e-9);
        assert_eq!(total(&[]), None);
        assert_eq!(total(&all[..1]).unwrap().half, None);
    }

    #[test]
    fn what_is_measured_as_a_whole_has_no_error() {
        let all = [1.0, 5.0].map(|r| one(10.0, 10.0, r));
        assert_eq!(total(&all).unwrap().half, Some(0.0));
    }

    /// A program with phases, and noise on top, sampled in 400 ways: the truth is within nearly as often as promised.
    #[test]
    fn the_truth_is_within_the_interval_as_often_as_it_says() {
        let noise = |i: u64| (scattered(i) >> 11) as f64 / (1u64 << 53) as f64;
        let units = 20_000u64;
        let rate = |i: u64| 1.0 + 0.5 * f64::from(i % 5000 > 2500) + noise(i) * noise(i + units);
        let truth: f64 = (0..units).map(rate).sum();
        let mut within = 0;
        for run in 0..400u64 {
            let mut all = Vec::new();
            let mut start = 0;
            while start < units {
                let length = (start / 30).clamp(200, units - start);
                let at = start + scattered(run * 1_000_003 + start) % length;
                all.push(one(length as f64, 1.0, rate(at)));
                start += length;
            }
            within += u32::from(total(&all).unwrap().holds(truth));
        }
        assert!((372..400).contains(&within), "{within} of 400");
    }

    proptest! {
        #[test]
        fn equal_rates_have_no_error(rate in 0.1f64..9.0, sizes in proptest::collection::vec(1u32..1000, 2..30)) {
            let all: Vec<Weighted> = sizes.iter().map(|s| {
                let size = f64::from(*s);
                one(size * 50.0, size, size * rate)
            }).collect();
            let t = total(&all).unwrap();
            let weights: f64 = all.iter().map(|w| w.weight).sum();
            prop_assert!((t.value - rate * weights).abs() < 1e-6 * t.value);
            if let Some(h) = t.half {
                prop_assert!(h < 1e-6 * t.value);
            }
        }
    }
}
