//! Compiles the helper that is loaded into emulated programs; it becomes part of the `nagori` command.
//!
//! The compiler is the host's (`CC`, `cc`). NAGORI_HELPER_CC names one for C libraries that are older than the host's,
//! since the helper runs where the command does.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=helper");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-env-changed=NAGORI_HELPER_CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("helper.so");
    let compiler = ["NAGORI_HELPER_CC", "CC"]
        .iter()
        .find_map(|v| env::var(v).ok());
    let compiler = compiler.unwrap_or_else(|| "cc".into());
    let status = Command::new(&compiler)
        .args([
            "-std=gnu11",
            "-O2",
            "-s",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            "-pthread",
        ])
        .args(["helper/epochs.c", "helper/interpose.c", "helper/pmem.c"])
        .args(["-ldl", "-Wl,-z,now", "-o"])
        .arg(&out)
        .status();
    match status {
        Ok(s) if s.success() => {}
        other => panic!("`{compiler}` cannot compile the helper of crates/native: {other:?}"),
    }
}
