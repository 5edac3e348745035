//! The naive models, which the tests of `selection` share, behind one face.

#[path = "../../../crates/selection/tests/naive/bounded.rs"]
mod bounded;
#[path = "../../../crates/selection/tests/naive/fair.rs"]
mod fair;
#[path = "../../../crates/selection/tests/naive/nginx.rs"]
mod nginx;
#[path = "../../../crates/selection/tests/naive/weighted.rs"]
mod weighted;

use super::{End, Kind};

pub(crate) use nginx::Request;

/// What a model is, and what it remembers.
pub(crate) enum Model {
    Fnv,
    FnvUniform,
    Turns {
        ticket: usize,
    },
    Ring {
        points: Vec<(u32, usize)>,
    },
    Bounded {
        points: Vec<(u32, usize)>,
        percent: u32,
    },
    Nginx(nginx::Model, Rule),
    Fair(fair::Model),
}

/// Which of nginx's balancers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Smooth,
    Hash,
    IpHash,
    LeastConn,
    LeastTime { inflight: bool },
}

/// What a pick may look at.
pub(crate) struct Now<'a> {
    pub(crate) weights: &'a [u32],
    pub(crate) may: &'a [bool],
    pub(crate) in_flight: &'a [u64],
    /// Whether a readiness bit is set, tried and refused nodes included.
    pub(crate) is_anything_ready: bool,
    pub(crate) millis: i64,
}

impl Model {
    /// `None` for what draws at random, and what has only the contract.
    pub(crate) fn new(kind: Kind, weights: &[u32], max_fails: u32) -> Option<Self> {
        let nginx = |rule| {
            let up = vec![true; weights.len()];
            Self::Nginx(nginx::Model::new(weights, &up, max_fails), rule)
        };
        let points = || weighted::ring_points(weights);
        Some(match kind {
            Kind::Fnv => Self::Fnv,
            Kind::FnvUniform => Self::FnvUniform,
            Kind::RoundRobin { uniform: false } => Self::Turns { ticket: 0 },
            Kind::Consistent => Self::Ring { points: points() },
            Kind::ConsistentBounded { .. } => Self::Bounded {
                points: points(),
                percent: kind.percent(),
            },
            Kind::Smooth => nginx(Rule::Smooth),
            Kind::Hash => nginx(Rule::Hash),
            Kind::IpHash { full: false } => nginx(Rule::IpHash),
            Kind::LeastConn => nginx(Rule::LeastConn),
            Kind::LeastTime { inflight } => nginx(Rule::LeastTime { inflight }),
            Kind::Fair => Self::fair(weights)?,
            _ => return None,
        })
    }

    fn fair(weights: &[u32]) -> Option<Self> {
        let len = weights.len();
        Some(Self::Fair(fair::Model {
            weights: weights.to_vec(),
            current_weight: weights.to_vec(),
            last_request: vec![0; len],
            requests_in_flight: vec![0; len],
            fails: vec![0; len],
            max_fails: FAIR_MAX_FAILS,
            total: 0,
            current: len.checked_sub(1)?,
        }))
    }

    /// The same over other weights, if it remembers nothing but them.
    pub(crate) fn rebuilt(self, weights: &[u32]) -> Option<Self> {
        match self {
            Self::Fnv | Self::FnvUniform => Some(self),
            Self::Ring { .. } => Some(Self::Ring {
                points: weighted::ring_points(weights),
            }),
            Self::Bounded { percent, .. } => Some(Self::Bounded {
                points: weighted::ring_points(weights),
                percent,
            }),
            Self::Turns { .. } | Self::Nginx(..) | Self::Fair(_) => None,
        }
    }

    /// The node that should be picked; the outer `None` if the model does not know.
    pub(crate) fn pick(
        &mut self,
        now: &Now<'_>,
        request: &mut Request,
        key: &[u8],
    ) -> Option<Option<usize>> {
        let Now { weights, may, .. } = *now;
        Some(match self {
            // An empty key takes turns, which are modelled for those that do nothing else.
            Self::Fnv | Self::Ring { .. } | Self::Bounded { .. } if key.is_empty() => return None,
            Self::Fnv => weighted::fnv_model(weights, may, key),
            Self::FnvUniform => weighted::uniform_model(weights, may, key),
            Self::Turns { .. } if !now.is_anything_ready || weights.iter().all(|&w| w == 0) => None,
            Self::Turns { ticket } => weighted::turn_model(weights, may, ticket),
            Self::Ring { points } => weighted::ring_model(points, may, key),
            Self::Bounded { points, percent } => bounded(points, (*percent).into(), now, key),
            Self::Nginx(model, rule) => {
                for (peer, &may) in model.peers.iter_mut().zip(may) {
                    peer.up = may;
                }
                nginx_pick(model, *rule, now, request, key)
            }
            Self::Fair(model) => {
                for (requests, &now) in model.requests_in_flight.iter_mut().zip(now.in_flight) {
                    *requests = now;
                }
                model.pick(may)
            }
        })
    }

    /// A request on `node` ended.
    pub(crate) fn ended(&mut self, node: usize, latency: i64, how: End, millis: i64) {
        match self {
            Self::Nginx(model, Rule::LeastTime { .. }) => {
                let peer = &mut model.peers[node];
                peer.pass_to(millis);
                peer.ages -= match how {
                    End::Success => latency,
                    End::Failure | End::Cancelled => peer.ages / peer.conns,
                };
                peer.conns -= 1;
                if peer.conns == 0 {
                    peer.ages = 0;
                }
                match how {
                    End::Success => peer.average = nginx::averaged(peer.average, latency),
                    End::Failure => {
                        peer.checked = millis / 1000;
                        model.failed(node);
                    }
                    End::Cancelled => {}
                }
            }
            Self::Nginx(model, _) if how == End::Failure => model.failed(node),
            Self::Fair(model) if how == End::Failure => model.fails[node] += 1,
            _ => {}
        }
    }
}

fn nginx_pick(
    model: &mut nginx::Model,
    rule: Rule,
    now: &Now<'_>,
    request: &mut Request,
    key: &[u8],
) -> Option<usize> {
    match rule {
        Rule::Smooth => model.round(|_| true),
        Rule::Hash | Rule::IpHash if key.is_empty() => model.round(|_| true),
        Rule::Hash => model.hash(request, |request| nginx::modulo_attempt(request, key)),
        Rule::IpHash => {
            let octets = if key.len() == 4 { &key[..3] } else { key };
            model.hash(request, |request| nginx::ip_attempt(request, octets))
        }
        Rule::LeastConn => {
            for (peer, &in_flight) in model.peers.iter_mut().zip(now.in_flight) {
                peer.conns = in_flight.cast_signed();
            }
            model.least_conn()
        }
        Rule::LeastTime { inflight } => model.least_time(now.millis, inflight),
    }
}

/// Over the nodes that may be picked, the first with room on the ring of all.
fn bounded(points: &[(u32, usize)], percent: u64, now: &Now<'_>, key: &[u8]) -> Option<usize> {
    let fits: Vec<_> = (0..now.may.len()).filter(|&node| now.may[node]).collect();
    let weights: Vec<u64> = fits.iter().map(|&node| now.weights[node].into()).collect();
    if weights.iter().all(|&weight| weight == 0) {
        return None;
    }
    let loads: Vec<u64> = fits.iter().map(|&node| now.in_flight[node]).collect();
    let mut has_room = vec![false; now.may.len()];
    for (place, &node) in fits.iter().enumerate() {
        has_room[node] =
            now.weights[node] > 0 && bounded::has_room(&weights, &loads, percent, place);
    }
    weighted::ring_model(points, &has_room, key)
}

/// More failures than an input has.
pub(crate) const FAIR_MAX_FAILS: u32 = 1000;
