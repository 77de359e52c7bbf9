//! Bare-metal programs: static riscv64 ELF files.

use super::{EntryState, FileData, LoadError, Plan, RamRange, Role, Segment};
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::LittleEndian;

const EXPECTED: &str =
    "a static riscv64 executable (ELF, little-endian, linked to addresses in memory, no interpreter)";

/// Symbols of a program: maps addresses to names, for traces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbols {
    /// (address, size, name), ascending by address.
    table: Vec<(u64, u64, String)>,
}

impl Symbols {
    /// The symbol at or before an address, and the distance from it. A symbol with a size ends
    /// there; one without a size extends to the next one.
    pub fn lookup(&self, addr: u64) -> Option<(&str, u64)> {
        let at = self.table.partition_point(|s| s.0 <= addr);
        let (start, size, name) = self.table.get(at.checked_sub(1)?)?;
        let offset = addr - start;
        (*size == 0 || offset < *size).then_some((name, offset))
    }

    /// Address of a symbol.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.table.iter().find(|s| s.2 == name).map(|s| s.0)
    }

    /// All symbols: address, size (0 if unknown), name.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &str)> {
        self.table.iter().map(|(a, n, s)| (*a, *n, s.as_str()))
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no symbols.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

/// A bare-metal program, ready to be copied to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    /// Segments and entry. a1 is 0: set it if the program gets a device tree.
    pub plan: Plan,
    /// Functions and labels.
    pub symbols: Symbols,
    /// Addresses on which it has agreed with the host.
    pub agreed: Agreed,
}

/// Addresses on which programs and hosts agree by names of symbols.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreed {
    /// HTIF's word of requests.
    pub tohost: Option<u64>,
    /// HTIF's word of answers.
    pub fromhost: Option<u64>,
    /// Start of a test's results (signature).
    pub begin_signature: Option<u64>,
    /// Its end.
    pub end_signature: Option<u64>,
}

impl Agreed {
    /// The field for a symbol's address, if it has one of these names.
    fn place(&mut self, name: &[u8]) -> Option<&mut Option<u64>> {
        Some(match name {
            b"tohost" => &mut self.tohost,
            b"fromhost" => &mut self.fromhost,
            b"begin_signature" => &mut self.begin_signature,
            b"end_signature" => &mut self.end_signature,
            _ => return None,
        })
    }
}

/// Checks a program and plans its segments.
pub fn load_elf(file: &FileData, ram: RamRange) -> Result<Elf, LoadError> {
    load_elf_as(file, ram, Role::Program)
}

/// Checks a program; `role` is its purpose for messages.
pub(super) fn load_elf_as(file: &FileData, ram: RamRange, role: Role) -> Result<Elf, LoadError> {
    let wrong = |problem: String| file.wrong(role, problem, EXPECTED);
    let bytes = &file.bytes[..];
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(wrong("it is no ELF file".into()));
    }
    let broken = |e: object::Error| wrong(format!("its ELF structure is damaged ({e})"));
    match bytes.get(4..6) {
        Some([elf::ELFCLASS64, elf::ELFDATA2LSB]) => {}
        Some([elf::ELFCLASS32, _]) => return Err(wrong("it is a 32-bit ELF file".into())),
        Some([_, elf::ELFDATA2MSB]) => return Err(wrong("it is big-endian".into())),
        _ => return Err(wrong("its ELF header is damaged".into())),
    }
    let e = LittleEndian;
    let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(broken)?;
    if header.e_machine(e) != elf::EM_RISCV {
        return Err(wrong(format!(
            "it is for another processor (ELF machine {})",
            header.e_machine(e)
        )));
    }
    match header.e_type(e) {
        elf::ET_EXEC => {}
        elf::ET_DYN => {
            return Err(wrong(
                "it is position-independent or a shared library (link it with -static -no-pie)"
                    .into(),
            ))
        }
        elf::ET_REL => {
            return Err(wrong(
                "it is an object file that has not been linked".into(),
            ))
        }
        other => return Err(wrong(format!("it is of ELF type {other}"))),
    }

    let mut segments: Vec<Segment> = Vec::new();
    let mut warnings = Vec::new();
    let mut entry_ok = false;
    let entry = header.e_entry(e);
    for p in header.program_headers(e, bytes).map_err(broken)? {
        match p.p_type(e) {
            elf::PT_INTERP => {
                return Err(wrong(
                    "it needs a dynamic linker (link it with -static)".into(),
                ))
            }
            elf::PT_LOAD if p.p_memsz(e) > 0 => {}
            _ => continue,
        }
        let (addr, size) = (p.p_paddr(e), p.p_memsz(e));
        let content = p.data(e, bytes).map_err(|()| {
            wrong(format!(
                "the segment at {addr:#x} reaches past the end of the file"
            ))
        })?;
        if content.len() as u64 > size {
            return Err(wrong(format!(
                "the segment at {addr:#x} is longer in the file than in memory"
            )));
        }
        ram.claim(role, &file.path, addr, size)?;
        if (addr..addr + size).contains(&entry) {
            entry_ok = true;
            // Some linker scripts set no flags; loading by physical addresses does not need them.
            let flags = p.p_flags(e);
            if flags & elf::PF_X == 0 {
                let what = if flags == 0 {
                    "no flags at all"
                } else {
                    "no flag for that"
                };
                warnings.push(format!(
                    "{}: its entry point {entry:#x} is in a segment that is not executable ({what} in its program \
                        header); it is run all the same",
                    file.path
                ));
            }
        }
        segments.push(Segment {
            role,
            addr,
            bytes: content.to_vec(),
            memory_size: size,
        });
    }
    segments.sort_by_key(|s| s.addr);
    if let Some(pair) = segments
        .windows(2)
        .find(|w| w[0].addr + w[0].memory_size > w[1].addr)
    {
        return Err(wrong(format!(
            "its segments at {:#x} and {:#x} overlap",
            pair[0].addr, pair[1].addr
        )));
    }
    if segments.is_empty() {
        return Err(wrong("it has nothing to load".into()));
    }
    if !entry_ok {
        return Err(wrong(format!(
            "its entry point {entry:#x} is in no segment that is loaded"
        )));
    }
    if entry % 2 != 0 {
        return Err(wrong(format!("its entry point {entry:#x} is odd")));
    }

    let (symbols, agreed) = symbols(header, bytes).map_err(broken)?;
    let plan = Plan {
        segments,
        entry: EntryState {
            pc: entry,
            a1: 0,
            a2: 0,
        },
        warnings,
    };
    Ok(Elf {
        plan,
        symbols,
        agreed,
    })
}

fn symbols(
    header: &FileHeader64<LittleEndian>,
    bytes: &[u8],
) -> Result<(Symbols, Agreed), object::Error> {
    let e = LittleEndian;
    let sections = header.sections(e, bytes)?;
    let found = sections.symbols(e, bytes, elf::SHT_SYMTAB)?;
    let mut table = Vec::new();
    let mut agreed = Agreed::default();
    for symbol in found.iter() {
        let name = symbol.name(e, found.strings())?;
        if let Some(place) = agreed.place(name).filter(|_| !symbol.is_undefined(e)) {
            *place = Some(symbol.st_value(e));
        }
        let code = matches!(
            symbol.st_type(),
            elf::STT_FUNC | elf::STT_NOTYPE | elf::STT_OBJECT
        );
        let placed = !symbol.is_undefined(e) && symbol.st_shndx(e) != elf::SHN_ABS;
        // $x and $d mark code and data for disassemblers, .L labels are local.
        if !code || !placed || name.is_empty() || name[0] == b'$' || name.starts_with(b".L") {
            continue;
        }
        table.push((
            symbol.st_value(e),
            symbol.st_size(e),
            String::from_utf8_lossy(name).into_owned(),
        ));
    }
    // Of several names for an address, the last one is found: the largest, then by name.
    table.sort();
    Ok((Symbols { table }, agreed))
}
