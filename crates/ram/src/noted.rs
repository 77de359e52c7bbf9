//! Which pages of a guest memory have been stored to, for whoever keeps a copy of it up to date.

use super::{GuestRam, PAGE};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

/// A bit for each page that may have been stored to, once somebody wants to know.
#[derive(Debug, Default)]
pub(super) struct Noted(OnceLock<Box<[AtomicU64]>>);

impl GuestRam {
    /// Has [`GuestRam::note_store`] take effect from now on.
    pub fn note_stores(&self) {
        let words = (self.len() / PAGE).div_ceil(64);
        self.noted
            .0
            .get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect());
    }

    /// Says that the page of this offset is stored to. Whoever lets stores pass without asking again says it when the
    /// right to do so is given.
    #[inline(always)]
    pub fn note_store(&self, offset: u64) {
        if let Some(words) = self.noted.0.get() {
            let page = offset / PAGE;
            if let Some(word) = words.get((page / 64) as usize) {
                word.fetch_or(1 << (page % 64), Relaxed);
            }
        }
    }

    /// As [`GuestRam::note_store`], of a range.
    pub fn note_range(&self, offset: u64, len: u64) {
        if len == 0 || self.noted.0.get().is_none() {
            return;
        }
        let last = offset.saturating_add(len - 1).min(self.len() - 1);
        (offset / PAGE..=last / PAGE).for_each(|p| self.note_store(p * PAGE));
    }

    /// The offsets of all pages that were noted since the last call, ascending.
    pub fn take_noted(&self) -> Vec<u64> {
        let words = self.noted.0.get().map_or(&[][..], |w| w);
        let mut pages = Vec::new();
        for (i, word) in words.iter().enumerate() {
            // Most words are zero, and an exchange costs more than a look.
            if word.load(Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Relaxed);
            while bits != 0 {
                pages.push((i as u64 * 64 + u64::from(bits.trailing_zeros())) * PAGE);
                bits &= bits - 1;
            }
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_noted_once_and_only_if_somebody_asks() {
        let m = GuestRam::new(100 * PAGE).unwrap();
        m.note_store(5 * PAGE);
        assert!(m.take_noted().is_empty());
        m.note_stores();
        m.note_store(70 * PAGE + 1);
        m.note_store(70 * PAGE + 4095);
        m.note_range(PAGE - 1, 2);
        m.note_range(99 * PAGE, u64::MAX);
        // Outside there is nothing.
        m.note_store(u64::MAX);
        let expected = [0, 1, 70, 99].map(|p| p * PAGE);
        assert_eq!(m.take_noted(), expected);
        assert!(m.take_noted().is_empty());
    }
}
