//! What the tests share: selectors and discoveries that can be watched and steered.
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use balancer::selection::{Build, BuildError, Eligible, NodeId, NodeSet, Outcome, Selector};
use balancer::{Address, Backend, Discovery, DiscoveryError, LoadBalancer};

/// `10.0.0.n:80`
pub(crate) fn addr(n: u8) -> Address {
    format!("10.0.0.{n}:80").parse().unwrap()
}

pub(crate) fn backend(n: u8) -> Backend {
    Backend::new(addr(n))
}

pub(crate) fn backends(numbers: impl IntoIterator<Item = u8>) -> Vec<Backend> {
    numbers.into_iter().map(backend).collect()
}

/// The last octets of the members, by readiness.
pub(crate) fn ready<S: Selector + ?Sized>(balancer: &LoadBalancer<S>) -> Vec<u8> {
    let status = balancer.status();
    let ready = status.backends.iter().filter(|backend| backend.ready);
    ready.map(|backend| number(&backend.addr)).collect()
}

pub(crate) fn number(addr: &Address) -> u8 {
    match addr.as_inet().unwrap().ip() {
        std::net::IpAddr::V4(ip) => ip.octets()[3],
        std::net::IpAddr::V6(_) => panic!("not one of ours"),
    }
}

/// Takes turns over the eligible; counts its builds; panics if told to.
#[derive(Debug)]
pub(crate) struct Turns {
    nodes: NodeSet,
    position: AtomicUsize,
    watch: Arc<Watch>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TurnsConfig {
    /// Recorded by every build.
    pub(crate) mark: u32,
    pub(crate) watch: Arc<Watch>,
}

#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) builds: AtomicUsize,
    pub(crate) marks: Mutex<Vec<u32>>,
    pub(crate) panic_at_weight: AtomicUsize,
    pub(crate) observed: Mutex<Vec<(usize, Outcome)>>,
    /// Whether picks are to be observed even if they come to nothing.
    pub(crate) tracks_picks: AtomicBool,
}

impl Selector for Turns {
    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn pick(&self, _key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        let len = self.nodes.len();
        let start = self.position.fetch_add(1, Ordering::Relaxed);
        (0..len)
            .filter_map(|step| NodeId::new((start + step) % len))
            .find(|&id| self.nodes[id].weight() > 0 && eligible.contains(id))
    }

    fn tracks_picks(&self) -> bool {
        self.watch.tracks_picks.load(Ordering::Relaxed)
    }

    fn observe(&self, node: NodeId, outcome: &Outcome, _now: std::time::Duration) {
        self.watch
            .observed
            .lock()
            .unwrap()
            .push((node.index(), *outcome));
    }
}

impl Build for Turns {
    type Config = TurnsConfig;

    fn build(nodes: &NodeSet, config: &TurnsConfig) -> Result<Self, BuildError> {
        let limit = config.watch.panic_at_weight.load(Ordering::Relaxed);
        assert!(
            limit == 0 || nodes.iter().all(|node| node.weight() as usize != limit),
            "told to panic"
        );
        config.watch.builds.fetch_add(1, Ordering::Relaxed);
        config.watch.marks.lock().unwrap().push(config.mark);
        Ok(Self {
            nodes: nodes.clone(),
            position: AtomicUsize::new(0),
            watch: Arc::clone(&config.watch),
        })
    }
}

/// Answers what it was told to, in order; the last answer for ever.
pub(crate) struct Script(Mutex<VecDeque<Answer>>);

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Found(Vec<Backend>),
    Fails,
    Panics,
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self(Mutex::new(answers.into_iter().collect()))
    }
}

#[async_trait]
impl Discovery for Script {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        let answer = {
            let mut answers = self.0.lock().unwrap();
            let next = answers.pop_front().unwrap();
            if answers.is_empty() {
                answers.push_back(next.clone());
            }
            next
        };
        match answer {
            Answer::Found(backends) => Ok(backends),
            Answer::Fails => Err(DiscoveryError::new("name server is away")),
            Answer::Panics => panic!("discovery fell over"),
        }
    }
}
