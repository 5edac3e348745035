//! Exact answers of nginx's ring: identity text, ties, the end of the circle.
//!
//! The expected values come from a model that was checked against live nginx.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;

use ketama::{Bucket, Continuum};

fn ring(texts: &[&str]) -> Continuum {
    let buckets: Vec<_> = texts
        .iter()
        .map(|&text| Bucket::from_text(text, 1))
        .collect();
    Continuum::new(&buckets).unwrap()
}

/// The owners of `/k0` to `/k9`, counted from 1.
fn owners(ring: &Continuum) -> Vec<usize> {
    (0..10)
        .map(|k| ring.node_idx(format!("/k{k}").as_bytes()).unwrap() + 1)
        .collect()
}

/// The points of bucket 0 in ring order.
fn points_of_first(ring: &Continuum) -> Vec<u32> {
    ring.points()
        .filter(|&(_, node)| node == 0)
        .map(|(hash, _)| hash)
        .collect()
}

fn owner<'a>(ring: &'a Continuum, key: &str) -> &'a str {
    ring.node(key.as_bytes()).unwrap().text()
}

#[test]
fn ipv6_is_hashed_with_its_brackets() {
    let addrs = ["[2001:db8::1]:80", "[2001:db8::2]:80", "[2001:db8::3]:80"];
    let written = ring(&addrs);
    assert_eq!(owners(&written), [2, 2, 2, 1, 2, 1, 1, 3, 1, 2]);
    let points = points_of_first(&written);
    for point in [4_121_568_839, 1_452_682_849, 3_790_603_414] {
        assert!(points.contains(&point), "{point}");
    }
    // From addresses the text is the same.
    let buckets = addrs.map(|addr| Bucket::new(addr.parse().unwrap(), 1));
    let parsed = Continuum::new(&buckets).unwrap();
    assert!(parsed.points().eq(written.points()));
    // pingora's points, by their text.
    let bare = ring(&["2001:db8::1:80", "2001:db8::2:80", "2001:db8::3:80"]);
    assert_eq!(owners(&bare), [2, 2, 2, 2, 2, 2, 1, 1, 1, 2]);
    let points = points_of_first(&bare);
    for point in [2_304_152_714, 2_301_432_751, 913_367_451] {
        assert!(points.contains(&point), "{point}");
    }
}

#[test]
fn a_missing_port_is_empty_and_not_80() {
    assert_eq!(
        owners(&ring(&["192.0.2.1", "192.0.2.2", "192.0.2.3"])),
        [3, 1, 2, 1, 3, 3, 1, 3, 3, 1]
    );
    assert_eq!(
        owners(&ring(&["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"])),
        [3, 3, 1, 3, 3, 1, 2, 3, 1, 1]
    );
}

#[test]
fn unix_sockets_are_hashed_by_their_path() {
    let sockets = ring(&["unix:/tmp/a.sock", "unix:/tmp/b.sock", "unix:/tmp/c.sock"]);
    assert_eq!(owners(&sockets), [3, 1, 2, 3, 1, 1, 1, 1, 3, 2]);
    let points = points_of_first(&sockets);
    for point in [3_397_300_703, 3_134_780_385] {
        assert!(points.contains(&point), "{point}");
    }
}

#[test]
fn ipv4_as_in_pingora() {
    let ring = ring(&["127.0.0.1:7777", "127.0.0.1:7778"]);
    assert_eq!(owner(&ring, "/some/path"), "127.0.0.1:7778");
    assert_eq!(owner(&ring, "/some/longer/path"), "127.0.0.1:7777");
    assert_eq!(owner(&ring, "/g"), "127.0.0.1:7777");
}

#[test]
fn a_key_beyond_the_last_point_goes_to_the_first() {
    let ring = ring(&["127.0.0.1:7777", "127.0.0.1:7778"]);
    assert_eq!(ring.points().next(), Some((1_475_464, 0)));
    assert_eq!(ring.points().last(), Some((4_276_054_410, 1)));
    assert_eq!(ring.hash(b"/k274"), 4_291_320_501);
    assert_eq!(owner(&ring, "/k274"), "127.0.0.1:7777");
    // Exactly on a point: that point's owner; one further: the next.
    assert_eq!(
        ring.node_for_hash(4_276_054_410).unwrap().text(),
        "127.0.0.1:7778"
    );
    assert_eq!(
        ring.node_for_hash(4_276_054_411).unwrap().text(),
        "127.0.0.1:7777"
    );
    // The walk goes on over the end as well: both keys sit on the last point.
    for key in ["/k129", "/k329"] {
        assert_eq!(owner(&ring, key), "127.0.0.1:7778", "{key}");
        let second = ring.nodes(key.as_bytes()).nth(1).unwrap();
        assert_eq!(second.text(), "127.0.0.1:7777", "{key}");
    }
}

#[test]
fn of_two_on_one_point_the_first_listed_owns_it() {
    let forward = ring(&[TIED.0, TIED.1]);
    let backward = ring(&[TIED.1, TIED.0]);
    assert_eq!((forward.len(), backward.len()), (319, 319));
    for key in ["/k28", "/k202", "/k302"] {
        assert_eq!(owner(&forward, key), TIED.0, "{key}");
        assert_eq!(owner(&backward, key), TIED.1, "{key}");
    }
    // Over 100 orders of a larger pool, whatever stands between the two.
    let mut pool: Vec<String> = (1..=6).map(|i| format!("192.0.2.{i}:80")).collect();
    pool.extend([TIED.0.to_owned(), TIED.1.to_owned()]);
    let mut seed = 1u64;
    for _ in 0..100 {
        shuffle(&mut pool, &mut seed);
        let first = pool
            .iter()
            .find(|text| text.starts_with("203.0.113."))
            .unwrap();
        let ring = ring(&pool.iter().map(String::as_str).collect::<Vec<_>>());
        let tied = ring.points().find(|&(hash, _)| hash == TIED_POINT).unwrap();
        assert_eq!(&pool[tied.1], first);
    }
}

#[test]
fn removing_the_winner_brings_the_loser_back() {
    let third = "192.0.2.1:80";
    let all = ring(&[TIED.0, TIED.1, third]);
    assert_eq!(owner(&all, "/k28"), TIED.0);
    // Walking past a server that is down and building without it differ here, and only here.
    assert_eq!(all.nodes(b"/k28").nth(1).unwrap().text(), third);
    assert_eq!(owner(&ring(&[TIED.1, third]), "/k28"), TIED.1);
}

#[test]
fn walking_past_a_node_is_the_ring_without_it_except_on_ties() {
    let addrs: Vec<String> = (1..=5).map(|i| format!("192.0.2.{i}:80")).collect();
    let texts: Vec<&str> = addrs.iter().map(String::as_str).collect();
    let all = ring(&texts);
    let without = ring(&texts[1..]);
    assert_eq!((all.len(), without.len()), (800, 640)); // No ties among these five.
    for key in (0..10_000).map(|k| format!("/k{k}")) {
        let walked = all
            .nodes(key.as_bytes())
            .find(|node| node.text() != texts[0]);
        assert_eq!(walked.map(Bucket::text), Some(owner(&without, &key)));
    }
}

#[test]
fn weights_move_keys_to_the_heavier_only() {
    let pool = |weight| {
        let buckets: Vec<_> = [(1, 1), (2, weight), (3, 3)]
            .map(|(i, weight)| Bucket::from_text(format!("192.0.2.{i}:80"), weight))
            .into();
        Continuum::new(&buckets).unwrap()
    };
    let (before, after) = (pool(2), pool(3));
    let mut moved = 0;
    for key in (0..10_000).map(|k| format!("/k{k}")) {
        let (old, new) = (owner(&before, &key), owner(&after, &key));
        if old != new {
            assert_eq!(new, "192.0.2.2:80", "{key}");
            moved += 1;
        }
    }
    // From 2/6 to 3/7 of the circle is 952 in the mean.
    assert!((800..1_100).contains(&moved), "{moved}");
}

#[test]
fn weight_zero_has_no_points() {
    let addr = |text: &str| -> SocketAddr { text.parse().unwrap() };
    let drained = Continuum::new(&[
        Bucket::new(addr("192.0.2.1:80"), 1),
        Bucket::new(addr("192.0.2.2:80"), 0),
    ])
    .unwrap();
    assert_eq!(drained.len(), 160);
    assert!(drained.points().all(|(_, node)| node == 0));
    assert_eq!(drained.nodes(b"key").count(), 1);
    for empty in [
        Continuum::new(&[Bucket::new(addr("192.0.2.1:80"), 0)]).unwrap(),
        Continuum::new(&[]).unwrap(),
    ] {
        assert!(empty.is_empty());
        assert_eq!(empty.node(b"key"), None);
        assert_eq!(empty.node_iter(b"key").next(), None);
        assert_eq!(empty.nodes(b"key").next(), None);
    }
}

#[test]
fn owners_are_the_buckets_that_have_a_point_of_their_own() {
    let buckets = [
        Bucket::from_text("192.0.2.1:80", 1),
        Bucket::from_text("192.0.2.2:80", 0), // Drained.
        Bucket::from_text("192.0.2.1:80", 1), // All its points are the first one's.
        Bucket::from_text("192.0.2.3:80", 2),
    ];
    assert_eq!(Continuum::new(&buckets).unwrap().owners(), 2);
    assert_eq!(Continuum::new(&[]).unwrap().owners(), 0);
}

/// A collision of nature: point 77 of the first and point 80 of the second.
const TIED: (&str, &str) = ("203.0.113.210:80", "203.0.113.215:80");
const TIED_POINT: u32 = 1_514_336_492;

/// Fisher and Yates with Knuth's 64-bit linear congruential generator.
fn shuffle<T>(items: &mut [T], state: &mut u64) {
    for last in (1..items.len()).rev() {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let other = (*state >> 33) % (last as u64 + 1);
        items.swap(last, usize::try_from(other).unwrap());
    }
}
