//! A NOR flash of 16 MiB on one data line: Winbond's W25Q128JV, as its data sheet (revision F) describes it, with
//! those of its commands that [`COMMANDS`] lists. Others are ignored, so there is no block protection, no
//! power-down, and no transfer on more lines.
//!
//! A program or erase command takes effect when the chip is deselected; its result can only be read when it has ended.

use crate::clock::Ps;
use base64::{engine::general_purpose::STANDARD as BASE64, Engine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of the chip.
pub(super) const SIZE: u32 = 16 << 20;
/// Bytes that one command can program.
pub(super) const PAGE: usize = 256;
/// Greatest clock in Hz of the command that reads without a dummy byte, the slowest one.
pub(super) const MAX_HZ: u32 = 50_000_000;
/// Manufacturer and device, as the JEDEC command returns them.
pub(super) const ID: [u8; 3] = [0xef, 0x40, 0x18];
const ERASED: u8 = 0xff;
/// More bits than a command has before the end of machine time.
const MAX_BITS: u64 = 1 << 60;

/// Bits of the status register.
mod status {
    pub const BUSY: u8 = 1;
    pub const WRITE_ENABLED: u8 = 2;
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    WriteEnable,
    WriteDisable,
    Status,
    Id,
    Parameters,
    Read,
    Program,
    /// Makes this number of bytes blank, from a multiple of it on.
    Erase(u32),
}

/// A command.
#[derive(Debug)]
struct Command {
    opcode: u8,
    /// Bytes of the address.
    address: u64,
    /// Bytes that mean nothing, behind the address.
    dummy: u64,
    deed: Deed,
    /// How long the chip is busy afterwards, in microseconds.
    busy_us: u64,
}

const fn command(opcode: u8, address: u64, dummy: u64, deed: Deed, busy_us: u64) -> Command {
    Command {
        opcode,
        address,
        dummy,
        deed,
        busy_us,
    }
}

/// The commands. Times are the typical ones of the data sheet (tPP, tSE, tBE1, tBE2, tCE).
const COMMANDS: [Command; 13] = [
    command(0x06, 0, 0, Deed::WriteEnable, 0),
    command(0x04, 0, 0, Deed::WriteDisable, 0),
    command(0x05, 0, 0, Deed::Status, 0),
    command(0x9f, 0, 0, Deed::Id, 0),
    command(0x5a, 3, 1, Deed::Parameters, 0),
    command(0x03, 3, 0, Deed::Read, 0),
    command(0x0b, 3, 1, Deed::Read, 0),
    command(0x02, 3, 0, Deed::Program, 400),
    command(0x20, 3, 0, Deed::Erase(4 << 10), 45_000),
    command(0x52, 3, 0, Deed::Erase(32 << 10), 120_000),
    command(0xd8, 3, 0, Deed::Erase(64 << 10), 150_000),
    command(0xc7, 0, 0, Deed::Erase(SIZE), 40_000_000),
    command(0x60, 0, 0, Deed::Erase(SIZE), 40_000_000),
];

/// Serial flash discoverable parameters (JESD216, first revision) in words: two headers, then the basic table.
const PARAMETERS: [u32; 13] = [
    0x5044_4653,  // "SFDP"
    0xff00_0100,  // revision 1.0, one table
    0x0901_0000,  // table 0xff00 of revision 1.0 with 9 words,
    0xff00_0010,  // at 16
    0xff80_20e5,  // 4 KiB erased by 0x20, pages, addresses of 3 bytes, no more lines
    SIZE * 8 - 1, // bits
    0,            // 1-4-4, 1-1-4: none
    0,            // 1-1-2, 1-2-2: none
    0xffff_ffee,  // 2-2-2, 4-4-4: none
    0x0000_ffff,
    0x0000_ffff,
    0x520f_200c, // 2^12 bytes erased by 0x20, 2^15 by 0x52,
    0x0000_d810, // 2^16 by 0xd8
];

/// The command under way, since the chip was selected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transfer {
    bits: u64,
    input: u8,
    output: u8,
    /// Place in [`COMMANDS`]; none if the command is not there, or if the chip is busy.
    command: Option<usize>,
    address: u32,
    /// Bytes for the page, by their places in it.
    page: BTreeMap<u8, u8>,
}

/// The chip.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Flash {
    /// Pages that are not blank.
    pages: BTreeMap<u32, Vec<u8>>,
    write_enabled: bool,
    /// When the last program or erase operation ends.
    busy_until: Ps,
    /// While the chip is selected.
    transfer: Option<Transfer>,
}

impl Flash {
    /// Whether the chip is selected.
    pub(super) fn selected(&self) -> bool {
        self.transfer.is_some()
    }

    /// Selects the chip: a command begins.
    pub(super) fn select(&mut self) {
        self.transfer = Some(Transfer::default());
    }

    /// Deselects it in the middle of a byte.
    pub(super) fn cut(&mut self) {
        self.transfer = None;
    }

    /// Deselects it; a command that changes something is carried out if it ends with a whole byte.
    pub(super) fn deselect(&mut self, now: Ps) {
        let Some(t) = self.transfer.take().filter(|t| t.bits.is_multiple_of(8)) else {
            return;
        };
        let Some(command) = t.command.map(|n| &COMMANDS[n]) else {
            return;
        };
        let data = t.bits / 8 - 1;
        let complete = data == command.address + command.dummy;
        let done = match command.deed {
            Deed::WriteEnable | Deed::WriteDisable if complete => {
                self.write_enabled = command.deed == Deed::WriteEnable;
                return;
            }
            Deed::Program if self.write_enabled && !t.page.is_empty() => {
                self.program(t.address / PAGE as u32, &t.page);
                true
            }
            Deed::Erase(size) if self.write_enabled && complete => {
                self.erase(t.address / size * size, size);
                true
            }
            _ => false,
        };
        if done {
            self.write_enabled = false;
            self.busy_until = now.saturating_add(Ps::from_ns(command.busy_us * 1000));
        }
    }

    /// A bit in each direction. `now` is when its byte began.
    pub(super) fn bit(&mut self, input: bool, now: Ps) -> bool {
        let Some(mut t) = self.transfer.take() else {
            // Nobody drives the line.
            return true;
        };
        if t.bits.is_multiple_of(8) {
            t.output = self.output(&t, now);
        }
        let output = t.output & 0x80 != 0;
        t.output <<= 1;
        t.input = t.input << 1 | u8::from(input);
        t.bits += 1;
        if t.bits.is_multiple_of(8) {
            self.input(&mut t, now);
        }
        self.transfer = Some(t);
        output
    }

    /// A byte has arrived.
    fn input(&self, t: &mut Transfer, now: Ps) {
        let n = t.bits / 8 - 1;
        if n == 0 {
            let known = COMMANDS.iter().position(|c| c.opcode == t.input);
            t.command =
                known.filter(|&c| COMMANDS[c].deed == Deed::Status || now >= self.busy_until);
            return;
        }
        let Some(command) = t.command.map(|n| &COMMANDS[n]) else {
            return;
        };
        if n <= command.address {
            t.address = (t.address << 8 | u32::from(t.input)) % SIZE;
        } else if command.deed == Deed::Program {
            // Behind the page's end it goes on at its beginning.
            let place = u64::from(t.address) + (n - command.address - 1);
            t.page.insert(place as u8, t.input);
        }
    }

    /// The byte that goes out next.
    fn output(&self, t: &Transfer, now: Ps) -> u8 {
        let command = t.command.map(|n| &COMMANDS[n]);
        let data = command.and_then(|c| {
            let n = (t.bits / 8).checked_sub(1 + c.address + c.dummy)?;
            Some((c.deed, n))
        });
        let Some((deed, n)) = data else {
            return ERASED;
        };
        let at = u64::from(t.address) + n;
        match deed {
            Deed::Status => {
                let busy = now < self.busy_until;
                let enabled = self.write_enabled || busy;
                let bits = [(busy, status::BUSY), (enabled, status::WRITE_ENABLED)];
                bits.iter().filter(|b| b.0).map(|b| b.1).sum()
            }
            Deed::Id => ID.get(n as usize).copied().unwrap_or(ERASED),
            Deed::Parameters => {
                let word = PARAMETERS.get(at as usize / 4);
                word.map_or(ERASED, |w| w.to_le_bytes()[at as usize % 4])
            }
            Deed::Read => {
                let at = (at % u64::from(SIZE)) as u32;
                let page = self.pages.get(&(at / PAGE as u32));
                page.map_or(ERASED, |p| p[at as usize % PAGE])
            }
            _ => ERASED,
        }
    }

    /// Programming only clears bits.
    fn program(&mut self, page: u32, bytes: &BTreeMap<u8, u8>) {
        let content = self.pages.entry(page).or_insert_with(|| vec![ERASED; PAGE]);
        for (&place, byte) in bytes {
            content[usize::from(place)] &= byte;
        }
        if content.iter().all(|b| *b == ERASED) {
            self.pages.remove(&page);
        }
    }

    fn erase(&mut self, from: u32, size: u32) {
        let pages = from / PAGE as u32..(from + size) / PAGE as u32;
        self.pages.retain(|page, _| !pages.contains(page));
    }

    /// After the machine's power was off: the content stays. An operation that was under way has ended.
    pub(super) fn power_on(&mut self) {
        *self = Flash {
            pages: std::mem::take(&mut self.pages),
            ..Flash::default()
        };
    }

    pub(super) fn save(&self) -> Saved {
        Saved {
            pages: self
                .pages
                .iter()
                .map(|(n, p)| (*n, BASE64.encode(p)))
                .collect(),
            write_enabled: self.write_enabled,
            busy_until: self.busy_until,
            transfer: self.transfer.clone(),
        }
    }
}

/// Saved state of the chip: what is not blank, in base64 by the page's number.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved {
    pages: Vec<(u32, String)>,
    write_enabled: bool,
    busy_until: Ps,
    transfer: Option<Transfer>,
}

impl Saved {
    /// Number of pages that are not blank.
    #[cfg(test)]
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn load(self) -> Result<Flash, String> {
        let mut pages = BTreeMap::new();
        for (number, text) in self.pages {
            let bytes = BASE64
                .decode(&text)
                .map_err(|e| format!("page {number}: {e}"))?;
            if number >= SIZE / PAGE as u32 || bytes.len() != PAGE {
                return Err(format!(
                    "page {number} of {} bytes: the flash has {} pages of {PAGE}",
                    bytes.len(),
                    SIZE / PAGE as u32
                ));
            }
            pages.insert(number, bytes);
        }
        let possible = |t: &Transfer| {
            t.command.is_none_or(|c| c < COMMANDS.len() && t.bits >= 8)
                && t.address < SIZE
                && t.bits < MAX_BITS
        };
        if !self.transfer.as_ref().is_none_or(possible) {
            return Err("a command that the flash does not have".into());
        }
        Ok(Flash {
            pages,
            write_enabled: self.write_enabled,
            busy_until: self.busy_until,
            transfer: self.transfer,
        })
    }
}
