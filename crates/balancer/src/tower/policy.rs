//! What the user decides about a request: its key, what counts as a failure, and when another
//! backend is asked.

use std::fmt;

use selection::FailureKind;

/// The key of a request, by which selectors that hash choose. Closures implement it:
/// `|request: &Request| request.path.clone()`.
pub trait Key<Req> {
    /// The key, owned: it outlives the first attempt.
    type Bytes: AsRef<[u8]>;

    /// The key of `request`. An empty one is no key.
    fn key(&self, request: &Req) -> Self::Bytes;
}

/// No request has a key. For selectors that do not look at it.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "nothing is in it")]
pub struct NoKey;

impl<Req> Key<Req> for NoKey {
    type Bytes = [u8; 0];

    fn key(&self, _: &Req) -> [u8; 0] {
        []
    }
}

impl<F, Req, B> Key<Req> for F
where
    F: Fn(&Req) -> B,
    B: AsRef<[u8]>,
{
    type Bytes = B;

    fn key(&self, request: &Req) -> B {
        self(request)
    }
}

/// What a response, or the error of a service, says of the backend. Closures implement it.
pub trait Classify<Res, E> {
    /// How the backend failed, or `None` if it did not.
    ///
    /// An error that is not the backend's fault tells nothing of it; a response that is no failure
    /// is a success.
    fn classify(&self, result: Result<&Res, &E>) -> Option<FailureKind>;
}

/// Every error is a failure, of the kind [`FailureKind::Protocol`], and every response a success.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "nothing is in it")]
pub struct ErrorsFail;

impl<Res, E> Classify<Res, E> for ErrorsFail {
    fn classify(&self, result: Result<&Res, &E>) -> Option<FailureKind> {
        result.is_err().then_some(FailureKind::Protocol)
    }
}

impl<F, Res, E> Classify<Res, E> for F
where
    F: Fn(Result<&Res, &E>) -> Option<FailureKind>,
{
    fn classify(&self, result: Result<&Res, &E>) -> Option<FailureKind> {
        self(result)
    }
}

/// Whether a request that failed goes to another backend.
pub trait Retry<Req> {
    /// The most further backends that one request may go to.
    fn limit(&self) -> usize;

    /// A copy to send again, made before `request` is sent; `None` if it is to be sent once.
    fn copy(&self, request: &Req) -> Option<Req>;

    /// Whether to send `request` again after this failure.
    ///
    /// [`FailureKind::Connect`] also stands for a service that could not be made or did not become
    /// ready: the request has not been sent then.
    fn retries(&self, request: &Req, failure: FailureKind) -> bool;
}

/// Every request is sent once.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "nothing is in it")]
pub struct NoRetry;

impl<Req> Retry<Req> for NoRetry {
    fn limit(&self) -> usize {
        0
    }

    fn copy(&self, _: &Req) -> Option<Req> {
        None
    }

    fn retries(&self, _: &Req, _: FailureKind) -> bool {
        false
    }
}

/// Requests that can be cloned go to further backends, up to a limit.
#[derive(Clone, Copy)]
pub struct Retries<F = Unsent> {
    limit: usize,
    when: F,
}

/// After [`FailureKind::Connect`] only: the request has not reached anybody, so it may be sent
/// again whatever it does.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "nothing is in it")]
pub struct Unsent;

impl Retries {
    /// To at most `limit` further backends, and only what has not been sent.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            when: Unsent,
        }
    }

    /// To as many, after the failures that `when` names for the request: say, after any for one that
    /// may be carried out twice.
    #[must_use]
    pub fn when<Req, F: Fn(&Req, FailureKind) -> bool>(self, when: F) -> Retries<F> {
        Retries {
            limit: self.limit,
            when,
        }
    }
}

impl<Req: Clone> Retry<Req> for Retries {
    fn limit(&self) -> usize {
        self.limit
    }

    fn copy(&self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }

    fn retries(&self, _: &Req, failure: FailureKind) -> bool {
        failure == FailureKind::Connect
    }
}

impl<Req: Clone, F: Fn(&Req, FailureKind) -> bool> Retry<Req> for Retries<F> {
    fn limit(&self) -> usize {
        self.limit
    }

    fn copy(&self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }

    fn retries(&self, request: &Req, failure: FailureKind) -> bool {
        (self.when)(request, failure)
    }
}

impl<F> fmt::Debug for Retries<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retries")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
