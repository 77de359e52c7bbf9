//! Converts a key, or an offset in the text, to a line and column.

use super::Source;
use std::fmt;

/// A place in a file; lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// Line and column, where known.
    pub at: Option<(usize, usize)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

impl Place {
    /// The place of a byte offset.
    pub fn of_offset(source: &Source, offset: Option<usize>) -> Place {
        let at = offset.and_then(|o| source.text.get(..o)).map(|before| {
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
            (line, column)
        });
        Place {
            file: source.name.clone(),
            at,
        }
    }

    /// The place of a dotted key, or of the innermost existing table of it.
    pub fn of_key(source: &Source, key: &str) -> Place {
        Place::of_offset(source, offset_of(&source.text, key))
    }
}

fn offset_of(text: &str, key: &str) -> Option<usize> {
    let document = toml_edit::ImDocument::parse(text).ok()?;
    let mut table: &dyn toml_edit::TableLike = document.as_table();
    let mut found = None;
    for part in key.split('.') {
        let name = part.split('[').next().unwrap_or(part);
        let Some((key, item)) = table.get_key_value(name) else {
            break;
        };
        found = key.span().map(|s| s.start).or(found);
        match item.as_table_like() {
            Some(inner) => table = inner,
            None => break,
        }
    }
    found
}
