//! The `fair` balancer of the nginx module upstream_fair, in its default mode.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::{Build, BuildError, Eligible, Node, NodeId, NodeSet, Outcome, Selector, Tried};

/// The next idle node in rotation, or else the one with the fewest requests by weight.
///
/// # Rule
///
/// Both passes begin behind the node chosen last.
///
/// 1. The first node with nothing in flight and no failure on its account is chosen. Weights do
///    not matter here: an idle pool is gone round evenly.
/// 2. If there is none: the node with the lowest score, the last of equals. The score is
///    `(requests in flight * 2^20 + 2^20 - 1 - age) / weight`, where `age` counts the picks since
///    the node was chosen last, up to 2^20 - 1. The weight is not the node's but what is left of
///    it: it falls by one each time the node is chosen, starts again behind 0, and loses the
///    fraction of failures in `max_fails`. A weight of 0 divides nothing.
///
/// A failure told to [`observe`](Selector::observe) counts against its node. A node with
/// `max_fails` of them is chosen only if all that are eligible have as many, and then the failures
/// of all are forgiven; those of one node are, `fail_timeout` after the last of them. The key does
/// not matter.
///
/// # Cost
///
/// O(1) while the next node is idle, otherwise O(n). 32 bytes a node, no lock: picks at one moment
/// may see the same node as idle.
///
/// # Source
///
/// github.com/gnosek/nginx-upstream-fair, `ngx_http_upstream_fair_module.c`:
/// `ngx_http_upstream_choose_fair_peer_idle`, `ngx_http_upstream_choose_fair_peer_busy` and
/// `ngx_http_upstream_fair_sched_score`. There `age` counts requests rather than picks, the
/// rotation of a retry begins behind the node that this request tried, the request that finds
/// everybody out fails, and fewer than `max_fails` failures are never forgiven.
#[derive(Debug)]
pub struct Fair {
    nodes: NodeSet,
    accounts: Box<[Account]>,
    config: FairConfig,
    /// The node chosen last; none at first. Relaxed throughout: these numbers order no other
    /// memory, and a lost race costs one turn.
    last: AtomicUsize,
    picks: AtomicU64,
}

/// What besides the nodes decides the choices of [`Fair`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct FairConfig {
    /// How many failures take a node out, for the nodes that do not say so themselves
    /// ([`Node::with_max_fails`]); 1 by default, as in nginx. 0 for no effect of failures.
    pub max_fails: u32,
    /// How long after its last failure a node that is out is forgiven; 10 s by default, as in
    /// nginx.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "fail_timeout_ms", with = "crate::algorithm::millis")
    )]
    pub fail_timeout: Duration,
}

impl FairConfig {
    /// Sets how many failures take a node out.
    #[must_use]
    pub fn max_fails(self, max_fails: u32) -> Self {
        Self { max_fails, ..self }
    }

    /// Sets how long after its last failure a node that is out is forgiven.
    #[must_use]
    pub fn fail_timeout(self, fail_timeout: Duration) -> Self {
        Self {
            fail_timeout,
            ..self
        }
    }
}

impl Default for FairConfig {
    fn default() -> Self {
        Self {
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
        }
    }
}

/// What is kept of one node.
#[derive(Debug)]
struct Account {
    max_fails: u32,
    /// The number of the pick that chose it last.
    chosen: AtomicU64,
    /// What is left of its weight.
    weight: AtomicU32,
    fails: AtomicU32,
    /// When it failed last, in milliseconds.
    failed: AtomicU64,
}

impl Fair {
    /// The first idle node in rotation. Those it asked in vain go to `refused`.
    fn idle(&self, eligible: &Eligible<'_>, refused: &mut Tried) -> Option<NodeId> {
        self.rotation().find(|&id| {
            let is_idle = self.nodes.get(id).is_some_and(is_idle);
            if !is_idle || self.fails(id, eligible) > 0 {
                return false;
            }
            let accepted = eligible.contains(id);
            if !accepted {
                refused.insert(id);
            }
            accepted
        })
    }

    /// The node with the lowest score, the last of equals.
    fn busy(&self, pick: u64, eligible: &Eligible<'_>, refused: &Tried) -> Option<NodeId> {
        let (mut best, mut best_out) = (None, None);
        for id in self.rotation() {
            let drained = self.nodes.get(id).is_none_or(|node| node.weight() == 0);
            if drained || refused.contains(id) || !eligible.contains(id) {
                continue;
            }
            let fails = self.fails(id, eligible);
            let is_out = self
                .account(id)
                .is_some_and(|account| account.is_out(fails));
            let (best, fails) = match is_out {
                true => (&mut best_out, 0),
                false => (&mut best, fails),
            };
            let score = self.score(id, pick, fails);
            if best.is_none_or(|(lowest, _)| score <= lowest) {
                *best = Some((score, id));
            }
        }
        if best.is_none() && best_out.is_some() {
            for account in &self.accounts {
                account.fails.store(0, Ordering::Relaxed);
            }
        }
        best.or(best_out).map(|(_, id)| id)
    }

    fn score(&self, id: NodeId, pick: u64, fails: u32) -> u64 {
        let (Some(node), Some(account)) = (self.nodes.get(id), self.account(id)) else {
            return u64::MAX;
        };
        let age = pick.saturating_sub(account.chosen.load(Ordering::Relaxed));
        let in_flight = u64::from(node.load().in_flight());
        let score = (in_flight << AGE_BITS) | (MAX_AGE - age.min(MAX_AGE));
        let weight = u64::from(account.weight.load(Ordering::Relaxed));
        let max_fails = u64::from(account.max_fails);
        let left = max_fails.saturating_sub(fails.into());
        let weight = (weight * left).checked_div(max_fails).unwrap_or(weight);
        score.checked_div(weight).unwrap_or(score)
    }

    /// The failures of a node that are not forgiven yet.
    fn fails(&self, id: NodeId, eligible: &Eligible<'_>) -> u32 {
        let Some(account) = self.account(id) else {
            return 0;
        };
        let fails = account.fails.load(Ordering::Relaxed);
        if fails == 0 {
            return 0;
        }
        let failed = Duration::from_millis(account.failed.load(Ordering::Relaxed));
        if eligible.now().saturating_sub(failed) > self.config.fail_timeout {
            account.fails.store(0, Ordering::Relaxed);
            return 0;
        }
        fails
    }

    /// Writes down that pick number `pick` chose `id`.
    fn charge(&self, id: NodeId, pick: u64) {
        self.last.store(id.index(), Ordering::Relaxed);
        let (Some(node), Some(account)) = (self.nodes.get(id), self.account(id)) else {
            return;
        };
        account.chosen.store(pick, Ordering::Relaxed);
        let left = account.weight.load(Ordering::Relaxed);
        let left = left.checked_sub(1).unwrap_or_else(|| node.weight());
        account.weight.store(left, Ordering::Relaxed);
    }

    fn account(&self, id: NodeId) -> Option<&Account> {
        self.accounts.get(id.index())
    }

    /// All nodes, from the one behind that chosen last.
    fn rotation(&self) -> impl Iterator<Item = NodeId> + use<> {
        let len = self.nodes.len();
        let start = self.last.load(Ordering::Relaxed).wrapping_add(1).min(len);
        (start..len).chain(0..start).filter_map(NodeId::new)
    }
}

impl Account {
    fn new(node: &Node, config: &FairConfig) -> Self {
        Self {
            max_fails: node.max_fails().unwrap_or(config.max_fails),
            chosen: AtomicU64::new(0),
            weight: AtomicU32::new(node.weight()),
            fails: AtomicU32::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Takes over what the same node has had; of its weight no more is left than there is.
    fn carry(&mut self, was: &Self) {
        let weight = self.weight.get_mut();
        *weight = was.weight.load(Ordering::Relaxed).min(*weight);
        *self.chosen.get_mut() = was.chosen.load(Ordering::Relaxed);
        *self.fails.get_mut() = was.fails.load(Ordering::Relaxed);
        *self.failed.get_mut() = was.failed.load(Ordering::Relaxed);
    }

    fn is_out(&self, fails: u32) -> bool {
        self.max_fails > 0 && fails >= self.max_fails
    }
}

fn is_idle(node: &Node) -> bool {
    node.weight() > 0 && node.load().in_flight() == 0
}

impl Selector for Fair {
    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn pick(&self, _key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId> {
        if eligible.is_nothing() {
            return None;
        }
        let pick = self.picks.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut refused = Tried::new();
        let idle = self.idle(eligible, &mut refused);
        let chosen = idle.or_else(|| self.busy(pick, eligible, &refused))?;
        self.charge(chosen, pick);
        Some(chosen)
    }

    fn observe(&self, node: NodeId, outcome: &Outcome, now: Duration) {
        if let (Outcome::Failure(_), Some(account)) = (outcome, self.account(node))
            && account.max_fails > 0
        {
            let fails = account.fails.load(Ordering::Relaxed);
            account
                .fails
                .store(fails.saturating_add(1), Ordering::Relaxed);
            let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            account.failed.store(now, Ordering::Relaxed);
        }
    }

    fn fork(&self) -> Option<Box<dyn Selector>> {
        Some(Box::new(self.clone()))
    }
}

impl Clone for Fair {
    /// With the accounts of this moment, which then go their own ways.
    fn clone(&self) -> Self {
        let load = |value: &AtomicU64| AtomicU64::new(value.load(Ordering::Relaxed));
        let load_u32 = |value: &AtomicU32| AtomicU32::new(value.load(Ordering::Relaxed));
        let account = |account: &Account| Account {
            max_fails: account.max_fails,
            chosen: load(&account.chosen),
            weight: load_u32(&account.weight),
            fails: load_u32(&account.fails),
            failed: load(&account.failed),
        };
        Self {
            nodes: self.nodes.clone(),
            accounts: self.accounts.iter().map(account).collect(),
            config: self.config.clone(),
            last: AtomicUsize::new(self.last.load(Ordering::Relaxed)),
            picks: load(&self.picks),
        }
    }
}

impl Build for Fair {
    type Config = FairConfig;

    /// O(n). Cannot fail.
    fn build(nodes: &NodeSet, config: &FairConfig) -> Result<Self, BuildError> {
        let account = |node| Account::new(node, config);
        Ok(Self {
            nodes: nodes.clone(),
            accounts: nodes.iter().map(account).collect(),
            config: config.clone(),
            last: AtomicUsize::new(usize::MAX),
            picks: AtomicU64::new(0),
        })
    }

    /// With the accounts of the nodes that stay; the rotation goes on behind the same node, if that
    /// does.
    fn rebuild(previous: &Self, nodes: &NodeSet, config: &FairConfig) -> Result<Self, BuildError> {
        let last = previous.last.load(Ordering::Relaxed);
        let mut next = Self::build(nodes, config)?;
        for (index, was) in nodes.matched(&previous.nodes).enumerate() {
            let Some(was) = was else {
                continue;
            };
            if let Some(account) = previous.account(was) {
                next.accounts[index].carry(account);
            }
            if was.index() == last {
                *next.last.get_mut() = index;
            }
        }
        *next.picks.get_mut() = previous.picks.load(Ordering::Relaxed);
        Ok(next)
    }
}

/// `SCHED_COUNTER_BITS`: the age is the lesser part of a score.
const AGE_BITS: u32 = 20;

/// `SCHED_COUNTER_MAX`.
const MAX_AGE: u64 = (1 << AGE_BITS) - 1;
