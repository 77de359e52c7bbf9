//! Crash exploration: contents of NVMM after a power cut from which a guest's software does not recover.
//!
//! A booted machine is kept in memory, and everything runs in forks of it: `setup` makes the content of NVMM at the
//! beginning; `workload` runs from there while an observer records what it does to NVMM; `recover` and `check` run,
//! once for each content that a power cut could have left, from just before their first access to NVMM. Which contents
//! those are, and in which order they are tried, is `nagori_crash`'s affair.

mod agent;
mod left;
mod record;
mod recover;
mod stack;

pub use agent::Ended;
pub use left::holds_stores;
pub use record::{Points, Stores};
pub use recover::{Checker, Recovering};

use crate::drive::{self, BoxedService, Course, Service};
use crate::end::End;
use crate::error::{Error, Interrupted, Result};
use crate::program::protocol::Placed;
use crate::session::Session;
use agent::{shell, Agent};
use nagori_config::PersistenceDomain;
use nagori_crash::{Cut, Domain, GpfChoice, History, Mode, Model, Online, Sites, Warning, LINE};
use nagori_machine::{Checkpoint, Engine, Machine};
use nagori_platform::clock::Ps;
use nagori_platform::devices::virtio::Block;
use nagori_ram::{GuestRam, PAGE};
use record::Recording;
use std::ops::Range;
use std::path::PathBuf;

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;

/// What is tested, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Shell command that makes the content of NVMM at the beginning. All of it counts as durable.
    pub setup: Option<String>,
    /// Shell command during which the power is cut.
    pub workload: String,
    /// Shell command that recovers.
    pub recover: String,
    /// Shell command that checks what was recovered.
    pub check: Option<String>,
    /// Program for python3 of the host that checks, too.
    pub checker: Option<PathBuf>,
    /// Files of the host, with their absolute paths in the guest.
    pub files: Vec<(PathBuf, String)>,
    /// Rules by which a cut leaves a content.
    pub model: Model,
    /// Where the power is cut.
    pub points: Points,
    /// Whether each recovery boots from reset.
    pub from_reset: bool,
    /// Guest time of setup and workload, in seconds.
    pub limit: f64,
    /// Guest time of a recovery with its check, in seconds; more is a hang.
    pub recovery_limit: f64,
}

/// The rules of a machine's persistence domain.
pub fn domain_of(session: &Session<'_>) -> Domain {
    let m = &session.description().config.memory;
    match m.persistence_domain {
        PersistenceDomain::None => Domain::None,
        PersistenceDomain::Adr => Domain::Adr,
        PersistenceDomain::Gpf => Domain::Gpf {
            lines: m.gpf_lines,
            choice: GpfChoice::Any,
        },
        PersistenceDomain::Eadr => Domain::Eadr,
    }
}

/// A machine before the workload.
pub struct Prepared<'s, 'a> {
    session: &'s Session<'a>,
    plan: Plan,
    files: Vec<Placed>,
    /// The booted machine, with the content of NVMM that `setup` has made.
    base: Checkpoint,
}

/// What a workload did.
pub struct Recorded {
    /// Cuts, in order.
    pub cuts: Vec<Cut>,
    /// Contents at the beginning, at each marker of an operation, and at the end.
    pub references: Vec<Cut>,
    /// Places in the code.
    pub sites: Sites,
    /// Mistakes that show without a crash.
    pub warnings: Vec<Warning>,
    /// Points at which the power could have been cut.
    pub points: u64,
    /// Steps.
    pub steps: u64,
    /// Who stored to NVMM, and how often.
    pub stores: Stores,
    /// Labels of markers, in order.
    pub labels: Vec<String>,
    /// By step: instructions of all harts that had retired before.
    pub instructions: Vec<u64>,
    /// Instructions of all harts that had retired at the end, since the machine's start.
    end: u64,
    /// Instructions of all harts in the workload.
    pub retired: u64,
    /// Standard output of the workload.
    pub output: Vec<u8>,
}

impl Recorded {
    fn of(all: Recording) -> Recorded {
        Recorded {
            cuts: all.cuts,
            references: all.references,
            sites: all.history.sites().clone(),
            warnings: all.online.finish(),
            points: all.met,
            steps: all.steps,
            stores: all.stores,
            labels: all.labels,
            instructions: all.instructions,
            end: all.retired,
            retired: 0,
            output: Vec::new(),
        }
    }
}

fn seconds(s: f64) -> Ps {
    Ps((s * 1e12) as u64)
}

/// Runs a command to its end, with the services of a machine's devices.
fn run(
    session: &Session<'_>,
    m: &mut Machine,
    agent: &mut Agent,
    more: Option<&mut dyn Service>,
) -> Result<()> {
    let caller = session.caller();
    let mut devices = session.options().devices.connect(m, caller)?;
    let mut services: Vec<BoxedService<'_>> = vec![Box::new(agent)];
    if let Some(more) = more {
        services.push(Box::new(more));
    }
    services.append(&mut devices);
    match drive::drive(m, &mut services, caller, Course::default())? {
        End::Signal(n) => Err(Interrupted(n).into()),
        _ => Ok(()),
    }
}

/// Whether something on a disk of a machine is newer than in its file.
fn disks_changed(m: &mut Machine) -> bool {
    (0..m.bus().slots()).any(|slot| {
        let changed = m.virtio(slot, |b: &mut Block, _| {
            b.disk().is_some_and(|d| d.changes().next().is_some())
        });
        changed == Some(true)
    })
}

/// Copies a range of one memory to another one of the same size.
fn copy(from: &GuestRam, to: &GuestRam, range: &Range<u64>) -> Result<()> {
    let mut buffer = vec![0; PIECE as usize];
    let mut touched = from.touched();
    touched.extend(to.touched());
    for r in touched {
        let (mut at, end) = (r.start.max(range.start), r.end.min(range.end));
        while at < end {
            let n = PIECE.min(end - at);
            let part = &mut buffer[..n as usize];
            from.read_bytes(at, part)?;
            for (i, page) in part.chunks(PAGE as usize).enumerate() {
                let there = at + i as u64 * PAGE;
                let zero = page.iter().all(|b| *b == 0);
                if !zero || !to.is_zero(there, page.len() as u64)? {
                    to.write_bytes(there, page)?;
                }
            }
            at += n;
        }
    }
    Ok(())
}

impl<'s, 'a> Prepared<'s, 'a> {
    /// Runs `setup` on a booted machine, and keeps what it leaves on NVMM.
    pub fn new(session: &'s Session<'a>, mut plan: Plan) -> Result<Self> {
        let config = &session.description().config;
        let m = &config.memory;
        let nvmm = m.nvmm_base() - m.base..m.size.0;
        if nvmm.is_empty() {
            return Err(Error::Request(
                "the machine has no NVMM: memory.nvmm_boundary is the end of its memory".into(),
            ));
        }
        let tracked = m.persistence_domain == PersistenceDomain::None && m.track_persistence;
        if plan.model.mode == Mode::AsBuilt && plan.model.domain == Domain::None && !tracked {
            return Err(Error::Request("as-built without a persistence domain needs a machine that knows what is in its \
                controller: memory.persistence_domain = \"none\" and memory.track_persistence = true".into()));
        }
        plan.model.store_buffer = left::store_buffer(config);
        if plan.model.mode == Mode::AsBuilt && holds_stores(config) {
            left::check(config, domain_of(session), &plan.model)?;
        }
        let placed = plan.files.iter();
        let files = placed.map(|(file, path)| Placed::of_host(file, path));
        let files = files.collect::<Result<Vec<_>>>()?;
        let booted: Machine = session.booted()?;
        let mut base = booted.checkpoint()?;
        drop(booted);
        let mut prepared = Prepared {
            session,
            files,
            base: base.clone(),
            plan,
        };
        if let Some(setup) = &prepared.plan.setup {
            let mut machine = base.fork()?;
            machine.set_engine(session.options().engine)?;
            let mut agent = prepared.agent(setup, prepared.plan.limit)?;
            run(session, &mut machine, &mut agent, None)?;
            succeeded("--setup", &agent)?;
            let mut next: Machine = base.fork()?;
            copy(machine.ram(), next.ram(), &nvmm)?;
            drop(machine);
            next.memory_written(m.nvmm_base(), nvmm.end - nvmm.start);
            base = next.checkpoint()?;
            prepared.base = base;
        }
        Ok(prepared)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The machine before the workload.
    pub fn base(&self) -> &Checkpoint {
        &self.base
    }

    /// First physical address of NVMM, and the first one behind it.
    fn nvmm(&self) -> Range<u64> {
        let m = &self.session.description().config.memory;
        m.nvmm_base()..m.end()
    }

    fn agent(&self, command: &str, limit: f64) -> Result<Agent> {
        let job = shell(command, &self.files, self.session.env())?;
        Ok(Agent::new(self.session.console(), job, seconds(limit)))
    }

    /// Reads lines of NVMM as they were before the workload.
    fn reader(&self) -> nagori_crash::Reader {
        let kept = self.base.memory().clone();
        let base = self.session.description().config.memory.base;
        Box::new(move |line| {
            let mut bytes = [0; LINE as usize];
            // Lines of a history are in memory.
            let _ = kept.read(line - base, &mut bytes);
            bytes
        })
    }

    /// Runs the workload, and records it.
    pub fn record(&self) -> Result<Recorded> {
        let model = &self.plan.model;
        let mut m = self.base.fork()?;
        if model.mode == Mode::AsBuilt {
            m.set_timed(true);
        }
        let history = History::new(model.clone(), self.reader());
        let began = m.instructions();
        let online = Online::new(model.clone());
        Recording::begin(&mut m, history, online, self.plan.points);
        let mut agent = self.agent(&self.plan.workload, self.plan.limit)?;
        run(self.session, &mut m, &mut agent, None)?;
        succeeded("--workload", &agent)?;
        let retired = m.instructions() - began;
        let all = Recording::end(&mut m)
            .ok_or_else(|| Error::Guest("nothing was recorded of the workload".into()))?;
        if all.retired != m.instructions() {
            let text =
                "the guest has written its counters of instructions: findings cannot be replayed";
            self.session.caller().warning(text);
        }
        let mut recorded = Recorded {
            retired,
            output: agent.out,
            ..Recorded::of(*all)
        };
        if self.asks_machine() {
            left::leave(self.session, self.again()?, &mut recorded)?;
        }
        Ok(recorded)
    }

    /// Whether only the machine itself can tell what a cut leaves.
    fn asks_machine(&self) -> bool {
        let config = &self.session.description().config;
        self.plan.model.mode == Mode::AsBuilt && holds_stores(config)
    }

    /// A machine at the beginning of the workload, as it was recorded, with its services; and the workload's command.
    /// It runs with the interpreter.
    pub fn again(&self) -> Result<(Machine, Vec<BoxedService<'a>>)> {
        let mut m = self.base.fork()?;
        m.set_engine(Engine::Interpreter)?;
        if self.plan.model.mode == Mode::AsBuilt {
            m.set_timed(true);
        }
        let agent = self.agent(&self.plan.workload, self.plan.limit)?;
        let session: &Session<'a> = self.session;
        let mut services: Vec<BoxedService<'a>> = vec![Box::new(agent)];
        services.extend(
            session
                .options()
                .devices
                .connect(&mut m, session.caller())?,
        );
        Ok((m, services))
    }
}

/// An error if a command did not end with exit code 0.
fn succeeded(what: &str, agent: &Agent) -> Result<()> {
    let how = match &agent.ended {
        Some(Ended::Code(0)) => return Ok(()),
        Some(Ended::Code(n)) => format!("ended with exit code {n}"),
        Some(Ended::Failed(e)) => format!("could not be run: {e}"),
        Some(Ended::Panic) => "made the guest's kernel panic".into(),
        Some(Ended::Hang) => "did not end within its guest time".into(),
        Some(Ended::Off) => "switched the guest off".into(),
        None => "did not end".into(),
    };
    let said = agent.said();
    Err(Error::Guest(format!("{what} {how}:\n{said}")))
}
