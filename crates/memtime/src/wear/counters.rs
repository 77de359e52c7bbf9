//! Counters by number, many of which are never touched.
//!
//! The low byte of a counter is in a page, one host cache line for 64 of them; the number of its
//! overflows is in a map. Increments are collected and then carried out together: each waits for
//! host memory twice, and independent ones wait at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Counters of a page.
pub const PAGE: usize = 64;
/// Pages of a directory.
const PAGES: usize = 512;
/// Number of pages that are allocated at once.
const CHUNK: usize = 256;
/// Number of increments that are carried out together.
const GATHERED: usize = 64;

type Directory = Box<[u32; PAGES]>;

#[derive(Clone, Debug, Default)]
struct Store {
    /// Number of each page, from 1 on; 0 for none. Page numbers would run out at 256 GiB of pages.
    directories: Vec<Option<Directory>>,
    /// Low bytes, in the order in which pages were allocated.
    chunks: Vec<Box<[[u8; PAGE]]>>,
    pages: u32,
    /// Number of overflows of a low byte.
    rounds: BTreeMap<u64, u32>,
}

/// The counters. Copies share their storage until one of them is incremented.
#[derive(Clone, Debug)]
pub struct Counters {
    store: Arc<Store>,
    /// Numbers whose increments have not been carried out.
    gathered: Vec<u64>,
}

impl Store {
    fn page(&self, page: u64) -> Option<&[u8; PAGE]> {
        let directory = self.directories.get(page as usize / PAGES)?.as_ref()?;
        let at = (directory[page as usize % PAGES] as usize).checked_sub(1)?;
        Some(&self.chunks[at / CHUNK][at % CHUNK])
    }

    /// The low byte of a number, whose page is allocated if it does not exist.
    fn low(&mut self, n: u64) -> &mut u8 {
        let page = n as usize / PAGE;
        let directory = self.directories[page / PAGES].get_or_insert_with(|| Box::new([0; PAGES]));
        let number = &mut directory[page % PAGES];
        if *number == 0 {
            if (self.pages as usize).is_multiple_of(CHUNK) {
                self.chunks.push(vec![[0; PAGE]; CHUNK].into_boxed_slice());
            }
            self.pages += 1;
            *number = self.pages;
        }
        let at = *number as usize - 1;
        &mut self.chunks[at / CHUNK][at % CHUNK][n as usize % PAGE]
    }

    fn add(&mut self, n: u64) {
        let low = self.low(n);
        *low = low.wrapping_add(1);
        if *low == 0 {
            *self.rounds.entry(n).or_insert(0) += 1;
        }
    }
}

impl Counters {
    /// `n` of them, all zero.
    pub fn new(n: u64) -> Counters {
        let directories = n.div_ceil((PAGE * PAGES) as u64) as usize;
        Counters {
            store: Arc::new(Store {
                directories: vec![None; directories],
                ..Store::default()
            }),
            gathered: Vec::with_capacity(GATHERED),
        }
    }

    /// Adds one to number `n`, which must exist.
    #[inline]
    pub fn add(&mut self, n: u64) {
        self.gathered.push(n);
        if self.gathered.len() >= GATHERED {
            self.store_gathered();
        }
    }

    /// Sets number `n`, which must exist and be zero, to a value below 2^40.
    pub fn set(&mut self, n: u64, value: u64) {
        if value == 0 {
            return;
        }
        let store = Arc::make_mut(&mut self.store);
        *store.low(n) = value as u8;
        if value >> 8 > 0 {
            store.rounds.insert(n, (value >> 8) as u32);
        }
    }

    #[inline(never)]
    fn store_gathered(&mut self) {
        let store = Arc::make_mut(&mut self.store);
        for n in self.gathered.drain(..) {
            store.add(n);
        }
    }

    /// The counter of number `n`.
    pub fn get(&self, n: u64) -> u64 {
        let page = self.store.page(n / PAGE as u64);
        let low = page.map_or(0, |p| p[n as usize % PAGE]);
        let rounds = self.store.rounds.get(&n).copied().unwrap_or(0);
        let gathered = self.gathered.iter().filter(|g| **g == n).count();
        u64::from(low) + (u64::from(rounds) << 8) + gathered as u64
    }

    /// Calls `f` with the number and the value of each counter above zero, by number.
    pub fn for_each(&self, mut f: impl FnMut(u64, u64)) {
        // What is not in the pages, by number.
        let mut gathered = self.gathered.clone();
        gathered.sort_unstable();
        let mut gathered = gathered.into_iter().peekable();
        let mut rounds = self.store.rounds.iter().peekable();
        let mut beside = std::iter::from_fn(move || {
            let n = match (gathered.peek(), rounds.peek()) {
                (Some(a), Some((b, _))) => *a.min(b),
                (Some(a), None) => *a,
                (None, Some((b, _))) => **b,
                (None, None) => return None,
            };
            let mut v = 0;
            while gathered.next_if_eq(&n).is_some() {
                v += 1;
            }
            if let Some((_, r)) = rounds.next_if(|r| *r.0 == n) {
                v += u64::from(*r) << 8;
            }
            Some((n, v))
        })
        .peekable();
        let mut pages = Vec::with_capacity(PAGES);
        for (i, directory) in self.store.directories.iter().enumerate() {
            let Some(directory) = directory else { continue };
            // All at once: pages lie in no order, and each is waited for.
            pages.clear();
            for (j, numbers) in directory.chunks_exact(8).enumerate() {
                if numbers == [0; 8] {
                    continue;
                }
                for (k, number) in numbers.iter().enumerate() {
                    if let Some(at) = (*number as usize).checked_sub(1) {
                        let first = ((i * PAGES + 8 * j + k) * PAGE) as u64;
                        pages.push((first, self.store.chunks[at / CHUNK][at % CHUNK]));
                    }
                }
            }
            for (first, page) in &pages {
                let first = *first;
                while let Some((n, v)) = beside.next_if(|b| b.0 < first) {
                    f(n, v);
                }
                for (k, eight) in page.chunks_exact(8).enumerate() {
                    let from = first + 8 * k as u64;
                    let more = beside.peek().is_some_and(|b| b.0 < from + 8);
                    if !more && eight == [0; 8] {
                        continue;
                    }
                    for (n, low) in (from..).zip(eight) {
                        let v = beside.next_if(|b| b.0 == n).map_or(0, |b| b.1);
                        let v = v + u64::from(*low);
                        if v > 0 {
                            f(n, v);
                        }
                    }
                }
            }
        }
        for (n, v) in beside {
            f(n, v);
        }
    }

    /// Pages and directories in use.
    #[cfg(test)]
    pub fn in_use(&self) -> (usize, usize) {
        let directories = self.store.directories.iter().flatten();
        (self.store.pages as usize, directories.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(c: &Counters) -> Vec<(u64, u64)> {
        let mut v = Vec::new();
        c.for_each(|n, x| v.push((n, x)));
        v
    }

    proptest! {
        /// Compares with a map: counters that overflow their byte, sparse and dense ones, and
        /// copies that continue independently.
        #[test]
        fn equal_a_map(
            adds in prop::collection::vec((0u64..1 << 20, 0u32..3, 1u32..600), 0..60),
            copy_at in 0usize..60,
        ) {
            let mut c = Counters::new(1 << 20);
            let mut map = BTreeMap::new();
            let mut copied = None;
            for (i, (n, spread, times)) in adds.iter().enumerate() {
                if i == copy_at {
                    copied = Some((c.clone(), map.clone()));
                }
                // Some near zero, so that pages are shared.
                let n = n >> (6 * spread);
                for _ in 0..*times {
                    c.add(n);
                    *map.entry(n).or_insert(0u64) += 1;
                }
                prop_assert_eq!(c.get(n), map[&n]);
            }
            prop_assert_eq!(all(&c), map.into_iter().collect::<Vec<_>>());
            if let Some((mut c, mut map)) = copied {
                prop_assert_eq!(all(&c), map.clone().into_iter().collect::<Vec<_>>());
                for n in 0..100 {
                    c.add(n);
                    *map.entry(n).or_insert(0) += 1;
                }
                prop_assert_eq!(all(&c), map.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
