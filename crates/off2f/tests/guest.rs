//! The guest's tool (guest/off2f), compiled for this host: it makes and accepts exactly what the crate does.
//!
//! Skipped where the compiler is missing, unless NAGORI_REQUIRE_TOOLS=1.

use nagori_off2f::{join, read_off2, read_text, split};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Directory {
        let name = format!("nagori-off2f-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn tool(dir: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/off2f");
    let tool = dir.join("tool");
    let run = Command::new("cc")
        .args(["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-o"])
        .arg(&tool)
        .args(["off2f.c", "files.c", "store.c"].map(|f| source.join(f)))
        .status();
    match run {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            let required = std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1");
            assert!(!required, "cc is missing");
            return None;
        }
    }
    Some(tool)
}

struct Case<'a> {
    tool: &'a Path,
    dir: &'a Path,
}

impl Case<'_> {
    fn run(&self, words: &[&str]) -> Output {
        let mut c = Command::new(self.tool);
        c.current_dir(self.dir).args(words).output().unwrap()
    }

    /// Both split a file, or both refuse it; then it is joined. Returns whether it was split.
    fn check(&self, name: &str, elf: &[u8]) -> bool {
        for old in ["p.off2", "p.text", "again"] {
            let _ = fs::remove_file(self.dir.join(old));
        }
        fs::write(self.dir.join("p"), elf).unwrap();
        let out = self.run(&["split", "p"]);
        let read = |file: &str| fs::read(self.dir.join(file)).unwrap();
        let Ok(pair) = split(elf) else {
            assert!(!out.status.success(), "{name}: the crate refuses it");
            assert!(out.stderr.starts_with(b"off2f: p: "), "{name}");
            return false;
        };
        assert!(out.status.success(), "{name}: {out:?}");
        assert!(read("p.off2") == pair.off2, "{name}: other PROG.off2");
        assert!(read("p.text") == pair.text, "{name}: other PROG.text");
        assert!(
            self.run(&["join", "p.off2", "again"]).status.success(),
            "{name}"
        );
        assert!(read("again") == elf, "{name}: other ELF file");
        true
    }
}

#[test]
fn the_guests_tool_makes_the_same_files() {
    let dir = Directory::new("same");
    let Some(tool) = tool(&dir.0) else { return };
    let case = Case {
        tool: &tool,
        dir: &dir.0,
    };
    // What this host and the cross compiler have: with and without build ids, separate code, notes.
    let mut split_files = 0;
    for from in ["/usr/bin", "/usr/riscv64-linux-gnu/lib"] {
        let mut files: Vec<PathBuf> = fs::read_dir(from)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        files.sort();
        let small = files
            .iter()
            .filter(|f| f.metadata().is_ok_and(|m| m.is_file() && m.len() < 1 << 20));
        for file in small.take(60) {
            let Ok(bytes) = fs::read(file) else { continue };
            split_files += u32::from(case.check(&file.to_string_lossy(), &bytes));
        }
    }
    assert!(split_files >= 10, "{split_files}");

    // Each byte of the headers, changed: the two agree on what can be split.
    let own = fs::read(&tool).unwrap();
    let mut refused = 0;
    for at in (0..64 + 13 * 56).step_by(3) {
        for value in [0, 1, 0xff] {
            let mut bytes = own.clone();
            if std::mem::replace(&mut bytes[at], value) != value {
                let is_split = case.check(&format!("byte {at} is {value}"), &bytes);
                refused += u32::from(!is_split);
            }
        }
    }
    assert!(refused >= 50, "{refused}");
    for len in [0, 3, 20, 64, 100, 3000] {
        assert!(!case.check(&format!("{len} bytes"), &own[..len]));
    }
}

#[test]
fn the_guests_tool_refuses_what_the_crate_refuses() {
    let dir = Directory::new("damaged");
    let Some(tool) = tool(&dir.0) else { return };
    let case = Case {
        tool: &tool,
        dir: &dir.0,
    };
    let elf = fs::read(&tool).unwrap();
    assert!(case.check("itself", &elf));
    let pair = split(&elf).unwrap();
    for (name, good) in [("p.off2", &pair.off2), ("p.text", &pair.text)] {
        let path = dir.0.join(name);
        let accepted = |bytes: &[u8]| match name {
            "p.off2" => read_off2(bytes).is_ok(),
            _ => read_text(bytes).is_ok(),
        };
        // A changed byte, with the checksum of the header corrected; then cut off.
        for at in (0..200).chain([4000, 4088, 5000]) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x41;
            if at < 4088 {
                let sum = nagori_off2f::checksum(&bytes[..4088]);
                bytes[4088..4096].copy_from_slice(&sum.to_le_bytes());
            }
            fs::write(&path, &bytes).unwrap();
            let out = case.run(&["show", name]);
            assert_eq!(out.status.success(), accepted(&bytes), "{name}, byte {at}");
            let joined = match name {
                "p.off2" => join(&bytes, &pair.text),
                _ => join(&pair.off2, &bytes),
            };
            let _ = fs::remove_file(dir.0.join("again"));
            let out = case.run(&["join", "p.off2", "again"]);
            assert_eq!(out.status.success(), joined.is_ok(), "{name}, byte {at}");
            assert_eq!(dir.0.join("again").exists(), joined.is_ok());
        }
        for len in [0, 7, 100, 4095, 4096, good.len() - 1] {
            fs::write(&path, &good[..len]).unwrap();
            assert!(!case.run(&["show", name]).status.success(), "{name}, {len}");
        }
        fs::write(&path, good).unwrap();
    }
    // The files of two programs.
    let other = fs::read("/proc/self/exe").unwrap();
    fs::write(dir.0.join("p.text"), split(&other).unwrap().text).unwrap();
    let out = case.run(&["join", "p.off2", "mixed"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("do not belong together"));
    // A file that is there is not written over.
    let out = case.run(&["split", "p"]);
    assert!(!out.status.success() && fs::read(dir.0.join("p.off2")).unwrap() == pair.off2);
}
