//! The executable of a run: a file of the host, or a program of the image.

use super::protocol::Placed;
use crate::error::{Context, Error, Result};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where programs of the host are placed in the guest.
const PLACE: &str = "/run/nagori/bin";
/// Type of ELF files that can be loaded anywhere (ET_DYN).
const ET_DYN: u16 = 3;
/// Where Linux loads such a program that has an interpreter: two thirds of the 256 GiB of Sv39.
const DYNAMIC_BASE: u64 = 0x2a_aaaa_a000;
/// Permissions to execute a file.
const EXECUTE: u32 = 0o111;
/// Largest file that goes through the control port.
const MOST: u64 = 1 << 30;

/// Kind of a file, by its first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A static riscv64 ELF.
    Static,
    /// A riscv64 ELF with an interpreter.
    Dynamic(String),
    /// A script with an interpreter.
    Script(String),
}

/// The program of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executable {
    /// A file of the host.
    File {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        kind: Kind,
    },
    /// A name or path in the guest.
    Image(String),
}

impl Executable {
    /// Finds the file: a path with a `/` is one of the host or, if there is no such file and it is
    /// absolute, one of the guest; a bare name is a program of the image, looked up in the guest's
    /// PATH.
    pub fn find(name: &str) -> Result<Executable> {
        let path = Path::new(name);
        if !name.contains('/') {
            return Ok(Executable::Image(name.into()));
        }
        let found = runnable(path);
        if matches!(found, Err(Error::NoProgram(_))) && path.is_absolute() {
            return Ok(Executable::Image(name.into()));
        }
        // What a file is says more than its permissions.
        let kind = if path.is_file() {
            Some(kind(path)?)
        } else {
            None
        };
        if found?.len() > MOST {
            return Err(Error::Program(format!(
                "{name} is larger than 1 GiB; put it into a --share"
            )));
        }
        let kind = kind.ok_or_else(|| Error::Program(format!("{name} is not a regular file")))?;
        Ok(Executable::File {
            path: path.into(),
            kind,
        })
    }

    /// Whether it needs more than the smallest root file system.
    pub fn needs_image(&self) -> bool {
        match self {
            Executable::File { kind, .. } => *kind != Kind::Static,
            Executable::Image(_) => true,
        }
    }

    /// Whether it is a file of the host, and needs files of a root file system.
    pub fn needs_files(&self) -> bool {
        matches!(
            self,
            Executable::File {
                kind: Kind::Dynamic(_) | Kind::Script(_),
                ..
            }
        )
    }

    /// Whether a library can be preloaded into it.
    pub fn has_libraries(&self) -> bool {
        !matches!(
            self,
            Executable::File {
                kind: Kind::Static,
                ..
            }
        )
    }

    /// The file to be created, and the file to execute if it is not the first argument.
    pub fn place(&self) -> Result<(Option<Placed>, Option<String>)> {
        let Executable::File { path, .. } = self else {
            return Ok((None, None));
        };
        let name = path
            .file_name()
            .ok_or_else(|| Error::Program("the program has no name".into()))?;
        let to = format!("{PLACE}/{}", name.to_string_lossy());
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let placed = Placed {
            path: to.clone(),
            mode: 0o755,
            bytes: bytes.into(),
        };
        Ok((Some(placed), Some(to)))
    }

    /// The source of its function names, in the form of `--symbols`. The agent has programs loaded
    /// at the same addresses each time.
    pub fn symbols(&self) -> Option<String> {
        let Executable::File { path, kind } = self else {
            return None;
        };
        let mut start = [0; 18];
        fs::File::open(path).ok()?.read_exact(&mut start).ok()?;
        let relocated = u16::from_le_bytes([start[16], start[17]]) == ET_DYN;
        let shown = path.display();
        match kind {
            Kind::Script(_) => None,
            _ if !relocated => Some(shown.to_string()),
            Kind::Dynamic(_) => Some(format!("{shown}@{DYNAMIC_BASE:x}")),
            Kind::Static => None,
        }
    }

    /// A likely reason why the guest could not execute it.
    pub fn hint(&self, errno: u32) -> Option<String> {
        const ENOENT: u32 = 2;
        match self {
            Executable::File { kind: Kind::Dynamic(i) | Kind::Script(i), .. } if errno == ENOENT => {
                Some(format!("its interpreter {i} is not in the guest's root file system"))
            }
            Executable::Image(name) if errno == ENOENT => Some(format!(
                "there is no {name} in the guest's root file system; a file of this host is given by its path, ./{name}"
            )),
            _ => None,
        }
    }
}

/// What the host says of a file of its own that is to be run.
///
/// # Errors
/// There is none, or it is not executable.
pub(crate) fn runnable(path: &Path) -> Result<fs::Metadata> {
    use std::io::ErrorKind;
    let shown = path.display();
    match fs::metadata(path) {
        Ok(m) if m.is_dir() => Err(Error::Program(format!(
            "{shown} is a directory, not a program"
        ))),
        Ok(m) if m.permissions().mode() & EXECUTE == 0 => Err(Error::Program(format!(
            "{shown} is not executable: chmod +x {shown}"
        ))),
        Ok(m) => Ok(m),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(Error::NoProgram(format!(
                "cannot run {shown}: {e} (a path is one of this host; a program of the \
                guest's image is given by its name)"
            )))
        }
        Err(e) => Err(Error::Program(format!("cannot run {shown}: {e}"))),
    }
}

/// Examines a file of the host.
fn kind(path: &Path) -> Result<Kind> {
    let shown = path.display();
    let mut start = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(1 << 20).read_to_end(&mut start))
        .map_err(|e| Error::Program(format!("cannot read {shown}: {e}")))?;
    let length = fs::metadata(path).map_or(start.len() as u64, |m| m.len());
    inspect(&start, length).with_context(|| {
        let own = path.file_name().filter(|_| path.is_absolute());
        let own = own.map_or_else(String::new, |name| {
            let name = name.to_string_lossy();
            format!(" (it is a file of this host; that of the guest's root file system is `{name}`, without a path)")
        });
        format!("{shown} cannot be run in the guest{own}")
    })
}

/// Whether a file is a program for Linux that needs a dynamic linker.
pub fn is_dynamic(file: &[u8]) -> bool {
    matches!(inspect(file, file.len() as u64), Ok(Kind::Dynamic(_)))
}

/// The kind of a file with this beginning and length.
fn inspect(b: &[u8], length: u64) -> Result<Kind> {
    const MACHINES: [(u16, &str); 6] = [
        (3, "x86"),
        (40, "arm"),
        (62, "x86-64"),
        (183, "aarch64"),
        (21, "ppc64"),
        (258, "loongarch"),
    ];
    const RISCV: u16 = 243;
    let no = |why: &str| Err(Error::Program(why.into()));
    const LOAD: u32 = 1;
    const INTERPRETER: u32 = 3;
    if let Some(line) = b.strip_prefix(b"#!") {
        let line = line.split(|c| *c == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        return match line.split_whitespace().next() {
            Some(i) => Ok(Kind::Script(i.into())),
            None => no("it is a script without an interpreter behind #!"),
        };
    }
    if !b.starts_with(b"\x7fELF") {
        return no("it is neither a riscv64 ELF program nor a script that starts with #!");
    }
    let half = |at: usize| Some(u16::from_le_bytes(b.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(b.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?));
    let machine =
        half(18).ok_or_else(|| Error::Program("it is an ELF file that is cut off".into()))?;
    if b.get(4..6) != Some(&[2, 1]) || machine != RISCV {
        let known = MACHINES.iter().find(|m| m.0 == machine);
        let of = match known {
            Some(m) => m.1.to_string(),
            None if machine == RISCV => "32-bit RISC-V".into(),
            None => format!("ELF machine {machine}"),
        };
        return no(&format!("it is a program for {of}, not for riscv64; compile it with riscv64-linux-gnu-gcc, for \
            instance"));
    }
    match half(16) {
        Some(2 | 3) => {}
        _ => return no("it is an ELF file, but not an executable"),
    }
    // Otherwise only the program would notice that its file is truncated.
    let mut cut = None;
    let mut headers = || -> Option<Option<String>> {
        let at = long(32)? as usize;
        let (size, count) = (half(54)? as usize, half(56)? as usize);
        for i in 0..count {
            let h = at.checked_add(i * size)?;
            let end = long(h + 8)?.saturating_add(long(h + 32)?);
            if word(h)? == LOAD && end > length {
                cut = Some(end);
            }
        }
        for i in 0..count {
            let h = at.checked_add(i * size)?;
            if word(h)? == INTERPRETER {
                let from = long(h + 8)? as usize;
                let text = b.get(from..from.checked_add(long(h + 32)? as usize)?)?;
                let text = text.split(|c| *c == 0).next().unwrap_or_default();
                return Some(Some(String::from_utf8_lossy(text).into_owned()));
            }
        }
        Some(None)
    };
    let interpreter =
        headers().ok_or_else(|| Error::Program("its program headers are cut off".into()))?;
    if let Some(end) = cut {
        return no(&format!("it is cut off: what is loaded reaches to byte {end}, and the file has {length} bytes; copy \
            it again"));
    }
    match interpreter {
        Some(i) => Ok(Kind::Dynamic(i)),
        None => Ok(Kind::Static),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u16, kind: u16, interpreter: Option<&str>) -> Vec<u8> {
        let mut b = vec![0; 64 + 56];
        b[..6].copy_from_slice(b"\x7fELF\x02\x01");
        b[16..18].copy_from_slice(&kind.to_le_bytes());
        b[18..20].copy_from_slice(&machine.to_le_bytes());
        b[32] = 64;
        b[54] = 56;
        b[56] = 1;
        b[64] = 1;
        if let Some(i) = interpreter {
            b[64] = 3;
            b[72] = 120;
            b[96] = i.len() as u8 + 1;
            b.extend(i.as_bytes());
            b.push(0);
        }
        b
    }

    fn look(b: &[u8]) -> Result<Kind> {
        inspect(b, b.len() as u64)
    }

    #[test]
    fn what_is_cut_off_is_told() {
        let mut b = elf(243, 2, None);
        // A segment of 1000 bytes from byte 64 on.
        b[72..80].copy_from_slice(&64u64.to_le_bytes());
        b[96..104].copy_from_slice(&1000u64.to_le_bytes());
        assert_eq!(inspect(&b, 1064).unwrap(), Kind::Static);
        let e = inspect(&b, 1063).unwrap_err().to_string();
        assert!(
            e.contains("reaches to byte 1064, and the file has 1063"),
            "{e}"
        );
    }

    #[test]
    fn files_are_known_by_their_first_bytes() {
        assert_eq!(look(&elf(243, 2, None)).unwrap(), Kind::Static);
        let i = "/lib/ld-linux-riscv64-lp64d.so.1";
        assert_eq!(
            look(&elf(243, 3, Some(i))).unwrap(),
            Kind::Dynamic(i.into())
        );
        let script = look(b"#! /usr/bin/python3 -u\nprint()").unwrap();
        assert_eq!(script, Kind::Script("/usr/bin/python3".into()));
    }

    #[test]
    fn what_cannot_run_is_told() {
        let text = |b: &[u8]| look(b).unwrap_err().to_string();
        assert!(text(&elf(62, 2, None)).contains("x86-64, not for riscv64"));
        assert!(text(&elf(999, 2, None)).contains("machine 999"));
        assert!(text(&elf(243, 1, None)).contains("not an executable"));
        assert!(text(b"hello").contains("neither"));
        assert!(text(b"#!\n").contains("without an interpreter"));
        assert!(text(b"\x7fELF").contains("cut off"));
        let whole = elf(243, 3, Some("/lib/ld.so"));
        for n in 0..whole.len() {
            let _ = look(&whole[..n]);
        }
    }

    #[test]
    fn names_and_paths() {
        assert_eq!(
            Executable::find("xz").unwrap(),
            Executable::Image("xz".into())
        );
        let p = Executable::find("/usr/bin/no-such-program-here").unwrap();
        assert!(p.needs_image());
        let refused = |name: &str| Executable::find(name).unwrap_err();
        assert_eq!(refused("./no-such-program-here").shell_code(), Some(127));
        assert_eq!(refused("./no/such/program").shell_code(), Some(127));
        assert_eq!(refused("/tmp").shell_code(), Some(126));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("script");
        let name = file.to_str().unwrap();
        let with_mode = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            Executable::find(name)
        };
        fs::write(&file, "#!/bin/sh\n").unwrap();
        assert!(with_mode(0o755).is_ok());
        let e = with_mode(0o644).unwrap_err();
        assert_eq!(e.shell_code(), Some(126));
        assert!(e.to_string().contains("is not executable: chmod +x"), "{e}");
        fs::write(&file, "text").unwrap();
        for mode in [0o644, 0o755] {
            let e = with_mode(mode).unwrap_err();
            assert_eq!(e.shell_code(), Some(126));
            assert!(e.chain().contains("neither"), "{}", e.chain());
        }
        assert!(Executable::find("/tmp")
            .unwrap_err()
            .to_string()
            .contains("directory"));
    }
}
