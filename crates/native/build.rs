//! Compiles the helper that is loaded into emulated programs; it becomes part of the `nagori` command.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=helper");
    println!("cargo::rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("helper.so");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(&compiler)
        .args([
            "-std=gnu11",
            "-O2",
            "-g",
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
