//! Kernel modules: which are needed, in what order, already unpacked to save the guest the work.

use crate::Error;
use object::build::elf::{Builder, SectionData};
use object::build::Id as _;
use object::{elf, Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// Modules that go into the image unless others are named; their dependencies are added.
pub const DEFAULT_MODULES: [&str; 16] = [
    // For NVMM as a pmem-region: block device, device DAX, system RAM.
    "libnvdimm",
    "nd_btt",
    "nd_pmem",
    "of_pmem",
    "device_dax",
    "dax_pmem",
    "kmem",
    // Devices of the virtio-mmio slots.
    "virtio_mmio",
    "virtio_rng",
    "virtio_blk",
    "virtio_net",
    // File systems.
    "9p",
    "9pnet_virtio",
    "ext4",
    // The kernel requests it when ext4 is mounted.
    "crc32c_generic",
    "overlay",
];

/// An unpacked module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// With `_`, as the kernel writes it.
    pub name: String,
    /// Below /lib/modules/RELEASE, such as `kernel/fs/ext4/ext4.ko`.
    pub path: String,
    pub bytes: Vec<u8>,
    /// Direct dependencies that are modules, too.
    pub depends: Vec<String>,
    /// Aliases by which the kernel requests it, with wildcards.
    pub aliases: Vec<String>,
}

/// The modules `wanted` and all their dependencies, each module after those that it needs. `packed`
/// maps paths (below /lib/modules/RELEASE) to `.ko` or `.ko.xz` files, `builtin` is the kernel's
/// modules.builtin file.
pub(crate) fn closure(
    packed: &BTreeMap<String, Vec<u8>>,
    builtin: &str,
    wanted: &[String],
) -> Result<Vec<Module>, Error> {
    let mut c = Closure {
        by_name: packed.keys().map(|p| (name_of(p), p.as_str())).collect(),
        packed,
        builtin: builtin.lines().map(name_of).collect(),
        entered: BTreeSet::new(),
        done: Vec::new(),
    };
    for name in wanted {
        c.add(&name.replace('-', "_"), None)?;
    }
    Ok(c.done)
}

struct Closure<'a> {
    by_name: BTreeMap<String, &'a str>,
    packed: &'a BTreeMap<String, Vec<u8>>,
    builtin: BTreeSet<String>,
    entered: BTreeSet<String>,
    done: Vec<Module>,
}

impl Closure<'_> {
    fn add(&mut self, name: &str, needed_by: Option<&str>) -> Result<(), Error> {
        if self.builtin.contains(name) || !self.entered.insert(name.to_string()) {
            return Ok(());
        }
        let fail = |what: String| Error::Module {
            name: name.to_string(),
            what,
        };
        let Some(&path) = self.by_name.get(name) else {
            let by = needed_by.map_or(String::new(), |n| format!(" (needed by {n})"));
            return Err(fail(format!("not in the kernel package{by}")));
        };
        let (path, bytes) = match path.strip_suffix(".xz") {
            Some(stem) => {
                let mut out = Vec::new();
                lzma_rust2::XzReader::new(self.packed[path].as_slice(), false)
                    .read_to_end(&mut out)
                    .map_err(|e| fail(format!("cannot be unpacked: {e}")))?;
                (stem, out)
            }
            None => (path, self.packed[path].clone()),
        };
        let (depends, aliases) = info(&bytes).map_err(fail)?;
        for d in &depends {
            self.add(d, Some(name))?;
        }
        let depends = depends
            .into_iter()
            .filter(|d| !self.builtin.contains(d))
            .collect();
        self.done.push(Module {
            name: name.to_string(),
            path: path.to_string(),
            bytes,
            depends,
            aliases,
        });
        Ok(())
    }
}

/// `kernel/drivers/char/hw_random/virtio-rng.ko.xz` is module `virtio_rng`.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.strip_suffix(".xz").unwrap_or(file);
    let stem = stem.strip_suffix(".ko").unwrap_or(stem);
    stem.replace('-', "_")
}

/// A module of ours. `path` is below /lib/modules/RELEASE.
pub(crate) fn module(path: &str, bytes: Vec<u8>) -> Result<Module, String> {
    let (depends, aliases) = info(&bytes)?;
    Ok(Module {
        name: name_of(path),
        path: path.to_string(),
        bytes,
        depends,
        aliases,
    })
}

/// The kernel release for which a module was made.
pub(crate) fn release_of(ko: &[u8]) -> Result<String, String> {
    let magic = entries(ko, "vermagic")?.into_iter().next();
    let release = magic.and_then(|m| m.split(' ').next().map(String::from));
    release.ok_or_else(|| "says no kernel release".into())
}

/// The dependencies and aliases in the module's .modinfo section.
fn info(ko: &[u8]) -> Result<(Vec<String>, Vec<String>), String> {
    let depends = entries(ko, "depends")?;
    let depends = depends
        .iter()
        .flat_map(|list| list.split(','))
        .filter(|d| !d.is_empty())
        .map(|d| d.replace('-', "_"))
        .collect();
    Ok((depends, entries(ko, "alias")?))
}

/// The values of a key in the module's .modinfo section.
fn entries(ko: &[u8], key: &str) -> Result<Vec<String>, String> {
    let file = object::File::parse(ko).map_err(|e| format!("is no ELF file: {e}"))?;
    let info = file
        .section_by_name(".modinfo")
        .and_then(|s| s.data().ok())
        .ok_or("has no .modinfo section")?;
    Ok(info
        .split(|&b| b == 0)
        .filter_map(|e| std::str::from_utf8(e).ok())
        .filter_map(|e| e.strip_prefix(key)?.strip_prefix('='))
        .map(String::from)
        .collect())
}

/// Removes the compiler's local labels (nine tenths of Debian's riscv64 modules) and the signature
/// from modules; code, data and names of functions stay as they are.
///
/// Hashing libnvdimm for its signature costs the guest 560 million instructions, more than the
/// whole boot of the kernel. The only effect of a missing signature is that the kernel is marked as
/// tainted.
pub(crate) fn shorten(modules: &mut [Module]) -> Result<(), Error> {
    for m in modules {
        m.bytes = shortened(&m.bytes).map_err(|e| Error::Module {
            name: m.name.clone(),
            what: format!("cannot be shortened: {e}"),
        })?;
    }
    Ok(())
}

fn shortened(ko: &[u8]) -> Result<Vec<u8>, object::build::Error> {
    let mut file = Builder::read(ko)?;
    // What relocations name has to stay.
    let mut named = BTreeSet::new();
    for s in &file.sections {
        if let SectionData::Relocation(list) = &s.data {
            named.extend(list.iter().filter_map(|r| Some(r.symbol?.index())));
        }
    }
    for s in &mut file.symbols {
        let label = s.st_bind() == elf::STB_LOCAL && s.name.as_slice().starts_with(b".L");
        s.delete = label && !named.contains(&s.id().index());
    }
    let mut bytes = Vec::new();
    file.write(&mut bytes)?;
    Ok(bytes)
}

/// The text of a modules.alias file, by which the kernel's own requests (such as `fs-ext4` at a
/// mount) find their module.
pub(crate) fn modules_alias(modules: &[Module]) -> String {
    modules
        .iter()
        .flat_map(|m| m.aliases.iter().map(move |a| (a, &m.name)))
        // Lines are split at blanks, and not all device names avoid them.
        .filter(|(alias, _)| !alias.contains(char::is_whitespace))
        .map(|(alias, name)| format!("alias {alias} {name}\n"))
        .collect()
}

/// The text of a modules.dep file, for `modprobe`: each module with all its dependencies.
pub(crate) fn modules_dep(modules: &[Module]) -> String {
    let by_name: BTreeMap<&str, &Module> = modules.iter().map(|m| (m.name.as_str(), m)).collect();
    let mut text = String::new();
    for m in modules {
        // Nearest first, as depmod writes it: modprobe loads from the end.
        let mut all: Vec<&str> = Vec::new();
        let mut queue: Vec<&str> = m.depends.iter().map(String::as_str).collect();
        while !queue.is_empty() {
            let mut next = Vec::new();
            for d in queue {
                all.retain(|x| *x != d);
                all.push(d);
                next.extend(by_name[d].depends.iter().map(String::as_str));
            }
            queue = next;
        }
        text.push_str(&m.path);
        text.push(':');
        for d in all {
            text.push(' ');
            text.push_str(&by_name[d].path);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 64-bit little-endian RISC-V ELF file with a .modinfo section and nothing else.
    fn ko(modinfo: &[u8]) -> Vec<u8> {
        let names = b"\0.modinfo\0.shstrtab\0";
        let (info_at, names_at) = (64, 64 + modinfo.len());
        let table_at = (names_at + names.len()).next_multiple_of(8);
        let mut f = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        f.extend(1u16.to_le_bytes());
        f.extend(243u16.to_le_bytes());
        f.extend(1u32.to_le_bytes());
        f.extend([0u8; 16]);
        f.extend((table_at as u64).to_le_bytes());
        f.extend(0u32.to_le_bytes());
        for v in [64u16, 0, 0, 64, 3, 2] {
            f.extend(v.to_le_bytes());
        }
        f.extend(modinfo);
        f.extend(names);
        f.resize(table_at, 0);
        f.extend([0u8; 64]);
        for (name, at, len) in [(1u32, info_at, modinfo.len()), (10, names_at, names.len())] {
            f.extend(name.to_le_bytes());
            f.extend(if name == 1 { 1u32 } else { 3 }.to_le_bytes());
            f.extend([0u8; 16]);
            f.extend((at as u64).to_le_bytes());
            f.extend((len as u64).to_le_bytes());
            f.extend([0u8; 8]);
            f.extend(1u64.to_le_bytes());
            f.extend([0u8; 8]);
        }
        f
    }

    fn set() -> BTreeMap<String, Vec<u8>> {
        [
            (
                "kernel/d/libnvdimm.ko",
                &b"license=GPL\0alias=x:d01*\0depends=\0alias=y-z\0alias=a b\0"[..],
            ),
            ("kernel/d/nd_btt.ko", b"depends=libnvdimm\0"),
            ("kernel/d/nd-pmem.ko", b"depends=nd-btt,libnvdimm,dax\0"),
            ("kernel/d/loop_a.ko", b"depends=loop_b\0"),
            ("kernel/d/loop_b.ko", b"depends=loop_a\0"),
            ("kernel/d/lost.ko", b"depends=nowhere\0"),
        ]
        .into_iter()
        .map(|(p, i)| (p.to_string(), ko(i)))
        .collect()
    }

    fn names(m: &[Module]) -> Vec<&str> {
        m.iter().map(|m| m.name.as_str()).collect()
    }

    #[test]
    fn a_module_stands_behind_what_it_needs() {
        let builtin = "kernel/drivers/dax/dax.ko\n";
        let m = closure(&set(), builtin, &["nd_pmem".into(), "libnvdimm".into()]).unwrap();
        assert_eq!(names(&m), ["libnvdimm", "nd_btt", "nd_pmem"]);
        assert_eq!(
            modules_dep(&m),
            "kernel/d/libnvdimm.ko:\n\
             kernel/d/nd_btt.ko: kernel/d/libnvdimm.ko\n\
             kernel/d/nd-pmem.ko: kernel/d/nd_btt.ko kernel/d/libnvdimm.ko\n"
        );
        assert_eq!(
            modules_alias(&m),
            "alias x:d01* libnvdimm\nalias y-z libnvdimm\n"
        );
        assert!(closure(&set(), builtin, &["dax".into()])
            .unwrap()
            .is_empty());
    }

    #[test]
    fn missing_broken_and_circular_modules() {
        let e = closure(&set(), "", &["lost".into()])
            .unwrap_err()
            .to_string();
        assert_eq!(
            e,
            "kernel module `nowhere`: not in the kernel package (needed by lost)"
        );
        let e = closure(&set(), "", &["absent".into()]).unwrap_err();
        assert_eq!(
            e.to_string(),
            "kernel module `absent`: not in the kernel package"
        );
        let mut s = set();
        s.insert("kernel/bad.ko.xz".into(), b"not xz".to_vec());
        s.insert("kernel/elf.ko".into(), b"not elf".to_vec());
        assert!(closure(&s, "", &["bad".into()])
            .unwrap_err()
            .to_string()
            .contains("cannot be unpacked"));
        assert!(closure(&s, "", &["elf".into()])
            .unwrap_err()
            .to_string()
            .contains("no ELF file"));
        assert_eq!(
            names(&closure(&s, "", &["loop_a".into()]).unwrap()),
            ["loop_b", "loop_a"]
        );
    }

    /// A module with a function, a label that a relocation names, one that nothing names, and a signature.
    #[test]
    fn labels_and_signatures_go() {
        use object::build::elf::Relocation;
        use object::{Endianness, ObjectSymbol};
        let mut b = Builder::new(Endianness::Little, true);
        b.header.e_type = elf::ET_REL;
        b.header.e_machine = elf::EM_RISCV;
        let mut section = |name: &str, kind: u32, data: SectionData<'static>| {
            let s = b.sections.add();
            s.name = name.as_bytes().to_vec().into();
            s.sh_type = kind;
            s.sh_addralign = 8;
            s.data = data;
            s.id()
        };
        let code = vec![0x13u8; 16];
        let text = section(".text", elf::SHT_PROGBITS, SectionData::Data(code.into()));
        let relocations = section(
            ".rela.text",
            elf::SHT_RELA,
            SectionData::Relocation(Vec::new()),
        );
        let symbols = section(".symtab", elf::SHT_SYMTAB, SectionData::Symbol);
        section(".strtab", elf::SHT_STRTAB, SectionData::String);
        section(".shstrtab", elf::SHT_STRTAB, SectionData::SectionString);
        let mut ids = Vec::new();
        for (name, bind) in [
            (".L1", elf::STB_LOCAL),
            (".L2", elf::STB_LOCAL),
            ("f", elf::STB_GLOBAL),
        ] {
            let s = b.symbols.add();
            s.name = name.into();
            s.set_st_info(bind, elf::STT_NOTYPE);
            s.section = Some(text);
            ids.push(s.id());
        }
        let r = b.sections.get_mut(relocations);
        r.sh_info_section = Some(text);
        r.sh_link_section = Some(symbols);
        r.data = SectionData::Relocation(vec![Relocation {
            r_offset: 4,
            symbol: Some(ids[1]),
            r_type: elf::R_RISCV_BRANCH,
            r_addend: 0,
        }]);
        let mut ko = Vec::new();
        b.write(&mut ko).unwrap();
        ko.extend(b"signature~Module signature appended~\n");

        let short = shortened(&ko).unwrap();
        assert!(short.len() < ko.len() && !short.ends_with(b"appended~\n"));
        let file = object::File::parse(short.as_slice()).unwrap();
        let names: Vec<&str> = file
            .symbols()
            .map(|s| s.name().unwrap())
            .filter(|n| !n.is_empty())
            .collect();
        assert_eq!(names, [".L2", "f"]);
        let text = file.section_by_name(".text").unwrap();
        assert_eq!(text.data().unwrap(), [0x13; 16]);
        assert_eq!(text.relocations().count(), 1);
        assert!(shortened(b"no module").is_err());
    }
}
