//! Buffer descriptors of the MAC: 128 of 8 bytes, those for sending before those for receiving.

use serde::{Deserialize, Serialize};

/// How many there are.
pub const COUNT: usize = 128;

/// Bits of a descriptor's first word. Bits of sending and receiving share places.
pub mod bit {
    /// Sending: ready. Receiving: empty.
    pub const OWNED: u32 = 1 << 15;
    /// Its end sets an interrupt.
    pub const IRQ: u32 = 1 << 14;
    /// The last one.
    pub const WRAP: u32 = 1 << 13;
    /// Sending: short frames are padded.
    pub const PAD: u32 = 1 << 12;
    /// Sending: the CRC is appended.
    pub const CRC: u32 = 1 << 11;
    /// Sending: memory did not deliver in time.
    pub const UNDERRUN: u32 = 1 << 8;
    /// Sending: there was no carrier.
    pub const NO_CARRIER: u32 = 1 << 0;
    /// What the MAC writes when a frame has been sent.
    pub const SENT: u32 = 0x1ff;
    /// Receiving: a control frame.
    pub const CONTROL: u32 = 1 << 8;
    /// Receiving: accepted only because all addresses are.
    pub const MISS: u32 = 1 << 7;
    /// Receiving: memory did not take it in time.
    pub const OVERRUN: u32 = 1 << 6;
    /// Receiving: longer than allowed.
    pub const TOO_LONG: u32 = 1 << 3;
    /// Receiving: shorter than allowed.
    pub const SHORT: u32 = 1 << 2;
    /// What the MAC writes when a frame has come.
    pub const RECEIVED: u32 = 0x1ff;
}

/// All of them, with the next one of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptors {
    words: Vec<[u32; 2]>,
    send: usize,
    receive: usize,
    /// How many are for sending.
    of_send: usize,
}

impl Default for Descriptors {
    fn default() -> Self {
        Descriptors {
            words: vec![[0; 2]; COUNT],
            send: 0,
            receive: 64,
            of_send: 64,
        }
    }
}

impl Descriptors {
    /// Whether a saved state is possible.
    pub fn is_possible(&self) -> bool {
        self.words.len() == COUNT
            && self.of_send <= COUNT
            && self.send < COUNT
            && (self.of_send..=COUNT).contains(&self.receive)
    }

    /// The word at a number, 0 to 255.
    pub fn word(&mut self, n: usize) -> &mut u32 {
        &mut self.words[n / 2 % COUNT][n % 2]
    }

    /// The first `n` are for sending; both kinds begin anew.
    pub fn divide(&mut self, n: usize) {
        self.of_send = n.min(COUNT);
        self.rewind_send();
        self.rewind_receive();
    }

    /// The next one for sending is the first.
    pub fn rewind_send(&mut self) {
        self.send = 0;
    }

    /// The next one for receiving is the first.
    pub fn rewind_receive(&mut self) {
        self.receive = self.of_send;
    }

    /// The next one for sending, if it is ready: status and address.
    pub fn to_send(&self) -> Option<[u32; 2]> {
        let next = self.words[..self.of_send].get(self.send)?;
        (next[0] & bit::OWNED != 0).then_some(*next)
    }

    /// The next one for receiving, if it is empty: status and address.
    pub fn to_receive(&self) -> Option<[u32; 2]> {
        let next = self.words.get(self.receive)?;
        (next[0] & bit::OWNED != 0).then_some(*next)
    }

    /// The one that is being sent is done, with these bits.
    pub fn sent(&mut self, bits: u32) {
        let word = &mut self.words[self.send][0];
        *word = *word & !(bit::OWNED | bit::SENT) | bits;
        let wraps = *word & bit::WRAP != 0;
        self.send += 1;
        if wraps || self.send >= self.of_send {
            self.rewind_send();
        }
    }

    /// A frame of so many bytes is in the next one for receiving, which there is, with these bits.
    pub fn received(&mut self, length: usize, bits: u32) {
        let word = &mut self.words[self.receive][0];
        *word = *word & 0xffff & !(bit::OWNED | bit::RECEIVED) | bits | (length as u32) << 16;
        let wraps = *word & bit::WRAP != 0;
        self.receive += 1;
        if wraps || self.receive >= COUNT {
            self.rewind_receive();
        }
    }
}
