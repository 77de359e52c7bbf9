//! Requests per CPU second of the general controller on saturated streams:
//! `cargo run --release -p nagori-memtime --example speed [requests]`.

use nagori_memtime::dram::{preset, Controller, ControllerParams};
use nagori_memtime::request::{Kind, Request, Submit};
use nagori_memtime::{Error, MemoryModel, Ps};

/// 64-bit xorshift: the streams are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// CPU time of this process in seconds, from the Linux scheduler; 0 elsewhere.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|s| s.parse().ok());
    ns.unwrap_or(0.0) * 1e-9
}

fn main() -> Result<(), Error> {
    let n: u64 = std::env::args()
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(2_000_000);
    println!("stream            requests/s   cycles     read ns  hit rate     GB/s");
    for name in [
        "sequential",
        "random",
        "70/30",
        "stride 4096",
        "stride 8192",
    ] {
        let mut c = Controller::new(preset::ddr3_1600k()?, ControllerParams::frfcfs())?;
        let lines = c.capacity() / 64;
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut done = Vec::new();
        let mut at = Ps::ZERO;
        let start = cpu_seconds();
        for id in 0..n {
            let (line, write) = match name {
                "sequential" => (id, false),
                "random" => (random.next(), false),
                "70/30" => (random.next(), random.next() % 10 >= 7),
                "stride 4096" => (id * 64, false),
                _ => (id * 128, false),
            };
            let r = Request {
                id,
                addr: line % lines * 64,
                kind: if write { Kind::Write } else { Kind::Read },
                bytes: 64,
            };
            while let Submit::Busy(t) = c.submit(at, r)? {
                at = t;
            }
            if done.len() > 1000 {
                done.clear();
            }
            c.drain(&mut done);
        }
        let end = c.finish(at)?;
        let seconds = cpu_seconds() - start;
        let s = c.report(end);
        println!(
            "{name:<14} {:>13.0} {:>9} {:>10.2} {:>9.4} {:>8.3}",
            n as f64 / seconds,
            s.cycles(),
            s.read_latency().mean_ns().unwrap_or(0.0),
            s.total().row_hit_rate().unwrap_or(0.0),
            s.bandwidth().unwrap_or(0.0) / 1e9,
        );
    }
    Ok(())
}
