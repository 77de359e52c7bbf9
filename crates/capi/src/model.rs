//! Creates models from names.

use nagori_memcfg::Memory;
use nagori_memtime::MemoryModel;

use crate::{Failure, NAGORI_ERROR_CONFIG};

/// Creates the memory of that name with these settings.
pub fn build(name: &str, settings: &[String]) -> Result<Box<dyn MemoryModel + Send>, Failure> {
    let memory = Memory::load(name, settings).and_then(|m| m.build());
    memory.map_err(|e| (NAGORI_ERROR_CONFIG, e.to_string()))
}
