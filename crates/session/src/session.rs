//! A machine that programs are run on: booted once, up to where its agent waits for a program.

use crate::caller::Caller;
use crate::choice::MachineChoice;
use crate::devices::{Devices, DiskSpec, NetSpec, ShareSpec};
use crate::drive::BoxedService;
use crate::error::{Context, Error, Result};
use crate::image;
use crate::nvmm::{self, NvmmSpec};
use crate::program::{Executable, Mount, LABEL_READY};
use crate::rtc::{self, Rtc};
use crate::snapshot::cache;
use crate::software::{self, Software, ROOT_DISK};
use nagori_config::{slot_names, Machine as Description, SlotKind, DEFAULT_MACHINE};
use nagori_machine::{Engine, Machine};
use nagori_memtime::Method;
use nagori_platform::loader::Plan;
use nagori_values::{hint, SIZE};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// NUMA node of NVMM, if it is one.
const NVMM_NODE: u32 = 1;
/// Name of the slot that is added to a machine for the agent's console.
const CONSOLE_SLOT: &str = "agent";
/// The root file system of programs that need one.
const DEFAULT_ROOT: &str = "run";
/// The guest's allocator on NVMM.
const MALLOC: &str = "LD_PRELOAD=/usr/local/lib/libnagori-malloc.so";

/// Where a program's memory lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Placement {
    /// All of it in DRAM.
    #[default]
    Dram,
    /// All of it in NVMM, as a NUMA node.
    Nvmm,
    /// The heap in NVMM.
    Heap,
    /// Heap requests of this many bytes and more in NVMM.
    Size(u64),
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Placement, String> {
        let size = text.strip_prefix("size>");
        match (text, size) {
            ("dram", _) => Ok(Placement::Dram),
            ("nvmm", _) => Ok(Placement::Nvmm),
            ("heap", _) => Ok(Placement::Heap),
            (_, Some(n)) => match SIZE.read(n, Some(1))? {
                0 => Err("size>0 is not possible: expected more than 0 bytes".into()),
                n => Ok(Placement::Size(n)),
            },
            _ => Err(format!(
                "expected dram, nvmm, heap, or size>SIZE, such as \"size>64 KiB\"{}",
                hint(text, ["dram", "nvmm", "heap"])
            )),
        }
    }
}

/// The part of Debian that is in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rootfs {
    /// The smallest: busybox, no libraries. Enough for static programs.
    Smallest,
    /// `run`, `system`, the start of an image's key, or the file of an ext4 image.
    Named(String),
}

impl Default for Rootfs {
    fn default() -> Rootfs {
        Rootfs::Named(DEFAULT_ROOT.into())
    }
}

impl Rootfs {
    /// The smallest one that a program needs.
    pub fn least(program: &Executable) -> Rootfs {
        if program.needs_image() {
            Rootfs::default()
        } else {
            Rootfs::Smallest
        }
    }
}

/// The machine of a session, and the host resources to which it is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The machine's description.
    pub machine: MachineChoice,
    /// Disks, folders and networks. Each run connects them separately.
    pub devices: Devices,
    /// The image of NVMM that outlives the runs; each needs it for itself.
    pub nvmm: Option<NvmmSpec>,
    /// Where the memory of programs lies.
    pub placement: Placement,
    /// The root file system; what programs write to it is thrown away.
    pub rootfs: Rootfs,
    /// More modules of Debian's kernel.
    pub modules: Vec<String>,
    /// Where images come from, and where they and boots are kept.
    pub images: image::Source,
    /// Whether the boot is cached for later sessions.
    pub keep_boot: bool,
    /// The engine that runs the guest's code; results do not depend on it.
    pub engine: Engine,
    /// The time of the clock when a program starts; `None`: the date of the image.
    pub rtc: Option<Rtc>,
    /// Whether markers of programs in the guest have an effect.
    pub markers: bool,
}

impl Options {
    /// A machine by the name or path of its description, with Debian and without host resources.
    pub fn new(machine: impl Into<String>) -> Options {
        Options {
            machine: MachineChoice {
                machine: machine.into(),
                set: Vec::new(),
            },
            devices: Devices::default(),
            nvmm: None,
            placement: Placement::default(),
            rootfs: Rootfs::default(),
            modules: Vec::new(),
            images: image::Source::default(),
            keep_boot: true,
            engine: Engine::best(),
            rtc: None,
            markers: true,
        }
    }

    /// An error if a program cannot run on such a machine.
    pub fn suits(&self, program: &Executable) -> Result<()> {
        if matches!(self.placement, Placement::Heap | Placement::Size(_))
            && !program.has_libraries()
        {
            return Err(Error::Request(
                "--placement heap and size>N preload a library, but the program is static: use \
                --placement nvmm"
                    .into(),
            ));
        }
        if self.rootfs == Rootfs::Smallest && program.needs_files() {
            return Err(Error::Request(
                "the program needs a root file system: with --rootfs none there are no libraries \
                and no interpreters"
                    .into(),
            ));
        }
        Ok(())
    }

    /// The consequences of the placement of memory: settings, NUMA node, variables.
    fn placed(&self) -> (Vec<String>, Option<u32>, Vec<String>) {
        let node = || vec!["memory.expose=numa-node".into()];
        // Memory of a node has the page faults, and the huge pages, that memory of any heap has.
        let preload = |how: String| {
            let env = vec![
                MALLOC.into(),
                format!("NAGORI_MALLOC={how}"),
                format!("NAGORI_MALLOC_DEVICE=node:{NVMM_NODE}"),
            ];
            (node(), None, env)
        };
        match self.placement {
            Placement::Dram => Default::default(),
            Placement::Nvmm => (node(), Some(NVMM_NODE), Vec::new()),
            Placement::Heap => preload("nvmm".into()),
            Placement::Size(n) => preload(format!("size:{n}")),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::new(DEFAULT_MACHINE)
    }
}

/// Builds the options of a session.
#[derive(Clone)]
pub struct Builder<'a> {
    options: Options,
    caller: &'a dyn Caller,
}

impl<'a> Builder<'a> {
    /// Changes a value of the machine's description: `key=value`.
    pub fn set(mut self, setting: impl Into<String>) -> Self {
        self.options.machine.set.push(setting.into());
        self
    }

    /// Adds a disk.
    pub fn disk(mut self, disk: DiskSpec) -> Self {
        self.options.devices.disks.push(disk);
        self
    }

    /// Shares a folder, which the guest mounts at /mnt/TAG; programs start in the first one.
    pub fn share(mut self, share: ShareSpec) -> Self {
        self.options.devices.shares.push(share);
        self
    }

    /// Adds a network interface.
    pub fn net(mut self, net: NetSpec) -> Self {
        self.options.devices.nets.push(net);
        self
    }

    /// An image of NVMM that outlives the run.
    pub fn nvmm_image(mut self, image: NvmmSpec) -> Self {
        self.options.nvmm = Some(image);
        self
    }

    /// Where the memory of programs lies.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.options.placement = placement;
        self
    }

    /// The root file system.
    pub fn rootfs(mut self, rootfs: Rootfs) -> Self {
        self.options.rootfs = rootfs;
        self
    }

    /// Where images and boots are cached.
    pub fn cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.options.images.cache = Some(dir.into());
        self
    }

    /// The engine that runs the guest's code.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.options.engine = engine;
        self
    }

    /// Receives messages and progress, and may end the work.
    pub fn caller<'b>(self, caller: &'b dyn Caller) -> Builder<'b> {
        Builder {
            options: self.options,
            caller,
        }
    }

    /// The options so far.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Boots, or finds a cached boot. On the very first use this builds the guest's image from
    /// Debian's packages, which takes the network, some tools and minutes.
    pub fn boot(self) -> Result<Session<'a>> {
        Session::boot(self.options, self.caller)
    }
}

/// A booted machine. Every program runs on a copy of its own, which starts where the boot ended:
/// runs do not affect one another, and may happen at the same time.
pub struct Session<'a> {
    options: Options,
    caller: &'a dyn Caller,
    /// With the devices of the run.
    description: Description,
    /// Slot of the agent's console.
    console: usize,
    mounts: Vec<Mount>,
    node: Option<u32>,
    env: Vec<String>,
    plan: Plan,
    /// Key of the guest's image.
    image: String,
    /// The cached boot.
    booted: cache::Booted,
    /// The state of the image of NVMM when the machine booted.
    image_state: Option<nvmm::State>,
}

impl Session<'static> {
    /// Begins to describe a session on a machine, by the name or path of its description.
    pub fn builder(machine: impl Into<String>) -> Builder<'static> {
        Builder {
            options: Options::new(machine),
            caller: &(),
        }
    }
}

impl<'a> Session<'a> {
    /// Boots, if there is no such boot yet.
    pub fn boot(mut options: Options, caller: &'a dyn Caller) -> Result<Session<'a>> {
        let (mut settings, node, env) = options.placed();
        if !options.markers {
            settings.push("markers=false".into());
        }
        if let Some(image) = &options.nvmm {
            settings.extend(image.settings(&options.machine.set));
            // What is on NVMM when the machine boots belongs to the boot.
            options.keep_boot = false;
        }
        let mut images = options.images.options()?;
        images.add_modules(&options.modules);
        let root = match &options.rootfs {
            Rootfs::Smallest => None,
            Rootfs::Named(name) => Some(image::rootfs::find(&images, name, caller)?),
        };
        let disk = root.as_ref().map(|file| DiskSpec::rootfs(file.clone()));
        options.devices.disks.splice(0..0, disk.clone());
        // The machine's own devices stay where they are.
        let own = options.machine.resolve(&settings)?.config.devices;
        let mut list: Vec<String> = own.iter().map(ToString::to_string).collect();
        list.push(format!("console:{CONSOLE_SLOT}"));
        settings.push(format!("devices={list:?}"));
        let image = image::build(&images, caller)?;
        let description = options.devices.resolve(&options.machine, &settings)?;
        let description = rtc::of_image(description, Some(&image), root.as_deref())?;
        let image_state = match &options.nvmm {
            Some(image) => {
                image.check(&description)?;
                Some(image.state()?)
            }
            None => None,
        };
        let console = slot(&description, SlotKind::Console, CONSOLE_SLOT)?;
        let mount = |(tag, write): (String, bool)| Mount {
            path: format!("/mnt/{tag}"),
            tag,
            write,
        };
        let tags = options.devices.tags(&description)?;
        let mounts = tags.into_iter().map(mount).collect();

        let mut append = "quiet nagori.agent=1".to_string();
        if root.is_some() {
            append.push_str(&format!(" nagori.root={ROOT_DISK}"));
        }
        let software = Software {
            append: Some(append),
            ..Software::default()
        };
        let plan = software::plan(&description, &software, Some(&image))?;
        let depends: Vec<String> = root
            .as_deref()
            .map(identity)
            .transpose()?
            .into_iter()
            .collect();
        // While it boots, only the root file system is connected: other resources belong to a run.
        let at_boot = Devices {
            disks: disk.into_iter().collect(),
            ..Devices::default()
        };
        let what = cache::Boot {
            description: &description,
            plan: &plan,
            label: Some(LABEL_READY),
            depends: &depends,
            what: "Debian, up to where programs start",
            devices: &at_boot,
            nvmm: options.nvmm.as_ref(),
        };
        let kept = if options.keep_boot {
            let limit = images.boots_limit;
            match cache::boot(&cache::dir(&images.cache_dir), limit, &what, caller) {
                Err(e @ Error::Unwritable { .. }) => {
                    caller.warning(&format!("{}; this run boots for itself", e.chain()));
                    None
                }
                booted => Some(booted?),
            }
        } else {
            None
        };
        let booted = match kept {
            Some(booted) => booted,
            None => {
                // It needs no name once it is there.
                let own = tempfile::tempdir().context("cannot make a temporary directory")?;
                cache::boot(own.path(), None, &what, caller)?
            }
        };
        Ok(Session {
            options,
            caller,
            description,
            console,
            mounts,
            node,
            env,
            plan,
            image: image.manifest.key.clone(),
            booted,
            image_state,
        })
    }

    /// The machine's description, with the devices of the session.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Key of the guest's image: equal keys are equal images.
    pub fn image_key(&self) -> &str {
        &self.image
    }

    /// Whether something of a program is to be on NVMM.
    pub(crate) fn places_on_nvmm(&self) -> bool {
        self.options.placement != Placement::Dram
    }

    /// A machine whose agent waits for a program, in functional mode, with a method or its own, connected to the host.
    pub(crate) fn waiting(
        &self,
        method: Option<Method>,
    ) -> Result<(Machine, Vec<BoxedService<'a>>)> {
        let mut m: Machine = self.booted()?;
        m.set_engine(self.options.engine)?;
        if let Some(method) = method {
            m.set_method(method)?;
        }
        if let Some(clock) = self.clock() {
            m.set_rtc(clock);
        }
        if let (Some(image), Some(state)) = (&self.options.nvmm, self.image_state) {
            image.go_on(&mut m, state)?;
        }
        let services = self.options.devices.connect(&mut m, self.caller)?;
        Ok((m, services))
    }

    /// A machine whose agent waits for a job, with the interpreter, connected to nothing.
    pub(crate) fn booted(&self) -> Result<Machine> {
        self.booted.machine(&self.description)
    }

    /// What the machine boots.
    pub(crate) fn software(&self) -> &Plan {
        &self.plan
    }

    /// The options with which it was booted; disks and networks as they are connected to each machine.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Boots a machine again after a power cut.
    pub(crate) fn start_anew(&self, m: &mut Machine) -> Result<()> {
        m.set_timed(false);
        software::load(m, &self.plan, true)
    }

    pub(crate) fn caller(&self) -> &'a dyn Caller {
        self.caller
    }

    /// Slot of the agent's console.
    pub(crate) fn console(&self) -> usize {
        self.console
    }

    /// Shares, to be mounted.
    pub(crate) fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// NUMA node for the program's memory.
    pub(crate) fn node(&self) -> Option<u32> {
        self.node
    }

    /// Environment variables that implement the placement of the program's memory.
    pub(crate) fn env(&self) -> &[String] {
        &self.env
    }

    pub(crate) fn has_network(&self) -> bool {
        !self.options.devices.nets.is_empty()
    }

    /// The time of the clock when a program starts, if it differs from that of the boot.
    pub(crate) fn clock(&self) -> Option<u64> {
        self.options.rtc.map(Rtc::seconds)
    }
}

/// Number of a slot.
fn slot(d: &Description, kind: SlotKind, name: &str) -> Result<usize> {
    let slots = &d.config.devices;
    let names = slot_names(slots);
    let mut found = slots.iter().zip(&names);
    found
        .position(|(s, n)| s.kind == kind && n == name)
        .ok_or_else(|| Error::Request(format!("the machine has no {} {name}", kind.name())))
}

/// Distinguishes an image from another one at the same path.
fn identity(path: &Path) -> Result<String> {
    let tell = || format!("cannot look at {}", path.display());
    let m = path.metadata().with_context(tell)?;
    let full = path.canonicalize().with_context(tell)?;
    let changed = m.modified().with_context(tell)?;
    Ok(format!("{} {} {changed:?}", full.display(), m.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_or_refused() {
        let place = |t: &str| t.parse::<Placement>();
        assert_eq!(place("size>4096"), Ok(Placement::Size(4096)));
        assert_eq!(
            [place("nvmm"), place("heap")],
            [Ok(Placement::Nvmm), Ok(Placement::Heap)]
        );
        assert!(place("size>0").is_err() && place("ssd").is_err() && place("size>x").is_err());
    }

    #[test]
    fn what_a_program_lacks_is_told_before_the_boot() {
        let image = Executable::find("xz").unwrap();
        let mut options = Options::default();
        assert!(options.suits(&image).is_ok());
        options.placement = Placement::Heap;
        assert!(options.suits(&image).is_ok());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "#!/bin/sh\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(file.path(), mode).unwrap();
        let script = Executable::find(file.path().to_str().unwrap()).unwrap();
        assert_eq!(Rootfs::least(&script), Rootfs::default());
        options.rootfs = Rootfs::Smallest;
        let e = options.suits(&script).unwrap_err().to_string();
        assert!(e.contains("needs a root file system"), "{e}");
    }
}
