//! Debian guests: images from the cache, boots, what their scripts print.
#![allow(dead_code)]

use nagori_image::{build, Error, GuestImage, Options};
use std::time::Duration;

/// A boot takes seconds of processor time; the host may be busy.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// Whether a test that lacks a tool fails.
pub fn tools_required() -> bool {
    std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1")
}

/// The result, or nothing with a message if the host lacks a tool for it.
pub fn made<T>(what: Result<T, Error>) -> Option<T> {
    match what {
        Ok(made) => Some(made),
        Err(e @ Error::ToolMissing { .. }) if !tools_required() => {
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

pub fn options() -> Options {
    Options::from_env().expect("a cache directory")
}

/// Kernel, firmware and initramfs.
pub fn image() -> Option<GuestImage> {
    made(build(&options(), &mut |p| eprintln!("{p}")))
}

/// Boots, runs `script`, and returns the lines after init's greeting.
pub fn boot(args: &[&str], script: &str, code: i32) -> Vec<String> {
    let out = super::nagori()
        .timeout(PATIENCE)
        .args(["--quiet", "boot", "--append", "quiet", "--run", script])
        .args(args)
        .assert()
        .code(code);
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    let all: Vec<String> = text.lines().map(|l| l.trim_end().to_string()).collect();
    let init = all.iter().position(|l| l == "nagori: init");
    all[init.unwrap_or_else(|| panic!("no init:\n{text}")) + 1..].to_vec()
}

/// The value behind `name=`.
pub fn value<'a>(lines: &'a [String], name: &str) -> &'a str {
    let mut found = lines
        .iter()
        .filter_map(|l| l.strip_prefix(name)?.strip_prefix('='));
    found
        .next()
        .unwrap_or_else(|| panic!("no {name} in {lines:#?}"))
}
