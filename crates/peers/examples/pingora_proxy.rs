//! A proxy on pingora-proxy whose `upstream_peer` asks our balancer.
//!
//! ```text
//! cargo run --manifest-path crates/peers/Cargo.toml --features pingora-proxy --example pingora_proxy
//! ```
//!
//! It builds pingora first, which takes minutes and needs cmake. Then it starts the proxy and five
//! servers on loopback, of which two are well, one refuses connections, one answers 503 and one
//! closes the connection in place of an answer; sends 300 requests and prints who answered them. It
//! fails if one of them was not answered.
//!
//! What is worth copying:
//!
//! - The context of a request holds its `Attempts` and the `Pick` under way: `upstream_peer`, which
//!   pingora calls again for a retry, takes the next backend, and never the same twice.
//! - Each hook by which an attempt ends tells the pick how: `fail_to_connect`, `error_while_proxy`,
//!   and `logging` for the rest. A request whose client leaves tells nothing of the backend; the pick
//!   is dropped with the context.
//! - An answer of 500, 502, 503 or 504 becomes an error that can be retried, as long as another
//!   attempt may be made, and is passed on after that.
//! - The balancer's loops run as a background service of pingora's.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a program, not the library: it starts servers of its own"
)]

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use balancer::selection::{Consistent, FailureKind, Outcome};
use balancer::{Attempts, Backend, Consecutive, LoadBalancer, Options, Passive, Pick, Static};
use pingora_core::server::configuration::ServerConf;
use pingora_core::server::{RunArgs, Server, ShutdownSignal, ShutdownSignalWatch, ShutdownWatch};
use pingora_core::services::background::{BackgroundService, background_service};
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorSource, ErrorType, Result};
use pingora_http::ResponseHeader;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;

// ===== the proxy =====

/// Sends each request where the balancer says, by its path.
struct Route {
    balancer: Arc<LoadBalancer<Consistent>>,
}

/// One request on its way.
struct Way {
    begun: Instant,
    attempts: Option<Attempts<Consistent, Vec<u8>>>,
    tries: usize,
    /// The attempt under way, until it is told how it ended.
    pick: Option<Pick>,
}

impl Way {
    fn end(&mut self, outcome: Outcome) {
        if let Some(pick) = self.pick.take() {
            pick.complete(outcome);
        }
    }

    fn may_go_on(&self) -> bool {
        self.tries < MAX_ATTEMPTS
    }
}

#[async_trait]
impl ProxyHttp for Route {
    type CTX = Way;

    fn new_ctx(&self) -> Way {
        Way {
            begun: Instant::now(),
            attempts: None,
            tries: 0,
            pick: None,
        }
    }

    async fn upstream_peer(&self, session: &mut Session, way: &mut Way) -> Result<Box<HttpPeer>> {
        let path = || session.req_header().uri.path().as_bytes().to_vec();
        let attempts = way
            .attempts
            .get_or_insert_with(|| self.balancer.attempts(path()));
        let Some(pick) = attempts.next() else {
            return Error::e_explain(ErrorType::HTTPStatus(503), "no backend may be picked");
        };
        let addr = pick.addr.as_inet();
        let addr = addr.ok_or_else(|| Error::explain(ErrorType::InternalError, "a Unix socket"))?;
        way.tries += 1;
        way.pick = Some(pick);
        let mut peer = HttpPeer::new(addr, false, String::new());
        peer.options.connection_timeout = Some(CONNECT_TIMEOUT);
        peer.options.read_timeout = Some(READ_TIMEOUT);
        Ok(Box::new(peer))
    }

    /// Nothing has been sent: whatever the request does, another backend may have it.
    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        way: &mut Way,
        mut error: Box<Error>,
    ) -> Box<Error> {
        way.end(Outcome::Failure(FailureKind::Connect));
        error.set_retry(way.may_go_on());
        error
    }

    async fn upstream_response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        way: &mut Way,
    ) -> Result<()> {
        let status = response.status.as_u16();
        if !matches!(status, 500 | 502 | 503 | 504) {
            return Ok(());
        }
        way.end(Outcome::Failure(FailureKind::Status));
        if way.may_go_on() && may_be_sent_again(session) {
            let mut error = Error::explain(ErrorType::HTTPStatus(status), "the backend says so");
            error.as_up();
            error.set_retry(true);
            return Err(error);
        }
        Ok(())
    }

    /// It may have been carried out.
    fn error_while_proxy(
        &self,
        peer: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        way: &mut Way,
        _client_reused: bool,
    ) -> Box<Error> {
        let mut error = error.more_context(format!("peer: {peer}"));
        match error.esource() {
            ErrorSource::Upstream => {
                way.end(Outcome::Failure(failure(&error)));
                error.set_retry(way.may_go_on() && may_be_sent_again(session));
            }
            // The client has left, or we are to blame.
            _ => {
                way.pick = None;
                error.set_retry(false);
            }
        }
        error
    }

    async fn logging(&self, _: &mut Session, error: Option<&Error>, way: &mut Way) {
        if error.is_none() {
            let latency = way.begun.elapsed();
            way.end(Outcome::success(latency));
        }
    }
}

/// Whether the request may be carried out twice, and all of it is still at hand.
fn may_be_sent_again(session: &Session) -> bool {
    session.req_header().method.is_idempotent() && !session.as_ref().retry_buffer_truncated()
}

fn failure(error: &Error) -> FailureKind {
    match error.etype() {
        ErrorType::ReadTimedout | ErrorType::WriteTimedout => FailureKind::Timeout,
        _ => FailureKind::Protocol,
    }
}

/// The loops of the balancer, for as long as the server runs.
struct Follow {
    balancer: Arc<LoadBalancer<Consistent>>,
}

#[async_trait]
impl BackgroundService for Follow {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let balancer = Arc::clone(&self.balancer);
        let stopped = async move { drop(shutdown.wait_for(|stop| *stop).await) };
        balancer.run(stopped).await;
    }
}

/// Runs the server on this address until it is told to stop.
fn serve(addr: SocketAddr, balancer: Arc<LoadBalancer<Consistent>>, stop: Stop) {
    let conf = ServerConf {
        threads: 1,
        max_retries: MAX_ATTEMPTS,
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let route = Route {
        balancer: Arc::clone(&balancer),
    };
    let mut proxy = http_proxy_service(&server.configuration, route);
    proxy.add_tcp(&addr.to_string());
    server.add_service(proxy);
    server.add_service(background_service("balancer", Follow { balancer }));
    server.run(RunArgs {
        shutdown_signal: Box::new(stop),
    });
}

/// In place of a signal.
struct Stop(Mutex<Option<oneshot::Receiver<()>>>);

#[async_trait]
impl ShutdownSignalWatch for Stop {
    async fn recv(&self) -> ShutdownSignal {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match told {
            Some(told) => drop(told.await),
            None => std::future::pending().await,
        }
        ShutdownSignal::FastShutdown
    }
}

// ===== the servers and the client =====

/// What a server does with a request.
#[derive(Clone, Copy)]
enum Manner {
    Answers,
    Says503,
    Cuts,
}

fn main() -> std::result::Result<(), Box<dyn StdError>> {
    let runtime = tokio::runtime::Runtime::new()?;
    let (proxy_port, proxy) = reserve()?;
    let (_refusing_port, refusing) = reserve()?;
    let servers = runtime.block_on(async {
        Ok::<_, std::io::Error>([
            (start(Manner::Answers).await?, "is well"),
            (start(Manner::Answers).await?, "is well"),
            (start(Manner::Says503).await?, "says 503"),
            (start(Manner::Cuts).await?, "cuts off"),
            (refusing, "refuses"),
        ])
    })?;
    // The three that are not well may be put aside, being 60 percent of all.
    let passive = Consecutive::default().failures(3).max_ejection_percent(60);
    let backends = servers.map(|(addr, _)| Backend::new(addr));
    let balancer = LoadBalancer::<Consistent>::builder(Static::new(backends), Default::default())
        .options(Options::default().passive(Passive::Consecutive(passive)))
        .build()?;
    let balancer = Arc::new(balancer);
    runtime.block_on(balancer.update())?;

    let (stop, stopped) = oneshot::channel();
    let stopped = Stop(Mutex::new(Some(stopped)));
    let for_proxy = Arc::clone(&balancer);
    let serving = std::thread::spawn(move || serve(proxy, for_proxy, stopped));
    let mut answers = BTreeMap::<SocketAddr, usize>::new();
    runtime.block_on(async {
        until_listening(proxy).await?;
        for n in 0..REQUESTS {
            let (status, body) = get(proxy, n).await?;
            if status != 200 {
                return Err(format!("request {n} got {status}").into());
            }
            *answers.entry(body.trim().parse()?).or_default() += 1;
        }
        Ok::<_, Box<dyn StdError>>(())
    })?;
    report(&servers, &answers, &balancer);
    drop(stop);
    serving.join().map_err(|_| "the proxy panicked")?;
    drop(proxy_port);
    Ok(())
}

fn report(
    servers: &[(SocketAddr, &str)],
    answers: &BTreeMap<SocketAddr, usize>,
    balancer: &LoadBalancer<Consistent>,
) {
    println!("{:<34}{:>9}{:>9}", "backend", "answers", "failures");
    let status = balancer.status().backends;
    for (addr, about) in servers {
        let found = status.iter().find(|it| it.addr.as_inet() == Some(*addr));
        let Some(backend) = found else { continue };
        let name = format!("{addr}, {about}");
        let count = answers.get(addr).copied().unwrap_or_default();
        let reason = backend.reason.as_deref().unwrap_or_default();
        let (failures, condition) = (backend.failures, backend.condition);
        println!("{name:<34}{count:>9}{failures:>9}  {condition} {reason}");
    }
    let failures: u64 = status.iter().map(|backend| backend.failures).sum();
    let in_flight: u32 = status.iter().map(|backend| backend.in_flight).sum();
    println!(
        "{REQUESTS} requests, {REQUESTS} answered; {failures} attempts failed, {in_flight} in flight"
    );
}

async fn start(manner: Manner) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, manner, addr));
        }
    });
    Ok(addr)
}

/// One request, one answer, and the end. An error is the end too.
async fn connection(
    mut stream: TcpStream,
    manner: Manner,
    addr: SocketAddr,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let status = match manner {
        Manner::Answers => "200 OK",
        Manner::Says503 => "503 Service Unavailable",
        Manner::Cuts => return Ok(()),
    };
    let body = format!("{addr}\n");
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).await
}

/// The status and the body of the proxy's answer.
async fn get(proxy: SocketAddr, n: usize) -> std::result::Result<(u16, String), Box<dyn StdError>> {
    let mut stream = TcpStream::connect(proxy).await?;
    let request = format!("GET /{n} HTTP/1.1\r\nhost: {proxy}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
    let status = head.split(' ').nth(1).ok_or("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// A port that nobody else is given while the socket lives, and that refuses until somebody listens
/// there: pingora cannot say which port it has been given.
fn reserve() -> std::io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let addr = socket.local_addr()?;
    Ok((socket, addr))
}

async fn until_listening(addr: SocketAddr) -> std::result::Result<(), Box<dyn StdError>> {
    let begun = Instant::now();
    while TcpStream::connect(addr).await.is_err() {
        if begun.elapsed() > PATIENCE {
            return Err(format!("the proxy does not listen on {addr}").into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

const REQUESTS: usize = 300;

/// A first try and three further backends: as many as can be sick, and one.
const MAX_ATTEMPTS: usize = 4;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);
