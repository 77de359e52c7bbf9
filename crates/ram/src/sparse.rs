//! Which parts of guest memory the host has allocated: untouched pages are zero, and asking here
//! does not touch them.

use super::{GuestRam, RamError};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a page, of the guest and (at least) of the host.
pub const PAGE: u64 = 4096;
/// Bits of `pagemap` (Linux): a page of the host is in memory, or on the swap device.
const PRESENT: u64 = 3 << 62;

impl GuestRam {
    /// Ranges of bytes, in order and in whole pages, outside of which everything is zero. No page
    /// is touched. If the host cannot tell, the result is one range that covers everything.
    pub fn touched(&self) -> Vec<Range<u64>> {
        // If a page of the host spans several of the guest, the sums below do not hold.
        let all = || std::iter::once(0..self.len).collect();
        match self.pagemap() {
            Ok(ranges) if cfg!(target_os = "linux") => {
                union(union(ranges, self.data_of_file()), self.data_of_origin())
            }
            _ => all(),
        }
    }

    fn pagemap(&self) -> std::io::Result<Vec<Range<u64>>> {
        let map = File::open("/proc/self/pagemap")?;
        let first = self.base as u64 / PAGE;
        let count = self.len / PAGE;
        let mut buffer = vec![0u8; 1 << 19];
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut page = 0;
        while page < count {
            let want = (buffer.len() as u64 / 8).min(count - page) as usize;
            let part = &mut buffer[..want * 8];
            map.read_exact_at(part, (first + page) * 8)?;
            for (i, e) in part.chunks_exact(8).enumerate() {
                let entry = u64::from_ne_bytes(e.try_into().expect("eight bytes"));
                if entry & PRESENT == 0 {
                    continue;
                }
                let at = (page + i as u64) * PAGE;
                match ranges.last_mut() {
                    Some(r) if r.end == at => r.end += PAGE,
                    _ => ranges.push(at..at + PAGE),
                }
            }
            page += want as u64;
        }
        Ok(ranges)
    }

    /// Whether a range holds only zeros.
    pub fn is_zero(&self, offset: u64, len: u64) -> Result<bool, RamError> {
        self.check(offset, len)?;
        let (head, words, tail) = Self::split(offset, len as usize);
        let at = offset + head as u64;
        let zero = |from: u64, n: usize| self.bytes(from, n).iter().all(|b| b.load(Relaxed) == 0);
        let words_zero = self
            .words(at, words)
            .chunks(16)
            .all(|c| c.iter().fold(0, |or, w| or | w.load(Relaxed)) == 0);
        Ok(words_zero && zero(offset, head) && zero(at + words as u64 * 8, tail))
    }

    /// Sets a range of whole pages to zero and returns its memory to the host.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), RamError> {
        self.check(offset, len)?;
        if let Some((start, backed)) = self.backed() {
            let (from, to) = (offset.max(start), (offset + len).min(start + backed));
            if from < to {
                // A page of a file does not become zero by being given back.
                if !self.is_zero(from, to - from)? {
                    self.fill(from, to - from, 0)?;
                }
                self.discard(offset, from - offset)?;
                return self.discard(to, offset + len - to);
            }
        }
        let aligned = offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE);
        if aligned && len > 0 && self.has_origin() {
            // Pages that are given back would have their first content again.
            return self.put_zeros(offset, len);
        }
        #[cfg(target_os = "linux")]
        if aligned && len > 0 {
            let start = self.base as usize - self._map.as_ptr() as usize + offset as usize;
            // SAFETY: the range is part of this private anonymous mapping, whose pages read
            // as zero afterwards; nobody holds references to it but for atomic accesses.
            let done = unsafe {
                self._map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    start,
                    len as usize,
                )
            };
            if done.is_ok() {
                return Ok(());
            }
        }
        let _ = aligned;
        self.fill(offset, len, 0)
    }
}

/// Everything that is in one of two lists of ranges, each in order.
fn union(a: Vec<Range<u64>>, b: Vec<Range<u64>>) -> Vec<Range<u64>> {
    if b.is_empty() {
        return a;
    }
    let mut all = [a, b].concat();
    all.sort_unstable_by_key(|r| r.start);
    let mut out: Vec<Range<u64>> = Vec::with_capacity(all.len());
    for r in all {
        match out.last_mut() {
            Some(last) if last.end >= r.start => last.end = last.end.max(r.end),
            _ => out.push(r),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_touched_and_nothing_becomes_so_by_asking() {
        let m = GuestRam::new(1 << 30).unwrap();
        assert!(m.touched().iter().map(|r| r.end - r.start).sum::<u64>() < 16 << 20);
        m.write_u8(5000, 1).unwrap();
        m.write_u8(700 << 20, 1).unwrap();
        for at in [5000, 700 << 20] {
            assert!(m.touched().iter().any(|r| r.contains(&at)));
        }
        let held: u64 = m.touched().iter().map(|r| r.end - r.start).sum();
        assert!(held <= 8 << 20, "{held}");
    }

    #[test]
    fn discarded_ranges_are_zero() {
        let m = GuestRam::new(8 << 20).unwrap();
        m.fill(0, 8 << 20, 7).unwrap();
        m.discard(1 << 20, 2 << 20).unwrap();
        assert!(m.is_zero(1 << 20, 2 << 20).unwrap());
        assert!(!m.is_zero((1 << 20) - 1, 2).unwrap());
        assert_eq!(m.read_u8(3 << 20), Some(7));
        m.discard(4096, 100).unwrap();
        assert_eq!((m.read_u8(4195), m.read_u8(4196)), (Some(0), Some(7)));
        assert!(m.discard(8 << 20, 4096).is_err());
        assert!(m.is_zero(8 << 20, 1).is_err());
    }

    #[test]
    fn zeros_are_seen_at_any_alignment() {
        let m = GuestRam::new(8192).unwrap();
        for at in [100u64, 101, 107, 108, 163] {
            m.write_u8(at, 1).unwrap();
            for (from, len) in [(90, 80), (at, 1), (at - 3, 9)] {
                assert!(!m.is_zero(from, len).unwrap(), "{at} {from} {len}");
            }
            assert!(m.is_zero(at + 1, 64).unwrap() && m.is_zero(at - 9, 9).unwrap());
            m.write_u8(at, 0).unwrap();
        }
    }
}
