//! Arguments of `nagori image`.

use clap::{Args, Subcommand, ValueEnum};
use nagori_image::{Base, RootfsSpec};
use nagori_terminal::args::{CacheArgs, ModulesArgs};
use nagori_terminal::numbers::in_units;
use std::path::PathBuf;

const BUILD_EXAMPLES: &str = "\
Examples:
  nagori image build
      Kernel, firmware and initial root file system, for `nagori boot`
  nagori image build --modules xfs
      As before, with the kernel's XFS; `nagori boot --modules xfs` takes it
  nagori image build --base run
      The root file system that `nagori run` takes its libraries from
  nagori image build --base system --packages redis-server,sysbench
      Debian with systemd, and two packages more; `nagori image list` tells its key
  nagori image build --base system --packages openssh-server --provision ./setup.sh
      As before, with a script of yours, which may set passwords, put keys in place, make users
  nagori image build --refresh --mirror http://mirror.example/debian
  qemu-system-riscv64 -M virt -kernel $(nagori image path | awk '/^kernel/ {print $2}') ...

Bases:
  run     libraries and tools that programs expect: libc6, libstdc++6, libgcc-s1, libgomp1,
          bash, coreutils, python3-minimal, sqlite3, tar, xz-utils and others
  system  the same, and systemd, udev, dbus, login, apt, procps, iproute2, e2fsprogs, ndctl, daxctl,
          numactl

More packages of `system` are installed by dpkg in the machine, with their maintainer scripts:
services have their users, keys and data, and systemd starts them.
More packages of `run` are only unpacked.

Time:
  The first image downloads 120 MiB and then takes about 10 s on two cores, `--base run` 24 MiB
  and as long. What is cached takes none.";

/// Build, list and check the guest's images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Build the guest image, or a root file system, if it is not cached.
    ///
    /// Without --base and --packages: Debian's kernel, OpenSBI and busybox for riscv64, from a mirror
    /// of Debian's archive and verified by its signature, and our guest programs. With them: an ext4
    /// image of Debian's packages. Neither needs root, or other programs of this host.
    #[command(after_long_help = BUILD_EXAMPLES)]
    Build {
        /// Ask the mirror for newer packages, even if an image is cached.
        #[arg(long)]
        refresh: bool,
        /// One JSON object: paths, packages, checksums.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        rootfs: RootfsArgs,
        #[command(flatten)]
        modules: ModulesArgs,
        #[command(flatten)]
        cache: CacheArgs,
    },
    /// Print where the image's files are; it is built first if it is not cached.
    ///
    /// Example: qemu-img info $(nagori image path --base run)
    Path {
        /// One JSON object: paths, packages, checksums.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        rootfs: RootfsArgs,
        #[command(flatten)]
        modules: ModulesArgs,
        #[command(flatten)]
        cache: CacheArgs,
    },
    /// List the root file systems in the cache, newest first.
    ///
    /// Example: nagori image list
    List {
        #[command(flatten)]
        cache: CacheArgs,
        /// A list of manifests.
        #[arg(long)]
        json: bool,
    },
    /// Show what a root file system is made of.
    ///
    /// Example: nagori image show run
    Show {
        /// `run`, `system`, or the start of a key of `nagori image list`.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        cache: CacheArgs,
        /// The manifest.
        #[arg(long)]
        json: bool,
    },
    /// Write the guest image and a root file system to one file, for machines without a network.
    ///
    /// What is not cached is built first. `-` is standard output.
    ///
    /// Example: nagori image export images.tar.zst; nagori image export --base system images.tar.zst
    Export {
        /// The file; a tar archive, compressed by zstd.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        rootfs: RootfsArgs,
        #[command(flatten)]
        modules: ModulesArgs,
        #[command(flatten)]
        cache: CacheArgs,
    },
    /// Take over the images of a file of `nagori image export`, and compare them with their checksums.
    ///
    /// They are found by the version of Nagori that has exported them. Who has made the file is not verified.
    ///
    /// Example: nagori image import images.tar.zst
    Import {
        /// The file; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        cache: CacheArgs,
    },
    /// Compare root file systems with the checksums in their manifests.
    ///
    /// Examples: nagori image verify; nagori image verify run
    Verify {
        /// `run`, `system`, or the start of a key [default: all in the cache].
        #[arg(value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        cache: CacheArgs,
    },
}

/// Which root file system.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Root file system")]
pub struct RootfsArgs {
    /// The set of packages to build on.
    #[arg(long, value_name = "BASE")]
    pub base: Option<BaseName>,
    /// More packages, separated by commas; their dependencies are added [default base: run].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub packages: Vec<String>,
    /// A script (or program) that the machine runs as root when all packages are installed; its exit status
    /// has to be 0. May be given several times.
    ///
    /// It runs in the new root file system before anything is started in it: no systemd, no network. Like
    /// everything else, it decides which image is found in the cache.
    #[arg(long, value_name = "SCRIPT")]
    pub provision: Vec<PathBuf>,
    /// A directory that provisioning scripts see, read-only, at $NAGORI_FILES.
    #[arg(long, value_name = "DIR", requires = "provision")]
    pub files: Option<PathBuf>,
    /// Free space in it, in MiB or with a unit (1GiB); the image is sparse [default: 512].
    #[arg(long, value_name = "SIZE", value_parser = in_units::<u32>("MiB", 1..=1 << 20))]
    pub free: Option<u32>,
}

impl RootfsArgs {
    /// The requested specification; `None` if no option is given.
    pub fn spec(&self) -> Option<RootfsSpec> {
        let none = self.packages.is_empty() && self.provision.is_empty();
        if self.base.is_none() && none && self.free.is_none() {
            return None;
        }
        let mut spec = RootfsSpec::new(self.base.map_or(Base::Run, BaseName::base));
        spec.packages = self.packages.iter().map(|p| p.trim().to_string()).collect();
        spec.provision = self.provision.clone();
        spec.files = self.files.clone();
        if let Some(free) = self.free {
            spec.free_mib = free;
        }
        Some(spec)
    }
}

/// A set of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BaseName {
    /// What programs expect.
    Run,
    /// A machine with systemd.
    System,
}

impl BaseName {
    /// This base as the library's type.
    pub fn base(self) -> Base {
        match self {
            BaseName::Run => Base::Run,
            BaseName::System => Base::System,
        }
    }
}
