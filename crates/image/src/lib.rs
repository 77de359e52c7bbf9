//! The guest image: Debian's own riscv64 kernel, OpenSBI and busybox, from a mirror of Debian's archive (whose
//! signature and checksums are verified), and our guest programs, which were compiled when this crate was. No program
//! of the host is needed, but for kernel modules of our own, and these are only made if they are asked for.
//!
//! Images are cached under a hash of everything that they are made of. A second [`build`] neither
//! uses the network nor writes anything; [`Options::refresh`] asks the mirror for newer packages.
//!
//! ```no_run
//! let options = nagori_image::Options::from_env()?;
//! let image = nagori_image::build(&options, &mut |p| eprintln!("{p}"))?;
//! println!("{} {}", image.kernel.display(), image.manifest.kernel_release);
//! # Ok::<(), nagori_image::Error>(())
//! ```
//!
//! The cache directory holds `archive/` (the mirror's index), `packages/` (the .deb files, by
//! their checksum), `resolved.json` (which packages were chosen last) and `images/KEY/`.

mod archive;
mod builder;
mod bundle;
mod error;
mod guest;
mod health;
mod kernel;
mod kmod;
mod manifest;
mod modules;
mod packages;
mod rootfs;
mod store;
mod tool;

pub use archive::overlay_cpio;
pub use builder::build;
pub use bundle::{export, import};
pub use error::Error;
pub use health::{health, Health};
pub use manifest::{Manifest, Output};
pub use modules::DEFAULT_MODULES;
pub use nagori_debian::Package;
pub use packages::package_files;
pub use rootfs::{
    list_rootfs, rootfs, rootfs_at, Base, Installer, RootFs, RootfsManifest, RootfsSpec, Work,
};

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Work that Debian's 6.12 kernel does at boot and that only costs time in an emulator: self-tests
/// of ciphers and of the entropy source, certificates for module signatures, names for formats of
/// trace events, BPF interfaces of TCP. With these arguments one hart goes from reset through a short
/// command to power-off in 304 instead of 1067 million instructions.
const FAST_BOOT_ARGS: &str = "cryptomgr.notests=1 \
    initcall_blacklist=jent_mod_init,load_system_certificate_list,trace_eval_init,\
    init_kprobe_trace,bpf_tcp_ca_kfunc_init,bpf_dummy_struct_ops_init,\
    check_unaligned_access_all_cpus";

/// What to build, and where to keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where downloads and images are kept; created if absent.
    pub cache_dir: PathBuf,
    /// Bytes that boots which are kept there may take; otherwise a default.
    pub boots_limit: Option<u64>,
    /// A Debian mirror's URI; otherwise the one the host's package configuration uses.
    pub mirror: Option<String>,
    /// Debian's release, by its code name.
    pub suite: String,
    /// Kernel modules to have in the initrd, without those they depend on.
    pub modules: Vec<String>,
    /// Further modules, which the guest loads when it starts and also has in its root file system.
    pub more_modules: Vec<String>,
    /// Ask the mirror for newer packages, even if the image is cached.
    pub refresh: bool,
    /// Fetch nothing: what is not in the cache is an error.
    pub offline: bool,
}

impl Options {
    /// The defaults, with their data in `cache_dir`.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Options {
            cache_dir: cache_dir.into(),
            boots_limit: None,
            mirror: None,
            suite: "trixie".into(),
            modules: DEFAULT_MODULES.map(String::from).to_vec(),
            more_modules: Vec::new(),
            refresh: false,
            offline: false,
        }
    }

    /// Adds modules to the guest's kernel, which loads them; a name may have `-` for `_`.
    pub fn add_modules<S: AsRef<str>>(&mut self, names: impl IntoIterator<Item = S>) {
        let names = names
            .into_iter()
            .map(|n| n.as_ref().trim().replace('-', "_"));
        self.more_modules.extend(names.filter(|n| !n.is_empty()));
        self.more_modules.sort();
        self.more_modules.dedup();
    }

    /// The defaults, changed by the environment: `NAGORI_CACHE` (else `XDG_CACHE_HOME/nagori`,
    /// else `HOME/.cache/nagori`) and `NAGORI_MIRROR`.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_vars(|name| std::env::var_os(name).filter(|v| !v.is_empty()))
    }

    fn from_vars(var: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let absolute = |name| var(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let cache_dir = var("NAGORI_CACHE")
            .map(PathBuf::from)
            // The XDG specification requires that relative paths are ignored.
            .or_else(|| absolute("XDG_CACHE_HOME").map(|d| d.join("nagori")))
            .or_else(|| absolute("HOME").map(|d| d.join(".cache/nagori")))
            .ok_or(Error::NoCacheDir)?;
        let mut options = Self::new(cache_dir);
        options.mirror = match var("NAGORI_MIRROR") {
            None => None,
            Some(v) => Some(
                v.into_string()
                    .map_err(|v| nagori_debian::Error::BadMirror {
                        uri: v.to_string_lossy().into_owned(),
                        why: "it is not valid UTF-8".into(),
                    })?,
            ),
        };
        Ok(options)
    }
}

/// The files of an image; they are never changed once they exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestImage {
    /// Debian's kernel: a raw, uncompressed `Image`.
    pub kernel: PathBuf,
    /// OpenSBI's `fw_dynamic.bin`.
    pub firmware: PathBuf,
    /// The first root file system; further archives (see [`overlay_cpio`]) can be appended.
    pub initrd: PathBuf,
    /// The record of what they are made of.
    pub manifest: Manifest,
}

/// The current step of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Waiting for another build in the same cache directory.
    Wait,
    /// Asking the mirror which packages there are.
    Index,
    /// Fetching a package.
    Download,
    /// Reading a package.
    Unpack,
    /// Compiling a guest program.
    Compile,
    /// Writing the image.
    Write,
    /// Installing in the machine.
    Install,
}

/// A progress message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The step.
    pub stage: Stage,
    /// Its object: a package, a program, a file.
    pub detail: String,
    /// Whether this is the same step as before, further on: where messages stay, one is enough.
    pub again: bool,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.stage {
            Stage::Wait => "waiting for another build in",
            Stage::Index => "reading the package index of",
            Stage::Download => "downloading",
            Stage::Unpack => "unpacking",
            Stage::Compile => "compiling",
            Stage::Write => "writing",
            Stage::Install => "in the machine:",
        };
        write!(f, "{verb} {}", self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(vars: &[(&str, &str)]) -> Result<Options, Error> {
        Options::from_vars(|n| {
            vars.iter()
                .find(|(k, _)| *k == n)
                .map(|(_, v)| OsString::from(v))
        })
    }

    #[test]
    fn cache_directory() {
        let dir = |vars| options(vars).unwrap().cache_dir;
        assert_eq!(
            dir(&[("HOME", "/home/a")]),
            PathBuf::from("/home/a/.cache/nagori")
        );
        assert_eq!(
            dir(&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "/x")]),
            PathBuf::from("/x/nagori")
        );
        assert_eq!(
            dir(&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "x")]),
            PathBuf::from("/home/a/.cache/nagori")
        );
        assert_eq!(
            dir(&[("NAGORI_CACHE", "rel"), ("XDG_CACHE_HOME", "/x")]),
            PathBuf::from("rel")
        );
        let e = options(&[]).unwrap_err().to_string();
        assert!(e.contains("set XDG_CACHE_HOME or HOME"), "{e}");
    }

    #[test]
    fn mirror_from_the_environment() {
        let o = options(&[("HOME", "/h"), ("NAGORI_MIRROR", "http://m.example/debian")]).unwrap();
        assert_eq!(o.mirror.as_deref(), Some("http://m.example/debian"));
    }

    #[test]
    fn progress_reads_well() {
        let p = Progress {
            stage: Stage::Download,
            detail: "opensbi 1.6-1".into(),
            again: false,
        };
        assert_eq!(p.to_string(), "downloading opensbi 1.6-1");
    }
}
