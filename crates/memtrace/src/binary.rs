//! Our compact binary format.
//!
//! All numbers are little-endian. A file is a header, blocks, and an end:
//!
//! ```text
//! header  8 bytes  magic 8F 'N' 'G' 'T' 'R' 'C' 0D 0A
//!         1        version, 1
//!         1        times: 0 none, 1 cycles, 2 ticks
//!         8        length of a tick in ps (0 unless ticks)
//! block   4        number of records, 1 to 4096
//!         4        length of the records in bytes
//!         n        records
//! end     4        0
//!         8        number of all records
//!         4        CRC-32 of the records of all blocks
//! ```
//! A record is a control byte (bit 0: write; bit 1: the size differs from the
//! record before; bits 2 to 5: number of bytes, 0 to 8, of the address
//! difference; bits 6 and 7: 0), the difference of the address from the
//! record before (zigzag), the size as a varint if it differs, and, if there
//! are times, the difference of the time from the record before as a zigzag
//! varint. At the start of a block, address and time before are 0 and the size is 64.

use nagori_memtime::request::Kind;
use nagori_memtime::Ps;

use crate::record::{Record, Times, LINE, MAX_BYTES};

/// First bytes of a file.
pub const MAGIC: [u8; 8] = [0x8f, b'N', b'G', b'T', b'R', b'C', 0x0d, 0x0a];
/// Version written and read.
pub const VERSION: u8 = 1;
/// Records in a block, at most.
pub const BLOCK: usize = 4096;
/// Bytes of a header.
pub const HEADER: usize = 18;
/// Longest record: control, address, size, time.
const MAX_RECORD: usize = 1 + 8 + 5 + 10;
/// Longest block.
pub const MAX_PAYLOAD: usize = BLOCK * MAX_RECORD;

/// State from which a record is predicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    addr: u64,
    time: u64,
    bytes: u32,
}

impl Default for Last {
    fn default() -> Last {
        Last {
            addr: 0,
            time: 0,
            bytes: LINE,
        }
    }
}

/// The header of a trace.
pub(crate) fn header(times: Times) -> [u8; HEADER] {
    let (code, tick) = match times {
        Times::None => (0, 0),
        Times::Cycles => (1, 0),
        Times::Ticks(p) => (2, p.0),
    };
    let mut h = [0; HEADER];
    h[..8].copy_from_slice(&MAGIC);
    h[8] = VERSION;
    h[9] = code;
    h[10..].copy_from_slice(&tick.to_le_bytes());
    h
}

/// Reads a header.
pub(crate) fn parse_header(h: &[u8; HEADER]) -> Result<Times, String> {
    if h[8] != VERSION {
        return Err(format!(
            "version {} of the format; this program reads version {VERSION}",
            h[8]
        ));
    }
    let tick = u64::from_le_bytes(h[10..].try_into().expect("eight bytes"));
    match (h[9], tick) {
        (0, 0) => Ok(Times::None),
        (1, 0) => Ok(Times::Cycles),
        (2, t) if t > 0 => Ok(Times::Ticks(Ps(t))),
        (kind, tick) => Err(format!("times of unknown kind {kind} with tick {tick} ps")),
    }
}

fn zigzag(v: u64) -> u64 {
    (v << 1) ^ ((v as i64 >> 63) as u64)
}

fn unzigzag(v: u64) -> u64 {
    (v >> 1) ^ (v & 1).wrapping_neg()
}

pub(crate) fn put_varint(mut v: u64, out: &mut Vec<u8>) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Reads a varint at `at` and advances `at`; `None` if it is truncated or longer than 64 bits.
#[inline]
pub(crate) fn varint(data: &[u8], at: &mut usize) -> Option<u64> {
    let mut v = 0u64;
    for shift in (0..64).step_by(7) {
        let b = *data.get(*at)?;
        *at += 1;
        if shift == 63 && b > 1 {
            return None;
        }
        v |= u64::from(b & 0x7f) << shift;
        if b & 0x80 == 0 {
            return Some(v);
        }
    }
    None
}

pub(crate) fn encode(r: &Record, times: bool, last: &mut Last, out: &mut Vec<u8>) {
    let delta = zigzag(r.addr.wrapping_sub(last.addr));
    let n = (64 - delta.leading_zeros() as usize).div_ceil(8);
    let resized = r.bytes != last.bytes;
    let write = r.kind == Kind::Write;
    out.push(u8::from(write) | u8::from(resized) << 1 | (n as u8) << 2);
    out.extend_from_slice(&delta.to_le_bytes()[..n]);
    if resized {
        put_varint(r.bytes.into(), out);
    }
    if times {
        put_varint(zigzag(r.time.wrapping_sub(last.time)), out);
    }
    *last = Last {
        addr: r.addr,
        time: r.time,
        bytes: r.bytes,
    };
}

pub(crate) fn decode(
    data: &[u8],
    at: &mut usize,
    times: bool,
    last: &mut Last,
) -> Result<Record, String> {
    let cut = || "a record is cut off by the end of its block".to_string();
    let control = *data.get(*at).ok_or_else(cut)?;
    *at += 1;
    let n = usize::from(control >> 2);
    if n > 8 {
        return Err(format!("unknown control byte {control:#04x}"));
    }
    let mut raw = [0u8; 8];
    let bytes = data.get(*at..*at + n).ok_or_else(cut)?;
    raw[..n].copy_from_slice(bytes);
    *at += n;
    let delta = u64::from_le_bytes(raw);
    last.addr = last.addr.wrapping_add(unzigzag(delta));
    if control & 2 != 0 {
        let size = varint(data, at).ok_or_else(cut)?;
        last.bytes = u32::try_from(size)
            .ok()
            .filter(|b| (1..=MAX_BYTES).contains(b))
            .ok_or_else(|| format!("a size of {size} bytes (1 to {MAX_BYTES} are possible)"))?;
    }
    if times {
        let delta = varint(data, at).ok_or_else(cut)?;
        last.time = last.time.wrapping_add(unzigzag(delta));
    }
    Ok(Record {
        addr: last.addr,
        kind: match control & 1 {
            0 => Kind::Read,
            _ => Kind::Write,
        },
        bytes: last.bytes,
        time: last.time,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers(v: u64) {
            prop_assert_eq!(unzigzag(zigzag(v)), v);
            let mut out = Vec::new();
            put_varint(v, &mut out);
            let mut at = 0;
            prop_assert_eq!(varint(&out, &mut at), Some(v));
            prop_assert_eq!(at, out.len());
            prop_assert_eq!(varint(&out[..at - 1], &mut 0), None);
        }

        #[test]
        fn no_bytes_panic(data in proptest::collection::vec(any::<u8>(), 0..60), times: bool) {
            let (mut at, mut last) = (0, Last::default());
            while decode(&data, &mut at, times, &mut last).is_ok() {}
        }
    }

    #[test]
    fn a_sequential_record_takes_two_bytes() {
        let (mut out, mut last) = (Vec::new(), Last::default());
        for i in 0..3 {
            let r = Record {
                addr: i * 64,
                kind: Kind::Read,
                bytes: 64,
                time: 0,
            };
            encode(&r, false, &mut last, &mut out);
        }
        assert_eq!(out, [0, 4, 128, 4, 128]);
    }
}
