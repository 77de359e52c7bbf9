//! Parts of the model that whoever builds the machine brings along, for ideas that are tried: memories and prefetchers.
//!
//! What they keep is their own, so a machine with such a part can be neither copied nor saved.

use super::Machine;
use nagori_hart::lines::{Prefetch, Side};
use nagori_memtime::MemoryModel;

/// A part cannot be brought along as asked.
#[derive(Debug, thiserror::Error)]
pub enum BroughtError {
    /// There is no such region.
    #[error(
        "there is no region `{name}` with a memory of its own: give it one by \
        memory.regions.{name}.model, in whose place it is put; there is {known}"
    )]
    Region {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// It is smaller than the region.
    #[error("memory {model}: {capacity:#x} bytes, and region {region} has {needed:#x}")]
    Small {
        /// Its name.
        model: String,
        /// Its bytes.
        capacity: u64,
        /// The region.
        region: String,
        /// The region's bytes.
        needed: u64,
    },
    /// There is no such cache.
    #[error("there is no cache `{name}`; there is {known}")]
    Cache {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The cache has no prefetcher.
    #[error(
        "{cache} has no prefetcher in whose place one could be put: set {cache}.prefetcher to any, and {cache}.degree \
        to how many lines are requested at a time"
    )]
    NoPrefetcher {
        /// The cache.
        cache: String,
    },
}

impl Machine {
    /// Puts a memory that nothing was sent to in place of the one of a region. Its name is what reports call it.
    ///
    /// # Errors
    /// If there is no such region, or if it is larger.
    pub fn bring_memory(
        &mut self,
        region: &str,
        name: &str,
        model: Box<dyn MemoryModel + Send>,
    ) -> Result<(), BroughtError> {
        self.world.memory.bring(region, name, model)?;
        self.brought = Some(format!("memory {name}"));
        Ok(())
    }

    /// Puts a prefetcher in place of the one of a cache: `l1d`, `l1i`, or `cache.NAME`. If there are several caches of
    /// that name, it observes all of them.
    ///
    /// # Errors
    /// If there is no such cache, or if its description has no prefetcher.
    pub fn bring_prefetcher(
        &mut self,
        cache: &str,
        prefetcher: Box<dyn Prefetch>,
    ) -> Result<(), BroughtError> {
        let levels = self.config.levels();
        let found = match cache {
            "l1d" => Some(Ok(Side::Data)),
            "l1i" => Some(Ok(Side::Inst)),
            _ => { levels.iter() }
                .position(|(name, _)| cache.strip_prefix("cache.") == Some(name))
                .map(Err),
        };
        let Some(place) = found else {
            let outer = levels.iter().map(|(name, _)| format!("cache.{name}"));
            let all: Vec<String> = { ["l1d", "l1i"].into_iter() }
                .map(str::to_owned)
                .chain(outer)
                .collect();
            return Err(BroughtError::Cache {
                name: cache.to_owned(),
                known: all.join(", "),
            });
        };
        if !self.world.coherence.bring_prefetcher(place, prefetcher) {
            return Err(BroughtError::NoPrefetcher {
                cache: cache.to_owned(),
            });
        }
        self.brought = Some(format!("prefetcher of {cache}"));
        Ok(())
    }

    /// A part that was brought along, if there is one.
    pub fn brought(&self) -> Option<&str> {
        self.brought.as_deref()
    }
}
