//! nginx's `least_time`: the node that is expected to answer first.

use std::cmp;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::wheel::Wheel;
use crate::{Build, BuildError, Eligible, Node, NodeId, NodeLoad, NodeSet, Outcome, Selector};

/// The node with the least average time and the fewest requests in flight for its weight.
///
/// # Rule
///
/// Every success told to [`observe`](Selector::observe) goes into an average in milliseconds: the
/// first as it is, each later one by 5 %. Failures leave no time, so a node that has only failed
/// counts as the fastest there is.
///
/// The estimate of a node is its average, halved once for every `fail_timeout` + 1 s that it was
/// not picked, which gives slow nodes another chance; cut off at 5 s, below that rounded up to the
/// next multiple of 20 ms, a multiple itself to the next; times one more than its requests in
/// flight ([`NodeLoad::in_flight`]). The least ratio of estimate to weight wins.
///
/// If several nodes have it, one round of smooth round robin among them decides
/// ([`SmoothRoundRobin`](crate::SmoothRoundRobin)), with a quirk of nginx's: whether a node takes
/// part is decided by the estimate of the first of them but the weight of the best so far. With
/// unequal weights some that are tied may be left out.
///
/// With [`inflight`](LeastTimeConfig::inflight) the average age of the requests in flight counts
/// where it is the larger: a node that hangs is slow before it has answered.
///
/// Where a node is left alone for 64 halvings or more, its estimate is that of no time. nginx
/// 1.31.5 shifts by that many bits, which C leaves undefined; later ones do as we do.
///
/// Time comes from [`Eligible::at`]. With `inflight` every pick must be followed by an `observe`
/// ([`Selector::tracks_picks`]), or the ages of the requests in flight are wrong.
///
/// # Cost
///
/// O(n) a pick: it looks at every eligible node. A lock for the round, if there is one; with
/// `inflight` one more for each node.
///
/// # Source
///
/// nginx 1.31, `ngx_http_upstream_least_time_module.c`: `ngx_http_upstream_get_least_time_peer`,
/// `ngx_http_upstream_least_time_eta`. Every pick is nginx's, without `inflight`; with it nginx
/// learns that a request has ended, or got its header, a little earlier than `observe` is called.
#[derive(Clone, Debug)]
pub struct LeastTime {
    peers: Box<[Peer]>,
    wheel: Wheel,
    config: LeastTimeConfig,
}

/// What besides the nodes decides the choices of [`LeastTime`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct LeastTimeConfig {
    /// Which time counts.
    pub time: TimeTo,
    /// Whether the ages of the requests in flight count too. Off by default.
    pub inflight: bool,
    /// After how long without a pick an average is halved. Whole seconds, the rest is cut off; 10
    /// by default, as in nginx.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "fail_timeout_ms", with = "crate::algorithm::millis")
    )]
    pub fail_timeout: Duration,
    /// For the turns: how many failures take the whole weight of a node, as in
    /// [`SmoothConfig`](crate::SmoothConfig::max_fails).
    pub max_fails: u32,
}

/// Which time of an answer [`LeastTime`] averages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TimeTo {
    /// To the end of the header; of the whole answer where the header's is not known.
    #[default]
    Header,
    /// To the last byte of the answer.
    LastByte,
}

impl LeastTimeConfig {
    /// Sets which time counts.
    #[must_use]
    pub fn time(self, time: TimeTo) -> Self {
        Self { time, ..self }
    }

    /// Lets the ages of the requests in flight count too.
    #[must_use]
    pub fn with_inflight(self) -> Self {
        Self {
            inflight: true,
            ..self
        }
    }

    /// Sets after how long without a pick an average is halved.
    #[must_use]
    pub fn fail_timeout(self, fail_timeout: Duration) -> Self {
        Self {
            fail_timeout,
            ..self
        }
    }

    /// Sets how many failures take the whole weight of a node.
    #[must_use]
    pub fn max_fails(self, max_fails: u32) -> Self {
        Self { max_fails, ..self }
    }
}

impl Default for LeastTimeConfig {
    fn default() -> Self {
        Self {
            time: TimeTo::default(),
            inflight: false,
            fail_timeout: Duration::from_secs(10),
            max_fails: 1,
        }
    }
}

/// What a pick reads of a node, side by side.
#[derive(Debug)]
struct Peer {
    load: Arc<NodeLoad>,
    weight: u32,
    times: Arc<Times>,
}

/// What is measured of one node; it moves from selector to selector by identity. Relaxed
/// throughout: statistics that order no other memory.
#[derive(Debug, Default)]
struct Times {
    /// Averages in milliseconds.
    header: AtomicU64,
    response: AtomicU64,
    /// One more than the second of the pick that it is idle since; 0 before the first.
    checked: AtomicU64,
    ages: Mutex<Ages>,
}

/// The requests in flight, in milliseconds.
#[derive(Clone, Debug, Default)]
struct Ages {
    requests: u64,
    /// The sum of their ages at `changed`.
    sum: u64,
    changed: u64,
    /// The moving average of their mean age.
    average: u64,
}

impl LeastTime {
    /// The average time of this node's answers, as [`LeastTimeConfig::time`] takes it, in whole
    /// milliseconds. `None` without an answer, or while that is none.
    #[must_use]
    pub fn average(&self, node: NodeId) -> Option<Duration> {
        let average = self.average_of(self.peer(node)?);
        (average > 0).then(|| Duration::from_millis(average))
    }

    fn average_of(&self, peer: &Peer) -> u64 {
        let average = match self.config.time {
            TimeTo::Header => &peer.times.header,
            TimeTo::LastByte => &peer.times.response,
        };
        average.load(Ordering::Relaxed)
    }

    fn with_state(
        nodes: &NodeSet,
        config: &LeastTimeConfig,
        wheel: Wheel,
        times: impl Iterator<Item = Arc<Times>>,
    ) -> Self {
        let peer = |(node, times): (&Node, _)| Peer {
            load: Arc::clone(node.load()),
            weight: node.weight(),
            times,
        };
        Self {
            peers: nodes.iter().zip(times).map(peer).collect(),
            wheel,
            config: config.clone(),
        }
    }

    fn peer(&self, node: NodeId) -> Option<&Peer> {
        self.peers.get(node.index())
    }

    /// The first of the nodes with the least estimate for their weight, that estimate, and whether
    /// there are more of them.
    fn least(&self, members: impl Iterator<Item = NodeId>, now: Duration) -> Option<Least> {
        let mut least = None::<Least>;
        for node in members {
            let Some(peer) = self.peer(node).filter(|peer| peer.weight > 0) else {
                continue;
            };
            if self.config.inflight {
                peer.times.ages().pass_to(now);
            }
            let found = Least {
                node,
                estimate: self.estimate(peer, now),
                weight: peer.weight.into(),
                several: false,
            };
            match least
                .as_mut()
                .map(|least| (found.compared_to(least), least))
            {
                None | Some((cmp::Ordering::Less, _)) => least = Some(found),
                Some((cmp::Ordering::Equal, least)) => least.several = true,
                Some((cmp::Ordering::Greater, _)) => {}
            }
        }
        least
    }

    /// One round among the nodes that are tied with `least`.
    fn turn(&self, least: &Least, members: &crate::Tried, now: Duration) -> Option<NodeId> {
        self.wheel.turn_where(members, |node, best| {
            let Some(best) = best.and_then(|best| self.peer(best)) else {
                return node == least.node;
            };
            self.peer(node).is_some_and(|peer| {
                self.estimate(peer, now) * u128::from(best.weight)
                    == least.estimate * u128::from(peer.weight)
            })
        })
    }

    /// Milliseconds until it would have answered all its requests and one more.
    fn estimate(&self, peer: &Peer, now: Duration) -> u128 {
        let times = &peer.times;
        let mut time = self.average_of(peer);
        let (idle, limit) = (times.idle(now), self.config.fail_timeout.as_secs());
        if idle > limit {
            let halvings = u32::try_from(idle / limit.saturating_add(1)).unwrap_or(u32::MAX);
            time = time.checked_shr(halvings).unwrap_or(0);
        }
        if self.config.inflight {
            let ages = times.ages();
            if ages.requests > 0 {
                time = time.max(ages.average);
            }
        }
        let class = match time {
            0..=CUT_OFF => time + CLASS - time % CLASS,
            _ => CUT_OFF,
        };
        u128::from(class) * (1 + u128::from(peer.load.in_flight()))
    }
}

impl Selector for LeastTime {
    fn len(&self) -> usize {
        self.peers.len()
    }

    fn pick(&self, _key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        let members = eligible.members();
        if members.is_empty() {
            return None;
        }
        let now = eligible.now();
        let least = self.least(members.iter(), now)?;
        let chosen = if least.several {
            self.turn(&least, &members, now)?
        } else {
            least.node
        };
        let times = &self.peer(chosen)?.times;
        if self.config.inflight {
            times.ages().add(now);
        }
        if times.idle(now) > self.config.fail_timeout.as_secs() {
            times.check(now);
        }
        Some(chosen)
    }

    fn tracks_picks(&self) -> bool {
        self.config.inflight
    }

    fn observe(&self, node: NodeId, outcome: &Outcome, now: Duration) {
        let Some(peer) = self.peer(node) else {
            return;
        };
        let ended = match *outcome {
            Outcome::Success { latency, header } => {
                average_in(&peer.times.response, millis(latency));
                average_in(&peer.times.header, millis(header.unwrap_or(latency)));
                Some(latency)
            }
            Outcome::Failure(_) => {
                peer.times.check(now);
                self.wheel.failed(node);
                None
            }
            Outcome::Cancelled => None,
        };
        if self.config.inflight {
            peer.times.ages().remove(ended, now);
        }
    }

    fn fork(&self) -> Option<Box<dyn Selector>> {
        Some(Box::new(self.clone()))
    }
}

impl Clone for Peer {
    /// With times of its own: those of this moment.
    fn clone(&self) -> Self {
        Self {
            load: Arc::clone(&self.load),
            weight: self.weight,
            times: Arc::new(Times::clone(&self.times)),
        }
    }
}

impl Clone for Times {
    fn clone(&self) -> Self {
        let load = |value: &AtomicU64| AtomicU64::new(value.load(Ordering::Relaxed));
        Self {
            header: load(&self.header),
            response: load(&self.response),
            checked: load(&self.checked),
            ages: Mutex::new(self.ages().clone()),
        }
    }
}

impl Build for LeastTime {
    type Config = LeastTimeConfig;

    fn build(nodes: &NodeSet, config: &LeastTimeConfig) -> Result<Self, BuildError> {
        let wheel = Wheel::new(nodes, config.max_fails);
        let times = std::iter::repeat_with(Arc::default);
        Ok(Self::with_state(nodes, config, wheel, times))
    }

    fn rebuild(
        previous: &Self,
        nodes: &NodeSet,
        config: &LeastTimeConfig,
    ) -> Result<Self, BuildError> {
        let wheel = Wheel::carried(&previous.wheel, nodes, config.max_fails);
        let times = nodes
            .matched(previous.wheel.nodes())
            .map(|was| Some(Arc::clone(&previous.peer(was?)?.times)))
            .map(Option::unwrap_or_default);
        Ok(Self::with_state(nodes, config, wheel, times))
    }
}

struct Least {
    node: NodeId,
    estimate: u128,
    weight: u128,
    several: bool,
}

impl Least {
    /// By estimate for the weight. An estimate is below 2^45, a weight below 2^32.
    fn compared_to(&self, other: &Self) -> cmp::Ordering {
        (self.estimate * other.weight).cmp(&(other.estimate * self.weight))
    }
}

impl Times {
    /// Whole seconds since it was last checked.
    fn idle(&self, now: Duration) -> u64 {
        match self.checked.load(Ordering::Relaxed).checked_sub(1) {
            Some(second) => now.as_secs().saturating_sub(second),
            None => u64::MAX,
        }
    }

    fn check(&self, now: Duration) {
        let checked = now.as_secs().saturating_add(1);
        self.checked.store(checked, Ordering::Relaxed);
    }

    /// Sums that a panic left half done are off by a request, no more: poison is no error.
    fn ages(&self) -> MutexGuard<'_, Ages> {
        self.ages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ages {
    /// Averages in the mean age at `now`.
    fn pass_to(&mut self, now: Duration) {
        if let Some(mean) = self.sum.checked_div(self.requests) {
            let age = mean.saturating_add(millis(now).saturating_sub(self.changed));
            self.average = averaged(self.average, age);
        }
    }

    fn add(&mut self, now: Duration) {
        self.advance(now);
        self.requests += 1;
    }

    /// One of them ended, after `time` if that is known.
    fn remove(&mut self, time: Option<Duration>, now: Duration) {
        self.advance(now);
        let mean = self.sum.checked_div(self.requests).unwrap_or(0);
        self.sum = self.sum.saturating_sub(time.map_or(mean, millis));
        self.requests = self.requests.saturating_sub(1);
        if self.requests == 0 {
            self.sum = 0;
        }
    }

    fn advance(&mut self, now: Duration) {
        let now = millis(now);
        let passed = now.saturating_sub(self.changed);
        self.sum = self
            .sum
            .saturating_add(passed.saturating_mul(self.requests));
        self.changed = now;
    }
}

fn average_in(average: &AtomicU64, value: u64) {
    let update = |old| averaged(old, value);
    average.update(Ordering::Relaxed, Ordering::Relaxed, update);
}

/// `ngx_http_upstream_response_time_avg`, in nginx's own arithmetic: the rounding of its floats
/// decides between classes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of two times is not larger than both, and the cut is the rule"
)]
fn averaged(old: u64, value: u64) -> u64 {
    match old {
        0 => value,
        _ => (0.5 + 0.05 * value as f64 + 0.95 * old as f64) as u64,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Beyond that many milliseconds all nodes are equally slow.
const CUT_OFF: u64 = 5000;

/// Milliseconds of a class: times within one are equal.
const CLASS: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(average: u64, checked: u64) -> Peer {
        let times = Times::default();
        times.response.store(average, Ordering::Relaxed);
        times.check(Duration::from_secs(checked));
        Peer {
            load: Arc::default(),
            weight: 1,
            times: Arc::new(times),
        }
    }

    fn estimate(average: u64, idle: u64) -> u128 {
        let config = LeastTimeConfig::default()
            .time(TimeTo::LastByte)
            .fail_timeout(Duration::from_secs(2));
        let selector = LeastTime::build(&NodeSet::default(), &config).unwrap();
        selector.estimate(&peer(average, 100), Duration::from_secs(100 + idle))
    }

    #[test]
    fn tells_the_average_of_the_time_that_counts() {
        let nodes = NodeSet::new([Node::new("a", 1), Node::new("b", 1)]).unwrap();
        let (a, b) = (NodeId::from(0), NodeId::from(1));
        let outcome = Outcome::Success {
            latency: Duration::from_millis(70),
            header: Some(Duration::from_millis(30)),
        };
        for (time, average) in [(TimeTo::Header, 30), (TimeTo::LastByte, 70)] {
            let config = LeastTimeConfig::default().time(time);
            let selector = LeastTime::build(&nodes, &config).unwrap();
            selector.observe(a, &outcome, Duration::ZERO);
            assert_eq!(selector.average(a), Some(Duration::from_millis(average)));
            assert_eq!(selector.average(b), None);
        }
    }

    #[test]
    fn times_come_in_classes_up_to_five_seconds() {
        let rows = [
            (0, 20),
            (19, 20),
            (20, 40),
            (4999, 5000),
            (5000, 5020),
            (5001, 5000),
        ];
        for (average, class) in rows {
            assert_eq!(estimate(average, 0), class, "{average} ms");
        }
    }

    #[test]
    fn an_idle_node_looks_faster_with_time() {
        // fail_timeout 2: halved from the third second on, once more every three seconds.
        let rows = [
            (2, 820),
            (3, 420),
            (5, 420),
            (6, 220),
            (190, 20),
            (192, 20),
            (u64::MAX / 2, 20),
        ];
        for (idle, class) in rows {
            assert_eq!(estimate(800, idle), class, "{idle} s");
        }
    }

    #[test]
    fn averages_round_as_floats_do() {
        for (old, value, average) in [(0, 37, 37), (100, 200, 105), (105, 0, 100), (1, 1, 1)] {
            assert_eq!(averaged(old, value), average, "{old} and {value}");
        }
        assert_eq!(averaged(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn ages_are_those_of_the_requests_in_flight() {
        let at = Duration::from_millis;
        let mut ages = Ages::default();
        ages.add(at(1000));
        ages.add(at(1200));
        assert_eq!(ages.sum, 200);
        ages.pass_to(at(1300));
        assert_eq!(ages.average, 200, "the mean of 300 and 100");
        ages.remove(Some(at(400)), at(1400));
        assert_eq!((ages.requests, ages.sum), (1, 200));
        ages.remove(None, at(1500));
        ages.remove(None, at(1500));
        assert_eq!((ages.requests, ages.sum), (0, 0));
    }
}
