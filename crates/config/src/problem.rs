//! What is wrong with a value.

use super::{ConfigError, Place, Source};

/// An impossible value.
pub(super) struct Problem {
    pub(super) key: String,
    problem: String,
    /// The values that are possible, for plain ranges.
    pub(super) range: Option<(u64, u64)>,
}

impl Problem {
    pub(super) fn new(key: String, problem: String) -> Self {
        Problem {
            key,
            problem,
            range: None,
        }
    }

    pub(super) fn at(self, source: &Source) -> ConfigError {
        let place = Place::of_key(source, &self.key);
        ConfigError::Invalid {
            place,
            key: self.key,
            problem: self.problem,
        }
    }
}

pub(super) fn ensure(ok: bool, key: &str, problem: impl FnOnce() -> String) -> Result<(), Problem> {
    if ok {
        return Ok(());
    }
    Err(Problem::new(key.into(), problem()))
}

pub(super) fn within(key: &str, value: u64, low: u64, high: u64) -> Result<(), Problem> {
    let outside = || format!("{value} is outside {low} to {high}");
    ensure((low..=high).contains(&value), key, outside).map_err(|p| Problem {
        range: Some((low, high)),
        ..p
    })
}
