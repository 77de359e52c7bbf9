//! Messages to the 9P server over a small folder, beside one that must not be touched.

use nagori_ninep::message::Header;
use nagori_ninep::wire::{Names, Text};
use nagori_ninep::{Folder, Limits, Reply, Request, Server};
use std::fs;
use std::os::unix::fs::symlink;

/// So that an input does not take long.
const MESSAGES: usize = 200;
const SECRET: &[u8] = b"never to be seen";
const LIMITS: Limits = Limits {
    msize: 8192,
    fids: 40,
    listings: 4096,
    numbers: 12,
};

fn attach<'a>() -> [Request<'a>; 2] {
    let (msize, version) = (LIMITS.msize, Text(b"9P2000.L"));
    let (fid, afid, n_uname, name) = (0, !0, 0, Text(b""));
    let uname = name;
    let aname = name;
    [
        Request::Version { msize, version },
        Request::Attach {
            fid,
            afid,
            uname,
            aname,
            n_uname,
        },
    ]
}

/// The first byte: bit 0 writable, bit 1 no session is begun, bit 2 the server is saved and
/// restored behind every message, bit 3 sizes in headers are left as they are.
pub fn ninep(data: &[u8]) {
    let Some((&flags, mut rest)) = data.split_first() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a place for files");
    let at = |p: &str| dir.path().join(p);
    fs::create_dir_all(at("in/d/e")).expect("folders");
    fs::create_dir_all(at("out")).expect("a folder");
    for (name, content) in [
        ("in/f", b"12345".as_slice()),
        ("in/d/g", b""),
        ("out/s", SECRET),
    ] {
        fs::write(at(name), content).expect("a file");
    }
    symlink("../out", at("in/l")).expect("a link");
    symlink("../out/s", at("in/m")).expect("a link");

    let open = || Folder::open(&at("in"), flags & 1 != 0).expect("a folder");
    let mut server = Server::new(LIMITS);
    server.connect(open()).expect("not connected");
    let mut reply = Vec::new();
    let mut message = Vec::new();
    if flags & 2 == 0 {
        for request in attach() {
            request.encode(1, &mut message);
            server
                .handle(&message, &mut reply)
                .expect("a whole message");
        }
    }
    for _ in 0..MESSAGES {
        let Some((len, tail)) = rest.split_first_chunk() else {
            break;
        };
        let len = usize::from(u16::from_le_bytes(*len)).min(tail.len());
        let (body, tail) = tail.split_at(len);
        rest = tail;
        message.clear();
        message.extend_from_slice(body);
        if let (true, Some(size)) = (flags & 8 == 0, message.first_chunk_mut()) {
            *size = (len as u32).to_le_bytes();
        }
        let Ok(header) = Header::of(&message) else {
            assert!(server.handle(&message, &mut reply).is_err());
            continue;
        };
        if let Ok((tag, request)) = Request::decode(&message) {
            let mut again = Vec::new();
            request.encode(tag, &mut again);
            assert_eq!(again, message);
        }
        server.handle(&message, &mut reply).expect("it has a tag");
        let (tag, _) = Reply::decode(&reply).expect("a whole reply");
        assert_eq!(tag, header.tag);
        assert!(reply.len() <= server.msize() as usize && server.fids() <= LIMITS.fids);
        assert!(!reply.windows(SECRET.len()).any(|w| w == SECRET));
        if flags & 4 != 0 {
            let saved = server.save();
            let text = serde_json::to_string(&saved).expect("plain data");
            let read = serde_json::from_str(&text).expect("what was written");
            assert_eq!(saved, read);
            let mut other = Server::new(LIMITS);
            other.restore(&read).expect("what was saved");
            assert_eq!(other.save(), saved, "without a folder, nothing is lost");
            other.connect(open()).expect("not connected");
            assert_eq!(other.fids(), server.fids());
            server = other;
        }
    }
    let out: Vec<_> = fs::read_dir(at("out")).expect("a folder").collect();
    assert_eq!(out.len(), 1, "something was made outside");
    assert_eq!(fs::read(at("out/s")).expect("the file"), SECRET);
    let top: Vec<_> = fs::read_dir(dir.path()).expect("a folder").collect();
    assert_eq!(top.len(), 2, "something was made beside the folder");
    if flags & 1 == 0 {
        assert_eq!(fs::read(at("in/f")).expect("the file"), b"12345");
    }
}

fn input(flags: u8, requests: &[Request<'_>]) -> Vec<u8> {
    let mut out = vec![flags];
    let mut message = Vec::new();
    for request in requests {
        request.encode(2, &mut message);
        out.extend((message.len() as u16).to_le_bytes());
        out.extend_from_slice(&message);
    }
    out
}

/// Sessions that work, with names that lead out.
pub fn seeds() -> Vec<Vec<u8>> {
    let walk = |newfid, names: &[&'static str]| Request::Walk {
        fid: 0,
        newfid,
        names: Names(names.iter().map(|n| Text(n.as_bytes())).collect()),
    };
    let (name, target, gid, mode) = (Text(b"n"), Text(b"../out"), 0, 0o644);
    let data = nagori_ninep::wire::Bytes(b"data");
    let read = [
        walk(1, &["f"]),
        Request::Lopen { fid: 1, flags: 0 },
        Request::Read {
            fid: 1,
            offset: 1,
            count: 4096,
        },
        walk(2, &["d", "e", "..", "..", "..", "out", "s"]),
        walk(3, &["m"]),
        Request::Readlink { fid: 3 },
        Request::Lopen { fid: 3, flags: 0 },
        Request::Getattr { fid: 3, mask: !0 },
        walk(4, &["l", "s"]),
        walk(5, &[]),
        Request::Lopen {
            fid: 5,
            flags: 0o200_000,
        },
        Request::Readdir {
            fid: 5,
            offset: 0,
            count: 90,
        },
        Request::Readdir {
            fid: 5,
            offset: 3,
            count: 4000,
        },
        Request::Statfs { fid: 5 },
        Request::Clunk { fid: 1 },
    ];
    let write = [
        walk(1, &["d"]),
        Request::Lcreate {
            fid: 1,
            name,
            flags: 2,
            mode,
            gid,
        },
        Request::Write {
            fid: 1,
            offset: 5,
            data,
        },
        Request::Fsync {
            fid: 1,
            datasync: 1,
        },
        Request::Mkdir {
            dfid: 0,
            name,
            mode,
            gid,
        },
        walk(2, &["n"]),
        Request::Symlink {
            fid: 2,
            name,
            target,
            gid,
        },
        Request::Rename {
            fid: 1,
            dfid: 2,
            name: Text(b"o"),
        },
        Request::Renameat {
            olddirfid: 0,
            oldname: name,
            newdirfid: 0,
            newname: Text(b"l"),
        },
        Request::Link {
            dfid: 2,
            fid: 1,
            name: Text(b"p"),
        },
        Request::Setattr {
            fid: 1,
            valid: 0x1ff,
            mode,
            uid: 0,
            gid,
            size: 1 << 30,
            atime_sec: 1,
            atime_nsec: 2,
            mtime_sec: 3,
            mtime_nsec: 4,
        },
        Request::Unlinkat {
            dirfid: 0,
            name: Text(b"f"),
            flags: 0,
        },
        Request::Remove { fid: 2 },
        Request::Mknod {
            dfid: 0,
            name,
            mode: 0o020_644,
            major: 1,
            minor: 3,
            gid,
        },
        Request::Lock {
            fid: 1,
            kind: 1,
            flags: 0,
            start: 0,
            length: 0,
            process: 1,
            client: name,
        },
        Request::Xattrwalk {
            fid: 1,
            newfid: 9,
            name,
        },
    ];
    let all = [attach().as_slice(), &write, &read].concat();
    vec![
        input(0, &read),
        input(1, &write),
        input(5, &write),
        input(2, &all),
        input(3, &all),
        input(9, &all),
        vec![3, 7, 0, 7, 0, 0, 0, 99, 1, 1],
    ]
}
