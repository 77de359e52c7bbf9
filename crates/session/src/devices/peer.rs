//! A second machine at the other end of a wire: its description, its software, its console.

use crate::caller::Caller;
use crate::choice::MachineChoice;
use crate::drive::{BoxedService, Peer, Service, Wishes};
use crate::error::{Context, Error, Result};
use crate::image;
use crate::software::{self, Software};
use nagori_config::{Machine as Description, SlotKind};
use nagori_machine::{Engine, Machine, Stop};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// What the machine at the other end is, if nothing else is asked for.
const DEFAULT_MACHINE: &str = "peer";
/// Its address, and its network's length.
const ADDRESS: &str = "10.9.0.2/24";
/// How long a frame takes at least, if nothing else is asked for: what a switch of 100 Mbit/s needs to look its port
/// up.
const DEFAULT_DELAY: Duration = Duration::from_micros(10);

/// The machine at the other end of a wire. It boots Debian when the first one starts, in functional mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSpec {
    /// Name or path of its description.
    pub machine: String,
    /// A shell command that it runs; it is switched off when the command ends.
    pub run: Option<String>,
    /// From when a frame has been sent to when it reaches the other machine's interface; at least
    /// [`SHORTEST_DELAY`](crate::drive::SHORTEST_DELAY).
    pub delay: Duration,
    /// The file for the output of its console.
    pub console: Option<PathBuf>,
}

impl Default for PeerSpec {
    fn default() -> PeerSpec {
        PeerSpec {
            machine: DEFAULT_MACHINE.into(),
            run: None,
            delay: DEFAULT_DELAY,
            console: None,
        }
    }
}

/// Its console.
struct Console(Option<(File, PathBuf)>);

impl Service for Console {
    fn after(&mut self, machine: &mut Machine, _: Stop, _: &mut Wishes) -> Result<()> {
        let bytes = machine.console_output();
        match &mut self.0 {
            Some((file, path)) => file
                .write_all(&bytes)
                .with_context(|| format!("cannot write {}", path.display())),
            None => Ok(()),
        }
    }
}

impl PeerSpec {
    /// Its description. `seed` is that of the machine at this end; with another one, interfaces get other addresses.
    fn description(&self, seed: u64) -> Result<Description> {
        let choice = MachineChoice {
            machine: self.machine.clone(),
            set: Vec::new(),
        };
        choice.resolve(&[format!("seed={}", seed ^ 1)])
    }

    /// The slot of its interface.
    fn slot(&self, description: &Description) -> Result<usize> {
        let mut slots = description.config.devices.iter();
        let slot = slots.position(|s| super::is_net(s.kind));
        slot.ok_or_else(|| {
            Error::Request(format!(
                "the machine {} at the other end of the wire has no network interface: its `devices` need `net` or \
                    `ethmac`",
                self.machine
            ))
        })
    }

    /// Builds the machine, and joins it to the interface in a slot of another one.
    pub(super) fn connect<'a>(
        &self,
        first: &mut Machine,
        slot: usize,
        caller: &'a dyn Caller,
    ) -> Result<Peer<'a>> {
        let description = self.description(first.config().seed)?;
        let other = self.slot(&description)?;
        let mut images = image::options(None)?;
        if description.config.devices[other].kind == SlotKind::Ethmac {
            images.add_modules(&["ethoc".to_string()]);
        }
        let image = image::build(&images, caller)?;
        let software = Software {
            append: Some(format!("quiet nagori.net={ADDRESS}")),
            run: self.run.clone(),
            ..Software::default()
        };
        let plan = software::plan(&description, &software, Some(&image))?;
        let mut machine = Machine::new(&description).context("the machine cannot be built")?;
        machine.set_timed(false);
        software::install(&mut machine, plan, false, None)?;
        machine.set_engine(Engine::best())?;
        let console = self.console.as_ref().map(|path| {
            let file =
                File::create(path).with_context(|| format!("cannot create {}", path.display()));
            file.map(|f| (f, path.clone()))
        });
        let services: Vec<BoxedService<'a>> = vec![Box::new(Console(console.transpose()?))];
        Peer::join(
            (first, slot),
            (machine, other),
            self.delay,
            services,
            caller,
        )
    }
}
