//! Host time of one synchronous access, statistics included.

use std::time::Instant;

use nagori_memtime::{BoardParams, Controller, Kind, Method, Ps};

fn main() -> Result<(), nagori_memtime::Error> {
    const N: u64 = 2_000_000;
    println!("method    pattern               host ns/access");
    for method in Method::ALL {
        for (name, cores, gap) in [
            ("one core", 1u64, 1_200_000),
            ("four cores", 4, 1_200_000),
            ("one core, long idle time", 1, 50_000_000),
        ] {
            let mut p = BoardParams::vc707();
            p.method = method;
            let mut c = Controller::new(p)?;
            let mut x = 1u64;
            let mut at = vec![Ps::ZERO; cores as usize];
            let start = Instant::now();
            for _ in 0..N {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let i = (0..cores as usize).min_by_key(|&i| at[i]).unwrap_or(0);
                let kind = if x % 3 == 0 { Kind::Write } else { Kind::Read };
                let done = c.access(at[i], ((x >> 20) % (4 << 30)) & !63, kind, 64)?;
                at[i] = done + Ps(gap);
            }
            let ns = start.elapsed().as_nanos() as f64 / N as f64;
            println!("{method:9} {name:26} {ns:8.1}");
        }
    }
    Ok(())
}
