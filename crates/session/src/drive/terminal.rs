//! The guest's serial console as a service, including output of programs through HTIF.

use super::htif::{self, Htif};
use super::{Service, Wishes};
use crate::caller::Caller;
use crate::end::End;
use crate::error::Result;
use crate::port::{Event, Port};
use nagori_machine::{Machine, Stop};
use nagori_platform::clock::Ps;
use nagori_platform::devices::uart::Uart;
use rustix::event::{PollFd, PollFlags};
use std::time::Duration;

/// Number of the signal for which Ctrl-C stands.
const SIGINT: u8 = 2;
/// End of input at a terminal: Ctrl-D.
const END_OF_INPUT: u8 = 4;
/// Guest time between two attempts to tell the guest that input has ended. An attempt may be lost,
/// to a program that does not read or when a shell changes the terminal's mode.
const END_INTERVAL: Ps = Ps(1_000_000_000_000);
/// Guest time without output after which a guest gets input that waits for a prompt.
const SILENCE: Ps = Ps(60_000_000_000_000);
/// Guest time without output after which a prompt counts though some hart is busy.
const PAUSE: Ps = Ps(1_000_000_000_000);
/// Bytes of the last line of output that are kept.
const TAIL: usize = 256;
/// Typed bytes that are kept for a guest that does not listen yet; further ones are left in the
/// host's buffers.
const MOST_TYPED: usize = 1 << 20;

/// Text about a machine, for the user at its console.
pub type Statistics<'a> = &'a dyn Fn(&Machine) -> String;

/// What is known of whoever uses a console.
#[derive(Debug, Clone, Copy, Default)]
pub struct Console {
    /// The words of the host-target interface.
    pub words: Option<htif::Words>,
    /// Whether piped input is passed on when the guest listens, and its end as Ctrl-D.
    pub send_end: bool,
    /// Whether piped input waits for a prompt.
    pub prompted: bool,
}

/// The serial console of a machine.
pub struct Terminal<'a> {
    port: &'a mut dyn Port,
    statistics: Option<Statistics<'a>>,
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
    /// Whether the guest has just been told something.
    told: bool,
    /// Whether input waits for a prompt.
    held: bool,
    /// The last line of output, and when there was any.
    tail: Vec<u8>,
    heard: Ps,
    caller: Option<&'a dyn Caller>,
    /// Whether the user knows that the end of input is kept back.
    withheld: bool,
}

/// What a guest that waits for input has asked for.
#[derive(Debug, PartialEq, Eq)]
enum Prompt {
    /// A user's name, or a password. What else is in the terminal is thrown away then, since getty and login clear it.
    Login,
    /// Something else.
    Other,
}

impl Prompt {
    /// The prompt that a line of output is, if it is one.
    fn of(line: &[u8]) -> Option<Prompt> {
        match line {
            _ if line.ends_with(b"login: ") || line.ends_with(b"assword: ") => Some(Prompt::Login),
            [.., b' '] => Some(Prompt::Other),
            _ => None,
        }
    }
}

impl<'a> Terminal<'a> {
    /// Connects a console to a port; `statistics` makes the text for a user who asks for
    /// statistics, `caller` receives messages for the user.
    pub fn new(
        port: &'a mut dyn Port,
        console: Console,
        statistics: Option<Statistics<'a>>,
        caller: Option<&'a dyn Caller>,
    ) -> Self {
        let htif = console.words.map(|w| Htif::new(w, caller));
        let piped = console.send_end && !port.interactive();
        Terminal {
            // A program may read input through HTIF instead of the UART.
            patient: htif.is_some() || piped,
            set_up: false,
            port,
            statistics,
            send_end: console.send_end,
            htif,
            typed: Vec::new(),
            unread: 0,
            end_sent: None,
            told: false,
            held: console.prompted && piped,
            tail: Vec::new(),
            heard: Ps(0),
            caller,
            withheld: false,
        }
    }

    /// Takes note of output.
    fn hear(&mut self, output: &[u8], now: Ps) {
        if output.is_empty() {
            return;
        }
        self.heard = now;
        let line = output.rsplit(|b| *b == b'\n').next().unwrap_or_default();
        if line.len() < output.len() {
            self.tail.clear();
        }
        self.tail.extend(line);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
    }

    /// The guest waits, until a time at the earliest, and listens: what it gets of the input that waits for a prompt.
    fn answer(&mut self, now: Ps, until: Ps) -> Vec<u8> {
        match Prompt::of(&self.tail) {
            Some(Prompt::Login) => {
                self.tail.clear();
                let end = self.typed.iter().position(|b| *b == b'\n');
                let line = end.map_or(self.typed.len(), |i| i + 1);
                self.typed.drain(..line).collect()
            }
            None if until != Ps::NEVER && now.saturating_sub(self.heard) < SILENCE => Vec::new(),
            Some(Prompt::Other) | None => {
                self.held = false;
                std::mem::take(&mut self.typed)
            }
        }
    }

    /// Whether the guest is told that input has ended. getty would end at that, and be started again for ever.
    fn tells_end(&mut self) -> bool {
        if Prompt::of(&self.tail) != Some(Prompt::Login) {
            return true;
        }
        if let (false, Some(caller)) = (self.withheld, self.caller) {
            caller.note("input has ended at a login prompt, and the guest goes on; Ctrl-C ends it");
        }
        self.withheld = true;
        false
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

impl Service for Terminal<'_> {
    fn sources<'b>(&'b self, to: &mut Vec<PollFd<'b>>) {
        if !self.is_full() {
            let fd = self.port.source();
            to.extend(fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
    }

    fn before(&mut self, machine: &mut Machine, wishes: &mut Wishes) -> Result<()> {
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
        if !self.typed.is_empty() && !wishes.hold && !self.held {
            machine.console_input(&self.typed);
            self.unread += self.typed.len();
            self.typed.clear();
        }
        Ok(())
    }

    fn after(&mut self, machine: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        let output = machine.console_output();
        self.hear(&output, machine.now());
        self.port.write(&output)?;
        if let Some(htif) = &mut self.htif {
            let open = self.port.is_open();
            if stop == Stop::Reset {
                htif.reset();
            } else if let Some(end) = htif.serve(machine, self.port, open)? {
                wishes.end(end);
            }
        }
        let now = machine.now();
        let waits = match stop {
            Stop::Idle(until) => Some(until),
            // Something else is running besides.
            Stop::Slice if now.saturating_sub(self.heard) >= PAUSE => Some(now),
            _ => None,
        };
        if let Some(until) = waits.filter(|_| self.held && !self.typed.is_empty()) {
            if unread(machine) == 0 && listens(machine) {
                let line = self.answer(now, until);
                machine.console_input(&line);
                self.told = !line.is_empty();
            }
        }
        let idle = matches!(stop, Stop::Idle(_)) && !self.told;
        if idle && self.typed.is_empty() && self.ends_input() && unread(machine) == 0 {
            let sent = self.end_sent;
            let due = sent.is_none_or(|t| now.saturating_sub(t) >= END_INTERVAL);
            if due && listens(machine) && self.tells_end() {
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

    fn may_wake(&self, machine: &Machine) -> bool {
        let comes = self.told || !self.typed.is_empty() || self.port.is_open();
        comes && listens(machine)
    }
}

/// Number of input bytes that the guest has not read.
fn unread(machine: &Machine) -> usize {
    let uart = machine.bus().get::<Uart>();
    uart.map_or(0, Uart::input_pending)
}

/// Whether the guest reacts to input.
fn listens(machine: &Machine) -> bool {
    machine
        .bus()
        .get::<Uart>()
        .is_some_and(|u| u.interrupts_on_input())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_told_from_other_output() {
        let of = |line: &str| Prompt::of(line.as_bytes());
        assert_eq!(of("nagori login: "), Some(Prompt::Login));
        assert_eq!(of("Password: "), Some(Prompt::Login));
        assert_eq!(of("\u{1b}[?2004hroot@nagori:~# "), Some(Prompt::Other));
        assert_eq!(of("[  ***  ] A start job is running (5s / 1min 30s)"), None);
        assert_eq!(of(""), None);
    }
}
