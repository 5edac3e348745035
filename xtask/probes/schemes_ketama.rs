//! A ring of another program places other keys.

use ketama::{Bucket, Continuum, Scheme, SchemeConfig};

fn main() {
    let buckets = [1, 2, 3, 4].map(|n| Bucket::new(format!("10.0.0.{n}:80").parse().unwrap(), 1));
    let nginx = Continuum::new(&buckets).unwrap();
    let config = SchemeConfig::new(Scheme::LibKetama);
    let libketama = Continuum::with_scheme(&buckets, &config).unwrap();
    let keys = (0..10_000).map(|n| format!("key-{n}"));
    let moved = keys.filter(|key| nginx.node(key.as_bytes()) != libketama.node(key.as_bytes()));
    assert!(moved.count() > 1_000);
}
