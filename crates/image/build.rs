//! Makes cargo compile the crate again when a guest source is added or removed.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for dir in ["agent", "bench", "lib", "include", "init", "malloc"] {
        println!("cargo:rerun-if-changed=../../guest/{dir}");
    }
}
