//! Our own programs: compiled on the host for the guest.

use crate::error::{at, Error, Result};
use crate::library::Library;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Debian's cross compiler.
const COMPILER: &str = "riscv64-linux-gnu-gcc";
/// The baseline of Debian's own programs; no path of the host gets into the program.
const FLAGS: [&str; 9] = [
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-march=rv64gc",
    "-mabi=lp64d",
    "-s",
    "-Wl,--build-id=none",
];
/// The markers' header, beside the sources.
const MARKERS: &[u8] = include_bytes!("../../../guest/include/nagori_mark.h");

/// The compiler's version.
pub fn version() -> Result<String> {
    let out = run(Command::new(COMPILER).arg("-dumpfullversion"), COMPILER)?;
    Ok(String::from_utf8_lossy(&out).trim().to_string())
}

/// Compiles sources of `suite/src/` into a program, or a library if flags say so.
pub fn compile(
    library: &Library,
    name: &str,
    sources: &[String],
    flags: &[String],
) -> Result<Vec<u8>> {
    let dir = tempfile::tempdir().map_err(at("make", Path::new("a temporary directory")))?;
    let place = |file: &str, bytes: &[u8]| {
        let path = dir.path().join(file);
        fs::write(&path, bytes).map_err(at("write", &path))
    };
    place("nagori_mark.h", MARKERS)?;
    for s in sources {
        place(s, &library.file(&format!("src/{s}"))?)?;
    }
    let mut c = Command::new(COMPILER);
    c.current_dir(dir.path())
        .args(FLAGS)
        .args(["-D_GNU_SOURCE", "-o", "program"]);
    run(c.args(sources).args(flags), name)?;
    let path = dir.path().join("program");
    fs::read(&path).map_err(at("read", &path))
}

fn run(c: &mut Command, program: &str) -> Result<Vec<u8>> {
    let out = c.env("LC_ALL", "C").output().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::Request(format!(
            "{COMPILER} is not installed; it is in Debian's packages gcc-riscv64-linux-gnu and libc6-dev-riscv64-cross"
        )),
        _ => at("run", Path::new(COMPILER))(e),
    })?;
    if out.status.success() {
        Ok(out.stdout)
    } else {
        Err(Error::Compile {
            program: program.into(),
            output: String::from_utf8_lossy(&out.stderr).into_owned(),
        })
    }
}
