//! The machine in which dpkg and provisioning scripts finish a root file system: one hart, functional mode.

use crate::caller::Caller;
use crate::choice::{fill, MachineChoice};
use crate::disks::{slots_of, DiskSpec, Disks};
use crate::drive::{self, BoxedService, Console, Course, Service, Terminal, Wishes};
use crate::end::End;
use crate::error::Result;
use crate::port::Capture;
use crate::software::{self, Software};
use nagori_config::{Machine as Description, SlotKind, DEFAULT_MACHINE};
use nagori_disk::Writes;
use nagori_image::{GuestImage, Installer, Options, Work};
use nagori_machine::{Engine, Machine, Stop};
use nagori_platform::clock::Ps;
use nagori_snapshot::Header;

/// Kernel arguments: the places of the root file system and of the packages.
const ARGUMENTS: &str = "quiet nagori.root=/dev/vda nagori.input=/dev/vdb";
/// Guest time after which a script that does not end is aborted: a day.
const LIMIT: Ps = Ps(86_400_000_000_000_000);

/// A machine with a guest image.
pub struct Installing<'a> {
    image: GuestImage,
    caller: &'a dyn Caller,
}

impl<'a> Installing<'a> {
    /// With the cached guest image, or a newly built one.
    pub fn new(options: &Options, caller: &'a dyn Caller) -> Result<Self> {
        let options = Options {
            refresh: false,
            ..options.clone()
        };
        Ok(Installing {
            image: super::build(&options, caller)?,
            caller,
        })
    }

    /// The machine, with a number of disks at least.
    fn description(&self, disks: usize, more: &[String]) -> Result<Description> {
        let machine = MachineChoice {
            machine: DEFAULT_MACHINE.into(),
            set: vec!["harts=1".into()],
        };
        machine.resolve_with(more, |slots| {
            fill(slots, SlotKind::Block, disks, |k| k == SlotKind::Block);
            Ok(())
        })
    }

    fn install(&self, work: &Work<'_>, line: &mut dyn FnMut(&str)) -> Result<End> {
        let disks = [
            DiskSpec {
                file: work.root.into(),
                writes: Writes::Through,
                option: "image build",
            },
            DiskSpec {
                file: work.input.into(),
                writes: Writes::Refused,
                option: "image build",
            },
        ];
        let more = [
            format!("seed={}", work.seed),
            format!("rtc_epoch={}", work.date),
        ];
        let description = self.description(disks.len(), &more)?;
        let software = Software {
            append: Some(ARGUMENTS.into()),
            run: Some(work.script.into()),
            ..Software::default()
        };
        let plan = software::plan(&description, &software, Some(&self.image))?;
        let mut machine = Machine::new(&description)?;
        machine.set_timed(false);
        machine.set_engine(Engine::best())?;
        software::load(&mut machine, &plan, false)?;
        let slots = slots_of(&machine, SlotKind::Block);
        let connected = Disks::connect(&disks, &slots, &mut machine, self.caller)?;
        let mut port = Capture::new(line);
        let mut services: Vec<BoxedService<'_>> = vec![
            Box::new(Terminal::new(&mut port, Console::default(), None, None)),
            Box::new(Deadline),
        ];
        services.extend(connected.map(|disks| Box::new(disks) as BoxedService<'_>));
        let course = Course {
            max_instructions: None,
            timed: false,
        };
        let end = drive::drive(&mut machine, &mut services, self.caller, course);
        for s in &mut services {
            s.finish(&mut machine)?;
        }
        end
    }
}

impl Installer for Installing<'_> {
    fn identity(&self) -> Result<String, String> {
        let description = self
            .description(0, &["seed=0".into(), "rtc_epoch=0".into()])
            .map_err(|e| e.chain())?;
        let machine = Header::hash(&description);
        Ok(format!("{} {machine}", self.image.manifest.key))
    }

    fn run(&mut self, work: &Work<'_>, line: &mut dyn FnMut(&str)) -> Result<u32, String> {
        match self.install(work, line) {
            Ok(End::Off(status)) => Ok(status),
            Ok(End::Limit) => Err("it was not ready after a day of its time".into()),
            Ok(end) => Err(end.describe()),
            Err(e) => Err(e.chain()),
        }
    }
}

/// Ends a machine that would run for ever.
struct Deadline;

impl Service for Deadline {
    fn after(&mut self, machine: &mut Machine, _: Stop, wishes: &mut Wishes) -> Result<()> {
        if machine.now() > LIMIT {
            wishes.end(End::Limit);
        }
        Ok(())
    }
}
