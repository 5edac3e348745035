//! When the service asks a source: in paused time, and of a source that is a script.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use balancer::selection::RoundRobin;
use balancer::{Backend, Discovery, DiscoveryError, LoadBalancer, Options, Static};
use tokio::time::{Instant, advance};

use crate::support::Running;

const SECOND: Duration = Duration::from_secs(1);

/// Never tells of a change. Counts what it is asked, and may say how long an answer holds.
#[derive(Default)]
struct Silent {
    list: Static,
    asked: AtomicUsize,
    holds: Mutex<Option<Duration>>,
}

#[async_trait]
impl Discovery for Silent {
    async fn discover(&self) -> Result<Vec<Backend>, DiscoveryError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(self.list.backends())
    }

    fn valid_for(&self) -> Option<Duration> {
        *self.holds.lock().unwrap()
    }
}

fn start(source: &Arc<Silent>) -> (Arc<LoadBalancer<RoundRobin>>, Running) {
    let balancer = LoadBalancer::builder(Arc::clone(source), Default::default())
        .options(Options::default().update_interval(30 * SECOND));
    let balancer = Arc::new(balancer.build().unwrap());
    let running = Running::start(&balancer);
    (balancer, running)
}

/// The times, in seconds after the start, at which the source was asked within `limit`.
async fn times_asked(source: &Silent, running: &Running, limit: u64) -> Vec<u64> {
    let start = Instant::now();
    running
        .until(|| source.asked.load(Ordering::Relaxed) > 0)
        .await;
    let mut times = vec![0];
    while start.elapsed().as_secs() < limit {
        advance(SECOND).await;
        let before = source.asked.load(Ordering::Relaxed);
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        if source.asked.load(Ordering::Relaxed) > before {
            times.push(start.elapsed().as_secs());
        }
    }
    times
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_not_told_is_found_at_the_interval() {
    let source = Arc::new(Silent::default());
    let (balancer, running) = start(&source);
    running.until(|| balancer.status().updates == 1).await;
    source.list.add(Backend::new(std::net::SocketAddr::from((
        [127, 0, 0, 1],
        1,
    ))));
    advance(29 * SECOND).await;
    assert!(balancer.select(b"").is_none());
    advance(SECOND).await;
    running.until(|| balancer.select(b"").is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_knows_how_long_its_answer_holds_sets_the_pace() {
    for (holds, expected) in [
        (None, vec![0, 30, 60]),
        (Some(20 * SECOND), vec![0, 20, 40, 60]),
        (Some(45 * SECOND), vec![0, 45]),
        // At least a second apart, whatever it says.
        (Some(Duration::ZERO), (0..=60).collect()),
    ] {
        let source = Arc::new(Silent::default());
        *source.holds.lock().unwrap() = holds;
        let (_balancer, running) = start(&source);
        assert_eq!(
            times_asked(&source, &running, 60).await,
            expected,
            "{holds:?}"
        );
    }
}
