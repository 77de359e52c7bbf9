//! Where descriptions are found: files by path, built-in presets by name.

use std::path::{Path, PathBuf};

use crate::error::Error;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../memories/", $name, ".toml")))),*]
    };
}

/// Built-in descriptions, by name.
pub const EMBEDDED: &[(&str, &str)] = shipped![
    "board",
    "cxl",
    "ddr3",
    "ddr4",
    "dram-cache",
    "hybrid",
    "lpddr4",
    "pcm",
    "reram",
    "stt-mram",
    "xpoint",
    "xpoint-x6",
];

/// Name of their file.
pub(crate) const POLICIES: &str = "builtin:policies.toml";

/// The built-in controller policies.
pub(crate) fn policies() -> Source {
    Source {
        name: POLICIES.to_owned(),
        dir: None,
        text: include_str!("../../../memories/policies.toml").to_owned(),
        variant: None,
    }
}

/// A description that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path, or `builtin:NAME.toml`, for messages.
    pub name: String,
    /// Directory that relative paths in it start from.
    pub dir: Option<PathBuf>,
    /// The text.
    pub text: String,
    /// Variant that the name asks for (`ddr3-1600k`).
    pub variant: Option<String>,
}

/// Finds a description: `name` is a path if it contains `/` or ends in
/// `.toml` (relative paths start from `dir`), otherwise the name of a preset,
/// alone or with one of its variants (`ddr3`, `ddr3-1600k`).
pub fn find(name: &str, dir: Option<&Path>) -> Result<Source, Error> {
    if name.contains('/') || name.ends_with(".toml") {
        return read(&dir.unwrap_or(Path::new("")).join(name));
    }
    // A complete name takes precedence over a name with a variant.
    let whole = EMBEDDED.iter().filter(|e| e.0 == name);
    for &(known, text) in whole.chain(EMBEDDED) {
        let variant = match name.strip_prefix(known) {
            Some("") => None,
            Some(rest) if rest.starts_with('-') => Some(rest[1..].to_owned()),
            _ => continue,
        };
        return Ok(Source {
            name: format!("builtin:{known}.toml"),
            dir: None,
            text: text.to_owned(),
            variant,
        });
    }
    Err(Error::NotFound {
        name: name.to_owned(),
        known: EMBEDDED.iter().map(|e| e.0).collect::<Vec<_>>().join(", "),
    })
}

fn read(path: &Path) -> Result<Source, Error> {
    let name = path.display().to_string();
    let problem = match std::fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => {
            return Ok(Source {
                name,
                dir: path.parent().map(Path::to_path_buf),
                text,
                variant: None,
            })
        }
        Ok(Err(_)) => "it is not UTF-8 text".to_owned(),
        Err(e) => e.to_string(),
    };
    Err(Error::Read {
        path: name,
        problem,
    })
}
