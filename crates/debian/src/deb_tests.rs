use super::*;
use proptest::prelude::*;
use std::fs;

/// A tar.xz file with s/README and drivers/net/ethernet/ethoc.c, whose text is `int ethoc;`.
const XZ: [u8; 180] = include!("deb_tests_xz.in");

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *bytes).unwrap();
    }
    tar.into_inner().unwrap()
}

fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(MAGIC).unwrap();
    for (name, bytes) in members {
        member(&mut file, name, &mut &bytes[..]).unwrap();
    }
    file.rewind().unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    all
}

const VERSION: (&str, &[u8]) = ("debian-binary", b"2.0\n");

fn names(deb: &[u8], part: Part) -> Result<Vec<String>, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), deb).unwrap();
    let found = files(file.path(), part, |_| true).map_err(|e| e.to_string())?;
    Ok(found.into_keys().collect())
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    e.write_all(bytes).unwrap();
    e.finish().unwrap()
}

#[test]
fn every_compression() {
    let control = tar(&[("./control", b"Package: a\n")]);
    let data = tar(&[("./usr/bin/a", b"program")]);
    let zst = zstd::encode_all(&data[..], 1).unwrap();
    let of = |name: &str, bytes: &[u8]| {
        let deb = ar(&[
            VERSION,
            ("control.tar", &control),
            ("_more", b"x"),
            (name, bytes),
        ]);
        (names(&deb, Part::Control), names(&deb, Part::Files))
    };
    for (name, bytes) in [
        ("data.tar", &data),
        ("data.tar.gz", &gz(&data)),
        ("data.tar.zst/", &zst),
    ] {
        let (inner, outer) = of(name, bytes);
        assert_eq!(inner.unwrap(), ["control"]);
        assert_eq!(outer.unwrap(), ["usr/bin/a"], "{name}");
    }
    assert!(of("data.tar.xz", &XZ)
        .1
        .unwrap()
        .iter()
        .any(|n| n.ends_with("ethoc.c")));
    let e = of("data.tar.lzma", b"x").1.unwrap_err();
    assert!(e.contains(".lzma are not known"), "{e}");
}

#[test]
fn what_is_no_package() {
    let data = tar(&[("./a", b"x")]);
    let whole = ar(&[VERSION, ("data.tar.gz", &gz(&data))]);
    let old = ar(&[("debian-binary", b"0.939000\n")]);
    let no_number = String::from_utf8_lossy(&ar(&[VERSION, ("data.tar", b"")]))
        .replace("0         `\n", "x         `\n");
    for (bytes, why) in [
        (b"PK".to_vec(), "cut off"),
        (b"PK\x03\x04 something longer".to_vec(), "no package file"),
        (MAGIC.to_vec(), "no data.tar"),
        (old, "version 2"),
        (ar(&[("data.tar", &data)]), "version 2"),
        (ar(&[VERSION]), "no data.tar"),
        (
            whole[..whole.len() - 30].to_vec(),
            "cut off within data.tar.gz",
        ),
        (whole[..90].to_vec(), "cut off"),
        (no_number.into_bytes(), "no number"),
        (
            [&whole[..72], &b"x"[..], &whole[72..]].concat(),
            "no member begins at byte 72",
        ),
    ] {
        let e = names(&bytes, Part::Files).unwrap_err();
        assert!(e.contains(why), "{e} should say {why}");
    }
}

/// An archive that ends within itself is noticed, whatever was read of it.
#[test]
fn archives_that_are_cut_off() {
    let data = tar(&[("./a", &[1; 3000])]);
    let zst = zstd::encode_all(&data[..], 1).unwrap();
    for (name, bytes) in [
        ("data.tar.gz", gz(&data)),
        ("data.tar.zst", zst),
        ("data.tar.xz", XZ.to_vec()),
    ] {
        let cut = &bytes[..bytes.len() - 5];
        let e = names(&ar(&[VERSION, (name, cut)]), Part::Files);
        assert!(e.is_err(), "{name}: {e:?}");
    }
    assert!(names(&ar(&[VERSION, ("data.tar", &data[..1000])]), Part::Files).is_err());
}

#[test]
fn a_package_written_uncompressed() {
    let data = tar(&[("./usr/a", b"abc")]);
    let control = tar(&[("./control", b"Package: a\n")]);
    let deb = ar(&[
        VERSION,
        ("control.tar.gz", &gz(&control)),
        ("data.tar.gz", &gz(&data)),
    ]);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), deb).unwrap();
    let to = tempfile::NamedTempFile::new().unwrap();
    uncompressed(file.path(), &mut to.reopen().unwrap()).unwrap();
    let expected = ar(&[VERSION, ("control.tar", &control), ("data.tar", &data)]);
    assert_eq!(fs::read(to.path()).unwrap(), expected);
}

#[test]
fn an_archive_of_members() {
    let text = String::from_utf8(ar(&[("odd", b"abc"), ("even", b"de")])).unwrap();
    let head =
        |name: &str, size| format!("{name:<16}0           0     0     100644  {size:<10}`\n");
    assert_eq!(
        text,
        format!("!<arch>\n{}abc\n{}de", head("odd", 3), head("even", 2))
    );
}

proptest! {
    #[test]
    fn any_damage_does_not_panic(at in any::<prop::sample::Index>(), change in 1u8..=255, kind in 0usize..4) {
        let data = tar(&[("./a", b"x")]);
        let zst = zstd::encode_all(&data[..], 1).unwrap();
        let archives = [
            ("data.tar", data.clone()),
            ("data.tar.gz", gz(&data)),
            ("data.tar.zst", zst),
            ("data.tar.xz", XZ.to_vec()),
        ];
        let (name, bytes) = archives[kind].clone();
        let mut deb = ar(&[VERSION, (name, &bytes)]);
        let i = at.index(deb.len());
        deb[i] ^= change;
        let _ = names(&deb, Part::Files);
    }
}
