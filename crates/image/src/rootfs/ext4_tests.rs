use super::*;
use std::process::Command;

fn tools() -> bool {
    match version() {
        Ok(_) => true,
        Err(e @ Error::ToolMissing { .. })
            if std::env::var_os("NAGORI_REQUIRE_TOOLS").is_none() =>
        {
            eprintln!("skipped: {e}");
            false
        }
        Err(e) => panic!("{e}"),
    }
}

fn debugfs(image: &Path, request: &str) -> String {
    let mut c: Command = DEBUGFS.command();
    c.args(["-R", request]).arg(image);
    let out = DEBUGFS.run(c, "read an image").unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
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
    write(&tree, &FORMAT, &image, dir.path()).unwrap();
    let fsck = Command::new("/sbin/e2fsck")
        .args(["-fn"])
        .arg(&image)
        .output()
        .unwrap();
    assert!(
        fsck.status.success(),
        "{}",
        String::from_utf8_lossy(&fsck.stdout)
    );
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

    // The same tree, staged elsewhere, is the same image.
    let again = dir.path().join("again");
    write(
        &sample(&dir.path().join("elsewhere")),
        &FORMAT,
        &again,
        dir.path(),
    )
    .unwrap();
    assert!(fs::read(&image).unwrap() == fs::read(&again).unwrap());
}

#[test]
fn what_does_not_fit_is_said() {
    if !tools() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut tree = sample(&dir.path().join("stage"));
    tree.file("/gone", 0o644, b"x").unwrap();
    let gone = tree.lookup("/gone").unwrap();
    fs::remove_file(tree.staged(gone)).unwrap();
    let e = write(&tree, &FORMAT, &dir.path().join("i"), dir.path()).unwrap_err();
    assert!(e.to_string().contains("No such file"), "{e}");
}
