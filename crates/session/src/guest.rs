//! Runs software on a machine, with its console and host resources, to its end.

use crate::caller::Caller;
use crate::drive::{
    self, htif, BoxedService, Console, Course, Loops, Signature, SignatureFile, Terminal,
};
use crate::end::End;
use crate::error::{Context, Error, Interrupted, Result};
use crate::nvmm::{close_image, NvmmSpec};
use crate::port::Port;
use crate::power::{Cutter, PowerCuts};
use crate::snapshot::{Saving, Taker};
use crate::software;
use nagori_config::Machine as Description;
use nagori_machine::{Engine, Machine, Report};
use nagori_platform::loader::Plan;

/// Addresses on which a bare-metal program and the host have agreed by names of symbols.
#[derive(Debug, Clone, Default)]
pub struct Agreed {
    /// The words of the host-target interface.
    pub words: Option<htif::Words>,
    /// The memory that is written to a file when the program has ended.
    pub signature: Option<SignatureFile>,
}

/// A machine's software, and how it is to be run.
#[derive(Debug, Clone)]
pub struct Job {
    /// The contents of memory; empty if the machine has them already.
    pub plan: Plan,
    /// Addresses on which a bare-metal program and the host have agreed.
    pub htif: Agreed,
    /// Whether the timing model is on at the start, and again after a power cut.
    pub timed: bool,
    /// Whether piped input is passed on when the guest listens, and its end as Ctrl-D.
    pub send_end: bool,
    /// Whether piped input waits for a prompt; see [`Software::prompts`](crate::software::Software::prompts).
    pub prompted: bool,
    /// The engine that runs the guest's code.
    pub engine: Engine,
    /// Instructions of all harts that warm caches, TLBs and predictors before statistics start; 0 for none.
    pub warm_up: u64,
    /// The run ends after so many instructions of all harts together.
    pub max_instructions: Option<u64>,
    /// The image of NVMM of a machine that is built for the job.
    pub nvmm: Option<NvmmSpec>,
    /// Snapshots of the run.
    pub saving: Option<Saving>,
    /// Power cuts in the run.
    pub power: PowerCuts,
}

impl Job {
    /// Software for an unattended machine: functional mode, without limits.
    pub fn unattended(plan: Plan) -> Job {
        Job {
            plan,
            htif: Agreed::default(),
            timed: false,
            send_end: false,
            prompted: false,
            engine: Engine::best(),
            warm_up: 0,
            max_instructions: None,
            nvmm: None,
            saving: None,
            power: PowerCuts::default(),
        }
    }

    /// What the console has to know of it.
    pub fn console(&self) -> Console {
        Console {
            words: self.htif.words,
            send_end: self.send_end,
            prompted: self.prompted,
        }
    }

    /// What the loop has to know of it.
    pub fn course(&self) -> Course {
        Course {
            max_instructions: self.max_instructions,
            timed: self.timed,
        }
    }

    /// A machine with the software in its memory, which a restart loads again.
    pub fn machine(&mut self, description: &Description) -> Result<Machine> {
        let mut machine = Machine::new(description).context("the machine cannot be built")?;
        machine.set_timed(self.timed);
        machine.set_warm_up(self.warm_up);
        if let Some(image) = &self.nvmm {
            image.attach(&mut machine)?;
        }
        let plan = std::mem::take(&mut self.plan);
        let tohost = self.htif.words.as_ref().map(|w| w.tohost);
        software::install(&mut machine, plan, self.timed, tohost)?;
        Ok(machine)
    }
}

/// The services of a run, besides the console.
pub struct RunServices<'a> {
    /// Services that may hold the machine: called before the console, which then waits, too.
    pub holders: Vec<BoxedService<'a>>,
    /// Disks and networks, as [`Devices::connect`](crate::devices::Devices::connect) returns them:
    /// called last, since whether guest time may pass while waiting for the outside depends on
    /// whether another service has woken the guest.
    pub devices: Vec<BoxedService<'a>>,
}

/// Runs a machine that has been loaded or restored to its end. Afterwards all services have been
/// told of the end; their failures are returned beside the result, in order.
pub fn run<'a>(
    machine: &mut Machine,
    job: &'a Job,
    terminal: Terminal<'a>,
    others: RunServices<'a>,
    caller: &'a dyn Caller,
) -> (Result<End>, Vec<Error>) {
    let mut services = others.holders;
    services.push(Box::new(terminal));
    services.push(Box::new(Loops::new(caller)));
    if let Some(file) = &job.htif.signature {
        services.push(Box::new(Signature::new(file, caller)));
    }
    if let Some(saving) = &job.saving {
        services.push(Box::new(Taker::new(saving, caller)));
    }
    if let Some(cutter) = Cutter::new(&job.power, caller) {
        services.push(Box::new(cutter));
    }
    services.extend(others.devices);
    let end = drive::drive(machine, &mut services, caller, job.course());
    let mut failed: Vec<Error> = services
        .iter_mut()
        .filter_map(|s| s.finish(machine).err())
        .collect();
    failed.extend(close_image(machine).err());
    (end, failed)
}

/// Runs a job for its statistics, with a console of the caller's. An interruption is an error,
/// since there is no result.
pub fn measure(
    description: &Description,
    job: &Job,
    port: &mut dyn Port,
    caller: &dyn Caller,
) -> Result<(End, Report)> {
    let mut machine = Machine::new(description).context("the machine cannot be built")?;
    machine.set_timed(job.timed);
    machine.set_warm_up(job.warm_up);
    machine.set_engine(job.engine)?;
    software::load(&mut machine, &job.plan, false)?;
    let mut services: [BoxedService<'_>; 1] =
        [Box::new(Terminal::new(port, job.console(), None, None))];
    let end = drive::drive(&mut machine, &mut services, caller, job.course())?;
    drop(services);
    if let End::Signal(n) = end {
        return Err(Interrupted(n).into());
    }
    Ok((end, machine.report()))
}
