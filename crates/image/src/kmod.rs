//! Our kernel module, compiled against the headers of Debian's kernel.
//!
//! The tools that Debian's headers need for that (linux-kbuild) are programs for riscv64, and the host's are
//! for another kernel. All that they would do for one file is done here: the compiler's options, the table of
//! the checksums of the symbols that the module uses, and the link.

use crate::apt::Package;
use crate::error::IoContext;
use crate::modules::{self, Module};
use crate::tool::{GCC, LD};
use crate::{guest, Error};
use object::{Object, ObjectSymbol};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Name of the module.
pub(crate) const NAME: &str = "off2f";
/// Its sources in guest/kernel/off2f.
const PARTS: [&str; 2] = ["off2f", "directory"];
/// Where it is below /lib/modules/RELEASE.
const PATH: &str = "extra/off2f.ko";
const IMAGE: &str = "linux-image-";
const ARCHITECTURE: &str = "-riscv64";

/// Of the kernel's own options (arch/riscv/Makefile and the top Makefile) those that matter for a module: code for
/// the kernel's address range, without the registers and tables of user programs. No instrumentation.
const FLAGS: [&str; 27] = [
    "-D__KERNEL__",
    "-DMODULE",
    "-DCC_USING_PATCHABLE_FUNCTION_ENTRY",
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Werror",
    "-Wno-pointer-sign",
    "-Wno-attributes",
    "-fms-extensions",
    "-fshort-wchar",
    "-fno-common",
    "-fno-pie",
    "-fno-strict-aliasing",
    "-fno-strict-overflow",
    "-fno-delete-null-pointer-checks",
    "-fno-stack-protector",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-mabi=lp64",
    "-march=rv64imac_zicsr_zifencei",
    "-mcmodel=medany",
    "-mno-save-restore",
    "-mno-relax",
    "-DKBUILD_MODNAME=\"off2f\"",
    "-DKBUILD_BASENAME=\"off2f\"",
    "-D__KBUILD_MODNAME=kmod_off2f",
];

/// Names of the packages with the headers of a kernel package.
pub(crate) fn header_packages(kernel: &Package) -> Result<[String; 2], Error> {
    let release = kernel.name.strip_prefix(IMAGE);
    let version = release.and_then(|r| Some((r, r.strip_suffix(ARCHITECTURE)?)));
    let (release, version) =
        version.ok_or_else(|| fail(format!("no headers of {}", kernel.name)))?;
    Ok([
        format!("linux-headers-{version}-common"),
        format!("linux-headers-{release}"),
    ])
}

fn fail(what: impl Into<String>) -> Error {
    Error::Module {
        name: NAME.into(),
        what: what.into(),
    }
}

/// Whether a file of these packages is needed.
pub(crate) fn is_needed(path: &str) -> bool {
    let below = path.strip_prefix("usr/src/").unwrap_or(path);
    let Some((_, inner)) = below.split_once('/') else {
        return false;
    };
    inner.starts_with("include/") || inner.starts_with("arch/riscv/") || inner == "Module.symvers"
}

/// Puts the files of a package where `compile` expects them. `work` is a directory of ours.
pub(crate) fn write_headers(work: &Path, files: BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
    for (path, bytes) in files {
        let below = path.strip_prefix("usr/src/").unwrap_or(&path);
        let Some((package, inner)) = below.split_once('/') else {
            continue;
        };
        // The archive was verified, but no name in it leads out of the directory.
        if inner.split('/').any(|part| part.is_empty() || part == "..") {
            return Err(fail(format!("`{path}` is no place for a header")));
        }
        let kind = match package.ends_with("-common") {
            true => "common",
            false => "own",
        };
        let file = work.join(kind).join(inner);
        let dir = file.parent().unwrap_or(work);
        fs::create_dir_all(dir).context("create", dir)?;
        fs::write(&file, bytes).context("write", &file)?;
    }
    Ok(())
}

/// Compiles the module in `work`, where the headers are.
pub(crate) fn compile(work: &Path, release: &str) -> Result<Module, Error> {
    guest::write_sources(work)?;
    let mut c = LD.command();
    c.current_dir(work)
        .args(["-r", "-m", "elf64lriscv", "-o", "off2f.o"]);
    for part in PARTS {
        let object = format!("{part}.part.o");
        compile_c(work, &format!("kernel/off2f/{part}.c"), &object)?;
        c.arg(object);
    }
    LD.run(c, "link the module's parts")?;
    let object = work.join("off2f.o");
    let object = fs::read(&object).context("read", &object)?;
    let versions = work.join("own/Module.symvers");
    let versions = fs::read_to_string(&versions).context("read", &versions)?;
    let table = table(&undefined(&object)?, &versions)?;
    let file = work.join("off2f.mod.c");
    fs::write(&file, table).context("write", &file)?;
    compile_c(work, "off2f.mod.c", "off2f.mod.o")?;
    let mut c = LD.command();
    c.current_dir(work)
        .args(["-r", "-m", "elf64lriscv", "--build-id=none"])
        .args(["-T", "own/arch/riscv/module.lds"])
        .args(["-o", "off2f.ko", "off2f.o", "off2f.mod.o"]);
    LD.run(c, "link the module off2f")?;
    let file = work.join("off2f.ko");
    let bytes = fs::read(&file).context("read", &file)?;
    let found = modules::release_of(&bytes).map_err(fail)?;
    if found != release {
        return Err(fail(format!(
            "its headers are of {found}, the kernel is {release}"
        )));
    }
    modules::module(PATH, bytes).map_err(fail)
}

fn compile_c(work: &Path, source: &str, to: &str) -> Result<(), Error> {
    let mut c = GCC.command();
    c.arg("-print-file-name=include");
    let own = GCC.run(c, "ask for the compiler's headers")?;
    let own = String::from_utf8_lossy(&own.stdout).trim().to_string();
    let mut c = GCC.command();
    c.current_dir(work).args(["-nostdinc", "-isystem", &own]);
    for inner in [
        "arch/riscv/include",
        "include",
        "arch/riscv/include/uapi",
        "include/uapi",
    ] {
        let generated = match inner.strip_prefix("arch/riscv/include") {
            Some(rest) => format!("own/arch/riscv/include/generated{rest}"),
            None if inner.ends_with("uapi") => "own/include/generated/uapi".into(),
            None => "own/include".into(),
        };
        c.arg(format!("-Icommon/{inner}"))
            .arg(format!("-I{generated}"));
    }
    for header in ["compiler-version", "kconfig", "compiler_types"] {
        c.args(["-include", &format!("common/include/linux/{header}.h")]);
    }
    c.args(FLAGS).args(["-Ioff2f", "-c", "-o", to, source]);
    GCC.run(c, "compile").map(drop).map_err(|e| match e {
        Error::Command { output, .. } => Error::Compile {
            program: format!("{NAME}.ko"),
            output,
        },
        other => other,
    })
}

/// Symbols that the kernel has to supply.
fn undefined(object: &[u8]) -> Result<Vec<String>, Error> {
    let file = object::File::parse(object).map_err(|e| fail(format!("is no ELF file: {e}")))?;
    let names = file.symbols().filter(|s| s.is_undefined());
    let names = names.filter_map(|s| s.name().ok().map(String::from));
    Ok(names
        .filter(|n| !n.is_empty() && n != "__this_module")
        .collect())
}

/// The source with the module's description, and the checksum of each symbol that it uses. `versions` is the kernel's
/// Module.symvers: lines of checksum, name, place, kind of export.
fn table(used: &[String], versions: &str) -> Result<String, Error> {
    let of = |line: &'_ str| -> Option<(String, String)> {
        let mut fields = line.split('\t');
        let (sum, name, place) = (fields.next()?, fields.next()?, fields.next()?);
        (place == "vmlinux").then(|| (name.to_string(), sum.to_string()))
    };
    let known: BTreeMap<String, String> = versions.lines().filter_map(of).collect();
    let mut text = String::from(
        "#include <linux/module.h>\n#define INCLUDE_VERMAGIC\n#include <linux/vermagic.h>\n\
         MODULE_INFO(name, KBUILD_MODNAME);\nMODULE_INFO(vermagic, VERMAGIC_STRING);\n\
         MODULE_INFO(depends, \"\");\n\
         __visible struct module __this_module __section(\".gnu.linkonce.this_module\") = {\n\
         .name = KBUILD_MODNAME, .init = init_module, .exit = cleanup_module, .arch = MODULE_ARCH_INIT,\n};\n\
         static const struct modversion_info ____versions[] __used __section(\"__versions\") = {\n",
    );
    for name in used.iter().map(String::as_str).chain(["module_layout"]) {
        let sum = known.get(name);
        let sum = sum.ok_or_else(|| fail(format!("the kernel does not export `{name}`")))?;
        let _ = writeln!(text, "{{ {sum}, \"{name}\" }},");
    }
    text.push_str("};\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_a_kernel() {
        let mut kernel = Package {
            name: "linux-image-6.12.107+deb13-riscv64".into(),
            version: "1".into(),
            sha256: String::new(),
            size: 0,
        };
        assert_eq!(
            header_packages(&kernel).unwrap(),
            [
                "linux-headers-6.12.107+deb13-common",
                "linux-headers-6.12.107+deb13-riscv64"
            ]
        );
        kernel.name = "linux-image-6.12".into();
        assert!(header_packages(&kernel).is_err());
    }

    #[test]
    fn only_headers_are_unpacked() {
        assert!(is_needed(
            "usr/src/linux-headers-6-common/include/linux/fs.h"
        ));
        assert!(is_needed("usr/src/linux-headers-6-riscv64/Module.symvers"));
        assert!(!is_needed("usr/src/linux-headers-6-riscv64/vmlinux"));
        assert!(!is_needed("usr/share/doc/x"));
        let dir = tempfile::tempdir().unwrap();
        let bad = "usr/src/linux-headers-6-common/include/../../../../x";
        let files = BTreeMap::from([(bad.to_string(), vec![1])]);
        assert!(write_headers(dir.path(), files).is_err());
    }

    #[test]
    fn checksums_of_symbols() {
        let versions = "0x11\ta\tvmlinux\tEXPORT_SYMBOL\t\n0x22\tmodule_layout\tvmlinux\tx\t\n\
                        0x33\tb\tdrivers/b\tEXPORT_SYMBOL\t\n";
        let text = table(&["a".into()], versions).unwrap();
        assert!(
            text.contains("{ 0x11, \"a\" },\n{ 0x22, \"module_layout\" },\n};"),
            "{text}"
        );
        let e = table(&["b".into()], versions).unwrap_err().to_string();
        assert!(e.contains("does not export `b`"), "{e}");
    }
}
