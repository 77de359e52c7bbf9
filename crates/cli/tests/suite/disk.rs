//! Disks of a guest, from both sides, and after the emulator was killed.
//!
//! Needs what `nagori image build` needs, mkfs.ext4, e2fsck and debugfs; skipped where a tool is
//! missing, unless NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::*;
use crate::common::*;
use nagori_disk::{Disk, Writes};
use predicates::str::contains;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Whether the tests of this file can be run here.
fn ready() -> bool {
    for tool in ["mkfs.ext4", "e2fsck", "debugfs", "sha256sum"] {
        let found = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
            .iter()
            .any(|d| Path::new(d).join(tool).exists());
        if !found {
            assert!(!tools_required(), "{tool} is missing");
            eprintln!("skipped: {tool} is missing");
            return false;
        }
    }
    image().is_some()
}

/// A tool of the host, which may be where only root looks.
fn tool(name: &str) -> Command {
    let mut c = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    c.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    c
}

fn output(c: &mut Command) -> String {
    let out = c.output().unwrap_or_else(|e| panic!("{c:?}: {e}"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success(),
        "{c:?}: {text}{:?}",
        String::from_utf8_lossy(&out.stderr)
    );
    text
}

fn sha256(path: &Path) -> String {
    let text = output(Command::new("sha256sum").arg(path));
    text[..64].to_string()
}

/// An ext4 file system of `mib` MiB with one file, `in`, of bytes that follow from `seed`.
fn file_system(dir: &Path, name: &str, mib: u64, seed: u64) -> (PathBuf, String) {
    let tree = dir.join(format!("{name}.tree"));
    std::fs::create_dir(&tree).unwrap();
    let mut x = seed;
    let bytes: Vec<u8> = (0..3 * MIB / 8 + 5)
        .flat_map(|_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x ^ x >> 33).to_le_bytes()
        })
        .collect();
    let input = tree.join("in");
    std::fs::write(&input, bytes).unwrap();
    let image = dir.join(name);
    let mut mkfs = tool("mkfs.ext4");
    mkfs.args(["-q", "-F", "-d"]).arg(&tree).arg(&image);
    output(mkfs.arg(format!("{mib}M")));
    (image, sha256(&input))
}

/// Copies what a disk shows into a raw file.
fn export(disk: &Disk, to: &Path) {
    let mut file = std::fs::File::create(to).unwrap();
    let mut piece = vec![0; MIB as usize];
    for at in (0..disk.size()).step_by(MIB as usize) {
        disk.read(at, &mut piece).unwrap();
        file.write_all(&piece).unwrap();
    }
}

/// Takes a file out of a file system.
fn take(image: &Path, name: &str) -> PathBuf {
    let to = image.with_extension(format!("{}.out", name.trim_start_matches('/')));
    let request = format!("dump {name} {}", to.display());
    output(tool("debugfs").args(["-R", &request]).arg(image));
    to
}

/// The file system is sound, without having to be repaired.
fn sound(image: &Path) {
    output(tool("e2fsck").arg("-fn").arg(image));
}

#[test]
fn data_goes_into_the_guest_and_out_again() {
    if !ready() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let names = ["raw", "base", "temp", "readonly"];
    let disks: Vec<_> = (0..)
        .zip(names)
        .map(|(n, name)| file_system(dir.path(), name, 32, n))
        .collect();
    let before: Vec<String> = disks.iter().map(|(image, _)| sha256(image)).collect();
    let overlay = dir.path().join("overlay");
    let path = |n: usize| disks[n].0.display().to_string();
    let args = [
        "--disk".to_string(),
        path(0),
        "--disk".into(),
        format!("{},overlay={}", path(1), overlay.display()),
        "--disk".into(),
        format!("{},overlay=temp", path(2)),
        "--disk".into(),
        format!("{},ro", path(3)),
    ];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let script = r#"
modprobe -a virtio_blk ext4
echo "serial=$(cat /sys/block/vdb/serial)"
echo "ro=$(cat /sys/block/vd*/ro | tr '\n' ' ')"
for d in vda vdb vdc; do
    mkdir -p /mnt/$d
    mount -t ext4 /dev/$d /mnt/$d || exit 1
    echo "in-$d=$(sha256sum </mnt/$d/in | cut -c1-64)"
    dd if=/dev/urandom of=/mnt/$d/out bs=37k count=60 2>/dev/null
    sync
    echo 3 >/proc/sys/vm/drop_caches
    echo "out-$d=$(sha256sum </mnt/$d/out | cut -c1-64)"
    umount /mnt/$d
done
mkdir -p /mnt/vdd
mount -t ext4 -o ro /dev/vdd /mnt/vdd && echo "in-vdd=$(sha256sum </mnt/vdd/in | cut -c1-64)"
dd if=/dev/zero of=/dev/vdd bs=512 count=1 2>/dev/null && echo "it was written"
echo "interrupts=$(grep -c virtio /proc/interrupts)"
"#;
    let text = boot(&args, script, 0);
    assert_eq!(value(&text, "serial"), "block1");
    assert_eq!(value(&text, "ro"), "0 0 0 1");
    for (n, d) in ["vda", "vdb", "vdc", "vdd"].iter().enumerate() {
        assert_eq!(value(&text, &format!("in-{d}")), disks[n].1, "{d}");
    }
    assert!(!text.iter().any(|l| l == "it was written"), "{text:#?}");
    // The host's side: the file itself, the overlay, and nothing of what was thrown away.
    sound(&disks[0].0);
    assert_eq!(sha256(&take(&disks[0].0, "/out")), value(&text, "out-vda"));
    let over = Disk::open(&disks[1].0, &Writes::Overlay(overlay.clone())).unwrap();
    let seen = dir.path().join("seen");
    export(&over, &seen);
    drop(over);
    sound(&seen);
    assert_eq!(sha256(&take(&seen, "/out")), value(&text, "out-vdb"));
    for n in 1..4 {
        assert_eq!(sha256(&disks[n].0), before[n], "{}", names[n]);
    }
    // A second machine finds what the first has left in the overlay.
    let again = boot(
        &args[2..4],
        "modprobe -a virtio_blk ext4; mkdir -p /m; mount -t ext4 /dev/vda /m; echo \"out=$(sha256sum </m/out | cut \
            -c1-64)\"; umount /m",
        0,
    );
    assert_eq!(value(&again, "out"), value(&text, "out-vdb"));
}

#[test]
fn what_the_guest_has_flushed_survives_a_kill() {
    if !ready() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let (raw, _) = file_system(dir.path(), "raw", 64, 1);
    let (base, _) = file_system(dir.path(), "base", 64, 2);
    let overlay = dir.path().join("overlay");
    let script = r#"
modprobe -a virtio_blk ext4
for d in vda vdb; do
    mkdir -p /mnt/$d
    mount -t ext4 /dev/$d /mnt/$d || exit 1
done
n=0
while :; do
    for d in vda vdb; do
        # A file that is still being written, and one that is flushed.
        dd if=/dev/urandom of=/mnt/$d/loose bs=64k count=16 2>/dev/null &
        dd if=/dev/urandom of=/mnt/$d/f$n bs=10k count=$((n % 7 + 1)) conv=fsync 2>/dev/null
        echo "flushed $d /f$n $(sha256sum </mnt/$d/f$n | cut -c1-64)"
    done
    n=$((n + 1))
done
"#;
    let program = assert_cmd::cargo::cargo_bin("nagori");
    let mut child = Command::new(program)
        .env_remove("NAGORI_MACHINES")
        .args([
            "--quiet", "boot", "--append", "quiet", "--run", script, "--disk",
        ])
        .arg(&raw)
        .arg("--disk")
        .arg(format!("{},overlay={}", base.display(), overlay.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut flushed = Vec::new();
    let mut all = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap().replace('\r', "");
        all += &format!("{line}\n");
        let words: Vec<&str> = line.split(' ').collect();
        if let ["flushed", disk, name, sum] = words[..] {
            flushed.push((disk.to_string(), name.to_string(), sum.to_string()));
        }
        if flushed.len() == 24 {
            // SIGKILL, in the middle of whatever it does.
            child.kill().unwrap();
            break;
        }
    }
    child.wait().unwrap();
    assert_eq!(flushed.len(), 24, "{all}");
    let seen = dir.path().join("seen");
    export(
        &Disk::open(&base, &Writes::Overlay(overlay)).unwrap(),
        &seen,
    );
    for (disk, image) in [("vda", &raw), ("vdb", &seen)] {
        // The journal is replayed, and then nothing is left to repair.
        let status = tool("e2fsck").args(["-p"]).arg(image).status().unwrap();
        assert!(matches!(status.code(), Some(0 | 1)), "{disk}: {status}");
        sound(image);
        for (_, name, sum) in flushed.iter().filter(|f| f.0 == disk) {
            assert_eq!(&sha256(&take(image, name)), sum, "{disk}{name}");
        }
    }
}

#[test]
fn discarded_space_goes_back_to_the_host() {
    if !ready() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let (raw, _) = file_system(dir.path(), "raw", 64, 1);
    let (base, _) = file_system(dir.path(), "base", 64, 2);
    let overlay = dir.path().join("overlay");
    let over = format!("{},overlay={}", base.display(), overlay.display());
    let script = r#"
modprobe -a virtio_blk ext4
for d in vda vdb; do
    mkdir -p /mnt/$d
    mount -t ext4 -o discard /dev/$d /mnt/$d || exit 1
    dd if=/dev/urandom of=/mnt/$d/big bs=1M count=24 2>/dev/null
done
sync
rm /mnt/vd*/big
sync
umount /mnt/vda /mnt/vdb
"#;
    let space = |path: &Path| std::fs::metadata(path).unwrap().blocks() * 512;
    boot(
        &["--disk", raw.to_str().unwrap(), "--disk", &over],
        script,
        0,
    );
    // What is left: the file `in`, the journal, tables; without discard, 24 MiB more.
    for file in [&raw, &overlay] {
        assert!(
            space(file) < 20 * MIB,
            "{}: {}",
            file.display(),
            space(file)
        );
    }
    sound(&raw);
    let kept = script.replace("rm /mnt/vd*/big", ":");
    boot(
        &["--disk", raw.to_str().unwrap(), "--disk", &over],
        &kept,
        0,
    );
    for file in [&raw, &overlay] {
        assert!(
            space(file) >= 24 * MIB,
            "{}: {}",
            file.display(),
            space(file)
        );
    }
}

#[test]
fn disks_take_the_same_time_however_fast_the_host_is() {
    if !ready() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let (raw, _) = file_system(dir.path(), "raw", 32, 1);
    let disk = format!("{},overlay=temp", raw.display());
    let script = "modprobe virtio_blk; dd if=/dev/vda of=/dev/null bs=64k; dd if=/dev/zero of=/dev/vda bs=64k count=64 \
        conv=fsync";
    let run = |more: &[&str]| {
        let mut args = vec!["--disk", &disk, "--stats", "json"];
        args.extend(more);
        let text = boot(&args, script, 0).join("\n");
        let json = &text[text.find("\n{").expect("statistics")..];
        let mut all: serde_json::Value = serde_json::from_str(json).unwrap();
        all.as_object_mut().unwrap().remove("host");
        all
    };
    assert_eq!(run(&[]), run(&["--engine", "interpreter"]));
}

#[test]
fn disks_that_cannot_be_used_are_refused() {
    let dir = TempDir::new().unwrap();
    let odd = dir.path().join("odd");
    std::fs::write(&odd, [0; 1000]).unwrap();
    for (disk, problem) in [
        (odd.display().to_string(), "add 24"),
        ("/nowhere/disk".into(), "cannot write"),
        ("/nowhere/disk,ro".into(), "cannot read"),
    ] {
        if !ready() {
            return;
        }
        nagori()
            .timeout(PATIENCE)
            .args(["boot", "--disk", &disk])
            .assert()
            .code(1)
            .stderr(contains(problem));
    }
    nagori()
        .args(["boot", "--disk", "a,rw"])
        .assert()
        .code(2)
        .stderr(contains("expected ro, overlay=FILE or overlay=temp"));
}
