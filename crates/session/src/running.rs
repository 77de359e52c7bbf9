//! A program on a machine of its own, from its start to its end.

use crate::drive::{self, BoxedService, Course, Loops, Service};
use crate::end::End;
use crate::error::{Interrupted, Result};
use crate::nvmm::close_image;
use crate::power::{Cutter, PowerCuts};
use crate::problems::{self, Asked, AskedOfNvmm};
use crate::program::outcome::of_program;
use crate::program::ports::Ports;
use crate::program::{protocol, Captured, Loaded, Outcome, Program, Run, Streams, Timing, Why};
use crate::sampling::{self, Sampled};
use crate::session::Session;
use nagori_machine::Machine;

const SIGINT: u8 = 2;
/// Where a program without a share works.
const HOME: &str = "/root";

/// A machine whose agent waits for a program that has not started. The caller can inspect the
/// machine and add services to the run; [`Session::run`] does without that.
pub struct Running<'s, 'a> {
    session: &'s Session<'a>,
    loaded: Loaded,
    /// The machine.
    pub machine: Machine,
    /// Services that may hold the machine, such as a debugger: called before all others.
    pub holders: Vec<BoxedService<'a>>,
    /// Power cuts. The machine boots again and the program starts again, unless the run ends there.
    pub power: PowerCuts,
    /// Whether the caller's first SIGINT is sent to the program, once it runs, instead of ending
    /// the run.
    pub pass_interrupt: bool,
    devices: Vec<BoxedService<'a>>,
}

impl<'s, 'a> Running<'s, 'a> {
    pub(crate) fn new(
        session: &'s Session<'a>,
        loaded: Loaded,
        (mut machine, devices): (Machine, Vec<BoxedService<'a>>),
    ) -> Result<Self> {
        machine.set_warm_up(loaded.program.warm_up.unwrap_or(0));
        machine.set_timed_regions(loaded.program.timing == Timing::Regions);
        Ok(Running {
            session,
            loaded,
            machine,
            holders: Vec::new(),
            power: PowerCuts::default(),
            pass_interrupt: false,
            devices,
        })
    }

    /// The job for the agent.
    fn job(&self) -> Result<Vec<u8>> {
        let s = self.session;
        let mut job = self.loaded.job();
        let first = s.mounts().first().map(|m| m.path.clone());
        job.cwd = job.cwd.or(first).or(Some(HOME.into()));
        // A given variable overrides a default one.
        job.env.splice(0..0, s.env().iter().cloned());
        job.mounts = s.mounts().to_vec();
        job.network = s.has_network();
        job.node = s.node();
        job.clock = s.clock();
        job.encode()
    }

    /// Runs the program to its end, once; its output goes to `streams`.
    pub fn wait(&mut self, streams: &mut dyn Streams) -> Result<Run> {
        let caller = self.session.caller();
        let job = self.job()?;
        let program = &self.loaded.program;
        let mut messages = program.seed.map_or(Vec::new(), protocol::seed);
        messages.extend(&job);
        let stdin = &program.stdin;
        let slot = self.session.console();
        let mut ports = Ports::new(slot, messages, stdin.open()?, streams, program.limits);
        let m = &mut self.machine;
        let limit = program.max_instructions;
        let course = Course {
            max_instructions: limit.map(|n| n.saturating_add(m.steps())),
            timed: false,
        };
        if let Some(asked) = &program.sampling {
            let options = self.session.options();
            asked.begin(m, &options.devices, options.engine)?;
        }
        // Services that hold the machine come first, and devices last, as elsewhere.
        let mut cutter = Cutter::new(&self.power, caller).map(|c| c.starting_at(m));
        let mut asked = false;
        let mut loops = Loops::new(caller);
        let end = loop {
            let mut services: Vec<BoxedService<'_>> = Vec::new();
            services.extend(self.holders.iter_mut().map(borrowed));
            services.push(Box::new(&mut ports));
            services.push(Box::new(&mut loops));
            services.extend(cutter.as_mut().map(|c| Box::new(c) as BoxedService<'_>));
            services.extend(self.devices.iter_mut().map(borrowed));
            let end = drive::drive(m, &mut services, caller, course)?;
            drop(services);
            // The first Ctrl-C is sent to the program.
            let passes = self.pass_interrupt && ports.started();
            if end == End::Signal(SIGINT) && !asked && passes {
                asked = true;
                caller.forget();
                ports.signal(SIGINT.into());
                continue;
            }
            if end == End::PowerCut && cutter.as_ref().is_some_and(|c| !c.is_over()) {
                self.session.start_anew(m)?;
                ports = ports.again(job.clone(), stdin.open_again()?);
                continue;
            }
            break end;
        };
        for s in &mut self.holders {
            s.finish(m)?;
        }
        if let Some(c) = &mut cutter {
            Service::finish(c, m)?;
        }
        close_image(m)?;
        let (begun, start_cpu) = (ports.started(), ports.start_cpu());
        let (outcome, sums) = ports.finish();
        let why = match (outcome, end) {
            (Some(o), _) => Why::Outcome(o),
            (None, End::Off(code)) => Why::Off(code),
            (None, End::Limit) => Why::Instructions,
            // A program that has not started has no result.
            (None, End::Signal(n)) if !begun => return Err(Interrupted(n).into()),
            (None, End::Signal(n)) => Why::Signal(n),
            (None, End::Time) => Why::Time,
            (None, End::PowerCut) => Why::PowerCut,
            (None, _) => Why::Stuck,
        };
        let regions = program.timing == Timing::Regions;
        let sampled = sampling::end(m)?;
        let (report, regions_ended) = of_program(m, regions);
        let estimate = sampled.as_ref().filter(|s| !s.is_whole());
        let report = estimate.and_then(Sampled::report).unwrap_or(report);
        let asked = Asked {
            regions,
            warm_up: program.warm_up,
        };
        let about = AskedOfNvmm {
            timed: program.timing != Timing::Off,
            method: program.method,
            placed: self.session.places_on_nvmm(),
        };
        let mut problems = match why {
            // It never started.
            Why::Outcome(Outcome::Failed { .. }) => Vec::new(),
            _ => problems::of(m, asked),
        };
        if begun && problems.iter().all(|p| !p.meaningless) {
            problems.extend(problems::of_nvmm(m, &report, about));
        }
        problems.extend(sampled.iter().flat_map(problems::of_samples));
        let nvmm = problems::nvmm(m, &report);
        Ok(Run {
            why,
            report,
            regions: regions_ended,
            problems,
            nvmm,
            output: Captured::default(),
            sums,
            start_cpu,
            sampled: sampled.map(Box::new),
        })
    }
}

impl<'a> Session<'a> {
    /// Runs a program to its end, and keeps its output.
    pub fn run(&self, program: Program) -> Result<Run> {
        let mut captured = Captured::default();
        let run = self.start(&program.load()?)?.wait(&mut captured)?;
        Ok(Run {
            output: captured,
            ..run
        })
    }

    /// A machine whose agent waits for a program, in functional mode, connected to the host.
    pub fn start(&self, program: &Loaded) -> Result<Running<'_, 'a>> {
        self.options().suits(program.executable())?;
        let waiting = self.waiting(program.program.method)?;
        Running::new(self, program.clone(), waiting)
    }
}

fn borrowed<'b>(service: &'b mut BoxedService<'_>) -> BoxedService<'b> {
    Box::new(&mut **service)
}
