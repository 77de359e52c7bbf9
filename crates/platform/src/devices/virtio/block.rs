//! Virtio block device: a disk.
//!
//! Requests are carried out one after the other, each in the time given by the machine's
//! description; at its end the data is moved and the driver interrupted. So what the guest sees
//! depends on machine time alone, not on the speed of the host.

use super::port::{Port, VirtioBackend};
use super::queue::{Chain, QueueError, INDIRECT_DESC};
use crate::clock::Ps;
use crate::device::{DeviceState, StateError};
use base64::{engine::general_purpose::STANDARD as BASE64, Engine};
use nagori_config::BlockConfig;
use nagori_disk::{Disk, Identity, SECTOR};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::VecDeque;

const KIND: &str = "virtio-blk";
const QUEUE: usize = 0;

/// Feature bits (virtio 1.2, section 5.2.3).
mod feature {
    pub const SIZE_MAX: u64 = 1 << 1;
    pub const SEG_MAX: u64 = 1 << 2;
    pub const RO: u64 = 1 << 5;
    pub const BLK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
    pub const TOPOLOGY: u64 = 1 << 10;
    pub const DISCARD: u64 = 1 << 13;
    pub const WRITE_ZEROES: u64 = 1 << 14;
}

/// Kinds of requests.
mod kind {
    pub const IN: u32 = 0;
    pub const OUT: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const WRITE_ZEROES: u32 = 13;
}

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// Bytes of a request's header: kind, reserved, sector.
const HEADER: u64 = 16;
/// Bytes of a range to discard or to make zero: sector, sectors, flags.
const RANGE: u64 = 16;
const MAX_RANGES: u32 = 16;
const MAX_RANGE_SECTORS: u32 = 1 << 22;
/// In a range's flags: the space may be returned.
const UNMAP: u32 = 1;
/// Bytes of a disk's name.
const ID: u64 = 20;
/// Greatest number of bytes of a buffer, and greatest number of data buffers: a queue's descriptors
/// without header and status.
const MAX_SEGMENT: u32 = 1 << 20;
const MAX_SEGMENTS: u32 = 254;
const MAX_BYTES: u64 = MAX_SEGMENT as u64 * MAX_SEGMENTS as u64;
/// Bytes moved at once.
const CHUNK: usize = 256 << 10;
/// log2 of sectors in the disk's preferred transfer size: 4 KiB.
const PHYSICAL: u8 = 3;
/// Sectors of a cluster of an overlay: 16 KiB.
const OPTIMAL: u32 = 32;

/// A request in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Request {
    chain: Chain,
    /// When it completes.
    due: Ps,
}

/// A cluster of a temporary overlay: offset and length in bytes, content in base64 (none: zeros).
type SavedChange = (u64, u64, Option<String>);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    under_way: VecDeque<Request>,
    /// See [`Block::head`].
    #[serde(default)]
    head: u64,
    /// Identity of the medium's content.
    medium: Option<Identity>,
    /// The content of a temporary overlay.
    temporary: Vec<SavedChange>,
}

/// A medium that the device cannot accept.
#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    /// The saved guest used another one.
    #[error("the disk is not as it was when the state was saved, and the guest would damage it: {0}; give the same \
        files, unchanged, in the same way")]
    Changed(String),
    /// The saved guest had none.
    #[error("the saved guest has no disk here")]
    None,
    /// The files of that medium.
    #[error(transparent)]
    Disk(#[from] nagori_disk::Error),
    /// The saved overlay content.
    #[error("the saved content of the disk: {0}")]
    Content(String),
}

/// A saved medium that has not been connected again.
#[derive(Debug)]
struct Expected {
    medium: Option<Identity>,
    temporary: Vec<SavedChange>,
}

/// virtio block device (type 2). Without a medium it has capacity 0, and every request fails.
#[derive(Debug)]
pub struct Block {
    name: String,
    time: BlockConfig,
    /// Saving flushes it.
    disk: Option<RefCell<Disk>>,
    expected: Option<Expected>,
    under_way: VecDeque<Request>,
    /// Sector behind the last one that a request in progress or before has read or written: from there on, the next one
    /// needs no seek.
    head: u64,
    /// The host's first error since the last call.
    error: RefCell<Option<String>>,
    errors: u64,
}

impl Block {
    /// A device that is not connected; `name` is that of its slot, and the disk's serial number.
    pub fn new(name: String, time: BlockConfig) -> Block {
        Block {
            name,
            time,
            disk: None,
            expected: None,
            under_way: VecDeque::new(),
            head: 0,
            error: RefCell::new(None),
            errors: 0,
        }
    }

    /// Name of its slot.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects a disk. After a saved state was loaded it must be the saved one, with the same
    /// content (a temporary overlay gets the content that it had).
    pub fn connect(&mut self, mut disk: Disk, port: &mut Port<'_>) -> Result<(), MediumError> {
        match &self.expected {
            // The guest does not notice, so it runs on as if it had not been saved.
            Some(expected) => {
                adopt(expected, &mut disk)?;
                self.expected = None;
            }
            None => port.config_changed(),
        }
        self.disk = Some(RefCell::new(disk));
        Ok(())
    }

    /// The identity of the disk that has to be connected, according to a loaded state.
    pub fn expected(&self) -> Option<&Identity> {
        self.expected.as_ref()?.medium.as_ref()
    }

    /// The connected disk.
    pub fn disk(&self) -> Option<std::cell::Ref<'_, Disk>> {
        self.disk.as_ref().map(RefCell::borrow)
    }

    /// Writes everything to the host's medium, as before the end of a run.
    pub fn flush(&mut self) -> Result<(), nagori_disk::Error> {
        self.disk.as_mut().map_or(Ok(()), |d| d.get_mut().flush())
    }

    /// The first error of the host since the last call, and the number of all errors. The guest got
    /// I/O errors.
    pub fn take_host_error(&mut self) -> Option<(String, u64)> {
        Some((self.error.get_mut().take()?, self.errors))
    }

    fn capacity(&self) -> u64 {
        self.disk().map_or(0, |d| d.size() / SECTOR)
    }

    fn config_space(&self) -> [u8; 60] {
        let mut c = [0; 60];
        let mut put = |at: usize, bytes: &[u8]| c[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.capacity().to_le_bytes());
        put(8, &MAX_SEGMENT.to_le_bytes());
        put(12, &MAX_SEGMENTS.to_le_bytes());
        put(20, &(SECTOR as u32).to_le_bytes());
        // Topology: physical block, alignment offset, minimum and optimal transfer.
        put(24, &[PHYSICAL, 0]);
        put(26, &(1u16 << PHYSICAL).to_le_bytes());
        put(28, &OPTIMAL.to_le_bytes());
        put(34, &1u16.to_le_bytes());
        put(36, &MAX_RANGE_SECTORS.to_le_bytes());
        put(40, &MAX_RANGES.to_le_bytes());
        put(44, &(1u32 << PHYSICAL).to_le_bytes());
        put(48, &MAX_RANGE_SECTORS.to_le_bytes());
        put(52, &MAX_RANGES.to_le_bytes());
        put(56, &[1]);
        c
    }

    /// Takes available requests; at most a queue's length are in progress.
    fn take(&mut self, port: &mut Port<'_>) -> Result<(), QueueError> {
        while self.under_way.len() < port.queue_size(QUEUE) {
            let Some(chain) = port.pop(QUEUE)? else { break };
            let (kind, sector) = header(port, &chain)?;
            // It may be on the disk at any moment from now on.
            if matches!(kind, kind::OUT | kind::DISCARD | kind::WRITE_ZEROES) {
                port.sends(QUEUE);
            }
            let bytes = match kind {
                kind::IN => chain.writable() - 1,
                kind::OUT => chain.readable() - HEADER,
                _ => 0,
            };
            let extra = match kind {
                kind::FLUSH => self.time.flush_ps,
                _ => bytes.min(MAX_BYTES) * self.time.byte_ps + self.seek(kind, sector, bytes),
            };
            let free = self.under_way.back().map_or(Ps::ZERO, |r| r.due);
            // A request takes time, however little: its end is an event.
            let takes = Ps((self.time.request_ps + extra).max(1));
            let due = Ps(free.max(port.now()).0.saturating_add(takes.0));
            self.under_way.push_back(Request { chain, due });
        }
        Ok(())
    }

    /// Moves the head to a request, and behind it; returns how long it takes to get there.
    fn seek(&mut self, kind: u32, sector: u64, bytes: u64) -> u64 {
        if kind != kind::IN && kind != kind::OUT {
            return 0;
        }
        let there = self.head == sector;
        self.head = sector.wrapping_add(bytes / SECTOR);
        if there {
            0
        } else {
            self.time.seek_ps
        }
    }

    /// Carries out a request; returns the number of bytes written to the chain before its status.
    fn serve(&mut self, port: &mut Port<'_>, chain: &Chain) -> Result<(u8, u64), QueueError> {
        let (kind, sector) = header(port, chain)?;
        let Some(disk) = self.disk.as_mut() else {
            return Ok((IO_ERROR, 0));
        };
        let disk = disk.get_mut();
        let room = chain.writable() - 1;
        let data = chain.readable() - HEADER;
        let result = match kind {
            kind::IN => transfer(port, chain, disk, sector, room, Way::In)?,
            kind::OUT => transfer(port, chain, disk, sector, data, Way::Out)?,
            kind::FLUSH => disk.flush().map(|()| (OK, 0)),
            kind::GET_ID => {
                let mut id = self.name.clone().into_bytes();
                id.resize(ID as usize, 0);
                let n = id.len().min(room as usize);
                port.write(chain, 0, &id[..n])?;
                Ok((OK, n as u64))
            }
            kind::DISCARD | kind::WRITE_ZEROES => zero(port, chain, disk, kind, data)?,
            _ => Ok((UNSUPPORTED, 0)),
        };
        Ok(result.unwrap_or_else(|e| {
            // Invalid requests only concern the guest.
            if matches!(e, nagori_disk::Error::Io { .. }) {
                self.errors += 1;
                let text = format!("disk `{}`: {e}; the guest has an I/O error", self.name);
                self.error.get_mut().get_or_insert(text);
            }
            (IO_ERROR, 0)
        }))
    }
}

/// Kind and sector of a request, after checking its form.
fn header(port: &Port<'_>, chain: &Chain) -> Result<(u32, u64), QueueError> {
    let head = chain.head;
    let mut h = [0; HEADER as usize];
    if (port.read(chain, 0, &mut h)? as u64) < HEADER {
        return Err(QueueError::Length {
            head,
            len: chain.readable(),
            expected: "a header of 16",
        });
    }
    if chain.writable() == 0 {
        return Err(QueueError::Length {
            head,
            len: 0,
            expected: "one for the status",
        });
    }
    let kind = u32::from_le_bytes([h[0], h[1], h[2], h[3]]);
    let sector = u64::from_le_bytes([h[8], h[9], h[10], h[11], h[12], h[13], h[14], h[15]]);
    Ok((kind, sector))
}

/// The outcome of a request: status and bytes written, or an error of the host.
type Served = Result<(u8, u64), nagori_disk::Error>;

/// First byte of a transfer, if it is possible.
fn start(disk: &Disk, sector: u64, len: u64) -> Option<u64> {
    let start = sector.checked_mul(SECTOR)?;
    let sound =
        len.is_multiple_of(SECTOR) && len <= MAX_BYTES && start.checked_add(len)? <= disk.size();
    sound.then_some(start)
}

/// Direction of a request's data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the disk to the guest.
    In,
    /// From the guest to the disk.
    Out,
}

fn transfer(
    port: &mut Port<'_>,
    chain: &Chain,
    disk: &mut Disk,
    sector: u64,
    len: u64,
    way: Way,
) -> Result<Served, QueueError> {
    let Some(start) = start(disk, sector, len) else {
        return Ok(Ok((IO_ERROR, 0)));
    };
    let mut buffer = vec![0; CHUNK.min(len as usize)];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(CHUNK as u64);
        let piece = &mut buffer[..n as usize];
        let moved = match way {
            Way::In => disk.read(start + done, piece),
            Way::Out => {
                port.read(chain, HEADER + done, piece)?;
                disk.write(start + done, piece)
            }
        };
        if let Err(e) = moved {
            return Ok(Err(e));
        }
        if way == Way::In {
            port.write(chain, done, piece)?;
        }
        done += n;
    }
    Ok(Ok((OK, if way == Way::In { len } else { 0 })))
}

fn zero(
    port: &mut Port<'_>,
    chain: &Chain,
    disk: &mut Disk,
    kind: u32,
    len: u64,
) -> Result<Served, QueueError> {
    let ranges = len / RANGE;
    if !len.is_multiple_of(RANGE) || ranges == 0 || ranges > MAX_RANGES.into() {
        return Ok(Ok((IO_ERROR, 0)));
    }
    let mut spans = Vec::new();
    for i in 0..ranges {
        let mut r = [0; RANGE as usize];
        port.read(chain, HEADER + i * RANGE, &mut r)?;
        let word = |at: usize| u32::from_le_bytes([r[at], r[at + 1], r[at + 2], r[at + 3]]);
        let sector = u64::from(word(0)) | u64::from(word(4)) << 32;
        let (sectors, flags) = (word(8), word(12));
        let known = if kind == kind::WRITE_ZEROES { UNMAP } else { 0 };
        if flags & !known != 0 {
            return Ok(Ok((UNSUPPORTED, 0)));
        }
        let span = u64::from(sectors) * SECTOR;
        let start = sector.checked_mul(SECTOR);
        let inside = start.and_then(|s| s.checked_add(span));
        match (start, inside) {
            (Some(start), Some(end)) if end <= disk.size() && sectors <= MAX_RANGE_SECTORS => {
                spans.push((start, span));
            }
            _ => return Ok(Ok((IO_ERROR, 0))),
        }
    }
    Ok(spans
        .into_iter()
        .try_for_each(|(start, span)| disk.zero(start, span))
        .map(|()| (OK, 0)))
}

/// Compares a disk with the saved one, and gives it the saved content if it is temporary.
fn adopt(expected: &Expected, disk: &mut Disk) -> Result<(), MediumError> {
    let wanted = expected.medium.as_ref().ok_or(MediumError::None)?;
    let found = disk.identity()?;
    if found != *wanted {
        let text = |i: &Identity| {
            let overlay = match (&i.overlay, i.temporary) {
                (Some(o), _) => format!("overlay of {o}"),
                (None, true) => "temporary overlay".into(),
                (None, false) => "no overlay".into(),
            };
            format!("{} with {overlay}", i.base)
        };
        return Err(MediumError::Changed(format!(
            "it was {}, it is {}",
            text(wanted),
            text(&found)
        )));
    }
    if wanted.temporary {
        let mut changes = Vec::new();
        for (offset, len, content) in &expected.temporary {
            let bytes = content.as_ref().map(|c| BASE64.decode(c)).transpose();
            let bytes = bytes.map_err(|e| MediumError::Content(e.to_string()))?;
            changes.push((*offset, *len, bytes));
        }
        disk.restore(changes)?;
    }
    Ok(())
}

impl VirtioBackend for Block {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn device_id(&self) -> u32 {
        2
    }

    fn features(&self) -> u64 {
        use feature::*;
        let read_only = self.disk().is_some_and(|d| d.is_read_only());
        let common = SIZE_MAX | SEG_MAX | BLK_SIZE | FLUSH | TOPOLOGY | INDIRECT_DESC;
        common
            | if read_only {
                RO
            } else {
                DISCARD | WRITE_ZEROES
            }
    }

    fn has_one_form(&self) -> bool {
        true
    }

    fn queues(&self) -> usize {
        1
    }

    fn config(&self, offset: u64) -> u8 {
        let space = self.config_space();
        let byte = usize::try_from(offset).ok().and_then(|at| space.get(at));
        byte.copied().unwrap_or(0)
    }

    fn notify(&mut self, port: &mut Port<'_>, _: usize) -> Result<(), QueueError> {
        self.take(port)
    }

    fn next_event(&self) -> Option<Ps> {
        self.under_way.front().map(|r| r.due)
    }

    fn on_time(&mut self, port: &mut Port<'_>) -> Result<(), QueueError> {
        if !port.is_live() {
            // The driver violated the protocol; nothing more is done for it.
            self.under_way.clear();
            return Ok(());
        }
        let due = |r: &Request| r.due <= port.now();
        if !self.under_way.front().is_some_and(due) {
            return Ok(());
        }
        let Some(Request { chain, .. }) = self.under_way.pop_front() else {
            return Ok(());
        };
        let (status, written) = self.serve(port, &chain)?;
        port.write(&chain, chain.writable() - 1, &[status])?;
        // After an error, what was written before the status does not count.
        let whole = written + 1 == chain.writable();
        let written = if whole { chain.writable() } else { written };
        port.complete(QUEUE, chain.head, written as u32)?;
        // Requests for which there was no room before.
        self.take(port)
    }

    fn driver_reset(&mut self) {
        self.under_way.clear();
    }

    fn reset(&mut self) {
        self.under_way.clear();
        self.head = 0;
    }

    fn save(&self) -> DeviceState {
        let mut state = State {
            under_way: self.under_way.clone(),
            head: self.head,
            medium: None,
            temporary: Vec::new(),
        };
        if let Some(expected) = &self.expected {
            state.medium.clone_from(&expected.medium);
            state.temporary.clone_from(&expected.temporary);
        } else if let Some(disk) = &self.disk {
            match saved_medium(&mut disk.borrow_mut()) {
                Ok((medium, temporary)) => {
                    (state.medium, state.temporary) = (Some(medium), temporary)
                }
                // Without the disk's identity the state cannot be used; that is reported now and
                // when it is loaded.
                Err(e) => {
                    let text = format!("disk `{}` cannot be saved: {e}", self.name);
                    self.error.borrow_mut().get_or_insert(text);
                }
            }
        }
        DeviceState::pack(KIND, 1, &state)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        let s: State = state.unpack(KIND, 1)?;
        let problem = |problem| StateError::Content {
            kind: KIND,
            problem,
        };
        let mut last = Ps::ZERO;
        let most = usize::from(self.queue_max());
        for r in &s.under_way {
            let (len, c) = (r.chain.buffers.len(), &r.chain);
            if r.due <= last || len > most || c.writable() == 0 || c.readable() < HEADER {
                return Err(problem("a request under way cannot be one".into()));
            }
            last = r.due;
        }
        if s.under_way.len() > most {
            return Err(problem(format!("{} requests under way", s.under_way.len())));
        }
        let expected = Expected {
            medium: s.medium,
            temporary: s.temporary,
        };
        match &mut self.disk {
            Some(disk) => {
                adopt(&expected, disk.get_mut()).map_err(|e| problem(e.to_string()))?;
                self.expected = None;
            }
            None => self.expected = expected.medium.is_some().then_some(expected),
        }
        self.under_way = s.under_way;
        self.head = s.head;
        Ok(())
    }
}

fn saved_medium(disk: &mut Disk) -> Result<(Identity, Vec<SavedChange>), nagori_disk::Error> {
    disk.flush()?;
    let mut temporary = Vec::new();
    for change in disk.changes() {
        let (offset, len, bytes) = change?;
        temporary.push((offset, len, bytes.map(|b| BASE64.encode(b))));
    }
    Ok((disk.identity()?, temporary))
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
