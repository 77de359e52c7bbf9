//! The monitor for enclaves of `guest/enclave`: a hostile host and a hostile enclave reach nothing, and what is sealed
//! survives power cuts, under every method.

use crate::common::{make, nagori};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The monitor with its host; `None` without a cross compiler.
fn build(place: &Path) -> Option<PathBuf> {
    make("enclave", place, &[]).then(|| place.join("enclave.elf"))
}

/// Runs it to its end, and returns what was printed.
fn run(elf: &Path, args: &[&str]) -> String {
    let mut c = nagori();
    c.args(["bare", "--quiet"]).args(args).arg(elf);
    let out = c.assert().success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    let passed = text.lines().any(|l| l.ends_with(" passed, 0 failed"));
    assert!(passed, "{args:?}:\n{text}");
    text
}

/// What the last boot has found of the bookings before: how many, and how many of them had been acknowledged.
fn recovered(text: &str) -> (u32, u32) {
    let line = text.lines().rfind(|l| l.starts_with("recovered "));
    let mut numbers = line.expect(text).split(' ').filter_map(|w| w.parse().ok());
    (numbers.next().expect(text), numbers.next().expect(text))
}

const TRACKED: [&str; 2] = ["--set", "memory.track_persistence=true"];

#[test]
fn enclaves_are_apart_and_what_they_seal_survives_under_every_method() {
    let place = tempfile::tempdir().unwrap();
    let Some(elf) = build(place.path()) else {
        return;
    };
    for method in ["dram", "coarse", "fine", "extended"] {
        let args = [&TRACKED[..], &["--method", method]].concat();
        // Behind the store of what was sealed, and behind its acknowledgement; DRAM is something else then.
        for (cut, found) in [("marker:stored:6", (6, 5)), ("marker:kept:6", (6, 6))] {
            let args = [&args[..], &["--power-cut-at", cut, "--power-cut-dram", "7"]].concat();
            assert_eq!(recovered(&run(&elf, &args)), found, "{method}, {cut}");
        }
    }
}

#[test]
fn no_power_cut_loses_a_booking_or_lets_an_old_one_return() {
    let place = tempfile::tempdir().unwrap();
    let Some(elf) = build(place.path()) else {
        return;
    };
    // Stores to NVMM, without the timing model. The first 4,700 are those of the monitor's record, which is new, and of
    // the enclave's image.
    let mut found = Vec::new();
    for k in 0..12 {
        let cut = format!("nvmm-write:{}", 4600 + 93 * k);
        let args = ["--functional", "--power-cut-at", &cut];
        let (count, acknowledged) = recovered(&run(&elf, &[&TRACKED[..], &args].concat()));
        let known = count == acknowledged || count == acknowledged + 1;
        assert!(known, "{cut}: {count} of {acknowledged}");
        found.push(count);
    }
    let later = found.iter().filter(|n| **n > 0).count();
    assert!(later >= 8, "cuts are among bookings: {found:?}");
    // One cut after the other, and what was sealed last is always taken.
    let cuts = ["stored:2", "stored:4", "kept:5"].map(|c| format!("marker:{c}"));
    let cuts = cuts.iter().flat_map(|c| ["--power-cut-at", c]);
    let args: Vec<&str> = TRACKED
        .into_iter()
        .chain(["--functional"])
        .chain(cuts)
        .collect();
    assert_eq!(recovered(&run(&elf, &args)), (11, 11));
}

#[test]
fn memory_of_an_enclave_is_zero_after_a_power_cut() {
    let place = tempfile::tempdir().unwrap();
    let Some(elf) = build(place.path()) else {
        return;
    };
    let image = place.path().join("pm.nvmm");
    let raw = place.path().join("raw");
    nagori()
        .args(["nvmm", "create"])
        .arg(&image)
        .assert()
        .success();
    let file = format!("{}", image.display());
    let cut = ["--power-cut-at", "marker:kept:6", "--power-cut-exit"];
    let mut c = nagori();
    c.args(["bare", "--quiet", "--functional", "--nvmm-image", &file]);
    c.args(cut).arg(&elf).assert().success();
    nagori()
        .args(["nvmm", "export"])
        .arg(&image)
        .arg(&raw)
        .assert()
        .success();
    // The first secret of ledger.h, where host.c has the enclave: NVMM keeps it without power.
    let secret = (0x9e37_79b9_7f4a_7c15u64 ^ 0x5e_c4e7).to_le_bytes();
    let mut memory = vec![0; 1 << 15];
    let mut raw = std::fs::File::open(raw).unwrap();
    raw.seek(SeekFrom::Start(2 << 20)).unwrap();
    raw.read_exact(&mut memory).unwrap();
    let there = memory.windows(8).any(|w| w == secret);
    assert!(there, "nothing that could leak was durable");
    // The host looks for it before anything else.
    let text = run(&elf, &["--functional", "--nvmm-image", &file]);
    assert_eq!(recovered(&text), (6, 6));
}
