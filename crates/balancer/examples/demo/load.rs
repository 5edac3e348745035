//! A bounded load of keep-alive clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderMap};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Failure;
use crate::backend::ANSWERED_BY;
use crate::proxy::ATTEMPT_COUNT;
use crate::record::{Answer, Record, Sample};

/// Clients that ask as fast as they are answered, until the [`Record`] says that it is over.
#[derive(Debug)]
pub(crate) struct Load {
    record: Arc<Record>,
    clients: JoinSet<Tally>,
}

/// What the clients have to tell in the end.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) samples: Vec<Sample>,
    /// Connections to the proxy: as many as clients, if all were kept alive.
    pub(crate) connections: usize,
}

impl Load {
    pub(crate) fn start(clients: usize, proxy: SocketAddr, record: &Arc<Record>) -> Self {
        Self {
            record: Arc::clone(record),
            clients: (0..clients)
                .map(|_| client(proxy, Arc::clone(record)))
                .collect(),
        }
    }

    /// Stops asking, waits for the answers that are due, and adds up.
    pub(crate) async fn finish(mut self) -> Result<Tally, Failure> {
        self.record.stop();
        let mut sum = Tally::default();
        while let Some(tally) = self.clients.join_next().await {
            let tally = tally?;
            sum.samples.extend(tally.samples);
            sum.connections += tally.connections;
        }
        Ok(sum)
    }
}

/// The path by which `key` is asked for.
fn path(key: usize) -> String {
    format!("/key-{key}")
}

async fn client(proxy: SocketAddr, record: Arc<Record>) -> Tally {
    let mut tally = Tally::default();
    let mut connection = None;
    while let Some(asked) = record.next() {
        let begun = Instant::now();
        let path = path(asked.key);
        match ask(proxy, &mut connection, &path, &mut tally.connections).await {
            Ok(answer) => {
                let sample = record.answered(asked, answer, begun.elapsed());
                tally.samples.push(sample);
            }
            Err(why) => {
                record.failed(asked, &why.to_string());
                connection = None;
            }
        }
    }
    tally
}

/// One request over the client's connection, which is opened if there is none.
async fn ask(
    proxy: SocketAddr,
    connection: &mut Option<SendRequest<Empty<Bytes>>>,
    path: &str,
    opened: &mut usize,
) -> Result<Answer, Failure> {
    let sender = match connection {
        Some(sender) => sender,
        None => {
            *opened += 1;
            connection.insert(connect(proxy).await?)
        }
    };
    sender.ready().await?;
    let request = Request::get(path)
        .header(HOST, proxy.to_string())
        .body(Empty::new())?;
    read(path, sender.send_request(request).await?).await
}

async fn connect(proxy: SocketAddr) -> Result<SendRequest<Empty<Bytes>>, Failure> {
    let stream = TcpStream::connect(proxy).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with its sender; what goes wrong on it, the sender reports.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Anything but the whole right answer is a failure.
async fn read(path: &str, response: Response<Incoming>) -> Result<Answer, Failure> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(format!("status {}", head.status).into());
    }
    let body = Limited::new(body, BODY_LIMIT).collect().await?.to_bytes();
    if body != path {
        return Err(format!("{} bytes that are not the answer", body.len()).into());
    }
    Ok(Answer {
        backend: number(&head.headers, ANSWERED_BY)?,
        attempts: number(&head.headers, ATTEMPT_COUNT.as_str())?,
    })
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Result<T, Failure> {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .ok_or_else(|| format!("no number in the header {name}").into())
}

const BODY_LIMIT: usize = 1024;
