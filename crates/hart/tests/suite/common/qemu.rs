//! Random user programs on the hart in every mode, and under QEMU.

use super::gen::{Image, BASE, STATE_BYTES};
use super::guest::{Sv39, USER_ALL};
use super::{bytes, csrw, env, i, n, rocket, Rng};
use nagori_hart::engine::Engine;
use nagori_hart::flat::Flat;
use nagori_hart::trap::cause;
use nagori_hart::world::Bus;
use nagori_hart::{CodeCache, Hart, HartConfig};
use nagori_isa::Op;
use std::path::PathBuf;
use std::process::Command;

/// Whether there is no QEMU; a failure with NAGORI_REQUIRE_TOOLS=1.
pub fn missing() -> bool {
    let found = Command::new("qemu-riscv64").arg("--version").output();
    if found.is_err() {
        assert_ne!(env("NAGORI_REQUIRE_TOOLS", 0), 1, "qemu-riscv64 is missing");
        eprintln!("skipped: qemu-riscv64 is missing");
    }
    found.is_err()
}

/// Bytes of memory.
pub const MEMORY: u64 = 8 << 20;
/// What the machine-mode side needs, behind the image.
const SUPPORT: u64 = BASE + MEMORY - 0x2_0000;

/// How the hart runs a program.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub timed: bool,
    /// User mode behind a page table instead of machine mode.
    pub paged: bool,
    /// Greatest length of a call of `run`, in cycles.
    pub slice: u64,
}

/// All ways.
pub const WAYS: [Way; 6] = [
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

/// A hart before a program, and where it ends.
pub fn set_up(image: &Image, way: Way) -> (Flat, Hart, u64) {
    set_up_with(image, way, rocket())
}

/// As [`set_up`], with another core.
pub fn set_up_with(image: &Image, way: Way, config: HartConfig) -> (Flat, Hart, u64) {
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
    ram.write_bytes(SUPPORT - BASE, &bytes(&words))
        .expect("in memory");
    ram.write_u32(trap - BASE, i(Op::Jal, 0, 0, 0))
        .expect("in memory");
    h.state.pc = SUPPORT;
    h.set_reg(10, trap);
    h.set_reg(11, u64::MAX >> 10);
    h.set_reg(12, 0x1f);
    h.set_reg(13, if way.paged { table.satp() } else { 0 });
    h.set_reg(14, mstatus);
    h.set_reg(15, image.entry);
    (w, h, trap)
}

/// The state blocks after the run.
pub fn ours<E: Engine<Flat>>(image: &Image, way: Way, engine: &mut E) -> Result<Vec<u8>, String> {
    let (mut w, mut h, trap) = set_up(image, way);
    let mut code = CodeCache::default();
    let mut rng = Rng::new(5);
    while h.state.pc != trap {
        let limit = if way.slice == u64::MAX {
            10_000
        } else {
            1 + rng.below(way.slice)
        };
        let limit = h.state.cycle + limit;
        h.run_with(&mut code, &mut w, limit, engine);
        if h.state.instret > 100_000_000 {
            return Err("does not come to its end".into());
        }
    }
    let end = if way.paged {
        cause::ECALL_U
    } else {
        cause::ECALL_U + 3
    };
    if h.state.csr.mcause != end || h.reg(17) != 64 {
        return Err(format!(
            "trap {} at {:#x}, tval {:#x}",
            h.state.csr.mcause, h.state.csr.mepc, h.state.csr.mtval
        ));
    }
    let mut out = vec![0; image.programs * STATE_BYTES as usize];
    w.ram()
        .read_bytes(image.states as u64, &mut out)
        .expect("in memory");
    Ok(out)
}

/// The state blocks as QEMU leaves them.
pub fn theirs(image: &Image, name: &str) -> Result<Vec<u8>, String> {
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
pub fn difference(a: &[u8], b: &[u8]) -> String {
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
