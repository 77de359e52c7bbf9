#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| nagori_fuzz::off2f_files(data));
