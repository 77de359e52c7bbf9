//! Disks of the host.

use crate::drive::{Service, Wishes};
use crate::output::Messages;
use anyhow::{bail, Context};
use nagori_disk::{Disk, Writes};
use nagori_hart::world::Observer;
use nagori_platform::devices::virtio::Block;
use nagori_platform::machine::{Machine, Stop};
use std::path::PathBuf;

/// An overlay that is thrown away; a file of this name is `./temp`.
const TEMPORARY: &str = "temp";

/// A `--disk` option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskArg {
    /// The raw file.
    pub file: PathBuf,
    /// Where writes go.
    pub writes: Writes,
}

impl DiskArg {
    /// A file that stays as it is: writes are thrown away at the end.
    pub fn temporary(file: PathBuf) -> DiskArg {
        DiskArg {
            file,
            writes: Writes::Temporary,
        }
    }

    /// Reads `FILE[,ro][,overlay=FILE|temp]`.
    pub fn parse(text: &str) -> Result<DiskArg, String> {
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
                        "`{part}` is not known: expected ro, overlay=FILE or overlay={TEMPORARY} (names with commas are not possible)"
                    ))
                }
            };
            if writes.replace(this).is_some() {
                return Err("give one of ro and overlay, once".into());
            }
        }
        Ok(DiskArg {
            file: file.into(),
            writes: writes.unwrap_or(Writes::Through),
        })
    }
}

/// The disks of a machine: tells what goes wrong on the host.
pub struct Disks<'a> {
    slots: Vec<usize>,
    messages: &'a Messages,
}

impl<'a> Disks<'a> {
    /// Opens the files and puts them into slots; `None` if there are none.
    pub fn connect<O: Observer>(
        disks: &[DiskArg],
        slots: &[usize],
        machine: &mut Machine<O>,
        messages: &'a Messages,
    ) -> anyhow::Result<Option<Disks<'a>>> {
        for (arg, slot) in disks.iter().zip(slots) {
            let name = arg.file.display();
            let disk = Disk::open(&arg.file, &arg.writes).context("--disk")?;
            machine
                .virtio(*slot, |b: &mut Block, port| b.connect(disk, port))
                .with_context(|| format!("--disk {name}: slot {slot} is no block device"))?
                .with_context(|| format!("--disk {name}"))?;
        }
        for slot in slots.iter().skip(disks.len()) {
            let wanted = |b: &mut Block| b.expected().map(|e| e.size);
            if let Some(Some(size)) = machine.virtio(*slot, |b, _| wanted(b)) {
                bail!("the saved guest has a disk of {size} bytes in slot {slot}: give it again with --disk");
            }
        }
        let used = disks.len().min(slots.len());
        Ok((used > 0).then(|| Disks {
            slots: slots[..used].to_vec(),
            messages,
        }))
    }

    /// Tells each disk's first error.
    fn tell<O: Observer>(&mut self, machine: &mut Machine<O>) {
        let messages = self.messages;
        // Whoever has failed once is known: it is told once.
        self.slots.retain(|slot| {
            let error = machine.virtio(*slot, |b: &mut Block, _| b.take_host_error());
            match error.flatten() {
                Some((text, _)) => {
                    messages.warning(&text);
                    false
                }
                None => true,
            }
        });
    }
}

impl<O: Observer> Service<O> for Disks<'_> {
    fn after(&mut self, machine: &mut Machine<O>, _: Stop, _: &mut Wishes) -> anyhow::Result<()> {
        self.tell(machine);
        Ok(())
    }

    fn finish(&mut self, machine: &mut Machine<O>) -> anyhow::Result<()> {
        for slot in 0..machine.bus().slots() {
            let flushed = machine.virtio(slot, |b: &mut Block, _| b.flush());
            flushed
                .unwrap_or(Ok(()))
                .context("the last writes to a disk may be lost")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_or_refused() {
        let read = |t: &str| DiskArg::parse(t).map(|d| (d.file.display().to_string(), d.writes));
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
