//! A memory description is read, completed and checked.

use std::path::Path;

use nagori_memtime::dram::{ControllerParams, DeviceSpec};
use nagori_memtime::worn::{Worn, WornParams};
use nagori_memtime::xpoint::XpointParams;
use nagori_memtime::BoardParams;
use nagori_values::hint;

use crate::decode::decode;
use crate::device::{device, TABLES};
use crate::error::Error;
use crate::kinds::{Kind, Memory};
use crate::layers::{cache, cxl, flat, interleaved, prefixes, Context};
use crate::library::{find, policies, Source};
use crate::rows::rows;
use crate::tree::{dotted, join, overlay, parse, set, Node, Origin, Value};

impl Memory {
    /// Finds, reads, completes and checks a memory: a preset's name (`ddr3`, `ddr3-1600k`) or a
    /// path. `settings` are `key=value` and override everything else.
    pub fn load(name: &str, settings: &[String]) -> Result<Memory, Error> {
        Memory::load_from(name, None, settings)
    }

    /// As [`Memory::load`], with relative paths starting from `dir`.
    pub fn load_from(name: &str, dir: Option<&Path>, settings: &[String]) -> Result<Memory, Error> {
        Memory::nested(name, dir, settings, 0)
    }

    pub(crate) fn nested(
        name: &str,
        dir: Option<&Path>,
        settings: &[String],
        depth: u32,
    ) -> Result<Memory, Error> {
        Memory::read(&find(name, dir)?, settings, depth)
    }

    /// As [`Memory::load`], for the text of a description.
    pub fn from_source(source: &Source, settings: &[String]) -> Result<Memory, Error> {
        Memory::read(source, settings, 0)
    }

    fn read(source: &Source, settings: &[String], depth: u32) -> Result<Memory, Error> {
        let (name, mut root, inner) = merged(source, settings)?;
        let cx = Context {
            dir: source.dir.as_deref(),
            settings: inner,
            depth,
        };
        let text = |root: &Node, key: &str| -> Result<String, Error> {
            match get(root, key) {
                Some(n) => decode(key, n),
                None => Err(root.wrong(key, "is missing: it has no default")),
            }
        };
        let kind = text(&root, "kind")?;
        let description = text(&root, "description")?;
        let kind = match kind.as_str() {
            "device" => {
                let mut known = vec!["kind", "technology", "description", "controller"];
                known.extend(TABLES);
                only(&root, &known)?;
                complete_controller(&mut root)?;
                let device = device(&root, &name)?;
                let node = get(&root, "controller")
                    .ok_or_else(|| root.wrong("controller", "is missing: it has no default"))?;
                let mut values = node.clone();
                take(&mut values, "policy");
                let controller: ControllerParams = decode("controller", &values)?;
                controller
                    .validate(&device)
                    .map_err(|e| node.wrong_together("controller", e.to_string()))?;
                Kind::Device {
                    device: Box::new(device),
                    controller: Box::new(controller),
                }
            }
            "board" => {
                only(&root, &["kind", "description", "sources", "board"])?;
                let node = get(&root, "board")
                    .ok_or_else(|| root.wrong("board", "is missing: it has no default"))?;
                let params: BoardParams = decode("board", node)?;
                params
                    .validate()
                    .map_err(|e| node.wrong_together("board", e.to_string()))?;
                Kind::Board(Box::new(params))
            }
            "xpoint" => {
                only(&root, &["kind", "description", "sources", "xpoint"])?;
                let node = get(&root, "xpoint")
                    .ok_or_else(|| root.wrong("xpoint", "is missing: it has no default"))?;
                let params: XpointParams = decode("xpoint", node)?;
                params
                    .validate()
                    .map_err(|e| node.wrong_together("xpoint", e.to_string()))?;
                Kind::Xpoint(Box::new(params))
            }
            "cxl" => {
                only(&root, &["kind", "description", "sources", "link", "memory"])?;
                cxl(&root, &cx)?
            }
            "cache" => {
                let known = ["kind", "description", "sources", "cache", "front", "back"];
                only(&root, &known)?;
                cache(&root, &cx)?
            }
            "flat" => {
                only(&root, &["kind", "description", "sources", "part"])?;
                flat(&root, &cx)?
            }
            "interleaved" => {
                let known = ["kind", "description", "sources", "interleave", "memory"];
                only(&root, &known)?;
                interleaved(&root, &cx)?
            }
            other => {
                let node = get(&root, "kind").unwrap_or(&root);
                return Err(node.wrong(
                    "kind",
                    format!("`{other}` is not possible: expected device, board, xpoint, cxl, cache, flat or \
                        interleaved"),
                ));
            }
        };
        let rows = rows(&root, &kind)?;
        let mut memory = Memory {
            name,
            description,
            kind,
            wear: None,
            warnings: match depth {
                0 => crate::plausible::warnings(&rows),
                _ => Vec::new(),
            },
            rows,
        };
        // `wear = false` switches it off, also as a setting.
        let node = get(&root, "wear").filter(|n| !matches!(n.value, Value::Bool(false)));
        if let Some(node) = node {
            if matches!(&memory.kind, Kind::Xpoint(p) if p.wear.is_some()) {
                return Err(node.wrong(
                    "wear",
                    "this DIMM counts its wear itself: give either xpoint.wear or wear",
                ));
            }
            let params: WornParams = decode("wear", node)?;
            let wrong = |e: nagori_memtime::Error| node.wrong_together("wear", e.to_string());
            params.validate().map_err(wrong)?;
            Worn::new(params, memory.build()?).map_err(wrong)?;
            memory.wear = Some(params);
        }
        // Models check more than the types of their parameters do; parts are checked together with
        // the whole.
        if depth == 0 {
            memory.build()?;
        }
        Ok(memory)
    }

    /// The device of this memory, if it is one.
    pub fn device(&self) -> Option<&DeviceSpec> {
        match &self.kind {
            Kind::Device { device, .. } => Some(device),
            _ => None,
        }
    }
}

fn get<'a>(root: &'a Node, key: &str) -> Option<&'a Node> {
    match &root.value {
        Value::Table(t) => t.get(key),
        _ => None,
    }
}

fn take(root: &mut Node, key: &str) -> Option<Node> {
    root.table_mut().and_then(|t| t.remove(key))
}

/// Refuses unknown keys at the top level.
fn only(root: &Node, known: &[&str]) -> Result<(), Error> {
    let Value::Table(t) = &root.value else {
        return Ok(());
    };
    let is_known = |k: &str| known.contains(&k) || k == "wear";
    match t.iter().find(|(k, _)| !is_known(k)) {
        Some((key, n)) => Err(n.wrong(
            key,
            format!(
                "unknown key: expected one of {}, wear{}",
                known.join(", "),
                hint(key, known.iter().copied().chain(["wear"]))
            ),
        )),
        None => Ok(()),
    }
}

/// Name, tree, and settings for parts.
type Merged = (String, Node, Vec<(String, String)>);

/// The tree of a description: preset, variant, file and settings in one.
fn merged(source: &Source, settings: &[String]) -> Result<Merged, Error> {
    let builtin = source.name.starts_with("builtin:");
    let origin = if builtin {
        Origin::Preset
    } else {
        Origin::File
    };
    let mut root = parse(source, origin)?;
    // The variant has to be known before the rest is merged over it.
    let mut wanted = source.variant.clone();
    let mut rest = Vec::new();
    for s in settings {
        match s.split_once('=') {
            Some((k, v)) if k.trim() == "variant" => {
                wanted = Some(v.trim().trim_matches('"').to_owned());
            }
            _ => rest.push(s),
        }
    }
    let mut name = source.name.clone();
    if let Some(preset) = take(&mut root, "preset") {
        let base_name: String = decode("preset", &preset)?;
        let base_source = find(&base_name, source.dir.as_deref())
            .map_err(|e| preset.wrong("preset", e.to_string()))?;
        let mut base = parse(&base_source, Origin::Preset)?;
        if get(&base, "preset").is_some() {
            return Err(preset.wrong(
                "preset",
                format!("{} has a preset itself: name that one", base_source.name),
            ));
        }
        let wanted = wanted.or(base_source.variant);
        choose_variant(&mut base, wanted.as_deref())?;
        base.place = root.place.clone();
        overlay(&mut base, root);
        root = base;
    } else if let Some(v) = choose_variant(&mut root, wanted.as_deref())? {
        if let Some(stem) = name
            .strip_prefix("builtin:")
            .and_then(|n| n.strip_suffix(".toml"))
        {
            name = format!("{stem}-{v}");
        }
    }
    if builtin {
        name = name.replace("builtin:", "").replace(".toml", "");
    }
    let parts = prefixes(&root);
    let mut inner = Vec::new();
    for s in rest {
        let part = s
            .split_once('.')
            .and_then(|(first, more)| parts.iter().find(|p| *p == first).map(|p| (p, more)));
        match part {
            Some((p, more)) => inner.push((p.clone(), more.to_owned())),
            None => set(&mut root, s)?,
        }
    }
    Ok((name, root, inner))
}

/// Merges the requested variant, or the default one, with the rest.
fn choose_variant(root: &mut Node, wanted: Option<&str>) -> Result<Option<String>, Error> {
    let names = take(root, "variants");
    let default = take(root, "default");
    let tables = take(root, "variant");
    let Some(names) = names else {
        return match (wanted, default.or(tables)) {
            (Some(v), _) => Err(root.wrong(
                "variants",
                format!("there is no variant `{v}`: the description has none"),
            )),
            (None, Some(n)) => Err(n.wrong("variant", "needs `variants`, the list of their names")),
            (None, None) => Ok(None),
        };
    };
    let list: Vec<String> = decode("variants", &names)?;
    let chosen = match (wanted, &default) {
        (Some(v), _) => v.to_owned(),
        (None, Some(d)) => decode("default", d)?,
        (None, None) => {
            return Err(names.wrong(
                "default",
                format!("is missing: name a variant, one of {}", list.join(", ")),
            ))
        }
    };
    if !list.contains(&chosen) {
        return Err(names.wrong(
            "variants",
            format!(
                "there is no variant `{chosen}`; known are {}{}",
                list.join(", "),
                hint(&chosen, list.iter().map(String::as_str))
            ),
        ));
    }
    if let Some(mut tables) = tables {
        let Some(t) = tables.table_mut() else {
            return Err(names.wrong("variant", "expected tables [variant.NAME]"));
        };
        if let Some((extra, n)) = t.iter().find(|(k, _)| !list.contains(k)) {
            return Err(n.wrong(&dotted("variant", extra), "is not in the list `variants`"));
        }
        if let Some(more) = t.remove(&chosen) {
            join("", root, more)?;
        }
    }
    Ok(Some(chosen))
}

/// Fills `[controller]` from the policy that it names.
fn complete_controller(root: &mut Node) -> Result<(), Error> {
    let Some(mut given) = take(root, "controller") else {
        return Ok(());
    };
    let Some(policy) = given.table_mut().and_then(|t| t.remove("policy")) else {
        return put(root, given);
    };
    let name: String = decode("controller.policy", &policy)?;
    let mut all = parse(&policies(), Origin::Preset)?;
    let Some(mut base) = take(&mut all, &name) else {
        let known = match &all.value {
            Value::Table(t) => t.keys().cloned().collect::<Vec<_>>().join(", "),
            _ => String::new(),
        };
        return Err(policy.wrong(
            "controller.policy",
            format!(
                "there is no policy `{name}`; known are {known}{}",
                hint(&name, known.split(", "))
            ),
        ));
    };
    base.place = given.place.clone();
    overlay(&mut base, given);
    // Kept for reports of where the values come from.
    if let Some(t) = base.table_mut() {
        t.insert("policy".to_owned(), policy);
    }
    put(root, base)
}

fn put(root: &mut Node, controller: Node) -> Result<(), Error> {
    if let Some(t) = root.table_mut() {
        t.insert("controller".to_owned(), controller);
    }
    Ok(())
}
