//! What can be done with images without a machine.

use crate::error::Error;
use crate::header::{Geometry, CHUNK, LINE, PAGE};
use crate::{Access, Image};
use nagori_ram::data;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// What a look at the whole image has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// Bytes of the content that the host has allocated.
    pub allocated: u64,
    /// Lines that get their durable bytes back when it is opened for writing.
    pub lines: usize,
    /// Whether there are checksums of its present content: it was closed.
    pub summed: bool,
    /// First bytes of chunks of 1 MiB whose checksums are wrong, from the start of NVMM.
    pub wrong: Vec<u64>,
}

/// A range of bytes in which two images differ, from the start of NVMM, in whole lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// First byte.
    pub at: u64,
    /// Bytes.
    pub len: u64,
}

impl Image {
    /// Bytes of the content that the host has allocated, and lines that get their durable bytes back.
    pub fn sizes(&self) -> Result<(u64, usize), Error> {
        let len = self.header.geometry.len;
        let ranges = data(&self.file, self.header.data_at(), len)
            .map_err(Error::io(&self.path, "read it"))?;
        let allocated = ranges.iter().map(|r| r.end - r.start).sum();
        Ok((allocated, self.patches.len()))
    }

    /// Reads everything, and compares it with its checksums if it has any.
    pub fn verify(&self) -> Result<Findings, Error> {
        let fail = Error::io(&self.path, "read it");
        let (allocated, lines) = self.sizes()?;
        let mut found = Findings {
            allocated,
            lines,
            summed: !self.state.in_use && self.state.summed == self.state.generation,
            wrong: Vec::new(),
        };
        // An image that no machine has had has none.
        found.summed &= self.state.generation > 0;
        if found.summed {
            let mut noted = vec![0; 8 * (self.header.sums() as usize + 1)];
            self.file
                .read_exact_at(&mut noted, self.header.sums_at())
                .map_err(&fail)?;
            let noted: Vec<u64> = noted
                .chunks_exact(8)
                .map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")))
                .collect();
            let (sums, last) = noted.split_at(noted.len() - 1);
            let bytes: Vec<u8> = sums.iter().flat_map(|s| s.to_le_bytes()).collect();
            if xxh3_64(&bytes) != last[0] {
                return Err(Error::Damaged {
                    path: self.path.clone(),
                    problem: "the table of checksums".into(),
                });
            }
            let now = self.sums().map_err(&fail)?;
            let wrong = now.iter().zip(sums).enumerate();
            found.wrong = wrong
                .filter(|(_, (a, b))| a != b)
                .map(|(i, _)| i as u64 * CHUNK)
                .collect();
        }
        Ok(found)
    }

    /// Reads durable bytes from a distance from the start of NVMM on; they must be within it.
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        let fail = Error::io(&self.path, "read it");
        let end = at.checked_add(out.len() as u64);
        if end.is_none_or(|e| e > self.header.geometry.len) {
            return Err(fail(io::ErrorKind::UnexpectedEof.into()));
        }
        self.file
            .read_exact_at(out, self.header.data_at() + at)
            .map_err(&fail)?;
        let first = at / LINE * LINE;
        for (line, w) in self.patches.range(first..at + out.len() as u64) {
            let bytes: Vec<u8> = w.iter().flat_map(|w| w.to_le_bytes()).collect();
            for (i, b) in bytes.into_iter().enumerate() {
                let place = (line + i as u64).checked_sub(at);
                if let Some(to) = place.and_then(|p| out.get_mut(p as usize)) {
                    *to = b;
                }
            }
        }
        Ok(())
    }

    /// Ranges of the content outside of which it is zero, from the start of NVMM, in whole pages.
    pub fn data(&self) -> Result<Vec<std::ops::Range<u64>>, Error> {
        let at = self.header.data_at();
        let ranges = data(&self.file, at, self.header.geometry.len)
            .map_err(Error::io(&self.path, "read it"))?;
        Ok({ ranges.into_iter() }
            .map(|r| r.start - at..r.end - at)
            .collect())
    }

    /// Calls `f` with all durable bytes that may not be zero, in parts of at most 1 MiB, by ascending address.
    /// A part that is zero everywhere is left out.
    pub fn each_part(
        &self,
        mut f: impl FnMut(u64, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut buffer = vec![0; CHUNK as usize];
        for r in self.data()? {
            let mut at = r.start;
            while at < r.end {
                let part = &mut buffer[..CHUNK.min(r.end - at) as usize];
                self.read(at, part)?;
                if part.iter().any(|b| *b != 0) {
                    f(at, part)?;
                }
                at += part.len() as u64;
            }
        }
        Ok(())
    }

    /// Writes the durable bytes to a new sparse file: exactly those of NVMM, without a header.
    pub fn export(&self, to: &Path) -> Result<(), Error> {
        let fail = |doing| Error::io(to, doing);
        let out = File::options()
            .write(true)
            .create_new(true)
            .open(to)
            .map_err(fail("create it"))?;
        let written = self
            .each_part(|at, part| out.write_all_at(part, at).map_err(fail("write it")))
            .and_then(|()| {
                out.set_len(self.header.geometry.len)
                    .and_then(|()| out.sync_all())
                    .map_err(fail("write it"))
            });
        if written.is_err() {
            let _ = std::fs::remove_file(to);
        }
        written
    }

    /// Writes the durable bytes, zeros included.
    pub fn write_to(&self, out: &mut dyn Write) -> Result<(), Error> {
        let mut buffer = vec![0; CHUNK as usize];
        let len = self.header.geometry.len;
        let mut at = 0;
        while at < len {
            let part = &mut buffer[..CHUNK.min(len - at) as usize];
            self.read(at, part)?;
            out.write_all(part)
                .map_err(Error::io(Path::new("standard output"), "write to it"))?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Makes a new image with the bytes of `from`, which may be fewer than NVMM has; the rest is zero.
    pub fn import(path: &Path, geometry: &Geometry, from: &Path) -> Result<Image, Error> {
        let fail = Error::io(from, "read it");
        let mut file = File::open(from).map_err(&fail)?;
        let len = file.metadata().map_err(&fail)?.len();
        let too_long = |len: u64| Error::Unfit {
            path: from.into(),
            problem: format!(
                "{len} bytes or more, and the NVMM of {} has {}",
                geometry.machine, geometry.len
            ),
        };
        if len > geometry.len {
            return Err(too_long(len));
        }
        let image = Image::create(path, geometry)?;
        let mut buffer = vec![0; CHUNK as usize];
        let mut at = 0;
        let made = loop {
            let n = match file.read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => break Err(fail(e)),
            };
            if at + n as u64 > geometry.len {
                break Err(too_long(at + n as u64));
            }
            // Pages of zeros stay holes.
            let pages = buffer[..n].chunks(PAGE as usize).enumerate();
            let written = { pages }
                .filter(|(_, p)| p.iter().any(|b| *b != 0))
                .try_for_each(|(i, p)| {
                    let to = image.header.data_at() + at + i as u64 * PAGE;
                    image.file.write_all_at(p, to)
                });
            if let Err(e) = written {
                break Err(Error::io(path, "write it")(e));
            }
            at += n as u64;
        };
        match made {
            Ok(()) => Ok(image),
            Err(e) => {
                let _ = std::fs::remove_file(path);
                Err(e)
            }
        }
    }

    /// Makes a new image with the same durable bytes and an identity of its own. Where the host's file system can,
    /// both share their blocks until one is written.
    pub fn duplicate(&self, path: &Path) -> Result<Image, Error> {
        let fail = |doing| Error::io(path, doing);
        let parent = Some((self.header.id, self.state.generation));
        let mut image = Image::create_from(path, &self.header.geometry, parent)?;
        let made = (|| {
            if rustix::fs::ioctl_ficlone(&*image.file, &*self.file).is_ok() {
                let fresh = image.header.encode();
                image
                    .file
                    .write_all_at(&fresh, 0)
                    .and_then(|()| image.file.write_all_at(&[0; PAGE as usize], PAGE))
                    .map_err(fail("write it"))?;
                image.patches = self.patches.clone();
                return image.recover().map_err(fail("write it"));
            }
            self.each_part(|at, part| {
                let to = image.header.data_at() + at;
                image.file.write_all_at(part, to).map_err(fail("write it"))
            })
        })();
        match made {
            Ok(()) => Ok(image),
            Err(e) => {
                let _ = std::fs::remove_file(path);
                Err(e)
            }
        }
    }

    /// Where the durable bytes of two images of one size differ.
    pub fn compare(&self, other: &Image) -> Result<Vec<Difference>, Error> {
        let (a, b) = (&self.header.geometry, &other.header.geometry);
        if a.len != b.len {
            return Err(Error::Unfit {
                path: other.path.clone(),
                problem: format!(
                    "{} MiB of NVMM cannot be compared with {} MiB",
                    b.len >> 20,
                    a.len >> 20
                ),
            });
        }
        let mut chunks: Vec<u64> = [self.data()?, other.data()?]
            .concat()
            .into_iter()
            .flat_map(|r| r.start / CHUNK..=(r.end - 1) / CHUNK)
            .collect();
        chunks.sort_unstable();
        chunks.dedup();
        let mut found: Vec<Difference> = Vec::new();
        let (mut left, mut right) = (vec![0; CHUNK as usize], vec![0; CHUNK as usize]);
        for c in chunks {
            let len = CHUNK.min(a.len - c * CHUNK) as usize;
            self.read(c * CHUNK, &mut left[..len])?;
            other.read(c * CHUNK, &mut right[..len])?;
            let lines = left[..len]
                .chunks(LINE as usize)
                .zip(right[..len].chunks(LINE as usize));
            for (i, (x, y)) in lines.enumerate() {
                if x == y {
                    continue;
                }
                let at = c * CHUNK + i as u64 * LINE;
                match found.last_mut() {
                    Some(d) if d.at + d.len == at => d.len += LINE,
                    _ => found.push(Difference { at, len: LINE }),
                }
            }
        }
        Ok(found)
    }

    /// Opens the image that keeps the changes over another one: made as its clone if there is none yet.
    pub fn overlay(base: &Path, path: &Path) -> Result<Image, Error> {
        let of = Image::open(base, Access::Read)?;
        if !path.exists() {
            return of.duplicate(path);
        }
        let image = Image::open(path, Access::Write)?;
        let state = Some((of.header.id, of.state.generation));
        if image.header.parent != state {
            return Err(Error::Unfit {
                path: path.into(),
                problem: format!(
                    "is no overlay of {} in its present state: {}",
                    base.display(),
                    match image.header.parent {
                        Some((id, _)) if id == of.header.id =>
                            "a machine has written to that image since",
                        Some(_) => "it was made from another image",
                        None => "it is an image of its own",
                    }
                ),
            });
        }
        Ok(image)
    }
}
