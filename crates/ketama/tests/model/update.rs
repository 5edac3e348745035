//! A changed ring is a fresh build of the resulting list, point by point.

use ketama::{Bucket, BuildError, Change, Continuum, RingConfig};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{naive, pools};

/// Change `n` of a sequence, before it is known what stands in the list then.
#[derive(Clone, Debug)]
enum Step {
    Add((String, u32)),
    Remove(Index),
    SetWeight(Index, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        pools::bucket().prop_map(Step::Add),
        any::<Index>().prop_map(Step::Remove),
        (any::<Index>(), 0..5u32).prop_map(|(index, weight)| Step::SetWeight(index, weight)),
    ];
    proptest::collection::vec(step, 1..8)
}

/// The change that `step` means for `list`, made to the list as well, in plain words.
fn change(step: &Step, list: &mut Vec<Bucket>) -> Option<Change> {
    let text_at = |index: &Index| {
        let texts: Vec<&str> = list.iter().map(Bucket::text).collect();
        (!texts.is_empty()).then(|| (*index.get(&texts)).to_owned())
    };
    let first = |text: &str| {
        list.iter()
            .position(|bucket| bucket.text() == text)
            .unwrap()
    };
    Some(match step {
        Step::Add(bucket) => {
            let bucket = naive::buckets(std::slice::from_ref(bucket)).remove(0);
            list.push(bucket.clone());
            Change::Add(bucket)
        }
        Step::Remove(index) => {
            let text = text_at(index)?;
            list.remove(first(&text));
            Change::Remove(text.into())
        }
        Step::SetWeight(index, weight) => {
            let text = text_at(index)?;
            let place = first(&text);
            list[place] = list[place].clone().with_weight(*weight);
            Change::SetWeight(text.into(), *weight)
        }
    })
}

fn same(changed: &Continuum, list: &[Bucket], config: &RingConfig) -> Result<(), TestCaseError> {
    let fresh = Continuum::with_config(list, config).unwrap();
    prop_assert_eq!(changed.buckets(), list);
    prop_assert!(changed.points().eq(fresh.points()));
    prop_assert!(changed.nodes(b"key").eq(fresh.nodes(b"key")));
    Ok(())
}

fn changes_equal_builds(
    pool: &[(String, u32)],
    steps: &[Step],
    config: &RingConfig,
) -> Result<(), TestCaseError> {
    let mut list = naive::buckets(pool);
    let before = Continuum::with_config(&list, config).unwrap();
    let mut one_by_one = before.clone();
    let mut changes = Vec::new();
    for step in steps {
        let Some(change) = change(step, &mut list) else {
            continue;
        };
        one_by_one.apply(std::slice::from_ref(&change)).unwrap();
        same(&one_by_one, &list, config)?;
        changes.push(change);
    }
    same(&before.applied(&changes).unwrap(), &list, config)?;
    same(&before.rebuilt(&list).unwrap(), &list, config)?;
    // Back again, and to another order of the same buckets.
    same(
        &one_by_one.rebuilt(before.buckets()).unwrap(),
        before.buckets(),
        config,
    )?;
    list.reverse();
    same(&one_by_one.rebuilt(&list).unwrap(), &list, config)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_changes_equal_a_fresh_build(pool in pools::pool(), steps in steps()) {
        changes_equal_builds(&pool, &steps, &RingConfig::new())?;
    }
}

#[cfg(feature = "v2")]
proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn v2_any_changes_equal_a_fresh_build(
        pool in pools::pool(), steps in steps(), multiple in 1u32..200,
    ) {
        let point_multiple = multiple.try_into().unwrap();
        let version = ketama::Version::V2 { point_multiple };
        changes_equal_builds(&pool, &steps, &RingConfig::new().version(version))?;
    }
}

/// Servers of which six pairs share a point; the pairs.
fn thousand() -> (Vec<Bucket>, [(u32, &'static str, &'static str); 6]) {
    let buckets = (0..1_000)
        .map(|i| format!("10.2.{}.{}:{}", i / 250, i % 250 + 1, 8000 + i % 3))
        .map(|addr| Bucket::new(addr.parse().unwrap(), 1))
        .collect();
    let pairs = [
        (282_950_968, "10.2.0.25:8000", "10.2.0.219:8002"),
        (1_055_587_801, "10.2.2.15:8001", "10.2.2.75:8001"),
        (1_106_240_027, "10.2.2.18:8001", "10.2.3.207:8002"),
        (1_108_928_135, "10.2.0.206:8001", "10.2.1.221:8002"),
        (2_607_126_866, "10.2.1.211:8001", "10.2.3.12:8002"),
        (3_859_849_552, "10.2.1.38:8002", "10.2.3.150:8002"),
    ];
    (buckets, pairs)
}

#[test]
fn a_tied_point_comes_back_to_the_loser_and_only_to_it() {
    let (buckets, pairs) = thousand();
    let all = Continuum::new(&buckets).unwrap();
    assert_eq!(all.len(), 159_994);
    for (hash, winner, loser) in pairs {
        let owner = |ring: &Continuum| ring.node_for_hash(hash).unwrap().text().to_owned();
        assert_eq!(owner(&all), winner);
        let mut ring = all.clone();
        ring.remove(winner).unwrap();
        assert_eq!(
            (owner(&ring), ring.len()),
            (loser.to_owned(), 159_994 - 159)
        );
        // Added again it stands behind the loser, which keeps the point now.
        ring.add(Bucket::from_text(winner, 1)).unwrap();
        assert_eq!((owner(&ring), ring.len()), (loser.to_owned(), 159_994));
        ring.remove(loser).unwrap();
        assert_eq!(
            (owner(&ring), ring.len()),
            (winner.to_owned(), 159_994 - 159)
        );
        // Removing the loser never takes the winner's point.
        let mut ring = all.clone();
        ring.set_weight(loser, 0).unwrap();
        assert_eq!(
            (owner(&ring), ring.len()),
            (winner.to_owned(), 159_994 - 159)
        );
    }
}

#[test]
fn removing_both_of_a_colliding_pair_leaves_the_rest() {
    let pool = ["203.0.113.210:80", "203.0.113.215:80", "192.0.2.1:80"];
    let buckets = pool.map(|text| Bucket::from_text(text, 1));
    let mut ring = Continuum::new(&buckets).unwrap();
    assert_eq!(ring.node(b"/k28").unwrap().text(), pool[0]);
    ring.remove(pool[0]).unwrap();
    assert_eq!(
        (ring.node(b"/k28").unwrap().text(), ring.len()),
        (pool[1], 320)
    );
    ring.remove(pool[1]).unwrap();
    assert_eq!(
        (ring.node(b"/k28").unwrap().text(), ring.len()),
        (pool[2], 160)
    );
    ring.remove(pool[2]).unwrap();
    assert_eq!((ring.node(b"/k28"), ring.len()), (None, 0));
}

#[test]
fn a_refused_change_leaves_the_ring_alone() {
    let buckets = [Bucket::from_text("a", 1), Bucket::from_text("b", 1)];
    let config = RingConfig::new().max_points(640);
    let mut ring = Continuum::with_config(&buckets, &config).unwrap();
    let unknown = ring.apply(&[Change::Remove("a".into()), Change::Remove("a".into())]);
    assert_eq!(
        unknown.unwrap_err().to_string(),
        "no bucket has the text \"a\""
    );
    let (points, max) = (800, 640);
    assert_eq!(
        ring.set_weight("b", 4),
        Err(BuildError::TooManyPoints { points, max })
    );
    assert_eq!(
        ring.add(Bucket::from_text("c", 3)),
        Err(BuildError::TooManyPoints { points, max })
    );
    assert_eq!((ring.buckets(), ring.len()), (&buckets[..], 320));
    ring.apply(&[Change::Remove("a".into()), Change::SetWeight("b".into(), 4)])
        .unwrap();
    assert_eq!(ring.len(), 640);
}

#[test]
fn the_configuration_survives_every_change() {
    let config = RingConfig::new().max_points(1_000);
    let mut ring = Continuum::with_config(&[Bucket::from_text("a", 1)], &config).unwrap();
    ring.add(Bucket::from_text("b", 2)).unwrap();
    ring = ring.rebuilt(&[Bucket::from_text("b", 3)]).unwrap();
    assert_eq!(ring.config(), &config);
}
