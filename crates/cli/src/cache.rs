//! `nagori cache`: what the cache directory holds, and making room.

use anyhow::Context;
use clap::Subcommand;
use nagori_session::words::bytes;
use nagori_terminal::args::CacheArgs;
use nagori_terminal::numbers::count;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Show what is cached, and make room.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// List what is cached, the last used first, with its size on the disk.
    ///
    /// Example: nagori cache show
    Show {
        #[command(flatten)]
        cache: CacheArgs,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Remove what was not used for the longest time; it is made or fetched again on demand.
    ///
    /// Runs that have started from something go on. With --cache-limit it removes only as much as is over that size;
    /// without an option everything.
    ///
    /// Examples: nagori cache prune --cache-limit 1GiB; nagori cache prune --older-than 30 --dry-run
    Prune {
        #[command(flatten)]
        cache: CacheArgs,
        /// Remove only what was not used for this many days.
        #[arg(long, value_name = "DAYS", value_parser = count::<u64>(..))]
        older_than: Option<u64>,
        /// Print what would be removed, and remove nothing.
        #[arg(long)]
        dry_run: bool,
    },
}

/// A part of the cache that can be removed by itself.
struct Part {
    kind: &'static str,
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Where parts are, and what they are. `apt` was the state of apt, which older versions used.
const KINDS: [(&str, &str); 8] = [
    ("boots", "boot"),
    ("images", "image"),
    ("rootfs/images", "root file system"),
    ("packages", "package"),
    ("rootfs/packages", "package"),
    ("rootfs/resolved", "choice of packages"),
    ("archive", "index"),
    ("apt", "state of apt, not used any more"),
];

/// Runs the command.
pub fn command(command: &CacheCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match command {
        CacheCommand::Show { cache, json } => show(&cache.options()?.cache_dir, *json)?,
        CacheCommand::Prune {
            cache,
            older_than,
            dry_run,
        } => {
            let dir = cache.options()?.cache_dir;
            let age = older_than.map(|d| Duration::from_secs(d.saturating_mul(86_400)));
            let gone = chosen(parts(&dir)?, cache.cache_limit, age, SystemTime::now());
            for p in &gone {
                if !dry_run {
                    remove(&p.path)?;
                }
                let verb = if *dry_run { "would remove" } else { "removed" };
                messages.note(&format!("{verb} {} ({})", p.path.display(), bytes(p.bytes)));
            }
            let sum = gone.iter().map(|p| p.bytes).sum();
            let verb = if *dry_run { "would be free" } else { "freed" };
            messages.note(&format!("{}: {verb}", bytes(sum)));
        }
    }
    Ok(SUCCESS)
}

fn show(dir: &Path, as_json: bool) -> anyhow::Result<()> {
    let all = parts(dir)?;
    let sum: u64 = all.iter().map(|p| p.bytes).sum();
    let now = SystemTime::now();
    let age = |p: &Part| now.duration_since(p.used).unwrap_or_default().as_secs();
    if as_json {
        let list: Vec<_> = { all.iter() }
            .map(
                |p| json!({ "kind": p.kind, "path": p.path, "bytes": p.bytes, "unused_s": age(p) }),
            )
            .collect();
        return output::print_json(&json!({ "dir": dir, "bytes": sum, "parts": list }));
    }
    let mut text = String::new();
    for p in &all {
        let name = p.path.strip_prefix(dir).unwrap_or(&p.path);
        let days = age(p) / 86_400;
        text += &format!(
            "{:>9}  {:>4} d  {:<18} {}\n",
            bytes(p.bytes),
            days,
            p.kind,
            name.display()
        );
    }
    text += &format!("{:>9}  in {}\n", bytes(sum), dir.display());
    output::print(&text)
}

/// What is cached, the last used first.
fn parts(dir: &Path) -> anyhow::Result<Vec<Part>> {
    let mut all = Vec::new();
    for (place, kind) in KINDS {
        let place = dir.join(place);
        let list = match fs::read_dir(&place) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            list => list.with_context(|| format!("cannot read {}", place.display()))?,
        };
        for e in list.flatten() {
            let (bytes, used) = measured(&e.path());
            all.push(Part {
                kind,
                path: e.path(),
                bytes,
                used,
            });
        }
    }
    all.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
    Ok(all)
}

/// Bytes on the disk, and when it or something in it was changed last. What others remove meanwhile counts nothing.
fn measured(path: &Path) -> (u64, SystemTime) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return (0, SystemTime::UNIX_EPOCH);
    };
    let mut all = (
        meta.blocks() * 512,
        meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
    );
    if meta.is_dir() {
        for e in fs::read_dir(path).into_iter().flatten().flatten() {
            let (bytes, used) = measured(&e.path());
            all = (all.0 + bytes, all.1.max(used));
        }
    }
    all
}

/// What is to be removed, the longest unused first.
fn chosen(
    parts: Vec<Part>,
    limit: Option<u64>,
    age: Option<Duration>,
    now: SystemTime,
) -> Vec<Part> {
    let mut sum: u64 = parts.iter().map(|p| p.bytes).sum();
    let mut gone = Vec::new();
    for p in parts.into_iter().rev() {
        if limit.is_some_and(|l| sum <= l) {
            break;
        }
        let unused = now.duration_since(p.used).unwrap_or_default();
        if age.is_some_and(|a| unused < a) {
            break;
        }
        sum -= p.bytes;
        gone.push(p);
    }
    gone
}

fn remove(path: &Path) -> anyhow::Result<()> {
    let gone = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match gone {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_go_first() {
        let now = SystemTime::now();
        let day = Duration::from_secs(86_400);
        let parts = || -> Vec<Part> {
            let part = |(n, bytes): (u32, u64)| Part {
                kind: "boot",
                path: format!("{n}").into(),
                bytes,
                used: now - day * n,
            };
            [(1, 10), (2, 20), (3, 30)].map(part).into()
        };
        let names = |limit, age: Option<u32>| -> Vec<String> {
            let gone = chosen(parts(), limit, age.map(|d| day * d), now);
            gone.iter().map(|p| p.path.display().to_string()).collect()
        };
        assert_eq!(names(None, None), ["3", "2", "1"]);
        assert_eq!(names(Some(60), None), [""; 0]);
        assert_eq!(names(Some(59), None), ["3"]);
        assert_eq!(names(Some(10), None), ["3", "2"]);
        assert_eq!(names(None, Some(2)), ["3", "2"]);
        assert_eq!(names(Some(10), Some(3)), ["3"]);
    }

    #[test]
    fn everything_is_found_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        for (place, _) in KINDS {
            let place = dir.path().join(place).join("x");
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("file"), [1; 9000]).unwrap();
        }
        let all = parts(dir.path()).unwrap();
        assert_eq!(all.len(), KINDS.len());
        assert!(all.iter().all(|p| p.bytes >= 9000));
        for p in &all {
            remove(&p.path).unwrap();
            remove(&p.path).unwrap();
        }
        assert!(parts(dir.path()).unwrap().is_empty());
    }
}
