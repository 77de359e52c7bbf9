//! Builds and caches guest images.

use crate::archive::Archive;
use crate::error::IoContext;
use crate::kernel::{self, part_of_kernel, KernelFile};
use crate::manifest::{hex, sha256, Manifest, Output};
use crate::store::{say, Store};
use crate::{guest, kmod, modules, Error, GuestImage, Options, Progress, Stage, FAST_BOOT_ARGS};
use fs4::fs_std::FileExt;
use nagori_debian::{deb, Package};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Incremented with every change of what this crate makes from the same packages and sources.
const BUILDER: u32 = 6;

const KERNEL: &str = "Image";
const FIRMWARE: &str = "fw_dynamic.bin";
const INITRD: &str = "initrd.cpio";
const MANIFEST: &str = "manifest.json";
/// Which packages were chosen last.
pub(crate) const RESOLVED: &str = "resolved.json";

/// The packages that were chosen when the mirror was last asked: kernel, OpenSBI, busybox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Resolved {
    suite: String,
    packages: [Package; 3],
    /// Packages among which the kernel is divided.
    #[serde(default)]
    kernel_parts: Vec<Package>,
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
            note_use(&image.kernel);
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

/// Removes what builds that were killed have left in a directory: what begins with `prefix`. The caller holds the lock.
pub(crate) fn sweep(dir: &Path, prefix: &str) -> Result<(), Error> {
    for e in fs::read_dir(dir).context("read", dir)?.flatten() {
        if e.file_name().to_string_lossy().starts_with(prefix) && e.path().is_dir() {
            fs::remove_dir_all(e.path()).context("remove", e.path())?;
        }
    }
    Ok(())
}

/// Notes that an image was used, by the time of one of its files: what was not used for long is removed first. In a
/// cache that cannot be written nothing is noted.
pub(crate) fn note_use(file: &Path) {
    let _ = File::open(file).and_then(|f| f.set_modified(std::time::SystemTime::now()));
}

pub(crate) fn cache_dir(dir: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(dir).context("create", dir)?;
    dir.canonicalize().context("find", dir)
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
        say(progress, Stage::Wait, dir.display().to_string());
        file.lock_exclusive().context("lock", &path)?;
    }
    Ok(file)
}

/// The image for these options, if the packages are known and it exists and is complete.
pub(crate) fn cached(dir: &Path, options: &Options) -> Option<GuestImage> {
    let resolved = read_resolved(dir, &options.suite)?;
    open(dir, &key(&resolved, options))
}

fn read_resolved(dir: &Path, suite: &str) -> Option<Resolved> {
    let text = fs::read(dir.join(RESOLVED)).ok()?;
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
    for m in &options.modules {
        line(&["module", m]);
    }
    for m in &options.more_modules {
        line(&["loaded module", m]);
    }
    let programs = guest::programs();
    for p in &programs {
        line(&["program", &p.name, &sha256(&p.bytes)]);
    }
    for (name, bytes) in guest::init_files() {
        line(&["init", &name, &sha256(bytes)]);
    }
    if wants(options, &kmod::OFF2F) {
        for s in guest::module_sources() {
            line(&["source", &s.path, &sha256(s.bytes)]);
        }
    }
    hex(&h.finalize()[..16])
}

struct Builder<'a> {
    dir: &'a Path,
    options: &'a Options,
    progress: &'a mut dyn FnMut(Progress),
}

/// Whether one of our modules was asked for.
fn wants(options: &Options, own: &kmod::Own) -> bool {
    { options.modules.iter().chain(&options.more_modules) }.any(|m| m == own.name)
}

impl Builder<'_> {
    fn say(&mut self, stage: Stage, detail: impl Into<String>) {
        say(self.progress, stage, detail);
    }

    fn build(mut self) -> Result<GuestImage, Error> {
        // First of all, so that a missing compiler is reported before a long download.
        if [kmod::OFF2F, kmod::ETHOC]
            .iter()
            .any(|own| wants(self.options, own))
        {
            kmod::compiler()?;
        }
        // Leftovers of builds that were killed.
        sweep(self.dir, "work")?;
        let mut store = Store::open(self.dir, self.dir.join("packages"), self.options)?;
        let known = read_resolved(self.dir, &self.options.suite);
        let have = |r: &Resolved| r.needed().all(|p| store.file(p).exists());
        let resolved = match known {
            Some(r) if !self.options.refresh && have(&r) => r,
            _ => self.resolve(&mut store)?,
        };
        let key = key(&resolved, self.options);
        if let Some(image) = open(self.dir, &key) {
            return Ok(image);
        }
        self.make(&mut store, &resolved, &key)?;
        open(self.dir, &key).ok_or_else(|| Error::Io {
            what: "read back",
            path: self.dir.join("images").join(&key),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }

    /// Asks the mirror for the available packages, downloads them, and records the choice.
    fn resolve(&mut self, store: &mut Store) -> Result<Resolved, Error> {
        store.ask(true, self.progress)?;
        let (kernel, kernel_parts) = kernel::packages(&store.archive)?;
        let resolved = Resolved {
            suite: self.options.suite.clone(),
            packages: [
                kernel,
                store.archive.package("opensbi")?,
                store.archive.package("busybox-static")?,
            ],
            kernel_parts,
            date: store.date()?,
        };
        for p in resolved.needed() {
            store.fetch(p, self.progress)?;
        }
        let keep: Vec<PathBuf> = resolved.needed().map(|p| store.file(p)).collect();
        let packages = self.dir.join("packages");
        for old in fs::read_dir(&packages)
            .context("read", &packages)?
            .flatten()
        {
            if !keep.contains(&old.path()) {
                fs::remove_file(old.path()).context("remove", old.path())?;
            }
        }
        let text = serde_json::to_vec_pretty(&resolved).expect("plain data");
        write_atomically(&self.dir.join(RESOLVED), &text)?;
        Ok(resolved)
    }

    fn compile_module(
        &mut self,
        own: &kmod::Own,
        store: &mut Store,
        resolved: &Resolved,
        release: &str,
    ) -> Result<modules::Module, Error> {
        let work = self.temporary("module")?;
        let kernel = &resolved.packages[0];
        store.ask(false, self.progress)?;
        for name in kmod::header_packages(kernel)? {
            let p = of_kernel(own, store.archive.package(&name)?, kernel)?;
            let files = store.unpack(&p, self.progress, kmod::is_needed)?;
            kmod::write_headers(work.path(), files)?;
        }
        if *own == kmod::ETHOC {
            let p = store.archive.package(&kmod::source_package(kernel)?)?;
            let p = of_kernel(own, p, kernel)?;
            let file = store.fetch(&p, self.progress)?;
            self.say(Stage::Unpack, format!("{} {}", p.name, p.version));
            deb::read(&file, deb::Part::Files, |tar| {
                kmod::write_driver(work.path(), tar)
            })?;
        }
        self.say(Stage::Compile, format!("{}.ko", own.name));
        kmod::compile(own, work.path(), release)
    }

    fn make(&mut self, store: &mut Store, resolved: &Resolved, key: &str) -> Result<(), Error> {
        let [_, opensbi_deb, busybox_deb] = &resolved.packages;
        let programs = guest::programs();
        let firmware = store
            .unpack(opensbi_deb, self.progress, |p| {
                p.contains("riscv64") && p.ends_with("/generic/fw_dynamic.bin")
            })?
            .into_values()
            .next()
            .ok_or_else(|| missing(opensbi_deb, "generic/fw_dynamic.bin"))?;
        let busybox = store
            .unpack(busybox_deb, self.progress, |p| p.ends_with("bin/busybox"))?
            .into_values()
            .next()
            .ok_or_else(|| missing(busybox_deb, "bin/busybox"))?;
        let mut kernel = self.kernel(store, resolved)?;
        for own in [kmod::OFF2F, kmod::ETHOC] {
            if wants(self.options, &own) {
                let module = self.compile_module(&own, store, resolved, &kernel.release)?;
                kernel.modules.push(module);
            }
        }
        modules::shorten(&mut kernel.modules)?;

        let initrd = initrd(&busybox, &kernel, &programs, &self.options.more_modules)?;
        let manifest = Manifest {
            key: key.to_string(),
            builder: format!("nagori-image {} ({BUILDER})", env!("CARGO_PKG_VERSION")),
            suite: resolved.suite.clone(),
            date: resolved.date,
            packages: resolved.needed().cloned().collect(),
            kernel_release: kernel.release.clone(),
            compiler: guest::COMPILER.to_string(),
            modules: kernel.modules.iter().map(|m| m.name.clone()).collect(),
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

    fn kernel(&mut self, store: &mut Store, resolved: &Resolved) -> Result<Kernel, Error> {
        let p = &resolved.packages[0];
        let release = p
            .name
            .strip_prefix(kernel::IMAGE)
            .unwrap_or(&p.name)
            .to_string();
        let mut image = None;
        let mut builtin = String::new();
        let mut packed = std::collections::BTreeMap::new();
        for part in [p].into_iter().chain(&resolved.kernel_parts) {
            let wanted = |path: &str| part_of_kernel(path, &release).is_some();
            let files = store.unpack(part, self.progress, wanted)?;
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

/// A package that has to be of the same version as the kernel.
fn of_kernel(own: &kmod::Own, p: Package, kernel: &Package) -> Result<Package, Error> {
    if p.version == kernel.version {
        Ok(p)
    } else {
        Err(Error::Module {
            name: own.name.into(),
            what: format!(
                "{} is of {}, the kernel is {}: `nagori image build --refresh` takes newer packages",
                p.name, p.version, kernel.version
            ),
        })
    }
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

/// The caller holds the lock, so nobody else uses the name of the new file.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    let mut f = File::create(&new).context("create", &new)?;
    f.write_all(bytes)
        .and_then(|()| f.sync_all())
        .context("write", &new)?;
    fs::rename(&new, path).context("write", path)
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
                path: String::new(),
            }),
            kernel_parts: Vec::new(),
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
        write_atomically(&dir.path().join(RESOLVED), &text).unwrap();
        assert_eq!(read_resolved(dir.path(), "trixie"), Some(resolved()));
        assert_eq!(read_resolved(dir.path(), "sid"), None);
        fs::write(dir.path().join(RESOLVED), b"{").unwrap();
        assert_eq!(read_resolved(dir.path(), "trixie"), None);
    }
}
