//! Picks as leases: limits, conditions, looking without picking, draining.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use balancer::selection::{Consistent, Outcome};
use balancer::{Admin, Condition, LoadBalancer, Static};

use crate::support::{Turns, TurnsConfig, addr, backend, backends, number, ready};

async fn balancer(list: impl IntoIterator<Item = balancer::Backend>) -> Arc<LoadBalancer<Turns>> {
    let balancer = LoadBalancer::<Turns>::new(Static::new(list)).unwrap();
    balancer.update().await.unwrap();
    Arc::new(balancer)
}

fn picks(count: usize, mut pick: impl FnMut() -> Option<u8>) -> Vec<Option<u8>> {
    (0..count).map(|_| pick()).collect()
}

#[tokio::test]
async fn a_condition_of_the_callers_own() {
    let balancer = balancer([
        backend(1).with_ext("east"),
        backend(2).with_ext("west"),
        backend(3).with_ext("east"),
        backend(4).with_tier(1).with_ext("west"),
    ])
    .await;
    let in_zone = |zone: &'static str| {
        let pick = balancer.select_where(b"", |backend| backend.ext.get() == Some(&zone));
        pick.map(|pick| number(&pick.addr))
    };
    assert_eq!(picks(4, || in_zone("east")), [1, 3, 3, 1].map(Some));
    assert_eq!(picks(2, || in_zone("west")), [2, 2].map(Some));
    assert_eq!(in_zone("north"), None);
    balancer.set_enabled(&addr(2), false);
    assert_eq!(in_zone("west"), Some(4), "the next tier");
}

#[tokio::test]
async fn looking_counts_nothing() {
    let balancer = balancer(backends([1, 2])).await;
    let mut handle = balancer.handle();
    assert_eq!(balancer.peek(b"", |backend| number(&backend.addr)), Some(1));
    assert_eq!(
        handle.peek(b"").map(|backend| number(&backend.addr)),
        Some(2)
    );
    assert!(balancer.status().backends.iter().all(|b| b.in_flight == 0));
    let pick = handle.select(b"").unwrap();
    assert_eq!((number(&pick.addr), pick.in_flight()), (1, 1));
}

#[tokio::test]
async fn a_selector_that_tracks_its_picks_is_told_of_each_end_once() {
    let config = TurnsConfig::default();
    let watch = Arc::clone(&config.watch);
    let balancer = LoadBalancer::<Turns>::with_config(Static::new(backends([1, 2])), config);
    let balancer = Arc::new(balancer.unwrap());
    balancer.update().await.unwrap();
    let told = || std::mem::take(&mut *watch.observed.lock().unwrap());

    drop(balancer.select(b""));
    assert_eq!(balancer.peek(b"", |_| ()), Some(()));
    assert_eq!(told(), [], "nobody asked for it");

    watch.tracks_picks.store(true, Ordering::Relaxed);
    drop(balancer.select(b""));
    assert_eq!(told(), [(0, Outcome::Cancelled)]);
    balancer.select(b"").unwrap().complete(Outcome::Cancelled);
    assert_eq!(told(), [(1, Outcome::Cancelled)]);
    let success = Outcome::success(Duration::from_millis(5));
    balancer.select(b"").unwrap().complete(success);
    assert_eq!(told(), [(0, success)]);
    drop(balancer.attempts(b"").collect::<Vec<_>>());
    assert_eq!(told(), [(1, Outcome::Cancelled), (0, Outcome::Cancelled)]);
    assert_eq!(balancer.peek(b"", |_| ()), Some(()));
    assert!(balancer.handle().peek(b"").is_some());
    assert_eq!(told().len(), 2, "a look is no request, and leaves nothing");
}

#[tokio::test]
async fn a_request_that_is_given_up_half_way_is_counted_back_once() {
    let balancer = balancer(backends([1])).await;
    let request = async {
        let _pick = balancer.select(b"").unwrap();
        std::future::pending::<()>().await;
    };
    let in_flight = || balancer.status().backends[0].in_flight;
    {
        let mut request = std::pin::pin!(request);
        tokio::select! {
            biased;
            () = request.as_mut() => unreachable!("it waits for ever"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(in_flight(), 1);
    }
    assert_eq!(in_flight(), 0);
    let picks = balancer.status().backends[0].picks;
    assert_eq!(picks, 1, "it was a pick all the same");
}

#[tokio::test]
async fn a_handle_sees_flips_and_updates_at_once() {
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = Arc::new(LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap());
    let mut handle = balancer.handle();
    assert!(handle.select(b"").is_none());
    balancer.update().await.unwrap();
    let mut pick = || handle.select(b"").map(|pick| number(&pick.addr));
    assert_eq!(picks(2, &mut pick), [1, 2].map(Some));
    balancer.set_enabled(&addr(1), false);
    assert_eq!(picks(2, &mut pick), [2, 2].map(Some));
    list.set(backends([3]));
    balancer.update().await.unwrap();
    assert_eq!(picks(1, &mut pick), [Some(3)]);
    list.set([]);
    balancer.update().await.unwrap();
    assert_eq!(picks(1, &mut pick), [None]);
}

#[tokio::test]
async fn a_full_backend_is_passed_over() {
    let balancer = balancer([
        backend(1).with_max_in_flight(2),
        backend(2).with_max_in_flight(0),
        backend(3).with_max_in_flight(1),
        backend(4).with_tier(1).with_max_in_flight(1),
    ])
    .await;
    let mut held: Vec<_> = std::iter::from_fn(|| balancer.select(b"")).collect();
    let mut numbers: Vec<_> = held.iter().map(|pick| number(&pick.addr)).collect();
    assert_eq!(
        numbers.pop(),
        Some(4),
        "the backup once the others are full"
    );
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 1, 3]);
    held.pop();
    held.retain(|pick| number(&pick.addr) != 3);
    assert_eq!(balancer.select(b"").map(|pick| number(&pick.addr)), Some(3));
}

#[tokio::test]
async fn a_limit_can_change_without_a_new_selector() {
    let list = Arc::new(Static::new(backends([1, 2])));
    let balancer = LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap();
    balancer.update().await.unwrap();
    drop(balancer.select(b""));
    list.add(backend(1).with_max_in_flight(0));
    let update = balancer.update().await.unwrap();
    assert_eq!(update.changed, [addr(1)]);
    let pick = || balancer.select(b"").map(|pick| number(&pick.addr));
    assert_eq!(picks(2, pick), [2, 2].map(Some));
}

/// Many threads at the limit at once: never more picks held than allowed.
#[test]
fn the_limit_holds_under_contention() {
    let limited = (1..=3).map(|n| backend(n).with_max_in_flight(2));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let balancer = runtime.block_on(balancer(limited));
    let held = [(); 4].map(|()| AtomicUsize::new(0));
    let granted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    let Some(pick) = balancer.select(b"key") else {
                        continue;
                    };
                    let held = &held[usize::from(number(&pick.addr))];
                    assert!(held.fetch_add(1, Ordering::SeqCst) < 2);
                    granted.fetch_add(1, Ordering::SeqCst);
                    held.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    let held: Vec<_> = std::iter::from_fn(|| balancer.select(b"key")).collect();
    assert_eq!(held.len(), 6, "nothing leaked, and all of it can be had");
    let picks: u64 = balancer.status().backends.iter().map(|b| b.picks).sum();
    assert_eq!(granted.into_inner() as u64 + 6, picks, "no refusal counts");
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_with_the_last_request() {
    let balancer = balancer(backends([1, 2])).await;
    let first = balancer.select(b"").unwrap();
    let second = balancer
        .attempts("")
        .find(|pick| number(&pick.addr) == 1)
        .unwrap();
    assert!(balancer.drain(&addr(9)).is_none());
    let drain = balancer.drain(&addr(1)).unwrap();
    assert_eq!(ready(&balancer), [2]);
    assert_eq!(balancer.status().backends[0].condition, Condition::Draining);
    assert_eq!(drain.in_flight(), 2);
    let waiting = tokio::spawn({
        let drain = drain.clone();
        async move { drain.drained().await }
    });
    tokio::task::yield_now().await;
    drop(first);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(second);
    waiting.await.unwrap();
    drain.drained().await;
    assert!(balancer.set_admin(&addr(1), Admin::Enabled));
    assert_eq!(ready(&balancer), [1, 2]);
}

#[tokio::test]
async fn a_drain_sees_the_requests_of_one_that_left() {
    let list = Arc::new(Static::new(backends([1])));
    let balancer = LoadBalancer::<Turns>::new(Arc::clone(&list)).unwrap();
    balancer.update().await.unwrap();
    let pick = balancer.select(b"").unwrap();
    let drain = balancer.drain(&addr(1)).unwrap();
    list.set([]);
    balancer.update().await.unwrap();
    assert_eq!(drain.in_flight(), 1);
    drop(pick);
    drain.drained().await;
}

/// No pick comes after a drain has ended.
#[test]
fn drained_is_drained() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let balancer = runtime.block_on(balancer(backends([1, 2])));
    for _ in 0..300 {
        let drained = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let pick = balancer.select(b"").unwrap();
                        assert!(number(&pick.addr) == 2 || !drained.load(Ordering::SeqCst));
                    }
                });
            }
            let drain = balancer.drain(&addr(1)).unwrap();
            runtime.block_on(drain.drained());
            drained.store(true, Ordering::SeqCst);
        });
        balancer.set_admin(&addr(1), Admin::Enabled);
    }
}

#[tokio::test]
async fn a_key_stays_with_its_backend_whoever_asks() {
    let balancer = LoadBalancer::<Consistent>::new(Static::new(backends(1..=9))).unwrap();
    balancer.update().await.unwrap();
    let balancer = Arc::new(balancer);
    let mut handle = balancer.handle();
    for n in 0..500 {
        let key = format!("key-{n}");
        let key = key.as_bytes();
        let pick = balancer.select(key).unwrap().addr.clone();
        assert_eq!(handle.select(key).unwrap().addr, pick);
        assert_eq!(handle.peek(key).unwrap().addr, pick);
        assert_eq!(balancer.select_where(key, |_| true).unwrap().addr, pick);
        assert_eq!(balancer.attempts(key).next().unwrap().addr, pick);
    }
}
