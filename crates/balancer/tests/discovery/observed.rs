//! A service over a source that shows when it is asked.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use balancer::selection::RoundRobin;
use balancer::{Backend, Discovery, DiscoveryError, LoadBalancer, Options};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::support::{PATIENCE, Running};

/// A source, and how often it was asked.
#[derive(Clone)]
pub(crate) struct Observed<D> {
    source: Arc<D>,
    asked: watch::Sender<u64>,
}

impl<D: Discovery + 'static> Observed<D> {
    pub(crate) fn new(source: D) -> Self {
        Self {
            source: Arc::new(source),
            asked: watch::Sender::new(0),
        }
    }

    /// A service that would ask after an hour, were it not for what the source tells.
    pub(crate) fn start(&self) -> (Arc<LoadBalancer<RoundRobin>>, Running) {
        let hour = Duration::from_secs(3600);
        let source = Self {
            source: Arc::clone(&self.source),
            asked: self.asked.clone(),
        };
        let balancer = LoadBalancer::builder(source, Default::default())
            .options(Options::default().update_interval(hour));
        let balancer = Arc::new(balancer.build().unwrap());
        let running = Running::start(&balancer);
        (balancer, running)
    }

    /// Waits until `condition` holds of the balancer, looking again whenever the source is asked
    /// and after what came of it.
    pub(crate) async fn until(
        &self,
        balancer: &LoadBalancer<RoundRobin>,
        condition: impl Fn(&LoadBalancer<RoundRobin>) -> bool,
    ) {
        let mut asked = self.asked.subscribe();
        loop {
            asked.mark_unchanged();
            let updates = |status: balancer::Status| status.updates + status.failed_updates;
            while updates(balancer.status()) < *asked.borrow() {
                tokio::task::yield_now().await;
            }
            if condition(balancer) {
                return;
            }
            let waited = timeout(PATIENCE, asked.changed()).await;
            assert!(
                waited.is_ok(),
                "it did not come to pass: {:?}",
                balancer.status()
            );
        }
    }

    /// Waits until the balancer has these members.
    pub(crate) async fn until_members(&self, balancer: &LoadBalancer<RoundRobin>, expected: &str) {
        self.until(balancer, |balancer| members(balancer) == expected)
            .await;
    }
}

#[async_trait]
impl<D: Discovery> Discovery for Observed<D> {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        self.asked.send_modify(|asked| *asked += 1);
        self.source.discover().await
    }

    async fn changed(&self) {
        self.source.changed().await;
    }

    fn valid_for(&self) -> Option<Duration> {
        self.source.valid_for()
    }
}

/// The addresses of the members, in order.
pub(crate) fn members(balancer: &LoadBalancer<RoundRobin>) -> String {
    let status = balancer.status();
    let members = status.backends.iter();
    let members: Vec<_> = members.map(|backend| backend.addr.to_string()).collect();
    members.join(" ")
}
