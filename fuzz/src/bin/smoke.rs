//! Feeds changed seeds and random bytes to every target, on a stable toolchain.
//!
//! `smoke [--seconds N] [--seed N] [TARGET...]`: N seconds (default 10) for each target. An input
//! that panics is written to `artifacts/TARGET-NUMBER` and ends the run with code 1.

use nagori_fuzz::{seeds, Target, TARGETS};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }
}

/// An input for a target: a file of its corpus or random bytes, changed in a few places.
fn input(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut data = match rng.below(8) {
        0 => (0..rng.below(512)).map(|_| rng.bits() as u8).collect(),
        _ => corpus[rng.below(corpus.len())].clone(),
    };
    for _ in 0..rng.below(8) {
        let len = data.len();
        let at = rng.below(len + 1);
        match rng.below(7) {
            0 => data.truncate(at),
            1 => {
                let more: Vec<u8> = (0..rng.below(64)).map(|_| rng.bits() as u8).collect();
                data.splice(at..at, more);
            }
            2 if at + 8 <= len => data[at..at + 8].copy_from_slice(&rng.bits().to_le_bytes()),
            3 if at + 8 <= len => {
                let edge = [0, 1, u64::MAX, 1 << 63, 1 << 31, 0xffff_ffff, 0x8000_0000];
                data[at..at + 8].copy_from_slice(&edge[rng.below(edge.len())].to_le_bytes());
            }
            4 if at < len => data[at] ^= 1 << rng.below(8),
            5 if at < len => data[at] = b"0123456789-.=[]\"\n!"[rng.below(18)],
            6 if at < len => {
                let piece = data[at..(at + 16).min(len)].to_vec();
                let to = rng.below(len);
                data.splice(to..to, piece);
            }
            _ => {}
        }
    }
    data
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let mut all = seeds(name);
    // What others have found, in an order that does not depend on the host.
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .map(|d| d.flatten().map(|e| e.path()).collect())
        .unwrap_or_default();
    paths.sort();
    all.extend(paths.iter().filter_map(|p| std::fs::read(p).ok()));
    all
}

/// Puts the seeds where cargo-fuzz looks for them.
fn write_seeds() -> std::io::Result<()> {
    for &(name, _) in TARGETS {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        std::fs::create_dir_all(&dir)?;
        for (i, seed) in seeds(name).iter().enumerate() {
            std::fs::write(dir.join(format!("seed-{i}")), seed)?;
        }
    }
    Ok(())
}

fn smoke((name, function): Target, seconds: u64, seed: u64) -> Result<u64, String> {
    let corpus = corpus(name);
    let mut rng = Rng(seed);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut count = 0;
    while Instant::now() < until {
        let data = match corpus.get(count as usize) {
            Some(first) => first.clone(),
            None => input(&mut rng, &corpus),
        };
        if catch_unwind(AssertUnwindSafe(|| function(&data))).is_err() {
            let path = format!("artifacts/{name}-{count}");
            let written =
                std::fs::create_dir_all("artifacts").and_then(|()| std::fs::write(&path, &data));
            return Err(match written {
                Ok(()) => format!("{name}: input {count} panics; it is in {path}"),
                Err(e) => format!("{name}: input {count} panics ({path}: {e}): {data:02x?}"),
            });
        }
        count += 1;
    }
    Ok(count)
}

fn main() -> ExitCode {
    let (mut seconds, mut seed) = (10, 1);
    let mut names: Vec<String> = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut number = || args.next().and_then(|v| v.parse().ok());
        match a.as_str() {
            "--seconds" => match number() {
                Some(n) => seconds = n,
                None => return usage(),
            },
            "--seed" => match number() {
                Some(n) => seed = n,
                None => return usage(),
            },
            "--write-seeds" => {
                return match write_seeds() {
                    Ok(()) => ExitCode::SUCCESS,
                    Err(e) => {
                        eprintln!("the corpus cannot be written: {e}");
                        ExitCode::FAILURE
                    }
                }
            }
            name if TARGETS.iter().any(|t| t.0 == name) => names.push(a),
            _ => return usage(),
        }
    }
    let mut code = ExitCode::SUCCESS;
    for &target in TARGETS {
        if !names.is_empty() && !names.iter().any(|n| n == target.0) {
            continue;
        }
        match smoke(target, seconds, seed) {
            Ok(count) => println!("{}: {count} inputs in {seconds} s", target.0),
            Err(e) => {
                eprintln!("{e}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn usage() -> ExitCode {
    let names: Vec<&str> = TARGETS.iter().map(|t| t.0).collect();
    eprintln!(
        "usage: smoke [--write-seeds] [--seconds N] [--seed N] [TARGET...]\ntargets: {}",
        names.join(", ")
    );
    ExitCode::from(2)
}
