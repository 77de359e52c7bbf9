//! The host-target interface (HTIF): two words of memory through which bare-metal programs, as
//! RISC-V's own tests and benchmarks, talk to the host.
//!
//! The program writes a request to `tohost`; the host sets that to 0 and, where an answer belongs
//! to the request, writes it to `fromhost` as soon as that is 0. Bits 63 to 56 are the device,
//! 55 to 48 the command, the rest is the payload.

use crate::caller::Caller;
use crate::end::End;
use crate::error::{Error, Result};
use crate::port::Port;
use nagori_machine::Machine;
use std::collections::{BTreeSet, VecDeque};

/// Core cycles between two reads of the words.
pub const SLICE: u64 = 5_000;
/// Devices: the first ends the program and carries out its system calls.
const SYSCALL: u8 = 0;
const CONSOLE: u8 = 1;
/// Commands of the console.
const GET: u8 = 0;
const PUT: u8 = 1;
/// Command of every device: write a name to memory.
const IDENTIFY: u8 = 0xff;
/// In a request for a name: the name of the device is requested, not that of a command.
const DEVICE_NAME: u8 = 0xff;
/// Bytes of a name.
const NAME: usize = 64;
/// In the answer to a request for a character: there is one.
const HAS_CHARACTER: u64 = 0x100;
/// The payload's bits.
const PAYLOAD: u64 = (1 << 48) - 1;
/// Greatest number of bytes that one system call moves.
const MOST: u64 = 1 << 20;

/// System calls: their numbers are Linux's.
mod call {
    pub const READ: u64 = 63;
    pub const WRITE: u64 = 64;
    pub const EXIT: u64 = 93;
}
/// Results of failed system calls.
mod errno {
    pub const EBADF: i64 = -9;
    pub const EFAULT: i64 = -14;
    pub const ENOSYS: i64 = -38;
}

/// Addresses of a program's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// The word for requests.
    pub tohost: u64,
    /// The word for answers; a program without it gets none.
    pub fromhost: Option<u64>,
}

/// A request that waits for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// For a character.
    Character,
    /// For up to `len` bytes at `buffer`; the result goes to the block at `block`.
    Read { block: u64, buffer: u64, len: u64 },
}

/// The host's side.
pub struct Htif<'a> {
    words: Words,
    answers: VecDeque<u64>,
    waits: Option<Wait>,
    refused: BTreeSet<u64>,
    caller: Option<&'a dyn Caller>,
}

impl<'a> Htif<'a> {
    /// For a program; `caller` receives messages for the user.
    pub fn new(words: Words, caller: Option<&'a dyn Caller>) -> Htif<'a> {
        Htif {
            words,
            answers: VecDeque::new(),
            waits: None,
            refused: BTreeSet::new(),
            caller,
        }
    }

    /// The program restarts.
    pub fn reset(&mut self) {
        self.answers.clear();
        self.waits = None;
    }

    /// Carries out the program's request; `open` is whether input can still arrive.
    pub fn serve(
        &mut self,
        machine: &mut Machine,
        port: &mut dyn Port,
        open: bool,
    ) -> Result<Option<End>> {
        self.feed(machine, open);
        let word = word(machine, self.words.tohost);
        if word != 0 {
            let (device, command) = ((word >> 56) as u8, (word >> 48) as u8);
            let payload = word & PAYLOAD;
            if device == SYSCALL && command == 0 && payload & 1 == 1 {
                let code = payload >> 1;
                return Ok(Some(End::Off(u32::try_from(code).unwrap_or(u32::MAX))));
            }
            put_word(machine, self.words.tohost, 0);
            match (device, command) {
                (SYSCALL, 0) => {
                    if let Some(end) = self.call(machine, port, payload)? {
                        return Ok(Some(end));
                    }
                }
                (CONSOLE, PUT) => port.write(&[payload as u8])?,
                (CONSOLE, GET) => self.waits = Some(Wait::Character),
                (_, IDENTIFY) => {
                    let name = name(device, payload as u8);
                    let mut bytes = [0; NAME];
                    bytes[..name.len()].copy_from_slice(name.as_bytes());
                    if !store(machine, payload >> 8, &bytes) {
                        return Err(Error::Guest(format!("the program wants the name of a device at {:#x}, where there \
                            is no memory", payload >> 8)));
                    }
                    self.answers.push_back(word & !PAYLOAD | 1);
                }
                _ => return Err(Error::Guest(format!(
                    "the program wrote {word:#x} to tohost ({:#x}): there is no command {command} of device {device}; \
                        known are the end (code << 1 | 1), system calls (an address), characters to the console \
                        (0x0101 in the upper bits) and from it (0x0100)",
                    self.words.tohost
                ))),
            }
            self.feed(machine, open);
        }
        self.answer(machine);
        Ok(None)
    }

    /// Passes input to the request that waits for it.
    fn feed(&mut self, machine: &mut Machine, open: bool) {
        match self.waits {
            None => {}
            Some(Wait::Character) => {
                if let [byte] = machine.take_console_input(1)[..] {
                    self.waits = None;
                    let answer = u64::from(CONSOLE) << 56 | HAS_CHARACTER | u64::from(byte);
                    self.answers.push_back(answer);
                }
            }
            Some(Wait::Read { block, buffer, len }) => {
                let bytes = machine.take_console_input(len as usize);
                if bytes.is_empty() && open {
                    return;
                }
                self.waits = None;
                let result = if store(machine, buffer, &bytes) {
                    bytes.len() as i64
                } else {
                    errno::EFAULT
                };
                self.finish(machine, block, result);
            }
        }
    }

    /// Passes the next answer on if the program has taken the last one.
    fn answer(&mut self, machine: &mut Machine) {
        let Some(at) = self.words.fromhost else {
            self.answers.clear();
            return;
        };
        if word(machine, at) == 0 {
            if let Some(answer) = self.answers.pop_front() {
                put_word(machine, at, answer);
            }
        }
    }

    /// Carries out a system call: eight words at `block`, the number and its arguments; the first
    /// word receives the result.
    fn call(
        &mut self,
        machine: &mut Machine,
        port: &mut dyn Port,
        block: u64,
    ) -> Result<Option<End>> {
        let mut bytes = [0; 64];
        if machine.peek(None, block, &mut bytes) < bytes.len() {
            return Err(Error::Guest(format!(
                "the program asks for a system call with its arguments at {block:#x}, \
                where there is no memory"
            )));
        }
        let argument = |i: usize| {
            let part = &bytes[8 * i..8 * i + 8];
            u64::from_le_bytes(part.try_into().expect("eight bytes"))
        };
        let (number, fd, buffer, len) = (argument(0), argument(1), argument(2), argument(3));
        let result = match number {
            call::EXIT => return Ok(Some(End::Off(fd as u32))),
            call::WRITE if matches!(fd, 1 | 2) => {
                let mut text = vec![0; len.min(MOST) as usize];
                match machine.peek(None, buffer, &mut text) == text.len() {
                    true if fd == 1 => port.write(&text)?,
                    true => port.write_error(&text)?,
                    false => text.clear(),
                }
                if text.is_empty() && len > 0 {
                    errno::EFAULT
                } else {
                    text.len() as i64
                }
            }
            call::READ if fd == 0 => {
                let len = len.min(MOST);
                self.waits = Some(Wait::Read { block, buffer, len });
                return Ok(None);
            }
            call::READ | call::WRITE => errno::EBADF,
            _ => {
                if self.refused.insert(number) {
                    if let Some(m) = self.caller {
                        m.warning(&format!(
                            "the program asks for system call {number}, which is not there (it gets ENOSYS): known are \
                                read (63) from 0, write (64) to 1 and 2, and exit (93)"
                        ));
                    }
                }
                errno::ENOSYS
            }
        };
        self.finish(machine, block, result);
        Ok(None)
    }

    /// Ends a system call.
    fn finish(&mut self, machine: &mut Machine, block: u64, result: i64) {
        put_word(machine, block, result as u64);
        self.answers.push_back(1);
    }
}

/// The name of a device or of one of its commands; empty if it does not exist.
fn name(device: u8, what: u8) -> &'static str {
    match (device, what) {
        (SYSCALL, DEVICE_NAME) => "syscall_proxy",
        (SYSCALL, 0) => "syscall",
        (CONSOLE, DEVICE_NAME) => "bcd",
        (CONSOLE, GET) => "read",
        (CONSOLE, PUT) => "write",
        _ => "",
    }
}

fn word(machine: &Machine, at: u64) -> u64 {
    let mut bytes = [0; 8];
    machine.peek(None, at, &mut bytes);
    u64::from_le_bytes(bytes)
}

fn put_word(machine: &mut Machine, at: u64, value: u64) {
    store(machine, at, &value.to_le_bytes());
}

/// Writes memory as a device does; returns whether there is memory.
fn store(machine: &mut Machine, at: u64, bytes: &[u8]) -> bool {
    let offset = at.checked_sub(machine.config().memory.base);
    let done = offset.is_some_and(|o| machine.ram().write_bytes(o, bytes).is_ok());
    if done && !bytes.is_empty() {
        machine.memory_written(at, bytes.len() as u64);
    }
    done
}
