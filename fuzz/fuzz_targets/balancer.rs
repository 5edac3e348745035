#![no_main]

libfuzzer_sys::fuzz_target!(|input: fuzz::balancer::Input| fuzz::balancer::run(input));
