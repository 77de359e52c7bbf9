//! Names the shared library for programs that were linked with it. The number is that of
//! `NAGORI_ABI_VERSION` (a test compares them).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnagori_memory.so.2");
}
