use super::*;

fn steps(list: &[&str]) -> Vec<Step> {
    let step = |s: &&str| match s.strip_prefix('+') {
        Some(p) => Step::Unpack(p.into()),
        None => Step::Configure(s[1..].into()),
    };
    list.iter().map(step).collect()
}

#[test]
fn few_calls_in_an_order_that_dpkg_accepts() {
    let order = steps(&[
        "+base", "=base", "+a", "=a", "+b", "+c", "=c", "=b", "+d", "=d",
    ]);
    let added = ["a", "b", "c", "d"].into();
    let none = |_: &str| Vec::new();
    assert_eq!(
        calls(&order, &added, none),
        "unpack a b c d\nconfigure -a\n"
    );
    let before = |p: &str| match p {
        "d" => vec!["base".into(), "b".into()],
        _ => Vec::new(),
    };
    assert_eq!(
        calls(&order, &added, before),
        "unpack a b c\nconfigure a c b\nunpack d\nconfigure -a\n"
    );
    assert_eq!(calls(&order, &BTreeSet::new(), none), "");
}

#[test]
fn scripts_and_files_are_told_apart_by_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("setup.sh");
    fs::write(&script, "exit 0\n").unwrap();
    let files = dir.path().join("files");
    fs::create_dir_all(files.join("sub")).unwrap();
    fs::write(files.join("sub/b"), "b").unwrap();
    fs::write(files.join("a"), "a").unwrap();
    std::os::unix::fs::symlink("a", files.join("link")).unwrap();
    let lines = || -> Vec<[String; 3]> {
        let p = Provided::read(std::slice::from_ref(&script), Some(&files)).unwrap();
        p.lines().collect()
    };
    let first = lines();
    let paths: Vec<&str> = first.iter().map(|l| l[0].as_str()).collect();
    assert_eq!(
        paths,
        [
            "/provision/00-setup.sh",
            "/files",
            "/files/a",
            "/files/link",
            "/files/sub",
            "/files/sub/b"
        ]
    );
    assert_eq!(lines(), first);
    fs::write(files.join("a"), "A").unwrap();
    let second = lines();
    assert_ne!(second, first, "contents count");
    fs::set_permissions(files.join("a"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_ne!(lines(), second, "permissions count");

    let stage = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(stage.path());
    let p = Provided::read(std::slice::from_ref(&script), Some(&files)).unwrap();
    p.put(&mut tree).unwrap();
    assert_eq!(tree.text("/files/link"), "A");
    let node = tree.lookup("/provision/00-setup.sh").unwrap();
    assert_eq!(tree.node(node).attributes.mode, 0o755);

    for (scripts, files, why) in [
        (vec![dir.path().to_path_buf()], None, "is not a file"),
        (vec![dir.path().join("none")], None, "cannot read"),
        (vec![], Some(script.as_path()), "is not a directory"),
    ] {
        let e = Provided::read(&scripts, files).unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
    }
}

#[test]
fn failures_name_the_package_or_the_script() {
    let log = |text: &str| text.lines().map(String::from).collect::<Vec<_>>();
    let text = failed(
        &log("nagori: init\nnagori-install: unpack a b\nnagori-install: configure -a\nSetting up a ...\noops\n\
              dpkg: error processing package a (--configure):\n status 3\n\
              Errors were encountered while processing:\n a\n b:riscv64\n\
              nagori-install: failed: dpkg --configure\n"),
        "exit status 1",
    )
    .to_string();
    assert!(
        text.starts_with(
            "root file system: package a, b:riscv64 cannot be installed (dpkg --configure)"
        ),
        "{text}"
    );
    assert!(
        text.contains("\noops\n") && text.ends_with(" status 3"),
        "{text}"
    );
    let text = failed(
        &log(
            "nagori-install: provision 00-my-setup\nhello\nnagori-install: failed: exit status 7\n",
        ),
        "exit status 1",
    )
    .to_string();
    assert!(
        text.contains("the provisioning script my-setup failed (exit status 7)"),
        "{text}"
    );
    assert!(text.ends_with("hello"), "{text}");
    let text = failed(&[], "ended by signal 2").to_string();
    assert!(text.contains("failed (ended by signal 2)"), "{text}");
}

#[test]
fn a_file_system_in_use_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let with = |state: u8, incompatible: u8| {
        let mut bytes = vec![0; 4096];
        bytes[1024 + 0x3a] = state;
        bytes[1024 + 0x60] = incompatible;
        fs::write(&image, bytes).unwrap();
        clean(&image).unwrap()
    };
    assert!(with(1, 0x42));
    assert!(!with(1, 0x46), "the journal is to be replayed");
    assert!(!with(0, 0x42), "it was not unmounted");
}
