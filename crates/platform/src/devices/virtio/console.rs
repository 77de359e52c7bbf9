//! Named byte streams between the guest and the host (virtio 1.2, section 5.3, with several ports);
//! `nagori run` uses them to communicate with its agent.
//!
//! Linux shows the ports under /dev/virtio-ports by their names. Every port has a bounded queue of
//! bytes in either direction: when the host's side is full, the guest's writes wait.

use super::port::{Port, VirtioBackend};
use super::queue::{Chain, QueueError};
use crate::device::{DeviceState, StateError};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

const KIND: &str = "virtio-console";
const VERSION: u32 = 2;
/// VIRTIO_CONSOLE_F_MULTIPORT
const MULTIPORT: u64 = 1 << 1;

/// Names of the ports, by number.
pub const PORTS: [&str; 4] = [
    "nagori.control",
    "nagori.stdin",
    "nagori.stdout",
    "nagori.stderr",
];
/// Bytes of a port's queue in one direction.
pub const ROOM: usize = 4 << 20;
/// Bytes taken from a chain at once.
const PIECE: usize = 64 << 10;

const CONTROL_RECEIVE: usize = 2;
const CONTROL_TRANSMIT: usize = 3;
/// Bytes of a control message without a name.
const MESSAGE: usize = 8;

mod event {
    pub const DEVICE_READY: u16 = 0;
    pub const PORT_ADD: u16 = 1;
    pub const PORT_READY: u16 = 3;
    pub const PORT_OPEN: u16 = 6;
    pub const PORT_NAME: u16 = 7;
}

/// Index of the queue on which the guest receives from a port.
fn receive(port: usize) -> usize {
    match port {
        0 => 0,
        n => 2 * n + 2,
    }
}

/// Index of the queue on which the guest sends to a port.
fn transmit(port: usize) -> usize {
    receive(port) + 1
}

/// State of a port, and what is in its queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stream {
    /// Messages that the driver still has to receive.
    tell_add: bool,
    tell_name: bool,
    tell_open: bool,
    /// Whether the driver has the port.
    known: bool,
    /// Whether a program in the guest has it open.
    guest_open: bool,
    /// Whether the input ends after the bytes in the queue.
    closed: bool,
    /// Whether the driver was told of that.
    closed_told: bool,
    #[serde(with = "bytes")]
    input: VecDeque<u8>,
    #[serde(with = "bytes")]
    output: VecDeque<u8>,
    /// A chain of output of which so many bytes were taken.
    taking: Option<(Chain, u64)>,
}

impl Stream {
    fn new() -> Stream {
        Stream {
            tell_add: false,
            tell_name: false,
            tell_open: false,
            known: false,
            guest_open: false,
            closed: false,
            closed_told: false,
            input: VecDeque::new(),
            output: VecDeque::new(),
            taking: None,
        }
    }
}

/// Byte queues as text, two hexadecimal digits for each byte.
mod bytes {
    use serde::{de::Error, Deserialize, Deserializer, Serializer};
    use std::collections::VecDeque;
    use std::fmt::Write;

    pub fn serialize<S: Serializer>(b: &VecDeque<u8>, s: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * b.len());
        for byte in b {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        s.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<VecDeque<u8>, D::Error> {
        let text = String::deserialize(d)?;
        let digit = |c: u8| (c as char).to_digit(16).map(|v| v as u8);
        let pairs = text.as_bytes().chunks(2);
        pairs
            .map(|p| match *p {
                [a, b] => Some(digit(a)? << 4 | digit(b)?),
                _ => None,
            })
            .collect::<Option<_>>()
            .ok_or_else(|| D::Error::custom("bytes in hexadecimal digits are expected"))
    }
}

/// virtio console device (type 3) with several ports.
#[derive(Debug)]
pub struct PortConsole {
    name: String,
    streams: Vec<Stream>,
}

impl PortConsole {
    /// A device whose ports are open and empty; `name` is that of its slot.
    pub fn new(name: String) -> PortConsole {
        PortConsole {
            name,
            streams: vec![Stream::new(); PORTS.len()],
        }
    }

    /// Name of its slot.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Index of a port.
    pub fn port(name: &str) -> Option<usize> {
        PORTS.iter().position(|p| *p == name)
    }

    /// Whether a program in the guest has a port open.
    pub fn is_open(&self, port: usize) -> bool {
        self.streams.get(port).is_some_and(|s| s.guest_open)
    }

    /// Number of bytes that [`PortConsole::push`] would accept.
    pub fn room(&self, port: usize) -> usize {
        match self.streams.get(port) {
            Some(s) if !s.closed => ROOM.saturating_sub(s.input.len()),
            _ => 0,
        }
    }

    /// Passes bytes to the guest; returns the number for which there was room.
    pub fn push(
        &mut self,
        at: &mut Port<'_>,
        port: usize,
        bytes: &[u8],
    ) -> Result<usize, QueueError> {
        let n = bytes.len().min(self.room(port));
        if let Some(s) = self.streams.get_mut(port) {
            s.input.extend(&bytes[..n]);
            self.deliver(at, port)?;
        }
        Ok(n)
    }

    /// No more input will be pushed: the guest reads what is queued, then the end.
    pub fn close(&mut self, at: &mut Port<'_>, port: usize) -> Result<(), QueueError> {
        if let Some(s) = self.streams.get_mut(port) {
            s.closed = true;
            self.deliver(at, port)?;
        }
        Ok(())
    }

    /// Takes what the guest has written to a port, including what it can write now that there is
    /// room.
    pub fn take(&mut self, at: &mut Port<'_>, port: usize) -> Result<Vec<u8>, QueueError> {
        let Some(s) = self.streams.get_mut(port) else {
            return Ok(Vec::new());
        };
        let mut bytes: Vec<u8> = std::mem::take(&mut s.output).into();
        self.collect(at, port)?;
        let s = &mut self.streams[port];
        if !s.output.is_empty() && bytes.len() < ROOM {
            bytes.extend(std::mem::take(&mut s.output));
            self.collect(at, port)?;
        }
        Ok(bytes)
    }

    /// Takes chains of output while there is room.
    fn collect(&mut self, at: &mut Port<'_>, port: usize) -> Result<(), QueueError> {
        let queue = transmit(port);
        let Some(s) = self.streams.get_mut(port) else {
            return Ok(());
        };
        let mut buffer = Vec::new();
        // Otherwise the driver could add chains, even empty ones, for ever.
        for _ in 0..=at.queue_size(queue) {
            if s.taking.is_none() {
                s.taking = at.pop(queue)?.map(|chain| (chain, 0));
                if s.taking.is_some() {
                    at.sends(queue);
                }
            }
            let Some((chain, done)) = &mut s.taking else {
                return Ok(());
            };
            let len = chain.readable();
            while *done < len {
                let room = ROOM.saturating_sub(s.output.len());
                if room == 0 {
                    return Ok(());
                }
                let piece = (len - *done).min(room.min(PIECE) as u64) as usize;
                buffer.resize(piece, 0);
                let n = at.read(chain, *done, &mut buffer)?;
                s.output.extend(&buffer[..n]);
                *done += n as u64;
            }
            at.complete(queue, chain.head, 0)?;
            s.taking = None;
        }
        Ok(())
    }

    /// Copies input to the chains that the guest has offered, then reports the end.
    fn deliver(&mut self, at: &mut Port<'_>, port: usize) -> Result<(), QueueError> {
        let queue = receive(port);
        let Some(s) = self.streams.get_mut(port) else {
            return Ok(());
        };
        for _ in 0..at.queue_size(queue) {
            if s.input.is_empty() {
                break;
            }
            let Some(chain) = at.pop(queue)? else {
                return Ok(());
            };
            let n = s
                .input
                .len()
                .min(chain.writable().min(PIECE as u64) as usize);
            let bytes: Vec<u8> = s.input.drain(..n).collect();
            let written = at.write(&chain, 0, &bytes)?;
            at.complete(queue, chain.head, written as u32)?;
        }
        if s.closed && s.input.is_empty() && s.known && !s.closed_told {
            s.closed_told = true;
            s.tell_open = true;
        }
        self.tell(at)
    }

    /// Sends pending control messages to the driver, as far as it has offered room.
    fn tell(&mut self, at: &mut Port<'_>) -> Result<(), QueueError> {
        for (id, (s, name)) in self.streams.iter_mut().zip(PORTS).enumerate() {
            if s.tell_add {
                if !send(at, id, event::PORT_ADD, 1, b"")? {
                    return Ok(());
                }
                s.tell_add = false;
            }
            if s.tell_name {
                if !send(at, id, event::PORT_NAME, 1, name.as_bytes())? {
                    return Ok(());
                }
                s.tell_name = false;
            }
            if s.tell_open {
                if !send(at, id, event::PORT_OPEN, !s.closed_told as u16, b"")? {
                    return Ok(());
                }
                s.tell_open = false;
            }
        }
        Ok(())
    }

    /// Handles the driver's control messages.
    fn listen(&mut self, at: &mut Port<'_>) -> Result<(), QueueError> {
        for _ in 0..at.queue_size(CONTROL_TRANSMIT) {
            let Some(chain) = at.pop(CONTROL_TRANSMIT)? else {
                break;
            };
            let mut m = [0; MESSAGE];
            let n = at.read(&chain, 0, &mut m)?;
            at.complete(CONTROL_TRANSMIT, chain.head, 0)?;
            // Messages that are too short or unknown are ignored, as the specification permits.
            if n == MESSAGE {
                let id = u32::from_le_bytes([m[0], m[1], m[2], m[3]]);
                let word = |k: usize| u16::from_le_bytes([m[k], m[k + 1]]);
                self.hear(id as usize, word(4), word(6));
            }
        }
        self.tell(at)
    }

    fn hear(&mut self, id: usize, what: u16, value: u16) {
        if what == event::DEVICE_READY && value == 1 {
            for s in &mut self.streams {
                s.tell_add = !s.known;
            }
            return;
        }
        let Some(s) = self.streams.get_mut(id) else {
            return;
        };
        match what {
            event::PORT_READY if value == 1 => {
                s.known = true;
                s.tell_name = true;
                s.tell_open = true;
                s.closed_told = s.closed && s.input.is_empty();
            }
            event::PORT_OPEN => s.guest_open = value == 1,
            _ => {}
        }
    }
}

/// Sends a control message, if the driver has offered room for one.
fn send(
    at: &mut Port<'_>,
    id: usize,
    what: u16,
    value: u16,
    name: &[u8],
) -> Result<bool, QueueError> {
    let Some(chain) = at.pop(CONTROL_RECEIVE)? else {
        return Ok(false);
    };
    let mut m = (id as u32).to_le_bytes().to_vec();
    m.extend(what.to_le_bytes());
    m.extend(value.to_le_bytes());
    m.extend(name);
    let n = at.write(&chain, 0, &m)?;
    at.complete(CONTROL_RECEIVE, chain.head, n as u32)?;
    Ok(true)
}

impl VirtioBackend for PortConsole {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn device_id(&self) -> u32 {
        3
    }

    fn features(&self) -> u64 {
        MULTIPORT
    }

    fn queues(&self) -> usize {
        2 * (PORTS.len() + 1)
    }

    fn config(&self, offset: u64) -> u8 {
        // cols and rows (2 bytes each, not offered), then max_nr_ports.
        let ports = (PORTS.len() as u32).to_le_bytes();
        match offset {
            4..=7 => ports[offset as usize - 4],
            _ => 0,
        }
    }

    fn notify(&mut self, at: &mut Port<'_>, queue: usize) -> Result<(), QueueError> {
        match queue {
            CONTROL_RECEIVE => self.tell(at),
            CONTROL_TRANSMIT => self.listen(at),
            0 | 1 => self.moved(at, 0, queue),
            _ => self.moved(at, queue / 2 - 1, queue),
        }
    }

    fn poll(&mut self, at: &mut Port<'_>) -> Result<(), QueueError> {
        for port in 0..self.streams.len() {
            self.collect(at, port)?;
            self.deliver(at, port)?;
        }
        Ok(())
    }

    fn driver_reset(&mut self) {
        for s in &mut self.streams {
            let (input, output) = (std::mem::take(&mut s.input), std::mem::take(&mut s.output));
            *s = Stream {
                closed: s.closed,
                input,
                output,
                ..Stream::new()
            };
        }
    }

    fn reset(&mut self) {
        self.streams = vec![Stream::new(); PORTS.len()];
    }

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, VERSION, &self.streams)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        let streams: Vec<Stream> = state.unpack(KIND, VERSION)?;
        let fits = |s: &Stream| s.input.len() <= ROOM && s.output.len() <= ROOM;
        if streams.len() != PORTS.len() || !streams.iter().all(fits) {
            return Err(StateError::Content {
                kind: KIND,
                problem: "the ports are not those of this device".into(),
            });
        }
        self.streams = streams;
        Ok(())
    }
}

impl PortConsole {
    /// The driver has used a queue of a port.
    fn moved(&mut self, at: &mut Port<'_>, port: usize, queue: usize) -> Result<(), QueueError> {
        if queue == transmit(port) {
            self.collect(at, port)
        } else {
            self.deliver(at, port)
        }
    }
}

#[cfg(test)]
#[path = "console_tests.rs"]
mod tests;
