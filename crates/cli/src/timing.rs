//! The choice between the detailed and the light timed mode.

use crate::output::Messages;
use anyhow::{bail, Context};
use clap::{Args, ValueEnum};
use nagori_memtime::Ps;
use nagori_platform::config::{EpochConfig, Machine as Description};
use nagori_platform::machine::{calibrate, light_key, EpochLength, LightModel};
use nagori_session::guest::Light;
use std::path::{Path, PathBuf};

/// What the timing model is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TimingArg {
    /// Estimates by epochs: caches are tags, memory is a table of costs.
    Light,
    /// Every transfer is simulated.
    #[default]
    Detailed,
}

/// The choice of the light timed mode.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Run")]
pub struct LightArgs {
    /// What times come from while the timing model is on: every transfer is simulated (detailed), or estimated by
    /// epochs (light, docs/epoch.md).
    #[arg(long, value_name = "HOW", conflicts_with = "functional")]
    pub timing: Option<TimingArg>,
    /// What lines cost in the light mode, as `nagori epoch calibrate` has written it [default: measured anew].
    #[arg(long, value_name = "FILE", requires = "timing")]
    pub epoch_costs: Option<PathBuf>,
    /// Guest time of an epoch in the light mode, such as 100us [default: epoch.length of the machine].
    #[arg(long, value_name = "TIME", requires = "timing", value_parser = time)]
    pub epoch_length: Option<Ps>,
    /// An epoch of the light mode ends after this many instructions of a hart, instead of a time.
    #[arg(long, value_name = "N", requires = "timing", conflicts_with = "epoch_length",
          value_parser = clap::value_parser!(u64).range(EpochConfig::LEAST_INSTRUCTIONS..))]
    pub epoch_instructions: Option<u64>,
}

/// Parses a time.
fn time(given: &str) -> Result<Ps, String> {
    let unit = given
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(given.len());
    let number = given[..unit].trim_end().parse::<u64>().ok();
    let ps = match &given[unit..] {
        "us" => Some(1_000_000),
        "ms" => Some(1_000_000_000),
        _ => None,
    };
    let time = number.zip(ps).and_then(|(n, ps)| n.checked_mul(ps));
    time.map(Ps)
        .ok_or_else(|| "expected a time such as 100us or 10ms".into())
}

impl LightArgs {
    /// The length of epochs on a machine.
    fn length(&self, description: &Description) -> EpochLength {
        let default = EpochLength::of(&description.config.epoch);
        match self.epoch_length {
            Some(time) => EpochLength {
                time,
                instructions: None,
            },
            None => EpochLength {
                instructions: self.epoch_instructions.or(default.instructions),
                ..default
            },
        }
    }

    /// The light mode of a machine, if it is chosen: its costs are read or measured.
    pub fn light(
        &self,
        description: impl FnOnce() -> anyhow::Result<Description>,
        messages: &Messages,
    ) -> anyhow::Result<Option<Light>> {
        if self.timing != Some(TimingArg::Light) {
            if self.epoch_costs.is_some()
                || self.epoch_length.is_some()
                || self.epoch_instructions.is_some()
            {
                bail!(
                    "--epoch-costs, --epoch-length and --epoch-instructions are for --timing light"
                );
            }
            return Ok(None);
        }
        let description = description()?;
        let model = match &self.epoch_costs {
            Some(file) => read(file, &description)?,
            None => {
                messages.note("measuring what memory costs, for the light mode (nagori epoch calibrate keeps it)");
                calibrate(&description)?
            }
        };
        let length = self.length(&description);
        Ok(Some(Light::new(model, length)))
    }
}

/// Reads costs, and checks that they are the machine's.
fn read(file: &Path, description: &Description) -> anyhow::Result<LightModel> {
    let tell = || format!("--epoch-costs {}", file.display());
    let text = std::fs::read_to_string(file).with_context(tell)?;
    let model = LightModel::from_toml(&text)
        .map_err(anyhow::Error::msg)
        .with_context(tell)?;
    if model.key != light_key(description) {
        bail!(
            "{}: these are the costs of another machine ({}), or of another version of its description: run `nagori epoch calibrate` for {}",
            tell(),
            model.machine,
            description.config.name
        );
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_a_space() {
        assert_eq!(time("100us"), Ok(Ps(100_000_000)));
        assert_eq!(time("1 ms"), Ok(Ps(1_000_000_000)));
        assert!(time("100").is_err() && time("soon").is_err() && time("").is_err());
    }
}
