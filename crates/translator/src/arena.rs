//! Memory for code: the same pages mapped twice, once writable and once executable, so
//! that no mapping is ever both.

use crate::Error;
use rustix::mm::{self, MapFlags, MprotectFlags, MremapFlags, ProtFlags};
use std::ptr::NonNull;

/// A bounded arena. Offsets count from its start in either mapping.
#[derive(Debug)]
pub(crate) struct Arena {
    write: Mapping,
    run: Mapping,
    used: usize,
    /// Length of the part that stays when the arena is emptied.
    kept: usize,
}

/// A mapping of its own, unmapped when it is dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to its value, wherever that is.
unsafe impl Send for Mapping {}
// SAFETY: shared references only read the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(start: *mut std::ffi::c_void, len: usize) -> Option<Self> {
        let start = NonNull::new(start.cast())?;
        Some(Self { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nobody else unmaps it.
        let _ = unsafe { mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl Arena {
    /// Shared pages without a file, which profilers know as code that a program made. A
    /// remapping of length 0 maps them a second time.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let failed = |e: rustix::io::Errno| Error::Memory(e.into());
        let null = || Error::Memory(std::io::ErrorKind::OutOfMemory.into());
        let rw = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let write =
            unsafe { mm::mmap_anonymous(std::ptr::null_mut(), bytes, rw, MapFlags::SHARED) };
        let write = Mapping::new(write.map_err(failed)?, bytes).ok_or_else(null)?;
        // SAFETY: length 0 leaves the old mapping where it is and makes another one.
        let run =
            unsafe { mm::mremap(write.start.as_ptr().cast(), 0, bytes, MremapFlags::MAYMOVE) };
        let run = Mapping::new(run.map_err(failed)?, bytes).ok_or_else(null)?;
        let rx = MprotectFlags::READ | MprotectFlags::EXEC;
        // SAFETY: the mapping is ours, and nothing refers to its bytes yet.
        unsafe { mm::mprotect(run.start.as_ptr().cast(), bytes, rx) }.map_err(failed)?;
        Ok(Self {
            write,
            run,
            used: 0,
            kept: 0,
        })
    }

    /// The writable mapping.
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped for as long as `self` lives, and written only here. What is written
        // is read through the other mapping by the processor alone, as code, between the
        // calls that write.
        unsafe { std::slice::from_raw_parts_mut(self.write.start.as_ptr(), self.write.len) }
    }

    /// Host address at which an offset is executed.
    pub fn address(&self, offset: usize) -> usize {
        self.run.start.as_ptr() as usize + offset
    }

    /// Address of the next byte to be filled.
    pub fn next(&self) -> usize {
        self.address(self.used)
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used
    }

    pub fn size(&self) -> usize {
        self.write.len
    }

    /// Appends code; returns its offset. `None` if it does not fit.
    pub fn add(&mut self, code: &[u8]) -> Option<usize> {
        let at = self.used;
        let end = at.checked_add(code.len())?;
        self.bytes().get_mut(at..end)?.copy_from_slice(code);
        self.used = (end + 15) & !15;
        Some(at)
    }

    /// The present content stays when the arena is emptied.
    pub fn keep(&mut self) {
        self.kept = self.used;
    }

    /// Forgets all code but what is kept.
    pub fn empty(&mut self) {
        self.used = self.kept;
    }

    /// Points the 32-bit distance at `at` to the offset `target`.
    pub fn patch(&mut self, at: usize, target: usize) {
        let distance = (target as i64 - (at as i64 + 4)) as i32;
        self.bytes()[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }
}
