//! dpkg's database, in the state in which dpkg itself would have left it.

use super::tree::Tree;
use crate::Error;
use md5::{Digest, Md5};
use nagori_debian::Record;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const INFO: &str = "/var/lib/dpkg/info";

/// A package that was unpacked into the tree.
pub(crate) struct Unpacked {
    /// Debian's name.
    pub name: String,
    /// Its control archive: `control`, `conffiles`, maintainer scripts and others.
    pub control: BTreeMap<String, Vec<u8>>,
    /// Its files, as `dpkg -L` lists them.
    pub paths: Vec<String>,
}

/// Files of a control archive that dpkg does not keep under info/.
const NOT_KEPT: [&str; 1] = ["control"];

/// Writes the database: all packages are installed, or, if their maintainer scripts are still to be
/// run, unpacked.
pub(crate) fn write(tree: &mut Tree, packages: &[Unpacked], configured: bool) -> Result<(), Error> {
    let mut status = String::new();
    for dir in ["updates", "triggers", "alternatives", "parts"] {
        tree.directory(&format!("/var/lib/dpkg/{dir}"))?;
    }
    let mut interests: BTreeMap<String, String> = BTreeMap::new();
    let mut sorted: Vec<&Unpacked> = packages.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    for p in sorted {
        let control = p.control.get("control").map(Vec::as_slice);
        let text = String::from_utf8_lossy(control.unwrap_or_default()).into_owned();
        let record = Record::parse(&text).ok_or_else(|| Error::Contents {
            name: p.name.clone(),
            what: "its control file cannot be read".into(),
        })?;
        let field = |name| record.field(name).unwrap_or_default();
        // Packages of one name for several architectures have separate files.
        let name = match field("Multi-Arch") {
            "same" => format!("{}:{}", p.name, field("Architecture")),
            _ => p.name.clone(),
        };
        let base = format!("{INFO}/{name}");
        interested(&mut interests, p, &name);
        stanza(&mut status, &text, p, tree, configured);
        for (name, bytes) in &p.control {
            if NOT_KEPT.contains(&name.as_str()) {
                continue;
            }
            let script = matches!(
                name.as_str(),
                "preinst" | "postinst" | "prerm" | "postrm" | "config"
            );
            let mode = if script { 0o755 } else { 0o644 };
            tree.file(&format!("{base}.{name}"), mode, bytes)?;
        }
        let list = p.paths.join("\n") + "\n";
        tree.file(&format!("{base}.list"), 0o644, list.as_bytes())?;
    }
    for (file, lines) in interests {
        tree.file(
            &format!("/var/lib/dpkg/triggers/{file}"),
            0o644,
            lines.as_bytes(),
        )?;
    }
    tree.file(&format!("{INFO}/format"), 0o644, b"1\n")?;
    tree.file("/var/lib/dpkg/status", 0o644, status.as_bytes())?;
    tree.file("/var/lib/dpkg/available", 0o644, b"")?;
    if tree.lookup("/var/lib/dpkg/diversions").is_none() {
        tree.file("/var/lib/dpkg/diversions", 0o644, b"")?;
    }
    if tree.lookup("/var/lib/dpkg/statoverride").is_none() {
        tree.file("/var/lib/dpkg/statoverride", 0o644, b"")?;
    }
    Ok(())
}

/// Adds a package's triggers: paths of other packages' files to one file, and other triggers to a
/// file each.
fn interested(interests: &mut BTreeMap<String, String>, p: &Unpacked, name: &str) {
    let triggers = p.control.get("triggers").map(Vec::as_slice);
    let triggers = String::from_utf8_lossy(triggers.unwrap_or_default()).into_owned();
    for line in triggers.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let [kind, trigger] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            continue;
        };
        let how = match kind {
            "interest" | "interest-await" => "",
            "interest-noawait" => "/noawait",
            _ => continue,
        };
        let (file, line) = if trigger.starts_with('/') {
            ("File", format!("{trigger} {name}{how}\n"))
        } else {
            (trigger, format!("{name}{how}\n"))
        };
        interests.entry(file.into()).or_default().push_str(&line);
    }
}

fn stanza(status: &mut String, control: &str, p: &Unpacked, tree: &Tree, configured: bool) {
    let state = if configured { "installed" } else { "unpacked" };
    for line in control.trim().lines() {
        status.push_str(line);
        status.push('\n');
        if line.starts_with("Package:") {
            let _ = writeln!(status, "Status: install ok {state}");
        }
    }
    let conffiles = p.control.get("conffiles").map(Vec::as_slice);
    let conffiles = String::from_utf8_lossy(conffiles.unwrap_or_default()).into_owned();
    let mut head = "Conffiles:\n";
    for path in conffiles.lines().filter(|l| l.starts_with('/')) {
        if let Some(bytes) = tree.read(path) {
            let hash = crate::manifest::hex(&Md5::digest(&bytes));
            let _ = writeln!(status, "{head} {path} {hash}");
            head = "";
        }
    }
    status.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(dir.path());
        tree.file("/etc/a.conf", 0o644, b"abc").unwrap();
        let control = b"Package: liba\nArchitecture: riscv64\nMulti-Arch: same\nVersion: 1\n\
            Description: x\n long\n";
        let package = Unpacked {
            name: "liba".into(),
            control: [
                ("control", &control[..]),
                (
                    "conffiles",
                    b"/etc/a.conf\nremove-on-upgrade /etc/b\n/etc/absent\n",
                ),
                ("postinst", b"#!/bin/sh\n"),
                (
                    "triggers",
                    b"# x\ninterest-noawait ldconfig\ninterest /usr/share/x # y\nactivate b\n",
                ),
            ]
            .map(|(n, b)| (n.to_string(), b.to_vec()))
            .into(),
            paths: vec!["/.".into(), "/etc".into(), "/etc/a.conf".into()],
        };
        write(&mut tree, &[package], true).unwrap();
        assert_eq!(
            tree.text("/var/lib/dpkg/status"),
            "Package: liba\nStatus: install ok installed\nArchitecture: riscv64\n\
             Multi-Arch: same\nVersion: 1\nDescription: x\n long\n\
             Conffiles:\n /etc/a.conf 900150983cd24fb0d6963f7d28e17f72\n\n"
        );
        assert_eq!(
            tree.text("/var/lib/dpkg/info/liba:riscv64.list"),
            "/.\n/etc\n/etc/a.conf\n"
        );
        let triggers = "/var/lib/dpkg/triggers";
        assert_eq!(tree.names(triggers), ["File", "ldconfig"]);
        let lines = |name: &str| tree.text(&format!("{triggers}/{name}"));
        assert_eq!(lines("ldconfig"), "liba:riscv64/noawait\n");
        assert_eq!(lines("File"), "/usr/share/x liba:riscv64\n");
        let postinst = tree
            .lookup("/var/lib/dpkg/info/liba:riscv64.postinst")
            .unwrap();
        assert_eq!(tree.node(postinst).attributes.mode, 0o755);
    }

    #[test]
    fn a_package_without_control_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(dir.path());
        let package = Unpacked {
            name: "a".into(),
            control: BTreeMap::new(),
            paths: Vec::new(),
        };
        let e = write(&mut tree, &[package], true).unwrap_err().to_string();
        assert!(e.contains("control file"), "{e}");
    }
}
