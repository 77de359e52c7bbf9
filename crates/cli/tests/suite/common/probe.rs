//! Programs of tests in the guest: the probe, which is compiled from `programs/probe.c`.
#![allow(dead_code)]

use super::debian::{tools_required, PATIENCE};
use super::nagori;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A directory with the probe, compiled.
pub struct Place {
    pub dir: TempDir,
}

impl Place {
    pub fn new() -> Option<Place> {
        Place::linked("-static")
    }

    pub fn linked(how: &str) -> Option<Place> {
        let dir = TempDir::new().unwrap();
        let probe = dir.path().join("probe");
        let root = env!("CARGO_MANIFEST_DIR");
        let compiled = Command::new("riscv64-linux-gnu-gcc")
            .args(["-O2", how, "-Wall", "-Werror", "-o"])
            .arg(&probe)
            .arg(format!("-I{root}/../../guest/include"))
            .arg(format!("{root}/tests/programs/probe.c"))
            .status();
        match compiled {
            Ok(s) => assert!(s.success(), "the probe does not compile"),
            Err(_) if !tools_required() => {
                eprintln!("skipped: riscv64-linux-gnu-gcc is not installed");
                return None;
            }
            Err(e) => panic!("riscv64-linux-gnu-gcc: {e}"),
        }
        Some(Place { dir })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `nagori run` with options, then the probe with arguments.
    pub fn run(&self, options: &[&str], args: &[&str]) -> assert_cmd::Command {
        self.nagori(&[&["run"], options].concat(), args)
    }

    /// `nagori compare` with options, then the probe with arguments.
    pub fn compare(&self, options: &[&str], args: &[&str]) -> assert_cmd::Command {
        let options = [&["compare", "--stdin", "none"], options].concat();
        self.nagori(&options, args)
    }

    pub fn nagori(&self, command: &[&str], args: &[&str]) -> assert_cmd::Command {
        let mut c = nagori();
        c.timeout(PATIENCE).current_dir(self.dir.path());
        c.args(command).args(["--", "./probe"]).args(args);
        c
    }
}

pub fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub fn number(v: &Value, path: &str) -> u64 {
    let found = v.pointer(path).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no {path} in {v:#}"))
}
