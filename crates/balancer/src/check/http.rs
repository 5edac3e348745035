//! A check that asks over HTTP/1.1.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::header::{CONNECTION, HOST, HeaderValue, InvalidHeaderValue, USER_AGENT};
use http::uri::{InvalidUri, PathAndQuery};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use super::tcp::{Stream, connect};
use crate::{Address, Backend, CheckError, HealthCheck, Thresholds};

/// Passes if a request is answered with an expected status, and a body that holds an expected text
/// if there is one. HTTP/1.1, without TLS.
///
/// The whole answer is read, up to a limit: a server that stalls in the middle of its body is not
/// well.
#[derive(Debug)]
pub struct HttpCheck {
    method: Method,
    path: PathAndQuery,
    /// The `Host` header; the address if there is none.
    host: Option<HeaderValue>,
    statuses: Vec<RangeInclusive<u16>>,
    contains: Option<Box<[u8]>>,
    max_body: usize,
    port: Option<u16>,
    timeout: Duration,
    thresholds: Thresholds,
    /// The connections to use again, if any are to be.
    idle: Option<Mutex<BTreeMap<Address, Connection>>>,
}

impl HttpCheck {
    /// `GET path` of the backend's address, on a new connection each time: any status from 200 to
    /// 299 within one second passes. Rise 2, fall 3.
    ///
    /// # Errors
    ///
    /// [`InvalidUri`] if `path` is not a path, with a query or without.
    pub fn new(path: &str) -> Result<Self, InvalidUri> {
        Ok(Self::with_path(path.parse()?))
    }

    pub(crate) fn with_path(path: PathAndQuery) -> Self {
        Self {
            method: Method::GET,
            path,
            host: None,
            statuses: vec![200..=299],
            contains: None,
            max_body: MAX_BODY,
            port: None,
            timeout: Duration::from_secs(1),
            thresholds: Thresholds::default(),
            idle: None,
        }
    }

    /// With another method, such as `HEAD` or `OPTIONS`.
    #[must_use]
    pub fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// With this `Host` header in place of the backend's address.
    ///
    /// # Errors
    ///
    /// [`InvalidHeaderValue`] if `host` cannot be the value of a header.
    pub fn host(self, host: &str) -> Result<Self, InvalidHeaderValue> {
        Ok(self.host_header(HeaderValue::from_str(host)?))
    }

    pub(crate) fn host_header(self, host: HeaderValue) -> Self {
        let host = Some(host);
        Self { host, ..self }
    }

    /// With these statuses in place of 200 to 299.
    #[must_use]
    pub fn statuses(self, statuses: impl IntoIterator<Item = RangeInclusive<u16>>) -> Self {
        let statuses = statuses.into_iter().collect();
        Self { statuses, ..self }
    }

    /// With these bytes somewhere in the body.
    #[must_use]
    pub fn contains(self, bytes: impl Into<Vec<u8>>) -> Self {
        let contains = Some(bytes.into().into_boxed_slice());
        Self { contains, ..self }
    }

    /// With so many bytes of the body read at most; the rest is left, and its connection closed.
    /// Default: 64 KiB.
    #[must_use]
    pub fn max_body(self, max_body: usize) -> Self {
        Self { max_body, ..self }
    }

    /// With this port in place of that of the backend. A Unix socket has none and is asked as it
    /// is.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self {
            port: Some(port),
            ..self
        }
    }

    /// With one connection to each backend that is kept from check to check.
    ///
    /// If it turns out to be closed, the check is repeated on a new one.
    #[must_use]
    pub fn reuse_connections(self) -> Self {
        Self {
            idle: Some(Mutex::default()),
            ..self
        }
    }

    /// With so much time for the whole of it, connecting included.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// With this many passes in a row that bring a backend up.
    #[must_use]
    pub fn rise(mut self, passes: u32) -> Self {
        self.thresholds.rise = passes;
        self
    }

    /// With this many failures in a row that take a backend down.
    #[must_use]
    pub fn fall(mut self, failures: u32) -> Self {
        self.thresholds.fall = failures;
        self
    }
}

#[async_trait]
impl HealthCheck for HttpCheck {
    async fn check(&self, backend: &Backend) -> Result<(), CheckError> {
        let addr = self.target(&backend.addr);
        let kept = self.idle().and_then(|mut idle| idle.remove(&backend.addr));
        if let Some(mut kept) = kept
            // If this fails it was closed while it lay idle, as a rule. A new one will tell.
            && let Ok(answer) = self.ask(&mut kept, &addr).await
        {
            return self.judge(&backend.addr, answer, kept);
        }
        let mut new = open(&addr).await.map_err(CheckError::new)?;
        let answer = self.ask(&mut new, &addr).await.map_err(CheckError::new)?;
        self.judge(&backend.addr, answer, new)
    }

    fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    fn time_limit(&self) -> Duration {
        self.timeout
    }

    fn forget(&self, backend: &Backend) {
        if let Some(mut idle) = self.idle() {
            idle.remove(&backend.addr);
        }
    }
}

/// What came back.
struct Answer {
    status: StatusCode,
    body: Vec<u8>,
    /// Whether its connection is of no more use: closed, or with more of the body to come.
    is_last: bool,
}

impl HttpCheck {
    fn target(&self, addr: &Address) -> Address {
        match (addr, self.port) {
            (Address::Inet(addr), Some(port)) => {
                let mut addr = *addr;
                addr.set_port(port);
                Address::Inet(addr)
            }
            _ => addr.clone(),
        }
    }

    fn idle(&self) -> Option<MutexGuard<'_, BTreeMap<Address, Connection>>> {
        let idle = self.idle.as_ref()?;
        Some(idle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn ask(
        &self,
        connection: &mut Connection,
        addr: &Address,
    ) -> Result<Answer, hyper::Error> {
        let request = self.request(addr);
        let Connection { sender, driver } = connection;
        let exchange = async {
            sender.ready().await?;
            read(sender.send_request(request).await?, self.max_body).await
        };
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            // It ends first if the server closes it; what it has received can still be read.
            _ = driver => {
                let answer = exchange.await?;
                Ok(Answer { is_last: true, ..answer })
            }
        }
    }

    fn request(&self, addr: &Address) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(self.path.clone());
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone().unwrap_or_else(|| host(addr)));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static("balancer-health-check"),
        );
        if self.idle.is_none() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        request
    }

    /// Whether the answer is as expected. Its connection is kept if it can be used again.
    fn judge(
        &self,
        addr: &Address,
        answer: Answer,
        connection: Connection,
    ) -> Result<(), CheckError> {
        if !answer.is_last
            && let Some(mut idle) = self.idle()
        {
            idle.insert(addr.clone(), connection);
        }
        let status = answer.status.as_u16();
        if !self.statuses.iter().any(|range| range.contains(&status)) {
            return Err(CheckError::new(format!("status {status}")));
        }
        match &self.contains {
            Some(expected) if !holds(&answer.body, expected) => {
                Err(CheckError::new("the body does not hold the expected text"))
            }
            _ => Ok(()),
        }
    }
}

/// An open connection, and what has to be polled for anything to move on it.
struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    driver: Driver,
}

type Driver = Pin<Box<http1::Connection<TokioIo<Box<dyn Stream>>, Empty<Bytes>>>>;

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

async fn open(addr: &Address) -> Result<Connection, Box<dyn std::error::Error + Send + Sync>> {
    let io = TokioIo::new(connect(addr).await?);
    let (sender, driver) = http1::handshake(io).await?;
    Ok(Connection {
        sender,
        driver: Box::pin(driver),
    })
}

async fn read(response: Response<Incoming>, max: usize) -> Result<Answer, hyper::Error> {
    let status = response.status();
    let mut incoming = response.into_body();
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame?;
        let data = frame.data_ref().map_or(&[][..], |data| &data[..]);
        let room = max - body.len();
        body.extend_from_slice(&data[..room.min(data.len())]);
        if data.len() > room {
            return Ok(Answer {
                status,
                body,
                is_last: true,
            });
        }
    }
    Ok(Answer {
        status,
        body,
        is_last: false,
    })
}

/// The `Host` header for an address. That of a Unix socket is `localhost`, as curl has it.
fn host(addr: &Address) -> HeaderValue {
    addr.as_inet()
        .and_then(|addr| HeaderValue::from_str(&addr.to_string()).ok())
        .unwrap_or_else(|| HeaderValue::from_static("localhost"))
}

fn holds(body: &[u8], expected: &[u8]) -> bool {
    expected.is_empty()
        || body
            .windows(expected.len())
            .any(|window| window == expected)
}

const MAX_BODY: usize = 64 * 1024;
