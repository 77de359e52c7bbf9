//! Under what a program is run.

use crate::program::Size;
use nagori_memtime::Method;
use nagori_session::Placement;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What NVMM is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// The board's memory with a delay method.
    Method(String),
    /// A memory of its own, by the name of its description.
    Model(String),
}

impl Memory {
    /// The method, if it is one.
    pub fn method(&self) -> Option<Method> {
        match self {
            Memory::Method(name) => Method::ALL.into_iter().find(|m| m.to_string() == *name),
            Memory::Model(_) => None,
        }
    }

    /// The setting of a machine that has it.
    pub fn setting(&self) -> Option<String> {
        match self {
            Memory::Method(_) => None,
            Memory::Model(name) => Some(format!("memory.regions.nvmm.model={name}")),
        }
    }

    /// Its name in tables.
    pub fn name(&self) -> &str {
        match self {
            Memory::Method(name) | Memory::Model(name) => name,
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose allocator puts the heap on NVMM.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Malloc {
    /// libnagori-malloc.
    #[default]
    Nagori,
    /// Debian's jemalloc, whose mappings are bound to the node of NVMM.
    Jemalloc,
}

impl FromStr for Malloc {
    type Err = String;

    fn from_str(text: &str) -> Result<Malloc, String> {
        match text {
            "nagori" => Ok(Malloc::Nagori),
            "jemalloc" => Ok(Malloc::Jemalloc),
            _ => Err(format!(
                "there is no allocator `{text}`: expected nagori or jemalloc"
            )),
        }
    }
}

impl fmt::Display for Malloc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malloc::Nagori => "nagori",
            Malloc::Jemalloc => "jemalloc",
        })
    }
}

/// What is timed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// The region of interest; everything before and after it is functional.
    #[default]
    Region,
    /// The region of interest, estimated from windows: for long ones.
    Sampled,
    /// The whole script.
    Whole,
    /// Nothing: only instructions are counted.
    Functional,
}

impl Timing {
    /// Whether it is the program's region that counts.
    pub fn of_region(self) -> bool {
        matches!(self, Timing::Region | Timing::Sampled)
    }
}

impl FromStr for Timing {
    type Err = String;

    fn from_str(text: &str) -> Result<Timing, String> {
        match text {
            "region" => Ok(Timing::Region),
            "sampled" => Ok(Timing::Sampled),
            "whole" => Ok(Timing::Whole),
            "functional" => Ok(Timing::Functional),
            _ => Err(format!(
                "`{text}`: expected region, sampled, whole or functional"
            )),
        }
    }
}

/// The conditions of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Conditions {
    /// Name or path of the machine's description.
    pub machine: String,
    /// Changes of it, as `key=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// What NVMM is.
    pub memory: Memory,
    /// Where the program's memory is, as `--placement` says it.
    pub placement: String,
    /// The allocator, where the heap is on NVMM.
    #[serde(default)]
    pub malloc: Malloc,
    /// What is timed.
    #[serde(default)]
    pub timing: Timing,
    /// How much work.
    pub size: Size,
    /// Seed of everything random; without it nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Conditions {
    /// The placement, or why it is none.
    pub fn placed(&self) -> Result<Placement, String> {
        let placement: Placement = self.placement.parse()?;
        match (self.malloc, placement) {
            (Malloc::Jemalloc, Placement::Dram | Placement::Heap) => Ok(placement),
            (Malloc::Jemalloc, _) => Err(format!(
                "jemalloc puts all requests at the same place: with it the placement is heap or dram, not {}",
                self.placement
            )),
            _ => Ok(placement),
        }
    }

    /// Whether others differ from these in memory and seed only.
    pub fn is_like(&self, other: &Conditions) -> bool {
        let plain = |c: &Conditions| Conditions {
            seed: None,
            ..c.base()
        };
        plain(self) == plain(other)
    }

    /// The conditions under which the same program's run time is 1: these, with NVMM as fast as DRAM.
    pub fn base(&self) -> Conditions {
        Conditions {
            memory: Memory::Method(Method::Dram.to_string()),
            ..self.clone()
        }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.machine, self.memory)?;
        if self.malloc != Malloc::Nagori {
            write!(f, " {}", self.malloc)?;
        }
        match self.seed {
            Some(seed) => write!(f, " seed {seed}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_that_exclude_one_another_are_refused() {
        let mut c = Conditions {
            machine: "vc707".into(),
            set: Vec::new(),
            memory: Memory::Method("extended".into()),
            placement: "size>4096".into(),
            malloc: Malloc::Nagori,
            timing: Timing::Region,
            size: Size::Small,
            seed: None,
        };
        assert_eq!(c.placed(), Ok(Placement::Size(4096)));
        c.malloc = Malloc::Jemalloc;
        assert!(c.placed().unwrap_err().contains("not size>4096"));
        c.placement = "heap".into();
        assert_eq!(c.placed(), Ok(Placement::Heap));
        assert_eq!(c.memory.method(), Some(Method::Extended));
        assert_eq!(c.base().memory.method(), Some(Method::Dram));
        assert_eq!(Memory::Model("pcm".into()).method(), None);
        assert!("tcmalloc".parse::<Malloc>().is_err() && "all".parse::<Timing>().is_err());
    }
}
