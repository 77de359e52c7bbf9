//! Guest memory: one anonymous host mapping, addressed by offset; a part of it may have a file behind it.
//!
//! All accesses go through `&self`: harts and devices share the memory by
//! `Arc`. Naturally aligned accesses of 1, 2, 4 and 8 bytes are relaxed host
//! atomics, so that sharing between host threads is never undefined behaviour;
//! on a 64-bit host they compile to plain moves.

mod backing;
mod kept;
mod noted;
mod sparse;

pub use backing::{data, FileWords, Sharing};
pub use kept::Kept;
pub use sparse::PAGE;

use std::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering::Relaxed, Ordering::SeqCst,
};

/// Errors of guest memory.
#[derive(Debug, thiserror::Error)]
pub enum RamError {
    /// The host gave no memory.
    #[error("cannot map {bytes} bytes of guest memory: {source}")]
    Map {
        /// Size asked for, in bytes.
        bytes: u64,
        /// The host's reason.
        source: std::io::Error,
    },
    /// The size is zero or not a multiple of 4096.
    #[error("guest memory of {0} bytes: the size must be a positive multiple of 4096")]
    Size(u64),
    /// The content of memory cannot be kept.
    #[error("cannot keep the content of guest memory: {source}")]
    Keep {
        /// The host's reason.
        source: std::io::Error,
    },
    /// A file cannot be put behind memory.
    #[error("cannot put a file behind guest memory: {source}")]
    Back {
        /// The host's reason.
        source: std::io::Error,
    },
    /// A write to a part of memory that is read-only.
    #[error("guest memory at offset {0:#x} is read-only")]
    ReadOnly(u64),
    /// An access reaches past the end.
    #[error(
        "offset {offset:#x} + {len:#x} bytes lies outside the guest memory of {size:#x} bytes"
    )]
    OutOfRange {
        /// First byte, from the start of memory.
        offset: u64,
        /// Length of the access in bytes.
        len: u64,
        /// Size of the memory in bytes.
        size: u64,
    },
}

/// Size of a huge page of the host, in bytes.
const HUGE: u64 = 2 << 20;

/// Guest RAM, zero at creation; the host allocates pages when they are first touched.
#[derive(Debug)]
pub struct GuestRam {
    base: *mut u8,
    len: u64,
    behind: backing::Behind,
    /// What it was at its beginning, if that was not zeros.
    origin: Option<Kept>,
    noted: noted::Noted,
    // Keeps the mapping alive; never accessed except through `base`.
    _map: memmap2::MmapMut,
}

// SAFETY: the mapping is owned for the life of the value, and every access to
// it is either atomic or a byte-wise copy of atomics (see `read_bytes`).
unsafe impl Send for GuestRam {}
// SAFETY: as above; there is no interior state besides the mapped bytes.
unsafe impl Sync for GuestRam {}

macro_rules! scalar {
    ($read:ident, $write:ident, $t:ty, $a:ty) => {
        /// Reads a little-endian scalar. Any alignment. `None` outside the memory.
        #[inline(always)]
        #[allow(clippy::modulo_one)] // one byte is always aligned
        pub fn $read(&self, offset: u64) -> Option<$t> {
            const N: u64 = std::mem::size_of::<$t>() as u64;
            if offset % N != 0 {
                let mut b = [0u8; N as usize];
                self.read_bytes(offset, &mut b).ok()?;
                return Some(<$t>::from_le_bytes(b));
            }
            if offset >= self.len {
                return None;
            }
            // SAFETY: offset is a multiple of N and below len, which is a
            // multiple of 4096, so N bytes from it are mapped and aligned.
            let v = unsafe { (*(self.base.add(offset as usize) as *const $a)).load(Relaxed) };
            Some(<$t>::from_le(v))
        }
        /// Writes a little-endian scalar. Any alignment. `None` outside the memory.
        #[inline(always)]
        #[allow(clippy::modulo_one)] // one byte is always aligned
        pub fn $write(&self, offset: u64, value: $t) -> Option<()> {
            const N: u64 = std::mem::size_of::<$t>() as u64;
            if offset % N != 0 {
                return self.write_bytes(offset, &value.to_le_bytes()).ok();
            }
            if offset >= self.len {
                return None;
            }
            if offset >= self.behind.from.load(Relaxed) && !self.before_write(offset, N) {
                return None;
            }
            // SAFETY: as for the read.
            unsafe {
                (*(self.base.add(offset as usize) as *const $a)).store(value.to_le(), Relaxed)
            };
            Some(())
        }
    };
}

macro_rules! exchange {
    ($name:ident, $t:ty, $a:ty) => {
        /// Replaces a naturally aligned little-endian scalar if it is still `old`, atomically for
        /// all host threads and sequentially consistent. Returns the previous value: `Ok` if it was
        /// replaced. `None` outside the memory or misaligned.
        #[inline]
        pub fn $name(&self, offset: u64, old: $t, new: $t) -> Option<Result<$t, $t>> {
            const N: u64 = std::mem::size_of::<$t>() as u64;
            if offset % N != 0 || offset >= self.len {
                return None;
            }
            if offset >= self.behind.from.load(Relaxed) && !self.before_write(offset, N) {
                return None;
            }
            // SAFETY: as for the reads of aligned scalars.
            let place = unsafe { &*(self.base.add(offset as usize) as *const $a) };
            let done = place.compare_exchange(old.to_le(), new.to_le(), SeqCst, SeqCst);
            Some(done.map(<$t>::from_le).map_err(<$t>::from_le))
        }
    };
}

impl GuestRam {
    /// Maps `bytes` (a positive multiple of 4096) of zeroed memory.
    pub fn new(bytes: u64) -> Result<Self, RamError> {
        if bytes == 0 || !bytes.is_multiple_of(4096) || usize::try_from(bytes).is_err() {
            return Err(RamError::Size(bytes));
        }
        let fail = |source| RamError::Map { bytes, source };
        // Room to begin at a huge page of the host: guests touch their memory in an order that the
        // host's TLB could not follow with small pages.
        let room = match bytes {
            HUGE.. => HUGE,
            _ => 0,
        };
        let size = (bytes as usize)
            .checked_add(room as usize)
            .ok_or_else(|| fail(std::io::ErrorKind::OutOfMemory.into()))?;
        let mut map = memmap2::MmapOptions::new()
            .len(size)
            .no_reserve_swap()
            .map_anon()
            .map_err(fail)?;
        let skip = match room {
            0 => 0,
            _ => (HUGE as usize - map.as_ptr() as usize % HUGE as usize) % HUGE as usize,
        };
        #[cfg(target_os = "linux")]
        if room > 0 {
            // A host without huge pages continues with small ones.
            let _ = map.advise_range(memmap2::Advice::HugePage, skip, bytes as usize);
        }
        Ok(Self {
            // Less than a huge page after the start, for which there is room.
            base: map.as_mut_ptr().wrapping_add(skip),
            len: bytes,
            behind: backing::Behind::default(),
            origin: None,
            noted: noted::Noted::default(),
            _map: map,
        })
    }

    /// Size in bytes.
    #[inline(always)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never true: a memory has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Host address of the first byte, for code that was generated for this memory. It
    /// stays the same for the life of the value.
    #[inline(always)]
    pub fn host_base(&self) -> *mut u8 {
        self.base
    }

    /// Tells the host that the bytes at `offset` will be read soon, if they exist. Lines that miss
    /// in the modelled caches usually miss in the host's, too; so they are fetched while the
    /// guest's memory is modelled.
    #[inline(always)]
    pub fn prefetch(&self, offset: u64) {
        #[cfg(target_arch = "x86_64")]
        if offset < self.len {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            // SAFETY: the address is within the mapping; reading ahead changes nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.base.add(offset as usize) as *const i8) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    scalar!(read_u8, write_u8, u8, AtomicU8);
    scalar!(read_u16, write_u16, u16, AtomicU16);
    scalar!(read_u32, write_u32, u32, AtomicU32);
    scalar!(read_u64, write_u64, u64, AtomicU64);

    exchange!(compare_exchange_u32, u32, AtomicU32);
    exchange!(compare_exchange_u64, u64, AtomicU64);

    fn check(&self, offset: u64, len: u64) -> Result<(), RamError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(RamError::OutOfRange {
                offset,
                len,
                size: self.len,
            }),
        }
    }

    fn check_write(&self, offset: u64, len: u64) -> Result<(), RamError> {
        self.check(offset, len)?;
        let end = offset + len;
        if end > self.behind.from.load(Relaxed) && !self.before_write(offset, len) {
            return Err(RamError::ReadOnly(offset));
        }
        Ok(())
    }

    /// Single bytes of a range that has been checked.
    fn bytes(&self, offset: u64, len: usize) -> &[AtomicU8] {
        // SAFETY: the caller has checked that the range is in the memory; single bytes
        // have no alignment, and all accesses are atomic.
        unsafe {
            std::slice::from_raw_parts(self.base.add(offset as usize) as *const AtomicU8, len)
        }
    }

    /// Words of a range that has been checked; `offset` is a multiple of 8 unless there are none.
    fn words(&self, offset: u64, count: usize) -> &[AtomicU64] {
        if count == 0 {
            return &[];
        }
        debug_assert!(offset.is_multiple_of(8));
        // SAFETY: the caller has checked that the range is in the memory, whose start is
        // aligned to a page; all accesses are atomic.
        unsafe {
            std::slice::from_raw_parts(self.base.add(offset as usize) as *const AtomicU64, count)
        }
    }

    /// Whether these words are at an offset, which is aligned to them.
    #[inline(always)]
    pub fn has_words<const N: usize>(&self, offset: u64, words: &[u64; N]) -> bool {
        if self.check(offset, 8 * N as u64).is_err() || !offset.is_multiple_of(8) {
            return false;
        }
        let there = self.words(offset, N).iter().zip(words);
        there.fold(0, |d, (a, b)| d | (u64::from_le(a.load(Relaxed)) ^ b)) == 0
    }

    /// The bytes of a range up to its first whole word, its whole words, and the bytes after them.
    fn split(offset: u64, len: usize) -> (usize, usize, usize) {
        let head = ((8 - offset % 8) % 8).min(len as u64) as usize;
        let words = (len - head) / 8;
        (head, words, len - head - words * 8)
    }

    /// Copies bytes out of guest memory.
    pub fn read_bytes(&self, offset: u64, out: &mut [u8]) -> Result<(), RamError> {
        self.check(offset, out.len() as u64)?;
        let (head, words, tail) = Self::split(offset, out.len());
        let (first, rest) = out.split_at_mut(head);
        let (middle, last) = rest.split_at_mut(words * 8);
        let at = offset + head as u64;
        for (b, m) in first.iter_mut().zip(self.bytes(offset, head)) {
            *b = m.load(Relaxed);
        }
        for (b, m) in middle.chunks_exact_mut(8).zip(self.words(at, words)) {
            b.copy_from_slice(&m.load(Relaxed).to_ne_bytes());
        }
        let end = at + words as u64 * 8;
        for (b, m) in last.iter_mut().zip(self.bytes(end, tail)) {
            *b = m.load(Relaxed);
        }
        Ok(())
    }

    /// Copies bytes into guest memory.
    pub fn write_bytes(&self, offset: u64, data: &[u8]) -> Result<(), RamError> {
        self.check_write(offset, data.len() as u64)?;
        let (head, words, tail) = Self::split(offset, data.len());
        let (first, rest) = data.split_at(head);
        let (middle, last) = rest.split_at(words * 8);
        let at = offset + head as u64;
        for (b, m) in first.iter().zip(self.bytes(offset, head)) {
            m.store(*b, Relaxed);
        }
        for (b, m) in middle.chunks_exact(8).zip(self.words(at, words)) {
            let word = b.try_into().expect("eight bytes");
            m.store(u64::from_ne_bytes(word), Relaxed);
        }
        let end = at + words as u64 * 8;
        for (b, m) in last.iter().zip(self.bytes(end, tail)) {
            m.store(*b, Relaxed);
        }
        Ok(())
    }

    /// Sets a range to one byte value.
    pub fn fill(&self, offset: u64, len: u64, value: u8) -> Result<(), RamError> {
        self.check_write(offset, len)?;
        let (head, words, tail) = Self::split(offset, len as usize);
        let at = offset + head as u64;
        let single = |m: &[AtomicU8]| m.iter().for_each(|m| m.store(value, Relaxed));
        single(self.bytes(offset, head));
        for m in self.words(at, words) {
            m.store(u64::from_ne_bytes([value; 8]), Relaxed);
        }
        single(self.bytes(at + words as u64 * 8, tail));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_keep_little_endian_order_at_any_alignment() {
        let m = GuestRam::new(8192).unwrap();
        m.write_u64(8, 0x1122_3344_5566_7788).unwrap();
        assert_eq!(m.read_u8(8), Some(0x88));
        assert_eq!(m.read_u32(11), Some(0x2233_4455));
        m.write_u32(4093, 0xaabb_ccdd).unwrap();
        assert_eq!(m.read_u32(4093), Some(0xaabb_ccdd));
    }

    #[test]
    fn bytes_go_in_and_out_at_any_alignment() {
        let m = GuestRam::new(8192).unwrap();
        let data: Vec<u8> = (1..=40).collect();
        for at in 0..16 {
            for len in 0..40 {
                m.fill(0, 64, 0xff).unwrap();
                m.write_bytes(at, &data[..len]).unwrap();
                let mut all = [0; 64];
                m.read_bytes(0, &mut all).unwrap();
                let at = at as usize;
                assert_eq!(all[at..at + len], data[..len]);
                assert!(all[..at].iter().chain(&all[at + len..]).all(|b| *b == 0xff));
                let mut out = vec![0; len];
                m.read_bytes(at as u64, &mut out).unwrap();
                assert_eq!(out, data[..len]);
                m.fill(at as u64, len as u64, 3).unwrap();
                m.read_bytes(0, &mut all).unwrap();
                assert_eq!(all.iter().filter(|b| **b == 3).count(), len);
            }
        }
    }

    #[test]
    fn exchanges_happen_if_nothing_has_changed() {
        let m = GuestRam::new(4096).unwrap();
        m.write_u64(8, 7).unwrap();
        assert_eq!(m.compare_exchange_u64(8, 6, 1), Some(Err(7)));
        assert_eq!(m.compare_exchange_u64(8, 7, 1 << 40), Some(Ok(7)));
        assert_eq!(m.compare_exchange_u32(12, 1 << 8, 9), Some(Ok(1 << 8)));
        assert_eq!(m.read_u64(8), Some(9 << 32));
        assert_eq!(m.compare_exchange_u64(4, 0, 1), None, "misaligned");
        assert_eq!(m.compare_exchange_u32(4096, 0, 1), None, "outside");
    }

    #[test]
    fn the_end_is_a_boundary() {
        let m = GuestRam::new(4096).unwrap();
        assert_eq!(m.read_u64(4088), Some(0));
        assert_eq!(m.read_u64(4096), None);
        assert_eq!(m.read_u64(4090), None);
        assert_eq!(m.write_u8(u64::MAX, 1), None);
        assert!(m.write_bytes(4095, &[1, 2]).is_err());
        assert!(m.read_bytes(u64::MAX, &mut [0; 2]).is_err());
        assert!(GuestRam::new(0).is_err());
        assert!(GuestRam::new(4097).is_err());
    }
}
