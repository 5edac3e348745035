//! Lookup, build and change of rings from 640 to 16 million points.
//!
//! `cargo bench -p ketama --features v2 --bench ring -- build/1000x10` runs a part. Each answer is
//! checked before it is timed.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ketama::{Change, Continuum};

mod pools;
use pools::{POOLS, configs, pool};

fn lookup(criterion: &mut Criterion) {
    let keys: Vec<String> = (0..1u64 << 14)
        .map(|i| format!("key-{}", i.wrapping_mul(2_654_435_761) % 10_000_000))
        .collect();
    let mut group = criterion.benchmark_group("lookup");
    group.throughput(Throughput::Elements(keys.len() as u64));
    for (shape, buckets, weight) in POOLS {
        for (layout, config) in configs() {
            let ring = Continuum::with_config(&pool(buckets, weight), &config).unwrap();
            for key in &keys {
                let hash = ring.hash(key.as_bytes());
                let expected = ring.points().find(|&(point, _)| point >= hash);
                // Every key on the small rings, the first few on the large ones.
                if ring.len() > 1_000 && *key != keys[0] {
                    break;
                }
                let (_, owner) = expected.or_else(|| ring.points().next()).unwrap();
                assert_eq!(ring.node_idx(key.as_bytes()), Some(owner));
            }
            group.bench_function(BenchmarkId::new(shape, layout), |bench| {
                bench.iter(|| {
                    for key in &keys {
                        black_box(ring.node(key.as_bytes()));
                    }
                });
            });
        }
    }
}

fn build(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build");
    for (shape, buckets, weight) in POOLS {
        let pool = pool(buckets, weight);
        for (layout, config) in configs() {
            let points = Continuum::with_config(&pool, &config).unwrap().len();
            let asked = u64::from(buckets * weight * 160);
            assert!(points as u64 <= asked && points as u64 > asked - asked / 100);
            group.throughput(Throughput::Elements(asked));
            group.bench_function(BenchmarkId::new(shape, layout), |bench| {
                bench.iter_with_large_drop(|| Continuum::with_config(&pool, &config).unwrap());
            });
        }
    }
}

fn change(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("change");
    for (shape, buckets, weight) in POOLS {
        let before = Continuum::new(&pool(buckets, weight)).unwrap();
        let middle = before.buckets()[buckets as usize / 2].clone();
        let extra = ketama::Bucket::from_text("192.0.2.1:80", weight);
        let changes = [
            ("add", Change::Add(extra)),
            ("remove", Change::Remove(middle.text().into())),
            (
                "weight",
                Change::SetWeight(middle.text().into(), weight + 1),
            ),
        ];
        for (name, change) in changes {
            let changes = [change];
            let after = before.applied(&changes).unwrap();
            let fresh = Continuum::new(after.buckets()).unwrap();
            assert_eq!(after.fingerprint(), fresh.fingerprint());
            group.bench_function(BenchmarkId::new(shape, name), |bench| {
                bench.iter_batched(
                    || (),
                    |()| before.applied(&changes).unwrap(),
                    BatchSize::PerIteration,
                );
            });
        }
    }
}

criterion_group! {
    name = ring;
    // Short: sixty rows, on machines that have other things to do.
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    targets = lookup, build, change
}
criterion_main!(ring);
