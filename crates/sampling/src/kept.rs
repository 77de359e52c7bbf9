//! Windows as snapshots, so that they are measured elsewhere.

use crate::window::{measure, Failure, Length, Window};
use nagori_machine::{Engine, Machine};
use nagori_snapshot::{Meta, Snapshot};
use serde_json::{from_value, to_value, Value};
use std::path::Path;

/// The note of a snapshot that makes it a window.
const NOTE: &str = "window";
const NUMBER: &str = "window_number";

/// Writes the window of a moment into a directory.
pub fn write(m: &mut Machine, dir: &Path, moment: u64, length: Length) -> Result<(), Failure> {
    let mut meta = Meta::new();
    meta.insert(NOTE.into(), to_value(length).map_err(|e| e.to_string())?);
    meta.insert(NUMBER.into(), Value::from(moment));
    let file = dir.join(name(moment));
    let written = nagori_snapshot::save_file(m, &file, &meta);
    written
        .map(|_| ())
        .map_err(|e| format!("{}: {e}", file.display()))
}

/// The file of a moment's window.
pub fn name(moment: u64) -> String {
    format!("window-{moment:06}.snap")
}

/// Measures the window in a file: its number, its length, and what has come of it (`None`: the program ended before).
pub fn run(
    file: &Path,
    engine: Engine,
    connect: impl Fn(&mut Machine) -> Result<(), Failure>,
) -> Result<(u64, Length, Option<Window>), Failure> {
    let words = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
    let open = || Snapshot::open(file).map_err(|e| words(&e));
    let meta = open()?.header().meta.clone();
    let (Some(length), Some(number)) = (meta.get(NOTE), meta.get(NUMBER).and_then(Value::as_u64))
    else {
        return Err(words(
            &"not a window: a snapshot that --windows-to has written is expected",
        ));
    };
    let length: Length = from_value(length.clone()).map_err(|e| words(&e))?;
    let once = |as_hits: bool| -> Result<Option<Window>, Failure> {
        let mut m = open()?.machine().map_err(|e| words(&e))?;
        m.set_engine(engine).map_err(|e| words(&e))?;
        connect(&mut m)?;
        m.watch_cold(as_hits);
        Ok(measure(&mut m, length))
    };
    let mut found = once(false)?;
    if let Some(w) = found.as_mut().filter(|w| w.is_in_doubt()) {
        w.bound(once(true)?.as_ref());
    }
    Ok((number, length, found))
}
