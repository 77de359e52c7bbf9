//! Where descriptions are found: built-in ones, and those of a directory.

use crate::error::{at, Error, Result};
use crate::program::Program;
use include_dir::{include_dir, Dir};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

static SHIPPED: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../suite");

/// The markers of Python programs, which are part of the guest, as the file that descriptions know.
const PYTHON_MARKERS: (&str, &[u8]) = (
    "files/nagori_mark.py",
    include_bytes!("../../../guest/python/nagori_mark.py"),
);

/// Environment variable with a directory whose descriptions are added to the built-in ones.
pub const ENV: &str = "NAGORI_SUITE";

/// The part of Debian that programs run in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Image {
    /// Debian's packages beyond the base `run`.
    pub packages: Vec<String>,
}

/// The programs that there are. A directory has the same parts as `suite/`: `programs/NAME.toml`, `images.toml`,
/// `src/`, `files/`; what it has replaces what is built in.
#[derive(Debug, Clone, Default)]
pub struct Library {
    dir: Option<PathBuf>,
}

impl Library {
    /// The built-in programs, and those of a directory.
    pub fn new(dir: Option<PathBuf>) -> Library {
        Library { dir }
    }

    /// A file of the suite, by its path below `suite/`.
    pub(crate) fn file(&self, path: &str) -> Result<Cow<'static, [u8]>> {
        if let Some(own) = self
            .dir
            .as_ref()
            .map(|d| d.join(path))
            .filter(|p| p.exists())
        {
            return fs::read(&own).map(Cow::Owned).map_err(at("read", &own));
        }
        if path == PYTHON_MARKERS.0 {
            return Ok(Cow::Borrowed(PYTHON_MARKERS.1));
        }
        let shipped = SHIPPED.get_file(path).map(|f| Cow::Borrowed(f.contents()));
        shipped.ok_or_else(|| Error::Description {
            file: format!("suite/{path}"),
            what: "there is no such file".into(),
        })
    }

    fn text(&self, path: &str) -> Result<String> {
        let bytes = self.file(path)?.into_owned();
        String::from_utf8(bytes).map_err(|e| Error::Description {
            file: path.into(),
            what: format!("it is no text: {e}"),
        })
    }

    /// Names of all programs, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        let name = |path: &Path| {
            let is_toml = path.extension().is_some_and(|e| e == "toml");
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
            stem.filter(|_| is_toml)
        };
        let shipped = SHIPPED.get_dir("programs");
        let mut names: Vec<String> = shipped
            .into_iter()
            .flat_map(|d| d.files())
            .filter_map(|f| name(f.path()))
            .collect();
        if let Some(dir) = &self.dir {
            if !dir.is_dir() {
                return Err(Error::Request(format!(
                    "--suite {}: there is no such directory",
                    dir.display()
                )));
            }
            let own = dir.join("programs");
            for entry in own
                .is_dir()
                .then(|| fs::read_dir(&own))
                .into_iter()
                .flatten()
                .flatten()
            {
                names.extend(entry.ok().and_then(|e| name(&e.path())));
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// A program by its name.
    pub fn program(&self, name: &str) -> Result<Program> {
        let path = format!("programs/{name}.toml");
        let names = self.names()?;
        if !names.iter().any(|n| n == name) {
            return Err(Error::Request(format!(
                "there is no program `{name}`; `nagori suite list` shows them"
            )));
        }
        Program::parse(name, &format!("suite/{path}"), &self.text(&path)?)
    }

    /// All programs, by name.
    pub fn programs(&self) -> Result<Vec<Program>> {
        self.names()?.iter().map(|n| self.program(n)).collect()
    }

    /// The packages of an image.
    pub(crate) fn image(&self, name: &str) -> Result<Image> {
        const FILE: &str = "images.toml";
        let wrong = |what: String| Error::Description {
            file: format!("suite/{FILE}"),
            what,
        };
        let mut images: BTreeMap<String, Image> =
            toml::from_str(&self.text(FILE)?).map_err(|e| wrong(e.to_string()))?;
        images
            .remove(name)
            .ok_or_else(|| wrong(format!("there is no image `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Size;

    /// Programs of the subset `quick`.
    const QUICK: usize = 8;

    #[test]
    fn what_is_shipped_is_sound() {
        let library = Library::default();
        let all = library.programs().unwrap();
        assert!(all.len() >= 4);
        for p in &all {
            let image = library.image(&p.image).unwrap();
            for package in &p.packages {
                assert!(
                    image.packages.contains(package),
                    "{}: {package} is not in {}",
                    p.name,
                    p.image
                );
            }
            if let Some(of) = &p.variant_of {
                let of = library.program(of).unwrap();
                assert!(of.variant_of.is_none() && !p.quick, "{}", p.name);
            }
            for source in &p.sources {
                library.file(&format!("src/{source}")).unwrap();
            }
            for from in p.inputs.iter().filter_map(|i| i.from.as_ref()) {
                library.file(&format!("files/{from}")).unwrap();
            }
            for size in [Size::Small, Size::Default] {
                let s = p.size(size).unwrap();
                assert!(
                    s.output.is_some(),
                    "{} {size}: no checksum of its output",
                    p.name
                );
            }
        }
        assert_eq!(all.iter().filter(|p| p.quick).count(), QUICK);
    }

    #[test]
    fn a_directory_adds_programs_and_replaces_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("programs")).unwrap();
        let text = "title = 't'\nkind = 'k'\nsources = ['x.c']\nrun = 'x'\n[sizes.small]\n";
        fs::write(dir.path().join("programs/x.toml"), text).unwrap();
        let library = Library::new(Some(dir.path().into()));
        assert_eq!(library.program("x").unwrap().title, "t");
        assert_eq!(
            library.names().unwrap().len(),
            Library::default().names().unwrap().len() + 1
        );
        assert!(library.file("src/x.c").is_err());
        assert!(library
            .program("nosuch")
            .unwrap_err()
            .to_string()
            .contains("suite list"));
        assert!(Library::new(Some("/no/such".into())).names().is_err());
    }
}
