//! What a machine is made of, apart from its harts: description, bus, devices, device tree, loading.
//!
//! * [`config`]: machine descriptions in TOML, resolved and checked.
//! * [`bus`], [`device`], [`devices`], [`map`]: what sits at which address; [`assembly`] attaches it.
//! * [`control`]: registers through which guests set delays and read statistics.
//! * [`fdt`], [`tree`]: the device tree, generated from what is attached.
//! * [`loader`]: firmware, kernels and bare-metal programs.
//! * [`clock`]: machine time.

pub mod assembly;
pub mod bus;
pub mod clock;
pub mod config;
pub mod control;
pub mod device;
pub mod devices;
pub mod fdt;
pub mod iomap;
pub mod loader;
pub mod map;
pub mod tree;

/// Compares a text with a file in `tests/golden`; NAGORI_BLESS=1 rewrites the file.
#[cfg(test)]
pub(crate) fn golden(name: &str, actual: &str) {
    golden_as(name, actual, str::to_string);
}

/// As [`golden`], for a text that can be written in several ways: `form` brings that of the file into the form of the
/// actual one.
#[cfg(test)]
pub(crate) fn golden_as(name: &str, actual: &str, form: impl Fn(&str) -> String) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read_to_string(&path).map(|text| form(&text));
    if expected.is_ok_and(|expected| expected == actual) {
        return;
    }
    if std::env::var_os("NAGORI_BLESS").is_some() {
        std::fs::write(&path, actual).expect("the golden file can be written");
        return;
    }
    panic!("{name} differs from the golden file; NAGORI_BLESS=1 rewrites it:\n{actual}");
}

/// A host tool for a test, or `None` with a message: then the test is skipped,
/// unless NAGORI_REQUIRE_TOOLS makes that a failure.
#[cfg(test)]
pub(crate) fn tool(name: &'static str) -> Option<&'static str> {
    let quiet = std::process::Stdio::null;
    let found = std::process::Command::new(name)
        .arg("--version")
        .stdout(quiet())
        .stderr(quiet())
        .status();
    let required = std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1");
    assert!(
        found.is_ok() || !required,
        "{name} is not installed, and NAGORI_REQUIRE_TOOLS=1"
    );
    if found.is_err() {
        eprintln!("skipped: {name} is not installed (NAGORI_REQUIRE_TOOLS=1 makes this a failure)");
    }
    found.is_ok().then_some(name)
}
