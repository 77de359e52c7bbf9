//! The spread of repeated measurements.

use serde::Serialize;

/// Least, median and largest of the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The one in the middle; of an even number, the lower one.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of at least one value.
    pub fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        Spread {
            min: values[0],
            median: values[(values.len() - 1) / 2],
            max: values[values.len() - 1],
        }
    }
}
