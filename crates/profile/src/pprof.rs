//! pprof's format (github.com/google/pprof, proto/profile.proto): protocol buffers in gzip.

use crate::folded::name;
use crate::profile::Profile;
use crate::Error;
use flate2::write::GzEncoder;
use flate2::Compression;
use prost::Message;
use std::collections::HashMap;
use std::io::Write;

/// The messages, with the numbers of profile.proto.
#[allow(missing_docs)] // documented there
pub mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(int64, tag = "10")]
        pub duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub default_sample_type: i64,
    }
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub r#type: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub label: Vec<Label>,
    }
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Label {
        #[prost(int64, tag = "1")]
        pub key: i64,
        #[prost(int64, tag = "2")]
        pub str: i64,
        #[prost(int64, tag = "3")]
        pub num: i64,
        #[prost(int64, tag = "4")]
        pub num_unit: i64,
    }
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub memory_limit: u64,
        #[prost(uint64, tag = "4")]
        pub file_offset: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
        #[prost(int64, tag = "6")]
        pub build_id: i64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub address: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}

/// Strings by index; the first is empty.
struct Strings {
    all: Vec<String>,
    numbers: HashMap<String, i64>,
}

impl Strings {
    fn new() -> Strings {
        let mut s = Strings {
            all: Vec::new(),
            numbers: HashMap::new(),
        };
        s.number("");
        s
    }

    fn number(&mut self, text: &str) -> i64 {
        if let Some(n) = self.numbers.get(text) {
            return *n;
        }
        let n = self.all.len() as i64;
        self.all.push(text.to_string());
        self.numbers.insert(text.to_string(), n);
        n
    }
}

/// The profile as a message. Samples have three values: stall time in nanoseconds, lines read, lines
/// written; and labels: `region`, `process`, `privilege`, `kind`.
pub fn message(p: &Profile, duration_ns: u64) -> proto::Profile {
    let mut strings = Strings::new();
    let mut out = proto::Profile::default();
    for (kind, unit) in [
        ("stall", "nanoseconds"),
        ("reads", "count"),
        ("writes", "count"),
    ] {
        let (r#type, unit) = (strings.number(kind), strings.number(unit));
        out.sample_type.push(proto::ValueType { r#type, unit });
    }
    out.default_sample_type = strings.number("stall");
    out.period_type = out.sample_type.first().copied();
    out.period = 1;
    out.duration_nanos = signed(duration_ns);
    for (i, (file, start, limit)) in p.symbols().files().enumerate() {
        out.mapping.push(proto::Mapping {
            id: i as u64 + 1,
            memory_start: start,
            memory_limit: limit,
            filename: strings.number(file),
            has_functions: true,
            ..proto::Mapping::default()
        });
    }
    // pprof shows the first file as that of the profile.
    if let Some(program) = p.program() {
        let filename = strings.number(program);
        match out.mapping.iter().position(|m| m.filename == filename) {
            Some(at) => out.mapping[..=at].rotate_right(1),
            None => {
                let id = out.mapping.len() as u64 + 1;
                let main = proto::Mapping {
                    id,
                    filename,
                    ..proto::Mapping::default()
                };
                out.mapping.insert(0, main);
            }
        }
    }
    let keys = ["region", "process", "privilege", "kind"].map(|k| strings.number(k));
    let mut locations: HashMap<(u64, bool), u64> = HashMap::new();
    let mut functions: HashMap<(String, String), u64> = HashMap::new();
    for (key, v) in p.rows() {
        let mut location_id = Vec::new();
        for (i, &addr) in p.stack(key.frames).iter().enumerate() {
            // The address of a caller is that of its call instruction, as pprof expects.
            let at = if i == 0 { addr } else { addr.wrapping_sub(1) };
            let id = *locations.entry((at, i == 0)).or_insert_with(|| {
                let text = name(p, addr, i);
                let (file, line) = p.lines().lookup(at).unwrap_or_default();
                let function = (text.clone(), file.to_string());
                let function_id = *functions.entry(function).or_insert_with(|| {
                    let n = strings.number(&text);
                    let id = out.function.len() as u64 + 1;
                    out.function.push(proto::Function {
                        id,
                        name: n,
                        system_name: n,
                        filename: strings.number(file),
                    });
                    id
                });
                let id = out.location.len() as u64 + 1;
                out.location.push(proto::Location {
                    id,
                    mapping_id: p.symbols().lookup(at).map_or(0, |s| s.file as u64 + 1),
                    address: at,
                    line: vec![proto::Line {
                        function_id,
                        line: line.into(),
                    }],
                });
                id
            });
            location_id.push(id);
        }
        let texts = [
            key.region.name().to_string(),
            p.space_name(key.space),
            key.privilege_name().to_string(),
            key.kind_name().to_string(),
        ];
        let label = keys.iter().zip(texts).map(|(&key, text)| proto::Label {
            key,
            str: strings.number(&text),
            ..proto::Label::default()
        });
        let label = label.collect();
        out.sample.push(proto::Sample {
            location_id,
            value: vec![signed(p.ns(v.cycles)), signed(v.reads), signed(v.writes)],
            label,
        });
    }
    out.string_table = strings.all;
    out
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Writes the profile, compressed.
pub fn write(p: &Profile, duration_ns: u64, to: impl Write) -> Result<(), Error> {
    let bytes = message(p, duration_ns).encode_to_vec();
    let mut gz = GzEncoder::new(to, Compression::default());
    gz.write_all(&bytes)?;
    gz.finish()?.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folded::folded;
    use crate::profile::{Region, Space, Values};
    use crate::symbols::Symbols;
    use nagori_hart::world::{LineKind, Stall};
    use nagori_ram::GuestRam;
    use std::io::Read;

    const BASE: u64 = 0x8000_0000;
    const SATP: u64 = 8 << 60 | 5 << 44 | 0x8_0010;

    fn stall(pc: u64, cycles: u64, write: bool) -> Stall {
        Stall {
            cycles,
            write,
            line: BASE,
            kind: if write {
                LineKind::Evict
            } else {
                LineKind::Load
            },
            hart: 0,
            pc,
            privilege: 3,
            satp: 0,
            ra: BASE + 0x210,
            fp: BASE + 0x8000,
        }
    }

    /// Two functions; `inner` is called by `outer`.
    fn example() -> Profile {
        let mut symbols = Symbols::default();
        let f = |a: u64, n: &str| (BASE + a, 0x100, n.to_string());
        symbols.add_table("prog", vec![f(0x100, "inner"), f(0x200, "outer;")], 0);
        let ram = GuestRam::new(1 << 16).unwrap();
        ram.write_u64(0x7ff8, BASE + 0x210).unwrap();
        let mut p = Profile::new(symbols, (10_000, 1));
        p.count(&stall(BASE + 0x110, 30, false), Region::Nvmm, &ram, BASE);
        p.count(&stall(BASE + 0x110, 12, false), Region::Nvmm, &ram, BASE);
        p.count(&stall(BASE + 0x110, 5, true), Region::Dram, &ram, BASE);
        let mut user = stall(0x1000, 7, false);
        (user.privilege, user.satp) = (0, SATP);
        p.count(&user, Region::Dram, &ram, BASE);
        p
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut p = example();
        p.name_space(Space(SATP), "xz");
        let mut file = Vec::new();
        write(&p, 1234, &mut file).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&file[..])
            .read_to_end(&mut bytes)
            .unwrap();
        let got = proto::Profile::decode(&bytes[..]).unwrap();
        assert_eq!(got, message(&p, 1234));
        let text = |n: i64| got.string_table[n as usize].as_str();
        assert_eq!(text(0), "");
        let types: Vec<_> = got
            .sample_type
            .iter()
            .map(|t| (text(t.r#type), text(t.unit)))
            .collect();
        assert_eq!(
            types,
            [
                ("stall", "nanoseconds"),
                ("reads", "count"),
                ("writes", "count")
            ]
        );
        assert_eq!(
            (got.duration_nanos, text(got.default_sample_type)),
            (1234, "stall")
        );
        assert_eq!(got.mapping.len(), 1);
        let mut seen = Vec::new();
        for s in &got.sample {
            let frames: Vec<&str> = s
                .location_id
                .iter()
                .map(|id| {
                    let l = got.location.iter().find(|l| l.id == *id).unwrap();
                    let f = l.line[0].function_id;
                    text(got.function.iter().find(|x| x.id == f).unwrap().name)
                })
                .collect();
            let labels: Vec<_> = s.label.iter().map(|l| (text(l.key), text(l.str))).collect();
            assert_eq!(labels.len(), 4);
            seen.push((
                frames.join(" "),
                s.value.clone(),
                labels[0].1,
                labels[1].1,
                labels[3].1,
            ));
        }
        let row = |f: &str, v: [i64; 3], region, process, kind| {
            (f.to_string(), v.to_vec(), region, process, kind)
        };
        assert_eq!(
            seen,
            [
                row("inner outer;", [420, 2, 0], "nvmm", "physical", "load"),
                row("inner outer;", [50, 0, 1], "dram", "physical", "evict"),
                row("0x1000", [70, 1, 0], "dram", "xz", "load"),
            ]
        );
    }

    #[test]
    fn the_program_is_the_first_file() {
        let files = |p: &Profile| -> Vec<(String, u64)> {
            let got = message(p, 0);
            let name = |m: &proto::Mapping| got.string_table[m.filename as usize].clone();
            got.mapping.iter().map(|m| (name(m), m.id)).collect()
        };
        let mut p = example();
        p.symbols_mut()
            .add_table("vmlinux", vec![(1 << 63, 16, "f".into())], 0);
        let of = |name: &str, id| (name.to_string(), id);
        assert_eq!(files(&p), [of("prog", 1), of("vmlinux", 2)]);
        p.name_program("vmlinux");
        assert_eq!(files(&p), [of("vmlinux", 2), of("prog", 1)]);
        p.name_program("xz");
        assert_eq!(files(&p), [of("xz", 3), of("prog", 1), of("vmlinux", 2)]);
    }

    #[test]
    fn folded_stacks_have_the_outermost_function_first() {
        assert_eq!(
            folded(&example()),
            "asid 5 table 0x80010000;user;0x1000;[dram] 70\n\
             physical;machine;outer:;inner;[dram] 50\n\
             physical;machine;outer:;inner;[nvmm] 420\n"
        );
    }

    #[test]
    fn totals_and_resets() {
        let mut p = example();
        let want = Values {
            cycles: 54,
            reads: 3,
            writes: 1,
        };
        assert_eq!(p.total(), want);
        p.reset();
        assert_eq!(p.total(), Values::default());
        assert_eq!(message(&p, 0).sample, []);
    }
}
