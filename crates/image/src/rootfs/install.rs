//! The steps that only a guest can do for a root file system: dpkg installs packages with their
//! maintainer scripts, and scripts of the user run, in a machine that the caller provides.
//!
//! The machine gets two disks: the root file system, and one with the packages and scripts. The
//! result depends on nothing else, so equal inputs give equal bytes.

use super::ext4;
use super::tree::{Attributes, Tree};
use crate::error::IoContext;
use crate::manifest::{sha256, Output};
use crate::Error;
use nagori_debian::{deb, sha256_of, Record, Relation, Step};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Run in the root file system, by our init.
pub(super) const SCRIPT: &str = include_str!("install.sh");
/// Prefix of the script's own lines.
const MARK: &str = "nagori-install: ";
/// Number of lines of the guest that an error shows.
const TAIL: usize = 30;

/// The machine in which root file systems are finished.
pub trait Installer {
    /// Distinguishes machines that may produce different bytes from the same inputs: kernel,
    /// description.
    fn identity(&self) -> Result<String, String>;

    /// Boots, runs the script in the root file system, and switches off; returns the exit status.
    /// Each line of the console is passed on.
    fn run(&mut self, work: &Work<'_>, line: &mut dyn FnMut(&str)) -> Result<u32, String>;
}

/// The work of an [`Installer`].
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// The root file system, which is changed.
    pub root: &'a Path,
    /// An ext4 image that is mounted read-only at /run/nagori.
    pub input: &'a Path,
    /// A script for sh, run as root.
    pub script: &'a str,
    /// Seed of all randomness: key pairs differ from image to image.
    pub seed: u64,
    /// Initial time of the clock, in seconds since 1970.
    pub date: u64,
}

/// The calls of dpkg for the packages of `added`: as few as their order allows. Only packages that
/// another one needs before it is unpacked are configured before the end.
fn calls(
    order: &[Step],
    added: &BTreeSet<&str>,
    needed_before: impl Fn(&str) -> Vec<String>,
) -> String {
    let mut text = String::new();
    let (mut unpacked, mut ready, mut open) = (Vec::new(), Vec::new(), BTreeSet::new());
    let call = |text: &mut String, step: &str, list: &mut Vec<&str>| {
        if !list.is_empty() {
            *text += &format!("{step} {}\n", list.join(" "));
            list.clear();
        }
    };
    for step in order {
        match step {
            Step::Unpack(p) if added.contains(p.as_str()) => {
                if needed_before(p).iter().any(|n| open.contains(n.as_str())) {
                    call(&mut text, "unpack", &mut unpacked);
                    for r in &ready {
                        open.remove(r);
                    }
                    call(&mut text, "configure", &mut ready);
                }
                unpacked.push(p.as_str());
                open.insert(p.as_str());
            }
            Step::Configure(p) if open.contains(p.as_str()) => ready.push(p.as_str()),
            _ => {}
        }
    }
    call(&mut text, "unpack", &mut unpacked);
    if !text.is_empty() {
        text += "configure -a\n";
    }
    text
}

/// Scripts and files of the user.
#[derive(Debug, Default)]
pub(super) struct Provided {
    /// With paths below the disk's root.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    path: String,
    from: PathBuf,
    kind: Kind,
    hash: String,
    size: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Directory,
    File(u32),
    Symlink(String),
}

impl Provided {
    /// Reads the files that `scripts` and `files` name.
    pub fn read(scripts: &[PathBuf], files: Option<&Path>) -> Result<Provided, Error> {
        let mut found = Provided::default();
        for (n, script) in scripts.iter().enumerate() {
            let name = script.file_name().unwrap_or_default().to_string_lossy();
            if !script.metadata().context("read", script)?.is_file() {
                return Err(Error::Rootfs(format!(
                    "the provisioning script {} is not a file",
                    script.display()
                )));
            }
            found.file(script, format!("/provision/{n:02}-{name}"), 0o755)?;
        }
        if let Some(dir) = files {
            if !dir.metadata().context("read", dir)?.is_dir() {
                return Err(Error::Rootfs(format!(
                    "{} is not a directory: its files are for the provisioning scripts",
                    dir.display()
                )));
            }
            found.directory(dir, "/files".into())?;
        }
        Ok(found)
    }

    fn file(&mut self, from: &Path, path: String, mode: u32) -> Result<(), Error> {
        let hash = sha256_of(from)?;
        let size = from.metadata().context("read", from)?.len();
        self.push(from, path, Kind::File(mode), hash, size)
    }

    fn push(
        &mut self,
        from: &Path,
        path: String,
        kind: Kind,
        hash: String,
        size: u64,
    ) -> Result<(), Error> {
        self.entries.push(Entry {
            path,
            from: from.into(),
            kind,
            hash,
            size,
        });
        Ok(())
    }

    fn directory(&mut self, dir: &Path, path: String) -> Result<(), Error> {
        self.push(dir, path.clone(), Kind::Directory, String::new(), 0)?;
        let list = fs::read_dir(dir).and_then(|d| d.collect::<Result<Vec<_>, _>>());
        let mut list = list.context("read", dir)?;
        // Sorted, since the order of the host's file system must not matter.
        list.sort_by_key(|e| e.file_name());
        for e in list {
            let from = e.path();
            let odd = |why: &str| Error::Rootfs(format!("{}: {why}", from.display()));
            let name = e.file_name();
            let name = name.to_str().ok_or_else(|| odd("its name is not UTF-8"))?;
            let path = format!("{path}/{name}");
            let meta = from.symlink_metadata().context("read", &from)?;
            if meta.is_dir() {
                self.directory(&from, path)?;
            } else if meta.is_symlink() {
                let target = fs::read_link(&from).context("read", &from)?;
                let target = target
                    .to_str()
                    .ok_or_else(|| odd("its target is not UTF-8"))?;
                let hash = sha256(target.as_bytes());
                self.push(&from, path, Kind::Symlink(target.into()), hash, 0)?;
            } else if meta.is_file() {
                let executable = meta.permissions().mode() & 0o100 != 0;
                self.file(&from, path, if executable { 0o755 } else { 0o644 })?;
            } else {
                return Err(odd(
                    "only files, directories and symbolic links can be provided",
                ));
            }
        }
        Ok(())
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names and checksums, for the manifest.
    pub fn outputs(&self) -> Vec<Output> {
        let files = self.entries.iter().filter(|e| e.kind != Kind::Directory);
        let output = |e: &Entry| Output {
            file: e.path[1..].into(),
            sha256: e.hash.clone(),
            size: e.size,
        };
        files.map(output).collect()
    }

    /// A hash of their contents.
    pub fn lines(&self) -> impl Iterator<Item = [String; 3]> + '_ {
        self.entries.iter().map(|e| {
            let kind = format!("{:?}", e.kind);
            [e.path.clone(), kind, e.hash.clone()]
        })
    }

    fn put(&self, tree: &mut Tree) -> Result<(), Error> {
        for e in &self.entries {
            match &e.kind {
                Kind::Directory => {
                    tree.directory(&e.path)?;
                }
                Kind::Symlink(target) => tree.symlink(&e.path, target)?,
                Kind::File(mode) => {
                    let mut f = File::open(&e.from).context("open", &e.from)?;
                    tree.file_from(&e.path, Attributes::root(*mode), &mut f)?;
                }
            }
        }
        Ok(())
    }
}

/// A package that dpkg installs in the guest: its name and file.
pub(super) struct Added<'a> {
    pub name: &'a str,
    pub file: PathBuf,
}

/// Space that the packages take once they are installed, in bytes.
pub(super) fn installed_size(added: &[Added<'_>]) -> Result<u64, Error> {
    let mut sum = 0;
    for p in added {
        let kib = control(p)?
            .field("Installed-Size")
            .and_then(|s| s.parse::<u64>().ok());
        sum += kib.unwrap_or(0) << 10;
    }
    // Blocks and entries of small files, and files that scripts create.
    Ok(sum + sum / 4 + if added.is_empty() { 0 } else { 64 << 20 })
}

fn control(p: &Added<'_>) -> Result<Record, Error> {
    let files = deb::files(&p.file, deb::Part::Control, |f| f == "control")?;
    let text = files.into_values().next().unwrap_or_default();
    Record::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| Error::Contents {
        name: p.name.into(),
        what: "its control file cannot be read".into(),
    })
}

/// The specification of the work.
pub(super) struct Job<'a> {
    pub added: &'a [Added<'a>],
    pub order: &'a [Step],
    pub provided: &'a Provided,
    /// Key of the image.
    pub key: &'a str,
    pub date: u64,
}

/// Progress that a line of the machine's console reports, for the user.
pub(super) fn doing(line: &str) -> Option<&str> {
    let own = line
        .strip_prefix(MARK)
        .filter(|l| l.starts_with("provision "));
    ["Unpacking ", "Setting up ", "Processing triggers for "]
        .iter()
        .find_map(|verb| line.strip_prefix(verb))
        .map(|rest| rest.trim_end_matches(['.', ' ']))
        .or(own)
}

/// Has the machine finish the root file system in `root`; `work` is an empty directory.
pub(super) fn install(
    installer: &mut dyn Installer,
    job: &Job<'_>,
    root: &Path,
    work: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let Job {
        added,
        order,
        provided,
        key,
        date,
    } = *job;
    let stage = work.join("stage");
    fs::create_dir(&stage).context("create", &stage)?;
    let mut tree = Tree::new(&stage);
    let names: BTreeSet<&str> = added.iter().map(|p| p.name).collect();
    let mut before = std::collections::BTreeMap::new();
    for p in added {
        let record = control(p)?;
        let groups = Relation::parse_all(record.text("Pre-Depends"));
        let names = groups.unwrap_or_default().into_iter().flatten();
        before.insert(p.name, names.map(|r| r.name).collect::<Vec<String>>());
        // Uncompressed, since unpacking is faster on the host.
        tree.file_made(&format!("/packages/{}.deb", p.name), 0o644, |to| {
            let mut to = File::create(to).context("create", to)?;
            Ok(deb::uncompressed(&p.file, &mut to)?)
        })?;
    }
    let steps = calls(order, &names, |p| {
        before.get(p).cloned().unwrap_or_default()
    });
    tree.file("/steps", 0o644, steps.as_bytes())?;
    provided.put(&mut tree)?;
    let input = work.join("input.ext4");
    let format = ext4::Format {
        uuid: &super::uuid(key),
        label: "nagori-input",
        time: date,
        // It is read-only.
        free: 0,
    };
    ext4::write(&tree, &format, &input)?;

    let seed = u64::from_str_radix(&key[..16], 16).unwrap_or(0) >> 1;
    let todo = Work {
        root,
        input: &input,
        script: SCRIPT,
        seed,
        date,
    };
    let mut log = Vec::new();
    let status = installer
        .run(&todo, &mut |line| {
            tell(line);
            log.push(line.to_string());
        })
        .map_err(|why| failed(&log, &why))?;
    if status != 0 {
        return Err(failed(&log, &format!("exit status {status}")));
    }
    if !log.iter().any(|l| l == &format!("{MARK}done")) {
        return Err(failed(&log, "it has ended too early"));
    }
    if clean(root).context("read", root)? {
        Ok(())
    } else {
        Err(failed(&log, "it has left its file system in use"))
    }
}

/// The error of a failed installation, with the relevant lines of the console.
fn failed(log: &[String], why: &str) -> Error {
    let own = |l: &&String| l.strip_prefix(MARK).map(String::from);
    // dpkg ends with a list of the packages that failed.
    let list = log
        .iter()
        .position(|l| l.starts_with("Errors were encountered"));
    let packages: Vec<&str> = list.map_or(Vec::new(), |at| {
        let names = log[at + 1..].iter().take_while(|l| l.starts_with(' '));
        names.map(|l| l.trim()).collect()
    });
    let last = log
        .iter()
        .rev()
        .filter_map(|l| own(&l))
        .find(|l| !l.starts_with("failed: "));
    let said = log
        .iter()
        .rev()
        .filter_map(|l| own(&l))
        .find(|l| l.starts_with("failed: "));
    let why = said.map_or(why.to_string(), |s| s["failed: ".len()..].to_string());
    let what = match (
        &packages[..],
        last.as_deref().and_then(|l| l.split_once(' ')),
    ) {
        ([], Some(("provision", script))) => format!(
            "the provisioning script {} failed ({why})",
            script.split_once('-').map_or(script, |s| s.1)
        ),
        ([], _) => format!("installing packages failed ({why})"),
        (list, _) => format!("package {} cannot be installed ({why})", list.join(", ")),
    };
    let rest = match (packages.is_empty(), list) {
        (false, Some(at)) => &log[..at],
        _ => log,
    };
    let rest: Vec<&str> = rest
        .iter()
        .map(String::as_str)
        .filter(|l| {
            !l.is_empty() && !l.starts_with(&format!("{MARK}failed")) && !l.starts_with("nagori: ")
        })
        .collect();
    Error::Install {
        what,
        output: rest[rest.len().saturating_sub(TAIL)..].join("\n"),
    }
}

/// Whether an ext4 image was unmounted: its superblock says so, and no journal has to be replayed.
fn clean(image: &Path) -> std::io::Result<bool> {
    const SUPERBLOCK: u64 = 1024;
    let mut block = [0; 0x64];
    let mut f = File::open(image)?;
    f.seek(SeekFrom::Start(SUPERBLOCK))?;
    f.read_exact(&mut block)?;
    let state = u16::from_le_bytes([block[0x3a], block[0x3b]]);
    let needs_recovery = block[0x60] & 4 != 0;
    Ok(state & 1 == 1 && !needs_recovery)
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
