//! A real image: built from the mirror, found again without it, booted in QEMU.
//!
//! Needs a mirror of Debian; skipped where none can be reached, unless NAGORI_REQUIRE_TOOLS=1.

use nagori_image::{build, overlay_cpio, Error, GuestImage, Options, Progress, Stage};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

fn tools_required() -> bool {
    std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1")
}

/// In the user's own cache, as in normal use: the download is shared.
fn image() -> Option<(Options, GuestImage)> {
    let options = Options::from_env().unwrap();
    match build(&options, &mut |p| eprintln!("{p}")) {
        Ok(image) => Some((options, image)),
        Err(e) if unreachable(&e) && !tools_required() => {
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Whether the cause is that there is no mirror, or no network.
fn unreachable(e: &Error) -> bool {
    use nagori_debian::Error as Archive;
    matches!(
        e,
        Error::Archive(Archive::NoMirror | Archive::Network { .. })
    )
}

#[test]
fn build_and_find_again() {
    let Some((options, image)) = image() else {
        return;
    };
    let kernel = fs::read(&image.kernel).unwrap();
    assert_eq!(&kernel[0x38..0x3c], b"RSC\x05");
    let firmware = fs::read(&image.firmware).unwrap();
    assert!(firmware.len() > 100_000 && firmware.len() < 2_000_000);
    let initrd = fs::read(&image.initrd).unwrap();
    assert!(initrd.starts_with(b"070701"));
    for (bytes, output) in [
        (&kernel, &image.manifest.kernel),
        (&firmware, &image.manifest.firmware),
        (&initrd, &image.manifest.initrd),
    ] {
        assert_eq!(bytes.len() as u64, output.size, "{}", output.file);
        assert_eq!(output.sha256.len(), 64);
    }
    let m = &image.manifest;
    assert!(m.kernel_release.starts_with("6."), "{}", m.kernel_release);
    assert!(
        m.kernel_release.ends_with("-riscv64"),
        "{}",
        m.kernel_release
    );
    let position = |name: &str| m.modules.iter().position(|n| n == name);
    assert!(position("libnvdimm") < position("nd_pmem"));
    assert!(position("9pnet").is_some(), "{:?}", m.modules);
    for program in ["bench-board", "nagori-ctl", "nagori-exit"] {
        assert!(m.programs.iter().any(|p| p == program), "{program}");
    }

    // A second build does nothing, reports nothing, and asks no mirror.
    let offline = Options {
        mirror: Some("http://mirror.invalid/debian".into()),
        ..options.clone()
    };
    let again = build(&offline, &mut |p| panic!("{p}")).unwrap();
    assert_eq!(again, image);
}

/// Debian sid's kernel, which is divided: image, modules and their list are in three packages.
#[test]
#[ignore = "downloads 150 MB, and sid changes"]
fn a_kernel_in_several_packages() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::from_env().unwrap();
    options.cache_dir = dir.path().into();
    options.suite = "sid".into();
    let image = build(&options, &mut |p| eprintln!("{p}")).unwrap();
    let kernel = fs::read(&image.kernel).unwrap();
    assert_eq!(&kernel[0x38..0x3c], b"RSC\x05");
    let m = &image.manifest;
    let binary = format!("linux-binary-{}", m.kernel_release);
    assert!(m.packages.iter().any(|p| p.name == binary), "{binary}");
    for module in ["virtio_blk", "ext4", "nd_pmem"] {
        assert!(m.modules.iter().any(|n| n == module), "{:?}", m.modules);
    }
}

#[test]
fn another_set_of_modules_is_another_image() {
    let Some((options, image)) = image() else {
        return;
    };
    let bare = Options {
        modules: Vec::new(),
        // The packages are already in the cache.
        mirror: Some("http://mirror.invalid/debian".into()),
        ..options.clone()
    };
    let mut stages: Vec<Stage> = Vec::new();
    let other = build(&bare, &mut |p: Progress| stages.push(p.stage)).unwrap();
    assert!(!stages.contains(&Stage::Index) && !stages.contains(&Stage::Download));
    assert_ne!(other.manifest.key, image.manifest.key);
    assert!(other.manifest.modules.is_empty());
    assert!(other.manifest.initrd.size < image.manifest.initrd.size);
    fs::remove_dir_all(other.initrd.parent().unwrap()).unwrap();

    let e = build(
        &Options {
            modules: vec!["no_such_module".into()],
            ..bare
        },
        &mut |_| {},
    )
    .unwrap_err();
    assert!(e.to_string().contains("no_such_module"), "{e}");
}

#[test]
fn no_mirror_there() {
    if image().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("debian");
    fs::create_dir(&empty).unwrap();
    let mut options = Options::new(dir.path().join("cache"));
    options.mirror = Some(format!("file:{}", empty.display()));
    let e = build(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(e.contains("dists/trixie/InRelease"), "{e}");
    options.offline = true;
    let e = build(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(e.contains("not in the cache, and --offline"), "{e}");
    options.suite = "trixie main\ndeb [trusted=yes] x".into();
    let e = build(&options, &mut |_| {}).unwrap_err();
    assert!(e.to_string().contains("is not a valid name"), "{e}");
}

/// Boots the image in QEMU; returns the console's output and the exit status.
fn boot(image: &GuestImage, append: &str, overlay: &[(&str, u32, &[u8])]) -> Option<(String, i32)> {
    let mut initrd = fs::read(&image.initrd).unwrap();
    initrd.extend(overlay_cpio(overlay).unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), initrd).unwrap();
    let out = Command::new("timeout")
        .args(["300", "qemu-system-riscv64", "-machine", "virt", "-m", "1G"])
        .args(["-nographic", "-no-reboot", "-bios"])
        .arg(&image.firmware)
        .arg("-kernel")
        .arg(&image.kernel)
        .arg("-initrd")
        .arg(file.path())
        .arg("-append")
        .arg(format!("quiet {} {append}", image.manifest.fast_boot_args))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if out.status.code() == Some(127) && !tools_required() {
        eprintln!("skipped: no qemu-system-riscv64");
        return None;
    }
    // QEMU may end a moment after it was asked to, and the program that asked notices; the exit
    // status says whether it did.
    let text = String::from_utf8_lossy(&out.stdout).replace('\r', "");
    let text = text.replace("nagori-exit: no test device at 0x100000\n", "");
    Some((text, out.status.code().unwrap_or(-1)))
}

#[test]
fn it_boots_and_tells_the_exit_status() {
    let Some((_, image)) = image() else {
        return;
    };
    let release = &image.manifest.kernel_release;
    let command = "nagori.run=\"uname -r; ls / | grep -c '^proc$' && seq 3 | tail -n 1; \
                   modprobe ext4 && grep -w ext4 /proc/filesystems; exit 42\"";
    let Some((text, status)) = boot(&image, command, &[]) else {
        return;
    };
    let tail = format!("nagori: init\n{release}\n1\n3\n\text4\nnagori: exit 42\n");
    assert!(text.ends_with(&tail), "{text}");
    assert_eq!(status, 42);

    let script = b"#!/bin/sh\ncat /data\nbench-locality --anonymous --size 64k --stride 64\n\
                   exec bench-flush --anonymous\n";
    let overlay: [(&str, u32, &[u8]); 2] = [
        ("/etc/nagori/run", 0o755, script),
        ("/data", 0o644, b"from the overlay\n"),
    ];
    let (text, status) = boot(&image, "nagori.modules=none", &overlay).unwrap();
    assert!(
        text.contains("nagori: init\nfrom the overlay\nrow op=read"),
        "{text}"
    );
    assert!(text.contains("this machine has no CFLUSH.D.L1"), "{text}");
    assert!(text.ends_with("nagori: exit 1\n"), "{text}");
    assert_eq!(status, 1);
}

/// A file of the image's initrd.
fn guest_file(image: &GuestImage, path: &str) -> Vec<u8> {
    let initrd = fs::read(&image.initrd).unwrap();
    let mut rest = initrd.as_slice();
    loop {
        let mut entry = cpio::newc::Reader::new(rest).unwrap();
        assert!(!entry.entry().is_trailer(), "no {path} in the initrd");
        if entry.entry().name() == path {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            return bytes;
        }
        rest = entry.finish().unwrap();
    }
}

/// The programs by themselves, without a machine.
#[test]
fn programs_in_user_emulation() {
    let Some((_, image)) = image() else {
        return;
    };
    if let Err(e) = Command::new("qemu-riscv64").arg("--version").output() {
        assert!(!tools_required(), "qemu-riscv64: {e}");
        eprintln!("skipped: qemu-riscv64: {e}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |program: &str, arguments: &str| -> Output {
        let file = dir.path().join(program);
        if !file.exists() {
            fs::write(&file, guest_file(&image, &format!("bin/{program}"))).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Command::new("qemu-riscv64")
            .arg(&file)
            .args(arguments.split_whitespace())
            .output()
            .unwrap()
    };
    let out = |o: &Output| String::from_utf8(o.stdout.clone()).unwrap();

    let board = run("bench-board", "--anonymous --accesses 60 --warmup 16");
    assert!(board.status.success());
    let mut cells = Vec::new();
    for line in out(&board).lines() {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("row"), "{line}");
        let fields: Vec<(&str, &str)> = words.map(|w| w.split_once('=').unwrap()).collect();
        let keys: Vec<&str> = fields.iter().map(|f| f.0).collect();
        assert_eq!(
            keys[..5],
            ["op", "benchmark", "value", "method", "latency_ns"]
        );
        assert_eq!(fields[3].1, "none");
        assert!(fields[4].1.parse::<f64>().unwrap() > 0.0, "{line}");
        assert_eq!(fields[5], ("accesses", "60"), "{line}");
        cells.push(format!("{} {} {}", fields[0].1, fields[1].1, fields[2].1));
    }
    let mut expected = Vec::new();
    for op in ["read", "write"] {
        expected.extend([4096, 8192].map(|s| format!("{op} stride {s}")));
        expected.extend((1..=6).map(|n| format!("{op} nbank {n}")));
    }
    assert_eq!(cells, expected);

    let banks = out(&run(
        "bench-banks",
        "--anonymous --op write --banks 3 --rows 10",
    ));
    assert!(
        banks.starts_with("row op=write benchmark=nbank value=3 "),
        "{banks}"
    );
    assert!(banks.contains(" accesses=30"), "{banks}");
    let stride = out(&run(
        "bench-locality",
        "--anonymous --stride 64 --size 1k --repeat 3",
    ));
    assert!(
        stride.contains("value=64 ") && stride.contains(" accesses=48"),
        "{stride}"
    );

    for (program, arguments, status, message) in [
        (
            "bench-locality",
            "--anonymous --stride 12q",
            1,
            "--stride 12q: give a number from 8",
        ),
        (
            "bench-locality",
            "--anonymous --size 99999999999999999999",
            1,
            "give a number",
        ),
        (
            "bench-locality",
            "--anonymous --op copy",
            1,
            "--op copy: read or write",
        ),
        ("bench-banks", "--anonymous --banks 9", 1, "from 1 to 8"),
        (
            "bench-banks",
            "--anonymous --rows 65536",
            1,
            "but a bank has 536870912",
        ),
        (
            "bench-board",
            "--anonymous --methods dram,rough",
            1,
            "method rough: dram, coarse",
        ),
        ("bench-flush", "--anonymous", 1, "no CFLUSH.D.L1"),
        ("nagori-ctl", "get NOTHING", 1, "no register NOTHING"),
        ("nagori-ctl", "", 2, "usage: nagori-ctl"),
        ("nagori-exit", "70000", 2, "0 to 65535"),
    ] {
        let o = run(program, arguments);
        let text = String::from_utf8(o.stderr).unwrap();
        assert_eq!(
            o.status.code(),
            Some(status),
            "{program} {arguments}: {text}"
        );
        assert!(text.contains(message), "{program} {arguments}: {text}");
    }
}

/// The root file system of `nagori run`: complete, clean, as in the manifest, and the same when it
/// is built again.
#[test]
fn a_root_file_system() {
    use nagori_image::{list_rootfs, rootfs, Base, RootfsSpec};
    let options = Options::from_env().unwrap();
    let spec = RootfsSpec::new(Base::Run);
    let image = match rootfs(&options, &spec, None, &mut |p| eprintln!("{p}")) {
        Err(e) if unreachable(&e) && !tools_required() => {
            eprintln!("skipped: {e}");
            return;
        }
        other => other.unwrap(),
    };
    let m = &image.manifest;
    assert!(m.content < 150_000_000, "{} bytes", m.content);
    for needed in ["libc6", "libstdc++6", "sqlite3", "xz-utils"] {
        let p = m.packages.iter().find(|p| p.name == needed);
        assert!(p.is_some_and(|p| p.sha256.len() == 64), "{needed}");
    }
    assert!(m.programs.iter().any(|p| p == "lib/libnagori-malloc.so"));
    image.verify().unwrap();
    assert!(list_rootfs(&options).unwrap().contains(&image));
    let fsck = Command::new("/sbin/e2fsck")
        .arg("-fn")
        .arg(&image.path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&fsck.stdout);
    assert!(fsck.status.success(), "{text}");

    // Again, from the cached packages alone: no mirror is asked, and the bytes are the same.
    let place = image.path.parent().unwrap();
    let aside = tempfile::tempdir_in(place.parent().unwrap()).unwrap();
    let old = aside.path().join("old");
    fs::rename(place, &old).unwrap();
    let offline = Options {
        mirror: Some("http://mirror.invalid/debian".into()),
        ..options.clone()
    };
    let again = rootfs(&offline, &spec, None, &mut |_| {}).unwrap();
    assert_eq!(again, image);
    // Damage is detected.
    let file = old.join("rootfs.ext4");
    let damaged = nagori_image::RootFs {
        path: file.clone(),
        ..image.clone()
    };
    damaged.verify().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[100_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let e = damaged.verify().unwrap_err().to_string();
    assert!(e.contains("is damaged"), "{e}");

    let unknown = RootfsSpec {
        packages: vec!["no-such-package-at-all".into()],
        ..spec
    };
    let e = rootfs(&options, &unknown, None, &mut |_| {}).unwrap_err();
    assert!(e.to_string().contains("no-such-package-at-all"), "{e}");
}
