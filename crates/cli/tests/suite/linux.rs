//! Debian's kernel on the reference board, as a user boots it.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::*;
use crate::common::*;
use nagori_image::overlay_cpio;
use predicates::str::contains;
use std::process::Command;

fn number(lines: &[String], name: &str) -> u64 {
    value(lines, name)
        .parse()
        .unwrap_or_else(|e| panic!("{name}: {e} in {lines:#?}"))
}

#[test]
fn four_harts_their_devices_and_the_exit_code() {
    if image().is_none() {
        return;
    }
    let script = r#"
echo "harts=$(nproc)"
echo "isa=$(grep -m1 '^isa' /proc/cpuinfo | cut -d: -f2)"
echo "mmu=$(grep -m1 '^mmu' /proc/cpuinfo | cut -d: -f2)"
ping -c 1 -W 5 127.0.0.1 >/dev/null; echo "lo=$?"
echo "date=$(date +%s)"
echo "rtc=$(cat /sys/class/rtc/rtc0/since_epoch)"
echo "rng=$(cat /sys/class/misc/hw_random/rng_current)"
dd if=/dev/hwrng of=/tmp/a bs=64 count=1 2>/dev/null
dd if=/dev/hwrng of=/tmp/b bs=64 count=1 2>/dev/null
dd if=/dev/random of=/tmp/c bs=64 count=1 2>/dev/null
echo "random=$(cat /tmp/a /tmp/b /tmp/c | wc -c)"
cmp -s /tmp/a /tmp/b; echo "same=$?"
echo "ram=$(grep -c 'System RAM' /proc/iomem)"
echo "last=$(grep 'System RAM' /proc/iomem | tail -1 | cut -d' ' -f1)"
[ -e /dev/pmem0 ]; echo "pmem=$?"
for i in 0 1 2 3; do taskset $((1 << i)) sh -c 'echo "on=$(grep -c . /proc/self/stat)"'; done
exit 41"#;
    let args = ["--rtc", "2026-01-01"];
    let lines = boot(&args, script, 41);
    // The loopback interface needs no network.
    assert_eq!(number(&lines, "lo"), 0);
    assert_eq!(number(&lines, "harts"), 4);
    let isa = value(&lines, "isa").trim();
    assert!(
        isa.starts_with("rv64imafdc_") && isa.contains("_sstc"),
        "{isa}"
    );
    assert_eq!(value(&lines, "mmu").trim(), "sv39");
    // Guest time from reset to here, at 50 MHz: seconds, not minutes, and not the host's year.
    for clock in ["date", "rtc"] {
        let since = number(&lines, clock).checked_sub(1_767_225_600);
        assert!(since.is_some_and(|s| (1..60).contains(&s)), "{since:?}");
    }
    assert_eq!(value(&lines, "rng"), "virtio_rng.0");
    assert_eq!(number(&lines, "random"), 192);
    assert_eq!(number(&lines, "same"), 1, "entropy repeats itself");
    // NVMM, from 0xc0000000, is hidden.
    assert_eq!(value(&lines, "last"), "80060000-bfffffff");
    assert_eq!(number(&lines, "pmem"), 1);
    assert_eq!(lines.iter().filter(|l| *l == "on=1").count(), 4);
    assert_eq!(lines.last().map(String::as_str), Some("nagori: exit 41"));
}

#[test]
fn sixteen_harts_come_up() {
    if image().is_none() {
        return;
    }
    let script = r#"
echo "harts=$(nproc)"
for i in 0 7 8 15; do
  taskset -c $i sh -c 'echo "on=$(cut -d" " -f39 /proc/self/stat)"'
done
exit 16"#;
    let lines = boot(&["--set", "harts=16"], script, 16);
    assert_eq!(number(&lines, "harts"), 16);
    let on: Vec<&str> = lines.iter().filter_map(|l| l.strip_prefix("on=")).collect();
    assert_eq!(on, ["0", "7", "8", "15"]);
}

#[test]
fn four_harts_at_the_same_time() {
    let Some(image) = image() else {
        return;
    };
    // Each hart computes something, all at the same time.
    let script = r#"
for i in 0 1 2 3; do
  taskset $((1 << i)) sh -c 'seq 1 200 | md5sum' > /tmp/$i &
done
wait
echo "sums=$(cat /tmp/0 /tmp/1 /tmp/2 /tmp/3 | sort -u | wc -l)"
echo "harts=$(nproc)"
echo "date=$(date +%s)"
exit 42"#;
    let lines = boot(&["--parallel"], script, 42);
    // Where nothing is said, the clock starts behind the date of the packages' index.
    let since = number(&lines, "date").checked_sub(image.manifest.date);
    assert!(since.is_some_and(|s| s < 600), "{since:?}");
    assert_eq!(image.manifest.date % 86_400, 0);
    assert_eq!(number(&lines, "harts"), 4);
    assert_eq!(number(&lines, "sums"), 1);
}

#[test]
fn harts_at_the_same_time_use_devices_markers_and_timing() {
    if image().is_none() {
        return;
    }
    let files = Files::new();
    let disk = files.write("disk.img", &[0; 4 << 20]);
    let dir = tempfile::tempdir().unwrap();
    // Every hart reads entropy, writes a part of the disk and a file of the host, and reads
    // both again; then a timed benchmark, and a label.
    let script = r#"
part() {
  dd if=/dev/hwrng of=/tmp/r$1 bs=256 count=40 2>/dev/null
  dd if=/tmp/r$1 of=/dev/vda bs=512 seek=$(($1 * 1024)) conv=notrunc,fsync 2>/dev/null
  cp /tmp/r$1 /mnt/out/r$1
  dd if=/dev/vda of=/tmp/d$1 bs=512 skip=$(($1 * 1024)) count=20 iflag=direct 2>/dev/null
  cmp /tmp/r$1 /tmp/d$1 && cmp /tmp/r$1 /mnt/out/r$1 && : > /tmp/good$1
}
for i in 0 1 2 3; do (taskset -p $((1 << i)) $$ > /dev/null; part $i) & done
wait
echo "good=$(ls /tmp/good* | wc -l)"
nagori-mark label 77
nagori-ctl timing on > /dev/null && bench-locality --op read --method fine --size 2097152 > /tmp/bench
echo "bench=$?"
exit 43"#;
    let share = format!("{}:out,rw", dir.path().display());
    let disk_arg = disk.to_str().unwrap();
    let args = ["--parallel", "--disk", disk_arg, "--share", &share];
    let lines = boot(&args, script, 43);
    assert_eq!(number(&lines, "good"), 4);
    assert_eq!(number(&lines, "bench"), 0);
    let image = std::fs::read(&disk).unwrap();
    for i in 0..4 {
        let file = std::fs::read(dir.path().join(format!("r{i}"))).unwrap();
        assert_eq!(file.len(), 256 * 40);
        let at = i * 1024 * 512;
        assert!(image[at..at + file.len()] == file, "part {i}");
    }
}

#[test]
fn methods_timing_and_statistics_from_the_guest() {
    if image().is_none() {
        return;
    }
    // The kernel's own map of NVMM is none: all accesses to it come from the benchmark.
    let script = r#"
[ "$(nagori-ctl timing)" = off ] || exit 1
nagori-ctl stats reset
nagori-ctl stats dump 11
for m in coarse fine extended dram; do
    nagori-ctl method $m
    echo "$m=$(nagori-ctl method)"
    bench-locality --op read --stride 8192 --size 4194304 --warmup 1048576 --method $m || exit 2
done
nagori-ctl timing on
echo "timing=$(nagori-ctl timing)"
nagori-ctl timing off
nagori-ctl set ADDED_RCD 77
echo "rcd=$(nagori-ctl get ADDED_RCD)"
nagori-ctl set BANKS 3 && exit 3
nagori-ctl stats dump 18446744073709551615
exit 0"#;
    let files = Files::new();
    let stats = files.path("stats.json");
    let lines = boot(&["--stats-file", stats.to_str().expect("UTF-8")], script, 0);
    for m in ["dram", "coarse", "fine", "extended"] {
        assert_eq!(value(&lines, m), m);
    }
    assert_eq!(value(&lines, "timing"), "on");
    assert_eq!(number(&lines, "rcd"), 77);

    let text = std::fs::read(&stats).expect("statistics");
    let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let memory = &json["memory"];
    let changes = memory["changes"].as_array().expect("changes");
    let to: Vec<&str> = changes
        .iter()
        .filter(|c| c["what"] == "method")
        .map(|c| c["to"].as_str().expect("a method"))
        .collect();
    let mut seen: Vec<&str> = to.clone();
    seen.dedup();
    assert_eq!(seen, ["coarse", "fine", "extended", "dram"], "{changes:#?}");
    assert!(
        changes
            .iter()
            .any(|c| c["what"].as_str().is_some_and(|w| w.contains("rcd"))),
        "{changes:#?}"
    );
    let at: Vec<u64> = changes.iter().filter_map(|c| c["at"].as_u64()).collect();
    assert!(at.is_sorted(), "{at:?}");
    // 512 reads of each method, and few others: nobody else has business in NVMM.
    let reads = memory["nvmm"]["counters"]["reads"].as_u64().expect("reads");
    assert!((2048..4096).contains(&reads), "{reads}");
    assert!(memory["dram"]["counters"]["reads"].as_u64() > Some(0));

    let marks = json["marks"].as_array().expect("marks");
    let labels: Vec<Option<u64>> = marks.iter().map(|m| m["label"].as_u64()).collect();
    assert_eq!(labels, [Some(11), Some(u64::MAX)]);
    let nvmm = |k: usize| marks[k]["report"]["memory"]["nvmm"]["counters"]["reads"].clone();
    assert_eq!((nvmm(0), nvmm(1)), (0.into(), reads.into()));
}

/// An ext4 file system with nothing in it, made on the host; `None` if it has no mke2fs.
fn file_system(files: &Files) -> Option<Vec<u8>> {
    let path = files.write("fs", &[]);
    let made = Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-O", "^has_journal"])
        .arg(&path)
        .arg("8m")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output();
    match made {
        Ok(out) => {
            assert!(out.status.success(), "{out:?}");
            Some(std::fs::read(path).expect("a file system"))
        }
        Err(e) => {
            assert!(!tools_required(), "mke2fs: {e}");
            eprintln!("skipped: mke2fs: {e} (NAGORI_REQUIRE_TOOLS=1 makes this a failure)");
            None
        }
    }
}

#[test]
fn nvmm_as_a_pmem_region_holds_a_file_system() {
    let Some(image) = image() else { return };
    let files = Files::new();
    let Some(fs) = file_system(&files) else {
        return;
    };
    let mut initrd = std::fs::read(&image.initrd).expect("an initrd");
    initrd.resize(initrd.len().next_multiple_of(4), 0);
    initrd.extend(overlay_cpio(&[("fs", 0o644, &fs[..])]).expect("an archive"));
    let initrd = files.write("initrd", &initrd);
    // The second half of the script runs after a restart, which leaves NVMM as it is.
    let script = r#"
echo "size=$(cat /sys/block/pmem0/size)"
mkdir -p /mnt
if mount -t ext4 -o dax=always /dev/pmem0 /mnt 2>/dev/null; then
    echo "again=$(cat /mnt/file)"
    umount /mnt
    exit 9
fi
dd if=/fs of=/dev/pmem0 bs=1M 2>/dev/null
mount -t ext4 -o dax=always /dev/pmem0 /mnt || exit 1
echo "dax=$(grep -c 'pmem0.*dax=always' /proc/mounts)"
dd if=/dev/urandom of=/mnt/data bs=64k count=4 2>/dev/null
sum=$(md5sum < /mnt/data)
echo "kept over a restart" > /mnt/file
umount /mnt
echo 3 > /proc/sys/vm/drop_caches
mount -t ext4 -o dax=always /dev/pmem0 /mnt || exit 2
[ "$(md5sum < /mnt/data)" = "$sum" ] || exit 3
echo "first=$(cat /mnt/file)"
umount /mnt
sync
reboot -f"#;
    let args = [
        "--nvmm",
        "pmem-region",
        "--set",
        "advertise_zicbom=true",
        "--initrd",
        initrd.to_str().expect("UTF-8"),
    ];
    let lines = boot(&args, script, 9);
    // 3 GiB in sectors of 512 bytes; a little may be taken for a label.
    assert!(number(&lines, "size") > 6_200_000, "{lines:#?}");
    assert_eq!(number(&lines, "dax"), 1);
    assert_eq!(value(&lines, "first"), "kept over a restart");
    assert_eq!(value(&lines, "again"), "kept over a restart");
    assert_eq!(lines.iter().filter(|l| *l == "nagori: init").count(), 1);
}

#[test]
fn a_shell_takes_its_input_from_a_pipe() {
    if image().is_none() {
        return;
    }
    nagori()
        .timeout(PATIENCE)
        .args(["boot", "--append", "quiet", "--set", "harts=2"])
        .write_stdin("echo hel''lo; exit 3\n")
        .assert()
        .code(3)
        .stdout(contains("\r\nhello\r\n"));
}

/// Statistics of a boot with an engine, as JSON, and what the console showed.
fn counted(engine: &str, args: &[&str], code: i32) -> (String, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("stats.json");
    let out = nagori()
        .timeout(PATIENCE)
        .args([
            "--quiet",
            "boot",
            "--run",
            "nagori-ctl show; sort /proc/filesystems",
        ])
        .args(["--engine", engine, "--stats-file"])
        .arg(&file)
        .args(args)
        .assert()
        .code(code);
    let stats = std::fs::read_to_string(&file).expect("statistics");
    let mut stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    // What the host took is no result.
    stats.as_object_mut().expect("an object").remove("host");
    let console = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    (stats.to_string(), console)
}

#[test]
fn a_boot_is_the_same_with_both_engines() {
    if image().is_none() {
        return;
    }
    // All of it, functional; and the beginning with the timing model, on one hart and on four.
    let ways: [(&[&str], i32); 3] = [
        (&["--functional", "--append", "quiet"], 0),
        (&["--max-instructions", "30000000", "--set", "harts=1"], 124),
        (&["--max-instructions", "20000000"], 124),
    ];
    for (args, code) in ways {
        let [interpreted, translated] =
            ["interpreter", "translator"].map(|e| counted(e, args, code));
        assert!(
            interpreted.0.contains("l1d_load_misses"),
            "{}",
            interpreted.0
        );
        assert_eq!(interpreted, translated, "{args:?}");
    }
}
