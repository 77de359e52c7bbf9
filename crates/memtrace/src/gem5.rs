//! gem5's packet traces in protocol buffers.
//!
//! A file is the word `gem5`, then messages, each preceded by its length as a varint: one
//! `PacketHeader`, then `Packet`s (gem5, `src/proto/packet.proto`).

use nagori_memtime::request::Kind;
use nagori_memtime::Ps;

use crate::binary::{put_varint, varint};
use crate::line::Line;
use crate::record::{Record, MAX_BYTES};

/// First bytes of a file.
pub const MAGIC: [u8; 4] = *b"gem5";
/// Longest message accepted.
pub(crate) const MAX_MESSAGE: u64 = 1 << 20;
/// `MemCmd::ReadReq` and `MemCmd::WriteReq`, as in gem5's own decoder.
const READ_REQ: u64 = 1;
const WRITE_REQ: u64 = 4;
/// Ticks of gem5's default of 1 ps.
const DEFAULT_FREQUENCY: u64 = 1_000_000_000_000;

/// Calls `f` with number and value of each varint field; other fields are skipped.
fn fields(data: &[u8], mut f: impl FnMut(u64, u64)) -> Result<(), String> {
    let bad = || "a malformed protocol buffer message".to_string();
    let mut at = 0;
    while at < data.len() {
        let tag = varint(data, &mut at).ok_or_else(bad)?;
        let skip = match tag & 7 {
            0 => {
                f(tag >> 3, varint(data, &mut at).ok_or_else(bad)?);
                0
            }
            1 => 8,
            2 => varint(data, &mut at).ok_or_else(bad)?,
            5 => 4,
            _ => return Err(bad()),
        };
        if skip > (data.len() - at) as u64 {
            return Err(bad());
        }
        at += skip as usize;
    }
    Ok(())
}

/// Length of a tick, from a `PacketHeader`.
pub(crate) fn header(data: &[u8]) -> Result<Ps, String> {
    let mut frequency = None;
    fields(data, |n, v| {
        if n == 3 {
            frequency = Some(v);
        }
    })?;
    match frequency {
        Some(f) if f > 0 && DEFAULT_FREQUENCY.is_multiple_of(f) => Ok(Ps(DEFAULT_FREQUENCY / f)),
        Some(f) => Err(format!(
            "a tick frequency of {f} Hz: a tick must be a whole number of ps"
        )),
        None => Err("a packet header without tick frequency".into()),
    }
}

/// A `Packet`.
pub(crate) fn packet(data: &[u8]) -> Result<Line, String> {
    let mut v = [None; 5];
    fields(data, |n, value| {
        if let Some(slot) = v.get_mut(n as usize) {
            *slot = Some(value);
        }
    })?;
    let [_, Some(time), Some(cmd), Some(addr), Some(size)] = v else {
        return Err("a packet without tick, cmd, addr or size".into());
    };
    let kind = match cmd {
        READ_REQ => Kind::Read,
        WRITE_REQ => Kind::Write,
        _ => return Ok(Line::Other),
    };
    let bytes = u32::try_from(size)
        .ok()
        .filter(|b| (1..=MAX_BYTES).contains(b))
        .ok_or_else(|| format!("a packet of {size} bytes (1 to {MAX_BYTES} are possible)"))?;
    Ok(Line::Record(Record {
        addr,
        kind,
        bytes,
        time,
    }))
}

fn put_field(n: u64, v: u64, out: &mut Vec<u8>) {
    put_varint(n << 3, out);
    put_varint(v, out);
}

/// Magic and header message of a trace whose ticks are `tick` long.
pub(crate) fn put_header(tick: Ps, out: &mut Vec<u8>) -> Result<(), String> {
    if tick.0 == 0 || !DEFAULT_FREQUENCY.is_multiple_of(tick.0) {
        return Err(format!("{tick} is no whole part of a second"));
    }
    let object = b"nagori";
    let mut message = vec![1 << 3 | 2, object.len() as u8];
    message.extend_from_slice(object);
    put_field(3, DEFAULT_FREQUENCY / tick.0, &mut message);
    out.extend_from_slice(&MAGIC);
    put_varint(message.len() as u64, out);
    out.extend_from_slice(&message);
    Ok(())
}

/// Appends a `Packet` message; `message` is scratch space for it.
pub(crate) fn put_packet(r: &Record, message: &mut Vec<u8>, out: &mut Vec<u8>) {
    message.clear();
    let cmd = match r.kind {
        Kind::Read => READ_REQ,
        Kind::Write => WRITE_REQ,
    };
    for (n, v) in [(1, r.time), (2, cmd), (3, r.addr), (4, r.bytes.into())] {
        put_field(n, v, message);
    }
    put_varint(message.len() as u64, out);
    out.extend_from_slice(message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages() {
        let r = Record {
            addr: 0x1234_5640,
            kind: Kind::Write,
            bytes: 32,
            time: 777,
        };
        let mut out = Vec::new();
        put_packet(&r, &mut Vec::new(), &mut out);
        assert_eq!(packet(&out[1..]), Ok(Line::Record(r)));
        // Flags (5) and pc (7) are skipped; other commands are reported.
        let mut more = out[1..].to_vec();
        put_field(5, 1 << 40, &mut more);
        put_field(7, 3, &mut more);
        assert_eq!(packet(&more), Ok(Line::Record(r)));
        put_field(2, 7, &mut more);
        assert_eq!(packet(&more), Ok(Line::Other));
        assert!(packet(&out[1..4]).is_err());
        let mut h = Vec::new();
        put_header(Ps(500), &mut h).unwrap();
        assert_eq!(header(&h[5..]), Ok(Ps(500)));
        assert!(put_header(Ps(7), &mut h).is_err());
        assert!(header(&[]).unwrap_err().contains("without tick frequency"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(data in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = header(&data);
            let _ = packet(&data);
        }
    }
}
