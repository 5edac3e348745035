//! The rings of other programs: a naive model, and the edges.
//!
//! The recorded answers of the real programs are replayed by `cargo xtask compat`.
#![cfg(feature = "schemes")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ketama::{Bucket, BuildError, Continuum, KeyHash, PointNames, Scheme, SchemeConfig};
use md5::{Digest, Md5};
use proptest::prelude::*;

/// twemproxy in the simplest words: all points in one list, and a scan for each key.
mod naive {
    use super::{Bucket, Digest, Md5};

    pub(crate) fn points(buckets: &[Bucket]) -> Vec<(u32, usize)> {
        let name = |index: usize| {
            let text = buckets[index].text();
            text.strip_suffix(":11211").unwrap_or(text)
        };
        let mut servers: Vec<_> = (0..buckets.len()).collect();
        servers.retain(|&index| buckets[index].weight() > 0);
        servers.sort_by_key(|&index| (name(index).len(), name(index)));
        let total: u32 = buckets.iter().map(Bucket::weight).sum();
        let mut points = Vec::new();
        for (order, &index) in servers.iter().enumerate() {
            let share = buckets[index].weight() as f32 / total as f32;
            let strings = (share * 160.0 / 4.0 * servers.len() as f32).floor();
            for k in (0..).take_while(|&k| (k as f32) < strings) {
                let digest = Md5::digest(format!("{}-{k}", name(index)));
                for word in digest.chunks(4) {
                    points.push((u32::from_le_bytes(word.try_into().unwrap()), order, index));
                }
            }
        }
        points.sort();
        points
            .into_iter()
            .map(|(hash, _, index)| (hash, index))
            .collect()
    }

    /// The owners of all points in turn, from the first at or after `hash`.
    pub(crate) fn walk(points: &[(u32, usize)], hash: u32) -> Vec<usize> {
        let (before, after): (Vec<_>, Vec<_>) =
            points.iter().copied().partition(|point| point.0 < hash);
        after
            .into_iter()
            .chain(before)
            .map(|(_, server)| server)
            .collect()
    }
}

/// Few names, so that some come twice: all their points are ties.
fn pool() -> impl Strategy<Value = Vec<Bucket>> {
    let text = prop_oneof![
        "10\\.0\\.0\\.[1-9]:11211",
        "10\\.0\\.0\\.[1-9]:11212",
        "[a-c]{1,3}"
    ];
    let bucket = (text, 0..9u32).prop_map(|(text, weight)| Bucket::from_text(text, weight));
    prop::collection::vec(bucket, 0..9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn twemproxy_equals_the_model(
        buckets in pool(),
        hashes in prop::collection::vec(any::<u32>(), 1..20),
    ) {
        let ring = build(&buckets, Scheme::Twemproxy { hash_tag: None });
        let model = naive::points(&buckets);
        prop_assert_eq!(ring.points().collect::<Vec<_>>(), model.clone());
        let on_points = model.iter().map(|&(hash, _)| hash).step_by(97);
        for hash in hashes.into_iter().chain([0, u32::MAX]).chain(on_points) {
            let expected = naive::walk(&model, hash);
            let walk: Vec<_> = ring.walk(hash).take(model.len()).collect();
            prop_assert_eq!(walk, expected);
        }
    }

    /// Whatever the pool: buckets of one name and of weight 0 change nothing in bRPC's ring.
    #[test]
    fn brpc_holds_each_endpoint_once(buckets in pool(), seed in any::<u64>()) {
        let mut once: Vec<_> = buckets.iter().filter(|bucket| bucket.weight() > 0).cloned().collect();
        once.sort_by(|a, b| a.text().cmp(b.text()));
        once.dedup_by(|a, b| a.text() == b.text());
        let scheme = Scheme::BrpcMurmurHash { replicas: 20 };
        let expected = build(&once, scheme);
        prop_assert_eq!(expected.len(), 20 * once.len());
        let mut shuffled = buckets;
        let places = shuffled.len().max(1);
        shuffled.rotate_left(usize::try_from(seed % 1_000).unwrap() % places);
        let ring = build(&shuffled, scheme);
        prop_assert_eq!(named(&ring), named(&expected));
    }
}

fn named(ring: &Continuum) -> Vec<(u32, &str)> {
    ring.points()
        .map(|(hash, node)| (hash, ring.buckets()[node].text()))
        .collect()
}

#[test]
fn limits_are_errors_with_the_figures() {
    let buckets = [
        Bucket::from_text("a:1", 1),
        Bucket::from_text("b:1", u32::MAX),
    ];
    let config = SchemeConfig::new(Scheme::BrpcMurmurHash { replicas: u32::MAX });
    let error = Continuum::with_scheme(&buckets, &config).unwrap_err();
    let (points, max) = (2 * u64::from(u32::MAX), 1 << 26);
    assert_eq!(error, BuildError::TooManyPoints { points, max });
    // A weight says nothing about the number of points where only shares count.
    let config = SchemeConfig::new(WEIGHTED).max_points(319);
    let error = Continuum::with_scheme(&buckets, &config).unwrap_err();
    let (points, max) = (320, 319);
    assert_eq!(error, BuildError::TooManyPoints { points, max });
    assert!(Continuum::with_scheme(&buckets, &config.max_points(320)).is_ok());
    let config = SchemeConfig::new(Scheme::BrpcKetama { replicas: 102 });
    let error = Continuum::with_scheme(&buckets, &config).unwrap_err();
    let (replicas, multiple_of) = (102, 4);
    assert_eq!(
        error,
        BuildError::Replicas {
            replicas,
            multiple_of
        }
    );
}

#[test]
fn empty_and_drained_pools_have_no_owner() {
    for scheme in EACH {
        for buckets in [&[][..], &[Bucket::from_text("10.0.0.1:11211", 0)]] {
            let ring = build(buckets, scheme);
            assert!(ring.is_empty());
            assert_eq!(ring.node(b"key"), None);
            assert_eq!(ring.nodes(b"key").count(), 0);
        }
    }
}

#[test]
fn drained_bucket_counts_for_nothing() {
    for scheme in EACH {
        let with = build(&four([1, 0, 3, 4]), scheme);
        let mut without = four([1, 0, 3, 4]);
        without.remove(1);
        assert_eq!(named(&with), named(&build(&without, scheme)), "{scheme:?}");
    }
}

#[test]
fn changed_ring_is_a_fresh_build() {
    for scheme in EACH {
        let mut ring = build(&four([1, 2, 3, 4]), scheme);
        ring.remove("10.0.0.2:11211").unwrap();
        ring.set_weight("10.0.0.4:11211", 9).unwrap();
        let mut buckets = four([1, 2, 3, 9]);
        buckets.remove(1);
        let expected = build(&buckets, scheme);
        assert_eq!(named(&ring), named(&expected), "{scheme:?}");
        assert_eq!(ring.hash(b"key"), expected.hash(b"key"), "{scheme:?}");
        assert_eq!(ring.nodes(b"key").count(), 3);
    }
}

#[test]
fn weights_count_where_the_table_says_so() {
    for scheme in EACH {
        let honoured = matches!(
            scheme,
            Scheme::LibKetama | Scheme::LibmemcachedWeighted { .. } | Scheme::Twemproxy { .. }
        );
        let equal = build(&four([1, 1, 1, 1]), scheme);
        let weighted = build(&four([1, 2, 3, 4]), scheme);
        assert_eq!(named(&equal) != named(&weighted), honoured, "{scheme:?}");
    }
}

/// A share below 1 / (40 x servers) is rounded down to nothing.
#[test]
fn small_share_has_no_point_at_all() {
    for scheme in [
        Scheme::LibKetama,
        WEIGHTED,
        Scheme::Twemproxy { hash_tag: None },
    ] {
        let ring = build(&four([1, 100, 100, 100]), scheme);
        assert!(ring.points().all(|(_, node)| node != 0), "{scheme:?}");
        assert_eq!(ring.nodes(b"key").count(), 3);
    }
}

/// The recorded misbehaviour: `crc` on a ring of MD5 points sends every key to one server.
#[test]
fn fifteen_bit_hash_finds_one_server() {
    let config = SchemeConfig::new(WEIGHTED).key_hash(KeyHash::Crc15);
    let ring = Continuum::with_scheme(&four([1, 1, 1, 1]), &config).unwrap();
    let owner = ring.node(b"key-0").unwrap();
    assert_eq!(owner.text(), "10.0.0.3:11211");
    assert!((1..1_000).all(|n| ring.node(format!("key-{n}").as_bytes()) == Some(owner)));
}

fn build(buckets: &[Bucket], scheme: Scheme) -> Continuum {
    Continuum::with_scheme(buckets, &SchemeConfig::new(scheme)).unwrap()
}

fn four(weights: [u32; 4]) -> Vec<Bucket> {
    (1..)
        .zip(weights)
        .map(|(n, weight)| Bucket::from_text(format!("10.0.0.{n}:11211"), weight))
        .collect()
}

const WEIGHTED: Scheme = Scheme::LibmemcachedWeighted {
    names: PointNames::Libmemcached,
};

const EACH: [Scheme; 7] = [
    Scheme::LibKetama,
    WEIGHTED,
    Scheme::LibmemcachedPlain {
        names: PointNames::Spy,
        point_hash: KeyHash::OneAtATime,
    },
    Scheme::Twemproxy { hash_tag: None },
    Scheme::BrpcMurmurHash { replicas: 100 },
    Scheme::BrpcMd5 { replicas: 100 },
    Scheme::BrpcKetama { replicas: 100 },
];
