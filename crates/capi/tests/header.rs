//! The header in the tree is the one that the source gives.

use std::path::Path;

#[test]
fn committed_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_src(root.join("src/lib.rs"));
    let mut text = Vec::new();
    builder
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut text);
    let text = String::from_utf8(text).unwrap();
    nagori_golden::golden(root.join("include/nagori_memory.h"), &text);
}
