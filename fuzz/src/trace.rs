//! Targets that read traces.

use nagori_memtime::dram::{preset, Controller, ControllerParams};
use nagori_memtime::Ps;
use nagori_memtrace::drive::{self, Mode};
use nagori_memtrace::format::{Compression, Format};
use nagori_memtrace::input::{Options, Reader};
use nagori_memtrace::output::Writer;
use nagori_memtrace::record::Slice;
use nagori_memtrace::text::Compose;
use nagori_memtrace::{Record, Source, Times};
use std::io::Cursor;

/// Records looked at: compressed data may hold any number.
const RECORDS: usize = 4096;
/// Records that are played.
const PLAYED: u64 = 48;

/// From vectors of five levels to addresses.
fn compose() -> Compose {
    Box::new(|v| match *v {
        [0, 0, bank, row, column] if bank < 8 && row < 65536 && column < 128 => {
            Ok(((row << 3 | bank) << 7 | column) << 6)
        }
        _ => Err("an address vector outside the memory".into()),
    })
}

/// Reads a trace to its end or first error; what was read survives our own format, and is played.
fn read(data: Vec<u8>, format: Option<Format>, skip_other: bool) {
    let options = Options {
        format,
        skip_other,
        compose: Some(compose()),
        region: None,
    };
    let mut reader = match Reader::new("fuzz".into(), Cursor::new(data), options) {
        Ok(r) => r,
        Err(e) => {
            assert!(e.to_string().starts_with("fuzz"), "{e}");
            return;
        }
    };
    assert!(format.is_none_or(|f| f == reader.format()));
    let times = reader.times();
    let mut records = Vec::new();
    while records.len() < RECORDS {
        match reader.next() {
            Ok(Some(r)) => records.push(r),
            Ok(None) => {
                assert!(matches!(reader.next(), Ok(None)), "the end is not the end");
                break;
            }
            Err(e) => {
                let text = e.to_string();
                assert!(text.starts_with("fuzz, "), "no place: {text}");
                break;
            }
        }
    }
    assert!(records.iter().all(|r| r.bytes > 0));
    let back = again(&records, times);
    assert_eq!(back, records);
    play(&records, times);
}

/// The records after they were written and read in our format.
fn again(records: &[Record], times: Times) -> Vec<Record> {
    if records.is_empty() {
        return Vec::new();
    }
    let mut w = Writer::new(
        "again".into(),
        Vec::new(),
        Format::Nagori,
        Compression::None,
        times,
    )
    .expect("our format says everything");
    for r in records {
        w.push(r).expect("a record that was read can be written");
    }
    let data = w.finish().expect("memory does not end");
    let mut r =
        Reader::new("again".into(), Cursor::new(data), Options::default()).expect("our own trace");
    assert_eq!(r.times(), times);
    std::iter::from_fn(|| r.next().expect("our own trace")).collect()
}

/// Plays some of the records, as fast as possible and at their times.
fn play(records: &[Record], times: Times) {
    let device = preset::ddr3_1600k().expect("a preset");
    for mode in [
        Mode::Saturated { per_clock: 1 },
        Mode::Timestamped { cycle: None },
    ] {
        if matches!(mode, Mode::Timestamped { .. }) && times == Times::None {
            continue;
        }
        let mut model =
            Controller::new(device.clone(), ControllerParams::frfcfs()).expect("a controller");
        // Accesses of megabytes are possible and would only take long.
        let mut small: Vec<Record> = records.iter().take(PLAYED as usize).copied().collect();
        small.iter_mut().for_each(|r| r.bytes = r.bytes.min(256));
        let options = drive::Options {
            limit: Some(PLAYED),
            wrap: true,
            ..drive::Options::new(mode)
        };
        let mut source = Slice::new(&small, times);
        match drive::run(&mut model, &mut source, options, &mut |_, _| Ok(true)) {
            Ok(o) => {
                assert_eq!(o.records, small.len() as u64);
                assert_eq!(o.requests, o.read_latency.count + o.write_latency.count);
                assert!(o.from >= Ps::ZERO && o.to >= o.from);
            }
            // Times may go back, or lie beyond what can be simulated.
            Err(e) => assert!(matches!(mode, Mode::Timestamped { .. }), "{e}"),
        }
    }
}

/// Any file: format and compression are told from its first bytes.
pub fn trace_file(data: &[u8]) {
    read(data.to_vec(), None, true);
}

/// The format is named by the first byte; bit 7 leaves out packets that are neither reads nor writes.
pub fn trace_text(data: &[u8]) {
    if let Some((&first, rest)) = data.split_first() {
        let text: Vec<Format> = Format::ALL.into_iter().filter(|f| f.is_text()).collect();
        let format = text[usize::from(first & 0x7f) % text.len()];
        read(rest.to_vec(), Some(format), first & 0x80 != 0);
    }
}

/// Messages of gem5 behind its header.
pub fn trace_gem5(data: &[u8]) {
    let head = b"gem5\x07\x18\x80\xa0\x94\xa5\x8d\x1d";
    read([head, data].concat(), Some(Format::Gem5), true);
    read([b"gem5", data].concat(), Some(Format::Gem5), false);
}

/// Our own format behind its magic number.
pub fn trace_binary(data: &[u8]) {
    let head = [0x8f, b'N', b'G', b'T', b'R', b'C', 0x0d, 0x0a];
    read([&head, data].concat(), Some(Format::Nagori), false);
}

/// Text that is compressed here, then cut: a cut file is an error, never a shorter trace.
pub fn trace_compressed(data: &[u8]) {
    let Some((head, rest)) = data.split_at_checked(2) else {
        return;
    };
    let gzip = head[0] & 1 == 0;
    let packed = if gzip {
        pack_gzip(rest)
    } else {
        zstd::encode_all(rest, 1).expect("memory does not end")
    };
    let cut = usize::from(head[1]) * packed.len() / 255;
    let options = || Options {
        compose: Some(compose()),
        ..Options::default()
    };
    let whole = Reader::new("fuzz".into(), Cursor::new(rest.to_vec()), options());
    let Ok(mut whole) = whole else {
        read(packed, None, false);
        return;
    };
    let plain = std::iter::from_fn(|| whole.next().transpose()).take_while(Result::is_ok);
    let count = plain.take(RECORDS).count();
    let cut_off = packed[..cut].to_vec();
    read(packed.clone(), None, false);
    let mut reader = match Reader::new("fuzz".into(), Cursor::new(cut_off), options()) {
        Ok(r) => r,
        Err(_) => {
            assert!(cut < packed.len(), "the whole file is refused");
            return;
        }
    };
    let mut n = 0;
    let end = loop {
        match reader.next() {
            Ok(Some(_)) if n < RECORDS => n += 1,
            end => break end,
        }
    };
    assert!(n <= count || n == RECORDS, "{n} of {count} records");
    if cut < packed.len() && n < RECORDS {
        assert!(end.is_err(), "a cut file ends as if it were whole");
    }
}

fn pack_gzip(data: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    e.write_all(data)
        .and_then(|()| e.finish())
        .expect("memory does not end")
}

/// Records of all kinds, for the seeds.
fn sample() -> Vec<Record> {
    use nagori_memtime::Kind;
    (0..12u64)
        .map(|i| Record {
            addr: (i * 0x1_2345 * 64) % (1 << 32),
            kind: if i % 3 == 2 { Kind::Write } else { Kind::Read },
            bytes: 64,
            time: 7 * i,
        })
        .collect()
}

/// A trace of a few records.
pub fn seed(format: Format, times: Times, compression: Compression) -> Vec<u8> {
    let mut w =
        Writer::new("seed".into(), Vec::new(), format, compression, times).expect("a format");
    sample()
        .iter()
        .for_each(|r| w.push(r).expect("a record of 64 bytes"));
    w.finish().expect("memory does not end")
}

/// Traces in every format that can be written.
pub fn seeds() -> Vec<(Format, Vec<u8>)> {
    let mut all: Vec<(Format, Vec<u8>)> = [
        (Format::Ramulator, Times::None),
        (Format::Dramsim3, Times::Cycles),
        (Format::Nvmain, Times::Cycles),
        (Format::Gem5, Times::Ticks(Ps(500))),
        (Format::Gem5Text, Times::Ticks(Ps(1))),
        (Format::Nagori, Times::None),
        (Format::Nagori, Times::Cycles),
    ]
    .map(|(f, t)| (f, seed(f, t, Compression::None)))
    .into();
    let vectors = b"R 0,0,1,5,3\nW 0,0,7,65535,127\n\nR 0,0,0,0,0\n";
    all.push((Format::RamulatorVector, vectors.to_vec()));
    all
}
