//! Root file systems: built, and found by name.

use super::machine::Installing;
use super::{hint, with_progress};
use crate::caller::Caller;
use crate::error::{Context, Error, Result};
use nagori_image::{list_rootfs, Base, Installer, Options, RootFs, RootfsSpec};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The cached root file system, or a newly built one, with its progress passed on to the caller.
pub fn build(options: &Options, spec: &RootfsSpec, caller: &dyn Caller) -> Result<RootFs> {
    let start = Instant::now();
    let mut worked = false;
    let mut machine = if spec.needs_machine() {
        Some(Installing::new(options, caller)?)
    } else {
        None
    };
    let image = with_progress(caller, |progress| {
        let machine = machine.as_mut().map(|m| m as &mut dyn Installer);
        nagori_image::rootfs(options, spec, machine, &mut |p| {
            worked = true;
            progress(p);
        })
        .map_err(|e| hint(options, e))
        .context("the root file system cannot be built")
    })?;
    if worked {
        let m = &image.manifest;
        caller.note(&format!(
            "built {} in {:.1} s: {} packages, {:.0} MB in {} files",
            image.path.display(),
            start.elapsed().as_secs_f64(),
            m.packages.len(),
            m.content as f64 / 1e6,
            m.entries
        ));
    }
    Ok(image)
}

/// The file of the root file system that `name` denotes: a base, the start of a key, or a file.
pub fn find(options: &Options, name: &str, caller: &dyn Caller) -> Result<PathBuf> {
    if let Some(image) = by_name(options, name, caller)? {
        return Ok(image.path);
    }
    let path = Path::new(name);
    if path.is_file() {
        if is_ext4(path).with_context(|| format!("--rootfs {name}: it cannot be read"))? {
            return Ok(path.to_path_buf());
        } else {
            return Err(Error::Request(format!(
                "--rootfs {name}: it holds no ext4 file system (one made by mke2fs on the whole image, without \
                    partitions)"
            )));
        }
    }
    Err(Error::Request(format!(
        "--rootfs {name}: neither `run` nor `system`, nor the start of one key of `nagori image list`, nor a file"
    )))
}

/// Whether a file begins as an ext4 file system: its magic number is in the superblock.
fn is_ext4(path: &Path) -> std::io::Result<bool> {
    const MAGIC: (u64, [u8; 2]) = (1024 + 56, [0x53, 0xef]);
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(MAGIC.0))?;
    let mut found = [0; 2];
    match file.read_exact(&mut found) {
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| found == MAGIC.1),
    }
}

/// A root file system by its base (built if necessary) or by its key.
pub fn by_name(options: &Options, name: &str, caller: &dyn Caller) -> Result<Option<RootFs>> {
    let base = match name {
        "run" => Some(Base::Run),
        "system" => Some(Base::System),
        _ => None,
    };
    if let Some(base) = base {
        let spec = RootfsSpec::new(base);
        return build(options, &spec, caller).map(Some);
    }
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let mut found = list_rootfs(options)?;
    found.retain(|r| r.manifest.key.starts_with(name));
    match found.len() {
        0 => Ok(None),
        1 => Ok(found.pop()),
        n => Err(Error::Request(format!(
            "{n} root file systems have a key that starts with {name}: give more digits"
        ))),
    }
}

/// As [`by_name`], if the name cannot denote anything else.
pub fn named(options: &Options, name: &str, caller: &dyn Caller) -> Result<RootFs> {
    by_name(options, name, caller)?.ok_or_else(|| {
        Error::Request(format!("no root file system `{name}`: give run, system, or the start of a key of `nagori image \
            list`"))
    })
}
