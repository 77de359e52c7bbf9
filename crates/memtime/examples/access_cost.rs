//! Host time of a modelled miss in the board's controller, statistics
//! included: cores that wait for each miss, with the board's latencies.
//! The best of several rounds, so that other work on the host counts less.

#[path = "../src/described.rs"]
#[allow(dead_code)]
mod described;

use std::time::Instant;

use nagori_memtime::{BoardParams, Controller, Error, Kind, Method, Ps};

/// Bus and clock crossing of the board, and the core's share of a miss.
const THERE: Ps = Ps(85_000);
const BACK: Ps = Ps(90_000);
const WRITE_THERE: Ps = Ps(101_000);
const WRITE_BACK: Ps = Ps(363_000);
const CORE: Ps = Ps(440_000);
const CYCLE: u64 = 20_000;

#[derive(Clone, Copy)]
struct Pattern {
    name: &'static str,
    /// First byte and number of bytes touched.
    from: u64,
    span: u64,
    random: bool,
    evict: bool,
}

fn core_edge(t: Ps) -> Ps {
    Ps(t.0.div_ceil(CYCLE) * CYCLE)
}

fn round(method: Method, cores: usize, p: Pattern, misses: u64) -> Result<(f64, u64), Error> {
    let mut params = described::board::<BoardParams>();
    params.method = method;
    let mut c = Controller::new(params)?;
    let mut x = 1u64;
    let mut at = vec![Ps::ZERO; cores];
    // A miss with a dirty victim is two accesses, and others' come in between.
    let mut second = vec![None; cores];
    let mut next = vec![0u64; cores];
    let mut done = 0;
    let start = Instant::now();
    while done < misses {
        let i = (0..cores).min_by_key(|&i| at[i]).unwrap_or(0);
        let addr = match second[i].take() {
            Some(a) => a,
            None => {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let place = if p.random { x >> 12 } else { next[i] };
                next[i] += 64;
                let addr = p.from + (place % p.span) / 64 * 64;
                if p.evict {
                    second[i] = Some(addr);
                    let victim = p.from + (x >> 24) % p.span / 64 * 64;
                    let t = c.access(at[i] + WRITE_THERE, victim, Kind::Write, 64)?;
                    at[i] = core_edge(t + WRITE_BACK);
                    continue;
                }
                addr
            }
        };
        let t = c.access(at[i] + THERE, addr, Kind::Read, 64)?;
        at[i] = core_edge(t + BACK + CORE);
        done += 1;
    }
    let ns = start.elapsed().as_nanos() as f64 / misses as f64;
    let end = at.iter().max().map_or(0, |t| t.0);
    Ok((ns, end))
}

fn main() -> Result<(), Error> {
    const N: u64 = 200_000;
    const GIB: u64 = 1 << 30;
    let p = |name, from, span, random, evict| Pattern {
        name,
        from,
        span,
        random,
        evict,
    };
    let patterns = [
        p("random reads", 0, 4 * GIB, true, false),
        p("random reads, dirty victims", 0, 4 * GIB, true, true),
        p("random reads, one bank", 3 * GIB, 64 << 20, true, false),
        p("stream", 3 * GIB, 64 << 20, false, false),
        p(
            "random, one bank, dirty victims",
            3 * GIB,
            64 << 20,
            true,
            true,
        ),
    ];
    // With words on the command line: only lines that have them all.
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!("method    cores pattern                          host ns/miss  guest ns/miss");
    for method in Method::ALL {
        for cores in [1, 4] {
            for pattern in patterns {
                let line = format!("{method} {cores} {}", pattern.name);
                if !words.iter().all(|w| line.contains(w)) {
                    continue;
                }
                let mut best = f64::MAX;
                let mut end = 0;
                for _ in 0..7 {
                    let (ns, e) = round(method, cores, pattern, N)?;
                    best = best.min(ns);
                    end = e;
                }
                let guest = end as f64 / 1000.0 / N as f64;
                println!(
                    "{method:9} {cores:5} {:32} {best:11.1} {guest:14.1}",
                    pattern.name
                );
            }
        }
    }
    Ok(())
}
