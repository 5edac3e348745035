//! The balancer as a tower service: [`Balance`].
//!
//! ```
//! use std::convert::Infallible;
//! use std::sync::Arc;
//!
//! use balancer::selection::Consistent;
//! use balancer::tower::{Balance, Retries};
//! use balancer::{Address, Backend, LoadBalancer, Static};
//! use tower::{Service, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let addrs: [Address; 2] = ["10.0.0.1:80".parse()?, "10.0.0.2:80".parse()?];
//! let balancer = LoadBalancer::<Consistent>::new(Static::new(addrs.map(Backend::new)))?;
//! balancer.update().await?;
//!
//! // Makes the service of one backend: it connects, as a rule.
//! let connect = service_fn(|backend: Backend| async move {
//!     let client = service_fn(move |request: String| {
//!         let answer = format!("{request} from {}", backend.addr);
//!         async move { Ok::<_, Infallible>(answer) }
//!     });
//!     Ok::<_, Infallible>(client)
//! });
//! let mut service = Balance::new(Arc::new(balancer), connect)
//!     .key(|request: &String| request.clone())
//!     .retry(Retries::new(1));
//!
//! let answer = service.ready().await?.call("/path".to_owned()).await?;
//! assert_eq!(answer, "/path from 10.0.0.2:80");
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod error;
mod lease;
mod policy;
mod response;
mod services;

use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use selection::Selector;
use tower_service::Service;

pub use self::error::{BalanceError, BoxError};
pub use self::lease::{Hold, Lease, LeasedBody, UntilBodyEnds, UntilResponse};
pub use self::policy::{Classify, ErrorsFail, Key, NoKey, NoRetry, Retries, Retry, Unsent};
use self::response::Course;
pub use self::response::ResponseFuture;
use self::services::Services;
use crate::follow::Follower;
use crate::{Attempts, Backend, LoadBalancer};

/// A service over the backends of a [`LoadBalancer`], with one pick for each request.
///
/// `M` makes the service of a backend: it is a `Service<Backend>` whose response is that service,
/// as tower's `MakeService` is. It sees the whole [`Backend`], what the user has attached to it
/// included.
///
/// # Services
///
/// The service of a backend is made when the first request comes to it, by one request while others
/// wait for it, and kept under the backend's address: a change of weight, tier or anything else but
/// the address keeps it. It is dropped as soon as an update finds the backend gone; requests on it
/// have clones of their own and go on. All clones of a `Balance` share the services, so it may be
/// cloned for every worker or for every request. If a service that was kept says that it is broken,
/// in `poll_ready`, another one is made.
///
/// # Readiness
///
/// A `Balance` is always ready: which service a request needs is known only once it is there.
/// So a service that is never ready stops nobody else, and what `poll_ready` of a service says is
/// heeded in the future of the request, as [`Unready`] says. Nothing is queued here: a request that
/// waits is a future of its caller's, who bounds their number, by a `ConcurrencyLimit` around the
/// `Balance` say, and their time. [`Backend::max_in_flight`] bounds what one backend gets.
///
/// # Outcomes and retries
///
/// How a request ended is told to the balancer, as [`classify`](Self::classify) judges it. Whether
/// a request that failed goes to another backend is decided by [`retry`](Self::retry); by default it
/// does not. A backend whose service cannot be made or does not become ready has failed with
/// [`FailureKind::Connect`](selection::FailureKind::Connect).
///
/// # In flight
///
/// A request is in flight on its backend from the pick until [`hold`](Self::hold) ends it: by
/// default until its response is there, with [`UntilBodyEnds`] until the body of an HTTP response
/// has been read. Dropping the future gives it up.
///
/// # Cost
///
/// That of the pick, of finding the service by its address, and of a clone of it. Where that service
/// exists and is ready, nothing is allocated here.
///
/// # Errors
///
/// [`BalanceError`].
pub struct Balance<S, M, K = NoKey, C = ErrorsFail, R = NoRetry, H = UntilResponse>
where
    S: Selector + ?Sized,
    M: Service<Backend>,
{
    services: Arc<Services<S, M>>,
    lane: usize,
    unready: Unready,
    key: K,
    classify: C,
    retry: R,
    hold: H,
}

/// What becomes of a request whose backend has a service that is not ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unready {
    /// It goes to the next backend whose service is ready, or else to the first that becomes so, of
    /// those that are members by then; it is in flight on none until then, and waits for none that
    /// may not be picked any more. A backend that is passed over has not failed.
    #[default]
    PassOver,
    /// It waits, and is in flight on its backend meanwhile. For keys that had better stay where they
    /// are.
    Wait,
}

impl<S, M> Balance<S, M>
where
    S: Selector + ?Sized,
    M: Service<Backend> + Send + 'static,
    M::Response: Send + 'static,
{
    /// Without keys, retries, or anything else of its own.
    pub fn new(balancer: Arc<LoadBalancer<S>>, make: M) -> Self {
        let services = Arc::new(Services::new(Arc::clone(&balancer), make));
        let follower: Weak<Services<S, M>> = Arc::downgrade(&services);
        balancer.followers.add(follower as Weak<dyn Follower>);
        Self {
            services,
            lane: 0,
            unready: Unready::default(),
            key: NoKey,
            classify: ErrorsFail,
            retry: NoRetry,
            hold: UntilResponse,
        }
    }
}

impl<S, M, K, C, R, H> Balance<S, M, K, C, R, H>
where
    S: Selector + ?Sized,
    M: Service<Backend>,
{
    /// With the key that `key` takes from a request.
    #[must_use]
    pub fn key<Req, K2: Key<Req>>(self, key: K2) -> Balance<S, M, K2, C, R, H> {
        Balance {
            services: self.services,
            lane: self.lane,
            unready: self.unready,
            key,
            classify: self.classify,
            retry: self.retry,
            hold: self.hold,
        }
    }

    /// With responses and errors judged so.
    #[must_use]
    pub fn classify<Res, E, C2: Classify<Res, E>>(
        self,
        classify: C2,
    ) -> Balance<S, M, K, C2, R, H> {
        Balance {
            services: self.services,
            lane: self.lane,
            unready: self.unready,
            key: self.key,
            classify,
            retry: self.retry,
            hold: self.hold,
        }
    }

    /// With retries, such as [`Retries`]: a [`Retry`] of the requests.
    #[must_use]
    pub fn retry<R2>(self, retry: R2) -> Balance<S, M, K, C, R2, H> {
        Balance {
            services: self.services,
            lane: self.lane,
            unready: self.unready,
            key: self.key,
            classify: self.classify,
            retry,
            hold: self.hold,
        }
    }

    /// With requests that end so, such as [`UntilBodyEnds`]: a [`Hold`] of the responses.
    #[must_use]
    pub fn hold<H2>(self, hold: H2) -> Balance<S, M, K, C, R, H2> {
        Balance {
            services: self.services,
            lane: self.lane,
            unready: self.unready,
            key: self.key,
            classify: self.classify,
            retry: self.retry,
            hold,
        }
    }

    /// With services that are not ready treated so.
    #[must_use]
    pub fn unready(self, unready: Unready) -> Self {
        Self { unready, ..self }
    }

    /// The same for another [lane](LoadBalancer::lane); `None` if there is none of this index.
    #[must_use]
    pub fn lane(self, index: usize) -> Option<Self> {
        let exists = self.balancer().lane(index).is_some();
        exists.then_some(Self {
            lane: index,
            ..self
        })
    }

    /// The balancer behind it.
    #[must_use]
    pub fn balancer(&self) -> &Arc<LoadBalancer<S>> {
        &self.services.balancer
    }
}

impl<S, M, Req, K, C, R, H> Service<Req> for Balance<S, M, K, C, R, H>
where
    S: Selector + ?Sized,
    M: Service<Backend> + Clone + Send + 'static,
    M::Error: Into<BoxError>,
    M::Future: Send,
    M::Response: Service<Req> + Clone + Send + 'static,
    <M::Response as Service<Req>>::Error: Into<BoxError>,
    K: Key<Req>,
    C: Classify<<M::Response as Service<Req>>::Response, <M::Response as Service<Req>>::Error>
        + Clone,
    R: Retry<Req> + Clone,
    H: Hold<<M::Response as Service<Req>>::Response> + Clone,
{
    type Response = H::Response;
    type Error = BalanceError;
    type Future = ResponseFuture<S, M, Req, K, C, R, H>;

    /// Always ready: see [Readiness](Balance#readiness).
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BalanceError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let snapshot = self.services.balancer.snapshot.load_full();
        let key = self.key.key(&request);
        ResponseFuture::new(Course {
            services: Arc::clone(&self.services),
            attempts: Attempts::new(snapshot, self.lane, key),
            classify: self.classify.clone(),
            retry: self.retry.clone(),
            hold: self.hold.clone(),
            unready: self.unready,
            request: Some(request),
            failed: Vec::new(),
            parked: Vec::new(),
            will_wake: false,
            news: None,
            problem: None,
        })
    }
}

impl<S, M, K, C, R, H> Clone for Balance<S, M, K, C, R, H>
where
    S: Selector + ?Sized,
    M: Service<Backend>,
    K: Clone,
    C: Clone,
    R: Clone,
    H: Clone,
{
    fn clone(&self) -> Self {
        Self {
            services: Arc::clone(&self.services),
            lane: self.lane,
            unready: self.unready,
            key: self.key.clone(),
            classify: self.classify.clone(),
            retry: self.retry.clone(),
            hold: self.hold.clone(),
        }
    }
}

impl<S, M, K, C, R, H> fmt::Debug for Balance<S, M, K, C, R, H>
where
    S: Selector + ?Sized,
    M: Service<Backend>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Balance")
            .field("services", &self.services)
            .field("lane", &self.lane)
            .field("unready", &self.unready)
            .finish_non_exhaustive()
    }
}
