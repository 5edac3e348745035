//! What rings take on the heap, index and pushed-aside points included.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::print_stdout, reason = "the table is the result")]

use ketama::Continuum;

mod pools;
use pools::{POOLS, configs, pool};

fn main() {
    println!(
        "{:<10} {:<6} {:>10} {:>12} {:>6}",
        "pool", "layout", "points", "bytes", "each"
    );
    for (shape, buckets, weight) in POOLS {
        for (layout, config) in configs() {
            let ring = Continuum::with_config(&pool(buckets, weight), &config).unwrap();
            let (points, bytes) = (ring.len(), ring.heap_size());
            let hundredths = bytes * 100 / points;
            let (whole, rest) = (hundredths / 100, hundredths % 100);
            println!("{shape:<10} {layout:<6} {points:>10} {bytes:>12} {whole:>3}.{rest:02}");
        }
    }
}
