//! Why a pick came to its node: for operators, not for the request path.

use std::cell::RefCell;
use std::fmt;

use crate::{Eligible, NodeId};

/// What [`Selector::explain`](crate::Selector::explain) found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The nodes that the algorithm asked for, each once, in the order in which it did.
    ///
    /// A walk (the ring, a hash, turns, draws) ends with the node it chose. An algorithm that
    /// compares (least connections, smooth round robin) asks for all. Nodes that it did not come
    /// to are absent, and so are drained ones as a rule.
    pub candidates: Vec<Candidate>,
    /// The node that was chosen.
    pub chosen: Option<NodeId>,
}

/// One node that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a node that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// It is the one.
    Chosen,
    /// It might have been picked, but the algorithm preferred another: it has less load, it is its
    /// turn, or this one's share is used up.
    Outranked,
    /// It is not ready.
    NotReady,
    /// This request has tried it.
    Tried,
    /// The caller's condition refused it.
    Refused,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chosen => "chosen",
            Self::Outranked => "outranked",
            Self::NotReady => "not ready",
            Self::Tried => "tried before",
            Self::Refused => "refused by the caller",
        })
    }
}

/// Runs `pick` and writes down whom it asks for.
pub(crate) fn record(
    eligible: &Eligible<'_>,
    pick: impl FnOnce(&Eligible<'_>) -> Option<NodeId>,
) -> Explanation {
    let asked = RefCell::new(Vec::<Candidate>::new());
    let watch = |node, verdict| asked.borrow_mut().push(Candidate { node, verdict });
    let chosen = pick(&eligible.watched(&watch));
    let mut candidates = asked.into_inner();
    for candidate in &mut candidates {
        if Some(candidate.node) == chosen {
            candidate.verdict = Verdict::Chosen;
        }
    }
    Explanation { candidates, chosen }
}
