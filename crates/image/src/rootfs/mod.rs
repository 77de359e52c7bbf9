//! Root file systems: ext4 images of Debian's riscv64 packages, built without root, byte for byte
//! the same each time.
//!
//! Packages are chosen as apt would. The base's packages are unpacked into a tree that this crate manages itself,
//! `finish` does what matters of their maintainer scripts, and `ext4` writes the image. Other packages of a system are
//! then installed by dpkg itself, in a machine ([`Installer`]), where scripts of the user may run afterwards.
//!
//! Below the cache directory, `rootfs/` contains `packages/` (the .deb files, by their checksum),
//! `resolved/` (which packages were chosen for which specification) and `images/KEY/`.

mod accounts;
mod dpkg;
mod ext4;
mod finish;
mod install;
mod spec;
mod sysusers;
mod tree;
mod units;

pub use install::{Installer, Work};
pub use spec::{Base, RootfsSpec};

use crate::builder::{cache_dir, lock, note_use, sweep, write_atomically};
use crate::error::IoContext;
use crate::manifest::{hex, Output};
use crate::store::{say, Store};
use crate::{guest, Error, Options, Progress, Stage};
use dpkg::Unpacked;
use install::{Added, Provided};
use nagori_debian::{deb, sha256_of, Package, Step};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use tree::Tree;

/// Incremented with every change of what this module makes from the same packages and sources.
const BUILDER: u32 = 5;

const IMAGE: &str = "rootfs.ext4";
const MANIFEST: &str = "manifest.json";
const LABEL: &str = "nagori-root";

/// A root file system; its image is never changed once it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootFs {
    /// A raw ext4 image, sparse on the host.
    pub path: PathBuf,
    /// Its contents.
    pub manifest: RootfsManifest,
}

/// The contents of a root file system's `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootfsManifest {
    /// Hash of everything the image is made from; also the name of its directory.
    pub key: String,
    /// Version of the program that built it.
    pub builder: String,
    /// Debian's release from which the packages are.
    pub suite: String,
    /// Midnight after the mirror signed the index from which the packages were chosen, in seconds
    /// since 1970: the initial time of the guest's clock, unless another is chosen.
    pub date: u64,
    /// The specification.
    pub spec: RootfsSpec,
    /// Packages that dpkg installed in a machine, with their maintainer scripts.
    pub installed: Vec<String>,
    /// Scripts that were run after that, and files for them.
    pub provided: Vec<Output>,
    /// All packages in it, compared with the checksums of the signed index.
    pub packages: Vec<Package>,
    /// Our programs, by their paths below /usr/local.
    pub programs: Vec<String>,
    /// Number of files, directories and links, without those installed in a machine.
    pub entries: u64,
    /// Total bytes in these files.
    pub content: u64,
    /// The image.
    pub image: Output,
}

/// The packages chosen for a specification.
#[derive(Debug, Serialize, Deserialize)]
struct Resolved {
    suite: String,
    wanted: Vec<String>,
    packages: Vec<Package>,
    /// The order in which they are unpacked and configured.
    order: Vec<Step>,
    /// Packages that are not part of the base, if dpkg is to install them.
    added: Vec<String>,
    /// See [`RootfsManifest::date`].
    date: u64,
    /// Their origin, for the guest's own apt.
    mirror: String,
}

/// Builds a root file system, or finds it in the cache. The machine is used only if
/// [`RootfsSpec::needs_machine`] says so.
///
/// Safe to call from several processes at once, as [`crate::build`] is.
pub fn rootfs(
    options: &Options,
    spec: &RootfsSpec,
    machine: Option<&mut dyn Installer>,
    progress: &mut dyn FnMut(Progress),
) -> Result<RootFs, Error> {
    spec.check()?;
    let dir = cache_dir(&options.cache_dir)?;
    let machine = match (spec.needs_machine(), machine) {
        (false, _) => None,
        (true, Some(machine)) => Some(machine),
        (true, None) => {
            return Err(Error::Rootfs(
                "packages of a system and provisioning scripts need a machine to run in".into(),
            ))
        }
    };
    let identity = match &machine {
        Some(machine) => machine.identity().map_err(Error::Rootfs)?,
        None => String::new(),
    };
    let b = Builder {
        dir: dir.join("rootfs"),
        options,
        spec,
        identity,
        provided: Provided::read(&spec.provision, spec.files.as_deref())?,
    };
    if !options.refresh {
        if let Some(found) = b.cached() {
            note_use(&found.path.with_file_name(MANIFEST));
            return Ok(found);
        }
    }
    let _lock = lock(&dir, progress)?;
    if !options.refresh {
        if let Some(found) = b.cached() {
            return Ok(found);
        }
    }
    b.build(&dir, machine, progress)
}

/// All finished root file systems, newest first.
pub fn list_rootfs(options: &Options) -> Result<Vec<RootFs>, Error> {
    let images = options.cache_dir.join("rootfs/images");
    let mut found = Vec::new();
    let entries = match fs::read_dir(&images) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context("read", &images)?,
    };
    for entry in entries.flatten() {
        let time = entry.metadata().and_then(|m| m.modified()).ok();
        if let Some(image) = open(&entry.path()) {
            found.push((time, image));
        }
    }
    found.sort_by(|(t, a), (u, b)| u.cmp(t).then_with(|| a.path.cmp(&b.path)));
    Ok(found.into_iter().map(|(_, image)| image).collect())
}

impl RootFs {
    /// Reads the image and compares it with its manifest.
    pub fn verify(&self) -> Result<(), Error> {
        let found = sha256_of(&self.path)?;
        if found == self.manifest.image.sha256 {
            return Ok(());
        }
        Err(Error::Rootfs(format!(
            "{} is damaged: its SHA-256 is {found}, it was built with {}; remove its directory, and it is built again",
            self.path.display(),
            self.manifest.image.sha256
        )))
    }
}

/// The root file system of the cache to which an image belongs, by the image's path.
pub fn rootfs_at(image: &Path) -> Option<RootFs> {
    let found = open(image.parent()?)?;
    (found.path.file_name() == image.file_name()).then_some(found)
}

fn open(dir: &Path) -> Option<RootFs> {
    let text = fs::read(dir.join(MANIFEST)).ok()?;
    let manifest: RootfsManifest = serde_json::from_slice(&text).ok()?;
    let path = dir.join(IMAGE);
    (fs::metadata(&path).ok()?.len() == manifest.image.size).then_some(RootFs { path, manifest })
}

/// The name of the file that says which packages were chosen.
pub(crate) fn resolved_name(suite: &str, spec: &RootfsSpec) -> String {
    let mut h = Sha256::new();
    h.update(suite);
    h.update([u8::from(spec.needs_machine())]);
    for name in spec.wanted() {
        h.update([0]);
        h.update(name);
    }
    format!("{}.json", hex(&h.finalize()[..16]))
}

struct Builder<'a> {
    dir: PathBuf,
    options: &'a Options,
    spec: &'a RootfsSpec,
    /// Identity of the machine that takes part.
    identity: String,
    provided: Provided,
}

impl Builder<'_> {
    fn cached(&self) -> Option<RootFs> {
        let resolved = self.resolved()?;
        open(&self.place(&self.key(&resolved)))
    }

    fn place(&self, key: &str) -> PathBuf {
        self.dir.join("images").join(key)
    }

    fn resolved_file(&self) -> PathBuf {
        let name = resolved_name(&self.options.suite, self.spec);
        self.dir.join("resolved").join(name)
    }

    fn resolved(&self) -> Option<Resolved> {
        let r: Resolved = serde_json::from_slice(&fs::read(self.resolved_file()).ok()?).ok()?;
        (r.suite == self.options.suite && r.wanted == self.spec.wanted()).then_some(r)
    }

    /// A hash of everything that the image is made of.
    fn key(&self, resolved: &Resolved) -> String {
        let mut h = Sha256::new();
        let mut line = |parts: &[&str]| {
            for p in parts {
                h.update((p.len() as u64).to_le_bytes());
                h.update(p.as_bytes());
            }
        };
        line(&["nagori rootfs", &BUILDER.to_string(), &resolved.suite]);
        line(&["free", &self.spec.free_mib.to_string()]);
        line(&["date", &resolved.date.to_string()]);
        if self.spec.base == Base::System {
            line(&["mirror", &resolved.mirror]);
        }
        if self.spec.needs_machine() {
            line(&["machine", &self.identity, install::SCRIPT]);
            line(&["version", env!("CARGO_PKG_VERSION")]);
            for p in &resolved.added {
                line(&["added", p]);
            }
            for [path, kind, hash] in self.provided.lines() {
                line(&["provided", &path, &kind, &hash]);
            }
        }
        for p in &resolved.packages {
            line(&["package", &p.name, &p.version, &p.sha256]);
        }
        for p in guest::rootfs_programs() {
            line(&["program", &p.name, &crate::manifest::sha256(&p.bytes)]);
        }
        hex(&h.finalize()[..16])
    }

    fn build(
        &self,
        cache: &Path,
        machine: Option<&mut dyn Installer>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RootFs, Error> {
        for sub in ["resolved", "images"] {
            let d = self.dir.join(sub);
            fs::create_dir_all(&d).context("create", &d)?;
        }
        sweep(&self.dir, "work")?;
        let mut store = Store::open(cache, self.dir.join("packages"), self.options)?;
        let resolved = match self.resolved() {
            Some(r) if !self.options.refresh => r,
            _ => self.resolve(&mut store, progress)?,
        };
        let key = self.key(&resolved);
        if let Some(found) = open(&self.place(&key)) {
            return Ok(found);
        }
        for p in &resolved.packages {
            store.fetch(p, progress)?;
        }
        self.make(&store, &resolved, &key, machine, progress)?;
        open(&self.place(&key)).ok_or_else(|| Error::Io {
            what: "read back",
            path: self.place(&key),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }

    fn resolve(
        &self,
        store: &mut Store,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Resolved, Error> {
        store.ask(self.options.refresh, progress)?;
        let wanted = self.spec.wanted();
        let (packages, order) = store.archive.solve(&wanted)?;
        let mut added = Vec::new();
        if self.spec.installs() {
            let (base, _) = store
                .archive
                .solve(&RootfsSpec::new(self.spec.base).wanted())?;
            let new = packages
                .iter()
                .filter(|p| !base.iter().any(|b| b.name == p.name));
            added = new.map(|p| p.name.clone()).collect();
        }
        let resolved = Resolved {
            suite: self.options.suite.clone(),
            packages,
            wanted,
            order,
            added,
            date: store.date()?,
            mirror: store.archive.mirror()?,
        };
        self.keep(&resolved)?;
        Ok(resolved)
    }

    fn keep(&self, resolved: &Resolved) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(resolved).expect("plain data");
        write_atomically(&self.resolved_file(), &text)
    }

    fn make(
        &self,
        store: &Store,
        resolved: &Resolved,
        key: &str,
        machine: Option<&mut dyn Installer>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let work = tempfile::Builder::new()
            .prefix("work")
            .tempdir_in(&self.dir)
            .context("create a directory in", &self.dir)?;
        let sub = |name: &str| -> Result<PathBuf, Error> {
            let d = work.path().join(name);
            fs::create_dir(&d).context("create", &d)?;
            Ok(d)
        };
        let programs = guest::rootfs_programs();
        let mut tree = Tree::new(&sub("stage")?);
        let mut unpacked = Vec::new();
        let mut time = 0;
        let is_added = |p: &Package| resolved.added.contains(&p.name);
        let list = in_order(&resolved.packages);
        for p in list.iter().copied().filter(|p| !is_added(p)) {
            say(progress, Stage::Unpack, format!("{} {}", p.name, p.version));
            let file = store.file(p);
            let named = |e: Error| match e {
                Error::Entry { path, why } => Error::Contents {
                    name: p.name.clone(),
                    what: format!("`{path}`: {why}"),
                },
                other => other,
            };
            let control = deb::files(&file, deb::Part::Control, |_| true)?;
            let paths =
                deb::read(&file, deb::Part::Files, |tar| tree.unpack(tar)).map_err(named)?;
            unpacked.push(Unpacked {
                name: p.name.clone(),
                control,
                paths,
            });
        }
        for node in tree.live() {
            time = time.max(node.attributes.mtime);
        }
        let origin = finish::Origin {
            suite: &resolved.suite,
            mirror: &resolved.mirror,
        };
        finish::system(&mut tree, &unpacked, origin, key, time)?;
        for p in &programs {
            tree.file(&format!("/usr/local/{}", p.name), 0o755, &p.bytes)?;
        }

        let added: Vec<Added<'_>> = list
            .iter()
            .copied()
            .filter(|p| is_added(p))
            .map(|p| Added {
                name: &p.name,
                file: store.file(p),
            })
            .collect();

        let place = self.place(key);
        say(progress, Stage::Write, place.display().to_string());
        let aside = sub("image")?;
        let image = aside.join(IMAGE);
        let format = ext4::Format {
            uuid: &uuid(key),
            label: LABEL,
            time,
            free: (u64::from(self.spec.free_mib) << 20) + install::installed_size(&added)?,
        };
        ext4::write(&tree, &format, &image)?;
        let to_do = !added.is_empty() || !self.provided.is_empty();
        if let Some(machine) = machine.filter(|_| to_do) {
            let order = &resolved.order;
            let sub = sub("install")?;
            let mut tell = |line: &str| {
                if let Some(doing) = install::doing(line) {
                    say(progress, Stage::Install, doing);
                }
            };
            let job = install::Job {
                added: &added,
                order,
                provided: &self.provided,
                key,
                date: resolved.date,
            };
            install::install(machine, &job, &image, &sub, &mut tell)?;
        }
        let manifest = RootfsManifest {
            key: key.to_string(),
            builder: format!("nagori-image {} ({BUILDER})", env!("CARGO_PKG_VERSION")),
            suite: resolved.suite.clone(),
            date: resolved.date,
            spec: self.spec.clone(),
            installed: resolved.added.clone(),
            provided: self.provided.outputs(),
            packages: resolved.packages.clone(),
            programs: programs.iter().map(|p| p.name.clone()).collect(),
            entries: tree.live().map(|n| u64::from(n.links)).sum(),
            content: tree.live().map(|n| n.size()).sum(),
            image: Output {
                file: IMAGE.into(),
                sha256: sha256_of(&image)?,
                size: fs::metadata(&image).context("read", &image)?.len(),
            },
        };
        let text = serde_json::to_vec_pretty(&manifest).expect("plain data");
        write_atomically(&aside.join(MANIFEST), &text)?;
        if place.exists() {
            // Damaged, or `open` would have found it.
            fs::remove_dir_all(&place).context("remove", &place)?;
        }
        fs::rename(&aside, &place).context("move the image to", &place)
    }
}

/// base-files first: it contains the links from /bin and others into /usr.
fn in_order(packages: &[Package]) -> Vec<&Package> {
    let mut sorted: Vec<&Package> = packages.iter().collect();
    sorted.sort_by_key(|p| (p.name != "base-files", &p.name));
    sorted
}

/// A UUID of 32 hexadecimal digits.
fn uuid(key: &str) -> String {
    let k = key.as_bytes();
    let part = |r: std::ops::Range<usize>| String::from_utf8_lossy(&k[r]).into_owned();
    // Version 8: made by an application.
    format!(
        "{}-{}-8{}-8{}-{}",
        part(0..8),
        part(8..12),
        part(13..16),
        part(17..20),
        part(20..32)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids() {
        assert_eq!(
            uuid("0123456789abcdef0123456789abcdef"),
            "01234567-89ab-8def-8123-456789abcdef"
        );
    }

    #[test]
    fn base_files_is_first() {
        let p = |name: &str| Package {
            name: name.into(),
            version: "1".into(),
            sha256: String::new(),
            size: 0,
            path: String::new(),
        };
        let list = [p("zlib1g"), p("base-files"), p("apt")];
        let names: Vec<&str> = in_order(&list).iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["base-files", "apt", "zlib1g"]);
    }
}
