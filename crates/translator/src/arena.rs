//! Memory for code: the same pages mapped twice, once writable and once executable, so
//! that no mapping is ever both.

use crate::Error;
use rustix::fs::{ftruncate, memfd_create, MemfdFlags};
use rustix::io::Errno;
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
    fn new(start: *mut std::ffi::c_void, len: usize) -> Result<Self, Errno> {
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nobody else unmaps it.
        let _ = unsafe { mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl Arena {
    /// An empty arena.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let (write, run) = Self::without_file(bytes)
            .or_else(|_| Self::of_file(bytes))
            .map_err(|e| Error::Memory(e.into()))?;
        Ok(Self {
            write,
            run,
            used: 0,
            kept: 0,
        })
    }

    /// Shared pages without a file, which profilers know as code that a program made. A
    /// remapping of length 0 maps them a second time.
    fn without_file(bytes: usize) -> Result<(Mapping, Mapping), Errno> {
        let rw = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let write =
            unsafe { mm::mmap_anonymous(std::ptr::null_mut(), bytes, rw, MapFlags::SHARED) };
        let write = Mapping::new(write?, bytes)?;
        // SAFETY: length 0 leaves the old mapping where it is and makes another one.
        let run =
            unsafe { mm::mremap(write.start.as_ptr().cast(), 0, bytes, MremapFlags::MAYMOVE) };
        let run = Mapping::new(run?, bytes)?;
        let rx = MprotectFlags::READ | MprotectFlags::EXEC;
        // SAFETY: the mapping is ours, and nothing refers to its bytes yet.
        unsafe { mm::mprotect(run.start.as_ptr().cast(), bytes, rx) }?;
        Ok((write, run))
    }

    /// Two mappings of a file in memory, for hosts that refuse such a remapping: Valgrind, and QEMU in user mode.
    fn of_file(bytes: usize) -> Result<(Mapping, Mapping), Errno> {
        let file = memfd_create(c"nagori-code", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, bytes as u64)?;
        let map = |prot| {
            // SAFETY: a new mapping, at a place of the kernel's choice.
            let at = unsafe {
                mm::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    prot,
                    MapFlags::SHARED,
                    &file,
                    0,
                )
            };
            Mapping::new(at?, bytes)
        };
        let write = map(ProtFlags::READ | ProtFlags::WRITE)?;
        let run = map(ProtFlags::READ | ProtFlags::EXEC)?;
        Ok((write, run))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_run_what_is_written() {
        for made in [Arena::without_file(4096), Arena::of_file(4096)] {
            let (write, run) = made.expect("a host with memory");
            let mut arena = Arena {
                write,
                run,
                used: 0,
                kept: 0,
            };
            // mov eax, 42; ret
            let at = arena.add(&[0xb8, 42, 0, 0, 0, 0xc3]).expect("room");
            // SAFETY: the bytes are a function without arguments.
            let f: extern "C" fn() -> u32 = unsafe { std::mem::transmute(arena.address(at)) };
            assert_eq!(f(), 42);
        }
    }
}
