//! The record of what an image is made of, written beside it.

use nagori_debian::Package;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The contents of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Hash of everything the image is made from; also the name of its directory.
    pub key: String,
    /// Version of the program that built it.
    pub builder: String,
    /// Debian's release from which the packages are.
    pub suite: String,
    /// Midnight after the mirror signed the index from which the packages were chosen, in seconds
    /// since 1970: the initial time of the guest's clock, unless another is chosen.
    pub date: u64,
    /// The packages, compared with the checksums of the signed index.
    pub packages: Vec<Package>,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel_release: String,
    /// The cross compiler our programs were compiled with.
    pub compiler: String,
    /// Modules in the initrd, each after those that it needs.
    pub modules: Vec<String>,
    /// Our programs in the initrd's /bin.
    pub programs: Vec<String>,
    /// Kernel arguments that shorten the boot without changing what a program can see.
    pub fast_boot_args: String,
    /// The kernel: a raw `Image`.
    pub kernel: Output,
    /// OpenSBI's fw_dynamic.
    pub firmware: Output,
    /// The first root file system: an uncompressed newc archive.
    pub initrd: Output,
}

/// One of the files of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Its name in the image's directory.
    pub file: String,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
}

impl Output {
    pub(crate) fn of(file: &str, bytes: &[u8]) -> Self {
        Output {
            file: file.to_string(),
            sha256: sha256(bytes),
            size: bytes.len() as u64,
        }
    }
}

/// SHA-256 in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hash() {
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
