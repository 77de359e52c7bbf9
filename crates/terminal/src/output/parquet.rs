//! Apache Parquet files of flat tables: one row group, a page a column, values as they are.
//!
//! The well-kept library for this takes longer to compile than all of our plots, for encodings that tables of some
//! thousand rows do not need. The format: the columns' pages, then a description in Thrift's compact protocol.

/// The values of a column, where there are some.
pub enum Values {
    /// Words.
    Text(Vec<Option<String>>),
    /// Whole numbers.
    Count(Vec<Option<i64>>),
    /// Numbers.
    Real(Vec<Option<f64>>),
}

const MAGIC: &[u8] = b"PAR1";
/// Physical types.
const INT64: i64 = 2;
const DOUBLE: i64 = 5;
const BYTE_ARRAY: i64 = 6;
/// Values may be missing.
const OPTIONAL: i64 = 1;
/// Bytes are UTF-8.
const UTF8: i64 = 0;
/// Encodings.
const PLAIN: i64 = 0;
const RLE: i64 = 3;

/// A structure in Thrift's compact protocol.
#[derive(Default)]
struct Struct {
    bytes: Vec<u8>,
    last: i16,
}

fn varint(mut v: u64, to: &mut Vec<u8>) {
    while v >= 0x80 {
        to.push(v as u8 | 0x80);
        v >>= 7;
    }
    to.push(v as u8);
}

fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}

impl Struct {
    /// Begins a field; numbers rise by less than 16.
    fn field(&mut self, number: i16, kind: u8) {
        self.bytes.push(((number - self.last) as u8) << 4 | kind);
        self.last = number;
    }

    fn i32(mut self, number: i16, v: i64) -> Self {
        self.field(number, 5);
        varint(zigzag(v), &mut self.bytes);
        self
    }

    fn i64(mut self, number: i16, v: i64) -> Self {
        self.field(number, 6);
        varint(zigzag(v), &mut self.bytes);
        self
    }

    fn text(mut self, number: i16, v: &str) -> Self {
        self.field(number, 8);
        varint(v.len() as u64, &mut self.bytes);
        self.bytes.extend(v.as_bytes());
        self
    }

    fn inner(mut self, number: i16, v: Struct) -> Self {
        self.field(number, 12);
        self.bytes.extend(v.end());
        self
    }

    /// A list of what is encoded already.
    fn list(mut self, number: i16, kind: u8, all: Vec<Vec<u8>>) -> Self {
        self.field(number, 9);
        match all.len() {
            n @ 0..=14 => self.bytes.push((n as u8) << 4 | kind),
            n => {
                self.bytes.push(0xf0 | kind);
                varint(n as u64, &mut self.bytes);
            }
        }
        self.bytes.extend(all.into_iter().flatten());
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

impl Values {
    fn kind(&self) -> i64 {
        match self {
            Values::Text(_) => BYTE_ARRAY,
            Values::Count(_) => INT64,
            Values::Real(_) => DOUBLE,
        }
    }

    /// Which values there are, then those.
    fn page(&self) -> Vec<u8> {
        let present: Vec<bool> = match self {
            Values::Text(v) => v.iter().map(Option::is_some).collect(),
            Values::Count(v) => v.iter().map(Option::is_some).collect(),
            Values::Real(v) => v.iter().map(Option::is_some).collect(),
        };
        let mut levels = Vec::new();
        for run in present.chunk_by(|a, b| a == b) {
            varint((run.len() as u64) << 1, &mut levels);
            levels.push(u8::from(run[0]));
        }
        let mut page = (levels.len() as u32).to_le_bytes().to_vec();
        page.extend(levels);
        match self {
            Values::Text(v) => {
                for t in v.iter().flatten() {
                    page.extend((t.len() as u32).to_le_bytes());
                    page.extend(t.as_bytes());
                }
            }
            Values::Count(v) => page.extend(v.iter().flatten().flat_map(|n| n.to_le_bytes())),
            Values::Real(v) => page.extend(v.iter().flatten().flat_map(|n| n.to_le_bytes())),
        }
        page
    }
}

fn number(v: i64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(zigzag(v), &mut out);
    out
}

fn name(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    varint(text.len() as u64, &mut out);
    out.extend(text.as_bytes());
    out
}

/// A file of columns that all have so many rows.
pub fn file(rows: usize, columns: &[(&str, Values)]) -> Vec<u8> {
    let rows = rows as i64;
    let mut out = MAGIC.to_vec();
    let root = Struct::default()
        .text(4, "schema")
        .i32(5, columns.len() as i64);
    let mut schema = vec![root.end()];
    let (mut chunks, mut total) = (Vec::new(), 0);
    for (column, values) in columns {
        let page = values.page();
        let of_page = Struct::default()
            .i32(1, rows)
            .i32(2, PLAIN)
            .i32(3, RLE)
            .i32(4, RLE);
        let header = Struct::default()
            .i32(1, 0)
            .i32(2, page.len() as i64)
            .i32(3, page.len() as i64)
            .inner(5, of_page)
            .end();
        let at = out.len() as i64;
        let size = (header.len() + page.len()) as i64;
        out.extend(header);
        out.extend(page);
        total += size;
        let about = Struct::default()
            .i32(1, values.kind())
            .list(2, 5, vec![number(PLAIN), number(RLE)])
            .list(3, 8, vec![name(column)])
            .i32(4, 0)
            .i64(5, rows)
            .i64(6, size)
            .i64(7, size)
            .i64(9, at);
        chunks.push(Struct::default().i64(2, at).inner(3, about).end());
        let element = Struct::default()
            .i32(1, values.kind())
            .i32(3, OPTIONAL)
            .text(4, column);
        schema.push(match values {
            Values::Text(_) => element.i32(6, UTF8).end(),
            _ => element.end(),
        });
    }
    let group = Struct::default()
        .list(1, 12, chunks)
        .i64(2, total)
        .i64(3, rows);
    let about = Struct::default()
        .i32(1, 1)
        .list(2, 12, schema)
        .i64(3, rows)
        .list(4, 12, vec![group.end()])
        .text(6, concat!("nagori version ", env!("CARGO_PKG_VERSION")))
        .end();
    let length = (about.len() as u32).to_le_bytes();
    out.extend(about);
    out.extend(length);
    out.extend(MAGIC);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_compact_protocol() {
        assert_eq!(number(0), [0]);
        assert_eq!(number(-1), [1]);
        assert_eq!(number(150), [0xac, 0x02]);
        let s = Struct::default().i32(1, 1).text(4, "ab").end();
        assert_eq!(s, [0x15, 2, 0x38, 2, b'a', b'b', 0]);
    }

    #[test]
    fn pages_say_what_is_missing() {
        let page = Values::Count(vec![Some(1), Some(2), None]).page();
        // Two that are there, one that is not.
        assert_eq!(page[..8], [4, 0, 0, 0, 4, 1, 2, 0]);
        assert_eq!(page.len(), 8 + 16);
        assert_eq!(page[8..16], 1i64.to_le_bytes());
    }
}
