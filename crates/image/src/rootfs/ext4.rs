//! Writes a tree as an ext4 image, with e2fsprogs: `mke2fs` for the empty file system, `debugfs`
//! with a script for the rest.
//!
//! `mke2fs -d` would take owners and the order of inodes from the host's directory, and only root
//! or fakeroot can give files other owners; its newer variant that reads an archive is not in every
//! release. The script contains everything, so the image is the same on every host.

use super::tree::{Id, Kind, Tree};
use crate::error::IoContext;
use crate::tool::{DEBUGFS, MKE2FS};
use crate::Error;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// Bytes of an inode.
const INODE: u64 = 256;
/// MiB of the journal: the least that suits small file systems.
const JOURNAL_MIB: u64 = 16;
/// Features by name, so that the host's mke2fs.conf and the version of mke2fs do not matter.
const FEATURES: &str = "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,\
    flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum";
/// debugfs reads lines of at most 8191 bytes.
const MAX_LINE: usize = 8000;

/// Properties of the image.
#[derive(Debug, Clone)]
pub(crate) struct Format<'a> {
    /// UUID of the file system, and of its hashed directories.
    pub uuid: &'a str,
    pub label: &'a str,
    /// Time, in seconds since 1970, of everything that has no time of its own.
    pub time: u64,
    /// Space for the guest's files, in bytes.
    pub free: u64,
}

/// Version of the tools, for the manifest: it determines where blocks are placed.
pub(crate) fn version() -> Result<String, Error> {
    let mut c = MKE2FS.command();
    c.arg("-V");
    let out = MKE2FS.run(c, "ask the version of mke2fs")?;
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    Ok(text.lines().next().unwrap_or_default().trim().to_string())
}

/// Writes the image; `work` is an existing directory.
pub(crate) fn write(
    tree: &Tree,
    format: &Format<'_>,
    image: &Path,
    work: &Path,
) -> Result<(), Error> {
    let script = work.join("debugfs.script");
    fs::write(&script, commands(tree, format.time)?).context("write", &script)?;
    let (blocks, inodes) = size(tree, format.free);
    let f = File::create(image).context("create", image)?;
    f.set_len(blocks * BLOCK).context("enlarge", image)?;

    let time = format.time.to_string();
    let mut c = MKE2FS.command();
    c.env("MKE2FS_CONFIG", "/dev/null")
        .env("E2FSPROGS_FAKE_TIME", &time)
        .env("SOURCE_DATE_EPOCH", &time)
        .args(["-q", "-F", "-t", "ext4", "-m", "0", "-O", FEATURES])
        .args(["-b", &BLOCK.to_string(), "-I", &INODE.to_string()])
        .args(["-N", &inodes.to_string(), "-J"])
        .arg(format!("size={JOURNAL_MIB}"))
        .args(["-U", format.uuid, "-L", format.label, "-E"])
        .arg(format!(
            "hash_seed={},root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0,nodiscard",
            format.uuid
        ))
        .arg(image)
        .arg(blocks.to_string());
    MKE2FS.run(c, "make a file system")?;

    let mut c = DEBUGFS.command();
    c.env("E2FSPROGS_FAKE_TIME", &time)
        .env("SOURCE_DATE_EPOCH", &time)
        // Otherwise it would page its output on a terminal.
        .env("DEBUGFS_PAGER", "__none__")
        .args(["-w", "-f"])
        .arg(&script)
        .arg(image);
    let out = DEBUGFS.run(c, "fill a file system")?;
    // Its exit status does not reflect the script's commands; its first line is its version.
    let messages = String::from_utf8_lossy(&out.stderr).into_owned();
    let errors: Vec<&str> = messages.lines().skip(1).collect();
    if !errors.is_empty() {
        return Err(Error::Command {
            what: "fill a file system".into(),
            command: DEBUGFS.name.into(),
            status: out.status.to_string(),
            output: errors[..errors.len().min(12)].join("\n"),
        });
    }
    Ok(())
}

/// Number of blocks and inodes of the file system.
fn size(tree: &Tree, free: u64) -> (u64, u64) {
    let (mut data, mut nodes) = (0, 0);
    for node in tree.live() {
        nodes += 1;
        data += match &node.kind {
            Kind::File { size } => size.div_ceil(BLOCK),
            // An entry takes less than 300 bytes.
            Kind::Directory(entries) => 1 + (entries.len() as u64 * 300).div_ceil(BLOCK),
            Kind::Symlink(t) => u64::from(t.len() >= 60),
            Kind::Device { .. } | Kind::Fifo => 0,
        };
    }
    let inodes: u64 = (nodes + nodes / 4 + free / (16 << 10)).next_multiple_of(1024);
    let fixed = (JOURNAL_MIB + 8) << 20;
    // Bitmaps, descriptors and the tree of extents of large files: well below 2 %.
    let blocks = (data + (free + fixed + inodes * INODE) / BLOCK) * 102 / 100;
    (blocks, inodes)
}

/// The script: directories before their contents, names in order.
fn commands(tree: &Tree, time: u64) -> Result<String, Error> {
    let mut s = Script {
        tree,
        time,
        text: String::new(),
        first: BTreeMap::new(),
    };
    writeln!(s.text, "set_current_time @{time}").expect("writing to memory");
    s.directory(Tree::ROOT, "")?;
    s.attributes(Tree::ROOT, ".", 0o040000)?;
    // debugfs does not count links.
    for (id, path) in std::mem::take(&mut s.first) {
        let links = tree.node(id).links;
        if links > 1 {
            s.line(&["sif", &quoted(&path), "links_count", &links.to_string()])?;
        }
    }
    Ok(s.text)
}

struct Script<'a> {
    tree: &'a Tree,
    time: u64,
    text: String,
    /// Where nodes other than directories were first named.
    first: BTreeMap<Id, String>,
}

impl Script<'_> {
    fn line(&mut self, words: &[&str]) -> Result<(), Error> {
        let line = words.join(" ");
        if line.len() > MAX_LINE {
            return Err(Error::Entry {
                path: line.chars().take(100).collect(),
                why: "its names are too long for debugfs".into(),
            });
        }
        self.text.push_str(&line);
        self.text.push('\n');
        Ok(())
    }

    fn directory(&mut self, id: Id, path: &str) -> Result<(), Error> {
        let Kind::Directory(entries) = &self.tree.node(id).kind else {
            return Ok(());
        };
        for (name, &child) in entries {
            let word = quoted(name);
            // A name such as <2> alone would be read as an inode number.
            let here = quoted(&format!("./{name}"));
            let path = format!("{path}/{name}");
            let format = match &self.tree.node(child).kind {
                Kind::Directory(_) => {
                    self.line(&["mkdir", &word])?;
                    self.line(&["cd", &here])?;
                    self.directory(child, &path)?;
                    self.line(&["cd", ".."])?;
                    self.attributes(child, &here, 0o040000)?;
                    continue;
                }
                _ if self.first.contains_key(&child) => {
                    let first = quoted(&self.first[&child]);
                    self.line(&["ln", &first, &word])?;
                    continue;
                }
                Kind::File { .. } => {
                    let staged = self.tree.staged(child);
                    self.line(&["write", &quoted(&staged.to_string_lossy()), &word])?;
                    0o100000
                }
                Kind::Symlink(target) => {
                    self.line(&["symlink", &word, &quoted(target)])?;
                    0o120000
                }
                Kind::Device {
                    block,
                    major,
                    minor,
                } => {
                    let kind = if *block { "b" } else { "c" };
                    let (major, minor) = (major.to_string(), minor.to_string());
                    self.line(&["mknod", &word, kind, &major, &minor])?;
                    if *block {
                        0o060000
                    } else {
                        0o020000
                    }
                }
                Kind::Fifo => {
                    self.line(&["mknod", &word, "p"])?;
                    0o010000
                }
            };
            self.first.insert(child, path);
            self.attributes(child, &here, format)?;
        }
        Ok(())
    }

    fn attributes(&mut self, id: Id, word: &str, format: u32) -> Result<(), Error> {
        let a = self.tree.node(id).attributes;
        let mode = format!("0{:o}", format | a.mode);
        self.line(&["sif", word, "mode", &mode])?;
        for (field, value) in [("uid", a.uid), ("gid", a.gid)] {
            if value != 0 {
                self.line(&["sif", word, field, &value.to_string()])?;
            }
        }
        let mtime = if a.mtime == 0 { self.time } else { a.mtime };
        self.line(&["sif", word, "mtime", &format!("@{mtime}")])
    }
}

/// Quoted for debugfs: between quotes, with quotes doubled.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('"', "\"\""))
}

#[cfg(test)]
#[path = "ext4_tests.rs"]
mod tests;
