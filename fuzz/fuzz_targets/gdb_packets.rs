#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| nagori_fuzz::gdb_packets(data));
