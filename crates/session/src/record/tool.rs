//! The tool for Valgrind: compiled on the user's machine, against the libraries of its Valgrind.

use crate::error::{Context, Error, Result};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("tool.c");
/// Valgrind's name for the host.
const PLATFORM: &str = "amd64-linux";
/// Where Valgrind may be installed.
const PREFIXES: [&str; 2] = ["/usr/local", "/usr"];

/// The compiled tool.
pub struct Tool {
    dir: PathBuf,
}

/// Compiles the tool in a directory, which must live as long as programs run.
pub fn build(dir: &Path) -> Result<Tool> {
    let missing = || {
        let what = "Valgrind's headers and libraries are not installed (Debian: valgrind)";
        Error::Request(what.into())
    };
    let core = library("libcoregrind")?.ok_or_else(missing)?;
    let vex = library("libvex")?.ok_or_else(missing)?;
    let support = library("libgcc-sup")?;
    let loaded = format!("vgpreload_core-{PLATFORM}.so");
    // What Valgrind loads into programs; it was beside the other libraries once.
    let beside = core.parent().map(Path::to_owned);
    let other = PREFIXES.map(|p| Path::new(p).join("libexec/valgrind"));
    let mut places = other.into_iter().chain(beside);
    let place = places.find(|d| d.join(&loaded).is_file());
    let place = place.ok_or_else(missing)?;
    std::os::unix::fs::symlink(place.join(&loaded), dir.join(&loaded))?;

    let source = dir.join("tool.c");
    std::fs::write(&source, SOURCE)?;
    let mut cc = Command::new("cc");
    // The program's code calls the tool's, which has no C library and no start of its own.
    cc.args([
        "-O2",
        "-std=gnu99",
        "-ffreestanding",
        "-fno-stack-protector",
    ])
    .args([
        "-fno-pie",
        "-static",
        "-no-pie",
        "-nostdlib",
        "-Wl,-u,_start",
    ])
    .args(["-Wl,-z,noexecstack", "-Wl,--build-id=none"])
    // Valgrind keeps out of the way of programs here.
    .arg("-Wl,-Ttext-segment=0x58000000")
    .args(PREFIXES.map(|p| format!("-I{p}/include/valgrind")))
    .args(["-DVGA_amd64=1", "-DVGO_linux=1", "-DVGP_amd64_linux=1"])
    .arg("-DVGPV_amd64_linux_vanilla=1")
    .arg("-o")
    .args([&dir.join(format!("nagori-{PLATFORM}")), &source])
    .args([&core, &vex])
    .arg("-lgcc")
    .args(support);
    let out = run(&mut cc)?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr);
        return Err(Error::Request(format!(
            "cc cannot compile the tool for Valgrind: {}",
            text.trim_end()
        )));
    }
    Ok(Tool {
        dir: dir.to_owned(),
    })
}

impl Tool {
    /// The command to which a program is appended. Events go to a pipe that the command inherits.
    pub fn command(&self, pipe: RawFd) -> Command {
        // Without address space layout randomisation, addresses are equal in every run.
        let mut c = Command::new("setarch");
        c.arg("-R")
            .arg(self.dir.join(format!("nagori-{PLATFORM}")))
            .args(["--tool=nagori", "--command-line-only=yes", "-q"])
            .args(["--vgdb=no", "--child-silent-after-fork=yes"])
            .args(["--fair-sched=try", &format!("--fd={pipe}")])
            // The launcher, which is left out, sets the first one; distributions have their own settings in it.
            .env("VALGRIND_LAUNCHER", "nagori")
            .env("VALGRIND_LIB", &self.dir);
        c
    }
}

/// A library of Valgrind, where the compiler looks for libraries.
fn library(name: &str) -> Result<Option<PathBuf>> {
    let name = format!("valgrind/{name}-{PLATFORM}.a");
    let out = run(Command::new("cc").arg(format!("-print-file-name={name}")))?;
    let path = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim_end());
    // What is not found comes back as it is.
    Ok(path.is_absolute().then_some(path))
}

fn run(command: &mut Command) -> Result<std::process::Output> {
    let out = command.stdin(Stdio::null()).output();
    out.context("cannot run cc (Debian: gcc)")
}
