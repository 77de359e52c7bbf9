//! The transceiver behind the MAC, and the serial interface to its registers (IEEE 802.3, clause 22).

use serde::{Deserialize, Serialize};

/// Its address on the serial interface.
const ADDRESS: u16 = 0;

/// Registers of clause 22.
mod reg {
    pub const CONTROL: usize = 0;
    pub const STATUS: usize = 1;
    pub const ID_1: usize = 2;
    pub const ID_2: usize = 3;
    pub const ADVERTISED: usize = 4;
    pub const PARTNER: usize = 5;
    pub const EXPANSION: usize = 6;
}

mod control {
    pub const RESET: u16 = 1 << 15;
    pub const FAST: u16 = 1 << 13;
    pub const NEGOTIATE: u16 = 1 << 12;
    pub const RESTART: u16 = 1 << 9;
    pub const FULL_DUPLEX: u16 = 1 << 8;
    /// What software sets and reads back: loopback, speed, negotiation, power-down, isolation, duplex.
    pub const KEPT: u16 = 0x7d00;
}

mod status {
    /// 100 and 10 Mbit/s, in both directions at once or in turn.
    pub const ABLE: u16 = 0x7800;
    pub const NEGOTIATED: u16 = 1 << 5;
    pub const NEGOTIATES: u16 = 1 << 3;
    pub const LINK: u16 = 1 << 2;
    pub const EXTENDED: u16 = 1;
}

/// All four abilities, and the selector of IEEE 802.3.
const ABILITIES: u16 = 0x01e1;
const ACKNOWLEDGED: u16 = 1 << 14;
/// 100 Mbit/s in both directions at once, and in turn.
const ABILITIES_FAST: u16 = 0x0180;
/// Identifier of National's DP83848C, which drivers without special knowledge of it can handle.
const ID: [u16; 2] = [0x2000, 0x5c90];

/// State of the transceiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phy {
    control: u16,
    advertised: u16,
    /// Whether somebody is at the other end of the cable.
    pub up: bool,
    /// The link has been down since the last look at the status (it latches).
    was_down: bool,
}

impl Default for Phy {
    fn default() -> Self {
        Phy {
            control: control::FAST | control::NEGOTIATE | control::FULL_DUPLEX,
            advertised: ABILITIES,
            up: false,
            was_down: true,
        }
    }
}

impl Phy {
    /// The cable was plugged in or out.
    pub fn set_up(&mut self, up: bool) {
        self.was_down |= !up;
        self.up = up;
    }

    /// Picoseconds of a byte on the wire. The partner can do everything.
    pub fn byte_ps(&self) -> u64 {
        let fast = match self.control & control::NEGOTIATE {
            0 => self.control & control::FAST != 0,
            _ => self.advertised & ABILITIES_FAST != 0,
        };
        if fast {
            80_000
        } else {
            800_000
        }
    }

    fn status(&self) -> u16 {
        let mut s = status::ABLE | status::NEGOTIATES | status::EXTENDED;
        if self.up && self.control & control::NEGOTIATE != 0 {
            s |= status::NEGOTIATED;
        }
        if self.up && !self.was_down {
            s |= status::LINK;
        }
        s
    }

    /// Reads a register; addresses of other transceivers read ones.
    pub fn read(&mut self, address: u16, register: u16) -> u16 {
        if address != ADDRESS {
            return 0xffff;
        }
        match usize::from(register) {
            reg::CONTROL => self.control,
            reg::STATUS => {
                let s = self.status();
                self.was_down = !self.up;
                s
            }
            reg::ID_1 => ID[0],
            reg::ID_2 => ID[1],
            reg::ADVERTISED => self.advertised,
            reg::PARTNER if self.up => ABILITIES | ACKNOWLEDGED,
            reg::EXPANSION if self.up => 1,
            _ => 0,
        }
    }

    /// Writes a register.
    pub fn write(&mut self, address: u16, register: u16, value: u16) {
        if address != ADDRESS {
            return;
        }
        match usize::from(register) {
            reg::CONTROL if value & control::RESET != 0 => {
                let up = self.up;
                *self = Phy {
                    up,
                    ..Phy::default()
                };
            }
            // Negotiation ends at once, so a restart is over when it can be seen.
            reg::CONTROL => self.control = value & control::KEPT & !control::RESTART,
            reg::ADVERTISED => self.advertised = value & (ABILITIES | 0x1f),
            _ => {}
        }
    }

    /// Whether the link fails, as the MAC reports it after reading the status.
    pub fn link_fails(&self) -> bool {
        !self.up
    }
}
