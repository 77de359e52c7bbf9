//! Source files and lines of addresses, from the line tables (DWARF 2 to 5) of ELF files.

use crate::Error;
use flate2::read::ZlibDecoder;
use gimli::{DwarfSections, EndianSlice, RunTimeEndian};
use object::{CompressionFormat, Object, ObjectSection};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes of an unpacked section: what a wrong header says is not believed beyond this.
const MOST: u64 = 1 << 31;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Addresses up to the next row, and where they are in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    start: u64,
    end: u64,
    file: u32,
    /// 0: code that stands in no line.
    line: u32,
}

/// Lines of several files; where files overlap, the first one that was added counts.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    /// For each file its rows, ascending.
    tables: Vec<Vec<Row>>,
    names: Vec<String>,
    known: HashMap<String, u32>,
}

impl Lines {
    /// Adds the lines of an ELF file that was loaded `bias` above its link addresses. Returns the number of rows: 0 if
    /// it has no line table.
    pub fn add(&mut self, file: &str, bytes: &[u8], bias: u64) -> Result<usize, Error> {
        let wrong = |problem: String| Error::Lines {
            file: file.to_string(),
            problem,
        };
        let elf = object::File::parse(bytes).map_err(|e| wrong(e.to_string()))?;
        let mut rows = self.rows(&elf).map_err(wrong)?;
        for row in &mut rows {
            row.start = row.start.wrapping_add(bias);
            row.end = row.end.wrapping_add(bias);
        }
        rows.retain(|r| r.start < r.end);
        rows.sort_by_key(|r| r.start);
        let n = rows.len();
        self.tables.push(rows);
        Ok(n)
    }

    /// The file that has the debug information of a stripped one, below a directory such as /usr/lib/debug.
    pub fn separate(bytes: &[u8], directory: &Path) -> Option<PathBuf> {
        let id = object::File::parse(bytes).ok()?.build_id().ok()??;
        let (first, rest) = id.split_first()?;
        let hex: String = rest.iter().map(|b| format!("{b:02x}")).collect();
        let name = format!(".build-id/{first:02x}/{hex}.debug");
        Some(directory.join(name))
    }

    /// The source file and the line, counted from 1, of an address.
    pub fn lookup(&self, addr: u64) -> Option<(&str, u32)> {
        let row = self.tables.iter().find_map(|table| {
            let i = table.partition_point(|r| r.start <= addr).checked_sub(1)?;
            table.get(i).filter(|r| addr < r.end)
        })?;
        let name = self.names.get(row.file as usize)?;
        (row.line != 0).then_some((name.as_str(), row.line))
    }

    fn rows(&mut self, elf: &object::File<'_>) -> Result<Vec<Row>, String> {
        let endian = if elf.is_little_endian() {
            RunTimeEndian::Little
        } else {
            RunTimeEndian::Big
        };
        let sections = DwarfSections::load(|id| section(elf, id.name()))?;
        let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, endian));
        let mut rows = Vec::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next().map_err(|e| e.to_string())? {
            // A unit that cannot be read takes only its own lines away.
            let Ok(unit) = dwarf.unit(header) else {
                continue;
            };
            let Some(program) = unit.line_program.clone() else {
                continue;
            };
            let _ = self.unit(&dwarf, &unit, program, &mut rows);
        }
        Ok(rows)
    }

    fn unit<'a>(
        &mut self,
        dwarf: &gimli::Dwarf<Slice<'a>>,
        unit: &gimli::Unit<Slice<'a>>,
        program: gimli::IncompleteLineProgram<Slice<'a>>,
        rows: &mut Vec<Row>,
    ) -> Result<(), gimli::Error> {
        let mut all = program.rows();
        let mut files: HashMap<u64, u32> = HashMap::new();
        let mut last: Option<Row> = None;
        while let Some((header, row)) = all.next_row()? {
            let start = row.address();
            if let Some(before) = last.take() {
                let end = start;
                // Functions that the linker has left out stand at 0.
                if before.start < end && before.start != 0 {
                    rows.push(Row { end, ..before });
                }
            }
            if row.end_sequence() {
                continue;
            }
            let index = row.file_index();
            let file = match files.get(&index) {
                Some(file) => *file,
                None => {
                    let file = self.name(dwarf, unit, header, index);
                    files.insert(index, file);
                    file
                }
            };
            last = Some(Row {
                start,
                end: start,
                file,
                line: row
                    .line()
                    .map_or(0, |l| l.get().min(u32::MAX.into()) as u32),
            });
        }
        Ok(())
    }

    /// The number of a file's name.
    fn name<'a>(
        &mut self,
        dwarf: &gimli::Dwarf<Slice<'a>>,
        unit: &gimli::Unit<Slice<'a>>,
        header: &gimli::LineProgramHeader<Slice<'a>>,
        index: u64,
    ) -> u32 {
        let text = |value| -> Option<String> {
            let s = dwarf.attr_string(unit, value).ok()?;
            Some(s.to_string_lossy().into_owned())
        };
        let mut path = String::new();
        if let Some(file) = header.file(index) {
            if let Some(dir) = unit.comp_dir {
                join(&mut path, &dir.to_string_lossy());
            }
            if let Some(dir) = file.directory(header).and_then(text) {
                join(&mut path, &dir);
            }
            if let Some(name) = text(file.path_name()) {
                join(&mut path, &name);
            }
        }
        if path.is_empty() {
            path.push_str("??");
        }
        let next = self.names.len() as u32;
        *self.known.entry(path).or_insert_with_key(|path| {
            self.names.push(path.clone());
            next
        })
    }
}

/// Appends a path, which takes the place of what is there if it is absolute.
fn join(path: &mut String, next: &str) {
    if next.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(next);
}

/// A section's bytes, unpacked.
fn section<'a>(elf: &object::File<'a>, name: &str) -> Result<Cow<'a, [u8]>, String> {
    let Some(section) = elf.section_by_name(name) else {
        return Ok(Cow::Borrowed(&[]));
    };
    let data = section.compressed_data().map_err(|e| e.to_string())?;
    match data.format {
        CompressionFormat::None => Ok(Cow::Borrowed(data.data)),
        CompressionFormat::Zlib if data.uncompressed_size <= MOST => {
            let mut bytes = Vec::new();
            let from = ZlibDecoder::new(data.data).take(data.uncompressed_size);
            let read = { from }.read_to_end(&mut bytes);
            read.map_err(|e| format!("{name}: {e}"))?;
            Ok(Cow::Owned(bytes))
        }
        other => Err(format!(
            "{name} is packed in a form ({other:?}) that is not supported"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined() {
        let mut path = String::new();
        for part in ["/build", "src", "a.c"] {
            join(&mut path, part);
        }
        assert_eq!(path, "/build/src/a.c");
        join(&mut path, "/usr/include/b.h");
        assert_eq!(path, "/usr/include/b.h");
    }

    #[test]
    fn what_is_no_elf_file_is_refused_and_no_table_is_no_error() {
        let mut lines = Lines::default();
        assert!(lines.add("text", b"no ELF file", 0).is_err());
        assert_eq!(lines.lookup(0x1000), None);
    }

    #[test]
    fn a_row_reaches_to_the_next_one() {
        let row = |start, end, line| Row {
            start,
            end,
            file: 0,
            line,
        };
        let lines = Lines {
            tables: vec![vec![
                row(0x10, 0x14, 3),
                row(0x14, 0x20, 0),
                row(0x30, 0x34, 9),
            ]],
            names: vec!["a.c".into()],
            known: HashMap::new(),
        };
        assert_eq!(lines.lookup(0x0f), None);
        assert_eq!(lines.lookup(0x13), Some(("a.c", 3)));
        assert_eq!(lines.lookup(0x14), None, "code of no line");
        assert_eq!(lines.lookup(0x20), None, "between two sequences");
        assert_eq!(lines.lookup(0x33), Some(("a.c", 9)));
    }
}
