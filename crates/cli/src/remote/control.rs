//! The control socket as a service of a run.

use super::parameters;
use nagori_hart::Privilege;
use nagori_machine::{Dram, Machine, Point, Stop};
use nagori_platform::control::{method_from_number, Fixed};
use nagori_remote::api::{
    self, Command, Dump, Dumped, HartStatus, Stands, State, Statistics, Status, Written, MAX_DUMP,
    VERSION,
};
use nagori_remote::rpc::{Request, RpcError, INVALID_PARAMS};
use nagori_remote::server::Server;
use nagori_session::drive::{Restart, Service, Wishes};
use nagori_session::power::{self, When};
use nagori_session::{devices, Caller, End};
use nagori_snapshot::Meta;
use nagori_terminal::tables;
use rustix::event::PollFd;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// A listening control socket.
pub struct Control<'a> {
    server: Server,
    state: Asked,
    caller: &'a dyn Caller,
}

/// What clients have requested.
#[derive(Debug, Default)]
struct Asked {
    paused: bool,
    quit: bool,
    restart: Option<Restart>,
    /// Whether there is software for a restart.
    software: bool,
    /// Whether something else holds the machine.
    held: bool,
    /// Whether the power is cut at the machine's point.
    cuts: bool,
}

impl<'a> Control<'a> {
    /// Listens at a path; `software` is whether the machine can restart.
    pub fn bind(
        path: &Path,
        software: bool,
        caller: &'a dyn Caller,
    ) -> anyhow::Result<Control<'a>> {
        Ok(Control {
            server: Server::bind(path)?,
            state: Asked {
                software,
                ..Asked::default()
            },
            caller,
        })
    }
}

impl Service for Control<'_> {
    fn sources<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        self.server.sources(to);
    }

    fn before(&mut self, machine: &mut Machine, wishes: &mut Wishes) -> nagori_session::Result<()> {
        let state = &mut self.state;
        state.held = wishes.hold;
        self.server.poll(|request| state.answer(machine, request));
        wishes.hold |= state.paused;
        wishes.prompt |= self.server.has_clients();
        if let Some(how) = state.restart.take() {
            wishes.restart = Some(how);
        }
        if state.quit {
            self.server.flush();
            wishes.end(End::Quit);
        }
        Ok(())
    }

    fn after(
        &mut self,
        machine: &mut Machine,
        stop: Stop,
        wishes: &mut Wishes,
    ) -> nagori_session::Result<()> {
        if stop == Stop::Reached && std::mem::take(&mut self.state.cuts) {
            power::cut(machine, Dram::Zero, self.caller)?;
            wishes.restart = Some(Restart::PowerCut);
        }
        Ok(())
    }

    fn may_wake(&self, _machine: &Machine) -> bool {
        self.server.has_clients()
    }
}

/// Asks a machine outside of any run.
pub fn ask(machine: &mut Machine, method: &str, parameters: Value) -> Result<Value, String> {
    let request = Request {
        method: method.into(),
        params: parameters,
        id: None,
    };
    let runs = [
        "pause",
        "resume",
        "reset",
        "power_cut",
        "power_cut_at",
        "quit",
    ];
    if runs.contains(&method) {
        return Err(format!("{method} is a request to a machine that runs"));
    }
    let answer = Asked::default().answer(machine, &request);
    answer.map_err(|e| e.message)
}

fn value(of: impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(of).map_err(|e| RpcError::refused(e.to_string()))
}

/// An error for a relative path, which means something else to the client than to this process.
fn absolute(method: &str, path: &str) -> Result<(), RpcError> {
    if Path::new(path).is_absolute() {
        Ok(())
    } else {
        let text = format!("{method}: the path {path} is not absolute");
        Err(RpcError::new(INVALID_PARAMS, text))
    }
}

/// Reads memory.
fn dump(machine: &Machine, d: Dump) -> Result<Dumped, RpcError> {
    let wrong = |text: String| RpcError::new(INVALID_PARAMS, format!("dump: {text}"));
    let harts = machine.config().harts;
    if d.hart.is_some_and(|h| h >= u64::from(harts)) {
        return Err(wrong(format!("there are harts 0 to {}", harts - 1)));
    }
    let most = match d.path {
        Some(_) => machine.ram().len(),
        None => MAX_DUMP,
    };
    if !(1..=most).contains(&d.length) {
        return Err(wrong(format!(
            "{} bytes: expected 1 to {most}; more than {MAX_DUMP} only with a file",
            d.length
        )));
    }
    if let Some(path) = &d.path {
        absolute("dump", path)?;
    }
    let mut bytes = vec![0; d.length as usize];
    let read = machine.peek(d.hart.map(|h| h as usize), d.address, &mut bytes) as u64;
    if read < d.length {
        let end = d.address.wrapping_add(read);
        let known = match d.hart {
            None => {
                let m = &machine.config().memory;
                format!("memory is {:#x}..{:#x}", m.base, m.end())
            }
            Some(h) => format!("hart {h} has no memory mapped there now"),
        };
        return Err(RpcError::refused(format!(
            "there is no memory at {end:#x}: {known}"
        )));
    }
    let data = match &d.path {
        None => Some(bytes.iter().map(|b| format!("{b:02x}")).collect()),
        Some(path) => {
            let written = std::fs::write(path, &bytes);
            written.map_err(|e| RpcError::refused(format!("cannot write to {path}: {e}")))?;
            None
        }
    };
    Ok(Dumped {
        address: d.address,
        length: d.length,
        path: d.path,
        data,
    })
}

impl Asked {
    fn answer(&mut self, machine: &mut Machine, request: &Request) -> Result<Value, RpcError> {
        match Command::parse(request)? {
            Command::Status => return value(self.status(machine)),
            Command::Parameters => return value(parameters::all(machine)),
            Command::Set(set) => return value(parameters::set(machine, &set.values)?),
            Command::Schema => return Ok(api::schemas()),
            Command::Statistics => {
                return value(Statistics {
                    report: tables::machine_json(machine),
                    table: tables::machine(machine),
                });
            }
            Command::Snapshot(s) => return self.snapshot(machine, s.path),
            Command::Dump(d) => return value(dump(machine, d)?),
            Command::Pause => self.paused = true,
            Command::Resume => self.paused = false,
            Command::ResetStatistics => machine.reset_stats(),
            Command::DumpStatistics(l) => machine.mark(l.label),
            Command::Reset => {
                self.has_software()?;
                self.restart = Some(Restart::Reset);
            }
            Command::PowerCut => {
                self.has_software()?;
                let cut = machine.power_cut(Dram::Zero);
                let cut = cut.map_err(|e| RpcError::refused(e.to_string()))?;
                self.restart = Some(Restart::PowerCut);
                return value(api::Lost {
                    time_ns: cut.time_ps / 1000,
                    instructions: cut.instructions,
                    lost_lines: cut.lost_lines,
                    lost_writes: cut.lost_writes,
                });
            }
            Command::PowerCutAt(p) => {
                self.has_software()?;
                let wrong = |text: String| {
                    RpcError::new(INVALID_PARAMS, format!("power_cut_at: {}: {text}", p.when))
                };
                let point = p.when.parse::<When>().map_err(wrong)?.0;
                let behind = match point {
                    Point::Instructions(n) => n <= machine.instructions(),
                    Point::Time(t) => t <= machine.now(),
                    _ => false,
                };
                if behind {
                    return Err(wrong("this is behind the machine already".into()));
                }
                if machine.point().is_some() {
                    return Err(RpcError::refused("a power cut is to come already"));
                }
                machine.set_point(Some(point));
                self.cuts = true;
            }
            Command::Quit => self.quit = true,
        }
        value(Stands {
            state: self.state(),
            time_ns: machine.now().0 / 1000,
        })
    }

    /// An error if there is no software for a restart.
    fn has_software(&self) -> Result<(), RpcError> {
        if self.software {
            Ok(())
        } else {
            Err(RpcError::refused(
                "it is not known with which firmware and kernel the machine would start anew",
            ))
        }
    }

    fn snapshot(&self, machine: &mut Machine, path: String) -> Result<Value, RpcError> {
        absolute("snapshot", &path)?;
        let mut meta = Meta::new();
        devices::note(machine, &mut meta);
        match nagori_snapshot::save_file(machine, Path::new(&path), &meta) {
            Ok(w) => value(Written {
                path,
                bytes: w.file_bytes,
            }),
            Err(e) => Err(RpcError::refused(format!("cannot save to {path}: {e}"))),
        }
    }

    fn state(&self) -> State {
        match (self.paused, self.held) {
            (true, _) => State::Paused,
            (_, true) => State::Held,
            _ => State::Running,
        }
    }

    fn status(&self, machine: &mut Machine) -> Status {
        let method = method_from_number(machine.parameter(Fixed::Method));
        let harts = (0..).map_while(|i| machine.hart(i));
        Status {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").into(),
            state: self.state(),
            time_ns: machine.now().0 / 1000,
            timed: machine.timed(),
            method: method.map_or("", |m| m.name()).into(),
            clock_hz: machine.config().clock_hz.nearest_hz(),
            instructions: machine.instructions(),
            harts: harts
                .map(|h| HartStatus {
                    hart: h.id as u64,
                    pc: h.state.pc,
                    privilege: match h.state.privilege {
                        Privilege::User => "user",
                        Privilege::Supervisor => "supervisor",
                        Privilege::Machine => "machine",
                    }
                    .into(),
                    waiting: h.state.waiting,
                    cycles: h.state.cycle,
                    instructions: h.state.instret,
                })
                .collect(),
        }
    }
}
