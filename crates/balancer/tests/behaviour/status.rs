//! What operators see.

use std::sync::Arc;
use std::time::Duration;

use balancer::selection::{
    Consistent, FailureKind, LeastTime, Load, Outcome, P2c, P2cConfig, Selector,
};
use balancer::{
    Admin, Backend, BackendStatus, Builder, Cause, Condition, Consecutive, LoadBalancer, Options,
    Passive, Static, UpdateResult,
};
use tokio::time::advance;

use crate::support::{Answer, Script, Turns, TurnsConfig, addr, backend, backends, number};

const SECOND: Duration = Duration::from_secs(1);
const FAILED: Outcome = Outcome::Failure(FailureKind::Connect);

fn options() -> Options {
    let rule = Consecutive::default().failures(1).base(10 * SECOND);
    Options::default()
        .passive(Passive::Consecutive(rule))
        .panic_threshold(20)
}

fn on(n: u8) -> impl Fn(&Backend) -> bool {
    move |backend| number(&backend.addr) == n
}

/// Three backends on a ring, one of them ejected and one drained; the latest update failed.
async fn known() -> LoadBalancer<Consistent> {
    let set = vec![
        backend(1),
        backend(2).with_weight(2).with_ring_name("cache-2"),
        backend(3).with_tier(1),
    ];
    let script = Script::new([Answer::Found(set), Answer::Fails]);
    let balancer = LoadBalancer::<Consistent>::builder(script, Default::default())
        .name("images")
        .options(options())
        .build()
        .unwrap();
    balancer.update().await.unwrap();
    advance(2 * SECOND).await;
    drop(balancer.select_where(b"key", on(1)).unwrap());
    balancer
        .select_where(b"key", on(1))
        .unwrap()
        .complete(FAILED);
    balancer.set_admin(&addr(3), Admin::Drain);
    advance(3 * SECOND).await;
    balancer.update().await.unwrap_err();
    advance(SECOND / 2).await;
    balancer
}

#[tokio::test(start_paused = true)]
async fn a_status_says_what_is_and_why() {
    let balancer = known().await;
    let held = balancer.select_where(b"key", on(2)).unwrap();
    balancer.peek(b"key", |_| ()).unwrap();
    let status = balancer.status();
    assert_eq!((&*status.name, status.generation), ("images", 1));
    assert_eq!((status.ready, status.backends.len()), (1, 3));
    assert_eq!((status.panic_threshold, status.panicking), (20, false));
    assert_eq!((status.updates, status.failed_updates), (1, 1));
    let last = status.last_update.unwrap();
    assert_eq!((last.result, last.age), (UpdateResult::Failed, SECOND / 2));
    assert_eq!(status.age, Some(5 * SECOND + SECOND / 2));
    assert!(status.last_error.is_some());
    let rows = status.backends.iter().map(|b| {
        let BackendStatus {
            condition,
            cause,
            picks,
            failures,
            in_flight,
            ..
        } = *b;
        (condition, cause, picks, failures, in_flight)
    });
    let expected = [
        (Condition::Ejected, Some(Cause::Passive), 2, 1, 0),
        (Condition::Ready, None, 1, 0, 1),
        (Condition::Draining, Some(Cause::Admin), 0, 0, 0),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected, "and a look is no pick");
    assert_eq!(status.backends[0].since, 3 * SECOND + SECOND / 2);
    drop(held);

    let tiers = balancer.tiers();
    let circle = (1u64 << 32) as f64;
    for (backend, (tier, node)) in status.backends.iter().zip([(0, 0), (0, 1), (1, 0)]) {
        let places = tiers[tier].selectors[0].ring().share(node) as f64;
        assert_eq!(backend.ring_share, Some(places / circle));
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminal_shows_a_line_for_each_backend() {
    let balancer = known().await;
    let expected = "\
images: generation 1, 1 of 3 ready
updates: 1, and 1 failed; the last one failed, 500 ms ago; what serves is 5.5 s old
last error: discovery has no answer: name server is away
backend      tier  weight  state       for  in flight  picks  failures  latency  ring share  why
10.0.0.1:80     0       1  ejected   3.5 s          0      2         1        -     SHARE-1  passive: a request could not connect
10.0.0.2:80     0       2  ready     5.5 s          0      0         0        -     SHARE-2
10.0.0.3:80     1       1  draining  3.5 s          0      0         0        -    100.00 %  admin: operator";
    let ring = balancer.tiers()[0].selectors[0].clone();
    let share = |node| {
        let share = ring.ring().share(node) as f64 / (1u64 << 32) as f64;
        format!("{:.2} %", share * 100.0)
    };
    let expected = expected
        .replace("SHARE-1", &share(0))
        .replace("SHARE-2", &share(1));
    assert_eq!(balancer.status().to_string(), expected);
}

#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn as_json_every_field_has_its_name_and_unit() {
    let balancer = known().await;
    let status = serde_json::to_value(balancer.status()).unwrap();
    let share =
        |node| balancer.tiers()[0].selectors[0].ring().share(node) as f64 / (1u64 << 32) as f64;
    let (first, second) = (share(0), share(1));
    let expected = serde_json::json!({
        "name": "images",
        "generation": 1,
        "ready": 1,
        "panic_threshold": 20,
        "panicking": false,
        "flips": {"admin": 1, "active": 0, "passive": 1},
        "updates": 1,
        "failed_updates": 1,
        "last_update": {
            "age_seconds": 0.5,
            "result": "failed",
            "discovery_seconds": 0.0,
            "build_seconds": 0.0,
        },
        "last_error": "discovery has no answer: name server is away",
        "age_seconds": 5.5,
        "backends": [
            {
                "addr": "10.0.0.1:80",
                "ring_name": null,
                "weight": 1,
                "tier": 0,
                "ready": false,
                "condition": "ejected",
                "cause": "passive",
                "reason": "a request could not connect",
                "since_seconds": 3.5,
                "admin": "enabled",
                "active": "unknown",
                "in_flight": 0,
                "picks": 2,
                "failures": 1,
                "latency_seconds": null,
                "ring_share": first,
            },
            {
                "addr": "10.0.0.2:80",
                "ring_name": "cache-2",
                "weight": 2,
                "tier": 0,
                "ready": true,
                "condition": "ready",
                "cause": null,
                "reason": null,
                "since_seconds": 5.5,
                "admin": "enabled",
                "active": "unknown",
                "in_flight": 0,
                "picks": 0,
                "failures": 0,
                "latency_seconds": null,
                "ring_share": second,
            },
            {
                "addr": "10.0.0.3:80",
                "ring_name": null,
                "weight": 1,
                "tier": 1,
                "ready": false,
                "condition": "draining",
                "cause": "admin",
                "reason": "operator",
                "since_seconds": 3.5,
                "admin": "drain",
                "active": "unknown",
                "in_flight": 0,
                "picks": 0,
                "failures": 0,
                "latency_seconds": null,
                "ring_share": 1.0,
            },
        ],
    });
    assert_eq!(status, expected);
}

/// `docs/observability.md` lists the fields, those of `backends` in a table of their own.
#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn the_page_lists_every_field() {
    use std::collections::BTreeSet;
    let page = include_str!("../../../../docs/observability.md");
    let section = page.split("\n## ").find(|part| part.starts_with("Status"));
    let rows = section
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| `"));
    let first_cells = rows.map(|row| row.split('|').nth(1).unwrap());
    let names = first_cells.flat_map(|cell| cell.split(", "));
    let documented: BTreeSet<_> = names.map(|name| name.trim().replace('`', "")).collect();

    let status = serde_json::to_value(known().await.status()).unwrap();
    let mut written = BTreeSet::new();
    for (name, value) in status.as_object().unwrap() {
        match value.as_object() {
            Some(inner) => written.extend(inner.keys().map(|key| format!("{name}.{key}"))),
            None => drop(written.insert(name.clone())),
        }
    }
    written.extend(status["backends"][0].as_object().unwrap().keys().cloned());
    assert_eq!(documented, written);
}

#[tokio::test(start_paused = true)]
async fn counts_outlive_updates_and_a_return_while_a_request_is_in_flight() {
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap();
    balancer.update().await.unwrap();
    let counts = || {
        let status = balancer.status();
        status
            .backends
            .iter()
            .map(|b| (b.picks, b.failures))
            .collect::<Vec<_>>()
    };
    for _ in 0..4 {
        balancer.select(b"").unwrap().complete(FAILED);
    }
    list.set([backend(1).with_weight(9), backend(2)]);
    balancer.update().await.unwrap();
    assert_eq!(counts(), [(2, 2), (2, 2)]);
    let held = balancer.select_where(b"", on(1)).unwrap();
    list.set(backends([]));
    balancer.update().await.unwrap();
    list.set(backends([1, 2]));
    balancer.update().await.unwrap();
    assert_eq!(counts(), [(3, 2), (0, 0)], "2 was known to nobody");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn latency_is_shown_where_a_selector_keeps_it() {
    async fn latencies<S: Selector + ?Sized>(balancer: LoadBalancer<S>) -> Vec<Option<Duration>> {
        balancer.update().await.unwrap();
        let pick = balancer.select_where(b"", on(1)).unwrap();
        pick.complete(Outcome::success(SECOND / 4));
        let status = balancer.status();
        status.backends.iter().map(|b| b.latency).collect()
    }
    let list = || Static::new(backends([1, 2]));
    let known = vec![Some(SECOND / 4), None];
    let ewma = P2cConfig::default().load(Load::PeakEwma(Default::default()));
    assert_eq!(
        latencies(LoadBalancer::<P2c>::with_config(list(), ewma).unwrap()).await,
        known
    );
    let least_time = Builder::of::<LeastTime>(list(), Default::default());
    assert_eq!(latencies(least_time.build().unwrap()).await, known);
    assert_eq!(
        latencies(LoadBalancer::<Turns>::with_config(list(), TurnsConfig::default()).unwrap())
            .await,
        [None, None]
    );
}

#[tokio::test(start_paused = true)]
async fn the_share_of_a_ring_follows_its_generation() {
    let list = Arc::new(Static::new(backends([1])));
    let balancer = Builder::of::<LeastTime>(Arc::clone(&list), Default::default())
        .and_of::<Consistent>(Default::default())
        .build()
        .unwrap();
    for members in 1..=3 {
        balancer.update().await.unwrap();
        let status = balancer.status();
        let shares = status.backends.iter().map(|b| b.ring_share.unwrap());
        assert_eq!(shares.clone().count(), usize::from(members));
        assert!((shares.sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(balancer.status().backends, status.backends);
        list.add(backend(members + 1));
    }
}
