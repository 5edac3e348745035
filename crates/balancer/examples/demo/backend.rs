//! A real HTTP/1.1 backend on loopback that can die, come back on its port, and drain.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// The response header that says which backend answered, as its index.
pub(crate) const ANSWERED_BY: &str = "x-backend";

/// One backend process, as far as the network can tell.
#[derive(Debug)]
pub(crate) struct Backend {
    index: usize,
    addr: SocketAddr,
    cut: Arc<AtomicU64>,
    life: Life,
}

impl Backend {
    /// A backend on a free port of loopback.
    pub(crate) async fn start(index: usize) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let cut = Arc::default();
        let life = Life::run(index, listener, &cut);
        Ok(Self {
            index,
            addr,
            cut,
            life,
        })
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Requests that it was working on when it died.
    pub(crate) fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
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
                self.life = Life::run(self.index, listener, &self.cut);
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
    fn run(index: usize, listener: TcpListener, cut: &Arc<AtomicU64>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(index, listener, Arc::clone(cut), stopped));
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

async fn serve(
    index: usize,
    listener: TcpListener,
    cut: Arc<AtomicU64>,
    mut stopped: oneshot::Receiver<Stop>,
) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let how = loop {
        tokio::select! {
            how = &mut stopped => break how.unwrap_or(Stop::Now),
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(connection(index, stream, &cut, &graceful));
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
    index: usize,
    stream: TcpStream,
    cut: &Arc<AtomicU64>,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + use<> {
    let cut = Arc::clone(cut);
    let service = service_fn(move |request| answer(index, request, Arc::clone(&cut)));
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
    index: usize,
    request: Request<Incoming>,
    cut: Arc<AtomicU64>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let work = Work::start(cut);
    let path = request.uri().path();
    tokio::time::sleep(work_time(path)).await;
    let mut response = Response::new(Full::from(path.to_owned()));
    response
        .headers_mut()
        .insert(ANSWERED_BY, HeaderValue::from(index));
    work.finish();
    Ok(response)
}

/// One request that the backend works on. Dropped unfinished, it was cut.
struct Work {
    cut: Arc<AtomicU64>,
    finished: bool,
}

impl Work {
    fn start(cut: Arc<AtomicU64>) -> Self {
        Self {
            cut,
            finished: false,
        }
    }

    fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.finished {
            self.cut.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// 1 to 3 ms, always the same for one path: long enough that a death finds requests in flight.
fn work_time(path: &str) -> Duration {
    let sum: u64 = path.bytes().map(u64::from).sum();
    Duration::from_millis(1 + sum % 3)
}

const BACKLOG: u32 = 1024;
