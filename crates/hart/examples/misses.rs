//! Host time of an L1D miss in the hart itself: from the load or store to the
//! memory port and back, over flat memory. The time of the same loop without
//! misses is taken off. Also with three idle harts, whose caches are asked.

use nagori_hart::{flat::Flat, world::Bus, CodeCache, Hart, HartConfig};
use std::time::Instant;

/// Loop over pseudo-random doublewords at a0: a multiplication, a shift that
/// says how far they reach, the access, a counter.
fn program(shift: u32, access: u32) -> [u32; 8] {
    let srli = 0x0006_d793 | shift << 20;
    [
        0x02e6_86b3, // mul a3,a3,a4
        0x00b6_8693, // addi a3,a3,11
        srli,        // srli a5,a3,shift
        0x0037_9793, // slli a5,a5,3
        0x00a7_87b3, // add a5,a5,a0
        access,
        0xfff8_0813, // addi a6,a6,-1
        0xfe08_12e3, // bnez a6,loop
    ]
}

/// Host nanoseconds of a round, and the misses in it.
fn run(harts: usize, words: &[u32]) -> Result<(f64, u64), Box<dyn std::error::Error>> {
    let config = HartConfig::rocket();
    let mut w = Flat::new(0x8000_0000, 128 << 20, harts, &config)?;
    for (i, x) in words.iter().enumerate() {
        w.ram().write_u32(i as u64 * 4, *x).ok_or("range")?;
    }
    let mut h = Hart::new(0, config)?;
    h.set_timed(true);
    h.pc = 0x8000_0000;
    h.set_reg(10, 0x8400_0000);
    h.set_reg(13, 1);
    h.set_reg(14, 6_364_136_223_846_793_005);
    let mut code = CodeCache::default();
    let mut best = f64::MAX;
    let mut misses = 0;
    for _ in 0..9 {
        h.pc = 0x8000_0000;
        h.set_reg(16, 200_000);
        let before = h.stats.l1d_load_misses + h.stats.l1d_store_misses;
        let t = Instant::now();
        while h.reg(16) != 0 {
            let limit = h.cycle + 100_000;
            h.run(&mut code, &mut w, limit);
            if h.pc >= 0x8000_0020 {
                break;
            }
        }
        best = best.min(t.elapsed().as_nanos() as f64);
        misses = h.stats.l1d_load_misses + h.stats.l1d_store_misses - before;
    }
    Ok((best, misses))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for harts in [1, 4] {
        for (name, access) in [("loads", 0x0007_b583), ("stores", 0x00b7_b023)] {
            let (hits, few) = run(harts, &program(55, access))?;
            let (all, misses) = run(harts, &program(41, access))?;
            let ns = (all - hits) / (misses - few) as f64;
            println!("{harts} harts, {name:6}: {ns:6.1} ns per miss ({misses} misses)");
        }
    }
    Ok(())
}
