//! `nagori iomap`.

use crate::common::*;
use predicates::str::contains;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A controller with 18 registers and 256 words of buffers, as a published system had it.
const PORTS: &str = "\
# VM 0 finds its network controller where another system has it.
0x92000000 0x40001000 4 x18
0x92000400 0x40001400 4 x256
";

#[test]
fn the_fewest_entries_are_shown() {
    let files = Files::new();
    let list = files.write("ports.txt", PORTS.as_bytes());
    let out = nagori().args(["iomap", "merge"]).arg(&list).assert();
    let out = out.code(0).get_output().clone();
    golden("iomap.txt", &String::from_utf8(out.stdout).unwrap());
    golden("iomap-notes.txt", &String::from_utf8(out.stderr).unwrap());
    let merge = |more: &[&str]| {
        let mut c = nagori();
        c.args(["iomap", "merge", "--json", "-"]).args(more);
        let out = c.write_stdin(PORTS).assert().code(0).get_output().clone();
        serde_json::from_slice::<Value>(&out.stdout).unwrap()
    };
    let v = merge(&[]);
    assert_eq!(v["ports"], 274);
    assert_eq!(v["entries"].as_array().unwrap().len(), 3);
    assert_eq!(v["slack_bytes"], 0);
    let choices = serde_json::json!([
        { "slack": 0, "entries": 3 }, { "slack": 64, "entries": 2 }, { "slack": 1024, "entries": 1 },
    ]);
    assert_eq!(v["choices"], choices);
    let v = merge(&["--slack", "64"]);
    assert_eq!(v["entries"].as_array().unwrap().len(), 2);
    assert_eq!(v["entries"][0]["bytes"], 128);
    assert_eq!(v["slack_bytes"], 56);
}

#[test]
fn the_module_is_accepted_by_verilator() {
    let files = Files::new();
    let list = files.write(
        "ports.txt",
        format!("{PORTS}0x10 0x2_0000_0000 8 vm=1 r\n").as_bytes(),
    );
    let module = files.path("soc_io_map.sv");
    let mut c = nagori();
    c.args(["iomap", "merge", "--verilog"])
        .args([&module, &list]);
    c.assert().code(0);
    let text = std::fs::read_to_string(&module).unwrap();
    assert!(text.contains("module soc_io_map #("), "{text}");
    if Command::new("verilator").arg("--version").output().is_err() {
        let required = std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!required, "verilator is not installed");
        return;
    }
    let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/io_map.sv");
    let mut c = Command::new("verilator");
    c.args(["--lint-only", "--top-module", "soc_io_map"]);
    let out = c.args([&module, &map]).output().unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
fn bad_lists_and_names_are_refused() {
    let refused = |text: &str, more: &[&str], what: &str| {
        let mut c = nagori();
        c.args(["iomap", "merge", "-"])
            .args(more)
            .write_stdin(text.to_string());
        c.assert().code(1).stdout("").stderr(contains(what));
    };
    refused("", &[], "standard input: no port is listed");
    refused("4 5", &[], "line 1");
    refused("0 0x100 4\nzero", &[], "line 2: `zero`");
    refused("0 0x100 4\nkeep 0x102 1", &[], "lines 1 and 2");
    refused(
        "0 0x100 4",
        &["--verilog", "io_map.sv"],
        "other than io_map",
    );
    refused("0 0x100 4", &["--verilog", "-", "--json"], "--json");
    let mut c = nagori();
    c.args(["iomap", "merge", "/does/not/exist"]);
    c.assert().code(1).stderr(contains("/does/not/exist"));
}
