//! The parameters of shipped descriptions, for tests and examples: each value without its source.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The reference board's controller, with 1 GiB of DRAM and 3 GiB of NVMM, method `dram`.
pub fn board<T: DeserializeOwned>() -> T {
    table(include_str!("../../../memories/board.toml"), "board")
}

/// The DIMM of Optane's first generation.
pub fn xpoint<T: DeserializeOwned>() -> T {
    table(include_str!("../../../memories/xpoint.toml"), "xpoint")
}

/// A CXL link of eight lanes at 32 GT/s.
pub fn link<T: DeserializeOwned>() -> T {
    table(include_str!("../../../memories/cxl.toml"), "link")
}

/// A memory as a cache of another one, in the manner of Optane's memory mode.
pub fn memory_mode<T: DeserializeOwned>() -> T {
    table(include_str!("../../../memories/dram-cache.toml"), "cache")
}

fn table<T: DeserializeOwned>(text: &str, name: &str) -> T {
    let mut whole: Value = toml::from_str(text).expect("TOML");
    serde_json::from_value(plain(whole[name].take())).expect("parameters")
}

fn plain(value: Value) -> Value {
    match value {
        Value::Object(mut o) if o.contains_key("source") => o["value"].take(),
        Value::Object(o) => o.into_iter().map(|(k, v)| (k, plain(v))).collect(),
        other => other,
    }
}
