//! What is told of a request, when it is tried again, and for how long it is in flight.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use balancer::LoadBalancer;
use balancer::selection::{FailureKind, RoundRobin};
use balancer::tower::{Balance, BalanceError, Lease, LeasedBody, Retries, Retry, UntilBodyEnds};
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame};
use tower::{Service, ServiceExt, service_fn};

use crate::support::{
    Answer, Broken, Does, Stage, addr, echo, failures, good, in_flight, poll_once, turns,
};

#[tokio::test]
async fn a_future_that_is_dropped_releases_its_backend_once() {
    let (_, pool) = turns([1]).await;
    let stage = Stage::default();
    stage.calling(1, Does::Hangs);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone());
    let mut requests = [Box::pin(service.call(())), Box::pin(service.call(()))];
    for request in &mut requests {
        assert!(poll_once(request).await.is_pending());
    }
    let [first, second] = requests;
    assert_eq!(in_flight(&pool), [2]);
    drop(first);
    assert_eq!(in_flight(&pool), [1]);
    stage.calling(1, Does::Answers);
    second.await.unwrap();
    assert_eq!((in_flight(&pool), failures(&pool)), (vec![0], vec![0]));
}

#[tokio::test]
async fn an_error_is_a_failure_and_is_returned_as_it_was() {
    let (_, pool) = turns([1]).await;
    let stage = Stage::default();
    stage.calling(1, Does::Breaks);
    let mut service = Balance::new(Arc::clone(&pool), stage.clone()).retry(Retries::new(5));
    let error = service.call(()).await.unwrap_err();
    let BalanceError::Service { addr: at, cause } = &error else {
        panic!("{error:?}");
    };
    assert_eq!((at, cause.downcast_ref()), (&addr(1), Some(&Broken(1))));
    assert_eq!(error.to_string(), "the service of 10.0.0.1:80 failed");
    assert_eq!((failures(&pool), in_flight(&pool)), (vec![1], vec![0]));
}

#[tokio::test]
async fn what_was_sent_is_not_sent_again_unless_told_so() {
    let (_, pool) = turns([1, 2]).await;
    let stage = Stage::default();
    stage.calling(1, Does::Breaks);
    stage.calling(2, Does::Breaks);
    let plain = Balance::new(Arc::clone(&pool), stage.clone()).retry(Retries::new(1));
    plain.oneshot("any").await.unwrap_err();
    assert_eq!(stage.called(1) + stage.called(2), 1);

    let when = |request: &&str, _| *request == "twice";
    let service = Balance::new(pool, stage.clone()).retry(Retries::new(1).when(when));
    service.clone().oneshot("once").await.unwrap_err();
    assert_eq!(stage.called(1) + stage.called(2), 2);
    service.oneshot("twice").await.unwrap_err();
    assert_eq!((stage.called(1), stage.called(2)), (2, 2));
}

#[tokio::test]
async fn retries_have_a_limit_and_no_backend_is_asked_twice() {
    for (limit, asked) in [(0, 1), (1, 2), (3, 4), (9, 5)] {
        let (_, pool) = turns(1..=5).await;
        let stage = Stage::default();
        (1..=5).for_each(|n| stage.calling(n, Does::Breaks));
        let always = |(): &(), _| true;
        let service =
            Balance::new(Arc::clone(&pool), stage.clone()).retry(Retries::new(limit).when(always));
        service.oneshot(()).await.unwrap_err();
        let called: Vec<_> = (1..=5).map(|n| stage.called(n)).collect();
        assert!(called.iter().all(|&times| times <= 1), "{called:?}");
        assert_eq!(called.iter().sum::<usize>(), asked, "limit {limit}");
        assert_eq!(failures(&pool).iter().sum::<u64>(), asked as u64);
        assert_eq!(in_flight(&pool), [0; 5]);
    }
}

#[tokio::test]
async fn the_limit_holds_for_what_was_never_sent_too() {
    for (limit, made) in [(0, 1), (2, 3), (9, 5)] {
        let (_, pool) = turns(1..=5).await;
        let stage = Stage::default();
        (1..=5).for_each(|n| stage.making(n, Does::Breaks));
        let service = Balance::new(pool, stage.clone()).retry(Retries::new(limit));
        service.oneshot(()).await.unwrap_err();
        let sum: usize = (1..=5).map(|n| stage.made(n)).sum();
        assert_eq!(sum, made, "limit {limit}");
    }
}

fn bad_is_failure(result: Result<&Answer, &Broken>) -> Option<FailureKind> {
    match result {
        Ok(answer) if answer.good => None,
        Ok(_) => Some(FailureKind::Status),
        Err(_) => Some(FailureKind::Protocol),
    }
}

#[tokio::test]
async fn a_response_that_counts_as_failure_goes_on_to_a_better_one_if_there_is_one() {
    let (_, pool) = turns([1, 2]).await;
    let stage = Stage::default();
    stage.calling(1, Does::Fails);
    let on_status = |(): &(), failure| failure == FailureKind::Status;
    let service = Balance::new(Arc::clone(&pool), stage.clone())
        .classify(bad_is_failure)
        .retry(Retries::new(3).when(on_status));
    for _ in 0..4 {
        assert_eq!(service.clone().oneshot(()).await.unwrap(), good(2));
    }
    let before = failures(&pool)[0];
    assert!(before >= 1, "the bad one was asked");
    // Both are bad: what the last one says is better than nothing.
    stage.calling(2, Does::Fails);
    let answer = service.clone().oneshot(()).await.unwrap();
    assert!(!answer.good);
    assert_eq!(in_flight(&pool), [0, 0]);
    let status = failures(&pool);
    assert_eq!((status[0], status[1]), (before + 1, 1));
}

#[tokio::test]
async fn an_error_that_is_not_the_backends_fault_tells_nothing_of_it() {
    let (_, pool) = turns([1, 2]).await;
    let stage = Stage::default();
    stage.calling(1, Does::Breaks);
    stage.calling(2, Does::Breaks);
    let nobodys_fault = |_: Result<&Answer, &Broken>| None;
    let always = |(): &(), _| true;
    let service = Balance::new(Arc::clone(&pool), stage.clone())
        .classify(nobodys_fault)
        .retry(Retries::new(1).when(always));
    service.oneshot(()).await.unwrap_err();
    assert_eq!(
        (failures(&pool), in_flight(&pool)),
        (vec![0, 0], vec![0, 0])
    );
    assert_eq!(
        stage.called(1) + stage.called(2),
        1,
        "and is not tried elsewhere"
    );
}

/// A request that can be copied if it says so.
#[derive(Debug)]
struct Fragile {
    copies: bool,
}

#[derive(Clone)]
struct IfItCopies;

impl Retry<Fragile> for IfItCopies {
    fn limit(&self) -> usize {
        1
    }

    fn copy(&self, request: &Fragile) -> Option<Fragile> {
        request.copies.then_some(Fragile { copies: true })
    }

    fn retries(&self, _: &Fragile, _: FailureKind) -> bool {
        true
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_copied_is_sent_once_but_tried_until_it_is_sent() {
    let (_, pool) = turns([1, 2]).await;
    let stage = Stage::default();
    let service = Balance::new(Arc::clone(&pool), stage.clone()).retry(IfItCopies);
    stage.making(1, Does::Breaks);
    for _ in 0..2 {
        let answer = service.clone().oneshot(Fragile { copies: false }).await;
        assert_eq!(answer.unwrap(), good(2));
    }
    stage.making(1, Does::Answers);
    stage.calling(1, Does::Breaks);
    stage.calling(2, Does::Breaks);
    let before = stage.called(1) + stage.called(2);
    let once = service.clone().oneshot(Fragile { copies: false });
    once.await.unwrap_err();
    assert_eq!(stage.called(1) + stage.called(2), before + 1);
    service.oneshot(Fragile { copies: true }).await.unwrap_err();
    assert_eq!(stage.called(1) + stage.called(2), before + 3);
}

#[tokio::test]
async fn a_lease_can_be_held_by_what_is_returned() {
    let (_, pool) = turns([1]).await;
    let keep = |answer: u32, lease: Lease| (answer, lease);
    let service = Balance::new(Arc::clone(&pool), service_fn(echo)).hold(keep);
    let (answer, lease) = service.oneshot(7).await.unwrap();
    assert_eq!((answer, in_flight(&pool)), (7, vec![1]));
    assert_eq!(lease.backend().map(|backend| &backend.addr), Some(&addr(1)));
    lease.fail(FailureKind::Timeout);
    assert_eq!((in_flight(&pool), failures(&pool)), (vec![0], vec![1]));
}

/// A body of these frames; it says that it has ended only when asked for more.
struct Frames(VecDeque<Result<&'static str, Broken>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = self.0.pop_front();
        Poll::Ready(frame.map(|frame| frame.map(|text| Frame::data(Bytes::from(text)))))
    }
}

/// The response with such a body, its request in flight on backend 1.
async fn response(
    frames: impl IntoIterator<Item = Result<&'static str, Broken>>,
) -> (LeasedBody<Frames>, Arc<LoadBalancer<RoundRobin>>) {
    let (_, pool) = turns([1]).await;
    let service = Balance::new(Arc::clone(&pool), service_fn(echo)).hold(UntilBodyEnds);
    let request = Response::new(Frames(frames.into_iter().collect()));
    let response = service.oneshot(request).await.unwrap();
    (response.into_body(), pool)
}

#[tokio::test]
async fn a_request_is_in_flight_until_the_body_has_been_read() {
    let (mut body, pool) = response([Ok("a"), Ok("b")]).await;
    for text in ["a", "b"] {
        assert_eq!(in_flight(&pool), [1]);
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), text);
    }
    assert!(body.frame().await.is_none());
    assert_eq!((in_flight(&pool), failures(&pool)), (vec![0], vec![0]));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_failure_and_one_that_is_dropped_is_not() {
    let (mut body, pool) = response([Ok("a"), Err(Broken(1))]).await;
    body.frame().await.unwrap().unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap_err(), Broken(1));
    assert_eq!((in_flight(&pool), failures(&pool)), (vec![0], vec![1]));

    let (body, pool) = response([Ok("a"), Ok("b")]).await;
    drop(body);
    assert_eq!((in_flight(&pool), failures(&pool)), (vec![0], vec![0]));
}

/// A server does not ask a body for more that says that it is at its end.
#[tokio::test]
async fn a_body_that_knows_its_end_ends_the_request_without_being_asked() {
    let (_, pool) = turns([1]).await;
    let service = Balance::new(Arc::clone(&pool), service_fn(echo)).hold(UntilBodyEnds);
    for text in ["", "whole"] {
        let response = Response::new(Full::<Bytes>::from(text));
        let response = service.clone().oneshot(response).await.unwrap();
        let mut body = response.into_body();
        if !text.is_empty() {
            assert_eq!(in_flight(&pool), [1]);
            body.frame().await.unwrap().unwrap();
        }
        assert_eq!(in_flight(&pool), [0], "{text:?}");
        drop(body);
    }
    assert_eq!(failures(&pool), [0]);
}
