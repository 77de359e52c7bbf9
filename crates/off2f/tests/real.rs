//! Programs and libraries of the cross compiler's, split and joined: static, static-PIE, dynamic, shared.
//!
//! Skipped where the compiler is missing, unless NAGORI_REQUIRE_TOOLS=1.

use nagori_off2f::{join, read_off2, split, PAGE};
use std::path::Path;
use std::process::Command;

const GCC: &str = "riscv64-linux-gnu-gcc";

fn check(path: &Path) -> Result<(), nagori_off2f::Error> {
    let elf = std::fs::read(path).unwrap();
    let pair = split(&elf)?;
    assert!(
        join(&pair.off2, &pair.text).unwrap() == elf,
        "{}",
        path.display()
    );
    let h = read_off2(&pair.off2).unwrap();
    assert_eq!(h.elf_machine, 243);
    // The first and the last page of the text may be in both files, nothing else.
    assert!(h.text_pages - h.cut_pages <= 2, "{}", path.display());
    assert_eq!(
        pair.off2.len() + pair.text.len(),
        elf.len() + ((2 + h.text_pages - h.cut_pages) * PAGE) as usize + tail(&elf, &h)
    );
    Ok(())
}

/// Bytes by which the text's last page is longer than the file.
fn tail(elf: &[u8], h: &nagori_off2f::Header) -> usize {
    let end = (h.text_offset + h.text_pages * PAGE) as usize;
    end.saturating_sub(elf.len())
}

#[test]
fn real_files() {
    if Command::new(GCC).arg("--version").output().is_err() {
        let required = std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!required, "{GCC} is missing");
        return;
    }
    let dir = std::env::temp_dir().join(format!("nagori-off2f-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let source = dir.join("a.c");
    std::fs::write(
        &source,
        "#include <stdio.h>\nint main(void) { return puts(\"x\") < 0; }\n#ifdef ALONE\nint puts(const char *t) { \
            return *t; }\nvoid _start(void) { main(); }\n#endif\n",
    )
    .unwrap();
    for flags in [
        &["-static"][..],
        // The cross compiler has no start files for this kind.
        &["-static-pie", "-nostdlib", "-DALONE", "-fPIE"],
        &["-pie"],
        &["-shared", "-fPIC"],
        &["-static", "-Wl,-z,separate-code"],
        &["-pie", "-Wl,-z,separate-code", "-Wl,--build-id"],
        &["-static", "-Wl,-z,max-page-size=0x200000"],
    ] {
        let out = dir.join("a.out");
        let run = Command::new(GCC)
            .args(flags)
            .arg("-o")
            .arg(&out)
            .arg(&source)
            .status();
        assert!(run.unwrap().success(), "{flags:?}");
        check(&out).unwrap_or_else(|e| panic!("{flags:?}: {e}"));
    }
    std::fs::remove_dir_all(&dir).unwrap();
    // The C library and its companions, as Debian has them.
    let Ok(libraries) = std::fs::read_dir("/usr/riscv64-linux-gnu/lib") else {
        return;
    };
    let mut sound = 0;
    for file in libraries.flatten().map(|e| e.path()) {
        let name = file.to_string_lossy().into_owned();
        if name.contains(".so") && std::fs::read(&file).is_ok_and(|b| b.starts_with(b"\x7fELF")) {
            check(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
            sound += 1;
        }
    }
    assert!(sound > 3, "{sound} libraries");
}
