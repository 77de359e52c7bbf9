//! Every operation, format and rounding mode against the RISC-V user emulation
//! of QEMU: results and flags, bit for bit.
//!
//! QEMU 7.2 agrees everywhere, min/max and NaN rules included.
//!
//! Needs `riscv64-linux-gnu-gcc` (static libc included) and `qemu-riscv64`. Without
//! them the test says so and passes, unless `NAGORI_REQUIRE_TOOLS=1`.
//! `NAGORI_SOFTFLOAT_VECTORS` sets the vectors per operation and format
//! (default 10000: 480000 in all, spread over the five modes).

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{integer, operands};
use nagori_softfloat::{self as sf, Flags, Format, Round, F32, F64};
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::TestRunner;

const CC: &str = "riscv64-linux-gnu-gcc";
const QEMU: &str = "qemu-riscv64";

/// Instructions in the order of the guest's numbering.
const OPS: [&str; 24] = [
    "fadd", "fsub", "fmul", "fdiv", "fsqrt", "fmadd", "fmsub", "fnmsub", "fnmadd", "fmin", "fmax",
    "feq", "flt", "fle", "fclass", "fcvt.w", "fcvt.wu", "fcvt.l", "fcvt.lu", "from.w", "from.wu",
    "from.l", "from.lu", "fcvt.fmt",
];

struct Vector {
    op: usize,
    double: bool,
    rm: Round,
    v: [u64; 3],
}

/// The instruction through the crate: value of the destination register, without
/// NaN boxing but with the sign extension of 32-bit integer results.
fn nagori(t: &Vector, f: &mut Flags) -> u64 {
    let ([a, b, c], r) = (t.v, t.rm);
    let sx = |v: i32| v as i64 as u64;
    if t.double {
        let n = F64::SIGN;
        return match OPS[t.op] {
            "fadd" => sf::add_f64(a, b, r, f),
            "fsub" => sf::sub_f64(a, b, r, f),
            "fmul" => sf::mul_f64(a, b, r, f),
            "fdiv" => sf::div_f64(a, b, r, f),
            "fsqrt" => sf::sqrt_f64(a, r, f),
            "fmadd" => sf::fma_f64(a, b, c, r, f),
            "fmsub" => sf::fma_f64(a, b, c ^ n, r, f),
            "fnmsub" => sf::fma_f64(a ^ n, b, c, r, f),
            "fnmadd" => sf::fma_f64(a ^ n, b, c ^ n, r, f),
            "fmin" => sf::min_f64(a, b, f),
            "fmax" => sf::max_f64(a, b, f),
            "feq" => sf::eq_f64(a, b, f).into(),
            "flt" => sf::lt_f64(a, b, f).into(),
            "fle" => sf::le_f64(a, b, f).into(),
            "fclass" => sf::classify_f64(a),
            "fcvt.w" => sx(sf::f64_to_i32(a, r, f)),
            "fcvt.wu" => sx(sf::f64_to_u32(a, r, f) as i32),
            "fcvt.l" => sf::f64_to_i64(a, r, f) as u64,
            "fcvt.lu" => sf::f64_to_u64(a, r, f),
            "from.w" => sf::i32_to_f64(a as i32, r, f),
            "from.wu" => sf::u32_to_f64(a as u32, r, f),
            "from.l" => sf::i64_to_f64(a as i64, r, f),
            "from.lu" => sf::u64_to_f64(a, r, f),
            "fcvt.fmt" => sf::f64_to_f32(a, r, f).into(),
            other => unreachable!("{other}"),
        };
    }
    let (n, long) = (F32::SIGN as u32, a);
    let (a, b, c) = (a as u32, b as u32, c as u32);
    let single = match OPS[t.op] {
        "fadd" => sf::add_f32(a, b, r, f),
        "fsub" => sf::sub_f32(a, b, r, f),
        "fmul" => sf::mul_f32(a, b, r, f),
        "fdiv" => sf::div_f32(a, b, r, f),
        "fsqrt" => sf::sqrt_f32(a, r, f),
        "fmadd" => sf::fma_f32(a, b, c, r, f),
        "fmsub" => sf::fma_f32(a, b, c ^ n, r, f),
        "fnmsub" => sf::fma_f32(a ^ n, b, c, r, f),
        "fnmadd" => sf::fma_f32(a ^ n, b, c ^ n, r, f),
        "fmin" => sf::min_f32(a, b, f),
        "fmax" => sf::max_f32(a, b, f),
        "from.w" => sf::i32_to_f32(a as i32, r, f),
        "from.wu" => sf::u32_to_f32(a, r, f),
        "from.l" => sf::i64_to_f32(long as i64, r, f),
        "from.lu" => sf::u64_to_f32(long, r, f),
        "feq" => return sf::eq_f32(a, b, f).into(),
        "flt" => return sf::lt_f32(a, b, f).into(),
        "fle" => return sf::le_f32(a, b, f).into(),
        "fclass" => return sf::classify_f32(a),
        "fcvt.w" => return sx(sf::f32_to_i32(a, r, f)),
        "fcvt.wu" => return sx(sf::f32_to_u32(a, r, f) as i32),
        "fcvt.l" => return sf::f32_to_i64(a, r, f) as u64,
        "fcvt.lu" => return sf::f32_to_u64(a, r, f),
        "fcvt.fmt" => return sf::f32_to_f64(a, f),
        other => unreachable!("{other}"),
    };
    single.into()
}

/// Whether the destination holds a binary32 value.
fn single_result(t: &Vector) -> bool {
    match OPS[t.op] {
        "fcvt.fmt" => t.double,
        name => !t.double && (t.op <= 10 || name.starts_with("from")),
    }
}

/// Operations with operands. Every run has the same ones: the generator's seed is fixed.
fn vectors(per_op: usize) -> Vec<Vector> {
    let mut runner = TestRunner::deterministic();
    let mut all = Vec::with_capacity(per_op * OPS.len() * 2);
    for (op, name) in OPS.iter().enumerate() {
        for double in [true, false] {
            let source: BoxedStrategy<[u64; 3]> = if name.starts_with("from") {
                integer().prop_map(|v| [v, 0, 0]).boxed()
            } else if double {
                operands::<F64>()
            } else {
                operands::<F32>()
            };
            for i in 0..per_op {
                let v = source
                    .new_tree(&mut runner)
                    .expect("no filters, so every draw succeeds")
                    .current();
                let rm = Round::ALL[i % 5];
                all.push(Vector { op, double, rm, v });
            }
        }
    }
    all
}

/// Builds the guest. `Err` tells which tool is missing.
fn build_guest(dir: &Path) -> Result<PathBuf, String> {
    for tool in [CC, QEMU] {
        Command::new(tool)
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .map_err(|e| format!("{tool}: {e}"))?;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/fpvec.c");
    let exe = dir.join("fpvec");
    let status = Command::new(CC)
        .args(["-O1", "-static", "-Wall", "-Werror", "-march=rv64gc", "-o"])
        .args([&exe, &source])
        .status()
        .map_err(|e| format!("{CC}: {e}"))?;
    assert!(status.success(), "{CC} cannot build {}", source.display());
    Ok(exe)
}

#[test]
fn every_instruction_matches_qemu() {
    let per_op = match std::env::var("NAGORI_SOFTFLOAT_VECTORS") {
        Ok(n) => n.parse().expect("NAGORI_SOFTFLOAT_VECTORS is a number"),
        Err(_) => 10_000,
    };
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fpvec-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("temporary directory");
    let exe = match build_guest(&dir) {
        Ok(exe) => exe,
        Err(missing) => {
            let required = std::env::var("NAGORI_REQUIRE_TOOLS").is_ok_and(|v| v == "1");
            assert!(!required, "NAGORI_REQUIRE_TOOLS=1, but {missing}");
            eprintln!("SKIPPED: comparison with {QEMU} needs {CC} and {QEMU}; {missing}");
            return;
        }
    };

    let all = vectors(per_op);
    let mut input = Vec::with_capacity(all.len() * 32);
    for t in &all {
        let op = (t.op * 2 + usize::from(!t.double)) as u64;
        for word in [op | (t.rm as u64) << 8, t.v[0], t.v[1], t.v[2]] {
            input.extend(word.to_le_bytes());
        }
    }
    let path = dir.join("vectors");
    let mut file = File::create(&path).expect("vector file");
    file.write_all(&input).expect("vector file");
    let out = Command::new(QEMU)
        .arg(&exe)
        .stdin(File::open(&path).expect("vector file"))
        .stderr(Stdio::inherit())
        .output()
        .expect("running the guest");
    assert!(out.status.success(), "guest: {}", out.status);
    assert_eq!(out.stdout.len(), all.len() * 16, "one answer per vector");

    let mut wrong = 0;
    for (t, answer) in all.iter().zip(out.stdout.chunks_exact(16)) {
        let word = |i| u64::from_le_bytes(answer[i..i + 8].try_into().expect("eight bytes"));
        let (mut want, flags) = (word(0), word(8));
        if single_result(t) {
            // fmv.x.w sign-extends.
            want &= 0xffff_ffff;
        }
        // Twice: from cleared flags, and with NX set, where other paths are taken.
        for before in [0, Flags::NX] {
            let mut f = Flags(before);
            let got = nagori(t, &mut f);
            if (got, f.0) != (want, flags as u8 | before) {
                wrong += 1;
                if wrong <= 20 {
                    eprintln!(
                        "{}.{} {:?} {:x?}: got {got:#x} flags {:#x}, qemu {want:#x} flags {flags:#x}",
                        OPS[t.op],
                        if t.double { 'd' } else { 's' },
                        t.rm,
                        t.v,
                        f.0
                    );
                }
            }
        }
    }
    fs::remove_dir_all(&dir).expect("temporary directory");
    assert_eq!(wrong, 0, "of {} vectors", all.len());
}
