//! A root file system under construction: names, owners and modes are kept here, contents of files
//! in a directory of the host under names chosen here. So nothing in an archive ever becomes a path
//! of the host, and neither root nor fakeroot is needed.

use crate::error::IoContext;
use crate::Error;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tar::EntryType;

/// Linux's limit.
const MAX_LINKS: u32 = 40;
/// Longest name of a directory entry, in bytes.
const MAX_NAME: usize = 255;
/// Longest target of a symbolic link, in bytes.
const MAX_TARGET: usize = 4095;

/// Number of a node; hard links share one.
pub(crate) type Id = usize;

/// The kind of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory(BTreeMap<String, Id>),
    /// The content of a file is in the staging directory under the node's number.
    File {
        size: u64,
    },
    Symlink(String),
    Device {
        block: bool,
        major: u32,
        minor: u32,
    },
    Fifo,
}

/// Owner, permissions (twelve bits) and time (seconds since 1970) of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: u64,
}

impl Attributes {
    /// Owned by root, without a time: the image's time is used.
    pub fn root(mode: u32) -> Self {
        Attributes {
            mode,
            uid: 0,
            gid: 0,
            mtime: 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub kind: Kind,
    pub attributes: Attributes,
    /// Names in directories.
    pub links: u32,
}

impl Node {
    /// Bytes of its content.
    pub fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size } => size,
            _ => 0,
        }
    }
}

/// The tree; node 0 is its root.
pub(crate) struct Tree {
    nodes: Vec<Node>,
    stage: PathBuf,
}

impl Tree {
    pub const ROOT: Id = 0;

    /// An empty tree that keeps contents in `stage`, an empty directory.
    pub fn new(stage: &Path) -> Self {
        Tree {
            nodes: vec![Node {
                kind: Kind::Directory(BTreeMap::new()),
                attributes: Attributes::root(0o755),
                links: 1,
            }],
            stage: stage.to_path_buf(),
        }
    }

    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    /// The host's file with a file's content.
    pub fn staged(&self, id: Id) -> PathBuf {
        self.stage.join(format!("{id}"))
    }

    /// Nodes that have a name, the root included.
    pub fn live(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| n.links > 0)
    }

    fn entries(&self, id: Id) -> Option<&BTreeMap<String, Id>> {
        match &self.nodes[id].kind {
            Kind::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    /// The node at `path`; symbolic links are followed within the tree, as after chroot.
    pub fn lookup(&self, path: &str) -> Option<Id> {
        self.walk(path, true).ok()
    }

    /// As [`Tree::lookup`], but a link at the end is not followed.
    pub fn lookup_link(&self, path: &str) -> Option<Id> {
        self.walk(path, false).ok()
    }

    /// On failure, the parts of the path that do not exist, below the directory reached.
    fn walk(&self, path: &str, follow_last: bool) -> Result<Id, Missing> {
        let mut rest: Vec<String> = parts(path).rev().map(String::from).collect();
        let mut trail = vec![Self::ROOT];
        let mut links = 0;
        while let Some(name) = rest.pop() {
            let here = *trail.last().expect("never empty");
            if name == ".." {
                // The parent of the root is the root.
                if trail.len() > 1 {
                    trail.pop();
                }
                continue;
            }
            let Some(entries) = self.entries(here) else {
                return Err(Missing::NotADirectory);
            };
            let Some(&next) = entries.get(&name) else {
                rest.push(name);
                rest.reverse();
                return Err(Missing::Below(here, rest));
            };
            match &self.nodes[next].kind {
                Kind::Symlink(target) if follow_last || !rest.is_empty() => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Missing::Loop);
                    }
                    if target.starts_with('/') {
                        trail.truncate(1);
                    }
                    rest.extend(parts(target).rev().map(String::from));
                }
                _ => trail.push(next),
            }
        }
        Ok(*trail.last().expect("never empty"))
    }

    /// The directory at `path`, created with its parents if it does not exist.
    pub fn directory(&mut self, path: &str) -> Result<Id, Error> {
        check(path)?;
        match self.walk(path, true) {
            Ok(id) if self.entries(id).is_some() => Ok(id),
            Ok(_) | Err(Missing::NotADirectory) => Err(odd(path, "a file is in its way")),
            Err(Missing::Loop) => Err(odd(path, "its symbolic links form a loop")),
            Err(Missing::Below(mut at, names)) => {
                for name in names {
                    // The target of a dangling link may contain `..`.
                    if name == ".." {
                        return Err(odd(path, "it leads through a link to nothing"));
                    }
                    at = self.link_new(
                        at,
                        &name,
                        Kind::Directory(BTreeMap::new()),
                        Attributes::root(0o755),
                    );
                }
                Ok(at)
            }
        }
    }

    /// The directory of `path`, and its last part.
    fn place<'p>(&mut self, path: &'p str) -> Result<(Id, &'p str), Error> {
        check(path)?;
        let path = path.trim_end_matches('/');
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.is_empty() || name == "." {
            return Err(odd(path, "it has no name"));
        }
        Ok((self.directory(parent)?, name))
    }

    fn link_new(&mut self, parent: Id, name: &str, kind: Kind, attributes: Attributes) -> Id {
        let id = self.nodes.len();
        self.nodes.push(Node {
            kind,
            attributes,
            links: 1,
        });
        self.enter(parent, name, id);
        id
    }

    fn enter(&mut self, parent: Id, name: &str, id: Id) {
        if let Kind::Directory(entries) = &mut self.nodes[parent].kind {
            if let Some(old) = entries.insert(name.to_string(), id) {
                self.nodes[old].links -= 1;
            }
        }
    }

    /// Puts a node other than a directory at `path`; what was there is removed, unless it is a
    /// directory.
    fn put(&mut self, path: &str, kind: Kind, attributes: Attributes) -> Result<Id, Error> {
        let (parent, name) = self.place(path)?;
        let old = self.entries(parent).and_then(|e| e.get(name)).copied();
        if old.is_some_and(|o| self.entries(o).is_some()) {
            return Err(odd(path, "a directory is in its way"));
        }
        Ok(self.link_new(parent, name, kind, attributes))
    }

    /// Adds a file with given content.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<(), Error> {
        self.file_from(path, Attributes::root(mode), &mut &*content)
    }

    /// As [`Tree::file`], with an owner and a time.
    pub fn file_as(&mut self, path: &str, a: Attributes, content: &[u8]) -> Result<(), Error> {
        self.file_from(path, a, &mut &*content)
    }

    /// Sets the time of a node.
    pub fn set_time(&mut self, id: Id, mtime: u64) {
        self.nodes[id].attributes.mtime = mtime;
    }

    /// Adds a file whose content `make` writes into a file of the host.
    pub fn file_made(
        &mut self,
        path: &str,
        mode: u32,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let id = self.put(path, Kind::File { size: 0 }, Attributes::root(mode))?;
        let staged = self.staged(id);
        make(&staged)?;
        let size = fs::metadata(&staged).context("read", &staged)?.len();
        self.nodes[id].kind = Kind::File { size };
        Ok(())
    }

    /// Adds a file with an owner and a time, with the content read from `content`.
    pub fn file_from(
        &mut self,
        path: &str,
        attributes: Attributes,
        content: &mut dyn Read,
    ) -> Result<(), Error> {
        let id = self.put(path, Kind::File { size: 0 }, attributes)?;
        let staged = self.staged(id);
        let mut f = File::create(&staged).context("create", &staged)?;
        let size = io::copy(content, &mut f).context("write", &staged)?;
        self.nodes[id].kind = Kind::File { size };
        Ok(())
    }

    pub fn symlink(&mut self, path: &str, target: &str) -> Result<(), Error> {
        self.symlink_as(path, target, Attributes::root(0o777))
    }

    fn symlink_as(&mut self, path: &str, target: &str, a: Attributes) -> Result<(), Error> {
        if target.is_empty() || target.len() > MAX_TARGET || target.contains(['\0', '\n', '\r']) {
            return Err(odd(
                path,
                "the target of a symbolic link has 1 to 4095 bytes without line ends",
            ));
        }
        self.put(path, Kind::Symlink(target.to_string()), a)?;
        Ok(())
    }

    /// Adds a directory with an owner and a mode; an existing one takes them over.
    pub fn directory_as(&mut self, path: &str, attributes: Attributes) -> Result<(), Error> {
        let id = self.directory(path)?;
        self.nodes[id].attributes = attributes;
        Ok(())
    }

    /// Removes an empty directory; links to one stay.
    pub fn remove_empty(&mut self, path: &str) {
        let Some(id) = self.lookup_link(path).filter(|&id| id != Self::ROOT) else {
            return;
        };
        if !self.entries(id).is_some_and(BTreeMap::is_empty) {
            return;
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if let Some(parent) = self.lookup(parent) {
            if let Kind::Directory(entries) = &mut self.nodes[parent].kind {
                entries.remove(name);
                self.nodes[id].links -= 1;
            }
        }
    }

    /// The content of a file, following links.
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        let id = self.lookup(path)?;
        match self.nodes[id].kind {
            Kind::File { .. } => fs::read(self.staged(id)).ok(),
            _ => None,
        }
    }

    /// The content of a text file; empty if there is none.
    pub fn text(&self, path: &str) -> String {
        let bytes = self.read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Names in a directory, sorted; none if there is no directory.
    pub fn names(&self, path: &str) -> Vec<String> {
        let id = self.lookup(path);
        let entries = id.and_then(|id| self.entries(id));
        entries.map_or_else(Vec::new, |e| e.keys().cloned().collect())
    }

    /// Adds the contents of a package's archive; returns the paths, as `dpkg -L` lists them.
    pub fn unpack(&mut self, tar: impl Read) -> Result<Vec<String>, Error> {
        let mut archive = tar::Archive::new(tar);
        let mut paths = Vec::new();
        let unreadable = |e: io::Error| odd("its archive", &format!("cannot be read: {e}"));
        for entry in archive.entries().map_err(unreadable)? {
            let mut entry = entry.map_err(unreadable)?;
            let path = String::from_utf8(entry.path_bytes().into_owned())
                .map_err(|e| odd(&String::from_utf8_lossy(e.as_bytes()), "it is not UTF-8"))?;
            let shown = format!("/{}", parts(&path).collect::<Vec<_>>().join("/"));
            self.entry(&path, &mut entry)?;
            paths.push(if shown == "/" { "/.".into() } else { shown });
        }
        Ok(paths)
    }

    fn entry(&mut self, path: &str, entry: &mut tar::Entry<'_, impl Read>) -> Result<(), Error> {
        let header = entry.header().clone();
        let number = |v: io::Result<u64>| -> Result<u32, Error> {
            v.ok()
                .and_then(|v| u32::try_from(v).ok())
                .ok_or_else(|| odd(path, "a number in its header cannot be read"))
        };
        let attributes = Attributes {
            mode: number(header.mode().map(u64::from))? & 0o7777,
            uid: number(header.uid())?,
            gid: number(header.gid())?,
            mtime: header
                .mtime()
                .map_err(|_| odd(path, "the time in its header cannot be read"))?,
        };
        let target = |entry: &tar::Entry<'_, _>| -> Result<String, Error> {
            let bytes = entry.link_name_bytes().unwrap_or_default().into_owned();
            String::from_utf8(bytes).map_err(|_| odd(path, "its link's target is not UTF-8"))
        };
        let device = |which: io::Result<Option<u32>>| {
            which
                .ok()
                .flatten()
                .ok_or_else(|| odd(path, "a device number in its header cannot be read"))
        };
        match header.entry_type() {
            EntryType::Directory => self.directory_as(path, attributes),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                self.file_from(path, attributes, entry)
            }
            EntryType::Symlink => {
                let target = target(entry)?;
                // As in dpkg: a directory in the place of a link stays.
                match self.lookup_link(path).map(|id| self.entries(id)) {
                    Some(Some(_)) => Ok(()),
                    _ => self.symlink_as(path, &target, attributes),
                }
            }
            EntryType::Link => {
                let target = target(entry)?;
                self.hard_link(path, &target)
            }
            kind @ (EntryType::Char | EntryType::Block) => {
                let kind = Kind::Device {
                    block: kind == EntryType::Block,
                    major: device(header.device_major())?,
                    minor: device(header.device_minor())?,
                };
                self.put(path, kind, attributes).map(drop)
            }
            EntryType::Fifo => self.put(path, Kind::Fifo, attributes).map(drop),
            other => Err(odd(path, &format!("entries of type {other:?} are unknown"))),
        }
    }

    fn hard_link(&mut self, path: &str, target: &str) -> Result<(), Error> {
        check(target)?;
        let id = self
            .lookup_link(target)
            .filter(|&id| self.entries(id).is_none())
            .ok_or_else(|| odd(path, "it is a link to what is not there"))?;
        let (parent, name) = self.place(path)?;
        match self.entries(parent).and_then(|e| e.get(name)) {
            Some(&old) if old == id => return Ok(()),
            Some(&old) if self.entries(old).is_some() => {
                return Err(odd(path, "a directory is in its way"))
            }
            _ => {}
        }
        self.nodes[id].links += 1;
        self.enter(parent, name, id);
        Ok(())
    }
}

enum Missing {
    NotADirectory,
    Loop,
    Below(Id, Vec<String>),
}

fn parts(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|p| !p.is_empty() && *p != ".")
}

/// Checks a path, of an archive or given here: it must stay below the root, and fit into a line.
fn check(path: &str) -> Result<(), Error> {
    for part in parts(path) {
        if part == ".." {
            return Err(odd(path, "`..` would lead out of the package"));
        }
        if part.len() > MAX_NAME {
            return Err(odd(path, "a name is longer than 255 bytes"));
        }
    }
    if path.contains(['\0', '\n', '\r']) {
        return Err(odd(path, "line ends and NUL are not allowed in names"));
    }
    Ok(())
}

fn odd(path: &str, why: &str) -> Error {
    Error::Entry {
        path: path.escape_debug().to_string(),
        why: why.to_string(),
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
