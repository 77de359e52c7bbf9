//! The control socket as a service of a run.

use super::parameters;
use crate::drive::{Restart, Service, Wishes};
use crate::guest::End;
use crate::tables;
use nagori_hart::world::Observer;
use nagori_hart::Privilege;
use nagori_platform::control::{method_from_number, Fixed};
use nagori_platform::machine::{Dram, Machine};
use nagori_platform::snapshot::Meta;
use nagori_remote::api::{
    self, Command, HartStatus, Stands, State, Statistics, Status, Written, VERSION,
};
use nagori_remote::rpc::{Request, RpcError, INVALID_PARAMS};
use nagori_remote::server::Server;
use rustix::event::PollFd;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// A listening control socket.
pub struct Control {
    server: Server,
    state: Asked,
}

/// What clients have asked for.
#[derive(Debug, Default)]
struct Asked {
    paused: bool,
    quit: bool,
    restart: Option<Restart>,
    /// There is software to start anew with.
    software: bool,
    /// Whether something else holds the machine.
    held: bool,
}

impl Control {
    /// Listens at a path; `software` is whether the machine can start anew.
    pub fn bind(path: &Path, software: bool) -> anyhow::Result<Control> {
        Ok(Control {
            server: Server::bind(path)?,
            state: Asked {
                software,
                ..Asked::default()
            },
        })
    }
}

impl<O: Observer> Service<O> for Control {
    fn sources<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        self.server.sources(to);
    }

    fn before(&mut self, machine: &mut Machine<O>, wishes: &mut Wishes) -> anyhow::Result<()> {
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

    fn may_wake(&self, _machine: &Machine<O>) -> bool {
        self.server.has_clients()
    }
}

fn value(of: impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(of).map_err(|e| RpcError::refused(e.to_string()))
}

impl Asked {
    fn answer<O: Observer>(
        &mut self,
        machine: &mut Machine<O>,
        request: &Request,
    ) -> Result<Value, RpcError> {
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
                cut.map_err(|e| RpcError::refused(e.to_string()))?;
                self.restart = Some(Restart::Reset);
            }
            Command::Quit => self.quit = true,
        }
        value(Stands {
            state: self.state(),
            time_ns: machine.now().0 / 1000,
        })
    }

    /// An error if there is nothing to start anew with.
    fn has_software(&self) -> Result<(), RpcError> {
        match self.software {
            true => Ok(()),
            false => Err(RpcError::refused(
                "firmware and kernel are not in a snapshot, so the machine cannot start anew",
            )),
        }
    }

    fn snapshot<O: Observer>(&self, machine: &Machine<O>, path: String) -> Result<Value, RpcError> {
        // The client may stand elsewhere than this process.
        if !Path::new(&path).is_absolute() {
            let text = format!("snapshot: the path {path} is not absolute");
            return Err(RpcError::new(INVALID_PARAMS, text));
        }
        match machine.save_file(Path::new(&path), &Meta::new()) {
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

    fn status<O: Observer>(&self, machine: &mut Machine<O>) -> Status {
        let method = method_from_number(machine.parameter(Fixed::Method));
        let harts = (0..).map_while(|i| machine.hart(i));
        Status {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").into(),
            state: self.state(),
            time_ns: machine.now().0 / 1000,
            timed: machine.timed(),
            method: method.map_or("", |m| m.name()).into(),
            clock_hz: machine.config().clock_hz,
            instructions: machine.instructions(),
            harts: harts
                .map(|h| HartStatus {
                    hart: h.id as u64,
                    pc: h.pc,
                    privilege: match h.privilege {
                        Privilege::User => "user",
                        Privilege::Supervisor => "supervisor",
                        Privilege::Machine => "machine",
                    }
                    .into(),
                    waiting: h.waiting,
                    cycles: h.cycle,
                    instructions: h.instret,
                })
                .collect(),
        }
    }
}
