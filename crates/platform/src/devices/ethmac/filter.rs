//! Which frames a MAC takes, and control frames (IEEE 802.3, annexes 31A and 31B).

/// Bits of the mode register that say which frames are taken.
mod mode {
    pub const REJECT_BROADCAST: u32 = 1 << 3;
    /// The hash table is for addresses of single interfaces, too.
    pub const HASH_ALL: u32 = 1 << 4;
    pub const PROMISCUOUS: u32 = 1 << 5;
}

const BROADCAST: [u8; 6] = [0xff; 6];
/// Where control frames go.
const CONTROL: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x01];
const CONTROL_TYPE: [u8; 2] = [0x88, 0x08];
const PAUSE: [u8; 2] = [0, 1];
/// Length of a control frame without its check sequence.
const CONTROL_LENGTH: usize = 60;

/// Whether a frame is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It is not.
    No,
    /// It is for this interface.
    Yes,
    /// It is for others, but all are taken.
    ForAll,
}

/// The bit of the hash table for an address: the six high bits of its CRC.
pub fn hash_bit(address: &[u8]) -> u32 {
    // The CRC with its highest power first.
    (!crc32fast::hash(address)).reverse_bits() >> 26
}

/// Whether a frame is taken, by mode, own address and hash table.
pub fn accepts(frame: &[u8], mode: u32, own: &[u8; 6], hash: [u32; 2]) -> Accepted {
    let Some(to) = frame.get(..6) else {
        return Accepted::No;
    };
    let bit = hash_bit(to);
    let hashed = hash[(bit / 32) as usize] >> (bit % 32) & 1 != 0;
    let matches = if to == BROADCAST {
        mode & mode::REJECT_BROADCAST == 0
    } else if to[0] & 1 != 0 {
        hashed
    } else {
        to == own || mode & mode::HASH_ALL != 0 && hashed
    };
    match (matches, mode & mode::PROMISCUOUS != 0) {
        (true, _) => Accepted::Yes,
        (false, true) => Accepted::ForAll,
        (false, false) => Accepted::No,
    }
}

/// The length of the pause that a frame asks for, in units of 512 bit times.
pub fn paused(frame: &[u8]) -> Option<u16> {
    let is = frame.get(..6)? == CONTROL
        && frame.get(12..14)? == CONTROL_TYPE
        && frame.get(14..16)? == PAUSE;
    let units = frame.get(16..18)?;
    is.then(|| u16::from_be_bytes([units[0], units[1]]))
}

/// A frame that asks for a pause.
pub fn pause(from: &[u8; 6], units: u16) -> Vec<u8> {
    let mut f = [
        &CONTROL[..],
        from,
        &CONTROL_TYPE,
        &PAUSE,
        &units.to_be_bytes(),
    ]
    .concat();
    f.resize(CONTROL_LENGTH, 0);
    f
}
