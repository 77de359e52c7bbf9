//! The memories that are emulated.

use anyhow::ensure;
use nagori_config::Machine as Description;
use nagori_memtime::Method;
use nagori_terminal::args::method;
use std::fmt;

/// Time of a read of the board's DRAM behind the core, in ns, in whole clocks: the unit of `w-N`.
const DRAM_NS: u64 = 265;

/// A memory behind NVMM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// The board's controller with a method, and delays of reads and writes in ns instead of its own.
    Board(Method, Option<(u64, u64)>),
    /// One of its own.
    Model,
}

impl Memory {
    /// Reads a name.
    pub fn parse(name: &str) -> Result<Memory, String> {
        let numbered = |prefix: &str| {
            let n = name.strip_prefix(prefix)?.parse::<u64>().ok()?;
            (1..=20).contains(&n).then_some(n)
        };
        let kind = match (numbered("pcm-"), numbered("w-"), method(name)) {
            (Some(n), ..) => Kind::Board(Method::Coarse, Some((300, 300 * n))),
            (_, Some(n), _) => Kind::Board(Method::Coarse, Some((0, DRAM_NS * (n - 1)))),
            (.., Ok(Method::Dram)) => {
                return Err("dram is what it is compared with, and never emulated".into())
            }
            (.., Ok(m)) => Kind::Board(m, None),
            _ => match nagori_memcfg::Memory::load(name, &[]) {
                Ok(_) => Kind::Model,
                Err(e) => {
                    return Err(format!(
                        "expected coarse, fine, extended, pcm-N, w-N with N from 1 to 20, or a \
                    memory: {e}"
                    ))
                }
            },
        };
        let name = name.to_owned();
        Ok(Memory { name, kind })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A memory that a machine cannot have is an error.
    pub fn check(&self, description: &Description) -> anyhow::Result<()> {
        let own = description.config.memory.regions.contains_key("nvmm");
        ensure!(
            !own || self.kind == Kind::Model,
            "--memories: on {} NVMM has a memory of its own, which no method of the board delays: expected a memory of \
                `nagori mem list` instead of {self}",
            description.config.name
        );
        Ok(())
    }

    fn delays(&self) -> Vec<String> {
        let set =
            |what: &str, ns: u64| format!("memory.controller.delays.coarse_{what}=\"{ns} ns\"");
        match &self.kind {
            Kind::Board(_, Some((r, w))) => vec![set("read", *r), set("write", *w)],
            Kind::Board(_, None) => Vec::new(),
            Kind::Model => vec![format!("memory.regions.nvmm.model=\"{}\"", self.name)],
        }
    }

    /// The settings of a machine that has it.
    pub fn itself(&self) -> Vec<String> {
        let mut all = self.delays();
        if let Kind::Board(m, _) = self.kind {
            all.push(format!("method={}", m.name()));
        }
        all
    }

    /// The settings of a machine that emulates it, but for the epochs.
    pub fn emulated(&self) -> Vec<String> {
        let mut all = self.delays();
        if let Kind::Board(m, _) = self.kind {
            all.push(format!("epoch.of={}", m.name()));
        }
        all
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_have_their_settings() {
        let of = |name: &str| Memory::parse(name).unwrap();
        assert_eq!(
            of("pcm-10").itself(),
            [
                "memory.controller.delays.coarse_read=\"300 ns\"",
                "memory.controller.delays.coarse_write=\"3000 ns\"",
                "method=coarse",
            ]
        );
        assert_eq!(of("extended").emulated(), ["epoch.of=extended"]);
        assert_eq!(
            of("xpoint").itself(),
            ["memory.regions.nvmm.model=\"xpoint\""]
        );
        for wrong in ["dram", "pcm-0", "sram"] {
            assert!(Memory::parse(wrong).is_err(), "{wrong}");
        }
    }
}
