//! The latencies of this host's memory, by own loops: `D0`, the latency of a miss, and `w`, the same over the latency
//! of a hit in the last-level cache.
//!
//! A chain of pointers in random order, so that no prefetcher helps, is followed once around in memory of different
//! sizes; the least of several rounds counts, as whatever else the host does only adds time.

use std::hint::black_box;
use std::time::Instant;

use nagori_epoch::Weight;
use nagori_memtime::Ps;
use serde::Serialize;

use crate::host::System;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Latency of a miss, in picoseconds.
    pub dram: Ps,
    /// Latency of a hit in the last-level cache.
    pub llc: Ps,
    /// Latency of a hit in L2.
    pub l2: Ps,
    /// `w`: the first over the second.
    pub weight: Weight,
    /// The third over the second.
    pub l2_weight: Weight,
    /// Bytes that were followed for each of them: memory, last-level cache, L2.
    pub bytes: [u64; 3],
    /// How far the rounds of memory lay apart, in thousandths of the least one: noise of the host.
    pub spread_permille: u32,
}

/// Bytes of the caches of the first CPU by level (data or unified), as the kernel shows them.
pub fn caches(system: &System) -> Vec<(u32, u64)> {
    let folder = "sys/devices/system/cpu/cpu0/cache";
    let mut found: Vec<(u32, u64)> = Vec::new();
    for index in system.list(folder) {
        let read = |name: &str| system.read(&format!("{folder}/{index}/{name}"));
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size"))
        else {
            continue;
        };
        let size = match (size.strip_suffix('K'), size.strip_suffix('M')) {
            (Some(k), _) => k.parse().ok().map(|k: u64| k << 10),
            (_, Some(m)) => m.parse().ok().map(|m: u64| m << 20),
            _ => size.parse().ok(),
        };
        if let (Ok(level), Some(size)) = (level.parse(), size) {
            if kind != "Instruction" {
                found.push((level, size));
            }
        }
    }
    found.sort_unstable();
    found
}

/// Measures.
///
/// # Errors
/// If the kernel does not say how large the caches are, or the last level is the first one.
pub fn measure(system: &System) -> Result<Measured, String> {
    let caches = caches(system);
    let (Some(&(first, l1)), Some(&(last, llc))) = (caches.first(), caches.last()) else {
        return Err("the kernel does not say how large the caches are".into());
    };
    if first == last {
        return Err("there is one level of caches only".into());
    }
    let l2 = caches.iter().find(|c| c.0 == 2).map_or(l1 * 2, |c| c.1);
    // In the middle between two levels by ratio; memory well beyond the last one, whose share of a virtual machine may
    // be smaller than it says.
    let middle = |a: u64, b: u64| ((a as f64 * b as f64).sqrt() as u64).max(a * 3 / 2) & !4095;
    let bytes = [
        llc.saturating_mul(4).clamp(64 << 20, 1 << 30),
        middle(l2, llc).min(l2 * 4),
        middle(l1, l2),
    ];
    let (dram, spread) = chase(bytes[0]);
    let (hit, _) = chase(bytes[1]);
    let (near, _) = chase(bytes[2]);
    let weight = |a, b| Weight::ratio(a, b).ok_or("the times that were measured cannot be");
    Ok(Measured {
        dram,
        llc: hit,
        l2: near,
        weight: weight(dram, hit)?,
        l2_weight: weight(near, hit)?,
        bytes,
        spread_permille: spread,
    })
}

/// Bytes between two pointers of the chain: two lines, as some processors fetch lines in pairs.
const STRIDE: usize = 128;

/// Follows a chain of pointers through so many bytes. Returns the time of a step, and how far rounds lay apart in
/// thousandths.
fn chase(bytes: u64) -> (Ps, u32) {
    let n = (bytes as usize / STRIDE).max(16);
    let words = STRIDE / 4;
    let mut order: Vec<u32> = (0..n as u32).collect();
    // Fisher and Yates, with a generator of 64 bits.
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    for i in (1..n).rev() {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        order.swap(i, (x % (i as u64 + 1)) as usize);
    }
    let mut chain = vec![0u32; n * words];
    for i in 0..n {
        chain[order[i] as usize * words] = order[(i + 1) % n] * words as u32;
    }
    let steps = n.clamp(1 << 16, 1 << 21);
    let (mut at, mut least, mut most) = (0u32, u128::MAX, 0);
    for round in 0..6 {
        let started = Instant::now();
        for _ in 0..steps {
            at = chain[at as usize];
        }
        let time = started.elapsed().as_nanos();
        black_box(at);
        // The first round warms up.
        if round > 0 {
            least = least.min(time);
            most = most.max(time);
        }
    }
    let step = u64::try_from(least * 1000 / steps as u128).unwrap_or(u64::MAX);
    let spread = u32::try_from((most - least) * 1000 / least.max(1)).unwrap_or(u32::MAX);
    (Ps(step.max(1)), spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read() {
        let dir = tempfile::tempdir().unwrap();
        for (i, (level, kind, size)) in [
            ("1", "Data", "32K"),
            ("1", "Instruction", "32K"),
            ("2", "Unified", "1024K"),
            ("3", "Unified", "32M"),
        ]
        .iter()
        .enumerate()
        {
            let folder = dir
                .path()
                .join(format!("sys/devices/system/cpu/cpu0/cache/index{i}"));
            std::fs::create_dir_all(&folder).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                std::fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
        }
        let system = System::below(dir.path());
        assert_eq!(
            caches(&system),
            [(1, 32 << 10), (2, 1 << 20), (3, 32 << 20)]
        );
        let none = tempfile::tempdir().unwrap();
        assert!(measure(&System::below(none.path()))
            .unwrap_err()
            .contains("how large"));
    }

    /// Within one process the order of the levels is certain, whatever the host's load: L1 is an order of magnitude
    /// faster than memory.
    #[test]
    fn a_chain_in_memory_is_slower_than_one_in_l1() {
        let (near, _) = chase(8 << 10);
        let (far, _) = chase(128 << 20);
        assert!(far.0 > near.0 * 3, "{near} {far}");
    }
}
