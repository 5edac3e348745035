//! What users of other load balancers ran into, as tests.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;

use std::cell::Cell;
use std::sync::Arc;

use every::{id, nodes, selectors};
use selection::{
    Build, Consistent, Eligible, FNVHash, InFlight, IpHash, KetamaConfig, LeastConn,
    LeastConnConfig, ModuloHash, Node, NodeId, NodeSet, Random, ReadySet, RoundRobin, Selector,
    Tried, WeightedConfig,
};

fn build<S: Build>(set: &NodeSet) -> S
where
    S::Config: Default,
{
    S::build(set, &S::Config::default()).unwrap()
}

/// Picks per node over `keys`, with the nodes of `down` not ready.
fn counts(selector: &dyn Selector, down: &[usize], picks: u32) -> Vec<u32> {
    let ready = ReadySet::all(selector.len());
    for &index in down {
        ready.set(id(index), false);
    }
    let mut counts = vec![0; selector.len()];
    for i in 0..picks {
        let key = format!("key-{i}");
        let picked = selector.pick(key.as_bytes(), &Eligible::new(&ready));
        counts[picked.unwrap().index()] += 1;
    }
    counts
}

#[test]
fn a_drained_node_is_never_picked_by_any_algorithm() {
    let (pair, single, both) = (nodes(&[1, 0]), nodes(&[0]), nodes(&[0, 0]));
    let (ready, alone) = (ReadySet::all(2), ReadySet::all(1));
    let mut tried = Tried::new();
    tried.insert(id(0));
    for case in selectors() {
        let selector = (case.build)(&pair);
        assert_eq!(
            counts(selector.as_ref(), &[], 10_000),
            [10_000, 0],
            "{}",
            case.name
        );
        for key in [&b""[..], b"a", b"b"] {
            let less = Eligible::new(&ready).except(&tried);
            assert_eq!(selector.pick(key, &less), None, "{}", case.name);
            let eligible = Eligible::new(&alone);
            assert_eq!(
                (case.build)(&single).pick(key, &eligible),
                None,
                "{}",
                case.name
            );
            let eligible = Eligible::new(&ready);
            assert_eq!(
                (case.build)(&both).pick(key, &eligible),
                None,
                "{}",
                case.name
            );
        }
    }
}

/// Keys past the last point wrap to the first, and a full circle of refusals asks each node once.
#[test]
fn the_ring_wraps_and_its_walk_ends() {
    let pair = NodeSet::new([7777, 7778].map(|port: u16| Node::new(at_localhost(port), 1)));
    let ring: Consistent = build(&pair.unwrap());
    let ready = ReadySet::all(2);
    assert_eq!(ring.pick(b"/k274", &Eligible::new(&ready)), Some(id(0)));
    assert_eq!(ring.pick(b"/k129", &Eligible::new(&ready)), Some(id(1)));
    ready.set(id(1), false);
    assert_eq!(ring.pick(b"/k129", &Eligible::new(&ready)), Some(id(0)));

    let ring: Consistent = build(&nodes(&[1; 24]));
    let ready = ReadySet::all(24);
    for key in (0..100).map(|i| format!("/k{i}")) {
        let reads = Cell::new(0);
        let refuse = |_: NodeId| {
            reads.set(reads.get() + 1);
            false
        };
        let eligible = Eligible::new(&ready).only_if(&refuse);
        assert_eq!(ring.pick(key.as_bytes(), &eligible), None);
        assert_eq!(reads.get(), 24, "{key}");
    }
}

fn at_localhost(port: u16) -> std::net::SocketAddr {
    std::net::SocketAddr::from(([127, 0, 0, 1], port))
}

/// The shares of what is left when a node is down: weights, node down, picks of 40,000.
const SHARES: [(&[u32], usize, &[u32]); 3] = [
    (&[8, 1, 1], 0, &[0, 20_000, 20_000]),
    (&[1, 3, 1], 0, &[0, 30_000, 10_000]),
    (&[10, 8, 1, 1], 0, &[0, 32_000, 4_000, 4_000]),
];

#[test]
fn turns_stay_proportional_when_a_node_is_down() {
    for (weights, down, expected) in SHARES {
        let set = nodes(weights);
        assert_eq!(
            counts(&build::<RoundRobin>(&set), &[down], 40_000),
            expected
        );
    }
}

/// While all are up a ticket is one atomic step, so the shares are exact for any number of
/// threads. With a node down a thread that is interrupted for a whole cycle may take a turn out of
/// order: 2 % are allowed for.
#[test]
fn turns_are_shared_by_threads() {
    let count = |weights: &[u32], down: &[usize]| {
        let selector: RoundRobin = build(&nodes(weights));
        let totals = std::thread::scope(|scope| {
            let work = || counts(&selector, down, 10_000);
            let threads = [0; 4].map(|_| scope.spawn(work));
            threads.map(|thread| thread.join().unwrap())
        });
        (0..weights.len())
            .map(|node| totals.iter().map(|counts| counts[node]).sum::<u32>())
            .collect::<Vec<_>>()
    };
    assert_eq!(count(&[5, 2, 1], &[]), [25_000, 10_000, 5_000]);
    let left = count(&[8, 1, 1], &[0]);
    assert!(left[0] == 0 && left[1].abs_diff(20_000) <= 400, "{left:?}");
}

/// 2 % of 20,000 is four standard deviations of a fair coin: by chance alone one seed in 16,000
/// would fail.
#[test]
fn hashes_and_chance_stay_proportional_when_a_node_is_down() {
    for (weights, down, expected) in SHARES {
        let set = nodes(weights);
        let config = WeightedConfig::default().seed(1);
        let random = Random::build(&set, &config).unwrap();
        let fnv = FNVHash::build(&set, &config).unwrap();
        for selector in [&random as &dyn Selector, &fnv] {
            let counted = counts(selector, &[down], 40_000);
            for (&counted, &expected) in counted.iter().zip(expected) {
                let off = counted.abs_diff(expected);
                assert!(off * 50 <= 20_000, "{weights:?}: {counted} for {expected}");
            }
        }
    }
}

/// The scan behind the last draw chooses by weight, too: 3 of 1,003 shares are left.
#[test]
fn the_last_resort_is_proportional() {
    let set = nodes(&[1_000_000, 2, 1]);
    let config = WeightedConfig::default().seed(1);
    for selector in [
        &Random::build(&set, &config).unwrap() as &dyn Selector,
        &FNVHash::build(&set, &config).unwrap(),
    ] {
        let counted = counts(selector, &[0], 30_000);
        // Six standard deviations of 82 each.
        assert!(counted[1].abs_diff(20_000) < 490, "{counted:?}");
    }
    assert_eq!(
        counts(&build::<RoundRobin>(&set), &[0], 30_000),
        [0, 20_000, 10_000]
    );
}

/// Nodes of one ring name share its points and take turns by weight.
#[test]
fn nodes_of_one_ring_name_take_turns() {
    let named = |text: &str, weight| Node::new(text, weight).with_ring_name("shared.test");
    let set = NodeSet::in_order([
        named("10.0.0.1:80", 2),
        Node::new("10.0.0.9:80", 2),
        named("10.0.0.2:80", 1),
        named("10.0.0.3:80", 0),
    ])
    .unwrap();
    let ring: Consistent = build(&set);
    let names: Vec<_> = ring
        .ring()
        .buckets()
        .iter()
        .map(|b| (b.text(), b.weight()))
        .collect();
    assert_eq!(names, [("shared.test", 2), ("10.0.0.9:80", 2)]);
    let circle = ring.ring().share(0) as f64 / (1u64 << 32) as f64;
    let shares = [circle / 3.0 * 2.0, 1.0 - circle, circle / 3.0, 0.0];
    for (share, expected) in ring.shares().into_iter().zip(shares) {
        assert!((share - expected).abs() < 1e-12, "{share} for {expected}");
    }
    let key = (0..100)
        .map(|i| format!("key-{i}"))
        .find(|key| ring.ring().node_idx(key.as_bytes()) == Some(0))
        .unwrap();
    let ready = ReadySet::all(4);
    let pick = || {
        ring.pick(key.as_bytes(), &Eligible::new(&ready))
            .unwrap()
            .index()
    };
    let six: Vec<_> = (0..6).map(|_| pick()).collect();
    assert_eq!(six, [0, 2, 0, 0, 2, 0], "smooth round robin of 2, 1");
    ready.set(id(0), false);
    assert_eq!([pick(), pick()], [2, 2]);
    ready.set(id(2), false);
    assert_eq!(pick(), 1, "the drained member is no fallback");
}

/// Two names with the very same points: the second owns none, yet serves when the first cannot.
#[test]
fn a_node_without_points_is_found_when_it_is_the_last() {
    let set = NodeSet::in_order([Node::new("unix:/a", 1), Node::new("UNIX:/a", 1)]).unwrap();
    let ring: Consistent = build(&set);
    let ready = ReadySet::all(2);
    assert_eq!(ring.pick(b"key", &Eligible::new(&ready)), Some(id(0)));
    ready.set(id(0), false);
    assert_eq!(ring.pick(b"key", &Eligible::new(&ready)), Some(id(1)));
}

#[test]
fn a_ring_beyond_its_limit_is_an_error() {
    for weights in [
        &[u32::MAX][..],
        &[26_843_546],
        &[1 << 31, 1 << 31],
        &[1_000_000, 1],
    ] {
        let error = Consistent::build(&nodes(weights), &KetamaConfig::default()).unwrap_err();
        assert!(
            matches!(error, selection::BuildError::Ring(_)),
            "{weights:?}: {error}"
        );
    }
}

/// Counters outlive the selector, by identity: the new node takes requests until it has as many.
#[test]
fn least_conn_counts_over_updates() {
    let node = |name: &str| Node::new(name, 1);
    let load = |node: &Node| InFlight::new(Arc::clone(node.load()));
    let (a, b, c) = (node("a"), node("b"), node("c"));
    let pair = NodeSet::new([a.clone(), b.clone()]).unwrap();
    let held: Vec<_> = [&a, &a, &b, &b].map(load).into();
    let before: LeastConn = build(&pair);
    let three = NodeSet::new([&a, &b, &c].map(Node::clone)).unwrap();
    let after = LeastConn::rebuild(&before, &three, &LeastConnConfig::default()).unwrap();
    let ready = ReadySet::all(3);
    let acquire = || {
        let picked = after.pick(b"", &Eligible::new(&ready)).unwrap();
        (picked, load(&three[picked]))
    };
    let newer = [acquire(), acquire()];
    assert_eq!(newer.each_ref().map(|(picked, _)| picked.index()), [2, 2]);
    drop(held);
    assert_eq!([&a, &b, &c].map(|node| node.load().in_flight()), [0, 0, 2]);
}

/// Idle nodes, one request at a time: all are used, in turns by weight, not the heaviest alone.
#[test]
fn least_conn_rotates_over_idle_nodes() {
    let equal: LeastConn = build(&nodes(&[1; 5]));
    assert_eq!(counts(&equal, &[], 1000), [200; 5]);
    let weighted: LeastConn = build(&nodes(&[1, 2, 5]));
    assert_eq!(counts(&weighted, &[], 800), [100, 200, 500]);
}

/// 200 clients of one /24: nginx sends all of them to one node, the full address does not.
#[test]
fn a_network_of_clients_spreads_by_its_full_addresses() {
    let set = nodes(&[1, 1, 1]);
    let ready = ReadySet::all(3);
    let counts = |selector: &IpHash| {
        let mut counts = [0u32; 3];
        for host in 0..200 {
            let picked = selector.pick(&[192, 0, 2, host], &Eligible::new(&ready));
            counts[picked.unwrap().index()] += 1;
        }
        counts
    };
    assert_eq!(counts(&build(&set)).iter().max(), Some(&200));
    let full = IpHash::full_address(&set).unwrap();
    assert!(counts(&full).iter().all(|&count| count >= 60));
    let v4 = std::net::Ipv4Addr::new(192, 0, 2, 9);
    let mapped = v4.to_ipv6_mapped().octets();
    let eligible = Eligible::new(&ready);
    assert_eq!(
        full.pick(&mapped, &eligible),
        full.pick(&v4.octets(), &eligible)
    );
}

/// A node that goes down moves its own clients, of no other node.
#[test]
fn down_moves_only_its_own_keys() {
    let set = nodes(&[1, 2, 3, 4]);
    let all = ReadySet::all(4);
    let less = ReadySet::all(4);
    less.set(id(2), false);
    let by_hash: ModuloHash = build(&set);
    let by_ip = IpHash::full_address(&set).unwrap();
    let selectors: [&dyn Selector; 2] = [&by_hash, &by_ip];
    for selector in selectors {
        let mut moved = 0u32;
        for client in 0..1000u32 {
            let key = client.wrapping_mul(2_654_435_761).to_be_bytes();
            let before = selector.pick(&key, &Eligible::new(&all));
            let after = selector.pick(&key, &Eligible::new(&less));
            assert_eq!(before == after, before != Some(id(2)), "{selector:?}");
            moved += u32::from(before != after);
        }
        assert!(moved > 200, "{moved}");
    }
}

/// Ten nodes that take ten requests each, 100 requests with one key: all are served.
#[test]
fn overflow_of_full_nodes_goes_to_others() {
    let set = nodes(&[1; 10]);
    let ready = ReadySet::all(10);
    let ring: Consistent = build(&set);
    let modulo: ModuloHash = build(&set);
    let selectors: [&dyn Selector; 2] = [&ring, &modulo];
    for selector in selectors {
        let taken = [(); 10].map(|()| Cell::new(0));
        for _ in 0..100 {
            let has_room = |node: NodeId| taken[node.index()].get() < 10;
            let picked = selector.pick(b"one key", &Eligible::new(&ready).only_if(&has_room));
            let taken = &taken[picked.unwrap().index()];
            taken.set(taken.get() + 1);
        }
        assert!(taken.iter().all(|taken| taken.get() == 10));
        assert_eq!(
            selector.pick(b"one key", &Eligible::new(&ready).only_if(&|_| false)),
            None
        );
    }
}
