//! Why a saved machine cannot be loaded.

use nagori_hart::lines::SavedError as SavedCachesError;
use nagori_hart::SavedError;
use nagori_platform::device::StateError;

/// Saved state of another machine description, or damaged.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A hart.
    #[error(transparent)]
    Hart(#[from] SavedError),
    /// The caches.
    #[error(transparent)]
    Caches(#[from] SavedCachesError),
    /// The memory controller.
    #[error("memory controller: {0}")]
    Memory(#[from] nagori_memtime::Error),
    /// A device.
    #[error(transparent)]
    Device(#[from] StateError),
    /// Something else; the text names it.
    #[error("saved state of the machine: {0}")]
    Machine(&'static str),
}
