//! A file of the host behind a part of guest memory, so that what is stored there is in the file at once, and
//! mappings of files for data structures beside guest memory.
//!
//! A store to a page of a file for which its file system has no space kills the process (SIGBUS). So space
//! is reserved before the first store to a part of the file, by the functions that write to
//! [`GuestRam`]; whoever writes to memory by its address must have written to the same page by
//! them before. Reserved space alone does not suffice: ext4 may need one more block to note that a reserved one is now
//! in use, so the pages of the part are made writable, too, which says so instead. If there is no space, the part of
//! memory no longer leads to the file: it keeps the state of that moment, and the failure is reported.

use super::{GuestRam, RamError};
use rustix::fs::{fallocate, FallocateFlags};
use rustix::io::Errno;
use rustix::mm::{
    madvise, mmap, mmap_anonymous, mremap_fixed, Advice, MapFlags, MremapFlags, ProtFlags,
};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, OnceLock};

/// Space is reserved in parts of so many bytes.
const PART: u64 = 64 << 10;

/// What stores to a part of memory with a file behind it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// They change the file.
    Shared,
    /// They are seen in memory, and never reach the file.
    Private,
}

/// A file behind a part of memory.
#[derive(Debug)]
pub(crate) struct Backing {
    file: File,
    /// First byte and length in memory, first byte in the file.
    start: u64,
    len: u64,
    at: u64,
    how: Sharing,
    read_only: AtomicBool,
    /// Parts for which space is reserved, a bit each.
    reserved: Vec<AtomicU64>,
    frozen: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

/// The file behind memory, and where it begins; this is looked at with every write.
#[derive(Debug)]
pub(crate) struct Behind {
    /// First offset with a file behind it; no offset if there is none.
    pub from: AtomicU64,
    file: OnceLock<Backing>,
}

impl Default for Behind {
    fn default() -> Self {
        Behind {
            from: AtomicU64::new(u64::MAX),
            file: OnceLock::new(),
        }
    }
}

impl Backing {
    /// Makes sure that there is space for a part of the file, in memory that begins at `base`.
    fn reserve(&self, base: *mut u8, part: u64) -> bool {
        let (word, bit) = (&self.reserved[(part / 64) as usize], 1 << (part % 64));
        if word.load(Relaxed) & bit != 0 {
            return true;
        }
        let at = self.at + part * PART;
        let len = PART.min(self.len - part * PART);
        let there = base.wrapping_add((self.start + part * PART) as usize);
        match reserve(&self.file, at, len).and_then(|()| make_writable(there, len as usize)) {
            Ok(()) => {
                word.fetch_or(bit, Relaxed);
                true
            }
            Err(e) => {
                let mut failure = self.failure.lock().unwrap_or_else(|p| p.into_inner());
                failure.get_or_insert(e);
                false
            }
        }
    }
}

/// Reserves space of a file without changing what is in it.
fn reserve(file: &File, at: u64, len: u64) -> io::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::empty(), at, len) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Makes whole pages of a mapping of a file writable, without changing what is in them: an error where a store would
/// kill the process. Hosts before Linux 5.14 cannot say that; there a store has to show it.
fn make_writable(at: *mut u8, len: usize) -> io::Result<()> {
    loop {
        // SAFETY: this advice changes no byte of memory, whatever is mapped there.
        match unsafe { madvise(at.cast(), len, Advice::LinuxPopulateWrite) } {
            Ok(()) | Err(Errno::INVAL) => return Ok(()),
            Err(Errno::INTR | Errno::AGAIN) => {}
            // A store would be answered by SIGBUS. The kernel does not say why: a full file system, or a disk that
            // fails.
            Err(Errno::FAULT) => return Err(Errno::NOSPC.into()),
            Err(e) => return Err(e.into()),
        }
    }
}

impl GuestRam {
    /// Puts a part of a file behind a range of memory, in whole pages: from now on memory has the
    /// content of the file. Nothing is copied. A memory has at most one such range.
    ///
    /// Nobody may write to the range at the same time, and nobody else may write to the file or
    /// shorten it as long as this memory exists.
    pub fn back(
        &self,
        offset: u64,
        len: u64,
        (file, at): (&File, u64),
        how: Sharing,
    ) -> Result<(), RamError> {
        self.check(offset, len)?;
        let fail = |source| RamError::Back { source };
        let whole = |n: u64| n.is_multiple_of(super::PAGE);
        if len == 0 || !whole(offset) || !whole(len) || !whole(at) {
            let e = io::Error::new(io::ErrorKind::InvalidInput, "no whole number of pages");
            return Err(fail(e));
        }
        if file.metadata().map_err(fail)?.len() < at.saturating_add(len) {
            let e = io::Error::new(io::ErrorKind::UnexpectedEof, "the file is too short");
            return Err(fail(e));
        }
        if self.behind.file.get().is_some() {
            let e = io::Error::new(io::ErrorKind::AlreadyExists, "there is a file already");
            return Err(fail(e));
        }
        let words = len.div_ceil(PART).div_ceil(64) as usize;
        let backing = Backing {
            file: file.try_clone().map_err(fail)?,
            start: offset,
            len,
            at,
            how,
            read_only: AtomicBool::new(false),
            reserved: (0..words).map(|_| AtomicU64::new(0)).collect(),
            frozen: AtomicBool::new(false),
            failure: Mutex::new(None),
        };
        self.map(&backing).map_err(fail)?;
        let _ = self.behind.file.set(backing);
        if how == Sharing::Shared {
            self.behind.from.store(offset, Release);
        }
        Ok(())
    }

    /// From now on stores to the part of memory with a file behind it are refused.
    pub fn forbid_writes(&self) {
        if let Some(b) = self.behind.file.get() {
            b.read_only.store(true, Relaxed);
            self.behind.from.store(b.start, Release);
        }
    }

    /// Makes sure that stores to a range can reach the file behind it, for whoever is going to write there by address.
    pub fn reserve(&self, offset: u64, len: u64) {
        if offset.saturating_add(len) > self.behind.from.load(Relaxed) {
            self.before_write(offset, len);
        }
    }

    /// Nothing that is stored from now on reaches the file behind memory, for this reason.
    pub fn fail_backing(&self, e: io::Error) {
        if let Some(b) = self.behind.file.get() {
            let mut failure = b.failure.lock().unwrap_or_else(|p| p.into_inner());
            failure.get_or_insert(e);
        }
        self.freeze();
    }

    /// Maps the file behind its range, over whatever is mapped there.
    fn map(&self, b: &Backing) -> io::Result<()> {
        let flags = match b.how {
            Sharing::Shared => MapFlags::SHARED,
            Sharing::Private => MapFlags::PRIVATE | MapFlags::NORESERVE,
        };
        let there = self.base.wrapping_add(b.start as usize).cast();
        // SAFETY: the range lies within the mapping that this value owns, whose content nobody holds a
        // reference to but for atomic accesses; the file has that length.
        let mapped = unsafe {
            mmap(
                there,
                b.len as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                flags | MapFlags::FIXED,
                &b.file,
                b.at,
            )
        };
        mapped.map(|_| ()).map_err(Into::into)
    }

    /// Before a write to a range that may have a file behind it: whether it may be written.
    #[cold]
    #[inline(never)]
    pub(crate) fn before_write(&self, offset: u64, len: u64) -> bool {
        let Some(b) = self.behind.file.get() else {
            return true;
        };
        let end = offset.saturating_add(len).min(b.start + b.len);
        if offset.max(b.start) >= end {
            return true;
        }
        if b.read_only.load(Relaxed) {
            return false;
        }
        match b.how {
            Sharing::Private => true,
            Sharing::Shared => {
                let first = (offset.max(b.start) - b.start) / PART;
                let last = (end - 1 - b.start) / PART;
                if !b.frozen.load(Relaxed) && !(first..=last).all(|p| b.reserve(self.base, p)) {
                    self.freeze();
                }
                true
            }
        }
    }

    /// Nothing that is stored from now on reaches the file behind memory; stores are still seen in memory.
    pub fn freeze(&self) {
        let Some(b) = self.behind.file.get() else {
            return;
        };
        if b.frozen.swap(true, Relaxed) {
            return;
        }
        if let Err(e) = self.part(b) {
            let mut failure = b.failure.lock().unwrap_or_else(|p| p.into_inner());
            failure.get_or_insert(e);
        }
    }

    /// Replaces the mapping of the file by memory with the same content. A private mapping would not do: some file
    /// systems take space for holes that are only read.
    fn part(&self, b: &Backing) -> io::Result<()> {
        let (len, prot) = (b.len as usize, ProtFlags::READ | ProtFlags::WRITE);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping, of which nobody else knows.
        let new = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, flags)? };
        for r in data(&b.file, b.at, b.len)? {
            let (from, n) = ((r.start - b.at) as usize, (r.end - r.start) as usize);
            // SAFETY: the range is within the new mapping, to which nothing else refers.
            let part = unsafe { std::slice::from_raw_parts_mut(new.cast::<u8>().add(from), n) };
            b.file.read_exact_at(part, r.start)?;
        }
        let there = self.base.wrapping_add(b.start as usize).cast();
        // SAFETY: the new mapping takes the place of a range of the same length within the mapping that this
        // value owns, whose content nobody holds a reference to but for atomic accesses.
        unsafe { mremap_fixed(new, len, len, MremapFlags::MAYMOVE, there)? };
        Ok(())
    }

    /// Whether stores no longer reach the file behind memory.
    pub fn is_frozen(&self) -> bool {
        let b = self.behind.file.get();
        b.is_some_and(|b| b.frozen.load(Relaxed))
    }

    /// Why stores no longer reach the file behind memory; `None` if they do.
    pub fn backing_failure(&self) -> Option<io::Error> {
        let b = self.behind.file.get()?;
        let failure = b.failure.lock().unwrap_or_else(|p| p.into_inner());
        failure.as_ref().map(|e| match e.raw_os_error() {
            Some(n) => io::Error::from_raw_os_error(n),
            None => e.kind().into(),
        })
    }

    /// Whether stores to an offset are refused.
    #[inline(always)]
    pub fn is_read_only(&self, offset: u64) -> bool {
        offset >= self.behind.from.load(Relaxed) && !self.may_write(offset)
    }

    #[cold]
    fn may_write(&self, offset: u64) -> bool {
        let b = self.behind.file.get();
        !b.is_some_and(|b| b.read_only.load(Relaxed) && offset - b.start < b.len)
    }

    /// The range with a file behind it, in bytes: start and length.
    pub fn backed(&self) -> Option<(u64, u64)> {
        self.behind.file.get().map(|b| (b.start, b.len))
    }

    /// Ranges of memory, within that with a file behind it, for which the file has data.
    pub(crate) fn data_of_file(&self) -> Vec<std::ops::Range<u64>> {
        let Some(b) = self.behind.file.get() else {
            return Vec::new();
        };
        let found = data(&b.file, b.at, b.len);
        let found = found.unwrap_or_else(|_| std::iter::once(b.at..b.at + b.len).collect());
        { found.into_iter() }
            .map(|r| r.start - b.at + b.start..r.end - b.at + b.start)
            .collect()
    }
}

/// Ranges of a file, within a range, that are no holes, in whole pages.
pub fn data(file: &File, at: u64, len: u64) -> io::Result<Vec<std::ops::Range<u64>>> {
    use rustix::fs::{seek, SeekFrom};
    let end = at + len;
    let mut found: Vec<std::ops::Range<u64>> = Vec::new();
    let mut from = at;
    while from < end {
        let start = match seek(file, SeekFrom::Data(from)) {
            Ok(start) if start < end => start,
            Ok(_) | Err(Errno::NXIO) => break,
            Err(e) => return Err(e.into()),
        };
        let stop = seek(file, SeekFrom::Hole(start))?.min(end);
        let first = start / super::PAGE * super::PAGE;
        let last = stop.next_multiple_of(super::PAGE).min(end);
        match found.last_mut() {
            Some(r) if r.end >= first => r.end = last,
            _ => found.push(first.max(at)..last),
        }
        from = stop;
    }
    Ok(found)
}

/// A part of a file as words that are in the file as soon as they are stored.
#[derive(Debug)]
pub struct FileWords {
    map: memmap2::MmapRaw,
    words: usize,
}

impl FileWords {
    /// Maps `len` bytes of a file from `at`, a multiple of the page size, on. Bytes beyond the file's end must not be
    /// used until the file is that long.
    pub fn map(file: &File, at: u64, len: usize) -> io::Result<FileWords> {
        let mut options = memmap2::MmapOptions::new();
        let map = options.offset(at).len(len).map_raw(file)?;
        Ok(FileWords {
            map,
            words: len / 8,
        })
    }

    /// Makes sure that there is space for words from `first` on, in whole pages, in the file, in which the mapping
    /// begins at `at`. Makes the file longer if need be.
    pub fn reserve(&self, file: &File, at: u64, first: usize, words: usize) -> io::Result<()> {
        assert!(
            first + words <= self.words,
            "words {first} to {} of {}",
            first + words,
            self.words
        );
        reserve(file, at + 8 * first as u64, 8 * words as u64)?;
        make_writable(self.map.as_mut_ptr().wrapping_add(8 * first), 8 * words)
    }

    fn word(&self, i: usize) -> &AtomicU64 {
        assert!(i < self.words, "word {i} of {}", self.words);
        // SAFETY: the word is within the mapping, which begins at a page; all accesses are atomic.
        unsafe { &*self.map.as_mut_ptr().cast::<AtomicU64>().add(i) }
    }

    /// A word, little-endian.
    pub fn get(&self, i: usize) -> u64 {
        u64::from_le(self.word(i).load(std::sync::atomic::Ordering::Acquire))
    }

    /// Stores a word; whatever the process stored before is in its files before this is.
    pub fn set(&self, i: usize, value: u64) {
        self.word(i).store(value.to_le(), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(len: u64) -> File {
        let f = tempfile::tempfile().unwrap();
        f.set_len(len).unwrap();
        f
    }

    #[test]
    fn what_is_stored_is_in_the_file() {
        let (m, f) = (GuestRam::new(4 << 20).unwrap(), file(3 << 20));
        f.write_all_at(b"kept", (1 << 20) + 100).unwrap();
        m.back(1 << 20, 2 << 20, (&f, 1 << 20), Sharing::Shared)
            .unwrap();
        assert_eq!(
            m.read_u32((1 << 20) + 100),
            Some(u32::from_le_bytes(*b"kept"))
        );
        m.write_u64((3 << 20) - 8, 77).unwrap();
        m.write_u64((1 << 20) - 8, 78).unwrap();
        m.write_u64(3 << 20, 79).unwrap();
        let mut word = [0; 8];
        f.read_exact_at(&mut word, (3 << 20) - 8).unwrap();
        assert_eq!(word, 77u64.to_le_bytes());
        assert_eq!(data(&f, 0, 1 << 20).unwrap(), [], "nothing outside");
        let touched = m.touched();
        let sees = |at: u64| touched.iter().any(|r| r.contains(&at));
        assert!(sees((1 << 20) + 100) && sees((3 << 20) - 8) && sees(3 << 20));
        assert!(!sees(2 << 20));
        // A second file, parts of pages, files that are too short.
        let more = m.back(0, 4096, (&f, 0), Sharing::Shared);
        assert!(more.is_err());
        let m = GuestRam::new(4 << 20).unwrap();
        for (offset, len, at) in [(1, 4096, 0), (0, 4095, 0), (0, 4096, 512), (0, 4 << 20, 0)] {
            assert!(m.back(offset, len, (&f, at), Sharing::Shared).is_err());
        }
    }

    #[test]
    fn private_and_read_only_memory_leave_the_file_alone() {
        for read_only in [false, true] {
            let (m, f) = (GuestRam::new(1 << 20).unwrap(), file(1 << 20));
            f.write_all_at(&[7; 8192], 0).unwrap();
            m.back(0, 1 << 20, (&f, 0), Sharing::Private).unwrap();
            m.write_u8(100, 1).unwrap();
            if read_only {
                m.forbid_writes();
            }
            assert_eq!(m.write_u64(8, 1).is_none(), read_only);
            assert_eq!(m.is_read_only(8), read_only);
            assert_eq!(m.compare_exchange_u32(16, 0, 1).is_none(), read_only);
            assert_eq!(m.write_bytes(9, &[1, 2]).is_err(), read_only);
            assert_eq!(m.fill(4096, 100, 1).is_err(), read_only);
            assert_eq!(m.discard(4096, 4096).is_err(), read_only);
            let mut all = [0; 8192];
            f.read_exact_at(&mut all, 0).unwrap();
            assert_eq!(all, [7; 8192]);
            assert_eq!((m.read_u8(0), m.read_u8(100)), (Some(7), Some(1)));
        }
    }

    #[test]
    fn a_frozen_memory_keeps_the_file_as_it_was() {
        let (m, f) = (GuestRam::new(1 << 20).unwrap(), file(1 << 20));
        m.back(0, 1 << 20, (&f, 0), Sharing::Shared).unwrap();
        m.write_u64(0, 1).unwrap();
        m.freeze();
        m.write_u64(0, 2).unwrap();
        m.write_u64(1 << 19, 2).unwrap();
        let mut word = [0; 8];
        f.read_exact_at(&mut word, 0).unwrap();
        assert_eq!((word, m.read_u64(0)), (1u64.to_le_bytes(), Some(2)));
        f.read_exact_at(&mut word, 1 << 19).unwrap();
        assert_eq!(word, [0; 8]);
    }

    #[test]
    fn discarded_parts_of_a_file_are_zero() {
        let (m, f) = (GuestRam::new(1 << 20).unwrap(), file(1 << 20));
        m.back(1 << 19, 1 << 19, (&f, 0), Sharing::Shared).unwrap();
        m.fill(0, 1 << 20, 9).unwrap();
        m.discard(0, 1 << 20).unwrap();
        assert!(m.is_zero(0, 1 << 20).unwrap());
    }

    #[test]
    fn words_of_a_file_are_there_at_once() {
        let f = file(8192);
        let w = FileWords::map(&f, 4096, 4096).unwrap();
        w.set(511, 0x1122);
        let mut word = [0; 8];
        f.read_exact_at(&mut word, 8184).unwrap();
        assert_eq!((u64::from_le_bytes(word), w.get(511)), (0x1122, 0x1122));
    }
}
