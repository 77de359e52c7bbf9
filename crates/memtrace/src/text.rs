//! The text formats: one access per line.

use nagori_memtime::request::Kind;

use crate::bus;
use crate::format::Format;
pub use crate::line::{Line, Wrong};
use crate::record::{Record, LINE, MAX_BYTES};

/// Turns a DRAM address vector (channel first, column in bursts) into an address; the error says
/// what is wrong with it.
pub type Compose = Box<dyn Fn(&[u64]) -> Result<u64, String> + Send>;

/// Longest line of a text format in bytes; NVMain's data of 64-byte lines
/// take 128 digits each.
pub const MAX_LINE: usize = 4096;
/// Most levels of an address vector.
const MAX_LEVELS: usize = 16;
/// Operations of DRAMsim3 (and of DRAMSim2's k6 traces) that are writes.
const DRAMSIM3_WRITES: [&[u8]; 4] = [b"WRITE", b"write", b"P_MEM_WR", b"BOFF"];
/// Operations that are reads; DRAMsim3 takes everything else for a read, we do not.
const DRAMSIM3_READS: [&[u8]; 4] = [b"READ", b"read", b"P_MEM_RD", b"P_FETCH"];

/// Reads one line without its end. If `compose` is `None`, only the form of address vectors is
/// checked.
pub fn parse(format: Format, line: &[u8], compose: Option<&Compose>) -> Result<Line, String> {
    let line = line.trim_ascii();
    read(format, line, compose)
        .map_err(|what| format!("{what} in '{}'; expected {}", shown(line), format.form()))
}

fn read(format: Format, line: &[u8], compose: Option<&Compose>) -> Result<Line, Wrong> {
    match format {
        Format::Ramulator => ramulator(line).map(Line::Record),
        Format::RamulatorVector => vector(line, compose).map(Line::Record),
        Format::Dramsim3 => dramsim3(line).map(Line::Record),
        Format::Nvmain => nvmain(line).map(Line::Record),
        Format::Gem5Text => gem5(line),
        Format::Bus => bus::parse(line).map(|l| Line::Record(l.record())),
        Format::Gem5 | Format::Nagori => Err(format!("{format} is no text format").into()),
    }
}

/// Whether a line has the form of a format.
pub fn fits(format: Format, line: &[u8]) -> bool {
    parse(format, line, None).is_ok()
}

/// The formats that come nearest to a line which fits none: those that can read most of its first
/// fields, and at least one. With each comes what is wrong with the line.
pub fn nearest(line: &[u8]) -> Vec<(Format, String)> {
    let line = line.trim_ascii();
    let texts = Format::ALL.into_iter().filter(|f| f.is_text());
    let read: Vec<_> = texts.map(|f| (f, fields_read(f, line))).collect();
    let most = read.iter().map(|r| r.1).max().unwrap_or(0);
    let best = read.into_iter().filter(|r| most > 0 && r.1 == most);
    best.filter_map(|(f, _)| Some((f, parse(f, line, None).err()?)))
        .collect()
}

/// Number of first fields of a line that a format can read.
fn fields_read(format: Format, line: &[u8]) -> usize {
    let between: fn(&u8) -> bool = match format {
        Format::Gem5Text => |&b| b == b',',
        _ => u8::is_ascii_whitespace,
    };
    let inner = (1..line.len()).filter(|&i| between(&line[i]) && !between(&line[i - 1]));
    let ends = inner.chain([line.len()]);
    ends.take_while(|&end| !matches!(read(format, &line[..end], None), Err(Wrong::Field(_))))
        .count()
}

/// NVMain's optional first line.
pub fn is_nvmain_version(line: &[u8]) -> bool {
    line.strip_prefix(b"NVMV")
        .is_some_and(|v| !v.is_empty() && v.iter().all(u8::is_ascii_digit))
}

/// A line in the form in which messages show it.
fn shown(line: &[u8]) -> String {
    const LENGTH: usize = 60;
    let text = String::from_utf8_lossy(&line[..line.len().min(LENGTH)]).into_owned();
    let text: String = text.escape_debug().collect();
    if line.len() > LENGTH {
        text + "..."
    } else {
        text
    }
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace())
        .filter(|f| !f.is_empty())
}

fn ramulator(line: &[u8]) -> Result<Record, Wrong> {
    let mut f = fields(line);
    let kind = match f.next() {
        Some(b"LD") => Kind::Read,
        Some(b"ST") => Kind::Write,
        other => return Err(unknown("operation", other)),
    };
    let addr = address(f.next())?;
    end(f.next())?;
    Ok(record(kind, addr, LINE, 0))
}

fn vector(line: &[u8], compose: Option<&Compose>) -> Result<Record, Wrong> {
    let mut f = fields(line);
    let kind = match f.next() {
        Some(b"R") => Kind::Read,
        Some(b"W") => Kind::Write,
        other => return Err(unknown("operation", other)),
    };
    let list = f.next().ok_or_else(|| unknown("address vector", None))?;
    end(f.next())?;
    let mut levels = [0u64; MAX_LEVELS];
    let mut n = 0;
    for v in list.split(|&b| b == b',') {
        let slot = levels.get_mut(n).ok_or("too many levels".to_owned())?;
        *slot = decimal(v).ok_or_else(|| unknown("level", Some(v)))?;
        n += 1;
    }
    if n < 2 {
        return Err("an address vector has several levels".to_owned().into());
    }
    let addr = match compose {
        Some(c) => c(&levels[..n])?,
        None => 0,
    };
    Ok(record(kind, addr, LINE, 0))
}

fn dramsim3(line: &[u8]) -> Result<Record, Wrong> {
    let mut f = fields(line);
    let addr = hexadecimal(f.next(), "address")?;
    let kind = match f.next() {
        Some(op) if DRAMSIM3_WRITES.contains(&op) => Kind::Write,
        Some(op) if DRAMSIM3_READS.contains(&op) => Kind::Read,
        other => return Err(unknown("operation", other)),
    };
    let time = number(f.next(), "cycle")?;
    end(f.next())?;
    Ok(record(kind, addr, LINE, time))
}

fn nvmain(line: &[u8]) -> Result<Record, Wrong> {
    let mut f = fields(line);
    let time = number(f.next(), "cycle")?;
    let kind = match f.next() {
        Some(b"R") => Kind::Read,
        Some(b"W") => Kind::Write,
        other => return Err(unknown("operation", other)),
    };
    let addr = hexadecimal(f.next(), "address")?;
    // Data and, in version 1, old data; then the thread.
    let rest = [f.next(), f.next(), f.next()];
    end(f.next())?;
    let data = |d: &[u8]| d.iter().all(u8::is_ascii_hexdigit);
    match rest {
        [None, ..] => {}
        [Some(d), None, _] if data(d) => {}
        [Some(d), Some(t), None] if data(d) && decimal(t).is_some() => {}
        [Some(d), Some(o), Some(t)] if data(d) && data(o) && decimal(t).is_some() => {}
        _ => {
            let what = "data (hexadecimal digits) or thread (decimal) malformed";
            return Err(what.to_owned().into());
        }
    }
    Ok(record(kind, addr, LINE, time))
}

fn gem5(line: &[u8]) -> Result<Line, Wrong> {
    // A line of gem5's decoder: [id,] command, addr, size [, flags], tick [, pc].
    let mut list: [&[u8]; 8] = [b""; 8];
    let mut n = 0;
    for f in line.split(|&b| b == b',') {
        *list.get_mut(n).ok_or("too many fields".to_owned())? = f;
        n += 1;
    }
    let first = match list[0] {
        b"r" | b"w" | b"u" => 0,
        id if decimal(id).is_some() => 1,
        other => return Err(unknown("command", Some(other))),
    };
    let after = list[first + 1..n.max(first + 1)].iter();
    let mut v = [0u64; 6];
    let mut k = 0;
    for f in after {
        *v.get_mut(k).ok_or("too many fields".to_owned())? =
            decimal(f).ok_or_else(|| unknown("number", Some(f)))?;
        k += 1;
    }
    let (addr, size, time) = match k {
        3 => (v[0], v[1], v[2]),
        // Flags before the tick; after it an optional program counter.
        4 | 5 => (v[0], v[1], v[3]),
        0..=2 => return Err(Wrong::Short(format!("{n} fields"))),
        _ => return Err(format!("{n} fields").into()),
    };
    let kind = match list[first] {
        b"r" => Kind::Read,
        b"w" => Kind::Write,
        b"u" => return Ok(Line::Other),
        other => return Err(unknown("command", Some(other))),
    };
    let bytes = u32::try_from(size)
        .ok()
        .filter(|b| (1..=MAX_BYTES).contains(b))
        .ok_or_else(|| format!("a size of {size} bytes (1 to {MAX_BYTES} are possible)"))?;
    Ok(Line::Record(record(kind, addr, bytes, time)))
}

fn record(kind: Kind, addr: u64, bytes: u32, time: u64) -> Record {
    Record {
        addr,
        kind,
        bytes,
        time,
    }
}

fn unknown(what: &str, found: Option<&[u8]>) -> Wrong {
    match found {
        Some(f) => Wrong::Field(format!("no known {what}: '{}'", shown(f))),
        None => Wrong::Short(format!("no {what}")),
    }
}

fn end(f: Option<&[u8]>) -> Result<(), Wrong> {
    match f {
        Some(f) => Err(format!("too many fields ('{}')", shown(f)).into()),
        None => Ok(()),
    }
}

fn number(f: Option<&[u8]>, what: &str) -> Result<u64, Wrong> {
    f.and_then(decimal).ok_or_else(|| unknown(what, f))
}

fn address(f: Option<&[u8]>) -> Result<u64, Wrong> {
    let a = f.ok_or_else(|| unknown("address", None))?;
    let value = match a.strip_prefix(b"0x").or_else(|| a.strip_prefix(b"0X")) {
        Some(digits) => hex(digits),
        None => decimal(a),
    };
    value.ok_or_else(|| unknown("address", f))
}

fn hexadecimal(f: Option<&[u8]>, what: &str) -> Result<u64, Wrong> {
    let a = f.ok_or_else(|| unknown(what, f))?;
    let digits = a.strip_prefix(b"0x").or_else(|| a.strip_prefix(b"0X"));
    hex(digits.unwrap_or(a)).ok_or_else(|| unknown(what, f))
}

fn hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut v = 0u64;
    for &b in digits {
        let d = (b as char).to_digit(16)?;
        if v >> 60 != 0 {
            return None;
        }
        v = v << 4 | u64::from(d);
    }
    Some(v)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut v = 0u64;
    for &b in digits {
        if !b.is_ascii_digit() {
            return None;
        }
        v = v.checked_mul(10)?.checked_add(u64::from(b - b'0'))?;
    }
    Some(v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(format: Format, line: &str) -> Result<Record, String> {
        match parse(format, line.as_bytes(), None)? {
            Line::Record(r) => Ok(r),
            Line::Other => Err("other".into()),
        }
    }

    fn r(kind: Kind, addr: u64, bytes: u32, time: u64) -> Record {
        record(kind, addr, bytes, time)
    }

    #[test]
    fn lines_of_each_format() {
        use Format::*;
        use Kind::*;
        for (format, line, expected) in [
            (Ramulator, "LD 0x1fC0", r(Read, 0x1fc0, 64, 0)),
            (Ramulator, "ST  4096 \r", r(Write, 4096, 64, 0)),
            (RamulatorVector, "W 0,0,1,3,12,5", r(Write, 0, 64, 0)),
            (Dramsim3, "0x1000 READ 12", r(Read, 0x1000, 64, 12)),
            (Dramsim3, "1000 P_MEM_WR 0", r(Write, 0x1000, 64, 0)),
            (Nvmain, "7 R 0x40 00ff 1", r(Read, 0x40, 64, 7)),
            (Nvmain, "7 W 40 00ff 00 1", r(Write, 0x40, 64, 7)),
            (Nvmain, "7 W 40", r(Write, 0x40, 64, 7)),
            (Gem5Text, "r,128,32,1000", r(Read, 128, 32, 1000)),
            (Gem5Text, "5,w,128,64,256,1000", r(Write, 128, 64, 1000)),
            (Gem5Text, "w,128,64,0,1000,4096", r(Write, 128, 64, 1000)),
        ] {
            assert_eq!(one(format, line), Ok(expected), "{format} {line}");
            assert_eq!(Format::detect(line.as_bytes()), Some(format), "{line}");
        }
        assert_eq!(parse(Gem5Text, b"u,0,64,0,5", None), Ok(Line::Other));
    }

    #[test]
    fn malformed_lines_are_told() {
        use Format::*;
        for (format, line, what) in [
            (Ramulator, "LD", "no address"),
            (Ramulator, "LD 12x", "no known address: '12x'"),
            (Ramulator, "ld 12", "no known operation: 'ld'"),
            (Ramulator, "LD 1 2", "too many fields ('2')"),
            (Ramulator, "LD 0x", "no known address"),
            (Ramulator, "LD -64", "no known address"),
            (Ramulator, "LD 18446744073709551616", "no known address"),
            (Ramulator, "LD 0x10000000000000000", "no known address"),
            (RamulatorVector, "R 1", "several levels"),
            (RamulatorVector, "R 1,,2", "no known level: ''"),
            (Dramsim3, "0x0 FETCH 1", "no known operation: 'FETCH'"),
            (Dramsim3, "0x0 READ", "no cycle"),
            (Dramsim3, "0xg READ 1", "no known address"),
            (Nvmain, "1 R 0x0 zz 0", "data"),
            (Nvmain, "1 R", "no address"),
            (Gem5Text, "r,1,0,5", "a size of 0 bytes"),
            (Gem5Text, "r,1,64", "3 fields"),
            (Gem5Text, "x,1,64,5", "no known command: 'x'"),
            (Gem5Text, "r,1,64,0,5,6,7,8,9,10", "too many fields"),
        ] {
            let e = one(format, line).unwrap_err();
            assert!(e.contains(what), "{format} {line}: {e}");
            assert!(e.contains("; expected '"), "{e}");
        }
    }

    #[test]
    fn the_nearest_format_is_the_one_that_reads_most() {
        use Format::*;
        for (line, formats, what) in [
            ("LD 12x", &[Ramulator][..], "no known address: '12x'"),
            ("0x1000 FETCH 1", &[Dramsim3], "no known operation: 'FETCH'"),
            ("0x1000 READ", &[Dramsim3], "no cycle"),
            ("7 R 0x40 zz 0", &[Nvmain], "data"),
            ("R 0,1,x", &[RamulatorVector], "no known level: 'x'"),
            ("r,128,32,x", &[Gem5Text], "no known number: 'x'"),
            (
                "5 h0 0x10 load r 40 nvmm -",
                &[Bus],
                "no offset in hexadecimal",
            ),
            // A cycle, an address or a time.
            ("12 turtles", &[Dramsim3, Nvmain, Bus], "turtles"),
            ("turtles all the way down", &[], ""),
        ] {
            let near = nearest(line.as_bytes());
            let names: Vec<_> = near.iter().map(|n| n.0).collect();
            assert_eq!(names, formats, "{line}");
            for (_, why) in near {
                assert!(why.contains(what), "{line}: {why}");
            }
        }
    }

    #[test]
    fn vectors_are_composed() {
        let c: Compose = Box::new(|v| match v {
            [0, b, c] => Ok(b << 16 | c << 6),
            _ => Err("channel 0 is the only one".into()),
        });
        let read = |l: &str| parse(Format::RamulatorVector, l.as_bytes(), Some(&c));
        assert_eq!(
            read("R 0,2,3"),
            Ok(Line::Record(r(Kind::Read, 0x200c0, 64, 0)))
        );
        assert!(read("R 1,2,3").unwrap_err().contains("channel 0"));
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            for f in Format::ALL {
                let _ = parse(f, &line, None);
            }
            let _ = Format::detect(&line);
            let _ = nearest(&line);
        }

        #[test]
        fn near_lines_do_not_panic(line in "(LD|ST|R|W|r|w|u|0x[0-9a-f]{1,20}|[0-9]{1,22}|[ ,]){0,10}") {
            for f in Format::ALL {
                let _ = parse(f, line.as_bytes(), None);
            }
            let _ = Format::detect(line.as_bytes());
            let _ = nearest(line.as_bytes());
        }
    }
}
