//! A machine as a debugger's session sees it, whatever its observer.

use crate::tables;
use gdbstub_arch::riscv::reg::id::RiscvRegId;
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use nagori_hart::world::Observer;
use nagori_hart::Privilege;
use nagori_memtime::Method;
use nagori_platform::control::{method_from_number, Fixed};
use nagori_platform::machine::{Machine, Watch};
use nagori_session::drive::Restart;
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

/// What a session can do with a machine.
pub trait Debugged {
    /// Number of harts.
    fn harts(&self) -> usize;
    /// Integer registers and pc.
    fn registers(&self, hart: usize) -> RiscvCoreRegs<u64>;
    /// Sets integer registers and pc.
    fn set_registers(&mut self, hart: usize, r: &RiscvCoreRegs<u64>);
    /// Any register.
    fn register(&mut self, hart: usize, id: RiscvRegId<u64>) -> Option<u64>;
    /// Sets any register; returns whether that is possible.
    fn set_register(&mut self, hart: usize, id: RiscvRegId<u64>, value: u64) -> bool;
    /// Reads memory as a hart sees it, or, without a hart, by physical addresses.
    fn peek(&self, hart: Option<usize>, addr: u64, to: &mut [u8]) -> usize;
    /// Writes memory; the number of bytes that could be written.
    fn poke(&mut self, hart: Option<usize>, addr: u64, from: &[u8]) -> usize;
    /// Adds or removes a breakpoint.
    fn breakpoint(&mut self, pc: u64, add: bool) -> bool;
    /// Adds or removes a watchpoint.
    fn watch(&mut self, w: Watch, add: bool) -> bool;
    /// Makes these harts step, and no others.
    fn steps(&mut self, steps: &[(usize, Range<u64>)]);
    /// A short description of a hart.
    fn describe(&self, hart: usize) -> String;
    /// Executes a `monitor` command; `physical` is the session's setting.
    fn monitor(&mut self, hart: usize, command: &str, physical: &mut bool) -> Monitored;
}

/// The result of a `monitor` command.
#[derive(Debug, Default)]
pub struct Monitored {
    /// For the user.
    pub text: String,
    /// Whether the machine is to restart.
    pub restart: Option<Restart>,
}

impl From<String> for Monitored {
    fn from(text: String) -> Self {
        Monitored {
            text,
            restart: None,
        }
    }
}

fn privilege(p: Privilege) -> &'static str {
    match p {
        Privilege::User => "user",
        Privilege::Supervisor => "supervisor",
        Privilege::Machine => "machine",
    }
}

impl<O: Observer> Debugged for Machine<O> {
    fn harts(&self) -> usize {
        self.config().harts as usize
    }

    fn registers(&self, hart: usize) -> RiscvCoreRegs<u64> {
        let mut r = RiscvCoreRegs::default();
        if let Some(h) = self.hart(hart) {
            r.x = std::array::from_fn(|i| h.reg(i));
            r.pc = h.pc;
        }
        r
    }

    fn set_registers(&mut self, hart: usize, r: &RiscvCoreRegs<u64>) {
        self.set_pc(hart, r.pc);
        if let Some(h) = self.hart_mut(hart) {
            for (i, v) in r.x.iter().enumerate() {
                h.set_reg(i, *v);
            }
        }
    }

    fn register(&mut self, hart: usize, id: RiscvRegId<u64>) -> Option<u64> {
        let h = self.hart(hart)?;
        match id {
            RiscvRegId::Gpr(i) => Some(h.reg(i.into())),
            RiscvRegId::Fpr(i) => Some(h.freg(i.into())),
            RiscvRegId::Pc => Some(h.pc),
            RiscvRegId::Priv => Some(h.privilege as u64),
            RiscvRegId::Csr(n) => self.csr(hart, n),
            _ => None,
        }
    }

    fn set_register(&mut self, hart: usize, id: RiscvRegId<u64>, value: u64) -> bool {
        let Some(h) = self.hart_mut(hart) else {
            return false;
        };
        match id {
            RiscvRegId::Gpr(i) => h.set_reg(i.into(), value),
            RiscvRegId::Fpr(i) => h.set_freg(i.into(), value),
            RiscvRegId::Pc => self.set_pc(hart, value),
            RiscvRegId::Priv if matches!(value, 0 | 1 | 3) => {
                self.set_privilege(hart, Privilege::from_bits(value));
            }
            RiscvRegId::Csr(n) => return self.set_csr(hart, n, value),
            _ => return false,
        }
        true
    }

    fn peek(&self, hart: Option<usize>, addr: u64, to: &mut [u8]) -> usize {
        Machine::peek(self, hart, addr, to)
    }

    fn poke(&mut self, hart: Option<usize>, addr: u64, from: &[u8]) -> usize {
        Machine::poke(self, hart, addr, from)
    }

    fn breakpoint(&mut self, pc: u64, add: bool) -> bool {
        match add {
            true => self.add_breakpoint(pc),
            false => self.remove_breakpoint(pc),
        }
    }

    fn watch(&mut self, w: Watch, add: bool) -> bool {
        match add {
            true => self.add_watch(w),
            false => self.remove_watch(w),
        }
    }

    fn steps(&mut self, steps: &[(usize, Range<u64>)]) {
        self.clear_steps();
        for (hart, range) in steps {
            self.step_hart(*hart, range.clone());
        }
    }

    fn describe(&self, hart: usize) -> String {
        let Some(h) = self.hart(hart) else {
            return String::new();
        };
        let waits = if h.waiting { ", waits" } else { "" };
        let space = match h.effective_satp() {
            0 => String::new(),
            _ => format!(", address space {}", h.csr.asid()),
        };
        format!("hart {hart}, {}{space}{waits}", privilege(h.privilege))
    }

    fn monitor(&mut self, hart: usize, command: &str, physical: &mut bool) -> Monitored {
        let words: Vec<&str> = command.split_whitespace().collect();
        let switch = |on: bool| if on { "on\n" } else { "off\n" }.to_string();
        let text = match words[..] {
            ["stats"] => tables::machine(self),
            ["stats", "reset"] => {
                self.reset_stats();
                "the statistics start anew\n".into()
            }
            ["method"] => {
                let m = method_from_number(self.parameter(Fixed::Method));
                format!("{}\n", m.map_or("", Method::name))
            }
            ["method", name] => match Method::ALL.into_iter().find(|m| m.name() == name) {
                None => format!(
                    "there is no method {name}; there are {}\n",
                    Method::ALL.map(Method::name).join(", ")
                ),
                Some(m) => match self.set_method(m) {
                    Ok(()) => format!("{name}\n"),
                    Err(e) => format!("{e}\n"),
                },
            },
            ["timed"] => switch(self.timed()),
            ["timed", to @ ("on" | "off")] => {
                self.set_timed(to == "on");
                switch(self.timed())
            }
            ["physical"] => switch(*physical),
            ["physical", to @ ("on" | "off")] => {
                *physical = to == "on";
                switch(*physical)
            }
            ["translate", addr] => {
                let hex = addr.strip_prefix("0x").unwrap_or(addr);
                match (u64::from_str_radix(hex, 16), self.hart(hart)) {
                    (Ok(va), Some(h)) => match self.physical(h, va) {
                        Some(pa) => format!("{pa:#x}\n"),
                        None => format!("{va:#x} is not mapped\n"),
                    },
                    _ => format!("{addr} is no hexadecimal address\n"),
                }
            }
            ["reset"] => {
                return Monitored {
                    text: "the machine starts anew\n".into(),
                    restart: Some(Restart::Reset),
                }
            }
            ["help"] | [] => MONITOR_HELP.into(),
            _ => format!("no such command; there are\n{MONITOR_HELP}"),
        };
        text.into()
    }
}
