//! Every format into every other, and back by reading.

use nagori_memtime::request::Kind;
use nagori_memtime::Ps;
use nagori_memtrace::convert::{convert, times, Options, Outcome};
use nagori_memtrace::format::Compression;
use nagori_memtrace::input::{self, Reader};
use nagori_memtrace::output::{Details, Writer};
use nagori_memtrace::record::Slice;
use nagori_memtrace::{Error, Format, Record, Source, Times, Unaligned};

/// Lines at random places, one every `step`.
fn lines(step: u64) -> Vec<Record> {
    (0..500u64)
        .map(|i| Record {
            addr: (i * 0x9e37_79b9 % (1 << 20)) << 6,
            kind: if i % 3 == 0 { Kind::Write } else { Kind::Read },
            bytes: 64,
            time: i * step,
        })
        .collect()
}

fn reader(data: Vec<u8>, format: Format) -> Reader {
    let options = input::Options {
        format: Some(format),
        compose: Some(Box::new(|v| Ok(v[1] << 16 | v[2] << 6))),
        ..input::Options::default()
    };
    Reader::new("t".into(), std::io::Cursor::new(data), options).expect("a trace")
}

fn written(
    source: &mut dyn Source,
    format: Format,
    o: &Options,
) -> Result<(Vec<u8>, Outcome), Error> {
    let details = Details {
        decompose: Some(Box::new(|a| Ok(vec![0, a >> 16, a >> 6 & 0x3ff]))),
        region: Some("nvmm".into()),
    };
    let unit = times(format, source.times(), o)?;
    let none = Compression::None;
    let mut to = Writer::with_details("o".into(), Vec::new(), format, none, unit, details)?;
    let done = convert(source, &mut to, format, o, &mut |_| true)?;
    Ok((to.finish()?, done))
}

fn all(mut r: Reader) -> Vec<Record> {
    std::iter::from_fn(|| r.next().expect("a record")).collect()
}

#[test]
fn every_format_becomes_every_other() {
    // Cycles of 1250 ps, so that a time is a whole number of both units.
    let cycle = Ps(1250);
    for from in Format::ALL {
        let unit = match from {
            f if !f.has_times() => Times::None,
            Format::Dramsim3 | Format::Nvmain => Times::Cycles,
            _ => Times::Ticks(Ps(1)),
        };
        let step = match unit {
            Times::None => 0,
            Times::Cycles => 4,
            Times::Ticks(_) => 5000,
        };
        let records = lines(step);
        let same = Options::default();
        let first = written(&mut Slice::new(&records, unit), from, &same)
            .unwrap()
            .0;
        assert_eq!(all(reader(first.clone(), from)), records, "{from}");
        for to in Format::ALL {
            let cycles = |f| matches!(f, Format::Dramsim3 | Format::Nvmain);
            let mixed = from.has_times() && to.has_times() && cycles(from) != cycles(to);
            // Our own format holds cycles as well.
            let o = Options {
                cycle: (mixed && to != Format::Nagori).then_some(cycle),
                ..same
            };
            let (data, done) = written(&mut reader(first.clone(), from), to, &o).unwrap();
            assert_eq!((done.records, done.written), (500, 500), "{from} to {to}");
            assert_eq!(done.times_lost, from.has_times() && !to.has_times());
            let step = match (to, unit) {
                (to, _) if !to.has_times() => 0,
                (_, Times::None) => 0,
                (Format::Nagori, _) => step,
                (to, _) if cycles(to) => 4,
                _ => 5000,
            };
            assert_eq!(all(reader(data, to)), lines(step), "{from} to {to}");
        }
    }
}

#[test]
fn lengths_become_lines_where_a_format_has_none() {
    let access = |addr, bytes| Record {
        addr,
        kind: Kind::Read,
        bytes,
        time: 0,
    };
    let records = [
        access(0, 64),
        access(72, 8),
        access(0x78, 16),
        access(256, 130),
    ];
    let to = |format, unaligned| {
        let o = Options {
            unaligned,
            ..Options::default()
        };
        let (data, done) = written(&mut Slice::new(&records, Times::None), format, &o)?;
        let kept = all(reader(data, format));
        let kept: Vec<_> = kept.iter().map(|r| (r.addr, r.bytes)).collect();
        Ok::<_, Error>((kept, done.unaligned, done.widened))
    };
    let line = |addr| (addr, 64);
    let lines = [0, 64, 64, 128, 256, 320, 384].map(line).to_vec();
    assert_eq!(
        to(Format::Ramulator, Unaligned::Split).unwrap(),
        (lines, 1, 3)
    );
    let lines = [0, 64, 64, 256, 320, 384].map(line).to_vec();
    assert_eq!(
        to(Format::Dramsim3, Unaligned::Truncate).unwrap(),
        (lines, 1, 3)
    );
    let kept = vec![(0, 64), (72, 8), (0x78, 16), (256, 130)];
    assert_eq!(to(Format::Gem5, Unaligned::Split).unwrap(), (kept, 1, 0));
    let e = to(Format::Nagori, Unaligned::Refuse)
        .unwrap_err()
        .to_string();
    assert!(e.contains("record 3: the access of 16 bytes"), "{e}");
}

#[test]
fn bases_limits_and_gaps() {
    let records = lines(0);
    let o = Options {
        base: 64,
        ..Options::default()
    };
    let slice = || Slice::new(&records, Times::None);
    let e = written(&mut slice(), Format::Nagori, &o).unwrap_err();
    assert!(e.to_string().contains("below the base 0x40"), "{e}");
    let o = Options {
        gap: 10,
        limit: Some(3),
        ..Options::default()
    };
    let (data, done) = written(&mut slice(), Format::Nvmain, &o).unwrap();
    assert_eq!(done.records, 3);
    let at: Vec<_> = all(reader(data, Format::Nvmain))
        .iter()
        .map(|r| r.time)
        .collect();
    assert_eq!(at, [0, 10, 20]);
}

/// The form of an access at the last address in a format of lines, and the line in which it stands.
fn at_the_last_address(format: Format) -> Option<(&'static str, usize)> {
    match format {
        Format::Ramulator => Some(("LD 0\n\nST 0xffffffffffffffff\n", 3)),
        Format::Dramsim3 => Some(("0x0 READ 0\n0xffffffffffffffff WRITE 1\n", 2)),
        Format::Nvmain => Some(("NVMV0\n0 R 0x0\n1 W 0xffffffffffffffff\n", 3)),
        Format::Gem5Text => Some(("r,0,64,0\nw,18446744073709551614,1048576,1\n", 2)),
        Format::Bus => Some((
            "0 h0 0x0 load r 0x0 nvmm -\n1 h0 0x0 evict w 0xffffffffffffffff nvmm -\n",
            2,
        )),
        // Vectors name places of the memory; the binary formats are the tests' below.
        Format::RamulatorVector | Format::Gem5 | Format::Nagori => None,
    }
}

#[test]
fn accesses_beyond_the_last_address_are_told_with_their_place() {
    let beyond = "reaches beyond the last address, 0xffffffffffffffff";
    let split = Options::default();
    let refused = |mut source: Reader, to: Format, place: &str| {
        let o = Options {
            cycle: match (source.times(), to) {
                (Times::Cycles, Format::Gem5 | Format::Gem5Text | Format::Bus)
                | (Times::Ticks(_), Format::Dramsim3 | Format::Nvmain) => Some(Ps(1)),
                _ => None,
            },
            ..split
        };
        let e = written(&mut source, to, &o).unwrap_err().to_string();
        assert!(e.contains(place) && e.contains(beyond), "{to}: {e}");
    };
    for from in Format::ALL {
        let Some((text, line)) = at_the_last_address(from) else {
            continue;
        };
        for to in Format::ALL {
            let source = reader(text.as_bytes().to_vec(), from);
            refused(source, to, &format!("t, line {line}: "));
        }
    }
    let records = [0, u64::MAX - 62].map(|addr| Record {
        addr,
        kind: Kind::Read,
        bytes: 64,
        time: 0,
    });
    for from in [Format::Gem5, Format::Nagori] {
        let mut to =
            Writer::new("o".into(), Vec::new(), from, Compression::None, Times::None).unwrap();
        records.iter().for_each(|r| to.push(r).unwrap());
        let data = to.finish().unwrap();
        for to in Format::ALL {
            refused(reader(data.clone(), from), to, "t, record 2: ");
        }
    }
}
