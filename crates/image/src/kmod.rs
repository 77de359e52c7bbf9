//! Kernel modules that Debian's package does not have, compiled against its headers: our own, and a driver of which
//! Debian has only the source.
//!
//! The tools that Debian's headers need for that (linux-kbuild) are programs for riscv64, and the host's are
//! for another kernel. All that they would do for one file is done here: the compiler's options, the table of
//! the checksums of the symbols that the module uses, and the link.

use crate::error::IoContext;
use crate::kernel::IMAGE;
use crate::modules::{self, Module};
use crate::tool::{GCC, LD};
use crate::{guest, Error};
use nagori_debian::Package;
use object::{Object, ObjectSymbol};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::Path;

/// A module that is compiled here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Own {
    /// Its name.
    pub name: &'static str,
    /// Modules of the package that it uses symbols of, with their paths in Module.symvers.
    pub depends: &'static [(&'static str, &'static str)],
    /// Its sources, below the directory in which it is compiled.
    sources: &'static [&'static str],
}

/// The loader of OFF2F programs; its sources are in guest/kernel/off2f.
pub(crate) const OFF2F: Own = Own {
    name: "off2f",
    depends: &[],
    sources: &["kernel/off2f/off2f.c", "kernel/off2f/directory.c"],
};

/// The driver of the OpenCores Ethernet MAC, of which Debian has only the source.
pub(crate) const ETHOC: Own = Own {
    name: "ethoc",
    depends: &[("libphy", "drivers/net/phy/libphy")],
    sources: &["ethoc.c"],
};

/// Where its source is in the kernel's.
const ETHOC_SOURCE: &str = "drivers/net/ethernet/ethoc.c";

impl Own {
    /// Where it is below /lib/modules/RELEASE.
    fn path(&self) -> String {
        format!("extra/{}.ko", self.name)
    }

    fn fail(&self, what: impl Into<String>) -> Error {
        Error::Module {
            name: self.name.into(),
            what: what.into(),
        }
    }
}

const ARCHITECTURE: &str = "-riscv64";

/// Of the kernel's own options (arch/riscv/Makefile and the top Makefile) those that matter for a module: code for
/// the kernel's address range, without the registers and tables of user programs. No instrumentation.
const FLAGS: [&str; 24] = [
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
];

/// Looks whether there is a compiler for modules.
pub(crate) fn compiler() -> Result<(), Error> {
    let mut c = GCC.command();
    c.arg("-dumpfullversion");
    GCC.run(c, "ask the compiler's version").map(drop)
}

/// Names of the packages with the headers of a kernel package.
pub(crate) fn header_packages(kernel: &Package) -> Result<[String; 2], Error> {
    let release = kernel.name.strip_prefix(IMAGE);
    let version = release.and_then(|r| Some((r, r.strip_suffix(ARCHITECTURE)?)));
    let (release, version) =
        version.ok_or_else(|| OFF2F.fail(format!("no headers of {}", kernel.name)))?;
    Ok([
        format!("linux-headers-{version}-common"),
        format!("linux-headers-{release}"),
    ])
}

/// Name of the package with the source of a kernel package.
pub(crate) fn source_package(kernel: &Package) -> Result<String, Error> {
    let release = kernel.name.strip_prefix(IMAGE).unwrap_or_default();
    let numbers: Vec<&str> = release.split(['.', '+', '-']).take(2).collect();
    let plain = |n: &&str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    match numbers.as_slice() {
        [a, b] if numbers.iter().all(plain) => Ok(format!("linux-source-{a}.{b}")),
        _ => Err(ETHOC.fail(format!("no source of {}", kernel.name))),
    }
}

/// Takes the driver's source out of the kernel's, an archive in the package's archive, into `work`.
pub(crate) fn write_driver(work: &Path, package: &mut dyn Read) -> Result<(), Error> {
    let wrong = |e: std::io::Error| ETHOC.fail(format!("the kernel's source cannot be read: {e}"));
    let ends = |path: &Path, with: &str| path.to_string_lossy().ends_with(with);
    let mut outer = tar::Archive::new(package);
    let mut found = false;
    for file in outer.entries().map_err(wrong)? {
        let file = file.map_err(wrong)?;
        if found || !ends(&file.path().map_err(wrong)?, ".tar.xz") {
            continue;
        }
        let mut source = tar::Archive::new(lzma_rust2::XzReader::new(file, false));
        for inner in source.entries().map_err(wrong)? {
            let mut inner = inner.map_err(wrong)?;
            if ends(&inner.path().map_err(wrong)?, ETHOC_SOURCE) {
                let to = work.join("ethoc.c");
                let mut text = Vec::new();
                inner.read_to_end(&mut text).map_err(wrong)?;
                fs::write(&to, text).context("write", &to)?;
                found = true;
                break;
            }
        }
    }
    if found {
        Ok(())
    } else {
        Err(ETHOC.fail(format!("the kernel's source has no {ETHOC_SOURCE}")))
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
            return Err(OFF2F.fail(format!("`{path}` is no place for a header")));
        }
        let kind = if package.ends_with("-common") {
            "common"
        } else {
            "own"
        };
        let file = work.join(kind).join(inner);
        let dir = file.parent().unwrap_or(work);
        fs::create_dir_all(dir).context("create", dir)?;
        fs::write(&file, bytes).context("write", &file)?;
    }
    Ok(())
}

/// Compiles a module in `work`, where the headers are.
pub(crate) fn compile(own: &Own, work: &Path, release: &str) -> Result<Module, Error> {
    guest::write_module_sources(work)?;
    let name = own.name;
    let file = |end: &str| format!("{name}{end}");
    let mut c = LD.command();
    c.current_dir(work)
        .args(["-r", "-m", "elf64lriscv", "-o", &file(".o")]);
    for (i, source) in own.sources.iter().enumerate() {
        let object = format!("{name}.{i}.part.o");
        compile_c(own, work, source, &object)?;
        c.arg(object);
    }
    LD.run(c, "link the module's parts")?;
    let object = work.join(file(".o"));
    let object = fs::read(&object).context("read", &object)?;
    let versions = work.join("own/Module.symvers");
    let versions = fs::read_to_string(&versions).context("read", &versions)?;
    let table = table(own, &undefined(own, &object)?, &versions)?;
    let described = work.join(file(".mod.c"));
    fs::write(&described, table).context("write", &described)?;
    compile_c(own, work, &file(".mod.c"), &file(".mod.o"))?;
    let mut c = LD.command();
    c.current_dir(work)
        .args(["-r", "-m", "elf64lriscv", "--build-id=none"])
        .args(["-T", "own/arch/riscv/module.lds"])
        .args(["-o", &file(".ko"), &file(".o"), &file(".mod.o")]);
    LD.run(c, &format!("link the module {name}"))?;
    let whole = work.join(file(".ko"));
    let bytes = fs::read(&whole).context("read", &whole)?;
    let found = modules::release_of(&bytes).map_err(|e| own.fail(e))?;
    if found != release {
        return Err(own.fail(format!(
            "its headers are of {found}, the kernel is {release}"
        )));
    }
    modules::module(&own.path(), bytes).map_err(|e| own.fail(e))
}

fn compile_c(own: &Own, work: &Path, source: &str, to: &str) -> Result<(), Error> {
    let mut c = GCC.command();
    c.arg("-print-file-name=include");
    let headers = GCC.run(c, "ask for the compiler's headers")?;
    let headers = String::from_utf8_lossy(&headers.stdout).trim().to_string();
    let mut c = GCC.command();
    c.current_dir(work)
        .args(["-nostdinc", "-isystem", &headers]);
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
    let name = own.name;
    c.args([
        format!("-DKBUILD_MODNAME=\"{name}\""),
        format!("-DKBUILD_BASENAME=\"{name}\""),
        format!("-D__KBUILD_MODNAME=kmod_{name}"),
    ]);
    c.args(FLAGS).args(["-Ioff2f", "-c", "-o", to, source]);
    GCC.run(c, "compile").map(drop).map_err(|e| match e {
        Error::Command { output, .. } => Error::Compile {
            program: format!("{name}.ko"),
            output,
        },
        other => other,
    })
}

/// Symbols that the kernel has to supply.
fn undefined(own: &Own, object: &[u8]) -> Result<Vec<String>, Error> {
    let file = object::File::parse(object).map_err(|e| own.fail(format!("is no ELF file: {e}")))?;
    let names = file.symbols().filter(|s| s.is_undefined());
    let names = names.filter_map(|s| s.name().ok().map(String::from));
    Ok(names
        .filter(|n| !n.is_empty() && n != "__this_module")
        .collect())
}

/// The source with the module's description, and the checksum of each symbol that it uses. `versions` is the kernel's
/// Module.symvers: lines of checksum, name, place, kind of export.
fn table(own: &Own, used: &[String], versions: &str) -> Result<String, Error> {
    let of = |line: &'_ str| -> Option<(String, String)> {
        let mut fields = line.split('\t');
        let (sum, name, place) = (fields.next()?, fields.next()?, fields.next()?);
        let there = place == "vmlinux" || own.depends.iter().any(|d| d.1 == place);
        there.then(|| (name.to_string(), sum.to_string()))
    };
    let known: BTreeMap<String, String> = versions.lines().filter_map(of).collect();
    let mut text = String::from(
        "#include <linux/module.h>\n#define INCLUDE_VERMAGIC\n#include <linux/vermagic.h>\n\
         MODULE_INFO(name, KBUILD_MODNAME);\nMODULE_INFO(vermagic, VERMAGIC_STRING);\n\
         MODULE_INFO(depends, \"DEPENDS\");\n\
         __visible struct module __this_module __section(\".gnu.linkonce.this_module\") = {\n\
         .name = KBUILD_MODNAME, .init = init_module, .exit = cleanup_module, .arch = MODULE_ARCH_INIT,\n};\n\
         static const struct modversion_info ____versions[] __used __section(\"__versions\") = {\n",
    );
    let depends: Vec<&str> = own.depends.iter().map(|d| d.0).collect();
    text = text.replace("DEPENDS", &depends.join(","));
    for name in used.iter().map(String::as_str).chain(["module_layout"]) {
        let sum = known.get(name);
        let sum = sum.ok_or_else(|| own.fail(format!("the kernel does not export `{name}`")))?;
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
            path: String::new(),
        };
        assert_eq!(
            header_packages(&kernel).unwrap(),
            [
                "linux-headers-6.12.107+deb13-common",
                "linux-headers-6.12.107+deb13-riscv64"
            ]
        );
        assert_eq!(source_package(&kernel).unwrap(), "linux-source-6.12");
        kernel.name = "linux-image-6.12".into();
        assert!(header_packages(&kernel).is_err());
        kernel.name = "linux-image-riscv64".into();
        assert!(source_package(&kernel).is_err());
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

    /// A tar.xz file with s/README and the driver, whose text is `int ethoc;`.
    const SOURCE: [u8; 180] = [
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x00, 0x21,
        0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0xe0, 0x0b, 0xff, 0x00, 0x75, 0x5d,
        0x00, 0x39, 0x8b, 0xc6, 0x44, 0x52, 0x1a, 0x1b, 0x6f, 0xd7, 0xea, 0xfb, 0xed, 0x93, 0x55,
        0x4f, 0x1b, 0x19, 0x63, 0x11, 0x9d, 0xc6, 0x80, 0x29, 0x2c, 0x8c, 0x13, 0x0c, 0xbf, 0xe9,
        0xd0, 0xb8, 0x61, 0x98, 0xaf, 0x65, 0x42, 0xab, 0x49, 0xfd, 0xcf, 0xd0, 0xa1, 0x65, 0x2e,
        0x8c, 0xb0, 0xd6, 0xa9, 0x68, 0x6e, 0x8c, 0xe9, 0x49, 0x61, 0x59, 0xba, 0x6a, 0x94, 0x45,
        0x9b, 0xb0, 0xed, 0x65, 0x1e, 0x46, 0x72, 0x13, 0x35, 0x04, 0x11, 0x1a, 0x9a, 0x41, 0xc6,
        0x83, 0x94, 0x09, 0x2c, 0x6c, 0x2e, 0xc6, 0x5a, 0x9f, 0x78, 0xb7, 0xd5, 0x66, 0x16, 0x4c,
        0xd2, 0xc8, 0x54, 0x25, 0x2b, 0x51, 0x79, 0x95, 0xa5, 0xad, 0xab, 0xfa, 0xea, 0xcc, 0x46,
        0xa3, 0xd8, 0x64, 0x1c, 0x47, 0xed, 0x24, 0x29, 0xda, 0x55, 0x1f, 0x56, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x08, 0x08, 0x3e, 0x9b, 0x00, 0x01, 0x8d, 0x01, 0x80, 0x18, 0x00, 0x00, 0x98,
        0xbe, 0x77, 0xa3, 0x3e, 0x30, 0x0d, 0x8b, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x59, 0x5a,
    ];

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, *bytes).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn the_driver_is_found_in_the_source() {
        let outer = archive(&[
            ("./usr/share/doc/x", b""),
            ("./usr/src/linux.tar.xz", &SOURCE),
        ]);
        let dir = tempfile::tempdir().unwrap();
        write_driver(dir.path(), &mut outer.as_slice()).unwrap();
        assert_eq!(fs::read(dir.path().join("ethoc.c")).unwrap(), b"int ethoc;");
        let none = archive(&[("./usr/src/x", b"")]);
        assert!(write_driver(dir.path(), &mut none.as_slice()).is_err());
    }

    #[test]
    fn checksums_of_symbols() {
        let versions = "0x11\ta\tvmlinux\tEXPORT_SYMBOL\t\n0x22\tmodule_layout\tvmlinux\tx\t\n\
                        0x33\tb\tdrivers/b\tEXPORT_SYMBOL\t\n";
        let text = table(&OFF2F, &["a".into()], versions).unwrap();
        assert!(
            text.contains("{ 0x11, \"a\" },\n{ 0x22, \"module_layout\" },\n};"),
            "{text}"
        );
        assert!(text.contains("MODULE_INFO(depends, \"\");"), "{text}");
        let e = table(&OFF2F, &["b".into()], versions);
        let e = e.unwrap_err().to_string();
        assert!(e.contains("does not export `b`"), "{e}");
        // Symbols of modules on which it depends are there, too.
        let versions = versions.replace("drivers/b", "drivers/net/phy/libphy");
        let text = table(&ETHOC, &["b".into()], &versions).unwrap();
        assert!(text.contains("{ 0x33, \"b\" }"), "{text}");
        assert!(text.contains("MODULE_INFO(depends, \"libphy\");"), "{text}");
    }
}
