//! Requests per second of the general controller under the driver: the workloads of `nagori bench
//! mem`, and the cost of reading traces by format.
//!
//! `cargo bench -p nagori-memtrace`
// The macros of criterion make public functions.
#![allow(missing_docs)]

use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use nagori_memtime::dram::{preset, Controller, ControllerParams};
use nagori_memtime::{MemoryModel, Ps};
use nagori_memtrace::drive::{self, Mode, Options};
use nagori_memtrace::format::{Compression, Format};
use nagori_memtrace::gen::{Generator, Pattern, Spec};
use nagori_memtrace::input::{self, Reader};
use nagori_memtrace::output::Writer;
use nagori_memtrace::record::Slice;
use nagori_memtrace::{Record, Source, Times};
use std::hint::black_box;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

/// Requests of an iteration.
const REQUESTS: u64 = 100_000;

fn memory() -> Controller {
    let device = preset::ddr3_1600k().expect("a preset");
    Controller::new(device, ControllerParams::frfcfs()).expect("a controller")
}

fn records(pattern: Pattern, writes: f64) -> Vec<Record> {
    let spec = Spec {
        pattern,
        count: REQUESTS,
        base: 0,
        span: memory().capacity(),
        bytes: 64,
        writes,
        gap: 0,
        seed: 1,
    };
    all(&mut Generator::new(spec).expect("a specification"))
}

fn all(source: &mut dyn Source) -> Vec<Record> {
    std::iter::from_fn(|| source.next().expect("a trace")).collect()
}

fn real() -> Vec<Record> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/bzip2.dramsim3.zst");
    all(&mut input::open(&path, input::Options::default()).expect("the trace of a real program"))
}

fn saturated(c: &mut Criterion) {
    let mut group = c.benchmark_group("saturated");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    for (name, records) in [
        ("sequential", records(Pattern::Sequential, 0.0)),
        ("random", records(Pattern::Random, 0.0)),
        ("70-30", records(Pattern::Random, 0.3)),
        ("stride-4096", records(Pattern::Strided(4096), 0.0)),
        ("stride-8192", records(Pattern::Strided(8192), 0.0)),
        ("bzip2", real()),
    ] {
        group.throughput(Throughput::Elements(records.len() as u64));
        group.bench_function(name, |b| {
            b.iter_batched(
                memory,
                |mut m| {
                    let mut source = Slice::new(&records, Times::None);
                    let options = Options::new(Mode::Saturated { per_clock: 1 });
                    let o = drive::run(&mut m, &mut source, options, &mut |_, _| Ok(true))
                        .expect("a run");
                    black_box(m.report(o.to))
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn reading(c: &mut Criterion) {
    let mut group = c.benchmark_group("read");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2));
    let records = records(Pattern::Random, 0.3);
    for (format, times) in [
        (Format::Ramulator, Times::None),
        (Format::Dramsim3, Times::Cycles),
        (Format::Nvmain, Times::Cycles),
        (Format::Gem5, Times::Ticks(Ps(1))),
        (Format::Gem5Text, Times::Ticks(Ps(1))),
        (Format::Nagori, Times::None),
    ] {
        for (suffix, compression) in [("", Compression::None), (".zst", Compression::Zstd)] {
            let mut w =
                Writer::new("t".into(), Vec::new(), format, compression, times).expect("a format");
            records.iter().for_each(|r| w.push(r).expect("a record"));
            let data = w.finish().expect("memory does not end");
            group.throughput(Throughput::Elements(REQUESTS));
            group.bench_function(format!("{format}{suffix}"), |b| {
                b.iter(|| {
                    let data = Cursor::new(data.clone());
                    let mut r =
                        Reader::new("t".into(), data, input::Options::default()).expect("a trace");
                    while let Some(record) = r.next().expect("a record") {
                        black_box(record);
                    }
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, saturated, reading);
criterion_main!(benches);
