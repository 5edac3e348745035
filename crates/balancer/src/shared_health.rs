//! One health for several balancers over the same backends.

use std::fmt;
use std::sync::Arc;

use crate::board::Board;
use crate::clock::Clock;
use crate::{ConfigError, Options};

/// The health of backends that several balancers have in common: whatever one of them learns of a
/// backend counts for all.
///
/// ```
/// use balancer::selection::{Consistent, LeastConn};
/// use balancer::{LoadBalancer, Options, SharedHealth, Static};
///
/// let options = Options::default();
/// let health = SharedHealth::new(&options);
/// let pages = LoadBalancer::<LeastConn>::builder(Static::default(), Default::default())
///     .options(options.clone())
///     .shared_health(&health)
///     .build()?;
/// let images = LoadBalancer::<Consistent>::builder(Static::default(), Default::default())
///     .options(options)
///     .shared_health(&health)
///     .build()?;
/// # drop((pages, images));
/// # Ok::<_, balancer::ConfigError>(())
/// ```
///
/// Give it to each of their [builders](crate::Builder::shared_health). It is for balancers with
/// members of their own; where the members are the same,
/// [lanes](crate::LoadBalancer::lane) of one balancer do with less.
///
/// # What is shared
///
/// By the [identity](crate::Address::identity) of a backend, from the moment that the first
/// balancer has it until the last one lets it go:
///
/// - what its operator, its checks and its requests say of it. A flip is seen by all balancers at
///   once, in one step; [`set_admin`](crate::LoadBalancer::set_admin) and
///   [`drain`](crate::LoadBalancer::drain) of one are those of all;
/// - the requests in flight, the picks, the failures and the average latency. So
///   [`max_in_flight`](crate::Backend::max_in_flight) holds for all requests together, and a drain
///   ends with the last of them;
/// - its slow start.
///
/// The rules are shared as well: [`initial_health`](Options::initial_health),
/// [`passive`](Options::passive) and [`slow_start`](Options::slow_start) are given here, and those
/// of each balancer have to be the same.
///
/// # What is not
///
/// Members, weights, tiers, limits and selectors are each balancer's own, and so are
/// [`panic_threshold`](Options::panic_threshold), judged by its own members, the checks that were
/// given to it, and [`admin`](Options::admin), which counts for a member that no other has yet.
///
/// A backend that several have is checked by one of them at a time; another takes over when that
/// one stops or lets it go. One that has no [check](crate::Builder::health_check), or does not
/// [run](crate::LoadBalancer::run), checks none.
///
/// `max_ejection_percent` holds in each balancer: a backend is ejected only if every balancer that
/// has it can spare it.
///
/// A pick costs one look more, at whether the backend has left this balancer meanwhile.
///
/// The listener of each balancer is told of the flips of its own members, each once.
#[derive(Clone)]
pub struct SharedHealth {
    pub(crate) board: Arc<Board>,
}

impl SharedHealth {
    /// With the rules of health of these options. The rest of them does not matter here.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            board: Arc::new(Board::shared(options.policy(), Clock::start())),
        }
    }

    /// Whether a balancer with these options may share it.
    pub(crate) fn check(&self, options: &Options) -> Result<(), ConfigError> {
        let (ours, theirs) = (self.board.policy(), options.policy());
        let same = [
            ("initial_health", ours.initial == theirs.initial),
            ("passive", ours.passive == theirs.passive),
            ("slow_start", ours.slow_start == theirs.slow_start),
        ];
        match same.into_iter().find(|(_, same)| !same) {
            Some((option, _)) => Err(ConfigError::NotShared { option }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for SharedHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedHealth").field(&self.board).finish()
    }
}
