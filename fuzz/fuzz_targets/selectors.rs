#![no_main]

libfuzzer_sys::fuzz_target!(|input: fuzz::selectors::Input| fuzz::selectors::run(input));
