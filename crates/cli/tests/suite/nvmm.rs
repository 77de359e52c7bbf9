//! NVMM as persistent memory, as docs/nvmm.md has it: file systems, pools of PMDK, and what a power cut
//! leaves of what programs have made persistent.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::{boot, made, options};
use nagori_image::{rootfs, Base, RootfsSpec};
use std::path::PathBuf;

/// A root file system with tools for NVMM; nothing, with a word, where the host cannot build it.
fn image() -> Option<PathBuf> {
    let mut spec = RootfsSpec::new(Base::Run);
    let packages = [
        "e2fsprogs",
        "xfsprogs",
        "mount",
        "ndctl",
        "libpmem1",
        "pmdk-tools",
        "kmod",
    ];
    spec.packages = packages.map(String::from).to_vec();
    let built = made(rootfs(&options(), &spec, None, &mut |p| eprintln!("{p}")))?;
    Some(built.path)
}

/// A GiB of NVMM, as `/dev/pmem0`.
const NVMM: [&str; 4] = [
    "--nvmm",
    "pmem-region",
    "--set",
    "memory.nvmm_boundary=\"3 GiB\"",
];

#[test]
fn file_systems_and_pools() {
    let Some(image) = image() else { return };
    let script = r#"
mkdir -p /pmem
bugs() { echo "$1=$(dmesg | grep -c 'Bad ')"; dmesg -C; }
mkfs.ext4 -q -b 4096 -O bigalloc -C 2M /dev/pmem0 && mount -o dax=always /dev/pmem0 /pmem || exit 1
nvmm-check /pmem/file || exit 2
umount /pmem
mkfs.xfs -q -f -m reflink=0 -d su=2m,sw=1 /dev/pmem0 && modprobe xfs && mount -o dax=always /dev/pmem0 /pmem || exit 3
echo "type=$(grep -o 'pmem xfs.*dax=always' /proc/mounts | cut -c 6-8)"
nvmm-check /pmem/file || exit 4
umount /pmem
ndctl create-namespace -f -e namespace0.0 --mode=devdax >/dev/null || exit 5
nvmm-check /dev/dax0.0 || exit 6
pmempool create -f obj --layout any /dev/dax0.0 || exit 7
pmempool check /dev/dax0.0 >/dev/null || exit 8
bugs bad
exit 0"#;
    let path = image.to_str().expect("UTF-8");
    let args = [&NVMM[..], &["--rootfs", path, "--modules", "xfs"]].concat();
    let text = boot(&args, script, 0).join("\n");
    for line in ["type=xfs", "map=sync", "map=device", "bad=0"] {
        assert!(text.contains(line), "{line} not in:\n{text}");
    }
    assert_eq!(text.matches("nvmm-check: ok").count(), 3, "{text}");
}

/// Lines of 128 that are lost when the power is cut behind the program that has made them persistent.
fn lost(image: &str, settings: &[&str], preload: bool, way: &str) -> u64 {
    lost_on(image, &[], settings, preload, way)
}

/// As [`lost`], with more options, such as for another machine.
fn lost_on(image: &str, more: &[&str], settings: &[&str], preload: bool, way: &str) -> u64 {
    let preload = if preload {
        "LD_PRELOAD=/usr/local/lib/libnagori-persist.so"
    } else {
        ""
    };
    // The second half runs after the cut.
    let script = format!(
        "mkdir -p /pmem
if mount -o dax=always /dev/pmem0 /pmem 2>/dev/null; then
    persist-check check /pmem/a
    exit 9
fi
mkfs.ext4 -q -b 4096 -O bigalloc -C 2M /dev/pmem0 && mount -o dax=always /dev/pmem0 /pmem || exit 1
persist-check make /pmem/a && sync || exit 2
nagori-ctl timing on
{preload} persist-check {way} /pmem/a
exit 3"
    );
    let mut args = [
        &NVMM[..],
        &["--rootfs", image, "--power-cut-at", "marker:1"],
        more,
    ]
    .concat();
    for s in settings {
        args.extend(["--set", s]);
    }
    let text = boot(&args, &script, 9).join("\n");
    let from = text.find("persist-check: lost=").expect("an answer") + 20;
    let digits: String = text[from..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().expect("a number")
}

const ADR: &[&str] = &["memory.track_persistence=true"];
const ZICBOM: &[&str] = &["memory.track_persistence=true", "advertise_zicbom=true"];

#[test]
fn what_is_persistent_survives_a_power_cut() {
    let Some(image) = image() else { return };
    let image = image.to_str().expect("UTF-8");
    // As the table in docs/nvmm.md says. How much of what is not flushed is lost depends on what the kernel's own
    // work takes the place of in the caches: only the program that makes no system call is sure to lose some.
    assert!(lost(image, ADR, false, "libpmem") > 0);
    assert_eq!(lost(image, ZICBOM, false, "store"), 0);
    assert_eq!(lost(image, ADR, true, "libpmem"), 0);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn every_way_of_writing_survives_a_power_cut() {
    let Some(image) = image() else { return };
    let image = image.to_str().expect("UTF-8");
    for way in ["write", "store"] {
        assert_eq!(lost(image, ADR, true, way), 0, "{way}");
    }
    const EADR: &[&str] = &["memory.persistence_domain=eadr"];
    assert_eq!(lost(image, EADR, false, "write"), 0);
    // With energy for so many lines nothing is lost either.
    let gpf = |lines: &'static str| [ADR[0], "memory.persistence_domain=gpf", lines];
    assert_eq!(
        lost(image, &gpf("memory.gpf_lines=100000"), false, "libpmem"),
        0
    );
    assert!(lost(image, &gpf("memory.gpf_lines=1"), false, "libpmem") > 0);
}

/// What holds the lines: how it is made, how it is found again after the cut, the file or device.
type Place = [&'static str; 3];
const EXT4: Place = [
    "mkfs.ext4 -q -b 4096 -O bigalloc -C 2M /dev/pmem0 && mount -o dax=always /dev/pmem0 /pmem",
    "mount -o dax=always /dev/pmem0 /pmem 2>/dev/null",
    "/pmem/a",
];
const XFS: Place = [
    "mkfs.xfs -q -f -m reflink=0 -d su=2m,sw=1 /dev/pmem0 && modprobe xfs && mount -o dax=always /dev/pmem0 /pmem",
    "modprobe xfs && mount -t xfs -o dax=always /dev/pmem0 /pmem 2>/dev/null",
    "/pmem/a",
];
const DEVICE: Place = [
    "ndctl create-namespace -f -e namespace0.0 --mode=devdax >/dev/null",
    "[ -e /dev/dax0.0 ]",
    "/dev/dax0.0",
];

/// Lines of 128 that were not flushed and are there after the cut; all that were flushed are. Ends with `code`.
fn left(image: &str, [make, again, file]: Place, domain: &str, more: &[&str], code: i32) -> u64 {
    let script = format!(
        "mkdir -p /pmem
if {again}; then
    nvmm-check --read {domain} {file} && exit 9
    exit 4
fi
{make} || exit 1
nvmm-check {file} && sync || exit 2
nagori-ctl timing on
nvmm-check --write {file}
exit 3"
    );
    let set = format!("memory.persistence_domain={domain}");
    let mut settings = vec!["--set", "memory.track_persistence=true", "--set", &set];
    if domain == "gpf" {
        settings.extend(["--set", "memory.gpf_lines=400000"]);
    }
    let how = [
        "--rootfs",
        image,
        "--modules",
        "xfs",
        "--power-cut-at",
        "marker:1",
    ];
    let text = boot(
        &[&NVMM[..], &how[..], &settings, more].concat(),
        &script,
        code,
    )
    .join("\n");
    let number = |name: &str| {
        let from = text.find(name).expect("an answer") + name.len();
        let digits = text[from..].split(' ').next().expect("digits");
        digits.parse::<u64>().expect("a number")
    };
    assert_eq!(number(" flushed=") == 128, code == 9, "{domain}: {text}");
    number(" unflushed=")
}

#[test]
fn each_domain_keeps_what_it_promises() {
    let Some(image) = image() else { return };
    let image = image.to_str().expect("UTF-8");
    // Of 128 lines that were not flushed, caches have most at the cut.
    assert!(left(image, EXT4, "none", &[], 9) < 128);
    assert_eq!(left(image, DEVICE, "eadr", &[], 9), 128);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn each_domain_keeps_what_it_promises_everywhere() {
    let Some(image) = image() else { return };
    let image = image.to_str().expect("UTF-8");
    assert!(left(image, XFS, "adr", &[], 9) < 128);
    assert!(left(image, DEVICE, "adr", &[], 9) < 128);
    assert_eq!(left(image, EXT4, "gpf", &[], 9), 128);
}

/// An L2 for each hart and a last-level cache for all; the kernel flushes.
const LEVELS: &[&str] = &[
    "--machine",
    "server-caches",
    "--set",
    "advertise_zicbom=true",
];

#[test]
fn flushes_go_through_outer_caches() {
    let Some(image) = image() else { return };
    let image = image.to_str().expect("UTF-8");
    assert!(left(image, EXT4, "adr", LEVELS, 9) < 128);
    assert_eq!(left(image, EXT4, "gpf", LEVELS, 9), 128);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn flushes_go_through_outer_caches_in_every_domain() {
    let Some(image) = image() else { return };
    let image = image.to_str().expect("UTF-8");
    assert!(left(image, EXT4, "none", LEVELS, 9) < 128);
    assert_eq!(left(image, EXT4, "eadr", LEVELS, 9), 128);
    // Without Zicbom the kernel flushes nothing, and CFLUSH.D.L1 ends at the L2.
    left(image, EXT4, "adr", &LEVELS[..2], 4);
    assert_eq!(lost_on(image, LEVELS, ADR, true, "libpmem"), 0);
}

#[test]
fn a_watchdog_resets_softly() {
    let Some(image) = image() else { return };
    let image = image.to_str().expect("UTF-8");
    // The second half runs after the reset. The file is open and nobody restarts the timer.
    let script =
        "if [ \"$(dd if=/dev/pmem0 bs=8 count=1 2>/dev/null)\" = remains! ]; then exit 5; fi
printf remains! | dd of=/dev/pmem0 conv=notrunc,fsync 2>/dev/null || exit 1
modprobe sunxi_wdt || exit 2
exec 3>/dev/watchdog || exit 3
sleep 60
exit 4";
    let watchdog = [
        "--rootfs",
        image,
        "--modules",
        "sunxi_wdt",
        "--set",
        "watchdog=true",
    ];
    boot(&[&NVMM[..], &watchdog].concat(), script, 5);
}

#[test]
fn a_file_system_outlives_the_run() {
    let Some(root) = image() else { return };
    let root = root.to_str().expect("UTF-8");
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_string();
    let tool = |args: &[&str]| {
        crate::common::nagori()
            .args([&["nvmm"], args].concat())
            .assert()
            .success();
    };
    let boundary = ["--set", NVMM[3]];
    tool(&[&["create"], &boundary[..], &[&at("pm")]].concat());
    let pm = at("pm");
    let args = [&NVMM[..], &["--rootfs", root, "--nvmm-image", &pm]].concat();
    // What fsync has written is there after the end of the process, which is a power cut: with the library that
    // flushes.
    let make = "mkdir -p /pmem
mkfs.ext4 -q -b 4096 -O bigalloc -C 2M /dev/pmem0 && mount -o dax=always /dev/pmem0 /pmem || exit 1
persist-check make /pmem/a && sync || exit 2
nagori-ctl timing on
LD_PRELOAD=/usr/local/lib/libnagori-persist.so persist-check write /pmem/a
exit 9";
    boot(
        &[
            &args[..],
            &["--power-cut-at", "marker:1", "--power-cut-exit"],
        ]
        .concat(),
        make,
        0,
    );
    let check = "mkdir -p /pmem; mount -o dax=always /dev/pmem0 /pmem && persist-check check /pmem/a; exit 7";
    let text = boot(&args, check, 7).join("\n");
    assert!(text.contains("persist-check: lost=0"), "{text}");
    tool(&["verify", &pm]);
    tool(&["export", &pm, &at("raw")]);
    if !crate::common::tool("e2fsck") {
        return;
    }
    // The journal is replayed, as after any power cut; then nothing is wrong.
    let fsck = |args: &[&str]| {
        let run = std::process::Command::new("e2fsck")
            .args(args)
            .arg(at("raw"))
            .output();
        run.expect("e2fsck").status.code().expect("a code")
    };
    assert!(fsck(&["-p"]) < 2);
    assert_eq!(fsck(&["-fn"]), 0);
}
