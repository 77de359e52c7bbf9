//! What a client finds and does in a folder.

mod common;

use common::*;
use nagori_ninep::message::number::{self, open};
use nagori_ninep::wire::Text;
use nagori_ninep::{Error, Folder, FolderError, Limits, Reply, Request, Server};
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::Path;
use tempfile::tempdir;

fn raw(name: &str) -> Text<'_> {
    Text(name.as_bytes())
}

#[test]
fn reading_what_is_there() {
    let dir = tempdir().unwrap();
    let big: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    fs::write(dir.path().join("big"), &big).unwrap();
    fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
    fs::write(dir.path().join("a/b/c/leaf"), b"leaf").unwrap();
    symlink("../x", dir.path().join("a/link")).unwrap();
    let mut c = Client::of(dir.path(), false);
    assert_eq!(c.content("big").unwrap(), big);
    assert_eq!(c.content("a/b/c/leaf").unwrap(), b"leaf");
    assert_eq!(c.content("a/none"), Err(ENOENT));
    assert_eq!(c.content("big/x"), Err(ENOENT), "as far as it went");
    assert_eq!(c.names("a").unwrap(), [".", "..", "b", "link"]);

    let link = c.walk("a/link").unwrap();
    assert_eq!(c.readlink(link).unwrap(), b"../x");
    assert_eq!(c.open(link, 0), Err(ELOOP));
    let leaf = c.walk("a/b/c/leaf").unwrap();
    assert_eq!(c.attributes(leaf).unwrap().1, 4);
    assert_eq!(c.readlink(leaf), Err(EINVAL));
    assert_eq!(c.read(leaf, 0, 10), Err(EBADF), "not opened");
    c.open(leaf, 0).unwrap();
    assert_eq!(c.open(leaf, 0), Err(EINVAL), "twice");
    assert_eq!(c.read(leaf, 2, 10).unwrap(), b"af");
    assert_eq!(c.read(leaf, 4, 10).unwrap(), b"");
    assert_eq!(c.read(leaf, u64::MAX, 10), Err(EINVAL));
    assert_eq!(c.write(leaf, 0, b"x"), Err(EROFS));
    // A clone is not open; an open fid does not move.
    assert_eq!(c.walk_to(leaf, leaf, &[]), Err(EINVAL));
    c.walk_to(leaf, 77, &[]).unwrap();
    assert_eq!(c.read(77, 0, 1), Err(EBADF));
    assert_eq!(c.walk_to(leaf, 77, &[]), Err(EBADF), "in use");
    c.clunk(77).unwrap();
    assert_eq!(c.clunk(77), Err(EBADF));
    // Directories are read by Readdir only, files by Read only.
    let a = c.walk("a").unwrap();
    c.open(a, 0).unwrap();
    assert_eq!(c.read(a, 0, 10), Err(EISDIR));
    assert_eq!(c.list(leaf, 100), Err(ENOTDIR));
    assert_eq!(c.list(a, 5), Err(EINVAL), "no room for an entry");
    let files = c.call(Request::Statfs { fid: a }).unwrap();
    assert!(matches!(
        files,
        Reply::Statfs {
            kind: number::MAGIC,
            namelen: 255,
            ..
        }
    ));
}

#[test]
fn everything_belongs_to_the_guests_root_and_looks_the_same_in_a_copy() {
    let look = |order: &[&str]| {
        let dir = tempdir().unwrap();
        for name in order {
            fs::write(dir.path().join(name), name).unwrap();
        }
        let mut c = Client::of(dir.path(), false);
        let fid = c.walk("").unwrap();
        c.open(fid, 0).unwrap();
        let list = c.list(fid, 60).unwrap();
        let f = c.walk("b").unwrap();
        let Reply::Getattr {
            qid,
            uid,
            gid,
            rdev,
            atime_sec,
            mtime_sec,
            ctime_sec,
            ..
        } = c.call(Request::Getattr { fid: f, mask: 0 }).unwrap()
        else {
            panic!()
        };
        assert_eq!((uid, gid, rdev), (0, 0, 0));
        assert!(atime_sec == mtime_sec && ctime_sec == mtime_sec);
        (list, qid.path)
    };
    assert_eq!(look(&["a", "b", "c", "d"]), look(&["d", "a", "c", "b"]));
}

#[test]
fn files_with_holes_take_fewer_blocks() {
    let dir = tempdir().unwrap();
    let blocks = |c: &mut Client, name: &str| {
        let fid = c.walk(name).unwrap();
        match c.call(Request::Getattr { fid, mask: 0 }).unwrap() {
            Reply::Getattr { blocks, .. } => blocks,
            other => panic!("{other:?}"),
        }
    };
    let sparse = fs::File::create(dir.path().join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    fs::write(dir.path().join("whole"), vec![1; 10_000]).unwrap();
    fs::write(dir.path().join("short"), "x").unwrap();
    let mut c = Client::of(dir.path(), true);
    assert_eq!(blocks(&mut c, "sparse"), 0);
    // As many as the size has, whatever the host's file system rounds to.
    assert_eq!((blocks(&mut c, "whole"), blocks(&mut c, "short")), (20, 1));
    let fid = c.walk("sparse").unwrap();
    c.open(fid, 2).unwrap();
    c.write(fid, 32 << 20, &[1; 4096]).unwrap();
    assert!((8..=4096).contains(&blocks(&mut c, "sparse")));
}

#[test]
fn a_directory_of_two_thousand_entries() {
    let dir = tempdir().unwrap();
    let mut names: Vec<String> = (0..2000).map(|i| format!("file-{i}")).collect();
    for name in &names {
        fs::write(dir.path().join(name), "").unwrap();
    }
    names.sort();
    let mut c = Client::of(dir.path(), true);
    assert_eq!(c.names("").unwrap()[2..], names);
    // Numbers are those that a walk gives; entries that go meanwhile do not move the others.
    let fid = c.walk("").unwrap();
    c.open(fid, 0).unwrap();
    let list = c.list(fid, 500).unwrap();
    let one = c.walk_to(ROOT, 50_000, &[list[700].0.as_bytes()]).unwrap();
    assert_eq!(one[0].path, list[700].2.path);
    let Reply::Readdir { data } = c
        .call(Request::Readdir {
            fid,
            offset: 0,
            count: 4000,
        })
        .unwrap()
    else {
        panic!()
    };
    assert!(!data.0.is_empty());
    for name in &names[..1000] {
        let (name, flags) = (raw(name), 0);
        c.call(Request::Unlinkat {
            dirfid: ROOT,
            name,
            flags,
        })
        .unwrap();
    }
    let Reply::Readdir { data } = c
        .call(Request::Readdir {
            fid,
            offset: 1500,
            count: 60,
        })
        .unwrap()
    else {
        panic!()
    };
    assert!(data.0.ends_with(names[1498].as_bytes()));
    assert_eq!(c.names("").unwrap().len(), 1002);
}

#[test]
fn writing_creating_and_removing() {
    let dir = tempdir().unwrap();
    let at = |p: &str| dir.path().join(p);
    let mut c = Client::of(dir.path(), true);
    let f = c.create("", "new", 0o640).unwrap();
    assert_eq!(c.write(f, 0, b"hello").unwrap(), 5);
    assert_eq!(c.write(f, 100_000, b"far").unwrap(), 3);
    assert_eq!(c.read(f, 99_999, 9).unwrap(), b"\0far");
    c.call(Request::Fsync {
        fid: f,
        datasync: 0,
    })
    .unwrap();
    c.call(Request::Fsync {
        fid: f,
        datasync: 1,
    })
    .unwrap();
    c.set(f, number::SET_SIZE, 0, 5).unwrap();
    c.clunk(f).unwrap();
    assert_eq!(fs::read(at("new")).unwrap(), b"hello");
    assert_eq!(at("new").metadata().unwrap().mode() & 0o777, 0o640);

    // Not open: attributes by the fid alone.
    let f = c.walk("new").unwrap();
    c.set(f, number::SET_SIZE, 0, 2).unwrap();
    c.set(f, number::SET_MODE, 0o600, 0).unwrap();
    c.set(f, number::SET_MTIME | number::SET_MTIME_SET, 0, 1_000_000)
        .unwrap();
    let meta = at("new").metadata().unwrap();
    assert_eq!(
        (meta.len(), meta.mode() & 0o777, meta.mtime()),
        (2, 0o600, 1_000_000)
    );
    c.set(f, number::SET_UID | number::SET_GID, 0, 0).unwrap();
    assert_eq!(c.set(f, number::SET_SIZE, 0, u64::MAX), Err(EINVAL));

    let (name, mode, gid) = (raw("d"), 0o755, 0);
    c.call(Request::Mkdir {
        dfid: ROOT,
        name,
        mode,
        gid,
    })
    .unwrap();
    let d = c.walk("d").unwrap();
    assert_eq!(c.set(d, number::SET_SIZE, 0, 0), Err(EISDIR));
    c.set(d, number::SET_MODE, 0o700, 0).unwrap();
    let (target, name) = (raw("../new"), raw("sym"));
    c.call(Request::Symlink {
        fid: d,
        name,
        target,
        gid,
    })
    .unwrap();
    assert_eq!(fs::read_link(at("d/sym")).unwrap(), Path::new("../new"));
    let l = c.walk("d/sym").unwrap();
    c.set(l, number::SET_MTIME | number::SET_MTIME_SET, 0, 2_000_000)
        .unwrap();
    assert_eq!(at("d/sym").symlink_metadata().unwrap().mtime(), 2_000_000);
    assert_eq!(
        at("new").metadata().unwrap().mtime(),
        1_000_000,
        "the link's own"
    );
    assert_eq!(c.set(l, number::SET_MODE, 0o777, 0), Err(EOPNOTSUPP));
    c.call(Request::Link {
        dfid: d,
        fid: f,
        name: raw("hard"),
    })
    .unwrap();
    assert_eq!(at("new").metadata().unwrap().nlink(), 2);
    // Of a symbolic link, whether or not it leads anywhere, the link itself.
    let (target, name) = (raw("nowhere"), raw("broken"));
    c.call(Request::Symlink {
        fid: d,
        name,
        target,
        gid,
    })
    .unwrap();
    let broken = c.walk("d/broken").unwrap();
    for (fid, name, file, target) in [
        (l, "h2", "d/h2", "../new"),
        (broken, "h3", "d/h3", "nowhere"),
    ] {
        c.call(Request::Link {
            dfid: d,
            fid,
            name: raw(name),
        })
        .unwrap();
        assert_eq!(fs::read_link(at(file)).unwrap(), Path::new(target));
        assert_eq!(at(file).symlink_metadata().unwrap().nlink(), 2);
    }
    assert_eq!(at("new").metadata().unwrap().nlink(), 2);
    for name in ["d/h2", "d/h3", "d/broken"] {
        fs::remove_file(at(name)).unwrap();
    }

    let (olddirfid, newdirfid) = (ROOT, d);
    let (oldname, newname) = (raw("new"), raw("moved"));
    c.call(Request::Renameat {
        olddirfid,
        oldname,
        newdirfid,
        newname,
    })
    .unwrap();
    assert!(at("d/moved").exists() && !at("new").exists());
    // The fid went along, so it can be moved by itself.
    c.call(Request::Rename {
        fid: f,
        dfid: ROOT,
        name: raw("back"),
    })
    .unwrap();
    assert!(at("back").exists());

    let unlink = |c: &mut Client, name, flags| {
        c.call(Request::Unlinkat {
            dirfid: ROOT,
            name: raw(name),
            flags,
        })
        .map(drop)
    };
    assert_eq!(unlink(&mut c, "d", 0), Err(EISDIR));
    assert_eq!(unlink(&mut c, "d", number::REMOVE_DIR), Err(ENOTEMPTY));
    assert_eq!(unlink(&mut c, "back", number::REMOVE_DIR), Err(ENOTDIR));
    assert_eq!(unlink(&mut c, "back", 7), Err(EINVAL));
    c.call(Request::Remove { fid: f }).unwrap();
    assert_eq!(c.clunk(f), Err(EBADF), "the fid is gone with it");
    for name in ["sym", "hard"] {
        let fid = c.walk(&format!("d/{name}")).unwrap();
        c.call(Request::Remove { fid }).unwrap();
    }
    c.call(Request::Remove { fid: d }).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(c.call(Request::Remove { fid: ROOT }), Err(EBUSY));
}

#[test]
fn open_flags_do_what_they_say() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("f"), b"12345").unwrap();
    let mut c = Client::of(dir.path(), true);
    let f = c.walk("f").unwrap();
    c.open(f, open::WRITE | open::APPEND).unwrap();
    c.write(f, 0, b"67").unwrap();
    assert_eq!(c.read(f, 0, 1), Err(EBADF), "write only");
    assert_eq!(c.content("f").unwrap(), b"1234567");
    let f = c.walk("f").unwrap();
    assert_eq!(c.open(f, 3), Err(EINVAL));
    assert_eq!(c.open(f, open::DIRECTORY), Err(ENOTDIR));
    c.open(f, open::READ_WRITE | open::TRUNCATE | open::SYNC)
        .unwrap();
    assert_eq!(c.content("f").unwrap(), b"");
    // Someone else was faster: opened, unless it had to be new.
    let create = |c: &mut Client, flags| {
        let fid = c.walk("").unwrap();
        let (name, mode, gid) = (raw("f"), 0o600, 0);
        c.call(Request::Lcreate {
            fid,
            name,
            flags,
            mode,
            gid,
        })
        .map(drop)
    };
    create(&mut c, open::READ_WRITE).unwrap();
    assert_eq!(
        create(&mut c, open::READ_WRITE | open::EXCLUSIVE),
        Err(EEXIST)
    );
    let root = c.walk("").unwrap();
    assert_eq!(c.open(root, open::READ_WRITE), Err(EISDIR));
    // An open file outlives its name.
    let f = c.create("", "gone", 0o600).unwrap();
    c.write(f, 0, b"data").unwrap();
    fs::remove_file(dir.path().join("gone")).unwrap();
    assert_eq!(c.read(f, 0, 9).unwrap(), b"data");
    assert_eq!(c.attributes(f).unwrap().1, 4);
    assert_eq!(c.call(Request::Remove { fid: f }), Err(ESTALE));
}

#[test]
fn read_only_is_read_only() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("f"), b"data").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let before = fs::metadata(dir.path().join("f")).unwrap().mtime();
    let mut c = Client::of(dir.path(), false);
    let f = c.walk("f").unwrap();
    let d = c.walk("d").unwrap();
    let (n, name, gid, mode) = (raw("n"), raw("f"), 0, 0o644);
    for flags in [open::WRITE, open::READ_WRITE, open::TRUNCATE] {
        assert_eq!(c.open(f, flags), Err(EROFS));
    }
    let (oldname, newname) = (name, n);
    let requests = [
        Request::Lcreate {
            fid: d,
            name: n,
            flags: 1,
            mode,
            gid,
        },
        Request::Lcreate {
            fid: ROOT,
            name,
            flags: 0,
            mode,
            gid,
        },
        Request::Symlink {
            fid: d,
            name: n,
            target: n,
            gid,
        },
        Request::Mkdir {
            dfid: d,
            name: n,
            mode,
            gid,
        },
        Request::Mknod {
            dfid: d,
            name: n,
            mode,
            major: 1,
            minor: 3,
            gid,
        },
        Request::Link {
            dfid: d,
            fid: f,
            name: n,
        },
        Request::Rename {
            fid: f,
            dfid: d,
            name: n,
        },
        Request::Renameat {
            olddirfid: ROOT,
            oldname,
            newdirfid: d,
            newname,
        },
        Request::Unlinkat {
            dirfid: ROOT,
            name,
            flags: 0,
        },
        Request::Xattrcreate {
            fid: f,
            name: n,
            size: 1,
            flags: 0,
        },
    ];
    for request in requests {
        assert_eq!(
            c.call(request.clone()).map(|_| ()),
            Err(EROFS),
            "{request:?}"
        );
    }
    for valid in [
        number::SET_MODE,
        number::SET_SIZE,
        number::SET_MTIME,
        number::SET_UID,
    ] {
        assert_eq!(c.set(f, valid, 0o777, 0), Err(EROFS));
    }
    let gone = c.walk("f").unwrap();
    assert_eq!(c.call(Request::Remove { fid: gone }), Err(EROFS));
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"data");
    assert_eq!(fs::metadata(dir.path().join("f")).unwrap().mtime(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn what_is_refused_in_a_writable_folder() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("f"), b"data").unwrap();
    let mut c = Client::of(dir.path(), true);
    let f = c.walk("f").unwrap();
    let (name, gid) = (raw("n"), 0);
    for mode in [0o020_666, 0o060_666, 0o010_666, 0o140_666, 0o100_666] {
        let request = Request::Mknod {
            dfid: ROOT,
            name,
            mode,
            major: 1,
            minor: 3,
            gid,
        };
        assert_eq!(c.call(request), Err(EPERM));
    }
    // No set-user-ID file on the host by way of the guest's root.
    for mode in [0o4755, 0o2755, 0o6755] {
        assert_eq!(c.create("", "n", mode), Err(EPERM));
        assert_eq!(c.set(f, number::SET_MODE, mode, 0), Err(EPERM));
    }
    let owner = Request::Setattr {
        fid: f,
        valid: number::SET_UID,
        mode: 0,
        uid: 1000,
        gid: 0,
        size: 0,
        atime_sec: 0,
        atime_nsec: 0,
        mtime_sec: 0,
        mtime_nsec: 0,
    };
    assert_eq!(c.call(owner), Err(EPERM));
    // Nanoseconds that the host takes for commands (UTIME_NOW, UTIME_OMIT).
    for atime_nsec in [1_000_000_000, 0x3fff_ffff, 0x3fff_fffe, u64::MAX] {
        let times = Request::Setattr {
            fid: f,
            valid: number::SET_ATIME | number::SET_ATIME_SET,
            mode: 0,
            uid: 0,
            gid: 0,
            size: 0,
            atime_sec: 0,
            atime_nsec,
            mtime_sec: 0,
            mtime_nsec: 0,
        };
        assert_eq!(c.call(times), Err(EINVAL));
    }
    let request = Request::Xattrwalk {
        fid: f,
        newfid: 99,
        name,
    };
    assert_eq!(c.call(request), Err(EOPNOTSUPP));
    let request = Request::Xattrcreate {
        fid: f,
        name,
        size: 1,
        flags: 0,
    };
    assert_eq!(c.call(request), Err(EOPNOTSUPP));
    let request = Request::Auth {
        afid: 1,
        uname: name,
        aname: name,
        n_uname: 0,
    };
    assert_eq!(c.call(request), Err(EOPNOTSUPP));
    // Locks are granted and flushes answered.
    let lock = Request::Lock {
        fid: f,
        kind: 1,
        flags: 1,
        start: 0,
        length: 0,
        process: 5,
        client: name,
    };
    assert_eq!(c.call(lock).unwrap(), Reply::Lock { status: 0 });
    let asked = Request::Getlock {
        fid: f,
        kind: 1,
        start: 3,
        length: 4,
        process: 5,
        client: name,
    };
    let free = Reply::Getlock {
        kind: 2,
        start: 3,
        length: 4,
        process: 5,
        client: name,
    };
    assert_eq!(c.call(asked).unwrap(), free);
    assert_eq!(
        c.call(Request::Flush { oldtag: 3 }).unwrap(),
        Reply::Flush {}
    );
}

#[test]
fn sessions_and_limits() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("f"), vec![1; 100_000]).unwrap();
    let limits = Limits {
        msize: 8192,
        fids: 10,
        listings: 3000,
        numbers: 100,
    };
    let mut c = Client::bare(Server::new(limits));
    let version = |msize, version| Request::Version {
        msize,
        version: raw(version),
    };
    assert_eq!(c.attach(0), Err(EPROTO), "no session yet");
    assert_eq!(c.call(version(4095, "9P2000.L")), Err(EINVAL));
    let reply = c.call(version(1 << 20, "9P2000.u")).unwrap();
    assert_eq!(
        reply,
        Reply::Version {
            msize: 8192,
            version: raw("unknown")
        }
    );
    c.call(version(1 << 20, "9P2000.L")).unwrap();
    assert_eq!(c.attach(0), Err(ENODEV), "no folder yet");
    assert!(!c.server.connected());
    c.server
        .connect(Folder::open(dir.path(), false).unwrap())
        .unwrap();
    let again = c.server.connect(Folder::open(dir.path(), false).unwrap());
    assert!(matches!(again, Err(Error::Connected)));
    c.attach(0).unwrap();
    assert_eq!(c.attach(0), Err(EBADF), "in use");
    assert_eq!(c.attach(!0), Err(EBADF), "no fid");
    let request = Request::Attach {
        fid: 1,
        afid: !0,
        uname: raw(""),
        aname: raw("/etc"),
        n_uname: 0,
    };
    assert_eq!(c.call(request), Err(ENOENT));
    // Replies fit into the session's messages.
    c.msize = 8192;
    let f = c.walk("f").unwrap();
    c.open(f, 0).unwrap();
    assert_eq!(c.read(f, 0, u32::MAX).unwrap().len(), 8192 - 11);
    let long = vec![0; 9000];
    assert_eq!(c.write(f, 0, &long), Err(EMSGSIZE));
    for fid in 100..108 {
        c.walk_to(0, fid, &[]).unwrap();
    }
    assert_eq!(c.walk_to(0, 108, &[]), Err(ENFILE));
    c.clunk(100).unwrap();
    c.walk_to(0, 108, &[]).unwrap();
    // Listings are bounded together.
    for i in 0..30 {
        fs::write(dir.path().join(format!("{i:0>30}")), "").unwrap();
    }
    c.open(101, 0).unwrap();
    c.list(101, 1000).unwrap();
    c.open(102, 0).unwrap();
    assert_eq!(c.list(102, 1000), Err(12));
    c.clunk(101).unwrap();
    c.list(102, 1000).unwrap();
    // A new session begins with nothing.
    c.call(version(4096, "9P2000.L")).unwrap();
    assert_eq!(c.server.fids(), 0);
    assert_eq!(c.clunk(0), Err(EBADF));
    // Unknown and broken messages have an answer, if there is anybody to answer.
    let mut reply = Vec::new();
    let mut raw_call = |bytes: &[u8]| {
        c.server
            .handle(bytes, &mut reply)
            .map(|()| match Reply::decode(&reply) {
                Ok((tag, Reply::Error { code })) => (tag, code),
                other => panic!("{other:?}"),
            })
    };
    assert_eq!(raw_call(&[7, 0, 0, 0, 114, 9, 0]), Ok((9, EOPNOTSUPP)));
    assert_eq!(raw_call(&[7, 0, 0, 0, 120, 8, 0]), Ok((8, EPROTO)));
    assert!(raw_call(&[7, 0, 0, 0, 120, 8]).is_err());
    assert!(raw_call(&[]).is_err());
}

#[test]
fn only_folders_are_shared() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("f"), "").unwrap();
    let open = |p: &Path| Folder::open(p, false);
    assert!(matches!(
        open(&dir.path().join("f")),
        Err(FolderError::NotAFolder(_))
    ));
    let text = open(&dir.path().join("none")).unwrap_err().to_string();
    assert!(
        text.contains("none cannot be opened: No such file"),
        "{text}"
    );
    // The folder itself may be given by a link.
    symlink(dir.path(), dir.path().join("self")).unwrap();
    let mut c = Client::of(&dir.path().join("self"), false);
    assert_eq!(c.names("").unwrap(), [".", "..", "f", "self"]);
}

#[test]
fn restored_fids_stand_for_what_has_their_names() {
    let dir = tempdir().unwrap();
    let at = |p: &str| dir.path().join(p);
    fs::create_dir_all(at("d/e")).unwrap();
    for name in ["d/e/f", "gone", "swapped", "written"] {
        fs::write(at(name), name).unwrap();
    }
    let mut c = Client::of(dir.path(), true);
    let names = ["d/e/f", "gone", "swapped", "written", "d/e", "d/e/f"];
    let fids: Vec<u32> = names.iter().map(|n| c.walk(n).unwrap()).collect();
    c.open(fids[0], open::READ_WRITE).unwrap();
    c.open(fids[3], open::READ_WRITE | open::TRUNCATE).unwrap();
    c.write(fids[3], 0, b"kept").unwrap();
    c.open(fids[4], 0).unwrap();
    let listed = c.list(fids[4], 1000).unwrap();
    let deleted = c.create("", "deleted", 0o600).unwrap();
    fs::remove_file(at("deleted")).unwrap();
    // Moved by the host, or the guest, before the state is saved.
    fs::rename(at("d"), at("moved")).unwrap();

    let text = serde_json::to_string(&c.server.save()).unwrap();
    fs::remove_file(at("gone")).unwrap();
    fs::remove_file(at("swapped")).unwrap();
    symlink("/etc/passwd", at("swapped")).unwrap();

    let saved = serde_json::from_str(&text).unwrap();
    let mut server = Server::new(Limits::default());
    assert!(server.restore(&saved).unwrap().is_empty());
    let mut r = Client::bare(server);
    // Without a folder, everything is away; and saved again, nothing is lost.
    assert_eq!(r.attributes(fids[0]), Err(ESTALE));
    assert_eq!(serde_json::to_string(&r.server.save()).unwrap(), text);
    let lost = r
        .server
        .connect(Folder::open(dir.path(), true).unwrap())
        .unwrap();
    assert_eq!(lost, ["gone", "swapped", "(a removed file)"]);
    assert_eq!(r.read(fids[0], 0, 99).unwrap(), b"d/e/f");
    r.write(fids[0], 0, b"D").unwrap();
    assert_eq!(
        r.read(fids[3], 0, 99).unwrap(),
        b"kept",
        "not emptied again"
    );
    assert_eq!(r.list(fids[4], 1000).unwrap(), listed, "the same numbers");
    assert_eq!(r.read(fids[5], 0, 1), Err(EBADF), "was not open");
    for fid in [fids[1], fids[2], deleted] {
        assert_eq!(r.attributes(fid), Err(ESTALE));
        assert_eq!(r.open(fid, 0), Err(ESTALE));
        assert_eq!(r.walk_to(fid, 900, &[b"x"]), Err(ESTALE));
        r.clunk(fid).unwrap();
    }

    // A copy of the folder that may only be read takes over the state: what was open for writing is lost.
    let copy = tempdir().unwrap();
    fs::create_dir_all(copy.path().join("moved/e")).unwrap();
    fs::write(copy.path().join("moved/e/f"), "copy").unwrap();
    let mut server = Server::new(Limits::default());
    server
        .connect(Folder::open(copy.path(), false).unwrap())
        .unwrap();
    let lost = server.restore(&saved).unwrap();
    assert_eq!(
        lost,
        [
            "moved/e/f",
            "gone",
            "swapped",
            "written",
            "(a removed file)"
        ]
    );
    let mut r = Client::bare(server);
    r.open(fids[5], 0).unwrap();
    assert_eq!(r.read(fids[5], 0, 9).unwrap(), b"copy");
    // But for `..`, which nobody had held.
    let found = r.list(fids[4], 1000).unwrap();
    assert_eq!((&found[0], &found[2]), (&listed[0], &listed[2]));
}

#[test]
fn saved_states_that_nobody_saved_are_refused() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("f"), "").unwrap();
    let mut c = Client::of(dir.path(), true);
    c.walk("f").unwrap();
    let good = serde_json::to_value(c.server.save()).unwrap();
    let mut refuse = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut state = good.clone();
        change(&mut state);
        let saved = serde_json::from_value(state).unwrap();
        assert!(matches!(c.server.restore(&saved), Err(Error::State(_))));
    };
    refuse(&|s| s["msize"] = 100.into());
    refuse(&|s| s["msize"] = u32::MAX.into());
    refuse(&|s| s["fids"][1]["fid"] = 0.into());
    refuse(&|s| s["numbers"]["next"] = 0.into());
    // Names that lead elsewhere are not followed.
    for name in ["..", "", ".", "a/b", "/etc"] {
        let mut state = good.clone();
        state["fids"][1]["names"] = serde_json::json!([name.as_bytes()]);
        let saved = serde_json::from_value(state).unwrap();
        assert_eq!(c.server.restore(&saved).unwrap(), [name]);
        assert_eq!(c.attributes(1), Err(ESTALE));
    }
}

#[test]
fn permissions_of_the_host_hold() {
    let dir = tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, "x").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let mut c = Client::of(dir.path(), false);
    let fid = c.walk("secret").unwrap();
    // Root may read it all the same.
    let readable = fs::read(&secret).is_ok();
    assert_eq!(c.open(fid, 0).is_ok(), readable);
    if !readable {
        assert_eq!(c.open(fid, 0), Err(EACCES));
    }
}
