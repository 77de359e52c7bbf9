//! Machine descriptions: read, completed, checked, shown.
//!
//! A machine is a TOML file. Missing values come from its controller preset, its core description,
//! and the defaults; [`Machine`] records the origin of each value.
//! [`map`] is the memory map that all machines have.
#![forbid(unsafe_code)]

mod cache;
mod check;
mod derived;
mod devices;
mod epoch;
mod frequency;
mod iomap;
mod library;
mod locate;
pub mod map;
pub mod parts;
mod problem;
mod region;
mod show;
mod size;
mod stores;
mod types;

pub use cache::{All, LevelConfig, SharedBy, WritePolicy, MAX_HARTS};
pub use devices::{
    slot_names, BlockConfig, ShareConfig, SlotConfig, SlotKind, DISK_LATENCIES, MAX_SLOTS,
};
pub use epoch::{EpochConfig, EpochFaults, EpochMemory, Time};
pub use frequency::Frequency;
pub use iomap::{IomapConfig, IomapDma, IomapKind, IomapReplacement};
pub use library::{embedded, Library, Source, DEFAULT_CONTROLLER, DEFAULT_MACHINE, ENV};
pub use locate::Place;
pub use nagori_cache::config::{Cached, Drain, Inclusion, Partial, Prefetcher, Replacement};
pub use nagori_memtime::{params::RpTest, Method};
pub use region::{Region, RegionConfig, RegionFile};
pub use size::Size;
pub use stores::{HintConfig, HintedStore, NontemporalConfig, StoreBufferConfig};
pub use types::*;

use nagori_hart::config::HartConfig;
use nagori_values::{hint, types_in_words};
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Keys of a controller preset that describe it and are not parameters.
pub(crate) const PRESET_TEXT_KEYS: &[&str] = &["name", "description", "source"];

/// Errors of a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No description has this name.
    #[error("there is no {kind} `{name}`{hint}; known are: {known} (a path must contain `/` or end in \
        .toml)", hint = hint(.name, .known.split(", ")))]
    NotFound {
        /// The kind of description.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {problem}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        problem: String,
    },
    /// The text is not TOML.
    #[error("{place}: not valid TOML: {problem}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser says.
        problem: String,
    },
    /// A key is unknown, or its value is of the wrong type or out of range.
    #[error("{place}: `{key}`: {problem}")]
    Invalid {
        /// Where.
        place: Place,
        /// Path of the key.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The core description lacks or has a key that the core model does not know.
    #[error("core `{core}`: {problem}")]
    Core {
        /// Name of the core description.
        core: String,
        /// What is wrong.
        problem: String,
    },
    /// An override that is not `key=value`.
    #[error("`{0}` is no setting: expected key=value, such as memory.size=\"2 GiB\"")]
    Override(String),
}

/// The origin of a value of the resolved description.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Set for this run, for instance on the command line.
    Override,
    /// Given in the machine's file.
    Given,
    /// From the controller preset.
    Preset,
    /// From the core description.
    Core,
    /// The default.
    Default,
}

/// A resolved and checked machine description.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Every value.
    pub config: MachineConfig,
    /// The core that `config.core` names.
    pub core: CoreConfig,
    /// File that the description comes from.
    pub source: String,
    origins: BTreeMap<String, Origin>,
}

impl Machine {
    /// Finds, reads, completes and checks a machine. `overrides` are `key=value`.
    pub fn load(
        library: &Library,
        name: &str,
        overrides: &[String],
    ) -> Result<Machine, ConfigError> {
        let source = library.find(".", name, None)?;
        Machine::from_source(library, &source, overrides)
    }

    /// As [`Machine::load`], for the text of a description.
    pub fn from_source(
        library: &Library,
        source: &Source,
        overrides: &[String],
    ) -> Result<Machine, ConfigError> {
        let mut table = parse(source)?;
        cache::name_levels(source, &mut table)?;
        let mut origins = BTreeMap::new();
        leaves("", &Value::Table(table.clone()), &mut |key, _| {
            origins.insert(key.to_string(), Origin::Given);
        });
        for setting in overrides {
            let key = apply(&mut table, setting)?;
            origins.insert(key, Origin::Override);
        }
        complete_controller(library, source, &mut table, &mut origins)?;
        let mut config = decode_machine(source, table)?;
        check::region::read_files(source, &mut config).map_err(|p| p.at(source))?;
        check::machine(&config).map_err(|p| p.at(source))?;

        let core_source = library.find("cores", &config.core, source.dir.as_deref())?;
        let core: CoreConfig = decode(&core_source, Value::Table(parse(&core_source)?))?;
        check::core(&core).map_err(|p| p.at(&core_source))?;
        Ok(Machine {
            config,
            core,
            source: source.name.clone(),
            origins,
        })
    }

    /// This description, if its values are possible: for one that was read from outside.
    pub fn checked(self) -> Result<Machine, ConfigError> {
        let source = Source {
            name: self.source.clone(),
            text: String::new(),
            dir: None,
        };
        check::machine(&self.config).map_err(|p| p.at(&source))?;
        check::core(&self.core).map_err(|p| p.at(&source))?;
        Ok(self)
    }

    /// This description with other values (`key=value`), checked. Presets and core descriptions are not read again, so
    /// they cannot be changed.
    pub fn with(&self, overrides: &[String]) -> Result<Machine, ConfigError> {
        if overrides.is_empty() {
            return Ok(self.clone());
        }
        let source = Source {
            name: self.source.clone(),
            text: String::new(),
            dir: None,
        };
        let invalid = |key: &str, problem: String| ConfigError::Invalid {
            place: Place::of_key(&source, key),
            key: key.into(),
            problem,
        };
        let mut table = Table::try_from(&self.config).map_err(|e| invalid("", e.to_string()))?;
        let mut origins = self.origins.clone();
        for setting in overrides {
            let key = apply(&mut table, setting)?;
            if matches!(key.as_str(), "core" | "memory.controller.preset") {
                let problem = "another one cannot be chosen here: set its values one by one";
                return Err(invalid(&key, problem.into()));
            }
            origins.insert(key, Origin::Override);
        }
        let mut config = decode_machine(&source, table)?;
        check::region::read_files(&source, &mut config).map_err(|p| p.at(&source))?;
        let machine = Machine {
            config,
            core: self.core.clone(),
            source: self.source.clone(),
            origins,
        };
        machine.checked()
    }

    /// Parameters of every hart.
    pub fn hart(&self) -> Result<HartConfig, ConfigError> {
        parts::hart(&self.config, &self.core)
    }

    /// The origin of a value.
    pub fn origin(&self, key: &str) -> Origin {
        if key.starts_with("core.") {
            return Origin::Core;
        }
        // The origin of a list or table that was given as a whole applies to its elements.
        let mut prefix = key;
        loop {
            if let Some(origin) = self.origins.get(prefix) {
                return origin.clone();
            }
            match prefix.rfind('.') {
                Some(dot) => prefix = &prefix[..dot],
                None => return Origin::Default,
            }
        }
    }
}

/// JSON schema of machine descriptions.
pub fn schema() -> serde_json::Value {
    let schema = schemars::schema_for!(MachineConfig);
    let mut schema = serde_json::to_value(schema).expect("a schema is JSON");
    // A preset supplies missing values of the controller's table.
    if let Some(controller) = schema.pointer_mut("/definitions/ControllerConfig") {
        controller.as_object_mut().map(|c| c.remove("required"));
    }
    schema
}

fn parse(source: &Source) -> Result<Table, ConfigError> {
    toml::from_str(&source.text).map_err(|e| ConfigError::Syntax {
        place: Place::of_offset(source, e.span().map(|s| s.start)),
        problem: e.message().into(),
    })
}

/// Whole numbers that are written with a point or an exponent, as `1e6`, are whole numbers.
fn whole(value: Value) -> Value {
    // Whole numbers below this one are exact in a double.
    const EXACT: f64 = 9e15;
    match value {
        Value::Float(n) if n.fract() == 0.0 && n.abs() < EXACT => Value::Integer(n as i64),
        Value::Array(all) => Value::Array(all.into_iter().map(whole).collect()),
        Value::Table(t) => Value::Table(t.into_iter().map(|(k, v)| (k, whole(v))).collect()),
        other => other,
    }
}

fn decode<T: DeserializeOwned>(source: &Source, value: Value) -> Result<T, ConfigError> {
    serde_path_to_error::deserialize(whole(value)).map_err(|e| {
        let path = e.path().to_string();
        let problem = e.into_inner().message().trim().to_string();
        let mut key = if path == "." { String::new() } else { path };
        // The path of an unknown key ends at its table, or in a question mark.
        if let Some(name) = problem
            .strip_prefix("unknown field `")
            .and_then(|p| p.split('`').next())
        {
            let table = key.trim_end_matches('?').trim_end_matches('.');
            let table = table
                .strip_suffix(name)
                .unwrap_or(table)
                .trim_end_matches('.');
            key = if table.is_empty() {
                name.into()
            } else {
                format!("{table}.{name}")
            };
        }
        let mut names = problem.split('`').skip(1).step_by(2);
        let meant = match names.next() {
            Some(name) if problem.starts_with("unknown ") => hint(name, names),
            _ => String::new(),
        };
        ConfigError::Invalid {
            place: Place::of_key(source, &key),
            problem: types_in_words(&problem) + &meant,
            key,
        }
    })
}

/// As [`decode`], for a machine: where a number is missing, the error says which ones are possible.
fn decode_machine(source: &Source, table: Table) -> Result<MachineConfig, ConfigError> {
    decode(source, Value::Table(table.clone())).map_err(|e| match e {
        ConfigError::Invalid {
            place,
            key,
            problem,
        } => ConfigError::Invalid {
            problem: match (problem.split_once(WHOLE), range(source, table, &key)) {
                (Some((before, _)), Some((low, high))) => format!("{before}{WHOLE}{low} to {high}"),
                _ => problem,
            },
            place,
            key,
        },
        e => e,
    })
}

/// How [`types_in_words`] begins to say which numbers are possible.
const WHOLE: &str = "expected a whole number from ";

/// The range of a number, as the check of an impossible one gives it.
fn range(source: &Source, mut table: Table, key: &str) -> Option<(u64, u64)> {
    let (tables, last) = key.rsplit_once('.').unwrap_or(("", key));
    let mut at = &mut table;
    for part in tables.split('.').filter(|p| !p.is_empty()) {
        at = at.get_mut(part)?.as_table_mut()?;
    }
    at.insert(last.to_owned(), Value::Integer(u32::MAX.into()));
    let config: MachineConfig = decode(source, Value::Table(table)).ok()?;
    let problem = check::machine(&config).err()?;
    problem.range.filter(|_| problem.key == key)
}

/// Visits every value that is not a table, with its dotted key.
fn leaves(prefix: &str, value: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                let key = if prefix.is_empty() {
                    name.clone()
                } else {
                    format!("{prefix}.{name}")
                };
                leaves(&key, value, visit);
            }
        }
        _ => visit(prefix, value),
    }
}

fn apply(table: &mut Table, setting: &str) -> Result<String, ConfigError> {
    let wrong = || ConfigError::Override(setting.into());
    let (key, value) = setting.split_once('=').ok_or_else(wrong)?;
    let (key, value) = (key.trim(), value.trim());
    let parts: Vec<&str> = key.split('.').collect();
    // No key is deeper; absurdly deep ones would exhaust the stack.
    const DEPTH: usize = 8;
    if parts.len() > DEPTH || parts.iter().any(|p| p.is_empty()) || value.is_empty() {
        return Err(wrong());
    }
    // Text that is not a TOML value is taken as a string: method=fine.
    let value = toml::from_str::<Table>(&format!("v = {value}"))
        .ok()
        .filter(|t| t.len() == 1)
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| Value::String(value.into()));
    let (last, tables) = parts.split_last().ok_or_else(wrong)?;
    let mut at = table;
    for part in tables {
        let next = at
            .entry(*part)
            .or_insert_with(|| Value::Table(Table::new()));
        at = next.as_table_mut().ok_or_else(wrong)?;
    }
    at.insert(last.to_string(), value);
    Ok(key.into())
}

/// Fills the controller's table from its preset.
fn complete_controller(
    library: &Library,
    source: &Source,
    table: &mut Table,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<(), ConfigError> {
    const KEY: &str = "memory.controller";
    let memory = table
        .entry("memory")
        .or_insert_with(|| Value::Table(Table::new()));
    let Some(memory) = memory.as_table_mut() else {
        return Ok(());
    };
    let given = memory
        .entry("controller")
        .or_insert_with(|| Value::Table(Table::new()));
    // A wrong type is reported when the whole is decoded.
    let Some(given) = given.as_table_mut() else {
        return Ok(());
    };
    let preset = given
        .entry("preset")
        .or_insert_with(|| DEFAULT_CONTROLLER.into());
    let Some(preset) = preset.as_str().map(String::from) else {
        return Ok(());
    };

    let found = library
        .find("controllers", &preset, source.dir.as_deref())
        .map_err(|e| {
            let key = format!("{KEY}.preset");
            let place = Place::of_key(source, &key);
            match origins.get(&key) {
                Some(Origin::Given) => ConfigError::Invalid {
                    place,
                    key,
                    problem: e.to_string(),
                },
                _ => e,
            }
        })?;
    let mut values = parse(&found)?;
    for key in PRESET_TEXT_KEYS {
        values.remove(*key);
    }
    values.insert("preset".into(), preset.into());
    decode::<ControllerConfig>(&found, Value::Table(values.clone()))?;
    overlay(KEY, values, given, origins);
    Ok(())
}

/// Adds missing values to `given`.
fn overlay(prefix: &str, values: Table, given: &mut Table, origins: &mut BTreeMap<String, Origin>) {
    for (name, value) in values {
        let key = format!("{prefix}.{name}");
        match (value, given.get_mut(&name)) {
            (Value::Table(inner), Some(Value::Table(given))) => {
                overlay(&key, inner, given, origins)
            }
            (_, Some(_)) => {}
            (value, None) => {
                origins.insert(key, Origin::Preset);
                given.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
