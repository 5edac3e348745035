#![no_main]

libfuzzer_sys::fuzz_target!(|input: fuzz::ring::Input| fuzz::ring::run(input));
