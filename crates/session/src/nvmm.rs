//! Images of NVMM that outlive a run.

use crate::disks::DiskSpec;
use crate::error::{Error, Result};
use nagori_config::Machine as Description;
use nagori_disk::Writes;
use nagori_machine::{nvmm_for_image, ImageContent, ImageUse, Machine};
use nagori_nvmm::{Access, Image};
use std::path::PathBuf;

/// The key that says whether a machine knows what is durable.
const TRACK: &str = "memory.track_persistence";

/// An image of NVMM for a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmmSpec {
    /// The image.
    pub file: PathBuf,
    /// Where changes go.
    pub writes: Writes,
}

/// The state of an image: its identity, and how often machines have written to it.
pub(crate) type State = ([u64; 2], u64);

impl NvmmSpec {
    /// Parses `FILE[,ro][,overlay=FILE|temp]`.
    pub fn parse(text: &str) -> Result<NvmmSpec, String> {
        let disk = DiskSpec::parse(text)?;
        Ok(NvmmSpec {
            file: disk.file,
            writes: disk.writes,
        })
    }

    fn how(&self) -> ImageUse {
        match &self.writes {
            Writes::Through | Writes::Overlay(_) => ImageUse::Write,
            Writes::Refused => ImageUse::ReadOnly,
            Writes::Temporary => ImageUse::Temporary,
        }
    }

    /// What it changes in a machine's description, where the user has not said it otherwise: the machine has to
    /// know what is durable.
    pub fn settings(&self, given: &[String]) -> Vec<String> {
        let said = { given.iter() }.any(|s| s.split('=').next().map(str::trim) == Some(TRACK));
        if self.how() == ImageUse::Write && !said {
            vec![format!("{TRACK}=true")]
        } else {
            Vec::new()
        }
    }

    /// An error if the image is not that of a machine, before anything is done for it.
    pub fn check(&self, description: &Description) -> Result<()> {
        let fits = nvmm_for_image(&description.config, self.how())?;
        Image::open(&self.file, Access::Read)
            .and_then(|image| image.check(&fits))
            .map_err(|e| self.error(e))
    }

    fn error(&self, e: nagori_nvmm::Error) -> Error {
        let missing = matches!(&e, nagori_nvmm::Error::Io { source, .. }
            if source.kind() == std::io::ErrorKind::NotFound);
        if missing {
            Error::Request(format!(
                "--nvmm-image {}: there is no such file; `nagori nvmm create` makes one",
                self.file.display()
            ))
        } else {
            Error::Request(format!("--nvmm-image {e}"))
        }
    }

    /// The image, for a machine.
    fn open(&self) -> Result<Image> {
        let opened = match &self.writes {
            Writes::Through => Image::open(&self.file, Access::Write),
            Writes::Overlay(file) => Image::overlay(&self.file, file),
            Writes::Refused | Writes::Temporary => Image::open(&self.file, Access::Read),
        };
        opened.map_err(|e| self.error(e))
    }

    /// The image as it is now, to look at.
    fn look(&self) -> Result<Image> {
        let file = match &self.writes {
            Writes::Overlay(file) if file.exists() => file,
            _ => &self.file,
        };
        Image::open(file, Access::Read).map_err(|e| self.error(e))
    }

    /// Puts the image behind a machine's NVMM.
    pub fn attach(&self, machine: &mut Machine) -> Result<()> {
        Ok(machine.attach_nvmm(self.open()?, self.how(), ImageContent::OfImage)?)
    }

    /// Gives a machine that boots for a later run the image's content, and nothing of it changes.
    pub(crate) fn show(&self, machine: &mut Machine) -> Result<()> {
        let image = self.look()?;
        Ok(machine.attach_nvmm(image, ImageUse::Temporary, ImageContent::OfImage)?)
    }

    /// The state of the image before a boot.
    pub(crate) fn state(&self) -> Result<State> {
        let image = self.look()?;
        Ok((image.header().id, image.generation()))
    }

    /// Puts the image behind the NVMM of a machine that was booted when the image had this state.
    pub(crate) fn go_on(&self, machine: &mut Machine, booted: State) -> Result<()> {
        let image = self.open()?;
        let fresh = image.header().parent == Some(booted) && image.generation() == 0;
        if (image.header().id, image.generation()) != booted && !fresh {
            return Err(Error::Request(format!(
                "--nvmm-image {}: another machine has written to it since the boot",
                self.file.display()
            )));
        }
        Ok(machine.attach_nvmm(image, self.how(), ImageContent::OfMachine)?)
    }
}

/// Ends the use of an image of NVMM, unless it could not be kept up to date: then it stays as it was at that moment.
pub(crate) fn close_image(machine: &mut Machine) -> Result<()> {
    match machine.check_image() {
        Ok(()) => Ok(machine.close_nvmm()?),
        Err(_) => Ok(()),
    }
}
