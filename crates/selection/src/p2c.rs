//! Power of two choices.

use std::sync::Arc;
use std::time::Duration;

use crate::alias::Alias;
use crate::refused::Refused;
use crate::splitmix;
use crate::table::{Padded, Table};
use crate::{
    Build, BuildError, Eligible, Node, NodeId, NodeLoad, NodeSet, Outcome, Selector, Tried,
};

/// Of two nodes drawn at random, the one with less load.
///
/// # Rule
///
/// Two *different* eligible nodes are drawn, the first by weight, the second by weight among the
/// others. The one with the lower cost is chosen, and the first of them if they are equal, so that
/// nodes without requests are chosen by weight. The cost is
///
/// ```text
/// latency * (in flight + weight) / weight
/// ```
///
/// with a latency of 1 for every node unless [`Load::PeakEwma`] measures it. For a node of weight
/// 1 this is the `latency * (pending + 1)` of Finagle and tower; a node of weight 3 is as loaded
/// with three times the requests. If one node only is eligible, it is chosen. The key does not
/// matter.
///
/// # Cost
///
/// O(1), by an alias table; O(n) if 16 draws, or n if that is less, do not find a second node,
/// because hardly any is eligible or one has nearly all of the weight.
///
/// # Source
///
/// Mitzenmacher, "The power of two choices in randomized load balancing" (2001). tower's `p2c`
/// draws without regard to weights, so that of nodes of weights 99, 1 the second gets half of what
/// arrives at an idle pool.
#[derive(Clone, Debug)]
pub struct P2c {
    peers: Box<[Peer]>,
    alias: Alias,
    table: Table,
    load: Load,
    stream: Padded,
}

/// What a pick reads of a node, side by side.
#[derive(Clone, Debug)]
struct Peer {
    load: Arc<NodeLoad>,
    weight: u32,
}

/// What besides the nodes decides the choices of [`P2c`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct P2cConfig {
    /// What is compared.
    pub load: Load,
    /// Where the random numbers start; `None`, the default, takes entropy of the system.
    pub seed: Option<u64>,
}

impl P2cConfig {
    /// Sets what is compared.
    #[must_use]
    pub fn load(self, load: Load) -> Self {
        Self { load, ..self }
    }

    /// Fixes the random numbers.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        let seed = Some(seed);
        Self { seed, ..self }
    }
}

/// What [`P2c`] compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Load {
    /// Requests in flight by weight.
    #[default]
    InFlight,
    /// Requests in flight by weight, times the latency as a peak-sensitive moving average.
    PeakEwma(PeakEwmaConfig),
}

/// How latencies are averaged.
///
/// A sample at or above the estimate replaces it at once; one below pulls it down with the weight
/// `1 - e^(-d/tau)`, d being the time since the sample before. While nothing is in flight the
/// estimate fades by `e^(-d/tau)`, so that a node that was slow is tried again, by one request at
/// a time. Reading it never changes it. A node without a sample is compared by its requests in
/// flight alone. Estimates belong to the nodes and outlive rebuilds.
///
/// Times have a resolution of one millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeakEwmaConfig {
    /// The time in which the weight of a sample falls to 1/e; at least 1 ms, 10 s by default
    /// (Finagle, linkerd).
    pub tau: Duration,
    /// The latency that a failed request counts as, if the estimate is not above it already; 5 s
    /// by default (linkerd).
    pub failure: Duration,
}

impl PeakEwmaConfig {
    /// Sets the time in which the weight of a sample falls to 1/e.
    #[must_use]
    pub fn tau(self, tau: Duration) -> Self {
        Self { tau, ..self }
    }

    /// Sets the latency that a failed request counts as.
    #[must_use]
    pub fn failure(self, failure: Duration) -> Self {
        Self { failure, ..self }
    }
}

impl Default for PeakEwmaConfig {
    fn default() -> Self {
        Self {
            tau: Duration::from_secs(10),
            failure: Duration::from_secs(5),
        }
    }
}

impl P2c {
    /// The second of two nodes only if it costs less.
    fn lighter(&self, first: NodeId, second: NodeId, eligible: &Eligible<'_>) -> Option<NodeId> {
        let (one, other) = (self.peer(first)?, self.peer(second)?);
        let second_is_lighter = match self.load {
            Load::InFlight => other.requests(one) < one.requests(other),
            Load::PeakEwma(config) => {
                let now = eligible.now();
                match (one.latency(now, config.tau), other.latency(now, config.tau)) {
                    (Some(one_takes), Some(other_takes)) => {
                        other_takes * other.relative() < one_takes * one.relative()
                    }
                    // What is not known of either is taken to be equal.
                    _ => other.requests(one) < one.requests(other),
                }
            }
        };
        Some(if second_is_lighter { second } else { first })
    }

    fn peer(&self, node: NodeId) -> Option<&Peer> {
        self.peers.get(node.index())
    }
}

impl Peer {
    /// Its requests by weight, to be compared with those of `against`: crosswise, below 2^32 times
    /// 2^32.
    fn requests(&self, against: &Self) -> u64 {
        u64::from(self.load.in_flight()) * u64::from(against.weight)
    }

    /// `(in flight + weight) / weight`.
    fn relative(&self) -> f64 {
        f64::from(self.load.in_flight()) / f64::from(self.weight) + 1.0
    }

    /// In seconds. An estimate fades only while nothing is in flight: a node that was slow is
    /// tried by one request, and not flooded until that is answered.
    fn latency(&self, now: Duration, tau: Duration) -> Option<f64> {
        let ewma = self.load.peak_ewma();
        let seconds = match self.load.in_flight() {
            0 => ewma.faded(now, tau),
            _ => ewma.latest(),
        };
        seconds.map(f64::from)
    }
}

impl Selector for P2c {
    fn len(&self) -> usize {
        self.peers.len()
    }

    fn pick(&self, _key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        if eligible.is_nothing() {
            return None;
        }
        let mut urn = Urn::new(self, eligible);
        let first = urn.draw()?;
        match urn.draw() {
            Some(second) => self.lighter(first, second, eligible),
            None => Some(first),
        }
    }

    fn observe(&self, node: NodeId, outcome: &Outcome, now: Duration) {
        let (Load::PeakEwma(config), Some(peer)) = (self.load, self.peer(node)) else {
            return;
        };
        let ewma = peer.load.peak_ewma();
        match *outcome {
            Outcome::Success { latency, .. } => ewma.record(latency, now, config.tau),
            Outcome::Failure(_) => {
                let estimate = ewma
                    .latest()
                    .map_or(Duration::ZERO, Duration::from_secs_f32);
                ewma.record(config.failure.max(estimate), now, config.tau);
            }
            Outcome::Cancelled => {}
        }
    }

    fn fork(&self) -> Option<Box<dyn Selector>> {
        Some(Box::new(self.clone()))
    }
}

impl Build for P2c {
    type Config = P2cConfig;

    /// O(n).
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfRange`] for a tau below 1 ms.
    fn build(nodes: &NodeSet, config: &P2cConfig) -> Result<Self, BuildError> {
        if let Load::PeakEwma(PeakEwmaConfig { tau, .. }) = config.load
            && tau < Duration::from_millis(1)
        {
            return Err(BuildError::OutOfRange {
                field: "tau",
                value: format!("{tau:?}"),
                allowed: "1ms and more",
            });
        }
        let peer = |node: &Node| Peer {
            load: Arc::clone(node.load()),
            weight: node.weight(),
        };
        Ok(Self {
            peers: nodes.iter().map(peer).collect(),
            alias: Alias::new(nodes),
            table: Table::without_slots(nodes),
            load: config.load,
            stream: Padded::new(splitmix::seed_or_entropy(config.seed)),
        })
    }

    /// Random numbers go on in the stream of `previous`, whatever the seed.
    fn rebuild(previous: &Self, nodes: &NodeSet, config: &P2cConfig) -> Result<Self, BuildError> {
        Ok(Self {
            stream: previous.stream.clone(),
            ..Self::build(nodes, config)?
        })
    }
}

/// Draws eligible nodes by weight, none twice.
struct Urn<'a> {
    selector: &'a P2c,
    eligible: &'a Eligible<'a>,
    out: Out,
}

impl<'a> Urn<'a> {
    fn new(selector: &'a P2c, eligible: &'a Eligible<'a>) -> Self {
        Self {
            selector,
            eligible,
            out: Out::Partly(Refused::new()),
        }
    }

    fn draw(&mut self) -> Option<NodeId> {
        let P2c {
            alias,
            table,
            stream,
            ..
        } = self.selector;
        if let Out::Partly(out) = &mut self.out {
            for _ in 0..DRAWS.min(alias.len()) {
                if out.len() == alias.len() {
                    return None;
                }
                let node = alias.node(splitmix::draw(&stream.0))?;
                if out.insert(node) && self.eligible.contains(node) {
                    return Some(node);
                }
            }
            let mut all = std::mem::replace(out, Refused::new()).into_set();
            table.refuse(self.eligible, &mut all);
            self.out = Out::All(all);
        }
        let Out::All(out) = &mut self.out else {
            return None;
        };
        let node = table.choose(splitmix::draw(&stream.0), out)?;
        out.insert(node);
        Some(node)
    }
}

/// The nodes drawn, and those that are known not to be eligible.
enum Out {
    /// Others may not be eligible either.
    Partly(Refused),
    /// All others are eligible.
    All(Tried),
}

/// With half of the weight down 1 pick in 65,536 scans; a scan of few nodes costs less.
const DRAWS: usize = 16;
