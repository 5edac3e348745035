//! What the tests share: following a source as the service does, and what its answers look like.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use balancer::selection::Selector;
use balancer::{Backend, Discovery, DiscoveryError, LoadBalancer};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// An answer as text, `address weight tier`, sorted; or the error.
pub(crate) fn text(answer: &Result<Vec<Backend>, DiscoveryError>) -> String {
    match answer {
        Ok(backends) => {
            let line = |b: &Backend| format!("{} {} {}", b.addr, b.weight, b.tier);
            let mut lines: Vec<_> = backends.iter().map(line).collect();
            lines.sort();
            lines.join(", ")
        }
        Err(error) => format!("error: {error}"),
    }
}

/// Follows `discovery` until it answers `expected`: asks, and asks again whenever it says that
/// something has changed, and never otherwise.
pub(crate) async fn until_pushed(discovery: &dyn Discovery, expected: &str) {
    until(discovery, |answer| answer == expected).await;
}

/// As [`until_pushed`], for any condition.
pub(crate) async fn until(discovery: &dyn Discovery, is_expected: impl Fn(&str) -> bool) {
    loop {
        let mut changed = pin!(discovery.changed());
        let already = is_ready(changed.as_mut()).await;
        let answer = text(&discovery.discover().await);
        if is_expected(&answer) {
            return;
        }
        if !already {
            let waited = timeout(PATIENCE, changed).await;
            assert!(waited.is_ok(), "nothing changed any more, at {answer}");
        }
    }
}

/// Polls `future` once.
pub(crate) async fn is_ready(future: Pin<&mut impl Future<Output = ()>>) -> bool {
    tokio::select! { biased; () = future => true, () = async {} => false }
}

/// A service that runs until it is dropped.
pub(crate) struct Running(oneshot::Sender<()>);

impl Running {
    pub(crate) fn start<S: Selector + ?Sized>(balancer: &Arc<LoadBalancer<S>>) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(Arc::clone(balancer).run(async { drop(stopped.await) }));
        Self(stop)
    }

    /// Lets it run until `condition` holds, without the clock going on if it is paused.
    pub(crate) async fn until(&self, condition: impl Fn() -> bool) {
        assert!(!self.0.is_closed());
        for _ in 0..1_000_000 {
            if condition() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it did not come to pass");
    }
}

/// Far longer than anything takes; reached only by a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
