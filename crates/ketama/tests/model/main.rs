//! The ring, fresh and changed, against a model that is obviously right.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use ketama::{Bucket, Continuum};
use proptest::prelude::*;

mod naive;
mod pools;
mod update;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn equals_the_model(pool in pools::pool(), keys in pools::keys()) {
        let buckets = naive::buckets(&pool);
        let ring = Continuum::new(&buckets).unwrap();
        check(&ring, &naive::ring(&buckets, 160, |node| node), &keys)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn differences_equal_the_model(before in pools::pool(), after in pools::pool()) {
        let [old, new] = [before, after].map(|pool| naive::buckets(&pool));
        let [before, after] = [&old, &new].map(|buckets| Continuum::new(buckets).unwrap());
        let moves = before.diff(&after);
        let moves: Vec<_> = moves.iter().map(|step| ((step.from, step.to), step.length)).collect();
        let [old_ring, new_ring] = [&old, &new].map(|buckets| naive::ring(buckets, 160, |node| node));
        let model = naive::diff((&old_ring, &old), (&new_ring, &new));
        prop_assert_eq!(moves, Vec::from_iter(model));
    }
}

#[cfg(feature = "v2")]
proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn v2_equals_the_model(
        pool in pools::pool(), keys in pools::keys(), multiple in 1u32..200,
    ) {
        let buckets = naive::buckets(&pool);
        let point_multiple = multiple.try_into().unwrap();
        let version = ketama::Version::V2 { point_multiple };
        let config = ketama::RingConfig::new().version(version);
        let ring = Continuum::with_config(&buckets, &config).unwrap();
        let rank = |node: usize| {
            let bucket = &buckets[node];
            let weight = std::cmp::Reverse(bucket.weight());
            (bucket.addr().is_none(), bucket.addr(), bucket.text(), weight, node)
        };
        check(&ring, &naive::ring(&buckets, multiple, rank), &keys)?;
    }
}

fn check(
    ring: &Continuum,
    model: &BTreeMap<u32, usize>,
    keys: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    let points: Vec<_> = ring.points().collect();
    let expected: Vec<_> = model.iter().map(|(&hash, &node)| (hash, node)).collect();
    prop_assert_eq!(points, expected);
    for key in keys {
        let walk = naive::walk(model, key);
        prop_assert_eq!(ring.node_idx(key), walk.first().copied());
        let raw: Vec<_> = ring.walk(ring.hash(key)).take(walk.len()).collect();
        prop_assert_eq!(&raw, &walk);
        let mut distinct = Vec::new();
        for &node in &walk {
            if !distinct.contains(&node) {
                distinct.push(node);
            }
        }
        prop_assert_eq!(ring.nodes(key).len(), distinct.len());
        let texts = distinct.iter().map(|&node| ring.buckets()[node].text());
        prop_assert!(ring.nodes(key).map(Bucket::text).eq(texts));
    }
    Ok(())
}
