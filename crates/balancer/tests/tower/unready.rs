//! Services that are not ready.

use std::sync::Arc;
use std::task::Poll;

use balancer::selection::RoundRobin;
use balancer::tower::{Balance, BalanceError, Retries, Unready};
use balancer::{Backend, LoadBalancer, Static};
use tower::limit::ConcurrencyLimit;
use tower::{Service, service_fn};

use crate::support::{Does, Stage, addr, failures, good, in_flight, never, poll_once, turns};

#[tokio::test]
async fn a_service_that_is_never_ready_stops_nobody() {
    let (_, pool) = turns([1, 2, 3]).await;
    let stage = Stage::default();
    stage.readiness(1, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    for _ in 0..9 {
        let answer = service.call(()).await.unwrap();
        assert_ne!(answer.by, 1);
    }
    assert_eq!((stage.called(1), stage.called(2) + stage.called(3)), (0, 9));
    assert_eq!(in_flight(&pool), [0, 0, 0]);
    assert_eq!(failures(&pool), [0, 0, 0], "it has not failed");
}

#[tokio::test]
async fn if_none_is_ready_the_first_that_becomes_so_gets_the_request() {
    let (_, pool) = turns([1, 2]).await;
    let stage = Stage::default();
    stage.readiness(1, Does::Hangs);
    stage.readiness(2, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    let mut request = watched(service.call(()));
    assert!(request.poll().is_pending());
    assert_eq!(in_flight(&pool), [0, 0], "it is with nobody");
    stage.readiness(2, Does::Answers);
    assert!(request.is_woken());
    assert_eq!(request.poll().map(Result::unwrap), Poll::Ready(good(2)));
    assert_eq!((stage.made(1), stage.made(2)), (1, 1));
}

#[tokio::test]
async fn a_request_that_waits_sees_who_comes_and_who_leaves() {
    let (list, pool) = turns([1]).await;
    let stage = Stage::default();
    stage.readiness(1, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    let (mut one, mut two) = (watched(service.call(())), watched(service.call(())));
    assert!(one.poll().is_pending() && two.poll().is_pending());
    list.add(Backend::new(addr(2)));
    pool.update().await.unwrap();
    assert!(one.is_woken() && two.is_woken());
    assert_eq!(one.poll().map(Result::unwrap), Poll::Ready(good(2)));

    stage.readiness(2, Does::Hangs);
    assert!(two.poll().is_pending());
    list.set([]);
    pool.update().await.unwrap();
    match two.poll() {
        Poll::Ready(Err(BalanceError::NoBackend)) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!((stage.alive(1), stage.alive(2)), (0, 0));
}

#[tokio::test]
async fn a_request_does_not_wait_for_a_backend_that_may_not_be_picked_any_more() {
    let list = Static::new([Backend::new(addr(1)).with_max_in_flight(1)]);
    let pool = Arc::new(LoadBalancer::<RoundRobin>::new(list).unwrap());
    pool.update().await.unwrap();
    let stage = Stage::default();
    stage.readiness(1, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    let (mut one, mut two) = (watched(service.call(())), watched(service.call(())));
    assert!(one.poll().is_pending() && two.poll().is_pending());
    let other = pool.select(b"").unwrap();
    stage.readiness(1, Does::Answers);
    match one.poll() {
        Poll::Ready(Err(BalanceError::NoBackend)) => {}
        other => panic!("{other:?}"),
    }
    drop(other);
    assert_eq!(two.poll().map(Result::unwrap), Poll::Ready(good(1)));
}

#[tokio::test]
async fn told_to_wait_it_waits_with_its_backend() {
    let (_, pool) = turns([1, 2]).await;
    let stage = Stage::default();
    stage.readiness(1, Does::Hangs);
    stage.readiness(2, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone()).unready(Unready::Wait);
    let (mut one, mut two) = (watched(service.call(())), watched(service.call(())));
    assert!(one.poll().is_pending());
    assert!(two.poll().is_pending());
    assert_eq!(in_flight(&pool), [1, 1]);
    stage.readiness(1, Does::Answers);
    stage.readiness(2, Does::Answers);
    let by = [one, two].map(|mut request| match request.poll() {
        Poll::Ready(Ok(answer)) => answer.by,
        other => panic!("{other:?}"),
    });
    assert!(by == [1, 2] || by == [2, 1], "{by:?}");
}

#[tokio::test]
async fn given_up_while_it_waits_it_leaves_no_trace() {
    for unready in [Unready::PassOver, Unready::Wait] {
        let (_, pool) = turns([1]).await;
        let stage = Stage::default();
        stage.readiness(1, Does::Hangs);
        let mut service = Balance::new(Arc::clone(&pool), stage.clone()).unready(unready);
        let mut request = Box::pin(service.call(()));
        assert!(poll_once(&mut request).await.is_pending());
        drop(request);
        assert_eq!((in_flight(&pool), stage.called(1)), (vec![0], 0));
    }
}

#[tokio::test]
async fn one_that_has_failed_is_not_asked_again_when_another_becomes_ready() {
    let (_, pool) = turns([1, 2]).await;
    let stage = Stage::default();
    stage.making(1, Does::Breaks);
    stage.readiness(2, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone()).retry(Retries::new(1));
    let mut request = watched(service.call(()));
    assert!(request.poll().is_pending());
    stage.readiness(2, Does::Answers);
    assert_eq!(request.poll().map(Result::unwrap), Poll::Ready(good(2)));
    assert_eq!(stage.made(1), 1);
    assert_eq!(failures(&pool), [1, 0]);
}

/// The limit of a service is its readiness: what it does not take goes to the next.
#[tokio::test]
async fn a_concurrency_limit_of_a_service_spills_over() {
    let list = Static::new([Backend::new(addr(1)), Backend::new(addr(2))]);
    let pool = Arc::new(LoadBalancer::<RoundRobin>::new(list).unwrap());
    pool.update().await.unwrap();
    let make = service_fn(async |_: Backend| {
        let service = service_fn(|()| never::<Result<(), std::io::Error>>());
        Ok::<_, std::io::Error>(ConcurrencyLimit::new(service, 2))
    });
    let mut service = Balance::new(Arc::clone(&pool), make);
    let mut requests: Vec<_> = (0..5).map(|_| Box::pin(service.call(()))).collect();
    for request in &mut requests {
        assert!(poll_once(request).await.is_pending());
    }
    assert_eq!(in_flight(&pool), [2, 2]);
    drop(requests.remove(0));
    assert!(poll_once(requests.last_mut().unwrap()).await.is_pending());
    assert_eq!(in_flight(&pool), [2, 2]);
}

/// A future with a waker that can be asked.
struct Watched<F> {
    future: std::pin::Pin<Box<F>>,
    woken: Arc<Flag>,
}

#[derive(Default)]
struct Flag(std::sync::atomic::AtomicBool);

impl std::task::Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

fn watched<F: Future>(future: F) -> Watched<F> {
    Watched {
        future: Box::pin(future),
        woken: Arc::default(),
    }
}

impl<F: Future> Watched<F> {
    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Arc::clone(&self.woken).into();
        let mut cx = std::task::Context::from_waker(&waker);
        self.future.as_mut().poll(&mut cx)
    }

    fn is_woken(&self) -> bool {
        self.woken.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}
