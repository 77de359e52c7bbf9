//! Where descriptions are found: files by path, installed ones by name, and built-in ones.

use super::ConfigError;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use toml::Value;

/// The default machine.
pub const DEFAULT_MACHINE: &str = "vc707";
/// Controller preset of a machine that names none.
pub const DEFAULT_CONTROLLER: &str = "vc707";
/// Environment variable with directories to search, separated as in PATH.
pub const ENV: &str = "NAGORI_MACHINES";

macro_rules! shipped {
    ($($kind:literal / $name:literal),* $(,)?) => {
        &[$(($kind, $name, include_str!(concat!("../../../machines/", $kind, "/", $name, ".toml")))),*]
    };
}

const EMBEDDED: &[(&str, &str, &str)] = shipped![
    "." / "vc707",
    "." / "small",
    "." / "soc",
    "." / "peer",
    "." / "server-caches",
    "." / "server-prefetch",
    "." / "server",
    "cores" / "rocket",
    "cores" / "inorder2",
    "controllers" / "vc707"
];

/// A description that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Path, or `builtin:...`, for messages.
    pub name: String,
    /// Directory that relative paths in it start from.
    pub dir: Option<PathBuf>,
    /// The text.
    pub text: String,
}

/// Directories with installed descriptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Library {
    dirs: Vec<PathBuf>,
}

/// A built-in description; `kind` is `.`, `cores` or `controllers`.
pub fn embedded(kind: &str, name: &str) -> Option<&'static str> {
    EMBEDDED
        .iter()
        .find(|(k, n, _)| *k == kind && *n == name)
        .map(|(_, _, text)| *text)
}

/// A value of the reference machine, by its key: the default of every machine.
pub(super) fn reference<T: DeserializeOwned>(key: &str) -> T {
    static MACHINE: LazyLock<Value> = LazyLock::new(|| {
        let text = embedded(".", DEFAULT_MACHINE).expect("a shipped description");
        toml::from_str(text).expect("shipped descriptions are tested")
    });
    let value = key.split('.').fold(&*MACHINE, |table, name| &table[name]);
    value
        .clone()
        .try_into()
        .expect("shipped descriptions are tested")
}

fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

impl Library {
    /// Searches these directories before the built-in descriptions.
    pub fn new(dirs: Vec<PathBuf>) -> Library {
        Library { dirs }
    }

    /// The directories of [`ENV`], then `share/nagori/machines` beside the
    /// program's own directory.
    pub fn installed() -> Library {
        let listed = std::env::var_os(ENV).unwrap_or_default();
        let mut dirs: Vec<PathBuf> = std::env::split_paths(&listed)
            .filter(|d| d != Path::new(""))
            .collect();
        let program = std::env::current_exe().ok();
        if let Some(prefix) = program
            .as_deref()
            .and_then(Path::parent)
            .and_then(Path::parent)
        {
            dirs.push(prefix.join("share/nagori/machines"));
        }
        Library { dirs }
    }

    /// Names of all known machines, sorted.
    pub fn machines(&self) -> Vec<String> {
        self.names(".")
    }

    fn names(&self, kind: &str) -> Vec<String> {
        let mut names: Vec<String> = EMBEDDED
            .iter()
            .filter(|(k, _, _)| *k == kind)
            .map(|(_, n, _)| n.to_string())
            .collect();
        for dir in &self.dirs {
            let Ok(entries) = std::fs::read_dir(dir.join(kind)) else {
                continue;
            };
            for path in entries.flatten().map(|e| e.path()) {
                if path.extension().is_some_and(|e| e == "toml") {
                    names.extend(path.file_stem().and_then(|s| s.to_str()).map(String::from));
                }
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// Finds a description: `name` is a path if it contains `/` or ends in
    /// `.toml`, otherwise a name. Relative paths start from `dir`.
    pub fn find(&self, kind: &str, name: &str, dir: Option<&Path>) -> Result<Source, ConfigError> {
        if is_path(name) {
            let path = dir.unwrap_or(Path::new("")).join(name);
            return read(&path);
        }
        let file = format!("{name}.toml");
        for dir in &self.dirs {
            let path = dir.join(kind).join(&file);
            if path.is_file() {
                return read(&path);
            }
        }
        match embedded(kind, name) {
            Some(text) => Ok(Source {
                name: format!("builtin:{}", Path::new(kind).join(&file).display())
                    .replace("./", ""),
                dir: None,
                text: text.into(),
            }),
            None => Err(ConfigError::NotFound {
                kind: match kind {
                    "cores" => "core description",
                    "controllers" => "controller preset",
                    _ => "machine",
                },
                name: name.into(),
                known: self.names(kind).join(", "),
            }),
        }
    }
}

fn read(path: &Path) -> Result<Source, ConfigError> {
    let name = path.display().to_string();
    match std::fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => Ok(Source {
            name,
            dir: path.parent().map(Path::to_path_buf),
            text,
        }),
        Ok(Err(_)) => Err(ConfigError::Read {
            path: name,
            problem: "it is not UTF-8 text".into(),
        }),
        Err(e) => Err(ConfigError::Read {
            path: name,
            problem: e.to_string(),
        }),
    }
}
