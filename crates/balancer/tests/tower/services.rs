//! How services are made, kept and dropped.

use std::pin::pin;
use std::sync::Arc;

use balancer::selection::{Consistent, KetamaConfig, LeastConn, Selector};
use balancer::tower::{Balance, BalanceError, Retries};
use balancer::{Backend, Builder, Static};
use tower::{Service, ServiceExt};

use crate::support::{
    Answer, Broken, Does, Stage, addr, balancer, good, in_flight, number, poll_once, turns,
};

#[tokio::test]
async fn a_service_is_made_once_for_all_clones_and_requests() {
    let (_, pool) = turns([1, 2]).await;
    let stage = Stage::default();
    let service = Balance::new(pool, stage.clone());
    for _ in 0..10 {
        service.clone().oneshot(()).await.unwrap();
    }
    assert_eq!((stage.made(1), stage.called(1)), (1, 5));
    assert_eq!((stage.made(2), stage.called(2)), (1, 5));
}

#[tokio::test]
async fn one_request_makes_the_service_and_others_wait_for_it() {
    let (_, pool) = turns([1]).await;
    let stage = Stage::default();
    stage.making(1, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    let mut maker = Box::pin(service.call(()));
    let mut waiter = Box::pin(service.call(()));
    assert!(poll_once(&mut maker).await.is_pending());
    assert!(poll_once(&mut waiter).await.is_pending());
    assert_eq!((stage.made(1), in_flight(&pool)), (1, vec![2]));
    // Given up, it leaves the work to the other.
    drop(maker);
    assert_eq!(in_flight(&pool), [1]);
    stage.making(1, Does::Answers);
    assert_eq!(waiter.await.unwrap(), good(1));
    assert_eq!(stage.made(1), 2);
}

#[tokio::test]
async fn whoever_waited_for_a_make_that_fails_has_failed_too() {
    let (_, pool) = turns([1]).await;
    let stage = Stage::default();
    stage.making(1, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    let mut maker = Box::pin(service.call(()));
    let mut waiter = Box::pin(service.call(()));
    assert!(poll_once(&mut maker).await.is_pending());
    assert!(poll_once(&mut waiter).await.is_pending());
    stage.making(1, Does::Breaks);
    for request in [maker, waiter] {
        let error = request.await.unwrap_err();
        let BalanceError::Make { addr: at, cause } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(*at, addr(1));
        assert_eq!(cause.downcast_ref(), Some(&Broken(1)));
        assert_eq!(
            error.to_string(),
            "no service could be made for 10.0.0.1:80"
        );
    }
    assert_eq!(stage.made(1), 1);
    // The next one tries again.
    stage.making(1, Does::Answers);
    assert_eq!(service.call(()).await.unwrap(), good(1));
}

#[tokio::test]
async fn a_backend_whose_service_cannot_be_made_is_passed_by_a_retry() {
    let (_, pool) = turns([1, 2]).await;
    let stage = Stage::default();
    stage.making(1, Does::Breaks);
    let mut service = Balance::new(pool, stage.clone()).retry(Retries::new(1));
    for _ in 0..4 {
        assert_eq!(service.call(()).await.unwrap(), good(2));
    }
    assert_eq!(stage.called(2), 4);
}

#[tokio::test]
async fn the_service_of_a_backend_that_leaves_is_dropped_with_the_update() {
    let (list, pool) = turns([1, 2]).await;
    let stage = Stage::default();
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    for _ in 0..2 {
        service.call(()).await.unwrap();
    }
    assert_eq!((stage.alive(1), stage.alive(2)), (1, 1));
    list.remove(&addr(1));
    pool.update().await.unwrap();
    assert_eq!((stage.alive(1), stage.alive(2)), (0, 1));
    // Back again it gets a new one.
    list.add(Backend::new(addr(1)));
    pool.update().await.unwrap();
    for _ in 0..2 {
        service.call(()).await.unwrap();
    }
    assert_eq!((stage.made(1), stage.made(2)), (2, 1));
}

#[tokio::test]
async fn another_weight_keeps_the_service() {
    let (list, pool) = turns([1]).await;
    let stage = Stage::default();
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    service.call(()).await.unwrap();
    list.add(
        Backend::new(addr(1))
            .with_weight(7)
            .with_tier(1)
            .with_ext("new"),
    );
    pool.update().await.unwrap();
    service.call(()).await.unwrap();
    assert_eq!(stage.made(1), 1);
}

#[tokio::test]
async fn a_request_outlives_the_membership_of_its_backend_and_leaves_nothing_behind() {
    let (list, pool) = turns([1]).await;
    let stage = Stage::default();
    stage.calling(1, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    let mut sent = Box::pin(service.call(()));
    assert!(poll_once(&mut sent).await.is_pending());
    list.remove(&addr(1));
    pool.update().await.unwrap();
    stage.calling(1, Does::Answers);
    assert_eq!(sent.await.unwrap(), good(1));
    assert_eq!(stage.alive(1), 0);
    let error = service.call(()).await.unwrap_err();
    assert!(matches!(error, BalanceError::NoBackend), "{error:?}");
}

#[tokio::test]
async fn a_service_made_for_a_backend_that_has_left_meanwhile_is_not_kept() {
    let (list, pool) = turns([1]).await;
    let stage = Stage::default();
    stage.making(1, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    let mut sent = Box::pin(service.call(()));
    assert!(poll_once(&mut sent).await.is_pending());
    list.remove(&addr(1));
    pool.update().await.unwrap();
    stage.making(1, Does::Answers);
    assert_eq!(sent.await.unwrap(), good(1));
    assert_eq!(stage.alive(1), 0);
}

#[tokio::test]
async fn services_end_with_the_last_clone_while_the_balancer_goes_on() {
    let (_, pool) = turns([1]).await;
    let stage = Stage::default();
    let service = Balance::new(Arc::clone(&pool), stage.clone());
    service.clone().oneshot(()).await.unwrap();
    assert_eq!(stage.alive(1), 1);
    drop(service);
    assert_eq!(stage.alive(1), 0);
    assert_eq!(Arc::strong_count(&pool), 1);
    pool.update().await.unwrap();
}

#[tokio::test]
async fn a_kept_service_that_broke_is_made_anew_and_a_new_one_that_is_broken_fails() {
    let (_, pool) = turns([1]).await;
    let stage = Stage::default();
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    service.call(()).await.unwrap();
    stage.readiness(1, Does::Breaks);
    let error = service.call(()).await.unwrap_err();
    let BalanceError::Service { cause, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(cause.downcast_ref(), Some(&Broken(1)));
    assert_eq!(stage.made(1), 2, "it was tried with a new one");
    assert_eq!(stage.alive(1), 0, "and neither is kept");
    stage.readiness(1, Does::Answers);
    assert_eq!(service.call(()).await.unwrap(), good(1));
    assert_eq!(stage.made(1), 3);
}

#[tokio::test]
async fn the_key_of_a_request_finds_the_backend_that_the_balancer_finds() {
    let (_, pool) = balancer::<Consistent>(1..=20).await;
    let service =
        Balance::new(Arc::clone(&pool), Stage::default()).key(|request: &String| request.clone());
    for n in 0..200 {
        let request = format!("key-{n}");
        let expected = pool.peek(request.as_bytes(), |backend| number(&backend.addr));
        let answer = service.clone().oneshot(request).await.unwrap();
        assert_eq!(Some(answer.by), expected);
    }
}

#[tokio::test]
async fn a_selector_chosen_at_run_time_and_its_lanes() {
    let list = Static::new((1..=20).map(|n| Backend::new(addr(n))));
    let builder = Builder::<dyn Selector>::of::<LeastConn>(list, Default::default());
    let pool = Arc::new(
        builder
            .and_of::<Consistent>(KetamaConfig::default())
            .build()
            .unwrap(),
    );
    pool.update().await.unwrap();
    let service = Balance::new(Arc::clone(&pool), Stage::default()).key(|key: &String| key.clone());
    let ring = service.clone().lane(1).unwrap();
    assert!(service.clone().lane(2).is_none());
    let lane = pool.lane(1).unwrap();
    for n in 0..100 {
        let key = format!("key-{n}");
        let expected = lane.peek(key.as_bytes(), |backend| number(&backend.addr));
        let answer = ring.clone().oneshot(key).await.unwrap();
        assert_eq!(Some(answer.by), expected);
    }
    // Nothing is in flight when it is asked, so least_conn takes turns.
    let mut by: Vec<u8> = Vec::new();
    for _ in 0..20 {
        by.push(service.clone().oneshot("same".to_owned()).await.unwrap().by);
    }
    by.sort_unstable();
    assert_eq!(by, Vec::from_iter(1..=20));
}

#[tokio::test]
async fn nothing_is_picked_before_the_future_is_polled() {
    let (_, pool) = turns([1]).await;
    let mut service = Balance::new(Arc::clone(&pool), Stage::default());
    let request = pin!(service.call(()));
    assert_eq!(in_flight(&pool), [0]);
    assert_eq!(request.await.unwrap(), Answer { by: 1, good: true });
}

#[tokio::test]
async fn workers_with_a_clone_each_share_services_and_counters() {
    let (_, pool) = turns(1..=4).await;
    let stage = Stage::default();
    let service = Balance::new(Arc::clone(&pool), stage.clone());
    let workers = (0..8).map(|_| {
        let mut service = service.clone();
        tokio::spawn(async move {
            for _ in 0..50 {
                service.call(()).await.unwrap();
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    for n in 1..=4 {
        assert_eq!((stage.made(n), stage.called(n)), (1, 100), "{n}");
    }
    assert_eq!(in_flight(&pool), [0; 4]);
}

/// What a worker may do with it.
#[test]
fn it_can_be_sent_and_shared() {
    fn check<T: Send + Sync>() {}
    fn check_future<T: Send>(_: Option<T>) {}
    check::<Balance<dyn Selector, Stage>>();
    type Future = <Balance<dyn Selector, Stage> as Service<()>>::Future;
    check_future::<Future>(None);
}
