//! Files of further packages, for guests that run one program of Debian without a root file system of their own.

use crate::apt::Apt;
use crate::builder::{cache_dir, fetch, lock};
use crate::{deb, Error, Options, Progress, Stage};
use std::collections::BTreeMap;

/// The regular files of packages of the guest's Debian, by their paths without a leading slash, as far as `wanted` says; packages are
/// downloaded if they are not in the cache. Dependencies have to be named, too, and symbolic links are left out.
pub fn package_files(
    options: &Options,
    packages: &[&str],
    wanted: impl Fn(&str) -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let dir = cache_dir(&options.cache_dir)?;
    let _lock = lock(&dir, progress)?;
    let apt = Apt::new(&dir.join("apt"), &options.suite)?;
    if !apt.has_index() {
        progress(Progress {
            stage: Stage::Index,
            detail: format!("Debian {}", options.suite),
        });
        apt.update(options.mirror.as_deref())?;
    }
    let mut all = BTreeMap::new();
    for name in packages {
        let package = apt.package(name)?;
        let file = fetch(&dir, &apt, &package, progress)?;
        let files = deb::files(&file, deb::Part::Files, &wanted)?;
        let plain = |(path, bytes): (String, _)| (path.trim_start_matches("./").to_string(), bytes);
        all.extend(files.into_iter().map(plain));
    }
    Ok(all)
}
