use super::*;
use proptest::prelude::*;

/// One entry of an archive.
enum E<'a> {
    Dir(&'a str),
    File(&'a str, &'a [u8]),
    Sym(&'a str, &'a str),
    Hard(&'a str, &'a str),
    Raw(EntryType, &'a str),
}

/// The name is stored unchecked: the library would refuse some names.
fn archive(entries: &[E<'_>]) -> Vec<u8> {
    let mut b = tar::Builder::new(Vec::new());
    for e in entries {
        let mut h = tar::Header::new_gnu();
        h.set_mode(0o644);
        h.set_uid(7);
        h.set_gid(8);
        h.set_mtime(1000);
        let (kind, name, target, data): (_, &str, &str, &[u8]) = match e {
            E::Dir(n) => (EntryType::Directory, n, "", &[]),
            E::File(n, d) => (EntryType::Regular, n, "", d),
            E::Sym(n, t) => (EntryType::Symlink, n, t, &[]),
            E::Hard(n, t) => (EntryType::Link, n, t, &[]),
            E::Raw(k, n) => (*k, n, "", &[]),
        };
        h.set_entry_type(kind);
        let old = h.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..target.len()].copy_from_slice(target.as_bytes());
        h.set_size(data.len() as u64);
        h.set_cksum();
        b.append(&h, data).unwrap();
    }
    b.into_inner().unwrap()
}

fn tree() -> (tempfile::TempDir, Tree) {
    let dir = tempfile::tempdir().unwrap();
    let stage = dir.path().join("stage");
    fs::create_dir(&stage).unwrap();
    let t = Tree::new(&stage);
    (dir, t)
}

fn unpack(entries: &[E<'_>]) -> Result<(Vec<String>, Tree, tempfile::TempDir), Error> {
    let (dir, mut t) = tree();
    let paths = t.unpack(archive(entries).as_slice())?;
    Ok((paths, t, dir))
}

#[test]
fn a_package() {
    let (paths, t, _dir) = unpack(&[
        E::Dir("./"),
        E::Dir("./usr/bin/"),
        E::File("./usr/bin/a", b"program"),
        E::Hard("./usr/bin/b", "./usr/bin/a"),
        E::Sym("./usr/lib/l", "../bin/a"),
    ])
    .unwrap();
    assert_eq!(
        paths,
        ["/.", "/usr/bin", "/usr/bin/a", "/usr/bin/b", "/usr/lib/l"]
    );
    assert_eq!(t.read("/usr/lib/l").unwrap(), b"program");
    let a = t.lookup("/usr/bin/a").unwrap();
    assert_eq!(t.lookup("usr/bin/b"), Some(a));
    assert_eq!((t.node(a).links, t.node(a).size()), (2, 7));
    assert_eq!(
        t.node(a).attributes,
        Attributes {
            mode: 0o644,
            uid: 7,
            gid: 8,
            mtime: 1000
        }
    );
    assert_eq!(t.names("/usr"), ["bin", "lib"]);
}

#[test]
fn links_are_followed_within_the_tree_only() {
    let (_, t, dir) = unpack(&[
        E::Sym("bin", "usr/bin"),
        E::Dir("usr/bin/"),
        E::Sym("host", "/"),
        E::Sym("up", "../../../.."),
        E::File("bin/a", b"a"),
        E::File("host/etc/b", b"b"),
        E::File("up/etc/c", b"c"),
        E::Sym("usr/abs", "/etc/b"),
        // A directory over a link to a directory: dpkg keeps the link.
        E::Dir("bin/"),
        // And a link over a directory.
        E::Sym("etc", "usr/bin"),
    ])
    .unwrap();
    assert_eq!(t.read("/usr/bin/a").unwrap(), b"a");
    assert_eq!(t.names("/etc"), ["b", "c"]);
    assert_eq!(t.read("/usr/abs").unwrap(), b"b");
    assert!(matches!(
        t.node(t.lookup_link("/bin").unwrap()).kind,
        Kind::Symlink(_)
    ));
    // Nothing on the host but numbered files in the staging directory.
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(names.len(), 1);
    for f in fs::read_dir(dir.path().join("stage")).unwrap().flatten() {
        f.file_name().to_str().unwrap().parse::<usize>().unwrap();
    }
}

#[test]
fn hostile_archives() {
    let long = "n".repeat(90) + "/x";
    for (entries, why) in [
        (vec![E::File("../x", b"")], "`..`"),
        (vec![E::File("a/../../x", b"")], "`..`"),
        (vec![E::Hard("a", "../../etc/passwd")], "`..`"),
        (
            vec![E::Hard("a", "/etc/passwd")],
            "link to what is not there",
        ),
        (
            vec![E::Dir("d/"), E::Hard("a", "d")],
            "link to what is not there",
        ),
        (
            vec![E::Sym("a", "b"), E::Sym("b", "a"), E::File("a/x", b"")],
            "form a loop",
        ),
        (
            vec![E::File("a", b""), E::File("a/x", b"")],
            "a file is in its way",
        ),
        (
            vec![E::Dir("a/"), E::File("a", b"")],
            "a directory is in its way",
        ),
        (
            vec![E::Sym("a", "none/../x"), E::File("a/y", b"")],
            "through a link to nothing",
        ),
        (vec![E::Sym("a", "")], "1 to 4095 bytes"),
        (vec![E::Sym("a", "x\ny")], "1 to 4095 bytes"),
        (vec![E::File("a\nwrite /etc/passwd b", b"")], "line ends"),
        (vec![E::File("./", b"")], "no name"),
        (vec![E::Raw(EntryType::new(b'Z'), "a")], "unknown"),
        (
            vec![E::Sym(&long, "y"), E::File("a/x", b""), E::File("a", b"")],
            "in its way",
        ),
    ] {
        match unpack(&entries) {
            Ok((paths, ..)) => panic!("{paths:?} should say {why}"),
            Err(e) => assert!(e.to_string().contains(why), "{e} should say {why}"),
        }
    }
    let (_dir, mut t) = tree();
    assert!(t
        .unpack(&b"no archive at all, but long enough"[..])
        .is_err());
    let bytes = archive(&[E::File("a", &[1; 2000])]);
    assert!(t.unpack(&bytes[..1000]).is_err());
}

#[test]
fn device_and_replaced_file() {
    let (_, t, _dir) = unpack(&[
        E::File("a", b"first"),
        E::Hard("b", "a"),
        E::File("a", b"second"),
        E::Raw(EntryType::Fifo, "p"),
    ])
    .unwrap();
    assert_eq!(t.read("a").unwrap(), b"second");
    assert_eq!(t.read("b").unwrap(), b"first");
    assert_eq!(t.node(t.lookup("b").unwrap()).links, 1);
    assert_eq!(t.node(t.lookup("p").unwrap()).kind, Kind::Fifo);
}

#[test]
fn empty_directories_can_be_removed() {
    let (_, mut t, _dir) = unpack(&[
        E::Dir("var/run/"),
        E::Dir("var/full/x"),
        E::Sym("var/link", "run"),
        E::File("var/file", b"x"),
    ])
    .unwrap();
    for path in [
        "/var/full",
        "/var/link",
        "/var/file",
        "/",
        "/none",
        "/var/run",
    ] {
        t.remove_empty(path);
    }
    assert_eq!(t.names("/var"), ["file", "full", "link"]);
}

proptest! {
    #[test]
    fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        let (_dir, mut t) = tree();
        let _ = t.unpack(bytes.as_slice());
    }

    /// Whatever the names and links: no panic, and every name leads to an existing node.
    #[test]
    fn any_names_lead_to_live_nodes(entries in prop::collection::vec((0u8..4, "[ab./]{1,6}", "[ab./]{1,6}"), 0..20)) {
        let list: Vec<E<'_>> = entries.iter().map(|(k, n, t)| match k {
            0 => E::Dir(n),
            1 => E::File(n, b"x"),
            2 => E::Sym(n, t),
            _ => E::Hard(n, t),
        }).collect();
        let (_dir, mut t) = tree();
        for e in list {
            let _ = t.unpack(archive(&[e]).as_slice());
        }
        let mut links = vec![0; t.nodes.len()];
        links[Tree::ROOT] = 1;
        for n in t.live() {
            if let Kind::Directory(e) = &n.kind {
                for &id in e.values() {
                    links[id] += 1;
                }
            }
        }
        let counted: Vec<u32> = t.nodes.iter().map(|n| n.links).collect();
        prop_assert_eq!(links, counted);
    }
}
