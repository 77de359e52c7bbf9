//! Sampled runs: what of the host the copies of a machine may use.

use crate::devices::Devices;
use crate::error::{Error, Result};
use nagori_disk::Writes;
use nagori_machine::{Engine, Machine};
pub use nagori_sampling::{bbv, kept, plan, Copies, Interval, Plan, Sampled, Sampler, Window};
use std::path::PathBuf;
use std::sync::Arc;

/// Copies of a machine with such devices. An error if a copy could write what belongs to the host, or would have to
/// talk to somebody.
pub fn copies(devices: &Devices, engine: Engine, keep: Option<PathBuf>) -> Result<Copies> {
    let only_read =
        |d: &&crate::devices::DiskSpec| matches!(d.writes, Writes::Refused | Writes::Temporary);
    let written = devices.disks.iter().find(|d| !only_read(d));
    let share = devices.shares.iter().find(|s| s.writable);
    let wrong = match (written, share, devices.nets.first()) {
        (Some(d), _, _) => format!(
            "--disk {}: windows of a sampled run are measured in copies of the machine, which must not write it: give \
                it as `ro` or with `overlay=temp`",
            d.file.display()
        ),
        (_, Some(s), _) => format!(
            "--share {} with rw: windows of a sampled run are measured in copies of the machine, which must not write \
                it: share it to be read",
            s.folder.display()
        ),
        (_, _, Some(_)) => "--net: windows of a sampled run are measured in copies of the machine, which the network \
            does not know".into(),
        _ => {
            let devices = devices.clone();
            let connect = move |m: &mut Machine| {
                if devices.disks.is_empty() && devices.shares.is_empty() {
                    return Ok(());
                }
                devices.connect(m, &()).map(|_| ()).map_err(|e| e.chain())
            };
            return Ok(Copies {
                engine,
                connect: Arc::new(connect),
                keep,
            });
        }
    };
    Err(Error::Request(wrong))
}

/// What is asked of a sampled run, and where its windows are written.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// How it is sampled.
    pub plan: Plan,
    /// A directory for its windows.
    pub windows_to: Option<PathBuf>,
}

impl Asked {
    /// Begins to sample a machine with such devices.
    pub fn begin(&self, m: &mut Machine, devices: &Devices, engine: Engine) -> Result<()> {
        let copies = copies(devices, engine, self.windows_to.clone())?;
        Sampler::new(self.plan.clone(), m, copies).begin(m);
        Ok(())
    }
}

/// Ends the sampling of a machine. `None` if it was not sampled.
pub fn end(m: &mut Machine) -> Result<Option<Sampled>> {
    Sampler::end(m).map_err(Error::Request)
}
