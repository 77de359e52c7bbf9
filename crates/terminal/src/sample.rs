//! Statistics of repeated runs: mean, spread, and confidence interval.

use serde::Serialize;
use serde_json::{json, Value};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence level of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Statistics of a list of values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// Number of values.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Standard deviation, estimated (n - 1); `None` with less than two values.
    pub deviation: Option<f64>,
    /// Ends of the interval that holds the true mean with 95 % confidence, by Student's
    /// distribution; `None` with less than two values.
    pub ci95: Option<[f64; 2]>,
}

impl Sample {
    /// Computed from values; `None` if there are none, or if one is not a number.
    pub fn of(values: &[f64]) -> Option<Sample> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        if !(min.is_finite() && max.is_finite()) {
            return None;
        }
        let n = sorted.len();
        let count = n as f64;
        // Equal values have exactly that mean, which a sum need not give.
        let mean = if min == max {
            min
        } else {
            sorted.iter().sum::<f64>() / count
        };
        let deviation = (n > 1).then(|| {
            let squares: f64 = sorted.iter().map(|v| (v - mean).powi(2)).sum();
            (squares / (count - 1.0)).sqrt()
        });
        let ci95 = deviation.map(|d| {
            let half = student(n - 1) * d / count.sqrt();
            [mean - half, mean + half]
        });
        Some(Sample {
            count: n,
            mean,
            median: (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
            min,
            max,
            deviation,
            ci95,
        })
    }

    /// Half the length of the interval.
    pub fn half(&self) -> Option<f64> {
        self.ci95.map(|[low, high]| (high - low) / 2.0)
    }

    /// Mean and interval for human readers: "1.234 ± 0.005", or the mean alone.
    pub fn shown(&self, digits: usize) -> String {
        match self.half() {
            Some(h) => format!("{:.digits$} ± {h:.digits$}", self.mean),
            None => format!("{:.digits$}", self.mean),
        }
    }

    /// This sample in another unit: every value is divided by `unit`.
    pub fn scaled(&self, unit: f64) -> Sample {
        Sample {
            count: self.count,
            mean: self.mean / unit,
            median: self.median / unit,
            min: self.min / unit,
            max: self.max / unit,
            deviation: self.deviation.map(|v| v / unit),
            ci95: self.ci95.map(|c| c.map(|v| v / unit)),
        }
    }

    /// With the values themselves.
    pub fn json(&self, values: &[f64]) -> Value {
        let mut v = json!(self);
        v["values"] = json!(values);
        v
    }
}

/// How many standard errors the half interval is long.
fn student(freedom: usize) -> f64 {
    let upper = 1.0 - (1.0 - CONFIDENCE) / 2.0;
    StudentsT::new(0.0, 1.0, freedom as f64).map_or(f64::INFINITY, |t| t.inverse_cdf(upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_quantiles() {
        // Tables of Student's distribution, two-sided 95 %.
        for (freedom, t) in [
            (1, 12.7062),
            (2, 4.30265),
            (4, 2.77645),
            (9, 2.26216),
            (29, 2.04523),
            (1000, 1.96234),
        ] {
            assert!((student(freedom) - t).abs() < 1e-4, "{freedom}");
        }
    }

    #[test]
    fn known_samples() {
        let s = Sample::of(&[3.0, 1.0, 2.0, 4.0]).unwrap();
        assert_eq!((s.count, s.mean, s.median), (4, 2.5, 2.5));
        assert_eq!((s.min, s.max), (1.0, 4.0));
        let d = s.deviation.unwrap();
        assert!((d - 1.290_994_448).abs() < 1e-9, "{d}");
        let half = s.half().unwrap();
        assert!((half - 3.182_446 * d / 2.0).abs() < 1e-5, "{half}");
        assert_eq!(s.shown(2), "2.50 ± 2.05");
        assert_eq!(s.scaled(2.0).mean, 1.25);
        let one = Sample::of(&[7.0]).unwrap();
        assert_eq!((one.mean, one.median, one.ci95), (7.0, 7.0, None));
        assert_eq!(one.shown(1), "7.0");
        let same = Sample::of(&[0.1; 3]).unwrap();
        assert_eq!((same.mean, same.ci95), (0.1, Some([0.1, 0.1])));
        assert_eq!(Sample::of(&[]), None);
        assert_eq!(Sample::of(&[1.0, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn order_does_not_matter_and_ends_hold_the_middle(
            values in proptest::collection::vec(-1e6f64..1e6, 1..40),
        ) {
            let s = Sample::of(&values).unwrap();
            let mut turned = values.clone();
            turned.reverse();
            prop_assert_eq!(Sample::of(&turned), Some(s.clone()));
            let slack = 1e-9 * s.max.abs().max(s.min.abs());
            prop_assert!(s.min <= s.median && s.median <= s.max);
            prop_assert!(s.min - slack <= s.mean && s.mean <= s.max + slack);
            if let Some([low, high]) = s.ci95 {
                prop_assert!(low <= s.mean && s.mean <= high);
            }
        }
    }
}
