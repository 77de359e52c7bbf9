//! What can be said about images on this host without building one.

use crate::builder::{self, cache_dir};
use crate::error::IoContext;
use crate::kmod;
use crate::rootfs::{list_rootfs, Base};
use crate::store::Store;
use crate::{Error, Options};
use std::path::PathBuf;

/// The state of what images need.
#[derive(Debug)]
pub struct Health {
    /// The cache directory, or why it cannot be used.
    pub cache: Result<PathBuf, Error>,
    /// Why nothing can be written there, if so.
    pub read_only: Option<String>,
    /// Whether a guest image with these options is cached.
    pub image: bool,
    /// Whether the root file system of `nagori run` is.
    pub run: bool,
    /// The address of a release file that is accepted, or why there is none.
    pub mirror: Result<String, Error>,
    /// Why kernel modules of ours cannot be compiled, if so.
    pub compiler: Result<(), Error>,
}

/// Looks at the cache directory, asks the mirror, and looks for a compiler. Nothing is written that stays, but for the
/// cache directory itself.
pub fn health(options: &Options) -> Health {
    let cache = cache_dir(&options.cache_dir);
    let (mut read_only, mut image, mut run) = (None, false, false);
    if let Ok(dir) = &cache {
        let probe = tempfile::tempfile_in(dir);
        read_only = probe.err().map(|e| e.to_string());
        image = builder::cached(dir, options).is_some();
        let found = list_rootfs(options).unwrap_or_default();
        run = found
            .iter()
            .any(|r| r.manifest.spec.base == Base::Run && !r.manifest.spec.needs_machine());
    }
    Health {
        cache,
        read_only,
        image,
        run,
        mirror: probe(options),
        compiler: kmod::compiler(),
    }
}

/// Only the release file is looked at, so nothing of it goes to the cache.
fn probe(options: &Options) -> Result<String, Error> {
    let aside = tempfile::tempdir().context("create a directory in", std::env::temp_dir())?;
    let store = Store::open(aside.path(), aside.path().join("packages"), options)?;
    Ok(store.archive.probe()?)
}
