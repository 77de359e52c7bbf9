//! Debian's archive: a suite of a mirror, verified down to each package file, and kept in a directory.
//!
//! The directory of a suite holds `InRelease` and `Packages.packed` as they were fetched, and `source.json`, which says
//! from where.

use crate::error::{Error, IoContext};
use crate::host::{Host, Proxies};
use crate::http::{sha256_of, Source};
use crate::index::{Id, Index, Package, ARCHITECTURE};
use crate::keys;
use crate::openpgp::Keyring;
use crate::release::{Listed, Release};
use crate::resolve::{self, Step};
use flate2::read::GzDecoder;
use lzma_rust2::XzReader;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const RELEASE: &str = "InRelease";
const PACKAGES: &str = "Packages.packed";
const SOURCE: &str = "source.json";
/// Other names of suites, which Debian gives to another one with each release.
const ALIASES: [&str; 3] = ["stable", "oldstable", "testing"];
/// Most bytes of an index, uncompressed.
const LARGEST: u64 = 1 << 30;

/// How the archive is reached, and what is trusted.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// A mirror, the only one that is asked.
    pub mirror: Option<String>,
    /// Nothing is fetched.
    pub offline: bool,
    /// What this host's apt is configured with.
    pub host: Host,
    /// Keys whose signatures are accepted.
    pub keyring: Keyring,
    /// Now, in seconds since 1970.
    pub now: u64,
}

impl Settings {
    /// The settings of this host: its apt's mirrors, proxies and keys if there are any, Debian's keys, and its clock.
    pub fn of_this_host() -> Settings {
        let host = Host::read(Path::new("/"));
        let mut keyring = Keyring::default();
        // The host's go first: there the same key may be valid for longer.
        for file in &host.keyrings {
            // A file that cannot be read is of no use, and the embedded keys are there in any case.
            let _ = fs::read(file).map(|bytes| keyring.add(&bytes));
        }
        keyring.extend(keys::embedded());
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Settings {
            mirror: None,
            offline: false,
            host,
            keyring,
            now: now.map_or(0, |d| d.as_secs()),
        }
    }

    /// The mirrors that are asked, the best first.
    pub fn mirrors(&self) -> &[String] {
        self.mirror
            .as_ref()
            .map_or(&self.host.mirrors, std::slice::from_ref)
    }
}

/// What an operation is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing<'a> {
    /// Asking a mirror, named by its address.
    Asking(&'a str),
    /// Fetching a file of so many bytes, of which some are there.
    Fetching {
        /// What the file is.
        what: &'a str,
        /// Bytes that are there.
        done: u64,
        /// Bytes of the whole.
        size: u64,
    },
}

/// From where an index is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    mirror: String,
    /// The name under which the mirror has the suite.
    name: String,
}

/// A suite of Debian.
pub struct Archive {
    dir: PathBuf,
    suite: String,
    settings: Settings,
    index: OnceCell<(Release, Index)>,
}

impl Archive {
    /// A suite by its code name, with its index in `dir`, which is created.
    pub fn new(dir: &Path, suite: &str, settings: Settings) -> Result<Archive, Error> {
        check_name("suite", suite)?;
        let dir = dir.join(suite);
        fs::create_dir_all(&dir).context("create", &dir)?;
        Ok(Archive {
            dir,
            suite: suite.into(),
            settings,
            index: OnceCell::new(),
        })
    }

    /// Whether an index was fetched before.
    pub fn has_index(&self) -> bool {
        self.origin().is_ok() && self.dir.join(PACKAGES).exists()
    }

    /// The mirror from which the index is.
    pub fn mirror(&self) -> Result<String, Error> {
        Ok(self.origin()?.mirror)
    }

    fn origin(&self) -> Result<Origin, Error> {
        let file = self.dir.join(SOURCE);
        let text = fs::read(&file).context("read", &file)?;
        serde_json::from_slice(&text).map_err(|e| Error::Format {
            what: file.display().to_string(),
            why: e.to_string(),
        })
    }

    /// When the release was made whose index is here, in seconds since 1970.
    pub fn date(&self) -> Result<u64, Error> {
        Ok(self.loaded()?.0.date)
    }

    /// The index, which was fetched before.
    pub fn index(&self) -> Result<&Index, Error> {
        Ok(&self.loaded()?.1)
    }

    /// Fetches the index of the first mirror that has it, whole and signed.
    ///
    /// While a mirror is being updated, the release file of a suite may name other files than there are. Under its
    /// other name the suite may still be whole, so those names are tried, too.
    pub fn update(&mut self, doing: &mut dyn FnMut(Doing<'_>)) -> Result<(), Error> {
        if self.settings.offline {
            return Err(Error::Offline {
                what: format!("the index of Debian {}", self.suite),
            });
        }
        let mirrors = self.settings.mirrors().to_vec();
        let suite = self.suite.clone();
        let names = [suite.as_str()].into_iter().chain(ALIASES);
        let mut first_error = None;
        for (name, mirror) in names.flat_map(|n| mirrors.iter().map(move |m| (n, m))) {
            match self.update_from(mirror, name, doing) {
                Ok(()) => {
                    self.index = OnceCell::new();
                    return Ok(());
                }
                Err(e) => {
                    // A host that cannot be reached under one name cannot be reached under another.
                    let hopeless = matches!(e, Error::Network { .. }) && mirrors.len() == 1;
                    first_error = first_error.or(Some(e));
                    if hopeless {
                        break;
                    }
                }
            }
        }
        Err(first_error.unwrap_or(Error::NoMirror))
    }

    /// Asks the mirrors for the release file alone; returns the address of the first one that is accepted.
    pub fn probe(&self) -> Result<String, Error> {
        if self.settings.offline {
            return Err(Error::Offline {
                what: format!("the index of Debian {}", self.suite),
            });
        }
        let mut first_error = None;
        for mirror in self.settings.mirrors() {
            for name in [self.suite.as_str()].into_iter().chain(ALIASES) {
                let found = self.source(mirror).and_then(|source| {
                    let path = format!("dists/{name}/{RELEASE}");
                    let address = source.address(&path);
                    let release = self.release(&source.bytes(&path)?, &address)?;
                    self.check_time(&release, &address)?;
                    Ok(address)
                });
                match found {
                    Ok(address) => return Ok(address),
                    Err(e @ Error::Network { .. }) => {
                        first_error = first_error.or(Some(e));
                        break;
                    }
                    Err(e) => first_error = first_error.or(Some(e)),
                }
            }
        }
        Err(first_error.unwrap_or(Error::NoMirror))
    }

    fn update_from(
        &self,
        mirror: &str,
        name: &str,
        doing: &mut dyn FnMut(Doing<'_>),
    ) -> Result<(), Error> {
        let source = self.source(mirror)?;
        let path = format!("dists/{name}/{RELEASE}");
        let address = source.address(&path);
        doing(Doing::Asking(&address));
        let signed = source.bytes(&path)?;
        let release = self.release(&signed, &address)?;
        self.check_time(&release, &address)?;
        let (path, listed) = packages_of(&release, &address)?;
        let fresh = self.dir.join("Packages.new");
        let mut told = |done| {
            doing(Doing::Fetching {
                what: "the index of packages",
                done,
                size: listed.size,
            });
        };
        let (folder, _) = path.rsplit_once('/').unwrap_or(("", &path));
        let by_hash = format!("dists/{name}/{folder}/by-hash/SHA256/{}", listed.sha256);
        let plain = format!("dists/{name}/{path}");
        if release.by_hash {
            match source.file(&by_hash, &listed, &fresh, &mut told) {
                Err(Error::Status { .. } | Error::Io { .. }) => {
                    source.file(&plain, &listed, &fresh, &mut told)?;
                }
                other => other?,
            }
        } else {
            source.file(&plain, &listed, &fresh, &mut told)?
        }
        // An index that cannot be read does not replace one that can.
        unpack(&fresh)?;
        let origin = Origin {
            mirror: mirror.into(),
            name: name.into(),
        };
        let text = serde_json::to_vec_pretty(&origin).expect("plain data");
        let moved = self.dir.join(PACKAGES);
        fs::rename(&fresh, &moved).context("move an index to", &moved)?;
        for (name, bytes) in [(RELEASE, &signed), (SOURCE, &text)] {
            replace(&self.dir.join(name), bytes)?;
        }
        Ok(())
    }

    /// The content of a release file, if its signature is good and it is of this suite.
    fn release(&self, signed: &[u8], what: &str) -> Result<Release, Error> {
        let text = self
            .settings
            .keyring
            .verify(signed, self.settings.now, what)?;
        let wrong = |why: String| Error::Format {
            what: what.to_string(),
            why,
        };
        let release = Release::parse(&text).map_err(wrong)?;
        if release.codename != self.suite {
            return Err(wrong(format!(
                "it is the release file of {}, not of {}",
                release.codename, self.suite
            )));
        }
        Ok(release)
    }

    fn check_time(&self, release: &Release, what: &str) -> Result<(), Error> {
        let fail = |why: &str| Error::Time {
            what: what.to_string(),
            why: why.to_string(),
        };
        let now = self.settings.now;
        if !self.settings.host.check_dates {
            return Ok(());
        }
        if release.date > now + 86_400 {
            return Err(fail("is of the future: is this host's clock right?"));
        }
        if release.valid_until.is_some_and(|t| t < now) {
            Err(fail(
                "is no longer valid: the mirror is out of date; name another one with --mirror URL",
            ))
        } else {
            Ok(())
        }
    }

    fn source(&self, mirror: &str) -> Result<Source, Error> {
        Source::new(mirror, &self.settings.host.proxies)
    }

    fn loaded(&self) -> Result<&(Release, Index), Error> {
        if let Some(loaded) = self.index.get() {
            return Ok(loaded);
        }
        let file = self.dir.join(RELEASE);
        let signed = fs::read(&file).context("read", &file)?;
        let release = self.release(&signed, &file.display().to_string())?;
        let packages = self.dir.join(PACKAGES);
        let what = packages.display().to_string();
        let (_, listed) = packages_of(&release, &what)?;
        let found = sha256_of(&packages)?;
        if found != listed.sha256 {
            return Err(Error::Hash {
                what,
                expected: listed.sha256,
                found,
            });
        }
        let index = Index::parse(unpack(&packages)?).map_err(|why| Error::Format { what, why })?;
        Ok(self.index.get_or_init(|| (release, index)))
    }

    /// A package by its name.
    pub fn package(&self, name: &str) -> Result<Package, Error> {
        check_name("package", name)?;
        let index = self.index()?;
        let id = index
            .find(name)
            .ok_or_else(|| self.odd(name, "not in the index"))?;
        self.file_of(index, id)
    }

    fn file_of(&self, index: &Index, id: Id) -> Result<Package, Error> {
        index.package(id).ok_or_else(|| {
            self.odd(
                index.name(id),
                "its record lacks Filename, SHA256 or Size, or they are none",
            )
        })
    }

    /// An error of a package.
    pub fn odd(&self, name: &str, what: &str) -> Error {
        Error::Package {
            name: name.to_string(),
            suite: self.suite.clone(),
            what: what.to_string(),
        }
    }

    /// The packages that are installed with `wanted` on an empty system, sorted by name, and the order of the
    /// installation: see [`resolve`].
    pub fn solve(&self, wanted: &[String]) -> Result<(Vec<Package>, Vec<Step>), Error> {
        for name in wanted {
            check_name("package", name)?;
        }
        let index = self.index()?;
        let mut chosen = resolve::solve(index, wanted).map_err(|why| {
            // Packages that are to blame cannot be installed alone, either.
            let alone = |n: &&String| resolve::solve(index, std::slice::from_ref(*n)).is_err();
            let blamed: Vec<&str> = wanted.iter().filter(alone).map(String::as_str).collect();
            if blamed.is_empty() {
                self.odd(
                    &wanted.join(" "),
                    &format!("cannot be installed together: {why}"),
                )
            } else {
                self.odd(&blamed.join(" "), &format!("cannot be installed: {why}"))
            }
        })?;
        chosen.sort_by_key(|&id| index.name(id));
        let order =
            resolve::order(index, &chosen).map_err(|why| self.odd(&wanted.join(" "), &why))?;
        let packages: Result<Vec<Package>, Error> =
            chosen.iter().map(|&id| self.file_of(index, id)).collect();
        Ok((packages?, order))
    }

    /// Fetches a package file of this suite's mirror to `to`, and compares it with its checksum.
    pub fn download(
        &self,
        p: &Package,
        to: &Path,
        doing: &mut dyn FnMut(Doing<'_>),
    ) -> Result<(), Error> {
        let what = format!("{} {}", p.name, p.version);
        if self.settings.offline {
            return Err(Error::Offline { what });
        }
        let listed = Listed {
            size: p.size,
            sha256: p.sha256.clone(),
        };
        let mirror = match &self.settings.mirror {
            Some(mirror) => mirror.clone(),
            None => self.mirror()?,
        };
        let source = self.source(&mirror)?;
        source.file(&p.path, &listed, to, &mut |done| {
            doing(Doing::Fetching {
                what: &what,
                done,
                size: p.size,
            });
        })
    }
}

/// The index of packages that a release names.
fn packages_of(release: &Release, what: &str) -> Result<(String, Listed), Error> {
    let path = format!("main/binary-{ARCHITECTURE}/Packages");
    let packed = |ending: &str| {
        let path = format!("{path}{ending}");
        let listed = release.files.get(&path)?.clone();
        Some((path, listed))
    };
    packed(".xz")
        .or_else(|| packed(".gz"))
        .ok_or_else(|| Error::Format {
            what: what.to_string(),
            why: format!(
                "it names no {path}.xz or .gz: this release is not there for {ARCHITECTURE}"
            ),
        })
}

fn unpack(file: &Path) -> Result<String, Error> {
    let mut packed = File::open(file).context("open", file)?;
    let mut magic = [0; 2];
    packed.read_exact(&mut magic).context("read", file)?;
    packed.rewind().context("read", file)?;
    let reader: Box<dyn Read> = match magic {
        [0x1f, 0x8b] => Box::new(GzDecoder::new(packed)),
        _ => Box::new(XzReader::new(packed, false)),
    };
    let mut bytes = Vec::new();
    reader
        .take(LARGEST)
        .read_to_end(&mut bytes)
        .context("unpack", file)?;
    String::from_utf8(bytes).map_err(|_| Error::Format {
        what: file.display().to_string(),
        why: "it is not UTF-8".into(),
    })
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    let mut f = File::create(&new).context("create", &new)?;
    f.write_all(bytes).context("write", &new)?;
    fs::rename(&new, path).context("write", path)
}

/// Whether a name may become part of a path or an address.
pub fn check_name(what: &'static str, value: &str) -> Result<(), Error> {
    let first = value.bytes().next();
    let ok = first.is_some_and(|b| b.is_ascii_alphanumeric())
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b".+-_".contains(&b));
    if ok {
        Ok(())
    } else {
        Err(Error::BadName {
            what,
            value: value.to_string(),
        })
    }
}

/// Looks whether an address can be that of a mirror.
pub fn check_mirror(uri: &str) -> Result<(), Error> {
    Source::new(uri, &Proxies::none()).map(drop)
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
