//! What memory held at each moment: the pages that have changed, in the versions that somebody may still want.

use nagori_machine::{Checkpoint, MachineError, PageContent};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Bytes of a page.
const PAGE: usize = 4096;

/// Pages by moment. Moments are numbered from 0, the first one, which has everything.
pub struct Pages {
    first: Checkpoint,
    /// Versions of a page: since which moment, ascending.
    versions: HashMap<u64, VecDeque<(u64, PageContent)>>,
    /// The pages that changed with each moment, from `from` on.
    changed: VecDeque<Vec<u64>>,
    from: u64,
    /// Versions that are older than this moment are gone, where there are later ones.
    pruned: u64,
}

impl Pages {
    pub fn new(first: Checkpoint) -> Pages {
        Pages {
            first,
            versions: HashMap::new(),
            changed: VecDeque::from([Vec::new()]),
            from: 0,
            pruned: 0,
        }
    }

    pub fn first(&self) -> &Checkpoint {
        &self.first
    }

    /// The next moment has come.
    pub fn add(&mut self, pages: Vec<(u64, PageContent)>) {
        let moment = self.from + self.changed.len() as u64;
        self.changed.push_back(pages.iter().map(|p| p.0).collect());
        for (at, content) in pages {
            self.versions
                .entry(at)
                .or_default()
                .push_back((moment, content));
        }
    }

    /// The content at moment `to` of all pages that a copy of moment `at` has to renew, with those that it has stored
    /// to.
    pub fn renewed(
        &self,
        (at, to): (u64, u64),
        own: Vec<u64>,
    ) -> Result<Vec<(u64, PageContent)>, MachineError> {
        let mut pages: BTreeSet<u64> = own.into_iter().collect();
        let since = (at + 1).saturating_sub(self.from) as usize;
        let until = (to + 1).saturating_sub(self.from) as usize;
        pages.extend(self.changed.iter().take(until).skip(since).flatten());
        pages
            .into_iter()
            .map(|p| Ok((p, self.content(p, to)?)))
            .collect()
    }

    fn content(&self, page: u64, to: u64) -> Result<PageContent, MachineError> {
        let versions = self.versions.get(&page);
        let found = versions.and_then(|v| v.iter().rev().find(|(m, _)| *m <= to));
        if let Some((_, content)) = found {
            return Ok(content.clone());
        }
        let mut bytes = vec![0; PAGE];
        self.first.memory().read(page, &mut bytes)?;
        Ok(bytes.into())
    }

    /// The first moment that somebody asks for from now on (`None`: the next one), and the first one that there is a
    /// copy of.
    pub fn forget(&mut self, wanted: Option<u64>, copy: u64) {
        let last = self.from + self.changed.len() as u64 - 1;
        let wanted = wanted.unwrap_or(last);
        while self.pruned < wanted {
            self.pruned += 1;
            let Some(pages) = self.changed.get((self.pruned - self.from) as usize) else {
                break;
            };
            // A version is needed as long as no later one is old enough.
            for page in pages {
                if let Some(v) = self.versions.get_mut(page) {
                    while v.len() > 1 && v[1].0 <= wanted {
                        v.pop_front();
                    }
                }
            }
        }
        while self.from < copy.min(self.pruned) && self.changed.len() > 1 {
            self.changed.pop_front();
            self.from += 1;
        }
    }
}
