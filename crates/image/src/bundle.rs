//! Images in one file, for machines without a network: a tar archive, compressed by zstd, of what the cache directory
//! holds of them, under the same names.

use crate::builder::{cache_dir, lock, sweep, RESOLVED};
use crate::error::IoContext;
use crate::manifest::{Manifest, Output};
use crate::rootfs::{self, RootFs, RootfsManifest};
use crate::store::say;
use crate::{Error, GuestImage, Options, Progress, Stage};
use nagori_debian::sha256_of;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";
/// How hard zstd tries: images are compressed in seconds.
const LEVEL: i32 = 3;
/// Most bytes of a file that is no image.
const SMALL: u64 = 64 << 20;

/// Writes a guest image and root file systems to `to`.
pub fn export(
    options: &Options,
    image: &GuestImage,
    roots: &[RootFs],
    to: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let dir = cache_dir(&options.cache_dir)?;
    let broken = |e: io::Error| bad(&format!("cannot be written: {e}"));
    let mut tar = tar::Builder::new(zstd::Encoder::new(to, LEVEL).map_err(broken)?);
    let mut put = |name: &str| -> Result<(), Error> {
        say(progress, Stage::Write, name);
        let path = dir.join(name);
        let mut file = File::open(&path).context("open", &path)?;
        let mut head = tar::Header::new_ustar();
        head.set_size(file.metadata().context("read", &path)?.len());
        head.set_mode(0o644);
        tar.append_data(&mut head, name, &mut file).map_err(broken)
    };
    let key = &image.manifest.key;
    let m = &image.manifest;
    for o in [&m.kernel, &m.firmware, &m.initrd] {
        put(&format!("images/{key}/{}", o.file))?;
    }
    put(&format!("images/{key}/{MANIFEST}"))?;
    for root in roots {
        let m = &root.manifest;
        put(&format!("rootfs/images/{}/{}", m.key, m.image.file))?;
        put(&format!("rootfs/images/{}/{MANIFEST}", m.key))?;
        put(&format!(
            "rootfs/resolved/{}",
            rootfs::resolved_name(&m.suite, &m.spec)
        ))?;
    }
    put(RESOLVED)?;
    let encoder = tar.into_inner().map_err(broken)?;
    encoder.finish().map_err(broken)?.flush().map_err(broken)
}

/// Takes over what a file of [`export`] holds, after comparing it with its manifests; returns the directories of the
/// images. Who has made the file is not verified.
pub fn import(
    options: &Options,
    from: &mut dyn Read,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<PathBuf>, Error> {
    let dir = cache_dir(&options.cache_dir)?;
    let _lock = lock(&dir, progress)?;
    sweep(&dir, "import")?;
    let work = tempfile::Builder::new()
        .prefix("import")
        .tempdir_in(&dir)
        .context("create a directory in", &dir)?;
    let broken = |e: io::Error| bad(&format!("cannot be read: {e}"));
    let mut tar = tar::Archive::new(zstd::Decoder::new(from).map_err(broken)?);
    let mut small = Vec::new();
    let mut images = Vec::new();
    for entry in tar.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if !is_known(&name) || !entry.header().entry_type().is_file() {
            return Err(bad(&format!(
                "holds `{}`, which is no part of an image",
                name.escape_debug()
            )));
        }
        say(progress, Stage::Unpack, name.as_str());
        let path = work.path().join(&name);
        let parent = path.parent().unwrap_or(&path);
        fs::create_dir_all(parent).context("create", parent)?;
        write_sparse(&mut entry, &path).map_err(broken)?;
        match name.strip_suffix(&format!("/{MANIFEST}")) {
            Some(image) => images.push(image.to_string()),
            None if name.ends_with(".json") => small.push(name),
            None => {}
        }
    }
    if images.is_empty() {
        return Err(bad("holds no image"));
    }
    for image in &images {
        say(progress, Stage::Wait, format!("the checksums of {image}"));
        check(&work.path().join(image))?;
    }
    let mut found = Vec::new();
    for image in images {
        let (new, place) = (work.path().join(&image), dir.join(&image));
        let parent = place.parent().unwrap_or(&dir);
        fs::create_dir_all(parent).context("create", parent)?;
        if place.exists() {
            fs::remove_dir_all(&place).context("remove", &place)?;
        }
        fs::rename(&new, &place).context("move the image to", &place)?;
        found.push(place);
    }
    // By these the images are found, so they are last.
    for name in small {
        let place = dir.join(&name);
        let parent = place.parent().unwrap_or(&dir);
        fs::create_dir_all(parent).context("create", parent)?;
        fs::rename(work.path().join(&name), &place).context("move a file to", &place)?;
    }
    Ok(found)
}

fn bad(why: &str) -> Error {
    Error::Bundle(why.to_string())
}

/// Whether a name of the archive is one that [`export`] writes. So nothing in it leads out of the cache directory.
fn is_known(name: &str) -> bool {
    let key = |k: &str| k.len() == 32 && k.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [file] => file == RESOLVED,
        ["images", k, file] => {
            key(k) && ["Image", "fw_dynamic.bin", "initrd.cpio", MANIFEST].contains(&file)
        }
        ["rootfs", "images", k, file] => key(k) && ["rootfs.ext4", MANIFEST].contains(&file),
        ["rootfs", "resolved", file] => file.strip_suffix(".json").is_some_and(key),
        _ => false,
    }
}

/// Compares the files of an image with its manifest.
fn check(dir: &Path) -> Result<(), Error> {
    let file = dir.join(MANIFEST);
    if fs::metadata(&file).context("read", &file)?.len() > SMALL {
        return Err(bad("holds a manifest that is none"));
    }
    let text = fs::read(&file).context("read", &file)?;
    let name = dir
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let image = serde_json::from_slice::<Manifest>(&text)
        .map(|m| (m.key, vec![m.kernel, m.firmware, m.initrd]));
    let root = serde_json::from_slice::<RootfsManifest>(&text).map(|m| (m.key, vec![m.image]));
    let (key, outputs): (String, Vec<Output>) = image
        .or(root)
        .map_err(|_| bad("is of another version of Nagori: its manifests cannot be read"))?;
    if key != name {
        return Err(bad(&format!(
            "holds image {name} with the manifest of {key}"
        )));
    }
    for o in outputs {
        let path = dir.join(&o.file);
        let known = Path::new(&o.file).components().count() == 1 && path.is_file();
        if !known || sha256_of(&path)? != o.sha256 {
            return Err(bad(&format!(
                "is damaged: {} of image {key} is not what its manifest says",
                o.file
            )));
        }
    }
    Ok(())
}

/// Writes a file, with holes where there are zeros.
fn write_sparse(from: &mut dyn Read, to: &Path) -> io::Result<()> {
    let mut file = File::create(to)?;
    let mut buffer = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        if buffer[..n].iter().any(|b| *b != 0) {
            file.seek(SeekFrom::Start(length))?;
            file.write_all(&buffer[..n])?;
        }
        length += n as u64;
    }
    file.set_len(length)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::sha256;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    /// A cache with an image, which is no real one.
    fn cache(dir: &Path) -> (Options, GuestImage) {
        let place = dir.join("images").join(KEY);
        fs::create_dir_all(&place).unwrap();
        let output = |file: &str| {
            fs::write(place.join(file), file).unwrap();
            Output::of(file, file.as_bytes())
        };
        let manifest = Manifest {
            key: KEY.into(),
            builder: "b".into(),
            date: 0,
            suite: "trixie".into(),
            packages: Vec::new(),
            kernel_release: "6".into(),
            compiler: "c".into(),
            modules: vec![],
            programs: vec![],
            fast_boot_args: String::new(),
            kernel: output("Image"),
            firmware: output("fw_dynamic.bin"),
            initrd: output("initrd.cpio"),
        };
        fs::write(place.join(MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
        fs::write(dir.join(RESOLVED), "{}").unwrap();
        let image = GuestImage {
            kernel: place.join("Image"),
            firmware: place.join("fw_dynamic.bin"),
            initrd: place.join("initrd.cpio"),
            manifest,
        };
        (Options::new(dir), image)
    }

    fn packed(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
        for (name, bytes) in entries {
            let mut h = tar::Header::new_gnu();
            h.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            h.set_size(bytes.len() as u64);
            h.set_cksum();
            tar.append(&h, *bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn there_and_back() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (options, image) = cache(here.path());
        let mut file = Vec::new();
        export(&options, &image, &[], &mut file, &mut |_| {}).unwrap();
        let other = Options::new(there.path());
        let found = import(&other, &mut &file[..], &mut |_| {}).unwrap();
        assert_eq!(found.len(), 1);
        for name in ["Image", "initrd.cpio", MANIFEST] {
            let of = |d: &Path| fs::read(d.join("images").join(KEY).join(name)).unwrap();
            assert_eq!(of(here.path()), of(there.path()), "{name}");
        }
        assert!(there.path().join(RESOLVED).exists());
        // Again, over what is there; and cut off, which changes nothing.
        import(&other, &mut &file[..], &mut |_| {}).unwrap();
        let e = import(&other, &mut &file[..file.len() / 2], &mut |_| {}).unwrap_err();
        assert!(e.to_string().contains("cannot be read"), "{e}");
        assert!(there.path().join("images").join(KEY).join("Image").exists());
    }

    #[test]
    fn what_is_no_export_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (options, image) = cache(&dir.path().join("from"));
        let m = serde_json::to_vec(&image.manifest).unwrap();
        let at = |file: &str| format!("images/{KEY}/{file}");
        let other = at(MANIFEST).replace("0123", "3210");
        for (entries, why) in [
            (vec![("../x", &b"x"[..])], "no part of an image"),
            (vec![("images/../../x", b"x")], "no part of an image"),
            (vec![("/etc/passwd", b"x")], "no part of an image"),
            (vec![], "no image"),
            (vec![(RESOLVED, b"{}")], "no image"),
            (vec![(at(MANIFEST).as_str(), b"{}")], "another version"),
            (
                vec![(at(MANIFEST).as_str(), &m[..])],
                "is not what its manifest says",
            ),
            (vec![(other.as_str(), &m[..])], "with the manifest of"),
        ] {
            let into = Options::new(dir.path().join("to"));
            let e = import(&into, &mut &packed(&entries)[..], &mut |_| {})
                .unwrap_err()
                .to_string();
            assert!(e.contains(why), "{e} should say {why}");
            assert!(!into.cache_dir.join("images").exists());
        }
        let e = import(&options, &mut &b"no archive"[..], &mut |_| {}).unwrap_err();
        assert!(e.to_string().contains("cannot be read"), "{e}");
        assert_eq!(sha256(b"Image"), image.manifest.kernel.sha256);
    }

    #[test]
    fn zeros_are_holes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes = [vec![0; 1 << 20], vec![1; 100], vec![0; 1 << 20]].concat();
        write_sparse(&mut &bytes[..], file.path()).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), bytes);
        let blocks = std::os::unix::fs::MetadataExt::blocks(&file.path().metadata().unwrap());
        assert!(blocks * 512 < 1 << 19, "{blocks}");
    }
}
