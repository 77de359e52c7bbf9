//! Compresses the fonts, which become part of the program.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (name, font) in [
        ("regular", dejavu::sans::regular()),
        ("bold", dejavu::sans::bold()),
    ] {
        let file = miniz_oxide::deflate::compress_to_vec(font, 10);
        std::fs::write(out.join(name), file).expect("a file in OUT_DIR");
    }
}
