//! What comes of a config, against real sockets.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use balancer::selection::{FailureKind, Identity, Outcome, Selector};
use balancer::{Builder, Condition, Event, LoadBalancer, PoolConfig};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::support::{balancer, choices};

/// A balancer of this config whose service runs, and what it tells.
struct Running {
    balancer: Arc<LoadBalancer<dyn Selector>>,
    events: mpsc::UnboundedReceiver<Event>,
    _stop: oneshot::Sender<()>,
}

impl Running {
    fn start(toml: &str) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let config = PoolConfig::from_toml(toml).unwrap();
        let builder = Builder::<dyn Selector>::from_config(config).unwrap();
        let builder = builder.on_event(move |event| drop(sender.send(event.clone())));
        let balancer = Arc::new(builder.build().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(Arc::clone(&balancer).run(async { drop(stopped.await) }));
        Self {
            balancer,
            events,
            _stop: stop,
        }
    }

    /// Waits until all of these have happened, in any order.
    async fn until(&mut self, expected: &[(SocketAddr, Condition)]) {
        let mut expected = expected.to_vec();
        while !expected.is_empty() {
            let event = timeout(PATIENCE, self.events.recv()).await.unwrap();
            let event = event.unwrap();
            expected
                .retain(|(addr, to)| (&event.backend, event.to) != (&Identity::Inet(*addr), *to));
        }
    }
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

#[tokio::test]
async fn tcp_checks_bring_up_and_take_down() {
    let [(first, a), (_second, b)] = [listen(), listen()];
    let mut running = Running::start(&format!(
        "
        backends = [{{addr = '{a}'}}, {{addr = '{b}'}}]
        [health]
        initial = 'unhealthy'
        active = {{interval = '5ms', jitter = 0, timeout = '5s', rise = 1, fall = 2}}
        "
    ));
    running
        .until(&[(a, Condition::Ready), (b, Condition::Ready)])
        .await;
    drop(first);
    running.until(&[(a, Condition::Down)]).await;
    assert_eq!(
        choices(&running.balancer, [b""; 3]),
        [b, b, b].map(|b| b.to_string())
    );
}

/// Requests that are refused for real, by nginx's rules.
#[tokio::test]
async fn refused_requests_eject_and_a_trial_brings_back() {
    let [(first, a), (_second, b)] = [listen(), listen()];
    let mut running = Running::start(&format!(
        "
        backends = [{{addr = '{a}'}}, {{addr = '{b}'}}]
        [health.passive.max_fails]
        max_fails = 2
        fail_timeout = '50ms'
        "
    ));
    let generation = running.balancer.generation_after(0);
    timeout(PATIENCE, generation).await.unwrap();
    drop(first);
    let mut refused = 0;
    for _ in 0..8 {
        let pick = running.balancer.select(b"").unwrap();
        let connected = TcpStream::connect(pick.addr.as_inet().unwrap());
        refused += usize::from(connected.is_err());
        pick.complete(match connected {
            Ok(_) => Outcome::success(Duration::from_millis(1)),
            Err(_) => Outcome::Failure(FailureKind::Connect),
        });
    }
    assert!((2..4).contains(&refused), "{refused}");
    running.until(&[(a, Condition::Ejected)]).await;
    // One request is let through once its time is over; that it ends well brings it back.
    let tried = async {
        loop {
            let pick = running.balancer.select(b"").unwrap();
            if pick.addr.as_inet() == Some(a) {
                return pick;
            }
            drop(pick);
            tokio::task::yield_now().await;
        }
    };
    let pick = timeout(PATIENCE, tried).await.unwrap();
    pick.complete(Outcome::success(Duration::from_millis(1)));
    running.until(&[(a, Condition::Ready)]).await;
}

#[tokio::test]
async fn what_is_disabled_does_not_serve_until_it_is_enabled() {
    let balancer = balancer(
        "
        backends = [{addr = '10.0.0.1:80'}, {addr = '10.0.0.2:80'}, {addr = '10.0.0.3:80'}]
        admin = {'10.0.0.1:80' = 'disabled', '10.0.0.2:80' = 'drain'}
        ",
    );
    balancer.update().await.unwrap();
    assert_eq!(choices(&balancer, [b""; 2]), ["10.0.0.3:80"; 2]);
    assert!(balancer.set_enabled(&"10.0.0.1:80".parse().unwrap(), true));
    // The same members again: what was said since holds.
    balancer.update().await.unwrap();
    assert_eq!(choices(&balancer, [b""; 2]), ["10.0.0.1:80", "10.0.0.3:80"]);
}

#[tokio::test]
async fn tiers_and_limits_hold() {
    let balancer = balancer(
        "
        backends = [
            {addr = '10.0.0.1:80', max_in_flight = 2},
            {addr = '10.0.0.2:80', tier = 1, max_in_flight = 1},
        ]",
    );
    balancer.update().await.unwrap();
    let picks: Vec<_> = std::iter::from_fn(|| balancer.select(b"")).collect();
    let picked: Vec<_> = picks.iter().map(|pick| pick.addr.to_string()).collect();
    assert_eq!(picked, ["10.0.0.1:80", "10.0.0.1:80", "10.0.0.2:80"]);
}

#[tokio::test]
async fn sources_are_one_pool_in_their_order() {
    let balancer = balancer(
        "
        name = 'joint'
        order = 'listed'
        backends = [{addr = '10.0.0.9:80'}]
        discovery = [{static = [{addr = '10.0.0.5:80'}]}, {static = [{addr = '10.0.0.1:80'}]}]
        ",
    );
    let update = balancer.update().await.unwrap();
    assert_eq!(update.added.len(), 3);
    assert_eq!(&*balancer.status().name, "joint");
    assert_eq!(
        choices(&balancer, [b""; 3]),
        ["10.0.0.9:80", "10.0.0.5:80", "10.0.0.1:80"]
    );
}

/// A file beside a list: the pool follows the file, and loses nothing while it is half written.
#[cfg(feature = "file")]
#[tokio::test]
async fn a_file_is_followed() {
    let name = format!("balancer-config-{}-followed.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, r#"{"backends": [{"addr": "10.0.0.2:80"}]}"#).unwrap();
    let running = Running::start(&format!(
        "
        backends = [{{addr = '10.0.0.1:80'}}]
        discovery = [{{file = {{path = '{}'}}}}]
        ",
        path.display()
    ));
    let balancer = &running.balancer;
    let first = timeout(PATIENCE, balancer.generation_after(0))
        .await
        .unwrap();
    assert_eq!(balancer.status().backends.len(), 2);

    std::fs::write(&path, r#"{"backends": ["#).unwrap();
    let failed = async {
        while balancer.status().last_error.is_none() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, failed).await.unwrap();
    assert_eq!(balancer.status().backends.len(), 2);

    std::fs::write(
        &path,
        r#"{"backends": [{"addr": "10.0.0.3:80"}, {"addr": "10.0.0.4:80"}]}"#,
    )
    .unwrap();
    timeout(PATIENCE, balancer.generation_after(first))
        .await
        .unwrap();
    let addrs: Vec<_> = balancer
        .status()
        .backends
        .into_iter()
        .map(|b| b.addr.to_string())
        .collect();
    assert_eq!(addrs, ["10.0.0.1:80", "10.0.0.3:80", "10.0.0.4:80"]);
    std::fs::remove_file(&path).unwrap();
}

/// Far longer than anything takes; reached only by a failure.
const PATIENCE: Duration = Duration::from_secs(20);
