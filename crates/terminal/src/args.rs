//! Options of commands of many kinds: which machine, where images are, a delay method.

use crate::numbers::size;
use clap::Args;
use nagori_config::{BlockConfig, Machine as Description, DISK_LATENCIES};
use nagori_image::Options;
use nagori_memtime::Method;
use nagori_session::{image, MachineChoice};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// Which machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Machine")]
pub struct MachineArgs {
    /// Machine description: a name (see `nagori machine list`) or a path.
    #[arg(short, long, value_name = "NAME|PATH", default_value = nagori_config::DEFAULT_MACHINE)]
    pub machine: String,
    /// Change a value of the description for this run; see `nagori machine show` for the keys.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// How long disks take: as an `ssd` on SATA, or as an `hdd` (docs/io.md has the values and their sources) [default:
    /// the machine's].
    #[arg(long, value_name = "DISK", value_parser = disk_latency)]
    pub disk_latency: Option<BlockConfig>,
}

fn disk_latency(text: &str) -> Result<BlockConfig, String> {
    let found = DISK_LATENCIES.iter().find(|(name, _)| *name == text);
    let names = DISK_LATENCIES.map(|(name, _)| name).join(", ");
    let found = found.ok_or_else(|| format!("there is no disk `{text}`; there are: {names}"))?;
    Ok(found.1.clone())
}

impl MachineArgs {
    /// As the library has it.
    pub fn choice(&self) -> MachineChoice {
        MachineChoice {
            machine: self.machine.clone(),
            set: self.settings(),
        }
    }

    /// All changes of the description, in order.
    fn settings(&self) -> Vec<String> {
        let latency = self.disk_latency.iter().flat_map(|d| {
            [
                format!("block.request_ps={}", d.request_ps),
                format!("block.seek_ps={}", d.seek_ps),
                format!("block.byte_ps={}", d.byte_ps),
                format!("block.flush_ps={}", d.flush_ps),
            ]
        });
        latency.chain(self.set.iter().cloned()).collect()
    }

    /// The description with the command line's changes; `more` are settings of other options.
    pub fn resolve(&self, more: &[String]) -> anyhow::Result<Description> {
        Ok(self.choice().resolve(more)?)
    }
}

/// Where guest images are.
#[derive(Debug, Clone, Default, Args)]
pub struct CacheArgs {
    /// Directory of guest images [default: NAGORI_CACHE, else ~/.cache/nagori].
    #[arg(long = "cache", value_name = "DIR", help_heading = "Software")]
    pub cache: Option<PathBuf>,
    /// Most that cached boots take, the last used stay [default: 512 MiB]; of `cache prune`: that the cache takes.
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Software")]
    pub cache_limit: Option<u64>,
    /// Debian mirror, the directory that holds `dists` and `pool`, if an image has to be built [default: NAGORI_MIRROR,
    /// else that of this host's apt].
    #[arg(long, value_name = "URL", help_heading = "Software")]
    pub mirror: Option<String>,
    /// Fetch nothing: what is not in the cache is an error.
    #[arg(long, help_heading = "Software")]
    pub offline: bool,
}

impl CacheArgs {
    /// Where images come from, and where they are kept.
    pub fn source(&self) -> image::Source {
        image::Source {
            cache: self.cache.clone(),
            boots_limit: self.cache_limit,
            mirror: self.mirror.clone(),
            offline: self.offline,
        }
    }

    /// Gives the same to another `nagori` that is started.
    pub fn pass_to(&self, command: &mut Command) {
        for (option, value) in [
            ("--cache", self.cache.as_ref().map(|c| c.as_os_str())),
            ("--mirror", self.mirror.as_ref().map(OsStr::new)),
        ] {
            if let Some(value) = value {
                command.arg(option).arg(value);
            }
        }
        if let Some(limit) = self.cache_limit {
            command.arg("--cache-limit").arg(limit.to_string());
        }
        if self.offline {
            command.arg("--offline");
        }
    }

    /// Where images come from and are kept, and what is to be built, with the default modules.
    pub fn options(&self) -> anyhow::Result<Options> {
        Ok(self.source().options()?)
    }

    /// As [`CacheArgs::options`], with further modules.
    pub fn options_with(&self, modules: &ModulesArgs) -> anyhow::Result<Options> {
        let mut options = self.options()?;
        options.add_modules(&modules.modules);
        Ok(options)
    }
}

/// What the guest's kernel has beside what every image has.
#[derive(Debug, Clone, Default, Args)]
pub struct ModulesArgs {
    /// Further modules of Debian's kernel for the guest, separated by commas, with their dependencies: they
    /// are loaded at its start, and modprobe finds them. Such as xfs; its tools are a package (xfsprogs).
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Software"
    )]
    pub modules: Vec<String>,
}

/// Parses a delay method.
pub fn method(text: &str) -> Result<Method, String> {
    let known = || Method::ALL.map(Method::name).join(", ");
    Method::ALL
        .into_iter()
        .find(|m| m.name() == text)
        .ok_or_else(|| format!("expected one of {}", known()))
}
