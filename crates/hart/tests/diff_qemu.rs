//! Random user-level programs on the hart, in every mode, against the user
//! emulation of QEMU: registers, floating-point flags and memory.
//!
//! Needs `qemu-riscv64`. Without it the test says so and passes, unless
//! `NAGORI_REQUIRE_TOOLS=1`. `NAGORI_HART_PROGRAMS` sets the number of programs
//! (default 400), `NAGORI_HART_UNITS` their length in units of one to eight
//! instructions (default 200), `NAGORI_HART_SEED` the seed.

mod common;

use common::gen::{block_address, Image, Program, BASE, STATE_BYTES};
use common::guest::{Sv39, USER_ALL};
use common::{csrw, env, i, n, Rng};
use nagori_hart::flat::Flat;
use nagori_hart::trap::cause;
use nagori_hart::world::Bus;
use nagori_hart::{CodeCache, Hart, HartConfig};
use nagori_isa::Op;
use std::path::PathBuf;
use std::process::Command;

const MEMORY: u64 = 8 << 20;
/// What the machine-mode side needs, behind the image.
const SUPPORT: u64 = BASE + MEMORY - 0x2_0000;

/// How the hart runs a program.
#[derive(Clone, Copy, Debug)]
struct Way {
    timed: bool,
    /// User mode behind a page table instead of machine mode.
    paged: bool,
    /// Greatest length of a call of `run`, in cycles.
    slice: u64,
}

const WAYS: [Way; 6] = [
    Way {
        timed: false,
        paged: false,
        slice: u64::MAX,
    },
    Way {
        timed: false,
        paged: true,
        slice: u64::MAX,
    },
    Way {
        timed: false,
        paged: false,
        slice: 7,
    },
    Way {
        timed: true,
        paged: false,
        slice: u64::MAX,
    },
    Way {
        timed: true,
        paged: true,
        slice: u64::MAX,
    },
    Way {
        timed: true,
        paged: true,
        slice: 50,
    },
];

fn set_up(image: &Image, way: Way) -> (Flat, Hart, u64) {
    let config = HartConfig::rocket();
    let w = Flat::new(BASE, MEMORY, 1, &config).expect("memory");
    let ram = w.ram();
    ram.write_bytes(0, &image.bytes).expect("image fits");
    let mut h = Hart::new(0, config).expect("configuration");
    h.set_timed(way.timed);
    let mut table = Sv39::new(ram, BASE, SUPPORT + 0x1000);
    table.map(BASE, BASE, MEMORY - 0x2_0000, USER_ALL);
    // Floating point on, protection open, the table, then to the image.
    let trap = SUPPORT + 0x800;
    let mstatus = 1u64 << 13 | if way.paged { 0 } else { 3 << 11 };
    let words = [
        csrw(0x305, 10),
        csrw(0x3b0, 11),
        csrw(0x3a0, 12),
        csrw(0x180, 13),
        csrw(0x300, 14),
        csrw(0x341, 15),
        n(Op::Mret),
    ];
    ram.write_bytes(SUPPORT - BASE, &common::bytes(&words))
        .expect("in memory");
    ram.write_u32(trap - BASE, i(Op::Jal, 0, 0, 0))
        .expect("in memory");
    h.pc = SUPPORT;
    h.set_reg(10, trap);
    h.set_reg(11, u64::MAX >> 10);
    h.set_reg(12, 0x1f);
    h.set_reg(13, if way.paged { table.satp() } else { 0 });
    h.set_reg(14, mstatus);
    h.set_reg(15, image.entry);
    (w, h, trap)
}

/// The state blocks after the run.
fn ours(image: &Image, way: Way) -> Result<Vec<u8>, String> {
    let (mut w, mut h, trap) = set_up(image, way);
    let mut code = CodeCache::default();
    let mut rng = Rng::new(5);
    while h.pc != trap {
        let limit = if way.slice == u64::MAX {
            10_000
        } else {
            1 + rng.below(way.slice)
        };
        h.run(&mut code, &mut w, h.cycle + limit);
        if h.instret > 100_000_000 {
            return Err("does not come to its end".into());
        }
    }
    let end = if way.paged {
        cause::ECALL_U
    } else {
        cause::ECALL_U + 3
    };
    if h.csr.mcause != end || h.reg(17) != 64 {
        return Err(format!(
            "trap {} at {:#x}, tval {:#x}",
            h.csr.mcause, h.csr.mepc, h.csr.mtval
        ));
    }
    let mut out = vec![0; image.programs * STATE_BYTES as usize];
    w.ram()
        .read_bytes(image.states as u64, &mut out)
        .expect("in memory");
    Ok(out)
}

/// The state blocks as QEMU leaves them.
fn theirs(image: &Image, name: &str) -> Result<Vec<u8>, String> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.elf"));
    std::fs::write(&path, image.elf()).expect("writing the executable");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let out = Command::new("qemu-riscv64")
        .arg(&path)
        .output()
        .expect("qemu-riscv64 runs");
    if !out.status.success() || out.stdout.len() != image.programs * STATE_BYTES as usize {
        return Err(format!(
            "{}, {} bytes; {}",
            out.status,
            out.stdout.len(),
            String::from_utf8_lossy(&out.stderr)
        ));
    }
    Ok(out.stdout)
}

/// What differs between two state blocks.
fn difference(a: &[u8], b: &[u8]) -> String {
    let mut out = String::new();
    for (k, (x, y)) in a.chunks(8).zip(b.chunks(8)).enumerate() {
        if x != y {
            let place = match k {
                0..32 => format!("x{k}"),
                32..64 => format!("f{}", k - 32),
                64 => "fcsr".to_string(),
                _ => format!("scratch+{:#x}", (k - 66) * 8),
            };
            let v = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
            out += &format!("  {place}: hart {:#x}, qemu {:#x}\n", v(x), v(y));
        }
    }
    out
}

fn compare(p: &Program, way: Way, name: &str) -> Option<String> {
    let image = Image::new(std::slice::from_ref(p));
    match (ours(&image, way), theirs(&image, name)) {
        (Ok(a), Ok(b)) if a == b => None,
        (Ok(a), Ok(b)) => Some(difference(&a, &b)),
        (a, b) => Some(format!("  hart: {:?}\n  qemu: {:?}\n", a.err(), b.err())),
    }
}

/// The shortest beginning of a program that still differs, with the unit that makes the difference.
fn report(p: &Program, way: Way, name: &str) -> String {
    let (mut good, mut bad) = (0, p.units.len());
    while bad - good > 1 {
        let mid = (good + bad) / 2;
        if compare(&p.first(mid), way, name).is_some() {
            bad = mid;
        } else {
            good = mid;
        }
    }
    let q = p.first(bad);
    let from = bad.saturating_sub(6);
    let shown: Vec<String> = (from..bad).map(|k| format!("  {}", q.show(k))).collect();
    format!(
        "{}\n{}",
        shown.join("\n"),
        compare(&q, way, name).unwrap_or_default()
    )
}

/// The comparison sees a single changed instruction, and the programs do something at all.
#[test]
fn a_wrong_result_would_be_seen() {
    let p = Program::random(&mut Rng::new(1), 200, block_address(0));
    let mut q = p.clone();
    q.push(&[i(Op::Addi, 5, 5, 1)]);
    let [a, b] = [p.clone(), q].map(|p| ours(&Image::new(&[p]), WAYS[0]).expect("runs"));
    let d = difference(&a, &b);
    assert!(d.starts_with("  x5:") && d.lines().count() == 1, "{d}");
    let changed = p
        .state
        .chunks(8)
        .zip(a.chunks(8))
        .take(65)
        .filter(|(x, y)| x != y)
        .count();
    assert!(changed > 40, "only {changed} registers changed");
}

#[test]
fn random_programs_agree_with_qemu() {
    if Command::new("qemu-riscv64")
        .arg("--version")
        .output()
        .is_err()
    {
        assert_ne!(env("NAGORI_REQUIRE_TOOLS", 0), 1, "qemu-riscv64 is missing");
        eprintln!("skipped: qemu-riscv64 is missing");
        return;
    }
    let programs = env("NAGORI_HART_PROGRAMS", 400) as usize;
    let units = env("NAGORI_HART_UNITS", 200) as usize;
    let seed = env("NAGORI_HART_SEED", 1);
    let batch = 100;
    for first in (0..programs).step_by(batch) {
        let mut rng = Rng::new(seed << 32 | first as u64);
        let count = batch.min(programs - first);
        let list: Vec<Program> = (0..count)
            .map(|k| Program::random(&mut rng, units, block_address(k)))
            .collect();
        // A program alone has another place; its pointers must be right there, too.
        let alone = |k: usize| {
            let mut rng = Rng::new(seed << 32 | first as u64);
            (0..=k)
                .map(|_| Program::random(&mut rng, units, block_address(0)))
                .last()
                .expect("one")
        };
        let image = Image::new(&list);
        let name = format!("diff{first}");
        let b = match theirs(&image, &name) {
            Ok(b) => b,
            Err(e) => {
                let k = (0..count).find(|&k| theirs(&Image::new(&[alone(k)]), &name).is_err());
                let k = k.unwrap_or_else(|| panic!("batch {first}: qemu: {e}"));
                panic!(
                    "program {}: qemu: {e}\n{}",
                    first + k,
                    report(&alone(k), WAYS[0], &name)
                );
            }
        };
        for way in WAYS {
            let a = match ours(&image, way) {
                Ok(a) => a,
                Err(e) => {
                    let k = (0..count).find(|&k| ours(&Image::new(&[alone(k)]), way).is_err());
                    let k = k.unwrap_or_else(|| panic!("batch {first}, {way:?}: hart: {e}"));
                    panic!(
                        "program {}, {way:?}: {e}\n{}",
                        first + k,
                        report(&alone(k), way, &name)
                    );
                }
            };
            let size = STATE_BYTES as usize;
            for k in 0..count {
                let part = k * size..(k + 1) * size;
                if a[part.clone()] != b[part.clone()] {
                    let d = difference(&a[part.clone()], &b[part]);
                    panic!(
                        "program {}, {way:?}:\n{d}{}",
                        first + k,
                        report(&alone(k), way, &name)
                    );
                }
            }
        }
    }
}
