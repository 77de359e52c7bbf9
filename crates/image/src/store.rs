//! Debian's archive for a cache directory, and the package files that were fetched from it.

use crate::error::IoContext;
use crate::{Error, Options, Progress, Stage};
use nagori_debian::{deb, sha256_of, Archive, Doing, Package, Settings};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Seconds of a day.
const DAY: u64 = 86_400;

/// The archive, and where packages are kept by their checksums.
pub(crate) struct Store {
    pub archive: Archive,
    packages: PathBuf,
    suite: String,
    /// Whether the mirror was asked by this process.
    fresh: bool,
}

impl Store {
    /// For a cache directory. Packages are kept in `packages`, which is created. Nothing is fetched yet.
    pub fn open(cache: &Path, packages: PathBuf, options: &Options) -> Result<Store, Error> {
        let settings = Settings {
            mirror: options.mirror.clone(),
            offline: options.offline,
            ..Settings::of_this_host()
        };
        fs::create_dir_all(&packages).context("create", &packages)?;
        Ok(Store {
            archive: Archive::new(&cache.join("archive"), &options.suite, settings)?,
            packages,
            suite: options.suite.clone(),
            fresh: false,
        })
    }

    /// Asks the mirror for its index, if there is none or a newer one is wanted.
    pub fn ask(&mut self, refresh: bool, progress: &mut dyn FnMut(Progress)) -> Result<(), Error> {
        if self.fresh || (self.archive.has_index() && !refresh) {
            return Ok(());
        }
        say(progress, Stage::Index, format!("Debian {}", self.suite));
        self.archive.update(&mut |doing| tell(doing, progress))?;
        self.fresh = true;
        Ok(())
    }

    /// Midnight after the release was made, in seconds since 1970.
    pub fn date(&self) -> Result<u64, Error> {
        Ok((self.archive.date()? / DAY + 1) * DAY)
    }

    /// Where a package's file is, or would be.
    pub fn file(&self, p: &Package) -> PathBuf {
        self.packages.join(format!("{}.deb", p.sha256))
    }

    /// Fetches a package unless it is there; returns its file.
    pub fn fetch(
        &mut self,
        p: &Package,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<PathBuf, Error> {
        let file = self.file(p);
        if file.exists() && sha256_of(&file)? == p.sha256 {
            return Ok(file);
        }
        let mut p = p.clone();
        if p.path.is_empty() {
            p = self.again(&p, progress)?;
        }
        let get = |s: &Store, p: &Package, progress: &mut dyn FnMut(Progress)| {
            tell(
                Doing::Fetching {
                    what: &format!("{} {}", p.name, p.version),
                    done: 0,
                    size: p.size,
                },
                progress,
            );
            s.archive
                .download(p, &file, &mut |doing| tell(doing, progress))
        };
        match get(self, &p, progress) {
            // An old index names versions that the mirror no longer has, or has elsewhere.
            Err(nagori_debian::Error::Status { .. } | nagori_debian::Error::Io { .. })
                if !self.fresh =>
            {
                self.ask(true, progress)?;
                let p = self.again(&p, progress)?;
                get(self, &p, progress)?;
            }
            other => other?,
        }
        Ok(file)
    }

    /// The package as the index has it now. An error if that is another file.
    fn again(&mut self, p: &Package, progress: &mut dyn FnMut(Progress)) -> Result<Package, Error> {
        self.ask(false, progress)?;
        let now = self.archive.package(&p.name)?;
        if now.sha256 == p.sha256 {
            Ok(now)
        } else {
            Err(self
                .archive
                .odd(
                    &p.name,
                    &format!(
                        "the mirror no longer has {}, it has {}: `nagori image build --refresh` takes newer packages",
                        p.version, now.version
                    ),
                )
                .into())
        }
    }

    /// Reads files out of a package, after comparing it with its checksum.
    pub fn unpack(
        &mut self,
        p: &Package,
        progress: &mut dyn FnMut(Progress),
        wanted: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let file = self.fetch(p, progress)?;
        say(progress, Stage::Unpack, format!("{} {}", p.name, p.version));
        Ok(deb::files(&file, deb::Part::Files, wanted)?)
    }
}

fn tell(doing: Doing<'_>, progress: &mut dyn FnMut(Progress)) {
    match doing {
        Doing::Asking(address) => say(progress, Stage::Index, address),
        Doing::Fetching { what, done, size } => {
            let mb = |bytes: u64| bytes as f64 / 1e6;
            let text = match done {
                0 => format!("{what} ({:.1} MB)", mb(size)),
                _ => format!("{what} ({:.0} of {:.0} MB)", mb(done), mb(size)),
            };
            progress(Progress {
                stage: Stage::Download,
                detail: text,
                again: done > 0,
            });
        }
    }
}

/// Reports a step.
pub(crate) fn say(progress: &mut dyn FnMut(Progress), stage: Stage, detail: impl Into<String>) {
    progress(Progress {
        stage,
        detail: detail.into(),
        again: false,
    });
}
