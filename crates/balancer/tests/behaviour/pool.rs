//! The pool as a whole: panic, slow start, events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use balancer::selection::{Consistent, FailureKind, Outcome, Random, Selector};
use balancer::{Admin, Condition, Consecutive, LoadBalancer, Options, Passive, SlowStart, Static};
use tokio::time::advance;

use crate::support::{Turns, TurnsConfig, addr, backend, backends, number, ready};

const SECOND: Duration = Duration::from_secs(1);

fn ejecting() -> Options {
    let rule = Consecutive::default().failures(1).max_ejection_percent(100);
    Options::default().passive(Passive::Consecutive(rule))
}

fn fail(balancer: &LoadBalancer<Turns>, n: u8) {
    let pick = balancer.select_where(b"", |backend| backend.addr == addr(n));
    pick.unwrap()
        .complete(Outcome::Failure(FailureKind::Status));
}

#[tokio::test(start_paused = true)]
async fn below_the_threshold_health_is_ignored_but_not_the_operator() {
    let list = Static::new([
        backend(1).with_weight(2),
        backend(2),
        backend(3),
        backend(4),
        backend(5).with_weight(0),
    ]);
    let balancer = LoadBalancer::<Turns>::builder(list, TurnsConfig::default())
        .options(ejecting().panic_threshold(50))
        .build()
        .unwrap();
    balancer.update().await.unwrap();
    balancer.set_admin(&addr(4), Admin::Disabled);
    fail(&balancer, 1);
    assert_eq!(ready(&balancer), [2, 3, 5], "2 of 4 are half");
    assert!(!balancer.status().panicking);
    fail(&balancer, 2);
    assert_eq!(ready(&balancer), [1, 2, 3, 5]);
    assert!(balancer.status().panicking);
    assert_eq!(balancer.status().backends[0].condition, Condition::Ejected);
    balancer.set_admin(&addr(4), Admin::Enabled);
    assert_eq!(
        ready(&balancer),
        [1, 2, 3, 4, 5],
        "2 of 5 are still less than half"
    );
    balancer.set_admin(&addr(1), Admin::Drain);
    assert_eq!(ready(&balancer), [3, 4, 5], "2 of 3 are not");
    assert!(!balancer.status().panicking);
}

#[tokio::test(start_paused = true)]
async fn a_backup_tier_that_is_well_prevents_panic() {
    let list = Static::new([backend(1), backend(2), backend(3).with_tier(1)]);
    let balancer = LoadBalancer::<Turns>::builder(list, TurnsConfig::default())
        .options(ejecting().panic_threshold(50))
        .build()
        .unwrap();
    balancer.update().await.unwrap();
    fail(&balancer, 1);
    fail(&balancer, 2);
    assert_eq!(ready(&balancer), [3]);
    assert_eq!(number(&balancer.select(b"").unwrap().addr), 3);
}

/// The share of backend 5 in percent, over 20,000 picks with keys of their own, or none.
fn share_of_5<S: Selector + ?Sized>(
    balancer: &LoadBalancer<S>,
    key: impl Fn(u32) -> String,
) -> usize {
    let is_5 = |n: &u32| number(&balancer.select(key(*n).as_bytes()).unwrap().addr) == 5;
    (0..20_000).filter(is_5).count() / 200
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_takes_its_share_step_by_step() {
    let list = Arc::new(Static::new(backends(1..=4)));
    let slow = SlowStart::new(60 * SECOND).start_percent(10);
    let balancer = LoadBalancer::<Random>::builder(Arc::clone(&list), Default::default())
        .options(Options::default().slow_start(slow))
        .build()
        .unwrap();
    balancer.update().await.unwrap();
    list.add(backend(5));
    balancer.update().await.unwrap();
    // A fifth of all requests is 20 %; 20,000 draws keep within 2 % by seven deviations.
    for (second, expected) in [(0, 2), (30, 11), (60, 20)] {
        let keyless = share_of_5(&balancer, |_| String::new());
        assert!(keyless.abs_diff(expected) <= 2, "{second} s: {keyless} %");
        let keyed = share_of_5(&balancer, |n| format!("key-{n}"));
        assert!(
            keyed.abs_diff(expected) <= 2,
            "{second} s, by key: {keyed} %"
        );
        advance(30 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn on_the_ring_keys_come_to_a_newcomer_and_stay() {
    let list = Arc::new(Static::new(backends(1..=4)));
    let builder = LoadBalancer::<Consistent>::builder(Arc::clone(&list), Default::default());
    let options = Options::default().slow_start(SlowStart::new(60 * SECOND));
    let balancer = builder.options(options).build().unwrap();
    balancer.update().await.unwrap();
    let nodes = || -> BTreeMap<String, u8> {
        let keys = (0..2000).map(|n| format!("key-{n}"));
        keys.map(|key| {
            (
                key.clone(),
                number(&balancer.select(key.as_bytes()).unwrap().addr),
            )
        })
        .collect()
    };
    let mut before = nodes();
    list.add(backend(5));
    balancer.update().await.unwrap();
    let mut moved = 0;
    for _ in 0..=6 {
        let now = nodes();
        for (key, node) in &now {
            if before[key] != *node {
                assert_eq!(*node, 5, "{key}");
                moved += 1;
            }
        }
        before = now;
        advance(10 * SECOND).await;
    }
    let without = LoadBalancer::<Consistent>::new(Static::new(backends(1..=5))).unwrap();
    without.update().await.unwrap();
    for (key, node) in &before {
        assert_eq!(
            number(&without.select(key.as_bytes()).unwrap().addr),
            *node,
            "{key}"
        );
    }
    assert!(moved > 200, "{moved}");
}

#[tokio::test(start_paused = true)]
async fn slow_start_turns_nobody_away() {
    let list = Arc::new(Static::new(backends([1])));
    let slow = SlowStart::new(60 * SECOND).start_percent(1);
    let balancer = LoadBalancer::<Turns>::builder(Arc::clone(&list), TurnsConfig::default())
        .options(Options::default().slow_start(slow))
        .build()
        .unwrap();
    balancer.update().await.unwrap();
    list.set(backends([2]));
    balancer.update().await.unwrap();
    assert!((0..100).all(|_| balancer.select(b"").is_some()));
}

#[tokio::test(start_paused = true)]
async fn one_event_a_flip_in_order_and_the_listener_may_call_back_in() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let balancer = Arc::new(OnceLock::<LoadBalancer<Turns>>::new());
    let listener = {
        let (seen, balancer) = (Arc::clone(&seen), Arc::clone(&balancer));
        move |event: &balancer::Event| {
            seen.lock()
                .unwrap()
                .push((event.backend.to_string(), event.from, event.to));
            let balancer = balancer.get().unwrap();
            assert!(!balancer.status().backends.is_empty());
            if event.to == Condition::Ejected {
                balancer.set_admin(&addr(2), Admin::Drain);
                assert!(
                    seen.lock().unwrap().len() == 1,
                    "its event comes after this one"
                );
                panic!("and it may fall over");
            }
        }
    };
    let built =
        LoadBalancer::<Turns>::builder(Static::new(backends(1..=3)), TurnsConfig::default())
            .options(ejecting())
            .on_event(listener)
            .build()
            .unwrap();
    let balancer = balancer.get_or_init(|| built);
    balancer.update().await.unwrap();
    fail(balancer, 1);
    balancer.set_enabled(&addr(3), true);
    balancer.set_enabled(&addr(3), false);
    advance(30 * SECOND).await;
    balancer.set_admin(&addr(2), Admin::Enabled);
    drop(balancer.select(b""));
    let expected = [
        ("10.0.0.1:80", Condition::Ready, Condition::Ejected),
        ("10.0.0.2:80", Condition::Ready, Condition::Draining),
        ("10.0.0.3:80", Condition::Ready, Condition::Disabled),
        ("10.0.0.2:80", Condition::Draining, Condition::Ready),
        ("10.0.0.1:80", Condition::Ejected, Condition::Trial),
    ];
    let seen = seen.lock().unwrap();
    let seen: Vec<_> = seen
        .iter()
        .map(|(who, from, to)| (who.as_str(), *from, *to))
        .collect();
    assert_eq!(seen, expected);
}
