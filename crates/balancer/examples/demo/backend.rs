//! A real HTTP/1.1 backend on loopback that can die, come back on its port, fail, and drain.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// The response header that says which backend answered, as its index.
pub(crate) const ANSWERED_BY: &str = "x-backend";

/// Where a backend says whether it is ready.
pub(crate) const HEALTH: &str = "/health";

/// One backend process, as far as the network can tell.
#[derive(Debug)]
pub(crate) struct Backend {
    addr: SocketAddr,
    desk: Arc<Desk>,
    life: Life,
}

/// How it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Temper {
    Well,
    /// Not ready yet, and it says so: [`HEALTH`] is answered with 503.
    Starting,
    /// It answers 500 to every request, though it takes itself for healthy.
    Failing,
    /// It takes its time.
    Slow,
}

/// What all its connections share.
#[derive(Debug)]
struct Desk {
    index: usize,
    temper: AtomicU8,
    asked: AtomicU64,
    checked: AtomicU64,
    failed: AtomicU64,
    cut: AtomicU64,
}

impl Backend {
    /// A backend on a free port of loopback.
    pub(crate) async fn start(index: usize) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let desk = Arc::new(Desk {
            index,
            temper: AtomicU8::new(Temper::Well as u8),
            asked: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        });
        let life = Life::run(listener, &desk);
        Ok(Self { addr, desk, life })
    }

    pub(crate) fn index(&self) -> usize {
        self.desk.index
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Requests that have reached it, health checks not counted.
    pub(crate) fn asked(&self) -> u64 {
        self.desk.asked.load(Ordering::SeqCst)
    }

    /// Health checks that have reached it.
    pub(crate) fn checked(&self) -> u64 {
        self.desk.checked.load(Ordering::SeqCst)
    }

    /// Requests that it answered with 500.
    pub(crate) fn failed(&self) -> u64 {
        self.desk.failed.load(Ordering::SeqCst)
    }

    /// Requests that it was working on when it died.
    pub(crate) fn cut(&self) -> u64 {
        self.desk.cut.load(Ordering::SeqCst)
    }

    pub(crate) fn turn(&self, temper: Temper) {
        self.desk.temper.store(temper as u8, Ordering::SeqCst);
    }

    /// Closes the listener and every connection, whatever they are doing: from here on the port
    /// refuses.
    pub(crate) async fn die(&mut self) -> io::Result<()> {
        self.life.stop(Stop::Now).await?;
        // Bound but not listening, so that nobody is given the port while its owner is dead.
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(self.addr)?;
        self.life = Life::Dead(socket);
        Ok(())
    }

    /// Listens on the old port again, after [`die`](Self::die).
    pub(crate) fn come_back(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.life, Life::Gone) {
            Life::Dead(socket) => {
                let listener = socket.listen(BACKLOG)?;
                self.life = Life::run(listener, &self.desk);
                Ok(())
            }
            other => {
                self.life = other;
                Err(io::Error::other("only a dead backend comes back"))
            }
        }
    }

    /// Closes the listener, finishes what is in flight, and only then closes the connections.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        self.life.stop(Stop::Gracefully).await
    }
}

impl Desk {
    fn is(&self, temper: Temper) -> bool {
        self.temper.load(Ordering::SeqCst) == temper as u8
    }

    /// The status of an answer, of the one kind or the other.
    fn status(&self, path: &str) -> StatusCode {
        if path == HEALTH && self.is(Temper::Starting) {
            StatusCode::SERVICE_UNAVAILABLE
        } else if path != HEALTH && self.is(Temper::Failing) {
            self.failed.fetch_add(1, Ordering::SeqCst);
            StatusCode::INTERNAL_SERVER_ERROR
        } else {
            StatusCode::OK
        }
    }

    /// 1 to 3 ms, always the same for one path: long enough that a death finds requests in flight.
    /// Some thirty times that if it is slow, so that a drain can be watched.
    fn work_time(&self, path: &str) -> Duration {
        let sum: u64 = path.bytes().map(u64::from).sum();
        match self.is(Temper::Slow) {
            true => Duration::from_millis(20 + 10 * (sum % 11)),
            false => Duration::from_millis(1 + sum % 3),
        }
    }
}

#[derive(Debug)]
enum Life {
    Up {
        stop: oneshot::Sender<Stop>,
        serving: JoinHandle<()>,
    },
    Dead(TcpSocket),
    Gone,
}

#[derive(Clone, Copy, Debug)]
enum Stop {
    Now,
    Gracefully,
}

impl Life {
    fn run(listener: TcpListener, desk: &Arc<Desk>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(listener, Arc::clone(desk), stopped));
        Self::Up { stop, serving }
    }

    async fn stop(&mut self, how: Stop) -> io::Result<()> {
        let Self::Up { stop, serving } = std::mem::replace(self, Self::Gone) else {
            return Err(io::Error::other("the backend does not run"));
        };
        stop.send(how)
            .map_err(|_| io::Error::other("the backend stopped by itself"))?;
        serving.await.map_err(io::Error::other)
    }
}

async fn serve(listener: TcpListener, desk: Arc<Desk>, mut stopped: oneshot::Receiver<Stop>) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let how = loop {
        tokio::select! {
            how = &mut stopped => break how.unwrap_or(Stop::Now),
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(connection(stream, &desk, &graceful));
            }
        }
    };
    drop(listener);
    match how {
        Stop::Now => connections.shutdown().await,
        Stop::Gracefully => {
            graceful.shutdown().await;
            while connections.join_next().await.is_some() {}
        }
    }
}

fn connection(
    stream: TcpStream,
    desk: &Arc<Desk>,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + use<> {
    let desk = Arc::clone(desk);
    let service = service_fn(move |request| answer(request, Arc::clone(&desk)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let watched = graceful.watch(connection);
    async move {
        // A peer that goes away is its own business; what a client misses, the client counts.
        drop(watched.await);
    }
}

async fn answer(
    request: Request<Incoming>,
    desk: Arc<Desk>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    if path == HEALTH {
        desk.checked.fetch_add(1, Ordering::SeqCst);
        return Ok(respond(desk.status(path), path));
    }
    desk.asked.fetch_add(1, Ordering::SeqCst);
    let work = Work::start(&desk);
    tokio::time::sleep(desk.work_time(path)).await;
    let mut response = respond(desk.status(path), path);
    let index = HeaderValue::from(desk.index);
    response.headers_mut().insert(ANSWERED_BY, index);
    work.finish();
    Ok(response)
}

fn respond(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_owned()));
    *response.status_mut() = status;
    response
}

/// One request that the backend works on. Dropped unfinished, it was cut.
struct Work<'a> {
    desk: &'a Desk,
    finished: bool,
}

impl<'a> Work<'a> {
    fn start(desk: &'a Desk) -> Self {
        Self {
            desk,
            finished: false,
        }
    }

    fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.desk.cut.fetch_add(1, Ordering::SeqCst);
        }
    }
}

const BACKLOG: u32 = 1024;
