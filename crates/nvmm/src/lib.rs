//! Images of non-volatile main memory: files that hold what was durable of a machine's NVMM.
//!
//! An image is a sparse file with a header, checksums, the content of NVMM, and an *undo area*. The content is mapped
//! into the machine's memory ([`nagori_ram::GuestRam::back`]), so opening it takes no time and stores of
//! the guest are in the file at once. While the machine models caches, its memory has newer bytes
//! than those that are durable; for each such line the undo area holds the durable bytes. When an image is
//! opened, they are put back: what is found is exactly what was durable when the machine ended, however it
//! ended (`kill -9` included).
//!
//! What the host's own crash or power cut leaves is not promised beyond [`Image::close`], which writes everything to
//! the host's medium.
//!
//! One machine at a time writes to an image (`flock`); while it does, nobody else can open it.

mod error;
mod header;
mod tools;
mod undo;

pub use error::Error;
pub use header::{Geometry, Header, LINE};
pub use tools::{Difference, Findings};
pub use undo::{Undo, Words};

use header::{state, CHUNK, PAGE};
use nagori_ram::{data, FileWords};
use rustix::fs::{flock, FlockOperation};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// What a power cut leaves, and so what the end of the process leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// What has reached the memory.
    None,
    /// What has reached the memory, or its controller has accepted.
    Adr,
    /// What has reached the memory or its controller, and what is in caches.
    Eadr,
    /// As `Adr`, and so many lines of caches, by ascending address, as the energy suffices for.
    Gpf {
        /// Lines of 64 bytes.
        lines: u64,
    },
}

impl Domain {
    fn words(self) -> (u64, u64) {
        match self {
            Domain::None => (0, 0),
            Domain::Adr => (1, 0),
            Domain::Eadr => (2, 0),
            Domain::Gpf { lines } => (3, lines),
        }
    }

    /// Its name in machine descriptions.
    pub fn name(self) -> &'static str {
        match self {
            Domain::None => "none",
            Domain::Adr => "adr",
            Domain::Eadr => "eadr",
            Domain::Gpf { .. } => "gpf",
        }
    }
}

/// How an image is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To change it: nobody else has it.
    Write,
    /// To look at it, together with others.
    Read,
}

/// An image.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    file: ImageFile,
    header: Header,
    access: Access,
    state: State,
    /// Lines whose durable bytes are not the content's: none once the image is open for writing.
    patches: BTreeMap<u64, Words>,
}

/// The second page of the header when the image was opened.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    generation: u64,
    in_use: bool,
    epoch: u64,
    domain: u64,
    budget: u64,
    summed: u64,
}

impl Image {
    /// Makes a new image, all zeros, and opens it for writing. The file must not exist.
    pub fn create(path: &Path, geometry: &Geometry) -> Result<Image, Error> {
        Self::create_from(path, geometry, None)
    }

    fn create_from(
        path: &Path,
        geometry: &Geometry,
        parent: Option<([u64; 2], u64)>,
    ) -> Result<Image, Error> {
        if let Some(problem) = Header::problem(geometry) {
            let path = path.into();
            return Err(Error::Unfit { path, problem });
        }
        let fail = |doing| Error::io(path, doing);
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| fail("choose an identity")(e.into()))?;
        let (low, high) = id.split_at(8);
        let number = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
        let header = Header {
            id: [number(low) | 1, number(high)],
            geometry: geometry.clone(),
            parent,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(fail("create it"))?;
        let file = ImageFile::lock(path, file, Access::Write)?;
        let made = file
            .write_all_at(&header.encode(), 0)
            .and_then(|()| file.set_len(header.undo_at()));
        if let Err(e) = made {
            // A file that is no image is of use to nobody.
            let _ = std::fs::remove_file(path);
            return Err(fail("write it")(e));
        }
        Ok(Image {
            path: path.into(),
            file,
            header,
            access: Access::Write,
            state: State::default(),
            patches: BTreeMap::new(),
        })
    }

    /// Opens an image. If it is opened for writing, the lines that the last machine had newer than what was
    /// durable get their durable bytes back.
    pub fn open(path: &Path, access: Access) -> Result<Image, Error> {
        let fail = |doing| Error::io(path, doing);
        let file = OpenOptions::new()
            .read(true)
            .write(access == Access::Write)
            .open(path)
            .map_err(fail("open it"))?;
        let kind = file.metadata().map_err(fail("look at it"))?;
        if !kind.is_file() {
            return Err(Error::NoImage {
                path: path.into(),
                problem: "it is no regular file".into(),
            });
        }
        let file = ImageFile::lock(path, file, access)?;
        let mut image = Self::parse(path, file, access)?;
        if access == Access::Write {
            image.recover().map_err(fail("put back what was durable"))?;
        }
        Ok(image)
    }

    /// What the end of the process at this instant would leave, of an image that a machine writes to.
    pub fn look(&self) -> Result<Image, Error> {
        let file = self.file.try_clone();
        let file = ImageFile {
            file: file.map_err(Error::io(&self.path, "open it again"))?,
            holds: false,
        };
        Self::parse(&self.path, file, Access::Read)
    }

    fn parse(path: &Path, file: ImageFile, access: Access) -> Result<Image, Error> {
        let fail = |doing| Error::io(path, doing);
        let there_len = file.metadata().map_err(fail("look at it"))?.len();
        let mut page = vec![0; 2 * PAGE as usize];
        let mut there = 0;
        while there < page.len() {
            match file.read_at(&mut page[there..], there as u64) {
                Ok(0) => break,
                Ok(n) => there += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(fail("read it")(e)),
            }
        }
        page.truncate(there);
        let header = Header::decode(path, &page)?;
        let damaged = |problem: String| Error::Damaged {
            path: path.into(),
            problem,
        };
        if there_len < header.undo_at() {
            return Err(damaged(format!(
                "{} bytes are missing at its end",
                header.undo_at() - there_len
            )));
        }
        let word = |i: usize| {
            let at = PAGE as usize + 8 * i;
            u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
        };
        let state = State {
            generation: word(state::GENERATION),
            in_use: word(state::IN_USE) != 0,
            epoch: word(state::EPOCH),
            domain: word(state::DOMAIN),
            budget: word(state::BUDGET),
            summed: word(state::SUMMED),
        };
        if state.domain > 3 || word(state::IN_USE) > 1 {
            return Err(damaged("its state".into()));
        }
        let mut patches = undo::read(&file, &header, state.epoch)
            .map_err(fail("read its undo area"))?
            .map_err(|b| damaged(format!("slot {} of the undo area", b.0)))?;
        if state.domain == 3 {
            // The energy has sufficed for these.
            let kept = usize::try_from(state.budget).unwrap_or(usize::MAX);
            patches = patches.into_iter().skip(kept).collect();
        }
        Ok(Image {
            path: path.into(),
            file,
            header,
            access,
            state,
            patches,
        })
    }

    /// Puts the durable bytes back. May end anywhere: what is left is done the next time.
    fn recover(&mut self) -> io::Result<()> {
        for (line, w) in std::mem::take(&mut self.patches) {
            let bytes: Vec<u8> = w.iter().flat_map(|w| w.to_le_bytes()).collect();
            self.file
                .write_all_at(&bytes, self.header.data_at() + line)?;
        }
        self.file.set_len(self.header.undo_at())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What never changes of it.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How often it was opened by machines for writing.
    pub fn generation(&self) -> u64 {
        self.state.generation
    }

    /// Whether the last machine that wrote to it has ended without closing it.
    pub fn was_left_open(&self) -> bool {
        self.state.in_use
    }

    /// The persistence domain of the last machine; `None` if there was none.
    pub fn domain(&self) -> Option<Domain> {
        let known = [
            Domain::None,
            Domain::Adr,
            Domain::Eadr,
            Domain::Gpf {
                lines: self.state.budget,
            },
        ];
        (self.state.generation > 0).then(|| known[self.state.domain as usize & 3])
    }

    /// An error if it is not the NVMM of a machine.
    pub fn check(&self, g: &Geometry) -> Result<(), Error> {
        let own = &self.header.geometry;
        if (own.base, own.len) == (g.base, g.len) {
            return Ok(());
        }
        let at = |g: &Geometry| format!("{} MiB at {:#x}", g.len >> 20, g.base);
        Err(Error::Unfit {
            path: self.path.clone(),
            problem: format!(
                "holds the NVMM of {} ({}), and {} has {}: `nagori nvmm export` and `import` make an image for it",
                own.machine,
                at(own),
                g.machine,
                at(g)
            ),
        })
    }

    /// The file and where content begins in it, to be mapped.
    pub fn content(&self) -> (&File, u64) {
        (&self.file, self.header.data_at())
    }

    /// Lines, by their distance from the start of NVMM, whose durable bytes are others than the content's;
    /// none if the image was opened for writing.
    pub fn patches(&self) -> impl Iterator<Item = (u64, &Words)> {
        self.patches.iter().map(|(l, w)| (*l, w))
    }

    /// A machine begins to write to it. Returns its undo area.
    pub fn begin(&mut self, domain: Domain) -> Result<Undo, Error> {
        let fail = |doing| Error::io(&self.path, doing);
        let words = self.words().map_err(fail("map it"))?;
        let undo = Undo::new(&self.file, &self.header).map_err(fail("map it"))?;
        let (name, budget) = domain.words();
        words.set(state::IN_USE, 1);
        words.set(state::DOMAIN, name);
        words.set(state::BUDGET, budget);
        words.set(state::GENERATION, self.state.generation + 1);
        self.state.generation += 1;
        Ok(undo)
    }

    fn words(&self) -> io::Result<FileWords> {
        FileWords::map(&self.file, PAGE, PAGE as usize)
    }

    /// No machine writes to it any more: puts back what was durable, notes checksums and writes everything to the
    /// host's medium.
    pub fn close(mut self) -> Result<(), Error> {
        let path = self.path.clone();
        let fail = |doing| Error::io(&path, doing);
        if self.access == Access::Read {
            return Ok(());
        }
        let words = self.words().map_err(fail("map it"))?;
        self.patches = self.look()?.patches;
        self.recover().map_err(fail("put back what was durable"))?;
        self.write_sums().map_err(fail("write its checksums"))?;
        self.file.sync_all().map_err(fail("write it"))?;
        words.set(state::SUMMED, words.get(state::GENERATION));
        words.set(state::IN_USE, 0);
        self.file.sync_all().map_err(fail("write it"))
    }

    /// Checksums of all chunks of the content: 0 for those that are zero.
    fn sums(&self) -> io::Result<Vec<u64>> {
        let mut sums = vec![0; self.header.sums() as usize];
        let len = self.header.geometry.len;
        let mut buffer = vec![0; CHUNK as usize];
        let mut done = 0;
        for r in data(&self.file, self.header.data_at(), len)? {
            let first = (r.start - self.header.data_at()) / CHUNK;
            let last = (r.end - 1 - self.header.data_at()) / CHUNK;
            for i in first.max(done)..=last {
                let part = &mut buffer[..CHUNK.min(len - i * CHUNK) as usize];
                self.file
                    .read_exact_at(part, self.header.data_at() + i * CHUNK)?;
                if part.iter().any(|b| *b != 0) {
                    sums[i as usize] = xxh3_64(part).max(1);
                }
            }
            done = last + 1;
        }
        Ok(sums)
    }

    fn write_sums(&self) -> io::Result<()> {
        let mut bytes: Vec<u8> = Vec::new();
        for s in self.sums()? {
            bytes.extend(s.to_le_bytes());
        }
        let all = xxh3_64(&bytes);
        bytes.extend(all.to_le_bytes());
        self.file.write_all_at(&bytes, self.header.sums_at())
    }
}

/// An open file of an image.
#[derive(Debug)]
struct ImageFile {
    file: File,
    /// Whether the lock is its own.
    holds: bool,
}

impl ImageFile {
    fn lock(path: &Path, file: File, access: Access) -> Result<ImageFile, Error> {
        let how = match access {
            Access::Write => FlockOperation::NonBlockingLockExclusive,
            Access::Read => FlockOperation::NonBlockingLockShared,
        };
        match flock(&file, how) {
            Ok(()) => Ok(ImageFile { file, holds: true }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked { path: path.into() }),
            Err(e) => Err(Error::io(path, "lock it")(e.into())),
        }
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        // Closing is not enough: a process that another thread has just forked has the file, and with it the
        // lock, until it executes its program.
        if self.holds {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl std::ops::Deref for ImageFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

#[cfg(test)]
mod tests;
