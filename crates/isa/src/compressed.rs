//! The C extension: 16-bit encodings and the base instructions they stand for.

use crate::decode::Inst;

pub(crate) fn decode(_word: u16) -> Option<Inst> {
    None
}
