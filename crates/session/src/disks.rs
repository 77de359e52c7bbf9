//! Disks of the host.

use crate::caller::Caller;
use crate::drive::{Service, Wishes};
use crate::error::{Context, Error, Result};
use nagori_config::SlotKind;
use nagori_disk::{Disk, Writes};
use nagori_machine::{Machine, Stop};
use nagori_platform::devices::virtio::Block;
use nagori_snapshot::Meta;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

/// An overlay that is thrown away; a file of this name is given as `./temp`.
const TEMPORARY: &str = "temp";

/// A disk of the host for the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSpec {
    /// The raw file.
    pub file: PathBuf,
    /// Where writes go.
    pub writes: Writes,
    /// The command-line option from which it comes: errors begin with it.
    pub option: &'static str,
}

/// The option of disks.
const OPTION: &str = "--disk";
/// The option of root file systems, which are also disks.
const ROOTFS: &str = "--rootfs";
/// Key under which a snapshot records the disks of its guest.
const NOTE: &str = "disks";

impl DiskSpec {
    /// A raw file, and where writes go.
    pub fn new(file: impl Into<PathBuf>, writes: Writes) -> DiskSpec {
        DiskSpec {
            file: file.into(),
            writes,
            option: OPTION,
        }
    }

    /// A root file system, whose file is not changed: writes are thrown away at the end.
    pub fn rootfs(file: PathBuf) -> DiskSpec {
        DiskSpec {
            file,
            writes: Writes::Temporary,
            option: ROOTFS,
        }
    }

    /// Parses `FILE[,ro][,overlay=FILE|temp]`.
    pub fn parse(text: &str) -> Result<DiskSpec, String> {
        let mut parts = text.split(',');
        let file = parts.next().filter(|f| !f.is_empty());
        let file = file.ok_or("the name of a file is missing")?;
        let mut writes = None;
        for part in parts {
            let this = match part.split_once('=') {
                None if part == "ro" => Writes::Refused,
                Some(("overlay", TEMPORARY)) => Writes::Temporary,
                Some(("overlay", file)) if !file.is_empty() => Writes::Overlay(file.into()),
                _ => {
                    return Err(format!(
                        "`{part}` is not known: expected ro, overlay=FILE or overlay={TEMPORARY} (names with commas \
                            are not possible)"
                    ))
                }
            };
            if writes.replace(this).is_some() {
                return Err("give one of ro and overlay, once".into());
            }
        }
        Ok(DiskSpec {
            file: file.into(),
            writes: writes.unwrap_or(Writes::Through),
            option: OPTION,
        })
    }
}

/// A disk as `--disk` takes it.
fn written(file: &Path, writes: &Writes) -> String {
    // Absolute, since the resuming command may run in another directory.
    let full = |p: &Path| std::path::absolute(p).unwrap_or_else(|_| p.to_path_buf());
    let file = full(file).display().to_string();
    match writes {
        Writes::Through => file,
        Writes::Refused => format!("{file},ro"),
        Writes::Temporary => format!("{file},overlay={TEMPORARY}"),
        Writes::Overlay(o) => format!("{file},overlay={}", full(o).display()),
    }
}

/// Records for a snapshot which disks a machine has, slot by slot.
pub fn note(machine: &mut Machine, slots: &[usize], meta: &mut Meta) {
    let mut disk = |slot: &usize| -> Option<String> {
        machine.virtio(*slot, |b: &mut Block, _| {
            let disk = b.disk()?;
            let (file, writes) = disk.origin()?;
            Some(written(file, writes))
        })?
    };
    let disks: Vec<_> = slots.iter().map(|slot| json!(disk(slot))).collect();
    if disks.iter().any(|d| !d.is_null()) {
        meta.insert(NOTE.into(), json!(disks));
    }
}

/// An error with their names if not all disks of a snapshot's guest are given.
pub fn check_noted(disks: &[DiskSpec], meta: &Meta) -> Result<()> {
    let noted = meta.get(NOTE).and_then(Value::as_array);
    let missing = noted.into_iter().flatten().skip(disks.len());
    let missing: Vec<&str> = missing.filter_map(Value::as_str).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Error::Request(format!(
            "the saved guest has disks that belong to the host, and are given again as they were: {OPTION} {}",
            missing.join(&format!(" {OPTION} "))
        )))
    }
}

/// The disks of a machine: reports errors of the host.
pub struct Disks<'a> {
    slots: Vec<usize>,
    caller: &'a dyn Caller,
}

impl<'a> Disks<'a> {
    /// Opens the files and connects them to slots; `None` if there are none.
    pub fn connect(
        disks: &[DiskSpec],
        slots: &[usize],
        machine: &mut Machine,
        caller: &'a dyn Caller,
    ) -> Result<Option<Disks<'a>>> {
        for (arg, slot) in disks.iter().zip(slots) {
            let name = arg.file.display();
            let option = arg.option;
            let disk = Disk::open(&arg.file, &arg.writes).context(option)?;
            machine
                .virtio(*slot, |b: &mut Block, port| b.connect(disk, port))
                .ok_or_else(|| {
                    Error::Request(format!("{option} {name}: slot {slot} is no block device"))
                })?
                .with_context(|| format!("{option} {name}"))?;
        }
        for slot in slots.iter().skip(disks.len()) {
            let wanted = |b: &mut Block| b.expected().map(|e| e.size);
            if let Some(Some(size)) = machine.virtio(*slot, |b, _| wanted(b)) {
                return Err(Error::Request(format!(
                    "the saved guest has a disk of {size} bytes in slot {slot}: give it \
                    again with --disk"
                )));
            }
        }
        let used = disks.len().min(slots.len());
        Ok((used > 0).then(|| Disks {
            slots: slots[..used].to_vec(),
            caller,
        }))
    }

    /// Reports each disk's first error.
    fn tell(&mut self, machine: &mut Machine) {
        let caller = self.caller;
        // Each disk's failure is reported once.
        self.slots.retain(|slot| {
            let error = machine.virtio(*slot, |b: &mut Block, _| b.take_host_error());
            match error.flatten() {
                Some((text, _)) => {
                    caller.warning(&text);
                    false
                }
                None => true,
            }
        });
    }
}

impl Service for Disks<'_> {
    fn after(&mut self, machine: &mut Machine, _: Stop, _: &mut Wishes) -> Result<()> {
        self.tell(machine);
        Ok(())
    }

    fn finish(&mut self, machine: &mut Machine) -> Result<()> {
        for slot in 0..machine.bus().slots() {
            let flushed = machine.virtio(slot, |b: &mut Block, _| b.flush());
            flushed
                .unwrap_or(Ok(()))
                .context("the last writes to a disk may be lost")?;
        }
        Ok(())
    }
}

/// The slots of a kind, in order.
pub(crate) fn slots_of(machine: &Machine, kind: SlotKind) -> Vec<usize> {
    let slots = machine.config().devices.iter().enumerate();
    slots
        .filter(|(_, s)| s.kind == kind)
        .map(|(n, _)| n)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_or_refused() {
        let read = |t: &str| DiskSpec::parse(t).map(|d| (d.file.display().to_string(), d.writes));
        let some = |file: &str, writes| Ok((file.to_string(), writes));
        assert_eq!(read("a.img"), some("a.img", Writes::Through));
        assert_eq!(read("d/a,ro"), some("d/a", Writes::Refused));
        assert_eq!(read("a,overlay=temp"), some("a", Writes::Temporary));
        let kept = Writes::Overlay("./temp".into());
        assert_eq!(read("a,overlay=./temp"), some("a", kept));
        for bad in [
            "",
            ",ro",
            "a,rw",
            "a,ro,ro",
            "a,ro,overlay=temp",
            "a,overlay=",
            "a,overlay",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
