//! The guest's serial console as a service, including output of programs through HTIF.

use super::htif::{self, Htif};
use super::{Service, Wishes};
use crate::caller::Caller;
use crate::end::End;
use crate::error::Result;
use crate::guest::Job;
use crate::port::{Event, Port};
use nagori_hart::world::Observer;
use nagori_platform::clock::Ps;
use nagori_platform::devices::uart::Uart;
use nagori_platform::machine::{Machine, Stop};
use rustix::event::{PollFd, PollFlags};
use std::time::Duration;

/// Number of the signal for which Ctrl-C stands.
const SIGINT: u8 = 2;
/// End of input at a terminal: Ctrl-D.
const END_OF_INPUT: u8 = 4;
/// Guest time between two attempts to tell the guest that input has ended. An attempt may be lost,
/// to a program that does not read or when a shell changes the terminal's mode.
const END_INTERVAL: Ps = Ps(1_000_000_000_000);
/// Typed bytes that are kept for a guest that does not listen yet; further ones are left in the
/// host's buffers.
const MOST_TYPED: usize = 1 << 20;

/// Text about a machine, for the user at its console.
pub type Statistics<'a, O> = &'a dyn Fn(&Machine<O>) -> String;

/// The serial console of a machine.
pub struct Terminal<'a, O: Observer> {
    port: &'a mut dyn Port,
    statistics: Option<Statistics<'a, O>>,
    send_end: bool,
    htif: Option<Htif<'a>>,
    /// Input is available before the guest reads it; it is not typed.
    patient: bool,
    /// Whether the UART has been told so.
    set_up: bool,
    typed: Vec<u8>,
    /// Number of bytes that the UART has and the guest has not read.
    unread: usize,
    end_sent: Option<Ps>,
    /// Whether the guest has just been told of the end.
    told: bool,
}

impl<'a, O: Observer> Terminal<'a, O> {
    /// Connects a job's console to a port; `statistics` makes the text for a user who asks for
    /// statistics, `caller` receives messages for the user.
    pub fn new(
        port: &'a mut dyn Port,
        job: &Job,
        statistics: Option<Statistics<'a, O>>,
        caller: Option<&'a dyn Caller>,
    ) -> Self {
        let htif = job.htif.words.map(|w| Htif::new(w, caller));
        Terminal {
            // A program may read input through HTIF instead of the UART.
            patient: htif.is_some() || job.send_end && !port.interactive(),
            set_up: false,
            port,
            statistics,
            send_end: job.send_end,
            htif,
            typed: Vec::new(),
            unread: 0,
            end_sent: None,
            told: false,
        }
    }

    /// Whether the guest is to be told that there is no more input.
    fn ends_input(&self) -> bool {
        self.send_end && !self.port.interactive() && !self.port.is_open()
    }

    /// Whether no more input is read from the host for now.
    fn is_full(&self) -> bool {
        self.typed.len() + self.unread >= MOST_TYPED
    }
}

impl<O: Observer> Service<O> for Terminal<'_, O> {
    fn sources<'b>(&'b self, to: &mut Vec<PollFd<'b>>) {
        if !self.is_full() {
            let fd = self.port.source();
            to.extend(fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
    }

    fn before(&mut self, machine: &mut Machine<O>, wishes: &mut Wishes) -> Result<()> {
        self.told = false;
        if !std::mem::replace(&mut self.set_up, true) {
            machine.set_console_patient(self.patient);
        }
        self.unread = unread(machine);
        // Everything available: the content of a file arrives at the same time in every run.
        while !self.is_full() {
            let events = self.port.events()?;
            if events.is_empty() {
                break;
            }
            for event in events {
                match event {
                    Event::Bytes(bytes) => self.typed.extend(bytes),
                    Event::Quit => wishes.end(End::Quit),
                    Event::Interrupt => wishes.end(End::Signal(SIGINT)),
                    Event::Help => self.port.help(),
                    Event::Stats => {
                        if let Some(statistics) = self.statistics {
                            self.port.message(&statistics(machine));
                        }
                    }
                }
            }
        }
        let interactive = self.port.interactive();
        wishes.prompt |= interactive;
        wishes.paced |= interactive;
        if self.htif.is_some() {
            wishes.slice_of(htif::SLICE);
        }
        if !self.typed.is_empty() && !wishes.hold {
            machine.console_input(&self.typed);
            self.unread += self.typed.len();
            self.typed.clear();
        }
        Ok(())
    }

    fn after(&mut self, machine: &mut Machine<O>, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        self.port.write(&machine.console_output())?;
        if let Some(htif) = &mut self.htif {
            let open = self.port.is_open();
            if stop == Stop::Reset {
                htif.reset();
            } else if let Some(end) = htif.serve(machine, self.port, open)? {
                wishes.end(end);
            }
        }
        let idle = matches!(stop, Stop::Idle(_));
        if idle && self.typed.is_empty() && self.ends_input() && unread(machine) == 0 {
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

/// Number of input bytes that the guest has not read.
fn unread<O: Observer>(machine: &Machine<O>) -> usize {
    let uart = machine.bus().get::<Uart>();
    uart.map_or(0, Uart::input_pending)
}

/// Whether the guest reacts to input.
fn listens<O: Observer>(machine: &Machine<O>) -> bool {
    machine
        .bus()
        .get::<Uart>()
        .is_some_and(|u| u.interrupts_on_input())
}
