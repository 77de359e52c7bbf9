//! Builds and caches guest images.

use crate::apt::{Apt, Package};
use crate::archive::Archive;
use crate::error::IoContext;
use crate::manifest::{hex, sha256, Manifest, Output};
use crate::{
    deb, guest, kmod, modules, Error, GuestImage, Options, Progress, Stage, FAST_BOOT_ARGS,
};
use fs4::fs_std::FileExt;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Incremented with every change of what this crate makes from the same packages and sources.
const BUILDER: u32 = 5;

const KERNEL: &str = "Image";
const FIRMWARE: &str = "fw_dynamic.bin";
const INITRD: &str = "initrd.cpio";
const MANIFEST: &str = "manifest.json";

/// The packages that were chosen when the mirror was last asked: kernel, OpenSBI, busybox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Resolved {
    suite: String,
    packages: [Package; 3],
    /// See [`Apt::kernel_parts`].
    #[serde(default)]
    kernel_parts: Vec<Package>,
    /// The kernel's headers, for modules of our own; none if they could not be had.
    #[serde(default)]
    headers: Vec<Package>,
    /// See [`Manifest::date`].
    date: u64,
}

impl Resolved {
    /// What an image cannot be made without.
    fn needed(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().chain(&self.kernel_parts)
    }
}

/// Builds the guest image, or finds it in the cache.
///
/// Safe to call from several processes at once with the same cache directory: one builds, the
/// others wait. An interrupted build leaves nothing that could be taken for an image.
pub fn build(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<GuestImage, Error> {
    let dir = cache_dir(&options.cache_dir)?;
    // Finished images never change, so looking one up takes no lock.
    if !options.refresh {
        if let Some(image) = cached(&dir, options) {
            return Ok(image);
        }
    }
    let _lock = lock(&dir, progress)?;
    if !options.refresh {
        if let Some(image) = cached(&dir, options) {
            return Ok(image);
        }
    }
    Builder {
        dir: &dir,
        options,
        progress,
    }
    .build()
}

pub(crate) fn cache_dir(dir: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(dir).context("create", dir)?;
    let dir = dir.canonicalize().context("find", dir)?;
    // It is written into an apt configuration file, so some characters are excluded.
    match dir.to_str() {
        Some(s) if !s.contains('"') && !s.contains(char::is_control) => Ok(dir),
        _ => Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "the name of a cache directory must be UTF-8 without quotes and control characters",
        ))
        .context("use", dir),
    }
}

/// Held until dropped.
pub(crate) fn lock(dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<File, Error> {
    let path = dir.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .context("open", &path)?;
    if !file.try_lock_exclusive().context("lock", &path)? {
        progress(Progress {
            stage: Stage::Wait,
            detail: dir.display().to_string(),
        });
        file.lock_exclusive().context("lock", &path)?;
    }
    Ok(file)
}

fn package_file(dir: &Path, p: &Package) -> PathBuf {
    dir.join("packages").join(format!("{}.deb", p.sha256))
}

/// Downloads a package unless it is there; returns its file.
pub(crate) fn fetch(
    dir: &Path,
    apt: &Apt,
    p: &Package,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, Error> {
    let file = package_file(dir, p);
    if file.exists() && file_sha256(&file)? == p.sha256 {
        return Ok(file);
    }
    let mb = p.size as f64 / 1e6;
    progress(Progress {
        stage: Stage::Download,
        detail: format!("{} {} ({mb:.1} MB)", p.name, p.version),
    });
    let packages = dir.join("packages");
    fs::create_dir_all(&packages).context("create", &packages)?;
    let fresh = apt.download(p)?;
    fs::rename(&fresh, &file).context("move a package to", &file)?;
    Ok(file)
}

/// The image for these options, if the packages are known and it exists and is complete.
fn cached(dir: &Path, options: &Options) -> Option<GuestImage> {
    let resolved = read_resolved(dir, &options.suite)?;
    open(dir, &key(&resolved, options))
}

fn read_resolved(dir: &Path, suite: &str) -> Option<Resolved> {
    let text = fs::read(dir.join("resolved.json")).ok()?;
    let r: Resolved = serde_json::from_slice(&text).ok()?;
    (r.suite == suite).then_some(r)
}

fn open(dir: &Path, key: &str) -> Option<GuestImage> {
    let dir = dir.join("images").join(key);
    let manifest: Manifest = serde_json::from_slice(&fs::read(dir.join(MANIFEST)).ok()?).ok()?;
    let path = |o: &Output| {
        let p = dir.join(&o.file);
        (fs::metadata(&p).ok()?.len() == o.size).then_some(p)
    };
    Some(GuestImage {
        kernel: path(&manifest.kernel)?,
        firmware: path(&manifest.firmware)?,
        initrd: path(&manifest.initrd)?,
        manifest,
    })
}

/// A hash of everything that an image is made of.
fn key(resolved: &Resolved, options: &Options) -> String {
    let mut h = Sha256::new();
    let mut line = |parts: &[&str]| {
        for p in parts {
            h.update((p.len() as u64).to_le_bytes());
            h.update(p.as_bytes());
        }
    };
    line(&["nagori image", &BUILDER.to_string(), FAST_BOOT_ARGS]);
    line(&["suite", &resolved.suite, &resolved.date.to_string()]);
    for p in &resolved.packages {
        line(&["package", &p.name, &p.version, &p.sha256]);
    }
    for p in &resolved.kernel_parts {
        line(&["kernel part", &p.name, &p.version, &p.sha256]);
    }
    for p in &resolved.headers {
        line(&["headers", &p.name, &p.version, &p.sha256]);
    }
    for m in &options.modules {
        line(&["module", m]);
    }
    for m in &options.more_modules {
        line(&["loaded module", m]);
    }
    for s in guest::sources() {
        // These are in root file systems only.
        if guest::ROOTFS_ONLY.iter().any(|d| s.path.starts_with(d)) {
            continue;
        }
        line(&["source", &s.path, &sha256(s.bytes)]);
    }
    hex(&h.finalize()[..16])
}

struct Builder<'a> {
    dir: &'a Path,
    options: &'a Options,
    progress: &'a mut dyn FnMut(Progress),
}

impl Builder<'_> {
    fn say(&mut self, stage: Stage, detail: impl Into<String>) {
        (self.progress)(Progress {
            stage,
            detail: detail.into(),
        });
    }

    fn build(mut self) -> Result<GuestImage, Error> {
        // First of all, so that a missing compiler is reported before a long download.
        let compiler = guest::compiler()?;
        // Leftovers of builds that were killed.
        let work = self.dir.join("work");
        if work.exists() {
            fs::remove_dir_all(&work).context("remove", &work)?;
        }
        let apt = Apt::new(&self.dir.join("apt"), &self.options.suite)?;
        let known = read_resolved(self.dir, &self.options.suite);
        let mut resolved = match known {
            Some(r) if !self.options.refresh && self.have_all(&r) => r,
            _ => self.resolve(&apt)?,
        };
        if resolved.headers.is_empty() {
            self.find_headers(&apt, &mut resolved)?;
        }
        let key = key(&resolved, self.options);
        if let Some(image) = open(self.dir, &key) {
            return Ok(image);
        }
        self.make(&apt, &resolved, &key, compiler)?;
        open(self.dir, &key).ok_or_else(|| Error::Io {
            what: "read back",
            path: self.dir.join("images").join(&key),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }

    fn have_all(&self, r: &Resolved) -> bool {
        r.needed().all(|p| self.package_file(p).exists())
    }

    fn package_file(&self, p: &Package) -> PathBuf {
        package_file(self.dir, p)
    }

    /// Asks the mirror for the available packages, downloads them, and records the choice.
    fn resolve(&mut self, apt: &Apt) -> Result<Resolved, Error> {
        self.say(Stage::Index, format!("Debian {}", self.options.suite));
        apt.update(self.options.mirror.as_deref())?;
        let kernel = apt.kernel_package()?;
        let resolved = Resolved {
            suite: self.options.suite.clone(),
            packages: [
                apt.package(&kernel)?,
                apt.package("opensbi")?,
                apt.package("busybox-static")?,
            ],
            kernel_parts: apt.kernel_parts(&kernel)?,
            headers: Vec::new(),
            date: apt.index_date()?,
        };
        let packages = self.dir.join("packages");
        fs::create_dir_all(&packages).context("create", &packages)?;
        for p in resolved.needed() {
            self.fetch(apt, p)?;
        }
        let keep: Vec<PathBuf> = resolved.needed().map(|p| self.package_file(p)).collect();
        for old in fs::read_dir(&packages)
            .context("read", &packages)?
            .flatten()
        {
            if !keep.contains(&old.path()) {
                fs::remove_file(old.path()).context("remove", old.path())?;
            }
        }
        let text = serde_json::to_vec_pretty(&resolved).expect("plain data");
        write_atomically(&self.dir.join("resolved.json"), &text)?;
        Ok(resolved)
    }

    /// Looks for the kernel's headers. Without them images are made, too, so a failure is only told.
    fn find_headers(&mut self, apt: &Apt, resolved: &mut Resolved) -> Result<(), Error> {
        let found = kmod::header_packages(&resolved.packages[0])
            .and_then(|names| names.iter().map(|n| apt.package(n)).collect())
            .and_then(|list: Vec<Package>| {
                list.iter().try_for_each(|p| self.fetch(apt, p))?;
                Ok(list)
            });
        match found {
            Ok(list) => {
                resolved.headers = list;
                let text = serde_json::to_vec_pretty(resolved).expect("plain data");
                write_atomically(&self.dir.join("resolved.json"), &text)
            }
            Err(e) => {
                self.say(Stage::Compile, format!("no module off2f: {e}"));
                Ok(())
            }
        }
    }

    /// Compiles our kernel module; a text that says why there is none, if nobody has asked for it.
    fn own_module(
        &mut self,
        apt: &Apt,
        resolved: &Resolved,
        kernel: &mut Kernel,
    ) -> Result<String, Error> {
        let made = match resolved.headers.is_empty() {
            true => Err(Error::Module {
                name: kmod::OFF2F.name.into(),
                what: "the headers of the kernel are not in the index".into(),
            }),
            false => self.compile_module(&kmod::OFF2F, apt, resolved, &kernel.release),
        };
        match made {
            Ok(m) => kernel.modules.push(m),
            Err(e) if self.wants(&kmod::OFF2F) => return Err(e),
            Err(e) => {
                let why = e.to_string();
                self.say(Stage::Compile, format!("no module off2f: {why}"));
                return Ok(why);
            }
        }
        Ok(String::new())
    }

    fn wants(&self, own: &kmod::Own) -> bool {
        let o = self.options;
        { o.modules.iter().chain(&o.more_modules) }.any(|m| m == own.name)
    }

    fn compile_module(
        &mut self,
        own: &kmod::Own,
        apt: &Apt,
        resolved: &Resolved,
        release: &str,
    ) -> Result<modules::Module, Error> {
        let work = self.temporary("module")?;
        for p in &resolved.headers {
            let files = self.unpack(apt, p, kmod::is_needed)?;
            kmod::write_headers(work.path(), files)?;
        }
        if *own == kmod::ETHOC {
            // Large, and so only fetched if it is asked for.
            let kernel = &resolved.packages[0];
            let p = apt.package(&kmod::source_package(kernel)?)?;
            if p.version != kernel.version {
                let what = format!(
                    "the source is that of {}, the kernel is {}",
                    p.version, kernel.version
                );
                return Err(Error::Module {
                    name: own.name.into(),
                    what,
                });
            }
            self.fetch(apt, &p)?;
            self.say(Stage::Unpack, format!("{} {}", p.name, p.version));
            deb::read(&self.package_file(&p), deb::Part::Files, |tar| {
                kmod::write_driver(work.path(), tar)
            })?;
        }
        self.say(Stage::Compile, format!("{}.ko", own.name));
        kmod::compile(own, work.path(), release)
    }

    fn fetch(&mut self, apt: &Apt, p: &Package) -> Result<(), Error> {
        fetch(self.dir, apt, p, self.progress).map(drop)
    }

    /// Reads files out of a package, after checking that it is still the file that apt verified.
    fn unpack(
        &mut self,
        apt: &Apt,
        p: &Package,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<std::collections::BTreeMap<String, Vec<u8>>, Error> {
        self.fetch(apt, p)?;
        self.say(Stage::Unpack, format!("{} {}", p.name, p.version));
        deb::files(&self.package_file(p), deb::Part::Files, wanted)
    }

    fn make(
        &mut self,
        apt: &Apt,
        resolved: &Resolved,
        key: &str,
        compiler: String,
    ) -> Result<(), Error> {
        let [_, opensbi_deb, busybox_deb] = &resolved.packages;

        let work = self.temporary("compile")?;
        let programs = guest::compile(work.path(), |name| {
            (self.progress)(Progress {
                stage: Stage::Compile,
                detail: name.to_string(),
            })
        })?;

        let firmware = self
            .unpack(apt, opensbi_deb, |p| {
                p.contains("riscv64") && p.ends_with("/generic/fw_dynamic.bin")
            })?
            .into_values()
            .next()
            .ok_or_else(|| missing(opensbi_deb, "generic/fw_dynamic.bin"))?;
        let busybox = self
            .unpack(apt, busybox_deb, |p| p.ends_with("bin/busybox"))?
            .into_values()
            .next()
            .ok_or_else(|| missing(busybox_deb, "bin/busybox"))?;
        let mut kernel = self.kernel(apt, resolved)?;
        let off2f_missing = self.own_module(apt, resolved, &mut kernel)?;
        if self.wants(&kmod::ETHOC) {
            let module = self.compile_module(&kmod::ETHOC, apt, resolved, &kernel.release)?;
            kernel.modules.push(module);
        }
        modules::strip(&mut kernel.modules, self.temporary("modules")?.path())?;

        let initrd = initrd(&busybox, &kernel, &programs, &self.options.more_modules)?;
        let manifest = Manifest {
            key: key.to_string(),
            builder: format!("nagori-image {} ({BUILDER})", env!("CARGO_PKG_VERSION")),
            suite: resolved.suite.clone(),
            date: resolved.date,
            packages: resolved
                .needed()
                .chain(&resolved.headers)
                .cloned()
                .collect(),
            kernel_release: kernel.release.clone(),
            compiler,
            modules: kernel.modules.iter().map(|m| m.name.clone()).collect(),
            off2f_missing,
            programs: programs.iter().map(|p| p.name.clone()).collect(),
            fast_boot_args: FAST_BOOT_ARGS.to_string(),
            kernel: Output::of(KERNEL, &kernel.image),
            firmware: Output::of(FIRMWARE, &firmware),
            initrd: Output::of(INITRD, &initrd),
        };
        let text = serde_json::to_vec_pretty(&manifest).expect("plain data");
        self.write(
            key,
            &[
                (KERNEL, &kernel.image),
                (FIRMWARE, &firmware),
                (INITRD, &initrd),
                (MANIFEST, &text),
            ],
        )
    }

    fn kernel(&mut self, apt: &Apt, resolved: &Resolved) -> Result<Kernel, Error> {
        let p = &resolved.packages[0];
        let release = p
            .name
            .strip_prefix(kmod::IMAGE)
            .unwrap_or(&p.name)
            .to_string();
        let mut image = None;
        let mut builtin = String::new();
        let mut packed = std::collections::BTreeMap::new();
        for part in [p].into_iter().chain(&resolved.kernel_parts) {
            let files = self.unpack(apt, part, |path| part_of_kernel(path, &release).is_some())?;
            for (path, bytes) in files {
                match part_of_kernel(&path, &release) {
                    Some(KernelFile::Image) => image = Some((path, bytes)),
                    Some(KernelFile::Builtin) => {
                        builtin = String::from_utf8_lossy(&bytes).into_owned();
                    }
                    Some(KernelFile::Module(below)) => {
                        packed.insert(below.to_string(), bytes);
                    }
                    None => {}
                }
            }
        }
        let (path, image) = image.ok_or_else(|| missing(p, "a kernel"))?;
        if image.get(0x38..0x3c) != Some(b"RSC\x05") {
            return Err(missing(
                p,
                &format!("a raw RISC-V Image ({path} has no such header)"),
            ));
        }
        let mut wanted = [&self.options.modules[..], &self.options.more_modules].concat();
        // These are not the package's, but what they need is.
        for own in [kmod::OFF2F, kmod::ETHOC] {
            if wanted.iter().any(|m| m == own.name) {
                wanted.retain(|m| m != own.name);
                wanted.extend(own.depends.iter().map(|d| d.0.to_string()));
            }
        }
        let modules = modules::closure(&packed, &builtin, &wanted)?;
        Ok(Kernel {
            image,
            release,
            modules,
        })
    }

    /// A directory that is removed when the returned guard is dropped.
    fn temporary(&self, what: &str) -> Result<tempfile::TempDir, Error> {
        let parent = self.dir.join("work");
        fs::create_dir_all(&parent).context("create", &parent)?;
        tempfile::Builder::new()
            .prefix(what)
            .tempdir_in(&parent)
            .context("create a directory in", &parent)
    }

    /// Writes the image's files to a temporary directory, then renames the directory in one step.
    fn write(&mut self, key: &str, files: &[(&str, &[u8])]) -> Result<(), Error> {
        let images = self.dir.join("images");
        let place = images.join(key);
        self.say(Stage::Write, place.display().to_string());
        fs::create_dir_all(&images).context("create", &images)?;
        let aside = self.temporary("image")?;
        for (name, bytes) in files {
            let path = aside.path().join(name);
            let mut f = File::create(&path).context("create", &path)?;
            f.write_all(bytes)
                .and_then(|()| f.sync_all())
                .context("write", &path)?;
        }
        if place.exists() {
            // Damaged, or `open` would have found it.
            fs::remove_dir_all(&place).context("remove", &place)?;
        }
        fs::rename(aside.path(), &place).context("move the image to", &place)
    }
}

struct Kernel {
    image: Vec<u8>,
    release: String,
    modules: Vec<modules::Module>,
}

fn missing(p: &Package, what: &str) -> Error {
    Error::Contents {
        name: format!("{} {}", p.name, p.version),
        what: format!("{what} is not there"),
    }
}

fn initrd(
    busybox: &[u8],
    kernel: &Kernel,
    programs: &[guest::Program],
    load: &[String],
) -> Result<Vec<u8>, Error> {
    let mut a = Archive::default();
    for (dir, mode) in [
        ("dev", 0o755),
        ("proc", 0o555),
        ("sys", 0o555),
        ("tmp", 0o1777),
        ("run", 0o755),
        ("root", 0o700),
        ("mnt", 0o755),
    ] {
        a.directory(dir, mode)?;
    }
    a.char_device("dev/console", 0o600, (5, 1))?;
    a.file("init", 0o755, guest::init_file("init"))?;
    for script in ["network", "udhcpc"] {
        a.file(
            &format!("etc/nagori/{script}"),
            0o755,
            guest::init_file(script),
        )?;
    }
    if !load.is_empty() {
        let list = load.join("\n") + "\n";
        a.file("etc/nagori/modules", 0o644, list.as_bytes())?;
    }
    a.file("bin/busybox", 0o755, busybox)?;
    a.symlink("bin/sh", "busybox")?;
    a.symlink("sbin", "bin")?;
    for p in programs {
        a.file(&format!("bin/{}", p.name), 0o755, &p.bytes)?;
    }
    a.file("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n")?;
    a.file("etc/group", 0o644, b"root:x:0:\n")?;
    let tree = format!("lib/modules/{}", kernel.release);
    for m in &kernel.modules {
        a.file(&format!("{tree}/{}", m.path), 0o644, &m.bytes)?;
    }
    for (name, text) in [
        ("modules.dep", modules::modules_dep(&kernel.modules)),
        ("modules.alias", modules::modules_alias(&kernel.modules)),
    ] {
        a.file(&format!("{tree}/{name}"), 0o644, text.as_bytes())?;
    }
    Ok(a.finish())
}

/// A file of a kernel package.
#[derive(Debug, PartialEq, Eq)]
enum KernelFile<'a> {
    Image,
    /// The list of modules that the image contains.
    Builtin,
    /// A module, by its path below the directory of modules.
    Module(&'a str),
}

/// What a path in a package of a kernel is; `None` if it is not needed.
fn part_of_kernel<'a>(path: &'a str, release: &str) -> Option<KernelFile<'a>> {
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

/// The caller holds the lock, so nobody else uses the name of the new file.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    let mut f = File::create(&new).context("create", &new)?;
    f.write_all(bytes)
        .and_then(|()| f.sync_all())
        .context("write", &new)?;
    fs::rename(&new, path).context("write", path)
}

pub(crate) fn file_sha256(path: &Path) -> Result<String, Error> {
    let mut f = File::open(path).context("open", path)?;
    let mut h = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match f.read(&mut buffer).context("read", path)? {
            0 => return Ok(hex(&h.finalize())),
            n => h.update(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved() -> Resolved {
        Resolved {
            suite: "trixie".into(),
            date: 0,
            packages: ["linux", "opensbi", "busybox"].map(|name| Package {
                name: name.into(),
                version: "1".into(),
                sha256: sha256(name.as_bytes()),
                size: 1,
            }),
            kernel_parts: Vec::new(),
            headers: Vec::new(),
        }
    }

    #[test]
    fn the_key_depends_on_contents_only() {
        let (r, o) = (resolved(), Options::new("/a"));
        let base = key(&r, &o);
        assert_eq!(base.len(), 32);
        let mut elsewhere = Options::new("/b");
        elsewhere.mirror = Some("http://m.example/debian".into());
        elsewhere.refresh = true;
        assert_eq!(key(&r, &elsewhere), base);

        let mut all = vec![base];
        for change in 0..7 {
            let (mut r, mut o) = (resolved(), Options::new("/a"));
            match change {
                0 => r.packages[2].version = "2".into(),
                1 => r.packages[0].sha256 = sha256(b"other"),
                2 => r.suite = "forky".into(),
                3 => o.modules.truncate(3),
                4 => o.add_modules(["xfs"]),
                5 => r.kernel_parts = vec![r.packages[0].clone()],
                // Lengths are part of the hash, so that adjacent names cannot be confused.
                _ => {
                    r.packages[1].name = "opensb".into();
                    r.packages[1].version = "i1".into();
                }
            }
            all.push(key(&r, &o));
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 8);
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

    #[test]
    fn a_damaged_image_is_no_image() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("images/k");
        fs::create_dir_all(&place).unwrap();
        let manifest = Manifest {
            key: "k".into(),
            builder: "b".into(),
            date: 0,
            suite: "trixie".into(),
            packages: resolved().packages.to_vec(),
            kernel_release: "6".into(),
            compiler: "c".into(),
            modules: vec![],
            off2f_missing: String::new(),
            programs: vec![],
            fast_boot_args: String::new(),
            kernel: Output::of(KERNEL, b"kernel"),
            firmware: Output::of(FIRMWARE, b"firmware"),
            initrd: Output::of(INITRD, b"initrd"),
        };
        let text = serde_json::to_vec(&manifest).unwrap();
        assert_eq!(open(dir.path(), "k"), None);
        for (name, bytes) in [
            (KERNEL, &b"kernel"[..]),
            (FIRMWARE, b"firmware"),
            (INITRD, b"initrd"),
            (MANIFEST, &text),
        ] {
            assert_eq!(open(dir.path(), "k"), None);
            fs::write(place.join(name), bytes).unwrap();
        }
        assert_eq!(open(dir.path(), "k").unwrap().manifest, manifest);
        fs::write(place.join(INITRD), b"init").unwrap();
        assert_eq!(open(dir.path(), "k"), None);
    }

    #[test]
    fn the_choice_of_packages_is_for_one_suite() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_resolved(dir.path(), "trixie"), None);
        let text = serde_json::to_vec(&resolved()).unwrap();
        write_atomically(&dir.path().join("resolved.json"), &text).unwrap();
        assert_eq!(read_resolved(dir.path(), "trixie"), Some(resolved()));
        assert_eq!(read_resolved(dir.path(), "sid"), None);
        fs::write(dir.path().join("resolved.json"), b"{").unwrap();
        assert_eq!(read_resolved(dir.path(), "trixie"), None);
    }

    #[test]
    fn cache_directories_that_apt_could_not_be_told() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a\"b", "a\nb"] {
            let e = cache_dir(&dir.path().join(name)).unwrap_err().to_string();
            assert!(e.contains("without quotes"), "{e}");
        }
        assert!(cache_dir(&dir.path().join("a b")).is_ok());
    }
}
