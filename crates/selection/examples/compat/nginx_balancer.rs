//! What nginx does around its algorithms: who may be picked, how often a request is tried, what
//! counts as a failure.
//!
//! nginx 1.31, `ngx_http_upstream.c`: `ngx_http_upstream_next`; `ngx_http_upstream_round_robin.c`:
//! `ngx_http_upstream_init_round_robin`, `ngx_http_upstream_get_round_robin_peer`,
//! `ngx_http_upstream_free_round_robin_peer`.

use std::sync::Arc;
use std::time::Duration;

use selection::{
    Build, Consistent, Eligible, FailureKind, InFlight, IpHash, IpHashConfig, KetamaConfig,
    LeastConn, LeastConnConfig, LeastTime, LeastTimeConfig, ModuloHash, ModuloHashConfig, Node,
    NodeId, NodeLoad, NodeSet, Outcome, Random, RandomTwo, RandomTwoConfig, ReadySet, Selector,
    SmoothConfig, SmoothRoundRobin, TimeTo, Tried, WeightedConfig,
};

use crate::Error;
use crate::upstream::{Server, Upstream};

/// An upstream block at work.
pub(crate) struct Balancer {
    /// The primaries, and the backups if there are any.
    groups: Vec<Group>,
    /// The most tries that a request may take.
    tries: usize,
    /// The statuses that another server is asked for.
    next_on: Vec<u64>,
    version: Version,
}

/// The one difference between the two: with one primary and backups, 1.22 goes round among the
/// backups for the rest of a request; 1.31 does so for the first and hashes over them from then on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1_22,
    V1_31,
}

struct Group {
    nodes: NodeSet,
    ready: ReadySet,
    peers: Vec<Peer>,
    selector: Box<dyn Selector>,
    /// One primary and no backups: it is used whatever it did.
    is_single: bool,
    /// Whether requests that come to this group after another are not hashed but take turns.
    turns: bool,
}

/// One address of a server line. Times are whole seconds.
struct Peer {
    is_down: bool,
    max_fails: u64,
    fail_timeout: u64,
    max_conns: u32,
    fails: u64,
    accessed: u64,
    checked: u64,
}

/// One request on its way through the servers.
pub(crate) struct Request {
    group: usize,
    /// Tries in the present group.
    tried: Tried,
    tries_left: usize,
}

/// One request at one server, until it ends.
pub(crate) struct Try {
    pub(crate) address: String,
    group: usize,
    node: NodeId,
    in_flight: InFlight<Arc<NodeLoad>>,
}

/// How a server answers.
#[derive(Clone, Copy)]
pub(crate) struct Reply {
    /// 502 stands for a refused connection.
    pub(crate) status: u64,
    pub(crate) header: Duration,
    pub(crate) latency: Duration,
}

/// What became of a request: one entry a try, `u` where nobody could be chosen.
pub(crate) struct Answer {
    pub(crate) tried: Vec<String>,
    pub(crate) statuses: Vec<u64>,
}

impl Balancer {
    pub(crate) fn new(upstream: &Upstream, version: Version) -> Result<Self, Error> {
        let servers = upstream.servers()?;
        let (backups, primaries): (Vec<_>, Vec<_>) = servers
            .into_iter()
            .partition(|(server, _)| server.has("backup"));
        let mut groups = vec![Group::new(&primaries, upstream)?];
        if !backups.is_empty() {
            groups.push(Group::new(&backups, upstream)?);
            groups[0].is_single = false;
        }
        let up = |group: &Group| group.peers.iter().filter(|peer| !peer.is_down).count();
        let tries = match upstream.setting("max_tries").as_u64() {
            _ if upstream.setting("next_off") == true => 1,
            Some(most) => most.try_into()?,
            None => usize::MAX,
        };
        let next_on = upstream.setting("next_http").as_array();
        Ok(Self {
            tries: tries.min(groups.iter().map(up).sum()),
            groups,
            next_on: next_on
                .into_iter()
                .flatten()
                .filter_map(|s| s.as_u64())
                .collect(),
            version,
        })
    }

    pub(crate) fn request(&self) -> Request {
        Request {
            group: 0,
            tried: Tried::new(),
            tries_left: self.tries,
        }
    }

    /// The next server for `request`.
    pub(crate) fn choose(&mut self, request: &mut Request, key: &[u8], now: u64) -> Option<Try> {
        loop {
            let only_primary = self.groups[0].peers.len() == 1;
            let group = self.groups.get_mut(request.group)?;
            let hashes_backups =
                self.version == Version::V1_31 && only_primary && !request.tried.is_empty();
            let key = match request.group {
                1 if group.turns && !hashes_backups => b"",
                _ => key,
            };
            if let Some(node) = group.choose(&request.tried, key, now) {
                request.tried.insert(node);
                return Some(Try {
                    address: group.nodes[node].identity().to_string(),
                    group: request.group,
                    node,
                    in_flight: InFlight::new(Arc::clone(group.nodes[node].load())),
                });
            }
            request.group += 1;
            request.tried = Tried::new();
        }
    }

    /// The end of a try of `request`; returns whether there is to be another.
    pub(crate) fn end(
        &mut self,
        request: &mut Request,
        ended: Try,
        reply: Reply,
        now: u64,
    ) -> bool {
        let is_refused = reply.status == 502;
        let goes_on =
            request.tries_left > 1 && (is_refused || self.next_on.contains(&reply.status));
        let outcome = match reply.status {
            403 | 404 if goes_on => Outcome::Cancelled,
            502 => Outcome::Failure(FailureKind::Connect),
            _ if goes_on => Outcome::Failure(FailureKind::Status),
            _ => {
                let mut outcome = Outcome::success(reply.latency);
                if let Outcome::Success { header, .. } = &mut outcome {
                    *header = Some(reply.header);
                }
                outcome
            }
        };
        drop(ended.in_flight);
        self.groups[ended.group].observe(ended.node, &outcome, now);
        request.tries_left = request.tries_left.saturating_sub(1);
        goes_on
    }

    /// A request from its start to its answer.
    pub(crate) fn serve(
        &mut self,
        key: &[u8],
        now: u64,
        mut reply: impl FnMut(&str, usize) -> Reply,
    ) -> Answer {
        let mut request = self.request();
        let mut answer = Answer {
            tried: Vec::new(),
            statuses: Vec::new(),
        };
        loop {
            let Some(chosen) = self.choose(&mut request, key, now) else {
                answer.tried.push("u".to_owned());
                answer.statuses.push(502);
                return answer;
            };
            let reply = reply(&chosen.address, answer.tried.len());
            answer.tried.push(chosen.address.clone());
            answer.statuses.push(reply.status);
            if !self.end(&mut request, chosen, reply, now) {
                return answer;
            }
        }
    }

    /// The requests at each server, primaries first.
    pub(crate) fn in_flight(&self) -> Vec<u32> {
        let nodes = self.groups.iter().flat_map(|group| &group.nodes);
        nodes.map(|node| node.load().in_flight()).collect()
    }
}

impl Group {
    fn new(servers: &[(&Server, Vec<String>)], upstream: &Upstream) -> Result<Self, Error> {
        let (mut nodes, mut peers) = (Vec::new(), Vec::new());
        for (server, addresses) in servers {
            let weight = server.parameter("weight").unwrap_or("1").parse()?;
            let max_fails = server.parameter("max_fails").unwrap_or("1").parse()?;
            for address in addresses {
                let node = Node::new(address.as_str(), weight);
                let node = node.with_ring_name(server.text.as_str());
                nodes.push(node.with_max_fails(max_fails));
                peers.push(Peer::new(server, max_fails.into())?);
            }
        }
        let nodes = NodeSet::in_order(nodes)?;
        let ready = ReadySet::all(nodes.len());
        for (node, peer) in nodes.ids().zip(&peers) {
            ready.set(node, !peer.is_down);
        }
        let fail_timeout = Duration::from_secs(peers.first().map_or(10, |peer| peer.fail_timeout));
        Ok(Self {
            selector: selector(upstream.method(), &nodes, fail_timeout)?,
            turns: upstream.method().contains("hash") || upstream.method().starts_with("random"),
            is_single: nodes.len() == 1,
            nodes,
            ready,
            peers,
        })
    }

    fn choose(&mut self, tried: &Tried, key: &[u8], now: u64) -> Option<NodeId> {
        let may = |node: NodeId| {
            let peer = &self.peers[node.index()];
            let conns = self.nodes[node].load().in_flight();
            let is_cooling = !self.is_single && peer.is_cooling(now);
            !is_cooling && (peer.max_conns == 0 || conns < peer.max_conns)
        };
        let clock = || Duration::from_secs(now);
        let eligible = Eligible::new(&self.ready)
            .except(tried)
            .only_if(&may)
            .at(&clock);
        let node = self.selector.pick(key, &eligible)?;
        let peer = &mut self.peers[node.index()];
        if now - peer.checked > peer.fail_timeout {
            peer.checked = now;
        }
        Some(node)
    }

    fn observe(&mut self, node: NodeId, outcome: &Outcome, now: u64) {
        let peer = &mut self.peers[node.index()];
        match outcome {
            Outcome::Failure(_) if self.is_single => return,
            Outcome::Failure(_) => {
                peer.fails += 1;
                (peer.accessed, peer.checked) = (now, now);
            }
            _ if peer.accessed < peer.checked => peer.fails = 0,
            _ => {}
        }
        self.selector
            .observe(node, outcome, Duration::from_secs(now));
    }
}

impl Peer {
    fn new(server: &Server, max_fails: u64) -> Result<Self, Error> {
        let seconds = server.parameter("fail_timeout").unwrap_or("10s");
        Ok(Self {
            is_down: server.has("down"),
            max_fails,
            fail_timeout: seconds.trim_end_matches('s').parse()?,
            max_conns: server.parameter("max_conns").unwrap_or("0").parse()?,
            fails: 0,
            accessed: 0,
            checked: 0,
        })
    }

    fn is_cooling(&self, now: u64) -> bool {
        self.max_fails > 0
            && self.fails >= self.max_fails
            && now - self.checked <= self.fail_timeout
    }
}

/// The algorithm that the `method` line names.
fn selector(
    method: &str,
    nodes: &NodeSet,
    fail_timeout: Duration,
) -> Result<Box<dyn Selector>, Error> {
    fn boxed<S: Build>(nodes: &NodeSet, config: &S::Config) -> Result<Box<dyn Selector>, Error> {
        Ok(Box::new(S::build(nodes, config)?))
    }
    let words: Vec<_> = method.split_whitespace().collect();
    let least_time = || LeastTimeConfig::default().fail_timeout(fail_timeout);
    match words[..] {
        [] => boxed::<SmoothRoundRobin>(nodes, &SmoothConfig::default()),
        ["hash", _, "consistent"] => boxed::<Consistent>(nodes, &KetamaConfig::default()),
        ["hash", _] => boxed::<ModuloHash>(nodes, &ModuloHashConfig::default()),
        ["ip_hash"] => boxed::<IpHash>(nodes, &IpHashConfig::default()),
        ["least_conn"] => boxed::<LeastConn>(nodes, &LeastConnConfig::default()),
        ["random"] => boxed::<Random>(nodes, &WeightedConfig::default().seed(SEED)),
        ["random", "two"] | ["random", "two", "least_conn"] => {
            boxed::<RandomTwo>(nodes, &RandomTwoConfig::default().seed(SEED))
        }
        ["least_time", "header"] => boxed::<LeastTime>(nodes, &least_time().time(TimeTo::Header)),
        ["least_time", "last_byte"] => {
            boxed::<LeastTime>(nodes, &least_time().time(TimeTo::LastByte))
        }
        _ => Err(format!("no algorithm for {method:?}").into()),
    }
}

/// Of the random ones; nginx's own are of the process and the clock.
const SEED: u64 = 1;
