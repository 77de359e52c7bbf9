//! Descriptions of programs.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How much work a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// For tests: a region of a few million instructions.
    Small,
    /// For tables: 20 to 150 million instructions.
    Default,
    /// For a night: ten times as many.
    Long,
}

impl Size {
    /// All sizes, the smallest first.
    pub const ALL: [Size; 3] = [Size::Small, Size::Default, Size::Long];

    /// Its name in descriptions and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Size::Small => "small",
            Size::Default => "default",
            Size::Long => "long",
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let found = Size::ALL.into_iter().find(|s| s.name() == text);
        found.ok_or_else(|| format!("there is no size `{text}`: expected small, default or long"))
    }
}

/// Makers of inputs; each takes a size and a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Maker {
    /// Text of about so many bytes, of invented words with the frequencies of Zipf's law.
    Text,
    /// An XML document of so many records.
    Xml,
    /// Uncompressed video of 176 x 144 pixels (Y4M, 4:2:0): so many pictures of moving shapes with noise.
    Video,
    /// A genome of so many bases, as FASTA.
    Genome,
    /// So many reads of 100 bases of the genome with the same seed, of 200 bases for each read, as FASTQ.
    Reads,
    /// A minimum-cost flow problem with so many nodes, in DIMACS's format.
    Flow,
    /// A satisfiable or unsatisfiable formula of so many variables (3-SAT at the ratio 4.0), in DIMACS's format.
    Formula,
    /// A transport problem with so many sources and sinks as a linear program, in CPLEX's format.
    Linear,
    /// So many pairs for mdb_load.
    Pairs,
}

/// A file that a program reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name below /root of the guest.
    pub file: String,
    /// What makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub make: Option<Maker>,
    /// Its size, as the maker counts it; may name a value of the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The seed of what is made.
    #[serde(default)]
    pub seed: u64,
    /// Its content, if nothing makes it; may name values of the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The file of `suite/files/` that is its content, unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// A size of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeSpec {
    /// Values that `{name}` stands for in the script and in inputs.
    #[serde(default)]
    pub set: BTreeMap<String, u64>,
    /// The region begins when all harts together have executed so many instructions since the script began;
    /// without it, markers in the script or the program begin and end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<u64>,
    /// SHA-256 of the standard output, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// A program of the study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The name of its file.
    #[serde(skip)]
    pub name: String,
    /// What it does, in a few words.
    pub title: String,
    /// The field that it is from.
    pub kind: String,
    /// The program of SPEC CPU 2017 whose kind it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_for: Option<String>,
    /// Threads, or processes, that work at once.
    #[serde(default = "one")]
    pub threads: u32,
    /// The program of which it is a variant, with other threads: it is in the subset `threads` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant_of: Option<String>,
    /// The image that it runs in; see `suite/images.toml`.
    #[serde(default = "study")]
    pub image: String,
    /// Debian's packages whose versions its results name; those of the program itself first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Its sources in `suite/src/`, if it is one of ours: compiled on the host, and found in the guest's PATH by its
    /// name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Libraries that it is linked with, such as `m`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<String>,
    /// The shell script that runs it, in /root of the guest, under `sh -e`. Its output is what the checksum is of.
    pub run: String,
    /// Files that it reads.
    #[serde(default, rename = "input", skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// Whether it belongs to the subset `quick`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quick: bool,
    /// What a reader of its results should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its sizes.
    pub sizes: BTreeMap<Size, SizeSpec>,
}

fn one() -> u32 {
    1
}

fn study() -> String {
    "study".into()
}

impl Program {
    /// Reads a description; `file` is named in errors.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Program> {
        let wrong = |what: String| Error::Description {
            file: file.into(),
            what,
        };
        let mut p: Program =
            toml::from_str(text).map_err(|e| wrong(e.to_string().trim_end().into()))?;
        p.name = name.into();
        p.check().map_err(wrong)?;
        Ok(p)
    }

    fn check(&self) -> Result<(), String> {
        let name_is_plain = |name: &str| {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            !name.is_empty() && name.bytes().all(plain)
        };
        if !name_is_plain(&self.name) {
            return Err(format!(
                "the name `{}` is not possible: lower-case letters, digits and `-` are",
                self.name
            ));
        }
        if self.sizes.is_empty() {
            return Err("[sizes]: no size is given; a program needs `default` at least".into());
        }
        if self.packages.is_empty() && self.sources.is_empty() {
            return Err("it is neither in `packages` nor made of `sources`".into());
        }
        if !(1..=64).contains(&self.threads) {
            return Err(format!("threads = {}: expected 1 to 64", self.threads));
        }
        for i in &self.inputs {
            i.check()?;
        }
        for (size, s) in &self.sizes {
            let bad = |sum: &String| sum.len() != 64 || !sum.bytes().all(|b| b.is_ascii_hexdigit());
            if let Some(sum) = s.output.as_ref().filter(|sum| bad(sum)) {
                return Err(format!(
                    "sizes.{size}.output: `{sum}` is no SHA-256: expected 64 hexadecimal digits"
                ));
            }
            for i in &self.inputs {
                self.amount(i, *size)?;
            }
        }
        let by_itself =
            !self.sources.is_empty() || self.inputs.iter().any(|i| i.file == "nagori_mark.py");
        let marked = self.run.contains("roi-begin") || by_itself;
        let from_markers = |s: &SizeSpec| s.begin.is_none();
        if !marked && self.sizes.values().any(from_markers) {
            return Err("there is neither `begin` in every size nor a marker in `run`: nothing would be timed".into());
        }
        Ok(())
    }

    /// A size of it; an error names those that there are.
    pub fn size(&self, size: Size) -> Result<&SizeSpec> {
        self.sizes.get(&size).ok_or_else(|| {
            let names: Vec<&str> = self.sizes.keys().map(|s| s.name()).collect();
            Error::Request(format!(
                "{} has no size {size}; it has {}",
                self.name,
                names.join(", ")
            ))
        })
    }

    /// A text with the values of a size in place of their names in braces; other braces stay.
    pub fn filled(&self, text: &str, size: Size) -> String {
        let mut text = text.to_string();
        for (name, value) in self.sizes.get(&size).into_iter().flat_map(|s| &s.set) {
            text = text.replace(&format!("{{{name}}}"), &value.to_string());
        }
        text
    }

    /// How much a maker is to make of an input.
    pub(crate) fn amount(&self, input: &Input, size: Size) -> Result<u64, String> {
        let Some(text) = &input.size else {
            return Ok(0);
        };
        let filled = self.filled(text, size);
        let n = filled.parse().ok().filter(|n| (1..=1 << 32).contains(n));
        n.ok_or_else(|| {
            format!(
                "input {}: size `{text}` is `{filled}` in size {size}: expected a number from 1 to 2^32, \
                 or the name of one of sizes.{size}.set in braces",
                input.file
            )
        })
    }
}

impl Input {
    fn check(&self) -> Result<(), String> {
        let name = &self.file;
        let parts = name.split('/');
        if name.starts_with('/') || parts.clone().any(|p| p.is_empty() || p == "." || p == "..") {
            return Err(format!(
                "input: file `{name}`: expected a path below /root, without `.` and `..`"
            ));
        }
        let contents = [
            self.make.is_some(),
            self.text.is_some(),
            self.from.is_some(),
        ];
        match contents.iter().filter(|c| **c).count() {
            1 => {}
            _ => {
                return Err(format!(
                    "input {name}: expected exactly one of `make`, `text` and `from`"
                ))
            }
        }
        if self.make.is_some() != self.size.is_some() {
            return Err(format!("input {name}: `make` and `size` belong together"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
title = "t"
kind = "k"
packages = ["p"]
run = "nagori-mark roi-begin; p {n} {m}; nagori-mark roi-end"
[[input]]
file = "a/b"
make = "text"
size = "{n}"
[sizes.small]
set = { n = 5 }
"#;

    fn error(text: &str) -> String {
        Program::parse("p", "p.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_description_is_read_and_filled() {
        let p = Program::parse("p", "p.toml", GOOD).unwrap();
        assert_eq!(
            (p.name.as_str(), p.threads, p.image.as_str()),
            ("p", 1, "study")
        );
        assert_eq!(p.filled("{n} {m} {", Size::Small), "5 {m} {");
        assert_eq!(p.amount(&p.inputs[0], Size::Small), Ok(5));
        assert!(p.size(Size::Small).is_ok());
        let e = p.size(Size::Long).unwrap_err().to_string();
        assert!(e.contains("it has small"), "{e}");
    }

    #[test]
    fn a_wrong_description_is_refused_with_its_file_and_key() {
        let with = |old: &str, new: &str| error(&GOOD.replace(old, new));
        for (old, new, said) in [
            ("title", "titel", "titel"),
            ("a/b", "/etc/passwd", "/etc/passwd"),
            ("a/b", "../b", "../b"),
            ("n = 5", "n = 0", "expected a number from 1"),
            ("size = \"{n}\"", "size = \"{x}\"", "`{x}`"),
            ("size = \"{n}\"\n", "", "belong together"),
            ("make = \"text\"\n", "", "exactly one"),
            ("[sizes.small]", "[sizes.tiny]", "tiny"),
            ("set =", "output = \"12\"\nset =", "64 hexadecimal"),
            (
                "packages = [\"p\"]",
                "threads = 0\npackages = [\"p\"]",
                "1 to 64",
            ),
            ("packages = [\"p\"]", "", "sources"),
            ("nagori-mark roi-begin; ", "", "nothing would be timed"),
        ] {
            let e = with(old, new);
            assert!(e.starts_with("p.toml: ") && e.contains(said), "{new}: {e}");
        }
        let e = Program::parse("P q", "p.toml", GOOD)
            .unwrap_err()
            .to_string();
        assert!(e.contains("`P q`"), "{e}");
    }
}
