//! Regions of memory with a memory of their own.

use super::size::Size;
use nagori_memcfg::Memory;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Regions that are there without being named: what lies below the NVMM boundary, and the rest.
pub const DRAM: &str = "dram";
/// See [`DRAM`].
pub const NVMM: &str = "nvmm";

/// A part of memory that is behind a controller of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegionConfig {
    /// What it is: a memory that `nagori mem list` shows, alone or with its variant (`pcm`,
    /// `ddr3-1600k`), or a path of a memory description relative to this file.
    pub model: String,
    /// Distance of its first byte from the base of memory. The regions `dram` and `nvmm` have
    /// theirs from the NVMM boundary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Size>,
    /// Bytes, a multiple of 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Number of such memories, interleaved, each with a controller of its own, 1 to 16.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub controllers: u32,
    /// Granularity of the interleaving in bytes, a power of two, 64 B to 1 GiB.
    #[serde(default = "page", skip_serializing_if = "is_page")]
    pub interleave: Size,
    /// The description, if it was read from a file, so that a snapshot can be resumed without the
    /// file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub file: Option<RegionFile>,
    /// Values of the memory that differ from its description, by their keys there:
    /// `timings.tRCD = "200 ns"`.
    #[serde(flatten)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub set: BTreeMap<String, Value>,
}

/// A description that was read from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionFile {
    /// Directory that paths in it start from.
    pub dir: PathBuf,
    /// What it said.
    pub text: String,
}

fn one() -> u32 {
    1
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

fn page() -> Size {
    Size(4096)
}

fn is_page(s: &Size) -> bool {
    *s == page()
}

/// A region with its address range.
#[derive(Debug, Clone, Copy)]
pub struct Region<'a> {
    /// Its name.
    pub name: &'a str,
    /// Distance of its first byte from the base of memory.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// What it is.
    pub config: &'a RegionConfig,
}

impl RegionConfig {
    /// The settings in the form of `nagori mem`: `key=value`.
    pub fn settings(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (key, value) in &self.set {
            leaves(key, value, &mut all);
        }
        all
    }

    /// The region's memory.
    pub fn load(&self) -> Result<Memory, nagori_memcfg::Error> {
        let settings = self.settings();
        if self.controllers > 1 {
            let inner = settings.iter().map(|s| format!("memory.{s}"));
            return Memory::from_source(&self.interleaved(), &inner.collect::<Vec<_>>());
        }
        match &self.file {
            None => Memory::load(&self.model, &settings),
            Some(f) => {
                let source = nagori_memcfg::Source {
                    name: self.model.clone(),
                    dir: Some(f.dir.clone()),
                    text: f.text.clone(),
                    variant: None,
                };
                Memory::from_source(&source, &settings)
            }
        }
    }

    /// The description of several such memories, interleaved.
    fn interleaved(&self) -> nagori_memcfg::Source {
        let (n, granularity) = (self.controllers, self.interleave.0);
        // A file is found from its own directory.
        let model = match &self.file {
            None => self.model.clone(),
            Some(_) => {
                let name = Path::new(&self.model).file_name().unwrap_or_default();
                format!("./{}", name.to_string_lossy())
            }
        };
        let model = Value::String(model);
        nagori_memcfg::Source {
            name: format!("{n} x {}", self.model),
            dir: self.file.as_ref().map(|f| f.dir.clone()),
            text: format!(
                "kind = \"interleaved\"\n\
                 description = \"{n} controllers\"\n\
                 memory = {model}\n\
                 [sources]\n\
                 machine = \"the machine's description\"\n\
                 [interleave]\n\
                 ways = {{ value = {n}, source = \"machine\" }}\n\
                 granularity = {{ value = \"{granularity} B\", source = \"machine\" }}\n"
            ),
            variant: None,
        }
    }
}

fn leaves(key: &str, value: &Value, to: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                leaves(&format!("{key}.{name}"), value, to);
            }
        }
        // Texts, numbers and lists have the same form in JSON and TOML.
        _ => to.push(format!("{key}={value}")),
    }
}
