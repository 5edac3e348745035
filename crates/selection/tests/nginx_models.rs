//! nginx's algorithms against naive models of them, request by request: each model keeps nginx's
//! state of a request over its tries, where ours starts every pick anew.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "the contract suite needs more of it")]
mod every;

use std::sync::Arc;
use std::time::Duration;

use every::{id, nodes};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use selection::{
    Build, Eligible, FailureKind, InFlight, IpHash, IpHashConfig, LeastConn, LeastConnConfig,
    LeastTime, LeastTimeConfig, ModuloHash, ModuloHashConfig, NodeLoad, Outcome, ReadySet,
    Selector, TimeTo, Tried,
};

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    weight: i64,
    effective: i64,
    current: i64,
    conns: i64,
    /// For least_time: the average in ms, and the second of the pick it is idle since.
    average: i64,
    checked: i64,
    /// Its requests in flight: the sum of their ages when it changed, and the average mean age.
    ages: i64,
    changed: i64,
    age: i64,
    up: bool,
    tried: bool,
}

impl Peer {
    fn may(&self) -> bool {
        self.up && !self.tried && self.weight > 0
    }

    /// For least_time with fail_timeout 2.
    fn estimate(&self, second: i64, inflight: bool) -> i64 {
        let idle = second - self.checked;
        let time = match idle {
            0..=2 => self.average,
            _ => self.average >> (idle / 3).min(63),
        };
        let time = match inflight && self.conns > 0 {
            true => time.max(self.age),
            false => time,
        };
        let class = if time > 5000 {
            5000
        } else {
            (time / 20 + 1) * 20
        };
        class * (1 + self.conns)
    }

    fn pass_to(&mut self, millis: i64) {
        self.ages += (millis - self.changed) * self.conns;
        self.changed = millis;
    }
}

struct Model {
    peers: Vec<Peer>,
    max_fails: i64,
}

/// What nginx keeps of a request besides the marks of the peers it tried.
#[derive(Default)]
struct Request {
    attempts: u32,
    sum: u64,
    misses: u32,
}

impl Model {
    fn new(weights: &[u32], up: &[bool], max_fails: u32) -> Self {
        let peers = weights.iter().zip(up).map(|(&weight, &up)| Peer {
            weight: weight.into(),
            effective: weight.into(),
            up,
            ..Peer::default()
        });
        Self {
            peers: peers.collect(),
            max_fails: max_fails.into(),
        }
    }

    fn round(&mut self, joins: impl Fn(&Peer) -> bool) -> Option<usize> {
        let (mut best, mut total) = (None::<usize>, 0);
        for i in 0..self.peers.len() {
            let peer = &mut self.peers[i];
            if peer.may() && joins(peer) {
                peer.current += peer.effective;
                total += peer.effective;
                peer.effective = peer.weight.min(peer.effective + 1);
                if best.is_none_or(|best| self.peers[i].current > self.peers[best].current) {
                    best = Some(i);
                }
            }
        }
        self.peers[best?].current -= total;
        best
    }

    fn failed(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        if let Some(loss) = peer.weight.checked_div(self.max_fails) {
            peer.effective = (peer.effective - loss).max(0);
        }
    }

    /// The owner of place `sum` modulo the total weight, down ones included.
    fn place(&self, sum: u64) -> Option<usize> {
        let total: i64 = self.peers.iter().map(|peer| peer.weight).sum();
        let mut left = i64::try_from(sum.checked_rem(total.try_into().unwrap())?).unwrap();
        let mut peers = self.peers.iter();
        peers.position(|peer| {
            left -= peer.weight;
            left < 0
        })
    }

    /// `hash` and `ip_hash`: `next` is one more attempt.
    fn hash(&mut self, request: &mut Request, next: impl Fn(&mut Request)) -> Option<usize> {
        while request.misses <= 20 {
            next(request);
            let peer = self.place(request.sum)?;
            if self.peers[peer].may() {
                return Some(peer);
            }
            request.misses += 1;
        }
        self.round(|_| true)
    }

    fn least_conn(&mut self) -> Option<usize> {
        let may = || self.peers.iter().filter(|peer| peer.may());
        let mut best = *may().next()?;
        for peer in may() {
            if peer.conns * best.weight < best.conns * peer.weight {
                best = *peer;
            }
        }
        let tied = |peer: &Peer| peer.conns * best.weight == best.conns * peer.weight;
        match may().filter(|peer| tied(peer)).count() {
            1 => self.peers.iter().position(|peer| peer.may() && tied(peer)),
            _ => self.round(tied),
        }
    }
}

impl Model {
    /// `least_time` with fail_timeout 2 at the given millisecond.
    fn least_time(&mut self, millis: i64, inflight: bool) -> Option<usize> {
        let now = millis / 1000;
        for peer in self.peers.iter_mut().filter(|peer| peer.may() && inflight) {
            if let Some(mean) = peer.ages.checked_div(peer.conns) {
                peer.age = averaged(peer.age, mean + millis - peer.changed);
            }
        }
        let estimate = |peer: &Peer| peer.estimate(now, inflight);
        let may = || self.peers.iter().enumerate().filter(|(_, peer)| peer.may());
        let (mut first, mut best) = may().next()?;
        for (i, peer) in may() {
            if estimate(peer) * best.weight < estimate(best) * peer.weight {
                (first, best) = (i, peer);
            }
        }
        let least = estimate(best);
        let tied = may().filter(|(_, peer)| estimate(peer) * best.weight == least * peer.weight);
        let chosen = if tied.count() == 1 {
            first
        } else {
            let (mut total, mut best) = (0, first);
            for i in first..self.peers.len() {
                let (peer, weight) = (self.peers[i], self.peers[best].weight);
                if peer.may() && estimate(&peer) * weight == least * peer.weight {
                    self.peers[i].current += peer.effective;
                    total += peer.effective;
                    self.peers[i].effective = peer.weight.min(peer.effective + 1);
                    if self.peers[i].current > self.peers[best].current {
                        best = i;
                    }
                }
            }
            self.peers[best].current -= total;
            best
        };
        let peer = &mut self.peers[chosen];
        if now - peer.checked > 2 {
            peer.checked = now;
        }
        peer.pass_to(millis);
        peer.conns += 1;
        Some(chosen)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the cut is the rule")]
fn averaged(old: i64, value: i64) -> i64 {
    match old {
        0 => value,
        _ => (0.5 + 0.05 * value as f64 + 0.95 * old as f64) as i64,
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

fn modulo_attempt(request: &mut Request, key: &str) {
    let text = match request.attempts {
        0 => key.to_owned(),
        attempt => format!("{attempt}{key}"),
    };
    request.attempts += 1;
    request.sum += u64::from((crc32(text.as_bytes()) >> 16) & 0x7fff);
}

fn ip_attempt(request: &mut Request, octets: &[u8]) {
    if request.attempts == 0 {
        request.sum = 89;
    }
    request.attempts += 1;
    for &octet in octets {
        request.sum = (request.sum * 113 + u64::from(octet)) % 6271;
    }
}

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
            let key = std::str::from_utf8(key).unwrap();
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
