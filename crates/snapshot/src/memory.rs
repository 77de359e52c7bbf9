//! Memory in chunks: finding allocated pages, packing and unpacking frames, on all cores of the
//! host.

use crate::error::SnapshotError;
use crate::layout::{Chunk, CHUNK, PAGES};
use crate::source::{read_part, Source};
use nagori_ram::{GuestRam, PAGE};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use xxhash_rust::xxh3::xxh3_64;

/// zstd's level: one that keeps up with the disk.
const LEVEL: i32 = 1;
/// Greatest number of threads; more would only cost memory of the host.
const MAX_THREADS: usize = 16;
/// Frames in progress for each thread.
const QUEUE: usize = 4;

fn threads(work: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    cores.min(MAX_THREADS).min(work).max(1)
}

/// Chunks of which the host holds anything, and the pages that it holds, in order.
fn candidates(ram: &GuestRam) -> Vec<(u32, [u64; PAGES as usize / 64])> {
    let mut chunks: BTreeMap<u32, [u64; PAGES as usize / 64]> = BTreeMap::new();
    for range in ram.touched() {
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            let bits = chunks.entry((page / PAGES) as u32).or_default();
            let bit = page % PAGES;
            bits[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }
    chunks.into_iter().collect()
}

/// The frame of a chunk; `None` if all of it is zero.
fn pack(
    ram: &GuestRam,
    number: u32,
    held: [u64; PAGES as usize / 64],
    buffer: &mut Vec<u8>,
) -> Result<Option<(Chunk, Vec<u8>)>, SnapshotError> {
    let mut chunk = Chunk {
        number,
        len: 0,
        sum: 0,
        pages: held,
    };
    buffer.clear();
    for page in (0..PAGES).filter(|p| held[(p / 64) as usize] >> (p % 64) & 1 != 0) {
        let at = u64::from(number) * CHUNK + page * PAGE;
        if ram.is_zero(at, PAGE)? {
            chunk.pages[(page / 64) as usize] &= !(1 << (page % 64));
            continue;
        }
        let from = buffer.len();
        buffer.resize(from + PAGE as usize, 0);
        ram.read_bytes(at, &mut buffer[from..])?;
    }
    if buffer.is_empty() {
        return Ok(None);
    }
    let frame = zstd::bulk::compress(buffer, LEVEL)?;
    chunk.sum = xxh3_64(&frame);
    chunk.len = frame.len() as u32;
    Ok(Some((chunk, frame)))
}

/// Writes the frames of all chunks that are not zero, in order; returns their index.
pub(crate) fn write(ram: &GuestRam, out: &mut dyn Write) -> Result<Vec<Chunk>, SnapshotError> {
    let todo = candidates(ram);
    let next = AtomicUsize::new(0);
    let count = threads(todo.len());
    let mut index = Vec::new();
    thread::scope(|scope| {
        let (send, receive) = mpsc::sync_channel(count * QUEUE);
        for _ in 0..count {
            let (send, next, todo) = (send.clone(), &next, &todo);
            scope.spawn(move || {
                let mut buffer = Vec::new();
                loop {
                    let i = next.fetch_add(1, Relaxed);
                    let Some((number, held)) = todo.get(i) else {
                        return;
                    };
                    let packed = pack(ram, *number, *held, &mut buffer);
                    // After an error the receiver is gone.
                    if send.send((i, packed)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        // They arrive in any order and are written in order.
        let mut early = BTreeMap::new();
        let mut due = 0;
        for (i, packed) in &receive {
            early.insert(i, packed?);
            while let Some(packed) = early.remove(&due) {
                due += 1;
                if let Some((chunk, frame)) = packed {
                    out.write_all(&frame)?;
                    index.push(chunk);
                }
            }
        }
        Ok(index)
    })
}

/// Unpacks a frame into pages; the buffer keeps its capacity.
struct Unpacker<'a> {
    source: &'a dyn Source,
    frame: Vec<u8>,
    pages: Vec<u8>,
    zstd: zstd::bulk::Decompressor<'static>,
}

impl<'a> Unpacker<'a> {
    fn new(source: &'a dyn Source) -> std::io::Result<Self> {
        Ok(Self {
            source,
            frame: Vec::new(),
            pages: Vec::with_capacity(CHUNK as usize),
            zstd: zstd::bulk::Decompressor::new()?,
        })
    }

    /// Reads and checks the frame of a chunk at its place.
    fn check(&mut self, chunk: &Chunk, at: u64) -> Result<(), SnapshotError> {
        self.frame.resize(chunk.len as usize, 0);
        read_part(self.source, &mut self.frame, at, "it ends in its memory")?;
        if xxh3_64(&self.frame) != chunk.sum {
            return Err(SnapshotError::Damaged("checksum of memory"));
        }
        self.pages.clear();
        let bytes = chunk.bytes() as usize;
        let got = self
            .zstd
            .decompress_to_buffer(&self.frame, &mut self.pages)
            .map_err(|_| SnapshotError::Damaged("a compressed piece of memory"))?;
        if got != bytes {
            return Err(SnapshotError::Damaged("length of a piece of memory"));
        }
        Ok(())
    }

    /// Writes the pages into memory that was zero.
    fn put(&self, chunk: &Chunk, ram: &GuestRam) -> Result<(), SnapshotError> {
        let base = u64::from(chunk.number) * CHUNK;
        let pages = (0..PAGES).filter(|p| chunk.has(*p));
        for (page, bytes) in pages.zip(self.pages.chunks_exact(PAGE as usize)) {
            ram.write_bytes(base + page * PAGE, bytes)?;
        }
        Ok(())
    }
}

/// Reads all chunks, each with its place in the file, and writes them to `ram`, which must be zero;
/// without `ram` they are only checked.
pub(crate) fn read(
    source: &dyn Source,
    chunks: &[(Chunk, u64)],
    ram: Option<&GuestRam>,
) -> Result<(), SnapshotError> {
    let next = AtomicUsize::new(0);
    let work = |_: usize| -> Result<(), SnapshotError> {
        let mut unpacker = Unpacker::new(source)?;
        while let Some((chunk, at)) = chunks.get(next.fetch_add(1, Relaxed)) {
            unpacker.check(chunk, *at)?;
            if let Some(ram) = ram {
                unpacker.put(chunk, ram)?;
            }
        }
        Ok(())
    };
    let count = threads(chunks.len());
    if count == 1 {
        return work(0);
    }
    thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|i| scope.spawn(move || work(i))).collect();
        let mut result = Ok(());
        for w in workers {
            let done = w.join().unwrap_or(Err(SnapshotError::Damaged("memory")));
            result = result.and(done);
        }
        result
    })
}
