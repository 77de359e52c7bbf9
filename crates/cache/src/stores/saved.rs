//! The buffers of stores as data; their contents for whoever looks at memory from outside.

use super::Buffers;
use serde::{Deserialize, Serialize};

/// The store buffers and combined lines of all harts, as saved in a snapshot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedStores {
    pub(crate) harts: Vec<Buffers>,
    pub(crate) clock: u64,
}

impl SavedStores {
    pub fn is_new(&self) -> bool {
        self.harts.is_empty()
    }
}
