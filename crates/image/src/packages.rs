//! Files of further packages, for guests that run one program of Debian without a root file system of their own.

use crate::builder::{cache_dir, lock};
use crate::store::Store;
use crate::{Error, Options, Progress};
use std::collections::BTreeMap;

/// The regular files of packages of the guest's Debian, by their paths without a leading slash, as far as `wanted`
/// says; packages are downloaded if they are not in the cache. Dependencies have to be named, too, and symbolic links
/// are left out.
pub fn package_files(
    options: &Options,
    packages: &[&str],
    wanted: impl Fn(&str) -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let dir = cache_dir(&options.cache_dir)?;
    let _lock = lock(&dir, progress)?;
    let mut store = Store::open(&dir, dir.join("packages"), options)?;
    store.ask(false, progress)?;
    let mut all = BTreeMap::new();
    for name in packages {
        let package = store.archive.package(name)?;
        all.extend(store.unpack(&package, progress, &wanted)?);
    }
    Ok(all)
}
