//! A gRPC client over the balancer: a tonic channel for each backend, picked for each call.
//!
//! ```text
//! cargo run --manifest-path crates/peers/Cargo.toml --features tonic --example tonic_channel
//! ```
//!
//! starts three gRPC servers on loopback and calls them through one client. Then one of them goes
//! away, and last it is taken out of discovery. Every call must be answered; the program fails if
//! one is not.
//!
//! What is worth copying:
//!
//! - The factory of `Balance` connects, so that a backend which refuses fails before anything has
//!   been sent, and the call goes to the next. A channel is kept for as long as its backend is a
//!   member, and connects again by itself.
//! - The body of a gRPC request is a stream, which can be sent once. `Unary` reads it, so that a call
//!   may be tried again; that is for small messages, and for methods that may be carried out twice.
//! - `UNAVAILABLE` is a response and not an error, but says that the backend is of no use.
//! - Generated clients take the balancer where they take a channel.
//!
//! The service is gRPC's own health check, whose code tonic-health brings along: no protoc is needed.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a program, not the library: it starts servers of its own"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use balancer::selection::{FailureKind, RoundRobin};
use balancer::tower::{Balance, BoxError, Retries, UntilBodyEnds};
use balancer::{Backend, Consecutive, LoadBalancer, Options, Passive, Static};
use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};
use tower::util::{MapRequestLayer, MapResponseLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(GrpcServer::start().await?);
    }
    let addrs: Vec<_> = servers.iter().map(|server| server.addr).collect();
    let list = Arc::new(Static::new(addrs.iter().copied().map(Backend::new)));
    let passive = Passive::Consecutive(Consecutive::default().failures(2));
    let balancer = LoadBalancer::<RoundRobin>::builder(Arc::clone(&list), Default::default())
        .options(Options::default().passive(passive))
        .build()?;
    let balancer = Arc::new(balancer);
    balancer.update().await?;

    let channel = Balance::new(Arc::clone(&balancer), service_fn(connect))
        .classify(judge)
        .retry(Retries::new(2).when(|_: &Call, _| true))
        .hold(UntilBodyEnds);
    let mut client = HealthClient::new(Unary(channel));

    let counts = calls(&mut client).await?;
    println!("three servers:                 {}", shares(&addrs, &counts));
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [20, 20, 20]);

    let gone = servers.swap_remove(1);
    let gone = gone.stop().await?;
    let counts = calls(&mut client).await?;
    let status = balancer.status().backends;
    let found = status.iter().find(|it| it.addr.as_inet() == Some(gone));
    let found = found.ok_or("it is still a member")?;
    let reason = found.reason.as_deref().unwrap_or_default();
    println!(
        "one has gone, and is {}:  {}",
        found.condition,
        shares(&addrs, &counts)
    );
    println!(
        "  {} of its calls went on to another ({reason})",
        found.failures
    );
    assert!(!counts.contains_key(&gone) && found.failures >= 2);

    list.remove(&gone.into());
    balancer.update().await?;
    let counts = calls(&mut client).await?;
    println!("it has left, with its channel: {}", shares(&addrs, &counts));
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [30, 30]);

    println!("{} calls, all of them answered", 3 * CALLS);
    drop(client);
    for server in servers {
        server.stop().await?;
    }
    Ok(())
}

/// Calls one after the other; returns who answered how many.
async fn calls<T>(
    client: &mut HealthClient<T>,
) -> Result<BTreeMap<SocketAddr, usize>, Box<dyn Error>>
where
    T: tonic::client::GrpcService<Body>,
    T::Error: Into<BoxError>,
    T::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as http_body::Body>::Error: Into<BoxError> + Send,
{
    let mut counts = BTreeMap::new();
    for _ in 0..CALLS {
        let response = client.check(HealthCheckRequest::default()).await?;
        let by = response
            .metadata()
            .get(SERVED_BY)
            .ok_or("nobody")?
            .to_str()?
            .parse()?;
        *counts.entry(by).or_default() += 1;
        let status = response.into_inner().status();
        assert_eq!(status, ServingStatus::Serving);
    }
    Ok(counts)
}

fn shares(addrs: &[SocketAddr], counts: &BTreeMap<SocketAddr, usize>) -> String {
    let share = |addr| {
        format!(
            "{addr} {:>2}",
            counts.get(addr).copied().unwrap_or_default()
        )
    };
    addrs.iter().map(share).collect::<Vec<_>>().join("  ")
}

// ===== the client =====

/// A call that can be sent more than once.
type Call = Request<Full<Bytes>>;

/// The channel to one backend, connected.
async fn connect(
    backend: Backend,
) -> Result<
    impl Service<Call, Response = Response<Body>, Error = tonic::transport::Error, Future: Send>
    + Clone
    + Send,
    tonic::transport::Error,
> {
    let endpoint = Endpoint::from_shared(format!("http://{}", backend.addr))?;
    let channel = endpoint.connect().await?;
    Ok(MapRequestLayer::new(|call: Call| call.map(Body::new)).layer(channel))
}

fn judge(result: Result<&Response<Body>, &tonic::transport::Error>) -> Option<FailureKind> {
    match result {
        Ok(response) => {
            let status = tonic::Status::from_header_map(response.headers())?;
            (status.code() == tonic::Code::Unavailable).then_some(FailureKind::Status)
        }
        Err(_) => Some(FailureKind::Protocol),
    }
}

/// Reads the body of a request before it is balanced.
#[derive(Clone)]
struct Unary<B>(B);

impl<B> Service<Request<Body>> for Unary<B>
where
    B: Service<Call, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
{
    type Response = B::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<B::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let balance = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let call = Request::from_parts(head, Full::new(body));
            balance.oneshot(call).await.map_err(Into::into)
        })
    }
}

// ===== the servers =====

/// A gRPC server on a free port of loopback, which says in each response which it is.
struct GrpcServer {
    addr: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl GrpcServer {
    async fn start() -> Result<Self, Box<dyn Error>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let name = HeaderValue::from_str(&addr.to_string())?;
        let (_, health) = tonic_health::server::health_reporter();
        let (stop, stopped) = oneshot::channel::<()>();
        let sign = move |mut response: Response<Body>| {
            response.headers_mut().insert(SERVED_BY, name.clone());
            response
        };
        let serving = Server::builder()
            .layer(MapResponseLayer::new(sign))
            .add_service(health)
            .serve_with_incoming_shutdown(TcpIncoming::from(listener), async {
                drop(stopped.await);
            });
        Ok(Self {
            addr,
            stop,
            serving: tokio::spawn(serving),
        })
    }

    /// Finishes what it has; after that its port refuses.
    async fn stop(self) -> Result<SocketAddr, Box<dyn Error>> {
        drop(self.stop);
        self.serving.await??;
        Ok(self.addr)
    }
}

const SERVED_BY: &str = "x-served-by";

/// Per scene; every number of servers divides it.
const CALLS: usize = 60;
