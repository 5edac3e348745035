//! For how long a request is in flight on its backend.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use selection::{FailureKind, Outcome};

use crate::clock::Clock;
use crate::{Backend, Pick};

/// A request on its backend: in flight until this ends it or is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the request"]
pub struct Lease {
    /// `None` if how the request ended has been told already.
    pick: Option<Pick>,
    begun: Duration,
    /// When the response came.
    header: Option<Duration>,
    clock: Clock,
}

impl Lease {
    pub(super) fn new(pick: Pick, clock: Clock) -> Self {
        Self {
            pick: Some(pick),
            begun: clock.now(),
            header: None,
            clock,
        }
    }

    pub(super) fn answered(mut self) -> Self {
        self.header = Some(self.elapsed());
        self
    }

    /// The same, with the failure told: what is left of the response is on nobody's account.
    pub(super) fn blamed(mut self, failure: FailureKind) -> Self {
        self.end(Outcome::Failure(failure));
        self
    }

    /// The backend; `None` for a response that was counted as a failure when it came, and is passed
    /// on for want of a better one.
    #[must_use]
    pub fn backend(&self) -> Option<&Backend> {
        self.pick.as_deref()
    }

    /// Ends the request as answered.
    pub fn succeed(mut self) {
        let (latency, header) = (self.elapsed(), self.header);
        self.end(Outcome::Success { latency, header });
    }

    /// Ends the request as failed.
    pub fn fail(mut self, failure: FailureKind) {
        self.end(Outcome::Failure(failure));
    }

    fn elapsed(&self) -> Duration {
        self.clock.now().saturating_sub(self.begun)
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(pick) = self.pick.take() {
            pick.complete(outcome);
        }
    }
}

/// When a request that was answered ends. Closures implement it:
/// `|response, lease| ...`, where the lease may become a part of what is returned.
pub trait Hold<Res> {
    /// What the caller gets.
    type Response;

    /// Makes the response that the caller gets, and ends the lease at its time.
    fn hold(&self, response: Res, lease: Lease) -> Self::Response;
}

/// A request ends when its response is there.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "nothing is in it")]
pub struct UntilResponse;

impl<Res> Hold<Res> for UntilResponse {
    type Response = Res;

    fn hold(&self, response: Res, lease: Lease) -> Res {
        lease.succeed();
        response
    }
}

/// An HTTP request ends with the body of its response: see [`LeasedBody`].
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "nothing is in it")]
pub struct UntilBodyEnds;

impl<B: Body> Hold<Response<B>> for UntilBodyEnds {
    type Response = Response<LeasedBody<B>>;

    fn hold(&self, response: Response<B>, lease: Lease) -> Response<LeasedBody<B>> {
        response.map(|body| LeasedBody::new(body, lease))
    }
}

impl<F, Res, T> Hold<Res> for F
where
    F: Fn(Res, Lease) -> T,
{
    type Response = T;

    fn hold(&self, response: Res, lease: Lease) -> T {
        self(response, lease)
    }
}

pin_project! {
    /// The body of a response, with the request that it answers: in flight until the last byte of it
    /// has been read, or nobody wants it any more.
    ///
    /// Read to its end it is a success, with an error a [`FailureKind::Protocol`]; dropped before
    /// either it tells nothing of the backend.
    #[derive(Debug)]
    pub struct LeasedBody<B> {
        #[pin]
        body: B,
        lease: Option<Lease>,
    }
}

impl<B: Body> LeasedBody<B> {
    /// This body, which ends this lease.
    pub fn new(body: B, lease: Lease) -> Self {
        let mut leased = Self {
            body,
            lease: Some(lease),
        };
        // Whoever passes on an empty body does not ask for its end.
        if leased.body.is_end_stream() {
            succeed(&mut leased.lease);
        }
        leased
    }
}

impl<B: Body> Body for LeasedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let polled = this.body.as_mut().poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Err(_))) => {
                if let Some(lease) = this.lease.take() {
                    lease.fail(FailureKind::Protocol);
                }
            }
            Poll::Ready(None) => succeed(this.lease),
            // As with an empty body.
            Poll::Ready(Some(Ok(_))) if this.body.is_end_stream() => succeed(this.lease),
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn succeed(lease: &mut Option<Lease>) {
    if let Some(lease) = lease.take() {
        lease.succeed();
    }
}
