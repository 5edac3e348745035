//! Every point and many owners of V1 rings, as digests: equal whatever features are on.

use ketama::{Bucket, Continuum};

fn main() {
    let addresses = (0..100).map(|n| format!("10.0.{}.{}:80{n:02}", n % 3, n));
    let texts = [
        "[2001:db8::1]:443",
        "[::ffff:10.0.0.1]",
        "unix:/run/a.sock",
        "name",
        "b:080",
    ];
    let texts = addresses.chain(texts.map(str::to_owned));
    let buckets: Vec<_> = (0u32..)
        .zip(texts)
        .map(|(n, text)| Bucket::from_text(text, n % 6))
        .collect();
    let ring = Continuum::new(&buckets).unwrap();
    let mut points = Digest::new();
    for (hash, node) in ring.points() {
        points.add(&hash.to_le_bytes());
        points.add(&node.to_le_bytes());
    }
    let mut owners = Digest::new();
    for n in 0..20_000 {
        let key = format!("key-{n}").repeat(n % 5);
        owners.add(&ring.node_idx(key.as_bytes()).unwrap().to_le_bytes());
    }
    let mut orders = Digest::new();
    for n in 0..200 {
        for bucket in ring.nodes(format!("key-{n}").as_bytes()) {
            orders.add(bucket.text().as_bytes());
        }
    }
    println!(
        "{} points {:x} owners {:x} orders {:x}",
        ring.len(),
        points.0,
        owners.0,
        orders.0
    );
}
