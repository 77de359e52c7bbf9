//! Memory for code: one file in memory, mapped twice, once writable and once
//! executable, so that no page is ever both.

use crate::Error;
use memmap2::{Mmap, MmapMut, MmapOptions};
use rustix::fs::{memfd_create, MemfdFlags};
use std::fs::File;

/// A bounded arena. Offsets count from its start in either mapping.
#[derive(Debug)]
pub(crate) struct Arena {
    write: MmapMut,
    run: Mmap,
    used: usize,
    /// What stays when the arena is emptied.
    kept: usize,
}

impl Arena {
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let fd = memfd_create("nagori-code", MemfdFlags::CLOEXEC)
            .map_err(|e| Error::Memory(e.into()))?;
        let file = File::from(fd);
        file.set_len(bytes as u64).map_err(Error::Memory)?;
        let options = {
            let mut o = MmapOptions::new();
            o.len(bytes);
            o
        };
        // SAFETY: the file is anonymous and never given to anybody else; it keeps its
        // length for as long as the mappings live.
        let write = unsafe { options.map_mut(&file) }.map_err(Error::Memory)?;
        // SAFETY: as above. What is written through the other mapping is read here only
        // by the processor, as code, between the calls that write it.
        let run = unsafe { options.map_exec(&file) }.map_err(Error::Memory)?;
        Ok(Self {
            write,
            run,
            used: 0,
            kept: 0,
        })
    }

    /// Host address at which an offset is executed.
    pub fn address(&self, offset: usize) -> usize {
        self.run.as_ptr() as usize + offset
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
        self.write.len()
    }

    /// Puts code behind what is there; its offset. `None` if it does not fit.
    pub fn add(&mut self, code: &[u8]) -> Option<usize> {
        let at = self.used;
        let end = at.checked_add(code.len())?;
        self.write.get_mut(at..end)?.copy_from_slice(code);
        self.used = (end + 15) & !15;
        Some(at)
    }

    /// What is there stays when the arena is emptied.
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
        self.write[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }
}
