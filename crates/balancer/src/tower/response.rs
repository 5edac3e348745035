//! The way of one request, from its first pick to its response.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use selection::{FailureKind, Selector};
use tower_service::Service;

use super::services::{Cause, Made, Making, Services};
use super::{BalanceError, BoxError, Classify, Hold, Key, Lease, Retry, Unready};
use crate::{Address, Attempts, Backend};

pin_project! {
    /// The response of a [`Balance`](super::Balance), to be.
    ///
    /// Nothing is picked before it is polled. Dropping it gives the request up: its backend has it in
    /// flight no more, and is told nothing.
    #[must_use = "futures do nothing unless polled"]
    #[project = ResponseProjection]
    pub struct ResponseFuture<S, M, Req, K, C, R, H>
    where
        S: Selector,
        S: ?Sized,
        M: Service<Backend>,
        M::Response: Service<Req>,
        K: Key<Req>,
    {
        course: Course<S, M, Req, K, C, R, H>,
        #[pin]
        state: State<M::Response, <M::Response as Service<Req>>::Future>,
    }
}

/// What is known of a request on its way.
pub(super) struct Course<S, M, Req, K, C, R, H>
where
    S: Selector + ?Sized,
    M: Service<Backend>,
    M::Response: Service<Req>,
    K: Key<Req>,
{
    pub(super) services: Arc<Services<S, M>>,
    pub(super) attempts: Attempts<S, K::Bytes>,
    pub(super) classify: C,
    pub(super) retry: R,
    pub(super) hold: H,
    pub(super) unready: Unready,
    /// Until it is sent; after that a copy, if there is to be one.
    pub(super) request: Option<Req>,
    /// The backends that failed on it.
    pub(super) failed: Vec<Address>,
    /// Services that are not ready. Each keeps its place in whatever queue it has.
    pub(super) parked: Vec<(Address, Made<M::Response>)>,
    /// Whether one of them has been asked since the last look at all members, and so will wake the
    /// task. A backend that may not be picked any more is not asked.
    pub(super) will_wake: bool,
    /// Ends when there are other members; there once the request waits for a service.
    pub(super) news: Option<News>,
    /// How the latest attempt failed.
    pub(super) problem: Option<Problem<M::Response, Req>>,
}

pub(super) type News = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the caller gets if no further attempt is made.
pub(super) enum Problem<Svc: Service<Req>, Req> {
    /// A response that counts as a failure, but is a response.
    Response(Svc::Response, Lease),
    Error(BalanceError),
}

pin_project! {
    /// Where it stands.
    #[project = StateProjection]
    pub(super) enum State<Svc, F> {
        /// The next backend is to be found.
        Next,
        /// Its service is being made.
        Making { lease: Option<Lease>, making: Making<Svc> },
        /// Its service is to become ready.
        Readying { lease: Option<Lease>, made: Option<Made<Svc>>, fresh: bool },
        /// The request has been sent.
        Calling { lease: Option<Lease>, #[pin] call: F },
    }
}

/// What to do after a look at the state.
enum Step<Svc, F> {
    Go(State<Svc, F>),
    /// Nothing can be done before a service wakes the task.
    Wait,
    /// No further attempt is made.
    End,
}

impl<S, M, Req, K, C, R, H> ResponseFuture<S, M, Req, K, C, R, H>
where
    S: Selector + ?Sized,
    M: Service<Backend>,
    M::Response: Service<Req>,
    K: Key<Req>,
{
    pub(super) fn new(course: Course<S, M, Req, K, C, R, H>) -> Self {
        Self {
            course,
            state: State::Next,
        }
    }
}

impl<S, M, Req, K, C, R, H> Future for ResponseFuture<S, M, Req, K, C, R, H>
where
    S: Selector + ?Sized,
    M: Service<Backend> + Clone + Send + 'static,
    M::Error: Into<BoxError>,
    M::Future: Send,
    M::Response: Service<Req> + Clone + Send + 'static,
    <M::Response as Service<Req>>::Error: Into<BoxError>,
    K: Key<Req>,
    C: Classify<<M::Response as Service<Req>>::Response, <M::Response as Service<Req>>::Error>,
    R: Retry<Req>,
    H: Hold<<M::Response as Service<Req>>::Response>,
{
    type Output = Result<H::Response, BalanceError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ResponseProjection { course, mut state } = self.project();
        loop {
            let step = match state.as_mut().project() {
                StateProjection::Next => course.next(),
                StateProjection::Making { lease, making } => {
                    let made = ready!(making.as_mut().poll(cx));
                    course.made(lease.take(), made)
                }
                StateProjection::Readying { lease, made, fresh } => {
                    ready!(course.readied(cx, lease, made, *fresh))
                }
                StateProjection::Calling { lease, call } => {
                    let result = ready!(call.poll(cx));
                    match course.called(lease.take(), result) {
                        Ok(step) => step,
                        Err(response) => return Poll::Ready(Ok(response)),
                    }
                }
            };
            match step {
                Step::Go(next) => state.set(next),
                Step::Wait => {
                    state.set(State::Next);
                    if !course.has_news(cx) {
                        return Poll::Pending;
                    }
                }
                Step::End => return Poll::Ready(course.end()),
            }
        }
    }
}

impl<S, M, Req, K, C, R, H> Course<S, M, Req, K, C, R, H>
where
    S: Selector + ?Sized,
    M: Service<Backend> + Clone + Send + 'static,
    M::Error: Into<BoxError>,
    M::Future: Send,
    M::Response: Service<Req> + Clone + Send + 'static,
    <M::Response as Service<Req>>::Error: Into<BoxError>,
    K: Key<Req>,
    C: Classify<<M::Response as Service<Req>>::Response, <M::Response as Service<Req>>::Error>,
    R: Retry<Req>,
    H: Hold<<M::Response as Service<Req>>::Response>,
{
    /// To the next backend, and its service.
    fn next(&mut self) -> NextStep<M, Req> {
        let Some(lease) = self.lease() else {
            // None can take it now. When one can, all are looked at afresh; but an answer in hand is
            // not kept back for that.
            let has_response = matches!(self.problem, Some(Problem::Response(..)));
            return match self.will_wake && !has_response {
                true => Step::Wait,
                false => Step::End,
            };
        };
        let parked = lease.backend().and_then(|backend| {
            let position = |(addr, _): &(Address, _)| *addr == backend.addr;
            self.parked.iter().position(position)
        });
        match parked {
            Some(index) => {
                let (_, made) = self.parked.swap_remove(index);
                readying(lease, made, false)
            }
            None => self.service(lease),
        }
    }

    /// The next request on a backend that has not failed yet.
    fn lease(&mut self) -> Option<Lease> {
        let is_first = self.failed.is_empty() && self.parked.is_empty();
        let clock = self.services.balancer.pool.board.clock;
        loop {
            let pick = self.attempts.next().or_else(|| {
                let once_more = is_first.then_some(&*self.services.balancer)?;
                self.attempts.select(once_more)
            })?;
            if !self.failed.contains(&pick.addr) {
                return Some(Lease::new(pick, clock));
            }
        }
    }

    /// Prepares for another look at all members. Returns whether it is to be at once, since there may
    /// be others; if not, their coming wakes the task, as a service does that becomes ready.
    fn has_news(&mut self, cx: &mut Context<'_>) -> bool {
        let balancer = &self.services.balancer;
        let has_news = match &mut self.news {
            // Some may have come before it listened.
            None => true,
            Some(news) => news.as_mut().poll(cx).is_ready(),
        };
        if has_news {
            let mut publications = balancer.pool.board.publications();
            // Its other end is in the balancer, so it ends with a publication.
            self.news = Some(Box::pin(async move { drop(publications.changed().await) }));
        }
        let snapshot = balancer.snapshot.load_full();
        if has_news {
            let is_member =
                |addr: &Address| snapshot.entries().any(|entry| entry.backend.addr == *addr);
            self.parked.retain(|(addr, _)| is_member(addr));
        }
        self.attempts.restart(snapshot);
        self.will_wake = false;
        has_news
    }

    /// The service of the backend, which may have to be made.
    fn service(&self, lease: Lease) -> NextStep<M, Req> {
        let Some(backend) = lease.backend() else {
            return Step::End;
        };
        let slot = self.services.slot(&backend.addr);
        if let Some(made) = slot.made() {
            return readying(lease, made, false);
        }
        let making = self.services.make(slot, backend.clone());
        Step::Go(State::Making {
            lease: Some(lease),
            making,
        })
    }

    fn made(
        &mut self,
        lease: Option<Lease>,
        made: Result<Made<M::Response>, Cause>,
    ) -> NextStep<M, Req> {
        let Some(lease) = lease else {
            return Step::End;
        };
        match made {
            Ok(made) => readying(lease, made, true),
            Err(cause) => {
                let error = |addr| BalanceError::Make { addr, cause };
                self.unsent(lease, error)
            }
        }
    }

    fn readied(
        &mut self,
        cx: &mut Context<'_>,
        lease: &mut Option<Lease>,
        made: &mut Option<Made<M::Response>>,
        fresh: bool,
    ) -> Poll<NextStep<M, Req>> {
        let Some(service) = made.as_mut().map(|made| &mut made.service) else {
            return Poll::Ready(Step::End);
        };
        let polled = service.poll_ready(cx);
        if polled.is_pending() && self.unready == Unready::Wait {
            return Poll::Pending;
        }
        let (Some(lease), Some(made)) = (lease.take(), made.take()) else {
            return Poll::Ready(Step::End);
        };
        Poll::Ready(match polled {
            Poll::Ready(Ok(())) => self.send(lease, made.service),
            Poll::Ready(Err(error)) => self.broken(lease, &made, fresh, error.into()),
            Poll::Pending => {
                if let Some(backend) = lease.backend() {
                    self.parked.push((backend.addr.clone(), made));
                    self.will_wake = true;
                }
                Step::Go(State::Next)
            }
        })
    }

    /// The service is of no use any more. One that was kept has served its time: a connection that
    /// its backend closed, as a rule. A new one fails with the backend.
    fn broken(
        &mut self,
        lease: Lease,
        made: &Made<M::Response>,
        fresh: bool,
        cause: BoxError,
    ) -> NextStep<M, Req> {
        if let Some(backend) = lease.backend() {
            let slot = self.services.slot(&backend.addr);
            slot.discard(made.number);
        }
        if !fresh {
            return self.service(lease);
        }
        self.unsent(lease, |addr| BalanceError::Service { addr, cause })
    }

    fn send(&mut self, lease: Lease, mut service: M::Response) -> NextStep<M, Req> {
        let Some(request) = self.request.take() else {
            return Step::End;
        };
        if self.failed.len() < self.retry.limit() {
            self.request = self.retry.copy(&request);
        }
        // The others keep no place in a queue that they do not need.
        self.parked.clear();
        Step::Go(State::Calling {
            call: service.call(request),
            lease: Some(lease),
        })
    }

    /// The next step, or the response.
    fn called(
        &mut self,
        lease: Option<Lease>,
        result: Result<
            <M::Response as Service<Req>>::Response,
            <M::Response as Service<Req>>::Error,
        >,
    ) -> Result<NextStep<M, Req>, H::Response> {
        let Some(lease) = lease else {
            return Ok(Step::End);
        };
        let failure = self.classify.classify(result.as_ref());
        let addr = lease.backend().map(|backend| backend.addr.clone());
        let problem = match (result, failure) {
            (Ok(response), None) => return Err(self.hold.hold(response, lease.answered())),
            (Ok(response), Some(failure)) => Problem::Response(response, lease.blamed(failure)),
            (Err(error), _) => {
                if let Some(failure) = failure {
                    lease.fail(failure);
                }
                let Some(addr) = addr.clone() else {
                    return Ok(Step::End);
                };
                let cause = error.into();
                Problem::Error(BalanceError::Service { addr, cause })
            }
        };
        Ok(self.failed(addr, problem, failure))
    }

    /// An attempt has failed before the request was sent.
    fn unsent(
        &mut self,
        lease: Lease,
        error: impl FnOnce(Address) -> BalanceError,
    ) -> NextStep<M, Req> {
        let Some(addr) = lease.backend().map(|backend| backend.addr.clone()) else {
            return Step::End;
        };
        lease.fail(FailureKind::Connect);
        let problem = Problem::Error(error(addr.clone()));
        self.failed(Some(addr), problem, Some(FailureKind::Connect))
    }

    fn failed(
        &mut self,
        addr: Option<Address>,
        problem: Problem<M::Response, Req>,
        failure: Option<FailureKind>,
    ) -> NextStep<M, Req> {
        self.problem = Some(problem);
        let may_retry = self.failed.len() < self.retry.limit()
            && self
                .request
                .as_ref()
                .zip(failure)
                .is_some_and(|(request, failure)| self.retry.retries(request, failure));
        if !may_retry {
            return Step::End;
        }
        self.failed.extend(addr);
        Step::Go(State::Next)
    }

    fn end(&mut self) -> Result<H::Response, BalanceError> {
        self.parked.clear();
        match self.problem.take() {
            Some(Problem::Response(response, lease)) => Ok(self.hold.hold(response, lease)),
            Some(Problem::Error(error)) => Err(error),
            None => Err(BalanceError::NoBackend),
        }
    }
}

type NextStep<M, Req> = Step<
    <M as Service<Backend>>::Response,
    <<M as Service<Backend>>::Response as Service<Req>>::Future,
>;

fn readying<Svc, F>(lease: Lease, made: Made<Svc>, fresh: bool) -> Step<Svc, F> {
    Step::Go(State::Readying {
        lease: Some(lease),
        made: Some(made),
        fresh,
    })
}

impl<S, M, Req, K, C, R, H> fmt::Debug for ResponseFuture<S, M, Req, K, C, R, H>
where
    S: Selector + ?Sized,
    M: Service<Backend>,
    M::Response: Service<Req>,
    K: Key<Req>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Next => "next",
            State::Making { .. } => "making",
            State::Readying { .. } => "readying",
            State::Calling { .. } => "calling",
        };
        f.debug_struct("ResponseFuture")
            .field("state", &state)
            .field("failed", &self.course.failed)
            .finish_non_exhaustive()
    }
}
