//! How long a snapshot takes: `restore [MiB]` fills that much memory (default 1024) with what
//! programs have there, saves the machine, and goes on from the file three times.

use nagori_platform::config::{Library, Machine as Description};
use nagori_platform::machine::{Machine, Quiet};
use nagori_platform::snapshot::{Meta, Snapshot};
use std::time::Instant;

/// Text, pointers, small integers and noise, a page of each in turn.
fn fill(m: &Machine, mib: u64) {
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state >> 20
    };
    const WORDS: [&[u8; 8]; 6] = [
        b"memory: ",
        b"return 0",
        b"{\n    };",
        b"the dram",
        b"void * p",
        b"\0\0\0\0\0\0\0\0",
    ];
    for at in (0..mib << 20).step_by(8) {
        let word = match at >> 12 & 3 {
            0 => u64::from_le_bytes(*WORDS[(random() % 6) as usize]),
            1 => 0x3f_8000_0000 + (random() & 0xff_fff8),
            2 => random() % 1000,
            _ => random() << 20 ^ random(),
        };
        m.ram().write_u64(at, word).expect("in memory");
    }
}

fn main() {
    let mib = std::env::args()
        .nth(1)
        .map_or(1024, |a| a.parse().expect("a number of MiB"));
    let description = Description::load(&Library::default(), "vc707", &[]).expect("a machine");
    let machine = Machine::new(&description, Quiet).expect("a machine");
    fill(&machine, mib);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.snap");
    let start = Instant::now();
    let written = machine.save_file(&path, &Meta::new()).expect("a snapshot");
    println!(
        "saved {} MiB in {} MiB: {:.2} s",
        written.memory_bytes >> 20,
        written.file_bytes >> 20,
        start.elapsed().as_secs_f64()
    );
    drop(machine);
    for _ in 0..3 {
        let start = Instant::now();
        let s = Snapshot::open(&path).expect("a snapshot");
        let m = s.machine(Quiet).expect("a machine");
        println!("restored: {:.2} s", start.elapsed().as_secs_f64());
        drop(m);
    }
}
