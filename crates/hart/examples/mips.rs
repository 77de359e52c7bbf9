//! Interpreter speed on an integer loop with loads and stores in flat memory:
//! guest MIPS, functional and timed.

use nagori_hart::{flat::Flat, world::Bus, CodeCache, Hart, HartConfig};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // loop: ld a1,0(a0); add a2,a2,a1; xor a3,a3,a2; sd a3,8(a0); srli a4,a3,3;
    //       addi a5,a5,-1; bnez a5, loop
    let words: [u32; 7] = [
        0x0005_3583,
        0x00b6_0633,
        0x00c6_c6b3,
        0x00d5_3423,
        0x0036_d713,
        0xfff7_8793,
        0xfe07_94e3,
    ];
    for timed in [false, true] {
        let config = HartConfig::rocket();
        let mut w = Flat::new(0x8000_0000, 1 << 20, 1, &config)?;
        for (i, x) in words.iter().enumerate() {
            w.ram().write_u32(i as u64 * 4, *x).ok_or("range")?;
        }
        let mut h = Hart::new(0, config)?;
        h.set_timed(timed);
        h.pc = 0x8000_0000;
        h.set_reg(10, 0x8000_8000);
        h.set_reg(15, 1 << 40);
        let mut code = CodeCache::default();
        let t = Instant::now();
        h.run(&mut code, &mut w, 500_000_000);
        let s = t.elapsed().as_secs_f64();
        println!(
            "timed={timed} instructions={} cycles={} {:.1} MIPS",
            h.instret,
            h.cycle,
            h.instret as f64 / s / 1e6
        );
    }
    Ok(())
}
