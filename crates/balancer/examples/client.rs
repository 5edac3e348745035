//! An HTTP client that picks a backend for every request, on hyper-util's.
//!
//! ```text
//! cargo run -p balancer --example client
//! ```
//!
//! starts four servers on loopback, of which two are well, one answers 503 and one refuses, sends
//! 400 requests and prints who answered them. It fails if one of them was not answered.
//!
//! What is worth copying:
//!
//! - `attempts` gives another backend for every further try, and `take` bounds their number.
//! - Every pick is told how it ended: failures put a backend aside, and selectors that go by latency
//!   (`LeastTime`, `P2c` by peak EWMA) get it from here. This one goes by the requests in flight.
//! - One pool of connections, hyper-util's, is enough: it keeps them apart by address.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a program, not the library: it starts servers of its own and measures"
)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use balancer::{Backend, Consecutive, LoadBalancer, Options, Passive, Pick, Static};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use selection::{FailureKind, Outcome, P2c};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A client of all backends together.
struct BalancedClient {
    balancer: Arc<LoadBalancer<P2c>>,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl BalancedClient {
    fn new(balancer: Arc<LoadBalancer<P2c>>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { balancer, client }
    }

    /// The answer to `GET path` of the first backend that has one.
    ///
    /// A request that may not be carried out twice would have to stop after every failure but
    /// `Connect`: it may have been carried out by the backend that failed.
    async fn get(&self, path: &str) -> Result<Bytes, Unanswered> {
        let mut last = None;
        for pick in self.balancer.attempts(path).take(MAX_ATTEMPTS) {
            let begun = Instant::now();
            let result = timeout(TIMEOUT, self.ask(&pick, path)).await;
            match result.unwrap_or(Err(FailureKind::Timeout)) {
                Ok(answer) => {
                    pick.complete(Outcome::success(begun.elapsed()));
                    return Ok(answer);
                }
                Err(failure) => {
                    last = Some(failure);
                    pick.complete(Outcome::Failure(failure));
                }
            }
        }
        Err(Unanswered { last })
    }

    /// One attempt. The pick, which the caller keeps, holds the request in flight meanwhile: dropping
    /// this future drops it too, and nothing is told of the backend.
    async fn ask(&self, pick: &Pick, path: &str) -> Result<Bytes, FailureKind> {
        let uri = format!("http://{}{path}", pick.addr);
        let uri = uri.parse().map_err(|_| FailureKind::Protocol)?;
        let response = self.client.get(uri).await.map_err(|error| {
            if error.is_connect() {
                FailureKind::Connect
            } else {
                FailureKind::Protocol
            }
        })?;
        if response.status().is_server_error() {
            return Err(FailureKind::Status);
        }
        let body = response.into_body().collect().await;
        Ok(body.map_err(|_| FailureKind::Protocol)?.to_bytes())
    }
}

/// No backend had an answer.
#[derive(Debug)]
struct Unanswered {
    /// How the last one failed; `None` if there was none to ask.
    last: Option<FailureKind>,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(failure) => write!(f, "no backend answered, the last failure is {failure:?}"),
            None => f.write_str("no backend may be picked"),
        }
    }
}

impl Error for Unanswered {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(io::stdout().write_all(run().await?.as_bytes())?)
}

/// Sends the requests; returns who answered them, as a table.
async fn run() -> Result<String, Box<dyn Error>> {
    let (_port, refusing) = refusing()?;
    let servers = [
        (server(StatusCode::OK).await?, "is well"),
        (server(StatusCode::OK).await?, "is well"),
        (server(StatusCode::SERVICE_UNAVAILABLE).await?, "says 503"),
        (refusing, "refuses"),
    ];
    let backends = servers.map(|(addr, _)| Backend::new(addr));
    // Both that are not well may be put aside, being half of all.
    let passive = Passive::Consecutive(Consecutive::default().failures(3));
    let balancer = LoadBalancer::<P2c>::builder(Static::new(backends), Default::default())
        .options(Options::default().passive(passive))
        .build()?;
    let balancer = Arc::new(balancer);
    balancer.update().await?;

    let client = Arc::new(BalancedClient::new(Arc::clone(&balancer)));
    let mut workers: JoinSet<_> = (0..WORKERS).map(|_| work(Arc::clone(&client))).collect();
    let mut answers = BTreeMap::<SocketAddr, u64>::new();
    while let Some(worker) = workers.join_next().await {
        for answer in worker?? {
            let by = std::str::from_utf8(&answer)?.parse()?;
            *answers.entry(by).or_default() += 1;
        }
    }
    Ok(table(&servers, &answers, &balancer))
}

/// Its part of the requests, one after the other.
async fn work(client: Arc<BalancedClient>) -> Result<Vec<Bytes>, Unanswered> {
    let mut answers = Vec::new();
    for n in 0..REQUESTS / WORKERS {
        answers.push(client.get(&format!("/{n}")).await?);
    }
    Ok(answers)
}

fn table(
    servers: &[(SocketAddr, &str)],
    answers: &BTreeMap<SocketAddr, u64>,
    balancer: &LoadBalancer<P2c>,
) -> String {
    let mut table = format!("{:<34}{:>9}{:>9}\n", "backend", "answers", "failures");
    let status = balancer.status().backends;
    for (addr, about) in servers {
        let found = status
            .iter()
            .find(|backend| backend.addr.as_inet() == Some(*addr));
        let Some(backend) = found else { continue };
        let name = format!("{addr}, {about}");
        let count = answers.get(addr).copied().unwrap_or_default();
        let (failures, condition) = (backend.failures, backend.condition);
        table += &format!("{name:<34}{count:>9}{failures:>9}  {condition}");
        if let Some(reason) = &backend.reason {
            table += &format!(": {reason}");
        }
        table += "\n";
    }
    let answered: u64 = answers.values().sum();
    table + &format!("{answered} of {REQUESTS} requests were answered\n")
}

/// A server that answers with this status and its own address.
async fn server(status: StatusCode) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = move |_: Request<Incoming>| async move {
                let mut response = Response::new(addr.to_string());
                *response.status_mut() = status;
                Ok::<_, Infallible>(response)
            };
            let stream = TokioIo::new(stream);
            tokio::spawn(http1::Builder::new().serve_connection(stream, service_fn(answer)));
        }
    });
    Ok(addr)
}

/// A port that refuses for as long as the socket lives.
fn refusing() -> io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let addr = socket.local_addr()?;
    Ok((socket, addr))
}

const REQUESTS: u64 = 400;
const WORKERS: u64 = 8;

/// A first try and two further backends.
const MAX_ATTEMPTS: usize = 3;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Of one attempt.
const TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_request_is_answered_and_the_sick_are_put_aside() {
        let table = run().await.unwrap();
        // Answers, failures and condition.
        let row = |about: &str| {
            let row = table.lines().find(|row| row.contains(about)).unwrap();
            let mut words = row.split_once(about).unwrap().1.split_whitespace();
            let mut number = || words.next().unwrap().parse::<u64>().unwrap();
            let numbers = (number(), number());
            (numbers, words.next().unwrap())
        };
        for about in ["says 503", "refuses"] {
            let ((answers, failures), condition) = row(about);
            assert_eq!((answers, condition), (0, "ejected:"), "{table}");
            assert!((3..3 + WORKERS).contains(&failures), "{table}");
        }
        let ((answers, failures), condition) = row("is well");
        assert_eq!((failures, condition), (0, "ready"), "{table}");
        assert!(answers > 0, "{table}");
        assert!(
            table.ends_with("400 of 400 requests were answered\n"),
            "{table}"
        );
    }
}
