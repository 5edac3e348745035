//! The ring under changes against a naive ring: every change equals a fresh build, every look-up a
//! linear search.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use ketama::{
    Bucket, BuildError, Change, Continuum, PointNames, RingConfig, Scheme, SchemeConfig, Version,
};

#[expect(dead_code, reason = "a walk here is one over points")]
#[path = "../../crates/ketama/tests/model/naive.rs"]
mod naive;

/// A ring, and what happens to it.
#[derive(Arbitrary, Debug)]
pub struct Input {
    layout: Layout,
    max_points: Option<u16>,
    pool: Vec<Server>,
    steps: Vec<Step>,
    keys: Vec<Key>,
}

/// Some bytes, over and over, up to a length: how a key is hashed depends on that.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Key {
    bytes: [u8; 5],
    len: u8,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Layout {
    V1,
    V2 { point_multiple: u8 },
    Scheme(u8),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Server {
    text: u8,
    weight: u8,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Add(Server),
    Remove(u8),
    SetWeight(Server),
    /// Several at once.
    Apply(Vec<Server>),
    /// Another list, wherever it came from.
    Rebuild(Vec<Server>),
}

/// How the ring of an input is built.
enum Rule {
    Version(RingConfig),
    Scheme(SchemeConfig),
}

/// Panics if a ring is not what it should be.
pub fn run(input: Input) {
    let rule = Rule::new(input.layout, input.max_points);
    let mut list = buckets(&input.pool);
    let Ok(mut ring) = rule.build(&list) else {
        return;
    };
    let before = (ring.clone(), list.clone());
    check(&ring, &list, &rule.points(&list), &input.keys);
    for step in input.steps.iter().take(MOST) {
        let (changed, expected) = take(step, &ring, &list);
        match (
            changed,
            expected.and_then(|list| Ok((rule.build(&list)?, list))),
        ) {
            (Ok(changed), Ok((fresh, next))) => {
                assert_eq!(changed.fingerprint(), fresh.fingerprint());
                (ring, list) = (changed, next);
                check(&ring, &list, &rule.points(&list), &input.keys);
            }
            (changed, expected) => assert_eq!(changed.err(), expected.err()),
        }
    }
    if let Rule::Version(config) = &rule {
        for key in input.keys.iter().map(Key::whole) {
            assert_eq!(ring.hash(&key), naive::crc32(&key));
        }
        let moves = before.0.diff(&ring);
        let moves = moves.iter().map(|step| ((step.from, step.to), step.length));
        let [old, new] = [&before.1, &list].map(|list| model(list, config.version));
        assert!(moves.eq(naive::diff((&old, &before.1), (&new, &list))));
    }
}

/// The ring after a step, and the list that it should be over.
fn take(
    step: &Step,
    ring: &Continuum,
    list: &[Bucket],
) -> (
    Result<Continuum, BuildError>,
    Result<Vec<Bucket>, BuildError>,
) {
    let mut changed = ring.clone();
    let changes = match step {
        Step::Add(server) => vec![Change::Add(bucket(server))],
        Step::Remove(text) => vec![Change::Remove(text_of(*text).into())],
        Step::SetWeight(server) => {
            vec![Change::SetWeight(
                text_of(server.text).into(),
                weight(server),
            )]
        }
        Step::Apply(servers) => servers.iter().take(MOST).map(change).collect(),
        Step::Rebuild(servers) => {
            let next = buckets(servers);
            return (ring.rebuilt(&next), Ok(next));
        }
    };
    let result = match &changes[..] {
        [Change::Add(bucket)] => changed.add(bucket.clone()),
        [Change::Remove(text)] => changed.remove(text),
        [Change::SetWeight(text, weight)] => changed.set_weight(text, *weight),
        changes => changed.apply(changes),
    };
    if result.is_err() {
        assert!(changed.points().eq(ring.points()), "a refused change");
    }
    (result.map(|()| changed), after(list, &changes))
}

/// The list after these changes, in plain words.
fn after(list: &[Bucket], changes: &[Change]) -> Result<Vec<Bucket>, BuildError> {
    let mut list = list.to_vec();
    for change in changes {
        let (Change::Remove(text) | Change::SetWeight(text, _)) = change else {
            if let Change::Add(bucket) = change {
                list.push(bucket.clone());
            }
            continue;
        };
        let place = list.iter().position(|bucket| bucket.text() == &**text);
        let place = place.ok_or_else(|| BuildError::UnknownBucket { text: text.clone() })?;
        match change {
            Change::SetWeight(_, weight) => {
                list[place] = list[place].clone().with_weight(*weight);
            }
            _ => drop(list.remove(place)),
        }
    }
    Ok(list)
}

fn change(server: &Server) -> Change {
    match server.weight / 64 {
        0 | 1 => Change::Add(bucket(server)),
        2 => Change::Remove(text_of(server.text).into()),
        _ => Change::SetWeight(text_of(server.text).into(), weight(server)),
    }
}

impl Rule {
    fn new(layout: Layout, max_points: Option<u16>) -> Self {
        let versioned = |version| {
            let config = RingConfig::new().version(version);
            Self::Version(match max_points {
                Some(max) => config.max_points(max.into()),
                None => config,
            })
        };
        match layout {
            Layout::V1 => versioned(Version::V1),
            Layout::V2 { point_multiple } => versioned(Version::V2 {
                point_multiple: u32::from(point_multiple).max(1).try_into().unwrap(),
            }),
            Layout::Scheme(number) => Self::Scheme(SchemeConfig::new(scheme(number))),
        }
    }

    fn build(&self, list: &[Bucket]) -> Result<Continuum, BuildError> {
        match self {
            Self::Version(config) => Continuum::with_config(list, config),
            Self::Scheme(config) => Continuum::with_scheme(list, config),
        }
    }

    /// The points that the ring should have, with their owners.
    fn points(&self, list: &[Bucket]) -> Vec<(u32, usize)> {
        match self {
            Self::Version(config) => model(list, config.version).into_iter().collect(),
            // Compared with recordings elsewhere; here, changes and look-ups have to agree with them.
            Self::Scheme(_) => self.build(list).unwrap().points().collect(),
        }
    }
}

fn check(ring: &Continuum, list: &[Bucket], points: &[(u32, usize)], keys: &[Key]) {
    assert_eq!(ring.buckets(), list);
    assert!(ring.points().eq(points.iter().copied()));
    assert_eq!(ring.shares(), shares(points, list.len()));
    let stride = points.len() / 32 + 1;
    let beside = points
        .iter()
        .step_by(stride)
        .flat_map(|&(point, _)| [point.wrapping_sub(1), point, point.wrapping_add(1)]);
    for place in beside.chain([0, u32::MAX]) {
        let owner = walk(points, place).next().map(|node| &list[node]);
        assert_eq!(ring.node_for_hash(place), owner, "{place}");
    }
    for key in keys.iter().take(MOST).map(Key::whole) {
        let key = &key[..];
        let walk: Vec<_> = walk(points, ring.hash(key)).collect();
        assert_eq!(ring.node_idx(key), walk.first().copied());
        assert!(
            ring.walk(ring.hash(key))
                .take(walk.len())
                .eq(walk.iter().copied())
        );
        let mut distinct = Vec::new();
        for &node in &walk {
            if !distinct.contains(&node) {
                distinct.push(node);
            }
        }
        assert_eq!(ring.nodes(key).len(), distinct.len());
        assert!(ring.nodes(key).eq(distinct.iter().map(|&node| &list[node])));
    }
}

/// The owners of all points from `place` on, by a look at each.
fn walk(points: &[(u32, usize)], place: u32) -> impl Iterator<Item = usize> {
    let start = points.iter().position(|&(point, _)| point >= place);
    let (before, after) = points.split_at(start.unwrap_or(0));
    after.iter().chain(before).map(|&(_, node)| node)
}

/// The places that lead to each node.
fn shares(points: &[(u32, usize)], nodes: usize) -> Vec<u64> {
    let mut shares = vec![0; nodes];
    let mut start = 0;
    for &(point, node) in points {
        let end = u64::from(point) + 1;
        shares[node] += end - start;
        start = end;
    }
    if let Some(&(_, node)) = points.first() {
        shares[node] += Continuum::CIRCLE - start;
    }
    shares
}

impl Key {
    fn whole(&self) -> Vec<u8> {
        let bytes = self.bytes.iter().copied().cycle();
        bytes.take(self.len.into()).collect()
    }
}

fn model(list: &[Bucket], version: Version) -> BTreeMap<u32, usize> {
    let points = version.points_per_weight();
    match version {
        Version::V1 => naive::ring(list, points, |node| node),
        _ => naive::ring(list, points, |node| {
            let bucket = &list[node];
            let weight = Reverse(bucket.weight());
            (
                bucket.addr().is_none(),
                bucket.addr(),
                bucket.text(),
                weight,
                node,
            )
        }),
    }
}

fn buckets(servers: &[Server]) -> Vec<Bucket> {
    servers.iter().take(MOST).map(bucket).collect()
}

fn bucket(server: &Server) -> Bucket {
    let text = text_of(server.text).to_owned();
    naive::buckets(&[(text, weight(server))]).remove(0)
}

fn text_of(number: u8) -> &'static str {
    TEXTS[usize::from(number) % TEXTS.len()]
}

fn weight(server: &Server) -> u32 {
    u32::from(server.weight % 4)
}

fn scheme(number: u8) -> Scheme {
    match number % 6 {
        0 => Scheme::LibKetama,
        1 => Scheme::LibmemcachedWeighted {
            names: PointNames::default(),
        },
        2 => Scheme::Twemproxy {
            hash_tag: Some(*b"ab"),
        },
        3 => Scheme::BrpcMurmurHash { replicas: 20 },
        4 => Scheme::BrpcMd5 { replicas: 20 },
        _ => Scheme::BrpcKetama { replicas: 20 },
    }
}

/// What fits in a fraction of a millisecond.
const MOST: usize = 8;

const TEXTS: [&str; 16] = [
    "192.0.2.1:80",
    "192.0.2.2:80",
    "192.0.2.3:80",
    // These two have points in common.
    "203.0.113.210:80",
    "203.0.113.215:80",
    "[2001:db8::1]:443",
    // Another text for the same address.
    "[2001:db8:0::1]:443",
    "unix:/run/a.sock",
    "UNIX:/run/a.sock",
    // Every one of its points is 0.
    "shard-1155-xqvp",
    "a",
    "a:",
    "a:80",
    "a:8o",
    ":",
    "",
];
