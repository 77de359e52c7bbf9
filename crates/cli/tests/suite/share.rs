//! Folders of the host in Debian, as a user shares them.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::*;
use crate::common::*;
use nagori_image::{rootfs, Base, RootfsSpec};
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::Path;
use std::process::Command;
use tempfile::tempdir;

/// Bytes that follow from a seed.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut x = seed | 1;
    let step = |_| {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    (0..len).map(step).collect()
}

fn sum(path: &Path) -> String {
    let out = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(out.stdout).unwrap()[..64].into()
}

fn same_folders(a: &Path, b: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(a).unwrap() {
        let name = entry.unwrap().file_name();
        let both = [a, b].map(|dir| fs::read(dir.join(&name)).unwrap());
        assert!(both[0] == both[1], "{name:?}");
        count += 1;
    }
    assert_eq!(fs::read_dir(b).unwrap().count(), count);
    count
}

#[test]
fn files_go_both_ways_and_nothing_else_does() {
    if image().is_none() {
        return;
    }
    let dir = tempdir().unwrap();
    let at = |p: &str| dir.path().join(p);
    for d in ["in/many", "in/list", "out", "outside"] {
        fs::create_dir_all(at(d)).unwrap();
    }
    // Not a multiple of a page or a message.
    fs::write(at("in/big"), noise(1, 9_000_001)).unwrap();
    for i in 0..400 {
        fs::write(at(&format!("in/many/f{i}")), noise(i, 37 * i as usize)).unwrap();
    }
    for i in 0..2000 {
        fs::write(at(&format!("in/list/entry-{i}")), "").unwrap();
    }
    fs::write(at("outside/secret"), "secret of the host").unwrap();
    fs::write(at("mark"), "mark of the host").unwrap();
    symlink("/etc/passwd", at("in/passwd")).unwrap();
    symlink("../outside", at("in/rel")).unwrap();
    symlink(at("mark"), at("in/abs")).unwrap();
    symlink("../outside/secret", at("out/rel")).unwrap();

    let script = r#"
cd /mnt/in
echo "options=$(grep -c ' /mnt/in 9p ' /proc/mounts)"
echo "big=$(sha256sum big | cut -d' ' -f1)"
echo "list=$(ls list | wc -l)"
echo "first=$(find list | sed -n 2p)"
echo "owner=$(stat -c %u:%g big)"
cp big many/f399 /mnt/out
cp -r many /mnt/out/many
sync
seq 1 200000 >/mnt/out/made
echo "made=$(sha256sum /mnt/out/made | cut -d' ' -f1)"
echo "ro1=$(touch new 2>&1)"
echo "ro2=$(sh -c 'echo x >>big' 2>&1)"
echo "ro3=$(rm -f many/f1 2>&1)"
echo "ro4=$(mkdir d 2>&1)"
echo "ro5=$(mv big small 2>&1)"
echo "target=$(readlink passwd)"
cmp -s passwd /etc/passwd; echo "own=$?"
cat rel/secret abs ../outside/secret /mnt/out/rel 2>/dev/null
echo "leak=$?"
cd /mnt/out
mkdir -p a/b && echo one >a/b/one && mv a/b/one a/two && ln -s two a/link && ln a/two a/three
cat a/link
chmod 600 a/two; touch -d '2001-02-03 04:05:06' a/two; truncate -s 3 a/three
rmdir a/b; rm a/link
mknod null c 1 3 2>/dev/null; echo "mknod=$?"
chmod u+s a/two 2>/dev/null; echo "setuid=$?"
cp /bin/busybox . && ./busybox echo "runs=$((6 * 7))"
exec 5>gone; echo first >&5; rm gone; echo second >&5; exec 5>&-
cd /; umount /mnt/out; mount -t 9p -o trans=virtio,version=9p2000.L out /mnt/out && echo "again=$(cat /mnt/out/a/two)"
"#;
    let (a, b) = (at("in"), at("out"));
    let (a, b) = (
        format!("{}:in", a.display()),
        format!("{}:out,rw", b.display()),
    );
    let idle = r#"devices=["share:idle"]"#;
    let lines = boot(&["--set", idle, "--share", &a, "--share", &b], script, 0);
    let has = |l: &str| assert!(lines.iter().any(|x| x == l), "no `{l}` in {lines:#?}");
    // What the machine has is not always connected: the next free one is taken.
    has("nagori: share in at /mnt/in");
    has("nagori: share out at /mnt/out");
    has("nagori: share idle is not connected");
    assert_eq!(value(&lines, "options"), "1");
    assert_eq!(value(&lines, "big"), sum(&at("in/big")));
    assert_eq!(value(&lines, "list"), "2000");
    assert_eq!(
        value(&lines, "first"),
        "list/entry-0",
        "in the order of names"
    );
    assert_eq!(value(&lines, "owner"), "0:0");
    assert_eq!(
        fs::read(at("in/big")).unwrap(),
        fs::read(at("out/big")).unwrap()
    );
    assert_eq!(same_folders(&at("in/many"), &at("out/many")), 400);
    assert_eq!(value(&lines, "made"), sum(&at("out/made")));
    let made: String = (1..=200_000).map(|i| format!("{i}\n")).collect();
    assert!(fs::read_to_string(at("out/made")).unwrap() == made);
    for name in ["ro1", "ro2", "ro3", "ro4", "ro5"] {
        let text = value(&lines, name);
        assert!(text.contains("Read-only file system"), "{name}: {text}");
    }
    assert_eq!(value(&lines, "target"), "/etc/passwd");
    assert_eq!(
        value(&lines, "own"),
        "0",
        "the link leads to the guest's own file"
    );
    assert_eq!(value(&lines, "leak"), "1");
    assert!(!lines.iter().any(|l| l.contains("of the host")));
    has("one");
    let meta = at("out/a/two").metadata().unwrap();
    assert_eq!(
        (meta.len(), meta.mode() & 0o7777, meta.nlink()),
        (3, 0o600, 2)
    );
    assert_eq!(fs::read_dir(at("out/a")).unwrap().count(), 2);
    assert_eq!(value(&lines, "mknod"), "1");
    assert_eq!(value(&lines, "setuid"), "1");
    assert_eq!(value(&lines, "runs"), "42");
    assert!(!at("out/gone").exists() && !at("out/null").exists());
    assert_eq!(value(&lines, "again"), "one");
    assert_eq!(
        fs::read(at("outside/secret")).unwrap(),
        b"secret of the host"
    );
    assert_eq!(fs::read_dir(at("in")).unwrap().count(), 6);
}

/// What is written through a mapping, and what SQLite's journal keeps in one, reaches the host.
#[test]
fn programs_write_files_through_shared_mappings() {
    if image().is_none() || !tool("riscv64-linux-gnu-gcc") {
        return;
    }
    let dir = tempdir().unwrap();
    let status = Command::new("riscv64-linux-gnu-gcc")
        .args(["-O2", "-static", "-Wall", "-Werror", "-o"])
        .arg(dir.path().join("mapped"))
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/programs/mapped.c"
        ))
        .status();
    assert!(status.unwrap().success());
    let share = format!("{}:out,rw", dir.path().display());
    let script = "cd /mnt/out; ./mapped file; cp file again; truncate -s 64M holes; \
        echo blocks=$(stat -c %b holes); ln -s nowhere a; ln a b; echo link=$(readlink b) $(stat -c %h a)";
    let lines = boot(&["--share", &share], script, 0);
    assert!(
        lines.iter().any(|l| l == "mapped parent child"),
        "{lines:#?}"
    );
    assert_eq!(value(&lines, "blocks"), "0");
    assert_eq!(value(&lines, "link"), "nowhere 2");
    let mut want = vec![0; 3 * 4096 + 100];
    want[..6].copy_from_slice(b"parent");
    want[2 * 4096..][..5].copy_from_slice(b"child");
    want[3 * 4096 + 92..][..4].copy_from_slice(b"late");
    for name in ["file", "again"] {
        assert!(fs::read(dir.path().join(name)).unwrap() == want, "{name}");
    }
}

#[test]
fn sqlite_has_its_write_ahead_log_on_a_share() {
    let spec = RootfsSpec::new(Base::Run);
    if made(rootfs(&options(), &spec, None, &mut |p| eprintln!("{p}"))).is_none() {
        return;
    }
    let dir = tempdir().unwrap();
    let share = format!("{},rw", dir.path().display());
    let run = |program: &[&str]| {
        let out = nagori()
            .timeout(PATIENCE)
            .args(["--quiet", "run", "--functional", "--share", &share, "--"])
            .args(program)
            .assert()
            .success();
        String::from_utf8_lossy(&out.get_output().stdout).into_owned()
    };
    let begin = "pragma journal_mode=wal; create table t(a); insert into t values (0); select count(*) from t;";
    assert_eq!(run(&["sqlite3", "app.db", begin]), "wal\n1\n");
    // Two processes at once, which find one another's pages by the index in shared memory.
    let insert = "for n in 1 2 3 4 5; do sqlite3 -cmd '.timeout 20000' app.db \"insert into t values ($n)\"; done";
    let both =
        format!("( {insert} ) & {insert}; wait; sqlite3 app.db 'select count(*), sum(a) from t'");
    assert_eq!(run(&["sh", "-c", &both]), "11|30\n");
    // The next machine reads what the host has got.
    let check = "pragma integrity_check; select count(*) from t; pragma journal_mode";
    assert_eq!(run(&["sqlite3", "app.db", check]), "ok\n11\nwal\n");
}

/// Copies of a folder, made in another order, and both engines: the same run.
#[test]
fn a_run_with_a_share_is_reproducible() {
    if image().is_none() {
        return;
    }
    let run = |order: &[u32], engine: &str| {
        let dir = tempdir().unwrap();
        for i in order {
            let path = dir.path().join(format!("f{i}"));
            fs::write(&path, noise(*i, 70_000)).unwrap();
            let time = rustix::fs::Timespec {
                tv_sec: 1_000_000_000,
                tv_nsec: 0,
            };
            let times = rustix::fs::Timestamps {
                last_access: time,
                last_modification: time,
            };
            let file = fs::File::open(&path).unwrap();
            rustix::fs::futimens(&file, &times).unwrap();
        }
        let share = format!("{}:in", dir.path().display());
        let stats = dir.path().with_extension("json");
        let script = "cat /mnt/in/* | sha256sum; ls -l /mnt/in | tail -n +2; cp -r /mnt/in /tmp/x";
        let text = stats.to_str().unwrap();
        let args = ["--share", &share, "--engine", engine, "--stats-file", text];
        let lines = boot(&args, script, 0);
        let stats = fs::read_to_string(stats).unwrap();
        let mut stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        stats.as_object_mut().unwrap().remove("host");
        (lines, stats)
    };
    let first = run(&[1, 2, 3, 4, 5], "translator");
    assert!(
        first
            .0
            .iter()
            .filter(|l| l.ends_with("f1") || l.ends_with("f5"))
            .count()
            == 2
    );
    assert!(first.1["cycles"].as_u64() > Some(0));
    assert_eq!(run(&[4, 2, 5, 3, 1], "interpreter"), first);
}

#[test]
fn what_cannot_be_shared_is_refused_before_the_boot() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let file = dir.path().join("file").display().to_string();
    let none = dir.path().join("none").display().to_string();
    let (x, y) = (format!("{file}:x"), format!("{none}:x"));
    for (args, text) in [
        (vec![file.as_str()], "is not a folder"),
        (vec![none.as_str()], "cannot be opened: No such file"),
        (vec![".:a b"], "is no name of a device"),
        (vec![x.as_str(), y.as_str()], "two folders have the tag `x`"),
    ] {
        let all = args.iter().flat_map(|a| ["--share", a]);
        let out = nagori().arg("boot").args(all).assert().failure();
        let errors = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(errors.contains(text), "{args:?}: {errors}");
    }
}
