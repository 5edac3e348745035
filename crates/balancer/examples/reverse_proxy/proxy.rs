//! The proxy itself: what a program around it needs is [`Proxy`].

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use balancer::{LoadBalancer, Pick};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use selection::{FailureKind, Outcome, Selector};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The balancer, and the pool of kept connections to its backends.
pub(crate) struct Proxy<S: Selector + ?Sized> {
    balancer: Arc<LoadBalancer<S>>,
    client: Client<HttpConnector, Either<Full<Bytes>, Incoming>>,
}

type Answer = Response<Either<Leased, Full<Bytes>>>;

impl<S: Selector + ?Sized> Proxy<S> {
    pub(crate) fn new(balancer: Arc<LoadBalancer<S>>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector);
        Self { balancer, client }
    }

    /// Serves until `shutdown` completes, then lets the requests in flight end.
    pub(crate) async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let proxy = Arc::new(self);
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let proxy = Arc::clone(&proxy);
                        connections.spawn(connection(proxy, stream, peer, graceful.watcher()));
                    }
                    // Out of file descriptors, most likely: let some connections end.
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        }
        drop(listener);
        // Whoever takes longer is cut off when `connections` is dropped.
        timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await.ok();
    }

    async fn answer(&self, peer: SocketAddr, request: Request<Incoming>) -> Answer {
        let (mut head, body) = request.into_parts();
        if head.method == Method::CONNECT {
            return plain(StatusCode::NOT_IMPLEMENTED);
        }
        prepare(&mut head, peer);
        let Ok(mut payload) = Payload::read(body).await else {
            return plain(StatusCode::BAD_REQUEST);
        };
        let mut answer = plain(StatusCode::SERVICE_UNAVAILABLE);
        let mut attempts = self.balancer.attempts(head.uri.path()).take(MAX_ATTEMPTS);
        let mut count: u32 = 0;
        while let Some(body) = payload.next()
            && let Some(pick) = attempts.next()
        {
            let begun = Instant::now();
            count += 1;
            let failure = match self.forward(&pick, &head, body).await {
                Ok(response) if !says_failure(response.status()) => {
                    answer = response.map(|body| Either::Left(Leased::new(body, pick, begun)));
                    break;
                }
                Ok(response) => {
                    answer = response.map(|body| Either::Left(Leased::failed(body, begun)));
                    FailureKind::Status
                }
                Err(failure) => {
                    answer = plain(status(failure));
                    failure
                }
            };
            pick.complete(Outcome::Failure(failure));
            if !may_retry(&head.method, failure) {
                break;
            }
        }
        let headers = answer.headers_mut();
        headers.insert(ATTEMPT_COUNT, HeaderValue::from(count));
        answer
    }

    /// The head of the backend's answer, and its body still to come.
    async fn forward(
        &self,
        pick: &Pick,
        head: &Parts,
        body: Either<Full<Bytes>, Incoming>,
    ) -> Result<Response<Incoming>, FailureKind> {
        let request = outgoing(pick, head, body).ok_or(FailureKind::Protocol)?;
        let mut response = timeout(HEADER_TIMEOUT, self.client.request(request))
            .await
            .map_err(|_| FailureKind::Timeout)?
            .map_err(|error| match error.is_connect() {
                true => FailureKind::Connect,
                false => FailureKind::Protocol,
            })?;
        remove_hop_by_hop(response.headers_mut());
        // A backend that speaks HTTP/1.0 must not end the connection of the client.
        *response.version_mut() = Version::HTTP_11;
        Ok(response)
    }
}

async fn connection<S: Selector + ?Sized>(
    proxy: Arc<Proxy<S>>,
    stream: TcpStream,
    peer: SocketAddr,
    watcher: Watcher,
) {
    let service = service_fn(move |request| {
        let proxy = Arc::clone(&proxy);
        async move { Ok::<_, Infallible>(proxy.answer(peer, request).await) }
    });
    // Without it answers are merely slower.
    stream.set_nodelay(true).ok();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    // A client that breaks off has nobody to report to.
    watcher.watch(connection).await.ok();
}

/// Whether the same request may go to another backend. If there was no connection it did not leave;
/// otherwise it may have been carried out.
fn may_retry(method: &Method, failure: FailureKind) -> bool {
    failure == FailureKind::Connect || method.is_idempotent()
}

/// An answer by which a backend says that it is the one to blame, and that another may do better:
/// what nginx's `proxy_next_upstream` can name.
fn says_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

fn status(failure: FailureKind) -> StatusCode {
    match failure {
        FailureKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// The body of a request: kept for a further attempt if it is known to be small.
enum Payload {
    Kept(Bytes),
    Once(Option<Incoming>),
}

impl Payload {
    async fn read(body: Incoming) -> hyper::Result<Self> {
        match body.size_hint().upper() {
            Some(size) if size <= KEPT_BODY => Ok(Self::Kept(body.collect().await?.to_bytes())),
            _ => Ok(Self::Once(Some(body))),
        }
    }

    /// The body for one more attempt, unless it is spent.
    fn next(&mut self) -> Option<Either<Full<Bytes>, Incoming>> {
        match self {
            Self::Kept(bytes) => Some(Either::Left(Full::new(bytes.clone()))),
            Self::Once(body) => body.take().map(Either::Right),
        }
    }
}

/// The body of an answer, with the pick that it came from: the request is in flight until the
/// last byte of it has passed, or the client has left.
struct Leased {
    body: Incoming,
    begun: Instant,
    /// Until it is told how the request ended.
    pick: Option<Pick>,
}

impl Leased {
    fn new(body: Incoming, pick: Pick, begun: Instant) -> Self {
        Self {
            body,
            begun,
            pick: Some(pick),
        }
    }

    /// The body of an answer that has been told to the balancer already.
    fn failed(body: Incoming, begun: Instant) -> Self {
        Self {
            body,
            begun,
            pick: None,
        }
    }

    fn complete(&mut self, outcome: Outcome) {
        if let Some(pick) = self.pick.take() {
            pick.complete(outcome);
        }
    }
}

impl Body for Leased {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Err(_))) => self.complete(Outcome::Failure(FailureKind::Protocol)),
            Poll::Ready(None) => {
                let latency = self.begun.elapsed();
                self.complete(Outcome::success(latency));
            }
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

impl Drop for Leased {
    /// The server does not ask again for what it knows to have ended.
    fn drop(&mut self) {
        let ended = self.body.is_end_stream();
        let latency = self.begun.elapsed();
        self.complete(match ended {
            true => Outcome::success(latency),
            false => Outcome::Cancelled,
        });
    }
}

/// The head of a request as it is passed on: `Host` stays what the client asked for.
fn prepare(head: &mut Parts, peer: SocketAddr) {
    remove_hop_by_hop(&mut head.headers);
    // The client writes the length that the body has; the server answered the expectation.
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.remove(header::EXPECT);
    let peer = peer.ip().to_string();
    if let Ok(peer) = HeaderValue::from_str(&peer) {
        head.headers.append(X_FORWARDED_FOR, peer);
    }
}

fn outgoing<B>(pick: &Pick, head: &Parts, body: B) -> Option<Request<B>> {
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(Scheme::HTTP);
    uri.authority = Authority::try_from(pick.addr.to_string()).ok();
    uri.path_and_query = head
        .uri
        .path_and_query()
        .cloned()
        .or_else(|| Some(PathAndQuery::from_static("/")));
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = Uri::from_parts(uri).ok()?;
    *request.headers_mut() = head.headers.clone();
    Some(request)
}

/// Removes what concerns one connection only: RFC 9110, section 7.6.1.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn plain(status: StatusCode) -> Answer {
    let mut response = Response::new(Either::Right(Full::from(format!("{status}\n"))));
    *response.status_mut() = status;
    response
}

/// The header of an answer that says how many backends were asked for it; Envoy's name for it is
/// `x-envoy-attempt-count`.
pub(crate) const ATTEMPT_COUNT: HeaderName = HeaderName::from_static("x-attempt-count");

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A first try and two further backends.
const MAX_ATTEMPTS: usize = 3;

/// The largest request body that is kept for a further attempt, in bytes.
const KEPT_BODY: u64 = 64 * 1024;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
