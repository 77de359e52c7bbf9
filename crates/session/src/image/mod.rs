//! The guest's images: where they are cached, and how they are built on first use.

mod machine;
pub mod rootfs;

use crate::caller::{outside, Caller, Step};
use crate::error::{Context, Error, Result};
use nagori_image::{GuestImage, Options, Progress, RootFs};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Where images come from, and where they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Where images and boots are cached; `None`: where the environment says.
    pub cache: Option<PathBuf>,
    /// Bytes that cached boots may take; `None`: a default.
    pub boots_limit: Option<u64>,
    /// A Debian mirror; `None`: that of the environment, else of the host's apt.
    pub mirror: Option<String>,
    /// Fetch nothing: what is not in the cache is an error.
    pub offline: bool,
}

impl Source {
    /// What is to be built, with the default modules.
    pub fn options(&self) -> Result<Options> {
        let mut options = options(self.cache.as_deref())?;
        if self.mirror.is_some() {
            options.mirror.clone_from(&self.mirror);
        }
        options.boots_limit = self.boots_limit;
        options.offline = self.offline;
        Ok(options)
    }
}

/// Where images are cached: in a directory, or where the environment says (`NAGORI_CACHE`, else
/// ~/.cache/nagori).
pub fn options(cache: Option<&Path>) -> Result<Options> {
    let mut options = match cache {
        Some(dir) => {
            let mut o = Options::new(dir);
            o.mirror = std::env::var("NAGORI_MIRROR")
                .ok()
                .filter(|m| !m.is_empty());
            o
        }
        None => Options::from_env()?,
    };
    // Made absolute, so that it does not depend on a later change of directory.
    options.cache_dir = std::path::absolute(&options.cache_dir)
        .with_context(|| format!("cannot use the cache directory {:?}", options.cache_dir))?;
    Ok(options)
}

/// The cached image, or a newly built one.
pub fn build(options: &Options, caller: &dyn Caller) -> Result<GuestImage> {
    with_progress(caller, |progress| {
        nagori_image::build(options, progress).map_err(|e| hint(options, e)).context(
            "the guest image cannot be built (`nagori boot` takes --kernel, --firmware and --initrd instead)",
        )
    })
}

/// The files of packages of the guest's Debian: see [`nagori_image::package_files`].
pub fn package_files(
    options: &Options,
    packages: &[&str],
    wanted: impl Fn(&str) -> bool,
    caller: &dyn Caller,
) -> Result<BTreeMap<String, Vec<u8>>> {
    with_progress(caller, |progress| {
        nagori_image::package_files(options, packages, wanted, progress)
            .with_context(|| format!("the packages {} cannot be had", packages.join(", ")))
    })
}

/// Writes a guest image and root file systems to one file: see [`nagori_image::export`].
pub fn export(
    options: &Options,
    image: &GuestImage,
    roots: &[RootFs],
    to: &mut dyn Write,
    caller: &dyn Caller,
) -> Result<()> {
    with_progress(caller, |progress| {
        nagori_image::export(options, image, roots, to, progress).map_err(|e| hint(options, e))
    })
}

/// Takes over the images of such a file: see [`nagori_image::import`].
pub fn import(options: &Options, from: &mut dyn Read, caller: &dyn Caller) -> Result<Vec<PathBuf>> {
    with_progress(caller, |progress| {
        nagori_image::import(options, from, progress).map_err(|e| hint(options, e))
    })
}

/// Adds a remedy to the error of a cache that cannot be written.
fn hint(options: &Options, e: nagori_image::Error) -> Error {
    let unwritable = match &e {
        nagori_image::Error::Io { source, .. } => cannot_write(source),
        _ => false,
    };
    if unwritable {
        Error::Unwritable {
            dir: options.cache_dir.clone(),
            source: Box::new(e.into()),
        }
    } else {
        e.into()
    }
}

/// Whether a failure means that a place cannot be written at all.
pub(crate) fn cannot_write(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(e.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Passes the progress of `work` on to the caller. A signal ends the work at once; nothing half-made is left that could
/// be taken for an image.
fn with_progress<T>(
    caller: &dyn Caller,
    work: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<T>,
) -> Result<T> {
    let mut say = |p: Progress| caller.progress(Step::Image(&p));
    let result = outside(caller, || work(&mut say));
    caller.progress(Step::Done);
    result
}
