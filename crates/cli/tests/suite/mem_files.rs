//! `nagori mem`: trace files of every format, written by hand from the formats' descriptions;
//! the trace of a real program; files that are cut; disks that are full.

use crate::common::*;
use assert_cmd::cargo::cargo_bin;
use predicates::str::contains;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn text(p: &Path) -> &str {
    p.to_str().unwrap()
}

fn run(trace: &Path, more: &[&str]) -> Value {
    let mut c = nagori();
    c.args(["mem", "run", "-q", "--memory", "ddr3-1600k", "--json"]);
    let out = c.args(["--trace", text(trace)]).args(more).assert().code(0);
    serde_json::from_slice(&out.get_output().stdout).unwrap()
}

fn fails(trace: &Path, what: &str) {
    let out = trace.with_extension("out");
    nagori()
        .args(["mem", "run", "-q", "--memory", "ddr3-1600k", "--json", "-o"])
        .args([text(&out), "--trace", text(trace)])
        .assert()
        .code(1)
        .stdout("")
        .stderr(contains(what));
    assert!(!out.exists());
}

/// CRC-32 as gzip and our format have it (RFC 1952).
fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, &b| {
        (0..8).fold(crc ^ u32::from(b), |c, _| {
            c >> 1 ^ (0xedb8_8320 & (c & 1).wrapping_neg())
        })
    })
}

/// gzip of one stored block (RFC 1951, 1952).
fn gzip(data: &[u8]) -> Vec<u8> {
    let n = data.len() as u16;
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    out.extend(n.to_le_bytes());
    out.extend((!n).to_le_bytes());
    out.extend(data);
    out.extend(crc32(data).to_le_bytes());
    out.extend(u32::from(n).to_le_bytes());
    out
}

/// Zstandard with one raw block, single segment, size in one byte (RFC 8878).
fn zstd(data: &[u8]) -> Vec<u8> {
    let n = u8::try_from(data.len()).unwrap();
    let block = u32::from(n) << 3 | 1;
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, n];
    out.extend(&block.to_le_bytes()[..3]);
    out.extend(data);
    out
}

/// One trace in all formats: 0x1000 read, 0x2040 written, 0x1000 read; at 10, 25 and 40 where
/// there are times.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let mut gem5 = b"gem5".to_vec();
    // PacketHeader: object name "m", tick frequency 10^12 Hz.
    let header = [0x0a, 1, b'm', 0x18, 0x80, 0xa0, 0x94, 0xa5, 0x8d, 0x1d];
    gem5.push(header.len() as u8);
    gem5.extend(header);
    // Packet: tick, command (1 read, 4 write), address, size.
    for (tick, command, addr) in [
        (10, 1, [0x80, 0x20]),
        (25, 4, [0xc0, 0x40]),
        (40, 1, [0x80, 0x20]),
    ] {
        let packet = [0x08, tick, 0x10, command, 0x18, addr[0], addr[1], 0x20, 64];
        gem5.push(packet.len() as u8);
        gem5.extend(packet);
    }
    let mut ours = b"\x8fNGTRC\r\n\x01\x00\0\0\0\0\0\0\0\0".to_vec();
    // Differences: +0x1000, +0x1040, -0x1040, zigzag in two bytes.
    let records = [0x08, 0x00, 0x20, 0x09, 0x80, 0x20, 0x08, 0x7f, 0x20];
    ours.extend([3, 0, 0, 0, records.len() as u8, 0, 0, 0]);
    ours.extend(records);
    ours.extend([0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    ours.extend(crc32(&records).to_le_bytes());
    let s = |t: &str| t.as_bytes().to_vec();
    vec![
        ("ramulator", s("LD 0x1000\nST 8256\n\nLD 4096\n")),
        (
            "ramulator-vector",
            s("R 0,0,0,0,64\nW 0,0,1,0,1\nR 0,0,0,0,64\n"),
        ),
        (
            "dramsim3",
            s("0x1000 READ 10\n2040 P_MEM_WR 25\n0x1000 P_FETCH 40\n"),
        ),
        (
            "nvmain",
            s("NVMV1\n10 R 0x1000 00 00 0\n25 W 2040 ff\n40 R 1000\n"),
        ),
        ("gem5", gem5),
        (
            "gem5-text",
            s("r,4096,64,0,10\n7,w,8256,64,0,25\nr,4096,64,40\n"),
        ),
        ("nagori", ours),
    ]
}

#[test]
fn hand_written_traces_of_every_format_and_compression() {
    let files = Files::new();
    let mut results = Vec::new();
    for (format, data) in samples() {
        for (suffix, data) in [
            ("", data.clone()),
            (".gz", gzip(&data)),
            (".zst", zstd(&data)),
        ] {
            // The name says nothing: formats are told from what is inside.
            let file = files.write(&format!("{format}{suffix}"), &data);
            for more in [&[][..], &["--format", format]] {
                let v = run(&file, more);
                assert_eq!(v["format"], format, "{suffix}");
                let counts = [&v["requests"], &v["reads"], &v["writes"]].map(|n| n.as_u64());
                assert_eq!(counts, [Some(3), Some(2), Some(1)], "{format}{suffix}");
                results.push((v["cycles"].clone(), v["model"].clone()));
            }
            let untimed = ["ramulator", "ramulator-vector", "nagori"].contains(&format);
            if !untimed {
                let v = run(
                    &file,
                    &["--mode", "timestamped", "--cycle", "1 ps"]
                        [..if format.starts_with("gem5") { 2 } else { 4 }],
                );
                assert_eq!(v["from"], 10, "{format}{suffix}: {}", v["from"]);
            }
        }
    }
    assert_eq!(results.len(), 42);
    for r in &results[1..] {
        assert_eq!(r, &results[0]);
    }
}

#[test]
fn malformed_lines_are_named() {
    let files = Files::new();
    for (format, good, bad) in [
        ("ramulator", "LD 0x0\n", "LD x\n"),
        ("ramulator-vector", "R 0,0,0,0,0\n", "R 0,0,9,0,0\n"),
        ("dramsim3", "0x0 READ 1\n", "0x0 RAED 1\n"),
        ("nvmain", "1 R 0x0\n", "1 Q 0x0\n"),
        ("gem5-text", "r,0,64,0,5\n", "r,0,0,0,5\n"),
    ] {
        let data = format!("{good}\n{good}{bad}{good}");
        for (suffix, data) in [
            ("", data.as_bytes().to_vec()),
            (".gz", gzip(data.as_bytes())),
            (".zst", zstd(data.as_bytes())),
        ] {
            let file = files.write(&format!("{format}{suffix}"), &data);
            fails(&file, &format!("{}, line 4: ", text(&file)));
        }
    }
    for (format, data) in samples() {
        if ["gem5", "nagori"].contains(&format) {
            let file = files.write("cut", &data[..data.len() - 1]);
            fails(&file, "cut, after record ");
        }
    }
}

fn real() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/bzip2.dramsim3.zst")
}

#[test]
fn the_real_trace_whole_and_cut() {
    let v = run(&real(), &[]);
    assert_eq!(
        (&v["requests"], &v["format"]),
        (&400_000.into(), &"dramsim3".into())
    );
    assert_eq!(
        (&v["reads"], &v["writes"]),
        (&241_915.into(), &158_085.into())
    );
    let whole = std::fs::read(real()).unwrap();
    let files = Files::new();
    for (at, what) in [
        (whole.len() - 1, "after line 400000: the data end too early"),
        (
            whole.len() / 2,
            "the data end too early: the file is truncated",
        ),
    ] {
        fails(&files.write("cut.zst", &whole[..at]), what);
    }
}

/// Runs a script in a file system of 256 KiB; `None` where that is not permitted.
fn on_a_small_disk(script: &str) -> Option<Output> {
    let files = Files::new();
    let mounted = format!(
        "mount -t tmpfs -o size=256k small '{0}' || exit 99\ncd '{0}' || exit 99\n{script}",
        text(&files.path("."))
    );
    // Root needs no namespace of users; others do.
    for flags in [&["--mount"][..], &["--user", "--map-root-user", "--mount"]] {
        let out = Command::new("unshare")
            .args(flags)
            .args(["sh", "-c", &mounted])
            .env("NAGORI", cargo_bin("nagori"))
            .output()
            .ok()?;
        let refused = String::from_utf8_lossy(&out.stderr).contains("unshare:");
        if out.status.code() != Some(99) && !refused {
            return Some(out);
        }
    }
    None
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    // Each is too large for the disk, or finds it full; what was there stays as it was.
    let cases = [
        "gen random --count 1000000 -o big",
        "gen random --count 1000000 --format dramsim3 -o big.zst",
        "gen random --count 1000000 --format ramulator -o big.gz",
        "run --memory ddr3 --trace gen:random,count=50000 --commands log -o result --html page.html",
        "run --memory ddr3 --trace gen:random,count=50 -o kept",
        "run --memory ddr3 --trace gen:random,count=50 --html page.html",
        "sweep --memory ddr3 --trace gen:random,count=50 -o table.csv",
    ];
    for case in cases {
        let full = !case.starts_with("gen") && !case.contains("--commands");
        let fill = if full {
            "cat /dev/zero > filler 2>/dev/null"
        } else {
            ""
        };
        let script = format!("echo old > kept\n{fill}\n$NAGORI -q mem {case}\ncode=$?\nrm -f filler\nls -A; cat kept; \
            exit $code");
        let Some(out) = on_a_small_disk(&script) else {
            eprintln!("skipped: no file systems can be mounted here");
            return;
        };
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{case}: {errors}");
        assert!(
            errors.contains("No space left on device"),
            "{case}: {errors}"
        );
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            "kept\nold\n",
            "{case}"
        );
    }
}

#[test]
fn devices_that_are_full() {
    for args in [
        &["gen", "random", "--count", "100000", "-o", "/dev/full"][..],
        &[
            "run",
            "--memory",
            "ddr3",
            "--trace",
            "gen:random,count=50",
            "-o",
            "/dev/full",
        ],
        &[
            "sweep",
            "--memory",
            "ddr3",
            "--trace",
            "gen:random,count=50",
            "-o",
            "/dev/full",
        ],
    ] {
        nagori()
            .args(["-q", "mem"])
            .args(args)
            .assert()
            .code(1)
            .stderr(contains("No space left on device"));
    }
}
