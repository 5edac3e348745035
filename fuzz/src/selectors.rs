//! Every selector over sequences of picks, flips, failures and rebuilds: against its naive model
//! where it has one, and against the contract always.

mod model;

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use ketama::{Scheme, SchemeConfig};
use selection::{
    AddressPart, Algorithm, Eligible, FailureKind, FairConfig, Fallback, InFlight, IpHashConfig,
    KetamaConfig, LeastConnConfig, LeastTimeConfig, Load, ModuloHashConfig, Node, NodeId, NodeLoad,
    NodeSet, Outcome, P2cConfig, PeakEwmaConfig, RandomTwoConfig, ReadySet, Selector, SmoothConfig,
    TimeTo, Tried, WeightedConfig,
};

use self::model::{Model, Now, Request};

/// A selector, its nodes, and what happens to them.
#[derive(Arbitrary, Debug)]
pub struct Input {
    kind: Kind,
    max_fails: u8,
    pool: Vec<Server>,
    /// How many more nodes of weight 1 there are, from 128 on: past words of 64.
    more: u8,
    steps: Vec<Step>,
}

/// Which selector, and with what config.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Fnv,
    FnvUniform,
    Random { uniform: bool },
    RoundRobin { uniform: bool },
    Smooth,
    Hash,
    IpHash { full: bool },
    Consistent,
    ConsistentBounded { percent: u8 },
    ConsistentV2 { point_multiple: u8, bounded: bool },
    ConsistentNamed { bounded: bool },
    ConsistentScheme,
    LeastConn,
    LeastTime { inflight: bool },
    RandomTwo,
    P2c { peak_ewma: bool },
    Fair,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Server {
    weight: u8,
    up: bool,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Flip(u8),
    /// A request that is refused some nodes, with so many tries that fail before it ends.
    Pick {
        key: Key,
        refused: u16,
        failures: u8,
    },
    /// One of the requests in flight ends.
    End {
        nth: u8,
        how: End,
    },
    Pass {
        millis: u16,
    },
    Rebuild(Vec<Server>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Key {
    None,
    Four([u8; 4]),
    Sixteen([u8; 16]),
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Failure,
    Cancelled,
}

struct World {
    kind: Kind,
    set: NodeSet,
    weights: Vec<u32>,
    ready: ReadySet,
    selector: Box<dyn Selector>,
    algorithm: Algorithm,
    model: Option<Model>,
    held: Vec<Held>,
    millis: u64,
}

/// A request in flight: its node, and when it began.
struct Held {
    _counted: InFlight<Arc<NodeLoad>>,
    node: NodeId,
    since: u64,
}

/// Panics if a pick is not what it should be.
pub fn run(input: Input) {
    let max_fails = u32::from(input.max_fails % 4);
    let Some(mut world) = World::new(input.kind, max_fails, &input.pool, input.more) else {
        return;
    };
    for step in input.steps.iter().take(MOST_STEPS) {
        match step {
            Step::Flip(node) => world.flip(*node),
            Step::Pick {
                key,
                refused,
                failures,
            } => world.request(key.bytes(), *refused, *failures),
            Step::End { nth, how } => world.end(*nth, *how),
            Step::Pass { millis } => world.millis += u64::from(*millis),
            Step::Rebuild(pool) => {
                if world.rebuild(pool).is_none() {
                    return;
                }
            }
        }
    }
}

impl World {
    fn new(kind: Kind, max_fails: u32, pool: &[Server], more: u8) -> Option<Self> {
        let algorithm = kind.algorithm(max_fails);
        let more = usize::from(more.saturating_sub(127)) * usize::from(!kind.is_ring());
        let mut weights = kind.weights(pool);
        weights.extend(std::iter::repeat_n(1, more));
        let set = nodes(kind, &weights, None);
        let ready = ReadySet::all(set.len());
        for (id, server) in set.ids().zip(pool) {
            ready.set(id, server.up);
        }
        Some(Self {
            selector: algorithm.build(&set).ok()?,
            model: Model::new(kind, &weights, max_fails),
            kind,
            set,
            weights,
            ready,
            algorithm,
            held: Vec::new(),
            millis: 1_000_000,
        })
    }

    fn flip(&mut self, node: u8) {
        let id = NodeId::from(u32::from(node));
        self.ready.set(id, !self.ready.is_ready(id));
    }

    /// One request: failing tries, each on another node, and the one that is left in flight.
    fn request(&mut self, key: &[u8], refused: u16, failures: u8) {
        let (mut tried, mut request) = (Tried::new(), Request::default());
        for failures_left in (0..=failures % 4).rev() {
            let Some(node) = self.pick(key, refused, &tried, &mut request) else {
                return;
            };
            assert!(tried.insert(node), "{node:?} twice");
            self.held.push(Held {
                _counted: InFlight::new(Arc::clone(self.set[node].load())),
                node,
                since: self.millis,
            });
            if failures_left > 0 {
                self.end(u8::MAX, End::Failure);
            }
        }
    }

    /// One pick, explained before it is made, and compared.
    fn pick(
        &mut self,
        key: &[u8],
        refused: u16,
        tried: &Tried,
        request: &mut Request,
    ) -> Option<NodeId> {
        let accept = |node: NodeId| refused >> (node.index() % 16) & 1 == 0;
        let now = Duration::from_millis(self.millis);
        let clock = || now;
        let eligible = Eligible::new(&self.ready).except(tried).at(&clock);
        // A condition switches off shortcuts, so not all have one.
        let eligible = match refused {
            0 => eligible,
            _ => eligible.only_if(&accept),
        };
        let may = |id: NodeId| eligible.contains(id);
        let may: Vec<bool> = self.set.ids().map(may).collect();
        let explained = self.selector.explain(key, &eligible);
        let picked = self.selector.pick(key, &eligible);
        assert_eq!(explained.chosen, picked, "the explanation");
        let fits = |node: usize| may[node] && self.weights[node] > 0;
        match picked {
            Some(node) => assert!(fits(node.index()), "{node:?} may not be picked"),
            None => assert!(!(0..may.len()).any(fits), "nobody, but one may be"),
        }
        let in_flight = self.set.iter().map(|node| node.load().in_flight().into());
        let now = Now {
            weights: &self.weights,
            may: &may,
            in_flight: &in_flight.collect::<Vec<_>>(),
            is_anything_ready: self.ready.ready() > 0,
            millis: self.millis.cast_signed(),
        };
        if let Some(model) = &mut self.model
            && let Some(expected) = model.pick(&now, request, key)
        {
            assert_eq!(picked.map(NodeId::index), expected, "the model");
        }
        picked
    }

    fn end(&mut self, nth: u8, how: End) {
        let Some(last) = self.held.len().checked_sub(1) else {
            return;
        };
        let Held {
            _counted,
            node,
            since,
        } = self.held.swap_remove(usize::from(nth).min(last));
        let latency = self.millis - since;
        if let Some(model) = &mut self.model {
            model.ended(
                node.index(),
                latency.cast_signed(),
                how,
                self.millis.cast_signed(),
            );
        }
        let outcome = match how {
            End::Success => Outcome::success(Duration::from_millis(latency)),
            End::Failure => Outcome::Failure(FailureKind::Connect),
            End::Cancelled => Outcome::Cancelled,
        };
        let now = Duration::from_millis(self.millis);
        self.selector.observe(node, &outcome, now);
    }

    /// Other nodes and weights; the loads stay with the nodes.
    fn rebuild(&mut self, pool: &[Server]) -> Option<()> {
        let weights = self.kind.weights(pool);
        let set = nodes(self.kind, &weights, Some(&self.set));
        self.selector = self.algorithm.rebuild(&*self.selector, &set).ok()?;
        self.ready = ReadySet::none(set.len());
        for (id, server) in set.ids().zip(pool) {
            self.ready.set(id, server.up);
        }
        self.model = self.model.take().and_then(|model| model.rebuilt(&weights));
        (self.set, self.weights) = (set, weights);
        Some(())
    }
}

impl Kind {
    pub(crate) fn is_ring(self) -> bool {
        matches!(
            self,
            Self::Consistent
                | Self::ConsistentBounded { .. }
                | Self::ConsistentV2 { .. }
                | Self::ConsistentNamed { .. }
                | Self::ConsistentScheme
        )
    }

    /// As heavy as a model can bear.
    fn weights(self, pool: &[Server]) -> Vec<u32> {
        let (most, heavy) = match self {
            _ if self.is_ring() => (5, 3),
            Self::Fnv | Self::FnvUniform | Self::RoundRobin { .. } => (10, 60),
            Self::Hash | Self::IpHash { .. } => (10, 7_000),
            _ => (10, 70_000),
        };
        let weight = |server: &Server| match server.weight % 8 {
            7 => heavy,
            light => u32::from(light % 5).min(heavy),
        };
        pool.iter().take(most).map(weight).collect()
    }

    fn algorithm(self, max_fails: u32) -> Algorithm {
        match self {
            Self::Fnv => Algorithm::Fnv(weighted(false)),
            Self::FnvUniform => Algorithm::Fnv(weighted(true)),
            Self::Random { uniform } => Algorithm::Random(weighted(uniform)),
            Self::RoundRobin { uniform } => Algorithm::RoundRobin(weighted(uniform)),
            Self::Smooth => {
                Algorithm::SmoothRoundRobin(SmoothConfig::default().max_fails(max_fails))
            }
            Self::Hash => Algorithm::Hash(ModuloHashConfig::default().max_fails(max_fails)),
            Self::IpHash { full } => {
                let address = [AddressPart::Nginx, AddressPart::Full][usize::from(full)];
                let config = IpHashConfig::default().max_fails(max_fails);
                Algorithm::IpHash(config.address(address))
            }
            Self::LeastConn => {
                Algorithm::LeastConn(LeastConnConfig::default().max_fails(max_fails))
            }
            Self::LeastTime { inflight } => {
                let config = LeastTimeConfig::default().time(TimeTo::LastByte);
                let config = config
                    .fail_timeout(Duration::from_secs(2))
                    .max_fails(max_fails);
                Algorithm::LeastTime(if inflight {
                    config.with_inflight()
                } else {
                    config
                })
            }
            Self::RandomTwo => Algorithm::RandomTwo(RandomTwoConfig::default().seed(7)),
            Self::P2c { peak_ewma: false } => Algorithm::P2c(P2cConfig::default().seed(7)),
            Self::P2c { peak_ewma: true } => {
                let load = Load::PeakEwma(PeakEwmaConfig::default());
                Algorithm::P2c(P2cConfig::default().seed(7).load(load))
            }
            // Its model forgives nothing and knows no node that is out.
            Self::Fair => {
                let config = FairConfig::default().max_fails(model::FAIR_MAX_FAILS);
                Algorithm::Fair(config.fail_timeout(Duration::MAX))
            }
            _ => Algorithm::Consistent(self.ring(max_fails)),
        }
    }

    fn ring(self, max_fails: u32) -> KetamaConfig {
        let ring = KetamaConfig::default().max_fails(max_fails);
        let ring = match self {
            Self::ConsistentV2 { point_multiple, .. } => {
                ring.point_multiple(NonZeroU32::MIN.saturating_add(point_multiple.into()))
            }
            Self::ConsistentScheme => ring.scheme(SchemeConfig::new(Scheme::LibKetama)),
            _ => ring,
        };
        match self {
            Self::ConsistentBounded { .. }
            | Self::ConsistentNamed { bounded: true }
            | Self::ConsistentV2 { bounded: true, .. } => ring.balance_factor(self.percent()),
            _ => ring,
        }
    }

    /// Of the bound.
    pub(crate) fn percent(self) -> u32 {
        match self {
            Self::ConsistentBounded { percent } => 101 + u32::from(percent),
            _ => 150,
        }
    }
}

fn weighted(uniform: bool) -> WeightedConfig {
    let fallback = [Fallback::Weighted, Fallback::Uniform][usize::from(uniform)];
    WeightedConfig::default().seed(7).fallback(fallback)
}

impl Key {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Four(bytes) => bytes,
            Self::Sixteen(bytes) => bytes,
        }
    }
}

/// 10.0.0.1:80 and so on, in this order, with the loads that they had before.
fn nodes(kind: Kind, weights: &[u32], before: Option<&NodeSet>) -> NodeSet {
    let members = (0u32..).zip(weights).map(|(index, &weight)| {
        let ip = Ipv4Addr::from(0x0a00_0001 + index);
        let node = Node::new(SocketAddr::from((ip, 80)), weight);
        let node = match before.and_then(|set| set.get(index.into())) {
            Some(known) => node.with_load(Arc::clone(known.load())),
            None => node,
        };
        match kind {
            Kind::ConsistentNamed { .. } if index % 3 > 0 => {
                node.with_ring_name(format!("group-{}", index % 2))
            }
            _ => node,
        }
    });
    NodeSet::in_order(members).unwrap()
}

const MOST_STEPS: usize = 40;
