#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| nagori_fuzz::nvmm_image(data));
