//! Writing traces.

use std::io::{self, BufWriter, Write};

use nagori_memtime::request::Kind;

use crate::binary;
use crate::bus::Transfer;
use crate::error::{Error, Place};
use crate::format::{Compression, Format};
use crate::gem5;
use crate::record::{Record, Times, LINE};

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Level of zstd: traces are written once and read often.
const ZSTD_LEVEL: i32 = 9;

enum Sink<W: Write> {
    Plain(BufWriter<W>),
    Gzip(flate2::write::GzEncoder<BufWriter<W>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<W>>),
}

impl<W: Write> Sink<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(w) => w.write_all(data),
            Sink::Gzip(w) => w.write_all(data),
            Sink::Zstd(w) => w.write_all(data),
        }
    }

    fn finish(self) -> io::Result<W> {
        let buffer = match self {
            Sink::Plain(w) => w,
            Sink::Gzip(w) => w.finish()?,
            Sink::Zstd(w) => w.finish()?,
        };
        buffer.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

/// Turns an address into a DRAM address vector (channel first, column in bursts).
pub type Decompose = Box<dyn Fn(u64) -> Result<Vec<u64>, String> + Send>;

/// What some formats need besides the accesses.
#[derive(Default)]
pub struct Details {
    /// Address vectors, for [`Format::RamulatorVector`].
    pub decompose: Option<Decompose>,
    /// Name of the region, for [`Format::Bus`]: one word.
    pub region: Option<String>,
}

/// Writes a trace. Without [`Writer::finish`] it is incomplete, and a reader
/// of a compressed or binary trace will say so.
pub struct Writer<W: Write> {
    name: String,
    format: Format,
    times: Times,
    sink: Sink<W>,
    out: Vec<u8>,
    message: Vec<u8>,
    last: binary::Last,
    in_block: u32,
    crc: flate2::Crc,
    count: u64,
    decompose: Decompose,
    region: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace whose records have times of the unit `times`. Times are left out if the
    /// format has none. Formats that need [`Details`] are refused.
    pub fn new(
        name: String,
        to: W,
        format: Format,
        compression: Compression,
        times: Times,
    ) -> Result<Writer<W>, Error> {
        Writer::with_details(name, to, format, compression, times, Details::default())
    }

    /// As [`Writer::new`], for all formats. A bus trace has no harts, program counters and latencies: its lines say
    /// hart 0, address 0, `load` or `evict`, and no latency.
    pub fn with_details(
        name: String,
        to: W,
        format: Format,
        compression: Compression,
        times: Times,
        details: Details,
    ) -> Result<Writer<W>, Error> {
        let wrong = |what: &str| Error::Format {
            name: name.clone(),
            what: format!("{format}: {what}"),
        };
        let mut out = Vec::new();
        match (format, times) {
            (Format::RamulatorVector, _) if details.decompose.is_none() => {
                return Err(wrong(
                    "address vectors need a memory whose address mapping is known",
                ))
            }
            (Format::Bus, _) if details.region.as_ref().is_none_or(|r| !is_word(r)) => {
                return Err(wrong("needs the name of a region, one word"))
            }
            (Format::Dramsim3 | Format::Nvmain, Times::Ticks(_)) => {
                return Err(wrong("has cycles, the trace has ticks of a fixed length"))
            }
            (Format::Gem5 | Format::Gem5Text | Format::Bus, Times::Cycles) => {
                return Err(wrong("has ticks of a fixed length, the trace has cycles"))
            }
            (Format::Gem5Text | Format::Bus, Times::Ticks(t)) if t.0 != 1 => {
                return Err(wrong("ticks are 1 ps in this format"))
            }
            (Format::Gem5, _) => {
                let tick = match times {
                    Times::Ticks(t) => t,
                    _ => nagori_memtime::Ps(1),
                };
                gem5::put_header(tick, &mut out).map_err(|e| wrong(&e))?;
            }
            (Format::Nagori, _) => out.extend_from_slice(&binary::header(times)),
            _ => {}
        }
        let to = BufWriter::with_capacity(1 << 18, to);
        let io_error = |source| Error::Io {
            name: name.clone(),
            source,
        };
        let mut sink = match compression {
            Compression::None => Sink::Plain(to),
            Compression::Gzip => Sink::Gzip(flate2::write::GzEncoder::new(
                to,
                flate2::Compression::default(),
            )),
            Compression::Zstd => {
                let mut e = zstd::stream::write::Encoder::new(to, ZSTD_LEVEL).map_err(io_error)?;
                e.include_checksum(true).map_err(io_error)?;
                Sink::Zstd(e)
            }
        };
        sink.write(&out).map_err(io_error)?;
        out.clear();
        Ok(Writer {
            name,
            format,
            times,
            sink,
            out,
            message: Vec::new(),
            last: binary::Last::default(),
            in_block: 0,
            crc: flate2::Crc::new(),
            count: 0,
            decompose: details
                .decompose
                .unwrap_or_else(|| Box::new(|_| Err("no address mapping".into()))),
            region: details.region.unwrap_or_default().into_bytes(),
        })
    }

    /// Records written.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Writes one record. An error if the format cannot express its size.
    pub fn push(&mut self, r: &Record) -> Result<(), Error> {
        self.count += 1;
        let malformed = |what: String| Error::Malformed {
            name: self.name.clone(),
            place: Place::Record(self.count),
            what,
        };
        if !self.format.has_lengths() && r.bytes != LINE {
            return Err(malformed(format!(
                "{} bytes: accesses of the format {} have {LINE}",
                r.bytes, self.format
            )));
        }
        let (addr, time) = (r.addr, r.time);
        let read = r.kind == Kind::Read;
        let word = |a, b| if read { a } else { b };
        let out = &mut self.out;
        // Writing to a vector does not fail.
        let _ = match self.format {
            Format::Ramulator => writeln!(out, "{} {addr:#x}", word("LD", "ST")),
            Format::Dramsim3 => writeln!(out, "{addr:#x} {} {time}", word("READ", "WRITE")),
            Format::Nvmain => writeln!(out, "{time} {} {addr:#x} {:0128} 0", word("R", "W"), 0),
            Format::Gem5Text => {
                writeln!(out, "{},{addr},{},0,{time}", word("r", "w"), r.bytes)
            }
            Format::Gem5 => {
                gem5::put_packet(r, &mut self.message, out);
                Ok(())
            }
            Format::Nagori => {
                let times = self.times != Times::None;
                binary::encode(r, times, &mut self.last, out);
                self.in_block += 1;
                if self.in_block as usize == binary::BLOCK {
                    return self.block();
                }
                return Ok(());
            }
            Format::RamulatorVector => {
                let levels = (self.decompose)(addr).map_err(malformed)?;
                let levels: Vec<_> = levels.iter().map(u64::to_string).collect();
                writeln!(out, "{} {}", word("R", "W"), levels.join(","))
            }
            Format::Bus => Transfer {
                time,
                hart: 0,
                pc: 0,
                reason: word("load", "evict").as_bytes(),
                kind: r.kind,
                offset: addr,
                region: &self.region,
                latency: None,
            }
            .write(out),
        };
        if self.out.len() >= 1 << 16 {
            self.flush()?;
        }
        Ok(())
    }

    fn io<T>(&self, r: io::Result<T>) -> Result<T, Error> {
        r.map_err(|source| Error::Io {
            name: self.name.clone(),
            source,
        })
    }

    fn flush(&mut self) -> Result<(), Error> {
        let r = self.sink.write(&self.out);
        self.out.clear();
        self.io(r)
    }

    fn block(&mut self) -> Result<(), Error> {
        if self.in_block == 0 {
            return Ok(());
        }
        let mut head = [0; 8];
        head[..4].copy_from_slice(&self.in_block.to_le_bytes());
        head[4..].copy_from_slice(&(self.out.len() as u32).to_le_bytes());
        let r = self.sink.write(&head);
        self.io(r)?;
        self.crc.update(&self.out);
        self.in_block = 0;
        self.last = binary::Last::default();
        self.flush()
    }

    /// Writes the end, and returns the underlying writer.
    pub fn finish(mut self) -> Result<W, Error> {
        if self.format == Format::Nagori {
            self.block()?;
            self.out.extend_from_slice(&0u32.to_le_bytes());
            self.out.extend_from_slice(&self.count.to_le_bytes());
            self.out.extend_from_slice(&self.crc.sum().to_le_bytes());
        }
        self.flush()?;
        let name = self.name;
        self.sink
            .finish()
            .map_err(|source| Error::Io { name, source })
    }
}
