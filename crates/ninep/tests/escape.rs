//! Attempts to leave the folder, alone and while someone on the host moves things.

mod common;

use common::*;
use nagori_ninep::message::number::open;
use nagori_ninep::wire::Text;
use nagori_ninep::Request;
use rustix::fs::{renameat_with, RenameFlags, CWD};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::{tempdir, TempDir};

const SECRET: &[u8] = b"outside";

/// A folder `in` beside a folder `out`, and links from one to the other.
fn world() -> TempDir {
    let dir = tempdir().unwrap();
    let at = |p: &str| dir.path().join(p);
    fs::create_dir_all(at("in/sub")).unwrap();
    fs::create_dir_all(at("out/sub")).unwrap();
    fs::write(at("out/secret"), SECRET).unwrap();
    fs::write(at("out/sub/secret"), SECRET).unwrap();
    fs::write(at("in/sub/inner"), b"inside").unwrap();
    symlink("/etc/passwd", at("in/passwd")).unwrap();
    symlink("../out", at("in/rel")).unwrap();
    symlink(at("out"), at("in/abs")).unwrap();
    symlink("../../out/secret", at("in/sub/file")).unwrap();
    symlink("/proc/self/root", at("in/proc")).unwrap();
    symlink("..", at("in/up")).unwrap();
    dir
}

#[test]
fn links_are_shown_and_never_followed() {
    let dir = world();
    for writable in [false, true] {
        let mut c = Client::of(&dir.path().join("in"), writable);
        for link in ["passwd", "rel", "abs", "sub/file", "proc", "up"] {
            let fid = c.walk(link).unwrap();
            assert_eq!(c.attributes(fid).unwrap().0 & 0o170_000, 0o120_000);
            for flags in [0, open::DIRECTORY] {
                assert!(c.open(fid, flags).is_err(), "{link}");
            }
            assert_eq!(c.walk_to(fid, 900, &[b"secret"]), Err(ENOTDIR), "{link}");
            assert_eq!(c.walk(&format!("{link}/secret")), Err(ENOENT));
        }
        let fid = c.walk("passwd").unwrap();
        assert_eq!(c.readlink(fid).unwrap(), b"/etc/passwd");
    }
    // Nothing is created, changed or removed through them.
    let mut c = Client::of(&dir.path().join("in"), true);
    let before = fs::metadata("/etc/passwd").unwrap();
    let fid = c.walk("passwd").unwrap();
    assert!(c.set(fid, 1, 0o777, 0).is_err());
    assert!(c.set(fid, 8, 0, 0).is_err());
    let rel = c.walk("rel").unwrap();
    let (name, mode, gid, flags) = (Text(b"new"), 0o755, 0, 1);
    let file = Text(b"secret");
    let requests = [
        Request::Mkdir {
            dfid: rel,
            name,
            mode,
            gid,
        },
        Request::Lcreate {
            fid: rel,
            name,
            flags,
            mode,
            gid,
        },
        Request::Symlink {
            fid: rel,
            name,
            target: name,
            gid,
        },
        Request::Unlinkat {
            dirfid: rel,
            name: file,
            flags: 0,
        },
        Request::Renameat {
            olddirfid: rel,
            oldname: file,
            newdirfid: ROOT,
            newname: name,
        },
        Request::Renameat {
            olddirfid: ROOT,
            oldname: Text(b"up"),
            newdirfid: rel,
            newname: name,
        },
        Request::Link {
            dfid: rel,
            fid,
            name,
        },
    ];
    for request in requests {
        assert_eq!(
            c.call(request.clone()).map(drop),
            Err(ENOTDIR),
            "{request:?}"
        );
    }
    // A file in place of a link: the link is what is opened, and that is refused.
    let fid = c.walk("sub").unwrap();
    let name = Text(b"file");
    let request = Request::Lcreate {
        fid,
        name,
        flags: 2 | open::TRUNCATE,
        mode,
        gid,
    };
    assert_eq!(c.call(request), Err(ELOOP));
    assert_eq!(fs::read(dir.path().join("out/secret")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(dir.path().join("out")).unwrap().count(), 2);
    assert_eq!(fs::metadata("/etc/passwd").unwrap().len(), before.len());
}

#[test]
fn names_are_names() {
    let dir = world();
    let mut c = Client::of(&dir.path().join("in"), true);
    // `..` stays within; at the root, it is the root.
    let root = c.walk_to(ROOT, 800, &[b".."]).unwrap()[0];
    let down = c
        .walk_to(ROOT, 801, &[b"sub", b"..", b"..", b".."])
        .unwrap();
    assert_eq!(down.len(), 4);
    assert_eq!(down[1..], [root; 3]);
    assert_eq!(
        c.walk_to(ROOT, 802, &[b"..", b"out", b"secret"])
            .unwrap()
            .len(),
        1
    );
    assert_eq!(c.attributes(802), Err(EBADF), "not all of it was there");
    // Of a link, there is no `..`.
    assert_eq!(c.walk_to(ROOT, 803, &[b"rel", b".."]).unwrap().len(), 1);

    let long = [b'a'; 256];
    let bad: &[(&[u8], u32)] = &[
        (b"", EINVAL),
        (b".", EINVAL),
        (b"/", EINVAL),
        (b"../out", EINVAL),
        (b"sub/inner", EINVAL),
        (b"/etc/passwd", EINVAL),
        (b"sub\0", EINVAL),
        (b"\0", EINVAL),
        (&long, 36),
    ];
    for &(name, errno) in bad {
        assert_eq!(c.walk_to(ROOT, 900, &[name]), Err(errno), "{name:?}");
        let bad = Text(name);
        let (good, mode, gid, flags) = (Text(b"good"), 0o755, 0, 1);
        let fid = c.walk("sub/inner").unwrap();
        let requests = [
            Request::Mkdir {
                dfid: ROOT,
                name: bad,
                mode,
                gid,
            },
            Request::Lcreate {
                fid: ROOT,
                name: bad,
                flags,
                mode,
                gid,
            },
            Request::Symlink {
                fid: ROOT,
                name: bad,
                target: good,
                gid,
            },
            Request::Unlinkat {
                dirfid: ROOT,
                name: bad,
                flags: 0,
            },
            Request::Unlinkat {
                dirfid: ROOT,
                name: bad,
                flags: 0x200,
            },
            Request::Renameat {
                olddirfid: ROOT,
                oldname: bad,
                newdirfid: ROOT,
                newname: good,
            },
            Request::Renameat {
                olddirfid: ROOT,
                oldname: Text(b"up"),
                newdirfid: ROOT,
                newname: bad,
            },
            Request::Rename {
                fid,
                dfid: ROOT,
                name: bad,
            },
            Request::Link {
                dfid: ROOT,
                fid,
                name: bad,
            },
        ];
        for request in requests {
            assert_eq!(c.call(request.clone()).map(drop), Err(errno), "{request:?}");
        }
    }
    // `..` as a name of something to be made or removed.
    let (name, mode, gid) = (Text(b".."), 0o755, 0);
    for request in [
        Request::Mkdir {
            dfid: ROOT,
            name,
            mode,
            gid,
        },
        Request::Unlinkat {
            dirfid: ROOT,
            name,
            flags: 0x200,
        },
        Request::Lcreate {
            fid: ROOT,
            name,
            flags: 0,
            mode,
            gid,
        },
    ] {
        assert_eq!(c.call(request).map(drop), Err(EINVAL));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn special_files_are_seen_but_not_opened() {
    let dir = world();
    let _socket = UnixListener::bind(dir.path().join("in/socket")).unwrap();
    let mut special = vec!["socket"];
    let fifo = dir.path().join("in/fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if made.is_ok_and(|s| s.success()) {
        special.push("fifo");
    }
    let mut c = Client::of(&dir.path().join("in"), true);
    for name in special {
        let fid = c.walk(name).unwrap();
        let kind = c.attributes(fid).unwrap().0 & 0o170_000;
        assert!([0o140_000, 0o010_000].contains(&kind));
        // A pipe would block for ever.
        for flags in [0, 1, 2, open::TRUNCATE] {
            assert_eq!(c.open(fid, flags), Err(EACCES), "{name}");
        }
        assert_eq!(c.set(fid, 8, 0, 0), Err(EINVAL));
        assert_eq!(c.set(fid, 1, 0o777, 0), Err(EPERM));
        assert_eq!(c.create("", name, 0o600), Err(EACCES));
        let request = Request::Link {
            dfid: ROOT,
            fid,
            name: Text(b"x"),
        };
        assert_eq!(c.call(request), Err(EPERM));
    }
    // Devices of the host, without making any.
    let mut dev = Client::of(Path::new("/dev"), true);
    let null = dev.walk("null").unwrap();
    assert_eq!(dev.open(null, 0), Err(EACCES));
}

#[test]
fn a_directory_that_was_moved_out_is_not_used_any_more() {
    let dir = world();
    let mut c = Client::of(&dir.path().join("in"), true);
    let sub = c.walk("sub").unwrap();
    let inner = c.walk("sub/inner").unwrap();
    let opened = c.walk("sub").unwrap();
    c.open(opened, 0).unwrap();
    fs::rename(dir.path().join("in/sub"), dir.path().join("out/moved")).unwrap();
    fs::write(dir.path().join("out/moved/later"), SECRET).unwrap();
    assert_eq!(c.walk_to(sub, 900, &[b"later"]), Err(ESTALE));
    assert_eq!(c.walk_to(sub, 900, &[b".."]), Err(ESTALE));
    assert_eq!(c.open(sub, 0), Err(ESTALE));
    assert_eq!(c.open(inner, 0), Err(ESTALE));
    assert_eq!(c.list(opened, 1000), Err(ESTALE));
    assert_eq!(c.set(inner, 8, 0, 0), Err(ESTALE));
    let (name, mode, gid) = (Text(b"x"), 0o755, 0);
    assert_eq!(
        c.call(Request::Mkdir {
            dfid: sub,
            name,
            mode,
            gid
        }),
        Err(ESTALE)
    );
    let root = c.walk("").unwrap();
    assert_eq!(
        c.call(Request::Link {
            dfid: root,
            fid: inner,
            name
        }),
        Err(ESTALE)
    );
    // Names that begin alike are not within.
    fs::create_dir(dir.path().join("in-too")).unwrap();
    fs::rename(dir.path().join("out/moved"), dir.path().join("in-too/sub")).unwrap();
    assert_eq!(c.walk_to(sub, 900, &[b"later"]), Err(ESTALE));
    fs::rename(dir.path().join("in-too/sub"), dir.path().join("in/again")).unwrap();
    c.walk_to(sub, 900, &[b"later"]).unwrap();
}

/// Someone on the host exchanges a directory for a link to the outside, as fast as possible, while
/// the client reads, writes and creates in every possible way.
#[test]
fn races_with_links_lead_nowhere() {
    let dir = world();
    let at = |p: &str| dir.path().join(p);
    fs::create_dir_all(at("in/trap/sub")).unwrap();
    fs::write(at("in/trap/secret"), b"bait").unwrap();
    fs::write(at("in/trap/sub/secret"), b"bait").unwrap();
    symlink(at("out"), at("in/other")).unwrap();
    fs::write(at("in/file"), b"bait").unwrap();
    symlink(at("out/secret"), at("in/filelink")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut read, mut refused) = (0, 0);
    std::thread::scope(|s| {
        s.spawn(|| {
            let swap = |a: &str, b: &str| {
                renameat_with(CWD, at(a), CWD, at(b), RenameFlags::EXCHANGE).unwrap();
            };
            while !stop.load(Ordering::Relaxed) {
                swap("in/trap", "in/other");
                swap("in/file", "in/filelink");
            }
        });
        let mut c = Client::of(&at("in"), true);
        for i in 0..3000u32 {
            for path in [
                "trap/secret",
                "trap/sub/secret",
                "file",
                "trap/sub/../secret",
            ] {
                match c.content(path) {
                    Ok(content) => {
                        assert_eq!(content, b"bait", "{path}");
                        read += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
            // Writing: over what is there, and new.
            if let Ok(fid) = c.create("trap", "secret", 0o600) {
                assert_eq!(c.read(fid, 0, 100).unwrap(), b"bait");
            }
            let _ = c
                .create("", "file", 0o600)
                .map(|fid| c.write(fid, 0, b"bait"));
            let _ = c.create("trap", &format!("new-{i}"), 0o600);
            // No more fids than these requests need.
            c.mount(64 << 10);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(
        read > 0 && refused > 0,
        "{read} read, {refused} refused: no race"
    );
    assert_eq!(fs::read(at("out/secret")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(at("out")).unwrap().count(), 2);
}

/// Directories are moved out and back while the client descends and ascends.
#[test]
fn races_with_moved_directories_end_within() {
    let dir = world();
    let at = |p: &str| dir.path().join(p);
    fs::create_dir_all(at("in/a/b/c")).unwrap();
    fs::write(at("in/a/b/c/leaf"), b"inside").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(at("in/a/b"), at("out/b")).unwrap();
                fs::rename(at("out/b"), at("in/a/b")).unwrap();
            }
        });
        let mut c = Client::of(&at("in"), false);
        for _ in 0..5000 {
            // If `..` were passed to the host, this could end in `out`.
            for path in [
                "a/b/c/../../secret",
                "a/b/../secret",
                "a/b/../sub/secret",
                "a/b/c/../../../out/secret",
            ] {
                if let Ok(content) = c.content(path) {
                    panic!("{path}: {content:?}");
                }
            }
            if let Ok(content) = c.content("a/b/c/leaf") {
                assert_eq!(content, b"inside");
            }
            c.mount(64 << 10);
        }
        stop.store(true, Ordering::Relaxed);
    });
}
