//! Compressed files: one member (gzip) or frame (zstd) after the other, and nothing behind them.

use std::fmt;
use std::io::{self, BufRead, Read};

use crate::format::Compression;

type Gzip<R> = flate2::bufread::GzDecoder<R>;
type Zstd<R> = zstd::stream::read::Decoder<'static, R>;

/// What is being read.
enum State<R: BufRead> {
    /// Between two members.
    Between(R),
    Gzip(Gzip<R>),
    Zstd(Box<Zstd<R>>),
    /// The end, or an error.
    Over,
}

/// Reads the contents of all members.
pub(crate) struct Members<R: BufRead> {
    state: State<R>,
    compression: Compression,
    /// Whether a member has ended.
    any: bool,
}

/// Something else behind the last member.
#[derive(Debug)]
struct Trailing;

impl fmt::Display for Trailing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("other data follow the compressed data")
    }
}

impl std::error::Error for Trailing {}

/// Whether an error says that something else follows the last member.
pub(crate) fn is_trailing(e: &io::Error) -> bool {
    e.get_ref().is_some_and(|inner| inner.is::<Trailing>())
}

impl<R: BufRead> Members<R> {
    pub(crate) fn new(raw: R, compression: Compression) -> Members<R> {
        Members {
            state: State::Between(raw),
            compression,
            any: false,
        }
    }

    /// Begins the next member; false at the end of the data.
    fn begin(&mut self, mut raw: R) -> io::Result<bool> {
        let head = raw.fill_buf()?;
        let magic = self.compression.magic();
        // At the edge of a buffer only the first bytes may be there.
        let seen = head.len().min(magic.len());
        if head.is_empty() && self.any {
            return Ok(false);
        }
        if self.any && head[..seen] != magic[..seen] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, Trailing));
        }
        self.state = match self.compression {
            Compression::Zstd => {
                let decoder = Zstd::with_buffer(raw)?;
                State::Zstd(Box::new(decoder.single_frame()))
            }
            Compression::Gzip | Compression::None => State::Gzip(Gzip::new(raw)),
        };
        Ok(true)
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            let n = match &mut self.state {
                State::Between(_) => 0,
                State::Gzip(d) => d.read(buf)?,
                State::Zstd(d) => d.read(buf)?,
                State::Over => return Ok(0),
            };
            if n > 0 {
                return Ok(n);
            }
            let raw = match std::mem::replace(&mut self.state, State::Over) {
                State::Between(raw) => raw,
                State::Gzip(d) => {
                    self.any = true;
                    d.into_inner()
                }
                State::Zstd(d) => {
                    self.any = true;
                    d.finish()
                }
                State::Over => return Ok(0),
            };
            if !self.begin(raw)? {
                return Ok(0);
            }
        }
    }
}
