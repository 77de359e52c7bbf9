//! The header in the tree is the one that the source gives.

use std::path::Path;

#[test]
fn committed_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let sources = ["lib.rs", "axi.rs", "run.rs"];
    let builder = sources.iter().fold(cbindgen::Builder::new(), |b, s| {
        b.with_src(root.join("src").join(s))
    });
    let mut text = Vec::new();
    builder
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut text);
    let text = String::from_utf8(text).unwrap();
    nagori_golden::golden(root.join("include/nagori_rtl.h"), &text);
}
