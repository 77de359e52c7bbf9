//! Virtio 9P device: a folder of the host.
//!
//! A request is carried out on the host when its turn comes, and its reply is returned when the
//! time given by the description has passed. Requests are handled one after the other, so the speed
//! of the host is not visible.

use super::port::{Port, VirtioBackend};
use super::queue::QueueError;
use crate::clock::Ps;
use crate::device::{DeviceState, StateError};
use nagori_config::ShareConfig;
use nagori_ninep::message::{Header, HEADER};
use nagori_ninep::{Error, Folder, Limits, Request, Saved, Server};
use serde::{Deserialize, Serialize};

const KIND: &str = "virtio-9p";
/// VIRTIO_9P_MOUNT_TAG
const MOUNT_TAG: u64 = 1;
/// Every error reply has this length.
const ERROR_REPLY: u64 = HEADER as u64 + 4;

/// A request whose reply is in the guest's memory, but has not been returned yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Busy {
    head: u16,
    written: u32,
    /// When it is returned.
    until: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct State {
    busy: Option<Busy>,
    server: Saved,
}

/// virtio 9P transport (type 9) whose mount tag is the name of its slot. Until a folder is
/// connected, the guest can mount nothing (`ENODEV`).
#[derive(Debug)]
pub struct Share {
    name: String,
    cost: ShareConfig,
    server: Server,
    busy: Option<Busy>,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Share {
    /// A device that is not connected; `name` is that of its slot.
    pub fn new(name: String, cost: ShareConfig) -> Share {
        Share {
            name,
            cost,
            server: Server::new(Limits::default()),
            busy: None,
            request: Vec::new(),
            reply: Vec::new(),
        }
    }

    /// Name of its slot, which is the mount tag.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects the folder. After a restore, files that the guest had open are looked up by name;
    /// returned are the names of those that do not exist any more, for which the guest gets
    /// `ESTALE`.
    pub fn connect(&mut self, folder: Folder) -> Result<Vec<String>, Error> {
        self.server.connect(folder)
    }

    /// Whether there is a folder.
    pub fn connected(&self) -> bool {
        self.server.connected()
    }

    /// Takes the next request, unless one is in progress.
    fn begin(&mut self, port: &mut Port<'_>) -> Result<(), QueueError> {
        if self.busy.is_some() {
            return Ok(());
        }
        let Some(chain) = port.pop(0)? else {
            return Ok(());
        };
        let head = chain.head;
        let wrong = |len, expected| QueueError::Length {
            head,
            len,
            expected,
        };
        let (readable, writable) = (chain.readable(), chain.writable());
        if readable < HEADER as u64 {
            return Err(wrong(readable, "the header of a message"));
        }
        if writable < ERROR_REPLY {
            return Err(wrong(writable, "room for a reply"));
        }
        self.request.resize(HEADER, 0);
        port.read(&chain, 0, &mut self.request)?;
        // One byte more than allowed shows the server that it is too long.
        let most = u64::from(self.server.msize()) + 1;
        let said = Header::of(&self.request).map_or(0, |h| u64::from(h.size));
        let size = said.clamp(HEADER as u64, most).min(readable);
        self.request.resize(size as usize, 0);
        port.read(&chain, 0, &mut self.request)?;
        if Request::decode(&self.request).is_ok_and(|(_, r)| r.changes()) {
            port.sends(0);
        }
        // It has a header, so there is a reply.
        let answered = self.server.handle(&self.request, &mut self.reply);
        if answered.is_err() || self.reply.len() as u64 > writable {
            return Err(wrong(writable, "room for the reply"));
        }
        let written = port.write(&chain, 0, &self.reply)?;
        let bytes = (self.request.len() + written) as u64;
        let cost = bytes
            .saturating_mul(self.cost.byte_ps)
            .saturating_add(self.cost.request_ps);
        self.busy = Some(Busy {
            head,
            written: written as u32,
            until: port.now().0.saturating_add(cost),
        });
        Ok(())
    }
}

impl VirtioBackend for Share {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn device_id(&self) -> u32 {
        9
    }

    fn features(&self) -> u64 {
        MOUNT_TAG
    }

    fn queues(&self) -> usize {
        1
    }

    fn config(&self, offset: u64) -> u8 {
        let len = (self.name.len() as u16).to_le_bytes();
        let mut bytes = len.iter().chain(self.name.as_bytes());
        bytes.nth(offset as usize).copied().unwrap_or(0)
    }

    fn notify(&mut self, port: &mut Port<'_>, _: usize) -> Result<(), QueueError> {
        self.begin(port)
    }

    fn next_event(&self) -> Option<Ps> {
        self.busy.map(|b| Ps(b.until))
    }

    fn on_time(&mut self, port: &mut Port<'_>) -> Result<(), QueueError> {
        match self.busy {
            Some(busy) if busy.until <= port.now().0 => {
                self.busy = None;
                port.complete(0, busy.head, busy.written)?;
                self.begin(port)
            }
            _ => Ok(()),
        }
    }

    fn driver_reset(&mut self) {
        self.busy = None;
        self.server.reset();
    }

    fn reset(&mut self) {
        self.driver_reset();
    }

    fn save(&self) -> DeviceState {
        let state = State {
            busy: self.busy,
            server: self.server.save(),
        };
        DeviceState::pack(KIND, 2, &state)
    }

    /// If a folder is connected already, files that are not in it become `ESTALE` without a
    /// message.
    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        let state: State = state.unpack(KIND, 2)?;
        let content = |problem: String| StateError::Content {
            kind: KIND,
            problem,
        };
        self.server
            .restore(&state.server)
            .map_err(|e| content(e.to_string()))?;
        self.busy = state.busy;
        Ok(())
    }
}

#[cfg(test)]
#[path = "share_tests.rs"]
mod tests;
