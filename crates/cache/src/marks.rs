//! Which lines of memory hold decoded code.

use std::ops::Range;

/// Pages of a group.
const GROUP: usize = 64;

/// For each page of memory, a bit for each line that has been decoded as code.
///
/// The words of all pages are many (8 MiB for 4 GiB of memory), those with marks few: groups of pages in which there
/// may be marks are known, so that listing and clearing them costs what there is, not what there might be.
#[derive(Clone, Debug)]
pub(crate) struct CodeMarks {
    lines: Vec<u64>,
    /// A bit for each group of pages that has been marked.
    groups: Vec<u64>,
}

impl CodeMarks {
    /// For a number of pages.
    pub fn new(pages: usize) -> CodeMarks {
        CodeMarks {
            lines: vec![0; pages],
            groups: vec![0; pages.div_ceil(GROUP).div_ceil(64)],
        }
    }

    /// Pages of memory.
    pub fn pages(&self) -> usize {
        self.lines.len()
    }

    /// The marks of a page; none outside memory.
    #[inline]
    pub fn of(&self, page: usize) -> u64 {
        self.lines.get(page).copied().unwrap_or(0)
    }

    /// Marks lines of a page; true if any of them is new. Outside memory nothing is marked.
    pub fn mark(&mut self, page: usize, lines: u64) -> bool {
        let Some(m) = self.lines.get_mut(page) else {
            return false;
        };
        let new = lines & !*m != 0;
        *m |= lines;
        let group = page / GROUP;
        self.groups[group / 64] |= 1 << (group % 64);
        new
    }

    /// Unmarks a page; true if it had a mark.
    pub fn unmark(&mut self, page: usize) -> bool {
        self.lines
            .get_mut(page)
            .is_some_and(|m| std::mem::take(m) != 0)
    }

    /// Pages of the groups in which there may be marks, ascending.
    fn groups(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let pages = self.lines.len();
        self.groups.iter().enumerate().flat_map(move |(i, word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 != 0)
                .map(move |bit| (i * 64 + bit) * GROUP)
                .map(move |first| first..(first + GROUP).min(pages))
        })
    }

    /// Pages with marks, ascending, and their marks.
    pub fn all(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.groups()
            .flatten()
            .map(|page| (page, self.lines[page]))
            .filter(|(_, lines)| *lines != 0)
    }

    /// Unmarks all pages.
    pub fn clear(&mut self) {
        let groups: Vec<Range<usize>> = self.groups().collect();
        for pages in groups {
            self.lines[pages].fill(0);
        }
        self.groups.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Beside a map of pages.
        #[test]
        fn marks_are_those_that_were_made(
            steps in prop::collection::vec((0usize..5000, 0u64..4, 0u8..20), 0..100)
        ) {
            const PAGES: usize = 4999;
            let (mut marks, mut map) = (CodeMarks::new(PAGES), BTreeMap::<usize, u64>::new());
            for (page, lines, what) in steps {
                match what {
                    0 => {
                        marks.clear();
                        map.clear();
                    }
                    1..=4 => prop_assert_eq!(marks.unmark(page), map.remove(&page).is_some()),
                    _ => {
                        let inside = page < PAGES && lines != 0;
                        let before = map.get(&page).copied().unwrap_or(0);
                        if inside {
                            map.insert(page, before | lines);
                        }
                        prop_assert_eq!(marks.mark(page, lines), inside && lines & !before != 0);
                    }
                }
                prop_assert_eq!(marks.of(page), map.get(&page).copied().unwrap_or(0));
                prop_assert!(marks.all().eq(map.iter().map(|(p, l)| (*p, *l))));
            }
        }
    }
}
