//! A file that holds what is durable of NVMM.
//!
//! The file's content is the machine's memory itself, so it has the newest bytes. For lines of which a power cut
//! would leave older ones (see `power`), those are in the image's undo area before the newer ones are
//! stored. So the file says at every instant what was durable, even if the process is killed.

use super::attached::Attached;
use super::world::Surroundings;
use super::{Machine, MachineError};
use nagori_config::{MachineConfig, PersistenceDomain};
use nagori_nvmm::{Domain, Geometry, Image, Words};
use nagori_ram::{GuestRam, Sharing, PAGE};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a line.
const LINE: u64 = nagori_nvmm::LINE;
/// Bytes that are compared at once.
const PART: u64 = 1 << 20;

/// What happens to the content of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageUse {
    /// It changes with NVMM. The image must be open for writing.
    Write,
    /// Stores to NVMM are access faults.
    ReadOnly,
    /// Changes are lost with the machine.
    Temporary,
}

/// Which content counts, if a machine that is not new has another one than its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageContent {
    /// The image's: a difference is an error.
    OfImage,
    /// The machine's: it is written to the image.
    OfMachine,
}

/// The NVMM of a machine; `None` if it has none.
pub fn geometry(config: &MachineConfig) -> Option<Geometry> {
    let m = &config.memory;
    let len = m.size.0 - m.nvmm_boundary.0;
    (len > 0).then(|| Geometry {
        base: m.nvmm_base(),
        len,
        machine: config.name.clone(),
    })
}

/// The NVMM of a machine that may use an image like that; an error if it has none, or does not know what is durable.
pub fn nvmm_for_image(config: &MachineConfig, how: ImageUse) -> Result<Geometry, MachineError> {
    let nvmm = geometry(config).ok_or(MachineError::NoNvmm)?;
    let known = config.memory.track_persistence || domain(config) == Domain::Eadr;
    if how == ImageUse::Write && !known {
        Err(MachineError::ImageNotTracked)
    } else {
        Ok(nvmm)
    }
}

/// The persistence domain of a machine.
fn domain(config: &MachineConfig) -> Domain {
    match config.memory.persistence_domain {
        PersistenceDomain::None => Domain::None,
        PersistenceDomain::Adr => Domain::Adr,
        PersistenceDomain::Eadr => Domain::Eadr,
        PersistenceDomain::Gpf => Domain::Gpf {
            lines: config.memory.gpf_lines,
        },
    }
}

fn words(bytes: &[u8]) -> Words {
    let mut w = Words::default();
    for (w, b) in w.iter_mut().zip(bytes.chunks_exact(8)) {
        *w = u64::from_le_bytes(b.try_into().expect("eight bytes"));
    }
    w
}

fn put(ram: &GuestRam, offset: u64, w: &Words) {
    for (i, v) in w.iter().enumerate() {
        // Lines are in memory.
        let _ = ram.write_u64(offset + 8 * i as u64, *v);
    }
}

impl Machine {
    /// Puts an image behind NVMM: NVMM has its durable content from now on. To be called before software is
    /// loaded; or for a restored machine, whose NVMM has the same content as the image, or whose content goes into the
    /// image.
    ///
    /// Unless caches are in the persistence domain, the description must have `memory.track_persistence` for an
    /// image that changes.
    pub fn attach_nvmm(
        &mut self,
        mut image: Image,
        how: ImageUse,
        content: ImageContent,
    ) -> Result<(), MachineError> {
        let fits = nvmm_for_image(&self.config, how)?;
        image.check(&fits)?;
        let domain = domain(&self.config);
        let w = &mut *self.world;
        let start = fits.base - w.ram_base;
        let (restored, others) = w.compare(&image, start, fits.len)?;
        if let (ImageContent::OfImage, Some((at, _))) = (content, others.first()) {
            return Err(MachineError::ImageDiffers(w.ram_base + at));
        }
        // Lines that are newer in a restored machine than what is durable.
        let newest: Vec<(u64, Words)> = match (&w.behind, restored) {
            (Some(b), true) => { b.changed(fits.base, fits.len).into_iter() }
                .map(|l| {
                    let mut bytes = [0; LINE as usize];
                    w.ram.read_bytes(l - w.ram_base, &mut bytes)?;
                    Ok((l, words(&bytes)))
                })
                .collect::<Result<_, MachineError>>()?,
            _ => Vec::new(),
        };
        let patches: Vec<(u64, Words)> = image.patches().map(|(l, w)| (l, *w)).collect();
        let undo = match how {
            ImageUse::Write => Some(image.begin(domain)?),
            _ => None,
        };
        let (file, at) = image.content();
        let sharing = match how {
            ImageUse::Write => Sharing::Shared,
            _ => Sharing::Private,
        };
        w.ram.back(start, fits.len, (file, at), sharing)?;
        for (line, words) in &patches {
            put(&w.ram, start + line, words);
        }
        for (at, bytes) in &others {
            w.ram.write_bytes(*at, bytes)?;
        }
        w.image = Some(Attached {
            image,
            undo,
            all: domain == Domain::Eadr,
            base: fits.base,
        });
        for (line, _) in &newest {
            w.note_durable(&[*line]);
        }
        for (line, words) in &newest {
            put(&w.ram, line - w.ram_base, words);
        }
        match how {
            // What runs may store by address where it may write already.
            ImageUse::Write => {
                for h in &self.harts {
                    for (offset, len) in h.writable_blocks() {
                        w.ram.reserve(offset, len);
                    }
                }
            }
            ImageUse::ReadOnly => {
                w.ram.forbid_writes();
                self.harts.iter_mut().for_each(|h| h.ask_before_writes());
            }
            ImageUse::Temporary => {}
        }
        w.check_image()
    }

    /// The image behind NVMM.
    pub fn nvmm_image(&self) -> Option<&Image> {
        self.world.image.as_ref().map(|a| &a.image)
    }

    /// An error if what is durable can no longer be kept in the image, for want of space: the image has the
    /// state of that moment.
    pub fn check_image(&self) -> Result<(), MachineError> {
        self.world.check_image()
    }

    /// Ends the use of the image, as a power cut would: afterwards the file has what was durable, and is on the host's
    /// medium. The machine may go on for its statistics only.
    pub fn close_nvmm(&mut self) -> Result<(), MachineError> {
        let now = self.now();
        self.world.apply_dma_writes();
        if self.world.timed {
            self.world.look_at_writes(now)?;
        }
        let Some(a) = self.world.image.take() else {
            return Ok(());
        };
        // What still runs must not change it.
        self.world.ram.freeze();
        drop(a.undo);
        Ok(a.image.close()?)
    }
}

impl Surroundings {
    fn check_image(&self) -> Result<(), MachineError> {
        match self.ram.backing_failure() {
            Some(e) => Err(MachineError::ImageFull(e)),
            None => Ok(()),
        }
    }

    /// Whether memory has any content, and pages of it of which something else is durable than the image has:
    /// offset and durable bytes. Memory without any content has none.
    #[allow(clippy::type_complexity)]
    fn compare(
        &self,
        image: &Image,
        start: u64,
        len: u64,
    ) -> Result<(bool, Vec<(u64, Vec<u8>)>), MachineError> {
        let inside = |r: &Range<u64>| r.start.max(start)..r.end.min(start + len);
        let mut parts = Vec::new();
        for r in self.ram.touched().iter().map(inside) {
            if r.start < r.end && !self.ram.is_zero(r.start, r.end - r.start)? {
                parts.push(r);
            }
        }
        if parts.is_empty() {
            return Ok((false, Vec::new()));
        }
        parts.extend(image.data()?.iter().map(|r| r.start + start..r.end + start));
        let mut others: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let (mut own, mut its) = (vec![0; PART as usize], vec![0; PART as usize]);
        for r in parts {
            let mut at = r.start;
            while at < r.end {
                let n = PART.min(r.end - at) as usize;
                let (own, its) = (&mut own[..n], &mut its[..n]);
                self.ram.read_bytes(at, own)?;
                image.read(at - start, its)?;
                if let Some(b) = &self.behind {
                    for line in b.changed(self.ram_base + at, n as u64) {
                        let to = (line - self.ram_base - at) as usize;
                        let durable = b.durable(line).copied().unwrap_or_default();
                        for (i, w) in durable.iter().enumerate() {
                            own[to + 8 * i..to + 8 * i + 8].copy_from_slice(&w.to_le_bytes());
                        }
                    }
                }
                let pages = own.chunks(PAGE as usize).zip(its.chunks(PAGE as usize));
                for (i, (a, b)) in pages.enumerate() {
                    if a != b {
                        let first = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
                        let from = at + i as u64 * PAGE + first as u64;
                        others.insert(from, a[first..].to_vec());
                    }
                }
                at += n as u64;
            }
        }
        Ok((true, others.into_iter().collect()))
    }

    /// Has the image know what is durable of lines now, all at once.
    pub(super) fn note_durable(&mut self, lines: &[u64]) {
        let Some(a) = &mut self.image else { return };
        let Some(undo) = a.undo.as_mut().filter(|_| !lines.is_empty()) else {
            return;
        };
        if a.all || self.ram.is_frozen() {
            return;
        }
        let b = self.behind.as_ref();
        let durable = |line: u64| b.and_then(|b| b.durable(line));
        let noted = match lines {
            // Lines of DRAM are beyond the end.
            [line] => undo.set(line.wrapping_sub(a.base), durable(*line)),
            _ => {
                let all = lines.iter();
                let all: Vec<_> = all
                    .map(|l| (l.wrapping_sub(a.base), durable(*l).copied()))
                    .collect();
                undo.set_all(&all)
            }
        };
        if let Err(e) = noted {
            self.ram.fail_backing(e);
        }
    }

    /// Has the image know that everything in memory is durable.
    pub(super) fn all_durable(&mut self) {
        let frozen = self.ram.is_frozen();
        let undo = self.image.as_mut().and_then(|a| a.undo.as_mut());
        if let Some(undo) = undo.filter(|_| !frozen) {
            undo.clear();
        }
    }
}
