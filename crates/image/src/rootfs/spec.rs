//! The specification of a root file system.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A base set of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Base {
    /// Libraries and tools that programs expect; `nagori run` uses it.
    Run,
    /// What [`Base::Run`] has, and systemd, login and what an interactive system needs.
    System,
}

/// Programs and libraries of [`Base::Run`]; their dependencies are added.
const RUN: [&str; 21] = [
    "base-files",
    "base-passwd",
    "bash",
    "bzip2",
    "coreutils",
    "dash",
    "debianutils",
    "diffutils",
    "findutils",
    "grep",
    "gzip",
    "hostname",
    "libc-bin",
    "libgcc-s1",
    "libgomp1",
    "libstdc++6",
    "python3-minimal",
    "sed",
    "sqlite3",
    "tar",
    "xz-utils",
];

/// What [`Base::System`] adds.
const SYSTEM: [&str; 23] = [
    "apt",
    "bsdutils",
    "daxctl",
    "dbus",
    "e2fsprogs",
    "init-system-helpers",
    "iproute2",
    "kmod",
    "libpam-modules",
    "libpam-runtime",
    "login",
    "mount",
    "ncurses-base",
    "ncurses-bin",
    "ndctl",
    "numactl",
    "passwd",
    "perl-base",
    "procps",
    "systemd",
    "systemd-sysv",
    "udev",
    "util-linux",
];

/// The contents of a root file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootfsSpec {
    /// The base.
    pub base: Base,
    /// More packages of Debian; their dependencies are added, recommended packages are not.
    pub packages: Vec<String>,
    /// Free space for the guest, in MiB; the image is sparse, so it costs little.
    pub free_mib: u32,
    /// Scripts that run as root in the machine when all packages are installed.
    #[serde(default)]
    pub provision: Vec<PathBuf>,
    /// A directory that these scripts see.
    #[serde(default)]
    pub files: Option<PathBuf>,
}

impl RootfsSpec {
    /// A base without additions, with 512 MiB of free space.
    pub fn new(base: Base) -> Self {
        RootfsSpec {
            base,
            packages: Vec::new(),
            free_mib: 512,
            provision: Vec::new(),
            files: None,
        }
    }

    /// Whether dpkg installs the packages beyond the base, with their maintainer scripts. The base
    /// `run` lacks what scripts may rely on.
    pub(crate) fn installs(&self) -> bool {
        self.base == Base::System && !self.packages.is_empty()
    }

    /// Whether something has to run in the guest.
    pub fn needs_machine(&self) -> bool {
        self.installs() || !self.provision.is_empty()
    }

    /// All requested packages, sorted.
    pub(crate) fn wanted(&self) -> Vec<String> {
        let system: &[&str] = match self.base {
            Base::Run => &[],
            Base::System => &SYSTEM,
        };
        let mut all: Vec<String> = RUN.iter().chain(system).map(|p| p.to_string()).collect();
        all.extend(self.packages.iter().cloned());
        all.sort();
        all.dedup();
        all
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        // Far below ext4's own limit of a group descriptor table.
        if self.free_mib > 1 << 20 {
            return Err(Error::Rootfs(format!(
                "{} MiB of free space: at most 1048576 (1 TiB)",
                self.free_mib
            )));
        }
        if self.files.is_some() && self.provision.is_empty() {
            return Err(Error::Rootfs(
                "files are for provisioning scripts, and there is none".into(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for list in [&RUN[..], &SYSTEM[..]] {
            assert!(list.is_sorted(), "{list:?}");
        }
        let mut spec = RootfsSpec::new(Base::Run);
        let base = spec.wanted();
        spec.packages = vec!["zstd".into(), "bash".into()];
        assert_eq!(spec.wanted().len(), base.len() + 1);
        spec.base = Base::System;
        assert_eq!(spec.wanted().len(), RUN.len() + SYSTEM.len() + 1);
    }

    #[test]
    fn free_space_has_a_limit() {
        let mut spec = RootfsSpec::new(Base::Run);
        spec.check().unwrap();
        spec.free_mib = u32::MAX;
        assert!(spec.check().unwrap_err().to_string().contains("1 TiB"));
    }
}
