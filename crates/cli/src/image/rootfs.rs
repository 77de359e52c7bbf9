//! Root file systems: made, found by name, listed.

use super::args::BaseName;
use super::machine::Installing;
use super::{hint, with_progress};
use crate::output::{self, Messages};
use anyhow::{bail, Context};
use clap::ValueEnum;
use nagori_image::{list_rootfs, Base, Installer, Options, RootFs, RootfsSpec};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The cached root file system, or a new one, with its progress on stderr.
pub fn build(options: &Options, spec: &RootfsSpec, messages: &Messages) -> anyhow::Result<RootFs> {
    let start = Instant::now();
    let mut worked = false;
    let mut machine = match spec.needs_machine() {
        true => Some(Installing::new(options, messages)?),
        false => None,
    };
    let image = with_progress(messages, |progress| {
        let machine = machine.as_mut().map(|m| m as &mut dyn Installer);
        nagori_image::rootfs(options, spec, machine, &mut |p| {
            worked = true;
            progress(p);
        })
        .map_err(|e| hint(options, e))
        .context("the root file system cannot be built")
    })?;
    if worked {
        let m = &image.manifest;
        messages.note(&format!(
            "built {} in {:.1} s: {} packages, {:.0} MB in {} files",
            image.path.display(),
            start.elapsed().as_secs_f64(),
            m.packages.len(),
            m.content as f64 / 1e6,
            m.entries
        ));
    }
    Ok(image)
}

/// The file of the root file system that `name` means: a base, the start of a key, or a file.
pub fn find(options: &Options, name: &str, messages: &Messages) -> anyhow::Result<PathBuf> {
    if let Some(image) = by_name(options, name, messages)? {
        return Ok(image.path);
    }
    let path = Path::new(name);
    if path.is_file() {
        match is_ext4(path).with_context(|| format!("--rootfs {name}: it cannot be read"))? {
            true => return Ok(path.to_path_buf()),
            false => bail!(
                "--rootfs {name}: it holds no ext4 file system (one made by mke2fs on the whole image, without partitions)"
            ),
        }
    }
    bail!(
        "--rootfs {name}: neither `run` nor `system`, nor the start of one key of `nagori image list`, nor a file"
    )
}

/// Whether a file begins as an ext4 file system does: its magic number is in the superblock.
fn is_ext4(path: &Path) -> std::io::Result<bool> {
    const MAGIC: (u64, [u8; 2]) = (1024 + 56, [0x53, 0xef]);
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(MAGIC.0))?;
    let mut found = [0; 2];
    match file.read_exact(&mut found) {
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| found == MAGIC.1),
    }
}

/// A root file system by its base, which is built if need be, or by its key.
pub fn by_name(
    options: &Options,
    name: &str,
    messages: &Messages,
) -> anyhow::Result<Option<RootFs>> {
    if let Ok(base) = BaseName::from_str(name, false) {
        let spec = RootfsSpec::new(base.base());
        return build(options, &spec, messages).map(Some);
    }
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let mut found = list_rootfs(options)?;
    found.retain(|r| r.manifest.key.starts_with(name));
    match found.len() {
        0 => Ok(None),
        1 => Ok(found.pop()),
        n => bail!("{n} root file systems have a key that starts with {name}: give more digits"),
    }
}

/// The same, where nothing else is meant.
pub fn named(options: &Options, name: &str, messages: &Messages) -> anyhow::Result<RootFs> {
    by_name(options, name, messages)?.with_context(|| {
        format!("no root file system `{name}`: give run, system, or the start of a key of `nagori image list`")
    })
}

pub fn print(image: &RootFs, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return output::print_json(&json!({ "rootfs": image.path, "manifest": image.manifest }));
    }
    output::print(&format!("{}\n", image.path.display()))
}

/// A line for each.
pub fn list(images: &[RootFs], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let all: Vec<_> = images
            .iter()
            .map(|i| json!({ "rootfs": i.path, "manifest": i.manifest }))
            .collect();
        return output::print_json(&json!(all));
    }
    let mut text = String::new();
    for i in images {
        let m = &i.manifest;
        let _ = writeln!(
            text,
            "{}  {:<6}  {:>4} packages  {:>5.0} MB  {}",
            &m.key[..m.key.len().min(12)],
            base(m.spec.base),
            m.packages.len(),
            m.content as f64 / 1e6,
            m.spec.packages.join(",")
        );
    }
    output::print(&text)
}

/// What it is made of.
pub fn show(image: &RootFs, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print(image, true);
    }
    let m = &image.manifest;
    let mut text = format!(
        "key       {}\nfile      {}\nsize      {} bytes, {} of them files\nfree      {} MiB\n\
         sha256    {}\nbase      {}\nsuite     {}\nclock     {}\nbuilt by  {}, {}\nprograms  {}\n",
        m.key,
        image.path.display(),
        m.image.size,
        m.content,
        m.spec.free_mib,
        m.image.sha256,
        base(m.spec.base),
        m.suite,
        crate::rtc::text(m.date),
        m.builder,
        m.tools,
        m.programs.join(" ")
    );
    if !m.installed.is_empty() {
        let _ = writeln!(text, "installed {}", m.installed.join(" "));
    }
    for p in &m.provided {
        let _ = writeln!(text, "provided  {} {}", p.file, p.sha256);
    }
    text.push('\n');
    for p in &m.packages {
        let _ = writeln!(text, "{:<32} {:<32} {}", p.name, p.version, p.sha256);
    }
    output::print(&text)
}

fn base(base: Base) -> &'static str {
    match base {
        Base::Run => "run",
        Base::System => "system",
    }
}
