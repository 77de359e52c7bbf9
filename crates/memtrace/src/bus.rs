//! Traces of the line transfers of a machine's bus, one text line for each cache line:
//!
//! ```text
//! 660000 h0 0x80001234 load r 0x1a40 nvmm 575000
//! ```
//!
//! The time in picoseconds at which the request reached its controller, the hart, the program
//! counter, the reason (`load`, `store`, `fetch`, `page-walk`, `evict`, `flush`, `probe`,
//! `prefetch`, `combine`, `device`), the
//! direction (`r`, `w`), the offset in the region's memory, the region (`board` for memory behind
//! the board's controller), and the latency in picoseconds until the first beat or the response
//! (`-` if the run ended before). Lines are in the order of time.

use std::io::{self, Write};

use nagori_memtime::request::Kind;

use crate::line::Wrong;
use crate::record::{Record, LINE};

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// Arrival at the controller in picoseconds.
    pub time: u64,
    /// Hart that sent the request.
    pub hart: u32,
    /// Its program counter.
    pub pc: u64,
    /// Reason of the transfer.
    pub reason: &'a [u8],
    /// Direction.
    pub kind: Kind,
    /// Offset in the region's memory.
    pub offset: u64,
    /// Region.
    pub region: &'a [u8],
    /// Latency until first beat or response, in picoseconds.
    pub latency: Option<u64>,
}

impl Transfer<'_> {
    /// As an access of a memory trace.
    pub fn record(&self) -> Record {
        Record {
            addr: self.offset,
            kind: self.kind,
            bytes: LINE,
            time: self.time,
        }
    }

    /// Writes the line.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let direction = match self.kind {
            Kind::Read => 'r',
            Kind::Write => 'w',
        };
        write!(to, "{} h{} {:#x} ", self.time, self.hart, self.pc)?;
        to.write_all(self.reason)?;
        write!(to, " {direction} {:#x} ", self.offset)?;
        to.write_all(self.region)?;
        match self.latency {
            Some(l) => writeln!(to, " {l}"),
            None => writeln!(to, " -"),
        }
    }
}

/// Reads a line without its end.
pub fn parse(line: &[u8]) -> Result<Transfer<'_>, Wrong> {
    let mut fields = line
        .split(|b| b.is_ascii_whitespace())
        .filter(|f| !f.is_empty());
    let mut next = |what: &str| {
        fields
            .next()
            .ok_or_else(|| Wrong::Short(format!("no {what}")))
    };
    let text = |f: &[u8]| String::from_utf8_lossy(f).into_owned();
    let number = |f: &[u8], what: &str| -> Result<u64, String> {
        let value = std::str::from_utf8(f).ok().and_then(|t| t.parse().ok());
        value.ok_or_else(|| format!("no {what}: '{}'", text(f)))
    };
    let hex = |f: &[u8], what: &str| -> Result<u64, String> {
        let digits = std::str::from_utf8(f)
            .ok()
            .and_then(|t| t.strip_prefix("0x"));
        let value = digits.and_then(|d| u64::from_str_radix(d, 16).ok());
        value.ok_or_else(|| format!("no {what} in hexadecimal: '{}'", text(f)))
    };
    let time = number(next("time")?, "time")?;
    let hart = next("hart")?;
    let hart = match hart.strip_prefix(b"h").map(|n| number(n, "hart")) {
        Some(n) => u32::try_from(n?).map_err(|e| format!("hart: {e}"))?,
        None => return Err(format!("no hart: '{}'", text(hart)).into()),
    };
    let pc = hex(next("program counter")?, "program counter")?;
    let reason = next("reason")?;
    let kind = match next("direction")? {
        b"r" => Kind::Read,
        b"w" => Kind::Write,
        other => return Err(format!("no direction: '{}'", text(other)).into()),
    };
    let offset = hex(next("offset")?, "offset")?;
    let region = next("region")?;
    let latency = match next("latency")? {
        b"-" => None,
        l => Some(number(l, "latency")?),
    };
    match fields.next() {
        Some(f) => Err(format!("too many fields ('{}')", text(f)).into()),
        None => Ok(Transfer {
            time,
            hart,
            pc,
            reason,
            kind,
            offset,
            region,
            latency,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        for (kind, latency) in [(Kind::Read, Some(575_000)), (Kind::Write, None)] {
            let t = Transfer {
                time: 660_000,
                hart: 3,
                pc: 0x8000_1234,
                reason: b"page-walk",
                kind,
                offset: 0x1a40,
                region: b"nvmm",
                latency,
            };
            let mut line = Vec::new();
            t.write(&mut line).unwrap();
            assert_eq!(parse(line.trim_ascii()), Ok(t));
        }
    }

    #[test]
    fn what_is_no_transfer_is_named() {
        for (line, what) in [
            ("", "no time"),
            ("x h0 0x1 load r 0x40 board 1", "no time: 'x'"),
            ("1 0 0x1 load r 0x40 board 1", "no hart: '0'"),
            ("1 h5000000000 0x1 load r 0x40 board 1", "hart:"),
            ("1 h0 1 load r 0x40 board 1", "no program counter"),
            ("1 h0 0x1 load x 0x40 board 1", "no direction"),
            ("1 h0 0x1 load r 40 board 1", "no offset"),
            ("1 h0 0x1 load r 0x40 board", "no latency"),
            ("1 h0 0x1 load r 0x40 board 1 2", "too many fields"),
        ] {
            let e = parse(line.as_bytes()).unwrap_err();
            assert!(e.to_string().contains(what), "{line}: {e}");
        }
    }
}
