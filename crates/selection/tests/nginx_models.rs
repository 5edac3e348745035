//! nginx's algorithms against naive models of them, request by request: each model keeps nginx's
//! state of a request over its tries, where ours starts every pick anew.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;
#[path = "naive/nginx.rs"]
mod nginx;

use std::sync::Arc;
use std::time::Duration;

use every::{id, nodes};
use nginx::{Model, Request, averaged, ip_attempt, modulo_attempt};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use selection::{
    Build, Eligible, FailureKind, InFlight, IpHash, IpHashConfig, LeastConn, LeastConnConfig,
    LeastTime, LeastTimeConfig, ModuloHash, ModuloHashConfig, NodeLoad, Outcome, ReadySet,
    Selector, TimeTo, Tried,
};

/// Requests of up to four tries each, all but the last of which fail.
fn replay(
    model: &mut Model,
    selector: &dyn Selector,
    keys: impl Iterator<Item = Vec<u8>>,
    mut pick: impl FnMut(&mut Model, &mut Request, &[u8]) -> Option<usize>,
) {
    let ready = ReadySet::none(model.peers.len());
    for (i, peer) in model.peers.iter().enumerate() {
        ready.set(id(i), peer.up);
    }
    for (n, key) in keys.enumerate() {
        let (mut request, mut tried) = (Request::default(), Tried::new());
        for tries in (0..1 + n % 4).rev() {
            let ours = selector.pick(&key, &Eligible::new(&ready).except(&tried));
            let theirs = pick(model, &mut request, &key);
            assert_eq!(ours.map(selection::NodeId::index), theirs, "request {n}");
            let Some(node) = ours else { break };
            tried.insert(node);
            model.peers[node.index()].tried = true;
            if tries > 0 {
                let failure = Outcome::Failure(FailureKind::Connect);
                selector.observe(node, &failure, Duration::ZERO);
                model.failed(node.index());
            }
        }
        for peer in &mut model.peers {
            peer.tried = false;
        }
    }
}

/// Weights and who is up; few up and heavy ones down, so that 20 misses happen.
fn peers() -> impl Strategy<Value = (Vec<u32>, Vec<bool>)> {
    let weight = prop_oneof![3 => 0u32..5, 1 => Just(60u32)];
    let peer = (weight, prop::bool::weighted(0.6));
    prop::collection::vec(peer, 0..12).prop_map(|peers| peers.into_iter().unzip())
}

fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(10),
        ..ProptestConfig::with_cases(200)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn hash_equals_the_model((weights, up) in peers(), max_fails in 0u32..4) {
        let config = ModuloHashConfig::default().max_fails(max_fails);
        let selector = ModuloHash::build(&nodes(&weights), &config).unwrap();
        let mut model = Model::new(&weights, &up, max_fails);
        let keys = (0..60).map(|i| format!("key-{i}").into_bytes());
        replay(&mut model, &selector, keys, |model, request, key| {
            model.hash(request, |request| modulo_attempt(request, key))
        });
    }

    #[test]
    fn ip_hash_equals_the_model(
        (weights, up) in peers(),
        max_fails in 0u32..4,
        addresses in prop::collection::vec(any::<([u8; 4], [u8; 16], bool)>(), 40),
    ) {
        let config = IpHashConfig::default().max_fails(max_fails);
        let selector = IpHash::build(&nodes(&weights), &config).unwrap();
        let mut model = Model::new(&weights, &up, max_fails);
        let keys = addresses
            .into_iter()
            .map(|(v4, v6, is_v4)| if is_v4 { v4.to_vec() } else { v6.to_vec() });
        replay(&mut model, &selector, keys, |model, request, key| {
            let octets = if key.len() == 4 { &key[..3] } else { key };
            model.hash(request, |request| ip_attempt(request, octets))
        });
    }

    #[test]
    fn an_empty_key_takes_turns((weights, up) in peers()) {
        let build = |set: &_| -> [Box<dyn Selector>; 2] { [
            Box::new(ModuloHash::build(set, &ModuloHashConfig::default()).unwrap()),
            Box::new(IpHash::build(set, &IpHashConfig::default()).unwrap()),
        ] };
        for selector in build(&nodes(&weights)) {
            let mut model = Model::new(&weights, &up, 1);
            let keys = std::iter::repeat_n(Vec::new(), 30);
            replay(&mut model, selector.as_ref(), keys, |model, _, _| model.round(|_| true));
        }
    }

    #[test]
    fn least_time_equals_the_model(
        (weights, up) in peers(),
        requests in prop::collection::vec((0u16..3000, any::<bool>()), 80),
        inflight in any::<bool>(),
    ) {
        let set = nodes(&weights);
        let config = LeastTimeConfig::default().time(TimeTo::LastByte);
        let config = config.fail_timeout(Duration::from_secs(2));
        let config = if inflight { config.with_inflight() } else { config };
        let selector = LeastTime::build(&set, &config).unwrap();
        let mut model = Model::new(&weights, &up, 1);
        let ready = ReadySet::none(weights.len());
        for (i, &up) in up.iter().enumerate() {
            ready.set(id(i), up);
        }
        let mut held = std::collections::VecDeque::new();
        let mut millis = 1_000_000;
        for (pause, fails) in requests {
            millis += u64::from(pause);
            let (now, signed) = (Duration::from_millis(millis), i64::try_from(millis).unwrap());
            let clock = || now;
            let picked = selector.pick(b"", &Eligible::new(&ready).at(&clock));
            let theirs = model.least_time(signed, inflight);
            prop_assert_eq!(picked.map(selection::NodeId::index), theirs);
            let Some(node) = picked else { continue };
            held.push_back((InFlight::new(Arc::clone(set[node].load())), node, millis));
            if held.len() < 3 {
                continue;
            }
            let (_, node, start) = held.pop_front().unwrap();
            let latency = i64::try_from(millis - start).unwrap();
            let peer = &mut model.peers[node.index()];
            peer.pass_to(signed);
            peer.ages -= if fails { peer.ages / peer.conns } else { latency };
            peer.conns -= 1;
            if peer.conns == 0 {
                peer.ages = 0;
            }
            if fails {
                peer.checked = signed / 1000;
                model.failed(node.index());
                selector.observe(node, &Outcome::Failure(FailureKind::Timeout), now);
            } else {
                peer.average = averaged(peer.average, latency);
                let success = Outcome::success(Duration::from_millis(millis - start));
                selector.observe(node, &success, now);
            }
        }
    }

    #[test]
    fn least_conn_equals_the_model(
        (weights, up) in peers(),
        max_fails in 0u32..4,
        ends in prop::collection::vec(0usize..8, 60),
    ) {
        let set = nodes(&weights);
        let config = LeastConnConfig::default().max_fails(max_fails);
        let selector = LeastConn::build(&set, &config).unwrap();
        let mut model = Model::new(&weights, &up, max_fails);
        let mut held = Vec::<InFlight<Arc<NodeLoad>>>::new();
        let mut holders = Vec::new();
        for end in ends {
            let mut last = None;
            replay(&mut model, &selector, std::iter::repeat_n(Vec::new(), 2), |model, _, _| {
                last = model.least_conn();
                last
            });
            if let Some(last) = last {
                held.push(InFlight::new(Arc::clone(set[id(last)].load())));
                holders.push(last);
                model.peers[last].conns += 1;
            }
            if end < held.len() {
                drop(held.remove(end));
                model.peers[holders.remove(end)].conns -= 1;
            }
        }
    }
}
