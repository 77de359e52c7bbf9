//! The layout of fields in a message: little-endian integers, strings preceded by a 16-bit length,
//! data preceded by a 32-bit one. Decoding borrows from the message and never reads beyond it.

/// A message that is inconsistent with its size or type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the fields need.
    #[error("the message ends within a field")]
    Short,
    /// Bytes behind the last field.
    #[error("{0} bytes behind the last field")]
    Trailing(usize),
    /// The size in the header is not the number of bytes.
    #[error("the header says {said} bytes, there are {there}")]
    Size {
        /// In the header.
        said: u32,
        /// In the buffer.
        there: usize,
    },
    /// No such message.
    #[error("there is no message of type {0}")]
    Type(u8),
    /// More names than a walk may have.
    #[error("a walk of {0} names, at most 16 are allowed")]
    Names(u16),
}

/// Reads fields from the front of a message.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (front, rest) = self.0.split_at_checked(n).ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(front)
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }
}

/// A field of a message.
pub trait Field<'a>: Sized {
    /// Takes the field from the front of the remaining bytes.
    fn get(from: &mut Reader<'a>) -> Result<Self, WireError>;
    /// Appends the field.
    fn put(&self, to: &mut Vec<u8>);
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Field<'_> for $t {
            fn get(from: &mut Reader<'_>) -> Result<$t, WireError> {
                let bytes = from.take(size_of::<$t>())?;
                Ok(<$t>::from_le_bytes(bytes.try_into().map_err(|_| WireError::Short)?))
            }
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
integers!(u8, u16, u32, u64);

/// A string of at most 65535 bytes: a name, or the target of a symbolic link. Any bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<'a>(pub &'a [u8]);

impl std::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl<'a> Field<'a> for Text<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Text<'a>, WireError> {
        let len = u16::get(from)?;
        Ok(Text(from.take(len.into())?))
    }

    /// A string longer than the format allows is truncated; callers bound what they send.
    fn put(&self, to: &mut Vec<u8>) {
        let len = u16::try_from(self.0.len()).unwrap_or(u16::MAX);
        len.put(to);
        to.extend_from_slice(&self.0[..len.into()]);
    }
}

/// The names of a walk, at most 16.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names<'a>(pub Vec<Text<'a>>);

impl Names<'_> {
    /// Greatest number of names in a message (MAXWELEM).
    pub const MAX: u16 = 16;
}

impl<'a> Field<'a> for Names<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Names<'a>, WireError> {
        let count = u16::get(from)?;
        if count > Names::MAX {
            return Err(WireError::Names(count));
        }
        (0..count)
            .map(|_| Text::get(from))
            .collect::<Result<_, _>>()
            .map(Names)
    }

    fn put(&self, to: &mut Vec<u8>) {
        (self.0.len() as u16).put(to);
        self.0.iter().for_each(|name| name.put(to));
    }
}

/// Bytes of a file or directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bytes<'a>(pub &'a [u8]);

impl std::fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

impl<'a> Field<'a> for Bytes<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Bytes<'a>, WireError> {
        let len = u32::get(from)?;
        let len = usize::try_from(len).map_err(|_| WireError::Short)?;
        Ok(Bytes(from.take(len)?))
    }

    fn put(&self, to: &mut Vec<u8>) {
        (self.0.len() as u32).put(to);
        to.extend_from_slice(self.0);
    }
}

/// The identity of a file in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qid {
    /// 0x80 a directory, 0x02 a symbolic link, 0 anything else.
    pub kind: u8,
    /// Changes with the content.
    pub version: u32,
    /// Unique among the files of the share.
    pub path: u64,
}

impl Field<'_> for Qid {
    fn get(from: &mut Reader<'_>) -> Result<Qid, WireError> {
        Ok(Qid {
            kind: u8::get(from)?,
            version: u32::get(from)?,
            path: u64::get(from)?,
        })
    }

    fn put(&self, to: &mut Vec<u8>) {
        self.kind.put(to);
        self.version.put(to);
        self.path.put(to);
    }
}

/// The qids of a walk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Qids(pub Vec<Qid>);

impl Field<'_> for Qids {
    fn get(from: &mut Reader<'_>) -> Result<Qids, WireError> {
        let count = u16::get(from)?;
        if count > Names::MAX {
            return Err(WireError::Names(count));
        }
        (0..count)
            .map(|_| Qid::get(from))
            .collect::<Result<_, _>>()
            .map(Qids)
    }

    fn put(&self, to: &mut Vec<u8>) {
        (self.0.len() as u16).put(to);
        self.0.iter().for_each(|qid| qid.put(to));
    }
}
