//! Debian's kernel: which packages hold it, and what of them is needed.

use nagori_debian::{Archive, Error, Package};

/// How names of packages with a kernel begin.
pub(crate) const IMAGE: &str = "linux-image-";
/// The package that depends on the newest kernel.
const META: &str = "linux-image-riscv64";

/// The packages that [`META`] names: the kernel, and those of the same release among which newer kernels are divided.
pub(crate) fn packages(archive: &Archive) -> Result<(Package, Vec<Package>), Error> {
    let kernel = depends(archive, META)?
        .into_iter()
        .find(|d| d.starts_with(IMAGE))
        .ok_or_else(|| archive.odd(META, "depends on no linux-image-* package"))?;
    let parts = parts_of(&kernel, &depends(archive, &kernel)?);
    let parts: Result<Vec<Package>, Error> = parts.iter().map(|n| archive.package(n)).collect();
    Ok((archive.package(&kernel)?, parts?))
}

/// Names of the packages on which one depends, first alternatives only.
fn depends(archive: &Archive, name: &str) -> Result<Vec<String>, Error> {
    let index = archive.index()?;
    let id = index
        .find(name)
        .ok_or_else(|| archive.odd(name, "not in the index"))?;
    let groups = index
        .relations(id, "Depends")
        .map_err(|why| archive.odd(name, &why))?;
    Ok(groups
        .into_iter()
        .filter_map(|g| Some(g.into_iter().next()?.name))
        .collect())
}

/// Packages of the same release of the kernel.
fn parts_of(kernel: &str, depends: &[String]) -> Vec<String> {
    let release = kernel.strip_prefix(IMAGE).unwrap_or(kernel);
    let same = |d: &&String| d.strip_suffix(release).is_some_and(|d| d.ends_with('-'));
    depends.iter().filter(same).cloned().collect()
}

/// A file of a kernel package.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KernelFile<'a> {
    Image,
    /// The list of modules that the image contains.
    Builtin,
    /// A module, by its path below the directory of modules.
    Module(&'a str),
}

/// What a path in a package of a kernel is; `None` if it is not needed.
pub(crate) fn part_of_kernel<'a>(path: &'a str, release: &str) -> Option<KernelFile<'a>> {
    if path.starts_with("boot/vmlinu") {
        return Some(KernelFile::Image);
    }
    // With merged /usr the same path begins with usr/.
    let path = path.strip_prefix("usr/").unwrap_or(path);
    let below = path.strip_prefix("lib/modules/")?.strip_prefix(release)?;
    match below.strip_prefix('/')? {
        "vmlinuz" => Some(KernelFile::Image),
        "modules.builtin" => Some(KernelFile::Builtin),
        b if b.ends_with(".ko") || b.ends_with(".ko.xz") => Some(KernelFile::Module(b)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_in_one_package_or_in_several() {
        let of = |kernel: &str, depends: &[&str]| {
            let depends: Vec<String> = depends.iter().map(|d| d.to_string()).collect();
            parts_of(kernel, &depends)
        };
        let whole = ["kmod", "linux-base", "initramfs-tools"];
        assert!(of("linux-image-6.12.107+deb13-riscv64", &whole).is_empty());
        let divided = [
            "dracut",
            "linux-base-7.2.13+deb14-riscv64",
            "linux-binary-7.2.13+deb14-riscv64",
            "linux-modules-7.2.13+deb14-riscv64",
        ];
        assert_eq!(
            of("linux-image-7.2.13+deb14-riscv64", &divided),
            divided[1..]
        );
    }

    #[test]
    fn kernels_of_both_layouts_are_found() {
        let of = |path| part_of_kernel(path, "7.2-riscv64");
        assert_eq!(of("boot/vmlinux-7.2-riscv64"), Some(KernelFile::Image));
        assert_eq!(
            of("usr/lib/modules/7.2-riscv64/vmlinuz"),
            Some(KernelFile::Image)
        );
        for path in [
            "lib/modules/7.2-riscv64/kernel/fs/ext4/ext4.ko.xz",
            "usr/lib/modules/7.2-riscv64/kernel/fs/ext4/ext4.ko.xz",
        ] {
            let module = KernelFile::Module("kernel/fs/ext4/ext4.ko.xz");
            assert_eq!(of(path), Some(module));
        }
        assert_eq!(
            of("lib/modules/7.2-riscv64/modules.builtin"),
            Some(KernelFile::Builtin)
        );
        for other in [
            "usr/lib/modules/7.2-riscv64/dtb/a.dtb",
            "lib/modules/7.2-riscv64-rt/vmlinuz",
            "lib/modules/7.2-riscv64/modules.builtin.modinfo",
            "boot/config-7.2-riscv64",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
