//! Turns unpacked packages into a working system, without running their maintainer scripts.

use super::dpkg::Unpacked;
use super::tree::{Attributes, Tree};
use super::{accounts, dpkg, units};
use crate::Error;

/// Directories that base-files' script creates: path, permissions, group.
const DIRECTORIES: [(&str, u32, u32); 14] = [
    ("/mnt", 0o755, 0),
    ("/srv", 0o755, 0),
    ("/opt", 0o755, 0),
    ("/media", 0o755, 0),
    ("/tmp", 0o1777, 0),
    ("/var/tmp", 0o1777, 0),
    ("/var/mail", 0o2775, 8),
    ("/var/log", 0o755, 0),
    ("/var/cache", 0o755, 0),
    ("/usr/local/bin", 0o755, 0),
    ("/usr/local/lib", 0o755, 0),
    ("/usr/local/share", 0o755, 0),
    ("/root", 0o700, 0),
    ("/var/log/journal", 0o755, 0),
];

/// Copies from base-files' defaults.
const DEFAULTS: [(&str, &str); 4] = [
    ("dot.profile", "root/.profile"),
    ("dot.bashrc", "root/.bashrc"),
    ("profile", "/etc/profile"),
    ("motd", "/etc/motd"),
];

/// PAM's common files, as pam-auth-update writes them if there are only Unix passwords.
const PAM: [(&str, &str); 5] = [
    (
        "common-auth",
        "auth\t[success=1 default=ignore]\tpam_unix.so nullok\n\
         auth\trequisite\t\t\tpam_deny.so\n\
         auth\trequired\t\t\tpam_permit.so\n",
    ),
    (
        "common-account",
        "account\t[success=1 new_authtok_reqd=done default=ignore]\tpam_unix.so\n\
         account\trequisite\t\t\tpam_deny.so\n\
         account\trequired\t\t\tpam_permit.so\n",
    ),
    (
        "common-password",
        "password\t[success=1 default=ignore]\tpam_unix.so obscure yescrypt\n\
         password\trequisite\t\t\tpam_deny.so\n\
         password\trequired\t\t\tpam_permit.so\n",
    ),
    (
        "common-session",
        "session\t[default=1]\t\t\tpam_permit.so\n\
         session\trequisite\t\t\tpam_deny.so\n\
         session\trequired\t\t\tpam_permit.so\n\
         session\trequired\tpam_unix.so\n",
    ),
    (
        "common-session-noninteractive",
        "session\t[default=1]\t\t\tpam_permit.so\n\
         session\trequisite\t\t\tpam_deny.so\n\
         session\trequired\t\t\tpam_permit.so\n\
         session\trequired\tpam_unix.so\n",
    ),
];

/// Other files; files that a package contains are kept.
const FILES: [(&str, &str); 8] = [
    ("/etc/hostname", "nagori\n"),
    (
        "/etc/hosts",
        "127.0.0.1\tlocalhost\n127.0.1.1\tnagori\n::1\tlocalhost ip6-localhost\n",
    ),
    (
        "/etc/fstab",
        "# The kernel's command line names the root file system.\n",
    ),
    (
        "/etc/nsswitch.conf",
        "passwd: files systemd\ngroup: files systemd\nshadow: files\n\
         hosts: files dns\nservices: files\nprotocols: files\nnetworks: files\n",
    ),
    (
        "/etc/shells",
        "/bin/sh\n/usr/bin/sh\n/bin/bash\n/usr/bin/bash\n/bin/dash\n/usr/bin/dash\n",
    ),
    ("/etc/environment", ""),
    ("/etc/locale.conf", "LANG=C.UTF-8\n"),
    // Matched by name or by number, whatever the slot: networkd gets an address for its interface.
    (
        "/etc/systemd/network/80-nagori.network",
        "[Match]\nName=e*\n\n[Network]\nDHCP=yes\n",
    ),
];

const APT_SOURCES: &str = "/etc/apt/sources.list.d/debian.sources";

/// Origin of the packages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// Debian's release.
    pub suite: &'a str,
    /// The mirror's URI.
    pub mirror: &'a str,
}

impl Origin<'_> {
    /// The entry for the guest's own apt, disabled if the mirror is a directory of the host.
    fn sources(self) -> String {
        let on = if self.mirror.starts_with("http") {
            ""
        } else {
            "Enabled: no\n"
        };
        format!(
            "{on}Types: deb\nURIs: {}\nSuites: {}\nComponents: main\n\
             Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
            self.mirror, self.suite
        )
    }
}

/// Does to the tree what matters of the packages' maintainer scripts. `id` is 32 hexadecimal
/// digits, `time` is in seconds since 1970.
pub(crate) fn system(
    tree: &mut Tree,
    packages: &[Unpacked],
    origin: Origin<'_>,
    id: &str,
    time: u64,
) -> Result<(), Error> {
    for (path, mode, gid) in DIRECTORIES {
        let attributes = Attributes {
            gid,
            ..Attributes::root(mode)
        };
        tree.directory_as(path, attributes)?;
    }
    for (link, target) in [
        ("/var/run", "/run"),
        ("/var/lock", "/run/lock"),
        ("/var/spool/mail", "../mail"),
        ("/etc/mtab", "/proc/self/mounts"),
    ] {
        tree.remove_empty(link);
        if tree.lookup_link(link).is_none() {
            tree.symlink(link, target)?;
        }
    }
    for (from, to) in DEFAULTS {
        if let Some(bytes) = tree.read(&format!("/usr/share/base-files/{from}")) {
            tree.file(to, 0o644, &bytes)?;
        }
    }
    for (name, text) in PAM {
        let path = format!("/etc/pam.d/{name}");
        if tree.lookup("/usr/share/pam-configs/unix").is_some() && tree.lookup(&path).is_none() {
            tree.file(&path, 0o644, text.as_bytes())?;
        }
    }
    for (path, text) in FILES {
        if tree.lookup(path).is_none() {
            tree.file(path, 0o644, text.as_bytes())?;
        }
    }
    if tree.lookup("/usr/bin/apt-get").is_some() {
        tree.file(APT_SOURCES, 0o644, origin.sources().as_bytes())?;
    }
    if tree.lookup("/etc/dpkg/origins/debian").is_some() {
        tree.symlink("/etc/dpkg/origins/default", "debian")?;
    }
    accounts::write(tree)?;
    units::alternatives(tree, packages)?;
    units::enable(tree, packages)?;
    if tree.lookup("/usr/lib/systemd/systemd").is_some() {
        let target = "/usr/lib/systemd/system/multi-user.target";
        tree.symlink("/etc/systemd/system/default.target", target)?;
        // Marks the system as booted before and up to date: otherwise systemd would build its
        // hardware database and ask for a locale and a time zone.
        for path in ["/etc/.updated", "/var/.updated"] {
            let text = format!("TIMESTAMP_NSEC={time}000000000\n");
            tree.file_as(
                path,
                Attributes {
                    mtime: time,
                    ..Attributes::root(0o644)
                },
                text.as_bytes(),
            )?;
        }
        let usr = tree.directory("/usr")?;
        tree.set_time(usr, time);
    }
    // It is the same in every copy, since the images are for repeatable experiments.
    tree.file("/etc/machine-id", 0o444, format!("{id}\n").as_bytes())?;
    dpkg::write(tree, packages, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_guest_finds_packages() {
        let sources = |mirror| {
            let origin = Origin {
                suite: "trixie",
                mirror,
            };
            origin.sources()
        };
        let text = sources("http://m.example/debian");
        assert!(text.starts_with("Types: deb\nURIs: http://m.example/debian\nSuites: trixie\n"));
        assert!(sources("file:/srv/debian").starts_with("Enabled: no\n"));
    }
}
