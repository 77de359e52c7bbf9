//! A machine as a debugger's session sees it, whatever its observer.

use super::describe::{self, Register};
use nagori_hart::Privilege;
use nagori_machine::{Machine, Watch, WatchKind};
use nagori_memtime::Method;
use nagori_platform::control::{method_from_number, Fixed};
use nagori_remote::gdb::{self, Point, Target};
use nagori_session::drive::Restart;
use nagori_terminal::tables;
use std::ops::Range;

const MONITOR_HELP: &str = "\
stats                statistics so far
stats reset          start them anew
method [NAME]        show or choose the delay method of NVMM: dram, coarse, fine, extended
timed [on|off]       show or switch the timing model
physical [on|off]    whether memory is read and written by physical addresses
translate ADDRESS    physical address of a virtual one, as the current hart sees it
reset                restart harts and devices, memory is kept
help                 this
";

/// A machine, and what a session asks of its run.
pub struct Desk<'a> {
    /// The machine.
    pub machine: &'a mut Machine,
    /// The session's requests and settings.
    pub asks: &'a mut Asks,
}

/// What a session asks of the run, and its settings.
#[derive(Debug, Default)]
pub struct Asks {
    /// The machine is to restart.
    pub restart: Option<Restart>,
    /// Memory is read and written by physical addresses.
    pub physical: bool,
}

impl Asks {
    /// The hart whose address space is meant.
    fn space(&self, hart: usize) -> Option<usize> {
        (!self.physical).then_some(hart)
    }
}

fn privilege(p: Privilege) -> &'static str {
    match p {
        Privilege::User => "user",
        Privilege::Supervisor => "supervisor",
        Privilege::Machine => "machine",
    }
}

impl Target for Desk<'_> {
    fn harts(&self) -> usize {
        self.machine.config().harts as usize
    }

    fn description(&mut self) -> String {
        describe::xml(|n| self.machine.csr(0, n).is_some())
    }

    fn width(&self, register: u32) -> Option<usize> {
        Register::numbered(register).map(Register::width)
    }

    fn register(&mut self, hart: usize, register: u32) -> Option<u64> {
        let h = self.machine.hart(hart)?;
        Some(match Register::numbered(register)? {
            Register::X(i) => h.reg(i),
            Register::F(i) => h.freg(i),
            Register::Pc => h.state.pc,
            Register::Privilege => h.state.privilege as u64,
            Register::Csr(n) => return self.machine.csr(hart, n),
        })
    }

    fn set_register(&mut self, hart: usize, register: u32, value: u64) -> bool {
        let machine = &mut *self.machine;
        let (Some(h), Some(register)) = (machine.hart_mut(hart), Register::numbered(register))
        else {
            return false;
        };
        match register {
            Register::X(i) => h.set_reg(i, value),
            Register::F(i) => h.set_freg(i, value),
            Register::Pc => machine.set_pc(hart, value),
            Register::Privilege if matches!(value, 0 | 1 | 3) => {
                machine.set_privilege(hart, Privilege::from_bits(value));
            }
            Register::Privilege => return false,
            Register::Csr(n) => return machine.set_csr(hart, n, value),
        }
        true
    }

    fn peek(&self, hart: usize, addr: u64, to: &mut [u8]) -> usize {
        self.machine.peek(self.asks.space(hart), addr, to)
    }

    fn poke(&mut self, hart: usize, addr: u64, from: &[u8]) -> usize {
        self.machine.poke(self.asks.space(hart), addr, from)
    }

    fn point(&mut self, at: Point, add: bool) -> bool {
        let machine = &mut *self.machine;
        match (at, add) {
            (Point::Break { pc }, true) => machine.add_breakpoint(pc),
            (Point::Break { pc }, false) => machine.remove_breakpoint(pc),
            (Point::Watch { kind, addr, len }, add) => {
                let kind = match kind {
                    gdb::WatchKind::Read => WatchKind::Read,
                    gdb::WatchKind::Write => WatchKind::Write,
                    gdb::WatchKind::Access => WatchKind::Access,
                };
                let watch = Watch { addr, len, kind };
                if add {
                    machine.add_watch(watch)
                } else {
                    machine.remove_watch(watch)
                }
            }
        }
    }

    fn resume(&mut self, steps: &[(usize, Range<u64>)]) {
        self.machine.clear_steps();
        for (hart, range) in steps {
            self.machine.step_hart(*hart, range.clone());
        }
    }

    fn describe(&self, hart: usize) -> String {
        let Some(h) = self.machine.hart(hart) else {
            return String::new();
        };
        let waits = if h.state.waiting { ", waits" } else { "" };
        let space = match h.effective_satp() {
            0 => String::new(),
            _ => format!(", address space {}", h.state.csr.asid()),
        };
        format!(
            "hart {hart}, {}{space}{waits}",
            privilege(h.state.privilege)
        )
    }

    fn monitor(&mut self, hart: usize, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        let switch = |on: bool| if on { "on\n" } else { "off\n" }.to_string();
        let Desk { machine, asks } = self;
        match words[..] {
            ["stats"] => tables::machine(machine),
            ["stats", "reset"] => {
                machine.reset_stats();
                "the statistics start anew\n".into()
            }
            ["method"] => {
                let m = method_from_number(machine.parameter(Fixed::Method));
                format!("{}\n", m.map_or("", Method::name))
            }
            ["method", name] => match Method::ALL.into_iter().find(|m| m.name() == name) {
                None => format!(
                    "there is no method {name}; there are {}\n",
                    Method::ALL.map(Method::name).join(", ")
                ),
                Some(m) => match machine.set_method(m) {
                    Ok(()) => format!("{name}\n"),
                    Err(e) => format!("{e}\n"),
                },
            },
            ["timed"] => switch(machine.timed()),
            ["timed", to @ ("on" | "off")] => {
                machine.set_timed(to == "on");
                switch(machine.timed())
            }
            ["physical"] => switch(asks.physical),
            ["physical", to @ ("on" | "off")] => {
                asks.physical = to == "on";
                switch(asks.physical)
            }
            ["translate", addr] => {
                let hex = addr.strip_prefix("0x").unwrap_or(addr);
                match (u64::from_str_radix(hex, 16), machine.hart(hart)) {
                    (Ok(va), Some(h)) => match machine.physical(h, va) {
                        Some(pa) => format!("{pa:#x}\n"),
                        None => format!("{va:#x} is not mapped\n"),
                    },
                    _ => format!("{addr} is no hexadecimal address\n"),
                }
            }
            ["reset"] => {
                asks.restart = Some(Restart::Reset);
                "the machine starts anew\n".into()
            }
            ["help"] | [] => MONITOR_HELP.into(),
            _ => format!("no such command; there are\n{MONITOR_HELP}"),
        }
    }
}
