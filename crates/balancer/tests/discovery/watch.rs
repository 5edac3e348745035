//! Sets pushed from code.

use std::sync::Arc;
use std::time::Duration;

use balancer::discovery::Watch;
use balancer::selection::RoundRobin;
use balancer::{Backend, Discovery, DiscoveryError, LoadBalancer, Options};
use tokio::time::timeout;

use crate::support::{Running, text, until_pushed};

fn backend(port: u16) -> Backend {
    Backend::new(std::net::SocketAddr::from(([127, 0, 0, 1], port)))
}

#[tokio::test]
async fn nothing_published_is_not_an_empty_set() {
    let (feed, watch) = Watch::channel();
    let answer = async || text(&watch.discover().await);
    assert_eq!(answer().await, "error: nothing has been published yet");
    feed.publish([]);
    assert_eq!(answer().await, "");
    feed.publish([backend(2), backend(1).with_weight(3)]);
    assert_eq!(answer().await, "127.0.0.1:1 3 0, 127.0.0.1:2 1 0");
    feed.fail(DiscoveryError::new("the control plane is away"));
    assert_eq!(answer().await, "error: the control plane is away");
    feed.publish([backend(2)]);
    assert_eq!(answer().await, "127.0.0.1:2 1 0");
}

#[tokio::test]
async fn a_feed_that_is_dropped_is_told_once_and_is_no_fresh_set() {
    let (feed, watch) = Watch::channel();
    feed.publish([backend(1)]);
    let watching = async {
        until_pushed(
            &watch,
            "error: the feed has been dropped, nobody publishes any more",
        )
        .await;
    };
    let dropping = async { drop(feed) };
    tokio::join!(watching, dropping);
    // A service that has been told is not kept busy with it.
    let again = timeout(Duration::from_millis(1), watch.changed()).await;
    assert!(again.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_publication_is_served_and_a_failure_keeps_it() {
    let (feed, watch) = Watch::channel();
    let hour = Duration::from_secs(3600);
    let balancer = LoadBalancer::<RoundRobin>::builder(watch, Default::default())
        .options(Options::default().update_interval(hour))
        .build()
        .unwrap();
    let balancer = Arc::new(balancer);
    let running = Running::start(&balancer);
    let status = || balancer.status();
    running.until(|| status().last_error.is_some()).await;
    feed.publish([backend(1)]);
    running.until(|| status().backends.len() == 1).await;
    assert!(status().last_error.is_none());
    feed.fail(DiscoveryError::new("the control plane is away"));
    running.until(|| status().last_error.is_some()).await;
    assert_eq!(balancer.select(b"").unwrap().addr, backend(1).addr);
    feed.publish([backend(2)]);
    let is_second = |pick: balancer::Pick| pick.addr == backend(2).addr;
    running
        .until(|| balancer.select(b"").is_some_and(is_second))
        .await;
}
