use super::*;
use std::process::Command;

/// Whether e2fsprogs are there, by which images are judged.
fn tools() -> bool {
    match Command::new("/sbin/debugfs").arg("-V").output() {
        Ok(_) => true,
        Err(e) if std::env::var_os("NAGORI_REQUIRE_TOOLS").is_none() => {
            eprintln!("skipped: debugfs: {e}");
            false
        }
        Err(e) => panic!("debugfs: {e}"),
    }
}

fn debugfs(image: &Path, request: &str) -> String {
    let mut c = Command::new("/sbin/debugfs");
    let out = c.args(["-R", request]).arg(image).output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn is_clean(image: &Path) {
    let fsck = Command::new("/sbin/e2fsck")
        .args(["-fn"])
        .arg(image)
        .output()
        .unwrap();
    assert!(
        fsck.status.success(),
        "{}",
        String::from_utf8_lossy(&fsck.stdout)
    );
}

fn sample(stage: &Path) -> Tree {
    fs::create_dir_all(stage).unwrap();
    let mut t = Tree::new(stage);
    t.file("/bin/a \"quoted\" name", 0o4755, &[7; 5000])
        .unwrap();
    t.file("/<2>", 0o640, b"odd").unwrap();
    t.file("/-x", 0o600, b"dash").unwrap();
    t.file("/#c", 0o600, b"hash").unwrap();
    t.directory_as(
        "/deep/er",
        super::super::tree::Attributes {
            mode: 0o2775,
            uid: 1000,
            gid: 42,
            mtime: 5,
        },
    )
    .unwrap();
    t.symlink("/deep/link", &"t".repeat(200)).unwrap();
    t.symlink("/deep/short", "er").unwrap();
    for i in 0..2000 {
        t.file(
            &format!("/many/file-with-a-rather-long-name-{i}"),
            0o644,
            b"",
        )
        .unwrap();
    }
    t
}

const FORMAT: Format<'static> = Format {
    uuid: "01234567-89ab-8def-8123-456789abcdef",
    label: "test",
    time: 1_700_000_000,
    free: 8 << 20,
};

#[test]
fn an_image_is_clean_and_holds_the_tree() {
    if !tools() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = sample(&dir.path().join("stage"));
    let image = dir.path().join("image");
    write(&tree, &FORMAT, &image).unwrap();
    is_clean(&image);
    let stat = debugfs(&image, "stat \"/bin/a \"\"quoted\"\" name\"");
    assert!(
        stat.contains("Mode:  04755") && stat.contains("Size: 5000"),
        "{stat}"
    );
    assert!(stat.contains("mtime: 0x6553f100"), "{stat}");
    let stat = debugfs(&image, "stat /deep/er");
    assert!(
        stat.contains("Mode:  02775") && stat.contains("User:  1000"),
        "{stat}"
    );
    assert!(stat.contains("mtime: 0x00000005"), "{stat}");
    assert!(debugfs(&image, "stat ./<2>").contains("Mode:  0640"));
    assert!(debugfs(&image, "stat /deep/link").contains("Size: 200"));
    assert!(debugfs(&image, "stat /deep/short").contains("\"er\""));
    assert_eq!(debugfs(&image, "cat /#c"), "hash");
    assert_eq!(
        debugfs(&image, "ls -p /many").matches("file-with").count(),
        2000
    );

    // An equal tree that was staged elsewhere gives an equal image.
    let again = dir.path().join("again");
    write(&sample(&dir.path().join("elsewhere")), &FORMAT, &again).unwrap();
    assert!(fs::read(&image).unwrap() == fs::read(&again).unwrap());
}

/// Hard links, devices, many directories, a file of more extents than an inode has room for, and sizes at which groups
/// and copies of the superblock begin.
#[test]
fn images_of_many_shapes_are_clean() {
    if !tools() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let stage = dir.path().join("stage");
    fs::create_dir_all(&stage).unwrap();
    let mut t = Tree::new(&stage);
    let mut tar = tar::Builder::new(Vec::new());
    let mut entry = |kind: tar::EntryType, name: &str, target: &str, device: (u32, u32)| {
        let mut h = tar::Header::new_gnu();
        h.set_entry_type(kind);
        h.set_mode(0o640);
        h.set_uid(70_000);
        h.set_gid(1);
        h.set_mtime(5_000_000_000);
        h.set_size(0);
        h.set_path(name).unwrap();
        if !target.is_empty() {
            h.set_link_name(target).unwrap();
        }
        h.set_device_major(device.0).unwrap();
        h.set_device_minor(device.1).unwrap();
        h.set_cksum();
        tar.append(&h, &[][..]).unwrap();
    };
    entry(tar::EntryType::Regular, "empty", "", (0, 0));
    entry(tar::EntryType::Link, "d/linked", "empty", (0, 0));
    entry(tar::EntryType::Char, "console", "", (5, 1));
    entry(tar::EntryType::Block, "large", "", (259, 300_000));
    entry(tar::EntryType::Fifo, "fifo", "", (0, 0));
    t.unpack(&tar.into_inner().unwrap()[..]).unwrap();
    for n in 0..300 {
        t.directory(&format!("/many/{n}/inner")).unwrap();
    }
    for length in [58, 59, 60, 4095] {
        t.symlink(&format!("/to-{length}"), &"t".repeat(length))
            .unwrap();
    }
    // Sparse on the host.
    t.file_made("/big", 0o600, |to| {
        let f = File::create(to).context("create", to)?;
        f.set_len(700 << 20).context("enlarge", to)
    })
    .unwrap();
    let image = dir.path().join("image");
    for free in [0, 100 << 20, 256 << 20, (1 << 30) + 12_345, 6 << 30] {
        let format = Format { free, ..FORMAT };
        write(&t, &format, &image).unwrap();
        is_clean(&image);
    }
    for (name, says) in [
        ("/d/linked", "Links: 2 "),
        ("/d/linked", "User: 70000"),
        ("/d/linked", "0x2a05f200:00000001"),
        ("/console", "Device major/minor number: 05:01"),
        ("/large", "Device major/minor number: 259:300000"),
        ("/many", "Links: 302 "),
        ("/big", "Size: 734003200"),
        ("/to-59", "Fast link dest"),
    ] {
        let stat = debugfs(&image, &format!("stat {name}"));
        assert!(stat.contains(says), "{name}: {stat}");
    }
}

#[test]
fn a_content_that_is_gone_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = sample(&dir.path().join("stage"));
    tree.file("/gone", 0o644, b"x").unwrap();
    let gone = tree.lookup("/gone").unwrap();
    fs::remove_file(tree.staged(gone)).unwrap();
    let e = write(&tree, &FORMAT, &dir.path().join("i")).unwrap_err();
    assert!(e.to_string().contains("No such file"), "{e}");
}
