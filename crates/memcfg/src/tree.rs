//! A description as a tree in which every value has its place and its origin.
//!
//! Values are removed from the tree while they are read; whatever is left at the end is unknown,
//! and an error with its place.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use toml_edit::{ImDocument, Item, Value as Toml};

use crate::error::{Error, Place};
use crate::library::Source;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A built-in preset.
    Preset,
    /// The given file.
    File,
    /// Set for this run.
    Set,
    /// Computed from other values.
    Derived,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Preset => "preset",
            Origin::File => "file",
            Origin::Set => "set for this run",
            Origin::Derived => "derived",
        })
    }
}

/// A value with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its place in a file or setting.
    pub place: Place,
    /// Its origin.
    pub origin: Origin,
}

/// The forms of a value.
#[derive(Clone, Debug)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(BTreeMap<String, Node>),
}

impl Value {
    /// Kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Bool(_) => "a boolean",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(s) => f.write_str(s),
            Value::Int(n) => write!(f, "{n}"),
            Value::Float(n) => write!(f, "{n}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::List(_) | Value::Table(_) => f.write_str(self.kind()),
        }
    }
}

/// Reads the text of a description.
pub fn parse(source: &Source, origin: Origin) -> Result<Node, Error> {
    let lines = Lines::of(source);
    let place = |offset: Option<usize>| lines.place(offset);
    let document = ImDocument::parse(source.text.as_str()).map_err(|e| Error::Syntax {
        place: place(e.span().map(|s| s.start)),
        problem: e.message().trim().to_owned(),
    })?;
    let mut table = BTreeMap::new();
    for (name, item) in document.iter() {
        let at = document.key(name).and_then(|k| k.span()).map(|s| s.start);
        if let Some(node) = of_item(item, place(at), origin, &place)? {
            table.insert(name.to_owned(), node);
        }
    }
    Ok(Node {
        value: Value::Table(table),
        place: lines.place(None),
        origin,
    })
}

/// Where the lines of a text begin.
struct Lines<'s> {
    file: Arc<str>,
    text: &'s str,
    starts: Vec<usize>,
}

impl Lines<'_> {
    fn of(source: &Source) -> Lines<'_> {
        let breaks = source.text.match_indices('\n').map(|(i, _)| i + 1);
        Lines {
            file: source.name.as_str().into(),
            text: &source.text,
            starts: std::iter::once(0).chain(breaks).collect(),
        }
    }

    fn place(&self, offset: Option<usize>) -> Place {
        let at = offset.and_then(|o| {
            let line = self.starts.partition_point(|&start| start <= o);
            let before = self.text.get(self.starts[line - 1]..o)?;
            Some((line, before.chars().count() + 1))
        });
        Place {
            file: self.file.clone(),
            at,
        }
    }
}

type Locate<'a> = dyn Fn(Option<usize>) -> Place + 'a;

fn of_item(
    item: &Item,
    place: Place,
    origin: Origin,
    locate: &Locate,
) -> Result<Option<Node>, Error> {
    let value = match item {
        Item::None => return Ok(None),
        Item::Value(v) => return of_value(v, place, origin, locate).map(Some),
        Item::Table(t) => {
            let mut table = BTreeMap::new();
            for (name, item) in t.iter() {
                let at = t.key(name).and_then(|k| k.span()).map(|s| s.start);
                if let Some(node) = of_item(item, locate(at), origin, locate)? {
                    table.insert(name.to_owned(), node);
                }
            }
            Value::Table(table)
        }
        Item::ArrayOfTables(list) => {
            let mut nodes = Vec::new();
            for t in list.iter() {
                let place = locate(t.span().map(|s| s.start));
                if let Some(n) = of_item(&Item::Table(t.clone()), place, origin, locate)? {
                    nodes.push(n);
                }
            }
            Value::List(nodes)
        }
    };
    Ok(Some(Node {
        value,
        place,
        origin,
    }))
}

fn of_value(v: &Toml, place: Place, origin: Origin, locate: &Locate) -> Result<Node, Error> {
    let value = match v {
        Toml::String(s) => Value::Text(s.value().clone()),
        Toml::Integer(n) => Value::Int(*n.value()),
        Toml::Float(n) => Value::Float(*n.value()),
        Toml::Boolean(b) => Value::Bool(*b.value()),
        Toml::Datetime(d) => {
            return Err(Error::Invalid {
                place,
                key: d.value().to_string(),
                problem: "a date has no meaning here".to_owned(),
            })
        }
        Toml::Array(list) => {
            let mut nodes = Vec::new();
            for v in list.iter() {
                let place = locate(v.span().map(|s| s.start));
                nodes.push(of_value(v, place, origin, locate)?);
            }
            Value::List(nodes)
        }
        Toml::InlineTable(t) => {
            let mut table = BTreeMap::new();
            for (name, v) in t.iter() {
                let at = t.key(name).and_then(|k| k.span()).map(|s| s.start);
                table.insert(name.to_owned(), of_value(v, locate(at), origin, locate)?);
            }
            Value::Table(table)
        }
    };
    Ok(Node {
        value,
        place,
        origin,
    })
}

impl Node {
    /// An error about this value.
    pub fn wrong(&self, key: &str, problem: impl Into<String>) -> Error {
        Error::Invalid {
            place: self.place.clone(),
            key: key.to_owned(),
            problem: problem.into(),
        }
    }

    /// An error about several values of this table together. Its place is that of the values that
    /// were set for this run or given in a file, if they are concerned.
    pub fn wrong_together(&self, key: &str, problem: impl Into<String>) -> Error {
        let problem = problem.into();
        let (mut set, mut file) = (Vec::new(), Vec::new());
        self.leaves("", &mut |name, n| match n.origin {
            Origin::Set => set.push((name.to_owned(), n.place.clone())),
            Origin::File => file.push((name.to_owned(), n.place.clone())),
            _ => {}
        });
        let named = |s: &(String, Place)| {
            problem
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == s.0)
        };
        // Presets are consistent by themselves, files need not be.
        match (set.iter().any(named), file.iter().any(named)) {
            (true, _) => set.retain(named),
            (false, true) => {
                set.clear();
                file.retain(named);
            }
            (false, false) if !file.is_empty() => {
                set.clear();
                file.clear();
            }
            _ => {}
        }
        let mut settings: Vec<_> = set.into_iter().map(|s| s.1.file).collect();
        settings.dedup();
        let place = match (settings.is_empty(), file.into_iter().next()) {
            (false, _) => Place {
                file: settings.join(", ").into(),
                at: None,
            },
            (true, Some(first)) => first.1,
            (true, None) => self.place.clone(),
        };
        Error::Invalid {
            place,
            key: key.to_owned(),
            problem,
        }
    }

    /// Calls `f` with the name and the node of each value below.
    fn leaves<'a>(&'a self, name: &str, f: &mut dyn FnMut(&str, &'a Node)) {
        match &self.value {
            Value::Table(t) if !self.is_leaf() => {
                t.iter().for_each(|(k, n)| n.leaves(k, f));
            }
            Value::List(l) if self.origin != Origin::Set => {
                l.iter().for_each(|n| n.leaves(name, f));
            }
            _ => f(name, self),
        }
    }

    /// Its entries, if it is a table.
    pub fn table_mut(&mut self) -> Option<&mut BTreeMap<String, Node>> {
        match &mut self.value {
            Value::Table(t) => Some(t),
            _ => None,
        }
    }

    /// A table `{ value, source }` rather than one of further keys.
    fn is_leaf(&self) -> bool {
        match &self.value {
            Value::Table(t) => t.contains_key("value"),
            _ => true,
        }
    }
}

/// Merges `over` into `under`: tables are merged, everything else is replaced.
pub fn overlay(under: &mut Node, over: Node) {
    if under.is_leaf() || over.is_leaf() {
        *under = over;
        return;
    }
    let Value::Table(entries) = over.value else {
        return;
    };
    let Some(table) = under.table_mut() else {
        return;
    };
    for (name, node) in entries {
        match table.get_mut(&name) {
            Some(old) => overlay(old, node),
            None => {
                table.insert(name, node);
            }
        }
    }
}

/// Adds the entries of `more`; an existing value is an error.
pub fn join(prefix: &str, into: &mut Node, more: Node) -> Result<(), Error> {
    if into.is_leaf() || more.is_leaf() {
        let at = into.place.clone();
        return Err(more.wrong(
            prefix,
            format!("given twice, here and at {at}: a value stands either in a variant or outside of all"),
        ));
    }
    let Value::Table(entries) = more.value else {
        return Ok(());
    };
    let Some(table) = into.table_mut() else {
        return Ok(());
    };
    for (name, node) in entries {
        let key = dotted(prefix, &name);
        match table.get_mut(&name) {
            Some(old) => join(&key, old, node)?,
            None => {
                table.insert(name, node);
            }
        }
    }
    Ok(())
}

/// `prefix.name`, or `name` at the top level.
pub fn dotted(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        name.to_owned()
    } else {
        format!("{prefix}.{name}")
    }
}

/// A setting in the form in which messages show it.
pub fn shown(setting: &str) -> String {
    const LETTERS: usize = 200;
    match setting.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("--set {}...", &setting[..end]),
        None => format!("--set {setting}"),
    }
}

/// Applies the setting `key=value` to the tree.
pub fn set(root: &mut Node, setting: &str) -> Result<(), Error> {
    // No key is deeper; absurdly deep ones would exhaust the stack.
    const DEPTH: usize = 8;
    let wrong = || Error::Setting(setting.to_owned());
    let (key, text) = setting.split_once('=').ok_or_else(wrong)?;
    let (key, text) = (key.trim(), text.trim());
    let parts: Vec<&str> = key.split('.').collect();
    if parts.len() > DEPTH || parts.iter().any(|p| p.is_empty()) || text.is_empty() {
        return Err(wrong());
    }
    let place = Place {
        file: shown(setting).into(),
        at: None,
    };
    let node = |value| Node {
        value,
        place: place.clone(),
        origin: Origin::Set,
    };
    // Text that is not a TOML value is taken as a string: timings.tRCD=15 ns.
    let fixed = |_: Option<usize>| place.clone();
    let value = format!("v = {text}")
        .parse::<toml_edit::DocumentMut>()
        .ok()
        .filter(|d| d.len() == 1)
        .and_then(|d| d.get("v").cloned())
        .map(|item| of_item(&item, place.clone(), Origin::Set, &fixed))
        .transpose()?
        .flatten()
        .unwrap_or_else(|| node(Value::Text(text.to_owned())));
    let mut over = value;
    for part in parts.iter().rev() {
        over = node(Value::Table(BTreeMap::from([((*part).to_owned(), over)])));
    }
    overlay(root, over);
    Ok(())
}
