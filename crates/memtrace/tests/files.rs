//! Whole traces: written, read back, truncated, damaged.

use std::io::{self, Cursor, Read};

use nagori_memtime::request::Kind;
use nagori_memtime::Ps;
use nagori_memtrace::error::{Error, Place};
use nagori_memtrace::format::{Compression, Format};
use nagori_memtrace::input::{Options, Reader};
use nagori_memtrace::output::Writer;
use nagori_memtrace::{Record, Source, Times};
use proptest::prelude::*;

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zstd];
const WRITTEN: [(Format, Times); 7] = [
    (Format::Ramulator, Times::None),
    (Format::Dramsim3, Times::Cycles),
    (Format::Nvmain, Times::Cycles),
    (Format::Gem5, Times::Ticks(Ps(500))),
    (Format::Gem5Text, Times::Ticks(Ps(1))),
    (Format::Nagori, Times::Ticks(Ps(1250))),
    (Format::Nagori, Times::None),
];

fn write(records: &[Record], f: Format, t: Times, c: Compression) -> Vec<u8> {
    let mut w = Writer::new("t".into(), Vec::new(), f, c, t).unwrap();
    records.iter().for_each(|r| w.push(r).unwrap());
    w.finish().unwrap()
}

fn open(data: Vec<u8>) -> Result<Reader, Error> {
    Reader::new("t".into(), Cursor::new(data), Options::default())
}

fn read(data: Vec<u8>) -> Result<(Format, Times, Vec<Record>), Error> {
    let mut r = open(data)?;
    let mut all = Vec::new();
    while let Some(record) = r.next()? {
        all.push(record);
    }
    // After the end, the end is reported again.
    assert!(r.next()?.is_none());
    Ok((r.format(), r.times(), all))
}

fn records(n: u64) -> Vec<Record> {
    (0..n)
        .map(|i| Record {
            addr: ((i * 0x9e37_79b9) % (1 << 32)) & !63,
            kind: if i % 3 == 0 { Kind::Write } else { Kind::Read },
            bytes: 64,
            time: 5 * i,
        })
        .collect()
}

/// What the format can express of a record.
fn seen(r: &Record, times: Times) -> Record {
    Record {
        time: if times == Times::None { 0 } else { r.time },
        ..*r
    }
}

#[test]
fn every_format_and_compression_reads_back() {
    // More than two blocks and more than one buffer.
    let all = records(10_000);
    for (f, t) in WRITTEN {
        for c in COMPRESSIONS {
            let data = write(&all, f, t, c);
            assert_eq!(Compression::detect(&data), c);
            let (format, times, back) = read(data).unwrap();
            assert_eq!((format, times), (f, t));
            assert!(
                back.iter()
                    .eq(&all.iter().map(|r| seen(r, t)).collect::<Vec<_>>()),
                "{f} {c:?}"
            );
        }
    }
}

#[test]
fn cut_files_are_errors_wherever_a_format_can_know() {
    let all = records(5000);
    for (f, t) in WRITTEN {
        for c in COMPRESSIONS {
            let whole = write(&all, f, t, c);
            if c == Compression::None && f != Format::Nagori {
                continue;
            }
            for cut in [whole.len() - 1, whole.len() - 9, whole.len() / 2, 30] {
                let e = read(whole[..cut].to_vec()).unwrap_err();
                let text = e.to_string();
                assert!(text.contains("truncated"), "{f} {c:?} {cut}: {text}");
            }
        }
    }
    // A truncated packet, too.
    let whole = write(&all, Format::Gem5, Times::Ticks(Ps(1)), Compression::None);
    let e = read(whole[..whole.len() - 1].to_vec()).unwrap_err();
    assert!(
        matches!(
            e,
            Error::Truncated {
                place: Place::Record(4999),
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn damage_is_told() {
    let all = records(5000);
    for c in COMPRESSIONS {
        let whole = write(&all, Format::Nagori, Times::None, c);
        for at in [whole.len() / 3, whole.len() - 2] {
            let mut bad = whole.clone();
            bad[at] ^= 0x10;
            let e = read(bad).unwrap_err().to_string();
            assert!(
                e.contains("damaged") || e.contains("block") || e.contains("control"),
                "{c:?} {at}: {e}"
            );
        }
        if c == Compression::None {
            let mut long = whole.clone();
            long.push(0);
            assert!(read(long)
                .unwrap_err()
                .to_string()
                .contains("follow the end"));
        }
    }
}

#[test]
fn errors_name_the_line() {
    let text = b"LD 0x0\n\nST 64\r\nLD 12x\n".to_vec();
    let e = read(text).unwrap_err().to_string();
    assert_eq!(
        e,
        "t, line 4: no known address: '12x' in 'LD 12x'; expected 'LD addr' or 'ST addr' (decimal, or hexadecimal with \
            0x)"
    );
    let long = [b"LD 0\n".to_vec(), vec![b'7'; 100_000]].concat();
    let e = read(long).unwrap_err().to_string();
    assert!(
        e.starts_with("t, line 2: a line of more than 4096 bytes"),
        "{e}"
    );
}

#[test]
fn what_is_no_trace_is_told() {
    assert!(open(vec![])
        .err()
        .unwrap()
        .to_string()
        .contains("the trace is empty"));
    let blank = [&b" \n"[..], &b"\n\t\r\n".repeat(10_000)];
    for (text, format) in blank
        .iter()
        .flat_map(|t| [(t, None), (t, Some(Format::Dramsim3))])
    {
        let asked = Options {
            format,
            ..Options::default()
        };
        let e = Reader::new("t".into(), std::io::Cursor::new(text.to_vec()), asked)
            .and_then(|mut r| r.next())
            .unwrap_err()
            .to_string();
        assert!(e.contains("the trace is empty"), "{format:?}: {e}");
    }
    let e = open(b"0x1000 FETCH 10\n".to_vec())
        .err()
        .unwrap()
        .to_string();
    assert!(
        e.contains("formats; dramsim3 comes nearest: no known operation: 'FETCH'"),
        "{e}"
    );
    let e = open(b"hello world\n".to_vec()).err().unwrap().to_string();
    assert!(
        e.contains("fits none of the formats") && e.contains("dramsim3: 'addr"),
        "{e}"
    );
    let asked = Options {
        format: Some(Format::Nagori),
        ..Options::default()
    };
    let e = Reader::new("t".into(), &b"LD 0\n"[..], asked)
        .err()
        .unwrap();
    assert!(
        e.to_string()
            .contains("not a Nagori binary trace as asked for"),
        "{e}"
    );
    let e = open(b"R 0,0,1,5\n".to_vec()).err().unwrap().to_string();
    assert!(e.contains("address mapping"), "{e}");
}

#[test]
fn blank_lines_before_the_first_record_are_skipped_and_counted() {
    for n in [1, 2000, 5000, 100_000] {
        for blank in ["\n", " \r\n", "\t\n"] {
            let before = blank.repeat(n);
            let (format, _, all) = read(format!("{before}LD 0x40\n").into_bytes()).unwrap();
            assert_eq!((format, all.len()), (Format::Ramulator, 1), "{n}");
            let (format, _, all) =
                read(format!("{before}NVMV1\n\n3 R 0x40\n").into_bytes()).unwrap();
            assert_eq!((format, all.len()), (Format::Nvmain, 1), "{n}");
            let e = read(format!("{before}LD 0x40\nLD x\n").into_bytes()).unwrap_err();
            let right = format!("t, line {}: no known address", n + 2);
            assert!(e.to_string().starts_with(&right), "{e}");
        }
    }
    // The version is the first line that is not blank, or none.
    let e = read(b"3 R 0x40\nNVMV1\n".to_vec()).unwrap_err().to_string();
    assert!(e.starts_with("t, line 2: "), "{e}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let wide = |text: &str, end: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(end).collect()
    };
    for (data, what) in [
        (
            b"\xfd7zXZ\0\0\x04rest".to_vec(),
            "compressed with xz; gzip and zstd are read",
        ),
        (b"BZh91AY".to_vec(), "bzip2 -dc FILE"),
        (b"PK\x03\x04".to_vec(), "ZIP"),
        (
            b"\xef\xbb\xbfLD 0\n".to_vec(),
            "byte order mark (BOM) of UTF-8",
        ),
        (wide("\u{feff}LD 0\n", u16::to_le_bytes), "UTF-16"),
        (wide("\u{feff}LD 0\n", u16::to_be_bytes), "UTF-16"),
        (wide("LD 0\n", u16::to_le_bytes), "UTF-16"),
        (wide("\n\nLD 0\n", u16::to_be_bytes), "UTF-16"),
    ] {
        for format in [None, Some(Format::Ramulator), Some(Format::Nagori)] {
            let asked = Options {
                format,
                ..Options::default()
            };
            let e = Reader::new("t".into(), std::io::Cursor::new(data.clone()), asked);
            let e = e.err().unwrap().to_string();
            assert!(e.starts_with("t: ") && e.contains(what), "{e}");
        }
    }
}

#[test]
fn compressed_data_are_one_member_after_the_other_and_nothing_else() {
    let all = records(3000);
    for c in [Compression::Gzip, Compression::Zstd] {
        let part = |r: &[Record]| write(r, Format::Ramulator, Times::None, c);
        let (a, b) = (part(&all[..2000]), part(&all[2000..]));
        let both = [a.clone(), b.clone()].concat();
        assert_eq!(read(both.clone()).unwrap().2.len(), 3000, "{c:?}");
        for rest in [&b"x"[..], b"\0\0\0\0", b"\0", b"LD 0x0\n", &[7; 100_000]] {
            for (whole, n) in [(&a, 2000), (&both, 3000)] {
                let e = read([whole, rest].concat()).unwrap_err();
                let place = Place::Line(n);
                let told = matches!(&e, Error::Trailing { place: p, .. } if *p == place);
                assert!(told, "{c:?}, {} bytes: {e}", rest.len());
            }
        }
        // A second member that is cut is one.
        for cut in [1, 3, 12, b.len() - 1] {
            let e = read([&a[..], &b[..cut]].concat()).unwrap_err();
            assert!(matches!(e, Error::Truncated { .. }), "{c:?} {cut}: {e}");
        }
    }
}

#[test]
fn nvmain_versions_and_other_packets() {
    let (f, _, all) = read(b"NVMV1\n3 R 0x40 00 00 0\n".to_vec()).unwrap();
    assert_eq!((f, all.len(), all[0].time), (Format::Nvmain, 1, 3));
    let text = b"r,0,64,0,5\nu,0,64,0,6\nw,64,64,0,7\n";
    let e = read(text.to_vec()).unwrap_err().to_string();
    assert!(e.starts_with("t, line 2: a packet that is neither"), "{e}");
    let skip = Options {
        skip_other: true,
        ..Options::default()
    };
    let mut r = Reader::new("t".into(), &text[..], skip).unwrap();
    let mut n = 0;
    while r.next().unwrap().is_some() {
        n += 1;
    }
    assert_eq!((n, r.skipped()), (2, 1));
}

#[test]
fn what_a_format_cannot_say_is_refused() {
    let refused = |f, t| Writer::new("t".into(), Vec::new(), f, Compression::None, t).is_err();
    assert!(refused(Format::RamulatorVector, Times::None));
    assert!(refused(Format::Dramsim3, Times::Ticks(Ps(1))));
    assert!(refused(Format::Gem5Text, Times::Ticks(Ps(2))));
    assert!(refused(Format::Gem5, Times::Cycles));
    let mut w = Writer::new(
        "t".into(),
        Vec::new(),
        Format::Ramulator,
        Compression::None,
        Times::None,
    )
    .unwrap();
    let small = Record {
        bytes: 32,
        ..records(1)[0]
    };
    assert!(w.push(&small).unwrap_err().to_string().contains("32 bytes"));
}

struct Broken(usize);
impl Read for Broken {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("no medium"));
        }
        self.0 -= 1;
        buf[..5].copy_from_slice(b"LD 0\n");
        Ok(5)
    }
}

#[test]
fn errors_of_the_system_stay_what_they_are() {
    let mut r = Reader::new("t".into(), Broken(9000), Options::default()).unwrap();
    let e = loop {
        match r.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no error"),
            Err(e) => break e,
        }
    };
    assert_eq!(e.to_string(), "t: no medium");
}

fn any_record() -> impl Strategy<Value = Record> {
    (any::<u64>(), any::<bool>(), 1u32..=4096, any::<u64>()).prop_map(|(addr, w, bytes, time)| {
        Record {
            addr,
            kind: if w { Kind::Write } else { Kind::Read },
            bytes,
            time,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_records_read_back(all in proptest::collection::vec(any_record(), 1..50)) {
        for (f, t) in WRITTEN {
            let sizes = matches!(f, Format::Gem5 | Format::Gem5Text | Format::Nagori);
            let all: Vec<Record> = all.iter().map(|r| Record {
                bytes: if sizes { r.bytes } else { 64 },
                ..seen(r, t)
            }).collect();
            let (format, times, back) = read(write(&all, f, t, Compression::None)).unwrap();
            prop_assert_eq!((format, times, back), (f, t, all));
        }
    }

    #[test]
    fn no_data_panic(data in proptest::collection::vec(any::<u8>(), 0..300), magic in 0usize..5) {
        let heads: [&[u8]; 5] = [
            b"",
            b"gem5\x04\x18\x80\x20\x00",
            &[0x8f, b'N', b'G', b'T', b'R', b'C', 0x0d, 0x0a, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x1f, 0x8b],
            &[0x28, 0xb5, 0x2f, 0xfd],
        ];
        let _ = read([heads[magic], &data].concat());
    }

    #[test]
    fn changed_bytes_do_not_panic(at: prop::sample::Index, value: u8, which in 0usize..7) {
        let (f, t) = WRITTEN[which];
        let mut data = write(&records(40), f, t, Compression::None);
        let i = at.index(data.len());
        data[i] = value;
        let _ = read(data);
    }
}
