//! Memories that consist of other memories, and the models of all kinds.

use std::path::Path;

use nagori_memtime::cache::{Cache, CacheParams};
use nagori_memtime::cxl::{Cxl, CxlParams};
use nagori_memtime::hybrid::{Hybrid, Part};
use nagori_memtime::interleaved::{Interleave, Interleaved};
use nagori_memtime::worn::Worn;
use nagori_memtime::xpoint::Xpoint;
use nagori_memtime::{dram, MemoryModel};

use crate::decode::{decode, plain};
use crate::error::Error;
use crate::kinds::{FlatPart, Kind, Memory};
use crate::tree::{dotted, shown, Node, Value};

/// Deepest nesting of memories; stops a file that contains itself.
const DEPTH: u32 = 4;

/// Context of a description while its parts are read.
pub(crate) struct Context<'a> {
    /// Directory that relative paths start from.
    pub dir: Option<&'a Path>,
    /// Settings for parts: (prefix, setting).
    pub settings: Vec<(String, String)>,
    /// Number of enclosing memories.
    pub depth: u32,
}

impl Context<'_> {
    /// The memory that `key` names: `"ddr4"`, or `{ name = "ddr4", set = ["..."] }`. `prefix` is
    /// the prefix of its settings.
    fn inner(&self, key: &str, prefix: &str, node: &Node) -> Result<Memory, Error> {
        if self.depth >= DEPTH {
            return Err(node.wrong(key, format!("memories in memories deeper than {DEPTH}")));
        }
        let mut settings: Vec<String> = Vec::new();
        let name: String = match &node.value {
            Value::Table(t) => {
                if let Some((extra, n)) = t.iter().find(|(k, _)| *k != "name" && *k != "set") {
                    return Err(n.wrong(
                        &dotted(key, extra),
                        "unknown key: a memory has `name` and `set`",
                    ));
                }
                if let Some(set) = t.get("set") {
                    settings = decode(&dotted(key, "set"), set)?;
                }
                match t.get("name") {
                    Some(n) => decode(&dotted(key, "name"), n)?,
                    None => return Err(node.wrong(&dotted(key, "name"), "is missing")),
                }
            }
            _ => decode(key, node)?,
        };
        let own: Vec<_> = self.settings.iter().filter(|s| s.0 == prefix).collect();
        settings.extend(own.iter().map(|s| s.1.clone()));
        Memory::nested(&name, self.dir, &settings, self.depth + 1).map_err(|e| match e {
            Error::NotFound { .. } | Error::Read { .. } => node.wrong(key, e.to_string()),
            // The settings as they were given, with the name of the part.
            Error::Setting(s) if own.iter().any(|o| o.1 == s) => {
                Error::Setting(format!("{prefix}.{s}"))
            }
            Error::Invalid {
                mut place,
                key,
                problem,
            } if place.file.starts_with("--set ") => {
                for (_, s) in &own {
                    let outer = shown(&format!("{prefix}.{s}"));
                    place.file = place.file.replace(&shown(s), &outer).into();
                }
                Error::Invalid {
                    place,
                    key: dotted(prefix, &key),
                    problem,
                }
            }
            e => e,
        })
    }
}

fn need<'a>(root: &'a Node, key: &str) -> Result<&'a Node, Error> {
    match &root.value {
        Value::Table(t) => t.get(key),
        _ => None,
    }
    .ok_or_else(|| root.wrong(key, "is missing: it has no default"))
}

/// Names with which settings of parts begin: `nvmm.timings.tRCD=200 ns`.
pub(crate) fn prefixes(root: &Node) -> Vec<String> {
    let kind = need(root, "kind").ok().map(plain);
    match kind.as_ref().and_then(|k| k.as_str()) {
        Some("cxl" | "interleaved") => vec!["memory".into()],
        Some("cache") => vec!["front".into(), "back".into()],
        Some("flat") => match need(root, "part").map(plain) {
            Ok(serde_json::Value::Array(parts)) => parts
                .iter()
                .filter_map(|p| p.get("name")?.as_str().map(String::from))
                .collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

pub(crate) fn cxl(root: &Node, cx: &Context) -> Result<Kind, Error> {
    let node = need(root, "link")?;
    let link: CxlParams = decode("link", node)?;
    link.validate()
        .map_err(|e| node.wrong_together("link", e.to_string()))?;
    Ok(Kind::Cxl {
        link: Box::new(link),
        memory: Box::new(cx.inner("memory", "memory", need(root, "memory")?)?),
    })
}

pub(crate) fn cache(root: &Node, cx: &Context) -> Result<Kind, Error> {
    let node = need(root, "cache")?;
    let cache: CacheParams = decode("cache", node)?;
    let front = cx.inner("front", "front", need(root, "front")?)?;
    let back = cx.inner("back", "back", need(root, "back")?)?;
    let capacity = front.build()?.capacity();
    cache
        .validate(capacity)
        .map_err(|e| node.wrong_together("cache", e.to_string()))?;
    Ok(Kind::Cache {
        cache: Box::new(cache),
        front: Box::new(front),
        back: Box::new(back),
    })
}

/// `[interleave]` of a description.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    ways: u32,
    granularity: u64,
}

pub(crate) fn interleaved(root: &Node, cx: &Context) -> Result<Kind, Error> {
    let node = need(root, "interleave")?;
    let table: Table = decode("interleave", node)?;
    let wrong = |e: nagori_memtime::Error| node.wrong_together("interleave", e.to_string());
    Interleave::new(table.ways, table.granularity).map_err(wrong)?;
    let memory = cx.inner("memory", "memory", need(root, "memory")?)?;
    let kind = Kind::Interleaved {
        ways: table.ways,
        granularity: table.granularity,
        memory: Box::new(memory),
    };
    if let Kind::Interleaved { memory, .. } = &kind {
        let capacity = memory.build()?.capacity();
        if !capacity.is_multiple_of(table.granularity) {
            let whole = format!(
                "the memory has {capacity} bytes: whole blocks of the granularity are needed"
            );
            return Err(node.wrong_together("interleave", whole));
        }
    }
    Ok(kind)
}

pub(crate) fn flat(root: &Node, cx: &Context) -> Result<Kind, Error> {
    let node = need(root, "part")?;
    let Value::List(items) = &node.value else {
        return Err(node.wrong("part", "expected tables [[part]]"));
    };
    let mut parts = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let key = format!("part.{i}");
        let Value::Table(t) = &item.value else {
            return Err(item.wrong(&key, "expected a table [[part]]"));
        };
        for (k, n) in t {
            if !["name", "base", "memory"].contains(&k.as_str()) {
                return Err(n.wrong(
                    &dotted(&key, k),
                    "unknown key: a part has name, base and memory",
                ));
            }
        }
        let get = |k: &str| need(item, k).map_err(|_| item.wrong(&dotted(&key, k), "is missing"));
        let name: String = decode(&dotted(&key, "name"), get("name")?)?;
        parts.push(FlatPart {
            base: decode(&dotted(&key, "base"), get("base")?)?,
            memory: cx.inner(&dotted(&key, "memory"), &name, get("memory")?)?,
            name,
        });
    }
    build_flat(&parts).map_err(|e| node.wrong("part", e.to_string()))?;
    Ok(Kind::Flat(parts))
}

/// A model of one of the kinds.
pub type Model = Box<dyn MemoryModel + Send>;

fn build_flat(parts: &[FlatPart]) -> Result<Hybrid, Error> {
    let parts = parts
        .iter()
        .map(|p| {
            Ok(Part {
                name: p.name.clone(),
                base: p.base,
                model: p.memory.build()?,
            })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Hybrid::new(parts).map_err(|problem| Error::Model {
        file: "parts".to_owned(),
        problem,
    })
}

impl Memory {
    /// A model of this memory at time 0.
    pub fn build(&self) -> Result<Model, Error> {
        let wrong = |problem| Error::Model {
            file: self.name.clone(),
            problem,
        };
        let model: Model = match &self.kind {
            Kind::Device { device, controller } => Box::new(
                dram::Controller::new((**device).clone(), (**controller).clone()).map_err(wrong)?,
            ),
            Kind::Board(p) => {
                Box::new(nagori_memtime::Controller::new((**p).clone()).map_err(wrong)?)
            }
            Kind::Xpoint(p) => Box::new(Xpoint::new((**p).clone()).map_err(wrong)?),
            Kind::Cxl { link, memory } => {
                Box::new(Cxl::new((**link).clone(), memory.build()?).map_err(wrong)?)
            }
            Kind::Flat(parts) => Box::new(build_flat(parts)?),
            Kind::Interleaved {
                ways,
                granularity,
                memory,
            } => {
                let ways = (0..*ways).map(|_| memory.build());
                let ways = ways.collect::<Result<_, Error>>()?;
                Box::new(Interleaved::new(*granularity, ways).map_err(wrong)?)
            }
            Kind::Cache { cache, front, back } => Box::new(
                Cache::new((**cache).clone(), front.build()?, back.build()?).map_err(wrong)?,
            ),
        };
        Ok(match self.wear {
            Some(w) => Box::new(Worn::new(w, model).map_err(wrong)?),
            None => model,
        })
    }
}
