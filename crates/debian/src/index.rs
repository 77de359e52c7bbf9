//! The index of packages of one suite.

use crate::control::Record;
use crate::relation::{self, Alternatives, Comparison, Relation};
use crate::release::checksum;
use crate::version;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The guest's architecture.
pub const ARCHITECTURE: &str = "riscv64";

/// A package file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Debian's name of the package.
    pub name: String,
    /// Its version, with epoch and revision.
    pub version: String,
    /// SHA-256 of the .deb file, in hexadecimal.
    pub sha256: String,
    /// Size of the .deb file in bytes.
    pub size: u64,
    /// Where the .deb file is below the mirror's directory; empty if that is not known.
    #[serde(default)]
    pub path: String,
}

/// Number of a package in its index.
pub type Id = usize;

/// All packages of a suite, of each name the newest version.
pub struct Index {
    text: String,
    stanzas: Vec<Stanza>,
    by_name: BTreeMap<String, Id>,
    /// Who provides a name, with the version as which.
    provided: BTreeMap<String, Vec<(Id, Option<String>)>>,
}

struct Stanza {
    start: usize,
    end: usize,
    name: String,
    version: String,
}

impl Index {
    /// Reads a Packages file.
    pub fn parse(text: String) -> Result<Index, String> {
        let mut index = Index {
            text: String::new(),
            stanzas: Vec::new(),
            by_name: BTreeMap::new(),
            provided: BTreeMap::new(),
        };
        let mut start = 0;
        while start < text.len() {
            let length = text[start..]
                .find("\n\n")
                .map_or(text.len() - start, |l| l + 2);
            let (from, to) = (start, start + length);
            start = to;
            let stanza = &text[from..to];
            if stanza.trim().is_empty() {
                continue;
            }
            let value = |name: &str| field(stanza, name);
            let (Some(name), Some(version)) = (value("Package: "), value("Version: ")) else {
                let line = text[..from].lines().count() + 1;
                return Err(format!("line {line}: a package without Package or Version"));
            };
            match value("Architecture: ") {
                Some("all" | ARCHITECTURE) => {}
                _ => continue,
            }
            let id = index.stanzas.len();
            if let Some(&other) = index.by_name.get(name) {
                if version::compare(&index.stanzas[other].version, version).is_ge() {
                    continue;
                }
            }
            index.stanzas.push(Stanza {
                start: from,
                end: to,
                name: name.into(),
                version: version.into(),
            });
            index.by_name.insert(name.into(), id);
        }
        for &id in index.by_name.values() {
            let s = &index.stanzas[id];
            let provides = field(&text[s.start..s.end], "Provides: ").unwrap_or_default();
            let all = relation::parse(provides)
                .map_err(|e| format!("Provides of {}: {e}", index.stanzas[id].name))?;
            for r in all.into_iter().flatten() {
                let version = r.version.filter(|v| v.0 == Comparison::Equal).map(|v| v.1);
                index
                    .provided
                    .entry(r.name)
                    .or_default()
                    .push((id, version));
            }
        }
        index.text = text;
        Ok(index)
    }

    /// The package of this name.
    pub fn find(&self, name: &str) -> Option<Id> {
        self.by_name.get(name).copied()
    }

    /// A package's name.
    pub fn name(&self, id: Id) -> &str {
        &self.stanzas[id].name
    }

    /// A package's version.
    pub fn version(&self, id: Id) -> &str {
        &self.stanzas[id].version
    }

    /// The names of all packages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    fn stanza(&self, id: Id) -> &str {
        let s = &self.stanzas[id];
        &self.text[s.start..s.end]
    }

    /// The whole record of a package.
    pub fn record(&self, id: Id) -> Option<Record> {
        Record::parse(self.stanza(id))
    }

    /// One field of a package; empty if it lacks it.
    pub fn field(&self, id: Id, name: &str) -> &str {
        field(self.stanza(id), &format!("{name}: ")).unwrap_or_default()
    }

    /// A field with relations.
    pub fn relations(&self, id: Id, name: &str) -> Result<Vec<Alternatives>, String> {
        relation::parse(self.field(id, name))
            .map_err(|e| format!("{name} of {}: {e}", self.name(id)))
    }

    /// Whether a package is one of those that a relation means, by its name or by what it provides.
    pub fn satisfies(&self, id: Id, r: &Relation) -> bool {
        let foreign = r.architecture.as_deref();
        if !matches!(
            foreign,
            None | Some("any" | "native" | "all" | ARCHITECTURE)
        ) {
            return false;
        }
        let s = &self.stanzas[id];
        if s.name == r.name && r.accepts(&s.version) {
            return true;
        }
        let providers = self.provided.get(&r.name).into_iter().flatten();
        providers
            .filter(|p| p.0 == id)
            .any(|(_, version)| match (version, &r.version) {
                (_, None) => true,
                (Some(v), Some(_)) => r.accepts(v),
                (None, Some(_)) => false,
            })
    }

    /// Names that a package provides.
    pub fn provides(&self, id: Id) -> Vec<String> {
        let all = self.relations(id, "Provides").unwrap_or_default();
        all.into_iter().flatten().map(|r| r.name).collect()
    }

    /// The packages that a relation means, the best first: that of the name itself, then those that provide it, of
    /// which essential ones, and then those of a higher priority, are taken by apt before others.
    pub fn candidates(&self, r: &Relation) -> Vec<Id> {
        let mut found: Vec<Id> = self.find(&r.name).into_iter().collect();
        let providers = self.provided.get(&r.name).into_iter().flatten();
        let mut others: Vec<Id> = providers.map(|p| p.0).collect();
        others.sort_by_key(|&id| {
            let essential = self.field(id, "Essential") != "yes";
            (
                essential,
                priority(self.field(id, "Priority")),
                self.name(id),
            )
        });
        found.extend(others);
        let mut once: Vec<Id> = Vec::new();
        for id in found {
            if self.satisfies(id, r) && !once.contains(&id) {
                once.push(id);
            }
        }
        once
    }

    /// The package file of a package; `None` if its record lacks what is needed to fetch it.
    pub fn package(&self, id: Id) -> Option<Package> {
        let path = self.field(id, "Filename");
        let inside = path
            .split('/')
            .all(|p| !p.is_empty() && p != "." && p != "..");
        let graphic = path.bytes().all(|b| b.is_ascii_graphic());
        (inside && graphic).then_some(())?;
        Some(Package {
            name: self.name(id).into(),
            version: self.version(id).into(),
            sha256: checksum(self.field(id, "SHA256"))?,
            size: self.field(id, "Size").parse().ok()?,
            path: path.into(),
        })
    }
}

/// The first line of a field whose name, colon and blank are `head`.
fn field<'t>(stanza: &'t str, head: &str) -> Option<&'t str> {
    stanza
        .lines()
        .find_map(|l| l.strip_prefix(head))
        .map(str::trim)
}

fn priority(name: &str) -> usize {
    let all = ["required", "important", "standard", "optional", "extra"];
    all.iter().position(|p| *p == name).unwrap_or(all.len())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Stanzas of packages, each a name, a version, and other lines.
    pub fn index(packages: &[(&str, &str, &str)]) -> Index {
        let text = packages.iter().map(|(name, version, more)| {
            format!("Package: {name}\nVersion: {version}\nArchitecture: riscv64\n{more}\n\n")
        });
        Index::parse(text.collect()).unwrap()
    }

    #[test]
    fn names_versions_and_providers() {
        let i = index(&[
            ("a", "1.9", "Provides: awk"),
            ("a", "1.10", "Provides: awk, v (= 3)"),
            ("a", "1.2", ""),
            ("b", "2", "Provides: awk\nPriority: required"),
        ]);
        let a = i.find("a").unwrap();
        assert_eq!((i.version(a), i.names().count()), ("1.10", 2));
        let found = |text: &str| -> Vec<&str> {
            let r = &relation::parse(text).unwrap()[0][0];
            i.candidates(r).iter().map(|id| i.name(*id)).collect()
        };
        assert_eq!(found("awk"), ["b", "a"]);
        assert_eq!(found("a (>= 1.10)"), ["a"]);
        assert_eq!(found("v (>= 3)"), ["a"]);
        for none in ["awk (>= 1)", "v (>= 4)", "a (<< 1.10)", "a:amd64", "x"] {
            assert!(found(none).is_empty(), "{none}");
        }
        assert_eq!(i.provides(a), ["awk", "v"]);
    }

    #[test]
    fn what_is_fetched_stays_below_the_mirror() {
        let hash = "1b458cc5b1d13b946bdca67bdca891fccf57882f8af972276d1346b24fa8285b";
        let of = |path: &str, hash: &str, size: &str| {
            let more = format!("Filename: {path}\nSHA256: {hash}\nSize: {size}");
            let i = index(&[("a", "1", &more)]);
            i.package(0).is_some()
        };
        assert!(of("pool/a.deb", hash, "3"));
        assert!(
            !of("pool/../../a.deb", hash, "3") && !of("/a.deb", hash, "3") && !of("", hash, "3")
        );
        assert!(!of("pool/a.deb", "12", "3") && !of("pool/a.deb", hash, "-3"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let bad = |text: &str| Index::parse(text.into()).err().unwrap();
        assert_eq!(
            bad("Package: a\nVersion: 1\n\nPackage: b\n"),
            "line 4: a package without Package or Version"
        );
        let e = bad("Package: a\nVersion: 1\nArchitecture: all\nProvides: (\n");
        assert!(e.contains("Provides of a"), "{e}");
        // Packages of other architectures are left out.
        let i = Index::parse("Package: a\nVersion: 1\nArchitecture: amd64\n".into()).unwrap();
        assert_eq!(i.find("a"), None);
    }

    proptest! {
        #[test]
        fn any_text_does_not_panic(text in "((Package|Version|Provides|Architecture): [a-z(=, \
            )]{0,8}\n|\n|.{0,5}\n){0,12}") {
            let _ = Index::parse(text);
        }
    }
}
