//! The formats of traces.

use std::fmt;
use std::str::FromStr;

/// A trace format. Sources: the readers of Ramulator 2 (`LoadStoreTrace`,
/// `ReadWriteTrace`), DRAMsim3 (`TraceBasedCPU`), NVMain (`NVMainTraceReader`)
/// and gem5 (`packet.proto`, `decode_packet_trace.py`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Ramulator 2 `LoadStoreTrace`: `LD addr` or `ST addr`.
    Ramulator,
    /// Ramulator 2 `ReadWriteTrace`: `R v,v,...` or `W v,v,...`, a DRAM address vector.
    RamulatorVector,
    /// DRAMsim3: `addr op cycle`.
    Dramsim3,
    /// NVMain: `cycle R|W addr data [old data] [thread]`.
    Nvmain,
    /// gem5 packet trace as protocol buffers.
    Gem5,
    /// gem5 packet trace as gem5's decoder prints it: `[id,]r|w,addr,size[,flags],tick[,pc]`.
    Gem5Text,
    /// Line transfers of a machine's bus, see [`crate::bus`].
    Bus,
    /// Our compact binary format, see [`crate::binary`].
    Nagori,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 8] = [
        Format::Ramulator,
        Format::RamulatorVector,
        Format::Dramsim3,
        Format::Nvmain,
        Format::Gem5,
        Format::Gem5Text,
        Format::Bus,
        Format::Nagori,
    ];

    /// Name on command lines and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Ramulator => "ramulator",
            Format::RamulatorVector => "ramulator-vector",
            Format::Dramsim3 => "dramsim3",
            Format::Nvmain => "nvmain",
            Format::Gem5 => "gem5",
            Format::Gem5Text => "gem5-text",
            Format::Bus => "bus",
            Format::Nagori => "nagori",
        }
    }

    /// The form of a line, or the kind of file.
    pub const fn form(self) -> &'static str {
        match self {
            Format::Ramulator => "'LD addr' or 'ST addr' (decimal, or hexadecimal with 0x)",
            Format::RamulatorVector => "'R v,v,...' or 'W v,v,...' (decimal, channel first)",
            Format::Dramsim3 => "'addr READ|WRITE cycle' (addr hexadecimal)",
            Format::Nvmain => "'cycle R|W addr [data [old-data] [thread]]' (addr hexadecimal)",
            Format::Gem5 => "a gem5 packet trace in protocol buffers",
            Format::Gem5Text => "'[id,]r|w,addr,size[,flags],tick[,pc]' (decimal)",
            Format::Bus => {
                "'ps hHART pc reason r|w offset region latency' (offset and pc hexadecimal)"
            }
            Format::Nagori => "a Nagori binary trace",
        }
    }

    /// Whether a line is a record.
    pub const fn is_text(self) -> bool {
        !matches!(self, Format::Gem5 | Format::Nagori)
    }

    /// Whether records carry a time.
    pub const fn has_times(self) -> bool {
        !matches!(self, Format::Ramulator | Format::RamulatorVector)
    }

    /// Whether records carry a length in bytes; otherwise they are lines.
    pub const fn has_lengths(self) -> bool {
        matches!(self, Format::Gem5 | Format::Gem5Text | Format::Nagori)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(s: &str) -> Result<Format, String> {
        Format::ALL
            .into_iter()
            .find(|f| f.name() == s)
            .ok_or_else(|| {
                let names: Vec<_> = Format::ALL.iter().map(|f| f.name()).collect();
                format!("expected one of {}", names.join(", "))
            })
    }
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Compression {
    /// First bytes of a file, and of each of its members.
    pub(crate) const fn magic(self) -> &'static [u8] {
        match self {
            Compression::None => &[],
            Compression::Gzip => &[0x1f, 0x8b],
            Compression::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
        }
    }

    /// Name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Compression::None => "plain",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    /// Recognised by the first bytes of a file.
    pub fn detect(head: &[u8]) -> Compression {
        let mut all = [Compression::Gzip, Compression::Zstd].into_iter();
        let found = all.find(|c| head.starts_with(c.magic()));
        found.unwrap_or(Compression::None)
    }

    /// Chosen by a file's name: `.gz`, `.zst`.
    pub fn of_name(name: &str) -> Compression {
        if name.ends_with(".gz") {
            Compression::Gzip
        } else if name.ends_with(".zst") {
            Compression::Zstd
        } else {
            Compression::None
        }
    }
}
