//! Parameters of the DRAM cache.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::units::{ps_text, Ps};

/// Where the tags are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tags {
    /// In the controller.
    Sram {
        /// Time of a lookup.
        #[serde(with = "ps_text")]
        latency: Ps,
    },
    /// Beside the data (in its ECC bits, as in a two-level memory with one DRAM and one NVMM DIMM
    /// per channel): every access begins with a DRAM read of the block's piece, which returns the
    /// data, too. One way and blocks of 64 bytes only.
    WithData,
}

/// Shape of the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheParams {
    /// Bytes of a block, a power of two from 64 to 4096.
    pub block_bytes: u64,
    /// Blocks of a set, 1 (direct mapped) to 16. The least recently used one is replaced.
    pub ways: u32,
    /// Where the tags are stored.
    pub tags: Tags,
    /// Requests in progress, 1 to 256.
    pub transactions: u32,
}

impl CacheParams {
    /// Checks the values for a front memory of `capacity` bytes.
    pub fn validate(&self, capacity: u64) -> Result<(), Error> {
        let fail = |field, value: String, expected: String| {
            Err(Error::Param {
                field,
                value,
                expected,
            })
        };
        let (b, w) = (self.block_bytes, u64::from(self.ways));
        if !b.is_power_of_two() || !(64..=4096).contains(&b) {
            return fail(
                "block_bytes",
                b.to_string(),
                "a power of two from 64 to 4096".to_owned(),
            );
        }
        if !(1..=16).contains(&w) {
            return fail("ways", w.to_string(), "1 to 16".to_owned());
        }
        if !(1..=256).contains(&self.transactions) {
            return fail(
                "transactions",
                self.transactions.to_string(),
                "1 to 256".to_owned(),
            );
        }
        if capacity == 0 || !capacity.is_multiple_of(b * w) || capacity / b > 1 << 32 {
            return fail(
                "capacity of the front memory",
                capacity.to_string(),
                format!("whole sets of {} bytes, at most 2^32 blocks", b * w),
            );
        }
        match self.tags {
            Tags::WithData if w != 1 || b != 64 => fail(
                "tags",
                "with_data".to_owned(),
                "one way and blocks of 64 bytes, or tags in SRAM".to_owned(),
            ),
            Tags::Sram { latency } if latency > Ps::from_ns(1_000_000) => fail(
                "tags.latency",
                latency.to_string(),
                "at most 1 ms".to_owned(),
            ),
            _ => Ok(()),
        }
    }
}
