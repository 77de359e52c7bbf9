//! What a machine is made of, apart from its harts: bus, devices, device tree, loading.
//!
//! * [`bus`], [`device`], [`devices`]: what sits at which address; [`assembly`] attaches it.
//! * [`control`]: registers through which guests set delays and read statistics.
//! * [`fdt`], [`tree`]: the device tree, generated from what is attached.
//! * [`loader`]: firmware, kernels and bare-metal programs.
//! * [`clock`]: machine time.

pub mod assembly;
pub mod bus;
pub mod clock;
pub mod control;
pub mod device;
pub mod devices;
mod fault;
pub mod fdt;
pub mod iomap;
pub mod loader;
mod state;
pub mod tree;

/// The path of a file in `tests/golden`.
#[cfg(test)]
pub(crate) fn kept(name: &str) -> String {
    format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
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
