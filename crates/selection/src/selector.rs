//! The one trait that every algorithm implements, and how one is built.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::{BuildError, Eligible, Explanation, NodeId, NodeSet, explain};

/// Chooses one of n weighted nodes.
///
/// # Contract
///
/// Every selector of this crate keeps it, and `tests/contract.rs` checks it for each of them:
///
/// - the node returned was eligible, and its weight is not 0;
/// - if such a node exists, one is returned; if none does, or the set is empty, `None`;
/// - no input makes it panic;
/// - up to 256 nodes it allocates nothing;
/// - a selector that hashes is a pure function of (set, config, key, eligible), except for an
///   empty key, which is not hashed: such requests take turns (nginx); nginx's two hashes modulo
///   the weights also take turns once 20 attempts have met nobody eligible;
/// - among the eligible nodes the shares are as if the others were not in the set.
///
/// # Retries
///
/// A retry is the same pick with the nodes already tried taken out of [`Eligible`]. The predicate
/// goes in, rather than candidates coming out, because in nginx's round robin a node that is not
/// eligible neither gains weight nor counts in the total, and the minimum of least_conn is over the
/// eligible: "yield, then filter" can express neither.
pub trait Selector: Any + Send + Sync + fmt::Debug {
    /// How many nodes it chooses from, drained ones included.
    fn len(&self) -> usize;

    /// Whether it has no nodes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The node for `key` among the eligible ones, or `None` if none is eligible.
    fn pick(&self, key: &[u8], eligible: &Eligible<'_>) -> Option<NodeId>;

    /// Whether a pick leaves a trace that only [`observe`](Self::observe) takes away, such as an age
    /// that goes on growing. Then every pick has to be observed in the end, as
    /// [`Outcome::Cancelled`] if nothing came of it. By default it leaves none.
    fn tracks_picks(&self) -> bool {
        false
    }

    /// What became of a request that went to `node`, learnt at `now` (on the clock of
    /// [`Eligible::at`]). Most algorithms do not care.
    fn observe(&self, node: NodeId, outcome: &Outcome, now: Duration) {
        let _ = (node, outcome, now);
    }

    /// A copy with the state of this moment, whose picks leave this selector as it is.
    ///
    /// `None`, the default, is for selectors whose picks change no state.
    fn fork(&self) -> Option<Box<dyn Selector>> {
        None
    }

    /// Whom [`pick`](Self::pick) would ask for at this moment, in order, and why it would pass
    /// each of them. Changes no state, given [`fork`](Self::fork). It copies the selector's state,
    /// so it is for operators and not for the request path.
    ///
    /// For the candidates after the chosen one, take that out of `eligible`
    /// ([`Eligible::except`]) and ask again.
    fn explain(&self, key: &[u8], eligible: &Eligible<'_>) -> Explanation {
        let copy = self.fork();
        explain::record(eligible, |eligible| match &copy {
            Some(copy) => copy.pick(key, eligible),
            None => self.pick(key, eligible),
        })
    }
}

/// How a selector is made. Apart from [`Selector`], which stays object safe.
pub trait Build: Selector + Sized {
    /// What besides the nodes decides its choices.
    type Config: Clone + fmt::Debug + Default + Send + Sync + 'static;

    /// The selector over `nodes`.
    ///
    /// # Errors
    ///
    /// [`BuildError`] for everything that is wrong with the nodes or the config; picks then cannot
    /// fail.
    fn build(nodes: &NodeSet, config: &Self::Config) -> Result<Self, BuildError>;

    /// The same choices as [`build`](Self::build), reusing `previous` where that is cheaper and
    /// carrying over the state (positions, current weights) of the nodes that stay.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    fn rebuild(
        previous: &Self,
        nodes: &NodeSet,
        config: &Self::Config,
    ) -> Result<Self, BuildError> {
        let _ = previous;
        Self::build(nodes, config)
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was answered.
    Success {
        /// From the pick to the end of the answer.
        latency: Duration,
        /// From the pick to the end of its header, where the caller knows it.
        header: Option<Duration>,
    },
    /// It failed, and the node is to blame.
    Failure(FailureKind),
    /// It was given up before it could tell anything of the node.
    Cancelled,
}

impl Outcome {
    /// An answer that took `latency` as a whole.
    #[must_use]
    pub fn success(latency: Duration) -> Self {
        Self::Success {
            latency,
            header: None,
        }
    }
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// No connection: refused, unreachable, reset while connecting.
    Connect,
    /// No answer in time.
    Timeout,
    /// A connection that broke, or an answer that made no sense.
    Protocol,
    /// An answer that says the server failed, for example an HTTP status of 500 and above.
    Status,
}
