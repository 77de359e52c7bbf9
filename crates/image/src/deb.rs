//! Reads files out of a .deb, without unpacking it to the file system.

use crate::error::IoContext;
use crate::tool::DPKG_DEB;
use crate::Error;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Stdio;

/// One of the two archives in a package file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// What is installed.
    Files,
    /// Description and maintainer scripts.
    Control,
}

/// The regular files of package file `deb` whose paths (without a leading `./`) `wanted` selects.
pub(crate) fn files(
    deb: &Path,
    part: Part,
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    read(deb, part, |tar| pick(tar, wanted).context("read", deb))
}

/// Passes an archive of package file `deb`, uncompressed, to `reader`, which reads all of it.
pub(crate) fn read<T>(
    deb: &Path,
    part: Part,
    reader: impl FnOnce(&mut dyn Read) -> Result<T, Error>,
) -> Result<T, Error> {
    let option = match part {
        Part::Files => "--fsys-tarfile",
        Part::Control => "--ctrl-tarfile",
    };
    let mut child = DPKG_DEB
        .command()
        .arg(option)
        .arg(deb)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| DPKG_DEB.spawn_error(e))?;
    let mut stdout = child.stdout.take().expect("stdout is piped");
    let result = reader(&mut stdout);
    drop(stdout);
    let out = child.wait_with_output().context("read", deb)?;
    // The reader's error goes first: it made dpkg-deb die of a closed pipe.
    let result = result?;
    if !out.status.success() {
        return Err(Error::Command {
            what: format!("unpack {}", deb.display()),
            command: DPKG_DEB.name.into(),
            status: out.status.to_string(),
            output: String::from_utf8_lossy(&out.stderr).trim().to_string(),
        });
    }
    Ok(result)
}

/// Writes package file `deb` to `to` with uncompressed archives.
pub(crate) fn uncompressed(deb: &Path, to: &Path) -> Result<(), Error> {
    let mut out = File::create(to).context("create", to)?;
    out.write_all(b"!<arch>\n").context("write", to)?;
    let version = b"2.0\n";
    member(&mut out, "debian-binary", &mut &version[..]).context("write", to)?;
    for (name, part) in [("control.tar", Part::Control), ("data.tar", Part::Files)] {
        read(deb, part, |tar| {
            member(&mut out, name, tar).context("write", to)
        })?;
    }
    Ok(())
}

/// Appends a member to an ar archive.
fn member(out: &mut File, name: &str, content: &mut dyn Read) -> std::io::Result<()> {
    let head = |size: u64| {
        format!(
            "{name:<16}{0:<12}{0:<6}{0:<6}{1:<8}{size:<10}`\n",
            0, 100_644
        )
    };
    let at = out.stream_position()?;
    out.write_all(head(0).as_bytes())?;
    let size = std::io::copy(content, out)?;
    if size % 2 == 1 {
        out.write_all(b"\n")?;
    }
    out.seek(SeekFrom::Start(at))?;
    out.write_all(head(size).as_bytes())?;
    out.seek(SeekFrom::End(0)).map(drop)
}

fn pick(
    tar: impl Read,
    wanted: impl Fn(&str) -> bool,
) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let path = path.strip_prefix("./").unwrap_or(&path);
        if wanted(path) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            found.insert(path.to_string(), bytes);
        }
    }
    // Read to the end, so that dpkg-deb does not die of a closed pipe.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink())?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_archive_of_members() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut out = file.reopen().unwrap();
        member(&mut out, "odd", &mut &b"abc"[..]).unwrap();
        member(&mut out, "even", &mut &b"de"[..]).unwrap();
        let text = String::from_utf8(fs::read(file.path()).unwrap()).unwrap();
        let head =
            |name: &str, size| format!("{name:<16}0           0     0     100644  {size:<10}`\n");
        assert_eq!(text, head("odd", 3) + "abc\n" + &head("even", 2) + "de");
    }
}
