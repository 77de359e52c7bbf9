//! For tests: compares texts with those in files, which `NAGORI_BLESS=1` writes anew.
#![forbid(unsafe_code)]

use std::path::Path;

/// Compares a text with a file.
///
/// # Panics
///
/// If they differ, unless `NAGORI_BLESS=1`, which writes the file.
#[track_caller]
pub fn golden(path: impl AsRef<Path>, actual: &str) {
    golden_as(path, actual, str::to_string);
}

/// As [`golden`], for a text that can be written in several ways: `form` brings that of the file into the form of the
/// actual one.
#[track_caller]
pub fn golden_as(path: impl AsRef<Path>, actual: &str, form: impl Fn(&str) -> String) {
    let path = path.as_ref();
    let expected = std::fs::read_to_string(path).map(|text| form(&text));
    if expected.is_ok_and(|expected| expected == actual) {
        return;
    }
    if std::env::var_os("NAGORI_BLESS").is_some_and(|v| v == "1") {
        return std::fs::write(path, actual).expect("the file can be written");
    }
    let name = path.display();
    panic!("{name} differs from this, and NAGORI_BLESS=1 writes it anew:\n{actual}");
}
