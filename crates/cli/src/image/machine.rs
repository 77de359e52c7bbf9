//! The machine in which dpkg and provisioning scripts finish a root file system: one hart, functional mode.

use crate::args::{MachineArgs, RunArgs};
use crate::bench::capture::Capture;
use crate::boot::{self, Software};
use crate::devices::{DeviceArgs, DiskArg};
use crate::drive::{self, BoxedService, Service, Terminal, Wishes};
use crate::guest::{self, End, Job};
use crate::output::Messages;
use nagori_disk::Writes;
use nagori_image::{GuestImage, Installer, Options, Work};
use nagori_platform::clock::Ps;
use nagori_platform::config::{Machine as Description, DEFAULT_MACHINE};
use nagori_platform::machine::{Engine, Machine, Quiet, Stop};
use nagori_platform::snapshot::Header;

/// Kernel arguments: where the root file system and the packages are.
const ARGUMENTS: &str = "quiet nagori.root=/dev/vda nagori.input=/dev/vdb";
/// Guest time after which a script that does not end is given up: a day.
const LIMIT: Ps = Ps(86_400_000_000_000_000);

/// A machine with a guest image.
pub struct Installing<'a> {
    image: GuestImage,
    messages: &'a Messages,
}

impl<'a> Installing<'a> {
    /// With the cached guest image, or a new one.
    pub fn new(options: &Options, messages: &'a Messages) -> anyhow::Result<Self> {
        let options = Options {
            refresh: false,
            ..options.clone()
        };
        Ok(Installing {
            image: super::build(&options, messages)?,
            messages,
        })
    }

    fn description(&self, devices: &DeviceArgs, more: &[String]) -> anyhow::Result<Description> {
        let machine = MachineArgs {
            machine: DEFAULT_MACHINE.into(),
            set: vec!["harts=1".into()],
        };
        devices.resolve(&machine, more)
    }

    fn install(&self, work: &Work<'_>, line: &mut dyn FnMut(&str)) -> anyhow::Result<End> {
        let devices = DeviceArgs {
            disk: vec![
                DiskArg {
                    file: work.root.into(),
                    writes: Writes::Through,
                    option: "image build",
                },
                DiskArg {
                    file: work.input.into(),
                    writes: Writes::Refused,
                    option: "image build",
                },
            ],
            ..DeviceArgs::default()
        };
        let more = [
            format!("seed={}", work.seed),
            format!("rtc_epoch={}", work.date),
        ];
        let description = self.description(&devices, &more)?;
        let software = Software {
            append: Some(ARGUMENTS.into()),
            run: Some(work.script.into()),
            ..Software::default()
        };
        let args = RunArgs::default();
        let job = Job::unattended(
            boot::plan(&description, &software, Some(&self.image))?,
            &args,
        );
        let mut machine = Machine::new(&description, Quiet)?;
        machine.set_timed(false);
        machine.set_engine(Engine::best())?;
        guest::load(&mut machine, &job.plan, false)?;
        let connected = devices.connect(&mut machine, self.messages)?;
        let mut port = Capture::new(line);
        let mut services: Vec<BoxedService<'_, Quiet>> = vec![
            Box::new(Terminal::new(&mut port, &job, None, None)),
            Box::new(Deadline),
        ];
        services.extend(connected);
        let end = drive::drive(&mut machine, &mut services, self.messages.signals(), &job);
        for s in &mut services {
            s.finish(&mut machine)?;
        }
        end
    }
}

impl Installer for Installing<'_> {
    fn identity(&self) -> Result<String, String> {
        let description = self
            .description(
                &DeviceArgs::default(),
                &["seed=0".into(), "rtc_epoch=0".into()],
            )
            .map_err(|e| format!("{e:#}"))?;
        let machine = Header::hash(&description);
        Ok(format!("{} {machine}", self.image.manifest.key))
    }

    fn run(&mut self, work: &Work<'_>, line: &mut dyn FnMut(&str)) -> Result<u32, String> {
        match self.install(work, line) {
            Ok(End::Off(status)) => Ok(status),
            Ok(End::Limit) => Err("it was not ready after a day of its time".into()),
            Ok(end) => Err(end.describe()),
            Err(e) => Err(format!("{e:#}")),
        }
    }
}

/// Ends a machine that goes on for ever.
struct Deadline;

impl Service<Quiet> for Deadline {
    fn after(&mut self, machine: &mut Machine, _: Stop, wishes: &mut Wishes) -> anyhow::Result<()> {
        if machine.now() > LIMIT {
            wishes.end(End::Limit);
        }
        Ok(())
    }
}
