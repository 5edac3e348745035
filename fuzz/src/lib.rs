//! The fuzz targets, each a function of an [`arbitrary::Arbitrary`] input that panics if anything is
//! wrong. `fuzz_targets/` makes programs of them, `tests/replay.rs` replays what they found.
#![forbid(unsafe_code)]

pub mod balancer;
pub mod config;
pub mod importer;
pub mod ring;
pub mod selectors;

// The importer is an example of `balancer`, whose modules expect each other here.
#[path = "../../crates/balancer/examples/import_nginx/nginx/mod.rs"]
mod nginx;
#[path = "../../crates/balancer/examples/import_nginx/pool.rs"]
mod pool;
