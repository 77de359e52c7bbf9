//! The guest's serial console as a service, with what programs say through HTIF.

use super::{Service, Wishes};
use crate::console::{Event, Port};
use crate::guest::{End, Job};
use crate::host::Host;
use crate::tables;
use anyhow::bail;
use nagori_hart::world::Observer;
use nagori_platform::clock::Ps;
use nagori_platform::devices::uart::Uart;
use nagori_platform::machine::{Machine, Stop};
use rustix::event::{PollFd, PollFlags};
use std::time::Duration;

/// Slices of programs whose end only shows in memory, in core cycles.
const HTIF_SLICE: u64 = 20_000;
/// End of input at a terminal: Ctrl-D.
const END_OF_INPUT: u8 = 4;
/// Guest time between attempts to tell the guest that input has ended. One may be lost, to a
/// program that does not read or when a shell changes the terminal's mode.
const END_INTERVAL: Ps = Ps(1_000_000_000_000);
/// Typed bytes that are kept for a guest that does not listen yet; more stay with the host.
const MOST_TYPED: usize = 1 << 20;

/// The serial console of a machine.
pub struct Terminal<'a> {
    port: &'a mut dyn Port,
    host: Option<&'a Host>,
    send_end: bool,
    tohost: Option<u64>,
    typed: Vec<u8>,
    end_sent: Option<Ps>,
    /// The guest was just told of the end.
    told: bool,
}

impl<'a> Terminal<'a> {
    /// Joins a job's console to a port; `host` is what Ctrl-A s shows of the host.
    pub fn new(port: &'a mut dyn Port, job: &Job, host: Option<&'a Host>) -> Self {
        Terminal {
            port,
            host,
            send_end: job.console.send_end,
            tohost: job.tohost,
            typed: Vec::new(),
            end_sent: None,
            told: false,
        }
    }

    /// Whether the guest is to be told that there is no more input.
    fn ends_input(&self) -> bool {
        self.send_end && !self.port.interactive() && !self.port.is_open()
    }

    /// Does what the program asks for through its `tohost` word.
    fn htif<O: Observer>(&mut self, machine: &mut Machine<O>) -> anyhow::Result<Option<End>> {
        /// Device and command of a character to the console, in the upper 16 bits.
        const PUT: u64 = 0x0101;
        let Some(addr) = self.tohost else {
            return Ok(None);
        };
        let offset = addr - machine.config().memory.base;
        let word = machine.ram().read_u64(offset).unwrap_or(0);
        match (word, word >> 48) {
            (0, _) => Ok(None),
            (_, 0) if word & 1 == 1 => {
                let code = word >> 1;
                Ok(Some(End::Off(u32::try_from(code).unwrap_or(u32::MAX))))
            }
            (_, PUT) => {
                self.port.write(&[word as u8])?;
                machine.ram().write_u64(offset, 0);
                machine.memory_written(addr, 8);
                Ok(None)
            }
            _ => bail!(
                "the program wrote {word:#x} to tohost ({addr:#x}): only the end (code << 1 | 1) and characters for the console (0x0101 in the upper bits) are supported, no system calls"
            ),
        }
    }
}

impl<O: Observer> Service<O> for Terminal<'_> {
    fn sources<'b>(&'b self, to: &mut Vec<PollFd<'b>>) {
        if self.typed.len() < MOST_TYPED {
            let fd = self.port.source();
            to.extend(fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
    }

    fn before(&mut self, machine: &mut Machine<O>, wishes: &mut Wishes) -> anyhow::Result<()> {
        self.told = false;
        let events = match self.typed.len() < MOST_TYPED {
            true => self.port.events()?,
            false => Vec::new(),
        };
        for event in events {
            match event {
                Event::Bytes(bytes) => self.typed.extend(bytes),
                Event::Quit => wishes.end(End::Quit),
                Event::Help => self.port.help(),
                Event::Stats => {
                    let mut text = tables::machine(machine);
                    text.extend(self.host.map(|h| h.table(machine)));
                    self.port.message(&text);
                }
            }
        }
        let interactive = self.port.interactive();
        wishes.prompt |= interactive;
        wishes.paced |= interactive;
        if self.tohost.is_some() {
            wishes.slice_of(HTIF_SLICE);
        }
        // Piped input is there long before the guest's driver, whose start empties the FIFO.
        let now = !self.send_end || interactive || listens(machine);
        if !self.typed.is_empty() && now && !wishes.hold {
            machine.console_input(&self.typed);
            self.typed.clear();
        }
        Ok(())
    }

    fn after(
        &mut self,
        machine: &mut Machine<O>,
        stop: Stop,
        wishes: &mut Wishes,
    ) -> anyhow::Result<()> {
        self.port.write(&machine.console_output())?;
        if let Some(end) = self.htif(machine)? {
            wishes.end(end);
        }
        let idle = matches!(stop, Stop::Idle(_));
        if idle && self.typed.is_empty() && self.ends_input() {
            let now = machine.now();
            let sent = self.end_sent;
            let due = sent.is_none_or(|t| now.saturating_sub(t) >= END_INTERVAL);
            if due && listens(machine) {
                machine.console_input(&[END_OF_INPUT]);
                self.end_sent = Some(now);
                self.told = true;
            }
        }
        if self.told || !self.typed.is_empty() {
            wishes.wake_within(Duration::ZERO);
        }
        Ok(())
    }

    fn may_wake(&self, machine: &Machine<O>) -> bool {
        let comes = self.told || !self.typed.is_empty() || self.port.is_open();
        comes && listens(machine)
    }
}

/// Whether the guest reacts to input.
fn listens<O: Observer>(machine: &Machine<O>) -> bool {
    machine
        .bus()
        .get::<Uart>()
        .is_some_and(|u| u.interrupts_on_input())
}
