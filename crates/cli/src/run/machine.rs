//! The machine of a run, at the point where its agent waits for a job.

use super::args::{CommonArgs, Placement, ShareArg};
use super::program::Program;
use super::protocol::{self, Mount, Reader, Says};
use crate::boot::{self, Software};
use crate::image;
use crate::output::Messages;
use crate::signals::Signals;
use anyhow::{bail, Context};
use nagori_memtime::Method;
use nagori_platform::config::{slot_names, Machine as Description, SlotKind};
use nagori_platform::devices::virtio::PortConsole;
use nagori_platform::loader::Plan;
use nagori_platform::machine::{Engine, Machine, Quiet, Stop};

/// Core cycles between looks at the agent.
const SLICE: u64 = 1_000_000;
/// Guest time after which a boot counts as hanging, in seconds.
const PATIENCE: u64 = 600;
/// Bytes of the kernel's last words that an error shows.
const LAST_WORDS: usize = 1500;
/// NUMA node of NVMM, where it is one.
const NVMM_NODE: u32 = 1;
/// Names of the slots that a run adds.
const CONSOLE_SLOT: &str = "agent";

/// Everything that a machine of a run is made of.
pub struct Setup {
    /// With the devices of the run.
    pub description: Description,
    /// Slot of the agent's console.
    pub console: usize,
    /// Shares, to be mounted.
    pub mounts: Vec<Mount>,
    /// NUMA node for the program's memory.
    pub node: Option<u32>,
    plan: Plan,
    engine: Engine,
}

/// A share's place in the guest.
fn place(n: usize, share: &ShareArg) -> String {
    match (&share.path, n) {
        (Some(path), _) => path.clone(),
        (None, 0) => "/host".into(),
        (None, n) => format!("/host{n}"),
    }
}

impl Setup {
    /// Of the arguments.
    pub fn new(a: &CommonArgs, program: &Program, messages: &Messages) -> anyhow::Result<Setup> {
        let mut settings = Vec::new();
        if a.no_markers {
            settings.push("markers=false".to_string());
        }
        let node = match a.memory {
            Placement::Dram => None,
            Placement::Nvmm => {
                settings.push("memory.expose=numa-node".into());
                Some(NVMM_NODE)
            }
        };
        if program.needs_image() && a.rootfs.as_deref() == Some("none") {
            bail!("the program needs a root file system: --rootfs none has no libraries and no programs but busybox");
        }
        // The machine's own devices stay where they are.
        let mut devices: Vec<String> = a
            .machine
            .resolve(&settings)?
            .config
            .devices
            .iter()
            .map(ToString::to_string)
            .collect();
        devices.push(format!("console:{CONSOLE_SLOT}"));
        let mounts: Vec<Mount> = a
            .share
            .iter()
            .enumerate()
            .map(|(n, s)| Mount {
                tag: format!("host{n}"),
                path: place(n, s),
                write: s.write,
            })
            .collect();
        devices.extend(mounts.iter().map(|m| format!("share:{}", m.tag)));
        settings.push(format!("devices={devices:?}"));
        let description = a.machine.resolve(&settings)?;
        let console = slot(&description, SlotKind::Console, CONSOLE_SLOT)?;
        let options = image::options(&a.cache)?;
        let image = image::build(&options, messages)?;
        let software = Software {
            append: Some("quiet nagori.agent=1".into()),
            ..Software::default()
        };
        let plan = boot::plan(&description, &software, Some(&image))?;
        let engine = crate::args::RunArgs {
            engine: a.engine,
            ..Default::default()
        }
        .engine();
        Ok(Setup {
            description,
            console,
            mounts,
            node,
            plan,
            engine,
        })
    }

    /// A plan that loads nothing: what runs is in the machine.
    pub fn nothing(&self) -> Plan {
        Plan {
            segments: Vec::new(),
            entry: self.plan.entry,
        }
    }

    /// A machine whose agent waits, in functional mode.
    pub fn machine(&self, method: Option<Method>, signals: &Signals) -> anyhow::Result<Machine> {
        let mut m =
            Machine::new(&self.description, Quiet).context("the machine cannot be built")?;
        m.set_timed(false);
        m.set_engine(self.engine)?;
        crate::guest::load(&mut m, &self.plan, false)?;
        until_ready(&mut m, self.console, signals)?;
        if let Some(method) = method {
            m.set_method(method)?;
        }
        Ok(m)
    }
}

/// Number of a slot.
fn slot(d: &Description, kind: SlotKind, name: &str) -> anyhow::Result<usize> {
    let slots = &d.config.devices;
    let names = slot_names(slots);
    let mut found = slots.iter().zip(&names);
    found
        .position(|(s, n)| s.kind == kind && n == name)
        .with_context(|| format!("the machine has no {} {name}", kind.name()))
}

/// Runs a machine until its agent waits for a job.
pub fn until_ready(m: &mut Machine, console: usize, signals: &Signals) -> anyhow::Result<()> {
    let mut reader = Reader::default();
    let mut words = Vec::new();
    let begin = m.now();
    loop {
        if let Some(n) = signals.caught() {
            bail!("ended by signal {n} while the machine booted");
        }
        let stop = m.run(SLICE, None);
        words.extend(m.console_output());
        let from = words.len().saturating_sub(LAST_WORDS);
        words.drain(..from);
        let bytes = m
            .virtio::<PortConsole, _>(console, |c, at| c.take(at, 0))
            .context("the machine has no console for the agent")?
            .context("the guest's driver of the agent's console broke the rules")?;
        reader.feed(&bytes);
        match reader.next()? {
            Some(Says::Ready { version, .. }) if version == protocol::VERSION => return Ok(()),
            Some(Says::Failed { text, .. }) => bail!("the agent in the guest: {text}"),
            Some(other) => bail!("the agent in the guest is another one than expected: {other:?}"),
            None => {}
        }
        let seconds = m.now().saturating_sub(begin).0 / 1_000_000_000_000;
        let gone = matches!(stop, Stop::PowerOff(_) | Stop::Reset) || seconds > PATIENCE;
        if gone || matches!(stop, Stop::Idle(t) if t == nagori_platform::clock::Ps::NEVER) {
            bail!(
                "the guest did not get to the point where programs start; its last words:\n{}",
                String::from_utf8_lossy(&words).trim_end()
            );
        }
    }
}
