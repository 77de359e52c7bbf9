//! Names of addresses, from ELF files and from lists in the format of System.map and
//! /proc/kallsyms.

use crate::Error;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::LittleEndian;

/// Longest name that is kept, in bytes; C++ has longer ones.
const MAX_NAME: usize = 1024;

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// First address.
    pub start: u64,
    /// First address after its end.
    pub end: u64,
    /// Name.
    pub name: String,
    /// Index of the file from which it is.
    pub file: usize,
}

/// Functions of several files; where files overlap, the first one that was added counts.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    /// For each file its symbols, ascending and disjoint.
    files: Vec<(String, Vec<Symbol>)>,
}

impl Symbols {
    /// Adds the symbols of an ELF file that was loaded `bias` above its link addresses, or of a
    /// list `ADDRESS TYPE NAME`. Returns the number of functions.
    pub fn add(&mut self, file: &str, bytes: &[u8], bias: u64) -> Result<usize, Error> {
        let wrong = |problem: String| Error::Symbols {
            file: file.to_string(),
            problem,
        };
        let found = if bytes.starts_with(&elf::ELFMAG) {
            from_elf(bytes).map_err(|e| wrong(e.to_string()))?
        } else {
            from_list(bytes).map_err(wrong)?
        };
        Ok(self.add_table(file, found, bias))
    }

    /// Adds (address, size, name) of functions; a size of 0 reaches to the next one.
    pub fn add_table(
        &mut self,
        file: &str,
        mut found: Vec<(u64, u64, String)>,
        bias: u64,
    ) -> usize {
        found.sort();
        let number = self.files.len();
        let mut table: Vec<Symbol> = Vec::with_capacity(found.len());
        for (i, (start, size, name)) in found.iter().enumerate() {
            let next = found[i..].iter().map(|s| s.0).find(|a| a > start);
            let next = next.unwrap_or(start.saturating_add((*size).max(4096)));
            let end = match size {
                0 => next,
                // Functions do not overlap; an overlap is an alias with a wrong size.
                n => start.saturating_add(*n).min(next),
            };
            // Of several names for an address the last one stays: the largest, then by name.
            if table
                .last()
                .is_some_and(|s| s.start == start.wrapping_add(bias))
            {
                table.pop();
            }
            let mut name = name.clone();
            let keep = (0..=MAX_NAME.min(name.len()))
                .rev()
                .find(|&n| name.is_char_boundary(n));
            name.truncate(keep.unwrap_or(0));
            let (start, end) = (start.wrapping_add(bias), end.wrapping_add(bias));
            if start < end {
                table.push(Symbol {
                    start,
                    end,
                    name,
                    file: number,
                });
            }
        }
        // A bias may wrap addresses around.
        table.sort_by_key(|s| s.start);
        let n = table.len();
        self.files.push((file.to_string(), table));
        n
    }

    /// The function at an address.
    pub fn lookup(&self, addr: u64) -> Option<&Symbol> {
        self.files.iter().find_map(|(_, table)| {
            let i = table.partition_point(|s| s.start <= addr).checked_sub(1)?;
            table.get(i).filter(|s| addr < s.end)
        })
    }

    /// Files with the ranges of addresses for which they have symbols.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.files.iter().map(|(name, table)| {
            let (first, last) = (table.first(), table.last());
            (
                name.as_str(),
                first.map_or(0, |s| s.start),
                last.map_or(0, |s| s.end),
            )
        })
    }
}

fn from_elf(bytes: &[u8]) -> Result<Vec<(u64, u64, String)>, object::Error> {
    let e = LittleEndian;
    let header = FileHeader64::<LittleEndian>::parse(bytes)?;
    let sections = header.sections(e, bytes)?;
    let code: Vec<(u64, u64)> = header
        .program_headers(e, bytes)?
        .iter()
        .filter(|p| p.p_type(e) == elf::PT_LOAD && p.p_flags(e) & elf::PF_X != 0)
        .map(|p| (p.p_vaddr(e), p.p_memsz(e)))
        .collect();
    let mut out = Vec::new();
    // Stripped libraries still have their exported names.
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let found = sections.symbols(e, bytes, kind)?;
        for s in found.iter() {
            let name = s.name(e, found.strings())?;
            let kind = matches!(
                s.st_type(),
                elf::STT_FUNC | elf::STT_NOTYPE | elf::STT_GNU_IFUNC
            );
            let at = s.st_value(e);
            let inside = code.iter().any(|(from, len)| at.wrapping_sub(*from) < *len);
            // $x and $d mark code and data for disassemblers, .L labels are local.
            let local = name.is_empty() || name[0] == b'$' || name.starts_with(b".L");
            if kind && inside && !s.is_undefined(e) && !local {
                out.push((at, s.st_size(e), String::from_utf8_lossy(name).into_owned()));
            }
        }
    }
    Ok(out)
}

/// Lines `ADDRESS TYPE NAME [MODULE]`.
fn from_list(bytes: &[u8]) -> Result<Vec<(u64, u64, String)>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_string())?;
    let mut out = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        let (Some(addr), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            if line.trim().is_empty() {
                continue;
            }
            return Err(format!("line {} is `{line}`", n + 1));
        };
        let addr = u64::from_str_radix(addr, 16)
            .map_err(|_| format!("line {} begins with `{addr}`", n + 1))?;
        // Without privilege, /proc/kallsyms shows every address as 0.
        if addr != 0 && matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with('$') {
            out.push((addr, 0, name.to_string()));
        }
    }
    if out.is_empty() {
        Err("it names no code (read /proc/kallsyms as root)".into())
    } else {
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_code_up_to_the_next_symbol() {
        let mut s = Symbols::default();
        let text = b"ffffffff80000000 T _start\nffffffff80000010 t inner\nffffffff80000010 T alias\nffffffff80000100 D \
            data\nffffffff80000200 T last\t[mod]\n";
        assert_eq!(s.add("map", text, 0).unwrap(), 3);
        let name = |a: u64| s.lookup(a).map(|s| s.name.as_str());
        assert_eq!(name(0xffff_ffff_8000_0000), Some("_start"));
        assert_eq!(name(0xffff_ffff_8000_000f), Some("_start"));
        assert_eq!(name(0xffff_ffff_8000_0011), Some("inner"));
        assert_eq!(name(0xffff_ffff_8000_0200), Some("last"));
        assert_eq!(name(0xffff_ffff_7fff_ffff), None);
        assert_eq!(name(0xffff_ffff_9000_0000), None);
    }

    #[test]
    fn sizes_are_kept_within_the_next_symbol_and_biases_move_all() {
        let mut s = Symbols::default();
        let table = vec![
            (0x10, 8, "a".into()),
            (0x20, 100, "b".into()),
            (0x30, 4, "c".into()),
        ];
        s.add_table("t", table, 0x1000);
        let name = |a: u64| s.lookup(a).map(|s| s.name.as_str());
        assert_eq!(name(0x1017), Some("a"));
        assert_eq!(name(0x1018), None);
        assert_eq!(name(0x102f), Some("b"));
        assert_eq!(name(0x1030), Some("c"));
        assert_eq!(s.files().next(), Some(("t", 0x1010, 0x1034)));
    }

    #[test]
    fn what_is_no_symbol_file_is_an_error() {
        for bytes in [
            &b"\x7fELF"[..],
            b"\x7fELF\x02\x01\x01 and more",
            b"hello there",
            b"",
            b"\xff\xfe",
            b"0 T hidden\n",
        ] {
            assert!(Symbols::default().add("x", bytes, 0).is_err(), "{bytes:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_file_panics(bytes: Vec<u8>, elf: bool, bias: u64) {
            let mut all = if elf { b"\x7fELF\x02\x01\x01\0".to_vec() } else { Vec::new() };
            all.extend(bytes);
            let mut s = Symbols::default();
            let _ = s.add("x", &all, bias);
            s.lookup(bias);
        }

        #[test]
        fn tables_are_disjoint(table: Vec<(u64, u64)>, bias: u64) {
            let mut s = Symbols::default();
            s.add_table("x", table.iter().map(|(a, n)| (*a, *n, "f".into())).collect(), bias);
            for w in s.files[0].1.windows(2) {
                assert!(w[0].start < w[1].start);
            }
        }
    }
}
