//! The machine of a run, at the point where its agent waits for a job.

use super::args::{CommonArgs, Placement};
use super::program::Program;
use super::protocol::{Mount, LABEL_READY};
use crate::args::RunArgs;
use crate::boot::{self, Software};
use crate::devices::{DeviceArgs, DiskArg};
use crate::drive::BoxedService;
use crate::guest;
use crate::image;
use crate::output::Messages;
use crate::rtc::{self, Rtc};
use crate::snapshot::{self, cache};
use anyhow::{bail, Context};
use nagori_memtime::Method;
use nagori_platform::config::{slot_names, Machine as Description, SlotKind};
use nagori_platform::loader::Plan;
use nagori_platform::machine::{Engine, Machine, Quiet};
use std::path::{Path, PathBuf};

/// NUMA node of NVMM, where it is one.
const NVMM_NODE: u32 = 1;
/// Name of the slot that a run adds.
const CONSOLE_SLOT: &str = "agent";
/// The root file system of programs that need one.
const DEFAULT_ROOT: &str = "run";
/// The first disk, as the guest's kernel names it.
const ROOT_DISK: &str = "/dev/vda";
/// The guest's allocator on NVMM.
const MALLOC: &str = "LD_PRELOAD=/usr/local/lib/libnagori-malloc.so";

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
    /// Variables that put the program's memory where it is wanted.
    pub env: Vec<String>,
    devices: DeviceArgs,
    rtc: Option<Rtc>,
    plan: Plan,
    engine: Engine,
    /// The kept boot.
    booted: PathBuf,
    /// Holds it, where it is not to be kept.
    _own: Option<tempfile::TempDir>,
}

/// What the placement of a program's memory means: settings, NUMA node, variables.
fn placed(
    a: &CommonArgs,
    program: &Program,
) -> anyhow::Result<(Vec<String>, Option<u32>, Vec<String>)> {
    let preload = |how: String| {
        if !program.has_libraries() {
            bail!("--memory heap and size>N put a library into the program, and it is static: use --memory nvmm");
        }
        Ok((
            Vec::new(),
            None,
            vec![MALLOC.into(), format!("NAGORI_MALLOC={how}")],
        ))
    };
    match a.memory {
        Placement::Dram => Ok(Default::default()),
        Placement::Nvmm => Ok((
            vec!["memory.expose=numa-node".into()],
            Some(NVMM_NODE),
            Vec::new(),
        )),
        Placement::Heap => preload("nvmm".into()),
        Placement::Size(n) => preload(format!("size:{n}")),
    }
}

impl Setup {
    /// Of the arguments; boots, if there is no such boot yet.
    pub fn new(a: &CommonArgs, program: &Program, messages: &Messages) -> anyhow::Result<Setup> {
        let (mut settings, node, env) = placed(a, program)?;
        if a.no_markers {
            settings.push("markers=false".into());
        }
        let options = image::options_with(&a.cache, &a.modules)?;
        let root = match a.rootfs.as_deref() {
            Some("none") if program.needs_files() => bail!("the program needs a root file system: with --rootfs none there are no libraries and no interpreters"),
            Some("none") => None,
            Some(name) => Some(image::rootfs::find(&options, name, messages)?),
            None if program.needs_image() => Some(image::rootfs::find(&options, DEFAULT_ROOT, messages)?),
            None => None,
        };
        let mut devices = a.devices.clone();
        let disk = root.as_ref().map(|file| DiskArg::rootfs(file.clone()));
        devices.disk.splice(0..0, disk.clone());
        // The machine's own devices stay where they are.
        let own = a.machine.resolve(&settings)?.config.devices;
        let mut list: Vec<String> = own.iter().map(ToString::to_string).collect();
        list.push(format!("console:{CONSOLE_SLOT}"));
        settings.push(format!("devices={list:?}"));
        let image = image::build(&options, messages)?;
        let description = devices.resolve(&a.machine, &settings)?;
        let description = rtc::of_image(description, Some(&image), root.as_deref())?;
        let console = slot(&description, SlotKind::Console, CONSOLE_SLOT)?;
        let mount = |(tag, write): (String, bool)| Mount {
            path: format!("/mnt/{tag}"),
            tag,
            write,
        };
        let mounts = devices.tags(&description)?.into_iter().map(mount).collect();

        let mut append = "quiet nagori.agent=1".to_string();
        if root.is_some() {
            append.push_str(&format!(" nagori.root={ROOT_DISK}"));
        }
        let software = Software {
            append: Some(append),
            ..Software::default()
        };
        let plan = boot::plan(&description, &software, Some(&image))?;
        let depends: Vec<String> = root
            .as_deref()
            .map(identity)
            .transpose()?
            .into_iter()
            .collect();
        // While it boots, only the root file system is there: the rest belongs to a run.
        let at_boot = DeviceArgs {
            disk: disk.into_iter().collect(),
            ..DeviceArgs::default()
        };
        let connect = |m: &mut Machine<Quiet>| at_boot.connect(m, messages).map(drop);
        let what = cache::Boot {
            description: &description,
            plan: &plan,
            label: Some(LABEL_READY),
            depends: &depends,
            what: "Debian, up to where programs start",
            connect: &connect,
        };
        let kept = match a.no_boot_cache {
            true => None,
            false => {
                let dir = cache::dir(&a.cache)?;
                match cache::boot(&dir, &what, messages) {
                    Err(e) if cache::is_unwritable(&e) => {
                        messages.warning(&format!("{e:#}; this run boots for itself"));
                        None
                    }
                    booted => Some(booted?),
                }
            }
        };
        let (booted, own) = match kept {
            Some(booted) => (booted, None),
            None => {
                let own = tempfile::tempdir().context("cannot make a temporary directory")?;
                (cache::boot(own.path(), &what, messages)?, Some(own))
            }
        };
        let engine = RunArgs {
            engine: a.engine,
            ..RunArgs::default()
        }
        .engine();
        Ok(Setup {
            description,
            console,
            mounts,
            node,
            env,
            devices,
            rtc: a.rtc,
            plan,
            engine,
            booted,
            _own: own,
        })
    }

    /// Has a machine boot again behind a power cut.
    pub fn start_anew(&self, m: &mut Machine) -> anyhow::Result<()> {
        m.set_timed(false);
        guest::load(m, &self.plan, true)
    }

    /// A plan that loads nothing: what runs is in the machine.
    pub fn nothing(&self) -> Plan {
        Plan {
            segments: Vec::new(),
            entry: self.plan.entry,
            warnings: Vec::new(),
        }
    }

    /// A machine whose agent waits, in functional mode, with its connections to the host.
    pub fn machine<'a>(
        &self,
        method: Option<Method>,
        messages: &'a Messages,
    ) -> anyhow::Result<(Machine, Vec<BoxedService<'a, Quiet>>)> {
        let mut m: Machine = snapshot::open(&self.booted)?
            .machine_as(&self.description, Quiet)
            .with_context(|| format!("cannot go on from {}", self.booted.display()))?;
        m.set_engine(self.engine)?;
        if let Some(method) = method {
            m.set_method(method)?;
        }
        if let Some(rtc) = self.rtc {
            m.set_rtc(rtc.seconds());
        }
        let services = self.devices.connect(&mut m, messages)?;
        Ok((m, services))
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

/// What tells an image from another one in its place.
fn identity(path: &Path) -> anyhow::Result<String> {
    let tell = || format!("cannot look at {}", path.display());
    let m = path.metadata().with_context(tell)?;
    let full = path.canonicalize().with_context(tell)?;
    let changed = m.modified().with_context(tell)?;
    Ok(format!("{} {} {changed:?}", full.display(), m.len()))
}
