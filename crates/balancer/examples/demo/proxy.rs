//! A reverse proxy that asks the load balancer where each request goes, with the path as the key.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use balancer::{LoadBalancer, Pick};
use http::request::Parts;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use selection::{FailureKind, Outcome, Selector};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// The response header that says how many backends were asked.
pub(crate) const ATTEMPTS: &str = "x-attempts";

/// A running proxy. Its connections end with it.
#[derive(Debug)]
pub(crate) struct Proxy {
    addr: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start<S>(balancer: Arc<LoadBalancer<S>>) -> io::Result<Self>
    where
        S: Selector + ?Sized,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let route = Arc::new(Route::new(balancer));
        let accepting = tokio::spawn(accept(listener, route));
        Ok(Self { addr, accepting })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept<S: Selector + ?Sized>(listener: TcpListener, route: Arc<Route<S>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                // Only a delay is at stake.
                stream.set_nodelay(true).ok();
                let route = Arc::clone(&route);
                let service = service_fn(move |request| {
                    let route = Arc::clone(&route);
                    async move { Ok::<_, Infallible>(route.answer(request).await) }
                });
                connections.spawn(
                    http1::Builder::new()
                        .timer(TokioTimer::new())
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        }
    }
}

/// The balancer, and the pool of connections to its backends.
#[derive(Debug)]
struct Route<S: Selector + ?Sized> {
    client: Client<HttpConnector, Full<Bytes>>,
    balancer: Arc<LoadBalancer<S>>,
}

impl<S: Selector + ?Sized> Route<S> {
    fn new(balancer: Arc<LoadBalancer<S>>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { client, balancer }
    }

    /// The answer of the first backend that gives one.
    ///
    /// Request and answer are read whole before they are passed on: that is what makes a backend
    /// that dies in the middle of either a case for another attempt. They are small here.
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_LIMIT).collect().await else {
            // Or the client is gone, and nobody reads this.
            return status(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let body = body.to_bytes();
        let mut attempts = self.balancer.attempts(head.uri.path().as_bytes());
        let mut problem = StatusCode::SERVICE_UNAVAILABLE;
        for attempt in 1..=MAX_ATTEMPTS {
            let Some(pick) = attempts.next() else { break };
            match self.forward(pick, &head, body.clone()).await {
                Ok(mut response) => {
                    let attempt = HeaderValue::from(attempt);
                    response.headers_mut().insert(ATTEMPTS, attempt);
                    return response;
                }
                Err(failure) => {
                    problem = match failure {
                        FailureKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
                        _ => StatusCode::BAD_GATEWAY,
                    };
                    if !may_retry(&head.method, failure) {
                        break;
                    }
                }
            }
        }
        status(problem)
    }

    /// One attempt, and what the balancer is to know of it. The request is in flight until then,
    /// or until the attempt is given up.
    async fn forward(
        &self,
        pick: Pick,
        head: &Parts,
        body: Bytes,
    ) -> Result<Response<Full<Bytes>>, FailureKind> {
        let begun = Instant::now();
        let addr = pick.addr.as_inet().ok_or(FailureKind::Connect)?;
        let exchange = self.exchange(addr, head, body);
        let result = tokio::time::timeout(ATTEMPT_TIMEOUT, exchange)
            .await
            .unwrap_or(Err(FailureKind::Timeout));
        pick.complete(match &result {
            Ok(_) => Outcome::success(begun.elapsed()),
            Err(failure) => Outcome::Failure(*failure),
        });
        result
    }

    async fn exchange(
        &self,
        addr: SocketAddr,
        head: &Parts,
        body: Bytes,
    ) -> Result<Response<Full<Bytes>>, FailureKind> {
        let request = outgoing(addr, head, body).map_err(|_| FailureKind::Protocol)?;
        let response = self.client.request(request).await.map_err(|error| {
            if error.is_connect() {
                FailureKind::Connect
            } else {
                FailureKind::Protocol
            }
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, BODY_LIMIT)
            .collect()
            .await
            .map_err(|_| FailureKind::Protocol)?;
        let mut whole = Response::new(Full::new(body.to_bytes()));
        *whole.status_mut() = head.status;
        *whole.headers_mut() = end_to_end(&head.headers);
        Ok(whole)
    }
}

/// Whether a request that failed so may be sent again, to another backend.
///
/// One that never reached a backend always may. One that was cut may have been carried out: it may
/// be sent again only if twice is the same as once.
fn may_retry(method: &Method, failure: FailureKind) -> bool {
    failure == FailureKind::Connect || method.is_idempotent()
}

/// The request as the backend gets it.
fn outgoing(addr: SocketAddr, head: &Parts, body: Bytes) -> http::Result<Request<Full<Bytes>>> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder()
        .scheme("http")
        .authority(addr.to_string())
        .path_and_query(path)
        .build()?;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = end_to_end(&head.headers);
    Ok(request)
}

/// The headers that concern more than one connection. RFC 9110, section 7.6.1. Bodies are read
/// whole, so their length is set anew as well.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        kept.remove(name);
    }
    kept
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    CONTENT_LENGTH,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Requests and answers of the demo are a few bytes.
const BODY_LIMIT: usize = 64 * 1024;

/// A first try and two further backends.
const MAX_ATTEMPTS: u32 = 3;

/// Loopback answers at once; these only bound what a stuck machine can do.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_carried_out_is_not_sent_twice() {
        use FailureKind::{Connect, Protocol, Timeout};
        for (method, failure, retry) in [
            (Method::GET, Connect, true),
            (Method::GET, Protocol, true),
            (Method::PUT, Timeout, true),
            (Method::POST, Connect, true),
            (Method::POST, Protocol, false),
            (Method::POST, Timeout, false),
            (Method::PATCH, Protocol, false),
        ] {
            assert_eq!(may_retry(&method, failure), retry, "{method} {failure:?}");
        }
    }

    #[test]
    fn headers_of_one_connection_are_not_passed_on() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("close, X-Hop"));
        headers.insert("x-hop", HeaderValue::from_static("1"));
        headers.insert("keep-alive", HeaderValue::from_static("timeout=5"));
        headers.insert("x-end", HeaderValue::from_static("1"));
        let kept = end_to_end(&headers);
        let names: Vec<_> = kept.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-end"]);
    }
}
