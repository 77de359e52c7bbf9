//! Folders of the host.

use crate::caller::Caller;
use crate::error::{Context, Error, Result};
use nagori_config::{slot_names, SlotConfig, SlotKind};
use nagori_machine::Machine;
use nagori_ninep::Folder;
use nagori_platform::devices::virtio::Share;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::path::PathBuf;

/// Greatest number of lost files whose names are reported one by one.
const TOLD: usize = 5;

/// A folder of the host for the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareSpec {
    /// The folder.
    pub folder: PathBuf,
    /// Name of the slot, and mount tag.
    pub tag: Option<String>,
    /// Whether the guest may write.
    pub writable: bool,
}

impl ShareSpec {
    /// A folder that the guest may read, with a tag from its number.
    pub fn new(folder: impl Into<PathBuf>) -> ShareSpec {
        ShareSpec {
            folder: folder.into(),
            tag: None,
            writable: false,
        }
    }

    /// Parses `DIR[:TAG][,rw]`.
    pub fn parse(text: &str) -> Result<ShareSpec, String> {
        let (rest, writable) = match text.strip_suffix(",rw") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (folder, tag) = match rest.rsplit_once(':') {
            // Text with a slash is part of the folder's name.
            Some((folder, tag)) if !tag.contains('/') => (folder, Some(tag)),
            _ => (rest, None),
        };
        if folder.is_empty() {
            return Err("the name of a folder is missing".into());
        }
        // Tags are the names that slots may have.
        if let Some(tag) = tag {
            format!("share:{tag}").parse::<SlotConfig>()?;
        }
        Ok(ShareSpec {
            folder: folder.into(),
            tag: tag.map(String::from),
            writable,
        })
    }
}

/// The slots that the options take, in their order; missing slots are appended. An option with a
/// tag takes the share of that name, one without a tag the next share that no other option takes.
pub fn assign(shares: &[ShareSpec], slots: &mut Vec<SlotConfig>) -> Result<Vec<usize>> {
    let mut taken: Vec<Option<usize>> = vec![None; shares.len()];
    for (n, tag) in shares.iter().enumerate() {
        let Some(tag) = &tag.tag else { continue };
        let names = slot_names(slots);
        let found = names.iter().position(|name| name == tag);
        let slot = match found {
            Some(slot) if slots[slot].kind != SlotKind::Share => {
                return Err(Error::Request(format!(
                    "--share: `{tag}` is a device of another kind: choose another tag"
                )))
            }
            Some(slot) if taken.contains(&Some(slot)) => {
                return Err(Error::Request(format!(
                    "--share: two folders have the tag `{tag}`"
                )))
            }
            Some(slot) => slot,
            None => {
                slots.push(SlotConfig {
                    kind: SlotKind::Share,
                    name: Some(tag.clone()),
                });
                slots.len() - 1
            }
        };
        taken[n] = Some(slot);
    }
    for n in 0..shares.len() {
        if taken[n].is_none() {
            let free = |&s: &usize| slots[s].kind == SlotKind::Share && !taken.contains(&Some(s));
            let slot = (0..slots.len()).find(free);
            taken[n] = Some(slot.unwrap_or_else(|| {
                slots.push(SlotConfig::new(SlotKind::Share));
                slots.len() - 1
            }));
        }
    }
    Ok(taken.into_iter().flatten().collect())
}

/// Connects the folders to their slots.
pub fn connect(shares: &[ShareSpec], machine: &mut Machine, caller: &dyn Caller) -> Result<()> {
    if shares.is_empty() {
        return Ok(());
    }
    raise_file_limit();
    let mut slots = machine.config().devices.clone();
    let there = slots.len();
    for (arg, slot) in shares.iter().zip(assign(shares, &mut slots)?) {
        let name = arg.folder.display();
        if slot >= there {
            return Err(Error::Request(format!(
                "--share {name}: the machine that was saved has no share for it; its \
                devices cannot be changed"
            )));
        }
        let folder = Folder::open(&arg.folder, arg.writable).context("--share")?;
        let lost = machine
            .virtio(slot, |share: &mut Share, _| share.connect(folder))
            .ok_or_else(|| Error::Request(format!("--share {name}: slot {slot} is no share")))?
            .with_context(|| format!("--share {name}"))?;
        for file in lost.iter().take(TOLD) {
            caller.warning(&format!(
                "--share {name}: the guest had {file} open, which is not there"
            ));
        }
        if lost.len() > TOLD {
            let more = lost.len() - TOLD;
            caller.warning(&format!("--share {name}: and {more} more"));
        }
    }
    Ok(())
}

/// The guest's open files are open in this process: it needs as many as the system allows.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Otherwise the guest gets an error sooner (too many open files).
    let _ = setrlimit(Resource::Nofile, raised);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, Option<String>, bool), String> {
        let a = ShareSpec::parse(text)?;
        Ok((a.folder.display().to_string(), a.tag, a.writable))
    }

    #[test]
    fn options_are_read_or_refused() {
        let some = |folder: &str, tag: Option<&str>, writable| {
            Ok((folder.to_string(), tag.map(String::from), writable))
        };
        assert_eq!(read("."), some(".", None, false));
        assert_eq!(read("a/b,rw"), some("a/b", None, true));
        assert_eq!(read("a:data"), some("a", Some("data"), false));
        assert_eq!(read("a:x:data,rw"), some("a:x", Some("data"), true));
        assert_eq!(read("a:x/b"), some("a:x/b", None, false));
        assert_eq!(
            read("a,ro"),
            some("a,ro", None, false),
            "a name with a comma"
        );
        for bad in [
            "",
            ",rw",
            ":data",
            "a:",
            "a:b c",
            "a:b,ro",
            "a:123456789012345678901",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_find_their_slots_or_get_new_ones() {
        let assigned = |options: &[&str], slots: &[&str]| {
            let shares: Vec<ShareSpec> = options
                .iter()
                .map(|o| ShareSpec::parse(o).unwrap())
                .collect();
            let mut slots: Vec<SlotConfig> = slots.iter().map(|s| s.parse().unwrap()).collect();
            let taken = assign(&shares, &mut slots).map_err(|e| e.to_string())?;
            let slots: Vec<String> = slots.iter().map(|s| s.to_string()).collect();
            Ok::<_, String>((taken, slots.join(" ")))
        };
        let ok = |taken: &[usize], slots: &str| Ok((taken.to_vec(), slots.to_string()));
        assert_eq!(assigned(&[], &["block"]), ok(&[], "block"));
        assert_eq!(assigned(&["a", "b:x"], &[]), ok(&[1, 0], "share:x share"));
        assert_eq!(
            assigned(&["a", "b:x", "c"], &["share:x", "net", "share:y"]),
            ok(&[2, 0, 3], "share:x net share:y share")
        );
        assert_eq!(assigned(&["a:share0"], &["share"]), ok(&[0], "share"));
        assert!(assigned(&["a:x", "b:x"], &[])
            .unwrap_err()
            .contains("tag `x`"));
        assert!(assigned(&["a:net0"], &["net"]).is_err());
    }
}
