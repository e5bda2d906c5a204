#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_fuzz::wire::both_sides(data));
