//! Reading traces as streams, decompressed on the way, in constant memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use nagori_memtime::Ps;

use crate::binary;
use crate::bus;
use crate::detect::first_line;
use crate::error::{Error, Place};
use crate::format::{Compression, Format};
use crate::gem5;
use crate::members::{is_trailing, Members};
use crate::record::{Record, Source, Times};
use crate::text::{self, Compose, Line};

/// How to read a trace.
#[derive(Default)]
pub struct Options {
    /// The format; `None`: recognise it by the first bytes.
    pub format: Option<Format>,
    /// Leaves out packets of gem5 that are neither reads nor writes (and
    /// counts them); otherwise they are errors.
    pub skip_other: bool,
    /// Turns address vectors into addresses.
    pub compose: Option<Compose>,
    /// Of a bus trace, only the transfers of this region; the others are left out (and counted).
    pub region: Option<String>,
}

/// How much of a trace has been read, for progress; can be asked from other threads.
#[derive(Clone, Debug, Default)]
pub struct Position(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicU64,
    failed: AtomicBool,
}

impl Position {
    /// Bytes read of the file as it is stored.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }
}

/// Counts the bytes read, and remembers whether this reader failed.
struct Counted<R>(R, Position);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf) {
            Ok(n) => {
                self.1 .0.bytes.fetch_add(n as u64, Ordering::Relaxed);
                Ok(n)
            }
            Err(e) => {
                if e.kind() != io::ErrorKind::Interrupted {
                    self.1 .0.failed.store(true, Ordering::Relaxed);
                }
                Err(e)
            }
        }
    }
}

/// Size of a buffer.
const BUFFER: usize = 1 << 18;
/// Number of first bytes by which the format is recognised.
const HEAD: usize = 2 * text::MAX_LINE;

/// What is wrong with a trace of blank lines.
const BLANK: &str = "the trace is empty: none of its lines is an access";

/// A trace being read.
pub struct Reader {
    name: String,
    format: Format,
    compression: Compression,
    times: Times,
    data: Box<dyn BufRead + Send>,
    position: Position,
    /// Number of lines or records read.
    count: u64,
    /// A line, message or block.
    buffer: Vec<u8>,
    block: Block,
    skip_other: bool,
    skipped: u64,
    /// Whether a line of a text format has had something on it, and whether one has been an access.
    begun: bool,
    any: bool,
    compose: Option<Compose>,
    region: Option<String>,
}

/// What a file is that begins like none that can be read, and what to do about it.
fn foreign(head: &[u8]) -> Option<String> {
    const PACKED: [(&[u8], &str, &str); 6] = [
        (b"\xfd7zXZ\0", "compressed with xz", "xz -dc"),
        (b"BZh", "compressed with bzip2", "bzip2 -dc"),
        (b"\x04\x22\x4d\x18", "compressed with LZ4", "lz4 -dc"),
        (b"\x5d\x00\x00", "compressed with LZMA", "xz -dc"),
        (b"PK\x03\x04", "a ZIP archive", "unzip -p"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z e -so"),
    ];
    if let Some((_, is, command)) = PACKED.iter().find(|p| head.starts_with(p.0)) {
        return Some(format!(
            "the file is {is}; gzip and zstd are read, and standard input: `{command} FILE | nagori mem run --trace -`"
        ));
    }
    if head.starts_with(b"\xef\xbb\xbf") {
        return Some(
            "the text begins with a byte order mark (BOM) of UTF-8; expected text without one (`tail -c +4 \
                FILE`)".into(),
        );
    }
    let marked = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
    let letter = |b: u8| b.is_ascii_graphic() || b.is_ascii_whitespace();
    // Letters of ASCII in two bytes each.
    let wide = matches!(head, [0, a, 0, b, ..] | [a, 0, b, 0, ..] if letter(*a) && letter(*b));
    (marked || wide).then(|| {
        "the text is UTF-16; expected ASCII or UTF-8 (`iconv -f UTF-16 -t ASCII FILE`)".into()
    })
}

/// State of the binary format.
#[derive(Default)]
struct Block {
    at: usize,
    left: u32,
    last: binary::Last,
    crc: flate2::Crc,
    ended: bool,
}

/// Opens a trace file.
pub fn open(path: &Path, options: Options) -> Result<Reader, Error> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(f) => Reader::new(name, f, options),
        Err(source) => Err(Error::Io { name, source }),
    }
}

impl Reader {
    /// Reads a trace from any reader; `name` is for messages.
    pub fn new(
        name: String,
        raw: impl Read + Send + 'static,
        options: Options,
    ) -> Result<Reader, Error> {
        let position = Position::default();
        let io_error = |name: &str, source| Error::Io {
            name: name.to_owned(),
            source,
        };
        let mut raw = BufReader::with_capacity(BUFFER, Counted(raw, position.clone()));
        let head = raw.fill_buf().map_err(|e| io_error(&name, e))?;
        let compression = Compression::detect(head);
        let data: Box<dyn BufRead + Send> = match compression {
            Compression::None => Box::new(raw),
            _ => Box::new(BufReader::with_capacity(
                BUFFER,
                Members::new(raw, compression),
            )),
        };
        let mut reader = Reader {
            name,
            format: Format::Nagori,
            compression,
            times: Times::None,
            data,
            position,
            count: 0,
            buffer: Vec::new(),
            block: Block::default(),
            skip_other: options.skip_other,
            skipped: 0,
            begun: false,
            any: false,
            compose: options.compose,
            region: options.region,
        };
        reader.begin(options.format)?;
        Ok(reader)
    }

    /// Format in use.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How much of the file has been read.
    pub fn position(&self) -> Position {
        self.position.clone()
    }

    fn begin(&mut self, asked: Option<Format>) -> Result<(), Error> {
        // The head is kept: the format is recognised by it, then it is read again.
        let mut head = Vec::new();
        let place = self.place();
        let mut data = std::mem::replace(&mut self.data, Box::new(io::empty()));
        let limit = HEAD as u64;
        let mut more = |head: &mut Vec<u8>| {
            let room = limit - head.len() as u64;
            (&mut data).take(room).read_to_end(head)
        };
        more(&mut head).map_err(|e| self.failure(e, place))?;
        if head.is_empty() {
            return Err(self.format_error("the trace is empty".into()));
        }
        if let Some(what) = foreign(&head) {
            return Err(self.format_error(what));
        }
        // The format is that of the first record, however many blank lines there are before it.
        loop {
            let is_blank = |b: &&u8| b.is_ascii_whitespace();
            let blank = head.iter().take_while(is_blank).count();
            if blank == 0 {
                break;
            }
            let lines = head.drain(..blank).filter(|&b| b == b'\n').count();
            self.count += lines as u64;
            more(&mut head).map_err(|e| self.failure(e, Place::Line(self.count)))?;
            if head.is_empty() {
                return Err(self.format_error(BLANK.into()));
            }
        }
        self.format = match (asked, Format::detect(&head)) {
            (None, None) => {
                let forms: Vec<_> = Format::ALL
                    .iter()
                    .map(|f| format!("\n  {f}: {}", f.form()))
                    .collect();
                let near: Vec<_> = text::nearest(first_line(&head))
                    .into_iter()
                    .map(|(f, what)| format!("; {f} comes nearest: {what}"))
                    .collect();
                return Err(self.format_error(format!(
                    "the first line fits none of the formats{}; known are:{}",
                    near.concat(),
                    forms.concat()
                )));
            }
            (None, Some(f)) => f,
            (Some(f), found) => {
                let magic = |f: &Format| !f.is_text();
                if magic(&f) && found != Some(f) || found.is_some_and(|g| magic(&g) && g != f) {
                    let is = found.map_or("something else".into(), |g| g.form().to_string());
                    return Err(
                        self.format_error(format!("not {} as asked for, but {is}", f.form()))
                    );
                }
                f
            }
        };
        self.data = Box::new(io::Cursor::new(head).chain(data));
        match self.format {
            Format::Nagori => {
                let mut h = [0; binary::HEADER];
                self.fill(&mut h)?;
                self.times = binary::parse_header(&h).map_err(|e| self.malformed(e))?;
            }
            Format::Gem5 => {
                self.fill(&mut [0; 4])?;
                if !self.message()? {
                    return Err(self.truncated());
                }
                let tick = gem5::header(&self.buffer).map_err(|e| self.malformed(e))?;
                self.times = Times::Ticks(tick);
            }
            Format::Gem5Text | Format::Bus => self.times = Times::Ticks(Ps(1)),
            Format::Dramsim3 | Format::Nvmain => self.times = Times::Cycles,
            Format::RamulatorVector if self.compose.is_none() => {
                return Err(self.format_error(
                    "address vectors need a memory whose address mapping is known".into(),
                ));
            }
            Format::Ramulator | Format::RamulatorVector => {}
        }
        Ok(())
    }

    fn format_error(&self, what: String) -> Error {
        Error::Format {
            name: self.name.clone(),
            what,
        }
    }

    fn malformed(&self, what: String) -> Error {
        Error::Malformed {
            name: self.name.clone(),
            place: self.place(),
            what,
        }
    }

    fn truncated(&self) -> Error {
        Error::Truncated {
            name: self.name.clone(),
            place: self.place(),
        }
    }

    /// The cause of a failed read: an error of the system, a truncated file, or damage.
    fn failure(&self, e: io::Error, place: Place) -> Error {
        let name = self.name.clone();
        let system = self.position.0.failed.load(Ordering::Relaxed);
        match (e.kind(), self.compression) {
            _ if is_trailing(&e) => Error::Trailing {
                name,
                place,
                compression: self.compression.name(),
            },
            (io::ErrorKind::UnexpectedEof, _) => Error::Truncated { name, place },
            (_, c) if system || c == Compression::None => Error::Io { name, source: e },
            _ => Error::Damaged {
                name,
                place,
                what: e.to_string(),
            },
        }
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<(), Error> {
        let place = self.place();
        self.data
            .read_exact(into)
            .map_err(|e| self.failure(e, place))
    }

    /// Reads a line into the buffer; false at the end.
    fn line(&mut self) -> Result<bool, Error> {
        self.buffer.clear();
        loop {
            let data = loop {
                match self.data.fill_buf() {
                    Ok(_) => {
                        break self.data.fill_buf().map_err(|e| Error::Io {
                            name: self.name.clone(),
                            source: e,
                        })?
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => {
                        let place = Place::Line(self.count);
                        return Err(self.failure(e, place));
                    }
                }
            };
            if data.is_empty() {
                let some = !self.buffer.is_empty();
                self.count += u64::from(some);
                return Ok(some);
            }
            let end = memchr::memchr(b'\n', data);
            let used = end.unwrap_or(data.len());
            // A line that is too long is not collected.
            let room = (text::MAX_LINE + 1).saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&data[..used.min(room)]);
            self.data.consume(end.map_or(used, |i| i + 1));
            if self.buffer.len() > text::MAX_LINE {
                self.count += 1;
                return Err(self.malformed(format!(
                    "a line of more than {} bytes; expected {}",
                    text::MAX_LINE,
                    self.format.form()
                )));
            }
            if end.is_some() {
                self.count += 1;
                return Ok(true);
            }
        }
    }

    /// Whether the line in the buffer belongs to another region than the requested one.
    fn is_elsewhere(&self) -> bool {
        let line = bus::parse(self.buffer.trim_ascii());
        match (&self.region, line) {
            (Some(wanted), Ok(l)) => l.region != wanted.as_bytes(),
            _ => false,
        }
    }

    fn text(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if !self.line()? {
                return if self.any || self.skipped > 0 {
                    Ok(None)
                } else {
                    Err(self.malformed(BLANK.into()))
                };
            }
            if self.buffer.trim_ascii().is_empty() {
                continue;
            }
            let first = !std::mem::replace(&mut self.begun, true);
            if first
                && self.format == Format::Nvmain
                && text::is_nvmain_version(self.buffer.trim_ascii())
            {
                continue;
            }
            if self.format == Format::Bus && self.is_elsewhere() {
                self.skipped += 1;
                continue;
            }
            let line = text::parse(self.format, &self.buffer, self.compose.as_ref());
            if let Some(r) = self.accept(line)? {
                self.any = true;
                return Ok(Some(r));
            }
        }
    }

    fn accept(&mut self, line: Result<Line, String>) -> Result<Option<Record>, Error> {
        match line {
            Ok(Line::Record(r)) => Ok(Some(r)),
            Ok(Line::Other) if self.skip_other => {
                self.skipped += 1;
                Ok(None)
            }
            Ok(Line::Other) => Err(self.malformed(
                "a packet that is neither a read nor a write request (command 1 or 4); such ones can be left out on \
                    demand (--skip-other)".into(),
            )),
            Err(e) => Err(self.malformed(e)),
        }
    }

    /// Reads a length and a message into the buffer; false at the end of the data.
    fn message(&mut self) -> Result<bool, Error> {
        let mut length = 0u64;
        for shift in (0..).step_by(7) {
            let mut b = [0];
            if shift == 0 {
                let place = self.place();
                let data = self.data.fill_buf();
                if data.is_ok_and(<[u8]>::is_empty) {
                    return Ok(false);
                }
                self.data
                    .read_exact(&mut b)
                    .map_err(|e| self.failure(e, place))?;
            } else {
                self.fill(&mut b)?;
            }
            length |= u64::from(b[0] & 0x7f) << shift;
            if length > gem5::MAX_MESSAGE || shift > 28 {
                return Err(self.malformed("a message longer than 1 MiB".into()));
            }
            if b[0] & 0x80 == 0 {
                break;
            }
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(length as usize, 0);
        let result = self.fill(&mut buffer);
        self.buffer = buffer;
        result.map(|()| true)
    }

    fn gem5(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if !self.message()? {
                return Ok(None);
            }
            self.count += 1;
            let line = gem5::packet(&self.buffer);
            if let Some(r) = self.accept(line)? {
                return Ok(Some(r));
            }
        }
    }

    fn nagori(&mut self) -> Result<Option<Record>, Error> {
        if self.block.left == 0 {
            if self.block.at != self.buffer.len() {
                return Err(self.malformed("a block is longer than its records".into()));
            }
            if self.block.ended || !self.next_block()? {
                return Ok(None);
            }
        }
        self.count += 1;
        self.block.left -= 1;
        let times = self.times != Times::None;
        let b = &mut self.block;
        let r = binary::decode(&self.buffer, &mut b.at, times, &mut b.last);
        r.map(Some).map_err(|e| self.malformed(e))
    }

    /// Reads a block; false at the end of the trace, which is checked.
    fn next_block(&mut self) -> Result<bool, Error> {
        let mut word = [0; 4];
        self.fill(&mut word)?;
        let records = u32::from_le_bytes(word);
        if records == 0 {
            let mut end = [0; 12];
            self.fill(&mut end)?;
            let total = u64::from_le_bytes(end[..8].try_into().expect("eight bytes"));
            let crc = u32::from_le_bytes(end[8..].try_into().expect("four bytes"));
            if total != self.count || crc != self.block.crc.sum() {
                return Err(self.malformed(
                    "the checksum or the number of records is wrong: the file is damaged".into(),
                ));
            }
            let place = self.place();
            let mut rest = [0];
            let more = loop {
                match self.data.read(&mut rest) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    r => break r.map_err(|e| self.failure(e, place))?,
                }
            };
            if more > 0 {
                return Err(self.malformed("data follow the end of the trace".into()));
            }
            self.buffer.clear();
            self.block.at = 0;
            self.block.ended = true;
            return Ok(false);
        }
        self.fill(&mut word)?;
        let length = u32::from_le_bytes(word) as usize;
        if records as usize > binary::BLOCK || length > binary::MAX_PAYLOAD {
            return Err(self.malformed(format!(
                "a block of {records} records in {length} bytes: more than {} records",
                binary::BLOCK
            )));
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(length, 0);
        self.fill(&mut buffer)?;
        self.block.crc.update(&buffer);
        self.buffer = buffer;
        self.block.at = 0;
        self.block.left = records;
        self.block.last = binary::Last::default();
        Ok(true)
    }
}

impl Source for Reader {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        match self.format {
            Format::Nagori => self.nagori(),
            Format::Gem5 => self.gem5(),
            _ => self.text(),
        }
    }

    fn times(&self) -> Times {
        self.times
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn place(&self) -> Place {
        if self.format.is_text() {
            Place::Line(self.count)
        } else {
            Place::Record(self.count)
        }
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }
}
